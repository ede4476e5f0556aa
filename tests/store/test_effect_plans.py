"""The plans of the ledger's statements: each finds its rows by a key or a range, however full the tables are."""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import psycopg
import pytest

from rota.domain.effect import InDoubt
from rota.domain.ids import EffectId
from rota.domain.model import EffectState, JobState, Outcome
from rota.domain.transition import Requeue
from rota.store.effectport import Decision, EffectCall
from rota.store.embedded import EmbeddedPostgres

from .test_plans import _EXPLAIN, BULK_TENANT, MODES, Plan, Stand, fill, stand
from .world import Held, fresh_id

EFFECTS = 30_000

# As many are settled for good as in doubt; of the latter most belong to jobs that are leased elsewhere.
_BULK = f"""
INSERT INTO effects (tenant_id, effect_key, id, job_id, fence, state, earlier, policy, begun_at, needed_at)
SELECT 1 + n % 3, 'bulk/' || n, ('01f0a000-0000-7000-9000-' || lpad(to_hex(n), 12, '0'))::uuid,
       ('01f0a000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 0, n % 4, 0, 1, now(),
       now() - (n % 20) * interval '1 day'
FROM generate_series(1, {EFFECTS}) n
"""


@pytest.fixture(scope="module")
def full(postgres: EmbeddedPostgres) -> Iterator[str]:
    """Never analysed."""
    with psycopg.connect(postgres.url, autocommit=True) as conn:
        conn.execute("CREATE DATABASE effect_plans TEMPLATE migrated STRATEGY file_copy")
        for key, value in _EXPLAIN.items():
            conn.execute(f"ALTER DATABASE effect_plans SET {key} = {value}".encode())
    url = postgres.url.rsplit("/", 1)[0] + "/effect_plans"
    with psycopg.connect(url, autocommit=True) as conn:
        for table in ("jobs", "effects", "dead_jobs", "sessions"):
            conn.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())
    fill(url, EFFECTS)
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(_BULK)
    yield url
    with psycopg.connect(postgres.url, autocommit=True) as conn:
        conn.execute("DROP DATABASE effect_plans WITH (FORCE)")


async def plans(ready: Stand, work: Coroutine[Any, Any, object]) -> list[Plan]:
    ready._plans.clear()
    await work
    assert ready._plans
    return list(ready._plans)


def call(held: Held) -> EffectCall:
    return EffectCall(held.spec.tenant_id, "acme", held.id, held.fence)


async def begun(ready: Stand) -> tuple[Held, EffectId]:
    (held,) = await ready.leased(1)
    found = await ready.world.effects.begin(call(held), InDoubt.ASK, EffectId(fresh_id()))
    assert found is not None
    return held, found.effect.id


async def asked(ready: Stand) -> tuple[Held, EffectId]:
    """A job in its second attempt, with its effect in doubt."""
    held, effect = await begun(ready)
    now = await ready.world.now()
    again = await ready.world.decide(held.id, Requeue(JobState.RETRY_WAIT, now, True), Outcome.LEASE_LOST)
    assert await ready.world.apply(again)
    return await ready.world.lease(held.spec), effect


async def begin_fresh(ready: Stand) -> list[Plan]:
    (held,) = await ready.leased(1)
    return await plans(ready, ready.world.effects.begin(call(held), InDoubt.ASK, EffectId(fresh_id())))


async def begin_in_doubt(ready: Stand) -> list[Plan]:
    held, _ = await asked(ready)
    return await plans(ready, ready.world.effects.begin(call(held), InDoubt.ASK, EffectId(fresh_id())))


async def commit(ready: Stand) -> list[Plan]:
    held, _ = await begun(ready)
    return await plans(ready, ready.world.effects.commit(call(held), EffectState.APPLIED, "r"))


async def resolve_held(ready: Stand, state: EffectState) -> list[Plan]:
    held, effect = await asked(ready)
    await ready.world.effects.begin(call(held), InDoubt.ASK, EffectId(fresh_id()))
    now = await ready.world.now()
    back = await ready.world.decide(held.id, Requeue(JobState.RETRY_WAIT, now, False), Outcome.RELEASED)
    assert await ready.world.apply(back)
    decision = Decision(state, "", "", "k")
    return await plans(ready, ready.world.effects.resolve(ready.tenant, "acme", effect, decision))


async def resolve_applied(ready: Stand) -> list[Plan]:
    return await resolve_held(ready, EffectState.APPLIED)


async def resolve_not_applied(ready: Stand) -> list[Plan]:
    return await resolve_held(ready, EffectState.NOT_APPLIED)


async def page(ready: Stand) -> list[Plan]:
    return await plans(ready, ready.world.effects.page(ready.tenant, None, 50, None, holding=False))


async def page_of_a_job(ready: Stand) -> list[Plan]:
    held, _ = await asked(ready)
    return await plans(ready, ready.world.effects.page(ready.tenant, None, 50, held.id, holding=False))


async def forget(ready: Stand) -> list[Plan]:
    return await plans(ready, ready.world.effects.forget(15 * 86_400.0, 100))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("run", "rows"),
    [
        (begin_fresh, 2),
        (begin_in_doubt, 2),
        (commit, 2),
        (resolve_applied, 2),
        (resolve_not_applied, 2),
        (page, 50),
        (page_of_a_job, 2),
        (forget, 100),
    ],
)
async def test_on_tables_that_were_never_analysed(
    full: str, run: Callable[[Stand], Coroutine[Any, Any, list[Plan]]], rows: int, mode: str
) -> None:
    async with stand(full, mode) as ready:
        assert ready.tenant == BULK_TENANT
        for plan in await run(ready):
            told = "\n".join([plan.sql, *map(str, sorted(plan.scans))])
            assert not [scan for scan in plan.scans if "Seq" in scan[0] or "Bitmap" in scan[0]], told
            assert plan.rows_read("effects") <= 2 * rows, told
            assert plan.rows_read("jobs") <= rows + 5, told
            assert "Sort" not in {node["Node Type"] for node in plan.nodes}, told
