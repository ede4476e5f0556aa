"""Recurrence rules of RFC 5545: their grammar, and what they match.

The text is one RRULE, with DTSTART, RDATE and EXDATE as needed, each on a line of iCalendar; or the value of the RRULE
alone. Every rule is read with guards, because the RFC's own grammar lets a text ask for work without end: each part
once, INTERVAL at least 1, COUNT counted and so bounded, no SETPOS below a day.

A rule of days or longer is matched on the wall clock (`MonthMatcher`): its wall times become instants in `dst`. One of
hours, minutes or seconds steps in elapsed time from DTSTART (`Elapsed`), and what limits it is asked of the wall clock
at each step. Nothing walks from DTSTART: a search begins where it is asked to, by arithmetic.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import IntEnum
from typing import Any, Final, NoReturn

from rota.domain import civil, limits
from rota.domain.civil import ALL_DAYS, DAY, Budget, Matcher, MonthMatcher, OutOfSteps, TimesOfDay
from rota.domain.dst import Hit
from rota.domain.text import refusal
from rota.domain.zones import Zone


class Frequency(IntEnum):
    """FREQ, from the longest."""

    YEARLY = 1
    MONTHLY = 2
    WEEKLY = 3
    DAILY = 4
    HOURLY = 5
    MINUTELY = 6
    SECONDLY = 7


_UNIT_S: Final = {Frequency.HOURLY: 3600, Frequency.MINUTELY: 60, Frequency.SECONDLY: 1}
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
_LAST_DAY: Final = civil.day_number(civil.LAST_YEAR, 12, 31)
_LAST_INSTANT: Final = _LAST_DAY * DAY


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
    elapsed: "Elapsed | None"
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
    if not civil.FIRST_DAY * DAY <= wall < _LAST_INSTANT:
        raise ValueError("out of the calendar")
    return Moment(wall, utc=bool(found[7]))


def _basic(text: str) -> Moment:
    """Reads a date-time as iCalendar writes it."""
    if "-" in text or ":" in text:
        raise ValueError("not the basic form")
    return date_time(text)


_DATE_TIME: Final = re.compile(r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})T([0-9]{2}):?([0-9]{2}):?([0-9]{2})(Z)?")


class _RuleDays(MonthMatcher):
    """The days that a rule of days or longer matches, BYSETPOS left aside."""

    def __init__(self, parts: Parts, start: int, times: TimesOfDay) -> None:
        super().__init__(times)
        self.start = start
        self._start_day = start // DAY
        self._parts = parts
        self._months = sum(1 << month for month in parts.months) or (1 << 13) - 2
        first = civil.date_of(self._start_day)
        self._first_year, self._first_month = first.year, first.year * 12 + first.month
        self._first_week = self._start_day - (civil.weekday(self._start_day) - parts.week_start) % 7
        by_year = parts.frequency is Frequency.YEARLY and not parts.months and any(n for _, n in parts.weekdays)
        self._by_date = bool(by_year or parts.year_days or parts.week_numbers)
        self._nth_of_year = by_year
        self._known: dict[tuple[int, ...], int] = {}

    def next(self, wall: int, budget: Budget) -> int | None:
        return super().next(max(wall, self.start), budget)

    def days(self, year: int, month: int, first_day: int) -> int:
        parts = self._parts
        if not self._months >> month & 1:
            return 0
        if parts.frequency is Frequency.YEARLY:
            if (year - self._first_year) % parts.interval:
                return 0
        elif parts.frequency is Frequency.MONTHLY and (year * 12 + month - self._first_month) % parts.interval:
            return 0
        length, weekday = civil.month_length(year, month), (first_day + 4) % 7
        key: tuple[int, ...] = (length, weekday)
        if self._by_date:
            # Week numbers look over the edges of the year, into years that may be leap years.
            key = (month, weekday, *(civil.is_leap(y) for y in (year - 1, year, year + 1)))
        mask = self._known.get(key)
        if mask is None:
            mask = self._known[key] = self._mask(length, weekday) & self._mask_by_date(year, first_day, length)
        if parts.interval > 1:
            if parts.frequency is Frequency.DAILY:
                mask &= self._aligned_days(first_day)
            elif parts.frequency is Frequency.WEEKLY:
                mask &= self._aligned_weeks(first_day)
        return mask

    def period(self, day: int) -> int:
        """The number of the period of the rule's frequency that a day lies in."""
        match self._parts.frequency:
            case Frequency.YEARLY:
                return civil.date_of(day).year
            case Frequency.MONTHLY:
                at = civil.date_of(day)
                return at.year * 12 + at.month - 1
            case Frequency.WEEKLY:
                return (day - self._first_week) // 7
            case _:
                return day

    def days_of(self, period: int) -> list[int]:
        """The day numbers that match in a period."""
        match self._parts.frequency:
            case Frequency.YEARLY:
                months = [(period, month) for month in range(1, 13)]
            case Frequency.MONTHLY:
                months = [(period // 12, period % 12 + 1)]
            case Frequency.WEEKLY:
                first = self._first_week + 7 * period
                return [day for day in range(first, first + 7) if self._matches(day)]
            case _:
                return [period] if self._matches(period) else []
        found = []
        for year, month in months:
            first_day = civil.day_number(year, month, 1)
            found += [first_day - 1 + bit for bit in civil.bits(self.days(year, month, first_day))]
        return found

    def _matches(self, day: int) -> bool:
        at = civil.date_of(day)
        return bool(self.days(at.year, at.month, day - at.day + 1) >> at.day & 1)

    def _mask(self, length: int, first_weekday: int) -> int:
        """What the days of the month and, where they are counted in months, the weekdays leave of a month."""
        parts = self._parts
        end = (2 << length) - 2
        mask = end
        if parts.month_days:
            mask = 0
            for day in parts.month_days:
                number = day if day > 0 else length + 1 + day
                if number >= 1:
                    mask |= 1 << number
        if parts.weekdays and not self._nth_of_year:
            week = civil.weekday_mask((day for day, n in parts.weekdays if not n), first_weekday)
            for day, n in parts.weekdays:
                if n:
                    week |= _nth(day, n, length, first_weekday)
            mask &= week
        return mask & end

    def _mask_by_date(self, year: int, first_day: int, length: int) -> int:
        """What the days and weeks of the year, and weekdays counted in years, leave of a month."""
        if not self._by_date:
            return ALL_DAYS
        parts = self._parts
        first, year_length = civil.day_number(year, 1, 1), 366 if civil.is_leap(year) else 365
        mask = 0
        for bit in range(1, length + 1):
            day = first_day - 1 + bit
            number = day - first
            if parts.year_days and not {number + 1, number - year_length} & set(parts.year_days):
                continue
            if parts.week_numbers and not set(_week_numbers(day, parts.week_start)) & set(parts.week_numbers):
                continue
            if self._nth_of_year:
                nth = number // 7 + 1, -((year_length - 1 - number) // 7) - 1, 0
                if not any(weekday == civil.weekday(day) and n in nth for weekday, n in parts.weekdays):
                    continue
            mask |= 1 << bit
        return mask

    def _aligned_days(self, first_day: int) -> int:
        first = 1 + (self._start_day - first_day) % self._parts.interval
        return sum(1 << bit for bit in range(first, 32, self._parts.interval))

    def _aligned_weeks(self, first_day: int) -> int:
        mask = 0
        week = (first_day - self._first_week) // 7
        while (bit := self._first_week + 7 * week - first_day + 1) <= 31:
            if week % self._parts.interval == 0:
                mask |= 0b1111111 << bit if bit >= 0 else 0b1111111 >> -bit
            week += 1
        return mask & ALL_DAYS


class _Positions:
    """BYSETPOS: of all matches in each period, those at the positions given."""

    def __init__(self, days: _RuleDays, parts: Parts) -> None:
        self._days = days
        self._interval = parts.interval
        self._positions = parts.positions
        self._first = days.period(days.start // DAY)
        self._known: tuple[int, list[int]] = (self._first - 1, [])

    def next(self, wall: int, budget: Budget) -> int | None:
        wall = max(wall, self._days.start)
        day = wall // DAY
        last = day + limits.RULE_SEARCH_YEARS * 366
        end = self._days.period(min(last, _LAST_DAY))
        period = self._days.period(day)
        period += -(period - self._first) % self._interval
        while period < end:
            budget.spend()
            walls = self._walls(period, budget)
            found = bisect_left(walls, wall)
            if found < len(walls):
                return walls[found]
            period += self._interval
        if last < _LAST_DAY:
            raise OutOfSteps
        return None

    def _walls(self, period: int, budget: Budget) -> list[int]:
        if self._known[0] != period:
            budget.spend(12)
            self._known = period, self._select(self._days.days_of(period))
        return self._known[1]

    def _select(self, days: list[int]) -> list[int]:
        times = self._days.times
        count = len(days) * times.count
        chosen = {position - 1 if position > 0 else count + position for position in self._positions}
        picked = [divmod(index, times.count) for index in chosen if 0 <= index < count]
        return sorted(days[day] * DAY + times.nth(time) for day, time in picked)


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
        while low <= _LAST_INSTANT:
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


def _nth(weekday: int, n: int, length: int, first_weekday: int) -> int:
    """The n-th of a weekday in a month, as a bit; none where the month has not as many."""
    if n > 0:
        day = 1 + (weekday - first_weekday) % 7 + 7 * (n - 1)
    else:
        day = length - (first_weekday + length - 1 - weekday) % 7 + 7 * (n + 1)
    return 1 << day if 1 <= day <= length else 0


def _week_numbers(day: int, week_start: int) -> tuple[int, int]:
    """The number of the week that a day lies in, from the beginning and from the end of the week's year.

    A week belongs to the year that has at least four of its days.
    """
    middle = civil.date_of(day - (civil.weekday(day) - week_start) % 7 + 3)
    number = middle.timetuple().tm_yday - 1
    length = 366 if civil.is_leap(middle.year) else 365
    return number // 7 + 1, -((length - 1 - number) // 7) - 1


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
        parts = self._parts(lines.rules[0])
        until = self._until(parts)
        matcher = elapsed = None
        if parts.frequency >= Frequency.HOURLY:
            elapsed = _elapsed(parts, start, self._zone)
        else:
            days = _RuleDays(_dated(parts, start), start, _times(parts, start))
            matcher = _Positions(days, parts) if parts.positions else days
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

    def _parts(self, text: str) -> Parts:
        given: dict[str, str] = {}
        for part in text.split(";"):
            key, equals, value = part.strip().upper().partition("=")
            if not equals or not value:
                self._refuse("RRULE", part, "parts such as FREQ=DAILY between semicolons", "correct or remove this one")
            if key in given:
                self._refuse("RRULE", part, f"{key} once", "remove one of them")
            if key not in _READERS and key != "FREQ":
                remedy = f"leave it out; known are FREQ {' '.join(_READERS)}"
                self._refuse("RRULE", part, "a part of RFC 5545", remedy)
            given[key] = value
        if "FREQ" not in given:
            self._refuse("RRULE", text, "FREQ", f"add FREQ= and one of {' '.join(f.name for f in Frequency)}")
        name = given.pop("FREQ")
        if name not in Frequency.__members__:
            self._refuse("FREQ", name, f"one of {' '.join(f.name for f in Frequency)}", "correct it")
        values: dict[str, Any] = {}
        for key, value in given.items():
            attribute, expected, read = _READERS[key]
            try:
                values[attribute] = read(value)
            except ValueError:
                self._refuse(key, value, expected, "correct it")
        parts = Parts(Frequency[name], **values)
        self._check(parts, given)
        return parts

    def _check(self, parts: Parts, given: dict[str, str]) -> None:
        """What RFC 5545 3.3.10 forbids beyond the grammar, and what would be work without end."""
        name, frequency = parts.frequency.name, parts.frequency

        def forbid(key: str, expected: str, remedy: str) -> None:
            self._refuse(key, given.get(key, name), expected, remedy)

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


_BARE_RULE: Final = re.compile(r"[A-Za-z]+=")
_LIST_MAX: Final = 400


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


def _dated(parts: Parts, start: int) -> Parts:
    """The parts with the day that DTSTART gives where the rule names none (RFC 5545 3.3.10)."""
    at = civil.date_of(start // DAY)
    weekday = ((civil.weekday(start // DAY), 0),)
    if parts.week_numbers and not (parts.weekdays or parts.month_days or parts.year_days):
        return replace(parts, weekdays=weekday)
    if parts.weekdays or parts.month_days or parts.year_days or parts.week_numbers:
        return parts
    match parts.frequency:
        case Frequency.YEARLY:
            return replace(parts, months=parts.months or (at.month,), month_days=(at.day,))
        case Frequency.MONTHLY:
            return replace(parts, month_days=(at.day,))
        case Frequency.WEEKLY:
            return replace(parts, weekdays=weekday)
        case _:
            return parts


def _times(parts: Parts, start: int) -> TimesOfDay:
    hour, minute, second = _clock(start)
    return TimesOfDay(parts.hours or (hour,), parts.minutes or (minute,), parts.seconds or (second,))


def _clock(wall: int) -> tuple[int, int, int]:
    second = wall % DAY
    return second // 3600, second // 60 % 60, second % 60


def _elapsed(parts: Parts, start: int, zone: Zone) -> Elapsed:
    frequency = parts.frequency
    unit = _UNIT_S[frequency]
    _, minute, second = _clock(start)
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
        limit = _RuleDays(days, civil.FIRST_DAY * DAY, times)
    return Elapsed(
        zone,
        zone.instant(start),
        unit,
        parts.interval * unit,
        tuple(sorted(inner)),
        by_wall=bool((not by_minute and parts.minutes) or (not by_second and parts.seconds)),
        limit=limit,
    )


def _warnings(parts: Parts, start: int) -> tuple[str, ...]:
    """Readings that surprise."""
    found = []
    if parts.frequency is Frequency.YEARLY and parts.month_days and not parts.months:
        found.append("YEARLY with BYMONTHDAY and without BYMONTH runs every month; for once a year add BYMONTH")
    day = civil.date_of(start // DAY).day
    monthly = parts.frequency is Frequency.MONTHLY
    if monthly and (max(parts.month_days, default=0) > 28 or (day > 28 and not (parts.month_days or parts.weekdays))):
        found.append("months without that day are skipped; for the last day of each month write BYMONTHDAY=-1")
    return tuple(found)
