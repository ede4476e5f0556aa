"""Telemetry, against a real collector on loopback, and against collectors that are dead in three ways."""

import ast
import json
import logging
import math
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NonRecordingSpan, NoOpTracer, Span, Tracer, use_span

from rota.clock import SystemClock
from rota.domain.errors import InvalidArgument
from rota.domain.ids import uuid7
from rota.domain.model import JobState, Outcome
from rota.telemetry import Metrics, Telemetry, Traces, setup
from rota.telemetry_logs import JsonFormatter
from rota.telemetry_names import BATCH, METRICS, Kind
from rota.telemetry_otlp import LOG_BYTES_MAX, Otlp, target
from rota.telemetry_traces import parse
from tests.otlp import OtlpReceiver

SOURCE = Path(sys.modules["rota.telemetry"].__file__ or "").parent
PORT_CLOSED = "http://127.0.0.1:1"
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"
CREATED = 1_800_000_000.0
JOB = uuid7(int(CREATED * 1000), 7)
NOT_CONTEXTS = {
    "empty": "",
    "too short": SAMPLED[:-1],
    "no hexadecimal": SAMPLED.replace("0af7", "0xf7"),
    "upper case": SAMPLED.upper(),
    "no trace id": f"00-{'0' * 32}-{SPAN}-01",
    "no span id": f"00-{TRACE}-{'0' * 16}-01",
    "version ff": "ff" + SAMPLED[2:],
    "more than version 00 has": SAMPLED + "-01",
    "a line more": SAMPLED + "\n",
    "digits of another script": SAMPLED.replace("0af7", "٠af7"),
    "junk of the right length": "1" * 55,
}

Start = Callable[..., Telemetry]


@pytest.fixture(autouse=True)
def logging_restored() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in (None, "rota", "rota_sdk", "opentelemetry")]
    before = [(list(logger.handlers), logger.level) for logger in loggers]
    yield
    for logger, (handlers, level) in zip(loggers, before, strict=True):
        logger.handlers[:] = handlers
        logger.setLevel(level)


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


@pytest.fixture
def start(receiver: OtlpReceiver) -> Iterator[Start]:
    """Starts telemetry that goes to `receiver`, and ends it with the test."""
    with ExitStack() as ends:

        def start(**changed: Any) -> Telemetry:
            settings: dict[str, Any] = {
                "endpoint": receiver.endpoint,
                "instance_id": "c-1",
                "version": "0.1.0",
                "trace_ratio": 1.0,
                "log_level": "info",
                "log_format": "json",
            }
            telemetry = setup(**(settings | changed))
            ends.callback(telemetry.shutdown, 5.0)
            return telemetry

        yield start


def tracing(telemetry: Telemetry) -> Traces:
    assert telemetry.traces is not None
    return telemetry.traces


def create(traces: Traces, parent: str = "", state: str = "") -> tuple[str, str]:
    return traces.create(parent=parent, state=state, job_id=JOB, type="greet", queue="mail", tenant="acme")


def lease(traces: Traces, parent: str, **changed: Any) -> str:
    given: dict[str, Any] = {
        "state": "",
        "job_id": JOB,
        "type": "greet",
        "queue": "mail",
        "attempt": 1,
        "fence": 77,
        "session_id": "s-1",
        "due": CREATED + 10,
        "leased": CREATED + 11,
    }
    return traces.lease(parent=parent, **(given | changed))


def complete(traces: Traces, parent: str, outcome: str = "SUCCEEDED", state: str = "SUCCEEDED", **more: Any) -> None:
    given: dict[str, Any] = {"job_id": JOB, "type": "greet", "attempt": 1, "fence": 77}
    traces.complete(parent=parent, outcome=outcome, state=state, **(given | more))


class Traced(NoOpTracer):
    """Counts the spans asked for, and makes none."""

    def __init__(self) -> None:
        self.asked = 0

    def start_span(self, *arguments: Any, **more: Any) -> Span:
        self.asked += 1
        return super().start_span(*arguments, **more)


class Broken(NoOpTracer):
    def start_span(self, *arguments: Any, **more: Any) -> Span:
        raise RuntimeError("broken")


def traces_with(tracer: Tracer, ratio: float = 1.0) -> Traces:
    return Traces(tracer, ratio, random.Random(1))


# Traces


def test_one_trace_for_a_job_with_two_attempts(start: Start, receiver: OtlpReceiver) -> None:
    telemetry = start()
    traces = tracing(telemetry)
    job, _ = create(traces)
    first = lease(traces, job)
    complete(traces, first, "FAILED", "RETRY_WAIT", error_type="ValueError")
    second = lease(traces, job, attempt=2, fence=78, due=CREATED + 20, leased=CREATED + 21)
    complete(traces, second, attempt=2, fence=78)
    telemetry.shutdown(5.0)

    assert len(receiver.spans) == 5
    assert len(receiver.traces()) == 1
    (created,) = receiver.named("rota.job.create")
    one, two = receiver.named("rota.job.lease")
    failed, done = sorted(receiver.named("rota.job.complete"), key=lambda span: span.attributes["rota.attempt"])
    assert created.is_at(job)
    assert one.is_at(first)
    assert two.is_at(second)
    assert created.parent_id == ""
    assert {one.parent_id, two.parent_id} == {created.span_id}
    assert (failed.parent_id, done.parent_id) == (one.span_id, two.span_id)
    assert one.links == ()
    (link,) = two.links
    assert (link.trace_id, link.span_id, link.attributes) == (created.trace_id, created.span_id, {"rota.attempt": 2})
    assert (failed.error, done.error) == (True, False)


def test_each_run_of_a_schedule_is_a_trace_of_its_own_linked_to_its_creation(
    start: Start, receiver: OtlpReceiver
) -> None:
    telemetry = start()
    traces = tracing(telemetry)
    about = {"job_id": JOB, "type": "greet", "queue": "mail", "schedule": "nightly"}
    jobs = [traces.fire(origin=SAMPLED, **about) for _ in range(3)]
    unlinked = traces.fire(origin="", **about)
    first = lease(traces, jobs[0])
    complete(traces, first)
    telemetry.shutdown(5.0)

    fires = receiver.named("rota.schedule.fire")
    assert len({span.trace_id for span in fires} - {TRACE}) == 4
    assert {span.parent_id for span in fires} == {""}
    for span, job in zip(fires, [*jobs, unlinked], strict=True):
        assert span.is_at(job)
        assert [(link.trace_id, link.span_id) for link in span.links] == ([(TRACE, SPAN)] if job != unlinked else [])
    assert fires[0].attributes["rota.schedule.id"] == "nightly"
    (leased,) = receiver.named("rota.job.lease")
    assert (leased.trace_id, leased.parent_id) == (fires[0].trace_id, fires[0].span_id)


def test_runs_that_are_not_sampled_cost_no_span() -> None:
    tracer = Traced()
    traces = traces_with(tracer, 0.0)
    assert traces.fire(origin=SAMPLED, job_id=JOB, type="greet", queue="mail", schedule="nightly") == ""
    assert tracer.asked == 0


def test_create_says_what_and_whose(start: Start, receiver: OtlpReceiver) -> None:
    telemetry = start()
    create(tracing(telemetry))
    telemetry.shutdown(5.0)
    (span,) = receiver.spans
    assert (span.name, span.kind) == ("rota.job.create", "PRODUCER")
    assert span.attributes == {
        "messaging.system": "rota",
        "messaging.operation.type": "create",
        "messaging.operation.name": "create",
        "messaging.destination.name": "mail",
        "messaging.message.id": JOB,
        "rota.job.type": "greet",
        "rota.tenant": "acme",
    }
    assert span.resource["service.name"] == "rota-coordinator"
    assert span.resource["service.instance.id"] == "c-1"
    assert span.resource["service.version"] == "0.1.0"


def test_the_creators_flag_comes_before_the_ratio(start: Start, receiver: OtlpReceiver) -> None:
    telemetry = start(trace_ratio=0.0)
    traces = tracing(telemetry)
    kept, state = create(traces, SAMPLED, "vendor=a,other=b")
    assert create(traces, UNSAMPLED, "vendor=a") == (UNSAMPLED, "vendor=a")
    assert create(traces) == ("", "")
    telemetry.shutdown(5.0)
    (span,) = receiver.spans
    assert (span.trace_id, span.parent_id) == (TRACE, SPAN)
    assert span.is_at(kept)
    assert span.tracestate == state == "vendor=a,other=b"


def test_an_unsampled_creator_is_followed_at_ratio_one() -> None:
    tracer = Traced()
    assert create(traces_with(tracer, 1.0), UNSAMPLED, "vendor=a") == (UNSAMPLED, "vendor=a")
    assert tracer.asked == 0


def test_the_ratio_decides_where_no_creator_did() -> None:
    traces = traces_with(TracerProvider(shutdown_on_exit=False).get_tracer("test"), 0.25)
    sampled = sum(create(traces) != ("", "") for _ in range(2_000))
    assert 425 <= sampled <= 575


@pytest.mark.parametrize("parent", NOT_CONTEXTS.values(), ids=NOT_CONTEXTS.keys())
def test_an_invalid_context_is_none(parent: str) -> None:
    real = traces_with(TracerProvider(shutdown_on_exit=False).get_tracer("test"))
    made = parse(create(real, parent, "vendor=a")[0], "")
    assert made is not None
    assert made.trace_id != int(TRACE, 16)
    assert create(traces_with(Traced(), 0.0), parent, "vendor=a") == ("", "")

    tracer = Traced()
    traces = traces_with(tracer)
    assert lease(traces, parent) == parent
    complete(traces, parent)
    assert tracer.asked == 0


def test_a_context_of_a_later_version_is_read() -> None:
    context = parse(f"cc-{TRACE}-{SPAN}-09-what-the-future-holds", "")
    assert context is not None
    assert (context.trace_id, context.span_id, context.trace_flags.sampled) == (int(TRACE, 16), int(SPAN, 16), True)


def test_a_broken_tracestate_does_not_cost_the_trace() -> None:
    traces = traces_with(TracerProvider(shutdown_on_exit=False).get_tracer("test"))
    parent, state = create(traces, SAMPLED, "=\0,,;\ud800" * 30)
    assert TRACE in parent
    assert state == ""


def test_sampled_out_asks_for_no_span() -> None:
    tracer = Traced()
    traces = traces_with(tracer, 0.0)
    for parent in ("", UNSAMPLED):
        assert create(traces, parent)[0] == parent
        assert lease(traces, parent) == parent
        complete(traces, parent)
    assert tracer.asked == 0
    lease(traces, SAMPLED)
    complete(traces, SAMPLED)
    assert tracer.asked == 2


@pytest.mark.parametrize(
    ("due", "leased", "began"),
    [
        (CREATED + 10, CREATED + 11, CREATED + 10),
        (CREATED - 3_600, CREATED + 1, CREATED),  # due before it was created
        (CREATED + 10, CREATED + 9.5, CREATED + 9.5),  # clocks that disagree
    ],
)
def test_a_lease_span_lasts_from_due_to_leased(
    start: Start, receiver: OtlpReceiver, due: float, leased: float, began: float
) -> None:
    telemetry = start()
    context = lease(tracing(telemetry), SAMPLED, state="vendor=a", due=due, leased=leased)
    telemetry.shutdown(5.0)
    (span,) = receiver.spans
    assert (span.name, span.kind, span.parent_id) == ("rota.job.lease", "INTERNAL", SPAN)
    assert span.is_at(context)
    assert span.tracestate == "vendor=a"
    assert span.start == pytest.approx(began, abs=1e-3)
    assert span.end == pytest.approx(leased, abs=1e-3)
    assert span.attributes == {
        "messaging.system": "rota",
        "messaging.operation.type": "receive",
        "messaging.operation.name": "lease",
        "messaging.destination.name": "mail",
        "messaging.message.id": JOB,
        "rota.job.type": "greet",
        "rota.attempt": 1,
        "rota.fence": 77,
        "rota.session": "s-1",
    }


def test_a_job_id_of_another_kind_costs_only_its_time() -> None:
    traces = traces_with(TracerProvider(shutdown_on_exit=False).get_tracer("test"))
    assert lease(traces, SAMPLED, job_id="not a uuid") != SAMPLED


@pytest.mark.parametrize(
    ("outcome", "state", "error_type", "error"),
    [
        ("SUCCEEDED", "SUCCEEDED", "", ""),
        ("succeeded", "succeeded", "", ""),
        ("FAILED", "RETRY_WAIT", "ValueError", "ValueError"),
        ("FAILED", "DEAD", "", "failed"),
        ("LEASE_LOST", "RETRY_WAIT", "", "lease_lost"),
        ("TIMED_OUT", "DEAD", "", "timed_out"),
        ("RELEASED", "SCHEDULED", "", ""),
        ("RELEASED", "DEAD", "", "released"),
        ("UNDELIVERED", "SCHEDULED", "", ""),
        ("CANCELLED", "CANCELLED", "", ""),
        ("", "EXPIRED", "", "expired"),
        ("SUCCEEDED", "STALE_FENCE", "STALE_FENCE", "STALE_FENCE"),  # refused
    ],
)
def test_how_an_attempt_ended(
    start: Start, receiver: OtlpReceiver, outcome: str, state: str, error_type: str, error: str
) -> None:
    telemetry = start()
    complete(tracing(telemetry), SAMPLED, outcome, state, error_type=error_type)
    telemetry.shutdown(5.0)
    (span,) = receiver.spans
    assert (span.name, span.kind, span.trace_id, span.parent_id) == ("rota.job.complete", "INTERNAL", TRACE, SPAN)
    assert (span.error, span.error_text) == (bool(error), error)
    assert span.attributes == {
        "messaging.system": "rota",
        "messaging.operation.type": "settle",
        "messaging.operation.name": "complete",
        "messaging.message.id": JOB,
        "rota.job.type": "greet",
        "rota.attempt": 1,
        "rota.fence": 77,
        "rota.job.state": state.lower(),
    } | ({"rota.outcome": outcome.lower()} if outcome else {}) | ({"error.type": error} if error else {})


def test_a_repeated_outcome_without_a_number(start: Start, receiver: OtlpReceiver) -> None:
    telemetry = start()
    complete(tracing(telemetry), SAMPLED, type="", attempt=None, duplicate=True)
    telemetry.shutdown(5.0)
    (span,) = receiver.spans
    assert span.attributes["rota.duplicate"] is True
    assert not {"rota.attempt", "rota.job.type", "error.type"} & set(span.attributes)


def test_a_broken_tracer_costs_no_job(caplog: pytest.LogCaptureFixture) -> None:
    traces = traces_with(Broken())
    assert create(traces) == ("", "")
    assert create(traces, SAMPLED, "vendor=a") == (SAMPLED, "vendor=a")
    assert lease(traces, SAMPLED) == SAMPLED
    complete(traces, SAMPLED)
    assert len(caplog.records) == 1


# Metrics


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


# Logs


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_json_lines_carry_the_ids_of_the_current_span(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    start(endpoint=None)
    log = logging.getLogger("rota.test")
    context = parse(SAMPLED, "")
    assert context is not None
    with use_span(NonRecordingSpan(context)):
        log.info("inside %d", 1)
    log.info("outside", extra={"queue": "mail", "count": 3})
    log.info("handed over", extra={"traceparent": UNSAMPLED})
    log.info("nothing handed over", extra={"traceparent": ""})
    inside, outside, handed, nothing = lines(capsys)
    assert inside["message"] == "inside 1"
    assert (inside["trace_id"], inside["span_id"]) == (TRACE, SPAN)
    assert inside["level"] == "INFO"
    assert inside["logger"] == "rota.test"
    assert inside["time"].endswith("Z")
    assert set(outside) == {"time", "level", "logger", "message", "queue", "count"}
    assert (outside["queue"], outside["count"]) == ("mail", 3)
    assert (handed["trace_id"], handed["span_id"]) == (TRACE, SPAN)
    assert "traceparent" not in handed
    assert "trace_id" not in nothing


def test_a_json_line_is_one_line_of_ascii(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    start(endpoint=None)
    try:
        raise ValueError("two\nlines, \ud800 and \0")
    except ValueError:
        logging.getLogger("rota.test").exception("oh\n\ud800 \0 ü", extra={"message_": {1, 2}, "path": Path("a")})
    text = capsys.readouterr().err
    assert text.isascii()
    assert text.count("\n") == 1
    line = json.loads(text)
    assert line["message"] == "oh\n\ud800 \0 ü"
    assert "ValueError: two\nlines" in line["exception"]
    assert line["path"] == "a"


def test_what_a_line_says_of_itself_cannot_be_replaced() -> None:
    record = logging.makeLogRecord({"msg": "real", "levelname": "INFO", "level": "forged", "time": "forged"})
    line = json.loads(JsonFormatter().format(record))
    assert (line["message"], line["level"]) == ("real", "INFO")
    assert line["time"] != "forged"


def test_text_for_people(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    start(endpoint=None, log_format="text")
    log = logging.getLogger("rota.test")
    log.warning("worker %s", "w\n2026-01-01 ERROR forged\x1b[0m", extra={"queue": "ma\nil", "traceparent": SAMPLED})
    (line,) = capsys.readouterr().err.splitlines()
    assert "\x1b" not in line
    assert line.endswith(
        f"WARNING rota.test: worker w\\n2026-01-01 ERROR forged\\x1b[0m queue=ma\\nil trace_id={TRACE} span_id={SPAN}"
    )


def test_levels(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    # As sqlalchemy does when it is imported.
    logging.getLogger("sqlalchemy").setLevel(logging.WARNING)
    start(endpoint=None, log_level="DEBUG")
    logging.getLogger("rota.test").debug("ours")
    logging.getLogger("rota_sdk.worker").debug("the SDK's")
    logging.getLogger("sqlalchemy.engine").info("a library's chatter")
    logging.getLogger("sqlalchemy.engine").warning("a library's warning")
    assert [line["message"] for line in lines(capsys)] == ["ours", "the SDK's", "a library's warning"]
    start(endpoint=None, log_level="error")
    logging.getLogger("rota.test").warning("ours")
    logging.getLogger("sqlalchemy.engine").warning("a library's warning")
    logging.getLogger("rota.test").error("once, though set up twice")
    assert [line["message"] for line in lines(capsys)] == ["once, though set up twice"]


def test_lines_arrive(start: Start, receiver: OtlpReceiver) -> None:
    telemetry = start()
    log = logging.getLogger("rota.test")
    try:
        raise KeyError("gone")
    except KeyError:
        log.exception("job %s failed", "j-1", extra={"queue": "mail", "count": 3, "traceparent": SAMPLED})
    telemetry.shutdown(5.0)
    (line,) = receiver.lines
    assert (line.logger, line.severity, line.body) == ("rota.test", "ERROR", "job j-1 failed")
    assert (line.trace_id, line.span_id) == (TRACE, SPAN)
    assert (line.attributes["queue"], line.attributes["count"]) == ("mail", 3)
    assert line.attributes["exception.type"] == "KeyError"
    assert "KeyError: 'gone'" in line.attributes["exception.stacktrace"]
    assert line.resource["service.instance.id"] == "c-1"


def test_no_text_loses_the_lines_beside_it(start: Start, receiver: OtlpReceiver) -> None:
    telemetry = start()
    log = logging.getLogger("rota.test")
    log.info("before")
    log.info("lone \ud800, NUL \0", extra={"bad": "\udfff", "huge": 1 << 70, "thing": object(), "share": 0.5})
    log.info("x" * 10_000_000)
    log.info("after")
    telemetry.shutdown(5.0)
    assert [line.body[:7] for line in receiver.lines] == ["before", "lone ?,", "xxxxxxx", "after"]
    assert receiver.lines[1].attributes["bad"] == "?"
    assert receiver.lines[1].attributes["huge"] == str(1 << 70)
    assert receiver.lines[1].attributes["share"] == 0.5
    assert len(receiver.lines[2].body) == LOG_BYTES_MAX


def test_the_export_does_not_feed_itself(
    start: Start, receiver: OtlpReceiver, capsys: pytest.CaptureFixture[str]
) -> None:
    telemetry = start()
    for number in range(3):
        logging.getLogger("opentelemetry.exporter").error("failed %d", number)
    logging.getLogger("rota.test").info("mine")
    telemetry.shutdown(5.0)
    assert [line.body for line in receiver.lines] == ["mine"]
    assert [line["message"] for line in lines(capsys)] == ["failed 0", "mine"]  # and not one for each batch


# Set-up and end


@pytest.mark.parametrize("endpoint", [None, ""])
def test_nothing_is_traced_without_an_endpoint(start: Start, endpoint: str | None) -> None:
    telemetry = start(endpoint=endpoint)
    assert telemetry.traces is None
    telemetry.metrics.add("rota.jobs.created")
    telemetry.shutdown(0.0)


def test_off_leaves_logging_alone() -> None:
    before = list(logging.getLogger().handlers)
    telemetry = Telemetry.off()
    assert telemetry.traces is None
    telemetry.metrics.add("rota.jobs.created")
    telemetry.shutdown(0.0)
    assert logging.getLogger().handlers == before


def run(program: str, timeout_s: float = 30.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=timeout_s, check=False
    )


def test_the_sdk_is_not_even_imported_without_an_endpoint() -> None:
    done = run(
        "import sys\nfrom rota.telemetry import setup\n"
        "setup(endpoint=None, instance_id='i', version='0', trace_ratio=1.0, log_level='info', log_format='text')\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry.sdk', 'grpc', 'google'))])"
    )
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


def test_a_missing_extra_is_named(start: Start, monkeypatch: pytest.MonkeyPatch, receiver: OtlpReceiver) -> None:
    monkeypatch.delitem(sys.modules, "rota.telemetry_otlp")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(InvalidArgument, match=r'pip install "rota\[otel\]"') as caught:
        start()
    assert caught.value.violations[0].field == "otlp_endpoint"


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"trace_ratio": 1.5}, "trace_ratio"),
        ({"trace_ratio": -0.1}, "trace_ratio"),
        ({"trace_ratio": math.nan}, "trace_ratio"),
        ({"log_level": "loud"}, "log_level"),
        ({"log_format": "xml"}, "log_format"),
        ({"endpoint": "localhost:4317"}, "otlp_endpoint"),
        ({"endpoint": "collector"}, "otlp_endpoint"),
        ({"endpoint": "http://"}, "otlp_endpoint"),
        ({"endpoint": "http://[::1"}, "otlp_endpoint"),
        ({"endpoint": "http://collector:port"}, "otlp_endpoint"),
        ({"endpoint": "http://collector:4318/v1/traces"}, "otlp_endpoint"),
        ({"endpoint": "http://collector:4317?x=1"}, "otlp_endpoint"),
        ({"endpoint": "grpc://collector:4317"}, "otlp_endpoint"),
    ],
)
def test_settings_that_make_no_sense(start: Start, changed: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument, match=r"expected .* found ") as caught:
        start(**changed)
    assert caught.value.violations[0].field == field


@pytest.mark.parametrize("changed", [{"endpoint": "collector:4317"}, {"log_level": "loud"}, {"trace_ratio": 2.0}])
def test_a_refused_setting_changes_nothing(start: Start, changed: dict[str, Any]) -> None:
    handlers, threads = list(logging.getLogger().handlers), set(threading.enumerate())
    with pytest.raises(InvalidArgument):
        start(**changed)
    assert logging.getLogger().handlers == handlers
    assert exporting(threads) == []


@pytest.mark.parametrize("endpoint", ["https://me:secret@collector:4317", "https://collector:4317?key=secret"])
def test_a_secret_in_the_endpoint_is_not_shown(endpoint: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        target(endpoint)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("endpoint", "found"),
    [
        ("http://collector", ("http://collector:4317", True)),
        (" https://collector:443/ ", ("https://collector:443", False)),
        ("http://[::1]:4317", ("http://[::1]:4317", True)),
    ],
)
def test_endpoints(endpoint: str, found: tuple[str, bool]) -> None:
    assert target(endpoint) == found


@pytest.fixture(params=["port closed", "accepts and says nothing", "takes calls and hangs"])
def dead(request: pytest.FixtureRequest) -> Iterator[str]:
    """The endpoint of a collector that takes nothing."""
    if request.param == "port closed":
        yield PORT_CLOSED
    elif request.param == "accepts and says nothing":
        with socket.create_server(("127.0.0.1", 0)) as server:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
    else:
        with OtlpReceiver(silent=True) as receiver:
            yield receiver.endpoint


def exporting(before: set[threading.Thread]) -> list[threading.Thread]:
    """The threads that export, but for those that ran before."""
    return [t for t in threading.enumerate() if t not in before and ("Otel" in t.name or "telemetry" in t.name)]


def test_a_dead_collector_delays_nothing(start: Start, dead: str, capsys: pytest.CaptureFixture[str]) -> None:
    threads = set(threading.enumerate())
    telemetry = start(endpoint=dead)
    traces = tracing(telemetry)
    began = time.monotonic()
    job, _ = create(traces)
    for _ in range(1_000):
        complete(traces, lease(traces, job))
    logging.getLogger("rota.test").info("line")
    assert time.monotonic() - began < 5.0
    assert len(exporting(threads)) == 3
    capsys.readouterr()

    began = time.monotonic()
    telemetry.shutdown(0.3)
    assert time.monotonic() - began < 5.0  # an export alone would take ten
    for thread in exporting(threads):
        thread.join(5.0)
    assert exporting(threads) == []
    (last,) = lines(capsys)
    assert "did not take the last telemetry within 0.3 s" in last["message"]

    telemetry.shutdown(60.0)
    assert create(traces)[0] != ""  # work that is late still goes on
    complete(traces, job)
    logging.getLogger("rota.test").info("line")
    assert [line["message"] for line in lines(capsys)] == ["line"]


def test_a_process_ends_with_a_dead_collector(dead: str) -> None:
    program = f"""
import time
from rota.telemetry import setup
telemetry = setup(endpoint={dead!r}, instance_id="i", version="0", trace_ratio=1.0, log_level="info", log_format="text")
for _ in range(1000):
    telemetry.traces.create(parent="", state="", job_id="", type="t", queue="q", tenant="a")
telemetry.shutdown(0.3)
print(time.time())
"""
    done = run(program)
    assert done.returncode == 0, done.stderr
    assert time.time() - float(done.stdout) < 5.0
    assert len(done.stderr.splitlines()) < 10, done.stderr
    assert "Traceback" not in done.stderr


def test_the_end_sends_all_and_leaves_nothing(start: Start, receiver: OtlpReceiver) -> None:
    handlers, threads = list(logging.getLogger().handlers), set(threading.enumerate())
    telemetry = start()
    for _ in range(2_000):
        create(tracing(telemetry))
    telemetry.shutdown(10.0)
    assert len(receiver.spans) == 2_000
    assert exporting(threads) == []
    (left,) = [handler for handler in logging.getLogger().handlers if handler not in handlers]
    assert isinstance(left, logging.StreamHandler)  # stderr still works
