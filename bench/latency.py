"""The workload `latency`: jobs created one by one at a steady rate, for a worker that waits for them."""

import uvloop

from bench import creating, finished, starts
from bench.cpu import Reading
from bench.errors import BenchError
from bench.figures import percentiles_ms
from bench.stand import Stand
from bench.workload import Figures, Options

WARM_UP = 25
"""The first jobs open connections and prepare statements; they are not counted."""


def run(stand: Stand, options: Options) -> Figures:
    """From the moment before a CreateJob call to the start of the job's handler."""
    rate, deadline = options.rate, options.deadline
    total = options.n + WARM_UP
    check_fits(total, rate, options)
    url = stand.create_database("latency")
    key = stand.key(url)
    coordinator, address = stand.coordinator(url, profile=options.profiles.get("coordinator"))
    coordinator.begin_profile()
    events = stand.folder / "events"
    worker = stand.worker(address, key, slots=options.slots, events=events, profile=options.profiles.get("worker"))
    worker.told("ready_cpu_s", deadline.left_s())

    def reading() -> Reading:
        return Reading.take(store=stand.store_pid, coordinators=[coordinator.pid], workers=[worker.pid])

    before = reading()
    calls = uvloop.run(creating.steadily(address, key, total, rate))
    after = reading()
    finished.wait(url, total, [worker], deadline)
    worker.stop()
    coordinator.stop()
    found = finished.check(stand, url, total)
    started = starts.read(events, total)
    counted = range(WARM_UP, total)
    return {
        "rate": rate,
        **percentiles_ms("", [started[i] - calls.called[i] for i in counted]),
        **percentiles_ms("call_", [calls.answered[i] - calls.called[i] for i in counted]),
        "late_max_ms": calls.late_max_s(rate, WARM_UP) * 1e3,
        "finished": found.count,
        "attempts_max": found.attempts_max,
        "seconds": after.at - before.at,
        **after.cpu_us(before, total),
        "foreign_cpu_pct": after.foreign_pct(before),
    }


def check_fits(total: int, rate: float, options: Options) -> None:
    """BenchError when so many jobs cannot be made within the cap."""
    if total / rate > options.cap_s:
        raise BenchError(
            f"{total} jobs at {rate:g} a second take {total / rate:.0f} s, over the cap of {options.cap_s:g} s"
        )
