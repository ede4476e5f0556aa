"""Who used how much CPU, and memory. Spans are seconds; the kernel counts them in steps of 10 ms."""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import psutil


def used_s(pid: int) -> float:
    """What one process has used, without its children."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def tree_used_s(pid: int) -> float:
    """What a process and all its descendants have used, those that have ended included."""
    root = psutil.Process(pid)
    total = 0.0
    for process in (root, *root.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            # Of the ended ones the kernel keeps the sum with their parent.
            total += times.user + times.system + times.children_user + times.children_system
    return total


def resident_mb(pid: int) -> float:
    """What one process has in memory now, without its children."""
    return float(psutil.Process(pid).memory_info().rss / 2**20)


@dataclass(frozen=True, slots=True)
class Reading:
    """The whole machine and the processes of this run at one moment; those of one kind are summed up."""

    at: float
    machine_s: float
    own_s: float
    coordinator_s: float
    store_s: float
    worker_s: float

    @classmethod
    def take(cls, *, store: int, coordinators: Sequence[int] = (), workers: Sequence[int] = ()) -> Self:
        """Reads the processes with these ids, and this one."""
        busy = psutil.cpu_times()
        idle = busy.idle + getattr(busy, "iowait", 0.0) + getattr(busy, "steal", 0.0)
        # A guest's time is contained in user's.
        guests = getattr(busy, "guest", 0.0) + getattr(busy, "guest_nice", 0.0)
        return cls(
            time.monotonic(),
            sum(busy) - idle - guests,
            used_s(os.getpid()),
            sum(map(used_s, coordinators)),
            tree_used_s(store),
            sum(map(used_s, workers)),
        )

    def cpu_us(self, earlier: "Reading", count: int, prefix: str = "") -> dict[str, float]:
        """What each kind used since an earlier reading for one of `count` things, in µs."""
        return {
            f"{prefix}coordinator_cpu_us": (self.coordinator_s - earlier.coordinator_s) / count * 1e6,
            f"{prefix}worker_cpu_us": (self.worker_s - earlier.worker_s) / count * 1e6,
            f"{prefix}store_cpu_us": (self.store_s - earlier.store_s) / count * 1e6,
        }

    def cpu_pct(self, earlier: "Reading") -> dict[str, float]:
        """What each kind used since an earlier reading, in % of one core."""
        span_s = max(self.at - earlier.at, 0.001)
        return {
            "coordinator_cpu_pct": (self.coordinator_s - earlier.coordinator_s) / span_s * 100,
            "worker_cpu_pct": (self.worker_s - earlier.worker_s) / span_s * 100,
            "store_cpu_pct": (self.store_s - earlier.store_s) / span_s * 100,
        }

    def foreign_pct(self, earlier: "Reading") -> float:
        """What others used since an earlier reading, in % of one core; the kernel's own threads are among them."""
        ours = sum(
            getattr(self, name) - getattr(earlier, name) for name in ("own_s", "coordinator_s", "store_s", "worker_s")
        )
        span_s = max(self.at - earlier.at, 0.001)
        return float(max(self.machine_s - earlier.machine_s - ours, 0.0) / span_s * 100)
