"""Worker sessions: one narrow row each, and the only row that a beat touches.

A session is dead once it is closed, and not before: one whose time is over stays alive until a reaper, sure that it
could have heard a beat, has closed it. So an outage of database or coordinators kills nobody.

`state` 3 and `closed_at` always come together. Statements that address sessions by id test the state: the other test
would let a planner that saw few sessions read all of the open ones' index for each id.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rota.domain.errors import AlreadyExists
from rota.domain.ids import CoordinatorId, SessionId, TenantId
from rota.domain.model import Session, SessionState
from rota.store.engine import Database, Row, array, by_key
from rota.store.port import BeatUpdate

_COLUMNS = """id::text, tenant_id, epoch, worker, sdk, build_id, queues, types, slots, labels, protocol_version, state,
    opened_at, last_beat_at, expires_at, free_slots, coordinator::text"""

_OPEN = f"""
INSERT INTO sessions (
    id, tenant_id, state, worker, sdk, build_id, queues, types, slots, free_slots, labels, protocol_version, ttl_ms,
    coordinator, opened_at, last_beat_at, expires_at)
VALUES (
    %(id)s::uuid, %(tenant)s, 1, %(worker)s, %(sdk)s, %(build_id)s, %(queues)s, %(types)s, %(slots)s, %(slots)s,
    %(labels)s::jsonb, %(protocol)s, %(ttl_ms)s, %(coordinator)s::uuid, now(), now(),
    now() + %(ttl_ms)s * interval '1 millisecond')
ON CONFLICT (id) DO NOTHING
RETURNING {_COLUMNS}
"""

_GET = f"SELECT {_COLUMNS} FROM sessions WHERE id = %(id)s::uuid"

_LIST = f"""
SELECT {_COLUMNS} FROM sessions
WHERE tenant_id = %(tenant)s AND closed_at IS NULL AND (%(before)s::uuid IS NULL OR id < %(before)s::uuid)
ORDER BY id DESC LIMIT %(limit)s
"""

_BEAT = f"""
UPDATE sessions s
SET expires_at = now() + s.ttl_ms * interval '1 millisecond', last_beat_at = now(), free_slots = b.free_slots,
    coordinator = %(coordinator)s::uuid
FROM unnest(%(ids)t::uuid[], %(free_slots)t::int[]) AS b (id, free_slots)
WHERE {by_key("s", "b", ["id"])} AND s.state < 3
RETURNING s.id::text, s.state
"""

_SET_STATE = f"""
UPDATE sessions
SET state = greatest(state, %(state)s), closed_at = CASE WHEN %(state)s = 3 THEN now() END
WHERE id = %(id)s::uuid AND tenant_id = %(tenant)s AND closed_at IS NULL
RETURNING {_COLUMNS}
"""

_EXPIRE = """
UPDATE sessions SET state = 3, closed_at = now()
WHERE closed_at IS NULL AND expires_at <= least(now(), %(latest)s::timestamptz)
RETURNING id::text
"""

_AMNESTY = """
UPDATE sessions SET expires_at = now() + ttl_ms * interval '1 millisecond'
WHERE closed_at IS NULL AND expires_at > now() - %(silent_s)s::float8 * interval '1 second'
RETURNING 1
"""


@dataclass(frozen=True, slots=True)
class PgSessions:
    """SessionStore on PostgreSQL."""

    db: Database

    async def open(self, session: Session, ttl_s: float) -> Session:
        params = {
            "id": session.id,
            "tenant": session.tenant_id,
            "worker": session.worker,
            "sdk": session.sdk,
            "build_id": session.build_id,
            "queues": list(dict.fromkeys(session.queues)),
            "types": list(dict.fromkeys(session.types)),
            "slots": session.slots,
            "labels": json.dumps(dict(session.labels)) if session.labels else None,
            "protocol": session.protocol_version,
            "ttl_ms": round(ttl_s * 1000),
            "coordinator": session.coordinator,
        }
        rows = await self.db.writes.run(_OPEN, params) or await self.db.writes.run(
            _GET, {"id": session.id}, write=False
        )
        found = _session(rows[0])
        if found.tenant_id != session.tenant_id:
            raise AlreadyExists("request_id: in use; make a fresh one for each call")
        return found

    async def get(self, session: SessionId) -> Session | None:
        rows = await self.db.writes.run(_GET, {"id": session}, write=False)
        return _session(rows[0]) if rows else None

    async def page(self, tenant: TenantId, before: SessionId | None, limit: int) -> list[Session]:
        params = {"tenant": tenant, "before": before, "limit": limit}
        return [_session(row) for row in await self.db.writes.run(_LIST, params, write=False)]

    async def beat(self, beats: Sequence[BeatUpdate], coordinator: CoordinatorId) -> dict[SessionId, SessionState]:
        rows = await self.db.terms.run(
            _BEAT,
            {
                "ids": array([b.session_id for b in beats]),
                "free_slots": array([b.free_slots for b in beats]),
                "coordinator": coordinator,
            },
        )
        return {SessionId(id): SessionState(state) for id, state in rows}

    async def set_state(self, tenant: TenantId, session: SessionId, state: SessionState) -> Session | None:
        rows = await self.db.writes.run(_SET_STATE, {"id": session, "tenant": tenant, "state": int(state)})
        return _session(rows[0]) if rows else None

    async def expire(self, latest: datetime | None = None) -> list[SessionId]:
        return [SessionId(row[0]) for row in await self.db.terms.run(_EXPIRE, {"latest": latest})]

    async def grant_amnesty(self, silent_s: float) -> int:
        return len(await self.db.terms.run(_AMNESTY, {"silent_s": silent_s}))


def _session(r: Row) -> Session:
    return Session(
        id=SessionId(r[0]),
        tenant_id=TenantId(r[1]),
        epoch=r[2],
        worker=r[3],
        sdk=r[4],
        build_id=r[5],
        queues=tuple(r[6]),
        types=tuple(r[7]),
        slots=r[8],
        labels=r[9] or {},
        protocol_version=r[10],
        state=SessionState(r[11]),
        opened_at=r[12],
        last_beat_at=r[13],
        expires_at=r[14],
        free_slots=r[15],
        coordinator=r[16] or "",
    )
