"""The workload `timers`: the drain with nothing else in the database, and with timers that are not due for a month."""

import statistics
from collections.abc import Sequence

from bench import drain, finished, residents
from bench.figures import ratio
from bench.stand import Stand
from bench.workload import Figures, Options

BARE, LOADED = "bare", "loaded"

TOLD = ("jobs_per_s", "enqueue_jobs_per_s", "cpu_us", "coordinator_cpu_us", "worker_cpu_us", "store_cpu_us")


def run(stand: Stand, options: Options) -> Figures:
    """Medians over rounds that alternate between a database with timers and one without, and their ratios.

    Each round is a drain of its own, with fresh processes; it is its own baseline and has no floor.
    """
    urls = {name: stand.create_database(name) for name in (BARE, LOADED)}
    coordinator, address = stand.coordinator(urls[LOADED])
    load_s = residents.load(address, stand.key(urls[LOADED]), urls[LOADED], options.resident)
    coordinator.stop()
    store_mb = {name: residents.settle(url) for name, url in urls.items()}
    rounds: dict[str, list[Figures]] = {BARE: [], LOADED: []}
    for _ in range(options.rounds):
        for name, url in urls.items():
            rounds[name].append(drain.once(stand, url, options.n, options))
            finished.forget(stand, url)
    medians = {name: _medians(found) for name, found in rounds.items()}
    return {
        "ratio": ratio(medians[LOADED]["jobs_per_s"], medians[BARE]["jobs_per_s"]),
        "enqueue_ratio": ratio(medians[LOADED]["enqueue_jobs_per_s"], medians[BARE]["enqueue_jobs_per_s"]),
        "cpu_ratio": ratio(medians[LOADED]["cpu_us"], medians[BARE]["cpu_us"]),
        **{f"{name}_{key}": value for name, found in medians.items() for key, value in found.items()},
        **{f"{name}_rounds_per_s": [round(f["jobs_per_s"]) for f in found] for name, found in rounds.items()},
        "resident": options.resident,
        "rounds": options.rounds,
        "load_s": load_s,
        "bare_mb": store_mb[BARE],
        "loaded_mb": store_mb[LOADED],
        "finished": sum(f["finished"] for found in rounds.values() for f in found),
        "attempts_max": max(f["attempts_max"] for found in rounds.values() for f in found),
        "slots": options.slots,
        "foreign_cpu_pct": max(f["foreign_cpu_pct"] for found in rounds.values() for f in found),
    }


def _medians(found: Sequence[Figures]) -> dict[str, float]:
    return {key: statistics.median(f[key] for f in found) for key in TOLD}
