"""What the ledger of effects answers, for each thing that can be in it."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from rota.domain.effect import Effect, InDoubt, begin, commit, resolve
from rota.domain.errors import Aborted, FailedPrecondition
from rota.domain.ids import EffectId, Fence, JobId, TenantId
from rota.domain.model import EffectState as State

JOB, OTHER = JobId("job-1"), JobId("job-2")
OLD, NOW, NEW = Fence(5), Fence(6), Fence(7)
OPEN = Effect(
    EffectId("e-1"),
    TenantId(1),
    "key",
    JOB,
    OLD,
    State.UNSPECIFIED,
    State.UNSPECIFIED,
    InDoubt.ASK,
    datetime(2026, 1, 1, tzinfo=UTC),
)
UNKNOWN = replace(OPEN, state=State.UNKNOWN)
APPLIED = replace(OPEN, state=State.APPLIED, reference="r-1")
NOT_APPLIED = replace(OPEN, state=State.NOT_APPLIED)


@pytest.mark.parametrize("stored", [OPEN, UNKNOWN])
@pytest.mark.parametrize(
    ("policy", "proceed", "said", "after", "fence", "hold"),
    [
        (InDoubt.ASK, False, State.UNKNOWN, State.UNKNOWN, OLD, True),
        (InDoubt.ASSUME_DONE, False, State.APPLIED, State.APPLIED, NOW, False),
        (InDoubt.REDO, True, State.UNKNOWN, State.UNSPECIFIED, NOW, False),
    ],
)
def test_in_doubt_the_policy_decides(
    stored: Effect, policy: InDoubt, proceed: bool, said: State, after: State, fence: Fence, hold: bool
) -> None:
    begun = begin(stored, JOB, NOW, policy, owner_lives=True)
    assert (begun.proceed, begun.state, begun.hold) == (proceed, said, hold)
    assert (begun.effect.state, begun.effect.fence, begun.effect.policy) == (after, fence, policy)


@pytest.mark.parametrize("policy", InDoubt)
def test_what_was_applied_is_not_done_again_whatever_the_policy(policy: InDoubt) -> None:
    begun = begin(APPLIED, JOB, NOW, policy, owner_lives=False)
    assert (begun.proceed, begun.state, begun.effect) == (False, State.APPLIED, APPLIED)


@pytest.mark.parametrize("policy", InDoubt)
def test_what_was_not_applied_is_tried_again_whatever_the_policy(policy: InDoubt) -> None:
    begun = begin(NOT_APPLIED, JOB, NOW, policy, owner_lives=False)
    assert (begun.proceed, begun.state) == (True, State.NOT_APPLIED)
    assert (begun.effect.state, begun.effect.fence) == (State.UNSPECIFIED, NOW)


@pytest.mark.parametrize("policy", InDoubt)
def test_an_answer_that_was_lost_is_given_again(policy: InDoubt) -> None:
    again = begin(OPEN, JOB, OLD, policy, owner_lives=False)
    assert (again.proceed, again.state, again.effect) == (True, State.UNSPECIFIED, OPEN)
    redone = begin(UNKNOWN, JOB, NOW, InDoubt.REDO, owner_lives=False)
    assert begin(redone.effect, JOB, NOW, InDoubt.REDO, owner_lives=False) == redone


def test_after_its_own_unknown_the_same_attempt_is_in_doubt_too() -> None:
    assert begin(UNKNOWN, JOB, OLD, InDoubt.ASK, owner_lives=False).hold


@pytest.mark.parametrize("stored", [OPEN, UNKNOWN])
def test_another_jobs_effect_is_left_alone_until_that_job_is_over(stored: Effect) -> None:
    with pytest.raises(FailedPrecondition, match="belongs to jobs/job-1, which is not over"):
        begin(stored, OTHER, Fence(1), InDoubt.REDO, owner_lives=True)
    held = begin(stored, OTHER, Fence(1), InDoubt.ASK, owner_lives=False)
    assert (held.hold, held.effect.job_id) == (True, OTHER)
    # Fences of two jobs say nothing of each other: the taker's next attempt is not stale by the old owner's.
    assert begin(held.effect, OTHER, Fence(2), InDoubt.REDO, owner_lives=False).proceed
    assert begin(APPLIED, OTHER, Fence(1), InDoubt.REDO, owner_lives=True).state is State.APPLIED


def test_a_fence_older_than_the_ledgers_never_goes_ahead() -> None:
    newer = replace(OPEN, fence=NEW)
    with pytest.raises(Aborted, match="stale"):
        begin(newer, JOB, NOW, InDoubt.REDO, owner_lives=False)
    with pytest.raises(Aborted, match="stale"):
        commit(newer, JOB, "key", NOW, State.APPLIED, "")


@pytest.mark.parametrize("stored", [OPEN, UNKNOWN])
@pytest.mark.parametrize("state", [State.APPLIED, State.NOT_APPLIED, State.UNKNOWN])
def test_a_commit_is_kept_and_may_be_repeated(stored: Effect, state: State) -> None:
    after = commit(stored, JOB, "key", NOW, state, "r-2")
    assert (after.state, after.fence, after.reference) == (state, NOW, "r-2")
    assert commit(after, JOB, "key", NOW, state, "") == after


@pytest.mark.parametrize("state", [State.NOT_APPLIED, State.UNKNOWN])
def test_a_settled_effect_takes_no_other_word(state: State) -> None:
    with pytest.raises(Aborted) as refusal:
        commit(APPLIED, JOB, "key", NOW, state, "")
    assert (refusal.value.reason, refusal.value.metadata) == ("OUTCOME_CONFLICT", {"stored": "APPLIED"})


@pytest.mark.parametrize("stored", [None, replace(OPEN, job_id=OTHER)])
def test_what_was_not_begun_cannot_be_committed(stored: Effect | None) -> None:
    with pytest.raises(FailedPrecondition, match="call BeginEffect first"):
        commit(stored, JOB, "key", NOW, State.APPLIED, "")


@pytest.mark.parametrize("state", [State.APPLIED, State.NOT_APPLIED])
def test_a_decision_is_kept_and_may_be_repeated(state: State) -> None:
    after = resolve(UNKNOWN, state, "r-3", "looked it up", "key-1")
    assert (after.state, after.reference, after.reason, after.resolved_by) == (state, "r-3", "looked it up", "key-1")
    assert resolve(after, state, "", "", "key-2") == after
    other = State.NOT_APPLIED if state is State.APPLIED else State.APPLIED
    with pytest.raises(FailedPrecondition, match=f"decided already, as {state.name}"):
        resolve(after, other, "", "", "key-2")


def test_what_an_attempt_is_at_is_not_in_doubt() -> None:
    with pytest.raises(FailedPrecondition, match="is at it right now"):
        resolve(replace(OPEN, running=True), State.APPLIED, "", "", "key-1")
    assert resolve(replace(UNKNOWN, running=True), State.APPLIED, "", "", "key-1").state is State.APPLIED
