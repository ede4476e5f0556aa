"""The ledger of effects.

Rows are locked in one order everywhere, the job's before the effect's, and of other jobs none. A completion, a
cancellation or a claim locks the job's row alone, so none of them can meet these in a circle. What an attempt may do is
decided while its job's row is locked: as long as that is leased under the fence, nobody else can be.
"""

from dataclasses import dataclass, replace
from typing import Final

from rota.domain import effect as ledger
from rota.domain.effect import Begun, Effect, InDoubt
from rota.domain.errors import Unavailable
from rota.domain.ids import EffectId, Fence, JobId, TenantId
from rota.domain.model import EffectState, JobOrigin, JobState, effect_key
from rota.domain.transition import Finish
from rota.store import codec
from rota.store.effectport import Decision, EffectCall, Resolved
from rota.store.engine import Database, Row, Run, by_key
from rota.store.fires import ENTRY, entry
from rota.store.outcomes import finish_in, live_in
from rota.store.port import Decided

TRIES: Final = 5
"""Each failed try means that the entry was forgotten, or given to another job, in between."""

_COLUMNS = """e.id::text, e.tenant_id, e.effect_key, e.job_id::text, e.fence, e.state, e.earlier, e.policy, e.begun_at,
    e.reference, e.resolved_by, e.reason"""

# A job waits for a decision until its total timeout; without one, until HELD_UNTIL.
_HELD = "j.state = 4 AND j.due_at >= coalesce(j.deadline_at, timestamptz '9000-01-01 00:00:00Z')"

_LOCK_JOB = """
SELECT j.fence, j.state, coalesce((SELECT s.state < 3 FROM sessions s WHERE s.id = j.session_id), false),
       j.effect_key, j.generation, j.schedule_uid::text, j.schedule_id, j.nominal_at, j.occurrence_generation,
       j.held_for::text
FROM jobs j WHERE j.tenant_id = %(tenant)s AND j.id = %(job)s::uuid
FOR NO KEY UPDATE OF j
"""

_LIVES = "SELECT 1 FROM jobs j WHERE j.tenant_id = %(tenant)s AND j.id = %(job)s::uuid"

_INSERT = f"""
INSERT INTO effects AS e (
    tenant_id, effect_key, id, job_id, fence, state, earlier, policy, begun_at, needed_at)
VALUES (%(tenant)s, %(key)s, %(id)s::uuid, %(job)s::uuid, %(fence)s, 0, 0, %(policy)s, now(), now())
ON CONFLICT (tenant_id, effect_key) DO NOTHING
RETURNING {_COLUMNS}
"""

_LOCK = f"""
SELECT {_COLUMNS} FROM effects e WHERE e.tenant_id = %(tenant)s AND e.effect_key = %(key)s FOR NO KEY UPDATE
"""

_BY_ID = f"SELECT {_COLUMNS} FROM effects e WHERE e.tenant_id = %(tenant)s AND e.id = %(id)s::uuid"

_WRITE = """
UPDATE effects
SET job_id = %(job)s::uuid, fence = %(fence)s, state = %(state)s, earlier = %(earlier)s, policy = %(policy)s,
    reference = nullif(%(reference)s, ''), resolved_by = nullif(%(resolved_by)s, ''), reason = nullif(%(reason)s, ''),
    needed_at = now()
WHERE tenant_id = %(tenant)s AND effect_key = %(key)s
"""

# It was started: start_by has no more say in a job that is held.
_SET_HELD = """
UPDATE jobs SET held_for = %(effect)s::uuid, start_by = CASE WHEN %(effect)s::uuid IS NULL THEN start_by END
WHERE tenant_id = %(tenant)s AND id = %(job)s::uuid
"""

_LET_GO = f"""
UPDATE jobs j
SET held_for = NULL, due_at = CASE WHEN {_HELD} THEN now() ELSE j.due_at END
WHERE j.tenant_id = %(tenant)s AND j.id = %(job)s::uuid
RETURNING {ENTRY}
"""

_HEALTHY = "UPDATE schedule_timers SET failures = 0 WHERE uid = %(uid)s::uuid AND failures > 0"

_PAGE_OF = f"""
SELECT {_COLUMNS}, coalesce(j.running, false), coalesce(j.holding, false)
FROM effects e
LEFT JOIN LATERAL (
    SELECT e.state = 0 AND j.fence = e.fence AND j.state IN (3, 5) AS running, j.held_for = e.id AND {_HELD} AS holding
    FROM jobs j WHERE j.tenant_id = e.tenant_id AND j.id = e.job_id LIMIT 1
) j ON true
WHERE e.tenant_id = %(tenant)s AND e.state IN (0, 3) {{job}} AND e.id > %(after)s::uuid
  AND j.running IS NOT TRUE AND (j.holding IS TRUE OR NOT %(holding)s)
ORDER BY e.id
LIMIT %(limit)s
"""

_PAGE = _PAGE_OF.format(job="")

_PAGE_OF_JOB = _PAGE_OF.format(job="AND e.job_id = %(job)s::uuid")

# Those that may be asked for still are looked at again after as long a time, so that they never stand before the
# others. A job is in exactly one table in every snapshot, and one that is in neither of these never comes back.
_FORGET = f"""
WITH old AS MATERIALIZED (
    SELECT o.*,
           EXISTS (SELECT FROM jobs j WHERE j.tenant_id = o.tenant_id AND j.id = o.job_id)
           OR EXISTS (SELECT FROM dead_jobs d WHERE d.tenant_id = o.tenant_id AND d.id = o.job_id) AS needed
    FROM (
        SELECT e.tenant_id, e.effect_key, e.job_id FROM effects e
        WHERE e.state IN (1, 2) AND e.needed_at < now() - %(older_s)s::float8 * interval '1 second'
        ORDER BY e.needed_at LIMIT %(limit)s
    ) o
), kept AS (
    UPDATE effects e SET needed_at = now() FROM old
    WHERE old.needed AND {by_key("e", "old", ["tenant_id", "effect_key"])}
), gone AS (
    DELETE FROM effects e USING old
    WHERE NOT old.needed AND {by_key("e", "old", ["tenant_id", "effect_key"])} AND e.job_id = old.job_id
      AND e.state IN (1, 2)
)
SELECT count(*) FROM old
"""

_FIRST = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class _Job:
    """A job whose row is locked."""

    fence: Fence
    state: JobState
    session_alive: bool
    effect_key: str
    schedule_uid: str | None
    held_for: EffectId | None

    @property
    def leased(self) -> bool:
        return self.state in (JobState.LEASED, JobState.CANCELLING)


@dataclass(frozen=True, slots=True)
class PgEffects:
    """EffectStore on PostgreSQL."""

    db: Database

    async def begin(self, call: EffectCall, policy: InDoubt, id: EffectId) -> Begun | None:
        async def work(run: Run) -> Begun | None:
            job = await _lock_job(run, call.tenant_id, call.tenant, call.job_id)
            if job is None or not job.leased or job.fence != call.fence or not job.session_alive:
                return None
            key = call.key or job.effect_key
            params: dict[str, object] = {"tenant": call.tenant_id, "key": key}
            fresh = params | {"id": id, "job": call.job_id, "fence": call.fence, "policy": int(policy)}
            for _ in range(TRIES):
                if made := await run(_INSERT, fresh):
                    return Begun(_effect(made[0]), True, EffectState.UNSPECIFIED)
                if found := await run(_LOCK, params):
                    break
            else:
                raise Unavailable("effect_key: it is being forgotten again and again; try again", retry_after_s=1.0)
            stored = _effect(found[0])
            owner_lives = stored.job_id != call.job_id and bool(
                await run(_LIVES, {"tenant": call.tenant_id, "job": stored.job_id})
            )
            begun = ledger.begin(stored, call.job_id, call.fence, policy, owner_lives=owner_lives)
            if begun.effect != stored:
                await _write(run, begun.effect)
            await _hold(run, call, job, stored.id, begun.hold)
            return begun

        return await self.db.writes.transact(work)

    async def commit(self, call: EffectCall, state: EffectState, reference: str) -> Effect | None:
        async def work(run: Run) -> Effect | None:
            job = await _lock_job(run, call.tenant_id, call.tenant, call.job_id)
            if job is None or not job.leased or job.fence != call.fence:
                return None
            key = call.key or job.effect_key
            found = await run(_LOCK, {"tenant": call.tenant_id, "key": key})
            stored = _effect(found[0]) if found else None
            after = ledger.commit(stored, call.job_id, key, call.fence, state, reference)
            if after != stored:
                await _write(run, after)
            if after.state in ledger.SETTLED:
                await _hold(run, call, job, after.id, False)
            return after

        return await self.db.writes.transact(work)

    async def resolve(self, tenant: TenantId, tenant_name: str, id: EffectId, decision: Decision) -> Resolved | None:
        async def work(run: Run) -> Resolved | None:
            found = await run(_BY_ID, {"tenant": tenant, "id": id})
            if not found:
                return None
            seen = _effect(found[0])
            job = await _lock_job(run, tenant, tenant_name, seen.job_id)
            locked = await run(_LOCK, {"tenant": tenant, "key": seen.key})
            stored = _effect(locked[0]) if locked else None
            if stored is None or (stored.id, stored.job_id) != (id, seen.job_id):
                raise _Moved
            running = job is not None and job.leased and job.fence == stored.fence
            return await _resolve(run, stored, job, decision, running=running)

        for _ in range(TRIES):
            try:
                return await self.db.writes.transact(work)
            except _Moved:
                continue
        raise Unavailable(f"effects/{id}: it keeps changing; try again", retry_after_s=1.0)

    async def page(
        self, tenant: TenantId, after: EffectId | None, limit: int, job: JobId | None, *, holding: bool
    ) -> list[Effect]:
        params = {"tenant": tenant, "after": after or _FIRST, "limit": limit, "job": job, "holding": holding}
        rows = await self.db.writes.run(_PAGE if job is None else _PAGE_OF_JOB, params, write=False)
        return [_effect(row) for row in rows]

    async def forget(self, older_than_s: float, limit: int) -> int:
        rows = await self.db.writes.run(_FORGET, {"older_s": older_than_s, "limit": limit})
        return int(rows[0][0])


class _Moved(Exception):
    """Between the look at an entry and its lock it went to another job, or was forgotten."""


async def _resolve(run: Run, stored: Effect, job: _Job | None, decision: Decision, *, running: bool) -> Resolved:
    asked = replace(stored, running=running)
    after = ledger.resolve(asked, decision.state, decision.reference, decision.reason, decision.author)
    if after == asked:
        return Resolved(after)
    await _write(run, after)
    params = {"tenant": stored.tenant_id, "job": stored.job_id}
    if job is None:
        return Resolved(after)
    if job.leased:
        if job.held_for == stored.id:
            await run(_SET_HELD, params | {"effect": None})
        return Resolved(after)
    whole = stored.key == job.effect_key and job.held_for in (None, stored.id)
    if whole and decision.state is EffectState.APPLIED:
        live, _ = await live_in(run, [(stored.tenant_id, stored.job_id)])
        done = Finish(JobState.SUCCEEDED, counted=False, reason=f"effects/{stored.id} was decided to be applied")
        await finish_in(run, [Decided(live[stored.job_id], done, None)])
        if job.schedule_uid is not None:
            await run(_HEALTHY, {"uid": job.schedule_uid})
        return Resolved(after, finished=True)
    if job.held_for == stored.id:
        (row,) = await run(_LET_GO, params)
        return Resolved(after, waiting=entry(row))
    return Resolved(after)


async def _lock_job(run: Run, tenant: TenantId, tenant_name: str, job: JobId) -> _Job | None:
    rows = await run(_LOCK_JOB, {"tenant": tenant, "job": job})
    if not rows:
        return None
    fence, state, alive, key, generation, uid, schedule, nominal_at, number, held_for = rows[0]
    origin: JobOrigin | None = codec.origin(uid, schedule, nominal_at, number)
    return _Job(
        Fence(fence),
        JobState(state),
        alive,
        key or effect_key(tenant_name, job, generation, origin),
        uid,
        None if held_for is None else EffectId(held_for),
    )


async def _hold(run: Run, call: EffectCall, job: _Job, effect: EffectId, hold: bool) -> None:
    """Marks the job as one to be held for an effect, or not any more."""
    if hold != (job.held_for == effect):
        marked = effect if hold else None
        await run(_SET_HELD, {"tenant": call.tenant_id, "job": call.job_id, "effect": marked})


async def _write(run: Run, effect: Effect) -> None:
    await run(
        _WRITE,
        {
            "tenant": effect.tenant_id,
            "key": effect.key,
            "job": effect.job_id,
            "fence": effect.fence,
            "state": int(effect.state),
            "earlier": int(effect.earlier),
            "policy": int(effect.policy),
            "reference": effect.reference,
            "resolved_by": effect.resolved_by,
            "reason": effect.reason,
        },
    )


def _effect(row: Row) -> Effect:
    id, tenant, key, job, fence, state, earlier, policy, begun_at, reference, resolved_by, reason, *lease = row
    running, holding = lease or (False, False)
    return Effect(
        EffectId(id),
        TenantId(tenant),
        key,
        JobId(job),
        Fence(fence),
        EffectState(state),
        EffectState(earlier),
        InDoubt(policy),
        begun_at,
        reference or "",
        resolved_by or "",
        reason or "",
        running,
        holding,
    )
