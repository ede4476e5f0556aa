"""Outcomes on their way: batched, repeated under the same request_id, and never in each other's way."""

import threading
from typing import Any

import grpc
import pytest
from conftest import running
from rota_conformance.script_server import STALE_FENCE, UNAVAILABLE, Refusal, ScriptServer
from rota_sdk import Lease, NewJob, Worker, limits
from rota_sdk.completions import Completions
from rota_sdk.counters import Counters
from rota_sdk.gen.rota.worker.v1 import worker_pb2
from rota_sdk.outcome import succeeded
from rota_sdk.session import Session
from rota_sdk.slots import Slots

INVALID = Refusal(
    grpc.StatusCode.INVALID_ARGUMENT, "VALIDATION_FAILED", "bad", violations={"results[0].spawned[0].job.type": "empty"}
)


def worker_for(server: ScriptServer, handler: Any = None, slots: int = 8) -> Worker:
    worker = Worker(["default"], slots, address=server.address, api_key="k")
    worker.add("work", handler or (lambda lease: lease.id))
    return worker


def test_outcomes_of_many_jobs_share_few_calls(server: ScriptServer) -> None:
    jobs = [server.job() for _ in range(1200)]
    server.offer(*jobs)
    with running(worker_for(server, slots=600)):
        server.wait(lambda: len(server.results) == 1200, "all outcomes")
    sizes = [len(request.results) for request in server.of("Complete")]
    assert max(sizes) <= limits.RESULTS_PER_CALL
    assert len(sizes) <= 40, sizes
    assert len({result.request_id for result in server.results}) == 1200


def test_a_lone_outcome_does_not_wait_for_company(server: ScriptServer) -> None:
    with running(worker_for(server, slots=1)):
        server.wait(lambda: server.of("Lease"), "a poll")
        for _ in range(5):
            job = server.job()
            server.offer(job)
            server.result_of(job.job)
    assert [len(request.results) for request in server.of("Complete")] == [1] * 5


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(
    "failure",
    [
        UNAVAILABLE,
        Refusal(grpc.StatusCode.UNKNOWN),
        Refusal(grpc.StatusCode.INTERNAL),
        Refusal(grpc.StatusCode.DEADLINE_EXCEEDED),
        Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "RATE_LIMITED", retry_after=0.02),
        Refusal(grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED"),
    ],
    ids=lambda failure: failure.code.name,
)
def test_a_failed_call_is_repeated_with_the_same_request_ids(server: ScriptServer, failure: Refusal) -> None:
    server.script("Complete", failure)
    jobs = [server.job(), server.job()]
    server.offer(*jobs)
    with running(worker_for(server)) as run:
        server.wait(lambda: len(server.of("Complete")) >= 2, "a repetition")
        server.wait(lambda: {r.job for r in server.results} == {j.job for j in jobs}, "all outcomes")
        run.worker.stop()
        run.finish()
    ids: dict[str, set[str]] = {}
    for result in server.results:
        ids.setdefault(result.job, set()).add(result.request_id)
    assert all(len(found) == 1 for found in ids.values())
    assert run.worker.counts()["succeeded"] == 2


def test_an_answer_that_was_lost_counts_once(server: ScriptServer) -> None:
    """The outcome was accepted, the answer lost: the repetition is marked duplicate."""

    def lose(request: Any, context: Any) -> None:
        for result in request.results:
            server._answered[result.request_id] = worker_pb2.ResultStatus()
        raise Refusal(grpc.StatusCode.UNKNOWN)

    server.script("Complete", lose)
    job = server.job()
    server.offer(job)
    worker = worker_for(server)
    with running(worker) as run:
        server.wait(lambda: len(server.of("Complete")) == 2, "a repetition")
        worker.stop()
        run.finish()
    counts = worker.counts()
    assert (counts["succeeded"], counts["duplicates"], counts["repeated"]) == (1, 1, 1)


def test_one_status_each_and_only_the_refused_one_goes_again(server: ScriptServer) -> None:
    gate = threading.Event()

    def together(lease: Lease) -> None:
        gate.wait(5)

    jobs = [server.job() for _ in range(4)]
    late, stale, fine, broken = jobs
    server.answer_for(late.job, UNAVAILABLE, UNAVAILABLE)
    server.answer_for(stale.job, STALE_FENCE)
    server.answer_for(broken.job, INVALID)
    server.offer(*jobs)
    worker = worker_for(server, together)
    with running(worker) as run:
        server.wait(lambda: len(server.of("Lease")) == 2, "all jobs")
        gate.set()
        server.wait(lambda: [r.job for r in server.results].count(late.job) == 3, "the repetitions")
        server.wait(lambda: [r.job for r in server.results].count(broken.job) == 2, "the failure instead")
        worker.stop()
        run.finish()
    by_job = {job.job: [r for r in server.results if r.job == job.job] for job in jobs}
    assert len(by_job[fine.job]) == len(by_job[stale.job]) == 1
    assert len({r.request_id for r in by_job[late.job]}) == 1
    first, instead = by_job[broken.job]
    assert first.request_id != instead.request_id
    assert instead.failed.failure.type == "OutcomeRejected" and not instead.failed.retryable
    # People see which field was at fault.
    assert "spawned[0].job.type" in instead.failed.failure.message
    counts = worker.counts()
    assert (counts["succeeded"], counts["failed"], counts["dropped"], counts["lost"]) == (2, 1, 1, 1)
    assert counts["rejected"] == 1


def test_a_call_refused_for_one_outcome_is_split_until_the_others_pass(server: ScriptServer) -> None:
    jobs = [server.job() for _ in range(8)]
    poison = jobs[5].job

    def check(request: Any, context: Any) -> None:
        if any(r.job == poison and r.WhichOneof("outcome") == "succeeded" for r in request.results):
            raise INVALID

    gate = threading.Event()
    server.script("Complete", *[check] * 20)
    server.offer(*jobs)
    with running(worker_for(server, lambda lease: gate.wait(5))):
        server.wait(lambda: len(server.of("Lease")) == 1 and server.hellos, "all jobs")
        gate.set()
        server.wait(lambda: any(r.failed.failure.type == "OutcomeRejected" for r in server.results), "the failure")
        accepted = {
            result.job
            for request in server.of("Complete")
            if not any(r.job == poison and r.WhichOneof("outcome") == "succeeded" for r in request.results)
            for result in request.results
        }
    assert accepted == {job.job for job in jobs}


def test_an_outcome_that_is_refused_even_as_a_failure_is_dropped(server: ScriptServer) -> None:
    job, other = server.job(), server.job()
    server.answer_for(job.job, INVALID, INVALID)
    server.offer(job, other)
    worker = worker_for(server)
    with running(worker) as run:
        server.wait(lambda: [r.job for r in server.results].count(job.job) == 2, "both tries")
        server.result_of(other.job)
        worker.stop()
        run.finish()
    counts = worker.counts()
    assert (counts["rejected"], counts["dropped"], counts["succeeded"]) == (2, 1, 1)


@pytest.mark.parametrize(
    "refusal",
    [
        Refusal(grpc.StatusCode.ABORTED, "OUTCOME_CONFLICT", metadata={"stored": "FAILED"}),
        Refusal(grpc.StatusCode.ABORTED, "NOT_LEASE_OWNER"),
        Refusal(grpc.StatusCode.ALREADY_EXISTS, "REQUEST_ID_REUSED"),
    ],
    ids=lambda refusal: refusal.reason,
)
def test_final_refusals_are_never_repeated(server: ScriptServer, refusal: Refusal) -> None:
    job, other = server.job(), server.job()
    server.answer_for(job.job, refusal)
    worker = worker_for(server)
    server.offer(job)
    with running(worker) as run:
        server.result_of(job.job)
        server.offer(other)
        server.result_of(other.job)
        worker.stop()
        run.finish()
    assert [result.job for result in server.results] == [job.job, other.job]
    assert worker.counts()["dropped"] == 1


def test_requests_stay_below_the_servers_receive_limit(server: ScriptServer) -> None:
    """200 results of 64 KiB are 12.5 MiB; the server takes 4."""
    jobs = [server.job() for _ in range(200)]
    server.offer(*jobs)
    with running(worker_for(server, lambda lease: b"x" * limits.RESULT_BYTES, slots=200)):
        server.wait(lambda: len(server.results) == 200, "all outcomes")
    sizes = [request.ByteSize() for request in server.of("Complete")]
    # Filled up, so that the server had to refuse none.
    assert 0.95 * limits.SEND_BYTES < max(sizes) <= limits.SEND_BYTES


def test_the_largest_lone_outcome_fits(server: ScriptServer) -> None:
    def work(lease: Lease) -> bytes:
        for _ in range(12):
            lease.spawn(NewJob("next", b"x" * 256 * 1024))
        return b"y" * limits.RESULT_BYTES

    job = server.job()
    server.offer(job)
    with running(worker_for(server, work)):
        assert len(server.result_of(job.job).spawned) == 12


def test_a_server_with_a_smaller_limit_splits_the_call(server: ScriptServer) -> None:
    """gRPC refuses a large request without a word of Rota's; halves of it may pass."""
    too_large = Refusal(
        grpc.StatusCode.RESOURCE_EXHAUSTED, message="CLIENT: Received message larger than max (9 vs. 4)"
    )

    def check(request: Any, context: Any) -> None:
        if len(request.results) > 2:
            raise too_large

    server.script("Complete", *[check] * 40)
    gate = threading.Event()
    jobs = [server.job() for _ in range(8)]
    server.offer(*jobs)
    worker = worker_for(server, lambda lease: gate.wait(5))
    with running(worker) as run:
        server.wait(lambda: server.hellos, "the stream")
        gate.set()
        server.wait(
            lambda: (
                {r.job for q in server.of("Complete") if len(q.results) <= 2 for r in q.results}
                == {job.job for job in jobs}
            ),
            "all outcomes",
        )
        worker.stop()
        run.finish()
    assert worker.counts()["succeeded"] == 8


def test_a_malformed_answer_does_not_end_reporting(server: ScriptServer) -> None:
    server.script("Complete", lambda *_: worker_pb2.CompleteResponse())
    job = server.job()
    server.offer(job)
    worker = worker_for(server)
    with running(worker) as run:
        server.wait(lambda: len(server.of("Complete")) == 2, "a repetition")
        worker.stop()
        run.finish()
    assert worker.counts()["succeeded"] == 1


def test_repetitions_end_with_the_life_of_the_lease(quick: ScriptServer) -> None:
    """The coordinator takes no outcome while it answers beats, then loses the session."""
    quick.script("Complete", *[UNAVAILABLE] * 1000)
    job = quick.job()
    quick.offer(job)
    worker = worker_for(quick)
    with running(worker):
        quick.wait(lambda: len(quick.of("Complete")) >= 4, "repetitions")
        quick.expire("sessions/s1")
        quick.wait(lambda: len(quick.sessions) == 2, "a new session")
        with quick.cond:
            quick._scripts["Complete"].clear()
            seen = len(quick.of("Complete"))
        other = quick.job()
        quick.offer(other)
        quick.wait(lambda: any(r.job == other.job for r in quick.results), "the next outcome")
        later = [r.job for request in quick.of("Complete")[seen + 1 :] for r in request.results]
    assert job.job not in later
    assert worker.counts()["dropped"] >= 1


def test_an_outcome_whose_lease_is_lost_meanwhile_is_not_repeated(quick: ScriptServer) -> None:
    kept, lost = quick.job(), quick.job()
    told = threading.Event()

    def refuse(request: Any, context: Any) -> None:
        told.wait(5)
        raise Refusal(grpc.StatusCode.UNKNOWN)

    quick.script("Complete", refuse)
    gate = threading.Event()
    quick.offer(kept, lost)
    worker = worker_for(quick, lambda lease: gate.wait(5))
    with running(worker) as run:
        quick.wait(lambda: quick.hellos and len(quick.of("Lease")) == 2, "both jobs")
        gate.set()
        quick.wait(lambda: quick.of("Complete"), "the first try")
        number = quick.direct(worker_pb2.DIRECTIVE_KIND_LOST, lost.job, lost.fence)
        quick.wait(lambda: any(number in beat.acked_directives for beat in quick.beats), "the acknowledgement")
        told.set()
        quick.wait(lambda: len(quick.of("Complete")) >= 2, "a repetition")
        worker.stop()
        run.finish()
    later = [result.job for request in quick.of("Complete")[1:] for result in request.results]
    assert kept.job in later and lost.job not in later
    assert (worker.counts()["lost"], worker.counts()["dropped"]) == (1, 1)


def test_outcomes_wait_a_moment_for_company_while_handlers_run() -> None:
    """Without a network: what one call carries when outcomes come one by one, half a millisecond apart."""
    batches: list[int] = []

    class Wire:
        def call(self, method: str, request: worker_pb2.CompleteRequest, timeout: float) -> Any:
            batches.append(len(request.results))
            return worker_pb2.CompleteResponse(statuses=[{}] * len(request.results))

    session = Session(worker_pb2.OpenSessionResponse(session="sessions/s"), 0.0, lambda: None)
    slots = Slots(10)
    slots.take(10)
    completions = Completions(session, Wire(), slots, Counters(), lambda job, fence: None)  # type: ignore[arg-type]
    completions.start()
    for number in range(10):
        lease = Lease(worker_pb2.Lease(job=f"jobs/{number}", fence=1), session, 0.0)
        completions.put([succeeded(lease, None)])
        threading.Event().wait(0.0005)
    assert completions.flush(5)
    assert sum(batches) == 10 and len(batches) <= 5, batches
    completions.stop()
    assert completions.join(5)


@pytest.mark.usefixtures("hasty")
def test_a_fault_while_sending_does_not_lose_outcomes() -> None:
    tries: list[int] = []

    class Wire:
        def call(self, method: str, request: worker_pb2.CompleteRequest, timeout: float) -> Any:
            tries.append(len(request.results))
            if len(tries) == 1:
                raise RuntimeError("a fault of the SDK's own")
            return worker_pb2.CompleteResponse(statuses=[{}] * len(request.results))

    session = Session(worker_pb2.OpenSessionResponse(session="sessions/s"), 0.0, lambda: None)
    counters = Counters()
    completions = Completions(session, Wire(), Slots(1), counters, lambda job, fence: None)  # type: ignore[arg-type]
    lease = Lease(worker_pb2.Lease(job="jobs/1", fence=1), session, 0.0)
    session.holdings.add(0, 1, [lease])
    completions.start()
    completions.put([succeeded(lease, None)])
    assert completions.flush(5)
    completions.stop()
    assert completions.join(5)
    assert tries == [1, 1] and counters.snapshot()["succeeded"] == 1
