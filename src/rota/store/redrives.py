"""The rows of redrives, in a transaction whose statements `run` runs.

A tenant has a few slots, and a running redrive has one of them to itself: a unique index keeps them from being more.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from rota.domain import limits
from rota.domain.deadletter import FIRST, DeadFilter, Place, Redrive, RedriveState
from rota.domain.ids import JobId, TenantId
from rota.domain.model import DeadCause
from rota.store.engine import Row, Run, array

COLUMNS: Final = """r.tenant_id, r.id::text, r.letters::text[], r.filter, r.rate, r.max_count, r.new_generation,
    r.reason, r.state, r.total, r.redriven, r.refused, r.author, r.created_at, r.finished_at,
    (extract(epoch FROM r.cursor_at) * 1000000)::bigint, r.cursor_id::text"""

GET: Final = f"SELECT {COLUMNS} FROM redrives r WHERE r.tenant_id = %(tenant)s AND r.id = %(id)s::uuid"

PAGE: Final = f"""
SELECT {COLUMNS} FROM redrives r
WHERE r.tenant_id = %(tenant)s AND (%(before)s::uuid IS NULL OR r.id < %(before)s::uuid)
ORDER BY r.id DESC LIMIT %(limit)s
"""

NEXT_S: Final = """
SELECT extract(epoch FROM r.next_at - now())::float8 FROM redrives r
WHERE r.state = 1 ORDER BY r.next_at, r.id LIMIT 1
"""

_ADD = """
INSERT INTO redrives (
    tenant_id, id, slot, letters, filter, rate, max_count, new_generation, reason, state, next_at, total, redriven,
    refused, author, created_at, finished_at)
SELECT %(tenant)s, %(id)s::uuid, s.slot, %(letters)s::uuid[], %(filter)s::jsonb, %(rate)s, %(max_count)s,
       %(new_generation)s, %(reason)s, %(state)s, now(), %(total)s, %(redriven)s, %(refused)s, %(author)s,
       %(created_at)s, %(finished_at)s
FROM generate_series(1, %(slots)s) AS s (slot)
WHERE NOT EXISTS (
    SELECT FROM redrives r WHERE r.tenant_id = %(tenant)s AND r.slot = s.slot AND r.state = 1)
ORDER BY s.slot LIMIT 1
ON CONFLICT DO NOTHING
RETURNING 1
"""

_RUNNING = "SELECT count(*) FROM redrives r WHERE r.tenant_id = %(tenant)s AND r.state = 1"

_LOCK = f"{GET} FOR UPDATE"

_LOCK_DUE = f"""
SELECT {COLUMNS} FROM redrives r WHERE r.state = 1 AND r.next_at <= now()
ORDER BY r.next_at, r.id LIMIT 1
FOR UPDATE SKIP LOCKED
"""

# Counted from when it was due, so that a late look does not slow it down; but no more than two seconds' worth.
_SAVE = """
UPDATE redrives
SET state = %(state)s, redriven = %(redriven)s, refused = %(refused)s, total = %(total)s,
    cursor_at = timestamptz 'epoch' + %(cursor_us)s::bigint * interval '1 microsecond', cursor_id = %(cursor_id)s::uuid,
    next_at = greatest(next_at, now() - interval '2 seconds') + %(wait_s)s::float8 * interval '1 second',
    finished_at = %(finished_at)s::timestamptz
WHERE tenant_id = %(tenant)s AND id = %(id)s::uuid
"""

POSTPONE: Final = """
UPDATE redrives SET next_at = now() + %(wait_s)s::float8 * interval '1 second'
WHERE tenant_id = %(tenant)s AND id = %(id)s::uuid AND state = 1
"""

_NOW = "SELECT clock_timestamp()"

ADD_TRIES: Final = 2 * limits.REDRIVES_RUNNING_MAX
"""Each failed try means that another took the slot meanwhile."""


async def add(run: Run, redrive: Redrive) -> bool:
    """False: as many run as may."""
    params = {
        "tenant": redrive.tenant_id,
        "id": redrive.id,
        "letters": array(redrive.letters) if redrive.filter is None else None,
        "filter": None if redrive.filter is None else json.dumps(_filter_values(redrive.filter)),
        "rate": redrive.rate,
        "max_count": redrive.max_count,
        "new_generation": redrive.new_generation,
        "reason": redrive.reason,
        "state": int(redrive.state),
        "total": redrive.total,
        "redriven": redrive.redriven,
        "refused": redrive.refused,
        "author": redrive.author,
        "created_at": redrive.created_at,
        "finished_at": redrive.finished_at,
        "slots": limits.REDRIVES_RUNNING_MAX,
    }
    for _ in range(ADD_TRIES):
        if await run(_ADD, params):
            return True
        if (await run(_RUNNING, {"tenant": redrive.tenant_id}))[0][0] >= limits.REDRIVES_RUNNING_MAX:
            break
    return False


async def lock(run: Run, tenant: TenantId, id: str) -> tuple[Redrive, datetime] | None:
    return await _locked(run, _LOCK, {"tenant": tenant, "id": id})


async def lock_due(run: Run) -> tuple[Redrive, datetime] | None:
    return await _locked(run, _LOCK_DUE, {})


async def save(run: Run, redrive: Redrive, wait_s: float) -> None:
    await run(
        _SAVE,
        {
            "tenant": redrive.tenant_id,
            "id": redrive.id,
            "state": int(redrive.state),
            "redriven": redrive.redriven,
            "refused": redrive.refused,
            "total": redrive.total,
            "cursor_us": redrive.cursor.died_us,
            "cursor_id": redrive.cursor.id,
            "wait_s": wait_s,
            "finished_at": redrive.finished_at,
        },
    )


def redrive(r: Row) -> Redrive:
    """From COLUMNS."""
    return Redrive(
        tenant_id=TenantId(r[0]),
        id=r[1],
        letters=tuple(JobId(id) for id in r[2] or ()),
        filter=None if r[3] is None else _filter(r[3]),
        rate=r[4],
        max_count=r[5],
        new_generation=r[6],
        reason=r[7],
        state=RedriveState(r[8]),
        total=r[9],
        redriven=r[10],
        refused=r[11],
        author=r[12],
        created_at=r[13],
        finished_at=r[14],
        cursor=FIRST if r[15] is None else Place(r[15], r[16]),
    )


async def _locked(run: Run, statement: str, params: Mapping[str, object]) -> tuple[Redrive, datetime] | None:
    rows = await run(statement, params)
    # After the lock, for which it may have waited.
    return (redrive(rows[0]), (await run(_NOW, {}))[0][0]) if rows else None


def _filter_values(where: DeadFilter) -> dict[str, object]:
    found: dict[str, object] = {
        "queue": where.queue,
        "type": where.type,
        "schedule": where.schedule,
        "failure_type": where.failure_type,
        "cause": int(where.cause) if where.cause else None,
        "start": where.start.isoformat() if where.start else None,
        "end": where.end.isoformat() if where.end else None,
        "labels": dict(where.labels),
    }
    return {key: value for key, value in found.items() if value}


def _filter(found: Mapping[str, Any]) -> DeadFilter:
    return DeadFilter(
        queue=found.get("queue", ""),
        type=found.get("type", ""),
        schedule=found.get("schedule", ""),
        failure_type=found.get("failure_type", ""),
        cause=DeadCause(found["cause"]) if "cause" in found else None,
        start=datetime.fromisoformat(found["start"]) if "start" in found else None,
        end=datetime.fromisoformat(found["end"]) if "end" in found else None,
        labels=found.get("labels", {}),
    )
