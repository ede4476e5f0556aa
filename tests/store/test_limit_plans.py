"""The plans of claims under limits, as they really ran: each statement reads what it is about, however large the rest.

As in test_plans, on tables that were never analysed and on large ones, with generic and with custom plans.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import psycopg
import pytest

from rota.domain.ids import ShardNo
from rota.domain.model import JobState
from rota.store.queueport import QueueFilter

from .limited import Limited
from .test_plans import MODES, Plan, _connection, fill, new_database

__all__ = ["new_database"]

_OTHERS = """
INSERT INTO queues (tenant_id, id, weight, max_in_flight, version, created_at, updated_at)
SELECT 100000 + n % 50, 'q-' || n, 100, 5, 1, now(), now() FROM generate_series(1, 5000) n;
INSERT INTO meters (tenant_id, queue, uncounted, swept_queue, swept_key, swept_job)
SELECT tenant_id, id, false, '', '', '00000000-0000-0000-0000-000000000000' FROM queues;
INSERT INTO lease_slots (tenant_id, queue, key, job_id, fence)
SELECT 100000 + n % 50, 'q-' || n % 5000, 'k-' || n % 100, gen_random_uuid(), 1 FROM generate_series(1, {slots}) n;
"""

INDEXES = {
    "jobs": {"jobs_pkey", "jobs_due_idx"},
    "lease_slots": {"lease_slots_pkey"},
    "meters": {"meters_pkey", "meters_uncounted_idx"},
    "queues": {"queues_pkey"},
    "tenants": {"tenants_pkey"},
    "shards": {"shards_pkey"},
}


@pytest.fixture(scope="module")
def never_analysed(new_database: Callable[[], str]) -> str:
    url = new_database()
    fill(url, 20_000)
    with psycopg.connect(url, autocommit=True) as conn:
        for table in ("queues", "meters", "lease_slots"):
            conn.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())
        conn.execute(_OTHERS.format(slots=20_000).encode())
    return url


@pytest.fixture(scope="module")
def large(new_database: Callable[[], str]) -> str:
    url = new_database()
    fill(url, 200_000)
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(_OTHERS.format(slots=300_000).encode())
        conn.execute("ANALYZE")
    return url


@asynccontextmanager
async def explained(url: str, mode: str) -> AsyncIterator[tuple[Limited, list[Plan]]]:
    """A world whose claims' plans are written down."""
    plans: list[Plan] = []

    def take(notice: psycopg.errors.Diagnostic) -> None:
        if "Query Text" in (notice.message_primary or ""):
            plans.append(Plan(notice.message_primary or ""))

    async with Limited(url) as world:
        for lane in (world.db.claims, world.db.writes):
            await lane.run(f"SET plan_cache_mode = {mode}", {})
            _connection(lane).add_notice_handler(take)
        yield world, plans


def check(plans: list[Plan], rows_max: int) -> None:
    assert plans
    for plan in plans:
        told = plan.sql + "\n" + "\n".join(map(str, sorted(plan.scans)))
        for kind, relation, index in plan.scans:
            assert "Seq" not in kind and "Bitmap" not in kind, told
            assert not relation or index in INDEXES[relation], told
        assert plan.most_rows <= rows_max, told
        for table in INDEXES:
            assert plan.rows_read(table) <= rows_max, told


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("where", ["never_analysed", "large"])
@pytest.mark.parametrize("by", ["queue", "key", "rate", "tenant"])
async def test_a_limited_claim(request: pytest.FixtureRequest, where: str, mode: str, by: str) -> None:
    url = request.getfixturevalue(where)
    async with explained(url, mode) as (world, plans):
        if by == "queue":
            await world.limit(max_in_flight=60)
        elif by == "key":
            await world.limit(max_in_flight_per_key=2)
        elif by == "rate":
            await world.limit(rate=1_000.0)
        else:
            await world.limit_tenant(60)
        for count in (1, 100):
            specs = [world.spec(concurrency_key=f"key-{n % 20}") for n in range(count)]
            await world.create(*specs)
            plans.clear()
            held = await world.held(*specs)
            check(plans, rows_max=300)
            for each in held:
                await world.succeed(each)


@pytest.mark.parametrize("where", ["never_analysed", "large"])
async def test_counting_what_was_leased_reads_what_is_due(request: pytest.FixtureRequest, where: str) -> None:
    """And neither what is due later nor what others have."""
    url = request.getfixturevalue(where)
    async with explained(url, MODES[0]) as (world, plans):
        specs = await world.made(20)
        await world.leases.claim(world.wishes(specs), world.owner)
        plans.clear()
        await world.limit(max_in_flight=60)
        rows = await world.value("SELECT count(*) FROM jobs WHERE due_at <= now() + interval '1 minute'")
        assert await world.slots() == 20
        check([plan for plan in plans if "lease_slots" in plan.sql], rows_max=rows)


@pytest.mark.parametrize("where", ["never_analysed", "large"])
async def test_configs_that_have_not_changed_read_nothing(request: pytest.FixtureRequest, where: str) -> None:
    url = request.getfixturevalue(where)
    async with explained(url, MODES[0]) as (world, plans):
        configs = await world.queues.configs()
        assert configs is not None
        assert len(configs.queues) >= 5_000
        plans.clear()
        assert await world.queues.configs(configs.version) is None
        assert all(plan.most_rows <= 1 and plan.rows_read("queues") == 0 for plan in plans)


@pytest.mark.parametrize("where", ["never_analysed", "large"])
async def test_a_purge_reads_only_what_may_be_in_it(request: pytest.FixtureRequest, where: str) -> None:
    url = request.getfixturevalue(where)
    async with explained(url, MODES[0]) as (world, plans):
        await world.made(20)
        due = QueueFilter(world.tenant, "default", frozenset({JobState.READY}))
        shards = [ShardNo(n) for n in range(256)]
        plans.clear()
        assert len(await world.queues.waiting(due, shards, 100)) == 20
        (plan,) = plans
        assert {index for _, relation, index in plan.scans if relation == "jobs"} == {"jobs_due_idx"}
        rows = await world.value("SELECT count(*) FROM jobs WHERE due_at <= now()")
        assert plan.rows_read("jobs") <= rows
