"""Changing backfills, in a transaction whose statements `run` runs."""

from rota.domain.ids import ScheduleUid
from rota.domain.schedule import Backfill, Schedule
from rota.store import schedulerows
from rota.store.engine import Run

_RUNNING = "SELECT count(*) FROM backfills WHERE schedule_uid = %(uid)s::uuid AND state = 1"

_ADD = """
INSERT INTO backfills (
    id, schedule_uid, tenant_id, shard, start_at, end_at, include_fired, rate, overlap_mode, overlap_limit, priority,
    reason, state, cursor_at, next_nominal, next_at, total, done, fired, author, created_at, finished_at)
VALUES (
    %(id)s::uuid, %(uid)s::uuid, %(tenant)s, %(shard)s, %(start)s, %(end)s, %(include_fired)s, %(rate)s, %(mode)s,
    %(limit)s, %(priority)s, %(reason)s, %(state)s, %(cursor)s, %(next_nominal)s, now(), %(total)s, %(done)s, %(fired)s,
    %(author)s, now(), CASE WHEN %(state)s <> 1 THEN now() END)
"""

_LOCK = f"""
SELECT {schedulerows.BACKFILL} FROM backfills b WHERE b.id = %(id)s::uuid AND b.schedule_uid = %(uid)s::uuid FOR UPDATE
"""

# Counted from when it was due, so that a late look does not slow it down; but no more than two seconds' worth.
_SAVE = """
UPDATE backfills
SET state = %(state)s, cursor_at = %(cursor)s, next_nominal = %(next_nominal)s, done = %(done)s, fired = %(fired)s,
    next_at = greatest(next_at, now() - interval '2 seconds') + %(wait_s)s::float8 * interval '1 second',
    finished_at = CASE WHEN %(state)s <> 1 THEN coalesce(finished_at, now()) END
WHERE id = %(id)s::uuid
"""

CANCEL_ALL = "UPDATE backfills SET state = 3, finished_at = now() WHERE schedule_uid = %(uid)s::uuid AND state = 1"


async def running(run: Run, uid: ScheduleUid) -> int:
    found: int = (await run(_RUNNING, {"uid": uid}))[0][0]
    return found


async def add(run: Run, schedule: Schedule, backfill: Backfill) -> None:
    overlap = backfill.overlap
    await run(
        _ADD,
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


async def lock(run: Run, uid: ScheduleUid, id: str) -> Backfill | None:
    rows = await run(_LOCK, {"uid": uid, "id": id})
    return schedulerows.backfill(rows[0]) if rows else None


async def save(run: Run, backfill: Backfill, wait_s: float) -> None:
    await run(_SAVE, {"id": backfill.id, "wait_s": wait_s, **_progress(backfill)})


def _progress(backfill: Backfill) -> dict[str, object]:
    return {
        "state": int(backfill.state),
        "cursor": backfill.cursor,
        "next_nominal": backfill.next_nominal,
        "done": backfill.done,
        "fired": backfill.fired,
    }
