"""Time, waiting, ids and chance: the only place that asks the machine for them.

Everything that decides by time takes a `Clock`, so that tests and the simulation drive it. A coordinator's wall clock
decides nothing: `DatabaseClock` follows the database's clock, which is the one that counts.
"""

import asyncio
import os
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from rota.domain.ids import uuid7

DRIFT = 5e-4
"""How fast two clocks may drift apart: as much as one that is being corrected."""

STEP_S = 1.0
"""A clock that is further from where it can be was put there."""


class Clock(Protocol):
    """What a program may ask of time and chance."""

    @property
    def rng(self) -> random.Random: ...

    def monotonic(self) -> float:
        """Seconds that only grow; for spans."""

    def utc(self) -> datetime:
        """The wall clock, aware. For logs and ids; never to decide what is due."""

    async def sleep(self, seconds: float) -> None:
        """Waits; 0 or less gives other tasks a turn."""

    def new_id(self) -> str:
        """A fresh UUIDv7 in text form."""


class SystemClock:
    """The machine's own."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()

    @property
    def rng(self) -> random.Random:
        return self._rng

    def monotonic(self) -> float:
        return time.monotonic()

    def utc(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0.0))

    def new_id(self) -> str:
        return uuid7(time.time_ns() // 1_000_000, int.from_bytes(os.urandom(10), "big"))


class DatabaseClock:
    """The database's clock between two looks at it, counted on the monotonic clock.

    The estimate never runs ahead of the database by more than its drift since the last look, because a reading is
    dated to the moment its answer arrived. So nothing is offered before it is due. A slow answer makes a reading old:
    an earlier one that was quicker is kept as long as it can be true, less what the clocks may have drifted apart.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_s: float | None = None
        self._offset_most_s = 0.0
        self._read_at = 0.0
        self.on_step: list[Callable[[float], None]] = []
        """Told when the database's clock was put forward or back by so much, as at a failover to another machine."""

    def observe(self, database_now: datetime, sent_at: float) -> None:
        """Takes a reading that has just arrived, and was asked for at this monotonic time."""
        now = self._clock.monotonic()
        read = database_now.timestamp()
        offset_s = read - now
        step_s = 0.0
        if self._offset_s is not None:
            drift_s = DRIFT * (now - self._read_at)
            kept_s = self._offset_s - drift_s
            step_s = max(offset_s - self._offset_most_s - drift_s, 0.0) or min(read - sent_at - kept_s, 0.0)
            # Above the latest that the reading allows, the database's clock has gone back since.
            if offset_s < kept_s <= read - sent_at:
                offset_s = kept_s
        self._offset_s, self._offset_most_s, self._read_at = offset_s, read - sent_at, now
        if abs(step_s) > STEP_S:
            for tell in self.on_step:
                tell(step_s)

    @property
    def known(self) -> bool:
        return self._offset_s is not None

    def now(self) -> float:
        """Seconds since 1970 by the database's clock. Before the first reading: the wall clock."""
        if self._offset_s is None:
            return self._clock.utc().timestamp()
        return self._clock.monotonic() + self._offset_s

    def datetime(self) -> datetime:
        return datetime.fromtimestamp(self.now(), UTC)

    def skew_s(self) -> float:
        """How far this machine's wall clock is ahead of the database's, in seconds."""
        return self._clock.utc().timestamp() - self.now()


async def wait_for_event(event: asyncio.Event, timeout_s: float, clock: Clock) -> bool:
    """Waits until the event is set or the time is over; True when it was set. Clears nothing."""
    if event.is_set():
        # Others get a turn even when somebody sets the event all the time.
        await clock.sleep(0)
        return True
    waiter = asyncio.ensure_future(event.wait())
    timer = asyncio.ensure_future(clock.sleep(timeout_s))
    try:
        await asyncio.wait({waiter, timer}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (waiter, timer):
            task.cancel()
    return event.is_set()
