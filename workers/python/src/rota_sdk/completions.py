"""Reports outcomes: many in one call, each until it is answered."""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

import grpc

from rota_sdk import errors, limits, outcome
from rota_sdk.backoff import Backoff
from rota_sdk.counters import Counters
from rota_sdk.errors import InvalidArgument, NotFound, ResourceExhausted, RotaError, transient
from rota_sdk.gen.rota.worker.v1 import worker_pb2
from rota_sdk.lease import Lease, Stop
from rota_sdk.link import Link
from rota_sdk.outcome import Outcome
from rota_sdk.session import Session
from rota_sdk.slots import Slots

log = logging.getLogger("rota_sdk.completions")

# Given by gRPC itself, without a word of Rota's, to a request beyond the server's receive limit.
_TOO_LARGE: Final = "larger than max"


class Completions:
    """One thread that sends what handlers came to.

    An outcome is repeated with its own request_id until the coordinator answers for it or its lease is lost. One
    that is refused never holds up the others of its call.
    """

    def __init__(
        self,
        session: Session,
        link: Link,
        slots: Slots,
        counters: Counters,
        on_lost: Callable[[str, int], None],
    ) -> None:
        self._session = session
        self._link = link
        self._slots = slots
        self._counters = counters
        self._on_lost = on_lost
        self._queue: deque[Outcome] = deque()
        # Refused one by one for the moment: each goes again at its own instant and holds up nobody.
        self._later: list[tuple[float, Outcome]] = []
        self._cond = threading.Condition()
        self._unanswered = 0
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._backoff = Backoff(limits.BACKOFF_FIRST_S, limits.BACKOFF_MOST_S)
        self._thread = threading.Thread(target=self._run, name="rota-completions", daemon=True)

    def start(self) -> None:
        """Begins to send."""
        self._thread.start()

    def put(self, outcomes: list[Outcome]) -> None:
        """Takes outcomes, from any thread; never blocks."""
        with self._cond:
            self._unanswered += len(outcomes)
        self._queue.extend(outcomes)
        if not self._wake.is_set():
            self._wake.set()

    def flush(self, timeout: float) -> bool:
        """Waits until everything put so far is answered or dropped; whether it is."""
        with self._cond:
            return self._cond.wait_for(lambda: self._unanswered == 0, timeout)

    def stop(self) -> None:
        """Sends no more; what is left is dropped."""
        self._stop.set()
        self._wake.set()

    def join(self, timeout: float) -> bool:
        """Waits for the thread's end; whether it came."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            if not self._wait():
                continue
            self._linger()
            batch = self._next_batch()
            try:
                self._send(batch)
            except Exception:
                # Nothing that one batch holds may end the reporting of all others.
                log.exception("%d outcomes could not be sent, or their answer not be read", len(batch))
                at = time.monotonic() + limits.SLOW_DOWN_S
                held = self._session.holdings.find
                self._later += [(at, item) for item in batch if held(item.lease.job, item.lease.fence) is item.lease]
        self._drop([*self._queue, *(item for _, item in self._later)])

    def _wait(self) -> bool:
        """Whether there is something to send; waits a while for it."""
        timeout = None
        if self._later:
            now = time.monotonic()
            self._queue.extend(item for at, item in self._later if at <= now)
            self._later = [(at, item) for at, item in self._later if at > now]
            timeout = min((at for at, _ in self._later), default=now) - now
        if self._queue:
            return True
        self._wake.clear()
        if not self._queue and not self._stop.is_set():
            self._wake.wait(timeout)
        return bool(self._queue)

    def _linger(self) -> None:
        """Waits for company while more outcomes are expected and do come: at most 5 ms.

        Looks at steps instead of waking at every outcome, which would cost the handlers more than it gains.
        """
        until = time.monotonic() + limits.OUTCOME_LINGER_S
        seen = 0
        while seen < len(self._queue) < self._session.max_results and self._slots.used > 0:
            if time.monotonic() >= until:
                return
            seen = len(self._queue)
            self._stop.wait(limits.OUTCOME_LINGER_STEP_S)

    def _next_batch(self) -> list[Outcome]:
        batch: list[Outcome] = []
        dropped: list[Outcome] = []
        queue = self._queue
        size = 0
        while queue and len(batch) < self._session.max_results:
            first = queue[0]
            if batch and size + first.size > limits.SEND_BYTES:
                break
            queue.popleft()
            if first.lease._worthless or self._session.ended is not None:
                dropped.append(first)
                continue
            size += first.size
            batch.append(first)
        self._drop(dropped)
        return batch

    def _drop(self, dropped: list[Outcome]) -> None:
        if dropped:
            self._counters.add("dropped", len(dropped))
            log.info("%s: %d outcomes dropped, their leases are lost", self._session.name, len(dropped))
            self._done(len(dropped))

    def _done(self, count: int) -> None:
        with self._cond:
            self._unanswered -= count
            if not self._unanswered:
                self._cond.notify_all()

    def _send(self, batch: list[Outcome]) -> None:
        if not batch:
            return
        request = worker_pb2.CompleteRequest(session=self._session.name)
        request.results.extend([item.result for item in batch])
        try:
            response: worker_pb2.CompleteResponse = self._link.call("Complete", request, limits.COMPLETE_TIMEOUT_S)
        except RotaError as error:
            self._on_refusal(batch, error)
            return
        self._backoff.reset()
        self._settle(batch, response)

    def _on_refusal(self, batch: list[Outcome], error: RotaError) -> None:
        """The call as a whole failed."""
        if isinstance(error, NotFound):
            self._session.end(Stop.SESSION_GONE, error.message)
            self._drop(batch)
        elif isinstance(error, InvalidArgument) or (
            isinstance(error, ResourceExhausted) and _TOO_LARGE in error.message
        ):
            if len(batch) == 1:
                self._reject(batch[0], error)
                return
            # One of them is at fault, and the others must not wait for it.
            half = len(batch) // 2
            self._send(batch[:half])
            self._send(batch[half:])
        else:
            self._counters.add("repeated")
            wait = self._backoff.next(error.retry_after)
            if not transient(error):
                wait = max(wait, limits.SLOW_DOWN_S)
            log.log(
                logging.DEBUG if transient(error) else logging.ERROR,
                "%s: %d outcomes not taken, again in %.2f s: %s",
                self._session.name,
                len(batch),
                wait,
                error,
            )
            self._repeat(batch, wait)

    def _repeat(self, batch: list[Outcome], wait: float) -> None:
        self._queue.extendleft(reversed(batch))
        self._stop.wait(wait)

    def _settle(self, batch: list[Outcome], response: worker_pb2.CompleteResponse) -> None:
        """Each outcome by its own status."""
        statuses = response.statuses
        if len(statuses) != len(batch):
            log.error("expected %d statuses, found %d; the outcomes go again", len(batch), len(statuses))
            self._repeat(batch, self._backoff.next())
            return
        answered: list[Lease] = []
        counts: Counter[str] = Counter()
        for item, status in zip(batch, statuses, strict=True):
            if status.HasField("status") and status.status.code:
                self._on_status(item, errors.from_status(status.status))
                continue
            answered.append(item.lease)
            counts[item.kind] += 1
            if status.duplicate:
                counts["duplicates"] += 1
        self._session.holdings.remove(answered)
        self._counters.add_all(counts)
        self._done(len(answered))

    def _on_status(self, item: Outcome, error: RotaError) -> None:
        if transient(error):
            wait = min(limits.BACKOFF_FIRST_S * 2**item.repeated, limits.BACKOFF_MOST_S)
            item.repeated = min(item.repeated + 1, 16)
            self._later.append((time.monotonic() + max(wait, error.retry_after or 0.0), item))
            self._counters.add("repeated")
        elif isinstance(error, InvalidArgument):
            self._reject(item, error)
        else:
            # Final: a stale fence, another outcome stored, another owner.
            level = logging.INFO if error.code is grpc.StatusCode.ABORTED else logging.ERROR
            log.log(level, "%r: outcome %s refused: %s", item.lease, item.kind, error)
            self._on_lost(item.lease.job, item.lease.fence)
            self._drop([item])

    def _reject(self, item: Outcome, error: RotaError) -> None:
        """A content that the coordinator cannot take: the attempt fails, and says why."""
        self._counters.add("rejected")
        log.error("%r: outcome %s refused: %s", item.lease, item.kind, error)
        if item.rejected:
            # Even the plain failure is refused. The coordinator ends the attempt at its run timeout.
            self._session.holdings.remove([item.lease])
            self._drop([item])
        else:
            self.put([outcome.rejected(item, str(error))])
            self._done(1)
