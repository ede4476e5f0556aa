"""Looks all the time, and slowly, whether what must always hold does hold; tells of what does not, and repairs it.

Each round takes one slice of what is due in the own shards, where work could stand still unseen, and one of one of the
other walks through tables that are not told apart by shard: those are done by whoever owns the first shard.
"""

from typing import Final

from rota.clock import Clock
from rota.coordinator.loop import Loop
from rota.coordinator.memory import Memory
from rota.domain.ids import ShardNo
from rota.domain.invariants import Walk
from rota.service.invariants import Invariants
from rota.store.invariantport import Place

EVERY_S: Final = 60.0
DUE_ROWS: Final = 2_000
ROWS: Final = 500
"""Each is looked up in several tables: some 50 ms of the database."""

FIRST_SHARD: Final = ShardNo(0)

_ALONE: Final = tuple(walk for walk in Walk if walk not in (Walk.SHARDS, Walk.DUE))


class Auditor(Loop):
    name = "auditor"
    patience_s = 10 * EVERY_S
    vital = False

    def __init__(self, memory: Memory, invariants: Invariants, clock: Clock) -> None:
        super().__init__(clock)
        self._memory = memory
        self._invariants = invariants
        self._due: Place | None = None
        self._turn = 0
        self._at: Place | None = None
        self._started = False

    async def step(self) -> float:
        if not self._started:
            # What a start, and the outage before it, has left is for the other loops first.
            self._started = True
            return EVERY_S
        shards = sorted(self._memory.terms)
        if not shards:
            return EVERY_S
        self._due = await self._invariants.look(Walk.DUE, self._due, shards, DUE_ROWS)
        if FIRST_SHARD in self._memory.terms:
            await self._invariants.look(Walk.SHARDS, None, None, ROWS)
            self._at = await self._invariants.look(_ALONE[self._turn], self._at, None, ROWS)
            if self._at is None:
                self._turn = (self._turn + 1) % len(_ALONE)
        return EVERY_S
