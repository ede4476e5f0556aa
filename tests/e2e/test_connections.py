"""Connections that lie: idle ones that are forgotten on the way, half-open ones, ones that are closed for their age,
and a network that parts coordinators from each other."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from rota_sdk import Client, Job, NewJob, Worker

from ..faults.tcp import Link, Network
from ..harness import CoordinatorProcess, Process, eventually
from .conftest import HANDLERS, Starts
from .test_crashes import check_each_accepted_once, finished
from .test_many_coordinators import Plane

PORTS = range(12_000, 30_000)

PATIENT = {"ROTA_SESSION_TTL": "12s", "ROTA_DELIVERY_TTL": "5s"}
"""As users have it: nobody is thought dead because the machine is slow."""


@pytest.fixture
def network() -> Iterator[Network]:
    with Network() as network:
        yield network


@pytest.fixture
def workers() -> Iterator[list[Process]]:
    found: list[Process] = []
    yield found
    for worker in found:
        worker.kill()


def far_worker(coordinator: CoordinatorProcess, link: Link, starts: Starts, workers: list[Process]) -> Process:
    """One that reaches the coordinator by this way only; its session is open."""
    with coordinator.client() as client:
        workers.append(coordinator.worker(HANDLERS, str(starts.file), address=link.address))
        eventually(lambda: client.list_sessions())
    return workers[-1]


def start_one(client: Client, starts: Starts) -> None:
    """Creates a job, and waits for the start of its handler."""
    job = client.create_job("quick", "x")
    eventually(lambda: job.id in starts.by_job())


def test_beats_keep_a_connection_alive_that_is_forgotten_when_idle(
    coordinator: CoordinatorProcess, network: Network, starts: Starts, workers: list[Process]
) -> None:
    """As behind proxies and firewalls; the times are shorter. Beats come every second."""
    link = network.link(coordinator.address)
    link.drop_idle(6.0)
    far_worker(coordinator, link, starts, workers)
    time.sleep(9)
    with coordinator.client() as client:
        start_one(client, starts)
        eventually(lambda: len(client.list_sessions()) == 1)
    # On the first connection, which was never forgotten.
    assert link.accepted == 1


def test_a_connection_that_was_forgotten_is_replaced_and_the_session_goes_on(
    database: str, network: Network, starts: Starts, workers: list[Process], tmp_path: Path
) -> None:
    """Beats come every 4 s, so the connection is forgotten between two: whoever writes hears nothing."""
    with CoordinatorProcess(database, tmp_path, ROTA_SESSION_TTL="12s") as coordinator:
        link = network.link(coordinator.address)
        far_worker(coordinator, link, starts, workers)
        link.drop_idle(2.0)
        with coordinator.client() as client:
            (before,) = client.list_sessions()
            eventually(lambda: link.accepted > 1, within_s=30)
            # Once is enough: each time takes three quarters of the TTL.
            link.heal()
            start_one(client, starts)
            assert [each.name for each in client.list_sessions()] == [before.name]


@pytest.mark.parametrize("directions", [("up",), ("down",), ("up", "down")], ids="-".join)
def test_a_half_open_connection_costs_a_term_and_no_job(
    coordinator: CoordinatorProcess,
    network: Network,
    starts: Starts,
    workers: list[Process],
    directions: tuple[str, ...],
) -> None:
    """A worker that hears nothing, or is not heard, loses what it has; when the way is open it comes back by itself."""
    link = network.link(coordinator.address)
    with coordinator.client() as client:
        far = far_worker(coordinator, link, starts, workers)
        jobs = {job.id for job in client.create_jobs([NewJob("sleep", "1.0") for _ in range(10)])}
        eventually(lambda: len(starts.lines()) == 10)
        link.silence(*directions)
        workers.append(coordinator.worker(HANDLERS, str(starts.file)))
        eventually(lambda: finished(coordinator.database) == 10, within_s=40)
        check_each_accepted_once(coordinator.database, jobs)
        link.heal()
        # It comes back under a session of its own, and works.
        workers.pop().kill()
        jobs |= {job.id for job in client.create_jobs([NewJob("quick", "x") for _ in range(10)])}
        eventually(lambda: finished(coordinator.database) == 20, within_s=40)
    assert {pid for *_, pid in starts.lines()[-10:]} == {far.pid}
    check_each_accepted_once(coordinator.database, jobs)


def test_an_owner_whom_nobody_reaches_gives_its_shards_to_others(
    database: str, network: Network, starts: Starts, workers: list[Process], tmp_path: Path
) -> None:
    """Two coordinators with the same database and no way between them; all workers are at the second one."""
    with ExitStack() as stack:
        plane = [stack.enter_context(_coordinator(database, network, tmp_path / f"c{n}")) for n in range(2)]
        (_, first_peers), (second, second_peers) = plane
        eventually(lambda: sorted(_owned(database)) == [128, 128])
        workers.append(second.worker(HANDLERS, str(starts.file)))
        with second.client() as client:
            client.wait_job(client.create_job("quick", "x").name, timeout=40)
            for link in (first_peers, second_peers):
                link.silence()
            jobs = client.create_jobs([NewJob("quick", "x") for _ in range(60)])
            eventually(lambda: finished(database) == 61, within_s=60)
            eventually(lambda: _owned(database) == [256])
            for link in (first_peers, second_peers):
                link.heal()
            assert {job.state.name for job in map(client.get_job, [job.name for job in jobs])} == {"SUCCEEDED"}


def _coordinator(database: str, network: Network, folder: Path) -> "_Reached":
    return _Reached(database, network, folder)


class _Reached:
    """A coordinator that its peers reach by a link."""

    def __init__(self, database: str, network: Network, folder: Path) -> None:
        folder.mkdir()
        peer_listen = f"127.0.0.1:{random.choice(PORTS)}"
        self._link = network.link(peer_listen)
        self._process = CoordinatorProcess(
            database, folder, ROTA_PEER_LISTEN=peer_listen, ROTA_PEER_ADVERTISE=self._link.address
        )

    def __enter__(self) -> tuple[CoordinatorProcess, Link]:
        return self._process.start(), self._link

    def __exit__(self, *_: object) -> None:
        self._process.kill()


def _owned(database: str) -> list[int]:
    """Shards of each living coordinator that has some."""
    with psycopg.connect(database) as conn:
        rows = conn.execute(
            "SELECT count(*) FROM shards s JOIN coordinators c ON c.id = s.owner WHERE c.expires_at > now() "
            "GROUP BY s.owner"
        ).fetchall()
    return [count for (count,) in rows]


def test_connections_that_are_closed_for_their_age_lose_and_double_nothing(
    database: str, tmp_path: Path, starts: Starts, workers: list[Process]
) -> None:
    """GOAWAY every two seconds, while many workers poll at two coordinators, one of which leaves and comes back."""
    with ExitStack() as stack:
        plane = Plane(database, tmp_path, stack, main="tests.e2e.short_lived_main", **PATIENT)
        one, two = plane.add(), plane.add()
        eventually(lambda: plane.balanced(2))
        for number in range(6):
            plane.worker(plane.address(number), starts, slots=4)
        jobs: set[str] = set()
        with Client(plane.address(), api_key=one.key) as client:
            for round in range(40):
                jobs |= {job.id for job in client.create_jobs([NewJob("quick", "x") for _ in range(25)])}
                time.sleep(0.15)
                if round == 15:
                    assert two.terminate() == 0
                    two.start()
            eventually(lambda: finished(database) == len(jobs), within_s=60)
    check_each_accepted_once(database, jobs)
    assert len(starts.by_job()) == 1_000
    with psycopg.connect(database) as conn:
        # Nobody was thought dead, and no lease was given back.
        assert conn.execute("SELECT DISTINCT outcome FROM attempts").fetchall() == []


def test_workers_that_boot_at_once_and_create_the_same_job_run_it_once(
    database: str, tmp_path: Path, starts: Starts
) -> None:
    with ExitStack() as stack:
        plane = Plane(database, tmp_path, stack, **PATIENT)
        addresses = [plane.add().address for _ in range(3)]
        eventually(lambda: plane.balanced(3))
        ready = threading.Barrier(6)
        made: list[Job] = []
        ran: list[tuple[str, int]] = []

        def boot(number: int) -> None:
            """As an application does that creates its job at its start, and works."""
            key = plane.all[0].key
            worker = Worker(["default"], 2, address=addresses[number % 3], api_key=key)
            worker.add("once", lambda lease: ran.append((lease.id, lease.attempt)))
            thread = threading.Thread(target=worker.run)
            thread.start()
            with Client(addresses[number % 3], api_key=key) as client:
                ready.wait()
                made.append(client.create_job("once", "x", request_id="at the start"))
                client.wait_job(made[-1].name, timeout=40)
            ready.wait()
            worker.stop()
            thread.join()

        booting = [threading.Thread(target=boot, args=(number,)) for number in range(6)]
        for each in booting:
            each.start()
        for each in booting:
            each.join()
        (name,) = {job.name for job in made}
        assert len(made) == 6
        assert ran == [(name.removeprefix("jobs/"), 1)]
    check_each_accepted_once(database, {name.removeprefix("jobs/")})
