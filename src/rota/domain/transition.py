"""The state machine of a live job: what an ended attempt, a cancellation or a missed start makes of it.

    SCHEDULED ─ due ─▶ READY ─ claim ─▶ LEASED ─ success ─▶ SUCCEEDED
        ▲                ▲                 │ ├─ failure, attempts left ─▶ RETRY_WAIT ─ due ─▶ READY
        │                └─ released ──────┤ ├─ failure, none left ─────▶ DEAD
        ├── not claimed before start_by: EXPIRED      └─ cancel ─▶ CANCELLING ─ any end but success ─▶ CANCELLED
        └── not claimed before the total timeout: DEAD

The hot statements of the store (claim, success) carry the same guards in SQL, because a rule cannot be asked per row
there: that is the one deliberate duplication, and the store suite proves that both agree.
"""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.domain import limits, retry
from rota.domain.effect import HELD_UNTIL
from rota.domain.errors import FailedPrecondition
from rota.domain.model import CancelMode, DeadCause, EffectState, Failure, JobState, LiveJob, Outcome


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended, whoever says so: the worker, the reaper or an operator."""

    outcome: Outcome
    failure: Failure | None = None
    retryable: bool = True
    delay_s: float = 0.0
    effect_state: EffectState = EffectState.UNSPECIFIED


@dataclass(frozen=True, slots=True)
class Requeue:
    """Back to waiting, due at `due_at`; `counted` says whether the attempt used one up."""

    state: JobState
    due_at: datetime
    counted: bool


@dataclass(frozen=True, slots=True)
class Finish:
    """Terminal."""

    state: JobState
    counted: bool
    reason: str = ""
    cause: DeadCause | None = None
    """With DEAD."""


Decision = Requeue | Finish

PAST_TOTAL = "the next attempt would start after the total timeout"


def end_attempt(job: LiveJob, ending: Ending, now: datetime, rng: random.Random) -> Decision:
    """What the end of a leased job's attempt makes of the job. `now` is the database's clock."""
    if ending.outcome is Outcome.SUCCEEDED:
        return Finish(JobState.SUCCEEDED, counted=True)
    counted = _counts(job, ending.outcome)
    if job.state is JobState.CANCELLING:
        return Finish(JobState.CANCELLED, counted)
    if job.held_for is not None and ending.retryable:
        # An effect of it is in doubt: it waits for an operator, whatever is left of its attempts.
        return Requeue(JobState.RETRY_WAIT, job.deadline_at or HELD_UNTIL, counted)
    if counted:
        used = job.attempts_counted + 1
        if not ending.retryable or (ending.failure and ending.failure.type in job.retry.non_retryable_types):
            return Finish(JobState.DEAD, counted, "the failure is not retryable", DeadCause.NOT_RETRYABLE)
        if used >= job.retry.max_attempts:
            reason = f"all {job.retry.max_attempts} attempts are used up"
            return Finish(JobState.DEAD, counted, reason, DeadCause.ATTEMPTS_EXHAUSTED)
        # A lost worker has cost its whole TTL already, and says nothing against running the job again at once.
        wait_s = 0.0 if ending.outcome is Outcome.LEASE_LOST else retry.delay_s(job.retry, used, ending.delay_s, rng)
    else:
        wait_s = ending.delay_s
    due_at = now + timedelta(seconds=wait_s)
    if job.deadline_at is not None and due_at > job.deadline_at:
        return Finish(JobState.DEAD, counted, PAST_TOTAL, DeadCause.TOTAL_TIMEOUT)
    return Requeue(JobState.RETRY_WAIT if counted else JobState.SCHEDULED, due_at, counted)


def expire(job: LiveJob) -> Finish:
    """What becomes of a waiting job that is not handed out any more: its start_by has passed, or its total timeout,
    whichever comes first."""
    if job.deadline_at is not None and (job.start_by is None or job.deadline_at.timestamp() < job.start_by):
        return Finish(JobState.DEAD, counted=False, reason=PAST_TOTAL, cause=DeadCause.TOTAL_TIMEOUT)
    return Finish(JobState.EXPIRED, counted=False, reason="not leased before start_by")


def cancel(job: LiveJob, mode: CancelMode) -> JobState:
    """The state that a cancellation leads to. Terminal jobs are answered by the caller."""
    if job.state in (JobState.LEASED, JobState.CANCELLING):
        if mode is CancelMode.FENCE_OUT:
            return JobState.CANCELLED
        if mode is CancelMode.COOPERATIVE:
            return JobState.CANCELLING
        raise FailedPrecondition(
            f"jobs/{job.id}: attempt {job.attempt} has started and mode is IF_NOT_STARTED; "
            "cancel with COOPERATIVE to stop it, or with FENCE_OUT to cut it off",
            metadata={"state": job.state.name},
        )
    return JobState.CANCELLED


def _counts(job: LiveJob, outcome: Outcome) -> bool:
    if outcome in (Outcome.RELEASED, Outcome.UNDELIVERED):
        uncounted = job.attempt - job.attempts_before - job.attempts_counted
        return uncounted > limits.UNCOUNTED_ATTEMPTS_MAX
    return True
