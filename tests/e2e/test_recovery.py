"""A worker dies, or sleeps, with fifty jobs running: all of them run again elsewhere, by nobody's hand, and nothing
that the lost one says later counts. With the settings that users get."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import psycopg
import pytest
from rota_sdk import NewJob
from rota_sdk.gen.rota.worker.v1 import worker_pb2

from ..harness import CoordinatorProcess, Process, eventually
from .conftest import HANDLERS, Starts
from .test_crashes import check_each_accepted_once, counts, finished

JOBS = 50
RECOVERY_S = 20.0
"""The session's TTL of 12 s, the sweep after it, and what it takes to start again on a slow machine; a second TTL would
be too much."""

DEFAULT = {"ROTA_SESSION_TTL": "12s", "ROTA_DELIVERY_TTL": "5s", "ROTA_SHARD_TERM": "9s"}


@pytest.fixture
def coordinator(database: str, tmp_path: Path) -> Iterator[CoordinatorProcess]:
    with CoordinatorProcess(database, tmp_path, **DEFAULT) as process:
        yield process


@pytest.mark.parametrize("how", ["killed", "paused"])
def test_fifty_running_jobs_run_again_elsewhere(
    coordinator: CoordinatorProcess, starts: Starts, tmp_path: Path, how: str
) -> None:
    gate = tmp_path / "gate"
    workers: list[Process] = []

    def worker() -> Process:
        workers.append(coordinator.worker(HANDLERS, str(starts.file), str(JOBS)))
        return workers[-1]

    with coordinator.client() as client:
        try:
            first = worker()
            jobs = {job.id for job in client.create_jobs([NewJob("hold", str(gate)) for _ in range(JOBS)])}
            eventually(lambda: len(starts.lines()) == JOBS)
            second = worker()
            eventually(lambda: len(client.list_sessions()) == 2)
            lost_at = time.monotonic()
            first.signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
            eventually(lambda: len(starts.lines()) == 2 * JOBS, within_s=60)
            assert time.monotonic() - lost_at < RECOVERY_S
            assert {(job, pid) for job, _, _, pid in starts.lines()[JOBS:]} == {(job, second.pid) for job in jobs}

            gate.touch()
            eventually(lambda: finished(coordinator.database) == JOBS)
            if how == "paused":
                # It wakes with fifty handlers that have succeeded, as they see it.
                first.signal(signal.SIGCONT)
                first.terminate()
                assert (counts(first)["succeeded"], counts(first)["dropped"]) == (0, JOBS)
            refused = late_outcomes(coordinator, starts.lines()[:JOBS])
            assert refused == [grpc.StatusCode.ABORTED.value[0]] * JOBS
        finally:
            for each in workers:
                each.kill()
    check_each_accepted_once(coordinator.database, jobs)
    with psycopg.connect(coordinator.database) as conn:
        assert conn.execute("SELECT DISTINCT attempt, result FROM finished_jobs").fetchall() == [
            (2, f"held by {second.pid}".encode())
        ]


def late_outcomes(coordinator: CoordinatorProcess, lines: list[tuple[str, int, int, int]]) -> list[int]:
    """What a worker gets that does not notice that its leases are lost."""
    with coordinator.client() as client:
        session = client.list_attempts(lines[0][0])[0].session
        results = [
            worker_pb2.Result(job=f"jobs/{job}", fence=fence, request_id=job, succeeded=worker_pb2.Succeeded())
            for job, _, fence, _ in lines
        ]
        request = worker_pb2.CompleteRequest(session=session, results=results)
        return [status.status.code for status in client.stubs.worker.Complete(request, timeout=10).statuses]
