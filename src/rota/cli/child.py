"""A process of `rota dev`: it ends with us, and what it says on stderr is kept in a file, warnings shown."""

import json
import os
import re
import select
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, NoReturn, Self

from rota.cli.errors import Exit
from rota.domain.errors import FailedPrecondition, InvalidArgument, RotaError, Unavailable

LEASH_GRACE_S: Final = 5.0
"""After our own death: how long a child may drain."""

KILL_WAIT_S: Final = 5.0
TAIL_LINES: Final = 20
ERROR_MARK: Final = '{"error":'
"""So begins the line in which a `rota --json` says what went wrong: we say it ourselves."""

# What stays in the file alone. Anything else is shown too: a warning, a traceback, a program's last cry.
_ROUTINE: Final = re.compile(rf'\S+ (INFO|DEBUG) |.*"level": "(INFO|DEBUG)"|{ERROR_MARK}')
_LOOK_EVERY_S: Final = 0.1
_READ_BYTES: Final = 64 * 1024
_KIND_BY_EXIT: Final[dict[int, type[RotaError]]] = {Exit.UNREACHABLE: Unavailable, Exit.USAGE: InvalidArgument}


class Child:
    """A program under a leash (see rota.cli.leash), in a session of its own, so that Ctrl-C reaches only us.

    As a context manager it stops the program at the end, with SIGTERM first and SIGKILL after `stop_timeout_s`.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        log: Path,
        stop_timeout_s: float,
    ) -> None:
        self.name = name
        self.log = log
        self._stop_timeout_s = stop_timeout_s
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._process = subprocess.Popen(
            # -P: what lies in the current folder must not stand in for a module.
            [sys.executable, "-P", "-m", "rota.cli.leash", str(LEASH_GRACE_S), *command],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._pump = threading.Thread(target=self._keep_stderr, name=f"log of {name}", daemon=True)
        self._pump.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def first_line(self, timeout_s: float) -> str | None:
        """The first line of its stdout. None when it ended without one. Raises TimeoutError."""
        from rota.clock import SystemClock

        clock, said = SystemClock(), b""
        assert self._process.stdout is not None
        stdout = self._process.stdout.fileno()
        until = clock.monotonic() + timeout_s
        while b"\n" not in said:
            if clock.monotonic() > until:
                raise TimeoutError(f"the {self.name} said nothing for {timeout_s:g} s; see {self.log}")
            if not select.select([stdout], [], [], _LOOK_EVERY_S)[0]:
                continue
            if not (more := os.read(stdout, _READ_BYTES)):
                self._process.wait()
                self._pump.join()
                return None
            said += more
        # What follows is of no interest, but must not fill the pipe.
        threading.Thread(target=self._discard_stdout, name=f"output of {self.name}", daemon=True).start()
        return said.partition(b"\n")[0].decode("utf-8", "replace")

    def last_words(self) -> list[str]:
        """The last lines that it said on stderr."""
        return list(self._tail)

    def stop(self) -> None:
        """Ends it, and returns when it is gone. An interruption kills it at once and is passed on."""
        try:
            if self._process.poll() is None:
                self._process.terminate()
                self._process.wait(self._stop_timeout_s)
        except BaseException as error:
            self._process.kill()
            self._process.wait(KILL_WAIT_S)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
        finally:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._pump.join(KILL_WAIT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def _keep_stderr(self) -> None:
        assert self._process.stderr is not None
        with self.log.open("wb") as log, self._process.stderr as lines:
            for line in lines:
                log.write(line)
                log.flush()
                text = line.decode("utf-8", "replace")
                self._tail.append(text.rstrip("\n"))
                if not _ROUTINE.match(text):
                    sys.stderr.write(text)

    def _discard_stdout(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stdout:
            while stdout.read(_READ_BYTES):
                pass


@contextmanager
def blamed_on(child: Child) -> Iterator[None]:
    """When a call fails because the child has ended, that is what is told."""
    try:
        yield
    except Exception:
        if child.exit_code() is not None:
            raise_last_words(child)
        raise


def raise_last_words(child: Child) -> NoReturn:
    """Raises what a child that ended, or never began, said about it."""
    said = child.last_words()
    kind = _KIND_BY_EXIT.get(child.exit_code() or 0, FailedPrecondition)
    for line in reversed(said):
        if line.startswith(ERROR_MARK):
            error = json.loads(line)["error"]
            raise kind(error["message"], reason=error["reason"], metadata=error["details"])
    last = f"; the last that it said: {said[-1]}" if said else ""
    raise kind(f"the {child.name} ended with exit code {child.exit_code()}{last}; its log is {child.log}")
