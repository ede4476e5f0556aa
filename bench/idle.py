"""The workload `idle`: what is used while there is nothing to do, with a worker that waits."""

import time

from bench.cpu import Reading, resident_mb
from bench.stand import Stand
from bench.workload import Figures, Options

REST_S = 20.0
"""After so long nothing of the start is under way."""

DATABASE = "idle"

_COMMITS = f"SELECT xact_commit, xact_rollback FROM pg_stat_database WHERE datname = '{DATABASE}'"


def run(stand: Stand, options: Options) -> Figures:
    """CPU in % of one core, and transactions a second, over `n` seconds."""
    url = stand.create_database(DATABASE)
    key = stand.key(url)
    coordinator, address = stand.coordinator(url, profile=options.profiles.get("coordinator"))
    worker = stand.worker(address, key, slots=options.slots, profile=options.profiles.get("worker"))
    worker.told("ready_cpu_s", options.deadline.left_s())
    stand.ask("CHECKPOINT")
    time.sleep(REST_S)
    coordinator.begin_profile()

    def reading() -> Reading:
        return Reading.take(store=stand.store_pid, coordinators=[coordinator.pid], workers=[worker.pid])

    # Asked of another database, so that asking is not counted.
    commits, rollbacks = stand.ask(_COMMITS)[0]
    before = reading()
    time.sleep(options.n)
    after = reading()
    commits_after, rollbacks_after = stand.ask(_COMMITS)[0]
    figures = {
        **after.cpu_pct(before),
        "commits_per_s": (commits_after - commits) / (after.at - before.at),
        "rollbacks_per_s": (rollbacks_after - rollbacks) / (after.at - before.at),
        "seconds": after.at - before.at,
        "coordinator_mb": resident_mb(coordinator.pid),
        "worker_mb": resident_mb(worker.pid),
        "foreign_cpu_pct": after.foreign_pct(before),
    }
    worker.stop()
    coordinator.stop()
    return figures
