"""Links between coordinators without coordinators: a listener with ears, wires to it, and peers that misbehave."""

import asyncio
import socket
import struct
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

import grpc.aio
from rota_sdk.gen.rota.peer.v1 import peer_pb2, peer_pb2_grpc

from rota.api import peercodec
from rota.api.peer import PROTOCOL_VERSION, authorization
from rota.api.peerwire import PeerDial, PeerWire
from rota.api.server import PeerListener
from rota.clock import SystemClock
from rota.coordinator.news import Claimed, ClaimWish, Lease, News
from rota.domain.ids import CoordinatorId, Fence, JobId, SessionId, ShardNo, TenantId
from rota.domain.model import Grant

from .running import eventually

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


def hello(newest: int = PROTOCOL_VERSION, *, callee: CoordinatorId = B) -> peer_pb2.LinkRequest:
    said = peer_pb2.Hello(coordinator=f"coordinators/{A}", callee=f"coordinators/{callee}", protocol_version=newest)
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
    calls: list[asyncio.Event] = field(default_factory=list)
    """One for each link; set, it ends it."""


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

            async def read() -> None:
                async for request in requests:
                    if not request.HasField("hello"):
                        reader.seqs.append(request.seq)

            reader.calls.append(asyncio.Event())
            tasks = [asyncio.create_task(work) for work in (acknowledge(), read(), reader.calls[-1].wait())]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
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
        self.relays: set[asyncio.Future[object]] = set()


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
        pumps = asyncio.gather(pump(reader, back), pump(there, writer))
        hole.relays.add(pumps)
        await pumps

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
        if hole.relays:
            await asyncio.wait(hole.relays, timeout=2)
