"""Finds schedules that are not as they should be, without the path that fires: overdue ones, active ones that wait for
nothing, and those whose next time was computed by other time-zone data."""

from datetime import timedelta

from rota.clock import Clock, DatabaseClock
from rota.coordinator.loop import Loop
from rota.coordinator.memory import Memory
from rota.domain import zones
from rota.domain.ids import ScheduleUid
from rota.service.repairs import Repairs
from rota.store.scheduleport import FireStore

EVERY_S = 5.0
OVERDUE_S = 30.0
"""So long after its time a step has been forgotten, or the materializer is in trouble."""

OVERDUE_PAGE = 1
"""Overdue schedules of one shard that one round takes."""

PAGE = 1_000
"""Timers that one round looks through."""


class Sweeper(Loop):
    name = "sweeper"

    def __init__(
        self, memory: Memory, store: FireStore, repairs: Repairs, clock: Clock, database_clock: DatabaseClock
    ) -> None:
        super().__init__(clock)
        self._memory = memory
        self._store = store
        self._repairs = repairs
        self._database_clock = database_clock
        self._after: ScheduleUid | None = None

    async def step(self) -> float:
        shards = sorted(self._memory.terms)
        if not shards:
            return EVERY_S
        now = self._database_clock.datetime()
        overdue, _ = await self._store.read_armed(shards, now - timedelta(seconds=OVERDUE_S), OVERDUE_PAGE)
        await self._repairs.fire_overdue(self._memory.terms, overdue, now)
        unfit, self._after = await self._store.read_unfit(self._after, PAGE, zones.version())
        await self._repairs.rearm(self._memory.terms, unfit, now)
        return EVERY_S
