"""Watching jobs, by both clients: every change comes, over streams that end in any way."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from rota_conformance.script_server import Refusal
from rota_sdk import AsyncClient, Client, ConnectionFailed, FailedPrecondition, JobState
from rota_sdk.gen.rota.v1 import jobs_pb2
from script_jobs import ScriptJobs

C = grpc.StatusCode

Take = Callable[..., list[tuple[str, str]]]


@pytest.fixture
def jobs(no_thread_stays: None) -> Iterator[ScriptJobs]:
    server = ScriptJobs()
    yield server
    server.close()


def take(address: str, count: int, **arguments: Any) -> list[tuple[str, str]]:
    """The first changes of a watch: names and tokens."""
    with Client(address, api_key="k") as client, client.watch_jobs(**arguments) as watch:
        found = []
        for change in watch:
            found.append((change.job.name, change.resume_token))
            if len(found) == count:
                break
        return found


def take_async(address: str, count: int, **arguments: Any) -> list[tuple[str, str]]:
    async def work() -> list[tuple[str, str]]:
        async with AsyncClient(address, api_key="k") as client, client.watch_jobs(**arguments) as watch:
            found = []
            async for change in watch:
                found.append((change.job.name, change.resume_token))
                if len(found) == count:
                    break
            return found

    return asyncio.run(work())


@pytest.fixture(params=[take, take_async])
def taken(request: pytest.FixtureRequest) -> Take:
    found: Take = request.param
    return found


def message(number: int) -> jobs_pb2.WatchJobsResponse:
    job = jobs_pb2.Job(name=f"jobs/{number}", state=jobs_pb2.JOB_STATE_READY)
    return jobs_pb2.WatchJobsResponse(job=job, resume_token=f"t{number}")


def silence(token: str) -> jobs_pb2.WatchJobsResponse:
    return jobs_pb2.WatchJobsResponse(resume_token=token)


def streams(*of: list[Any]) -> Any:
    """An answer for each stream in turn: its messages, then its end where that is a refusal."""
    left = list(of)

    def answer(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        for item in left.pop(0) if left else [Refusal(C.FAILED_PRECONDITION, "INVALID_STATE", "no more")]:
            if isinstance(item, Refusal):
                item.abort(context)
            yield item

    return answer


DRAINING = Refusal(C.UNAVAILABLE, "DRAINING", "leaving")


def test_a_watch_goes_on_where_the_stream_ended(jobs: ScriptJobs, taken: Take) -> None:
    jobs.answer(
        "WatchJobs",
        streams(
            [silence("t0"), message(1), message(2), DRAINING],
            [DRAINING],
            [silence("t2"), Refusal(C.INTERNAL, "", "reset")],
            [silence("t3"), message(4)],
            [message(5)],
        ),
    )
    found = taken(jobs.address, 4, queue="q", type="t")
    assert found == [("jobs/1", "t1"), ("jobs/2", "t2"), ("jobs/4", "t4"), ("jobs/5", "t5")]
    asked = jobs.of("WatchJobs")
    assert [request.resume_token for request in asked] == ["", "t2", "t2", "t2", "t4"]
    assert {(request.queue, request.type) for request in asked} == {("q", "t")}


def test_a_watch_begins_at_a_token(jobs: ScriptJobs, taken: Take) -> None:
    jobs.answer("WatchJobs", streams([message(8)]))
    assert taken(jobs.address, 1, resume_token="t7") == [("jobs/8", "t8")]
    assert [request.resume_token for request in jobs.of("WatchJobs")] == ["t7"]


def test_changes_that_are_gone_are_told(jobs: ScriptJobs, taken: Take) -> None:
    jobs.answer(
        "WatchJobs",
        streams([message(1), DRAINING], [Refusal(C.FAILED_PRECONDITION, "INVALID_STATE", "not kept any more")]),
    )
    with pytest.raises(FailedPrecondition, match="not kept any more"):
        taken(jobs.address, 2)


def test_a_watch_that_cannot_begin_is_told_at_once(taken: Take) -> None:
    with pytest.raises(ConnectionFailed):
        taken("127.0.0.1:1", 1)


def test_a_job_comes_as_everywhere_and_silence_moves_the_token(jobs: ScriptJobs) -> None:
    jobs.answer("WatchJobs", streams([silence("t0"), message(1), silence("t9"), DRAINING], [message(10)]))
    with Client(jobs.address, api_key="k") as client, client.watch_jobs() as watch:
        first = next(watch)
        assert (first.job.name, first.job.state) == ("jobs/1", JobState.READY)
        assert watch.resume_token == "t1"
        assert next(watch).job.name == "jobs/10"
        assert jobs.of("WatchJobs")[1].resume_token == "t9"


def test_a_watch_is_closed_from_another_thread(jobs: ScriptJobs) -> None:
    arrived, over = threading.Event(), threading.Event()

    def answer(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        context.add_callback(over.set)
        yield message(1)
        over.wait(20)

    jobs.answer("WatchJobs", answer)
    with Client(jobs.address, api_key="k") as client:
        watch = client.watch_jobs()
        found: list[str] = []

        def read() -> None:
            for change in watch:
                found.append(change.job.name)
                arrived.set()

        reader = threading.Thread(target=read)
        reader.start()
        assert arrived.wait(10)
        watch.close()
        reader.join(10)
        assert not reader.is_alive() and found == ["jobs/1"]
        assert over.wait(10)


async def test_a_watch_is_closed_from_the_loop(jobs: ScriptJobs) -> None:
    def answer(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        over = threading.Event()
        context.add_callback(over.set)
        yield message(1)
        over.wait(20)

    jobs.answer("WatchJobs", answer)
    async with AsyncClient(jobs.address, api_key="k") as client:
        watch = client.watch_jobs()
        assert (await anext(watch)).job.name == "jobs/1"
        pending = asyncio.ensure_future(anext(watch, None))
        await asyncio.sleep(0.1)
        watch.close()
        assert await asyncio.wait_for(pending, 5) is None
        # One that is cancelled stays cancelled.
        other = client.watch_jobs()
        await anext(other)
        waiting = asyncio.ensure_future(anext(other))
        await asyncio.sleep(0.1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        other.close()
