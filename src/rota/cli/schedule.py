"""`rota schedule`: creates, reads and changes schedules; what steers them is registered here, too."""

import difflib
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rota.cli import schedulebackfill, schedulesteer, values
from rota.cli.context import JsonFlag, output
from rota.cli.flaggroup import grouped
from rota.cli.http import HttpFlags
from rota.cli.output import Output, instant
from rota.cli.remote import PageFlags, Remote, at, document, remote, show_pages
from rota.cli.scheduleflags import (
    AboutFlags,
    BoundFlags,
    Etag,
    JobFlags,
    PayloadFlags,
    PolicyFlags,
    RequestId,
    RuleFlags,
    ScheduleId,
)
from rota.cli.scheduleform import (
    OPTIONS,
    UNSET,
    Form,
    fill_about,
    fill_bounds,
    fill_job,
    fill_policies,
    fill_rule,
    require_one_rule,
    rrule_text,
    zone_of,
)
from rota.cli.schedulepreview import preview
from rota.cli.schedulesteer import read_schedule, show_schedule
from rota.clock import SystemClock
from rota.domain.errors import InvalidArgument

if TYPE_CHECKING:
    from rota_sdk.gen.rota.v1.schedules_pb2 import Schedule

    from rota.domain.zones import Zone

NEXT_SHOWN: Final = 3

app = typer.Typer(
    name="schedule", help="Create, read and steer schedules, and say when they fire.", no_args_is_help=True
)


class State(StrEnum):
    """The states of a schedule, as a filter."""

    ACTIVE = "active"
    PAUSED = "paused"
    EXHAUSTED = "exhausted"
    ERROR = "error"


@app.command()
@grouped
def create(
    context: typer.Context,
    id: Annotated[
        str, typer.Argument(metavar="ID", help="Its id: letters, digits and ._-, at most 128.", show_default=False)
    ],
    rule: RuleFlags,
    bounds: BoundFlags,
    policies: PolicyFlags,
    job: JobFlags,
    call: HttpFlags,
    payload: PayloadFlags,
    about: AboutFlags,
    paused: Annotated[bool, typer.Option("--paused", help="It does not fire before `rota schedule resume`.")] = False,
    request_id: RequestId = None,
    json: JsonFlag = False,
) -> None:
    """Create a schedule of a rule and a job, and print it with its next three times."""
    out = output(context, json)
    name = values.schedule_id(id, "ID", "; the id comes first: rota schedule create ID CRON")
    require_one_rule(rule)
    if job.type is None and job.command is None and call.http is None:
        raise InvalidArgument.field("--type", "expected --type, --command or --http, found none; give one of them")

    from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

    form = Form(pb.Schedule(), [])
    zone = _zone(lambda: rule.tz if rule.tz is not None else zone_of(rrule_text(rule.rrule)) or "UTC")
    _fill(form, rule, bounds, policies, job, call, payload, about, zone)
    request = pb.CreateScheduleRequest(
        schedule=form.schedule,
        schedule_id=name,
        request_id=values.request_id(request_id),
        paused=paused,
    )
    with remote(context, _options(job, call)) as api:
        made = api.call(api.schedules.CreateSchedule, request).schedule
        _show_with_next(api, out, made)


@app.command()
def get(context: typer.Context, schedule: ScheduleId, json: JsonFlag = False) -> None:
    """Show a schedule in full: its rule, state, next and last times, policies, job and fates."""
    out, name = output(context, json), values.schedule_name(schedule)
    with remote(context, OPTIONS) as api:
        show_schedule(out, read_schedule(api, name))


@app.command("list")
@grouped
def list_(
    context: typer.Context,
    paging: PageFlags,
    state: Annotated[State | None, typer.Option(help="Only schedules in this state.", case_sensitive=False)] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Only schedules with this label; repeatable.")
    ] = None,
    type: Annotated[str, typer.Option(help="Only schedules whose jobs have this type.")] = "",
    queue: Annotated[str, typer.Option(help="Only schedules whose jobs go to this queue.")] = "",
    prefix: Annotated[str, typer.Option(help="Only schedules whose id starts so.")] = "",
    set: Annotated[str, typer.Option(help="Only schedules of this set of `rota apply`.")] = "",
    json: JsonFlag = False,
) -> None:
    """List schedules by id, without payloads and fates."""
    out, labels = output(context, json), values.pairs("--label", label)
    texts = {"--type": type, "--queue": queue, "--prefix": prefix, "--set": set, "--page-token": paging.page_token}
    for option, text in texts.items():
        values.utf8(option, text)

    from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

    from rota.cli.scheduleview import SCHEDULE_COLUMNS, schedule_row

    request = pb.ListSchedulesRequest(
        state=f"SCHEDULE_STATE_{state.name if state else 'UNSPECIFIED'}",
        labels=labels,
        type=type,
        queue=queue,
        id_prefix=prefix.removeprefix("schedules/"),
        apply_set=set,
    )
    options = {"id_prefix": "--prefix", "apply_set": "--set", "page_token": "--page-token", "labels": "--label"}
    with remote(context, {"type": "--type", "queue": "--queue", **options}) as api:

        def fetch(size: int, token: str) -> Any:
            request.page_size, request.page_token = size, token
            page = api.call(api.schedules.ListSchedules, request)
            return page.schedules, page.next_page_token

        def table(found: "list[Schedule]") -> None:
            now = SystemClock().utc()
            rows = [schedule_row(schedule, now) for schedule in found]
            out.table(SCHEDULE_COLUMNS, rows, fold="RULE", optional=("LAST JOB", "NEXT", "ZONE"))

        show_pages(out, paging, fetch, table)


@app.command()
@grouped
def edit(
    context: typer.Context,
    schedule: ScheduleId,
    rule: RuleFlags,
    bounds: BoundFlags,
    policies: PolicyFlags,
    job: JobFlags,
    call: HttpFlags,
    payload: PayloadFlags,
    about: AboutFlags,
    unset: Annotated[
        list[str] | None,
        typer.Option(metavar="OPTION", help="Back to the default, such as --unset end; repeatable."),
    ] = None,
    etag: Etag = "",
    request_id: RequestId = None,
    json: JsonFlag = False,
) -> None:
    """Change what is given and leave the rest. Labels, headers, dates and calendars given replace those it had."""
    out, name = output(context, json), values.schedule_name(schedule)
    require_one_rule(rule, given=False)
    values.utf8("--etag", etag)

    from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

    form = Form(pb.Schedule(name=name, etag=etag), [])
    with remote(context, _options(job, call)) as api:

        @cache
        def stored() -> "Schedule":
            return read_schedule(api, name)

        # A time without an offset is one of the zone that the schedule has, or gets.
        zone = _zone(lambda: rule.tz or zone_of(rrule_text(rule.rrule)) or stored().time_zone or "UTC")
        _fill(form, rule, bounds, policies, job, call, payload, about, zone, stored)
        form.paths += _unset(unset or [], form.paths)
        if not form.paths:
            raise InvalidArgument.field("SCHEDULE", "expected an option that changes it, found none; give one")
        request = pb.UpdateScheduleRequest(schedule=form.schedule, request_id=values.request_id(request_id))
        request.update_mask.paths.extend(form.paths)
        _show_with_next(api, out, api.call(api.schedules.UpdateSchedule, request).schedule)


app.command()(schedulesteer.pause)
app.command()(schedulesteer.resume)
app.command()(schedulesteer.trigger)
app.command()(schedulebackfill.backfill)
app.command()(schedulebackfill.backfills)
app.command("cancel-backfill")(schedulebackfill.cancel_backfill)
app.command()(schedulebackfill.history)
app.command()(schedulesteer.delete)
app.command()(preview)


def _fill(
    form: Form,
    rule: RuleFlags,
    bounds: BoundFlags,
    policies: PolicyFlags,
    job: JobFlags,
    call: HttpFlags,
    payload: PayloadFlags,
    about: AboutFlags,
    zone: "Callable[[], Zone]",
    stored: "Callable[[], Schedule] | None" = None,
) -> None:
    fill_rule(form, rule, zone)
    fill_bounds(form, bounds)
    fill_policies(form, policies)
    fill_job(form, job, payload, call, stored)
    fill_about(form, about)


def _zone(name: Callable[[], str]) -> "Callable[[], Zone]":
    """The zone of that name, found when a time needs it."""

    def find() -> "Zone":
        from rota.domain import zones

        return zones.find(name(), "--tz")

    return find


def _options(job: JobFlags, call: HttpFlags) -> Mapping[str, str]:
    """Which option a refused field comes from; a command or a call is both payload and type."""
    option = "--command" if job.command is not None else "--http" if call.http is not None else ""
    return {**OPTIONS, "job.payload": option, "job.type": option} if option else OPTIONS


def _unset(names: list[str], given: list[str]) -> list[str]:
    """The paths of --unset."""
    found = []
    for name in names:
        path = UNSET.get(name.removeprefix("--"))
        if path is None:
            near = difflib.get_close_matches(name, UNSET, n=1)
            hint = f"did you mean {near[0]}?" if near else "`rota schedule edit --help` lists the options"
            expected = "expected an option that has a default, such as end or exclude"
            raise InvalidArgument.field("--unset", f"{expected}, found {name[:40]!r}; {hint}")
        clash = [other for other in given if other == path or other.startswith(f"{path}.")]
        if clash and clash != ["overlap_policy.limit"]:
            option = f"--{name.removeprefix('--')}"
            raise InvalidArgument.field("--unset", f"expected {option} set or unset, found both; give one")
        if not clash:
            found.append(path)
    return found


def _show_with_next(api: Remote, out: Output, schedule: "Schedule") -> None:
    """The schedule as it stands, and its next times as the server has them."""
    following = _following(api, schedule) if schedule.state else []
    if out.json:
        out.document(document(schedule) | {"next_times": [instant(time) for time in following]})
    else:
        show_schedule(out, schedule, following)


def _following(api: Remote, schedule: "Schedule") -> list[datetime]:
    """Its next times. Empty when the server does not say: what was asked for is done already."""
    from rota_sdk.errors import RotaError
    from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

    request = pb.PreviewScheduleRequest(name=schedule.name, count=NEXT_SHOWN)
    try:
        previewed = api.call(api.schedules.PreviewSchedule, request)
    except RotaError:
        return []
    times = [at(found, "nominal_time") for found in previewed.occurrences if not found.removed]
    return [time for time in times if time is not None]
