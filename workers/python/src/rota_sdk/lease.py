"""The right to run one attempt, as a handler sees it."""

import json
import threading
import time
from asyncio import Event, Task, TimerHandle, get_running_loop
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from rota_sdk import codec, limits, text
from rota_sdk.effects import REDRIVE, effect_headers
from rota_sdk.gen.rota.v1 import jobs_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2
from rota_sdk.model import EffectState, NewJob, Payload, Span
from rota_sdk.outcome import Cancelled

if TYPE_CHECKING:
    from rota_sdk.session import Session


class Stop(IntEnum):
    """Why a handler is asked to stop, the gravest last. From LOST on its outcome is worthless and dropped."""

    TIMED_OUT = 1  # it ran longer than its run timeout
    LEAVING = 2  # the worker leaves and waits no longer
    CANCEL = 3  # somebody cancelled the job
    LOST = 4  # the coordinator says that the lease is gone
    EXPIRED = 5  # no beat was answered for the session's TTL
    SESSION_GONE = 6  # the session ended


class _State(IntEnum):
    QUEUED = 0
    RUNNING = 1
    SETTLED = 2  # the outcome is decided: whatever the handler does after it is dropped


class Lease:
    """One grant: what to do, the proof that one may (the fence), and how long.

    Handlers get one as their only argument. All its methods may be called from any thread.
    """

    __slots__ = (
        "_effects",
        "_message",
        "_open_effects",
        "_receipts",
        "_received_at",
        "_run_until",
        "_session",
        "_spawned",
        "_state",
        "_stop",
        "_task",
        "_watchers",
        "attempt",
        "fence",
        "job",
        "type",
    )

    # Held for a few instructions only: one lock for all leases costs less than one for each.
    _lock = threading.Lock()

    def __init__(self, message: worker_pb2.Lease, session: "Session", received_at: float) -> None:
        self._message = message
        self._session = session
        self._received_at = received_at
        self._stop: Stop | None = None
        self._state = _State.QUEUED
        self._task: Task[None] | None = None
        self._watchers: list[Callable[[], None]] | None = None
        self._spawned: list[jobs_pb2.CreateJobRequest] | None = None
        self._receipts: list[tuple[str, str]] | None = None
        self._effects: dict[str, EffectState] | None = None
        self._open_effects: set[str] | None = None
        self.job: str = message.job
        self.fence: int = message.fence
        self.type: str = message.type
        self.attempt: int = message.attempt
        timeout = message.run_timeout
        span = timeout.seconds + timeout.nanos / 1e9
        # Counted from receipt: the request may have been parked for long before the grant.
        self._run_until = received_at + span if span else float("inf")

    def __repr__(self) -> str:
        return f"<Lease {self.type} {self.job} attempt {self.attempt} fence {self.fence}>"

    @property
    def id(self) -> str:
        """The job's id."""
        return self.job.removeprefix("jobs/")

    @property
    def queue(self) -> str:
        """Where the job came from."""
        return self._message.queue

    @property
    def payload(self) -> Payload:
        """The handler's input."""
        return codec.payload(self._message.payload)

    @property
    def data(self) -> bytes:
        """The payload's bytes."""
        return self._message.payload.data

    def text(self) -> str:
        """The payload as UTF-8. Raises UnicodeDecodeError."""
        return self._message.payload.data.decode()

    def json(self) -> Any:
        """The payload as JSON; None when there is none. Raises ValueError."""
        data = self._message.payload.data
        return json.loads(data) if data else None

    @property
    def headers(self) -> dict[str, str]:
        """Named texts beside the payload."""
        return dict(self._message.headers)

    @property
    def effect_key(self) -> str:
        """The idempotency key of the job's effect: equal in all attempts, retries and redrives."""
        return self._message.effect_key

    @property
    def schedule(self) -> str:
        """schedules/{id} that the job comes from; empty: none."""
        return self._message.schedule

    @property
    def nominal_time(self) -> datetime | None:
        """Informative: the instant that the schedule's rule names."""
        return codec.instant(self._message, "nominal_time")

    @property
    def due_time(self) -> datetime | None:
        """Informative: when the job became due."""
        return codec.instant(self._message, "due_time")

    @property
    def priority(self) -> int:
        """0 to 9, 9 first."""
        return self._message.priority

    @property
    def max_attempts(self) -> int:
        """The most attempts that count."""
        return self._message.max_attempts

    @property
    def attempts_counted(self) -> int:
        """Attempts that counted before this one."""
        return self._message.attempts_counted

    @property
    def traceparent(self) -> str:
        """W3C trace context of the grant; empty when it has none."""
        return self._message.traceparent

    @property
    def session(self) -> str:
        """sessions/{id} that holds the lease."""
        return self._session.name

    def remaining(self) -> float:
        """Seconds until the run timeout or the job's deadline, whichever is first; never negative, perhaps inf."""
        until = self._run_until
        deadline = codec.span(self._message, "deadline")
        if deadline is not None:
            until = min(until, self._received_at + deadline)
        return max(0.0, until - time.monotonic())

    @property
    def at_risk(self) -> bool:
        """No beat was answered for two thirds of the session's TTL: at its end the attempt is aborted."""
        return self._session.at_risk

    @property
    def stop_reason(self) -> Stop | None:
        """Why the handler is asked to stop; None: it is not."""
        return self._stop

    @property
    def cancelled(self) -> bool:
        """The handler is asked to stop, for whichever reason. Its own success still wins where it can."""
        return self._stop is not None

    def raise_if_cancelled(self) -> None:
        """Raises Cancelled once the handler is asked to stop."""
        if self._stop is not None:
            raise Cancelled(self._stop.name.lower())

    def wait_cancelled(self, timeout: float | None = None) -> bool:
        """Blocks the thread until the handler is asked to stop, at most `timeout` seconds; whether it is.

        For handlers in threads, instead of time.sleep. Raises RuntimeError on an event loop, which it would block.
        """
        if _on_loop():
            raise RuntimeError("wait_cancelled blocks the event loop; use `await lease.until_cancelled(timeout)`")
        stopped = threading.Event()
        if self._watch(stopped.set):
            return True
        try:
            stopped.wait(timeout)
        finally:
            self._unwatch(stopped.set)
        return self._stop is not None

    async def until_cancelled(self, timeout: float | None = None) -> bool:
        """Waits until the handler is asked to stop, at most `timeout` seconds; whether it is.

        On a worker that interrupts async handlers (the default) the wait ends by asyncio.CancelledError.
        """
        loop = get_running_loop()
        stopped = Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(stopped.set)

        if self._watch(wake):
            return True
        timer: TimerHandle | None = loop.call_later(timeout, stopped.set) if timeout is not None else None
        try:
            await stopped.wait()
        finally:
            self._unwatch(wake)
            if timer is not None:
                timer.cancel()
        return self._stop is not None

    def progress(self, note: str) -> None:
        """Tells people how far it is, with the next beat; only the latest note is sent, cut at 1 KiB."""
        self._session.note(self, text.clean(note, limits.NOTE_BYTES))

    @property
    def deadline(self) -> float | None:
        """Seconds from now beyond which no further attempt is made; None: there is no such bound."""
        span = codec.span(self._message, "deadline")
        return None if span is None else max(0.0, self._received_at + span - time.monotonic())

    def effect_headers(self, *, window: Span | None = None, redrive: Span = REDRIVE) -> dict[str, str]:
        """HTTP headers for a target that honours idempotency keys: Idempotency-Key and Rota-Fence.

        Warns when the target forgets keys after a `window` in which the job may still be tried or redriven.
        """
        return effect_headers(self, window=window, redrive=redrive)

    def spawn(self, job: NewJob) -> None:
        """Creates a job in the transaction of this one's success; nothing when it does not succeed.

        Raises ValueError beyond 100 jobs, TypeError or ValueError when its payload has no form in bytes.
        """
        spawned = self._spawned = self._spawned or []
        if len(spawned) >= limits.SPAWNED_JOBS:
            raise ValueError(f"expected at most {limits.SPAWNED_JOBS} spawned jobs; create more with a Client")
        spawned.append(codec.create_request(job))

    def receipt(self, reference: str, effect_key: str = "") -> None:
        """Keeps with the attempt what a target answered, for example a payment id. Raises ValueError beyond 16."""
        receipts = self._receipts = self._receipts or []
        if len(receipts) >= limits.RECEIPTS:
            raise ValueError(f"expected at most {limits.RECEIPTS} receipts, found one more")
        receipts.append((effect_key or self.effect_key, text.clean(reference, limits.RECEIPT_BYTES)))

    def _open_effect(self, key: str) -> None:
        with self._lock:
            opened = self._open_effects = self._open_effects or set()
            if key in opened:
                raise RuntimeError(f"effects.ledger: {key!r} is open already in this attempt; one block for an effect")
            opened.add(key)

    def _close_effect(self, key: str) -> None:
        with self._lock:
            if self._open_effects is not None:
                self._open_effects.discard(key)

    def _note_effect(self, key: str, state: EffectState) -> None:
        with self._lock:
            self._effects = {**(self._effects or {}), key: state}

    @property
    def _effect_state(self) -> EffectState:
        """What the ledger's blocks say of the attempt as a whole: a doubt about one effect is a doubt."""
        known = (self._effects or {}).values()
        if self._open_effects or EffectState.UNKNOWN in known:
            return EffectState.UNKNOWN
        return EffectState.APPLIED if EffectState.APPLIED in known else max(known, default=EffectState.UNSPECIFIED)

    def _ask_to_stop(self, reason: Stop) -> bool:
        """Records why, wakes who waits; False when the handler had been asked for a reason as grave."""
        with self._lock:
            if self._stop is not None and self._stop >= reason:
                return False
            self._stop = reason
            watchers, self._watchers = self._watchers, None
        for wake in watchers or ():
            wake()
        return True

    def _begin(self) -> bool:
        """Whether the handler may start: once, and not after the outcome was decided."""
        with self._lock:
            if self._state != _State.QUEUED:
                return False
            self._state = _State.RUNNING
            return True

    def _settle(self, *, unstarted: bool = False) -> bool:
        """Claims the right to decide the outcome, which only the first caller gets."""
        with self._lock:
            if self._state == _State.SETTLED or (unstarted and self._state != _State.QUEUED):
                return False
            self._state = _State.SETTLED
            return True

    @property
    def _started(self) -> bool:
        return self._state != _State.QUEUED

    @property
    def _settled(self) -> bool:
        return self._state == _State.SETTLED

    @property
    def _worthless(self) -> bool:
        return self._stop is not None and self._stop >= Stop.LOST

    def _watch(self, wake: Callable[[], None]) -> bool:
        with self._lock:
            if self._stop is not None:
                return True
            self._watchers = [*(self._watchers or ()), wake]
            return False

    def _unwatch(self, wake: Callable[[], None]) -> None:
        with self._lock:
            if self._watchers is not None:
                self._watchers = [w for w in self._watchers if w != wake]


def _on_loop() -> bool:
    try:
        get_running_loop()
    except RuntimeError:
        return False
    return True
