"""Through PgBouncer in transaction mode: nothing that one transaction leaves on a connection is there for the next."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from rota_sdk import Client, JobState
from rota_sdk.gen.rota.admin.v1 import admin_pb2

from rota import bootstrap

from ..faults.tcp import free_port
from ..harness import CoordinatorProcess, eventually
from .payments import Orders, Payments, finished
from .test_schedules import check_ledger, create, fates

FOUND = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")

pytestmark = pytest.mark.skipif(FOUND is None, reason="no pgbouncer here (Debian: apt-get install pgbouncer)")


class PgBouncer:
    """Before one server, in a process of its own."""

    def __init__(self, database: str, folder: Path) -> None:
        server = urlsplit(database)
        self.port = free_port()
        self.url = f"postgresql://{server.username}:{server.password}@127.0.0.1:{self.port}{server.path}"
        (folder / "users.txt").write_text(f'"{server.username}" "{server.password}"\n')
        # Fewer connections than a coordinator has, so that none is anybody's for long.
        (folder / "pgbouncer.ini").write_text(
            f"""[databases]
* = host=127.0.0.1 port={server.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users.txt
pool_mode = transaction
default_pool_size = 6
max_client_conn = 200
server_login_retry = 1
"""
        )
        folder.chmod(0o755)
        self._command = [str(FOUND), "-q", str(folder / "pgbouncer.ini")]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        # It refuses to be root.
        user = "nobody" if os.geteuid() == 0 else None
        self._process = subprocess.Popen(self._command, user=user, stderr=subprocess.DEVNULL, start_new_session=True)
        eventually(self._answers)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


@pytest.fixture
def pooler(database: str) -> Iterator[PgBouncer]:
    folder = Path(tempfile.mkdtemp())
    pooler = PgBouncer(database, folder)
    try:
        pooler.start()
        yield pooler
    finally:
        pooler.kill()
        shutil.rmtree(folder)


def test_all_that_rota_does(pooler: PgBouncer, database: str, empty_database: str, tmp_path: Path) -> None:
    assert bootstrap.migrate(pooler.url) == []
    payments = Payments(empty_database, tmp_path)
    (second_home := tmp_path / "second").mkdir()
    with CoordinatorProcess(pooler.url, tmp_path) as first, CoordinatorProcess(pooler.url, second_home) as second:
        workers = [payments.worker(each, 20) for each in (first, second)]
        try:
            with first.client() as client:
                # A limit is counted in the claim's transaction, and schedules fire in one of several statements.
                limited = admin_pb2.Queue(max_in_flight=5)
                limit(client, limited)
                create(client, "skipping", overlap_policy={"mode": "OVERLAP_MODE_SKIP"})
                create(client, "ahead")
                with Orders(first.address, first.key) as orders:
                    eventually(lambda: finished(database) >= 100, within_s=40)
                    pooler.kill()
                    pooler.start()
                    before = len(orders.acknowledged)
                    eventually(lambda: len(orders.acknowledged) >= before + 50, within_s=30)
                jobs = orders.acknowledged
                eventually(lambda: finished(database, jobs) == len(jobs), within_s=40)
                eventually(lambda: fates(client, "skipping")["FIRED"] >= 1 and fates(client, "ahead")["FIRED"] >= 5)
                assert client.get_job(next(iter(jobs))).state is JobState.SUCCEEDED
        finally:
            for worker in workers:
                worker.kill()
        payments.check(database, jobs)
        check_ledger(database)
        for each in (first, second):
            assert each.process is not None
            assert "a pooler is before the database" in each.process.output
            assert "prepared statement" not in each.process.output
            assert each.process.output.count("ERROR") == 0, each.process.output
    check_nothing_is_left_behind(pooler)


def limit(client: Client, queue: admin_pb2.Queue) -> None:
    queue.name = "queues/default"
    request = admin_pb2.UpdateQueueRequest(queue=queue)
    request.update_mask.paths.append("max_in_flight")
    client.stubs.admin.UpdateQueue(request)


def check_nothing_is_left_behind(pooler: PgBouncer) -> None:
    """Other clients of the pooler get the same connections."""
    for _ in range(20):
        with psycopg.connect(pooler.url) as conn:
            found = [
                conn.execute("SELECT current_setting(%s)", [name]).fetchone()
                for name in ("enable_seqscan", "enable_sort", "statement_timeout", "lock_timeout", "plan_cache_mode")
            ]
        assert found == [("on",), ("on",), ("0",), ("0",), ("auto",)]
