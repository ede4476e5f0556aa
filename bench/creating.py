"""Jobs of a run: made in batches beforehand, or one by one at a steady rate."""

import asyncio
import itertools
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from rota_sdk import AsyncClient, Client, NewJob

from bench.errors import BenchError
from bench.work import JOB

BATCH = 500

CREATED_A_SECOND = 4_000
"""Creation is taken to be no slower than this when a due time is chosen."""

CREATION_MARGIN_S = 3.0
"""A few jobs are not created in no time, nor on a machine that stands still for a moment."""

SHUFFLE_SPAN_S = 1.0
"""Jobs in random order are due within this span."""


def in_batches(address: str, key: str, jobs: Iterable[NewJob]) -> float:
    """Creates jobs, one batch after the other; the seconds that it took."""
    began = time.monotonic()
    waiting = iter(jobs)
    with Client(address, api_key=key) as client:
        while batch := list(itertools.islice(waiting, BATCH)):
            client.create_jobs(batch, names_only=True)
    return time.monotonic() - began


def numbered(dues: Iterable[float]) -> Iterator[NewJob]:
    """A job for each instant, in seconds since 1970; its payload is its number."""
    for number, due in enumerate(dues):
        yield NewJob(JOB, payload=str(number), run_time=instant(due))


def shuffled(n: int, from_at: float) -> list[float]:
    """`n` instants within a second, in an order that has nothing to do with their numbers."""
    numbers = list(range(n))
    random.Random(n).shuffle(numbers)
    return [from_at + number * SHUFFLE_SPAN_S / n for number in numbers]


def instant(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def due_after_creation(n: int, lead_s: float) -> float:
    """When `n` jobs can be due, in seconds since 1970: so long after the last one is created."""
    return float(int(time.time() + CREATION_MARGIN_S + n / CREATED_A_SECOND + lead_s) + 1)


def check_in_time(due: float, lead_s: float, n: int) -> None:
    """BenchError when creation took so long that less than the lead is left."""
    left_s = due - time.time()
    if left_s < lead_s:
        raise BenchError(
            f"expected to create {n} jobs at {CREATED_A_SECOND} a second or faster, found it {lead_s - left_s:.1f} s "
            "late; lower --n, or repeat it on a machine with less to do"
        )


@dataclass(slots=True)
class Calls:
    """By number: the moments before each call and after its answer, in seconds since 1970, and the job's name."""

    called: dict[int, float] = field(default_factory=dict)
    answered: dict[int, float] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    def late_max_s(self, rate: float, warm_up: int) -> float:
        """How far the calls fell behind their rate, the first ones left aside."""
        first = min(self.called)
        begun = self.called[first]
        return max(at - begun - (n - first) / rate for n, at in self.called.items() if n - first >= warm_up)


def always(number: int) -> bool:
    return True


async def steadily(
    address: str, key: str, most: int, rate: float, go_on: Callable[[int], bool] = always, first: int = 0
) -> Calls:
    """Creates up to `most` jobs, `rate` a second, whether or not earlier calls have been answered.

    Stops early when `go_on`, asked before each, says so. Numbers begin with `first`.
    """
    calls = Calls()

    async def create(client: AsyncClient, number: int) -> None:
        calls.called[number] = time.time()
        job = await client.create_job(JOB, payload=str(number))
        calls.answered[number] = time.time()
        calls.names[number] = job.name

    loop = asyncio.get_running_loop()
    async with AsyncClient(address, api_key=key) as client, asyncio.TaskGroup() as group:
        began = loop.time()
        for index in range(most):
            await asyncio.sleep(max(began + index / rate - loop.time(), 0.0))
            if not go_on(first + index):
                break
            group.create_task(create(client, first + index))
    return calls
