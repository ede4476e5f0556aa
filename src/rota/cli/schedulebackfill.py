"""`rota schedule backfill`, `backfills`, `cancel-backfill` and `history`: past times of a schedule, and their fates."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rota.cli import localtime, values
from rota.cli.context import JsonFlag, output
from rota.cli.errors import Exit
from rota.cli.flaggroup import grouped
from rota.cli.output import Output, printable
from rota.cli.remote import PageFlags, Remote, document, remote, show_pages
from rota.cli.scheduleflags import TIME, Overlap, Reason, RequestId, ScheduleId
from rota.cli.schedulesteer import read_schedule
from rota.clock import SystemClock
from rota.domain.errors import InvalidArgument

if TYPE_CHECKING:
    from rota_sdk.gen.rota.v1.schedules_pb2 import Backfill, Occurrence

    from rota.domain.zones import Zone

# The pause between two looks at a watched backfill: short at first, growing.
WATCH_FIRST_S: Final = 0.1
WATCH_MOST_S: Final = 2.0

_OPTIONS: Final = {
    "name": "SCHEDULE",
    "parent": "SCHEDULE",
    "start_time": "--from",
    "end_time": "--to",
    "include_fired": "--include-fired",
    "rate": "--rate",
    "overlap_policy": "--overlap",
    "overlap_policy.limit": "--overlap-limit",
    "priority": "--priority",
    "reason": "--reason",
    "request_id": "--request-id",
    "fate": "--fate",
    "page_token": "--page-token",
}


class Fate(StrEnum):
    """What became of an occurrence, as a filter."""

    FIRED = "fired"
    BUFFERED = "buffered"
    COALESCED = "coalesced"
    SKIPPED_MISSED = "skipped_missed"
    SKIPPED_WINDOW = "skipped_window"
    SKIPPED_OVERLAP = "skipped_overlap"
    SKIPPED_BUFFER_FULL = "skipped_buffer_full"
    SUPPRESSED_PAUSED = "suppressed_paused"
    EXCLUDED = "excluded"
    SUPERSEDED = "superseded"


def backfill(
    context: typer.Context,
    schedule: ScheduleId,
    since: Annotated[
        str,
        typer.Option(
            "--from", metavar=TIME, help="From this instant, or date or time of the zone.", show_default=False
        ),
    ],
    until: Annotated[
        str,
        typer.Option("--to", metavar=TIME, help="Up to but not including it; not in the future.", show_default=False),
    ],
    rate: Annotated[
        float | None, typer.Option(min=0.001, max=1_000, help="Occurrences a second at most; 10 when not given.")
    ] = None,
    include_fired: Annotated[
        bool, typer.Option("--include-fired", help="Fire those again that have fired before, with new effect keys.")
    ] = False,
    overlap: Annotated[Overlap | None, typer.Option(help="In place of the schedule's own.")] = None,
    overlap_limit: Annotated[int | None, typer.Option(min=1, max=10_000, help="With allow or buffer-all.")] = None,
    priority: Annotated[
        int | None, typer.Option(min=0, max=9, help="0 when not given, so that it holds up nothing else.")
    ] = None,
    reason: Reason = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count the occurrences, and fire none.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Show the progress to the end.")] = False,
    request_id: RequestId = None,
    json: JsonFlag = False,
) -> None:
    """Fire the occurrences of a past span, at a rate of their own and after what is due now."""
    out, name = output(context, json), values.schedule_name(schedule)
    if dry_run and watch:
        raise InvalidArgument.field("--watch", "expected --dry-run or --watch, found both; give one")
    if overlap_limit is not None and overlap not in (Overlap.ALLOW, Overlap.BUFFER_ALL):
        raise InvalidArgument.field("--overlap-limit", "expected --overlap allow or buffer-all with it, found neither")
    values.utf8("--reason", reason)

    from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

    from rota.cli.scheduleview import backfill_fields

    with remote(context, _OPTIONS) as api:
        zone = _ZoneOf(api, name)
        wanted = pb.Backfill(
            start_time=localtime.read("--from", since, zone),
            end_time=localtime.read("--to", until, zone),
            include_fired=include_fired,
            rate=rate,
            priority=priority,
            reason=reason,
        )
        if overlap is not None:
            policy = pb.OverlapPolicy(mode=f"OVERLAP_MODE_{overlap.name}", limit=overlap_limit)
            wanted.overlap_policy.CopyFrom(policy)
        request = pb.BackfillScheduleRequest(
            name=name, backfill=wanted, request_id=values.request_id(request_id), validate_only=dry_run
        )
        made = api.call(api.schedules.BackfillSchedule, request).backfill
        if watch:
            _watch(api, out, made)
        elif out.json:
            out.document(document(made))
        else:
            out.fields(backfill_fields(made, zone.name, SystemClock().utc()))
            if dry_run:
                typer.echo("Nothing was fired.", err=True)


@grouped
def backfills(context: typer.Context, schedule: ScheduleId, paging: PageFlags, json: JsonFlag = False) -> None:
    """List the backfills of a schedule, newest first."""
    out, name = output(context, json), values.schedule_name(schedule)
    values.utf8("--page-token", paging.page_token)

    from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

    from rota.cli.scheduleview import BACKFILL_COLUMNS, backfill_row

    with remote(context, _OPTIONS) as api:

        def fetch(size: int, token: str) -> Any:
            request = pb.ListBackfillsRequest(parent=name, page_size=size, page_token=token)
            page = api.call(api.schedules.ListBackfills, request)
            return page.backfills, page.next_page_token

        def table(found: "list[Backfill]") -> None:
            out.table(BACKFILL_COLUMNS, map(backfill_row, found), fold="REASON", optional=("RATE", "FIRED"))

        show_pages(out, paging, fetch, table)


def cancel_backfill(
    context: typer.Context,
    backfill: Annotated[
        str,
        typer.Argument(metavar="BACKFILL", help="schedules/<id>/backfills/<id>, or <id>/<id>.", show_default=False),
    ],
    json: JsonFlag = False,
) -> None:
    """Stop a backfill. Jobs that it made go on."""
    out, name = output(context, json), values.backfill_name(backfill)

    from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

    from rota.cli.scheduleview import backfill_fields

    with remote(context, {"name": "BACKFILL"}) as api:
        found = api.call(api.schedules.CancelBackfill, pb.CancelBackfillRequest(name=name)).backfill
    if out.json:
        out.document(document(found))
    else:
        out.fields(backfill_fields(found, "UTC", SystemClock().utc()))


@grouped
def history(
    context: typer.Context,
    schedule: ScheduleId,
    paging: PageFlags,
    fate: Annotated[Fate | None, typer.Option(help="Only occurrences with this fate.", case_sensitive=False)] = None,
    since: Annotated[
        str | None, typer.Option("--from", metavar=TIME, help="Only those at or after this nominal time.")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", metavar=TIME, help="Only those before it.")] = None,
    json: JsonFlag = False,
) -> None:
    """List the occurrences of a schedule with what became of each, newest first."""
    out, name = output(context, json), values.schedule_name(schedule)
    values.utf8("--page-token", paging.page_token)

    from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

    from rota.cli.scheduleview import OCCURRENCE_COLUMNS, occurrence_row

    with remote(context, _OPTIONS) as api:
        zone = _ZoneOf(api, name)
        request = pb.ListOccurrencesRequest(
            parent=name,
            fate=f"OCCURRENCE_FATE_{fate.name if fate else 'UNSPECIFIED'}",
            start_time=localtime.read("--from", since, zone),
            end_time=localtime.read("--to", until, zone),
        )

        def fetch(size: int, token: str) -> Any:
            request.page_size, request.page_token = size, token
            page = api.call(api.schedules.ListOccurrences, request)
            return page.occurrences, page.next_page_token

        def table(found: "list[Occurrence]") -> None:
            rows = [occurrence_row(occurrence) for occurrence in found]
            out.table(OCCURRENCE_COLUMNS, rows, fold="REASON", optional=("UTC", "ORIGIN"))

        show_pages(out, paging, fetch, table)


@dataclass(slots=True)
class _ZoneOf:
    """The schedule's zone, asked for when a time needs it; `name` is UTC until then."""

    api: Remote
    schedule: str
    name: str = "UTC"

    def __call__(self) -> "Zone":
        from rota.domain import zones

        self.name = read_schedule(self.api, self.schedule).time_zone or "UTC"
        return zones.find(self.name, "SCHEDULE")


def _watch(api: Remote, out: Output, made: "Backfill") -> None:
    """Shows each change to the end; exit 1 unless it succeeded."""
    from rota.cli.scheduleview import progress_line

    last = made
    try:
        for last in _changes(api, made):
            if out.json:
                out.document(document(last))
            else:
                now = localtime.utc(SystemClock().utc().replace(microsecond=0))
                print(f"{now}  {printable(progress_line(last))}", flush=True)
    except KeyboardInterrupt:
        typer.echo(f"{made.name} goes on; `rota schedule cancel-backfill {made.name}` stops it", err=True)
        raise
    if last.state != _terminal()[0]:
        raise typer.Exit(Exit.REFUSED)


def _changes(api: Remote, made: "Backfill") -> "Iterator[Backfill]":
    from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

    never, pause = Event(), WATCH_FIRST_S
    seen, now = None, made
    while True:
        where = (now.state, now.done_count)
        if where != seen:
            yield now
            seen = where
        if now.state in _terminal():
            return
        never.wait(pause)
        pause = min(pause * 1.5, WATCH_MOST_S)
        now = api.call(api.schedules.GetBackfill, pb.GetBackfillRequest(name=made.name)).backfill


def _terminal() -> tuple[int, int]:
    from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

    return pb.BACKFILL_STATE_SUCCEEDED, pb.BACKFILL_STATE_CANCELLED
