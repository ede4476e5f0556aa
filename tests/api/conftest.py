"""Coordinators for the tests of the wire, all in one event loop, of the kind that `rota serve` has."""

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio
import uvloop

from rota.coordinator import pressure
from rota.store.embedded import EmbeddedPostgres

from .running import Running, Tenant, fresh_database, running


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Callable[[], Any]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is slow for a moment is no pressure: nobody is refused, and no worker asked to slow down."""
    for name in ("SLOW_S", "REFUSE_LOW_S", "REFUSE_DEFAULT_S", "REFUSE_ALL_S"):
        monkeypatch.setattr(pressure, name, 60.0)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def rota(postgres: EmbeddedPostgres) -> AsyncIterator[Running]:
    """The coordinator that is shared: leases and sessions outlive any quick test."""
    with fresh_database(postgres) as url:
        async with running(url) as coordinator:
            yield coordinator


@pytest_asyncio.fixture(loop_scope="session")
async def tenant(rota: Running) -> Tenant:
    """A tenant of the test's own at the shared coordinator."""
    return await rota.tenant()


@pytest_asyncio.fixture(loop_scope="session")
async def told(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> Tenant:
    """The tenant, while its coordinator never looks at its rows again: what it finds in time, it was told."""
    monkeypatch.setattr(tenant.coordinator.node.poller, "_rescan_at", math.inf)
    return tenant


@pytest_asyncio.fixture(loop_scope="session")
async def start(postgres: EmbeddedPostgres) -> AsyncIterator[Callable[..., Awaitable[Running]]]:
    """Starts a coordinator of the test's own with other settings, on a fresh database unless `url` names one."""
    async with AsyncExitStack() as stack:

        async def begin(url: str | None = None, **settings: Any) -> Running:
            return await stack.enter_async_context(
                running(url or stack.enter_context(fresh_database(postgres)), **settings)
            )

        yield begin
