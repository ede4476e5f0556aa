"""Changing calendars, and which schedules name them, in a transaction whose statements `run` runs."""

from collections.abc import Sequence

from psycopg import errors as pg

from rota.domain.ids import ScheduleUid, TenantId
from rota.domain.schedule import Calendar, Calendars
from rota.store import codec, schedulerows
from rota.store.engine import Run, array
from rota.store.fires import CALENDARS
from rota.store.taken import id_taken

_HELD = f"{CALENDARS} FOR SHARE OF c"

_LOCK = f"""
SELECT {schedulerows.CALENDAR}, c.dates FROM calendars c WHERE c.tenant_id = %(tenant)s AND c.id = %(id)s FOR UPDATE
"""

_CREATE = """
INSERT INTO calendars (tenant_id, id, uid, version, dates, notes, labels, created_at, updated_at)
VALUES (%(tenant)s, %(id)s, %(uid)s::uuid, 1, %(dates)s, %(notes)s, %(labels)s::jsonb, now(), now())
"""

_REWRITE = """
UPDATE calendars
SET version = version + 1, dates = %(dates)s, notes = %(notes)s, labels = %(labels)s::jsonb, updated_at = now()
WHERE tenant_id = %(tenant)s AND id = %(id)s
"""

_DELETE = "DELETE FROM calendars WHERE tenant_id = %(tenant)s AND id = %(id)s"

_LINK = """
INSERT INTO schedule_calendars (tenant_id, calendar_id, schedule_uid)
SELECT %(tenant)s, l.calendar_id, l.uid FROM unnest(%(calendars)s::text[], %(uids)t::uuid[]) AS l (calendar_id, uid)
ON CONFLICT DO NOTHING
"""

UNLINK = "DELETE FROM schedule_calendars WHERE schedule_uid = %(uid)s::uuid"

# In the order of the index, so that two never wait for each other.
_LOCK_NAMING = """
SELECT t.uid::text FROM schedule_calendars l JOIN schedule_timers t ON t.uid = l.schedule_uid
WHERE l.tenant_id = %(tenant)s AND l.calendar_id = %(calendar)s
ORDER BY l.tenant_id, l.calendar_id, l.schedule_uid LIMIT %(limit)s
FOR UPDATE OF t
"""


async def hold(run: Run, tenant: TenantId, ids: Sequence[str]) -> Calendars:
    if not ids:
        return {}
    wanted = sorted(set(ids))
    rows = await run(_HELD, {"tenants": array([tenant] * len(wanted)), "ids": wanted})
    return {id: schedulerows.date_set(dates) for _, id, dates in rows}


async def lock(run: Run, tenant: TenantId, id: str) -> Calendar | None:
    rows = await run(_LOCK, {"tenant": tenant, "id": id})
    return schedulerows.calendar(rows[0], rows[0][-1]) if rows else None


async def create(run: Run, tenant: TenantId, calendar: Calendar) -> None:
    try:
        await run(_CREATE, _params(tenant, calendar) | {"uid": calendar.uid})
    except pg.UniqueViolation as error:
        raise id_taken("calendars", error) from error


async def rewrite(run: Run, tenant: TenantId, calendar: Calendar) -> None:
    await run(_REWRITE, _params(tenant, calendar))


async def delete(run: Run, tenant: TenantId, id: str) -> None:
    await run(_DELETE, {"tenant": tenant, "id": id})


async def link(run: Run, tenant: TenantId, links: Sequence[tuple[str, ScheduleUid]]) -> None:
    if links:
        params = {"tenant": tenant, "calendars": [id for id, _ in links], "uids": array([uid for _, uid in links])}
        await run(_LINK, params)


async def lock_naming(run: Run, tenant: TenantId, calendar: str, limit: int) -> list[ScheduleUid]:
    params = {"tenant": tenant, "calendar": calendar, "limit": limit}
    return [ScheduleUid(uid) for (uid,) in await run(_LOCK_NAMING, params)]


def _params(tenant: TenantId, calendar: Calendar) -> dict[str, object]:
    return {
        "tenant": tenant,
        "id": calendar.id,
        "dates": list(calendar.dates),
        "notes": calendar.notes,
        "labels": codec.map_json(calendar.labels),
    }
