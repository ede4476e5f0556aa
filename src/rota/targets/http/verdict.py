"""What an answer means for the attempt: a result, or a failure that says whether it is retried, and when."""

import json
import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import quote

from rota_sdk import EffectState, Failed

from rota.domain.limits import RETRY_AFTER_MAX_S
from rota.domain.text import clean
from rota.targets.http.request import Request, contains
from rota.targets.http.url import Url
from rota.targets.http.wire import Answer

EXCERPT_BYTES_MAX: Final = 4 * 1024
HEADER_CHARS_MAX: Final = 256
LINE_CHARS_MAX: Final = 300
KEPT_HEADERS: Final = (
    "content-type",
    "date",
    "etag",
    "last-modified",
    "location",
    "retry-after",
    "server",
    "x-request-id",
    "request-id",
    "x-correlation-id",
    "traceresponse",
)

_UNREADABLE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_TEXTUAL: Final = re.compile(
    r"text/|application/([a-z0-9.+-]*\+)?(json|xml|yaml|javascript|x-www-form-urlencoded|problem)"
)
_CHARSET: Final = re.compile(r"charset=\"?([A-Za-z0-9_-]{1,40})", re.IGNORECASE)
_REFUSED: Final = frozenset(range(400, 500)) - {409}
"""By these a target says that it did nothing. 409 may come from an earlier attempt that did, or is about to."""

_DOWN: Final = frozenset({502, 503, 504})


class Secrets:
    """What must not come back: a target that echoes its request would bring a credential into the job's history."""

    def __init__(self, texts: Iterable[str]) -> None:
        forms = {form for text in texts if text for form in (text, json.dumps(text)[1:-1], quote(text, safe=""))}
        # The longest first, or a part of it would stay.
        self._forms = sorted(forms, key=len, reverse=True)

    def without(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, "[secret]")
        return text


def is_down(answer: Answer) -> bool:
    """Whether a gateway or the server itself says that nobody is there."""
    return answer.status in _DOWN


def result(answer: Answer, secrets: Secrets, duration_s: float) -> dict[str, Any]:
    """What is kept of a success."""
    body, cut = excerpt(answer, secrets)
    headers = {
        name: secrets.without(_UNREADABLE.sub("", answer.headers[name]))[:HEADER_CHARS_MAX]
        for name in KEPT_HEADERS
        if name in answer.headers
    }
    return {
        "status": answer.status,
        "headers": headers,
        "body": body,
        "truncated": cut,
        "duration_s": round(duration_s, 3),
    }


def failure(request: Request, url: Url, answer: Answer, secrets: Secrets, now: datetime) -> Failed:
    """What an answer outside of `success` is."""
    body, _ = excerpt(answer, secrets)
    line = next((line.strip() for line in body.splitlines() if line.strip()), "")
    if len(line) > LINE_CHARS_MAX:
        line = f"{line[: LINE_CHARS_MAX - 1]}…"
    words = f"{answer.status} {secrets.without(_UNREADABLE.sub('', answer.reason))[:60]}".rstrip()
    words = f"{words} of {request.method} {url.shown}"
    retried = contains(request.retry, answer.status)
    return Failed(
        f"{words}: {line}" if line else words,
        type=f"Http{answer.status}",
        stack=body,
        retryable=None if retried else False,
        after=retry_after_s(answer, now) if retried else None,
        effect=EffectState.NOT_APPLIED if answer.status in _REFUSED else EffectState.UNKNOWN,
    )


def retry_after_s(answer: Answer, now: datetime) -> float | None:
    """Of the Retry-After header, at most an hour; None: it says nothing."""
    text = answer.headers.get("retry-after", "").strip()
    if not text:
        return None
    if text.isascii() and text.isdigit():
        # More digits than any number of seconds has.
        return min(float(text[:12]), RETRY_AFTER_MAX_S)
    at = _date(text)
    if at is None:
        return None
    # By the clock of who says it, where that is known.
    since = _date(answer.headers.get("date", "")) or now
    span_s = (at - since).total_seconds()
    return min(max(span_s, 0.0), RETRY_AFTER_MAX_S) if math.isfinite(span_s) else None


def excerpt(answer: Answer, secrets: Secrets) -> tuple[str, bool]:
    """The beginning of a body that is text, and whether anything is missing."""
    kind = answer.headers.get("content-type", "").lower()
    if not answer.body:
        return "", answer.truncated
    if kind and not _TEXTUAL.match(kind):
        return "", True
    found = _CHARSET.search(kind)
    try:
        text = answer.body.decode(found[1] if found else "utf-8", "replace")
    except (LookupError, ValueError):
        text = answer.body.decode("utf-8", "replace")
    # Before the cut, or the beginning of a secret would stay.
    text = _UNREADABLE.sub("", secrets.without(text.replace("\r\n", "\n")))
    kept = clean(text, EXCERPT_BYTES_MAX)
    return kept, answer.truncated or len(kept) < len(text)


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
