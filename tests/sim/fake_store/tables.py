"""The tables of the simulated database, and what its ports have in common."""

import itertools
import json
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol, TypeVar

from rota.domain import limits
from rota.domain.fairness import Entry
from rota.domain.ids import CoordinatorId, Fence, JobId, ScheduleUid, SessionId, ShardNo, TenantId
from rota.domain.model import (
    DedupeScope,
    EffectReceipt,
    EffectState,
    Failure,
    JobOrigin,
    JobSpec,
    JobState,
    Outcome,
    Payload,
    RetryPolicy,
    Session,
)
from rota.domain.schedule import Backfill, Fate, Origin, Schedule
from rota.store.codec import instant

from ..history import History

T = TypeVar("T")

WAITING = (JobState.SCHEDULED, JobState.RETRY_WAIT)
HELD = (JobState.LEASED, JobState.CANCELLING)
NO_FENCE = Fence(0)

DedupeKey = tuple[TenantId, DedupeScope, str, str]


class UniqueViolation(Exception):
    """As the driver's own: a key that is taken, where the port knows no better word."""


class Call(Protocol):
    """The way to the database and back for one operation; `lane` as in `rota.store.engine.Database`."""

    async def __call__(self, name: str, work: Callable[[], T], *, lane: str, write: bool) -> T: ...


class Time(Protocol):
    def now_us(self) -> int: ...


async def direct(name: str, work: Callable[[], T], *, lane: str, write: bool) -> T:
    """Nothing in between."""
    return work()


@dataclass(slots=True)
class JobRow:
    """A row of `jobs`; and, once `ended_us` is set, of `finished_jobs` or `dead_jobs`."""

    spec: JobSpec
    created_us: int
    due_us: int
    start_by_us: int | None
    deadline_us: int | None
    state: JobState = JobState.SCHEDULED
    fence: Fence = NO_FENCE
    attempt: int = 0
    attempts_counted: int = 0
    session_id: SessionId | None = None
    leased_us: int | None = None
    last_failure: Failure | None = None
    cancel_reason: str | None = None
    ended_us: int | None = None
    outcome: Outcome | None = None
    result: Payload | None = None
    effect_state: EffectState = EffectState.UNSPECIFIED
    effect_receipts: tuple[EffectReceipt, ...] = ()
    despite_cancel: bool = False
    reason: str | None = None
    origin: JobOrigin | None = None

    @property
    def key(self) -> tuple[TenantId, JobId]:
        return self.spec.tenant_id, self.spec.id

    @property
    def run_timeout_ms(self) -> int:
        return round(self.spec.timeouts.run_s * 1000)

    @property
    def start_by_s(self) -> float | None:
        return None if self.start_by_us is None or self.attempts_counted else self.start_by_us / 1e6

    @property
    def latest_s(self) -> float | None:
        bounds_s = [self.start_by_s, None if self.deadline_us is None else self.deadline_us / 1e6]
        return min((bound_s for bound_s in bounds_s if bound_s is not None), default=None)


@dataclass(slots=True)
class AttemptRow:
    number: int
    fence: Fence
    session_id: SessionId | None
    leased_us: int
    ended_us: int
    outcome: Outcome
    failure: Failure | None
    effect_state: EffectState
    effect_receipts: tuple[EffectReceipt, ...]


@dataclass(slots=True)
class SessionRow:
    session: Session
    ttl_us: int
    expires_us: int
    last_beat_us: int
    closed_us: int | None = None


@dataclass(slots=True)
class CoordinatorRow:
    """`until_us`: the end of its term."""

    address: str
    peer_address: str
    until_us: int
    draining: bool = False


@dataclass(slots=True)
class ShardRow:
    epoch: int = 0
    owner: CoordinatorId | None = None
    watermark_us: int | None = None
    incarnation: int = 1
    """Of the database, when the shard was taken last."""


@dataclass(slots=True)
class Request:
    """`jobs`: the answer; of calls about schedules, whatever ids that is made of."""

    digest: bytes
    jobs: tuple[JobId, ...]
    created_us: int


@dataclass(frozen=True, slots=True)
class OccurrenceRow:
    """A row of `occurrences`. What belongs to schedules is never changed in place: a transaction may take it back."""

    tenant_id: TenantId
    nominal: datetime
    generation: int
    due: datetime
    local: str
    origin: Origin
    fate: Fate
    version: int
    recorded: datetime
    reason: str
    job_id: JobId | None
    blocking_job: JobId | None
    backfill_id: str | None
    count: int
    last: datetime | None
    missed: int
    first_missed: datetime | None
    forced: bool
    payload: Payload | None


@dataclass(frozen=True, slots=True)
class BackfillRow:
    uid: ScheduleUid
    tenant_id: TenantId
    shard: ShardNo
    backfill: Backfill
    next_at: datetime


OccurrenceKey = tuple[datetime, int]


@dataclass(slots=True)
class Hold:
    """A dedupe key that is taken; `until_us` None: while the job lives."""

    job: JobId
    until_us: int | None


@dataclass
class Tables:
    """The whole database. `removed`: the guards that are taken away."""

    time: Time
    history: History
    shard_count: int = limits.SHARD_COUNT
    removed: frozenset[str] = frozenset()
    jobs: dict[tuple[TenantId, JobId], JobRow] = field(default_factory=dict)
    finished: dict[tuple[TenantId, JobId], JobRow] = field(default_factory=dict)
    dead: dict[tuple[TenantId, JobId], JobRow] = field(default_factory=dict)
    attempts: dict[tuple[TenantId, JobId], list[AttemptRow]] = field(default_factory=dict)
    requests: dict[tuple[TenantId, int, str], Request] = field(default_factory=dict)
    holds: dict[DedupeKey, Hold] = field(default_factory=dict)
    sessions: dict[SessionId, SessionRow] = field(default_factory=dict)
    coordinators: dict[CoordinatorId, CoordinatorRow] = field(default_factory=dict)
    shards: dict[ShardNo, ShardRow] = field(default_factory=dict)
    schedules: dict[ScheduleUid, Schedule] = field(default_factory=dict)
    """With their timers."""
    names: dict[tuple[TenantId, str], ScheduleUid] = field(default_factory=dict)
    occurrences: dict[ScheduleUid, dict[OccurrenceKey, OccurrenceRow]] = field(default_factory=dict)
    backfills: dict[str, BackfillRow] = field(default_factory=dict)
    deleted: dict[tuple[TenantId, str], ScheduleUid] = field(default_factory=dict)
    """Of those deleted under one name, the last."""
    incarnation: int = 1
    """Which database it is: a standby that was promoted is another one."""
    another_id: Callable[[JobRow], JobId] = lambda row: JobId("")
    """The id of a job that is made anew, which PostgreSQL draws."""

    def __post_init__(self) -> None:
        self.shards = {ShardNo(number): ShardRow() for number in range(self.shard_count)}
        self.session_epochs = itertools.count(1)

    @property
    def now_us(self) -> int:
        return self.time.now_us()

    def guard(self, name: str, holds: bool) -> bool:
        """A condition that keeps a promise: true without being asked once it is taken away."""
        return holds or name in self.removed

    def intact(self, name: str) -> bool:
        """Whether a part of a statement that keeps a promise is still there."""
        return name not in self.removed

    def alive(self, session: SessionId | None) -> bool:
        """Not closed: a session whose time is over lives until somebody has closed it."""
        row = self.sessions.get(session) if session is not None else None
        return row is not None and row.closed_us is None

    def coordinator_alive(self, coordinator: CoordinatorId | None) -> bool:
        found = self.coordinators.get(coordinator) if coordinator is not None else None
        return found is not None and found.until_us > self.now_us

    @property
    def now(self) -> datetime:
        return instant(self.now_us)

    def of_schedule(self, uid: ScheduleUid) -> list[JobRow]:
        """Its live jobs by nominal time."""
        found = [(row.origin, row) for row in self.jobs.values() if row.origin is not None]
        mine = [(origin.nominal_at, row.spec.id, row) for origin, row in found if origin.schedule_uid == uid]
        return [row for _, _, row in sorted(mine, key=lambda each: each[:2])]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Of schedules: what raises leaves nothing behind."""
        kept = {name: dict(getattr(self, name)) for name in _OF_TRANSACTIONS}
        kept["occurrences"] = {uid: dict(rows) for uid, rows in self.occurrences.items()}
        mark = self.history.mark()
        try:
            yield
        except BaseException:
            for name, table in kept.items():
                setattr(self, name, table)
            self.history.forget(mark)
            raise

    def places(self, key: tuple[TenantId, JobId]) -> list[str]:
        """The tables that hold a job."""
        tables = {"jobs": self.jobs, "finished_jobs": self.finished, "dead_jobs": self.dead}
        return [name for name, table in tables.items() if key in table]


_OF_TRANSACTIONS = ("jobs", "requests", "schedules", "names", "occurrences", "backfills", "deleted")


class Port:
    def __init__(self, tables: Tables, call: Call = direct) -> None:
        self._db = tables
        self._call = call

    async def _write(self, name: str, work: Callable[[], T], lane: str = "writes") -> T:
        return await self._call(name, work, lane=lane, write=True)

    async def _read(self, name: str, work: Callable[[], T], lane: str = "writes") -> T:
        return await self._call(name, work, lane=lane, write=False)


def drive(work: Coroutine[Any, Any, T]) -> T:
    """The work of a transaction, from its first statement to its last, at one instant."""
    try:
        work.send(None)
    except StopIteration as done:
        found: T = done.value
        return found
    work.close()
    raise AssertionError("a transaction waits for something other than its own statements")


def stored_retry(retry: RetryPolicy) -> RetryPolicy:
    return replace(retry, non_retryable_types=tuple(retry.non_retryable_types))


def entry_of(row: JobRow) -> Entry:
    spec = row.spec
    return Entry(
        spec.tenant_id,
        spec.id,
        spec.shard,
        spec.queue,
        spec.type,
        spec.priority,
        row.due_us,
        weight_of(spec),
        row.latest_s,
        spec.concurrency_key,
    )


def dedupe_key(spec: JobSpec) -> DedupeKey:
    assert spec.dedupe is not None
    scope = spec.dedupe.scope
    within = {DedupeScope.TYPE: spec.type, DedupeScope.QUEUE: spec.queue, DedupeScope.TENANT: ""}[scope]
    return spec.tenant_id, scope, within, spec.dedupe.key


def weight_of(spec: JobSpec) -> int:
    headers = json.dumps(dict(spec.headers), ensure_ascii=False) if spec.headers else ""
    return limits.LEASE_OVERHEAD_BYTES + len(spec.payload.data) + len(headers.encode())
