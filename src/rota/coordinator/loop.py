"""A loop is `step()` plus `run()`: step does one bounded round and says how long to wait, run only waits.

A step that fails is logged and tried again with growing, jittered waits; a loop never ends by an error. One that has
had no success for longer than its patience is *stalled*, whether its steps fail or hang: the process lives, and the
duty is not done.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import Final

from rota.clock import Clock, wait_for_event
from rota.domain.errors import Unavailable

log = logging.getLogger(__name__)

BACKOFF_FIRST_S = 0.2
BACKOFF_MAX_S = 5.0

PATIENCE_S: Final = 60.0
"""Longer than a loop that is well waits, and than a statement may take before it is given up."""


class Loop(ABC):
    """One duty of a coordinator."""

    name: str
    patience_s: float = PATIENCE_S
    vital: bool = True
    """Without it work stands still, so that whoever cannot do it is to leave the shards to others."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.last_ok: float | None = None
        self._began: float | None = None
        self._wake = asyncio.Event()
        self._stopping = False
        self._failures = 0

    @abstractmethod
    async def step(self) -> float:
        """One bounded round; seconds until the next one."""

    def wake(self) -> None:
        """Ends the present wait."""
        self._wake.set()

    def stop(self) -> None:
        self._stopping = True
        self.wake()

    def stalled(self) -> bool:
        """Whether it runs, and has had no success for too long."""
        if self._began is None or self._stopping:
            return False
        since = self._began if self.last_ok is None else max(self._began, self.last_ok)
        return self.clock.monotonic() - since > self.patience_s

    async def run(self) -> None:
        self._began = self.clock.monotonic()
        while not self._stopping:
            self._wake.clear()
            wait_s = await self.step_safely()
            if not self._stopping:
                await wait_for_event(self._wake, wait_s, self.clock)

    async def step_safely(self) -> float:
        """A step whose failure is logged, once for each series of failures."""
        try:
            wait_s = await self.step()
        except Exception as error:
            self._failures += 1
            wait_s = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** min(self._failures - 1, 10))
            if self._failures == 1:
                expected = isinstance(error, Unavailable)
                log.log(
                    logging.WARNING if expected else logging.ERROR,
                    "%s failed, trying again: %s",
                    self.name,
                    error,
                    exc_info=not expected,
                )
            return wait_s * self.clock.rng.uniform(0.5, 1.0)
        if self._failures:
            log.info("%s works again after %d failures", self.name, self._failures)
        self._failures = 0
        self.last_ok = self.clock.monotonic()
        return wait_s
