"""Values on the command line: payloads, names, instants, spans, key=value pairs."""

import json
import re
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rota.config import parse_duration
from rota.domain.errors import InvalidArgument
from rota.domain.limits import PAYLOAD_BYTES_MAX

JSON_TYPE: Final = "application/json"
TEXT_TYPE: Final = "text/plain; charset=utf-8"

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}")


def duration(name: str, text: str | None) -> float | None:
    """Seconds of `5m` and the like; `name` is the option's."""
    if text is None:
        return None
    try:
        return parse_duration(text)
    except ValueError as error:
        raise InvalidArgument.field(name, str(error)) from None


def instant(name: str, text: str | None) -> datetime | None:
    """An instant in ISO 8601 that says its offset, in UTC."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument.field(
            name, f"expected an instant such as 2026-12-24T18:00:00Z, found {text[:40]!r}"
        ) from None
    if at.tzinfo is None:
        raise InvalidArgument.field(name, f"expected an offset from UTC, found none in {text!r}; add Z or +01:00")
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise InvalidArgument.field(name, f"expected an instant that UTC has too, found {text!r}") from None


def pairs(name: str, given: Iterable[str] | None) -> dict[str, str]:
    """A map from `key=value` texts."""
    found: dict[str, str] = {}
    for text in given or ():
        key, separator, value = utf8(name, text).partition("=")
        if not separator or not key:
            raise InvalidArgument.field(name, f"expected key=value, found {text!r}")
        if key in found:
            raise InvalidArgument.field(name, f"expected each key once, found {key!r} twice")
        found[key] = value
    return found


def job_id(text: str) -> str:
    """The name of a job, jobs/{uuid}, from that or a bare uuid."""
    bare = text.removeprefix("jobs/")
    if not _UUID.fullmatch(bare):
        raise InvalidArgument.field("JOB", f"expected jobs/<uuid> or a uuid, found {text[:80]!r}")
    return f"jobs/{bare}"


def utf8(name: str, text: str) -> str:
    """A text as it is; refused when its bytes on the command line were not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument.field(
            name, "expected UTF-8 text, found other bytes; send those as --data @file"
        ) from None
    return text


def payload(data: str | None, *, as_text: bool, content_type: str | None) -> tuple[bytes, str]:
    """Bytes and media type from --data: the value itself, `@file`, or `-` for standard input.

    JSON unless `as_text` or another `content_type` is given, and then checked, so that a slip of the quotes is found
    here and not in the handler.
    """
    if as_text and content_type is not None:
        raise InvalidArgument.field("--text", "expected --text or --content-type, found both; give one")
    if data is None:
        if as_text or content_type is not None:
            raise InvalidArgument.field("--data", "expected together with --text or --content-type, found none")
        return b"", ""
    body = _bytes(data)
    if len(body) > PAYLOAD_BYTES_MAX:
        raise InvalidArgument.field(
            "--data",
            f"expected at most {PAYLOAD_BYTES_MAX} bytes, found more; store the data elsewhere and send a reference",
            reason="PAYLOAD_TOO_LARGE",
            limit=str(PAYLOAD_BYTES_MAX),
        )
    if as_text:
        try:
            body.decode()
        except UnicodeDecodeError:
            raise InvalidArgument.field(
                "--data", "expected UTF-8 text, found other bytes; use --content-type application/octet-stream"
            ) from None
        return body, TEXT_TYPE
    if content_type is None or content_type == JSON_TYPE:
        _check_json(body)
    return body, content_type or JSON_TYPE


def _bytes(data: str) -> bytes:
    # One byte over the limit is enough to know.
    most = PAYLOAD_BYTES_MAX + 1
    if data == "-":
        return sys.stdin.buffer.read(most)
    if data.startswith("@"):
        try:
            with Path(data[1:]).open("rb") as file:
                return file.read(most)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InvalidArgument.field("--data", f"expected a readable file, found {data[1:]!r} ({reason})") from None
    return utf8("--data", data).encode()


def _check_json(body: bytes) -> None:
    try:
        json.loads(body.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        found = body[:60].decode("utf-8", "replace")
        raise InvalidArgument.field(
            "--data", f"expected JSON, found {found!r} ({error}); quote it for the shell, or send it with --text"
        ) from None


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")
