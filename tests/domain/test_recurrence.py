"""Rules at their edges: the table of clock changes with its options, exclusions, bounds, jitter, anchors."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest

from rota.domain.dateset import Calendar, DateSet, parse_dates
from rota.domain.dst import GapPolicy, OverlapPolicy
from rota.domain.errors import InvalidArgument
from rota.domain.jitter import JitterMode
from rota.domain.recurrence import compile_rule
from rota.domain.rulespec import RuleKind, RuleSpec

from .rules import UID, check, cron, every, instant, once, rrule, walk

NEW_YORK, SAMOA, LORD_HOWE = "America/New_York", "Pacific/Apia", "Australia/Lord_Howe"
EVE, FALL_EVE = "2026-03-07T12:00:00Z", "2026-10-31T16:00:00Z"
GAP_DAY, NEXT_DAY = "2026-03-08T", "2026-03-09T02:30:00-04:00"


# On 2026-03-08 New York goes from 02:00 to 03:00, on 2026-11-01 from 02:00 back to 01:00.
@pytest.mark.parametrize(
    ("expression", "gap", "expected"),
    [
        ("30 2 * * *", None, ["2026-03-08T03:00:00-04:00", NEXT_DAY]),
        ("30 2 * * *", GapPolicy.RUN_AFTER, ["2026-03-08T03:00:00-04:00", NEXT_DAY]),
        ("30 2 * * *", GapPolicy.SHIFT, ["2026-03-08T03:30:00-04:00", NEXT_DAY]),
        ("30 2 * * *", GapPolicy.SKIP, [NEXT_DAY]),
        # Several in one gap make one; one that is there anyway at its end is not doubled.
        ("5,25,45 2 * * *", None, ["2026-03-08T03:00:00-04:00", "2026-03-09T02:05:00-04:00"]),
        ("0 2,3 * * *", None, ["2026-03-08T03:00:00-04:00", "2026-03-09T02:00:00-04:00"]),
        ("5,25 2 * * *", GapPolicy.SHIFT, ["2026-03-08T03:05:00-04:00", "2026-03-08T03:25:00-04:00"]),
        # What is shifted stands among what is there.
        (
            "10,50 2,3 * * *",
            GapPolicy.SHIFT,
            ["2026-03-08T03:10:00-04:00", "2026-03-08T03:50:00-04:00", "2026-03-09T02:10:00-04:00"],
        ),
        # Wildcards follow real time: 01:30, 03:30; and what stands in the gap alone is not made up.
        ("30 * * * *", None, ["2026-03-07T07:30:00-05:00", "2026-03-07T08:30:00-05:00"]),
        ("*/30 2 * * *", None, ["2026-03-09T02:00:00-04:00", NEXT_DAY]),
        ("*/30 2 * * *", GapPolicy.RUN_AFTER, ["2026-03-08T03:00:00-04:00", "2026-03-09T02:00:00-04:00"]),
        ("15,45 2 * * * *", GapPolicy.RUN_AFTER, ["2026-03-07T07:02:15-05:00", "2026-03-07T07:02:45-05:00"]),
        # Six fields are as five.
        ("10,20 30 2 * * *", None, ["2026-03-08T03:00:00-04:00", "2026-03-09T02:30:10-04:00"]),
        ("10 30 2 * * *", GapPolicy.SHIFT, ["2026-03-08T03:30:10-04:00", "2026-03-09T02:30:10-04:00"]),
    ],
)
def test_cron_in_a_gap(expression: str, gap: GapPolicy | None, expected: list[str]) -> None:
    check(cron(expression, NEW_YORK, gap=gap), EVE, expected)


@pytest.mark.parametrize(
    ("expression", "overlap", "expected"),
    [
        ("30 1 * * *", None, ["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"]),
        ("30 1 * * *", OverlapPolicy.FIRST, ["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"]),
        ("30 1 * * *", OverlapPolicy.SECOND, ["2026-11-01T01:30:00-05:00", "2026-11-02T01:30:00-05:00"]),
        (
            "30 1 * * *",
            OverlapPolicy.BOTH,
            ["2026-11-01T01:30:00-04:00", "2026-11-01T01:30:00-05:00", "2026-11-02T01:30:00-05:00"],
        ),
        # In order of real time, pass by pass.
        (
            "0,30 1 * * *",
            OverlapPolicy.BOTH,
            [
                "2026-11-01T01:00:00-04:00",
                "2026-11-01T01:30:00-04:00",
                "2026-11-01T01:00:00-05:00",
                "2026-11-01T01:30:00-05:00",
            ],
        ),
        ("0 1,2 * * *", OverlapPolicy.SECOND, ["2026-11-01T01:00:00-05:00", "2026-11-01T02:00:00-05:00"]),
        ("0,30 1 * * *", None, ["2026-11-01T01:00:00-04:00", "2026-11-01T01:30:00-04:00", "2026-11-02T01:00:00-05:00"]),
        (
            "*/30 1 * * *",
            None,
            [
                "2026-11-01T01:00:00-04:00",
                "2026-11-01T01:30:00-04:00",
                "2026-11-01T01:00:00-05:00",
                "2026-11-01T01:30:00-05:00",
            ],
        ),
        (
            "*/30 1 * * *",
            OverlapPolicy.FIRST,
            ["2026-11-01T01:00:00-04:00", "2026-11-01T01:30:00-04:00", "2026-11-02T01:00:00-05:00"],
        ),
        # Its one time of the year: the second pass is still found.
        (
            "30 1 1 11 *",
            OverlapPolicy.BOTH,
            ["2026-11-01T01:30:00-04:00", "2026-11-01T01:30:00-05:00", "2027-11-01T01:30:00-04:00"],
        ),
        ("30 1 1 11 *", OverlapPolicy.SECOND, ["2026-11-01T01:30:00-05:00", "2027-11-01T01:30:00-04:00"]),
    ],
)
def test_cron_in_an_overlap(expression: str, overlap: OverlapPolicy | None, expected: list[str]) -> None:
    check(cron(expression, NEW_YORK, overlap=overlap), FALL_EVE, expected)


@pytest.mark.parametrize(
    ("gap", "overlap", "expected"),
    [
        (None, None, ["2026-03-07T02:30:00-05:00", "2026-03-09T02:30:00-04:00", "2026-03-10T02:30:00-04:00"]),
        (
            GapPolicy.RUN_AFTER,
            None,
            ["2026-03-07T02:30:00-05:00", "2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"],
        ),
        (
            GapPolicy.SHIFT,
            None,
            ["2026-03-07T02:30:00-05:00", "2026-03-08T03:30:00-04:00", "2026-03-09T02:30:00-04:00"],
        ),
    ],
)
def test_rrule_in_a_gap_and_what_it_counts(
    gap: GapPolicy | None, overlap: OverlapPolicy | None, expected: list[str]
) -> None:
    rule = rrule("FREQ=DAILY;COUNT=3", "2026-03-07T02:30:00", NEW_YORK, gap=gap, overlap=overlap)
    check(rule, "2026-01-01T00:00:00Z", expected, ends=True)


def test_rrule_in_an_overlap() -> None:
    daily, start = "FREQ=DAILY;COUNT=3", "2026-10-31T01:30:00"
    first, second = "2026-11-01T01:30:00-04:00", "2026-11-01T01:30:00-05:00"
    eve, day_after, later = "2026-10-31T01:30:00-04:00", "2026-11-02T01:30:00-05:00", "2026-01-01T00:00:00Z"
    check(rrule(daily, start, NEW_YORK), later, [eve, first, day_after], ends=True)
    check(rrule(daily, start, NEW_YORK, overlap=OverlapPolicy.SECOND), later, [eve, second, day_after], ends=True)
    check(rrule(daily, start, NEW_YORK, overlap=OverlapPolicy.BOTH), later, [eve, first, second], ends=True)


def test_once_in_gap_and_overlap() -> None:
    new_year = "2026-01-01T00:00:00Z"
    check(once("2026-03-08T02:30:00", NEW_YORK), new_year, ["2026-03-08T03:30:00-04:00"], ends=True)
    after = once("2026-03-08T02:30:00", NEW_YORK, gap=GapPolicy.RUN_AFTER)
    check(after, new_year, ["2026-03-08T03:00:00-04:00"], ends=True)
    check(once("2026-11-01T01:30", NEW_YORK), new_year, ["2026-11-01T01:30:00-04:00"], ends=True)
    second = once("2026-11-01T01:30:00", NEW_YORK, overlap=OverlapPolicy.SECOND)
    check(second, new_year, ["2026-11-01T01:30:00-05:00"], ends=True)
    both = once("2026-11-01T01:30:00", NEW_YORK, overlap=OverlapPolicy.BOTH)
    check(both, new_year, ["2026-11-01T01:30:00-04:00", "2026-11-01T01:30:00-05:00"], ends=True)


@pytest.mark.parametrize("gap", [None, *GapPolicy])
def test_a_correction_replays_nothing(gap: GapPolicy | None) -> None:
    # Samoa had no 30 December 2011: from the 29th, 24:00, to the 31st.
    check(cron("0 9 30 * *", SAMOA, gap=gap), "2011-12-01T00:00:00Z", ["2012-01-30T09:00:00+14:00"])
    days = ["2011-12-29T09:00:00-10:00", "2011-12-31T09:00:00+14:00"]
    check(cron("0 9 * * *", SAMOA, gap=gap), "2011-12-29T00:00:00Z", days)
    check(rrule("FREQ=DAILY", "2011-12-29T09:00:00", SAMOA, gap=gap), "2011-12-29T00:00:00Z", days)
    # Three hours to the second are a correction too: Casey, 2009-10-18.
    check(cron("30 3 * * *", "Antarctica/Casey", gap=gap), "2009-10-17T00:00:00Z", ["2009-10-19T03:30:00+11:00"])
    with pytest.raises(InvalidArgument, match=r"does not exist in Pacific/Apia, where the clock skipped it") as refused:
        once("2011-12-30T09:00:00", SAMOA, gap=gap)
    assert refused.value.reason == "NEVER_FIRES"


@pytest.mark.parametrize("overlap", [None, *OverlapPolicy])
def test_a_correction_backwards_repeats_nothing(overlap: OverlapPolicy | None) -> None:
    # Casey went back by three hours on 2010-03-05, from 02:00 to 23:00 of the day before.
    rule = cron("30 23 * * *", "Antarctica/Casey", overlap=overlap)
    expected = ["2010-03-04T23:30:00+11:00", "2010-03-05T23:30:00+08:00"]
    check(rule, "2010-03-04T00:00:00Z", expected)
    wildcard = cron("30 * 4 3 *", "Antarctica/Casey")
    assert len(wildcard.between(instant("2010-03-04T12:00:00Z"), instant("2010-03-05T12:00:00Z"), 99)) == 2


def test_half_an_hour_of_change() -> None:
    # Lord Howe goes from 02:00 to 02:30 on 2026-10-04, and from 02:00 to 01:30 on 2026-04-05.
    check(
        cron("15 2 * * *", LORD_HOWE),
        "2026-10-03T12:00:00Z",
        ["2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"],
    )
    check(cron("15 2 * * *", LORD_HOWE, gap=GapPolicy.SHIFT), "2026-10-03T12:00:00Z", ["2026-10-04T02:45:00+11:00"])
    overlap = ["2026-04-05T01:45:00+11:00", "2026-04-05T01:45:00+10:30"]
    check(cron("45 1 * * *", LORD_HOWE, overlap=OverlapPolicy.BOTH), "2026-04-04T12:00:00Z", overlap)


def test_hours_of_an_rrule_are_elapsed_time() -> None:
    hourly = rrule("FREQ=HOURLY;INTERVAL=2", "2026-03-07T22:30:00", NEW_YORK)
    hours = ["2026-03-08T00:30:00-05:00", "2026-03-08T03:30:00-04:00", "2026-03-08T05:30:00-04:00"]
    check(hourly, "2026-03-08T04:00:00Z", hours)
    check(
        rrule("FREQ=HOURLY", "2026-11-01T00:30:00", NEW_YORK),
        "2026-11-01T04:00:00Z",
        [
            "2026-11-01T00:30:00-04:00",
            "2026-11-01T01:30:00-04:00",
            "2026-11-01T01:30:00-05:00",
            "2026-11-01T02:30:00-05:00",
        ],
    )


def test_minutes_named_by_an_hourly_rrule_are_those_of_the_clock() -> None:
    # The clock of Lord Howe is put forward and back by half an hour; minute 0 stays minute 0.
    named = rrule("FREQ=HOURLY;BYMINUTE=0", "2026-10-04T00:00:00", LORD_HOWE)
    check(
        named,
        "2026-10-03T13:00:00Z",
        [
            "2026-10-04T00:00:00+10:30",
            "2026-10-04T01:00:00+10:30",
            "2026-10-04T03:00:00+11:00",
            "2026-10-04T04:00:00+11:00",
        ],
    )
    back = [fire.local for fire in walk(named, instant("2027-04-03T13:30:00Z"), 5)]
    assert back == [
        f"2027-04-04T{clock}"
        for clock in ("01:00:00+11:00", "02:00:00+10:30", "03:00:00+10:30", "04:00:00+10:30", "05:00:00+10:30")
    ]
    elapsed = rrule("FREQ=HOURLY", "2026-10-04T00:00:00", LORD_HOWE)
    check(elapsed, "2026-10-03T14:00:00Z", ["2026-10-04T01:00:00+10:30", "2026-10-04T02:30:00+11:00"])


def test_an_rrule_below_a_day_is_limited_by_the_clock() -> None:
    rule = rrule("FREQ=MINUTELY;INTERVAL=20;BYHOUR=1;BYDAY=SU", "2026-10-31T12:00:00", NEW_YORK)
    passes = [f"2026-11-01T01:{minute}:00{offset}" for offset in ("-04:00", "-05:00") for minute in ("00", "20", "40")]
    check(rule, "2026-10-31T00:00:00Z", [*passes, "2026-11-08T01:00:00-05:00"])


def test_an_rrule_below_a_day_looks_at_both_passes_and_over_gaps() -> None:
    early = rrule("FREQ=MINUTELY;INTERVAL=10;BYHOUR=1;BYMINUTE=0,10;BYDAY=SU", "2026-10-31T12:00:00", NEW_YORK)
    check(early, "2026-11-01T05:40:00Z", ["2026-11-01T01:00:00-05:00", "2026-11-01T01:10:00-05:00"])
    monday = rrule("FREQ=HOURLY;BYDAY=MO;BYHOUR=0", "2026-01-01T00:00:00", NEW_YORK)
    check(monday, "2026-03-04T00:00:00Z", ["2026-03-09T00:00:00-04:00", "2026-03-16T00:00:00-04:00"])


def test_weeks_of_the_year() -> None:
    for number in (1, 9, 52, 53, -1, -53):
        rule = rrule(f"FREQ=YEARLY;BYWEEKNO={number};BYDAY=MO,TH,SU", "1990-01-01T00:00:00")
        day, expected = date(1990, 1, 1), []
        while day.year < 2060:
            year, week, weekday = day.isocalendar()
            weeks = date(year, 12, 28).isocalendar().week
            if weekday in (1, 4, 7) and number in (week, week - weeks - 1):
                expected.append(day)
            day += timedelta(days=1)
        fires = rule.between(instant("1989-12-31T00:00:00Z"), instant("2059-12-31T00:00:00Z"), 9_999)
        assert [fire.nominal.date() for fire in fires] == expected


def test_positions_before_dtstart_are_not_taken() -> None:
    rule = rrule("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=1", "2026-08-15T09:00:00")
    check(rule, "2026-08-01T00:00:00Z", ["2026-09-07T09:00:00+00:00", "2026-10-05T09:00:00+00:00"])


def test_a_local_until_holds_through_both_passes() -> None:
    text = "DTSTART:20261031T013000\nRRULE:FREQ=DAILY;UNTIL=20261101T013000"
    rule = compile_rule(RuleSpec(RuleKind.RRULE, text, time_zone=NEW_YORK, overlap=OverlapPolicy.SECOND), UID)
    check(rule, "2026-01-01T00:00:00Z", ["2026-10-31T01:30:00-04:00", "2026-11-01T01:30:00-05:00"], ends=True)


def test_an_interval_knows_no_clock() -> None:
    ninety = every(5400, "2026-03-08T05:00:00Z", time_zone=NEW_YORK)
    check(ninety, "2026-03-08T05:00:00Z", ["2026-03-08T01:30:00-05:00", "2026-03-08T04:00:00-04:00"])
    assert {b.nominal - a.nominal for a, b in pairwise(walk(ninety, instant(FALL_EVE), 40))} == {timedelta(minutes=90)}


def test_an_edit_of_an_interval_does_not_move_its_anchor() -> None:
    anchor, edited = "2026-01-01T00:00:07.900Z", "2026-01-01T10:00:15Z"
    check(every(10, anchor), edited, ["2026-01-01T10:00:17Z", "2026-01-01T10:00:27Z"])
    check(every(2, anchor), edited, ["2026-01-01T10:00:17Z", "2026-01-01T10:00:19Z"])
    check(every(3600, anchor), edited, ["2026-01-01T11:00:07Z"])
    # Whoever asks late, after a jump of the clock or a year of rest, is answered at once and on the grid.
    check(every(1, anchor), "2126-01-01T00:00:00.000001Z", ["2126-01-01T00:00:01Z"])


def test_once_at_an_instant_keeps_its_microseconds() -> None:
    run_time = instant("2026-11-01T05:30:00.250001Z")
    rule = compile_rule(RuleSpec(RuleKind.ONCE, time_zone=NEW_YORK, run_time=run_time), UID)
    check(rule, "2026-11-01T05:30:00.250000Z", ["2026-11-01T01:30:00.250001-04:00"], ends=True)
    assert rule.next_after(run_time) is None
    assert rule.between(run_time - timedelta(seconds=1), run_time, 9)[0].nominal == run_time
    assert rule.between(run_time - timedelta(seconds=1), run_time - timedelta(microseconds=1), 9) == []


@pytest.mark.parametrize("micros", [0, 1, 999_999])
def test_asked_between_two_seconds(micros: int) -> None:
    rule = cron("* * * * * *")
    at = instant("2026-01-01T00:00:00Z") + timedelta(microseconds=micros)
    fire = rule.next_after(at)
    assert fire is not None and fire.nominal == instant("2026-01-01T00:00:01Z")


def test_start_and_end() -> None:
    bounds = {"start": instant("2026-05-03T00:00:00Z"), "end": instant("2026-05-05T00:00:00Z")}
    check(
        cron("0 0 * * *", **bounds), "2020-01-01T00:00:00Z", ["2026-05-03T00:00:00Z", "2026-05-04T00:00:00Z"], ends=True
    )
    bounds = {"start": instant("2026-05-03T00:00:00.000001Z"), "end": instant("2026-05-05T00:00:00.000001Z")}
    check(
        cron("0 0 * * *", **bounds), "2020-01-01T00:00:00Z", ["2026-05-04T00:00:00Z", "2026-05-05T00:00:00Z"], ends=True
    )
    spent = cron("0 0 * * *", **bounds)
    with pytest.raises(InvalidArgument, match=r"expected a time after 2026-06-01T00:00:00Z") as refused:
        spent.require_next(instant("2026-06-01T00:00:00Z"))
    assert refused.value.reason == "NEVER_FIRES"
    assert spent.require_next(instant("2026-05-04T00:00:00Z")).local == "2026-05-05T00:00:00+00:00"


def test_bounds_of_long_ago() -> None:
    bounds = {"start": instant("1990-01-01T12:00:00Z"), "end": instant("1990-01-03T00:00:00Z")}
    check(cron("0 0 * * *", **bounds), "1980-01-01T00:00:00Z", ["1990-01-02T00:00:00Z"], ends=True)
    ended = cron("0 0 * * *", end=bounds["end"])
    check(ended, "1990-01-01T12:00:00Z", ["1990-01-02T00:00:00Z"], ends=True)


def test_what_was_found_before_a_search_is_given_up_is_kept() -> None:
    rule = rrule("FREQ=DAILY;INTERVAL=90;BYMONTHDAY=-13;BYDAY=TH", "2004-07-10T03:15:00")
    [last] = rule.between(instant("2025-01-01T00:00:00Z"), instant("2026-01-01T00:00:00Z"), 100)
    assert last.local == "2025-09-18T03:15:00+00:00"
    assert [line.local for line in rule.preview(instant("2025-01-01T00:00:00Z"), 5)] == [last.local]
    assert not rule.exhausted(last.nominal)
    with pytest.raises(InvalidArgument, match="the search was given up"):
        rule.between(last.nominal, instant("2026-01-01T00:00:00Z"), 100)


def test_rdate_and_exdate() -> None:
    text = (
        "DTSTART;TZID=America/New_York:20260307T023000\r\n"
        "RRULE:FREQ=DAILY;COUNT=4\r\n"
        "EXDATE;TZID=America/New_York:20260310T023000,\r\n 20260311T023000\r\n"
        "RDATE:20260401T120000Z,20260307T023000\r\n"
    )
    rule = compile_rule(RuleSpec(RuleKind.RRULE, text, time_zone=NEW_YORK), UID)
    # The 8th does not exist and is not counted; what EXDATE removes is counted; what RDATE doubles comes once.
    check(
        rule,
        "2026-01-01T00:00:00Z",
        ["2026-03-07T02:30:00-05:00", "2026-03-09T02:30:00-04:00", "2026-04-01T08:00:00-04:00"],
        ends=True,
    )
    beside = rrule(
        "FREQ=DAILY;COUNT=1",
        "2026-03-07T02:30:00",
        rdates=("2026-03-08T00:00:00", "2026-03-09T00:00:00Z"),
        exdates=("20260307T023000Z",),
    )
    check(beside, "2026-01-01T00:00:00Z", ["2026-03-08T00:00:00Z", "2026-03-09T00:00:00Z"], ends=True)


def test_excluded_dates_and_calendars() -> None:
    holidays = Calendar("calendars/holidays", parse_dates(["2026-12-28", "--01-01"], "dates"))
    rule = cron(
        "0 9 * * *", "Europe/Berlin", excluded_dates=parse_dates(["2026-12-30", "--12-25"], "d"), calendars=(holidays,)
    )
    days = ["24", "26", "27", "29", "31"]
    expected = [f"2026-12-{day}T09:00:00+01:00" for day in days] + ["2027-01-02T09:00:00+01:00"]
    check(rule, "2026-12-24T00:00:00Z", expected)
    # With their fate to be recorded, the excluded ones are there too.
    everyone = rule.between(instant("2026-12-24T00:00:00Z"), instant("2026-12-28T08:00:00Z"), 9, with_excluded=True)
    assert [(fire.local[8:10], fire.excluded, fire.reason) for fire in everyone] == [
        ("24", False, ""),
        ("25", True, "excluded: nothing runs on 2026-12-25"),
        ("26", False, ""),
        ("27", False, ""),
        ("28", True, "excluded: nothing runs on 2026-12-28, by calendars/holidays"),
    ]


def test_the_excluded_date_is_that_on_the_schedules_clock_where_it_runs() -> None:
    # 23:30 on Saturday, 30 March 2024, does not exist in Nuuk; it would run on Sunday at 00:00.
    nuuk = {"zone": "America/Nuuk", "expression": "30 23 * * 6"}
    after, moved = "2024-03-25T00:00:00Z", "2024-03-31T00:00:00-01:00"
    check(cron(**nuuk, excluded_dates=parse_dates(["2024-03-30"], "d")), after, [moved])
    check(cron(**nuuk, excluded_dates=parse_dates(["2024-03-31"], "d")), after, ["2024-04-06T23:30:00-01:00"])


def test_a_day_that_comes_back_over_midnight() -> None:
    # St. John's went back at 00:01 to 23:01 of the day before, on 2006-10-29.
    days = [f"2006-10-{day}" for day in range(29, 32)]
    for excluded, then in ((days[:1], "2006-10-30T00:00:00-03:30"), (days, "2006-11-01T00:00:00-03:30")):
        rule = cron("*/30 * * * *", "America/St_Johns", excluded_dates=parse_dates(excluded, "d"))
        passes = ["2006-10-28T23:30:00-02:30", "2006-10-28T23:30:00-03:30"]
        check(rule, "2006-10-29T01:59:00Z", [*passes, then])


def test_a_long_exclusion_is_passed_at_once() -> None:
    first = date(2026, 1, 1)
    blocks = [frozenset(first + timedelta(days=n) for n in range(start, start + 2_500)) for start in (0, 2_500, 5_000)]
    calendars = tuple(Calendar(f"calendars/{n}", DateSet(days)) for n, days in enumerate(blocks))
    check(cron("* * * * * *", NEW_YORK, calendars=calendars), "2026-02-01T00:00:00Z", ["2046-07-15T00:00:00-04:00"])


def test_hash_jitter_is_one_delay_for_a_schedule() -> None:
    rule = cron("0 * * * *", jitter_s=300)
    fires = walk(rule, instant(EVE), 20)
    delays = {fire.due - fire.nominal for fire in fires}
    assert len(delays) == 1 and timedelta(0) <= delays.pop() < timedelta(seconds=300)
    assert walk(cron("0 * * * *", jitter_s=300), instant(EVE), 20) == fires
    spread = {cron("0 0 * * *", uid=f"uid-{n}", jitter_s=300).require_next(instant(EVE)).due for n in range(300)}
    assert len(spread) > 290
    fifths = [sum((due.minute * 60 + due.second) // 60 == minute for due in spread) for minute in range(5)]
    assert sum(fifths) == len(spread) and min(fifths) > 40


def test_random_jitter_is_a_delay_for_each_occurrence_and_the_same_when_computed_again() -> None:
    rule = cron("0 * * * *", jitter_s=300, jitter_mode=JitterMode.RANDOM)
    fires = walk(rule, instant(EVE), 50)
    delays = [fire.due - fire.nominal for fire in fires]
    assert len(set(delays)) > 45
    assert all(timedelta(0) <= delay < timedelta(seconds=300) for delay in delays)
    assert walk(cron("0 * * * *", jitter_s=300, jitter_mode=JitterMode.RANDOM), instant(EVE), 50) == fires


@pytest.mark.parametrize(
    ("field", "days"),
    [("1/2", "135"), ("0/2", "0246"), ("5-7", "056"), ("0-7", "0123456"), ("7", "0"), ("*/7", "0"), ("5-SUN", "056")],
)
def test_sunday_is_0_and_7(field: str, days: str) -> None:
    fires = walk(cron(f"0 0 * * {field}"), instant(EVE), 14)
    assert sorted({fire.nominal.isoweekday() % 7 for fire in fires}) == [int(day) for day in days]


def test_h_is_a_slot_of_the_schedule() -> None:
    day = walk(cron("H * * * *"), instant(EVE), 24)
    assert len({fire.nominal.minute for fire in day}) == 1
    slots = {cron("H H * * *", uid=f"uid-{n}").require_next(instant(EVE)).nominal for n in range(200)}
    assert len(slots) > 180
    # Fields draw apart: hour and minute do not go together.
    assert len({(at.hour * 60 + at.minute) // 60 - at.minute * 24 // 60 for at in slots}) > 20


@pytest.mark.parametrize(
    ("expression", "seen"),
    [
        ("H(10-19) 0 * * *", {10, 11, 12, 13, 14, 15, 16, 17, 18, 19}),
        ("H/20 0 * * *", set(range(60))),
    ],
)
def test_h_keeps_to_its_range(expression: str, seen: set[int]) -> None:
    minutes = set()
    for n in range(150):
        fires = walk(cron(expression, uid=f"uid-{n}"), instant(EVE), 3)
        minutes |= {fire.nominal.minute for fire in fires}
        if "/" in expression:
            assert [(b.nominal.minute - a.nominal.minute) for a, b in pairwise(fires)] == [20, 20]
    assert minutes == seen


def test_what_follows_from_a_uid_stays_as_it_is() -> None:
    # Another hash would move the times of every schedule with H or jitter at the next release.
    check(cron("H H H * *"), EVE, ["2026-03-17T19:15:00+00:00"])
    fixed = cron("0 0 * * *", jitter_s=3600).require_next(instant(EVE))
    drawn = cron("0 0 * * *", jitter_s=3600, jitter_mode=JitterMode.RANDOM).require_next(instant(EVE))
    assert fixed.due == instant("2026-03-08T00:59:01.054Z")
    assert drawn.due == instant("2026-03-08T00:49:08.457Z")


def test_h_as_a_day_comes_every_month() -> None:
    for n in range(60):
        assert len({fire.nominal.month for fire in walk(cron("0 0 H * *", uid=f"uid-{n}"), instant(EVE), 12)}) == 12


def test_the_ends_of_the_calendar() -> None:
    for rule in (
        cron("0 0 * * *", NEW_YORK),
        every(3600, "0003-01-01T00:00:00Z"),
        rrule("FREQ=DAILY", "0004-01-01T00:00:00"),
    ):
        for year in (1, 2, 9_988, 9_989, 9_990, 9_999):
            at = datetime(year, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
            fire = rule.next_after(at)
            assert fire is None if year >= 9_990 else fire is not None and fire.nominal > at
        assert rule.next_after(datetime.min.replace(tzinfo=UTC)) is not None
        assert rule.next_after(datetime.max.replace(tzinfo=UTC)) is None
