"""What a payload of rota.http may say, and how what is wrong with it is named."""

import json
from typing import Any

import pytest

from rota.domain.errors import InvalidArgument
from rota.targets.http.request import RETRY_DEFAULT, SUCCESS_DEFAULT, Request, parse_request, render

URL = "https://x.example/"
VALUES = {"job.id": "7", "job.effect_key": 'a"\n€', "job.attempt": "2"}


def parsed(**document: Any) -> Request:
    return parse_request(json.dumps({"url": URL} | document).encode())


def test_a_url_is_enough() -> None:
    found = parsed()
    assert (found.method, found.url, found.body, found.timeout_s) == ("GET", URL, None, 30.0)
    assert (found.success, found.retry, found.redirects) == (SUCCESS_DEFAULT, RETRY_DEFAULT, 0)


def test_everything_can_be_said() -> None:
    found = parsed(
        method="patch",
        headers={"X-A": "1"},
        body={"a": [1]},
        auth="billing",
        timeout="1.5m",
        connect_timeout=2,
        success=[200, "204-206", "3xx"],
        retry=[],
        redirects=2,
        in_doubt="ask",
        idempotency_window="24h",
        template=False,
    )
    assert found == Request(
        "PATCH",
        URL,
        {"X-A": "1"},
        {"a": [1]},
        "billing",
        90.0,
        2.0,
        ((200, 200), (204, 206), (300, 399)),
        (),
        2,
        "ask",
        86_400.0,
        False,
    )


@pytest.mark.parametrize(
    ("document", "field", "words"),
    [
        ({"url": None}, "url", "found null"),
        ({"url": "ftp://x/"}, "url", "http:// or https://"),
        ({"url": "https://{{job.id}}/"}, "url", "path and query alone"),
        ({"url": "https://x.{{job.id}}:80/"}, "url", "path and query alone"),
        ({"url": "{{job.id}}://x/"}, "url", "path and query alone"),
        ({"url": "https://x/{{job.name}}"}, "url", "found {{job.name}}"),
        ({"url": "https://x/{{job.attempts}}"}, "url", "did you mean job.attempt?"),
        ({"url": "https://x/{{__class__}}"}, "url", "known are job.id"),
        ({"url": "https://x/{{7*7}}"}, "url", "known are"),
        ({"urll": 1}, "urll", "did you mean url?"),
        ({"method": "CONNECT"}, "method", "expected one of GET"),
        ({"method": 7}, "method", "found a number"),
        ({"method": "GET\r\n"}, "method", "expected one of GET"),
        ({"headers": []}, "headers", "found a list"),
        ({"headers": {"a b": "1"}}, "headers['a b']", "name of a header"),
        ({"headers": {"A": "1\r\nB: 2"}}, "headers['A']", "line breaks"),
        ({"headers": {"A": 1}}, "headers['A']", "found a number"),
        ({"headers": {"A": "1", "a": "2"}}, "headers['a']", "found it twice"),
        ({"headers": {"Host": "y"}}, "headers['Host']", "one of the connection"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "headers['Transfer-Encoding']", "one of the connection"),
        ({"headers": {"Proxy-Authorization": "x"}}, "headers['Proxy-Authorization']", "one of the connection"),
        ({"headers": {"idempotency-key": "x"}}, "headers['idempotency-key']", "does not set itself"),
        ({"headers": {"Authorization": "x"}, "auth": "b"}, "headers['Authorization']", "found both"),
        ({"headers": {"A": "{{x}}"}}, "headers['A']", "found {{x}}"),
        ({"headers": {f"A{i}": "" for i in range(65)}}, "headers", "at most 64"),
        ({"headers": {"A": "x" * 20_000}}, "headers['A']", "at most 16384 bytes"),
        ({"body": None}, "body", "leave it out"),
        ({"body": "a", "body_base64": "AA=="}, "body", "found both"),
        ({"body_base64": "A"}, "body_base64", "base64"),
        ({"body_base64": 7}, "body_base64", "found a number"),
        ({"body": {"a": ["{{nope}}"]}}, "body", "found {{nope}}"),
        ({"body": "a\0"}, "body", "NUL"),
        ({"body": "a", "method": "HEAD"}, "body", "HEAD"),
        ({"auth": "Bearer abc"}, "auth", "never the secret itself"),
        ({"auth": 7}, "auth", "found a number"),
        ({"timeout": 0}, "timeout", "0.1 to 3600 seconds"),
        ({"timeout": "soon"}, "timeout", "500ms, 30s or 5m"),
        ({"timeout": True}, "timeout", "found true or false"),
        ({"timeout": 1e9}, "timeout", "0.1 to 3600"),
        ({"connect_timeout": -1}, "connect_timeout", "0.1 to 3600"),
        ({"success": []}, "success", "found an empty one"),
        ({"success": 200}, "success", "found a number"),
        ({"success": [99]}, "success[0]", "100 to 599"),
        ({"success": ["200-"]}, "success[0]", "100 to 599"),
        ({"success": ["299-200"]}, "success[0]", "lower code first"),
        ({"retry": [True]}, "retry[0]", "found true or false"),
        ({"redirects": 11}, "redirects", "0 to 10"),
        ({"redirects": True}, "redirects", "0 to 10"),
        ({"in_doubt": "maybe"}, "in_doubt", "redo, ask, assume-done"),
        ({"idempotency_window": 0}, "idempotency_window", "1 to"),
        ({"template": "no"}, "template", "true or false"),
    ],
)
def test_what_is_wrong_is_named(document: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parsed(**document)
    assert [v.field for v in caught.value.violations] == [field]
    assert words in caught.value.violations[0].description


@pytest.mark.parametrize("data", [b"", b"[]", b"7", b"{", b"\xff", b'{"url": "a", "url": "b"}', b'{"a":' * 100_000])
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidArgument):
        parse_request(data)


def test_a_deep_body_is_refused_when_it_is_created_and_not_when_it_is_sent() -> None:
    data = b'{"url": "https://x/", "body": ' + b"[" * 800 + b"]" * 800 + b"}"
    with pytest.raises(InvalidArgument):
        parse_request(data)


def test_a_value_is_escaped_for_where_it_goes() -> None:
    call = render(
        parsed(url="https://x/{{job.effect_key}}?{{job.id}}", body={"k{{job.id}}": ["{{ job.effect_key }}"]}), VALUES
    )
    assert call.url.target == "/a%22%0A%E2%82%AC?7"
    # Keys stay as they are.
    assert json.loads(call.body) == {"k{{job.id}}": ['a"\n€']}
    text = render(parsed(body="{{job.effect_key}}"), VALUES)
    assert text.body == 'a"\n€'.encode()
    as_json = render(parsed(body='["{{job.effect_key}}"]', headers={"content-type": "application/json"}), VALUES)
    assert json.loads(as_json.body) == ['a"\n€']


def test_a_value_is_not_filled_again() -> None:
    assert (
        render(parsed(body="{{job.effect_key}}"), {"job.effect_key": "{{job.id}}", "job.id": "7"}).body == b"{{job.id}}"
    )


def test_braces_can_be_sent_as_they_are() -> None:
    call = render(parsed(url="https://x/{{a}}", body="{{b}}", template=False), {})
    assert (call.url.target, call.body) == ("/%7B%7Ba%7D%7D", b"{{b}}")


def test_a_body_has_a_content_type() -> None:
    types = [
        dict(render(parsed(**body), VALUES).headers).get("content-type")
        for body in (
            {},
            {"body": "a"},
            {"body": 0},
            {"body_base64": "AAEC"},
            {"body": "a", "headers": {"CONTENT-type": "x/y"}},
        )
    ]
    assert types == [None, "text/plain; charset=utf-8", "application/json", "application/octet-stream", "x/y"]
    assert render(parsed(body_base64="AAEC"), VALUES).body == b"\0\1\2"
    assert (parsed(body=False).method, render(parsed(body=False), VALUES).body) == ("POST", b"false")


def test_what_only_schedules_have_is_told() -> None:
    assert parsed(url="https://x/{{schedule.id}}", body={"a": "{{job.id}} {{occurrence.time}}"}).of_schedule == {
        "schedule.id",
        "occurrence.time",
    }
    assert parsed(body="{{schedule.id}}", template=False).of_schedule == set()
