"""What the polls of the peers wait for, and what this coordinator has for them.

Jobs that no poll here takes are offered to those who demand them: to as many as it takes to meet the jobs, in turn,
and to others when nobody has come for a while. Telling all of them of a single job would bring a crowd of claims.
"""

import asyncio
from collections.abc import Iterable, Sequence

from rota.clock import Clock
from rota.coordinator.news import Demand, Kind, Offer
from rota.coordinator.peers import Peers
from rota.domain.fairness import ReadyQueue, Wants
from rota.domain.ids import CoordinatorId

DEMANDS_MAX = 10_000
"""Demands that are remembered of one peer, those that have ended as well while there is room: a claim may name them."""

SWEEP_S = 1.0
"""Where there is no room for a new one, those that have ended are looked for this often at most."""

LOOK_S = 0.005
"""Looks that follow others within so long are one."""

AGAIN_S = 0.03
"""Who was offered something and has not come for it in this time is passed over for others."""

COUNT_MAX = 1_000
"""The most jobs that one offer speaks of."""

KINDS_A_LOOK = 200
"""Kinds of one look, so that thousands of them do not hold the event loop."""


class Offers:
    def __init__(self, peers: Peers, ready: ReadyQueue, clock: Clock) -> None:
        self._peers = peers
        self._ready = ready
        self._clock = clock
        self._demands: dict[Kind, dict[CoordinatorId, Demand]] = {}
        self._by_id: dict[CoordinatorId, dict[int, Kind]] = {}
        self._told: dict[Kind, dict[CoordinatorId, float]] = {}
        """When each peer was offered something that it has not been told the end of."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._looked_at = float("-inf")
        self._first = 0
        """The kind that the next look begins with."""
        self._unseen = 0
        """Kinds that were not looked at since something may have changed."""
        self._found = False
        """Whether some of those that were have anything ready."""
        self._turn = 0
        self._swept_at: dict[CoordinatorId, float] = {}

    def __bool__(self) -> bool:
        """Whether any peer demands anything."""
        return bool(self._demands)

    def hear(self, peer: CoordinatorId, demands: Iterable[Demand]) -> None:
        known = self._by_id.setdefault(peer, {})
        for demand in demands:
            if demand.free_slots > 0:
                full = demand.id not in known and len(known) >= DEMANDS_MAX
                if full and not self._sweep(peer, known):
                    continue
                known[demand.id] = demand.kind
                self._demands.setdefault(demand.kind, {})[peer] = demand
            else:
                self._drop(demand.kind, peer)
        self.look()

    def forget(self, peer: CoordinatorId) -> None:
        for kind in self._by_id.pop(peer, {}).values():
            self._drop(kind, peer)
        self._swept_at.pop(peer, None)

    def wants(self, peer: CoordinatorId, ids: Iterable[int]) -> Wants | None:
        """What a claim for these demands of a peer may take."""
        known = self._by_id.get(peer, {})
        kinds = [known[id] for id in ids if id in known]
        if not kinds:
            return None
        return Wants(kinds[0].tenant_id, tuple(kind.queue for kind in kinds), frozenset(kinds[0].types))

    def left(self, peer: CoordinatorId, ids: Sequence[int]) -> tuple[Offer, ...]:
        """What there is for demands that a claim of a peer has just been answered for."""
        now = self._clock.monotonic()
        known = self._by_id.get(peer, {})
        offers = [self._offer(known[id], id) for id in ids if id in known]
        for offer in offers:
            self._note(known[offer.demand_id], peer, offer, now)
        return tuple(offers)

    def look(self) -> None:
        """Something may have become ready, or been taken: looks soon."""
        if self._demands:
            self._unseen = len(self._demands)
            self._arm(self._looked_at + LOOK_S)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _sweep(self, peer: CoordinatorId, known: dict[int, Kind]) -> bool:
        """Forgets the demands of a peer that have ended; whether there is room."""
        now = self._clock.monotonic()
        if now - self._swept_at.get(peer, float("-inf")) < SWEEP_S:
            return False
        self._swept_at[peer] = now
        for id in [id for id, kind in known.items() if peer not in self._demands.get(kind, {})]:
            del known[id]
        return len(known) < DEMANDS_MAX

    def _arm(self, at: float) -> None:
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at = at
        wait_s = max(at - self._clock.monotonic(), 0.0)
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._looked_at = self._clock.monotonic()
        kinds = list(self._demands)
        first = self._first % max(len(kinds), 1)
        part = (kinds[first:] + kinds[:first])[:KINDS_A_LOOK]
        for kind in part:
            self._found |= self._offer_kind(kind, now)
        self._first = first + len(part)
        self._turn += 1
        self._unseen -= len(part)
        if self._unseen > 0:
            self._arm(now + LOOK_S)
        elif self._found:
            self._found, self._unseen = False, len(kinds)
            self._arm(now + AGAIN_S)

    def _offer_kind(self, kind: Kind, now: float) -> bool:
        """Whether there is something ready of this kind."""
        demands = self._demands[kind]
        told = self._told.get(kind, {})
        offer = self._offer(kind, 0)
        if not offer.count:
            for peer in list(told):
                self._tell(kind, peer, demands[peer], Offer(demands[peer].id, 0), now)
            return False
        peers = list(demands)
        turn = self._turn % len(peers)
        needed = offer.count - sum(demands[p].free_slots for p, at in told.items() if now - at < AGAIN_S)
        for peer in peers[turn:] + peers[:turn]:
            if needed <= 0:
                break
            if now - told.get(peer, float("-inf")) >= AGAIN_S:
                demand = demands[peer]
                self._tell(kind, peer, demand, Offer(demand.id, offer.count, offer.order), now)
                needed -= demand.free_slots
        return True

    def _offer(self, kind: Kind, id: int) -> Offer:
        wants = Wants(kind.tenant_id, (kind.queue,), frozenset(kind.types))
        order = self._ready.peek(wants)
        return Offer(id, 0) if order is None else Offer(id, self._ready.count(wants, COUNT_MAX), order)

    def _tell(self, kind: Kind, peer: CoordinatorId, demand: Demand, offer: Offer, now: float) -> None:
        self._peers.tell(peer).offers[demand.id] = offer
        self._note(kind, peer, offer, now)

    def _note(self, kind: Kind, peer: CoordinatorId, offer: Offer, now: float) -> None:
        if offer.count and peer in self._demands.get(kind, {}):
            self._told.setdefault(kind, {})[peer] = now
        elif kind in self._told:
            self._told[kind].pop(peer, None)
            if not self._told[kind]:
                del self._told[kind]

    def _drop(self, kind: Kind, peer: CoordinatorId) -> None:
        demands = self._demands.get(kind)
        if demands is None:
            return
        demands.pop(peer, None)
        if not demands:
            del self._demands[kind]
        self._note(kind, peer, Offer(0, 0), 0.0)
