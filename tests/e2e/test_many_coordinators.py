"""A control plane of several coordinators: any worker gets any job, while members die, leave and come under load."""

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from rota_sdk import Client, NewJob

from ..harness import CoordinatorProcess, Process, eventually
from .conftest import HANDLERS, Starts
from .test_crashes import check_each_accepted_once, finished

WORKERS = 10
SLOTS = 8
BATCH = 20
EVERY_S = 0.1

_LAGS = """
SELECT id::text, extract(epoch FROM leased_at - due_at)::float8 FROM finished_jobs WHERE attempt = 1 ORDER BY 2
"""


class Plane:
    """Coordinators on one database, started as a test asks for them."""

    def __init__(
        self, database: str, folder: Path, stack: ExitStack, main: str = "tests.serve_main", **settings: str
    ) -> None:
        self._main = main
        self._settings = settings
        self._database = database
        self._folder = folder
        self._stack = stack
        self.all: list[CoordinatorProcess] = []

    def add(self, main: str | None = None, **settings: str) -> CoordinatorProcess:
        folder = self._folder / f"coordinator-{len(self.all)}"
        folder.mkdir()
        process = CoordinatorProcess(self._database, folder, main or self._main, **self._settings | settings)
        added = self._stack.enter_context(process)
        self.all.append(added)
        return added

    def address(self, first: int = 0) -> str:
        """All addresses as one target, from the `first` on: a client goes to the next when one is gone."""
        addresses = [each.address for each in self.all]
        turn = first % len(addresses)
        return "ipv4:" + ",".join(addresses[turn:] + addresses[:turn])

    def worker(self, address: str, starts: Starts, slots: int = SLOTS) -> Process:
        worker = self.all[0].worker(HANDLERS, str(starts.file), str(slots), address=address)
        self._stack.callback(worker.kill)
        return worker

    def owned(self) -> dict[str, int]:
        """Shards by the address of their living owner."""
        with psycopg.connect(self._database) as conn:
            rows = conn.execute(
                "SELECT c.address, count(s.shard) FROM coordinators c LEFT JOIN shards s ON c.id = s.owner "
                "WHERE c.expires_at > now() GROUP BY 1"
            ).fetchall()
        return dict(rows)

    def balanced(self, count: int) -> bool:
        owned = sorted(self.owned().values())
        return len(owned) == count and sum(owned) == 256 and owned[-1] - owned[0] <= 1


@pytest.fixture
def plane(database: str, tmp_path: Path) -> Iterator[Plane]:
    with ExitStack() as stack:
        yield Plane(database, tmp_path, stack)


class Load:
    """Jobs created all the time, one batch after the other, at whichever coordinator answers."""

    def __init__(self, plane: Plane, key: str) -> None:
        self.jobs: set[str] = set()
        self._plane = plane
        self._key = key
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.errors: list[Exception] = []

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with Client(self._plane.address(), api_key=self._key) as client:
            while not self._stop.wait(EVERY_S):
                try:
                    self.jobs |= {job.id for job in client.create_jobs([NewJob("quick", "x") for _ in range(BATCH)])}
                except Exception as error:
                    self.errors.append(error)


def lags_ms(database: str, jobs: set[str]) -> list[float]:
    with psycopg.connect(database) as conn:
        return [lag * 1e3 for job, lag in conn.execute(_LAGS).fetchall() if job in jobs]


def test_shards_are_shared_and_any_worker_gets_any_job(plane: Plane, starts: Starts) -> None:
    first = plane.add()
    eventually(lambda: plane.balanced(1))
    plane.add()
    eventually(lambda: plane.balanced(2))
    plane.worker(first.address, starts)
    with plane.all[1].client() as client:
        jobs = {job.id for job in client.create_jobs([NewJob("quick", "x") for _ in range(400)])}
        eventually(lambda: finished(first.database) == 400)
    check_each_accepted_once(first.database, jobs)
    # About half of them belong to the other one, whose shards nobody but a peer of it could have served.
    assert len(starts.by_job()) == 400


def test_a_plane_under_load_loses_and_doubles_nothing(
    plane: Plane, starts: Starts, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two, three = (plane.add() for _ in range(3))
    eventually(lambda: plane.balanced(3))
    for number in range(WORKERS):
        plane.worker(plane.address(number), starts)
    eventually(lambda: len(sessions(one)) == WORKERS, within_s=40)
    with Load(plane, one.key) as load:
        eventually(lambda: finished(one.database) > 200, within_s=30)
        one.kill()
        eventually(lambda: plane.balanced(2), within_s=30)
        before = finished(two.database)
        eventually(lambda: finished(two.database) > before + 200, within_s=30)
        assert two.terminate() == 0
        before = finished(three.database)
        eventually(lambda: finished(three.database) > before + 200, within_s=30)
        plane.add()
        eventually(lambda: plane.balanced(2), within_s=30)
        before = finished(three.database)
        eventually(lambda: finished(three.database) > before + 200, within_s=30)
    jobs = load.jobs
    # Calls in doubt may have created more than was answered; every one that exists counts.
    eventually(lambda: live(three.database) == 0, within_s=40)
    with psycopg.connect(three.database) as conn:
        stored = {row[0] for row in conn.execute("SELECT id::text FROM finished_jobs").fetchall()}
    assert jobs <= stored
    check_each_accepted_once(three.database, stored)
    lags = lags_ms(three.database, stored)
    p50, p99 = statistics.median(lags), lags[int(len(lags) * 0.99)]
    with capsys.disabled():
        print(f"\n{len(stored)} jobs, lag p50 {p50:.0f} ms, p99 {p99:.0f} ms, most {lags[-1]:.0f} ms")


def sessions(of: CoordinatorProcess) -> list[object]:
    with psycopg.connect(of.database) as conn:
        return conn.execute("SELECT id FROM sessions WHERE state < 3").fetchall()


def live(database: str) -> int:
    with psycopg.connect(database) as conn:
        row = conn.execute("SELECT count(*) FROM jobs").fetchone()
    assert row is not None
    return int(row[0])


def test_a_hand_over_is_not_waited_for(plane: Plane, starts: Starts) -> None:
    """Nobody waits for the end of the term, nor for the next look at the shards, a quarter of it later."""
    leaving, staying = (plane.add(ROTA_SHARD_TERM="1m") for _ in range(2))
    eventually(lambda: plane.balanced(2))
    plane.worker(staying.address, starts)
    with staying.client() as client:
        client.wait_job(client.create_job("quick", "x").name, timeout=30)
        stopping = threading.Thread(target=leaving.terminate)
        stopping.start()
        created = []
        while stopping.is_alive():
            created.append(client.create_job("quick", "x"))
            time.sleep(0.01)
        for job in created:
            client.wait_job(job.name, timeout=30)
    eventually(lambda: plane.balanced(1))
    assert max(lags_ms(staying.database, {job.id for job in created})) < 3_000


def test_a_worker_that_is_sent_away_does_not_hold_up_whoever_left(plane: Plane, starts: Starts) -> None:
    """The worker dials the first address again, where the one that leaves listens until all of its work is written."""
    leaving, staying = plane.add("tests.e2e.slow_leaver_main"), plane.add()
    eventually(lambda: plane.balanced(2))
    plane.worker(plane.address(), starts)
    with staying.client() as client:
        client.wait_job(client.create_job("quick", "x").name, timeout=30)
        # Without an end of the worker's stream it would stay for as long as calls under way may take, 30 s.
        assert leaving.terminate() == 0
        client.wait_job(client.create_job("quick", "x").name, timeout=30)
