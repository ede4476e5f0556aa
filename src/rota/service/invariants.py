"""Looks whether what must always hold does hold, and puts right what is safe to put right, by the ways that always do.

Whatever is found is looked at a second time some seconds later: what was on its way is over by then, and only what is
still wrong counts.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rota.clock import Clock
from rota.domain import invariants as known
from rota.domain.errors import ResourceExhausted, RotaError
from rota.domain.ids import Fence, JobId, ShardNo
from rota.domain.invariants import Invariant, Violation, Walk
from rota.domain.model import Failure, Outcome
from rota.domain.transition import Ending
from rota.service.audit import audit
from rota.service.completions import Completions, LostLease
from rota.service.jobs import Jobs
from rota.store.invariantport import InvariantStore, Place
from rota.store.scheduleport import FireStore
from rota.telemetry import Metrics

log = logging.getLogger(__name__)

CONFIRM_S: Final = 3.0
"""Longer than a shard is without an owner while it is handed over."""

ROWS: Final = 2_000
"""Rows of one look."""

EXAMPLES_MAX: Final = 100
EXAMPLES_DEFAULT: Final = 10

LOGGED_MAX: Final = 5
"""Examples in one line of the log."""

GONE: Final = "its schedule is gone"


@dataclass(slots=True)
class Checked:
    """What became of one invariant: how often it is violated, some of those, and how many were repaired."""

    invariant: Invariant
    violations: int = 0
    repaired: int = 0
    examples: list[Violation] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.violations


class Invariants:
    def __init__(
        self,
        store: InvariantStore,
        fires: FireStore,
        completions: Completions,
        jobs: Jobs,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._store = store
        self._fires = fires
        self._completions = completions
        self._jobs = jobs
        self._clock = clock
        self._metrics = metrics
        self._checking = False

    async def check(
        self, names: Sequence[str] = (), *, repair: bool = False, examples_max: int = EXAMPLES_DEFAULT
    ) -> list[Checked]:
        """All rows, in slices: as long as it takes, in bounded memory. One at a time."""
        wanted = {each.name: Checked(each) for each in known.named(names)}
        if self._checking:
            raise ResourceExhausted("a check of all rows is under way here; wait for its end", retry_after_s=10.0)
        self._checking = True
        try:
            for walk in Walk:
                if any(walk in each.invariant.walks for each in wanted.values()):
                    await self._walk(walk, wanted, repair=repair, examples_max=examples_max)
        finally:
            self._checking = False
        return list(wanted.values())

    async def look(self, walk: Walk, at: Place | None, shards: Sequence[ShardNo] | None, rows: int) -> Place | None:
        """One slice of a walk: repairs what it can, and tells the log and the metrics. Where to go on; None: at the
        end."""
        found = {each.name: Checked(each) for each in known.INVARIANTS}
        then = await self._look(walk, at, shards, found, repair=True, examples_max=LOGGED_MAX, rows=rows)
        for name, each in found.items():
            if each.holds:
                continue
            log.warning(
                "%s does not hold: found %d, of which %d are repaired: %s",
                name,
                each.violations,
                each.repaired,
                "; ".join(f"{example.name}: {example.found}" for example in each.examples),
            )
        return then

    async def _walk(self, walk: Walk, into: Mapping[str, Checked], *, repair: bool, examples_max: int) -> None:
        at: Place | None = None
        while True:
            at = await self._look(walk, at, None, into, repair=repair, examples_max=examples_max)
            if at is None:
                return

    async def _look(
        self,
        walk: Walk,
        at: Place | None,
        shards: Sequence[ShardNo] | None,
        into: Mapping[str, Checked],
        *,
        repair: bool,
        examples_max: int,
        rows: int | None = None,
    ) -> Place | None:
        rows = rows or ROWS
        first, then = await self._violations(walk, at, shards, into, rows)
        if not first:
            return then
        await self._clock.sleep(CONFIRM_S)
        second, _ = await self._violations(walk, at, shards, into, rows)
        still = {(each.invariant, each.tenant_id, each.name) for each in first}
        by_name: dict[str, list[Violation]] = {}
        for each in second:
            if (each.invariant, each.tenant_id, each.name) in still:
                by_name.setdefault(each.invariant, []).append(each)
        for name, violations in by_name.items():
            checked = into[name]
            checked.violations += len(violations)
            checked.examples += violations[: max(examples_max - len(checked.examples), 0)]
            self._metrics.add("rota.invariants.violated", len(violations), name)
            if repair and checked.invariant.repair:
                repaired = await self._repair(name, violations)
                checked.repaired += repaired
                self._metrics.add("rota.invariants.repaired", repaired, name)
        return then

    async def _violations(
        self, walk: Walk, at: Place | None, shards: Sequence[ShardNo] | None, wanted: Mapping[str, Checked], rows: int
    ) -> tuple[list[Violation], Place | None]:
        found = await self._store.look(walk, at, rows, shards)
        violations = list(found.violations)
        if found.ledgers:
            violations += [
                Violation(known.FATES, name, text)
                for name, _, text in (each.partition(": ") for each in (await audit(self._fires, found.ledgers)).wrong)
            ]
        return [each for each in violations if each.invariant in wanted], found.then

    async def _repair(self, name: str, violations: Sequence[Violation]) -> int:
        """How many. What cannot be repaired now is found again."""
        try:
            match name:
                case known.LIVE_SESSION:
                    return await self._completions.lose(
                        [_lost(each, Ending(Outcome.LEASE_LOST)) for each in violations]
                    )
                case known.RUN_TIMEOUT:
                    failure = Failure("TimedOut", "the attempt ran longer than timeouts.run")
                    ending = Ending(Outcome.TIMED_OUT, failure)
                    return await self._completions.lose([_lost(each, ending) for each in violations])
                case known.START_BY:
                    return await self._completions.expire([(each.tenant_id, JobId(each.id)) for each in violations])
                case known.ORPHAN_JOB:
                    return sum(
                        [await self._jobs.cancel_waiting(each.tenant_id, [JobId(each.id)], GONE) for each in violations]
                    )
                case _:
                    return await self._store.repair(name, violations)
        except RotaError as error:
            log.warning("%s could not be repaired, trying again later: %s", name, error)
            return 0


def _lost(violation: Violation, ending: Ending) -> LostLease:
    return LostLease(violation.tenant_id, JobId(violation.id), Fence(violation.number), ending)
