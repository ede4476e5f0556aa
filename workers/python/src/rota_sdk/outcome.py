"""How an attempt ends: what handlers raise to say so, and the Result that tells the coordinator."""

import asyncio
import traceback
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal

from rota_sdk import codec, limits, text
from rota_sdk.gen.rota.v1 import common_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2
from rota_sdk.model import EffectState, Payload, Span, seconds

if TYPE_CHECKING:
    from rota_sdk.lease import Lease

Kind = Literal["succeeded", "failed", "released", "cancelled"]

# Failure types that the SDK itself gives.
TIMED_OUT: Final = "TimedOut"
RESULT_TOO_LARGE: Final = "ResultTooLarge"
RESULT_NOT_SERIALIZABLE: Final = "ResultNotSerializable"
OUTCOME_REJECTED: Final = "OutcomeRejected"
NO_HANDLER: Final = "no handler for this type"

_PACKAGE: Final = str(Path(__file__).parent)


class Retry(Exception):
    """Failed; try again, not before `after`, at most 1 h. Raised `from` another, it takes its type and message."""

    def __init__(self, message: str = "", *, after: Span | None = None, type: str = "") -> None:
        super().__init__(message)
        self.after = after
        self.type = type


class Fatal(Exception):
    """Failed for good: no retry, whatever the policy says. `type` classifies it; default `Fatal`."""

    def __init__(self, message: str = "", *, type: str = "") -> None:
        super().__init__(message)
        self.type = type


class Failed(Exception):
    """Failed, told in terms of the work instead of this program's: `type`, message and `stack` as they are given.

    The retry policy decides unless `retryable` does; not before `after`, at most 1 h. `effect`: what is known of it.
    """

    def __init__(
        self,
        message: str,
        *,
        type: str,
        stack: str = "",
        retryable: bool | None = None,
        after: Span | None = None,
        effect: EffectState = EffectState.UNSPECIFIED,
    ) -> None:
        super().__init__(message)
        self.type = type
        self.stack = stack
        self.retryable = retryable
        self.after = after
        self.effect = effect


class EffectUnknown(Exception):
    """Failed, and nobody knows whether the effect was applied, for example because the target did not answer."""

    def __init__(self, message: str = "", *, after: Span | None = None, type: str = "") -> None:
        super().__init__(message)
        self.after = after
        self.type = type


class Release(Exception):
    """Give the job back unfinished, not before `delay`, at most 1 h. Does not count as an attempt."""

    def __init__(self, reason: str = "", *, delay: Span | None = None) -> None:
        super().__init__(reason)
        self.delay = delay


class Cancelled(Exception):
    """The handler stopped because it was asked to."""


class Outcome:
    """One Result on its way, kept with its request_id until it is answered."""

    __slots__ = ("kind", "lease", "rejected", "repeated", "result", "size")

    def __init__(self, lease: "Lease", kind: Kind, result: worker_pb2.Result) -> None:
        self.lease = lease
        self.kind = kind
        self.result = result
        self.size = result.ByteSize() + 8
        self.rejected = False
        self.repeated = 0


def _result(lease: "Lease", traceparent: str) -> worker_pb2.Result:
    result = worker_pb2.Result(job=lease.job, fence=lease.fence, request_id=lease._session.next_request_id())
    if traceparent:
        result.traceparent = traceparent
    if lease._receipts:
        for key, reference in lease._receipts:
            result.effect_receipts.add(effect_key=key, reference=reference)
    return result


def succeeded(lease: "Lease", value: object, traceparent: str = "") -> Outcome:
    """Success with what the handler returned; a failure that says why when it cannot be kept."""
    result = _result(lease, traceparent)
    result.succeeded.SetInParent()
    if value is not None:
        try:
            payload = Payload.of(value)
            size = len(payload.data)
            if size > limits.RESULT_BYTES:
                return _failure(
                    lease,
                    RESULT_TOO_LARGE,
                    f"expected a result of at most {limits.RESULT_BYTES} bytes, found {size}; "
                    "store it elsewhere and return where",
                    traceparent=traceparent,
                    retryable=False,
                )
            result.succeeded.result.data = payload.data
            result.succeeded.result.content_type = payload.content_type
        except Exception as error:
            return _failure(
                lease,
                RESULT_NOT_SERIALIZABLE,
                f"expected None, bytes, str, a Payload or a value with a JSON form, found {type(value).__name__}: "
                f"{_words(error)}",
                traceparent=traceparent,
                retryable=False,
            )
    if lease._spawned:
        result.spawned.extend(lease._spawned)
    outcome = Outcome(lease, "succeeded", result)
    if outcome.size > limits.RESULT_CALL_BYTES:
        return _failure(
            lease,
            RESULT_TOO_LARGE,
            f"expected result and spawned jobs of at most {limits.RESULT_CALL_BYTES} bytes, found {outcome.size}; "
            "create large jobs with a Client",
            traceparent=traceparent,
            retryable=False,
        )
    return outcome


def of_error(lease: "Lease", error: BaseException, traceparent: str = "") -> Outcome:
    """What an exception of the handler means, given why the handler was asked to stop, if it was."""
    if isinstance(error, Release):
        return released(lease, _words(error), error.delay)
    asked = lease.stop_reason.name if lease.stop_reason is not None else ""
    if isinstance(error, Cancelled | asyncio.CancelledError):
        if asked == "CANCEL":
            return cancelled(lease, _words(error), traceparent)
        if asked == "LEAVING":
            return released(lease, "the worker leaves", None)
    stack = error.stack if isinstance(error, Failed) else _stack(error)
    if isinstance(error, Fatal):
        return _failure(lease, error.type or "Fatal", _words(error), stack, traceparent, retryable=False)
    if asked == "TIMED_OUT":
        return timed_out(lease, stack, traceparent)
    if isinstance(error, Failed):
        return _failure(
            lease,
            error.type,
            _words(error),
            stack,
            traceparent,
            retryable=error.retryable,
            retry_after=error.after,
            effect=error.effect,
        )
    if isinstance(error, Retry | EffectUnknown):
        cause = error.__cause__
        named = error.type or type(cause or error).__name__
        words = _words(error) or (_words(cause) if cause is not None else "")
        return _failure(
            lease,
            named,
            words,
            stack,
            traceparent,
            retryable=True if isinstance(error, Retry) else None,
            retry_after=error.after,
            effect=EffectState.UNKNOWN if isinstance(error, EffectUnknown) else EffectState.UNSPECIFIED,
        )
    return _failure(lease, type(error).__name__, _words(error), stack, traceparent)


def timed_out(lease: "Lease", stack: str = "", traceparent: str = "") -> Outcome:
    """The handler ran longer than its run timeout. What it did outside is unknown."""
    timeout = codec.span(lease._message, "run_timeout") or 0.0
    words = f"expected the handler to end within its run timeout of {timeout:g} s"
    return _failure(lease, TIMED_OUT, words, stack, traceparent, retryable=True, effect=EffectState.UNKNOWN)


def released(lease: "Lease", reason: str, delay: Span | None) -> Outcome:
    """Given back; not counted as an attempt."""
    result = _result(lease, "")
    result.released.reason = text.clean(reason, limits.REASON_BYTES)
    if delay is not None:
        result.released.delay.CopyFrom(codec.duration(_within_an_hour(delay)))
    return Outcome(lease, "released", result)


def cancelled(lease: "Lease", reason: str, traceparent: str = "") -> Outcome:
    """Stopped on request."""
    result = _result(lease, traceparent)
    result.cancelled.reason = text.clean(reason, limits.REASON_BYTES)
    return Outcome(lease, "cancelled", result)


def rejected(outcome: Outcome, words: str) -> Outcome:
    """The failure that takes the place of an outcome which the coordinator cannot accept.

    It is another logical outcome, so it has a request_id of its own; nothing of the refused content is in it.
    """
    lease = outcome.lease
    lease._receipts = lease._spawned = None
    failure = _failure(lease, OUTCOME_REJECTED, f"the {outcome.kind} outcome was refused: {words}", retryable=False)
    failure.rejected = True
    return failure


def _failure(
    lease: "Lease",
    kind: str,
    words: str,
    stack: str = "",
    traceparent: str = "",
    *,
    retryable: bool | None = None,
    retry_after: Span | None = None,
    effect: EffectState = EffectState.UNSPECIFIED,
) -> Outcome:
    result = _result(lease, traceparent)
    failed = result.failed
    failed.failure.CopyFrom(
        common_pb2.Failure(
            type=text.clean(kind, limits.FAILURE_TYPE_BYTES),
            message=text.clean(words, limits.FAILURE_MESSAGE_BYTES),
            stack=text.clean(stack, limits.FAILURE_STACK_BYTES),
        )
    )
    if retryable is not None:
        failed.retryable = retryable
    if retry_after is not None:
        failed.retry_after.CopyFrom(codec.duration(_within_an_hour(retry_after)))
    if effect := effect or lease._effect_state:
        failed.effect_state = int(effect)  # type: ignore[assignment]
    return Outcome(lease, "failed", result)


def _within_an_hour(span: Span) -> float:
    return min(max(0.0, seconds(span)), limits.RETRY_AFTER_S)


def _words(error: BaseException) -> str:
    """str(error), which is the user's code and may itself fail."""
    try:
        return str(error)
    except Exception as failure:
        return f"(the text of this {type(error).__name__} cannot be made: {type(failure).__name__})"


def _stack(error: BaseException) -> str:
    """The traceback from the handler's own first frame on."""
    tb: TracebackType | None = error.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        tb = tb.tb_next
    try:
        lines = traceback.format_exception(type(error), error, tb)
    except Exception as failure:
        return f"(the traceback cannot be made: {type(failure).__name__})"
    return "".join(lines)
