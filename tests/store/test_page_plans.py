"""A page of jobs costs a page, wherever the walk is: ytsaurus/ytsaurus#1465, airbytehq/airbyte#15908."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg

from rota.domain.ids import JobId, TenantId
from rota.domain.model import JobState
from rota.store.port import JobFilter
from rota.store.readers import PgJobReader

from .test_plans import burst
from .world import World

TENANT = TenantId(2)
PAGE = 51

_FINISHED = """
WITH done AS (DELETE FROM jobs WHERE id::text LIKE '%0' OR id::text LIKE '%5' RETURNING *)
INSERT INTO finished_jobs (
    tenant_id, id, priority, generation, attempt, attempts_counted, max_attempts, run_timeout_ms, fence, due_at,
    created_at, type, queue, content_type, payload, state, finished_at, despite_cancel)
SELECT tenant_id, id, priority, generation, attempt, attempts_counted, max_attempts, run_timeout_ms, fence, due_at,
    created_at, type, queue, content_type, payload, 6, now(), false
FROM done
"""


class Costs:
    """Stands for the database of a reader: runs each statement, and notes what it had to read."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.rows = 0

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Any]:
        async with self._world.db.begin() as conn:
            self._conn = conn
            yield self

    async def execute(self, statement: Any) -> Any:
        compiled = statement.compile(dialect=self._conn.dialect, compile_kwargs={"render_postcompile": True})
        explained = await self._conn.exec_driver_sql(
            f"EXPLAIN (ANALYZE, FORMAT JSON) {compiled}", compiled.construct_params()
        )
        self.rows = sum(read(explained.scalar_one()[0]["Plan"]))
        return await self._conn.execute(statement)


def read(node: dict[str, Any]) -> Iterator[float]:
    """How many rows each scan looked at."""
    if "Scan" in node["Node Type"] and "Relation Name" in node:
        thrown_away = node.get("Rows Removed by Filter", 0)
        yield (node["Actual Rows"] + thrown_away) * node["Actual Loops"]
    for child in node.get("Plans", ()):
        yield from read(child)


async def test_a_page_costs_a_page_wherever_it_begins(database: str) -> None:
    burst(database)
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute(_FINISHED)
        conn.execute("ANALYZE")
    async with World(database) as world:
        costs = Costs(world)
        reader = PgJobReader(costs)  # type: ignore[arg-type]
        for state in (None, JobState.LEASED, JobState.SUCCEEDED):
            before, seen, most = None, 0, 0.0
            for number in range(40):
                page = await reader.page(TENANT, JobFilter(state=state), before, PAGE)
                most = max(most, costs.rows)
                seen += len(page)
                before = page[-1].id
                if number % 10 == 9:
                    # Some thousand jobs further down.
                    before = JobId(before[:24] + f"{int(before[24:], 16) * 3 // 4:012x}")
            assert seen == 40 * PAGE
            # A page of each table in which there may be some, and a little for what is of other states.
            assert most <= 6 * PAGE, state
