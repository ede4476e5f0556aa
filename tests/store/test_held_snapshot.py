"""A transaction that stays open for long keeps every dead row: claims cost what they cost before all the same
(NikolayS/PgQue#80, brandur/sorg#263)."""

from collections.abc import Callable

import psycopg

from rota.domain.fairness import Position
from rota.domain.model import Outcome, Result

from .test_plans import new_database, stand

__all__ = ["new_database"]

ROUNDS = 12
JOBS = 250


async def test_the_hot_statements_do_not_pay_for_dead_rows(new_database: Callable[[], str]) -> None:
    database = new_database()
    with psycopg.connect(database) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        assert reader.execute("SELECT count(*) FROM jobs").fetchone() == (0,)
        claims, reads, successes = [], [], []
        async with stand(database) as ready:
            world = ready.world
            for _ in range(ROUNDS):
                began = Position(int((await world.now()).timestamp() * 1e6), "00000000-0000-0000-0000-000000000000")
                wishes = await ready.claims(JOBS)
                shards = sorted({claim.entry.shard for claim in wishes})
                # As the poller reads: from where it has read before, and again from the watermark.
                plan = await ready.explain(world.leases.read_due([(s, began) for s in shards], 2**52, 16))
                reads.append(plan.pages)
                plan = await ready.explain(world.leases.claim(wishes, world.owner))
                claims.append(plan.pages)
                results = [
                    Result(ready.tenant, each.session_id, each.entry.id, each.fence, Outcome.SUCCEEDED)
                    for each in wishes
                ]
                plan = await ready.explain(world.outcomes.succeed(results))
                successes.append(plan.pages)
            assert await world.value("SELECT count(*) FROM jobs") == 0
        # And the reader holds them all: it sees nothing of what has happened.
        assert reader.execute("SELECT count(*) FROM finished_jobs").fetchone() == (0,)
    for pages in (reads, claims, successes):
        assert max(pages[-3:]) <= 1.5 * max(pages[:3]), pages
