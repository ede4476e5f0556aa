"""Schedules, occurrences and backfills as commands show them to people: cells of tables, fields, lines."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from rota.cli import localtime
from rota.cli.jobview import pairs_text, payload_text
from rota.cli.output import instant, one_line
from rota.cli.remote import at, enum_name
from rota.domain.duration import format_duration

if TYPE_CHECKING:
    from rota_sdk.gen.rota.v1.schedules_pb2 import Backfill, Occurrence, OverlapPolicy, Schedule

SCHEDULE_COLUMNS: Final = ("ID", "STATE", "RULE", "ZONE", "NEXT", "IN", "LAST JOB")
OCCURRENCE_COLUMNS: Final = ("NOMINAL", "UTC", "FATE", "ORIGIN", "COUNT", "JOB", "REASON")
BACKFILL_COLUMNS: Final = ("BACKFILL", "STATE", "FROM", "TO", "DONE", "FIRED", "RATE", "REASON")

_RULE_CHARS: Final = 60
_DATES_SHOWN: Final = 12


def bare(name: str) -> str:
    """The id of schedules/{id}, calendars/{id}."""
    return name.rpartition("/")[2]


def schedule_row(schedule: "Schedule", now: datetime) -> tuple[str, ...]:
    """The cells of SCHEDULE_COLUMNS."""
    following = at(schedule, "next_due_time") or at(schedule, "next_nominal_time")
    return (
        bare(schedule.name),
        _enum(schedule, "state"),
        _short_rule(schedule),
        schedule.time_zone,
        localtime.utc(following) if following else "",
        localtime.relative(following, now).removeprefix("in ") if following else "",
        schedule.last_job,
    )


def schedule_fields(
    schedule: "Schedule", now: datetime, following: Sequence[datetime] = ()
) -> Iterator[tuple[str, str]]:
    """A schedule on a screen; `following` are its next times, when more than the first are known."""

    def when(field: str) -> str:
        return localtime.shown(at(schedule, field), schedule.time_zone, now)

    yield "schedule", schedule.name
    yield "rule", rule_text(schedule)
    yield "zone", schedule.time_zone
    yield "state", _enum(schedule, "state")
    yield "since", _since(schedule)
    times = [localtime.shown(time, schedule.time_zone, now) for time in following]
    yield "next", "\n".join(times) or when("next_nominal_time")
    if at(schedule, "next_due_time") != at(schedule, "next_nominal_time"):
        yield "due", when("next_due_time")
    yield "last", when("last_nominal_time")
    yield "last fired", instant(at(schedule, "last_fire_time"))
    yield "last job", schedule.last_job
    yield "failures", f"{schedule.consecutive_failures} dead jobs in a row" if schedule.consecutive_failures else ""
    yield "fates", ", ".join(f"{_enum(fate, 'fate')} {fate.count}" for fate in schedule.fate_counts)
    yield from _bounds(schedule, when)
    yield from _policies(schedule)
    yield from _job(schedule)
    yield "labels", pairs_text(schedule.labels)
    yield "notes", schedule.notes
    yield "set", schedule.apply_set
    yield "version", f"{schedule.version}, etag {schedule.etag}"
    yield "uid", schedule.uid
    yield "created", instant(at(schedule, "create_time"))
    if schedule.version > 1:
        yield "changed", instant(at(schedule, "update_time"))
    yield "tzdata", schedule.tzdata_version


def rule_text(schedule: "Schedule") -> str:
    """The rule in full, as the options say it."""
    match schedule.WhichOneof("rule"):
        case "cron":
            return schedule.cron.expression
        case "interval":
            anchor = at(schedule.interval, "anchor_time")
            counted = f", counted from {localtime.utc(anchor)}" if anchor else ""
            return f"every {_span(schedule.interval.every)}{counted}"
        case "rrule":
            return schedule.rrule.text
        case "once":
            run_time = at(schedule.once, "run_time")
            return f"once, at {localtime.utc(run_time) if run_time else schedule.once.local_time}"
    return ""


def occurrence_row(occurrence: "Occurrence") -> tuple[str, ...]:
    """The cells of OCCURRENCE_COLUMNS."""
    nominal, last = at(occurrence, "nominal_time"), at(occurrence, "last_nominal_time")
    many = occurrence.count > 1
    until = f" … {localtime.utc(last)}" if many and last else ""
    return (
        local_text(occurrence.local_time),
        (localtime.utc(nominal) if nominal else "") + until,
        _enum(occurrence, "fate"),
        _enum(occurrence, "origin"),
        str(occurrence.count) if many else "",
        occurrence.job,
        "; ".join(_reasons(occurrence)),
    )


def occurrence_fields(occurrence: "Occurrence") -> Iterator[tuple[str, str]]:
    """An occurrence that a trigger made."""
    nominal = at(occurrence, "nominal_time")
    yield "occurrence", occurrence.name
    yield "fate", _enum(occurrence, "fate")
    yield "nominal", f"{local_text(occurrence.local_time)} = {localtime.utc(nominal)}" if nominal else ""
    yield "reason", "; ".join(_reasons(occurrence))


def local_text(text: str) -> str:
    """2026-03-08T03:00:00-04:00 for people, as far as it is one."""
    try:
        return " ".join(localtime.wall(text, ""))
    except ValueError:
        return text


def backfill_row(backfill: "Backfill") -> tuple[str, ...]:
    """The cells of BACKFILL_COLUMNS."""
    start, end = at(backfill, "start_time"), at(backfill, "end_time")
    return (
        backfill.name.removeprefix("schedules/"),
        _enum(backfill, "state"),
        localtime.utc(start) if start else "",
        localtime.utc(end) if end else "",
        f"{backfill.done_count}/{backfill.total_count}",
        str(backfill.fired_count),
        f"{backfill.rate:g}/s" if backfill.HasField("rate") else "",
        one_line(backfill.reason),
    )


def backfill_fields(backfill: "Backfill", zone: str, now: datetime) -> Iterator[tuple[str, str]]:
    """A backfill in full; one that was only asked about has no name and no state."""

    def when(field: str) -> str:
        return localtime.shown(at(backfill, field), zone, now)

    yield "backfill", backfill.name
    yield "state", _enum(backfill, "state")
    yield "from", when("start_time")
    yield "to", when("end_time")
    yield "occurrences", str(backfill.total_count)
    if backfill.name:
        yield "done", f"{backfill.done_count}, of which {backfill.fired_count} fired"
        yield "next", when("next_nominal_time")
    yield "include fired", "yes" if backfill.include_fired else ""
    yield "rate", f"at most {backfill.rate:g} a second" if backfill.HasField("rate") else ""
    if backfill.HasField("overlap_policy"):
        yield "overlap", _overlap(backfill.overlap_policy)
    yield "priority", str(backfill.priority) if backfill.HasField("priority") else ""
    yield "reason", backfill.reason
    if backfill.name:
        yield "author", backfill.author
        yield "created", instant(at(backfill, "create_time"))
        yield "finished", instant(at(backfill, "finish_time"))


def progress_line(backfill: "Backfill") -> str:
    """One line about where a backfill is."""
    state = _enum(backfill, "state")
    line = f"{state:10}  {backfill.done_count} of {backfill.total_count} done, {backfill.fired_count} fired"
    following = at(backfill, "next_nominal_time")
    return f"{line}, next {localtime.utc(following)}" if following else line


def _since(schedule: "Schedule") -> str:
    time = instant(at(schedule, "state_time"))
    author = f"by {schedule.state_author}" if schedule.state_author else ""
    text = " ".join(filter(None, (time, author)))
    return f"{text}: {schedule.state_reason}" if schedule.state_reason else text


def _bounds(schedule: "Schedule", when: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    yield "start", when("start_time")
    yield "end", when("end_time")
    yield "max count", str(schedule.max_count) if schedule.HasField("max_count") else ""
    if schedule.jitter.span.ToNanoseconds():
        drawn = "for each run" if _enum(schedule.jitter, "mode") == "RANDOM" else "for all runs"
        yield "jitter", f"below {_span(schedule.jitter.span)}, one {drawn}"
    dates = list(schedule.exclusions.dates)
    more = f" and {len(dates) - _DATES_SHOWN} more" if len(dates) > _DATES_SHOWN else ""
    yield "exclude", " ".join(dates[:_DATES_SHOWN]) + more
    yield "calendars", " ".join(map(bare, schedule.exclusions.calendars))
    yield "dst gap", _choice(schedule, "dst_gap")
    yield "dst overlap", _choice(schedule, "dst_overlap")


def _policies(schedule: "Schedule") -> Iterator[tuple[str, str]]:
    """What differs from the defaults."""
    missed = schedule.missed_run_policy
    mode = _choice(missed, "mode") or "coalesce"
    told = [mode] if mode != "coalesce" else []
    if missed.HasField("late_tolerance") and missed.late_tolerance.ToNanoseconds() != 60 * 10**9:
        told.append(f"late after {_span(missed.late_tolerance)}")
    if mode == "catch-up":
        if missed.HasField("catch_up_window"):
            told.append(f"within {_span(missed.catch_up_window)}")
        if missed.HasField("catch_up_max"):
            told.append(f"at most {missed.catch_up_max}")
    yield "missed", ", ".join(told)
    overlap = _overlap(schedule.overlap_policy)
    yield "overlap", overlap if overlap != "allow" else ""
    count = schedule.pause_after_failures
    yield "pause after", f"{count} dead jobs in a row" if count else ""


def _overlap(policy: "OverlapPolicy") -> str:
    mode = _choice(policy, "mode") or "allow"
    return f"{mode}, at most {policy.limit}" if policy.HasField("limit") else mode


def _job(schedule: "Schedule") -> Iterator[tuple[str, str]]:
    from rota_sdk import codec

    job = schedule.job
    yield (
        "job",
        f"{job.type}, queue {job.queue or 'default'}, priority {job.priority if job.HasField('priority') else 4}",
    )
    yield "payload", payload_text(codec.payload(job.payload))
    yield "headers", pairs_text(job.headers)
    yield "job labels", pairs_text(job.labels)
    attempts = job.retry_policy.max_attempts
    yield "attempts", f"at most {attempts}" if attempts else ""
    bounds = [
        f"{text} {_span(getattr(job.timeouts, name))}"
        for name, text in (("run", "run"), ("start_by", "start by"), ("total", "in all"))
        if job.timeouts.HasField(name)
    ]
    yield "timeouts", ", ".join(bounds)
    yield "concurrency", job.concurrency_key


def _short_rule(schedule: "Schedule") -> str:
    """The rule in one line; of several lines of an RRULE the one that says it."""
    text = rule_text(schedule).partition(", counted from")[0]
    lines = [line for line in text.splitlines() if line.strip()]
    said = next((line for line in lines if line.upper().startswith("RRULE")), lines[0] if lines else "")
    return one_line(said, _RULE_CHARS)


def _reasons(occurrence: "Occurrence") -> Iterator[str]:
    if occurrence.reason:
        yield one_line(occurrence.reason)
    if occurrence.blocking_job and occurrence.blocking_job not in occurrence.reason:
        yield f"behind {occurrence.blocking_job}"
    if occurrence.forced:
        yield "forced"


def _span(value: Any) -> str:
    return format_duration(value.ToNanoseconds() / 1e9)


def _enum(message: Any, field: str) -> str:
    """The name without its prefix; empty for UNSPECIFIED."""
    number = getattr(message, field)
    return enum_name(message.DESCRIPTOR.fields_by_name[field].enum_type, number) if number else ""


def _choice(message: Any, field: str) -> str:
    """The name as an option says it."""
    return _enum(message, field).lower().replace("_", "-")
