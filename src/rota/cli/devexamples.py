"""The examples of `rota dev`: a folder's jobs, worker, crontab and YAML files, run for a while and checked at the end.

The worker (DIR/worker.py) and `rota exec`, which runs the commands of the schedules, are children beside the
coordinator.
"""

import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from rota_sdk import Client

from rota.cli import changes, devschedules
from rota.cli.checkschedules import ScheduleSummary
from rota.cli.child import Child, blamed_on, raise_last_words
from rota.cli.devhome import DevHome
from rota.cli.devschedules import Source, Stored
from rota.cli.devstop import Stop
from rota.cli.drive import Drive, Summary
from rota.cli.driveschedules import ScheduleDrive
from rota.cli.errors import Exit
from rota.cli.http import JOB_TYPE as HTTP_TYPE
from rota.cli.output import Output
from rota.cli.plan import PLAN, Entry, load
from rota.cli.remote import Remote
from rota.cli.show import View, summary_lines, view
from rota.cli.showschedules import schedule_summary_lines
from rota.clock import SystemClock
from rota.domain.errors import InvalidArgument, Unavailable
from rota.manifest.problems import Refused
from rota.targets.command import JOB_TYPE, QUEUE_DEFAULT

WORKER: Final = "worker.py"
WORKER_READY_TIMEOUT_S: Final = 15.0
WORKER_STOP_S: Final = 10.0
EXEC_SLOTS: Final = 8
"""However few CPUs there are: the commands of examples wait more than they work."""

EXEC_DRAIN: Final = "5s"
EXEC_GRACE: Final = "2s"
"""Together less than WORKER_STOP_S."""

HTTP_ALLOWED: Final = ("localhost", "127.0.0.0/8", "::1")

FINISH_TIMEOUT_S: Final = 30.0
"""After --for: how long the jobs that are left may take."""

INTERRUPT_FINISH_S: Final = 3.0
"""After Ctrl-C: the same, when somebody waits for the prompt."""

TICK_S: Final = 0.25
LOOK_EVERY_TICKS: Final = 2


@dataclass(frozen=True, slots=True)
class Examples:
    """What a folder holds. No plan: schedules alone."""

    folder: Path
    plan: list[Entry]
    sources: list[Source]

    @property
    def worker(self) -> Path | None:
        file = self.folder / WORKER
        return file if file.is_file() else None


def read(folder: Path, out: Output) -> Examples:
    """Reads and checks a folder. Raises InvalidArgument, or shows all that is wrong with a file and ends."""
    try:
        sources = devschedules.load(folder)
    except Refused as error:
        raise changes.show_refusal(error, out) from None
    # Schedules alone make an example, too.
    plan = load(folder) if not sources or (folder / PLAN).exists() else []
    found = Examples(folder, plan, sources)
    if plan and found.worker is None:
        raise InvalidArgument.field("--examples", f"expected a worker in {folder / WORKER}, found none")
    return found


class ExampleRun:
    """One run beside a coordinator at `address`. `stack` stops what is started."""

    def __init__(
        self,
        out: Output,
        home: DevHome,
        environment: Mapping[str, str],
        coordinator: Child,
        stop: Stop,
        stack: ExitStack,
    ) -> None:
        self._out = out
        self._home = home
        self._environment = environment
        self._children = [coordinator]
        self._stop = stop
        self._stack = stack
        self._clock = SystemClock()

    def run(self, examples: Examples, for_s: float | None, address: str, key: str) -> int:
        """Runs the examples to the end, prints the summary, and returns the exit code."""
        with ExitStack() as blame:
            rota = blame.enter_context(Client(address, api_key=key, tls=False))
            blame.enter_context(blamed_on(self._children[0]))
            if examples.worker is not None:
                self._start("worker", [str(examples.worker)], rota, blame)
            if examples.sources:
                self._start("exec", _exec(examples), rota, blame)
            if called := _queues(examples, HTTP_TYPE):
                self._start("http", _http(called), rota, blame)
            remote = Remote(rota, {})
            schedules = self._bring_in(remote, examples, for_s)
            self._stop.started = True
            summary, fired = self._drive(
                Drive(rota, examples.plan, self._clock),
                ScheduleDrive(remote, schedules, self._clock) if examples.sources else None,
                for_s,
            )
        self._show(summary, fired)
        interrupted = self._stop.asked.is_set()
        done = summary.succeeded > 0 or interrupted or not examples.plan
        lost = summary.lost + (fired.lost if fired is not None else 0)
        return Exit.OK if done and lost == 0 else Exit.REFUSED

    def _start(self, name: str, command: Sequence[str], rota: Client, blame: ExitStack) -> None:
        """A worker as a child, once it has a session, so that its start is not taken for latency."""
        # Those of a killed run before live on for their TTL.
        known = {session.name for session in rota.list_sessions()}
        worker = self._stack.enter_context(
            Child(name, command, self._environment, log=self._home.log_file(name), stop_timeout_s=WORKER_STOP_S)
        )
        self._children.append(worker)
        blame.enter_context(blamed_on(worker))
        until = self._clock.monotonic() + WORKER_READY_TIMEOUT_S
        while not {session.name for session in rota.list_sessions()} - known:
            if worker.exit_code() is not None:
                raise_last_words(worker)
            if self._clock.monotonic() > until:
                raise Unavailable(
                    f"expected a session of the {name} within {WORKER_READY_TIMEOUT_S:g} s, none came: {worker.log}"
                )
            threading.Event().wait(TICK_S)

    def _bring_in(self, remote: Remote, examples: Examples, for_s: float | None) -> list[Stored]:
        if not examples.sources:
            return []
        try:
            brought = devschedules.bring_in(remote, examples.sources, self._clock)
        except Refused as error:
            raise changes.show_refusal(error, self._out) from None
        self._say("Schedules, whose commands `rota exec` runs:\n")
        for line in devschedules.greeting(brought, self._clock.utc(), for_s):
            self._say(line)
        self._say("")
        return [stored for one in brought for stored in one.schedules]

    def _drive(
        self, drive: Drive, schedules: ScheduleDrive | None, for_s: float | None
    ) -> tuple[Summary, ScheduleSummary | None]:
        clock = self._clock
        shown = view(self._out, clock)
        until = clock.monotonic() + for_s if for_s is not None else float("inf")
        try:
            tick = 0
            while clock.monotonic() < until and not self._stop.asked.wait(TICK_S):
                for child in self._children:
                    if child.exit_code() is not None:
                        raise_last_words(child)
                drive.submit()
                tick += 1
                if tick % LOOK_EVERY_TICKS == 0:
                    _look(drive, schedules)
                _update(shown, drive, schedules, "running")
            ended_at = clock.utc()
            interrupted = self._stop.asked.is_set()
            until = clock.monotonic() + (INTERRUPT_FINISH_S if interrupted else FINISH_TIMEOUT_S)
            while _unfinished(drive, schedules, ended_at) and clock.monotonic() < until:
                threading.Event().wait(TICK_S)
                _look(drive, schedules, ended_at)
                _update(shown, drive, schedules, "finishing")
                if self._stop.asked.is_set() and not interrupted:
                    interrupted, until = True, min(until, clock.monotonic() + INTERRUPT_FINISH_S)
            fired = schedules.verify(ended_at, complete=not interrupted) if schedules is not None else None
            _update(shown, drive, schedules, "finishing", last=True)
        finally:
            shown.close()
        return drive.verify(complete=not interrupted), fired

    def _show(self, summary: Summary, fired: ScheduleSummary | None) -> None:
        if self._out.json:
            self._out.document(summary.document() | {"schedules": fired.document() if fired is not None else None})
            return
        for line in summary_lines(summary):
            print(line)
        for line in schedule_summary_lines(fired) if fired is not None else ():
            print(line)

    def _say(self, line: str) -> None:
        # stdout is for results where a script reads it.
        print(line, file=sys.stderr if self._out.json else sys.stdout, flush=True)


def _exec(examples: Examples) -> list[str]:
    queues = {QUEUE_DEFAULT} | _queues(examples, JOB_TYPE)
    options = ["--slots", str(EXEC_SLOTS), "--drain-timeout", EXEC_DRAIN, "--grace", EXEC_GRACE]
    return ["rota", "exec", *options, *(word for queue in sorted(queues) for word in ("--queue", queue))]


def _http(queues: set[str]) -> list[str]:
    """What examples call may well be on the same machine."""
    options = ["--drain-timeout", EXEC_DRAIN, *(word for host in HTTP_ALLOWED for word in ("--allow", host))]
    return ["rota", "http", *options, *(word for queue in sorted(queues) for word in ("--queue", queue))]


def _queues(examples: Examples, type: str) -> set[str]:
    return devschedules.queues(examples.sources, type) | {one.queue for one in examples.plan if one.type == type}


def _look(drive: Drive, schedules: ScheduleDrive | None, until: datetime | None = None) -> None:
    drive.look()
    if schedules is not None:
        schedules.look(until)


def _unfinished(drive: Drive, schedules: ScheduleDrive | None, ended_at: datetime) -> bool:
    return drive.alive > 0 or (schedules is not None and schedules.waiting(ended_at))


def _update(shown: View, drive: Drive, schedules: ScheduleDrive | None, doing: str, *, last: bool = False) -> None:
    if schedules is None:
        shown.update(drive.snapshot(), doing)
        return
    for happened in schedules.news(rest=last):
        shown.tell(happened)
    shown.update(drive.snapshot(), doing, schedules.rows())
