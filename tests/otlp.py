"""A collector for tests: takes traces, metrics and logs by OTLP over gRPC, and keeps them.

It answers from threads of its own, so that it serves whatever the test does meanwhile. In an async test wait with
`await asyncio.to_thread(receiver.wait_for, ...)`.
"""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Status

Values = dict[str, Any]


@dataclass(frozen=True)
class Link:
    trace_id: str
    span_id: str
    attributes: Values


@dataclass(frozen=True)
class Span:
    """One span received. Ids are hexadecimal, `parent_id` is empty for a root; times are seconds since 1970."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    tracestate: str
    start: float
    end: float
    attributes: Values
    links: tuple[Link, ...]
    error: bool
    error_text: str
    resource: Values

    def is_at(self, traceparent: str) -> bool:
        """Whether a W3C traceparent names this span; its flags are not sent to a collector."""
        return traceparent[3:52] == f"{self.trace_id}-{self.span_id}"


@dataclass(frozen=True)
class Line:
    """One log line received."""

    logger: str
    severity: str
    body: str
    trace_id: str
    span_id: str
    attributes: Values
    resource: Values


@dataclass(frozen=True)
class Point:
    """The newest value of one series: a number, or of a histogram the counts by bucket."""

    unit: str
    value: float
    buckets: tuple[int, ...] = ()
    bounds: tuple[float, ...] = ()
    monotonic: bool = False


@dataclass
class OtlpReceiver:
    """Listens on a free port of loopback while it is entered as a context.

    With `silent` it takes calls and answers none of them, as a collector that hangs.
    """

    silent: bool = False
    spans: list[Span] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    points: dict[tuple[str, str], Point] = field(default_factory=dict)
    """By name and label value, which is empty for a series without a label."""
    calls: int = 0

    def __enter__(self) -> "OtlpReceiver":
        self._changed = threading.Condition()
        self._released = threading.Event()
        self._server = grpc.server(ThreadPoolExecutor(4, thread_name_prefix="otlp"))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(_Traces(self), self._server)  # type: ignore[no-untyped-call]
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(_Metrics(self), self._server)  # type: ignore[no-untyped-call]
        logs_service_pb2_grpc.add_LogsServiceServicer_to_server(_Logs(self), self._server)  # type: ignore[no-untyped-call]
        self._port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        self._released.set()
        self._server.stop(None).wait()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def wait_for(self, predicate: Callable[["OtlpReceiver"], object], timeout: float = 10.0) -> None:
        """Returns as soon as `predicate` holds; fails with what has arrived after `timeout` seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: predicate(self), timeout):
                raise AssertionError(
                    f"not within {timeout:g} s; received the spans {sorted(s.name for s in self.spans)}, "
                    f"the lines {[line.body for line in self.lines]} and {len(self.points)} series"
                )

    def named(self, name: str) -> list[Span]:
        """The spans of one name, in order of their start."""
        return sorted((span for span in list(self.spans) if span.name == name), key=lambda span: span.start)

    def traces(self) -> dict[str, list[Span]]:
        """The spans by trace, in order of their start."""
        found: dict[str, list[Span]] = {}
        for span in sorted(self.spans, key=lambda span: span.start):
            found.setdefault(span.trace_id, []).append(span)
        return found

    def take(self, keep: Callable[[], None]) -> None:
        with self._changed:
            self.calls += 1
            self._changed.notify_all()
        if self.silent:
            self._released.wait()
            return
        with self._changed:
            keep()
            self._changed.notify_all()


class _Traces(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self, receiver: OtlpReceiver) -> None:
        self._receiver = receiver

    def Export(self, request: Any, context: grpc.ServicerContext) -> Any:
        def keep() -> None:
            for resource_spans in request.resource_spans:
                resource = _values(resource_spans.resource.attributes)
                for scope_spans in resource_spans.scope_spans:
                    self._receiver.spans.extend(_span(span, resource) for span in scope_spans.spans)

        self._receiver.take(keep)
        return trace_service_pb2.ExportTraceServiceResponse()


class _Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    def __init__(self, receiver: OtlpReceiver) -> None:
        self._receiver = receiver

    def Export(self, request: Any, context: grpc.ServicerContext) -> Any:
        def keep() -> None:
            for resource_metrics in request.resource_metrics:
                for scope_metrics in resource_metrics.scope_metrics:
                    for metric in scope_metrics.metrics:
                        for label, point in _points(metric):
                            self._receiver.points[metric.name, label] = point

        self._receiver.take(keep)
        return metrics_service_pb2.ExportMetricsServiceResponse()


class _Logs(logs_service_pb2_grpc.LogsServiceServicer):
    def __init__(self, receiver: OtlpReceiver) -> None:
        self._receiver = receiver

    def Export(self, request: Any, context: grpc.ServicerContext) -> Any:
        def keep() -> None:
            for resource_logs in request.resource_logs:
                resource = _values(resource_logs.resource.attributes)
                for scope_logs in resource_logs.scope_logs:
                    for record in scope_logs.log_records:
                        self._receiver.lines.append(
                            Line(
                                scope_logs.scope.name,
                                record.severity_text,
                                record.body.string_value,
                                record.trace_id.hex(),
                                record.span_id.hex(),
                                _values(record.attributes),
                                resource,
                            )
                        )

        self._receiver.take(keep)
        return logs_service_pb2.ExportLogsServiceResponse()


def _span(span: SpanMessage, resource: Values) -> Span:
    return Span(
        span.name,
        SpanMessage.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.trace_state,
        span.start_time_unix_nano / 1e9,
        span.end_time_unix_nano / 1e9,
        _values(span.attributes),
        tuple(Link(link.trace_id.hex(), link.span_id.hex(), _values(link.attributes)) for link in span.links),
        span.status.code == Status.STATUS_CODE_ERROR,
        span.status.message,
        resource,
    )


def _points(metric: Any) -> Iterable[tuple[str, Point]]:
    if metric.HasField("histogram"):
        for point in metric.histogram.data_points:
            yield (
                _label(point),
                Point(metric.unit, point.sum, tuple(point.bucket_counts), tuple(point.explicit_bounds)),
            )
        return
    numbers = metric.sum if metric.HasField("sum") else metric.gauge
    for point in numbers.data_points:
        value = point.as_int if point.HasField("as_int") else point.as_double
        monotonic = metric.HasField("sum") and metric.sum.is_monotonic
        yield _label(point), Point(metric.unit, value, monotonic=monotonic)


def _label(point: Any) -> str:
    return ",".join(str(value) for value in _values(point.attributes).values())


def _values(pairs: Iterable[KeyValue]) -> Values:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    return getattr(value, value.WhichOneof("value") or "string_value")
