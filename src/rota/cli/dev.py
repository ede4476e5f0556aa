"""`rota dev`: a whole Rota on this machine, and nothing left of its processes when it ends.

The database and the coordinator are children; so is, with --examples, a worker. Each ends with us, of whatever cause
we end. At the end they are stopped in the order in which they need each other: worker, coordinator, database.
"""

import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from rota.cli import values
from rota.cli.child import ERROR_MARK, Child
from rota.cli.context import JsonFlag, output, settings
from rota.cli.devhome import DevHome
from rota.cli.errors import Exit
from rota.cli.flags import setting_flags
from rota.cli.output import Output
from rota.config import DEFAULT_HOME, DEFAULT_LISTEN, Settings, hide_password
from rota.domain.errors import FailedPrecondition, InvalidArgument, RotaError, Unavailable

if TYPE_CHECKING:
    from rota_sdk import Client

    from rota.cli.drive import Summary
    from rota.cli.plan import Entry

READY_TIMEOUT_S: Final = 60.0
WORKER_READY_TIMEOUT_S: Final = 15.0
DRAIN_TIMEOUT_MAX_S: Final = 10.0
COORDINATOR_STOP_S: Final = 15.0
WORKER_STOP_S: Final = 10.0
FINISH_TIMEOUT_S: Final = 30.0
"""After --for: how long the jobs that are left may take."""

INTERRUPT_FINISH_S: Final = 3.0
"""After Ctrl-C: the same, when somebody waits for the prompt."""

_KIND_BY_EXIT: Final[dict[int, type[RotaError]]] = {Exit.UNREACHABLE: Unavailable, Exit.USAGE: InvalidArgument}

TICK_S: Final = 0.25
LOOK_EVERY_TICKS: Final = 2

_FLAGS = ("database_url", "home", "listen", "log_level", "otlp_endpoint")


@setting_flags(*_FLAGS)
def dev(
    context: typer.Context,
    ephemeral: Annotated[bool, typer.Option("--ephemeral", help="Keep nothing: data, key and logs go at the end.")] = (
        False
    ),
    examples: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Also run DIR/worker.py and the jobs of DIR/jobs.json, shown live."),
    ] = None,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="With --examples: end by itself, such as 20s.")
    ] = None,
    json: JsonFlag = False,
    **flags: str | None,
) -> None:
    """Run a whole Rota here: database, coordinator and a local API key. Ctrl-C stops it.

    With --examples and --json, the last line of the output is a summary; exit 1 when a job was lost or none succeeded.
    """
    out, given = output(context, json), settings(context, flags)
    for_s = values.duration("--for", for_)
    if for_s is not None and examples is None:
        raise InvalidArgument.field("--for", "expected together with --examples, found alone")
    if ephemeral and given.database_url is not None:
        raise InvalidArgument.field(
            "--ephemeral", "expected without a database_url, whose data are not ours to drop; leave one of them out"
        )
    with ExitStack() as stack:
        stop = stack.enter_context(_signals())
        raise typer.Exit(_Dev(out, given, ephemeral, stop, stack).run(examples, for_s))


class _Stop:
    """Ctrl-C, SIGTERM, a closed terminal: an exception while things start or when repeated, else an event."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.started = False

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        repeated = self.asked.is_set()
        self.asked.set()
        if repeated or not self.started:
            raise KeyboardInterrupt


@contextmanager
def _signals() -> Iterator[_Stop]:
    stop = _Stop()
    numbers = [signal.SIGINT, signal.SIGTERM]
    # Under nohup it is ignored, and stays so.
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, stop.on_signal) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Dev:
    def __init__(self, out: Output, given: Settings, ephemeral: bool, stop: _Stop, stack: ExitStack) -> None:
        self._out = out
        self._ephemeral = ephemeral
        self._stop = stop
        self._stack = stack
        if ephemeral:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rota-dev-", ignore_cleanup_errors=True))
            given = replace(given, home=Path(folder))
        if given.tls_cert is not None:
            self._say("TLS settings are for rota serve; rota dev serves plaintext on this machine.")
        # A local server needs no certificates, and everything here calls it without.
        self._settings = replace(
            given,
            tls_cert=None,
            tls_key=None,
            tls_client_ca=None,
            drain_timeout_s=min(given.drain_timeout_s, DRAIN_TIMEOUT_MAX_S),
        )
        self._home = DevHome(self._settings.home)

    def run(self, examples: Path | None, for_s: float | None) -> int:
        """Starts everything, waits for the end, and returns the exit code; the stack stops everything."""
        plan = _checked(examples) if examples is not None else None
        holder = self._stack.enter_context(self._home.held())
        embedded = self._settings.database_url is None
        self._say(f"Starting PostgreSQL in {self._home.folder / 'postgres'} …" if embedded else "Starting …")

        from rota import bootstrap

        url = self._stack.enter_context(bootstrap.local_database(self._settings))
        bootstrap.migrate(url)
        key = self._home.api_key(url)
        coordinator, address = self._start_coordinator(url)
        holder.announce(address, url)
        self._greet(address, plan is not None)
        if plan is None:
            self._stop.started = True
            self._wait_for_end(coordinator)
            return Exit.OK
        assert examples is not None
        return self._run_examples(examples, plan, for_s, address, key, coordinator)

    def _say(self, line: str) -> None:
        # stdout is for results where a script reads it.
        print(line, file=sys.stderr if self._out.json else sys.stdout, flush=True)

    def _start_coordinator(self, url: str) -> tuple[Child, str]:
        """The coordinator as a child, and the address that it really serves at."""
        served = replace(self._settings, database_url=url)
        environment = _without_rota(os.environ) | served.environ()
        # What the file says is in `served` already; an empty one keeps it from being read again.
        environment["ROTA_CONFIG"] = os.devnull
        coordinator = self._stack.enter_context(
            Child(
                "coordinator",
                ["rota", "serve", "--json"],
                environment,
                log=self._home.log_file("coordinator"),
                stop_timeout_s=COORDINATOR_STOP_S,
            )
        )
        try:
            line = coordinator.first_line(READY_TIMEOUT_S)
        except TimeoutError as error:
            raise Unavailable(f"expected the coordinator to be ready, found that {error}") from None
        if line is None:
            _raise_last_words(coordinator)
        return coordinator, str(json.loads(line)["address"])

    def _greet(self, address: str, examples: bool) -> None:
        folder = self._home.folder
        database = self._settings.database_url
        place = hide_password(database) if database else f"{folder / 'postgres'}"
        kept = " (dropped at the end)" if self._ephemeral else " (kept between runs)" if not database else ""
        self._say(f"\nRota serves at {address}\n")
        self._say(f"  data  {place}{kept}")
        self._say(f"  key   {self._home.key_file} (the command line and the SDK find it by themselves)")
        self._say(f"  logs  {folder / 'log'}\n")
        self._say("Next, in a second terminal:\n")
        if address != DEFAULT_LISTEN:
            self._say(f"  export ROTA_ADDRESS={_reachable(address)}")
        if self._settings.home != Path(DEFAULT_HOME).expanduser():
            self._say(f"  export ROTA_HOME={self._settings.home}")
        if not examples:
            self._say("""  rota job create greet --data '{"name": "Ada"}'   # a job""")
            self._say("  python worker.py                                 # a worker: the README has one of 10 lines")
        self._say("  rota job list                                    # what became of the jobs")
        self._say("  rota job get JOB                                 # one of them in full\n")
        self._say("Ctrl-C stops everything.\n")

    def _wait_for_end(self, *children: Child) -> None:
        while not self._stop.asked.wait(2 * TICK_S):
            for child in children:
                if child.exit_code() is not None:
                    _raise_last_words(child)
        self._say("Stopping …")

    def _run_examples(
        self, folder: Path, plan: "list[Entry]", for_s: float | None, address: str, key: str, coordinator: Child
    ) -> int:
        from rota_sdk import Client

        from rota.cli.show import summary_lines

        with Client(_reachable(address), api_key=key, tls=False) as rota, _blamed_on(coordinator):
            worker = self._start_worker(folder, rota, _reachable(address), key)
            with _blamed_on(worker):
                self._stop.started = True
                summary = self._drive(rota, plan, for_s, (coordinator, worker))
        if self._out.json:
            self._out.document(summary.document())
        else:
            for line in summary_lines(summary):
                print(line)
        interrupted = self._stop.asked.is_set()
        good = summary.lost == 0 and (summary.succeeded > 0 or interrupted)
        return Exit.OK if good else Exit.REFUSED

    def _start_worker(self, folder: Path, rota: "Client", address: str, key: str) -> Child:
        """The worker as a child, once it has a session, so that its start is not taken for latency."""
        from rota.clock import SystemClock

        # Those of a killed run before live on for their TTL.
        known = {session.name for session in rota.list_sessions()}
        worker = self._stack.enter_context(
            Child(
                "worker",
                [str(folder / "worker.py")],
                _without_rota(os.environ)
                | {"ROTA_ADDRESS": address, "ROTA_API_KEY": key, "ROTA_HOME": str(self._settings.home)},
                log=self._home.log_file("worker"),
                stop_timeout_s=WORKER_STOP_S,
            )
        )
        clock = SystemClock()
        until = clock.monotonic() + WORKER_READY_TIMEOUT_S
        while not {session.name for session in rota.list_sessions()} - known:
            if worker.exit_code() is not None:
                _raise_last_words(worker)
            if clock.monotonic() > until:
                raise Unavailable(
                    f"expected a session of the worker within {WORKER_READY_TIMEOUT_S:g} s, none came: {worker.log}"
                )
            threading.Event().wait(TICK_S)
        return worker

    def _drive(self, rota: "Client", plan: "list[Entry]", for_s: float | None, children: Sequence[Child]) -> "Summary":
        from rota.cli.drive import Drive
        from rota.cli.show import view
        from rota.clock import SystemClock

        clock = SystemClock()
        drive = Drive(rota, plan, clock)
        shown = view(self._out, clock)
        until = clock.monotonic() + for_s if for_s is not None else float("inf")
        try:
            tick = 0
            while clock.monotonic() < until and not self._stop.asked.wait(TICK_S):
                for child in children:
                    if child.exit_code() is not None:
                        _raise_last_words(child)
                drive.submit()
                tick += 1
                if tick % LOOK_EVERY_TICKS == 0:
                    drive.look()
                shown.update(drive.snapshot(), "running")
            interrupted = self._stop.asked.is_set()
            until = clock.monotonic() + (INTERRUPT_FINISH_S if interrupted else FINISH_TIMEOUT_S)
            while drive.alive and clock.monotonic() < until:
                threading.Event().wait(TICK_S)
                drive.look()
                shown.update(drive.snapshot(), "finishing")
                if self._stop.asked.is_set() and not interrupted:
                    interrupted, until = True, min(until, clock.monotonic() + INTERRUPT_FINISH_S)
        finally:
            shown.close()
        return drive.verify(complete=not interrupted)


def _checked(folder: Path) -> "list[Entry]":
    """The plan of an examples folder. Raises InvalidArgument."""
    from rota.cli.plan import load

    plan = load(folder)
    if not (folder / "worker.py").is_file():
        raise InvalidArgument.field("--examples", f"expected a worker in {folder / 'worker.py'}, found none")
    return plan


def _without_rota(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without what would lead a child to another server."""
    return {name: value for name, value in environ.items() if not name.startswith("ROTA_")}


def _reachable(address: str) -> str:
    """Where to call a server that listens at `address`, perhaps everywhere."""
    host, _, port = address.rpartition(":")
    return f"127.0.0.1:{port}" if host in ("0.0.0.0", "[::]", "") else address


@contextmanager
def _blamed_on(child: Child) -> Iterator[None]:
    """When a call fails because the child has ended, that is what is told."""
    try:
        yield
    except Exception:
        if child.exit_code() is not None:
            _raise_last_words(child)
        raise


def _raise_last_words(child: Child) -> NoReturn:
    """Raises what a child that ended, or never began, said about it."""
    said = child.last_words()
    kind = _KIND_BY_EXIT.get(child.exit_code() or 0, FailedPrecondition)
    for line in reversed(said):
        if line.startswith(ERROR_MARK):
            error = json.loads(line)["error"]
            raise kind(error["message"], reason=error["reason"], metadata=error["details"])
    last = f"; the last that it said: {said[-1]}" if said else ""
    raise kind(f"the {child.name} ended with exit code {child.exit_code()}{last}; its log is {child.log}")
