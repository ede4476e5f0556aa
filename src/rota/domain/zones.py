"""Time zones by IANA name, from the data that ships with Rota (the `tzdata` package) and from nowhere else.

The machine's own files are never read: two coordinators on two machines must name the same instant. What `zoneinfo`
does not tell, when an offset changes, is read here from the same files; the tests hold both against each other for
every zone.

A zone is a row of *spans*, stretches of real time with one offset. Instants are seconds since 1970 in UTC, wall times
as in `rota.domain.civil`, offsets seconds east of UTC.
"""

import re
import struct
from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from rota.domain import civil, limits
from rota.domain.civil import DAY
from rota.domain.text import refusal

BEGINNING: Final = -(1 << 62)
END: Final = 1 << 62
"""Before and after every instant that a schedule can have."""

_REACH: Final = 2 * DAY
"""More than any wall time and the instants that show it lie apart."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_YEARS_KEPT: Final = range(1900, 2200)
_LISTED_FROM: Final = civil.day_number(1900, 1, 1) * DAY


class Span(NamedTuple):
    """Real time in [start, end) with one offset; `before` and `after` are the offsets on either side of it."""

    start: int
    end: int
    offset: int
    before: int
    after: int


class Zone:
    """One zone of the shipped data."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        changes, self._yearly = _parse(data)
        self._rules_from = changes[-1][0] if self._yearly else END
        self._spans = _spans(changes)
        self._starts = [span.start for span in self._spans]
        self._years: dict[int, list[Span]] = {}
        self.utc = self._spans == [Span(BEGINNING, END, 0, 0, 0)]
        """It is UTC, whatever it is called."""

    def span(self, at: int) -> Span:
        """The span that an instant lies in."""
        if at < self._rules_from:
            return self._spans[bisect_right(self._starts, at) - 1]
        year = civil.date_of(at // DAY).year
        spans = self._years.get(year)
        if spans is None:
            spans = self._year(year)
        for span in spans:
            if at < span.end:
                return span
        raise AssertionError(f"{self.name} has no span at {at}")

    def instants(self, wall: int) -> list[int]:
        """The instants that show a wall time: one, two where the clock was put back, none where it was put forward."""
        found = []
        at = wall - _REACH
        while at <= wall + _REACH:
            span = self.span(at)
            if span.start <= wall - span.offset < span.end:
                found.append(wall - span.offset)
            at = span.end
        return found

    def instant(self, wall: int) -> int:
        """The first instant that shows a wall time; where none does, the wall time shifted by the gap."""
        found = self.instants(wall)
        if found:
            return found[0]
        at = wall - _REACH
        while True:
            span = self.span(at)
            # In a gap: the wall time has passed by this span's clock, and not yet begun by the next one's.
            if span.end + span.offset <= wall < span.end + span.after:
                return wall - span.offset
            at = span.end

    def local(self, at: int) -> str:
        """An instant on the wall clock with its offset: 2026-03-08T03:00:00-04:00."""
        return stamp(at + (offset := self.span(at).offset), offset)

    def abbreviation(self, at: int) -> str:
        """What people call the time at an instant, for example EDT."""
        return (_EPOCH + timedelta(seconds=at)).astimezone(_zoneinfo(self.name)).tzname() or ""

    def _year(self, year: int) -> list[Span]:
        """The spans that reach into one year after the listed changes, by the yearly rule."""
        assert self._yearly is not None
        near = [change for y in (year - 1, year, year + 1) for change in self._yearly.changes(y)]
        last = self._spans[-1]
        spans = _spans([(BEGINNING, last.offset), *(change for change in near if change[0] > self._rules_from)])
        # Right in the year of the last listed change; in later years this span has ended before.
        spans[0] = spans[0]._replace(start=last.start, before=last.before)
        begins, ends = civil.day_number(year, 1, 1) * DAY, civil.day_number(year + 1, 1, 1) * DAY
        spans = [span for span in spans if span.end > begins and span.start < ends]
        if year in _YEARS_KEPT:
            self._years[year] = spans
        return spans


def find(name: str, field: str = "time_zone") -> Zone:
    """The zone of that IANA name. Raises InvalidArgument for `field`, with a hint at what is probably meant."""
    if name not in names():
        raise refusal(field, name, "the name of an IANA time zone such as Europe/Berlin", _hint(name))
    return _load(name)


@lru_cache(maxsize=1024)
def _load(name: str) -> Zone:
    return Zone(name, _file(name).read_bytes())


@cache
def names() -> frozenset[str]:
    """The names that are taken: all of the data's but those that stand for no place and no rule people can mean."""
    listed = files("tzdata").joinpath("zones").read_text("ascii").split()
    return frozenset(listed) - {"Factory"} - _ABBREVIATIONS.keys()


@cache
def version() -> str:
    """The edition of the data, for example 2026b."""
    with files("tzdata").joinpath("zoneinfo", "tzdata.zi").open("r", encoding="utf-8") as file:
        return file.readline().removeprefix("# version ").strip()


def stamp(wall: int, offset: int, micros: int = 0) -> str:
    """A wall time with its offset: 2026-03-08T03:00:00-04:00; seconds of an offset only where it has some."""
    minutes, seconds = divmod(abs(offset), 60)
    fraction = f".{micros:06}" if micros else ""
    tail = f":{seconds:02}" if seconds else ""
    return f"{civil.text_of(wall)}{fraction}{'-' if offset < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}{tail}"


def _file(name: str) -> Traversable:
    return files("tzdata").joinpath("zoneinfo", *name.split("/"))


@lru_cache(maxsize=1024)
def _zoneinfo(name: str) -> ZoneInfo:
    with _file(name).open("rb") as stream:
        return ZoneInfo.from_file(stream, name)


def _spans(changes: list[tuple[int, int]]) -> list[Span]:
    """Spans from (instant, offset from then on), the first of which counts from the beginning."""
    real = [changes[0]]
    for change in changes[1:]:
        if change[1] != real[-1][1]:
            real.append(change)
    offsets = [offset for _, offset in real]
    edges = [BEGINNING, *(at for at, _ in real[1:]), END]
    return [
        Span(edges[i], edges[i + 1], offset, offsets[max(i - 1, 0)], offsets[min(i + 1, len(offsets) - 1)])
        for i, offset in enumerate(offsets)
    ]


class _Yearly(NamedTuple):
    """The rule at the end of a zone's file: summer time from one day of the year to another."""

    standard: int
    summer: int
    begin: str
    end: str

    def changes(self, year: int) -> list[tuple[int, int]]:
        """Its two changes in a year, by time."""
        begin = (_day_rule(self.begin, year) - self.standard, self.summer)
        end = (_day_rule(self.end, year) - self.summer, self.standard)
        return [begin, end] if begin < end else [end, begin]


_POSIX_NAME: Final = r"(?:<[^>]+>|[A-Za-z]+)"
_POSIX: Final = re.compile(
    rf"{_POSIX_NAME}(?P<standard>[+-]?[\d:]+)(?:{_POSIX_NAME}(?P<summer>[+-]?[\d:]+)?,(?P<begin>[^,]+),(?P<end>[^,]+))?"
)


def _parse(data: bytes) -> tuple[list[tuple[int, int]], _Yearly | None]:
    """Reads a TZif file (RFC 9636): its changes, and the yearly rule that goes on after the last of them."""
    leap, std, ut, times, types, chars = _counts(data, 0)
    second = 44 + times * 5 + types * 6 + chars + leap * 8 + std + ut
    leap, std, ut, times, types, chars = _counts(data, second)
    at = second + 44
    instants = struct.unpack_from(f">{times}q", data, at)
    kinds = data[at + times * 8 : at + times * 9]
    offsets = [struct.unpack_from(">i", data, at + times * 9 + kind * 6)[0] for kind in range(types)]
    changes = [(BEGINNING, offsets[0]), *((t, offsets[kind]) for t, kind in zip(instants, kinds, strict=True))]
    footer = data[at + times * 9 + types * 6 + chars + leap * 12 + std + ut :].decode("ascii").strip("\n")
    rule = _POSIX.fullmatch(footer)
    if rule is None or rule["begin"] is None:
        return changes, None
    standard = -_clock(rule["standard"])
    summer = -_clock(rule["summer"]) if rule["summer"] else standard + 3600
    yearly = _Yearly(standard, summer, rule["begin"], rule["end"])
    last = instants[-1] if instants else _LISTED_FROM
    year = civil.date_of(last // DAY).year
    # The last change listed may be one of name only; what the rule goes on from must be a change of offset.
    changes += [change for y in (year, year + 1) for change in yearly.changes(y) if change[0] > last]
    return changes, yearly


def _counts(data: bytes, at: int) -> tuple[int, int, int, int, int, int]:
    ut, std, leap, times, types, chars = struct.unpack_from(">6l", data, at + 20)
    return leap, std, ut, times, types, chars


def _clock(text: str) -> int:
    """Seconds of [+-]h[:mm[:ss]]."""
    hours, minutes, seconds = [*map(int, text.lstrip("+-").split(":")), 0, 0][:3]
    span = hours * 3600 + minutes * 60 + seconds
    return -span if text.startswith("-") else span


def _day_rule(text: str, year: int) -> int:
    """The wall time in a year of Mm.w.d, Jn or n, each with /time or at 02:00."""
    day, _, clock = text.partition("/")
    second = _clock(clock) if clock else 7200
    if not day.startswith("M"):
        number = int(day.removeprefix("J"))
        if day.startswith("J"):
            # Counted from 1 and without 29 February.
            number += -1 + (civil.is_leap(year) and number >= 60)
        return (civil.day_number(year, 1, 1) + number) * DAY + second
    month, week, weekday = map(int, day[1:].split("."))
    first = civil.day_number(year, month, 1)
    found = first + (weekday - civil.weekday(first)) % 7 + 7 * (week - 1)
    while found >= first + civil.month_length(year, month):
        found -= 7
    return found * DAY + second


_ABBREVIATIONS: Final = {
    "ACST": "Australia/Darwin",
    "AEDT": "Australia/Sydney",
    "AEST": "Australia/Sydney or Australia/Brisbane",
    "AKST": "America/Anchorage",
    "AST": "America/Halifax or Asia/Riyadh",
    "AWST": "Australia/Perth",
    "BRT": "America/Sao_Paulo",
    "BST": "Europe/London, Asia/Dhaka or Pacific/Bougainville",
    "CDT": "America/Chicago or America/Havana",
    "CEST": "Europe/Berlin",
    "CST": "America/Chicago, Asia/Shanghai or America/Havana",
    "EAT": "Africa/Nairobi",
    "EDT": "America/New_York",
    "EEST": "Europe/Helsinki",
    "EST": "America/New_York, or America/Panama for UTC-5 all year",
    "HKT": "Asia/Hong_Kong",
    "HST": "Pacific/Honolulu",
    "IST": "Asia/Kolkata, Europe/Dublin or Asia/Jerusalem",
    "JST": "Asia/Tokyo",
    "KST": "Asia/Seoul",
    "MDT": "America/Denver",
    "MSK": "Europe/Moscow",
    "MST": "America/Denver, or America/Phoenix for UTC-7 all year",
    "NZST": "Pacific/Auckland",
    "NZDT": "Pacific/Auckland",
    "PDT": "America/Los_Angeles",
    "PKT": "Asia/Karachi",
    "PST": "America/Los_Angeles or Asia/Manila",
    "SAST": "Africa/Johannesburg",
    "SGT": "Asia/Singapore",
    "WEST": "Europe/Lisbon",
    "WIB": "Asia/Jakarta",
    "Z": "UTC",
}
"""Most mean several places, or half the year only. EST, HST and MST are names of the data too, without the summer time
that people who write them expect."""

_WINDOWS: Final = {
    "AUS Eastern": "Australia/Sydney",
    "Arabian": "Asia/Dubai",
    "Central": "America/Chicago",
    "Central Europe": "Europe/Budapest",
    "Central European": "Europe/Warsaw",
    "China": "Asia/Shanghai",
    "E. South America": "America/Sao_Paulo",
    "Eastern": "America/New_York",
    "Egypt": "Africa/Cairo",
    "FLE": "Europe/Kyiv",
    "GMT": "Europe/London",
    "GTB": "Europe/Bucharest",
    "Greenwich": "Atlantic/Reykjavik",
    "India": "Asia/Kolkata",
    "Israel": "Asia/Jerusalem",
    "Korea": "Asia/Seoul",
    "Mountain": "America/Denver",
    "New Zealand": "Pacific/Auckland",
    "Pacific": "America/Los_Angeles",
    "Romance": "Europe/Paris",
    "Russian": "Europe/Moscow",
    "Singapore": "Asia/Singapore",
    "South Africa": "Africa/Johannesburg",
    "Tokyo": "Asia/Tokyo",
    "Turkey": "Europe/Istanbul",
    "W. Europe": "Europe/Berlin",
}

_OFFSET: Final = re.compile(r"(?P<base>UTC|GMT|Z)? ?(?P<sign>[+-−])(?P<hours>\d{1,2})(?::?(?P<minutes>\d\d))?")
_WINDOWS_NAME: Final = re.compile(r"(.+) (?:Standard|Daylight|Summer) Time")


def _hint(name: str) -> str:
    """The remedy for a name that is not taken."""
    if not name.strip():
        return "write UTC where no place is meant"
    if len(name) > limits.TIME_ZONE_CHARS_MAX:
        return f"no name has more than {limits.TIME_ZONE_CHARS_MAX} characters"
    if name.strip() in names():
        return f"remove the blanks around {name.strip()}"
    if offset := _OFFSET.fullmatch(name):
        return _offset_hint(offset)
    if name.upper() in _ABBREVIATIONS:
        return f"an abbreviation does not say which place's rules hold; write {_ABBREVIATIONS[name.upper()]}"
    if windows := _WINDOWS_NAME.fullmatch(name):
        known = _WINDOWS.get(windows[1])
        return f"that is a name of Windows; write {known or 'the IANA name of a city with the same time'}"
    if name.startswith(("right/", "posix/")) or name in ("localtime", "posixrules", "Factory"):
        return "that depends on the machine or counts leap seconds; name a place"
    if near := _by_key().get(_key(name)):
        return f"write {near}, exactly so"
    return "the names are those of the IANA time zone database, a region and a city"


def _offset_hint(found: re.Match[str]) -> str:
    hours, minutes = int(found["hours"]), int(found["minutes"] or 0)
    east = found["sign"] == "+"
    # The sign of these names is that of POSIX: west is positive.
    same = f"Etc/GMT{'-' if east else '+'}{hours}"
    if minutes or same not in names():
        return "an offset does not say when the clocks change; name a place"
    return (
        f"an offset does not say when the clocks change; name a place, or write {same} for "
        f"UTC{found['sign']}{hours:02}:00 all year"
    )


def _key(name: str) -> str:
    return "".join(c for c in name.casefold() if c.isalnum() or c in "/+-")


@cache
def _by_key() -> dict[str, str]:
    """Names by their letters alone, and by those of their city alone."""
    found: dict[str, str] = {}
    for name in sorted(names()):
        city = name.rpartition("/")[2]
        if name.partition("/")[0] not in ("Etc", "US", "Canada", "Brazil", "Chile", "Mexico"):
            found.setdefault(_key(city), name)
    return found | {_key(name): name for name in names()}
