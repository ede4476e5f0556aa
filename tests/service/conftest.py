"""The services over the real store; what they tell the coordinator is written down."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import pytest_asyncio

from rota.clock import SystemClock
from rota.domain.fairness import Entry
from rota.domain.ids import Fence, JobId, SessionId, TenantId
from rota.service.completions import Completions
from rota.service.jobs import Jobs
from rota.telemetry import Metrics

from ..store.conftest import shared_database
from ..store.world import World
from .clockwork import Clockwork, set_up_clock

__all__ = ["shared_database"]


class Told:
    """Notices, as a list of what was said: (what, about whom)."""

    def __init__(self) -> None:
        self.said: list[tuple[str, Any]] = []

    def jobs_waiting(self, entries: Sequence[Entry]) -> None:
        self.said += [("waiting", entry.id) for entry in entries]

    def lease_ended(self, tenant: TenantId, job: JobId, fence: Fence) -> None:
        self.said.append(("lease ended", (job, fence)))

    def cancel_requested(self, session: SessionId, job: JobId, fence: Fence, reason: str) -> None:
        self.said.append(("cancel requested", (session, job, fence, reason)))

    def lease_revoked(self, session: SessionId, job: JobId, fence: Fence) -> None:
        self.said.append(("lease revoked", (session, job, fence)))

    def job_finished(self, job: JobId) -> None:
        self.said.append(("finished", job))

    def queues_changed(self) -> None:
        self.said.append(("queues changed", None))


@pytest_asyncio.fixture
async def world(shared_database: str) -> AsyncIterator[World]:
    async with World(shared_database) as world:
        yield world


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def jobs(world: World, told: Told, metrics: Metrics) -> Jobs:
    return Jobs(world.jobs, world.reader, world.outcomes, told, metrics)


@pytest.fixture
def completions(world: World, told: Told, metrics: Metrics) -> Completions:
    return Completions(world.outcomes, told, SystemClock(), metrics, None)


@pytest_asyncio.fixture
async def clockwork(database: str) -> AsyncIterator[Clockwork]:
    set_up_clock(database)
    async with Clockwork(database) as clockwork:
        yield clockwork
