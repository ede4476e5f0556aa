"""What a runner proves itself with: where it goes, and where it must never appear."""

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import os
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from rota_sdk import EffectState, Failed, Release

from rota.domain.errors import FailedPrecondition, InvalidArgument
from rota.targets.http.breaker import OPENS_AFTER, REST_FIRST_S
from rota.targets.http.credentials import load, read
from rota.targets.http.signing import signature

from .http_world import NOW, Bench, Handler, Lease, Peer, Server, answers

SECRET = 'p"ss/w=rd\\1234'


def bench_with(kind: str, hosts: list[str] | None = None, **keys: Any) -> Bench:
    document = {"billing": {"kind": kind, "hosts": hosts or ["127.0.0.1"], "allow_http": True, **keys}}
    return Bench(credentials=read(document, os.environ)[0])


def url(server: Server, path: str = "/") -> str:
    return f"http://127.0.0.1:{server.port}{path}"


@pytest.mark.parametrize(
    ("kind", "keys", "header", "value"),
    [
        ("bearer", {"token": "abc"}, "authorization", "Bearer abc"),
        ("basic", {"username": "ada", "password": "pä"}, "authorization", "Basic YWRhOnDDpA=="),
        ("header", {"name": "X-Api-Key", "value": "abc"}, "x-api-key", "abc"),
    ],
)
async def test_the_credential_that_is_named_goes_along(
    kind: str, keys: dict[str, str], header: str, value: str
) -> None:
    async with Server() as server:
        bench = bench_with(kind, **keys)
        await bench.result(url(server), auth="billing")
        assert server.last.headers[header] == value
        await bench.result(url(server))
        assert header not in server.last.headers


async def test_a_signature_covers_time_method_target_and_body() -> None:
    async with Server() as server:
        await bench_with("hmac", key_id="k-1", secret="shared").result(
            url(server, "/in?month=11"), auth="billing", body="pay"
        )
    text = f"v1\n{int(NOW.timestamp())}\nPOST\n/in?month=11\n{hashlib.sha256(b'pay').hexdigest()}"
    digest = hmac.new(b"shared", text.encode(), hashlib.sha256).hexdigest()
    assert server.last.headers["rota-signature"] == f"t={int(NOW.timestamp())},keyid=k-1,v1={digest}"


def test_the_signature_is_the_documented_one() -> None:
    """A constant, so that receivers in the field go on understanding it."""
    assert signature("billing-1", "secret", 1764490500, "POST", "/invoices?month=11", b"").startswith(
        "t=1764490500,keyid=billing-1,v1="
    )
    assert signature("a", "secret", 1, "GET", "/", b"x") == (
        "t=1,keyid=a,v1="
        + hmac.digest(b"secret", b"v1\n1\nGET\n/\n" + hashlib.sha256(b"x").hexdigest().encode(), "sha256").hex()
    )


@pytest.mark.parametrize(
    ("hosts", "allow_http", "words"),
    [
        (["api.example.com"], True, "is not for 127.0.0.1"),
        (["127.0.0.1:1"], True, "is not for 127.0.0.1"),
        (["127.0.0.1"], False, "over https alone"),
    ],
)
async def test_a_credential_goes_nowhere_else(hosts: list[str], allow_http: bool, words: str) -> None:
    async with Server() as server:
        bench = bench_with("bearer", hosts, token="abc", allow_http=allow_http)
        failure = await bench.failure(Failed, url(server), auth="billing")
    assert (failure.type, failure.retryable, server.connections) == ("CredentialRefused", False, 0)
    assert words in str(failure)


async def test_a_credential_that_is_not_known_ends_the_job() -> None:
    failure = await bench_with("bearer", token="abc").failure(Failed, "http://127.0.0.1:1/", auth="other")
    assert (failure.type, failure.retryable, failure.effect) == ("CredentialUnknown", False, EffectState.NOT_APPLIED)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_takes_no_credential_to_another_host(status: int) -> None:
    async with Server() as other, Server([answers(status, Location=f"http://127.0.0.1:{other.port}/")]) as server:
        bench = bench_with("bearer", token="abc")
        failure = await bench.failure(Failed, url(server), auth="billing", redirects=5)
    # Another port is another host, though the credential may be sent to both.
    assert (failure.type, failure.retryable, other.connections) == ("RedirectRefused", False, 0)


async def test_a_redirect_takes_no_headers_of_the_job_to_another_host() -> None:
    headers = {"Authorization": "Bearer x", "Cookie": "a=b", "X-Api-Key": "k", "Content-Type": "text/csv"}
    async with Server() as other, Server([answers(307, Location=f"http://127.0.0.1:{other.port}/a")]) as server:
        await Bench().result(url(server), headers=headers, body="x", redirects=1)
    assert (other.last.method, other.last.body, other.last.headers["content-type"]) == ("POST", b"x", "text/csv")
    assert not {"authorization", "cookie", "x-api-key"} & set(other.last.headers)
    assert other.last.headers["idempotency-key"] == "default/019ad0b2/0"


async def test_redirects_on_the_same_host_keep_what_was_sent() -> None:
    async with Server([answers(303, Location="/done?id=7"), answers(200, "done")]) as server:
        bench = bench_with("bearer", token="abc")
        found = await bench.result(url(server), auth="billing", body="x", redirects=1)
    assert found["body"] == "done"
    assert [(seen.method, seen.target, seen.body) for seen in server.seen] == [
        ("POST", "/", b"x"),
        ("GET", "/done?id=7", b""),
    ]
    assert server.last.headers["authorization"] == "Bearer abc"
    assert "content-type" not in server.last.headers


async def test_redirects_end() -> None:
    async with Server([answers(302, Location="/again")]) as server:
        failure = await Bench().failure(Failed, url(server), redirects=3)
    assert (failure.type, len(server.seen)) == ("Http302", 4)


def echo(peer: Peer) -> Any:
    """Answers with all that came."""
    lines = [*peer.seen.headers.values(), json.dumps(peer.seen.headers), *map(repr, peer.seen.headers.values())]
    return peer.answer(
        400 if peer.seen.target == "/bad" else 200, "\n".join(lines), Content_Type="text/plain", X_Request_Id=lines[0]
    )


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("bearer", {"token": SECRET}),
        ("basic", {"username": "ada", "password": SECRET}),
        ("header", {"name": "X-Key", "value": SECRET}),
        ("hmac", {"key_id": "k", "secret": SECRET}),
    ],
)
async def test_no_secret_comes_back(kind: str, keys: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    bench = bench_with(kind, **keys)
    async with Server([echo]) as server:
        found = await bench.result(url(server), auth="billing")
        sent = next(
            server.last.headers[name]
            for name in ("authorization", "x-key", "rota-signature")
            if name in server.last.headers
        )
        failure = await bench.failure(Failed, url(server, "/bad"), auth="billing")
    shown = [json.dumps(found), str(failure), failure.stack, caplog.text, repr(bench.calls._credentials)]
    hidden = [SECRET, json.dumps(SECRET)[1:-1], base64.b64encode(f"ada:{SECRET}".encode()).decode()]
    hidden.append(sent.rpartition("v1=")[2] if kind == "hmac" else sent)
    for text in shown:
        for secret in hidden:
            assert secret not in text
    assert "[secret]" in found["body"]


def token_answer(text: str, **more: Any) -> Handler:
    return answers(
        200, json.dumps({"access_token": text, "token_type": "Bearer", **more}), Content_Type="application/json"
    )


def oidc(tokens: Server, **keys: Any) -> Bench:
    found = {"client_id": "rota:1", "client_secret": SECRET, "scope": "a b", "audience": "billing"} | keys
    return bench_with("oidc", token_url=url(tokens, "/token"), **found)


async def test_a_token_is_fetched_once_and_kept_until_shortly_before_its_end() -> None:
    async with Server() as server, Server([token_answer("one", expires_in=600), token_answer("two")]) as tokens:
        bench = oidc(tokens)
        await asyncio.gather(*(bench.begin(Lease(url(server), auth="billing")) for _ in range(5)))
        form = parse_qs(tokens.last.body.decode())
        assert form == {"grant_type": ["client_credentials"], "scope": ["a b"], "audience": ["billing"]}
        proof = base64.b64decode(tokens.last.headers["authorization"].removeprefix("Basic ")).decode()
        assert proof == "rota%3A1:p%22ss%2Fw%3Drd%5C1234"
        bench.clock.at += 569
        await bench.result(url(server), auth="billing")
        assert ([seen.headers["authorization"] for seen in server.seen], len(tokens.seen)) == (["Bearer one"] * 6, 1)
        bench.clock.at += 2
        await bench.result(url(server), auth="billing")
        assert (server.last.headers["authorization"], len(tokens.seen)) == ("Bearer two", 2)


async def test_client_secrets_may_go_in_the_form() -> None:
    async with Server() as server, Server([token_answer("one")]) as tokens:
        await oidc(tokens, client_auth="post").result(url(server), auth="billing")
    form = parse_qs(tokens.last.body.decode())
    assert (form["client_id"], form["client_secret"]) == (["rota:1"], [SECRET])
    assert "authorization" not in tokens.last.headers


async def test_a_token_that_is_refused_is_not_used_again() -> None:
    async with (
        Server([answers(401), answers(200)]) as server,
        Server([token_answer("one"), token_answer("two")]) as tokens,
    ):
        bench = oidc(tokens)
        failure = await bench.failure(Failed, url(server), auth="billing")
        assert (failure.type, failure.retryable) == ("Http401", None)
        await bench.result(url(server), auth="billing")
    assert server.last.headers["authorization"] == "Bearer two"


@pytest.mark.parametrize(
    "answer",
    [
        answers(401, json.dumps({"error": "invalid_client", "error_description": SECRET})),
        answers(500, SECRET),
        answers(200, "[]"),
        answers(200, '{"access_token": 7}'),
        answers(200, '{"access_token": "a\\r\\nX: y"}'),
    ],
)
async def test_without_a_token_nothing_is_called(answer: Handler) -> None:
    async with Server() as server, Server([answer]) as tokens:
        failure = await oidc(tokens).failure(Failed, url(server), auth="billing")
        assert (failure.type, failure.retryable, failure.effect) == ("TokenFailed", None, EffectState.NOT_APPLIED)
        assert SECRET not in str(failure)
        assert server.connections == 0


async def test_a_token_endpoint_that_is_down_rests_and_burns_no_attempts() -> None:
    async with Server() as server, Server([answers(503)] * OPENS_AFTER + [token_answer("one")]) as tokens:
        bench = oidc(tokens)
        for _ in range(OPENS_AFTER - 1):
            assert (await bench.failure(Failed, url(server), auth="billing")).type == "TokenFailed"
        for _ in range(3):
            assert (await bench.failure(Release, url(server), auth="billing")).delay >= REST_FIRST_S
        assert (len(tokens.seen), server.connections) == (OPENS_AFTER, 0)
        # Who needs no token goes on.
        await bench.result(url(server))
        bench.clock.at += REST_FIRST_S
        await bench.result(url(server), auth="billing")


async def test_a_header_of_the_job_does_not_stand_beside_the_credential() -> None:
    async with Server() as server:
        bench = bench_with("header", name="X-Api-Key", value="abc")
        await bench.result(url(server), auth="billing", headers={"x-api-key": "mine"})
    assert server.last.headers["x-api-key"] == "abc"
    assert server.last.names.count("x-api-key") == 1


async def test_who_is_cancelled_does_not_take_the_token_of_others_along() -> None:
    go = asyncio.Event()

    async def slowly(peer: Peer) -> None:
        await go.wait()
        await token_answer("one")(peer)

    async with Server() as server, Server([slowly]) as tokens:
        bench = oidc(tokens)
        first, second = (bench.begin(Lease(url(server), auth="billing")) for _ in range(2))
        while not tokens.seen:
            await asyncio.sleep(0.01)
        first.cancel()
        go.set()
        assert (await second).json()["status"] == 200
        assert len(tokens.seen) == 1


async def test_a_secret_of_a_file_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old\n")
    async with Server() as server:
        bench = bench_with("bearer", token=f"file:{file}")
        await bench.result(url(server), auth="billing")
        file.write_text("new\n")
        await bench.result(url(server), auth="billing")
        assert [seen.headers["authorization"] for seen in server.seen] == ["Bearer old", "Bearer new"]
        file.unlink()
        failure = await bench.failure(Failed, url(server), auth="billing")
    assert (failure.type, failure.retryable) == ("CredentialMissing", None)


LITERAL = '[billing]\nkind = "bearer"\ntoken = "abc"\nhosts = ["x.example"]\n'


@pytest.mark.parametrize(
    ("text", "mode", "good"),
    [
        (LITERAL, 0o600, True),
        (LITERAL, 0o400, True),
        (LITERAL, 0o640, False),
        (LITERAL, 0o604, False),
        (LITERAL.replace("abc", "env:TOKEN"), 0o644, True),
        (LITERAL.replace("abc", "env:TOKEN"), 0o664, False),
    ],
)
def test_a_file_with_secrets_is_its_owner_s_alone(tmp_path: Path, text: str, mode: int, good: bool) -> None:
    file = tmp_path / "credentials.toml"
    file.write_text(text)
    file.chmod(mode)
    if good:
        assert load(file, {"TOKEN": "abc"})["billing"].why_not is not None
    else:
        with pytest.raises(FailedPrecondition, match="chmod 600"):
            load(file, {"TOKEN": "abc"})


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"kind": "beerer"}, "billing.kind", "bearer, basic"),
        ({"tokn": "x"}, "billing.tokn", "did you mean token?"),
        ({"token": ""}, "billing.token", "expected a text"),
        ({"token": 7}, "billing.token", "found a number"),
        ({"token": "env:MISSING"}, "billing.token", "MISSING"),
        ({"token": "file:/no/such/file"}, "billing.token", "/no/such/file"),
        ({"token": "a\nb"}, "billing.token", "control characters"),
        ({"hosts": []}, "billing.hosts", "expected the hosts"),
        ({"hosts": ["http://x"]}, "billing.hosts[0]", "a host such as"),
        ({"allow_http": "yes"}, "billing.allow_http", "true or false"),
    ],
)
def test_a_credential_that_is_none_is_refused(change: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read({"billing": {"kind": "bearer", "token": "s3cret", "hosts": ["x"], **change}}, {})
    assert [v.field for v in caught.value.violations] == [field]
    assert words in caught.value.violations[0].description
    assert "s3cret" not in caught.value.message


def test_a_file_that_is_no_toml_does_not_show_its_secrets(tmp_path: Path) -> None:
    file = tmp_path / "credentials.toml"
    file.write_text('[billing]\ntoken = "s3cret" oops\n')
    with pytest.raises(InvalidArgument, match="expected TOML") as caught:
        load(file, {})
    assert "s3cret" not in caught.value.message


@pytest.mark.parametrize("name", ["Host", "content-length", "Idempotency-Key", "a b"])
def test_a_credential_takes_no_header_s_place(name: str) -> None:
    with pytest.raises(InvalidArgument, match=r"billing\.name: expected a header that is free"):
        read({"billing": {"kind": "header", "name": name, "value": "env:X", "hosts": ["x"]}}, {"X": "x"})
