"""The plans of watchers' statements, as they really ran: each finds its rows by a key or a range of the primary key,
however many changes are kept and whatever the planner believes."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import psycopg
import pytest

from rota.domain.change import Position
from rota.store.changeport import Coverage
from rota.store.changes import PgChanges
from rota.store.embedded import EmbeddedPostgres

from .test_plans import _EXPLAIN, BULK_TENANT, MODES, Plan, Stand, stand

CHANGES = 60_000
TENANTS = 3
PAGE = 20

_BULK = f"""
INSERT INTO job_changes (
    tenant_id, xid, changed_at, id, state, priority, generation, attempt, attempts_counted, max_attempts,
    run_timeout_ms, due_at, created_at, type, queue, despite_cancel)
SELECT 1 + n % {TENANTS}, 3 + n / 300, now() - interval '2 hours', gen_random_uuid(), 1, 4, 0, 0, 0, 5, 1000, now(),
       now(), 't', 'q', false
FROM generate_series(1, {CHANGES}) n;
INSERT INTO watched_tenants (tenant_id, settled, watched_until, dropped_xid)
SELECT n, true, now() + interval '1 hour', 0 FROM generate_series(1, 1000) n
"""


@pytest.fixture(scope="module", params=["never analysed", "analysed while empty"])
def full(postgres: EmbeddedPostgres, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"change_plans_{request.param_index}"
    with psycopg.connect(postgres.url, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name} TEMPLATE migrated STRATEGY file_copy".encode())
        for key, value in _EXPLAIN.items():
            conn.execute(f"ALTER DATABASE {name} SET {key} = {value}".encode())
    url = postgres.url.rsplit("/", 1)[0] + f"/{name}"
    with psycopg.connect(url, autocommit=True) as conn:
        for table in ("job_changes", "watched_tenants"):
            conn.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())
        if request.param_index:
            conn.execute("ANALYZE job_changes, watched_tenants")
        conn.execute(_BULK)
    yield url
    with psycopg.connect(postgres.url, autocommit=True) as conn:
        conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture(params=MODES)
async def ready(full: str, request: pytest.FixtureRequest) -> AsyncIterator[Stand]:
    async with stand(full, request.param) as found:
        yield found


async def coverage(ready: Stand) -> Coverage:
    found, settled = await PgChanges(ready.world.db).watch(BULK_TENANT, 60)
    assert settled
    return found


SCANS = {"watched_tenants_pkey", "job_changes_pkey"}


def check(plan: Plan, rows: float, pages: int = 300) -> None:
    told = "\n".join(map(str, sorted(plan.scans)))
    assert not [scan for scan in plan.scans if "Seq" in scan[0] or "Bitmap" in scan[0]], told
    assert {index for _, relation, index in plan.scans if relation in ("job_changes", "watched_tenants")} <= SCANS, told
    assert plan.rows_read("job_changes") <= rows, plan.rows_read("job_changes")
    assert plan.pages < pages, plan.pages


@pytest.mark.parametrize(
    "after",
    [
        Position(3),
        Position(150),
        Position(190, frozenset({5, 9, 60, 120, 180}), ((120, 36_050),)),
        Position(10**6),
    ],
)
async def test_a_page_reads_no_more_than_it_gives(ready: Stand, after: Position) -> None:
    store = PgChanges(ready.world.db)
    watched = await coverage(ready)
    plan = await ready.explain(store.page(BULK_TENANT, watched, after, PAGE))
    # A page of each transaction that ran, of the others, and of both.
    check(plan, (len(after.running) + 1) * (PAGE + 1))
    page = await store.page(BULK_TENANT, watched, after, PAGE)
    assert page is not None and len(page.changes) == (0 if after.next_xid > 10**5 else PAGE)


@pytest.mark.parametrize("work", ["watch", "extend", "moment", "settle"])
async def test_a_watch_is_found_by_its_key(ready: Stand, work: str) -> None:
    store = PgChanges(ready.world.db)
    watched = await coverage(ready)
    calls: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "watch": lambda: store.watch(BULK_TENANT, 60),
        "extend": lambda: store.extend(BULK_TENANT, watched, 60),
        "moment": lambda: store.moment(BULK_TENANT, watched),
        "settle": lambda: store.settle(BULK_TENANT, watched),
    }
    plan = await ready.explain(calls[work]())
    check(plan, 0)


async def test_old_changes_are_found_from_the_first_on(ready: Stand) -> None:
    store = PgChanges(ready.world.db)
    ready._plans.clear()
    assert await store.trim(3_600, 10**9, 50) == 50
    tenants, *trims = ready._plans
    assert len(trims) == TENANTS
    check(tenants, 2 * TENANTS + 2)
    for plan in trims:
        # Each is found, and deleted by its key.
        check(plan, 2 * 50, pages=10 * 50)
