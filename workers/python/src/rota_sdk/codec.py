"""Protobuf <-> values, both ways."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from rota_sdk import model
from rota_sdk.gen.rota.v1 import common_pb2, jobs_pb2
from rota_sdk.model import Attempt, Failure, Job, NewJob, Payload, RetryPolicy, Span, Timeouts


def duration(span: Span) -> Duration:
    """A span as Duration, to the nanosecond."""
    nanos = round(model.seconds(span) * 1e9)
    # Both parts carry the same sign.
    whole, part = divmod(abs(nanos), 1_000_000_000)
    sign = -1 if nanos < 0 else 1
    return Duration(seconds=sign * whole, nanos=sign * part)


def timestamp(instant: datetime) -> Timestamp:
    """An aware instant as Timestamp."""
    stamp = Timestamp()
    stamp.FromDatetime(instant)
    return stamp


def instant(message: Message, name: str) -> datetime | None:
    """The Timestamp field `name` as an aware datetime in UTC; None when unset."""
    if not message.HasField(name):
        return None
    stamp: datetime = getattr(message, name).ToDatetime(tzinfo=UTC)
    return stamp


def span(message: Message, name: str) -> float | None:
    """The Duration field `name` in seconds; None when unset."""
    if not message.HasField(name):
        return None
    value: Duration = getattr(message, name)
    return value.seconds + value.nanos / 1e9


def create_request(job: NewJob, request_id: str = "") -> jobs_pb2.CreateJobRequest:
    """A job to create. Raises TypeError or ValueError when its payload has no form in bytes."""
    payload = Payload.of(job.payload)
    body = jobs_pb2.Job(
        type=job.type,
        queue=job.queue,
        priority=job.priority,
        headers=job.headers,
        labels=job.labels,
        effect_key=job.effect_key,
        concurrency_key=job.concurrency_key,
    )
    if payload.data or payload.content_type:
        body.payload.data = payload.data
        body.payload.content_type = payload.content_type
    if job.run_time is not None:
        body.run_time.FromDatetime(job.run_time)
    if job.retry is not None:
        body.retry_policy.CopyFrom(_retry_out(job.retry))
    if job.timeouts is not None:
        _set_spans(
            body.timeouts,
            {"start_by": job.timeouts.start_by, "run": job.timeouts.run, "total": job.timeouts.total},
        )
    request = jobs_pb2.CreateJobRequest(job=body, request_id=request_id)
    if job.delay is not None:
        request.delay.CopyFrom(duration(job.delay))
    if job.dedupe is not None:
        request.dedupe.key = job.dedupe.key
        request.dedupe.scope = int(job.dedupe.scope)  # type: ignore[assignment]
        request.dedupe.on_conflict = int(job.dedupe.on_conflict)  # type: ignore[assignment]
        _set_spans(request.dedupe, {"window": job.dedupe.window})
    return request


def _set_spans(message: Any, spans: Mapping[str, Span | None]) -> None:
    for name, value in spans.items():
        if value is not None:
            getattr(message, name).CopyFrom(duration(value))


def _retry_out(policy: RetryPolicy) -> common_pb2.RetryPolicy:
    message = common_pb2.RetryPolicy(
        max_attempts=policy.max_attempts,
        multiplier=policy.multiplier,
        non_retryable_types=policy.non_retryable_types,
    )
    _set_spans(message, {"initial_backoff": policy.initial_backoff, "max_backoff": policy.max_backoff})
    return message


def _retry_in(message: common_pb2.RetryPolicy) -> RetryPolicy:
    return RetryPolicy(
        max_attempts=message.max_attempts if message.HasField("max_attempts") else None,
        initial_backoff=span(message, "initial_backoff"),
        max_backoff=span(message, "max_backoff"),
        multiplier=message.multiplier if message.HasField("multiplier") else None,
        non_retryable_types=tuple(message.non_retryable_types),
    )


def payload(message: common_pb2.Payload) -> Payload:
    """A payload as it came."""
    return Payload(message.data, message.content_type)


def _failure(message: jobs_pb2.Job | jobs_pb2.Attempt, name: str) -> Failure | None:
    if not message.HasField(name):
        return None
    found: common_pb2.Failure = getattr(message, name)
    return Failure(found.type, found.message, found.stack)


def job(message: jobs_pb2.Job, *, existing: bool = False) -> Job:
    """A job as it stood."""
    timeouts = message.timeouts
    return Job(
        name=message.name,
        type=message.type,
        queue=message.queue,
        state=model.JobState(message.state),
        priority=message.priority,
        payload=payload(message.payload),
        headers=dict(message.headers),
        labels=dict(message.labels),
        retry=_retry_in(message.retry_policy),
        timeouts=Timeouts(span(timeouts, "start_by"), span(timeouts, "run"), span(timeouts, "total")),
        effect_key=message.effect_key,
        concurrency_key=message.concurrency_key,
        attempt=message.attempt,
        attempts_counted=message.attempts_counted,
        generation=message.generation,
        result=payload(message.result) if message.HasField("result") else None,
        last_failure=_failure(message, "last_failure"),
        session=message.session,
        schedule=message.schedule,
        reason=message.reason,
        traceparent=message.traceparent,
        completed_despite_cancel=message.completed_despite_cancel,
        run_time=instant(message, "run_time"),
        create_time=instant(message, "create_time"),
        due_time=instant(message, "due_time"),
        lease_time=instant(message, "lease_time"),
        finish_time=instant(message, "finish_time"),
        nominal_time=instant(message, "nominal_time"),
        existing=existing,
    )


def attempt(message: jobs_pb2.Attempt) -> Attempt:
    """An attempt as it stood."""
    return Attempt(
        name=message.name,
        number=message.number,
        fence=message.fence,
        session=message.session,
        worker=message.worker,
        outcome=model.AttemptOutcome(message.outcome),
        failure=_failure(message, "failure"),
        effect_state=model.EffectState(message.effect_state),
        effect_receipts=tuple(model.EffectReceipt(r.effect_key, r.reference) for r in message.effect_receipts),
        lease_time=instant(message, "lease_time"),
        end_time=instant(message, "end_time"),
    )
