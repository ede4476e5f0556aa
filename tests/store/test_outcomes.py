"""Ending attempts: only under the fence, session and state that they were decided on, and written down for ever."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from rota.domain import limits
from rota.domain.ids import Fence, SessionId, TenantId
from rota.domain.model import (
    EffectReceipt,
    EffectState,
    Failure,
    JobState,
    Outcome,
    Payload,
    RetryPolicy,
    Timeouts,
)
from rota.domain.transition import Decision, Finish, Requeue
from rota.store import outcomes as outcomes_module
from rota.store.engine import Run
from rota.store.port import Decided

from .world import Held, World, fresh_id

DEAD = Finish(JobState.DEAD, counted=True, reason="used up")
CANCELLED = Finish(JobState.CANCELLED, counted=True, reason="cut off")
DECISIONS = ["requeue", "finish", "bury"]
RECEIPTS = (EffectReceipt("a", "ref"), EffectReceipt("b"))


async def decision(world: World, kind: str) -> Decision:
    if kind == "requeue":
        return Requeue(JobState.RETRY_WAIT, await world.now(), counted=True)
    return CANCELLED if kind == "finish" else DEAD


async def untouched(world: World, held: Held) -> bool:
    live = await world.live(held.id)
    same = (live.state, live.fence, live.session_id) == (JobState.LEASED, held.fence, held.grant.session_id)
    return same and await world.where(held.id) == ["jobs"] and await world.count("attempts", held.id) == 0


async def test_success_moves_the_job_to_history(world: World) -> None:
    spec = world.spec(
        headers={"h": "1"},
        labels={"l": "2"},
        retry=RetryPolicy(3, 2.0),
        timeouts=Timeouts(5.0, 60.0, 600.0),
        effect_key="e",
        concurrency_key="c",
        traceparent="tp",
    )
    await world.create(spec)
    held = await world.lease(spec)
    before = await world.job(spec.id)
    result = world.result(
        held,
        payload=Payload(b"\0done", "a/b"),
        request_id="r",
        effect_state=EffectState.APPLIED,
        effect_receipts=RECEIPTS,
    )
    assert await world.outcomes.succeed([result]) == {held.key: JobState.SUCCEEDED}
    assert await world.where(spec.id) == ["finished_jobs"]
    after = await world.job(spec.id)
    assert after.finished_at is not None
    assert after == replace(
        before,
        state=JobState.SUCCEEDED,
        attempts_counted=1,
        finished_at=after.finished_at,
        result=Payload(b"\0done", "a/b"),
    )
    (attempt,) = await world.reader.attempts(world.tenant, spec.id, 0, 9)
    assert (attempt.number, attempt.fence, attempt.session_id) == (1, held.fence, held.grant.session_id)
    assert (attempt.outcome, attempt.failure, attempt.worker) == (Outcome.SUCCEEDED, None, "worker-1")
    assert (attempt.effect_state, attempt.effect_receipts) == (EffectState.APPLIED, RECEIPTS)
    assert (attempt.leased_at, attempt.ended_at) == (before.leased_at, after.finished_at)


@pytest.mark.parametrize("payload", [None, Payload(b""), Payload(b"", "x"), Payload(b"\0")])
async def test_no_result_is_not_an_empty_result(world: World, payload: Payload | None) -> None:
    held = await world.lease()
    assert await world.succeed(held, payload=payload)
    assert (await world.job(held.id)).result == payload


@pytest.mark.parametrize(
    "wrong",
    [
        {"fence": 1},
        {"fence": -1},
        {"fence": -(2**32)},
        {"session_id": SessionId(fresh_id())},
        {"tenant_id": TenantId(1)},
        {"job_id": fresh_id()},
    ],
)
async def test_success_needs_fence_session_tenant_and_job(world: World, wrong: dict[str, object]) -> None:
    held = await world.lease()
    if "fence" in wrong:
        wrong = {"fence": Fence(held.fence + int(str(wrong["fence"])))}
    assert not await world.outcomes.succeed([world.result(held, **wrong)])
    assert await untouched(world, held)


async def test_success_once(world: World) -> None:
    held = await world.lease()
    assert await world.succeed(held)
    assert not await world.succeed(held)
    assert await world.count("finished_jobs", held.id) == 1


async def test_the_same_success_from_many_sides_at_once(world: World) -> None:
    held = await world.lease()
    answers = await asyncio.gather(*(world.succeed(held) for _ in range(10)))
    assert sorted(answers) == [False] * 9 + [True]


async def test_success_while_cancelling_is_marked(world: World) -> None:
    held = await world.lease()
    await world.cancelling(held, "too late")
    assert await world.succeed(held)
    job = await world.job(held.id)
    assert (job.state, job.completed_despite_cancel) == (JobState.SUCCEEDED, True)


async def test_an_old_holder_cannot_succeed(world: World) -> None:
    old = await world.lease()
    await world.fail(old)
    assert not await world.succeed(old)
    new = await world.lease(old.spec)
    assert not await world.succeed(old)
    assert not await world.outcomes.succeed([world.result(old, fence=new.fence)])
    assert await world.succeed(new)


async def test_a_batch_of_successes_takes_what_is_right(world: World) -> None:
    session = await world.new_session()
    held = [await world.lease(session=session) for _ in range(4)]
    results = [world.result(h, payload=Payload(bytes([n]))) for n, h in enumerate(held)]
    results[1].fence = Fence(held[1].fence - 1)
    accepted = await world.outcomes.succeed(results)
    assert set(accepted) == {h.key for n, h in enumerate(held) if n != 1}
    assert [(await world.job(h.id)).result for h in held] == [Payload(b"\0"), None, Payload(b"\2"), Payload(b"\3")]


async def test_a_valid_lease_outlives_its_shards_move(world: World) -> None:
    held = await world.lease()
    await world.sql(
        "UPDATE shards SET epoch = epoch + 1, owner = %(o)s::uuid WHERE shard = %(s)s", o=fresh_id(), s=held.spec.shard
    )
    assert await world.succeed(held)


async def test_a_result_with_spawned_jobs_is_one_transaction(world: World) -> None:
    held = await world.lease()
    spawned = [world.spec(), world.spec(delay_s=60.0)]
    done, created = await world.outcomes.succeed_and_spawn(world.result(held), world.call(*spawned))
    assert set(done) == {held.key}
    assert {job.id for job in created} == {spec.id for spec in spawned}
    again, none = await world.outcomes.succeed_and_spawn(world.result(held), world.call(world.spec()))
    assert (again, none) == ({}, [])
    assert await world.count("jobs") == 2


async def test_a_result_whose_spawned_jobs_fail_is_not_taken(world: World) -> None:
    held = await world.lease()
    taken = world.spec()
    await world.create(taken)
    with pytest.raises(Exception, match="jobs_pkey"):
        await world.outcomes.succeed_and_spawn(world.result(held), world.call(world.spec(id=taken.id)))
    assert await untouched(world, held)
    assert await world.succeed(held)


async def test_requeue_puts_the_job_back_and_writes_the_attempt_down(world: World) -> None:
    held = await world.lease()
    before = await world.live(held.id)
    due_at = await world.now() + timedelta(seconds=30, microseconds=7)
    failure = Failure("ValueError", 'a "quoted"\n\u2028text', "stack {}")
    decided = Decided(
        before,
        Requeue(JobState.RETRY_WAIT, due_at, True),
        Outcome.FAILED,
        failure,
        "r-9",
        EffectState.UNKNOWN,
        RECEIPTS,
    )
    assert await world.apply(decided)
    after = await world.live(held.id)
    assert after == replace(
        before,
        state=JobState.RETRY_WAIT,
        due_at=due_at,
        attempts_counted=1,
        session_id=None,
        session_alive=False,
        leased_at=None,
        start_by=None,
    )
    assert (await world.job(held.id)).last_failure == failure
    (attempt,) = await world.reader.attempts(world.tenant, held.id, 0, 9)
    assert (attempt.number, attempt.fence, attempt.session_id) == (1, held.fence, held.grant.session_id)
    assert (attempt.outcome, attempt.failure, attempt.worker) == (Outcome.FAILED, failure, "worker-1")
    assert (attempt.effect_state, attempt.effect_receipts) == (EffectState.UNKNOWN, RECEIPTS)
    assert attempt.leased_at == before.leased_at
    assert attempt.ended_at is not None
    assert attempt.ended_at >= attempt.leased_at


async def test_an_uncounted_attempt_is_written_down_and_not_counted(world: World) -> None:
    held = await world.lease()
    await world.fail(held)
    held = await world.lease(held.spec)
    decided = await world.decide(held.id, Requeue(JobState.SCHEDULED, await world.now(), False), Outcome.UNDELIVERED)
    assert await world.apply(decided)
    live, job = await world.live(held.id), await world.job(held.id)
    assert (live.attempt, live.attempts_counted, job.state) == (2, 1, JobState.READY)
    # The failure before it is still the job's last one.
    assert job.last_failure == Failure("E", "boom")
    outcomes = [a.outcome for a in await world.reader.attempts(world.tenant, held.id, 0, 9)]
    assert outcomes == [Outcome.FAILED, Outcome.UNDELIVERED]


async def test_finish_of_a_leased_job(world: World) -> None:
    held = await world.lease()
    await world.cancelling(held, "asked for")
    decided = await world.decide(
        held.id, Finish(JobState.CANCELLED, True), Outcome.CANCELLED, Failure("Cancelled", "ok")
    )
    assert await world.apply(decided)
    assert await world.where(held.id) == ["finished_jobs"]
    job = await world.job(held.id)
    assert (job.state, job.reason, job.attempts_counted) == (JobState.CANCELLED, "asked for", 1)
    assert (job.completed_despite_cancel, job.result) == (False, None)
    (attempt,) = await world.reader.attempts(world.tenant, held.id, 0, 9)
    assert (attempt.outcome, attempt.failure) == (Outcome.CANCELLED, Failure("Cancelled", "ok"))
    assert (attempt.fence, attempt.session_id) == (held.fence, held.grant.session_id)


async def test_a_cut_off_attempt_does_not_inherit_an_earlier_failure(world: World) -> None:
    held = await world.lease()
    await world.fail(held, failure=Failure("First", "one"))
    await world.lease(held.spec)
    await world.cancel(held.spec)
    first, second = await world.reader.attempts(world.tenant, held.id, 0, 9)
    assert (first.outcome, first.failure) == (Outcome.FAILED, Failure("First", "one"))
    assert (second.outcome, second.failure) == (Outcome.CANCELLED, None)
    # As for the job, that was its last failure.
    assert (await world.job(held.id)).last_failure == Failure("First", "one")


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.EXPIRED])
async def test_finish_of_a_waiting_job_has_no_attempt(world: World, state: JobState) -> None:
    spec = world.spec()
    await world.create(spec)
    assert await world.apply(await world.decide(spec.id, Finish(state, False, "why"), None))
    job = await world.job(spec.id)
    assert (job.state, job.reason, job.attempt, job.attempts_counted) == (state, "why", 0, 0)
    assert (job.leased_at, job.session_id) == (None, None)
    assert await world.reader.attempts(world.tenant, spec.id, 0, 9) == []


async def test_finish_of_a_retrying_job_shows_its_attempts(world: World) -> None:
    held = await world.lease()
    await world.fail(held, wait_s=60.0)
    await world.cancel(held.spec)
    (attempt,) = await world.reader.attempts(world.tenant, held.id, 0, 9)
    assert (attempt.number, attempt.outcome, attempt.failure) == (1, Outcome.FAILED, Failure("E", "boom"))
    assert (await world.job(held.id)).attempts_counted == 1


async def test_bury_keeps_all_and_writes_the_attempt_down(world: World) -> None:
    spec = world.spec(
        payload=Payload(b"\0p", "t"), headers={"h": "1"}, effect_key="e", timeouts=Timeouts(None, 9.0, None)
    )
    await world.create(spec)
    held = await world.lease(spec)
    before = await world.job(spec.id)
    await world.bury(held)
    assert await world.where(spec.id) == ["dead_jobs"]
    after = await world.job(spec.id)
    assert after == replace(
        before,
        state=JobState.DEAD,
        attempts_counted=1,
        finished_at=after.finished_at,
        last_failure=Failure("E", "last"),
        reason="all used up",
    )
    (attempt,) = await world.reader.attempts(world.tenant, spec.id, 0, 9)
    assert (attempt.number, attempt.outcome, attempt.failure) == (1, Outcome.FAILED, Failure("E", "last"))
    assert attempt.session_id == held.grant.session_id


@pytest.mark.parametrize("kind", DECISIONS)
async def test_a_decision_on_an_old_fence_is_not_applied(world: World, kind: str) -> None:
    old = await world.lease()
    stale = await world.decide(old.id, await decision(world, kind), Outcome.FAILED)
    await world.fail(old)
    new = await world.lease(old.spec)
    assert not await world.apply(stale)
    live = await world.live(old.id)
    assert (live.state, live.fence, live.attempts_counted) == (JobState.LEASED, new.fence, 1)
    assert await world.count("attempts", old.id) == 1


@pytest.mark.parametrize("kind", DECISIONS)
async def test_a_decision_on_a_state_that_has_moved_is_not_applied(world: World, kind: str) -> None:
    """The fence is the same, but somebody asked for a cancellation meanwhile: the decision must be made again."""
    held = await world.lease()
    stale = await world.decide(held.id, await decision(world, kind), Outcome.FAILED)
    await world.cancelling(held)
    assert not await world.apply(stale)
    assert (await world.live(held.id)).state is JobState.CANCELLING
    assert await world.count("attempts", held.id) == 0


@pytest.mark.parametrize("kind", DECISIONS)
@pytest.mark.parametrize("end", ["succeeded", "cancelled", "buried"])
async def test_a_decision_on_a_job_that_ended_is_not_applied(world: World, kind: str, end: str) -> None:
    held = await world.lease()
    stale = await world.decide(held.id, await decision(world, kind), Outcome.LEASE_LOST)
    if end == "succeeded":
        await world.succeed(held)
    elif end == "cancelled":
        await world.cancel(held.spec)
    else:
        await world.bury(held)
    places = await world.where(held.id)
    attempts = await world.reader.attempts(world.tenant, held.id, 0, 9)
    assert not await world.apply(stale)
    assert await world.where(held.id) == places
    assert await world.reader.attempts(world.tenant, held.id, 0, 9) == attempts


@pytest.mark.parametrize("kind", DECISIONS)
async def test_a_decision_twice_is_applied_once(world: World, kind: str) -> None:
    held = await world.lease()
    decided = await world.decide(held.id, await decision(world, kind), Outcome.FAILED)
    assert await world.apply(decided)
    assert not await world.apply(decided)
    assert len(await world.reader.attempts(world.tenant, held.id, 0, 9)) == 1


@pytest.mark.parametrize("kind", DECISIONS)
async def test_a_decision_of_another_tenant_is_not_applied(world: World, kind: str) -> None:
    held = await world.lease()
    decided = await world.decide(held.id, await decision(world, kind), Outcome.FAILED)
    foreign = replace(decided, job=replace(decided.job, tenant_id=TenantId(world.tenant + 500_000)))
    assert not await world.apply(foreign)
    assert await untouched(world, held)


async def test_batches_of_decisions(world: World) -> None:
    """Each keeps its own values, and one that does not fit holds nobody up."""
    held = [await world.lease() for _ in range(5)]
    now = await world.now()
    items = [
        await world.decide(
            h.id, Requeue(JobState.RETRY_WAIT, now + timedelta(seconds=n), n % 2 == 0), Outcome.FAILED, Failure(f"E{n}")
        )
        for n, h in enumerate(held)
    ]
    await world.cancelling(held[3])
    assert await world.outcomes.requeue(items) == {h.key for n, h in enumerate(held) if n != 3}
    for n, h in enumerate(held):
        live, job = await world.live(h.id), await world.job(h.id)
        if n == 3:
            assert (live.state, job.last_failure) == (JobState.CANCELLING, None)
        else:
            assert (live.due_at, live.attempts_counted) == (now + timedelta(seconds=n), int(n % 2 == 0))
            assert job.last_failure == Failure(f"E{n}")


async def test_live_tells_what_deciding_needs(world: World) -> None:
    spec = world.spec(
        priority=8,
        payload=Payload(b"12345"),
        retry=RetryPolicy(9, 3.0, 4.0, 1.5, ("Bad",)),
        timeouts=Timeouts(7.0, 8.0, 9.0),
    )
    await world.create(spec)
    waiting, now = await world.outcomes.live([(world.tenant, spec.id)])
    live = waiting[spec.id]
    assert (live.shard, live.type, live.queue, live.priority) == (spec.shard, spec.type, spec.queue, 8)
    assert (live.state, live.fence, live.session_id, live.session_alive) == (JobState.SCHEDULED, 0, None, False)
    size = 5 + limits.LEASE_OVERHEAD_BYTES
    assert (live.retry, live.size, live.attempt, live.attempts_counted) == (spec.retry, size, 0, 0)
    assert live.deadline_at == live.due_at + timedelta(seconds=9)
    assert now is not None
    assert now >= live.due_at
    held = await world.lease(spec)
    live = await world.live(spec.id)
    assert (live.session_id, live.session_alive, live.fence) == (held.grant.session_id, True, held.fence)
    assert live.leased_at is not None


async def test_live_knows_a_dead_session(world: World) -> None:
    session = await world.new_session()
    held = await world.lease(session=session)
    await world.sql("UPDATE sessions SET expires_at = now() - interval '1 s' WHERE id = %(id)s::uuid", id=session)
    assert (await world.live(held.id)).session_alive
    await world.sql("UPDATE sessions SET state = 3, closed_at = now() WHERE id = %(id)s::uuid", id=session)
    assert not (await world.live(held.id)).session_alive


async def test_live_leaves_out_what_is_not_live(world: World) -> None:
    held = await world.lease()
    gone = await world.lease()
    await world.succeed(gone)
    other = TenantId(world.tenant + 500_000)
    live, _ = await world.outcomes.live([(world.tenant, held.id), (world.tenant, gone.id), (other, held.id)])
    assert set(live) == {held.id}
    assert await world.outcomes.live([(other, held.id)]) == ({}, None)


@pytest.mark.parametrize(
    ("point", "marked"),
    [("waiting", False), ("leased", True), ("cancelling", True), ("wrong fence", False), ("ended", False)],
)
async def test_only_a_lease_can_be_marked_as_being_cancelled(world: World, point: str, marked: bool) -> None:
    held = await world.lease()
    fence = held.fence
    if point == "waiting":
        await world.fail(held)
    elif point == "cancelling":
        await world.cancelling(held, "first")
    elif point == "wrong fence":
        fence = Fence(fence - 1)
    elif point == "ended":
        await world.succeed(held)
    assert await world.jobs.set_cancelling(world.tenant, held.id, fence, "why") == marked
    assert not await world.jobs.set_cancelling(TenantId(world.tenant + 500_000), held.id, fence, "why")
    job = await world.job(held.id)
    assert (job.state is JobState.CANCELLING) == marked
    assert job.reason == ("why" if marked else "")


async def test_a_completion_that_waited_for_an_expiry_is_refused(world: World) -> None:
    """Two connections: the reaper takes the lease back, and the worker's success arrives before that commits."""
    held = await world.lease()
    reaped = await world.decide(held.id, Requeue(JobState.RETRY_WAIT, await world.now(), True), Outcome.LEASE_LOST)
    late: list[asyncio.Task[bool]] = []

    async def reap_and_wait(run: Run) -> None:
        assert await run(outcomes_module._REQUEUE, outcomes_module._decided_params([reaped]))
        late.append(asyncio.create_task(world.succeed(held)))
        await world.until_blocked()

    await world.db.writes.transact(reap_and_wait)
    assert await late[0] is False
    assert (await world.live(held.id)).state is JobState.RETRY_WAIT
    assert await world.count("finished_jobs", held.id) == 0


async def test_an_expiry_that_waited_for_a_completion_changes_nothing(world: World) -> None:
    held = await world.lease()
    reaped = await world.decide(held.id, Requeue(JobState.RETRY_WAIT, await world.now(), True), Outcome.LEASE_LOST)
    late: list[asyncio.Task[bool]] = []

    async def succeed_and_wait(run: Run) -> None:
        assert await run(outcomes_module._SUCCEED, outcomes_module._succeed_params([world.result(held)]))
        late.append(asyncio.create_task(world.apply(reaped)))
        await world.until_blocked()

    await world.db.writes.transact(succeed_and_wait)
    assert await late[0] is False
    assert await world.where(held.id) == ["finished_jobs"]
    assert await world.count("attempts", held.id) == 0


async def test_a_completion_that_waited_for_a_cancellation_mark_is_taken_and_marked(world: World) -> None:
    held = await world.lease()
    late: list[asyncio.Task[bool]] = []

    async def mark_and_wait(run: Run) -> None:
        await run("UPDATE jobs SET state = 5 WHERE id = %(id)s::uuid", {"id": held.id})
        late.append(asyncio.create_task(world.succeed(held)))
        await world.until_blocked()

    await world.db.writes.transact(mark_and_wait)
    assert await late[0] is True
    assert (await world.job(held.id)).completed_despite_cancel
