"""What is refused at creation: each names its field, what was expected, what was found and what to do."""

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from rota.domain import limits, zones
from rota.domain.dateset import Calendar, DateSet, parse_dates
from rota.domain.dst import GapPolicy
from rota.domain.errors import InvalidArgument
from rota.domain.interval import iso_duration_s
from rota.domain.recurrence import compile_rule
from rota.domain.rulespec import RuleKind, RuleSpec

from .rules import UID, instant

AT = instant("2026-03-01T00:00:00Z")
CRON = RuleSpec(RuleKind.CRON, "0 0 * * *")
INTERVAL = RuleSpec(RuleKind.INTERVAL, every_s=60, anchor=AT)
ONCE = RuleSpec(RuleKind.ONCE, local_start="2026-03-08T02:30:00", time_zone="America/New_York")
RRULE = RuleSpec(RuleKind.RRULE, "FREQ=DAILY", local_start="2026-03-08T02:30:00")


def refusal(spec: RuleSpec) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as refused:
        compile_rule(spec, UID, "schedule")
    return refused.value


def check(spec: RuleSpec, field: str, words: str, reason: str = "VALIDATION_FAILED") -> None:
    """It is refused for that field, and the words (`expected … found … ; remedy`) stand in this order."""
    error = refusal(spec)
    assert [violation.field for violation in error.violations] == [f"schedule.{field}"]
    assert error.reason == reason
    said = error.violations[0].description
    assert re.search(r"expected .+, found .+; .+", said, re.DOTALL), said
    pattern = ".*".join(re.escape(word) for word in words.split(" … "))
    assert re.search(pattern, said), said


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        # Reversed ranges.
        ("0 22-2 * * *", "hour: expected a range that goes up, found '22-2'; write 22-23,0-2"),
        ("59-0 * * * *", "found '59-0'; write 59,0"),
        ("0 0 * * 5-0", "day of week: … found '5-0'; write 5-7"),
        ("0 0 * * SAT-MON", "found 'SAT-MON'; write 6,0-1"),
        ("0 0 * * H(5-2)", "expected a range that goes up, found 'H(5-2)'"),
        # Steps beyond the range.
        ("*/90 * * * *", "minute: expected a step within the range, at most 59, found '*/90'; write the one value"),
        ("0-10/20 * * * *", "at most 10, found '0-10/20'"),
        ("50/20 * * * *", "at most 9, found '50/20'"),
        ("0 */24 * * *", "hour: … at most 23"),
        ("0 0 */100,1-7 * MON", "day of month: … found '*/100'; … MON#1"),
        ("H/61 * * * *", "at most 59, found 'H/61'"),
        ("*/0 * * * *", "expected a step of 1 or more after /, found '*/0'"),
        ("*/ * * * *", "expected a step of 1 or more after /"),
        ("*/x * * * *", "expected a step of 1 or more after /"),
        # Junk.
        ("1.5 * * * *", "minute: expected 0 to 59, found '1.5'; write a number"),
        ("** * * * *", "found '**'; write * alone or */step"),
        ("*-5 * * * *", "found '*-5'; write * alone"),
        ("1- * * * *", "found '1-'; write both ends"),
        ("-5 * * * *", "found '-5'; … no negative numbers"),
        ("1,,2 * * * *", "expected an item between commas, found '1,,2'; remove the comma"),
        (", * * * *", "expected an item between commas"),
        ("60 * * * *", "minute: expected 0 to 59, found '60'; correct the number"),
        ("0 0 0 * *", "day of month: expected 1 to 31, found '0'"),
        ("0 0 * JANUARY *", "month: expected 1 to 12 or JAN to DEC, found 'JANUARY'; … three letters: JAN"),
        ("0 0 * * 8", "day of week: expected 0 to 7 or SUN to SAT, found '8'"),
        ("0 0 * * Monday", "three letters: MON"),
        ("0 0 * * L", "found 'L'; write the day before L"),
        ("0 0 * * L5", "found 'L5'; write the day before L, as 5L"),
        ("0 0 * * 5#6", "found '5#6'; write one day and 1 to 5, as MON#1"),
        ("0 0 * * 1-5#2", "found '1-5#2'"),
        ("0 0 10-15W * *", "found '10-15W'; W takes a single day"),
        ("0 0 WL * *", "found 'WL'; W takes a single day"),
        ("0 0 32W * *", "found '32W'"),
        ("0 0 L-31 * *", "found 'L-31'; write L, L-n with n from 1 to 30"),
        ("0 0 L-0 * *", "found 'L-0'"),
        ("0 0 l * *", "found 'l'; write L, W and H as capitals"),
        ("h h * * *", "found 'h'; … capitals"),
        ("H(1) * * * *", "expected H, H/step, H(a-b) or H(a-b)/step, found 'H(1)'"),
        ("R * * * *", "found 'R'"),
        ("0 0 ? * *", "found '?'; write * for it; the dialects of Quartz and AWS are not offered"),
        ("\uff11 * * * *", "U+FF11 at position 1"),
        # Fields.
        ("", "expected five or six fields, found ''"),
        (" \t ", "expected five or six fields"),
        ("0 0 * *", "expected five fields: minute, hour, day of month, month, day of week, found '0 0 * *'; it has 4"),
        ("0 0 0 * * * 2026", "found '2026'; leave out … a year"),
        ("9 9 * * * root /usr/bin/true", "found 'root /usr/bin/true'; leave out what follows them: a command"),
        ("9 9 * * * /usr/bin/true", "found '/usr/bin/true'; leave out"),
        ("CRON_TZ=Europe/Berlin 0 6 * * *", "found 'CRON_TZ=Europe/Berlin'; give the zone as the schedule's time zone"),
        ("0 0 * * *\n0 12 * * *", "expected one line, … make a schedule of each line"),
        ("* * * * *\0", "replace the NUL U+0000 at position 10"),
        ("0\u00a00 * * *", "replace the no-break space U+00A0 at position 2"),
        ("0 0 * * \ud800", "U+D800 at position 9"),
        ("0," * 200 + "0 * * * *", "expected at most 256 characters, … ranges and steps"),
        # Nicknames.
        ("@reboot", "found '@reboot'; a schedule outlives every machine"),
        ("@every 5m", "found '@every 5m'; make it an interval with every 5m"),
        ("@every", "make it an interval with every"),
        ("@Daily", "found '@Daily'; write @daily"),
        ("@fortnightly", "expected one of @hourly @daily"),
        ("@daily root", "expected nothing after @daily, found 'root'"),
    ],
)
def test_cron(expression: str, words: str) -> None:
    check(replace(CRON, expression=expression), "cron.expression", words)


@pytest.mark.parametrize(
    "expression",
    [
        "0 0 31 2 *",
        "0 0 30 FEB *",
        "0 0 31 4,6,9,11 *",
        "0 0 31W 2 *",
        "0 0 L-30 2 *",
        "0 0 L-29,31 2 *",
        "0 0 30,31 2 */2",
    ],
)
def test_dates_that_never_come(expression: str) -> None:
    words = "expected a date that comes in some year … no month given has such a day"
    check(replace(CRON, expression=expression), "cron.expression", words, "NEVER_FIRES")


@pytest.mark.parametrize(
    "expression", ["0 0 29 2 *", "0 0 L-28 2 *", "0 0 31 2 1", "0 0 29 2 */7", "0 0 31 1,2 *", "0 0 * 2 5#5"]
)
def test_rare_dates_come(expression: str) -> None:
    assert compile_rule(replace(CRON, expression=expression), UID).next_after(AT) is not None


def test_fields_as_many_as_said() -> None:
    check(replace(CRON, expression="0 0 * * * *", cron_fields=5), "cron.expression", "expected 5 fields … it has 6")
    check(replace(CRON, expression="0 0 * * *", cron_fields=6), "cron.expression", "expected 6 fields … it has 5")
    assert compile_rule(replace(CRON, expression="@daily", cron_fields=5), UID)


@pytest.mark.parametrize(
    ("zone", "words"),
    [
        ("FLE Standard Time", "that is a name of Windows; write Europe/Kyiv"),
        ("Nowhere Standard Time", "that is a name of Windows; write the IANA name of a city"),
        ("PST", "an abbreviation … write America/Los_Angeles"),
        ("BST", "write Europe/London, Asia/Dhaka or Pacific/Bougainville"),
        ("EST", "write America/New_York, or America/Panama for UTC-5 all year"),
        ("cest", "write Europe/Berlin"),
        ("+02:00", "an offset does not say when the clocks change; name a place, or write Etc/GMT-2 for UTC+02:00"),
        ("-05:00", "write Etc/GMT+5 for UTC-05:00 all year"),
        ("UTC+5:30", "an offset does not say when the clocks change; name a place"),
        ("GMT+2", "write Etc/GMT-2 for UTC+02:00 all year"),
        ("+99", "an offset does not say"),
        ("america/new_york", "write America/New_York, exactly so"),
        ("New York", "write America/New_York, exactly so"),
        ("Berlin", "write Europe/Berlin, exactly so"),
        (" Europe/Berlin", "remove the blanks around Europe/Berlin"),
        ("", "write UTC where no place is meant"),
        ("America", "a region and a city"),
        ("../../etc/passwd", "a region and a city"),
        ("/etc/localtime", "a region and a city"),
        ("zone.tab", "a region and a city"),
        ("localtime", "depends on the machine"),
        ("right/UTC", "depends on the machine or counts leap seconds"),
        ("Factory", "depends on the machine"),
        ("A" * 300, "(300 characters); no name has more than 64 characters"),
        ("Europe/Berlin\0", "found 'Europe/Berlin\\x00'"),
        ("Europe/Berlin\udc80", "found 'Europe/Berlin\\udc80'"),
    ],
)
def test_zones(zone: str, words: str) -> None:
    check(replace(CRON, time_zone=zone), "time_zone", f"the name of an IANA time zone such as Europe/Berlin … {words}")


def test_hints_at_zones_name_zones() -> None:
    named = [*zones._WINDOWS.values(), *zones._ABBREVIATIONS.values()]
    found = {name for text in named for name in re.findall(r"[A-Z][A-Za-z]+/[A-Za-z_/]+", text)}
    assert len(found) > 40
    assert found <= zones.names()


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("FREQ=DAILY;INTERVAL=0", "INTERVAL: expected 1 or more, found '0'"),
        ("FREQ=DAILY;INTERVAL=-1", "INTERVAL: expected 1 or more"),
        ("FREQ=YEARLY;INTERVAL=101", "INTERVAL: expected at most 100 with YEARLY"),
        ("FREQ=DAILY;COUNT=3;COUNT=5", "RRULE: expected COUNT once, found 'COUNT=5'"),
        ("FREQ=DAILY;COUNT=0", "COUNT: expected 1 to 5000"),
        ("FREQ=MINUTELY;COUNT=999999999999", "COUNT: expected 1 to 5000 (beyond that the schedule's max_count)"),
        ("FREQ=DAILY;COUNT=3;UNTIL=20261231T000000Z", "COUNT: expected COUNT or UNTIL, … remove one of them"),
        ("FREQ=DAILY;UNTIL=20261231", "UNTIL: expected a date-time … 20261231T235959 in the schedule's zone"),
        ("FREQ=DAILY;UNTIL=2026-12-31T00:00:00Z", "UNTIL: … dashes, colons and offsets are not part of it"),
        ("FREQ=DAILY;UNTIL=20260230T000000Z", "UNTIL: expected a date-time"),
        ("FREQ=FORTNIGHTLY", "FREQ: expected one of YEARLY … found 'FORTNIGHTLY'"),
        ("INTERVAL=2", "RRULE: expected FREQ, … add FREQ="),
        ("FREQ=DAILY;", "expected parts such as FREQ=DAILY between semicolons"),
        ("FREQ=DAILY;BYMONTH=", "expected parts such as FREQ=DAILY between semicolons, found 'BYMONTH='"),
        ("FREQ=DAILY;BYEASTER=0", "expected a part of RFC 5545, found 'BYEASTER=0'; leave it out; known are FREQ"),
        ("FREQ=DAILY;BYHOUR=24", "BYHOUR: expected 0 to 23"),
        ("FREQ=DAILY;BYSECOND=60", "BYSECOND: expected 0 to 59"),
        ("FREQ=MONTHLY;BYMONTHDAY=0", "BYMONTHDAY: expected 1 to 31 or -31 to -1"),
        ("FREQ=MONTHLY;BYMONTHDAY=32", "BYMONTHDAY: expected"),
        ("FREQ=MONTHLY;BYMONTHDAY=1.5", "BYMONTHDAY: expected"),
        ("FREQ=YEARLY;BYMONTH=13", "BYMONTH: expected 1 to 12"),
        ("FREQ=WEEKLY;BYDAY=XX", "BYDAY: expected MO to SU"),
        ("FREQ=WEEKLY;BYDAY=1MO", "BYDAY: expected days without numbers with WEEKLY"),
        ("FREQ=MONTHLY;BYDAY=6MO", "BYDAY: expected -5 to 5 before a day with MONTHLY"),
        ("FREQ=YEARLY;BYDAY=54MO", "BYDAY: expected MO to SU"),
        ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=1MO", "BYDAY: expected days without numbers with BYWEEKNO"),
        ("FREQ=MONTHLY;BYWEEKNO=20", "BYWEEKNO: expected FREQ=YEARLY with it"),
        ("FREQ=MONTHLY;BYYEARDAY=20", "BYYEARDAY: expected FREQ=YEARLY"),
        ("FREQ=WEEKLY;BYMONTHDAY=20", "BYMONTHDAY: expected another FREQ than WEEKLY"),
        ("FREQ=MONTHLY;BYSETPOS=1", "BYSETPOS: expected another BY part beside it"),
        ("FREQ=HOURLY;BYMINUTE=1;BYSETPOS=1", "BYSETPOS: expected FREQ=DAILY or longer"),
        ("FREQ=WEEKLY;WKST=XX", "WKST: expected one of MO to SU"),
        ("RRULE:FREQ=DAILY\nRRULE:FREQ=WEEKLY", "expected one RRULE"),
        ("RRULE:FREQ=DAILY\nEXRULE:FREQ=WEEKLY", "found 'EXRULE:FREQ=WEEKLY'; … EXDATE"),
        ("BEGIN:VEVENT\nRRULE:FREQ=DAILY", "expected lines RRULE, DTSTART, RDATE and EXDATE, found 'BEGIN:VEVENT'"),
        ("RRULE;X=1:FREQ=DAILY", "expected lines RRULE"),
        ("RDATE:20260101T000000", "expected one RRULE"),
        ("", "expected one RRULE"),
        ("hello", "expected lines RRULE"),
        ("DTSTART:20260101\nRRULE:FREQ=DAILY", "DTSTART: expected a date-time such as 20260308T023000"),
        ("DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=DAILY", "DTSTART: expected TZID or VALUE=DATE-TIME"),
        ("DTSTART:20260230T000000\nRRULE:FREQ=DAILY", "DTSTART: expected a date-time"),
        ("DTSTART:20260101T000000\nDTSTART:20260101T000000\nRRULE:FREQ=DAILY", "DTSTART: expected it once"),
        (
            "DTSTART;TZID=Europe/Berlin:20260101T000000\nRRULE:FREQ=DAILY",
            "DTSTART: expected the schedule's time zone as TZID: UTC",
        ),
        ("DTSTART;TZID=UTC:20260101T000000Z\nRRULE:FREQ=DAILY", "expected a local time after TZID"),
        ("FREQ=DAILY\nEXDATE:tomorrow", "EXDATE: expected a date-time"),
        ("FREQ=DAILY\nRDATE:" + ",".join(["20260101T000000"] * 501), "RDATE: expected at most 500 dates, found '501'"),
        ("FREQ=DAILY\0", "U+0000 at position 11"),
        ("FREQ=DAILY\u2028", "expected printable ASCII in lines … U+2028"),
        ("X" * 9_000, "expected at most 8192 bytes, … (9000 characters)"),
    ],
)
def test_rrule(rule: str, words: str) -> None:
    check(replace(RRULE, expression=rule), "rrule.text", words)


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=YEARLY;BYMONTH=5;BYMONTHDAY=3;BYSETPOS=3",
        "FREQ=DAILY;BYHOUR=1;BYSETPOS=2",
        "FREQ=DAILY;UNTIL=20200101T000000Z",
        "FREQ=HOURLY;INTERVAL=24;BYHOUR=5",
        "FREQ=SECONDLY;INTERVAL=60;BYSECOND=7",
        "FREQ=MINUTELY;INTERVAL=2;BYMINUTE=1",
        "FREQ=DAILY;COUNT=1\nEXDATE:20260308T023000",
    ],
)
def test_rrules_that_never_fire(rule: str) -> None:
    words = "expected at least one time to fire at … names no date that exists, none within 100 years, or ends before"
    check(replace(RRULE, expression=rule), "rrule.text", words, "NEVER_FIRES")


def test_rrule_without_a_start() -> None:
    check(replace(RRULE, local_start=""), "rrule.text", "DTSTART: expected a line such as DTSTART:20260308T023000")
    check(replace(RRULE, local_start="soon"), "rrule.local_start", "expected a local time such as 2026-03-08T02:30:00")
    assert compile_rule(replace(RRULE, local_start="", anchor=AT), UID).next_after(AT - timedelta(seconds=1))


def test_rrule_in_utc_and_in_a_zone() -> None:
    text = "DTSTART:20260101T000000Z\nRRULE:FREQ=DAILY"
    words = "DTSTART: expected a local time in Europe/Berlin, found '2026-01-01T00:00:00Z'; remove the Z, or make"
    check(replace(RRULE, expression=text, time_zone="Europe/Berlin"), "rrule.text", words)
    for zone in ("UTC", "Etc/UTC", "Zulu", "GMT"):
        assert compile_rule(replace(RRULE, expression=text, time_zone=zone), UID).next_after(AT)


@pytest.mark.parametrize(("name", "field"), [("rdates", "rrule.rdates"), ("exdates", "rrule.exdates")])
def test_dates_beside_an_rrule(name: str, field: str) -> None:
    spec: Any = {name: ("2026-03-08",)}
    check(replace(RRULE, **spec), field, "expected a date-time such as 2026-03-08T02:30:00, found '2026-03-08'")
    many: Any = {name: ("2026-03-08T00:00:00",) * 501}
    check(replace(RRULE, **many), field, "expected at most 500 dates")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-03-08",
        "2026-03-08 02:30:00",
        "2026-03-08T02:30:00Z",
        "2026-03-08T02:30:00+01:00",
        "2026-02-30T00:00:00",
        "2026-03-08T24:00:00",
        "0001-01-01T00:00:00",
        "9999-01-01T00:00:00",
        "2026-03-08T02:30:00\n",
    ],
)
def test_local_times(text: str) -> None:
    check(replace(ONCE, local_start=text), "once.local_time", "expected a local time such as 2026-03-08T02:30:00")


def test_once_that_never_comes() -> None:
    words = "does not exist in America/New_York, where the clock skipped it; give another time"
    check(replace(ONCE, gap=GapPolicy.SKIP), "once.local_time", words, "NEVER_FIRES")
    at = "2026-03-08T07:30:00Z"
    excluded = replace(ONCE, excluded_dates=parse_dates(["2026-03-08"], "d"))
    check(excluded, "once.local_time", "change its bounds or its exclusions", "NEVER_FIRES")
    check(replace(ONCE, end=instant(at)), "once.local_time", "at least one time to fire at", "NEVER_FIRES")
    check(
        replace(ONCE, start=instant(at) + timedelta(seconds=1)),
        "once.local_time",
        "found '2026-03-08T02:30",
        "NEVER_FIRES",
    )
    instants = RuleSpec(RuleKind.ONCE, run_time=AT, end=AT)
    check(instants, "once.run_time", "expected at least one time to fire at", "NEVER_FIRES")
    check(replace(ONCE, run_time=AT), "once", "expected an instant or a local time, … give one of them")


@pytest.mark.parametrize(
    ("every_s", "words"),
    [
        (0, "expected 1 s to 3660 days, found '0 s'"),
        (-5, "expected 1 s to 3660 days"),
        (0.5, "expected whole seconds, found '0.5 s'; round it"),
        (1.5, "expected whole seconds"),
        (3_661 * 86_400, "expected 1 s to 3660 days"),
    ],
)
def test_intervals(every_s: float, words: str) -> None:
    check(replace(INTERVAL, every_s=every_s), "interval.every", words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected an ISO 8601 duration such as PT90S, PT4H or P1D, found ''"),
        ("P", "write whole numbers"),
        ("PT", "write whole numbers"),
        ("P1DT", "write whole numbers"),
        ("-PT5M", "an interval is positive"),
        ("P1M", "years and months are no elapsed time: make it an rrule"),
        ("P1Y2M3D", "years and months are no elapsed time"),
        ("5m", "write PT5M"),
        ("2d", "write P2D"),
        ("PT1E9H", "write whole numbers"),
        ("PT0.1S", "fractions of a second are not offered; the shortest is 1 s"),
        ("PT0S", "expected 1 s to 3660 days"),
        ("PT999999999H", "expected 1 s to 3660 days"),
        ("PT9999999999H", "write whole numbers"),
        ("PT5M\n", "write whole numbers"),
    ],
)
def test_durations(text: str, words: str) -> None:
    check(replace(INTERVAL, every_s=None, expression=text), "interval.every", words)


def test_durations_that_are_taken() -> None:
    texts = {"PT90S": 90, "PT4H": 14_400, "P1D": 86_400, "P2W": 1_209_600, "P1DT2H3M4S": 93_784, "PT007M": 420}
    assert {text: iso_duration_s(text, "every") for text in texts} == texts


def test_interval_without_an_anchor() -> None:
    check(replace(INTERVAL, anchor=None), "interval.anchor_time", "expected an instant to count from")


def test_bounds() -> None:
    check(replace(CRON, start=AT, end=AT), "end_time", "expected an instant after start_time, 2026-03-01T00:00:00Z")
    check(replace(CRON, start=AT, end=AT - timedelta(days=1)), "end_time", "expected an instant after start_time")
    check(
        replace(CRON, start=AT + timedelta(hours=1), end=AT + timedelta(hours=2)),
        "cron.expression",
        "at least one time",
        "NEVER_FIRES",
    )
    far = instant("9999-12-31T00:00:00Z")
    check(replace(CRON, start=far), "start_time", "expected an instant from year 2 to 9990")
    check(replace(CRON, end=far), "end_time", "expected an instant from year 2 to 9990")
    check(replace(INTERVAL, anchor=far), "interval.anchor_time", "expected an instant from year 2 to 9990")


@pytest.mark.parametrize("span_s", [-1.0, 86_400.5, float("inf"), float("nan")])
def test_jitter(span_s: float) -> None:
    check(replace(CRON, jitter_s=span_s), "jitter.span", "expected 0 s to 24 h")


def test_exclusions() -> None:
    every_day = DateSet(yearly=frozenset((month, day) for month in range(1, 13) for day in range(1, 32)))
    always = Calendar("calendars/always", every_day)
    check(
        replace(CRON, calendars=(always,)),
        "cron.expression",
        "change the rule, its bounds or its exclusions",
        "NEVER_FIRES",
    )
    check(replace(INTERVAL, calendars=(always,)), "interval.every", "at least one time to fire at", "NEVER_FIRES")
    check(replace(CRON, calendars=(always,) * 9), "exclusions.calendars", "expected at most 8 calendars, found '9'")
    many = DateSet(frozenset(AT.date() + timedelta(days=n) for n in range(367)))
    check(replace(CRON, excluded_dates=many), "exclusions.dates", "expected at most 366 dates")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-13-01",
        "2026-02-29",
        "--02-30",
        "-12-25",
        "12-25",
        "2026-12-25T00:00:00",
        "2026-12-25\n",
        "２026-12-25",
    ],
)
def test_dates(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"expected a date as 2026-12-25, or --12-25 for every year, found"):
        parse_dates([text], "exclusions.dates")


def test_dates_by_number() -> None:
    assert (2, 29) in parse_dates(["--02-29"], "d").yearly
    with pytest.raises(InvalidArgument, match=r"calendar.dates: expected at most 2 dates, found '3'"):
        parse_dates(["2026-01-01"] * 3, "calendar.dates", 2)


def test_fields_are_named_from_where_the_caller_says() -> None:
    for field, expected in (("requests[3].schedule", "requests[3].schedule.time_zone"), ("", "time_zone")):
        with pytest.raises(InvalidArgument) as refused:
            compile_rule(replace(CRON, time_zone="PST"), UID, field)
        assert refused.value.violations[0].field == expected


def test_the_search_is_given_up_with_a_word() -> None:
    odd = replace(RRULE, expression="FREQ=DAILY;INTERVAL=90;BYMONTHDAY=-13;BYDAY=TH", local_start="2004-07-10T03:15:00")
    rule = compile_rule(odd, UID)
    with pytest.raises(
        InvalidArgument, match=r"expected a time within 100 years after 2030-01-01T00:00:00Z"
    ) as refused:
        rule.next_after(instant("2030-01-01T00:00:00Z"))
    assert refused.value.reason == "NEVER_FIRES"
    assert refused.value.violations[0].field == "rule.rrule.text"
    assert limits.RULE_SEARCH_YEARS == 100
