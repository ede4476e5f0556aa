"""Firing: timers that are armed, and the one statement that turns a step into fates, jobs and the timer after it.

Occurrences are unique by (schedule, nominal time, generation), and a timer moves only from the version and cursor that
the step was decided on. So a step that is written twice, by whomever, writes nothing the second time.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg import errors as pg

from rota.domain import limits
from rota.domain.fairness import Entry
from rota.domain.ids import CoordinatorId, JobId, ScheduleUid, ShardNo, TenantId
from rota.domain.overlap import Record, Waiting
from rota.domain.schedule import Calendars, Origin, Schedule, ScheduleState, Timer
from rota.domain.step import is_turned_back
from rota.store import codec, schedulerows
from rota.store.engine import Database, Params, Row, Run, array, by_key, text_array
from rota.store.scheduleport import Armed, DueBackfill, Held, Move, Unwritable

_READ_ARMED = f"""
SELECT t.tenant_id, t.uid::text, t.shard, clock_timestamp(), {schedulerows.TIMER}
FROM unnest(%(shards)t::smallint[]) AS f (shard)
CROSS JOIN LATERAL (
    SELECT * FROM schedule_timers t
    WHERE t.shard = f.shard AND t.arm_at IS NOT NULL
      AND t.arm_at <= timestamptz 'epoch' + %(until)s::bigint * interval '1 microsecond'
    ORDER BY t.arm_at, t.uid
    LIMIT %(page)s::int
) t
"""

_DEFINITIONS = f"""
SELECT {schedulerows.SCHEDULE}, t.version
FROM unnest(%(uids)t::uuid[]) AS u (uid)
JOIN schedules s ON {by_key("s", "u", ["uid"])}
JOIN schedule_timers t ON {by_key("t", "u", ["uid"])}
"""

CALENDARS = f"""
SELECT c.tenant_id, c.id, c.dates
FROM unnest(%(tenants)t::int[], %(ids)s::text[]) AS w (tenant_id, id)
JOIN calendars c ON {by_key("c", "w", ["tenant_id", "id"])}
"""

_READ_UNFIT = f"""
SELECT t.tenant_id, t.uid::text, t.shard, {schedulerows.TIMER}
FROM (SELECT * FROM schedule_timers WHERE uid > %(after)s::uuid ORDER BY uid LIMIT %(page)s) t
WHERE t.state IN (1, 2) AND (t.tzdata <> %(tzdata)s OR (t.state = 1 AND t.arm_at IS NULL))
"""

_LAST_READ = """
SELECT max(uid::text), count(*) FROM (
    SELECT uid FROM schedule_timers WHERE uid > %(after)s::uuid ORDER BY uid LIMIT %(page)s) t
"""

_LOCK = f"""
SELECT t.tenant_id, t.uid::text, t.shard, {schedulerows.TIMER}
FROM unnest(%(uids)t::uuid[]) AS u (uid)
JOIN schedule_timers t ON {by_key("t", "u", ["uid"])}
FOR UPDATE OF t SKIP LOCKED
"""

RUNNING = """
SELECT j.schedule_uid::text, j.id::text
FROM unnest(%(uids)t::uuid[]) AS u (uid)
CROSS JOIN LATERAL (
    SELECT j.schedule_uid, j.id FROM jobs j
    WHERE j.schedule_uid = u.uid AND j.schedule_uid IS NOT NULL
    ORDER BY j.schedule_uid, j.nominal_at LIMIT %(limit)s::int
) j
"""

WAITING = """
SELECT o.schedule_uid::text, o.nominal_at, o.generation, o.due_at, o.local_time, o.origin, o.reason, o.forced,
       o.backfill_id::text, o.missed, o.first_missed, clock_timestamp()
FROM unnest(%(uids)t::uuid[]) AS u (uid)
CROSS JOIN LATERAL (
    SELECT * FROM occurrences o
    WHERE o.schedule_uid = u.uid AND o.fate = 2
    ORDER BY o.nominal_at, o.generation LIMIT %(limit)s::int
) o
"""

TAKEN = """
SELECT o.schedule_uid::text, o.nominal_at
FROM unnest(%(uids)t::uuid[], %(cursors)t::bigint[]) AS u (uid, cursor_us)
JOIN occurrences o ON o.schedule_uid = ANY (ARRAY[u.uid]) AND o.generation = 0 AND o.fate NOT IN (2, 10)
  AND o.nominal_at > timestamptz 'epoch' + u.cursor_us * interval '1 microsecond'
"""

NOW = "SELECT clock_timestamp()"

# The fate of an occurrence is written once. Two may change: what was taken out of the rule comes back by an edit, and
# what waits gets its turn or loses it. Anything else that is there already stays as it is, and makes no second job.
# Jobs are made from what the ledger returns, without a look back at the list: a planner that expects a row or two would
# compare each with each. What the ledger has no column for is found by the job's id.
MOVE = f"""
WITH t AS (
    SELECT * FROM unnest(
        %(uids)t::uuid[], %(versions)t::bigint[], %(cursors)t::bigint[], %(epochs)t::bigint[],
        %(new_versions)t::bigint[], %(states)t::smallint[], %(reasons)s::text[], %(authors)s::text[],
        %(new_cursors)t::bigint[], %(nominals)t::bigint[], %(dues)t::bigint[], %(arms)t::bigint[], %(fired)t::int[],
        %(buffered)t::int[], %(counts)s::text[], %(episodes)s::text[], %(paused)t::bigint[], %(lasts)t::bigint[],
        %(last_jobs)t::uuid[], %(failures)t::int[], %(tzdata)s::text[])
    AS t (uid, version, cursor_us, epoch, new_version, state, reason, author, new_cursor_us, nominal_us, due_us, arm_us,
          fired, buffered, counts, episode, paused_us, last_us, last_job, failures, tzdata)
), moved AS (
    UPDATE schedule_timers s
    SET version = t.new_version, state = t.state, cursor_at = {{new_cursor}}, next_nominal = {{nominal}},
        next_due = {{due}},
        arm_at = CASE WHEN s.buffered + t.buffered > 0
                      THEN least({{arm}}, now() + interval '1 second') ELSE {{arm}} END,
        fired = s.fired + t.fired, buffered = s.buffered + t.buffered,
        fates = (SELECT array_agg(coalesce(a, 0) + b ORDER BY i)
                 FROM unnest(s.fates, t.counts::bigint[]) WITH ORDINALITY AS x (a, b, i)),
        episode = t.episode::jsonb, paused_at = {{paused}}, tzdata = t.tzdata,
        failures = coalesce(t.failures, s.failures),
        last_nominal = coalesce({{last}}, s.last_nominal),
        last_job = coalesce(t.last_job, s.last_job),
        last_fire_at = CASE WHEN t.last_job IS NULL THEN s.last_fire_at ELSE now() END,
        state_reason = CASE WHEN s.state = t.state AND s.version = t.new_version
                            THEN s.state_reason ELSE nullif(t.reason, '') END,
        state_author = CASE WHEN s.state = t.state AND s.version = t.new_version
                            THEN s.state_author ELSE nullif(t.author, '') END,
        state_at = CASE WHEN s.state = t.state THEN s.state_at ELSE now() END
    FROM t
    WHERE {by_key("s", "t", ["uid"])} AND s.version = t.version AND s.cursor_at = {{cursor}}
      AND (%(owner)t::uuid IS NULL OR (
          SELECT h.owner = %(owner)t::uuid AND h.epoch = t.epoch FROM shards h WHERE h.shard = s.shard))
    RETURNING s.uid, s.tenant_id, s.shard, t.version
), o AS (
    SELECT o.*, m.tenant_id, m.shard, m.version
    FROM unnest(
        %(o_uids)t::uuid[], %(o_nominals)t::bigint[], %(o_generations)t::int[], %(o_dues)t::bigint[],
        %(o_origins)t::smallint[], %(o_fates)t::smallint[], %(o_locals)s::text[], %(o_reasons)s::text[],
        %(o_jobs)t::uuid[], %(o_blocking)t::uuid[], %(o_backfills)t::uuid[], %(o_counts)t::bigint[],
        %(o_lasts)t::bigint[], %(o_missed)t::bigint[], %(o_firsts)t::bigint[], %(o_forced)t::boolean[])
    AS o (uid, nominal_us, generation, due_us, origin, fate, local_time, reason, job_id, blocking_job, backfill_id,
          count, last_us, missed, first_us, forced)
    JOIN moved m ON m.uid = o.uid
), ledger AS (
    INSERT INTO occurrences AS k (
        schedule_uid, nominal_at, generation, tenant_id, due_at, origin, fate, version, recorded_at, local_time, reason,
        job_id, blocking_job, backfill_id, count, last_nominal, missed, first_missed, forced, payload, content_type)
    SELECT uid, {{o_nominal}}, generation, tenant_id, {{o_due}}, origin, fate, version, now(), local_time,
           nullif(reason, ''), job_id, blocking_job, backfill_id, count, {{o_last}}, missed, {{o_first}}, forced,
           %(payload)b::bytea, %(content_type)s::text
    FROM o
    ON CONFLICT (schedule_uid, nominal_at, generation) DO UPDATE
    SET fate = excluded.fate, origin = excluded.origin, due_at = excluded.due_at, version = excluded.version,
        recorded_at = excluded.recorded_at, local_time = excluded.local_time, reason = excluded.reason,
        job_id = excluded.job_id, blocking_job = excluded.blocking_job, count = excluded.count,
        last_nominal = excluded.last_nominal, missed = excluded.missed, first_missed = excluded.first_missed
    WHERE k.fate IN (2, 10)
    RETURNING schedule_uid, nominal_at, generation, tenant_id, due_at, fate, version, job_id, missed, first_missed,
              payload, content_type
), made AS (
    INSERT INTO jobs (
        tenant_id, id, shard, state, priority, generation, attempt, attempts_counted, max_attempts, run_timeout_ms,
        fence, due_at, created_at, start_by, deadline_at, type, queue, content_type, payload, headers, labels, options,
        concurrency_key, traceparent, schedule_uid, schedule_id, schedule_version, nominal_at, occurrence_generation)
    SELECT
        l.tenant_id, l.job_id, d.shard, 1, coalesce((x.extra ->> 0)::smallint, d.priority), 0, 0, 0, d.max_attempts,
        d.run_timeout_ms, 0, x.due_at, now(), x.due_at + d.start_by_s * interval '1 second',
        x.due_at + d.total_s * interval '1 second', d.type, d.queue, coalesce(l.content_type, d.content_type),
        coalesce(l.payload, d.payload),
        CASE WHEN l.missed > 0 THEN coalesce(d.headers, '{{{{}}}}'::jsonb) || jsonb_build_object(
            'rota-missed-count', l.missed::text,
            'rota-first-missed-time',
            to_char(l.first_missed AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')) ELSE d.headers END,
        d.job_labels, d.options, d.concurrency_key, x.extra ->> 1, l.schedule_uid, d.id, l.version, l.nominal_at,
        l.generation
    FROM ledger l
    JOIN schedules d ON d.uid = ANY (ARRAY[l.schedule_uid])
    CROSS JOIN LATERAL (
        SELECT greatest(now(), l.due_at) AS due_at, %(extras)s::jsonb -> l.job_id::text AS extra) x
    WHERE l.fate = 1
    RETURNING {{entry}}
)
SELECT 1, NULL::int, uid::text, NULL::smallint, NULL, NULL, NULL::smallint, NULL::bigint, NULL::int, NULL::float8,
    NULL
FROM moved
UNION ALL
SELECT 2, * FROM made
"""

ENTRY = """tenant_id, id::text, shard, queue, type, priority, (extract(epoch FROM due_at) * 1000000)::bigint,
    octet_length(payload) + coalesce(octet_length(headers::text), 0),
    extract(epoch FROM least(CASE WHEN attempts_counted = 0 THEN start_by END, deadline_at))::float8,
    concurrency_key"""


def _at(column: str) -> str:
    return f"timestamptz 'epoch' + {column} * interval '1 microsecond'"


MOVE = MOVE.format(
    **{name: _at(f"t.{name}_us") for name in ("cursor", "new_cursor", "nominal", "due", "arm", "paused", "last")},
    **{f"o_{name}": _at(f"o.{name}_us") for name in ("nominal", "due", "last", "first")},
    entry=ENTRY,
)

_ZERO = "00000000-0000-0000-0000-000000000000"

_DUE_BACKFILLS = f"""
SELECT b.schedule_uid::text, b.tenant_id, b.shard, {schedulerows.BACKFILL}
FROM unnest(%(shards)t::smallint[]) AS f (shard)
CROSS JOIN LATERAL (
    SELECT * FROM backfills b
    WHERE b.shard = f.shard AND b.state = 1 AND b.next_at <= now()
    ORDER BY b.next_at, b.id
    LIMIT %(limit)s::int
) b
"""


@dataclass(frozen=True, slots=True)
class PgFires:
    """FireStore on PostgreSQL."""

    db: Database

    async def read_armed(
        self, shards: Sequence[ShardNo], until: datetime, page: int
    ) -> tuple[list[Armed], datetime | None]:
        params = {"shards": array(shards), "until": codec.micros(until), "page": page}
        rows = await self.db.fires.run(_READ_ARMED, params, write=False)
        return [_armed(r, r[4:]) for r in rows], rows[0][3] if rows else None

    async def definitions(self, uids: Sequence[ScheduleUid]) -> dict[ScheduleUid, tuple[Schedule, Calendars]]:
        rows = await self.db.fires.run(_DEFINITIONS, {"uids": array(uids)}, write=False)
        # Of the timer only the version is asked for: whoever needs more of it has it already, or must lock it.
        found = [schedulerows.schedule(r, Timer(r[-1], ScheduleState.ACTIVE, cursor=r[18]), b"") for r in rows]
        named = {(s.tenant_id, id) for s in found for id in s.definition.timing.calendars}
        dates: dict[tuple[TenantId, str], list[str]] = {}
        if named:
            pairs = sorted(named)
            params = {"tenants": array([tenant for tenant, _ in pairs]), "ids": [id for _, id in pairs]}
            calendars = await self.db.fires.run(CALENDARS, params, write=False)
            dates = {(TenantId(tenant), id): texts for tenant, id, texts in calendars}
        return {
            s.uid: (
                s,
                {
                    id: schedulerows.date_set(dates[s.tenant_id, id])
                    for id in s.definition.timing.calendars
                    if (s.tenant_id, id) in dates
                },
            )
            for s in found
        }

    async def fire(self, moves: Sequence[Move], owner: CoordinatorId) -> tuple[list[Entry], set[ScheduleUid]]:
        try:
            return moved(await self.db.fires.run(MOVE, move_params(moves, owner)))
        except (pg.DataError, pg.IntegrityError) as error:
            raise Unwritable(str(error)) from error

    async def fire_held(
        self,
        uids: Sequence[ScheduleUid],
        owner: CoordinatorId,
        decide: Callable[[Sequence[Held]], Sequence[Move]],
    ) -> tuple[list[Entry], set[ScheduleUid]]:
        async def work(run: Run) -> list[Row]:
            # In one order everywhere, so that two never wait for each other.
            locked = [_armed(r, r[3:]) for r in await run(_LOCK, {"uids": array(sorted(uids))})]
            moves = decide(await held(run, locked)) if locked else []
            return await run(MOVE, move_params(moves, owner)) if moves else []

        try:
            return moved(await self.db.fires.transact(work))
        except (pg.DataError, pg.IntegrityError) as error:
            raise Unwritable(str(error)) from error

    async def read_unfit(
        self, after: ScheduleUid | None, page: int, tzdata: str
    ) -> tuple[list[Armed], ScheduleUid | None]:
        params: dict[str, object] = {"after": after or _ZERO, "page": page}
        last, count = (await self.db.fires.run(_LAST_READ, params, write=False))[0]
        if not count:
            return [], None
        rows = await self.db.fires.run(_READ_UNFIT, params | {"tzdata": tzdata}, write=False)
        return [_armed(r, r[3:]) for r in rows], ScheduleUid(last) if count == page else None

    async def due_backfills(self, shards: Sequence[ShardNo], limit: int) -> list[DueBackfill]:
        rows = await self.db.fires.run(_DUE_BACKFILLS, {"shards": array(shards), "limit": limit}, write=False)
        return [
            DueBackfill(ScheduleUid(r[0]), TenantId(r[1]), ShardNo(r[2]), schedulerows.backfill(r[3:])) for r in rows
        ]


async def held(run: Run, locked: Sequence[Armed]) -> list[Held]:
    """The jobs and waiting occurrences of schedules whose timers are locked."""
    now = (await run(NOW, {}))[0][0]
    uids = array([each.uid for each in locked])
    running: dict[str, list[JobId]] = {}
    for uid, job in await run(RUNNING, {"uids": uids, "limit": limits.OVERLAP_LIMIT_MAX + 1}):
        running.setdefault(uid, []).append(JobId(job))
    waiting: dict[str, list[Waiting]] = {}
    buffered = [each.uid for each in locked if each.timer.buffered > 0]
    if buffered:
        for r in await run(
            WAITING, {"uids": array(buffered), "limit": limits.CATCH_UP_MAX_MAX + limits.BUFFER_DEFAULT}
        ):
            waiting.setdefault(r[0], []).append(_waiting(r))
    taken: dict[str, list[datetime]] = {}
    turned_back = [each for each in locked if is_turned_back(each.timer)]
    if turned_back:
        cursors = _micros([each.timer.cursor for each in turned_back])
        for uid, nominal in await run(TAKEN, {"uids": array([each.uid for each in turned_back]), "cursors": cursors}):
            taken.setdefault(uid, []).append(nominal)
    return [
        Held(
            each,
            tuple(running.get(each.uid, ())),
            tuple(waiting.get(each.uid, ())),
            now,
            frozenset(taken.get(each.uid, ())),
        )
        for each in locked
    ]


def moved(rows: Iterable[Row]) -> tuple[list[Entry], set[ScheduleUid]]:
    entries: list[Entry] = []
    uids: set[ScheduleUid] = set()
    for r in rows:
        if r[0] == 1:
            uids.add(ScheduleUid(r[2]))
        else:
            entries.append(entry(r[1:]))
    return entries, uids


def entry(r: Sequence[object]) -> Entry:
    """From the columns of ENTRY."""
    tenant, id, shard, queue, type, priority, due_us, size, start_by, key = r
    return Entry(
        TenantId(tenant),  # type: ignore[arg-type]
        JobId(id),  # type: ignore[arg-type]
        ShardNo(shard),  # type: ignore[arg-type]
        queue,  # type: ignore[arg-type]
        type,  # type: ignore[arg-type]
        priority,  # type: ignore[arg-type]
        due_us,  # type: ignore[arg-type]
        size + limits.LEASE_OVERHEAD_BYTES,  # type: ignore[operator]
        start_by,  # type: ignore[arg-type]
        key or "",  # type: ignore[arg-type]
    )


def move_params(moves: Sequence[Move], owner: CoordinatorId | None) -> Params:
    before = [m.armed.timer for m in moves]
    after = [m.step.timer for m in moves]
    records = [(m, record) for m in moves for record in m.step.records]
    payload = moves[0].payload if len(moves) == 1 else None
    return {
        "owner": owner,
        "uids": array([m.armed.uid for m in moves]),
        "versions": array([t.version for t in before]),
        "cursors": _micros([t.cursor for t in before]),
        "epochs": array([m.epoch for m in moves]),
        "new_versions": array([t.version for t in after]),
        "states": array([int(t.state) for t in after]),
        "reasons": text_array([t.state_reason for t in after]),
        "authors": text_array([t.state_author for t in after]),
        "new_cursors": _micros([t.cursor for t in after]),
        "nominals": _micros([t.next_nominal for t in after]),
        "dues": _micros([t.next_due for t in after]),
        "arms": _micros([t.arm_at for t in after]),
        "fired": array([b.fired - a.fired for a, b in zip(before, after, strict=True)]),
        "buffered": array([b.buffered - a.buffered for a, b in zip(before, after, strict=True)]),
        "counts": text_array(
            [array([y - x for x, y in zip(a.fates, b.fates, strict=True)]) for a, b in zip(before, after, strict=True)]
        ),
        "episodes": text_array([schedulerows.episode_json(t.episode) for t in after]),
        "paused": _micros([t.paused_at for t in after]),
        "lasts": _micros(
            [b.last_nominal if b.last_nominal != a.last_nominal else None for a, b in zip(before, after, strict=True)]
        ),
        "last_jobs": array(
            [b.last_job if b.last_job != a.last_job else None for a, b in zip(before, after, strict=True)]
        ),
        "failures": array(
            [b.failures if b.failures != a.failures else None for a, b in zip(before, after, strict=True)]
        ),
        "tzdata": text_array([t.tzdata for t in after]),
        "o_uids": array([m.armed.uid for m, _ in records]),
        "o_nominals": _micros([r.nominal for _, r in records]),
        "o_generations": array([r.generation for _, r in records]),
        "o_dues": _micros([r.due for _, r in records]),
        "o_origins": array([int(r.origin) for _, r in records]),
        "o_fates": array([int(r.fate) for _, r in records]),
        "o_locals": text_array([r.local for _, r in records]),
        "o_reasons": text_array([r.reason for _, r in records]),
        "o_jobs": array([r.job_id for _, r in records]),
        "o_blocking": array([r.blocking_job for _, r in records]),
        "o_backfills": array([r.backfill_id for _, r in records]),
        "o_counts": array([r.count for _, r in records]),
        "o_lasts": _micros([r.last for _, r in records]),
        "o_missed": array([r.missed or None for _, r in records]),
        "o_firsts": _micros([r.first_missed for _, r in records]),
        "o_forced": array([r.forced for _, r in records]),
        "extras": _extras(records),
        "payload": None if payload is None else payload.data,
        "content_type": None if payload is None else payload.content_type,
    }


def _extras(records: Sequence[tuple[Move, Record]]) -> str:
    """Priority and trace of the jobs that have one of their own, by id."""
    found: dict[str, tuple[int | None, str | None]] = {}
    for move, record in records:
        if record.job_id is not None:
            trace = move.traces.get(record.job_id)
            if trace or move.priority is not None:
                found[record.job_id] = (move.priority, trace or None)
    return json.dumps(found)


def _micros(instants: Sequence[datetime | None]) -> str:
    return array([None if at is None else codec.micros(at) for at in instants])


def _armed(r: Row, timer: Sequence[object]) -> Armed:
    return Armed(TenantId(r[0]), ScheduleUid(r[1]), ShardNo(r[2]), schedulerows.timer(timer))


def _waiting(r: Row) -> Waiting:
    return Waiting(
        nominal=r[1],
        generation=r[2],
        due=r[3],
        local=r[4],
        origin=Origin(r[5]),
        reason=r[6] or "",
        forced=r[7],
        backfill_id=r[8],
        missed=r[9] or 0,
        first_missed=r[10],
    )
