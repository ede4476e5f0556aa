"""Dead letters: finding them, bringing them back, and letting them go for good.

Walks go along one index, in the order of death, and look at a bounded number of letters: a filter that few meet costs
many short statements and no long one. A job leaves `dead_jobs` in the statement that inserts it elsewhere.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, TypeVar

from sqlalchemy import literal_column

from rota.domain import limits
from rota.domain.deadletter import FIRST, LAST, DeadLetter, Place, Redrive
from rota.domain.fairness import Entry
from rota.domain.ids import JobId, TenantId, shard_of
from rota.domain.model import DeadCause
from rota.store import codec, redrives, requests
from rota.store.deadport import DeadTransaction, Found, Walk
from rota.store.engine import Database, Params, Row, Run, array, by_key
from rota.store.fires import ENTRY, entry
from rota.store.readers import dead_part, job_of
from rota.store.scheduleport import RequestKey
from rota.store.tables import dead_jobs

T = TypeVar("T")

WALK_ROWS: Final = 10_000
"""Letters that one statement looks at."""

# A version of Rota that knew no causes wrote the reason only.
_CAUSE = """coalesce({row}.cause, CASE {row}.reason WHEN 'the failure is not retryable' THEN 2
    WHEN 'the next attempt would start after the total timeout' THEN 3 ELSE 1 END)"""

_DIED_US = "(extract(epoch FROM d.died_at) * 1000000)::bigint"


def _at(param: str) -> str:
    return f"timestamptz 'epoch' + %({param})s::bigint * interval '1 microsecond'"


_RANGE = f"""
    FROM dead_jobs d
    WHERE d.tenant_id = %(tenant)s::int AND d.attempt >= 0
      AND (d.died_at, d.id) {{beyond}} ({_at("after_us")}, %(after_id)s::uuid)
      AND d.died_at >= {_at("start_us")} AND d.died_at < {_at("end_us")}
    ORDER BY d.died_at {{order}}, d.id {{order}}
"""

_SEEN = f"""(
    SELECT {_DIED_US} AS died_us, d.id, (
        (%(queue)s::text = '' OR d.queue = %(queue)s::text)
        AND (%(type)s::text = '' OR d.type = %(type)s::text)
        AND (%(schedule)s::text = '' OR d.schedule_id = %(schedule)s::text)
        AND (%(failure_type)s::text = '' OR d.last_failure ->> 'type' = %(failure_type)s::text)
        AND (%(cause)s::int IS NULL OR {_CAUSE.format(row="d")} = %(cause)s::int)
        AND (%(labels)s::jsonb IS NULL OR d.labels @> %(labels)s::jsonb)
        AND (%(redrives_max)s::int IS NULL OR coalesce(d.redrives, 0) < %(redrives_max)s::int)) AS meets
    {_RANGE} LIMIT {WALK_ROWS}
) s"""

_FIND = f"SELECT s.died_us, s.id::text FROM {_SEEN} WHERE s.meets LIMIT %(limit)s::int"

_COUNT = f"SELECT count(*), count(*) FILTER (WHERE s.meets) FROM {_SEEN}"

_LAST_SEEN = f"SELECT {_DIED_US}, d.id::text {_RANGE} OFFSET {WALK_ROWS - 1} LIMIT 1"

_FORWARD: Final = {"beyond": ">", "order": ""}
_BACKWARD: Final = {"beyond": "<", "order": "DESC"}

_FIND_OLDEST, _FIND_NEWEST = _FIND.format(**_FORWARD), _FIND.format(**_BACKWARD)
_LAST_SEEN_OLDEST, _LAST_SEEN_NEWEST = _LAST_SEEN.format(**_FORWARD), _LAST_SEEN.format(**_BACKWARD)
_COUNT_OLDEST = _COUNT.format(**_FORWARD)

_KEPT = """tenant_id, id, priority, attempt, max_attempts, run_timeout_ms, fence, created_at, type, queue, content_type,
    payload, headers, labels, options, concurrency_key, traceparent, last_failure, schedule_uid, schedule_id,
    schedule_version, nominal_at, occurrence_generation, past"""

# A new life: due now, with all its attempts before it and its total timeout counted from now. It has been started
# before, so start_by asks nothing of it. The fence stays, since fences grow for ever. An effect key that the creator
# chose is told apart from the old one by the generation; one too long for that gives way to its digest.
_REVIVE = f"""
WITH r AS (
    SELECT * FROM unnest(%(tenants)t::int[], %(ids)t::uuid[], %(shards)t::smallint[]) AS r (tenant_id, id, shard)
), gone AS (
    DELETE FROM dead_jobs d USING r
    WHERE {by_key("d", "r")}
      AND (%(redrives_max)s::int IS NULL OR coalesce(d.redrives, 0) < %(redrives_max)s::int)
    RETURNING d.*, r.shard
)
INSERT INTO jobs (
    {_KEPT}, shard, state, generation, attempts_counted, attempts_before, due_at, deadline_at, effect_key, tracestate,
    redrives, redriven_by)
SELECT {_KEPT}, shard, 1, generation + %(newer)s::int, 0, attempt, now(),
    now() + (options ->> 'total_s')::float8 * interval '1 second',
    CASE WHEN %(newer)s::int = 0 OR effect_key IS NULL THEN effect_key
         WHEN octet_length(effect_key) <= {limits.EFFECT_KEY_BYTES_MAX - 12}
         THEN effect_key || '/' || (generation + %(newer)s::int)
         ELSE encode(sha256(convert_to(effect_key, 'UTF8')), 'hex') || '/' || (generation + %(newer)s::int) END,
    tracestate, coalesce(redrives, 0) + 1, %(author)s
FROM gone
RETURNING {ENTRY}
"""

# Finished as of now, so that it stays in history for as long as what ends today.
_DISCARD = f"""
WITH r AS (
    SELECT * FROM unnest(%(tenants)t::int[], %(ids)t::uuid[]) AS r (tenant_id, id)
), gone AS (
    DELETE FROM dead_jobs d USING r WHERE {by_key("d", "r")} RETURNING d.*
)
INSERT INTO finished_jobs (
    {_KEPT}, generation, attempts_counted, due_at, effect_key, state, leased_at, finished_at, session_id,
    despite_cancel, reason)
SELECT {_KEPT}, generation, attempts_counted, due_at, effect_key, 9, leased_at, now(), session_id, false,
    coalesce(nullif(%(reason)s, ''), reason)
FROM gone
RETURNING id::text
"""

_NOW = "SELECT now()"


@dataclass(frozen=True, slots=True)
class PgDeadTransaction:
    """DeadTransaction on PostgreSQL: `run` runs one statement of it."""

    run: Run

    async def earlier(self, tenant: TenantId, request: RequestKey, answer: Sequence[str]) -> tuple[str, ...] | None:
        return await requests.earlier(self.run, tenant, request, answer)

    async def add(self, redrive: Redrive) -> bool:
        return await redrives.add(self.run, redrive)

    async def lock(self, tenant: TenantId, id: str) -> tuple[Redrive, datetime] | None:
        return await redrives.lock(self.run, tenant, id)

    async def lock_due(self) -> tuple[Redrive, datetime] | None:
        return await redrives.lock_due(self.run)

    async def find(self, walk: Walk, limit: int) -> Found:
        return await _find(self.run, walk, limit)

    async def revive(
        self, tenant: TenantId, jobs: Sequence[JobId], author: str, *, new_generation: bool, redrives_max: int | None
    ) -> list[Entry]:
        params = {
            "tenants": array([tenant] * len(jobs)),
            "ids": array(jobs),
            "shards": array([shard_of(tenant, job) for job in jobs]),
            "newer": int(new_generation),
            "redrives_max": redrives_max,
            "author": author,
        }
        return [entry(r) for r in await self.run(_REVIVE, params)]

    async def save(self, redrive: Redrive, wait_s: float) -> None:
        await redrives.save(self.run, redrive, wait_s)


@dataclass(frozen=True, slots=True)
class PgDeadLetters:
    """DeadLetterStore on PostgreSQL."""

    db: Database

    async def transact(self, work: Callable[[DeadTransaction], Awaitable[T]]) -> T:
        async def inside(run: Run) -> T:
            return await work(PgDeadTransaction(run))

        return await self.db.writes.transact(inside)

    async def now(self) -> datetime:
        found: datetime = (await self._read(_NOW, {}))[0][0]
        return found

    async def letters(self, tenant: TenantId, jobs: Sequence[JobId], *, full: bool) -> dict[JobId, DeadLetter]:
        columns = [literal_column(_CAUSE.format(row="dead_jobs")).label("cause"), dead_jobs.c.redrives]
        if full:
            columns.append(dead_jobs.c.payload)
        query = dead_part(*columns, dead_jobs.c.redriven_by).where(
            dead_jobs.c.tenant_id == tenant, dead_jobs.c.id.in_(jobs)
        )
        async with self.db.begin() as conn:
            rows = (await conn.execute(query)).mappings().all()
        return {
            JobId(row["id"]): DeadLetter(
                job_of(row), DeadCause(row["cause"]), row["redrives"] or 0, row["redriven_by"] or ""
            )
            for row in rows
        }

    async def find(self, walk: Walk, limit: int) -> Found:
        return await _find(self._read, walk, limit)

    async def count(self, walk: Walk, most: int | None) -> int:
        found = 0
        while True:
            params = _params(walk)
            seen, meeting = (await self._read(_COUNT_OLDEST, params))[0]
            found += int(meeting)
            if most is not None and found >= most:
                return most
            rows = await self._read(_LAST_SEEN_OLDEST, params) if seen >= WALK_ROWS else []
            if not rows:
                return found
            walk = replace(walk, after=Place(*rows[0]))

    async def discard(self, tenant: TenantId, jobs: Sequence[JobId], reason: str) -> list[JobId]:
        params = {"tenants": array([tenant] * len(jobs)), "ids": array(jobs), "reason": reason}
        return [JobId(id) for (id,) in await self.db.writes.run(_DISCARD, params)]

    async def redrive(self, tenant: TenantId, id: str) -> Redrive | None:
        rows = await self._read(redrives.GET, {"tenant": tenant, "id": id})
        return redrives.redrive(rows[0]) if rows else None

    async def redrives(self, tenant: TenantId, before: str | None, limit: int) -> list[Redrive]:
        params = {"tenant": tenant, "before": before, "limit": limit}
        return [redrives.redrive(r) for r in await self._read(redrives.PAGE, params)]

    async def next_redrive_s(self) -> float | None:
        rows = await self._read(redrives.NEXT_S, {})
        return rows[0][0] if rows else None

    async def postpone(self, tenant: TenantId, id: str, wait_s: float) -> None:
        await self.db.writes.run(redrives.POSTPONE, {"tenant": tenant, "id": id, "wait_s": wait_s})

    async def _read(self, statement: str, params: Params) -> list[Row]:
        return await self.db.writes.run(statement, params, write=False)


async def _find(run: Run, walk: Walk, limit: int) -> Found:
    params = _params(walk)
    rows = await run(_FIND_NEWEST if walk.newest_first else _FIND_OLDEST, params | {"limit": limit})
    places = tuple(Place(*row) for row in rows)
    if len(places) >= limit:
        return Found(places, places[-1] if places else walk.after)
    last = await run(_LAST_SEEN_NEWEST if walk.newest_first else _LAST_SEEN_OLDEST, params)
    return Found(places, Place(*last[0]) if last else None)


def _params(walk: Walk) -> dict[str, object]:
    where = walk.where
    return {
        "tenant": walk.tenant_id,
        "after_us": walk.after.died_us,
        "after_id": walk.after.id,
        "start_us": FIRST.died_us if where.start is None else codec.micros(where.start),
        "end_us": LAST.died_us if where.end is None else codec.micros(where.end),
        "queue": where.queue,
        "type": where.type,
        "schedule": where.schedule,
        "failure_type": where.failure_type,
        "cause": None if where.cause is None else int(where.cause),
        "labels": codec.map_json(where.labels),
        "redrives_max": limits.REDRIVES_PER_LETTER_MAX if walk.redrivable else None,
    }
