"""Whatever payloads, URLs and servers say, it is taken, or refused in words; nothing else comes of it."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import h11
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rota_sdk import Failed

from rota.domain.errors import InvalidArgument
from rota.targets.http import verdict, wire
from rota.targets.http.address import AllowList
from rota.targets.http.credentials import read
from rota.targets.http.request import KEYS, Request, parse_request, render
from rota.targets.http.template import NAMES
from rota.targets.http.url import parse_url
from rota.targets.http.verdict import Secrets

from .http_world import NOW

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
TEXTS = st.sampled_from(
    ["{{job.id}}", "{{", "}}", "{{ }}", "https://x/", "//", "@", ":", "[", "]", "%", "\\", "\r\n", "ü", "\0", "\ud800"]
)
PIECES = st.lists(TEXTS | st.text(max_size=6), max_size=6).map("".join)
VALUES = PIECES.map(lambda text: text.encode("utf-8", "ignore").decode())
URL = parse_url("https://x.example/")


@settings(max_examples=300, deadline=None)
@given(document=st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=6), JSON | PIECES, max_size=6), value=VALUES)
@example(
    document={"url": "https://x/{{job.id}}", "body": {"a": "{{job.id}}"}, "headers": {"A": "{{job.id}}"}},
    value="\r\n",
)
def test_any_payload(document: dict[str, Any], value: str) -> None:
    document.setdefault("url", "https://x/")
    data = json.dumps(document).encode()
    with suppress(InvalidArgument):
        call = render(parse_request(data), dict.fromkeys(NAMES, value))
        assert call.url.target.isascii()
        for name, text in call.headers:
            assert not {"\r", "\n", "\0"} & set(name + text)


@settings(max_examples=300, deadline=None)
@given(PIECES)
def test_any_url(text: str) -> None:
    for candidate in (text, f"https://{text}", f"https://x/{text}"):
        with suppress(InvalidArgument):
            found = parse_url(candidate)
            # What was read reads the same once more.
            assert parse_url(found.origin + found.target) == found
            assert found.host.isascii()


@settings(max_examples=300, deadline=None)
@given(PIECES, JSON)
def test_any_allowance_and_any_credential(text: str, value: Any) -> None:
    with suppress(InvalidArgument):
        AllowList.parse([text])
    for document in ({"a": value}, {"a": {"kind": "oidc", "token_url": text, "hosts": value, "client_id": value}}):
        with suppress(InvalidArgument):
            read(document, {})


LINES = st.sampled_from(
    [
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 503 \r\n",
        "HTTP/1.0 200 OK\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 101 Switching\r\n",
        "Content-Length: 3\r\n",
        "Content-Length: -1\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Content-Encoding: gzip\r\n",
        "Content-Type: text/plain; charset=utf-16\r\n",
        "Retry-After: Mon, 30 Nov 2026 25:61:00 GMT\r\n",
        "Retry-After: Mon, 30 Nov 99999 08:20:00 +9999\r\n",
        "Location: //[\r\n",
        "X: \xff\r\n",
        "\r\n",
        "abc",
        "3\r\nabc\r\n0\r\n\r\n",
        "\x1f\x8b\x08",
    ]
).map(lambda text: text.encode("latin-1"))


async def answered(data: bytes) -> wire.Answer | None:
    protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=wire.HEAD_BYTES_MAX)
    protocol.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
    protocol.send(h11.EndOfMessage())
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    try:
        return await wire._read(protocol, reader)
    except h11.RemoteProtocolError:
        return None


@settings(max_examples=300, deadline=None)
@given(st.lists(LINES | st.binary(max_size=12), max_size=8).map(b"".join), st.booleans())
@example(b"HTTP/1.1 503 x\r\nRetry-After: Mon, 30 Nov 2026 08:20:00 +9999\r\nDate: x\r\n\r\n", False)
def test_any_answer(data: bytes, prefix: bool) -> None:
    answer = asyncio.run(answered((b"HTTP/1.1 200 OK\r\n" if prefix else b"") + data))
    if answer is None:
        return
    failure = verdict.failure(Request("GET", "https://x/"), URL, answer, Secrets(("abc",)), NOW)
    assert isinstance(failure, Failed)
    assert failure.after is None or 0 <= failure.after <= 3_600
    kept = json.dumps(verdict.result(answer, Secrets(("abc",)), 0.1)) + str(failure) + failure.stack
    assert "abc" not in kept
    assert "\0" not in kept
    kept.encode()
