"""Coordinators that start before their database: they wait for what waiting helps against, and for nothing else."""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import psycopg
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from rota import bootstrap
from rota.store.embedded import EmbeddedPostgres

from ..faults.tcp import free_port
from ..harness import CoordinatorProcess, clean_environment, eventually
from .test_schedules import create

WAITING = "the database is waited for"
CLIENTS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    folder = tmp_path_factory.mktemp("postgres")
    settings = {"fsync": "off", "max_connections": "30", "superuser_reserved_connections": "0"}
    with EmbeddedPostgres(folder / "server" / "data", settings=settings) as server:
        bootstrap.migrate(server.url)
        yield server


@pytest.fixture
def coordinator(server: EmbeddedPostgres, tmp_path: Path) -> Iterator[CoordinatorProcess]:
    """Not started."""
    server.start()
    with psycopg.connect(server.url, autocommit=True) as conn:
        conn.execute("DELETE FROM schedules")
    made = CoordinatorProcess(server.url, tmp_path)
    made.listen = f"127.0.0.1:{free_port()}"
    yield made
    made.kill()


def waits(coordinator: CoordinatorProcess) -> int:
    assert coordinator.process is not None
    assert coordinator.process.popen.poll() is None, coordinator.process.output
    return coordinator.process.output.count(WAITING)


def ready(address: str) -> bool:
    with grpc.insecure_channel(address) as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=1.0)
        except grpc.RpcError:
            return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def test_schedules_fire_without_a_restart(coordinator: CoordinatorProcess, server: EmbeddedPostgres) -> None:
    with coordinator.start().client() as client:
        create(client, "s")
    assert coordinator.terminate() == 0
    server.stop()

    process = coordinator.launch()
    eventually(lambda: waits(coordinator) >= 3, within_s=30)
    assert not ready(coordinator.address)
    server.start()
    process.wait_line("listening ")
    eventually(lambda: ready(coordinator.address))
    with psycopg.connect(server.url, autocommit=True) as conn:
        before = fired(conn)
        eventually(lambda: fired(conn) > before)
    assert len(process.output.splitlines()) < 40


def fired(conn: psycopg.Connection[tuple[int]]) -> int:
    row = conn.execute("SELECT count(*) FROM jobs WHERE schedule_uid IS NOT NULL").fetchone()
    assert row is not None
    return row[0]


def test_a_database_without_a_connection_to_spare(coordinator: CoordinatorProcess, server: EmbeddedPostgres) -> None:
    # Those of tests before this one may be on their way out, and leave room.
    taken = [psycopg.connect(server.url, autocommit=True)]
    eventually(lambda: taken[0].execute(CLIENTS).fetchone() == (1,))
    with pytest.raises(psycopg.OperationalError, match="too many clients"):
        while True:
            taken.append(psycopg.connect(server.url))
    process = coordinator.launch()
    eventually(lambda: waits(coordinator) >= 2, within_s=30)
    assert "too many clients" in process.output
    for conn in taken:
        conn.close()
    process.wait_line("listening ")
    eventually(lambda: ready(coordinator.address))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda url: url.replace("rota:", "rota:not"), "password authentication failed"),
        (lambda url: url + "nowhere", 'database "rotanowhere" does not exist'),
        (lambda url: url + "?sslmode=require", "does not support SSL"),
        (lambda url: url.rpartition("/")[0] + "/postgres", "run: rota migrate"),
    ],
)
def test_what_waiting_does_not_help_against_is_told_at_once(
    server: EmbeddedPostgres, tmp_path: Path, change: Callable[[str], str], says: str
) -> None:
    done = serve(change(server.start()), tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert says in done.stderr
    assert WAITING not in done.stderr
    assert "Traceback" not in done.stderr


def serve(url: str, folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    env = clean_environment() | {"ROTA_DATABASE_URL": url, "ROTA_LISTEN": "127.0.0.1:0", "ROTA_HOME": str(folder)}
    command = [sys.executable, "-m", "rota", "serve", *options]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


def test_it_can_be_stopped_while_it_waits(coordinator: CoordinatorProcess, server: EmbeddedPostgres) -> None:
    server.stop()
    coordinator.launch()
    eventually(lambda: waits(coordinator) >= 1, within_s=30)
    assert coordinator.terminate() == 0


def test_it_waits_no_longer_than_it_is_told_to(tmp_path: Path) -> None:
    """A server that takes connections and says nothing is as good as none."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://rota:s3cret@127.0.0.1:{silent.getsockname()[1]}/rota"
        done = serve(url, tmp_path, "--database-wait", "2s")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count(WAITING) == 0
    assert "cannot be reached" in done.stderr
    assert "s3cret" not in done.stderr
