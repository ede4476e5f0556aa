"""Statuses become errors that say what to do."""

from typing import Any

import grpc
import pytest
from google.rpc import status_pb2
from rota_conformance.script_server import STALE_FENCE, Refusal
from rota_sdk import errors

C = grpc.StatusCode


class Failed:
    """The face of a failed call."""

    def __init__(self, refusal: Refusal, *, raw: bytes | None = None) -> None:
        self._refusal = refusal
        self._raw = refusal.status().SerializeToString() if raw is None else raw

    def code(self) -> grpc.StatusCode:
        return self._refusal.code

    def details(self) -> str:
        return self._refusal.message

    def trailing_metadata(self) -> Any:
        return (("x", "y"), ("grpc-status-details-bin", self._raw))


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (C.INVALID_ARGUMENT, "VALIDATION_FAILED", errors.InvalidArgument),
        (C.NOT_FOUND, "RESOURCE_NOT_FOUND", errors.NotFound),
        (C.NOT_FOUND, "SESSION_GONE", errors.SessionGone),
        (C.ALREADY_EXISTS, "REQUEST_ID_REUSED", errors.AlreadyExists),
        (C.PERMISSION_DENIED, "PERMISSION_DENIED", errors.PermissionDenied),
        (C.UNAUTHENTICATED, "UNAUTHENTICATED", errors.Unauthenticated),
        (C.FAILED_PRECONDITION, "INVALID_STATE", errors.FailedPrecondition),
        (C.ABORTED, "STALE_FENCE", errors.StaleFence),
        (C.ABORTED, "OUTCOME_CONFLICT", errors.OutcomeConflict),
        (C.ABORTED, "NOT_LEASE_OWNER", errors.NotLeaseOwner),
        (C.ABORTED, "ETAG_MISMATCH", errors.Aborted),
        (C.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED", errors.ResourceExhausted),
        (C.UNAVAILABLE, "DRAINING", errors.Unavailable),
        (C.UNIMPLEMENTED, "NOT_IMPLEMENTED", errors.NotImplementedByServer),
        (C.INTERNAL, "INTERNAL", errors.Internal),
        (C.UNKNOWN, "", errors.Internal),
        (C.DEADLINE_EXCEEDED, "", errors.DeadlineExceeded),
        (C.CANCELLED, "", errors.RotaError),
        (C.UNAVAILABLE, "A_NEW_REASON", errors.Unavailable),
    ],
)
def test_each_status_has_its_class(code: grpc.StatusCode, reason: str, kind: type) -> None:
    error = errors.from_rpc(Failed(Refusal(code, reason)))
    assert type(error) is kind
    assert (error.code, error.reason) == (code, reason)


def test_details_are_read() -> None:
    error = errors.from_rpc(Failed(STALE_FENCE))
    assert error.details == {"fence": "9", "cause": "EXPIRED"}
    limited = errors.from_rpc(Failed(Refusal(C.RESOURCE_EXHAUSTED, "RATE_LIMITED", retry_after=1.5)))
    assert limited.retry_after == 1.5
    bad = errors.from_rpc(
        Failed(Refusal(C.INVALID_ARGUMENT, "VALIDATION_FAILED", "bad", violations={"job.type": "set it"}))
    )
    assert bad.violations == (errors.Violation("job.type", "set it"),)
    assert str(bad) == "VALIDATION_FAILED: bad\n  job.type: set it"


def test_an_address_where_nobody_answers_is_named() -> None:
    refusal = Refusal(C.UNAVAILABLE, message="connection refused")
    error = errors.from_rpc(Failed(refusal, raw=b""), "host:7070")
    assert isinstance(error, errors.ConnectionFailed) and isinstance(error, errors.Unavailable)
    assert "host:7070" in str(error) and "ROTA_ADDRESS" in str(error) and "connection refused" in str(error)


@pytest.mark.parametrize("raw", [b"\xff\xff", status_pb2.Status(code=3).SerializeToString()], ids=["junk", "other"])
def test_damaged_details_do_not_hide_the_status(raw: bytes) -> None:
    error = errors.from_rpc(Failed(Refusal(C.ABORTED, message="words"), raw=raw))
    assert type(error) is errors.Aborted and error.message == "words"


def test_a_deadline_is_also_a_timeout() -> None:
    assert isinstance(errors.from_rpc(Failed(Refusal(C.DEADLINE_EXCEEDED))), TimeoutError)


def test_only_repetition_worthy_errors_are_transient() -> None:
    transient = {code for code in C if errors.transient(errors.from_rpc(Failed(Refusal(code, "X"))))}
    assert transient == {
        C.UNAVAILABLE,
        C.UNKNOWN,
        C.INTERNAL,
        C.DATA_LOSS,
        C.CANCELLED,
        C.DEADLINE_EXCEEDED,
        C.RESOURCE_EXHAUSTED,
    }
