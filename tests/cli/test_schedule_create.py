"""`rota schedule create`: what is sent, what is shown, and what is refused."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

from rota.cli import schedule as schedule_command
from rota.cli import schedulebackfill, scheduleflags, scheduleform, schedulesteer
from rota.cli.errors import Exit
from rota.cli.remote import option_of
from rota.domain.limits import PAYLOAD_BYTES_MAX
from tests.cli.scheduler import Scheduler, fields
from tests.cli.script import T0

CREATE = ("schedule", "create", "nightly")
CRON = (*CREATE, "30 2 * * *", "--type", "greet")


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is T0."""
    monkeypatch.setattr("rota.clock.SystemClock.utc", lambda self: T0)


def test_create_sends_every_option(rota: Any, scheduler: Scheduler) -> None:
    ran = rota(
        *(*CREATE, "30 2 * * 1-5", "--tz", "Europe/Berlin", "--start", "2026-12-01", "--end", "2027-01-01T00:00:00Z"),
        *("--max-count", 10, "--dst-gap", "run-after", "--dst-overlap", "both", "--exclude", "2026-12-25"),
        *("--exclude", "--12-31", "--calendar", "holidays", "--calendar", "calendars/vacation"),
        *("--jitter", "5m", "--jitter-mode", "random"),
        *("--missed", "catch-up", "--late-tolerance", "30s", "--catch-up-window", "2d", "--catch-up-max", 7),
        *("--overlap", "buffer-all", "--overlap-limit", 3, "--pause-after-failures", 4),
        *("--type", "greet", "--queue", "q", "--priority", 0, "--data", '{"n": 1}', "--header", "h=v"),
        *("--job-label", "j=1", "--max-attempts", 3, "--initial-backoff", "2s", "--max-backoff", "1m"),
        *("--run-timeout", "10s", "--start-by", "1h", "--total-timeout", "1d", "--concurrency-key", "k"),
        *("--label", "a=1", "--label", "b=x=y", "--notes", "why", "--paused", "--request-id", "r"),
    )
    assert ran.code == Exit.OK, ran.err
    assert scheduler.sent == pb.CreateScheduleRequest(
        schedule_id="nightly",
        request_id="r",
        paused=True,
        schedule=pb.Schedule(
            cron={"expression": "30 2 * * 1-5"},
            time_zone="Europe/Berlin",
            start_time=datetime(2026, 11, 30, 23, tzinfo=UTC),
            end_time=datetime(2027, 1, 1, tzinfo=UTC),
            max_count=10,
            dst_gap=pb.DST_GAP_RUN_AFTER,
            dst_overlap=pb.DST_OVERLAP_BOTH,
            exclusions={
                "dates": ["2026-12-25", "--12-31"],
                "calendars": ["calendars/holidays", "calendars/vacation"],
            },
            jitter={"mode": pb.JITTER_MODE_RANDOM, "span": timedelta(minutes=5)},
            missed_run_policy={
                "mode": pb.MISSED_RUN_MODE_CATCH_UP,
                "late_tolerance": timedelta(seconds=30),
                "catch_up_window": timedelta(days=2),
                "catch_up_max": 7,
            },
            overlap_policy={"mode": pb.OVERLAP_MODE_BUFFER_ALL, "limit": 3},
            pause_after_failures=4,
            job={
                "type": "greet",
                "queue": "q",
                "priority": 0,
                "payload": {"data": b'{"n": 1}', "content_type": "application/json"},
                "headers": {"h": "v"},
                "labels": {"j": "1"},
                "retry_policy": {
                    "max_attempts": 3,
                    "initial_backoff": timedelta(seconds=2),
                    "max_backoff": timedelta(minutes=1),
                },
                "timeouts": {
                    "run": timedelta(seconds=10),
                    "start_by": timedelta(hours=1),
                    "total": timedelta(days=1),
                },
                "concurrency_key": "k",
            },
            labels={"a": "1", "b": "x=y"},
            notes="why",
        ),
    )


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["@daily"], {"cron": {"expression": "@daily"}}),
        (["--every", "90s"], {"interval": {"every": timedelta(seconds=90)}}),
        (["--every", "PT4H"], {"interval": {"every": timedelta(hours=4)}}),
        (
            ["--every", "1h", "--anchor", "2026-07-01T12:00", "--tz", "Europe/Berlin"],
            {
                "interval": {"every": timedelta(hours=1), "anchor_time": datetime(2026, 7, 1, 10, tzinfo=UTC)},
                "time_zone": "Europe/Berlin",
            },
        ),
        (
            ["--rrule", "DTSTART;TZID=America/New_York:20260307T023000\\nRRULE:FREQ=DAILY"],
            {
                "rrule": {"text": "DTSTART;TZID=America/New_York:20260307T023000\nRRULE:FREQ=DAILY"},
                "time_zone": "America/New_York",
            },
        ),
        (["--at", "2026-12-08T02:30:00"], {"once": {"local_time": "2026-12-08T02:30:00"}}),
        (["--at", "2026-11-30T09:15:00+01:00"], {"once": {"run_time": T0}}),
    ],
)
def test_every_kind_of_rule(arguments: list[str], rule: Any, rota: Any, scheduler: Scheduler) -> None:
    ran = rota(*CREATE, *arguments, "--type", "greet")
    assert ran.code == Exit.OK, ran.err
    assert scheduler.sent.schedule == pb.Schedule(**rule, job={"type": "greet"})
    assert scheduler.sent.request_id


def test_a_command_is_a_job_of_the_exec_runner(rota: Any, scheduler: Scheduler) -> None:
    rota(*CREATE, "@hourly", "--command", 'echo "ä"')
    job = scheduler.sent.schedule.job
    assert (job.type, job.queue, job.payload.content_type) == ("rota.exec", "commands", "application/json")
    assert json.loads(job.payload.data) == {"command": 'echo "ä"'}
    scheduler.requests.clear()
    rota(*CREATE, "@hourly", "--command", "true", "--queue", "batch")
    assert scheduler.sent.schedule.job.queue == "batch"


def test_create_shows_what_was_made_with_its_next_three_times(rota: Any, scheduler: Scheduler) -> None:
    shown = fields(rota("schedule", "create", "schedules/nightly", "30 2 * * *", "--type", "greet"))
    assert shown["schedule"] == "schedules/nightly"
    assert (shown["rule"], shown["state"]) == ("30 2 * * *", "ACTIVE")
    assert shown["next"].split("|") == [
        "Mon 2026-11-30 10:15:00 CET +01:00 = 2026-11-30T09:15:00Z, in 60 min",
        "Mon 2026-11-30 12:15:00 CET +01:00 = 2026-11-30T11:15:00Z, in 3 h",
        "Mon 2026-11-30 13:15:00 CET +01:00 = 2026-11-30T12:15:00Z, in 4 h",
    ]
    told = rota(*CRON, "--json").document
    assert told["next_times"] == [f"2026-11-30T{hour}:15:00.000Z" for hour in ("09", "11", "12")]
    assert (told["name"], told["cron"], told["state"]) == ("schedules/nightly", {"expression": "30 2 * * *"}, "ACTIVE")


def test_a_server_that_cannot_preview_has_still_created(rota: Any, scheduler: Scheduler) -> None:
    scheduler.previews = False
    assert fields(rota(*CRON))["next"] == "Mon 2026-11-30 10:15:00 CET +01:00 = 2026-11-30T09:15:00Z, in 60 min"
    assert rota(*CRON, "--json").document["next_times"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["30 2 * * *", "--type", "x"], "ID: expected 1 to 128 letters, digits or ._-, the first a letter or digit"),
        (["x", "--type", "x"], "CRON: expected CRON, --every, --rrule or --at, found none"),
        (["x", "@daily", "--every", "5m", "--type", "x"], "CRON: expected CRON, --every, --rrule or --at, found CRON"),
        (["x", "@daily", "--anchor", "2026-01-01", "--type", "x"], "--anchor: expected together with --every"),
        (["x", "@daily"], "--type: expected --type, --command or --http, found none"),
        (["x", "@daily", "--type", "x", "--command", "y"], "--command: expected --command or --type, found both"),
        (["x", "@daily", "--data", "1", "--command", "y"], "--command: expected --command or --data, found both"),
        (["x", "@daily", "--command", "y" * PAYLOAD_BYTES_MAX], "--command: expected at most 262144 bytes"),
        (["x", "@daily", "--command", "\udcff"], "--command: expected UTF-8 text"),
        (["x", "@daily", "--type", "x", "--data", "{a: 1}"], "--data: expected JSON, found"),
        (["x", "@daily", "--type", "x", "--data", "1", "--content-type", "\udcff"], "--content-type: expected a media"),
        (["x", "@daily", "--type", "\udcff"], "--type: expected UTF-8 text"),
        (["x", "@daily", "--type", "x", "--start", "soon"], "--start: expected a time such as 2026-03-07"),
        (["x", "@daily", "--type", "x", "--start", "2026-01-01", "--tz", "CET5"], "--tz: expected the name of an IANA"),
        (["x", "@daily", "--type", "x", "--jitter", "long"], "--jitter: expected a duration such as"),
        (["x", "@daily", "--type", "x", "--jitter", "9" * 20 + "d"], "--jitter: expected a shorter span"),
        (["x", "--every", "P1M", "--type", "x"], "--every: expected an ISO 8601 duration"),
        (["x", "--every", "soon", "--type", "x"], "--every: expected a duration such as"),
        (["x", "@daily", "--type", "x", "--max-count", "9" * 20], "--max-count: expected a value that a field holds"),
        (["x", "@daily", "--type", "x", "--overlap", "skip", "--overlap-limit", "2"], "--overlap-limit: expected --ov"),
        (["x", "@daily", "--type", "x", "--label", "a"], "--label: expected key=value, found 'a'"),
        (["x", "@daily", "--type", "x", "--job-label", "a"], "--job-label: expected key=value, found 'a'"),
        (["x", "@daily", "--type", "x", "--exclude", "\udcff"], "--exclude: expected UTF-8 text"),
        (["x", "@daily", "--type", "x", "--missed", "never"], "Invalid value for '--missed'"),
        (["x", "@daily", "--type", "x", "--overlap", "queue"], "Invalid value for '--overlap'"),
    ],
)
def test_create_refuses_before_anything_is_sent(
    arguments: list[str], message: str, rota: Any, scheduler: Scheduler
) -> None:
    ran = rota("schedule", "create", *arguments)
    assert (ran.code, ran.out) == (Exit.USAGE, "")
    assert ran.err.startswith(f"error: {message}")
    assert scheduler.requests == []


def test_refusals_of_the_server_name_the_option(rota: Any, scheduler: Scheduler) -> None:
    scheduler.refuse_fields(schedule__cron__expression="minute: expected 0 to 59, found '77'; correct the number")
    ran = rota(*CRON)
    assert (ran.code, ran.out) == (Exit.USAGE, "")
    assert ran.err == "error: CRON: minute: expected 0 to 59, found '77'\nhint: correct the number\n"
    scheduler.refuse_fields(schedule__time_zone="no", schedule__job__payload__data="too large")
    error = rota(*CREATE, "@daily", "--command", "x", "--json").error
    assert error["message"] == "--tz: no; --command: too large"
    assert [v["field"] for v in error["details"]["violations"]] == ["--tz", "--command"]


@pytest.mark.parametrize(
    ("field", "option"),
    [
        ("schedule.once.local_time", "--at"),
        ("schedule.interval.anchor_time", "--anchor"),
        ("interval.every", "--every"),
        ("schedule.exclusions.dates[3]", "--exclude[3]"),
        ("schedule.job.headers['a']", "--header['a']"),
        ("schedule.job.retry_policy.max_attempts", "--max-attempts"),
        ("schedule_id", "ID"),
        ("schedule.unheard_of", "schedule.unheard_of"),
    ],
)
def test_each_field_has_its_option(field: str, option: str) -> None:
    assert option_of(field, scheduleform.OPTIONS) == option


def test_the_choices_are_those_of_the_contract() -> None:
    for choices, enum in (
        (schedule_command.State, pb.ScheduleState),
        (schedulebackfill.Fate, pb.OccurrenceFate),
        (scheduleflags.Missed, pb.MissedRunMode),
        (scheduleflags.Overlap, pb.OverlapMode),
        (scheduleflags.Gap, pb.DstGap),
        (scheduleflags.Twice, pb.DstOverlap),
        (scheduleflags.Draw, pb.JitterMode),
    ):
        first, *rest = enum.keys()
        assert {c.name for c in choices} == {name.removeprefix(first.removesuffix("UNSPECIFIED")) for name in rest}
    assert {c.value for c in schedulesteer.CancelJobs} == {"cooperative", "fence_out"}


def test_an_id_that_is_taken_is_refused(rota: Any, scheduler: Scheduler) -> None:
    scheduler.refuse(grpc.StatusCode.ALREADY_EXISTS, "RESOURCE_EXISTS", "schedules/nightly exists; edit it")
    ran = rota(*CRON)
    assert (ran.code, ran.err) == (Exit.REFUSED, "error: schedules/nightly exists\nhint: edit it\n")
