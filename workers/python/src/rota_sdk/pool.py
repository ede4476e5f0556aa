"""Threads for handlers that block."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

log = logging.getLogger("rota_sdk.pool")

T = TypeVar("T")


class Pool(Generic[T]):
    """Runs `work(item)` in threads, at most `size`; `work` must not raise.

    At most one thread is woken at a time, and it wakes the next only if there is more to do: short work is done by
    few threads instead of waking one per item, yet an item never waits for a busy thread while another could take
    it. Threads are daemons, so that a handler that never returns cannot keep the process; idle ones end on close.
    """

    def __init__(self, size: int, work: Callable[[T], None], name: str) -> None:
        self._size = size
        self._work = work
        self._name = name
        self._lock = threading.Lock()
        self._items: deque[T] = deque()
        self._parked: list[threading.Lock] = []
        self._threads: set[threading.Thread] = set()
        self._started = 0
        self._seeking = False
        self._closed = False
        self._ended_one = threading.Condition(self._lock)
        self._ended: list[threading.Thread] = []

    def submit(self, items: Iterable[T]) -> None:
        """Takes work, from any thread."""
        with self._lock:
            self._items.extend(items)
            summon = self._summon()
        if summon is not None:
            summon()

    def close(self, timeout: float) -> bool:
        """Ends idle threads, waits for busy ones; False when one is busy still after `timeout` seconds."""
        until = time.monotonic() + timeout
        with self._lock:
            self._closed = True
            parked, self._parked = self._parked, []
            for gate in parked:
                gate.release()
            idle = self._ended_one.wait_for(lambda: not self._threads, timeout)
        for thread in self._ended:
            thread.join(max(0.0, until - time.monotonic()))
        return idle

    def _summon(self) -> Callable[[], None] | None:
        """With the lock held: how to get one more thread to look for work; None when none is needed or left."""
        if not self._items or self._seeking:
            return None
        if self._parked:
            self._seeking = True
            return self._parked.pop().release
        if len(self._threads) < self._size:
            self._seeking = True
            self._started += 1
            thread = threading.Thread(target=self._run, name=f"{self._name}-{self._started}", daemon=True)
            self._threads.add(thread)
            return lambda: self._start(thread)
        return None

    def _start(self, thread: threading.Thread) -> None:
        try:
            thread.start()
        except RuntimeError:
            # The system has no thread left. Busy ones take the rest; the next item tries again.
            log.exception("no more threads for handlers than %d", len(self._threads) - 1)
            with self._lock:
                self._threads.discard(thread)
                self._seeking = False
                self._ended_one.notify_all()

    def _run(self) -> None:
        gate = threading.Lock()
        gate.acquire()
        seeking = True
        while True:
            with self._lock:
                if seeking:
                    self._seeking = False
                    seeking = False
                if self._items:
                    item = self._items.popleft()
                    summon = self._summon()
                elif self._closed:
                    self._threads.discard(threading.current_thread())
                    self._ended.append(threading.current_thread())
                    self._ended_one.notify_all()
                    return
                else:
                    self._parked.append(gate)
                    item = None
            if item is None:
                gate.acquire()
                seeking = True
                continue
            if summon is not None:
                summon()
            self._work(item)
            del item, summon
