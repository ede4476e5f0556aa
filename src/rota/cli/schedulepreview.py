"""`rota schedule preview`: when a rule fires next, and why, without a server."""

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rota.cli import localtime, values
from rota.cli.context import JsonFlag, output
from rota.cli.flaggroup import grouped
from rota.cli.localtime import utc
from rota.cli.output import Output, printable
from rota.cli.scheduleflags import TIME, RuleFlags
from rota.cli.scheduleform import once, require_one_rule, rrule_text, zone_of
from rota.clock import SystemClock
from rota.domain.errors import InvalidArgument
from rota.domain.limits import PREVIEW_COUNT_DEFAULT, PREVIEW_COUNT_MAX

if TYPE_CHECKING:
    from rota.domain.rule import PreviewLine, Rule
    from rota.domain.rulespec import RuleSpec

_UID: Final = "preview"


@grouped
def preview(
    context: typer.Context,
    rule: RuleFlags,
    since: Annotated[
        str | None,
        typer.Option(
            "--from", metavar=TIME, help="What comes after it: an instant, or a date or time in the zone; now."
        ),
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=PREVIEW_COUNT_MAX, help="How many to show.")] = PREVIEW_COUNT_DEFAULT,
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

    It needs no server. What the rule means stands in the README under When a rule fires.
    """
    out = output(context, json)
    if batch is not None:
        from rota.cli.previewbatch import answer_all

        if rule.kinds:
            raise InvalidArgument.field("--batch", "expected no rule beside it, found one; write it into the batch")
        answer_all(batch)
        return

    from rota.domain import zones
    from rota.domain.dateset import parse_dates
    from rota.domain.dst import GapPolicy, OverlapPolicy
    from rota.domain.jitter import JitterMode
    from rota.domain.recurrence import compile_rule
    from rota.domain.rulespec import RuleSpec

    require_one_rule(rule)
    zone = zones.find(rule.tz if rule.tz is not None else zone_of(rrule_text(rule.rrule)) or "UTC")

    def when(name: str, text: str | None) -> datetime | None:
        return localtime.read(name, text, lambda: zone)

    after = when("--from", since) or SystemClock().utc()
    spec = RuleSpec(
        **_kind(rule),
        time_zone=zone.name,
        anchor=when("--anchor", rule.anchor) or after,
        start=when("--start", rule.start),
        end=when("--end", rule.end),
        gap=GapPolicy[rule.dst_gap.name] if rule.dst_gap else None,
        overlap=OverlapPolicy[rule.dst_overlap.name] if rule.dst_overlap else None,
        excluded_dates=parse_dates(rule.exclude or [], "exclusions.dates"),
        jitter_s=values.duration("--jitter", rule.jitter) or 0.0,
        jitter_mode=JitterMode[rule.jitter_mode.name] if rule.jitter_mode else JitterMode.HASH,
    )
    compiled = compile_rule(spec, uid, "")
    found = compiled.preview(after, count)
    fires = [line for line in found if not line.removed]
    exhausted = compiled.exhausted(fires[-1].nominal if fires else after)
    warnings = [*compiled.warnings, *_warnings(spec, uid)]
    if out.json:
        out.document(_document(compiled, found, exhausted, warnings))
        return
    _show(out, compiled, found, exhausted)
    for warning in warnings:
        print(f"note: {printable(warning)}", file=sys.stderr)


def _kind(flags: RuleFlags) -> dict[str, Any]:
    """The part of a RuleSpec that the one text given says."""
    from rota.domain.rulespec import RuleKind

    if flags.expression is not None:
        return {"kind": RuleKind.CRON, "expression": flags.expression}
    if flags.rrule is not None:
        return {"kind": RuleKind.RRULE, "expression": rrule_text(flags.rrule)}
    if flags.at is not None:
        run_time, local = once(flags.at)
        return {"kind": RuleKind.ONCE, "run_time": run_time, "local_start": local or ""}
    if flags.every is not None and flags.every.lstrip("-").startswith("P"):
        return {"kind": RuleKind.INTERVAL, "expression": flags.every}
    return {"kind": RuleKind.INTERVAL, "every_s": values.duration("--every", flags.every)}


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
    local, zone = localtime.wall(line.local, line.abbreviation)
    due = [utc(line.due) if line.due is not None else ""] if delayed else []
    nominal = "removed" if line.removed else utc(line.nominal)
    return [local, zone, nominal, *due, "; ".join(reason.text for reason in line.reasons)]
