"""Due jobs as memory knows them, and the lanes that they wait in.

A *lane* is one (tenant, queue, type). Within a lane jobs are ordered by `due − priority · PRIORITY_STEP_S`: a level of
priority is worth a fixed wait, which gives ageing with a key that never changes while a job waits. So a job of
priority 0 is overtaken by fresh priority-9 work for at most 270 s, and nothing starves.

A concurrency key that was closed has lanes of its own, so that its jobs neither fill the room of others nor are looked
at again and again.

A lane is bounded. What does not fit stays in the database, and the lane remembers for each shard the first position
that it left out, so that the reader comes back for it once there is room.
"""

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from rota.domain import limits
from rota.domain.ids import JobId, ShardNo, TenantId


class LaneKey(NamedTuple):
    """A lane; with a concurrency key, the lane of that key's jobs only."""

    tenant_id: TenantId
    queue: str
    type: str
    concurrency_key: str = ""

    def covers(self, entry: "Entry") -> bool:
        """If a read of this lane finds the job. A lane without a key has those of all keys that were never closed, so
        a read of it takes every key."""
        return (
            entry.tenant_id == self.tenant_id
            and entry.queue == self.queue
            and entry.type == self.type
            and self.concurrency_key in ("", entry.concurrency_key)
        )


class Position(NamedTuple):
    """A place in a shard's due order: microseconds since 1970, then the job's id."""

    due_us: int
    id: str


FIRST = Position(-62_135_596_800_000_000, "00000000-0000-0000-0000-000000000000")
"""Before every position that a job can have."""


@dataclass(slots=True)
class Entry:
    """A due (or soon due) job as the queue knows it. Times are seconds since 1970 by the database's clock; `size` is
    what its lease weighs in an answer, in bytes. From `start_by` on it is not handed out any more: that is the end of
    timeouts.start_by or of timeouts.total, whichever comes first."""

    tenant_id: TenantId
    id: JobId
    shard: ShardNo
    queue: str
    type: str
    priority: int
    due_us: int
    size: int
    start_by: float | None = None
    concurrency_key: str = ""

    def __lt__(self, other: "Entry") -> bool:
        """Two may be of the same job, read one after the other; which comes first says nothing."""
        return False

    @property
    def due(self) -> float:
        return self.due_us / 1e6

    @property
    def order(self) -> float:
        """The lowest is the first of its queue."""
        return self.due_us / 1e6 - self.priority * limits.PRIORITY_STEP_S

    @property
    def lane(self) -> LaneKey:
        return LaneKey(self.tenant_id, self.queue, self.type)

    @property
    def position(self) -> Position:
        return Position(self.due_us, self.id)


Waiting = tuple[float, str, Entry]
"""A job under its order and its id."""


class Lane:
    __slots__ = ("entries_max", "given_at", "heap", "key", "keyed", "left_order", "left_out", "read_at", "start_by_min")

    def __init__(self, key: LaneKey, entries_max: int, given: int) -> None:
        self.key = key
        self.entries_max = entries_max
        self.heap: list[Waiting] = []
        self.keyed: dict[str, int] = {}
        """How many of the jobs have which concurrency key, for those that have one."""
        self.left_out: dict[ShardNo, Position] = {}
        """For each shard the first position that did not fit."""
        self.left_order = math.inf
        """The best order of what did not fit, as far as it is known."""
        self.start_by_min = math.inf
        """No job here has to start before."""
        self.given_at = self.read_at = given
        """Where the count of all jobs given stood when this lane last gave one, and when it was last read for."""

    def __lt__(self, other: "Lane") -> bool:
        """Two lanes may have listed the same job, one after the other; which comes first says nothing."""
        return False

    @property
    def is_full(self) -> bool:
        return len(self.heap) >= self.entries_max

    def push(self, entry: Entry) -> bool:
        """True when the job is the lane's first now."""
        if entry.concurrency_key:
            self.keyed[entry.concurrency_key] = self.keyed.get(entry.concurrency_key, 0) + 1
        if entry.start_by is not None and entry.start_by < self.start_by_min:
            self.start_by_min = entry.start_by
        heap = self.heap
        heapq.heappush(heap, (entry.due_us / 1e6 - entry.priority * limits.PRIORITY_STEP_S, entry.id, entry))
        return heap[0][2] is entry

    def pop(self) -> Entry:
        entry = heapq.heappop(self.heap)[2]
        if entry.concurrency_key:
            self._uncount(entry)
        return entry

    def leave_out(self, shard: ShardNo, position: Position) -> None:
        first = self.left_out.get(shard)
        if first is None or position < first:
            self.left_out[shard] = position

    def remove(self, which: Callable[[Entry], bool]) -> list[Entry]:
        gone = [item[2] for item in self.heap if which(item[2])]
        if gone:
            self.heap = [item for item in self.heap if not which(item[2])]
            heapq.heapify(self.heap)
            for entry in gone:
                if entry.concurrency_key:
                    self._uncount(entry)
        return gone

    def expired(self, now: float) -> list[Entry]:
        """Takes out the jobs whose start_by has passed."""
        gone = self.remove(lambda e: e.start_by is not None and e.start_by <= now)
        self.start_by_min = min((e.start_by for _, _, e in self.heap if e.start_by is not None), default=math.inf)
        return gone

    def shed(self, kept: int) -> list[Entry]:
        """Leaves out all but the first jobs, which stay."""
        self.heap.sort()
        gone = [item[2] for item in self.heap[kept:]]
        if gone:
            self.left_order = min(self.left_order, self.heap[kept][0])
        del self.heap[kept:]
        for entry in gone:
            self.leave_out(entry.shard, entry.position)
            if entry.concurrency_key:
                self._uncount(entry)
        return gone

    def _uncount(self, entry: Entry) -> None:
        count = self.keyed[entry.concurrency_key] - 1
        if count:
            self.keyed[entry.concurrency_key] = count
        else:
            del self.keyed[entry.concurrency_key]
