"""Tenants are apart in every statement: another tenant's ids, fences and sessions find and move nothing.

The intruder knows everything about the job but belongs to another tenant.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from rota.domain.ids import TenantId
from rota.domain.model import Job, JobState, Outcome, SessionState
from rota.domain.transition import Finish, Requeue
from rota.store.port import Claim, JobFilter

from .world import METHOD, Held, World

Try = Callable[[World, TenantId, Held], Awaitable[object]]


async def get(world: World, intruder: TenantId, held: Held) -> object:
    return await world.reader.get(intruder, [held.id])


async def page(world: World, intruder: TenantId, held: Held) -> object:
    return await world.reader.page(intruder, JobFilter(), None, 99)


async def attempts(world: World, intruder: TenantId, held: Held) -> object:
    return await world.reader.attempts(intruder, held.id, 0, 99)


async def live(world: World, intruder: TenantId, held: Held) -> object:
    return (await world.outcomes.live([(intruder, held.id)]))[0]


async def ended(world: World, intruder: TenantId, held: Held) -> object:
    known = (await world.outcomes.ended([(intruder, held.id, held.fence)]))[held.key]
    return [
        value for value in (known.live_fence, known.finished_fence, known.dead_fence, known.attempt_outcome) if value
    ]


async def claim(world: World, intruder: TenantId, held: Held) -> object:
    entry = world.entry(held.spec)
    entry.tenant_id = intruder
    session = await world.new_session(tenant_id=intruder)
    return await world.leases.claim([Claim(entry, world.mint(entry.shard), session)], world.owner)


async def succeed(world: World, intruder: TenantId, held: Held) -> object:
    return await world.outcomes.succeed([world.result(held, tenant_id=intruder)])


async def succeed_and_spawn(world: World, intruder: TenantId, held: Held) -> object:
    done, created = await world.outcomes.succeed_and_spawn(
        world.result(held, tenant_id=intruder), world.call(world.spec(tenant_id=intruder))
    )
    return [*done, *created]


async def _decide(world: World, intruder: TenantId, held: Held, decision: Requeue | Finish) -> object:
    decided = await world.decide(held.id, decision, Outcome.FAILED)
    return await world.apply(replace(decided, job=replace(decided.job, tenant_id=intruder)))


async def requeue(world: World, intruder: TenantId, held: Held) -> object:
    return await _decide(world, intruder, held, Requeue(JobState.RETRY_WAIT, await world.now(), True))


async def finish(world: World, intruder: TenantId, held: Held) -> object:
    return await _decide(world, intruder, held, Finish(JobState.CANCELLED, True))


async def bury(world: World, intruder: TenantId, held: Held) -> object:
    return await _decide(world, intruder, held, Finish(JobState.DEAD, True, "r"))


async def set_cancelling(world: World, intruder: TenantId, held: Held) -> object:
    return await world.jobs.set_cancelling(intruder, held.id, held.fence, "mine")


async def earlier(world: World, intruder: TenantId, held: Held) -> object:
    return await world.jobs.earlier([world.call(world.spec(tenant_id=intruder), request_id=f"r-{held.id}")])


async def sessions(world: World, intruder: TenantId, held: Held) -> object:
    return await world.sessions.page(intruder, None, 99)


async def drain(world: World, intruder: TenantId, held: Held) -> object:
    return await world.sessions.set_state(intruder, held.grant.session_id, SessionState.DRAINING)


async def close(world: World, intruder: TenantId, held: Held) -> object:
    return await world.sessions.set_state(intruder, held.grant.session_id, SessionState.CLOSED)


TRIES: list[Try] = [
    get, page, attempts, live, ended, claim, succeed, succeed_and_spawn, requeue, finish, bury, set_cancelling, earlier,
    sessions, drain, close,
]  # fmt: skip


@pytest.mark.parametrize("attempt", TRIES)
async def test_an_intruder_finds_and_moves_nothing(world: World, attempt: Try) -> None:
    intruder = TenantId(world.tenant + 500_000)
    spec = world.spec()
    await world.jobs.create([world.call(spec, request_id=f"r-{spec.id}", method=METHOD)])
    session = await world.new_session()
    await world.fail(await world.lease(spec, session))
    held = await world.lease(spec, session)
    before = await seen(world, held)
    assert not await attempt(world, intruder, held)
    assert await seen(world, held) == before
    assert await world.value("SELECT count(*) FROM jobs WHERE tenant_id = %(t)s", t=intruder) == 0


async def seen(world: World, held: Held) -> tuple[Job, list[object], object]:
    """All that the tenant itself sees."""
    job = await world.job(held.id)
    found: list[object] = [*await world.reader.attempts(world.tenant, held.id, 0, 99)]
    return job, found, await world.sessions.get(held.grant.session_id)
