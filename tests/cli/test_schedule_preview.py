"""`rota schedule preview`: without a server, for people and for scripts, one rule or very many."""

import io
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rota.cli import previewbatch
from rota.cli.errors import Exit
from rota.cli.previewbatch import LINE_BYTES_MAX, answer
from rota.domain import zones
from tests.domain.test_recurrence_cases import CASES, DIALECTS_NOT_OFFERED, DIFFERENCES

GAP = ("schedule", "preview", "30 2 * * *", "--tz", "America/New_York", "--from", "2026-03-07")


def table(ran: Any) -> list[list[str]]:
    """The cells of the table, by its headings."""
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    head = next(line for line in lines if line.startswith("LOCAL TIME"))
    starts = [head.index(name) for name in ("LOCAL TIME", "ZONE", "UTC", "DUE", "REASON") if name in head]
    rows = lines[lines.index(head) + 1 :]
    ends = [*starts[1:], None]
    return [
        [row[a:b].strip() for a, b in zip(starts, ends, strict=True)]
        for row in rows
        if row[:3].isalpha() and row[3] == " "
    ]


def test_the_run_in_the_gap_is_shown_with_its_reason(rota: Any) -> None:
    ran = rota(*GAP, "--count", 5)
    assert ran.out.splitlines()[0] == f"America/New_York, time-zone data {zones.version()}"
    assert table(ran) == [
        ["Sat 2026-03-07 02:30:00", "EST -05:00", "2026-03-07T07:30:00Z", ""],
        [
            "Sun 2026-03-08 03:00:00",
            "EDT -04:00",
            "2026-03-08T07:00:00Z",
            "gap: 02:30 does not exist on 2026-03-08, runs at 03:00",
        ],
        ["Mon 2026-03-09 02:30:00", "EDT -04:00", "2026-03-09T06:30:00Z", ""],
        ["Tue 2026-03-10 02:30:00", "EDT -04:00", "2026-03-10T06:30:00Z", ""],
        ["Wed 2026-03-11 02:30:00", "EDT -04:00", "2026-03-11T06:30:00Z", ""],
    ]
    assert ran.err == ""


def test_json_gives_instants(rota: Any) -> None:
    document = rota(*GAP, "--count", 2, "--json").document
    assert document["next_utc"] == ["2026-03-07T07:30:00Z", "2026-03-08T07:00:00Z"]
    assert (document["exhausted"], document["time_zone"], document["warnings"]) == (False, "America/New_York", [])
    assert document["tzdata_version"] == zones.version()
    assert document["occurrences"][1] == {
        "nominal_time": "2026-03-08T07:00:00Z",
        "due_time": "2026-03-08T07:00:00Z",
        "local_time": "2026-03-08T03:00:00-04:00",
        "zone_abbreviation": "EDT",
        "removed": False,
        "reasons": [{"cause": "DST_GAP", "text": "gap: 02:30 does not exist on 2026-03-08, runs at 03:00"}],
    }


@pytest.mark.parametrize(
    ("arguments", "expected", "exhausted"),
    [
        (
            ["--every", "90s", "--anchor", "2026-03-07T00:00:07Z"],
            ["2026-03-07T00:00:07Z", "2026-03-07T00:01:37Z"],
            False,
        ),
        (
            ["--every", "PT4H", "--anchor", "2026-01-01T01:30:00+01:00"],
            ["2026-03-07T00:30:00Z", "2026-03-07T04:30:00Z"],
            False,
        ),
        (["--every", "1h"], ["2026-03-07T01:00:00Z", "2026-03-07T02:00:00Z"], False),
        (
            ["--rrule", "DTSTART;TZID=America/New_York:20260307T023000\\nRRULE:FREQ=DAILY;COUNT=2"],
            ["2026-03-07T07:30:00Z", "2026-03-09T06:30:00Z"],
            True,
        ),
        (
            ["--rrule", "DTSTART:20260307T023000\nRRULE:FREQ=DAILY", "--tz", "Asia/Tokyo"],
            ["2026-03-07T17:30:00Z", "2026-03-08T17:30:00Z"],
            False,
        ),
        (["--rrule", "FREQ=DAILY;INTERVAL=2"], ["2026-03-09T00:00:00Z", "2026-03-11T00:00:00Z"], False),
        (["--at", "2026-03-08T02:30:00", "--tz", "America/New_York"], ["2026-03-08T07:30:00Z"], True),
        (["--at", "2026-03-01T02:30:00"], [], True),
        (["0 9 * * *", "--start", "2026-04-01", "--end", "2026-04-02T09:00:00Z"], ["2026-04-01T09:00:00Z"], True),
        (
            ["30 2 * * *", "--tz", "America/New_York", "--dst-gap", "shift"],
            ["2026-03-07T07:30:00Z", "2026-03-08T07:30:00Z"],
            False,
        ),
        (
            ["30 1 1 11 *", "--tz", "America/New_York", "--dst-overlap", "both"],
            ["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"],
            False,
        ),
        (
            ["0 0 * * *", "--exclude", "2026-03-08", "--exclude", "--03-09"],
            ["2026-03-10T00:00:00Z", "2026-03-11T00:00:00Z"],
            False,
        ),
    ],
)
def test_every_kind_of_rule(rota: Any, arguments: list[str], expected: list[str], exhausted: bool) -> None:
    document = rota(
        "schedule", "preview", *arguments, "--from", "2026-03-07T00:00:00Z", "--count", 2, "--json"
    ).document
    assert (document["next_utc"], document["exhausted"]) == (expected, exhausted)


@pytest.mark.parametrize(
    ("since", "first"),
    [
        ("2026-07-01", "2026-07-01T10:00:00Z"),
        ("2026-07-01T12:00", "2026-07-02T10:00:00Z"),
        ("2026-07-01T12:00:00Z", "2026-07-02T10:00:00Z"),
        ("2026-07-01T09:59:59.999Z", "2026-07-01T10:00:00Z"),
    ],
)
def test_a_time_without_an_offset_is_one_of_the_zone(rota: Any, since: str, first: str) -> None:
    ran = rota("schedule", "preview", "0 12 * * *", "--tz", "Europe/Berlin", "--from", since, "--count", 1, "--json")
    assert ran.document["next_utc"] == [first]


def test_from_now_when_not_said(rota: Any) -> None:
    assert len(rota("schedule", "preview", "@hourly", "--json").document["next_utc"]) == 10


def test_what_is_removed_and_what_ends(rota: Any) -> None:
    text = "DTSTART;TZID=America/New_York:20260308T023000\nRRULE:FREQ=DAILY;COUNT=1"
    ran = rota("schedule", "preview", "--rrule", text, "--from", "2026-03-01")
    assert table(ran) == [
        ["Sun 2026-03-08 02:30:00", "EST -05:00", "removed", "gap: the clock skipped 02:30 on 2026-03-08"],
        ["Mon 2026-03-09 02:30:00", "EDT -04:00", "2026-03-09T06:30:00Z", ""],
    ]
    assert ran.out.splitlines()[-1] == "nothing comes after that"
    assert ran.err == "note: DTSTART is not one of the rule's own times, and nothing runs at it\n"
    past = rota("schedule", "preview", "--at", "2026-03-01T00:00:00", "--from", "2026-03-02")
    assert past.out.splitlines()[1:] == ["nothing is to come"]


def test_jitter_and_h_follow_from_the_uid(rota: Any) -> None:
    asked = ("schedule", "preview", "H H * * *", "--jitter", "5m", "--from", "2026-03-07", "--count", 1)
    ran = rota(*asked)
    [[_, zone, nominal, due, reason]] = table(ran)
    assert zone == "UTC +00:00" and nominal < due and reason.startswith("jitter: ")
    assert ran.err == "note: H and jitter follow from a schedule's uid: give --uid for those of a stored one\n"
    one, other = (rota(*asked, "--uid", uid, "--json").document for uid in ("a", "b"))
    assert one["warnings"] == [] and one["occurrences"] != other["occurrences"]
    drawn = rota(*asked, "--jitter-mode", "random", "--json").document
    assert drawn["occurrences"][0]["due_time"] is None


def test_a_reading_that_surprises_is_noted(rota: Any) -> None:
    ran = rota("schedule", "preview", "* */12 * * *", "--from", "2026-03-07", "--count", 1)
    assert ran.err.startswith("note: minute * runs every minute of the hours */12, 120 times a day")


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["77 * * * *"], "cron.expression: minute: expected 0 to 59, found '77'", "correct the number"),
        (
            ["0 0 31 2 *"],
            "cron.expression: expected a date that comes in some year",
            "for the last day of a month write L",
        ),
        (["* * * * *", "--tz", "PST"], "time_zone: expected the name of an IANA time zone", "America/Los_Angeles"),
        (["--every", "0s"], "interval.every: expected 1 s to 3660 days, found '0 s'", "choose another interval"),
        (["--every", "P1M"], "interval.every: expected an ISO 8601 duration", "make it an rrule"),
        (["--every", "soon"], "--every: expected a duration", ""),
        (["--rrule", "FREQ=DAILY;INTERVAL=0"], "rrule.text: INTERVAL: expected 1 or more, found '0'", "correct it"),
        (["--rrule", "DTSTART;TZID=Nowhere:20260101T000000\\nFREQ=DAILY"], "time_zone: expected", "region and a city"),
        (["--at", "tomorrow"], "once.local_time: expected a local time such as", "write date and time"),
        (["* * * * *", "--from", "soon"], "--from: expected a time such as 2026-03-07", "one of the zone"),
        (["* * * * *", "--from", "0001-01-01T00:00:00+14:00"], "--from: expected a time such as", "one of the zone"),
        (
            ["* * * * *", "--start", "2026-03-07", "--end", "2026-03-07"],
            "end_time: expected an instant after start",
            "",
        ),
        (["* * * * *", "--exclude", "Christmas"], "exclusions.dates: expected a date as 2026-12-25", "correct it"),
        (["* * * * *", "--jitter", "2d"], "jitter.span: expected 0 s to 24 h", "choose a span"),
        (["* * * * *", "--anchor", "2026-03-07"], "--anchor: expected together with --every", "leave it out"),
        (
            ["* * * * *", "--every", "5m"],
            "CRON: expected CRON, --every, --rrule or --at, found CRON and --every",
            "give one",
        ),
        ([], "CRON: expected CRON, --every, --rrule or --at, found none", "give one of them"),
        (["* * * * *", "--batch", "-"], "--batch: expected no rule beside it, found one", "write it into the batch"),
        (["--batch", "/nowhere/at/all"], "--batch: expected a readable file, found '/nowhere/at/all'", "No such file"),
    ],
)
def test_refusals(rota: Any, arguments: list[str], message: str, hint: str) -> None:
    ran = rota("schedule", "preview", *arguments)
    assert (ran.code, ran.out) == (Exit.USAGE, "")
    first, *rest = ran.err.splitlines()
    assert first.startswith(f"error: {message}")
    assert hint in "".join(rest)
    error = rota("schedule", "preview", *arguments, "--json").error
    assert error["details"]["violations"][0]["field"] == message.partition(":")[0]


def test_it_needs_no_server_and_loads_none_of_it() -> None:
    code = (
        "import sys\nfrom rota.cli.main import main\n"
        "main(['schedule', 'preview', '@daily', '--json'])\n"
        "print(*sorted({'grpc', 'sqlalchemy', 'psycopg', 'rich', 'rota_sdk'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == [""]


def batch(monkeypatch: pytest.MonkeyPatch, rota: Any, lines: list[bytes]) -> list[Any]:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\n".join(lines))))
    ran = rota("schedule", "preview", "--batch", "-")
    assert (ran.code, ran.err) == (0, "")
    return list(ran.documents)


def test_batch_answers_every_case(monkeypatch: pytest.MonkeyPatch, rota: Any) -> None:
    lines = [json.dumps(case | {"count": case.get("asked", 3)}).encode() for case in CASES]
    for case, found in zip(CASES, batch(monkeypatch, rota, lines), strict=True):
        if case["dialect"] in DIALECTS_NOT_OFFERED:
            assert found["error"]["field"] == "dialect", case["id"]
        elif case["id"] in DIFFERENCES:
            expected = list(DIFFERENCES[case["id"]].expect_next_utc)
            assert found["next_utc"][: len(expected)] == expected[: len(found["next_utc"])], case["id"]
        elif case.get("expect_error"):
            assert found.keys() == {"error"}, case["id"]
            assert found["error"].keys() == {"field", "reason", "message"}
            assert found["error"]["field"] == ("timezone" if case["kind"] == "timezone alias" else "expression"), case[
                "id"
            ]
            assert found["error"]["reason"] in ("VALIDATION_FAILED", "NEVER_FIRES")
        else:
            assert found.keys() == {"next_utc", "exhausted"}, case["id"]
            count = len(case["expect_next_utc"])
            assert found["next_utc"][:count] == case["expect_next_utc"], case["id"]
            if case.get("exhausted_after"):
                assert found == {"next_utc": case["expect_next_utc"], "exhausted": True}, case["id"]
            else:
                assert not found["exhausted"], case["id"]


CRON = {
    "rule_kind": "cron",
    "expression": "0 0 * * *",
    "timezone": "UTC",
    "start_utc": "2026-01-01T00:00:00Z",
    "count": 2,
}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, {"next_utc": ["2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"], "exhausted": False}),
        (
            {"dialect": "posix5", "notes": [1], "anchor_utc": None},
            {"next_utc": ["2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"], "exhausted": False},
        ),
        (
            {"rule_kind": "once", "expression": "2026-01-05T00:00:00"},
            {"next_utc": ["2026-01-05T00:00:00Z"], "exhausted": True},
        ),
        (
            {"rule_kind": "once", "expression": "2026-01-05T00:00:00", "count": 1},
            {"next_utc": ["2026-01-05T00:00:00Z"], "exhausted": False},
        ),
        (
            {"rule_kind": "once", "expression": "2026-01-05T00:00:00.5+01:00"},
            {"next_utc": ["2026-01-04T23:00:00.500000Z"], "exhausted": True},
        ),
        ({"rule_kind": "once", "expression": "2025-01-05T00:00:00Z"}, {"next_utc": [], "exhausted": True}),
        (
            {"rule_kind": "interval", "expression": "PT1H"},
            {"next_utc": ["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"], "exhausted": False},
        ),
    ],
)
def test_batch_lines(change: dict[str, Any], expected: dict[str, Any]) -> None:
    assert answer(json.dumps(CRON | change).encode()) == expected


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"rule_kind": None}, "rule_kind", "expected a text, found 'nothing'; correct it"),
        ({"rule_kind": "crontab"}, "rule_kind", "expected cron, rrule, interval or once, found 'crontab'"),
        ({"expression": 5}, "expression", "expected a text, found"),
        ({"expression": "0 0 * * * *", "dialect": "posix5"}, "expression", "expected 5 fields"),
        ({"expression": "0 0 31 2 *"}, "expression", "expected a date that comes in some year"),
        ({"timezone": ""}, "timezone", "write UTC"),
        ({"timezone": None}, "timezone", "expected a text"),
        ({"dialect": "quartz"}, "dialect", "expected posix5 or sec6, found 'quartz'"),
        ({"dialect": 5}, "dialect", "expected a text"),
        ({"rule_kind": "rrule", "expression": "FREQ=DAILY", "dialect": "posix5"}, "dialect", "expected rfc5545"),
        ({"start_utc": "yesterday"}, "start_utc", "expected an instant such as"),
        ({"start_utc": "2026-01-01T00:00:00"}, "start_utc", "expected an offset from UTC"),
        (
            {"rule_kind": "interval", "expression": "PT1H", "anchor_utc": "9999-01-01T00:00:00Z"},
            "anchor_utc",
            "expected an instant from year 2",
        ),
        ({"rule_kind": "once", "expression": "noon"}, "expression", "expected a local time"),
        ({"count": 0}, "count", "expected a number from 1 to 1000, found '0'"),
        ({"count": 1001}, "count", "expected a number from 1 to 1000"),
        ({"count": True}, "count", "expected a number from 1 to 1000"),
        ({"count": "5"}, "count", "expected a number from 1 to 1000"),
        ({"count": 10**4_000}, "count", "expected a number from 1 to 1000"),
    ],
)
def test_batch_refusals(change: dict[str, Any], field: str, words: str) -> None:
    found = answer(json.dumps(CRON | change).encode())
    assert found["error"]["field"] == field
    assert words in found["error"]["message"]


HOSTILE = [
    b"",
    b"   ",
    b"null",
    b"[]",
    b"5",
    b"{",
    b"{}",
    b'"',
    b"\x00",
    b"\xff\xfe",
    b"NaN",
    b"[" * 50_000,
    b'{"a":' * 5_000,
    b"9" * 5_000,
    b"x" * (LINE_BYTES_MAX + 1),
    b"y" * (4 * LINE_BYTES_MAX),
    b'{"rule_kind": "cron", "expression": "\\ud800"}',
    b'{"rule_kind": "cron", "expression": "* * * * *\\u0000"}',
    b'{"rule_kind": "cron", "expression": "* * * * *", "count": 1e999}',
    b'{"rule_kind": "cron", "expression": "* * * * *", "start_utc": "9999-12-31T23:59:59Z"}',
    b'{"rule_kind": "cron", "expression": "* * * * *", "start_utc": "0001-01-01T00:00:00Z"}',
    b'{"rule_kind": "rrule", "expression": "FREQ=SECONDLY;INTERVAL=59;BYSECOND=0", "count": 1000}',
    b'{"rule_kind": "cron", "expression": "0 0 29 2 */7", "count": 1000}',
]


def test_no_line_ends_a_batch(monkeypatch: pytest.MonkeyPatch, rota: Any) -> None:
    good = json.dumps(CRON).encode()
    found = batch(monkeypatch, rota, [line for bad in HOSTILE for line in (bad, good)] + [b"", b""])
    assert len(found) == 2 * len(HOSTILE)
    assert all(line["next_utc"] == ["2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"] for line in found[1::2])
    assert all(line["error"]["field"] for line in found[:36:2])
    assert found[2 * HOSTILE.index(b"9" * 5_000)]["error"]["field"] == "line"


def test_a_file_of_a_thousand_lines_takes_seconds(tmp_path: Path, rota: Any) -> None:
    file = tmp_path / "rules.jsonl"
    lines = [json.dumps(CASES[n % len(CASES)] | {"count": 10}) for n in range(1_000)]
    file.write_text("\n".join(lines) + "\n")
    begun = time.perf_counter()
    assert len(rota("schedule", "preview", "--batch", file).documents) == 1_000
    assert time.perf_counter() - begun < 10


def test_a_batch_answers_each_line_as_it_comes() -> None:
    command = [sys.executable, "-m", "rota", "schedule", "preview", "--batch", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdin is not None and process.stdout is not None
        for count in (1, 2):
            process.stdin.write(json.dumps(CRON | {"count": count}) + "\n")
            assert len(json.loads(process.stdout.readline())["next_utc"]) == count
        process.stdin.close()
        assert process.wait(30) == 0


def test_the_batchs_keys_are_those_of_the_answers() -> None:
    assert set(previewbatch._KEYS.values()) <= {"expression", "timezone", "anchor_utc"}
