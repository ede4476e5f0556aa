"""The values of the public face: frozen, in Python's own terms. Instants are aware and in UTC, spans are seconds."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any, Final, Self

from rota_sdk import limits

JSON_TYPE: Final = "application/json"
TEXT_TYPE: Final = "text/plain; charset=utf-8"
BYTES_TYPE: Final = "application/octet-stream"

_JSON: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))

# A span given by the caller: seconds, or a timedelta. Spans that come from Rota are seconds.
Span = float | timedelta


class _WireEnum(IntEnum):
    """Numbers as on the wire. A number of a newer server reads as UNSPECIFIED."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        return cls(0) if isinstance(value, int) and value else None


class JobState(_WireEnum):
    """Where a job is in its life."""

    UNSPECIFIED = 0
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
        """Nothing more happens by itself."""
        return self in _TERMINAL


_TERMINAL: Final = frozenset({JobState.SUCCEEDED, JobState.CANCELLED, JobState.EXPIRED, JobState.DEAD})


class AttemptOutcome(_WireEnum):
    """How an attempt ended; UNSPECIFIED: it runs still."""

    UNSPECIFIED = 0
    SUCCEEDED = 1
    FAILED = 2
    RELEASED = 3
    CANCELLED = 4
    LEASE_LOST = 5
    UNDELIVERED = 6
    TIMED_OUT = 7


class EffectState(_WireEnum):
    """What is known of an attempt's effect on the outside."""

    UNSPECIFIED = 0
    NOT_APPLIED = 1
    APPLIED = 2
    UNKNOWN = 3


class CancelMode(_WireEnum):
    """What a cancellation does to a leased job."""

    UNSPECIFIED = 0
    IF_NOT_STARTED = 1
    COOPERATIVE = 2
    FENCE_OUT = 3


class DedupeScope(_WireEnum):
    """Within what a dedupe key is unique; UNSPECIFIED is TYPE."""

    UNSPECIFIED = 0
    TYPE = 1
    QUEUE = 2
    TENANT = 3


class DedupeConflict(_WireEnum):
    """What creation does when the key is held; UNSPECIFIED is RETURN_EXISTING."""

    UNSPECIFIED = 0
    RETURN_EXISTING = 1
    FAIL = 2


@dataclass(frozen=True, slots=True)
class Payload:
    """Bytes that Rota keeps and delivers exactly as sent, and a media type that it never reads."""

    data: bytes = b""
    content_type: str = ""

    def text(self) -> str:
        """The data as UTF-8. Raises UnicodeDecodeError."""
        return self.data.decode()

    def json(self) -> Any:
        """The data as JSON; None when there is none. Raises ValueError."""
        return json.loads(self.data) if self.data else None

    @classmethod
    def of(cls, value: object) -> "Payload":
        """Bytes as they are, str as UTF-8 text, None as nothing, anything else as JSON.

        Raises TypeError or ValueError when the value has no such form: an object that JSON lacks, NaN, a lone
        surrogate.
        """
        if isinstance(value, Payload):
            return value
        if value is None:
            return EMPTY
        if isinstance(value, bytes | bytearray | memoryview):
            return cls(bytes(value), BYTES_TYPE)
        if isinstance(value, str):
            return cls(value.encode(), TEXT_TYPE)
        return cls(_JSON.encode(value).encode(), JSON_TYPE)


EMPTY: Final = Payload()


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """What follows a failure; what is None is the server's default (5 attempts, 1 s doubling up to 1 h)."""

    max_attempts: int | None = None
    initial_backoff: Span | None = None
    max_backoff: Span | None = None
    multiplier: float | None = None
    non_retryable_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Bounds of a job's life. None: no bound, except `run`, which is 1 h by default."""

    start_by: Span | None = None
    run: Span | None = None
    total: Span | None = None


@dataclass(frozen=True, slots=True)
class Dedupe:
    """At most one job for a key, for `window` after its creation, or, without one, until it is terminal."""

    key: str
    scope: DedupeScope = DedupeScope.UNSPECIFIED
    window: Span | None = None
    on_conflict: DedupeConflict = DedupeConflict.UNSPECIFIED


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to create. Due at `run_time` (aware), after `delay`, or at once; empty texts mean the server's default."""

    type: str
    payload: Any = None
    queue: str = ""
    priority: int | None = None
    run_time: datetime | None = None
    delay: Span | None = None
    retry: RetryPolicy | None = None
    timeouts: Timeouts | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    effect_key: str = ""
    concurrency_key: str = ""
    dedupe: Dedupe | None = None

    def __post_init__(self) -> None:
        if self.run_time is not None and self.delay is not None:
            raise ValueError("expected run_time or delay, found both; give one")
        if self.run_time is not None and self.run_time.tzinfo is None:
            raise ValueError("run_time: expected an aware datetime, found a naive one; add tzinfo, e.g. timezone.utc")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed."""

    type: str
    message: str
    stack: str = ""


@dataclass(frozen=True, slots=True)
class EffectReceipt:
    """A target's own name for an effect, for example a payment id."""

    effect_key: str
    reference: str


@dataclass(frozen=True, slots=True)
class Job:
    """One piece of work as it stood when the server answered. In lists without payload and result."""

    name: str
    type: str
    queue: str
    state: JobState
    priority: int
    payload: Payload
    headers: Mapping[str, str]
    labels: Mapping[str, str]
    retry: RetryPolicy
    timeouts: Timeouts
    effect_key: str
    concurrency_key: str
    attempt: int
    attempts_counted: int
    generation: int
    result: Payload | None
    last_failure: Failure | None
    session: str
    schedule: str
    reason: str
    traceparent: str
    completed_despite_cancel: bool
    run_time: datetime | None
    create_time: datetime | None
    due_time: datetime | None
    lease_time: datetime | None
    finish_time: datetime | None
    nominal_time: datetime | None
    # On creation: request_id or dedupe led to a job that was there already.
    existing: bool = False

    @property
    def id(self) -> str:
        """The name without its collection."""
        return self.name.removeprefix("jobs/")


@dataclass(frozen=True, slots=True)
class JobPage:
    """A page of jobs; the token is empty at the end."""

    jobs: tuple[Job, ...]
    next_page_token: str


@dataclass(frozen=True, slots=True)
class JobChange:
    """A job after a change, without payload and result, and the token to go on from behind it."""

    job: Job
    resume_token: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """One grant of a job to a session."""

    name: str
    number: int
    fence: int
    session: str
    worker: str
    outcome: AttemptOutcome
    failure: Failure | None
    effect_state: EffectState
    effect_receipts: tuple[EffectReceipt, ...]
    lease_time: datetime | None
    end_time: datetime | None


def seconds(span: Span) -> float:
    """A span in seconds."""
    return span.total_seconds() if isinstance(span, timedelta) else float(span)


def job_name(name_or_id: str) -> str:
    """jobs/{id}, from either form. Raises ValueError on an empty one."""
    if not name_or_id:
        raise ValueError("expected a job's name or id, found an empty text")
    return name_or_id if name_or_id.startswith("jobs/") else f"jobs/{name_or_id}"


def check_batch(count: int) -> None:
    """Raises ValueError unless one call can create so many jobs."""
    if not 1 <= count <= limits.BATCH_JOBS:
        raise ValueError(
            f"expected 1 to {limits.BATCH_JOBS} jobs, found {count}; a batch is atomic, so split it yourself"
        )
