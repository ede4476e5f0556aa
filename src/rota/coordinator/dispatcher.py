"""Where waiting workers meet ready jobs.

A waiting poll holds no row. Once a job is in hand, one statement claims for many polls at a time; nothing reaches a
worker before it has committed. The claim runs in a task of its own that no RPC's cancellation reaches: when a caller
has gone meanwhile, its grants are given back at once. A claim whose outcome is unknown is ended like a lost answer, by
its fence, and then its jobs are looked up again.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rota.clock import Clock, DatabaseClock
from rota.coordinator.inflight import Flight
from rota.coordinator.members import Delivery, Member
from rota.coordinator.memory import Memory
from rota.domain import ids, limits
from rota.domain.errors import RotaError
from rota.domain.fairness import Entry, Wants
from rota.domain.ids import JobId, ShardNo, TenantId
from rota.domain.model import Grant, Outcome
from rota.domain.transition import Ending
from rota.service.completions import LostLease
from rota.service.leases import Leases
from rota.store.port import Claim
from rota.telemetry import Metrics

log = logging.getLogger(__name__)


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
    claiming: bool = False
    abandoned: bool = False
    timer: asyncio.TimerHandle | None = None


@dataclass(slots=True)
class _Round:
    """One claim statement: who is to get which jobs, best first."""

    claims: list[Claim] = field(default_factory=list)
    polls: list[tuple[Poll, list[JobId]]] = field(default_factory=list)


class Dispatcher:
    def __init__(
        self,
        memory: Memory,
        leases: Leases,
        clock: Clock,
        database_clock: DatabaseClock,
        metrics: Metrics,
        *,
        trusted: Callable[[], bool],
        give_back: Callable[[Sequence[LostLease]], None],
        claims_at_once: int,
    ) -> None:
        self._memory = memory
        self._leases = leases
        self._clock = clock
        self._database_clock = database_clock
        self._metrics = metrics
        self._trusted = trusted
        self._give_back = give_back
        self._free = claims_at_once
        self._waiting: dict[tuple[TenantId, str], OrderedDict[Poll, None]] = {}
        self._parked = 0
        self._by_call: dict[tuple[str, int], Poll] = {}
        self._counters: dict[ShardNo, tuple[int, int]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._draining = False
        memory.on_ready = self.pump
        memory.on_member_gone = self.drop

    @property
    def parked(self) -> int:
        return self._parked

    async def lease(
        self,
        member: Member,
        *,
        poller: int,
        request_id: str,
        ack_batch: int,
        capacity: int,
        bytes_max: int,
        wait_s: float,
        call_left_s: float | None,
    ) -> Delivery | None:
        """Waits for jobs; None when there were none. `call_left_s`: what is left of the caller's own deadline."""
        now = self._clock.monotonic()
        member.last_poll_at = now
        replayed = self._replay(member, poller, request_id, now)
        if replayed is not None:
            return replayed
        arrived, lost = member.acknowledge_batch(poller, ack_batch)
        self._prove(arrived)
        if lost:
            self._give_back(undelivered(lost))
        if self._draining or not member.active:
            return None
        if call_left_s is not None:
            if call_left_s <= limits.LEASE_DEADLINE_MARGIN_S:
                # The caller may be gone before a claim has committed.
                return None
            wait_s = min(wait_s, call_left_s - limits.LEASE_DEADLINE_MARGIN_S)
        poll = Poll(
            member,
            member.wants,
            poller,
            request_id,
            capacity,
            bytes_max,
            now + max(wait_s, 0.0),
            asyncio.get_running_loop().create_future(),
        )
        earlier = self._by_call.get((member.id, poller))
        if earlier is not None:
            self._supersede(earlier)
        self._park(poll)
        self.pump()
        # A poll that may not wait has had its chance; one whose claim is on its way waits for that.
        poll.timer = asyncio.get_running_loop().call_later(max(wait_s, 0.0), self._time_out, poll)
        try:
            return await poll.answer
        except asyncio.CancelledError:
            self._abandon(poll)
            raise
        finally:
            if poll.timer is not None:
                poll.timer.cancel()
            if self._by_call.get((member.id, poller)) is poll:
                del self._by_call[member.id, poller]

    def pump(self) -> None:
        """Starts claims while there are jobs, polls and a free connection."""
        while self._free and self._parked and not self._draining and self._trusted():
            round = self._match()
            if not round.claims:
                return
            self._free -= 1
            task = asyncio.create_task(self._claim(round), name="claim")
            self._tasks.add(task)
            task.add_done_callback(self._claimed)

    def drop(self, member: Member) -> None:
        """Answers the polls of a session that takes no more jobs."""
        for poll in [p for p in self._by_call.values() if p.member is member]:
            self._finish(poll, None)

    async def drain(self) -> None:
        """Answers every parked poll empty and waits for the claims on their way."""
        self._draining = True
        for poll in list(self._by_call.values()):
            if not poll.claiming:
                self._finish(poll, None)
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _replay(self, member: Member, poller: int, request_id: str, now: float) -> Delivery | None:
        delivery = member.replay(poller, request_id, now)
        if delivery is None:
            return None
        held = [g for g in delivery.grants if (f := self._memory.in_flight.get(g.job_id)) and f.fence == g.fence]
        if not held:
            return None
        delivery.grants = held
        return delivery

    def _prove(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            for grant in delivery.grants:
                flight = self._memory.in_flight.get(grant.job_id)
                if flight is not None and flight.fence == grant.fence:
                    flight.proven = True

    def _match(self) -> _Round:
        round = _Round()
        room = limits.CLAIM_BATCH_MAX
        now = self._clock.monotonic()
        for key in list(self._memory.ready.queues()):
            polls = self._waiting.get(key)
            while polls and room > 0:
                matched = False
                for poll in polls:
                    if poll.give_up_at < now - limits.LEASE_DEADLINE_MARGIN_S:
                        continue
                    entries = self._memory.ready.take(poll.wants, min(poll.capacity, room), poll.bytes_max)
                    claims = [c for entry in entries if (c := self._mint(entry, poll)) is not None]
                    if claims:
                        matched = True
                        break
                if not matched:
                    break
                self._unpark(poll)
                poll.claiming = True
                room -= len(claims)
                round.claims += claims
                round.polls.append((poll, [c.entry.id for c in claims]))
            if room <= 0:
                break
        return round

    def _mint(self, entry: Entry, poll: Poll) -> Claim | None:
        term = self._memory.terms.get(entry.shard)
        if term is None:
            return None
        epoch, counter = self._counters.get(entry.shard, (term.epoch, 0))
        counter = counter + 1 if epoch == term.epoch else 1
        self._counters[entry.shard] = (term.epoch, counter)
        self._memory.claiming.add(entry.id)
        return Claim(entry, ids.mint_fence(term.epoch, counter), poll.member.id)

    async def _claim(self, round: _Round) -> None:
        tenants = {poll.member.session.tenant_id: poll.member.tenant for poll, _ in round.polls}
        try:
            grants = await self._leases.claim(round.claims, tenants, self._database_clock.now())
        except Exception as error:
            log.log(
                logging.WARNING if isinstance(error, RotaError) else logging.ERROR,
                "a claim of %d jobs failed: %s",
                len(round.claims),
                error,
                exc_info=not isinstance(error, RotaError),
            )
            self._undo(round)
            return
        by_job = {grant.job_id: grant for grant in grants}
        now = self._clock.monotonic()
        for claim in round.claims:
            self._memory.claimed(claim.entry.id)
        if len(grants) < len(round.claims):
            missed = [c for c in round.claims if c.entry.id not in by_job]
            self._give_back([_doubt(claim) for claim in missed])
        for poll, wanted in round.polls:
            self._deliver(poll, [by_job[job] for job in wanted if job in by_job], now)
        self._observe(round.claims)

    def _deliver(self, poll: Poll, grants: list[Grant], now: float) -> None:
        poll.claiming = False
        if not grants:
            self._park_again(poll)
            return
        delivery = poll.member.deliver(poll.poller, poll.request_id, grants, now)
        for grant in grants:
            self._memory.in_flight.add(
                Flight(
                    grant.tenant_id,
                    grant.job_id,
                    grant.shard,
                    grant.fence,
                    grant.session_id,
                    now + grant.run_timeout_s,
                    poller=poll.poller,
                    batch=delivery.batch,
                )
            )
        if poll.abandoned or poll.answer.done():
            poll.member.deliveries.remove(delivery)
            self._give_back(undelivered([delivery]))
            self._finish(poll, None)
        else:
            self._finish(poll, delivery)

    def _undo(self, round: _Round) -> None:
        for claim in round.claims:
            self._memory.claimed(claim.entry.id)
        self._give_back([_doubt(claim) for claim in round.claims])
        for poll, _ in round.polls:
            poll.claiming = False
            self._park_again(poll)

    def _observe(self, claims: Sequence[Claim]) -> None:
        now = self._database_clock.now()
        for claim in claims:
            self._metrics.observe("rota.lag.dispatch", max(now - claim.entry.due, 0.0))

    def _claimed(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._free += 1
        if not task.cancelled() and task.exception() is not None:
            log.error("a claim ended badly", exc_info=task.exception())
        self.pump()

    def _park(self, poll: Poll) -> None:
        self._by_call[poll.member.id, poll.poller] = poll
        self._parked += 1
        for queue in poll.wants.queues:
            self._waiting.setdefault((poll.wants.tenant_id, queue), OrderedDict())[poll] = None

    def _park_again(self, poll: Poll) -> None:
        if poll.answer.done():
            return
        if poll.abandoned or self._draining or not poll.member.active or poll.give_up_at <= self._clock.monotonic():
            self._finish(poll, None)
        else:
            self._park(poll)

    def _unpark(self, poll: Poll) -> None:
        self._parked -= 1
        for queue in poll.wants.queues:
            key = (poll.wants.tenant_id, queue)
            waiting = self._waiting[key]
            del waiting[poll]
            if not waiting:
                del self._waiting[key]

    def _is_parked(self, poll: Poll) -> bool:
        return poll in self._waiting.get((poll.wants.tenant_id, poll.wants.queues[0]), ())

    def _finish(self, poll: Poll, delivery: Delivery | None) -> None:
        if self._is_parked(poll):
            self._unpark(poll)
        if not poll.answer.done():
            poll.answer.set_result(delivery)

    def _time_out(self, poll: Poll) -> None:
        poll.timer = None
        if not poll.claiming:
            self._finish(poll, None)

    def _supersede(self, poll: Poll) -> None:
        """The same poller asks again: the earlier call is dead, whatever its connection says."""
        poll.abandoned = True
        if not poll.claiming:
            self._finish(poll, None)

    def _abandon(self, poll: Poll) -> None:
        poll.abandoned = True
        if self._is_parked(poll):
            self._unpark(poll)
        elif poll.answer.done() and not poll.answer.cancelled():
            delivery = poll.answer.result()
            if delivery is not None and delivery in poll.member.deliveries:
                poll.member.deliveries.remove(delivery)
                self._give_back(undelivered([delivery]))


def undelivered(deliveries: Sequence[Delivery]) -> list[LostLease]:
    """The leases of answers that did not arrive, to be given back without counting."""
    return [
        LostLease(grant.tenant_id, grant.job_id, grant.fence, Ending(Outcome.UNDELIVERED))
        for delivery in deliveries
        for grant in delivery.grants
    ]


def _doubt(claim: Claim) -> LostLease:
    return LostLease(claim.entry.tenant_id, claim.entry.id, claim.fence, Ending(Outcome.UNDELIVERED))
