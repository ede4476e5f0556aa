"""Redrives as rows: four at a time, one bite by one coordinator, and progress that is one transaction with its work."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from rota.domain import limits
from rota.domain.deadletter import FIRST, DeadFilter, Place, Redrive, RedriveState
from rota.domain.ids import JobId, TenantId
from rota.domain.model import DeadCause
from rota.store.deadport import DeadTransaction

from .world import World, fresh_id

AT = datetime(2026, 3, 8, tzinfo=UTC)


def plan(world: World, **changes: object) -> Redrive:
    usual: dict[str, object] = {"tenant_id": world.tenant, "id": fresh_id(), "created_at": AT, "filter": DeadFilter()}
    return Redrive(**usual | changes)  # type: ignore[arg-type]


async def add(world: World, *redrives: Redrive) -> list[bool]:
    async def one(redrive: Redrive) -> bool:
        return await world.dead.transact(lambda tx: tx.add(redrive))

    return list(await asyncio.gather(*map(one, redrives)))


async def save(world: World, redrive: Redrive, wait_s: float = 0.0) -> None:
    await world.dead.transact(lambda tx: tx.save(redrive, wait_s))


async def due(world: World) -> list[str]:
    """The one that a bite would be taken of now."""
    found = await world.dead.transact(lambda tx: tx.lock_due())
    return [] if found is None else [found[0].id]


async def only_ours(world: World) -> None:
    """Redrives of other tests' worlds are no more."""
    await world.sql("UPDATE redrives SET state = 3 WHERE tenant_id <> %(tenant)s", tenant=world.tenant)


async def test_what_is_stored_comes_back(world: World) -> None:
    whole = DeadFilter("q", "t", "s", "E", DeadCause.NOT_RETRYABLE, AT, AT.replace(day=9), {"a": "b"})
    by_filter = plan(world, filter=whole, rate=2.5, max_count=7, new_generation=True, reason="why", total=3, author="k")
    by_name = plan(world, filter=None, letters=(JobId(fresh_id()), JobId(fresh_id())))
    everything = plan(world)
    assert await add(world, by_filter, by_name, everything) == [True] * 3
    for redrive in (by_filter, by_name, everything):
        assert await world.dead.redrive(world.tenant, redrive.id) == redrive
    assert await world.dead.redrive(TenantId(world.tenant + 1), everything.id) is None
    ids = [redrive.id for redrive in (everything, by_name, by_filter)]
    assert [r.id for r in await world.dead.redrives(world.tenant, None, 2)] == ids[:2]
    assert [r.id for r in await world.dead.redrives(world.tenant, ids[1], 5)] == ids[2:]


async def test_four_of_a_tenant_run_at_a_time(world: World) -> None:
    wanted = [plan(world) for _ in range(12)]
    added = await add(world, *wanted)
    assert sum(added) == limits.REDRIVES_RUNNING_MAX
    assert await add(world, plan(world)) == [False]
    other = plan(world, tenant_id=TenantId(world.tenant + 500_000))
    assert await add(world, other) == [True]
    running = next(redrive for redrive, taken in zip(wanted, added, strict=True) if taken)
    await save(world, running.cancelled(AT))
    assert await add(world, plan(world), plan(world)) in ([True, False], [False, True])
    # One that is over from its start needs no place.
    assert await add(world, plan(world, state=RedriveState.SUCCEEDED, finished_at=AT)) == [False]


async def test_progress_is_kept_and_its_pace(world: World) -> None:
    redrive = plan(world, total=10)
    await add(world, redrive)
    await only_ours(world)
    after = redrive.carried_on(3, 2, Place(1_774_000_000_123_456, fresh_id()), over=False, now=AT)
    assert await due(world) == [redrive.id]
    await save(world, after, 30.0)
    assert await world.dead.redrive(world.tenant, redrive.id) == after
    assert await due(world) == []
    wait_s = await world.dead.next_redrive_s()
    assert wait_s == pytest.approx(30.0, abs=3.0)
    await world.dead.postpone(world.tenant, redrive.id, 300.0)
    assert await world.dead.next_redrive_s() == pytest.approx(300.0, abs=3.0)
    over = after.carried_on(8, 8, FIRST, over=True, now=AT)
    await save(world, over)
    assert await world.dead.redrive(world.tenant, redrive.id) == over
    await world.dead.postpone(world.tenant, redrive.id, 300.0)
    assert await world.dead.next_redrive_s() is None


async def test_a_late_bite_does_not_make_up_for_more_than_two_seconds(world: World) -> None:
    redrive = plan(world)
    await add(world, redrive)
    await only_ours(world)
    await world.sql("UPDATE redrives SET next_at = now() - interval '1 hour' WHERE id = %(id)s::uuid", id=redrive.id)
    await save(world, redrive, 5.0)
    wait_s = await world.dead.next_redrive_s()
    assert wait_s == pytest.approx(3.0, abs=1.0)


async def test_one_coordinator_takes_a_bite_and_the_other_takes_another_redrive(world: World) -> None:
    first, second = plan(world), plan(world)
    await add(world, first)
    await add(world, second)
    await only_ours(world)
    busy, go_on = asyncio.Event(), asyncio.Event()

    async def bite(tx: DeadTransaction) -> str:
        found = await tx.lock_due()
        assert found is not None
        busy.set()
        await go_on.wait()
        await tx.save(found[0], 60.0)
        return found[0].id

    slow = asyncio.create_task(world.dead.transact(bite))
    await busy.wait()
    others = await due(world)
    assert others == [second.id]
    go_on.set()
    assert await slow == first.id


async def test_a_bite_that_fails_leaves_nothing_behind(world: World) -> None:
    jobs: Sequence[JobId] = [await world.letter() for _ in range(3)]
    redrive = plan(world, total=3)
    await add(world, redrive)

    async def bite(tx: DeadTransaction) -> None:
        await tx.revive(world.tenant, jobs, "k", new_generation=False, redrives_max=20)
        await tx.save(redrive.carried_on(3, 3, FIRST, over=True, now=AT), 0.0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await world.dead.transact(bite)
    assert [await world.where(job) for job in jobs] == [["dead_jobs"]] * 3
    assert await world.dead.redrive(world.tenant, redrive.id) == redrive


async def test_redrives_that_are_over_are_forgotten_with_history(world: World) -> None:
    old, young, running = plan(world), plan(world), plan(world)
    await add(world, old, young, running)
    await only_ours(world)
    now = await world.now()
    await save(world, old.cancelled(now - timedelta(days=15)))
    await save(world, young.cancelled(now - timedelta(days=1)))
    await world.history.forget_schedules(14 * limits.DAY_S, 1_000)
    left = [redrive.id for redrive in await world.dead.redrives(world.tenant, None, 5)]
    assert sorted(left) == sorted([young.id, running.id])
