"""What jobs act on: a system that takes part in exactly-once effects, as semantics.md section 6 (E1) asks.

It keeps the newest fence of each effect key, refuses an older one, and carries each key out once.
"""

import asyncio
from typing import Any

from rota.domain.ids import Fence, JobId

from .faults import Faults
from .history import History
from .loop import Process, SimLoop

APPLIED = "applied"
REPEATED = "repeated"
REFUSED = "refused"


class Target:
    name = "target"

    def __init__(self, loop: SimLoop, faults: Faults, history: History, removed: frozenset[str]) -> None:
        self.process: Process | None = loop.process("target")
        self._faults = faults
        self._history = history
        self._removed = removed
        self._newest: dict[str, Fence] = {}
        self._applied: set[str] = set()

    async def serve(self, method: str, request: dict[str, Any], left_s: float) -> str:
        takes_s = self._faults.target_takes_s()
        if takes_s:
            # Whoever gives up meanwhile cannot stop it.
            return await asyncio.shield(asyncio.ensure_future(self._slowly(takes_s, request)))
        return self._apply(**request)

    async def _slowly(self, takes_s: float, request: dict[str, Any]) -> str:
        await asyncio.sleep(takes_s)
        return self._apply(**request)

    def _apply(self, *, key: str, fence: Fence, job: JobId) -> str:
        if fence < self._newest.get(key, 0) and "target: fence" not in self._removed:
            verdict = REFUSED
        else:
            self._newest[key] = fence
            repeated = key in self._applied and "target: key" not in self._removed
            self._applied.add(key)
            verdict = REPEATED if repeated else APPLIED
        self._history.note("effect", job=job, fence=fence, key=key, verdict=verdict)
        return verdict
