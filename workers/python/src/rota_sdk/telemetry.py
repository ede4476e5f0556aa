"""Trace context between creators, coordinators and handlers: W3C Trace Context, by opentelemetry-api alone.

Without a tracer provider set up by the application nothing is made and nothing is paid.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NoOpTracerProvider, ProxyTracerProvider, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from rota_sdk.version import VERSION

# Names of spans and attributes, in one list.
SPAN_CREATE: Final = "rota.create"
SPAN_RUN: Final = "rota.run"
ATTR_SYSTEM: Final = "messaging.system"
ATTR_OPERATION: Final = "messaging.operation.type"
ATTR_QUEUE: Final = "messaging.destination.name"
ATTR_JOB: Final = "messaging.message.id"
ATTR_COUNT: Final = "messaging.batch.message_count"
ATTR_TYPE: Final = "rota.job.type"
ATTR_ATTEMPT: Final = "rota.attempt"
ATTR_FENCE: Final = "rota.fence"
ATTR_OUTCOME: Final = "rota.outcome"

_W3C: Final = TraceContextTextMapPropagator()


def tracing() -> bool:
    """Whether the application has set up a tracer provider."""
    return not isinstance(trace.get_tracer_provider(), ProxyTracerProvider | NoOpTracerProvider)


def _tracer() -> trace.Tracer:
    return trace.get_tracer("rota_sdk", VERSION)


def inject() -> tuple[tuple[str, str], ...]:
    """The current context as call metadata: traceparent and perhaps tracestate; empty outside of a span."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier)
    return tuple(carrier.items())


@contextmanager
def creating(kind: str, count: int) -> Iterator[tuple[tuple[str, str], ...]]:
    """A producer span around a creation; yields the metadata that hands it on."""
    if not tracing():
        yield inject()
        return
    attributes: dict[str, str | int] = {ATTR_SYSTEM: "rota", ATTR_OPERATION: "send", ATTR_COUNT: count}
    with _tracer().start_as_current_span(f"{SPAN_CREATE} {kind}", kind=SpanKind.PRODUCER, attributes=attributes):
        yield inject()


def start_run(
    kind: str, queue: str, job: str, attempt: int, fence: int, traceparent: str, tracestate: str
) -> tuple[Span, Context]:
    """The consumer span of one attempt, child of the lease's context, and the context for its handler."""
    carrier = {"traceparent": traceparent, "tracestate": tracestate} if traceparent else {}
    parent = _W3C.extract(carrier, Context())
    span = _tracer().start_span(
        f"{SPAN_RUN} {kind}",
        parent,
        SpanKind.CONSUMER,
        {
            ATTR_SYSTEM: "rota",
            ATTR_OPERATION: "process",
            ATTR_QUEUE: queue,
            ATTR_JOB: job,
            ATTR_TYPE: kind,
            ATTR_ATTEMPT: attempt,
            ATTR_FENCE: fence,
        },
    )
    return span, trace.set_span_in_context(span, parent)


def traceparent_of(span: Span) -> str:
    """The span's own context in W3C form; empty when it has none."""
    found = span.get_span_context()
    if not found.is_valid:
        return ""
    return f"00-{trace.format_trace_id(found.trace_id)}-{trace.format_span_id(found.span_id)}-{found.trace_flags:02x}"


def end_run(span: Span, outcome: str, error: BaseException | None) -> None:
    """Ends the span of an attempt with what became of it."""
    span.set_attribute(ATTR_OUTCOME, outcome)
    if error is not None and outcome == "failed":
        span.record_exception(error)
        span.set_status(Status(StatusCode.ERROR, type(error).__name__))
    span.end()


attach = otel_context.attach
detach = otel_context.detach
