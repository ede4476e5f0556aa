"""Guards taken away one by one: each must be caught by some seed, or be explained as equivalent.

A mutant that nobody catches says that a check is missing, that the faults do not reach there, or that the guard keeps
nothing. The first two are mended; the third is written down here with its reason, and stays in the list, because a
reason may stop to be true: an equivalent mutant that is caught is a failure too.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from rota.clock import DatabaseClock
from rota.coordinator import attendance, dispatcher, poller, reaper
from rota.coordinator.attendance import Attendance
from rota.coordinator.dispatcher import Dispatcher
from rota.coordinator.inflight import InFlight
from rota.coordinator.members import Delivery, Inventory, Member
from rota.coordinator.memory import Memory
from rota.coordinator.node import Node
from rota.coordinator.ownership import Ownership
from rota.coordinator.poller import Poller
from rota.coordinator.reaper import Reaper
from rota.domain import transition
from rota.domain.model import LiveJob, Outcome
from rota.service import completions
from rota.service.completions import Completions, LostLease
from rota.service.sessions import Sessions

from . import checks, world
from .checks import Violation
from .world import Outcome as Seed


@dataclass(frozen=True, slots=True)
class Mutant:
    """`removed`: guards of the store or the target; `patch`: what is broken in the coordinator; `node`: the same for
    each node. `equivalent` says why nothing is lost."""

    name: str
    removed: frozenset[str] = frozenset()
    patch: Callable[[], AbstractContextManager[Any]] = nullcontext
    node: Callable[[Node], None] = lambda node: None
    equivalent: str = ""

    def run(self, seed: int) -> tuple[Seed, list[Violation]]:
        with self.patch():
            outcome = world.run(seed, removed=self.removed, on_node=self.node)
        return outcome, checks.check(outcome)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The first seed that caught a mutant, and by what; None: nobody did."""

    mutant: Mutant
    seed: int | None
    violation: Violation | None
    tried: int


def hunt(mutant: Mutant, seeds: Sequence[int]) -> Verdict:
    for tried, seed in enumerate(seeds, 1):
        _, found = mutant.run(seed)
        if found:
            return Verdict(mutant, seed, found[0], tried)
    return Verdict(mutant, None, None, len(seeds))


def _store(name: str, *more: str, equivalent: str = "") -> Mutant:
    return Mutant(name, frozenset((name, *more)), equivalent=equivalent)


def _broken(name: str, target: Any, attribute: str, with_what: Any, equivalent: str = "") -> Mutant:
    return Mutant(name, patch=lambda: patch.object(target, attribute, with_what), equivalent=equivalent)


STORE = (
    _store("claim: state"),
    _store("claim: due"),
    _store("claim: fence grows"),
    _store("claim: start_by"),
    _store(
        "claim: owner",
        equivalent="an epoch belongs to one owner, and each change of owner raises it, so the epoch's test covers it",
    ),
    _store("claim: epoch"),
    _store("succeed: fence"),
    _store(
        "succeed: session",
        equivalent="a fence is granted to one session, so only a forged report differs here; the API's tests forge",
    ),
    _store("succeed: state"),
    _store("requeue: fence"),
    _store("requeue: state"),
    _store("finish: fence"),
    _store("finish: state"),
    _store("bury: fence"),
    _store("bury: state"),
    _store("move: leaves the live table"),
    _store("set_cancelling: fence"),
    _store("set_cancelling: state"),
    _store("create: request_id is fresh"),
    _store("dedupe: holder lives"),
    _store("dedupe: window"),
    _store("spawn: only with the success"),
    _store("beat: not closed"),
    _store("expire: time is over"),
    _store("renew: alive"),
    _store("acquire: alive"),
    _store("acquire: free"),
    _store("acquire: epoch grows"),
    _store("release: epoch grows"),
    _store(
        "set_watermarks: owner",
        equivalent="a watermark lies a minute behind the oldest live job, and worlds end before it moves",
    ),
    _store("target: fence"),
    _store("target: key"),
)


def _nothing(*_: object, **__: object) -> None:
    return None


async def _nothing_async(*_: object, **__: object) -> int:
    return 0


def _forgets_older_batches(self: Member, poller: int, ack_batch: int) -> tuple[list[Delivery], list[Delivery]]:
    arrived = [d for d in self.deliveries if d.poller == poller and (d.proven or d.batch == ack_batch)]
    self.deliveries = [d for d in self.deliveries if d not in arrived]
    return arrived, []


def _never_undelivered(self: Member, now: float, delivery_ttl_s: float) -> list[Delivery]:
    return []


def _remembers_no_claim(node: Node) -> None:
    class Forgetful(set[Any]):
        def add(self, element: Any) -> None:
            return None

    node.memory.claiming = Forgetful()


def _loses_without_looking(leases: Sequence[LostLease]) -> list[LostLease]:
    return [LostLease(x.tenant_id, x.job_id, x.fence, x.ending, gone=True) for x in leases]


_lose = Completions.lose


async def _lose_of_the_living(self: Completions, leases: Sequence[LostLease]) -> int:
    return await _lose(self, _loses_without_looking(leases))


def _always_counts(job: LiveJob, outcome: Outcome) -> bool:
    return True


def _never_counts(job: LiveJob, outcome: Outcome) -> bool:
    return outcome not in (Outcome.RELEASED, Outcome.UNDELIVERED)


def _hours_ahead(self: DatabaseClock) -> float:
    return _database_now(self) + 2.0


_database_now = DatabaseClock.now


async def _starts_over_without_release(self: Ownership) -> None:
    self._trusted_until = 0.0
    await self._shards.release(self._coordinator)
    await self.register()


def _speaks_always(inventory: Inventory, flight: object) -> bool:
    return True


async def _knows_nothing(*_: object) -> set[Any]:
    return set()


async def _remembers_acquired(self: Ownership) -> None:
    """As it was once: what `acquire` answers is all that is known."""
    terms = await self._shards.acquire(self._coordinator, 256)
    if terms:
        await self._on_acquired([term.shard for term in terms])
        self._memory.terms |= {term.shard: term for term in terms}


def _takes_no_new_numbers(self: Member, batch: int) -> None:
    return None


COORDINATOR = (
    _broken("ack_batch: older ones are given back", Member, "acknowledge_batch", _forgets_older_batches),
    _broken("batches grow across coordinators", Member, "_go_beyond", _takes_no_new_numbers),
    _broken("delivery TTL", Member, "undelivered", _never_undelivered),
    _broken("inventory: only of batches it speaks of", attendance, "_speaks_of", _speaks_always),
    _broken("inventory: unknown leases are looked up", Attendance, "_really_held", _knows_nothing),
    _broken("lose: needs a dead session", Completions, "lose", _lose_of_the_living),
    _broken("amnesty", Sessions, "grant_amnesty", _nothing_async),
    _broken("amnesty: after a start alone", Reaper, "expect_survivors", _nothing),
    _broken("amnesty: listen first", Reaper, "listen_first", _nothing),
    _broken("uncounted: released and undelivered", transition, "_counts", _always_counts),
    _broken("owned shards are read", Ownership, "_follow_rows", _remembers_acquired),
)

ALL = STORE + COORDINATOR

_ = (asyncio, dispatcher, poller, reaper, Dispatcher, InFlight, Memory, Poller, completions)
