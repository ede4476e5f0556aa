"""The other coordinators: who they are, the way to each, and what is told on it.

A peer is dialled when the database says that it lives, and forgotten when it does not. News gather for a moment and
travel together; to a peer that does not read they stay bounded, and what is left out is found in the database.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rota.clock import Clock
from rota.coordinator.news import ITEMS_MAX, Claimed, ClaimWish, Dial, Holding, Lease, News, Order, Wire
from rota.domain import ids, limits
from rota.domain.errors import Unavailable
from rota.domain.fairness import Entry
from rota.domain.ids import CoordinatorId, Fence, JobId, SessionId, ShardNo, TenantId
from rota.domain.limiting import Gate
from rota.store.port import Colleague

log = logging.getLogger(__name__)

GATHER_S = 0.005
"""News that follow others within so long travel together."""

REACH_S = 2.0
"""So long after it came a peer that cannot be reached finds its shards by itself."""

ARM_EVERY_S = 0.1
"""Peers are asked to look at their schedules this often at most."""


@dataclass(slots=True)
class Peer:
    """Another living coordinator."""

    id: CoordinatorId
    address: str = ""
    wire: Wire | None = None
    outbox: News = field(default_factory=News)
    sent_at: float = float("-inf")
    timer: asyncio.TimerHandle | None = None
    link: object | None = None
    """The link on which it is heard; None: it tells nothing."""
    reached: bool = False
    """The way to it has been open."""
    known_at: float = 0.0
    """Monotonic."""


class Hearing(Protocol):
    """Who listens to peers."""

    def heard(self, peer: CoordinatorId, news: News) -> None:
        """All that one message says."""

    def tell_all(self, peer: CoordinatorId) -> None:
        """Tells it all that it may not know: the way to it has opened, or it may have missed something."""

    def gone(self, peer: CoordinatorId) -> None:
        """It is not heard any more: what it said does not hold."""

    async def claim_for(self, wish: ClaimWish) -> Claimed:
        """Claims on behalf of a session that is attached to it."""

    async def take_over(self, shards: Sequence[ShardNo]) -> list[ShardNo]:
        """Acquires shards that it has given up; those that it got."""

    def met(self) -> None:
        """Somebody has called whom the database did not name yet, or one who has come can be reached now."""


class Peers:
    def __init__(self, me: CoordinatorId, clock: Clock, dial: Dial | None) -> None:
        self.me = me
        self._clock = clock
        self._dial = dial
        self._peers: dict[CoordinatorId, Peer] = {}
        self._links_left: dict[CoordinatorId, object] = {}
        """Links on which somebody goes on to tell that the database does not name at present."""
        self._shard_count = limits.SHARD_COUNT
        self._owners: dict[ShardNo, CoordinatorId] = {}
        self._armed_at = float("-inf")
        self._closing: set[asyncio.Task[None]] = set()
        self.hearing: Hearing | None = None

    def __bool__(self) -> bool:
        """Whether there are any: where not, nothing is worth telling."""
        return bool(self._peers)

    def __iter__(self) -> Iterator[CoordinatorId]:
        return iter(self._peers)

    def __len__(self) -> int:
        return len(self._peers)

    def follow(self, living: Iterable[Colleague], shard_count: int, owners: Mapping[ShardNo, CoordinatorId]) -> None:
        """Dials who is new, and forgets who is gone, by the database's word. `owners`: of every shard that has one."""
        self._shard_count = shard_count
        # One that is nobody's is on its way from its owner before, who knows to whom.
        self._owners |= owners
        if self._dial is None:
            return
        named = {each.id: each.peer_address for each in living if each.id != self.me and each.peer_address}
        for id in [id for id in self._peers if id not in named]:
            self._forget(self._peers.pop(id))
        for id, address in named.items():
            peer = self._peers.get(id) or self._add(id)
            if peer.wire is None:
                peer.address = address
                peer.wire = self._open(self._dial, id, address)
            else:
                self._hearing.tell_all(id)

    def owner(self, tenant: TenantId, job: JobId) -> CoordinatorId | None:
        """The peer that owns a job's shard; None: nobody, or this coordinator."""
        shard = ShardNo(ids.shard_of(tenant, job) % self._shard_count)
        return self._peer_of(shard)

    def tell(self, id: CoordinatorId) -> News:
        """What is about to be told to a peer, to be added to."""
        peer = self._peers[id]
        if peer.timer is None:
            wait_s = max(peer.sent_at + GATHER_S - self._clock.monotonic(), 0.0)
            peer.timer = asyncio.get_running_loop().call_later(wait_s, self._flush, peer)
        return peer.outbox

    def tell_waiting(self, entries: Iterable[Entry], teller: CoordinatorId | None = None) -> None:
        """Jobs that wait in shards of peers; the one that told of them knows."""
        by_owner: dict[CoordinatorId, list[Entry]] = {}
        for entry in entries:
            owner = self._peer_of(entry.shard)
            if owner is not None and owner != teller:
                by_owner.setdefault(owner, []).append(entry)
        for id, theirs in by_owner.items():
            waiting = self.tell(id).waiting
            waiting += theirs[: max(ITEMS_MAX - len(waiting), 0)]

    def tell_settled(self, tenant: TenantId, job: JobId, fence: Fence) -> None:
        """A lease of a peer's shard has ended here."""
        owner = self.owner(tenant, job)
        if owner is not None and len(settled := self.tell(owner).settled) < ITEMS_MAX:
            settled.append(Lease(job, fence))

    def tell_proven(self, shard: ShardNo, job: JobId, fence: Fence) -> None:
        """The worker has said here that it holds a lease of a peer's shard."""
        owner = self._peer_of(shard)
        if owner is not None and len(proven := self.tell(owner).proven) < ITEMS_MAX:
            proven.append(Lease(job, fence))

    def tell_order(self, order: Order) -> None:
        """A directive for a worker that talks to some peer."""
        for id in self._peers:
            if len(orders := self.tell(id).orders) < ITEMS_MAX:
                orders.append(order)

    def tell_holding(self, id: CoordinatorId, holding: Holding) -> None:
        """The inventory that a peer has asked for."""
        if id in self._peers and len(holdings := self.tell(id).holdings) < ITEMS_MAX:
            holdings.append(holding)

    def tell_sessions_ended(self, sessions: Sequence[SessionId]) -> None:
        """Sessions that are over: their leases in shards of peers are."""
        for id in self._peers:
            ended = self.tell(id).sessions_ended
            ended += sessions[: max(ITEMS_MAX - len(ended), 0)]

    def tell_freed(self, gates: Iterable[Gate]) -> None:
        """Leases under limits have ended here."""
        for id in self._peers:
            if len(freed := self.tell(id).freed) < ITEMS_MAX:
                freed.update(gates)

    def tell_armed(self) -> None:
        """Somebody is to look at schedules."""
        now = self._clock.monotonic()
        if now - self._armed_at < ARM_EVERY_S:
            return
        self._armed_at = now
        for id in self._peers:
            self.tell(id).armed = True

    def tell_queues(self) -> None:
        """Settings of queues or tenants have changed."""
        for id in self._peers:
            self.tell(id).queues_changed = True

    async def claim(self, id: CoordinatorId, wish: ClaimWish) -> Claimed:
        """Claims at a peer. Raises Unavailable, or OutcomeUnknown: then the peer finds out by itself what arrived."""
        return await self._wire(id).claim(wish)

    def can_be_given(self, id: CoordinatorId) -> bool:
        """Whether it makes sense to free shards for somebody: not for one that will be reached in a moment, and for
        one that is never reached all the same."""
        peer = self._peers.get(id)
        return peer is None or peer.reached or self._clock.monotonic() - peer.known_at >= REACH_S

    async def hand_over(self, id: CoordinatorId, shards: Sequence[ShardNo]) -> list[ShardNo]:
        """Offers a peer shards that are free in the database; those that it took."""
        wire = self._wire(id)
        # From here on: whatever begins to wait before the peer has them is read by it, and later it has to be told.
        self._owners |= dict.fromkeys(shards, id)
        return await wire.hand_over(shards)

    def listening(self, id: CoordinatorId) -> object:
        """A peer has opened its link; the token says which, at its end."""
        peer = self._peers.get(id)
        if peer is None:
            peer = self._add(id)
            self._hearing.met()
        if peer.link is not None:
            self._hearing.gone(id)
        peer.link = object()
        return peer.link

    def hears_any(self) -> bool:
        """Whether a peer tells anything: one that does not can claim nothing here either."""
        return any(peer.link is not None for peer in self._peers.values())

    def hear(self, id: CoordinatorId, news: News) -> None:
        if id in self._peers:
            self._hearing.heard(id, news)

    def deaf(self, id: CoordinatorId, link: object) -> None:
        """A link has ended; one that was superseded means nothing."""
        peer = self._peers.get(id)
        if peer is not None and peer.link is link:
            peer.link = None
            self._hearing.gone(id)
        elif self._links_left.get(id) is link:
            del self._links_left[id]

    async def claim_for(self, wish: ClaimWish) -> Claimed:
        return await self._hearing.claim_for(wish)

    async def take_over(self, id: CoordinatorId, shards: Sequence[ShardNo]) -> list[ShardNo]:
        log.debug("coordinator %s offers %d shards", id, len(shards))
        return await self._hearing.take_over(shards)

    async def close(self) -> None:
        """Tells what is still to be told, and hangs up."""
        for peer in self._peers.values():
            if peer.timer is not None:
                self._flush(peer)
            self._forget(peer)
        self._peers.clear()
        if self._closing:
            await asyncio.wait(self._closing)

    @property
    def _hearing(self) -> Hearing:
        if self.hearing is None:
            raise RuntimeError("nobody listens to peers")
        return self.hearing

    def _peer_of(self, shard: ShardNo) -> CoordinatorId | None:
        owner = self._owners.get(shard)
        return owner if owner in self._peers else None

    def _wire(self, id: CoordinatorId) -> Wire:
        peer = self._peers.get(id)
        if peer is None or peer.wire is None:
            raise Unavailable(f"coordinator {id} is not there; try again", retry_after_s=0.1)
        return peer.wire

    def _add(self, id: CoordinatorId) -> Peer:
        peer = self._peers[id] = Peer(id, known_at=self._clock.monotonic())
        peer.link = self._links_left.pop(id, None)
        return peer

    def _open(self, dial: Dial, id: CoordinatorId, address: str) -> Wire:
        def opened() -> None:
            peer = self._peers.get(id)
            if peer is not None:
                if not peer.reached:
                    peer.reached = True
                    self._hearing.met()
                self._hearing.tell_all(id)

        def room() -> None:
            peer = self._peers.get(id)
            if peer is not None and peer.outbox and peer.timer is None:
                self._flush(peer)

        return dial(id, address, on_open=opened, on_room=room)

    def _flush(self, peer: Peer) -> None:
        if peer.timer is not None:
            peer.timer.cancel()
            peer.timer = None
        if not peer.outbox:
            return
        if peer.wire is None:
            # It has called before the database named it; what it misses it finds there.
            peer.outbox = News()
        elif peer.wire.send(peer.outbox):
            peer.outbox = News()
            peer.sent_at = self._clock.monotonic()

    def _forget(self, peer: Peer) -> None:
        if peer.timer is not None:
            peer.timer.cancel()
        self._hearing.gone(peer.id)
        if peer.link is not None:
            self._links_left[peer.id] = peer.link
        if peer.wire is not None:
            task = asyncio.create_task(peer.wire.close(), name="close peer")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
