"""Reading schedules, their occurrences, backfills and calendars."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from rota.domain.ids import ScheduleUid, TenantId
from rota.domain.schedule import Backfill, Calendar, Calendars, Occurrence, Schedule, ScheduleState
from rota.store import codec, schedulerows
from rota.store.engine import Database, Run, array
from rota.store.fires import CALENDARS
from rota.store.scheduleport import OccurrenceFilter, ScheduleFilter, ScheduleTransaction
from rota.store.schedulewrites import PgScheduleTransaction

T = TypeVar("T")

# What was made ahead is what people call the next one, until its time has come.
_AHEAD = """
LEFT JOIN LATERAL (
    SELECT o.nominal_at, o.due_at FROM occurrences o
    WHERE o.schedule_uid = s.uid AND t.last_nominal > now() AND o.nominal_at > now() AND o.generation = 0 AND o.fate = 1
    ORDER BY o.nominal_at LIMIT 1
) o ON true
"""

_GET = f"""
SELECT {schedulerows.SCHEDULE}, {schedulerows.TIMER}, o.nominal_at, o.due_at, s.payload
FROM schedules s JOIN schedule_timers t ON t.uid = s.uid {_AHEAD}
WHERE s.tenant_id = %(tenant)s AND s.id = %(id)s
"""

# Filters that are unset cost a comparison each, and the order is that of the primary key.
_PAGE = f"""
SELECT {schedulerows.SCHEDULE}, {schedulerows.TIMER}, o.nominal_at, o.due_at
FROM schedules s JOIN schedule_timers t ON t.uid = s.uid {_AHEAD}
WHERE s.tenant_id = %(tenant)s AND s.id > %(after)s
  AND (%(state)t::smallint IS NULL OR t.state = %(state)t::smallint)
  AND (%(labels)s::jsonb IS NULL OR s.labels @> %(labels)s::jsonb)
  AND (%(type)s = '' OR s.type = %(type)s)
  AND (%(queue)s = '' OR s.queue = %(queue)s)
  AND (%(prefix)s = '' OR s.id COLLATE "C" LIKE %(prefix)s)
  AND (%(set)s::text IS NULL OR s.apply_set = %(set)s::text)
ORDER BY s.tenant_id, s.id LIMIT %(limit)s
"""

_UID = "SELECT uid::text FROM schedules WHERE tenant_id = %(tenant)s AND id = %(id)s"

_DELETED_UID = """
SELECT uid::text FROM deleted_schedules WHERE tenant_id = %(tenant)s AND id = %(id)s ORDER BY deleted_at DESC LIMIT 1
"""

_OCCURRENCES = f"""
SELECT {schedulerows.OCCURRENCE} FROM {{}} o
WHERE o.schedule_uid = %(uid)s::uuid
  AND (o.nominal_at, o.generation) < (%(before)s::timestamptz, %(generation)s::int)
  AND o.nominal_at >= %(start)s::timestamptz AND o.nominal_at < %(end)s::timestamptz
  AND (%(fate)t::smallint IS NULL OR o.fate = %(fate)t::smallint) {{}}
ORDER BY o.nominal_at DESC, o.generation DESC LIMIT %(limit)s
"""
_LEDGER = _OCCURRENCES.format("occurrences", "")
_KEPT = _OCCURRENCES.format("kept_occurrences", "AND o.tenant_id = %(tenant)s")

_BACKFILL = f"""
SELECT {schedulerows.BACKFILL} FROM backfills b WHERE b.id = %(id)s::uuid AND b.schedule_uid = %(uid)s::uuid
"""

_BACKFILLS = f"""
SELECT {schedulerows.BACKFILL} FROM backfills b
WHERE b.schedule_uid = %(uid)s::uuid AND (%(before)s::uuid IS NULL OR b.id < %(before)s::uuid)
ORDER BY b.id DESC LIMIT %(limit)s
"""

_CALENDAR = f"""
SELECT {schedulerows.CALENDAR}, c.dates FROM calendars c WHERE c.tenant_id = %(tenant)s AND c.id = %(id)s
"""

_CALENDAR_PAGE = f"""
SELECT {schedulerows.CALENDAR} FROM calendars c
WHERE c.tenant_id = %(tenant)s AND c.id > %(after)s AND (%(labels)s::jsonb IS NULL OR c.labels @> %(labels)s::jsonb)
ORDER BY c.tenant_id, c.id LIMIT %(limit)s
"""

_EVER = (datetime.fromisoformat("0001-01-02T00:00:00+00:00"), datetime.fromisoformat("9999-12-30T00:00:00+00:00"))


@dataclass(frozen=True, slots=True)
class PgSchedules:
    """ScheduleStore on PostgreSQL."""

    db: Database

    async def transact(self, work: Callable[[ScheduleTransaction], Awaitable[T]]) -> T:
        async def inside(run: Run) -> T:
            return await work(PgScheduleTransaction(run))

        return await self.db.fires.transact(inside)

    async def get(self, tenant: TenantId, id: str) -> Schedule | None:
        rows = await self.db.fires.run(_GET, {"tenant": tenant, "id": id}, write=False)
        return _schedule(rows[0], rows[0][-1]) if rows else None

    async def page(self, tenant: TenantId, where: ScheduleFilter, after: str, limit: int) -> list[Schedule]:
        params = {
            "tenant": tenant,
            "after": after,
            "state": None if where.state is None else int(where.state),
            "labels": codec.map_json(where.labels),
            "type": where.type,
            "queue": where.queue,
            "prefix": f"{_escaped(where.id_prefix)}%" if where.id_prefix else "",
            "set": where.apply_set,
            "limit": limit,
        }
        return [_schedule(r, b"") for r in await self.db.fires.run(_PAGE, params, write=False)]

    async def uid_of(self, tenant: TenantId, id: str) -> ScheduleUid | None:
        key = {"tenant": tenant, "id": id}
        for statement in (_UID, _DELETED_UID):
            rows = await self.db.fires.run(statement, key, write=False)
            if rows:
                return ScheduleUid(rows[0][0])
        return None

    async def occurrences(
        self,
        tenant: TenantId,
        uid: ScheduleUid,
        where: OccurrenceFilter,
        before: tuple[datetime, int] | None,
        limit: int,
    ) -> list[Occurrence]:
        params = {
            "tenant": tenant,
            "uid": uid,
            "before": before[0] if before else _EVER[1],
            "generation": before[1] if before else 0,
            "start": where.start or _EVER[0],
            "end": where.end or _EVER[1],
            "fate": None if where.fate is None else int(where.fate),
            "limit": limit,
        }
        # In this order: what is moved from the one to the other in between is read twice, and not never.
        read = [
            schedulerows.occurrence(r)
            for statement in (_LEDGER, _KEPT)
            for r in await self.db.fires.run(statement, params, write=False)
        ]
        found = {(each.nominal, each.generation): each for each in read}
        return [found[key] for key in sorted(found, reverse=True)[:limit]]

    async def backfill(self, uid: ScheduleUid, id: str) -> Backfill | None:
        rows = await self.db.fires.run(_BACKFILL, {"uid": uid, "id": id}, write=False)
        return schedulerows.backfill(rows[0]) if rows else None

    async def backfills(self, uid: ScheduleUid, before: str | None, limit: int) -> list[Backfill]:
        params = {"uid": uid, "before": before, "limit": limit}
        return [schedulerows.backfill(r) for r in await self.db.fires.run(_BACKFILLS, params, write=False)]

    async def calendars(self, tenant: TenantId, ids: Sequence[str]) -> Calendars:
        if not ids:
            return {}
        params = {"tenants": array([tenant] * len(ids)), "ids": list(ids)}
        rows = await self.db.fires.run(CALENDARS, params, write=False)
        return {id: schedulerows.date_set(dates) for _, id, dates in rows}

    async def calendar(self, tenant: TenantId, id: str) -> Calendar | None:
        rows = await self.db.fires.run(_CALENDAR, {"tenant": tenant, "id": id}, write=False)
        return schedulerows.calendar(rows[0], rows[0][-1]) if rows else None

    async def calendar_page(
        self, tenant: TenantId, labels: Mapping[str, str], after: str, limit: int
    ) -> list[Calendar]:
        params = {"tenant": tenant, "labels": codec.map_json(labels), "after": after, "limit": limit}
        return [schedulerows.calendar(r, ()) for r in await self.db.fires.run(_CALENDAR_PAGE, params, write=False)]


def _schedule(r: Sequence[Any], payload: bytes) -> Schedule:
    width = schedulerows.SCHEDULE_WIDTH
    end = width + schedulerows.TIMER_WIDTH
    moving = schedulerows.timer(r[width:end])
    nominal, due = r[end : end + 2]
    if nominal is not None and moving.state is ScheduleState.ACTIVE:
        moving = replace(moving, next_nominal=nominal, next_due=due)
    return schedulerows.schedule(tuple(r), moving, payload)


def _escaped(text: str) -> str:
    """For LIKE."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
