"""Turns armed schedules of owned shards into jobs, and goes on with backfills once what is live is done.

A schedule is armed for the time at which somebody is to look at it. The materializer reads what is armed within the
next moment, takes the steps whose time has come, and sleeps until the next one.
"""

import logging
from datetime import timedelta

from rota.clock import Clock, DatabaseClock
from rota.coordinator.loop import Loop
from rota.coordinator.memory import Memory
from rota.service.backfills import Backfills
from rota.service.fires import Fires
from rota.store.scheduleport import Armed, FireStore

log = logging.getLogger(__name__)

TICK_S = 1.0
"""What another coordinator armed meanwhile is seen after so long at most."""

BACKFILLS_S = 3.0
"""While no backfill runs, one that began without a word is seen after so long at most."""

BACKFILLING_S = 15.0
"""One that waits for its rate, or for what is live, comes back within this time."""

PAGE_ROWS = 2_000
"""Timers of one read, shared by the shards."""

SHARD_PAGE_MIN = 4

TOGETHER_S = 0.02
"""What is due within so little of each other is taken together."""


class Materializer(Loop):
    name = "materializer"

    def __init__(
        self,
        memory: Memory,
        store: FireStore,
        fires: Fires,
        backfills: Backfills,
        clock: Clock,
        database_clock: DatabaseClock,
    ) -> None:
        super().__init__(clock)
        self._memory = memory
        self._store = store
        self._fires = fires
        self._backfills = backfills
        self._database_clock = database_clock
        self._backfills_at = 0.0
        self._backfilling_until = 0.0
        memory.on_armed = self._armed

    def _armed(self) -> None:
        self._backfills_at = 0.0
        self.wake()

    async def step(self) -> float:
        shards = sorted(self._memory.terms)
        if not shards:
            return TICK_S
        page = max(PAGE_ROWS // len(shards), SHARD_PAGE_MIN)
        until = self._database_clock.datetime() + timedelta(seconds=TICK_S)
        sent_at = self.clock.monotonic()
        armed, now = await self._store.read_armed(shards, until, page)
        if now is not None:
            self._database_clock.observe(now, sent_at)
        now = now or self._database_clock.datetime()
        due = [each for each in armed if each.timer.arm_at is not None and each.timer.arm_at <= now]
        more = await self._fires.run(self._memory.terms, due, now) if due else False
        counts: dict[int, int] = {}
        for each in due:
            counts[each.shard] = counts.get(each.shard, 0) + 1
        if more or any(count >= page for count in counts.values()):
            return 0.0
        if await self._backfill():
            # What is live comes first again.
            return 0.0
        return self._until_next(armed, due)

    async def _backfill(self) -> bool:
        now = self.clock.monotonic()
        if now < self._backfills_at:
            return False
        if await self._backfills.run(self._memory.terms):
            self._backfilling_until = now + BACKFILLING_S
            return True
        self._backfills_at = now if now < self._backfilling_until else now + BACKFILLS_S
        return False

    def _until_next(self, armed: list[Armed], due: list[Armed]) -> float:
        """How long until the next one that was read, or the next read."""
        taken = {each.uid for each in due}
        later = [each.timer.arm_at for each in armed if each.uid not in taken and each.timer.arm_at is not None]
        if not later:
            return TICK_S
        wait = min(later) - self._database_clock.datetime()
        return min(max(wait.total_seconds(), TOGETHER_S), TICK_S)
