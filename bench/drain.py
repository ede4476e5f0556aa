"""The workload `drain`: jobs that do nothing, created beforehand, leased and completed by one worker process."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rota_sdk import NewJob

from bench import creating, finished, floor, sdks, sharing
from bench.cpu import Reading
from bench.stand import Child, Stand
from bench.work import JOB
from bench.workload import Deadline, Figures, Options


def run(stand: Stand, options: Options) -> Figures:
    """The figures of one drain and of its floor."""
    n = options.n
    url = stand.create_database("drain")
    found = once(stand, url, n, options, aged=options.aged)
    stand.drop_database("drain")
    left_s = max(options.deadline.left_s(), 10.0)
    below = floor.drain(stand.create_database("floor"), stand.store_pid, n, left_s, aged=options.aged)
    return {
        "jobs_per_s": found.pop("jobs_per_s"),
        "floor_jobs_per_s": below.jobs_per_s,
        "ratio": n / found["seconds"] / below.jobs_per_s,
        **found,
        "floor_store_cpu_us": below.store_cpu_us,
        "floor_client_cpu_us": below.client_cpu_us,
        "floor_seconds": below.seconds,
        "floor_foreign_cpu_pct": below.foreign_cpu_pct,
        "aged": options.aged,
        "slots": options.slots,
        "worker": options.worker or "python, async",
    }


def once(stand: Stand, url: str, n: int, options: Options, *, coordinators: int = 1, aged: bool = False) -> Figures:
    """Creates `n` jobs and drains them, with a worker for each of so many coordinators; leaves the database as it is.

    The clock runs from the first lease granted, by the store's word, until the store has all jobs finished.
    """
    deadline = options.deadline
    sdk = sdks.built(options.worker) if options.worker else None
    key = stand.key(url)
    with _coordinators(stand, url, coordinators, options.profiles) as serving:
        due = creating.due_after_creation(n, 0.0)
        jobs = creating.numbered(creating.shuffled(n, due)) if aged else (NewJob(JOB, payload={}) for _ in range(n))
        enqueue_s = creating.in_batches(serving.addresses[0], key, jobs)
        if aged:
            creating.check_in_time(due, 0.0, n)
            time.sleep(max(due + creating.SHUFFLE_SPAN_S - time.time(), 0.0))
        stand.ask("CHECKPOINT")
        for child in serving.children:
            child.begin_profile()
        before = Reading.take(store=stand.store_pid, coordinators=serving.pids)
        profile = options.profiles.get("worker")
        workers = [
            stand.worker(address, key, slots=options.slots, profile=None if index else profile, sdk=sdk)
            for index, address in enumerate(serving.addresses)
        ]
        # What a worker uses before it can poll is no part of the cost.
        ready_cpu_s = sum(worker.told("ready_cpu_s", deadline.left_s()) for worker in workers)
        finished_at = finished.wait(url, n, workers, deadline)
        after = Reading.take(store=stand.store_pid, coordinators=serving.pids, workers=[w.pid for w in workers])
        for worker in workers:
            worker.stop()
    found = finished.check(stand, url, n)
    seconds = finished_at - found.first_at
    cpu_us = after.cpu_us(replace(before, worker_s=ready_cpu_s), n)
    return {
        "jobs_per_s": n / seconds,
        "cpu_us": sum(cpu_us.values()),
        **cpu_us,
        "seconds": seconds,
        "enqueue_jobs_per_s": n / enqueue_s,
        "finished": found.count,
        "attempts_max": found.attempts_max,
        "leases_per_answer": n / found.claims,
        "results_per_commit": n / found.commits,
        **_metrics(serving.children, deadline),
        "foreign_cpu_pct": after.foreign_pct(before),
    }


@dataclass(frozen=True, slots=True)
class _Serving:
    children: list[Child]
    addresses: list[str]

    @property
    def pids(self) -> list[int]:
        return [child.pid for child in self.children]


@contextmanager
def _coordinators(stand: Stand, url: str, count: int, profiles: Mapping[str, Path]) -> Iterator[_Serving]:
    """So many on one database, each with its share; stopped at the end of the block."""
    profile = profiles.get("coordinator")
    started = [stand.coordinator(url, profile=None if index else profile) for index in range(count)]
    children = [child for child, _ in started]
    try:
        if count > 1:
            sharing.settle(stand, url, count)
        yield _Serving(children, [address for _, address in started])
    finally:
        for child in children:
            child.stop()


def _metrics(coordinators: list[Child], deadline: Deadline) -> dict[str, float]:
    metrics = [child.told("metrics", deadline.left_s()) for child in coordinators]
    return {
        "results_per_call": _mean([m["rota.complete.batch"] for m in metrics]),
        "claims_missed": sum(m["rota.claims.missed"] for m in metrics),
    }


def _mean(histograms: list[dict[str, Any]]) -> float:
    count = sum(histogram["count"] for histogram in histograms)
    return sum(histogram["sum"] for histogram in histograms) / count if count else 0.0
