"""Sessions through the service: another tenant's and a closed one are gone alike."""

import pytest

from rota.domain.errors import NotFound
from rota.domain.ids import SessionId, TenantId
from rota.domain.model import SessionState
from rota.service.sessions import Sessions
from rota.store.port import BeatUpdate
from rota.telemetry import Metrics

from ..store.world import World, fresh_id


@pytest.fixture
def sessions(world: World, metrics: Metrics) -> Sessions:
    return Sessions(world.sessions, world.owner, 30.0, metrics)


async def test_a_session_is_opened_by_this_coordinator_with_its_ttl(world: World, sessions: Sessions) -> None:
    opened = await sessions.open(world.session(coordinator=""))
    assert opened.coordinator == world.owner
    assert (opened.expires_at - opened.opened_at).total_seconds() == 30.0
    assert await sessions.get(world.tenant, opened.id) == opened


@pytest.mark.parametrize("whose", ["unknown", "closed", "another tenant's"])
async def test_a_session_that_is_gone(world: World, sessions: Sessions, whose: str) -> None:
    session = (await sessions.open(world.session())).id
    tenant = TenantId(world.tenant + 500_000) if whose == "another tenant's" else world.tenant
    if whose == "unknown":
        session = SessionId(fresh_id())
    elif whose == "closed":
        await sessions.close(tenant, session)
    for ask in (sessions.get(tenant, session), sessions.drain(tenant, session)):
        with pytest.raises(NotFound, match=f"sessions/{session}: .*open a new session") as gone:
            await ask
        assert gone.value.reason == "SESSION_GONE"
    # Closing what is closed is fine, and closing a stranger's does nothing.
    await sessions.close(tenant, session)
    if whose == "another tenant's":
        assert (await sessions.get(world.tenant, session)).state is SessionState.ACTIVE


async def test_drain_then_close(world: World, sessions: Sessions) -> None:
    session = (await sessions.open(world.session())).id
    await sessions.drain(world.tenant, session)
    assert await sessions.beat([BeatUpdate(session, 0)]) == {session: SessionState.DRAINING}
    assert (await sessions.get(world.tenant, session)).state is SessionState.DRAINING
    await sessions.close(world.tenant, session)
    assert await sessions.beat([BeatUpdate(session, 0)]) == {}
    assert await sessions.page(world.tenant, None, 9) == []
