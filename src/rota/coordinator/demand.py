"""What the polls parked here wait for, told to the peers; and what the peers offer for it.

Polls are counted by kind. A change is told at once, or with others a moment later, and only where it matters to an
owner who has jobs: from none to some, from some to none, or by a factor.
"""

import asyncio
from collections.abc import Iterable, Sequence

from rota.clock import Clock
from rota.coordinator.news import Demand, Kind, Offer
from rota.coordinator.peers import Peers
from rota.domain.fairness import Wants
from rota.domain.ids import CoordinatorId

KINDS_MAX = 10_000
"""Kinds that one coordinator tells of. Polls of others are served by this coordinator's own shards."""

SWEEP_S = 1.0
"""Where there is no room for a new kind, those that nobody waits for any more are looked for this often at most."""

TELL_S = 0.01
"""Changes that follow others within so long are told together."""

TELL_FACTOR = 2
SLOTS_MAX = 1_000_000
"""More free slots of a kind are not told of."""


class Demands:
    def __init__(self, peers: Peers, clock: Clock) -> None:
        self._peers = peers
        self._clock = clock
        self._ids: dict[Kind, int] = {}
        self._kinds: dict[int, Kind] = {}
        self._last_id = 0
        self._swept_at = float("-inf")
        self._slots: dict[int, int] = {}
        self._told: dict[int, int] = {}
        self._changed: set[int] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._told_at = float("-inf")
        self._offers: dict[int, dict[CoordinatorId, Offer]] = {}

    def __bool__(self) -> bool:
        """Whether anybody offers anything."""
        return bool(self._offers)

    def kinds(self, wants: Wants) -> tuple[int, ...]:
        """The kinds of a poll, one for each of its queues. They hold while it is parked."""
        types = tuple(sorted(wants.types))
        found = []
        for queue in dict.fromkeys(wants.queues):
            kind = Kind(wants.tenant_id, queue, types)
            id = self._ids.get(kind)
            if id is None and (len(self._ids) < KINDS_MAX or self._sweep()):
                self._last_id += 1
                id = self._ids[kind] = self._last_id
                self._kinds[id] = kind
            if id is not None:
                found.append(id)
        return tuple(found)

    def change(self, kinds: Sequence[int], slots: int) -> None:
        """Parked polls of these kinds have come (or gone, where negative)."""
        for id in kinds:
            self._slots[id] = self._slots.get(id, 0) + slots
        if self._peers:
            self._changed.update(kinds)
            self._arm()

    def best(self, kinds: Sequence[int]) -> tuple[CoordinatorId, float] | None:
        """Who offers the best job for a poll of these kinds, and its place in the order."""
        found: tuple[CoordinatorId, float] | None = None
        for id in kinds:
            for peer, offer in self._offers.get(id, {}).items():
                if found is None or offer.order < found[1]:
                    found = (peer, offer.order)
        return found

    def offered(self) -> list[Kind]:
        """The kinds for which there are offers."""
        return [self._kinds[id] for id in self._offers]

    def of(self, kinds: Sequence[int], peer: CoordinatorId) -> tuple[int, ...]:
        """Those among these kinds for which a peer offers something."""
        return tuple(id for id in kinds if peer in self._offers.get(id, {}))

    def use(self, kinds: Sequence[int], peer: CoordinatorId, count: int) -> None:
        """A claim for so many is on its way: what is offered beyond it stays. Its answer says what is left."""
        for id in kinds:
            offers = self._offers.get(id)
            offer = offers.get(peer) if offers is not None else None
            if offer is not None:
                self._keep(peer, Offer(id, offer.count - count, offer.order))

    def hear(self, peer: CoordinatorId, offers: Iterable[Offer]) -> bool:
        """Takes a peer's offers; whether there is something new to claim."""
        some = False
        for offer in offers:
            if offer.demand_id in self._kinds:
                self._keep(peer, offer)
                some = some or offer.count > 0
        return some

    def forget(self, peer: CoordinatorId) -> None:
        """Its offers do not hold any more."""
        for id in [id for id, offers in self._offers.items() if peer in offers]:
            self._keep(peer, Offer(id, 0))

    def tell_all(self, peer: CoordinatorId) -> None:
        """Tells a peer everything: it knows nothing, or may have missed something."""
        demands = self._peers.tell(peer).demands
        for id, slots in self._slots.items():
            if slots > 0 or self._told.get(id):
                demands[id] = Demand(id, self._kinds[id], _bounded(slots))

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _sweep(self) -> bool:
        """Forgets the kinds that nobody waits for; whether there is room."""
        now = self._clock.monotonic()
        if now - self._swept_at < SWEEP_S:
            return False
        self._swept_at = now
        for id in [id for id in self._kinds if self._slots.get(id, 0) <= 0]:
            kind = self._kinds.pop(id)
            del self._ids[kind]
            self._slots.pop(id, None)
            self._changed.discard(id)
            self._offers.pop(id, None)
            if self._told.pop(id, 0):
                for peer in self._peers:
                    self._peers.tell(peer).demands[id] = Demand(id, kind, 0)
        return len(self._ids) < KINDS_MAX

    def _keep(self, peer: CoordinatorId, offer: Offer) -> None:
        if offer.count > 0:
            self._offers.setdefault(offer.demand_id, {})[peer] = offer
            return
        offers = self._offers.get(offer.demand_id)
        if offers is not None:
            offers.pop(peer, None)
            if not offers:
                del self._offers[offer.demand_id]

    def _arm(self) -> None:
        if self._timer is None:
            wait_s = max(self._told_at + TELL_S - self._clock.monotonic(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._tell)

    def _tell(self) -> None:
        self._timer = None
        changed = [id for id in self._changed if _matters(self._told.get(id, 0), self._slots.get(id, 0))]
        self._changed.clear()
        if not changed:
            return
        self._told_at = self._clock.monotonic()
        demands = [Demand(id, self._kinds[id], _bounded(self._slots[id])) for id in changed]
        for demand in demands:
            self._told[demand.id] = demand.free_slots
        for peer in self._peers:
            self._peers.tell(peer).demands.update((demand.id, demand) for demand in demands)


def _bounded(slots: int) -> int:
    return min(max(slots, 0), SLOTS_MAX)


def _matters(told: int, slots: int) -> bool:
    slots = _bounded(slots)
    if not told or not slots:
        return told != slots
    return slots >= told * TELL_FACTOR or slots * TELL_FACTOR <= told
