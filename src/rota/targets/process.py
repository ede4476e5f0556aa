"""A running command: its process group, its output, its end."""

import asyncio
import os
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pwd import struct_passwd
from typing import IO, Any, Final

from rota.clock import Clock
from rota.targets.output import Output
from rota.targets.warden import Warden, alive, send

KILL_WAIT_S: Final = 5.0
"""After SIGKILL: how long the system may take. What it cannot end, for example in a dead network mount, is left."""

GROUP_POLL_S: Final = 0.05
"""Nothing tells of the end of a group whose first process has ended, so it is looked for."""

READ_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Start:
    """What to start. `account`: whom to become; None: nobody else. `dir` None: the runner's own."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    dir: str | None = None
    account: struct_passwd | None = None
    stdin: str | None = None


class Process:
    """A command in a session of its own; what it starts belongs to its process group unless it moves out.

    Both standard output and error go to one pipe, so that they stay in order.
    """

    def __init__(self, process: asyncio.subprocess.Process, reading: int, warden: Warden, clock: Clock) -> None:
        self.group = process.pid
        self.output = Output()
        self._process = process
        self._reading = reading
        self._warden = warden
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._silent = asyncio.Event()
        self._ended = asyncio.create_task(process.wait())
        os.set_blocking(reading, False)
        self._loop.add_reader(reading, self._read)

    @classmethod
    async def start(cls, start: Start, warden: Warden, clock: Clock) -> "Process":
        """Raises OSError when the system refuses."""
        reading, writing = os.pipe()
        options: dict[str, Any] = {}
        if start.account is not None:
            account = start.account
            options = {
                "user": account.pw_uid,
                "group": account.pw_gid,
                "extra_groups": os.getgrouplist(account.pw_name, account.pw_gid),
            }
        try:
            with _stdin(start.stdin) as stdin:
                process = await asyncio.create_subprocess_exec(
                    *start.argv,
                    stdin=stdin,
                    stdout=writing,
                    stderr=writing,
                    cwd=start.dir,
                    env=start.environment,
                    start_new_session=True,
                    **options,
                )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        warden.add(process.pid)
        return cls(process, reading, warden, clock)

    @property
    def exit_code(self) -> int | None:
        """Of the first process; negative: the signal that killed it. None while it runs."""
        return self._process.returncode

    async def wait(self, *others: "asyncio.Task[Any]") -> None:
        """Until the first process has ended, or one of the others."""
        await asyncio.wait((self._ended, *others), return_when=asyncio.FIRST_COMPLETED)

    async def silence(self, timeout_s: float) -> None:
        """Until nobody holds the output any more, at most so long."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._silent.wait(), timeout_s)

    @property
    def alive(self) -> bool:
        """Whether any of the group runs."""
        if self.exit_code is None:
            return True
        # As process 1 of a container we inherit its orphans, and they stay until they are waited for.
        with suppress(ChildProcessError):
            while os.waitpid(-self.group, os.WNOHANG)[0]:
                pass
        return alive(self.group)

    async def end(self, grace_s: float, hurry: asyncio.Event) -> None:
        """SIGTERM to the group, and SIGKILL to what is left of it after `grace_s`, or as soon as `hurry` is set."""
        send(self.group, signal.SIGTERM)
        # What is stopped could not heed it.
        send(self.group, signal.SIGCONT)
        await self._gone(grace_s, hurry)
        if self.alive:
            send(self.group, signal.SIGKILL)
            await self._gone(KILL_WAIT_S, None)

    def close(self) -> None:
        """Lets go of it. What of the group still runs is killed."""
        if self.alive:
            send(self.group, signal.SIGKILL)
        self._warden.discard(self.group)
        self._read()
        self._stop_reading()
        self._ended.cancel()

    async def _gone(self, timeout_s: float, hurry: asyncio.Event | None) -> None:
        until = self._clock.monotonic() + timeout_s
        waits = [self._ended, *([asyncio.create_task(hurry.wait())] if hurry is not None else ())]
        try:
            await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits[1:]:
                task.cancel()
        while self.alive and self._clock.monotonic() < until and not (hurry is not None and hurry.is_set()):
            await self._clock.sleep(GROUP_POLL_S)

    def _read(self) -> None:
        if self._silent.is_set():
            return
        try:
            chunk = os.read(self._reading, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if chunk:
            self.output.add(chunk)
        else:
            self._stop_reading()

    def _stop_reading(self) -> None:
        if not self._silent.is_set():
            self._silent.set()
            self._loop.remove_reader(self._reading)
            os.close(self._reading)


@contextmanager
def _stdin(text: str | None) -> "Iterator[IO[bytes] | int]":
    """A command's standard input: a file, which unlike a pipe nobody has to feed; without a text an empty one."""
    if text is None:
        yield asyncio.subprocess.DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        yield file
