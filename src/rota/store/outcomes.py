"""Ending attempts: the hot half of the store that takes, and the decided rest.

Every statement addresses its rows by primary key and fence and tests the state that the decision was made on, so that
whoever commits first wins. It is not fenced by the shard's epoch: a valid lease outlives a shard's move.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from rota.domain import limits
from rota.domain.ids import EffectId, Fence, JobId, SessionId, ShardNo, TenantId
from rota.domain.model import JobState, LiveJob, Outcome, Result
from rota.domain.transition import Finish, Requeue
from rota.store import codec
from rota.store.engine import Database, Row, Run, array, by_key, text_array
from rota.store.jobs import CREATE, create_params
from rota.store.port import CreateCall, Created, Decided, Ended

_COPIED = """tenant_id, id, priority, generation, attempt, max_attempts, run_timeout_ms, fence, due_at, created_at,
    type, queue, content_type, payload, headers, labels, options, effect_key, concurrency_key, traceparent,
    schedule_uid, schedule_id, schedule_version, nominal_at, occurrence_generation"""

PAST_WHOLE: Final = 10
"""The newest attempts that go with a dead letter whole; earlier ones without their stacks, and with short messages."""

_SUCCEED = f"""
WITH r AS (
    SELECT * FROM unnest(
        %(tenants)t::int[], %(ids)t::uuid[], %(fences)t::bigint[], %(sessions)t::uuid[], %(request_ids)t::text[],
        %(results)b::bytea[], %(content_types)t::text[], %(effect_states)t::smallint[], %(receipts)t::text[])
    AS r (tenant_id, id, r_fence, r_session_id, request_id, result, result_content_type, effect_state, receipts)
), done AS (
    DELETE FROM jobs j USING r
    WHERE {by_key("j", "r")}
      AND j.fence = r.r_fence AND j.session_id = r.r_session_id AND j.state IN (3, 5)
    RETURNING j.*, r.request_id, r.result, r.result_content_type, r.effect_state, r.receipts
), healthy AS (
    UPDATE schedule_timers t SET failures = 0
    FROM done d
    WHERE d.schedule_uid IS NOT NULL AND t.uid = ANY (ARRAY[d.schedule_uid]) AND t.failures > 0
)
INSERT INTO finished_jobs (
    {_COPIED}, past, attempts_counted, last_failure, state, leased_at, finished_at, session_id, outcome, request_id,
    result, result_content_type, effect_state, effect_receipts, despite_cancel)
SELECT {_COPIED}, past, attempts_counted + 1, last_failure, 6, leased_at, now(), session_id, 1, request_id, result,
    result_content_type, effect_state, receipts::jsonb, state = 5
FROM done
RETURNING id::text, fence, despite_cancel
"""

_LIVE = f"""
SELECT j.tenant_id, j.id::text, j.shard, j.state, j.type, j.queue, j.priority, j.fence, j.session_id::text,
       coalesce((SELECT s.state < 3 FROM sessions s WHERE s.id = j.session_id), false),
       j.attempt, j.attempts_counted, j.max_attempts, j.options, j.due_at, j.leased_at, j.deadline_at,
       octet_length(j.payload) + coalesce(octet_length(j.headers::text), 0), now(), j.traceparent,
       CASE WHEN j.attempts_counted = 0 THEN extract(epoch FROM j.start_by)::float8 END, j.concurrency_key,
       coalesce(j.attempts_before, 0), j.held_for::text
FROM unnest(%(tenants)t::int[], %(ids)t::uuid[]) AS r (tenant_id, id)
CROSS JOIN LATERAL (SELECT * FROM jobs j WHERE {by_key("j", "r")} LIMIT 1) j
"""

_DECIDED = """
    SELECT * FROM unnest(
        %(tenants)t::int[], %(ids)t::uuid[], %(fences)t::bigint[], %(states)t::smallint[], %(attempts)t::int[],
        %(sessions)t::uuid[], %(leased)t::bigint[], %(counted)t::int[], %(outcomes)t::smallint[],
        %(request_ids)s::text[], %(failures)s::text[], %(effect_states)t::smallint[], %(receipts)s::text[],
        %(new_states)t::smallint[], %(dues)t::bigint[], %(reasons)s::text[], %(causes)t::smallint[])
    AS r (tenant_id, id, r_fence, r_state, number, r_session_id, leased_us, counted, outcome, request_id, failure,
          effect_state, receipts, new_state, due_us, r_reason, cause)
"""

_TAKEN = """r.r_fence, r.number, r.r_session_id, r.leased_us, r.counted, r.outcome, r.request_id, r.failure,
    r.effect_state, r.receipts, r.new_state, r.r_reason, r.cause"""

_MATCH = f"""{by_key("j", "r")} AND j.fence = r.r_fence AND j.state = r.r_state"""

_ATTEMPT = """
    INSERT INTO attempts (
        tenant_id, job_id, fence, ended_at, number, session_id, leased_at, outcome, request_id, failure, effect_state,
        effect_receipts)
    SELECT tenant_id, id, r_fence, now(), number, r_session_id,
           timestamptz 'epoch' + leased_us * interval '1 microsecond', outcome, request_id, failure::jsonb,
           effect_state, receipts::jsonb
"""

_REQUEUE = f"""
WITH r AS ({_DECIDED}), done AS (
    UPDATE jobs j
    SET state = r.new_state, due_at = timestamptz 'epoch' + r.due_us * interval '1 microsecond',
        session_id = NULL, leased_at = NULL, attempts_counted = j.attempts_counted + r.counted,
        last_failure = coalesce(r.failure::jsonb, j.last_failure)
    FROM r
    WHERE {_MATCH}
    RETURNING r.*
), ended AS ({_ATTEMPT} FROM done)
SELECT id::text, r_fence FROM done
"""

# An attempt that did not succeed keeps its own failure: the job's last one may be an earlier attempt's.
_FINISH = f"""
WITH r AS ({_DECIDED}), done AS (
    DELETE FROM jobs j USING r
    WHERE {_MATCH}
    RETURNING j.*, {_TAKEN}
), ended AS ({_ATTEMPT} FROM done WHERE outcome IS NOT NULL)
INSERT INTO finished_jobs (
    {_COPIED}, past, attempts_counted, last_failure, state, leased_at, finished_at, session_id, outcome, request_id,
    effect_state, effect_receipts, despite_cancel, reason)
SELECT {_COPIED}, past, attempts_counted + counted, coalesce(failure::jsonb, last_failure), new_state, leased_at, now(),
    session_id, outcome, request_id, effect_state, receipts::jsonb, false, coalesce(nullif(r_reason, ''), cancel_reason)
FROM done
RETURNING id::text, fence
"""

# All attempts of the job `d` as an array, the one that ends now included, oldest first: what it brought from lives
# before, what history has of this one, and `d`'s own. Those of lives before may be in history too.
_PAST = f"""(
    SELECT jsonb_agg(x.item ORDER BY x.number) FROM (
        SELECT y.number, CASE
            WHEN row_number() OVER (ORDER BY y.number DESC) <= {PAST_WHOLE}
                 OR jsonb_typeof(y.item -> 'failure') <> 'object' THEN y.item
            ELSE jsonb_set(
                y.item #- '{{failure,stack}}', '{{failure,message}}',
                to_jsonb(left(coalesce(y.item #>> '{{failure,message}}', ''), {limits.PAST_MESSAGE_CHARS_MAX})))
            END AS item
        FROM (
            SELECT (p.item ->> 'number')::int AS number, p.item FROM jsonb_array_elements(d.past) AS p (item)
            UNION ALL
            SELECT a.number, jsonb_build_object(
                'number', a.number, 'fence', a.fence, 'session_id', a.session_id,
                'worker', (SELECT s.worker FROM sessions s WHERE s.id = a.session_id), 'leased_at', a.leased_at,
                'ended_at', a.ended_at, 'outcome', a.outcome, 'failure', a.failure, 'effect_state', a.effect_state,
                'effect_receipts', a.effect_receipts)
            FROM attempts a
            WHERE a.tenant_id = ANY (ARRAY[d.tenant_id]) AND a.job_id = d.id AND a.ended_at >= d.created_at
              AND a.number > CASE WHEN d.past IS NULL THEN 0 ELSE coalesce(d.attempts_before, 0) END
            UNION ALL
            SELECT d.number, jsonb_build_object(
                'number', d.number, 'fence', d.r_fence, 'session_id', d.r_session_id,
                'worker', (SELECT s.worker FROM sessions s WHERE s.id = d.r_session_id),
                'leased_at', timestamptz 'epoch' + d.leased_us * interval '1 microsecond', 'ended_at', now(),
                'outcome', d.outcome, 'failure', d.failure::jsonb, 'effect_state', d.effect_state,
                'effect_receipts', d.receipts::jsonb)
            WHERE d.outcome IS NOT NULL
        ) y
        ORDER BY y.number DESC LIMIT {limits.PAST_ATTEMPTS_MAX}
    ) x)"""

_BURY = f"""
WITH r AS ({_DECIDED}), done AS (
    DELETE FROM jobs j USING r
    WHERE {_MATCH}
    RETURNING j.*, {_TAKEN}
), dead AS (
    INSERT INTO dead_jobs (
        {_COPIED}, attempts_counted, last_failure, leased_at, died_at, session_id, reason, cause, redrives, redriven_by,
        tracestate, past)
    SELECT {_COPIED}, attempts_counted + counted, coalesce(failure::jsonb, last_failure), leased_at, now(), session_id,
           r_reason, cause, redrives, redriven_by, tracestate, {_PAST}
    FROM done d
), failing AS (
    UPDATE schedule_timers t
    SET failures = t.failures + d.dead,
        arm_at = CASE WHEN t.pause_after > 0 AND t.failures + d.dead >= t.pause_after AND t.state = 1
                      THEN least(t.arm_at, now()) ELSE t.arm_at END
    FROM (SELECT schedule_uid, count(*)::int AS dead FROM done WHERE schedule_uid IS NOT NULL GROUP BY 1) d
    WHERE t.uid = ANY (ARRAY[d.schedule_uid])
), ended AS ({_ATTEMPT} FROM done WHERE outcome IS NOT NULL)
SELECT id::text, r_fence FROM done
"""

_ENDED = f"""
SELECT r.id::text, r.fence, j.fence, j.state, a.outcome, f.fence, f.state, f.outcome, d.fence
FROM unnest(%(tenants)t::int[], %(ids)t::uuid[], %(fences)t::bigint[]) AS r (tenant_id, id, fence)
LEFT JOIN LATERAL (
    SELECT j.fence, j.state FROM jobs j WHERE {by_key("j", "r")} LIMIT 1
) j ON true
LEFT JOIN LATERAL (
    SELECT d.fence FROM dead_jobs d WHERE d.tenant_id = r.tenant_id AND d.id = r.id LIMIT 1
) d ON true
LEFT JOIN LATERAL (
    SELECT a.outcome FROM attempts a
    WHERE a.tenant_id = r.tenant_id AND a.job_id = r.id AND a.fence = r.fence LIMIT 1
) a ON true
LEFT JOIN LATERAL (
    SELECT f.fence, f.state, f.outcome FROM finished_jobs f
    WHERE f.tenant_id = r.tenant_id AND f.id = r.id LIMIT 1
) f ON true
"""


@dataclass(frozen=True, slots=True)
class PgOutcomes:
    """OutcomeStore on PostgreSQL."""

    db: Database

    async def succeed(self, results: Sequence[Result]) -> dict[tuple[JobId, Fence], JobState]:
        return _succeeded(await self.db.writes.run(_SUCCEED, _succeed_params(results)))

    async def succeed_and_spawn(
        self, result: Result, call: CreateCall
    ) -> tuple[dict[tuple[JobId, Fence], JobState], list[Created]]:
        async def work(run: Run) -> tuple[list[Row], list[Row]]:
            done = await run(_SUCCEED, _succeed_params([result]))
            return done, await run(CREATE, create_params([call])) if done else []

        done, spawned = await self.db.writes.transact(work)
        return _succeeded(done), [Created(JobId(id), due_us, at) for id, due_us, at in spawned]

    async def live(self, jobs: Sequence[tuple[TenantId, JobId]]) -> tuple[dict[JobId, LiveJob], datetime | None]:
        rows = await self.db.writes.run(
            _LIVE, {"tenants": array([t for t, _ in jobs]), "ids": array([j for _, j in jobs])}, write=False
        )
        return {JobId(r[1]): _live(r) for r in rows}, rows[0][18] if rows else None

    async def requeue(self, items: Sequence[Decided]) -> set[tuple[JobId, Fence]]:
        return _done(await self.db.writes.run(_REQUEUE, _decided_params(items)))

    async def finish(self, items: Sequence[Decided]) -> set[tuple[JobId, Fence]]:
        return _done(await self.db.writes.run(_FINISH, _decided_params(items)))

    async def bury(self, items: Sequence[Decided]) -> set[tuple[JobId, Fence]]:
        return _done(await self.db.writes.run(_BURY, _decided_params(items)))

    async def ended(self, leases: Sequence[tuple[TenantId, JobId, Fence]]) -> dict[tuple[JobId, Fence], Ended]:
        rows = await self.db.writes.run(
            _ENDED,
            {
                "tenants": array([t for t, _, _ in leases]),
                "ids": array([j for _, j, _ in leases]),
                "fences": array([f for _, _, f in leases]),
            },
            write=False,
        )
        return {
            (JobId(r[0]), Fence(r[1])): Ended(
                live_fence=None if r[2] is None else Fence(r[2]),
                live_state=None if r[3] is None else JobState(r[3]),
                attempt_outcome=None if r[4] is None else Outcome(r[4]),
                finished_fence=None if r[5] is None else Fence(r[5]),
                finished_state=None if r[6] is None else JobState(r[6]),
                finished_outcome=None if r[7] is None else Outcome(r[7]),
                dead_fence=None if r[8] is None else Fence(r[8]),
            )
            for r in rows
        }


async def live_in(run: Run, jobs: Sequence[tuple[TenantId, JobId]]) -> tuple[dict[JobId, LiveJob], datetime | None]:
    """`OutcomeStore.live` inside of a transaction."""
    rows = await run(_LIVE, {"tenants": array([t for t, _ in jobs]), "ids": array([j for _, j in jobs])})
    return {JobId(r[1]): _live(r) for r in rows}, rows[0][18] if rows else None


async def finish_in(run: Run, items: Sequence[Decided]) -> set[tuple[JobId, Fence]]:
    """`OutcomeStore.finish` inside of a transaction."""
    return _done(await run(_FINISH, _decided_params(items)))


def _succeed_params(results: Sequence[Result]) -> dict[str, object]:
    return {
        "tenants": array([r.tenant_id for r in results]),
        "ids": array([r.job_id for r in results]),
        "fences": array([r.fence for r in results]),
        "sessions": array([r.session_id for r in results]),
        "request_ids": text_array([r.request_id for r in results]),
        "results": [r.payload.data if r.payload else None for r in results],
        "content_types": text_array([r.payload.content_type if r.payload else None for r in results]),
        "effect_states": array([int(r.effect_state) for r in results]),
        "receipts": text_array([codec.receipts_json(r.effect_receipts) for r in results]),
    }


def _succeeded(rows: Sequence[Row]) -> dict[tuple[JobId, Fence], JobState]:
    return {(JobId(id), Fence(fence)): JobState.SUCCEEDED for id, fence, _ in rows}


def _done(rows: Sequence[Row]) -> set[tuple[JobId, Fence]]:
    return {(JobId(id), Fence(fence)) for id, fence in rows}


def _live(r: Row) -> LiveJob:
    return LiveJob(
        tenant_id=TenantId(r[0]),
        id=JobId(r[1]),
        shard=ShardNo(r[2]),
        state=JobState(r[3]),
        type=r[4],
        queue=r[5],
        priority=r[6],
        fence=Fence(r[7]),
        session_id=None if r[8] is None else SessionId(r[8]),
        session_alive=r[9],
        attempt=r[10],
        attempts_counted=r[11],
        retry=codec.retry_policy(r[12], r[13]),
        due_at=r[14],
        leased_at=r[15],
        deadline_at=r[16],
        size=r[17] + limits.LEASE_OVERHEAD_BYTES,
        traceparent=r[19] or "",
        start_by=r[20],
        concurrency_key=r[21] or "",
        attempts_before=r[22],
        held_for=None if r[23] is None else EffectId(r[23]),
    )


def _decided_params(items: Sequence[Decided]) -> dict[str, object]:
    jobs = [i.job for i in items]
    decisions = [i.decision for i in items]
    return {
        "tenants": array([j.tenant_id for j in jobs]),
        "ids": array([j.id for j in jobs]),
        "fences": array([j.fence for j in jobs]),
        "states": array([int(j.state) for j in jobs]),
        "attempts": array([j.attempt for j in jobs]),
        "sessions": array([j.session_id for j in jobs]),
        "leased": array([None if j.leased_at is None else codec.micros(j.leased_at) for j in jobs]),
        "counted": array([int(d.counted) for d in decisions]),
        "outcomes": array([None if i.outcome is None else int(i.outcome) for i in items]),
        "request_ids": [i.request_id or None for i in items],
        "failures": [codec.failure_json(i.failure) for i in items],
        "effect_states": array([int(i.effect_state) for i in items]),
        "receipts": [codec.receipts_json(i.effect_receipts) for i in items],
        "new_states": array([int(d.state) for d in decisions]),
        "dues": array([codec.micros(d.due_at) if isinstance(d, Requeue) else None for d in decisions]),
        "reasons": [d.reason if isinstance(d, Finish) else None for d in decisions],
        "causes": array([int(d.cause) if isinstance(d, Finish) and d.cause else None for d in decisions]),
    }
