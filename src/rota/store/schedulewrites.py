"""Changing schedules: one statement for each thing that a change does, on rows whose timer is locked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import errors as pg

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
from rota.store import backfillwrites, calendarwrites, codec, requests, schedulerows, withdrawals
from rota.store.engine import Row, Run, array, by_key, text_array
from rota.store.fires import MOVE, NOW, held, move_params, moved
from rota.store.scheduleport import Armed, Held, Move, RequestKey, Withdrawn
from rota.store.taken import id_taken

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

_IN_SET = """
SELECT id FROM schedules WHERE tenant_id = %(tenant)s AND apply_set = %(apply_set)s ORDER BY id LIMIT %(limit)s
"""

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

_DELETE = (
    backfillwrites.CANCEL_ALL,
    calendarwrites.UNLINK,
    "DELETE FROM schedule_timers WHERE uid = %(uid)s::uuid",
    """
    INSERT INTO deleted_schedules (tenant_id, id, uid, deleted_at) VALUES (%(tenant)s, %(id)s, %(uid)s::uuid, now())
    """,
    "DELETE FROM schedules WHERE uid = %(uid)s::uuid",
)


@dataclass(frozen=True, slots=True)
class PgScheduleTransaction:
    """ScheduleTransaction on PostgreSQL."""

    run: Run

    async def earlier(self, tenant: TenantId, request: RequestKey, answer: Sequence[str]) -> tuple[str, ...] | None:
        return await requests.earlier(self.run, tenant, request, answer)

    async def lock(self, tenant: TenantId, id: str) -> tuple[Schedule, datetime] | None:
        key = {"tenant": tenant, "id": id}
        if not await self.run(_LOCK, key):
            return None
        rows = await self.run(_READ, key)
        return (_full(rows[0]), rows[0][-1]) if rows else None

    async def by_uid(self, tenant: TenantId, uids: Sequence[str]) -> list[Schedule]:
        found = {s.uid: s for s in map(_full, await self.run(_BY_UID, {"tenant": tenant, "uids": array(uids)}))}
        return [found[ScheduleUid(uid)] for uid in uids if uid in found]

    async def in_set(self, tenant: TenantId, apply_set: str, limit: int) -> list[str]:
        return [r[0] for r in await self.run(_IN_SET, {"tenant": tenant, "apply_set": apply_set, "limit": limit})]

    async def now(self) -> datetime:
        found: datetime = (await self.run(NOW, {}))[0][0]
        return found

    async def held(self, schedule: Schedule) -> Held:
        armed = Armed(schedule.tenant_id, schedule.uid, schedule.shard, schedule.timer)
        return (await held(self.run, [armed]))[0]

    async def calendars(self, tenant: TenantId, ids: Sequence[str]) -> Calendars:
        return await calendarwrites.hold(self.run, tenant, ids)

    async def create(self, schedules: Sequence[Schedule]) -> None:
        tenant = schedules[0].tenant_id
        try:
            await self.run(_CREATE, _create_params(tenant, schedules))
        except pg.UniqueViolation as error:
            raise id_taken("schedules", error) from error
        links = [(id, s.uid) for s in schedules for id in s.definition.timing.calendars]
        await calendarwrites.link(self.run, tenant, links)

    async def move(self, move: Move) -> list[Entry]:
        return moved(await self.run(MOVE, move_params([move], None)))[0]

    async def rewrite(self, schedule: Schedule) -> None:
        columns = _job_columns(schedule.definition)
        await self.run(_REWRITE, columns | {"uid": schedule.uid, "set": schedule.apply_set})
        await self.run(_PAUSE_AFTER, {"uid": schedule.uid, "pause_after": schedule.definition.pause_after_failures})
        await self.run(calendarwrites.UNLINK, {"uid": schedule.uid})
        links = [(id, schedule.uid) for id in schedule.definition.timing.calendars]
        await calendarwrites.link(self.run, schedule.tenant_id, links)

    async def withdraw(
        self, uids: Sequence[ScheduleUid], split: datetime, fate_before: Fate | None, *, all_jobs: bool = False
    ) -> dict[ScheduleUid, Withdrawn]:
        return await withdrawals.withdraw(self.run, uids, split, fate_before, all_jobs=all_jobs)

    async def remake(self, schedule: Schedule, until: datetime | None) -> list[Entry]:
        return await withdrawals.remake(self.run, schedule, until)

    async def end_waiting(self, uid: ScheduleUid, fate: Fate, *, rule_only: bool) -> int:
        return await withdrawals.end_waiting(self.run, uid, fate, rule_only=rule_only)

    async def restore(self, uid: ScheduleUid, after: datetime) -> dict[Fate, int]:
        return await withdrawals.restore(self.run, uid, after)

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
        return await backfillwrites.running(self.run, uid)

    async def add_backfill(self, schedule: Schedule, backfill: Backfill) -> None:
        await backfillwrites.add(self.run, schedule, backfill)

    async def lock_backfill(self, uid: ScheduleUid, id: str) -> Backfill | None:
        return await backfillwrites.lock(self.run, uid, id)

    async def save_backfill(self, backfill: Backfill, wait_s: float) -> None:
        await backfillwrites.save(self.run, backfill, wait_s)

    async def delete(self, schedule: Schedule) -> None:
        for statement in _DELETE:
            names = {"uid": schedule.uid, "tenant": schedule.tenant_id, "id": schedule.id}
            await self.run(statement, {name: value for name, value in names.items() if f"%({name})s" in statement})

    async def lock_calendar(self, tenant: TenantId, id: str) -> Calendar | None:
        return await calendarwrites.lock(self.run, tenant, id)

    async def create_calendar(self, tenant: TenantId, calendar: Calendar) -> None:
        await calendarwrites.create(self.run, tenant, calendar)

    async def rewrite_calendar(self, tenant: TenantId, calendar: Calendar) -> None:
        await calendarwrites.rewrite(self.run, tenant, calendar)

    async def delete_calendar(self, tenant: TenantId, id: str) -> None:
        await calendarwrites.delete(self.run, tenant, id)

    async def lock_naming(self, tenant: TenantId, calendar: str, limit: int) -> list[ScheduleUid]:
        return await calendarwrites.lock_naming(self.run, tenant, calendar, limit)

    async def reset(self, withdrawn: Mapping[ScheduleUid, Withdrawn], now: datetime) -> None:
        await withdrawals.reset(self.run, withdrawn, now)


def _full(r: Row) -> Schedule:
    width = schedulerows.SCHEDULE_WIDTH
    payload = width + schedulerows.TIMER_WIDTH
    return schedulerows.schedule(r, schedulerows.timer(r[width:payload]), r[payload])


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
