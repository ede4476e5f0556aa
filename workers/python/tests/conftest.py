import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from rota_sdk import Worker, limits

sys.path.insert(0, str(Path(__file__).parent))

from rota_conformance.script_server import ScriptServer
from target import dsn

__all__ = ["dsn"]

Running = Callable[[Worker], AbstractContextManager["Run"]]


class Run:
    """A worker at work in a thread of its own."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.error: BaseException | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread = threading.Thread(target=self._run, name="test-worker")
        self.thread.start()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self.error = error

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        await self.worker.serve()

    def finish(self, timeout: float = 15.0) -> None:
        """Waits for the worker's own end and raises what it ended with."""
        self.thread.join(timeout)
        assert not self.thread.is_alive(), "the worker did not end"
        if self.error is not None:
            raise self.error


@contextmanager
def running(worker: Worker) -> Iterator[Run]:
    run = Run(worker)
    try:
        yield run
    finally:
        worker.stop(at_once=True)
        run.finish()


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    """Every test leaves as many threads as it found."""
    before = set(threading.enumerate())
    yield
    until = time.monotonic() + 5
    # grpc.aio keeps one poller for the whole process, whatever is closed.
    extra = {t for t in set(threading.enumerate()) - before if "_poll_wrapper" not in t.name}
    for thread in extra:
        # Threads of gRPC's own end a moment after their channel.
        thread.join(max(0.0, until - time.monotonic()))
    left = [thread for thread in extra if thread.is_alive()]
    assert not left, f"threads left: {left}"


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits of a second that a test would only sit through, at a fifth."""
    for name in ("SLOW_DOWN_S", "UNWIND_TIMEOUT_S", "TIMEOUT_REPORT_GRACE_S"):
        monkeypatch.setattr(limits, name, getattr(limits, name) / 5)


@pytest.fixture
def server(no_thread_stays: None) -> Iterator[ScriptServer]:
    server = ScriptServer()
    yield server
    server.close()


@pytest.fixture
def quick(no_thread_stays: None) -> Iterator[ScriptServer]:
    """A server with short spans: TTL 1.2 s, beats every 0.2 s, delivery 1 s."""
    server = ScriptServer(lease_ttl=1.2, beat_interval=0.2, delivery_ttl=1.0)
    yield server
    server.close()
