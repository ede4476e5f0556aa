"""Starting, stopping and killing real coordinators and workers."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import psycopg
from rota_sdk import Client

from rota import bootstrap
from rota.domain.model import Role

START_S = 60.0
ALL_ROLES = frozenset(Role)


def make_key(
    url: str, *, tenant: str = "default", roles: frozenset[Role] = ALL_ROLES, ttl_s: float | None = None
) -> str:
    """The text of a new API key."""
    return bootstrap.create_key(url, tenant=tenant, label="test", roles=roles, ttl_s=ttl_s)[0]


def settle_in(url: str) -> str:
    """Makes the copy of a template its own master: it would begin with far higher epochs, for such as it may have
    forgotten some of."""
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("UPDATE shards SET incarnation = rota_incarnation()")
    return url


def eventually(check: Callable[[], object], *, within_s: float = 20.0, every_s: float = 0.05) -> object:
    """Waits for a check to become true, for what has no event to wait for; fails with what it last was."""
    until = time.monotonic() + within_s
    while True:
        found = check()
        if found:
            return found
        if time.monotonic() > until:
            raise AssertionError(f"not true within {within_s:g} s, last: {found!r}")
        time.sleep(every_s)


class Process:
    """A child that is killed by its pid at the latest at the end of its block, with its output kept for failures."""

    def __init__(self, argv: list[str], env: dict[str, str], log: Path) -> None:
        self._log = log
        self._out = log.open("ab")
        self.popen = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._out, env=env, start_new_session=True
        )
        self.lines: list[str] = []
        self._grew = threading.Condition()
        self._said_all = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def output(self) -> str:
        return "\n".join(self.lines) + "\n" + self._log.read_text(errors="replace")

    def wait_line(self, contains: str, within_s: float = START_S) -> str:
        """The first line of standard output that contains a text."""
        found: list[str] = []

        def look() -> bool:
            found[:] = [line for line in self.lines if contains in line]
            return bool(found) or self._said_all

        with self._grew:
            self._grew.wait_for(look, within_s)
        if not found:
            raise AssertionError(f"{self.popen.args} did not print {contains!r}:\n{self.output[-4000:]}")
        return found[0]

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9."""
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        self._reader.join()
        self._out.close()

    def terminate(self, within_s: float = 20.0) -> int:
        """SIGTERM, and the exit code."""
        self.popen.terminate()
        code = self.popen.wait(within_s)
        self._reader.join()
        return code

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            with self._grew:
                self.lines.append(line.decode(errors="replace").rstrip("\n"))
                self._grew.notify_all()
        with self._grew:
            self._said_all = True
            self._grew.notify_all()


class CoordinatorProcess:
    """A coordinator that can be killed and started again on the same address."""

    def __init__(self, database: str, folder: Path, main: str = "tests.serve_main", **settings: str) -> None:
        self._main = main
        self.database = database
        self.key = make_key(database)
        self.listen = "127.0.0.1:0"
        self._folder = folder
        self._settings = {"ROTA_SESSION_TTL": "3s", "ROTA_DELIVERY_TTL": "2.5s", "ROTA_SHARD_TERM": "3s"} | settings
        self.process: Process | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> Self:
        self.launch()
        assert self.process is not None
        self.listen = self.process.wait_line("listening ").split()[1]
        return self

    def launch(self) -> Process:
        """Starts it without waiting until it serves."""
        env = clean_environment() | self._settings
        env |= {"ROTA_DATABASE_URL": self.database, "ROTA_LISTEN": self.listen, "ROTA_HOME": str(self._folder)}
        self.process = Process([sys.executable, "-m", self._main], env, self._folder / "coordinator.log")
        return self.process

    @property
    def address(self) -> str:
        return self.listen

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process = None

    def terminate(self) -> int:
        assert self.process is not None
        code = self.process.terminate()
        self.process = None
        return code

    @contextmanager
    def client(self, key: str | None = None) -> Iterator[Client]:
        with Client(self.address, api_key=key or self.key) as client:
            yield client

    def worker(self, script: Path, *arguments: str, address: str = "") -> Process:
        """A worker process of its own: `script` runs with an address, ours by default, and a key in its environment."""
        env = clean_environment() | {"ROTA_ADDRESS": address or self.address, "ROTA_API_KEY": self.key}
        log = self._folder / f"worker-{time.monotonic_ns()}.log"
        return Process([sys.executable, str(script), *arguments], env, log)


def clean_environment() -> dict[str, str]:
    """The environment without settings of Rota's own, which would change what is tested."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("ROTA_", "OTEL_"))}
