"""Metrics by a fixed catalogue, exported as they are."""

import ast
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rota.clock import SystemClock
from rota.domain.model import JobState, Outcome
from rota.telemetry import Metrics
from rota.telemetry_names import BATCH, METRICS, Kind
from rota.telemetry_otlp import Otlp
from tests.otlp import OtlpReceiver

from .conftest import Start

SOURCE = Path(sys.modules["rota.telemetry"].__file__ or "").parent


def test_counters_count_by_label() -> None:
    metrics = Metrics()
    metrics.add("rota.jobs.created")
    metrics.add("rota.jobs.created", 499)
    metrics.add("rota.jobs.finished", 2, "succeeded")
    metrics.add("rota.jobs.finished", 3, JobState.SUCCEEDED.name)
    found = metrics.snapshot()
    assert found["rota.jobs.created"] == 500
    assert found["rota.jobs.finished"] == {"succeeded": 5, "cancelled": 0, "expired": 0, "dead": 0, "other": 0}
    assert found["rota.leases.granted"] == 0


def test_the_number_of_series_is_fixed() -> None:
    metrics = Metrics()
    before = sum(len(reading) for _, reading in metrics.readings() if isinstance(reading, dict))
    for number in range(1_000):
        metrics.add("rota.attempts.ended", 1, f"job-{number}")
        metrics.add("rota.attempts.ended")
        metrics.add("rota.jobs.created", 1, f"tenant-{number}")
    found = metrics.snapshot()
    assert sum(len(reading) for _, reading in metrics.readings() if isinstance(reading, dict)) == before < 150
    assert isinstance(found["rota.attempts.ended"], dict)
    assert found["rota.attempts.ended"]["other"] == 2_000
    assert found["rota.jobs.created"] == 1_000


def test_every_end_has_a_series_of_its_own() -> None:
    metrics = Metrics()
    for outcome in Outcome:
        metrics.add("rota.attempts.ended", 1, outcome.name)
    for state in JobState:
        if state.terminal:
            metrics.add("rota.jobs.finished", 1, state.name)
    found = metrics.snapshot()
    assert found["rota.attempts.ended"] == {outcome.name.lower(): 1 for outcome in Outcome} | {"other": 0}
    assert found["rota.jobs.finished"] == {"succeeded": 1, "cancelled": 1, "expired": 1, "dead": 1, "other": 0}


@pytest.mark.parametrize(
    "use",
    [
        lambda m: m.add("rota.jobs.craeted"),
        lambda m: m.add("rota.lag.dispatch"),
        lambda m: m.observe("rota.lag.dispach", 1.0),
        lambda m: m.observe("rota.jobs.created", 1.0),
        lambda m: m.gauge("rota.shards.ownd", lambda: 1.0),
        lambda m: m.gauge("rota.lag.dispatch", lambda: 1.0),
    ],
)
def test_a_name_outside_the_catalogue_is_a_key_error(use: Callable[[Metrics], None]) -> None:
    with pytest.raises(KeyError):
        use(Metrics())


def test_a_bound_is_part_of_its_bucket() -> None:
    metrics = Metrics()
    for size in (0, 1, 1.5, 2, 500, 501, -3, math.nan):
        metrics.observe("rota.complete.batch", size)
    (counts,) = [reading for spec, reading in metrics.readings() if spec.name == "rota.complete.batch"]
    assert not isinstance(counts, dict)
    assert BATCH == (1, 2, 5, 10, 20, 50, 100, 200, 500)
    assert counts.buckets == [4, 2, 0, 0, 0, 0, 0, 0, 1, 1]  # type: ignore[union-attr]
    assert counts.total == 1005.5  # type: ignore[union-attr]


def test_quantiles_are_upper_ends() -> None:
    metrics = Metrics()
    empty = {"count": 0, "sum": 0.0, "p50": None, "p99": None}
    assert metrics.snapshot()["rota.lag.eligible"] == empty
    for _ in range(98):
        metrics.observe("rota.lag.eligible", 0.004)
    metrics.observe("rota.lag.eligible", 0.7)
    metrics.observe("rota.lag.eligible", 9_999.0)
    found = metrics.snapshot()["rota.lag.eligible"]
    assert isinstance(found, dict)
    assert (found["count"], found["p50"], found["p99"]) == (100, 0.005, 1.0)
    metrics.observe("rota.lag.eligible", 9_999.0)
    found = metrics.snapshot()["rota.lag.eligible"]
    assert isinstance(found, dict)
    assert found["p99"] == 1_800.0


def test_gauges_are_read_when_asked(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics()
    waiting = [1, 2, 3]
    metrics.gauge("rota.shards.owned", lambda: -1.0)
    metrics.gauge("rota.shards.owned", lambda: 256)
    metrics.gauge("rota.ready.jobs", lambda: len(waiting))
    metrics.gauge("rota.polls.parked", lambda: 1 / 0)
    waiting.pop()
    found = metrics.snapshot()
    assert (found["rota.shards.owned"], found["rota.ready.jobs"]) == (256, 2)
    assert "rota.polls.parked" not in found  # broken
    assert "rota.inflight.leases" not in found  # read by nobody
    metrics.snapshot()
    assert [record.message for record in caplog.records] == [
        "the gauge rota.polls.parked cannot be read and is left out"
    ]


def test_a_snapshot_is_json() -> None:
    metrics = Metrics()
    metrics.gauge("rota.clock.skew_seconds", lambda: -0.25)
    assert json.loads(json.dumps(metrics.snapshot()))["rota.clock.skew_seconds"] == -0.25


def test_the_catalogue_is_sound() -> None:
    assert len({spec.name for spec in METRICS}) == len(METRICS)
    for spec in METRICS:
        assert spec.unit, spec
        assert spec.meaning.endswith("."), spec
        assert bool(spec.label) == bool(spec.values), spec
        assert len(spec.values) <= 24, spec
        assert (spec.kind is Kind.HISTOGRAM) == bool(spec.bounds), spec
        assert list(spec.bounds) == sorted(set(spec.bounds)), spec


def misnamed(source: str) -> list[str]:
    """Uses of metrics in `source` that the catalogue does not know: a name, its kind, or a label."""
    kinds = {"add": Kind.COUNTER, "observe": Kind.HISTOGRAM, "gauge": Kind.GAUGE}
    catalogue = {spec.name: spec for spec in METRICS}
    found = []
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in kinds):
            continue
        texts = [arg.value if isinstance(arg, ast.Constant) else None for arg in node.args] + [None] * 3
        name, label = texts[0], texts[2]
        if not isinstance(name, str) or not name.startswith("rota."):
            continue
        spec = catalogue.get(name)
        if spec is None or spec.kind is not kinds[node.func.attr]:
            found.append(name)
        elif isinstance(label, str) and label.lower() not in spec.values:
            found.append(f"{name}: {label}")
    return found


def test_the_code_uses_names_of_the_catalogue() -> None:
    wrong = """
metrics.add("rota.jobs.craeted")
self.metrics.observe("rota.jobs.created", 1.0)
m.add("rota.jobs.finished", 1, "sucess")
m.add("rota.jobs.finished", 1, "SUCCEEDED")
"""
    assert misnamed(wrong) == ["rota.jobs.craeted", "rota.jobs.created", "rota.jobs.finished: sucess"]
    found = {str(path): misnamed(path.read_text()) for path in SOURCE.rglob("*.py")}
    assert len(found) > 10
    assert {path: names for path, names in found.items() if names} == {}


def test_metrics_arrive(start: Start, receiver: OtlpReceiver) -> None:
    telemetry = start()
    telemetry.metrics.add("rota.jobs.finished", 3, "DEAD")
    telemetry.metrics.observe("rota.complete.batch", 2)
    telemetry.metrics.observe("rota.complete.batch", 400)
    telemetry.metrics.gauge("rota.clock.skew_seconds", lambda: -0.25)
    telemetry.shutdown(5.0)
    dead = receiver.points["rota.jobs.finished", "dead"]
    assert (dead.value, dead.unit, dead.monotonic) == (3, "{job}", True)
    assert receiver.points["rota.jobs.finished", "succeeded"].value == 0  # a rate needs the zero before the first
    batch = receiver.points["rota.complete.batch", ""]
    assert (batch.value, batch.buckets, batch.bounds) == (402, (0, 1, 0, 0, 0, 0, 0, 0, 1, 0), BATCH)
    skew = receiver.points["rota.clock.skew_seconds", ""]
    assert (skew.value, skew.unit, skew.monotonic) == (-0.25, "s", False)
    exported = {name for name, _ in receiver.points}
    assert exported == {spec.name for spec in METRICS if spec.kind is not Kind.GAUGE} | {"rota.clock.skew_seconds"}


def test_metrics_arrive_while_it_runs(receiver: OtlpReceiver) -> None:
    metrics = Metrics()
    otlp = Otlp(
        endpoint=receiver.endpoint,
        service_name="test",
        instance_id="c-1",
        version="0.1.0",
        trace_ratio=0.0,
        metrics=metrics,
        clock=SystemClock(),
        metrics_every_s=0.02,
    )
    try:
        receiver.wait_for(lambda r: r.points)
        metrics.add("rota.jobs.created", 5)
        receiver.wait_for(lambda r: r.points["rota.jobs.created", ""].value == 5)
    finally:
        otlp.shutdown(5.0)
