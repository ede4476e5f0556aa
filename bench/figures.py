"""Small statistics."""

import math
from collections.abc import Sequence


def percentiles_ms(prefix: str, seconds: Sequence[float]) -> dict[str, float]:
    """p50, p99 and the maximum, in milliseconds, under names with a prefix."""
    ordered = sorted(seconds)
    return {
        f"{prefix}p50_ms": _quantile(ordered, 0.5) * 1e3,
        f"{prefix}p99_ms": _quantile(ordered, 0.99) * 1e3,
        f"{prefix}max_ms": ordered[-1] * 1e3,
    }


def _quantile(ordered: Sequence[float], q: float) -> float:
    return ordered[max(math.ceil(q * len(ordered)) - 1, 0)]
