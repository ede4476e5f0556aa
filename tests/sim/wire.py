"""What lies between the parties: the way to the database and back, and calls from workers and clients to coordinators.

Both carry a request out, let it happen at the other side whatever has become of the sender, and bring the answer back,
if it comes. A process is paused here, between what it has checked and what it does about it.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from rota.domain.errors import Internal, OutcomeUnknown, RotaError, Unavailable
from rota.store.scheduleport import Unwritable

from .fake_store import UniqueViolation
from .faults import Fate, Faults
from .history import History
from .loop import Process, SimLoop

T = TypeVar("T")

IMPATIENT_LANES = {"terms": 3.0}
"""Seconds after which a lane gives a statement up, as in `rota.store.engine`; the others wait for longer than a world
ever stalls."""

CANCEL_DELAY_S = 0.005

CONVERSATIONS = frozenset({"transact", "fire_held"})
"""Transactions of several statements: each is sent when the one before was answered, so a process that is paused goes
on with them later, and one that is dead never does."""


class Link:
    """The connections of one process to the database: a `fake_store.Call`."""

    def __init__(self, loop: SimLoop, process: Process, faults: Faults, history: History) -> None:
        self._loop = loop
        self._process = process
        self._faults = faults
        self._history = history

    async def __call__(self, name: str, work: Callable[[], T], *, lane: str, write: bool) -> T:
        await pause_here(self._process, self._faults, self._history, name)
        fate = self._faults.fate(name, write)
        answer: asyncio.Future[T] = self._loop.create_future()
        there_s = self._faults.store_latency_s(name)
        self._loop.call_later(there_s, self._arrive, name, work, write, fate, answer, context=self._loop.outside)
        deadline_s = IMPATIENT_LANES.get(lane)
        if deadline_s is not None and there_s > deadline_s / 2:
            self._loop.call_later(deadline_s, self._fail, answer, _lost(write), context=self._loop.outside)
        try:
            return await answer
        finally:
            await pause_here(self._process, self._faults, self._history, f"the answer to {name}")

    def _arrive(self, name: str, work: Callable[[], T], write: bool, fate: Fate, answer: "asyncio.Future[T]") -> None:
        if name in CONVERSATIONS and self._process.stopped:
            self._process.call_soon(self._arrive, name, work, write, fate, answer)
            return
        if name in CONVERSATIONS and fate is Fate.LATE:
            fate = Fate.ANSWER_LOST
        if self._faults.database_down or self._process.name in self._faults.without_database:
            fate = Fate.NEVER if write and fate is Fate.DONE else Fate.REFUSED
        if fate is Fate.REFUSED:
            self._history.note("refused", by=self._process, statement=name)
            self._fail(answer, Unavailable("PostgreSQL refused for now"))
            return
        if fate is Fate.DONE:
            try:
                result = work()
            except (RotaError, UniqueViolation, Unwritable) as refusal:
                self._later(self._fail, answer, refusal)
            else:
                self._later(self._answer, answer, result)
            return
        self._history.note("unknown", by=self._process, statement=name, fate=fate)
        if fate is Fate.ANSWER_LOST:
            _try(work)
        elif fate is Fate.LATE:
            self._loop.call_later(self._faults.late_s(), _try, work, context=self._loop.outside)
        self._later(self._fail, answer, _lost(write))

    def _later(self, callback: Callable[..., None], *args: Any) -> None:
        self._loop.call_later(self._faults.store_latency_s(), callback, *args, context=self._loop.outside)

    @staticmethod
    def _answer(answer: "asyncio.Future[T]", result: T) -> None:
        if not answer.done():
            answer.set_result(result)

    @staticmethod
    def _fail(answer: "asyncio.Future[T]", error: Exception) -> None:
        if not answer.done():
            answer.set_exception(error)


class Server(Protocol):
    """Whoever answers calls. `process` None: nobody listens."""

    name: str

    @property
    def process(self) -> Process | None: ...

    def serve(self, method: str, request: dict[str, Any], left_s: float) -> Coroutine[Any, Any, Any]: ...


class NoAnswer(Exception):
    """The caller has waited long enough, or the connection broke: anything may have happened."""


class _Exchange:
    """One call under way: the caller's future, and what it has started at the server."""

    __slots__ = ("answer", "handlers", "process", "until")

    def __init__(self, answer: "asyncio.Future[Any]", until: float) -> None:
        self.answer = answer
        self.until = until
        self.process: Process | None = None
        self.handlers: list[asyncio.Task[Any]] = []


class Network:
    def __init__(self, loop: SimLoop, faults: Faults, history: History) -> None:
        self._loop = loop
        self._faults = faults
        self._history = history
        self._open: dict[int, _Exchange] = {}
        self._numbers = 0
        self.describe: Callable[[str, dict[str, Any], Any], dict[str, Any] | None] = lambda *_: None
        """What the history keeps of an answer; None: nothing."""

    async def call(
        self,
        server: Server,
        method: str,
        timeout_s: float,
        *,
        patience_s: float | None = None,
        copies_max: int = 2,
        **request: Any,
    ) -> Any:
        """The server's answer, its refusal as a RotaError, or NoAnswer. Giving up cancels the call over there: at the
        deadline, which the server knows, or when the caller's patience ends, which it does not."""
        exchange = _Exchange(self._loop.create_future(), self._loop.time() + timeout_s)
        self._numbers += 1
        number = self._numbers
        self._open[number] = exchange
        for delay_s in self._faults.deliveries()[:copies_max]:
            self._loop.call_later(delay_s, self._arrive, exchange, server, method, request, context=self._loop.outside)
        wait_s = timeout_s if patience_s is None else min(patience_s, timeout_s)
        timer = self._loop.call_later(wait_s, _give_up, exchange.answer, context=self._loop.outside)
        try:
            return await exchange.answer
        finally:
            timer.cancel()
            self._open.pop(number, None)
            if exchange.answer.cancelled() or isinstance(exchange.answer.exception(), NoAnswer):
                self._loop.call_later(CANCEL_DELAY_S, self._cancel, exchange, context=self._loop.outside)

    def break_connections(self, process: Process, told: bool) -> None:
        """A process died. Its machine may say so to those who wait for it, or be gone as well."""
        for exchange in list(self._open.values()):
            if exchange.process is process and told:
                self._loop.call_later(CANCEL_DELAY_S, _give_up, exchange.answer, context=self._loop.outside)

    def _arrive(self, exchange: _Exchange, server: Server, method: str, request: dict[str, Any]) -> None:
        if server.name in self._faults.unreachable:
            return
        process = server.process
        if process is None:
            self._answered(exchange, Unavailable(f"{server.name} does not listen"))
            return
        exchange.process = process
        left_s = exchange.until - self._loop.time()
        if left_s <= 0:
            return
        exchange.handlers.append(
            process.spawn(self._handle(exchange, server, method, request, left_s), name=f"serve {method}")
        )

    async def _handle(
        self, exchange: _Exchange, server: Server, method: str, request: dict[str, Any], left_s: float
    ) -> None:
        result: Any
        try:
            result = await server.serve(method, request, left_s)
        except RotaError as refusal:
            result = refusal
        except Exception as error:
            self._history.note("bug", method=method, error=f"{type(error).__name__}: {error}")
            result = Internal(str(error))
        if isinstance(result, Internal):
            self._history.note("bug", method=method, error=result.message)
        delay_s = self._faults.answer_delay_s()
        if server.name in self._faults.unreachable:
            delay_s = None
        facts = self.describe(method, request, result)
        if facts is not None:
            arrives = delay_s is not None and not exchange.answer.done()
            self._history.note("answering" if arrives else "answer lost", method=method, **facts)
        if delay_s is not None:
            self._loop.call_later(delay_s, self._answered, exchange, result, context=self._loop.outside)

    @staticmethod
    def _answered(exchange: _Exchange, result: Any) -> None:
        if exchange.answer.done():
            return
        if isinstance(result, RotaError):
            exchange.answer.set_exception(result)
        else:
            exchange.answer.set_result(result)

    @staticmethod
    def _cancel(exchange: _Exchange) -> None:
        for handler in exchange.handlers:
            handler.cancel()


async def pause_here(process: Process, faults: Faults, history: History, before: str) -> None:
    """A place between a check and the act that trusts it: sometimes the process stops here for seconds."""
    seconds = faults.pause_s(before)
    if seconds:
        history.note("paused", process=process, seconds=seconds, before=before)
        process.pause(seconds)
        await asyncio.sleep(0)


def _give_up(answer: "asyncio.Future[Any]") -> None:
    if not answer.done():
        answer.set_exception(NoAnswer())


def _lost(write: bool) -> RotaError:
    return (OutcomeUnknown if write else Unavailable)("the connection to PostgreSQL was lost")


def _try(work: Callable[[], object]) -> None:
    try:
        work()
    except (RotaError, UniqueViolation, Unwritable):
        # Refused, and nobody is there to hear it.
        return
