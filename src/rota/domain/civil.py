"""Civil time as numbers: days and seconds counted from 1970-01-01 on a clock on the wall, without a zone.

A *wall time* is an int, seconds since 1970-01-01T00:00:00 as a clock on the wall shows them. Rules of cron and of
RFC 5545 are matched on it; `rota.domain.dst` turns it into instants.

Every matcher works month by month: a rule gives the days of a month as the bits of an int, bit 1 for the first, so
that a search costs a few shifts for each month and not a look at each day.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Final, Protocol

from rota.domain import limits

DAY: Final = 86_400
EPOCH: Final = datetime(1970, 1, 1)
EPOCH_ORDINAL: Final = EPOCH.toordinal()
FIRST_DAY: Final = date(2, 1, 1).toordinal() - EPOCH_ORDINAL
LAST_YEAR: Final = 9990
"""A margin at both ends of the calendar keeps every offset, shift and change of a clock inside it."""

ALL_DAYS: Final = (1 << 32) - 2

_LENGTHS: Final = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_EVERY_SEVENTH: Final = sum(1 << day for day in range(1, 36, 7))
_MONTHS_SEARCHED: Final = 12 * limits.RULE_SEARCH_YEARS


class OutOfSteps(Exception):
    """A search found nothing within its bound. It says nothing of what lies beyond."""


class Budget:
    """The steps that one search may take, so that no rule can stall the schedules beside it."""

    __slots__ = ("left",)

    def __init__(self, steps: int = limits.RULE_STEPS_MAX) -> None:
        self.left = steps

    def spend(self, steps: int = 1) -> None:
        self.left -= steps
        if self.left < 0:
            raise OutOfSteps


class Matcher(Protocol):
    """A rule on the wall clock."""

    def next(self, wall: int, budget: Budget) -> int | None:
        """The first match at or after `wall`; None: there is none to the end of the calendar.

        Raises OutOfSteps where the search was given up.
        """


def is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def month_length(year: int, month: int) -> int:
    return 29 if month == 2 and is_leap(year) else _LENGTHS[month]


def month_lengths(month: int) -> tuple[int, ...]:
    """The lengths that a month has, in one year or another."""
    return (28, 29) if month == 2 else (_LENGTHS[month],)


def day_number(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01."""
    return date(year, month, day).toordinal() - EPOCH_ORDINAL


def date_of(day: int) -> date:
    """The date of a day number."""
    return date.fromordinal(day + EPOCH_ORDINAL)


def weekday(day: int) -> int:
    """The weekday of a day number, 0 for Sunday."""
    return (day + 4) % 7


def wall_of(at: datetime) -> int:
    """The wall time of a naive datetime; fractions of a second are cut."""
    span = at - EPOCH
    return span.days * DAY + span.seconds


def text_of(wall: int) -> str:
    """2026-03-08T02:30:00"""
    return (EPOCH + timedelta(seconds=wall)).isoformat()


def weekday_mask(weekdays: Iterable[int], first_weekday: int) -> int:
    """The days of a month, whose first day is a `first_weekday`, that fall on `weekdays` (0 is Sunday)."""
    mask = 0
    for day in weekdays:
        mask |= _EVERY_SEVENTH << (day - first_weekday) % 7
    return mask & ALL_DAYS


def lowest(mask: int) -> int:
    """The number of the lowest bit that is set."""
    return (mask & -mask).bit_length() - 1


def bits(mask: int) -> list[int]:
    """The numbers of all bits that are set, ascending."""
    return [number for number in range(mask.bit_length()) if mask >> number & 1]


class TimesOfDay:
    """The seconds of a day whose hour, minute and second are each in a set. The sets must not be empty."""

    __slots__ = ("_hours", "_lists", "_minutes", "_seconds", "count", "first")

    def __init__(self, hours: Iterable[int], minutes: Iterable[int], seconds: Iterable[int]) -> None:
        self._hours, self._minutes, self._seconds = (
            sum(1 << number for number in set(numbers)) for numbers in (hours, minutes, seconds)
        )
        self._lists = bits(self._hours), bits(self._minutes), bits(self._seconds)
        self.count = self._hours.bit_count() * self._minutes.bit_count() * self._seconds.bit_count()
        self.first = lowest(self._hours) * 3600 + lowest(self._minutes) * 60 + lowest(self._seconds)

    def next(self, second: int) -> int:
        """The first of them at or after a second of the day; -1: none that day."""
        hour, rest = divmod(second, 3600)
        minute, second = divmod(rest, 60)
        if self._hours >> hour & 1:
            if self._minutes >> minute & 1:
                later = self._seconds >> second
                if later:
                    return hour * 3600 + minute * 60 + second + lowest(later)
            later = self._minutes >> minute + 1
            if later:
                return hour * 3600 + (minute + 1 + lowest(later)) * 60 + lowest(self._seconds)
        later = self._hours >> hour + 1
        if later:
            return (hour + 1 + lowest(later)) * 3600 + self.first % 3600
        return -1

    def nth(self, index: int) -> int:
        """The second of the day of the `index`-th of them, from 0."""
        hours, minutes, seconds = self._lists
        rest, second = divmod(index, len(seconds))
        hour, minute = divmod(rest, len(minutes))
        return hours[hour] * 3600 + minutes[minute] * 60 + seconds[second]


class MonthMatcher(ABC):
    """A matcher whose days are given a month at a time, and whose times are the same on each of its days."""

    def __init__(self, times: TimesOfDay) -> None:
        self.times = times

    @abstractmethod
    def days(self, year: int, month: int, first_day: int) -> int:
        """The days of a month that match, as bits; `first_day` is the day number of its first. Bits beyond the end of
        the month must be clear.
        """

    def next(self, wall: int, budget: Budget) -> int | None:
        """The first match at or after `wall`."""
        day, second = divmod(wall, DAY)
        day = max(day, FIRST_DAY)
        at = date.fromordinal(day + EPOCH_ORDINAL)
        year, month, first_day = at.year, at.month, day - at.day + 1
        mask = self.days(year, month, first_day) >> at.day
        if mask & 1:
            found = self.times.next(second)
            if found >= 0:
                return day * DAY + found
        mask >>= 1
        if mask:
            return (day + 1 + lowest(mask)) * DAY + self.times.first
        for _ in range(_MONTHS_SEARCHED):
            budget.spend()
            first_day += month_length(year, month)
            month += 1
            if month > 12:
                year, month = year + 1, 1
                if year > LAST_YEAR:
                    return None
            mask = self.days(year, month, first_day)
            if mask:
                return (first_day - 1 + lowest(mask)) * DAY + self.times.first
        raise OutOfSteps


class OneWall:
    """A single wall time as a matcher."""

    __slots__ = ("_wall",)

    def __init__(self, wall: int) -> None:
        self._wall = wall

    def next(self, wall: int, budget: Budget) -> int | None:
        return self._wall if wall <= self._wall else None
