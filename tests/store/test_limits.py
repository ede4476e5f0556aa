"""Exact limits: what is granted keeps within what is stored, whoever claims, changes it or dies meanwhile."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from rota.domain.errors import Unavailable
from rota.domain.ids import TenantId
from rota.domain.limiting import AGAIN_S, Gate, LimitedGrants
from rota.domain.model import JobSpec, JobState, Outcome
from rota.domain.queue import QueueSettings
from rota.domain.transition import Requeue
from rota.store import leases as leases_module
from rota.store import slots
from rota.store.engine import Database, Run
from rota.store.leases import PgLeases
from rota.store.queues import PgQueues

from .limited import Limited, granted
from .world import Held


@pytest_asyncio.fixture
async def world(shared_database: str) -> AsyncIterator[Limited]:
    async with Limited(shared_database) as world:
        yield world


async def test_only_so_many_are_leased_at_a_time_and_the_first_are(world: Limited) -> None:
    specs = await world.made(5)
    await world.limit(max_in_flight=2)
    first = await world.ask(*specs)
    assert set(granted(first)) == {specs[0].id, specs[1].id}
    assert first.closed == {world.gate(): None}
    assert granted(await world.ask(specs[3])) == []
    held = [Held(s, g) for s in specs for g in first.grants if g.job_id == s.id]
    assert await world.succeed(held[0])
    assert granted(await world.ask(specs[4], specs[2])) == [specs[4].id]


@pytest.mark.parametrize("end", ["success", "failure", "release", "death", "cancellation", "fenced out"])
async def test_whatever_ends_a_lease_frees_its_place(world: Limited, end: str) -> None:
    """None of them knows of slots."""
    await world.limit(max_in_flight=1)
    first, second = await world.made(2)
    (held,) = await world.held(first)
    assert await world.held(second) == []
    if end == "success":
        await world.succeed(held)
    elif end == "failure":
        await world.fail(held, wait_s=60.0)
    elif end == "release":
        await world.apply(
            await world.decide(first.id, Requeue(JobState.SCHEDULED, await world.now(), False), Outcome.RELEASED)
        )
    elif end == "death":
        await world.bury(held)
    else:
        if end == "cancellation":
            await world.cancelling(held)
            assert await world.held(second) == []
        await world.cancel(first)
    assert len(await world.held(second)) == 1


async def test_a_job_leased_again_takes_one_place(world: Limited) -> None:
    await world.limit(max_in_flight=2)
    first, second = await world.made(2)
    for _ in range(5):
        (held,) = await world.held(first)
        await world.fail(held)
    await world.held(first)
    assert len(await world.held(second)) == 1


async def test_keys_are_limited_each_by_itself(world: Limited) -> None:
    await world.limit(max_in_flight_per_key=1)
    keyed = [(await world.made(1, concurrency_key=key))[0] for key in ("k", "k", "l", "l")]
    free = await world.made(2)
    found = await world.ask(*keyed, *free)
    assert set(granted(found)) == {keyed[0].id, keyed[2].id, *(s.id for s in free)}
    assert found.closed == {world.gate(key="k"): None, world.gate(key="l"): None}
    grant = next(g for g in found.grants if g.job_id == keyed[0].id)
    assert await world.succeed(Held(keyed[0], grant))
    assert granted(await world.ask(keyed[1], keyed[3])) == [keyed[1].id]


async def test_a_key_means_nothing_in_another_queue(world: Limited) -> None:
    for queue in ("a", "b"):
        await world.limit(queue, max_in_flight_per_key=1)
    specs = [(await world.made(1, queue=queue, concurrency_key="k"))[0] for queue in ("a", "b")]
    assert len(await world.held(*specs)) == 2


async def test_a_tenant_is_limited_over_all_its_queues(world: Limited) -> None:
    await world.limit_tenant(3)
    await world.limit("a", max_in_flight=1)
    a, b = await world.made(3, queue="a"), await world.made(3, queue="b")
    found = await world.ask(*a, *b)
    assert set(granted(found)) == {a[0].id, b[0].id, b[1].id}
    assert found.closed == {world.gate("a"): None, Gate(world.tenant): None}
    assert granted(await world.ask(b[2])) == []


async def test_nobody_else_is_limited(world: Limited) -> None:
    await world.limit("a", max_in_flight=1)
    await world.limit_tenant(1)
    other = TenantId(world.tenant + 1_000_000)
    specs = await world.made(3, tenant_id=other, queue="a")
    assert len(await world.leases.claim(world.wishes(specs[:1]), world.owner)) == 1
    assert len(await world.held(*specs[1:])) == 2


async def test_what_has_no_limits_is_granted_by_either_claim(world: Limited) -> None:
    await world.limit(weight=7)
    plain, limited = await world.made(2)
    assert await world.claim(plain, world.session_id) is not None
    assert len(await world.held(limited)) == 1
    assert await world.slots() == 0


@pytest.mark.parametrize("what", ["in flight", "per key", "rate", "paused", "tenant"])
async def test_a_plain_claim_never_grants_what_is_limited(world: Limited, what: str) -> None:
    """A coordinator may not have heard of it yet; what else is in its batch is granted."""
    specs, free = await world.made(2, queue="a"), await world.made(2, queue="b")
    if what == "in flight":
        await world.limit("a", max_in_flight=100)
    elif what == "per key":
        await world.limit("a", max_in_flight_per_key=100)
    elif what == "rate":
        await world.limit("a", rate=100.0)
    elif what == "paused":
        await world.queues.pause(world.tenant, "a", "", "")
    else:
        await world.limit_tenant(100)
        free = []
    other = await world.made(1, tenant_id=TenantId(world.tenant + 1_000_000), queue="a")
    grants = await world.leases.claim(world.wishes([*specs, *free, *other]), world.owner)
    assert {grant.job_id for grant in grants} == {spec.id for spec in [*free, *other]}


async def test_a_changed_limit_acts_at_once(world: Limited) -> None:
    specs = await world.made(6)
    await world.limit(max_in_flight=1)
    held = await world.held(*specs)
    await world.limit(max_in_flight=3)
    held += await world.held(*specs[1:])
    assert len(held) == 3
    await world.limit(max_in_flight=1)
    await world.succeed(held[0])
    await world.succeed(held[1])
    assert await world.held(*specs) == []
    await world.succeed(held[2])
    assert len(await world.held(*specs[3:])) == 1


async def test_leases_from_before_the_limit_are_counted(world: Limited) -> None:
    specs = await world.made(4)
    for spec in specs[:2]:
        assert await world.claim(spec, world.session_id)
    await world.made(3, queue="other")
    await world.limit(max_in_flight=3)
    assert await world.slots() == 2
    assert len(await world.held(*specs[2:])) == 1


@pytest.mark.parametrize("key", ["", "k"])
async def test_so_they_are_for_keys_and_tenants(world: Limited, key: str) -> None:
    specs = await world.made(3, concurrency_key="k")
    assert await world.claim(specs[0], world.session_id)
    await (world.limit(max_in_flight_per_key=1) if key else world.limit_tenant(1))
    assert await world.held(*specs[1:]) == []


async def test_a_limit_taken_away_and_set_again_counts_what_was_leased_in_between(world: Limited) -> None:
    specs = await world.made(5)
    await world.limit(max_in_flight=1)
    (first,) = await world.held(specs[0])
    await world.limit()
    assert await world.slots() == 0
    assert await world.claim(specs[1], world.session_id)
    await world.succeed(first)
    await world.limit(max_in_flight=2)
    assert len(await world.held(*specs[2:])) == 1


async def test_a_limit_put_over_another_kind_counts(world: Limited) -> None:
    """What a rate alone let through has no slots."""
    specs = await world.made(4)
    await world.limit(rate=100.0)
    assert len(await world.held(*specs[:2])) == 2
    assert await world.slots() == 0
    await world.limit(rate=100.0, max_in_flight=3)
    assert len(await world.held(*specs[2:])) == 1
    await world.limit_tenant(3)
    await world.limit()
    assert await world.slots() == 3
    assert await world.held(specs[3]) == []


async def test_until_they_are_counted_nothing_is_granted(world: Limited, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever set the limit died before it came to counting: the next to read the settings does it."""
    specs = await world.made(3)
    assert await world.claim(specs[0], world.session_id)

    async def die(self: PgQueues) -> None:
        raise Unavailable("gone")

    with monkeypatch.context() as patched:
        patched.setattr(PgQueues, "_count_leased", die)
        await world.limit(max_in_flight=2)
    found = await world.ask(*specs[1:])
    assert (found.grants, found.closed) == ([], {world.gate(): AGAIN_S})
    configs = await world.queues.configs()
    assert configs is not None
    assert await world.queues.configs(configs.version) is None
    assert len(await world.held(*specs[1:])) == 1


@pytest.mark.parametrize("by", ["queue", "key", "tenant"])
async def test_of_two_that_race_for_one_place_the_second_waits_and_sees_it_taken(world: Limited, by: str) -> None:
    first, second = await world.made(2, concurrency_key="k")
    if by == "queue":
        await world.limit(max_in_flight=1)
    elif by == "key":
        await world.limit(max_in_flight_per_key=1)
    else:
        await world.limit_tenant(1)
        (second,) = await world.made(1, queue="other")
    rival: list[asyncio.Task[LimitedGrants]] = []

    async def claim_and_wait(run: Run) -> None:
        found = await leases_module._claim_limited(run, world.wishes([first]), world.owner)
        assert granted(found) == [first.id]
        rival.append(asyncio.create_task(world.ask(second)))
        await world.until_blocked()

    await world.db.writes.transact(claim_and_wait)
    assert granted(await rival[0]) == []


async def test_a_slot_stands_for_its_own_lease_only(world: Limited) -> None:
    """Whatever was leased under another fence has a slot of its own."""
    await world.limit(max_in_flight=1)
    first, second = await world.made(2)
    await world.held(first)
    await world.sql("UPDATE lease_slots SET fence = fence - 1 WHERE tenant_id = %(t)s", t=world.tenant)
    assert len(await world.held(second)) == 1


async def test_a_place_that_was_given_back_by_a_rollback_is_free(world: Limited) -> None:
    await world.limit(max_in_flight=1, rate=0.001)
    first, second = await world.made(2)
    rival: list[asyncio.Task[LimitedGrants]] = []

    async def claim_and_fail(run: Run) -> None:
        await leases_module._claim_limited(run, world.wishes([first]), world.owner)
        rival.append(asyncio.create_task(world.ask(second)))
        await world.until_blocked()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await world.db.writes.transact(claim_and_fail)
    assert granted(await rival[0]) == [second.id]


async def test_many_coordinators_at_once_never_grant_too_much(world: Limited) -> None:
    """Over several queues in opposite orders, so that locks taken out of order would meet."""
    await world.limit_tenant(9)
    await world.limit("a", max_in_flight=5)
    await world.limit("b", max_in_flight=6)
    others = [Database(world.url) for _ in range(4)]
    try:
        for _ in range(5):
            specs = [*await world.made(12, queue="a"), *await world.made(12, queue="b")]
            calls = [
                PgLeases(db).claim_limited(world.wishes(specs[part::4][:: 1 if part % 2 else -1]), world.owner)
                for part, db in enumerate(others)
            ]
            found = [grant for answer in await asyncio.gather(*calls) for grant in answer.grants]
            by_id = {spec.id: spec for spec in specs}
            assert len(found) == 9
            assert await world.leased("a") <= 5
            assert await world.leased("b") <= 6
            for grant in found:
                assert await world.succeed(Held(by_id[grant.job_id], grant))
    finally:
        for db in others:
            await db.close()


async def test_a_plain_claim_on_its_way_is_waited_for_and_counted(world: Limited) -> None:
    first, second = await world.made(2)
    setting: list[asyncio.Task[None]] = []
    claim = world.wishes([first])
    params = leases_module._claim_params(claim, world.owner) | slots.queue_params(slots.queue_keys(claim))

    async def claim_and_wait(run: Run) -> None:
        assert len(await run(leases_module._CLAIM_UNLIMITED, params)) == 1
        setting.append(asyncio.create_task(world.limit(max_in_flight=1)))
        await world.until_blocked()

    await world.db.claims.transact(claim_and_wait)
    await setting[0]
    assert await world.held(second) == []


async def test_a_limited_claim_of_something_else_is_waited_for_too(world: Limited) -> None:
    """It has read that this queue has no limits."""
    first, second = await world.made(2)
    setting: list[asyncio.Task[None]] = []

    async def claim_and_wait(run: Run) -> None:
        await leases_module._claim_limited(run, world.wishes([first]), world.owner)
        setting.append(asyncio.create_task(world.limit(max_in_flight=1)))
        await world.until_blocked()

    await world.db.claims.transact(claim_and_wait)
    await setting[0]
    assert await world.held(second) == []


@pytest.mark.parametrize("limited", [False, True])
async def test_a_claim_that_waited_for_a_change_keeps_to_it(world: Limited, limited: bool) -> None:
    first, second = await world.made(2)
    assert await world.claim(first, world.session_id)
    waiting: list[asyncio.Task[list[str]]] = []

    async def claim() -> list[str]:
        if limited:
            return granted(await world.ask(second))
        return [grant.job_id for grant in await world.leases.claim(world.wishes([second]), world.owner)]

    async def change_and_wait(run: Run) -> None:
        await run("LOCK TABLE queues IN EXCLUSIVE MODE", {})
        await run(
            """INSERT INTO queues (tenant_id, id, weight, max_in_flight, version, created_at, updated_at)
               VALUES (%(tenant)s, 'default', 100, 1, 1, now(), now())""",
            {"tenant": world.tenant},
        )
        waiting.append(asyncio.create_task(claim()))
        await world.until_blocked()

    await world.db.writes.transact(change_and_wait)
    assert await waiting[0] == []


async def test_dumps_and_lists_do_not_stand_in_the_way_of_a_change(world: Limited) -> None:
    async def read_and_change(run: Run) -> None:
        await run("SELECT count(*) FROM queues", {})
        await run("SELECT count(*) FROM tenants", {})
        await world.limit(max_in_flight=1)
        await world.limit_tenant(1)

    await world.db.claims.transact(read_and_change)


async def test_a_paused_queue_grants_nothing_until_it_goes_on(world: Limited) -> None:
    await world.limit(weight=5)
    (spec,) = await world.made(1)
    await world.queues.pause(world.tenant, "default", "maintenance", "key")
    found = await world.ask(spec)
    assert (found.grants, found.closed) == ([], {world.gate(): None})
    resumed = await world.queues.resume(world.tenant, "default")
    assert resumed is not None
    assert (resumed.pause, resumed.settings.weight) == (None, 5)
    assert await world.claim(spec, world.session_id)


async def test_the_place_of_a_job_that_was_gone_is_not_lost(world: Limited) -> None:
    """Whoever was refused for it is told to ask again at once."""
    await world.limit(max_in_flight=1, rate=0.001)
    gone, there = await world.made(2)
    await world.cancel(gone)
    found = await world.ask(gone, there)
    assert (found.grants, found.closed) == ([], {world.gate(): 0.0})
    assert len(await world.held(there)) == 1


@pytest.mark.parametrize("by", ["key", "queue", "tenant"])
async def test_slots_of_ended_leases_do_not_pile_up(world: Limited, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million orders, each with a key of its own, leave as many rows as are leased, and a few more; and so do the
    jobs of a queue whose limit is far away."""
    monkeypatch.setattr(slots, "SWEEP_FROM", 40)
    if by == "key":
        await world.limit(max_in_flight_per_key=1)
    elif by == "queue":
        await world.limit(max_in_flight=245)
    else:
        await world.limit_tenant(245)
    kept = await world.held(*[(await world.made(1, concurrency_key=f"stays-{n}"))[0] for n in range(5)])
    assert len(kept) == 5
    for round in range(12):
        queue = "default" if by != "tenant" or round % 2 else "other"
        specs = [world.spec(queue=queue, concurrency_key=f"order-{round}-{n}") for n in range(20)]
        await world.create(*specs)
        for held in await world.held(*specs):
            await world.succeed(held)
    assert await world.slots() <= 40 + 5 + 2 * 20 + slots.SWEEP_MIN
    if by == "key":
        assert await world.held(*await world.made(1, concurrency_key="stays-3")) == []
    else:
        assert len(await world.held(*await world.made(250))) == 240


async def test_a_random_walk_of_claims_ends_and_changes(world: Limited) -> None:
    """After each grant: no gate has more leases than its limit says, by the rows of the jobs themselves."""
    rng = random.Random(11)
    running: list[Held] = []
    waiting: list[JobSpec] = []
    now: dict[str, QueueSettings] = {}
    tenant_most: int | None = None
    for step in range(150):
        action = rng.random()
        queue = rng.choice("ab")
        if action < 0.12:
            now[queue] = QueueSettings(
                max_in_flight=rng.choice([None, 1, 2, 4]), max_in_flight_per_key=rng.choice([None, 1, 2])
            )
            await world.limit(
                queue,
                max_in_flight=now[queue].max_in_flight,
                max_in_flight_per_key=now[queue].max_in_flight_per_key,
            )
        elif action < 0.16:
            tenant_most = rng.choice([None, 2, 5])
            await world.limit_tenant(tenant_most)
        elif action < 0.45 and running:
            held = running.pop(rng.randrange(len(running)))
            if rng.random() < 0.7:
                assert await world.succeed(held)
            else:
                await world.fail(held)
                waiting.append(held.spec)
        else:
            waiting += await world.made(rng.randint(1, 3), queue=queue, concurrency_key=rng.choice(["", "k", "l"]))
            rng.shuffle(waiting)
            asked = waiting[:4]
            before = await in_flight(world)
            if rng.random() < 0.3:
                grants = await world.leases.claim(world.wishes(asked), world.owner)
            else:
                grants = (await world.ask(*asked)).grants
            by_id = {grant.job_id: grant for grant in grants}
            running += [Held(s, by_id[s.id]) for s in asked if s.id in by_id]
            waiting = [s for s in waiting if s.id not in by_id]
            after = await in_flight(world)
            for gate, leased in after.items():
                most = _most(gate, now, tenant_most)
                assert most is None or leased <= max(most, before.get(gate, 0)), (step, gate, leased, most)


def _most(gate: tuple[str, str], now: dict[str, QueueSettings], tenant_most: int | None) -> int | None:
    queue, key = gate
    if not queue:
        return tenant_most
    settings = now.get(queue, QueueSettings())
    return settings.max_in_flight_per_key if key else settings.max_in_flight


async def in_flight(world: Limited) -> dict[tuple[str, str], int]:
    rows = await world.sql(
        "SELECT queue, coalesce(concurrency_key, ''), count(*) FROM jobs "
        "WHERE tenant_id = %(t)s AND state IN (3, 5) GROUP BY 1, 2",
        t=world.tenant,
    )
    found: dict[tuple[str, str], int] = {}
    for queue, key, count in rows:
        for gate in {(queue, key), (queue, ""), ("", "")}:
            found[gate] = found.get(gate, 0) + count
    return found
