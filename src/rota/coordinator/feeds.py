"""Watchers of changes at one coordinator.

All watchers of a tenant that have seen everything so far wait for one and the same read, and take its page from memory;
one that is behind reads by itself from where it is, a page at a time and only when it has taken the one before. So what
is held is a page for each watcher at most, and nothing is read while nobody waits.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar

from rota.clock import Clock, wait_for_event
from rota.coordinator.loop import Loop
from rota.coordinator.memory import Memory
from rota.domain import limits
from rota.domain.change import Change, Page, Position
from rota.domain.errors import FailedPrecondition, ResourceExhausted, leaving
from rota.domain.ids import ShardNo, TenantId
from rota.domain.portions import Portions
from rota.service.changes import Changes, Place
from rota.store.changeport import Coverage

EVERY_S: Final = 30.0
TIDY_AGAIN_S: Final = 0.2
FIRST_SHARD: Final = ShardNo(0)

LOOK_S: Final = 0.5
"""Between two reads that find nothing."""

LOOK_AGAIN_S: Final = 0.05
"""After one that found something: the longer the wait, the more goes into one read."""

STILL_S: Final = 20.0
"""A watcher hears that nothing happened this often."""

GO_ON: Final = "go on at another one with the resume_token of the last answer"

T = TypeVar("T")


class Feed:
    """What changes of a tenant's jobs. `base`: nothing has changed between it and the head."""

    def __init__(self, tenant: TenantId, place: Place, changes: Changes, clock: Clock) -> None:
        self.tenant = tenant
        self.coverage = place.coverage
        self.watchers = 0
        self._changes = changes
        self._clock = clock
        self._base = self._head = place.position
        self._last: Page | None = None
        self._due = 0.0
        self._reading: asyncio.Task[Page] | None = None
        self._over = asyncio.Event()

    def close(self) -> None:
        self._over.set()

    @property
    def closed(self) -> bool:
        return self._over.is_set()

    async def after(self, position: Position) -> Page:
        """What comes next, perhaps with changes that were seen at the position; without any after a while."""
        if self.closed:
            raise leaving(GO_ON)
        last = self._last
        if position.covers(self._base):
            if self._reading is None or self._reading.done():
                self._reading = owned(self._read())
            return await asyncio.shield(self._reading)
        if last is not None and position.covers(last.before):
            return last
        return await asyncio.shield(owned(self._page(position)))

    async def _read(self) -> Page:
        clock = self._clock
        until = clock.monotonic() + STILL_S
        while True:
            await wait_for_event(self._over, self._due - clock.monotonic(), clock)
            if self.closed:
                raise leaving(GO_ON)
            page = await self._page(self._head)
            self._head = page.after
            self._due = clock.monotonic() + (0.0 if page.more else LOOK_AGAIN_S if page.changes else LOOK_S)
            if page.changes:
                self._last, self._base = page, page.after
            if page.changes or clock.monotonic() >= until:
                return page

    async def _page(self, position: Position) -> Page:
        return await self._changes.after(self.tenant, Place(self.coverage, position))


class Watcher:
    """One that watches, from a place on."""

    def __init__(self, feed: Feed, position: Position) -> None:
        self._feed = feed
        self.position = position

    @property
    def coverage(self) -> Coverage:
        return self._feed.coverage

    async def next(self) -> Iterator[tuple[Change, Position]]:
        """What is new, each with how far all is seen by then; nothing at all after a while."""
        page = await self._feed.after(self.position)
        new = page.unseen_at(self.position)
        self.position = page.after
        return new

    def check(self) -> None:
        """Raises when the coordinator is leaving."""
        if self._feed.closed:
            raise leaving(GO_ON)


class Feeds(Loop):
    """The loop keeps changes coming for who watches, and has old ones deleted."""

    name = "feeds"
    patience_s = 10 * EVERY_S
    vital = False

    def __init__(self, memory: Memory, changes: Changes, clock: Clock) -> None:
        super().__init__(clock)
        self._memory = memory
        self._changes = changes
        self._feeds: dict[tuple[TenantId, Coverage], Feed] = {}
        self._watches = Portions(limits.WATCHES_MAX)
        self._leaving = False

    def __len__(self) -> int:
        return self._watches.total

    @asynccontextmanager
    async def watch(self, tenant: TenantId, place: Place | None) -> AsyncIterator[Watcher]:
        """A watcher for the length of the block. `place` None: from now on."""
        if not self._watches.has_room(tenant):
            raise ResourceExhausted(
                f"{self._watches.of(tenant)} of your WatchJobs streams are open here, {self._watches.total} in all; "
                "let several readers of yours share one",
                retry_after_s=self.clock.rng.uniform(0.5, 1.5),
            )
        self._watches.add(tenant)
        try:
            if self._leaving:
                raise leaving(GO_ON)
            if place is None:
                place = await asyncio.shield(owned(self._changes.begin(tenant)))
            else:
                await asyncio.shield(owned(self._changes.extend(tenant, place.coverage)))
            feed = self._feeds.get((tenant, place.coverage))
            if feed is None:
                feed = self._feeds[tenant, place.coverage] = Feed(tenant, place, self._changes, self.clock)
            if self._leaving:
                feed.close()
            feed.watchers += 1
            try:
                yield Watcher(feed, place.position)
            finally:
                feed.watchers -= 1
                if not feed.watchers:
                    feed.close()
                    self._feeds.pop((tenant, place.coverage), None)
        finally:
            self._watches.remove(tenant)

    def close(self) -> None:
        """Ends all streams: their watchers go on elsewhere."""
        self._leaving = True
        for feed in self._feeds.values():
            feed.close()

    async def step(self) -> float:
        for feed in list(self._feeds.values()):
            # Watchers hear of it where they read.
            with suppress(FailedPrecondition):
                await self._changes.extend(feed.tenant, feed.coverage)
        # What is common to all is done by whoever owns the first shard.
        if FIRST_SHARD in self._memory.terms and await self._changes.tidy():
            return TIDY_AGAIN_S
        return EVERY_S


def owned(work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    """A task of its own, which whoever waits for it may leave alone: no statement is to be cancelled by a caller."""
    task = asyncio.ensure_future(work)
    _owned.add(task)
    task.add_done_callback(_done)
    return task


_owned: set["asyncio.Task[Any]"] = set()


def _done(task: "asyncio.Task[Any]") -> None:
    _owned.discard(task)
    if not task.cancelled():
        task.exception()
