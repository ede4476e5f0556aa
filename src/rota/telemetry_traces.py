"""One trace per job: created → leased → run (the worker's) → completed, by W3C Trace Context kept in the job.

Whether a job is traced is decided once, at its creation: by its creator's sampled flag, else by the ratio. From there
on the flag in the traceparent decides, read by its place in the text, so that a job that is not traced costs a look at
one character and no call of OpenTelemetry.
"""

import logging
import random
import re
from collections.abc import Mapping
from typing import Final

from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    TraceState,
    set_span_in_context,
)

from rota import telemetry_names as names

_log: Final = logging.getLogger(__name__)

_TRACEPARENT: Final = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_LENGTH: Final = 55
_FLAG_AT: Final = 54
_SAMPLED: Final = "13579bdf"
"""The last digit of the flags when their lowest bit, sampled, is set."""

_ERROR_OUTCOMES: Final = frozenset({"failed", "lease_lost", "timed_out"})
_ERROR_STATES: Final = frozenset({"dead", "expired"})


class Traces:
    """Makes the coordinator's spans. No method raises, whatever the contexts from outside hold."""

    def __init__(self, tracer: Tracer, ratio: float, rng: random.Random) -> None:
        self._tracer = tracer
        self._ratio = ratio
        self._rng = rng
        self._failed = False

    def create(self, *, parent: str, state: str, job_id: str, type: str, queue: str, tenant: str) -> tuple[str, str]:
        """The traceparent and tracestate that a new job keeps.

        `parent` and `state` are the creator's; an invalid parent counts as none. Not sampled: the creator's own context
        unchanged, or two empty texts.
        """
        found = parse(parent, state)
        if found is None:
            if not self._rng.random() < self._ratio:
                return "", ""
        elif not found.trace_flags.sampled:
            return parent, state
        attributes: dict[str, str] = {
            names.SYSTEM: names.SYSTEM_ROTA,
            names.OPERATION_TYPE: "create",
            names.OPERATION_NAME: "create",
            names.QUEUE: queue,
            names.JOB_ID: job_id,
            names.JOB_TYPE: type,
            names.TENANT: tenant,
        }
        context = self._span(names.SPAN_CREATE, SpanKind.PRODUCER, found, attributes)
        if context is None or not context.is_valid:
            return (parent, state) if found else ("", "")
        return _format(context), context.trace_state.to_header()

    def fire(self, *, origin: str, job_id: str, type: str, queue: str, schedule: str) -> str:
        """The traceparent of an occurrence's job: a trace of its own, linked to the schedule's creation. Empty when it
        is not sampled."""
        if not self._rng.random() < self._ratio:
            return ""
        created = parse(origin, "")
        attributes: dict[str, str | int] = {
            names.SYSTEM: names.SYSTEM_ROTA,
            names.OPERATION_TYPE: "create",
            names.OPERATION_NAME: "fire",
            names.QUEUE: queue,
            names.JOB_ID: job_id,
            names.JOB_TYPE: type,
            names.SCHEDULE: schedule,
        }
        links = (Link(created),) if created is not None else ()
        context = self._span(names.SPAN_FIRE, SpanKind.PRODUCER, None, attributes, links=links)
        return _format(context) if context is not None and context.is_valid else ""

    def lease(
        self,
        *,
        parent: str,
        state: str,
        job_id: str,
        type: str,
        queue: str,
        attempt: int,
        fence: int,
        session_id: str,
        due: float,
        leased: float,
    ) -> str:
        """The traceparent that goes to the worker. `parent` and `state` are the job's; times are seconds since 1970.

        Not sampled: `parent` unchanged, and no span.
        """
        if len(parent) < _LENGTH or parent[_FLAG_AT] not in _SAMPLED:
            return parent
        created = parse(parent, state)
        if created is None:
            return parent
        attributes: dict[str, str | int] = {
            names.SYSTEM: names.SYSTEM_ROTA,
            names.OPERATION_TYPE: "receive",
            names.OPERATION_NAME: "lease",
            names.QUEUE: queue,
            names.JOB_ID: job_id,
            names.JOB_TYPE: type,
            names.ATTEMPT: attempt,
            names.FENCE: fence,
            names.SESSION: session_id,
        }
        # A job may be due long before it was created; it waits from its creation only.
        start = min(max(due, _created(job_id)), leased)
        context = self._span(
            names.SPAN_LEASE,
            SpanKind.INTERNAL,
            created,
            attributes,
            links=(Link(created, {names.ATTEMPT: attempt}),) if attempt > 1 else (),
            times=(start, leased),
        )
        return parent if context is None else _format(context)

    def complete(
        self,
        *,
        parent: str,
        job_id: str,
        type: str,
        attempt: int | None,
        fence: int,
        outcome: str,
        state: str,
        error_type: str = "",
        duplicate: bool = False,
    ) -> None:
        """An attempt ended. `parent` is the context of the worker's result, or the job's when the server ended it.

        `outcome` and `state` (the job's afterwards, or the reason of a refusal) are names of their enums, in either
        case; a job that ended without an attempt has no outcome. What is empty is left out. The span is an error when
        `error_type` says so, the attempt failed or was lost, or the job is dead or expired.
        """
        if len(parent) < _LENGTH or parent[_FLAG_AT] not in _SAMPLED:
            return
        ran = parse(parent, "")
        if ran is None:
            return
        outcome, state = outcome.lower(), state.lower()
        error = error_type
        if not error and (outcome in _ERROR_OUTCOMES or state in _ERROR_STATES):
            error = outcome or state
        attributes: dict[str, str | int | None] = {
            names.SYSTEM: names.SYSTEM_ROTA,
            names.OPERATION_TYPE: "settle",
            names.OPERATION_NAME: "complete",
            names.JOB_ID: job_id,
            names.JOB_TYPE: type,
            names.ATTEMPT: attempt,
            names.FENCE: fence,
            names.OUTCOME: outcome,
            names.JOB_STATE: state,
            names.DUPLICATE: duplicate or None,
            names.ERROR_TYPE: error,
        }
        known = {name: value for name, value in attributes.items() if value is not None and value != ""}
        self._span(names.SPAN_COMPLETE, SpanKind.INTERNAL, ran, known, error=error)

    def _span(
        self,
        name: str,
        kind: SpanKind,
        parent: SpanContext | None,
        attributes: Mapping[str, str | int],
        *,
        links: tuple[Link, ...] = (),
        times: tuple[float, float] | None = None,
        error: str = "",
    ) -> SpanContext | None:
        """Makes a whole span and gives its context; without `times` it is of this instant. None: it failed."""
        try:
            context = Context()
            if parent is not None:
                context = set_span_in_context(NonRecordingSpan(parent), context)
            start, end = (int(times[0] * 1e9), int(times[1] * 1e9)) if times else (None, None)
            span = self._tracer.start_span(name, context, kind, attributes, links, start)
            if error:
                span.set_status(Status(StatusCode.ERROR, error))
            span.end(end)
            return span.get_span_context()
        except Exception:
            # The job goes on, whatever becomes of its trace; and what fails once fails for every job.
            if not self._failed:
                self._failed = True
                _log.warning("a span %s could not be made; further failures are not logged", name, exc_info=True)
            return None


def parse(parent: str, state: str) -> SpanContext | None:
    """A W3C traceparent and tracestate as a remote context; None when there is none, or it is invalid."""
    found = _TRACEPARENT.fullmatch(parent)
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if more and version == "00":
        return None
    context = SpanContext(
        int(trace_id, 16),
        int(span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(int(flags, 16)),
        trace_state=TraceState.from_header([state]) if state else None,
    )
    return context if context.is_valid else None


def _format(context: SpanContext) -> str:
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def _created(job_id: str) -> float:
    """When a job was created, in seconds since 1970: a UUIDv7 begins with it."""
    try:
        return int(job_id[:8] + job_id[9:13], 16) / 1000
    except ValueError:
        return 0.0
