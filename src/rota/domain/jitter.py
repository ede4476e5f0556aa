"""Jitter: a delay of each occurrence, so that what is due at the same time does not start at the same time."""

from datetime import timedelta
from enum import IntEnum

from rota.domain.dst import Cause, Reason
from rota.domain.ids import digest


class JitterMode(IntEnum):
    """How jitter is drawn. The numbers are those of rota.v1.JitterMode."""

    HASH = 1
    RANDOM = 2


class Jitter:
    """A delay within [0, span), in whole milliseconds.

    HASH draws one for the schedule. RANDOM draws one for each occurrence, by its nominal time: whoever computes it
    again after a crash gets the same.
    """

    def __init__(self, span_s: float, mode: JitterMode, uid: str) -> None:
        self._uid = uid.encode("utf-8", "replace")
        self._span_ms = max(int(span_s * 1000), 1)
        self._span_s = span_s
        self._fixed = self._draw(b"") if mode is JitterMode.HASH else None

    def delay(self, at: int) -> timedelta:
        return self._fixed if self._fixed is not None else self._draw(str(at).encode())

    def reason(self, at: int) -> Reason:
        if self._fixed is None:
            return Reason(Cause.JITTER, f"jitter: up to {self._span_s:g} s later")
        return Reason(Cause.JITTER, f"jitter: {self._fixed.total_seconds():g} s later")

    def _draw(self, what: bytes) -> timedelta:
        number = int.from_bytes(digest(b"jitter", self._uid, what)[:8], "big")
        return timedelta(milliseconds=number % self._span_ms)
