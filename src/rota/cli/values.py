"""Values on the command line: payloads, names, instants, spans, key=value pairs."""

import json
import re
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from rota.clock import SystemClock
from rota.domain.duration import parse_duration
from rota.domain.errors import InvalidArgument
from rota.domain.limits import PAYLOAD_BYTES_MAX

JSON_TYPE: Final = "application/json"
TEXT_TYPE: Final = "text/plain; charset=utf-8"

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_SHORT_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
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


def after(name: str, now: datetime, delay_s: float) -> datetime:
    """The instant so long from now; `name` is the option's."""
    try:
        return now + timedelta(seconds=delay_s)
    except OverflowError:
        raise InvalidArgument.field(name, "expected at most ten years, found more") from None


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


def job_id(text: str, name: str = "JOB") -> str:
    """The name of a job, jobs/{uuid}, from that or a bare uuid."""
    bare = text.removeprefix("jobs/")
    if not _UUID.fullmatch(bare):
        raise InvalidArgument.field(name, f"expected jobs/<uuid> or a uuid, found {text[:80]!r}")
    return f"jobs/{bare}"


def effect_name(text: str) -> str:
    """effects/{uuid}, from that or the bare uuid."""
    bare = text.removeprefix("effects/")
    if not _UUID.fullmatch(bare):
        expected = f"expected effects/<uuid> or a uuid, found {text[:80]!r}; `rota effect list` shows them"
        raise InvalidArgument.field("EFFECT", expected)
    return f"effects/{bare}"


def letter_name(text: str) -> str:
    """deadLetters/{uuid}, from that, the name of the job, or the bare uuid."""
    bare = text.removeprefix("deadLetters/").removeprefix("jobs/")
    if not _UUID.fullmatch(bare):
        expected = "expected deadLetters/<uuid>, jobs/<uuid> or a uuid"
        raise InvalidArgument.field("LETTER", f"{expected}, found {text[:80]!r}; `rota dead list` shows them")
    return f"deadLetters/{bare}"


def redrive_name(text: str) -> str:
    """redrives/{uuid}, from that or the bare uuid."""
    bare = text.removeprefix("redrives/")
    if not _UUID.fullmatch(bare):
        expected = f"expected redrives/<uuid> or a uuid, found {text[:80]!r}; `rota redrive list` shows them"
        raise InvalidArgument.field("REDRIVE", expected)
    return f"redrives/{bare}"


def schedule_id(text: str, name: str = "SCHEDULE", remedy: str = "") -> str:
    """The id of a schedule, from that or schedules/{id}."""
    return _resource_id(text.removeprefix("schedules/"), name, text, remedy)


def schedule_name(text: str) -> str:
    """schedules/{id}, from that or the bare id."""
    return f"schedules/{schedule_id(text)}"


def calendar_id(text: str, name: str = "CALENDAR") -> str:
    """The id of a calendar, from that or calendars/{id}."""
    return _resource_id(text.removeprefix("calendars/"), name, text, "")


def calendar_name(text: str) -> str:
    """calendars/{id}, from that or the bare id."""
    return f"calendars/{calendar_id(text)}"


def queue_name(text: str) -> str:
    """queues/{id}, from that or the bare id."""
    return f"queues/{_short_id(text.removeprefix('queues/'), 'QUEUE', text)}"


def tenant_name(text: str) -> str:
    """tenants/{id}, from that or the bare id."""
    return f"tenants/{_short_id(text.removeprefix('tenants/'), 'TENANT', text)}"


def coordinator_name(name: str, text: str) -> str:
    """coordinators/{uuid}, from that or the bare uuid."""
    bare = text.removeprefix("coordinators/")
    if not _UUID.fullmatch(bare):
        raise InvalidArgument.field(name, f"expected coordinators/<uuid> or a uuid, found {text[:80]!r}")
    return f"coordinators/{bare}"


def backfill_name(text: str) -> str:
    """schedules/{schedule}/backfills/{id}, from that, or from schedule and id with / between."""
    schedule, _, backfill = text.removeprefix("schedules/").replace("/backfills/", "/").partition("/")
    for part in (schedule, backfill):
        if not _ID.fullmatch(part):
            expected = "expected schedules/<id>/backfills/<id>"
            raise InvalidArgument.field(
                "BACKFILL", f"{expected}, found {text[:80]!r}; `rota schedule backfills` shows them"
            )
    return f"schedules/{schedule}/backfills/{backfill}"


def request_id(text: str | None) -> str:
    """The given request id, or a fresh one: gRPC itself may repeat a call."""
    if text is None:
        return SystemClock().new_id()
    return utf8("--request-id", text)


def _short_id(id: str, name: str, text: str) -> str:
    if not _SHORT_ID.fullmatch(id):
        expected = "expected 1 to 64 letters, digits or ._-, the first a letter or digit"
        raise InvalidArgument.field(name, f"{expected}, found {text[:80]!r}")
    return id


def _resource_id(bare: str, name: str, text: str, remedy: str) -> str:
    if not _ID.fullmatch(bare):
        expected = "expected 1 to 128 letters, digits or ._-, the first a letter or digit"
        raise InvalidArgument.field(name, f"{expected}, found {text[:80]!r}{remedy}")
    return bare


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
    body = read_bytes("--data", data)
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


def read_bytes(name: str, data: str) -> bytes:
    """The text itself, the content of `@file`, or standard input (`-`); at most a byte more than a payload holds."""
    most = PAYLOAD_BYTES_MAX + 1
    if data == "-":
        return sys.stdin.buffer.read(most)
    if data.startswith("@"):
        try:
            with Path(data[1:]).open("rb") as file:
                return file.read(most)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InvalidArgument.field(name, f"expected a readable file, found {data[1:]!r} ({reason})") from None
    return utf8(name, data).encode()


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
