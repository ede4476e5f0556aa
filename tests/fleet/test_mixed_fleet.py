"""Workers in every language on one queue of a real coordinator, each killed once, under failures and cancellations:
every job has one accepted outcome, and its effect happened once."""

import json
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from rota_conformance.__main__ import FOLDER, ROOT, here, prepared
from rota_conformance.case import Language, load_languages
from rota_sdk import Client, JobState, NewJob, RetryPolicy, effects

from ..harness import CoordinatorProcess, clean_environment, eventually

JOBS = 10_000
SLOTS = 20
FAILS = 0.05
"""The chance to fail before the effect, and again after it."""
SLOW = 500
CANCELLED = 200
KILL_AFTER = 300
WITHIN_S = 180.0
ACCOUNTS = "CREATE TABLE payments (job text NOT NULL, fence bigint NOT NULL, sdk text NOT NULL)"


class Worker:
    """One SDK's worker, which says how many handlers it has started."""

    def __init__(self, language: Language, coordinator: CoordinatorProcess, target: str, log: Path) -> None:
        env = clean_environment() | {
            "ROTA_ADDRESS": coordinator.address,
            "ROTA_API_KEY": coordinator.key,
            "FLEET_TARGET": target,
        }
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [*language.fleet, "--slots", str(SLOTS)],
                cwd=ROOT,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self.log = log
        self.started = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.started = json.loads(line).get("started", self.started)

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._end()

    def leave(self) -> int:
        """SIGTERM, and the exit code."""
        self._process.terminate()
        return self._end()

    def _end(self) -> int:
        code = self._process.wait(30)
        self._reader.join()
        assert self._process.stdin is not None
        self._process.stdin.close()
        return code


@pytest.fixture(scope="module")
def languages() -> list[Language]:
    return [prepared(language, False) for language in here(list(load_languages(FOLDER / "languages.yaml").values()))]


@pytest.fixture
def coordinator(database: str, tmp_path: Path) -> Iterator[CoordinatorProcess]:
    # Long enough for a virtual machine that starts on a busy host.
    with CoordinatorProcess(database, tmp_path, ROTA_SESSION_TTL="6s", ROTA_DELIVERY_TTL="3s") as process:
        yield process


def create(client: Client, rng: random.Random) -> list[str]:
    """The names of the jobs; the first few take their time."""
    retry = RetryPolicy(max_attempts=100, initial_backoff=0.1, max_backoff=1.0)
    jobs = [
        NewJob("pay", {"fails": FAILS, "slow_ms": rng.randint(200, 1_000) if at < SLOW else 0}, retry=retry)
        for at in range(JOBS)
    ]
    rng.shuffle(jobs)
    return [job.name for at in range(0, JOBS, 1_000) for job in client.create_jobs(jobs[at : at + 1_000])]


@pytest.mark.timeout(420)
def test_every_job_has_one_accepted_outcome_and_one_effect(
    coordinator: CoordinatorProcess, empty_database: str, languages: list[Language], tmp_path: Path
) -> None:
    rng = random.Random(7)
    with psycopg.connect(empty_database, autocommit=True) as target:
        effects.create_table(target)
        target.execute(ACCOUNTS)

    def start(at: int) -> Worker:
        return Worker(languages[at], coordinator, empty_database, tmp_path / f"{languages[at].name}.log")

    workers = [start(at) for at in range(len(languages))]
    began = time.monotonic()
    try:
        with coordinator.client() as client:
            # Those that start sooner would leave nothing to those that start later.
            eventually(lambda: len(client.list_sessions()) >= len(workers), within_s=WITHIN_S)
            names = create(client, rng)
            cancelled = rng.sample(names, CANCELLED)
            for at in range(len(workers)):
                for name in cancelled[at :: len(workers)]:
                    client.cancel_job(name)
                # Each has done some work of its own before it dies in the middle of more.
                eventually(lambda at=at: workers[at].started >= KILL_AFTER, within_s=WITHIN_S)  # type: ignore[misc]
                workers[at].kill()
                workers[at] = start(at)
            eventually(lambda: ended(coordinator.database) == JOBS, within_s=WITHIN_S)
        took_s = time.monotonic() - began
        states = outcomes(coordinator.database)
        assert set(states) == set(names)
        assert {name for name, state in states.items() if state is not JobState.SUCCEEDED} <= set(cancelled)
        assert set(states.values()) <= {JobState.SUCCEEDED, JobState.CANCELLED}
        paid = payments(empty_database)
        assert [name for name, state in states.items() if paid[name] != 1 and state is JobState.SUCCEEDED] == []
        assert [name for name in paid if paid[name] > 1 or name not in states] == []
        assert [worker.leave() for worker in workers] == [0] * len(workers)
    finally:
        for worker in workers:
            worker.kill()
    shares = by_sdk(empty_database)
    ends = dict(Counter(state.name for state in states.values()))
    print(
        f"\n{JOBS} jobs in {took_s:.0f} s, each worker killed once: {ends}, {attempts(coordinator.database)} attempts, "
        f"{sum(paid.values())} effects, each once: {shares}"
    )
    assert set(shares) == {language.name for language in languages}


def ended(database: str) -> int:
    with psycopg.connect(database) as conn:
        row = conn.execute("SELECT (SELECT count(*) FROM finished_jobs) + (SELECT count(*) FROM dead_jobs)").fetchone()
    assert row is not None
    return int(row[0])


def attempts(database: str) -> int:
    with psycopg.connect(database) as conn:
        row = conn.execute("SELECT sum(attempt) FROM finished_jobs").fetchone()
    assert row is not None
    return int(row[0])


def outcomes(database: str) -> dict[str, JobState]:
    """How each job ended; fails where one is in two places, lives still, or was granted a fence twice."""
    with psycopg.connect(database) as conn:
        rows = conn.execute(
            "SELECT id::text, state FROM finished_jobs UNION ALL SELECT id::text, %s FROM dead_jobs",
            [int(JobState.DEAD)],
        ).fetchall()
        left = conn.execute("SELECT count(*) FROM jobs").fetchone()
        fences = conn.execute(
            # A job that is cancelled while it waits for its retry ends under the fence of an attempt of the past.
            "SELECT count(*) - count(DISTINCT (job_id, fence)) FROM (SELECT job_id, fence FROM attempts UNION ALL "
            "SELECT id, fence FROM finished_jobs WHERE state = %s) f",
            [int(JobState.SUCCEEDED)],
        ).fetchone()
    assert left == (0,)
    assert fences == (0,)
    assert not [id for id, count in Counter(id for id, _ in rows).items() if count > 1]
    return {f"jobs/{id}": JobState(state) for id, state in rows}


def payments(target: str) -> Counter[str]:
    """Rows for each job; fails unless each has its effect key beside it."""
    with psycopg.connect(target) as conn:
        paid = Counter(job for (job,) in conn.execute("SELECT job FROM payments"))
        keys = conn.execute("SELECT count(*) FROM rota_effects").fetchone()
    assert keys == (sum(paid.values()),)
    return paid


def by_sdk(target: str) -> dict[str, int]:
    with psycopg.connect(target) as conn:
        return dict(conn.execute("SELECT sdk, count(*) FROM payments GROUP BY sdk ORDER BY sdk").fetchall())
