"""Worker sessions: opening, beating, draining, closing."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from rota.domain.errors import session_gone
from rota.domain.ids import CoordinatorId, SessionId, TenantId
from rota.domain.model import Session, SessionState
from rota.store.port import BeatUpdate, SessionStore
from rota.telemetry import Metrics


class Sessions:
    def __init__(self, store: SessionStore, coordinator: CoordinatorId, ttl_s: float, metrics: Metrics) -> None:
        self._store = store
        self._coordinator = coordinator
        self._metrics = metrics
        self.ttl_s = ttl_s

    async def open(self, session: Session) -> Session:
        opened = await self._store.open(replace(session, coordinator=self._coordinator), self.ttl_s)
        self._metrics.add("rota.sessions.opened")
        return opened

    async def get(self, tenant: TenantId, session: SessionId) -> Session:
        """A living session of this tenant; SESSION_GONE otherwise, for another tenant's as well."""
        found = await self._store.get(session)
        if found is None or found.tenant_id != tenant or found.state is SessionState.CLOSED:
            raise session_gone(session)
        return found

    async def is_closed(self, tenant: TenantId, session: SessionId) -> bool:
        """Whether it was a session of this tenant, and is over."""
        found = await self._store.get(session)
        return found is not None and (found.tenant_id, found.state) == (tenant, SessionState.CLOSED)

    async def page(self, tenant: TenantId, before: SessionId | None, limit: int) -> list[Session]:
        return await self._store.page(tenant, before, limit)

    async def beat(self, beats: Sequence[BeatUpdate]) -> dict[SessionId, SessionState]:
        """Renews sessions; dead ones are missing from the answer."""
        return await self._store.beat(beats, self._coordinator)

    async def drain(self, tenant: TenantId, session: SessionId) -> None:
        if await self._store.set_state(tenant, session, SessionState.DRAINING) is None:
            raise session_gone(session)

    async def close(self, tenant: TenantId, session: SessionId) -> None:
        """Closes for good. Closing what is closed already is fine."""
        await self._store.set_state(tenant, session, SessionState.CLOSED)

    async def expire(self, latest: datetime) -> list[SessionId]:
        """Ends the sessions whose time is over, by the database's clock and by this one, which knows nothing of a step
        of that one yet."""
        gone = await self._store.expire(latest)
        if gone:
            self._metrics.add("rota.sessions.expired", len(gone))
        return gone

    async def grant_amnesty(self, silent_s: float) -> int:
        """After a time in which no beat could be heard: nobody died of it."""
        return await self._store.grant_amnesty(silent_s)
