"""The folder of `rota dev`: who runs in it, where its database is, and the local API key.

A lock on `running.json` tells whether a `rota dev` is alive, whatever became of the one before. While it is, other
commands that need the database find it there instead of starting the embedded one a second time.
"""

import contextlib
import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, NamedTuple

from rota.config import Settings
from rota.domain.errors import FailedPrecondition, Unavailable

TENANT: Final = "default"
LABEL: Final = "rota dev"
_LOCK_TRIES: Final = 5
_LOCK_PAUSE_S: Final = 0.05


class Running(NamedTuple):
    """A `rota dev` that is alive. `database_url` is empty while it starts."""

    pid: int
    address: str
    database_url: str


@contextmanager
def database(settings: Settings) -> Iterator[str]:
    """The database that the settings name: their URL, that of a running `rota dev`, or the embedded one, started."""
    from rota.bootstrap import local_database

    running = DevHome(settings.home).running() if settings.database_url is None else None
    if running is None:
        with local_database(settings) as url:
            yield url
    elif running.database_url:
        yield running.database_url
    else:
        raise Unavailable(f"the `rota dev` with pid {running.pid} is still starting; try again in a moment")


class DevHome:
    """$ROTA_HOME/dev. Its files are for their owner only."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "dev"
        self.key_file = self.folder / "api-key"
        self._running_file = self.folder / "running.json"

    def log_file(self, name: str) -> Path:
        """Where a process's log goes; the folder is there."""
        (self.folder / "log").mkdir(parents=True, exist_ok=True)
        return self.folder / "log" / f"{name}.log"

    def running(self) -> Running | None:
        """The `rota dev` of this folder, if one is alive."""
        try:
            import fcntl
        except ImportError:  # no `rota dev` there
            return None
        try:
            with self._running_file.open() as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    told = file.read()
                    return Running(**json.loads(told)) if told else Running(0, "", "")
        except (FileNotFoundError, NotADirectoryError):
            pass
        return None

    @contextmanager
    def held(self) -> "Iterator[Holder]":
        """Makes the folder ours for the block. Raises FailedPrecondition when another `rota dev` has it."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._running_file, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "r+") as file:
            self._lock(file)
            holder = Holder(file)
            holder.announce("", "")
            try:
                yield holder
            finally:
                file.truncate(0)

    def _lock(self, file: IO[str]) -> None:
        import fcntl

        for _ in range(_LOCK_TRIES):
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            # Perhaps only a reader that looked.
            threading.Event().wait(_LOCK_PAUSE_S)
        running = self.running()
        who = f"pid {running.pid}, serving at {running.address or 'no address yet'}" if running else "it just started"
        raise FailedPrecondition(
            f"another `rota dev` uses {self.folder} ({who}); use that one, or start this one with --ephemeral "
            "or another --home"
        )

    def api_key(self, url: str) -> str:
        """The key that programs here find by themselves: the stored one while the database knows it, else a new one."""
        from rota.bootstrap import create_key
        from rota.domain.model import Role

        stored = self._stored_key()
        if stored and self._is_good(stored, url):
            return stored
        secret: str
        secret, _ = create_key(url, tenant=TENANT, label=LABEL, roles=frozenset(Role), ttl_s=None)
        self._store_key(secret)
        return secret

    def _stored_key(self) -> str:
        try:
            return self.key_file.read_text().strip()
        except (OSError, UnicodeDecodeError):
            return ""

    def _is_good(self, secret: str, url: str) -> bool:
        from rota.bootstrap import list_keys
        from rota.clock import SystemClock
        from rota.domain.model import Role

        now = SystemClock().utc()
        return any(
            secret.startswith(f"rota_{key.id}_")
            and key.revoked_at is None
            and (key.expires_at is None or key.expires_at > now)
            and key.roles >= frozenset(Role)
            for key in list_keys(url, TENANT)
        )

    def _store_key(self, secret: str) -> None:
        # Written beside and renamed, so that a reader never sees half a key, nor anybody else any of it.
        draft = self.key_file.with_suffix(".new")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secret + "\n")
        draft.replace(self.key_file)


class Holder:
    """The right to speak for the folder."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def announce(self, address: str, database_url: str) -> None:
        """Tells other commands where we are."""
        text = json.dumps(Running(os.getpid(), address, database_url)._asdict())
        self._file.seek(0)
        self._file.truncate(0)
        self._file.write(text)
        self._file.flush()


def without_rota(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment without what would lead a child to another server."""
    return {name: value for name, value in environ.items() if not name.startswith("ROTA_")}


def reachable(address: str) -> str:
    """Where to call a server that listens at `address`, perhaps everywhere."""
    host, _, port = address.rpartition(":")
    return f"127.0.0.1:{port}" if host in ("0.0.0.0", "[::]", "") else address
