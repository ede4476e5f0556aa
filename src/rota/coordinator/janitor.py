"""Keeps history within its bounds: makes day partitions ahead, drops old ones, forgets old request_ids."""

import logging

from rota.clock import Clock
from rota.coordinator.loop import Loop
from rota.domain import limits
from rota.store.effectport import EffectStore
from rota.store.port import HistoryStore

log = logging.getLogger(__name__)

EVERY_S = 600.0
DAYS_AHEAD = 7
BITE = 5_000


class Janitor(Loop):
    name = "janitor"
    patience_s = 6 * EVERY_S
    vital = False

    def __init__(self, history: HistoryStore, effects: EffectStore, clock: Clock, *, history_s: float) -> None:
        super().__init__(clock)
        self._history = history
        self._effects = effects
        self._history_s = max(history_s, limits.REQUEST_LIFE_S)

    async def step(self) -> float:
        for name in await self._history.make_partitions(DAYS_AHEAD, self._history_s):
            log.debug("made partition %s", name)
        for name in await self._history.drop_partitions(self._history_s):
            log.info("dropped partition %s: older than the history kept", name)
        forgotten = await self._history.delete_requests(limits.REQUEST_LIFE_S, BITE)
        forgotten += await self._history.forget_schedules(self._history_s, BITE)
        forgotten += await self._effects.forget(self._history_s, BITE)
        return 1.0 if forgotten >= BITE else EVERY_S
