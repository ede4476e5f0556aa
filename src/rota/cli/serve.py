"""`rota serve`: one coordinator, or several that share a port."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Final

import typer

from rota.cli.context import JsonFlag, output, settings
from rota.cli.flags import setting_flags
from rota.cli.output import Output
from rota.config import OFF, OPTIONS, Settings

PROCESSES_MAX: Final = 64


@setting_flags(*OPTIONS)
def serve(
    context: typer.Context,
    processes: Annotated[
        int,
        typer.Option(
            "--processes",
            metavar="N",
            min=0,
            max=PROCESSES_MAX,
            help="Coordinators that share the port, each a process that is started again when it dies; 0: one for each "
            "core.",
        ),
    ] = 1,
    process: Annotated[int | None, typer.Option("--process", hidden=True)] = None,
    json: JsonFlag = False,
    **flags: str | bool | None,
) -> None:
    """Run a coordinator until SIGTERM or Ctrl-C, then drain it.

    Settings come from the flags, the environment (ROTA_LISTEN for --listen), and the file given by --config. The
    database must be up to date: see rota migrate.
    """
    out, given = output(context, json), settings(context, flags)

    def on_ready(address: str, http: str | None) -> None:
        if out.json:
            out.document({"address": address} | ({"http": http} if http else {}))
        else:
            # At once: a parent reads what it needs in one piece.
            print(f"rota: serving at {address}" + (f"\nrota: HTTP/JSON at {http}" if http else ""), flush=True)

    count = processes or _cores()
    if count > 1:
        raise typer.Exit(_serve_several(out, given, count, on_ready))

    from rota import bootstrap

    with _database(given) as url:
        code = bootstrap.serve(given, url, on_ready=lambda ready: on_ready(ready.address, ready.http), process=process)
        raise typer.Exit(code)


def data_folder(given: Settings) -> str:
    """Where the embedded database keeps its data."""
    return str(given.home / "dev" / "postgres")


def _serve_several(out: Output, given: Settings, count: int, on_ready: Callable[[str, str | None], None]) -> int:
    from rota.cli.processes import Processes, reserved, reserved_http

    with (
        reserved(given.listen) as listen,
        reserved_http(given, listen) as with_http,
        _database(given, count) as url,
    ):
        served = replace(with_http, listen=listen, database_url=url)
        scheme = "http" if served.tls_cert is None else "https"
        http = None if served.http_listen == OFF else f"{scheme}://{served.http_listen}"
        return Processes(served, count, ["--json"] if out.json else []).run(lambda: on_ready(listen, http))


def _cores() -> int:
    from rota.cli.processes import cores

    return min(cores(), PROCESSES_MAX)


@contextmanager
def _database(given: Settings, processes: int = 1) -> Iterator[str]:
    if given.database_url is not None:
        yield given.database_url
        return

    from rota import bootstrap

    with bootstrap.local_database(given, processes) as url:
        print(f"rota: no database_url is set, so the data lie in {data_folder(given)}", file=sys.stderr)
        yield url
