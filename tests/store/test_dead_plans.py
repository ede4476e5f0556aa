"""The plans of what is done with dead letters, as they really ran: along the order of death or by primary keys, and
bounded, however many letters there are and whatever the planner believes of them."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import psycopg
import pytest

from rota.domain.deadletter import FIRST, LAST, DeadFilter
from rota.domain.ids import JobId
from rota.domain.model import DeadCause
from rota.store.deadletters import WALK_ROWS
from rota.store.deadport import DeadTransaction, Walk

from .test_plans import BULK_TENANT, MODES, Plan, _connection, new_database
from .world import World

__all__ = ["new_database"]

_BULK = """
INSERT INTO dead_jobs (
    tenant_id, id, priority, generation, attempt, attempts_counted, max_attempts, run_timeout_ms, fence, due_at,
    created_at, type, queue, content_type, payload, died_at, cause)
SELECT 1 + n % 3, ('01f0a000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 4, 0, 1, 1, 1, 1000, 1, now(), now(),
       't', 'bulk', '', '', now() - interval '1 day' + (n / 500) * interval '1 second', 1
FROM generate_series(1, {count}) n;
INSERT INTO redrives (
    tenant_id, id, slot, rate, new_generation, reason, state, next_at, total, redriven, refused, author, created_at)
SELECT 5000 + n, gen_random_uuid(), 1, 1, false, '', CASE WHEN n % 10 = 0 THEN 1 ELSE 2 END,
       now() + n * interval '1 second', 1, 0, 0, '', now()
FROM generate_series(1, 5000) n
"""

INDEXES = {
    "dead_jobs": {"dead_jobs_pkey", "dead_jobs_died_idx"},
    "redrives": {"redrives_pkey", "redrives_next_idx", "redrives_slot_key"},
}

RARE = DeadFilter(queue="none", failure_type="f", cause=DeadCause.NOT_RETRYABLE, labels={"a": "b"})


@pytest.fixture(scope="module")
def never_analysed(new_database: Callable[[], str]) -> str:
    url = new_database()
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("ALTER TABLE redrives SET (autovacuum_enabled = off)")
        conn.execute(_BULK.format(count=60_000).encode())
    return url


@pytest.fixture(scope="module")
def large(new_database: Callable[[], str]) -> str:
    url = new_database()
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(_BULK.format(count=300_000).encode())
        conn.execute("ANALYZE")
    return url


@asynccontextmanager
async def explained(url: str, mode: str) -> AsyncIterator[tuple[World, list[Plan]]]:
    """A world whose plans are written down."""
    plans: list[Plan] = []

    def take(notice: psycopg.errors.Diagnostic) -> None:
        if "Query Text" in (notice.message_primary or ""):
            plans.append(Plan(notice.message_primary or ""))

    async with World(url) as world:
        world.tenant = BULK_TENANT
        lane = world.db.writes
        await lane.run(f"SET plan_cache_mode = {mode}", {})
        _connection(lane).add_notice_handler(take)
        yield world, plans


def check(plans: list[Plan], rows_max: int) -> None:
    assert plans
    for plan in plans:
        told = plan.sql + "\n" + "\n".join(map(str, sorted(plan.scans)))
        for kind, relation, index in plan.scans:
            assert "Seq" not in kind and "Bitmap" not in kind, told
            assert relation not in INDEXES or index in INDEXES[relation], told
        assert "Sort" not in {node["Node Type"] for node in plan.nodes}, told
        for table in INDEXES:
            assert plan.rows_read(table) <= rows_max, told
    plans.clear()


async def named(world: World, count: int) -> list[JobId]:
    found = await world.dead.find(Walk(BULK_TENANT, DeadFilter(), FIRST), count)
    return [JobId(place.id) for place in found.places]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("where", ["never_analysed", "large"])
async def test_walks(request: pytest.FixtureRequest, where: str, mode: str) -> None:
    async with explained(request.getfixturevalue(where), mode) as (world, plans):
        for newest_first, start in ((False, FIRST), (True, LAST)):
            for _ in range(2):
                found = await world.dead.find(Walk(BULK_TENANT, DeadFilter(), start, newest_first), 50)
                assert len(found.places) == 50
                check(plans, rows_max=50)
                assert found.next is not None
                start = found.next
            found = await world.dead.find(Walk(BULK_TENANT, RARE, start, newest_first), 50)
            assert found.places == ()
            assert found.next is not None
            check(plans, rows_max=WALK_ROWS)
        await world.dead.count(Walk(BULK_TENANT, DeadFilter(), FIRST), 10)
        check(plans, rows_max=WALK_ROWS)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("where", ["never_analysed", "large"])
async def test_reviving_and_discarding(request: pytest.FixtureRequest, where: str, mode: str) -> None:
    async with explained(request.getfixturevalue(where), mode) as (world, plans):
        for count in (1, 200):
            jobs = await named(world, count)
            plans.clear()
            assert len(await world.revive(*jobs, redrives_max=20)) == count
            check(plans, rows_max=count)
            jobs = await named(world, count)
            plans.clear()
            assert len(await world.dead.discard(BULK_TENANT, jobs, "")) == count
            check(plans, rows_max=count)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("where", ["never_analysed", "large"])
async def test_finding_the_redrive_that_goes_on_next(request: pytest.FixtureRequest, where: str, mode: str) -> None:
    """It is asked for all the time, so it reads one row of those that run and none of those that are over."""

    async def work(tx: DeadTransaction) -> None:
        await tx.lock_due()

    async with explained(request.getfixturevalue(where), mode) as (world, plans):
        await world.dead.next_redrive_s()
        check(plans, rows_max=1)
        await world.dead.transact(work)
        check([plan for plan in plans if "redrives" in plan.sql], rows_max=1)
