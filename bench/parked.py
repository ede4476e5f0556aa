"""The workload `parked`: many workers that wait, and how fast one of them is woken."""

import time

import uvloop

from bench import creating, finished, starts
from bench.cpu import Reading, resident_mb
from bench.figures import percentiles_ms
from bench.latency import WARM_UP
from bench.stand import TENANT, Stand
from bench.workload import Figures, Options

REST_S = 8.0
"""From the last session opened until waking begins: all have beaten and polled by then."""

WAKES = 400


def run(stand: Stand, options: Options) -> Figures:
    """Memory of the coordinator with `n` sessions that wait in their polls, what they cost it, and the time from just
    before a CreateJob call to the Lease answer at one of them."""
    n, deadline = options.n, options.deadline
    url = stand.create_database("parked")
    key = stand.key(url)
    coordinator, address = stand.coordinator(url, profile=options.profiles.get("coordinator"))
    empty_mb = resident_mb(coordinator.pid)
    events = stand.folder / "events"
    began = time.monotonic()
    holder = stand.holder(address, key, sessions=n, pollers=options.pollers, events=events)
    holder.told("holding", deadline.left_s())
    open_s = time.monotonic() - began
    time.sleep(REST_S)
    coordinator.begin_profile()

    def reading() -> Reading:
        return Reading.take(store=stand.store_pid, coordinators=[coordinator.pid], workers=[holder.pid])

    before = reading()
    time.sleep(REST_S)
    rested = reading()
    parked_mb = resident_mb(coordinator.pid)
    total = WAKES + WARM_UP
    calls = uvloop.run(creating.steadily(address, key, total, options.rate))
    finished.wait(url, total, [holder], deadline)
    woken_mb = resident_mb(coordinator.pid)
    open_sessions = stand.ask("SELECT count(*) FROM sessions WHERE closed_at IS NULL", url)[0][0]
    holder.stop()
    coordinator.stop()
    found = finished.check(stand, url, total)
    started = starts.read(events, total)
    dispatch_s = finished.dispatch_s(stand, url, TENANT, calls.called[WARM_UP], time.time())
    return {
        "coordinator_mb": parked_mb,
        "empty_mb": empty_mb,
        "woken_mb": woken_mb,
        "per_poll_kb": (parked_mb - empty_mb) / n / options.pollers * 1024,
        **percentiles_ms("wake_", [started[i] - calls.called[i] for i in range(WARM_UP, total)]),
        **percentiles_ms("dispatch_", dispatch_s),
        "rate": options.rate,
        "pollers": options.pollers,
        "open_sessions": open_sessions,
        "open_s": open_s,
        # With everybody waiting and nobody woken.
        **rested.cpu_pct(before),
        "finished": found.count,
        "attempts_max": found.attempts_max,
        "foreign_cpu_pct": rested.foreign_pct(before),
    }
