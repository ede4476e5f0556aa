"""Several coordinators at one port: who may have the port, what each is told, and how their ends are counted."""

import os
import select
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rota.cli import processes
from rota.cli.processes import Member, Processes, cores, reserved, reserved_http
from rota.config import Settings
from rota.domain.errors import FailedPrecondition

HERE = "127.0.0.1:0"


def shared(port: int) -> socket.socket:
    """A listener of one of the processes, as gRPC makes it."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind(("127.0.0.1", port))
    made.listen()
    return made


def test_a_port_is_held_for_all_and_takes_no_connection_itself() -> None:
    with reserved(HERE) as listen:
        host, _, port = listen.rpartition(":")
        assert (host, int(port) > 0) == ("127.0.0.1", True)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), 2)
        with shared(int(port)) as one, shared(int(port)) as other:
            taken = []
            for _ in range(64):
                with socket.create_connection((host, int(port)), 2):
                    (listener,), _, _ = select.select([one, other], [], [], 2)
                    listener.accept()[0].close()
                    taken.append(listener)
            assert set(taken) == {one, other}
    with reserved(listen) as again:
        assert again == listen


def test_a_port_that_others_have_is_refused_even_if_they_would_share_it() -> None:
    with shared(0) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused = pytest.raises(FailedPrecondition, match=r"cannot listen on .* choose another with --listen")
        with refused, reserved(address):
            pass


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(FailedPrecondition, match="not this machine's"), reserved("192.0.2.1:0"):
        pass


def test_all_serve_http_at_the_same_addresses() -> None:
    given = Settings(listen=HERE, http_internal_listen=HERE)
    with reserved(HERE) as listen, reserved_http(given, listen) as found:
        addresses = {listen, found.http_listen, found.http_internal_listen}
        assert len(addresses) == 3
        assert HERE not in addresses
    with reserved_http(replace(given, http_listen="off", http_internal_listen=None), listen) as found:
        assert (found.http_listen, found.http_internal_listen) == ("off", None)
    with shared(0) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused = pytest.raises(FailedPrecondition, match=r"cannot listen on .* choose another with --http-listen")
        with refused, reserved_http(replace(given, http_listen=address), listen):
            pass


@pytest.fixture
def environments(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """Of the processes that would be started."""
    found: list[dict[str, str]] = []

    def remember(number: int, given: Settings, options: object) -> None:
        found.append(given.environ())

    monkeypatch.setattr(processes, "Member", remember)
    return found


def test_each_has_a_port_of_its_own_for_peers(environments: list[dict[str, str]]) -> None:
    given = Settings(listen="0.0.0.0:7070", peer_listen="0.0.0.0:7071", peer_advertise="[2001:db8::7]:9000")
    Processes(given, 3, [])
    assert [each["ROTA_PEER_LISTEN"] for each in environments] == ["0.0.0.0:7071", "0.0.0.0:7072", "0.0.0.0:7073"]
    assert [each["ROTA_PEER_ADVERTISE"].rpartition(":")[2] for each in environments] == ["9000", "9001", "9002"]
    assert {each["ROTA_LISTEN"] for each in environments} == {"0.0.0.0:7070"}


def test_a_free_port_stays_a_free_one(environments: list[dict[str, str]]) -> None:
    Processes(Settings(peer_listen="127.0.0.1:0"), 2, [])
    Processes(Settings(), 2, [])
    assert [each.get("ROTA_PEER_LISTEN") for each in environments] == ["127.0.0.1:0", "127.0.0.1:0", None, None]


class Scripted(Member):
    """Runs a script instead of a coordinator, its number and folder as arguments."""

    script = ""

    def __init__(self, number: int, given: Settings, options: list[str]) -> None:
        super().__init__(number, given, options)
        self._environment = dict(os.environ)
        self._command = [self.script, str(number), str(Path(self.script).parent)]


def run(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str, **settings: float) -> tuple[int, bool]:
    """The exit code of three such processes, and whether all were ready."""
    file = folder / "member.py"
    file.write_text("import os, signal, sys, time\nnumber, folder = int(sys.argv[1]), sys.argv[2]\n" + script)
    monkeypatch.setattr(Scripted, "script", str(file))
    monkeypatch.setattr(processes, "Member", Scripted)
    monkeypatch.setattr("rota.telemetry_logs.configure", lambda *_: None)
    ready: list[bool] = []

    def on_ready() -> None:
        ready.append(True)
        signal.setitimer(signal.ITIMER_REAL, 0.2)

    before = signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    try:
        code = Processes(replace(Settings(drain_timeout_s=0.0), **settings), 3, []).run(on_ready)  # type: ignore[arg-type]
    finally:
        signal.signal(signal.SIGALRM, before)
    return code, bool(ready)


GOOD = """
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
print("ready", flush=True)
while not stop: time.sleep(0.01)
"""


def test_all_end_well(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run(monkeypatch, tmp_path, GOOD) == (0, True)


def test_the_worst_code_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run(monkeypatch, tmp_path, GOOD + "sys.exit([0, 3, 1][number - 1])") == (3, True)


def test_who_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(processes, "STOP_MARGIN_S", 0.3)
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('ready', flush=True)\ntime.sleep(60)"
    assert run(monkeypatch, tmp_path, deaf) == (128 + signal.SIGKILL, True)


def test_one_that_cannot_start_ends_all_and_keeps_the_others_from_trying(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tried = "open(f'{folder}/tried-{number}', 'w').close()\n"
    assert run(monkeypatch, tmp_path, tried + "sys.exit(3)") == (3, False)
    assert [file.name for file in tmp_path.glob("tried-*")] == ["tried-1"]
    later = tried + "if number == 2: sys.exit(1)\n" + GOOD + "open(f'{folder}/ended-{number}', 'w').close()\n"
    assert run(monkeypatch, tmp_path, later) == (1, False)
    assert (tmp_path / "ended-1").exists()
    assert run(monkeypatch, tmp_path, "sys.exit(0)") == (1, False)


def test_what_dies_is_started_again_after_growing_waits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    member = Scripted(2, Settings(), [])
    file = tmp_path / "member.py"
    file.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    member._command = [str(file)]
    member.start(0.0)
    waits = []
    now = 1.0
    for _ in range(9):
        while member.pid:
            member.watch(now)
        waits.append(member._again_at - now)
        member.watch(member._again_at - 0.01)
        assert not member.pid
        now = member._again_at
        member.watch(now)
        assert member.pid
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    while member.pid:
        member.watch(now + processes.LONG_S)
    assert member._again_at == now + processes.LONG_S + 0.5
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "process 2 (pid " in said[0]
    assert "ended by itself, by SIGKILL; it is started again in 0.5 s" in said[0]


def test_cores_are_counted() -> None:
    assert 1 <= cores() <= (os.cpu_count() or 1)
    assert sys.platform != "linux" or cores() == len(os.sched_getaffinity(0))
