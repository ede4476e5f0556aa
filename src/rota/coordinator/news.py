"""What coordinators tell each other, as values, and the way on which it travels.

The database holds all facts; news say where they changed. One that is lost, late or repeated costs time, never
correctness.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from rota.coordinator.members import Inventory
from rota.domain.fairness import Entry
from rota.domain.ids import CoordinatorId, Fence, JobId, SessionId, ShardNo, TenantId
from rota.domain.limiting import Gate
from rota.domain.model import DirectiveKind, Grant

ITEMS_MAX = 10_000
"""Items of each sort that wait for one peer; what is more is left to the rescans of the database."""


class Kind(NamedTuple):
    """What parked polls wait for; no types: all."""

    tenant_id: TenantId
    queue: str
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Demand:
    """Parked polls of one kind. `id` names the kind, for as long as the process lives that told it."""

    id: int
    kind: Kind
    free_slots: int


@dataclass(frozen=True, slots=True)
class Offer:
    """Ready jobs that the teller lets the listener claim for a demand of the listener's; count 0: none any more.

    `order` is where the best of them stands in the order of its queue (`domain.fairness`).
    """

    demand_id: int
    count: int
    order: float = 0.0


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease of a shard of the listener's."""

    job_id: JobId
    fence: Fence


@dataclass(frozen=True, slots=True)
class Order:
    """A directive for the worker of a session whose beats may reach the listener."""

    session_id: SessionId
    kind: DirectiveKind
    job_id: JobId | None = None
    fence: Fence | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Holding:
    """The inventory of a session, for which the listener asked by a RESYNC."""

    session_id: SessionId
    tenant_id: TenantId
    inventory: Inventory


@dataclass(slots=True)
class News:
    """What one coordinator has to tell another. Later demands and offers of one id replace earlier ones."""

    demands: dict[int, Demand] = field(default_factory=dict)
    offers: dict[int, Offer] = field(default_factory=dict)
    waiting: list[Entry] = field(default_factory=list)
    settled: list[Lease] = field(default_factory=list)
    proven: list[Lease] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    holdings: list[Holding] = field(default_factory=list)
    sessions_ended: list[SessionId] = field(default_factory=list)
    freed: set[Gate] = field(default_factory=set)
    """Gates under which leases have ended."""
    armed: bool = False
    queues_changed: bool = False

    def __bool__(self) -> bool:
        return bool(
            self.demands
            or self.offers
            or self.waiting
            or self.settled
            or self.proven
            or self.orders
            or self.holdings
            or self.sessions_ended
            or self.freed
            or self.armed
            or self.queues_changed
        )


@dataclass(frozen=True, slots=True)
class ClaimWish:
    """A claim on behalf of a session that is attached to the one who asks."""

    caller: CoordinatorId
    tenant_id: TenantId
    tenant: str
    session_id: SessionId
    poller: int
    batch: int
    demand_ids: tuple[int, ...]
    capacity: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class Claimed:
    """Jobs granted, perhaps none, and what is left for the demands of the wish."""

    grants: list[Grant]
    left: tuple[Offer, ...] = ()


class Wire(Protocol):
    """The way to one peer. Its errors are `Unavailable` or `OutcomeUnknown`."""

    def send(self, news: News) -> bool:
        """Takes news, all or nothing, and never waits. False: the way is not open, or too much is unread; `on_room` is
        called once that has changed."""

    async def claim(self, wish: ClaimWish) -> Claimed: ...

    async def hand_over(self, shards: Sequence[ShardNo]) -> list[ShardNo]:
        """Offers shards that are free in the database; those that the peer took."""

    async def close(self) -> None: ...


class Dial(Protocol):
    """Opens the way to a peer, and opens it again whenever it breaks, until it is closed."""

    def __call__(
        self, peer: CoordinatorId, address: str, *, on_open: Callable[[], None], on_room: Callable[[], None]
    ) -> Wire:
        """`on_open`: the way has opened (again); the peer knows nothing of what was told before. `on_room`: there is
        room again after there was none."""
