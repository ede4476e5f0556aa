"""Small statistics."""

import math
from collections.abc import Mapping, Sequence


def percentiles_ms(prefix: str, seconds: Sequence[float]) -> dict[str, float]:
    """p50, p99 and the maximum, in milliseconds, under names with a prefix."""
    ordered = sorted(seconds)
    return {
        f"{prefix}p50_ms": quantile(ordered, 0.5) * 1e3,
        f"{prefix}p99_ms": quantile(ordered, 0.99) * 1e3,
        f"{prefix}max_ms": ordered[-1] * 1e3,
    }


def quantile(ordered: Sequence[float], q: float) -> float:
    """Of values in their order."""
    return ordered[max(math.ceil(q * len(ordered)) - 1, 0)]


def ratio(value: float, base: float) -> float:
    """Not a number where there is nothing to compare with."""
    return value / base if base else math.nan


def prefixed(prefix: str, figures: Mapping[str, float]) -> dict[str, float]:
    return {prefix + name: value for name, value in figures.items()}


def rounded(value: float) -> float:
    """Three digits, or whole numbers from 1,000 on: more is noise."""
    return round(value) if abs(value) >= 1_000 else float(f"{value:.3g}")


def plain(value: object) -> object:
    """As JSON has it, which knows no infinity."""
    if not isinstance(value, float):
        return value
    return rounded(value) if math.isfinite(value) else None
