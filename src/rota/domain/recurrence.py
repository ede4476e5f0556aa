"""When a schedule fires: once, by cron, by an interval or by an RRULE, with its zone, exclusions and jitter.

`compile_rule` reads a `RuleSpec` and refuses what cannot be meant; the `Rule` that it gives answers from any instant
on, without state: the next nominal time is strictly later than the instant asked about, the same whoever asks, and
found in a bounded number of steps. Compiling costs as much as a few answers; callers that ask often keep the Rule.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, assert_never

from rota.domain import civil, cron, instants, limits, rrule, zones
from rota.domain.civil import DAY, Budget, OneWall
from rota.domain.dst import GapPolicy, Hit, OverlapPolicy, WallTimes
from rota.domain.interval import Grid, iso_duration_s
from rota.domain.rule import Rule, Source
from rota.domain.rulespec import RuleKind, RuleSpec
from rota.domain.text import refusal
from rota.domain.zones import Zone

_LOCAL: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2})?")


def compile_rule(spec: RuleSpec, uid: str, field: str = "rule") -> Rule:
    """Reads a rule. `uid` is the schedule's: `H` and jitter depend on it. `field` is the path of the schedule in the
    request, whose fields the refusals name as in rota.v1.Schedule: rule.cron.expression, rule.time_zone, ...

    Raises InvalidArgument, with the reason NEVER_FIRES for a rule that has no occurrence at all. Whether one is left
    after the creation says `Rule.require_next`.
    """
    at = f"{field}." if field else ""
    zone = zones.find(spec.time_zone, f"{at}time_zone")
    _check_bounds(spec, at)
    match spec.kind:
        case RuleKind.ONCE:
            rule = _once(spec, zone, uid, at)
        case RuleKind.CRON:
            rule = _cron(spec, zone, uid, at)
        case RuleKind.INTERVAL:
            rule = _interval(spec, zone, uid, at)
        case RuleKind.RRULE:
            rule = _rrule(spec, zone, uid, at)
        case _:
            assert_never(spec.kind)
    rule.check_fires()
    return rule


@dataclass(frozen=True, slots=True)
class _Instant:
    """A single one."""

    at: int
    zone: Zone

    def next(self, after: int, budget: Budget) -> Hit | None:
        return Hit(self.at, self.zone.span(self.at).offset) if after < self.at else None


def _once(spec: RuleSpec, zone: Zone, uid: str, at: str) -> Rule:
    if spec.run_time is not None:
        if spec.local_start:
            raise refusal(f"{at}once", spec.local_start, "an instant or a local time", "give one of them")
        where = f"{at}once.run_time"
        instant = instants.of(spec.run_time, where)
        micros = spec.run_time.microsecond
        return Rule(spec, zone, uid, where, _Instant(instant, zone), micros=micros, begins=instant)
    where = f"{at}once.local_time"
    wall = _local(spec.local_start, where)
    source = WallTimes(OneWall(wall), zone, spec.gap or GapPolicy.SHIFT, spec.overlap or OverlapPolicy.FIRST)
    never = "change its bounds or its exclusions"
    if source.next(wall - 2 * DAY, Budget()) is None:
        never = f"that time does not exist in {zone.name}, where the clock skipped it; give another time"
    return Rule(spec, zone, uid, where, source, begins=wall - 2 * DAY, explain_never=never)


def _cron(spec: RuleSpec, zone: Zone, uid: str, at: str) -> Rule:
    where = f"{at}cron.expression"
    found = cron.parse(spec.expression, uid, where, spec.cron_fields)
    gap = spec.gap or (GapPolicy.SKIP if found.wildcard else GapPolicy.RUN_AFTER)
    overlap = spec.overlap or (OverlapPolicy.BOTH if found.wildcard else OverlapPolicy.FIRST)
    return Rule(spec, zone, uid, where, WallTimes(found, zone, gap, overlap, found.wildcard), warnings=found.warnings)


def _interval(spec: RuleSpec, zone: Zone, uid: str, at: str) -> Rule:
    where = f"{at}interval.every"
    every = iso_duration_s(spec.expression, where) if spec.every_s is None else spec.every_s
    shown = spec.expression or f"{every:g} s"
    if every != int(every):
        raise refusal(where, shown, "whole seconds", "round it")
    if not limits.INTERVAL_MIN_S <= every <= limits.INTERVAL_MAX_S:
        days = limits.INTERVAL_MAX_S // DAY
        raise refusal(where, shown, f"{limits.INTERVAL_MIN_S} s to {days} days", "choose another interval")
    if spec.anchor is None:
        raise refusal(f"{at}interval.anchor_time", "", "an instant to count from", "give the anchor, or the creation")
    anchor = instants.of(spec.anchor, f"{at}interval.anchor_time")
    return Rule(spec, zone, uid, where, Grid(anchor, int(every), zone), begins=anchor)


def _rrule(spec: RuleSpec, zone: Zone, uid: str, at: str) -> Rule:
    where = f"{at}rrule.text"
    start = None
    if spec.local_start:
        start = _local(spec.local_start, f"{at}rrule.local_start")
    elif spec.anchor is not None:
        anchor = instants.of(spec.anchor, f"{at}rrule.anchor")
        start = anchor + zone.span(anchor).offset
    found = rrule.parse(spec.expression, zone, start, where)
    gap, overlap = spec.gap or GapPolicy.SKIP, spec.overlap or OverlapPolicy.FIRST
    source: Source
    if found.matcher is not None:
        source = WallTimes(found.matcher, zone, gap, overlap)
    else:
        assert found.elapsed is not None
        source = found.elapsed

    def hits(moment: rrule.Moment) -> list[Hit]:
        if moment.utc:
            return [Hit(moment.value, zone.span(moment.value).offset)]
        walls = WallTimes(OneWall(moment.value), zone, gap, overlap)
        hits, after = [], moment.value - 2 * DAY
        while (hit := walls.next(after, Budget())) is not None:
            hits.append(hit)
            after = hit.at
        return hits

    added = [hit for moment in (*found.added, *_moments(spec.rdates, f"{at}rrule.rdates")) for hit in hits(moment)]
    removed: set[int] = set()
    for moment in (*found.removed, *_moments(spec.exdates, f"{at}rrule.exdates")):
        removed |= {hit.at for hit in hits(moment)}
    return Rule(
        spec,
        zone,
        uid,
        where,
        source,
        added=added,
        removed=removed,
        last=found.until,
        count=found.count,
        begins=found.start - 2 * DAY,
        warnings=found.warnings,
        shown=found.rule,
        explain_never=(
            f"it names no date that exists, none within {limits.RULE_SEARCH_YEARS} years, or ends before it begins: "
            "change it, its bounds or its exclusions"
        ),
    )


def _local(text: str, where: str) -> int:
    """The wall time of 2026-03-08T02:30:00."""
    expected = "a local time such as 2026-03-08T02:30:00"
    if not _LOCAL.fullmatch(text):
        remedy = "write date and time without an offset, and the zone apart"
        raise refusal(where, text, expected, remedy)
    try:
        wall = civil.wall_of(datetime.fromisoformat(text))
    except ValueError:
        raise refusal(where, text, expected, "there is no such date or time; correct it") from None
    if not instants.FIRST <= wall < instants.LAST:
        raise refusal(where, text, expected, f"years go from 2 to {civil.LAST_YEAR}")
    return wall


def _moments(texts: Sequence[str], where: str) -> list[rrule.Moment]:
    if len(texts) > limits.RRULE_DATES_MAX:
        raise refusal(where, str(len(texts)), f"at most {limits.RRULE_DATES_MAX} dates", "make several schedules of it")
    found = []
    for text in texts:
        try:
            found.append(rrule.date_time(text))
        except ValueError:
            remedy = "write a local time, or an instant with Z"
            raise refusal(where, text, "a date-time such as 2026-03-08T02:30:00", remedy) from None
    return found


def _check_bounds(spec: RuleSpec, at: str) -> None:
    for name, instant in (("start_time", spec.start), ("end_time", spec.end)):
        if instant is not None:
            instants.of(instant, f"{at}{name}")
    if spec.start is not None and spec.end is not None and spec.end <= spec.start:
        raise refusal(
            f"{at}end_time",
            instants.text(spec.end),
            f"an instant after start_time, {instants.text(spec.start)}",
            "exchange or correct them",
        )
    if not 0 <= spec.jitter_s <= limits.JITTER_MAX_S:
        raise refusal(f"{at}jitter.span", f"{spec.jitter_s:g} s", "0 s to 24 h", "choose a span within it")
    if len(spec.excluded_dates.dates) + len(spec.excluded_dates.yearly) > limits.EXCLUDED_DATES_MAX:
        raise refusal(
            f"{at}exclusions.dates", "more", f"at most {limits.EXCLUDED_DATES_MAX} dates", "make a calendar of them"
        )
    if len(spec.calendars) > limits.CALENDARS_MAX:
        raise refusal(
            f"{at}exclusions.calendars",
            str(len(spec.calendars)),
            f"at most {limits.CALENDARS_MAX} calendars",
            "put their dates together",
        )
