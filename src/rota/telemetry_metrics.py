"""What a coordinator counts: plain numbers bumped in place, read when somebody asks.

No OpenTelemetry call lies on the hot path, and the same numbers serve the exporter, `rota doctor` and the tests. Bump
them from one thread, the event loop's: a bump from another one may be lost. Reading is safe from any.
"""

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from rota.telemetry_names import METRICS, OTHER, Kind, Spec

_log: Final = logging.getLogger(__name__)


class Counts:
    """A histogram: `buckets[i]` counts what is at most `bounds[i]`, the last one all above."""

    __slots__ = ("bounds", "buckets", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.total = 0.0

    def quantile(self, q: float) -> float | None:
        """The upper end of the bucket that holds the quantile; None when empty, the highest bound when above."""
        buckets = list(self.buckets)
        rank = q * sum(buckets)
        if not rank:
            return None
        seen = 0
        for bound, count in zip(self.bounds, buckets, strict=False):
            seen += count
            if seen >= rank:
                return bound
        return self.bounds[-1]


class Metrics:
    """The numbers of one coordinator, by the names of the catalogue; any other name is a KeyError."""

    def __init__(self) -> None:
        self._series: dict[str, dict[str, list[int]]] = {}
        self._cells: dict[str, dict[str, list[int]]] = {}
        self._counts: dict[str, Counts] = {}
        self._reads: dict[str, Callable[[], float] | None] = {}
        self._silent: set[str] = set()
        for spec in METRICS:
            if spec.kind is Kind.COUNTER:
                rest = [0]
                series = {value: [0] for value in spec.values} | {OTHER if spec.label else "": rest}
                self._series[spec.name] = series
                # Enums are named in upper case; both ways lead to the one series.
                upper = {value.upper(): cell for value, cell in series.items()}
                self._cells[spec.name] = series | upper | {OTHER: rest}
            elif spec.kind is Kind.HISTOGRAM:
                self._counts[spec.name] = Counts(spec.bounds)
            else:
                self._reads[spec.name] = None

    def add(self, name: str, value: int = 1, label: str = "") -> None:
        """Counts. `label` is a value of the metric's label, in either case; one that is not counts as `other`."""
        cells = self._cells[name]
        try:
            cells[label][0] += value
        except KeyError:
            cells[OTHER][0] += value

    def observe(self, name: str, seconds: float) -> None:
        """Takes one value of a histogram, in its unit. Less than nothing, as clocks may say, is nothing."""
        counts = self._counts[name]
        if not seconds >= 0.0:  # NaN too: it would spoil the total for ever.
            seconds = 0.0
        counts.buckets[bisect_left(counts.bounds, seconds)] += 1
        counts.total += seconds

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Names where a gauge is read; the last one named counts. `read` is called from other threads, and is quick."""
        if name not in self._reads:
            raise KeyError(name)
        self._reads[name] = read

    def readings(self) -> Iterator[tuple[Spec, Mapping[str, float] | Counts]]:
        """Every metric as it stands, in the catalogue's order: by label, or a histogram. Unread gauges are left out."""
        for spec in METRICS:
            if spec.kind is Kind.COUNTER:
                yield spec, {label: cell[0] for label, cell in self._series[spec.name].items()}
            elif spec.kind is Kind.HISTOGRAM:
                yield spec, self._counts[spec.name]
            else:
                value = self._read(spec.name)
                if value is not None:
                    yield spec, {"": value}

    def snapshot(self) -> dict[str, object]:
        """All of it for people and tests, ready for JSON: a number, numbers by label, or a histogram's figures."""
        found: dict[str, object] = {}
        for spec, reading in self.readings():
            if isinstance(reading, Counts):
                found[spec.name] = {
                    "count": sum(reading.buckets),
                    "sum": reading.total,
                    "p50": reading.quantile(0.5),
                    "p99": reading.quantile(0.99),
                }
            else:
                found[spec.name] = dict(reading) if spec.label else reading[""]
        return found

    def _read(self, name: str) -> float | None:
        read = self._reads[name]
        if read is None:
            return None
        try:
            return float(read())
        except Exception:
            # One broken gauge must not take the others with it, nor fill the log.
            if name not in self._silent:
                self._silent.add(name)
                _log.warning("the gauge %s cannot be read and is left out", name, exc_info=True)
            return None
