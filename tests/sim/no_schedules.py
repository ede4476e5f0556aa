"""The stores of schedules in a world that has none: the loops that look for them run, and find nothing."""

from collections.abc import Sequence
from typing import Any

from rota.domain.ids import ShardNo

from .fake_store import _Port


class NoFires(_Port):
    """FireStore without schedules; whatever else is asked for is a fault of the simulation."""

    async def read_armed(self, shards: Sequence[ShardNo], until: object, page: int) -> tuple[list[Any], None]:
        return await self._read("read_armed", lambda: ([], None))

    async def read_unfit(self, after: object, page: int, tzdata: str) -> tuple[list[Any], None]:
        return await self._read("read_unfit", lambda: ([], None))

    async def due_backfills(self, shards: Sequence[ShardNo], limit: int) -> list[Any]:
        return await self._read("due_backfills", list)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name}: this world has no schedules")
