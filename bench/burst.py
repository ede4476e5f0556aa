"""The workload `burst`: schedules that all come due at one second, for one worker that waits for their jobs."""

import math
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from rota_sdk import Client

from bench import firefloor, making
from bench.cpu import Reading, resident_mb
from bench.errors import BenchError
from bench.figures import ratio
from bench.stand import Child, Stand
from bench.workload import Deadline, Figures, Options
from rota.domain import limits

LEAD_S = 90.0
"""From the end of the creation until the due time: the lookahead, and some time in which nothing happens."""

CREATED_A_SECOND = 1_500
"""Creation is taken to be no slower than this when the due time is chosen."""

BEFORE_ARMED_S = 2.0
BEFORE_DUE_S = limits.LOOKAHEAD_S + 2.0
"""The jobs are in memory by then."""

LOOK_EVERY_S = 0.25

_LEDGER = """
SELECT count(*), count(*) FILTER (WHERE fate = 1), count(DISTINCT schedule_uid), count(DISTINCT job_id),
       extract(epoch FROM max(recorded_at) - min(recorded_at))::float8,
       extract(epoch FROM min(due_at) - max(recorded_at))::float8, count(DISTINCT recorded_at)
FROM occurrences
"""

_DISPATCH = """
SELECT count(*), count(DISTINCT id), max(attempt),
       extract(epoch FROM max(finished_at) - min(due_at))::float8,
       extract(epoch FROM percentile_disc(0.5) WITHIN GROUP (ORDER BY leased_at - due_at))::float8 * 1e3,
       extract(epoch FROM percentile_disc(0.99) WITHIN GROUP (ORDER BY leased_at - due_at))::float8 * 1e3,
       extract(epoch FROM max(leased_at - due_at))::float8 * 1e3
FROM finished_jobs
"""


def run(stand: Stand, options: Options) -> Figures:
    """The durable fires, the lag until their jobs can be leased, how they are then leased; and the floor of the fires.

    Lag is counted by the coordinator, dispatch by the store.
    """
    n, deadline = options.n, options.deadline
    url = stand.create_database("burst")
    key = stand.key(url)
    coordinator, address = stand.coordinator(url, profile=options.profiles.get("coordinator"))

    def reading() -> Reading:
        return Reading.take(store=stand.store_pid, coordinators=[coordinator.pid])

    due, create_s = _create(address, key, options)
    armed = due - timedelta(seconds=limits.MATERIALISE_AHEAD_S)
    worker = stand.worker(address, key, slots=options.slots, profile=options.profiles.get("worker"))
    worker.told("ready_cpu_s", deadline.left_s())
    stand.ask("CHECKPOINT")
    _tell(f"the first fires are due in {_left_s(armed):.0f} s, their jobs {limits.MATERIALISE_AHEAD_S:g} s later")
    time.sleep(max(_left_s(armed) - BEFORE_ARMED_S, 0.0))
    coordinator.begin_profile()
    before = reading()
    _until(lambda: _count(stand, url, "occurrences"), n, "fires", deadline)
    fired = reading()
    time.sleep(max(_left_s(due) - BEFORE_DUE_S, 0.0))
    waiting = reading()
    rss_mb = resident_mb(coordinator.pid)
    _until(lambda: _count(stand, url, "finished_jobs"), n, "finished jobs", deadline)
    done = reading()
    worker.stop()
    coordinator.stop()
    found = _stored(stand, url, n)
    stand.drop_database("burst")
    below = firefloor.fire(stand.create_database("floor"), stand.store_pid, n, due)
    return {
        # Few fires go in one transaction, which has no length.
        "fires_per_s": ratio(n, found["fire_s"]),
        "floor_fires_per_s": below.jobs_per_s,
        "ratio": ratio(n, found["fire_s"]) / below.jobs_per_s,
        "floor_s": below.seconds,
        **found,
        **_eligible(coordinator, deadline),
        "fire_coordinator_cpu_us": (fired.coordinator_s - before.coordinator_s) / n * 1e6,
        "fire_store_cpu_us": (fired.store_s - before.store_s) / n * 1e6,
        "floor_store_cpu_us": below.store_cpu_us,
        "floor_client_cpu_us": below.client_cpu_us,
        "drain_coordinator_cpu_us": (done.coordinator_s - waiting.coordinator_s) / n * 1e6,
        "slots": options.slots,
        "create_per_s": n / create_s,
        "coordinator_mb": rss_mb,
        "fire_foreign_cpu_pct": fired.foreign_pct(before),
        "floor_foreign_cpu_pct": below.foreign_cpu_pct,
    }


def _create(address: str, key: str, options: Options) -> tuple[datetime, float]:
    """When the schedules are due, and the seconds that creating them took."""
    n = options.n
    needed_s = n / CREATED_A_SECOND + LEAD_S
    if needed_s > options.cap_s:
        raise BenchError(f"{n} schedules are due {needed_s:.0f} s after the start, over the cap of {options.cap_s:g} s")
    due = datetime.fromtimestamp(math.ceil(time.time() + needed_s), UTC)
    began = time.monotonic()
    with Client(address, api_key=key) as client:
        making.create(client, making.at_once(due, "burst"), 0, n, making.Progress(n))
    create_s = time.monotonic() - began
    if _left_s(due) < limits.MATERIALISE_AHEAD_S + BEFORE_ARMED_S:
        raise BenchError(
            f"expected to create {n} schedules at {CREATED_A_SECOND} a second or faster, found {n / create_s:.0f}; "
            "lower --n, or repeat it on a machine with less to do"
        )
    return due, create_s


def _stored(stand: Stand, url: str, n: int) -> Figures:
    """What ledger and jobs say. BenchError unless all were fired and finished, each once."""
    rows, fires, schedules, jobs, fire_s, early_s, commits = stand.ask(_LEDGER, url)[0]
    finished, distinct, attempts_max, drain_s, p50, p99, longest = stand.ask(_DISPATCH, url)[0]
    left = _count(stand, url, "jobs")
    if not rows == fires == schedules == jobs == finished == distinct == n or left:
        raise BenchError(
            f"expected {n} fires and as many jobs, each once; found {rows} occurrences, {fires} FIRED, of {schedules} "
            f"schedules, with {jobs} jobs, of which {finished} ({distinct} different) finished and {left} wait"
        )
    return {
        "fire_s": fire_s,
        "fired_before_due_s": early_s,
        "fires_per_commit": n / commits,
        "dispatch_p50_ms": p50,
        "dispatch_p99_ms": p99,
        "dispatch_max_ms": longest,
        "drain_jobs_per_s": n / drain_s,
        "fired": fires,
        "finished": finished,
        "attempts_max": attempts_max,
    }


def _eligible(coordinator: Child, deadline: Deadline) -> Figures:
    """The coordinator's own histogram, once it has ended."""
    metrics = coordinator.told("metrics", deadline.left_s())
    eligible = coordinator.told("eligible", deadline.left_s())
    return {
        "eligible_count": sum(count for _, count in eligible),
        "eligible_mean_ms": _mean_ms(metrics["rota.lag.eligible"]),
        **{f"eligible_{name}_ms": _bound(eligible, q) * 1e3 for name, q in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))},
    }


def _left_s(until: datetime) -> float:
    return until.timestamp() - time.time()


def _count(stand: Stand, url: str, table: str) -> int:
    return int(stand.ask(f"SELECT count(*) FROM {table}", url)[0][0])


def _until(count: Callable[[], int], n: int, what: str, deadline: Deadline) -> None:
    while (found := count()) < n:
        deadline.check(f"{n} {what}", found)
        time.sleep(LOOK_EVERY_S)


def _bound(buckets: Sequence[Sequence[float]], q: float) -> float:
    """The upper end of the bucket that holds a quantile, in seconds."""
    rank = q * sum(count for _, count in buckets)
    seen = 0.0
    for bound, count in buckets:
        seen += count
        if seen >= rank and seen:
            return bound
    return math.nan


def _mean_ms(histogram: dict[str, float]) -> float:
    return histogram["sum"] / histogram["count"] * 1e3 if histogram["count"] else math.nan


def _tell(words: str) -> None:
    print(f"bench/run: {words}", file=sys.stderr)
