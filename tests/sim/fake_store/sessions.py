"""Sessions of workers."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from rota.domain.errors import AlreadyExists
from rota.domain.ids import CoordinatorId, SessionId, TenantId
from rota.domain.model import (
    Session,
    SessionState,
)
from rota.store.codec import instant
from rota.store.port import (
    BeatUpdate,
)

from .tables import Port, SessionRow


class FakeSessions(Port):
    """SessionStore."""

    async def open(self, session: Session, ttl_s: float) -> Session:
        def work() -> Session:
            db = self._db
            row = db.sessions.get(session.id)
            if row is None:
                ttl_us = round(ttl_s * 1000) * 1000
                opened = replace(
                    session,
                    epoch=next(db.session_epochs),
                    queues=tuple(dict.fromkeys(session.queues)),
                    state=SessionState.ACTIVE,
                    opened_at=instant(db.now_us),
                    free_slots=session.slots,
                )
                row = db.sessions[session.id] = SessionRow(opened, ttl_us, db.now_us + ttl_us, db.now_us)
                db.history.note("opened", session=session.id, worker=session.worker)
            if row.session.tenant_id != session.tenant_id:
                raise AlreadyExists("request_id: in use; make a fresh one for each call")
            return _session(row)

        return await self._write("open", work)

    async def get(self, session: SessionId) -> Session | None:
        def work() -> Session | None:
            row = self._db.sessions.get(session)
            return None if row is None else _session(row)

        return await self._read("get_session", work)

    async def page(self, tenant: TenantId, before: SessionId | None, limit: int) -> list[Session]:
        def work() -> list[Session]:
            rows = [
                row
                for id, row in self._db.sessions.items()
                if row.session.tenant_id == tenant and row.closed_us is None and (before is None or id < before)
            ]
            rows.sort(key=lambda row: row.session.id, reverse=True)
            return [_session(row) for row in rows[:limit]]

        return await self._read("page_sessions", work)

    async def beat(self, beats: Sequence[BeatUpdate], coordinator: CoordinatorId) -> dict[SessionId, SessionState]:
        def work() -> dict[SessionId, SessionState]:
            found = {}
            for beat in beats:
                row = self._db.sessions.get(beat.session_id)
                if row is None or not self._db.guard("beat: not closed", row.closed_us is None):
                    continue
                row.expires_us = self._db.now_us + row.ttl_us
                row.last_beat_us = self._db.now_us
                row.session = replace(row.session, free_slots=beat.free_slots, coordinator=coordinator)
                found[beat.session_id] = row.session.state
                self._db.history.note("beat", session=beat.session_id)
            return found

        return await self._write("beat", work, "terms")

    async def set_state(self, tenant: TenantId, session: SessionId, state: SessionState) -> Session | None:
        def work() -> Session | None:
            row = self._db.sessions.get(session)
            if row is None or row.session.tenant_id != tenant or row.closed_us is not None:
                return None
            row.session = replace(row.session, state=max(row.session.state, state))
            if state is SessionState.CLOSED:
                row.closed_us = self._db.now_us
                self._db.history.note("closed", session=session, why="asked")
            return _session(row)

        return await self._write("set_state", work)

    async def expire(self, latest: datetime | None = None) -> list[SessionId]:
        def work() -> list[SessionId]:
            now_us = self._db.now_us if latest is None else min(self._db.now_us, int(latest.timestamp() * 1e6))
            gone = [
                id
                for id, row in self._db.sessions.items()
                if row.closed_us is None and self._db.guard("expire: time is over", row.expires_us <= now_us)
            ]
            for id in gone:
                row = self._db.sessions[id]
                row.session = replace(row.session, state=SessionState.CLOSED)
                row.closed_us = self._db.now_us
                self._db.history.note("closed", session=id, why="expired")
            return gone

        return await self._write("expire", work, "terms")

    async def grant_amnesty(self, silent_s: float) -> int:
        def work() -> int:
            since_us = self._db.now_us - round(silent_s * 1e6)
            spared = [row for row in self._db.sessions.values() if row.closed_us is None and row.expires_us > since_us]
            for row in spared:
                row.expires_us = self._db.now_us + row.ttl_us
            if spared:
                self._db.history.note("amnesty", sessions=len(spared), silent_s=silent_s)
            return len(spared)

        return await self._write("grant_amnesty", work, "terms")


def _session(row: SessionRow) -> Session:
    return replace(row.session, last_beat_at=instant(row.last_beat_us), expires_at=instant(row.expires_us))
