"""What is promised of effects when processes die with kill -9: of each, how often the target has it in the end."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest
from rota_sdk import AttemptOutcome, Client, Job, JobState, NewJob, effects
from rota_sdk.gen.rota.admin.v1 import admin_pb2
from rota_sdk.gen.rota.v1 import common_pb2, jobs_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2

from rota.store.embedded import EmbeddedPostgres

from ..harness import CoordinatorProcess, Process, eventually

WORKER = Path(__file__).parent / "effects_worker.py"

# How guarded, where its first attempt is killed, what an operator says if asked, how often the target has it.
ONCE = [("connected", None, 1), ("changed", None, 1), ("committed", None, 1)]
LEDGER: list[tuple[str, bool, str, str | None, int]] = [
    ("ASK", False, "begun", "NOT_APPLIED", 1),
    ("ASK", False, "called", "APPLIED", 1),
    ("ASK", False, "told", None, 1),
    ("ASK", True, "begun", None, 1),
    ("ASK", True, "called", None, 1),
    # These two are what the names say: nobody is asked, and the one may lose what the other may double.
    ("ASSUME_DONE", False, "begun", None, 0),
    ("ASSUME_DONE", False, "called", None, 1),
    ("REDO", False, "begun", None, 1),
    ("REDO", False, "called", None, 2),
]
LOST = (AttemptOutcome.LEASE_LOST, AttemptOutcome.UNDELIVERED)
"""How the attempt of a killed worker ends, which may have died before it was known to have the lease."""


@pytest.fixture
def target(database: str) -> str:
    """A database of the application's: here it is in Rota's, in tables of its own."""
    with psycopg.connect(database) as conn:
        conn.execute("CREATE TABLE paid (job text NOT NULL, reference text)")
        effects.create_table(conn)
    return database


@pytest.fixture
def patient(database: str, tmp_path: Path) -> Iterator[CoordinatorProcess]:
    """Which does not take a process that stands still for a moment for a dead one."""
    with CoordinatorProcess(database, tmp_path, ROTA_SESSION_TTL="6s", ROTA_DELIVERY_TTL="4s") as process:
        yield process


def steps(file: Path) -> set[tuple[str, str]]:
    lines = file.read_text().splitlines() if file.exists() else []
    return {(line.split()[0], line.split()[1]) for line in lines}


def paid(target: str, job: Job) -> int:
    with psycopg.connect(target) as conn:
        row = conn.execute("SELECT count(*) FROM paid WHERE job = %s", (job.id,)).fetchone()
    assert row is not None
    return int(row[0])


def test_a_worker_is_killed_at_each_step_of_an_effect(patient: CoordinatorProcess, target: str, tmp_path: Path) -> None:
    events = tmp_path / "steps.txt"
    wishes = [NewJob("once", {"stop": stop}) for stop, _, _ in ONCE]
    wishes += [
        NewJob("ledger", {"policy": policy, "probe": probe, "stop": stop}) for policy, probe, stop, _, _ in LEDGER
    ]
    ends = [(word, times) for _, word, times in ONCE] + [(word, times) for *_, word, times in LEDGER]
    with patient.client() as client:
        jobs = client.create_jobs(wishes)
        first = patient.worker(WORKER, str(events), target)
        second: Process | None = None
        try:
            stopped = {(wish.payload["stop"], job.id) for wish, job in zip(wishes, jobs, strict=True)}  # type: ignore
            eventually(lambda: stopped <= steps(events))
            assert doubtful(client) == []
            first.kill()
            second = patient.worker(WORKER, str(events), target)
            asked = {job.name: word for job, (word, _) in zip(jobs, ends, strict=True) if word is not None}
            eventually(lambda: len(doubtful(client, holding=True)) == len(asked))
            for effect in doubtful(client, holding=True):
                assert client.get_job(effect.job).reason == f"held until {effect.name}, which is in doubt, is decided"
                decide(client, effect.name, asked[effect.job])
            for wish, job, (word, times) in zip(wishes, jobs, ends, strict=True):
                done = client.wait_job(job.name, timeout=30)
                assert (done.state, paid(target, job)) == (JobState.SUCCEEDED, times), wish
                outcomes = [attempt.outcome for attempt in client.list_attempts(job.name)]
                assert outcomes[0] in LOST
                assert (
                    outcomes[1:]
                    == {
                        None: [AttemptOutcome.SUCCEEDED],
                        "APPLIED": [AttemptOutcome.RELEASED],
                        "NOT_APPLIED": [AttemptOutcome.RELEASED, AttemptOutcome.SUCCEEDED],
                    }[word]
                ), wish
            assert doubtful(client) == []
        finally:
            first.kill()
            if second is not None:
                second.kill()


@pytest.mark.parametrize("ttl_s", [30, 3])
def test_the_database_is_away_when_an_attempt_with_an_effect_ends(
    database: str, target: str, tmp_path: Path, postgres: EmbeddedPostgres, ttl_s: int
) -> None:
    """Shorter than the session's TTL: the outcome is told again until it is taken. Longer: the lease is lost, and the
    key stops the second attempt's effect."""
    gate, events = tmp_path / "gate", tmp_path / "steps.txt"
    delivery_ttl = {"ROTA_DELIVERY_TTL": "15s"} if ttl_s == 30 else {}
    with CoordinatorProcess(database, tmp_path, ROTA_SESSION_TTL=f"{ttl_s}s", **delivery_ttl) as coordinator:
        worker = coordinator.worker(WORKER, str(events), target)
        try:
            with coordinator.client() as client:
                job = client.create_job("once", {"stop": "committed", "gate": str(gate)})
                eventually(lambda: ("committed", job.id) in steps(events))
                postgres.kill()
                try:
                    if ttl_s == 3:
                        eventually(lambda: "ended (expired)" in worker.output)
                    gate.touch()
                    eventually(lambda: "STORE_UNAVAILABLE" in worker.output or ttl_s == 3)
                finally:
                    postgres.start()
                done = client.wait_job(job.name, timeout=60)
                assert (done.state, paid(target, job)) == (JobState.SUCCEEDED, 1)
                outcomes = [attempt.outcome for attempt in client.list_attempts(job.name)]
                assert outcomes[-1] is AttemptOutcome.SUCCEEDED
                assert len(outcomes) == 1 if ttl_s == 30 else len(outcomes) >= 2
        finally:
            worker.kill()


def doubtful(client: Client, *, holding: bool = False) -> list[admin_pb2.Effect]:
    return list(client.stubs.admin.ListEffects(admin_pb2.ListEffectsRequest(holding=holding)).effects)


def decide(client: Client, effect: str, word: str) -> None:
    state: Any = common_pb2.EffectState.Value(f"EFFECT_STATE_{word}")
    client.stubs.admin.ResolveEffect(admin_pb2.ResolveEffectRequest(name=effect, state=state))


class ByHand:
    """A session without beats of its own: the test is the worker."""

    def __init__(self, client: Client) -> None:
        self.stub = client.stubs.worker
        self.session = self.stub.OpenSession(worker_pb2.OpenSessionRequest(worker="hand", queues=["default"])).session
        self.leases = 0

    def lease(self) -> worker_pb2.Lease:
        def one() -> Any:
            self.leases += 1
            request = worker_pb2.LeaseRequest(session=self.session, request_id=f"l{self.leases}", capacity=1)
            return self.stub.Lease(request, timeout=15).leases

        found: Any = eventually(one)
        self.beat(found[0])
        return found[0]  # type: ignore[no-any-return]

    def beat(self, lease: worker_pb2.Lease) -> None:
        held = worker_pb2.Inventory(leases=[worker_pb2.HeldLease(job=lease.job, fence=lease.fence)])
        beat = worker_pb2.Beat(seq=1, inventory=held)
        self.stub.SendHeartbeat(worker_pb2.SendHeartbeatRequest(session=self.session, beat=beat))

    def complete(self, lease: worker_pb2.Lease, children: int) -> Any:
        return self.stub.CompleteJob(self._outcome(lease, children), timeout=15)

    def completing(self, lease: worker_pb2.Lease, children: int) -> Any:
        """The same call, on its way."""
        return self.stub.CompleteJob.future(self._outcome(lease, children), timeout=60)

    def _outcome(self, lease: worker_pb2.Lease, children: int) -> worker_pb2.CompleteJobRequest:
        spawned = [jobs_pb2.CreateJobRequest(job=jobs_pb2.Job(type="child", queue="other")) for _ in range(children)]
        return worker_pb2.CompleteJobRequest(
            job=lease.job,
            session=self.session,
            fence=lease.fence,
            request_id="outcome-1",
            succeeded=worker_pb2.Succeeded(),
            spawned=spawned,
        )


def children(client: Client) -> int:
    return len(list(client.iter_jobs(type="child")))


@pytest.fixture
def slow(database: str, tmp_path: Path) -> Iterator[CoordinatorProcess]:
    """Whose sessions outlive a restart: the same lease is reported on before and after."""
    with CoordinatorProcess(database, tmp_path, ROTA_SESSION_TTL="60s", ROTA_DELIVERY_TTL="30s") as process:
        yield process


@pytest.mark.parametrize("committed", [True, False])
def test_a_coordinator_is_killed_over_an_outcome_that_spawns(
    slow: CoordinatorProcess, database: str, committed: bool
) -> None:
    """Its answer is lost, after the commit or before: the repetition spawns what is missing, and nothing twice."""
    with slow.client() as client:
        parent = client.create_job("parent", b"")
        worker = ByHand(client)
        lease = worker.lease()
        with psycopg.connect(database) as lock:
            # Holds the outcome's transaction in its middle: after the parent's end, before the children.
            lock.execute("LOCK TABLE requests IN EXCLUSIVE MODE")
            call = worker.completing(lease, 3)
            eventually(lambda: _held_up(database))
            assert call.cancel()
            if not committed:
                slow.kill()
            lock.rollback()
        if committed:
            eventually(lambda: _finished(database, parent))
            slow.kill()
        slow.start()
    with slow.client() as client:
        assert children(client) == (3 if committed else 0)
        worker.stub = client.stubs.worker
        answer = eventually(_repeated(worker, lease, 3))
        assert answer.duplicate is committed  # type: ignore[attr-defined]
        assert children(client) == 3
        assert worker.complete(lease, 3).duplicate
        assert (children(client), client.get_job(parent.name).state) == (3, JobState.SUCCEEDED)


def _repeated(worker: ByHand, lease: worker_pb2.Lease, count: int) -> Callable[[], Any]:
    def call() -> Any:
        try:
            return worker.complete(lease, count)
        except grpc.RpcError as error:
            # The new coordinator may have no shards yet, and the old one's transaction its locks still.
            assert error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)  # type: ignore[attr-defined]
            return None

    return call


def _held_up(database: str) -> bool:
    """Whether somebody waits for the requests."""
    with psycopg.connect(database) as conn:
        found = conn.execute("SELECT 1 FROM pg_locks WHERE relation = 'requests'::regclass AND NOT granted").fetchone()
    return found is not None


def _finished(database: str, job: Job) -> bool:
    with psycopg.connect(database) as conn:
        return conn.execute("SELECT 1 FROM finished_jobs WHERE id = %s", (job.id,)).fetchone() is not None


def test_a_stale_fence_spawns_nothing(patient: CoordinatorProcess) -> None:
    """A worker that was away for longer than its session's TTL, and comes back with an outcome."""
    with patient.client() as client:
        parent = client.create_job("parent", b"")
        away = ByHand(client)
        lease = away.lease()
        eventually(lambda: client.get_job(parent.name).state is JobState.READY)
        second = ByHand(client)
        current = second.lease()
        for _ in range(2):
            with pytest.raises(grpc.RpcError) as refusal:
                away.complete(lease, 3)
            assert refusal.value.code() is grpc.StatusCode.ABORTED  # type: ignore[attr-defined]
        assert children(client) == 0
        second.complete(current, 2)
        assert children(client) == 2
