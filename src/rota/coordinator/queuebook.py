"""What is set for queues and tenants, as this coordinator knows it: weights, pauses, and whose jobs are leased by exact
limits. Followed within seconds, and at once when somebody tells; a claim is right whatever is known here."""

import asyncio
import logging

from rota.coordinator.gates import Gates
from rota.domain.errors import Unavailable
from rota.domain.fairness import Entry, ReadyQueue
from rota.domain.ids import TenantId
from rota.domain.limiting import Gate
from rota.store.queueport import QueueStore

log = logging.getLogger(__name__)


class QueueBook:
    def __init__(self, store: QueueStore, ready: ReadyQueue, gates: Gates) -> None:
        self._store = store
        self._ready = ready
        self._gates = gates
        self._tenants: frozenset[TenantId] = frozenset()
        self._queues: frozenset[tuple[TenantId, str]] = frozenset()
        self._version: int | None = None
        self._task: asyncio.Task[None] | None = None
        self._again = False

    def limits(self, entry: Entry) -> bool:
        """Whether a job is leased by exact limits."""
        return (entry.tenant_id, entry.queue) in self._queues or entry.tenant_id in self._tenants

    def follow(self) -> None:
        """Looks soon; several calls are one look."""
        if self._task is not None:
            self._again = True
            return
        self._task = asyncio.create_task(self._look(), name="queue settings")

    def forget(self) -> None:
        """Reads all of it the next time, whatever its version."""
        self._version = None

    async def refresh(self) -> None:
        """Raises Unavailable; what was known stays."""
        found = await self._store.configs(self._version)
        if found is None:
            return
        self._version = found.version
        self._tenants = frozenset(id for id, settings in found.tenants.items() if settings.limited)
        self._queues = frozenset((queue.tenant_id, queue.id) for queue in found.queues if queue.limited)
        self._ready.set_weights(
            {id: settings.weight for id, settings in found.tenants.items()},
            {(queue.tenant_id, queue.id): queue.settings.weight for queue in found.queues},
        )
        self._gates.pause(frozenset(Gate(queue.tenant_id, queue.id) for queue in found.queues if queue.pause))
        self._gates.reconsider()

    async def close(self) -> None:
        if self._task is not None:
            await asyncio.wait({self._task})

    async def _look(self) -> None:
        while True:
            self._again = False
            try:
                await self.refresh()
            except Unavailable as error:
                log.info("the settings of queues are not to be had, those known stay: %s", error)
            if not self._again:
                self._task = None
                return
