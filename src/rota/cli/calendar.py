"""`rota calendar`: named sets of dates on which schedules do not fire."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rota.cli import values
from rota.cli.context import JsonFlag, output
from rota.cli.flaggroup import grouped
from rota.cli.output import Output, instant, one_line
from rota.cli.remote import PageFlags, Remote, at, document, remote, show_pages
from rota.cli.scheduleflags import AboutFlags, Etag, RequestId
from rota.cli.schedulesteer import confirm
from rota.domain.errors import InvalidArgument

if TYPE_CHECKING:
    from rota_sdk.gen.rota.v1.schedules_pb2 import Calendar

app = typer.Typer(
    name="calendar", help="Create, read and change calendars: dates without firing.", no_args_is_help=True
)

FILE_BYTES_MAX: Final = 1024 * 1024
COLUMNS: Final = ("CALENDAR", "CHANGED", "LABELS", "NOTES")
_OPTIONS: Final = {
    "calendar_id": "ID",
    "name": "CALENDAR",
    "dates": "--date",
    "notes": "--notes",
    "labels": "--label",
    "etag": "--etag",
    "request_id": "--request-id",
    "page_token": "--page-token",
}

CalendarId = Annotated[
    str, typer.Argument(metavar="CALENDAR", help="calendars/<id>, or the id alone.", show_default=False)
]
Dates = Annotated[
    list[str] | None,
    typer.Option("--date", metavar="DATE", help="A date as 2026-12-25, or --12-25 for every year; repeatable."),
]
DateFile = Annotated[
    str | None, typer.Option("--file", metavar="FILE|-", help="Dates, one a line; # begins a comment.")
]


@app.command()
@grouped
def create(
    context: typer.Context,
    id: Annotated[
        str, typer.Argument(metavar="ID", help="Its id: letters, digits and ._-, at most 128.", show_default=False)
    ],
    about: AboutFlags,
    date: Dates = None,
    file: DateFile = None,
    request_id: RequestId = None,
    json: JsonFlag = False,
) -> None:
    """Create a calendar and print it."""
    out, name = output(context, json), values.calendar_id(id, "ID")
    dates = _dates(date, file)

    from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

    calendar = pb.Calendar(
        dates=dates or [],
        notes=values.utf8("--notes", about.notes or ""),
        labels=values.pairs("--label", about.label),
    )
    request = pb.CreateCalendarRequest(calendar=calendar, calendar_id=name, request_id=values.request_id(request_id))
    with remote(context, _OPTIONS) as api:
        _show(out, api.call(api.calendars.CreateCalendar, request).calendar)


@app.command()
def get(context: typer.Context, calendar: CalendarId, json: JsonFlag = False) -> None:
    """Show a calendar with its dates."""
    out, name = output(context, json), values.calendar_name(calendar)
    with remote(context, _OPTIONS) as api:
        _show(out, _read(api, name))


@app.command("list")
@grouped
def list_(
    context: typer.Context,
    paging: PageFlags,
    label: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Only calendars with this label; repeatable.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """List calendars by id, without their dates."""
    out, labels = output(context, json), values.pairs("--label", label)
    values.utf8("--page-token", paging.page_token)

    from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

    with remote(context, _OPTIONS) as api:

        def fetch(size: int, token: str) -> Any:
            request = pb.ListCalendarsRequest(page_size=size, page_token=token, labels=labels)
            page = api.call(api.calendars.ListCalendars, request)
            return page.calendars, page.next_page_token

        def table(found: "list[Calendar]") -> None:
            out.table(COLUMNS, map(_row, found), fold="NOTES", optional=("CHANGED", "LABELS"))

        show_pages(out, paging, fetch, table)


@app.command()
@grouped
def edit(
    context: typer.Context,
    calendar: CalendarId,
    about: AboutFlags,
    date: Dates = None,
    file: DateFile = None,
    add: Annotated[
        list[str] | None, typer.Option(metavar="DATE", help="A date more, beside those it has; repeatable.")
    ] = None,
    remove: Annotated[list[str] | None, typer.Option(metavar="DATE", help="A date less; repeatable.")] = None,
    etag: Etag = "",
    request_id: RequestId = None,
    json: JsonFlag = False,
) -> None:
    """Change what is given and leave the rest. --date and --file replace all dates, --label all labels."""
    out, name = output(context, json), values.calendar_name(calendar)
    dates, labels = _dates(date, file), values.pairs("--label", about.label)
    changes = add is not None or remove is not None
    if changes and dates is not None:
        found = "--add" if add is not None else "--remove"
        raise InvalidArgument.field(found, "expected no --date or --file with it, found one; give one of them")
    _check(add or [], "--add")
    _check(remove or [], "--remove")

    from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

    made = pb.Calendar(
        name=name,
        etag=values.utf8("--etag", etag),
        dates=dates or [],
        notes=values.utf8("--notes", about.notes or ""),
        labels=labels,
    )
    given = {"dates": changes or dates is not None, "notes": about.notes is not None, "labels": bool(labels)}
    if not any(given.values()):
        raise InvalidArgument.field("CALENDAR", "expected an option that changes it, found none; give one")
    with remote(context, _OPTIONS) as api:
        if changes:
            stored = _read(api, name)
            made.dates[:] = _changed(list(stored.dates), add or [], remove or [])
            # What is kept is of the version that was read.
            made.etag = etag or stored.etag
        request = pb.UpdateCalendarRequest(calendar=made, request_id=values.request_id(request_id))
        request.update_mask.paths.extend(path for path, was_given in given.items() if was_given)
        _show(out, api.call(api.calendars.UpdateCalendar, request).calendar)


@app.command()
def delete(
    context: typer.Context,
    calendar: CalendarId,
    allow_missing: Annotated[bool, typer.Option("--allow-missing", help="No error when there is none.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; without a terminal nobody is asked.")] = False,
    etag: Etag = "",
    json: JsonFlag = False,
) -> None:
    """Delete a calendar. Refused while a schedule names it."""
    out, name = output(context, json), values.calendar_name(calendar)
    values.utf8("--etag", etag)
    confirm(out, f"Delete {name}?", yes)

    from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

    request = pb.DeleteCalendarRequest(name=name, etag=etag, allow_missing=allow_missing)
    with remote(context, _OPTIONS) as api:
        api.call(api.calendars.DeleteCalendar, request)
    if out.json:
        out.document({"name": name, "deleted": True})
    else:
        print(f"deleted {name}")


def _read(api: Remote, name: str) -> "Calendar":
    from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

    return api.call(api.calendars.GetCalendar, pb.GetCalendarRequest(name=name)).calendar


def _dates(given: list[str] | None, file: str | None) -> list[str] | None:
    """Dates of --date and --file, each once; None when neither was given."""
    if given is None and file is None:
        return None
    _check(given or [], "--date")
    return list(dict.fromkeys([*(given or []), *(_lines(file) if file is not None else ())]))


def _lines(file: str) -> Iterable[str]:
    try:
        if file == "-":
            data = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
        else:
            with Path(file).open("rb") as stream:
                data = stream.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InvalidArgument.field("--file", f"expected a readable file, found {file!r} ({why})") from None
    if len(data) > FILE_BYTES_MAX:
        raise InvalidArgument.field("--file", f"expected at most {FILE_BYTES_MAX} bytes, found more; make it two")
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        text = line.partition("#")[0].strip()
        if text:
            _check([text], f"--file line {number}")
            yield text


def _check(dates: list[str], option: str) -> None:
    from rota.domain.dateset import parse_dates

    for text in dates:
        parse_dates([text], option)


def _changed(dates: list[str], add: list[str], remove: list[str]) -> list[str]:
    missing = [text for text in remove if text not in dates]
    if missing:
        raise InvalidArgument.field("--remove", f"expected a date of the calendar, found {missing[0]}; leave it out")
    return list(dict.fromkeys([text for text in dates if text not in remove] + add))


def _row(calendar: "Calendar") -> tuple[str, ...]:
    from rota.cli.jobview import pairs_text

    changed = instant(at(calendar, "update_time") or at(calendar, "create_time"), timespec="seconds")
    return calendar.name.removeprefix("calendars/"), changed, pairs_text(calendar.labels), one_line(calendar.notes)


def _show(out: Output, calendar: "Calendar") -> None:
    if out.json:
        out.document(document(calendar))
        return
    from rota.cli.jobview import pairs_text

    out.fields(
        [
            ("calendar", calendar.name),
            ("dates", "\n".join(calendar.dates) or "none"),
            ("labels", pairs_text(calendar.labels)),
            ("notes", calendar.notes),
            ("etag", calendar.etag),
            ("uid", calendar.uid),
            ("created", instant(at(calendar, "create_time"))),
            ("changed", instant(at(calendar, "update_time"))),
        ]
    )
