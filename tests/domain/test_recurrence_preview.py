"""What a preview says of each time of a rule, and what a rule is warned of."""

from datetime import date, timedelta

import pytest

from rota.domain import limits
from rota.domain.dateset import Calendar, DateSet, parse_dates
from rota.domain.dst import Cause, OverlapPolicy
from rota.domain.jitter import JitterMode
from rota.domain.rule import PreviewLine, Rule

from .rules import cron, instant, rrule, walk

NEW_YORK, SAMOA = "America/New_York", "Pacific/Apia"
EVE, FALL_EVE = "2026-03-07T12:00:00Z", "2026-10-31T16:00:00Z"


def lines_of(rule: Rule, after: str, count: int) -> list[tuple[str, bool, list[tuple[Cause, str]]]]:
    lines = rule.preview(instant(after), count)
    assert sum(not line.removed for line in lines) <= count
    assert [line.nominal for line in lines if not line.removed] == [
        fire.nominal for fire in walk(rule, instant(after), count)
    ]
    return [(line.local, line.removed, [(reason.cause, reason.text) for reason in line.reasons]) for line in lines]


def test_a_preview_says_what_was_moved() -> None:
    assert lines_of(cron("30 2 * * *", NEW_YORK), EVE, 2) == [
        (
            "2026-03-08T03:00:00-04:00",
            False,
            [(Cause.DST_GAP, "gap: 02:30 does not exist on 2026-03-08, runs at 03:00")],
        ),
        ("2026-03-09T02:30:00-04:00", False, []),
    ]
    # What runs there anyway stands for what was moved as well.
    assert lines_of(cron("0 2,3 * * *", NEW_YORK), EVE, 1)[0][2] == [
        (Cause.DST_GAP, "gap: 02:00 does not exist on 2026-03-08, runs at 03:00")
    ]
    assert lines_of(cron("30 23 * * 6", "America/Nuuk"), "2024-03-25T00:00:00Z", 1)[0][2] == [
        (Cause.DST_GAP, "gap: 23:30 does not exist on 2024-03-30, runs at 00:00 on 2024-03-31")
    ]
    assert lines_of(cron("10 30 1 * * *", NEW_YORK), FALL_EVE, 1)[0][2] == [
        (Cause.DST_OVERLAP, "overlap: 01:30:10 comes twice on 2026-11-01, only the first pass runs")
    ]
    both = lines_of(cron("30 1 * * *", NEW_YORK, overlap=OverlapPolicy.BOTH), FALL_EVE, 2)
    assert [line[2][0][1].partition(", ")[2] for line in both] == [
        "this is the first pass, both run",
        "this is the second pass, both run",
    ]


def test_a_preview_says_what_was_removed() -> None:
    assert lines_of(rrule("FREQ=DAILY", "2026-03-07T02:30:00", NEW_YORK), EVE, 1) == [
        ("2026-03-08T02:30:00-05:00", True, [(Cause.DST_GAP, "gap: the clock skipped 02:30 on 2026-03-08")]),
        ("2026-03-09T02:30:00-04:00", False, []),
    ]
    assert lines_of(cron("0 9 * * *", SAMOA), "2011-12-29T20:00:00Z", 1) == [
        (
            "2011-12-30T09:00:00-10:00",
            True,
            [(Cause.ZONE_CORRECTION, "correction: the zone skipped 09:00 on 2011-12-30")],
        ),
        ("2011-12-31T09:00:00+14:00", False, []),
    ]
    # A gap takes one line, however much lay in it.
    wildcard = lines_of(cron("*/30 2 * * *", NEW_YORK), EVE, 1)
    assert wildcard[0][1:] == (True, [(Cause.DST_GAP, "gap: the clock skipped 02:00 on 2026-03-08 (and 1 later ones)")])
    secondly = lines_of(cron("* * * * * *", NEW_YORK), "2026-03-08T06:59:58Z", 2)
    assert [(local[11:19], removed) for local, removed, _ in secondly] == [
        ("01:59:59", False),
        ("02:00:00", True),
        ("03:00:00", False),
    ]
    assert secondly[1][2][0][1] == "gap: the clock skipped 02:00 on 2026-03-08 (and 100 or more later ones)"


def test_a_preview_says_what_was_excluded() -> None:
    holidays = Calendar("calendars/holidays", parse_dates(["--12-26"], "dates"))
    rule = cron("0 9 * * *", excluded_dates=parse_dates(["2026-12-25"], "d"), calendars=(holidays,))
    assert lines_of(rule, "2026-12-24T12:00:00Z", 1) == [
        ("2026-12-25T09:00:00+00:00", True, [(Cause.EXCLUDED_DATE, "excluded: nothing runs on 2026-12-25")]),
        (
            "2026-12-26T09:00:00+00:00",
            True,
            [(Cause.EXCLUDED_CALENDAR, "excluded: nothing runs on 2026-12-26, by calendars/holidays")],
        ),
        ("2026-12-27T09:00:00+00:00", False, []),
    ]
    removed = rrule("FREQ=DAILY;COUNT=3", "2026-05-01T00:00:00", exdates=("2026-05-02T00:00:00",))
    assert [line[1] for line in lines_of(removed, "2026-01-01T00:00:00Z", 9)] == [False, True, False]
    # A date takes one line, however often it would have run, and though the clock changes on it.
    hourly = cron("0 * * * *", NEW_YORK, excluded_dates=parse_dates(["2026-03-08"], "d"))
    assert [line[:2] for line in lines_of(hourly, "2026-03-08T04:30:00Z", 1)] == [
        ("2026-03-08T00:00:00-05:00", True),
        ("2026-03-08T02:00:00-05:00", True),
        ("2026-03-09T00:00:00-04:00", False),
    ]
    secondly = cron("* * * * * *", excluded_dates=parse_dates(["2026-12-25"], "d"))
    assert [line[1] for line in lines_of(secondly, "2026-12-24T23:59:58Z", 2)] == [False, True, False]


def test_a_preview_says_what_jitter_does() -> None:
    def first(mode: JitterMode) -> PreviewLine:
        return cron("0 9 * * *", jitter_s=60, jitter_mode=mode).preview(instant(EVE), 1)[0]

    hashed, drawn = first(JitterMode.HASH), first(JitterMode.RANDOM)
    assert hashed.due is not None and hashed.nominal <= hashed.due < hashed.nominal + timedelta(seconds=60)
    delay = (hashed.due - hashed.nominal).total_seconds()
    assert [reason.text for reason in hashed.reasons] == [f"jitter: {delay:g} s later"]
    assert drawn.due is None
    assert [(r.cause, r.text) for r in drawn.reasons] == [(Cause.JITTER, "jitter: up to 60 s later")]


def test_a_preview_names_the_zones_time() -> None:
    lines = cron("0 12 * * *", NEW_YORK).preview(instant(EVE), 2)
    assert [line.abbreviation for line in lines] == ["EST", "EDT"]
    removed = rrule("FREQ=DAILY", "2026-03-07T02:30:00", NEW_YORK).preview(instant(EVE), 1)
    assert [line.abbreviation for line in removed] == ["EST", "EDT"]


def test_a_preview_is_bounded() -> None:
    nearly_all = frozenset(date(2026, 1, 1) + timedelta(days=n) for n in range(0, 9_000, 2))
    rule = cron("0 0 * * *", calendars=(Calendar("calendars/odd", DateSet(nearly_all)),))
    lines = rule.preview(instant("2026-01-01T00:00:00Z"), limits.PREVIEW_COUNT_MAX)
    assert len(lines) == 1_999 and sum(not line.removed for line in lines) == 1_000
    assert len(rule.preview(instant("2026-01-01T00:00:00Z"), 5_000)) == limits.PREVIEW_LINES_MAX


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda: cron("* */12 * * *"), "every minute of the hours */12, 120 times a day"),
        (lambda: cron("0 0 13 * 5"), "runs when either matches"),
        (lambda: cron("0 0 */2 * 1"), "runs when both match"),
        (lambda: rrule("FREQ=YEARLY;BYMONTHDAY=20", "2026-08-20T00:00:00"), "runs every month"),
        (lambda: rrule("FREQ=MONTHLY", "2026-01-31T00:00:00"), "BYMONTHDAY=-1"),
        (lambda: rrule("FREQ=MONTHLY;BYMONTHDAY=30", "2026-01-30T00:00:00"), "BYMONTHDAY=-1"),
        (lambda: rrule("FREQ=WEEKLY;BYDAY=MO", "2026-08-20T00:00:00"), "DTSTART is not one of the rule's own times"),
    ],
)
def test_warnings(rule: object, words: str) -> None:
    found = rule().warnings  # type: ignore[operator]
    assert len(found) == 1 and words in found[0]


@pytest.mark.parametrize(
    "expression", ["*/5 * * * *", "0 9 * * 1-5", "0 0 1 * *", "* * * * *", "@daily", "30 2 1,15 * *"]
)
def test_common_expressions_warn_of_nothing(expression: str) -> None:
    assert cron(expression).warnings == ()
    assert rrule("FREQ=DAILY", "2026-08-20T00:00:00").warnings == ()
