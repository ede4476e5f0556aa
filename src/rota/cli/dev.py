"""`rota dev`: a whole Rota on this machine, and nothing left of its processes when it ends.

The database and the coordinator are children; so are, with --examples, a worker and a runner of commands. Each ends
with us, of whatever cause we end. At the end they are stopped in the order in which they need each other: workers,
coordinator, database.
"""

import json
import os
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rota.cli import values
from rota.cli.child import Child, raise_last_words
from rota.cli.context import JsonFlag, output, settings
from rota.cli.devhome import DevHome, reachable, without_rota
from rota.cli.devstop import Stop, signals
from rota.cli.errors import Exit
from rota.cli.flags import setting_flags
from rota.cli.output import Output
from rota.config import DEFAULT_HOME, DEFAULT_LISTEN, Settings, hide_password
from rota.domain.errors import InvalidArgument, Unavailable

if TYPE_CHECKING:
    from rota.cli.devexamples import Examples

READY_TIMEOUT_S: Final = 60.0
DRAIN_TIMEOUT_MAX_S: Final = 10.0
COORDINATOR_STOP_S: Final = 15.0
LOOK_EVERY_S: Final = 0.5

_COMMAND_WIDTH: Final = 52
_JOBS: Final = (
    ("rota job list", "what became of the jobs"),
    ("rota job get JOB", "one of them in full"),
)
_FLAGS = ("database_url", "home", "http_listen", "listen", "log_level", "otlp_endpoint")


@setting_flags(*_FLAGS)
def dev(
    context: typer.Context,
    ephemeral: Annotated[bool, typer.Option("--ephemeral", help="Keep nothing: data, key and logs go at the end.")] = (
        False
    ),
    examples: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Also run DIR/worker.py, the jobs of DIR/jobs.json, and the commands of DIR/crontab and DIR/*.yaml, "
            "shown live.",
        ),
    ] = None,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="With --examples: end by itself, such as 20s.")
    ] = None,
    json: JsonFlag = False,
    **flags: str | None,
) -> None:
    """Run a whole Rota here: database, coordinator and a local API key. Ctrl-C stops it.

    With --examples and --json, the last line of the output is a summary; exit 1 when a job or an occurrence of a
    schedule was lost, or no job succeeded.
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
        stop = stack.enter_context(signals())
        raise typer.Exit(_Dev(out, given, ephemeral, stop, stack).run(examples, for_s))


class _Dev:
    def __init__(self, out: Output, given: Settings, ephemeral: bool, stop: Stop, stack: ExitStack) -> None:
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
            tls_peer_ca=None,
            tls_peer_name=None,
            drain_timeout_s=min(given.drain_timeout_s, DRAIN_TIMEOUT_MAX_S),
        )
        self._home = DevHome(self._settings.home)

    def run(self, examples: Path | None, for_s: float | None) -> int:
        """Starts everything, waits for the end, and returns the exit code; the stack stops everything."""
        found: Examples | None = None
        if examples is not None:
            from rota.cli import devexamples

            found = devexamples.read(examples, self._out)
        holder = self._stack.enter_context(self._home.held())
        embedded = self._settings.database_url is None
        self._say(f"Starting PostgreSQL in {self._home.folder / 'postgres'} …" if embedded else "Starting …")

        from rota import bootstrap

        url = self._stack.enter_context(bootstrap.local_database(self._settings))
        bootstrap.migrate(url)
        key = self._home.api_key(url)
        coordinator, address, http = self._start_coordinator(url)
        holder.announce(address, url)
        # What is printed then says that Ctrl-C ends it.
        self._stop.started = found is None
        self._greet(address, http, found)
        if found is None:
            self._wait_for_end(coordinator)
            return Exit.OK
        called = reachable(address)
        environment = without_rota() | {
            "ROTA_ADDRESS": called,
            "ROTA_API_KEY": key,
            "ROTA_HOME": str(self._settings.home),
        }
        run = devexamples.ExampleRun(self._out, self._home, environment, coordinator, self._stop, self._stack)
        return run.run(found, for_s, called, key)

    def _say(self, line: str) -> None:
        # stdout is for results where a script reads it.
        print(line, file=sys.stderr if self._out.json else sys.stdout, flush=True)

    def _start_coordinator(self, url: str) -> tuple[Child, str, str]:
        """The coordinator as a child, the address that it really serves at, and its URL for HTTP; '': none."""
        served = replace(self._settings, database_url=url)
        environment = without_rota() | served.environ()
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
            raise_last_words(coordinator)
        told = json.loads(line)
        return coordinator, str(told["address"]), str(told.get("http", ""))

    def _greet(self, address: str, http: str, examples: "Examples | None") -> None:
        folder = self._home.folder
        database = self._settings.database_url
        place = hide_password(database) if database else f"{folder / 'postgres'}"
        kept = " (dropped at the end)" if self._ephemeral else " (kept between runs)" if not database else ""
        self._say(f"\nRota serves at {address}\n")
        if http:
            self._say(f"  http  {http} (JSON; {http}/openapi.json describes it)")
        self._say(f"  data  {place}{kept}")
        self._say(f"  key   {self._home.key_file} (the command line and the SDK find it by themselves)")
        self._say(f"  logs  {folder / 'log'}\n")
        self._say("Next, in a second terminal:\n")
        if address != DEFAULT_LISTEN:
            self._say(f"  export ROTA_ADDRESS={reachable(address)}")
        if self._settings.home != Path(DEFAULT_HOME).expanduser():
            self._say(f"  export ROTA_HOME={self._settings.home}")
        for command, what in _next_steps(examples):
            self._say(f"  {command:{_COMMAND_WIDTH}}  # {what}")
        self._say("")
        self._say("Ctrl-C stops everything.\n")

    def _wait_for_end(self, *children: Child) -> None:
        while not self._stop.asked.wait(LOOK_EVERY_S):
            for child in children:
                if child.exit_code() is not None:
                    raise_last_words(child)
        self._say("Stopping …")


def _next_steps(examples: "Examples | None") -> list[tuple[str, str]]:
    """Commands for a second terminal, and what they are for."""
    if examples is None:
        return [
            ("""rota job create greet --data '{"name": "Ada"}'""", "a job"),
            ("python worker.py", "a worker: the README has one of 10 lines"),
            ("rota schedule create tick --every 10s --command date", "a schedule, whose command ..."),
            ("rota exec", "... this runs"),
            *_JOBS,
        ]
    if examples.sources:
        return [
            ("rota schedule list", "the schedules, and when they fire next"),
            ("rota schedule history ID", "what became of each of its times"),
            *_JOBS,
        ]
    return list(_JOBS)
