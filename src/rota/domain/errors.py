"""The refusals of Rota: one tree, each leaf with a stable reason of rota.v1.ErrorReason.

    RotaError
    ├── InvalidArgument     VALIDATION_FAILED · NEVER_FIRES · PAYLOAD_TOO_LARGE · PAGE_TOKEN_INVALID
    ├── NotFound            RESOURCE_NOT_FOUND · SESSION_GONE
    ├── AlreadyExists       RESOURCE_EXISTS · REQUEST_ID_REUSED
    ├── Aborted             STALE_FENCE · OUTCOME_CONFLICT · NOT_LEASE_OWNER · ETAG_MISMATCH
    ├── PermissionDenied    PERMISSION_DENIED
    ├── Unauthenticated     UNAUTHENTICATED
    ├── FailedPrecondition  INVALID_STATE
    ├── ResourceExhausted   QUOTA_EXCEEDED · RATE_LIMITED
    ├── Unavailable         DRAINING · STORE_UNAVAILABLE · SHARD_MOVED
    │   └── OutcomeUnknown  STORE_UNAVAILABLE, and the write may have happened
    ├── Unimplemented       NOT_IMPLEMENTED
    └── Internal            INTERNAL

A message says what was expected, what was found, and what to do.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One malformed field: its path in the request, and what is wrong with it."""

    field: str
    description: str


class RotaError(Exception):
    """A refusal with a stable reason. `metadata` holds machine-readable texts, `retry_after_s` a hint in seconds."""

    default_reason: ClassVar[str] = "INTERNAL"

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        violations: tuple[FieldViolation, ...] = (),
        metadata: Mapping[str, str] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason or self.default_reason
        self.violations = violations
        self.metadata = dict(metadata or {})
        self.retry_after_s = retry_after_s


class InvalidArgument(RotaError):
    default_reason = "VALIDATION_FAILED"

    @classmethod
    def field(cls, path: str, description: str, *, reason: str | None = None, **metadata: str) -> "InvalidArgument":
        """The refusal of a single field."""
        return cls(
            f"{path}: {description}",
            reason=reason,
            violations=(FieldViolation(path, description),),
            metadata=metadata,
        )


class NotFound(RotaError):
    default_reason = "RESOURCE_NOT_FOUND"


class AlreadyExists(RotaError):
    default_reason = "RESOURCE_EXISTS"


class Aborted(RotaError):
    default_reason = "STALE_FENCE"


class PermissionDenied(RotaError):
    default_reason = "PERMISSION_DENIED"


class Unauthenticated(RotaError):
    default_reason = "UNAUTHENTICATED"


class FailedPrecondition(RotaError):
    default_reason = "INVALID_STATE"


class ResourceExhausted(RotaError):
    default_reason = "RATE_LIMITED"


class Unavailable(RotaError):
    default_reason = "STORE_UNAVAILABLE"


class OutcomeUnknown(Unavailable):
    """The store was lost in the middle of a write: it may have happened. Repeat it with the same request_id."""


class Unimplemented(RotaError):
    default_reason = "NOT_IMPLEMENTED"


class Internal(RotaError):
    default_reason = "INTERNAL"


def leaving(remedy: str = "another one answers") -> Unavailable:
    """The refusal of a coordinator that takes nothing new."""
    return Unavailable(f"this coordinator is leaving; {remedy}", reason="DRAINING", retry_after_s=0.5)


def stale_fence(job: str, sent: int, current: int | None, cause: str) -> Aborted:
    """The refusal of an outcome whose lease is no longer the job's.

    `cause` is EXPIRED, REASSIGNED, CANCELLED, RELEASED, COMPLETED or UNKNOWN_JOB.
    """
    metadata = {"cause": cause}
    if current is not None:
        metadata["fence"] = str(current)
    why = "unknown job: its history is over, or the name is wrong" if cause == "UNKNOWN_JOB" else None
    return Aborted(
        f"jobs/{job}: fence {sent} is stale ({why or cause.lower().replace('_', ' ')}); drop this outcome",
        reason="STALE_FENCE",
        metadata=metadata,
    )


def outcome_conflict(job: str, fence: int, stored: str) -> Aborted:
    """The refusal of a second, different outcome of one fence."""
    return Aborted(
        f"jobs/{job}: fence {fence} already ended as {stored}; drop this outcome",
        reason="OUTCOME_CONFLICT",
        metadata={"stored": stored},
    )


def not_lease_owner(job: str, fence: int) -> Aborted:
    """The refusal of an outcome from a session that never held the lease."""
    return Aborted(
        f"jobs/{job}: the lease with fence {fence} belongs to another session; report from the one that got it",
        reason="NOT_LEASE_OWNER",
    )


def session_gone(session: str) -> NotFound:
    """The refusal of a call of a session that is dead or never was."""
    return NotFound(
        f"sessions/{session}: expired, closed or unknown; open a new session, leases of the old one are lost",
        reason="SESSION_GONE",
    )


def job_not_found(job: str) -> NotFound:
    """No such job in the caller's tenant."""
    return NotFound(
        f"jobs/{job}: not found; it ended longer ago than its tenant's history is kept (14 days, unless set "
        "otherwise), or the name is wrong"
    )
