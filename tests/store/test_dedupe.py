"""Dedupe keys: at most one job for a key in its scope, however many ask at once."""

import asyncio
from typing import Any

import pytest

from rota.domain.errors import AlreadyExists
from rota.domain.ids import JobId, TenantId
from rota.domain.model import Dedupe, DedupeConflict, DedupeScope, JobSpec
from rota.store import jobs as jobs_module
from rota.store.engine import Row, Run

from .world import World, ids

RETURN = DedupeConflict.RETURN_EXISTING
FAIL = DedupeConflict.FAIL


def keyed(
    world: World,
    key: str = "k",
    *,
    scope: DedupeScope = DedupeScope.TYPE,
    window_s: float | None = None,
    on_conflict: DedupeConflict = RETURN,
    **changes: Any,
) -> JobSpec:
    return world.spec(dedupe=Dedupe(key, scope, window_s, on_conflict), **changes)


async def ask(world: World, *specs: JobSpec, request_id: str = "") -> list[JobId]:
    """The job that each wish leads to: a new one's own id, or the holder's."""
    answer = await world.jobs.create_deduped(world.call(*specs, request_id=request_id))
    assert answer is not None
    created, holders = answer
    assert set(created) == {spec.id for index, spec in enumerate(specs) if index not in holders}
    return [holders.get(index, spec.id) for index, spec in enumerate(specs)]


async def test_a_key_is_held_while_its_job_lives(world: World) -> None:
    first, second, third = (keyed(world) for _ in range(3))
    assert await ask(world, first) == [first.id]
    assert await ask(world, second) == [first.id]
    held = await world.lease(first)
    assert await ask(world, second) == [first.id]
    await world.fail(held)
    assert await ask(world, second) == [first.id]
    await world.succeed(await world.lease(first))
    assert await ask(world, second) == [second.id]
    assert await ask(world, third) == [second.id]
    assert await world.count("jobs") == 1


@pytest.mark.parametrize("end", ["cancel", "bury"])
async def test_any_end_frees_the_key(world: World, end: str) -> None:
    first, second = keyed(world), keyed(world)
    await ask(world, first)
    if end == "cancel":
        await world.cancel(first)
    else:
        await world.bury(await world.lease(first))
    assert await ask(world, second) == [second.id]


async def test_another_tenants_job_does_not_hold_a_key(world: World) -> None:
    """Not even one with the very id of the job that did."""
    first, second = keyed(world), keyed(world)
    await ask(world, first)
    await world.create(world.spec(id=first.id, tenant_id=TenantId(world.tenant + 500_000)))
    await world.cancel(first)
    assert await ask(world, second) == [second.id]


@pytest.mark.parametrize(
    ("scope", "other", "same_key"),
    [
        (DedupeScope.TYPE, {"type": "other"}, False),
        (DedupeScope.TYPE, {"queue": "other"}, True),
        (DedupeScope.QUEUE, {"type": "other"}, True),
        (DedupeScope.QUEUE, {"queue": "other"}, False),
        (DedupeScope.TENANT, {"type": "other", "queue": "other"}, True),
        (DedupeScope.TENANT, {"tenant_id": TenantId(77_000)}, False),
        (DedupeScope.TYPE, {"tenant_id": TenantId(77_001)}, False),
    ],
)
async def test_scopes(world: World, scope: DedupeScope, other: dict[str, Any], same_key: bool) -> None:
    first, second = keyed(world, scope=scope), keyed(world, scope=scope, **other)
    await ask(world, first)
    assert await ask(world, second) == [first.id if same_key else second.id]


async def test_scopes_do_not_meet(world: World) -> None:
    """Nor does a key that looks like the inside of another one's."""
    specs = [
        keyed(world, "a", scope=DedupeScope.TYPE, type="t", queue="t"),
        keyed(world, "a", scope=DedupeScope.QUEUE, type="t", queue="t"),
        keyed(world, "a", scope=DedupeScope.TENANT, type="t", queue="t"),
        keyed(world, "t/a", scope=DedupeScope.TENANT, type="t", queue="t"),
        keyed(world, "type/t/a", scope=DedupeScope.TENANT, type="t", queue="t"),
    ]
    assert await ask(world, *specs) == [spec.id for spec in specs]


async def test_types_and_keys_with_slashes_do_not_meet(world: World) -> None:
    """A type may hold slashes: (a, b/c) is not (a/b, c)."""
    specs = [keyed(world, "b/c", type="a"), keyed(world, "c", type="a/b")]
    assert await ask(world, *specs) == [spec.id for spec in specs]


async def test_a_window_outlives_the_job_and_ends(world: World) -> None:
    first, second = keyed(world, window_s=3_600.0), keyed(world, window_s=3_600.0)
    await ask(world, first)
    await world.succeed(await world.lease(first))
    assert await ask(world, second) == [first.id]
    await world.sql(
        "UPDATE dedupe_keys SET held_until = now() - interval '1 microsecond' WHERE tenant_id = %(t)s", t=world.tenant
    )
    assert await ask(world, second) == [second.id]


async def test_a_window_may_be_shorter_than_the_job(world: World) -> None:
    first, second = keyed(world, window_s=3_600.0), keyed(world)
    await ask(world, first)
    await world.sql("UPDATE dedupe_keys SET held_until = now() WHERE tenant_id = %(t)s", t=world.tenant)
    assert await ask(world, second) == [second.id]
    assert await world.count("jobs") == 2


async def test_fail_names_the_holder_and_leaves_nothing(world: World) -> None:
    first, other, second = keyed(world), keyed(world, "free"), keyed(world, on_conflict=FAIL)
    await ask(world, first)
    with pytest.raises(AlreadyExists, match="'k' is held by jobs/") as refused:
        await ask(world, other, second, world.spec(), request_id="r")
    assert (refused.value.reason, refused.value.metadata) == ("RESOURCE_EXISTS", {"holder": f"jobs/{first.id}"})
    assert await world.count("jobs") == 1
    assert await world.count("dedupe_keys") == 1
    # The request_id was not used up: another try may succeed.
    await world.cancel(first)
    assert await ask(world, other, second, request_id="r") == [other.id, second.id]


@pytest.mark.parametrize("window_s", [None, 60.0])
async def test_one_key_twice_in_a_batch_is_one_job(world: World, window_s: float | None) -> None:
    first, plain, second = keyed(world, window_s=window_s), world.spec(), keyed(world, window_s=window_s)
    assert await ask(world, first, plain, second) == [first.id, plain.id, first.id]
    assert await world.count("jobs") == 2
    assert await ask(world, keyed(world)) == [first.id]


async def test_one_key_twice_in_a_batch_where_the_later_one_must_not_exist(world: World) -> None:
    with pytest.raises(AlreadyExists):
        await ask(world, keyed(world), keyed(world, on_conflict=FAIL))
    assert await world.count("jobs") == 0


async def test_a_taken_request_id_leaves_no_hold(world: World) -> None:
    first, second = keyed(world, "a"), keyed(world, "b")
    assert await ask(world, first, request_id="r") == [first.id]
    assert await world.jobs.create_deduped(world.call(second, request_id="r")) is None
    third = keyed(world, "b")
    assert await ask(world, third) == [third.id]
    assert await world.count("jobs") == 2


async def test_the_request_remembers_the_holders(world: World) -> None:
    first, second, third = keyed(world), keyed(world), keyed(world, "free")
    await ask(world, first)
    call = world.call(second, third, request_id="r")
    await world.jobs.create_deduped(call)
    ((_, earlier),) = (await world.jobs.earlier([call])).items()
    assert earlier.jobs == (first.id, third.id)


@pytest.mark.parametrize("window_s", [None, 60.0])
async def test_twenty_callers_with_one_key_make_one_job(world: World, window_s: float | None) -> None:
    specs = [keyed(world, window_s=window_s) for _ in range(20)]
    found = await asyncio.gather(*(ask(world, spec) for spec in specs))
    assert len({job for (job,) in found}) == 1
    assert await world.count("jobs") == 1


async def test_twenty_callers_take_one_freed_key_over(world: World) -> None:
    dead = keyed(world)
    await ask(world, dead)
    await world.cancel(dead)
    specs = [keyed(world) for _ in range(20)]
    found = await asyncio.gather(*(ask(world, spec) for spec in specs))
    assert len({job for (job,) in found} & ids(specs)) == 1
    assert await world.count("jobs") == 1


async def test_batches_with_keys_in_other_orders_do_not_deadlock(world: World) -> None:
    keys = [f"k{n}" for n in range(10)]

    async def batch(order: list[str]) -> set[JobId]:
        return set(await ask(world, *(keyed(world, key) for key in order)))

    found = await asyncio.gather(*(batch(keys if n % 2 else keys[::-1]) for n in range(8)))
    assert len(set.union(*found)) == len(keys)
    assert await world.count("jobs") == len(keys)


async def test_a_key_that_is_forgotten_between_two_steps(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The janitor deletes an ended job's hold just after it was found in the way: the key is free, not in error."""
    dead, spec = keyed(world), keyed(world)
    await ask(world, dead)
    await world.cancel(dead)
    hold = jobs_module._hold
    forgotten: list[int] = []

    async def hold_with_a_janitor_in_between(run: Run, spec: JobSpec, key: str) -> JobId | None:
        async def run_then_forget(sql: str, params: Any) -> list[Row]:
            rows = await run(sql, params)
            if sql == jobs_module._HOLD and not forgotten:
                forgotten.append(await world.history.delete_requests(3_600.0, 100))
            return rows

        return await hold(run_then_forget, spec, key)

    monkeypatch.setattr(jobs_module, "_hold", hold_with_a_janitor_in_between)
    assert await ask(world, spec) == [spec.id]
    assert forgotten == [1]
    assert await ask(world, keyed(world)) == [spec.id]


async def test_the_janitor_does_not_delete_a_key_that_was_just_taken_over(world: World) -> None:
    """It saw the hold of an ended job; before it could delete, a new job took the key over and committed."""
    dead, spec = keyed(world), keyed(world)
    await ask(world, dead)
    await world.cancel(dead)
    janitor: list[asyncio.Task[int]] = []

    async def take_over(run: Run) -> None:
        assert await jobs_module._hold(run, spec, jobs_module.scoped_key(spec)) is None
        janitor.append(asyncio.create_task(world.history.delete_requests(3_600.0, 100)))
        await world.until_blocked()
        await run(jobs_module.CREATE, jobs_module.create_params([world.call(spec)]))

    await world.db.writes.transact(take_over)
    await janitor[0]
    assert await ask(world, keyed(world)) == [spec.id]
    assert await world.count("jobs") == 1


async def test_the_janitor_does_not_delete_a_window_that_was_just_taken_over(world: World) -> None:
    old, spec = keyed(world, window_s=60.0), keyed(world, window_s=60.0)
    await ask(world, old)
    await world.cancel(old)
    await world.sql(
        "UPDATE dedupe_keys SET held_until = now() - interval '1 second' WHERE tenant_id = %(t)s", t=world.tenant
    )
    janitor: list[asyncio.Task[int]] = []

    async def take_over(run: Run) -> None:
        assert await jobs_module._hold(run, spec, jobs_module.scoped_key(spec)) is None
        janitor.append(asyncio.create_task(world.history.delete_requests(3_600.0, 100)))
        await world.until_blocked()
        await run(jobs_module.CREATE, jobs_module.create_params([world.call(spec)]))

    await world.db.writes.transact(take_over)
    await janitor[0]
    assert await ask(world, keyed(world, window_s=60.0)) == [spec.id]


async def test_a_repeated_call_is_not_refused_for_its_own_job(world: World) -> None:
    """Its first answer was lost: the holder that the second try finds is what the first one made."""
    first, again = keyed(world, on_conflict=FAIL), keyed(world, on_conflict=FAIL)
    assert await ask(world, first, request_id="r") == [first.id]
    assert await world.jobs.create_deduped(world.call(again, request_id="r")) is None
    with pytest.raises(AlreadyExists):
        await ask(world, again, request_id="another")
    assert await world.count("jobs") == 1
