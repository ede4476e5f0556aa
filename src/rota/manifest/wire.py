"""A document as the request that applies it."""

from datetime import datetime, timedelta

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from rota_sdk.gen.rota.v1 import common_pb2, schedules_pb2

from rota.domain.model import RetryPolicy, Timeouts
from rota.domain.rulespec import RuleKind
from rota.domain.schedule import Definition, JobTemplate, Timing
from rota.manifest.document import Document


def request(
    document: Document, *, prune: bool, validate_only: bool, request_id: str
) -> schedules_pb2.ApplySchedulesRequest:
    """Everything that the file declares, defaults spelt out."""
    return schedules_pb2.ApplySchedulesRequest(
        apply_set=document.apply_set,
        schedules=[
            schedules_pb2.CreateScheduleRequest(
                schedule_id=item.id, schedule=schedule(item.definition), paused=item.paused
            )
            for item in document.schedules
        ],
        calendars=[
            schedules_pb2.CreateCalendarRequest(
                calendar_id=calendar.id,
                calendar=schedules_pb2.Calendar(dates=calendar.dates, notes=calendar.notes, labels=calendar.labels),
            )
            for calendar in document.calendars
        ],
        prune=prune,
        validate_only=validate_only,
        request_id=request_id,
    )


def schedule(definition: Definition) -> schedules_pb2.Schedule:
    """One schedule, without its name."""
    timing, missed, overlap = definition.timing, definition.missed, definition.overlap
    found = schedules_pb2.Schedule(
        time_zone=timing.time_zone,
        max_count=timing.max_count,
        dst_gap=timing.gap or 0,  # type: ignore[arg-type]
        dst_overlap=timing.overlap or 0,  # type: ignore[arg-type]
        missed_run_policy=schedules_pb2.MissedRunPolicy(
            mode=missed.mode.value,  # type: ignore[arg-type]
            late_tolerance=_span(missed.late_tolerance_s),
            catch_up_window=_span(missed.catch_up_window_s),
            catch_up_max=missed.catch_up_max,
        ),
        overlap_policy=schedules_pb2.OverlapPolicy(
            mode=overlap.mode.value,  # type: ignore[arg-type]
            limit=overlap.limit,
        ),
        pause_after_failures=definition.pause_after_failures,
        job=_job(definition.job),
        notes=definition.notes,
        labels=definition.labels,
    )
    _set_rule(found, timing)
    if timing.start is not None:
        found.start_time.CopyFrom(_stamp(timing.start))
    if timing.end is not None:
        found.end_time.CopyFrom(_stamp(timing.end))
    if timing.jitter_s:
        mode = timing.jitter_mode.value
        found.jitter.CopyFrom(schedules_pb2.Jitter(mode=mode, span=_span(timing.jitter_s)))  # type: ignore[arg-type]
    if timing.dates or timing.calendars:
        names = [f"calendars/{id}" for id in timing.calendars]
        found.exclusions.CopyFrom(schedules_pb2.Exclusions(dates=timing.dates, calendars=names))
    return found


def _set_rule(found: schedules_pb2.Schedule, timing: Timing) -> None:
    match timing.kind:
        case RuleKind.CRON:
            found.cron.expression = timing.expression
        case RuleKind.RRULE:
            found.rrule.text = timing.expression
        case RuleKind.INTERVAL:
            found.interval.every.CopyFrom(_span(timing.every_s or 0.0))
            if timing.anchor is not None:
                found.interval.anchor_time.CopyFrom(_stamp(timing.anchor))
        case RuleKind.ONCE:
            if timing.run_time is not None:
                found.once.run_time.CopyFrom(_stamp(timing.run_time))
            else:
                found.once.local_time = timing.local_time


def _job(job: JobTemplate) -> schedules_pb2.JobTemplate:
    return schedules_pb2.JobTemplate(
        type=job.type,
        queue=job.queue,
        priority=job.priority,
        payload=common_pb2.Payload(data=job.payload.data, content_type=job.payload.content_type),
        headers=job.headers,
        labels=job.labels,
        retry_policy=_retry(job.retry),
        timeouts=_timeouts(job.timeouts),
        concurrency_key=job.concurrency_key,
    )


def _retry(retry: RetryPolicy) -> common_pb2.RetryPolicy:
    return common_pb2.RetryPolicy(
        max_attempts=retry.max_attempts,
        initial_backoff=_span(retry.initial_backoff_s),
        max_backoff=_span(retry.max_backoff_s),
        multiplier=retry.multiplier,
        non_retryable_types=retry.non_retryable_types,
    )


def _timeouts(timeouts: Timeouts) -> common_pb2.Timeouts:
    found = common_pb2.Timeouts(run=_span(timeouts.run_s))
    if timeouts.start_by_s is not None:
        found.start_by.CopyFrom(_span(timeouts.start_by_s))
    if timeouts.total_s is not None:
        found.total.CopyFrom(_span(timeouts.total_s))
    return found


def _span(seconds: float) -> Duration:
    found = Duration()
    found.FromTimedelta(timedelta(seconds=seconds))
    return found


def _stamp(at: datetime) -> Timestamp:
    found = Timestamp()
    found.FromDatetime(at)
    return found
