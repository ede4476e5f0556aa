"""The processes of an embedded server: how they are started, watched and ended."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

POLL_S = 0.02

Escalation = Sequence[tuple[signal.Signals, float]]

# Each signal and the seconds it is given. A fast shutdown writes a checkpoint, an immediate one only exits;
# the backends of a dead postmaster have nothing to finish.
STOP: Escalation = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0))
STOP_ORPHANS: Escalation = ((signal.SIGQUIT, 2.0), (signal.SIGKILL, 5.0))


class EmbeddedError(Exception):
    """The embedded server cannot do what was asked. The message says what was found and what to do."""


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def kill(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def environment() -> dict[str, str]:
    """Ours, less what would steer the server (PGDATA), plus English messages and no search for a zone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}


class Postmaster:
    """The running server, and the thread that starts it, waits for it and reaps it."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.pid = 0
        self.exited = threading.Event()
        self._spawned = threading.Event()
        self._error: OSError | None = None
        self._at_exit: Callable[[], None] | None = None
        # Not the caller's thread: the server is signalled when the thread that started it ends.
        self._thread = threading.Thread(target=self._keep, args=(command, log), name="embedded-postgres", daemon=True)
        self._thread.start()
        self._spawned.wait()
        if self._error is not None:
            raise self._error

    def _keep(self, command: Sequence[str], log: Path) -> None:
        try:
            with log.open("ab") as output:
                # A session of its own: Ctrl-C in a terminal is for Rota, which stops the server in its turn.
                process = subprocess.Popen(
                    command,
                    env=environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            self.pid = process.pid
        except OSError as error:
            self._error = error
            return
        finally:
            self._spawned.set()
        process.wait()
        self.exited.set()
        if self._at_exit is not None:
            self._at_exit()

    def at_exit(self, call: Callable[[], None]) -> None:
        """Have `call` made when the server has exited, whatever ended it; at once, if it has already."""
        self._at_exit = call
        if self.exited.is_set():
            call()

    def end(self, escalation: Escalation) -> None:
        for number, patience_s in escalation:
            if not self.exited.is_set():
                kill([self.pid], number)
            if self.exited.wait(patience_s):
                self._thread.join()
                return
        raise EmbeddedError(f"the PostgreSQL server (pid {self.pid}) does not end: is the disk hanging?")
