"""The jobs of a run, numbered in their payload: made beforehand, or at a steady rate."""

import asyncio
import itertools
import time
from pathlib import Path

import uvloop
from rota_sdk import AsyncClient, Client, NewJob

from bench.creating import instant
from bench.work import JOB

BATCH = 1_000
CALLERS = 2
METHOD = f"BatchCreateJobs, {BATCH} a call, {CALLERS} callers"

LEAD_S = 0.2
"""From the start of the steady ones until their first call."""


def beforehand(address: str, key: str, n: int, at: float | None) -> float:
    """`n` jobs, due at once or at one instant; the seconds from the first call to the last answer."""
    return uvloop.run(_beforehand(address, key, n, at))


async def _beforehand(address: str, key: str, n: int, at: float | None) -> float:
    due = None if at is None else instant(at)
    numbers = iter(range(n))

    async def caller(client: AsyncClient) -> None:
        while batch := list(itertools.islice(numbers, BATCH)):
            jobs = [NewJob(JOB, payload=str(number), run_time=due) for number in batch]
            await client.create_jobs(jobs, names_only=True)

    async with AsyncClient(address, api_key=key) as client:
        await client.list_jobs(page_size=1)
        began = time.monotonic()
        await asyncio.gather(*(caller(client) for _ in range(CALLERS)))
        return time.monotonic() - began


def steadily(address: str, key: str, rate: float, span_s: float, out: Path) -> tuple[int, float]:
    """One call after the other, each at its time or as soon as the one before is over; into `out` go number, the
    moment before the call and the one after it. How many there were, and how late the last one began."""
    count = int(rate * span_s)
    with Client(address, api_key=key) as client, out.open("w") as lines:
        client.list_jobs(page_size=1)
        first = time.time() + LEAD_S
        called = first
        for number in range(count):
            time.sleep(max(first + number / rate - time.time(), 0.0))
            called = time.time()
            client.create_job(JOB, payload=str(number))
            lines.write(f"{number} {called:.6f} {time.time():.6f}\n")
    return count, called - (first + (count - 1) / rate)
