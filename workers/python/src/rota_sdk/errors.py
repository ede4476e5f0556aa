"""What can go wrong, as one tree.

    RotaError                      reason, message, details, code
    ├── InvalidArgument            violations: the fields and what to do about each
    ├── NotFound
    │   └── SessionGone            the session expired or was closed; its leases are lost
    ├── AlreadyExists
    ├── PermissionDenied
    ├── Unauthenticated
    ├── FailedPrecondition
    ├── Aborted
    │   ├── StaleFence             a newer grant of the job exists; final
    │   ├── OutcomeConflict        this fence already has another outcome; final
    │   └── NotLeaseOwner          the lease belongs to another session; final
    ├── ResourceExhausted          retry_after, unless it is a quota
    ├── Unavailable                retry_after; a write may or may not have happened
    │   └── ConnectionFailed       nobody answered at the address
    ├── DeadlineExceeded           also a TimeoutError; a write may or may not have happened
    ├── NotImplementedByServer
    └── Internal

Decide by class or by `reason`, one of the catalogue in rota/v1/errors.proto; messages are for people and may change.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

DETAILS_KEY: Final = "grpc-status-details-bin"
DOMAIN: Final = "rota"


@dataclass(frozen=True, slots=True)
class Violation:
    """One field that was refused, by its path in the request, and why."""

    field: str
    description: str


class RotaError(Exception):
    """A refusal or failure of Rota's.

    `reason` is stable and empty when nobody gave one; `details` are texts by name, for example the current fence.
    """

    def __init__(
        self,
        reason: str,
        message: str,
        details: Mapping[str, str] | None = None,
        code: grpc.StatusCode = grpc.StatusCode.UNKNOWN,
        *,
        retry_after: float | None = None,
        violations: Iterable[Violation] = (),
    ) -> None:
        super().__init__(reason, message)
        self.reason = reason
        self.message = message
        self.details = dict(details or {})
        self.code = code
        self.retry_after = retry_after
        self.violations = tuple(violations)

    def __str__(self) -> str:
        lines = [f"{self.reason or self.code.name}: {self.message}"]
        lines += [f"  {v.field}: {v.description}" for v in self.violations]
        return "\n".join(lines)


class InvalidArgument(RotaError):
    """The request is malformed; `violations` names the fields."""


class NotFound(RotaError):
    """No such resource in the caller's tenant."""


class SessionGone(NotFound):
    """The session expired, was closed or never was."""


class AlreadyExists(RotaError):
    """The id, dedupe key or request_id is taken."""


class PermissionDenied(RotaError):
    """The credential lacks the role."""


class Unauthenticated(RotaError):
    """No credential, or one that is unknown, revoked or expired."""


class FailedPrecondition(RotaError):
    """The resource's state forbids the call."""


class Aborted(RotaError):
    """Someone else was first."""


class StaleFence(Aborted):
    """The fence is not the newest of its job or effect. Final: drop the work."""


class OutcomeConflict(Aborted):
    """This fence already has another outcome."""


class NotLeaseOwner(Aborted):
    """The lease belongs to another session."""


class ResourceExhausted(RotaError):
    """A quota is used up, or, with `retry_after`, the caller is too fast."""


class Unavailable(RotaError):
    """The server cannot answer now. A write may or may not have happened: repeat it with the same request_id."""


class ConnectionFailed(Unavailable):
    """Nobody answered at the address."""


class DeadlineExceeded(RotaError, TimeoutError):
    """No answer in time. A write may or may not have happened: repeat it with the same request_id."""


class NotImplementedByServer(RotaError):
    """The call is part of the contract and not of the server's release."""


class Internal(RotaError):
    """A fault of the server's own."""


_BY_REASON: Final[Mapping[str, type[RotaError]]] = {
    "SESSION_GONE": SessionGone,
    "STALE_FENCE": StaleFence,
    "OUTCOME_CONFLICT": OutcomeConflict,
    "NOT_LEASE_OWNER": NotLeaseOwner,
}
_BY_CODE: Final[Mapping[grpc.StatusCode, type[RotaError]]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgument,
    grpc.StatusCode.OUT_OF_RANGE: InvalidArgument,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExists,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPrecondition,
    grpc.StatusCode.ABORTED: Aborted,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.UNIMPLEMENTED: NotImplementedByServer,
    grpc.StatusCode.INTERNAL: Internal,
    grpc.StatusCode.UNKNOWN: Internal,
    grpc.StatusCode.DATA_LOSS: Internal,
}
_CODES: Final[Mapping[int, grpc.StatusCode]] = {code.value[0]: code for code in grpc.StatusCode}

# A repetition may succeed; nothing is wrong with the request itself.
_TRANSIENT: Final = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.DATA_LOSS,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)


def transient(error: RotaError) -> bool:
    """Whether the same call, with the same request_id, is worth repeating."""
    return error.code in _TRANSIENT


def from_status(status: status_pb2.Status) -> RotaError:
    """The error that a google.rpc.Status describes. Unknown details are ignored."""
    code = _CODES.get(status.code, grpc.StatusCode.UNKNOWN)
    reason, details = "", {}
    retry_after: float | None = None
    violations: list[Violation] = []
    info = error_details_pb2.ErrorInfo()
    retry = error_details_pb2.RetryInfo()
    bad = error_details_pb2.BadRequest()
    for detail in status.details:
        try:
            if detail.Unpack(info):
                if info.domain == DOMAIN:
                    reason = info.reason
                details.update(info.metadata)
            elif detail.Unpack(retry):
                retry_after = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
            elif detail.Unpack(bad):
                violations += [Violation(v.field, v.description) for v in bad.field_violations]
        except DecodeError:
            continue
    kind = _BY_REASON.get(reason) or _BY_CODE.get(code, RotaError)
    return kind(reason, status.message, details, code, retry_after=retry_after, violations=violations)


def from_rpc(error: Any, address: str = "") -> RotaError:
    """The error of a failed call: a grpc.RpcError with the face of grpc.Call, or a grpc.aio.AioRpcError.

    UNAVAILABLE without a word of Rota's becomes ConnectionFailed, which names `address` and what to look at.
    """
    code: grpc.StatusCode = error.code()
    message: str = error.details() or ""
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS_KEY:
            try:
                status = status_pb2.Status.FromString(value)
            except DecodeError:
                break
            if status.code == code.value[0]:
                return from_status(status)
    if code is grpc.StatusCode.UNAVAILABLE:
        return ConnectionFailed(
            "",
            f"expected a Rota server at {address or 'the address'}, found none ({message}); "
            "check ROTA_ADDRESS, that the server runs, and whether it speaks TLS",
            code=code,
        )
    if code is grpc.StatusCode.UNAUTHENTICATED and not message:
        message = "expected an API key, found none or a bad one; set ROTA_API_KEY"
    return _BY_CODE.get(code, RotaError)("", message or code.name, code=code)
