"""The table of the standard set: which figure of which step stands in it, and what it is to reach."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """A figure of a step; `floor` is the figure of the SQL floor that stands beside it."""

    step: str
    figure: str
    what: str
    unit: str = ""
    least: float | None = None
    most: float | None = None
    floor: str = ""

    @property
    def target(self) -> str:
        if self.least is not None:
            return f"≥ {self.least:,g}"
        return "" if self.most is None else f"≤ {self.most:,g}"

    def met(self, value: float) -> bool | None:
        """None when there is no target."""
        if self.least is not None:
            return value >= self.least
        return None if self.most is None else value <= self.most

    def margin(self, value: float) -> float | None:
        """How many times better than the target; below 1 it is missed. None when there is none to compare with."""
        if self.least is not None:
            return value / self.least
        if self.most is None:
            return None
        return self.most / value if value > 0 else None


ROWS: Sequence[Row] = (
    Row("drain", "jobs_per_s", "drain", "jobs/s", floor="floor_jobs_per_s"),
    Row("drain", "ratio", "drain, share of the SQL floor", least=0.5),
    Row("drain", "cpu_us", "drain, CPU per job", "µs", most=160),
    Row("drain", "coordinator_cpu_us", "drain, of that the coordinator", "µs", most=65),
    Row("drain", "worker_cpu_us", "drain, of that the worker", "µs", most=35),
    Row("drain", "store_cpu_us", "drain, of that the store", "µs", most=60, floor="floor_store_cpu_us"),
    Row("aged", "jobs_per_s", "drain of aged jobs", "jobs/s", floor="floor_jobs_per_s"),
    Row("aged", "ratio", "drain of aged jobs, share of the SQL floor", least=0.5),
    Row("enqueue", "jobs_per_s", "enqueue in hundreds", "jobs/s", least=15_000, floor="floor_jobs_per_s"),
    Row("enqueue", "single_calls_per_s", "enqueue one by one, 64 callers", "calls/s", least=500),
    Row("latency-50", "p50_ms", "create → start at 50/s, p50", "ms", most=8),
    Row("latency-50", "p99_ms", "create → start at 50/s, p99", "ms", most=20),
    Row("latency-500", "p50_ms", "create → start at 500/s, p50", "ms"),
    Row("latency-500", "p99_ms", "create → start at 500/s, p99", "ms"),
    Row("due", "p50_ms", "due → start, p50", "ms", most=15),
    Row("due", "p99_ms", "due → start, p99", "ms", most=50),
    Row("due", "early", "due → start, started early", "jobs", most=0),
    Row("timers", "ratio", "drain with 1 M timers resident, to without", least=0.95),
    Row("timers-10m", "ratio", "drain with 10 M timers resident, to without", least=0.9),
    Row("jobs", "first_ms", "10,000 jobs due at once, first start", "ms", most=50),
    Row("jobs", "all_s", "10,000 jobs due at once, all started", "s", most=1.5, floor="floor_s"),
    Row("jobs", "early", "10,000 jobs due at once, started early", "jobs", most=0),
    Row("burst", "fire_s", "60,000 schedules of one second, all fired", "s", most=10, floor="floor_s"),
    Row("burst", "eligible_p99_ms", "60,000 schedules of one second, eligible lag p99", "ms", most=1_000),
    Row("soak", "growth_ratio", "a million jobs, their table in the second half to the first", most=1.25),
    Row("soak", "bloat_ratio", "a million jobs, their table at its largest to what it holds"),
    Row("soak", "rate_ratio", "a million jobs, rate of the ninth tenth to that of the second", least=0.9),
    Row("idle", "coordinator_cpu_pct", "idle, coordinator", "% of a core", most=1),
    Row("idle", "store_cpu_pct", "idle, store", "% of a core", most=1),
    Row("idle", "commits_per_s", "idle, commits", "/s", most=5),
    Row("parked", "coordinator_mb", "10,000 parked workers, memory", "MB", most=1_536),
    Row("parked", "wake_p50_ms", "10,000 parked workers, wake-up p50", "ms"),
    Row("parked", "wake_p99_ms", "10,000 parked workers, wake-up p99", "ms", most=20),
    Row("fairness", "alone_p99_ms", "small tenant alone, dispatch p99", "ms"),
    Row("fairness", "beside_p99_ms", "small tenant beside 1,000 × the load, dispatch p99", "ms"),
    Row("fairness", "p99_ratio", "small tenant, beside to alone", most=2),
    Row("forward", "local_p99_ms", "create → start, job of the worker's coordinator, p99", "ms"),
    Row("forward", "remote_p99_ms", "create → start, job of another coordinator, p99", "ms"),
    Row("forward", "p99_more_ms", "another coordinator's, so much more", "ms", most=20),
    Row("recovery", "default_all_s", "worker killed, its 50 jobs run again", "s", most=15),
    Row("recovery", "short_all_s", "the same with short leases", "s", most=5),
    Row("recovery", "late_accepted", "outcomes of a paused worker that were accepted", "jobs", most=0),
    Row("scale", "c1_jobs_per_s", "drain, 1 coordinator", "jobs/s", floor="floor_jobs_per_s"),
    Row("scale", "c2_jobs_per_s", "drain, 2 coordinators", "jobs/s", floor="floor_jobs_per_s"),
    Row("scale", "c4_jobs_per_s", "drain, 4 coordinators", "jobs/s", floor="floor_jobs_per_s"),
)
