"""Coordinators and the shards that they own."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from rota.domain import limits
from rota.domain.ids import CoordinatorId, ShardNo
from rota.domain.model import (
    ShardTerm,
)
from rota.store.codec import instant
from rota.store.port import (
    Colleague,
    Roster,
)

from .tables import CoordinatorRow, Port, UniqueViolation


class FakeShards(Port):
    """ShardStore."""

    async def register(
        self, coordinator: CoordinatorId, address: str, version: str, term_s: float, peer_address: str = ""
    ) -> bool:
        def work() -> bool:
            db = self._db
            if coordinator in db.coordinators:
                raise UniqueViolation(coordinator)
            for id, row in list(db.coordinators.items()):
                if row.address == address:
                    del db.coordinators[id]
            until_us = db.now_us + round(term_s * 1e6)
            db.coordinators[coordinator] = CoordinatorRow(address, peer_address, until_us)
            db.history.note("registered", coordinator=coordinator, address=address, until_us=until_us)
            return not any(db.coordinator_alive(id) for id in db.coordinators if id != coordinator)

        return await self._write("register", work, "terms")

    async def renew(self, coordinator: CoordinatorId, term_s: float) -> tuple[bool, datetime]:
        def work() -> tuple[bool, datetime]:
            db = self._db
            row = db.coordinators.get(coordinator)
            alive = row is not None and db.guard("renew: alive", db.coordinator_alive(coordinator))
            if row is not None and alive:
                row.until_us = db.now_us + round(term_s * 1e6)
                db.history.note("renewed", coordinator=coordinator, until_us=row.until_us)
            return alive, instant(db.now_us)

        return await self._write("renew", work, "terms")

    async def shorten(self, term_s: float) -> None:
        def work() -> None:
            most_us = self._db.now_us + round(term_s * 1e6)
            for id, row in self._db.coordinators.items():
                if row.until_us > most_us:
                    row.until_us = most_us
                    self._db.history.note("shortened", coordinator=id, until_us=most_us)

        await self._write("shorten", work, "terms")

    async def roster(self) -> Roster:
        def work() -> Roster:
            db = self._db
            living = tuple(
                Colleague(id, row.peer_address, (row.until_us - db.now_us) / 1e6, row.draining)
                for id, row in db.coordinators.items()
                if db.coordinator_alive(id)
            )
            shards = {number: (shard.epoch, shard.owner) for number, shard in db.shards.items()}
            return Roster(living, shards, str(db.incarnation))

        return await self._read("roster", work, "terms")

    async def acquire(
        self, coordinator: CoordinatorId, limit: int, only: Sequence[ShardNo] | None = None
    ) -> list[ShardTerm]:
        def work() -> list[ShardTerm]:
            db = self._db
            if not db.guard("acquire: alive", db.coordinator_alive(coordinator)):
                return []
            terms = []
            for number, shard in db.shards.items():
                if only is not None and number not in only:
                    continue
                free = db.guard("acquire: free", not db.coordinator_alive(shard.owner))
                step = 1 if shard.incarnation == db.incarnation else limits.EPOCH_STEP
                if not free or len(terms) == limit or shard.epoch + step > limits.EPOCH_MAX:
                    continue
                shard.owner = coordinator
                shard.incarnation = db.incarnation
                shard.epoch += step * db.intact("acquire: epoch grows")
                terms.append(ShardTerm(number, shard.epoch, coordinator))
                db.history.note("acquired", shard=number, epoch=shard.epoch, owner=coordinator)
            return terms

        return await self._write("acquire", work, "terms")

    async def give_up(self, coordinator: CoordinatorId, shards: Sequence[ShardNo]) -> list[ShardNo]:
        def work() -> list[ShardNo]:
            owned = [n for n in shards if self._db.guard("give_up: owner", self._db.shards[n].owner == coordinator)]
            self._free(owned, coordinator, "give_up: epoch grows")
            return owned

        return await self._write("give_up", work, "terms")

    async def drain(self, coordinator: CoordinatorId) -> None:
        def work() -> None:
            row = self._db.coordinators.get(coordinator)
            if row is not None:
                row.draining = True

        await self._write("drain", work, "terms")

    async def release(self, coordinator: CoordinatorId) -> None:
        def work() -> None:
            owned = [number for number, shard in self._db.shards.items() if shard.owner == coordinator]
            self._free(owned, coordinator, "release: epoch grows")
            self._db.coordinators.pop(coordinator, None)

        await self._write("release", work, "terms")

    def _free(self, shards: Iterable[ShardNo], coordinator: CoordinatorId, guard: str) -> None:
        for number in shards:
            shard = self._db.shards[number]
            shard.owner = None
            shard.epoch += self._db.intact(guard)
            self._db.history.note("released", shard=number, epoch=shard.epoch, owner=coordinator)

    async def set_watermarks(self, marks: Mapping[ShardNo, int], coordinator: CoordinatorId) -> None:
        def work() -> None:
            for number, mark_us in marks.items():
                shard = self._db.shards[number]
                if self._db.guard("set_watermarks: owner", shard.owner == coordinator):
                    shard.watermark_us = mark_us

        await self._write("set_watermarks", work, "terms")

    async def watermarks(self, shards: Sequence[ShardNo]) -> dict[ShardNo, int]:
        def work() -> dict[ShardNo, int]:
            found = {number: self._db.shards[number].watermark_us for number in shards}
            return {number: mark_us for number, mark_us in found.items() if mark_us is not None}

        return await self._read("watermarks", work, "terms")
