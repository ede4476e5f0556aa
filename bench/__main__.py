"""`bench/run WORKLOAD`: one run, and one JSON object as the last line of standard output; or a set of runs."""

import argparse
import json
import platform
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from bench import (
    arguments,
    burst,
    drain,
    due,
    enqueue,
    fairness,
    forward,
    idle,
    latency,
    parked,
    recovery,
    scale,
    schedules,
    soak,
    standard,
    timers,
)
from bench.errors import BenchError
from bench.figures import plain
from bench.profiler import top
from bench.stand import Stand
from bench.workload import Figures, Workload

LOCAL = Path(__file__).parent / "results" / "local"

ENDING = (signal.SIGINT, signal.SIGTERM)
"""SIGINT too, since a shell lets its background jobs ignore it."""

WORKLOADS: Mapping[str, Workload] = {
    "burst": Workload(burst.run, 60_000, "schedules", cap_s=600),
    "drain": Workload(drain.run, 20_000, "jobs", flags=("aged", "worker")),
    "due": Workload(due.steady, 1_000, "jobs", flags=("rate",)),
    "enqueue": Workload(enqueue.run, 20_000, "jobs"),
    "fairness": Workload(fairness.run, 200_000, "jobs of the neighbour", rate=10, cap_s=300, flags=("rate",)),
    "forward": Workload(forward.run, 1_000, "jobs", flags=("rate",)),
    "idle": Workload(idle.run, 20, "seconds"),
    "jobs": Workload(due.at_once, 10_000, "jobs"),
    "latency": Workload(latency.run, 1_000, "jobs", flags=("rate",)),
    "parked": Workload(parked.run, 10_000, "workers", rate=20, cap_s=300, flags=("rate", "pollers")),
    "recovery": Workload(recovery.run, 50, "running jobs", cap_s=180),
    "scale": Workload(scale.run, 50_000, "jobs", cap_s=300, flags=("coordinators",)),
    "schedules": Workload(schedules.run, 200_000, "schedules", cap_s=1_800, flags=("base",)),
    "soak": Workload(soak.run, 200_000, "jobs", cap_s=1_800, flags=("backlog",)),
    "timers": Workload(timers.run, 20_000, "jobs a round", cap_s=1_800, flags=("resident", "rounds")),
}


def main(argv: Sequence[str]) -> int:
    given = arguments.parse(argv, WORKLOADS, standard.NAMES)
    for number in ENDING:
        signal.signal(number, _interrupt)
    try:
        if given.command == "standard":
            return standard.run(given.reps, given.only, given.out or LOCAL / "standard")
        if given.command == "quick":
            return standard.quick(LOCAL / "quick")
        return run(given)
    except (BenchError, TimeoutError) as error:
        print(f"bench/run: {error or 'the floor took longer than the cap'}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench/run: interrupted; everything it started is ended", file=sys.stderr)
        return 130


def run(given: argparse.Namespace) -> int:
    """One workload."""
    workload = WORKLOADS[given.command]
    profiles: dict[str, Path] = {}
    if given.profile:
        LOCAL.mkdir(parents=True, exist_ok=True)
        profiles[given.profile] = LOCAL / f"{given.command}-{given.profile}.pstats"
    with Stand() as stand:
        figures = workload.run(stand, arguments.options(given, profiles))
        versions = {"pg": stand.version(), "python": platform.python_version()}
    result = {"workload": given.command, "n": given.n} | figures | versions
    if not given.json:
        for path in profiles.values():
            print(top(path))
        _show(result)
    print(json.dumps({key: plain(value) for key, value in result.items()}), flush=True)
    return 0


def _show(result: Figures) -> None:
    """For people."""
    width = max(map(len, result))
    for key, value in result.items():
        print(f"{key:<{width}}  {plain(value)}")
    print()


def _interrupt(number: int, frame: object) -> NoReturn:
    # A second one must not interrupt the ending, which is short.
    for each in ENDING:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
