"""A database that is there and will not do as it is asked: no connections, no writing, no room, locks of strangers.

Each time: a clear refusal or a wait, nothing lost and nothing paid for twice, back to work without anybody's help, and
a log that can still be read.
"""

import random
import signal
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from subprocess import PIPE

import grpc
import psycopg
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from rota_sdk import Client, NewJob
from rota_sdk.errors import RotaError

from rota import bootstrap
from rota.bootstrap import CONNECTIONS_MAX
from rota.store.embedded import EmbeddedPostgres

from ..harness import CoordinatorProcess, eventually
from .payments import Orders, Payments, finished

LOG_LINES_MAX = 60
DISK_BYTES = 160 * 1024 * 1024
MINE = "datname = current_database() AND application_name LIKE 'rota%'"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    folder = tmp_path_factory.mktemp("postgres")
    settings = {"fsync": "off", "max_connections": "60", "superuser_reserved_connections": "0"}
    with EmbeddedPostgres(folder / "server" / "data", settings=settings) as server:
        yield server


@pytest.fixture
def url(server: EmbeddedPostgres) -> str:
    """A migrated database of the test's own."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server.url, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name}".encode())
    url = server.url.rpartition("/")[0] + f"/{name}"
    bootstrap.migrate(url)
    return url


@pytest.fixture
def coordinator(url: str, tmp_path: Path) -> Iterator[CoordinatorProcess]:
    with CoordinatorProcess(url, tmp_path) as process:
        yield process


@pytest.fixture
def payments(empty_database: str, tmp_path: Path) -> Payments:
    return Payments(empty_database, tmp_path)


@contextmanager
def working(coordinator: CoordinatorProcess, payments: Payments) -> Iterator[Orders]:
    """A worker, and orders all the time. At the end of the block all that was acknowledged is done, and once."""
    worker = payments.worker(coordinator, 20)
    try:
        with Orders(coordinator.address, coordinator.key) as orders:
            eventually(lambda: finished(coordinator.database) >= 40, within_s=40)
            yield orders
            before = len(orders.acknowledged)
            eventually(lambda: len(orders.acknowledged) >= before + 50, within_s=40)
        jobs = orders.acknowledged
        eventually(lambda: finished(coordinator.database, jobs) == len(jobs), within_s=60)
    finally:
        worker.kill()
    payments.check(coordinator.database, jobs)
    assert coordinator.process is not None
    assert len(coordinator.process.output.splitlines()) < LOG_LINES_MAX
    assert "Traceback" not in coordinator.process.output


def refused(coordinator: CoordinatorProcess) -> bool:
    """Whether a creation is refused, as what may be tried again."""
    with Client(coordinator.address, api_key=coordinator.key, timeout=30.0) as client:
        try:
            client.create_job("nothing")
        except RotaError as error:
            assert error.reason == "STORE_UNAVAILABLE", error
            return True
    return False


def serving(coordinator: CoordinatorProcess) -> bool:
    with grpc.insecure_channel(coordinator.address) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10.0)
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def hang_up(admin: psycopg.Connection[tuple[object, ...]]) -> None:
    admin.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {MINE}".encode())


def connections(admin: psycopg.Connection[tuple[object, ...]]) -> int:
    """Those of coordinators that are there."""
    row = admin.execute(f"SELECT count(*) FROM pg_stat_activity WHERE {MINE}".encode()).fetchone()
    assert row is not None
    return int(str(row[0]))


def test_others_take_all_connections(coordinator: CoordinatorProcess, payments: Payments, url: str) -> None:
    with working(coordinator, payments), psycopg.connect(url, autocommit=True) as admin, ExitStack() as greedy:
        assert 0 < connections(admin) <= CONNECTIONS_MAX
        # Those of the coordinator end, and others are there first.
        coordinator.process.signal(signal.SIGSTOP)  # type: ignore[union-attr]
        hang_up(admin)
        eventually(lambda: connections(admin) == 0)
        with pytest.raises(psycopg.OperationalError, match="too many clients"):
            while True:
                greedy.enter_context(psycopg.connect(url))
        coordinator.process.signal(signal.SIGCONT)  # type: ignore[union-attr]
        assert refused(coordinator)
        eventually(lambda: not serving(coordinator))
        greedy.close()
        eventually(lambda: serving(coordinator))


def test_read_only_for_a_while(coordinator: CoordinatorProcess, payments: Payments, url: str) -> None:
    """As a standby that a name or a proxy leads to, until it is promoted."""
    name = url.rpartition("/")[2]
    with working(coordinator, payments), psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on".encode())
        hang_up(admin)
        # Whoever is told to hang up may do one thing more.
        eventually(lambda: refused(coordinator))
        eventually(lambda: not serving(coordinator))
        before = sessions(admin)
        admin.execute("SELECT pg_sleep(10)")
        tries = sessions(admin) - before
        admin.execute("SET default_transaction_read_only = off")
        admin.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only".encode())
        eventually(lambda: serving(coordinator))
    assert tries < 300


def sessions(admin: psycopg.Connection[tuple[object, ...]]) -> int:
    """Connections that were ever made to this database."""
    row = admin.execute("SELECT sessions FROM pg_stat_database WHERE datname = current_database()").fetchone()
    assert row is not None
    return int(str(row[0]))


def test_backends_are_killed_under_load(coordinator: CoordinatorProcess, payments: Payments, url: str) -> None:
    rng = random.Random(5)
    killed = 0
    with working(coordinator, payments) as orders, psycopg.connect(url, autocommit=True) as admin:
        before = len(orders.acknowledged)
        while killed < 40 or len(orders.acknowledged) < before + 20:
            pids = admin.execute(f"SELECT pid FROM pg_stat_activity WHERE {MINE} AND state <> 'idle'".encode())
            if found := pids.fetchall():
                admin.execute("SELECT pg_terminate_backend(%s)", [rng.choice(found)[0]])
                killed += 1
            admin.execute("SELECT pg_sleep(0.1)")


def test_transactions_that_idle_are_ended(coordinator: CoordinatorProcess, payments: Payments, url: str) -> None:
    """The coordinator stands still again and again, at times in the middle of a transaction."""
    name = url.rpartition("/")[2]
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE {name} SET idle_in_transaction_session_timeout = '50ms'".encode())
        hang_up(admin)
        with working(coordinator, payments):
            assert coordinator.process is not None
            for _ in range(15):
                coordinator.process.signal(signal.SIGSTOP)
                admin.execute("SELECT pg_sleep(0.3)")
                coordinator.process.signal(signal.SIGCONT)
                admin.execute("SELECT pg_sleep(0.1)")


def test_a_stranger_locks_the_table(coordinator: CoordinatorProcess, payments: Payments, url: str) -> None:
    """All writing waits. The coordinator keeps its shards and its sessions, whose rows nobody locks."""
    with working(coordinator, payments), psycopg.connect(url) as stranger:
        stranger.execute("LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE")
        done = finished_of_all(url)
        stranger.execute("SELECT pg_sleep(6)")
        assert finished_of_all(url) == done
        eventually(lambda: serving(coordinator))
        stranger.rollback()


def finished_of_all(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as conn:
        row = conn.execute("SELECT count(*) FROM finished_jobs").fetchone()
    assert row is not None
    return int(row[0])


def test_a_stranger_holds_some_rows(coordinator: CoordinatorProcess, payments: Payments, url: str) -> None:
    """Somebody has looked at jobs with FOR UPDATE, and gone home: the others are not held up by those."""
    with coordinator.client() as client:
        jobs = {job.id for job in client.create_jobs([NewJob("pay", "{}") for _ in range(200)])}
    with psycopg.connect(url) as stranger:
        held = {
            str(job) for (job,) in stranger.execute("SELECT id FROM jobs ORDER BY id LIMIT 10 FOR UPDATE").fetchall()
        }
        worker = payments.worker(coordinator, 10)
        try:
            eventually(lambda: finished(url, jobs) == len(jobs - held), within_s=60)
            stranger.rollback()
            eventually(lambda: finished(url, jobs) == len(jobs), within_s=40)
        finally:
            worker.kill()
    payments.check(url, jobs)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for little more than an empty database."""
    disk = tmp_path / "disk"
    disk.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", disk], check=True, stderr=PIPE)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system can be mounted here ({error}): run as root")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def test_the_disk_is_full(small_disk: Path, tmp_path: Path, payments: Payments) -> None:
    """PostgreSQL refuses what needs room, and ends when there is none for its log. It is started again when somebody
    has made room; of Rota nothing is asked."""
    settings = {"fsync": "off", "max_wal_size": "32MB", "min_wal_size": "32MB", "wal_recycle": "off"}
    with EmbeddedPostgres(small_disk / "server" / "data", settings=settings) as server:
        bootstrap.migrate(server.url)
        with CoordinatorProcess(server.url, tmp_path) as coordinator, working(coordinator, payments):
            fill(small_disk / "ballast")
            for _ in range(20):
                eventually(lambda: refused(coordinator), within_s=60)
            assert coordinator.process is not None
            assert coordinator.process.popen.poll() is None
            (small_disk / "ballast").unlink()
            # What was told to stay away by a full disk may not have ended yet.
            eventually(lambda: server.start() and not refused(coordinator), within_s=60)


def fill(file: Path) -> None:
    with suppress(OSError), file.open("wb", buffering=0) as ballast:
        while ballast.write(bytes(64 * 1024)):
            pass


def test_more_coordinators_than_there_are_connections(
    server: EmbeddedPostgres, tmp_path: Path, payments: Payments
) -> None:
    """All start at once, as a user of the database's who may no more than that. Nobody dies of what it cannot get, and
    the work is done."""
    role = f"plain_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(server.url, autocommit=True) as conn:
        conn.execute(f"CREATE ROLE {role} LOGIN PASSWORD 's3cret'".encode())
        conn.execute(f"CREATE DATABASE {role} OWNER {role} CONNECTION LIMIT 25".encode())
    url = f"postgresql://{role}:s3cret@{server.url.rpartition('@')[2].partition('/')[0]}/{role}"
    bootstrap.migrate(url)
    with ExitStack() as stack:
        started = []
        for number in range(4):
            (home := tmp_path / str(number)).mkdir()
            started.append(CoordinatorProcess(url, home))
            stack.callback(started[-1].kill)
        processes = [each.launch() for each in started]
        eventually(lambda: any("listening " in line for each in processes for line in each.lines), within_s=60)
        for each in started:
            with suppress(AssertionError):
                assert each.process is not None
                each.listen = each.process.wait_line("listening ", within_s=15).split()[1]
        serving_ones = [each for each in started if not each.listen.endswith(":0")]
        address = "ipv4:" + ",".join(each.address for each in serving_ones)
        for _ in range(2):
            stack.callback(payments.worker(serving_ones[0], 20, address).kill)
        with Orders(address, serving_ones[0].key) as orders:
            eventually(lambda: len(orders.acknowledged) >= 200, within_s=60)
        eventually(lambda: done_by_admin(server, role, orders.acknowledged), within_s=60)
        for process in processes:
            assert process.popen.poll() is None, process.output
            assert len(process.output.splitlines()) < 2 * LOG_LINES_MAX, process.output
            assert "s3cret" not in process.output


def done_by_admin(server: EmbeddedPostgres, database: str, jobs: set[str]) -> bool:
    """Whether all have succeeded; asked by one to whom the limit does not apply."""
    return finished(server.url.rpartition("/")[0] + f"/{database}", jobs) == len(jobs)
