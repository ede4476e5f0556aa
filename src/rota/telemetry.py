"""Traces, metrics and logs of one coordinator.

Without an OTLP endpoint there are logs on stderr and numbers in memory, and OpenTelemetry's SDK is not even imported.
With one, all three are exported too. What is measured, and under which name, stands in telemetry_names.py.
"""

from collections.abc import Callable

from rota.clock import SystemClock
from rota.domain.errors import InvalidArgument
from rota.telemetry_logs import check, configure
from rota.telemetry_metrics import Metrics
from rota.telemetry_traces import Traces

__all__ = ["Metrics", "Telemetry", "Traces", "setup"]


class Telemetry:
    """What one process tells of itself. `traces` is None when they go nowhere: test that once and do nothing."""

    def __init__(
        self, metrics: Metrics, traces: Traces | None = None, end: Callable[[float], None] | None = None
    ) -> None:
        self.metrics = metrics
        self.traces = traces
        self._end = end

    @classmethod
    def off(cls) -> "Telemetry":
        """Numbers in memory and nothing else; logging stays as it is."""
        return cls(Metrics())

    def shutdown(self, timeout_s: float) -> None:
        """Sends what is queued and ends the export. Blocks, and never for longer than `timeout_s`, a dead collector
        or not: what it has not taken by then is dropped, with a warning. Safe to repeat.
        """
        if self._end is not None:
            self._end(timeout_s)


def setup(
    *,
    endpoint: str | None,
    service_name: str = "rota-coordinator",
    instance_id: str,
    version: str,
    trace_ratio: float,
    log_level: str,
    log_format: str,
) -> Telemetry:
    """Sets the process's logging up, and with an `endpoint` (http://host:4317, https:// for TLS) the export.

    `trace_ratio`, 0 to 1, is the share of jobs that are traced where their creator did not decide. Settings that make
    no sense, and an endpoint without the extra rota[otel], are InvalidArgument naming the setting.
    """
    # NaN compares false with everything, so it is refused too.
    if not 0.0 <= trace_ratio <= 1.0:
        raise InvalidArgument.field("trace_ratio", f"expected a share from 0 to 1, found {trace_ratio:g}")
    check(log_level, log_format)
    metrics = Metrics()
    otlp = None
    if endpoint:
        try:
            from rota.telemetry_otlp import Otlp
        except ImportError as error:
            raise InvalidArgument.field(
                "otlp_endpoint",
                "expected no endpoint, or the OpenTelemetry SDK installed; found that it is missing "
                f'({error.name or error}): pip install "rota[otel]", or leave the endpoint out',
            ) from error
        otlp = Otlp(
            endpoint=endpoint,
            service_name=service_name,
            instance_id=instance_id,
            version=version,
            trace_ratio=trace_ratio,
            metrics=metrics,
            clock=SystemClock(),
        )
    # Last, so that a refused setting leaves the process's logging as it was.
    configure(log_level, log_format)
    return Telemetry(metrics, otlp.traces, otlp.shutdown) if otlp else Telemetry(metrics)
