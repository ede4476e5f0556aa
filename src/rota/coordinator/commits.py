"""Group commit: the writes of many callers in one transaction.

While a connection is free an item is written at once, in the loop's next turn, so an idle coordinator adds no latency;
while all are busy items gather, so a loaded one pays one commit for hundreds. A caller awaits a future and can be
cancelled at any time: the write is the batcher's own and goes on. An item that the database cannot take fails alone:
the batch is split in halves until the culprit is found.

Where more waits than one batch takes, tenants take turns (deficit round robin by weight), so that a backlog delays
the tenant that made it and nobody else. A tenant's own items go in order; where they have priorities, in order of
priority, which waiting raises.
"""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rota.clock import Clock
from rota.domain.errors import Internal, ResourceExhausted, RotaError, Unavailable
from rota.domain.ids import TenantId
from rota.domain.portions import has_room

log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

WAITING_MAX = 20_000
"""Weight that may wait of one tenant; others have an eighth more. What is over would only wait longer."""

TURNS = 64
"""A tenant's turn is this part of a batch, so that so many tenants share one."""

PRIORITY_STEP_S = 0.25
"""Waiting this long is worth one level of priority: nine levels are about the time in which WAITING_MAX is written."""

RETRY_AFTER_S = 1.0

FLUSHES = 4
"""The usual length of a transaction is the mean of about so many: a single slow one says little."""

RECENT_S = 2.0
"""What the last transactions took says nothing after this time without one."""


@dataclass(slots=True)
class _Pending(Generic[T, R]):
    item: T
    weight: int
    key: Hashable | None
    future: "asyncio.Future[R]"
    since: float


class _Line(Generic[T, R]):
    """What waits of one tenant, by priority. `credit` is the weight that it may take before others have their turn."""

    __slots__ = ("credit", "queues", "tenant", "weight")

    def __init__(self, tenant: TenantId | None, credit: int) -> None:
        self.tenant = tenant
        self.credit = credit
        self.weight = 0
        self.queues: dict[int, deque[_Pending[T, R]]] = {}

    def next_priority(self) -> int:
        """The priority whose first item goes next. Its order never changes while it waits."""
        queues = self.queues
        if len(queues) == 1:
            return next(iter(queues))
        return min(queues, key=lambda priority: queues[priority][0].since - priority * PRIORITY_STEP_S)


class Pace:
    """How the transactions of one batcher go. Times are monotonic."""

    def __init__(self) -> None:
        self._writing = 0
        self._progress_at = 0.0
        self._usual_s = 0.0
        self._queued_s = 0.0

    def began(self, now: float, waited_s: float) -> None:
        self._fade(now)
        if not self._writing:
            self._progress_at = now
        self._writing += 1
        self._queued_s = waited_s

    def ended(self, now: float, took_s: float) -> None:
        self._fade(now)
        self._writing -= 1
        self._progress_at = now
        self._usual_s += (took_s - self._usual_s) / FLUSHES

    def lag_s(self, now: float) -> float:
        """How long a transaction takes, judging by the latest ones, or by how long none has ended."""
        silent_s = now - self._progress_at
        if self._writing:
            return max(self._usual_s, silent_s)
        return self._usual_s if silent_s < RECENT_S else 0.0

    def queued_s(self, now: float) -> float:
        """How long the oldest item of the latest batch waited for it."""
        return self._queued_s if self._writing or now - self._progress_at < RECENT_S else 0.0

    def _fade(self, now: float) -> None:
        if not self._writing and now - self._progress_at >= RECENT_S:
            self._usual_s = 0.0


class Batcher(Generic[T, R]):
    """`flush` writes a list of items and answers one result or refusal for each, in order.

    Items with the same `key` never share a batch; `weight` is an item's share of `batch_max`, `tenant` whose it is.
    Batches begin at least `apart_s` after each other: for items that come all the time and are in no hurry.
    """

    def __init__(
        self,
        name: str,
        flush: Callable[[Sequence[T]], Awaitable[Sequence[R | RotaError]]],
        clock: Clock,
        *,
        batch_max: int,
        concurrency: int,
        apart_s: float = 0.0,
        tenant: Callable[[T], TenantId | None] = lambda _: None,
        priority: Callable[[T], int] | None = None,
        weight: Callable[[T], int] = lambda _: 1,
        key: Callable[[T], Hashable | None] = lambda _: None,
    ) -> None:
        self.pace = Pace()
        self._name = name
        self._task_name = f"commit {name}"
        self._flush = flush
        self._now = clock.monotonic
        self._batch_max = batch_max
        self._turn = max(batch_max // TURNS, 1)
        self._free = concurrency
        self._apart_s = apart_s
        self._begun_at = -math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._tenant = tenant
        self._priority = priority
        self._weight = weight
        self._key = key
        self._lines: dict[TenantId | None, _Line[T, R]] = {}
        self._turns: deque[_Line[T, R]] = deque()
        self._waiting_weight = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._pumping = False

    async def submit(self, item: T) -> R:
        """Writes one item together with others; its own result or refusal."""
        return await self.enqueue(item)

    def enqueue(self, item: T, now: float | None = None) -> "asyncio.Future[R]":
        """The same as a future. `now` is monotonic: who brings hundreds of items looks at the clock once."""
        tenant = self._tenant(item)
        weight = self._weight(item)
        line = self._lines.get(tenant)
        total = self._waiting_weight + weight
        if total > WAITING_MAX:
            self._check_room(0 if line is None else line.weight, weight)
        if line is None:
            line = self._lines[tenant] = _Line(tenant, self._turn)
            self._turns.append(line)
        line.weight += weight
        self._waiting_weight = total
        priority = 0 if self._priority is None else self._priority(item)
        queue = line.queues.get(priority)
        if queue is None:
            queue = line.queues[priority] = deque()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        queue.append(_Pending(item, weight, self._key(item), future, self._now() if now is None else now))
        if self._free and not self._pumping:
            # Not here: what one call brings is to go in one transaction, not its first item alone.
            self._pumping = True
            loop.call_soon(self._pump)
        return future

    def _check_room(self, own: int, weight: int) -> None:
        total = self._waiting_weight
        if not has_room(own + weight, total + weight, WAITING_MAX):
            raise ResourceExhausted(
                f"{own} of your {self._name} wait for the database already, {total} in all; slow down",
                retry_after_s=RETRY_AFTER_S,
            )

    def waited_s(self, tenant: TenantId, now: float, priority: int = 0) -> float:
        """How long the tenant's oldest item of this priority or a higher one has waited; 0 where none waits."""
        line = self._lines.get(tenant)
        if line is None:
            return 0.0
        return now - min([queue[0].since for level, queue in line.queues.items() if level >= priority], default=now)

    async def drain(self) -> None:
        """Waits until everything that was submitted is written."""
        self._apart_s = 0.0
        self._pump()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _pump(self) -> None:
        self._pumping = False
        while self._free and self._turns:
            if self._apart_s and self._is_early():
                return
            self._free -= 1
            task = asyncio.create_task(self._write(*self._take()), name=self._task_name)
            self._tasks.add(task)
            task.add_done_callback(self._written)

    def _is_early(self) -> bool:
        """Whether the next batch has to wait; then it begins by itself."""
        now = self._now()
        wait_s = self._begun_at + self._apart_s - now
        if wait_s <= 0:
            self._begun_at = now
            return False
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._ring)
        return True

    def _ring(self) -> None:
        self._timer = None
        self._begun_at = -math.inf
        self._pump()

    def _take(self) -> tuple[list[_Pending[T, R]], float]:
        """The next batch, and since when its oldest item waits."""
        batch: list[_Pending[T, R]] = []
        keys: set[Hashable] = set()
        oldest = math.inf
        passed: list[_Line[T, R]] = []
        turns = self._turns
        room = self._batch_max
        while turns and room > 0:
            line = turns[0]
            priority = line.next_priority()
            queue = line.queues[priority]
            since = queue[0].since
            alone = len(turns) == 1
            left = before = room if alone else min(room, line.credit)
            many = len(line.queues) > 1
            repeated = False
            while queue:
                pending = queue[0]
                weight = pending.weight
                key = pending.key
                if weight > left and (batch or (not alone and weight > line.credit)):
                    break
                if key is not None:
                    if key in keys:
                        repeated = True
                        break
                    keys.add(key)
                left -= weight
                batch.append(pending)
                queue.popleft()
                if many:
                    break
            taken = before - left
            if taken and since < oldest:
                oldest = since
            room -= taken
            line.weight -= taken
            self._waiting_weight -= taken
            # Who is alone takes more than its credit, and owes nobody for that.
            line.credit = max(line.credit - taken, 0)
            if not queue:
                del line.queues[priority]
                if not line.queues:
                    turns.popleft()
                    del self._lines[line.tenant]
            elif repeated:
                # It goes first in the next batch; what is behind it does not overtake it.
                passed.append(turns.popleft())
            elif queue[0].weight > line.credit and not alone:
                line.credit += self._turn
                turns.rotate(-1)
            elif batch and queue[0].weight > room:
                break
        turns.extendleft(reversed(passed))
        return batch, oldest

    def _written(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._free += 1
        self._pump()

    async def _write(self, batch: list[_Pending[T, R]], oldest: float) -> None:
        began = self._now()
        self.pace.began(began, began - oldest)
        try:
            try:
                results = await self._flush([pending.item for pending in batch])
            finally:
                now = self._now()
                self.pace.ended(now, now - began)
        except Unavailable as error:
            self._fail(batch, error)
        except Exception as error:
            if len(batch) > 1:
                middle = len(batch) // 2
                await self._write(batch[:middle], oldest)
                await self._write(batch[middle:], oldest)
                return
            log.exception("one of the %s cannot be written", self._name)
            refusal = error if isinstance(error, RotaError) else Internal(f"the write failed: {type(error).__name__}")
            self._fail(batch, refusal)
        else:
            for pending, result in zip(batch, results, strict=True):
                if pending.future.done():
                    continue
                if isinstance(result, RotaError):
                    pending.future.set_exception(result)
                else:
                    pending.future.set_result(result)

    @staticmethod
    def _fail(batch: list[_Pending[T, R]], error: RotaError) -> None:
        for pending in batch:
            if not pending.future.done():
                pending.future.set_exception(error)
