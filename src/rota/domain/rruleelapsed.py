"""An RRULE of hours, minutes or seconds: it steps in elapsed time from DTSTART, and what limits it is asked of the wall
clock at each step.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rota.domain import civil, instants
from rota.domain.civil import DAY, Budget, Matcher, TimesOfDay
from rota.domain.dst import Hit
from rota.domain.rruledays import RuleDays
from rota.domain.rruleparts import Frequency, Parts
from rota.domain.zones import Zone

_UNIT_S: Final = {Frequency.HOURLY: 3600, Frequency.MINUTELY: 60, Frequency.SECONDLY: 1}


@dataclass(frozen=True, slots=True)
class Elapsed:
    """A rule of hours, minutes or seconds: windows of one unit, `step` seconds of elapsed time apart.

    In each window it runs at the `inner` seconds, which are read on the wall clock when `by_wall`: a clock that is
    changed by half an hour moves minute 0 within the window. `limit` says which wall times count.
    """

    zone: Zone
    start: int
    """DTSTART as an instant."""
    unit: int
    step: int
    inner: tuple[int, ...]
    by_wall: bool
    limit: Matcher | None

    def next(self, after: int, budget: Budget) -> Hit | None:
        """The first one after an instant; None: there is none. Raises OutOfSteps where the search was given up."""
        low = max(after + 1, self.start)
        base = self.start - (self.start + self.zone.span(self.start).offset) % self.unit
        while low <= instants.LAST:
            budget.spend()
            window = base + (low - base) // self.step * self.step
            inner = self._inner(window)
            found = bisect_left(inner, low - window)
            if found == len(inner):
                low = window + self.step
                continue
            at = window + inner[found]
            span = self.zone.span(at)
            if self.limit is None:
                return Hit(at, span.offset)
            wall = at + span.offset
            target = self.limit.next(wall, budget)
            if target is None:
                return None
            if target == wall:
                return Hit(at, span.offset)
            low = target - span.offset
            if low >= span.end:
                # As in dst: what the next clock repeats must be looked at before anything is skipped.
                low = span.end if wall > span.end + span.after else max(span.end, target - 2 * DAY)
        return None

    def last(self, count: int) -> int | None:
        """The `count`-th one where arithmetic tells it."""
        return self.start + (count - 1) * self.step if self.limit is None and not self.by_wall else None

    def _inner(self, window: int) -> tuple[int, ...]:
        if not self.by_wall:
            return self.inner
        span = self.zone.span(window)
        inner = self._turned(window + span.offset)
        if span.end < window + self.unit:
            edge = span.end - window
            turned = self._turned(window + span.after)
            inner = tuple(second for second in inner if second < edge) + tuple(s for s in turned if s >= edge)
        return inner

    def _turned(self, wall: int) -> tuple[int, ...]:
        """The inner seconds counted from a window that begins at a wall time."""
        past = wall % self.unit
        return self.inner if not past else tuple(sorted((second - past) % self.unit for second in self.inner))


def elapsed(parts: Parts, start: int, zone: Zone) -> Elapsed:
    """A rule of hours or shorter; `start` is DTSTART as a wall time of the zone."""
    frequency = parts.frequency
    unit = _UNIT_S[frequency]
    minute, second = start // 60 % 60, start % 60
    by_minute, by_second = frequency >= Frequency.MINUTELY, frequency is Frequency.SECONDLY
    inner: Iterable[int] = (0,)
    if frequency is Frequency.HOURLY:
        seconds = parts.seconds or (second,)
        inner = (60 * m + s for m in parts.minutes or (minute,) for s in seconds)
    elif frequency is Frequency.MINUTELY:
        inner = parts.seconds or (second,)
    limited = parts.hours or parts.months or parts.month_days or parts.year_days or parts.weekdays
    limit = None
    if limited or (by_minute and parts.minutes) or (by_second and parts.seconds):
        times = TimesOfDay(
            parts.hours or range(24),
            (by_minute and parts.minutes) or range(60),
            (by_second and parts.seconds) or range(60),
        )
        days = Parts(
            Frequency.DAILY,
            months=parts.months,
            month_days=parts.month_days,
            year_days=parts.year_days,
            weekdays=parts.weekdays,
        )
        limit = RuleDays(days, civil.FIRST_DAY * DAY, times)
    return Elapsed(
        zone,
        zone.instant(start),
        unit,
        parts.interval * unit,
        tuple(sorted(inner)),
        by_wall=bool((not by_minute and parts.minutes) or (not by_second and parts.seconds)),
        limit=limit,
    )
