"""Zones: the shipped data and no other, the same changes as `zoneinfo` finds, for every zone."""

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from zoneinfo import ZoneInfo

import pytest

from rota.domain import zones
from rota.domain.civil import wall_of
from rota.domain.zones import BEGINNING, END, Zone

from .rules import check, cron, instant, shown

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST, LAST = -2_208_988_800, 4_733_510_400
"""1900 to 2120: from before the first changes to far behind the last that the files list."""


def shipped(name: str) -> ZoneInfo:
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as stream:
        return ZoneInfo.from_file(stream, name)


def offset(zone: ZoneInfo, at: int) -> int:
    found = (EPOCH + timedelta(seconds=at)).astimezone(zone).utcoffset()
    assert found is not None
    return int(found.total_seconds())


def test_every_zone_changes_when_zoneinfo_says() -> None:
    assert len(zones.names()) > 590
    for name in sorted(zones.names()):
        zone, expected = zones.find(name), shipped(name)
        at = FIRST
        while at < LAST:
            span = zone.span(at)
            inside = (
                max(span.start, FIRST),
                (max(span.start, FIRST) + min(span.end, LAST)) // 2,
                min(span.end, LAST) - 1,
            )
            assert {offset(expected, second) for second in inside} == {span.offset}, (name, span)
            at = span.end
            if at < LAST:
                later = zone.span(at)
                assert (later.start, later.before, span.after) == (span.end, span.offset, later.offset), (name, span)
        # Between the edges of our spans there is none of theirs.
        assert all(offset(expected, at) == zone.span(at).offset for at in range(FIRST, LAST, 7_777_777)), name


def test_far_beyond_the_files() -> None:
    zone, expected = zones.find("Europe/Berlin"), shipped("Europe/Berlin")
    for year in (2199, 2200, 2500, 9_989):
        for month in range(1, 13):
            at = int((datetime(year, month, 28, 1, 30, tzinfo=UTC) - EPOCH).total_seconds())
            assert zone.span(at).offset == offset(expected, at)
            assert zone.span(at).start <= at < zone.span(at).end


def test_spans_begin_and_end() -> None:
    utc = zones.find("UTC").span(0)
    assert utc == (BEGINNING, END, 0, 0, 0)
    assert [zones.find(name).utc for name in ("UTC", "Zulu", "GMT", "Africa/Abidjan", "Europe/London")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert zones.find("Asia/Kolkata").span(1 << 40).end == END


@pytest.mark.parametrize(
    ("wall", "expected"),
    [
        ("2026-03-08T02:30:00", []),
        ("2026-03-08T03:00:00", ["2026-03-08T07:00:00Z"]),
        ("2026-11-01T01:30:00", ["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"]),
        ("2026-11-01T02:00:00", ["2026-11-01T07:00:00Z"]),
    ],
)
def test_instants_of_a_wall_time(wall: str, expected: list[str]) -> None:
    zone = zones.find("America/New_York")
    at = wall_of(datetime.fromisoformat(wall))
    assert [shown(EPOCH + timedelta(seconds=found)) for found in zone.instants(at)] == expected
    first = EPOCH + timedelta(seconds=zone.instant(at))
    assert shown(first) == (expected[0] if expected else "2026-03-08T07:30:00Z")


def test_what_people_call_the_time() -> None:
    zone = zones.find("America/New_York")
    winter, summer = (int(instant(f"2040-0{month}-01T00:00:00Z").timestamp()) for month in (1, 7))
    assert (zone.abbreviation(winter), zone.abbreviation(summer)) == ("EST", "EDT")
    assert zone.local(summer) == "2040-06-30T20:00:00-04:00"
    assert zones.find("Africa/Monrovia").local(0) == "1969-12-31T23:15:30-00:44:30"


def test_the_edition_is_known() -> None:
    import tzdata

    assert zones.version() == tzdata.IANA_VERSION


@pytest.fixture(params=["Australia/Sydney", "Australia/Perth"])
def host_zone(request: pytest.FixtureRequest) -> Iterator[str]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = request.param
    time.tzset()
    yield request.param
    os.environ.pop("TZ")
    if before is not None:
        os.environ["TZ"] = before
    time.tzset()


def test_the_machines_zone_has_no_say(host_zone: str) -> None:
    check(cron("0 0 * * * *"), "2025-10-05T02:00:00Z", ["2025-10-05T03:00:00Z", "2025-10-05T04:00:00Z"])
    check(cron("30 17 24 * *"), "2007-03-24T17:00:00Z", ["2007-03-24T17:30:00Z", "2007-04-24T17:30:00Z"])


def test_the_machines_files_have_no_say(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(zones, "files", lambda package: asked.append(package) or files(package))
    zones._load.cache_clear()
    zones._zoneinfo.cache_clear()
    assert zones.find("Europe/Berlin").abbreviation(0) == "CET"
    assert asked == ["tzdata", "tzdata"]


def test_a_rule_by_day_of_the_year() -> None:
    # No zone has one today; the format allows it (RFC 9636, POSIX TZ): Jn without 29 February, n with it.
    from rota.domain.zones import _day_rule

    days = {
        ("J59", 2024): "2024-02-28",
        ("J60", 2024): "2024-03-01",
        ("J60", 2023): "2023-03-01",
        ("59", 2024): "2024-02-29",
    }
    for (rule, year), day in days.items():
        assert _day_rule(f"{rule}/-1:30", year) == wall_of(datetime.fromisoformat(day)) - 5_400


def test_a_file_without_listed_changes_goes_by_its_rule() -> None:
    header = b"TZif2" + bytes(15)
    counts = (0, 0, 0, 0, 1, 4)
    block = b"".join(number.to_bytes(4, "big") for number in counts) + (3600).to_bytes(4, "big") + b"\0\0CET\0"
    zone = Zone("made", header + block + header + block + b"\nCET-1CEST,M3.5.0,M10.5.0/3\n")
    summer = int(instant("2026-07-01T00:00:00Z").timestamp())
    assert zone.span(summer).offset == 7200
    assert shown(EPOCH + timedelta(seconds=zone.span(summer).start)) == "2026-03-29T01:00:00Z"
