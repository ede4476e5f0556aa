"""The faults themselves: each does what the tests that use it take for granted, and no more."""

import itertools
import socket
import threading
import time
from collections.abc import Iterator

import grpc
import psycopg
import pytest
from rota_sdk import AlreadyExists, Client, ConnectionFailed, DeadlineExceeded
from rota_sdk.gen.rota.worker.v1 import worker_pb2, worker_pb2_grpc

from ..faults.answers import AnswerProxy, Rule
from ..faults.tcp import DOWN, UP, Link, Network
from ..harness import CoordinatorProcess, eventually

ANSWER_S = 30.0


class Echo:
    """A server that sends back what it gets."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.heard = b""
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                conn, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=(conn,), daemon=True).start()

    def _echo(self, conn: socket.socket) -> None:
        with conn:
            while data := _receive(conn):
                self.heard += data
                conn.sendall(data)

    def close(self) -> None:
        self._listener.close()


def _receive(conn: socket.socket) -> bytes:
    try:
        return conn.recv(65536)
    except ConnectionResetError:
        return b""


@pytest.fixture
def echo() -> Iterator[Echo]:
    echo = Echo()
    yield echo
    echo.close()


@pytest.fixture
def link(echo: Echo) -> Iterator[Link]:
    with Network() as network:
        yield network.link(echo.address)


def connect(link: Link) -> socket.socket:
    host, _, port = link.address.rpartition(":")
    conn = socket.create_connection((host, int(port)), ANSWER_S)
    conn.settimeout(ANSWER_S)
    return conn


def silent(conn: socket.socket) -> bool:
    conn.settimeout(0.2)
    try:
        return conn.recv(1) is None
    except TimeoutError:
        return True
    finally:
        conn.settimeout(ANSWER_S)


def test_what_is_held_back_arrives_when_the_silence_is_over(link: Link, echo: Echo) -> None:
    with connect(link) as conn:
        conn.sendall(b"a")
        assert conn.recv(1) == b"a"
        link.silence()
        conn.sendall(b"b")
        assert silent(conn)
        assert echo.heard == b"a"
        with connect(link) as second:
            second.sendall(b"c")
            assert silent(second)
            link.heal()
            assert second.recv(1) == b"c"
        assert conn.recv(1) == b"b"


@pytest.mark.parametrize(("direction", "heard"), [(UP, b""), (DOWN, b"a")])
def test_silence_of_one_direction(link: Link, echo: Echo, direction: str, heard: bytes) -> None:
    with connect(link) as conn:
        link.silence(direction)
        conn.sendall(b"a")
        eventually(lambda: echo.heard == heard)
        assert silent(conn)
        assert echo.heard == heard
        link.heal()
        assert conn.recv(1) == b"a"


def test_connections_are_reset_refused_and_taken_again(link: Link) -> None:
    with connect(link) as conn:
        conn.sendall(b"a")
        assert conn.recv(1) == b"a"
        link.reset()
        with pytest.raises(ConnectionResetError):
            conn.recv(1)
    with connect(link) as conn:
        conn.sendall(b"a")
        assert conn.recv(1) == b"a"
        link.refuse()
        with pytest.raises(ConnectionResetError):
            conn.recv(1)
    with pytest.raises(ConnectionRefusedError):
        connect(link)
    link.heal()
    with connect(link) as conn:
        conn.sendall(b"a")
        assert conn.recv(1) == b"a"


def test_a_connection_is_cut_after_so_many_bytes(link: Link) -> None:
    with connect(link) as conn:
        conn.sendall(b"a")
        assert conn.recv(1) == b"a"
        link.cut_after(3)
        conn.sendall(b"bcdef")
        assert conn.recv(10) == b"bcd"
        with pytest.raises(ConnectionResetError):
            conn.recv(1)


def test_bytes_are_delayed(link: Link) -> None:
    with connect(link) as conn:
        link.delay(0.15)
        sent_at = time.monotonic()
        conn.sendall(b"a")
        assert conn.recv(1) == b"a"
        assert time.monotonic() - sent_at >= 0.3


def test_an_idle_connection_is_forgotten_without_a_word(
    link: Link, echo: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead_s = 0.0
    monkeypatch.setattr(link._network._loop, "time", lambda: time.monotonic() + ahead_s)
    link.drop_idle(60)
    with connect(link) as conn:
        for _ in range(3):
            conn.sendall(b"a")
            assert conn.recv(1) == b"a"
            ahead_s += 30
        ahead_s += 31
        conn.sendall(b"b")
        assert silent(conn)
        assert echo.heard == b"aaa"


def test_an_answer_is_lost_after_the_server_has_done_its_part(coordinator: CoordinatorProcess) -> None:
    def jobs() -> int:
        with psycopg.connect(coordinator.database) as conn:
            row = conn.execute("SELECT count(*) FROM jobs").fetchone()
            assert row is not None
            return int(row[0])

    with (
        AnswerProxy(coordinator.address) as proxy,
        Client(proxy.address, api_key=coordinator.key) as client,
        Client(proxy.address, api_key=coordinator.key, timeout=1.0) as hasty,
    ):

        def lose() -> int:
            with pytest.raises(DeadlineExceeded):
                hasty.create_job("quick", "x", request_id="one")
            # Nothing is, where the call itself was late.
            return proxy.counts()["CreateJob lost"]

        assert client.create_job("quick", "x").name
        proxy.set(Rule("CreateJob", lost=1.0))
        eventually(lose)
        assert jobs() == 2
        proxy.set(Rule("CreateJob", unavailable=1.0))
        with pytest.raises(ConnectionFailed):
            client.create_job("quick", "x", request_id="one")
        proxy.set(Rule("CreateJob", repeated=1.0))
        found = client.create_job("quick", "x", request_id="one")
        assert client.get_job(found.name).name == found.name
        # What a server says of an error goes through as it is.
        with pytest.raises(AlreadyExists) as refusal:
            client.create_job("other", "x", request_id="one")
        assert refusal.value.reason == "REQUEST_ID_REUSED"
        assert jobs() == 2
        counts = proxy.counts()
    # gRPC itself makes the call again, as often as it may.
    assert counts["CreateJob unavailable"] == 4


def test_streams_go_through_and_are_cut(coordinator: CoordinatorProcess) -> None:
    metadata = (("authorization", f"Bearer {coordinator.key}"),)
    with AnswerProxy(coordinator.address) as proxy, grpc.insecure_channel(proxy.address) as channel:
        stub = worker_pb2_grpc.WorkerServiceStub(channel)
        session = stub.OpenSession(
            worker_pb2.OpenSessionRequest(worker="w", queues=["default"], request_id="s"), metadata=metadata
        ).session
        proxy.set(Rule("Heartbeat", cut_after_s=3.0))
        gate = threading.Event()

        def beats() -> Iterator[worker_pb2.HeartbeatRequest]:
            yield worker_pb2.HeartbeatRequest(hello=worker_pb2.Hello(session=session))
            for seq in itertools.count(1):
                yield worker_pb2.HeartbeatRequest(beat=worker_pb2.Beat(seq=seq))
                if gate.wait(0.5):
                    return

        call = stub.Heartbeat(beats(), metadata=metadata)
        assert [next(call).ack.seq, next(call).ack.seq] == [0, 1]
        with pytest.raises(grpc.RpcError) as cut:
            for _ in call:
                pass
        gate.set()
        assert cut.value.code() is grpc.StatusCode.UNAVAILABLE
        eventually(lambda: proxy.counts()["Heartbeat cut"] == 1)
