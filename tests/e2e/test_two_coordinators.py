"""Two coordinators on one database: whoever owns a shard acts for it, and one that slept can do no harm."""

import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from rota_sdk import JobState, NewJob

from ..harness import CoordinatorProcess, eventually
from .conftest import HANDLERS, Starts
from .test_crashes import check_each_accepted_once, finished


@pytest.fixture
def second(database: str, tmp_path: Path) -> Iterator[CoordinatorProcess]:
    folder = tmp_path / "second"
    folder.mkdir()
    with CoordinatorProcess(database, folder) as process:
        yield process


def owned(database: str) -> dict[str, int]:
    """Shards by the address of their living owner."""
    with psycopg.connect(database) as conn:
        rows = conn.execute(
            "SELECT c.address, count(*) FROM shards s JOIN coordinators c ON c.id = s.owner "
            "WHERE c.expires_at > now() GROUP BY 1"
        ).fetchall()
    return dict(rows)


def test_a_coordinator_that_slept_past_its_term_can_do_no_harm(
    coordinator: CoordinatorProcess, second: CoordinatorProcess, starts: Starts
) -> None:
    assert list(owned(coordinator.database).values()) == [256]
    here = coordinator.worker(HANDLERS, str(starts.file), "20")
    there = second.worker(HANDLERS, str(starts.file), "20")
    assert coordinator.process is not None
    try:
        with second.client() as client:
            jobs = {job.id for job in client.create_jobs([NewJob("sleep", "0.05") for _ in range(600)])}
            eventually(lambda: len(starts.lines()) >= 50)
            coordinator.process.signal(signal.SIGSTOP)
            # The other one takes over when the sleeper's term has run out, and finds what it left.
            eventually(lambda: finished(coordinator.database) > 300, within_s=30)
            jobs |= {job.id for job in client.create_jobs([NewJob("sleep", "0.05") for _ in range(200)])}
            coordinator.process.signal(signal.SIGCONT)
            eventually(lambda: finished(coordinator.database) == 800, within_s=40)
            assert all(job.state is JobState.SUCCEEDED for job in client.iter_jobs())
        assert sum(owned(coordinator.database).values()) == 256
        check_each_accepted_once(coordinator.database, jobs)
    finally:
        coordinator.process.signal(signal.SIGCONT)
        here.kill()
        there.kill()


def test_a_graceful_stop_hands_everything_over(
    coordinator: CoordinatorProcess, second: CoordinatorProcess, starts: Starts
) -> None:
    there = second.worker(HANDLERS, str(starts.file), "20")
    try:
        with second.client() as client:
            assert coordinator.terminate() == 0
            job = client.create_job("quick", "x")
            # The term is 3 s: anything sooner was handed over, not waited for.
            assert client.wait_job(job.name, timeout=2.5).state is JobState.SUCCEEDED
    finally:
        there.kill()
