"""An RRULE of days or longer, matched on the wall clock: the days of each month, and BYSETPOS among them."""

from bisect import bisect_left
from dataclasses import replace

from rota.domain import civil, instants, limits
from rota.domain.civil import ALL_DAYS, DAY, Budget, Matcher, MonthMatcher, OutOfSteps, TimesOfDay
from rota.domain.rruleparts import Frequency, Parts


def matcher(parts: Parts, start: int) -> Matcher:
    """What a rule of days or longer matches; `start` is DTSTART as a wall time."""
    days = RuleDays(_dated(parts, start), start, _times(parts, start))
    return _Positions(days, parts) if parts.positions else days


class RuleDays(MonthMatcher):
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

    def __init__(self, days: RuleDays, parts: Parts) -> None:
        self._days = days
        self._interval = parts.interval
        self._positions = parts.positions
        self._first = days.period(days.start // DAY)
        self._known: tuple[int, list[int]] = (self._first - 1, [])

    def next(self, wall: int, budget: Budget) -> int | None:
        wall = max(wall, self._days.start)
        day = wall // DAY
        last = day + limits.RULE_SEARCH_YEARS * 366
        end = self._days.period(min(last, instants.LAST_DAY))
        period = self._days.period(day)
        period += -(period - self._first) % self._interval
        while period < end:
            budget.spend()
            walls = self._walls(period, budget)
            found = bisect_left(walls, wall)
            if found < len(walls):
                return walls[found]
            period += self._interval
        if last < instants.LAST_DAY:
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
    second = start % DAY
    return TimesOfDay(
        parts.hours or (second // 3600,), parts.minutes or (second // 60 % 60,), parts.seconds or (second % 60,)
    )
