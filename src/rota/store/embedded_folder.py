"""The folder of an embedded server: what it keeps on disk, and which processes live in it.

The folder that holds the data folder is the home of the server, and nobody else's:

    home/data/          the PostgreSQL data folder; exists only complete
    home/password       of the role rota, mode 0600
    home/lock           flock of the living supervisor, whose pid it names to those who come second
    home/postgres.log   of the server; moved to postgres.log.1 by a start that finds it large

The lock is the root of all safety here. The kernel frees it with the process that holds it, so it cannot go
stale, and its holder is the only one with a right to run a server: whatever else runs is left from a crash
and may be ended. Processes are known by their name and their working folder, which for every process of a
server is the data folder. A pid alone proves nothing: it may be a zombie, or given to a stranger by now.
"""

import contextlib
import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from time import perf_counter

from rota.store.embedded_process import POLL_S, STOP, STOP_ORPHANS, EmbeddedError, Escalation, kill, pause

LOCK_S = 2.0  # a supervisor that is just going down deserves this much patience
LOG_BYTES_MAX = 10 * 1024 * 1024
LOG_BYTES_READ = 64 * 1024
LOG_LINES_SHOWN = 15
DISK_BYTES_FULL = 1024 * 1024

REMEDIES = {
    "No space left on device": "The disk is full: free some space, or choose a folder on another disk.",
    "Disk quota exceeded": "The disk quota is used up: free some space, or choose a folder on another disk.",
    "Read-only file system": "The disk is read-only: choose a folder that can be written.",
    "Permission denied": "The folder belongs to another user, or lies below one that may not be entered: "
    "choose another folder, or run as its owner.",
    "Device or resource busy": "The data folder must not itself be a mount point: choose a folder inside it.",
}


class FolderLock:
    """The right to a folder, held until release() or the end of the process.

    The file is never deleted: two processes that hold the deleted and the new file would both be right.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("a+")
        deadline = perf_counter() + LOCK_S
        while not self._taken():
            if perf_counter() > deadline:
                self.release()
                holder = path.read_text().strip() or "unknown"
                who = "this process" if holder == str(os.getpid()) else "another rota dev"
                raise EmbeddedError(
                    f"{who} (pid {holder}) uses the folder {path.parent}: stop it, or choose another folder"
                )
            pause(POLL_S)
        self._file.truncate(0)
        os.write(self._file.fileno(), f"{os.getpid()}\n".encode())

    def _taken(self) -> bool:
        # flock, not lockf: it also holds between two objects of one process, and no other close() drops it.
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        self._file.close()


class ServerFolder:
    """A data folder and its home. All but `lock` expect the lock to be held, where they change something."""

    def __init__(self, data: Path) -> None:
        self.data = data.expanduser().resolve()
        self.home = self.data.parent
        self.log = self.home / "postgres.log"
        self.password_file = self.home / "password"
        self._pid_file = self.data / "postmaster.pid"
        self._draft_prefix = f".{self.data.name}.initdb-"

    def lock(self) -> FolderLock:
        self.home.mkdir(parents=True, exist_ok=True)
        return FolderLock(self.home / "lock")

    # The data folder and its password

    def is_new(self, version: int) -> bool:
        """Whether there is nothing yet. What is there and is not of this version is refused."""
        try:
            found = (self.data / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            if self.data.exists() and any(self.data.iterdir()):
                raise EmbeddedError(
                    f"expected a PostgreSQL data folder or an empty one, found other files in {self.data}: "
                    "choose another folder"
                ) from None
            return True
        if found != str(version):
            raise EmbeddedError(
                f"found data of PostgreSQL {found} in {self.data}, but the server is {version}: "
                f"run it with the binaries of PostgreSQL {found} and carry the data over with pg_dump, "
                "or move the folder away to start empty"
            )
        return False

    def draft(self) -> Path:
        """An empty sibling for initdb to fill, after those of killed ones are cleared away."""
        for litter in self.home.iterdir():
            if litter.name.startswith(self._draft_prefix):
                shutil.rmtree(litter, ignore_errors=True)
        return Path(tempfile.mkdtemp(prefix=self._draft_prefix, dir=self.home))

    def adopt(self, draft: Path) -> None:
        """A complete draft becomes the data folder, for good: the name too is on disk when this returns."""
        draft.rename(self.data)
        home = os.open(self.home, os.O_RDONLY)
        try:
            os.fsync(home)
        finally:
            os.close(home)

    def new_password(self) -> None:
        self.password_file.unlink(missing_ok=True)
        file = os.open(self.password_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(file, "w") as text:
            text.write(secrets.token_urlsafe(24) + "\n")
            text.flush()
            os.fsync(file)

    def password(self) -> str:
        try:
            return self.password_file.read_text().strip()
        except FileNotFoundError:
            raise EmbeddedError(
                f"expected the password of {self.data} in {self.password_file}, found no such file: "
                "put it back, or move the data folder away to start empty"
            ) from None

    # The processes

    def is_ready(self, pid: int) -> bool:
        """Whether the server with this pid accepts sessions, by its pid file: this costs no connection."""
        lines = self._pid_lines()
        return lines[:1] == [str(pid)] and [line.strip() for line in lines[7:8]] == ["ready"]

    def clear(self) -> None:
        """End what an earlier life left running, as gently as it allows, so that a new server can start."""
        self._end(STOP if self._recorded_pid() in self.servers() else STOP_ORPHANS)
        # postgres refuses to start while the pid in this file exists, be it a zombie or a stranger.
        self._pid_file.unlink(missing_ok=True)

    def _end(self, escalation: Escalation) -> None:
        for number, patience_s in escalation:
            servers = self.servers()
            # To the postmaster if there is one: the same signals mean other things to its children.
            chief = [pid for pid in servers if pid == self._recorded_pid()]
            kill(servers if number == signal.SIGKILL else chief or servers, number)
            deadline = perf_counter() + patience_s
            while self.servers():
                if perf_counter() > deadline:
                    break
                pause(POLL_S)
            else:
                return
        raise EmbeddedError(f"the server processes {self.servers()} of {self.data} do not end: is the disk hanging?")

    def servers(self) -> list[int]:
        """The living server processes of this folder. A zombie has no working folder: it does not count."""
        if not self.data.exists():
            return []
        if not Path("/proc/self/cwd").exists():
            return self._chief_by_ps()
        data, found = self.data.stat(), []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                named = (process / "comm").read_text() == "postgres\n"
                if named and os.path.samestat((process / "cwd").stat(), data):
                    found.append(int(process.name))
        return found

    def _chief_by_ps(self) -> list[int]:
        """Without /proc only the postmaster is found; its children end by themselves soon after it."""
        pid = self._recorded_pid()
        told = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True)
        return [pid] if f"-D {self.data} " in told.stdout else []

    def _pid_lines(self) -> list[str]:
        try:
            return self._pid_file.read_text().splitlines()
        except FileNotFoundError:
            return []

    def _recorded_pid(self) -> int:
        first = next(iter(self._pid_lines()), "")
        return int(first) if first.isdigit() else 0

    # The log, and what it tells

    def open_log(self) -> None:
        if self.log.exists() and self.log_size() > LOG_BYTES_MAX:
            self.log.replace(self.log.with_name(self.log.name + ".1"))
        self.log.touch(mode=0o600)

    def log_size(self) -> int:
        return self.log.stat().st_size

    def log_since(self, offset: int) -> str:
        with self.log.open("rb") as file:
            file.seek(max(offset, self.log_size() - LOG_BYTES_READ))
            return file.read().decode(errors="replace")

    def failure(self, what: str, said: str) -> EmbeddedError:
        """`what` went wrong, with the end of what the program `said` and the remedy, if that tells one."""
        lines = said.strip().splitlines()
        # A server on a full disk cannot even log why it stops.
        if shutil.disk_usage(self.home).free < DISK_BYTES_FULL:
            lines.append("No space left on device")
        remedies = [text for sign, text in REMEDIES.items() if any(sign in line for line in lines)]
        told = "\n".join(lines[-LOG_LINES_SHOWN:])
        return EmbeddedError(" ".join([f"{what}.", *remedies, f"The log is {self.log}. It said:\n{told}"]))

    def disk_failure(self, error: OSError) -> EmbeddedError:
        reason = error.strerror or str(error)
        remedy = REMEDIES.get(reason, "Choose another folder, or mend this one.")
        return EmbeddedError(f"{error.filename or self.home}: {reason}. {remedy}")
