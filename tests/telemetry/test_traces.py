"""Each attempt leaves its spans, and a tracer that fails costs no job."""

import pytest
from opentelemetry.sdk.trace import TracerProvider

from rota.telemetry_traces import parse
from tests.otlp import OtlpReceiver

from .attempts import (
    CREATED,
    JOB,
    SAMPLED,
    SPAN,
    TRACE,
    UNSAMPLED,
    Broken,
    Traced,
    complete,
    create,
    lease,
    traces_with,
    tracing,
)
from .conftest import Start

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
