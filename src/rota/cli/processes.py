"""`rota serve --processes N`: coordinators that share a port, each in a process of its own, and who watches them.

The kernel spreads the connections over the processes; what comes in at one of them reaches the others as between any
coordinators. This process never serves. It holds the port, starts the others, starts again what dies, and ends with
them; when it is killed they drain and end, because each is under a leash (see rota.cli.leash).
"""

import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final

from rota.cli.child import LEASH_GRACE_S
from rota.cli.devhome import without_rota
from rota.config import OFF, Settings, cannot_listen, http_beside
from rota.domain.errors import FailedPrecondition

log = logging.getLogger(__name__)

AGAIN_FIRST_S: Final = 0.5
AGAIN_MOST_S: Final = 30.0
LONG_S: Final = 60.0
"""A process that ran for this long is started again as if for the first time."""

STOP_MARGIN_S: Final = 10.0
"""Beyond the time for running calls: how long a process may take to end."""

KILL_WAIT_S: Final = 5.0
_LOOK_EVERY_S: Final = 0.1
_READ_BYTES: Final = 64 * 1024


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def reserved(listen: str, setting: str = "listen") -> Iterator[str]:
    """Holds a port that several processes are to share; the address with the port as bound. Nobody listens by this."""
    host, _, port = listen.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, number, _, address = found[0]
        if int(port):
            # Shared with processes of ours, not with those of others: alone, it must be free.
            with socket.socket(family, kind, number) as alone:
                alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                alone.bind(address)
        held = socket.socket(family, kind, number)
    except OSError:
        raise cannot_listen(setting, listen) from None
    with held:
        try:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            held.bind(address)
        except OSError:
            raise cannot_listen(setting, listen) from None
        yield f"{host}:{held.getsockname()[1]}"


@contextmanager
def reserved_http(given: Settings, listen: str) -> Iterator[Settings]:
    """The same for HTTP: the settings with its addresses as bound. `listen`: of gRPC, as bound."""
    with ExitStack() as stack:

        def held(setting: str, address: str) -> str:
            return address if address == OFF else stack.enter_context(reserved(address, setting))

        if given.http_listen is not None:
            http = held("http_listen", given.http_listen)
        else:
            try:
                http = held("http_listen", http_beside(given.listen, int(listen.rpartition(":")[2])))
            except FailedPrecondition:
                http = held("http_listen", http_beside(given.listen, 0))
        internal = given.http_internal_listen
        if internal is not None:
            internal = held("http_internal_listen", internal)
        yield replace(given, http_listen=http, http_internal_listen=internal)


class Member:
    """One of the processes. Its number, from 1, stays the same when it is started again."""

    def __init__(self, number: int, given: Settings, options: Sequence[str]) -> None:
        self.number = number
        self._environment = without_rota() | given.environ() | {"ROTA_CONFIG": os.devnull}
        self._command = ["rota", "serve", "--process", str(number), *options]
        self._process: subprocess.Popen[bytes] | None = None
        self._spoke = False
        self._began_at = 0.0
        self._wait_s = 0.0
        self._again_at = 0.0

    @property
    def pid(self) -> int:
        return 0 if self._process is None else self._process.pid

    def start(self, now: float) -> None:
        self._began_at = now
        self._spoke = False
        self._process = subprocess.Popen(
            # -P: what lies in the current folder must not stand in for a module.
            [sys.executable, "-P", "-m", "rota.cli.leash", str(LEASH_GRACE_S), *self._command],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Ctrl-C at the terminal reaches only us, who tell the others.
            start_new_session=True,
        )

    def is_ready(self) -> bool:
        """Whether it has said that it serves: that is all that it says."""
        assert self._process is not None
        assert self._process.stdout is not None
        said = self._process.stdout.fileno()
        if not self._spoke and select.select([said], [], [], 0.0)[0]:
            self._spoke = bool(os.read(said, _READ_BYTES))
        return self._spoke

    def exit_code(self) -> int | None:
        """None while it runs, or is not there."""
        return None if self._process is None else self._process.poll()

    def watch(self, now: float) -> None:
        """Starts it again when it is time."""
        if self._process is None:
            if now >= self._again_at:
                self.start(now)
                log.info("process %d is started again, as pid %d", self.number, self.pid)
            return
        code = self._process.poll()
        if code is None:
            return
        self._wait_s = AGAIN_FIRST_S if now - self._began_at >= LONG_S else max(self._wait_s * 2, AGAIN_FIRST_S)
        self._wait_s = min(self._wait_s, AGAIN_MOST_S)
        self._again_at = now + self._wait_s
        log.warning(
            "process %d (pid %d) ended by itself, %s; it is started again in %g s",
            *(self.number, self.pid, _shown(code), self._wait_s),
        )
        self._forget()

    def terminate(self) -> None:
        if self.exit_code() is None and self._process is not None:
            self._process.terminate()

    def end(self, until: float, now: float) -> int:
        """Waits for its end, and makes one at last; the exit code as a shell has it."""
        if self._process is None:
            return 0
        try:
            code = self._process.wait(max(until - now, 0.0))
        except subprocess.TimeoutExpired:
            log.warning("process %d (pid %d) did not end in time and is killed", self.number, self.pid)
            self._process.kill()
            code = self._process.wait(KILL_WAIT_S)
        self._forget()
        return _as_shells_say(code)

    def _forget(self) -> None:
        assert self._process is not None
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process = None


class Processes:
    """`given` has the database's URL, and the port as bound. `options`: what else to tell each on its command line."""

    def __init__(self, given: Settings, count: int, options: Sequence[str]) -> None:
        from rota.clock import SystemClock

        self._given = given
        self._clock = SystemClock()
        self._stop = threading.Event()
        self._members = [Member(number, _for_process(given, number), options) for number in range(1, count + 1)]

    def run(self, on_ready: Callable[[], None]) -> int:
        """Runs all until SIGTERM or Ctrl-C, and lets them drain. The exit code: of one that could not start, which has
        said why; otherwise the worst."""
        from rota.telemetry_logs import configure

        configure(self._given.log_level, self._given.log_format)
        with self._stopped_by_signals():
            failed = 0
            try:
                failed = self._start()
                if not failed and not self._stop.is_set():
                    on_ready()
                    self._watch()
            finally:
                worst = self._end()
        return failed or worst

    def _start(self) -> int:
        """Starts the first alone: what keeps it from starting would keep all, and is to be told once. The exit code of
        one that ended; 0: all are ready, or asked to stop."""
        for some in (self._members[:1], self._members[1:]):
            for member in some:
                member.start(self._clock.monotonic())
            for member in some:
                while not member.is_ready():
                    if (code := member.exit_code()) is not None:
                        return _as_shells_say(code) or 1
                    if self._stop.wait(_LOOK_EVERY_S):
                        return 0
        return 0

    def _watch(self) -> None:
        while not self._stop.wait(_LOOK_EVERY_S):
            for member in self._members:
                member.watch(self._clock.monotonic())

    def _end(self) -> int:
        for member in self._members:
            member.terminate()
        until = self._clock.monotonic() + self._given.drain_timeout_s + STOP_MARGIN_S
        return max(member.end(until, self._clock.monotonic()) for member in self._members)

    @contextmanager
    def _stopped_by_signals(self) -> Iterator[None]:
        numbers = (signal.SIGTERM, signal.SIGINT)
        before = {number: signal.signal(number, lambda *_: self._stop.set()) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _for_process(given: Settings, number: int) -> Settings:
    """Each listens for peers at a port of its own: a fixed one is the first's, and the others follow."""
    return replace(
        given,
        peer_listen=_plus(given.peer_listen, number - 1),
        peer_advertise=_plus(given.peer_advertise, number - 1),
    )


def _plus(address: str | None, more: int) -> str | None:
    host, _, port = (address or "").rpartition(":")
    return f"{host}:{int(port) + more}" if port and int(port) else address


def _shown(code: int) -> str:
    if code >= 0:
        return f"with exit code {code}"
    with_name = {int(each): each.name for each in signal.Signals}
    return f"by {with_name.get(-code, f'signal {-code}')}"


def _as_shells_say(code: int) -> int:
    """An exit code. One that was asked to end before it could listen for that has ended as asked."""
    if code == -signal.SIGTERM:
        return 0
    return 128 - code if code < 0 else code
