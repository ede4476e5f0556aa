"""The options that `rota schedule preview`, `create`, `edit` and others share."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

import typer

TIME: Final = "TIME"


class Gap(StrEnum):
    """What happens to a wall time that a change of the clocks leaves out."""

    RUN_AFTER = "run-after"
    SHIFT = "shift"
    SKIP = "skip"


class Twice(StrEnum):
    """What happens at a wall time that a change of the clocks brings twice."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


class Draw(StrEnum):
    """How jitter is drawn."""

    HASH = "hash"
    RANDOM = "random"


class Missed(StrEnum):
    """What becomes of missed occurrences."""

    SKIP = "skip"
    COALESCE = "coalesce"
    CATCH_UP = "catch-up"


class Overlap(StrEnum):
    """What happens while an earlier job of the schedule is not finished."""

    ALLOW = "allow"
    SKIP = "skip"
    BUFFER_ONE = "buffer-one"
    BUFFER_ALL = "buffer-all"
    CANCEL_OTHER = "cancel-other"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class RuleFlags:
    """When a schedule fires: exactly one of expression, every, rrule and at, and what goes with it."""

    expression: Annotated[
        str | None,
        typer.Argument(
            metavar="CRON",
            help="Five fields, six with seconds first, or a nickname such as @daily. In quotes.",
            show_default=False,
        ),
    ] = None
    every: Annotated[
        str | None, typer.Option(metavar="DURATION", help="By an interval such as 90s or PT4H, instead of CRON.")
    ] = None
    anchor: Annotated[
        str | None,
        typer.Option(metavar=TIME, help="Where the interval counts from; the creation, or --from of a preview."),
    ] = None
    rrule: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help=r"By a rule of RFC 5545, instead of CRON; \n stands between lines."),
    ] = None
    at: Annotated[
        str | None,
        typer.Option(
            metavar="LOCAL",
            help="Once, at 2026-03-08T02:30:00 on the zone's clock or at an instant, instead of CRON.",
        ),
    ] = None
    tz: Annotated[
        str | None, typer.Option("--tz", metavar="ZONE", help="An IANA name such as Europe/Berlin; UTC when not given.")
    ] = None
    start: Annotated[str | None, typer.Option(metavar=TIME, help="Nothing fires before it.")] = None
    end: Annotated[str | None, typer.Option(metavar=TIME, help="Nothing fires at or after it.")] = None
    dst_gap: Annotated[
        Gap | None, typer.Option(help="At a wall time that does not exist; by the rule's kind when not given.")
    ] = None
    dst_overlap: Annotated[
        Twice | None, typer.Option(help="At a wall time that comes twice; by the rule's kind when not given.")
    ] = None
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="DATE", help="Nothing fires on 2026-12-25, or --12-25 of every year; repeatable."),
    ] = None
    jitter: Annotated[str | None, typer.Option(metavar="DURATION", help="A delay below this span.")] = None
    jitter_mode: Annotated[
        Draw | None, typer.Option(help="One delay for the schedule, which is the default, or one for each run.")
    ] = None

    @property
    def kinds(self) -> list[str]:
        """The options given that say a rule."""
        texts = {"CRON": self.expression, "--every": self.every, "--rrule": self.rrule, "--at": self.at}
        return [name for name, text in texts.items() if text is not None]


@dataclass(frozen=True, slots=True)
class BoundFlags:
    """What bounds a stored schedule besides its rule."""

    calendar: Annotated[
        list[str] | None,
        typer.Option(metavar="CALENDAR", help="Nothing fires on the dates of this calendar; repeatable."),
    ] = None
    max_count: Annotated[int | None, typer.Option(min=1, help="The most that fire by the rule.")] = None


@dataclass(frozen=True, slots=True)
class PolicyFlags:
    """What happens when a schedule cannot simply fire."""

    missed: Annotated[
        Missed | None,
        typer.Option(help="After downtime: nothing, one job for all that was missed (the default), or each one."),
    ] = None
    late_tolerance: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Not missed until so long after the due time; 60s.")
    ] = None
    catch_up_window: Annotated[
        str | None, typer.Option(metavar="DURATION", help="With catch-up: only what came due within it; 24h.")
    ] = None
    catch_up_max: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="With catch-up: only the newest of those; 100.")
    ] = None
    overlap: Annotated[
        Overlap | None, typer.Option(help="While an earlier job is not finished; allow when not given.")
    ] = None
    overlap_limit: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, help="With allow: jobs at a time; with buffer-all: those that wait, 100."),
    ] = None
    pause_after_failures: Annotated[
        int | None, typer.Option(min=0, max=1_000, help="Pause after so many dead jobs in a row; 0: never.")
    ] = None


@dataclass(frozen=True, slots=True)
class PayloadFlags:
    """What a job's handler gets."""

    data: Annotated[
        str | None,
        typer.Option(
            "--data", "--payload", metavar="JSON|@FILE|-", help="The payload: JSON, a file, or - for standard input."
        ),
    ] = None
    text: Annotated[bool, typer.Option("--text", help="The payload is text, not JSON.")] = False
    content_type: Annotated[
        str | None, typer.Option(metavar="TYPE", help="The payload's media type; it is sent as it is.")
    ] = None


@dataclass(frozen=True, slots=True)
class JobFlags:
    """The job that each occurrence makes."""

    type: Annotated[str | None, typer.Option(metavar="TYPE", help="The job's handler.")] = None
    command: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="A command for the shell of `rota exec`, instead of --type and --data."),
    ] = None
    queue: Annotated[
        str | None,
        typer.Option(help="Where workers find the job; default, with --command: commands, with --http: http."),
    ] = None
    priority: Annotated[int | None, typer.Option(min=0, max=9, help="9 is first; 4 when not given.")] = None
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Beside the payload; with --http, of the call; repeatable."),
    ] = None
    job_label: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A label of the jobs; repeatable.")
    ] = None
    max_attempts: Annotated[int | None, typer.Option(min=1, max=1000, help="5 when not given.")] = None
    initial_backoff: Annotated[
        str | None, typer.Option(metavar="DURATION", help="The most before the first retry; 1s when not given.")
    ] = None
    max_backoff: Annotated[
        str | None, typer.Option(metavar="DURATION", help="The most before any retry; 1h when not given.")
    ] = None
    run_timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="The most that one attempt may take; 1h when not given.")
    ] = None
    start_by: Annotated[
        str | None, typer.Option(metavar="DURATION", help="A job not started so long after its due time expires.")
    ] = None
    total_timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="No retry is planned so long after the due time.")
    ] = None
    concurrency_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Jobs with one key share the limit of their queue.")
    ] = None


@dataclass(frozen=True, slots=True)
class AboutFlags:
    """What people say about a schedule or a calendar."""

    label: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="For filters; repeatable.")] = None
    notes: Annotated[str | None, typer.Option(metavar="TEXT", help="For people.")] = None


ScheduleId = Annotated[
    str, typer.Argument(metavar="SCHEDULE", help="schedules/<id>, or the id alone.", show_default=False)
]
RequestId = Annotated[
    str | None, typer.Option(metavar="ID", help="Makes a repetition of this command do nothing twice.")
]
Etag = Annotated[str, typer.Option(metavar="ETAG", help="Only this version, as `get` shows it.")]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why, shown with it.")]
