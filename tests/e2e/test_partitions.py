"""A network that falls silent for longer than anybody is believed to live: others take over, and who was cut off does
no harm when it is heard again."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from rota_sdk import AttemptOutcome

from ..faults.tcp import Link, Network
from ..harness import CoordinatorProcess, eventually
from .payments import Orders, Payments, finished, order, proven

LOST, SUCCEEDED = AttemptOutcome.LEASE_LOST, AttemptOutcome.SUCCEEDED


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def network(stack: ExitStack) -> Network:
    return stack.enter_context(Network())


@pytest.fixture
def payments(empty_database: str, tmp_path: Path) -> Payments:
    return Payments(empty_database, tmp_path)


def through(link: Link, database: str) -> str:
    """The database's URL by this way."""
    before, _, after = database.rpartition("@")
    return f"{before}@{link.address}/{after.partition('/')[2]}"


def place(database: str) -> str:
    return database.rpartition("@")[2].partition("/")[0]


def owned(database: str) -> list[int]:
    """Shards of each living coordinator."""
    with psycopg.connect(database, autocommit=True) as conn:
        rows = conn.execute(
            "SELECT count(s.shard) FROM coordinators c LEFT JOIN shards s ON s.owner = c.id "
            "WHERE c.expires_at > now() GROUP BY c.id"
        ).fetchall()
    return sorted(count for (count,) in rows)


def test_a_coordinator_cannot_reach_the_database(
    database: str, tmp_path: Path, payments: Payments, network: Network, stack: ExitStack
) -> None:
    """What it was about to write arrives when the silence is over: claims of shards that are another's by then."""
    link = network.link(place(database))
    (home := tmp_path / "other").mkdir()
    cut = stack.enter_context(CoordinatorProcess(through(link, database), tmp_path))
    other = stack.enter_context(CoordinatorProcess(database, home))
    eventually(lambda: owned(database) == [128, 128])
    for each in (cut, other):
        stack.callback(payments.worker(each, 10).kill)
    everywhere = f"ipv4:{other.address},{cut.address}"
    with Orders(everywhere, other.key) as orders:
        eventually(lambda: finished(database) >= 100, within_s=40)
        link.silence()
        eventually(lambda: owned(database) == [256])
        before = finished(database)
        # Whoever worked for the one that is cut off is taken for dead in its turn, and its jobs run elsewhere.
        eventually(lambda: finished(database) >= before + 100, within_s=40)
        eventually(lambda: sessions(database) == 1)
        link.heal()
        eventually(lambda: owned(database) == [128, 128])
        eventually(lambda: sessions(database) == 2)
        before = len(orders.acknowledged)
        eventually(lambda: len(orders.acknowledged) >= before + 50, within_s=30)
    jobs = orders.acknowledged
    eventually(lambda: finished(database, jobs) == len(jobs), within_s=40)
    payments.check(database, jobs)


def sessions(database: str) -> int:
    """Those that beat."""
    with psycopg.connect(database, autocommit=True) as conn:
        row = conn.execute("SELECT count(*) FROM sessions WHERE closed_at IS NULL AND expires_at > now()").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("step", ["running", "effect committed"])
def test_a_worker_cannot_reach_the_coordinator(
    coordinator: CoordinatorProcess, payments: Payments, network: Network, stack: ExitStack, step: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    link = network.link(coordinator.address)
    cut = payments.worker(coordinator, 5, link.address)
    stack.callback(cut.kill)
    with coordinator.client() as client:
        gates = {"before": gate} if step == "running" else {"after": gate}
        jobs = [order(client, **gates) for _ in range(5)]
        reached = "started" if step == "running" else "paid"
        eventually(lambda: payments.count(reached) == 5, within_s=40)
        eventually(lambda: proven(coordinator.database))
        link.silence()
        stack.callback(payments.worker(coordinator, 5).kill)
        eventually(lambda: payments.count("started") == 10, within_s=40)
        # Both do their work now, and the one that is cut off cannot tell.
        gate.touch()
        for job in jobs:
            assert client.wait_job(job.name, timeout=60).state.name == "SUCCEEDED"
        link.heal()
        # Heard again, it works as before.
        later = [order(client) for _ in range(40)]
        for job in later:
            client.wait_job(job.name, timeout=60)
        eventually(lambda: sessions(coordinator.database) == 2)
        for job in jobs:
            assert [attempt.outcome for attempt in client.list_attempts(job.name)] == [LOST, SUCCEEDED]
            result = client.get_job(job.name).result
            assert result is not None
            assert result.text() == "attempt 2"
    # Who was cut off has tried as well, and may have been refused.
    eventually(lambda: payments.count("paid") + payments.count("stale") >= 10 + len(later))
    if step == "running":
        check_late_fences(payments, {job.id for job in jobs})
        payments.file.write_text("")
    payments.check(coordinator.database, {job.id for job in jobs + later})


def check_late_fences(payments: Payments, jobs: set[str]) -> None:
    """Whoever was later at the target with the lower fence was refused there; nobody was paid twice."""
    rows = payments.rows()
    assert {job: rows[job] for job in jobs} == dict.fromkeys(jobs, 1)
    assert all(attempt == 1 for _, _, attempt, _ in payments.events("stale"))
