"""Workers in every language on one queue of a real coordinator, each killed once: every job has one accepted outcome.

The workers are the programs of the conformance suite, which build what they need: run by `make test-workers`.
"""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from rota_conformance.__main__ import FOLDER, ROOT, here, prepared
from rota_conformance.case import Language, load_languages
from rota_conformance.program import Program
from rota_sdk import Client, JobState, NewJob, RetryPolicy

from ..harness import CoordinatorProcess, eventually

JOBS = 4_000
SLOTS = 20
TYPES = {"ok": {"return": "done"}, "fail": {"fail": {"message": "as it should"}}, "slow": {"deaf": 0.1}, "hold": "hold"}
ENDS = {
    "ok": JobState.SUCCEEDED,
    "slow": JobState.SUCCEEDED,
    "fail": JobState.DEAD,
    "hold": JobState.CANCELLED,
}
FAILS = 2
"""Attempts of a job that always fails."""


@pytest.fixture(scope="module")
def languages() -> list[Language]:
    return [prepared(language, False) for language in here(list(load_languages(FOLDER / "languages.yaml").values()))]


@pytest.fixture
def coordinator(database: str, tmp_path: Path) -> Iterator[CoordinatorProcess]:
    # Long enough for a virtual machine that starts on a busy host.
    with CoordinatorProcess(database, tmp_path, ROTA_SESSION_TTL="6s", ROTA_DELIVERY_TTL="3s") as process:
        yield process


def start(language: Language, coordinator: CoordinatorProcess) -> Program:
    config = {
        "address": coordinator.address,
        "api_key": coordinator.key,
        "queues": ["default"],
        "slots": SLOTS,
        "drain_timeout": 10.0,
        "types": TYPES,
    }
    return Program(language.command, ROOT, config, lambda: None)


def create(client: Client, kinds: list[str]) -> dict[str, str]:
    """The type of each job, by its name."""
    created = {}
    for at in range(0, len(kinds), 1_000):
        batch = kinds[at : at + 1_000]
        jobs = client.create_jobs(
            [
                NewJob(
                    kind,
                    retry=RetryPolicy(
                        # A worker that is killed takes attempts along; only `fail` is to use its own up.
                        max_attempts=FAILS if kind == "fail" else 20,
                        initial_backoff=0.1,
                    ),
                )
                for kind in batch
            ]
        )
        created |= {job.name: kind for job, kind in zip(jobs, batch, strict=True)}
    return created


@pytest.mark.timeout(600)
def test_every_job_has_one_accepted_outcome(coordinator: CoordinatorProcess, languages: list[Language]) -> None:
    rng = random.Random(7)
    kinds = rng.choices(["ok", "fail", "slow"], [85, 10, 5], k=JOBS) + ["hold"] * 20
    rng.shuffle(kinds)
    programs = [start(language, coordinator) for language in languages]
    try:
        with coordinator.client() as client:
            created = create(client, kinds)
            for at, language in enumerate(languages):
                # Each has done some work of its own before it dies in the middle of more.
                eventually(lambda at=at: done(programs[at]) > 50, within_s=120)  # type: ignore[misc]
                programs[at].signal("KILL")
                programs[at].stop(5)
                programs[at] = start(language, coordinator)
            held = [name for name, kind in created.items() if kind == "hold"]
            for name in held:
                client.cancel_job(name)
            eventually(lambda: ended(coordinator.database) == len(created), within_s=240)
        assert outcomes(coordinator.database) == {name: ENDS[kind] for name, kind in created.items()}
        # All of them took part, and leave in order.
        assert [program.stop(30) for program in programs] == [0] * len(programs)
        assert all(done(program) for program in programs)
    finally:
        for program in programs:
            program.signal("KILL")
            program.stop(5)


def done(program: Program) -> int:
    return sum(event["event"] == "ended" for event in list(program.events))


def ended(database: str) -> int:
    with psycopg.connect(database) as conn:
        row = conn.execute("SELECT (SELECT count(*) FROM finished_jobs) + (SELECT count(*) FROM dead_jobs)").fetchone()
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
            "SELECT count(*) - count(DISTINCT (job_id, fence)) FROM (SELECT job_id, fence FROM attempts UNION ALL "
            "SELECT id, fence FROM finished_jobs WHERE outcome IS NOT NULL) f"
        ).fetchone()
    assert left == (0,)
    assert fences == (0,)
    assert not [id for id, count in Counter(id for id, _ in rows).items() if count > 1]
    return {f"jobs/{id}": JobState(state) for id, state in rows}
