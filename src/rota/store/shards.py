"""Who owns which shard, under which epoch.

A coordinator renews one row, its own; its shards stay its own while that row lives. Every change of owner raises the
epoch, and each claim tests owner and epoch in its own statement, so a coordinator that lost a shard can do no harm
however late it notices.

A database may be a copy of another one as it was: a standby that lagged when it was promoted, a backup. Epochs that the
other raised since are unknown to it, while leases carry them. So each row says under which incarnation of the database
its epoch was raised, and the first new epoch of another incarnation is `EPOCH_STEP` higher.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from rota.domain import limits
from rota.domain.ids import CoordinatorId, ShardNo
from rota.domain.model import ShardTerm
from rota.store.engine import Database, Run, array
from rota.store.port import Colleague, Roster

# One address has one process: whoever listened there before is gone.
_RETIRE = "DELETE FROM coordinators WHERE address = %(address)s AND id <> %(id)s::uuid"

_REGISTER = """
INSERT INTO coordinators (id, address, version, peer_address, expires_at)
VALUES (
    %(id)s::uuid, %(address)s, %(version)s, nullif(%(peer_address)s, ''),
    now() + %(term_s)s::float8 * interval '1 second'
)
"""

_OTHERS = "SELECT count(*) FROM coordinators WHERE id <> %(id)s::uuid AND expires_at > now()"

_RENEW = """
UPDATE coordinators SET expires_at = now() + %(term_s)s::float8 * interval '1 second'
WHERE id = %(id)s::uuid AND expires_at > now()
RETURNING now()
"""

_NOW = "SELECT now()"

_SHORTEN = """
UPDATE coordinators SET expires_at = now() + %(term_s)s::float8 * interval '1 second'
WHERE expires_at > now() + %(term_s)s::float8 * interval '1 second'
"""

_ACQUIRE = """
WITH here AS MATERIALIZED (SELECT rota_incarnation() AS incarnation)
UPDATE shards s
SET owner = %(id)s::uuid, epoch = s.epoch + free.step, incarnation = coalesce(nullif(free.here, ''), s.incarnation)
FROM (
    SELECT f.shard, h.incarnation AS here,
           CASE WHEN h.incarnation IN (f.incarnation, '') THEN 1 ELSE %(step)s::bigint END AS step
    FROM here h CROSS JOIN shards f
    WHERE f.shard = ANY (coalesce(%(only)t::smallint[], ARRAY[f.shard]))
      AND (f.owner IS NULL
           OR NOT EXISTS (SELECT FROM coordinators c WHERE c.id = f.owner AND c.expires_at > now()))
    ORDER BY f.shard LIMIT %(limit)s FOR UPDATE OF f SKIP LOCKED
) free
WHERE s.shard = free.shard AND s.epoch + free.step <= %(epoch_max)s
  AND EXISTS (SELECT FROM coordinators c WHERE c.id = %(id)s::uuid AND c.expires_at > now())
RETURNING s.shard, s.epoch
"""

_LIVING = """
SELECT id::text, coalesce(peer_address, ''), extract(epoch FROM expires_at - now())::float8, draining
FROM coordinators WHERE expires_at > now()
"""

_SHARDS = "SELECT shard, epoch, owner::text FROM shards"

_INCARNATION = "SELECT rota_incarnation()"

_GIVE_UP = """
UPDATE shards SET owner = NULL, epoch = epoch + 1
WHERE owner = %(id)s::uuid AND shard = ANY (%(shards)t::smallint[])
RETURNING shard
"""

_DRAIN = "UPDATE coordinators SET draining = true WHERE id = %(id)s::uuid"

_RELEASE = "UPDATE shards SET owner = NULL, epoch = epoch + 1 WHERE owner = %(id)s::uuid"

_LEAVE = "DELETE FROM coordinators WHERE id = %(id)s::uuid"

_SET_WATERMARKS = """
UPDATE shards s SET watermark = timestamptz 'epoch' + w.due_us * interval '1 microsecond'
FROM unnest(%(shards)t::smallint[], %(dues)t::bigint[]) AS w (shard, due_us)
WHERE s.shard = w.shard AND s.owner = %(id)s::uuid
"""

_WATERMARKS = """
SELECT shard, (extract(epoch FROM watermark) * 1000000)::bigint FROM shards
WHERE shard = ANY (%(shards)t::smallint[]) AND watermark IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class PgShards:
    """ShardStore on PostgreSQL."""

    db: Database

    async def register(
        self, coordinator: CoordinatorId, address: str, version: str, term_s: float, peer_address: str = ""
    ) -> bool:
        async def work(run: Run) -> bool:
            me = {"id": coordinator}
            await run(_RETIRE, me | {"address": address})
            named = {"address": address, "version": version, "term_s": term_s, "peer_address": peer_address}
            await run(_REGISTER, me | named)
            return bool((await run(_OTHERS, me))[0][0] == 0)

        return await self.db.terms.transact(work)

    async def renew(self, coordinator: CoordinatorId, term_s: float) -> tuple[bool, datetime]:
        rows = await self.db.terms.run(_RENEW, {"id": coordinator, "term_s": term_s})
        if rows:
            return True, rows[0][0]
        return False, (await self.db.terms.run(_NOW, {}, write=False))[0][0]

    async def shorten(self, term_s: float) -> None:
        await self.db.terms.run(_SHORTEN, {"term_s": term_s})

    async def roster(self) -> Roster:
        async def work(run: Run) -> Roster:
            living = tuple(Colleague(CoordinatorId(r[0]), r[1], r[2], r[3]) for r in await run(_LIVING, {}))
            shards = {ShardNo(shard): (epoch, owner) for shard, epoch, owner in await run(_SHARDS, {})}
            return Roster(living, shards, (await run(_INCARNATION, {}))[0][0])

        return await self.db.terms.transact(work)

    async def acquire(
        self, coordinator: CoordinatorId, limit: int, only: Sequence[ShardNo] | None = None
    ) -> list[ShardTerm]:
        params = {"id": coordinator, "limit": limit, "epoch_max": limits.EPOCH_MAX, "step": limits.EPOCH_STEP}
        rows = await self.db.terms.run(_ACQUIRE, params | {"only": None if only is None else array(only)})
        return [ShardTerm(ShardNo(shard), epoch, coordinator) for shard, epoch in rows]

    async def give_up(self, coordinator: CoordinatorId, shards: Sequence[ShardNo]) -> list[ShardNo]:
        rows = await self.db.terms.run(_GIVE_UP, {"id": coordinator, "shards": array(shards)})
        return [ShardNo(shard) for (shard,) in rows]

    async def drain(self, coordinator: CoordinatorId) -> None:
        await self.db.terms.run(_DRAIN, {"id": coordinator})

    async def release(self, coordinator: CoordinatorId) -> None:
        async def work(run: Run) -> None:
            await run(_RELEASE, {"id": coordinator})
            await run(_LEAVE, {"id": coordinator})

        await self.db.terms.transact(work)

    async def set_watermarks(self, marks: Mapping[ShardNo, int], coordinator: CoordinatorId) -> None:
        shards = sorted(marks)
        await self.db.terms.run(
            _SET_WATERMARKS,
            {"shards": array(shards), "dues": array([marks[s] for s in shards]), "id": coordinator},
        )

    async def watermarks(self, shards: Sequence[ShardNo]) -> dict[ShardNo, int]:
        rows = await self.db.terms.run(_WATERMARKS, {"shards": array(shards)}, write=False)
        return {ShardNo(shard): due_us for shard, due_us in rows}
