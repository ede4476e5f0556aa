"""The HTTP listeners: which paths are served where, TLS, other web sites, what is no HTTP, and the stop."""

import asyncio
import json
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from rota_sdk.gen.rota.v1 import jobs_pb2

from rota import bootstrap
from rota.api.http import server as http_server
from rota.api.http.app import openapi
from rota.api.server import TlsFiles
from rota.config import Settings, http_beside
from rota.domain.errors import FailedPrecondition, InvalidArgument

from ..e2e.test_tls import OPENSSL, Authority, Pair, install
from .doors import KEY, door
from .running import Running, Tenant, eventually, refusal
from .web import web

pytestmark = pytest.mark.asyncio(loop_scope="session")

Start = Callable[..., Awaitable[Running]]
GET = "rota.v1.JobService/GetJob"


async def answer(request: Any, context: Any) -> Any:
    return jobs_pb2.GetJobResponse(job=jobs_pb2.Job(name=request.name))


async def raw(port: int, sent: bytes) -> tuple[int, dict[str, str], Any]:
    """What a listener says to bytes: code, headers, and the body as JSON."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    said = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    head, _, body = said.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in lines}
    return int(status.split()[1]), headers, json.loads(body)


async def test_internal_and_admin_are_for_loopback_or_a_listener_of_their_own(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    coordinator = await start(http_internal_listen="127.0.0.1:0")
    tenant = await coordinator.tenant("default")
    (inside,) = [r.getMessage().rpartition(" ")[2] for r in caplog.records if "/internal and /admin" in r.getMessage()]
    for base, code in ((coordinator.http, 404), (f"http://{inside}", 200)):
        async with web(replace_http(tenant, base)) as call:
            found = await call.get("/admin/v1/queues")
            assert found.code == code, found
            if code == 404:
                assert "http_internal_listen" in found.message
            assert (await call.get("/v1/jobs")).code == 200
            served = {path.split("/")[1] for path in (await call.get("/openapi.json")).json["paths"]}
            assert served == ({"v1"} if code == 404 else {"v1", "internal", "admin"})


def replace_http(tenant: Tenant, base: str) -> Tenant:
    assert tenant.key is not None
    return Tenant(replace(tenant.coordinator, http=base), tenant.name, tenant.key)


@pytest.mark.parametrize(
    ("http", "internal", "served"),
    [("0.0.0.0:0", None, 404), ("0.0.0.0:0", "off", 404), ("127.0.0.1:0", None, 200), ("127.0.0.1:0", "off", 404)],
)
async def test_off_loopback_they_are_not_there(start: Start, http: str, internal: str | None, served: int) -> None:
    coordinator = await start(http_listen=http, http_internal_listen=internal, allow_plaintext=True)
    tenant = await coordinator.tenant()
    async with web(replace_http(tenant, coordinator.http.replace("0.0.0.0", "127.0.0.1"))) as call:
        assert (await call.post("/internal/sessions", {"worker": "w", "queues": ["q"]})).code == served


async def test_http_may_be_off(start: Start) -> None:
    assert (await start(http_listen="off")).http == ""


@pytest.mark.parametrize("setting", ["http_listen", "http_internal_listen"])
async def test_plaintext_off_loopback_is_refused(setting: str) -> None:
    settings: Any = {setting: "0.0.0.0:0"}
    with pytest.raises(InvalidArgument, match=f"{setting}: 0.0.0.0:0 is reachable from elsewhere and there is no TLS"):
        bootstrap.serve(Settings(**settings), "postgresql://nobody@127.0.0.1:1/none")


async def test_a_taken_port_is_an_error_where_it_was_asked_for_and_none_where_it_was_not(start: Start) -> None:
    coordinator = await start()
    with _taken_beside() as (port, taken):
        with pytest.raises(FailedPrecondition, match=r"cannot listen on .* choose another with --http-listen"):
            await start(coordinator.url, http_listen=f"127.0.0.1:{taken}")
        other = await start(coordinator.url, listen=f"127.0.0.1:{port}")
        assert other.http not in ("", f"http://127.0.0.1:{taken}")


@contextmanager
def _taken_beside() -> Iterator[tuple[int, int]]:
    """A port that is free, and the one that HTTP has beside it, where somebody listens."""
    while True:
        with socket.socket() as held, socket.socket() as free:
            held.bind(("127.0.0.1", 0))
            held.listen()
            taken = held.getsockname()[1]
            try:
                free.bind(("127.0.0.1", taken - 10))
            except OSError:
                continue
            free.close()
            yield taken - 10, taken
            return


async def test_the_port_beside_that_of_grpc() -> None:
    assert http_beside("0.0.0.0:7070", 7070) == "127.0.0.1:7080"
    assert http_beside("127.0.0.1:0", 40_000) == "127.0.0.1:0"
    assert http_beside("127.0.0.1:65530", 65_530) == "127.0.0.1:0"


async def test_several_processes_share_a_port() -> None:
    doors = []
    try:
        with socket.socket() as held:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            held.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{held.getsockname()[1]}"
            for _ in range(2):
                async with door({}, shared_port=True) as (found, _):
                    doors.append(found)
                    found.bind("http_listen", address, None, guarded=False)
                    with pytest.raises(FailedPrecondition):
                        async with door({}) as (alone, _):
                            alone.bind("http_listen", address, None, guarded=False)
    finally:
        for found in doors:
            await found.stop(0)


async def test_other_web_sites_may_call_only_if_they_are_named() -> None:
    ask = {"Origin": "https://app.example.com", "Access-Control-Request-Method": "PATCH"}
    ask["Access-Control-Request-Headers"] = "authorization,if-match,idempotency-key"
    async with door({GET: answer}, origins=("https://app.example.com",)) as (_, call):
        asked = await call("OPTIONS", "/v1/jobs/a", headers=ask)
        assert (asked.code, asked.headers["access-control-allow-origin"]) == (200, "https://app.example.com")
        got = await call.get("/v1/jobs/a", headers={"Origin": "https://app.example.com"})
        assert got.headers["access-control-allow-origin"] == "https://app.example.com"
        assert "ETag" in got.headers["access-control-expose-headers"]
        assert (await call("OPTIONS", "/v1/jobs/a", headers=ask | {"Origin": "https://evil.example"})).code == 400
    async with door({GET: answer}) as (_, call):
        asked = await call("OPTIONS", "/v1/jobs/a", headers=ask)
        assert (asked.code, "access-control-allow-origin" in asked.headers) == (204, False)
        got = await call.get("/v1/jobs/a", headers={"Origin": "https://app.example.com"})
        assert "access-control-allow-origin" not in got.headers


@pytest.mark.parametrize(
    ("sent", "code", "text"),
    [
        (b"hello\r\n\r\n", 400, "expected HTTP/1.1"),
        (b"GET /v1/jobs HTTP/1.1\r\n\r\n", 400, "Missing mandatory Host"),
        (b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\nBad Header: x\r\n\r\n", 400, "expected HTTP/1.1"),
        (b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "Content-Length"),
        (b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 40_000, 431, "a request head of at most 32768 bytes"),
    ],
)
async def test_what_is_no_http_is_told_so_in_the_same_shape(sent: bytes, code: int, text: str) -> None:
    async with door({GET: answer}) as (_, call):
        found, headers, body = await raw(call.client.base_url.port or 0, sent)
    assert (found, body["error"]["code"], headers["content-type"]) == (code, code, "application/json")
    assert text in body["error"]["message"]
    assert headers["connection"] == "close"


async def test_a_url_may_be_whole_as_proxies_send_it() -> None:
    sent = b"GET http://rota.example/v1/jobs/a HTTP/1.1\r\nHost: rota.example\r\nAuthorization: Bearer k\r\n"
    async with door({GET: answer}) as (_, call):
        code, headers, body = await raw(call.client.base_url.port or 0, sent + b"Connection: close\r\n\r\n")
    assert (code, body["name"], "date" in headers) == (200, "jobs/a", True)


async def test_a_head_that_does_not_come_closes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    # Long enough for a head that comes.
    monkeypatch.setattr(http_server, "HEAD_S_MAX", 1.5)
    async with door({GET: answer}) as (_, call):

        async def until_closed(sent: bytes, then: bytes) -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", call.client.base_url.port)
            writer.write(sent)
            if then:
                assert (await reader.readline()).startswith(b"HTTP/1.1 200")
                writer.write(then)
            await asyncio.wait_for(reader.read(), 10)
            writer.close()

        whole = b"GET /v1/jobs/a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k\r\n\r\n"
        cases = ((b"", b""), (b"GET /v1/jobs/a HT", b""), (whole, b"GET /v1/jobs/a HT"))
        await asyncio.gather(*(until_closed(*case) for case in cases))


async def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 1)
    async with door({GET: answer}) as (_, call):
        assert (await call.get("/v1/jobs/a")).code == 200
        reader, writer = await asyncio.open_connection("127.0.0.1", call.client.base_url.port)
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()


async def test_a_stranger_has_no_body_read() -> None:
    async with door({GET: answer}) as (_, call):
        head = b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 5000000\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", call.client.base_url.port)
        writer.write(head + b"Expect: 100-continue\r\n\r\n")
        line = await asyncio.wait_for(reader.readline(), 5)
        assert line.startswith(b"HTTP/1.1 401"), line
        writer.close()


async def test_a_stop_lets_calls_end_and_takes_no_more() -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def slow(request: Any, context: Any) -> Any:
        begun.set()
        await go.wait()
        return await answer(request, context)

    async with door({GET: slow}) as (found, call):
        under_way = asyncio.create_task(call.get("/v1/jobs/a"))
        await begun.wait()
        stop = asyncio.create_task(found.stop(10))
        await asyncio.sleep(0.05)
        with pytest.raises(httpx.ConnectError):
            async with httpx.AsyncClient(trust_env=False) as other:
                await other.get(f"{call.client.base_url}/v1/jobs/a", headers=call.headers)
        assert not stop.done()
        go.set()
        assert (await under_way).json["name"] == "jobs/a"
        await asyncio.wait_for(stop, 8)


async def test_a_stop_does_not_wait_longer_than_it_may() -> None:
    begun = asyncio.Event()

    async def stuck(request: Any, context: Any) -> Any:
        begun.set()
        await asyncio.Event().wait()

    async with door({GET: stuck}) as (found, call):
        under_way = asyncio.create_task(call.get("/v1/jobs/a"))
        await begun.wait()
        await asyncio.wait_for(found.stop(0.2), 10)
        assert (await under_way).case == (503, "UNAVAILABLE", "DRAINING")


async def test_a_coordinator_that_drains_answers_a_poll_that_came_by_http(start: Start) -> None:
    coordinator = await start()
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    async with web(tenant) as call:
        ask = {"requestId": "1", "capacity": 1, "wait": "30s"}
        poll = asyncio.create_task(call.post(f"/internal/{worker.session}:lease", ask))
        await eventually(lambda: coordinator.node.dispatcher.parked == 1)
        await coordinator.server.stop(5)
        answered = await poll
        assert (answered.code, answered.json["leases"], answered.json["nextPollAfter"]) == (200, [], "0s")


async def test_calls_by_http_and_by_grpc_share_one_bound(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = await start()
    tenant = await coordinator.tenant()
    job = await tenant.create(delay=60)
    async with web(tenant) as call:
        with monkeypatch.context() as patched:
            patched.setattr("rota.domain.limits.RPCS_MAX", 1)
            waiting = asyncio.create_task(call.get(f"/v1/{job.name}:wait", params={"timeout": "10s"}))
            await eventually(lambda: coordinator.node.pressure.waits.total == 1)
            by_grpc = await refusal(tenant.jobs.GetJob(jobs_pb2.GetJobRequest(name=job.name)))
            assert by_grpc.case == ("RESOURCE_EXHAUSTED", "RATE_LIMITED")
            by_http = await call.get(f"/v1/{job.name}")
            assert (by_http.case, by_http.headers["retry-after"]) == ((429, "RESOURCE_EXHAUSTED", "RATE_LIMITED"), "1")
        await tenant.cancel(job)
        assert (await waiting).code == 200


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    if OPENSSL is None:
        pytest.skip("NO TLS WAS TESTED: the program openssl, which makes the certificates, is not installed")
    return Authority(tmp_path_factory.mktemp("tls") / "ours")


async def serial(port: int, authority: Authority) -> int:
    """Of the certificate that is shown."""
    context = ssl.create_default_context(cafile=str(authority.ca.cert))
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    found = writer.get_extra_info("peercert")["serialNumber"]
    writer.close()
    return int(found, 16)


async def test_tls_and_its_renewal(authority: Authority, tmp_path: Path) -> None:
    files = install(authority.issue("first"), Pair(tmp_path / "server.pem", tmp_path / "server.key"))
    async with door({GET: answer}, tls=TlsFiles(files.cert, files.key)) as (_, call):
        port = call.client.base_url.port or 0
        context = ssl.create_default_context(cafile=str(authority.ca.cert))
        async with httpx.AsyncClient(verify=context, trust_env=False) as client:
            url = f"https://localhost:{port}/v1/jobs/a"
            assert (await client.get(url, headers={"Authorization": f"Bearer {KEY}"})).status_code == 200
        first = await serial(port, authority)
        files.cert.write_text("half a certifi")
        assert await serial(port, authority) == first
        install(authority.issue("second"), files)
        assert await serial(port, authority) != first


async def test_mutual_tls_wants_a_certificate(authority: Authority, tmp_path: Path) -> None:
    server, client_pair = authority.issue("server"), authority.issue("client")
    async with door({GET: answer}, tls=TlsFiles(server.cert, server.key, authority.ca.cert)) as (_, call):
        url = f"https://localhost:{call.client.base_url.port}/v1/jobs/a"
        for own, let_in in ((None, False), (client_pair, True)):
            context = ssl.create_default_context(cafile=str(authority.ca.cert))
            if own is not None:
                context.load_cert_chain(own.cert, own.key)
            async with httpx.AsyncClient(verify=context, trust_env=False) as client:
                if let_in:
                    assert (await client.get(url, headers={"Authorization": f"Bearer {KEY}"})).status_code == 200
                else:
                    with pytest.raises(httpx.TransportError):
                        await client.get(url)


async def test_the_document_is_whole() -> None:
    described = json.loads(openapi())
    operations = [each for path in described["paths"].values() for each in path.values()]
    names = [each["operationId"] for each in operations]
    assert len(names) == len(set(names)) == len(http_server.contract().all)
    assert all(
        each["description"] and {"200", "400", "401", "403", "503"} <= set(each["responses"]) for each in operations
    )
