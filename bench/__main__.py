"""`bench/run WORKLOAD`: one run, and one JSON object as the last line of standard output."""

import argparse
import json
import platform
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from bench import burst, drain, enqueue, latency, schedules
from bench.profiler import top
from bench.stand import BenchError, Stand

RESULTS = Path(__file__).parent / "results" / "local"
DEFAULT_N = {"burst": 60_000, "drain": 20_000, "enqueue": 20_000, "latency": 1_000, "schedules": 200_000}
DEFAULT_CAP_S = {"burst": 600.0, "schedules": 1_800.0}
OTHER_CAP_S = 120.0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/run", description="Measures Rota beside its SQL floor; see README.md.")
    parser.add_argument("workload", choices=sorted(DEFAULT_N))
    parser.add_argument(
        "--n", type=int, help="jobs (drain, enqueue 20000, latency 1000), schedules (burst 60000, schedules 200000)"
    )
    parser.add_argument("--slots", type=int, default=500, help="jobs that the worker runs at a time (500)")
    parser.add_argument("--rate", type=float, default=50.0, help="latency: jobs a second (50)")
    parser.add_argument("--base", type=int, default=10_000, help="schedules: so many are there at first (10000)")
    parser.add_argument(
        "--cap", type=float, metavar="S", help="give up after so many seconds (120; burst 600, schedules 1800)"
    )
    parser.add_argument(
        "--profile", choices=("coordinator", "worker"), help="profile that process, which slows it; prints the top 25"
    )
    parser.add_argument("--json", action="store_true", help="nothing but the JSON line")
    arguments = parser.parse_args()
    if arguments.n is None:
        arguments.n = DEFAULT_N[arguments.workload]
    if arguments.cap is None:
        arguments.cap = DEFAULT_CAP_S.get(arguments.workload, OTHER_CAP_S)
    for name in ("n", "slots", "rate", "base", "cap"):
        if getattr(arguments, name) <= 0:
            parser.error(f"--{name}: expected more than 0, found {getattr(arguments, name)}")
    return arguments


def measure(stand: Stand, arguments: argparse.Namespace, profiles: dict[str, Path]) -> dict[str, Any]:
    if arguments.workload == "drain":
        return drain.run(stand, n=arguments.n, slots=arguments.slots, cap_s=arguments.cap, profiles=profiles)
    if arguments.workload == "enqueue":
        return enqueue.run(stand, n=arguments.n, cap_s=arguments.cap, profiles=profiles)
    if arguments.workload == "burst":
        return burst.run(stand, n=arguments.n, slots=arguments.slots, cap_s=arguments.cap, profiles=profiles)
    if arguments.workload == "schedules":
        return schedules.run(stand, n=arguments.n, base=arguments.base, cap_s=arguments.cap, profiles=profiles)
    return latency.run(
        stand, n=arguments.n, rate=arguments.rate, slots=arguments.slots, cap_s=arguments.cap, profiles=profiles
    )


def main() -> int:
    arguments = parse()
    # SIGINT too, since a shell lets its background jobs ignore it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    profiles: dict[str, Path] = {}
    if arguments.profile:
        RESULTS.mkdir(parents=True, exist_ok=True)
        profiles[arguments.profile] = RESULTS / f"{arguments.workload}-{arguments.profile}.pstats"
    try:
        with Stand() as stand:
            figures = measure(stand, arguments, profiles)
            versions = {"pg": stand.version(), "python": platform.python_version()}
    except (BenchError, TimeoutError) as error:
        print(f"bench/run: {error or 'the floor took longer than the cap'}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench/run: interrupted; everything it started is ended", file=sys.stderr)
        return 130
    result = {"workload": arguments.workload, "n": arguments.n} | figures | versions
    if not arguments.json:
        for path in profiles.values():
            print(top(path))
        show(result)
    print(json.dumps({key: _rounded(value) for key, value in result.items()}), flush=True)
    return 0


def show(result: Mapping[str, Any]) -> None:
    """For people."""
    width = max(map(len, result))
    for key, value in result.items():
        print(f"{key:<{width}}  {_rounded(value)}")
    print()


def _rounded(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return round(value) if abs(value) >= 1_000 else float(f"{value:.3g}")


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
