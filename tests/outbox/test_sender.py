"""What Rota's errors mean for the rows that met them."""

import grpc
import pytest
from google.protobuf.any_pb2 import Any
from google.rpc import error_details_pb2, status_pb2
from rota_sdk.errors import RotaError, from_status
from rota_sdk.gen.rota.v1 import errors_pb2

from rota.domain.errors import FailedPrecondition
from rota.outbox.sender import Fate, read
from rota.outbox.wish import Parcel, Wish


def parcel(*, batch: bool = False, attempts: int = 1, request_id: str | None = None) -> Parcel:
    wish = Wish(1, "id", request_id, None, "t", "q", b"", "", None, {}, 0, attempts, False)
    return Parcel((wish, wish) if batch else (wish,), batch)


def error(code: grpc.StatusCode, reason: str = "") -> RotaError:
    status = status_pb2.Status(code=code.value[0], message="words")
    if reason:
        assert errors_pb2.ErrorReason.Value(f"ERROR_REASON_{reason}")
        packed = Any()
        packed.Pack(error_details_pb2.ErrorInfo(domain="rota", reason=reason))
        status.details.append(packed)
    return from_status(status)


CODE = grpc.StatusCode


@pytest.mark.parametrize(
    ("refusal", "about", "fate", "reason"),
    [
        (error(CODE.INVALID_ARGUMENT, "VALIDATION_FAILED"), parcel(), Fate.REFUSED, "VALIDATION_FAILED"),
        (error(CODE.ALREADY_EXISTS, "RESOURCE_EXISTS"), parcel(attempts=9), Fate.REFUSED, "RESOURCE_EXISTS"),
        (error(CODE.INVALID_ARGUMENT, "VALIDATION_FAILED"), parcel(batch=True), Fate.DISSOLVE, "VALIDATION_FAILED"),
        # An earlier call may have been taken by a coordinator of another version.
        (error(CODE.INVALID_ARGUMENT, "VALIDATION_FAILED"), parcel(batch=True, attempts=2), Fate.REFUSED, "IN_DOUBT"),
        # It is there already; nobody else can have used the row's own id.
        (error(CODE.ALREADY_EXISTS, "REQUEST_ID_REUSED"), parcel(attempts=2), Fate.CREATED, "REQUEST_ID_REUSED"),
        (error(CODE.ALREADY_EXISTS, "REQUEST_ID_REUSED"), parcel(request_id="r"), Fate.REFUSED, "REQUEST_ID_REUSED"),
        (error(CODE.RESOURCE_EXHAUSTED, "RATE_LIMITED"), parcel(), Fate.BUSY, "RATE_LIMITED"),
        (error(CODE.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED"), parcel(), Fate.BUSY, "QUOTA_EXCEEDED"),
        (error(CODE.UNAVAILABLE, "STORE_UNAVAILABLE"), parcel(), Fate.DOWN, "STORE_UNAVAILABLE"),
        (error(CODE.UNAVAILABLE), parcel(batch=True), Fate.DOWN, ""),
        (error(CODE.DEADLINE_EXCEEDED), parcel(), Fate.DOWN, ""),
        (error(CODE.INTERNAL, "INTERNAL"), parcel(), Fate.FAULT, "INTERNAL"),
        # Something between refuses, which knows nothing of the row.
        (error(CODE.INVALID_ARGUMENT), parcel(), Fate.FAULT, "INVALID_ARGUMENT"),
        (error(CODE.NOT_FOUND), parcel(batch=True), Fate.FAULT, "NOT_FOUND"),
    ],
)
def test_an_error_decides_the_fate_of_its_rows(refusal: RotaError, about: Parcel, fate: Fate, reason: str) -> None:
    answer = read(refusal, about)
    assert (answer.fate, answer.reason) == (fate, reason)


@pytest.mark.parametrize(
    "refusal",
    [
        error(CODE.UNAUTHENTICATED, "UNAUTHENTICATED"),
        error(CODE.PERMISSION_DENIED, "PERMISSION_DENIED"),
        error(CODE.UNIMPLEMENTED),
    ],
)
def test_what_is_no_rows_fault_is_raised(refusal: RotaError) -> None:
    with pytest.raises(FailedPrecondition):
        read(refusal, parcel())
