"""PeerService: what other coordinators tell this one, and ask of it. Decode, call, encode."""

import asyncio
import hmac
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Final, NoReturn, Protocol

import grpc.aio
from rota_sdk.gen.rota.peer.v1 import peer_pb2, peer_pb2_grpc

from rota.api import peercodec
from rota.api.errors import abort, as_refusal
from rota.api.rpc import Context
from rota.coordinator.news import Claimed, ClaimWish, News
from rota.domain.errors import Aborted, FailedPrecondition, Internal, InvalidArgument, OutcomeUnknown, Unauthenticated
from rota.domain.ids import CoordinatorId, ShardNo

PROTOCOL_VERSION: Final = 1

ACK_EVERY: Final = 16
ACK_AFTER_S: Final = 0.02
"""Acknowledgements are for so many messages, or for those of this span: the caller may have four times as many
unread."""

OUTCOME: Final = "outcome"
UNKNOWN: Final = "unknown"
"""In the metadata of a refusal: what was asked for may have been carried out."""


class Neighbours(Protocol):
    """Who hears and serves the other coordinators (`coordinator.peers`)."""

    def listening(self, id: CoordinatorId, /) -> object:
        """A link of that peer has begun; the token says which, at its end. A newer one supersedes it."""

    def hear(self, id: CoordinatorId, news: News, /) -> None: ...

    def deaf(self, id: CoordinatorId, link: object, /) -> None:
        """That link has ended."""

    async def claim_for(self, wish: ClaimWish, /) -> Claimed: ...

    async def take_over(self, id: CoordinatorId, shards: Sequence[ShardNo], /) -> list[ShardNo]: ...


def authorization(secret: bytes) -> tuple[str, str]:
    """The metadata by which a coordinator proves that it is one."""
    return "authorization", f"Peer {secret.hex()}"


class PeerServicer(peer_pb2_grpc.PeerServiceServicer):
    def __init__(self, me: CoordinatorId, peers: Neighbours, secret: bytes) -> None:
        self._name = peercodec.coordinator_name(me)
        self._peers = peers
        self._expected = authorization(secret)[1].encode()
        self._links: dict[CoordinatorId, object] = {}

    async def Link(  # type: ignore[override]
        self, requests: AsyncIterator[peer_pb2.LinkRequest], context: Context
    ) -> None:
        try:
            self._authenticate(context)
            first = await anext(requests, None)
            if first is not None:
                await self._listen(self._caller(first), first.hello.protocol_version, requests, context)
        except grpc.aio.BaseError:
            # What gRPC says of the call's own end is no fault.
            raise
        except Exception as error:
            await _refuse(context, error)

    async def Claim(self, request: peer_pb2.ClaimRequest, context: Context) -> peer_pb2.ClaimResponse:
        try:
            self._authenticate(context)
            return peercodec.claim_response(await self._peers.claim_for(peercodec.claim_wish(request)))
        except grpc.aio.BaseError:
            raise
        except Exception as error:
            await _refuse(context, error)

    async def HandOverShards(
        self, request: peer_pb2.HandOverShardsRequest, context: Context
    ) -> peer_pb2.HandOverShardsResponse:
        try:
            self._authenticate(context)
            peer = peercodec.coordinator_id("coordinator", request.coordinator)
            taking = self._peers.take_over(peer, [ShardNo(shard) for shard in request.shards])
            # What is written is not left half-way because the caller does not wait for it.
            taken = await asyncio.shield(asyncio.ensure_future(taking))
            return peer_pb2.HandOverShardsResponse(shards=taken)
        except grpc.aio.BaseError:
            raise
        except Exception as error:
            await _refuse(context, error)

    def _authenticate(self, context: Context) -> None:
        found = b""
        for key, value in context.invocation_metadata() or ():
            if key == "authorization":
                found = value.encode() if isinstance(value, str) else value
        if not hmac.compare_digest(found, self._expected):
            raise Unauthenticated(
                "the caller is no coordinator of this installation; give all of them the same database"
            )

    def _caller(self, first: peer_pb2.LinkRequest) -> CoordinatorId:
        """Who calls, if it means this coordinator."""
        if not first.HasField("hello"):
            raise InvalidArgument.field("hello", "the first message of a link must be hello")
        if first.hello.callee != self._name:
            raise FailedPrecondition(
                f"expected a link to {self._name}, found one to {first.hello.callee[:80]!r}; "
                "read the address again, it is another's now"
            )
        return peercodec.coordinator_id("hello.coordinator", first.hello.coordinator)

    async def _listen(
        self, peer: CoordinatorId, newest: int, requests: AsyncIterator[peer_pb2.LinkRequest], context: Context
    ) -> None:
        link = self._links[peer] = self._peers.listening(peer)
        acks = _Acks(context)
        try:
            version = min(newest or PROTOCOL_VERSION, PROTOCOL_VERSION)
            welcome = peer_pb2.Welcome(coordinator=self._name, protocol_version=version)
            await context.write(peer_pb2.LinkResponse(welcome=welcome))
            async for request in requests:
                if self._links.get(peer) is not link:
                    raise Aborted("a newer link of the same coordinator has taken the place of this one; use that")
                self._peers.hear(peer, peercodec.news(request))
                acks.count(request.seq)
        finally:
            acks.close()
            if self._links.get(peer) is link:
                del self._links[peer]
            self._peers.deaf(peer, link)


class _Acks:
    """Tells a caller how far its link is read: soon, and for many messages together."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._seq = 0
        self._count = 0
        self._due = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._task = asyncio.create_task(self._write(), name="link acknowledgements")

    def count(self, seq: int) -> None:
        self._seq = seq
        self._count += 1
        if self._count >= ACK_EVERY:
            self._due.set()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(ACK_AFTER_S, self._due.set)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._task.cancel()

    async def _write(self) -> None:
        # A link that has ended is told of where it is read.
        with suppress(Exception):
            while True:
                await self._due.wait()
                self._due.clear()
                self._count = 0
                if self._timer is not None:
                    self._timer.cancel()
                    self._timer = None
                await self._context.write(peer_pb2.LinkResponse(ack=peer_pb2.LinkAck(seq=self._seq)))


async def _refuse(context: Context, error: Exception) -> NoReturn:
    refusal = as_refusal(error)
    if isinstance(refusal, OutcomeUnknown | Internal):
        refusal.metadata[OUTCOME] = UNKNOWN
    await abort(context, refusal)
