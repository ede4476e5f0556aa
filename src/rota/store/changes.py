"""Changes of jobs: written down by triggers, read in order, deleted when old.

Three promises hold this together. None needs a lock, and none costs the statements that change jobs more than a look at
`watched_tenants`, which is empty where nobody watches.

**All changes are written down.** The triggers of `jobs`, `finished_jobs` and `dead_jobs` (migration 0009) copy what a
statement has changed into `job_changes`, in its transaction, for each tenant in `watched_tenants`. They look there by a
statement of their own, which sees what was committed before. So a transaction can miss a new row of `watched_tenants`
only if it was changing jobs when that row was committed, and then it holds a lock on the table it changes until its
end. Who begins to watch commits the row, looks once who holds such locks (`writers`), and waits until they are gone.
From then on, as long as the row exists, everything is written down. Each row has a `generation` of its own, so that one
that was deleted and made again is not taken for the same.

**None is skipped.** Neither numbers nor times tell which changes were there already: transactions commit in another
order than they begin. The position of a reader is a snapshot (`domain/change.py`), and what comes next is what is not
visible in that and is visible now: changes of the transactions that it saw running, and of those with higher numbers.
Both are ranges of the primary key. A transaction that stays open for hours, whosever it is, holds nobody up.

**What was deleted is known.** Changes are deleted in the order of transactions and only below the oldest one that still
runs, and `dropped_xid`, written by the same statement, says how far. A position from which something below that is
unseen is refused.

Numbers of transactions mean nothing in another database, or in this one as a promoted standby has it, so a position is
good for one `rota_incarnation()`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from rota.domain.change import Change, Page, Position
from rota.domain.effect import HELD_UNTIL
from rota.domain.ids import TenantId
from rota.domain.model import Job, JobState
from rota.store.changeport import Coverage
from rota.store.engine import Database, array
from rota.store.readers import SHARED, job_of

_KEPT = """tenant_id, id, priority, generation, attempt, attempts_counted, max_attempts, run_timeout_ms, due_at,
    created_at, type, queue, headers, labels, options, effect_key, concurrency_key, traceparent, schedule_uid,
    schedule_id, nominal_at, occurrence_generation"""


def told_withdrawn(source: str) -> str:
    """SQL: writes down that these jobs are no more, though no table has their end: who watches is to know of it."""
    return f"""
    INSERT INTO job_changes ({_KEPT}, xid, changed_at, state, despite_cancel, reason, finished_at)
    SELECT {_KEPT}, pg_current_xact_id()::text::bigint, clock_timestamp(), {int(JobState.CANCELLED)}, false,
           'withdrawn before it began: its schedule was changed', now()
    FROM {source} g
    WHERE EXISTS (SELECT FROM watched_tenants w WHERE w.tenant_id = g.tenant_id)
    """


_WATCH = """
INSERT INTO watched_tenants AS w (tenant_id, settled, watched_until, dropped_xid)
VALUES (%(tenant)s::int, false, now() + %(for_s)s::float8 * interval '1 second', 0)
ON CONFLICT (tenant_id) DO UPDATE SET watched_until = greatest(w.watched_until, excluded.watched_until)
RETURNING w.generation, w.settled, rota_incarnation()
"""

_SETTLE = """
UPDATE watched_tenants SET settled = true WHERE tenant_id = %(tenant)s::int AND generation = %(generation)s::bigint
"""

_EXTEND = """
UPDATE watched_tenants
SET watched_until = greatest(watched_until, now() + %(for_s)s::float8 * interval '1 second')
WHERE tenant_id = %(tenant)s::int AND generation = %(generation)s::bigint AND settled
RETURNING rota_incarnation()
"""

# Who waits for a lock has not looked yet, and will see the row.
_WRITERS = """
SELECT DISTINCT virtualtransaction FROM pg_locks
WHERE locktype = 'relation' AND granted AND mode = 'RowExclusiveLock'
  AND database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  AND relation IN ('jobs'::regclass, 'finished_jobs'::regclass, 'dead_jobs'::regclass)
"""

_MOMENT = """
SELECT w.generation, rota_incarnation(), pg_current_snapshot()::text
FROM watched_tenants w WHERE w.tenant_id = %(tenant)s::int AND w.settled
"""

_FIRST: Final = ("xid", "seq", "queue", "type")
"""What a change has itself, for filters; its job is made of all when it is told."""

_COLUMNS: Final = (
    *_FIRST,
    *("state", "finished_at", "despite_cancel", "reason", "held_for"),
    *(name for name in SHARED if name not in (*_FIRST, "content_type")),
)

_SHOWN: Final = {
    "id": "c.id::text",
    "session_id": "c.session_id::text",
    "schedule_uid": "c.schedule_uid::text",
    # READY is derived, as everywhere; here as of the change.
    "state": f"CASE WHEN c.state IN (1, 4) AND c.due_at <= c.changed_at THEN {int(JobState.READY)} ELSE c.state END",
    "held_for": (
        "CASE WHEN c.state = 4 AND c.due_at >= coalesce(c.deadline_at, %(held_until)s::timestamptz) "
        "THEN c.held_for::text END"
    ),
}

# The numbers of a database that was restored may lie ahead of it: those are not read before it has come there.
_PAGE = f"""
WITH now AS MATERIALIZED (SELECT pg_current_snapshot() AS snapshot, rota_incarnation() AS incarnation)
SELECT w.generation, n.incarnation, n.snapshot::text, w.dropped_xid,
       {", ".join(_SHOWN.get(name, f"c.{name}") for name in _COLUMNS)}
FROM now n
JOIN watched_tenants w ON w.tenant_id = %(tenant)s::int AND w.settled
LEFT JOIN LATERAL (
    SELECT * FROM (
        (SELECT c.*
         FROM unnest(%(running)s::bigint[], %(lasts)s::bigint[]) AS r (xid, last)
         CROSS JOIN LATERAL (
            SELECT * FROM job_changes c
            WHERE c.tenant_id = %(tenant)s::int AND c.xid = r.xid AND c.seq > r.last
            ORDER BY c.seq LIMIT %(limit)s::int) c
         ORDER BY c.xid, c.seq LIMIT %(limit)s::int)
        UNION ALL
        (SELECT * FROM job_changes c
         WHERE c.tenant_id = %(tenant)s::int AND (c.xid, c.seq) > (%(next_xid)s::bigint, %(next_seq)s::bigint)
           AND c.xid < pg_snapshot_xmax(n.snapshot)::text::bigint
         ORDER BY c.xid, c.seq LIMIT %(limit)s::int)
    ) c
    ORDER BY c.xid, c.seq LIMIT %(limit)s::int
) c ON true
ORDER BY c.xid, c.seq
"""

_LAPSE = "DELETE FROM watched_tenants WHERE watched_until < now() RETURNING 1"

# From one tenant to the next by the index, not through all rows.
_TENANTS = """
WITH RECURSIVE t (id) AS (
    (SELECT tenant_id FROM job_changes ORDER BY tenant_id LIMIT 1)
    UNION ALL
    SELECT (SELECT c.tenant_id FROM job_changes c WHERE c.tenant_id > t.id ORDER BY c.tenant_id LIMIT 1)
    FROM t WHERE t.id IS NOT NULL
)
SELECT id FROM t WHERE id IS NOT NULL
"""

_TRIM = """
WITH old AS MATERIALIZED (
    SELECT c.xid, c.seq FROM (
        SELECT c.xid, c.seq, c.changed_at FROM job_changes c
        WHERE c.tenant_id = %(tenant)s::int
          AND c.xid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
        ORDER BY c.xid, c.seq LIMIT %(bite)s::int
    ) c
    WHERE c.changed_at < now() - %(life_s)s::float8 * interval '1 second'
       OR c.seq <= coalesce(pg_sequence_last_value('job_changes_seq_seq'), 0) - %(most)s::bigint
       OR NOT EXISTS (SELECT FROM watched_tenants w WHERE w.tenant_id = %(tenant)s::int)
), gone AS (
    DELETE FROM job_changes c USING old o
    WHERE c.tenant_id = ANY (ARRAY[%(tenant)s::int]) AND c.xid = o.xid AND c.seq = o.seq
    RETURNING c.xid
), said AS (
    UPDATE watched_tenants w SET dropped_xid = greatest(w.dropped_xid, g.last)
    FROM (SELECT max(xid) AS last FROM gone) g
    WHERE w.tenant_id = %(tenant)s::int AND g.last IS NOT NULL
)
SELECT count(*) FROM gone
"""


@dataclass(frozen=True, slots=True)
class PgChanges:
    """ChangeStore on PostgreSQL."""

    db: Database

    async def watch(self, tenant: TenantId, for_s: float) -> tuple[Coverage, bool]:
        ((generation, settled, incarnation),) = await self.db.writes.run(_WATCH, {"tenant": tenant, "for_s": for_s})
        return Coverage(generation, incarnation), settled

    async def writers(self) -> frozenset[str]:
        return frozenset(row[0] for row in await self.db.writes.run(_WRITERS, {}, write=False))

    async def settle(self, tenant: TenantId, coverage: Coverage) -> None:
        await self.db.writes.run(_SETTLE, {"tenant": tenant, "generation": coverage.generation})

    async def extend(self, tenant: TenantId, coverage: Coverage, for_s: float) -> bool:
        params = {"tenant": tenant, "generation": coverage.generation, "for_s": for_s}
        return await self.db.writes.run(_EXTEND, params) == [(coverage.incarnation,)]

    async def moment(self, tenant: TenantId, coverage: Coverage) -> Position | None:
        rows = await self.db.writes.run(_MOMENT, {"tenant": tenant}, write=False)
        if not rows or Coverage(*rows[0][:2]) != coverage:
            return None
        return _position(rows[0][2])

    async def page(self, tenant: TenantId, coverage: Coverage, after: Position, limit: int) -> Page | None:
        lasts = dict(after.parts)
        running = sorted(after.running)
        params = {
            "tenant": tenant,
            "running": array(running),
            "lasts": array([lasts.get(xid, 0) for xid in running]),
            "next_xid": after.next_xid,
            "next_seq": lasts.get(after.next_xid, 0),
            "limit": limit + 1,
            "held_until": HELD_UNTIL,
        }
        rows = await self.db.writes.run(_PAGE, params, write=False)
        if not rows or Coverage(*rows[0][:2]) != coverage or rows[0][3] >= after.first_unseen:
            return None
        changes = [_change(row[4:]) for row in rows if row[4] is not None]
        return Page(after, _position(rows[0][2]), changes[:limit], len(changes) > limit)

    async def lapse(self) -> int:
        return len(await self.db.writes.run(_LAPSE, {}))

    async def trim(self, older_than_s: float, most: int, bite: int) -> int:
        deleted = 0
        for (tenant,) in await self.db.writes.run(_TENANTS, {}, write=False):
            params = {"tenant": tenant, "life_s": older_than_s, "most": most, "bite": bite}
            deleted = max(deleted, (await self.db.writes.run(_TRIM, params))[0][0])
        return deleted


def _position(snapshot: str) -> Position:
    """pg_snapshot as text: xmin:xmax:running,…"""
    _, next_xid, running = snapshot.split(":")
    return Position(int(next_xid), frozenset(map(int, running.split(","))) if running else frozenset())


def _change(row: Sequence[Any]) -> Change:
    xid, seq, queue, type = row[: len(_FIRST)]
    return Change(xid, seq, queue, type, partial(_job, row))


def _job(row: Sequence[Any]) -> Job:
    return job_of(dict(zip(_COLUMNS, row, strict=True)) | {"content_type": ""})
