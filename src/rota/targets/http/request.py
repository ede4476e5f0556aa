"""What a job of type `rota.http` calls: its payload, read and checked.

    {"url": "https://api.example.com/invoices/{{occurrence.time}}",
     "method": "POST",                    default GET, with a body POST
     "headers": {"Name": "value"},
     "body": "a text, or a JSON value",   or "body_base64": "AAEC"
     "auth": "billing",                   a credential that the runner has
     "timeout": 30, "connect_timeout": 10,
     "success": ["200-299"], "retry": [408, 409, 425, 429, "500-599"],
     "redirects": 0,
     "in_doubt": "redo",                  or ask, assume-done: what follows a call whose end nobody knows
     "idempotency_window": "24h",         how long the target remembers an Idempotency-Key
     "template": true}

409 is retried, since a target that honours idempotency keys answers so while an earlier call with the key goes on.
"""

import json
import math
import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from rota.domain.duration import parse_duration
from rota.domain.errors import InvalidArgument
from rota.domain.limits import PAYLOAD_BYTES_MAX
from rota.domain.text import Problems, shown
from rota.domain.wording import json_kind, suggestion
from rota.targets.document import read_object
from rota.targets.http import template
from rota.targets.http.url import Url, parse_url

JOB_TYPE: Final = "rota.http"
QUEUE_DEFAULT: Final = "http"
CONTENT_TYPE: Final = "application/json"

TIMEOUT_DEFAULT_S: Final = 30.0
TIMEOUT_MIN_S: Final = 0.1
TIMEOUT_MAX_S: Final = 3_600.0
CONNECT_TIMEOUT_DEFAULT_S: Final = 10.0
HEADERS_MAX: Final = 64
HEADERS_BYTES_MAX: Final = 16 * 1024
REDIRECTS_MAX: Final = 10
WINDOW_MAX_S: Final = 3_660 * 86_400.0

KEYS: Final = (
    "url",
    "method",
    "headers",
    "body",
    "body_base64",
    "auth",
    "timeout",
    "connect_timeout",
    "success",
    "retry",
    "redirects",
    "in_doubt",
    "idempotency_window",
    "template",
)
IN_DOUBT: Final = ("redo", "ask", "assume-done")
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

OWN_HEADERS: Final = frozenset(
    {"idempotency-key", "rota-fence", "rota-job", "rota-attempt", "rota-signature", "traceparent", "tracestate"}
)
"""Said by the runner of each attempt."""

CONNECTION_HEADERS: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect"}
    | {"http2-settings"}
)
_EXAMPLE: Final = '{"method": "POST", "url": "https://api.example.com/", "body": {"id": 7}}'
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_RANGE: Final = re.compile(r"([1-5])xx|([1-5][0-9]{2})(?:-([1-5][0-9]{2}))?")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

Codes = tuple[tuple[int, int], ...]
"""Ranges of status codes, both ends included."""

SUCCESS_DEFAULT: Final[Codes] = ((200, 299),)
RETRY_DEFAULT: Final[Codes] = ((408, 409), (425, 425), (429, 429), (500, 599))


@dataclass(frozen=True, slots=True)
class Request:
    """A call as it was asked for, with its holes."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    """Bytes as they are, a text, or a JSON value; None: none."""
    auth: str = ""
    timeout_s: float = TIMEOUT_DEFAULT_S
    connect_timeout_s: float = CONNECT_TIMEOUT_DEFAULT_S
    success: Codes = SUCCESS_DEFAULT
    retry: Codes = RETRY_DEFAULT
    redirects: int = 0
    in_doubt: str = ""
    """Empty: the target's own business, by the Idempotency-Key."""
    window_s: float | None = None
    template: bool = True

    @property
    def of_schedule(self) -> set[str]:
        """The holes that a job has no value for when it comes from no schedule."""
        texts = [self.url, *self.headers.values(), *_texts(self.body)] if self.template else []
        return {name for text in texts for name in template.holes(text)} & template.OF_SCHEDULES


@dataclass(frozen=True, slots=True)
class Call:
    """A request of one attempt, ready to be sent. Names of headers are lower case."""

    method: str
    url: Url
    headers: tuple[tuple[str, str], ...]
    body: bytes


def parse_request(data: bytes) -> Request:
    """Reads a payload. Raises InvalidArgument, with a violation for each field that is wrong."""
    given = read_object(data, "a call", _EXAMPLE)
    problems = Problems()
    for key in given:
        if key not in KEYS:
            problems.add(key[:80], f"no such key; {suggestion(key, KEYS)}")
    with_holes = _flag(given, "template", problems, default=True)
    body = _body(given, problems)
    request = Request(
        _method(given, body, problems),
        _url(given, with_holes, problems),
        _headers(given, problems),
        body,
        _auth(given, problems),
        _span(given, "timeout", TIMEOUT_DEFAULT_S, TIMEOUT_MIN_S, TIMEOUT_MAX_S, problems),
        _span(given, "connect_timeout", CONNECT_TIMEOUT_DEFAULT_S, TIMEOUT_MIN_S, TIMEOUT_MAX_S, problems),
        _codes(given, "success", SUCCESS_DEFAULT, problems),
        _codes(given, "retry", RETRY_DEFAULT, problems),
        _redirects(given, problems),
        _in_doubt(given, problems),
        _span(given, "idempotency_window", 0.0, 1.0, WINDOW_MAX_S, problems) or None,
        with_holes,
    )
    if with_holes:
        template.check("url", request.url, problems)
        for name, value in request.headers.items():
            template.check(f"headers[{name[:40]!r}]", value, problems)
        for text in _texts(body):
            template.check("body", text, problems)
    problems.raise_any()
    return request


def render(request: Request, values: Mapping[str, str]) -> Call:
    """The call of an attempt of which `values` are known. Raises InvalidArgument, also where a hole has no value."""

    def filled(at: str, text: str, escape: Callable[[str], str] = str) -> str:
        if not request.template:
            return text
        try:
            return template.fill(text, values, escape)
        except template.NoValue as error:
            raise InvalidArgument.field(at, f"{error}; leave it out, or let a schedule make the job") from None

    url = parse_url(filled("url", request.url, lambda value: quote(value, safe="")))
    headers: dict[str, str] = {}
    for name, text in request.headers.items():
        value = filled(f"headers[{name[:40]!r}]", text)
        if _CONTROL.search(value):
            raise InvalidArgument.field(
                f"headers[{name[:40]!r}]", "expected no line breaks in what fills it, found some"
            )
        headers[name.lower()] = value.strip(" \t")
    body = request.body
    if isinstance(body, str):
        escape = _json_inner if "json" in headers.get("content-type", "").lower() else str
        data = filled("body", body, escape).encode()
        headers.setdefault("content-type", "text/plain; charset=utf-8")
    elif isinstance(body, bytes):
        data = body
        headers.setdefault("content-type", "application/octet-stream")
    elif body is None:
        data = b""
    else:
        data = _json(_filled_json(body, lambda text: filled("body", text)))
        headers.setdefault("content-type", "application/json")
    return Call(request.method, url, tuple(headers.items()), data)


def contains(codes: Codes, status: int) -> bool:
    return any(low <= status <= high for low, high in codes)


def _method(given: Mapping[str, Any], body: Any, problems: Problems) -> str:
    if "method" not in given:
        return "GET" if body is None else "POST"
    method = given["method"]
    if not isinstance(method, str) or method.upper() not in METHODS:
        found = shown(method, 20) if isinstance(method, str) else json_kind(method)
        problems.add("method", f"expected one of {', '.join(METHODS)}, found {found}; correct it")
        return "GET"
    method = method.upper()
    if body is not None and method == "HEAD":
        problems.add("body", "expected none with HEAD, found one; leave it out")
    return str(method)


def _url(given: Mapping[str, Any], with_holes: bool, problems: Problems) -> str:
    if "url" not in given:
        problems.add("url", "expected where to call, found none; write https://host/path")
        return ""
    url = given["url"]
    if not isinstance(url, str):
        problems.add("url", f"expected a text, found {json_kind(url)}; put it in quotes")
        return ""
    sample = url
    if with_holes:
        authority = re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0]
        if "{{" in url.partition("://")[0] or "{{" in authority:
            problems.add("url", "expected holes in path and query alone, found one before them; write the host out")
            return url
        sample = template.fill(url, _Any())
    try:
        parse_url(sample)
    except InvalidArgument as error:
        for violation in error.violations:
            problems.add("url", violation.description)
    return url


class _Any(dict[str, str]):
    """Has a value for each name."""

    def get(self, _: str, __: Any = None) -> str:
        return "x"


def _headers(given: Mapping[str, Any], problems: Problems) -> dict[str, str]:
    if "headers" not in given:
        return {}
    headers = given["headers"]
    if not isinstance(headers, dict):
        problems.add("headers", f'expected an object of texts, found {json_kind(headers)}; write {{"Name": "value"}}')
        return {}
    if len(headers) > HEADERS_MAX:
        problems.add("headers", f"expected at most {HEADERS_MAX}, found {len(headers)}; leave some out")
    found: dict[str, str] = {}
    seen: set[str] = set()
    for name, value in headers.items():
        at, low = f"headers[{name[:40]!r}]", name.lower()
        if not _HEADER.fullmatch(name):
            problems.add(at, "expected letters, digits and - as the name of a header, found otherwise; correct it")
        elif low in OWN_HEADERS:
            problems.add(at, "expected a header that the runner does not set itself, found one of those; leave it out")
        elif low in CONNECTION_HEADERS or low.startswith("proxy-"):
            problems.add(at, "expected a header of the request, found one of the connection; leave it out")
        elif low == "authorization" and "auth" in given:
            problems.add(at, "expected auth or this header, found both; leave one out")
        elif low in seen:
            problems.add(at, "expected each header once, found it twice; join the values with a comma")
        seen.add(low)
        if not isinstance(value, str):
            problems.add(at, f"expected a text, found {json_kind(value)}; put it in quotes")
            continue
        if _CONTROL.search(value):
            problems.add(at, "expected no line breaks or control characters, found some; remove them")
        found[name] = problems.text(at, value, HEADERS_BYTES_MAX)
    size = sum(len(name) + len(value.encode("utf-8", "replace")) for name, value in found.items())
    if size > HEADERS_BYTES_MAX:
        problems.add("headers", f"expected at most {HEADERS_BYTES_MAX} bytes in all, found {size}; use the body")
    return found


def _body(given: Mapping[str, Any], problems: Problems) -> Any:
    if "body" in given and "body_base64" in given:
        problems.add("body", "expected body or body_base64, found both; give one")
        return None
    if "body_base64" in given:
        text = given["body_base64"]
        try:
            return (
                b64decode(text, validate=True)
                if isinstance(text, str)
                else problems.add("body_base64", f"expected a text, found {json_kind(text)}; put it in quotes")
            )
        except (NotBase64, ValueError):
            problems.add("body_base64", "expected base64 with its padding, found otherwise; encode the bytes again")
            return None
    body = given.get("body")
    if "body" in given and body is None:
        problems.add("body", "expected a text or a JSON value, found null; leave it out for none")
    if isinstance(body, str):
        return problems.text("body", body, PAYLOAD_BYTES_MAX)
    if body is not None:
        try:
            _json(_filled_json(body, str))
        except (ValueError, RecursionError) as error:
            problems.add(
                "body", f"expected Unicode without lone surrogates and numbers of JSON, found others ({error})"
            )
    return body


def _auth(given: Mapping[str, Any], problems: Problems) -> str:
    auth = given.get("auth", "")
    if "auth" in given and not (isinstance(auth, str) and _NAME.fullmatch(auth)):
        found = shown(auth, 20) if isinstance(auth, str) else json_kind(auth)
        problems.add(
            "auth",
            f"expected the name of a credential of the runner (letters, digits, ._-), found {found}; "
            "never the secret itself",
        )
        return ""
    return str(auth)


def _span(given: Mapping[str, Any], key: str, usual_s: float, low_s: float, high_s: float, problems: Problems) -> float:
    if key not in given:
        return usual_s
    value = given[key]
    try:
        span_s = parse_duration(value)
    except ValueError:
        span_s = math.nan
    if low_s <= span_s <= high_s:
        return span_s
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    found = shown(str(value), 20) if is_number or isinstance(value, str) else json_kind(value)
    problems.add(
        key,
        f"expected {low_s:g} to {high_s:g} seconds, or a text such as 500ms, 30s or 5m, found {found}; correct it",
    )
    return usual_s


def _codes(given: Mapping[str, Any], key: str, usual: Codes, problems: Problems) -> Codes:
    if key not in given:
        return usual
    values = given[key]
    if not isinstance(values, list) or (not values and key == "success"):
        found = "an empty one" if values == [] else json_kind(values)
        problems.add(key, f'expected a list of status codes such as [200, "201-204", "5xx"], found {found}')
        return usual
    codes = []
    for index, value in enumerate(values):
        text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
        parts = _RANGE.fullmatch(text)
        if parts is None:
            found = shown(value, 20) if isinstance(value, str) else text or json_kind(value)
            problems.add(f"{key}[{index}]", f'expected 100 to 599, "200-299" or "2xx", found {found}; correct it')
            continue
        low = int(parts[1]) * 100 if parts[1] else int(parts[2])
        high = low + 99 if parts[1] else int(parts[3] or low)
        if low > high:
            problems.add(f"{key}[{index}]", f"expected the lower code first, found {text}; turn it round")
        codes.append((low, high))
    return tuple(codes)


def _redirects(given: Mapping[str, Any], problems: Problems) -> int:
    count = given.get("redirects", 0)
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= REDIRECTS_MAX:
        found = count if isinstance(count, int) and not isinstance(count, bool) else json_kind(count)
        problems.add("redirects", f"expected 0 to {REDIRECTS_MAX}, found {found}; correct it")
        return 0
    return count


def _in_doubt(given: Mapping[str, Any], problems: Problems) -> str:
    word = given.get("in_doubt", "")
    if "in_doubt" in given and word not in IN_DOUBT:
        found = shown(word, 20) if isinstance(word, str) else json_kind(word)
        problems.add("in_doubt", f"expected one of {', '.join(IN_DOUBT)}, found {found}; correct it")
        return ""
    return str(word)


def _flag(given: Mapping[str, Any], key: str, problems: Problems, *, default: bool) -> bool:
    value = given.get(key, default)
    if not isinstance(value, bool):
        problems.add(key, f"expected true or false, found {json_kind(value)}; correct it")
        return default
    return value


def _texts(body: Any) -> list[str]:
    """The texts in a body in which holes may stand."""
    found: list[str] = []
    stack = [body]
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, list):
            stack += value
        elif isinstance(value, dict):
            stack += value.values()
    return found


def _filled_json(value: Any, filled: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return filled(value)
    if isinstance(value, list):
        return [_filled_json(item, filled) for item in value]
    if isinstance(value, dict):
        return {key: _filled_json(item, filled) for key, item in value.items()}
    return value


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _json_inner(text: str) -> str:
    """As it stands between the quotes of a JSON text."""
    return json.dumps(text, ensure_ascii=False)[1:-1]
