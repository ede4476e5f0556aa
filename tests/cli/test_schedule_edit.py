"""`rota schedule edit`: what is sent, what is shown, and what is refused."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from rota_sdk.gen.rota.v1 import common_pb2
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

from rota.cli import scheduleform
from rota.cli.errors import Exit
from tests.cli.scheduler import Scheduler, fields, schedule
from tests.cli.script import T0


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is T0."""
    monkeypatch.setattr("rota.clock.SystemClock.utc", lambda self: T0)


def edited(rota: Any, scheduler: Scheduler, *options: object) -> Any:
    """The one change that an edit sends, for a schedule that is there."""
    if not scheduler.schedules:
        scheduler.put(schedule())
    ran = rota("schedule", "edit", "nightly", *options)
    assert ran.code == Exit.OK, ran.err
    return scheduler.sent


@pytest.mark.parametrize(
    ("options", "changed", "paths"),
    [
        (["0 5 * * *"], {"cron": {"expression": "0 5 * * *"}}, ["cron.expression"]),
        (["--every", "5m"], {"interval": {"every": timedelta(minutes=5)}}, ["interval.every"]),
        (["--anchor", "2026-11-30T08:15:00Z"], {"interval": {"anchor_time": T0}}, ["interval.anchor_time"]),
        (["--tz", "UTC", "--notes", ""], {"time_zone": "UTC"}, ["time_zone", "notes"]),
        (["--jitter", "0s"], {"jitter": {"span": Duration()}}, ["jitter.span"]),
        (["--label", "a=1"], {"labels": {"a": "1"}}, ["labels"]),
        (["--priority", "0"], {"job": {"priority": 0}}, ["job.priority"]),
        (["--pause-after-failures", "0"], {}, ["pause_after_failures"]),
        (
            ["--overlap", "skip"],
            {"overlap_policy": {"mode": pb.OVERLAP_MODE_SKIP}},
            ["overlap_policy.mode", "overlap_policy.limit"],
        ),
        (["--overlap-limit", "3"], {"overlap_policy": {"limit": 3}}, ["overlap_policy.limit"]),
        (["--unset", "end", "--unset", "--exclude"], {}, ["end_time", "exclusions.dates"]),
        (
            ["--rrule", "DTSTART;TZID=Asia/Tokyo:20260307T023000\\nRRULE:FREQ=DAILY"],
            {
                "rrule": {"text": "DTSTART;TZID=Asia/Tokyo:20260307T023000\nRRULE:FREQ=DAILY"},
                "time_zone": "Asia/Tokyo",
            },
            ["rrule.text", "time_zone"],
        ),
    ],
)
def test_edit_sends_what_is_given(
    options: list[str], changed: Any, paths: list[str], rota: Any, scheduler: Scheduler
) -> None:
    request = edited(rota, scheduler, *options)
    assert request.schedule == pb.Schedule(name="schedules/nightly", **changed)
    assert list(request.update_mask.paths) == paths
    assert request.request_id
    assert not any(isinstance(r, pb.GetScheduleRequest) for r in scheduler.requests)


def test_a_time_without_an_offset_is_one_of_the_stored_zone(rota: Any, scheduler: Scheduler) -> None:
    request = edited(rota, scheduler, "--end", "2027-07-01", "--etag", "e9")
    assert request.schedule.end_time.ToDatetime(UTC) == datetime(2027, 6, 30, 22, tzinfo=UTC)
    assert request.schedule.etag == "e9"
    scheduler.requests.clear()
    request = edited(rota, scheduler, "--end", "2027-07-01", "--tz", "UTC")
    assert request.schedule.end_time.ToDatetime(UTC) == datetime(2027, 7, 1, tzinfo=UTC)


def test_a_command_edited_keeps_its_surroundings(rota: Any, scheduler: Scheduler) -> None:
    stored = json.dumps({"argv": ["false"], "env": {"A": "1"}}).encode()
    scheduler.put(schedule(job={"type": "rota.exec", "queue": "batch", "payload": {"data": stored}}))
    request = edited(rota, scheduler, "--command", "true")
    assert json.loads(request.schedule.job.payload.data) == {"command": "true", "env": {"A": "1"}}
    assert (list(request.update_mask.paths), request.schedule.etag) == (["job.payload"], "e1")


def test_a_job_edited_to_be_a_command_changes_type_and_queue(rota: Any, scheduler: Scheduler) -> None:
    request = edited(rota, scheduler, "--command", "true")
    assert list(request.update_mask.paths) == ["job.type", "job.payload", "job.queue"]
    assert request.schedule.job == pb.JobTemplate(
        type="rota.exec",
        queue="commands",
        payload=common_pb2.Payload(data=b'{"command": "true"}', content_type="application/json"),
    )
    assert request.schedule.etag == ""


def test_edit_shows_the_schedule_after_it(rota: Any, scheduler: Scheduler) -> None:
    scheduler.put(schedule())
    shown = fields(rota("schedule", "edit", "schedules/nightly", "0 5 * * *"))
    assert (shown["rule"], shown["version"]) == ("0 5 * * *", "2, etag e1")
    assert shown["next"].count("|") == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "SCHEDULE: expected an option that changes it, found none"),
        (["@daily", "--every", "5m"], "CRON: expected CRON, --every, --rrule or --at, found CRON and --every"),
        (["@daily", "--anchor", "2026-01-01"], "--anchor: expected together with --every"),
        (["--unset", "cron"], "--unset: expected an option that has a default, such as end or exclude, found 'cron'"),
        (["--unset", "exlude"], "--unset: expected an option that has a default, such as end or exclude, found 'exl"),
        (["--unset", "end", "--end", "2027-01-01T00:00:00Z"], "--unset: expected --end set or unset, found both"),
        (["--unset", "missed", "--missed", "skip"], "--unset: expected --missed set or unset, found both"),
        (["--etag", "\udcff", "@daily"], "--etag: expected UTF-8 text"),
    ],
)
def test_edit_refuses(options: list[str], message: str, rota: Any, scheduler: Scheduler) -> None:
    scheduler.put(schedule())
    ran = rota("schedule", "edit", "nightly", *options)
    assert (ran.code, ran.out) == (Exit.USAGE, "")
    assert ran.err.startswith(f"error: {message}")
    assert scheduler.requests == []


def test_an_old_etag_is_refused(rota: Any, scheduler: Scheduler) -> None:
    scheduler.refuse(
        grpc.StatusCode.ABORTED, "ETAG_MISMATCH", "expected etag e2, found e1; read it again", current="e2"
    )
    error = rota("schedule", "edit", "nightly", "@daily", "--etag", "e1", "--json").error
    assert (error["reason"], error["details"]["current"]) == ("ETAG_MISMATCH", "e2")


def test_every_default_that_can_be_unset_is_a_field() -> None:
    for path in scheduleform.UNSET.values():
        found: Any = pb.Schedule.DESCRIPTOR
        for step in path.split("."):
            found = found.fields_by_name[step].message_type or found.fields_by_name[step]
    for path in scheduleform.OPTIONS:
        if path not in ("schedule_id", "parent", "rule", "request_id", "reason"):
            found = pb.Schedule.DESCRIPTOR
            for step in path.split("."):
                found = found.fields_by_name[step].message_type or found.fields_by_name[step]
