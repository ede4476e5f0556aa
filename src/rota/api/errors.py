"""Refusals of the domain as gRPC statuses, and those as HTTP codes: one table."""

import logging
from collections.abc import Sequence
from typing import NoReturn

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import DecodeError
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc.aio import ServicerContext

from rota.domain import errors
from rota.domain.text import clean

log = logging.getLogger(__name__)

DOMAIN = "rota"
DETAILS_KEY = "grpc-status-details-bin"
MESSAGE_BYTES_MAX = 800
VIOLATIONS_BYTES_MAX = 2_400
"""Statuses travel in trailers, which clients refuse over 8 KiB; there a message of emoji is three times as long, and
the details, message included, a third longer."""

CODES: dict[type[errors.RotaError], grpc.StatusCode] = {
    errors.InvalidArgument: grpc.StatusCode.INVALID_ARGUMENT,
    errors.NotFound: grpc.StatusCode.NOT_FOUND,
    errors.AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
    errors.Aborted: grpc.StatusCode.ABORTED,
    errors.PermissionDenied: grpc.StatusCode.PERMISSION_DENIED,
    errors.Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    errors.FailedPrecondition: grpc.StatusCode.FAILED_PRECONDITION,
    errors.ResourceExhausted: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.Unavailable: grpc.StatusCode.UNAVAILABLE,
    errors.OutcomeUnknown: grpc.StatusCode.UNAVAILABLE,
    errors.Unimplemented: grpc.StatusCode.UNIMPLEMENTED,
    errors.Internal: grpc.StatusCode.INTERNAL,
}

HTTP_CODES: dict[int, int] = {
    code_pb2.CANCELLED: 499,
    code_pb2.UNKNOWN: 500,
    code_pb2.INVALID_ARGUMENT: 400,
    code_pb2.DEADLINE_EXCEEDED: 504,
    code_pb2.NOT_FOUND: 404,
    code_pb2.ALREADY_EXISTS: 409,
    code_pb2.PERMISSION_DENIED: 403,
    code_pb2.RESOURCE_EXHAUSTED: 429,
    code_pb2.FAILED_PRECONDITION: 400,
    code_pb2.ABORTED: 409,
    code_pb2.OUT_OF_RANGE: 400,
    code_pb2.UNIMPLEMENTED: 501,
    code_pb2.INTERNAL: 500,
    code_pb2.UNAVAILABLE: 503,
    code_pb2.DATA_LOSS: 500,
    code_pb2.UNAUTHENTICATED: 401,
}
HTTP_CODES_BY_REASON: dict[str, int] = {"PAYLOAD_TOO_LARGE": 413}
"""Where a reason has a code of its own. ETAG_MISMATCH is 412 where the etag came by If-Match."""


def status_of(error: errors.RotaError) -> status_pb2.Status:
    """The google.rpc.Status of a refusal, with its details."""
    code: int = CODES[type(error)].value[0]
    details = [_pack(error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=error.metadata))]
    if error.violations:
        details.append(_pack(_bad_request(error.violations)))
    if error.retry_after_s is not None:
        delay = duration_pb2.Duration()
        delay.FromMilliseconds(int(error.retry_after_s * 1000))
        details.append(_pack(error_details_pb2.RetryInfo(retry_delay=delay)))
    if isinstance(error, errors.FailedPrecondition):
        violation = error_details_pb2.PreconditionFailure.Violation(
            type=error.reason, description=clean(error.message, MESSAGE_BYTES_MAX)
        )
        details.append(_pack(error_details_pb2.PreconditionFailure(violations=[violation])))
    if isinstance(error, errors.AlreadyExists) and "holder" in error.metadata:
        details.append(_pack(error_details_pb2.ResourceInfo(resource_name=error.metadata["holder"])))
    return status_pb2.Status(code=code, message=clean(error.message, MESSAGE_BYTES_MAX), details=details)


def _bad_request(violations: Sequence[errors.FieldViolation]) -> error_details_pb2.BadRequest:
    """As many of the violations as clients can take, the first one always."""
    found = error_details_pb2.BadRequest()
    for violation in violations:
        found.field_violations.add(
            field=clean(violation.field, MESSAGE_BYTES_MAX), description=clean(violation.description, MESSAGE_BYTES_MAX)
        )
        if found.ByteSize() > VIOLATIONS_BYTES_MAX:
            del found.field_violations[-1]
            break
    return found


OK = status_pb2.Status(code=code_pb2.OK)


async def abort(context: "ServicerContext[object, object]", error: errors.RotaError) -> NoReturn:
    """Ends the call with a refusal."""
    status = status_of(error)
    await context.abort(CODES[type(error)], status.message, ((DETAILS_KEY, status.SerializeToString()),))


def as_refusal(error: Exception) -> errors.RotaError:
    """Any exception as a refusal; one that is not ours is logged, and told without its text."""
    if isinstance(error, errors.RotaError):
        return error
    if isinstance(error, DecodeError):
        return undecodable()
    log.error("a call failed by a fault of its own", exc_info=error)
    return errors.Internal(f"an internal fault ({type(error).__name__}); the coordinator's log has more")


def undecodable() -> errors.InvalidArgument:
    """The refusal of bytes that are no message, for example for a text that is not UTF-8."""
    return errors.InvalidArgument(
        "expected a message of the method's request type with every text in UTF-8, found other bytes; "
        "send what is no text in a payload's data"
    )


def _pack(message: object) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)  # type: ignore[arg-type]
    return packed
