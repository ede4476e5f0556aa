"""What happened in a world, in order: each committed change of the store, what crossed the wire, and what was broken.

It is written by the store, the network, workers and the target, never by the code under test. The checks read nothing
else, and two runs of one seed must write the same.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rota.domain import limits
from rota.domain.schedule import Definition


@dataclass(slots=True)
class Event:
    """`at` is virtual seconds, `db_us` what the database's clock said."""

    index: int
    at: float
    db_us: int
    kind: str
    facts: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.facts[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.facts.get(name, default)

    def __str__(self) -> str:
        facts = " ".join(f"{name}={_short(name, value)}" for name, value in self.facts.items())
        return f"{self.index:5d} {self.at:9.4f} {self.kind:<12} {facts}"


class History:
    def __init__(self, time: Callable[[], float], now_us: Callable[[], int]) -> None:
        self.events: list[Event] = []
        self.closed = False
        """What happens while the loop is taken down is nobody's, and in no order of the seed's."""
        self._time = time
        self._now_us = now_us
        self._by_kind: dict[str, list[Event]] = {}
        self._by_job: dict[str, list[Event]] = {}

    def note(self, kind: str, **facts: Any) -> None:
        if self.closed:
            return
        event = Event(len(self.events), self._time(), self._now_us(), kind, facts)
        self.events.append(event)
        self._by_kind.setdefault(kind, []).append(event)
        if "job" in facts:
            self._by_job.setdefault(facts["job"], []).append(event)

    def mark(self) -> int:
        """A place to which `forget` may go back."""
        return len(self.events)

    def forget(self, mark: int) -> None:
        """Takes back what was noted since: its transaction did not commit."""
        for event in reversed(self.events[mark:]):
            self._by_kind[event.kind].pop()
            if "job" in event.facts:
                self._by_job[event["job"]].pop()
        del self.events[mark:]

    def of(self, *kinds: str) -> list[Event]:
        """Events of some kinds, in order."""
        if len(kinds) == 1:
            return self._by_kind.get(kinds[0], [])
        return sorted((event for kind in kinds for event in self._by_kind.get(kind, ())), key=lambda e: e.index)

    def by_job(self) -> Iterator[tuple[str, list[Event]]]:
        """Each job that was ever named, with its events in order."""
        yield from self._by_job.items()

    def job(self, job: str) -> list[Event]:
        return self._by_job.get(job, [])


def fence_text(fence: int) -> str:
    return f"{fence >> limits.FENCE_COUNTER_BITS}:{fence & (1 << limits.FENCE_COUNTER_BITS) - 1}"


def _short(name: str, value: Any) -> str:
    if name == "fence" and value is not None:
        return fence_text(value)
    if name == "leases":
        return "[" + " ".join(f"{_short('job', job)}/{fence_text(fence)}" for job, fence in value) + "]"
    if isinstance(value, str) and len(value) == 36 and value.count("-") == 4:
        return value[-6:]
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, datetime):
        return f"{value:%M:%S.%f}"
    if isinstance(value, Definition):
        timing, overlap, missed = value.timing, value.overlap, value.missed
        return f"({timing.kind.name} {timing.expression or timing.every_s}, {overlap.mode.name}, {missed.mode.name})"
    if isinstance(value, tuple):
        return "(" + " ".join(_short("", each) for each in value) + ")"
    if hasattr(value, "name") and hasattr(value, "value"):
        return str(value.name)
    return str(value)
