"""The starts of handlers, as workers write them down: a number and the moment, one a line."""

from pathlib import Path

from bench.errors import BenchError


def read(events: Path, total: int) -> dict[int, float]:
    """By number, once the worker has ended. BenchError unless each number below `total` was started, and once."""
    started: dict[int, float] = {}
    lines = events.read_text().splitlines()
    for line in lines:
        number, at = line.split()
        started[int(number)] = float(at)
    if len(lines) != total or started.keys() != set(range(total)):
        raise BenchError(
            f"expected {total} jobs, each started once; found {len(lines)} starts of {len(started)} jobs; "
            "the store's attempts tell why"
        )
    return started
