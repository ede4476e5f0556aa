"""One span per attempt, child of the grant; its context goes back with the outcome and on with new jobs."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import running
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from rota_conformance.script_server import ScriptServer
from rota_sdk import Client, Lease, Worker
from rota_sdk.gen.rota.v1 import jobs_pb2
from script_jobs import ScriptJobs

TRACE, PARENT = "a" * 32, "b" * 16
GRANT = f"00-{TRACE}-{PARENT}-01"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # The API lets a process set its provider only once.
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    monkeypatch.setattr(trace, "get_tracer", lambda name, version=None: provider.get_tracer(name, version))
    yield exporter
    provider.shutdown()


def run(server: ScriptServer, handler: Any, **job: Any) -> Any:
    worker = Worker(["default"], 4, address=server.address, api_key="k")
    worker.add("work", handler)
    lease = server.job(traceparent=GRANT, **job)
    server.offer(lease)
    with running(worker):
        return server.result_of(lease.job)


def the_span(spans: InMemorySpanExporter, name: str) -> ReadableSpan:
    found = [span for span in spans.get_finished_spans() if span.name == name]
    assert len(found) == 1, [span.name for span in spans.get_finished_spans()]
    return found[0]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_attempt_is_one_consumer_span_below_the_grant(
    server: ScriptServer, spans: InMemorySpanExporter, asynchronous: bool
) -> None:
    inner: list[Any] = []

    def work(lease: Lease) -> None:
        inner.append(trace.get_current_span().get_span_context())

    async def work_async(lease: Lease) -> None:
        work(lease)

    result = run(server, work_async if asynchronous else work, name="jobs/7", fence=70)
    span = the_span(spans, "rota.run work")
    context = span.get_span_context()
    assert context is not None and span.parent is not None
    assert span.kind is SpanKind.CONSUMER
    assert (f"{context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, PARENT)
    assert inner[0].span_id == context.span_id
    assert result.traceparent == f"00-{TRACE}-{context.span_id:016x}-01"
    assert span.attributes is not None
    assert span.attributes["messaging.message.id"] == "jobs/7" and span.attributes["rota.fence"] == 70
    assert span.attributes["rota.outcome"] == "succeeded"


def test_a_failure_is_recorded(server: ScriptServer, spans: InMemorySpanExporter) -> None:
    async def work(lease: Lease) -> None:
        raise LookupError("nothing there")

    result = run(server, work)
    span = the_span(spans, "rota.run work")
    assert span.status.status_code is StatusCode.ERROR
    assert [event.name for event in span.events] == ["exception"]
    assert span.attributes is not None and span.attributes["rota.outcome"] == "failed"
    assert result.traceparent and result.failed.failure.type == "LookupError"


def test_spans_of_handlers_that_wait_side_by_side_do_not_mix(server: ScriptServer, spans: InMemorySpanExporter) -> None:
    import asyncio

    worker = Worker(["default"], 8, address=server.address, api_key="k")
    arrived = 0
    together = asyncio.Event()
    seen: dict[str, tuple[int, int]] = {}

    @worker.job("work")
    async def work(lease: Lease) -> None:
        nonlocal arrived
        before = trace.get_current_span().get_span_context().span_id
        arrived += 1
        if arrived == 8:
            together.set()
        await together.wait()
        seen[lease.job] = (before, trace.get_current_span().get_span_context().span_id)

    jobs = [server.job(traceparent=GRANT) for _ in range(8)]
    server.offer(*jobs)
    with running(worker):
        for job in jobs:
            server.result_of(job.job)
    assert all(before == after for before, after in seen.values())
    assert len({before for before, _ in seen.values()}) == 8


def test_without_a_provider_nothing_is_made(server: ScriptServer) -> None:
    seen: list[bool] = []

    def work(lease: Lease) -> None:
        seen.append(trace.get_current_span().get_span_context().is_valid)

    result = run(server, work)
    assert result.traceparent == "" and seen == [False]


@pytest.fixture
def jobs(no_thread_stays: None) -> Iterator[ScriptJobs]:
    server = ScriptJobs()
    yield server
    server.close()


def test_a_creation_is_a_producer_span_that_travels_with_the_call(
    jobs: ScriptJobs, spans: InMemorySpanExporter
) -> None:
    jobs.answer("CreateJob", jobs_pb2.CreateJobResponse(job=jobs_pb2.Job(name="jobs/1")))
    with Client(jobs.address, api_key="k") as client:
        client.create_job("greet")
    span = the_span(spans, "rota.create greet")
    context = span.get_span_context()
    assert span.kind is SpanKind.PRODUCER and context is not None
    assert jobs.calls[0][2]["traceparent"].startswith(f"00-{context.trace_id:032x}-{context.span_id:016x}-")


def test_jobs_created_in_a_handler_belong_to_its_trace(
    server: ScriptServer, jobs: ScriptJobs, spans: InMemorySpanExporter
) -> None:
    jobs.answer("CreateJob", jobs_pb2.CreateJobResponse(job=jobs_pb2.Job(name="jobs/1")))
    done = threading.Event()

    def work(lease: Lease) -> None:
        with Client(jobs.address, api_key="k") as client:
            client.create_job("next")
        done.set()

    run(server, work)
    assert done.is_set()
    create, attempt = the_span(spans, "rota.create next"), the_span(spans, "rota.run work")
    assert create.parent is not None and attempt.get_span_context() is not None
    assert create.parent.span_id == attempt.get_span_context().span_id  # type: ignore[union-attr]
    assert jobs.calls[0][2]["traceparent"].split("-")[1] == TRACE
