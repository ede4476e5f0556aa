"""Recurrence rules of RFC 5545: their text, read into what it matches.

The text is one RRULE, with DTSTART, RDATE and EXDATE as needed, each on a line of iCalendar; or the value of the RRULE
alone. `rruleparts` reads that value.

A rule of days or longer is matched on the wall clock (`rruledays`): its wall times become instants in `dst`. One of
hours, minutes or seconds steps in elapsed time from DTSTART (`rruleelapsed`). Nothing walks from DTSTART: a search
begins where it is asked to, by arithmetic.
"""

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NoReturn

from rota.domain import civil, instants, limits, rruledays, rruleelapsed, rruleparts
from rota.domain.civil import Matcher
from rota.domain.rruleelapsed import Elapsed
from rota.domain.rruleparts import Frequency, Parts
from rota.domain.text import refusal
from rota.domain.zones import Zone

_DATE_TIME: Final = re.compile(r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})T([0-9]{2}):?([0-9]{2}):?([0-9]{2})(Z)?")
_BARE_RULE: Final = re.compile(r"[A-Za-z]+=")


@dataclass(frozen=True, slots=True)
class Moment:
    """A date-time of iCalendar: a wall time, or with `utc` an instant."""

    value: int
    utc: bool


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A parsed text. Either `matcher` or `elapsed` is set."""

    rule: str
    """The value of the RRULE."""
    start: int
    """DTSTART as a wall time."""
    matcher: Matcher | None
    elapsed: Elapsed | None
    count: int | None
    until: int | None
    """The last instant that may be one."""
    added: tuple[Moment, ...]
    removed: tuple[Moment, ...]
    warnings: tuple[str, ...]


def parse(text: str, zone: Zone, start: int | None, at: str) -> Recurrence:
    """Reads a text. `start` is the wall time that stands in for a DTSTART it does not have.

    Raises InvalidArgument for the field of the request named `at`.
    """
    return _Parser(zone, at).parse(text, start)


def date_time(text: str) -> Moment:
    """Reads 20260308T023000 or, as an instant, 20260308T023000Z; dashes and colons may stand between.

    Raises ValueError.
    """
    found = _DATE_TIME.fullmatch(text)
    if not found:
        raise ValueError("not a date-time")
    wall = civil.wall_of(datetime(*map(int, found.groups()[:6])))  # type: ignore[arg-type]
    if not instants.FIRST <= wall < instants.LAST:
        raise ValueError("out of the calendar")
    return Moment(wall, utc=bool(found[7]))


def _basic(text: str) -> Moment:
    """Reads a date-time as iCalendar writes it."""
    if "-" in text or ":" in text:
        raise ValueError("not the basic form")
    return date_time(text)


@dataclass(slots=True)
class _Lines:
    rules: list[str] = field(default_factory=list)
    starts: list[Moment] = field(default_factory=list)
    added: list[Moment] = field(default_factory=list)
    removed: list[Moment] = field(default_factory=list)


class _Parser:
    def __init__(self, zone: Zone, at: str) -> None:
        self._zone = zone
        self._at = at

    def parse(self, text: str, start: int | None) -> Recurrence:
        lines = self._lines(text)
        if len(lines.rules) != 1:
            self._refuse("", text, "one RRULE", "make a schedule of each rule")
        if len(lines.starts) > 1:
            self._refuse("DTSTART", text, "it once", "remove the others")
        if lines.starts:
            start = self._start(lines.starts[0])
        if start is None:
            self._refuse("DTSTART", text, "a line such as DTSTART:20260308T023000", "say when the rule begins")
        parts = rruleparts.parse(lines.rules[0], self._at)
        until = self._until(parts)
        matcher = elapsed = None
        if parts.frequency >= Frequency.HOURLY:
            elapsed = rruleelapsed.elapsed(parts, start, self._zone)
        else:
            matcher = rruledays.matcher(parts, start)
        return Recurrence(
            lines.rules[0],
            start,
            matcher,
            elapsed,
            parts.count,
            until,
            tuple(lines.added),
            tuple(lines.removed),
            _warnings(parts, start),
        )

    def _lines(self, text: str) -> _Lines:
        if len(text) > limits.RRULE_BYTES_MAX:
            self._refuse("", text, f"at most {limits.RRULE_BYTES_MAX} bytes", "make several schedules of it")
        for position, character in enumerate(text, 1):
            if not " " <= character <= "~" and character not in "\r\n\t":
                what = f"U+{ord(character):04X} at position {position}"
                self._refuse("", text, "printable ASCII in lines", f"remove the character {what}")
        found = _Lines()
        # A line that begins with a blank goes on with the line before it.
        for line in re.sub(r"\r?\n[ \t]", "", text.strip()).splitlines():
            line = line.strip()
            if _BARE_RULE.match(line):
                found.rules.append(line)
            elif line:
                self._line(line, found)
        for name, moments in (("RDATE", found.added), ("EXDATE", found.removed)):
            if len(moments) > limits.RRULE_DATES_MAX:
                self._refuse(
                    name, str(len(moments)), f"at most {limits.RRULE_DATES_MAX} dates", "make several schedules of it"
                )
        return found

    def _line(self, line: str, found: _Lines) -> None:
        head, colon, value = line.partition(":")
        name, *parameters = head.split(";")
        name = name.upper()
        if name == "RRULE" and colon and not parameters:
            found.rules.append(value)
            return
        into = {"DTSTART": found.starts, "RDATE": found.added, "EXDATE": found.removed}.get(name)
        if into is None or not colon:
            remedy = "leave the line out"
            if name == "EXRULE":
                remedy = "write the dates that do not run as EXDATE, or as exclusions of the schedule"
            self._refuse("", line, "lines RRULE, DTSTART, RDATE and EXDATE", remedy)
        zoned = self._parameters(name, parameters)
        if len(value) > limits.RRULE_BYTES_MAX:
            self._refuse(name, value, "fewer dates", "make several schedules of it")
        into += [self._moment(name, item, zoned=zoned) for item in value.split(",")]

    def _parameters(self, name: str, parameters: list[str]) -> bool:
        """Whether the line names its zone, which must be the schedule's."""
        zoned = False
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            value = value.strip('"')
            if key.upper() == "TZID":
                zoned = True
                if value != self._zone.name:
                    self._refuse(
                        name, value, f"the schedule's time zone as TZID: {self._zone.name}", "make both the same"
                    )
            elif (key.upper(), value.upper()) != ("VALUE", "DATE-TIME"):
                remedy = "write date-times; whole days that do not run are exclusions of the schedule"
                self._refuse(name, parameter, "TZID or VALUE=DATE-TIME", remedy)
        return zoned

    def _moment(self, name: str, text: str, *, zoned: bool) -> Moment:
        try:
            found = _basic(text)
        except ValueError:
            self._refuse(name, text, "a date-time such as 20260308T023000", "write date and time, both without dashes")
        if found.utc and zoned:
            self._refuse(name, text, "a local time after TZID", "remove the Z, or the TZID")
        return found

    def _start(self, moment: Moment) -> int:
        if moment.utc and not self._zone.utc:
            self._refuse(
                "DTSTART",
                civil.text_of(moment.value) + "Z",
                f"a local time in {self._zone.name}",
                "remove the Z, or make the time zone UTC",
            )
        return moment.value

    def _until(self, parts: Parts) -> int | None:
        if not parts.until:
            return None
        try:
            found = _basic(parts.until)
        except ValueError:
            remedy = "correct it; dashes, colons and offsets are not part of it"
            if re.fullmatch(r"[0-9]{8}", parts.until):
                remedy = f"say when on that day it ends, as {parts.until}T235959 in the schedule's zone"
            self._refuse("UNTIL", parts.until, "a date-time such as 20261231T225959Z", remedy)
        if found.utc:
            return found.value
        return max(self._zone.instants(found.value), default=self._zone.instant(found.value))

    def _refuse(self, part: str, found: str, expected: str, remedy: str) -> NoReturn:
        raise refusal(self._at, found, expected, remedy, part=part)


def _warnings(parts: Parts, start: int) -> tuple[str, ...]:
    """Readings that surprise."""
    found = []
    if parts.frequency is Frequency.YEARLY and parts.month_days and not parts.months:
        found.append("YEARLY with BYMONTHDAY and without BYMONTH runs every month; for once a year add BYMONTH")
    day = civil.date_of(start // civil.DAY).day
    monthly = parts.frequency is Frequency.MONTHLY
    if monthly and (max(parts.month_days, default=0) > 28 or (day > 28 and not (parts.month_days or parts.weekdays))):
        found.append("months without that day are skipped; for the last day of each month write BYMONTHDAY=-1")
    return tuple(found)
