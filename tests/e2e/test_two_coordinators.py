"""Two coordinators on one database: whoever owns a shard acts for it, and one that slept can do no harm."""

import signal
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from rota_sdk import Client, JobState, NewJob
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

from ..harness import CoordinatorProcess, Process, eventually
from .conftest import HANDLERS, Starts
from .test_crashes import check_each_accepted_once, finished

ORPHANS = """
SELECT count(*) FROM shards s WHERE owner IS NOT NULL AND NOT EXISTS (SELECT FROM coordinators c WHERE c.id = s.owner)
"""


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
    eventually(lambda: len(owned(coordinator.database)) == 2)
    here = coordinator.worker(HANDLERS, str(starts.file), "20")
    there = second.worker(HANDLERS, str(starts.file), "20")
    assert coordinator.process is not None
    try:
        with second.client() as client:
            jobs = {job.id for job in client.create_jobs([NewJob("sleep", "0.05") for _ in range(600)])}
            eventually(lambda: len(starts.lines()) >= 50)
            coordinator.process.signal(signal.SIGSTOP)
            # The other one takes over when the sleeper's term has run out, and finds what it left.
            eventually(lambda: list(owned(coordinator.database).values()) == [256])
            eventually(lambda: finished(coordinator.database) > 300, within_s=30)
            jobs |= {job.id for job in client.create_jobs([NewJob("sleep", "0.05") for _ in range(200)])}
            coordinator.process.signal(signal.SIGCONT)
            eventually(lambda: finished(coordinator.database) == 800, within_s=40)
            assert all(job.state is JobState.SUCCEEDED for job in client.iter_jobs())
        # It has its share again.
        eventually(lambda: list(owned(coordinator.database).values()) == [128, 128])
        check_each_accepted_once(coordinator.database, jobs)
    finally:
        coordinator.process.signal(signal.SIGCONT)
        here.kill()
        there.kill()


def test_every_stale_write_of_a_sleeper_is_refused(database: str, tmp_path: Path, starts: Starts) -> None:
    """The sleeper believes in its shards to the last, so nothing but the epoch is between it and its jobs."""
    folders = [tmp_path / name for name in ("sleeper", "other")]
    for folder in folders:
        folder.mkdir()
    asleep = tmp_path / "asleep"
    with (
        CoordinatorProcess(database, folders[0], main="tests.e2e.zombie_main", ZOMBIE=str(asleep)) as sleeper,
        sleeper.client() as client,
    ):
        process = sleeper.process
        assert process is not None
        worker = sleeper.worker(HANDLERS, str(starts.file), "50")
        try:
            client.wait_job(client.create_job("quick", "x").name, timeout=40)
            for number in range(20):
                every_second(client, f"always-{number}", pb.OVERLAP_MODE_ALLOW)
                every_second(client, f"single-{number}", pb.OVERLAP_MODE_SKIP)
            first = value(database, "SELECT address FROM coordinators")
            # Due while it sleeps, and in its memory when it wakes. Nobody else has a worker for them.
            jobs = {job.id for job in client.create_jobs([NewJob("quick", "x", delay=6.0) for _ in range(60)])}
            asleep.touch()
            eventually(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
            with CoordinatorProcess(database, folders[1]):
                eventually(lambda: [(n, owner == first) for owner, n in owned(database).items()] == [(256, False)])
                taken_at = now(database)
                eventually(lambda: due(database) >= 60, within_s=20)
                process.signal(signal.SIGCONT)
                eventually(lambda: count(asked(process), "claim") >= 60 and count(asked(process), "fire") > 0)
                asleep.unlink()
                process.wait_line("looks 0 0")
                assert sum(done for _, _, done in asked(process)) == 0
                # Both have shards again, under new epochs, and everything is done once.
                eventually(lambda: jobs <= ended(database), within_s=30)
                assert stale_grants(database, taken_at) == 0
        finally:
            asleep.unlink(missing_ok=True)
            process.signal(signal.SIGCONT)
            worker.kill()


def asked(sleeper: Process) -> list[tuple[str, int, int]]:
    """What one that woke wrote, until it looked whether its shards are its own."""
    said = [(what, int(n), int(done)) for what, n, done in map(str.split, sleeper.lines[1:])]
    kinds = [what for what, _, _ in said]
    if "woke" not in kinds:
        return []
    return said[kinds.index("woke") : kinds.index("looks") if "looks" in kinds else None]


def count(asked: list[tuple[str, int, int]], wanted: str) -> int:
    return sum(n for what, n, _ in asked if what == wanted)


def every_second(client: Client, id: str, overlap: pb.OverlapMode) -> None:
    schedule = pb.Schedule(cron=pb.CronRule(expression="* * * * * *"), job=pb.JobTemplate(type="quick"))
    schedule.overlap_policy.mode = overlap
    client.stubs.schedules.CreateSchedule(pb.CreateScheduleRequest(schedule=schedule, schedule_id=id), timeout=10)


def now(database: str) -> datetime:
    return value(database, "SELECT now()")


def due(database: str) -> int:
    return int(value(database, "SELECT count(*) FROM jobs WHERE due_at <= now() AND state = 1"))


def ended(database: str) -> set[str]:
    with psycopg.connect(database) as conn:
        return {row[0] for row in conn.execute("SELECT id::text FROM finished_jobs").fetchall()}


def stale_grants(database: str, since: datetime) -> int:
    """Leases granted since then under the first owner's epoch, which is 1."""
    with psycopg.connect(database) as conn:
        row = conn.execute(
            "SELECT count(*) FROM (SELECT leased_at, fence FROM attempts UNION ALL SELECT leased_at, fence FROM "
            "finished_jobs UNION ALL SELECT leased_at, fence FROM jobs) g WHERE leased_at > %s AND fence >> 32 = 1",
            [since],
        ).fetchone()
    assert row is not None
    return int(row[0])


def value(database: str, sql: str) -> Any:
    with psycopg.connect(database) as conn:
        row = conn.execute(sql.encode()).fetchone()
    assert row is not None
    return row[0]


def test_a_graceful_stop_hands_everything_over(
    coordinator: CoordinatorProcess, second: CoordinatorProcess, starts: Starts
) -> None:
    there = second.worker(HANDLERS, str(starts.file), "20")
    try:
        with second.client() as client:
            assert coordinator.terminate() == 0
            # Handed over, not waited for: nothing of it is left whose term would have to run out first.
            assert value(coordinator.database, "SELECT count(*) FROM coordinators") <= 1
            assert value(coordinator.database, ORPHANS) == 0
            job = client.create_job("quick", "x")
            assert client.wait_job(job.name, timeout=20).state is JobState.SUCCEEDED
    finally:
        there.kill()
