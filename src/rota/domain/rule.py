"""A rule at work: the occurrences after an instant, and what becomes of each by its bounds, exclusions and jitter.

*Nominal* is the instant that the rule names, in whole seconds (but a `once` at an instant keeps its microseconds).
*Due* is nominal plus jitter, which only delays. Local dates, for exclusions, are those of the nominal instant in the
schedule's zone.

A rule that has come to its end answers None: the schedule is EXHAUSTED. One whose next time cannot be found within
the bound raises InvalidArgument with the reason NEVER_FIRES: at creation it is refused, later the schedule is in ERROR.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Protocol

from rota.domain import civil, instants, limits, zones
from rota.domain.civil import DAY, Budget, OutOfSteps
from rota.domain.dateset import Calendar
from rota.domain.dst import Cause, Dropped, Hit, Reason, WallTimes
from rota.domain.errors import InvalidArgument
from rota.domain.instants import EPOCH, FIRST, LAST, SECOND
from rota.domain.jitter import Jitter, JitterMode
from rota.domain.rruleelapsed import Elapsed
from rota.domain.rulespec import RuleKind, RuleSpec
from rota.domain.text import refusal
from rota.domain.zones import Zone

RECENT_MAX: Final = 16
"""Answers that a rule remembers: schedules of the same times ask the same, one after the other."""

_CHECKED_FROM: Final = civil.day_number(2000, 1, 1) * DAY


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


class Source(Protocol):
    """Instants that a rule names, before its bounds and exclusions."""

    def next(self, after: int, budget: Budget) -> Hit | None: ...


class Rule:
    """A compiled rule. Its answers depend on nothing but its spec, the uid and the edition of the zone data.

    It remembers how far it has counted a COUNT, and its latest answers; so one Rule is for one thread at a time.
    """

    def __init__(
        self,
        spec: RuleSpec,
        zone: Zone,
        uid: str,
        field: str,
        source: Source,
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
        self._start = instants.ceil(spec.start, micros) if spec.start is not None else None
        self._end = instants.ceil(spec.end, micros) if spec.end is not None else None
        self._until = last
        self._begins = begins
        self._explain_never = explain_never
        self._shown = shown or spec.expression or spec.local_start or spec.kind.name.lower()
        self._excludes = [Calendar("", spec.excluded_dates)] if spec.excluded_dates else []
        self._excludes += [calendar for calendar in spec.calendars if calendar.days]
        self._recent: dict[int, Hit | None] = {}
        self._jitter = Jitter(spec.jitter_s, spec.jitter_mode, uid) if spec.jitter_s > 0 else None

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
        return self._between(after, until, limit, with_excluded)[0]

    def ahead(self, after: datetime, until: datetime, limit: int) -> tuple[list[Fire], Fire | None]:
        """As `between` with excluded ones; and the next one that fires after them where it was seen, which spares
        asking for it."""
        return self._between(after, until, limit, with_excluded=True)

    def _between(
        self, after: datetime, until: datetime, limit: int, with_excluded: bool
    ) -> tuple[list[Fire], Fire | None]:
        found: list[Fire] = []
        low, high = self._floor(after), self._floor(until)
        while len(found) < limit:
            try:
                hit = self._named(low, Budget()) if with_excluded else self._firing(low, Budget(), high)
            except OutOfSteps:
                if found:
                    break
                raise self._given_up(after) from None
            if hit is None:
                break
            if hit.at > high:
                fire = self._fire(hit)
                return found, None if fire.excluded else fire
            found.append(self._fire(hit))
            low = hit.at
        return found, None

    def require_next(self, after: datetime) -> Fire:
        """As `next_after`; a rule that is at its end is refused as one that never fires. For creation and edits."""
        fire = self.next_after(after)
        if fire is None:
            raise self._refuse(
                f"a time after {instants.text(after)}",
                "all its times have passed; change the rule, its end or its exclusions",
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
        after = self._begins if self._begins is not None else FIRST if ended else _CHECKED_FROM
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

    def _firing(self, after: int, budget: Budget, until: int = LAST) -> Hit | None:
        """The first hit after an instant that fires. May be none when the first lies behind `until`."""
        while True:
            hit = self._named(after, budget)
            if hit is None or hit.at > until or not self._excludes or self._excluded_by(hit) is None:
                return hit
            after = self._behind_excluded(hit, budget) - 1

    def _named(self, after: int, budget: Budget, *, with_removed: bool = False) -> Hit | None:
        """The first hit after an instant, its date excluded or not; what EXDATE removes only if asked."""
        if with_removed:
            return self._search(after, budget, with_removed=True)
        if after in self._recent:
            return self._recent[after]
        hit = self._search(after, budget)
        if len(self._recent) >= RECENT_MAX:
            self._recent.clear()
        self._recent[after] = hit
        return hit

    def _search(self, after: int, budget: Budget, *, with_removed: bool = False) -> Hit | None:
        if self._start is not None and after < self._start:
            after = self._start - 1
        after = max(after, FIRST)
        while True:
            if after >= LAST:
                return None
            hit = self._source.next(after, budget)
            if hit is not None and self._over(hit):
                hit = None
            if self._added_at:
                index = bisect_right(self._added_at, after)
                if index < len(self._added_at) and (hit is None or self._added_at[index] < hit.at):
                    hit = self._added[self._added_at[index]]
            if hit is None or hit.at >= LAST or (self._end is not None and hit.at >= self._end):
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
        after = max(after, self._begins or FIRST, self._start or FIRST)
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

    def _behind_excluded(self, hit: Hit, budget: Budget, days: int = LAST) -> int:
        """An instant after an excluded hit before which nothing fires, as late as so many days tell."""
        day = (hit.at + hit.offset) // DAY + 1
        last = min(day + days, LAST // DAY) - 1
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
        nominal = EPOCH + hit.at * SECOND + self._micros
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
        nominal = EPOCH + at * SECOND + self._micros
        return PreviewLine(nominal, None, local, self.zone.abbreviation(at), removed=True, reasons=(reason,))

    def _dropped_line(self, lost: Dropped) -> PreviewLine:
        # It would have been by the clock as it was before the gap, which ends where this span begins.
        before = self.zone.span(lost.at).start - 1
        return replace(
            self._removed_line(lost.at, lost.offset, lost.reason), abbreviation=self.zone.abbreviation(before)
        )

    def _floor(self, at: datetime) -> int:
        """The last second at or before an instant, in which a nominal time of the rule could lie."""
        return (at - self._micros - EPOCH) // SECOND if self._micros else (at - EPOCH) // SECOND

    def _refuse(self, expected: str, remedy: str) -> InvalidArgument:
        return refusal(self.field, self._shown, expected, remedy, reason="NEVER_FIRES")

    def _given_up(self, after: datetime) -> InvalidArgument:
        return self._refuse(
            f"a time within {limits.RULE_SEARCH_YEARS} years after {instants.text(after)}",
            "the search was given up; make the rule simpler or its exclusions fewer",
        )


class _Count:
    """COUNT: the instances of a rule are counted from its first, as far as they are asked for, and only once."""

    def __init__(self, count: int, source: Source) -> None:
        self._left = count
        self._source = source
        self._at = FIRST
        self.last: int | None = None
        if isinstance(source, Elapsed):
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
