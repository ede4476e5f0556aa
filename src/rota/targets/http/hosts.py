"""The targets that a runner calls: how many calls of each at a time, and which of them rest."""

import asyncio
from collections import OrderedDict
from typing import Final

from rota.targets.http.breaker import Breaker

CALLS_DEFAULT: Final = 10
REMEMBERED: Final = 4_096


class Host:
    """One origin: scheme, host and port."""

    def __init__(self, calls: int) -> None:
        self.breaker = Breaker()
        self.calls = calls
        self.running = 0
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()

    @property
    def idle(self) -> bool:
        return self.breaker.idle and not self.running and not self._waiting

    async def enter(self, wait_s: float) -> bool:
        """Takes one of its places, in turn; False when none was free in time. `leave` gives it back."""
        if self.running < self.calls:
            self.running += 1
            return True
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[place] = None
        try:
            await asyncio.wait((place,), timeout=wait_s)
        except asyncio.CancelledError:
            if place.done():
                self.leave()
            raise
        finally:
            self._waiting.pop(place, None)
        return place.done()

    def leave(self) -> None:
        """Gives a place back, to who has waited longest."""
        if self._waiting:
            place, _ = self._waiting.popitem(last=False)
            place.set_result(None)
        else:
            self.running -= 1


class Hosts:
    """All of them; those of which nothing is known are forgotten."""

    def __init__(self, calls: int) -> None:
        self._calls = calls
        self._known: OrderedDict[str, Host] = OrderedDict()

    def of(self, origin: str) -> Host:
        found = self._known.get(origin)
        if found is None:
            found = self._known[origin] = Host(self._calls)
            self._forget()
        self._known.move_to_end(origin)
        return found

    def _forget(self) -> None:
        excess = len(self._known) - REMEMBERED
        if excess > 0:
            # One that rests is kept, or forgetting would wake it.
            for origin in [name for name, host in self._known.items() if host.idle][:excess]:
                del self._known[origin]
