"""The state machine, as tables: given a leased job and how its attempt ended, then what becomes of the job."""

import random
from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domain import limits
from rota.domain.errors import FailedPrecondition
from rota.domain.model import CancelMode, DeadCause, Failure, JobState, Outcome, RetryPolicy
from rota.domain.transition import Decision, Ending, Finish, Requeue, cancel, end_attempt, expire

from .build import NOW, Highest, later, live_job

UNCOUNTED_MAX = limits.UNCOUNTED_ATTEMPTS_MAX

SUCCEEDED = Finish(JobState.SUCCEEDED, counted=True)
CANCELLED = Finish(JobState.CANCELLED, counted=True)
CANCELLED_UNCOUNTED = Finish(JobState.CANCELLED, counted=False)
USED_UP = Finish(JobState.DEAD, counted=True, reason="all 5 attempts are used up", cause=DeadCause.ATTEMPTS_EXHAUSTED)
NOT_RETRYABLE = Finish(
    JobState.DEAD, counted=True, reason="the failure is not retryable", cause=DeadCause.NOT_RETRYABLE
)
TOO_LATE = Finish(
    JobState.DEAD,
    counted=True,
    reason="the next attempt would start after the total timeout",
    cause=DeadCause.TOTAL_TIMEOUT,
)


def retry_at(due_at: datetime) -> Requeue:
    return Requeue(JobState.RETRY_WAIT, due_at, counted=True)


def again_at(due_at: datetime) -> Requeue:
    return Requeue(JobState.SCHEDULED, due_at, counted=False)


def check(given: dict[str, object], ending: Ending, then: Decision) -> None:
    """Delays are drawn at their upper bound."""
    assert end_attempt(live_job(**given), ending, NOW, Highest()) == then


@pytest.mark.parametrize(
    ("state", "outcome", "then"),
    [
        (JobState.LEASED, Outcome.SUCCEEDED, SUCCEEDED),
        (JobState.LEASED, Outcome.FAILED, retry_at(later(1))),
        (JobState.LEASED, Outcome.RELEASED, again_at(NOW)),
        # A worker that calls itself cancelled though nobody asked for it has failed.
        (JobState.LEASED, Outcome.CANCELLED, retry_at(later(1))),
        (JobState.LEASED, Outcome.LEASE_LOST, retry_at(NOW)),
        (JobState.LEASED, Outcome.UNDELIVERED, again_at(NOW)),
        (JobState.LEASED, Outcome.TIMED_OUT, retry_at(later(1))),
        (JobState.CANCELLING, Outcome.SUCCEEDED, SUCCEEDED),
        (JobState.CANCELLING, Outcome.FAILED, CANCELLED),
        (JobState.CANCELLING, Outcome.RELEASED, CANCELLED_UNCOUNTED),
        (JobState.CANCELLING, Outcome.CANCELLED, CANCELLED),
        (JobState.CANCELLING, Outcome.LEASE_LOST, CANCELLED),
        (JobState.CANCELLING, Outcome.UNDELIVERED, CANCELLED_UNCOUNTED),
        (JobState.CANCELLING, Outcome.TIMED_OUT, CANCELLED),
    ],
)
def test_every_outcome_in_every_leased_state(state: JobState, outcome: Outcome, then: Decision) -> None:
    check({"state": state}, Ending(outcome), then)


def test_the_table_above_is_complete() -> None:
    assert {o.name for o in Outcome} == {
        "SUCCEEDED", "FAILED", "RELEASED", "CANCELLED", "LEASE_LOST", "UNDELIVERED", "TIMED_OUT"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("outcome", "then"),
    [
        (Outcome.SUCCEEDED, SUCCEEDED),
        (Outcome.FAILED, USED_UP),
        (Outcome.CANCELLED, USED_UP),
        (Outcome.LEASE_LOST, USED_UP),
        (Outcome.TIMED_OUT, USED_UP),
        (Outcome.RELEASED, again_at(NOW)),
        (Outcome.UNDELIVERED, again_at(NOW)),
    ],
)
def test_the_last_counted_attempt(outcome: Outcome, then: Decision) -> None:
    check({"attempt": 5, "attempts_counted": 4}, Ending(outcome), then)


@pytest.mark.parametrize("counted", [1, 2, 3])
def test_an_attempt_before_the_last_is_retried(counted: int) -> None:
    check(
        {"attempt": counted + 1, "attempts_counted": counted},
        Ending(Outcome.FAILED, Failure("E")),
        retry_at(later(2.0**counted)),
    )


@pytest.mark.parametrize("outcome", [Outcome.RELEASED, Outcome.UNDELIVERED])
@pytest.mark.parametrize("counted_before", [0, 3])
def test_uncounted_attempts_have_a_cap_of_their_own(outcome: Outcome, counted_before: int) -> None:
    """The last one within the cap is free, the next one costs an attempt like any other."""
    free = {"attempt": counted_before + UNCOUNTED_MAX, "attempts_counted": counted_before}
    check(free, Ending(outcome), again_at(NOW))
    over = {"attempt": counted_before + UNCOUNTED_MAX + 1, "attempts_counted": counted_before}
    check(over, Ending(outcome), retry_at(later(2.0**counted_before)))


def test_over_the_cap_of_uncounted_attempts_the_attempts_run_out() -> None:
    check({"attempt": UNCOUNTED_MAX + 5, "attempts_counted": 4}, Ending(Outcome.RELEASED), USED_UP)


def test_a_job_that_is_always_released_ends() -> None:
    """Attempt after attempt, released each time: 20 free ones, then one for each of max_attempts."""
    attempt = counted = 0
    decision: Decision = again_at(NOW)
    while isinstance(decision, Requeue):
        attempt += 1
        job = live_job(attempt=attempt, attempts_counted=counted)
        decision = end_attempt(job, Ending(Outcome.RELEASED), NOW, random.Random(1))
        counted += decision.counted
    assert (attempt, decision) == (UNCOUNTED_MAX + 5, USED_UP)


@pytest.mark.parametrize(
    ("ending", "then"),
    [
        (Ending(Outcome.FAILED, Failure("Bad"), retryable=False), NOT_RETRYABLE),
        (Ending(Outcome.FAILED, Failure("Fatal")), NOT_RETRYABLE),
        (Ending(Outcome.FAILED, Failure("fatal")), retry_at(later(1))),
        (Ending(Outcome.FAILED, Failure("Fatal.Sub")), retry_at(later(1))),
        (Ending(Outcome.FAILED), retry_at(later(1))),
        (Ending(Outcome.TIMED_OUT, Failure("Fatal")), NOT_RETRYABLE),
        (Ending(Outcome.LEASE_LOST), retry_at(NOW)),
        # What never ran cannot have failed for good.
        (Ending(Outcome.UNDELIVERED, retryable=False), again_at(NOW)),
        (Ending(Outcome.SUCCEEDED, Failure("Fatal"), retryable=False), SUCCEEDED),
    ],
)
def test_failures_that_are_not_retryable(ending: Ending, then: Decision) -> None:
    check({"retry": RetryPolicy(non_retryable_types=("Other", "Fatal"))}, ending, then)


@pytest.mark.parametrize(
    ("outcome", "delay_s", "then"),
    [
        (Outcome.FAILED, 0.5, retry_at(later(1))),
        (Outcome.FAILED, 30.0, retry_at(later(30))),
        (Outcome.FAILED, 2 * limits.RETRY_AFTER_MAX_S, retry_at(later(limits.RETRY_AFTER_MAX_S))),
        (Outcome.RELEASED, 30.0, again_at(later(30))),
        # The lease has cost its TTL already.
        (Outcome.LEASE_LOST, 30.0, retry_at(NOW)),
    ],
)
def test_a_wish_for_a_delay(outcome: Outcome, delay_s: float, then: Decision) -> None:
    check({}, Ending(outcome, delay_s=delay_s), then)


@pytest.mark.parametrize(
    ("deadline_s", "ending", "then"),
    [
        (1.0, Ending(Outcome.FAILED), retry_at(later(1))),
        (0.999999, Ending(Outcome.FAILED), TOO_LATE),
        (20.0, Ending(Outcome.FAILED, delay_s=30.0), TOO_LATE),
        (0.0, Ending(Outcome.LEASE_LOST), retry_at(NOW)),
        (-0.000001, Ending(Outcome.LEASE_LOST), TOO_LATE),
        (-1.0, Ending(Outcome.SUCCEEDED), SUCCEEDED),
        (-1.0, Ending(Outcome.FAILED, retryable=False), NOT_RETRYABLE),
        # No retry is planned past the total timeout, whether the attempt before counts or not.
        (30.0, Ending(Outcome.RELEASED, delay_s=30.0), again_at(later(30))),
        (29.0, Ending(Outcome.RELEASED, delay_s=30.0), replace(TOO_LATE, counted=False)),
        (-1.0, Ending(Outcome.UNDELIVERED), replace(TOO_LATE, counted=False)),
    ],
)
def test_the_total_timeout(deadline_s: float, ending: Ending, then: Decision) -> None:
    check({"deadline_at": later(deadline_s)}, ending, then)


@pytest.mark.parametrize(
    ("start_by_s", "deadline_s", "then"),
    [
        (0.0, None, Finish(JobState.EXPIRED, False, "not leased before start_by")),
        (0.0, 10.0, Finish(JobState.EXPIRED, False, "not leased before start_by")),
        (0.0, 0.0, Finish(JobState.EXPIRED, False, "not leased before start_by")),
        # Whichever comes first says what it was, however late one looks.
        (10.0, 0.0, replace(TOO_LATE, counted=False)),
        (None, 0.0, replace(TOO_LATE, counted=False)),
    ],
)
def test_a_waiting_job_whose_time_is_over(start_by_s: float | None, deadline_s: float | None, then: Finish) -> None:
    job = live_job(
        state=JobState.SCHEDULED,
        start_by=None if start_by_s is None else later(start_by_s).timestamp(),
        deadline_at=None if deadline_s is None else later(deadline_s),
    )
    assert expire(job) == then


def test_cancelling_wins_over_a_passed_deadline() -> None:
    check({"state": JobState.CANCELLING, "deadline_at": later(-1)}, Ending(Outcome.FAILED), CANCELLED)


def test_a_delay_is_drawn_between_nothing_and_its_bound() -> None:
    job = live_job(attempt=4, attempts_counted=3)
    drawn = [end_attempt(job, Ending(Outcome.FAILED), NOW, random.Random(seed)) for seed in range(50)]
    delays_s = [(d.due_at - NOW).total_seconds() for d in drawn if isinstance(d, Requeue)]
    assert len(delays_s) == 50
    assert 0 <= min(delays_s) < 2
    assert 6 < max(delays_s) <= 8


@given(
    state=st.sampled_from([JobState.LEASED, JobState.CANCELLING]),
    outcome=st.sampled_from(Outcome),
    attempt=st.integers(1, 2_000),
    counted_share=st.floats(0, 1),
    max_attempts=st.integers(1, limits.MAX_ATTEMPTS_MAX),
    deadline_s=st.none() | st.floats(-1e6, 1e6),
    retryable=st.booleans(),
    delay_s=st.floats(0, limits.RELEASE_DELAY_MAX_S),
    seed=st.integers(0, 9),
)
def test_what_holds_of_every_decision(
    state: JobState,
    outcome: Outcome,
    attempt: int,
    counted_share: float,
    max_attempts: int,
    deadline_s: float | None,
    retryable: bool,
    delay_s: float,
    seed: int,
) -> None:
    counted = int((attempt - 1) * counted_share)
    job = live_job(
        state=state,
        attempt=attempt,
        attempts_counted=counted,
        retry=RetryPolicy(max_attempts=max_attempts),
        deadline_at=None if deadline_s is None else later(deadline_s),
    )
    decision = end_attempt(job, Ending(outcome, None, retryable, delay_s), NOW, random.Random(seed))
    assert decision.counted or outcome in (Outcome.RELEASED, Outcome.UNDELIVERED)
    assert (decision.state is JobState.SUCCEEDED) == (outcome is Outcome.SUCCEEDED)
    if isinstance(decision, Finish):
        assert decision.state in (JobState.SUCCEEDED, JobState.CANCELLED, JobState.DEAD)
        assert bool(decision.reason) == (decision.state is JobState.DEAD)
        return
    assert state is JobState.LEASED
    assert decision.due_at >= NOW
    assert job.deadline_at is None or decision.due_at <= job.deadline_at
    if decision.counted:
        assert retryable
        assert counted + 1 < max_attempts
    else:
        assert attempt - counted <= UNCOUNTED_MAX


REFUSED = None


@pytest.mark.parametrize(
    ("state", "if_not_started", "cooperative", "fence_out"),
    [
        (JobState.SCHEDULED, JobState.CANCELLED, JobState.CANCELLED, JobState.CANCELLED),
        (JobState.READY, JobState.CANCELLED, JobState.CANCELLED, JobState.CANCELLED),
        (JobState.RETRY_WAIT, JobState.CANCELLED, JobState.CANCELLED, JobState.CANCELLED),
        (JobState.LEASED, REFUSED, JobState.CANCELLING, JobState.CANCELLED),
        (JobState.CANCELLING, REFUSED, JobState.CANCELLING, JobState.CANCELLED),
    ],
)
def test_cancellation(
    state: JobState, if_not_started: JobState | None, cooperative: JobState, fence_out: JobState
) -> None:
    table = {
        CancelMode.IF_NOT_STARTED: if_not_started,
        CancelMode.COOPERATIVE: cooperative,
        CancelMode.FENCE_OUT: fence_out,
    }
    for mode, then in table.items():
        if then is not REFUSED:
            assert cancel(live_job(state=state), mode) is then
            continue
        with pytest.raises(FailedPrecondition, match=r"has started.*COOPERATIVE.*FENCE_OUT") as refused:
            cancel(live_job(state=state), mode)
        assert (refused.value.reason, refused.value.metadata) == ("INVALID_STATE", {"state": state.name})
