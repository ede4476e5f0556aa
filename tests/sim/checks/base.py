"""What the rules have in common."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..history import Event
from ..world import Outcome as Seed

ENDINGS = ("succeeded", "requeued", "finished", "buried")

Found = Iterator[tuple[str, Event | None]]


@dataclass(frozen=True, slots=True)
class Violation:
    rule: str
    text: str
    at: Event | None = None


Found = Iterator[tuple[str, Event | None]]


def latest_us(seed: Seed) -> list[int]:
    """The latest that the database's clock had said by each event."""
    return list(itertools.accumulate((event.db_us for event in seed.history.events), max))


def ends_attempt(event: Event) -> bool:
    """Not a waiting job's cancellation or expiry."""
    return event.kind == "succeeded" or event["outcome"] is not None


def ended_within(ended: dict[tuple[str, int], Event], key: tuple[str, int], event: Event, within_s: float) -> bool:
    end = ended.get(key)
    return end is not None and end.at - event.at <= within_s


def gone_nodes(seed: Seed) -> Callable[[float, float], bool]:
    """Whether some coordinator left or came within a span of time."""
    instants = [event.at for event in seed.history.of("draining", "stopped", "started", "killed")]
    return lambda begin, end: any(begin <= instant <= end for instant in instants)
