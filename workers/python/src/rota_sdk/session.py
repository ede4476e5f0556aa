"""One session: its identity and timing, what it holds, and whether it lives."""

import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from rota_sdk import codec, limits
from rota_sdk.backoff import Backoff
from rota_sdk.errors import RotaError, transient
from rota_sdk.gen.rota.worker.v1 import worker_pb2
from rota_sdk.holdings import Holdings
from rota_sdk.lease import Lease, Stop
from rota_sdk.link import Link
from rota_sdk.outcome import Outcome
from rota_sdk.version import PROTOCOL, SDK

log = logging.getLogger("rota_sdk.session")

# Without an answered beat for this part of the TTL, handlers are warned.
_AT_RISK: Final = 2 / 3


@dataclass(frozen=True, slots=True)
class Identity:
    """What a worker says of itself when it opens a session."""

    worker: str
    build_id: str
    queues: tuple[str, ...]
    types: tuple[str, ...]
    slots: int
    labels: Mapping[str, str]

    def request(self, request_id: str) -> worker_pb2.OpenSessionRequest:
        """The wish for a session; one request_id for each session wished for."""
        return worker_pb2.OpenSessionRequest(
            worker=self.worker,
            sdk=SDK,
            build_id=self.build_id,
            queues=self.queues,
            types=self.types,
            slots=self.slots,
            labels=self.labels,
            protocol_version=PROTOCOL,
            request_id=request_id,
        )


class Session:
    """A session from its opening to its end.

    It lives until `alive_until`, which only an answered beat moves on, counted from the instant of sending: the
    coordinator, which counts from receipt, never ends it earlier.
    """

    def __init__(self, answer: worker_pb2.OpenSessionResponse, sent_at: float, on_end: Callable[[], None]) -> None:
        self.name = answer.session
        self.epoch = answer.epoch
        self.ttl = codec.span(answer, "lease_ttl") or limits.LEASE_TTL_S
        self.delivery_ttl = codec.span(answer, "delivery_ttl") or limits.DELIVERY_TTL_S
        # A server's mistake must not make beats rarer than the TTL can bear.
        self.beat_interval = min(codec.span(answer, "beat_interval") or limits.BEAT_INTERVAL_S, self.ttl / 3)
        self.wait = min(codec.span(answer, "max_wait") or limits.LEASE_WAIT_S, limits.LEASE_WAIT_S)
        self.max_results = min(answer.max_results or limits.RESULTS_PER_CALL, limits.RESULTS_PER_CALL)
        self.protocol = min(answer.protocol_version or PROTOCOL, PROTOCOL)
        self.holdings = Holdings()
        self.at_risk = False
        # No handler starts any more; what was not started is given back.
        self.draining = False
        self.ended: Stop | None = None
        self.complete: Callable[[list[Outcome]], None] = _nowhere
        self.call: Callable[[str, Message, float], Any] = _nobody
        self._on_end = on_end
        self._lock = threading.Lock()
        self._notes: dict[tuple[str, int], str] = {}
        self._request_ids = itertools.count(1)
        self._request_prefix = self.name.removeprefix("sessions/") + "-"
        self._renewed_at = sent_at
        self.alive_until = sent_at + self.ttl
        self._risk_at = sent_at + self.ttl * _AT_RISK

    def next_request_id(self) -> str:
        """Unique among all sessions, for one logical call or outcome."""
        return f"{self._request_prefix}{next(self._request_ids)}"

    def renew(self, sent_at: float, span: float) -> None:
        """A beat sent at `sent_at` was answered with `span` seconds of life."""
        with self._lock:
            # Answers may overtake each other; the latest beat says what holds.
            if self.ended is not None or sent_at < self._renewed_at:
                return
            self._renewed_at = sent_at
            self.alive_until = sent_at + span
            self._risk_at = sent_at + span * _AT_RISK
            recovered, self.at_risk = self.at_risk, False
        if recovered:
            log.info("%s: beats are answered again", self.name)

    def check_life(self, now: float) -> float:
        """Warns and ends as time demands; returns the next instant to look again."""
        if now >= self.alive_until:
            self.end(Stop.EXPIRED, f"no beat was answered for {self.ttl:g} s")
            return float("inf")
        if now < self._risk_at:
            return self._risk_at
        with self._lock:
            warn, self.at_risk = not self.at_risk, True
        if warn:
            left = self.alive_until - now
            log.warning(
                "%s: no beat is answered; in %.1f s its %d leases are lost", self.name, left, len(self.holdings)
            )
        return self.alive_until

    def end(self, why: Stop, words: str) -> None:
        """The session is no more, and so are its leases. Only the first call counts."""
        with self._lock:
            if self.ended is not None:
                return
            self.ended = why
        log.warning("%s ended (%s): %s", self.name, why.name.lower(), words)
        self._on_end()

    def note(self, lease: Lease, note: str) -> None:
        """Keeps the latest progress note of a lease for the next beat."""
        with self._lock:
            self._notes[lease.job, lease.fence] = note

    def take_notes(self) -> list[worker_pb2.Progress]:
        """Notes to send now; what does not fit into one beat waits for the next."""
        with self._lock:
            keys = list(itertools.islice(self._notes, limits.BEAT_NOTES))
            return [worker_pb2.Progress(job=k[0], fence=k[1], note=self._notes.pop(k)) for k in keys]


def _nowhere(outcomes: list[Outcome]) -> None:
    raise AssertionError("a session was used before it was set up")


def _nobody(method: str, request: Message, timeout: float) -> Any:
    raise AssertionError("a session was used before it was set up")


def open_session(
    link: Link, identity: Identity, request_id: str, stop: threading.Event, on_end: Callable[[], None]
) -> Session | None:
    """Opens a session, trying until an answer arrives; None when `stop` was set first.

    Raises RotaError when the coordinator refuses: a repetition would not help.
    """
    request = identity.request(request_id)
    done = threading.Event()
    backoff = Backoff(limits.BACKOFF_FIRST_S, limits.BACKOFF_MOST_S)
    failures = 0
    while not stop.is_set():
        sent_at = time.monotonic()
        done.clear()
        try:
            pending = link.begin("OpenSession", request, limits.CONNECT_TIMEOUT_S, lambda _: done.set())
            while not done.wait(0.1):
                if stop.is_set():
                    pending.cancel()
            session = Session(link.answer(pending), sent_at, on_end)
        except RotaError as error:
            if stop.is_set():
                return None
            if not transient(error):
                raise
            if error.code is grpc.StatusCode.DEADLINE_EXCEEDED:
                link.renew("no session within the time of a call")
            failures += 1
            log.log(logging.WARNING if failures in (1, 10) else logging.DEBUG, "no session yet: %s", error)
            stop.wait(backoff.next(error.retry_after))
            continue
        log.info("%s opened, epoch %d, TTL %g s", session.name, session.epoch, session.ttl)
        return session
    return None


def close_session(link: Link, session: Session, mode: worker_pb2.CloseMode, timeout: float) -> bool:
    """Tells the coordinator; False when it could not be told, in which case the TTL does the rest."""
    request = worker_pb2.CloseSessionRequest(session=session.name, mode=mode)
    try:
        link.call("CloseSession", request, timeout)
    except RotaError as error:
        log.warning("%s: close was not answered: %s", session.name, error)
        return False
    return True
