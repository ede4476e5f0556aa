"""The schedules of an examples folder: its `crontab` and its `*.yaml`, read before anything starts and then made true.

It is `rota import crontab` and `rota apply` that do it, each file a set of its own, so that a second run on the same
data changes nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rota.cli import changes
from rota.cli.apply import read
from rota.cli.imports import read_crontab
from rota.cli.localtime import relative, utc
from rota.cli.output import Output
from rota.cli.remote import Remote, at
from rota.clock import SystemClock
from rota.domain.dateset import DateSet, parse_dates
from rota.domain.errors import InvalidArgument
from rota.domain.limits import PAGE_SIZE_MAX
from rota.domain.rule import Rule
from rota.domain.rulespec import RuleKind
from rota.domain.schedule import compiled
from rota.manifest.document import Document, Item

if TYPE_CHECKING:
    from rota_sdk.gen.rota.v1.schedules_pb2 import Occurrence, Schedule

CRONTAB: Final = "crontab"
_PATTERNS: Final = ("*.yaml", "*.yml")
_DONE: Final = {"CREATE": "created", "UPDATE": "changed", "DELETE": "deleted"}


@dataclass(frozen=True, slots=True)
class Source:
    """A file with schedules. `about`: words beside it, such as the zone of a crontab's times."""

    document: Document
    about: str = ""

    @property
    def noun(self) -> str:
        return "crontab" if self.about else "file"


@dataclass(frozen=True, slots=True)
class Stored:
    """A schedule of the folder as the server has it, and its rule to reckon with; None when it cannot be known here."""

    item: Item
    schedule: "Schedule"
    rule: Rule | None
    since: datetime
    """From then on the rule holds."""

    @property
    def from_nominal(self) -> datetime:
        """What comes due after `since` has a nominal time after this."""
        return self.since - timedelta(seconds=self.item.definition.timing.jitter_s)


@dataclass(frozen=True, slots=True)
class Brought:
    """A file made true: what that changed, and its schedules by id."""

    source: Source
    counts: str
    schedules: tuple[Stored, ...]


def load(folder: Path) -> list[Source]:
    """Reads the schedules of a folder; none where it has no such file.

    Raises InvalidArgument, or Refused with all that is wrong with a file.
    """
    names = sorted(str(path) for pattern in _PATTERNS for path in folder.glob(pattern) if path.is_file())
    sources = [Source(document) for document in read(names)]
    crontab = folder / CRONTAB
    if crontab.is_file():
        sources.append(_crontab(str(crontab)))
    _check_apart(sources)
    return sources


def queues(sources: Sequence[Source], type: str) -> set[str]:
    """Where a runner finds the jobs of its type that the schedules make."""
    jobs = [item.definition.job for source in sources for item in source.document.schedules]
    return {job.queue for job in jobs if job.type == type}


def bring_in(rota: Remote, sources: Sequence[Source], clock: SystemClock) -> list[Brought]:
    """Makes the files true, each as a whole. Raises the SDK's RotaError, or Refused."""
    quiet = Output(json=True)
    plans = changes.apply(rota, quiet, [source.document for source in sources], changes.How(yes=True))
    now = clock.utc()
    return [
        Brought(source, plan.counts(_DONE), tuple(_stored(rota, source.document, now)))
        for source, plan in zip(sources, plans, strict=True)
    ]


def greeting(brought: Sequence[Brought], now: datetime, for_s: float | None) -> Iterator[str]:
    """For each file what was done with it, and when it fires first."""
    width = max(len(one.source.document.source) for one in brought)
    for one in brought:
        about = one.source.about.partition(",")[0]
        words = [f"{len(one.schedules)} schedules", one.counts, *([about] if about else [])]
        yield f"  {one.source.document.source:{width}}  {'; '.join(words)}"
        times = [first_due(stored.rule, stored.schedule, now) for stored in one.schedules]
        first = min((time for time in times if time is not None), default=None)
        if first is not None:
            yield f"  {'':{width}}  {_first(one.source.noun, first, now, for_s)}"


def first_due(rule: Rule | None, schedule: "Schedule", after: datetime) -> datetime | None:
    """When it fires next; None while it does not, or nobody here knows."""
    from rota_sdk.gen.rota.v1 import schedules_pb2

    if rule is None or schedule.state != schedules_pb2.SCHEDULE_STATE_ACTIVE:
        return None
    try:
        fire = rule.next_after(after)
    except InvalidArgument:
        return None
    return fire.due if fire is not None else None


def listed(rota: Remote, apply_set: str) -> "dict[str, Schedule]":
    """The schedules of a set, by id."""
    from rota_sdk.gen.rota.v1 import schedules_pb2

    request = schedules_pb2.ListSchedulesRequest(page_size=PAGE_SIZE_MAX, apply_set=apply_set)
    found: dict[str, Schedule] = {}
    while True:
        page = rota.call(rota.schedules.ListSchedules, request)
        found |= {schedule.name.removeprefix("schedules/"): schedule for schedule in page.schedules}
        if not page.next_page_token:
            return found
        request.page_token = page.next_page_token


def occurrences(rota: Remote, id: str, before: datetime | None, page_size: int) -> "Iterator[Occurrence]":
    """Those of a schedule with nominal times before an instant, newest first; none of one that is gone."""
    from rota_sdk import NotFound
    from rota_sdk.gen.rota.v1 import schedules_pb2

    request = schedules_pb2.ListOccurrencesRequest(parent=f"schedules/{id}", page_size=page_size)
    if before is not None:
        request.end_time.FromDatetime(before)
    while True:
        try:
            page = rota.call(rota.schedules.ListOccurrences, request)
        except NotFound:
            return
        yield from page.occurrences
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token


def _crontab(name: str) -> Source:
    from rota.manifest.problems import Problem, Refused

    found, apply_set, about = read_crontab(name)
    if found.refused:
        raise Refused(found.source, [Problem(row.line, row.id, "; ".join(row.notes)) for row in found.refused])
    return Source(found.document(apply_set, SystemClock().utc()), about)


def _first(noun: str, first: datetime, now: datetime, for_s: float | None) -> str:
    day, _, time = utc(first.replace(microsecond=0)).partition("T")
    shown = time if first.date() == now.date() else f"{day}T{time}"
    late = for_s is not None and (first - now).total_seconds() > for_s
    return f"the {noun}'s first fire comes at {shown}, {relative(first, now)}{', after this run' if late else ''}"


def _check_apart(sources: Sequence[Source]) -> None:
    """Refuses an id or a set that both the crontab and a YAML file have; two YAML files are not read then."""
    known: dict[tuple[str, str], str] = {}
    for source in sources:
        document = source.document
        for key in [("set", document.apply_set), *(("id", item.id) for item in document.schedules)]:
            if known.setdefault(key, document.source) != document.source:
                noun, name = key
                raise InvalidArgument.field(
                    document.source, f"expected each {noun} in one file, found {name!r} in {known[key]} too; rename it"
                )


def _stored(rota: Remote, document: Document, now: datetime) -> Iterator[Stored]:
    found = listed(rota, document.apply_set)
    dates: dict[str, DateSet] = {}
    for item in document.schedules:
        schedule = found.get(item.id)
        # It may have been deleted, or taken into another set, a moment ago.
        if schedule is None:
            continue
        for id in item.definition.timing.calendars:
            if id not in dates:
                dates[id] = _dates(rota, id)
        times = [at(schedule, name) for name in ("create_time", "update_time", "state_time")]
        since = max([now, *(time for time in times if time is not None)])
        yield Stored(item, schedule, _rule(item, schedule, dates), since)


def _dates(rota: Remote, id: str) -> DateSet:
    from rota_sdk.gen.rota.v1 import schedules_pb2

    request = schedules_pb2.GetCalendarRequest(name=f"calendars/{id}")
    return parse_dates(rota.call(rota.calendars.GetCalendar, request).calendar.dates, "dates", PAGE_SIZE_MAX * 10)


def _rule(item: Item, schedule: "Schedule", dates: dict[str, DateSet]) -> Rule | None:
    timing = item.definition.timing
    # How many were counted before is the server's knowledge.
    if timing.max_count is not None:
        return None
    created = at(schedule, "create_time")
    assert created is not None
    if timing.kind is RuleKind.INTERVAL:
        timing = replace(timing, anchor=at(schedule.interval, "anchor_time"))
    elif timing.kind is RuleKind.RRULE and "DTSTART" not in timing.expression.upper() and schedule.version > 1:
        # It may have become this rule later than it was created, and is counted from then.
        return None
    return compiled(timing.settled(created), schedule.uid, dates)
