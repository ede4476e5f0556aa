"""What a worker has done, in numbers."""

import threading
from collections import Counter
from typing import Final

NAMES: Final = (
    "leased",  # leases received
    "succeeded",  # outcomes accepted, by kind
    "failed",
    "released",
    "cancelled",
    "duplicates",  # of these, accepted before under the same request_id
    "lost",  # leases that were lost before an outcome was accepted
    "dropped",  # outcomes never sent or refused for good: their lease was lost
    "rejected",  # outcomes that the coordinator found invalid
    "repeated",  # Complete calls repeated
    "sessions",  # sessions opened
)


class Counters:
    """Counts by name, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, name: str, count: int = 1) -> None:
        """Adds to one count."""
        with self._lock:
            self._counts[name] += count

    def add_all(self, counts: Counter[str]) -> None:
        """Adds several at once."""
        with self._lock:
            self._counts.update(counts)

    def snapshot(self) -> dict[str, int]:
        """All counts as they are."""
        with self._lock:
            return {name: self._counts[name] for name in NAMES}
