"""A clock that a test moves, and stores that answer from lists."""

import asyncio
import heapq
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from rota.clock import DatabaseClock
from rota.coordinator.inflight import Flight
from rota.coordinator.memory import Memory
from rota.coordinator.news import Claimed, ClaimWish, News
from rota.coordinator.peers import Peers
from rota.domain import ids
from rota.domain.errors import Unavailable
from rota.domain.fairness import Entry, LaneKey, Position
from rota.domain.ids import CoordinatorId, Fence, JobId, SessionId, ShardNo, TenantId
from rota.domain.model import Grant, JobState, Session, SessionState, ShardTerm
from rota.store.port import Colleague, DueRow
from rota.telemetry import Metrics

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
ME = CoordinatorId("c0000000-0000-7000-8000-000000000000")
PEER = CoordinatorId("cb000000-0000-7000-8000-000000000000")
TENANT = TenantId(1)
SESSION = SessionId("50000000-0000-7000-8000-000000000000")


class FakeClock:
    """Stands still until `advance`; sleepers wake in order."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self._rng = random.Random(7)
        self._ids = itertools.count(1)
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    @property
    def rng(self) -> random.Random:
        return self._rng

    @property
    def sleeping(self) -> int:
        """How many sleep still."""
        return sum(not future.done() for _, _, future in self._sleepers)

    @property
    def next_wake_s(self) -> float:
        """How long the next sleeper has to wait."""
        return min(at for at, _, future in self._sleepers if not future.done()) - self.now

    def monotonic(self) -> float:
        return self.now

    def utc(self) -> datetime:
        return EPOCH + timedelta(seconds=self.now)

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, next(self._ids), future))
        await future

    async def advance(self, seconds: float) -> None:
        """Moves time, and lets everything run that it wakes."""
        self.now += seconds
        while self._sleepers and self._sleepers[0][0] <= self.now:
            _, _, future = heapq.heappop(self._sleepers)
            if not future.done():
                future.set_result(None)
        await turns()

    def new_id(self) -> str:
        return uuid(next(self._ids))


async def turns(count: int = 20) -> None:
    """Lets ready tasks run."""
    for _ in range(count):
        await asyncio.sleep(0)


def uuid(number: int) -> str:
    return f"00000000-0000-7000-8000-{number:012x}"


def job_id(number: int) -> JobId:
    return JobId(uuid(number))


class Silence:
    """A Wire that takes no news."""

    def send(self, news: News) -> bool:
        return False

    async def claim(self, wish: ClaimWish) -> Claimed:
        raise Unavailable("nobody is there")

    async def hand_over(self, shards: Sequence[ShardNo]) -> list[ShardNo]:
        raise Unavailable("nobody is there")

    async def close(self) -> None:
        return None


class Deaf:
    """Hearing, of which nothing is asked."""

    def tell_all(self, peer: CoordinatorId) -> None:
        return None


@dataclass
class World:
    """A clock, the database's clock as read from it, and a memory that owns some shards."""

    shards: int = 4
    clock: FakeClock = field(default_factory=FakeClock)

    def __post_init__(self) -> None:
        self.database_clock = DatabaseClock(self.clock)
        self.database_clock.observe(self.clock.utc(), self.clock.monotonic())
        self.metrics = Metrics()
        self.peers = Peers(ME, self.clock, lambda peer, address, **_: Silence())
        self.peers.hearing = Deaf()  # type: ignore[assignment]
        self.memory = Memory(self.database_clock, self.metrics, self.peers)
        self.own(range(self.shards))

    def meet(self, *shards: int) -> News:
        """A peer comes that owns these; what it is to be told gathers in the answer."""
        owners = {ShardNo(shard): PEER for shard in shards}
        self.peers.follow([Colleague(PEER, "there", 9.0)], self.shards + len(shards), owners)
        return self.peers.tell(PEER)

    def own(self, shards: Sequence[int], epoch: int = 1) -> None:
        self.memory.terms |= {ShardNo(s): ShardTerm(ShardNo(s), epoch, ME) for s in shards}

    @property
    def now_us(self) -> int:
        return int(self.database_clock.now() * 1e6)

    def entry(self, number: int, due_in_s: float = -1.0, **fields: Any) -> Entry:
        usual: dict[str, Any] = {
            "tenant_id": TENANT,
            "id": job_id(number),
            "shard": ShardNo(number % self.shards),
            "queue": "q",
            "type": "t",
            "priority": 4,
            "due_us": self.now_us + round(due_in_s * 1e6),
            "size": 100,
        }
        return Entry(**usual | fields)

    def flight(self, number: int, run_s: float = 60.0, session: SessionId = SESSION, **fields: Any) -> Flight:
        usual: dict[str, Any] = {
            "tenant_id": TENANT,
            "job_id": job_id(number),
            "shard": ShardNo(number % self.shards),
            "fence": ids.mint_fence(1, number + 1),
            "session_id": session,
            "run_deadline": self.clock.now + run_s,
            "poller": 0,
            "batch": 1,
        }
        return Flight(**usual | fields)


def session(id: SessionId = SESSION, **fields: Any) -> Session:
    usual: dict[str, Any] = {
        "id": id,
        "tenant_id": TENANT,
        "epoch": 1,
        "worker": "w",
        "sdk": "",
        "build_id": "",
        "queues": ("q",),
        "types": (),
        "slots": 1,
        "labels": {},
        "protocol_version": 1,
        "state": SessionState.ACTIVE,
        "opened_at": EPOCH,
        "last_beat_at": EPOCH,
        "expires_at": EPOCH,
        "free_slots": 1,
        "coordinator": ME,
    }
    return Session(**usual | fields)


def grant(number: int, **fields: Any) -> Grant:
    usual: dict[str, Any] = {
        "tenant_id": TENANT,
        "job_id": job_id(number),
        "shard": ShardNo(0),
        "fence": ids.mint_fence(1, number + 1),
        "session_id": SESSION,
        "attempt": 1,
        "attempts_counted": 0,
        "max_attempts": 5,
        "type": "t",
        "queue": "q",
        "priority": 4,
        "payload": b"",
        "content_type": "",
        "headers": None,
        "effect_key": "",
        "generation": 0,
        "run_timeout_s": 60.0,
        "deadline_s": None,
        "due_at": EPOCH,
        "traceparent": "",
        "tracestate": "",
    }
    return Grant(**usual | fields)


def row(entry: Entry, state: JobState = JobState.SCHEDULED, **fields: Any) -> DueRow:
    usual: dict[str, Any] = {
        "state": state,
        "fence": Fence(0),
        "session_id": None,
        "leased_for_s": None,
        "run_timeout_s": 60.0,
        "session_alive": False,
    }
    return DueRow(entry, **usual | fields)


@dataclass
class FakeRows:
    """The due range of a table, as LeaseStore and ShardStore read it. `between` runs after each read, as what others
    commit while its answer travels."""

    rows: dict[JobId, DueRow] = field(default_factory=dict)
    marks: dict[ShardNo, int] = field(default_factory=dict)
    stored_marks: dict[ShardNo, int] = field(default_factory=dict)
    reads: list[int] = field(default_factory=list)
    lane_reads: int = 0
    fail: Callable[[LaneKey | None], BaseException | None] = lambda lane: None
    between: Callable[[], None] = lambda: None

    def put(self, *rows: DueRow) -> None:
        self.rows |= {r.entry.id: r for r in rows}

    async def read_due(
        self, after: Sequence[tuple[ShardNo, Position]], until_us: int, page: int, lane: LaneKey | None = None
    ) -> list[DueRow]:
        await asyncio.sleep(0)
        error = self.fail(lane)
        if error is not None:
            raise error
        found: list[DueRow] = []
        for shard, position in after:
            own = [
                r
                for r in self.rows.values()
                if r.entry.shard == shard
                and position < r.entry.position
                and r.entry.due_us <= until_us
                and (lane is None or lane.covers(r.entry))
            ]
            found += sorted(own, key=lambda r: r.entry.position)[:page]
        self.reads.append(len(found))
        self.lane_reads += lane is not None
        self.between()
        return found

    async def watermarks(self, shards: Sequence[ShardNo]) -> dict[ShardNo, int]:
        return {s: self.marks[s] for s in shards if s in self.marks}

    async def set_watermarks(self, marks: Mapping[ShardNo, int], coordinator: CoordinatorId) -> None:
        self.stored_marks |= marks
