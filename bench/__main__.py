"""`bench/run WORKLOAD`: one run, and one JSON object as the last line of standard output; or a set of runs."""

import argparse
import json
import platform
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from bench import (
    burst,
    drain,
    due,
    enqueue,
    fairness,
    forward,
    idle,
    latency,
    parked,
    scale,
    schedules,
    standard,
    timers,
)
from bench.figures import rounded
from bench.profiler import top
from bench.stand import BenchError, Stand
from bench.workload import Deadline, Figures, Options, Workload

LOCAL = Path(__file__).parent / "results" / "local"

WORKLOADS: Mapping[str, Workload] = {
    "burst": Workload(burst.run, 60_000, "schedules", cap_s=600),
    "drain": Workload(drain.run, 20_000, "jobs", flags=("aged",)),
    "due": Workload(due.steady, 1_000, "jobs", flags=("rate",)),
    "enqueue": Workload(enqueue.run, 20_000, "jobs"),
    "fairness": Workload(fairness.run, 200_000, "jobs of the neighbour", rate=10, cap_s=300, flags=("rate",)),
    "forward": Workload(forward.run, 1_000, "jobs", flags=("rate",)),
    "idle": Workload(idle.run, 20, "seconds"),
    "jobs": Workload(due.at_once, 10_000, "jobs"),
    "latency": Workload(latency.run, 1_000, "jobs", flags=("rate",)),
    "parked": Workload(parked.run, 10_000, "workers", rate=20, cap_s=300, flags=("rate", "pollers")),
    "scale": Workload(scale.run, 50_000, "jobs", cap_s=300, flags=("coordinators",)),
    "schedules": Workload(schedules.run, 200_000, "schedules", cap_s=1_800, flags=("base",)),
    "timers": Workload(timers.run, 20_000, "jobs a round", cap_s=1_800, flags=("resident", "rounds")),
}

SETS = {
    "standard": "every workload at its full size: the table of figures and targets",
    "quick": "every workload at a small size, for what they check and not for their times",
}


def main(argv: Sequence[str]) -> int:
    arguments = _parser().parse_args(argv)
    # SIGINT too, since a shell lets its background jobs ignore it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        if arguments.command == "standard":
            return standard.run(arguments.reps, arguments.only, arguments.out or LOCAL / "standard")
        if arguments.command == "quick":
            return standard.quick(LOCAL / "quick")
        return run(arguments)
    except (BenchError, TimeoutError) as error:
        print(f"bench/run: {error or 'the floor took longer than the cap'}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench/run: interrupted; everything it started is ended", file=sys.stderr)
        return 130


def run(arguments: argparse.Namespace) -> int:
    """One workload."""
    workload = WORKLOADS[arguments.command]
    profiles: dict[str, Path] = {}
    if arguments.profile:
        LOCAL.mkdir(parents=True, exist_ok=True)
        profiles[arguments.profile] = LOCAL / f"{arguments.command}-{arguments.profile}.pstats"
    with Stand() as stand:
        figures = workload.run(stand, _options(arguments, profiles))
        versions = {"pg": stand.version(), "python": platform.python_version()}
    result = {"workload": arguments.command, "n": arguments.n} | figures | versions
    if not arguments.json:
        for path in profiles.values():
            print(top(path))
        _show(result)
    print(json.dumps({key: rounded(value) for key, value in result.items()}), flush=True)
    return 0


def _options(arguments: argparse.Namespace, profiles: Mapping[str, Path]) -> Options:
    return Options(
        n=arguments.n,
        rate=arguments.rate,
        slots=arguments.slots,
        base=arguments.base,
        resident=arguments.resident,
        rounds=arguments.rounds,
        coordinators=arguments.coordinators,
        pollers=arguments.pollers,
        aged=arguments.aged,
        deadline=Deadline(arguments.cap),
        cap_s=arguments.cap,
        profiles=profiles,
    )


FLAGS: Mapping[str, Mapping[str, Any]] = {
    "aged": {"action": "store_true", "help": "jobs that come due in another order than they were created in"},
    "base": {"type": lambda text: _positive(text), "help": "schedules that are there at first (10000)"},
    "coordinators": {"type": lambda text: tuple(map(_positive, text.split(","))), "help": "how many at a time (1,2,4)"},
    "pollers": {"type": lambda text: _positive(text), "help": "polls of each worker, at most 64 (1)"},
    "rate": {"type": lambda text: _positive_float(text), "help": "jobs a second ({rate:g})"},
    "resident": {"type": lambda text: _positive(text), "help": "timers, 30 days ahead (1000000)"},
    "rounds": {"type": lambda text: _positive(text), "help": "drains with timers, and as many without (3)"},
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/run", description="Measures Rota beside its SQL floor; see README.md.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="WORKLOAD")
    for name, workload in WORKLOADS.items():
        command = commands.add_parser(name, help=f"by default {workload.n:,} {workload.of}")
        command.add_argument("--n", type=_positive, default=workload.n, help=f"{workload.of} ({workload.n})")
        command.add_argument("--slots", type=_positive, default=500, help="jobs that a worker runs at a time (500)")
        command.add_argument(
            "--cap",
            type=_positive_float,
            default=workload.cap_s,
            metavar="S",
            help=f"give up then ({workload.cap_s:g})",
        )
        command.add_argument(
            "--profile",
            choices=("coordinator", "worker"),
            help="profile that process, which slows it; prints the top 25",
        )
        command.add_argument("--json", action="store_true", help="nothing but the JSON line")
        for flag in workload.flags:
            told = dict(FLAGS[flag])
            command.add_argument(f"--{flag}", **told | {"help": told["help"].format(rate=workload.rate)})
        command.set_defaults(
            rate=workload.rate, base=10_000, resident=1_000_000, rounds=3, coordinators=(1, 2, 4), pollers=1, aged=False
        )
    for name, words in SETS.items():
        command = commands.add_parser(name, help=words)
        if name == "standard":
            command.add_argument("--reps", type=_positive, default=1, help="runs of each; the table has medians (1)")
            command.add_argument(
                "--only", type=lambda text: tuple(text.split(",")), help=f"some of {', '.join(standard.NAMES)}"
            )
            command.add_argument(
                "--out", type=Path, help="files to write, without ending (bench/results/local/standard)"
            )
    return parser


def _positive(text: str) -> int:
    if (number := int(text)) <= 0:
        raise argparse.ArgumentTypeError(f"expected more than 0, found {text}")
    return number


def _positive_float(text: str) -> float:
    if not (number := float(text)) > 0:
        raise argparse.ArgumentTypeError(f"expected more than 0, found {text}")
    return number


def _show(result: Figures) -> None:
    """For people."""
    width = max(map(len, result))
    for key, value in result.items():
        print(f"{key:<{width}}  {rounded(value)}")
    print()


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
