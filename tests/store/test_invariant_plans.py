"""Looking for what must not be there reads a bounded part of tables of any size, and never a whole one."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from rota.domain import limits
from rota.domain.invariants import Walk
from rota.store.engine import Row
from rota.store.invariants import PgInvariants

from .world import World

RESIDENT = 20_000
ROWS = 200

_MANY = f"""
INSERT INTO jobs (
    tenant_id, id, priority, generation, attempt, attempts_counted, max_attempts, run_timeout_ms, fence, due_at,
    created_at, type, queue, content_type, payload, shard, state)
SELECT 1 + mod(n, 3), gen_random_uuid(), 4, 0, 0, 0, 5, 3600000, 0,
       now() + interval '30 days' - mod(n, 2) * interval '31 days',
       now() - interval '32 days', 't', 'bulk', '', '', mod(n, 256), 1
FROM generate_series(1, {RESIDENT}) n;
INSERT INTO attempts (tenant_id, job_id, fence, ended_at, number, leased_at, outcome)
SELECT j.tenant_id, j.id, 1, now() - interval '1 hour', 1, now() - interval '2 hours', 2 FROM jobs j;
INSERT INTO requests (tenant_id, method, request_id, digest, answer, created_at)
SELECT j.tenant_id, 1, j.id::text, ''::bytea, ARRAY[j.id], now() - interval '1 hour' FROM jobs j;
INSERT INTO dedupe_keys (tenant_id, key, job_id) SELECT j.tenant_id, j.id::text, j.id FROM jobs j;
"""


@pytest_asyncio.fixture
async def world(lone_world: World) -> AsyncIterator[World]:
    """With more than one look takes, never analysed."""
    await lone_world.history.make_partitions(3)
    for statement in filter(str.strip, _MANY.split(";")):
        await lone_world.sql(statement)
    yield lone_world


@pytest.mark.parametrize("walk", [walk for walk in Walk if walk is not Walk.LEDGERS])
async def test_a_look_reads_its_rows_and_what_they_are_held_against(
    world: World, walk: Walk, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[str] = []
    run = world.db.reads.run

    async def explained(sql: str, params: Any, *, write: bool = True) -> list[Row]:
        rows = await run(f"EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF) {sql}", params, write=write)
        plans.append("\n".join(line for (line,) in rows))
        return await run(sql, params, write=write)

    monkeypatch.setattr(world.db.reads, "run", explained)
    store = PgInvariants(world.db)
    first = await store.look(walk, None, ROWS)
    if first.then is not None:
        await store.look(walk, first.then, ROWS)
    assert plans
    small = r"Seq Scan on (shards|coordinators|tenants|queues|meters)\b"
    for plan in plans:
        assert "Seq Scan" not in re.sub(small, "", plan), plan
        read = [
            float(found[1]) * float(found[2])
            for found in re.finditer(r"Scan .*?actual rows=([\d.]+) loops=(\d+)", plan)
            if float(found[1])
        ]
        # Shards and those who own them are few, and looked at as a whole.
        most = max(ROWS, limits.SHARD_COUNT) if walk in (Walk.SHARDS, Walk.DUE) else ROWS
        assert max(read, default=0) <= most, plan


async def test_a_walk_sees_every_row_once(world: World) -> None:
    store = PgInvariants(world.db)
    at, looks = None, 0
    while True:
        found = await store.look(Walk.JOBS, at, 3_000)
        looks += 1
        at = found.then
        if at is None:
            break
    assert looks == RESIDENT // 3_000 + 1
