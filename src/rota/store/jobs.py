"""Creating jobs, in batches of many callers, and steering single ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rota.domain.errors import AlreadyExists, Unavailable
from rota.domain.fairness import Entry
from rota.domain.ids import Fence, JobId, TenantId
from rota.domain.model import DedupeConflict, DedupeScope, JobSpec
from rota.store import codec
from rota.store.engine import Database, Params, Row, Run, array, by_key, text_array
from rota.store.fires import ENTRY, entry
from rota.store.port import CreateCall, Created, EarlierRequest

CREATE = """
WITH won AS (
    INSERT INTO requests (tenant_id, method, request_id, digest, answer)
    SELECT r.tenant_id, r.method, r.request_id, r.digest, r.answer::uuid[]
    FROM unnest(%(r_tenants)t::int[], %(r_methods)t::smallint[], %(r_ids)s::text[], %(r_digests)b::bytea[],
                %(r_answers)s::text[])
         AS r (tenant_id, method, request_id, digest, answer)
    ON CONFLICT DO NOTHING
    RETURNING tenant_id, method, request_id
)
INSERT INTO jobs (
    tenant_id, id, shard, state, priority, generation, attempt, attempts_counted, max_attempts, run_timeout_ms,
    fence, due_at, created_at, start_by, deadline_at, type, queue, content_type, payload, headers, labels, options,
    effect_key, concurrency_key, traceparent, tracestate)
SELECT
    j.tenant_id, j.id, j.shard, 1, j.priority, 0, 0, 0, j.max_attempts, j.run_timeout_ms,
    0, d.due_at, now(), d.due_at + j.start_by_s * interval '1 second', d.due_at + j.total_s * interval '1 second',
    j.type, j.queue, j.content_type, j.payload, j.headers::jsonb, j.labels::jsonb, j.options::jsonb,
    nullif(j.effect_key, ''), nullif(j.concurrency_key, ''), nullif(j.traceparent, ''), nullif(j.tracestate, '')
FROM unnest(
        %(tenants)t::int[], %(ids)t::uuid[], %(shards)t::smallint[], %(priorities)t::smallint[],
        %(max_attempts)t::int[], %(run_timeouts)t::bigint[], %(run_times)t::bigint[], %(delays)t::float8[],
        %(start_bys)t::float8[], %(totals)t::float8[], %(types)s::text[], %(queues)s::text[],
        %(content_types)s::text[], %(payloads)b::bytea[], %(headers)s::text[], %(labels)s::text[], %(options)s::text[],
        %(effect_keys)s::text[], %(concurrency_keys)s::text[], %(traceparents)s::text[], %(tracestates)s::text[],
        %(methods)t::smallint[], %(request_ids)s::text[])
     AS j (tenant_id, id, shard, priority, max_attempts, run_timeout_ms, run_time_us, delay_s, start_by_s, total_s,
           type, queue, content_type, payload, headers, labels, options, effect_key, concurrency_key, traceparent,
           tracestate, method, request_id)
CROSS JOIN LATERAL (
    SELECT greatest(
        now(),
        coalesce(timestamptz 'epoch' + j.run_time_us * interval '1 microsecond',
                 now() + j.delay_s * interval '1 second')) AS due_at
) d
WHERE j.request_id IS NULL
   OR EXISTS (SELECT FROM won w WHERE (w.tenant_id, w.method, w.request_id) = (j.tenant_id, j.method, j.request_id))
RETURNING id::text, (extract(epoch FROM due_at) * 1000000)::bigint, created_at
"""

_EARLIER = f"""
SELECT r.tenant_id, r.method, r.request_id, r.digest, r.answer::text[]
FROM unnest(%(tenants)t::int[], %(methods)t::smallint[], %(ids)s::text[]) AS w (tenant_id, method, request_id)
JOIN requests r ON {by_key("r", "w", ["tenant_id", "method", "request_id"])}
"""

_REQUEST = """
INSERT INTO requests (tenant_id, method, request_id, digest, answer)
VALUES (%(tenant)s, %(method)s, %(request_id)s, %(digest)s, %(answer)s::uuid[])
ON CONFLICT DO NOTHING RETURNING 1
"""

_KNOWN = """
SELECT 1 FROM requests WHERE tenant_id = %(tenant)s AND method = %(method)s AND request_id = %(request_id)s
"""

# Three statements, since each sees what was committed before it began: one statement that waited for a rival's
# commit would still look for the rival's job in its own older snapshot, not find it, and take the key as free.
_HOLD = """
INSERT INTO dedupe_keys (tenant_id, key, job_id, held_until)
VALUES (%(tenant)s, %(key)s, %(job)s::uuid, now() + %(window_s)s::float8 * interval '1 second')
ON CONFLICT DO NOTHING RETURNING 1
"""

_LOCK_HOLD = "SELECT job_id::text FROM dedupe_keys WHERE tenant_id = %(tenant)s AND key = %(key)s FOR UPDATE"

_TAKE_OVER = """
UPDATE dedupe_keys d
SET job_id = %(job)s::uuid, held_until = now() + %(window_s)s::float8 * interval '1 second'
WHERE d.tenant_id = %(tenant)s AND d.key = %(key)s
  AND CASE WHEN d.held_until IS NULL
           THEN NOT EXISTS (SELECT FROM jobs j WHERE j.tenant_id = d.tenant_id AND j.id = d.job_id)
           ELSE d.held_until <= now() END
RETURNING 1
"""

HOLD_TRIES = 5
"""Each failed try means that the janitor forgot an ended hold in between."""

_CANCELLING = """
UPDATE jobs SET state = 5, cancel_reason = nullif(%(reason)s, '')
WHERE tenant_id = %(tenant)s AND id = %(id)s::uuid AND fence = %(fence)s AND state IN (3, 5)
RETURNING id
"""

# One that is held for an effect in doubt is let go: its attempt asks the ledger again, and perhaps by then has a probe.
_RETRY_NOW = f"""
UPDATE jobs SET due_at = now(), held_for = NULL
WHERE tenant_id = %(tenant)s AND id = %(id)s::uuid AND state = 4 AND due_at > now()
RETURNING {ENTRY}
"""

_RESCHEDULE = f"""
WITH moved AS (
    UPDATE jobs j
    SET due_at = d.due_at,
        start_by = CASE WHEN j.start_by IS NOT NULL THEN d.due_at + coalesce(
            (j.options ->> 'start_by_s')::float8 * interval '1 second', j.start_by - j.due_at) END,
        deadline_at = CASE WHEN j.deadline_at IS NOT NULL THEN d.due_at + coalesce(
            (j.options ->> 'total_s')::float8 * interval '1 second', j.deadline_at - j.due_at) END
    FROM (SELECT greatest(now(), timestamptz 'epoch' + %(due_us)s::bigint * interval '1 microsecond') AS due_at) d
    WHERE j.tenant_id = %(tenant)s AND j.id = %(id)s::uuid AND j.state = 1
    RETURNING j.*
)
SELECT {ENTRY} FROM moved
"""


@dataclass(frozen=True, slots=True)
class PgJobs:
    """JobStore on PostgreSQL."""

    db: Database

    async def create(self, calls: Sequence[CreateCall]) -> dict[JobId, Created]:
        rows = await self.db.writes.run(CREATE, create_params(calls))
        return {JobId(id): Created(JobId(id), due_us, created_at) for id, due_us, created_at in rows}

    async def create_deduped(self, call: CreateCall) -> tuple[dict[JobId, Created], dict[int, JobId]] | None:
        async def work(run: Run) -> tuple[list[Row], dict[int, JobId]]:
            request: dict[str, object] = {
                "tenant": call.tenant_id,
                "method": call.method,
                "request_id": call.request_id,
            }
            holders: dict[int, JobId] = {}
            taken: dict[str, JobId] = {}
            keyed = [(scoped_key(spec), index) for index, spec in enumerate(call.specs) if spec.dedupe]
            # In one order everywhere, so that two batches never wait for each other.
            for key, index in sorted(keyed):
                spec = call.specs[index]
                # The job of a key taken for this very call has no row yet, so only `taken` knows that it will live.
                holder = taken.get(key) or await _hold(run, spec, key)
                if holder is None:
                    taken[key] = spec.id
                elif spec.dedupe and spec.dedupe.on_conflict is DedupeConflict.FAIL:
                    if call.request_id and await run(_KNOWN, request):
                        # The holder is most likely this very call's own job, made by its first try.
                        raise _RequestTaken
                    raise AlreadyExists(
                        f"dedupe.key: {spec.dedupe.key!r} is held by jobs/{holder}; "
                        "wait for its end, or ask for RETURN_EXISTING",
                        metadata={"holder": f"jobs/{holder}"},
                    )
                else:
                    holders[index] = holder
            if call.request_id:
                answer = array([holders.get(index, spec.id) for index, spec in enumerate(call.specs)])
                if not await run(_REQUEST, request | {"digest": call.digest, "answer": answer}):
                    raise _RequestTaken
            free = [spec for index, spec in enumerate(call.specs) if index not in holders]
            anonymous = CreateCall(free, call.tenant_id, call.method, "", b"")
            return (await run(CREATE, create_params([anonymous])) if free else []), holders

        try:
            rows, holders = await self.db.writes.transact(work)
        except _RequestTaken:
            return None
        return {JobId(id): Created(JobId(id), due_us, at) for id, due_us, at in rows}, holders

    async def earlier(self, calls: Sequence[CreateCall]) -> dict[tuple[TenantId, int, str], EarlierRequest]:
        rows = await self.db.writes.run(
            _EARLIER,
            {
                "tenants": array([c.tenant_id for c in calls]),
                "methods": array([c.method for c in calls]),
                "ids": [c.request_id for c in calls],
            },
            write=False,
        )
        return {
            (TenantId(tenant), method, request_id): EarlierRequest(bytes(digest), tuple(JobId(j) for j in answer))
            for tenant, method, request_id, digest, answer in rows
        }

    async def set_cancelling(self, tenant: TenantId, job: JobId, fence: Fence, reason: str) -> bool:
        params = {"tenant": tenant, "id": job, "fence": fence, "reason": reason}
        return bool(await self.db.writes.run(_CANCELLING, params))

    async def retry_now(self, tenant: TenantId, job: JobId) -> Entry | None:
        return _entry(await self.db.writes.run(_RETRY_NOW, {"tenant": tenant, "id": job}))

    async def reschedule(self, tenant: TenantId, job: JobId, due: datetime) -> Entry | None:
        params = {"tenant": tenant, "id": job, "due_us": codec.micros(due)}
        return _entry(await self.db.writes.run(_RESCHEDULE, params))


def _entry(rows: Sequence[Row]) -> Entry | None:
    return entry(rows[0]) if rows else None


class _RequestTaken(Exception):
    """Another call with this request_id committed first: this transaction is to leave nothing behind."""


async def _hold(run: Run, spec: JobSpec, key: str) -> JobId | None:
    """Takes a dedupe key for a job; its present holder when it is not free."""
    assert spec.dedupe is not None
    params: dict[str, object] = {"tenant": spec.tenant_id, "key": key}
    taking = params | {"job": spec.id, "window_s": spec.dedupe.window_s}
    for _ in range(HOLD_TRIES):
        if await run(_HOLD, taking):
            return None
        holder = await run(_LOCK_HOLD, params)
        if holder:
            return None if await run(_TAKE_OVER, taking) else JobId(holder[0][0])
    raise Unavailable("dedupe.key: it is being forgotten again and again; try again", retry_after_s=1.0)


def scoped_key(spec: JobSpec) -> str:
    """A dedupe key with the scope in which it is unique. Types may hold slashes but no spaces."""
    assert spec.dedupe is not None
    if spec.dedupe.scope is DedupeScope.QUEUE:
        return f"queue/{spec.queue}/{spec.dedupe.key}"
    if spec.dedupe.scope is DedupeScope.TENANT:
        return f"tenant/{spec.dedupe.key}"
    return f"type/{spec.type} {spec.dedupe.key}"


def create_params(calls: Sequence[CreateCall]) -> Params:
    specs = [spec for call in calls for spec in call.specs]
    origins = [call for call in calls for _ in call.specs]
    named = [call for call in calls if call.request_id]
    return {
        "r_tenants": array([c.tenant_id for c in named]),
        "r_methods": array([c.method for c in named]),
        "r_ids": text_array([c.request_id for c in named]),
        "r_digests": [c.digest for c in named],
        "r_answers": text_array([array([s.id for s in c.specs]) for c in named]),
        "tenants": array([s.tenant_id for s in specs]),
        "ids": array([s.id for s in specs]),
        "shards": array([s.shard for s in specs]),
        "priorities": array([s.priority for s in specs]),
        "max_attempts": array([s.retry.max_attempts for s in specs]),
        "run_timeouts": array([round(s.timeouts.run_s * 1000) for s in specs]),
        "run_times": array([_micros(s.run_time) for s in specs]),
        "delays": array([s.delay_s for s in specs]),
        "start_bys": array([s.timeouts.start_by_s for s in specs]),
        "totals": array([s.timeouts.total_s for s in specs]),
        "types": text_array([s.type for s in specs]),
        "queues": text_array([s.queue for s in specs]),
        "content_types": text_array([s.payload.content_type for s in specs]),
        "payloads": [s.payload.data for s in specs],
        "headers": text_array([codec.map_json(s.headers) for s in specs]),
        "labels": text_array([codec.map_json(s.labels) for s in specs]),
        "options": text_array([codec.options_json(s.retry, s.timeouts) for s in specs]),
        "effect_keys": text_array([s.effect_key for s in specs]),
        "concurrency_keys": text_array([s.concurrency_key for s in specs]),
        "traceparents": text_array([s.traceparent for s in specs]),
        "tracestates": text_array([s.tracestate for s in specs]),
        "methods": array([c.method for c in origins]),
        "request_ids": text_array([c.request_id or None for c in origins]),
    }


def _micros(run_time: datetime | None) -> int | None:
    return None if run_time is None else codec.micros(run_time)
