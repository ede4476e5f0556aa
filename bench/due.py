"""The workloads `due` and `jobs`: jobs created ahead of their time, for a worker that waits for them."""

import time
from collections.abc import Sequence

from bench import creating, finished, floor, starts
from bench.cpu import Reading
from bench.figures import percentiles_ms, quantile
from bench.latency import WARM_UP, check_fits
from bench.stand import Stand
from bench.workload import Figures, Options
from rota.domain import limits

LEAD_S = limits.LOOKAHEAD_S + 3.0
"""From the end of the creation until the first is due: none goes to memory as it is created."""

BEFORE_DUE_S = limits.LOOKAHEAD_S + 1.0
"""CPU is counted from here on, and so with the reading into memory."""


def steady(stand: Stand, options: Options) -> Figures:
    """One job after the other comes due, `rate` a second: from the due time to the start of the handler."""
    total = options.n + WARM_UP
    check_fits(total, options.rate, options)
    lags, seen = _run(stand, options, [index / options.rate for index in range(total)])
    return {"rate": options.rate, **percentiles_ms("", lags[WARM_UP:]), **seen}


def at_once(stand: Stand, options: Options) -> Figures:
    """All jobs come due at one instant: until the first, and until all handlers have been started."""
    lags, seen = _run(stand, options, [0.0] * options.n)
    ordered = sorted(lags)
    left_s = max(options.deadline.left_s(), 10.0)
    below = floor.drain(stand.create_database("floor"), stand.store_pid, options.n, left_s)
    return {
        "first_ms": ordered[0] * 1e3,
        "p50_ms": quantile(ordered, 0.5) * 1e3,
        "p99_ms": quantile(ordered, 0.99) * 1e3,
        "all_s": ordered[-1],
        # To run them all, each started and finished.
        "floor_s": below.seconds,
        **seen,
        "floor_store_cpu_us": below.store_cpu_us,
        "floor_client_cpu_us": below.client_cpu_us,
        "slots": options.slots,
        "floor_foreign_cpu_pct": below.foreign_cpu_pct,
    }


def _run(stand: Stand, options: Options, after_s: Sequence[float]) -> tuple[list[float], Figures]:
    """Jobs that are due so long after one instant: how late each was started, and what both have in common."""
    n, deadline = len(after_s), options.deadline
    url = stand.create_database("due")
    key = stand.key(url)
    coordinator, address = stand.coordinator(url, profile=options.profiles.get("coordinator"))
    events = stand.folder / "events"
    worker = stand.worker(address, key, slots=options.slots, events=events, profile=options.profiles.get("worker"))
    worker.told("ready_cpu_s", deadline.left_s())

    def reading() -> Reading:
        return Reading.take(store=stand.store_pid, coordinators=[coordinator.pid], workers=[worker.pid])

    first_due = creating.due_after_creation(n, LEAD_S)
    dues = [first_due + after for after in after_s]
    enqueue_s = creating.in_batches(address, key, creating.numbered(dues))
    creating.check_in_time(first_due, BEFORE_DUE_S, n)
    stand.ask("CHECKPOINT")
    time.sleep(max(first_due - BEFORE_DUE_S - time.time(), 0.0))
    coordinator.begin_profile()
    before = reading()
    finished.wait(url, n, [worker], deadline)
    after = reading()
    worker.stop()
    coordinator.stop()
    found = finished.check(stand, url, n)
    started = starts.read(events, n)
    stand.drop_database("due")
    lags = [started[number] - dues[number] for number in range(n)]
    return lags, {
        "early": sum(lag < 0 for lag in lags),
        "finished": found.count,
        "attempts_max": found.attempts_max,
        "enqueue_jobs_per_s": n / enqueue_s,
        **after.cpu_us(before, n),
        "foreign_cpu_pct": after.foreign_pct(before),
    }
