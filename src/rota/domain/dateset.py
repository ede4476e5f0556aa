"""Dates on which nothing fires: a schedule's own, and those of the calendars that it names."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from rota.domain import limits
from rota.domain.text import refusal

_DATE: Final = re.compile(r"([0-9]{4}|-)-([0-9]{2})-([0-9]{2})")


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
