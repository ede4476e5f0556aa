"""A schedule: when it fires, what it makes, and what becomes of occurrences that come late or on top of each other.

A `Schedule` is a `Definition`, which people write, and a `Timer`, which moves. The timer's *cursor* is the one durable
fact about progress: every occurrence of the rule with a nominal time at or before it has its fate.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import IntEnum
from functools import lru_cache

from rota.domain import draft, limits
from rota.domain.dateset import Calendar as RuleCalendar
from rota.domain.dateset import DateSet, parse_dates
from rota.domain.dst import GapPolicy
from rota.domain.dst import OverlapPolicy as DstOverlap
from rota.domain.errors import FailedPrecondition, InvalidArgument, NotFound
from rota.domain.ids import JobId, ScheduleUid, ShardNo, TenantId
from rota.domain.jitter import JitterMode
from rota.domain.model import JobSpec, Payload, RetryPolicy, Timeouts
from rota.domain.recurrence import compile_rule
from rota.domain.rule import Rule
from rota.domain.rulespec import RuleKind, RuleSpec
from rota.domain.text import Problems

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
ID_WORDS = "1 to 128 letters, digits or ._- and begin with a letter or digit"

SHARED_MAX = 10_000
"""Rules that schedules share, some 3 KiB each."""

TICK = timedelta(microseconds=1)
"""The smallest step between two instants."""


class ScheduleState(IntEnum):
    ACTIVE = 1
    PAUSED = 2
    EXHAUSTED = 3
    ERROR = 4


class Fate(IntEnum):
    """What became of an occurrence. The numbers are those of rota.v1.OccurrenceFate."""

    FIRED = 1
    BUFFERED = 2
    COALESCED = 3
    SKIPPED_MISSED = 4
    SKIPPED_WINDOW = 5
    SKIPPED_OVERLAP = 6
    SKIPPED_BUFFER_FULL = 7
    SUPPRESSED_PAUSED = 8
    EXCLUDED = 9
    SUPERSEDED = 10


class Origin(IntEnum):
    """Why an occurrence came about."""

    RULE = 1
    CATCH_UP = 2
    TRIGGER = 3
    BACKFILL = 4


class MissedMode(IntEnum):
    SKIP = 1
    COALESCE = 2
    CATCH_UP = 3


class OverlapMode(IntEnum):
    ALLOW = 1
    SKIP = 2
    BUFFER_ONE = 3
    BUFFER_ALL = 4
    CANCEL_OTHER = 5
    REPLACE = 6


@dataclass(frozen=True, slots=True)
class MissedPolicy:
    """What becomes of occurrences that came due longer than `late_tolerance_s` ago."""

    mode: MissedMode = MissedMode.COALESCE
    late_tolerance_s: float = limits.LATE_TOLERANCE_DEFAULT_S
    catch_up_window_s: float = limits.CATCH_UP_WINDOW_DEFAULT_S
    catch_up_max: int = limits.CATCH_UP_MAX_DEFAULT


@dataclass(frozen=True, slots=True)
class OverlapPolicy:
    """What happens while an earlier job is not terminal. `limit` None: unlimited (ALLOW), or the default."""

    mode: OverlapMode = OverlapMode.ALLOW
    limit: int | None = None

    @property
    def ahead(self) -> bool:
        """Whether it can be decided before the time comes, without looking at other jobs."""
        return self.mode is OverlapMode.ALLOW and self.limit is None

    @property
    def buffer_max(self) -> int:
        return self.limit if self.limit is not None else limits.BUFFER_DEFAULT


@dataclass(frozen=True, slots=True)
class Timing:
    """All that decides when a schedule fires. Texts are kept as given; `calendars` are ids."""

    kind: RuleKind
    expression: str = ""
    """The cron expression or the RRULE text."""
    every_s: float | None = None
    anchor: datetime | None = None
    """INTERVAL: where counting starts; the creation, in whole seconds, once it is stored."""
    run_time: datetime | None = None
    local_time: str = ""
    time_zone: str = "UTC"
    start: datetime | None = None
    end: datetime | None = None
    max_count: int | None = None
    jitter_s: float = 0.0
    jitter_mode: JitterMode = JitterMode.HASH
    dates: tuple[str, ...] = ()
    calendars: tuple[str, ...] = ()
    gap: GapPolicy | None = None
    overlap: DstOverlap | None = None

    def settled(self, created_at: datetime) -> "Timing":
        """With what an unset field stands for from the creation on, so that nothing ever moves it."""
        if self.anchor is not None or self.kind not in (RuleKind.INTERVAL, RuleKind.RRULE):
            return self
        second = created_at.replace(microsecond=0)
        # An RRULE counts its first instance, which is to be one that still fires; an interval begins with a wait.
        return replace(self, anchor=second if self.kind is RuleKind.INTERVAL else second + timedelta(seconds=1))


@dataclass(frozen=True, slots=True)
class JobTemplate:
    """The job that each occurrence makes."""

    type: str
    queue: str = draft.QUEUE_DEFAULT
    priority: int = limits.PRIORITY_DEFAULT
    payload: Payload = field(default_factory=Payload)
    headers: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    timeouts: Timeouts = field(default_factory=Timeouts)
    concurrency_key: str = ""


@dataclass(frozen=True, slots=True)
class Definition:
    """What people write of a schedule."""

    timing: Timing
    job: JobTemplate
    missed: MissedPolicy = MissedPolicy()
    overlap: OverlapPolicy = OverlapPolicy()
    pause_after_failures: int = 0
    notes: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Episode:
    """Missed occurrences that are being worked off: those that came due at or before `until`.

    `cutoff`: CATCH_UP runs none with an earlier nominal time. `first` and `count`: COALESCE, those passed so far.
    `fate`: known for all of them: they fell into a pause that is over, or were excluded until a calendar changed.
    """

    until: datetime
    policy: MissedPolicy
    cutoff: datetime | None = None
    first: datetime | None = None
    count: int = 0
    fate: Fate | None = None


@dataclass(frozen=True, slots=True)
class Timer:
    """The moving part of a schedule.

    `arm_at`: when somebody is to look at it; None while there is nothing to wait for. `fired` counts towards max_count,
    `buffered` waits, `failures` are dead jobs in a row. `fates` has one count for each Fate, without triggers and
    backfills. `paused_at`: the cursor when the present pause began.
    """

    version: int
    state: ScheduleState
    cursor: datetime
    state_reason: str = ""
    state_author: str = ""
    state_at: datetime | None = None
    next_nominal: datetime | None = None
    next_due: datetime | None = None
    arm_at: datetime | None = None
    fired: int = 0
    buffered: int = 0
    failures: int = 0
    episode: Episode | None = None
    paused_at: datetime | None = None
    last_nominal: datetime | None = None
    last_fire_at: datetime | None = None
    last_job: JobId | None = None
    fates: tuple[int, ...] = (0,) * len(Fate)
    tzdata: str = ""


@dataclass(frozen=True, slots=True)
class Schedule:
    tenant_id: TenantId
    id: str
    uid: ScheduleUid
    shard: ShardNo
    definition: Definition
    timer: Timer
    created_at: datetime
    updated_at: datetime
    apply_set: str = ""
    traceparent: str = ""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One instant that the rule names, or a row of `count` of them with one fate, up to `last_nominal`."""

    nominal: datetime
    generation: int
    due: datetime
    local: str
    origin: Origin
    fate: Fate
    version: int
    recorded_at: datetime
    reason: str = ""
    job_id: JobId | None = None
    blocking_job: JobId | None = None
    backfill_id: str | None = None
    count: int = 1
    last_nominal: datetime | None = None
    forced: bool = False


class BackfillState(IntEnum):
    RUNNING = 1
    SUCCEEDED = 2
    CANCELLED = 3


@dataclass(frozen=True, slots=True)
class Backfill:
    """Occurrences with nominal times in [start, end), fired later at `rate` a second. `cursor`: the last one done."""

    id: str
    start: datetime
    end: datetime
    include_fired: bool = False
    rate: float = limits.BACKFILL_RATE_DEFAULT
    overlap: OverlapPolicy | None = None
    priority: int = 0
    reason: str = ""
    state: BackfillState = BackfillState.RUNNING
    cursor: datetime | None = None
    next_nominal: datetime | None = None
    total: int = 0
    done: int = 0
    fired: int = 0
    author: str = ""
    created_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Calendar:
    """A named set of local dates, as texts."""

    id: str
    dates: tuple[str, ...] = ()
    notes: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    uid: str = ""
    version: int = 0
    created_at: datetime | None = None
    updated_at: datetime | None = None


Calendars = Mapping[str, DateSet]
"""The dates of calendars by id."""


def check_definition(problems: Problems, at: str, definition: Definition, now: datetime) -> None:
    """Checks all but the rule itself. `at` is the path of the schedule in its request, such as `schedule`."""
    timing, missed, overlap, job = definition.timing, definition.missed, definition.overlap, definition.job
    if timing.max_count is not None and not 1 <= timing.max_count < 1 << 62:
        problems.add(f"{at}.max_count", f"must be 1 or more, found {timing.max_count}; unset it for no limit")
    if timing.run_time is not None and timing.run_time > now + timedelta(seconds=limits.HORIZON_S):
        problems.add(f"{at}.once.run_time", f"must be within ten years, found {timing.run_time.isoformat()}")
    problems.span(f"{at}.missed_run_policy.late_tolerance", missed.late_tolerance_s, 0.0, limits.LATE_TOLERANCE_MAX_S)
    window = f"{at}.missed_run_policy.catch_up_window"
    problems.span(window, missed.catch_up_window_s, 1.0, limits.CATCH_UP_WINDOW_MAX_S)
    problems.integer(f"{at}.missed_run_policy.catch_up_max", missed.catch_up_max, 1, limits.CATCH_UP_MAX_MAX)
    if overlap.limit is not None:
        if overlap.mode not in (OverlapMode.ALLOW, OverlapMode.BUFFER_ALL):
            problems.add(f"{at}.overlap_policy.limit", f"belongs to ALLOW and BUFFER_ALL, not to {overlap.mode.name}")
        problems.integer(f"{at}.overlap_policy.limit", overlap.limit, 1, limits.OVERLAP_LIMIT_MAX)
    failures = f"{at}.pause_after_failures"
    problems.integer(failures, definition.pause_after_failures, 0, limits.PAUSE_AFTER_FAILURES_MAX)
    problems.text(f"{at}.notes", definition.notes, limits.NOTES_BYTES_MAX)
    problems.text_map(f"{at}.labels", dict(definition.labels), limits.LABELS_MAX, limits.LABELS_BYTES_MAX)
    if len(timing.calendars) > limits.CALENDARS_MAX:
        most = limits.CALENDARS_MAX
        problems.add(f"{at}.exclusions.calendars", f"must have at most {most} entries, found {len(timing.calendars)}")
    draft.check_job(problems, f"{at}.job", sample_job(job), now)


def check_calendar(problems: Problems, at: str, calendar: Calendar) -> None:
    problems.text(f"{at}.notes", calendar.notes, limits.NOTES_BYTES_MAX)
    problems.text_map(f"{at}.labels", dict(calendar.labels), limits.LABELS_MAX, limits.LABELS_BYTES_MAX)
    parse_dates(calendar.dates, f"{at}.dates", limits.CALENDAR_DATES_MAX)


def sample_job(job: JobTemplate) -> JobSpec:
    """A wish for a job as the template has it, to be checked."""
    return JobSpec(
        tenant_id=TenantId(0),
        id=JobId(""),
        shard=ShardNo(0),
        type=job.type,
        queue=job.queue,
        priority=job.priority,
        payload=job.payload,
        headers=job.headers,
        labels=job.labels,
        retry=job.retry,
        timeouts=job.timeouts,
        concurrency_key=job.concurrency_key,
    )


def compiled(timing: Timing, uid: str, calendars: Calendars, at: str = "") -> Rule:
    """The rule that a timing says. `at` is the path of the schedule whose fields refusals name.

    Raises InvalidArgument as `compile_rule` does, and for a calendar that does not exist.
    """
    alone = timing.kind is not RuleKind.CRON or timing.calendars or timing.jitter_s or "H" in timing.expression
    if not at and not alone:
        return _shared(timing)
    return _compiled(timing, uid, calendars, at)


@lru_cache(maxsize=SHARED_MAX)
def _shared(timing: Timing) -> Rule:
    """One for all schedules of the same times, where nothing depends on their uids."""
    return _compiled(timing, "", {}, "")


def _compiled(timing: Timing, uid: str, calendars: Calendars, at: str) -> Rule:
    where = f"{at}." if at else ""
    for id in timing.calendars:
        if id not in calendars:
            known = ", ".join(sorted(calendars)[:5]) or "none"
            raise InvalidArgument.field(
                f"{where}exclusions.calendars",
                f"expected a calendar that exists ({known}), found {id[:80]!r}; create it first",
            )
    spec = RuleSpec(
        kind=timing.kind,
        expression=timing.expression,
        time_zone=timing.time_zone or "UTC",
        anchor=timing.anchor,
        every_s=timing.every_s,
        local_start=timing.local_time,
        start=timing.start,
        end=timing.end,
        gap=timing.gap,
        overlap=timing.overlap,
        excluded_dates=parse_dates(timing.dates, f"{where}exclusions.dates"),
        calendars=tuple(RuleCalendar(id, calendars[id]) for id in timing.calendars),
        jitter_s=timing.jitter_s,
        jitter_mode=timing.jitter_mode,
        run_time=timing.run_time,
    )
    return compile_rule(spec, uid, at)


def etag(version: int, uid: str) -> str:
    """One text for each version of each schedule or calendar; of one made later under the same name, another. The uid's
    last digits do, since a UUIDv7 begins with the time."""
    return f"v{version}-{uid[-12:]}"


def schedule_not_found(id: str) -> NotFound:
    """No such schedule in the caller's tenant."""
    return NotFound(f"schedules/{id}: not found; it may have been deleted, or the name is wrong")


def wrong_state(id: str, state: ScheduleState, remedy: str) -> FailedPrecondition:
    return FailedPrecondition(f"schedules/{id}: is {state.name}; {remedy}")
