"""The workload `scale`: the drain with more and more coordinators on one database, a worker at each."""

from bench import drain, floor
from bench.figures import prefixed, ratio
from bench.stand import Stand
from bench.workload import Figures, Options

TOLD = (
    *("jobs_per_s", "cpu_us", "coordinator_cpu_us", "worker_cpu_us", "store_cpu_us", "seconds"),
    *("finished", "attempts_max", "claims_missed", "foreign_cpu_pct"),
)


def run(stand: Stand, options: Options) -> Figures:
    """The figures for each number of coordinators under names such as `c2_jobs_per_s`, and the floor of one drain."""
    figures: Figures = {"slots": options.slots}
    for count in options.coordinators:
        name = f"scale_{count}"
        found = drain.once(stand, stand.create_database(name), options.n, options, coordinators=count)
        stand.drop_database(name)
        figures |= prefixed(f"c{count}_", {key: found[key] for key in TOLD})
    left_s = max(options.deadline.left_s(), 10.0)
    below = floor.drain(stand.create_database("floor"), stand.store_pid, options.n, left_s)
    first = figures[f"c{options.coordinators[0]}_jobs_per_s"]
    return {
        **{f"c{count}_ratio": ratio(figures[f"c{count}_jobs_per_s"], first) for count in options.coordinators[1:]},
        "floor_jobs_per_s": below.jobs_per_s,
        **figures,
    }
