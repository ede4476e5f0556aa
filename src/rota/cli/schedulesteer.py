"""`rota schedule pause`, `resume`, `trigger` and `delete`: what is done to a schedule as a whole."""

import sys
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli import values
from rota.cli.context import JsonFlag, output
from rota.cli.errors import Exit, Problem
from rota.cli.flaggroup import grouped
from rota.cli.job import Timeout, exit_by, within
from rota.cli.output import Output
from rota.cli.remote import Remote, document, remote
from rota.cli.scheduleflags import Etag, Missed, PayloadFlags, Reason, RequestId, ScheduleId
from rota.cli.scheduleform import OPTIONS, read_payload
from rota.clock import SystemClock
from rota.domain.errors import InvalidArgument

if TYPE_CHECKING:
    from rota_sdk.gen.rota.v1.schedules_pb2 import MissedRunPolicy, Schedule, TriggerScheduleResponse


class CancelJobs(StrEnum):
    """What a deletion does to jobs that have started."""

    COOPERATIVE = "cooperative"
    FENCE_OUT = "fence_out"


def read_schedule(api: Remote, name: str) -> "Schedule":
    """The schedule as it stands."""
    from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

    return api.call(api.schedules.GetSchedule, pb.GetScheduleRequest(name=name)).schedule


def show_schedule(out: Output, schedule: "Schedule", following: Sequence[datetime] = ()) -> None:
    """A schedule in full."""
    from rota.cli.scheduleview import schedule_fields

    if out.json:
        out.document(document(schedule))
    else:
        out.fields(schedule_fields(schedule, SystemClock().utc(), following))


def pause(
    context: typer.Context, schedule: ScheduleId, reason: Reason = "", etag: Etag = "", json: JsonFlag = False
) -> None:
    """Stop a schedule from firing. Jobs that have started go on; those that have not are withdrawn."""
    out, name = output(context, json), values.schedule_name(schedule)
    for option, text in (("--reason", reason), ("--etag", etag)):
        values.utf8(option, text)

    from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

    request = pb.PauseScheduleRequest(name=name, reason=reason, etag=etag)
    with remote(context, OPTIONS) as api:
        show_schedule(out, api.call(api.schedules.PauseSchedule, request).schedule)


def resume(
    context: typer.Context,
    schedule: ScheduleId,
    catch_up: Annotated[
        Missed | None,
        typer.Option(help="Take what the pause suppressed as missed, this once; otherwise it stays suppressed."),
    ] = None,
    catch_up_window: Annotated[
        str | None, typer.Option(metavar="DURATION", help="With --catch-up catch-up: only what came due within it.")
    ] = None,
    catch_up_max: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="With --catch-up catch-up: only the newest of those.")
    ] = None,
    reason: Reason = "",
    etag: Etag = "",
    json: JsonFlag = False,
) -> None:
    """Let a schedule fire again, after a pause or an error."""
    out, name = output(context, json), values.schedule_name(schedule)
    for option, text in (("--reason", reason), ("--etag", etag)):
        values.utf8(option, text)
    policy = _catch_up(catch_up, catch_up_window, catch_up_max)

    from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

    request = pb.ResumeScheduleRequest(name=name, reason=reason, etag=etag, catch_up=policy)
    options = {
        "catch_up": "--catch-up",
        "catch_up.catch_up_window": "--catch-up-window",
        "catch_up.catch_up_max": "--catch-up-max",
    }
    with remote(context, {**OPTIONS, **options}) as api:
        show_schedule(out, api.call(api.schedules.ResumeSchedule, request).schedule)


@grouped
def trigger(
    context: typer.Context,
    schedule: ScheduleId,
    payload: PayloadFlags,
    force: Annotated[bool, typer.Option("--force", help="Even against the overlap policy.")] = False,
    reason: Reason = "",
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end; exit 0 only when it succeeded.")] = False,
    timeout: Timeout = None,
    request_id: RequestId = None,
    json: JsonFlag = False,
) -> None:
    """Fire a schedule now, in any state, and print the job. Its own times stay as they are."""
    out, name = output(context, json), values.schedule_name(schedule)
    if timeout is not None and not wait:
        raise InvalidArgument.field("--timeout", "expected together with --wait, found alone")
    timeout_s = values.duration("--timeout", timeout)
    body, media_type = read_payload(payload)

    from rota_sdk.gen.rota.v1 import common_pb2
    from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

    request = pb.TriggerScheduleRequest(
        name=name,
        request_id=values.request_id(request_id),
        force=force,
        reason=values.utf8("--reason", reason),
        payload=common_pb2.Payload(data=body, content_type=media_type) if payload != PayloadFlags() else None,
    )
    options = {**OPTIONS, "payload": "--data", "payload.content_type": "--content-type", "force": "--force"}
    with remote(context, options) as api:
        answer = api.call(api.schedules.TriggerSchedule, request)
        if not wait:
            _show_trigger(out, answer)
            return
        if not answer.HasField("job"):
            _show_trigger(out, answer)
            message = f"the occurrence waits for an earlier job of {name}, and has no job yet that could be waited for"
            hint = f"rota schedule history {name} shows what becomes of it"
            Problem(Exit.REFUSED, "NOT_FINISHED", message, hint).show(as_json=out.json)
            raise typer.Exit(Exit.REFUSED)
        with within(answer.job.name, timeout_s, out):
            api.rota.wait_job(answer.job.name, timeout_s)
        from rota_sdk.gen.rota.v1 import jobs_pb2

        ended = api.call(api.rota.stubs.jobs.GetJob, jobs_pb2.GetJobRequest(name=answer.job.name)).job
        answer.job.CopyFrom(ended)
        _show_trigger(out, answer)

        from rota_sdk import codec

        exit_by(codec.job(ended))


def delete(
    context: typer.Context,
    schedule: ScheduleId,
    cancel_jobs: Annotated[
        CancelJobs | None,
        typer.Option(help="Cancel its jobs that have started, too: ask their workers, or cut them off."),
    ] = None,
    allow_missing: Annotated[bool, typer.Option("--allow-missing", help="No error when there is none.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; without a terminal nobody is asked.")] = False,
    etag: Etag = "",
    json: JsonFlag = False,
) -> None:
    """Delete a schedule and its jobs that have not started. Its history stays readable for as long as it is kept."""
    out, name = output(context, json), values.schedule_name(schedule)
    values.utf8("--etag", etag)
    confirm(out, f"Delete {name}?", yes)

    from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

    request = pb.DeleteScheduleRequest(
        name=name,
        etag=etag,
        cancel_jobs=cancel_jobs is not None,
        cancel_mode=f"CANCEL_MODE_{cancel_jobs.name}" if cancel_jobs else None,
        allow_missing=allow_missing,
    )
    with remote(context, {**OPTIONS, "cancel_mode": "--cancel-jobs", "cancel_jobs": "--cancel-jobs"}) as api:
        gone = api.call(api.schedules.DeleteSchedule, request)
    if out.json:
        out.document({"name": name, "deleted": True, **document(gone)})
        return
    print(f"deleted {name}; {gone.withdrawn_jobs} jobs withdrawn, {gone.cancelled_jobs} cancelled or being cancelled")


def confirm(out: Output, question: str, yes: bool, otherwise: str = "Nothing was deleted.") -> None:
    """Asks on a terminal, unless scripts are to read the answer; exit 1 when it is no."""
    if yes or out.json or not sys.stdin.isatty():
        return
    if not typer.confirm(question, err=True):
        print(otherwise, file=sys.stderr)
        raise typer.Exit(Exit.REFUSED)


def _catch_up(mode: Missed | None, window: str | None, most: int | None) -> "MissedRunPolicy | None":
    """The policy of a resumption."""
    for option, given in (("--catch-up-window", window), ("--catch-up-max", most)):
        if given is not None and mode is not Missed.CATCH_UP:
            raise InvalidArgument.field(option, "expected together with --catch-up catch-up, found without")
    if mode is None:
        return None

    from rota_sdk import codec
    from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

    policy = pb.MissedRunPolicy(mode=f"MISSED_RUN_MODE_{mode.name}", catch_up_max=most)
    span_s = values.duration("--catch-up-window", window)
    if span_s is not None:
        policy.catch_up_window.CopyFrom(codec.duration(span_s))
    return policy


def _show_trigger(out: Output, answer: "TriggerScheduleResponse") -> None:
    from rota_sdk import codec

    from rota.cli.jobview import job_fields
    from rota.cli.scheduleview import occurrence_fields

    if out.json:
        out.document(document(answer))
        return
    if not answer.HasField("job"):
        out.fields(occurrence_fields(answer.occurrence))
        print("It waits for an earlier job of the schedule.", file=sys.stderr)
        return
    out.fields(job_fields(codec.job(answer.job)))
    if answer.occurrence.forced:
        print("It runs against the overlap policy, as was asked.", file=sys.stderr)
