"""Settings of queues and tenants, and what is in the queues. How a change meets the claims is told in `slots`."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from sqlalchemy import text

from rota.domain import limits
from rota.domain.errors import ResourceExhausted, Unavailable
from rota.domain.ids import JobId, ShardNo, TenantId
from rota.domain.model import JobState, Tenant
from rota.domain.queue import Pause, Queue, QueueCounts, QueueSettings
from rota.domain.tenant import TenantSettings
from rota.store import slots
from rota.store.engine import Database, Row, Run, array
from rota.store.queueport import Configs, QueueFilter, QueueKey

T = TypeVar("T")

COUNT_PAGES_MAX: Final = 10_000
"""Pages (80 MB) of a table that are read to count its jobs; of a larger one a sample of so many."""

COUNT_DUE_MAX: Final = 1_000
"""Due jobs of a shard that are counted where its table is larger."""

_COLUMNS = """q.tenant_id, q.id, q.weight, q.rate, q.rate_burst, q.max_in_flight, q.max_in_flight_per_key, q.version,
    q.paused_at, q.pause_reason, q.pause_author"""

_GET = f"SELECT {_COLUMNS} FROM queues q WHERE q.tenant_id = %(tenant)s AND q.id = %(id)s"

_PAGE = f"""
SELECT {_COLUMNS} FROM queues q
WHERE q.tenant_id = %(tenant)s AND q.id COLLATE "C" > %(after)s
ORDER BY q.id COLLATE "C" LIMIT %(limit)s
"""

_LOCK = f"{_GET} FOR NO KEY UPDATE"

# Also the turn of all who change settings: one after the other.
_CHANGED = "UPDATE installation SET settings_version = settings_version + 1"

_BARRIER = "LOCK TABLE queues IN EXCLUSIVE MODE"

_NOW = "SELECT now()"

_COUNT_STORED = "SELECT count(*) FROM queues WHERE tenant_id = %(tenant)s"

_WRITE = f"""
INSERT INTO queues AS q (
    tenant_id, id, weight, rate, rate_burst, max_in_flight, max_in_flight_per_key, version, paused_at, pause_reason,
    pause_author, created_at, updated_at)
VALUES (
    %(tenant)s, %(id)s, %(weight)s, %(rate)s::float8, %(rate_burst)s, %(max_in_flight)s, %(max_in_flight_per_key)s, 1,
    %(paused_at)s::timestamptz, %(pause_reason)s, %(pause_author)s, now(), now())
ON CONFLICT (tenant_id, id) DO UPDATE
SET weight = excluded.weight, rate = excluded.rate, rate_burst = excluded.rate_burst,
    max_in_flight = excluded.max_in_flight, max_in_flight_per_key = excluded.max_in_flight_per_key,
    version = q.version + 1, paused_at = excluded.paused_at, pause_reason = excluded.pause_reason,
    pause_author = excluded.pause_author, updated_at = now()
RETURNING {_COLUMNS}
"""

# Leases from before are to be counted where nobody counted them so far.
_METER = f"""
INSERT INTO meters AS m (tenant_id, queue, uncounted, swept_queue, swept_key, swept_job)
VALUES (%(tenant)s, %(queue)s, %(counted)s AND NOT %(was_counted)s, '', '', '{slots.ZERO}')
ON CONFLICT (tenant_id, queue) DO UPDATE
SET uncounted = %(counted)s AND (m.uncounted OR NOT %(was_counted)s),
    tokens = CASE WHEN %(rated)s THEN m.tokens END, refilled_at = CASE WHEN %(rated)s THEN m.refilled_at END
"""

_DROP_METER = "DELETE FROM meters WHERE tenant_id = %(tenant)s AND queue = %(queue)s"

_DROP_QUEUES_SLOTS = """
DELETE FROM lease_slots s WHERE s.tenant_id = %(tenant)s AND s.queue = %(queue)s
  AND NOT EXISTS (SELECT FROM tenants t WHERE t.id = s.tenant_id AND t.max_in_flight IS NOT NULL)
"""

_DROP_TENANTS_SLOTS = """
DELETE FROM lease_slots s WHERE s.tenant_id = %(tenant)s
  AND NOT EXISTS (SELECT FROM queues q WHERE q.tenant_id = s.tenant_id AND q.id = s.queue
                  AND (q.max_in_flight IS NOT NULL OR q.max_in_flight_per_key IS NOT NULL))
"""

_CONFIGS = f"""
SELECT i.settings_version, EXISTS (SELECT FROM meters m WHERE m.uncounted), s.*
FROM installation i LEFT JOIN LATERAL (
    SELECT {_COLUMNS} FROM queues q
    WHERE i.settings_version <> %(known)s AND (q.weight <> {limits.WEIGHT_DEFAULT} OR {slots.IS_LIMITED})
    UNION ALL
    SELECT t.id, NULL, t.weight, NULL, NULL, t.max_in_flight, NULL, t.version, NULL, NULL, NULL FROM tenants t
    WHERE i.settings_version <> %(known)s AND (t.weight <> {limits.WEIGHT_DEFAULT} OR t.max_in_flight IS NOT NULL)
) s ON true
"""

_TENANT_COLUMNS = "t.id, t.name, t.created_at, t.weight, t.max_in_flight, t.version, t.history_s"

_TENANT = f"SELECT {_TENANT_COLUMNS} FROM tenants t WHERE t.name = %(name)s"

_TENANT_PAGE = f"""
SELECT {_TENANT_COLUMNS} FROM tenants t WHERE t.name COLLATE "C" > %(after)s
ORDER BY t.name COLLATE "C" LIMIT %(limit)s
"""

_LOCK_TENANT = f"SELECT {_TENANT_COLUMNS} FROM tenants t WHERE t.id = %(tenant)s FOR NO KEY UPDATE"

_WRITE_TENANT = f"""
UPDATE tenants t SET weight = %(weight)s, max_in_flight = %(max_in_flight)s, history_s = %(history_s)s::float8,
    version = version + 1, updated_at = now()
WHERE t.id = %(tenant)s
RETURNING {_TENANT_COLUMNS}
"""

_COUNT_HISTORIES = "SELECT count(*) FROM tenants WHERE history_s IS NOT NULL"

_WAITING = """
SELECT j.id::text FROM unnest(%(shards)t::smallint[]) AS f (shard)
CROSS JOIN LATERAL (
    SELECT j.id FROM jobs j
    WHERE j.shard = f.shard AND j.shard >= 0 AND j.tenant_id = %(tenant)s AND j.queue = %(queue)s
      AND (%(type)s = '' OR j.type = %(type)s)
      AND j.due_at <= now() + %(until_s)s::float8 * interval '1 second'
      AND ((j.state IN (1, 4) AND j.due_at <= now() AND %(ready)s)
           OR (j.state = 1 AND j.due_at > now() AND %(scheduled)s)
           OR (j.state = 4 AND j.due_at > now() AND %(retrying)s))
    ORDER BY j.due_at, j.id LIMIT %(limit)s
) j
LIMIT %(limit)s
"""

_COUNT_WAITING = f"SELECT count(*)::int FROM ({_WAITING}) w"

_PAGES = "SELECT pg_relation_size('jobs') / 8192, pg_relation_size('dead_jobs') / 8192"

_LIVE_COUNTS = """
SELECT j.tenant_id, j.queue,
       count(*) FILTER (WHERE j.state = 1 AND j.due_at > now()),
       count(*) FILTER (WHERE j.state IN (1, 4) AND j.due_at <= now()),
       count(*) FILTER (WHERE j.state IN (3, 5)),
       count(*) FILTER (WHERE j.state = 4 AND j.due_at > now()),
       extract(epoch FROM now() - min(j.due_at) FILTER (WHERE j.state IN (1, 4) AND j.due_at <= now()))::float8
FROM {source} j GROUP BY j.tenant_id, j.queue
"""

_ALL_COUNTS = _LIVE_COUNTS.format(source="jobs")

_SAMPLED_COUNTS = _LIVE_COUNTS.format(
    source="(SELECT * FROM jobs TABLESAMPLE SYSTEM (CAST(:percent AS real)) WHERE due_at > now())"
)

_DUE_COUNTS = _LIVE_COUNTS.format(
    source="""(
    SELECT j.* FROM shards s CROSS JOIN LATERAL (
        SELECT j.tenant_id, j.queue, j.state, j.due_at FROM jobs j
        WHERE j.shard = s.shard AND j.shard >= 0 AND j.due_at <= now() ORDER BY j.due_at, j.id LIMIT :due_max) j)"""
)

_DEAD_COUNTS = "SELECT d.tenant_id, d.queue, count(*) FROM dead_jobs d {sample} GROUP BY 1, 2"

_SESSION_COUNTS = """
SELECT s.tenant_id, q.queue, count(*) FROM sessions s CROSS JOIN LATERAL (
    SELECT DISTINCT unnest(s.queues)) AS q (queue)
WHERE s.closed_at IS NULL GROUP BY 1, 2
"""

LOCK_TIMEOUT = "SET LOCAL lock_timeout = '2s'"
"""No change of settings stands in the way of the claims behind it for longer."""

COUNT_TIMEOUT = "SET LOCAL statement_timeout = '5s'"


@dataclass(frozen=True, slots=True)
class PgQueues:
    """QueueStore and TenantStore on PostgreSQL."""

    db: Database

    async def get(self, tenant: TenantId, id: str) -> Queue | None:
        rows = await self.db.writes.run(_GET, {"tenant": tenant, "id": id}, write=False)
        return _queue(rows[0]) if rows else None

    async def page(self, tenant: TenantId, after: str, limit: int) -> list[Queue]:
        params = {"tenant": tenant, "after": after, "limit": limit}
        return [_queue(r) for r in await self.db.writes.run(_PAGE, params, write=False)]

    async def save(self, tenant: TenantId, id: str, settings: QueueSettings, version: int) -> Queue | None:
        def change(stored: Queue | None) -> Queue | None:
            old = stored or Queue(tenant, id)
            return replace(old, settings=settings) if old.version == version else None

        return (await self._change(tenant, id, settings.limited, change))[0]

    async def pause(self, tenant: TenantId, id: str, reason: str, author: str) -> Queue:
        (now,) = (await self.db.writes.run(_NOW, {}, write=False))[0]

        def change(stored: Queue | None) -> Queue | None:
            old = stored or Queue(tenant, id)
            return None if old.pause else replace(old, pause=Pause(now, reason, author))

        changed, stored = await self._change(tenant, id, True, change)
        found = changed or stored
        assert found is not None
        return found

    async def resume(self, tenant: TenantId, id: str) -> Queue | None:
        def change(stored: Queue | None) -> Queue | None:
            return None if stored is None or stored.pause is None else replace(stored, pause=None)

        changed, stored = await self._change(tenant, id, False, change)
        return changed or stored

    async def configs(self, known: int | None = None) -> Configs | None:
        params = {"known": known or 0}
        rows = await self.db.writes.run(_CONFIGS, params, write=False)
        version, uncounted = rows[0][:2]
        if uncounted:
            # Whoever set the limit did not come to it.
            await self._count_leased()
        if version == known:
            return None
        queues: list[Queue] = []
        tenants: dict[TenantId, TenantSettings] = {}
        for r in rows:
            if r[3] is not None:
                queues.append(_queue(r[2:]))
            elif r[2] is not None:
                tenants[TenantId(r[2])] = TenantSettings(r[4], r[7])
        return Configs(version, queues, tenants)

    async def counts(self) -> dict[QueueKey, QueueCounts]:
        async with self.db.begin() as conn:
            await conn.execute(text(COUNT_TIMEOUT))
            jobs_pages, dead_pages = (await conn.execute(text(_PAGES))).one()
            whole = jobs_pages <= COUNT_PAGES_MAX
            live: list[tuple[float, Sequence[Any]]] = []
            if whole:
                live.append((1.0, (await conn.execute(text(_ALL_COUNTS))).all()))
            else:
                percent = 100.0 * COUNT_PAGES_MAX / jobs_pages
                sampled = await conn.execute(text(_SAMPLED_COUNTS), {"percent": percent})
                live.append((100.0 / percent, sampled.all()))
                due = await conn.execute(text(_DUE_COUNTS), {"due_max": COUNT_DUE_MAX})
                live.append((1.0, due.all()))
            dead_part = max(dead_pages / COUNT_PAGES_MAX, 1.0)
            sample = f"TABLESAMPLE SYSTEM ({100.0 / dead_part})" if dead_part > 1 else ""
            dead = (await conn.execute(text(_DEAD_COUNTS.format(sample=sample)))).all()
            sessions = (await conn.execute(text(_SESSION_COUNTS))).all()
        found: dict[QueueKey, QueueCounts] = {}

        def add(tenant: int, queue: str, counts: QueueCounts) -> None:
            key = (TenantId(tenant), queue)
            found[key] = found.get(key, QueueCounts()) + counts

        for part, rows in live:
            for tenant, queue, *numbers, age_s in rows:
                scheduled, ready, leased, retry_wait = (round(n * part) for n in numbers)
                add(tenant, queue, QueueCounts(scheduled, ready, leased, retry_wait, 0, 0, age_s, whole))
        for tenant, queue, count in dead:
            add(tenant, queue, QueueCounts(dead=round(count * dead_part), exact=dead_part == 1))
        for tenant, queue, count in sessions:
            add(tenant, queue, QueueCounts(sessions=count))
        return found

    async def waiting(self, where: QueueFilter, shards: Sequence[ShardNo], limit: int) -> list[JobId]:
        rows = await self.db.writes.run(_WAITING, _waiting_params(where, shards, limit), write=False)
        return [JobId(id) for (id,) in rows]

    async def count_waiting(self, where: QueueFilter, shards: Sequence[ShardNo], limit: int) -> int:
        rows = await self.db.writes.run(_COUNT_WAITING, _waiting_params(where, shards, limit), write=False)
        return int(rows[0][0])

    async def tenant(self, name: str) -> Tenant | None:
        rows = await self.db.writes.run(_TENANT, {"name": name}, write=False)
        return _tenant(rows[0]) if rows else None

    async def tenant_page(self, after: str, limit: int) -> list[Tenant]:
        rows = await self.db.writes.run(_TENANT_PAGE, {"after": after, "limit": limit}, write=False)
        return [_tenant(r) for r in rows]

    async def save_tenant(self, tenant: TenantId, settings: TenantSettings, version: int) -> Tenant | None:
        async def work(run: Run) -> Tenant | None:
            rows = await run(_LOCK_TENANT, {"tenant": tenant})
            old = _tenant(rows[0])
            if old.version != version:
                return None
            if settings.history_s is not None and old.settings.history_s is None:
                await _check_histories(run)
            params = {
                "tenant": tenant,
                "weight": settings.weight,
                "max_in_flight": settings.max_in_flight,
                "history_s": settings.history_s,
            }
            new = _tenant((await run(_WRITE_TENANT, params))[0])
            await _set_meter(run, (tenant, ""), counted=settings.limited, was_counted=old.settings.limited)
            if old.settings.limited and not settings.limited:
                await run(_DROP_TENANTS_SLOTS, {"tenant": tenant})
            return new

        return await self._settle(settings.limited, work)

    async def _change(
        self, tenant: TenantId, id: str, limits_now: bool, change: Callable[[Queue | None], Queue | None]
    ) -> tuple[Queue | None, Queue | None]:
        """The queue after the change, None where there was none to make, and as it was found."""
        key: dict[str, object] = {"tenant": tenant, "id": id}

        async def work(run: Run) -> tuple[Queue | None, Queue | None]:
            rows = await run(_LOCK, key)
            stored = _queue(rows[0]) if rows else None
            wanted = change(stored)
            if wanted is None:
                return None, stored
            if stored is None and (await run(_COUNT_STORED, key))[0][0] >= limits.QUEUES_MAX:
                raise ResourceExhausted(
                    f"queues/{id}: the tenant has settings for {limits.QUEUES_MAX} queues already; use fewer, and tell "
                    "their jobs apart by concurrency_key",
                    reason="QUOTA_EXCEEDED",
                )
            new = _queue((await run(_WRITE, key | _written(wanted)))[0])
            was = stored.settings if stored is not None else QueueSettings()
            await _set_meter(
                run,
                (tenant, id),
                counted=new.settings.counted,
                was_counted=was.counted,
                rated=new.settings.rate is not None,
            )
            if was.counted and not new.settings.counted:
                await run(_DROP_QUEUES_SLOTS, {"tenant": tenant, "queue": id})
            return new, stored

        return await self._settle(limits_now, work)

    async def _settle(self, limits_now: bool, work: Callable[[Run], Awaitable[T]]) -> T:
        """Changes settings in their turn. `limits_now`: they limit from now on, so that no claim may be on its way."""

        async def inside(run: Run) -> T:
            await run(LOCK_TIMEOUT, {})
            await run(_CHANGED, {})
            if limits_now:
                await run(_BARRIER, {})
            return await work(run)

        done = await self.db.writes.transact(inside)
        if limits_now:
            # What fails is made up for by whoever reads the settings next.
            with suppress(Unavailable):
                await self._count_leased()
        return done

    async def _count_leased(self) -> None:
        while await self.db.writes.transact(slots.count_leased):
            pass


async def _check_histories(run: Run) -> None:
    if (await run(_COUNT_HISTORIES, {}))[0][0] >= limits.HISTORIES_MAX:
        raise ResourceExhausted(
            f"tenant.history_retention: {limits.HISTORIES_MAX} tenants have a span of their own already, and each has "
            "tables of its own; unset one, or change the installation's own: ROTA_HISTORY",
            reason="QUOTA_EXCEEDED",
        )


async def _set_meter(run: Run, key: QueueKey, *, counted: bool, was_counted: bool, rated: bool = False) -> None:
    params: dict[str, object] = {"tenant": key[0], "queue": key[1]}
    if counted or rated:
        await run(_METER, params | {"counted": counted, "was_counted": was_counted, "rated": rated})
    else:
        await run(_DROP_METER, params)


def _written(queue: Queue) -> dict[str, object]:
    settings, pause = queue.settings, queue.pause
    return {
        "weight": settings.weight,
        "rate": settings.rate,
        "rate_burst": settings.rate_burst,
        "max_in_flight": settings.max_in_flight,
        "max_in_flight_per_key": settings.max_in_flight_per_key,
        "paused_at": pause.since if pause else None,
        "pause_reason": pause.reason if pause else None,
        "pause_author": pause.author if pause else None,
    }


def _queue(r: Row) -> Queue:
    return Queue(
        TenantId(r[0]),
        r[1],
        QueueSettings(r[2], r[3], r[4], r[5], r[6]),
        r[7],
        None if r[8] is None else Pause(r[8], r[9] or "", r[10] or ""),
    )


def _tenant(r: Row) -> Tenant:
    return Tenant(TenantId(r[0]), r[1], r[2], TenantSettings(r[3], r[4], r[6]), r[5])


def _waiting_params(where: QueueFilter, shards: Sequence[ShardNo], limit: int) -> dict[str, object]:
    # A retry is never further ahead than the longest backoff, so only SCHEDULED needs a look at all timers.
    until_s = limits.BACKOFF_MAX_S if JobState.RETRY_WAIT in where.states else 0.0
    return {
        "shards": array(shards),
        "tenant": where.tenant_id,
        "queue": where.queue,
        "type": where.type,
        "until_s": 2 * limits.HORIZON_S if JobState.SCHEDULED in where.states else until_s,
        "ready": JobState.READY in where.states,
        "scheduled": JobState.SCHEDULED in where.states,
        "retrying": JobState.RETRY_WAIT in where.states,
        "limit": limit,
    }
