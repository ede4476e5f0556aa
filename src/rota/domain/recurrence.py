"""When a schedule fires: once, by cron, by an interval or by an RRULE, with its zone, exclusions and jitter.

`compile_rule` reads a `RuleSpec` and refuses what cannot be meant; the `Rule` that it gives answers from any instant
on, without state: the next nominal time is strictly later than the instant asked about, the same whoever asks, and
found in a bounded number of steps. Compiling costs as much as a few answers; callers that ask often keep the Rule.

*Nominal* is the instant that the rule names, in whole seconds (but a `once` at an instant keeps its microseconds).
*Due* is nominal plus jitter, which only delays. Local dates, for exclusions, are those of the nominal instant in the
schedule's zone.

A rule that has come to its end answers None: the schedule is EXHAUSTED. One whose next time cannot be found within
the bound raises InvalidArgument with the reason NEVER_FIRES: at creation it is refused, later the schedule is in ERROR.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from enum import IntEnum
from typing import Final, Protocol, assert_never

from rota.domain import civil, cron, limits, rrule, zones
from rota.domain.civil import DAY, Budget, OneWall, OutOfSteps
from rota.domain.dst import Cause, Dropped, GapPolicy, Hit, OverlapPolicy, Reason, WallTimes
from rota.domain.errors import InvalidArgument
from rota.domain.ids import digest
from rota.domain.text import refusal
from rota.domain.zones import Zone

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
_FIRST: Final = civil.FIRST_DAY * DAY
_LAST: Final = civil.day_number(civil.LAST_YEAR, 12, 31) * DAY


class RuleKind(IntEnum):
    """How a schedule says when it fires."""

    ONCE = 1
    CRON = 2
    INTERVAL = 3
    RRULE = 4


class JitterMode(IntEnum):
    """How jitter is drawn. The numbers are those of rota.v1.JitterMode."""

    HASH = 1
    RANDOM = 2


@dataclass(frozen=True, slots=True)
class DateSet:
    """Local dates: single ones, and (month, day) of every year."""

    dates: frozenset[date] = frozenset()
    yearly: frozenset[tuple[int, int]] = frozenset()

    def __contains__(self, day: date) -> bool:
        return day in self.dates or (day.month, day.day) in self.yearly

    def __bool__(self) -> bool:
        return bool(self.dates or self.yearly)


@dataclass(frozen=True, slots=True)
class Calendar:
    """A named set of dates on which a schedule does not fire."""

    name: str
    days: DateSet


@dataclass(frozen=True, slots=True)
class RuleSpec:
    """What a schedule says of its times. Instants are aware; texts are kept as given.

    `gap` and `overlap` None: as the kind of rule has it (the table in `dst`). They say nothing to a rule that counts
    elapsed time: an interval, a `once` at an instant, an RRULE below a day.
    """

    kind: RuleKind
    expression: str = ""
    """The cron expression, the RRULE text, or an interval in ISO 8601 such as PT90S."""
    time_zone: str = "UTC"
    anchor: datetime | None = None
    """INTERVAL: where counting starts. RRULE: the creation, in place of a DTSTART that the text does not have."""
    every_s: float | None = None
    """INTERVAL: the seconds, in place of `expression`."""
    local_start: str = ""
    """ONCE: the local time. RRULE: DTSTART, if the text has none. As 2026-03-08T02:30:00."""
    rdates: tuple[str, ...] = ()
    exdates: tuple[str, ...] = ()
    """RRULE: dates beside those of the text, as 2026-03-08T02:30:00, or with Z in UTC."""
    start: datetime | None = None
    """Nothing before it."""
    end: datetime | None = None
    """Nothing at or after it."""
    gap: GapPolicy | None = None
    overlap: OverlapPolicy | None = None
    excluded_dates: DateSet = field(default_factory=DateSet)
    calendars: tuple[Calendar, ...] = ()
    jitter_s: float = 0.0
    jitter_mode: JitterMode = JitterMode.HASH
    run_time: datetime | None = None
    """ONCE: the instant, in place of `local_start`."""
    cron_fields: int | None = None
    """CRON: 5 or 6 where the writer says which; a line of a crontab must not be taken for six fields."""


@dataclass(frozen=True, slots=True)
class Fire:
    """One occurrence of a rule."""

    nominal: datetime
    due: datetime
    local: str
    """The nominal time in the schedule's zone, as 2026-03-08T03:00:00-04:00."""
    reason: str = ""
    """What a change of the clock had to do with it: gap: 02:30 does not exist on 2026-03-08, runs at 03:00"""
    excluded: bool = False
    """Its date is excluded: it is an occurrence, and does not fire. `reason` says why."""


@dataclass(frozen=True, slots=True)
class PreviewLine:
    """One occurrence to come, or one that is not to come, with the reasons."""

    nominal: datetime
    """Of one that a gap removed: where it would have been, had the clock not changed."""
    due: datetime | None
    """None when removed, and with RANDOM jitter."""
    local: str
    abbreviation: str
    """The zone's abbreviation at that time, for example EDT."""
    removed: bool = False
    reasons: tuple[Reason, ...] = ()


class _Source(Protocol):
    """Instants that a rule names, before its bounds and exclusions."""

    def next(self, after: int, budget: Budget) -> Hit | None: ...


def compile_rule(spec: RuleSpec, uid: str, field: str = "rule") -> "Rule":
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


class Rule:
    """A compiled rule. Its answers depend on nothing but its spec, the uid and the edition of the zone data.

    It remembers how far it has counted a COUNT; so one Rule is for one thread at a time.
    """

    def __init__(
        self,
        spec: RuleSpec,
        zone: Zone,
        uid: str,
        field: str,
        source: _Source,
        *,
        micros: int = 0,
        added: Iterable[Hit] = (),
        removed: Iterable[int] = (),
        last: int | None = None,
        count: int | None = None,
        begins: int | None = None,
        warnings: tuple[str, ...] = (),
        shown: str = "",
        explain_never: str = "change the rule, its bounds or its exclusions",
    ) -> None:
        self.spec = spec
        self.zone = zone
        self.field = field
        """The field of the request that a refusal of the rule names."""
        self._warnings = warnings
        self._source = source
        # All nominal times of one rule have the same fraction of a second.
        self._micros = timedelta(microseconds=micros)
        self._added = {hit.at: hit for hit in sorted(added)}
        self._added_at = sorted(self._added)
        self._removed = frozenset(removed)
        self._count = _Count(count, source) if count is not None else None
        self._start = _ceil(spec.start, micros) if spec.start is not None else None
        self._end = _ceil(spec.end, micros) if spec.end is not None else None
        self._until = last
        self._begins = begins
        self._explain_never = explain_never
        self._shown = shown or spec.expression or spec.local_start or spec.kind.name.lower()
        self._excludes = [Calendar("", spec.excluded_dates)] if spec.excluded_dates else []
        self._excludes += [calendar for calendar in spec.calendars if calendar.days]
        self._jitter = _Jitter(spec, uid) if spec.jitter_s > 0 else None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the rule says that people who write it often do not mean."""
        if self.spec.kind is not RuleKind.RRULE or self._begins is None:
            return self._warnings
        try:
            first = self._source.next(self._begins, Budget())
        except OutOfSteps:
            first = None
        if first is not None and first.at + first.offset == self._begins + 2 * DAY:
            return self._warnings
        return *self._warnings, "DTSTART is not one of the rule's own times, and nothing runs at it"

    def next_after(self, after: datetime) -> Fire | None:
        """The first that fires with a nominal time strictly later; None: there is none, the rule is exhausted.

        Raises InvalidArgument (NEVER_FIRES) when none was found within the bound of a search.
        """
        try:
            hit = self._firing(self._floor(after), Budget())
        except OutOfSteps:
            raise self._given_up(after) from None
        return self._fire(hit) if hit is not None else None

    def between(self, after: datetime, until: datetime, limit: int, *, with_excluded: bool = False) -> list[Fire]:
        """Those with nominal times in (after, until], oldest first, at most `limit`.

        With excluded ones if asked, so that their fate can be recorded. Raises as `next_after` when not even the first
        was found; what was found before a search was given up is returned.
        """
        found: list[Fire] = []
        low, high = self._floor(after), self._floor(until)
        while len(found) < limit:
            try:
                hit = self._named(low, Budget()) if with_excluded else self._firing(low, Budget(), high)
            except OutOfSteps:
                if found:
                    break
                raise self._given_up(after) from None
            if hit is None or hit.at > high:
                break
            found.append(self._fire(hit))
            low = hit.at
        return found

    def require_next(self, after: datetime) -> Fire:
        """As `next_after`; a rule that is at its end is refused as one that never fires. For creation and edits."""
        fire = self.next_after(after)
        if fire is None:
            raise self._refuse(
                f"a time after {_iso(after)}", "all its times have passed; change the rule, its end or its exclusions"
            )
        return fire

    def preview(self, after: datetime, count: int) -> list[PreviewLine]:
        """The next `count` occurrences, and between them what was removed and why: one line for each gap and each
        excluded date. Fewer where the rule ends, or would ask for too much work. Raises as `next_after`.
        """
        lines: list[PreviewLine] = []
        low, fires, steps = self._floor(after), 0, limits.PREVIEW_STEPS_MAX
        told: Reason | None = None
        while fires < count and len(lines) < limits.PREVIEW_LINES_MAX and steps > 0:
            budget = Budget()
            try:
                hit = self._named(low, budget, with_removed=True)
                dropped = self._dropped(low, hit.at if hit is not None else self._last(), budget)
            except OutOfSteps:
                if not fires:
                    raise self._given_up(after) from None
                break
            steps -= limits.RULE_STEPS_MAX - budget.left
            lines += [self._dropped_line(lost) for lost in dropped]
            if hit is None:
                break
            reason = self._why_not(hit)
            if reason is None:
                lines.append(self._line(hit))
                fires, low = fires + 1, hit.at
            elif hit.at in self._removed:
                lines.append(self._removed_line(hit.at, hit.offset, reason))
                low = hit.at
            else:
                # A change of the clock within an excluded date must not make two lines of it.
                if reason != told:
                    lines.append(self._removed_line(hit.at, hit.offset, reason))
                told, low = reason, self._behind_excluded(hit, Budget(), days=1) - 1
        return lines[: limits.PREVIEW_LINES_MAX]

    def exhausted(self, after: datetime) -> bool:
        """Whether it is certain that nothing fires after an instant."""
        try:
            return self.next_after(after) is None
        except InvalidArgument:
            return False

    def check_fires(self) -> None:
        """Refuses a rule that has no occurrence at all."""
        # Any year does for a rule of cron, unless it has ended before it.
        ended = self._end is not None and self._end <= _CHECKED_FROM
        after = self._begins if self._begins is not None else _FIRST if ended else _CHECKED_FROM
        if self._added_at:
            after = min(after, self._added_at[0])
        if self._start is not None:
            after = self._start
        try:
            hit = self._firing(after - 1, Budget())
        except OutOfSteps:
            hit = None
        if hit is None:
            raise self._refuse("at least one time to fire at", self._explain_never)

    def _firing(self, after: int, budget: Budget, until: int = _LAST) -> Hit | None:
        """The first hit after an instant that fires. May be none when the first lies behind `until`."""
        while True:
            hit = self._named(after, budget)
            if hit is None or hit.at > until or not self._excludes or self._excluded_by(hit) is None:
                return hit
            after = self._behind_excluded(hit, budget) - 1

    def _named(self, after: int, budget: Budget, *, with_removed: bool = False) -> Hit | None:
        """The first hit after an instant, its date excluded or not; what EXDATE removes only if asked."""
        if self._start is not None and after < self._start:
            after = self._start - 1
        after = max(after, _FIRST)
        while True:
            if after >= _LAST:
                return None
            hit = self._source.next(after, budget)
            if hit is not None and self._over(hit):
                hit = None
            if self._added_at:
                index = bisect_right(self._added_at, after)
                if index < len(self._added_at) and (hit is None or self._added_at[index] < hit.at):
                    hit = self._added[self._added_at[index]]
            if hit is None or hit.at >= _LAST or (self._end is not None and hit.at >= self._end):
                return None
            if with_removed or hit.at not in self._removed:
                return hit
            budget.spend()
            after = hit.at

    def _over(self, hit: Hit) -> bool:
        """Whether the rule's own end lies before a hit: UNTIL, or COUNT."""
        if self._until is not None and hit.at > self._until:
            return True
        return self._count is not None and self._count.over(hit.at)

    def _last(self) -> int | None:
        """The end of a rule that has one and comes to it, as far as it is known."""
        ends = [end for end in (self._until, self._end) if end is not None]
        if self._count is not None and self._count.last is not None:
            ends.append(self._count.last)
        return min(ends, default=None)

    def _dropped(self, after: int, until: int | None, budget: Budget) -> Sequence[Dropped]:
        if until is None or not isinstance(self._source, WallTimes):
            return ()
        after = max(after, self._begins or _FIRST, self._start or _FIRST)
        return self._source.dropped(after, until, budget)

    def _excluded_by(self, hit: Hit) -> Calendar | None:
        """The set that excludes the local date of a hit."""
        day = civil.date_of((hit.at + hit.offset) // DAY)
        for calendar in self._excludes:
            if day in calendar.days:
                return calendar
        return None

    def _why_not(self, hit: Hit) -> Reason | None:
        """Why a hit does not fire; None: it does."""
        if hit.at in self._removed:
            return Reason(Cause.EXCLUDED_DATE, "excluded: EXDATE")
        calendar = self._excluded_by(hit)
        if calendar is None:
            return None
        day = civil.date_of((hit.at + hit.offset) // DAY)
        if calendar.name:
            return Reason(Cause.EXCLUDED_CALENDAR, f"excluded: nothing runs on {day}, by {calendar.name}")
        return Reason(Cause.EXCLUDED_DATE, f"excluded: nothing runs on {day}")

    def _behind_excluded(self, hit: Hit, budget: Budget, days: int = _LAST) -> int:
        """An instant after an excluded hit before which nothing fires, as late as so many days tell."""
        day = (hit.at + hit.offset) // DAY + 1
        last = min(day + days, _LAST // DAY) - 1
        while day < last and any(civil.date_of(day) in calendar.days for calendar in self._excludes):
            # A look at a date costs a fraction of a step.
            budget.spend(day % 16 == 0)
            day += 1
        behind = day * DAY - hit.offset
        end = self.zone.span(hit.at).end
        if end >= behind:
            return behind
        # The clock changes before that. Right behind the hit it may go back into the day before, which may be free.
        return end if end < hit.at + 2 * DAY else max(end, behind - 2 * DAY)

    def _fire(self, hit: Hit) -> Fire:
        nominal = _EPOCH + hit.at * _SECOND + self._micros
        due = nominal if self._jitter is None else nominal + self._jitter.delay(hit.at)
        local = zones.stamp(hit.at + hit.offset, hit.offset, self._micros.microseconds)
        if self._excludes and (why := self._why_not(hit)) is not None:
            return Fire(nominal, due, local, why.text, excluded=True)
        return Fire(nominal, due, local, hit.reason.text if hit.reason is not None else "")

    def _line(self, hit: Hit) -> PreviewLine:
        fire = self._fire(hit)
        reasons = [hit.reason] if hit.reason is not None else []
        due: datetime | None = fire.due
        if self._jitter is not None:
            reasons.append(self._jitter.reason(hit.at))
            if self.spec.jitter_mode is JitterMode.RANDOM:
                due = None
        return PreviewLine(fire.nominal, due, fire.local, self.zone.abbreviation(hit.at), reasons=tuple(reasons))

    def _removed_line(self, at: int, offset: int, reason: Reason) -> PreviewLine:
        local = zones.stamp(at + offset, offset, self._micros.microseconds)
        nominal = _EPOCH + at * _SECOND + self._micros
        return PreviewLine(nominal, None, local, self.zone.abbreviation(at), removed=True, reasons=(reason,))

    def _dropped_line(self, lost: Dropped) -> PreviewLine:
        # It would have been by the clock as it was before the gap, which ends where this span begins.
        before = self.zone.span(lost.at).start - 1
        return replace(
            self._removed_line(lost.at, lost.offset, lost.reason), abbreviation=self.zone.abbreviation(before)
        )

    def _floor(self, at: datetime) -> int:
        """The last second at or before an instant, in which a nominal time of the rule could lie."""
        return (at - self._micros - _EPOCH) // _SECOND if self._micros else (at - _EPOCH) // _SECOND

    def _refuse(self, expected: str, remedy: str) -> InvalidArgument:
        return refusal(self.field, self._shown, expected, remedy, reason="NEVER_FIRES")

    def _given_up(self, after: datetime) -> InvalidArgument:
        return self._refuse(
            f"a time within {limits.RULE_SEARCH_YEARS} years after {_iso(after)}",
            "the search was given up; make the rule simpler or its exclusions fewer",
        )


class _Count:
    """COUNT: the instances of a rule are counted from its first, as far as they are asked for, and only once."""

    def __init__(self, count: int, source: _Source) -> None:
        self._left = count
        self._source = source
        self._at = _FIRST
        self.last: int | None = None
        if isinstance(source, rrule.Elapsed):
            self.last = source.last(count)

    def over(self, at: int) -> bool:
        """Whether an instance lies behind the last one that counts."""
        while self.last is None and self._at < at:
            hit = self._source.next(self._at, Budget())
            if hit is None:
                self.last = self._at
                break
            self._at = hit.at
            self._left -= 1
            if not self._left:
                self.last = hit.at
        return self.last is not None and at > self.last


class _Jitter:
    """A delay within [0, span), in whole milliseconds.

    HASH draws one for the schedule. RANDOM draws one for each occurrence, by its nominal time: whoever computes it
    again after a crash gets the same.
    """

    def __init__(self, spec: RuleSpec, uid: str) -> None:
        self._uid = uid.encode("utf-8", "replace")
        self._span_ms = max(int(spec.jitter_s * 1000), 1)
        self._span_s = spec.jitter_s
        self._fixed = self._draw(b"") if spec.jitter_mode is JitterMode.HASH else None

    def delay(self, at: int) -> timedelta:
        return self._fixed if self._fixed is not None else self._draw(str(at).encode())

    def reason(self, at: int) -> Reason:
        if self._fixed is None:
            return Reason(Cause.JITTER, f"jitter: up to {self._span_s:g} s later")
        return Reason(Cause.JITTER, f"jitter: {self._fixed.total_seconds():g} s later")

    def _draw(self, what: bytes) -> timedelta:
        number = int.from_bytes(digest(b"jitter", self._uid, what)[:8], "big")
        return timedelta(milliseconds=number % self._span_ms)


@dataclass(frozen=True, slots=True)
class _Grid:
    """anchor + k · every, from the anchor on."""

    anchor: int
    every: int
    zone: Zone

    def next(self, after: int, budget: Budget) -> Hit | None:
        budget.spend()
        at = self.anchor + max(0, (after - self.anchor) // self.every + 1) * self.every
        return Hit(at, self.zone.span(at).offset) if at < _LAST else None


@dataclass(frozen=True, slots=True)
class _Instant:
    """A single one."""

    at: int
    zone: Zone

    def next(self, after: int, budget: Budget) -> Hit | None:
        return Hit(self.at, self.zone.span(self.at).offset) if after < self.at else None


_CHECKED_FROM: Final = civil.day_number(2000, 1, 1) * DAY


def _once(spec: RuleSpec, zone: Zone, uid: str, at: str) -> Rule:
    if spec.run_time is not None:
        if spec.local_start:
            raise refusal(f"{at}once", spec.local_start, "an instant or a local time", "give one of them")
        where = f"{at}once.run_time"
        instant = _seconds(spec.run_time, where)
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
    anchor = _seconds(spec.anchor, f"{at}interval.anchor_time")
    return Rule(spec, zone, uid, where, _Grid(anchor, int(every), zone), begins=anchor)


def _rrule(spec: RuleSpec, zone: Zone, uid: str, at: str) -> Rule:
    where = f"{at}rrule.text"
    start = None
    if spec.local_start:
        start = _local(spec.local_start, f"{at}rrule.local_start")
    elif spec.anchor is not None:
        anchor = _seconds(spec.anchor, f"{at}rrule.anchor")
        start = anchor + zone.span(anchor).offset
    found = rrule.parse(spec.expression, zone, start, where)
    gap, overlap = spec.gap or GapPolicy.SKIP, spec.overlap or OverlapPolicy.FIRST
    source: _Source
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


def parse_dates(texts: Sequence[str], field: str, most: int = limits.EXCLUDED_DATES_MAX) -> DateSet:
    """Reads dates, as 2026-12-25, or --12-25 for every year. Raises InvalidArgument for `field`."""
    if len(texts) > most:
        raise refusal(field, str(len(texts)), f"at most {most} dates", "make a calendar of them, or two")
    dates, yearly = set(), set()
    for text in texts:
        found = _DATE.fullmatch(text)
        try:
            if not found:
                raise ValueError
            if found[1] == "-":
                # Of a leap year, which has all days.
                day = date(2000, int(found[2]), int(found[3]))
                yearly.add((day.month, day.day))
            else:
                dates.add(date(int(found[1]), int(found[2]), int(found[3])))
        except ValueError:
            raise refusal(field, text, "a date as 2026-12-25, or --12-25 for every year", "correct it") from None
    return DateSet(frozenset(dates), frozenset(yearly))


_DATE: Final = re.compile(r"([0-9]{4}|-)-([0-9]{2})-([0-9]{2})")
_LOCAL: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2})?")
_ISO_DURATION: Final = re.compile(
    r"P(?:(?P<w>[0-9]{1,9})W)?(?:(?P<d>[0-9]{1,9})D)?(?:T(?:(?P<h>[0-9]{1,9})H)?(?:(?P<m>[0-9]{1,9})M)?(?:(?P<s>[0-9]{1,9})S)?)?"
)
_ISO_SECONDS: Final = {"w": 7 * DAY, "d": DAY, "h": 3600, "m": 60, "s": 1}


def iso_duration_s(text: str, field: str) -> int:
    """The seconds of an ISO 8601 duration of weeks, days, hours, minutes and seconds. Raises InvalidArgument."""
    found = _ISO_DURATION.fullmatch(text)
    if found and text[-1] in "WDHMS":
        return sum(int(found[unit] or 0) * size for unit, size in _ISO_SECONDS.items())
    remedy = "write whole numbers with W, D, or after T with H, M, S"
    if text.startswith("-"):
        remedy = "an interval is positive"
    elif re.fullmatch(r"P[0-9YMWD]*[0-9][YM].*", text):
        remedy = "years and months are no elapsed time: make it an rrule with FREQ=MONTHLY or YEARLY"
    elif short := re.fullmatch(r"([0-9]{1,9})([dhms])", text):
        remedy = f"write P{'T' * (short[2] != 'd')}{short[1]}{short[2].upper()}"
    elif "." in text or "," in text:
        remedy = f"fractions of a second are not offered; the shortest is {limits.INTERVAL_MIN_S} s"
    raise refusal(field, text, "an ISO 8601 duration such as PT90S, PT4H or P1D", remedy)


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
    if not _FIRST <= wall < _LAST:
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
            _seconds(instant, f"{at}{name}")
    if spec.start is not None and spec.end is not None and spec.end <= spec.start:
        raise refusal(
            f"{at}end_time",
            _iso(spec.end),
            f"an instant after start_time, {_iso(spec.start)}",
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


def _seconds(at: datetime, where: str) -> int:
    """Seconds since 1970, fractions cut. Refuses what leaves no room for offsets at the ends of the calendar."""
    seconds = (at - _EPOCH) // _SECOND
    if not _FIRST <= seconds < _LAST:
        raise refusal(where, _iso(at), f"an instant from year 2 to {civil.LAST_YEAR}", "correct it")
    return seconds


def _ceil(at: datetime, micros: int) -> int:
    """The first second at or after an instant, for nominal times with that fraction."""
    return -(-(at - timedelta(microseconds=micros) - _EPOCH) // _SECOND)


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
