"""The life of a worker: sessions one after the other, and an orderly end.

One thread conducts. It opens a session, gives it a crew (poller, beats, completions), and waits. A session that ends
takes its leases along and is followed by a new one; a stop drains: no new jobs, unstarted ones go back at once,
running ones finish, their outcomes are answered, the session is closed. Beats go on until then.
"""

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping

from rota_sdk import limits, outcome
from rota_sdk.backoff import Backoff
from rota_sdk.beats import Beats
from rota_sdk.channel import Endpoint
from rota_sdk.completions import Completions
from rota_sdk.counters import Counters
from rota_sdk.deadlines import Deadlines
from rota_sdk.directives import Directives
from rota_sdk.gen.rota.worker.v1 import worker_pb2
from rota_sdk.lease import Lease, Stop
from rota_sdk.link import Link
from rota_sdk.poller import Poller
from rota_sdk.runner import Handler, Runner
from rota_sdk.session import Identity, Session, close_session, open_session
from rota_sdk.slots import Slots

log = logging.getLogger("rota_sdk.worker")


class Crew:
    """The threads of one session."""

    def __init__(self, engine: "Engine", session: Session, link: Link) -> None:
        self.session = session

        def lose(job: str, fence: int) -> None:
            lease = session.holdings.take(job, fence)
            if lease is not None:
                engine.lose([lease], Stop.LOST)

        def cancel(directive: worker_pb2.Directive) -> None:
            lease = session.holdings.find(directive.job, directive.fence)
            if lease is not None:
                engine.runner.stop(lease, Stop.CANCEL)

        def resync() -> None:
            self.beats.tell_inventory()
            self.poller.repeat()

        def give_up(lease: Lease) -> None:
            # A job that still waits for the event loop has not failed.
            waits = outcome.released(lease, "it could not be started in time", None)
            if not engine.runner.withdraw(lease, waits):
                engine.runner.give_up(lease, outcome.timed_out(lease))

        kind = worker_pb2.DirectiveKind
        self.directives = Directives(
            {
                kind.DIRECTIVE_KIND_CANCEL: cancel,
                kind.DIRECTIVE_KIND_LOST: lambda d: lose(d.job, d.fence),
                kind.DIRECTIVE_KIND_DRAIN: lambda d: engine.stop(),
                kind.DIRECTIVE_KIND_RECONNECT: lambda d: self.reconnect(link, d.reason),
                kind.DIRECTIVE_KIND_SLOW_DOWN: lambda d: self.poller.slow_down(),
                kind.DIRECTIVE_KIND_RESYNC: lambda d: resync(),
            },
            lambda ids: self.beats.acknowledge(ids),
        )
        deadlines = Deadlines(session.holdings, engine.runner.stop, give_up)
        self.completions = Completions(session, link, engine.slots, engine.counters, lose)
        self.beats = Beats(session, link, engine.slots, lose, self.directives.handle, deadlines.check)
        self.poller = Poller(
            session, link, engine.slots, engine.start_leases, self.directives.handle, self.beats.prove_soon
        )
        session.complete = self.completions.put
        session.call = link.call

    def start(self) -> None:
        """Beats first."""
        self.beats.start()
        self.completions.start()
        self.poller.start()

    def reconnect(self, link: Link, reason: str) -> None:
        """Goes over to another coordinator; leases stay valid."""
        if link.renew(reason or "asked for by the coordinator"):
            self.beats.reconnect()

    def dismiss(self) -> None:
        """Ends all threads; `join` waits for them."""
        self.poller.abandon()
        self.beats.stop()
        self.completions.stop()

    def join(self, timeout: float) -> bool:
        """Whether all threads ended."""
        until = time.monotonic() + timeout
        parts: list[Callable[[float], bool]] = [self.poller.join, self.beats.join, self.completions.join]
        # Each is waited for, also after one that did not end.
        ended = [join(max(0.0, until - time.monotonic())) for join in parts]
        return all(ended)


class Engine:
    """Runs until stopped, by the caller or by a DRAIN of the coordinator's."""

    def __init__(
        self,
        endpoint: Endpoint,
        identity: Identity,
        handlers: Mapping[str, Handler],
        loop: asyncio.AbstractEventLoop,
        counters: Counters,
        drain_timeout: float,
        unwind_timeout: float,
    ) -> None:
        self.slots = Slots(identity.slots)
        self.counters = counters
        self.runner = Runner(handlers, self.slots, loop, counters)
        self._endpoint = endpoint
        self._identity = identity
        self._drain_timeout = drain_timeout
        self._unwind_timeout = unwind_timeout
        self._stopping = threading.Event()
        self._at_once = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rota-worker", daemon=True)
        self._on_exit: Callable[[BaseException | None], None] = lambda _: None

    def start(self, on_exit: Callable[[BaseException | None], None]) -> None:
        """Begins; `on_exit` is called from the engine's thread when all is done, with the error that ended it."""
        self._on_exit = on_exit
        self._thread.start()

    def stop(self, *, at_once: bool = False) -> None:
        """Drains and ends; `at_once`: without waiting for handlers. From any thread, again if need be."""
        self._at_once = self._at_once or at_once
        self._stopping.set()
        self._wake.set()

    def join(self, timeout: float) -> bool:
        """Waits for the thread's end; whether it came."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def start_leases(self, leases: list[Lease]) -> None:
        """Fresh leases, from the poller."""
        self.counters.add("leased", len(leases))
        self.runner.start(leases)

    def lose(self, leases: list[Lease], why: Stop) -> None:
        """Leases that are gone: their handlers stop, their outcomes are dropped."""
        if leases:
            self.counters.add("lost", len(leases))
            log.warning("%d leases lost (%s), first %r", len(leases), why.name.lower(), leases[0])
        for lease in leases:
            self.runner.stop(lease, why)

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            link = Link(self._endpoint)
            try:
                self._conduct(link)
            finally:
                link.close()
                if not self.runner.close(self._patience(limits.UNWIND_TIMEOUT_S)):
                    log.warning("leaving although %d handlers have not returned", self.slots.used)
        except BaseException as failure:
            error = failure
        self._on_exit(error)

    def _conduct(self, link: Link) -> None:
        dismissed: list[Crew] = []
        backoff = Backoff(limits.BACKOFF_FIRST_S, limits.BACKOFF_MOST_S)
        try:
            while not self._stopping.is_set():
                session = open_session(link, self._identity, uuid.uuid4().hex, self._stopping, self._wake.set)
                if session is None:
                    return
                self.counters.add("sessions")
                opened_at = time.monotonic()
                crew = Crew(self, session, link)
                crew.start()
                dismissed.append(crew)
                self._wait(lambda: self._stopping.is_set() or session.ended is not None)  # noqa: B023
                if session.ended is None:
                    self._drain(crew, link)
                crew.dismiss()
                if session.ended is not None:
                    self.lose(session.holdings.take_all(), session.ended)
                if time.monotonic() - opened_at > session.ttl:
                    backoff.reset()
                elif session.ended is not None:
                    self._stopping.wait(backoff.next())
                dismissed = [c for c in dismissed if not c.join(0)]
        finally:
            for crew in dismissed:
                crew.dismiss()
            # Cancels what the threads may still wait for.
            link.close()
            for crew in dismissed:
                if not crew.join(limits.CLOSE_TIMEOUT_S):
                    log.error("threads of %s have not ended", crew.session.name)

    def _wait(self, until: Callable[[], bool], timeout: float | None = None) -> bool:
        """Waits for a condition whose changes set `_wake`; whether it came true."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            self._wake.clear()
            if until():
                return True
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return False
            self._wake.wait(left)

    def _drain(self, crew: Crew, link: Link) -> None:
        session, runner, slots = crew.session, self.runner, self.slots
        started = time.monotonic()
        log.info("%s: leaving; %d jobs run", session.name, slots.used)
        session.draining = True
        crew.poller.stop()
        close_session(link, session, worker_pb2.CloseMode.CLOSE_MODE_DRAIN, self._patience(limits.CLOSE_TIMEOUT_S))
        self._give_back_unstarted(session)
        # The coordinator answers the parked poll; what it grants still goes back.
        if not crew.poller.join(self._patience(limits.PARKED_POLL_GRACE_S)):
            crew.poller.abandon()
            crew.poller.join(limits.CLOSE_TIMEOUT_S)
        self._give_back_unstarted(session)
        slots.when_free(slots.total, self._wake.set)
        idle = self._wait(
            lambda: slots.used <= 0 or session.ended is not None or self._at_once,
            max(0.0, self._drain_timeout - (time.monotonic() - started)),
        )
        if session.ended is None and slots.used > 0:
            log.warning("%d handlers have not ended in time and are stopped", slots.used)
            for lease in session.holdings.snapshot():
                runner.stop(lease, Stop.LEAVING)
            slots.when_free(slots.total, self._wake.set)
            if not self._at_once:
                self._wait(lambda: slots.used <= 0 or self._at_once, self._unwind_timeout)
            if self._at_once:
                self._wait(lambda: slots.used <= 0, self._patience(self._unwind_timeout))
            for lease in session.holdings.snapshot():
                if not lease._settled:
                    runner.give_up(lease, outcome.released(lease, "the worker leaves before the handler ended", None))
        # A TTL at least: for so long outcomes are worth something although nobody answers.
        if not crew.completions.flush(self._patience(max(limits.FLUSH_TIMEOUT_S, session.ttl))):
            log.error("%s: leaving with outcomes that were not answered", session.name)
        if session.ended is None:
            close_session(link, session, worker_pb2.CloseMode.CLOSE_MODE_NOW, self._patience(limits.CLOSE_TIMEOUT_S))
        log.info("%s: left after %.1f s, %s", session.name, time.monotonic() - started, "idle" if idle else "cut short")

    def _give_back_unstarted(self, session: Session) -> None:
        for lease in session.holdings.snapshot():
            if not lease._started:
                self.runner.withdraw(lease, outcome.released(lease, "the worker leaves", None))

    def _patience(self, timeout: float) -> float:
        """How long a phase of leaving may take."""
        return min(timeout, limits.AT_ONCE_S) if self._at_once else timeout
