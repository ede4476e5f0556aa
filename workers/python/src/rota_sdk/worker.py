"""Runs jobs with functions of the user's.

worker = Worker(queues=["default"], slots=10)

@worker.job("greet")
def greet(lease: Lease) -> str:
    return f"hello {lease.json()['name']}"

worker.run()
"""

import asyncio
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from rota_sdk import limits, text
from rota_sdk.channel import Endpoint, Tls
from rota_sdk.counters import Counters
from rota_sdk.engine import Engine
from rota_sdk.lease import Lease
from rota_sdk.runner import Handler
from rota_sdk.session import Identity
from rota_sdk.signals import handled

log = logging.getLogger("rota_sdk.worker")

F = TypeVar("F", bound=Callable[[Lease], Any])


class Worker:
    """Takes jobs from queues and runs up to `slots` of them at a time.

    A handler gets a Lease and returns None, bytes, str, a Payload or a value with a JSON form. Plain functions run in
    threads, async ones on the event loop. What they raise fails the attempt; Retry, Fatal, Release, Cancelled and
    EffectUnknown say more. The session is kept alive by threads that no handler can block, short of code that holds
    Python's interpreter lock for seconds.

    When the worker leaves, running handlers get `drain_timeout` seconds to end. Then they are asked to stop, and get
    `unwind_timeout` more before their jobs go to another worker.
    """

    def __init__(
        self,
        queues: Sequence[str] = ("default",),
        slots: int = 10,
        *,
        address: str | None = None,
        api_key: str | None = None,
        tls: Tls | bool | None = None,
        name: str = "",
        build_id: str = "",
        labels: Mapping[str, str] | None = None,
        drain_timeout: float = limits.DRAIN_TIMEOUT_S,
        unwind_timeout: float | None = None,
    ) -> None:
        if isinstance(queues, str) or not 1 <= len(queues) <= limits.QUEUES:
            raise ValueError(f"queues: expected a list of 1 to {limits.QUEUES} names, found {queues!r}")
        if not 1 <= slots <= limits.SLOTS:
            raise ValueError(f"slots: expected 1 to {limits.SLOTS}, found {slots}")
        if drain_timeout < 0:
            raise ValueError(f"drain_timeout: expected seconds, not negative, found {drain_timeout}")
        if unwind_timeout is None:
            unwind_timeout = limits.UNWIND_TIMEOUT_S
        elif unwind_timeout < 0:
            raise ValueError(f"unwind_timeout: expected seconds, not negative, found {unwind_timeout}")
        self._endpoint = Endpoint.resolve(address, api_key, tls)
        self._queues = tuple(queues)
        self._slots = slots
        self._name = text.clean(name or f"{socket.gethostname()}-{os.getpid()}", limits.IDENTITY_BYTES)
        self._build_id = build_id
        self._labels = dict(labels or {})
        self._drain_timeout = drain_timeout
        self._unwind_timeout = unwind_timeout
        self._handlers: dict[str, Handler] = {}
        self._counters = Counters()
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._stopped = False

    def job(self, type: str, *, interrupt: bool = True) -> Callable[[F], F]:
        """Registers the decorated function for jobs of `type`; see `add`."""

        def register(handler: F) -> F:
            self.add(type, handler, interrupt=interrupt)
            return handler

        return register

    def add(self, type: str, handler: Callable[[Lease], Any], *, interrupt: bool = True) -> None:
        """Registers a handler. With `interrupt`, a stop cancels the task of an async one.

        Raises ValueError on a type that has one already, or the 513th; RuntimeError once the worker runs.
        """
        if self._engine is not None:
            raise RuntimeError("handlers are registered before the worker runs")
        if not type or type in self._handlers:
            raise ValueError(f"type: expected a name without a handler, found {type!r}")
        if len(self._handlers) >= limits.TYPES:
            raise ValueError(f"expected at most {limits.TYPES} types; run another worker for the rest")
        self._handlers[type] = Handler(handler, interrupt)

    def run(self) -> None:
        """Runs until stopped, on an event loop of its own; blocks.

        In the main thread SIGTERM and SIGINT drain, and a second one leaves at once. Raises RotaError when the
        server refuses the session, for example for want of a valid API key; an unreachable server is waited for.
        """
        with handled((signal.SIGTERM, signal.SIGINT), self._on_signal):
            asyncio.run(self.serve())

    async def serve(self) -> None:
        """Runs until stopped, on the caller's event loop; leaves signals to the caller. Raises as `run`.

        Cancelling it leaves at once.
        """
        if not self._handlers:
            raise ValueError("expected a handler, found none; register one with @worker.job(type)")
        loop = asyncio.get_running_loop()
        ended = loop.create_future()

        def on_exit(error: BaseException | None) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(ended.set_result, error)

        identity = Identity(self._name, self._build_id, self._queues, tuple(self._handlers), self._slots, self._labels)
        with self._lock:
            if self._engine is not None:
                raise RuntimeError("the worker runs already")
            if self._stopped:
                return
            engine = self._engine = Engine(
                self._endpoint,
                identity,
                self._handlers,
                loop,
                self._counters,
                self._drain_timeout,
                self._unwind_timeout,
            )
        engine.start(on_exit)
        try:
            error = await asyncio.shield(ended)
        except asyncio.CancelledError:
            engine.stop(at_once=True)
            await ended
            raise
        finally:
            engine.join(limits.CLOSE_TIMEOUT_S)
            await engine.runner.cancel_rest(limits.UNWIND_TIMEOUT_S)
            with self._lock:
                self._engine = None
        if error is not None:
            raise error

    def stop(self, *, at_once: bool = False) -> None:
        """Drains and ends, for good; `at_once`: without waiting for handlers.

        From any thread, also before `run`, and again to hurry.
        """
        with self._lock:
            self._stopped = True
            if self._engine is not None:
                self._engine.stop(at_once=at_once)

    def counts(self) -> dict[str, int]:
        """What it has done so far, by the names in `rota_sdk.counters`."""
        return self._counters.snapshot()

    def _on_signal(self) -> None:
        if self._stopped:
            log.warning("second signal: leaving at once")
        else:
            log.info("signal: leaving when the running jobs have ended; a second one leaves at once")
        self.stop(at_once=self._stopped)
