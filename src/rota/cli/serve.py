"""`rota serve`: one coordinator."""

import sys
from typing import TYPE_CHECKING

import typer

from rota.cli.context import JsonFlag, output, settings
from rota.cli.flags import setting_flags
from rota.config import OPTIONS, Settings

if TYPE_CHECKING:
    from rota.bootstrap import Ready


@setting_flags(*OPTIONS)
def serve(context: typer.Context, json: JsonFlag = False, **flags: str | bool | None) -> None:
    """Run a coordinator until SIGTERM or Ctrl-C, then drain it.

    Settings come from the flags, the environment (ROTA_LISTEN for --listen), and the file given by --config. The
    database must be up to date: see rota migrate.
    """
    out, given = output(context, json), settings(context, flags)

    from rota import bootstrap

    def on_ready(ready: "Ready") -> None:
        if out.json:
            out.document({"address": ready.address})
        else:
            print(f"rota: serving at {ready.address}", flush=True)

    with bootstrap.local_database(given) as url:
        if given.database_url is None:
            print(f"rota: no database_url is set, so the data lie in {data_folder(given)}", file=sys.stderr)
        raise typer.Exit(bootstrap.serve(given, url, on_ready=on_ready))


def data_folder(given: Settings) -> str:
    """Where the embedded database keeps its data."""
    return str(given.home / "dev" / "postgres")
