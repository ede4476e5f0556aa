"""A seeded event loop in virtual time, with processes that can be paused and killed.

Time stands still while anything can run and jumps to the next timer when nothing can, so minutes pass in milliseconds.
Whatever the operating system would decide is drawn from the seed: the order of callbacks that are ready together, and
of timers for the same instant. The same seed gives the same run, on any machine and under any PYTHONHASHSEED, as long
as the code under it iterates no sets, asks no real clock and starts no threads; there are no executors and sockets.

Which process a callback belongs to is read from its context, which asyncio hands on to tasks, timers and wake-ups. A
paused process (SIGSTOP, a stolen CPU) runs nothing until it is resumed, while its timers go on and its messages pile
up. A killed one (kill -9) never runs again: no `finally`, no `except`, no last word.
"""

import asyncio
import heapq
import itertools
import random
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")

TIE_S = 1e-6
"""Timers are late by up to this much, so that equal deadlines come in any order."""

TURNS_STANDING_MAX = 20_000
"""So many turns without time moving on are a loop that waits for nothing."""

UNWIND_TURNS_MAX = 1_000

_current: ContextVar["Process | None"] = ContextVar("process", default=None)


class SimError(Exception):
    """The run cannot go on: nothing is scheduled, or time stands still."""


class Process:
    """What is paused and killed together. Tasks and timers belong to the process that they were made in."""

    def __init__(self, loop: "SimLoop", name: str) -> None:
        self.name = name
        self.dead = False
        self.paused = False
        self._loop = loop
        self._held: list[Handle] = []
        self._pauses = 0
        self._context = copy_context()
        self._context.run(_current.set, self)

    def __repr__(self) -> str:
        return self.name

    @property
    def stopped(self) -> bool:
        return self.dead or self.paused

    def spawn(self, work: Coroutine[Any, Any, T], name: str | None = None) -> "asyncio.Task[T]":
        """Starts a task of this process."""
        task = self._loop.create_task(work, name=name, context=self._context.copy())
        task.add_done_callback(self._loop.look_at)
        return task

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Something arrives for this process, which deals with it when it can."""
        self._loop.call_soon(callback, *args, context=self._context.copy())

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> None:
        self._loop.call_later(delay, callback, *args, context=self._context.copy())

    def pause(self, seconds: float) -> None:
        """Stops everything of this process for a while, from its next await on. A second pause only lengthens it."""
        if self.dead:
            return
        self.paused = True
        self._pauses += 1
        self._loop.call_later(seconds, self._end_pause, self._pauses, context=self._loop.outside)

    def resume(self) -> None:
        self._pauses += 1
        self._end_pause(self._pauses)

    def kill(self) -> None:
        """Ends it without a word. What it has sent already arrives all the same."""
        self.dead = True

    def hold(self, handle: "Handle") -> None:
        self._held.append(handle)

    def _end_pause(self, number: int) -> None:
        if number != self._pauses:
            return
        self.paused = False
        if not self.dead:
            self._loop.take_back(self._held)
            self._held = []

    def _release_for_ever(self) -> None:
        self.dead = self.paused = False
        self._loop.take_back(self._held)
        self._held = []


class Handle:
    """A callback that is to run; what `call_soon` and `call_at` answer."""

    __slots__ = ("_args", "_callback", "_cancelled", "_context", "_when", "process")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context, when: float = 0.0
    ) -> None:
        self._callback = callback
        self._args = args
        self._context = context
        self._when = when
        self._cancelled = False
        self.process: Process | None = context.get(_current)

    def cancel(self) -> None:
        self._cancelled = True

    def cancelled(self) -> bool:
        return self._cancelled

    def when(self) -> float:
        return self._when

    def run(self) -> None:
        self._context.run(self._callback, *self._args)


class SimLoop(asyncio.AbstractEventLoop):
    """The loop. `run` is its only entrance; `errors` are exceptions of bare callbacks, which nobody else sees."""

    def __init__(self, seed: str) -> None:
        self.turns = 0
        self.errors: list[BaseException] = []
        self.outside = copy_context()
        """The context of whatever is no process: network, database, operator."""
        self.outside.run(_current.set, None)
        self._rng = random.Random(f"loop/{seed}")
        self._now = 0.0
        self._ready: list[Handle] = []
        self._timers: list[tuple[float, int, Handle]] = []
        self._order = itertools.count()
        self.processes: list[Process] = []

    def process(self, name: str) -> Process:
        process = Process(self, name)
        self.processes.append(process)
        return process

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Runs until `main` is done, then cancels whatever is left, dead processes included."""
        asyncio._set_running_loop(self)
        try:
            task = self.create_task(main, context=self.outside)
            try:
                while not task.done():
                    self._turn()
                return task.result()
            finally:
                self._unwind()
        finally:
            asyncio._set_running_loop(None)

    def look_at(self, task: "asyncio.Task[Any]") -> None:
        """Notes a task that ended by an exception."""
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self.errors.append(error)

    def take_back(self, handles: list[Handle]) -> None:
        self._ready += handles

    def _turn(self) -> None:
        if not self._ready:
            if not self._timers:
                raise SimError("deadlock: nothing is scheduled")
            self._now = max(self._now, self._timers[0][0])
            self._standing = 0
        self._standing += 1
        if self._standing > TURNS_STANDING_MAX:
            names = ", ".join(sorted({repr(h) for h in self._ready[:10]}))
            raise SimError(f"time stands still at {self._now:.6f} s: something waits for nothing ({names})")
        while self._timers and self._timers[0][0] <= self._now:
            self._ready.append(heapq.heappop(self._timers)[2])
        turn, self._ready = self._ready, []
        if len(turn) > 1:
            self._rng.shuffle(turn)
        for handle in turn:
            if handle._cancelled:
                continue
            process = handle.process
            if process is not None and (process.dead or process.paused):
                process.hold(handle)
                continue
            self.turns += 1
            try:
                handle.run()
            except Exception as error:
                self.errors.append(error)

    _standing = 0

    def _unwind(self) -> None:
        # Coroutines must end by themselves: one that is merely dropped runs its `finally` in the garbage collector.
        # Which task comes first is not the seed's any more, so what counts is kept as it was.
        errors, turns, now = list(self.errors), self.turns, self._now
        for process in self.processes:
            process._release_for_ever()
        for _ in range(UNWIND_TURNS_MAX):
            left = [task for task in asyncio.all_tasks(self) if not task.done()]
            if not left:
                break
            for task in left:
                task.cancel()
            if not self._ready and not self._timers:
                break
            self._turn()
        self._ready.clear()
        self._timers.clear()
        self.errors, self.turns, self._now = errors, turns, now

    # What asyncio asks of a loop.

    def time(self) -> float:
        return self._now

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Handle:  # type: ignore[override]
        handle = Handle(callback, args, context if context is not None else copy_context())
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        return self.call_at(self._now + max(delay, 0.0), callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        when += self._rng.random() * TIE_S
        handle = Handle(callback, args, context if context is not None else copy_context(), when)
        heapq.heappush(self._timers, (when, next(self._order), handle))
        return handle

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> "asyncio.Task[T]":
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Futures whose failure nobody looked at, told by the garbage collector: at no certain time, so not heard."""
