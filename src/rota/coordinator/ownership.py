"""Holds shard terms: renews, acquires, and drops what was lost.

Nothing reaches a worker before a statement that tested the shard's epoch, so the epoch alone makes this safe. The local
deadline, two thirds of the term counted from before the renewal was sent, only saves claims that would come back empty.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence

from rota.clock import Clock, DatabaseClock
from rota.coordinator.loop import Loop
from rota.coordinator.memory import Memory
from rota.domain import limits
from rota.domain.ids import CoordinatorId, ShardNo
from rota.store.port import ShardStore

log = logging.getLogger(__name__)

RENEW_SHARE = 4
"""Renewals in one term."""


class Ownership(Loop):
    name = "ownership"

    def __init__(
        self,
        memory: Memory,
        shards: ShardStore,
        coordinator: CoordinatorId,
        clock: Clock,
        database_clock: DatabaseClock,
        *,
        address: str,
        version: str,
        term_s: float,
        on_acquired: Callable[[Sequence[ShardNo]], Awaitable[None]],
    ) -> None:
        super().__init__(clock)
        self._memory = memory
        self._shards = shards
        self._coordinator = coordinator
        self._database_clock = database_clock
        self._address = address
        self._version = version
        self._term_s = term_s
        self._on_acquired = on_acquired
        self._trusted_until = 0.0
        self._registered = False

    async def register(self) -> bool:
        """Announces this coordinator; True when no other one is alive."""
        sent_at = self.clock.monotonic()
        alone = await self._shards.register(self._coordinator, self._address, self._version, self._term_s)
        self._registered = True
        self._trust(sent_at)
        return alone

    def trusted(self) -> bool:
        """Whether acting for the shards makes sense now."""
        return self.clock.monotonic() < self._trusted_until

    async def step(self) -> float:
        sent_at = self.clock.monotonic()
        alive, now = await self._shards.renew(self._coordinator, self._term_s)
        self._database_clock.observe(now)
        if not alive:
            await self._start_over()
        else:
            self._trust(sent_at)
        if len(self._memory.terms) < limits.SHARD_COUNT:
            await self._shards.acquire(self._coordinator, limits.SHARD_COUNT)
        await self._follow_rows()
        # A timer may be due already by the clock just read, and claims that waited for trust can go on.
        self._memory.release_due()
        self._memory.on_ready()
        return self._term_s / RENEW_SHARE

    async def leave(self) -> None:
        """Gives every shard back, each under a new epoch."""
        self._trusted_until = 0.0
        self._memory.forget_shards(frozenset(self._memory.terms))
        await self._shards.release(self._coordinator)

    async def _start_over(self) -> None:
        # The term ran out, so anything may have happened to the shards. Fences of the old epochs stay valid for the
        # leases that carry them; new ones come from new epochs.
        log.warning("the term ran out before it was renewed: starting over with new epochs")
        self._trusted_until = 0.0
        self._memory.forget_shards(frozenset(self._memory.terms))
        await self._shards.release(self._coordinator)
        await self.register()

    async def _follow_rows(self) -> None:
        # What is owned is read, not remembered: an acquisition may have committed although its answer was lost, or
        # what came after it failed. Its shards would have a living owner that does not know of them.
        owned = {term.shard: term for term in await self._shards.held(self._coordinator)}
        lost = frozenset(shard for shard, term in self._memory.terms.items() if owned.get(shard) != term)
        if lost:
            log.warning("%d shards are no longer this coordinator's", len(lost))
            self._memory.forget_shards(lost)
        fresh = {shard: owned[shard] for shard in sorted(owned.keys() - self._memory.terms.keys())}
        if fresh:
            log.info("acquired %d shards", len(fresh))
            await self._on_acquired(list(fresh))
            self._memory.terms |= fresh

    def _trust(self, sent_at: float) -> None:
        self._trusted_until = sent_at + self._term_s * 2 / 3
