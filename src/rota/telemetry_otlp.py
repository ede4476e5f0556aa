"""The export over OTLP/gRPC: the only place that knows the OpenTelemetry SDK, imported only with an endpoint.

Everything is handed to bounded queues that threads empty, so that a slow or dead collector costs telemetry and nothing
else. No global provider is set: whoever embeds a coordinator keeps their own. Headers, certificates, timeouts and
compression are the standard's OTEL_EXPORTER_OTLP_* variables; OTEL_RESOURCE_ATTRIBUTES are added to the resource.
"""

import logging
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeGuard
from urllib.parse import urlsplit

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, set_span_in_context, set_tracer_provider

from rota.clock import Clock
from rota.domain.errors import InvalidArgument
from rota.domain.text import clean
from rota.telemetry_logs import EXPORTER, context_of, extras, hush_exporter
from rota.telemetry_metrics import Counts, Metrics
from rota.telemetry_names import SCOPE, Kind, Spec
from rota.telemetry_traces import Traces

_log: Final = logging.getLogger(__name__)

PORT: Final = 4317
SPAN_QUEUE: Final = 8_192
SPAN_BATCH: Final = 512
LOG_QUEUE: Final = 2_048
LOG_BATCH: Final = 128
LOG_BYTES_MAX: Final = 8 * 1024
"""Of each text of a line, so that a batch of the longest fits into the 4 MiB that a collector takes."""

BATCH_DELAY_MS: Final = 1_000
END_TIMEOUT_S: Final = 5.0
METRICS_EVERY_S: Final = 15.0

_SEVERITIES: Final = (
    (logging.CRITICAL, SeverityNumber.FATAL, "FATAL"),
    (logging.ERROR, SeverityNumber.ERROR, "ERROR"),
    (logging.WARNING, SeverityNumber.WARN, "WARN"),
    (logging.INFO, SeverityNumber.INFO, "INFO"),
    (logging.NOTSET, SeverityNumber.DEBUG, "DEBUG"),
)


class _Exporter(Protocol):
    def shutdown(self) -> None: ...


class Otlp:
    """Everything that leaves one process for the collector. Made once; `shutdown` ends it."""

    def __init__(
        self,
        *,
        endpoint: str,
        service_name: str,
        instance_id: str,
        version: str,
        trace_ratio: float,
        metrics: Metrics,
        clock: Clock,
        metrics_every_s: float = METRICS_EVERY_S,
    ) -> None:
        url, insecure = target(endpoint)
        self._url = url
        self._clock = clock
        resource = Resource.create(
            {"service.name": service_name, "service.instance.id": instance_id, "service.version": version}
        )
        spans = OTLPSpanExporter(endpoint=url, insecure=insecure)
        points = OTLPMetricExporter(endpoint=url, insecure=insecure)
        lines = OTLPLogExporter(endpoint=url, insecure=insecure)
        self._exporters: Sequence[_Exporter] = (spans, points, lines)
        # Whether a job is traced is decided before the SDK is asked for a span.
        self._tracers = TracerProvider(sampler=ALWAYS_ON, resource=resource, shutdown_on_exit=False)
        self._tracers.add_span_processor(
            BatchSpanProcessor(
                spans,
                max_queue_size=SPAN_QUEUE,
                max_export_batch_size=SPAN_BATCH,
                schedule_delay_millis=BATCH_DELAY_MS,
            )
        )
        self._loggers = LoggerProvider(resource=resource, shutdown_on_exit=False)
        self._loggers.add_log_record_processor(
            BatchLogRecordProcessor(
                lines,
                max_queue_size=LOG_QUEUE,
                max_export_batch_size=LOG_BATCH,
                schedule_delay_millis=BATCH_DELAY_MS,
            )
        )
        self._handler = _Handler(self._loggers)
        logging.getLogger().addHandler(self._handler)
        self._pump = _Pump(points, _Points(metrics, resource, version, clock), metrics_every_s)
        self._pump.start()
        self.traces = Traces(self._tracers.get_tracer(SCOPE, version), trace_ratio, clock.rng)

    def shutdown(self, timeout_s: float) -> None:
        """Sends what is queued, for at most `timeout_s`; what a collector has not taken by then is dropped."""
        logging.getLogger().removeHandler(self._handler)
        hush_exporter()
        deadline = self._clock.monotonic() + timeout_s
        # Their own time limits cannot be relied on, so each is waited for from outside, and left behind when late.
        ends: Sequence[Callable[[], None]] = (self._tracers.shutdown, self._loggers.shutdown, self._pump.stop)
        threads = [threading.Thread(target=end, name="rota-telemetry-end", daemon=True) for end in ends]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, deadline - self._clock.monotonic()))
        if any(thread.is_alive() for thread in threads):
            for exporter in self._exporters:
                exporter.shutdown()
            _log.warning(
                "the collector at %s did not take the last telemetry within %g s; it is dropped", self._url, timeout_s
            )


def trace_runner(endpoint: str, service_name: str) -> Callable[[], None]:
    """Exports the spans of a process that is a worker of ours, the SDK's and its own. The caller ends it by the answer.

    The process belongs to no other application, so the provider is the global one, by which the SDK finds it.
    """
    url, insecure = target(endpoint)
    provider = TracerProvider(resource=Resource.create({"service.name": service_name}), shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=url, insecure=insecure)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=BATCH_DELAY_MS))
    set_tracer_provider(provider)

    def end() -> None:
        hush_exporter()
        closing = threading.Thread(target=provider.shutdown, name="rota-telemetry-end", daemon=True)
        closing.start()
        closing.join(END_TIMEOUT_S)

    return end


def target(endpoint: str) -> tuple[str, bool]:
    """Checks an endpoint; gives it with its port, and whether it is without TLS.

    The exporter itself would take a bare host:port for TLS, and leave a path of OTLP over HTTP out in silence.
    """
    expected = f"expected http://host:{PORT} or https://host:{PORT}, the collector's OTLP/gRPC port, without a path"
    try:
        parts = urlsplit(endpoint.strip())
        port = parts.port or PORT
    except ValueError:
        raise InvalidArgument.field("otlp_endpoint", f"{expected}; found something that is no URL") from None
    if "@" in parts.netloc:
        raise InvalidArgument.field(
            "otlp_endpoint", f"{expected}; found a user or password: send headers by OTEL_EXPORTER_OTLP_HEADERS"
        )
    shown = endpoint.partition("?")[0][:80]  # a query may hold a token
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
        raise InvalidArgument.field("otlp_endpoint", f"{expected}; found {shown!r}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port}", parts.scheme == "http"


class _Points:
    """The coordinator's own numbers as cumulative data points, counted from the start of the process.

    No instruments of the SDK lie between: the buckets are kept anyway, and recording each value a second time would
    cost every job several microseconds.
    """

    def __init__(self, metrics: Metrics, resource: Resource, version: str, clock: Clock) -> None:
        self._metrics = metrics
        self._resource = resource
        self._scope = InstrumentationScope(SCOPE, version)
        self._clock = clock
        self._start = self._now()

    def __call__(self) -> MetricsData:
        now = self._now()
        found = [
            Metric(spec.name, spec.meaning, spec.unit, self._data(spec, reading, now))
            for spec, reading in self._metrics.readings()
        ]
        return MetricsData([ResourceMetrics(self._resource, [ScopeMetrics(self._scope, found, "")], "")])

    def _data(self, spec: Spec, reading: Mapping[str, float] | Counts, now: int) -> Sum | Gauge | Histogram:
        if isinstance(reading, Counts):
            buckets = list(reading.buckets)
            point = HistogramDataPoint(
                attributes={},
                start_time_unix_nano=self._start,
                time_unix_nano=now,
                count=sum(buckets),
                sum=reading.total,
                bucket_counts=buckets,
                explicit_bounds=reading.bounds,
                min=None,  # type: ignore[arg-type]  # optional on the wire
                max=None,  # type: ignore[arg-type]
            )
            return Histogram([point], AggregationTemporality.CUMULATIVE)
        points = [
            NumberDataPoint({spec.label: label} if spec.label else {}, self._start, now, value)
            for label, value in reading.items()
        ]
        if spec.kind is Kind.GAUGE:
            return Gauge(points)
        return Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)

    def _now(self) -> int:
        return int(self._clock.utc().timestamp() * 1e9)


class _Pump(threading.Thread):
    """Exports the metrics at a fixed pace, and once more at the end."""

    def __init__(self, exporter: MetricExporter, collect: Callable[[], MetricsData], every_s: float) -> None:
        super().__init__(name="rota-telemetry-metrics", daemon=True)
        self._exporter = exporter
        self._collect = collect
        self._every_s = every_s
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.wait(self._every_s):
            self._export()
        self._export()

    def stop(self) -> None:
        self._stopping.set()
        self.join()
        self._exporter.shutdown()

    def _export(self) -> None:
        try:
            self._exporter.export(self._collect())
        except Exception:
            _log.warning("the metrics could not be exported", exc_info=True)


class _Handler(logging.Handler):
    """Hands log lines to the export, all but those that tell of the export."""

    def __init__(self, loggers: LoggerProvider) -> None:
        super().__init__()
        self._loggers = loggers

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(EXPORTER):
            return
        try:
            self._loggers.get_logger(record.name).emit(self._translate(record))
        except Exception:
            self.handleError(record)

    def _translate(self, record: logging.LogRecord) -> LogRecord:
        # A single lone surrogate, or a number over 64 bits, would lose the whole batch.
        attributes: dict[str, str | int | float] = {
            key: value if _is_number(value) else clean(str(value), LOG_BYTES_MAX)
            for key, value in extras(record).items()
        }
        if record.exc_info and record.exc_info[0]:
            attributes["exception.type"] = record.exc_info[0].__qualname__
            attributes["exception.message"] = clean(str(record.exc_info[1]), LOG_BYTES_MAX)
            stack = "".join(traceback.format_exception(*record.exc_info))
            attributes["exception.stacktrace"] = clean(stack, LOG_BYTES_MAX)
        context = context_of(record)
        number, text = next((number, text) for level, number, text in _SEVERITIES if record.levelno >= level)
        return LogRecord(
            timestamp=int(record.created * 1e9),
            context=set_span_in_context(NonRecordingSpan(context), Context()) if context else None,
            severity_number=number,
            severity_text=text,
            body=clean(record.getMessage(), LOG_BYTES_MAX),
            attributes=attributes,
        )


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, float) or (isinstance(value, int) and -(1 << 63) <= value < 1 << 63)
