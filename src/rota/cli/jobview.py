"""Jobs and attempts as commands show them: JSON objects for scripts, cells and fields for people.

Payloads and results are {"content_type": …} with one of "json" (parsed), "text" or "base64".
"""

import base64
import json
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rota.cli.output import instant, one_line, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota_sdk import Attempt, Failure, Job, Payload

_SHOWN_CHARS = 2_000


def job_json(job: "Job") -> dict[str, Any]:
    """All that is known of a job; what is unset is left out."""
    retry, timeouts = job.retry, job.timeouts
    return _without_unset(
        {
            "name": job.name,
            "type": job.type,
            "queue": job.queue,
            "state": job.state.name,
            "priority": job.priority,
            "attempt": job.attempt,
            "attempts_counted": job.attempts_counted,
            "max_attempts": retry.max_attempts,
            "create_time": instant(job.create_time),
            "due_time": instant(job.due_time),
            "lease_time": instant(job.lease_time),
            "finish_time": instant(job.finish_time),
            "payload": payload_json(job.payload),
            "result": payload_json(job.result),
            "last_failure": failure_json(job.last_failure),
            "headers": dict(job.headers),
            "labels": dict(job.labels),
            "session": job.session,
            "schedule": job.schedule,
            "nominal_time": instant(job.nominal_time),
            "effect_key": job.effect_key,
            "concurrency_key": job.concurrency_key,
            "generation": job.generation or None,
            "run_timeout_s": timeouts.run,
            "start_by_s": timeouts.start_by,
            "total_timeout_s": timeouts.total,
            "reason": job.reason,
            "completed_despite_cancel": job.completed_despite_cancel or None,
            "traceparent": job.traceparent,
            "existing": job.existing or None,
        }
    )


def attempt_json(attempt: "Attempt") -> dict[str, Any]:
    """All that is known of an attempt."""
    return _without_unset(
        {
            "name": attempt.name,
            "number": attempt.number,
            "outcome": outcome(attempt),
            "fence": attempt.fence,
            "worker": attempt.worker,
            "session": attempt.session,
            "lease_time": instant(attempt.lease_time),
            "end_time": instant(attempt.end_time),
            "failure": failure_json(attempt.failure),
            "effect_state": attempt.effect_state.name if attempt.effect_state else None,
            "effect_receipts": [
                {"effect_key": r.effect_key, "reference": r.reference} for r in attempt.effect_receipts
            ],
        }
    )


def payload_json(payload: "Payload | None") -> dict[str, Any] | None:
    """A payload for scripts; None when there is none."""
    if payload is None or (not payload.data and not payload.content_type):
        return None
    shown: dict[str, Any] = {"content_type": payload.content_type}
    try:
        if _is_json(payload):
            return shown | {"json": payload.json()}
        if payload.content_type.startswith("text/"):
            return shown | {"text": payload.text()}
    except (ValueError, RecursionError):
        pass
    return shown | {"base64": base64.b64encode(payload.data).decode()}


def payload_text(payload: "Payload | None") -> str:
    """A payload for people, cut."""
    if payload is None or (not payload.data and not payload.content_type):
        return ""
    try:
        text = json.dumps(payload.json(), ensure_ascii=False) if _is_json(payload) else payload.text()
    except (ValueError, RecursionError):
        text = f"{len(payload.data)} bytes of {payload.content_type or 'an unnamed type'}"
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}… (whole with --json)"


def failure_json(failure: "Failure | None") -> dict[str, str] | None:
    """Type, message and stack."""
    if failure is None:
        return None
    return _without_unset({"type": failure.type, "message": failure.message, "stack": failure.stack})


def failure_text(failure: "Failure | None") -> str:
    """`Type: first line of the message`."""
    if failure is None:
        return ""
    return f"{failure.type}: {one_line(failure.message)}" if failure.message else failure.type


def job_fields(job: "Job") -> Iterator[tuple[str, str]]:
    """A job in full, for people."""
    yield "job", job.name
    yield "type", job.type
    yield "queue", f"{job.queue}, priority {job.priority}"
    yield "state", job.state.name
    yield "note", _note(job)
    yield "attempts", f"{job.attempt} of at most {job.retry.max_attempts}" if job.attempt else ""
    yield "created", instant(job.create_time)
    yield "due", instant(job.due_time)
    yield "leased", instant(job.lease_time)
    yield "finished", instant(job.finish_time)
    yield "took", _between(job.lease_time, job.finish_time)
    yield "payload", payload_text(job.payload)
    yield "result", payload_text(job.result)
    yield "last failure", failure_text(job.last_failure)
    yield "reason", job.reason
    yield "labels", pairs_text(job.labels)
    yield "headers", pairs_text(job.headers)
    yield "schedule", job.schedule
    yield "nominal", instant(job.nominal_time)
    yield "session", job.session
    yield "effect key", job.effect_key
    yield "trace", job.traceparent


JOB_COLUMNS = ("JOB", "TYPE", "QUEUE", "STATE", "TRIES", "CREATED")


def job_row(job: "Job") -> tuple[str, ...]:
    """The cells of JOB_COLUMNS."""
    created = instant(job.create_time, timespec="seconds")
    return job.name, job.type, job.queue, job.state.name, str(job.attempt), created


ATTEMPT_COLUMNS = ("TRY", "OUTCOME", "WORKER", "LEASED", "TOOK", "FENCE", "EFFECT", "FAILURE")


def attempt_table(attempts: "Sequence[Attempt]") -> tuple[list[str], list[list[str]]]:
    """Headings and cells; what is known of effects only where something is."""
    rows = [_attempt_row(attempt) for attempt in attempts]
    shown = [i for i, name in enumerate(ATTEMPT_COLUMNS) if name != "EFFECT" or any(row[i] for row in rows)]
    return [ATTEMPT_COLUMNS[i] for i in shown], [[row[i] for i in shown] for row in rows]


def _attempt_row(attempt: "Attempt") -> tuple[str, ...]:
    return (
        str(attempt.number),
        outcome(attempt),
        attempt.worker,
        instant(attempt.lease_time),
        _between(attempt.lease_time, attempt.end_time),
        str(attempt.fence),
        _effect(attempt),
        failure_text(attempt.failure),
    )


def outcome(attempt: "Attempt") -> str:
    """How it ended; RUNNING while it has not."""
    return attempt.outcome.name if attempt.outcome else "RUNNING"


def _effect(attempt: "Attempt") -> str:
    """What is known of its effect, and the target's own names for it."""
    state = attempt.effect_state.name if attempt.effect_state else ""
    return " ".join([state, *(receipt.reference for receipt in attempt.effect_receipts)]).strip()


def change_line(job: "Job") -> str:
    """One line about where a job is now, with the instant that belongs to the state."""
    state = job.state.name
    if job.state.terminal:
        about = payload_text(job.result) or job.reason or failure_text(job.last_failure)
        return _line(job.finish_time, state, one_line(about))
    if state == "RETRY_WAIT" and job.due_time is None:
        return _line(None, state, job.reason)
    if state == "RETRY_WAIT":
        return _line(job.due_time, state, f"attempt {job.attempt} failed: {failure_text(job.last_failure)}")
    if state in ("LEASED", "CANCELLING"):
        return _line(job.lease_time, state, f"attempt {job.attempt}")
    return _line(job.due_time, state, "")


def _line(at: datetime | None, state: str, about: str) -> str:
    return f"{instant(at):24}  {state:10}  {about}".rstrip()


def _is_json(payload: "Payload") -> bool:
    media_type = payload.content_type.partition(";")[0].strip()
    return media_type == "application/json" or media_type.endswith("+json")


def _note(job: "Job") -> str:
    return "succeeded although cancellation was under way" if job.completed_despite_cancel else ""


def _between(start: datetime | None, end: datetime | None) -> str:
    return span((end - start).total_seconds()) if start and end and end >= start else ""


def pairs_text(texts: Any) -> str:
    """A map for people."""
    return " ".join(f"{key}={value}" for key, value in sorted(texts.items()))


def _without_unset(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None and value != "" and value not in ({}, [])}
