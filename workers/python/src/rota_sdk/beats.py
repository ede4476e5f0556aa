"""The signs of life of a session.

One thread keeps the time of everything that must happen whatever handlers do: beats, the session's TTL, run timeouts.
It never blocks on the network: a stream has its own threads, and unary beats are begun and answered elsewhere.
Beats go over the stream while it carries, else one by one.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import grpc

from rota_sdk import codec, limits
from rota_sdk.backoff import Backoff
from rota_sdk.errors import NotFound, NotImplementedByServer, RotaError, transient
from rota_sdk.gen.rota.worker.v1 import worker_pb2
from rota_sdk.lease import Stop
from rota_sdk.link import Link, Pending
from rota_sdk.session import Session
from rota_sdk.slots import Slots
from rota_sdk.stream import BeatStream

log = logging.getLogger("rota_sdk.beats")

_NEVER: Final = float("inf")


@dataclass(frozen=True, slots=True)
class _Sent:
    at: float
    acked: tuple[int, ...]
    inventory: int


class Beats:
    """Keeps a session alive until told to stop."""

    def __init__(
        self,
        session: Session,
        link: Link,
        slots: Slots,
        on_lost: Callable[[str, int], None],
        on_directives: Callable[[Iterable[worker_pb2.Directive]], None],
        check_deadlines: Callable[[float], None],
    ) -> None:
        self._session = session
        self._link = link
        self._slots = slots
        self._on_lost = on_lost
        self._on_directives = on_directives
        self._check_deadlines = check_deadlines
        self._cond = threading.Condition()
        self._stopping = False
        self._urgent = False
        self._seq = 0
        self._sent: dict[int, _Sent] = {}
        self._acks: dict[int, None] = {}
        # Full inventories are numbered: wanted, and the newest that was answered.
        self._inventory_wanted = 0
        self._inventory_answered = 0
        self._prove_at = _NEVER
        self._wake_at = _NEVER
        # An answer that takes longer than this is not worth waiting for.
        self._patience = min(session.beat_interval, session.ttl / 5)
        self._stream: BeatStream | None = None
        self._stream_at = time.monotonic()
        self._stream_opened = 0.0
        self._streams: list[BeatStream] = []
        self._stream_quick = 0
        self._stream_backoff = Backoff(limits.STREAM_BACKOFF_FIRST_S, limits.STREAM_BACKOFF_MOST_S)
        self._retry_at = _NEVER
        self._retry_backoff = Backoff(limits.BACKOFF_FIRST_S, limits.BACKOFF_MOST_S)
        self._renew_at = 0.0
        self._renew_backoff = Backoff(limits.RENEW_INTERVAL_S, limits.RENEW_INTERVAL_MOST_S)
        self._thread = threading.Thread(target=self._run, name="rota-beats", daemon=True)

    def start(self) -> None:
        """Begins with a hello."""
        self._thread.start()

    def stop(self) -> None:
        """No further beats; cuts the stream."""
        with self._cond:
            self._stopping = True
            self._cond.notify()

    def join(self, timeout: float) -> bool:
        """Waits for all threads; whether they ended."""
        until = time.monotonic() + timeout
        self._thread.join(timeout)
        ended = [s.join(max(0.0, until - time.monotonic())) for s in self._streams]
        return all(ended) and not self._thread.is_alive()

    def acknowledge(self, directives: Iterable[int]) -> None:
        """These are carried out: said in a beat at once, and again until that beat is answered."""
        with self._cond:
            self._acks.update(dict.fromkeys(directives))
            self._hurry()

    def tell_inventory(self) -> None:
        """Sends a full inventory with a beat at once, and again until it is answered."""
        with self._cond:
            self._inventory_wanted += 1
            self._hurry()

    def prove_soon(self, needed: bool) -> None:
        """A batch must be proven received, well within its delivery TTL; or its proof is on the way."""
        with self._cond:
            if self._session.holdings.next_deadline < self._wake_at:
                self._cond.notify()
            if not needed:
                self._prove_at = _NEVER
            elif self._prove_at == _NEVER:
                # No notify: the thread looks often enough by itself, and batches are many.
                # In time for coordinators that ask after three tenths.
                self._prove_at = time.monotonic() + self._session.delivery_ttl / 5

    def reconnect(self) -> None:
        """The link is new: opens a stream on it at once, with the inventory."""
        with self._cond:
            stream, self._stream = self._stream, None
            self._sent.clear()
            self._stream_at = time.monotonic()
            self._stream_quick = 0
            self._cond.notify()
        if stream is not None:
            stream.close()

    def _hurry(self) -> None:
        self._urgent = True
        self._cond.notify()

    def _run(self) -> None:
        session = self._session
        last_at = time.monotonic()
        try:
            while True:
                now = time.monotonic()
                life_at = session.check_life(now)
                self._check_deadlines(now)
                with self._cond:
                    if self._stopping or session.ended is not None:
                        return
                    if now >= self._prove_at:
                        self._prove_at = _NEVER
                        self._inventory_wanted += 1
                        self._urgent = True
                    silent = self._is_silent(now)
                    due = self._urgent and now >= last_at + limits.BEAT_SPACING_S
                    due = due or silent is not None or now >= min(self._retry_at, last_at + session.beat_interval)
                    if due:
                        self._urgent, self._retry_at = False, _NEVER
                if silent is not None:
                    silent.close()
                if self._stream is None and now >= self._stream_at:
                    self._open_stream(now)
                if due:
                    last_at = now
                    self._beat(now)
                with self._cond:
                    self._wake_at = min(
                        last_at + (limits.BEAT_SPACING_S if self._urgent else session.beat_interval),
                        life_at,
                        # Read with the lock, or a batch that came since the check would wait.
                        session.holdings.next_deadline,
                        self._prove_at,
                        self._retry_at,
                        self._silent_at(),
                        self._stream_at if self._stream is None else _NEVER,
                        now + session.delivery_ttl / 10,
                    )
                    if not self._stopping:
                        self._cond.wait(max(0.0, self._wake_at - time.monotonic()))
        except Exception as error:
            log.exception("beats failed")
            session.end(Stop.SESSION_GONE, f"beats failed: {type(error).__name__}")
        finally:
            with self._cond:
                stream, self._stream = self._stream, None
                self._stopping = True
            if stream is not None:
                stream.close()

    def _silent_at(self) -> float:
        """With the lock: when the stream's oldest unanswered beat runs out of patience."""
        if self._stream is None or not self._sent:
            return _NEVER
        return min(sent.at for sent in self._sent.values()) + self._patience

    def _is_silent(self, now: float) -> BeatStream | None:
        """With the lock: the stream, given up, if it swallows beats."""
        if now < self._silent_at():
            return None
        stream, self._stream = self._stream, None
        log.warning("%s: the heartbeat stream does not answer; going on with single beats", self._session.name)
        self._sent.clear()
        self._stream_at = now + self._stream_backoff.next()
        return stream

    def _open_stream(self, now: float) -> None:
        hello = worker_pb2.Hello(session=self._session.name)
        with self._cond:
            inventory = self._inventory_wanted = self._inventory_wanted + 1
        hello.inventory.CopyFrom(self._session.holdings.inventory())
        stream = BeatStream(self._link, hello, self._on_message, self._on_stream_end)
        with self._cond:
            self._sent[0] = _Sent(now, (), inventory)
            self._stream = stream
            self._stream_opened = now
            self._streams = [s for s in self._streams if not s.join(0)]
            self._streams.append(stream)
        try:
            stream.start()
        except RotaError as error:
            self._on_stream_end(stream, error)

    def _beat(self, now: float) -> None:
        session = self._session
        with self._cond:
            self._seq += 1
            seq = self._seq
            acks = tuple(self._acks)
            wanted = self._inventory_wanted
            full = wanted > self._inventory_answered
            stream = self._stream if self._stream is not None and self._stream.live else None
            sent = _Sent(now, acks, wanted if full else 0)
            if stream is not None:
                self._sent[seq] = sent
        beat = worker_pb2.Beat(
            seq=seq,
            free_slots=max(0, self._slots.free),
            progress=session.take_notes(),
            acked_directives=acks,
            inventory=session.holdings.inventory() if full else None,
        )
        if stream is not None:
            stream.send(beat)
        else:
            self._send_alone(beat, sent)

    def _send_alone(self, beat: worker_pb2.Beat, sent: _Sent) -> None:
        request = worker_pb2.SendHeartbeatRequest(session=self._session.name, beat=beat)

        def done(pending: Pending) -> None:
            try:
                ack = self._link.answer(pending).ack
            except RotaError as error:
                self._on_lone_failure(error)
            else:
                self._on_ack(ack, sent)

        try:
            self._link.begin("SendHeartbeat", request, self._patience, done)
        except RotaError as error:
            self._on_lone_failure(error)

    def _on_lone_failure(self, error: RotaError) -> None:
        if self._stopping or self._is_gone(error):
            return
        log.warning("%s: beat: %s", self._session.name, error)
        now = time.monotonic()
        with self._cond:
            if transient(error):
                self._retry_at = now + self._retry_backoff.next(error.retry_after)
                self._cond.notify()
            # Rarer each time: the coordinator may be slow instead of unreachable.
            renew = error.code is grpc.StatusCode.DEADLINE_EXCEEDED and now >= self._renew_at
            if renew:
                self._renew_at = now + self._renew_backoff.next()
        if renew and self._link.renew("beats are not answered"):
            self.reconnect()

    def _is_gone(self, error: RotaError) -> bool:
        # The session is the only resource that these calls name.
        if isinstance(error, NotFound):
            self._session.end(Stop.SESSION_GONE, error.message)
            return True
        return False

    def _on_message(self, stream: BeatStream, message: worker_pb2.HeartbeatResponse) -> None:
        kind = message.WhichOneof("message")
        if kind == "ack":
            with self._cond:
                if stream is not self._stream and self._stream is not None:
                    return
                sent = self._sent.pop(message.ack.seq, None)
                stream.live = True
            self._on_ack(message.ack, sent)
        elif kind == "directive":
            self._on_directives([message.directive])
        else:
            log.warning("%s: a message of unknown kind ignored", self._session.name)

    def _on_ack(self, ack: worker_pb2.BeatAck, sent: _Sent | None) -> None:
        if sent is not None:
            self._session.renew(sent.at, codec.span(ack, "renewed_for") or self._session.ttl)
            with self._cond:
                self._retry_backoff.reset()
                self._renew_backoff.reset()
                self._inventory_answered = max(self._inventory_answered, sent.inventory)
                for number in sent.acked:
                    self._acks.pop(number, None)
        for held in ack.lost:
            self._on_lost(held.job, held.fence)
        if ack.directives:
            self._on_directives(ack.directives)

    def _on_stream_end(self, stream: BeatStream, error: RotaError | None) -> None:
        if error is not None and self._is_gone(error):
            return
        with self._cond:
            if self._stopping or stream is not self._stream:
                return
            self._stream = None
            self._sent.clear()
            now = time.monotonic()
            if stream.live and now - self._stream_opened >= self._session.beat_interval:
                self._stream_backoff.reset()
                self._stream_quick = 0
            if stream.live and self._stream_quick == 0:
                self._stream_at = now
            else:
                # Refused, or cut again and again: single beats until the next try.
                self._stream_at = now + self._stream_backoff.next()
                self._urgent = True
            self._stream_quick += 1
            if isinstance(error, NotImplementedByServer):
                self._stream_at = _NEVER
            self._cond.notify()
        log.info("%s: heartbeat stream ended: %s", self._session.name, error or "by the coordinator")
