"""Rules in general: against a scan of every minute, against another implementation, and against hostile input."""

import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Final

import pytest
from dateutil.rrule import rrulestr
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from rota.domain import limits, zones
from rota.domain.civil import DAY, Budget, OutOfSteps
from rota.domain.dateset import Calendar, DateSet, parse_dates
from rota.domain.dst import GapPolicy, OverlapPolicy
from rota.domain.errors import InvalidArgument
from rota.domain.interval import iso_duration_s
from rota.domain.recurrence import compile_rule
from rota.domain.rule import Rule
from rota.domain.rulespec import RuleKind, RuleSpec
from rota.domain.zones import BEGINNING, END, Span

from .rules import cron, every, rrule, walk
from .test_zones import shipped

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE: Final = timedelta(minutes=1)
NAMES: Final = sorted(zones.names())
FIRST: Final = 0
LAST: Final = int((datetime(2038, 1, 1, tzinfo=UTC) - EPOCH).total_seconds())
CORRECTION: Final = timedelta(hours=3)


def at(second: int) -> datetime:
    return EPOCH + timedelta(seconds=second)


def changes(name: str) -> list[Span]:
    """The spans that begin within 1970 to 2037."""
    zone, found, second = zones.find(name), [], FIRST
    while (second := zone.span(second).end) < LAST:
        found.append(zone.span(second))
    return found


CHANGES: Final = {name: found for name in NAMES if (found := changes(name))}


@st.composite
def around_changes(draw: st.DrawFn) -> tuple[str, int]:
    """A zone, and an instant within two days before one of its changes."""
    name = draw(st.sampled_from(sorted(CHANGES)))
    change = draw(st.sampled_from(CHANGES[name])).start
    # Until 1972 the clock of Monrovia was not a number of minutes from UTC, and the scan goes by minutes.
    assume(name != "Africa/Monrovia" or change > 100_000_000)
    return name, change - draw(st.integers(0, 2 * DAY))


instants = st.integers(FIRST, LAST).map(at)
zone_names = st.sampled_from(NAMES)


def _list(low: int, high: int) -> st.SearchStrategy[str]:
    numbers = st.lists(st.integers(low, high), min_size=1, max_size=4, unique=True)
    ranges = (
        st.tuples(st.integers(low, high), st.integers(low, high)).map(sorted).map(lambda ends: "{}-{}".format(*ends))
    )
    return st.one_of(numbers.map(lambda given: ",".join(map(str, given))), ranges)


def _field(low: int, high: int) -> st.SearchStrategy[str]:
    return st.one_of(st.just("*"), st.integers(1, (high - low) // 2).map("*/{}".format), _list(low, high))


five_fields = st.tuples(
    _field(0, 59),
    # Most changes of a clock lie in the small hours.
    st.one_of(_field(0, 23), _list(0, 3), st.just("23")),
    st.one_of(st.just("*"), _field(1, 31)),
    st.just("*"),
    st.one_of(st.just("*"), _field(0, 7)),
).map(" ".join)

fuzz = settings(max_examples=60, deadline=None)


def numbers(field: str, low: int, high: int) -> set[int]:
    """A second reading of the simple forms of a field."""
    found: set[int] = set()
    for item in field.split(","):
        base, _, step = item.partition("/")
        first, _, last = base.partition("-")
        ends = (low, high) if base == "*" else (int(first), int(last or first))
        found |= set(range(ends[0], ends[1] + 1, int(step or 1)))
    return found


def scan(
    expression: str, name: str, begin: datetime, end: datetime, gap: GapPolicy | None, overlap: OverlapPolicy | None
) -> list[datetime]:
    """What should fire in (begin, end]: every minute of real time is looked at through `zoneinfo`, by the words of the
    design and by nothing of the code under test.
    """
    minute, hour, day, month, weekday = expression.split()
    minutes, hours, months = numbers(minute, 0, 59), numbers(hour, 0, 23), numbers(month, 1, 12)
    days, weekdays = numbers(day, 1, 31), {number % 7 for number in numbers(weekday, 0, 7)}
    wildcard = minute.startswith("*") or hour.startswith("*")
    gap = gap or (GapPolicy.SKIP if wildcard else GapPolicy.RUN_AFTER)
    overlap = overlap or (OverlapPolicy.BOTH if wildcard else OverlapPolicy.FIRST)
    zone = shipped(name)

    def matches(wall: datetime) -> bool:
        by_date, by_weekday = wall.day in days, wall.isoweekday() % 7 in weekdays
        either = not day.startswith("*") and not weekday.startswith("*")
        on_day = by_date or by_weekday if either else by_date and by_weekday
        return wall.minute in minutes and wall.hour in hours and wall.month in months and on_day

    def offset(instant: datetime) -> timedelta:
        found = instant.astimezone(zone).utcoffset()
        assert found is not None
        return found

    found: set[datetime] = set()
    instant = begin.replace(second=0, microsecond=0) - timedelta(days=1)
    while instant < end:
        before, instant = offset(instant), instant + MINUTE
        after = offset(instant)
        local = instant.astimezone(zone)
        wall = local.replace(tzinfo=None)
        if after > before:
            missing = [w for n in range(int((after - before) / MINUTE)) if matches(w := wall - (n + 1) * MINUTE)]
            if after - before < CORRECTION and gap is not GapPolicy.SKIP and missing:
                found |= (
                    {instant} if gap is GapPolicy.RUN_AFTER else {(w - before).replace(tzinfo=UTC) for w in missing}
                )
        if not matches(wall):
            continue
        first, second = local.replace(fold=0).utcoffset(), local.replace(fold=1).utcoffset()
        assert first is not None and second is not None
        size = first - second
        if size > timedelta(0):
            policy = OverlapPolicy.FIRST if size >= CORRECTION and not wildcard else overlap
            wanted = OverlapPolicy.SECOND if local.fold else OverlapPolicy.FIRST
            if policy not in (wanted, OverlapPolicy.BOTH):
                continue
        found.add(instant)
    return sorted(instant for instant in found if begin < instant <= end)


@given(five_fields, around_changes(), st.sampled_from([None, *GapPolicy]), st.sampled_from([None, *OverlapPolicy]))
@settings(max_examples=120, deadline=None)
@example("30 2 * * *", ("America/New_York", 1_772_900_000), None, None)
@example("*/30 23 * * *", ("Antarctica/Casey", 1_267_700_000), None, OverlapPolicy.FIRST)
@example("0 9 * * *", ("Pacific/Apia", 1_325_150_000), GapPolicy.SHIFT, None)
def test_nothing_is_missed_and_nothing_made_up(
    expression: str, where: tuple[str, int], gap: GapPolicy | None, overlap: OverlapPolicy | None
) -> None:
    name, begin = where[0], at(where[1])
    end = begin + timedelta(days=3)
    try:
        rule = cron(expression, name, gap=gap, overlap=overlap)
    except InvalidArgument as error:
        assert error.reason == "NEVER_FIRES"
        return
    expected = scan(expression, name, begin, end, gap, overlap)
    found = [fire.nominal for fire in rule.between(begin, end, 10_000)]
    assert found == expected
    assert [fire.nominal for fire in walk(rule, begin, min(len(expected), 300))] == expected[:300]
    if len(expected) < 200:
        assert [line.nominal for line in rule.preview(begin, len(expected)) if not line.removed] == expected


rules_of_rfc = st.one_of(
    st.sampled_from(
        [
            "FREQ=DAILY",
            "FREQ=DAILY;INTERVAL=3;BYHOUR=1,2,3;BYMINUTE=0,30",
            "FREQ=WEEKLY;INTERVAL=2;BYDAY=SU,WE",
            "FREQ=MONTHLY;BYDAY=-1SU",
            "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2",
            "FREQ=MONTHLY;BYMONTHDAY=31",
            "FREQ=YEARLY;BYMONTH=3,10,11;BYDAY=SU",
            "FREQ=YEARLY;BYWEEKNO=13,44;BYDAY=SU",
            "FREQ=HOURLY;INTERVAL=5",
            "FREQ=HOURLY;BYMINUTE=15,45;BYDAY=SU",
            "FREQ=MINUTELY;INTERVAL=7;BYHOUR=0,1,2,3",
            "FREQ=SECONDLY;INTERVAL=1800",
        ]
    )
)


@given(
    rules_of_rfc,
    around_changes(),
    st.integers(0, 4 * 60),
    st.sampled_from([None, *GapPolicy]),
    st.sampled_from([None, *OverlapPolicy]),
)
@fuzz
def test_rules_of_rfc_5545_go_up_and_agree_with_themselves(
    text: str, where: tuple[str, int], minute: int, gap: GapPolicy | None, overlap: OverlapPolicy | None
) -> None:
    start = at(where[1]).replace(tzinfo=None, hour=minute // 60, minute=minute % 60, second=0) - timedelta(days=400)
    rule = rrule(text, start.isoformat(), where[0], gap=gap, overlap=overlap)
    agrees(rule, at(where[1]))


@given(five_fields, zone_names, instants)
@fuzz
def test_cron_goes_up_and_agrees_with_itself(expression: str, name: str, after: datetime) -> None:
    try:
        agrees(cron(expression, name), after)
    except InvalidArgument as error:
        assert error.reason == "NEVER_FIRES"


def agrees(rule: Rule, after: datetime) -> None:
    """Strictly increasing; next, between and preview give the same; whoever asks in between gets the same."""
    fires = walk(rule, after, 40)
    assert fires and all(a.nominal < b.nominal for a, b in pairwise(fires))
    assert rule.between(after, fires[-1].nominal, 41) == fires
    assert rule.between(after, fires[-1].nominal, 7) == fires[:7]
    assert [line.local for line in rule.preview(after, 40) if not line.removed] == [fire.local for fire in fires]
    for a, b in pairwise(fires[:10]):
        middle = a.nominal + (b.nominal - a.nominal) / 2
        assert rule.next_after(middle) == rule.next_after(b.nominal - timedelta(microseconds=1)) == b
    for fire in fires:
        # The local time is the instant's.
        assert datetime.fromisoformat(fire.local) == fire.nominal
        offset = fire.nominal.astimezone(shipped(rule.zone.name)).utcoffset()
        assert datetime.fromisoformat(fire.local).utcoffset() == offset


@given(st.integers(1, 100_000), instants, zone_names, instants)
@fuzz
def test_an_interval_is_elapsed_time_in_any_zone(seconds: int, anchor: datetime, name: str, after: datetime) -> None:
    rule = every(seconds, anchor.isoformat(), time_zone=name)
    found = [fire.nominal for fire in walk(rule, after, 20)]
    assert found[0] >= anchor and found[0] > after
    assert found[0] - timedelta(seconds=seconds) <= max(after, anchor - timedelta(seconds=seconds))
    assert all((nominal - anchor).total_seconds() % seconds == 0 for nominal in found)
    assert {b - a for a, b in pairwise(found)} == {timedelta(seconds=seconds)}


@st.composite
def rfc_rules(draw: st.DrawFn) -> str:
    """RRULEs on whose meaning python-dateutil and the RFC agree."""
    frequency = draw(st.sampled_from(["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY"]))
    parts = [f"FREQ={frequency}", f"INTERVAL={draw(st.sampled_from([1, 1, 1, 2, 3, 5]))}"]

    def listed(key: str, values: st.SearchStrategy[int], most: int = 3) -> None:
        if draw(st.integers(0, 3)) == 0:
            parts.append(f"{key}={','.join(map(str, draw(st.lists(values, min_size=1, max_size=most, unique=True))))}")

    def signed(high: int) -> st.SearchStrategy[int]:
        return st.integers(-high, high).filter(bool)

    listed("BYMONTH", st.integers(1, 12))
    if frequency == "YEARLY":
        listed("BYYEARDAY", signed(366))
    if frequency in ("YEARLY", "MONTHLY", "DAILY"):
        listed("BYMONTHDAY", signed(31))
    if draw(st.booleans()):
        days = draw(
            st.lists(st.sampled_from(["MO", "TU", "WE", "TH", "FR", "SA", "SU"]), min_size=1, max_size=4, unique=True)
        )
        counted = frequency in ("YEARLY", "MONTHLY") and draw(st.booleans())
        parts.append(
            f"BYDAY={','.join((str(draw(st.sampled_from([1, 2, 4, 5, -1, -2]))) if counted else '') + d for d in days)}"
        )
        if frequency == "YEARLY" and not counted:
            listed("BYWEEKNO", signed(52))
    listed("BYHOUR", st.integers(0, 23))
    listed("BYMINUTE", st.integers(0, 59))
    if frequency in ("YEARLY", "MONTHLY", "DAILY") and any(part.startswith("BY") for part in parts):
        listed("BYSETPOS", st.sampled_from([1, 2, 3, -1, -2]), 2)
    parts.append(f"WKST={draw(st.sampled_from(['MO', 'SU', 'WE']))}")
    return ";".join(parts)


@given(rfc_rules(), st.datetimes(datetime(1990, 1, 1), datetime(2030, 1, 1)))
@settings(max_examples=150, deadline=None)
def test_rrules_are_what_another_implementation_finds(text: str, start: datetime) -> None:
    start = start.replace(microsecond=0)
    try:
        found = walk(rrule(text, start.isoformat()), start.replace(tzinfo=UTC) - timedelta(seconds=1), 6)
    except InvalidArgument as error:
        assert error.reason == "NEVER_FIRES"
        return
    # Where a rule comes to no end the other one may look for its next for minutes.
    other = iter(rrulestr(text, dtstart=start))
    near = [fire for fire in found if fire.nominal.year < 2060]
    assert [fire.nominal.replace(tzinfo=None) for fire in near] == [next(other) for _ in near]


@given(five_fields, zone_names, instants, st.sets(st.dates(date(1970, 1, 1), date(2038, 1, 1)), max_size=300))
@fuzz
def test_nothing_fires_on_an_excluded_date(expression: str, name: str, after: datetime, days: set[date]) -> None:
    near = frozenset(days | {after.date() + timedelta(days=n) for n in (0, 1, 3)})
    try:
        free, bound = (
            cron(expression, name),
            cron(expression, name, calendars=(Calendar("calendars/c", DateSet(near)),)),
        )
    except InvalidArgument as error:
        assert error.reason == "NEVER_FIRES"
        return
    until = after + timedelta(days=6)
    everyone = bound.between(after, until, 400, with_excluded=True)
    assert [fire.nominal for fire in everyone] == [fire.nominal for fire in free.between(after, until, 400)]
    assert all(fire.excluded == (date.fromisoformat(fire.local[:10]) in near) for fire in everyone)
    if len(everyone) < 400:
        assert [fire for fire in everyone if not fire.excluded] == bound.between(after, until, 400)


@given(st.text(max_size=40), st.integers(1, 86_400))
@fuzz
def test_hash_jitter_stays_in_its_span_and_is_the_uids(uid: str, span_s: int) -> None:
    rule = cron("0 0 * * *", uid=uid, jitter_s=span_s)
    fires = walk(rule, EPOCH, 3)
    delays = {fire.due - fire.nominal for fire in fires}
    assert len(delays) == 1 and timedelta(0) <= delays.pop() < timedelta(seconds=span_s)
    assert walk(cron("0 0 * * *", uid=uid, jitter_s=span_s), EPOCH, 3) == fires


def steps(rule: Rule, after: datetime) -> int:
    """The steps of one search; the whole budget where it was given up."""
    budget = Budget()
    try:
        rule._firing(rule._floor(after), budget)
    except OutOfSteps:
        return limits.RULE_STEPS_MAX
    return limits.RULE_STEPS_MAX - budget.left


@pytest.mark.parametrize(
    ("rule", "most"),
    [
        (lambda: cron("* * * * *"), 2),
        (lambda: cron("0 0 29 2 *"), 100),
        (lambda: cron("0 0 29 2 */7"), 500),
        (lambda: rrule("FREQ=HOURLY;INTERVAL=5", "1970-01-01T00:00:00"), 2),
        (lambda: rrule("FREQ=SECONDLY", "1970-01-01T00:00:00"), 2),
        (lambda: rrule("FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=29", "1970-01-01T00:00:00"), 100),
        (lambda: rrule("FREQ=DAILY;COUNT=5000", "2020-01-01T00:00:00"), 3),
        (lambda: every(1, "1970-01-01T00:00:00Z"), 2),
    ],
)
def test_a_search_takes_few_steps_wherever_it_begins(rule: Callable[[], Rule], most: int) -> None:
    compiled = rule()
    for year in (1971, 2026, 2037, 2050, 2095):
        assert steps(compiled, datetime(year, 3, 1, 12, 0, 1, tzinfo=UTC)) <= most


def test_a_rule_that_lies_in_gaps_for_ever_is_given_up() -> None:
    # It ran until 2006; since then the clock changes on that very night each year.
    rule = cron("30 2 * 3 SUN#2", "America/New_York", gap=GapPolicy.SKIP)
    assert rule.require_next(datetime(2006, 1, 1, tzinfo=UTC)).local == "2006-03-12T02:30:00-05:00"
    with pytest.raises(InvalidArgument, match="the search was given up"):
        rule.next_after(datetime(2026, 1, 1, tzinfo=UTC))


@given(rfc_rules(), st.datetimes(datetime(1990, 1, 1), datetime(2030, 1, 1)), instants, zone_names)
@fuzz
def test_no_rule_goes_beyond_its_budget(text: str, start: datetime, after: datetime, name: str) -> None:
    parts = {"BYMINUTE": "BYMINUTE=7", "BYHOUR": "BYHOUR=3", "BYMONTHDAY": "BYMONTHDAY=30,31"}
    lone = ";".join(part for part in text.split(";") if part.partition("=")[0] not in parts)
    hostile = (
        lone
        if "WEEKLY" in text
        else f"{lone};{';'.join(parts.values())};BYMONTH=2,4".replace(";BYMONTH", ";BYMONTH", 1)
    )
    for rule_text in (text, hostile if hostile.count("BYMONTH=") == 1 else text):
        try:
            rule = rrule(rule_text, start.isoformat(timespec="seconds"), name)
            assert steps(rule, after) <= limits.RULE_STEPS_MAX
            rule.next_after(after)
            rule.preview(after, 3)
        except InvalidArgument as error:
            assert error.violations


@pytest.mark.parametrize(
    "rule",
    [
        lambda: cron("*/5 * * * *", "Europe/Berlin"),
        lambda: cron("30 2 * * *", "America/New_York"),
        lambda: cron("0 9 * * 1-5", "Europe/Berlin"),
        lambda: cron("0 0 1 * *", "America/New_York"),
        lambda: rrule("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE", "1970-01-01T09:00:00", "Europe/Berlin"),
        lambda: rrule("FREQ=MONTHLY;BYDAY=-1FR", "1970-01-01T09:00:00", "Europe/Berlin"),
        lambda: rrule("FREQ=HOURLY;INTERVAL=5", "1970-01-01T09:00:00", "Europe/Berlin"),
        lambda: every(90, "1970-01-01T09:00:00Z"),
    ],
)
def test_the_next_of_a_common_rule_takes_microseconds(rule: Callable[[], Rule]) -> None:
    compiled, after = rule(), datetime(2026, 3, 7, tzinfo=UTC)
    spans = []
    for _ in range(300):
        begun = perf_counter()
        fire = compiled.next_after(after)
        spans.append(perf_counter() - begun)
        assert fire is not None
        after = fire.nominal
    # A median of 5 to 15 on one core of the year 2026.
    assert median(spans) < 50e-6


texts = st.one_of(
    st.text(max_size=300),
    st.text(alphabet="0123456789*/-,LWH#@? \tJANMONFRI()+.", max_size=80),
    st.builds(lambda text, n, c: text[:n] + c + text[n + 1 :], five_fields, st.integers(0, 20), st.characters()),
)
rfc_texts = st.one_of(
    texts,
    st.text(alphabet="FREQ=DAILYWKMONTHBSUCPV;:,-0123456789\nZT", max_size=200),
    st.builds(
        lambda text, n, c: f"DTSTART:20260101T000000\nRRULE:{text[:n]}{c}{text[n + 1 :]}",
        rfc_rules(),
        st.integers(0, 60),
        st.characters(),
    ),
)


@given(texts, rfc_texts, st.integers(0, 5))
@settings(max_examples=150, deadline=None)
@example("\ud800", "\ud800", 0)
@example("9" * 300, "RRULE:" + "9" * 290, 1)
def test_no_text_raises_anything_but_invalid_argument(text: str, rfc_text: str, place: int) -> None:
    anchor = datetime(2026, 1, 1, tzinfo=UTC)
    spec = [
        RuleSpec(RuleKind.CRON, text, time_zone="Europe/Berlin"),
        RuleSpec(RuleKind.RRULE, rfc_text, time_zone="Europe/Berlin", anchor=anchor),
        RuleSpec(RuleKind.INTERVAL, text, anchor=anchor),
        RuleSpec(RuleKind.ONCE, local_start=text),
        RuleSpec(RuleKind.CRON, "0 0 * * *", time_zone=text),
        RuleSpec(RuleKind.RRULE, "FREQ=DAILY", anchor=anchor, rdates=(text,), exdates=(rfc_text,)),
    ][place]
    try:
        rule = compile_rule(spec, text)
        agrees_in_short(rule, anchor)
    except InvalidArgument as error:
        assert error.violations and all(violation.description.isprintable() for violation in error.violations)
    for read in (lambda: iso_duration_s(text, "every"), lambda: parse_dates([text], "dates")):
        try:
            read()
        except InvalidArgument as error:
            assert error.violations


def agrees_in_short(rule: Rule, after: datetime) -> None:
    fires = walk(rule, after, 5)
    assert fires == rule.between(after, after + timedelta(days=365 * 200), 5)


def test_random_bytes_as_zone_names_reach_no_file() -> None:
    chance = random.Random(7)
    for _ in range(2_000):
        name = "".join(chance.choice("ABab/._-+0\0\n\ud800é") for _ in range(chance.randint(0, 80)))
        with pytest.raises(InvalidArgument):
            zones.find(name)


def test_spans_of_all_zones_are_longer_than_what_they_repeat() -> None:
    # The search relies on it: what one change repeats is over before the next change.
    for name, spans in CHANGES.items():
        for span in spans:
            assert span.end == END or span.end - span.start > abs(span.offset - span.before), (name, span)
            assert span.start > BEGINNING
