"""`rota migrate`: brings the database's schema up to date, or an application's outbox."""

from typing import Annotated

import typer

from rota.cli import values
from rota.cli.context import JsonFlag, output, settings
from rota.cli.devhome import database
from rota.cli.errors import Exit
from rota.cli.flags import DATABASE, setting_flags
from rota.cli.output import Output
from rota.domain.errors import InvalidArgument


@setting_flags(*DATABASE)
def migrate(
    context: typer.Context,
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit 1 when something is missing.")] = False,
    outbox: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Instead: install the outbox in this database of an application, so that it creates jobs in its own "
            "transactions. PostgreSQL 13 or newer.",
        ),
    ] = None,
    schema: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --outbox: where to install it. [default: public]")
    ] = None,
    grant_enqueue: Annotated[
        list[str] | None, typer.Option(metavar="ROLE", help="With --outbox: a role that may enqueue; repeatable.")
    ] = None,
    grant_relay: Annotated[
        list[str] | None, typer.Option(metavar="ROLE", help="With --outbox: a role that may relay; repeatable.")
    ] = None,
    print_sql: Annotated[
        bool, typer.Option("--print-sql", help="Print the SQL of the outbox for somebody else to run; needs no URL.")
    ] = False,
    json: JsonFlag = False,
    **flags: str | None,
) -> None:
    """Apply what the schema lacks. Safe while coordinators run, and from many places at once."""
    out = output(context, json)
    if outbox is not None or print_sql:
        _migrate_outbox(out, outbox, schema, grant_enqueue or [], grant_relay or [], check, print_sql)
        return
    for option, value in (("--schema", schema), ("--grant-enqueue", grant_enqueue), ("--grant-relay", grant_relay)):
        if value:
            raise InvalidArgument.field(option, "expected together with --outbox, found without")
    given = settings(context, flags)

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


def _migrate_outbox(
    out: Output,
    url: str | None,
    schema: str | None,
    enqueue: list[str],
    relay: list[str],
    check: bool,
    print_sql: bool,
) -> None:
    from rota.outbox import install
    from rota.outbox.database import Place

    place = Place(url or "postgresql://", values.utf8("--schema", schema or "public"), "--outbox")
    grants = install.Grants(
        [values.utf8("--grant-enqueue", role) for role in enqueue],
        [values.utf8("--grant-relay", role) for role in relay],
    )
    if print_sql:
        print(install.script(place.schema, grants), end="")
        return
    found = install.status(place) if check else install.install(place, grants)
    if out.json:
        out.document(
            {
                "applied": [] if found.before == found.version else [f"{found.version:04}"],
                "current": found.version,
                "head": install.VERSION,
                "server": found.server,
                "up_to_date": found.up_to_date,
            }
        )
    elif found.up_to_date:
        done = "nothing to do" if found.before == found.version else "installed"
        print(f"{done}: the outbox in schema {place.schema} is at version {found.version} (PostgreSQL {found.server})")
    else:
        state = "lacks the outbox" if found.version is None else f"has version {found.version} of the outbox"
        print(f"schema {place.schema} {state} and needs version {install.VERSION}: run rota migrate --outbox")
    if not found.up_to_date:
        raise typer.Exit(Exit.REFUSED)
