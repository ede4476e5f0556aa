"""Reading due work and claiming it: the hot half of the store that gives."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rota.domain import limiting, limits
from rota.domain.fairness import Entry, LaneKey, Position
from rota.domain.ids import CoordinatorId, Fence, JobId, SessionId, ShardNo, TenantId
from rota.domain.limiting import LimitedGrants
from rota.domain.model import Grant, JobState
from rota.store import codec, slots
from rota.store.engine import Database, Row, Run, array, by_key
from rota.store.port import Claim, DueRow

# One range scan per shard, each with its own limit: a single scan with `shard = any(...)` reads and sorts the whole
# backlog for every page. Rows that became due together share due_at, so the id takes part in the order. The session is
# looked up by a scalar subquery because an EXISTS may become a hash of all sessions.
_READ_DUE = """
SELECT j.tenant_id, j.id::text, j.shard, j.state, j.queue, j.type, j.priority,
       (extract(epoch FROM j.due_at) * 1000000)::bigint,
       octet_length(j.payload) + coalesce(octet_length(j.headers::text), 0),
       extract(epoch FROM least(CASE WHEN j.attempts_counted = 0 THEN j.start_by END, j.deadline_at))::float8,
       j.fence, j.session_id::text, extract(epoch FROM now() - j.leased_at)::float8, j.run_timeout_ms,
       CASE WHEN j.state IN (3, 5) THEN (SELECT s.state < 3 FROM sessions s WHERE s.id = j.session_id) END,
       j.concurrency_key
FROM unnest(%(shards)t::smallint[], %(dues)t::bigint[], %(ids)t::uuid[]) AS f (shard, due_us, id)
CROSS JOIN LATERAL (
    SELECT * FROM jobs j
    WHERE j.shard = f.shard AND j.shard >= 0
      AND (j.due_at, j.id) > (timestamptz 'epoch' + f.due_us * interval '1 microsecond', f.id)
      AND j.due_at <= timestamptz 'epoch' + %(until)s::bigint * interval '1 microsecond'
    ORDER BY j.due_at, j.id
    LIMIT %(page)s::int
) j
"""

# The same for one lane that had left jobs behind: other lanes' rows are passed over, and of a key's lane other keys'.
_READ_LANE = _READ_DUE.replace(
    "WHERE j.shard = f.shard AND j.shard >= 0\n",
    "WHERE j.shard = f.shard AND j.shard >= 0 AND j.tenant_id = %(tenant)s::int AND j.queue = %(queue)s::text "
    "AND j.type = %(type)s::text AND (%(key)s::text = '' OR j.concurrency_key = %(key)s::text)\n",
)

# The state, the growing fence and the shard's epoch are each tested by the row itself, in one statement: whoever
# commits first has the job, and an owner that lost its shard gets nothing. The shard is looked up by a scalar subquery
# because an EXISTS becomes a join, which may pair every claim with every shard of the same epoch first: 256 times the
# work. CASE keeps due_at from being looked up in its index.
_CLAIM_OF = """
UPDATE jobs j
SET state = 3, fence = c.fence, session_id = c.session_id, attempt = j.attempt + 1, leased_at = statement_timestamp()
FROM unnest(%(tenants)t::int[], %(ids)t::uuid[], %(fences)t::bigint[], %(sessions)t::uuid[])
     AS c (tenant_id, id, fence, session_id)
WHERE {key} AND j.fence < c.fence
  AND CASE WHEN j.state IN (1, 4) THEN j.due_at <= now() END
  AND (j.start_by IS NULL OR j.attempts_counted > 0 OR j.start_by > now())
  AND (j.deadline_at IS NULL OR j.deadline_at > now())
  AND (SELECT s.owner = %(owner)t::uuid AND s.epoch = c.fence >> 32 FROM shards s WHERE s.shard = j.shard)
  {unlimited}
RETURNING j.id::text, j.fence, j.attempt, j.attempts_counted, j.max_attempts, j.run_timeout_ms,
          extract(epoch FROM j.deadline_at - now())::float8, j.payload, j.content_type, j.headers, j.effect_key,
          j.due_at, j.traceparent, j.tracestate, j.generation, j.schedule_uid::text, j.schedule_id, j.nominal_at,
          j.occurrence_generation
"""

# Whether anything is limited is asked once, of the few queues that the statement is about: what a coordinator knows of
# limits may be old, and a claim that grants against one that is stored already would break it.
_CLAIM_UNLIMITED = f"WITH limited AS MATERIALIZED ({slots.LIMITED}){_CLAIM_OF}".format(
    key=by_key("j", "c"),
    unlimited="""AND CASE WHEN (SELECT count(*) FROM limited) > 0 THEN NOT EXISTS (
      SELECT FROM limited l WHERE l.tenant_id = j.tenant_id AND l.id IN (j.queue, '')) ELSE true END""",
)

_CLAIM = _CLAIM_OF.format(key=by_key("j", "c"), unlimited="")

_OVERHEAD = limits.LEASE_OVERHEAD_BYTES

# Calling the enumeration costs five times a look-up, for each row of every read.
_STATES = {int(state): state for state in JobState}


@dataclass(frozen=True, slots=True)
class PgLeases:
    """LeaseStore on PostgreSQL."""

    db: Database

    async def read_due(
        self, after: Sequence[tuple[ShardNo, Position]], until_us: int, page: int, lane: LaneKey | None = None
    ) -> list[DueRow]:
        params: dict[str, Any] = {
            "shards": array([shard for shard, _ in after]),
            "dues": array([position.due_us for _, position in after]),
            "ids": array([position.id for _, position in after]),
            "until": until_us,
            "page": page,
        }
        if lane is not None:
            params |= {
                "tenant": lane.tenant_id,
                "queue": lane.queue,
                "type": lane.type,
                "key": lane.concurrency_key,
            }
        rows = await self.db.reads.run(_READ_DUE if lane is None else _READ_LANE, params, write=False)
        return [
            DueRow(
                Entry(
                    TenantId(r[0]),
                    JobId(r[1]),
                    ShardNo(r[2]),
                    r[4],
                    r[5],
                    r[6],
                    r[7],
                    r[8] + _OVERHEAD,
                    r[9],
                    r[15] or "",
                ),
                _STATES[r[3]],
                Fence(r[10]),
                None if r[11] is None else SessionId(r[11]),
                r[12],
                r[13] / 1000,
                bool(r[14]),
            )
            for r in rows
        ]

    async def claim(self, claims: Sequence[Claim], owner: CoordinatorId) -> list[Grant]:
        params = _claim_params(claims, owner) | slots.queue_params(slots.queue_keys(claims))
        return _granted(claims, await self.db.claims.run(_CLAIM_UNLIMITED, params))

    async def claim_limited(self, claims: Sequence[Claim], owner: CoordinatorId) -> LimitedGrants:
        return await self.db.claims.transact(lambda run: _claim_limited(run, claims, owner))


async def _claim_limited(run: Run, claims: Sequence[Claim], owner: CoordinatorId) -> LimitedGrants:
    wishes = [limiting.gates(c.entry.tenant_id, c.entry.queue, c.entry.concurrency_key) for c in claims]
    found = await slots.hold(run, claims)
    meters = await slots.meters(run, found)
    counts = await slots.count(run, found, claims, live=False)
    rooms = slots.rooms(found, meters, counts, claims)
    admission = limiting.admit(wishes, rooms)
    if any(rooms[gate].places is not None for gate in admission.refused):
        # What seems full may be full of leases that have ended.
        counts = await slots.count(run, found, claims, live=True)
        rooms = slots.rooms(found, meters, counts, claims)
        admission = limiting.admit(wishes, rooms)
    # As in any claim, pages are visited shard by shard.
    admitted = sorted([claims[i] for i in admission.taken], key=lambda c: (c.entry.shard, c.entry.id))
    grants = _granted(admitted, await run(_CLAIM, _claim_params(admitted, owner))) if admitted else []
    fences = {(grant.job_id, grant.fence) for grant in grants}
    granted = [i for i in admission.taken if (claims[i].entry.id, claims[i].fence) in fences]
    await slots.take(run, found, meters, counts, [claims[i] for i in granted])
    return LimitedGrants(grants, limiting.closed(admission.refused, rooms, [wishes[i] for i in granted]))


def _claim_params(claims: Sequence[Claim], owner: CoordinatorId) -> dict[str, object]:
    return {
        "tenants": array([c.entry.tenant_id for c in claims]),
        "ids": array([c.entry.id for c in claims]),
        "fences": array([c.fence for c in claims]),
        "sessions": array([c.session_id for c in claims]),
        "owner": owner,
    }


def _granted(claims: Sequence[Claim], rows: Sequence[Row]) -> list[Grant]:
    by_fence = {(c.entry.id, c.fence): c for c in claims}
    return [_grant(by_fence[r[0], r[1]], r) for r in rows]


def _grant(claim: Claim, r: tuple[Any, ...]) -> Grant:
    entry = claim.entry
    return Grant(
        tenant_id=entry.tenant_id,
        job_id=entry.id,
        shard=entry.shard,
        fence=claim.fence,
        session_id=claim.session_id,
        attempt=r[2],
        attempts_counted=r[3],
        max_attempts=r[4],
        type=entry.type,
        queue=entry.queue,
        priority=entry.priority,
        payload=r[7],
        content_type=r[8],
        headers=r[9],
        effect_key=r[10] or "",
        generation=r[14],
        run_timeout_s=r[5] / 1000,
        deadline_s=r[6],
        due_at=r[11],
        traceparent=r[12] or "",
        tracestate=r[13] or "",
        origin=codec.origin(r[15], r[16], r[17], r[18]),
    )
