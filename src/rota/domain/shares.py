"""One tenant of the ready queue: its backlogs, their turns, and what its workers were given."""

from dataclasses import dataclass
from typing import Final

from rota.domain.backlog import Backlog
from rota.domain.ids import TenantId
from rota.domain.turns import Contender, Turns

SHARES_MAX: Final = 64
"""Sets of queues and types, of one tenant's workers, whose shares are kept."""

SPARE_QUEUES: Final = 8
"""Queues that are kept while they have nothing: it is cheaper than making them again."""


@dataclass(frozen=True, slots=True)
class Wants:
    """What a session takes: `types` empty means every type."""

    tenant_id: TenantId
    queues: tuple[str, ...]
    types: frozenset[str]


class Shares:
    """What the queues of workers that take from several were given: a clock and tags as in `Turns`, over those queues
    that have something for these workers at the moment of taking."""

    __slots__ = ("now", "queues", "tags")

    def __init__(self, wants: Wants) -> None:
        # A worker may name a queue twice; it counts once.
        self.queues = tuple(dict.fromkeys(wants.queues))
        self.tags = dict.fromkeys(self.queues, 0)
        self.now = 0

    def reweigh(self, queue: str, old: int, new: int) -> None:
        ahead = self.tags.get(queue, 0) - self.now
        if ahead > 0:
            self.tags[queue] = self.now + ahead * old // new


class Tenant(Contender):
    """`closed`: its gate is."""

    __slots__ = ("backlogs", "closed", "entries", "id", "lanes_count", "shares", "turns")

    def __init__(self, id: TenantId, weight: int, closed: bool) -> None:
        super().__init__(weight)
        self.id = id
        self.closed = closed
        self.backlogs: dict[str, Backlog] = {}
        self.turns: Turns[Backlog] = Turns(SPARE_QUEUES)
        self.shares: dict[tuple[tuple[str, ...], frozenset[str]], Shares] = {}
        self.entries = 0
        self.lanes_count = 0

    def shares_of(self, wants: Wants) -> Shares:
        key = (wants.queues, wants.types)
        shares = self.shares.get(key)
        if shares is None:
            if len(self.shares) >= SHARES_MAX:
                del self.shares[next(iter(self.shares))]
            shares = self.shares[key] = Shares(wants)
        return shares
