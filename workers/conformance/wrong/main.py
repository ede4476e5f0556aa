"""A worker that is wrong in one way, to show that the suite sees it: the Python SDK with one of its duties broken.

`python wrong/main.py FAULT`; FAULTS names them, with the cases that must catch each.
"""

import os
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "python" / "conformance"))

import main as program
from rota_sdk import text
from rota_sdk.beats import Beats
from rota_sdk.completions import Completions
from rota_sdk.directives import Directives
from rota_sdk.errors import StaleFence, Unavailable
from rota_sdk.gen.rota.worker.v1 import worker_pb2
from rota_sdk.holdings import Holdings
from rota_sdk.lease import Lease, Stop
from rota_sdk.link import Link
from rota_sdk.poller import Poller
from rota_sdk.worker import Worker

_begin, _call = Link.begin, Link.call


def _before_each(change: Callable[[str, Any], None]) -> None:
    """Changes requests on their way out."""

    def changed(method: str, request: Any) -> Any:
        copy = type(request)()
        copy.CopyFrom(request)
        change(method, copy)
        return copy

    def begin(self: Link, method: str, request: Any, timeout: float, done: Any) -> Any:
        return _begin(self, method, changed(method, request), timeout, done)

    def call(self: Link, method: str, request: Any, timeout: float) -> Any:
        return _call(self, method, changed(method, request), timeout)

    Link.begin, Link.call = begin, call  # type: ignore[method-assign]


def old_fence() -> None:
    def change(method: str, request: Any) -> None:
        for result in request.results if method == "Complete" else ():
            result.fence -= 1

    _before_each(change)


def new_id_for_a_repeated_outcome() -> None:
    def change(method: str, request: Any) -> None:
        for result in request.results if method == "Complete" else ():
            result.request_id = uuid.uuid4().hex

    _before_each(change)


def new_id_for_a_repeated_poll() -> None:
    def change(method: str, request: Any) -> None:
        if method == "Lease":
            request.request_id = uuid.uuid4().hex

    _before_each(change)


def no_acknowledgement() -> None:
    def change(method: str, request: Any) -> None:
        if method == "Lease":
            request.ack_batch = 0

    _before_each(change)


def every_slot_is_free() -> None:
    def change(method: str, request: Any) -> None:
        if method == "Lease":
            request.capacity = 10

    _before_each(change)


def two_polls_at_a_time() -> None:
    def begin(self: Link, method: str, request: Any, timeout: float, done: Any) -> Any:
        if method == "Lease":
            second = worker_pb2.LeaseRequest()
            second.CopyFrom(request)
            second.request_id += "-too"
            _begin(self, method, second, timeout, lambda pending: None)
        return _begin(self, method, request, timeout, done)

    Link.begin = begin  # type: ignore[method-assign]


def polls_while_it_drains() -> None:
    def call(self: Link, method: str, request: Any, timeout: float) -> Any:
        answer = _call(self, method, request, timeout)
        if method == "CloseSession" and request.mode == worker_pb2.CLOSE_MODE_DRAIN:
            time.sleep(0.2)
            poll = worker_pb2.LeaseRequest(session=request.session, request_id="one-more", capacity=1)
            _begin(self, "Lease", poll, timeout, lambda pending: None)
        return answer

    Link.call = call  # type: ignore[method-assign]


def deaf_to_cancel() -> None:
    ask = Lease._ask_to_stop
    Lease._ask_to_stop = lambda self, reason: reason is not Stop.CANCEL and ask(self, reason)  # type: ignore[method-assign]


def deaf_to_loss() -> None:
    ask = Lease._ask_to_stop
    Lease._ask_to_stop = lambda self, reason: reason < Stop.LOST and ask(self, reason)  # type: ignore[method-assign]


def deaf_to_its_run_timeout() -> None:
    ask = Lease._ask_to_stop
    Lease._ask_to_stop = lambda self, reason: reason is not Stop.TIMED_OUT and ask(self, reason)  # type: ignore[method-assign]


def repeats_a_stale_outcome() -> None:
    on_status = Completions._on_status

    def as_if_unavailable(self: Completions, item: Any, error: Any) -> None:
        if isinstance(error, StaleFence):
            error = _unavailable(error)
        on_status(self, item, error)

    Completions._on_status = as_if_unavailable  # type: ignore[method-assign]


def drops_an_outcome_that_was_not_answered() -> None:
    Completions._repeat = lambda self, batch, wait: self._drop(batch)  # type: ignore[method-assign]


def no_beats_while_a_handler_runs() -> None:
    running = threading.Semaphore(0)
    started, beat = program.started, Beats._beat

    def note(lease: Lease) -> None:
        running.release()
        started(lease)

    def beat_when_idle(self: Beats, now: float) -> None:
        if running.acquire(blocking=False):
            running.release()
            # Busy: as a worker whose only event loop the handler holds.
            self._seq += 1
            return
        beat(self, now)

    program.started = note
    Beats._beat = beat_when_idle  # type: ignore[method-assign]


def a_stream_that_ends_ends_the_session() -> None:
    def end(self: Beats, stream: Any, error: Any) -> None:
        self._session.end(Stop.SESSION_GONE, "the stream ended")

    Beats._on_stream_end = end  # type: ignore[method-assign]


def an_unknown_directive_is_a_loss() -> None:
    act = Directives._act

    def lose(self: Directives, directive: Any) -> None:
        if directive.kind not in self._actions:
            directive.kind = worker_pb2.DIRECTIVE_KIND_LOST
        act(self, directive)

    Directives._act = lose  # type: ignore[method-assign]


def acknowledges_no_directive() -> None:
    Directives.handle = lambda self, directives: [self._act(each) for each in directives] and None  # type: ignore


def runs_a_grant_twice() -> None:
    add = Holdings.add

    def all_are_new(self: Holdings, poller: int, batch: int, leases: Any) -> list[Lease]:
        leases = list(leases)
        add(self, poller, batch, leases)
        return leases

    Holdings.add = all_are_new  # type: ignore[method-assign]


def leaves_at_once_on_a_signal() -> None:
    Worker._on_signal = lambda self: os._exit(0)  # type: ignore[method-assign]


def raw_texts() -> None:
    text.clean = lambda words, most: words  # type: ignore[assignment]


def polls_without_a_pause() -> None:
    Poller._pause = lambda self, until=None: not self._stopping  # type: ignore[method-assign]


def _unavailable(error: Any) -> Any:
    import grpc

    same = Unavailable.__new__(Unavailable)
    same.__dict__.update(error.__dict__)
    same.code = grpc.StatusCode.UNAVAILABLE
    same.retry_after = 0.01
    return same


FAULTS: dict[Callable[[], None], str] = {
    old_fence: "runs-a-job",
    new_id_for_a_repeated_outcome: "a-completion-of-unknown-fate-is-repeated",
    new_id_for_a_repeated_poll: "the-same-poll-after-unknown",
    no_acknowledgement: "every-batch-is-acknowledged",
    every_slot_is_free: "capacity-is-what-is-free",
    two_polls_at_a_time: "an-empty-poll-is-followed-by-another",
    polls_while_it_drains: "sigterm-lets-running-jobs-finish",
    deaf_to_cancel: "cancel-stops-a-handler-that-heeds-it",
    deaf_to_loss: "a-lost-lease-stops-its-handler",
    deaf_to_its_run_timeout: "a-handler-is-stopped-at-its-run-timeout",
    repeats_a_stale_outcome: "a-stale-fence-is-final",
    drops_an_outcome_that_was_not_answered: "a-completion-of-unknown-fate-is-repeated",
    no_beats_while_a_handler_runs: "beats-leave-while-a-thread-blocks",
    a_stream_that_ends_ends_the_session: "a-stream-that-ends-well-is-opened-again",
    an_unknown_directive_is_a_loss: "unknown-directives-are-ignored",
    acknowledges_no_directive: "directives-are-acknowledged",
    runs_a_grant_twice: "a-lease-that-comes-twice-runs-once",
    leaves_at_once_on_a_signal: "sigterm-lets-running-jobs-finish",
    raw_texts: "an-error-text-of-ten-megabytes",
    polls_without_a_pause: "next-poll-after-is-kept",
}

if __name__ == "__main__":
    next(fault for fault in FAULTS if fault.__name__ == sys.argv[1])()
    code = program.main()
    sys.stdout.flush()
    os._exit(code)
