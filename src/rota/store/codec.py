"""Values of the domain as columns, and back. JSON holds only what differs from the defaults."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from rota.domain.ids import ScheduleUid
from rota.domain.model import EffectReceipt, Failure, JobOrigin, RetryPolicy, Timeouts

_DEFAULT_RETRY = RetryPolicy()
_DEFAULT_TIMEOUTS = Timeouts()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def options_json(retry: RetryPolicy, timeouts: Timeouts) -> str | None:
    """Retry policy and time limits beyond the columns that hot statements read."""
    if retry is _DEFAULT_RETRY and timeouts is _DEFAULT_TIMEOUTS:
        return None
    found: dict[str, object] = {}
    if retry.initial_backoff_s != _DEFAULT_RETRY.initial_backoff_s:
        found["initial_backoff_s"] = retry.initial_backoff_s
    if retry.max_backoff_s != _DEFAULT_RETRY.max_backoff_s:
        found["max_backoff_s"] = retry.max_backoff_s
    if retry.multiplier != _DEFAULT_RETRY.multiplier:
        found["multiplier"] = retry.multiplier
    if retry.non_retryable_types:
        found["non_retryable_types"] = list(retry.non_retryable_types)
    if timeouts.start_by_s is not None:
        found["start_by_s"] = timeouts.start_by_s
    if timeouts.total_s is not None:
        found["total_s"] = timeouts.total_s
    return json.dumps(found) if found else None


def retry_policy(max_attempts: int, options: Mapping[str, Any] | None) -> RetryPolicy:
    if not options and max_attempts == _DEFAULT_RETRY.max_attempts:
        return _DEFAULT_RETRY
    found = options or {}
    return RetryPolicy(
        max_attempts=max_attempts,
        initial_backoff_s=found.get("initial_backoff_s", _DEFAULT_RETRY.initial_backoff_s),
        max_backoff_s=found.get("max_backoff_s", _DEFAULT_RETRY.max_backoff_s),
        multiplier=found.get("multiplier", _DEFAULT_RETRY.multiplier),
        non_retryable_types=tuple(found.get("non_retryable_types", ())),
    )


def timeouts(run_timeout_ms: int, options: Mapping[str, Any] | None) -> Timeouts:
    if not options and run_timeout_ms == _DEFAULT_TIMEOUTS.run_s * 1000:
        return _DEFAULT_TIMEOUTS
    found = options or {}
    return Timeouts(found.get("start_by_s"), run_timeout_ms / 1000, found.get("total_s"))


def map_json(values: Mapping[str, str]) -> str | None:
    return json.dumps(dict(values)) if values else None


def failure_json(failure: Failure | None) -> str | None:
    if failure is None:
        return None
    return json.dumps({"type": failure.type, "message": failure.message, "stack": failure.stack})


def failure(found: Mapping[str, str] | None) -> Failure | None:
    return None if found is None else Failure(found["type"], found.get("message", ""), found.get("stack", ""))


def receipts_json(receipts: Sequence[EffectReceipt]) -> str | None:
    if not receipts:
        return None
    return json.dumps([{"effect_key": r.effect_key, "reference": r.reference} for r in receipts])


def receipts(found: Sequence[Mapping[str, str]] | None) -> tuple[EffectReceipt, ...]:
    return tuple(EffectReceipt(r["effect_key"], r.get("reference", "")) for r in found or ())


def origin(uid: str | None, id: str | None, nominal_at: datetime | None, generation: int | None) -> JobOrigin | None:
    if uid is None or nominal_at is None:
        return None
    return JobOrigin(ScheduleUid(uid), id or "", nominal_at, generation or 0)


def micros(instant: datetime) -> int:
    """Microseconds since 1970, exact."""
    return (instant - _EPOCH) // timedelta(microseconds=1)


def instant(us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=us)
