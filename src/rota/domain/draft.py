"""What a job must be to be taken: the same rules for every door it comes through."""

from datetime import datetime, timedelta

from rota.domain import limits
from rota.domain.model import JobSpec, RetryPolicy, Timeouts
from rota.domain.text import QUEUE, TYPE, Problems, map_bytes, too_large

QUEUE_DEFAULT = "default"

_DEFAULT_RETRY = RetryPolicy()
_DEFAULT_TIMEOUTS = Timeouts()


def check_job(problems: Problems, at: str, spec: JobSpec, now: datetime) -> None:
    """Checks a wish for a job. `at` is the path of its message, such as `job` or `requests[3].job`.

    A payload or a block of headers over its limit is raised at once, since that has a reason of its own; all else is
    collected.
    """
    if not TYPE.fullmatch(spec.type):
        problems.pattern(
            f"{at}.type",
            spec.type,
            TYPE,
            "1 to 128 letters, digits or ._:/- and begin with a letter or digit",
        )
    if not QUEUE.fullmatch(spec.queue):
        problems.pattern(
            f"{at}.queue",
            spec.queue,
            QUEUE,
            "1 to 64 letters, digits or ._- and begin with a letter or digit",
        )
    if not 0 <= spec.priority <= limits.PRIORITY_MAX:
        problems.integer(f"{at}.priority", spec.priority, 0, limits.PRIORITY_MAX)
    size = len(spec.payload.data)
    if size > limits.PAYLOAD_BYTES_MAX:
        raise too_large(f"{at}.payload.data", "a payload", size, limits.PAYLOAD_BYTES_MAX)
    if spec.payload.content_type:
        problems.text(f"{at}.payload.content_type", spec.payload.content_type, limits.CONTENT_TYPE_BYTES_MAX)
    if spec.headers:
        headers = dict(spec.headers)
        size = map_bytes(headers)
        if size > limits.HEADERS_BYTES_MAX:
            raise too_large(f"{at}.headers", "a block of headers", size, limits.HEADERS_BYTES_MAX)
        problems.text_map(f"{at}.headers", headers, limits.HEADERS_MAX, limits.HEADERS_BYTES_MAX)
        for key in headers:
            if key.lower().startswith("rota-"):
                problems.add(f"{at}.headers", f"must not use the reserved prefix rota-, found {key[:40]!r}")
    if spec.labels:
        problems.text_map(f"{at}.labels", dict(spec.labels), limits.LABELS_MAX, limits.LABELS_BYTES_MAX)
    if spec.run_time is not None:
        check_run_time(problems, f"{at}.run_time", spec.run_time, now)
    if spec.retry is not _DEFAULT_RETRY:
        _check_retry(problems, f"{at}.retry_policy", spec.retry)
    if spec.timeouts is not _DEFAULT_TIMEOUTS:
        _check_timeouts(problems, f"{at}.timeouts", spec.timeouts)
    if spec.effect_key:
        problems.text(f"{at}.effect_key", spec.effect_key, limits.EFFECT_KEY_BYTES_MAX)
    if spec.concurrency_key:
        problems.text(f"{at}.concurrency_key", spec.concurrency_key, limits.CONCURRENCY_KEY_BYTES_MAX)


def check_run_time(problems: Problems, field: str, run_time: datetime, now: datetime) -> None:
    if run_time > now + timedelta(seconds=limits.HORIZON_S):
        problems.add(field, f"must be within ten years, found {run_time.isoformat()}")


def check_dedupe(problems: Problems, at: str, spec: JobSpec) -> None:
    """Checks the dedupe key of a wish, if it has one. `at` is the path of the dedupe message."""
    if spec.dedupe is None:
        return
    if not spec.dedupe.key:
        problems.add(f"{at}.key", "must not be empty; leave dedupe out to create the job in any case")
    problems.text(f"{at}.key", spec.dedupe.key, limits.DEDUPE_KEY_BYTES_MAX)
    if spec.dedupe.window_s is not None:
        problems.span(f"{at}.window", spec.dedupe.window_s, 1.0, limits.DEDUPE_WINDOW_MAX_S)


def _check_retry(problems: Problems, at: str, retry: RetryPolicy) -> None:
    problems.integer(f"{at}.max_attempts", retry.max_attempts, 1, limits.MAX_ATTEMPTS_MAX)
    problems.span(f"{at}.initial_backoff", retry.initial_backoff_s, 0.0, limits.BACKOFF_MAX_S)
    problems.span(f"{at}.max_backoff", retry.max_backoff_s, 0.0, limits.BACKOFF_MAX_S)
    # NaN compares false with everything, so it is refused here too.
    if not 1.0 <= retry.multiplier <= limits.BACKOFF_MULTIPLIER_MAX:
        problems.add(
            f"{at}.multiplier",
            f"must be from 1 to {limits.BACKOFF_MULTIPLIER_MAX:g}, found {retry.multiplier:g}",
        )
    if len(retry.non_retryable_types) > limits.NON_RETRYABLE_TYPES_MAX:
        problems.add(f"{at}.non_retryable_types", f"must have at most {limits.NON_RETRYABLE_TYPES_MAX} entries")
    for name in retry.non_retryable_types[: limits.NON_RETRYABLE_TYPES_MAX]:
        problems.text(f"{at}.non_retryable_types", name, limits.FAILURE_TYPE_BYTES_MAX)


def _check_timeouts(problems: Problems, at: str, timeouts: Timeouts) -> None:
    problems.span(f"{at}.run", timeouts.run_s, 1.0, limits.RUN_TIMEOUT_MAX_S)
    if timeouts.start_by_s is not None:
        problems.span(f"{at}.start_by", timeouts.start_by_s, 1.0, limits.START_BY_MAX_S)
    if timeouts.total_s is not None:
        problems.span(f"{at}.total", timeouts.total_s, 1.0, limits.TOTAL_TIMEOUT_MAX_S)
