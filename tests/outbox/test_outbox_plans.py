"""The plans of the relay's statements, as they really ran, on 100,000 rows that were never analysed: stretches of one
index or rows by their key, and no more rows read than asked for."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from psycopg import sql

from rota.outbox.database import Connection, Row
from rota.outbox.limits import LOOK_ROWS, TIDY_KEYS
from rota.outbox.table import Table

from .world import App

ROWS = 100_000
# A third without a key, a third behind one poison row, a third with keys of their own.
FILL = """
alter table rota_outbox set (autovacuum_enabled = false);
alter table rota_outbox_keys set (autovacuum_enabled = false);
insert into rota_outbox
    (id, ordering_key, type, queue, payload, content_type, options, bytes, alone, enqueued_at, parked_at)
select gen_random_uuid(), case n % 3 when 1 then 'poison' when 2 then 'key-' || n end, 'greet', 'default', '', '',
       '{{}}', 10, n % 3 <> 0, now(), case when n = 1 then now() end
from generate_series(1, {rows}) n;
insert into rota_outbox_keys select distinct ordering_key from rota_outbox where ordering_key is not null
"""


class Explained(Connection):
    """Runs a statement, and keeps the plan that it ran by."""

    plan: Mapping[str, Any]

    async def run(self, statement: sql.Composed, params: Mapping[str, object]) -> Sequence[Row]:
        ((found,),) = await super().run(sql.SQL("EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ") + statement, params)
        self.plan = found[0]["Plan"]
        return []

    def nodes(self) -> Iterator[Mapping[str, Any]]:
        def walk(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
            yield node
            for child in node.get("Plans", ()):
                yield from walk(child)

        return walk(self.plan)

    def rows_read(self) -> float:
        return sum(
            (n["Actual Rows"] + n.get("Rows Removed by Filter", 0) + n.get("Rows Removed by Index Recheck", 0))
            * n["Actual Loops"]
            for n in self.nodes()
            if "Scan" in n["Node Type"] and n.get("Relation Name", "").startswith("rota_outbox")
        )


# By name: the call, and the most rows of all scans together.
CALLS: Mapping[str, tuple[Callable[[Table], Awaitable[object]], int]] = {
    "new rows": (lambda t: t.look_new(50_000), 2 * LOOK_ROWS),
    "new rows at the end": (lambda t: t.look_new(ROWS), 0),
    "rows behind": (lambda t: t.look_behind(0, ROWS), LOOK_ROWS),
    "keys": (lambda t: t.look_keys("", ROWS), LOOK_ROWS + 1),
    "keys from the middle": (lambda t: t.look_keys("key-5", ROWS), LOOK_ROWS + 1),
    "next rows": (lambda t: t.look_next({"poison": 50_000, "key-2": 2}), 2),
    "claim alone": (lambda t: t.claim_alone(range(2, 602, 3)), 400),
    "claim a batch": (lambda t: t.claim_batch(range(3, 603, 3)), 400),
    "claim a batch again": (lambda t: t.claim_again(3, 600, 200), 600),
    "delete": (lambda t: t.delete(range(3, 603, 3)), 200),
    "park": (lambda t: t.park([3], "r", "e"), 1),
    "dissolve": (lambda t: t.dissolve(range(3, 603, 3)), 200),
    "release": (lambda t: t.release(range(3, 603, 3), 1.0), 200),
    "tidy": (lambda t: t.tidy(""), 4 * TIDY_KEYS),
    "parked rows": (lambda t: t.parked(0, 20), 20),
    "retry": (lambda t: t.retry([1]), 1),
    "discard": (lambda t: t.discard([1]), 1),
}


@pytest.mark.parametrize("state", ["all alive", "most deleted", "held by an old snapshot"])
async def test_every_statement_reads_an_index_and_no_more_than_asked_for(app: App, state: str) -> None:
    app.run(FILL.format(rows=ROWS))
    with app.connect() as old:
        if state == "held by an old snapshot":
            old.execute("set transaction isolation level repeatable read")
            old.execute("select from app.rota_outbox limit 1")
        if state != "all alive":
            app.run("delete from rota_outbox where seq > 2000 and seq < 99000")
        connection = Explained(app.place)
        for name, (call, most) in CALLS.items():
            await call(Table(connection))
            whole = [n for n in connection.nodes() if n["Node Type"] == "Seq Scan"]
            assert not whole, (name, whole)
            assert connection.rows_read() <= most, (name, connection.rows_read(), connection.plan)
        await connection.close()
