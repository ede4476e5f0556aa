"""Ends a runner's commands when the runner itself is killed: `python warden.py GRACE_S`.

A process beside the runner. The runner holds the other end of its standard input and says `+GROUP` and `-GROUP` as
process groups come and go. When the input ends, of whatever cause, those that are left get SIGTERM, and SIGKILL
GRACE_S later. It imports nothing but the standard library, so that it is small and starts at once.

Not covered: a runner killed in the instant between a command's start and the note of it, and processes that moved to
a session of their own. These may still run while the job runs again elsewhere; the fence tells them apart.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

_LOOK_EVERY_S = 0.05
_LEAVE_S = 1.0
_READ_BYTES = 64 * 1024
_DEAD = {"Z", "X"}
_UNHEEDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Warden:
    """The runner's side."""

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._groups: set[int] = set()
        self._process = self._start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def add(self, group: int) -> None:
        """A group to end with the runner."""
        self._groups.add(group)
        self._tell(f"+{group}\n")

    def discard(self, group: int) -> None:
        """The group has ended."""
        self._groups.discard(group)
        self._tell(f"-{group}\n")

    def close(self) -> None:
        """Ends the warden. Groups that it still knows it ends first, after the caller has gone on."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        if not self._groups:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_LEAVE_S)

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            os.write(self._process.stdin.fileno(), line.encode())
        except BrokenPipeError:
            # Somebody killed it. The next one learns of everything.
            self._process.wait()
            self._process.stdin.close()
            self._process = self._start()
            for group in list(self._groups):
                self.add(group)

    def _start(self) -> "subprocess.Popen[bytes]":
        # A session of its own: Ctrl-C and the end of a terminal are for the runner.
        # Signals that end a whole service may reach it too, from its first instant on; it inherits that they wait.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _UNHEEDED)
        try:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, str(self._grace_s)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def alive(group: int) -> bool:
    """Whether any of a process group runs. The dead that nobody has waited for do not count, where /proc tells them."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    states = _states(group)
    return not states or not states <= _DEAD


def _states(group: int) -> set[str]:
    """The states of its members, as far as /proc shows them."""
    states = set()
    for name in _processes():
        with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
            # The name, in parentheses, may hold anything.
            state, _, found, *_ = file.read().rpartition(b")")[2].split()
            if int(found) == group:
                states.add(state.decode())
    return states


def _processes() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    except OSError:
        return []


def send(group: int, number: signal.Signals) -> None:
    """Signals a process group, if it is still there."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _main() -> None:
    groups: set[int] = set()
    rest = b""
    while chunk := os.read(0, _READ_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
    _end(groups, float(sys.argv[1]))


def _end(groups: set[int], grace_s: float) -> None:
    for group in groups:
        send(group, signal.SIGTERM)
        send(group, signal.SIGCONT)
    for _ in range(int(grace_s / _LOOK_EVERY_S)):
        if not any(map(alive, groups)):
            return
        time.sleep(_LOOK_EVERY_S)
    for group in groups:
        send(group, signal.SIGKILL)


if __name__ == "__main__":
    _main()
