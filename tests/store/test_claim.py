"""Claiming: who gets a due job, and every reason for which a claim comes back without it."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from rota.domain.ids import CoordinatorId, Fence, TenantId, mint_fence
from rota.domain.model import JobState, Outcome, Payload, RetryPolicy, Timeouts
from rota.domain.transition import Requeue
from rota.store import leases as leases_module
from rota.store.engine import Run, array
from rota.store.port import Claim

from .world import World, fresh_id


async def test_a_grant_says_all_that_a_worker_is_told(world: World) -> None:
    spec = world.spec(
        priority=7,
        payload=Payload(b"\0\xff", "x/y"),
        headers={"a": "b"},
        retry=RetryPolicy(max_attempts=3),
        timeouts=Timeouts(run_s=90.5, total_s=600.0),
        effect_key="e",
        traceparent="tp",
        tracestate="ts",
    )
    session = await world.new_session()
    await world.create(spec)
    grant = (await world.lease(spec, session)).grant
    job = await world.job(spec.id)
    assert (grant.tenant_id, grant.job_id, grant.shard, grant.session_id) == (
        world.tenant,
        spec.id,
        spec.shard,
        session,
    )
    assert (grant.attempt, grant.attempts_counted, grant.max_attempts, grant.generation) == (1, 0, 3, 0)
    assert (grant.type, grant.queue, grant.priority) == (spec.type, spec.queue, 7)
    assert (grant.payload, grant.content_type, grant.headers) == (b"\0\xff", "x/y", {"a": "b"})
    assert (grant.effect_key, grant.traceparent, grant.tracestate) == ("e", "tp", "ts")
    assert (grant.run_timeout_s, grant.due_at) == (90.5, job.due_at)
    assert grant.deadline_s == pytest.approx(600.0, abs=5.0)
    assert (job.state, job.attempt, job.session_id) == (JobState.LEASED, 1, session)
    assert (await world.live(spec.id)).fence == grant.fence


async def test_a_job_without_extras(world: World) -> None:
    grant = (await world.lease(payload=Payload())).grant
    assert (grant.payload, grant.content_type, grant.headers, grant.deadline_s) == (b"", "", None, None)
    assert (grant.effect_key, grant.traceparent, grant.tracestate) == ("", "", "")


@pytest.mark.parametrize("point", ["scheduled", "retry", "released"])
async def test_what_waits_is_granted(world: World, point: str) -> None:
    spec = world.spec()
    await world.create(spec)
    if point != "scheduled":
        await world.lease(spec)
        counted = point == "retry"
        state = JobState.RETRY_WAIT if counted else JobState.SCHEDULED
        decision = Requeue(state, await world.now(), counted)
        await world.apply(await world.decide(spec.id, decision, Outcome.FAILED if counted else Outcome.RELEASED))
    grant = (await world.lease(spec)).grant
    assert (grant.attempt, grant.attempts_counted) == {"scheduled": (1, 0), "retry": (2, 1), "released": (2, 0)}[point]


@pytest.mark.parametrize("point", ["leased", "cancelling", "succeeded", "cancelled", "dead", "never created"])
async def test_what_does_not_wait_is_not_granted(world: World, point: str) -> None:
    spec = world.spec()
    if point != "never created":
        await world.create(spec)
        held = await world.lease(spec)
        if point == "cancelling":
            await world.cancelling(held)
        elif point == "succeeded":
            await world.succeed(held)
        elif point == "cancelled":
            await world.cancel(spec)
        elif point == "dead":
            await world.bury(held)
    assert await world.claim(spec, await world.new_session()) is None
    if point in ("leased", "cancelling"):
        assert (await world.live(spec.id)).fence == held.fence
        assert (await world.live(spec.id)).attempt == 1


@pytest.mark.parametrize(
    ("due_in_s", "granted"),
    [(-3_600.0, True), (-0.001, True), (0.0, True), (60.0, False), (86_400.0, False)],
)
async def test_only_what_is_due_is_granted(world: World, due_in_s: float, granted: bool) -> None:
    spec = world.spec(delay_s=86_400.0)
    await world.create(spec)
    await world.pass_time(spec.id, 86_400.0 - due_in_s)
    assert bool(await world.claim(spec, await world.new_session())) == granted


@pytest.mark.parametrize("waited_s", [5.0, 15.0])
@pytest.mark.parametrize("before", ["nothing", "released", "failed"])
async def test_start_by(world: World, before: str, waited_s: float) -> None:
    """It says when the first counted attempt begins at the latest; a retry is no start."""
    spec = world.spec(timeouts=Timeouts(start_by_s=10.0))
    await world.create(spec)
    if before == "released":
        await world.lease(spec)
        await world.apply(
            await world.decide(spec.id, Requeue(JobState.SCHEDULED, await world.now(), False), Outcome.RELEASED)
        )
    elif before == "failed":
        await world.fail(await world.lease(spec))
    await world.pass_time(spec.id, waited_s)
    granted = await world.claim(spec, await world.new_session())
    assert bool(granted) == (waited_s < 10.0 or before == "failed")
    assert (await world.live(spec.id)).start_by is None or before != "failed"


@pytest.mark.parametrize("waited_s", [5.0, 15.0])
@pytest.mark.parametrize("before", ["nothing", "released", "failed"])
async def test_the_total_timeout(world: World, before: str, waited_s: float) -> None:
    """It is over for every attempt: what has waited past it is not handed out."""
    spec = world.spec(timeouts=Timeouts(total_s=10.0))
    await world.create(spec)
    if before == "released":
        await world.lease(spec)
        await world.apply(
            await world.decide(spec.id, Requeue(JobState.SCHEDULED, await world.now(), False), Outcome.RELEASED)
        )
    elif before == "failed":
        await world.fail(await world.lease(spec))
    await world.pass_time(spec.id, waited_s)
    assert bool(await world.claim(spec, await world.new_session())) == (waited_s < 10.0)


@pytest.mark.parametrize(("step", "granted"), [(1, True), (0, False), (-1, False), (-1_000, False)])
async def test_a_fence_must_grow(world: World, step: int, granted: bool) -> None:
    held = await world.lease()
    await world.fail(held)
    grant = await world.claim(held.spec, await world.new_session(), Fence(held.fence + step))
    assert bool(grant) == granted
    if not granted:
        assert (await world.live(held.id)).fence == held.fence


async def test_a_stale_epoch_is_refused(world: World) -> None:
    spec = world.spec()
    await world.create(spec)
    session = await world.new_session()
    epoch = world.epochs[spec.shard]
    for stale in (epoch - 1, epoch + 1, 0):
        assert await world.claim(spec, session, mint_fence(stale, 1)) is None
    assert await world.claim(spec, session, mint_fence(epoch, 1))


async def test_an_owner_that_lost_its_shard_gets_nothing(world: World) -> None:
    spec = world.spec()
    await world.create(spec)
    session = await world.new_session()
    await world.sql("UPDATE shards SET epoch = epoch + 1 WHERE shard = %(s)s", s=spec.shard)
    assert await world.claim(spec, session) is None
    await world.sql("UPDATE shards SET owner = %(o)s::uuid WHERE shard = %(s)s", s=spec.shard, o=fresh_id())
    assert await world.claim(spec, session) is None
    await world.sql("UPDATE shards SET owner = NULL, epoch = epoch - 1 WHERE shard = %(s)s", s=spec.shard)
    assert await world.claim(spec, session) is None
    await world.sql("UPDATE shards SET owner = %(o)s::uuid WHERE shard = %(s)s", s=spec.shard, o=world.owner)
    assert await world.claim(spec, session)


async def test_a_foreign_owner_is_refused(world: World) -> None:
    spec = world.spec()
    await world.create(spec)
    claim = Claim(world.entry(spec), world.mint(spec.shard), await world.new_session())
    assert await world.leases.claim([claim], CoordinatorId(fresh_id())) == []
    assert await world.leases.claim([claim], world.owner)


async def test_an_owner_whose_term_ran_out_may_claim_until_it_is_replaced(world: World) -> None:
    """The epoch alone decides; expiry decides who may take the shard over, and that raises the epoch."""
    spec = world.spec()
    await world.create(spec)
    await world.sql("UPDATE coordinators SET expires_at = now() - interval '1 s' WHERE id = %(o)s::uuid", o=world.owner)
    assert await world.claim(spec, await world.new_session())


async def test_another_tenant_cannot_claim(world: World) -> None:
    spec = world.spec()
    await world.create(spec)
    entry = world.entry(spec)
    entry.tenant_id = TenantId(world.tenant + 500_000)
    claim = Claim(entry, world.mint(spec.shard), await world.new_session())
    assert await world.leases.claim([claim], world.owner) == []


async def test_a_batch_grants_what_can_be_granted(world: World) -> None:
    good = [world.spec() for _ in range(3)]
    later = world.spec(delay_s=60.0)
    await world.create(*good, later)
    taken = await world.lease()
    session, other_session = await world.new_session(), await world.new_session()
    claims = [Claim(world.entry(s), world.mint(s.shard), session) for s in (*good, later, taken.spec, world.spec())]
    claims[1] = Claim(claims[1].entry, claims[1].fence, other_session)
    grants = await world.leases.claim(claims, world.owner)
    assert {(g.job_id, g.fence, g.session_id) for g in grants} == {
        (c.entry.id, c.fence, c.session_id) for c in claims[:3]
    }


async def test_one_job_twice_in_a_batch_is_granted_once(world: World) -> None:
    spec = world.spec()
    await world.create(spec)
    session = await world.new_session()
    claims = [Claim(world.entry(spec), world.mint(spec.shard), session) for _ in range(2)]
    (grant,) = await world.leases.claim(claims, world.owner)
    assert (await world.live(spec.id)).fence == grant.fence
    assert (await world.live(spec.id)).attempt == 1


async def test_two_claims_at_once_have_one_winner(world: World) -> None:
    """The second waits for the first one's commit, and then sees what the row has become."""
    spec = world.spec()
    await world.create(spec)
    session = await world.new_session()
    first, second = (Claim(world.entry(spec), world.mint(spec.shard), session) for _ in range(2))
    rival: list[asyncio.Task[list[object]]] = []

    async def claim_and_wait(run: Run) -> None:
        rows = await run(leases_module._CLAIM, params(first, world.owner))
        assert len(rows) == 1
        rival.append(asyncio.create_task(world.leases.claim([second], world.owner)))  # type: ignore[arg-type]
        await world.until_blocked()

    await world.db.writes.transact(claim_and_wait)
    assert await rival[0] == []
    assert (await world.live(spec.id)).fence == first.fence


async def test_a_claim_that_waited_for_a_rollback_gets_the_job(world: World) -> None:
    spec = world.spec()
    await world.create(spec)
    session = await world.new_session()
    first, second = (Claim(world.entry(spec), world.mint(spec.shard), session) for _ in range(2))
    rival: list[asyncio.Task[list[object]]] = []

    async def claim_and_fail(run: Run) -> None:
        await run(leases_module._CLAIM, params(first, world.owner))
        rival.append(asyncio.create_task(world.leases.claim([second], world.owner)))  # type: ignore[arg-type]
        await world.until_blocked()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await world.db.writes.transact(claim_and_fail)
    assert len(await rival[0]) == 1
    assert (await world.live(spec.id)).fence == second.fence
    assert (await world.live(spec.id)).attempt == 1


async def test_a_claim_that_waited_for_a_cancellation_gets_nothing(world: World) -> None:
    spec = world.spec()
    await world.create(spec)
    session = await world.new_session()
    rival: list[asyncio.Task[object]] = []

    async def cancel_and_wait(run: Run) -> None:
        await run("DELETE FROM jobs WHERE id = %(id)s::uuid", {"id": spec.id})
        rival.append(asyncio.create_task(world.claim(spec, session)))
        await world.until_blocked()

    await world.db.writes.transact(cancel_and_wait)
    assert await rival[0] is None


async def test_ten_owners_at_once(world: World) -> None:
    """Only one of them is the owner, and it gets each job once."""
    specs = [world.spec() for _ in range(50)]
    await world.create(*specs)
    session = await world.new_session()
    owners = [world.owner, *(CoordinatorId(fresh_id()) for _ in range(4))] * 2

    async def claim(owner: CoordinatorId) -> list[Fence]:
        claims = [Claim(world.entry(s), world.mint(s.shard), session) for s in specs]
        return [grant.fence for grant in await world.leases.claim(claims, owner)]

    fences = [fence for found in await asyncio.gather(*map(claim, owners)) for fence in found]
    assert len(fences) == len(set(fences)) == 50


async def test_a_claim_is_a_hot_update(lone_world: World) -> None:
    """No index has a column that a claim changes, so claims leave the indexes alone."""
    world = lone_world
    specs = [world.spec() for _ in range(20)]
    await world.create(*specs)
    session = await world.new_session()
    claims = [Claim(world.entry(s), world.mint(s.shard), session) for s in specs]
    assert len(await world.leases.claim(claims, world.owner)) == 20
    await world.sql("SELECT pg_stat_force_next_flush()")
    updated, hot = (await world.sql(UPDATES))[0]
    for _ in range(200):
        if updated:
            break
        # The claiming connection reports its numbers when it is next idle for a moment.
        await world.db.claims.run("SELECT pg_stat_force_next_flush()", {})
        updated, hot = (await world.sql(UPDATES))[0]
    assert (updated, hot) == (20, 20)


UPDATES = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'jobs'"


async def test_leased_at_is_the_database_clock(world: World) -> None:
    before = await world.now()
    held = await world.lease()
    leased_at = (await world.live(held.id)).leased_at
    assert leased_at is not None
    assert before <= leased_at <= await world.now()
    assert leased_at.tzinfo is not None
    assert abs(leased_at - datetime.now(UTC)) < timedelta(seconds=60)


def params(claim: Claim, owner: CoordinatorId) -> dict[str, object]:
    return {
        "tenants": array([claim.entry.tenant_id]),
        "ids": array([claim.entry.id]),
        "fences": array([claim.fence]),
        "sessions": array([claim.session_id]),
        "owner": owner,
    }
