"""Answers that are lost on the wire, after the coordinator has done its part: nothing is lost, nothing is doubled, and
no job waits for the end of its worker's life."""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from rota_sdk import Client, NewJob

from ..chaos.worker import JOB, TABLES, Work
from ..faults.answers import AnswerProxy, Rule
from ..harness import CoordinatorProcess, Process, clean_environment, eventually
from .test_crashes import check_each_accepted_once, finished

WORKERS = 4
SLOTS = 20
JOBS = 2_000
BATCH = 5
SPAN_S = 40.0
"""Jobs come at 50 a second: far below what the workers can do, so that what is waited for is the protocol."""

DELIVERY_TTL_S = 5.0
LONG = {"ROTA_SESSION_TTL": "10m", "ROTA_DELIVERY_TTL": "5s"}
"""No lease ends by the death of its worker within the test."""

LOST = 0.1


@dataclass(frozen=True, slots=True)
class Start:
    job: str
    fence: int
    at: float


class Scene:
    """Workers behind a proxy, and a target database where effects happen once."""

    def __init__(self, coordinator: CoordinatorProcess, target: str, folder: Path, stack: ExitStack) -> None:
        self.coordinator = coordinator
        self.proxy = stack.enter_context(AnswerProxy(coordinator.address))
        self.target = target
        self._folder = folder
        self._stack = stack
        with psycopg.connect(target) as conn:
            conn.execute(TABLES)

    def work(self, count: int = WORKERS, slots: int = SLOTS) -> list[Process]:
        """Workers that have opened their sessions."""
        workers = [self._worker(f"w{number}", self.proxy.address, slots) for number in range(count)]
        with self.coordinator.client() as client:
            eventually(lambda: len(client.list_sessions()) == count, within_s=30)
        return workers

    def work_directly(self) -> Process:
        """One more worker, which no fault reaches."""
        return self._worker("direct", self.coordinator.address, SLOTS)

    def create(self, span_s: float, count: int = JOBS, work: Work = Work()) -> set[str]:  # noqa: B008
        """Jobs at a steady rate, straight to the coordinator."""
        jobs: set[str] = set()
        began = time.monotonic()
        with Client(self.coordinator.address, api_key=self.coordinator.key) as client:
            for first in range(0, count, BATCH):
                time.sleep(max(began + span_s * first / count - time.monotonic(), 0.0))
                batch = [NewJob(JOB, work.payload) for _ in range(min(BATCH, count - first))]
                jobs |= {job.id for job in client.create_jobs(batch)}
        return jobs

    def _worker(self, name: str, address: str, slots: int) -> Process:
        arguments = [name, "default", str(slots), self.target, str(self._folder / "starts")]
        env = clean_environment() | {"ROTA_ADDRESS": address, "ROTA_API_KEY": self.coordinator.key}
        command = [sys.executable, "-m", "tests.chaos.worker", *arguments]
        worker = Process(command, env, self._folder / f"{name}.log")
        self._stack.callback(worker.kill)
        return worker

    def starts(self) -> list[Start]:
        rows = [line.split() for line in (self._folder / "starts").read_text().splitlines()]
        return [Start(job, int(fence), float(at)) for job, _, fence, at in rows]

    def delays_s(self, jobs: Sequence[str]) -> list[float]:
        """From creation, when each was due, to the start of the handler; the least first."""
        first: dict[str, float] = {}
        for start in self.starts():
            first.setdefault(start.job, start.at)
        with psycopg.connect(self.coordinator.database) as conn:
            rows = conn.execute("SELECT id::text, extract(epoch FROM created_at)::float8 FROM finished_jobs").fetchall()
        due: dict[str, float] = dict(rows)
        return sorted(first[job] - due[job] for job in jobs)

    def check(self, jobs: set[str], within_s: float = 60.0) -> None:
        """Each job succeeded once, and had its effect once, by an attempt that was granted to it."""
        eventually(lambda: finished(self.coordinator.database) == len(jobs), within_s=within_s, every_s=0.2)
        check_each_accepted_once(self.coordinator.database, jobs)
        with psycopg.connect(self.target) as conn:
            applied = Counter(job for (job,) in conn.execute("SELECT job FROM applied").fetchall())
        assert applied == Counter(jobs)


@pytest.fixture
def scene(database: str, empty_database: str, tmp_path: Path) -> Iterator[Scene]:
    with ExitStack() as stack:
        coordinator = stack.enter_context(CoordinatorProcess(database, tmp_path, **LONG))
        yield Scene(coordinator, empty_database, tmp_path, stack)


def percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


@pytest.mark.timeout(240)
def test_ten_percent_of_lease_answers_are_swallowed_under_load(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    workers = scene.work()
    scene.proxy.set(Rule("Lease", lost=LOST))
    jobs = scene.create(SPAN_S)
    scene.check(jobs)
    counts = scene.proxy.counts()
    delays = scene.delays_s(sorted(jobs))
    p50, p99 = percentile(delays, 0.5), percentile(delays, 0.99)
    with psycopg.connect(scene.coordinator.database) as conn:
        undelivered = conn.execute("SELECT count(*) FROM attempts WHERE outcome = 6").fetchone()
    with capsys.disabled():
        print(
            f"\n{len(jobs)} jobs, {counts['Lease lost']} of {counts['Lease lost'] + counts['Lease forwarded']} Lease "
            f"answers lost, {undelivered} given back; due to start p50 {p50 * 1e3:.0f} ms, p99 {p99:.2f} s, most "
            f"{delays[-1]:.2f} s"
        )
    assert counts["Lease lost"] >= 10
    assert p99 < DELIVERY_TTL_S + 1
    for worker in workers:
        assert worker.terminate() == 0


def test_a_lone_worker_gets_the_answer_that_was_swallowed(scene: Scene) -> None:
    """Nobody else could be given the job: the very call is answered again, long before the delivery TTL."""
    scene.work(1)
    scene.proxy.set(Rule("Lease", lost=1.0))
    jobs = scene.create(0.0, count=1)
    eventually(lambda: scene.proxy.counts()["Lease lost"])
    scene.proxy.set()
    scene.check(jobs)
    # Sent again, it has as long once more.
    assert scene.delays_s(sorted(jobs))[0] < DELIVERY_TTL_S * scene.proxy.counts()["Lease lost"]
    with psycopg.connect(scene.coordinator.database) as conn:
        assert conn.execute("SELECT attempt, attempts_counted FROM finished_jobs").fetchone() == (1, 1)


def test_a_worker_that_hears_nothing_more_is_passed_over_after_the_delivery_ttl(scene: Scene) -> None:
    """Neither the answer nor the question whether it came gets through: another worker has the job."""
    scene.work(1)
    scene.proxy.set(Rule("Lease", lost=1.0), Rule("Heartbeat", lost=1.0), Rule("SendHeartbeat", lost=1.0))
    jobs = scene.create(0.0, count=1)
    eventually(lambda: scene.proxy.counts()["Lease lost"])
    other = scene.work_directly()
    scene.check(jobs)
    assert DELIVERY_TTL_S - 1 < scene.delays_s(sorted(jobs))[0] < 3 * DELIVERY_TTL_S
    assert other.terminate() == 0


@pytest.mark.timeout(240)
def test_every_kind_of_answer_is_lost_now_and_then(scene: Scene) -> None:
    """Some are swallowed, some replaced by UNAVAILABLE, some calls come twice, and streams are cut."""
    scene.proxy.set(Rule("OpenSession", lost=0.5))
    scene.work()
    scene.proxy.set(
        Rule("Lease", lost=0.05, unavailable=0.1, repeated=0.1),
        Rule("Complete", lost=0.1, unavailable=0.1, repeated=0.1),
        Rule("OpenSession", lost=0.3, unavailable=0.3, repeated=0.3),
        Rule("Heartbeat", lost=0.05, cut_after_s=3.0),
        Rule("SendHeartbeat", lost=0.2),
        Rule("CloseSession", unavailable=0.5),
    )
    jobs = scene.create(20.0, count=800, work=Work(before_s=0.05, failing=1))
    scene.check(jobs, within_s=90.0)
    counts = scene.proxy.counts()
    for what in ("Lease lost", "Lease unavailable", "Lease repeated", "Complete lost", "Complete repeated"):
        assert counts[what] > 0, counts
    assert counts["Heartbeat cut"] > 0
    with psycopg.connect(scene.coordinator.database) as conn:
        # Only the planned failures count.
        assert conn.execute("SELECT DISTINCT attempts_counted FROM finished_jobs").fetchall() == [(2,)]
