"""The clocks of a simulated world: the database's, which decides, and one for each process, which must not matter."""

import asyncio
import random
from datetime import UTC, datetime

from rota.domain.ids import uuid7

from .loop import SimLoop

START_US = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z: where every world begins."""

DRIFT_MAX = 4e-4
"""How much faster or slower than the coordinators' machines the database's counts."""


class DatabaseTime:
    """What `now()` says in the database. An operator, or a failover, may step it."""

    def __init__(self, loop: SimLoop, rate: float = 1.0) -> None:
        self._loop = loop
        self._rate = rate
        self._offset_us = 0

    def now_us(self) -> int:
        return START_US + round(self._loop.time() * self._rate * 1e6) + self._offset_us

    def step(self, seconds: float) -> None:
        self._offset_us += round(seconds * 1e6)


class SimClock:
    """`rota.clock.Clock` of one process: monotonic from a point of its own, a wall clock that is wrong by `skew_s`."""

    def __init__(self, loop: SimLoop, rng: random.Random, skew_s: float) -> None:
        self._loop = loop
        self._rng = rng
        self._skew_s = skew_s
        self._booted = rng.uniform(0.0, 1e6)

    @property
    def rng(self) -> random.Random:
        return self._rng

    def monotonic(self) -> float:
        return self._booted + self._loop.time()

    def utc(self) -> datetime:
        return datetime.fromtimestamp(START_US / 1e6 + self._loop.time() + self._skew_s, UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0.0))

    def new_id(self) -> str:
        return uuid7(int(self.utc().timestamp() * 1000), self._rng.getrandbits(80))
