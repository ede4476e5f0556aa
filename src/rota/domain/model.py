"""The nouns of Rota as values. Instants are aware UTC datetimes; spans are seconds (`_s`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntEnum, StrEnum

from rota.domain import limits
from rota.domain.ids import CoordinatorId, EffectId, Fence, JobId, ScheduleUid, SessionId, ShardNo, TenantId
from rota.domain.tenant import TenantSettings


class JobState(IntEnum):
    """Where a job is. READY is derived: SCHEDULED or RETRY_WAIT, and due."""

    SCHEDULED = 1
    READY = 2
    LEASED = 3
    RETRY_WAIT = 4
    CANCELLING = 5
    SUCCEEDED = 6
    CANCELLED = 7
    EXPIRED = 8
    DEAD = 9

    @property
    def terminal(self) -> bool:
        return self >= JobState.SUCCEEDED


class Outcome(IntEnum):
    """How an attempt ended."""

    SUCCEEDED = 1
    FAILED = 2
    RELEASED = 3
    CANCELLED = 4
    LEASE_LOST = 5
    UNDELIVERED = 6
    TIMED_OUT = 7


class DeadCause(IntEnum):
    """Why a job is dead."""

    ATTEMPTS_EXHAUSTED = 1
    NOT_RETRYABLE = 2
    TOTAL_TIMEOUT = 3


class EffectState(IntEnum):
    """What is known of an attempt's effect."""

    UNSPECIFIED = 0
    NOT_APPLIED = 1
    APPLIED = 2
    UNKNOWN = 3


class CancelMode(IntEnum):
    IF_NOT_STARTED = 1
    COOPERATIVE = 2
    FENCE_OUT = 3


class DedupeScope(IntEnum):
    TYPE = 1
    QUEUE = 2
    TENANT = 3


class DedupeConflict(IntEnum):
    RETURN_EXISTING = 1
    FAIL = 2


class DirectiveKind(IntEnum):
    CANCEL = 1
    LOST = 2
    DRAIN = 3
    RECONNECT = 4
    SLOW_DOWN = 5
    RESYNC = 6


class SessionState(IntEnum):
    ACTIVE = 1
    DRAINING = 2
    CLOSED = 3


class Role(StrEnum):
    """What a credential may do. An operator may do what a client may."""

    CLIENT = "client"
    WORKER = "worker"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who calls: the tenant of the credential, and its roles."""

    tenant_id: TenantId
    tenant: str
    key_id: str
    roles: frozenset[Role]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    max_attempts: int = limits.MAX_ATTEMPTS_DEFAULT
    initial_backoff_s: float = limits.BACKOFF_INITIAL_DEFAULT_S
    max_backoff_s: float = limits.BACKOFF_MAX_DEFAULT_S
    multiplier: float = limits.BACKOFF_MULTIPLIER_DEFAULT
    non_retryable_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Bounds of a job's life, in seconds; None: no bound."""

    start_by_s: float | None = None
    run_s: float = limits.RUN_TIMEOUT_DEFAULT_S
    total_s: float | None = None


@dataclass(frozen=True, slots=True)
class Payload:
    data: bytes = b""
    content_type: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    type: str
    message: str = ""
    stack: str = ""


@dataclass(frozen=True, slots=True)
class EffectReceipt:
    effect_key: str
    reference: str = ""


@dataclass(frozen=True, slots=True)
class Dedupe:
    """At most one job for a key. `window_s` None: while the job lives."""

    key: str
    scope: DedupeScope
    window_s: float | None
    on_conflict: DedupeConflict


@dataclass(slots=True)
class JobSpec:
    """A wish for a job, not yet stored. Due at `run_time`, else `delay_s` after the database's now.

    Like the other hot values not frozen, only because building a frozen one costs several times more.
    """

    tenant_id: TenantId
    id: JobId
    shard: ShardNo
    type: str
    queue: str
    priority: int
    payload: Payload
    run_time: datetime | None = None
    delay_s: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    retry: RetryPolicy = RetryPolicy()
    timeouts: Timeouts = Timeouts()
    effect_key: str = ""
    concurrency_key: str = ""
    dedupe: Dedupe | None = None
    traceparent: str = ""
    tracestate: str = ""


@dataclass(frozen=True, slots=True)
class JobOrigin:
    """The occurrence that a job was made for: `generation` tells apart those of one nominal instant."""

    schedule_uid: ScheduleUid
    schedule_id: str
    nominal_at: datetime
    generation: int


def effect_key(tenant_name: str, job: JobId, generation: int, origin: JobOrigin | None = None) -> str:
    """The default effect key of a job: equal in all attempts, other in each generation."""
    if origin is None:
        return f"{tenant_name}/{job}/{generation}"
    nominal = origin.nominal_at.astimezone(UTC).replace(tzinfo=None).isoformat()
    key = f"{tenant_name}/{origin.schedule_uid}/{nominal}Z/{origin.generation}"
    # Told apart from a later occurrence of the same instant, which has a number of its own.
    return f"{key}.{generation}" if generation else key


@dataclass(frozen=True, slots=True)
class Job:
    """A job as readers see it, from whichever table holds it."""

    tenant_id: TenantId
    id: JobId
    state: JobState
    type: str
    queue: str
    priority: int
    payload: Payload
    headers: Mapping[str, str]
    labels: Mapping[str, str]
    retry: RetryPolicy
    timeouts: Timeouts
    effect_key: str
    concurrency_key: str
    created_at: datetime
    due_at: datetime
    leased_at: datetime | None
    finished_at: datetime | None
    attempt: int
    attempts_counted: int
    generation: int
    session_id: SessionId | None
    result: Payload | None
    last_failure: Failure | None
    completed_despite_cancel: bool
    reason: str
    traceparent: str
    origin: JobOrigin | None = None
    held_for: EffectId | None = None
    """The effect in doubt that it waits for now."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One grant of a job; `outcome` None while it runs."""

    job_id: JobId
    number: int
    fence: Fence
    session_id: SessionId | None
    worker: str
    leased_at: datetime
    ended_at: datetime | None
    outcome: Outcome | None
    failure: Failure | None
    effect_state: EffectState
    effect_receipts: tuple[EffectReceipt, ...] = ()


@dataclass(frozen=True, slots=True)
class LiveJob:
    """What deciding about a live job needs, read from its row. `session_alive`: not closed."""

    tenant_id: TenantId
    id: JobId
    shard: ShardNo
    state: JobState
    type: str
    queue: str
    priority: int
    fence: Fence
    session_id: SessionId | None
    session_alive: bool
    attempt: int
    attempts_counted: int
    retry: RetryPolicy
    due_at: datetime
    leased_at: datetime | None
    deadline_at: datetime | None
    size: int
    """What a lease of it weighs in an answer, in bytes."""
    traceparent: str
    start_by: float | None
    """Seconds since 1970, while it counts: until an attempt has counted."""
    concurrency_key: str = ""
    attempts_before: int = 0
    """Those of `attempt` that belong to lives before this one, which ended in death."""
    held_for: EffectId | None = None
    """The effect in doubt that it is held for, from the end of its attempt on."""


@dataclass(slots=True)
class Result:
    """A worker's word on how an attempt ended."""

    tenant_id: TenantId
    session_id: SessionId
    job_id: JobId
    fence: Fence
    outcome: Outcome
    request_id: str = ""
    payload: Payload | None = None
    failure: Failure | None = None
    retryable: bool = True
    retry_after_s: float = 0.0
    effect_state: EffectState = EffectState.UNSPECIFIED
    effect_receipts: tuple[EffectReceipt, ...] = ()
    spawned: tuple[JobSpec, ...] = ()
    traceparent: str = ""


@dataclass(frozen=True, slots=True)
class Settlement:
    """What became of a Result: the job's state after it, and whether it had been accepted before."""

    state: JobState
    duplicate: bool = False
    requeued_at: datetime | None = None


@dataclass(slots=True)
class Grant:
    """A committed claim: all that a worker is told."""

    tenant_id: TenantId
    job_id: JobId
    shard: ShardNo
    fence: Fence
    session_id: SessionId
    attempt: int
    attempts_counted: int
    max_attempts: int
    type: str
    queue: str
    priority: int
    payload: bytes
    content_type: str
    headers: Mapping[str, str] | None
    effect_key: str
    generation: int
    run_timeout_s: float
    deadline_s: float | None
    due_at: datetime
    traceparent: str
    tracestate: str
    origin: JobOrigin | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """One running worker process."""

    id: SessionId
    tenant_id: TenantId
    epoch: int
    worker: str
    sdk: str
    build_id: str
    queues: tuple[str, ...]
    types: tuple[str, ...]
    slots: int
    labels: Mapping[str, str]
    protocol_version: int
    state: SessionState
    opened_at: datetime
    last_beat_at: datetime
    expires_at: datetime
    free_slots: int
    coordinator: str


@dataclass(frozen=True, slots=True)
class ShardTerm:
    """The right of one coordinator to act for a shard, until the next epoch."""

    shard: ShardNo
    epoch: int
    owner: CoordinatorId


@dataclass(frozen=True, slots=True)
class Tenant:
    id: TenantId
    name: str
    created_at: datetime
    settings: TenantSettings = field(default_factory=TenantSettings)
    version: int = 1

    @property
    def etag(self) -> str:
        return f"v{self.version}"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A credential without its secret."""

    id: str
    tenant_id: TenantId
    tenant: str
    label: str
    roles: frozenset[Role]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
