"""Refusals as HTTP answers: the google.rpc.Status as JSON, under the code that the contract names."""

import math
from typing import Any, Final

from google.protobuf import json_format
from google.rpc import code_pb2, error_details_pb2, status_pb2
from starlette.responses import Response

from rota.api.errors import HTTP_CODES, HTTP_CODES_BY_REASON, status_of
from rota.api.http import strictjson
from rota.domain.errors import InvalidArgument, NotFound, RotaError

JSON: Final = "application/json"


class HttpRefusal(Exception):
    """A refusal for which HTTP has a code of its own."""

    def __init__(self, code: int, error: RotaError, headers: dict[str, str] | None = None) -> None:
        super().__init__(error.message)
        self.code = code
        self.error = error
        self.headers = headers or {}


def no_such_path(message: str) -> HttpRefusal:
    return HttpRefusal(404, NotFound(message))


def malformed(code: int, message: str, **headers: str) -> HttpRefusal:
    return HttpRefusal(code, InvalidArgument(message), headers)


def too_large(what: str, limit: int) -> HttpRefusal:
    error = InvalidArgument(
        f"{what}: expected at most {limit} bytes, found more; send less, or a reference to it",
        reason="PAYLOAD_TOO_LARGE",
        metadata={"field": what, "limit": str(limit)},
    )
    return HttpRefusal(413, error)


def refusal_answer(refusal: HttpRefusal) -> Response:
    return answer(status_of(refusal.error), refusal.code, refusal.headers)


def answer(status: status_pb2.Status, code: int | None = None, headers: dict[str, str] | None = None) -> Response:
    """`code`: another one than the status has by itself."""
    found = code or http_code(status)
    return Response(body(status, found), found, headers={**headers_of(status), **(headers or {})}, media_type=JSON)


def body(status: status_pb2.Status, code: int) -> bytes:
    return strictjson.encode({"error": described(status, code)})


def described(status: status_pb2.Status, code: int) -> dict[str, Any]:
    details = [json_format.MessageToDict(detail) for detail in status.details]
    return {"code": code, "status": code_pb2.Code.Name(status.code), "message": status.message, "details": details}


def http_code(status: status_pb2.Status, *, by_if_match: bool = False) -> int:
    """`by_if_match`: the etag came by that header."""
    reason = reason_of(status)
    if reason == "ETAG_MISMATCH" and by_if_match:
        return 412
    return HTTP_CODES_BY_REASON.get(reason) or HTTP_CODES.get(status.code, 500)


def reason_of(status: status_pb2.Status) -> str:
    info = error_details_pb2.ErrorInfo()
    return next((info.reason for detail in status.details if detail.Unpack(info)), "")


def headers_of(status: status_pb2.Status) -> dict[str, str]:
    headers = {}
    retry = error_details_pb2.RetryInfo()
    for detail in status.details:
        if detail.Unpack(retry):
            headers["Retry-After"] = str(math.ceil(retry.retry_delay.ToTimedelta().total_seconds()))
    if status.code == code_pb2.UNAUTHENTICATED:
        headers["WWW-Authenticate"] = "Bearer"
    return headers
