"""Changes of jobs: all are written down for whoever watches, none is skipped in whatever order transactions commit, and
what was deleted is known."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import psycopg
import pytest

from rota.clock import SystemClock
from rota.domain import limits
from rota.domain.change import Change
from rota.domain.errors import FailedPrecondition, Unavailable
from rota.domain.ids import JobId, TenantId, shard_of
from rota.domain.model import JobState
from rota.domain.transition import Finish
from rota.service import changes as service
from rota.service.changes import Changes, Place
from rota.store.changes import PgChanges

from .world import World, fresh_id

Connection = psycopg.AsyncConnection[tuple[object, ...]]


@dataclass
class Reader:
    """A watcher that reads on from where it is."""

    world: World
    changes: Changes
    place: Place

    async def read(self) -> list[Change]:
        found: list[Change] = []
        while True:
            page = await self.changes.after(self.world.tenant, self.place)
            found += page.changes
            self.place = Place(self.place.coverage, page.after)
            if not page.more:
                return found

    async def states(self, job: JobId) -> list[str]:
        return [change.job.state.name for change in await self.read() if change.job.id == job]


async def watching(world: World) -> Reader:
    changes = Changes(PgChanges(world.db), SystemClock())
    return Reader(world, changes, await changes.begin(world.tenant))


@asynccontextmanager
async def connected(world: World) -> AsyncIterator[Connection]:
    """A session of its own, with a transaction that is open."""
    conn = await psycopg.AsyncConnection.connect(world.url)
    try:
        yield conn
    finally:
        await conn.close()


async def insert(conn: Connection, world: World) -> JobId:
    job = JobId(fresh_id())
    await conn.execute(
        "INSERT INTO jobs (tenant_id, id, shard, state, priority, generation, attempt, attempts_counted, max_attempts, "
        "run_timeout_ms, fence, due_at, created_at, type, queue, content_type, payload) "
        "VALUES (%s, %s, %s, 1, 4, 0, 0, 0, 5, 60000, 0, now(), now(), 't', 'default', '', '')",
        [world.tenant, job, shard_of(world.tenant, job)],
    )
    return job


async def test_each_step_of_a_life_is_a_change(world: World) -> None:
    reader = await watching(world)
    spec = world.spec(labels={"a": "b"}, headers={"h": "v"})
    await world.create(spec)
    held = await world.lease(spec)
    await world.fail(held, wait_s=60)
    assert await world.jobs.retry_now(world.tenant, spec.id)
    held = await world.lease(spec)
    await world.cancelling(held, "enough")
    await world.cancel(spec)
    found = [change for change in await reader.read() if change.job.id == spec.id]
    names = ["READY", "LEASED", "RETRY_WAIT", "READY", "LEASED", "CANCELLING", "CANCELLED"]
    assert [change.job.state.name for change in found] == names
    assert [change.job.attempt for change in found] == [0, 1, 1, 1, 2, 2, 2]
    assert found[2].job.last_failure is not None
    assert found[5].job.reason == "enough"
    last, stored = found[-1].job, await world.job(spec.id)
    assert (last.labels, last.headers, last.payload.data) == ({"a": "b"}, {"h": "v"}, b"")
    for name in (
        "state",
        "type",
        "queue",
        "priority",
        "retry",
        "timeouts",
        "created_at",
        "due_at",
        "finished_at",
        "reason",
        "session_id",
        "last_failure",
        "attempts_counted",
        "generation",
        "effect_key",
    ):
        assert getattr(last, name) == getattr(stored, name), name
    assert await reader.read() == []


async def test_death_and_return_are_changes(world: World) -> None:
    reader = await watching(world)
    job = await world.letter()
    assert await reader.states(job) == ["READY", "LEASED", "DEAD"]
    await world.revive(job)
    assert await reader.states(job) == ["READY"]


async def test_success_expiry_and_another_time_are_changes(world: World) -> None:
    reader = await watching(world)
    held = await world.lease()
    assert await world.succeed(held)
    assert await reader.states(held.id) == ["READY", "LEASED", "SUCCEEDED"]
    spec = world.spec()
    await world.create(spec)
    await world.jobs.reschedule(world.tenant, spec.id, await world.now() + timedelta(hours=1))
    assert await world.apply(await world.decide(spec.id, Finish(JobState.EXPIRED, counted=False), None))
    assert await reader.states(spec.id) == ["READY", "SCHEDULED", "EXPIRED"]


async def test_nothing_is_written_for_tenants_that_nobody_watches(world: World) -> None:
    await world.succeed(await world.lease())
    reader = await watching(world)
    other = TenantId(world.tenant + 500_000)
    await world.create(world.spec(tenant_id=other))
    assert await world.value("SELECT count(*) FROM job_changes WHERE tenant_id = %(t)s", t=other) == 0
    assert await reader.read() == []
    assert await world.value("SELECT count(*) FROM job_changes WHERE tenant_id = %(t)s", t=world.tenant) == 0


async def test_what_is_rolled_back_is_no_change(world: World) -> None:
    reader = await watching(world)
    async with connected(world) as conn:
        await insert(conn, world)
        await conn.rollback()
    assert await reader.read() == []


async def test_a_transaction_that_commits_late_is_not_skipped(world: World) -> None:
    reader = await watching(world)
    async with connected(world) as early, connected(world) as late:
        first = await insert(early, world)
        second = await insert(late, world)
        await late.commit()
        assert [change.job.id for change in await reader.read()] == [second]
        third = await insert(late, world)
        await late.commit()
        assert [change.job.id for change in await reader.read()] == [third]
        await early.commit()
        assert [change.job.id for change in await reader.read()] == [first]
        assert await reader.read() == []


async def test_pages_end_in_the_middle_of_transactions(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the pages fall, and with a transaction of a lower number that commits between two of them."""
    monkeypatch.setattr(service, "PAGE", 3)
    reader = await watching(world)
    async with connected(world) as early:
        wanted = [await insert(early, world) for _ in range(4)]
        specs = [world.spec() for _ in range(10)]
        await world.create(*specs)
        page = await reader.changes.after(world.tenant, reader.place)
        assert page.more and len(page.changes) == 3
        found = [change.job.id for change in page.changes]
        reader.place = Place(reader.place.coverage, page.after)
        await early.commit()
    found += [change.job.id for change in await reader.read()]
    assert sorted(found) == sorted([*wanted, *(spec.id for spec in specs)])


async def test_a_strangers_transaction_holds_nobody_up(world: World) -> None:
    async with connected(world) as stranger:
        await stranger.execute(
            "INSERT INTO meters VALUES (%s, 'q', false, 0, NULL, '', '', %s)", [world.tenant, fresh_id()]
        )
        reader = await watching(world)
        spec = world.spec()
        await world.create(spec)
        assert await reader.states(spec.id) == ["READY"]


async def test_a_watch_begins_when_all_is_over_that_may_not_have_seen_it(world: World) -> None:
    """A transaction that changed a job before the tenant was watched has written nothing down."""
    async with connected(world) as early:
        job = await insert(early, world)
        begun = asyncio.ensure_future(watching(world))
        await asyncio.sleep(0.2)
        assert not begun.done()
        # What begins now is written down, though the watch has not begun.
        spec = world.spec()
        await world.create(spec)
        assert await world.value("SELECT count(*) FROM job_changes WHERE tenant_id = %(t)s", t=world.tenant) == 1
        await early.commit()
        reader = await begun
    held = await world.lease(world.spec(id=job, type="t"))
    assert await reader.states(job) == ["LEASED"]
    assert (await world.succeed(held), await reader.states(job)) == (True, ["SUCCEEDED"])


async def test_a_watch_that_cannot_begin_says_why(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "SETTLE_MAX_S", 0.1)
    async with connected(world) as early:
        await insert(early, world)
        with pytest.raises(Unavailable, match="1 transactions of others change jobs"):
            await watching(world)
        # The next one does not take it for begun either.
        with pytest.raises(Unavailable, match="watching begins once"):
            await watching(world)
        await early.commit()
    await watching(world)


async def test_a_gap_is_told(lone_world: World) -> None:
    """A watch that ran out and was begun again is another one."""
    world = lone_world
    reader = await watching(world)
    await reader.changes.extend(world.tenant, reader.place.coverage)
    await world.sql("UPDATE watched_tenants SET watched_until = now()")
    await reader.changes.tidy()
    await world.create(world.spec())
    with pytest.raises(FailedPrecondition, match="not kept any more"):
        await reader.read()
    again = await watching(world)
    with pytest.raises(FailedPrecondition):
        await reader.read()
    with pytest.raises(FailedPrecondition):
        await reader.changes.extend(world.tenant, reader.place.coverage)
    assert await again.read() == []


async def test_a_watch_that_was_extended_does_not_run_out(lone_world: World) -> None:
    world = lone_world
    reader = await watching(world)
    await world.sql("UPDATE watched_tenants SET watched_until = now()")
    await reader.changes.extend(world.tenant, reader.place.coverage)
    assert await PgChanges(world.db).lapse() == 0
    left = await world.value("SELECT extract(epoch FROM watched_until - now())::float8 FROM watched_tenants")
    assert limits.WATCH_LIFE_S - 5 < left <= limits.WATCH_LIFE_S


async def test_another_database_takes_no_position_of_this_one(lone_world: World) -> None:
    """A promoted standby may give the same numbers to other transactions."""
    world = lone_world
    reader = await watching(world)
    await world.sql(
        "CREATE OR REPLACE FUNCTION rota_incarnation() RETURNS text LANGUAGE sql STABLE AS $$SELECT 'other'$$"
    )
    with pytest.raises(FailedPrecondition):
        await reader.read()
    with pytest.raises(FailedPrecondition):
        await reader.changes.extend(world.tenant, reader.place.coverage)


async def test_numbers_from_a_restored_backup_are_not_read(lone_world: World) -> None:
    world = lone_world
    reader = await watching(world)
    await world.create(world.spec())
    await world.sql("UPDATE job_changes SET xid = xid + 1000000")
    spec = world.spec()
    await world.create(spec)
    assert [change.job.id for change in await reader.read()] == [spec.id]
    assert reader.place.position.next_xid < 1_000_000


async def test_old_changes_are_deleted_and_whoever_wants_them_is_told(lone_world: World) -> None:
    world = lone_world
    reader = await watching(world)
    start = reader.place
    await world.create(*(world.spec() for _ in range(10)))
    assert len(await reader.read()) == 10
    middle = reader.place
    await world.sql("UPDATE job_changes SET changed_at = changed_at - interval '2 hours'")
    young = world.spec()
    await world.create(young)
    store = PgChanges(world.db)
    assert await store.trim(3_600, 10**9, 4) == 4
    assert await store.trim(3_600, 10**9, 100) == 6
    assert await store.trim(3_600, 10**9, 100) == 0
    reader.place = start
    with pytest.raises(FailedPrecondition, match="not kept any more"):
        await reader.read()
    reader.place = middle
    assert [change.job.id for change in await reader.read()] == [young.id]


async def test_so_many_are_kept(lone_world: World) -> None:
    world = lone_world
    reader = await watching(world)
    await world.create(*(world.spec() for _ in range(30)))
    store = PgChanges(world.db)
    assert await store.trim(3_600, 12, 100) == 18
    assert await store.trim(3_600, 12, 100) == 0
    with pytest.raises(FailedPrecondition):
        await reader.read()


async def test_what_nobody_watches_any_more_is_deleted(lone_world: World) -> None:
    world = lone_world
    reader = await watching(world)
    await world.create(*(world.spec() for _ in range(5)))
    await world.sql("UPDATE watched_tenants SET watched_until = now()")
    await reader.changes.tidy()
    assert await world.value("SELECT count(*) FROM job_changes") == 0
    assert await world.value("SELECT count(*) FROM watched_tenants") == 0


async def test_nothing_is_deleted_above_a_transaction_that_runs(lone_world: World) -> None:
    """It may commit below what is deleted, and be looked for there."""
    world = lone_world
    reader = await watching(world)
    store = PgChanges(world.db)
    async with connected(world) as early:
        job = await insert(early, world)
        await world.create(world.spec())
        await world.sql("UPDATE job_changes SET changed_at = changed_at - interval '2 hours'")
        assert len(await reader.read()) == 1
        assert await store.trim(3_600, 10**9, 100) == 0
        await early.commit()
    assert await reader.states(job) == ["READY"]
    assert await store.trim(3_600, 10**9, 100) == 1


async def test_a_change_is_written_with_the_job_or_not_at_all(world: World) -> None:
    """A statement that fails, or is refused, leaves no change behind."""
    reader = await watching(world)
    held = await world.lease()
    await reader.read()
    assert await world.succeed(held)
    assert not await world.succeed(held)
    assert await reader.states(held.id) == ["SUCCEEDED"]
