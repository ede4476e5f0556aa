"""Changing schedules: one statement for each thing that a change does, on rows whose timer is locked."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import errors as pg

from rota.domain.errors import AlreadyExists
from rota.domain.fairness import Entry
from rota.domain.ids import ScheduleUid, TenantId
from rota.domain.schedule import (
    Backfill,
    Calendar,
    Calendars,
    Definition,
    Fate,
    Occurrence,
    Schedule,
)
from rota.store import codec, schedulerows
from rota.store.engine import Row, Run, array, by_key, text_array
from rota.store.fires import CALENDARS, ENTRY, MOVE, NOW, entry, held, move_params, moved
from rota.store.scheduleport import Armed, Held, Move, RequestKey, Withdrawn

_CLAIM_REQUEST = """
INSERT INTO requests (tenant_id, method, request_id, digest, answer)
VALUES (%(tenant)s, %(method)s, %(request_id)s, %(digest)s, %(answer)s::uuid[])
ON CONFLICT DO NOTHING RETURNING 1
"""

_EARLIER = """
SELECT digest, answer::text[] FROM requests
WHERE tenant_id = %(tenant)s AND method = %(method)s AND request_id = %(request_id)s
"""

_LOCK = """
SELECT t.uid FROM schedules s JOIN schedule_timers t ON t.uid = s.uid
WHERE s.tenant_id = %(tenant)s AND s.id = %(id)s
FOR UPDATE OF t
"""

# Read after the lock was won, in a statement of its own: one that waited for the lock would show what was before.
_READ = f"""
SELECT {schedulerows.SCHEDULE}, {schedulerows.TIMER}, s.payload, clock_timestamp()
FROM schedules s JOIN schedule_timers t ON t.uid = s.uid
WHERE s.tenant_id = %(tenant)s AND s.id = %(id)s
"""

_BY_UID = f"""
SELECT {schedulerows.SCHEDULE}, {schedulerows.TIMER}, s.payload
FROM unnest(%(uids)t::uuid[]) AS u (uid)
JOIN schedules s ON {by_key("s", "u", ["uid"])}
JOIN schedule_timers t ON {by_key("t", "u", ["uid"])}
WHERE s.tenant_id = %(tenant)s
"""

_NAMES = """
SELECT s.id FROM unnest(%(ids)s::text[]) AS w (id)
CROSS JOIN LATERAL (SELECT s.id FROM schedules s WHERE s.tenant_id = %(tenant)s AND s.id = w.id LIMIT 1) s
"""

_IN_SET = """
SELECT id FROM schedules WHERE tenant_id = %(tenant)s AND apply_set = %(apply_set)s ORDER BY id LIMIT %(limit)s
"""

_CALENDARS_HELD = f"{CALENDARS} FOR SHARE OF c"

_CREATE = """
WITH d AS (
    SELECT * FROM unnest(
        %(uids)t::uuid[], %(ids)s::text[], %(shards)t::smallint[], %(definitions)s::text[], %(labels)s::text[],
        %(types)s::text[], %(queues)s::text[], %(priorities)t::smallint[], %(max_attempts)t::int[],
        %(run_timeouts)t::bigint[], %(start_bys)t::float8[], %(totals)t::float8[], %(content_types)s::text[],
        %(payloads)b::bytea[], %(headers)s::text[], %(job_labels)s::text[], %(options)s::text[],
        %(concurrency_keys)s::text[], %(sets)s::text[], %(traceparents)s::text[], %(created)t::bigint[],
        %(states)t::smallint[], %(reasons)s::text[], %(authors)s::text[], %(cursors)t::bigint[],
        %(nominals)t::bigint[], %(dues)t::bigint[], %(arms)t::bigint[], %(paused)t::bigint[],
        %(pause_afters)t::int[], %(tzdata)s::text[])
    AS d (uid, id, shard, definition, labels, type, queue, priority, max_attempts, run_timeout_ms, start_by_s, total_s,
          content_type, payload, headers, job_labels, options, concurrency_key, apply_set, traceparent, created_us,
          state, reason, author, cursor_us, nominal_us, due_us, arm_us, paused_us, pause_after, tzdata)
), made AS (
    INSERT INTO schedules (
        tenant_id, id, uid, shard, definition, labels, type, queue, priority, max_attempts, run_timeout_ms, start_by_s,
        total_s, content_type, payload, headers, job_labels, options, concurrency_key, apply_set, traceparent,
        created_at, updated_at)
    SELECT %(tenant)s, id, uid, shard, definition::jsonb, labels::jsonb, type, queue, priority, max_attempts,
           run_timeout_ms, start_by_s, total_s, content_type, payload, headers::jsonb, job_labels::jsonb,
           options::jsonb, nullif(concurrency_key, ''), nullif(apply_set, ''), nullif(traceparent, ''),
           {created}, {created}
    FROM d
)
INSERT INTO schedule_timers (
    uid, tenant_id, shard, version, state, cursor_at, next_nominal, next_due, arm_at, fired, buffered, failures,
    pause_after, fates, paused_at, state_reason, state_author, state_at, tzdata)
SELECT uid, %(tenant)s, shard, 1, state, {cursor}, {nominal}, {due}, {arm}, 0, 0, 0, pause_after,
       array_fill(0::bigint, ARRAY[%(fates)s]), {paused}, nullif(reason, ''), nullif(author, ''), {created}, tzdata
FROM d
""".format(
    **{
        name: f"timestamptz 'epoch' + {name}_us * interval '1 microsecond'"
        for name in ("created", "cursor", "nominal", "due", "arm", "paused")
    }
)

_LINK = """
INSERT INTO schedule_calendars (tenant_id, calendar_id, schedule_uid)
SELECT %(tenant)s, l.calendar_id, l.uid FROM unnest(%(calendars)s::text[], %(uids)t::uuid[]) AS l (calendar_id, uid)
ON CONFLICT DO NOTHING
"""

_UNLINK = "DELETE FROM schedule_calendars WHERE schedule_uid = %(uid)s::uuid"

_REWRITE = """
UPDATE schedules
SET definition = %(definition)s::jsonb, labels = %(labels)s::jsonb, type = %(type)s, queue = %(queue)s,
    priority = %(priority)s, max_attempts = %(max_attempts)s, run_timeout_ms = %(run_timeout)s,
    start_by_s = %(start_by)s::float8, total_s = %(total)s::float8, content_type = %(content_type)s,
    payload = %(payload)s, headers = %(headers)s::jsonb, job_labels = %(job_labels)s::jsonb,
    options = %(options)s::jsonb, concurrency_key = nullif(%(concurrency_key)s, ''),
    apply_set = nullif(%(set)s, ''), updated_at = now()
WHERE uid = %(uid)s::uuid
"""

_PAUSE_AFTER = "UPDATE schedule_timers SET pause_after = %(pause_after)s WHERE uid = %(uid)s::uuid"

# A job has not started while it was never leased. One whose claim commits first is seen as leased, and stays.
_WITHDRAW = """
WITH gone AS (
    DELETE FROM jobs j USING unnest(%(uids)t::uuid[]) AS u (uid)
    WHERE j.schedule_uid = u.uid AND j.schedule_uid IS NOT NULL AND j.state = 1 AND j.attempt = 0
      AND (%(all)t::boolean OR j.occurrence_generation = 0)
      AND (%(before)t::smallint IS NOT NULL
           OR j.nominal_at > timestamptz 'epoch' + %(split)t * interval '1 microsecond')
    RETURNING j.schedule_uid, j.nominal_at, j.occurrence_generation,
              j.nominal_at > timestamptz 'epoch' + %(split)t * interval '1 microsecond' AS later
), fates AS (
    UPDATE occurrences o
    SET fate = CASE WHEN g.later THEN 10 ELSE %(before)t::smallint END, job_id = NULL, recorded_at = now()
    FROM gone g
    WHERE o.schedule_uid = g.schedule_uid AND o.nominal_at = g.nominal_at AND o.generation = g.occurrence_generation
)
SELECT schedule_uid::text, count(*) FILTER (WHERE NOT later), count(*) FILTER (WHERE later) FROM gone GROUP BY 1
"""

# Jobs that the coordinator's memory knows by queue, type and priority get another id, so that what it knows is of no
# use any more. The id's last two digits hold its shard, its first the time.
_REMAKE = f"""
WITH anew AS (
    UPDATE jobs j
    SET id = (left(j.id::text, 24) || left(md5(random()::text || j.id::text), 10) || right(j.id::text, 2))::uuid,
        priority = d.priority, max_attempts = d.max_attempts, run_timeout_ms = d.run_timeout_ms,
        start_by = j.due_at + d.start_by_s * interval '1 second',
        deadline_at = j.due_at + d.total_s * interval '1 second', type = d.type, queue = d.queue,
        content_type = d.content_type, payload = d.payload,
        headers = CASE WHEN j.headers ? 'rota-missed-count'
                       THEN coalesce(d.headers, '{{}}'::jsonb) || jsonb_build_object(
                           'rota-missed-count', j.headers -> 'rota-missed-count',
                           'rota-first-missed-time', j.headers -> 'rota-first-missed-time')
                       ELSE d.headers END,
        labels = d.job_labels, options = d.options, concurrency_key = d.concurrency_key, schedule_version = %(version)s
    FROM schedules d
    WHERE d.uid = %(uid)s::uuid AND j.schedule_uid = %(uid)s::uuid AND j.schedule_uid IS NOT NULL
      AND j.state = 1 AND j.attempt = 0 AND j.occurrence_generation = 0
      AND (%(until)t::bigint IS NULL
           OR j.nominal_at <= timestamptz 'epoch' + %(until)t::bigint * interval '1 microsecond')
    RETURNING j.*
), ledger AS (
    UPDATE occurrences o SET job_id = a.id, version = a.schedule_version
    FROM anew a
    WHERE o.schedule_uid = a.schedule_uid AND o.nominal_at = a.nominal_at AND o.generation = 0
)
SELECT {ENTRY} FROM anew
"""

_END_WAITING = """
UPDATE occurrences o SET fate = %(fate)s, recorded_at = now(), reason = NULL
WHERE o.schedule_uid = %(uid)s::uuid AND o.fate = 2 AND (NOT %(rule_only)s OR o.origin IN (1, 2))
RETURNING 1
"""

_RESTORE = """
DELETE FROM occurrences o
WHERE o.schedule_uid = %(uid)s::uuid AND o.generation = 0 AND o.fate = 8
  AND o.nominal_at > timestamptz 'epoch' + %(after)s::bigint * interval '1 microsecond'
RETURNING o.count
"""

_GENERATION = """
SELECT greatest(coalesce(max(generation), 0) + 1, 1) FROM occurrences
WHERE schedule_uid = %(uid)s::uuid AND nominal_at = timestamptz 'epoch' + %(nominal)s::bigint * interval '1 microsecond'
"""

_OCCURRENCE = f"""
SELECT {schedulerows.OCCURRENCE} FROM occurrences o
WHERE o.schedule_uid = %(uid)s::uuid AND o.generation = %(generation)s
  AND o.nominal_at = timestamptz 'epoch' + %(nominal)s::bigint * interval '1 microsecond'
"""

_FIRED = """
SELECT DISTINCT nominal_at FROM occurrences
WHERE schedule_uid = %(uid)s::uuid AND fate IN (1, 2)
  AND nominal_at > timestamptz 'epoch' + %(after)s::bigint * interval '1 microsecond'
  AND nominal_at <= timestamptz 'epoch' + %(until)s::bigint * interval '1 microsecond'
"""

_RUNNING_BACKFILLS = "SELECT count(*) FROM backfills WHERE schedule_uid = %(uid)s::uuid AND state = 1"

_ADD_BACKFILL = """
INSERT INTO backfills (
    id, schedule_uid, tenant_id, shard, start_at, end_at, include_fired, rate, overlap_mode, overlap_limit, priority,
    reason, state, cursor_at, next_nominal, next_at, total, done, fired, author, created_at, finished_at)
VALUES (
    %(id)s::uuid, %(uid)s::uuid, %(tenant)s, %(shard)s, %(start)s, %(end)s, %(include_fired)s, %(rate)s, %(mode)s,
    %(limit)s, %(priority)s, %(reason)s, %(state)s, %(cursor)s, %(next_nominal)s, now(), %(total)s, %(done)s, %(fired)s,
    %(author)s, now(), CASE WHEN %(state)s <> 1 THEN now() END)
"""

_LOCK_BACKFILL = f"""
SELECT {schedulerows.BACKFILL} FROM backfills b WHERE b.id = %(id)s::uuid AND b.schedule_uid = %(uid)s::uuid FOR UPDATE
"""

# Counted from when it was due, so that a late look does not slow it down; but no more than two seconds' worth.
_SAVE_BACKFILL = """
UPDATE backfills
SET state = %(state)s, cursor_at = %(cursor)s, next_nominal = %(next_nominal)s, done = %(done)s, fired = %(fired)s,
    next_at = greatest(next_at, now() - interval '2 seconds') + %(wait_s)s::float8 * interval '1 second',
    finished_at = CASE WHEN %(state)s <> 1 THEN coalesce(finished_at, now()) END
WHERE id = %(id)s::uuid
"""

_DELETE = (
    "UPDATE backfills SET state = 3, finished_at = now() WHERE schedule_uid = %(uid)s::uuid AND state = 1",
    _UNLINK,
    "DELETE FROM schedule_timers WHERE uid = %(uid)s::uuid",
    """
    INSERT INTO deleted_schedules (tenant_id, id, uid, deleted_at) VALUES (%(tenant)s, %(id)s, %(uid)s::uuid, now())
    """,
    "DELETE FROM schedules WHERE uid = %(uid)s::uuid",
)

_LOCK_CALENDAR = f"""
SELECT {schedulerows.CALENDAR}, c.dates FROM calendars c WHERE c.tenant_id = %(tenant)s AND c.id = %(id)s FOR UPDATE
"""

_CREATE_CALENDAR = """
INSERT INTO calendars (tenant_id, id, uid, version, dates, notes, labels, created_at, updated_at)
VALUES (%(tenant)s, %(id)s, %(uid)s::uuid, 1, %(dates)s, %(notes)s, %(labels)s::jsonb, now(), now())
"""

_REWRITE_CALENDAR = """
UPDATE calendars
SET version = version + 1, dates = %(dates)s, notes = %(notes)s, labels = %(labels)s::jsonb, updated_at = now()
WHERE tenant_id = %(tenant)s AND id = %(id)s
"""

_DELETE_CALENDAR = "DELETE FROM calendars WHERE tenant_id = %(tenant)s AND id = %(id)s"

# In the order of the index, so that two never wait for each other.
_LOCK_NAMING = """
SELECT t.uid::text FROM schedule_calendars l JOIN schedule_timers t ON t.uid = l.schedule_uid
WHERE l.tenant_id = %(tenant)s AND l.calendar_id = %(calendar)s
ORDER BY l.tenant_id, l.calendar_id, l.schedule_uid LIMIT %(limit)s
FOR UPDATE OF t
"""

_AHEAD = """
SELECT u.uid::text, o.ahead
FROM unnest(%(uids)t::uuid[]) AS u (uid)
CROSS JOIN LATERAL (
    SELECT count(*) AS ahead FROM occurrences o
    WHERE o.schedule_uid = u.uid AND o.generation = 0 AND o.fate = 1
      AND o.nominal_at > timestamptz 'epoch' + %(split)s::bigint * interval '1 microsecond'
) o
WHERE o.ahead > 0
"""

_UNEXCLUDE = """
UPDATE occurrences o SET fate = 10, recorded_at = now()
FROM unnest(%(uids)t::uuid[]) AS u (uid)
WHERE o.schedule_uid = u.uid AND o.generation = 0 AND o.fate = 9
  AND o.nominal_at > timestamptz 'epoch' + %(split)s::bigint * interval '1 microsecond'
RETURNING u.uid::text
"""

# Where nothing is overdue, all since the cursor was excluded by the calendar as it was.
_RESET = """
UPDATE schedule_timers t
SET version = t.version + 1, cursor_at = least(t.cursor_at, r.now), arm_at = now(), next_nominal = NULL,
    next_due = NULL,
    episode = CASE WHEN t.next_nominal > r.now AND t.state = 1 THEN jsonb_build_object(
        'until', to_char(r.now AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"'),
        'policy', '[2, 60, 86400, 100]'::jsonb, 'cutoff', NULL, 'first', NULL, 'count', 0, 'fate', 9)
        ELSE t.episode END,
    fired = t.fired - r.fired, fates[1] = t.fates[1] - r.fired, fates[9] = t.fates[9] - r.excluded
FROM (SELECT r.*, timestamptz 'epoch' + %(now)s::bigint * interval '1 microsecond' AS now
      FROM unnest(%(uids)t::uuid[], %(fired)t::bigint[], %(excluded)t::bigint[]) AS r (uid, fired, excluded)) r
WHERE t.uid = ANY (ARRAY[r.uid]) AND t.state IN (1, 2)
"""


@dataclass(frozen=True, slots=True)
class PgScheduleTransaction:
    """ScheduleTransaction on PostgreSQL."""

    run: Run

    async def earlier(self, tenant: TenantId, request: RequestKey, answer: Sequence[str]) -> tuple[str, ...] | None:
        key: dict[str, object] = {"tenant": tenant, "method": request.method, "request_id": request.request_id}
        taken = await self.run(_CLAIM_REQUEST, key | {"digest": request.digest, "answer": array(answer)})
        if taken:
            return None
        digest, found = (await self.run(_EARLIER, key))[0]
        if bytes(digest) != request.digest:
            raise AlreadyExists(
                f"request_id: {request.request_id!r} stands for another request; make a fresh one for each call",
                reason="REQUEST_ID_REUSED",
            )
        return tuple(found)

    async def lock(self, tenant: TenantId, id: str) -> tuple[Schedule, datetime] | None:
        key = {"tenant": tenant, "id": id}
        if not await self.run(_LOCK, key):
            return None
        rows = await self.run(_READ, key)
        return (_full(rows[0]), rows[0][-1]) if rows else None

    async def by_uid(self, tenant: TenantId, uids: Sequence[str]) -> list[Schedule]:
        found = {s.uid: s for s in map(_full, await self.run(_BY_UID, {"tenant": tenant, "uids": array(uids)}))}
        return [found[ScheduleUid(uid)] for uid in uids if uid in found]

    async def names(self, tenant: TenantId, ids: Sequence[str]) -> set[str]:
        return {row[0] for row in await self.run(_NAMES, {"tenant": tenant, "ids": list(ids)})}

    async def in_set(self, tenant: TenantId, apply_set: str, limit: int) -> list[str]:
        return [r[0] for r in await self.run(_IN_SET, {"tenant": tenant, "apply_set": apply_set, "limit": limit})]

    async def now(self) -> datetime:
        found: datetime = (await self.run(NOW, {}))[0][0]
        return found

    async def held(self, schedule: Schedule) -> Held:
        armed = Armed(schedule.tenant_id, schedule.uid, schedule.shard, schedule.timer)
        return (await held(self.run, [armed]))[0]

    async def calendars(self, tenant: TenantId, ids: Sequence[str]) -> Calendars:
        if not ids:
            return {}
        wanted = sorted(set(ids))
        rows = await self.run(_CALENDARS_HELD, {"tenants": array([tenant] * len(wanted)), "ids": wanted})
        return {id: schedulerows.date_set(dates) for _, id, dates in rows}

    async def create(self, schedules: Sequence[Schedule]) -> None:
        tenant = schedules[0].tenant_id
        try:
            await self.run(_CREATE, _create_params(tenant, schedules))
        except pg.UniqueViolation as error:
            raise AlreadyExists(_taken("schedules", error)) from error
        links = [(id, s.uid) for s in schedules for id in s.definition.timing.calendars]
        if links:
            await self._link(tenant, links)

    async def move(self, move: Move) -> list[Entry]:
        return moved(await self.run(MOVE, move_params([move], None)))[0]

    async def rewrite(self, schedule: Schedule) -> None:
        columns = _job_columns(schedule.definition)
        await self.run(_REWRITE, columns | {"uid": schedule.uid, "set": schedule.apply_set})
        await self.run(_PAUSE_AFTER, {"uid": schedule.uid, "pause_after": schedule.definition.pause_after_failures})
        await self.run(_UNLINK, {"uid": schedule.uid})
        await self._link(schedule.tenant_id, [(id, schedule.uid) for id in schedule.definition.timing.calendars])

    async def withdraw(
        self, uids: Sequence[ScheduleUid], split: datetime, fate_before: Fate | None, *, all_jobs: bool = False
    ) -> dict[ScheduleUid, Withdrawn]:
        params = {
            "uids": array(uids),
            "split": codec.micros(split),
            "before": None if fate_before is None else int(fate_before),
            "all": all_jobs,
        }
        gone = {uid: (before, after) for uid, before, after in await self.run(_WITHDRAW, params)}
        left: dict[str, int] = dict(await self.run(_AHEAD, {"uids": array(uids), "split": codec.micros(split)}))
        excluded = Counter(
            r[0] for r in await self.run(_UNEXCLUDE, {"uids": array(uids), "split": codec.micros(split)})
        )
        found: dict[ScheduleUid, Withdrawn] = {}
        for uid in uids:
            before, after = gone.get(uid, (0, 0))
            found[uid] = Withdrawn(before, after, after + left.get(uid, 0), excluded[uid])
        return found

    async def remake(self, schedule: Schedule, until: datetime | None) -> list[Entry]:
        params = {
            "uid": schedule.uid,
            "version": schedule.timer.version,
            "until": None if until is None else codec.micros(until),
        }
        return [entry(r) for r in await self.run(_REMAKE, params)]

    async def end_waiting(self, uid: ScheduleUid, fate: Fate, *, rule_only: bool) -> int:
        return len(await self.run(_END_WAITING, {"uid": uid, "fate": int(fate), "rule_only": rule_only}))

    async def restore(self, uid: ScheduleUid, after: datetime) -> int:
        rows = await self.run(_RESTORE, {"uid": uid, "after": codec.micros(after)})
        return sum(count for (count,) in rows)

    async def generation(self, uid: ScheduleUid, nominal: datetime) -> int:
        found: int = (await self.run(_GENERATION, {"uid": uid, "nominal": codec.micros(nominal)}))[0][0]
        return found

    async def occurrence(self, uid: ScheduleUid, nominal: datetime, generation: int) -> Occurrence | None:
        key = {"uid": uid, "nominal": codec.micros(nominal), "generation": generation}
        rows = await self.run(_OCCURRENCE, key)
        return schedulerows.occurrence(rows[0]) if rows else None

    async def fired(self, uid: ScheduleUid, after: datetime, until: datetime) -> set[datetime]:
        params = {"uid": uid, "after": codec.micros(after), "until": codec.micros(until)}
        return {row[0] for row in await self.run(_FIRED, params)}

    async def running_backfills(self, uid: ScheduleUid) -> int:
        found: int = (await self.run(_RUNNING_BACKFILLS, {"uid": uid}))[0][0]
        return found

    async def add_backfill(self, schedule: Schedule, backfill: Backfill) -> None:
        overlap = backfill.overlap
        await self.run(
            _ADD_BACKFILL,
            {
                "id": backfill.id,
                "uid": schedule.uid,
                "tenant": schedule.tenant_id,
                "shard": schedule.shard,
                "start": backfill.start,
                "end": backfill.end,
                "include_fired": backfill.include_fired,
                "rate": backfill.rate,
                "mode": None if overlap is None else int(overlap.mode),
                "limit": None if overlap is None else overlap.limit,
                "priority": backfill.priority,
                "reason": backfill.reason,
                "author": backfill.author,
                "total": backfill.total,
                **_progress(backfill),
            },
        )

    async def lock_backfill(self, uid: ScheduleUid, id: str) -> Backfill | None:
        rows = await self.run(_LOCK_BACKFILL, {"uid": uid, "id": id})
        return schedulerows.backfill(rows[0]) if rows else None

    async def save_backfill(self, backfill: Backfill, wait_s: float) -> None:
        await self.run(_SAVE_BACKFILL, {"id": backfill.id, "wait_s": wait_s, **_progress(backfill)})

    async def delete(self, schedule: Schedule) -> None:
        for statement in _DELETE:
            names = {"uid": schedule.uid, "tenant": schedule.tenant_id, "id": schedule.id}
            await self.run(statement, {name: value for name, value in names.items() if f"%({name})s" in statement})

    async def lock_calendar(self, tenant: TenantId, id: str) -> Calendar | None:
        rows = await self.run(_LOCK_CALENDAR, {"tenant": tenant, "id": id})
        return schedulerows.calendar(rows[0], rows[0][-1]) if rows else None

    async def create_calendar(self, tenant: TenantId, calendar: Calendar) -> None:
        try:
            await self.run(_CREATE_CALENDAR, _calendar_params(tenant, calendar) | {"uid": calendar.uid})
        except pg.UniqueViolation as error:
            raise AlreadyExists(_taken("calendars", error)) from error

    async def rewrite_calendar(self, tenant: TenantId, calendar: Calendar) -> None:
        await self.run(_REWRITE_CALENDAR, _calendar_params(tenant, calendar))

    async def delete_calendar(self, tenant: TenantId, id: str) -> None:
        await self.run(_DELETE_CALENDAR, {"tenant": tenant, "id": id})

    async def lock_naming(self, tenant: TenantId, calendar: str, limit: int) -> list[ScheduleUid]:
        params = {"tenant": tenant, "calendar": calendar, "limit": limit}
        return [ScheduleUid(uid) for (uid,) in await self.run(_LOCK_NAMING, params)]

    async def reset(self, withdrawn: Mapping[ScheduleUid, Withdrawn], now: datetime) -> None:
        uids = sorted(withdrawn)
        await self.run(
            _RESET,
            {
                "uids": array(uids),
                "fired": array([withdrawn[uid].fired for uid in uids]),
                "excluded": array([withdrawn[uid].excluded for uid in uids]),
                "now": codec.micros(now),
            },
        )

    async def _link(self, tenant: TenantId, links: Sequence[tuple[str, ScheduleUid]]) -> None:
        if links:
            params = {"tenant": tenant, "calendars": [id for id, _ in links], "uids": array([uid for _, uid in links])}
            await self.run(_LINK, params)


def _full(r: Row) -> Schedule:
    width = schedulerows.SCHEDULE_WIDTH
    payload = width + schedulerows.TIMER_WIDTH
    return schedulerows.schedule(r, schedulerows.timer(r[width:payload]), r[payload])


def _taken(collection: str, error: pg.UniqueViolation) -> str:
    detail = error.diag.message_detail or ""
    id = detail.partition(")=(")[2].partition(")")[0].partition(", ")[2]
    return f"{collection}/{id}: exists already; choose another id, or change the one that is there"


def _job_columns(definition: Definition) -> dict[str, Any]:
    job = definition.job
    return {
        "definition": schedulerows.definition_json(definition),
        "labels": codec.map_json(definition.labels),
        "type": job.type,
        "queue": job.queue,
        "priority": job.priority,
        "max_attempts": job.retry.max_attempts,
        "run_timeout": round(job.timeouts.run_s * 1000),
        "start_by": job.timeouts.start_by_s,
        "total": job.timeouts.total_s,
        "content_type": job.payload.content_type,
        "payload": job.payload.data,
        "headers": codec.map_json(job.headers),
        "job_labels": codec.map_json(job.labels),
        "options": codec.options_json(job.retry, job.timeouts),
        "concurrency_key": job.concurrency_key,
    }


def _create_params(tenant: TenantId, schedules: Sequence[Schedule]) -> dict[str, object]:
    columns = [_job_columns(s.definition) for s in schedules]
    timers = [s.timer for s in schedules]

    def instants(values: Sequence[datetime | None]) -> str:
        return array([None if at is None else codec.micros(at) for at in values])

    return {
        "tenant": tenant,
        "fates": len(Fate),
        "uids": array([s.uid for s in schedules]),
        "ids": text_array([s.id for s in schedules]),
        "shards": array([s.shard for s in schedules]),
        "definitions": text_array([c["definition"] for c in columns]),
        "labels": text_array([c["labels"] for c in columns]),
        "types": text_array([c["type"] for c in columns]),
        "queues": text_array([c["queue"] for c in columns]),
        "priorities": array([c["priority"] for c in columns]),
        "max_attempts": array([c["max_attempts"] for c in columns]),
        "run_timeouts": array([c["run_timeout"] for c in columns]),
        "start_bys": array([c["start_by"] for c in columns]),
        "totals": array([c["total"] for c in columns]),
        "content_types": text_array([c["content_type"] for c in columns]),
        "payloads": [c["payload"] for c in columns],
        "headers": text_array([c["headers"] for c in columns]),
        "job_labels": text_array([c["job_labels"] for c in columns]),
        "options": text_array([c["options"] for c in columns]),
        "concurrency_keys": text_array([c["concurrency_key"] for c in columns]),
        "sets": text_array([s.apply_set for s in schedules]),
        "traceparents": text_array([s.traceparent for s in schedules]),
        "created": instants([s.created_at for s in schedules]),
        "states": array([int(t.state) for t in timers]),
        "reasons": text_array([t.state_reason for t in timers]),
        "authors": text_array([t.state_author for t in timers]),
        "cursors": instants([t.cursor for t in timers]),
        "nominals": instants([t.next_nominal for t in timers]),
        "dues": instants([t.next_due for t in timers]),
        "arms": instants([t.arm_at for t in timers]),
        "paused": instants([t.paused_at for t in timers]),
        "pause_afters": array([s.definition.pause_after_failures for s in schedules]),
        "tzdata": text_array([t.tzdata for t in timers]),
    }


def _progress(backfill: Backfill) -> dict[str, object]:
    return {
        "state": int(backfill.state),
        "cursor": backfill.cursor,
        "next_nominal": backfill.next_nominal,
        "done": backfill.done,
        "fired": backfill.fired,
    }


def _calendar_params(tenant: TenantId, calendar: Calendar) -> dict[str, object]:
    return {
        "tenant": tenant,
        "id": calendar.id,
        "dates": list(calendar.dates),
        "notes": calendar.notes,
        "labels": codec.map_json(calendar.labels),
    }
