"""Ending attempts through the service: what a worker is told, whatever happened to its lease in between."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from rota.clock import SystemClock
from rota.coordinator.commits import Batcher
from rota.domain.errors import Internal, RotaError
from rota.domain.ids import Fence, JobId, SessionId, TenantId
from rota.domain.model import (
    EffectReceipt,
    Failure,
    JobState,
    Outcome,
    Payload,
    Result,
    RetryPolicy,
    SessionState,
    Settlement,
    Timeouts,
)
from rota.domain.transition import PAST_TOTAL, Ending, Finish, Requeue
from rota.service.completions import Completions, LostLease
from rota.telemetry import Metrics

from ..store.world import Held, World, fresh_id
from .conftest import Told

S, F, R, C = Outcome.SUCCEEDED, Outcome.FAILED, Outcome.RELEASED, Outcome.CANCELLED

Story = Callable[[World, Held], Awaitable[None]]


@dataclass(frozen=True)
class Accepted:
    state: JobState
    duplicate: bool = False


@dataclass(frozen=True)
class Refused:
    reason: str
    detail: str = ""
    """The cause of a stale fence, or what is stored in place of this outcome."""


DUPLICATE = True


def seen(answer: Settlement | RotaError) -> Accepted | Refused:
    if isinstance(answer, Settlement):
        return Accepted(answer.state, answer.duplicate)
    return Refused(answer.reason, answer.metadata.get("cause", "") or answer.metadata.get("stored", ""))


def stale(cause: str) -> Refused:
    return Refused("STALE_FENCE", cause)


def conflict(stored: str) -> Refused:
    return Refused("OUTCOME_CONFLICT", stored)


async def settle(completions: Completions, result: Result) -> Accepted | Refused:
    (answer,) = await completions.settle([result])
    return seen(answer)


async def nothing(world: World, held: Held) -> None:
    """The lease is as it was granted."""


async def succeeded(world: World, held: Held) -> None:
    assert await world.succeed(held)


async def failed(world: World, held: Held) -> None:
    await world.fail(held, wait_s=60.0)


async def buried(world: World, held: Held) -> None:
    await world.bury(held)


async def _ended(world: World, held: Held, outcome: Outcome, counted: bool) -> None:
    state = JobState.RETRY_WAIT if counted else JobState.SCHEDULED
    assert await world.apply(await world.decide(held.id, Requeue(state, await world.now(), counted), outcome))


async def released(world: World, held: Held) -> None:
    await _ended(world, held, Outcome.RELEASED, False)


async def lost(world: World, held: Held) -> None:
    await _ended(world, held, Outcome.LEASE_LOST, True)


async def timed_out(world: World, held: Held) -> None:
    await _ended(world, held, Outcome.TIMED_OUT, True)


async def undelivered(world: World, held: Held) -> None:
    await _ended(world, held, Outcome.UNDELIVERED, False)


async def cancelling(world: World, held: Held) -> None:
    await world.cancelling(held)


async def cut_off(world: World, held: Held) -> None:
    await world.cancel(held.spec)


def then_leased(story: Story) -> Story:
    async def both(world: World, held: Held) -> None:
        await story(world, held)
        await world.pass_time(held.id, 61.0)
        await world.lease(held.spec)

    return both


def then_done(story: Story) -> Story:
    async def both(world: World, held: Held) -> None:
        await story(world, held)
        await world.pass_time(held.id, 61.0)
        await world.succeed(await world.lease(held.spec))

    return both


def then_cancelled(story: Story) -> Story:
    async def both(world: World, held: Held) -> None:
        await story(world, held)
        await world.cancel(held.spec)

    return both


def then_expired(story: Story) -> Story:
    async def both(world: World, held: Held) -> None:
        await story(world, held)
        await world.apply(await world.decide(held.id, Finish(JobState.EXPIRED, False), None))

    return both


@pytest.mark.parametrize(
    ("story", "sent", "then"),
    [
        (nothing, S, Accepted(JobState.SUCCEEDED)),
        (nothing, F, Accepted(JobState.RETRY_WAIT)),
        (nothing, R, Accepted(JobState.SCHEDULED)),
        (nothing, C, Accepted(JobState.RETRY_WAIT)),
        (cancelling, S, Accepted(JobState.SUCCEEDED)),
        (cancelling, F, Accepted(JobState.CANCELLED)),
        (cancelling, R, Accepted(JobState.CANCELLED)),
        (cancelling, C, Accepted(JobState.CANCELLED)),
        (succeeded, S, Accepted(JobState.SUCCEEDED, DUPLICATE)),
        (succeeded, F, conflict("SUCCEEDED")),
        (succeeded, R, conflict("SUCCEEDED")),
        (failed, F, Accepted(JobState.RETRY_WAIT, DUPLICATE)),
        (failed, S, conflict("FAILED")),
        (then_leased(failed), F, Accepted(JobState.LEASED, DUPLICATE)),
        (then_leased(failed), S, conflict("FAILED")),
        (then_done(failed), F, Accepted(JobState.SUCCEEDED, DUPLICATE)),
        (buried, F, Accepted(JobState.DEAD, DUPLICATE)),
        (buried, S, conflict("FAILED")),
        (released, R, Accepted(JobState.SCHEDULED, DUPLICATE)),
        (released, S, stale("RELEASED")),
        (then_leased(released), S, stale("RELEASED")),
        (lost, S, stale("EXPIRED")),
        (lost, F, stale("EXPIRED")),
        (then_leased(lost), S, stale("REASSIGNED")),
        (then_done(lost), S, stale("REASSIGNED")),
        (timed_out, S, stale("EXPIRED")),
        (then_leased(timed_out), F, stale("REASSIGNED")),
        (undelivered, S, stale("EXPIRED")),
        (then_leased(undelivered), S, stale("REASSIGNED")),
        (cut_off, S, stale("CANCELLED")),
        (cut_off, F, stale("CANCELLED")),
        (cut_off, C, Accepted(JobState.CANCELLED, DUPLICATE)),
        (then_cancelled(failed), S, conflict("FAILED")),
        (then_cancelled(failed), F, Accepted(JobState.CANCELLED, DUPLICATE)),
        (then_cancelled(lost), S, stale("EXPIRED")),
        (then_cancelled(released), R, Accepted(JobState.CANCELLED, DUPLICATE)),
        (then_expired(released), R, Accepted(JobState.EXPIRED, DUPLICATE)),
        (then_expired(undelivered), S, stale("EXPIRED")),
    ],
)
async def test_what_an_outcome_is_told(
    world: World, completions: Completions, story: Story, sent: Outcome, then: Accepted | Refused
) -> None:
    held = await world.lease()
    await story(world, held)
    before = await world.job(held.id)
    failure = Failure("E", "boom") if sent is F else None
    assert await settle(completions, world.result(held, sent, failure=failure)) == then
    if isinstance(then, Refused) or then.duplicate:
        assert await world.job(held.id) == before


@pytest.mark.parametrize("outcome", [S, F, R, C])
async def test_an_outcome_repeated_is_a_duplicate(world: World, completions: Completions, outcome: Outcome) -> None:
    """As after an answer that was lost on its way: through the same door, any number of times."""
    held = await world.lease()
    result = world.result(held, outcome, failure=Failure("E"))
    first = await settle(completions, result)
    assert isinstance(first, Accepted)
    assert not first.duplicate
    for _ in range(2):
        assert await settle(completions, result) == replace(first, duplicate=True)
    assert len(await world.reader.attempts(world.tenant, held.id, 0, 9)) == 1


async def test_a_stale_fence_names_the_current_one(world: World, completions: Completions) -> None:
    old = await world.lease()
    await lost(world, old)
    new = await world.lease(old.spec)
    (answer,) = await completions.settle([world.result(old)])
    assert isinstance(answer, RotaError)
    assert answer.metadata == {"cause": "REASSIGNED", "fence": str(new.fence)}
    assert f"fence {old.fence} is stale" in answer.message


@pytest.mark.parametrize(
    ("forged", "then"),
    [
        ("no such job", stale("UNKNOWN_JOB")),
        ("another tenant", stale("UNKNOWN_JOB")),
        ("a higher fence", stale("REASSIGNED")),
        ("a lower fence", stale("REASSIGNED")),
        ("another session", Refused("NOT_LEASE_OWNER")),
    ],
)
@pytest.mark.parametrize("outcome", [S, F])
async def test_forged_outcomes(
    world: World, completions: Completions, forged: str, then: Refused, outcome: Outcome
) -> None:
    held = await world.lease()
    changes: dict[str, object] = {
        "no such job": {"job_id": JobId(fresh_id())},
        "another tenant": {"tenant_id": TenantId(world.tenant + 500_000)},
        "a higher fence": {"fence": Fence(held.fence + 1)},
        "a lower fence": {"fence": Fence(held.fence - 1)},
        "another session": {"session_id": await world.new_session()},
    }[forged]
    assert await settle(completions, world.result(held, outcome, **changes)) == then
    assert (await world.live(held.id)).state is JobState.LEASED
    assert await settle(completions, world.result(held, outcome, failure=Failure("E"))) == Accepted(
        JobState.SUCCEEDED if outcome is S else JobState.RETRY_WAIT
    )


async def test_a_forged_fence_of_a_finished_job(world: World, completions: Completions) -> None:
    held = await world.lease()
    await world.succeed(held)
    assert await settle(completions, world.result(held, fence=Fence(held.fence + 1))) == stale("COMPLETED")


async def test_another_tenant_in_the_same_batch_learns_nothing(world: World, completions: Completions) -> None:
    held = await world.lease()
    mine = world.result(held, F, failure=Failure("E"), fence=Fence(held.fence - 1))
    foreign = world.result(
        held, F, failure=Failure("E"), tenant_id=TenantId(world.tenant + 500_000), session_id=SessionId(fresh_id())
    )
    answers = await completions.settle([mine, foreign])
    assert [seen(answer) for answer in answers] == [stale("REASSIGNED"), stale("UNKNOWN_JOB")]


async def test_a_batch_of_everything_answers_in_order(world: World, completions: Completions) -> None:
    held = [await world.lease() for _ in range(6)]
    await cancelling(world, held[3])
    await lost(world, held[4])
    spawned = world.spec()
    results = [
        world.result(held[0], F, failure=Failure("E")),
        world.result(held[1], S, payload=Payload(b"1")),
        world.result(held[2], S, spawned=(spawned,)),
        world.result(held[3], C),
        world.result(held[4], S),
        world.result(held[5], R, retry_after_s=5.0),
    ]
    answers = await completions.settle(results)
    assert [seen(answer) for answer in answers] == [
        Accepted(JobState.RETRY_WAIT),
        Accepted(JobState.SUCCEEDED),
        Accepted(JobState.SUCCEEDED),
        Accepted(JobState.CANCELLED),
        stale("EXPIRED"),
        Accepted(JobState.SCHEDULED),
    ]
    assert await world.is_live(spawned.id)
    assert isinstance(answers[5], Settlement)
    requeued_at = answers[5].requeued_at
    assert requeued_at is not None
    assert timedelta(seconds=4) < requeued_at - await world.now() <= timedelta(seconds=5)


async def test_notices_follow_the_rows(world: World, completions: Completions, told: Told) -> None:
    done, retried, dead = [await world.lease() for _ in range(3)]
    spawned = world.spec()
    await completions.settle(
        [
            world.result(done, S, spawned=(spawned,)),
            world.result(retried, F, failure=Failure("E")),
            world.result(dead, F, failure=Failure("E"), retryable=False),
        ]
    )
    assert sorted(told.said) == sorted(
        [
            ("waiting", spawned.id),
            ("lease ended", done.key),
            ("finished", done.id),
            ("lease ended", retried.key),
            ("waiting", retried.id),
            ("lease ended", dead.key),
            ("finished", dead.id),
        ]
    )
    told.said.clear()
    await completions.settle([world.result(done, S), world.result(retried, S), world.result(dead, S)])
    assert told.said == []


async def test_the_attempts_run_out(world: World, completions: Completions) -> None:
    spec = world.spec(retry=RetryPolicy(max_attempts=3, initial_backoff_s=0.0))
    await world.create(spec)
    states = []
    for number in range(3):
        held = await world.lease(spec)
        states.append(await settle(completions, world.result(held, F, failure=Failure("E", f"try {number}"))))
    assert states == [Accepted(JobState.RETRY_WAIT)] * 2 + [Accepted(JobState.DEAD)]
    job = await world.job(spec.id)
    assert (job.attempts_counted, job.reason, job.last_failure) == (
        3,
        "all 3 attempts are used up",
        Failure("E", "try 2"),
    )
    attempts = await world.reader.attempts(world.tenant, spec.id, 0, 9)
    assert [a.failure for a in attempts] == [Failure("E", f"try {n}") for n in range(3)]


async def test_a_poisoned_outcome_fails_alone(world: World, completions: Completions) -> None:
    """What the database cannot hold never comes this far; if it did, it would not hold up the others' batch."""
    held = [await world.lease() for _ in range(7)]
    results = [world.result(h, S, request_id=f"r{n}") for n, h in enumerate(held)]
    results[3] = replace(results[3], request_id="\0")
    results[5] = replace(results[5], outcome=F, failure=Failure("E\0"))
    batcher: Batcher[Result, Settlement] = Batcher(
        "outcomes", completions.settle, SystemClock(), batch_max=500, concurrency=1
    )
    # The first goes alone, the others wait for it together.
    answers = await asyncio.gather(*(batcher.submit(result) for result in results), return_exceptions=True)
    for number, answer in enumerate(answers):
        if number in (3, 5):
            assert isinstance(answer, Internal), number
            assert (await world.live(held[number].id)).state is JobState.LEASED
        else:
            assert isinstance(answer, Settlement), number
            # A batch that was split writes some of its outcomes twice, and none of them wrongly.
            assert answer.state is JobState.SUCCEEDED


async def test_an_outcome_with_receipts_is_kept(world: World, completions: Completions) -> None:
    held = await world.lease()
    receipts = (EffectReceipt("k", "ref"),)
    await settle(completions, world.result(held, F, failure=Failure("E"), effect_receipts=receipts))
    (attempt,) = await world.reader.attempts(world.tenant, held.id, 0, 9)
    assert attempt.effect_receipts == receipts


def lost_lease(held: Held, outcome: Outcome, **changes: object) -> LostLease:
    return replace(LostLease(held.spec.tenant_id, held.id, held.fence, Ending(outcome)), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("outcome", "session_closed", "gone", "state"),
    [
        (Outcome.LEASE_LOST, True, False, JobState.READY),
        # A living session's lease is its own, unless it says itself that it has it not.
        (Outcome.LEASE_LOST, False, False, JobState.LEASED),
        (Outcome.LEASE_LOST, False, True, JobState.READY),
        (Outcome.UNDELIVERED, False, False, JobState.READY),
        (Outcome.TIMED_OUT, False, False, None),
    ],
)
async def test_leases_that_the_coordinator_ends(
    world: World, completions: Completions, outcome: Outcome, session_closed: bool, gone: bool, state: JobState | None
) -> None:
    session = await world.new_session()
    held = await world.lease(session=session)
    if session_closed:
        await world.sessions.set_state(world.tenant, session, SessionState.CLOSED)
    ended = await completions.lose([lost_lease(held, outcome, gone=gone)])
    job = await world.job(held.id)
    assert ended == (state is not JobState.LEASED)
    assert job.state is state or (state is None and job.state in (JobState.RETRY_WAIT, JobState.READY))
    assert job.attempts_counted == int(bool(ended) and outcome is not Outcome.UNDELIVERED)
    if ended:
        assert await completions.lose([lost_lease(held, outcome, gone=True)]) == 0


async def test_a_lost_lease_that_was_completed_meanwhile_changes_nothing(
    world: World, completions: Completions
) -> None:
    done, moved = await world.lease(), await world.lease()
    await world.succeed(done)
    await lost(world, moved)
    new = await world.lease(moved.spec)
    leases = [lost_lease(h, Outcome.LEASE_LOST, gone=True) for h in (done, moved)]
    assert await completions.lose(leases) == 0
    assert (await world.job(done.id)).state is JobState.SUCCEEDED
    assert (await world.live(moved.id)).fence == new.fence


async def test_only_workers_outcomes_count_as_refused(world: World, completions: Completions, metrics: Metrics) -> None:
    held = await world.lease()
    await world.succeed(held)
    await completions.lose([lost_lease(held, Outcome.TIMED_OUT)])
    assert sum(refused(metrics).values()) == 0


def refused(metrics: Metrics) -> dict[str, int]:
    return {label: cell[0] for label, cell in metrics._series["rota.fences.refused"].items()}


async def test_refusals_are_counted_by_cause(world: World, completions: Completions, metrics: Metrics) -> None:
    held = await world.lease()
    await settle(completions, world.result(held, F, failure=Failure("E"), session_id=SessionId(fresh_id())))
    await settle(completions, world.result(held, S, job_id=JobId(fresh_id())))
    await lost(world, held)
    await settle(completions, world.result(held, S))
    counted = {label: count for label, count in refused(metrics).items() if count}
    assert counted == {"not_lease_owner": 1, "unknown_job": 1, "expired": 1}


@pytest.mark.parametrize(
    ("timeouts", "waited_s", "before", "then"),
    [
        (Timeouts(start_by_s=10.0), 11.0, nothing, JobState.EXPIRED),
        (Timeouts(start_by_s=10.0), 5.0, nothing, None),
        (Timeouts(start_by_s=10.0), 11.0, released, JobState.EXPIRED),
        (Timeouts(start_by_s=10.0), 11.0, failed, None),
        (Timeouts(), 11.0, nothing, None),
        (Timeouts(total_s=70.0), 71.0, nothing, JobState.DEAD),
        (Timeouts(total_s=70.0), 65.0, nothing, None),
        (Timeouts(total_s=70.0), 71.0, released, JobState.DEAD),
        # The total is over for retries as well.
        (Timeouts(total_s=70.0), 71.0, failed, JobState.DEAD),
        (Timeouts(start_by_s=10.0, total_s=70.0), 71.0, nothing, JobState.EXPIRED),
        (Timeouts(start_by_s=10.0, total_s=70.0), 71.0, failed, JobState.DEAD),
        (Timeouts(start_by_s=70.0, total_s=10.0), 71.0, nothing, JobState.DEAD),
    ],
)
async def test_jobs_that_nobody_started_in_time(
    world: World,
    completions: Completions,
    told: Told,
    timeouts: Timeouts,
    waited_s: float,
    before: Story,
    then: JobState | None,
) -> None:
    spec = world.spec(timeouts=timeouts)
    await world.create(spec)
    if before is not nothing:
        await before(world, await world.lease(spec))
    await world.pass_time(spec.id, waited_s)
    history = [a.outcome for a in await world.reader.attempts(world.tenant, spec.id, 0, 9)]
    counted = (await world.job(spec.id)).attempts_counted
    assert await completions.expire([(world.tenant, spec.id)]) == (then is not None)
    job = await world.job(spec.id)
    assert (job.state if job.state.terminal else None) is then
    assert told.said == ([("finished", spec.id)] if then else [])
    if then:
        assert job.reason == (PAST_TOTAL if then is JobState.DEAD else "not leased before start_by")
        assert await completions.expire([(world.tenant, spec.id)]) == 0
    # No attempt is used, and none invented.
    assert job.attempts_counted == counted
    assert [a.outcome for a in await world.reader.attempts(world.tenant, spec.id, 0, 9)] == history


@pytest.mark.parametrize("timeouts", [Timeouts(start_by_s=10.0), Timeouts(total_s=10.0)], ids=["start_by", "total"])
async def test_a_job_leased_meanwhile_does_not_expire(
    world: World, completions: Completions, timeouts: Timeouts
) -> None:
    held = await world.lease(timeouts=timeouts)
    await world.pass_time(held.id, 60.0)
    assert await completions.expire([(world.tenant, held.id)]) == 0
    assert (await world.live(held.id)).state is JobState.LEASED


async def test_what_waits_and_what_is_held(world: World, completions: Completions) -> None:
    session = await world.new_session()
    waiting, other = world.spec(), await world.lease()
    await world.create(waiting)
    held = await world.lease(session=session)
    stopping = await world.lease(session=session)
    await cancelling(world, stopping)
    done = await world.lease(session=session)
    await world.succeed(done)
    entries, now = await completions.waiting(
        [(world.tenant, job) for job in (waiting.id, held.id, done.id, JobId(fresh_id()))]
    )
    assert [entry.id for entry in entries] == [waiting.id]
    assert now is not None
    asked = [held.key, stopping.key, done.key, other.key, (held.id, Fence(held.fence + 1))]
    assert await completions.held(world.tenant, session, asked) == {held.key, stopping.key}
    assert await completions.held(TenantId(world.tenant + 500_000), session, asked) == set()
