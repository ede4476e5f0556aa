"""Watchers see each end of each job, whoever is killed meanwhile and wherever they go on."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from rota_sdk import Client, JobState, JobWatch, NewJob, RotaError

from ..harness import CoordinatorProcess, eventually
from .conftest import HANDLERS, Starts

JOBS = 3_000
BATCH = 100


@pytest.fixture
def second(database: str, tmp_path: Path) -> Iterator[CoordinatorProcess]:
    folder = tmp_path / "second"
    folder.mkdir()
    with CoordinatorProcess(database, folder) as process:
        yield process


class Watching:
    """What one watcher has seen, read in a thread of its own."""

    def __init__(self, watch: JobWatch) -> None:
        self.watch = watch
        self.seen: set[tuple[str, JobState]] = set()
        self.failure: RotaError | None = None
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        try:
            for change in self.watch:
                self.seen.add((change.job.name, change.job.state))
        except RotaError as error:
            self.failure = error

    def close(self) -> str:
        """Ends it; where another one is to go on."""
        self.watch.close()
        self._thread.join()
        assert self.failure is None
        return self.watch.resume_token


def terminal(database: str) -> set[tuple[str, JobState]]:
    with psycopg.connect(database) as conn:
        rows = conn.execute("SELECT id::text, state FROM finished_jobs").fetchall()
    return {(f"jobs/{id}", JobState(state)) for id, state in rows}


def create(client: Client) -> int:
    """As many as it takes, over calls that may fail while a coordinator is not there; how many there were."""
    for number in range(JOBS // BATCH):
        jobs = [NewJob("quick", "x") for _ in range(BATCH)]
        client.create_jobs(jobs, request_id=f"load-{number}", names_only=True)
        time.sleep(0.02)
    return JOBS


def test_no_end_of_a_job_is_missed_when_a_coordinator_is_killed(
    coordinator: CoordinatorProcess, second: CoordinatorProcess, starts: Starts
) -> None:
    here, there = (each.worker(HANDLERS, str(starts.file), "50") for each in (coordinator, second))
    try:
        with coordinator.client() as one, second.client() as two:
            moving = Watching(one.watch_jobs())
            staying = Watching(one.watch_jobs(type="quick"))
            eventually(lambda: moving.watch.resume_token and staying.watch.resume_token)
            creating = threading.Thread(target=create, args=(two,))
            creating.start()
            eventually(lambda: len(moving.seen) > 600 and len(staying.seen) > 600)
            coordinator.kill()
            seen = moving.seen
            moving = Watching(two.watch_jobs(resume_token=moving.close()))
            moving.seen |= seen
            # At its old address, where the other watcher goes on by itself.
            coordinator.start()
            creating.join()
            eventually(lambda: len(terminal(coordinator.database)) == JOBS, within_s=60)
            ended = terminal(coordinator.database)
            for watching in (moving, staying):
                eventually(lambda: ended <= watching.seen or watching.failure, within_s=30)  # noqa: B023
                watching.close()
                assert not ended - watching.seen
                # And each of them from its beginning on.
                for state in (JobState.READY, JobState.LEASED):
                    assert {name for name, _ in ended} <= {name for name, found in watching.seen if found is state}
    finally:
        here.kill()
        there.kill()
