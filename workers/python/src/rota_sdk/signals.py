"""Signals that reach a worker although its event loop is blocked."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType


@contextmanager
def handled(numbers: Sequence[signal.Signals], act: Callable[[], None]) -> Iterator[None]:
    """Calls `act`, in a thread of its own, at each of these signals; in the main thread only, elsewhere does nothing.

    The event loop's own way waits for the loop, which a handler may block. A signal's Python handler interrupts the
    main thread anywhere, perhaps while that holds a lock which `act` needs: so it only writes to a pipe.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def on_signal(number: int, frame: FrameType | None) -> None:
        try:
            os.write(writing, b"s")
        except BlockingIOError:
            # 64 Ki signals wait already.
            return

    def watch() -> None:
        while os.read(reading, 1) == b"s":
            act()

    watcher = threading.Thread(target=watch, name="rota-signals", daemon=True)
    watcher.start()
    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.write(writing, b"e")
        watcher.join()
        os.close(reading)
        os.close(writing)
