"""Feeds: who reads, when, and how often; what keeps changes coming and what lets go of them."""

import asyncio
from typing import Any, cast

import pytest

from rota.coordinator.feeds import EVERY_S, LOOK_S, STILL_S, TIDY_AGAIN_S, Feed, Feeds
from rota.domain.change import Change, Page, Position
from rota.domain.errors import FailedPrecondition, Unavailable
from rota.domain.ids import ShardNo, TenantId
from rota.service.changes import Place, too_old
from rota.store.changeport import Coverage

from .fakes import World
from .virtual import loop_clock, virtual

TENANT = TenantId(1)
COVERAGE = Coverage(1, "db")
ROOM = 3


class Log:
    """Changes as a database has them that commits in the order of its numbers."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.reads: list[int] = []
        self.extended = 0
        self.tidied = 0
        self.more = False
        self.gone = False

    def write(self, count: int = 1) -> None:
        self.rows += range(len(self.rows) + 1, len(self.rows) + 1 + count)

    async def begin(self, tenant: TenantId) -> Place:
        return Place(COVERAGE, Position(len(self.rows) + 1))

    async def extend(self, tenant: TenantId, coverage: Coverage) -> None:
        self.extended += 1
        if self.gone:
            raise too_old()

    async def after(self, tenant: TenantId, place: Place) -> Page:
        self.reads.append(place.position.next_xid)
        found = [Change(xid, xid, "q", "t", cast("Any", None)) for xid in self.rows if place.position.unseen(xid, xid)]
        await asyncio.sleep(0)
        return Page(place.position, Position(len(self.rows) + 1), found[:ROOM], len(found) > ROOM)

    async def tidy(self) -> bool:
        self.tidied += 1
        return self.more


def feeds(log: Log) -> Feeds:
    world = World()
    return Feeds(world.memory, log, loop_clock(asyncio.get_running_loop()))  # type: ignore[arg-type]


def now() -> float:
    return asyncio.get_running_loop().time()


@virtual
async def test_who_has_seen_everything_shares_one_read() -> None:
    log = Log()
    found = feeds(log)
    async with found.watch(TENANT, None) as one, found.watch(TENANT, None) as two:
        waiting = [asyncio.ensure_future(each.next()) for each in (one, two)]
        await asyncio.sleep(5 * LOOK_S)
        quiet = len(log.reads)
        assert quiet <= 7
        log.write(2)
        first, second = [[change.xid for change, _ in await each] for each in waiting]
        assert first == second == [1, 2]
        assert len(log.reads) <= quiet + 2
        # Nobody waits, so nobody reads.
        read = len(log.reads)
        log.write(2)
        await asyncio.sleep(10 * LOOK_S)
        assert len(log.reads) == read


@virtual
async def test_who_is_behind_reads_by_itself_and_catches_up() -> None:
    log = Log()
    found = feeds(log)
    async with found.watch(TENANT, None) as quick, found.watch(TENANT, None) as slow:
        log.write(10)
        seen: dict[str, list[int]] = {"quick": [], "slow": []}
        while len(seen["quick"]) < 10:
            seen["quick"] += [change.xid for change, _ in await quick.next()]
        while len(seen["slow"]) < 10:
            seen["slow"] += [change.xid for change, _ in await slow.next()]
        assert seen["quick"] == seen["slow"] == list(range(1, 11))
        waiting = [asyncio.ensure_future(each.next()) for each in (quick, slow)]
        await asyncio.sleep(0.01)
        read = len(log.reads)
        log.write()
        assert [[change.xid for change, _ in await each] for each in waiting] == [[11], [11]]
        assert len(log.reads) <= read + 2


@virtual
async def test_silence_ends_after_a_while() -> None:
    log = Log()
    async with feeds(log).watch(TENANT, None) as watcher:
        began = now()
        assert list(await watcher.next()) == []
        assert STILL_S <= now() - began < STILL_S + 2 * LOOK_S


@virtual
async def test_a_caller_that_is_cancelled_cancels_no_read() -> None:
    log = Log()
    found = feeds(log)
    async with found.watch(TENANT, None) as one, found.watch(TENANT, None) as two:
        gone, stays = asyncio.ensure_future(one.next()), asyncio.ensure_future(two.next())
        await asyncio.sleep(0.1)
        gone.cancel()
        await asyncio.sleep(0.1)
        log.write()
        assert [change.xid for change, _ in await stays] == [1]


@virtual
async def test_leaving_ends_those_that_wait_and_takes_no_others() -> None:
    found = feeds(Log())
    async with found.watch(TENANT, None) as watcher:
        waiting = asyncio.ensure_future(watcher.next())
        await asyncio.sleep(0.1)
        found.close()
        with pytest.raises(Unavailable, match="leaving"):
            await waiting
        with pytest.raises(Unavailable, match="leaving"):
            watcher.check()
    with pytest.raises(Unavailable, match="leaving"):
        async with found.watch(TENANT, None):
            pass


@virtual
async def test_changes_are_kept_coming_while_somebody_watches() -> None:
    """One that takes nothing for long keeps its place too."""
    log = Log()
    found = feeds(log)
    async with found.watch(TENANT, None):
        for count in (1, 2, 3):
            assert await found.step() == EVERY_S
            assert log.extended == count
        log.gone = True
        assert await found.step() == EVERY_S
    await found.step()
    assert log.extended == 4
    with pytest.raises(FailedPrecondition):
        async with found.watch(TENANT, Place(COVERAGE, Position(1))):
            pass


@virtual
async def test_the_owner_of_the_first_shard_tidies_up() -> None:
    log = Log()
    found = feeds(log)
    assert await found.step() == EVERY_S and log.tidied == 1
    log.more = True
    assert await found.step() == TIDY_AGAIN_S and log.tidied == 2
    del found._memory.terms[ShardNo(0)]
    assert await found.step() == EVERY_S and log.tidied == 2


@virtual
async def test_a_feed_without_watchers_is_forgotten() -> None:
    found = feeds(Log())
    async with found.watch(TENANT, None), found.watch(TENANT, None):
        assert len(found) == 2
        (feed,) = found._feeds.values()
        assert isinstance(feed, Feed) and not feed.closed
    assert (len(found), found._feeds, feed.closed) == (0, {}, True)
