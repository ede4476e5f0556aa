"""The store of schedules, as services and loops know it. As in `port`, each operation is one transaction with three
outcomes, and the clock of all of them is the database's.

Whoever changes a schedule holds its timer's row lock, so a change, a fire and a trigger of one schedule never
interleave. The one exception is the plain fire, which compares the timer's version and cursor instead.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeVar

from rota.domain.fairness import Entry
from rota.domain.ids import CoordinatorId, JobId, ScheduleUid, ShardNo, TenantId
from rota.domain.model import Payload
from rota.domain.overlap import Waiting
from rota.domain.schedule import (
    Backfill,
    Calendar,
    Calendars,
    Fate,
    Occurrence,
    Schedule,
    ScheduleState,
    Timer,
)
from rota.domain.step import Step

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RequestKey:
    """What makes a call repeatable; `request_id` empty: it is not."""

    method: int
    request_id: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class ScheduleFilter:
    """Empty: any."""

    state: ScheduleState | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    type: str = ""
    queue: str = ""
    id_prefix: str = ""
    apply_set: str | None = None


@dataclass(frozen=True, slots=True)
class OccurrenceFilter:
    """Empty: any. Nominal times in [start, end)."""

    fate: Fate | None = None
    start: datetime | None = None
    end: datetime | None = None


@dataclass(frozen=True, slots=True)
class Armed:
    """A timer that somebody is to look at."""

    tenant_id: TenantId
    uid: ScheduleUid
    shard: ShardNo
    timer: Timer


@dataclass(frozen=True, slots=True)
class Move:
    """A step of one schedule to be written, on the timer that it was decided on. `traces` has the trace context of
    each job that it makes, `priority` one in place of the template's, `payload` likewise."""

    armed: Armed
    step: Step
    epoch: int = 0
    traces: Mapping[JobId, str] = field(default_factory=dict)
    priority: int | None = None
    payload: Payload | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """A locked timer with the schedule's jobs that are not terminal and its occurrences that wait, oldest first.

    `taken`: nominal times after the cursor that have their fate already, since an edit or a pause took the cursor back.
    """

    armed: Armed
    running: tuple[JobId, ...]
    waiting: tuple[Waiting, ...]
    now: datetime
    taken: frozenset[datetime] = frozenset()


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """Jobs that had not started and are gone, of occurrences with nominal times up to the instant and after it.

    `excluded`: occurrences after it that were not to fire. The next step decides about all of these again.
    """

    before: int
    after: int
    excluded: int


@dataclass(frozen=True, slots=True)
class DueBackfill:
    """A backfill whose next occurrence may fire."""

    schedule_uid: ScheduleUid
    tenant_id: TenantId
    shard: ShardNo
    backfill: Backfill


@dataclass(frozen=True, slots=True)
class Ledger:
    """A schedule's fates by its timer's counts and by its rows, in the order of Fate without SUPERSEDED."""

    tenant_id: TenantId
    id: str
    uid: ScheduleUid
    version: int
    state: ScheduleState
    created_at: datetime
    cursor: datetime
    counted: tuple[int, ...]
    written: tuple[int, ...]


class Unwritable(Exception):
    """The database refuses what one of the steps says: its data, not the circumstances."""


class FireStore(Protocol):
    async def read_armed(
        self, shards: Sequence[ShardNo], until: datetime, page: int
    ) -> tuple[list[Armed], datetime | None]:
        """For each shard up to `page` timers armed by `until`, the longest armed first; and the database's now."""

    async def definitions(self, uids: Sequence[ScheduleUid]) -> dict[ScheduleUid, tuple[Schedule, Calendars]]:
        """Schedules with the calendars that they name; deleted ones are missing. Without payloads, and of their timers
        only the version."""

    async def fire(self, moves: Sequence[Move], owner: CoordinatorId) -> tuple[list[Entry], set[ScheduleUid]]:
        """Writes steps that were decided without looking at other jobs: fates, jobs and timers, where version and
        cursor are as decided upon and `owner` holds the shard under the move's epoch. The jobs made, and the schedules
        that moved. Raises Unwritable, and then nothing was written."""

    async def fire_held(
        self,
        uids: Sequence[ScheduleUid],
        owner: CoordinatorId,
        decide: Callable[[Sequence[Held]], Sequence[Move]],
    ) -> tuple[list[Entry], set[ScheduleUid]]:
        """The same for steps that depend on other jobs: decided and written under the schedules' locks."""

    async def read_unfit(
        self, after: ScheduleUid | None, page: int, tzdata: str
    ) -> tuple[list[Armed], ScheduleUid | None]:
        """Of `page` timers after one, those that are ACTIVE but not armed, or were computed by other time-zone data;
        and the last one looked at, None at the end."""

    async def due_backfills(self, shards: Sequence[ShardNo], limit: int) -> list[DueBackfill]:
        """Running backfills whose time has come."""


class ScheduleTransaction(Protocol):
    """One transaction about schedules. Whatever raises leaves nothing behind."""

    async def earlier(self, tenant: TenantId, request: RequestKey, answer: Sequence[str]) -> tuple[str, ...] | None:
        """Claims a request_id for an answer of UUIDs; the answer that it stands for already, if it does.

        Raises AlreadyExists (REQUEST_ID_REUSED) when it stands for another request."""

    async def lock(self, tenant: TenantId, id: str) -> tuple[Schedule, datetime] | None:
        """The schedule, locked until the end, and the database's clock after that."""

    async def by_uid(self, tenant: TenantId, uids: Sequence[str]) -> list[Schedule]: ...

    async def in_set(self, tenant: TenantId, apply_set: str, limit: int) -> list[str]:
        """The ids of a set's schedules, sorted."""

    async def now(self) -> datetime: ...

    async def held(self, schedule: Schedule) -> Held:
        """Jobs and waiting occurrences of a locked schedule."""

    async def calendars(self, tenant: TenantId, ids: Sequence[str]) -> Calendars:
        """The dates of calendars, which stay as they are until the end."""

    async def create(self, schedules: Sequence[Schedule]) -> None:
        """Raises AlreadyExists when an id is taken."""

    async def move(self, move: Move) -> list[Entry]:
        """Writes a step of a locked schedule; the jobs made."""

    async def rewrite(self, schedule: Schedule) -> None:
        """Writes the definition of a locked schedule, and its set."""

    async def withdraw(
        self, uids: Sequence[ScheduleUid], split: datetime, fate_before: Fate | None, *, all_jobs: bool = False
    ) -> dict[ScheduleUid, Withdrawn]:
        """Deletes the schedules' jobs that have not started: those of the rule, or all. Occurrences after `split`
        become SUPERSEDED, those before it get `fate_before`; None: their jobs stay."""

    async def remake(self, schedule: Schedule, until: datetime | None) -> list[Entry]:
        """Makes the rule's jobs that have not started anew from the schedule's template, up to a nominal time; as
        other jobs for the same occurrences."""

    async def end_waiting(self, uid: ScheduleUid, fate: Fate, *, rule_only: bool) -> int:
        """Gives occurrences that wait a fate without a job; how many."""

    async def restore(self, uid: ScheduleUid, after: datetime) -> dict[Fate, int]:
        """Takes back what a pause suppressed after a nominal time, and what was excluded then: how many by fate."""

    async def generation(self, uid: ScheduleUid, nominal: datetime) -> int:
        """A generation that no occurrence of this instant has; at least 1."""

    async def occurrence(self, uid: ScheduleUid, nominal: datetime, generation: int) -> Occurrence | None: ...

    async def fired(self, uid: ScheduleUid, after: datetime, until: datetime) -> set[datetime]:
        """The nominal times in (after, until] of occurrences that fired or wait."""

    async def running_backfills(self, uid: ScheduleUid) -> int: ...

    async def add_backfill(self, schedule: Schedule, backfill: Backfill) -> None: ...

    async def lock_backfill(self, uid: ScheduleUid, id: str) -> Backfill | None: ...

    async def save_backfill(self, backfill: Backfill, wait_s: float) -> None:
        """Writes the progress and state of a locked backfill, to be looked at again after `wait_s`."""

    async def delete(self, schedule: Schedule) -> None:
        """Deletes a locked schedule; its occurrences stay."""

    async def lock_calendar(self, tenant: TenantId, id: str) -> Calendar | None: ...

    async def create_calendar(self, tenant: TenantId, calendar: Calendar) -> None:
        """Raises AlreadyExists when the id is taken."""

    async def rewrite_calendar(self, tenant: TenantId, calendar: Calendar) -> None: ...

    async def delete_calendar(self, tenant: TenantId, id: str) -> None: ...

    async def lock_naming(self, tenant: TenantId, calendar: str, limit: int) -> list[ScheduleUid]:
        """The schedules that name a calendar, locked until the end."""

    async def reset(self, withdrawn: Mapping[ScheduleUid, Withdrawn], now: datetime) -> None:
        """Lets locked schedules, of which everything after `now` was withdrawn, look at their rules again: in a new
        version, with the cursor at `now` at most."""


class ScheduleStore(Protocol):
    async def transact(self, work: Callable[[ScheduleTransaction], Awaitable[T]]) -> T:
        """Runs `work` in one transaction; again from the start when the database asks for it."""

    async def get(self, tenant: TenantId, id: str) -> Schedule | None: ...

    async def page(self, tenant: TenantId, where: ScheduleFilter, after: str, limit: int) -> list[Schedule]:
        """By id, above `after`, without payloads."""

    async def uid_of(self, tenant: TenantId, id: str) -> ScheduleUid | None:
        """Of a schedule, or of the one deleted last under this id."""

    async def occurrences(
        self,
        tenant: TenantId,
        uid: ScheduleUid,
        where: OccurrenceFilter,
        before: tuple[datetime, int] | None,
        limit: int,
    ) -> list[Occurrence]:
        """Newest nominal time first."""

    async def backfill(self, uid: ScheduleUid, id: str) -> Backfill | None: ...

    async def backfills(self, uid: ScheduleUid, before: str | None, limit: int) -> list[Backfill]:
        """Newest first."""

    async def calendars(self, tenant: TenantId, ids: Sequence[str]) -> Calendars: ...

    async def calendar(self, tenant: TenantId, id: str) -> Calendar | None: ...

    async def calendar_page(
        self, tenant: TenantId, labels: Mapping[str, str], after: str, limit: int
    ) -> list[Calendar]:
        """By id, above `after`, without dates."""
