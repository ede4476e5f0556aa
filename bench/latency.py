"""The workload `latency`: jobs created one by one at a steady rate, for a worker that waits for them."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import uvloop
from rota_sdk import AsyncClient

from bench.cpu import Reading
from bench.figures import percentiles_ms
from bench.stand import BenchError, Deadline, Stand
from bench.work import JOB

WARM_UP = 25
"""The first jobs open connections and prepare statements; they are not counted."""


def run(stand: Stand, *, n: int, rate: float, slots: int, cap_s: float, profiles: dict[str, Path]) -> dict[str, Any]:
    """From the moment before a CreateJob call to the start of the job's handler."""
    deadline = Deadline(cap_s)
    total = n + WARM_UP
    if total / rate > cap_s:
        raise BenchError(f"{total} jobs at {rate:g} a second take {total / rate:.0f} s, over the cap of {cap_s:g} s")
    url = stand.create_database("latency")
    key = stand.key(url)
    coordinator, address = stand.coordinator(url, profile=profiles.get("coordinator"))
    coordinator.begin_profile()
    events = stand.folder / "events"
    worker = stand.worker(address, key, slots=slots, expect=total, events=events, profile=profiles.get("worker"))
    worker.told("ready_cpu_s", deadline.left_s())

    def reading() -> Reading:
        return Reading.take(store=stand.store_pid, coordinator=coordinator.pid, worker=worker.pid)

    before = reading()
    called, answered = uvloop.run(_create(address, key, total, rate))
    worker.told("all_started", deadline.left_s())
    after = reading()
    worker.stop()
    coordinator.stop()
    started = _starts(events)
    if len(started) != total:
        raise BenchError(f"expected {total} started jobs, found {len(started)}")
    counted = range(WARM_UP, total)
    return {
        "rate": rate,
        **percentiles_ms("", [started[i] - called[i] for i in counted]),
        **percentiles_ms("call_", [answered[i] - called[i] for i in counted]),
        "late_max_ms": max(called[i] - called[0] - i / rate for i in counted) * 1e3,
        "started": len(started),
        "seconds": after.at - before.at,
        "coordinator_cpu_us": (after.coordinator_s - before.coordinator_s) / total * 1e6,
        "worker_cpu_us": (after.worker_s - before.worker_s) / total * 1e6,
        "store_cpu_us": (after.store_s - before.store_s) / total * 1e6,
        "foreign_cpu_pct": after.foreign_pct(before),
    }


async def _create(address: str, key: str, total: int, rate: float) -> tuple[Mapping[int, float], Mapping[int, float]]:
    """The wall-clock instants before each call and after its answer."""
    called: dict[int, float] = {}
    answered: dict[int, float] = {}

    async def create(client: AsyncClient, index: int) -> None:
        called[index] = time.time()
        await client.create_job(JOB, payload=str(index))
        answered[index] = time.time()

    loop = asyncio.get_running_loop()
    async with AsyncClient(address, api_key=key) as client, asyncio.TaskGroup() as calls:
        began = loop.time()
        for index in range(total):
            await asyncio.sleep(max(began + index / rate - loop.time(), 0.0))
            calls.create_task(create(client, index))
    return called, answered


def _starts(events: Path) -> dict[int, float]:
    """The first start of each job."""
    started: dict[int, float] = {}
    for line in events.read_text().splitlines():
        index, at = line.split()
        started.setdefault(int(index), float(at))
    return started
