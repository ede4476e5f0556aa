"""Queues: what is set for them, pausing them, what is in them, and emptying them."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rota.clock import Clock
from rota.domain import limits
from rota.domain.errors import Unavailable
from rota.domain.ids import ShardNo
from rota.domain.model import Identity, JobState
from rota.domain.queue import Queue, QueueCounts, QueueSettings, check_queue_settings, queue_not_found
from rota.domain.text import Problems
from rota.service.changing import check_current
from rota.service.jobs import Jobs
from rota.service.notices import Notices
from rota.store.queueport import QueueFilter, QueueKey, QueueStore

log = logging.getLogger(__name__)

COUNTS_LIFE_S: Final = 5.0
"""Counts are taken for all queues at once, and at most so often."""

COUNTS_RETAKE_S: Final = 1.0
"""Where counts do not know a queue, they are taken again before it is said not to exist: its first job may be new. Not
more often than this, so that such an answer may take as long."""

CHANGE_TRIES: Final = 5

PURGE_BITE: Final = 500
"""Jobs of one transaction."""

PURGE_SHARDS: Final = 32
"""Shards that one statement looks through."""


@dataclass(frozen=True, slots=True)
class Purged:
    """`more`: there are others still."""

    count: int
    more: bool


class Queues:
    def __init__(self, store: QueueStore, jobs: Jobs, notices: Notices, clock: Clock) -> None:
        self._store = store
        self._jobs = jobs
        self._notices = notices
        self._clock = clock
        self._counts: Mapping[QueueKey, QueueCounts] = {}
        self._counted_at: float | None = None
        self._counting = asyncio.Lock()

    async def get(self, identity: Identity, id: str) -> tuple[Queue, QueueCounts]:
        """A queue, stored or in use."""
        tenant = identity.tenant_id
        stored = await self._store.get(tenant, id)
        counts = await self._count()
        if stored is None and (tenant, id) not in counts:
            counts = await self._count_again()
            if (tenant, id) not in counts:
                raise queue_not_found(id)
        return stored or Queue(tenant, id), counts.get((tenant, id), QueueCounts())

    async def page(self, identity: Identity, after: str, limit: int) -> list[tuple[Queue, QueueCounts]]:
        """Every queue that is stored or in use, by the bytes of their ids."""
        tenant = identity.tenant_id
        counts = await self._count()
        stored = {queue.id: queue for queue in await self._store.page(tenant, after, limit)}
        used = {id for owner, id in counts if owner == tenant and id > after}
        # One that is in use and stored is among the stored ones of this page, if it is on this page at all.
        ids = sorted(stored.keys() | used)[:limit]
        return [(stored.get(id, Queue(tenant, id)), counts.get((tenant, id), QueueCounts())) for id in ids]

    async def update(
        self, identity: Identity, id: str, edit: Callable[[QueueSettings], QueueSettings], *, etag: str
    ) -> tuple[Queue, QueueCounts]:
        """Changes what is set, at once for what waits already. Creates a queue that nobody has used yet."""
        for _ in range(CHANGE_TRIES):
            stored = await self._store.get(identity.tenant_id, id) or Queue(identity.tenant_id, id)
            check_current(f"queues/{id}", etag, stored.etag)
            settings = edit(stored.settings)
            problems = Problems()
            check_queue_settings(problems, "queue", settings)
            problems.raise_any()
            saved = await self._store.save(identity.tenant_id, id, settings, stored.version)
            if saved is not None:
                self._notices.queues_changed()
                return saved, await self._look(identity, id)
        raise Unavailable(f"queues/{id}: it was changed {CHANGE_TRIES} times meanwhile; try again", retry_after_s=1.0)

    async def pause(self, identity: Identity, id: str, reason: str) -> tuple[Queue, QueueCounts]:
        """Nothing is leased from it any more once this has answered."""
        counts = await self._look(identity, id)
        paused = await self._store.pause(identity.tenant_id, id, reason, identity.key_id)
        self._notices.queues_changed()
        return paused, counts

    async def resume(self, identity: Identity, id: str) -> tuple[Queue, QueueCounts]:
        counts = await self._look(identity, id)
        resumed = await self._store.resume(identity.tenant_id, id)
        self._notices.queues_changed()
        return resumed or Queue(identity.tenant_id, id), counts

    async def purge(
        self,
        identity: Identity,
        id: str,
        states: frozenset[JobState],
        type: str,
        most: int,
        reason: str,
        *,
        dry_run: bool,
    ) -> Purged:
        """Cancels up to `most` jobs that wait, in bites, so that a part of them is cancelled where it is cut short."""
        await self._look(identity, id)
        where = QueueFilter(identity.tenant_id, id, states, type)
        count = 0
        for shards in _bites():
            if dry_run:
                count += await self._store.count_waiting(where, shards, most + 1 - count)
            else:
                count += await self._purge(where, shards, most - count, reason)
                if count >= most:
                    return Purged(count, await self._any(where))
            if count > most:
                break
        return Purged(min(count, most), count > most)

    async def _purge(self, where: QueueFilter, shards: Sequence[ShardNo], most: int, reason: str) -> int:
        count = 0
        while count < most:
            bite = min(PURGE_BITE, most - count)
            found = await self._store.waiting(where, shards, bite)
            done = await self._jobs.cancel_waiting(where.tenant_id, found, reason) if found else 0
            count += done
            if len(found) < bite or not done:
                break
        return count

    async def _any(self, where: QueueFilter) -> bool:
        for shards in _bites():
            if await self._store.count_waiting(where, shards, 1):
                return True
        return False

    async def _look(self, identity: Identity, id: str) -> QueueCounts:
        """What is in a queue that exists. Where that cannot be counted, it is not to stand in the way of a change."""
        try:
            return (await self.get(identity, id))[1]
        except Unavailable as error:
            log.warning("queues could not be counted: %s", error)
            return QueueCounts()

    async def _count(self) -> Mapping[QueueKey, QueueCounts]:
        """Counts of all queues, at most a few seconds old."""
        async with self._counting:
            if self._counted_at is None or self._clock.monotonic() - self._counted_at > COUNTS_LIFE_S:
                await self._take()
            return self._counts

    async def _count_again(self) -> Mapping[QueueKey, QueueCounts]:
        """Counts that were begun after the call; many callers are one look."""
        asked_at = self._clock.monotonic()
        while True:
            async with self._counting:
                if self._counted_at is not None and self._counted_at > asked_at:
                    return self._counts
                wait_s = 0.0
                if self._counted_at is not None:
                    wait_s = self._counted_at + COUNTS_RETAKE_S - self._clock.monotonic()
                if wait_s <= 0:
                    await self._take()
                    return self._counts
            await self._clock.sleep(wait_s)

    async def _take(self) -> None:
        began_at = self._clock.monotonic()
        self._counts = await self._store.counts()
        self._counted_at = began_at


def _bites() -> Iterator[list[ShardNo]]:
    for start in range(0, limits.SHARD_COUNT, PURGE_SHARDS):
        yield [ShardNo(number) for number in range(start, start + PURGE_SHARDS)]
