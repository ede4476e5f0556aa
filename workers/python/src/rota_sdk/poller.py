"""Asks for jobs: one call at a time, only as many as there are free slots."""

import logging
import random
import threading
import time
from collections.abc import Callable

import grpc

from rota_sdk import codec, limits
from rota_sdk.backoff import Backoff
from rota_sdk.errors import RotaError, SessionGone, transient
from rota_sdk.gen.rota.worker.v1 import worker_pb2
from rota_sdk.lease import Lease, Stop
from rota_sdk.link import Link, Pending
from rota_sdk.session import Session
from rota_sdk.slots import Slots

log = logging.getLogger("rota_sdk.poller")

POLLER = 0


class Poller:
    """One thread with at most one Lease call in flight.

    A call whose answer is missing is repeated as it was, request_id included, so that grants made for it arrive
    after all: at its deadline, or when the coordinator says that it has answered. Every call acknowledges the batch
    before.
    """

    def __init__(
        self,
        session: Session,
        link: Link,
        slots: Slots,
        start: Callable[[list[Lease]], None],
        on_directives: Callable[[list[worker_pb2.Directive]], None],
        prove_soon: Callable[[bool], None],
    ) -> None:
        self._session = session
        self._link = link
        self._slots = slots
        self._start = start
        self._on_directives = on_directives
        # True: a batch waits for its acknowledgement, which a beat must carry if no poll does; False: one is sent.
        self._prove_soon = prove_soon
        self._comfortable = max(1, min(slots.total // 4, limits.LEASE_JOBS))
        self._ack_batch = 0
        self._not_before = 0.0
        self._slow_until = 0.0
        self._backoff = Backoff(limits.BACKOFF_FIRST_S, limits.BACKOFF_MOST_S)
        self._wake = threading.Event()
        self._stopping = False
        self._abandoned = False
        self._overdue = False
        self._thread = threading.Thread(target=self._run, name="rota-poller", daemon=True)

    def start(self) -> None:
        """Begins to poll."""
        self._thread.start()

    def slow_down(self) -> None:
        """The coordinator has too much to do: for a while polls are further apart."""
        now = time.monotonic()
        self._slow_until = now + limits.SLOW_DOWN_FOR_S
        self._not_before = max(self._not_before, now + _slow_pause())

    def stop(self) -> None:
        """No further polls. The one in flight may still be answered; `abandon` cuts it off."""
        self._stopping = True
        self._wake.set()

    def repeat(self) -> None:
        """The answer to the call in flight may be lost: makes the call again, at once."""
        self._overdue = True
        self._wake.set()

    def abandon(self) -> None:
        """Cancels the call in flight too."""
        self._abandoned = True
        self.stop()

    def join(self, timeout: float) -> bool:
        """Waits for the thread's end; whether it came."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while (free := self._wait_for_slots()) > 0 and self._pause():
                self._poll(free)
        except Exception as error:
            # Without polls the worker would look alive and do nothing; a new session starts afresh.
            log.exception("the poller failed")
            self._session.end(Stop.SESSION_GONE, f"the poller failed: {type(error).__name__}")
        finally:
            self._slots.when_free(0, None)

    def _wait_for_slots(self) -> int:
        """Free slots to ask for; 0 when no poll shall follow.

        With few of many slots free it lingers for a moment: under load a small poll would be followed at once by
        another one.
        """
        linger_until: float | None = None
        while not self._stopping:
            free = self._slots.free
            if free >= self._comfortable:
                return min(free, limits.LEASE_JOBS)
            self._wake.clear()
            timeout = None
            if free > 0:
                now = time.monotonic()
                linger_until = linger_until or now + limits.SLOT_LINGER_S
                timeout = linger_until - now
                if timeout <= 0:
                    return free
            else:
                linger_until = None
            if self._stopping or self._slots.when_free(self._comfortable if free > 0 else 1, self._wake.set):
                continue
            self._wake.wait(timeout)
        return 0

    def _pause(self, until: float | None = None) -> bool:
        """Waits as the coordinator asked; False when no poll shall follow."""
        while not self._stopping:
            left = (until or self._not_before) - time.monotonic()
            if left <= 0:
                return True
            self._wake.clear()
            if not self._stopping:
                self._wake.wait(left)
        return False

    def _poll(self, free: int) -> None:
        session = self._session
        # Jitter, so that idle workers do not come back in the same instant.
        wait = session.wait * random.uniform(0.8, 1.0)
        request = worker_pb2.LeaseRequest(
            session=session.name,
            poller=POLLER,
            request_id=session.next_request_id(),
            ack_batch=self._ack_batch,
            capacity=free,
            max_bytes=limits.SEND_BYTES,
            wait=codec.duration(wait),
        )
        while not self._stopping:
            self._prove_soon(False)
            self._overdue = False
            try:
                pending = self._link.begin(
                    "Lease", request, wait + limits.LEASE_ANSWER_GRACE_S, lambda _: self._wake.set()
                )
                self._wait_for(pending)
                response: worker_pb2.LeaseResponse = self._link.answer(pending)
            except RotaError as error:
                if self._ack_batch:
                    self._prove_soon(True)
                if self._overdue and error.code is grpc.StatusCode.CANCELLED and not self._stopping:
                    continue
                if not self._retry(error):
                    return
                continue
            self._backoff.reset()
            self._receive(response, time.monotonic())
            return

    def _wait_for(self, pending: Pending) -> None:
        while not pending.done():
            if self._abandoned or self._overdue:
                pending.cancel()
            self._wake.clear()
            # Looked at again after clearing: a wake in between must not be lost.
            if not pending.done() and not self._abandoned and not self._overdue:
                self._wake.wait()

    def _retry(self, error: RotaError) -> bool:
        """Whether to repeat the very same call, after the wait that it deserves."""
        if self._stopping:
            return False
        if isinstance(error, SessionGone):
            self._session.end(Stop.SESSION_GONE, error.message)
            self._stopping = True
            return False
        same = transient(error)
        level = logging.DEBUG if same and error.code is not grpc.StatusCode.RESOURCE_EXHAUSTED else logging.WARNING
        log.log(level, "%s: Lease: %s", self._session.name, error)
        wait = self._backoff.next(error.retry_after)
        if error.code is grpc.StatusCode.UNAVAILABLE:
            wait = max(min(wait, limits.CONNECT_BACKOFF_MOST_S), error.retry_after or 0.0)
        if not same:
            # An answer, and not one that a quick repetition changes.
            wait = max(wait, limits.SLOW_DOWN_S)
        return self._pause(time.monotonic() + wait) and same

    def _receive(self, response: worker_pb2.LeaseResponse, now: float) -> None:
        session = self._session
        if response.leases:
            leases = [Lease(message, session, now) for message in response.leases]
            leases = session.holdings.add(POLLER, response.batch, leases)
            self._slots.take(len(leases))
            self._ack_batch = response.batch or self._ack_batch
            self._prove_soon(True)
            self._start(leases)
        if response.leases and not response.HasField("next_poll_after"):
            # A coordinator that has still too much to do would not leave that out.
            self._slow_until = 0.0
        if now < self._slow_until:
            self._not_before = max(self._not_before, now + _slow_pause())
        if response.HasField("next_poll_after"):
            self._not_before = max(self._not_before, now + (codec.span(response, "next_poll_after") or 0.0))
        if response.directives:
            self._on_directives(list(response.directives))


def _slow_pause() -> float:
    # Jitter, for workers that were told in the same instant.
    return limits.SLOW_DOWN_S * random.uniform(0.8, 1.2)
