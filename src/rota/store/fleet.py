"""Coordinators and shards as operators see them."""

from dataclasses import dataclass

from rota.domain.ids import CoordinatorId, ShardNo
from rota.store.engine import Database
from rota.store.queueport import Coordinator, Shard

_COORDINATORS = """
SELECT c.id::text, coalesce(nullif(c.peer_address, ''), c.address), c.version, c.started_at, c.expires_at, c.draining,
       (SELECT count(*)::int FROM shards s WHERE s.owner = c.id),
       (SELECT count(*)::int FROM sessions s WHERE s.coordinator = c.id AND s.closed_at IS NULL)
FROM coordinators c
WHERE c.expires_at > now() AND (%(after)s::uuid IS NULL OR c.id > %(after)s::uuid)
ORDER BY c.id LIMIT %(limit)s
"""

_SHARDS = """
SELECT s.shard, s.epoch, c.id::text, c.expires_at, s.watermark
FROM shards s LEFT JOIN coordinators c ON c.id = s.owner AND c.expires_at > now()
WHERE s.shard > %(after)s AND (%(owner)s::uuid IS NULL OR c.id = %(owner)s::uuid)
ORDER BY s.shard LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class PgFleet:
    """FleetStore on PostgreSQL."""

    db: Database

    async def coordinators(self, after: CoordinatorId | None, limit: int) -> list[Coordinator]:
        rows = await self.db.writes.run(_COORDINATORS, {"after": after, "limit": limit}, write=False)
        return [Coordinator(CoordinatorId(r[0]), *r[1:]) for r in rows]

    async def shards(self, after: int, limit: int, owner: CoordinatorId | None) -> list[Shard]:
        params = {"after": after, "limit": limit, "owner": owner}
        rows = await self.db.writes.run(_SHARDS, params, write=False)
        return [Shard(ShardNo(r[0]), r[1], None if r[2] is None else CoordinatorId(r[2]), r[3], r[4]) for r in rows]
