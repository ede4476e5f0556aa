"""What a workload is: a function of a stand and of options, and what holds where the caller gives none."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.errors import BenchError
from bench.stand import Stand

Figures = dict[str, Any]


class Deadline:
    """The end of what a run may take."""

    def __init__(self, cap_s: float) -> None:
        self._until = time.monotonic() + cap_s

    def left_s(self) -> float:
        return self._until - time.monotonic()

    def check(self, expected: str, found: object) -> None:
        """BenchError once the time is over."""
        if self.left_s() < 0:
            raise BenchError(f"expected {expected} within the cap, found {found}; raise --cap or lower --n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How one run is wanted. A workload reads those that concern it."""

    n: int
    cap_s: float
    deadline: Deadline
    slots: int = 500
    worker: str = ""
    """The language of its SDK; empty: the Python worker of this package."""
    rate: float = 50.0
    aged: bool = False
    backlog: int = 20_000
    base: int = 10_000
    coordinators: tuple[int, ...] = (1, 2, 4)
    pollers: int = 1
    resident: int = 1_000_000
    rounds: int = 3
    profiles: Mapping[str, Path] = field(default_factory=dict)
    """By process, coordinator or worker: where its profile goes."""


@dataclass(frozen=True, slots=True)
class Workload:
    run: Callable[[Stand, Options], Figures]
    n: int
    of: str
    """What `n` counts."""

    rate: float = 50.0
    cap_s: float = 120.0
    flags: tuple[str, ...] = ()
    """Those that concern it, beside the ones that all have."""
