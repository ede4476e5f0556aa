"""Group commit: the writes of many callers in one transaction.

While a connection is free an item is written at once, in the loop's next turn, so an idle coordinator adds no latency;
while all are busy items gather, so a loaded one pays one commit for hundreds. A caller awaits a future and can be
cancelled at any time: the write is the batcher's own and goes on. An item that the database cannot take fails alone:
the batch is split in halves until the culprit is found.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rota.domain.errors import Internal, ResourceExhausted, RotaError, Unavailable

log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

WAITING_MAX = 20_000
"""Weight that may wait; more is refused, since it would only wait longer."""


@dataclass(slots=True)
class _Pending(Generic[T, R]):
    item: T
    weight: int
    key: Hashable | None
    future: "asyncio.Future[R]"


class Batcher(Generic[T, R]):
    """`flush` writes a list of items and answers one result or refusal for each, in order.

    Items with the same `key` never share a batch; `weight` is an item's share of `batch_max`.
    """

    def __init__(
        self,
        name: str,
        flush: Callable[[Sequence[T]], Awaitable[Sequence[R | RotaError]]],
        *,
        batch_max: int,
        concurrency: int,
        weight: Callable[[T], int] = lambda _: 1,
        key: Callable[[T], Hashable | None] = lambda _: None,
    ) -> None:
        self._name = name
        self._flush = flush
        self._batch_max = batch_max
        self._free = concurrency
        self._weight = weight
        self._key = key
        self._waiting: deque[_Pending[T, R]] = deque()
        self._waiting_weight = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._pumping = False

    async def submit(self, item: T) -> R:
        """Writes one item together with others; its own result or refusal."""
        return await self.enqueue(item)

    def enqueue(self, item: T) -> "asyncio.Future[R]":
        weight = self._weight(item)
        if self._waiting_weight + weight > WAITING_MAX:
            raise ResourceExhausted(
                f"{self._waiting_weight} {self._name} wait for the database already; slow down", retry_after_s=1.0
            )
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Pending(item, weight, self._key(item), future))
        self._waiting_weight += weight
        if self._free and not self._pumping:
            # Not here: what one call brings is to go in one transaction, not its first item alone.
            self._pumping = True
            asyncio.get_running_loop().call_soon(self._pump)
        return future

    async def drain(self) -> None:
        """Waits until everything that was submitted is written."""
        self._pump()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _pump(self) -> None:
        self._pumping = False
        while self._free and self._waiting:
            self._free -= 1
            task = asyncio.create_task(self._write(self._take()), name=f"commit {self._name}")
            self._tasks.add(task)
            task.add_done_callback(self._written)

    def _take(self) -> list[_Pending[T, R]]:
        batch: list[_Pending[T, R]] = []
        keys: set[Hashable] = set()
        later: list[_Pending[T, R]] = []
        room = self._batch_max
        while self._waiting:
            pending = self._waiting[0]
            if batch and pending.weight > room:
                break
            self._waiting.popleft()
            if pending.key is not None and pending.key in keys:
                later.append(pending)
                continue
            if pending.key is not None:
                keys.add(pending.key)
            room -= pending.weight
            batch.append(pending)
            self._waiting_weight -= pending.weight
        self._waiting.extendleft(reversed(later))
        return batch

    def _written(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._free += 1
        self._pump()

    async def _write(self, batch: list[_Pending[T, R]]) -> None:
        try:
            results = await self._flush([pending.item for pending in batch])
        except Unavailable as error:
            self._fail(batch, error)
        except Exception as error:
            if len(batch) > 1:
                middle = len(batch) // 2
                await self._write(batch[:middle])
                await self._write(batch[middle:])
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
