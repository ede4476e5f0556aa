"""The parts of an RRULE (RFC 5545 3.3.10), each read and checked by itself and beside the others.

The RFC's own grammar lets a text ask for work without end; here each part stands once, INTERVAL is at least 1 and
bounded, COUNT is bounded, and BYSETPOS is for days and longer.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NoReturn

from rota.domain import limits
from rota.domain.civil import DAY
from rota.domain.text import refusal


class Frequency(IntEnum):
    """FREQ, from the longest."""

    YEARLY = 1
    MONTHLY = 2
    WEEKLY = 3
    DAILY = 4
    HOURLY = 5
    MINUTELY = 6
    SECONDLY = 7


_INTERVAL_MAX: Final = {
    Frequency.YEARLY: limits.RULE_SEARCH_YEARS,
    Frequency.MONTHLY: limits.RULE_SEARCH_YEARS * 12,
    Frequency.WEEKLY: limits.RULE_SEARCH_YEARS * 52,
    Frequency.DAILY: limits.RULE_SEARCH_YEARS * 365,
    Frequency.HOURLY: limits.RULE_SEARCH_YEARS * 365 * 24,
    Frequency.MINUTELY: limits.RULE_SEARCH_YEARS * 365 * 1440,
    Frequency.SECONDLY: limits.RULE_SEARCH_YEARS * 365 * DAY,
}
_WEEKDAYS: Final = ("SU", "MO", "TU", "WE", "TH", "FR", "SA")
_LIST_MAX: Final = 400


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of an RRULE, read and checked. Empty lists are parts that were not given; Sunday is weekday 0."""

    frequency: Frequency
    interval: int = 1
    count: int | None = None
    until: str = ""
    week_start: int = 1
    months: tuple[int, ...] = ()
    week_numbers: tuple[int, ...] = ()
    year_days: tuple[int, ...] = ()
    month_days: tuple[int, ...] = ()
    weekdays: tuple[tuple[int, int], ...] = ()
    """(weekday, n): the n-th from the beginning or, negative, the end; 0: each."""
    hours: tuple[int, ...] = ()
    minutes: tuple[int, ...] = ()
    seconds: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()


def parse(text: str, at: str) -> Parts:
    """Reads the value of an RRULE. Raises InvalidArgument for the field of the request named `at`."""

    def refuse(part: str, found: str, expected: str, remedy: str) -> NoReturn:
        raise refusal(at, found, expected, remedy, part=part)

    given: dict[str, str] = {}
    for part in text.split(";"):
        key, equals, value = part.strip().upper().partition("=")
        if not equals or not value:
            refuse("RRULE", part, "parts such as FREQ=DAILY between semicolons", "correct or remove this one")
        if key in given:
            refuse("RRULE", part, f"{key} once", "remove one of them")
        if key not in _READERS and key != "FREQ":
            remedy = f"leave it out; known are FREQ {' '.join(_READERS)}"
            refuse("RRULE", part, "a part of RFC 5545", remedy)
        given[key] = value
    if "FREQ" not in given:
        refuse("RRULE", text, "FREQ", f"add FREQ= and one of {' '.join(f.name for f in Frequency)}")
    name = given.pop("FREQ")
    if name not in Frequency.__members__:
        refuse("FREQ", name, f"one of {' '.join(f.name for f in Frequency)}", "correct it")
    values: dict[str, Any] = {}
    for key, value in given.items():
        attribute, expected, read = _READERS[key]
        try:
            values[attribute] = read(value)
        except ValueError:
            refuse(key, value, expected, "correct it")
    parts = Parts(Frequency[name], **values)
    _check(parts, given, at)
    return parts


def _check(parts: Parts, given: dict[str, str], at: str) -> None:
    """What RFC 5545 3.3.10 forbids beyond the grammar, and what would be work without end."""
    name, frequency = parts.frequency.name, parts.frequency

    def forbid(key: str, expected: str, remedy: str) -> NoReturn:
        raise refusal(at, given.get(key, name), expected, remedy, part=key)

    if parts.interval > _INTERVAL_MAX[frequency]:
        forbid("INTERVAL", f"at most {_INTERVAL_MAX[frequency]} with {name}", "take a longer FREQ, or single dates")
    if parts.until and parts.count:
        forbid("COUNT", "COUNT or UNTIL", "remove one of them")
    if parts.week_numbers and frequency is not Frequency.YEARLY:
        forbid("BYWEEKNO", "FREQ=YEARLY with it", "use BYMONTH or BYDAY")
    if parts.year_days and frequency in (Frequency.DAILY, Frequency.WEEKLY, Frequency.MONTHLY):
        forbid("BYYEARDAY", "FREQ=YEARLY, or HOURLY and shorter, with it", "use BYMONTH and BYMONTHDAY")
    if parts.month_days and frequency is Frequency.WEEKLY:
        forbid("BYMONTHDAY", "another FREQ than WEEKLY", "use MONTHLY")
    if any(n for _, n in parts.weekdays):
        if frequency not in (Frequency.MONTHLY, Frequency.YEARLY):
            forbid("BYDAY", f"days without numbers with {name}", "use FREQ=MONTHLY for the n-th such day")
        if parts.week_numbers:
            forbid("BYDAY", "days without numbers with BYWEEKNO", "remove the numbers")
        if frequency is Frequency.MONTHLY and any(abs(n) > 5 for _, n in parts.weekdays):
            forbid("BYDAY", "-5 to 5 before a day with MONTHLY", "a month has at most five of each")
    if parts.positions:
        if frequency >= Frequency.HOURLY:
            forbid("BYSETPOS", "FREQ=DAILY or longer with it", "name the minutes and seconds")
        if not any(key.startswith("BY") and key != "BYSETPOS" for key in given):
            forbid("BYSETPOS", "another BY part beside it", "say what is counted, as BYDAY=MO,TU,WE,TH,FR")


def _integer(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", text) or not low <= int(text) <= high:
            raise ValueError
        return int(text)

    return read


def _list(low: int, high: int, *, negative: bool = False) -> Callable[[str], tuple[int, ...]]:
    def read(text: str) -> tuple[int, ...]:
        return tuple(sorted({one(item) for item in _split(text)}))

    def one(item: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,4}" if negative else r"[0-9]{1,4}", item):
            raise ValueError
        if not low <= abs(int(item)) <= high:
            raise ValueError
        return int(item)

    return read


def _split(text: str) -> list[str]:
    items = text.split(",")
    if len(items) > _LIST_MAX:
        raise ValueError
    return items


def _weekday_list(text: str) -> tuple[tuple[int, int], ...]:
    found = set()
    for item in _split(text):
        number, name = item[:-2], item[-2:]
        if name not in _WEEKDAYS or not re.fullmatch(r"([+-]?[0-9]{1,2})?", number):
            raise ValueError
        n = int(number or 0)
        if number and not 1 <= abs(n) <= 53:
            raise ValueError
        found.add((_WEEKDAYS.index(name), n))
    return tuple(sorted(found))


def _week_start(text: str) -> int:
    return _WEEKDAYS.index(text)


_READERS: Final[dict[str, tuple[str, str, Callable[[str], object]]]] = {
    "UNTIL": ("until", "a date-time such as 20261231T225959Z", str),
    "COUNT": (
        "count",
        f"1 to {limits.RRULE_COUNT_MAX} (beyond that the schedule's max_count)",
        _integer(1, limits.RRULE_COUNT_MAX),
    ),
    "INTERVAL": ("interval", "1 or more", _integer(1, 10**18)),
    "BYSECOND": ("seconds", "0 to 59 between commas", _list(0, 59)),
    "BYMINUTE": ("minutes", "0 to 59 between commas", _list(0, 59)),
    "BYHOUR": ("hours", "0 to 23 between commas", _list(0, 23)),
    "BYDAY": (
        "weekdays",
        "MO to SU between commas, each with 1 to 53 or -1 to -53 before it if counted",
        _weekday_list,
    ),
    "BYMONTHDAY": ("month_days", "1 to 31 or -31 to -1 between commas", _list(1, 31, negative=True)),
    "BYYEARDAY": ("year_days", "1 to 366 or -366 to -1 between commas", _list(1, 366, negative=True)),
    "BYWEEKNO": ("week_numbers", "1 to 53 or -53 to -1 between commas", _list(1, 53, negative=True)),
    "BYMONTH": ("months", "1 to 12 between commas", _list(1, 12)),
    "BYSETPOS": ("positions", "1 to 366 or -366 to -1 between commas", _list(1, 366, negative=True)),
    "WKST": ("week_start", "one of MO to SU", _week_start),
}
