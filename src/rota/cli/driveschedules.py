"""Follows the schedules of a run: each occurrence and its fate, when its job was started, and what it printed.

Late is due_time of the occurrence to lease_time of its job's first attempt, both by the database's clock.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from rota.cli.checkschedules import ScheduleSummary, changed, check
from rota.cli.devschedules import Stored, first_due, listed, occurrences
from rota.cli.http import JOB_TYPE as HTTP_TYPE
from rota.cli.output import one_line
from rota.cli.remote import Remote, at, enum_name
from rota.cli.scheduleview import schedule_row
from rota.clock import Clock

if TYPE_CHECKING:
    from rota_sdk import Job
    from rota_sdk.gen.rota.v1.schedules_pb2 import Occurrence, Schedule

ON_TIME_S: Final = 1.0
"""Started within this span of its due time."""

LIST_EVERY_LOOKS: Final = 4
RECENT: Final = 20
"""Occurrences of one page of a look."""

JOBS_MAX: Final = 20
"""Jobs read in one look."""

PATIENCE_S: Final = 2.0
"""A fire is told when its job has ended, or so long after its due time."""

SEEN_MAX: Final = 1_000
LATE_MAX: Final = 100_000

_MICROSECOND: Final = timedelta(microseconds=1)
_BY_RULE: Final = frozenset({"RULE", "CATCH_UP"})
_ENDED: Final = frozenset({"SUCCEEDED", "CANCELLED", "EXPIRED", "DEAD"})


@dataclass(slots=True)
class Happened:
    """An occurrence that came due, as last seen. `said`: the last line of its job's output, or why it failed."""

    id: str
    due: datetime
    fate: str
    origin: str
    reason: str = ""
    job: str = ""
    state: str = ""
    late_s: float | None = None
    said: str = ""

    @property
    def open(self) -> bool:
        """Whether more is to be learnt of it."""
        return self.fate == "BUFFERED" or (self.fate == "FIRED" and self.state not in _ENDED)


@dataclass(frozen=True, slots=True)
class Row:
    """A schedule as it stands. `next_s`: seconds until it fires; None unless it will."""

    id: str
    rule: str
    state: str
    next_s: float | None
    fired: int
    last: Happened | None


class _Watched:
    """A schedule and what was seen of it.

    `newest`: the nominal time of the newest occurrence by the rule that is known. `floor`: what lies before it, by
    nominal time, is settled. `look_at`: when something may be new.
    """

    def __init__(self, stored: Stored) -> None:
        self.id = stored.item.id
        self.stored = stored
        self.current: Schedule | None = stored.schedule
        self.newest = self.floor = stored.from_nominal
        self.look_at: datetime | None = stored.since
        self.seen: dict[tuple[datetime, int], Happened] = {}
        self.last: Happened | None = None
        self.fired = 0
        self._next: datetime | None = None

    @property
    def changed(self) -> bool:
        return changed(self.stored, self.current)

    def next_due(self, now: datetime) -> datetime | None:
        """The first time after `now`; None of one that does not fire, or whose rule is not known here."""
        if self.current is None or self.current.version != self.stored.schedule.version:
            return None
        if self._next is None or self._next <= now:
            self._next = first_due(self.stored.rule, self.current, now)
        return self._next


class ScheduleDrive:
    """One run. Not for use from several threads."""

    def __init__(self, rota: Remote, schedules: Sequence[Stored], clock: Clock) -> None:
        self._rota = rota
        self._clock = clock
        self._schedules = sorted(schedules, key=lambda stored: stored.item.id)
        self._watched = [_Watched(stored) for stored in self._schedules]
        self._sets = sorted({stored.schedule.apply_set for stored in schedules})
        self._looks = 0
        self._open: deque[Happened] = deque()
        self._news: list[Happened] = []
        self._late_s: deque[float] = deque(maxlen=LATE_MAX)
        self._on_time = 0
        self._failed = 0

    def look(self, until: datetime | None = None) -> None:
        """Sees what came due, up to `until` or now, and how its jobs do. Raises the SDK's RotaError."""
        now = until or self._clock.utc()
        if self._looks % LIST_EVERY_LOOKS == 0:
            self._list(now)
        self._looks += 1
        for watched in self._watched:
            if watched.look_at is not None and watched.look_at <= now:
                self._see(watched, now)
        for _ in range(min(len(self._open), JOBS_MAX)):
            happened = self._open.popleft()
            if happened.fate == "FIRED":
                self._follow(happened)
            if happened.open:
                self._open.append(happened)

    def waiting(self, until: datetime) -> bool:
        """Whether something that came due by then has no fate yet, or its job has not ended."""
        return bool(self._open) or any(
            watched.look_at is not None and watched.look_at <= until
            for watched in self._watched
            if watched.stored.rule is not None and not watched.changed
        )

    def rows(self) -> list[Row]:
        """How the schedules stand by the last look, by id."""
        now = self._clock.utc()
        return [self._row(watched, now) for watched in self._watched]

    def news(self, *, rest: bool = False) -> list[Happened]:
        """What is to be told, each occurrence once: a fire when its job has ended, or does not end soon.

        At the end the rest.
        """
        patient = self._clock.utc() - timedelta(seconds=PATIENCE_S)
        ready = [one for one in self._news if rest or not one.open or one.due < patient]
        self._news = [one for one in self._news if one not in ready]
        return sorted(ready, key=lambda one: one.due)

    def verify(self, until: datetime, *, complete: bool) -> ScheduleSummary:
        """Holds the fates of everything due in the run against the rules. Raises the SDK's RotaError."""
        self.look(until)
        summary = check(self._rota, self._schedules, self._listed(), until, complete=complete)
        summary.on_time, summary.failed = self._on_time, self._failed
        if late := sorted(self._late_s):
            summary.p50_s, summary.max_s = round(late[(len(late) - 1) // 2], 4), round(late[-1], 4)
        return summary

    def _listed(self) -> "dict[str, Schedule]":
        return {id: one for name in self._sets for id, one in listed(self._rota, name).items()}

    def _list(self, now: datetime) -> None:
        found = self._listed()
        for watched in self._watched:
            current = found.get(watched.id)
            # A fire by hand comes when no rule says so.
            if current is not None and watched.current is not None and current.last_job != watched.current.last_job:
                watched.look_at = now
            watched.current = current

    def _row(self, watched: _Watched, now: datetime) -> Row:
        _, state, rule, *_ = schedule_row(watched.current or watched.stored.schedule, now)
        due = watched.next_due(now)
        next_s = (due - now).total_seconds() if due is not None else None
        state = state if watched.current is not None else "DELETED"
        return Row(watched.id, rule, state, next_s, watched.fired, watched.last)

    def _see(self, watched: _Watched, now: datetime) -> None:
        """Reads the newest occurrences, and takes in those that came due."""
        coming: list[datetime] = []
        unsettled: list[datetime] = []
        for occurrence in occurrences(self._rota, watched.id, now + _MICROSECOND, RECENT):
            nominal, due = at(occurrence, "nominal_time"), at(occurrence, "due_time")
            assert nominal is not None
            assert due is not None
            last = at(occurrence, "last_nominal_time") or nominal
            if last < watched.floor:
                break
            if due > now:
                coming.append(due)
                unsettled.append(nominal)
                continue
            if occurrence.generation == 0:
                watched.newest = max(watched.newest, last)
            if due > watched.stored.since and self._take(watched, occurrence, nominal, due).fate == "BUFFERED":
                unsettled.append(nominal)
        watched.floor = min([watched.newest, *unsettled])
        for key in list(watched.seen)[:-SEEN_MAX]:
            del watched.seen[key]
        following = first_due(watched.stored.rule, watched.stored.schedule, watched.newest)
        if following is not None:
            coming.append(following)
        again = watched.stored.rule is None or any(one.fate == "BUFFERED" for one in watched.seen.values())
        watched.look_at = now if again else min(coming, default=None)

    def _take(self, watched: _Watched, occurrence: "Occurrence", nominal: datetime, due: datetime) -> Happened:
        fields, key = occurrence.DESCRIPTOR.fields_by_name, (nominal, occurrence.generation)
        fate = enum_name(fields["fate"].enum_type, occurrence.fate)
        happened = watched.seen.get(key)
        if happened is None:
            origin = enum_name(fields["origin"].enum_type, occurrence.origin)
            happened = watched.seen[key] = Happened(watched.id, due, "", origin)
            self._news.append(happened)
        elif (happened.fate, happened.job) == (fate, occurrence.job):
            return happened
        followed = happened.open
        happened.fate, happened.job, happened.reason = fate, occurrence.job, one_line(occurrence.reason)
        if happened.open and not followed:
            self._open.append(happened)
        watched.fired += fate == "FIRED"
        if watched.last is None or watched.last.due <= due:
            watched.last = happened
        return happened

    def _follow(self, happened: Happened) -> None:
        from rota_sdk import NotFound

        try:
            job = self._rota.rota.get_job(happened.job)
        except NotFound:
            # It went with its schedule.
            happened.state = "CANCELLED"
            return
        happened.state, happened.said = job.state.name, _said(job)
        if happened.late_s is None and job.attempt:
            started = job.lease_time if job.attempt == 1 else self._first_start(job)
            if started is not None:
                happened.late_s = max((started - happened.due).total_seconds(), 0.0)
                if happened.origin in _BY_RULE:
                    self._late_s.append(happened.late_s)
                    self._on_time += happened.late_s <= ON_TIME_S
        self._failed += happened.state == "DEAD"

    def _first_start(self, job: "Job") -> datetime | None:
        attempts = self._rota.rota.list_attempts(job.name)
        return min((one.lease_time for one in attempts if one.lease_time is not None), default=None)


def _said(job: "Job") -> str:
    """What a command printed last, what a call was answered, or why its job failed."""
    if job.result is not None:
        try:
            told = job.result.json()
        except ValueError:
            told = job.result.data.decode("utf-8", "replace")
        key = "status" if job.type == HTTP_TYPE else "output"
        output = told[key] if isinstance(told, dict) and key in told else told
        lines = [line for line in str(output).splitlines() if line.strip()]
        return one_line(lines[-1].strip()) if lines else ""
    failure = job.last_failure
    return one_line(f"{failure.type}: {failure.message}") if failure is not None else ""
