"""`rota redrive`: dead letters on their way back. `rota dead redrive` starts one."""

from collections.abc import Iterator
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rota.cli import values
from rota.cli.context import JsonFlag, output
from rota.cli.errors import Exit
from rota.cli.flaggroup import grouped
from rota.cli.localtime import utc
from rota.cli.output import Output, instant, printable
from rota.cli.remote import PageFlags, Remote, at, document, enum_name, remote, show_pages
from rota.clock import SystemClock

if TYPE_CHECKING:
    from rota_sdk.gen.rota.admin.v1.admin_pb2 import Redrive

app = typer.Typer(name="redrive", help="See and stop redrives; `rota dead redrive` starts one.", no_args_is_help=True)

COLUMNS: Final = ("REDRIVE", "STATE", "REDRIVEN", "REFUSED", "OF", "RATE", "CREATED", "WHICH")
WATCH_FIRST_S: Final = 0.1
WATCH_MOST_S: Final = 2.0
"""The pause between two looks at a watched redrive: short at first, growing."""

_OPTIONS: Final = {"name": "REDRIVE", "page_token": "--page-token"}

RedriveName = Annotated[
    str, typer.Argument(metavar="REDRIVE", help="redrives/<uuid>, or the uuid alone.", show_default=False)
]


@app.command("list")
@grouped
def list_(context: typer.Context, paging: PageFlags, json: JsonFlag = False) -> None:
    """List redrives, newest first. Needs a key with the role operator, as all of this."""
    out = output(context, json)
    values.utf8("--page-token", paging.page_token)

    from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

    with remote(context, _OPTIONS) as api:

        def fetch(size: int, token: str) -> Any:
            page = api.call(api.admin.ListRedrives, pb.ListRedrivesRequest(page_size=size, page_token=token))
            return page.redrives, page.next_page_token

        def table(found: "list[Redrive]") -> None:
            out.table(COLUMNS, map(_row, found), fold="WHICH", optional=("CREATED", "RATE"))

        show_pages(out, paging, fetch, table)


@app.command()
def get(
    context: typer.Context,
    redrive: RedriveName,
    watch: Annotated[bool, typer.Option("--watch", help="Show the progress to the end.")] = False,
    json: JsonFlag = False,
) -> None:
    """Show a redrive and how far it is."""
    out, name = output(context, json), values.redrive_name(redrive)

    from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

    with remote(context, _OPTIONS) as api:
        found = api.call(api.admin.GetRedrive, pb.GetRedriveRequest(name=name)).redrive
        if watch:
            watch_redrive(api, out, found)
        else:
            _show(out, found)


@app.command()
def cancel(context: typer.Context, redrive: RedriveName, json: JsonFlag = False) -> None:
    """Stop a redrive. Jobs that it made ready stay so."""
    out, name = output(context, json), values.redrive_name(redrive)

    from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

    with remote(context, _OPTIONS) as api:
        _show(out, api.call(api.admin.CancelRedrive, pb.CancelRedriveRequest(name=name)).redrive)


def watch_redrive(api: Remote, out: Output, started: "Redrive") -> None:
    """Shows each change to the end; exit 1 unless it succeeded."""
    last = started
    try:
        for last in _changes(api, started):
            if out.json:
                out.document(document(last))
            else:
                now = utc(SystemClock().utc().replace(microsecond=0))
                print(f"{now}  {printable(f'{_state(last)}  {_progress(last)}')}", flush=True)
    except KeyboardInterrupt:
        typer.echo(f"{started.name} goes on; `rota redrive cancel {started.name}` stops it", err=True)
        raise
    if _state(last) != "SUCCEEDED":
        raise typer.Exit(Exit.REFUSED)


def redrive_fields(redrive: "Redrive") -> "Iterator[tuple[str, str]]":
    """A redrive on a screen; of a dry run without name and state."""
    yield "redrive", redrive.name
    yield "state", _state(redrive)
    yield "letters", _which(redrive)
    yield "progress", _progress(redrive) if redrive.name else f"{redrive.total_count} would be taken"
    yield "rate", f"{redrive.rate:g} a second"
    yield "limit", str(redrive.max_count) if redrive.HasField("max_count") else ""
    yield "effect keys", "new ones" if redrive.new_generation else "as before"
    yield "reason", redrive.reason
    yield "author", redrive.author
    yield "created", instant(at(redrive, "create_time")) if redrive.name else ""
    yield "finished", instant(at(redrive, "finish_time"))


def _show(out: Output, redrive: "Redrive") -> None:
    if out.json:
        out.document(document(redrive))
    else:
        out.fields(redrive_fields(redrive))


def _row(redrive: "Redrive") -> tuple[str, ...]:
    return (
        redrive.name.removeprefix("redrives/"),
        _state(redrive),
        str(redrive.redriven_count),
        str(redrive.refused_count),
        str(redrive.total_count),
        f"{redrive.rate:g}/s",
        instant(at(redrive, "create_time"), timespec="seconds"),
        _which(redrive),
    )


def _state(redrive: "Redrive") -> str:
    if not redrive.state:
        return ""
    return enum_name(redrive.DESCRIPTOR.fields_by_name["state"].enum_type, redrive.state)


def _progress(redrive: "Redrive") -> str:
    refused = f", {redrive.refused_count} refused" if redrive.refused_count else ""
    return f"{redrive.redriven_count} of {redrive.total_count} redriven{refused}"


def _which(redrive: "Redrive") -> str:
    """The letters, for people."""
    if redrive.dead_letters:
        return ", ".join(redrive.dead_letters[:3]) + (" …" if len(redrive.dead_letters) > 3 else "")
    where = document(redrive.filter)
    labels = where.pop("labels", {})
    found = [f"{name.removesuffix('_time')} {value}" for name, value in where.items()]
    return ", ".join([*found, *(f"{key}={value}" for key, value in sorted(labels.items()))]) or "all"


def _changes(api: Remote, started: "Redrive") -> "Iterator[Redrive]":
    from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

    never, pause = Event(), WATCH_FIRST_S
    seen, now = None, started
    while True:
        where = (now.state, now.redriven_count, now.refused_count)
        if where != seen:
            yield now
            seen = where
        if now.state != pb.REDRIVE_STATE_RUNNING:
            return
        never.wait(pause)
        pause = min(pause * 1.5, WATCH_MOST_S)
        now = api.call(api.admin.GetRedrive, pb.GetRedriveRequest(name=started.name)).redrive
