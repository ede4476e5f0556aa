"""How `rota dev` is asked to end."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """Ctrl-C, SIGTERM, a closed terminal: an exception while things start or when repeated, else an event."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.started = False

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        repeated = self.asked.is_set()
        self.asked.set()
        if repeated or not self.started:
            raise KeyboardInterrupt


@contextmanager
def signals() -> Iterator[Stop]:
    stop = Stop()
    numbers = [signal.SIGINT, signal.SIGTERM]
    # Under nohup it is ignored, and stays so.
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, stop.on_signal) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
