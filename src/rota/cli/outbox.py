"""`rota outbox`: jobs that applications create in their own transactions, and the relay that hands them on."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rota.cli import values
from rota.cli.context import Globals, JsonFlag, output
from rota.cli.errors import Exit
from rota.cli.output import instant, one_line, span
from rota.cli.schedulesteer import confirm
from rota.domain.errors import InvalidArgument, NotFound

if TYPE_CHECKING:
    from rota.outbox.database import Place
    from rota.outbox.table import Parked

app = typer.Typer(
    name="outbox",
    help="Relay the jobs of an application's own transactions. `rota migrate --outbox` installs the outbox.",
    no_args_is_help=True,
)

# As rota.outbox has them, which is costly to import.
POLL: Final = "1s"
POLL_LEAST_S: Final = 0.01
POLL_MOST_S: Final = 60.0
COUNTED_MOST: Final = 100_000
LIST_DEFAULT: Final = 20
LIST_MOST: Final = 1_000
COLUMNS: Final = ("ROW", "TYPE", "QUEUE", "KEY", "ENQUEUED", "REASON", "ERROR")

Url = Annotated[
    str,
    typer.Option(
        "--url",
        metavar="URL",
        envvar="ROTA_OUTBOX_URL",
        help="The application's PostgreSQL database.",
        show_default=False,
    ),
]
Schema = Annotated[
    str, typer.Option("--schema", metavar="NAME", envvar="ROTA_OUTBOX_SCHEMA", help="Where the outbox is installed.")
]
Rows = Annotated[list[int] | None, typer.Argument(metavar="ROW...", help="Numbers, as status shows them.", min=1)]
All = Annotated[bool, typer.Option("--all", help="All parked rows.")]


@app.command()
def relay(
    context: typer.Context,
    url: Url,
    schema: Schema = "public",
    poll: Annotated[
        str, typer.Option(metavar="DURATION", help="Between two looks when nothing comes, at most; 10ms to 60s.")
    ] = POLL,
    json: JsonFlag = False,
) -> None:
    """Create the jobs of committed transactions, each once, until SIGTERM or Ctrl-C.

    Needs a key with the role client, whose tenant the jobs are of. Any number of relays may run on one outbox, all for
    the same tenant. A row that Rota refuses is parked, with the reason; it holds up nothing but the rows of its own
    ordering key.

    With --json the log on stderr is JSON, a line each.
    """
    out, given = output(context, json), Globals.of(context)
    poll_s = values.duration("--poll", poll)
    if poll_s is None or not POLL_LEAST_S <= poll_s <= POLL_MOST_S:
        raise InvalidArgument.field("--poll", f"expected 10ms to 60s, found {poll}")
    place = _place(url, schema)

    from rota.clock import SystemClock
    from rota.outbox.serve import serve
    from rota.telemetry_logs import configure

    configure("info", "json" if out.json else "text")
    asyncio.run(serve(place, SystemClock(), address=given.address, api_key=given.api_key, poll_s=poll_s))


@app.command()
def status(
    context: typer.Context,
    url: Url,
    schema: Schema = "public",
    limit: Annotated[int, typer.Option(min=0, max=LIST_MOST, help="Parked rows to show.")] = LIST_DEFAULT,
    json: JsonFlag = False,
) -> None:
    """Show what waits and what is parked; exit 1 when a row is parked."""
    out, place = output(context, json), _place(url, schema)

    from rota.outbox import operate

    counts = operate.counts(place)
    parked = operate.parked(place, limit) if limit else []
    if out.json:
        out.document(
            {
                "waiting": counts.waiting,
                "claimed": counts.claimed,
                "parked": counts.parked,
                "oldest_s": counts.oldest_s,
                "parked_rows": [_parked_json(row) for row in parked],
            }
        )
    else:
        out.fields(
            [
                ("waiting", f"{_number(counts.waiting)}, {_number(counts.claimed)} of them claimed by a relay"),
                ("oldest", "" if counts.oldest_s is None else f"enqueued {span(counts.oldest_s)} ago"),
                ("parked", _number(counts.parked)),
            ]
        )
        if parked:
            print()
            out.table(COLUMNS, map(_row, parked), fold="ERROR", optional=("QUEUE", "ENQUEUED"))
    if counts.parked:
        raise typer.Exit(Exit.REFUSED)


@app.command()
def retry(
    context: typer.Context,
    url: Url,
    rows: Rows = None,
    every: All = False,
    schema: Schema = "public",
    json: JsonFlag = False,
) -> None:
    """Send parked rows again.

    One with reason IN_DOUBT may have become a job: look first, for Rota no longer tells a repetition from a new one.
    """
    out, place = output(context, json), _place(url, schema)
    wanted = _wanted(rows, every)

    from rota.outbox import operate

    _tell(out, "retried", operate.retry(place, wanted), wanted)


@app.command()
def discard(
    context: typer.Context,
    url: Url,
    rows: Rows = None,
    every: All = False,
    schema: Schema = "public",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: JsonFlag = False,
) -> None:
    """Delete parked rows: no jobs come of them."""
    out, place = output(context, json), _place(url, schema)
    wanted = _wanted(rows, every)
    confirm(out, "Discard all parked rows?" if wanted is None else f"Discard {len(wanted)} parked rows?", yes)

    from rota.outbox import operate

    _tell(out, "discarded", operate.discard(place, wanted), wanted)


def _place(url: str, schema: str) -> "Place":
    from rota.outbox.database import Place

    return Place(url, values.utf8("--schema", schema))


def _wanted(rows: list[int] | None, every: bool) -> list[int] | None:
    """None: all."""
    if bool(rows) == every:
        found = "both" if every else "neither"
        raise InvalidArgument.field("ROW", f"expected rows or --all, found {found}; `rota outbox status` shows them")
    return sorted(set(rows)) if rows else None


def _tell(out: Any, done: str, acted: list[int], wanted: list[int] | None) -> None:
    if out.json:
        out.document({done: acted})
    else:
        print(f"{done} {len(acted)} of {len(wanted)} rows" if wanted else f"{done} {len(acted)} rows")
    if missing := sorted(set(wanted or ()) - set(acted)):
        raise NotFound(f"row {missing[0]}: expected a parked row, found none; `rota outbox status` shows them")


def _number(count: int) -> str:
    return f"{count}" if count < COUNTED_MOST else f"{count} or more"


def _row(row: "Parked") -> tuple[str, ...]:
    return (
        str(row.seq),
        row.type,
        row.queue,
        row.ordering_key or "",
        instant(row.enqueued_at, timespec="seconds"),
        row.reason,
        one_line(row.error),
    )


def _parked_json(row: "Parked") -> dict[str, Any]:
    return {
        "row": row.seq,
        "id": row.id,
        "type": row.type,
        "queue": row.queue,
        "ordering_key": row.ordering_key,
        "enqueue_time": instant(row.enqueued_at),
        "first_send_time": instant(row.sent_at) or None,
        "park_time": instant(row.parked_at),
        "reason": row.reason,
        "error": row.error,
    }
