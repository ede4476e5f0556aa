"""The workload `schedules`: what a resident schedule costs those who create, read and fire others."""

import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from rota_sdk import Client
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

from bench import making
from bench.cpu import Reading, resident_mb
from bench.errors import BenchError
from bench.figures import ratio
from bench.stand import Child, Stand
from bench.workload import Deadline, Figures, Options
from rota.domain import limits

CALLS = 200
"""Of each kind; the median of their times counts, and the sum of their CPU."""

WARM_UP = 10

CREATE_BATCHES = 10
"""Batches whose median is the cost of creating; they stay, and are among the residents afterwards."""

FIRES = 2_000
FIRE_ROUNDS = 3
"""Each with schedules of its own; the medians count."""

FIRE_LEAD_S = 6.0
"""From the choice of a time until its schedules are armed; they are created in between."""

REST_S = 8.0
"""After so long nothing is under way but what goes on always."""

IDLE_S = 10.0
LOOK_EVERY_S = 0.1

_FIRED = """
SELECT count(*), count(DISTINCT schedule_uid), extract(epoch FROM max(recorded_at) - min(recorded_at))::float8
FROM occurrences WHERE fate = 1 AND nominal_at = '{due}'
"""

RATIOS = (
    *("create_batch_ms", "create_cpu_us", "list_ms", "list_cpu_us", "get_ms", "get_cpu_us"),
    *("preview_ms", "preview_cpu_us", "fire_s", "fire_cpu_us", "idle_cpu_pct", "coordinator_mb"),
)


def run(stand: Stand, options: Options) -> Figures:
    """The same measurements with `base` and with `n` schedules resident, and the ratios of the second to the first."""
    n, base, deadline = options.n, options.base, options.deadline
    probe = making.BATCH * CREATE_BATCHES
    if n <= base + probe:
        raise BenchError(f"--n: expected more than --base and the {probe:,} that measuring adds to it, found {n}")
    url = stand.create_database("schedules")
    key = stand.key(url)
    coordinator, address = stand.coordinator(url, profile=options.profiles.get("coordinator"))
    make = making.quiet(datetime.now(UTC))
    progress = making.Progress(n)
    with Client(address, api_key=key) as client:
        bench = _Bench(stand, url, coordinator, client, make, deadline)
        bench.grow(base, progress)
        small = bench.measure("base", base)
        began, before, first = time.monotonic(), bench.reading(), bench.resident
        bench.grow(n, progress)
        grow_s, after, grown = time.monotonic() - began, bench.reading(), bench.resident - first
        coordinator.begin_profile()
        large = bench.measure("n", n)
    coordinator.stop()
    return {
        "base": base,
        **{f"{name}_ratio": ratio(large[name], small[name]) for name in RATIOS},
        **{f"base_{name}": value for name, value in small.items()},
        **{f"n_{name}": value for name, value in large.items()},
        "create_per_s": grown / grow_s,
        "create_coordinator_cpu_us": (after.coordinator_s - before.coordinator_s) / grown * 1e6,
        "create_store_cpu_us": (after.store_s - before.store_s) / grown * 1e6,
        "create_client_cpu_us": (after.own_s - before.own_s) / grown * 1e6,
    }


class _Bench:
    def __init__(
        self,
        stand: Stand,
        url: str,
        coordinator: Child,
        client: Client,
        make: making.Make,
        deadline: Deadline,
    ) -> None:
        self.resident = 0
        self._stand = stand
        self._url = url
        self._coordinator = coordinator
        self._client = client
        self._make = make
        self._deadline = deadline

    def grow(self, until: int, progress: making.Progress | None = None) -> None:
        """Creates quiet schedules until there are so many."""
        while self.resident < until:
            if self._deadline.left_s() < 0:
                raise BenchError(f"expected {until} schedules within the cap, found {self.resident}; raise --cap")
            count = min(making.BATCH, until - self.resident)
            making.create(self._client, self._make, self.resident, count, progress)
            self.resident += count

    def measure(self, label: str, count: int) -> dict[str, float]:
        """Everything, at the present number of residents. CPU is that of the coordinator and the store together."""
        print(f"bench/run: measuring with {count:,} schedules resident", file=sys.stderr)
        # What autovacuum would do at some moment of the measurement is done before it.
        self._stand.ask("VACUUM (ANALYZE)", self._url)
        self._stand.ask("CHECKPOINT")
        time.sleep(REST_S)
        stubs = self._client.stubs.schedules
        began = self.reading()
        time.sleep(IDLE_S)
        idle = _Rates.between(began, self.reading())
        found = {"idle_cpu_pct": idle.coordinator * 100}
        found |= self._calls("list", lambda _: stubs.ListSchedules(pb.ListSchedulesRequest(), timeout=making.CALL_S))
        found |= self._calls(
            "get", lambda i: stubs.GetSchedule(pb.GetScheduleRequest(name=making.name(i)), timeout=making.CALL_S)
        )
        found |= self._calls(
            "preview",
            lambda i: stubs.PreviewSchedule(pb.PreviewScheduleRequest(name=making.name(i)), timeout=making.CALL_S),
        )
        rounds = [self._fire(f"{label}-{number}", idle) for number in range(FIRE_ROUNDS)]
        found |= {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
        before = self.reading()
        spans = making.create(self._client, self._make, self.resident, making.BATCH * CREATE_BATCHES)
        done = self.reading()
        self.resident += making.BATCH * CREATE_BATCHES
        found["create_batch_ms"] = statistics.median(spans) * 1e3
        found["create_cpu_us"] = _cpu_us(before, done, making.BATCH * CREATE_BATCHES)
        found["coordinator_mb"] = resident_mb(self._coordinator.pid)
        found["foreign_cpu_pct"] = done.foreign_pct(began)
        return found

    def _calls(self, name: str, call: Callable[[int], object]) -> dict[str, float]:
        """Over all residents, one call after the other. The first ones prepare statements, and are not counted."""
        spans = []
        for number in making.spread(WARM_UP, self.resident):
            call(number)
        before = self.reading()
        for number in making.spread(CALLS, self.resident):
            began = time.monotonic()
            call(number)
            spans.append(time.monotonic() - began)
        return {
            f"{name}_ms": statistics.median(spans) * 1e3,
            f"{name}_cpu_us": _cpu_us(before, self.reading(), CALLS),
        }

    def _fire(self, label: str, idle: "_Rates") -> dict[str, float]:
        """Schedules that fire ahead of one time; their jobs go again before anybody could lease them. What the
        processes use when idle is no part of the cost."""
        due = datetime.fromtimestamp(math.ceil(time.time() + limits.MATERIALISE_AHEAD_S + FIRE_LEAD_S), UTC)
        making.create(self._client, making.at_once(due, f"fires-{label}"), 0, FIRES)
        armed = due - timedelta(seconds=limits.MATERIALISE_AHEAD_S)
        left_s = armed.timestamp() - time.time()
        if left_s < 0.5:
            raise BenchError(f"expected to create {FIRES} schedules in {FIRE_LEAD_S:g} s, found it too slow by far")
        time.sleep(left_s - 0.5)
        before = self.reading()
        asked = _FIRED.format(due=due.isoformat())
        while (row := self._stand.ask(asked, self._url)[0])[0] < FIRES:
            if self._deadline.left_s() < 0:
                raise BenchError(f"expected {FIRES} fires within the cap, found {row[0]}")
            time.sleep(LOOK_EVERY_S)
        after = self.reading()
        fired, schedules, seconds = row
        if not fired == schedules == FIRES:
            raise BenchError(f"expected {FIRES} fires, each of another schedule; found {fired} of {schedules}")
        self._stand.ask("DELETE FROM jobs", self._url)
        span_s = after.at - before.at
        coordinator_s = after.coordinator_s - before.coordinator_s - idle.coordinator * span_s
        store_s = after.store_s - before.store_s - idle.store * span_s
        return {
            "fire_s": seconds,
            "fire_cpu_us": (coordinator_s + store_s) / FIRES * 1e6,
            "fire_coordinator_cpu_us": coordinator_s / FIRES * 1e6,
        }

    def reading(self) -> Reading:
        return Reading.take(store=self._stand.store_pid, coordinators=[self._coordinator.pid])


@dataclass(frozen=True, slots=True)
class _Rates:
    """Shares of a core."""

    coordinator: float
    store: float

    @classmethod
    def between(cls, before: Reading, after: Reading) -> Self:
        span_s = after.at - before.at
        return cls((after.coordinator_s - before.coordinator_s) / span_s, (after.store_s - before.store_s) / span_s)


def _cpu_us(before: Reading, after: Reading, count: int) -> float:
    return (after.coordinator_s - before.coordinator_s + after.store_s - before.store_s) / count * 1e6
