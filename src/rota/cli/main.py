"""The command `rota`: its global options, its commands, and the one place where errors become exit codes.

What is costly to import (grpc, the database, Rich) is imported by the command that needs it, so that `--help` and
completion answer at once.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rota.cli import (
    calendar,
    coordinator,
    dead,
    effect,
    imports,
    job,
    key,
    outbox,
    queue,
    redrive,
    schedule,
    shard,
    tenant,
    worker,
)
from rota.cli.apply import apply
from rota.cli.context import Globals
from rota.cli.dev import dev
from rota.cli.doctor import doctor
from rota.cli.errors import EXIT_CODES, Exit, explain
from rota.cli.exec import exec_
from rota.cli.http import http
from rota.cli.migrate import migrate
from rota.cli.output import Output
from rota.cli.serve import serve

app = typer.Typer(
    name="rota",
    help="A durable, distributed job scheduler: `rota dev` starts one here.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(dev)
app.command()(serve)
app.command()(migrate)
app.command()(doctor)
app.command("exec")(exec_)
app.command()(http)
app.add_typer(key.app)
app.add_typer(job.app)
app.add_typer(schedule.app)
app.add_typer(calendar.app)
app.command()(apply)
app.add_typer(imports.app)
app.add_typer(worker.app)
app.add_typer(queue.app)
app.add_typer(dead.app)
app.add_typer(redrive.app)
app.add_typer(effect.app)
app.add_typer(tenant.app)
app.add_typer(coordinator.app)
app.add_typer(shard.app)
app.add_typer(outbox.app)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"rota {version('rota')}")
        raise typer.Exit(Exit.OK)


@app.callback()
def options(
    context: typer.Context,
    address: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="The coordinator; also ROTA_ADDRESS. [default: 127.0.0.1:7070]"),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Also ROTA_API_KEY; on this machine the key of `rota dev` is found."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The coordinator's settings, TOML; also ROTA_CONFIG.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON; also after the command.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours; also NO_COLOR=1.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """The options of all commands stand before the command."""
    given = Globals.of(context)
    given.address, given.api_key, given.config = address, api_key, config
    given.output.json |= json
    if no_color:
        given.output.color = False


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit code. Errors are shown, and only bugs leave a traceback."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    given = Globals(output=Output())
    # What fails is told by the exception; gRPC's own lines on stderr would stand beside ours.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a character shows its number instead of failing.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(args=arguments, prog_name="rota", standalone_mode=False, obj=given)
        sys.stdout.flush()
        return int(code or Exit.OK)
    except (KeyboardInterrupt, typer.Abort):
        return Exit.INTERRUPTED
    except BrokenPipeError:
        return _reader_left()
    except Exception as error:
        return _show(error, as_json=given.output.json or "--json" in arguments)


def _show(error: Any, *, as_json: bool) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return Exit.USAGE
    problem = explain(error)
    if problem is None:
        raise error
    problem.show(as_json=as_json)
    return problem.exit


def _reader_left() -> int:
    # The interpreter flushes stdout once more at its end, which would fail again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return Exit.REFUSED
