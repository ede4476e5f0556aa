"""`rota serve --processes 2`, for real: work through both, one that is killed, a stop, a taken port, a dead parent."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import psycopg
import pytest
from rota_sdk import Client, JobState, NewJob

from ..harness import Process, clean_environment, eventually, make_key
from .conftest import HANDLERS, Starts
from .test_crashes import check_each_accepted_once, finished

NOBODY = "postgresql://rota:s3cret@127.0.0.1:1/rota"


class Several:
    """Two coordinators that share a port, and who watches them."""

    def __init__(self, database: str, folder: Path, listen: str = "127.0.0.1:0") -> None:
        self.database = database
        self.key = make_key(database)
        self.folder = folder
        self._settings = clean_environment() | {
            "ROTA_DATABASE_URL": database,
            "ROTA_LISTEN": listen,
            "ROTA_HOME": str(folder),
            "ROTA_SESSION_TTL": "3s",
            "ROTA_DELIVERY_TTL": "2.5s",
            "ROTA_SHARD_TERM": "3s",
        }
        argv = [sys.executable, "-m", "rota", "serve", "--processes", "2"]
        self.parent = Process(argv, self._settings, folder / "serve.log")
        self.address = self.parent.wait_line("rota: serving at ").split()[-1]
        self.family = psutil.Process(self.parent.pid)

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def members(self) -> list[psutil.Process]:
        return sorted((each for each in self.family.children() if each.is_running()), key=lambda each: each.pid)

    def connections(self, member: psutil.Process) -> int:
        """Of clients to it."""
        return sum(
            each.status == psutil.CONN_ESTABLISHED and each.laddr.port == self.port for each in member.net_connections()
        )

    def worker(self, *arguments: str) -> Process:
        env = clean_environment() | {"ROTA_ADDRESS": self.address, "ROTA_API_KEY": self.key}
        return Process([sys.executable, str(HANDLERS), *arguments], env, self.folder / "worker.log")

    def client_of_each(self, stack: ExitStack) -> list[Client]:
        """Clients, of which at least one is connected to each process."""
        clients: list[Client] = []
        for _ in range(40):
            before = [self.connections(member) for member in self.members()]
            if len(clients) >= 2 and all(before):
                return clients
            clients.append(stack.enter_context(Client(self.address, api_key=self.key)))
            clients[-1].list_sessions()
        raise AssertionError(f"40 connections went to one process: {before}")


@pytest.fixture
def several(database: str, tmp_path: Path) -> Iterator[Several]:
    running = Several(database, tmp_path)
    members = running.members()
    yield running
    members += running.members() if running.family.is_running() else []
    running.parent.kill()
    eventually(lambda: ended(members), within_s=30)


def ended(processes: list[psutil.Process]) -> bool:
    """Nobody may be there to collect them: then they stay as zombies, which run no more."""
    for each in processes:
        with suppress(psutil.NoSuchProcess):
            if each.is_running() and each.status() != psutil.STATUS_ZOMBIE:
                return False
    return True


def places(database: str) -> dict[str, int]:
    """Shards by the place of their living owner."""
    with psycopg.connect(database) as conn:
        rows = conn.execute(
            "SELECT c.address, (SELECT count(*) FROM shards s WHERE s.owner = c.id) FROM coordinators c "
            "WHERE c.expires_at > now()"
        ).fetchall()
    return dict(rows)


def test_each_has_its_place_and_a_worker_of_one_gets_the_jobs_of_both(several: Several, starts: Starts) -> None:
    # Port 0 asks for a free one, which then is that of all.
    wanted = {f"{several.port}/{number}": 128 for number in (1, 2)}
    eventually(lambda: {place.rpartition(":")[2]: count for place, count in places(several.database).items()} == wanted)
    worker = several.worker(str(starts.file), "20")
    try:
        with ExitStack() as stack:
            clients = several.client_of_each(stack)
            jobs = {client.create_job("quick", "x").id for client in clients for _ in range(20)}
            eventually(lambda: finished(several.database) == len(jobs))
            assert all(job.state is JobState.SUCCEEDED for job in clients[0].iter_jobs())
        check_each_accepted_once(several.database, jobs)
    finally:
        worker.kill()


def test_one_that_is_killed_is_started_again_and_nothing_is_lost(several: Several, starts: Starts) -> None:
    worker = several.worker(str(starts.file), "20")
    try:
        with Client(several.address, api_key=several.key, timeout=20) as client:
            jobs = {job.id for job in client.create_jobs([NewJob("sleep", "0.02") for _ in range(300)])}
            eventually(lambda: len(starts.lines()) >= 30)
            victim, other = several.members()
            victim.kill()
            jobs |= {client.create_job("quick", "x").id for _ in range(50)}
            eventually(lambda: len(several.members()) == 2 and victim not in several.members())
            eventually(lambda: finished(several.database) == 350, within_s=40)
            assert other in several.members()
            # The new one has the place of the old, whose shards it need not wait for.
            eventually(lambda: sorted(places(several.database).values()) == [128, 128])
        check_each_accepted_once(several.database, jobs)
        assert f"(pid {victim.pid}) ended by itself, by SIGKILL; it is started again" in several.parent.output
    finally:
        worker.kill()


def test_all_drain_at_sigterm(several: Several, starts: Starts) -> None:
    worker = several.worker(str(starts.file), "4")
    try:
        with Client(several.address, api_key=several.key) as client:
            client.create_jobs([NewJob("sleep", "0.05") for _ in range(40)])
            eventually(lambda: len(starts.lines()) >= 8)
            members = several.members()
            assert several.parent.terminate(within_s=45) == 0, several.parent.output[-4000:]
            assert ended(members)
        assert places(several.database) == {}
        assert [line for line in several.parent.lines if "serving" in line] == [f"rota: serving at {several.address}"]
        assert several.parent.output.count("rota.bootstrap: stopped") == 2
    finally:
        worker.kill()


def test_they_end_with_a_parent_that_is_killed(several: Several) -> None:
    members = several.members()
    assert len(members) == 2
    several.parent.kill()
    eventually(lambda: ended(members), within_s=30)
    socket.create_server(("127.0.0.1", several.port)).close()
    assert places(several.database) == {}


def refused(tmp_path: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "rota", "serve", "--processes", "2", *arguments],
        env=clean_environment() | {"ROTA_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_port_that_is_taken(several: Several, tmp_path: Path) -> None:
    done = refused(tmp_path, "--listen", several.address, "--database-url", several.database)
    assert (done.returncode, done.stdout) == (1, "")
    error, hint = done.stderr.splitlines()
    assert error.startswith(f"error: cannot listen on {several.address}: the port is taken")
    assert "--listen" in hint
    assert len(several.members()) == 2


@pytest.mark.parametrize("json", [False, True])
def test_what_keeps_one_from_starting_is_told_once(tmp_path: Path, json: bool) -> None:
    options = ["--database-wait", "0s", *(["--json"] if json else [])]
    done = refused(tmp_path, "--listen", "127.0.0.1:0", "--database-url", NOBODY, *options)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("cannot be reached") == 1
    assert len(done.stderr.splitlines()) == (1 if json else 2)
    assert "s3cret" not in done.stderr


def test_an_embedded_database_is_that_of_all(tmp_path: Path) -> None:
    env = clean_environment() | {"ROTA_HOME": str(tmp_path), "ROTA_LISTEN": "127.0.0.1:0"}
    migrated = subprocess.run([sys.executable, "-m", "rota", "migrate"], env=env, capture_output=True, timeout=120)
    assert migrated.returncode == 0, migrated.stderr
    parent = Process([sys.executable, "-m", "rota", "serve", "--processes", "2", "--json"], env, tmp_path / "serve.log")
    try:
        parent.wait_line('{"address": "127.0.0.1:', within_s=60)
        family = psutil.Process(parent.pid).children(recursive=True)
        assert sum("rota.cli.leash" in each.cmdline() for each in family) == 2
        parent.signal(signal.SIGINT)
        assert parent.popen.wait(45) == 0
        eventually(lambda: ended(family))
    finally:
        parent.kill()
