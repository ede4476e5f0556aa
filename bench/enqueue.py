"""The workload `enqueue`: creating jobs, in hundreds and one by one, with nobody to run them."""

import asyncio
import itertools
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop
from rota_sdk import AsyncClient, NewJob

from bench import floor
from bench.cpu import Reading
from bench.errors import BenchError
from bench.figures import percentiles_ms
from bench.stand import Stand
from bench.work import JOB
from bench.workload import Deadline, Figures, Options

T = TypeVar("T")

BATCH = 100
BATCH_CALLERS = 8
SINGLE_CALLERS = 64
SINGLES_PER_JOB = 4
"""One call by itself costs as much as dozens of jobs in a batch, so a quarter of `n` is created that way."""


def run(stand: Stand, options: Options) -> Figures:
    """The figures of both ways, and the floor of the batches."""
    n, deadline = options.n, options.deadline
    url = stand.create_database("enqueue")
    key = stand.key(url)
    coordinator, address = stand.coordinator(url, profile=options.profiles.get("coordinator"))

    def reading() -> Reading:
        return Reading.take(store=stand.store_pid, coordinators=[coordinator.pid])

    coordinator.begin_profile()
    singles = max(n // SINGLES_PER_JOB, 1)
    before = reading()
    batches_s = uvloop.run(_within(deadline, _in_batches(address, key, n)))
    between = reading()
    singles_s, spans = uvloop.run(_within(deadline, _one_by_one(address, key, singles)))
    after = reading()
    stored = int(stand.ask("SELECT count(*) FROM jobs", url)[0][0])
    if stored != n + singles:
        raise BenchError(f"expected {n + singles} jobs in the store, found {stored}")
    coordinator.stop()
    stand.drop_database("enqueue")
    below = floor.create(stand.create_database("floor"), stand.store_pid, n, BATCH, max(deadline.left_s(), 10.0))
    return {
        "jobs_per_s": n / batches_s,
        "floor_jobs_per_s": below.jobs_per_s,
        "ratio": n / batches_s / below.jobs_per_s,
        "coordinator_cpu_us": (between.coordinator_s - before.coordinator_s) / n * 1e6,
        "client_cpu_us": (between.own_s - before.own_s) / n * 1e6,
        "store_cpu_us": (between.store_s - before.store_s) / n * 1e6,
        "floor_store_cpu_us": below.store_cpu_us,
        "floor_client_cpu_us": below.client_cpu_us,
        "seconds": batches_s,
        "stored": stored,
        "batch": BATCH,
        "batch_callers": BATCH_CALLERS,
        "single_calls_per_s": singles / singles_s,
        "single_callers": SINGLE_CALLERS,
        "single_coordinator_cpu_us": (after.coordinator_s - between.coordinator_s) / singles * 1e6,
        "single_client_cpu_us": (after.own_s - between.own_s) / singles * 1e6,
        "single_store_cpu_us": (after.store_s - between.store_s) / singles * 1e6,
        **percentiles_ms("single_", spans),
        "foreign_cpu_pct": after.foreign_pct(before),
        "floor_foreign_cpu_pct": below.foreign_cpu_pct,
    }


async def _within(deadline: Deadline, work: Coroutine[Any, Any, T]) -> T:
    async with asyncio.timeout(deadline.left_s()):
        return await work


async def _in_batches(address: str, key: str, n: int) -> float:
    firsts = iter(range(0, n, BATCH))

    async def caller(client: AsyncClient) -> None:
        for first in firsts:
            count = min(BATCH, n - first)
            await client.create_jobs([NewJob(JOB, payload={}) for _ in range(count)], names_only=True)

    async with AsyncClient(address, api_key=key) as client:
        began = time.monotonic()
        await asyncio.gather(*(caller(client) for _ in range(BATCH_CALLERS)))
        return time.monotonic() - began


async def _one_by_one(address: str, key: str, n: int) -> tuple[float, list[float]]:
    """The seconds that all took, and each."""
    calls = itertools.repeat(None, n)
    spans: list[float] = []

    async def caller(client: AsyncClient) -> None:
        for _ in calls:
            called = time.monotonic()
            await client.create_job(JOB, payload={})
            spans.append(time.monotonic() - called)

    async with AsyncClient(address, api_key=key) as client:
        began = time.monotonic()
        await asyncio.gather(*(caller(client) for _ in range(SINGLE_CALLERS)))
        return time.monotonic() - began, spans
