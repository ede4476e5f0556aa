"""Leaving: unstarted jobs go back at once, running ones finish, outcomes are answered, beats go on to the last."""

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from conftest import running
from rota_conformance.script_server import UNAVAILABLE, Refusal, ScriptServer
from rota_sdk import Lease, Release, Stop, Unauthenticated, Worker
from rota_sdk.gen.rota.worker.v1 import worker_pb2

DRAIN, NOW = worker_pb2.CLOSE_MODE_DRAIN, worker_pb2.CLOSE_MODE_NOW


def worker_for(
    server: ScriptServer,
    handler: Any,
    slots: int = 4,
    drain_timeout: float = 5.0,
    unwind_timeout: float | None = None,
) -> Worker:
    worker = Worker(
        ["default"],
        slots,
        address=server.address,
        api_key="k",
        drain_timeout=drain_timeout,
        unwind_timeout=unwind_timeout,
    )
    worker.add("work", handler)
    return worker


def methods(server: ScriptServer, *names: str) -> list[str]:
    """Which of these calls came, in order, closes with their mode."""
    with server.cond:
        return [
            {DRAIN: "drain", NOW: "now"}[call.request.mode] if call.method == "CloseSession" else call.method
            for call in server.calls
            if call.method in names
        ]


def test_running_jobs_finish_and_nothing_new_is_taken(quick: ScriptServer) -> None:
    started, go = threading.Event(), threading.Event()

    def work(lease: Lease) -> str:
        started.set()
        go.wait(5)
        return "finished"

    job = quick.job()
    quick.offer(job)
    with running(worker_for(quick, work)) as run:
        assert started.wait(5)
        quick.wait(lambda: len(quick.of("Lease")) == 2, "the parked poll")
        run.worker.stop()
        quick.wait(lambda: quick.of("CloseSession"), "the drain")
        quick.offer(quick.job())
        seen = len(quick.beats)
        # Longer than the TTL: the lease must be kept alive.
        quick.wait(lambda: len(quick.beats) >= seen + 7, "beats while draining")
        assert run.thread.is_alive()
        go.set()
        run.finish()
    assert quick.result_of(job.job).succeeded.result.data == b"finished"
    assert methods(quick, "CloseSession", "Complete", "Lease") == ["Lease", "Lease", "drain", "Complete", "now"]
    assert len(quick.sessions) == 1 and run.worker.counts()["lost"] == 0


def test_unstarted_jobs_go_back_at_once(server: ScriptServer) -> None:
    """The loop is blocked by the first handler, so the others wait; none of them may wait for it."""
    started, go = threading.Event(), threading.Event()
    ran: list[str] = []

    async def work(lease: Lease) -> None:
        ran.append(lease.job)
        started.set()
        go.wait(5)

    jobs = [server.job() for _ in range(5)]
    server.offer(*jobs)
    with running(worker_for(server, work, slots=8)) as run:
        assert started.wait(5)
        stopped_at = time.monotonic()
        run.worker.stop()
        for job in jobs[1:]:
            assert server.result_of(job.job).WhichOneof("outcome") == "released"
        assert time.monotonic() - stopped_at < 0.5
        go.set()
        run.finish()
    assert server.result_of(jobs[0].job).WhichOneof("outcome") == "succeeded"
    assert ran == [jobs[0].job]


def test_jobs_of_a_poll_answered_during_the_drain_go_back(server: ScriptServer) -> None:
    job = server.job()
    arrived, answer = threading.Event(), threading.Event()

    def late(request: Any, context: Any) -> Any:
        arrived.set()
        answer.wait(5)
        return worker_pb2.LeaseResponse(batch=3, leases=[job])

    server.script("Lease", late)
    server.script("CloseSession", lambda *_: answer.set())
    ran: list[str] = []
    with running(worker_for(server, lambda lease: ran.append(lease.job))) as run:
        assert arrived.wait(5)
        run.worker.stop()
        run.finish()
    assert server.result_of(job.job).WhichOneof("outcome") == "released"
    assert not ran and methods(server, "Lease", "CloseSession") == ["Lease", "drain", "now"]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_after_the_drain_timeout_handlers_are_stopped_and_their_jobs_given_back(
    server: ScriptServer, asynchronous: bool
) -> None:
    started = threading.Event()
    reasons: list[Stop | None] = []

    def work(lease: Lease) -> None:
        started.set()
        lease.wait_cancelled(5)
        reasons.append(lease.stop_reason)
        lease.raise_if_cancelled()

    async def work_async(lease: Lease) -> None:
        started.set()
        try:
            await asyncio.sleep(5)
        finally:
            reasons.append(lease.stop_reason)

    job = server.job()
    server.offer(job)
    with running(worker_for(server, work_async if asynchronous else work, drain_timeout=0.2)) as run:
        assert started.wait(5)
        run.worker.stop()
        run.finish()
    assert reasons == [Stop.LEAVING]
    assert "leaves" in server.result_of(job.job).released.reason


@pytest.mark.parametrize("hurried", [False, True])
def test_a_stopped_handler_gets_the_unwind_timeout_unless_it_is_hurried(server: ScriptServer, hurried: bool) -> None:
    started, stopped, go = threading.Event(), threading.Event(), threading.Event()

    def work(lease: Lease) -> None:
        started.set()
        lease.wait_cancelled(5)
        stopped.set()
        go.wait(20)
        raise Release("unwound")

    job = server.job()
    server.offer(job)
    with running(worker_for(server, work, drain_timeout=0.1, unwind_timeout=20)) as run:
        assert started.wait(5)
        run.worker.stop()
        assert stopped.wait(5)
        if hurried:
            run.worker.stop(at_once=True)
            server.result_of(job.job)
        else:
            # Longer than the default, after which it would be given up.
            run.thread.join(1.5)
            assert not server.results
        go.set()
        run.finish()
    reason = server.result_of(job.job).released.reason
    assert reason == ("the worker leaves before the handler ended" if hurried else "unwound")


@pytest.mark.usefixtures("hasty")
def test_a_handler_that_never_returns_cannot_keep_the_worker(server: ScriptServer) -> None:
    started, go = threading.Event(), threading.Event()

    def work(lease: Lease) -> None:
        started.set()
        go.wait(20)

    job = server.job()
    server.offer(job)
    with running(worker_for(server, work, drain_timeout=0.1)) as run:
        assert started.wait(5)
        run.worker.stop()
        run.finish()
        go.set()
    assert server.result_of(job.job).WhichOneof("outcome") == "released"
    assert methods(server, "CloseSession", "Complete") == ["drain", "Complete", "now"]


@pytest.mark.usefixtures("hasty")
def test_a_stubborn_async_handler_is_cancelled_in_the_end(server: ScriptServer) -> None:
    started = threading.Event()
    cancelled = []

    async def work(lease: Lease) -> None:
        started.set()
        for _ in range(2):
            try:
                await asyncio.sleep(20)
            except asyncio.CancelledError:
                cancelled.append(lease.job)

    job = server.job()
    server.offer(job)
    with running(worker_for(server, work, drain_timeout=0.1)) as run:
        assert started.wait(5)
        run.worker.stop()
        run.finish()
    assert len(cancelled) == 2
    assert [result.job for result in server.results] == [job.job]


def test_outcomes_are_repeated_until_answered_before_the_session_is_closed(server: ScriptServer) -> None:
    server.script("Complete", UNAVAILABLE, Refusal(grpc.StatusCode.UNKNOWN), UNAVAILABLE)
    job = server.job()
    server.offer(job)
    with running(worker_for(server, lambda lease: None)) as run:
        server.wait(lambda: server.of("Complete"), "the outcome")
        run.worker.stop()
        run.finish()
    # gRPC itself repeats UNAVAILABLE.
    order = methods(server, "CloseSession", "Complete")
    assert order[-1] == "now" and order.count("Complete") >= 3
    assert run.worker.counts()["succeeded"] == 1


def test_beats_go_on_until_the_last_outcome_is_answered(quick: ScriptServer) -> None:
    answer = threading.Event()
    quick.script("Complete", lambda *_: answer.wait(8) and None)
    quick.offer(quick.job())
    with running(worker_for(quick, lambda lease: None)) as run:
        quick.wait(lambda: quick.of("Complete"), "the outcome")
        run.worker.stop()
        quick.wait(lambda: quick.of("CloseSession"), "the drain")
        seen = len(quick.beats)
        quick.wait(lambda: len(quick.beats) >= seen + 7, "beats")
        answer.set()
        run.finish()
    assert run.worker.counts() | {"succeeded": 1, "lost": 0} == run.worker.counts()


def test_a_session_lost_during_the_drain_ends_it(quick: ScriptServer) -> None:
    started = threading.Event()

    def work(lease: Lease) -> None:
        started.set()
        lease.wait_cancelled(10)

    quick.offer(quick.job())
    with running(worker_for(quick, work, drain_timeout=30)) as run:
        assert started.wait(5)
        quick.wait(lambda: quick.beats, "beats")
        run.worker.stop()
        quick.wait(lambda: quick.of("CloseSession"), "the drain")
        quick.expire("sessions/s1")
        run.finish()
    assert quick.sessions == ["sessions/s1"] and not quick.results


def test_stopping_before_the_start_and_without_a_server_is_quick() -> None:
    worker = Worker(["default"], 1, address="127.0.0.1:1", api_key="k")
    worker.add("work", lambda lease: None)
    began = time.monotonic()
    with running(worker) as run:
        assert not threading.Event().wait(0.3)
        assert run.thread.is_alive()
        worker.stop()
        run.finish()
    assert time.monotonic() - began < 3
    with running(worker) as run:
        run.finish()


def test_a_refused_session_ends_the_worker_with_the_error(server: ScriptServer) -> None:
    server.script("OpenSession", Refusal(grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED", "no such key"))
    worker = worker_for(server, lambda lease: None)
    with pytest.raises(Unauthenticated, match="no such key"), running(worker) as run:
        run.finish()


def test_opening_is_repeated_with_one_request_id(server: ScriptServer) -> None:
    server.script("OpenSession", Refusal(grpc.StatusCode.UNKNOWN), Refusal(grpc.StatusCode.INTERNAL))
    with running(worker_for(server, lambda lease: None)):
        server.wait(lambda: server.sessions, "a session")
    assert len(server.of("OpenSession")) == 3
    assert len({request.request_id for request in server.of("OpenSession")}) == 1


def test_unreadable_tls_files_are_named(server: ScriptServer) -> None:
    from rota_sdk import Tls

    worker = Worker(address=server.address, tls=Tls(ca="/nowhere/ca.pem"))
    worker.add("work", lambda lease: None)
    with pytest.raises(FileNotFoundError, match=r"ca\.pem"), running(worker) as run:
        run.finish()


async def test_cancelling_serve_leaves_at_once(server: ScriptServer) -> None:
    worker = worker_for(server, lambda lease: lease.wait_cancelled(10), drain_timeout=30)
    job = server.job()
    server.offer(job)
    serving = asyncio.create_task(worker.serve())
    await asyncio.to_thread(server.wait, lambda: len(server.of("Lease")) >= 2)
    began = time.monotonic()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert time.monotonic() - began < 2
    assert server.of("CloseSession")[-1].mode == NOW


@contextmanager
def process(server: ScriptServer, drain_timeout: float = 10.0) -> Iterator["subprocess.Popen[str]"]:
    program = Path(__file__).parent / "drain_program.py"
    child = subprocess.Popen(
        [sys.executable, str(program), server.address, str(drain_timeout)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_drains_a_process(quick: ScriptServer, number: int) -> None:
    job = quick.job("finish", payload={"data": b"1.5"})
    quick.offer(job)
    with process(quick) as child:
        quick.wait(lambda: len(quick.of("Lease")) == 2 and quick.beats, "the job")
        signalled_at = time.monotonic()
        child.send_signal(number)
        out, err = child.communicate(timeout=15)
    assert child.returncode == 0 and out == "left in order\n", err
    assert quick.result_of(job.job).succeeded.result.data == b"finished"
    assert methods(quick, "CloseSession", "Complete") == ["drain", "Complete", "now"]
    beats = [call.at for call in quick.calls if call.method == "Heartbeat" and call.at > signalled_at]
    last = max(call.at for call in quick.calls)
    assert beats and last - beats[-1] <= 0.5
    assert "Traceback" not in err


def test_a_signal_is_heeded_although_the_event_loop_is_blocked(quick: ScriptServer) -> None:
    blocking, waiting = quick.job("block"), quick.job("block")
    quick.offer(blocking, waiting)
    with process(quick) as child:
        quick.wait(lambda: len(quick.of("Lease")) == 2 and quick.beats, "the jobs")
        child.send_signal(signal.SIGTERM)
        assert quick.result_of(waiting.job).WhichOneof("outcome") == "released"
        assert not [result for result in quick.results if result.job == blocking.job]
        out, err = child.communicate("go on\n", timeout=15)
    assert child.returncode == 0 and out == "left in order\n", err
    assert quick.result_of(blocking.job).succeeded.result.data == b"the loop was blocked"


def test_a_second_signal_leaves_at_once(quick: ScriptServer) -> None:
    job = quick.job("deaf")
    quick.offer(job)
    with process(quick, 60.0) as child:
        quick.wait(lambda: len(quick.of("Lease")) == 2, "the job")
        child.send_signal(signal.SIGTERM)
        quick.wait(lambda: quick.of("CloseSession"), "the drain")
        began = time.monotonic()
        child.send_signal(signal.SIGTERM)
        out, err = child.communicate(timeout=15)
    assert time.monotonic() - began < 4
    assert child.returncode == 0 and out == "left in order\n", err
    assert quick.result_of(job.job).WhichOneof("outcome") == "released"
    assert methods(quick, "CloseSession")[-1] == "now"


def test_many_workers_that_leave_at_once_leave_no_connection_and_no_thread(server: ScriptServer) -> None:
    """Each has a parked poll and a stream with a pending read."""
    with ExitStack() as stack:
        runs = []
        for _ in range(12):
            worker = worker_for(server, lambda lease: None)
            runs.append(stack.enter_context(running(worker)))
        server.wait(lambda: len(server.of("Lease")) == 12 and len(server.hellos) == 12, "all polls")
        for run in runs:
            run.worker.stop(at_once=True)
        for run in runs:
            run.finish()
    port = int(server.address.rpartition(":")[2])

    def established() -> list[object]:
        every = psutil.Process().net_connections("tcp")
        return [c for c in every if c.status == psutil.CONN_ESTABLISHED and c.raddr and c.raddr.port == port]

    until = time.monotonic() + 5
    while established() and time.monotonic() < until:
        threading.Event().wait(0.02)
    assert not established()


def test_a_worker_does_not_run_twice_at_a_time(server: ScriptServer) -> None:
    worker = worker_for(server, lambda lease: None)
    with running(worker) as run:
        server.wait(lambda: server.sessions, "a session")
        with pytest.raises(RuntimeError, match="already"):
            asyncio.run(worker.serve())
        assert run.thread.is_alive()
