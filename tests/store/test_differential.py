"""The rule that exists twice: the guards of claim and success, in SQL and in the state machine's words.

Jobs are brought to many points of their lives, and then asked with every fence and session that was ever issued to
them, dead ones included. What the statement does must be what the words say.
"""

from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.domain import transition
from rota.domain.errors import FailedPrecondition
from rota.domain.ids import Fence, SessionId, epoch_of, mint_fence
from rota.domain.model import CancelMode, JobSpec, JobState, LiveJob, Outcome, RetryPolicy, SessionState, Timeouts
from rota.domain.transition import Ending, Finish, Requeue
from rota.store.port import Claim, Decided

from .world import Held, World

WAITING = (JobState.SCHEDULED, JobState.RETRY_WAIT)
LEASED = (JobState.LEASED, JobState.CANCELLING)


@dataclass
class Life:
    """One job, and all tokens that were ever issued for it."""

    spec: JobSpec
    grants: list[Held] = field(default_factory=list)
    over: bool = False


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("claim"), st.booleans()),
        st.tuples(st.just("end"), st.sampled_from([o for o in Outcome if o is not Outcome.SUCCEEDED])),
        st.tuples(st.just("cancelling"), st.none()),
        st.tuples(st.just("wait"), st.sampled_from([30.0, 3_600.0])),
        st.tuples(st.just("move shard"), st.none()),
        st.tuples(st.just("close session"), st.none()),
        st.tuples(st.just("cancel"), st.sampled_from(CancelMode)),
    ),
    max_size=7,
)

SLOW = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


async def live_of(world: World, life: Life) -> LiveJob | None:
    return (await world.outcomes.live([(world.tenant, life.spec.id)]))[0].get(life.spec.id)


async def step(world: World, life: Life, sessions: list[SessionId], kind: str, how: object) -> None:
    live = await live_of(world, life)
    if live is None:
        return
    if kind == "claim":
        grant = await world.claim(life.spec, sessions[bool(how)])
        if grant is not None:
            life.grants.append(Held(life.spec, grant))
    elif kind == "end" and live.state in LEASED:
        assert isinstance(how, Outcome)
        now = await world.now()
        decision = transition.end_attempt(live, Ending(how), now, world.rng)
        assert await world.apply(Decided(live, decision, how))
    elif kind == "cancelling" and live.state in LEASED:
        await world.cancelling(life.grants[-1])
    elif kind == "wait":
        assert isinstance(how, float)
        await world.pass_time(life.spec.id, how)
    elif kind == "move shard":
        await world.sql("UPDATE shards SET epoch = epoch + 1 WHERE shard = %(s)s", s=life.spec.shard)
        world.epochs[life.spec.shard] += 1
    elif kind == "close session":
        await world.sessions.set_state(world.tenant, sessions[0], SessionState.CLOSED)
    elif kind == "cancel":
        assert isinstance(how, CancelMode)
        try:
            target = transition.cancel(live, how)
        except FailedPrecondition:
            return
        if target is JobState.CANCELLED:
            outcome = Outcome.CANCELLED if live.state in LEASED else None
            assert await world.apply(Decided(live, Finish(target, outcome is not None), outcome))


async def lived(world: World, steps: list[tuple[str, object]], start_by: bool) -> tuple[Life, list[SessionId]]:
    timeouts = Timeouts(start_by_s=600.0 if start_by else None)
    life = Life(world.spec(delay_s=10.0, timeouts=timeouts, retry=RetryPolicy(max_attempts=3)))
    await world.create(life.spec)
    sessions = [await world.new_session(), await world.new_session()]
    for kind, how in steps:
        await step(world, life, sessions, kind, how)
    return life, sessions


def may_claim(live: LiveJob | None, fence: Fence, epoch: int, now_s: float) -> bool:
    """The words of LeaseStore.claim."""
    if live is None or live.state not in WAITING:
        return False
    due = live.due_at.timestamp() <= now_s
    in_time = live.start_by is None or live.start_by > now_s
    return due and in_time and fence > live.fence and epoch_of(fence) == epoch


def may_succeed(live: LiveJob | None, fence: Fence, session: SessionId) -> bool:
    """The words of OutcomeStore.succeed: what the state machine would be asked, and then says SUCCEEDED."""
    if live is None or live.state not in LEASED or (live.fence, live.session_id) != (fence, session):
        return False
    decision = transition.end_attempt(live, Ending(Outcome.SUCCEEDED), live.due_at, World.rng)
    return decision == Finish(JobState.SUCCEEDED, counted=True)


@SLOW
@given(STEPS, st.booleans(), st.integers(0, 99))
async def test_claims(world: World, steps: list[tuple[str, object]], start_by: bool, pick: int) -> None:
    life, sessions = await lived(world, steps, start_by)
    epoch = world.epochs[life.spec.shard]
    issued = [g.fence for g in life.grants]
    tokens = [world.mint(life.spec.shard), mint_fence(epoch + 1, 1), mint_fence(max(epoch - 1, 0), 2**32 - 1), *issued]
    fence = tokens[pick % len(tokens)]
    before = await live_of(world, life)
    expected = may_claim(before, fence, epoch, (await world.now()).timestamp())
    granted = await world.leases.claim([Claim(world.entry(life.spec), fence, sessions[1])], world.owner)
    assert bool(granted) == expected
    after = await live_of(world, life)
    if not expected:
        assert after == before
        return
    assert before is not None
    assert after is not None
    assert (after.state, after.fence, after.session_id) == (JobState.LEASED, fence, sessions[1])
    assert (after.attempt, after.attempts_counted) == (before.attempt + 1, before.attempts_counted)


@SLOW
@given(STEPS, st.booleans(), st.integers(0, 99), st.booleans())
async def test_successes(
    world: World, steps: list[tuple[str, object]], start_by: bool, pick: int, other_session: bool
) -> None:
    life, sessions = await lived(world, [("wait", 30.0), ("claim", False), *steps], start_by)
    held = life.grants[pick % len(life.grants)] if pick else life.grants[-1]
    session = sessions[1] if other_session else held.grant.session_id
    before = await live_of(world, life)
    attempts_before = len(await world.reader.attempts(world.tenant, life.spec.id, 0, 99))
    expected = may_succeed(before, held.fence, session)
    accepted = await world.outcomes.succeed([world.result(held, session_id=session)])
    assert bool(accepted) == expected
    attempts = await world.reader.attempts(world.tenant, life.spec.id, 0, 99)
    assert len(attempts) == attempts_before
    if not expected:
        assert await live_of(world, life) == before
        return
    assert before is not None
    job = await world.job(life.spec.id)
    assert (job.state, job.attempts_counted) == (JobState.SUCCEEDED, before.attempts_counted + 1)
    assert job.completed_despite_cancel == (before.state is JobState.CANCELLING)
    assert attempts[-1].outcome is Outcome.SUCCEEDED


@SLOW
@given(STEPS, st.sampled_from([o for o in Outcome if o is not Outcome.SUCCEEDED]), st.floats(0, 600), st.booleans())
async def test_a_decision_is_what_the_rows_become(
    world: World, steps: list[tuple[str, object]], outcome: Outcome, delay_s: float, retryable: bool
) -> None:
    """Requeue, finish and bury write exactly what was decided, and count exactly what was counted."""
    life, _ = await lived(world, [("wait", 30.0), ("claim", False), *steps], False)
    before = await live_of(world, life)
    if before is None or before.state not in LEASED:
        return
    now = await world.now()
    decision = transition.end_attempt(before, Ending(outcome, None, retryable, delay_s), now, world.rng)
    assert await world.apply(Decided(before, decision, outcome))
    job = await world.job(life.spec.id)
    assert (job.attempt, job.attempts_counted) == (before.attempt, before.attempts_counted + decision.counted)
    if isinstance(decision, Requeue):
        waits = decision.due_at - await world.now() > timedelta(seconds=5)
        assert job.due_at == decision.due_at
        assert job.state in ((decision.state,) if waits else (decision.state, JobState.READY))
    else:
        assert job.state is decision.state
    last = (await world.reader.attempts(world.tenant, life.spec.id, 0, 99))[-1]
    assert (last.number, last.fence, last.outcome) == (before.attempt, before.fence, outcome)


@pytest.mark.parametrize("state", [JobState.SCHEDULED, JobState.RETRY_WAIT, *LEASED])
def test_the_states_of_the_two_rules_are_all_live_states(state: JobState) -> None:
    """A new live state would have to be thought of in both."""
    assert (state in WAITING) != (state in LEASED)
    assert {s for s in JobState if not s.terminal} == {*WAITING, *LEASED, JobState.READY}
