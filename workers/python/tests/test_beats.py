"""Signs of life: they leave whatever handlers do, survive broken streams, and their absence is noticed in time."""

import asyncio
import itertools
import threading
import time
from typing import Any

import grpc
import pytest
from conftest import running
from rota_conformance.script_server import Refusal, ScriptServer
from rota_sdk import Lease, Stop, Worker
from rota_sdk.beats import Beats
from rota_sdk.gen.rota.worker.v1 import worker_pb2
from rota_sdk.session import Session
from rota_sdk.slots import Slots


def worker_for(server: ScriptServer, handler: Any = None, slots: int = 4) -> Worker:
    worker = Worker(["default"], slots, address=server.address, api_key="k")
    worker.add("work", handler or (lambda lease: None))
    return worker


class Holding:
    """A handler that holds its lease until it is stopped or let go, and tells what it saw."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.ended = threading.Event()
        self.go = threading.Event()
        self.leases: list[Lease] = []
        self.reasons: list[Stop | None] = []
        self.ended_at = 0.0

    def __call__(self, lease: Lease) -> str:
        self.leases.append(lease)
        self.started.set()
        while not self.go.is_set() and not lease.wait_cancelled(0.02):
            pass
        self.reasons.append(lease.stop_reason)
        self.ended_at = time.monotonic()
        self.ended.set()
        return "held"


def test_the_stream_begins_with_a_full_inventory_and_beats_count_up(quick: ScriptServer) -> None:
    with running(worker_for(quick)):
        quick.wait(lambda: len(quick.beats) >= 4, "beats")
        assert not quick.of("SendHeartbeat")
    first = quick.of("Heartbeat")[0]
    assert first.hello.session == "sessions/s1" and first.hello.HasField("inventory")
    assert [beat.seq for beat in quick.beats[:4]] == [1, 2, 3, 4]
    assert quick.beats[0].free_slots == 4
    times = [call.at for call in quick.calls if call.method == "Heartbeat"][:5]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert all(0.15 <= gap <= 0.35 for gap in gaps), gaps


@pytest.mark.parametrize("how", ["busy thread", "busy loop", "blocked loop"])
def test_beats_leave_whatever_handlers_do(quick: ScriptServer, how: str) -> None:
    done = threading.Event()

    def burn(lease: Lease) -> None:
        while not done.is_set():
            sum(range(1000))

    async def burn_loop(lease: Lease) -> None:
        burn(lease)

    async def block_loop(lease: Lease) -> None:
        done.wait(5)

    handler = {"busy thread": burn, "busy loop": burn_loop, "blocked loop": block_loop}[how]
    quick.offer(quick.job())
    with running(worker_for(quick, handler)) as run:
        quick.wait(lambda: len(quick.of("Lease")) >= 2, "the job")
        seen = len(quick.beats)
        # Longer than the TTL.
        quick.wait(lambda: len(quick.beats) >= seen + 7, "beats")
        done.set()
        quick.wait(lambda: quick.results, "the outcome")
        assert run.worker.counts()["lost"] == 0 and quick.sessions == ["sessions/s1"]


@pytest.mark.parametrize(
    "cut",
    [
        None,
        Refusal(grpc.StatusCode.UNAVAILABLE),
        Refusal(grpc.StatusCode.UNKNOWN),
        Refusal(grpc.StatusCode.INTERNAL, message="RST_STREAM"),
        Refusal(grpc.StatusCode.CANCELLED),
    ],
    ids=["peace", "UNAVAILABLE", "UNKNOWN", "INTERNAL", "CANCELLED"],
)
def test_a_broken_stream_is_mended_at_once_and_leases_stay(quick: ScriptServer, cut: Refusal | None) -> None:
    holding = Holding()
    job = quick.job()
    quick.offer(job)
    with running(worker_for(quick, holding)):
        assert holding.started.wait(5)
        quick.wait(lambda: quick.hellos and quick.beats, "the stream")
        cut_at = time.monotonic()
        quick.cut_streams(cut)
        quick.wait(lambda: len(quick.hellos) == 2, "a new stream")
        assert time.monotonic() - cut_at < 0.15
        assert [held.fence for held in quick.hellos[1].inventory.leases] == [job.fence]
        holding.go.set()
        assert quick.result_of(job.job).succeeded.result.data == b"held"
    assert holding.reasons == [None]


def test_a_proxy_that_cuts_every_stream_is_not_hammered(quick: ScriptServer) -> None:
    """Streams that are refused give way to single beats; the session lives."""
    quick.refuse_streams = Refusal(grpc.StatusCode.UNAVAILABLE)
    holding = Holding()
    job = quick.job()
    quick.offer(job)
    with running(worker_for(quick, holding)) as run:
        assert holding.started.wait(5)
        quick.wait(lambda: len(quick.of("SendHeartbeat")) >= 6, "single beats")
        assert len(quick.of("RefusedHeartbeat")) < 6
        # Leases are told alone, too.
        assert any(held.fence == job.fence for beat in quick.beats for held in beat.inventory.leases)
        quick.refuse_streams = None
        quick.wait(lambda: quick.hellos, "a stream again")
        holding.go.set()
        quick.result_of(job.job)
        assert run.worker.counts()["lost"] == 0


def test_a_server_without_streams_gets_single_beats(quick: ScriptServer) -> None:
    quick.refuse_streams = Refusal(grpc.StatusCode.UNIMPLEMENTED)
    with running(worker_for(quick)):
        quick.wait(lambda: len(quick.of("SendHeartbeat")) >= 7, "single beats")
    assert len(quick.of("RefusedHeartbeat")) == 1
    assert quick.sessions == ["sessions/s1"]


def test_a_stream_that_swallows_beats_is_left_for_single_ones(quick: ScriptServer) -> None:
    with running(worker_for(quick)) as run:
        quick.wait(lambda: quick.beats, "beats")
        quick.mute = True
        quick.wait(lambda: quick.of("SendHeartbeat"), "a single beat")
        quick.mute = False
        seen = len(quick.hellos)
        quick.wait(lambda: len(quick.hellos) > seen, "a stream again")
        assert run.worker.counts()["lost"] == 0
    assert quick.sessions == ["sessions/s1"]


def test_a_connection_that_swallows_everything_is_replaced(quick: ScriptServer) -> None:
    with running(worker_for(quick)):
        quick.wait(lambda: quick.beats, "beats")
        first = quick.calls[-1].peer
        quick.mute = True
        quick.wait(lambda: quick.calls[-1].peer != first and quick.calls[-1].method == "Heartbeat", "a new connection")
        quick.mute = False
        seen = len(quick.beats)
        quick.wait(lambda: len(quick.beats) >= seen + 3 and len(quick.of("Lease")) >= 2, "beats and a poll")
    # Polls went over, with the same request_id, since theirs was not answered.
    polls = [call for call in quick.calls if call.method == "Lease"]
    assert polls[-1].peer != first
    assert polls[0].request.request_id == polls[1].request.request_id


def test_unanswered_beats_warn_at_two_thirds_and_abort_at_the_ttl(quick: ScriptServer) -> None:
    """Counted from the sending of the last answered beat; the result of an aborted attempt is never sent."""
    holding = Holding()
    job = quick.job()
    quick.offer(job)
    with running(worker_for(quick, holding)) as run:
        assert holding.started.wait(5)
        quick.wait(lambda: quick.beats, "beats")
        quick.mute = True
        lease = holding.leases[0]
        muted_at = time.monotonic()
        at_risk_after = None
        while not lease.wait_cancelled(0.01):
            if at_risk_after is None and lease.at_risk:
                at_risk_after = time.monotonic() - muted_at
        assert lease.stop_reason is Stop.EXPIRED
        assert holding.ended.wait(5)
        # The last answered beat left up to one interval before the silence began.
        assert at_risk_after is not None and 0.8 - 0.3 <= at_risk_after <= 0.8 + 0.1
        assert 1.2 - 0.3 <= holding.ended_at - muted_at <= 1.2 + 0.15
        quick.mute = False
        quick.wait(lambda: len(quick.sessions) == 2, "a new session")
        # Or its poll, which was cancelled, might still be given the job.
        quick.expire("sessions/s1")
        fresh = quick.job()
        quick.offer(fresh)
        quick.wait(lambda: len(holding.leases) == 2, "a job of the new session")
        holding.go.set()
        quick.result_of(fresh.job)
        counts = run.worker.counts()
    assert (counts["lost"], counts["dropped"]) == (1, 1)
    assert not [result for result in quick.results if result.job == job.job]


def test_risk_passes_when_beats_are_answered_again(quick: ScriptServer) -> None:
    holding = Holding()
    quick.offer(quick.job())
    with running(worker_for(quick, holding)):
        assert holding.started.wait(5)
        quick.wait(lambda: quick.beats, "beats")
        lease = holding.leases[0]
        quick.mute = True
        until = time.monotonic() + 5
        while not lease.at_risk and time.monotonic() < until:
            lease.wait_cancelled(0.01)
        assert lease.at_risk and not lease.cancelled
        quick.mute = False
        while lease.at_risk and time.monotonic() < until:
            lease.wait_cancelled(0.01)
        assert not lease.at_risk and not lease.cancelled
        holding.go.set()
        quick.wait(lambda: quick.results, "the outcome")
    assert quick.sessions == ["sessions/s1"]


@pytest.mark.parametrize("where", ["Heartbeat", "SendHeartbeat", "Lease", "Complete"])
def test_a_session_that_is_gone_is_followed_by_a_new_one(quick: ScriptServer, where: str) -> None:
    """Whichever call brings the news: handlers stop, results are dropped, the worker goes on."""
    holding = Holding()
    other = quick.job("other")
    job = quick.job()
    worker = worker_for(quick, holding)
    finish = threading.Event()
    worker.add("other", lambda lease: finish.wait(5))
    if where == "SendHeartbeat":
        quick.refuse_streams = Refusal(grpc.StatusCode.UNIMPLEMENTED)
    quick.offer(job, other)
    with running(worker) as run:
        assert holding.started.wait(5)
        quick.wait(lambda: len(quick.of("Lease")) >= 2 and quick.beats, "a parked poll")
        gone = Refusal(grpc.StatusCode.NOT_FOUND, "SESSION_GONE")
        if where == "Lease":
            # Answers the parked poll.
            quick.script("Lease", gone)
            quick.offer(quick.job())
        elif where == "Complete":
            quick.script("Complete", gone)
        else:
            quick.expire("sessions/s1")
        if where in ("Complete", "Lease"):
            finish.set()
        quick.wait(lambda: len(quick.sessions) == 2, "a new session")
        assert holding.ended.wait(5) and set(holding.reasons) == {Stop.SESSION_GONE}
        finish.set()
        again = quick.job()
        quick.offer(again)
        quick.wait(lambda: holding.leases[-1].job == again.job, "a job of the new session")
        holding.go.set()
        quick.result_of(again.job)
        counts = run.worker.counts()
    assert counts["sessions"] == 2 and counts["lost"] >= 1
    assert not [result for result in quick.results if result.job == job.job]
    assert quick.of("Lease")[-1].session == "sessions/s2"


@pytest.mark.parametrize("how", ["directive", "ack", "stale outcome"])
def test_a_lost_lease_stops_its_handler_and_its_result_is_dropped(quick: ScriptServer, how: str) -> None:
    holding = Holding()
    job, other = quick.job(), quick.job()
    quick.offer(job)
    with running(worker_for(quick, holding)) as run:
        assert holding.started.wait(5)
        if how == "directive":
            number = quick.direct(worker_pb2.DIRECTIVE_KIND_LOST, job.job, job.fence)
            quick.wait(lambda: any(number in beat.acked_directives for beat in quick.beats), "the acknowledgement")
        elif how == "ack":
            plain = quick.ack

            def ack(seq: int) -> worker_pb2.BeatAck:
                answer = plain(seq)
                answer.lost.add(job=job.job, fence=job.fence)
                return answer

            quick.ack = ack  # type: ignore[method-assign]
        else:
            quick.answer_for(job.job, Refusal(grpc.StatusCode.ABORTED, "STALE_FENCE"))
            holding.go.set()
        assert holding.ended.wait(5)
        expected = None if how == "stale outcome" else Stop.LOST
        assert holding.reasons == [expected]
        holding.go.set()
        quick.offer(other)
        quick.result_of(other.job)
        quick.wait(lambda: run.worker.counts()["dropped"] == 1, "the count")
        counts = run.worker.counts()
        # It is told no more in inventories.
        quick.direct(worker_pb2.DIRECTIVE_KIND_RESYNC)
        quick.wait(lambda: any(beat.HasField("inventory") for beat in quick.beats), "an inventory")
    assert (counts["lost"], counts["dropped"], counts["sessions"]) == (1, 1, 1)
    sent = [result for result in quick.results if result.job == job.job]
    assert len(sent) == (1 if how == "stale outcome" else 0)
    assert job.fence not in {held.fence for beat in quick.beats[-1:] for held in beat.inventory.leases}


def test_losing_one_grant_leaves_a_newer_one_of_the_same_job_alone(quick: ScriptServer) -> None:
    holding = Holding()
    old = quick.job(name="jobs/j", fence=5)
    new = quick.job(name="jobs/j", fence=6)
    quick.offer(old, new)
    with running(worker_for(quick, holding)):
        quick.wait(lambda: len(holding.leases) == 2, "both grants")
        quick.direct(worker_pb2.DIRECTIVE_KIND_LOST, old.job, old.fence)
        assert holding.ended.wait(5)
        assert {lease.fence: lease.stop_reason for lease in holding.leases} == {5: Stop.LOST, 6: None}
        holding.go.set()
        assert quick.result_of("jobs/j").fence == 6


def test_resync_is_answered_with_a_full_inventory_at_once(server: ScriptServer) -> None:
    """The inventory holds queued and running jobs, and those whose outcome is not answered yet."""
    holding = Holding()
    answered = threading.Event()

    def hold(request: Any, context: Any) -> None:
        answered.wait(5)

    worker = worker_for(server, holding)
    worker.add("quick", lambda lease: None)
    server.script("Complete", hold)
    jobs = [server.job(), server.job("quick")]
    server.offer(*jobs)
    with running(worker):
        assert holding.started.wait(5)
        server.wait(lambda: server.of("Complete") and server.hellos and len(server.of("Lease")) == 2, "an outcome")
        asked_at = time.monotonic()
        number = server.direct(worker_pb2.DIRECTIVE_KIND_RESYNC)
        server.wait(lambda: any(number in beat.acked_directives for beat in server.beats), "the beat")
        assert time.monotonic() - asked_at < 0.5
        inventory = next(beat.inventory for beat in server.beats if beat.HasField("inventory"))
        assert {held.job for held in inventory.leases} == {job.job for job in jobs}
        assert dict(inventory.batches) == {0: server.of("Lease")[1].ack_batch}
        answered.set()
        holding.go.set()
        server.wait(lambda: len(server.results) == 2, "both outcomes")


def test_reconnect_opens_a_new_connection_and_keeps_leases(quick: ScriptServer) -> None:
    holding = Holding()
    job = quick.job()
    quick.offer(job)
    with running(worker_for(quick, holding)) as run:
        assert holding.started.wait(5)
        quick.wait(lambda: quick.hellos and len(quick.of("Lease")) >= 2, "the stream")
        before = next(call.peer for call in quick.calls if call.method == "Heartbeat")
        number = quick.direct(worker_pb2.DIRECTIVE_KIND_RECONNECT)
        quick.wait(lambda: len(quick.hellos) == 2, "a new stream")
        quick.wait(lambda: any(number in beat.acked_directives for beat in quick.beats), "the acknowledgement")
        quick.wait(lambda: len(quick.of("Lease")) >= 3, "the poll again")
        calls = [call for call in quick.calls if call.method == "Heartbeat"]
        assert calls[-1].peer != before
        assert [held.fence for held in quick.hellos[1].inventory.leases] == [job.fence]
        polls = [call for call in quick.calls if call.method == "Lease"]
        assert polls[1].peer == before != polls[2].peer
        assert polls[1].request == polls[2].request
        holding.go.set()
        quick.result_of(job.job)
        assert run.worker.counts()["lost"] == 0


def test_a_directive_is_carried_out_once_and_acknowledged_until_that_is_heard(quick: ScriptServer) -> None:
    def acknowledged(number: int, since: int = 0) -> bool:
        return any(number in beat.acked_directives for beat in quick.beats[since:])

    with running(worker_for(quick)):
        quick.wait(lambda: quick.hellos and quick.beats, "the stream")
        number = quick.direct(worker_pb2.DIRECTIVE_KIND_RESYNC)
        quick.wait(lambda: acknowledged(number), "the acknowledgement")
        quick.wait(lambda: any(beat.HasField("inventory") for beat in quick.beats), "the inventory")
        quick.wait(lambda: not quick.beats[-1].HasField("inventory"), "a plain beat")
        # It comes again although it was acknowledged.
        seen = len(quick.beats)
        quick.direct(worker_pb2.DIRECTIVE_KIND_RESYNC, id=number)
        quick.wait(lambda: acknowledged(number, seen), "the acknowledgement again")
        quick.wait(lambda: len(quick.beats) >= seen + 4, "more beats")
        assert not any(beat.HasField("inventory") for beat in quick.beats[seen:])
    # Once the acknowledgement is answered it is not repeated for ever.
    assert number not in quick.beats[-1].acked_directives


def test_an_unknown_directive_is_ignored_and_acknowledged(quick: ScriptServer) -> None:
    with running(worker_for(quick)):
        quick.wait(lambda: quick.hellos, "the stream")
        number = quick.direct(99)
        quick.wait(lambda: any(number in beat.acked_directives for beat in quick.beats), "the acknowledgement")
        job = quick.job()
        quick.offer(job)
        quick.result_of(job.job)


def test_drain_ends_the_worker(quick: ScriptServer) -> None:
    holding = Holding()
    job = quick.job()
    quick.offer(job)
    with running(worker_for(quick, holding)) as run:
        assert holding.started.wait(5)
        quick.wait(lambda: quick.hellos, "the stream")
        quick.direct(worker_pb2.DIRECTIVE_KIND_DRAIN, reason="moving away")
        quick.wait(lambda: quick.of("CloseSession"), "the close")
        holding.go.set()
        run.finish()
    assert [close.mode for close in quick.of("CloseSession")] == [
        worker_pb2.CLOSE_MODE_DRAIN,
        worker_pb2.CLOSE_MODE_NOW,
    ]
    assert [result.job for result in quick.results] == [job.job]


def test_a_restarted_coordinator_is_found_again(quick: ScriptServer) -> None:
    """Nothing answers for a while, yet shorter than the TTL: the lease survives, the result arrives."""
    quick.lease_ttl = 6.0
    holding = Holding()
    job = quick.job()
    quick.offer(job)
    with running(worker_for(quick, holding)) as run:
        assert holding.started.wait(5)
        quick.wait(lambda: quick.beats, "beats")
        quick.stop()
        holding.go.set()
        assert holding.ended.wait(5)
        quick.start()
        quick.result_of(job.job)
        quick.wait(lambda: len(quick.hellos) >= 2, "a new stream")
        next_job = quick.job()
        quick.offer(next_job)
        quick.result_of(next_job.job)
        assert run.worker.counts()["lost"] == 0
    assert quick.sessions == ["sessions/s1"]


async def test_the_event_loop_may_be_the_callers(quick: ScriptServer) -> None:
    worker = Worker(["default"], 2, address=quick.address, api_key="k")
    loops = []

    @worker.job("work")
    async def work(lease: Lease) -> None:
        loops.append(asyncio.get_running_loop())

    serving = asyncio.create_task(worker.serve())
    job = quick.job()
    quick.offer(job)
    await asyncio.to_thread(quick.result_of, job.job)
    worker.stop()
    await serving
    assert loops == [asyncio.get_running_loop()]


def test_a_run_timeout_that_comes_in_the_middle_of_a_round_is_not_seen_late() -> None:
    """Without a network: a batch arrives after deadlines were checked and before the thread goes to sleep."""
    session = Session(worker_pb2.OpenSessionResponse(session="sessions/s"), time.monotonic(), lambda: None)
    checks: list[float] = []
    seen = threading.Event()

    class Quiet:
        """A stream on which nothing comes."""

        def __init__(self) -> None:
            self.cancel = seen.set

        def __iter__(self) -> "Quiet":
            return self

        def __next__(self) -> None:
            seen.wait(5)
            raise StopIteration

    class Wire:
        def stream(self, requests: Any) -> Quiet:
            return Quiet()

    def check(now: float) -> None:
        checks.append(now)
        if len(checks) == 1:
            lease = Lease(worker_pb2.Lease(job="jobs/1", fence=1, run_timeout={"nanos": 50_000_000}), session, now)
            session.holdings.add(0, 1, [lease])
            beats.prove_soon(True)
        elif now >= checks[0] + 0.05:
            seen.set()

    beats = Beats(session, Wire(), Slots(1), lambda job, fence: None, lambda directives: None, check)  # type: ignore[arg-type]
    beats.start()
    assert seen.wait(5)
    beats.stop()
    assert beats.join(5)
    assert checks[-1] - checks[0] < 0.5
