"""What a job must be to be taken: each field wrong once, and each limit at, below and above it."""

from datetime import timedelta

import pytest

from rota.domain import limits
from rota.domain.draft import check_dedupe, check_job
from rota.domain.errors import InvalidArgument
from rota.domain.model import Dedupe, DedupeConflict, DedupeScope, JobSpec, Payload, RetryPolicy, Timeouts
from rota.domain.text import Problems

from .build import NOW, job_spec, later

SURROGATE = "\udfff"
NAN = float("nan")


def fields(spec: JobSpec) -> list[str]:
    """The paths of what is wrong."""
    problems = Problems()
    check_job(problems, "requests[3].job", spec, NOW)
    try:
        problems.raise_any()
    except InvalidArgument as refused:
        assert refused.reason == "VALIDATION_FAILED"
        refused.message.encode()
        return [v.field.removeprefix("requests[3].job.") for v in refused.violations]
    return []


def dedupe(**changes: object) -> JobSpec:
    wish: dict[str, object] = {
        "key": "k",
        "scope": DedupeScope.TYPE,
        "window_s": None,
        "on_conflict": DedupeConflict.FAIL,
    }
    return job_spec(dedupe=Dedupe(**(wish | changes)))  # type: ignore[arg-type]


def test_a_sound_job_with_everything_is_taken() -> None:
    spec = job_spec(
        headers={"x-a": "ü"},
        labels={"team": "mail"},
        run_time=later(3_600),
        retry=RetryPolicy(7, 0.5, 60, 3, ("ValueError",)),
        timeouts=Timeouts(60, 600, 3_600),
        effect_key="order/42",
        concurrency_key="customer/7",
    )
    assert fields(spec) == []


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"type": ""}, "type"),
        ({"type": "a b"}, "type"),
        ({"type": "a" * 129}, "type"),
        ({"type": "a\0"}, "type"),
        ({"type": SURROGATE}, "type"),
        ({"queue": ""}, "queue"),
        ({"queue": "a/b"}, "queue"),
        ({"queue": "q" * 65}, "queue"),
        ({"priority": -1}, "priority"),
        ({"priority": 10}, "priority"),
        ({"payload": Payload(b"", "text/\0")}, "payload.content_type"),
        ({"payload": Payload(b"", SURROGATE)}, "payload.content_type"),
        ({"payload": Payload(b"", "t" * 129)}, "payload.content_type"),
        ({"headers": {str(n): "" for n in range(33)}}, "headers"),
        ({"headers": {"": "a"}}, "headers"),
        ({"headers": {"a": "\0"}}, "headers['a']"),
        ({"headers": {"a\0": ""}}, "headers['a\\x00'] (key)"),
        ({"headers": {"Rota-Fence": "1"}}, "headers"),
        ({"headers": {"rota-": "1"}}, "headers"),
        ({"labels": {str(n): "" for n in range(33)}}, "labels"),
        ({"labels": {"a": SURROGATE}}, "labels['a']"),
        ({"labels": {"a": "b" * limits.LABELS_BYTES_MAX}}, "labels"),
        ({"labels": {"k" * 129: ""}}, f"labels['{'k' * 40}'] (key)"),
        ({"run_time": NOW + timedelta(seconds=limits.HORIZON_S, microseconds=1)}, "run_time"),
        ({"retry": RetryPolicy(max_attempts=0)}, "retry_policy.max_attempts"),
        ({"retry": RetryPolicy(max_attempts=1_001)}, "retry_policy.max_attempts"),
        ({"retry": RetryPolicy(initial_backoff_s=-0.1)}, "retry_policy.initial_backoff"),
        ({"retry": RetryPolicy(initial_backoff_s=limits.BACKOFF_MAX_S + 1)}, "retry_policy.initial_backoff"),
        ({"retry": RetryPolicy(initial_backoff_s=NAN)}, "retry_policy.initial_backoff"),
        ({"retry": RetryPolicy(max_backoff_s=-1)}, "retry_policy.max_backoff"),
        ({"retry": RetryPolicy(max_backoff_s=limits.BACKOFF_MAX_S + 1)}, "retry_policy.max_backoff"),
        ({"retry": RetryPolicy(multiplier=0.99)}, "retry_policy.multiplier"),
        ({"retry": RetryPolicy(multiplier=10.01)}, "retry_policy.multiplier"),
        ({"retry": RetryPolicy(multiplier=NAN)}, "retry_policy.multiplier"),
        ({"retry": RetryPolicy(multiplier=float("inf"))}, "retry_policy.multiplier"),
        ({"retry": RetryPolicy(non_retryable_types=("E",) * 33)}, "retry_policy.non_retryable_types"),
        ({"retry": RetryPolicy(non_retryable_types=("E\0",))}, "retry_policy.non_retryable_types"),
        ({"retry": RetryPolicy(non_retryable_types=("E" * 257,))}, "retry_policy.non_retryable_types"),
        ({"timeouts": Timeouts(run_s=0.999)}, "timeouts.run"),
        ({"timeouts": Timeouts(run_s=limits.RUN_TIMEOUT_MAX_S + 1)}, "timeouts.run"),
        ({"timeouts": Timeouts(run_s=NAN)}, "timeouts.run"),
        ({"timeouts": Timeouts(start_by_s=0.0)}, "timeouts.start_by"),
        ({"timeouts": Timeouts(start_by_s=limits.START_BY_MAX_S + 1)}, "timeouts.start_by"),
        ({"timeouts": Timeouts(total_s=-1.0)}, "timeouts.total"),
        ({"timeouts": Timeouts(total_s=limits.TOTAL_TIMEOUT_MAX_S + 1)}, "timeouts.total"),
        ({"effect_key": "\0"}, "effect_key"),
        ({"effect_key": "k" * 513}, "effect_key"),
        ({"concurrency_key": SURROGATE}, "concurrency_key"),
        ({"concurrency_key": "é" * 65}, "concurrency_key"),
    ],
)
def test_each_field_wrong_once(changes: dict[str, object], path: str) -> None:
    assert fields(job_spec(**changes)) == [path]


@pytest.mark.parametrize(
    "changes",
    [
        {"type": "a" * 128},
        {"queue": "q" * 64},
        {"priority": 0},
        {"priority": 9},
        {"payload": Payload(b"", "t" * 128)},
        {"payload": Payload(b"\0\xff\xfe")},
        {"headers": {f"{n:02d}": "" for n in range(32)}},
        {"headers": {"a": "b" * (limits.HEADERS_BYTES_MAX - 1)}},
        {"headers": {"x-rota-a": ""}},
        {"labels": {"a": "é" * ((limits.LABELS_BYTES_MAX - 2) // 2)}},
        {"labels": {"k" * 128: ""}},
        {"run_time": NOW + timedelta(seconds=limits.HORIZON_S)},
        {"run_time": NOW - timedelta(days=36_500)},
        {"retry": RetryPolicy(max_attempts=1, initial_backoff_s=0, max_backoff_s=0, multiplier=1)},
        {"retry": RetryPolicy(max_attempts=1_000, multiplier=10, max_backoff_s=limits.BACKOFF_MAX_S)},
        {"retry": RetryPolicy(non_retryable_types=("E" * 256,) * 32)},
        {"timeouts": Timeouts(1.0, 1.0, 1.0)},
        {"timeouts": Timeouts(limits.START_BY_MAX_S, limits.RUN_TIMEOUT_MAX_S, limits.TOTAL_TIMEOUT_MAX_S)},
        {"effect_key": "é" * 256},
        {"concurrency_key": "k" * 128},
    ],
)
def test_each_limit_itself_is_taken(changes: dict[str, object]) -> None:
    assert fields(job_spec(**changes)) == []


def test_everything_wrong_is_told_at_once() -> None:
    spec = job_spec(type="", queue="", priority=99, effect_key="\0", timeouts=Timeouts(run_s=0))
    assert fields(spec) == ["type", "queue", "priority", "timeouts.run", "effect_key"]


@pytest.mark.parametrize("over", [-1, 0])
def test_a_payload_up_to_its_limit(over: int) -> None:
    assert fields(job_spec(payload=Payload(bytes(limits.PAYLOAD_BYTES_MAX + over)))) == []


def test_a_payload_over_its_limit() -> None:
    with pytest.raises(InvalidArgument) as refused:
        fields(job_spec(payload=Payload(bytes(limits.PAYLOAD_BYTES_MAX + 1))))
    assert refused.value.reason == "PAYLOAD_TOO_LARGE"
    assert [v.field for v in refused.value.violations] == ["requests[3].job.payload.data"]
    assert refused.value.metadata == {"field": "requests[3].job.payload.data", "limit": "262144", "found": "262145"}


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({"a": "b" * limits.HEADERS_BYTES_MAX}, 8_193),
        ({"a": "é" * (limits.HEADERS_BYTES_MAX // 2)}, 8_193),
        ({str(n): "b" * 1_000 for n in range(9)}, 9_009),
    ],
    ids=["one", "in bytes", "in all"],
)
def test_headers_over_their_limit(headers: dict[str, str], found: int) -> None:
    with pytest.raises(InvalidArgument) as refused:
        fields(job_spec(headers=headers))
    assert refused.value.reason == "PAYLOAD_TOO_LARGE"
    assert [v.field for v in refused.value.violations] == ["requests[3].job.headers"]
    assert refused.value.metadata == {"field": "requests[3].job.headers", "limit": "8192", "found": str(found)}


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        (job_spec(), []),
        (dedupe(), []),
        (dedupe(key="k" * 256), []),
        (dedupe(window_s=1.0), []),
        (dedupe(window_s=limits.DEDUPE_WINDOW_MAX_S), []),
        (dedupe(key=""), ["dedupe.key"]),
        (dedupe(key="k" * 257), ["dedupe.key"]),
        (dedupe(key="é" * 129), ["dedupe.key"]),
        (dedupe(key="\0"), ["dedupe.key"]),
        (dedupe(key=SURROGATE), ["dedupe.key"]),
        (dedupe(window_s=0.5), ["dedupe.window"]),
        (dedupe(window_s=-5.0), ["dedupe.window"]),
        (dedupe(window_s=limits.DEDUPE_WINDOW_MAX_S + 1), ["dedupe.window"]),
        (dedupe(key="", window_s=NAN), ["dedupe.key", "dedupe.window"]),
    ],
)
def test_dedupe(spec: JobSpec, paths: list[str]) -> None:
    problems = Problems()
    check_dedupe(problems, "dedupe", spec)
    if not paths:
        problems.raise_any()
        return
    with pytest.raises(InvalidArgument) as refused:
        problems.raise_any()
    assert [v.field for v in refused.value.violations] == paths
