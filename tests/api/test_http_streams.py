"""Server streams as server-sent events: resumed by the last id, held back by a slow client, ended with either side."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from google.rpc import status_pb2
from rota_sdk.gen.rota.v1 import jobs_pb2

from rota.api.errors import abort
from rota.api.http import app, sse
from rota.domain.errors import FailedPrecondition, Unavailable

from .doors import door, refusing
from .web import Web

pytestmark = pytest.mark.asyncio(loop_scope="session")

WATCH = "rota.v1.JobService/WatchJobs"
Handler = Callable[[Any, Any], Awaitable[None]]


def change(number: int) -> jobs_pb2.WatchJobsResponse:
    return jobs_pb2.WatchJobsResponse(job=jobs_pb2.Job(name=f"jobs/{number}"), resume_token=f"t{number}")


@asynccontextmanager
async def events(
    call: Web, path: str = "/v1/jobs:watch", **headers: str
) -> AsyncIterator[AsyncIterator[dict[str, str]]]:
    """The events of a stream, each by its fields; comments are fields without a name."""
    given = call.headers | headers
    async with call.client.stream("GET", path, headers=given) as answer:
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        yield _events(answer)


async def _events(answer: httpx.Response) -> AsyncIterator[dict[str, str]]:
    found: dict[str, str] = {}
    async for line in answer.aiter_lines():
        if line:
            name, _, value = line.partition(":")
            found[name] = value.strip()
        elif found:
            yield found
            found = {}


async def test_a_message_is_an_event_with_its_token() -> None:
    seen: list[jobs_pb2.WatchJobsRequest] = []

    async def watch(request: jobs_pb2.WatchJobsRequest, context: Any) -> None:
        seen.append(request)
        for number in range(3):
            await context.write(change(number))

    async with door({WATCH: watch}) as (_, call), events(call, "/v1/jobs:watch?queue=q&resumeToken=a") as found:
        first, *rest = [event async for event in found]
        assert first == {"retry": "1000"}
        assert [event["id"] for event in rest] == ["t0", "t1", "t2"]
        body = json.loads(rest[2]["data"])
        assert (body["job"]["name"], body["resumeToken"]) == ("jobs/2", "t2")
    assert (seen[0].queue, seen[0].resume_token) == ("q", "a")


async def test_a_client_that_reconnects_goes_on_from_its_last_event_whatever_its_url_says() -> None:
    seen: list[str] = []

    async def watch(request: jobs_pb2.WatchJobsRequest, context: Any) -> None:
        seen.append(request.resume_token)
        await context.write(change(1))

    async with door({WATCH: watch}) as (_, call):
        for headers in ({}, {"Last-Event-ID": "t1"}):
            async with events(call, "/v1/jobs:watch?resumeToken=old", **headers) as found:
                assert len([event async for event in found]) == 2
    assert seen == ["old", "t1"]


async def test_a_refusal_before_the_first_event_is_an_answer() -> None:
    refusal = FailedPrecondition("the token is too old")
    async with door({WATCH: refusing(refusal)}) as (_, call):
        assert (await call.get("/v1/jobs:watch")).case == (400, "FAILED_PRECONDITION", "INVALID_STATE")
        assert (await call.get("/v1/jobs:watch", headers={"Authorization": "x"})).code == 401
        assert (await call("HEAD", "/v1/jobs:watch")).code == 405


async def test_a_refusal_after_it_is_an_event() -> None:
    async def watch(request: Any, context: Any) -> None:
        await context.write(change(1))
        await abort(context, Unavailable("leaving", reason="DRAINING", retry_after_s=0.5))

    async with door({WATCH: watch}) as (_, call), events(call) as found:
        *_, last = [event async for event in found]
    assert last["event"] == "error"
    error = json.loads(last["data"])["error"]
    assert (error["code"], error["status"], error["details"][0]["reason"]) == (503, "UNAVAILABLE", "DRAINING")


async def test_silence_is_broken_by_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "KEEP_ALIVE_S", 0.05)
    monkeypatch.setattr(sse, "OPEN_S", 0.05)
    asked = asyncio.Event()

    async def watch(request: Any, context: Any) -> None:
        await asked.wait()
        await context.write(change(1))

    async with door({WATCH: watch}) as (_, call), events(call) as found:
        assert await anext(found) == {"retry": "1000"}
        assert await anext(found) == {"": "still here"}
        asked.set()
        while "id" not in (event := await anext(found)):
            assert event == {"": "still here"}
        assert event["id"] == "t1"


async def test_a_client_that_is_gone_ends_the_call() -> None:
    ended = asyncio.Event()

    async def watch(request: Any, context: Any) -> None:
        try:
            await context.write(change(1))
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with door({WATCH: watch}) as (_, call):
        async with events(call) as found:
            await anext(found)
            await anext(found)
            assert not ended.is_set()
        await asyncio.wait_for(ended.wait(), 5)


async def test_a_client_that_reads_nothing_holds_the_source_back() -> None:
    written = 0
    big = jobs_pb2.WatchJobsResponse(job=jobs_pb2.Job(type="x" * 100_000))

    async def watch(request: Any, context: Any) -> None:
        nonlocal written
        while True:
            await context.write(big)
            written += 1

    async with door({WATCH: watch}) as (_, call):
        _, writer = await asyncio.open_connection("127.0.0.1", call.client.base_url.port, limit=1)
        writer.write(b"GET /v1/jobs:watch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k\r\n\r\n")
        before = -1
        async with asyncio.timeout(15):
            while not written:
                await asyncio.sleep(0.01)
            while written != before:
                before = written
                await asyncio.sleep(0.5)
        # What the kernel's buffers take, and nothing beyond.
        assert 0 < written < 200
        writer.close()


async def test_the_number_of_streams_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "STREAMS_MAX", 1)

    async def watch(request: Any, context: Any) -> None:
        await context.write(change(1))
        await asyncio.Event().wait()

    async with door({WATCH: watch}) as (_, call), events(call) as found:
        await anext(found)
        more = await call.get("/v1/jobs:watch")
        assert (more.case, more.headers["retry-after"]) == ((429, "RESOURCE_EXHAUSTED", "RATE_LIMITED"), "5")


async def test_a_stop_ends_streams_with_a_word() -> None:
    async def watch(request: Any, context: Any) -> None:
        await context.write(change(1))
        await asyncio.Event().wait()

    async with door({WATCH: watch}) as (found, call), events(call) as stream:
        await anext(stream)
        await anext(stream)
        stop = asyncio.create_task(found.stop(5))
        last = await anext(stream)
        assert (last["event"], json.loads(last["data"])["error"]["details"][0]["reason"]) == ("error", "DRAINING")
        await asyncio.wait_for(stop, 5)


async def test_a_stream_is_opened_anew_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "STREAM_S_MAX", 0.5)

    async def watch(request: Any, context: Any) -> None:
        for _ in range(5):
            await context.write(change(1))
        while True:
            await asyncio.sleep(0.05)
            await context.write(change(1))

    async with door({WATCH: watch}) as (_, call), events(call) as found:
        all_of_them = [event async for event in found]
    assert len(all_of_them) > 3
    assert "event" not in all_of_them[-1]


async def test_a_status_without_details_is_told_all_the_same() -> None:
    told = sse._failure(status_pb2.Status(code=14, message="gone"))
    assert json.loads(told.split(b"data: ")[1])["error"]["code"] == 503
