"""What is promised when processes stop, die and come back: one accepted outcome for every job, no manual step."""

import json
import signal
from datetime import UTC, timedelta
from pathlib import Path

import grpc
import psycopg
import pytest
from rota_sdk import AlreadyExists, AttemptOutcome, JobState, NewJob, StaleFence
from rota_sdk.errors import from_rpc
from rota_sdk.gen.rota.v1 import common_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2

from ..harness import CoordinatorProcess, Process, eventually
from .conftest import HANDLERS, Starts


def check_each_accepted_once(database: str, jobs: set[str]) -> None:
    """Every job is finished as succeeded, in one row, with nothing of it left elsewhere."""
    with psycopg.connect(database) as conn:
        rows = conn.execute("SELECT id::text, state, count(*) FROM finished_jobs GROUP BY 1, 2").fetchall()
        left = conn.execute("SELECT (SELECT count(*) FROM jobs), (SELECT count(*) FROM dead_jobs)").fetchone()
        fences = conn.execute(
            "SELECT count(*), count(DISTINCT (job_id, fence)) FROM (SELECT job_id, fence FROM attempts UNION ALL "
            "SELECT id, fence FROM finished_jobs WHERE outcome IS NOT NULL) f"
        ).fetchone()
    assert {(job, state, count) for job, state, count in rows} == {(job, 6, 1) for job in jobs}
    assert left == (0, 0)
    assert fences is not None
    assert fences[0] == fences[1], "a fence was granted twice"


def finished(database: str) -> int:
    with psycopg.connect(database) as conn:
        row = conn.execute("SELECT count(*) FROM finished_jobs").fetchone()
    assert row is not None
    return int(row[0])


def counts(worker: Process) -> dict[str, int]:
    return dict(json.loads(worker.wait_line("counts ").removeprefix("counts ")))


def test_a_paused_worker_wakes_after_its_lease_was_lost(
    coordinator: CoordinatorProcess, starts: Starts, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    with coordinator.client() as client:
        first = coordinator.worker(HANDLERS, str(starts.file), "1")
        job = client.create_job("hold", str(gate))
        eventually(lambda: len(starts.lines()) == 1)
        # A later beat than the one with the inventory: the coordinator knows that the worker has the lease.
        leased_at = client.list_attempts(job.name)[0].lease_time
        eventually(
            lambda: client.list_sessions()[0].last_beat_time.ToDatetime(UTC) > leased_at + timedelta(seconds=1.2)
        )

        first.signal(signal.SIGSTOP)
        second = coordinator.worker(HANDLERS, str(starts.file), "1")
        try:
            eventually(lambda: len(starts.lines()) == 2)
            gate.touch()
            done = client.wait_job(job.name, timeout=20)
            assert done.state is JobState.SUCCEEDED

            first.signal(signal.SIGCONT)
            first.terminate()
            second.terminate()
        finally:
            first.signal(signal.SIGCONT) if first.popen.poll() is None else None
            first.kill()
            second.kill()

        after = client.get_job(job.name)
        attempts = client.list_attempts(job.name)
    assert (after.state, after.result, after.attempt) == (done.state, done.result, 2)
    assert [a.outcome for a in attempts] == [AttemptOutcome.LEASE_LOST, AttemptOutcome.SUCCEEDED]
    assert attempts[0].fence < attempts[1].fence
    assert after.result is not None
    assert after.result.text() == f"held by {second.pid}"
    # The SDK did not even send what it had; a worker that does is refused by its fence.
    with coordinator.client() as client, pytest.raises(grpc.RpcError) as refusal:
        client.stubs.worker.CompleteJob(
            worker_pb2.CompleteJobRequest(
                job=job.name,
                session=attempts[0].session,
                fence=attempts[0].fence,
                succeeded=worker_pb2.Succeeded(result=common_pb2.Payload(data=b"late")),
            )
        )
    stale = from_rpc(refusal.value)
    assert isinstance(stale, StaleFence)
    assert stale.details["cause"] == "REASSIGNED"
    dropped = counts(first)
    assert (dropped["succeeded"], dropped["dropped"]) == (0, 1), dropped
    check_each_accepted_once(coordinator.database, {job.id})


def test_the_coordinator_is_killed_with_a_thousand_jobs_in_flight(
    coordinator: CoordinatorProcess, starts: Starts
) -> None:
    with coordinator.client() as client:
        jobs = {job.id for job in client.create_jobs([NewJob("sleep", "2.0") for _ in range(1_000)])}
    worker = coordinator.worker(HANDLERS, str(starts.file), "1000")
    try:
        eventually(lambda: len(starts.by_job()) == 1_000, within_s=30)
        coordinator.kill()
        coordinator.start()
        eventually(lambda: finished(coordinator.database) == 1_000, within_s=40)
        assert worker.terminate() == 0
    finally:
        worker.kill()
    assert set(starts.by_job()) == jobs
    check_each_accepted_once(coordinator.database, jobs)


def test_worker_and_coordinator_are_killed_together(coordinator: CoordinatorProcess, starts: Starts) -> None:
    with coordinator.client() as client:
        jobs = {job.id for job in client.create_jobs([NewJob("sleep", "0.5") for _ in range(200)])}
    worker = coordinator.worker(HANDLERS, str(starts.file), "50")
    try:
        eventually(lambda: len(starts.lines()) >= 60)
        worker.kill()
        coordinator.kill()
        coordinator.start()
        worker = coordinator.worker(HANDLERS, str(starts.file), "50")
        eventually(lambda: finished(coordinator.database) == 200, within_s=40)
    finally:
        worker.kill()
    check_each_accepted_once(coordinator.database, jobs)


def test_a_killed_worker_loses_nothing(coordinator: CoordinatorProcess, starts: Starts) -> None:
    with coordinator.client() as client:
        jobs = {job.id for job in client.create_jobs([NewJob("effect", str(n)) for n in range(300)])}
    first = coordinator.worker(HANDLERS, str(starts.file), "20")
    second = coordinator.worker(HANDLERS, str(starts.file), "20")
    try:
        eventually(lambda: len(starts.lines()) >= 50)
        first.kill()
        eventually(lambda: finished(coordinator.database) == 300, within_s=40)
    finally:
        first.kill()
        second.kill()
    check_each_accepted_once(coordinator.database, jobs)


def test_a_request_id_holds_across_a_restart(coordinator: CoordinatorProcess) -> None:
    with coordinator.client() as client:
        first = client.create_job("greet", {"name": "Ada"}, request_id="call-1")
    coordinator.kill()
    coordinator.start()
    with coordinator.client() as client:
        again = client.create_job("greet", {"name": "Ada"}, request_id="call-1")
        assert again.name == first.name
        with pytest.raises(AlreadyExists) as refusal:
            client.create_job("greet", {"name": "Bob"}, request_id="call-1")
        assert refusal.value.reason == "REQUEST_ID_REUSED"
        assert [job.name for job in client.list_jobs().jobs] == [first.name]


def test_sigterm_drains_the_coordinator(database: str, tmp_path: Path, starts: Starts) -> None:
    # Long enough for a process to start on a loaded machine: the lease is to outlive the restart.
    with CoordinatorProcess(database, tmp_path, ROTA_SESSION_TTL="12s") as coordinator:
        worker = coordinator.worker(HANDLERS, str(starts.file), "10")
        try:
            with coordinator.client() as client:
                job = client.create_job("sleep", "1.0")
                eventually(lambda: starts.lines())
                assert coordinator.terminate() == 0
                coordinator.start()
                assert client.wait_job(job.name, timeout=20).state is JobState.SUCCEEDED
                assert client.get_job(job.name).attempt == 1
            assert worker.terminate() == 0
        finally:
            worker.kill()


def test_postgresql_is_killed_under_load(coordinator: CoordinatorProcess, starts: Starts, postgres) -> None:  # type: ignore[no-untyped-def]
    worker = coordinator.worker(HANDLERS, str(starts.file), "20")
    try:
        with coordinator.client() as client:
            jobs = {job.id for job in client.create_jobs([NewJob("sleep", "0.2") for _ in range(400)])}
            eventually(lambda: len(starts.lines()) >= 40)
            postgres.kill()
            postgres.start()
            eventually(lambda: finished(coordinator.database) == 400, within_s=60)
        check_each_accepted_once(coordinator.database, jobs)
    finally:
        worker.kill()
