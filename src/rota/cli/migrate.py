"""`rota migrate`: brings the database's schema up to date."""

from typing import Annotated

import typer

from rota.cli.context import JsonFlag, output, settings
from rota.cli.devhome import database
from rota.cli.errors import Exit
from rota.cli.flags import DATABASE, setting_flags


@setting_flags(*DATABASE)
def migrate(
    context: typer.Context,
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit 1 when something is missing.")] = False,
    json: JsonFlag = False,
    **flags: str | None,
) -> None:
    """Apply what the schema lacks. Safe while coordinators run, and from many places at once."""
    out, given = output(context, json), settings(context, flags)

    from rota import bootstrap

    with database(given) as url:
        applied = [] if check else bootstrap.migrate(url)
        status = bootstrap.schema_status(url)
    if out.json:
        out.document(
            {
                "applied": applied,
                "current": status.current,
                "head": status.head,
                "server": status.server,
                "up_to_date": status.up_to_date,
            }
        )
    elif status.up_to_date:
        done = f"applied {', '.join(applied)}" if applied else "nothing to do"
        print(f"{done}: the schema is at revision {status.current} (PostgreSQL {status.server})")
    else:
        state = "is empty" if status.current is None else f"is at revision {status.current}"
        print(f"the database {state} and needs revision {status.head}: run rota migrate")
    if not status.up_to_date:
        raise typer.Exit(Exit.REFUSED)
