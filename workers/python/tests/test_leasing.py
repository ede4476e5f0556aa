"""Polls: answers lost on the wire, acknowledgement, capacity, pauses."""

import itertools
import threading
import time
from typing import Any

import grpc
import pytest
from conftest import running
from google.protobuf.duration_pb2 import Duration
from rota_conformance.script_server import Refusal, ScriptServer
from rota_sdk import Lease, Worker, limits
from rota_sdk.gen.rota.worker.v1 import worker_pb2


def idle_worker(server: ScriptServer, slots: int = 4) -> Worker:
    worker = Worker(["default"], slots, address=server.address, api_key="k")
    worker.add("work", lambda lease: None)
    return worker


@pytest.mark.parametrize(
    "failure",
    [
        Refusal(grpc.StatusCode.UNAVAILABLE, "DRAINING", retry_after=0.01),
        Refusal(grpc.StatusCode.UNKNOWN),
        Refusal(grpc.StatusCode.INTERNAL, message="stream reset by peer (RST_STREAM)"),
        Refusal(grpc.StatusCode.DEADLINE_EXCEEDED),
        Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "RATE_LIMITED", retry_after=0.01),
    ],
    ids=lambda failure: failure.code.name,
)
def test_the_same_call_is_repeated_until_it_is_answered(server: ScriptServer, failure: Refusal) -> None:
    server.script("Lease", failure, failure)
    job = server.job()
    with running(idle_worker(server)):
        server.wait(lambda: len(server.of("Lease")) >= 3, "three polls")
        server.offer(job)
        server.result_of(job.job)
        server.wait(lambda: len(server.of("Lease")) >= 4, "the next poll")
    polls = server.of("Lease")
    assert polls[0] == polls[1] == polls[2]
    assert polls[3].request_id != polls[2].request_id


def test_leases_of_a_lost_answer_arrive_by_the_replay(server: ScriptServer) -> None:
    """The claim was committed, the answer lost: the same request_id gets the same leases, which run once."""
    job = server.job()
    granted = worker_pb2.LeaseResponse(batch=7, leases=[job])
    replayed = {}

    def lose(request: Any, context: Any) -> Any:
        replayed[request.request_id] = granted
        raise Refusal(grpc.StatusCode.UNAVAILABLE, "DRAINING", retry_after=0.01)

    server.script("Lease", lose, lambda request, context: replayed[request.request_id])
    with running(idle_worker(server)) as run:
        server.result_of(job.job)
        server.wait(lambda: len(server.of("Lease")) >= 3, "the next poll")
        assert run.worker.counts()["leased"] == 1
    assert [poll.ack_batch for poll in server.of("Lease")] == [0, 0, 7]


def test_a_call_is_made_again_when_the_coordinator_has_answered_it_and_nothing_came(server: ScriptServer) -> None:
    """The answer was swallowed on its way. Without a word the call would wait for its deadline."""
    job = server.job()
    gone = threading.Event()

    def swallow(request: Any, context: Any) -> Any:
        context.add_callback(gone.set)
        server.direct(worker_pb2.DIRECTIVE_KIND_RESYNC)
        gone.wait(8)
        raise Refusal(grpc.StatusCode.UNAVAILABLE)

    replay = worker_pb2.LeaseResponse(batch=7, leases=[job])
    server.script("Lease", swallow, lambda request, context: replay)
    began = time.monotonic()
    with running(worker := idle_worker(server)):
        server.result_of(job.job)
        assert time.monotonic() - began < 5
        server.wait(lambda: len(server.of("Lease")) >= 3, "the next poll")
    polls = server.of("Lease")
    assert polls[0] == polls[1]
    assert polls[2].ack_batch == 7
    assert worker.counts()["leased"] == 1


def test_a_lease_that_comes_twice_runs_once(server: ScriptServer) -> None:
    job = server.job()
    gate = threading.Event()
    worker = Worker(["default"], 4, address=server.address, api_key="k")
    worker.add("work", lambda lease: gate.wait(5))
    answer = worker_pb2.LeaseResponse(batch=7, leases=[job])
    server.script("Lease", lambda *_: answer, lambda *_: answer)
    with running(worker):
        server.wait(lambda: len(server.of("Lease")) >= 3, "the third poll")
        assert worker.counts()["leased"] == 1
        # The one slot that it takes is not counted twice.
        assert server.of("Lease")[2].capacity == 3
        gate.set()


def test_every_poll_acknowledges_the_batch_before(server: ScriptServer) -> None:
    with running(idle_worker(server)):
        for number in range(1, 4):
            server.wait(lambda n=number: len(server.of("Lease")) >= n, "a poll")
            server.offer(server.job())
        server.wait(lambda: len(server.of("Lease")) >= 4, "the last poll")
    polls = server.of("Lease")
    batches = [poll.ack_batch for poll in polls]
    assert batches[0] == 0 and all(batches[1:]) and batches == sorted(set(batches))
    assert len({poll.request_id for poll in polls}) == len(polls)


def test_an_empty_answer_keeps_the_acknowledgement(server: ScriptServer) -> None:
    server.max_wait = 0.05
    server.offer(server.job())
    with running(idle_worker(server)):
        server.wait(lambda: len(server.of("Lease")) >= 5, "polls")
    acks = [poll.ack_batch for poll in server.of("Lease")]
    assert acks[0] == 0 and acks[1] > 0 and set(acks[1:]) == {acks[1]}


def test_capacity_counts_running_and_queued_jobs(server: ScriptServer) -> None:
    gate = threading.Event()
    worker = Worker(["default"], 10, address=server.address, api_key="k")
    worker.add("work", lambda lease: gate.wait(5))
    server.offer(*(server.job() for _ in range(7)))
    with running(worker):
        server.wait(lambda: len(server.of("Lease")) >= 2, "the second poll")
        assert [poll.capacity for poll in server.of("Lease")] == [10, 3]
        server.offer(*(server.job() for _ in range(3)))
        gate.set()
        server.wait(lambda: len(server.results) == 10, "all outcomes")


def test_the_last_slot_is_used_although_others_run_long(server: ScriptServer) -> None:
    """Small polls wait for company, but only for a moment."""
    gate = threading.Event()
    worker = Worker(["default"], 20, address=server.address, api_key="k")
    worker.add("long", lambda lease: gate.wait(5))
    worker.add("work", lambda lease: None)
    server.offer(*(server.job("long") for _ in range(19)))
    with running(worker):
        server.wait(lambda: len(server.of("Lease")) >= 2, "a poll for one job")
        assert server.of("Lease")[1].capacity == 1
        job = server.job()
        server.offer(job)
        server.result_of(job.job)
        gate.set()


def test_no_poll_leaves_without_a_free_slot(server: ScriptServer) -> None:
    gate = threading.Event()
    started = threading.Barrier(3)

    def work(lease: Lease) -> None:
        started.wait(5)
        gate.wait(5)

    worker = Worker(["default"], 2, address=server.address, api_key="k")
    worker.add("work", work)
    server.offer(server.job(), server.job())
    with running(worker):
        started.wait(5)
        # A moment in which a poll would leave, if one did.
        assert not gate.wait(0.1)
        assert len(server.of("Lease")) == 1
        gate.set()
        server.wait(lambda: len(server.of("Lease")) >= 2, "the next poll")


def test_next_poll_after_is_kept(server: ScriptServer) -> None:
    server.script("Lease", lambda *_: worker_pb2.LeaseResponse(next_poll_after=Duration(nanos=300_000_000)))
    with running(idle_worker(server)):
        server.wait(lambda: len(server.of("Lease")) >= 2, "the next poll")
    first, second = [call.at for call in server.calls if call.method == "Lease"][:2]
    assert second - first >= 0.3


@pytest.mark.usefixtures("hasty")
def test_slow_down_keeps_polls_apart_for_a_while(server: ScriptServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SLOW_DOWN_FOR_S", 0.5)
    told = worker_pb2.LeaseResponse()
    told.directives.add(id=5, kind=worker_pb2.DIRECTIVE_KIND_SLOW_DOWN)
    server.script("Lease", lambda *_: told, *[lambda *_: worker_pb2.LeaseResponse()] * 20)
    with running(idle_worker(server)):
        server.wait(lambda: any(5 in beat.acked_directives for beat in server.beats), "the acknowledgement")
        server.wait(lambda: len(server.of("Lease")) >= 10, "polls without pauses again")
    at = [call.at for call in server.calls if call.method == "Lease"]
    pauses = [later - earlier for earlier, later in itertools.pairwise(at)]
    assert min(pauses[:3]) >= 0.15
    # Over after a while, without another word of the coordinator's.
    assert min(pauses[4:]) < 0.15


@pytest.mark.usefixtures("hasty")
def test_slow_down_is_over_once_jobs_come_without_a_word_of_waiting(server: ScriptServer) -> None:
    told = worker_pb2.LeaseResponse()
    told.directives.add(id=5, kind=worker_pb2.DIRECTIVE_KIND_SLOW_DOWN)
    still = worker_pb2.LeaseResponse(batch=1, leases=[server.job()], next_poll_after=Duration(nanos=1))
    over = worker_pb2.LeaseResponse(batch=2, leases=[server.job()])
    server.script("Lease", *[lambda *_, answer=answer: answer for answer in (told, still, over)])
    server.script("Lease", *[lambda *_: worker_pb2.LeaseResponse()] * 5)
    with running(idle_worker(server)):
        server.wait(lambda: len(server.of("Lease")) >= 6, "polls without pauses again")
    at = [call.at for call in server.calls if call.method == "Lease"]
    pauses = [later - earlier for earlier, later in itertools.pairwise(at)]
    assert min(pauses[:2]) >= 0.15
    assert min(pauses[2:5]) < 0.15


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(
    "refusal",
    [
        Refusal(grpc.StatusCode.FAILED_PRECONDITION, "INVALID_STATE"),
        Refusal(grpc.StatusCode.INVALID_ARGUMENT, "VALIDATION_FAILED"),
    ],
    ids=lambda refusal: refusal.code.name,
)
def test_a_refusal_is_an_answer_and_not_hammered_upon(server: ScriptServer, refusal: Refusal) -> None:
    server.script("Lease", refusal)
    with running(idle_worker(server)):
        server.wait(lambda: len(server.of("Lease")) >= 2, "the next poll")
    calls = [call for call in server.calls if call.method == "Lease"]
    assert calls[0].request.request_id != calls[1].request.request_id
    assert calls[1].at - calls[0].at >= 0.18


def test_waits_differ_so_that_idle_workers_do_not_come_back_together(server: ScriptServer) -> None:
    server.max_wait = 0.05
    with running(idle_worker(server)):
        server.wait(lambda: len(server.of("Lease")) >= 4, "polls")
    waits = [poll.wait.ToTimedelta().total_seconds() for poll in server.of("Lease")]
    assert len(set(waits)) > 1 and all(0.8 * 0.05 <= wait <= 0.05 for wait in waits)


def test_an_answer_beyond_grpcs_default_limit_is_taken(server: ScriptServer) -> None:
    """32 payloads of 256 KiB are 8 MiB; gRPC's default is 4."""
    jobs = [server.job(payload={"data": b"x" * 256 * 1024}) for _ in range(32)]
    server.script("Lease", lambda *_: worker_pb2.LeaseResponse(batch=1, leases=jobs))
    with running(idle_worker(server, slots=32)):
        for job in jobs:
            server.result_of(job.job)
    assert len(server.of("Lease")) >= 1 and server.of("Lease")[0].max_bytes == 3_670_016


def test_receipt_is_proven_by_a_beat_when_no_poll_can_do_it(quick: ScriptServer) -> None:
    """All slots are taken: no poll acknowledges the batch, so an inventory must, well within the delivery TTL."""
    quick.beat_interval = 0.39  # the TTL allows 0.4
    gate = threading.Event()
    worker = Worker(["default"], 1, address=quick.address, api_key="k")
    worker.add("work", lambda lease: gate.wait(5))
    with running(worker):
        quick.wait(lambda: quick.of("Lease") and quick.hellos, "a poll")
        job = quick.job()
        offered_at = time.monotonic()
        quick.offer(job)
        quick.wait(
            lambda: any(job.fence == held.fence for beat in quick.beats for held in beat.inventory.leases),
            "the inventory",
        )
        told = next(beat for beat in quick.beats if beat.HasField("inventory"))
        assert time.monotonic() - offered_at < quick.delivery_ttl / 2
        assert told.inventory.batches[0] > 0
        gate.set()


def test_no_inventory_is_needed_when_polls_acknowledge(quick: ScriptServer) -> None:
    with running(idle_worker(quick)):
        for _ in range(5):
            job = quick.job()
            quick.offer(job)
            quick.result_of(job.job)
        seen = len(quick.beats)
        quick.wait(lambda: len(quick.beats) >= seen + 3, "beats")
    assert not any(beat.HasField("inventory") for beat in quick.beats)


def test_progress_travels_with_a_beat_once(quick: ScriptServer) -> None:
    gate = threading.Event()
    worker = Worker(["default"], 1, address=quick.address, api_key="k")

    @worker.job("work")
    def work(lease: Lease) -> None:
        lease.progress("1 of 2")
        lease.progress("2 of 2\0" + "x" * 5000)
        gate.wait(5)

    job = quick.job()
    quick.offer(job)
    with running(worker):
        quick.wait(lambda: any(beat.progress for beat in quick.beats), "progress")
        seen = len(quick.beats)
        quick.wait(lambda: len(quick.beats) >= seen + 2, "more beats")
        gate.set()
    notes = [note for beat in quick.beats for note in beat.progress]
    assert [(note.job, note.fence) for note in notes] == [(job.job, job.fence)]
    assert notes[0].note.startswith("2 of 2xx") and len(notes[0].note.encode()) <= 1024
