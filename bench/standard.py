"""Sets of runs: the standard one, whose figures stand beside their targets, and the quick one, which only checks.

Each run is a process of its own, so that none inherits what another has left in memory.
"""

import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench import plot, report
from bench.targets import ROWS

QUICK_AT_ONCE = 3
"""Times do not matter there, and more than half of a run is waiting."""


@dataclass(frozen=True, slots=True)
class Step:
    """`arguments` are those of `bench/run`; without `quick` ones it is not part of the quick set."""

    name: str
    arguments: str
    quick: str = ""
    on_request: bool = False


STEPS: Sequence[Step] = (
    # The longest of the quick set come first.
    Step("burst", "burst", "burst --n 200"),
    Step("scale", "scale", "scale --n 300"),
    Step("drain", "drain --n 50000", "drain --n 300"),
    Step("aged", "drain --aged --n 50000", "drain --aged --n 300"),
    Step("enqueue", "enqueue --n 50000", "enqueue --n 400"),
    Step("latency-50", "latency --rate 50 --n 1500", "latency --rate 100 --n 100"),
    Step("latency-500", "latency --rate 500 --n 10000"),
    Step("due", "due --rate 50 --n 1500", "due --rate 100 --n 100"),
    Step("jobs", "jobs --n 10000", "jobs --n 500"),
    Step("timers", "timers", "timers --n 200 --resident 5000 --rounds 1"),
    Step("timers-10m", "timers --resident 10000000", on_request=True),
    Step("idle", "idle", "idle --n 2"),
    Step("parked", "parked", "parked --n 100 --rate 200"),
    Step("fairness", "fairness", "fairness --n 20000 --rate 50"),
    Step("forward", "forward --rate 50 --n 1500", "forward --rate 100 --n 100"),
    Step("recovery", "recovery", "recovery --n 10"),
    Step("schedules", "schedules", on_request=True),
    Step("soak", "soak --n 1000000", "soak --n 2000 --backlog 500", on_request=True),
)
NAMES = tuple(step.name for step in STEPS)


def run(reps: int, only: Sequence[str] | None, out: Path) -> int:
    """The standard set, a whole round before the next; writes OUT.json and OUT.svg and prints the table.

    1 when a run came to nothing.
    """
    steps = [step for step in STEPS if (step.name in only if only else not step.on_request)]
    runs = _Runs(1)
    try:
        with runs:
            for _ in range(reps):
                for step in steps:
                    runs.begin(step.name, step.arguments)
    finally:
        # What was measured before an interruption is worth keeping.
        _write(runs, out)
    print(report.table(runs.figures))
    out.with_suffix(".svg").write_text(plot.margins(runs.figures))
    print(f"\nwritten: {out.with_suffix('.json')} and {out.with_suffix('.svg')}")
    return runs.tell_failures()


def quick(out: Path) -> int:
    """Each workload at a small size: 1 unless all ran, and nothing was lost or doubled in any."""
    with _Runs(QUICK_AT_ONCE) as runs:
        for step in STEPS:
            if step.quick:
                runs.begin(step.name, step.quick)
    _write(runs, out)
    if not runs.failures:
        print(f"{len(runs.figures)} workloads ran; nothing was lost or doubled")
    return runs.tell_failures()


def _write(runs: "_Runs", out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    result = {"machine": _machine(), "runs": runs.figures, "failures": runs.failures}
    out.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")


class _Runs:
    """Runs of `bench/run`, so many at a time in the order in which they are begun. Leaving waits for all."""

    def __init__(self, at_once: int) -> None:
        self.figures: dict[str, list[Mapping[str, Any]]] = {}
        self.failures: dict[str, str] = {}
        self._pool = ThreadPoolExecutor(at_once)
        self._guard = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def __enter__(self) -> "_Runs":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._pool.shutdown()
        finally:
            # Interrupted: each run ends what it has started.
            with self._guard:
                self._stopped = True
                for process in self._running:
                    process.terminate()
            self._pool.shutdown(cancel_futures=True)

    def begin(self, name: str, arguments: str) -> None:
        self._pool.submit(self._run, name, arguments)

    def tell_failures(self) -> int:
        for name, words in self.failures.items():
            print(f"bench/run: {name} came to nothing: {words}", file=sys.stderr)
        return 1 if self.failures else 0

    def _run(self, name: str, arguments: str) -> None:
        command = [sys.executable, "-P", "-m", "bench", *arguments.split(), "--json"]
        with self._guard:
            if self._stopped:
                return
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self._running.add(process)
        began = time.monotonic()
        said, errors = process.communicate()
        with self._guard:
            self._running.discard(process)
            took_s = time.monotonic() - began
            if process.returncode == 0:
                found = json.loads(said.splitlines()[-1])
                self.figures.setdefault(name, []).append(found)
                if missing := [row.figure for row in ROWS if row.step == name and row.figure not in found]:
                    self.failures[name] = f"expected figures for the table, did not find {', '.join(missing)}"
            else:
                self.failures[name] = errors.strip()[-2000:] or f"exit code {process.returncode}"
        word = "done" if process.returncode == 0 else "FAILED"
        print(f"bench/run {arguments}: {word} after {took_s:.0f} s", file=sys.stderr)


def _machine() -> dict[str, Any]:
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30),
        "python": platform.python_version(),
    }
