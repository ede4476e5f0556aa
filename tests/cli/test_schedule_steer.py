"""`rota schedule pause`, `resume`, `trigger` and `delete`."""

import json
import sys
from datetime import timedelta
from typing import Any

import grpc
import pytest
from rota_sdk.gen.rota.v1 import common_pb2, jobs_pb2
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

from rota.cli.errors import Exit
from tests.cli.scheduler import Scheduler, schedule
from tests.cli.script import in_, job

NAME = "schedules/nightly"


@pytest.fixture
def stored(scheduler: Scheduler) -> Scheduler:
    """A coordinator with one schedule."""
    scheduler.put(schedule())
    return scheduler


@pytest.mark.parametrize("given", ["nightly", NAME])
def test_pause_sends_reason_and_etag(given: str, rota: Any, stored: Scheduler) -> None:
    ran = rota("schedule", "pause", given, "--reason", "maintenance", "--etag", "e1", "--json")
    assert stored.sent == pb.PauseScheduleRequest(name=NAME, reason="maintenance", etag="e1")
    assert (ran.code, ran.document["state"], ran.document["state_reason"]) == (Exit.OK, "PAUSED", "maintenance")


def test_pause_shows_the_schedule(rota: Any, stored: Scheduler) -> None:
    lines = [line.split(None, 1) for line in rota("schedule", "pause", "nightly").out.splitlines()]
    assert ["state", "PAUSED"] in lines


def test_resume(rota: Any, stored: Scheduler) -> None:
    ran = rota("schedule", "resume", "nightly", "--reason", "done", "--json")
    assert stored.sent == pb.ResumeScheduleRequest(name=NAME, reason="done")
    assert (ran.code, ran.document["state"]) == (Exit.OK, "ACTIVE")


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        (["--catch-up", "coalesce"], {"mode": pb.MISSED_RUN_MODE_COALESCE}),
        (["--catch-up", "skip"], {"mode": pb.MISSED_RUN_MODE_SKIP}),
        (
            ["--catch-up", "catch-up", "--catch-up-window", "2h", "--catch-up-max", "5"],
            {"mode": pb.MISSED_RUN_MODE_CATCH_UP, "catch_up_window": timedelta(hours=2), "catch_up_max": 5},
        ),
    ],
)
def test_resume_with_a_catch_up(options: list[str], policy: Any, rota: Any, stored: Scheduler) -> None:
    assert rota("schedule", "resume", "nightly", *options).code == Exit.OK
    assert stored.sent == pb.ResumeScheduleRequest(name=NAME, catch_up=pb.MissedRunPolicy(**policy))


def test_trigger_prints_the_job(rota: Any, stored: Scheduler) -> None:
    ran = rota("schedule", "trigger", "nightly", "--reason", "by hand", "--data", "[1]", "--request-id", "r")
    assert stored.sent == pb.TriggerScheduleRequest(
        name=NAME,
        reason="by hand",
        request_id="r",
        payload=common_pb2.Payload(data=b"[1]", content_type="application/json"),
    )
    assert (ran.code, ran.err) == (Exit.OK, "")
    lines = [line.split(None, 1) for line in ran.out.splitlines()]
    assert ["job", job().name] in lines
    assert ["schedule", NAME] in lines


def test_trigger_keeps_the_template_s_payload_and_is_repeatable(rota: Any, stored: Scheduler) -> None:
    ran = rota("schedule", "trigger", "nightly", "--force", "--json")
    assert stored.sent.force and stored.sent.request_id and not stored.sent.HasField("payload")
    assert ran.document["occurrence"] == {"generation": 0, "fate": "FIRED", "schedule_version": 0, "count": 0} | {
        "forced": True
    }
    assert (ran.document["job"]["name"], ran.document["job"]["schedule"]) == (job().name, NAME)


def test_a_trigger_against_the_overlap_policy_says_so(rota: Any, stored: Scheduler) -> None:
    ran = rota("schedule", "trigger", "nightly", "--force")
    assert ran.err == "It runs against the overlap policy, as was asked.\n"
    stored.refuse(grpc.StatusCode.FAILED_PRECONDITION, "INVALID_STATE", "a job runs; force it, or wait for its end")
    refused = rota("schedule", "trigger", "nightly")
    assert (refused.code, refused.err) == (Exit.REFUSED, "error: a job runs\nhint: force it, or wait for its end\n")


@pytest.mark.parametrize(
    ("end", "code"), [(jobs_pb2.JOB_STATE_SUCCEEDED, Exit.OK), (jobs_pb2.JOB_STATE_DEAD, Exit.REFUSED)]
)
def test_trigger_waits_for_the_end(end: Any, code: Exit, rota: Any, stored: Scheduler) -> None:
    stored.jobs = [job(), job(state=end)]
    ran = rota("schedule", "trigger", "nightly", "--wait", "--json")
    assert (ran.code, ran.document["job"]["state"]) == (code, jobs_pb2.JobState.Name(end).removeprefix("JOB_STATE_"))


def test_the_patience_of_a_trigger_ends(rota: Any, stored: Scheduler) -> None:
    ran = rota("schedule", "trigger", "nightly", "--wait", "--timeout", "50ms")
    assert (ran.code, ran.err.partition("\n")[0]) == (Exit.REFUSED, f"error: {job().name} did not end within 0.05 s")


def test_a_trigger_that_is_buffered_has_no_job_yet(rota: Any, stored: Scheduler) -> None:
    stored.triggered = pb.TriggerScheduleResponse(
        occurrence={
            "name": f"{NAME}/occurrences/o1",
            "fate": pb.OCCURRENCE_FATE_BUFFERED,
            "nominal_time": in_(0),
            "local_time": "2026-11-30T09:15:00+01:00",
            "blocking_job": "jobs/j1",
        }
    )
    ran = rota("schedule", "trigger", "nightly")
    assert (ran.code, ran.err) == (Exit.OK, "It waits for an earlier job of the schedule.\n")
    assert [line.split(None, 1) for line in ran.out.splitlines()] == [
        ["occurrence", f"{NAME}/occurrences/o1"],
        ["fate", "BUFFERED"],
        ["nominal", "Mon 2026-11-30 09:15:00 +01:00 = 2026-11-30T08:15:00Z"],
        ["reason", "behind jobs/j1"],
    ]
    waited = rota("schedule", "trigger", "nightly", "--wait", "--json")
    assert (waited.code, waited.document["occurrence"]["fate"]) == (Exit.REFUSED, "BUFFERED")
    assert json.loads(waited.err)["error"]["reason"] == "NOT_FINISHED"


@pytest.mark.parametrize(
    ("options", "request_"),
    [
        ([], {}),
        (["--cancel-jobs", "cooperative"], {"cancel_jobs": True, "cancel_mode": jobs_pb2.CANCEL_MODE_COOPERATIVE}),
        (["--cancel-jobs", "fence_out"], {"cancel_jobs": True, "cancel_mode": jobs_pb2.CANCEL_MODE_FENCE_OUT}),
        (["--etag", "e1", "--allow-missing", "--yes"], {"etag": "e1", "allow_missing": True}),
    ],
)
def test_delete(options: list[str], request_: Any, rota: Any, stored: Scheduler) -> None:
    ran = rota("schedule", "delete", "nightly", *options)
    assert stored.sent == pb.DeleteScheduleRequest(name=NAME, **request_)
    cancelled = int(bool(request_.get("cancel_jobs")))
    said = f"deleted {NAME}; 2 jobs withdrawn, {cancelled} cancelled or being cancelled\n"
    assert (ran.code, ran.out) == (Exit.OK, said)
    assert stored.schedules == {}


def test_delete_json_and_what_is_not_there(rota: Any, stored: Scheduler) -> None:
    told = rota("schedule", "delete", "nightly", "--json").document
    assert told == {"name": NAME, "deleted": True, "withdrawn_jobs": 2, "cancelled_jobs": 0}
    assert rota("schedule", "delete", "nightly", "--allow-missing").code == Exit.OK
    assert rota("schedule", "delete", "nightly").code == Exit.NOT_FOUND


@pytest.mark.parametrize(("answer", "code"), [("y\n", Exit.OK), ("n\n", Exit.REFUSED), ("\n", Exit.REFUSED)])
def test_a_terminal_is_asked(
    answer: str, code: Exit, rota: Any, stored: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

        def readline(self, *_: Any) -> str:
            return answer

    monkeypatch.setattr(sys, "stdin", Terminal())
    ran = rota("schedule", "delete", "nightly")
    assert ran.code == code
    assert ran.err.startswith(f"Delete {NAME}? [y/N]:")
    assert (NAME in stored.schedules) == (code != Exit.OK)
    assert ("Nothing was deleted." in ran.err) == (code != Exit.OK)
    for unasked in ("--yes", "--json"):
        assert rota("schedule", "delete", "nightly", unasked, "--allow-missing").err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pause", "a/b"], "SCHEDULE: expected 1 to 128 letters, digits or ._-, the first a letter or digit"),
        (["pause", "x", "--reason", "\udcff"], "--reason: expected UTF-8 text"),
        (["resume", "x", "--catch-up-max", "5"], "--catch-up-max: expected together with --catch-up catch-up"),
        (
            ["resume", "x", "--catch-up", "skip", "--catch-up-window", "1h"],
            "--catch-up-window: expected together with --catch-up catch-up, found without",
        ),
        (["trigger", "x", "--timeout", "5s"], "--timeout: expected together with --wait, found alone"),
        (["trigger", "x", "--data", "{a"], "--data: expected JSON, found '{a'"),
        (["delete", "x", "--cancel-jobs", "if_not_started"], "Invalid value for '--cancel-jobs'"),
    ],
)  # fmt: skip
def test_what_is_refused_before_anything_is_sent(
    arguments: list[str], message: str, rota: Any, scheduler: Scheduler
) -> None:
    ran = rota("schedule", *arguments)
    assert (ran.code, ran.out) == (Exit.USAGE, "")
    assert ran.err.startswith(f"error: {message}")
    assert scheduler.requests == []


def test_refused_fields_are_options(rota: Any, scheduler: Scheduler) -> None:
    scheduler.refuse_fields(payload__data="too large", reason="too long")
    assert rota("schedule", "trigger", "x", "--data", "1").err.startswith(
        "error: --data: too large; --reason: too long"
    )
    scheduler.refuse_fields(catch_up__catch_up_window="must be from 1 s to 366 d, found 400 d")
    ran = rota("schedule", "resume", "x", "--catch-up", "catch-up", "--catch-up-window", "400d")
    assert ran.err.startswith("error: --catch-up-window: must be from 1 s")
