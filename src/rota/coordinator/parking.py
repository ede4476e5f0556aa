"""Lease calls that wait, by what they wait for.

A poll that waits holds no row. Polls of equal wishes form a group, so that whoever has jobs looks at one poll of each
group and not at ten thousand.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from rota.coordinator.members import Delivery, Member
from rota.coordinator.news import ClaimWish
from rota.domain.fairness import Wants
from rota.domain.ids import TenantId
from rota.domain.model import Grant

Turn = tuple[TenantId, str]
"""A tenant's queue."""


@dataclass(slots=True, eq=False)
class Poll:
    """One waiting Lease call. `give_up_at` is monotonic: no claim is begun for it after that."""

    member: Member
    wants: Wants
    poller: int
    request_id: str
    capacity: int
    bytes_max: int
    give_up_at: float
    answer: "asyncio.Future[Delivery | None]"
    kinds: tuple[int, ...] = ()
    """What it demands of peers while it is parked (`coordinator.demand`)."""
    claiming: bool = False
    abandoned: bool = False
    timer: asyncio.TimerHandle | None = None


@dataclass(slots=True, eq=False)
class Guest:
    """A claim of a peer on behalf of a session of its own. It takes what is ready and never waits for more."""

    wish: ClaimWish
    wants: Wants
    answer: "asyncio.Future[list[Grant]]"


class Parking:
    def __init__(self) -> None:
        self._groups: dict[Turn, dict[Wants, OrderedDict[Poll, None]]] = {}
        self._parked: set[Poll] = set()

    def __len__(self) -> int:
        return len(self._parked)

    def __contains__(self, poll: object) -> bool:
        return poll in self._parked

    def add(self, poll: Poll) -> None:
        self._parked.add(poll)
        for queue in poll.wants.queues:
            groups = self._groups.setdefault((poll.wants.tenant_id, queue), {})
            groups.setdefault(poll.wants, OrderedDict())[poll] = None

    def remove(self, poll: Poll) -> None:
        self._parked.discard(poll)
        for queue in dict.fromkeys(poll.wants.queues):
            turn = (poll.wants.tenant_id, queue)
            groups = self._groups[turn]
            group = groups[poll.wants]
            del group[poll]
            if not group:
                del groups[poll.wants]
                if not groups:
                    del self._groups[turn]

    def groups(self, turn: Turn) -> list[Wants]:
        """The wishes that wait for jobs of a queue; those that were served longest ago first."""
        return list(self._groups.get(turn, ()))

    def of(self, turn: Turn, wants: Wants) -> Iterator[Poll]:
        """The polls of a group, the oldest first. Ends when the group changes: ask again."""
        return iter(self._groups.get(turn, {}).get(wants, ()))

    def served(self, turn: Turn, wants: Wants) -> None:
        """The next time it is another group's turn first."""
        groups = self._groups.get(turn)
        if groups is not None and len(groups) > 1 and wants in groups:
            groups[wants] = groups.pop(wants)
