"""What is broken in the coordinator's memory and loops."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from datetime import datetime
from typing import Any
from unittest.mock import patch

from rota.clock import DatabaseClock
from rota.coordinator import attendance, ownership
from rota.coordinator.attendance import Attendance
from rota.coordinator.demand import Demands
from rota.coordinator.dispatcher import Dispatcher
from rota.coordinator.inflight import Flight, InFlight
from rota.coordinator.members import Delivery, Member
from rota.coordinator.memory import Memory
from rota.coordinator.news import Order
from rota.coordinator.node import Node
from rota.coordinator.offers import Offers
from rota.coordinator.ownership import Ownership
from rota.coordinator.peers import Peers
from rota.coordinator.poller import Poller
from rota.coordinator.reaper import Reaper
from rota.domain import transition
from rota.domain.fairness import Entry
from rota.domain.ids import CoordinatorId, SessionId, ShardNo
from rota.domain.model import LiveJob, Outcome
from rota.service import completions
from rota.service.completions import Completions, LostLease
from rota.service.sessions import Sessions
from rota.store.port import Roster

from .base import Mutant, broken


def _nothing(*_: object, **__: object) -> None:
    return None


async def _nothing_async(*_: object, **__: object) -> int:
    return 0


async def _empty_async(*_: object, **__: object) -> set[Any]:
    return set()


def _older_batches_live_on(self: Member, poller: int, ack_batch: int) -> tuple[list[Delivery], list[Delivery]]:
    arrived = [d for d in self.deliveries if d.poller == poller and (d.proven or d.batch == ack_batch)]
    self.deliveries = [d for d in self.deliveries if d not in arrived]
    return arrived, []


def _never_late(self: Member, now: float, delivery_ttl_s: float) -> list[Delivery]:
    return []


def _never_replayed(self: Member, poller: int, request_id: str, now: float) -> None:
    return None


async def _lose_of_the_living(self: Completions, leases: Sequence[LostLease]) -> int:
    return await _lose(self, [replace(lease, gone=True) for lease in leases])


_lose = Completions.lose


def _always_counts(job: LiveJob, outcome: Outcome) -> bool:
    return True


def _never_counts(job: LiveJob, outcome: Outcome) -> bool:
    return outcome not in (Outcome.RELEASED, Outcome.UNDELIVERED)


def _ahead(self: DatabaseClock) -> float:
    return _database_now(self) + 3.0


_database_now = DatabaseClock.now


async def _begin_on_what_acquire_answers(self: Ownership, roster: Roster) -> Roster:
    missing = ownership._shares(roster).get(self._coordinator, 0) - ownership._owned(roster).get(self._coordinator, 0)
    if missing > 0:
        await self._begin({term.shard: term for term in await self._shards.acquire(self._coordinator, missing)})
    return await self._shards.roster()


async def _follow_only_others(self: Ownership, roster: Roster) -> None:
    living = {each.id for each in roster.living}
    owners = {shard: owner for shard, (_, owner) in roster.shards.items() if owner in living and owner is not None}
    self._peers.follow(roster.living, len(roster.shards), owners)


def _reads_nothing() -> AbstractContextManager[Any]:
    stack = ExitStack()
    stack.enter_context(patch.object(Ownership, "_take_share", _begin_on_what_acquire_answers))
    stack.enter_context(patch.object(Ownership, "_follow", _follow_only_others))
    return stack


async def _gives_nothing(self: Ownership, count: int) -> list[ShardNo]:
    return []


async def _tells_no_taker(self: Peers, id: CoordinatorId, shards: Sequence[ShardNo]) -> list[ShardNo]:
    return []


def _asks_once(self: InFlight, asked_before: float, now: float) -> list[Flight]:
    found = _unheard(self, asked_before, now)
    self._unheard = [item for item in self._unheard if item[0] != now]
    return found


_unheard = InFlight.unheard


def _only_here(self: Memory, session: SessionId, *what: Any, **why: Any) -> None:
    member = self.members.get(session)
    if member is not None:
        member.direct(*what, **why)
    elif self._peers:
        self._peers.tell_order(Order(session, *what, **why))


def _proves_silently(self: Memory, flight: Flight) -> None:
    flight.proven = True


async def _start_over_in_place(self: Ownership, why: str) -> None:
    self._trusted_until = 0.0
    await self._shards.release(self._coordinator)
    await self.register()
    if self._resting_until is not None:
        await self._shards.drain(self._coordinator)


def _keeps_start_by(job: LiveJob, due_at: datetime, start_by: float | None) -> Entry:
    return _entry(job, due_at, job.start_by)


_entry = completions._entry


def _batches_without_keys(node: Node) -> None:
    node.creations._key = lambda call: None


async def _stay_owner(self: Ownership) -> None:
    self._memory.forget_shards(frozenset(self._memory.terms))


COORDINATOR = (
    broken("lost answer: older batches are given back", Member, "acknowledge_batch", _older_batches_live_on),
    broken("lost answer: delivery TTL", Member, "undelivered", _never_late),
    broken("lost answer: replay by request_id", Member, "replay", _never_replayed),
    broken("lost answer: the caller has gone", Dispatcher, "_abandon", _nothing),
    broken("inventory: batches it does not speak of", attendance, "_speaks_of", lambda *_: True),
    broken("inventory: what it lacks is given back", attendance, "_speaks_of", lambda *_: False),
    broken("inventory: unknown leases are looked up", Attendance, "_really_held", _empty_async),
    broken("batches grow across coordinators", Member, "_go_beyond", _nothing),
    broken(
        "lose: needs a dead session",
        Completions,
        "lose",
        _lose_of_the_living,
        equivalent="a closed session never lives again, so what was seen dead needs no second look",
    ),
    broken("amnesty: after a gap", Sessions, "grant_amnesty", _nothing_async),
    broken("amnesty: after a start alone", Reaper, "expect_survivors", _nothing),
    broken("amnesty: listen before expiring", Reaper, "listen_first", _nothing),
    broken("attempts: released and undelivered do not count", transition, "_counts", _always_counts),
    broken("attempts: up to twenty", transition, "_counts", _never_counts),
    broken("run timeout", InFlight, "overrun", lambda *_: []),
    broken("start_by: late by the database's clock", completions, "_is_late", lambda job, now: True),
    broken("start_by: not of a retry", completions, "_entry", _keeps_start_by),
    broken("poller: reads again behind the cursor", Poller, "_read_again", _nothing_async),
    broken("poller: adopts leases of owners before", Poller, "_follow", _nothing),
    broken("memory: hears of jobs that wait", Memory, "jobs_waiting", _nothing),
    broken("memory: timers ring", Memory, "_ring", _nothing),
    Mutant("ownership: what is owned is read", patch=_reads_nothing),
    broken("ownership: shards are given back", Ownership, "leave", _stay_owner),
    broken("ownership: what is above the share is given up", Ownership, "_give_up", _gives_nothing),
    broken("ownership: the taker is told", Peers, "hand_over", _tells_no_taker),
    broken("ownership: shards are kept for one that is reached in a moment", Peers, "can_be_given", lambda *_: True),
    broken("peers: leases whose receipt nobody tells are asked for", InFlight, "unheard", lambda *_: []),
    broken("peers: they are asked for again", InFlight, "unheard", _asks_once),
    broken("peers: orders follow a worker that has moved", Memory, "direct", _only_here),
    broken("peers: jobs that wait are told", Peers, "tell_waiting", _nothing),
    broken("peers: demand is told again", Demands, "tell_all", _nothing),
    broken("peers: offers are made", Offers, "look", _nothing),
    broken(
        "peers: receipts are told",
        Memory,
        "prove",
        _proves_silently,
        equivalent="an owner that hears of no receipt asks for it",
    ),
    broken(
        "peers: ends of leases are told",
        Peers,
        "tell_settled",
        _nothing,
        equivalent="the rows say so too; the owner only learns of it later, which one world in hundreds notices",
    ),
    broken(
        "peers: ends of sessions are told",
        Peers,
        "tell_sessions_ended",
        _nothing,
        equivalent="a rescan finds the leases of sessions that are over",
    ),
    Mutant("creations: one of a request_id in a batch", node=_batches_without_keys),
    broken(
        "ownership: trusts its term for a while only",
        Ownership,
        "trusted",
        lambda self: True,
        equivalent="each claim tests the epoch; the deadline only saves claims that would come back empty",
    ),
    broken(
        "ownership: forgets its shards when it starts over",
        Ownership,
        "_start_over",
        _start_over_in_place,
        equivalent="claims under the old epochs come back empty, and the rows read in the same step tell the new ones",
    ),
    broken(
        "clock: the estimate never runs ahead",
        DatabaseClock,
        "now",
        _ahead,
        equivalent="each claim tests the due time by the database's clock; what comes back empty is looked up again",
    ),
)
