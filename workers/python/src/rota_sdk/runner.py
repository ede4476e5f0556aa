"""Runs handlers: blocking ones in threads, async ones on the event loop."""

import asyncio
import contextvars
import inspect
import logging
import time
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from rota_sdk import limits, outcome, telemetry
from rota_sdk.counters import Counters
from rota_sdk.lease import Lease, Stop
from rota_sdk.outcome import Outcome
from rota_sdk.pool import Pool
from rota_sdk.slots import Slots

log = logging.getLogger("rota_sdk.runner")

# An async handler that never waits keeps the loop; after this long others get their turn, and outcomes leave.
_TURN_S: Final = 0.005


class Handler:
    """A function of the user's and how to run it."""

    __slots__ = ("call", "interrupt", "is_async", "waits")

    def __init__(self, call: Callable[[Lease], Any], interrupt: bool) -> None:
        self.call = call
        self.is_async = inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
            getattr(call, "__call__", None)  # noqa: B004
        )
        # Whether a stop cancels the task of an async handler.
        self.interrupt = interrupt
        # What it did last: decides between a task of its own and a shared one. A guess, never wrong in effect.
        self.waits = False


class Runner:
    """Starts leases, ends them with exactly one outcome, and stops them when asked.

    Async handlers share a task as long as they end without waiting, since most of a small job's cost is its task. A
    handler that waits keeps the task, with its cancellation and context variables, to itself; the rest moves on to
    another one.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        slots: Slots,
        loop: asyncio.AbstractEventLoop,
        counters: Counters,
    ) -> None:
        self._handlers = handlers
        self._slots = slots
        self._loop = loop
        self._counters = counters
        self._context = contextvars.copy_context()
        self._pool: Pool[Lease] = Pool(slots.total, self._run_blocking, "rota-handler")
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, leases: Iterable[Lease]) -> None:
        """Takes leases, from any thread; their slots are taken already."""
        blocking: list[Lease] = []
        waiting: list[Lease] = []
        for lease in leases:
            handler = self._handlers.get(lease.type)
            if handler is None:
                log.error("%r: %s; given back", lease, outcome.NO_HANDLER)
                self.withdraw(lease, outcome.released(lease, outcome.NO_HANDLER, limits.NO_HANDLER_DELAY_S))
                self._slots.give(1)
            elif handler.is_async:
                waiting.append(lease)
            else:
                blocking.append(lease)
        if blocking:
            self._pool.submit(blocking)
        if waiting:
            try:
                self._loop.call_soon_threadsafe(self._launch, waiting)
            except RuntimeError:
                log.error("the event loop is closed; %d jobs given back", len(waiting))
                for lease in waiting:
                    self.withdraw(lease, outcome.released(lease, "the event loop is closed", None))
                self._slots.give(len(waiting))

    def stop(self, lease: Lease, reason: Stop) -> None:
        """Asks a handler to stop, from any thread; one that has not started never will."""
        if not lease._ask_to_stop(reason):
            return
        handler = self._handlers.get(lease.type)
        if handler is not None and handler.is_async and handler.interrupt:
            with suppress(RuntimeError):  # the loop is closed, and with it the handler
                self._loop.call_soon_threadsafe(_interrupt, lease)

    def withdraw(self, lease: Lease, instead: Outcome) -> bool:
        """Ends a lease whose handler has not started; whether that was so."""
        if not lease._settle(unstarted=True):
            return False
        self._deliver([instead])
        return True

    def give_up(self, lease: Lease, instead: Outcome) -> None:
        """Ends a lease without waiting for its handler, which keeps its slot until it returns."""
        if lease._settle():
            self._deliver([instead])

    def close(self, timeout: float) -> bool:
        """Ends the threads; False when a handler is still busy."""
        return self._pool.close(timeout)

    async def cancel_rest(self, timeout: float) -> None:
        """Cancels async handlers that are given up and still run, and waits for them at most `timeout` seconds."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout)

    def _admit(self, lease: Lease) -> bool:
        """Whether the handler starts; when it does not, the lease has its outcome."""
        session = lease._session
        if session.ended is not None:
            # It came with the last answer of a session that is no more.
            lease._ask_to_stop(session.ended)
        if lease._stop is None and not session.draining:
            # Not so when it was withdrawn, and thereby has its outcome.
            return lease._begin()
        if lease._stop is Stop.CANCEL:
            instead = outcome.cancelled(lease, "cancelled before it started")
        else:
            words = "the worker leaves" if session.draining else "it could not be started in time"
            instead = outcome.released(lease, words, None)
        self.withdraw(lease, instead)
        return False

    def _deliver(self, outcomes: list[Outcome]) -> None:
        """Hands on outcomes of one session that are worth sending."""
        worthy = [item for item in outcomes if not item.lease._worthless]
        if len(worthy) < len(outcomes):
            self._counters.add("dropped", len(outcomes) - len(worthy))
        for item in worthy:
            if item.kind == "failed":
                lease, failure = item.lease, item.result.failed.failure
                fields = {"job": lease.job, "attempt": lease.attempt, "fence": lease.fence}
                log.warning("%r failed: %s: %s", lease, failure.type, failure.message, extra=fields)
        if worthy:
            worthy[0].lease._session.complete(worthy)

    def _run_blocking(self, lease: Lease) -> None:
        """In a thread of the pool."""
        result: Outcome | None = None
        try:
            if self._admit(lease):
                result = self._context.copy().run(self._call_blocking, lease)
        except BaseException:
            log.exception("%r: its outcome could not be made", lease)
        # The slot first: the sender of outcomes waits for company while handlers run.
        self._slots.give(1)
        if result is not None and lease._settle():
            self._deliver([result])

    def _call_blocking(self, lease: Lease) -> Outcome:
        call = self._handlers[lease.type].call
        if telemetry.tracing():
            with _Traced(lease) as traced:
                try:
                    return traced.end(outcome.succeeded(lease, call(lease), traced.parent))
                except BaseException as error:
                    return traced.end(outcome.of_error(lease, error, traced.parent), error)
        try:
            return outcome.succeeded(lease, call(lease))
        except BaseException as error:
            return outcome.of_error(lease, error)

    def _launch(self, leases: Iterable[Lease]) -> None:
        """On the loop: tasks for leases, one for each that is expected to wait, one for all others."""
        shared: deque[Lease] = deque()
        for lease in leases:
            if self._handlers[lease.type].waits:
                self._spawn(deque((lease,)))
            else:
                shared.append(lease)
        if shared:
            self._spawn(shared)

    def _spawn(self, leases: deque[Lease]) -> None:
        task = self._loop.create_task(self._run_async(leases), context=self._context.copy())
        # The loop itself keeps weak references only.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_async(self, leases: deque[Lease]) -> None:
        """Runs handlers one after the other until one waits; that one it sees to its end, and no other."""
        ended: list[Outcome] = []
        freed = 0
        clean = contextvars.copy_context()
        until = time.monotonic() + _TURN_S

        def flush() -> None:
            nonlocal ended, freed
            if freed:
                self._slots.give(freed)
                freed = 0
            if ended:
                outcomes, ended = ended, []
                self._deliver(outcomes)

        def hand_over() -> None:
            """The handler waits: the task is its own from here on."""
            handler.waits = True
            lease._task = asyncio.current_task()
            flush()
            if leases:
                rest = list(leases)
                leases.clear()
                self._loop.call_soon(self._launch, rest)

        traced = telemetry.tracing()
        try:
            while leases:
                lease = leases.popleft()
                if not self._admit(lease):
                    freed += 1
                    continue
                handler = self._handlers[lease.type]
                if traced:
                    result = await self._call_traced(handler.call, lease, hand_over)
                else:
                    try:
                        result = outcome.succeeded(lease, await _drive(handler.call(lease), hand_over))
                    except GeneratorExit:
                        raise
                    except BaseException as error:
                        result = outcome.of_error(lease, error)
                freed += 1
                if lease._settle():
                    ended.append(result)
                if lease._task is not None:
                    break
                handler.waits = False
                if leases and (time.monotonic() > until or contextvars.copy_context() != clean):
                    # Others get their turn; what the handler left in the context stays behind.
                    self._loop.call_soon(self._launch, list(leases))
                    break
        finally:
            flush()

    async def _call_traced(self, call: Callable[[Lease], Any], lease: Lease, hand_over: Callable[[], None]) -> Outcome:
        with _Traced(lease) as traced:
            try:
                value = await _drive(call(lease), hand_over)
                return traced.end(outcome.succeeded(lease, value, traced.parent))
            except GeneratorExit:
                raise
            except BaseException as error:
                return traced.end(outcome.of_error(lease, error, traced.parent), error)


class _Traced:
    """The span of one attempt, current while its handler runs."""

    __slots__ = ("_context", "_span", "_token", "parent")

    def __init__(self, lease: Lease) -> None:
        message = lease._message
        self._span, self._context = telemetry.start_run(
            lease.type, message.queue, lease.job, lease.attempt, lease.fence, message.traceparent, message.tracestate
        )
        self.parent = telemetry.traceparent_of(self._span)

    def __enter__(self) -> "_Traced":
        self._token = telemetry.attach(self._context)
        return self

    def __exit__(self, *_: object) -> None:
        telemetry.detach(self._token)

    def end(self, result: Outcome, error: BaseException | None = None) -> Outcome:
        """Ends the span with the outcome, which it hands through."""
        telemetry.end_run(self._span, result.kind, error)
        return result


@types.coroutine
def _drive(coroutine: Coroutine[Any, Any, Any], on_wait: Callable[[], None]) -> Generator[Any, Any, Any]:
    """Awaits `coroutine`; calls `on_wait` when it waits for the first time."""
    try:
        waits_for = coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    on_wait()
    while True:
        try:
            yield waits_for
        except BaseException as error:
            try:
                waits_for = coroutine.throw(error)
            except StopIteration as stop:
                return stop.value
        else:
            return (yield from coroutine)


def _interrupt(lease: Lease) -> None:
    """On the loop: cancels the task of a handler that waits and is not done."""
    task = lease._task
    if task is not None and not lease._settled:
        task.cancel()
