"""A coordinator that writes slowly as it leaves, so that workers that it has sent away find it listening still."""

import asyncio

from rota.coordinator.commits import Batcher

SLOW_S = 1.0

drain = Batcher.drain


async def slow_drain(self: Batcher) -> None:  # type: ignore[type-arg]
    await asyncio.sleep(SLOW_S)
    await drain(self)


Batcher.drain = slow_drain  # type: ignore[method-assign]

from tests import serve_main  # noqa: E402, F401
