"""Waits between repetitions."""

import random


class Backoff:
    """Doubling waits with jitter, so that many workers do not come back in the same instant."""

    __slots__ = ("_first", "_most", "_next")

    def __init__(self, first: float, most: float) -> None:
        self._first = first
        self._most = most
        self._next = first

    def reset(self) -> None:
        """Starts over: the call succeeded."""
        self._next = self._first

    def next(self, at_least: float | None = None) -> float:
        """Seconds to wait, between half and all of the current bound; not less than what the server asked for."""
        bound = self._next
        self._next = min(bound * 2, self._most)
        return max(bound * random.uniform(0.5, 1.0), at_least or 0.0)
