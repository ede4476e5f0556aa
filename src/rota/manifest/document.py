"""A manifest: schedules and calendars as YAML.

    set: billing                      # what is managed together; default: the file's name without its ending
    calendars:
      holidays: [2026-12-25, --01-01]
    schedules:
      invoices:
        cron: "0 5 * * 1-5"
        timezone: Europe/Berlin
        exclude: {calendars: [holidays]}
        missed: catch-up
        overlap: skip
        job: {type: invoices.send, payload: {kind: monthly}}
      backup:
        every: 6h
        command: "./backup.sh --all"
      ping:
        every: 1m
        http: https://example.com/health

`read` refuses what the keys do not permit and what the rules of the domain refuse, in their words: a rule that never
fires, an end before the start. Whether a calendar exists that the file does not declare, only the server knows.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from rota.domain import civil, limits, zones
from rota.domain.dateset import DateSet, parse_dates
from rota.domain.errors import FieldViolation, InvalidArgument
from rota.domain.jitter import JitterMode
from rota.domain.model import Payload, RetryPolicy, Timeouts
from rota.domain.rule import Rule
from rota.domain.rulespec import RuleKind
from rota.domain.schedule import (
    Calendar,
    Definition,
    JobTemplate,
    MissedMode,
    MissedPolicy,
    OverlapMode,
    OverlapPolicy,
    Timing,
    check_calendar,
    check_definition,
    compiled,
)
from rota.domain.text import Problems as Checks
from rota.domain.zones import Zone
from rota.manifest import keys, nodes
from rota.manifest.byid import Entry
from rota.manifest.problems import Problem, Problems, Refused
from rota.manifest.shapes import Held
from rota.targets.command import CONTENT_TYPE, JOB_TYPE, parse_command
from rota.targets.command import QUEUE_DEFAULT as COMMAND_QUEUE
from rota.targets.http.request import JOB_TYPE as HTTP_TYPE
from rota.targets.http.request import QUEUE_DEFAULT as HTTP_QUEUE
from rota.targets.http.request import parse_request

TEXT_TYPE: Final = "text/plain; charset=utf-8"
_UID: Final = ""
"""Of a schedule that is not stored yet. Which slot of an `H` it gets is not known before."""

# Fields of rota.v1.Schedule and what they are called in a file. The longest that fits decides.
_NAMES: Final = {
    "apply_set": "set",
    "cron.expression": "cron",
    "interval.every": "every",
    "interval.anchor_time": "anchor",
    "rrule.text": "rrule",
    "rrule.anchor": "rrule",
    "once": "at",
    "once.run_time": "at",
    "once.local_time": "at",
    "time_zone": "timezone",
    "start_time": "start",
    "end_time": "end",
    "jitter.span": "jitter",
    "exclusions": "exclude",
    "dst_gap": "dst.gap",
    "dst_overlap": "dst.overlap",
    "missed_run_policy": "missed",
    "missed_run_policy.mode": "missed",
    "missed_run_policy.catch_up_window": "missed.window",
    "missed_run_policy.catch_up_max": "missed.max",
    "overlap_policy": "overlap",
    "overlap_policy.mode": "overlap",
    "job.retry_policy": "job.retry",
    "job.payload.data": "job.payload",
    "job.payload.content_type": "job.content_type",
}


@dataclass(frozen=True, slots=True)
class Item:
    """A schedule of a file."""

    id: str
    path: str
    definition: Definition
    paused: bool
    rule: Rule

    @property
    def next_known(self) -> bool:
        """Whether its times follow from the file alone, and not from its uid or its creation too."""
        timing = self.definition.timing
        if timing.kind is RuleKind.INTERVAL:
            return timing.anchor is not None
        return not (timing.kind is RuleKind.CRON and "H" in timing.expression)


@dataclass(frozen=True, slots=True)
class Document:
    """A file that was read."""

    source: str
    apply_set: str
    schedules: tuple[Item, ...]
    calendars: tuple[Calendar, ...]
    lines: Mapping[str, int] = field(default_factory=dict)

    def refused(self, error_violations: Iterable[FieldViolation], message: str, reason: str | None) -> Refused:
        """What the server refused of it, at the place in the file."""
        problems = Problems(self.source)
        problems.lines.update(self.lines)
        for violation in error_violations:
            path = self.path_of(violation.field)
            problems.add(problems.line_of(path), path, violation.description, reason)
        if not problems:
            problems.add(0, "", message, reason)
        found = Refused.of(problems)
        found.reason = reason or found.reason
        return found

    def path_of(self, field: str) -> str:
        """schedules[3].schedule.cron.expression is schedules.nightly.cron"""
        head, _, rest = field.partition(".")
        for noun, inner, ids in (
            ("schedules", "schedule", [item.path for item in self.schedules]),
            ("calendars", "calendar", [f"calendars.{calendar.id}" for calendar in self.calendars]),
        ):
            number = head.removeprefix(f"{noun}[").removesuffix("]")
            if head.startswith(f"{noun}[") and number.isdigit() and int(number) < len(ids):
                rest = rest.removeprefix(inner).lstrip(".")
                return f"{ids[int(number)]}.{name_of(rest)}" if rest else ids[int(number)]
        return field


def name_of(field: str) -> str:
    """What a field of rota.v1.Schedule is called in a file."""
    parts = field.split(".")
    for length in range(len(parts), 0, -1):
        known = _NAMES.get(".".join(parts[:length]))
        if known is not None:
            return ".".join([known, *parts[length:]])
    return field


def read(text: str, source: str, default_set: str, now: datetime, *, set_name: str = "") -> Document:
    """Reads a file, named `source` in messages. `set_name` takes the place of the set that the file names;
    `default_set` empty: it must name one.

    Raises Refused with all that is wrong with it.
    """
    found = nodes.documents(text, source)
    if not found:
        raise Refused(source, [Problem(0, "", "expected schedules, found an empty file; write schedules: {} for none")])
    problems = Problems(source)
    sets: dict[str, int] = {}
    calendars: dict[str, Entry] = {}
    schedules: dict[str, Entry] = {}
    for node in found:
        given = keys.DOCUMENT.read(node, "", problems) or {}
        if not problems and "schedules" not in given and "calendars" not in given:
            problems.add(nodes.line(node), "", "expected schedules or calendars, found neither; add one of them")
        if "set" in given:
            sets.setdefault(given["set"], problems.line_of("set"))
        _gather(schedules, given.get("schedules", []), problems)
        _gather(calendars, given.get("calendars", []), problems)
    if len(sets) > 1:
        problems.add(max(sets.values()), "set", f"expected one set, found {' and '.join(sets)}; make two files of it")
    _check_count("schedules", len(schedules), limits.SCHEDULE_BATCH_MAX, problems)
    _check_count("calendars", len(calendars), limits.APPLY_CALENDARS_MAX, problems)
    apply_set = set_name or next(iter(sets), default_set)
    if not apply_set:
        problems.add(0, "set", "expected a name for what is managed together, found none; add set: NAME, or give --set")
    dates: dict[str, DateSet] = {}
    declared = [_calendar(entry, dates, problems) for entry in calendars.values()]
    items = [_item(entry, dates, now, problems) for entry in schedules.values()]
    problems.raise_any()
    kept = tuple(item for item in items if item is not None)
    return Document(source, apply_set, kept, tuple(declared), dict(problems.lines))


def _gather(into: dict[str, Entry], entries: Iterable[Entry], problems: Problems) -> None:
    for entry in entries:
        if entry.id in into:
            first = into[entry.id].line
            problems.add(entry.line, entry.path, f"expected each id once, found it in line {first} too; rename one")
        else:
            into[entry.id] = entry


def _check_count(noun: str, count: int, most: int, problems: Problems) -> None:
    if count > most:
        problems.add(0, noun, f"expected at most {most} in a file, found {count}; make several files")


def _calendar(entry: Entry, dates: dict[str, DateSet], problems: Problems) -> Calendar:
    value = entry.value if isinstance(entry.value, dict) else {"dates": entry.value}
    texts = tuple(value.get("dates", ()))
    calendar = Calendar(entry.id, texts, value.get("notes", ""), value.get("labels", {}))
    checks = Checks()
    dates[entry.id] = DateSet()
    try:
        check_calendar(checks, "", calendar)
        checks.raise_any()
        dates[entry.id] = parse_dates(texts, "dates", limits.CALENDAR_DATES_MAX)
    except InvalidArgument as error:
        problems.take(entry.line, entry.path, error)
    return calendar


def _item(entry: Entry, dates: Mapping[str, DateSet], now: datetime, problems: Problems) -> Item | None:
    given: dict[str, Any] = entry.value
    if problems.within(entry.path):
        return None
    rules = [rule for rule in keys.RULES if rule in given]
    if len(rules) != 1:
        found = " and ".join(rules) or "none"
        problems.add(
            entry.line, entry.path, f"expected one of {', '.join(keys.RULES)} to say when, found {found}; give one"
        )
        return None
    if "anchor" in given and rules != ["every"]:
        at = f"{entry.path}.anchor"
        problems.add(problems.line_of(at), at, f"expected together with every, found with {rules[0]}; leave it out")
    job = _job(entry, given, problems)
    if job is None or problems.within(entry.path):
        return None
    try:
        zone = zones.find(given.get("timezone", "UTC"), "time_zone")
        timing = _timing(rules[0], given, zone)
        definition = Definition(
            timing,
            job,
            _missed(given.get("missed")),
            _overlap(given.get("overlap")),
            given.get("pause_after_failures", 0),
            given.get("notes", ""),
            given.get("labels", {}),
        )
        checks = Checks()
        check_definition(checks, "", definition, now)
        checks.raise_any()
        known = {id: dates.get(id, DateSet()) for id in timing.calendars}
        rule = compiled(timing.settled(now), _UID, known)
    except InvalidArgument as error:
        for violation in error.violations or (FieldViolation("", error.message),):
            name = name_of(violation.field.lstrip("."))
            at = f"{entry.path}.{name}" if name else entry.path
            problems.add(problems.line_of(at), at, violation.description, error.reason)
        return None
    return Item(entry.id, entry.path, definition, given.get("paused", False), rule)


def _timing(rule: str, given: Mapping[str, Any], zone: Zone) -> Timing:
    exclude = given.get("exclude", {})
    jitter = given.get("jitter", 0.0)
    if not isinstance(jitter, dict):
        jitter = {"span": jitter}
    dst = given.get("dst", {})
    kinds = {"cron": RuleKind.CRON, "every": RuleKind.INTERVAL, "rrule": RuleKind.RRULE, "at": RuleKind.ONCE}
    at = given.get("at", "")
    instant = bool(at) and datetime.fromisoformat(_shaped(at, "once.local_time")).tzinfo is not None
    return Timing(
        kinds[rule],
        expression=given.get("cron") or given.get("rrule") or "",
        every_s=given.get("every"),
        anchor=_instant(given.get("anchor"), zone, "interval.anchor_time"),
        run_time=_instant(at, zone, "once.run_time") if instant else None,
        local_time="" if instant else at.replace(" ", "T"),
        time_zone=zone.name,
        start=_instant(given.get("start"), zone, "start_time"),
        end=_instant(given.get("end"), zone, "end_time"),
        max_count=given.get("max_count"),
        jitter_s=jitter.get("span", 0.0),
        jitter_mode=jitter.get("mode", JitterMode.HASH),
        dates=tuple(exclude.get("dates", ())),
        calendars=tuple(name.removeprefix("calendars/") for name in exclude.get("calendars", ())),
        gap=dst.get("gap"),
        overlap=dst.get("overlap"),
    )


def _shaped(text: str, field: str) -> str:
    """A time whose shape is known to be right, if there is such a date and time too."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument.field(
            field, f"expected a time such as 2026-03-08T02:30:00, found {text!r}; there is no such date or time"
        ) from None
    return text


def _instant(text: str | None, zone: Zone, field: str) -> datetime | None:
    """An instant, or a date or time on the zone's clock, in UTC."""
    if text is None:
        return None
    found = datetime.fromisoformat(_shaped(text, field))
    try:
        if found.tzinfo is None:
            wall = civil.wall_of(found)
            found = datetime.fromtimestamp(zone.instant(wall), UTC).replace(microsecond=found.microsecond)
        return found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidArgument.field(field, f"expected a time within the calendar, found {text!r}; correct it") from None


def _missed(given: Any) -> MissedPolicy:
    usual = MissedPolicy()
    if not isinstance(given, dict):
        return MissedPolicy(given or MissedMode.COALESCE)
    return MissedPolicy(
        given.get("policy", MissedMode.COALESCE),
        given.get("late_tolerance", usual.late_tolerance_s),
        given.get("window", usual.catch_up_window_s),
        given.get("max", usual.catch_up_max),
    )


def _overlap(given: Any) -> OverlapPolicy:
    if not isinstance(given, dict):
        return OverlapPolicy(given or OverlapMode.ALLOW)
    return OverlapPolicy(given.get("policy", OverlapMode.ALLOW), given.get("limit"))


def _job(entry: Entry, given: Mapping[str, Any], problems: Problems) -> JobTemplate | None:
    job: dict[str, Any] = given.get("job", {})
    at = f"{entry.path}.job"
    actions = [key for key in ("command", "http") if key in given]
    if len(actions) > 1:
        problems.add(entry.line, entry.path, "expected command or http, found both; remove one of them")
        return None
    action = actions[0] if actions else ""
    for key in ("type", "payload", "content_type") if action else ():
        if key in job:
            place = f"{at}.{key}"
            problems.add(problems.line_of(place), place, f"expected no such key beside {action}, found one; remove it")
    if not action and "type" not in job:
        problems.add(
            problems.line_of(at), at, "expected a job with a type, a command, or http, found none; add one of them"
        )
        return None
    if action == "command":
        type, queue, payload = JOB_TYPE, COMMAND_QUEUE, _command(entry, given["command"], problems)
    elif action == "http":
        type, queue, payload = HTTP_TYPE, HTTP_QUEUE, _http(entry, given["http"], problems)
    else:
        type, queue, payload = job["type"], "default", _payload(job, at, problems)
    retry, timeouts = job.get("retry", {}), job.get("timeouts", {})
    usual, limit = RetryPolicy(), Timeouts()
    return JobTemplate(
        type,
        job.get("queue", queue),
        job.get("priority", limits.PRIORITY_DEFAULT),
        payload,
        job.get("headers", {}),
        job.get("labels", {}),
        RetryPolicy(
            retry.get("max_attempts", usual.max_attempts),
            retry.get("initial_backoff", usual.initial_backoff_s),
            retry.get("max_backoff", usual.max_backoff_s),
            retry.get("multiplier", usual.multiplier),
            tuple(retry.get("non_retryable_types", ())),
        ),
        Timeouts(
            start_by_s=timeouts.get("start_by"), run_s=timeouts.get("run", limit.run_s), total_s=timeouts.get("total")
        ),
        job.get("concurrency_key", ""),
    )


def _payload(job: Mapping[str, Any], at: str, problems: Problems) -> Payload:
    held = job.get("payload")
    value = held.value if isinstance(held, Held) else None
    content_type = job.get("content_type")
    if content_type is not None and not isinstance(value, str):
        place = f"{at}.content_type"
        problems.add(
            problems.line_of(place), place, "expected beside a payload that is a text, found otherwise; leave it out"
        )
    if held is None:
        return Payload()
    if isinstance(value, str):
        return Payload(value.encode("utf-8", "replace"), content_type or TEXT_TYPE)
    return Payload(_json(value), CONTENT_TYPE)


def _command(entry: Entry, given: Any, problems: Problems) -> Payload:
    if isinstance(given, str):
        given = {"command": given}
    elif isinstance(given, list):
        given = {"argv": given}
    return _checked(f"{entry.path}.command", _json(given), parse_command, problems)


def _http(entry: Entry, given: Any, problems: Problems) -> Payload:
    if isinstance(given, str):
        given = {"url": given}
    elif isinstance(given.get("body"), Held):
        given = given | {"body": given["body"].value}
    return _checked(f"{entry.path}.http", _json(given), parse_request, problems)


def _checked(at: str, data: bytes, parse: Callable[[bytes], object], problems: Problems) -> Payload:
    """A payload for a target, which refuses what its runner would refuse."""
    try:
        parse(data)
    except InvalidArgument as error:
        for violation in error.violations:
            name = f"{at}.{violation.field}"
            problems.add(problems.line_of(name), at if name not in problems.lines else name, violation.description)
    return Payload(data, CONTENT_TYPE)


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
