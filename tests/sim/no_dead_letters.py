"""The store of dead letters in a world whose dead stay dead: coordinators look for redrives, and find none."""

from collections.abc import Awaitable, Callable
from typing import Any

from .fake_store.tables import Port


class NoDeadLetters(Port):
    """DeadLetterStore without redrives; whatever else is asked for is a fault of the simulation."""

    async def transact(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        return await work(self)

    async def lock_due(self) -> None:
        return await self._read("lock_due", lambda: None)

    async def next_redrive_s(self) -> None:
        return await self._read("next_redrive_s", lambda: None)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name}: this world has no redrives")
