"""How many jobs a worker runs at a time."""

import threading
from collections.abc import Callable


class Slots:
    """The one counter of capacity: free = total - (running + received and not yet started).

    Shared by all sessions of a worker, since a handler that outlives its session still takes its slot.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self._used = 0
        self._lock = threading.Lock()
        self._wanted = 0
        self._wake: Callable[[], None] | None = None

    @property
    def free(self) -> int:
        """Slots that could take a job now; negative when the server sent more than was asked for."""
        return self.total - self._used

    @property
    def used(self) -> int:
        """Slots taken."""
        return self._used

    def take(self, count: int) -> None:
        """Jobs were received."""
        with self._lock:
            self._used += count

    def give(self, count: int) -> None:
        """Handlers ended, or will not start."""
        with self._lock:
            self._used -= count
            wake = None
            if self._wake is not None and self.total - self._used >= self._wanted:
                wake, self._wake = self._wake, None
        if wake is not None:
            wake()

    def when_free(self, count: int, wake: Callable[[], None] | None) -> bool:
        """Calls `wake` once, from some thread, when so many are free; True instead when they are already.

        Only the latest request stands; None withdraws it.
        """
        with self._lock:
            if wake is not None and self.total - self._used >= count:
                self._wake = None
                return True
            self._wanted, self._wake = count, wake
            return False
