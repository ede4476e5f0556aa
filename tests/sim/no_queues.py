"""The store of queues in a world where none has settings: coordinators look whether any has, and find nothing."""

from typing import Any

from rota.store.queueport import Configs

from .fake_store.tables import Port


class NoQueues(Port):
    """QueueStore without queues; whatever else is asked for is a fault of the simulation."""

    async def configs(self, known: int | None = None) -> Configs | None:
        return await self._read("configs", lambda: Configs(1, (), {}) if known is None else None)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name}: this world has no queues with settings")
