"""Settings of queues and tenants, what is in the queues, and the coordinators and shards of an installation."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from rota.domain import limits
from rota.domain.errors import ResourceExhausted, Unavailable
from rota.domain.ids import CoordinatorId, ShardNo, TenantId
from rota.domain.model import JobState, SessionState
from rota.domain.queue import QueueCounts, QueueSettings
from rota.domain.tenant import TenantSettings
from rota.store import queues as queues_module
from rota.store.engine import Run
from rota.store.fleet import PgFleet
from rota.store.queueport import QueueFilter

from .limited import Limited
from .world import World, fresh_id

ALL = [ShardNo(number) for number in range(limits.SHARD_COUNT)]
FULL = QueueSettings(7, 2.5, 3, 4, 5)


@pytest_asyncio.fixture
async def world(shared_database: str) -> AsyncIterator[Limited]:
    async with Limited(shared_database) as world:
        yield world


async def test_settings_are_kept_and_a_version_is_given_for_each_change(world: Limited) -> None:
    assert await world.queues.get(world.tenant, "a") is None
    first = await world.queues.save(world.tenant, "a", FULL, 0)
    assert first is not None
    assert (first.settings, first.version, first.pause, first.limited) == (FULL, 1, None, True)
    assert await world.queues.get(world.tenant, "a") == first
    second = await world.queues.save(world.tenant, "a", QueueSettings(), 1)
    assert second is not None
    assert (second.settings, second.version, second.limited) == (QueueSettings(), 2, False)
    assert await world.queues.get(TenantId(world.tenant + 1), "a") is None


@pytest.mark.parametrize("version", [0, 2])
async def test_a_change_of_another_version_changes_nothing(world: Limited, version: int) -> None:
    await world.queues.save(world.tenant, "a", FULL, 0)
    assert await world.queues.save(world.tenant, "a", QueueSettings(), version) is None
    stored = await world.queues.get(world.tenant, "a")
    assert stored is not None
    assert (stored.settings, stored.version) == (FULL, 1)


async def test_of_many_changes_at_once_each_version_is_made_by_one(world: Limited) -> None:
    calls = [world.queues.save(world.tenant, "a", QueueSettings(weight=n + 1), 0) for n in range(8)]
    done = [found for found in await asyncio.gather(*calls) if found]
    assert len(done) == 1
    assert await world.queues.get(world.tenant, "a") == done[0]


async def test_pausing_twice_keeps_the_first_reason_and_resuming_twice_is_safe(world: Limited) -> None:
    before = await world.now()
    paused = await world.queues.pause(world.tenant, "a", "maintenance", "k1")
    assert paused.pause is not None
    assert (paused.pause.reason, paused.pause.author, paused.version) == ("maintenance", "k1", 1)
    assert before <= paused.pause.since <= await world.now()
    assert await world.queues.pause(world.tenant, "a", "other", "k2") == paused
    resumed = await world.queues.resume(world.tenant, "a")
    assert resumed is not None
    assert (resumed.pause, resumed.version) == (None, 2)
    assert await world.queues.resume(world.tenant, "a") == resumed
    assert await world.queues.resume(world.tenant, "unknown") is None


async def test_settings_and_pause_do_not_touch_each_other(world: Limited) -> None:
    await world.queues.save(world.tenant, "a", FULL, 0)
    paused = await world.queues.pause(world.tenant, "a", "r", "k")
    changed = await world.queues.save(world.tenant, "a", QueueSettings(weight=9), paused.version)
    assert changed is not None
    assert (changed.pause, changed.settings.weight) == (paused.pause, 9)


async def test_a_tenant_has_settings_for_so_many_queues(world: Limited, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "QUEUES_MAX", 2)
    for id in ("a", "b"):
        await world.queues.save(world.tenant, id, FULL, 0)
    with pytest.raises(ResourceExhausted) as refused:
        await world.queues.save(world.tenant, "c", FULL, 0)
    assert refused.value.reason == "QUOTA_EXCEEDED"
    with pytest.raises(ResourceExhausted):
        await world.queues.pause(world.tenant, "c", "", "")
    assert await world.queues.save(world.tenant, "a", QueueSettings(), 1)


async def test_pages_go_by_the_bytes_of_ids(world: Limited) -> None:
    """Whatever the database's collation, so that pages can be merged with what else is known."""
    for id in ("b", "A", "a-1", "a.1", "B2", "a"):
        await world.queues.save(world.tenant, id, QueueSettings(), 0)
    found: list[str] = []
    while page := await world.queues.page(world.tenant, found[-1] if found else "", 2):
        found += [queue.id for queue in page]
    assert found == ["A", "B2", "a", "a-1", "a.1", "b"]


async def test_configs_tell_what_is_not_by_default(lone_world: World) -> None:
    world, tenant = lone_world, TenantId(1)
    first = await world.queues.configs()
    assert first is not None
    assert (first.queues, first.tenants) == ([], {})
    limited = await world.queues.save(tenant, "limited", QueueSettings(max_in_flight=1), 0)
    weighted = await world.queues.save(tenant, "weighted", QueueSettings(weight=7), 0)
    await world.queues.save(tenant, "plain", QueueSettings(), 0)
    paused = await world.queues.pause(tenant, "paused", "why", "k")
    await world.identity.create_key("some", "k1", b"", "", frozenset(), None)
    await world.identity.create_key("other", "k2", b"", "", frozenset(), None)
    some = await world.queues.tenant("some")
    assert some is not None
    settings = TenantSettings(weight=300, max_in_flight=4)
    saved = await world.queues.save_tenant(some.id, settings, 1)
    assert saved is not None
    assert (saved.settings, saved.version, saved.name) == (settings, 2, "some")
    assert await world.queues.save_tenant(some.id, TenantSettings(), 1) is None
    found = await world.queues.configs(first.version)
    assert found is not None
    assert found.version > first.version
    assert sorted(found.queues, key=lambda q: q.id) == [limited, paused, weighted]
    assert found.tenants == {some.id: settings}
    assert await world.queues.configs(found.version) is None


async def test_a_change_that_cannot_get_its_turn_says_so_and_changes_nothing(
    world: Limited, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues_module, "LOCK_TIMEOUT", "SET LOCAL lock_timeout = '50ms'")

    async def hold_and_change(run: Run) -> None:
        await run("SELECT FROM queues FOR KEY SHARE", {})
        with pytest.raises(Unavailable):
            await world.queues.save(world.tenant, "a", FULL, 0)

    await world.db.claims.transact(hold_and_change)
    assert await world.queues.get(world.tenant, "a") is None


async def busy(world: World) -> dict[str, QueueCounts]:
    """A queue with something of everything, and what its counts are."""
    await world.create(*[world.spec(queue="busy", delay_s=3_600.0) for _ in range(4)])
    waiting = [world.spec(queue="busy") for _ in range(3)]
    await world.create(*waiting)
    await world.pass_time(waiting[0].id, 100.0)
    await world.lease(queue="busy")
    await world.cancelling(await world.lease(queue="busy"))
    await world.fail(await world.lease(queue="busy"), wait_s=600.0)
    await world.bury(await world.lease(queue="busy"))
    await world.succeed(await world.lease(queue="busy"))
    await world.new_session(queues=("busy", "idle", "busy"))
    gone = await world.new_session(queues=("gone",))
    await world.sessions.set_state(world.tenant, gone, SessionState.CLOSED)
    return {"busy": QueueCounts(4, 3, 2, 1, 1, 1, 100.0), "idle": QueueCounts(sessions=1)}


async def test_counts(world: Limited) -> None:
    expected = await busy(world)
    found = {
        queue: counts for (tenant, queue), counts in (await world.queues.counts()).items() if tenant == world.tenant
    }
    expected["default"] = QueueCounts(sessions=found["default"].sessions)
    assert found.keys() == expected.keys()
    for queue, counts in expected.items():
        age_s = found[queue].oldest_ready_age_s
        assert age_s == (None if counts.oldest_ready_age_s is None else pytest.approx(100.0, abs=30))
        assert found[queue] == replace(counts, oldest_ready_age_s=age_s)


async def test_counts_of_large_tables_are_estimates(lone_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is due is counted as it is; of what lies ahead, and of the dead, a sample."""
    world = lone_world
    await busy(world)
    await world.sql(
        """INSERT INTO jobs (tenant_id, id, priority, generation, attempt, attempts_counted, max_attempts,
               run_timeout_ms, fence, due_at, created_at, type, queue, content_type, payload, shard, state)
           SELECT %(t)s, gen_random_uuid(), 4, 0, 0, 0, 5, 1000, 0, now() + interval '1 day', now(), 't', 'ahead', '',
                  '', n %% 256, 1 FROM generate_series(1, 20000) n""",
        t=world.tenant,
    )
    monkeypatch.setattr(queues_module, "COUNT_PAGES_MAX", 100)
    found = await world.queues.counts()
    ahead, near = found[world.tenant, "ahead"], found[world.tenant, "busy"]
    assert not ahead.exact
    assert 10_000 < ahead.scheduled < 40_000
    assert (near.ready, near.leased) == (3, 2)
    assert near.oldest_ready_age_s == pytest.approx(100.0, abs=30)


@pytest.mark.parametrize(
    ("states", "names"),
    [
        ({JobState.READY}, {"ready", "retry due"}),
        ({JobState.RETRY_WAIT}, {"retry"}),
        ({JobState.SCHEDULED}, {"scheduled"}),
        ({JobState.READY, JobState.RETRY_WAIT, JobState.SCHEDULED}, {"ready", "retry due", "retry", "scheduled"}),
    ],
)
async def test_what_waits_in_a_queue(world: Limited, states: set[JobState], names: set[str]) -> None:
    specs = {name: world.spec(queue="w") for name in ("ready", "retry due", "retry", "leased")}
    specs["scheduled"] = world.spec(queue="w", delay_s=86_400.0 * 300)
    other = [world.spec(queue="x"), world.spec(queue="w", tenant_id=TenantId(world.tenant + 1_000_000))]
    await world.create(*specs.values())
    for spec in other:
        await world.create(spec)
    await world.fail(await world.lease(specs["retry due"]))
    await world.fail(await world.lease(specs["retry"]), wait_s=limits.BACKOFF_MAX_S - 60)
    await world.lease(specs["leased"])
    where = QueueFilter(world.tenant, "w", frozenset(states))
    assert set(await world.queues.waiting(where, ALL, 100)) == {specs[name].id for name in names}
    assert await world.queues.count_waiting(where, ALL, 100) == len(names)
    assert len(await world.queues.waiting(where, ALL, 1)) == 1
    assert await world.queues.count_waiting(where, ALL, 1) == 1
    of_type = QueueFilter(world.tenant, "w", frozenset(states), "other.type")
    assert await world.queues.waiting(of_type, ALL, 100) == []
    here = [spec.shard for name, spec in specs.items() if name in names]
    assert len(await world.queues.waiting(where, sorted(set(ALL) - set(here)), 100)) == 0


async def test_the_fleet(lone_world: World) -> None:
    world = lone_world
    fleet = PgFleet(world.db)
    await world.new_session()
    other = CoordinatorId(fresh_id())
    await world.shards.register(other, "b:7070", "1.2", 60.0, "b:7071")
    await world.sql("UPDATE shards SET owner = %(id)s::uuid WHERE shard < 3", id=other)
    await world.sql("UPDATE coordinators SET draining = true WHERE id = %(id)s::uuid", id=other)
    dead = CoordinatorId(fresh_id())
    await world.sql(
        "INSERT INTO coordinators (id, address, version, expires_at) VALUES (%(id)s::uuid, 'c', '1', now())", id=dead
    )
    await world.sql("UPDATE shards SET owner = %(id)s::uuid WHERE shard = 255", id=dead)
    mine, theirs = await fleet.coordinators(None, 10)
    assert (mine.id, mine.shards, mine.sessions, mine.draining) == (world.owner, 252, 1, False)
    assert mine.address.startswith("test/")
    assert (theirs.id, theirs.address, theirs.version, theirs.shards) == (other, "b:7071", "1.2", 3)
    assert theirs.draining
    assert theirs.started_at < theirs.expires_at
    assert [c.id for c in await fleet.coordinators(mine.id, 10)] == [other]
    assert len(await fleet.coordinators(None, 1)) == 1
    shards = await fleet.shards(-1, 1_000, None)
    assert [shard.number for shard in shards] == list(range(256))
    assert (shards[255].owner, shards[255].expires_at) == (None, None)
    assert shards[5].owner == world.owner
    assert shards[5].epoch == world.epochs[ShardNo(5)]
    assert [shard.number for shard in await fleet.shards(0, 10, other)] == [1, 2]
    assert [shard.number for shard in await fleet.shards(99, 2, None)] == [100, 101]
