"""Spans of time as people write them: 500ms, 20s, 1h30m."""

import math
import re
from typing import Final

_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_WHOLE: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|[smhd]))+")
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[smhd])")
_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_CHARS_MAX: Final = 64


def parse_duration(value: object) -> float:
    """Seconds of a text such as `500ms`, `20s`, `5m`, `1h30m`, `2d`, or of a number of seconds.

    Raises ValueError, whose message names what was expected and found.
    """
    expected = f"expected a duration such as 500ms, 20s, 5m, 1h or 2d, found {repr(value)[:80]}"
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(expected)
    text = value.strip() if isinstance(value, str) else ""
    if len(text) > _CHARS_MAX:
        raise ValueError(expected)
    try:
        if not isinstance(value, str):
            span = float(value)
        elif _NUMBER.fullmatch(text):
            span = float(text)
        elif _WHOLE.fullmatch(text):
            span = sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(text))
        else:
            raise ValueError(expected)
    except OverflowError:
        raise ValueError(expected) from None
    if not math.isfinite(span) or span < 0:
        raise ValueError(expected)
    return span


def format_duration(span_s: float) -> str:
    """The shortest text that `parse_duration` reads as the same span, in one unit."""
    for unit in ("d", "h", "m"):
        count = span_s / _UNITS_S[unit]
        if count >= 1 and count == int(count):
            return f"{int(count)}{unit}"
    if 0 < span_s < 1 and (span_s * 1000).is_integer():
        return f"{int(span_s * 1000)}ms"
    if span_s == int(span_s):
        return f"{int(span_s)}s"
    return f"{span_s!r}s" if "e" not in repr(span_s) else repr(span_s)
