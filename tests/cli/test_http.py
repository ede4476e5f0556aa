"""Calls on the command line: `--http` of jobs and schedules, and what `rota http` refuses before it runs."""

import json
from pathlib import Path
from typing import Any

import pytest
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

from rota.cli import http
from rota.cli.errors import Exit
from rota.targets.http import hosts, request, runner
from tests.cli.scheduler import Scheduler, schedule
from tests.cli.script import Coordinator

URL = "https://x.example/a?b=1"


def body(message: Any) -> Any:
    return json.loads(message.payload.data)


def test_the_numbers_are_those_of_the_runner() -> None:
    assert (request.JOB_TYPE, request.QUEUE_DEFAULT) == (http.JOB_TYPE, http.QUEUE_DEFAULT)
    assert (runner.SLOTS_DEFAULT, hosts.CALLS_DEFAULT) == (http.SLOTS, http.CALLS)
    assert f"{runner.DRAIN_TIMEOUT_S:g}s" == http.DRAIN


def test_a_job_that_is_a_call(rota: Any, coordinator: Coordinator) -> None:
    ran = rota("job", "create", "--http", URL)
    assert ran.code == Exit.OK, ran.err
    job = coordinator.requests[0].job
    assert (job.type, job.queue, job.payload.content_type) == ("rota.http", "http", "application/json")
    assert body(job) == {"url": URL}


def test_a_job_that_is_a_call_with_everything(rota: Any, coordinator: Coordinator, tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_text('{"id": "{{job.id}}"}\n')
    ran = rota(
        *("job", "create", "--http", URL, "--method", "put", "--auth", "billing", "--queue", "slow", "--priority", 9),
        *("--header", "X-A=1", "--header", "Accept=text/csv", "--body", f"@{file}"),
    )
    assert ran.code == Exit.OK, ran.err
    job = coordinator.requests[0].job
    assert (job.queue, job.priority, dict(job.headers)) == ("slow", 9, {})
    assert body(job) == {
        "url": URL,
        "method": "put",
        "auth": "billing",
        "headers": {"X-A": "1", "Accept": "text/csv", "Content-Type": "application/json"},
        "body": '{"id": "{{job.id}}"}\n',
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--body", "plain"], {"body": "plain"}),
        (
            ["--body", "[1]", "--header", "content-type=text/plain"],
            {"body": "[1]", "headers": {"content-type": "text/plain"}},
        ),
        (["--body", "@\0"], None),
    ],
)
def test_bodies(options: list[str], expected: Any, rota: Any, coordinator: Coordinator) -> None:
    ran = rota("job", "create", "--http", URL, *options)
    if expected is None:
        assert (ran.code, ran.err.startswith("error: --body: expected a readable file")) == (Exit.USAGE, True)
    else:
        assert body(coordinator.requests[0].job) == {"url": URL} | expected


def test_a_body_of_bytes_is_sent_as_such(rota: Any, coordinator: Coordinator, tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_bytes(b"\xff\0")
    rota("job", "create", "--http", URL, "--body", f"@{file}")
    assert body(coordinator.requests[0].job) == {"url": URL, "body_base64": "/wA="}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "TYPE: expected TYPE or --http, found neither"),
        (["greet", "--http", URL], "TYPE: expected TYPE or --http, found both"),
        (["greet", "--method", "PUT"], "--method: expected together with --http"),
        (["greet", "--body", "x"], "--body: expected together with --http"),
        (["greet", "--auth", "x"], "--auth: expected together with --http"),
        (["--http", URL, "--data", "1"], "--http: expected --http or --data, found both"),
        (["--http", "x.example"], "--http: expected http:// or https://"),
        (["--http", "https://u:secret@x/"], "--http: expected no user or password in it, found one"),
        (["--http", URL, "--method", "FETCH"], "--method: expected one of GET"),
        (["--http", URL, "--header", "Host=y"], "--header: expected a header of the request"),
        (["--http", URL, "--body", "{{job.name}}"], "--body: expected a name that an attempt has"),
        (["--http", URL, "--body", "x" * 300_000], "--body: expected at most 262144 bytes"),
        (["--http", URL, "--auth", "Bearer x"], "--auth: expected the name of a credential"),
        (["--http", f"{URL}&t={{{{occurrence.time}}}}"], "--http: expected what a job without a schedule has"),
    ],
)
def test_calls_that_are_refused(arguments: list[str], message: str, rota: Any, coordinator: Coordinator) -> None:
    ran = rota("job", "create", *arguments)
    assert (ran.code, ran.out) == (Exit.USAGE, "")
    assert ran.err.startswith(f"error: {message}")
    assert "u:secret" not in ran.err
    assert coordinator.requests == []


def test_a_schedule_of_calls(rota: Any, scheduler: Scheduler) -> None:
    call = ("--http", "https://x/{{occurrence.time}}", "--body", "x", "--header", "A=1")
    ran = rota("schedule", "create", "nightly", "@daily", *call)
    assert ran.code == Exit.OK, ran.err
    job = scheduler.sent.schedule.job
    assert (job.type, job.queue, dict(job.headers)) == ("rota.http", "http", {})
    assert body(job) == {"url": "https://x/{{occurrence.time}}", "body": "x", "headers": {"A": "1"}}


def test_a_call_edited_keeps_what_is_not_given(rota: Any, scheduler: Scheduler) -> None:
    stored = json.dumps({"url": "https://old/", "timeout": 5, "body": {"a": 1}, "auth": "billing"}).encode()
    scheduler.put(schedule(job={"type": "rota.http", "queue": "slow", "payload": {"data": stored}}))
    assert rota("schedule", "edit", "nightly", "--http", URL).code == Exit.OK
    assert body(scheduler.sent.schedule.job) == {"url": URL, "timeout": 5, "body": {"a": 1}, "auth": "billing"}
    assert (list(scheduler.sent.update_mask.paths), scheduler.sent.schedule.etag) == (["job.payload"], "e1")


def test_a_job_edited_to_be_a_call_changes_type_and_queue(rota: Any, scheduler: Scheduler) -> None:
    scheduler.put(schedule())
    assert rota("schedule", "edit", "nightly", "--http", URL).code == Exit.OK
    assert list(scheduler.sent.update_mask.paths) == ["job.type", "job.payload", "job.queue"]
    assert isinstance(scheduler.sent, pb.UpdateScheduleRequest)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--http", URL, "--command", "x"], "--http: expected --http or --command, found both"),
        (["--http", URL, "--type", "x"], "--http: expected --http or --type, found both"),
        (["--http", URL, "--data", "1"], "--http: expected --http or --data, found both"),
        (["--type", "x", "--method", "GET"], "--method: expected together with --http"),
    ],
)
def test_schedules_of_calls_that_are_refused(options: list[str], message: str, rota: Any, scheduler: Scheduler) -> None:
    ran = rota("schedule", "create", "x", "@daily", *options)
    assert (ran.code, ran.err.startswith(f"error: {message}")) == (Exit.USAGE, True), ran.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--allow", "http://localhost"], "--allow: expected a host such as"),
        (["--credentials", "/no/such"], "--credentials: expected a readable file, found '/no/such' (No such file"),
        (["--ca", "/no/such"], "--ca: expected certificates in PEM, found '/no/such' (No such file"),
        (["--queue", "\udcff"], "--queue: expected UTF-8 text"),
        (["--drain-timeout", "soon"], "--drain-timeout: expected a duration"),
    ],
)
def test_the_runner_refuses(options: list[str], message: str, rota: Any) -> None:
    ran = rota("http", *options)
    assert (ran.code, ran.err.startswith(f"error: {message}")) == (Exit.USAGE, True), ran.err


def test_credentials_of_the_home_are_found_by_themselves(rota: Any, home: Path) -> None:
    home.mkdir()
    (home / "credentials.toml").write_text("[billing]\nkind = 'beerer'\n")
    ran = rota("http")
    assert (ran.code, ran.err.startswith("error: billing.kind: expected one of bearer")) == (Exit.USAGE, True), ran.err
