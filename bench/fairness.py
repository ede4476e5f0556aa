"""The workload `fairness`: a small tenant's jobs, alone, and beside a neighbour with a thousand times as many."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import uvloop
from rota_sdk import NewJob

from bench import creating, finished, starts
from bench.cpu import Reading
from bench.creating import Calls
from bench.errors import BenchError
from bench.figures import percentiles_ms, prefixed, ratio
from bench.finished import Finished
from bench.latency import WARM_UP
from bench.stand import Stand
from bench.work import JOB, SAY_EVERY
from bench.workload import Figures, Options

LOAD_RATIO = 1_000
"""The neighbour's jobs for each of those that the small tenant creates while it is alone, and about as many beside."""

ALONE_MIN = 20

SMALL, NEIGHBOUR = "small", "neighbour"
SMALL_SLOTS = 50
LOOK_EVERY_S = 0.01


def run(stand: Stand, options: Options) -> Figures:
    """The neighbour's `n` jobs wait when its worker comes; the small tenant creates `rate` a second until they end.

    Dispatch is from due to leased, by the store's word; start is from just before the CreateJob call to the handler.
    """
    shared = _Shared(stand, options)
    alone = shared.alone()
    busy = shared.beside(first=len(alone.called))
    beside = busy.calls
    found = shared.end(total=len(alone.called) + len(beside.called))
    numbers = [number for number in alone.called if number >= WARM_UP]
    figures: Figures = {}
    for name, calls, counted in (("alone", alone, numbers), ("beside", beside, list(beside.called))):
        figures |= prefixed(f"{name}_", shared.dispatch(SMALL, calls, counted))
        figures |= prefixed(f"{name}_start_", shared.start(calls, counted))
        figures[f"{name}_jobs"] = len(counted)
    figures |= prefixed("neighbour_", shared.dispatch(NEIGHBOUR))
    return {
        **{
            f"{key}_ratio": ratio(figures[f"beside_{key}_ms"], figures[f"alone_{key}_ms"])
            for key in ("p50", "p99", "start_p50", "start_p99")
        },
        **figures,
        "load_ratio": busy.neighbour_jobs / len(beside.called),
        "neighbour_jobs_per_s": busy.neighbour_jobs / (busy.after.at - busy.before.at),
        "rate": options.rate,
        "finished": found.count,
        "attempts_max": found.attempts_max,
        **busy.after.cpu_us(busy.before, busy.neighbour_jobs + len(beside.called)),
        "foreign_cpu_pct": busy.after.foreign_pct(busy.before),
    }


@dataclass(frozen=True, slots=True)
class _Busy:
    """What happened while the neighbour was busy."""

    calls: Calls
    before: Reading
    after: Reading
    neighbour_jobs: int


class _Shared:
    """One coordinator with a worker of the small tenant, and later one of the neighbour's."""

    def __init__(self, stand: Stand, options: Options) -> None:
        self._stand = stand
        self._options = options
        self._url = stand.create_database("fairness")
        self._keys = {tenant: stand.key(self._url, tenant) for tenant in (SMALL, NEIGHBOUR)}
        self._coordinator, self._address = stand.coordinator(self._url, profile=options.profiles.get("coordinator"))
        self._events = stand.folder / "events"
        self._small = stand.worker(self._address, self._keys[SMALL], slots=SMALL_SLOTS, events=self._events)
        self._small.told("ready_cpu_s", options.deadline.left_s())
        self._workers = [self._small]
        self._started: dict[int, float] = {}

    def alone(self) -> Calls:
        most = WARM_UP + max(self._options.n // LOAD_RATIO, ALONE_MIN)
        return uvloop.run(creating.steadily(self._address, self._keys[SMALL], most, self._options.rate))

    def beside(self, first: int) -> _Busy:
        n, rate, deadline = self._options.n, self._options.rate, self._options.deadline
        key = self._keys[NEIGHBOUR]
        creating.in_batches(self._address, key, (NewJob(JOB, payload={}) for _ in range(n)))
        self._stand.ask("CHECKPOINT")
        self._coordinator.begin_profile()
        profile = self._options.profiles.get("worker")
        neighbour = self._stand.worker(self._address, key, slots=self._options.slots, profile=profile)
        self._workers.append(neighbour)
        while not neighbour.latest("started"):
            deadline.check("the neighbour's worker to start its jobs", "none started")
            time.sleep(LOOK_EVERY_S)
        before, started = self._reading(), neighbour.latest("started")
        calls = uvloop.run(
            creating.steadily(
                self._address,
                self._keys[SMALL],
                max(int(rate * deadline.left_s()), 1),
                rate,
                lambda _: neighbour.latest("started") < n - SAY_EVERY,
                first,
            )
        )
        if not calls.called:
            raise BenchError(f"expected the neighbour to be busy for a while, found its {n} jobs done; raise --n")
        return _Busy(calls, before, self._reading(), neighbour.latest("started") - started)

    def end(self, total: int) -> Finished:
        """All jobs of both are finished, and all processes gone."""
        n = self._options.n + total
        finished.wait(self._url, n, self._workers, self._options.deadline)
        for child in (*self._workers, self._coordinator):
            child.stop()
        self._started = starts.read(self._events, total)
        return finished.check(self._stand, self._url, n)

    def dispatch(self, tenant: str, calls: Calls | None = None, counted: Sequence[int] = ()) -> dict[str, float]:
        """Of all jobs of a tenant, or of those that the counted calls made."""
        since = min((calls.called[number] for number in counted), default=0.0) if calls else 0.0
        until = max((calls.answered[number] for number in counted), default=0.0) if calls else time.time()
        return percentiles_ms("", finished.dispatch_s(self._stand, self._url, tenant, since, until))

    def start(self, calls: Calls, counted: Sequence[int]) -> dict[str, float]:
        return percentiles_ms("", [self._started[number] - calls.called[number] for number in counted])

    def _reading(self) -> Reading:
        workers = [worker.pid for worker in self._workers]
        return Reading.take(store=self._stand.store_pid, coordinators=[self._coordinator.pid], workers=workers)
