"""`rota calendar`: what is sent, what is shown, and how it exits."""

import io
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

from rota.cli import calendar as calendar_command
from rota.cli.errors import Exit
from tests.cli.scheduler import Scheduler
from tests.cli.script import in_

NAME = "calendars/holidays"


@pytest.fixture
def stored(scheduler: Scheduler) -> Scheduler:
    """A coordinator with one calendar."""
    dates = ["2026-12-25", "--01-01"]
    scheduler.calendars[NAME] = pb.Calendar(
        name=NAME, dates=dates, etag="c1", uid="77aa", notes="why", labels={"a": "1"}, create_time=in_(0)
    )
    return scheduler


@pytest.mark.parametrize("command", ["create", "get", "list", "edit", "delete"])
def test_each_command_explains_itself(command: str, rota: Any) -> None:
    ran = rota("calendar", command, "--help")
    assert (ran.code, "--json" in ran.out) == (0, True)
    assert ran.out.startswith(f"Usage: rota calendar {command} [OPTIONS]")


@pytest.mark.parametrize("given", ["holidays", NAME])
def test_create_sends_every_option(given: str, rota: Any, scheduler: Scheduler, tmp_path: Path) -> None:
    file = tmp_path / "dates"
    file.write_text("# of the state\n2026-12-25\n\n  2026-12-26   # Boxing Day\n--01-01\n")
    ran = rota(
        *("calendar", "create", given, "--date", "2026-12-25", "--date", "--05-01", "--file", file),
        *("--notes", "why", "--label", "a=1", "--request-id", "r"),
    )
    assert scheduler.sent == pb.CreateCalendarRequest(
        calendar_id="holidays",
        request_id="r",
        calendar=pb.Calendar(dates=["2026-12-25", "--05-01", "2026-12-26", "--01-01"], notes="why", labels={"a": "1"}),
    )
    assert ran.code == Exit.OK
    assert [" ".join(line.split()) for line in ran.out.splitlines()] == [
        f"calendar {NAME}",
        "dates 2026-12-25",
        "--05-01",
        "2026-12-26",
        "--01-01",
        "labels a=1",
        "notes why",
        "etag c1",
        "uid 77aa",
        "created 2026-11-30T08:15:00.000Z",
    ]


def test_dates_from_standard_input(rota: Any, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"2026-12-25\r\n2026-12-26")))
    assert rota("calendar", "create", "x", "--file", "-", "--json").document["dates"] == ["2026-12-25", "2026-12-26"]
    assert scheduler.sent.request_id


def test_get_and_list(rota: Any, stored: Scheduler) -> None:
    told = rota("calendar", "get", "holidays", "--json").document
    assert (told["name"], told["dates"], told["create_time"]) == (
        NAME,
        ["2026-12-25", "--01-01"],
        "2026-11-30T08:15:00.000Z",
    )
    assert rota("calendar", "get", "none").code == Exit.NOT_FOUND
    stored.refusal = None
    stored.requests.clear()
    head, row = rota("calendar", "list", "--label", "a=1").out.splitlines()
    assert stored.sent == pb.ListCalendarsRequest(page_size=50, labels={"a": "1"})
    assert head.split() == ["CALENDAR", "CHANGED", "LABELS", "NOTES"]
    assert row.split() == ["holidays", "2026-11-30T08:15:00Z", "a=1", "why"]
    assert [c["name"] for c in rota("calendar", "list", "--json").documents] == [NAME]


@pytest.mark.parametrize(
    ("options", "changed", "paths"),
    [
        (["--date", "2027-01-01"], {"dates": ["2027-01-01"]}, ["dates"]),
        (["--notes", ""], {}, ["notes"]),
        (["--label", "b=2", "--etag", "c9"], {"labels": {"b": "2"}, "etag": "c9"}, ["labels"]),
        (
            ["--add", "2026-12-26", "--remove", "--01-01", "--add", "2026-12-25"],
            {"dates": ["2026-12-25", "2026-12-26"], "etag": "c1"},
            ["dates"],
        ),
    ],
)
def test_edit_sends_what_is_given(
    options: list[str], changed: Any, paths: list[str], rota: Any, stored: Scheduler
) -> None:
    ran = rota("calendar", "edit", "holidays", *options, "--json")
    assert ran.code == Exit.OK, ran.err
    assert stored.sent.calendar == pb.Calendar(name=NAME, **changed)
    assert list(stored.sent.update_mask.paths) == paths
    assert ran.document["name"] == NAME


def test_delete(rota: Any, stored: Scheduler) -> None:
    ran = rota("calendar", "delete", "holidays", "--etag", "c1")
    assert stored.sent == pb.DeleteCalendarRequest(name=NAME, etag="c1")
    assert (ran.code, ran.out) == (Exit.OK, f"deleted {NAME}\n")
    told = rota("calendar", "delete", "holidays", "--allow-missing", "--json").document
    assert told == {"name": NAME, "deleted": True}
    assert rota("calendar", "delete", "holidays", "--yes").code == Exit.NOT_FOUND


def test_a_calendar_in_use_stays(rota: Any, stored: Scheduler) -> None:
    stored.refuse(grpc.StatusCode.FAILED_PRECONDITION, "INVALID_STATE", "schedules/x names it; edit that first")
    ran = rota("calendar", "delete", "holidays")
    assert (ran.code, ran.err) == (Exit.REFUSED, "error: schedules/x names it\nhint: edit that first\n")


def test_refused_fields_are_options(rota: Any, stored: Scheduler) -> None:
    stored.refuse_fields(calendar__dates="at most 5000", calendar_id="taken")
    assert rota("calendar", "create", "x", "--date", "2026-12-25").err.startswith(
        "error: --date: at most 5000; ID: taken"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["create", "a b"], "ID: expected 1 to 128 letters, digits or ._-, the first a letter or digit, found 'a b'"),
        (["create", "x", "--date", "Christmas"], "--date: expected a date as 2026-12-25"),
        (["create", "x", "--date", "2026-02-30"], "--date: expected a date as 2026-12-25"),
        (["create", "x", "--file", "/nowhere/x"], "--file: expected a readable file, found '/nowhere/x' (No such file"),
        (["create", "x", "--notes", "\udcff"], "--notes: expected UTF-8 text"),
        (["edit", "x"], "CALENDAR: expected an option that changes it, found none"),
        (["edit", "x", "--add", "soon"], "--add: expected a date as 2026-12-25"),
        (["edit", "x", "--remove", "2026-12-25", "--date", "2026-12-26"], "--remove: expected no --date or --file"),
        (["get", "schedules/x"], "CALENDAR: expected 1 to 128 letters"),
    ],
)  # fmt: skip
def test_what_is_refused_before_anything_is_sent(
    arguments: list[str], message: str, rota: Any, scheduler: Scheduler
) -> None:
    ran = rota("calendar", *arguments)
    assert (ran.code, ran.out) == (Exit.USAGE, "")
    assert ran.err.startswith(f"error: {message}")
    assert scheduler.requests == []


def test_a_file_s_fault_is_named_by_its_line(
    rota: Any, scheduler: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "dates"
    file.write_text("2026-12-25\n26.12.2026\n")
    ran = rota("calendar", "create", "x", "--file", file)
    assert ran.err.startswith(
        "error: --file line 2: expected a date as 2026-12-25, or --12-25 for every year, found '26."
    )
    monkeypatch.setattr(calendar_command, "FILE_BYTES_MAX", 10)
    assert rota("calendar", "create", "x", "--file", file).err.startswith("error: --file: expected at most 10 bytes")


def test_only_a_date_that_is_there_is_removed(rota: Any, stored: Scheduler) -> None:
    ran = rota("calendar", "edit", "holidays", "--remove", "2026-12-31")
    assert (ran.code, stored.calendars[NAME].dates) == (Exit.USAGE, ["2026-12-25", "--01-01"])
    assert ran.err.startswith("error: --remove: expected a date of the calendar, found 2026-12-31")
