"""What the rows say about the health of the whole."""

from dataclasses import dataclass
from datetime import datetime

from rota.domain.ids import ScheduleUid, TenantId
from rota.domain.schedule import ScheduleState
from rota.store.engine import Database, Row
from rota.store.scheduleport import Ledger

_OVERVIEW = """
SELECT now(),
       (SELECT count(*) FROM coordinators WHERE expires_at > now()),
       (SELECT count(*) FROM shards),
       (SELECT count(*) FROM shards s JOIN coordinators c ON c.id = s.owner WHERE c.expires_at > now()),
       (SELECT extract(epoch FROM max(now() - d.due_at))::float8
        FROM shards s CROSS JOIN LATERAL (
            SELECT j.due_at FROM jobs j
            WHERE j.shard = s.shard AND j.shard >= 0 AND j.due_at <= now() AND j.state IN (1, 4)
            ORDER BY j.due_at LIMIT 1) d),
       (SELECT count(*) FROM shards s CROSS JOIN LATERAL (
            SELECT FROM jobs j
            WHERE j.shard = s.shard AND j.shard >= 0 AND j.due_at <= now() AND j.state IN (3, 5)
              AND NOT EXISTS (SELECT FROM sessions x
                              WHERE x.id = j.session_id AND x.state < 3)
            ORDER BY j.due_at LIMIT 1000) o)
"""


_SCHEDULES = """
SELECT count(*) FILTER (WHERE state = 1), count(*) FILTER (WHERE state = 4),
       count(*) FILTER (WHERE state = 1 AND arm_at IS NULL),
       count(*) FILTER (WHERE state = 1 AND next_due < now() - interval '1 minute'),
       extract(epoch FROM now() - min(next_due) FILTER (WHERE state = 1 AND next_due < now()))::float8
FROM schedule_timers
"""

# By number, 1 to 9: what is superseded is no occurrence of the rule.
FATES = """
    SELECT array_agg(coalesce(f.count, 0) ORDER BY g.fate) AS fates
    FROM generate_series(1, 9) AS g (fate)
    LEFT JOIN (SELECT o.fate, sum(o.count)::bigint AS count FROM occurrences o
               WHERE o.schedule_uid = s.uid AND o.generation = 0 AND o.fate <> 10 GROUP BY o.fate) f USING (fate)
"""
"""Of schedule `s`."""

_LEDGERS = f"""
SELECT s.tenant_id, s.id, s.uid::text, t.version, t.state, s.created_at, t.cursor_at, t.fates[1:9], l.fates
FROM (SELECT * FROM schedules WHERE created_at > now() - %(history_s)s::float8 * interval '1 second'
      ORDER BY uid DESC LIMIT %(limit)s) s
JOIN schedule_timers t ON t.uid = s.uid
CROSS JOIN LATERAL ({FATES}) l
"""


@dataclass(frozen=True, slots=True)
class SchedulesOverview:
    """`late`: active ones whose next time passed a minute ago or more; `latest_s`: by how much the worst is late."""

    active: int
    failed: int
    unarmed: int
    late: int
    latest_s: float | None


@dataclass(frozen=True, slots=True)
class Overview:
    """`oldest_due_s` None: no due job waits. `orphaned_leases` counts up to 1,000 a shard."""

    now: datetime
    coordinators: int
    shards: int
    shards_owned: int
    oldest_due_s: float | None
    orphaned_leases: int


@dataclass(frozen=True, slots=True)
class PgDoctor:
    db: Database

    async def overview(self) -> Overview:
        return Overview(*(await self.db.reads.run(_OVERVIEW, {}, write=False))[0])

    async def schedules(self) -> SchedulesOverview:
        return SchedulesOverview(*(await self.db.reads.run(_SCHEDULES, {}, write=False))[0])

    async def ledgers(self, history_s: float, limit: int) -> list[Ledger]:
        """Of the newest schedules whose whole history is kept."""
        rows = await self.db.reads.run(_LEDGERS, {"history_s": history_s, "limit": limit}, write=False)
        return [ledger(r) for r in rows]


def ledger(r: Row) -> Ledger:
    """From the columns of a ledger."""
    return Ledger(
        TenantId(r[0]), r[1], ScheduleUid(r[2]), r[3], ScheduleState(r[4]), r[5], r[6], tuple(r[7]), tuple(r[8])
    )
