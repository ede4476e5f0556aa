"""The workload `drain`: jobs that do nothing, created beforehand, leased and completed by one worker process."""

import time
from pathlib import Path
from typing import Any

from rota_sdk import Client, NewJob

from bench import floor
from bench.cpu import Reading
from bench.stand import BenchError, Deadline, Stand
from bench.work import JOB

CREATE_BATCH = 500
LOOK_EVERY_S = 0.01

_TIMES = """
SELECT extract(epoch FROM min(leased_at))::float8, count(DISTINCT leased_at), count(DISTINCT finished_at), max(attempt)
FROM finished_jobs
"""


def run(stand: Stand, *, n: int, slots: int, cap_s: float, profiles: dict[str, Path]) -> dict[str, Any]:
    """The figures of one drain and of its floor.

    The clock runs from the first lease granted, by the store's word, until the store has all jobs finished.
    """
    deadline = Deadline(cap_s)
    url = stand.create_database("drain")
    key = stand.key(url)
    coordinator, address = stand.coordinator(url, profile=profiles.get("coordinator"))
    enqueue_s = enqueue(address, key, n)
    stand.ask("CHECKPOINT")
    coordinator.begin_profile()
    before = Reading.take(store=stand.store_pid, coordinator=coordinator.pid)
    worker = stand.worker(address, key, slots=slots, expect=n, profile=profiles.get("worker"))
    ready_cpu_s = worker.told("ready_cpu_s", deadline.left_s())
    worker.told("all_started", deadline.left_s())
    finished = _until_finished(stand, url, n, deadline)
    finished_at = time.time()
    after = Reading.take(store=stand.store_pid, coordinator=coordinator.pid, worker=worker.pid)
    worker.stop()
    coordinator.stop()
    metrics = coordinator.told("metrics", deadline.left_s())
    first_at, claims, commits, attempts_max = stand.ask(_TIMES, url)[0]
    stand.drop_database("drain")

    below = floor.drain(stand.create_database("floor"), stand.store_pid, n, max(deadline.left_s(), 10.0))
    seconds = finished_at - first_at
    return {
        "jobs_per_s": n / seconds,
        "floor_jobs_per_s": below.jobs_per_s,
        "ratio": n / seconds / below.jobs_per_s,
        "coordinator_cpu_us": (after.coordinator_s - before.coordinator_s) / n * 1e6,
        "worker_cpu_us": (after.worker_s - ready_cpu_s) / n * 1e6,
        "store_cpu_us": (after.store_s - before.store_s) / n * 1e6,
        "floor_store_cpu_us": below.store_cpu_us,
        "floor_client_cpu_us": below.client_cpu_us,
        "seconds": seconds,
        "floor_seconds": below.seconds,
        "enqueue_jobs_per_s": n / enqueue_s,
        "finished": finished,
        "attempts_max": attempts_max,
        "slots": slots,
        "leases_per_answer": n / claims,
        "results_per_call": _mean(metrics["rota.complete.batch"]),
        "results_per_commit": n / commits,
        "claims_missed": metrics["rota.claims.missed"],
        "foreign_cpu_pct": after.foreign_pct(before),
        "floor_foreign_cpu_pct": below.foreign_cpu_pct,
    }


def enqueue(address: str, key: str, n: int) -> float:
    """Creates `n` jobs in batches; the seconds that it took."""
    began = time.monotonic()
    with Client(address, api_key=key) as client:
        for first in range(0, n, CREATE_BATCH):
            count = min(CREATE_BATCH, n - first)
            client.create_jobs([NewJob(JOB, payload={}) for _ in range(count)], names_only=True)
    return time.monotonic() - began


def _until_finished(stand: Stand, url: str, n: int, deadline: Deadline) -> int:
    """Asks the store, which is cheap enough once every job has been started."""
    while True:
        finished = int(stand.ask("SELECT count(*) FROM finished_jobs", url)[0][0])
        if finished >= n:
            return finished
        if deadline.left_s() < 0:
            raise BenchError(f"expected {n} finished jobs within the cap, found {finished}; raise --cap or lower --n")
        time.sleep(LOOK_EVERY_S)


def _mean(histogram: dict[str, float]) -> float:
    return histogram["sum"] / histogram["count"] if histogram["count"] else 0.0
