"""The processes of one run: a fresh PostgreSQL, a coordinator, a worker. All are gone when the run ends, however."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg import sql

from bench.errors import BenchError
from rota import bootstrap
from rota.domain.model import Role
from rota.store.embedded import EmbeddedPostgres

TENANT = "bench"
START_S = 30.0
STOP_S = 20.0
LEASH_GRACE_S = 5.0
"""How long a child may drain when this process has died."""


@dataclass(frozen=True, slots=True)
class Sdk:
    """The worker program of an SDK, started in `folder`, which ends when its standard input does."""

    command: Sequence[str]
    folder: Path


class Child:
    """A program of the run that says what it has to say in lines of JSON, one object each, on its standard output.

    It is in a session of its own, so that Ctrl-C reaches only us, and on a leash, so that it never outlives us.
    """

    def __init__(
        self, name: str, command: Sequence[str], env: Mapping[str, str], log: Path, folder: Path | None = None
    ) -> None:
        self._name = name
        self._log = log
        self._said: dict[str, Any] = {}
        self._spoke = threading.Condition()
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=dict(env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._listen, name=f"output of {name}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def told(self, key: str, within_s: float) -> Any:
        """What it says about `key`, waited for. BenchError when it ends or the time passes first."""
        with self._spoke:
            self._spoke.wait_for(lambda: key in self._said or not self._reader.is_alive(), max(within_s, 0.0))
            if key in self._said:
                return self._said[key]
        raise BenchError(f"the {self._name} did not say {key!r} within {within_s:.0f} s; {self._last_words()}")

    def check(self) -> None:
        """BenchError when it has ended."""
        if self._process.poll() is not None:
            raise BenchError(f"the {self._name} ended by itself; {self._last_words()}")

    def latest(self, key: str) -> int:
        """The number that it said last about `key`; 0 before the first."""
        return int(self._said.get(key, 0))

    def begin_profile(self) -> None:
        """For a coordinator: what was before does not count."""
        self._process.send_signal(signal.SIGUSR1)

    def stop(self) -> None:
        """SIGTERM, and SIGKILL when it takes too long; returns when it is gone."""
        try:
            if self._process.poll() is None:
                self._process.terminate()
                self._process.wait(STOP_S)
        except BaseException as error:
            self._process.kill()
            self._process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
        finally:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._reader.join()

    def _last_words(self) -> str:
        return f"its last words:\n{self._log.read_text(errors='replace').strip()[-2000:]}"

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                with self._spoke:
                    self._said |= json.loads(line)
                    self._spoke.notify_all()
        with self._spoke:
            self._spoke.notify_all()


class Stand:
    """A PostgreSQL server of the run's own, with the settings that users get, and whatever is started on it."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._started = 0

    def __enter__(self) -> Self:
        try:
            folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="rota-bench-"))
            self.folder = Path(folder)
            self._server = EmbeddedPostgres(self.folder / "postgres" / "data")
            self._stack.callback(self._server.stop)
            self._url = self._server.start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @property
    def store_pid(self) -> int:
        pid = self._server.pid
        if pid is None:
            raise BenchError("expected the PostgreSQL server of this run to live, found it gone")
        return pid

    def version(self) -> str:
        """Of the server."""
        return str(self.ask("SHOW server_version")[0][0])

    def ask(self, text: str, url: str | None = None) -> list[tuple[Any, ...]]:
        """One statement on a connection of its own, to the given database or to one that no coordinator uses."""
        with psycopg.connect(url or self._url, autocommit=True) as conn:
            cursor = conn.execute(text.encode())
            return cursor.fetchall() if cursor.description else []

    def create_database(self, name: str) -> str:
        """A fresh database with the schema; its URL."""
        with psycopg.connect(self._url, autocommit=True) as conn:
            conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        url = f"{self._url.rpartition('/')[0]}/{name}"
        bootstrap.migrate(url)
        return url

    def drop_database(self, name: str) -> None:
        """Drops it, so that no vacuum of it disturbs what is measured next."""
        with psycopg.connect(self._url, autocommit=True) as conn:
            conn.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def key(self, url: str, tenant: str = TENANT) -> str:
        """A new API key for everything."""
        return bootstrap.create_key(url, tenant=tenant, label="bench", roles=frozenset(Role), ttl_s=None)[0]

    def coordinator(
        self, url: str, *, profile: Path | None = None, settings: Mapping[str, str] | None = None
    ) -> tuple[Child, str]:
        """A coordinator that answers, and its address. `settings` are more of its environment."""
        own = {"ROTA_DATABASE_URL": url, "ROTA_LISTEN": "127.0.0.1:0", "ROTA_HOME": str(self.folder)}
        child = self._start("coordinator", "bench.serve", _profile(profile), {**own, **(settings or {})})
        return child, str(child.told("address", START_S))

    def worker(
        self,
        address: str,
        key: str,
        *,
        slots: int,
        events: Path | None = None,
        profile: Path | None = None,
        first_s: float = 0.0,
        sdk: Sdk | None = None,
    ) -> Child:
        """A worker with a handler that does nothing, or takes `first_s` in a job's first attempt; with `events`, it
        writes down every start. With `sdk`, that SDK's worker, which does nothing."""
        if sdk is not None:
            return self._launch("worker", [*sdk.command, "--slots", str(slots)], _client(address, key), sdk.folder)
        arguments = ["--slots", str(slots), "--first-s", str(first_s), *_profile(profile)]
        if events is not None:
            arguments += ["--events", str(events)]
        return self._start("worker", "bench.work", arguments, _client(address, key))

    def holder(self, address: str, key: str, *, sessions: int, pollers: int, events: Path) -> Child:
        """A process that is many workers, each with so many polls that wait."""
        arguments = ["--sessions", str(sessions), "--pollers", str(pollers), "--events", str(events)]
        return self._start("holder", "bench.hold", arguments, _client(address, key))

    def _start(self, name: str, module: str, arguments: Sequence[str], settings: Mapping[str, str]) -> Child:
        leashed = [sys.executable, "-P", "-m", "rota.cli.leash", str(LEASH_GRACE_S), module]
        return self._launch(name, [*leashed, *arguments], settings)

    def _launch(
        self, name: str, command: Sequence[str], settings: Mapping[str, str], folder: Path | None = None
    ) -> Child:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("ROTA_", "OTEL_"))}
        self._started += 1
        log = self.folder / f"{name}-{self._started}.log"
        child = Child(name, command, {**inherited, **settings}, log, folder)
        self._stack.callback(child.stop)
        return child


def _client(address: str, key: str) -> dict[str, str]:
    return {"ROTA_ADDRESS": address, "ROTA_API_KEY": key}


def _profile(path: Path | None) -> list[str]:
    return [] if path is None else ["--profile", str(path)]
