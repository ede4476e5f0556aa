"""Carries redrives of dead letters on, whoever began them: any coordinator takes the next bite."""

from typing import Final

from rota.clock import Clock
from rota.coordinator.loop import Loop
from rota.service.deadletters import DeadLetters

IDLE_S: Final = 5.0
"""A redrive whose coordinator has gone, or that another one began, is seen after so long at most."""

TICK_MIN_S: Final = 0.02
"""Another one is busy with what is due: a moment later there is something new to see."""


class Redriver(Loop):
    name = "redriver"

    def __init__(self, dead_letters: DeadLetters, clock: Clock) -> None:
        super().__init__(clock)
        self._dead_letters = dead_letters
        dead_letters.on_started = self.wake

    async def step(self) -> float:
        wait_s = await self._dead_letters.carry_on()
        return IDLE_S if wait_s is None else min(max(wait_s, TICK_MIN_S), IDLE_S)
