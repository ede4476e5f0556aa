"""Texts, payloads, enums, and values <-> protobuf."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from google.protobuf.duration_pb2 import Duration
from hypothesis import given, settings
from hypothesis import strategies as st
from rota_sdk import (
    Dedupe,
    DedupeConflict,
    DedupeScope,
    JobState,
    NewJob,
    Payload,
    RetryPolicy,
    Timeouts,
    codec,
    text,
)
from rota_sdk.gen.rota.v1 import common_pb2, jobs_pb2


@pytest.mark.parametrize(
    ("given", "limit", "expected"),
    [
        ("plain", 100, "plain"),
        ("a\0b\0", 100, "ab"),
        ("x\ud800y\udfff", 100, "x�y�"),
        ("abcdef", 6, "abcdef"),
        ("abcdefg", 6, "abcdef"),
        ("äöü", 5, "äö"),
        ("😀😀", 7, "😀"),
        ("a" * 300, 256, "a" * 245 + "… (cut)"),
        ("", 0, ""),
    ],
)
def test_texts_are_cleaned_and_cut(given: str, limit: int, expected: str) -> None:
    cleaned = text.clean(given, limit)
    assert cleaned == expected or (limit == 256 and cleaned.endswith("… (cut)"))
    assert len(cleaned.encode()) <= limit


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=()), max_size=400), st.integers(0, 300))
def test_any_text_becomes_valid_and_short_enough(given: str, limit: int) -> None:
    cleaned = text.clean(given, limit)
    assert len(cleaned.encode()) <= limit and "\0" not in cleaned
    if all(0 < ord(c) < 0xD800 for c in given) and len(given.encode()) <= limit:
        assert cleaned == given


@pytest.mark.parametrize(
    ("value", "data", "media"),
    [
        (b"\0\xff", b"\0\xff", "application/octet-stream"),
        (bytearray(b"ab"), b"ab", "application/octet-stream"),
        ("ä", "ä".encode(), "text/plain; charset=utf-8"),
        (None, b"", ""),
        ({"k": "ä", "n": 2**53 + 1, "": -0.0}, '{"k":"ä","n":9007199254740993,"":-0.0}'.encode(), "application/json"),
        ([1, None, True], b"[1,null,true]", "application/json"),
        (0, b"0", "application/json"),
        (Payload(b"x", "a/b"), b"x", "a/b"),
    ],
)
def test_payloads_are_made_of_any_value(value: object, data: bytes, media: str) -> None:
    assert Payload.of(value) == Payload(data, media)


@pytest.mark.parametrize("value", [object(), {1, 2}, float("inf"), "\udc00", {"k": "\udc00"}])
def test_values_without_a_form_are_refused(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        Payload.of(value)


def test_payloads_read_back() -> None:
    assert Payload(b'{"a":1}').json() == {"a": 1}
    assert Payload(b"").json() is None
    assert Payload("ä".encode()).text() == "ä"


def test_numbers_of_a_newer_server_read_as_unspecified() -> None:
    assert JobState(99) is JobState.UNSPECIFIED
    with pytest.raises(ValueError):
        JobState("READY")


def test_every_state_has_its_name_and_number_on_the_wire() -> None:
    for state in JobState:
        assert jobs_pb2.JobState.Value(f"JOB_STATE_{state.name}") == state
    assert len(JobState) == len(jobs_pb2.JobState.items())
    assert {state for state in JobState if state.terminal} == {
        JobState.SUCCEEDED,
        JobState.CANCELLED,
        JobState.EXPIRED,
        JobState.DEAD,
    }


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        (0, Duration()),
        (1.5, Duration(seconds=1, nanos=500_000_000)),
        (timedelta(days=2, microseconds=1), Duration(seconds=172_800, nanos=1000)),
        (-1.25, Duration(seconds=-1, nanos=-250_000_000)),
        (0.1, Duration(nanos=100_000_000)),
    ],
)
def test_spans_become_durations(span: float | timedelta, expected: Duration) -> None:
    assert codec.duration(span) == expected


def test_a_new_job_travels_whole() -> None:
    run_time = datetime(2027, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2)))
    request = codec.create_request(
        NewJob(
            "greet",
            {"name": "Ada"},
            queue="mail",
            priority=0,
            run_time=run_time,
            retry=RetryPolicy(max_attempts=3, initial_backoff=0, multiplier=1.5, non_retryable_types=("Fatal",)),
            timeouts=Timeouts(start_by=5, run=timedelta(minutes=1)),
            headers={"h": "1"},
            labels={"l": "2"},
            effect_key="e",
            concurrency_key="c",
            dedupe=Dedupe("k", DedupeScope.TENANT, timedelta(hours=1), DedupeConflict.FAIL),
        ),
        "r1",
    )
    job = request.job
    assert (job.type, job.queue, job.payload.data) == ("greet", "mail", b'{"name":"Ada"}')
    # Zero means something.
    assert job.HasField("priority") and job.priority == 0
    assert job.retry_policy.HasField("initial_backoff") and not job.retry_policy.HasField("max_backoff")
    assert job.run_time.ToDatetime(tzinfo=UTC) == run_time
    assert (job.retry_policy.max_attempts, list(job.retry_policy.non_retryable_types)) == (3, ["Fatal"])
    assert job.timeouts.run.seconds == 60 and not job.timeouts.HasField("total")
    assert (dict(job.headers), dict(job.labels), job.effect_key, job.concurrency_key) == (
        {"h": "1"},
        {"l": "2"},
        "e",
        "c",
    )
    dedupe = request.dedupe
    assert (dedupe.key, dedupe.scope, dedupe.window.seconds, dedupe.on_conflict) == (
        "k",
        common_pb2.DEDUPE_SCOPE_TENANT,
        3600,
        common_pb2.DEDUPE_CONFLICT_FAIL,
    )
    assert request.request_id == "r1" and not request.HasField("delay")


def test_a_plain_new_job_leaves_everything_to_the_server() -> None:
    request = codec.create_request(NewJob("greet"))
    assert request == jobs_pb2.CreateJobRequest(job=jobs_pb2.Job(type="greet"))


def test_a_job_reads_back() -> None:
    message = jobs_pb2.Job(name="jobs/7", type="t", queue="q", priority=9, state=jobs_pb2.JOB_STATE_DEAD, attempt=5)
    message.retry_policy.max_attempts = 5
    message.retry_policy.max_backoff.seconds = 60
    message.timeouts.run.nanos = 500_000_000
    message.last_failure.type = "Boom"
    message.result.data = b"1"
    message.finish_time.seconds = 1
    job = codec.job(message, existing=True)
    assert (job.name, job.id, job.state, job.priority, job.attempt) == ("jobs/7", "7", JobState.DEAD, 9, 5)
    assert job.retry == RetryPolicy(max_attempts=5, max_backoff=60.0) and job.timeouts == Timeouts(run=0.5)
    assert job.last_failure is not None and job.last_failure.type == "Boom"
    assert job.result is not None and job.result.json() == 1
    assert job.finish_time == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC) and job.due_time is None
    assert job.existing and codec.job(jobs_pb2.Job()).result is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"run_time": datetime(2027, 1, 1)}, "aware"),
        ({"run_time": datetime(2027, 1, 1, tzinfo=UTC), "delay": 5}, "both"),
    ],
)
def test_contradictions_are_refused_at_once(fields: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        NewJob("greet", **fields)  # type: ignore[arg-type]
