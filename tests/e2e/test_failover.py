"""The primary is lost under load and its standby takes its place: nobody has to do anything about Rota."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from rota_sdk import NotFound

from ..conftest import DISTRIBUTION_15
from ..harness import CoordinatorProcess, eventually
from .payments import Orders, Payments, finished, order
from .replicated import Replicated, replicated

_OWNED = """
SELECT count(*) FROM shards s JOIN coordinators c ON c.id = s.owner WHERE c.expires_at > now() GROUP BY c.id
"""

BIN_DIR = DISTRIBUTION_15 if os.environ.get("ROTA_TEST_PG") == "15" else None


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Replicated]:
    with replicated(tmp_path / "replicated", BIN_DIR) as both:
        yield both


@pytest.fixture
def payments(empty_database: str, tmp_path: Path) -> Payments:
    """In a database that nobody loses."""
    return Payments(empty_database, tmp_path)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def coordinators(pair: Replicated, folder: Path, stack: ExitStack, count: int = 2) -> list[CoordinatorProcess]:
    started = []
    for number in range(count):
        (home := folder / f"coordinator-{number}").mkdir()
        started.append(stack.enter_context(CoordinatorProcess(pair.url, home)))
    eventually(lambda: balanced(pair.url, count))
    return started


def balanced(url: str, count: int) -> bool:
    """Whether so many coordinators live and have even shares."""
    with psycopg.connect(url) as conn:
        rows = conn.execute(_OWNED).fetchall()
    return sorted(owned for (owned,) in rows) == [256 // count] * count


def everywhere(started: list[CoordinatorProcess]) -> str:
    return "ipv4:" + ",".join(each.address for each in started)


def test_what_was_acknowledged_survives_a_synchronous_standbys_promotion(
    pair: Replicated, payments: Payments, tmp_path: Path, stack: ExitStack
) -> None:
    pair.be_synchronous()
    started = coordinators(pair, tmp_path, stack)
    for number in range(3):
        worker = payments.worker(started[0], address=everywhere(started[number % 2 :] + started[: number % 2]))
        stack.callback(worker.kill)
    with Orders(everywhere(started), started[0].key) as orders:
        eventually(lambda: finished(pair.url) >= 200, within_s=30)
        pair.fail_over()
        before = len(orders.acknowledged)
        eventually(lambda: len(orders.acknowledged) >= before + 200, within_s=30)
    jobs = orders.acknowledged
    eventually(lambda: finished(pair.url, jobs) == len(jobs), within_s=40)
    payments.check(pair.url, jobs)
    # A call in doubt may have created what nobody was told of; it is done as well, and as often.
    assert set(payments.rows().values()) == {1}


def test_a_standby_is_waited_for_until_it_is_promoted(pair: Replicated, tmp_path: Path, stack: ExitStack) -> None:
    coordinator = CoordinatorProcess(pair.url, tmp_path)
    stack.callback(coordinator.kill)
    coordinator.database = pair.standby.url
    pair.wait_for_standby()
    process = coordinator.launch()
    eventually(lambda: process.output.count("the database is waited for") >= 2, within_s=30)
    assert "read-only" in process.output
    pair.fail_over()
    process.wait_line("listening ")
    assert len(process.output.splitlines()) < 30


def test_what_a_lagging_standby_never_heard_of(
    pair: Replicated, payments: Payments, tmp_path: Path, stack: ExitStack
) -> None:
    """Lost is what was acknowledged since the standby heard the last: jobs created since do not exist, what ended since
    is done again. Its effect is not, and to the target each fence is higher than the one before."""
    leaving, staying = coordinators(pair, tmp_path, stack)
    with staying.client() as client:
        known = [order(client, kind="stumble") for _ in range(60)]
        eventually(lambda: pair.lag_bytes() == 0)
        pair.wait_for_standby()
        pair.link.silence()

        # All that follows is acknowledged, and lost. The shards of the one move to the other, under higher epochs.
        assert leaving.terminate() == 0
        eventually(lambda: balanced(pair.primary.url, 1))
        created = [order(client) for _ in range(20)]
        worker = payments.worker(staying, slots=20)
        stack.callback(worker.kill)
        done = {job.id for job in known + created}
        eventually(lambda: finished(pair.primary.url, done) == len(done), within_s=40)
        before = payments.events("started")
        fences = {job: fence for _, job, _, fence in before}
        assert payments.rows() == dict.fromkeys(done, 1)

        assert finished(pair.standby.url) == 0
        pair.fail_over()
        jobs = {job.id for job in known}
        eventually(lambda: finished(pair.url, jobs) == len(jobs), within_s=40)
        for job in created:
            with pytest.raises(NotFound):
                client.get_job(job.name)
        # And it goes on.
        later = order(client)
        assert client.wait_job(later.name, timeout=20).state.name == "SUCCEEDED"
    again = payments.events("started")[len(before) :]
    assert {job for _, job, _, _ in again} >= jobs
    assert all(fence > fences.get(job, 0) for _, job, _, fence in again if job in jobs)
    payments.check(pair.url, jobs | {later.id})
    assert payments.rows() == dict.fromkeys(done | {later.id}, 1)


def test_everybody_starts_again_on_a_database_that_forgot_who_had_what(
    pair: Replicated, payments: Payments, tmp_path: Path, stack: ExitStack
) -> None:
    """The coordinators die together with the primary, so that nobody remembers how far epochs were."""
    started = coordinators(pair, tmp_path, stack, 1)
    with started[0].client() as client:
        known = [order(client) for _ in range(40)]
    pair.wait_for_standby()
    pair.link.silence()
    for _ in range(3):
        assert started[0].terminate() == 0
        started[0].start()
    worker = payments.worker(started[0], slots=20)
    stack.callback(worker.kill)
    jobs = {job.id for job in known}
    eventually(lambda: finished(pair.primary.url, jobs) == len(jobs), within_s=40)
    started[0].kill()
    pair.fail_over()
    started[0].start()
    eventually(lambda: finished(pair.url, jobs) == len(jobs), within_s=40)
    payments.check(pair.url, jobs)
    assert payments.count("started") >= 2 * len(jobs)
