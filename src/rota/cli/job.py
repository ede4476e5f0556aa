"""`rota job`: creates, reads, steers and watches jobs through the coordinator."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from threading import Event, Timer
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rota.cli import values
from rota.cli.context import JsonFlag, client, output
from rota.cli.errors import Exit, Problem
from rota.cli.flaggroup import grouped
from rota.cli.http import JOB_TYPE, QUEUE_DEFAULT, HttpFlags
from rota.cli.output import Output
from rota.domain.errors import InvalidArgument
from rota.domain.limits import PAGE_SIZE_MAX

if TYPE_CHECKING:
    from rota_sdk import Client, Job

# The pause between two looks at a watched job: short after a change, growing while nothing happens.
WATCH_FIRST_S: Final = 0.1
WATCH_MOST_S: Final = 1.0
LIST_DEFAULT: Final = 50

app = typer.Typer(name="job", help="Create, read, steer and watch jobs.", no_args_is_help=True)


class State(StrEnum):
    """The states of a job, as a filter."""

    SCHEDULED = "scheduled"
    READY = "ready"
    LEASED = "leased"
    RETRY_WAIT = "retry_wait"
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    DEAD = "dead"


class Mode(StrEnum):
    """What a cancellation does to a job that runs."""

    IF_NOT_STARTED = "if_not_started"
    COOPERATIVE = "cooperative"
    FENCE_OUT = "fence_out"


JobName = Annotated[str, typer.Argument(metavar="JOB", help="jobs/<uuid>, or the uuid alone.", show_default=False)]
Timeout = Annotated[str | None, typer.Option(metavar="DURATION", help="Wait at most this long, such as 30s.")]


@app.command()
@grouped
def create(
    context: typer.Context,
    call: HttpFlags,
    type: Annotated[
        str | None, typer.Argument(metavar="TYPE", help="The handler's name; none with --http.", show_default=False)
    ] = None,
    data: Annotated[
        str | None, typer.Option(metavar="JSON|@FILE|-", help="The payload: JSON, a file, or - for standard input.")
    ] = None,
    text: Annotated[bool, typer.Option("--text", help="The payload is text, not JSON.")] = False,
    content_type: Annotated[
        str | None, typer.Option(metavar="TYPE", help="The payload's media type; it is sent as it is.")
    ] = None,
    queue: Annotated[
        str | None, typer.Option(help="Where workers find it. [default: default; with --http: http]")
    ] = None,
    priority: Annotated[int | None, typer.Option(min=0, max=9, help="9 is first; 4 when not given.")] = None,
    delay: Annotated[str | None, typer.Option(metavar="DURATION", help="Due so long from now, such as 5m.")] = None,
    at: Annotated[
        str | None, typer.Option(metavar="INSTANT", help="Due at this instant, such as 2026-12-24T18:00:00Z.")
    ] = None,
    max_attempts: Annotated[int | None, typer.Option(min=1, max=1000, help="5 when not given.")] = None,
    run_timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="The most that one attempt may take; 1h when not given.")
    ] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="For filters; repeatable.")] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Beside the payload; with --http, of the call; repeatable."),
    ] = None,
    dedupe_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="At most one unfinished job of the type for this key.")
    ] = None,
    request_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Makes a repetition of this command create nothing twice.")
    ] = None,
    effect_key: Annotated[str, typer.Option(metavar="KEY", help="The idempotency key of the job's effect.")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end; exit 0 only when it succeeded.")] = False,
    timeout: Timeout = None,
    json: JsonFlag = False,
) -> None:
    """Create a job of TYPE, or one that makes an HTTP call, and print it."""
    out = output(context, json)
    call.refuse_strays()
    if (type is None) == (call.http is None):
        found = "neither" if type is None else "both"
        raise InvalidArgument.field("TYPE", f"expected TYPE or --http, found {found}; give one of them")
    run_time, delay_s = values.instant("--at", at), values.duration("--delay", delay)
    if run_time is not None and delay_s is not None:
        raise InvalidArgument.field("--delay", "expected --delay or --at, found both; give one")
    if timeout is not None and not wait:
        raise InvalidArgument.field("--timeout", "expected together with --wait, found alone")
    timeout_s = values.duration("--timeout", timeout)
    run_timeout_s = values.duration("--run-timeout", run_timeout)
    labels, headers = values.pairs("--label", label), values.pairs("--header", header)
    body, media_type = values.payload(data, as_text=text, content_type=content_type)
    if call.http is not None:
        if media_type:
            raise InvalidArgument.field("--http", "expected --http or --data, found both; use --body for what is sent")
        type, queue = JOB_TYPE, queue or QUEUE_DEFAULT
        body, media_type, headers = call.payload(headers, of_schedule=False), values.JSON_TYPE, {}
    assert type is not None

    from rota_sdk import Dedupe, Payload, RetryPolicy, Timeouts

    with client(context) as rota:
        try:
            job = rota.create_job(
                values.utf8("TYPE", type),
                Payload(body, media_type),
                queue=queue or "default",
                priority=priority,
                delay=delay_s,
                run_time=run_time,
                retry=RetryPolicy(max_attempts=max_attempts) if max_attempts is not None else None,
                timeouts=Timeouts(run=run_timeout_s) if run_timeout_s is not None else None,
                headers=headers,
                labels=labels,
                effect_key=effect_key,
                dedupe=Dedupe(dedupe_key) if dedupe_key is not None else None,
                request_id=request_id,
            )
        except ValueError as error:
            # Bytes that are no UTF-8, numbers that no field holds: what protobuf itself refuses.
            raise InvalidArgument(f"the job cannot be sent: {error}") from None
        if not wait:
            _show(out, job)
            return
        with within(job.name, timeout_s, out):
            job = rota.wait_job(job.name, timeout_s)
        _show(out, job)
        exit_by(job)


@app.command()
def get(context: typer.Context, job: JobName, json: JsonFlag = False) -> None:
    """Show a job in full."""
    out, name = output(context, json), values.job_id(job)
    with client(context) as rota:
        _show(out, rota.get_job(name))


@app.command("list")
def list_(
    context: typer.Context,
    queue: Annotated[str, typer.Option(help="Only jobs of this queue.")] = "",
    type: Annotated[str, typer.Option(help="Only jobs of this type.")] = "",
    state: Annotated[State | None, typer.Option(help="Only jobs in this state.")] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Only jobs with this label; repeatable.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = LIST_DEFAULT,
    all: Annotated[bool, typer.Option("--all", help="Without a limit.")] = False,
    page_token: Annotated[
        str, typer.Option(metavar="TOKEN", help="Go on where an earlier list, with the same filters, ended.")
    ] = "",
    json: JsonFlag = False,
) -> None:
    """List jobs, newest first, without payloads and results."""
    from rota.cli.jobview import JOB_COLUMNS, job_json, job_row

    out, labels = output(context, json), values.pairs("--label", label)
    for name, text in (("--queue", queue), ("--type", type), ("--page-token", page_token)):
        values.utf8(name, text)

    from rota_sdk import JobState

    with client(context) as rota:
        left, token = limit, page_token
        shown: list[Job] = []
        while True:
            page = rota.list_jobs(
                queue=queue,
                type=type,
                state=JobState[state.name] if state else JobState.UNSPECIFIED,
                labels=labels,
                page_size=PAGE_SIZE_MAX if all else min(left, PAGE_SIZE_MAX),
                page_token=token,
            )
            if out.json:
                for job in page.jobs:
                    out.document(job_json(job))
            else:
                shown += page.jobs
            left, token = left - len(page.jobs), page.next_page_token
            if not token or (left <= 0 and not all):
                break
    if not out.json:
        out.table(JOB_COLUMNS, map(job_row, shown), fold="TYPE", optional=("CREATED", "QUEUE"))
    if token:
        typer.echo(f"more: --page-token {token}", err=True)


@app.command()
def cancel(
    context: typer.Context,
    job: JobName,
    mode: Annotated[Mode, typer.Option(help="For a job that runs: refuse, ask its worker, or cut it off.")] = (
        Mode.COOPERATIVE
    ),
    reason: Annotated[str, typer.Option(help="Shown with the job.")] = "",
    json: JsonFlag = False,
) -> None:
    """Cancel a job. A finished one stays as it is."""
    out, name = output(context, json), values.job_id(job)
    values.utf8("--reason", reason)

    from rota_sdk import CancelMode

    with client(context) as rota:
        _show(out, rota.cancel_job(name, CancelMode[mode.name], reason))


@app.command()
def retry(
    context: typer.Context,
    job: JobName,
    new_generation: Annotated[
        bool, typer.Option("--new-generation", help="For a dead job: with a new effect key.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Make a job ready now that waits for its retry, or is dead."""
    out, name = output(context, json), values.job_id(job)
    with client(context) as rota:
        _show(out, rota.retry_job(name, new_generation=new_generation))


@app.command()
def reschedule(
    context: typer.Context,
    job: JobName,
    at: Annotated[
        str | None, typer.Option(metavar="INSTANT", help="Due at this instant, such as 2026-12-24T18:00:00Z.")
    ] = None,
    delay: Annotated[str | None, typer.Option(metavar="DURATION", help="Due so long from now; 0s is now.")] = None,
    json: JsonFlag = False,
) -> None:
    """Move the due time of a job that has not started."""
    out, name = output(context, json), values.job_id(job)
    due, delay_s = values.instant("--at", at), values.duration("--delay", delay)
    if (due is None) is (delay_s is None):
        found = "neither" if due is None else "both"
        raise InvalidArgument.field("--at", f"expected --at or --delay, found {found}; give one")
    if delay_s is not None:
        from rota.clock import SystemClock

        due = values.after("--delay", SystemClock().utc(), delay_s)
    assert due is not None
    with client(context) as rota:
        _show(out, rota.reschedule_job(name, due))


@app.command()
def attempts(context: typer.Context, job: JobName, json: JsonFlag = False) -> None:
    """List the attempts of a job, oldest first."""
    from rota.cli.jobview import attempt_json, attempt_table

    out, name = output(context, json), values.job_id(job)
    with client(context) as rota:
        found = rota.list_attempts(name)
    if out.json:
        for attempt in found:
            out.document(attempt_json(attempt))
    else:
        out.table(*attempt_table(found), fold="FAILURE", optional=("FENCE", "WORKER", "LEASED"))


@app.command()
def watch(
    context: typer.Context,
    job: Annotated[
        str | None,
        typer.Argument(metavar="[JOB]", help="jobs/<uuid>, or the uuid alone; all jobs if none.", show_default=False),
    ] = None,
    queue: Annotated[str, typer.Option(help="Of all jobs, only those of this queue.")] = "",
    type: Annotated[str, typer.Option(help="Of all jobs, only those of this type.")] = "",
    resume_token: Annotated[
        str, typer.Option(metavar="TOKEN", help="Go on where an earlier watch, with the same filters, ended.")
    ] = "",
    timeout: Timeout = None,
    json: JsonFlag = False,
) -> None:
    """Show each change of a job until it ends, with exit 0 only when it succeeded; or of all jobs, until stopped."""
    out, timeout_s = output(context, json), values.duration("--timeout", timeout)
    for option, text in (("--queue", queue), ("--type", type), ("--resume-token", resume_token)):
        values.utf8(option, text)
        if text and job is not None:
            raise InvalidArgument.field(option, "expected without JOB, found with one; give one of both")
    if job is None:
        _watch_all(context, out, queue, type, resume_token, timeout_s)
    else:
        _watch_one(context, out, values.job_id(job), timeout_s)


def _watch_all(
    context: typer.Context, out: Output, queue: str, type: str, resume_token: str, timeout_s: float | None
) -> None:
    from rota.cli.jobview import change_line, job_json
    from rota.cli.output import printable

    with client(context) as rota, rota.watch_jobs(queue=queue, type=type, resume_token=resume_token) as changes:
        timer = Timer(timeout_s or 0.0, changes.close)
        timer.daemon = True
        if timeout_s is not None:
            timer.start()
        try:
            for change in changes:
                if out.json:
                    out.document(job_json(change.job) | {"resume_token": change.resume_token})
                else:
                    print(printable(f"{change.job.name}  {change_line(change.job)}"), flush=True)
        finally:
            timer.cancel()
            if changes.resume_token:
                typer.echo(f"more: --resume-token {changes.resume_token}", err=True)


def _watch_one(context: typer.Context, out: Output, name: str, timeout_s: float | None) -> None:
    from rota.cli.jobview import change_line, job_json
    from rota.cli.output import printable

    with client(context) as rota:
        last: Job | None = None
        with within(name, timeout_s, out):
            # Looked at, not streamed: a stream brings all jobs of its queue and type, however many.
            for last in _changes(rota, name, timeout_s):
                if out.json:
                    out.document(job_json(last))
                else:
                    print(printable(change_line(last)), flush=True)
    assert last is not None
    exit_by(last)


def _changes(rota: "Client", name: str, timeout_s: float | None) -> "Iterator[Job]":
    """The job now and at each change seen, to its end. Raises TimeoutError."""
    from rota.clock import SystemClock

    clock, never = SystemClock(), Event()
    until = clock.monotonic() + timeout_s if timeout_s is not None else float("inf")
    seen, pause = None, WATCH_FIRST_S
    while True:
        job = rota.get_job(name)
        now = (job.state, job.attempt)
        if now != seen:
            yield job
            seen, pause = now, WATCH_FIRST_S
        if job.state.terminal:
            return
        left = until - clock.monotonic()
        if left <= 0:
            raise TimeoutError
        never.wait(min(pause, left))
        pause = min(pause * 1.5, WATCH_MOST_S)


@contextmanager
def within(name: str, timeout_s: float | None, out: Output) -> Iterator[None]:
    """Turns the end of the user's patience into exit 1; a call without an answer stays an error of its own."""
    try:
        yield
    except TimeoutError as error:
        if timeout_s is None or hasattr(error, "code"):
            raise
        message = f"{name} did not end within {timeout_s:g} s"
        hint = f"`rota job watch {name}` goes on; `rota worker list` shows whether a worker takes its queue"
        Problem(Exit.REFUSED, "NOT_FINISHED", message, hint).show(as_json=out.json)
        raise typer.Exit(Exit.REFUSED) from None


def _show(out: Output, job: "Job") -> None:
    from rota.cli.jobview import job_fields, job_json

    if out.json:
        out.document(job_json(job))
        return
    out.fields(job_fields(job))
    if job.existing:
        print("This job existed already: the request id or the dedupe key led to it.", file=sys.stderr)


def exit_by(job: "Job") -> None:
    if job.state.name != "SUCCEEDED":
        raise typer.Exit(Exit.REFUSED)
