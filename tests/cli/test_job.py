"""`rota job`: what is sent, what is shown, and how it exits."""

import io
import json
import re
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from rota_sdk import CancelMode, JobState
from rota_sdk.gen.rota.v1 import common_pb2, jobs_pb2

from rota.cli import job as job_command
from rota.cli import values
from rota.cli.errors import Exit
from rota.domain.errors import InvalidArgument
from rota.domain.limits import PAYLOAD_BYTES_MAX
from tests.cli.script import JOB_ID, Coordinator, in_, job

SUCCEEDED = jobs_pb2.JOB_STATE_SUCCEEDED
LEASED = jobs_pb2.JOB_STATE_LEASED
DEAD = jobs_pb2.JOB_STATE_DEAD


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Any:
    def give(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give


def sent(coordinator: Coordinator) -> Any:
    assert len(coordinator.requests) == 1
    return coordinator.requests[0]


def test_create_sends_every_option(rota: Any, coordinator: Coordinator) -> None:
    ran = rota(
        *("job", "create", "greet", "--data", '{"name": "Ada"}', "--queue", "q", "--priority", 0, "--delay", "1h30m"),
        *("--max-attempts", 3, "--run-timeout", "10s", "--label", "a=1", "--label", "b=x=y", "--header", "h=v"),
        *("--dedupe-key", "d", "--request-id", "r", "--effect-key", "e"),
    )
    assert ran.code == Exit.OK
    request = sent(coordinator)
    assert request.job.payload == common_pb2.Payload(data=b'{"name": "Ada"}', content_type="application/json")
    assert (request.job.type, request.job.queue, request.job.priority) == ("greet", "q", 0)
    assert request.job.HasField("priority")
    assert request.delay.ToTimedelta() == timedelta(hours=1.5)
    assert request.job.retry_policy.max_attempts == 3
    assert request.job.timeouts.run.ToTimedelta() == timedelta(seconds=10)
    assert dict(request.job.labels) == {"a": "1", "b": "x=y"}
    assert dict(request.job.headers) == {"h": "v"}
    assert (request.dedupe.key, request.request_id, request.job.effect_key) == ("d", "r", "e")


def test_create_at_an_instant(rota: Any, coordinator: Coordinator) -> None:
    rota("job", "create", "greet", "--at", "2026-11-30T09:15:00+01:00")
    assert sent(coordinator).job.run_time.ToDatetime() == in_(0).replace(tzinfo=None)


@pytest.mark.parametrize("place", ["argument", "file", "stdin"])
def test_the_payload_s_bytes_go_as_they_are(
    place: str, rota: Any, coordinator: Coordinator, tmp_path: Path, stdin: Any
) -> None:
    data = '{"name":   "Ada ✓", "n": 1e2}\n'
    (tmp_path / "data.json").write_text(data)
    stdin(data.encode())
    given = {"argument": data, "file": f"@{tmp_path / 'data.json'}", "stdin": "-"}[place]
    assert rota("job", "create", "greet", "--data", given).code == Exit.OK
    assert sent(coordinator).job.payload.data == data.encode()


def test_a_payload_may_be_as_large_as_the_limit(rota: Any, coordinator: Coordinator, tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(b"x" * PAYLOAD_BYTES_MAX)
    assert rota("job", "create", "greet", "--data", f"@{file}", "--text").code == Exit.OK
    assert len(sent(coordinator).job.payload.data) == PAYLOAD_BYTES_MAX
    file.write_bytes(b"x" * (PAYLOAD_BYTES_MAX + 1))
    ran = rota("--json", "job", "create", "greet", "--data", f"@{file}", "--text")
    assert (ran.code, ran.error["reason"]) == (Exit.USAGE, "PAYLOAD_TOO_LARGE")


def test_text_and_other_types(rota: Any, coordinator: Coordinator, stdin: Any) -> None:
    rota("job", "create", "greet", "--data", "not json", "--text")
    stdin(b"\x00\xff")
    rota("job", "create", "greet", "--data", "-", "--content-type", "image/png")
    rota("job", "create", "greet")
    payloads = [(r.job.payload.data, r.job.payload.content_type) for r in coordinator.requests]
    assert payloads == [(b"not json", "text/plain; charset=utf-8"), (b"\x00\xff", "image/png"), (b"", "")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--data", "{name: Ada}"], "--data: expected JSON, found '{name: Ada}'"),
        (["--data", "NaN"], "--data: expected JSON, found 'NaN'"),
        (["--data", "["* 100_000], "--data: expected JSON"),
        (["--data", "@/nowhere/x"], "--data: expected a readable file, found '/nowhere/x' (No such file"),
        (["--data", "@\udcff"], "--data: expected a readable file"),
        (["--data", "\udcff"], "--data: expected UTF-8 text, found other bytes"),
        (["--data", f'"{"x" * PAYLOAD_BYTES_MAX}"'], "--data: expected at most 262144 bytes, found more"),
        (["--text"], "--data: expected together with --text or --content-type, found none"),
        (["--data", "x", "--text", "--content-type", "x/y"], "--text: expected --text or --content-type, found both"),
        (["--delay", "soon"], "--delay: expected a duration such as"),
        (["--delay", "-5s"], "--delay: expected a duration such as"),
        (["--delay", "5s", "--at", "2026-11-30T09:15:00Z"], "--delay: expected --delay or --at, found both"),
        (["--at", "tomorrow"], "--at: expected an instant such as 2026-12-24T18:00:00Z, found 'tomorrow'"),
        (["--at", "2026-11-30T09:15:00"], "--at: expected an offset from UTC, found none"),
        (["--at", "0001-01-01T00:00:00+01:00"], "--at: expected an instant that UTC has too"),
        (["--label", "a"], "--label: expected key=value, found 'a'"),
        (["--label", "a=1", "--label", "a=2"], "--label: expected each key once, found 'a' twice"),
        (["--header", "a=\udcff"], "--header: expected UTF-8 text, found other bytes"),
        (["--timeout", "5s"], "--timeout: expected together with --wait, found alone"),
        (["--queue", "\udcff"], "the job cannot be sent: "),
        (["--max-attempts", "0"], "Invalid value for '--max-attempts'"),
    ],
)  # fmt: skip
def test_bad_options_are_refused_before_anything_is_sent(
    options: list[str], message: str, rota: Any, coordinator: Coordinator
) -> None:
    ran = rota("job", "create", "greet", *options)
    assert (ran.code, ran.out) == (Exit.USAGE, "")
    assert ran.err.startswith(f"error: {message}")
    assert coordinator.requests == []


def test_a_text_that_is_no_utf8_is_refused(stdin: Any) -> None:
    stdin(b"\xff")
    with pytest.raises(InvalidArgument, match="expected UTF-8 text"):
        values.payload("-", as_text=True, content_type=None)


def test_get_shows_fields_to_people_and_json_to_scripts(rota: Any, coordinator: Coordinator) -> None:
    coordinator.jobs = [
        job(
            state=SUCCEEDED,
            attempt=2,
            attempts_counted=2,
            lease_time=in_(1),
            finish_time=in_(1.25),
            payload={"data": b'{"name": "Ada"}', "content_type": "application/json"},
            result={"data": "grüße\x1b".encode(), "content_type": "text/plain; charset=utf-8"},
            last_failure={"type": "ValueError", "message": "no\nsecond line"},
            labels={"b": "2", "a": "1"},
        )
    ]
    name = f"jobs/{JOB_ID[:-3]}000"
    shown = rota("job", "get", name).out
    fields = dict(re.split(" {2,}", line, maxsplit=1) for line in shown.splitlines())
    assert fields == {
        "job": name,
        "type": "greet",
        "queue": "default, priority 4",
        "state": "SUCCEEDED",
        "attempts": "2 of at most 5",
        "created": "2026-11-30T08:15:00.000Z",
        "due": "2026-11-30T08:15:00.000Z",
        "leased": "2026-11-30T08:15:01.000Z",
        "finished": "2026-11-30T08:15:01.250Z",
        "took": "250 ms",
        "payload": '{"name": "Ada"}',
        "result": "grüße\\x1b",
        "last failure": "ValueError: no",
        "labels": "a=1 b=2",
    }
    told = rota("job", "get", JOB_ID, "--json").document
    assert told == {
        "name": name,
        "type": "greet",
        "queue": "default",
        "state": "SUCCEEDED",
        "priority": 4,
        "attempt": 2,
        "attempts_counted": 2,
        "max_attempts": 5,
        "create_time": "2026-11-30T08:15:00.000Z",
        "due_time": "2026-11-30T08:15:00.000Z",
        "lease_time": "2026-11-30T08:15:01.000Z",
        "finish_time": "2026-11-30T08:15:01.250Z",
        "payload": {"content_type": "application/json", "json": {"name": "Ada"}},
        "result": {"content_type": "text/plain; charset=utf-8", "text": "grüße\x1b"},
        "last_failure": {"type": "ValueError", "message": "no\nsecond line"},
        "labels": {"a": "1", "b": "2"},
    }
    assert {r.name for r in coordinator.requests} == {name, f"jobs/{JOB_ID}"}


@pytest.mark.parametrize(
    ("data", "content_type", "shown", "told"),
    [
        (b"[1, 2]", "application/vnd.x+json", "[1, 2]", {"json": [1, 2]}),
        (b"{broken", "application/json", "7 bytes of application/json", {"base64": "e2Jyb2tlbg=="}),
        (b"\xff\x00", "image/png", "2 bytes of image/png", {"base64": "/wA="}),
        (b"0", "application/json", "0", {"json": 0}),
        (b'"\\ud800"', "application/json", '"\\ud800"', {"json": "\ud800"}),
    ],
)
def test_results_of_every_kind_are_shown(
    data: bytes, content_type: str, shown: str, told: dict[str, Any], rota: Any, coordinator: Coordinator
) -> None:
    coordinator.jobs = [job(state=SUCCEEDED, result={"data": data, "content_type": content_type})]
    assert rota("job", "get", JOB_ID).out.splitlines()[-1].split(None, 1) == ["result", shown]
    assert rota("job", "get", JOB_ID, "--json").document["result"] == {"content_type": content_type} | told


def test_list_pages_through_to_its_limit_and_says_how_to_go_on(rota: Any, coordinator: Coordinator) -> None:
    coordinator.jobs = [job(n) for n in range(30)]
    ran = rota("job", "list", "--limit", 20, "--json", "--queue", "q", "--state", "retry_wait", "--label", "a=1")
    assert [j["name"] for j in ran.documents] == [j.name for j in coordinator.jobs[:20]]
    assert ran.err == "more: --page-token 20\n"
    request = sent(coordinator)
    assert (request.queue, request.state, dict(request.labels)) == ("q", jobs_pb2.JOB_STATE_RETRY_WAIT, {"a": "1"})
    rest = rota("job", "list", "--page-token", 20)
    assert len(rest.out.splitlines()) == 11
    assert rest.err == ""


def test_list_all_reads_every_page(rota: Any, coordinator: Coordinator) -> None:
    coordinator.jobs = [job(n) for n in range(1500)]
    ran = rota("job", "list", "--all", "--json")
    assert (len(ran.documents), len(coordinator.requests), ran.err) == (1500, 2, "")


def test_a_table_in_a_pipe_is_neither_cut_nor_padded(rota: Any, coordinator: Coordinator) -> None:
    coordinator.jobs = [job(1, type="a" * 128, state=LEASED, attempt=3)]
    head, row = rota("job", "list").out.splitlines()
    assert head.split() == ["JOB", "TYPE", "QUEUE", "STATE", "TRIES", "CREATED"]
    assert row.split() == [coordinator.jobs[0].name, "a" * 128, "default", "LEASED", "3", "2026-11-30T08:15:00Z"]
    assert row == row.rstrip()


def test_the_filter_knows_every_state() -> None:
    assert {s.name for s in job_command.State} == {s.name for s in JobState if s}
    assert {m.name for m in job_command.Mode} == {m.name for m in CancelMode if m}


def test_cancel_sends_mode_and_reason(rota: Any, coordinator: Coordinator) -> None:
    coordinator.jobs = [job(state=jobs_pb2.JOB_STATE_CANCELLED, reason="no need")]
    ran = rota("job", "cancel", JOB_ID, "--mode", "fence_out", "--reason", "no need", "--json")
    assert (ran.code, ran.document["state"], ran.document["reason"]) == (Exit.OK, "CANCELLED", "no need")
    request = sent(coordinator)
    assert (request.name, request.mode, request.reason) == (
        f"jobs/{JOB_ID}",
        jobs_pb2.CANCEL_MODE_FENCE_OUT,
        "no need",
    )
    rota("job", "cancel", JOB_ID)
    assert coordinator.requests[1].mode == jobs_pb2.CANCEL_MODE_COOPERATIVE


def test_attempts_show_how_each_ended(rota: Any, coordinator: Coordinator) -> None:
    coordinator.attempts = [
        jobs_pb2.Attempt(
            name=f"jobs/{JOB_ID}/attempts/1",
            number=1,
            fence=4294967297,
            worker="w1",
            lease_time=in_(0),
            end_time=in_(2),
            outcome=jobs_pb2.ATTEMPT_OUTCOME_FAILED,
            failure={"type": "ValueError", "message": "no"},
        ),
        jobs_pb2.Attempt(number=2, fence=4294967298, worker="w2", lease_time=in_(3)),
    ]
    _, first, second = rota("job", "attempts", JOB_ID).out.splitlines()
    assert first.split(None, 6) == (
        ["1", "FAILED", "w1", "2026-11-30T08:15:00.000Z", "2.0", "s", "4294967297  ValueError: no"]
    )
    assert second.split() == ["2", "RUNNING", "w2", "2026-11-30T08:15:03.000Z", "4294967298"]
    told = rota("job", "attempts", JOB_ID, "--json").documents
    assert [(a["number"], a["outcome"], a["fence"]) for a in told] == [
        (1, "FAILED", 4294967297),
        (2, "RUNNING", 4294967298),
    ]
    assert told[0]["failure"] == {"type": "ValueError", "message": "no"}


def life(end: "jobs_pb2.JobState.ValueType") -> list[jobs_pb2.Job]:
    failed = {"type": "ValueError", "message": "no"}
    return [
        job(),
        job(state=LEASED, attempt=1, lease_time=in_(1)),
        job(state=LEASED, attempt=1, lease_time=in_(1)),
        job(state=jobs_pb2.JOB_STATE_RETRY_WAIT, attempt=1, last_failure=failed, due_time=in_(9)),
        job(state=LEASED, attempt=2, lease_time=in_(10)),
        job(state=end, attempt=2, finish_time=in_(11), result={"data": b"done", "content_type": "text/plain"}),
    ]


@pytest.mark.parametrize(("end", "code"), [(SUCCEEDED, Exit.OK), (DEAD, Exit.REFUSED)])
def test_watch_shows_each_change_and_exits_by_the_end(
    end: Any, code: Exit, rota: Any, coordinator: Coordinator
) -> None:
    coordinator.jobs = life(end)
    ran = rota("job", "watch", JOB_ID)
    assert ran.code == code
    assert [line.split(None, 2) for line in ran.out.splitlines()] == [
        ["2026-11-30T08:15:00.000Z", "READY"],
        ["2026-11-30T08:15:01.000Z", "LEASED", "attempt 1"],
        ["2026-11-30T08:15:09.000Z", "RETRY_WAIT", "attempt 1 failed: ValueError: no"],
        ["2026-11-30T08:15:10.000Z", "LEASED", "attempt 2"],
        ["2026-11-30T08:15:11.000Z", jobs_pb2.JobState.Name(end).removeprefix("JOB_STATE_"), "done"],
    ]
    coordinator.jobs = life(end)
    told = rota("job", "watch", JOB_ID, "--json").documents
    assert [j["state"] for j in told][:4] == ["READY", "LEASED", "RETRY_WAIT", "LEASED"]


@pytest.mark.parametrize("command", [["watch", JOB_ID], ["create", "greet", "--wait"]])
def test_patience_ends(command: list[str], rota: Any, coordinator: Coordinator) -> None:
    ran = rota("job", *command, "--timeout", "50ms")
    assert ran.code == Exit.REFUSED
    assert "did not end within 0.05 s\nhint: `rota job watch jobs/" in ran.err
    told = rota("--json", "job", *command, "--timeout", "50ms")
    assert json.loads(told.err)["error"]["reason"] == "NOT_FINISHED"


@pytest.mark.parametrize(("end", "code"), [(SUCCEEDED, Exit.OK), (DEAD, Exit.REFUSED)])
def test_create_and_wait_exits_by_the_end(end: Any, code: Exit, rota: Any, coordinator: Coordinator) -> None:
    coordinator.jobs = [job(), job(state=end)]
    ran = rota("job", "create", "greet", "--wait", "--json")
    assert (ran.code, ran.document["state"]) == (code, jobs_pb2.JobState.Name(end).removeprefix("JOB_STATE_"))


def test_the_key_is_sent_from_flag_environment_or_the_dev_folder(
    rota: Any, coordinator: Coordinator, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rota("job", "list")
    assert "authorization" not in coordinator.metadata
    (home / "dev").mkdir(parents=True)
    (home / "dev" / "api-key").write_text("rota_dev_secret\n")
    rota("job", "list")
    assert coordinator.metadata["authorization"] == "Bearer rota_dev_secret"
    monkeypatch.setenv("ROTA_API_KEY", "rota_env_secret")
    rota("job", "list")
    assert coordinator.metadata["authorization"] == "Bearer rota_env_secret"
    rota("--api-key", "rota_flag_secret", "job", "list")
    assert coordinator.metadata["authorization"] == "Bearer rota_flag_secret"
