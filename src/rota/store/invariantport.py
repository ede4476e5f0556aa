"""Looking through the rows for what must not be there, in slices; and putting right what is safe to put right."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rota.domain.ids import ShardNo
from rota.domain.invariants import Violation, Walk
from rota.store.scheduleport import Ledger

Place = tuple[Any, ...]
"""Where a walk stands: whatever `look` has answered with."""


@dataclass(frozen=True, slots=True)
class Slice:
    """What one bounded look found. `then` None: the walk is at its end. `ledgers` are for the rules to be asked."""

    violations: Sequence[Violation]
    then: Place | None = None
    ledgers: Sequence[Ledger] = ()


class InvariantStore(Protocol):
    async def look(self, walk: Walk, at: Place | None, rows: int, shards: Sequence[ShardNo] | None = None) -> Slice:
        """Looks through the next rows of a walk, `at` None from its beginning, as one statement sees them. Of jobs by
        due time only those of `shards`, where given, up to `rows` of all of them together."""

    async def repair(self, invariant: str, violations: Sequence[Violation]) -> int:
        """Puts right what needs no decision about a job, where it is still as it was seen; how many."""
