"""The command line of `bench/run`."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from bench.workload import Deadline, Options, Workload

N = TypeVar("N", int, float)


def _positive(read: Callable[[str], N]) -> Callable[[str], N]:
    def number(text: str) -> N:
        found = read(text)
        if not found > 0:
            raise argparse.ArgumentTypeError(f"expected more than 0, found {text}")
        return found

    return number


count, span = _positive(int), _positive(float)


def counts(text: str) -> tuple[int, ...]:
    return tuple(map(count, text.split(",")))


def some_of(known: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    def names(text: str) -> tuple[str, ...]:
        found = tuple(text.split(","))
        if unknown := [name for name in found if name not in known]:
            raise argparse.ArgumentTypeError(f"expected some of {', '.join(known)}, found {', '.join(unknown)}")
        return found

    return names


LANGUAGES = ("go", "java", "python", "typescript")

FLAGS: Mapping[str, Mapping[str, Any]] = {
    "aged": {"action": "store_true", "help": "jobs that come due in another order than they were created in"},
    "backlog": {"type": count, "help": "jobs that wait at a time, at most"},
    "base": {"type": count, "help": "schedules that are there at first"},
    "coordinators": {"type": counts, "help": "how many at a time, such as 1,2,4"},
    "pollers": {"type": count, "help": "polls of each worker, at most 64"},
    "rate": {"type": span, "help": "jobs a second"},
    "resident": {"type": count, "help": "timers, 30 days ahead"},
    "worker": {"choices": LANGUAGES, "help": "the SDK whose worker drains; empty: Python, with an async handler"},
    "rounds": {"type": count, "help": "drains with timers, and as many without"},
}
"""Those of some workloads, with the defaults of Options."""

_DEFAULTS = {field.name: field.default for field in fields(Options)}


def parse(argv: Sequence[str], workloads: Mapping[str, Workload], steps: Sequence[str]) -> argparse.Namespace:
    """`command` is a workload, or a set of runs: `standard` or `quick`. Exits with 2 on what it does not know."""
    parser = argparse.ArgumentParser(prog="bench/run", description="Measures Rota beside its SQL floor; see README.md.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="WORKLOAD")
    for name, workload in workloads.items():
        words = f"by default {workload.n:,} {workload.of}"
        command = commands.add_parser(name, help=words, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
        _add_workload(command, workload)
    standard = commands.add_parser("standard", help="every workload at its full size: the table beside the targets")
    standard.add_argument("--reps", type=count, default=1, help="runs of each; the table has medians (1)")
    standard.add_argument("--only", type=some_of(steps), help=f"some of {', '.join(steps)}")
    standard.add_argument("--out", type=Path, help="files to write, without ending (bench/results/local/standard)")
    commands.add_parser("quick", help="every workload at a small size, for what they check and not for their times")
    return parser.parse_args(argv)


def _add_workload(command: argparse.ArgumentParser, workload: Workload) -> None:
    command.add_argument("--n", type=count, default=workload.n, help=workload.of)
    command.add_argument("--slots", type=count, default=_DEFAULTS["slots"], help="jobs that a worker runs at a time")
    command.add_argument("--cap", type=span, default=workload.cap_s, metavar="S", help="give up after so many seconds")
    command.add_argument("--profile", choices=("coordinator", "worker"), help="profile that process, which slows it")
    command.add_argument("--json", action="store_true", help="nothing but the JSON line")
    for flag in workload.flags:
        command.add_argument(f"--{flag}", default=workload.rate if flag == "rate" else _DEFAULTS[flag], **FLAGS[flag])


def options(arguments: argparse.Namespace, profiles: Mapping[str, Path]) -> Options:
    """Of a workload; its time begins now."""
    given = {name: value for name, value in vars(arguments).items() if name in FLAGS}
    return Options(
        n=arguments.n,
        slots=arguments.slots,
        cap_s=arguments.cap,
        deadline=Deadline(arguments.cap),
        profiles=profiles,
        **given,
    )
