"""Protobuf to domain and back: total functions, no decisions.

Checks here are those of the wire alone (required, parseable); what a job may be is the domain's matter.
"""

import functools
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from rota_sdk.gen.rota.admin.v1 import admin_pb2
from rota_sdk.gen.rota.v1 import common_pb2, jobs_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2

from rota.coordinator.members import Directive, Inventory
from rota.domain import draft, ids, limits
from rota.domain.errors import InvalidArgument
from rota.domain.ids import Fence, JobId, SessionId, ShardNo, TenantId
from rota.domain.model import (
    Attempt,
    Dedupe,
    DedupeConflict,
    DedupeScope,
    EffectReceipt,
    EffectState,
    Failure,
    Grant,
    Identity,
    Job,
    JobSpec,
    JobState,
    Outcome,
    Payload,
    Result,
    RetryPolicy,
    Session,
    Timeouts,
    effect_key,
)
from rota.domain.text import Problems, clean, too_large

_DEFAULT_RETRY = RetryPolicy()
_DEFAULT_TIMEOUTS = Timeouts()
_NO_PAYLOAD = Payload()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

E = TypeVar("E")
D = TypeVar("D")

AnyResult = worker_pb2.Result | worker_pb2.CompleteJobRequest


def job_name(job: JobId) -> str:
    return f"jobs/{job}"


def session_name(session: SessionId) -> str:
    return f"sessions/{session}"


def job_id(field: str, name: str) -> JobId:
    return JobId(ids.parse_name(field, name, "jobs"))


def session_id(name: str) -> SessionId:
    return _session_id(name)


@functools.lru_cache(maxsize=16_384)
def _session_id(name: str) -> SessionId:
    return SessionId(ids.parse_name("session", name, "sessions"))


def seconds(value: Duration) -> float:
    return value.seconds + value.nanos / 1e9


def duration(value_s: float) -> Duration:
    nanos = round(value_s * 1e9)
    return Duration(seconds=nanos // 1_000_000_000, nanos=nanos % 1_000_000_000)


def timestamp(value: datetime) -> Timestamp:
    stamp = Timestamp()
    _set_instant(stamp, value)
    return stamp


def _set_instant(stamp: Timestamp, value: datetime) -> None:
    """FromDatetime, at a quarter of its cost. `value` is aware."""
    since = value - _EPOCH
    stamp.seconds = since.days * 86_400 + since.seconds
    stamp.nanos = since.microseconds * 1_000


def micros(value: datetime) -> int:
    """Microseconds since 1970, exact."""
    return (value - _EPOCH) // timedelta(microseconds=1)


def instant(problems: Problems, field: str, value: Timestamp) -> datetime | None:
    """An aware UTC instant, to the microsecond."""
    try:
        return value.ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError):
        problems.add(field, "must be an instant from year 1 to 9999")
        return None


def new_job(
    problems: Problems,
    at: str,
    request: jobs_pb2.CreateJobRequest,
    tenant: TenantId,
    new_id: Callable[[], str],
    now: datetime,
) -> JobSpec:
    """A checked job to create. `at` is the path of the request: empty, or such as `requests[3].`."""
    job = request.job
    id = JobId(new_id())
    spec = JobSpec(
        tenant_id=tenant,
        id=id,
        shard=ShardNo(ids.shard_of(tenant, id)),
        type=job.type,
        queue=job.queue or draft.QUEUE_DEFAULT,
        priority=job.priority if job.HasField("priority") else limits.PRIORITY_DEFAULT,
        payload=Payload(job.payload.data, job.payload.content_type) if job.HasField("payload") else _NO_PAYLOAD,
        effect_key=job.effect_key,
        concurrency_key=job.concurrency_key,
    )
    if job.headers:
        spec.headers = dict(job.headers)
    if job.labels:
        spec.labels = dict(job.labels)
    if job.HasField("retry_policy"):
        spec.retry = retry_policy(job.retry_policy)
    if job.HasField("timeouts"):
        spec.timeouts = timeouts(job.timeouts)
    if job.HasField("run_time"):
        spec.run_time = instant(problems, f"{at}job.run_time", job.run_time)
    if request.HasField("delay"):
        if job.HasField("run_time"):
            problems.add(f"{at}delay", "must not be set together with job.run_time; choose one")
        spec.delay_s = problems.span(f"{at}delay", seconds(request.delay), 0.0, limits.HORIZON_S)
    if request.HasField("dedupe"):
        spec.dedupe = _dedupe(f"{at}dedupe", request.dedupe)
        draft.check_dedupe(problems, f"{at}dedupe", spec)
    draft.check_job(problems, f"{at}job", spec, now)
    return spec


def retry_policy(policy: common_pb2.RetryPolicy) -> RetryPolicy:
    return RetryPolicy(
        max_attempts=policy.max_attempts if policy.HasField("max_attempts") else _DEFAULT_RETRY.max_attempts,
        initial_backoff_s=(
            seconds(policy.initial_backoff) if policy.HasField("initial_backoff") else _DEFAULT_RETRY.initial_backoff_s
        ),
        max_backoff_s=(seconds(policy.max_backoff) if policy.HasField("max_backoff") else _DEFAULT_RETRY.max_backoff_s),
        multiplier=policy.multiplier if policy.HasField("multiplier") else _DEFAULT_RETRY.multiplier,
        non_retryable_types=tuple(policy.non_retryable_types),
    )


def timeouts(found: common_pb2.Timeouts) -> Timeouts:
    return Timeouts(
        start_by_s=seconds(found.start_by) if found.HasField("start_by") else None,
        run_s=seconds(found.run) if found.HasField("run") else _DEFAULT_TIMEOUTS.run_s,
        total_s=seconds(found.total) if found.HasField("total") else None,
    )


def _dedupe(at: str, found: common_pb2.Dedupe) -> Dedupe:
    return Dedupe(
        key=found.key,
        scope=enum(DedupeScope, f"{at}.scope", found.scope, DedupeScope.TYPE),
        window_s=seconds(found.window) if found.HasField("window") else None,
        on_conflict=enum(DedupeConflict, f"{at}.on_conflict", found.on_conflict, DedupeConflict.RETURN_EXISTING),
    )


def enum(kind: type[E], field: str, value: int, default: D) -> E | D:
    """A known value of an enumeration, or what unset stands for."""
    if value == 0:
        return default
    try:
        return kind(value)  # type: ignore[call-arg]
    except ValueError:
        raise _unknown(field, value) from None


def check_enum(kind: Iterable[int], field: str, value: int) -> None:
    """Refuses a value that is none of the enumeration's."""
    if value not in kind:
        raise _unknown(field, value)


def _unknown(field: str, value: int) -> InvalidArgument:
    return InvalidArgument.field(field, f"unknown value {value}; this server may be older than its caller")


def created_job(spec: JobSpec, tenant: str, due_us: int, created_at: datetime) -> jobs_pb2.Job:
    """A job just created, without reading it back."""
    message = jobs_pb2.Job(
        name=job_name(spec.id),
        type=spec.type,
        queue=spec.queue,
        priority=spec.priority,
        payload=common_pb2.Payload(data=spec.payload.data, content_type=spec.payload.content_type),
        headers=spec.headers,
        labels=spec.labels,
        retry_policy=retry_message(spec.retry),
        timeouts=timeouts_message(spec.timeouts),
        effect_key=spec.effect_key or effect_key(tenant, spec.id, 0),
        concurrency_key=spec.concurrency_key,
        state=int(JobState.READY if due_us <= micros(created_at) else JobState.SCHEDULED),  # type: ignore[arg-type]
        create_time=timestamp(created_at),
        traceparent=spec.traceparent,
    )
    message.due_time.FromMicroseconds(due_us)
    if spec.run_time is not None:
        message.run_time.CopyFrom(timestamp(spec.run_time))
    return message


def job_message(job: Job, tenant: str, *, full: bool = True) -> jobs_pb2.Job:
    """A job as readers see it; `full` False: as in lists, without payload and result."""
    message = jobs_pb2.Job(
        name=job_name(job.id),
        type=job.type,
        queue=job.queue,
        priority=job.priority,
        headers=job.headers,
        labels=job.labels,
        retry_policy=retry_message(job.retry),
        timeouts=timeouts_message(job.timeouts),
        effect_key=job.effect_key or effect_key(tenant, job.id, job.generation, job.origin),
        concurrency_key=job.concurrency_key,
        state=int(job.state),  # type: ignore[arg-type]
        create_time=timestamp(job.created_at),
        attempt=job.attempt,
        attempts_counted=job.attempts_counted,
        generation=job.generation,
        completed_despite_cancel=job.completed_despite_cancel,
        reason=job.reason,
        traceparent=job.traceparent,
    )
    if job.held_for is None:
        message.due_time.CopyFrom(timestamp(job.due_at))
    else:
        message.reason = f"held until effects/{job.held_for}, which is in doubt, is decided"
    if job.origin is not None:
        message.schedule = f"schedules/{job.origin.schedule_id}"
        message.nominal_time.CopyFrom(timestamp(job.origin.nominal_at))
    if job.leased_at is not None:
        message.lease_time.CopyFrom(timestamp(job.leased_at))
    if job.finished_at is not None:
        message.finish_time.CopyFrom(timestamp(job.finished_at))
    if job.session_id is not None:
        message.session = session_name(job.session_id)
    if job.last_failure is not None:
        message.last_failure.CopyFrom(failure_message(job.last_failure))
    if full:
        message.payload.CopyFrom(common_pb2.Payload(data=job.payload.data, content_type=job.payload.content_type))
        if job.result is not None:
            message.result.CopyFrom(common_pb2.Payload(data=job.result.data, content_type=job.result.content_type))
    return message


def retry_message(retry: RetryPolicy) -> common_pb2.RetryPolicy:
    return common_pb2.RetryPolicy(
        max_attempts=retry.max_attempts,
        initial_backoff=duration(retry.initial_backoff_s),
        max_backoff=duration(retry.max_backoff_s),
        multiplier=retry.multiplier,
        non_retryable_types=retry.non_retryable_types,
    )


def timeouts_message(timeouts: Timeouts) -> common_pb2.Timeouts:
    message = common_pb2.Timeouts(run=duration(timeouts.run_s))
    if timeouts.start_by_s is not None:
        message.start_by.CopyFrom(duration(timeouts.start_by_s))
    if timeouts.total_s is not None:
        message.total.CopyFrom(duration(timeouts.total_s))
    return message


def failure_message(failure: Failure) -> common_pb2.Failure:
    return common_pb2.Failure(type=failure.type, message=failure.message, stack=failure.stack)


def attempt_message(attempt: Attempt) -> jobs_pb2.Attempt:
    message = jobs_pb2.Attempt(
        name=f"{job_name(attempt.job_id)}/attempts/{attempt.number}",
        number=attempt.number,
        fence=attempt.fence,
        session="" if attempt.session_id is None else session_name(attempt.session_id),
        worker=attempt.worker,
        lease_time=timestamp(attempt.leased_at),
        outcome=0 if attempt.outcome is None else int(attempt.outcome),  # type: ignore[arg-type]
        effect_state=int(attempt.effect_state),  # type: ignore[arg-type]
        effect_receipts=[
            common_pb2.EffectReceipt(effect_key=r.effect_key, reference=r.reference) for r in attempt.effect_receipts
        ],
    )
    if attempt.ended_at is not None:
        message.end_time.CopyFrom(timestamp(attempt.ended_at))
    if attempt.failure is not None:
        message.failure.CopyFrom(failure_message(attempt.failure))
    return message


class LeaseEncoder:
    """Grants as messages. What many leases have in common is encoded once and copied as bytes. A TTL of None is left
    unset."""

    def __init__(self, ttl_s: float | None, delivery_ttl_s: float | None) -> None:
        self._ttl = None if ttl_s is None else duration(ttl_s)
        self._delivery_ttl = None if delivery_ttl_s is None else duration(delivery_ttl_s)
        self._common = functools.lru_cache(maxsize=1_024)(self._encode_common)

    def add(self, leases: "RepeatedCompositeFieldContainer[worker_pb2.Lease]", grant: Grant) -> None:
        """Appends one to an answer."""
        self.fill(leases.add(), grant)

    def fill(self, message: worker_pb2.Lease, grant: Grant) -> None:
        """Makes an empty message that of a grant."""
        message.MergeFromString(
            self._common(
                grant.type,
                grant.queue,
                grant.priority,
                grant.max_attempts,
                grant.run_timeout_s,
                grant.content_type,
                grant.attempt,
                grant.attempts_counted,
            )
        )
        message.job = f"jobs/{grant.job_id}"
        message.fence = grant.fence
        message.payload.data = grant.payload
        message.effect_key = grant.effect_key
        _set_instant(message.due_time, grant.due_at)
        if grant.origin is not None:
            _set_instant(message.nominal_time, grant.origin.nominal_at)
            message.schedule = f"schedules/{grant.origin.schedule_id}"
        if grant.traceparent:
            message.traceparent = grant.traceparent
        if grant.tracestate:
            message.tracestate = grant.tracestate
        if grant.headers:
            message.headers.update(grant.headers)
        if grant.deadline_s is not None:
            message.deadline.CopyFrom(duration(max(grant.deadline_s, 0.0)))

    def _encode_common(
        self,
        type: str,
        queue: str,
        priority: int,
        max_attempts: int,
        run_timeout_s: float,
        content_type: str,
        attempt: int,
        attempts_counted: int,
    ) -> bytes:
        return worker_pb2.Lease(
            type=type,
            queue=queue,
            priority=priority,
            max_attempts=max_attempts,
            run_timeout=duration(run_timeout_s),
            payload=common_pb2.Payload(content_type=content_type),
            attempt=attempt,
            attempts_counted=attempts_counted,
            ttl=self._ttl,
            delivery_ttl=self._delivery_ttl,
        ).SerializeToString()


def directive_message(directive: Directive) -> worker_pb2.Directive:
    return worker_pb2.Directive(
        id=directive.id,
        kind=int(directive.kind),  # type: ignore[arg-type]
        job="" if directive.job is None else job_name(directive.job),
        fence=directive.fence or 0,
        reason=directive.reason,
    )


def inventory(message: worker_pb2.Inventory, seq: int = 0) -> Inventory:
    return Inventory(
        frozenset((job_id("inventory.leases.job", lease.job), Fence(lease.fence)) for lease in message.leases),
        dict(message.batches),
        seq,
    )


def result(message: AnyResult, identity: Identity, session: SessionId, spawned: tuple[JobSpec, ...]) -> Result:
    """A worker's outcome. Its texts are cleaned, not refused: a bad error text must not block what it explains."""
    kind = message.WhichOneof("outcome")
    problems = Problems()
    problems.text("request_id", message.request_id, limits.REQUEST_ID_BYTES_MAX)
    found = Result(
        identity.tenant_id,
        session,
        job_id("job", message.job),
        Fence(message.fence),
        Outcome.SUCCEEDED,
        request_id=message.request_id,
        traceparent=message.traceparent,
        spawned=spawned,
    )
    if message.fence <= 0:
        problems.add("fence", f"must be the lease's positive fence, found {message.fence}")
    if message.effect_receipts:
        found.effect_receipts = _receipts(problems, message)
    if kind == "succeeded":
        if message.succeeded.HasField("result"):
            found.payload = _result_payload(problems, message.succeeded.result)
    elif kind == "failed":
        _failed(problems, message.failed, found)
    elif kind == "released":
        found.outcome = Outcome.RELEASED
        if message.released.reason:
            found.failure = Failure("Released", clean(message.released.reason, limits.REASON_BYTES_MAX))
        found.retry_after_s = problems.span(
            "released.delay", seconds(message.released.delay), 0.0, limits.RELEASE_DELAY_MAX_S
        )
    elif kind == "cancelled":
        found.outcome = Outcome.CANCELLED
        found.failure = Failure("Cancelled", clean(message.cancelled.reason, limits.REASON_BYTES_MAX))
    else:
        problems.add("outcome", "must be one of succeeded, failed, released or cancelled")
    if spawned and found.outcome is not Outcome.SUCCEEDED:
        problems.add("spawned", "must be empty unless the outcome is succeeded")
    problems.raise_any()
    return found


def _result_payload(problems: Problems, payload: common_pb2.Payload) -> Payload:
    if len(payload.data) > limits.RESULT_BYTES_MAX:
        raise too_large("succeeded.result.data", "a result", len(payload.data), limits.RESULT_BYTES_MAX)
    problems.text("succeeded.result.content_type", payload.content_type, limits.CONTENT_TYPE_BYTES_MAX)
    return Payload(payload.data, payload.content_type)


def _failed(problems: Problems, failed: worker_pb2.Failed, found: Result) -> None:
    found.outcome = Outcome.FAILED
    found.failure = Failure(
        clean(failed.failure.type, limits.FAILURE_TYPE_BYTES_MAX),
        clean(failed.failure.message, limits.FAILURE_MESSAGE_BYTES_MAX),
        clean(failed.failure.stack, limits.FAILURE_STACK_BYTES_MAX),
    )
    found.retryable = failed.retryable if failed.HasField("retryable") else True
    # Longer waits are cut rather than refused, so that a target's odd Retry-After does not lose the outcome.
    found.retry_after_s = min(max(seconds(failed.retry_after), 0.0), limits.RETRY_AFTER_MAX_S)
    found.effect_state = enum(EffectState, "failed.effect_state", failed.effect_state, EffectState.UNSPECIFIED)


def _receipts(problems: Problems, message: AnyResult) -> tuple[EffectReceipt, ...]:
    if len(message.effect_receipts) > limits.EFFECT_RECEIPTS_MAX:
        problems.add("effect_receipts", f"must have at most {limits.EFFECT_RECEIPTS_MAX} entries")
        return ()
    for receipt in message.effect_receipts:
        problems.text("effect_receipts.effect_key", receipt.effect_key, limits.EFFECT_KEY_BYTES_MAX)
        problems.text("effect_receipts.reference", receipt.reference, limits.EFFECT_REFERENCE_BYTES_MAX)
    return tuple(EffectReceipt(r.effect_key, r.reference) for r in message.effect_receipts)


def session_message(session: Session, state: admin_pb2.SessionState, leases: int, free_slots: int) -> admin_pb2.Session:
    return admin_pb2.Session(
        name=session_name(session.id),
        worker=session.worker,
        sdk=session.sdk,
        build_id=session.build_id,
        queues=session.queues,
        types=session.types,
        slots=session.slots,
        free_slots=free_slots,
        labels=session.labels,
        state=state,
        open_time=timestamp(session.opened_at),
        last_beat_time=timestamp(session.last_beat_at),
        expire_time=timestamp(session.expires_at),
        leases=leases,
        coordinator=f"coordinators/{session.coordinator}",
        protocol_version=session.protocol_version,
        epoch=session.epoch,
    )
