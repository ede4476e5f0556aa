"""`rota schedule`: its help, `get` and `list`."""

import subprocess
import sys
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

from rota.cli.errors import Exit
from rota.cli.remote import document
from tests.cli.scheduler import Scheduler, fields, schedule
from tests.cli.script import T0, in_


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is T0."""
    monkeypatch.setattr("rota.clock.SystemClock.utc", lambda self: T0)


@pytest.mark.parametrize(
    "command",
    [
        *("create", "get", "list", "edit", "pause", "resume", "trigger", "delete", "preview"),
        *("backfill", "backfills", "cancel-backfill", "history"),
    ],
)
def test_each_command_explains_itself(command: str, rota: Any) -> None:
    ran = rota("schedule", command, "--help")
    assert ran.code == 0
    assert ran.out.startswith(f"Usage: rota schedule {command} [OPTIONS]")
    assert "--json" in ran.out


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom rota.cli.main import main\nmain(['schedule', 'create', '--help'])\n"
        "print(*sorted({'grpc', 'google', 'rich', 'rota_sdk'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""


FULL: dict[str, Any] = {
    "start_time": in_(-86400),
    "end_time": in_(8640000),
    "max_count": 100,
    "jitter": {"span": Duration(seconds=300), "mode": pb.JITTER_MODE_RANDOM},
    "next_due_time": in_(3700),
    "exclusions": {"dates": [f"2027-01-{day:02}" for day in range(1, 15)], "calendars": ["calendars/holidays"]},
    "dst_gap": pb.DST_GAP_SHIFT,
    "missed_run_policy": {
        "mode": pb.MISSED_RUN_MODE_CATCH_UP,
        "late_tolerance": Duration(seconds=60),
        "catch_up_window": Duration(seconds=86400),
        "catch_up_max": 100,
    },
    "overlap_policy": {"mode": pb.OVERLAP_MODE_BUFFER_ALL, "limit": 100},
    "pause_after_failures": 3,
    "job": {
        "payload": {"data": b'{"n": 1}', "content_type": "application/json"},
        "retry_policy": {"max_attempts": 5},
        "timeouts": {"run": Duration(seconds=3600)},
    },
    "notes": "why",
    "labels": {"b": "2", "a": "1"},
    "version": 3,
    "state_reason": "by hand",
    "state_author": "apiKeys/k1",
    "last_nominal_time": in_(-3600),
    "last_fire_time": in_(-3599),
    "last_job": "jobs/j1",
    "consecutive_failures": 2,
    "fate_counts": [
        {"fate": pb.OCCURRENCE_FATE_FIRED, "count": 12},
        {"fate": pb.OCCURRENCE_FATE_SKIPPED_OVERLAP, "count": 1},
    ],
    "tzdata_version": "2026f",
    "apply_set": "prod",
}


def test_get_shows_all_that_matters(rota: Any, scheduler: Scheduler) -> None:
    scheduler.put(schedule(**FULL))
    assert fields(rota("schedule", "get", "nightly")) == {
        "schedule": "schedules/nightly",
        "rule": "30 2 * * *",
        "zone": "Europe/Berlin",
        "state": "ACTIVE",
        "since": "2026-11-30T08:15:00.000Z by apiKeys/k1: by hand",
        "next": "Mon 2026-11-30 10:15:00 CET +01:00 = 2026-11-30T09:15:00Z, in 60 min",
        "due": "Mon 2026-11-30 10:16:40 CET +01:00 = 2026-11-30T09:16:40Z, in 62 min",
        "last": "Mon 2026-11-30 08:15:00 CET +01:00 = 2026-11-30T07:15:00Z, 60 min ago",
        "last fired": "2026-11-30T07:15:01.000Z",
        "last job": "jobs/j1",
        "failures": "2 dead jobs in a row",
        "fates": "FIRED 12, SKIPPED_OVERLAP 1",
        "start": "Sun 2026-11-29 09:15:00 CET +01:00 = 2026-11-29T08:15:00Z, 24 h ago",
        "end": "Wed 2027-03-10 09:15:00 CET +01:00 = 2027-03-10T08:15:00Z, in 100 d",
        "max count": "100",
        "jitter": "below 5m, one for each run",
        "exclude": " ".join(f"2027-01-{day:02}" for day in range(1, 13)) + " and 2 more",
        "calendars": "holidays",
        "dst gap": "shift",
        "missed": "catch-up, within 1d, at most 100",
        "overlap": "buffer-all, at most 100",
        "pause after": "3 dead jobs in a row",
        "job": "greet, queue default, priority 4",
        "payload": '{"n": 1}',
        "attempts": "at most 5",
        "timeouts": "run 1h",
        "labels": "a=1 b=2",
        "notes": "why",
        "set": "prod",
        "version": "3, etag e1",
        "uid": "6f0c",
        "created": "2026-11-30T08:15:00.000Z",
        "changed": "2026-11-30T08:15:00.000Z",
        "tzdata": "2026f",
    }


def test_get_leaves_defaults_out(rota: Any, scheduler: Scheduler) -> None:
    policy = {"mode": pb.MISSED_RUN_MODE_COALESCE, "late_tolerance": Duration(seconds=60), "catch_up_max": 100}
    scheduler.put(schedule(missed_run_policy=policy, overlap_policy={"mode": pb.OVERLAP_MODE_ALLOW}, jitter={}))
    shown = fields(rota("schedule", "get", "schedules/nightly"))
    assert not {"missed", "overlap", "pause after", "jitter", "due", "dst gap", "last", "changed"} & shown.keys()


def test_get_json_has_the_names_of_the_contract(rota: Any, scheduler: Scheduler) -> None:
    scheduler.put(schedule(**FULL))
    told = rota("schedule", "get", "nightly", "--json").document
    assert told["next_nominal_time"] == "2026-11-30T09:15:00.000Z"
    assert told["jitter"] == {"mode": "RANDOM", "span": "300s"}
    assert told["fate_counts"] == [{"fate": "FIRED", "count": 12}, {"fate": "SKIPPED_OVERLAP", "count": 1}]
    assert told["job"]["payload"] == {"content_type": "application/json", "json": {"n": 1}}
    assert told["missed_run_policy"]["catch_up_window"] == "86400s"
    assert (told["version"], told["max_count"], told["pause_after_failures"]) == (3, 100, 3)
    assert told["labels"] == {"a": "1", "b": "2"}
    assert "dst_overlap" not in told


def test_json_leaves_out_what_is_empty() -> None:
    made = pb.Schedule(job={"type": "x", "payload": {}}, labels={}, exclusions={})
    assert document(made) == {"job": {"type": "x"}, "pause_after_failures": 0, "version": 0, "consecutive_failures": 0}


def test_json_knows_states_of_a_newer_server() -> None:
    made = pb.Schedule()
    made.ParseFromString(b"\x80\x02\x63")
    assert document(made)["state"] == "99"


def test_a_schedule_of_a_zone_unheard_of_is_shown_in_utc(rota: Any, scheduler: Scheduler) -> None:
    made = schedule()
    made.time_zone = "Mars/Olympus"
    scheduler.put(made)
    assert fields(rota("schedule", "get", "nightly"))["next"] == "2026-11-30T09:15:00Z, in 60 min"


def test_get_of_none_is_exit_4(rota: Any, scheduler: Scheduler) -> None:
    ran = rota("schedule", "get", "nightly")
    assert (ran.code, ran.out) == (Exit.NOT_FOUND, "")
    assert "there is no schedules/nightly" in ran.err
    assert rota("schedule", "get", "a b").err.startswith("error: SCHEDULE: expected 1 to 128 letters, digits or ._-")


RULES = {
    "a-once": {"once": {"local_time": "2026-12-08T02:30:00"}},
    "b-every": {"interval": {"every": Duration(seconds=5400), "anchor_time": T0}},
    "c-rrule": {"rrule": {"text": "DTSTART;TZID=Europe/Berlin:20260307T023000\nRRULE:FREQ=DAILY"}},
}


def test_list_shows_a_line_for_each(rota: Any, scheduler: Scheduler) -> None:
    scheduler.put(*(schedule(id, **rule) for id, rule in RULES.items()))
    idle = schedule("d-paused", state=pb.SCHEDULE_STATE_PAUSED, last_job="jobs/j1")
    idle.ClearField("next_nominal_time")
    idle.ClearField("next_due_time")
    scheduler.put(idle)
    head, *rows = rota("schedule", "list").out.splitlines()
    assert head.split("  ") and head.split()[:6] == ["ID", "STATE", "RULE", "ZONE", "NEXT", "IN"]
    assert [" ".join(row.split()) for row in rows] == [
        "a-once ACTIVE once, at 2026-12-08T02:30:00 Europe/Berlin 2026-11-30T09:15:00Z 60 min",
        "b-every ACTIVE every 90m Europe/Berlin 2026-11-30T09:15:00Z 60 min",
        "c-rrule ACTIVE RRULE:FREQ=DAILY Europe/Berlin 2026-11-30T09:15:00Z 60 min",
        "d-paused PAUSED 30 2 * * * Europe/Berlin jobs/j1",
    ]


def test_list_sends_its_filters_and_pages(rota: Any, scheduler: Scheduler) -> None:
    scheduler.put(*(schedule(f"s{n:02}") for n in range(30)))
    ran = rota(
        *("schedule", "list", "--limit", 20, "--json", "--state", "PAUSED", "--label", "a=1", "--type", "t"),
        *("--queue", "q", "--prefix", "s", "--set", "prod"),
    )
    assert [s["name"] for s in ran.documents] == [f"schedules/s{n:02}" for n in range(20)]
    assert ran.err == "more: --page-token 20\n"
    assert scheduler.sent == pb.ListSchedulesRequest(
        page_size=20,
        state=pb.SCHEDULE_STATE_PAUSED,
        labels={"a": "1"},
        type="t",
        queue="q",
        id_prefix="s",
        apply_set="prod",
    )
    assert len(rota("schedule", "list", "--page-token", 20).out.splitlines()) == 11
    assert len(rota("schedule", "list", "--all", "--json").documents) == 30
    assert scheduler.requests[-1].page_size == 1_000
