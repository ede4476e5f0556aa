"""Exact limits: which of those that ask for a lease may have one now.

A *gate* is what a limit is set on: a tenant, one of its queues, or one concurrency key of a queue. A job is admitted
where every gate that it passes has room, and then takes a place in each; who comes first is served first.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rota.domain.ids import TenantId
from rota.domain.model import Grant

RATE_BITE_S: Final = 0.02
"""Whoever waits for a rate comes back for what so long a time yields, not for every single lease."""

ROUNDING: Final = 1e-6
"""Part of a lease by which sums of fractions may be off. It is carried over, so that it never adds up to a lease."""

AGAIN_S: Final = 0.1
"""When to ask again at a gate whose leases are still being counted."""


class Gate(NamedTuple):
    """("", "") is the tenant's, (queue, "") the queue's, (queue, key) that of a concurrency key."""

    tenant_id: TenantId
    queue: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class LimitedGrants:
    """`closed`: the gates that refused something, with the seconds until asking again makes sense. None: once a lease
    under the gate has ended, or its settings have changed."""

    grants: list[Grant]
    closed: Mapping[Gate, float | None]


@dataclass(frozen=True, slots=True)
class Room:
    """What a gate lets through at this moment. `places` None: any number. `rate` None: as fast as they come.
    `shut`: nothing, and not before `wait_s` (None: not before its settings change)."""

    places: int | None = None
    rate: float | None = None
    burst: float = 0.0
    tokens: float = 0.0
    shut: bool = False
    wait_s: float | None = None

    def holds(self, taken: int) -> bool:
        """Whether one more fits after so many."""
        if self.shut or (self.places is not None and taken >= self.places):
            return False
        return self.rate is None or self.tokens - taken >= 1 - ROUNDING

    def again_s(self, taken: int, refused: int) -> float | None:
        """When it makes sense to ask for `refused` more."""
        if self.holds(taken):
            return 0.0
        if self.shut:
            return self.wait_s
        if self.rate is None or (self.places is not None and taken >= self.places):
            return None
        wanted = min(float(refused), max(self.rate * RATE_BITE_S, 1.0), self.burst)
        return max((wanted - (self.tokens - taken)) / self.rate, 0.0)


@dataclass(frozen=True, slots=True)
class Admission:
    """`taken`: the indexes of those admitted, in order. `refused`: how many each gate was in the way of."""

    taken: list[int] = field(default_factory=list)
    refused: Counter[Gate] = field(default_factory=Counter)


def gates(tenant: TenantId, queue: str, key: str) -> tuple[Gate, ...]:
    """Those that a job passes."""
    outer = (Gate(tenant), Gate(tenant, queue))
    return (*outer, Gate(tenant, queue, key)) if key else outer


def admit(wishes: Sequence[Sequence[Gate]], rooms: Mapping[Gate, Room]) -> Admission:
    """Who of these may have a lease, best first; each wish names its gates. A gate without a room has no limit."""
    admission = Admission()
    taken: Counter[Gate] = Counter()
    for index, wish in enumerate(wishes):
        limited = [gate for gate in wish if gate in rooms]
        full = [gate for gate in limited if not rooms[gate].holds(taken[gate])]
        if full:
            admission.refused.update(full)
        else:
            taken.update(limited)
            admission.taken.append(index)
    return admission


def closed(
    refused: Mapping[Gate, int], rooms: Mapping[Gate, Room], granted: Iterable[Sequence[Gate]]
) -> dict[Gate, float | None]:
    """When to ask again at the gates that refused something, after what was really granted: a job that was admitted
    may have been gone, and its place is free."""
    taken = Counter(gate for wish in granted for gate in wish)
    return {gate: rooms[gate].again_s(taken[gate], count) for gate, count in refused.items()}


def refilled(tokens: float, elapsed_s: float, rate: float, burst: float) -> float:
    """A bucket after some time. A clock that went back refills nothing."""
    return min(tokens + max(elapsed_s, 0.0) * rate, burst)
