"""Cron expressions: their grammar, and the wall times that they match.

Five fields, or six with seconds first, between blanks or tabs:

    second 0-59 · minute 0-59 · hour 0-23 · day of month 1-31 · month 1-12 or JAN-DEC · day of week 0-7 or SUN-SAT

    field   item {, item}
    item    *  *[/step]  a  a-b[/step]  a/step      a/step counts from a to the end of the field
            H  H/step  H(a-b)  H(a-b)/step          a slot by a stable hash of the schedule's uid
    day of month, besides   L  L-n  LW  nW          the last day, n days before it, the last weekday, the weekday
                                                    (Monday to Friday) nearest to day n within its month
    day of week, besides    d#n  dL                 the n-th and the last such day of the month

Sunday is 0 or 7, as the end of a range too (`FRI-SUN`). Where both day fields are restricted, either suffices; a day
field that starts with `*` counts as unrestricted, `*/2` too, and then both must match (Vixie cron's rule). Nicknames:
@hourly @daily @midnight @weekly @monthly @yearly @annually.

What is refused instead of guessed at: reversed ranges, steps that reach beyond their range, dates that never come.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final, NoReturn

from rota.domain import civil, limits
from rota.domain.civil import ALL_DAYS, MonthMatcher, TimesOfDay
from rota.domain.errors import InvalidArgument
from rota.domain.ids import digest
from rota.domain.text import refusal

SHARED_MAX: Final = 10_000
"""Expressions that are kept parsed, some 2 KiB each."""

NICKNAMES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        span = f"{self.low} to {self.high}"
        return f"{span} or {self.names[0]} to {self.names[-1]}" if self.names else span


_SECOND: Final = _Field("second", 0, 59)
_MINUTE: Final = _Field("minute", 0, 59)
_HOUR: Final = _Field("hour", 0, 23)
_DAY: Final = _Field("day of month", 1, 31)
_MONTH: Final = _Field("month", 1, 12, _MONTHS)
_WEEKDAY: Final = _Field("day of week", 0, 7, _WEEKDAYS)

# Of each kind of special day, how it is written and which bits of a month it stands for.
_Special = Callable[[int, int], int]


class Cron(MonthMatcher):
    """A parsed expression. Matches wall times; what a change of the clock does to them is not its matter."""

    def __init__(
        self, times: TimesOfDay, days: "_Days", months: int, *, wildcard: bool, warnings: tuple[str, ...]
    ) -> None:
        super().__init__(times)
        self._days = days
        self._months = months
        self._known: dict[int, int] = {}
        self.wildcard = wildcard
        """Minute or hour start with `*`: the rule follows real time."""
        self.warnings = warnings
        """What the expression says that people who write it often do not mean."""

    def days(self, year: int, month: int, first_day: int) -> int:
        if not self._months >> month & 1:
            return 0
        length, weekday = civil.month_length(year, month), (first_day + 4) % 7
        key = length * 7 + weekday
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._days.mask(length, weekday)
        return known

    def comes(self) -> bool:
        """Whether any month of any year has a matching day. The lengths and first weekdays of months are few."""
        lengths = {length for month in civil.bits(self._months) for length in civil.month_lengths(month)}
        return any(self._days.mask(length, weekday) for length in lengths for weekday in range(7))


@dataclass(frozen=True, slots=True)
class _Days:
    """The two day fields."""

    fixed: int
    special: tuple[_Special, ...]
    weekdays: frozenset[int]
    special_weekdays: tuple[_Special, ...]
    either: bool

    def mask(self, length: int, first_weekday: int) -> int:
        by_date = self.fixed
        for special in self.special:
            by_date |= special(length, first_weekday)
        by_weekday = civil.weekday_mask(self.weekdays, first_weekday)
        for special in self.special_weekdays:
            by_weekday |= special(length, first_weekday)
        both = by_date | by_weekday if self.either else by_date & by_weekday
        return both & ((2 << length) - 2)


def parse(text: str, uid: str, at: str, fields: int | None = None) -> Cron:
    """Reads an expression of so many fields, or of five or six; `uid` decides `H`.

    Raises InvalidArgument for the field of the request named `at`.
    """
    if "H" not in text:
        try:
            return _shared(text, fields)
        except InvalidArgument:
            # To be told of the caller's field.
            pass
    return _Parser(text, uid, at, fields).parse()


@lru_cache(maxsize=SHARED_MAX)
def _shared(text: str, fields: int | None) -> Cron:
    """One for all schedules that say the same: most of thousands say one of a few hundred."""
    return _Parser(text, "", "", fields).parse()


def fields_of(dialect: str, at: str) -> int:
    """How many fields an expression of a dialect has: `posix5` five, `sec6` six with seconds first. Others are not
    offered, and refused.
    """
    fields = {"posix5": 5, "sec6": 6}.get(dialect)
    if fields is None:
        remedy = "weekdays and fields count otherwise elsewhere (aws, quartz): rewrite the expression in one of these"
        raise refusal(at, dialect, "posix5 or sec6", remedy)
    return fields


class _Parser:
    def __init__(self, text: str, uid: str, at: str, fields: int | None) -> None:
        self._text = text
        self._fields = fields
        self._uid = uid
        self._at = at

    def parse(self) -> Cron:
        texts = self._split()
        seconds = len(texts) == 6
        second, minute, hour, day, month, weekday = texts if seconds else ["0", *texts]
        times = TimesOfDay(self._plain(_HOUR, hour), self._plain(_MINUTE, minute), self._plain(_SECOND, second))
        months = sum(1 << number for number in self._plain(_MONTH, month))
        dates, special = self._items(_DAY, day, _special_day)
        weekdays, special_weekdays = self._items(_WEEKDAY, weekday, _special_weekday)
        days = _Days(
            sum(1 << number for number in dates) & ALL_DAYS,
            tuple(special),
            frozenset(weekdays),
            tuple(special_weekdays),
            either=not day.startswith("*") and not weekday.startswith("*"),
        )
        cron = Cron(
            times,
            days,
            months,
            wildcard=minute.startswith("*") or hour.startswith("*"),
            warnings=_warnings(minute, hour, day, weekday, times),
        )
        if not cron.comes():
            raise refusal(
                self._at,
                self._text,
                "a date that comes in some year",
                "no month given has such a day; for the last day of a month write L",
                reason="NEVER_FIRES",
            )
        return cron

    def _split(self) -> list[str]:
        text = self._text
        if len(text) > limits.CRON_CHARS_MAX:
            self._refuse(
                text, f"at most {limits.CRON_CHARS_MAX} characters", "write ranges and steps instead of long lists"
            )
        for position, character in enumerate(text, 1):
            if character not in " \t" and not "!" <= character <= "~":
                self._refuse_character(character, position)
        texts = text.split()
        if not texts:
            self._refuse(text, "five or six fields", "write for example 30 2 * * *, or */5 * * * *")
        if texts[0].startswith("@"):
            return self._nickname(texts)
        if "=" in texts[0]:
            self._refuse(texts[0], "fields only", "give the zone as the schedule's time zone")
        if "?" in texts:
            self._refuse("?", "fields of Vixie cron", "write * for it; the dialects of Quartz and AWS are not offered")
        if len(texts) < 5:
            self._refuse(
                text,
                "five fields: minute, hour, day of month, month, day of week",
                f"it has {len(texts)}; write * for a field that does not matter",
            )
        if len(texts) > 6 or (len(texts) == 6 and _is_command(texts[5])):
            kept = 5 if _is_command(texts[5]) else 6
            surplus = text.split(maxsplit=kept)[kept]
            self._refuse(
                surplus,
                "five fields, or six with seconds first",
                "leave out what follows them: a command, a user or a year is not part of the expression",
            )
        if self._fields not in (None, len(texts)):
            self._refuse(text, f"{self._fields} fields", f"it has {len(texts)}; correct it, or say that it has as many")
        return texts

    def _nickname(self, texts: list[str]) -> list[str]:
        text, word, known = self._text, texts[0], " ".join(NICKNAMES)
        if word == "@reboot":
            self._refuse(
                word, f"a time or one of {known}", "a schedule outlives every machine; there is no start to run at"
            )
        if word == "@every":
            every = texts[1] if len(texts) > 1 else "5m"
            self._refuse(text.strip(), f"a time or one of {known}", f"make it an interval with every {every}")
        if word not in NICKNAMES:
            near = f"write {word.lower()}" if word.lower() in NICKNAMES else "write one of them, or five fields"
            self._refuse(word, f"one of {known}", near)
        if len(texts) > 1:
            self._refuse(" ".join(texts[1:]), f"nothing after {word}", "leave it out")
        return NICKNAMES[word].split()

    def _refuse_character(self, character: str, position: int) -> NoReturn:
        if character in "\n\r":
            self._refuse(self._text, "one line", "make a schedule of each line")
        what = {"\u00a0": "no-break space", "\0": "NUL", "\u202f": "narrow no-break space"}.get(character, "character")
        self._refuse(
            self._text,
            "printable ASCII, with blanks or tabs between fields",
            f"replace the {what} U+{ord(character):04X} at position {position}; a copy from a web page may hold one",
        )

    def _plain(self, field: _Field, text: str) -> list[int]:
        return self._items(field, text, None)[0]

    def _items(
        self, field: _Field, text: str, special: "Callable[[str], _Special | None] | None"
    ) -> tuple[list[int], list[_Special]]:
        """The numbers that a field lists, and its special days."""
        numbers: list[int] = []
        specials: list[_Special] = []
        for item in text.split(","):
            found = special(item) if special is not None else None
            if found is not None:
                specials.append(found)
            else:
                numbers += self._item(field, item, text)
        return numbers, specials

    def _item(self, field: _Field, item: str, text: str) -> "range | list[int]":
        if not item:
            self._refuse_in(field, text, "an item between commas", "remove the comma that is too many")
        if item.startswith("H"):
            return self._hashed(field, item)
        base, slash, step_text = item.partition("/")
        if base == "*":
            low, high = field.low, field.high
        elif dash := _RANGE.fullmatch(base):
            low, high = self._number(field, dash[1], item), self._number(field, dash[2], item)
            if field is _WEEKDAY and high == 0 and low > 0 and dash[2].upper() == "SUN":
                high = 7
            if low > high:
                self._refuse_reversed(field, item, low, high)
        else:
            low = high = self._number(field, base, item)
            if slash:
                # The 7 that is Sunday too is not the end of the week: 1/2 is Monday, Wednesday and Friday.
                high = max(low, 6) if field is _WEEKDAY else field.high
        if not slash:
            return range(low, high + 1)
        return range(low, high + 1, self._step(field, item, step_text, high - low, text))

    def _hashed(self, field: _Field, item: str) -> "range | list[int]":
        found = _HASHED.fullmatch(item)
        if not found:
            self._refuse_in(field, item, "H, H/step, H(a-b) or H(a-b)/step", "write it so")
        # Day 29 and later do not come each month, and 7 is Sunday again.
        low, high = field.low, {_DAY: 28, _WEEKDAY: 6}.get(field, field.high)
        if found[1]:
            low, high = self._number(field, found[2], item), self._number(field, found[3], item)
            if low > high:
                self._refuse_reversed(field, item, low, high)
        seed = int.from_bytes(digest(b"cron H", self._uid.encode("utf-8", "replace"), field.name.encode())[:8], "big")
        if not found[4]:
            return [low + seed % (high - low + 1)]
        step = self._step(field, item, found[4][1:], high - low, item)
        return range(low + seed % step, high + 1, step)

    def _step(self, field: _Field, item: str, text: str, span: int, whole: str) -> int:
        if not _NUMBER.fullmatch(text) or int(text) < 1:
            self._refuse_in(field, item, "a step of 1 or more after /", "write for example */5")
        step = int(text)
        if step > max(span, 1):
            remedy = "write the one value that is meant; what must cross the range is an interval"
            if field is _DAY and item.startswith("*") and item != whole:
                remedy = "for the first Monday of a month write * in this field and MON#1 as the day of week"
            self._refuse_in(field, item, f"a step within the range, at most {max(span, 1)}", remedy)
        return step

    def _number(self, field: _Field, text: str, item: str) -> int:
        if text.upper() in field.names:
            return field.names.index(text.upper()) + field.low
        if not _NUMBER.fullmatch(text):
            self._refuse_in(field, item, field.expected, self._advice(field, item))
        number = int(text)
        if not field.low <= number <= field.high:
            self._refuse_in(field, item, field.expected, "correct the number")
        return number

    def _advice(self, field: _Field, item: str) -> str:
        """What to do about an item that is no number, name or range."""
        if item.startswith("*"):
            return "write * alone or */step"
        if item.endswith("-") or item.startswith("-"):
            return "write both ends of the range, as 1-5; there are no negative numbers"
        if field.names and item[:3].upper() in field.names:
            return f"write the name with three letters: {item[:3].upper()}"
        if field is _DAY and "W" in item.upper():
            return "W takes a single day, as 15W; the last weekday is LW"
        if field is _WEEKDAY and "#" in item:
            return "write one day and 1 to 5, as MON#1"
        if field is _WEEKDAY and item.upper().startswith("L"):
            return "write the day before L, as 5L for the last Friday; Saturday is 6"
        if item[:1] in "lhw" and item[:1]:
            return "write L, W and H as capitals"
        if field is _DAY and item.startswith("L"):
            return "write L, L-n with n from 1 to 30, or LW"
        return "write a number, a range a-b, a list a,b or a step */n"

    def _refuse_reversed(self, field: _Field, item: str, low: int, high: int) -> NoReturn:
        if field is _WEEKDAY:
            parts = [(low, 7)] if high == 0 else [(low, 6), (0, high)]
        else:
            parts = [(low, field.high), (field.low, high)]
        remedy = f"write {','.join(f'{a}-{b}' if a != b else f'{a}' for a, b in parts)}"
        self._refuse_in(field, item, "a range that goes up", remedy)

    def _refuse_in(self, field: _Field, found: str, expected: str, remedy: str) -> NoReturn:
        raise refusal(self._at, found, expected, remedy, part=field.name)

    def _refuse(self, found: str, expected: str, remedy: str) -> NoReturn:
        raise refusal(self._at, found, expected, remedy)


_NUMBER: Final = re.compile(r"[0-9]+")
_RANGE: Final = re.compile(r"([^-]+)-([^-]+)")
_HASHED: Final = re.compile(r"H(\(([0-9A-Za-z]+)-([0-9A-Za-z]+)\))?(/[0-9]+)?")
_DAY_OF_WEEK: Final = f"([0-7]|{'|'.join(_WEEKDAYS)})"
_NTH: Final = re.compile(rf"{_DAY_OF_WEEK}#([1-5])", re.IGNORECASE)
_LAST: Final = re.compile(rf"{_DAY_OF_WEEK}L", re.IGNORECASE)
_BEFORE_LAST: Final = re.compile(r"L(?:-([0-9]{1,2}))?")
_NEAREST: Final = re.compile(r"([0-9]{1,2})W")


def _is_command(text: str) -> bool:
    """Whether what stands where the day of week would is a user or a command, as in a pasted line of a crontab."""
    return text.startswith(("/", ".", "~")) or (
        text[:4].isalpha() and len(text) > 3 and text[:3].upper() not in _WEEKDAYS
    )


def _special_day(item: str) -> _Special | None:
    if item == "LW":
        return _last_weekday
    if found := _BEFORE_LAST.fullmatch(item):
        before = int(found[1] or 0)
        if before <= 30 and (before or not found[1]):
            return partial(_before_last, before)
    if (found := _NEAREST.fullmatch(item)) and 1 <= int(found[1]) <= 31:
        return partial(_nearest_weekday, int(found[1]))
    return None


def _special_weekday(item: str) -> _Special | None:
    if found := _NTH.fullmatch(item):
        return partial(_nth, _weekday_number(found[1]), int(found[2]))
    if (found := _LAST.fullmatch(item)) and item.endswith("L"):
        return partial(_last, _weekday_number(found[1]))
    return None


def _weekday_number(text: str) -> int:
    return int(text) % 7 if text.isdigit() else _WEEKDAYS.index(text.upper())


def _before_last(before: int, length: int, first_weekday: int) -> int:
    return 1 << length - before if before < length else 0


def _nearest_weekday(day: int, length: int, first_weekday: int) -> int:
    if day > length:
        return 0
    weekday = (first_weekday + day - 1) % 7
    if weekday == 6:
        day += -1 if day > 1 else 2
    elif weekday == 0:
        day += 1 if day < length else -2
    return 1 << day


def _last_weekday(length: int, first_weekday: int) -> int:
    return _nearest_weekday(length, length, first_weekday)


def _nth(weekday: int, number: int, length: int, first_weekday: int) -> int:
    return 1 << 1 + (weekday - first_weekday) % 7 + 7 * (number - 1)


def _last(weekday: int, length: int, first_weekday: int) -> int:
    return 1 << length - (first_weekday + length - 1 - weekday) % 7


def _warnings(minute: str, hour: str, day: str, weekday: str, times: TimesOfDay) -> tuple[str, ...]:
    """Readings that surprise. Worth a word in a preview; refused they are not."""
    found = []
    if minute == "*" and hour not in ("*", "*/1"):
        found.append(
            f"minute * runs every minute of the hours {hour}, {times.count} times a day; for once an hour write 0"
        )
    if not day.startswith("*") and not weekday.startswith("*"):
        found.append("both day fields are given: it runs when either matches")
    elif day not in ("*", "*/1") and weekday not in ("*", "*/1"):
        found.append("a day field starts with *: it runs when both match")
    return tuple(found)
