"""`rota schedule` and `rota calendar` against a real coordinator: the fields and paths that they send are taken."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.cli.errors import Exit
from rota.cli.scheduleform import UNSET
from tests.harness import CoordinatorProcess, eventually

# A value for each option that --unset takes back, but for the anchor, which only an interval has.
VALUES = {
    "tz": "Europe/Berlin",
    "start": "2026-01-01",
    "end": "2096-01-01",
    "max-count": "5",
    "jitter": "5m",
    "jitter-mode": "random",
    "exclude": "2096-12-25",
    "calendar": "holidays",
    "dst-gap": "shift",
    "dst-overlap": "second",
    "missed": "catch-up",
    "late-tolerance": "5m",
    "catch-up-window": "2h",
    "catch-up-max": "7",
    "overlap": "skip",
    "overlap-limit": "3",
    "pause-after-failures": "4",
    "queue": "q",
    "priority": "7",
    "data": "[1]",
    "header": "h=v",
    "job-label": "j=1",
    "max-attempts": "3",
    "initial-backoff": "2s",
    "max-backoff": "2m",
    "run-timeout": "10s",
    "start-by": "1h",
    "total-timeout": "2h",
    "concurrency-key": "k",
    "notes": "why",
    "label": "a=1",
}


REFUSALS = [
    (["77 * * * *"], "CRON: minute: expected 0 to 59, found '77'"),
    (["@daily", "--tz", "PST"], "--tz: expected the name of an IANA time zone"),
    (["@daily", "--calendar", "none"], "--calendar: expected a calendar that exists"),
    (["@daily", "--exclude", "soon"], "--exclude: expected a date as 2026-12-25"),
    (["@daily", "--jitter", "2d"], "--jitter: expected 0 s to 24 h"),
    (["@daily", "--queue", "a b"], "--queue: must be 1 to 64 letters"),
    (["@daily", "--late-tolerance", "2h"], "--late-tolerance: must be from 0 s to 3600 s"),
    (["@daily", "--run-timeout", "8d"], "--run-timeout: must be from"),
    (["@daily", "--header", "rota-x=1"], "--header: must not use the reserved prefix rota-"),
    (["--every", "0s"], "--every: expected 1 s to 3660 days"),
    (["--rrule", "FREQ=DAILY;INTERVAL=0"], "--rrule: INTERVAL: expected 1 or more"),
    (["--at", "tomorrow"], "--at: expected a local time such as"),
]


@pytest.fixture
def real(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CoordinatorProcess]:
    """A coordinator of its own at ROTA_ADDRESS, with a key for everything."""
    with CoordinatorProcess(database, tmp_path) as process:
        monkeypatch.setenv("ROTA_ADDRESS", process.address)
        monkeypatch.setenv("ROTA_API_KEY", process.key)
        yield process


def done(ran: Any) -> Any:
    assert ran.code == Exit.OK, ran.err
    return ran


def test_every_option_is_set_and_unset(rota: Any, real: CoordinatorProcess) -> None:
    done(rota("calendar", "create", "holidays", "--date", "2026-12-25", "--date", "--05-01"))
    made = done(rota("schedule", "create", "x", "@yearly", "--type", "greet", "--json")).document
    assert len(made["next_times"]) == 3
    plain = done(rota("schedule", "get", "x", "--json")).document
    assert set(UNSET) == {*VALUES, "anchor"}
    moving = ("etag", "version", "update_time", "next_nominal_time", "next_due_time")
    for option, value in VALUES.items():
        changed = done(rota("schedule", "edit", "x", f"--{option}", value, "--json")).document
        back = done(rota("schedule", "edit", "x", "--unset", option, "--json")).document
        for told in (changed, back):
            del told["next_times"]
        assert {k: v for k, v in changed.items() if k not in moving} != {
            k: v for k, v in plain.items() if k not in moving
        }, option
        assert {k: v for k, v in back.items() if k not in moving} == {
            k: v for k, v in plain.items() if k not in moving
        }, option


def test_each_kind_of_rule_replaces_another(rota: Any, real: CoordinatorProcess) -> None:
    rule = "DTSTART;TZID=Asia/Tokyo:20260307T023000\nRRULE:FREQ=DAILY"
    done(rota("schedule", "create", "x", "@yearly", "--command", "true"))
    for options, kind, told in (
        (["--every", "PT2H", "--anchor", "2026-01-01"], "interval", {"every": "7200s"}),
        (["--rrule", rule], "rrule", {"text": rule}),
        (["--at", "2031-01-01T00:00:00"], "once", {"local_time": "2031-01-01T00:00:00"}),
        (["--at", "2031-01-01T00:00:00Z"], "once", {"run_time": "2031-01-01T00:00:00.000Z"}),
        (["0 5 * * *"], "cron", {"expression": "0 5 * * *"}),
    ):
        after = done(rota("schedule", "edit", "x", *options, "--json")).document
        assert told.items() <= after[kind].items()
        assert len({"interval", "rrule", "once", "cron"} & after.keys()) == 1
    renamed = done(rota("schedule", "edit", "x", "--command", "false", "--json")).document
    assert renamed["job"]["payload"]["json"] == {"command": "false"}
    stale = rota("schedule", "edit", "x", "@daily", "--etag", after["etag"], "--json")
    assert (stale.code, stale.error["reason"]) == (Exit.REFUSED, "ETAG_MISMATCH")


def test_refusals_name_the_option(rota: Any, real: CoordinatorProcess) -> None:
    for options, message in REFUSALS:
        ran = rota("schedule", "create", "x", *options, "--type", "greet")
        assert (ran.code, ran.out) == (Exit.USAGE, "")
        assert ran.err.startswith(f"error: {message}")


def test_a_schedule_is_steered_through_its_life(rota: Any, real: CoordinatorProcess) -> None:
    done(rota("schedule", "create", "tick", "--every", "1s", "--type", "greet", "--overlap", "skip"))
    taken = rota("schedule", "create", "tick", "@daily", "--type", "greet", "--json")
    assert (taken.code, taken.error["reason"]) == (Exit.REFUSED, "RESOURCE_EXISTS")

    def history(*options: object) -> list[Any]:
        return list(done(rota("schedule", "history", "tick", "--json", *options)).documents)

    eventually(lambda: history("--fate", "fired") and history("--fate", "skipped_overlap"))
    lines = done(rota("schedule", "get", "tick")).out.splitlines()
    [fates] = [line for line in lines if line.startswith("fates")]
    assert "FIRED 1, SKIPPED_OVERLAP " in fates
    refused = rota("schedule", "trigger", "tick", "--json")
    assert (refused.code, refused.error["reason"]) == (Exit.REFUSED, "INVALID_STATE")
    forced = done(rota("schedule", "trigger", "tick", "--force", "--reason", "by hand", "--json")).document
    assert (forced["occurrence"]["forced"], forced["job"]["schedule"]) == (True, "schedules/tick")

    paused = done(rota("schedule", "pause", "tick", "--reason", "maintenance", "--json")).document
    assert (paused["state"], paused["state_reason"]) == ("PAUSED", "maintenance")
    assert [s["name"] for s in done(rota("schedule", "list", "--state", "paused", "--json")).documents] == [
        "schedules/tick"
    ]
    resumed = done(rota("schedule", "resume", "tick", "--catch-up", "coalesce", "--json")).document
    assert resumed["state"] == "ACTIVE"
    done(rota("schedule", "pause", "tick"))

    gone = done(rota("schedule", "delete", "tick", "--cancel-jobs", "fence_out", "--json")).document
    assert gone["deleted"]
    assert rota("schedule", "get", "tick").code == Exit.NOT_FOUND


def test_a_past_span_is_backfilled(rota: Any, real: CoordinatorProcess) -> None:
    done(rota("schedule", "create", "daily", "@daily", "--type", "greet", "--tz", "Europe/Berlin"))
    span = ("--from", "2026-03-01", "--to", "2026-03-11")
    counted = done(rota("schedule", "backfill", "daily", *span, "--dry-run", "--json")).document
    assert (counted["total_count"], "name" in counted) == (10, False)
    told = done(rota("schedule", "backfill", "daily", *span, "--rate", 100, "--watch", "--json")).documents
    assert (told[-1]["state"], told[-1]["done_count"], told[-1]["fired_count"]) == ("SUCCEEDED", 10, 10)
    [listed] = done(rota("schedule", "backfills", "daily", "--json")).documents
    assert listed["name"] == told[-1]["name"]
    fired = done(rota("schedule", "history", "daily", *span, "--json")).documents
    assert [o["local_time"][:10] for o in fired] == [f"2026-03-{day:02}" for day in range(10, 0, -1)]
    slow = done(rota("schedule", "backfill", "daily", "--from", "2025-01-01", "--to", "2026-01-01", "--rate", 0.1))
    name = slow.out.splitlines()[0].split()[-1]
    assert done(rota("schedule", "cancel-backfill", name, "--json")).document["state"] == "CANCELLED"


def test_a_calendar_in_use_stays(rota: Any, real: CoordinatorProcess) -> None:
    done(rota("calendar", "create", "holidays", "--date", "2026-12-25", "--label", "a=1", "--notes", "why"))
    edited = done(rota("calendar", "edit", "holidays", "--add", "--01-01", "--remove", "2026-12-25", "--json")).document
    assert (edited["dates"], edited["notes"], edited["labels"]) == (["--01-01"], "why", {"a": "1"})
    done(rota("schedule", "create", "x", "@daily", "--type", "greet", "--calendar", "holidays"))
    used = rota("calendar", "delete", "holidays", "--json")
    assert (used.code, json.loads(used.err)["error"]["reason"]) == (Exit.REFUSED, "INVALID_STATE")
    done(rota("schedule", "edit", "x", "--unset", "calendar"))
    done(rota("calendar", "delete", "holidays"))
    assert [c["name"] for c in done(rota("calendar", "list", "--json")).documents] == []
