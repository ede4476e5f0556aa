"""A call is a span of its own, child of the attempt's, and says nothing that is secret."""

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from rota_sdk import Failed

from .http_world import Bench, Server, answers, closed_port


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter


async def test_a_call_is_a_child_of_its_attempt(spans: InMemorySpanExporter) -> None:
    async with Server([answers(200), answers(404)]) as server:
        url = f"http://127.0.0.1:{server.port}/a"
        with trace.get_tracer("test").start_as_current_span("attempt") as attempt:
            await Bench().result(f"{url}?token=secret", headers={"Authorization": "secret"})
        await Bench().failure(Failed, url)
    call, _, missing = spans.get_finished_spans()
    assert (call.name, call.kind) == ("GET", SpanKind.CLIENT)
    assert call.parent is not None
    assert call.parent.span_id == attempt.get_span_context().span_id
    assert call.context is not None
    assert server.seen[0].headers["traceparent"].split("-")[1:3] == [
        f"{call.context.trace_id:032x}",
        f"{call.context.span_id:016x}",
    ]
    assert dict(call.attributes or {}) == {
        "http.request.method": "GET",
        "url.full": url,
        "server.address": "127.0.0.1",
        "server.port": server.port,
        "http.response.status_code": 200,
    }
    assert missing.status.status_code is StatusCode.ERROR


async def test_a_call_without_an_answer_is_an_error(spans: InMemorySpanExporter) -> None:
    await Bench().failure(Failed, f"http://127.0.0.1:{closed_port()}/?token=secret")
    (span,) = spans.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR
    assert "secret" not in span.to_json()
