"""The way to another coordinator: one link, opened again for ever, and claims beside it on the same connection.

A stopped or black-holed peer is noticed by pings within seconds. Each link has a connection of its own, so that its end
is the end of all that was on the way.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import grpc.aio
from google.rpc import error_details_pb2, status_pb2
from rota_sdk.gen.rota.peer.v1 import peer_pb2, peer_pb2_grpc

from rota.api import peercodec
from rota.api.errors import DETAILS_KEY
from rota.api.peer import OUTCOME, PROTOCOL_VERSION, UNKNOWN, authorization
from rota.clock import Clock
from rota.coordinator.news import Claimed, ClaimWish, News
from rota.domain.errors import FailedPrecondition, OutcomeUnknown, RotaError, Unavailable
from rota.domain.ids import CoordinatorId, ShardNo

log = logging.getLogger(__name__)

UNREAD_MAX: Final = 64
"""Messages on the way that the peer has not acknowledged."""

OPEN_TIMEOUT_S: Final = 2.0
CLAIM_TIMEOUT_S: Final = 1.0
HAND_OVER_TIMEOUT_S: Final = 2.0
CLOSE_TIMEOUT_S: Final = 0.2
"""What was told last gets this long to be read."""

PING_EVERY_S: Final = 2.0
PING_TIMEOUT_S: Final = 2.0

RETRY_FIRST_S: Final = 0.05
RETRY_MOST_S: Final = 2.0
LONG_S: Final = 5.0
"""A link that was open for this long is opened again at once."""

MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024

_OPTIONS: Final = (
    ("grpc.keepalive_time_ms", int(PING_EVERY_S * 1000)),
    # What grpc.keepalive_timeout_ms does not shorten below a minute.
    ("grpc.http2.ping_timeout_ms", int(PING_TIMEOUT_S * 1000)),
    # A quiet link sends no data for longer than two pings, the default allowance.
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    # Channels with equal settings share their connections by default; a new link must mean a new one.
    ("grpc.use_local_subchannel_pool", 1),
)
# Refusals that gRPC itself makes before anything is carried out.
_NOT_DONE: Final = (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNAUTHENTICATED)


@dataclass(frozen=True, slots=True)
class PeerTls:
    """How a peer is trusted, and what it is shown. PEM files, read again for each connection.

    `name` stands for the host dialled in the peer's certificate.
    """

    ca: Path
    name: str | None = None
    cert: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class PeerDial:
    """Dial over gRPC."""

    me: CoordinatorId
    secret: bytes
    tls: PeerTls | None
    clock: Clock

    def __call__(
        self, peer: CoordinatorId, address: str, *, on_open: Callable[[], None], on_room: Callable[[], None]
    ) -> "PeerWire":
        return PeerWire(self, peer, address, on_open, on_room)


class PeerWire:
    """Wire over gRPC. Made within the event loop that it lives in."""

    def __init__(
        self,
        dial: PeerDial,
        peer: CoordinatorId,
        address: str,
        on_open: Callable[[], None],
        on_room: Callable[[], None],
    ) -> None:
        self._dial = dial
        self._peer = peer
        self._address = address
        self._on_open = on_open
        self._on_room = on_room
        self._metadata = grpc.aio.Metadata(authorization(dial.secret))
        self._stub: peer_pb2_grpc.PeerServiceAsyncStub | None = None
        self._closing = False
        self._queue: deque[peer_pb2.LinkRequest] = deque()
        self._seq = 0
        self._acked = 0
        self._wanted = 0
        """Messages that were refused for want of room."""
        self._more = asyncio.Event()
        self._all_read = asyncio.Event()
        self._opened_at: float | None = None
        self._told = False
        self._task = asyncio.create_task(self._keep_open(), name=f"link to coordinator {peer}")

    @property
    def is_open(self) -> bool:
        return self._stub is not None

    def send(self, news: News) -> bool:
        if self._stub is None or self._closing:
            return False
        messages = peercodec.messages(news)
        waiting = self._unread + len(self._queue)
        # News that are more than fit go when nothing else is on the way.
        if waiting and waiting + len(messages) > UNREAD_MAX:
            self._wanted = len(messages)
            return False
        self._queue.extend(messages)
        self._all_read.clear()
        self._more.set()
        return True

    async def claim(self, wish: ClaimWish) -> Claimed:
        stub = self._open_stub()
        request = peercodec.claim_request(wish)
        try:
            response = await stub.Claim(request, timeout=CLAIM_TIMEOUT_S, metadata=self._metadata)
        except (grpc.aio.AioRpcError, asyncio.CancelledError) as error:
            self._raise(error)
        return peercodec.claimed(response, wish)

    async def hand_over(self, shards: Sequence[ShardNo]) -> list[ShardNo]:
        stub = self._open_stub()
        request = peer_pb2.HandOverShardsRequest(
            coordinator=peercodec.coordinator_name(self._dial.me), shards=[int(shard) for shard in shards]
        )
        try:
            response = await stub.HandOverShards(request, timeout=HAND_OVER_TIMEOUT_S, metadata=self._metadata)
        except (grpc.aio.AioRpcError, asyncio.CancelledError) as error:
            self._raise(error)
        return [ShardNo(shard) for shard in response.shards]

    async def close(self) -> None:
        self._closing = True
        if self._stub is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self._all_read.wait()
        self._task.cancel()
        await asyncio.wait({self._task})

    @property
    def _unread(self) -> int:
        return self._seq - self._acked

    def _open_stub(self) -> "peer_pb2_grpc.PeerServiceAsyncStub":
        if self._stub is None or self._closing:
            raise Unavailable(f"coordinator {self._peer} is not connected; try again", retry_after_s=0.1)
        return self._stub

    async def _keep_open(self) -> None:
        wait_s = 0.0
        while True:
            self._opened_at = None
            try:
                await self._link()
            except Exception as error:
                self._tell(error)
            now = self._dial.clock.monotonic()
            if self._opened_at is not None and now - self._opened_at >= LONG_S:
                wait_s = 0.0
            else:
                wait_s = min(max(wait_s * 2, RETRY_FIRST_S), RETRY_MOST_S)
            await self._dial.clock.sleep(wait_s * self._dial.clock.rng.uniform(0.5, 1.0))

    async def _link(self) -> None:
        """One link, from its hello to its end."""
        async with self._channel() as channel:
            stub: peer_pb2_grpc.PeerServiceAsyncStub = peer_pb2_grpc.PeerServiceStub(channel)
            call = stub.Link(metadata=self._metadata)
            try:
                async with asyncio.timeout(OPEN_TIMEOUT_S):
                    await self._greet(call)
            except TimeoutError:
                raise Unavailable(f"no answer within {OPEN_TIMEOUT_S:g} s") from None
            self._begin(stub)
            writer = asyncio.create_task(self._write(call), name="link writer")
            try:
                while isinstance(answer := await call.read(), peer_pb2.LinkResponse):
                    self._acknowledge(answer.ack.seq)
            finally:
                self._stub = None
                self._all_read.set()
                writer.cancel()

    async def _greet(self, call: "grpc.aio.StreamStreamCall[peer_pb2.LinkRequest, peer_pb2.LinkResponse]") -> None:
        callee = peercodec.coordinator_name(self._peer)
        hello = peer_pb2.Hello(
            coordinator=peercodec.coordinator_name(self._dial.me), callee=callee, protocol_version=PROTOCOL_VERSION
        )
        await call.write(peer_pb2.LinkRequest(hello=hello))
        answer = await call.read()
        found = answer.welcome.coordinator if isinstance(answer, peer_pb2.LinkResponse) else ""
        if found != callee:
            raise FailedPrecondition(f"expected {callee}, found {found or 'nobody'}; the address is another's now")

    def _begin(self, stub: "peer_pb2_grpc.PeerServiceAsyncStub") -> None:
        self._stub = stub
        self._queue.clear()
        self._seq = self._acked = self._wanted = 0
        self._all_read.set()
        self._opened_at = self._dial.clock.monotonic()
        log.info("linked to coordinator %s at %s", self._peer, self._address)
        self._told = False
        if not self._closing:
            self._on_open()

    async def _write(self, call: "grpc.aio.StreamStreamCall[peer_pb2.LinkRequest, peer_pb2.LinkResponse]") -> None:
        # Whatever ends the writing ends the reading too, which tells of it.
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            while True:
                while self._queue and self._unread < UNREAD_MAX:
                    message = self._queue.popleft()
                    self._seq += 1
                    message.seq = self._seq
                    await call.write(message)
                self._more.clear()
                await self._more.wait()

    def _acknowledge(self, seq: int) -> None:
        self._acked = max(self._acked, min(seq, self._seq))
        waiting = self._unread + len(self._queue)
        self._more.set()
        if not waiting:
            self._all_read.set()
        if self._wanted and (not waiting or waiting + self._wanted <= UNREAD_MAX):
            self._wanted = 0
            if not self._closing:
                self._on_room()

    def _channel(self) -> grpc.aio.Channel:
        tls = self._dial.tls
        if tls is None:
            return grpc.aio.insecure_channel(self._address, options=_OPTIONS)
        credentials = grpc.ssl_channel_credentials(
            root_certificates=tls.ca.read_bytes(),
            private_key=None if tls.key is None else tls.key.read_bytes(),
            certificate_chain=None if tls.cert is None else tls.cert.read_bytes(),
        )
        name = () if tls.name is None else (("grpc.ssl_target_name_override", tls.name),)
        return grpc.aio.secure_channel(self._address, credentials, options=(*_OPTIONS, *name))

    def _tell(self, error: Exception) -> None:
        """One line for each time that the link is lost or not to be had, not for each attempt."""
        if self._closing:
            return
        if not isinstance(error, grpc.aio.AioRpcError | asyncio.InvalidStateError | RotaError | OSError):
            log.error("the link to coordinator %s ended by a fault of its own", self._peer, exc_info=error)
        said = error.details() if isinstance(error, grpc.aio.AioRpcError) else str(error)
        text = f"{said or type(error).__name__}"[:300]
        level = logging.DEBUG if self._told else logging.WARNING
        log.log(level, "no link to coordinator %s at %s: %s; trying again", self._peer, self._address, text)
        self._told = True

    def _raise(self, error: grpc.aio.AioRpcError | asyncio.CancelledError) -> NoReturn:
        """What a failed call means: it was not carried out, or perhaps it was."""
        if isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise error
            # Not our caller's doing: the connection was closed.
            raise OutcomeUnknown(f"the link to coordinator {self._peer} was closed in the middle of a call") from None
        info = _info(error)
        said = f"coordinator {self._peer}: {error.details() or error.code().name}"
        if error.code() in _NOT_DONE or (info is not None and info.metadata.get(OUTCOME) != UNKNOWN):
            raise Unavailable(said, reason=None if info is None else info.reason) from error
        raise OutcomeUnknown(said) from error


def _info(error: grpc.aio.AioRpcError) -> error_details_pb2.ErrorInfo | None:
    """What the peer itself says of a failure; None: it says nothing."""
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS_KEY and isinstance(value, bytes):
            info = error_details_pb2.ErrorInfo()
            for packed in status_pb2.Status.FromString(value).details:
                if packed.Unpack(info):
                    return info
    return None
