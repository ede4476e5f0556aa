"""Cancellation and run timeouts: what handlers see, and which outcome wins."""

import asyncio
import contextlib
import threading
import time
from typing import Any

import pytest
from conftest import running
from rota_conformance.script_server import ScriptServer
from rota_sdk import Cancelled, EffectState, Fatal, Lease, Stop, Worker
from rota_sdk.gen.rota.worker.v1 import worker_pb2

CANCEL = worker_pb2.DIRECTIVE_KIND_CANCEL


def worker_for(server: ScriptServer, handler: Any, slots: int = 4, interrupt: bool = True) -> Worker:
    worker = Worker(["default"], slots, address=server.address, api_key="k")
    worker.add("work", handler, interrupt=interrupt)
    return worker


def cancelled_result(server: ScriptServer, handler: Any, started: threading.Event, **options: Any) -> Any:
    """What is reported of a job that is cancelled while `handler` runs."""
    job = server.job()
    server.offer(job)
    with running(worker_for(server, handler, **options)):
        assert started.wait(5)
        server.wait(lambda: server.hellos, "the stream")
        number = server.direct(CANCEL, job.job, job.fence, "by the user")
        server.wait(lambda: any(number in beat.acked_directives for beat in server.beats), "the acknowledgement")
        return server.result_of(job.job)


def test_a_blocking_handler_that_heeds_cancellation_ends_cancelled(server: ScriptServer) -> None:
    started = threading.Event()

    def work(lease: Lease) -> None:
        started.set()
        assert lease.wait_cancelled(5)
        assert lease.cancelled and lease.stop_reason is Stop.CANCEL
        lease.raise_if_cancelled()

    assert cancelled_result(server, work, started).cancelled.reason == "cancel"


def test_an_async_handler_is_interrupted_where_it_waits(server: ScriptServer) -> None:
    started = threading.Event()
    cleaned = threading.Event()

    async def work(lease: Lease) -> None:
        started.set()
        try:
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(0)
            cleaned.set()

    assert cancelled_result(server, work, started).WhichOneof("outcome") == "cancelled"
    assert cleaned.is_set()


def test_an_async_handler_may_ask_not_to_be_interrupted(server: ScriptServer) -> None:
    started = threading.Event()

    async def work(lease: Lease) -> str:
        assert not await lease.until_cancelled(0.01)
        started.set()
        assert await lease.until_cancelled(5)
        return "finished properly"

    result = cancelled_result(server, work, started, interrupt=False)
    assert result.succeeded.result.data == b"finished properly"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_handlers_own_success_wins_over_cancellation(server: ScriptServer, asynchronous: bool) -> None:
    started = threading.Event()

    def work(lease: Lease) -> str:
        started.set()
        assert lease.wait_cancelled(5)
        return "done anyway"

    async def work_async(lease: Lease) -> str:
        started.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(30)
        return "done anyway"

    result = cancelled_result(server, work_async if asynchronous else work, started)
    assert result.succeeded.result.data == b"done anyway"


def test_a_failure_after_cancellation_is_reported_as_it_is(server: ScriptServer) -> None:
    started = threading.Event()

    def work(lease: Lease) -> None:
        started.set()
        lease.wait_cancelled(5)
        raise Fatal("half done")

    failed = cancelled_result(server, work, started).failed
    assert (failed.failure.type, failed.retryable) == ("Fatal", False)


def test_cancelled_without_being_asked_is_a_failure(server: ScriptServer) -> None:
    def work(lease: Lease) -> None:
        raise Cancelled("of its own accord")

    job = server.job()
    server.offer(job)
    with running(worker_for(server, work)):
        assert server.result_of(job.job).failed.failure.type == "Cancelled"


def test_a_job_cancelled_before_its_handler_starts_never_starts(server: ScriptServer) -> None:
    """The loop is busy with another handler while the directive arrives."""
    started, go = threading.Event(), threading.Event()
    ran: list[str] = []

    async def work(lease: Lease) -> None:
        ran.append(lease.job)
        started.set()
        go.wait(5)

    first, second = server.job(), server.job()
    server.offer(first, second)
    with running(worker_for(server, work)):
        assert started.wait(5)
        server.wait(lambda: server.hellos, "the stream")
        number = server.direct(CANCEL, second.job, second.fence)
        server.wait(lambda: any(number in beat.acked_directives for beat in server.beats), "the acknowledgement")
        go.set()
        assert server.result_of(second.job).WhichOneof("outcome") == "cancelled"
        assert server.result_of(first.job).WhichOneof("outcome") == "succeeded"
    assert ran == [first.job]


def test_cancelling_another_fence_or_a_finished_job_does_nothing(server: ScriptServer) -> None:
    started, go = threading.Event(), threading.Event()
    seen: list[bool] = []

    def work(lease: Lease) -> None:
        started.set()
        go.wait(5)
        seen.append(lease.cancelled)

    job = server.job()
    server.offer(job)
    with running(worker_for(server, work)):
        assert started.wait(5)
        server.wait(lambda: server.hellos, "the stream")
        numbers = [server.direct(CANCEL, job.job, job.fence - 1), server.direct(CANCEL, "jobs/none", 1)]
        server.wait(
            lambda: all(any(n in beat.acked_directives for beat in server.beats) for n in numbers), "both acknowledged"
        )
        go.set()
        server.result_of(job.job)
    assert seen == [False]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_handler_is_stopped_at_its_run_timeout(server: ScriptServer, asynchronous: bool) -> None:
    began: list[float] = []

    def work(lease: Lease) -> None:
        began.append(time.monotonic())
        assert lease.wait_cancelled(5)
        assert lease.stop_reason is Stop.TIMED_OUT and lease.remaining() == 0.0
        lease.raise_if_cancelled()

    async def work_async(lease: Lease) -> None:
        began.append(time.monotonic())
        await asyncio.sleep(5)

    job = server.job(run_timeout=0.2)
    server.offer(job)
    with running(worker_for(server, work_async if asynchronous else work)):
        failed = server.result_of(job.job).failed
    assert 0.15 <= time.monotonic() - began[0] <= 1.0
    assert failed.failure.type == "TimedOut" and "0.2 s" in failed.failure.message
    assert failed.retryable and failed.effect_state == EffectState.UNKNOWN


@pytest.mark.usefixtures("hasty")
def test_a_handler_that_ignores_its_run_timeout_is_given_up(server: ScriptServer) -> None:
    """Its failure is reported although it runs on; it keeps its slot, and its late result is dropped."""
    go = threading.Event()
    both = threading.Barrier(2)
    jobs = [server.job(run_timeout=0.1), server.job()]

    def work(lease: Lease) -> str:
        if lease.job == jobs[0].job:
            go.wait(10)
        elif lease.job != jobs[1].job:
            both.wait(5)
        return "too late"

    server.offer(jobs[0])
    with running(worker_for(server, work, slots=2)) as run:
        assert server.result_of(jobs[0].job).failed.failure.type == "TimedOut"
        server.offer(jobs[1])
        server.result_of(jobs[1].job)
        server.wait(lambda: len(server.of("Lease")) >= 3, "the next poll")
        assert server.of("Lease")[-1].capacity == 1
        go.set()
        last = [server.job(), server.job()]
        server.offer(*last)
        # They need both slots at a time.
        for job in last:
            assert server.result_of(job.job).WhichOneof("outcome") == "succeeded"
        run.worker.stop()
        run.finish()
        counts = run.worker.counts()
    assert [result.job for result in server.results].count(jobs[0].job) == 1
    assert counts["failed"] == 1


@pytest.mark.usefixtures("hasty")
def test_a_job_that_waits_for_a_blocked_loop_beyond_its_run_timeout_is_given_back(server: ScriptServer) -> None:
    started, go = threading.Event(), threading.Event()
    ran: list[str] = []

    async def work(lease: Lease) -> None:
        ran.append(lease.job)
        started.set()
        go.wait(5)

    blocking, waiting = server.job(), server.job(run_timeout=0.1)
    server.offer(blocking, waiting)
    with running(worker_for(server, work)):
        assert started.wait(5)
        result = server.result_of(waiting.job)
        go.set()
        server.result_of(blocking.job)
    assert result.released.reason == "it could not be started in time"
    assert ran == [blocking.job] and [r.job for r in server.results].count(waiting.job) == 1


def test_the_run_timeout_counts_from_receipt_not_from_the_parked_request(server: ScriptServer) -> None:
    """The poll waits longer than the run timeout; the job still gets all of it."""
    job = server.job(run_timeout=0.4)
    seen: list[float] = []

    def work(lease: Lease) -> None:
        seen.append(lease.remaining())

    with running(worker_for(server, work)):
        server.wait(lambda: server.of("Lease"), "a poll")
        assert not threading.Event().wait(0.5)
        server.offer(job)
        assert server.result_of(job.job).WhichOneof("outcome") == "succeeded"
    assert 0.3 < seen[0] <= 0.4


def test_blocking_waits_are_refused_on_the_event_loop(server: ScriptServer) -> None:
    async def work(lease: Lease) -> None:
        lease.wait_cancelled(5)

    job = server.job()
    server.offer(job)
    with running(worker_for(server, work)):
        failed = server.result_of(job.job).failed
    assert failed.failure.type == "RuntimeError" and "until_cancelled" in failed.failure.message
