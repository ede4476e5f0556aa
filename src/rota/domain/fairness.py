"""The in-memory queue of due jobs: derived state, thrown away at any moment without loss.

Three orders, from the inside out. Within a queue jobs go by due time and priority (`domain/lane.py`). Among the queues
that one worker takes from, and among tenants, it goes by weight (`domain/turns.py`): over the backlog as it stands, so
that a changed weight acts at once and idling earns nothing.

The dispatcher asks for turns, takes a few jobs for the workers that wait there, and asks again:

    while room and (turn := ready.next_turn()) is not None:
        taken = ready.take(wants, min(capacity, room, TURN_JOBS), bytes_max)
        if not taken:
            ready.pass_over(*turn)

`take` charges the tenant and the queue, so the next turn is another's. A turn that nothing can be done with, because no
worker waits or none takes the types that are there, has to be passed over, or it comes again for ever; it sleeps until
a job is pushed there, a gate opens, or `wake` says that a worker waits. A round that has no room left passes over
nobody, and the next one goes on where it ended.

A closed gate keeps jobs in memory and gives none of them. Memory is bounded by READY_ENTRIES_MAX, beyond which each
lane has only the room that is kept for it, so that nobody is shut out by who came first.
"""

import heapq
import math
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Final

from rota.domain import limits
from rota.domain.backlog import Backlog
from rota.domain.ids import ShardNo, TenantId
from rota.domain.lane import FIRST, Entry, Lane, LaneKey, Position
from rota.domain.limiting import Gate
from rota.domain.shares import Shares, Tenant, Wants
from rota.domain.turns import UNIT, Turns

__all__ = ["FIRST", "REFILL_LANES_MAX", "TURN_JOBS", "Entry", "LaneKey", "Position", "ReadyQueue", "Wants"]

TURN_JOBS: Final = 25
"""Jobs to take in one turn: small beside a round of CLAIM_BATCH_MAX, so that a round serves many tenants."""

WEIGHT_DEFAULT: Final = 100

READY_ENTRIES_MAX: Final = 200_000
"""Jobs held in memory over all lanes."""

READY_RESERVE: Final = 100_000
"""Room beyond it for lanes that hold less than LANE_ENTRIES_MIN. When that is gone too, an empty lane takes one."""

LANE_ENTRIES_MIN: Final = 100

HELD_ENTRIES_MAX: Final = 1_000
"""Jobs of one type and one concurrency key that was closed."""

LANES_MAX: Final = 100_000
"""Lanes in memory. The jobs of further ones are found by the poller's rescan once there are fewer."""

REFILL_LANES_MAX: Final = 64
"""Lanes that one call of `refillable` names: each costs its caller a read."""

SPARE_TENANTS: Final = 1_000
"""Tenants that are kept while they have nothing: it is cheaper than making them again."""

_ROOM_PARTS = 16
"""Memory counts as full when less than one part in so many is free: no read is worth less."""

_IDLE_PARTS = 8
"""A lane is idle when all together gave this part of what it may hold since it gave a job."""

_EVERY_TYPE: frozenset[str] = frozenset()
_NO_KEYS: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Candidate:
    """A queue among several that a worker takes from, with the lane of its first job."""

    tag: int
    order: float
    backlog: Backlog
    lane: Lane

    def __lt__(self, other: "_Candidate") -> bool:
        return (self.tag, self.order, self.backlog.queue) < (other.tag, other.order, other.backlog.queue)


class ReadyQueue:
    """Due jobs by lane. Not safe for threads; every method is bounded by what it takes or gives."""

    def __init__(self, lane_entries_max: int = limits.QUEUE_ENTRIES_MAX, entries_max: int = READY_ENTRIES_MAX) -> None:
        self._lane_max = lane_entries_max
        self._lane_min = min(LANE_ENTRIES_MIN, lane_entries_max)
        self._held_max = min(HELD_ENTRIES_MAX, lane_entries_max)
        self._max = entries_max
        self._tenants: dict[TenantId, Tenant] = {}
        self._turns: Turns[Tenant] = Turns(SPARE_TENANTS)
        self._ids: set[str] = set()
        self._left_out: dict[Lane, None] = {}
        """The lanes that left something out."""
        self._lanes_count = 0
        self._given = 0
        self._closed: set[Gate] = set()
        self._closed_keys: dict[tuple[TenantId, str], set[str]] = {}
        self._tenant_weights: dict[TenantId, int] = {}
        self._queue_weights: dict[tuple[TenantId, str], int] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, job: str) -> bool:
        return job in self._ids

    @property
    def leaves_out(self) -> bool:
        """Whether there is more in the database than there was room for."""
        return bool(self._left_out)

    @property
    def closed(self) -> Set[Gate]:
        return self._closed

    def push(self, entry: Entry) -> bool:
        """Takes a due job; False when there is no room, which its lane then remembers, to read on from there."""
        if entry.id in self._ids:
            return True
        tenant = self._tenants.get(entry.tenant_id)
        if tenant is None:
            tenant = self._add_tenant(entry.tenant_id)
        backlog = tenant.backlogs.get(entry.queue)
        if backlog is None:
            backlog = self._add_backlog(tenant, entry.queue)
        lane, key = backlog.lane_of_job(entry.type, entry.concurrency_key)
        if lane is None:
            lane = self._add_lane(tenant, backlog, entry.type, key)
            if lane is None:
                return False
        if not self._has_room(lane, entry):
            self._leave_out(lane, entry)
            return False
        self._ids.add(entry.id)
        tenant.entries += 1
        if lane.push(entry) and backlog.views and backlog.is_open(lane):
            backlog.show(lane)
        if not backlog.awake:
            self._wake(tenant, backlog)
        return True

    def take(self, wants: Wants, count: int, bytes_max: int) -> list[Entry]:
        """Up to `count` jobs of at most `bytes_max` together, best first; always one if there is one. Of several
        queues each gets its share by weight."""
        tenant = self._tenants.get(wants.tenant_id)
        if tenant is None or tenant.closed:
            return []
        emptied: list[Lane] = []
        if len(wants.queues) > 1:
            taken = self._take_across(tenant, wants, count, bytes_max, emptied)
        else:
            taken = self._take_from(tenant, wants, count, bytes_max, emptied)
        if taken:
            self._ids.difference_update([entry.id for entry in taken])
            self._given += len(taken)
            tenant.entries -= len(taken)
            self._turns.charge(tenant, len(taken))
            for lane in emptied:
                self._drop_if_idle(lane)
        return taken

    def peek(self, wants: Wants) -> float | None:
        """The order of the job that `take` would give first; None when it would give none."""
        tenant = self._tenants.get(wants.tenant_id)
        if tenant is None or tenant.closed:
            return None
        if len(wants.queues) > 1:
            candidates = self._candidates(tenant, wants, tenant.shares_of(wants))
            return min(candidates).order if candidates else None
        backlog = tenant.backlogs.get(wants.queues[0]) if wants.queues else None
        lane = None if backlog is None or backlog.closed else self._first(tenant, backlog, wants.types)
        return None if lane is None else lane.heap[0][0]

    def count(self, wants: Wants, most: int) -> int:
        """How many jobs `take` could give, counted up to `most`."""
        tenant = self._tenants.get(wants.tenant_id)
        found = 0
        if tenant is not None and not tenant.closed:
            for queue in dict.fromkeys(wants.queues):
                backlog = tenant.backlogs.get(queue)
                if backlog is not None and not backlog.closed and found < most:
                    found += backlog.count(wants.types, most - found)
        return found

    def next_turn(self) -> tuple[TenantId, str] | None:
        """The (tenant, queue) to take from next; None when all that is left was passed over."""
        while (tenant := self._turns.first()) is not None:
            backlog = tenant.turns.first()
            if backlog is not None:
                return tenant.id, backlog.queue
            self._turns.sleep(tenant)
        return None

    def pass_over(self, tenant_id: TenantId, queue: str) -> None:
        """Nothing can be done with this turn until something changes there."""
        tenant = self._tenants.get(tenant_id)
        backlog = None if tenant is None else tenant.backlogs.get(queue)
        if tenant is not None and backlog is not None:
            tenant.turns.sleep(backlog)

    def wake(self, tenant_id: TenantId, queue: str) -> None:
        """A worker has come that takes from this queue: its turn may be of use again."""
        tenant = self._tenants.get(tenant_id)
        backlog = None if tenant is None else tenant.backlogs.get(queue)
        if tenant is not None and backlog is not None:
            self._wake(tenant, backlog)

    def queues(self) -> list[tuple[TenantId, str]]:
        """The (tenant, queue) pairs that have something to give."""
        return [
            (tenant.id, backlog.queue)
            for tenant in list(self._tenants.values())
            for backlog in list(tenant.backlogs.values())
            if backlog.lanes_count
            and not tenant.closed
            and not backlog.closed
            and self._first(tenant, backlog, _EVERY_TYPE)
        ]

    def close(self, gate: Gate) -> None:
        """Gives nothing of it until it opens."""
        self._closed.add(gate)
        tenant = self._tenants.get(gate.tenant_id)
        backlog = None if tenant is None else tenant.backlogs.get(gate.queue)
        if gate.key:
            keys = self._closed_keys.setdefault((gate.tenant_id, gate.queue), set())
            keys.add(gate.key)
            if backlog is not None:
                backlog.closed_keys = keys
        elif gate.queue:
            if tenant is not None and backlog is not None:
                backlog.closed = True
                tenant.turns.sleep(backlog)
        elif tenant is not None:
            tenant.closed = True
            self._turns.sleep(tenant)

    def open(self, gate: Gate) -> None:
        if gate not in self._closed:
            return
        self._closed.discard(gate)
        tenant = self._tenants.get(gate.tenant_id)
        backlog = None if tenant is None else tenant.backlogs.get(gate.queue)
        if gate.key:
            keys = self._closed_keys[gate.tenant_id, gate.queue]
            keys.discard(gate.key)
            if not keys:
                del self._closed_keys[gate.tenant_id, gate.queue]
            if backlog is not None:
                for lane in backlog.key_lanes.get(gate.key, {}).values():
                    if lane.heap:
                        backlog.show(lane)
        elif gate.queue:
            if backlog is not None:
                backlog.closed = False
        elif tenant is not None:
            tenant.closed = False
            for each in tenant.backlogs.values():
                self._wake(tenant, each)
        if tenant is not None and backlog is not None:
            self._wake(tenant, backlog)

    def set_weights(self, tenants: Mapping[TenantId, int], queues: Mapping[tuple[TenantId, str], int]) -> None:
        """All weights that are not WEIGHT_DEFAULT. They act at once, on what was given lately too."""
        changed = {id for id in {**self._tenant_weights, **tenants} if self._tenant_weights.get(id) != tenants.get(id)}
        self._tenant_weights = dict(tenants)
        for id in changed:
            tenant = self._tenants.get(id)
            if tenant is not None:
                self._turns.reweigh(tenant, self._tenant_weight(id))
        self._turns.sort()
        moved = {key for key in {**self._queue_weights, **queues} if self._queue_weights.get(key) != queues.get(key)}
        before = {(id, queue): self._queue_weight(id, queue) for id, queue in moved}
        self._queue_weights = dict(queues)
        for (id, queue), old in before.items():
            tenant = self._tenants.get(id)
            if tenant is None:
                continue
            weight = self._queue_weight(id, queue)
            for shares in tenant.shares.values():
                shares.reweigh(queue, old, weight)
            backlog = tenant.backlogs.get(queue)
            if backlog is not None:
                tenant.turns.reweigh(backlog, weight)
                tenant.turns.sort()

    def refillable(self) -> list[tuple[LaneKey, dict[ShardNo, Position]]]:
        """Lanes with room that left jobs in the database, at most REFILL_LANES_MAX of them: first those of tenants
        that have little in memory for their weight. Their marks are cleared: the caller reads from there, in this
        order."""
        room = self._max - len(self._ids)
        spare = max(self._max // _ROOM_PARTS, 1)
        if self._left_out and room < spare:
            room += self._shed_one()
        chosen = []
        for lane in self._in_fair_order([lane for lane in self._left_out if self._wants_more(lane)]):
            if len(lane.heap) > self._least(lane):
                # Beyond what is kept for every lane there has to be room for it.
                if room < spare:
                    continue
                room -= lane.entries_max // 2
            chosen.append(lane)
            if len(chosen) == REFILL_LANES_MAX:
                break
        found = []
        for lane in chosen:
            found.append((lane.key, lane.left_out))
            lane.left_out = {}
            lane.left_order = math.inf
            lane.read_at = self._given
            del self._left_out[lane]
            self._drop_if_idle(lane)
        return found

    def is_full(self, key: LaneKey) -> bool:
        """If the lane has no room, of its own or of all lanes together."""
        lane = self._lane(key)
        if lane is None:
            return False
        return lane.is_full or (len(self._ids) >= self._max and len(lane.heap) >= self._lane_min)

    def leave_out(self, key: LaneKey, shard: ShardNo, position: Position) -> None:
        """Notes that a lane's jobs from this position on are not in memory."""
        lane = self._lane(key)
        if lane is None:
            tenant = self._tenants.get(key.tenant_id) or self._add_tenant(key.tenant_id)
            backlog = tenant.backlogs.get(key.queue) or self._add_backlog(tenant, key.queue)
            lane = self._add_lane(tenant, backlog, key.type, key.concurrency_key)
        if lane is not None:
            lane.leave_out(shard, position)
            self._left_out[lane] = None

    def forget_shards(self, shards: frozenset[ShardNo]) -> None:
        """Drops every job of shards that are no longer owned."""
        for lane in self._all_lanes():
            self._removed(lane, lane.remove(lambda e: e.shard in shards))
            if lane.left_out:
                lane.left_out = {shard: at for shard, at in lane.left_out.items() if shard not in shards}
                if not lane.left_out:
                    lane.left_order = math.inf
                    del self._left_out[lane]
            self._drop_if_idle(lane)

    def expired(self, now: float) -> list[Entry]:
        """Takes out the jobs whose start_by has passed."""
        gone: list[Entry] = []
        for lane in self._all_lanes():
            if lane.start_by_min <= now:
                late = lane.expired(now)
                self._removed(lane, late)
                gone += late
                self._drop_if_idle(lane)
        return gone

    def _take_from(self, tenant: Tenant, wants: Wants, count: int, bytes_max: int, emptied: list[Lane]) -> list[Entry]:
        taken: list[Entry] = []
        backlog = tenant.backlogs.get(wants.queues[0]) if wants.queues else None
        if backlog is None or backlog.closed:
            return taken
        view = backlog.view(wants.types)
        given = self._given + 1
        room = bytes_max
        while len(taken) < count:
            lane = self._first(tenant, backlog, wants.types) if backlog.closed_keys else view.first()
            if lane is None:
                break
            entry = lane.heap[0][2]
            if taken and entry.size > room:
                break
            lane.pop()
            lane.given_at = given
            room -= entry.size
            taken.append(entry)
            if not lane.heap:
                emptied.append(lane)
        if taken:
            tenant.turns.charge(backlog, len(taken))
        return taken

    def _take_across(
        self, tenant: Tenant, wants: Wants, count: int, bytes_max: int, emptied: list[Lane]
    ) -> list[Entry]:
        taken: list[Entry] = []
        shares = tenant.shares_of(wants)
        candidates = self._candidates(tenant, wants, shares)
        heapq.heapify(candidates)
        given = self._given + 1
        room = bytes_max
        while candidates and len(taken) < count:
            best = candidates[0]
            backlog, lane = best.backlog, best.lane
            entry = lane.heap[0][2]
            if taken and entry.size > room:
                break
            lane.pop()
            lane.given_at = given
            room -= entry.size
            taken.append(entry)
            tenant.turns.charge(backlog, 1)
            shares.now = best.tag
            best.tag += UNIT // backlog.weight
            shares.tags[backlog.queue] = best.tag
            if not lane.heap:
                emptied.append(lane)
            following = self._first(tenant, backlog, wants.types)
            if following is None:
                heapq.heappop(candidates)
            else:
                best.lane = following
                best.order = following.heap[0][0]
                heapq.heapreplace(candidates, best)
        return taken

    def _candidates(self, tenant: Tenant, wants: Wants, shares: Shares) -> list[_Candidate]:
        """The queues that have something for these workers."""
        found = []
        for queue in shares.queues:
            backlog = tenant.backlogs.get(queue)
            if backlog is not None and not backlog.closed:
                lane = self._first(tenant, backlog, wants.types)
                if lane is not None:
                    tag = max(shares.tags[queue], shares.now)
                    found.append(_Candidate(tag, lane.heap[0][0], backlog, lane))
        return found

    def _first(self, tenant: Tenant, backlog: Backlog, types: frozenset[str]) -> Lane | None:
        """The lane with the best job that may be given. Jobs of closed keys that are met are set aside."""
        view = backlog.view(types)
        while (lane := view.first()) is not None:
            if not backlog.closed_keys:
                return lane
            if lane.key.concurrency_key:
                if backlog.is_open(lane):
                    return lane
                view.drop_first()
            elif lane.heap[0][2].concurrency_key in backlog.closed_keys:
                self._set_aside(tenant, backlog, lane)
            else:
                return lane
        return None

    def _set_aside(self, tenant: Tenant, backlog: Backlog, lane: Lane) -> None:
        """Moves the first job of a lane to the lane of its concurrency key, or out of memory if that is full."""
        entry = lane.pop()
        key = entry.concurrency_key
        held = backlog.lane(entry.type, key) or self._add_lane(tenant, backlog, entry.type, key)
        if held is not None and not held.is_full:
            held.push(entry)
        else:
            self._ids.discard(entry.id)
            tenant.entries -= 1
            if held is not None:
                self._leave_out(held, entry)
        if not lane.heap:
            self._drop_if_idle(lane)

    def _has_room(self, lane: Lane, entry: Entry) -> bool:
        held = len(lane.heap)
        if held >= lane.entries_max:
            # Better than what was left out, as a high priority behind a long backlog: it must not wait with that.
            return entry.order < lane.left_order < math.inf and held < lane.entries_max * 5 // 4
        size = len(self._ids)
        if size < self._max:
            return True
        return held == 0 or (held < self._lane_min and size < self._max + READY_RESERVE)

    def _leave_out(self, lane: Lane, entry: Entry) -> None:
        lane.leave_out(entry.shard, entry.position)
        lane.left_order = min(lane.left_order, entry.order)
        self._left_out[lane] = None

    def _wants_more(self, lane: Lane) -> bool:
        # One that gives nothing does not need more than the least: nobody works there.
        return len(lane.heap) <= self._least(lane) or (
            lane.given_at > lane.read_at and len(lane.heap) <= lane.entries_max // 2
        )

    def _least(self, lane: Lane) -> int:
        return min(self._lane_min, lane.entries_max) // 2

    def _in_fair_order(self, lanes: list[Lane]) -> list[Lane]:
        """Tenants in turns, by what they have in memory for their weight; of one, the emptiest lanes first."""
        lanes.sort(key=lambda lane: len(lane.heap))
        ahead: dict[TenantId, int] = {}
        ranked = []
        for number, lane in enumerate(lanes):
            tenant = self._tenants[lane.key.tenant_id]
            entries = ahead.setdefault(tenant.id, tenant.entries)
            ahead[tenant.id] += self._lane_min
            ranked.append((entries / tenant.weight, number, lane))
        ranked.sort()
        return [lane for _, _, lane in ranked]

    def _shed_one(self) -> int:
        """Takes back the room of one lane that gives nothing, for want of workers or because it is closed, down to the
        least; how much that is."""
        for lane in self._all_lanes():
            if len(lane.heap) > self._lane_min and self._is_idle(lane):
                gone = lane.shed(self._lane_min)
                self._left_out[lane] = None
                self._removed(lane, gone)
                return len(gone)
        return 0

    def _is_idle(self, lane: Lane) -> bool:
        tenant = self._tenants[lane.key.tenant_id]
        backlog = tenant.backlogs[lane.key.queue]
        if tenant.closed or backlog.closed or not backlog.is_open(lane):
            return True
        return self._given - lane.given_at > self._lane_max // _IDLE_PARTS

    def _removed(self, lane: Lane, entries: list[Entry]) -> None:
        self._ids.difference_update([entry.id for entry in entries])
        self._tenants[lane.key.tenant_id].entries -= len(entries)

    def _all_lanes(self) -> list[Lane]:
        return [
            lane
            for tenant in self._tenants.values()
            for backlog in tenant.backlogs.values()
            for lane in backlog.all_lanes()
        ]

    def _lane(self, key: LaneKey) -> Lane | None:
        tenant = self._tenants.get(key.tenant_id)
        backlog = None if tenant is None else tenant.backlogs.get(key.queue)
        return None if backlog is None else backlog.lane(key.type, key.concurrency_key)

    def _tenant_weight(self, id: TenantId) -> int:
        return max(self._tenant_weights.get(id, WEIGHT_DEFAULT), 1)

    def _queue_weight(self, id: TenantId, queue: str) -> int:
        return max(self._queue_weights.get((id, queue), WEIGHT_DEFAULT), 1)

    def _add_tenant(self, id: TenantId) -> Tenant:
        tenant = self._tenants[id] = Tenant(id, self._tenant_weight(id), Gate(id) in self._closed)
        return tenant

    def _add_backlog(self, tenant: Tenant, queue: str) -> Backlog:
        backlog = tenant.backlogs[queue] = Backlog(
            tenant.id,
            queue,
            self._queue_weight(tenant.id, queue),
            Gate(tenant.id, queue) in self._closed,
            self._closed_keys.get((tenant.id, queue), _NO_KEYS),
        )
        return backlog

    def _add_lane(self, tenant: Tenant, backlog: Backlog, type: str, key: str) -> Lane | None:
        if self._lanes_count >= LANES_MAX:
            return None
        self._lanes_count += 1
        tenant.lanes_count += 1
        return backlog.add_lane(type, key, self._held_max if key else self._lane_max, self._given)

    def _drop_if_idle(self, lane: Lane) -> None:
        if lane.heap or lane.left_out:
            return
        tenant = self._tenants[lane.key.tenant_id]
        backlog = tenant.backlogs[lane.key.queue]
        backlog.drop_lane(lane.key)
        self._lanes_count -= 1
        tenant.lanes_count -= 1
        if not backlog.lanes_count:
            for other in tenant.turns.retire(backlog):
                if not other.lanes_count and tenant.backlogs.get(other.queue) is other:
                    del tenant.backlogs[other.queue]
        if not tenant.lanes_count:
            for idle in self._turns.retire(tenant):
                if not idle.lanes_count and self._tenants.get(idle.id) is idle:
                    del self._tenants[idle.id]

    def _wake(self, tenant: Tenant, backlog: Backlog) -> None:
        if not tenant.closed and not backlog.closed and backlog.lanes_count:
            tenant.turns.wake(backlog)
            self._turns.wake(tenant)
