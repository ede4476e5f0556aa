"""`rota schedule`: what schedules do, and when."""

import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rota.cli import values
from rota.cli.context import JsonFlag, output
from rota.cli.output import Output, printable
from rota.clock import SystemClock
from rota.domain.errors import InvalidArgument
from rota.domain.limits import PREVIEW_COUNT_DEFAULT, PREVIEW_COUNT_MAX
from rota.domain.text import refusal

if TYPE_CHECKING:
    from rota.domain.recurrence import PreviewLine, Rule, RuleSpec

app = typer.Typer(name="schedule", help="Say when schedules fire.", no_args_is_help=True)


class Gap(StrEnum):
    """What happens to a wall time that a change of the clocks leaves out."""

    RUN_AFTER = "run-after"
    SHIFT = "shift"
    SKIP = "skip"


class Overlap(StrEnum):
    """What happens at a wall time that a change of the clocks brings twice."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


class Draw(StrEnum):
    """How jitter is drawn."""

    HASH = "hash"
    RANDOM = "random"


_TIME: Final = "TIME"
_UID: Final = "preview"


@app.command()
def preview(
    context: typer.Context,
    expression: Annotated[
        str | None,
        typer.Argument(
            metavar="CRON",
            help="Five fields, six with seconds first, or a nickname such as @daily. In quotes.",
            show_default=False,
        ),
    ] = None,
    every: Annotated[
        str | None, typer.Option(metavar="DURATION", help="By an interval such as 90s or PT4H, instead of CRON.")
    ] = None,
    anchor: Annotated[
        str | None, typer.Option(metavar=_TIME, help="Where the interval counts from; --from when not given.")
    ] = None,
    rrule: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help=r"By a rule of RFC 5545, instead of CRON; \n stands between lines."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="LOCAL", help="Once, at 2026-03-08T02:30:00 on the zone's clock, instead of CRON."),
    ] = None,
    tz: Annotated[
        str | None, typer.Option("--tz", metavar="ZONE", help="An IANA name such as Europe/Berlin; UTC when not given.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--from", metavar=_TIME, help="What comes after it: an instant, or a date or time in the zone; now."
        ),
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=PREVIEW_COUNT_MAX, help="How many to show.")] = PREVIEW_COUNT_DEFAULT,
    start: Annotated[str | None, typer.Option(metavar=_TIME, help="Nothing fires before it.")] = None,
    end: Annotated[str | None, typer.Option(metavar=_TIME, help="Nothing fires at or after it.")] = None,
    dst_gap: Annotated[
        Gap | None, typer.Option(help="At a wall time that does not exist; by the rule's kind when not given.")
    ] = None,
    dst_overlap: Annotated[
        Overlap | None, typer.Option(help="At a wall time that comes twice; by the rule's kind when not given.")
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="DATE", help="Nothing fires on 2026-12-25, or --12-25 of every year; repeatable."),
    ] = None,
    jitter: Annotated[str | None, typer.Option(metavar="DURATION", help="A delay below this span.")] = None,
    jitter_mode: Annotated[Draw, typer.Option(help="One delay for the schedule, or one for each run.")] = Draw.HASH,
    uid: Annotated[str, typer.Option(metavar="UID", help="The schedule's uid, on which H and jitter depend.")] = _UID,
    batch: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|-",
            help="Answer each line of JSON {rule_kind, expression, timezone, start_utc, count, …} with one.",
        ),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Show when a rule fires next, with the reason where a change of the clock or an exclusion has a say.

    It needs no server. What the rule means stands in the README under Schedules.
    """
    out = output(context, json)
    if batch is not None:
        from rota.cli.previewbatch import answer_all

        if expression or every or rrule or at:
            raise InvalidArgument.field("--batch", "expected no rule beside it, found one; write it into the batch")
        answer_all(batch)
        return

    from rota.domain import zones
    from rota.domain.dst import GapPolicy, OverlapPolicy
    from rota.domain.recurrence import JitterMode, RuleSpec, compile_rule, parse_dates

    texts = {"CRON": expression, "--every": every, "--rrule": rrule, "--at": at}
    given = [name for name, text in texts.items() if text is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        raise InvalidArgument.field("CRON", f"expected CRON, --every, --rrule or --at, found {found}; give one of them")
    if anchor is not None and every is None:
        raise InvalidArgument.field("--anchor", "expected together with --every, found without; leave it out")
    rrule = rrule.replace("\\n", "\n") if rrule is not None else None
    zone = zones.find(_zone_of(rrule) if tz is None else tz)

    def when(name: str, text: str | None) -> datetime | None:
        return _time(name, text, zone)

    after = when("--from", since) or SystemClock().utc()
    spec = RuleSpec(
        **_kind(expression, every, rrule, at),
        time_zone=zone.name,
        anchor=when("--anchor", anchor) or after,
        start=when("--start", start),
        end=when("--end", end),
        gap=GapPolicy[dst_gap.name] if dst_gap else None,
        overlap=OverlapPolicy[dst_overlap.name] if dst_overlap else None,
        excluded_dates=parse_dates(exclude or [], "exclusions.dates"),
        jitter_s=values.duration("--jitter", jitter) or 0.0,
        jitter_mode=JitterMode[jitter_mode.name],
    )
    rule = compile_rule(spec, uid, "")
    lines = rule.preview(after, count)
    fires = [line for line in lines if not line.removed]
    exhausted = rule.exhausted(fires[-1].nominal if fires else after)
    warnings = [*rule.warnings, *_warnings(spec, uid)]
    if out.json:
        out.document(_document(rule, lines, exhausted, warnings))
        return
    _show(out, rule, lines, exhausted)
    for warning in warnings:
        print(f"note: {printable(warning)}", file=sys.stderr)


def utc(at: datetime) -> str:
    """2026-03-08T07:00:00Z, with a fraction only where there is one."""
    return at.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def _kind(expression: str | None, every: str | None, rrule: str | None, at: str | None) -> dict[str, Any]:
    """The part of a RuleSpec that the one text given says."""
    from rota.domain.recurrence import RuleKind

    if expression is not None:
        return {"kind": RuleKind.CRON, "expression": expression}
    if rrule is not None:
        return {"kind": RuleKind.RRULE, "expression": rrule}
    if at is not None:
        return {"kind": RuleKind.ONCE, "local_start": at}
    if every is not None and every.lstrip("-").startswith("P"):
        return {"kind": RuleKind.INTERVAL, "expression": every}
    return {"kind": RuleKind.INTERVAL, "every_s": values.duration("--every", every)}


def _zone_of(rrule: str | None) -> str:
    """The zone that an RRULE's DTSTART names, which spares saying it twice."""
    import re

    found = re.search(r"^DTSTART;(?:[^:\n]*;)?TZID=\"?([^:;\"\n]+)", rrule or "", re.IGNORECASE | re.MULTILINE)
    return found[1] if found else "UTC"


def _time(name: str, text: str | None, zone: Any) -> datetime | None:
    """An instant, or a date or time on the zone's clock."""
    from rota.domain import civil

    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is None:
            found = datetime.fromtimestamp(zone.instant(civil.wall_of(found)), UTC).replace(
                microsecond=found.microsecond
            )
        return found.astimezone(UTC)
    except (ValueError, OverflowError):
        expected = "a time such as 2026-03-07, 2026-03-07T12:00 or 2026-03-07T12:00:00Z"
        raise refusal(name, text, expected, "a time without an offset is one of the zone") from None


def _warnings(spec: "RuleSpec", uid: str) -> list[str]:
    """What the command line adds to the rule's own warnings."""
    if uid == _UID and (spec.jitter_s > 0 or (spec.kind.name == "CRON" and "H" in spec.expression)):
        return ["H and jitter follow from a schedule's uid: give --uid for those of a stored one"]
    return []


def _document(rule: "Rule", lines: "list[PreviewLine]", exhausted: bool, warnings: list[str]) -> dict[str, Any]:
    from rota.domain import zones

    return {
        "time_zone": rule.zone.name,
        "tzdata_version": zones.version(),
        "next_utc": [utc(line.nominal) for line in lines if not line.removed],
        "exhausted": exhausted,
        "occurrences": [
            {
                "nominal_time": utc(line.nominal),
                "due_time": utc(line.due) if line.due is not None else None,
                "local_time": line.local,
                "zone_abbreviation": line.abbreviation,
                "removed": line.removed,
                "reasons": [{"cause": reason.cause.name, "text": reason.text} for reason in line.reasons],
            }
            for line in lines
        ],
        "warnings": warnings,
    }


def _show(out: Output, rule: "Rule", lines: "list[PreviewLine]", exhausted: bool) -> None:
    from rota.domain import zones

    print(f"{rule.zone.name}, time-zone data {zones.version()}")
    if lines:
        delayed = rule.spec.jitter_s > 0
        columns = ["LOCAL TIME", "ZONE", "UTC", *(["DUE"] if delayed else []), "REASON"]
        out.table(columns, [_row(line, delayed) for line in lines], fold="REASON")
    if exhausted:
        print("nothing comes after that" if lines else "nothing is to come")


def _row(line: "PreviewLine", delayed: bool) -> list[str]:
    local = datetime.fromisoformat(line.local)
    name = line.abbreviation
    zone = f"{name} {line.local[-6:]}" if name.isalpha() else line.local[-6:]
    due = [utc(line.due) if line.due is not None else ""] if delayed else []
    shown = [
        f"{local:%a} {local.replace(tzinfo=None).isoformat(' ')}",
        zone,
        "removed" if line.removed else utc(line.nominal),
    ]
    return [*shown, *due, "; ".join(reason.text for reason in line.reasons)]
