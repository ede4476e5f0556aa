"""What the rows say about the health of the whole."""

from dataclasses import dataclass
from datetime import datetime

from rota.store.engine import Database

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
