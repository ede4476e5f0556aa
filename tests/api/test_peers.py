"""The way between coordinators over real gRPC: news in order and bounded, links that open again, claims that end."""

import asyncio
import socket
import struct
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

import grpc.aio
import pytest
from rota_sdk.gen.rota.peer.v1 import peer_pb2, peer_pb2_grpc

from rota.api import peercodec, peerwire
from rota.api.peer import PROTOCOL_VERSION, authorization
from rota.api.peerwire import PeerDial, PeerWire
from rota.api.server import PeerListener
from rota.clock import SystemClock
from rota.coordinator.news import Claimed, ClaimWish, Lease, News, Offer
from rota.domain.errors import InvalidArgument, OutcomeUnknown, Unavailable
from rota.domain.ids import CoordinatorId, Fence, JobId, SessionId, ShardNo, TenantId
from rota.domain.model import Grant

from .running import Running, eventually, refusal

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECRET = bytes(range(32))
A, B, C = (CoordinatorId(str(uuid.UUID(int=number))) for number in (0xA, 0xB, 0xC))
SESSION = SessionId(str(uuid.UUID(int=7)))
JOB = JobId(str(uuid.UUID(int=8)))


class Ears:
    """Stands for `coordinator.peers`: writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[CoordinatorId, News]] = []
        self.links: list[object] = []
        self.ended: list[object] = []
        self.wishes: list[ClaimWish] = []
        self.cancelled = 0
        self.answer: Claimed | Exception = Claimed([])
        self.hold: asyncio.Event | None = None

    def listening(self, id: CoordinatorId) -> object:
        self.links.append(object())
        return self.links[-1]

    def hear(self, id: CoordinatorId, news: News) -> None:
        self.heard.append((id, news))

    def deaf(self, id: CoordinatorId, link: object) -> None:
        self.ended.append(link)

    async def claim_for(self, wish: ClaimWish) -> Claimed:
        self.wishes.append(wish)
        await self._held()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def take_over(self, id: CoordinatorId, shards: Sequence[ShardNo]) -> list[ShardNo]:
        await self._held()
        return list(shards[:2])

    async def _held(self) -> None:
        try:
            if self.hold is not None:
                await self.hold.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    @property
    def fences(self) -> list[int]:
        """Of the leases that it was told have ended, in order."""
        return [lease.fence for _, news in self.heard for lease in news.settled]


class Calls:
    """What a wire says of itself."""

    def __init__(self) -> None:
        self.opened = 0
        self.room = 0

    def on_open(self) -> None:
        self.opened += 1

    def on_room(self) -> None:
        self.room += 1


@asynccontextmanager
async def listening(ears: Ears, id: CoordinatorId = B, port: int = 0) -> AsyncIterator[int]:
    """A coordinator's listener; its port."""
    listener = PeerListener()
    port = listener.bind(f"127.0.0.1:{port}", None)
    await listener.start(id, ears, SECRET)
    try:
        yield port
    finally:
        await listener.stop()


@asynccontextmanager
async def dialled(
    port: int, calls: Calls | None = None, *, peer: CoordinatorId = B, me: CoordinatorId = A, secret: bytes = SECRET
) -> AsyncIterator[PeerWire]:
    calls = calls or Calls()
    dial = PeerDial(me, secret, None, SystemClock())
    wire = dial(peer, f"127.0.0.1:{port}", on_open=calls.on_open, on_room=calls.on_room)
    try:
        yield wire
    finally:
        await wire.close()


@dataclass
class Pair:
    """An open link."""

    ears: Ears
    calls: Calls
    wire: PeerWire
    port: int


@asynccontextmanager
async def linked() -> AsyncIterator[Pair]:
    ears, calls = Ears(), Calls()
    async with listening(ears) as port, dialled(port, calls) as wire:
        await eventually(lambda: calls.opened)
        yield Pair(ears, calls, wire, port)


def settled(*fences: int) -> News:
    return News(settled=[Lease(JOB, Fence(fence)) for fence in fences])


def wish(capacity: int = 1) -> ClaimWish:
    return ClaimWish(A, TenantId(7), "acme", SESSION, 3, 11, (1, 2), capacity, 1 << 20)


def grant(number: int, payload: bytes = b"{}") -> Grant:
    return Grant(
        tenant_id=TenantId(7),
        job_id=JobId(str(uuid.UUID(int=number))),
        shard=ShardNo(5),
        fence=Fence(number),
        session_id=SESSION,
        attempt=1,
        attempts_counted=0,
        max_attempts=5,
        type="t",
        queue="q",
        priority=4,
        payload=payload,
        content_type="application/json",
        headers={"a": "b"},
        effect_key="k",
        generation=0,
        run_timeout_s=1.5,
        deadline_s=None,
        due_at=datetime(2026, 1, 1, tzinfo=UTC),
        traceparent="",
        tracestate="",
    )


async def test_news_arrive_whole_and_in_order() -> None:
    async with linked() as pair:
        for number in range(1, 41):
            assert pair.wire.send(settled(number))
        assert pair.wire.send(News(armed=True, offers={1: Offer(1, 2, 0.5)}))
        await eventually(lambda: len(pair.ears.heard) == 41)
        assert pair.ears.fences == list(range(1, 41))
        assert pair.ears.heard[-1] == (A, News(armed=True, offers={1: Offer(1, 2, 0.5)}))
        assert pair.calls.opened == 1


async def test_both_ways_are_links_of_their_own() -> None:
    one, other = Ears(), Ears()
    async with (
        listening(one, A) as here,
        listening(other, B) as there,
        dialled(there, peer=B, me=A) as to_other,
        dialled(here, peer=A, me=B) as to_one,
    ):
        await eventually(lambda: to_other.is_open and to_one.is_open)
        assert to_other.send(settled(1))
        assert to_one.send(settled(2))
        await eventually(lambda: one.heard and other.heard)
        assert (one.heard, other.heard) == ([(B, settled(2))], [(A, settled(1))])


async def test_a_peer_that_does_not_read_gets_64_messages_and_room_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader of this test acknowledges only when told to."""
    async with slow_reader() as (reader, port):
        calls = Calls()
        async with dialled(port, calls) as wire:
            await eventually(lambda: calls.opened)
            taken = 0
            while wire.send(settled(taken + 1)):
                taken += 1
            assert taken == peerwire.UNREAD_MAX
            assert not wire.send(settled(1))
            await eventually(lambda: len(reader.seqs) == 64)
            assert reader.seqs == list(range(1, 65))
            assert calls.room == 0
            reader.ack.put_nowait(1)
            await eventually(lambda: calls.room == 1)
            assert wire.send(settled(65))
            assert not wire.send(settled(66))
            reader.ack.put_nowait(65)
            await eventually(lambda: calls.room == 2)
            assert reader.seqs == list(range(1, 66))


async def test_news_of_more_messages_than_may_be_unread_go_when_nothing_else_is_on_the_way() -> None:
    async with linked() as pair:
        much = settled(*range(1, 70_001))
        assert len(peercodec.messages(much)) == 70 > peerwire.UNREAD_MAX
        assert pair.wire.send(much)
        assert not pair.wire.send(settled(70_001))
        await eventually(lambda: pair.calls.room == 1)
        assert pair.wire.send(settled(70_001))
        await eventually(lambda: len(pair.ears.fences) == 70_001)
        assert pair.ears.fences == list(range(1, 70_002))


async def test_a_link_opens_again_when_the_server_is_back() -> None:
    ears, calls = Ears(), Calls()
    async with listening(ears) as port, dialled(port, calls) as wire:
        await eventually(lambda: calls.opened == 1)
    assert not wire.is_open
    async with dialled(port, calls) as wire:
        await asyncio.sleep(0.2)
        assert not wire.send(settled(1))
        again = Ears()
        async with listening(again, port=port):
            await eventually(lambda: calls.opened == 2, within_s=5)
            assert wire.send(settled(1))
            await eventually(lambda: again.heard)
        await eventually(lambda: not wire.is_open)
        assert not wire.send(settled(2))
        assert [len(ears.links), len(again.links), again.ended] == [1, 1, again.links]
        async with listening(Ears(), port=port):
            await eventually(lambda: calls.opened == 3, within_s=5)
    assert ears.ended == ears.links


async def test_what_is_told_last_is_read_before_the_end() -> None:
    ears, calls = Ears(), Calls()
    async with listening(ears) as port:
        async with dialled(port, calls) as wire:
            await eventually(lambda: calls.opened)
            for number in range(1, 51):
                assert wire.send(settled(number))
        assert ears.fences == list(range(1, 51))
        assert not wire.send(settled(51))
        await eventually(lambda: ears.ended == ears.links)
        with pytest.raises(Unavailable):
            await wire.claim(wish())


@pytest.mark.parametrize("case", ["secret", "callee"])
async def test_strangers_get_no_link(case: str) -> None:
    ears, calls = Ears(), Calls()
    async with listening(ears) as port:
        wrong = {"secret": bytes(32)} if case == "secret" else {"peer": C}
        async with dialled(port, calls, **wrong) as wire:  # type: ignore[arg-type]
            await asyncio.sleep(0.3)
            assert (calls.opened, ears.links, wire.is_open) == (0, [], False)


@pytest.mark.parametrize("credential", [None, "Peer", f"Peer {bytes(32).hex()}", f"Bearer {SECRET.hex()}"])
async def test_every_call_needs_the_secret(credential: str | None) -> None:
    ears = Ears()
    metadata = () if credential is None else (("authorization", credential),)
    async with listening(ears) as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = peer_pb2_grpc.PeerServiceStub(channel)
        give = peer_pb2.HandOverShardsRequest(coordinator=f"coordinators/{A}", shards=[1])
        for call in (
            stub.Claim(peercodec.claim_request(wish()), metadata=metadata),
            stub.HandOverShards(give, metadata=metadata),
            stub.Link(metadata=metadata),
        ):
            assert await call.code() is grpc.StatusCode.UNAUTHENTICATED
    assert (ears.wishes, ears.links) == ([], [])


async def test_the_public_server_knows_no_peers(rota: Running) -> None:
    stub = peer_pb2_grpc.PeerServiceStub(rota.channel)
    secret = await rota_secret(rota)
    found = await refusal(stub.Claim(peercodec.claim_request(wish()), metadata=(authorization(secret),)))
    assert found.code is grpc.StatusCode.UNIMPLEMENTED
    assert await stub.Link(metadata=(authorization(secret),)).code() is grpc.StatusCode.UNIMPLEMENTED


async def rota_secret(rota: Running) -> bytes:
    from rota.store.engine import Database
    from rota.store.identity import PgIdentity

    database = Database(rota.url)
    try:
        secret = await PgIdentity(database).peer_secret()
    finally:
        await database.close()
    assert len(secret) == 32
    return secret


async def test_a_claim_is_carried_out_and_answered() -> None:
    async with linked() as pair:
        granted = [grant(number, b"x" * 3000) for number in range(1, 1001)]
        pair.ears.answer = Claimed(granted, (Offer(1, 5, -2.5), Offer(2, 0)))
        assert await pair.wire.claim(wish(1000)) == pair.ears.answer
        assert pair.ears.wishes == [wish(1000)]


async def test_shards_are_offered_and_taken() -> None:
    async with linked() as pair:
        assert await pair.wire.hand_over([ShardNo(3), ShardNo(1), ShardNo(2)]) == [ShardNo(3), ShardNo(1)]


@pytest.mark.parametrize(
    ("told", "means"),
    [
        (Unavailable("leaving", reason="DRAINING"), Unavailable),
        (OutcomeUnknown("lost in the middle"), OutcomeUnknown),
        (InvalidArgument.field("shards", "odd"), Unavailable),
        (ZeroDivisionError(), OutcomeUnknown),
    ],
)
async def test_a_refusal_says_whether_anything_may_have_happened(told: Exception, means: type[Exception]) -> None:
    async with linked() as pair:
        pair.ears.answer = told
        with pytest.raises(Unavailable) as refused:
            await pair.wire.claim(wish())
        assert type(refused.value) is means
        if isinstance(told, Unavailable):
            assert refused.value.reason == told.reason
        assert pair.wire.is_open


async def test_a_claim_ends_at_the_owner_when_its_caller_has_gone() -> None:
    async with linked() as pair:
        pair.ears.hold = asyncio.Event()
        claim = asyncio.ensure_future(pair.wire.claim(wish()))
        await eventually(lambda: pair.ears.wishes)
        claim.cancel()
        with pytest.raises(asyncio.CancelledError):
            await claim
        await eventually(lambda: pair.ears.cancelled == 1)


async def test_an_owner_that_does_not_answer_leaves_the_outcome_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peerwire, "CLAIM_TIMEOUT_S", 0.2)
    monkeypatch.setattr(peerwire, "HAND_OVER_TIMEOUT_S", 0.2)
    async with linked() as pair:
        pair.ears.hold = asyncio.Event()
        with pytest.raises(OutcomeUnknown):
            await asyncio.wait_for(pair.wire.claim(wish()), 2)
        await eventually(lambda: pair.ears.cancelled == 1)
        with pytest.raises(OutcomeUnknown):
            await asyncio.wait_for(pair.wire.hand_over([ShardNo(1)]), 2)
        # Taking shards over is written in the database, so it goes on.
        await asyncio.sleep(0.1)
        assert pair.ears.cancelled == 1
        pair.ears.hold.set()
        assert pair.wire.is_open


async def test_a_link_that_ends_ends_the_claims_on_it() -> None:
    ears, calls = Ears(), Calls()
    async with dialled_later() as (port, begin):
        async with listening(ears, port=port):
            wire = begin(calls)
            await eventually(lambda: calls.opened)
            ears.hold = asyncio.Event()
            claim = asyncio.ensure_future(wire.claim(wish()))
            await eventually(lambda: ears.wishes)
        with pytest.raises(OutcomeUnknown):
            await asyncio.wait_for(claim, 0.9)
        with pytest.raises(Unavailable) as refused:
            await wire.claim(wish())
        assert not isinstance(refused.value, OutcomeUnknown)


async def test_closing_ends_claims_too() -> None:
    async with linked() as pair:
        pair.ears.hold = asyncio.Event()
        claim = asyncio.ensure_future(pair.wire.claim(wish()))
        await eventually(lambda: pair.ears.wishes)
        await pair.wire.close()
        with pytest.raises(OutcomeUnknown):
            await asyncio.wait_for(claim, 0.5)


async def test_a_peer_that_accepts_and_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peerwire, "OPEN_TIMEOUT_S", 0.1)
    silent = await asyncio.start_server(lambda r, w: asyncio.sleep(60), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    calls = Calls()
    async with dialled(port, calls):
        await asyncio.sleep(0.3)
        silent.close()
        async with listening(Ears(), port=port):
            await eventually(lambda: calls.opened == 1, within_s=5)


async def test_a_peer_that_falls_silent_is_noticed_within_seconds() -> None:
    """Its packets go nowhere from some moment on: neither side hears of an end."""
    ears, calls = Ears(), Calls()
    async with listening(ears) as port, black_hole(port) as hole, dialled(hole.port, calls) as wire:
        await eventually(lambda: calls.opened)
        assert wire.send(settled(1))
        await eventually(lambda: ears.heard)
        hole.swallow = True
        await eventually(lambda: not wire.is_open and ears.ended, within_s=6)
        hole.swallow = False
        await eventually(lambda: calls.opened == 2, within_s=6)


async def test_a_newer_link_supersedes_the_older() -> None:
    ears = Ears()
    async with listening(ears) as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = peer_pb2_grpc.PeerServiceStub(channel)
        older = await greeted(stub)
        newer = await greeted(stub)
        await newer.write(message(1, 2))
        await eventually(lambda: len(ears.heard) == 1)
        await older.write(message(1, 1))
        assert await older.code() is grpc.StatusCode.ABORTED
        await eventually(lambda: ears.ended == ears.links[:1])
        await newer.write(message(2, 3))
        await eventually(lambda: ears.fences == [2, 3])
        newer.cancel()
        await eventually(lambda: ears.ended == ears.links)


@pytest.mark.parametrize(
    "first",
    [
        peer_pb2.LinkRequest(seq=1, settled=peer_pb2.Settled()),
        peer_pb2.LinkRequest(hello=peer_pb2.Hello(coordinator="x", callee=f"coordinators/{B}")),
        peer_pb2.LinkRequest(hello=peer_pb2.Hello(coordinator=f"coordinators/{A}")),
    ],
)
async def test_a_link_begins_with_a_whole_hello(first: peer_pb2.LinkRequest) -> None:
    ears = Ears()
    async with listening(ears) as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = peer_pb2_grpc.PeerServiceStub(channel).Link(metadata=(authorization(SECRET),))
        await call.write(first)
        assert await call.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION)
    assert ears.links == []


@pytest.mark.parametrize(("newest", "spoken"), [(1, 1), (7, 1), (0, 1)])
async def test_the_older_protocol_is_spoken(newest: int, spoken: int) -> None:
    async with listening(Ears()) as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = peer_pb2_grpc.PeerServiceStub(channel).Link(metadata=(authorization(SECRET),))
        await call.write(hello(newest))
        answer = await call.read()
        assert isinstance(answer, peer_pb2.LinkResponse)
        assert answer.welcome == peer_pb2.Welcome(coordinator=f"coordinators/{B}", protocol_version=spoken)


async def test_all_that_is_read_is_acknowledged_by_and_by() -> None:
    async with listening(Ears()) as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = await greeted(peer_pb2_grpc.PeerServiceStub(channel))
        for seq in range(1, 101):
            await call.write(message(seq, seq))
        acks = []
        while not acks or acks[-1] < 100:
            answer = await asyncio.wait_for(call.read(), 2)
            assert isinstance(answer, peer_pb2.LinkResponse)
            acks.append(answer.ack.seq)
        assert acks == sorted(set(acks))
        assert len(acks) < 30


def hello(newest: int = PROTOCOL_VERSION) -> peer_pb2.LinkRequest:
    said = peer_pb2.Hello(coordinator=f"coordinators/{A}", callee=f"coordinators/{B}", protocol_version=newest)
    return peer_pb2.LinkRequest(hello=said)


def message(seq: int, fence: int) -> peer_pb2.LinkRequest:
    (made,) = peercodec.messages(settled(fence))
    made.seq = seq
    return made


async def greeted(
    stub: "peer_pb2_grpc.PeerServiceAsyncStub",
) -> "grpc.aio.StreamStreamCall[peer_pb2.LinkRequest, peer_pb2.LinkResponse]":
    call = stub.Link(metadata=(authorization(SECRET),))
    await call.write(hello())
    answer = await call.read()
    assert isinstance(answer, peer_pb2.LinkResponse)
    assert answer.HasField("welcome")
    return call


@dataclass
class Reader:
    """A peer that acknowledges by hand."""

    seqs: list[int] = field(default_factory=list)
    ack: asyncio.Queue[int] = field(default_factory=asyncio.Queue)


@asynccontextmanager
async def slow_reader() -> AsyncIterator[tuple[Reader, int]]:
    reader = Reader()

    class Servicer(peer_pb2_grpc.PeerServiceServicer):
        async def Link(  # type: ignore[override]
            self, requests: AsyncIterator[peer_pb2.LinkRequest], context: "grpc.aio.ServicerContext[object, object]"
        ) -> None:
            async def acknowledge() -> None:
                while True:
                    ack = peer_pb2.LinkAck(seq=await reader.ack.get())
                    await context.write(peer_pb2.LinkResponse(ack=ack))

            await context.write(peer_pb2.LinkResponse(welcome=peer_pb2.Welcome(coordinator=f"coordinators/{B}")))
            task = asyncio.create_task(acknowledge())
            try:
                async for request in requests:
                    if not request.HasField("hello"):
                        reader.seqs.append(request.seq)
            finally:
                task.cancel()

    server = grpc.aio.server()
    peer_pb2_grpc.add_PeerServiceServicer_to_server(Servicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield reader, port
    finally:
        await server.stop(None)


@asynccontextmanager
async def dialled_later() -> AsyncIterator[tuple[int, Callable[[Calls], PeerWire]]]:
    """A port that is free, and what dials there; closed at the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    made: list[PeerWire] = []

    def begin(calls: Calls) -> PeerWire:
        dial = PeerDial(A, SECRET, None, SystemClock())
        made.append(dial(B, f"127.0.0.1:{port}", on_open=calls.on_open, on_room=calls.on_room))
        return made[-1]

    yield port, begin
    for wire in made:
        await wire.close()


class Hole:
    """A relay that can swallow what it is given, and stays open."""

    def __init__(self) -> None:
        self.port = 0
        self.swallow = False
        self.writers: list[asyncio.StreamWriter] = []


@asynccontextmanager
async def black_hole(port: int) -> AsyncIterator[Hole]:
    hole = Hole()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                if not hole.swallow:
                    writer.write(data)

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        hole.writers += [writer, back]
        await asyncio.gather(pump(reader, back), pump(there, writer))

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    hole.port = server.sockets[0].getsockname()[1]
    try:
        yield hole
    finally:
        server.close()
        for writer in hole.writers:
            sock = writer.get_extra_info("socket")
            with suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.close()
