"""`rota queue`: what waits in the queues, and how much of it may run."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rota.cli import values
from rota.cli.context import JsonFlag, output
from rota.cli.flaggroup import grouped
from rota.cli.output import Output, instant, span
from rota.cli.remote import PageFlags, at, document, remote, show_pages
from rota.cli.scheduleflags import Etag, Reason
from rota.cli.schedulesteer import confirm
from rota.cli.unset import Unset, changed_options
from rota.domain.limits import PURGE_MAX

if TYPE_CHECKING:
    from rota_sdk.gen.rota.admin.v1.admin_pb2 import Queue

app = typer.Typer(name="queue", help="See the queues, limit, pause and empty them.", no_args_is_help=True)

COLUMNS: Final = ("QUEUE", "STATE", "READY", "LEASED", "SCHEDULED", "RETRY", "DEAD", "WORKERS", "OLDEST", "LIMITS")
_OPTIONS: Final = {
    "name": "QUEUE",
    "weight": "--weight",
    "rate": "--rate",
    "rate_burst": "--burst",
    "max_in_flight": "--max-in-flight",
    "max_in_flight_per_key": "--max-in-flight-per-key",
    "etag": "--etag",
    "reason": "--reason",
    "type": "--type",
    "states": "--state",
    "page_token": "--page-token",
}
_FIELDS: Final = {option: field for field, option in _OPTIONS.items()}

QueueId = Annotated[str, typer.Argument(metavar="QUEUE", help="queues/<id>, or the id alone.", show_default=False)]


class Waiting(StrEnum):
    """Where a job is that can be purged."""

    READY = "ready"
    RETRY_WAIT = "retry-wait"
    SCHEDULED = "scheduled"


@app.command("list")
@grouped
def list_(context: typer.Context, paging: PageFlags, json: JsonFlag = False) -> None:
    """List queues by id, those in use and those with settings. Needs a key with the role operator, as all of this."""
    out = output(context, json)
    values.utf8("--page-token", paging.page_token)

    from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

    with remote(context, _OPTIONS) as api:

        def fetch(size: int, token: str) -> Any:
            page = api.call(api.admin.ListQueues, pb.ListQueuesRequest(page_size=size, page_token=token))
            return page.queues, page.next_page_token

        def table(found: "list[Queue]") -> None:
            out.table(COLUMNS, map(_row, found), fold="LIMITS", optional=("DEAD", "WORKERS", "RETRY"))

        show_pages(out, paging, fetch, table)


@app.command()
def get(context: typer.Context, queue: QueueId, json: JsonFlag = False) -> None:
    """Show a queue: its settings and what is in it."""
    out, name = output(context, json), values.queue_name(queue)

    from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

    with remote(context, _OPTIONS) as api:
        _show(out, api.call(api.admin.GetQueue, pb.GetQueueRequest(name=name)).queue)


@app.command()
def update(
    context: typer.Context,
    queue: QueueId,
    weight: Annotated[
        int | None, typer.Option(help="Its share where workers take from several queues, 1 to 1000; 100 by default.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Leases a second, at most.")] = None,
    burst: Annotated[
        int | None, typer.Option(help="Leases that may come at once within the rate; by default the rate.")
    ] = None,
    max_in_flight: Annotated[int | None, typer.Option(help="Jobs that run at a time, at most.")] = None,
    max_in_flight_per_key: Annotated[
        int | None, typer.Option(help="Jobs of one concurrency key that run at a time, at most.")
    ] = None,
    unset: Unset = None,
    etag: Etag = "",
    json: JsonFlag = False,
) -> None:
    """Change what is given and leave the rest, at once for what waits already. Creates a queue that is not used yet."""
    out, name = output(context, json), values.queue_name(queue)
    given = {
        "--weight": weight,
        "--rate": rate,
        "--burst": burst,
        "--max-in-flight": max_in_flight,
        "--max-in-flight-per-key": max_in_flight_per_key,
    }
    changed = changed_options(given, unset, "QUEUE")

    from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

    settings: dict[str, Any] = {_FIELDS[option]: value for option, value in given.items()}
    request = pb.UpdateQueueRequest(queue=pb.Queue(name=name, etag=values.utf8("--etag", etag), **settings))
    request.update_mask.paths.extend(_FIELDS[option] for option in changed)
    with remote(context, _OPTIONS) as api:
        _show(out, api.call(api.admin.UpdateQueue, request).queue)


@app.command()
def pause(context: typer.Context, queue: QueueId, reason: Reason = "", json: JsonFlag = False) -> None:
    """Stop leasing from a queue. Jobs that run go on, and new ones are taken."""
    out, name = output(context, json), values.queue_name(queue)

    from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

    request = pb.PauseQueueRequest(name=name, reason=values.utf8("--reason", reason))
    with remote(context, _OPTIONS) as api:
        _show(out, api.call(api.admin.PauseQueue, request).queue)


@app.command()
def resume(context: typer.Context, queue: QueueId, json: JsonFlag = False) -> None:
    """Lease from a queue again."""
    out, name = output(context, json), values.queue_name(queue)

    from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

    with remote(context, _OPTIONS) as api:
        _show(out, api.call(api.admin.ResumeQueue, pb.ResumeQueueRequest(name=name)).queue)


@app.command()
def purge(
    context: typer.Context,
    queue: QueueId,
    state: Annotated[
        list[Waiting] | None,
        typer.Option(help="Only jobs in this state; repeatable. [default: ready, retry-wait]", show_default=False),
    ] = None,
    type: Annotated[str, typer.Option(metavar="TYPE", help="Only jobs of this type.")] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many.")] = None,
    reason: Reason = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, and cancel none.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; without a terminal nobody is asked.")] = False,
    json: JsonFlag = False,
) -> None:
    """Cancel the jobs of a queue that wait. Those that run go on; so does the queue."""
    out, name = output(context, json), values.queue_name(queue)
    values.utf8("--type", type)
    values.utf8("--reason", reason)

    from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

    states: Any = [f"JOB_STATE_{each.name}" for each in state or ()]
    request = pb.PurgeQueueRequest(name=name, states=states, type=type, reason=reason, validate_only=dry_run)
    if not dry_run:
        confirm(out, f"Cancel what waits in {name}?", yes, "Nothing was cancelled.")
    purged, more = 0, True
    with remote(context, _OPTIONS) as api:
        while more and (limit is None or purged < limit):
            request.max_count = PURGE_MAX if limit is None else min(limit - purged, PURGE_MAX)
            answer = api.call(api.admin.PurgeQueue, request)
            purged, more = purged + answer.purged_count, answer.more
            if dry_run:
                # What is not cancelled would be counted again.
                break
    if out.json:
        out.document({"name": name, "purged_count": purged, "more": more, "dry_run": dry_run})
    else:
        verb = "would be cancelled" if dry_run else "cancelled"
        print(f"{purged}{' or more' if dry_run and more else ''} {verb} in {name}")
    if more and not dry_run:
        typer.echo("more are left", err=True)


def _row(queue: "Queue") -> tuple[str, ...]:
    return (
        queue.name.removeprefix("queues/"),
        _state(queue),
        str(queue.ready_count),
        str(queue.leased_count),
        str(queue.scheduled_count),
        str(queue.retry_wait_count),
        str(queue.dead_count),
        str(queue.session_count),
        _oldest(queue),
        limits_text(queue),
    )


def _show(out: Output, queue: "Queue") -> None:
    if out.json:
        out.document(document(queue))
        return
    paused = at(queue, "pause_time")
    out.fields(
        [
            ("queue", queue.name),
            ("state", _state(queue)),
            ("paused", instant(paused)),
            ("paused by", queue.pause_author),
            ("reason", queue.pause_reason),
            ("weight", str(queue.weight)),
            ("limits", limits_text(queue)),
            ("ready", f"{queue.ready_count}" + (f", the oldest for {oldest}" if (oldest := _oldest(queue)) else "")),
            ("leased", str(queue.leased_count)),
            ("scheduled", str(queue.scheduled_count)),
            ("waiting to retry", str(queue.retry_wait_count)),
            ("dead", str(queue.dead_count)),
            ("workers", str(queue.session_count)),
            ("etag", queue.etag),
        ]
    )


def limits_text(queue: "Queue") -> str:
    """Its limits for people; empty where it has none."""
    found = []
    if queue.HasField("rate"):
        burst = f", {queue.rate_burst} at once" if queue.HasField("rate_burst") else ""
        found.append(f"{queue.rate:g}/s{burst}")
    if queue.HasField("max_in_flight"):
        found.append(f"{queue.max_in_flight} in flight")
    if queue.HasField("max_in_flight_per_key"):
        found.append(f"{queue.max_in_flight_per_key} per key")
    return "; ".join(found)


def _state(queue: "Queue") -> str:
    return "PAUSED" if queue.paused else "ACTIVE"


def _oldest(queue: "Queue") -> str:
    if not queue.HasField("oldest_ready_age"):
        return ""
    return span(queue.oldest_ready_age.ToTimedelta().total_seconds())
