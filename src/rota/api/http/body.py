"""The body of a request: of the right kind, within bounds, and unpacked."""

import asyncio
import zlib
from typing import Final

from starlette.requests import Request

from rota.api.http.errors import JSON, HttpRefusal, malformed, too_large
from rota.domain.errors import InvalidArgument

BODY_BYTES_MAX: Final = 6 * 1024 * 1024
"""As sent and unpacked: what gRPC takes, with its payloads in base64."""

BODY_S_MAX: Final = 30.0
_GZIP: Final = 16 + zlib.MAX_WBITS


async def read(request: Request) -> bytes:
    """The JSON of a body; empty where there is none. Raises HttpRefusal, or starlette's ClientDisconnect."""
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdecimal() and int(length) > BODY_BYTES_MAX:
        raise too_large("body", BODY_BYTES_MAX)
    try:
        async with asyncio.timeout(BODY_S_MAX):
            sent = await _all(request)
    except TimeoutError:
        raise malformed(408, f"body: expected within {BODY_S_MAX:g} s, found only a part of it") from None
    if not sent:
        return b""
    check_type(request)
    return _unpacked(sent, request.headers.get("content-encoding", "identity").strip().lower())


def check_type(request: Request) -> None:
    """Refuses a body that does not call itself JSON in UTF-8."""
    given = request.headers.get("content-type", "")
    kind, _, parameters = given.partition(";")
    charset = parameters.strip().lower().replace('"', "")
    if kind.strip().lower() == JSON and charset in ("", "charset=utf-8"):
        return
    found = f"found {given[:80]!r}" if given else "found none"
    raise malformed(415, f"expected the header Content-Type: {JSON}, in UTF-8, {found}")


def refuse_any(request: Request) -> None:
    """Of a call that takes no body."""
    if request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers:
        raise HttpRefusal(400, InvalidArgument(f"body: expected none with {request.method}, found one; leave it out"))


async def _all(request: Request) -> bytes:
    parts = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > BODY_BYTES_MAX:
            raise too_large("body", BODY_BYTES_MAX)
        parts.append(part)
    return b"".join(parts)


def _unpacked(sent: bytes, encoding: str) -> bytes:
    if encoding in ("", "identity"):
        return sent
    if encoding != "gzip":
        text = "expected Content-Encoding gzip or none, found another one"
        raise malformed(415, text, **{"Accept-Encoding": "gzip, identity"})
    unpack = zlib.decompressobj(_GZIP)
    try:
        # Unpacks no more than may be, whatever it says it would be.
        found = unpack.decompress(sent, BODY_BYTES_MAX + 1)
    except zlib.error as error:
        raise malformed(400, f"body: expected gzip, found otherwise ({error})") from None
    if len(found) > BODY_BYTES_MAX:
        raise too_large("body", BODY_BYTES_MAX)
    if not unpack.eof or unpack.unused_data:
        raise malformed(400, "body: expected one whole gzip stream, found a part of one, or more behind it")
    return found
