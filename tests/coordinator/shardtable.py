"""The rows of coordinators and shards in memory, as ShardStore reads and writes them."""

import asyncio
from collections.abc import Sequence
from datetime import datetime

from rota.domain import limits
from rota.domain.errors import OutcomeUnknown, Unavailable
from rota.domain.ids import CoordinatorId, ShardNo
from rota.domain.model import ShardTerm
from rota.store.port import Colleague, Roster

from .fakes import ME, FakeClock

ALL = [ShardNo(n) for n in range(limits.SHARD_COUNT)]


class ShardTable:
    """`lose` names calls that are carried out and not answered; `down` refuses all; an answer waits for the event of
    its name in `held`."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.expires: dict[CoordinatorId, float] = {}
        self.addresses: dict[CoordinatorId, str] = {}
        self.draining: set[CoordinatorId] = set()
        self.owners: dict[ShardNo, CoordinatorId | None] = dict.fromkeys(ALL)
        self.epochs: dict[ShardNo, int] = dict.fromkeys(ALL, 0)
        self.calls: list[str] = []
        self.lose: list[str] = []
        self.down = False
        self.latency_s = 0.0
        self.incarnation = "here/1"
        self.held: dict[str, asyncio.Event] = {}

    def owned(self, by: CoordinatorId = ME) -> list[ShardNo]:
        return [shard for shard, owner in self.owners.items() if owner == by]

    def join(self, coordinator: CoordinatorId, term_s: float, owned: Sequence[ShardNo] = (), address: str = "") -> None:
        """Another coordinator, that acts only by the hand of the test."""
        self.expires[coordinator] = self.clock.now + term_s
        self.addresses[coordinator] = address
        for shard in owned:
            self.owners[shard] = coordinator
            self.epochs[shard] += 1

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self.down:
            raise Unavailable("down")
        self.clock.now += self.latency_s

    async def _answer(self, name: str) -> None:
        await asyncio.sleep(0)
        if name in self.held:
            await self.held[name].wait()
        if name in self.lose:
            self.lose.remove(name)
            raise OutcomeUnknown("the answer was lost")

    def alive(self, coordinator: CoordinatorId | None) -> bool:
        return coordinator is not None and self.expires.get(coordinator, 0.0) > self.clock.now

    async def register(
        self, coordinator: CoordinatorId, address: str, version: str, term_s: float, peer_address: str = ""
    ) -> bool:
        self._call("register")
        alone = not any(self.alive(other) for other in self.expires if other != coordinator)
        self.expires[coordinator] = self.clock.now + term_s
        self.addresses[coordinator] = peer_address
        await self._answer("register")
        return alone

    async def renew(self, coordinator: CoordinatorId, term_s: float) -> tuple[bool, datetime]:
        self._call("renew")
        alive = self.alive(coordinator)
        if alive:
            self.expires[coordinator] = self.clock.now + term_s
        await self._answer("renew")
        return alive, self.clock.utc()

    async def shorten(self, term_s: float) -> None:
        self._call("shorten")
        self.expires = {id: min(at, self.clock.now + term_s) for id, at in self.expires.items()}
        await self._answer("shorten")

    async def roster(self) -> Roster:
        self._call("roster")
        living = tuple(
            Colleague(id, self.addresses.get(id, ""), at - self.clock.now, id in self.draining)
            for id, at in self.expires.items()
            if self.alive(id)
        )
        shards = {shard: (self.epochs[shard], owner) for shard, owner in self.owners.items()}
        roster = Roster(living, shards, self.incarnation)
        await self._answer("roster")
        return roster

    async def acquire(
        self, coordinator: CoordinatorId, limit: int, only: Sequence[ShardNo] | None = None
    ) -> list[ShardTerm]:
        self._call("acquire")
        wanted = ALL if only is None else sorted(only)
        free = [shard for shard in wanted if not self.alive(self.owners[shard])][:limit]
        if not self.alive(coordinator):
            free = []
        for shard in free:
            self.owners[shard] = coordinator
            self.epochs[shard] += 1
        terms = [ShardTerm(shard, self.epochs[shard], coordinator) for shard in free]
        await self._answer("acquire")
        return terms

    async def give_up(self, coordinator: CoordinatorId, shards: Sequence[ShardNo]) -> list[ShardNo]:
        self._call("give_up")
        given = [shard for shard in shards if self.owners[shard] == coordinator]
        self._free(given)
        await self._answer("give_up")
        return given

    async def drain(self, coordinator: CoordinatorId) -> None:
        self._call("drain")
        self.draining.add(coordinator)
        await self._answer("drain")

    async def release(self, coordinator: CoordinatorId) -> None:
        self._call("release")
        self._free(self.owned(coordinator))
        self.expires.pop(coordinator, None)
        self.draining.discard(coordinator)
        await self._answer("release")

    def _free(self, shards: Sequence[ShardNo]) -> None:
        for shard in shards:
            self.owners[shard] = None
            self.epochs[shard] += 1
