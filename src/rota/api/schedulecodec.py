"""Schedules and calendars: protobuf to domain and back. Total functions, no decisions.

Checks here are those of the wire alone (required, parseable); what a schedule may be is the domain's matter.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from rota_sdk.gen.rota.v1 import common_pb2
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

from rota.api import codec, masks
from rota.api import schedulenames as names
from rota.domain import draft, limits, zones
from rota.domain.dst import GapPolicy
from rota.domain.dst import OverlapPolicy as DstOverlap
from rota.domain.errors import InvalidArgument
from rota.domain.jitter import JitterMode
from rota.domain.model import Payload, RetryPolicy, Timeouts
from rota.domain.rule import PreviewLine
from rota.domain.rulespec import RuleKind
from rota.domain.schedule import (
    Backfill,
    Calendar,
    Definition,
    Fate,
    JobTemplate,
    MissedMode,
    MissedPolicy,
    Occurrence,
    OverlapMode,
    OverlapPolicy,
    Schedule,
    ScheduleState,
    Timing,
    etag,
)
from rota.domain.text import Problems, too_large
from rota.service.applying import Change

_DEFAULT_MISSED = MissedPolicy()


def definition(problems: Problems, at: str, message: pb.Schedule) -> Definition:
    """What a message says of a schedule, defaults filled in. `at` is its path, such as `schedule`."""
    if not message.HasField("job"):
        problems.add(f"{at}.job", "must be set: the job that each occurrence makes, with its type at least")
    return Definition(
        timing=timing(problems, at, message),
        job=_template(message.job),
        missed=missed_policy(f"{at}.missed_run_policy", message.missed_run_policy),
        overlap=overlap_policy(f"{at}.overlap_policy", message.overlap_policy),
        pause_after_failures=message.pause_after_failures,
        notes=message.notes,
        labels=dict(message.labels),
    )


def timing(problems: Problems, at: str, message: pb.Schedule) -> Timing:
    """What a message says of the times of a schedule; all else of it may be missing."""
    return replace(
        _rule(problems, at, message),
        time_zone=message.time_zone or "UTC",
        start=instant(problems, f"{at}.start_time", message, "start_time"),
        end=instant(problems, f"{at}.end_time", message, "end_time"),
        max_count=message.max_count if message.HasField("max_count") else None,
        jitter_s=codec.seconds(message.jitter.span),
        jitter_mode=codec.enum(JitterMode, f"{at}.jitter.mode", message.jitter.mode, JitterMode.HASH),
        dates=tuple(message.exclusions.dates),
        calendars=_calendars(problems, f"{at}.exclusions.calendars", message.exclusions.calendars),
        gap=codec.enum(GapPolicy, f"{at}.dst_gap", message.dst_gap, None),
        overlap=codec.enum(DstOverlap, f"{at}.dst_overlap", message.dst_overlap, None),
    )


def instant(problems: Problems, field: str, message: Message, name: str) -> datetime | None:
    """The instant in a field of a message; None where it is not set."""
    return codec.instant(problems, field, getattr(message, name)) if message.HasField(name) else None


def missed_policy(at: str, message: pb.MissedRunPolicy) -> MissedPolicy:
    found = _DEFAULT_MISSED
    if message.HasField("late_tolerance"):
        found = replace(found, late_tolerance_s=codec.seconds(message.late_tolerance))
    if message.HasField("catch_up_window"):
        found = replace(found, catch_up_window_s=codec.seconds(message.catch_up_window))
    if message.HasField("catch_up_max"):
        found = replace(found, catch_up_max=message.catch_up_max)
    return replace(found, mode=codec.enum(MissedMode, f"{at}.mode", message.mode, found.mode))


def overlap_policy(at: str, message: pb.OverlapPolicy) -> OverlapPolicy:
    return OverlapPolicy(
        mode=codec.enum(OverlapMode, f"{at}.mode", message.mode, OverlapMode.ALLOW),
        limit=message.limit if message.HasField("limit") else None,
    )


def payload(problems: Problems, at: str, message: common_pb2.Payload) -> Payload:
    """A payload in place of a template's. One over its limit is raised at once, since it has a reason of its own."""
    if len(message.data) > limits.PAYLOAD_BYTES_MAX:
        raise too_large(f"{at}.data", "a payload", len(message.data), limits.PAYLOAD_BYTES_MAX)
    problems.text(f"{at}.content_type", message.content_type, limits.CONTENT_TYPE_BYTES_MAX)
    return _payload(message)


def backfill(problems: Problems, at: str, message: pb.Backfill) -> Backfill:
    """A wish for a backfill, which has no id yet. `at` is the path of its message."""
    bounds = {}
    for name in ("start_time", "end_time"):
        bounds[name] = instant(problems, f"{at}.{name}", message, name)
        if not message.HasField(name):
            problems.add(f"{at}.{name}", "must be set: the span to backfill is from start_time up to end_time")
    overlap = overlap_policy(f"{at}.overlap_policy", message.overlap_policy)
    problems.raise_any()
    start, end = bounds["start_time"], bounds["end_time"]
    assert start is not None and end is not None
    return Backfill(
        id="",
        start=start,
        end=end,
        include_fired=message.include_fired,
        rate=message.rate if message.HasField("rate") else limits.BACKFILL_RATE_DEFAULT,
        overlap=overlap if message.HasField("overlap_policy") else None,
        priority=message.priority,
        reason=message.reason,
    )


def calendar(id: str, message: pb.Calendar) -> Calendar:
    """A calendar to create or apply."""
    return Calendar(id, dates=tuple(message.dates), notes=message.notes, labels=dict(message.labels))


def edited(stored: Definition, given: pb.Schedule, taken: Sequence[str] | None, at: str) -> Definition:
    """A definition with the fields at these paths (see `masks.paths`) as they are in `given`, whose path is `at`."""
    problems = Problems()
    found = definition(problems, at, masks.merged(_stored_message(stored), given, taken))
    problems.raise_any()
    if stored.timing.kind is found.timing.kind is RuleKind.RRULE:
        # An RRULE without DTSTART counts from an instant that the wire does not have.
        return replace(found, timing=replace(found.timing, anchor=stored.timing.anchor))
    return found


def edited_calendar(stored: Calendar, given: pb.Calendar, taken: Sequence[str] | None) -> Calendar:
    found = masks.merged(calendar_message(stored), given, taken)
    return replace(stored, dates=tuple(found.dates), notes=found.notes, labels=dict(found.labels))


def changed(old: Definition, new: Definition) -> tuple[str, ...]:
    """The paths of Schedule at which two definitions differ, each with its defaults filled in."""
    return masks.differences(definition_message(old), definition_message(new))


def schedule_message(schedule: Schedule, *, full: bool = True) -> pb.Schedule:
    """A schedule as readers see it; `full` False: as in lists, without payload and fate counts."""
    timer = schedule.timer
    message = definition_message(schedule.definition, full=full)
    message.MergeFrom(
        pb.Schedule(
            name=names.schedule_name(schedule.id),
            etag=etag(timer.version, schedule.uid),
            uid=schedule.uid,
            version=timer.version,
            state=_number(timer.state),
            state_reason=timer.state_reason,
            state_author=names.author_name(timer.state_author),
            state_time=_stamp(timer.state_at),
            create_time=_stamp(schedule.created_at),
            update_time=_stamp(schedule.updated_at),
            last_nominal_time=_stamp(timer.last_nominal),
            last_fire_time=_stamp(timer.last_fire_at),
            last_job=codec.job_name(timer.last_job) if timer.last_job is not None else "",
            consecutive_failures=timer.failures,
            tzdata_version=timer.tzdata,
            apply_set=schedule.apply_set,
            traceparent=schedule.traceparent,
        )
    )
    if timer.state is ScheduleState.ACTIVE:
        if timer.next_nominal is not None:
            message.next_nominal_time.CopyFrom(codec.timestamp(timer.next_nominal))
        if timer.next_due is not None:
            message.next_due_time.CopyFrom(codec.timestamp(timer.next_due))
    if full:
        for fate, count in zip(Fate, timer.fates, strict=True):
            if count:
                message.fate_counts.add(fate=_number(fate), count=count)
    return message


def definition_message(found: Definition, *, full: bool = True) -> pb.Schedule:
    """The part of a schedule that people write, defaults filled in; `full` False: without the payload."""
    when = found.timing
    message = pb.Schedule(
        time_zone=when.time_zone,
        start_time=_stamp(when.start),
        end_time=_stamp(when.end),
        max_count=when.max_count,
        jitter=pb.Jitter(mode=_number(when.jitter_mode), span=codec.duration(when.jitter_s)),
        dst_gap=_number(when.gap),
        dst_overlap=_number(when.overlap),
        missed_run_policy=missed_message(found.missed),
        overlap_policy=overlap_message(found.overlap),
        pause_after_failures=found.pause_after_failures,
        job=_template_message(found.job, full=full),
        notes=found.notes,
        labels=found.labels,
    )
    if when.dates or when.calendars:
        calendars = [names.calendar_name(id) for id in when.calendars]
        message.exclusions.CopyFrom(pb.Exclusions(dates=when.dates, calendars=calendars))
    match when.kind:
        case RuleKind.ONCE if when.run_time is not None:
            message.once.run_time.CopyFrom(codec.timestamp(when.run_time))
        case RuleKind.ONCE:
            message.once.local_time = when.local_time
        case RuleKind.CRON:
            message.cron.expression = when.expression
        case RuleKind.INTERVAL:
            message.interval.every.CopyFrom(codec.duration(when.every_s or 0.0))
            if when.anchor is not None:
                message.interval.anchor_time.CopyFrom(codec.timestamp(when.anchor))
        case RuleKind.RRULE:
            message.rrule.text = when.expression
    return message


def missed_message(policy: MissedPolicy) -> pb.MissedRunPolicy:
    return pb.MissedRunPolicy(
        mode=_number(policy.mode),
        late_tolerance=codec.duration(policy.late_tolerance_s),
        catch_up_window=codec.duration(policy.catch_up_window_s),
        catch_up_max=policy.catch_up_max,
    )


def overlap_message(policy: OverlapPolicy) -> pb.OverlapPolicy:
    limit = policy.buffer_max if policy.mode is OverlapMode.BUFFER_ALL else policy.limit
    return pb.OverlapPolicy(mode=_number(policy.mode), limit=limit)


def occurrence_message(schedule: str, found: Occurrence) -> pb.Occurrence:
    """`schedule` is the id of its schedule."""
    return pb.Occurrence(
        name=names.occurrence_name(schedule, found.nominal, found.generation),
        nominal_time=_stamp(found.nominal),
        due_time=_stamp(found.due),
        local_time=found.local,
        generation=found.generation,
        origin=_number(found.origin),
        fate=_number(found.fate),
        reason=found.reason,
        job=codec.job_name(found.job_id) if found.job_id is not None else "",
        blocking_job=codec.job_name(found.blocking_job) if found.blocking_job is not None else "",
        backfill=names.backfill_name(schedule, found.backfill_id) if found.backfill_id is not None else "",
        schedule_version=found.version,
        record_time=_stamp(found.recorded_at),
        count=found.count,
        last_nominal_time=_stamp(found.last_nominal or found.nominal),
        forced=found.forced,
    )


def backfill_message(schedule: str, found: Backfill, *, stored: bool = True) -> pb.Backfill:
    """`schedule` is the id of its schedule; `stored` False: as it would be, without name and state."""
    message = pb.Backfill(
        start_time=_stamp(found.start),
        end_time=_stamp(found.end),
        include_fired=found.include_fired,
        rate=found.rate,
        overlap_policy=overlap_message(found.overlap) if found.overlap is not None else None,
        priority=found.priority,
        reason=found.reason,
        total_count=found.total,
        done_count=found.done,
        fired_count=found.fired,
        next_nominal_time=_stamp(found.next_nominal),
        author=names.author_name(found.author),
        create_time=_stamp(found.created_at),
        finish_time=_stamp(found.finished_at),
    )
    if stored:
        message.name = names.backfill_name(schedule, found.id)
        message.state = _number(found.state)
    return message


def calendar_message(found: Calendar, *, full: bool = True) -> pb.Calendar:
    """A calendar as readers see it; `full` False: as in lists, without its dates."""
    return pb.Calendar(
        name=names.calendar_name(found.id),
        dates=found.dates if full else (),
        notes=found.notes,
        labels=found.labels,
        etag=etag(found.version, found.uid),
        uid=found.uid,
        create_time=_stamp(found.created_at),
        update_time=_stamp(found.updated_at),
    )


def preview_message(lines: Sequence[PreviewLine], *, exhausted: bool) -> pb.PreviewScheduleResponse:
    return pb.PreviewScheduleResponse(
        occurrences=[_preview_line(line) for line in lines], exhausted=exhausted, tzdata_version=zones.version()
    )


def change_message(change: Change) -> pb.ApplyChange:
    message = pb.ApplyChange(name=change.name, action=_number(change.action))
    if change.fields:
        message.changed_fields.paths.extend(change.fields)
    return message


def _preview_line(line: PreviewLine) -> pb.PreviewedOccurrence:
    return pb.PreviewedOccurrence(
        nominal_time=_stamp(line.nominal),
        due_time=_stamp(line.due),
        local_time=line.local,
        zone_abbreviation=line.abbreviation,
        removed=line.removed,
        reasons=[pb.PreviewReason(cause=_number(reason.cause), text=reason.text) for reason in line.reasons],
    )


def _rule(problems: Problems, at: str, message: pb.Schedule) -> Timing:
    match message.WhichOneof("rule"):
        case "once":
            if message.once.WhichOneof("time") is None:
                problems.add(f"{at}.once", "must have run_time or local_time, found neither")
            run_time = instant(problems, f"{at}.once.run_time", message.once, "run_time")
            return Timing(RuleKind.ONCE, run_time=run_time, local_time=message.once.local_time)
        case "interval":
            if not message.interval.HasField("every"):
                problems.add(f"{at}.interval.every", "must be set: the time from one occurrence to the next")
            anchor = instant(problems, f"{at}.interval.anchor_time", message.interval, "anchor_time")
            return Timing(RuleKind.INTERVAL, every_s=codec.seconds(message.interval.every), anchor=anchor)
        case "rrule":
            return Timing(RuleKind.RRULE, message.rrule.text)
        case "cron":
            return Timing(RuleKind.CRON, message.cron.expression)
        case _:
            problems.add(f"{at}.rule", "must be one of once, cron, interval or rrule, found none")
            return Timing(RuleKind.CRON)


def _calendars(problems: Problems, field: str, found: Sequence[str]) -> tuple[str, ...]:
    ids = []
    for name in found:
        try:
            ids.append(names.calendar_id(field, name))
        except InvalidArgument as refusal:
            problems.add(field, refusal.violations[0].description)
    return tuple(dict.fromkeys(ids))


def _template(message: pb.JobTemplate) -> JobTemplate:
    return JobTemplate(
        type=message.type,
        queue=message.queue or draft.QUEUE_DEFAULT,
        priority=message.priority if message.HasField("priority") else limits.PRIORITY_DEFAULT,
        payload=_payload(message.payload),
        headers=dict(message.headers),
        labels=dict(message.labels),
        retry=codec.retry_policy(message.retry_policy) if message.HasField("retry_policy") else RetryPolicy(),
        timeouts=codec.timeouts(message.timeouts) if message.HasField("timeouts") else Timeouts(),
        concurrency_key=message.concurrency_key,
    )


def _template_message(job: JobTemplate, *, full: bool) -> pb.JobTemplate:
    return pb.JobTemplate(
        type=job.type,
        queue=job.queue,
        priority=job.priority,
        payload=common_pb2.Payload(data=job.payload.data, content_type=job.payload.content_type) if full else None,
        headers=job.headers,
        labels=job.labels,
        retry_policy=codec.retry_message(job.retry),
        timeouts=codec.timeouts_message(job.timeouts),
        concurrency_key=job.concurrency_key,
    )


def _stored_message(found: Definition) -> pb.Schedule:
    """A definition as it was written, to merge into: a limit that is only its mode's default must not outlive it."""
    message = definition_message(found)
    if found.overlap.limit is None:
        message.overlap_policy.ClearField("limit")
    return message


def _payload(message: common_pb2.Payload) -> Payload:
    return Payload(message.data, message.content_type)


def _stamp(value: datetime | None) -> Timestamp | None:
    return codec.timestamp(value) if value is not None else None


def _number(value: int | None) -> Any:
    """The same number in an enumeration of the wire."""
    return 0 if value is None else int(value)
