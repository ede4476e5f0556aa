"""Changes of jobs, and how far a watcher has seen them.

Transactions get their numbers when they begin to write and commit in another order, so no single number can say what
was seen: of what is newer than it, something older may still come. A `Position` says it exactly, as a snapshot of the
database does: all transactions below `next_xid`, but those that were `running`. What was seen is a set that only grows,
and a change that commits late is outside of it however old its number is.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter

from rota.domain.model import Job


@dataclass(frozen=True)
class Change:
    """A job as it was after a change. Those of one job, and those of one transaction, are in the order of `seq`. Most
    are looked at by nobody who asks for more than queue and type, so the whole job is made when it is wanted."""

    xid: int
    seq: int
    queue: str
    type: str
    make: Callable[[], Job]

    @cached_property
    def job(self) -> Job:
        return self.make()


@dataclass(frozen=True, slots=True)
class Position:
    """What was seen. `parts`: of transactions that were not seen whole, the last `seq` that was."""

    next_xid: int
    running: frozenset[int] = frozenset()
    parts: tuple[tuple[int, int], ...] = ()

    def unseen(self, xid: int, seq: int) -> bool:
        if xid < self.next_xid and xid not in self.running:
            return False
        return all(xid != part or seq > last for part, last in self.parts)

    @property
    def first_unseen(self) -> int:
        """No change of a transaction below this one is left to be seen."""
        return min(self.running, default=self.next_xid)

    def covers(self, other: "Position") -> bool:
        """Whether all that `other` has seen was seen here."""
        if self.next_xid < other.next_xid or any(xid < other.next_xid for xid in self.running - other.running):
            return False
        return not any(self.unseen(xid, last) for xid, last in other.parts)


@dataclass(frozen=True, slots=True)
class Page:
    """The next changes after a position, in the order of transactions. `moment`: all that was committed when they were
    read. `more`: there was not room for all of them."""

    before: Position
    moment: Position
    changes: Sequence[Change]
    more: bool
    after: Position = field(init=False)

    def __post_init__(self) -> None:
        after = self.up_to(self.changes[-1]) if self.more else self.moment
        object.__setattr__(self, "after", after)

    def up_to(self, change: Change) -> Position:
        """The position of who has seen this change and those before it."""
        old, moment, xid = self.before, self.moment, change.xid
        # Of transactions below this one, all that had ended is seen.
        running = {other for other in old.running if other >= xid or other in moment.running}
        running |= {other for other in moment.running if old.next_xid <= other < xid}
        parts = [part for part in old.parts if part[0] > xid]
        return Position(max(old.next_xid, xid), frozenset(running), ((xid, change.seq), *parts))

    def unseen_at(self, position: Position) -> Iterator[tuple[Change, Position]]:
        """Its changes without those that were seen at a position, in the order in which they were made: a transaction
        with a lower number may have waited for the row of one with a higher. With each, how far all is seen by then."""
        new = [change for change in self.changes if position.unseen(change.xid, change.seq)]
        told: set[int] = set()
        whole = 0
        for change in sorted(new, key=attrgetter("seq")):
            told.add(change.seq)
            if new[whole].seq == change.seq:
                while whole < len(new) and new[whole].seq in told:
                    whole += 1
                position = self.up_to(new[whole - 1])
            yield change, position
