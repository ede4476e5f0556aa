"""Looks for rows that contradict each other, or that say that a duty is not done.

Each walk is by a key, a page at a time, and each row of a page is held against others by their keys, so that a table of
millions is looked through over time and no statement is long. A page answers with what is wrong and with its last key.

What has a living coordinator as its condition is asked only while one lives and had time for it: after an outage a lot
is undone, and nothing is wrong.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rota.domain import invariants as known
from rota.domain import limits
from rota.domain.fairness import FIRST
from rota.domain.ids import ShardNo, TenantId
from rota.domain.invariants import Violation, Walk
from rota.store.doctor import FATES, ledger
from rota.store.engine import Database, Row, array, by_key, text_array
from rota.store.invariantport import Place, Slice

OTHERS_MAX: Final = 1_000
"""Sessions that one look tells of."""

_ZERO: Final = "00000000-0000-0000-0000-000000000000"

FRESH_S: Final = 6 * limits.DAY_S
"""What is younger is kept for every tenant, by the shortest setting."""


def _attended(grace_s: float) -> str:
    """SQL: a coordinator lives, and has been there for so long."""
    return (
        f"EXISTS (SELECT FROM coordinators c WHERE c.expires_at > now() "
        f"AND c.started_at < now() - interval '{grace_s:g} s')"
    )


def _there(rows: str) -> str:
    """SQL: whether one of these rows is there, as a look-up of its own for each row that asks: an EXISTS among other
    conditions may be planned as a look at the whole table, once."""
    return f"coalesce((SELECT true FROM {rows} LIMIT 1), false)"


def _wrong(invariant: str, condition: str, found: str) -> str:
    return f"CASE WHEN {condition} THEN ARRAY['{invariant}', {found}] END"


def _slice(page: str, *wrong: str, joins: str = "") -> str:
    """SQL: the rows of a page with which something is wrong, one for each thing, and the page's last row."""
    return f"""
        SELECT w.found, p.* FROM (SELECT *, row_number() OVER () AS n, count(*) OVER () AS seen FROM ({page}) q) p
        {joins}
        LEFT JOIN LATERAL (
            SELECT found FROM (VALUES {", ".join(f"({each})" for each in wrong)}) AS w (found) WHERE found IS NOT NULL
        ) w ON true
        WHERE w.found IS NOT NULL OR p.n = p.seen
    """


_OWNERS = f"""
SELECT s.shard, '{known.ONE_OWNER}', coalesce('its owner ' || s.owner || ' is gone', 'nobody owns it')
FROM shards s
WHERE {_attended(known.GRACE_S)} AND NOT EXISTS (
    SELECT FROM coordinators c WHERE c.id = s.owner AND c.expires_at > now() - interval '{known.GRACE_S:g} s')
UNION ALL
SELECT s.shard, '{known.PROGRESS}', 'its watermark stands at ' || coalesce(s.watermark::text, 'nothing')
FROM shards s
JOIN coordinators c ON c.id = s.owner
LEFT JOIN LATERAL (
    SELECT j.due_at FROM jobs j
    WHERE j.shard = s.shard AND j.shard >= 0 AND j.due_at >= coalesce(s.watermark, '-infinity')
    ORDER BY j.due_at LIMIT 1
) d ON true
WHERE c.expires_at > now() AND c.started_at < now() - interval '{known.STEP_GRACE_S:g} s'
  AND coalesce(s.watermark, '-infinity') < least(now(), d.due_at) - interval '{known.STEP_GRACE_S:g} s'
ORDER BY 1
"""

_SESSIONS = f"""
SELECT s.tenant_id, s.id::text, 'its TTL ended at ' || s.expires_at
FROM sessions s
WHERE s.closed_at IS NULL AND s.expires_at < now() - interval '{known.GRACE_S:g} s' AND {_attended(known.GRACE_S)}
ORDER BY s.tenant_id, s.id LIMIT {OTHERS_MAX}
"""

_LEASED = "j.state IN (3, 5)"
_TENANT_LIMIT = _there(
    "tenants t JOIN meters m ON m.tenant_id = t.id AND m.queue = '' AND NOT m.uncounted "
    "WHERE t.id = j.tenant_id AND t.max_in_flight IS NOT NULL"
)
_QUEUE_LIMIT = _there(
    "queues q JOIN meters m ON m.tenant_id = q.tenant_id AND m.queue = q.id AND NOT m.uncounted "
    "WHERE q.tenant_id = j.tenant_id AND q.id = j.queue "
    "AND (q.max_in_flight IS NOT NULL OR q.max_in_flight_per_key IS NOT NULL)"
)
_SLOT = _there(
    "lease_slots l WHERE l.tenant_id = j.tenant_id AND l.queue = j.queue AND l.key = coalesce(j.concurrency_key, '') "
    "AND l.job_id = j.id AND l.fence = j.fence"
)

# All that is leased or late was due, so it is found in one range of each shard.
_DUE = f"""
SELECT w.found, j.tenant_id, j.id::text, j.fence, j.shard, j.due_us, j.n, j.seen
FROM unnest(%(shards)s::smallint[], %(dues)s::bigint[], %(ids)s::uuid[]) AS f (shard, due_us, after_id)
CROSS JOIN LATERAL (
    SELECT *, row_number() OVER () AS n, count(*) OVER () AS seen FROM (
        SELECT j.tenant_id, j.id, j.fence, j.shard, j.state, j.queue, j.concurrency_key, j.due_at, j.leased_at,
               j.session_id, j.run_timeout_ms, (extract(epoch FROM j.due_at) * 1000000)::bigint AS due_us,
               least(CASE WHEN j.attempts_counted = 0 THEN j.start_by END, j.deadline_at) AS latest
        FROM jobs j
        WHERE j.shard = f.shard AND j.shard >= 0 AND j.due_at <= now()
          AND (j.due_at, j.id) > (timestamptz 'epoch' + f.due_us * interval '1 microsecond', f.after_id)
        ORDER BY j.due_at, j.id LIMIT %(page)s
    ) q
) j
LEFT JOIN sessions x ON x.id = j.session_id
LEFT JOIN shards s ON s.shard = j.shard
LEFT JOIN LATERAL (SELECT found FROM (VALUES
    ({_wrong(known.REACHABLE, "j.due_at < s.watermark", "'it was due at ' || j.due_at || ', before ' || s.watermark")}),
    ({
    _wrong(
        known.LIVE_SESSION,
        f"{_LEASED} AND greatest(j.leased_at, CASE WHEN x.state >= 3 THEN x.closed_at END) "
        f"< now() - interval '{known.GRACE_S:g} s' AND coalesce(x.state, 3) >= 3",
        "'session ' || coalesce(j.session_id::text, 'none') || CASE WHEN x.id IS NULL THEN ' is not on record' "
        "ELSE ' was closed at ' || x.closed_at END",
    )
}),
    ({
    _wrong(
        known.RUN_TIMEOUT,
        f"{_LEASED} AND {_attended(known.GRACE_S)} AND j.leased_at + j.run_timeout_ms * interval '1 millisecond' "
        f"< now() - interval '{known.GRACE_S:g} s'",
        "'leased since ' || j.leased_at",
    )
}),
    ({
    _wrong(
        known.START_BY,
        f"j.state IN (1, 4) AND {_attended(known.GRACE_S)} AND j.latest < now() - interval '{known.GRACE_S:g} s'",
        "'not to be handed out since ' || j.latest",
    )
}),
    ({
    _wrong(
        known.COUNTED,
        f"{_LEASED} AND ({_TENANT_LIMIT} OR {_QUEUE_LIMIT}) AND NOT {_SLOT}",
        "'no slot of queue ' || j.queue || ' under fence ' || j.fence",
    )
})) AS w (found) WHERE found IS NOT NULL
) w ON true
WHERE w.found IS NOT NULL OR j.n = j.seen
"""


def _finished(key: str, since: str) -> str:
    """SQL: a job is finished, looked for in the days from `since` on only."""
    return _there(
        f"finished_jobs f WHERE f.tenant_id = p.tenant_id AND f.id = {key} "
        f"AND f.finished_at >= {since} - interval '1 hour'"
    )


def _in(table: str, key: str) -> str:
    return _there(f"{table} k WHERE k.tenant_id = p.tenant_id AND k.id = {key}")


def _on_record(key: str, since: str) -> str:
    return f"({_in('jobs', key)} OR {_in('dead_jobs', key)} OR {_finished(key, since)})"


_JOBS = _slice(
    """
    SELECT j.tenant_id, j.id, j.fence, j.state, j.attempt, j.schedule_uid, j.schedule_id, j.created_at FROM jobs j
    WHERE (j.tenant_id, j.id) > (%(tenant)s, %(id)s::uuid)
    ORDER BY j.tenant_id, j.id LIMIT %(rows)s
    """,
    _wrong(known.ONE_TABLE, _in("dead_jobs", "p.id"), "'live, and a dead letter'"),
    _wrong(known.ONE_TABLE, _finished("p.id", "p.created_at"), "'live, and finished'"),
    _wrong(
        known.ORPHAN_JOB,
        "p.state = 1 AND p.attempt = 0 AND p.schedule_uid IS NOT NULL "
        f"AND NOT {_there('schedules s WHERE s.uid = p.schedule_uid')}",
        "'its schedule ' || coalesce(p.schedule_id, '') || ' is gone'",
    ),
)

_DEAD = _slice(
    """
    SELECT d.tenant_id, d.id, d.fence, d.created_at FROM dead_jobs d
    WHERE (d.tenant_id, d.id) > (%(tenant)s, %(id)s::uuid)
    ORDER BY d.tenant_id, d.id LIMIT %(rows)s
    """,
    _wrong(known.ONE_TABLE, _finished("p.id", "p.created_at"), "'a dead letter, and finished'"),
)

_ATTEMPTS = _slice(
    f"""
    SELECT a.tenant_id, a.job_id AS id, a.fence, a.ended_at FROM attempts a
    WHERE (a.tenant_id, a.job_id, a.fence) > (%(tenant)s, %(id)s::uuid, %(number)s)
      AND a.ended_at > now() - interval '{FRESH_S:g} s'
    ORDER BY a.tenant_id, a.job_id, a.fence, a.ended_at LIMIT %(rows)s
    """,
    _wrong(known.ORPHAN_ATTEMPT, f"NOT {_on_record('p.id', 'p.ended_at')}", "'its attempt ended at ' || p.ended_at"),
)

# Only jobs that the request made are its own; others were found by their dedupe key, and may be older by far. An id
# begins with the time at which it was made, by the clock of some coordinator.
_REQUESTS = _slice(
    """
    SELECT r.tenant_id, r.request_id AS id, r.method AS fence, r.created_at, r.answer FROM requests r
    WHERE (r.tenant_id, r.method, r.request_id) > (%(tenant)s, %(number)s, %(id)s)
    ORDER BY r.tenant_id, r.method, r.request_id LIMIT %(rows)s
    """,
    _wrong(
        known.REQUEST_LIFE,
        f"p.created_at < now() - interval '{limits.REQUEST_LIFE_S + known.JANITOR_GRACE_S:g} s' "
        f"AND {_attended(known.JANITOR_GRACE_S)}",
        "'it is from ' || p.created_at",
    ),
    _wrong(
        known.REQUEST_JOBS,
        f"p.fence IN (1, 2) AND p.created_at > now() - interval '{FRESH_S:g} s' AND EXISTS ("
        "SELECT FROM unnest(p.answer) AS a (id) "
        "WHERE a.id > rpad(lpad(to_hex((extract(epoch FROM p.created_at) * 1000)::bigint - 300000), 12, '0'), 32, '0')"
        f"::uuid AND NOT {_on_record('a.id', 'p.created_at')})",
        "'it stands for ' || array_to_string(p.answer[1:3], ', ')",
    ),
)


def _ended_just_now(table: str, instant: str) -> str:
    return _there(
        f"{table} k WHERE k.tenant_id = p.tenant_id AND k.id = p.job_id "
        f"AND k.{instant} > now() - interval '{known.JANITOR_GRACE_S:g} s'"
    )


_DEDUPE = _slice(
    """
    SELECT d.tenant_id, d.key AS id, 0 AS fence, d.job_id, d.held_until FROM dedupe_keys d
    WHERE (d.tenant_id, d.key) > (%(tenant)s, %(id)s)
    ORDER BY d.tenant_id, d.key LIMIT %(rows)s
    """,
    _wrong(
        known.DEDUPE_HOLD,
        f"p.held_until IS NULL AND {_attended(known.JANITOR_GRACE_S)} AND NOT {_in('jobs', 'p.job_id')} "
        f"AND NOT {_ended_just_now('dead_jobs', 'died_at')} AND NOT {_ended_just_now('finished_jobs', 'finished_at')}",
        "p.job_id::text",
    ),
)

_TIMERS = _slice(
    """
    SELECT t.tenant_id, t.uid AS id, 0 AS fence, t.state, t.arm_at FROM schedule_timers t
    WHERE t.uid > %(id)s::uuid
    ORDER BY t.uid LIMIT %(rows)s
    """,
    _wrong(known.ARMED, "p.state = 1 AND p.arm_at IS NULL", "'it waits for nothing'"),
    _wrong(
        known.STEPPED,
        f"p.arm_at < now() - interval '{known.STEP_GRACE_S:g} s' AND {_attended(known.STEP_GRACE_S)}",
        "'its time came at ' || p.arm_at",
    ),
)

_EFFECTS = _slice(
    """
    SELECT e.tenant_id, e.id, 0 AS fence, e.begun_at, e.effect_key FROM effects e
    WHERE e.state IN (0, 3) AND (e.tenant_id, e.id) > (%(tenant)s, %(id)s::uuid)
    ORDER BY e.tenant_id, e.id LIMIT %(rows)s
    """,
    _wrong(
        known.IN_DOUBT,
        f"p.begun_at < now() - interval '{known.IN_DOUBT_MAX_S:g} s'",
        "p.effect_key || ' is in doubt since ' || p.begun_at",
    ),
)

# A uid begins with the time at which its schedule was made.
_LEDGERS = f"""
SELECT s.tenant_id, s.id, s.uid::text, t.version, t.state, s.created_at, t.cursor_at, t.fates[1:9], l.fates
FROM (
    SELECT * FROM schedules
    WHERE uid > coalesce(%(id)s::uuid, rpad(lpad(to_hex(
        ((extract(epoch FROM now()) - {FRESH_S:g}) * 1000)::bigint), 12, '0'), 32, '0')::uuid)
    ORDER BY uid LIMIT %(rows)s
) s
JOIN schedule_timers t ON t.uid = s.uid
CROSS JOIN LATERAL ({FATES}) l
ORDER BY s.uid
"""

_SCHEDULE_IDS = """
SELECT s.uid::text, s.id FROM unnest(%(uids)s::uuid[]) AS w (uid) JOIN schedules s ON s.uid = ANY (ARRAY[w.uid])
"""

_SET_BACK = f"""
UPDATE shards s SET watermark = d.due_at - interval '1 microsecond'
FROM (SELECT j.shard, min(j.due_at) AS due_at
      FROM unnest(%(tenants)s::int[], %(ids)s::uuid[]) AS w (tenant_id, id) JOIN jobs j ON {by_key("j", "w")}
      GROUP BY j.shard) d
WHERE s.shard = d.shard AND s.watermark > d.due_at
RETURNING 1
"""

_FORGET_REQUESTS = f"""
DELETE FROM requests r
USING unnest(%(tenants)s::int[], %(numbers)s::smallint[], %(ids)s::text[]) AS w (tenant_id, method, request_id)
WHERE {by_key("r", "w", ["tenant_id", "method", "request_id"])}
  AND r.created_at < now() - interval '{limits.REQUEST_LIFE_S:g} s'
RETURNING 1
"""

# The job is named: a hold that a new job took over meanwhile stays.
_LET_GO = f"""
DELETE FROM dedupe_keys d
USING unnest(%(tenants)s::int[], %(ids)s::text[], %(jobs)s::uuid[]) AS w (tenant_id, key, job_id)
WHERE {by_key("d", "w", ["tenant_id", "key"])} AND d.job_id = w.job_id AND d.held_until IS NULL
  AND NOT EXISTS (SELECT FROM jobs j WHERE j.tenant_id = w.tenant_id AND j.id = w.job_id)
RETURNING 1
"""

_ARM = """
UPDATE schedule_timers t SET arm_at = now() FROM unnest(%(ids)s::uuid[]) AS w (uid)
WHERE t.uid = ANY (ARRAY[w.uid]) AND t.state = 1 AND t.arm_at IS NULL
RETURNING 1
"""


@dataclass(frozen=True, slots=True)
class _Pages:
    """A walk by one statement, over rows named as `resource`. `first` is before every tenant, id and number."""

    statement: str
    resource: str
    first: Place


_BY_ID: Final = (0, _ZERO, 0)
_BY_TEXT: Final = (0, "", 0)

_PAGES: Final[Mapping[Walk, _Pages]] = {
    Walk.JOBS: _Pages(_JOBS, "jobs", _BY_ID),
    Walk.DEAD: _Pages(_DEAD, "jobs", _BY_ID),
    Walk.ATTEMPTS: _Pages(_ATTEMPTS, "jobs", _BY_ID),
    Walk.REQUESTS: _Pages(_REQUESTS, "requests", _BY_TEXT),
    Walk.DEDUPE: _Pages(_DEDUPE, "dedupeKeys", _BY_TEXT),
    Walk.TIMERS: _Pages(_TIMERS, "schedules", _BY_ID),
    Walk.EFFECTS: _Pages(_EFFECTS, "effects", _BY_ID),
}


@dataclass(frozen=True, slots=True)
class PgInvariants:
    """InvariantStore on PostgreSQL."""

    db: Database

    async def look(self, walk: Walk, at: Place | None, rows: int, shards: Sequence[ShardNo] | None = None) -> Slice:
        if walk is Walk.SHARDS:
            return await self._shards()
        if walk is Walk.DUE:
            return await self._due(at, rows, shards)
        if walk is Walk.LEDGERS:
            return await self._ledgers(at, rows)
        return await self._page(_PAGES[walk], at, rows)

    async def repair(self, invariant: str, violations: Sequence[Violation]) -> int:
        params: dict[str, object] = {
            "tenants": array([v.tenant_id for v in violations]),
            "ids": text_array([v.id for v in violations]),
            "numbers": array([v.number for v in violations]),
        }
        match invariant:
            case known.REACHABLE:
                statement = _SET_BACK
            case known.REQUEST_LIFE:
                statement = _FORGET_REQUESTS
            case known.DEDUPE_HOLD:
                statement = _LET_GO
                params["jobs"] = array([v.found for v in violations])
            case known.ARMED:
                statement = _ARM
            case _:
                return 0
        done = len(await self.db.writes.run(statement, params))
        # One statement moves a shard's mark behind all of its jobs.
        return len(violations) if done and invariant == known.REACHABLE else done

    async def _shards(self) -> Slice:
        found = [
            Violation(invariant, f"shards/{shard}", text, id=str(shard))
            for shard, invariant, text in await self.db.reads.run(_OWNERS, {}, write=False)
        ]
        found += [
            Violation(known.SESSION_CLOSED, f"sessions/{id}", text, TenantId(tenant), id)
            for tenant, id, text in await self.db.reads.run(_SESSIONS, {}, write=False)
        ]
        return Slice(found)

    async def _due(self, at: Place | None, rows: int, shards: Sequence[ShardNo] | None) -> Slice:
        places: dict[ShardNo, tuple[int, str]] = dict(at) if at else {}
        if at is None:
            wanted = range(limits.SHARD_COUNT) if shards is None else shards
            places = {ShardNo(shard): (FIRST.due_us, _ZERO) for shard in wanted}
        elif shards is not None:
            places = {shard: place for shard, place in places.items() if shard in shards}
        page = max(rows // max(len(places), 1), 1)
        params = {
            "shards": array(list(places)),
            "dues": array([due_us for due_us, _ in places.values()]),
            "ids": array([id for _, id in places.values()]),
            "page": page,
        }
        found: list[Violation] = []
        then: dict[ShardNo, tuple[int, str]] = {}
        for wrong, tenant, id, fence, shard, due_us, n, seen in await self.db.reads.run(_DUE, params, write=False):
            if wrong is not None:
                found.append(Violation(wrong[0], f"jobs/{id}", wrong[1], TenantId(tenant), id, fence))
            if n == seen == page:
                then[ShardNo(shard)] = (due_us, id)
        return Slice(found, tuple(then.items()) or None)

    async def _page(self, pages: _Pages, at: Place | None, rows: int) -> Slice:
        tenant, id, number = at or pages.first
        params = {"tenant": tenant, "id": id, "number": number, "rows": rows}
        found = await self.db.reads.run(pages.statement, params, write=False)
        last = [r for r in found if r[-2] == r[-1] == rows]
        then = (last[0][1], str(last[0][2]), last[0][3]) if last else None
        violations = [_violation(pages.resource, r) for r in found if r[0] is not None]
        if pages.resource == "schedules":
            violations = await self._with_ids(violations)
        return Slice(violations, then)

    async def _with_ids(self, violations: Sequence[Violation]) -> list[Violation]:
        """Names schedules by the ids that people know."""
        if not violations:
            return []
        rows = await self.db.reads.run(_SCHEDULE_IDS, {"uids": array([v.id for v in violations])}, write=False)
        names: dict[str, str] = dict(rows)
        return [
            Violation(v.invariant, f"schedules/{names.get(v.id, v.id)}", v.found, v.tenant_id, v.id) for v in violations
        ]

    async def _ledgers(self, at: Place | None, rows: int) -> Slice:
        params = {"id": at[0] if at else None, "rows": rows}
        ledgers = [ledger(r) for r in await self.db.reads.run(_LEDGERS, params, write=False)]
        return Slice((), (ledgers[-1].uid,) if len(ledgers) == rows else None, ledgers)


def _violation(resource: str, row: Row) -> Violation:
    (invariant, text), tenant, id, number = row[:4]
    name = f"{resource}/{number}/{id}" if resource == "requests" else f"{resource}/{id}"
    return Violation(invariant, name, text, TenantId(tenant), str(id), number)
