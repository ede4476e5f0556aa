"""Spans of one job and its attempts."""

import random
from typing import Any

from opentelemetry.trace import NoOpTracer, Span, Tracer

from rota.domain.ids import uuid7
from rota.telemetry import Telemetry, Traces

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"
CREATED = 1_800_000_000.0
JOB = uuid7(int(CREATED * 1000), 7)


def tracing(telemetry: Telemetry) -> Traces:
    assert telemetry.traces is not None
    return telemetry.traces


def create(traces: Traces, parent: str = "", state: str = "") -> tuple[str, str]:
    return traces.create(parent=parent, state=state, job_id=JOB, type="greet", queue="mail", tenant="acme")


def lease(traces: Traces, parent: str, **changed: Any) -> str:
    given: dict[str, Any] = {
        "state": "",
        "job_id": JOB,
        "type": "greet",
        "queue": "mail",
        "attempt": 1,
        "fence": 77,
        "session_id": "s-1",
        "due": CREATED + 10,
        "leased": CREATED + 11,
    }
    return traces.lease(parent=parent, **(given | changed))


def complete(traces: Traces, parent: str, outcome: str = "SUCCEEDED", state: str = "SUCCEEDED", **more: Any) -> None:
    given: dict[str, Any] = {"job_id": JOB, "type": "greet", "attempt": 1, "fence": 77}
    traces.complete(parent=parent, outcome=outcome, state=state, **(given | more))


class Traced(NoOpTracer):
    """Counts the spans asked for, and makes none."""

    def __init__(self) -> None:
        self.asked = 0

    def start_span(self, *arguments: Any, **more: Any) -> Span:
        self.asked += 1
        return super().start_span(*arguments, **more)


class Broken(NoOpTracer):
    def start_span(self, *arguments: Any, **more: Any) -> Span:
        raise RuntimeError("broken")


def traces_with(tracer: Tracer, ratio: float = 1.0) -> Traces:
    return Traces(tracer, ratio, random.Random(1))
