"""The in-memory queue of due jobs: derived state, thrown away at any moment without loss.

A *lane* is one (tenant, queue, type). Within a lane jobs are ordered by `due − priority · PRIORITY_STEP_S`: a level of
priority is worth a fixed wait, which gives ageing with a key that never changes while a job waits. So a job of
priority 0 is overtaken by fresh priority-9 work for at most 270 s, and nothing starves.

A lane holds at most QUEUE_ENTRIES_MAX entries. What does not fit stays in the database, and the lane remembers for each
shard the first position that it left out, so that the reader comes back for it once there is room.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from rota.domain import limits
from rota.domain.ids import JobId, ShardNo, TenantId


class LaneKey(NamedTuple):
    tenant_id: TenantId
    queue: str
    type: str


class Position(NamedTuple):
    """A place in a shard's due order: microseconds since 1970, then the job's id."""

    due_us: int
    id: str


FIRST = Position(-62_135_596_800_000_000, "00000000-0000-0000-0000-000000000000")
"""Before every position that a job can have."""


@dataclass(slots=True)
class Entry:
    """A due (or soon due) job as the queue knows it. Times are seconds since 1970 by the database's clock; `size` is
    what its lease weighs in an answer, in bytes."""

    tenant_id: TenantId
    id: JobId
    shard: ShardNo
    queue: str
    type: str
    priority: int
    due_us: int
    size: int
    start_by: float | None = None

    @property
    def due(self) -> float:
        return self.due_us / 1e6

    @property
    def lane(self) -> LaneKey:
        return LaneKey(self.tenant_id, self.queue, self.type)

    @property
    def position(self) -> Position:
        return Position(self.due_us, self.id)


@dataclass(slots=True)
class Lane:
    heap: list[tuple[float, str, Entry]] = field(default_factory=list)
    left_out: dict[ShardNo, Position] = field(default_factory=dict)
    """For each shard the first position that did not fit."""


@dataclass(frozen=True, slots=True)
class Wants:
    """What a session takes: `types` empty means every type."""

    tenant_id: TenantId
    queues: tuple[str, ...]
    types: frozenset[str]


class ReadyQueue:
    """Due jobs by lane. Not safe for threads; every method is bounded by what it takes or gives."""

    def __init__(self, lane_entries_max: int = limits.QUEUE_ENTRIES_MAX) -> None:
        self._max = lane_entries_max
        self._lanes: dict[LaneKey, Lane] = {}
        self._types: dict[tuple[TenantId, str], set[str]] = {}
        self._ids: set[str] = set()

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, job: str) -> bool:
        return job in self._ids

    def push(self, entry: Entry) -> bool:
        """Takes a due job; False when its lane is full, which then remembers where to read on."""
        if entry.id in self._ids:
            return True
        key = entry.lane
        lane = self._lane(key)
        if len(lane.heap) >= self._max:
            self.leave_out(key, entry.shard, entry.position)
            return False
        self._ids.add(entry.id)
        order = entry.due_us / 1e6 - entry.priority * limits.PRIORITY_STEP_S
        heapq.heappush(lane.heap, (order, entry.id, entry))
        return True

    def queues(self) -> Iterable[tuple[TenantId, str]]:
        """The (tenant, queue) pairs that have something to give."""
        return self._types.keys()

    def take(self, wants: Wants, count: int, bytes_max: int) -> list[Entry]:
        """Up to `count` jobs of at most `bytes_max` together, best first; always one if there is one."""
        keys = self._matching(wants)
        taken: list[Entry] = []
        room = bytes_max
        while keys and len(taken) < count:
            key = keys[0] if len(keys) == 1 else min(keys, key=lambda k: self._lanes[k].heap[0])
            heap = self._lanes[key].heap
            entry = heap[0][2]
            if taken and entry.size > room:
                break
            heapq.heappop(heap)
            self._ids.discard(entry.id)
            room -= entry.size
            taken.append(entry)
            if not heap:
                keys.remove(key)
                self._drop_if_idle(key)
        return taken

    def refillable(self) -> list[tuple[LaneKey, dict[ShardNo, Position]]]:
        """Lanes with room that left jobs in the database. Their marks are cleared: the caller reads from there."""
        found = []
        for key, lane in list(self._lanes.items()):
            if lane.left_out and len(lane.heap) <= self._max // 2:
                found.append((key, lane.left_out))
                lane.left_out = {}
                self._drop_if_idle(key)
        return found

    def is_full(self, key: LaneKey) -> bool:
        lane = self._lanes.get(key)
        return lane is not None and len(lane.heap) >= self._max

    def leave_out(self, key: LaneKey, shard: ShardNo, position: Position) -> None:
        """Notes that a lane's jobs from this position on are not in memory."""
        lane = self._lane(key)
        first = lane.left_out.get(shard)
        if first is None or position < first:
            lane.left_out[shard] = position

    def forget_shards(self, shards: frozenset[ShardNo]) -> None:
        """Drops every job of shards that are no longer owned."""
        for key in list(self._lanes):
            lane = self._lanes[key]
            kept = [item for item in lane.heap if item[2].shard not in shards]
            if len(kept) != len(lane.heap):
                self._ids.difference_update(item[1] for item in lane.heap if item[2].shard in shards)
                heapq.heapify(kept)
                lane.heap = kept
            lane.left_out = {shard: at for shard, at in lane.left_out.items() if shard not in shards}
            self._drop_if_idle(key)

    def expired(self, now: float) -> list[Entry]:
        """Takes out the jobs whose start_by has passed."""
        gone: list[Entry] = []
        for key in list(self._lanes):
            lane = self._lanes[key]
            late = [e for _, _, e in lane.heap if e.start_by is not None and e.start_by <= now]
            if late:
                ids = {e.id for e in late}
                lane.heap = [item for item in lane.heap if item[1] not in ids]
                heapq.heapify(lane.heap)
                self._ids -= ids
                gone.extend(late)
                self._drop_if_idle(key)
        return gone

    def _lane(self, key: LaneKey) -> Lane:
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane()
            self._types.setdefault((key.tenant_id, key.queue), set()).add(key.type)
        return lane

    def _matching(self, wants: Wants) -> list[LaneKey]:
        keys = []
        # A worker may name a queue twice; its lanes count once.
        for queue in dict.fromkeys(wants.queues):
            present = self._types.get((wants.tenant_id, queue))
            if not present:
                continue
            types = present & wants.types if wants.types else present
            for name in sorted(types):
                key = LaneKey(wants.tenant_id, queue, name)
                if self._lanes[key].heap:
                    keys.append(key)
        return keys

    def _drop_if_idle(self, key: LaneKey) -> None:
        lane = self._lanes.get(key)
        if lane is not None and not lane.heap and not lane.left_out:
            del self._lanes[key]
            types = self._types[(key.tenant_id, key.queue)]
            types.discard(key.type)
            if not types:
                del self._types[(key.tenant_id, key.queue)]
