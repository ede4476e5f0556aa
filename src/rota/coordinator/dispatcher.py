"""Where waiting workers meet ready jobs.

A waiting poll holds no row. Once a job is in hand, one statement claims for many polls at a time; nothing reaches a
worker before it has committed. The claim runs in a task of its own that no RPC's cancellation reaches: when a caller
has gone meanwhile, its grants are given back at once.

A poll for which a peer offers a better job than there is here is served by a claim at that peer.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field

from rota.clock import Clock, DatabaseClock
from rota.coordinator.claims import Claims, not_arrived
from rota.coordinator.demand import Demands
from rota.coordinator.gates import Gates
from rota.coordinator.inflight import Flight
from rota.coordinator.members import Delivery, Member
from rota.coordinator.memory import Memory
from rota.coordinator.news import ClaimWish, Offer
from rota.coordinator.offers import Offers
from rota.coordinator.parking import Guest, Parking, Poll, Turn
from rota.coordinator.peers import Peers
from rota.domain import limits
from rota.domain.errors import RotaError, Unavailable
from rota.domain.fairness import TURN_JOBS, Wants
from rota.domain.ids import CoordinatorId, JobId, TenantId
from rota.domain.model import Grant
from rota.service.completions import LostLease
from rota.store.port import Claim
from rota.telemetry import Metrics

log = logging.getLogger(__name__)

FORWARDED_AT_ONCE = 64
"""Claims at peers on their way. More would only queue up there."""

PARKED_MAX = 100_000
"""Polls that wait here; more are answered empty at once, and come again."""

CLAIM_SHARED_MAX = 100
"""Jobs of one claim while several tenants have work: none of them waits long for another's to end."""

SHARED_FOR_S = 2.0
"""Several tenants have work for so long after two of them were served one after the other."""

GUESTS_MAX = 1_000
"""Claims of peers that wait for a connection."""

LEASE_BYTES_MAX = limits.PAYLOAD_BYTES_MAX + limits.HEADERS_BYTES_MAX + limits.LEASE_OVERHEAD_BYTES
"""An answer with less room than this is full."""


@dataclass(slots=True)
class _Share:
    """What one poll gets in a round."""

    capacity: int
    bytes_left: int
    jobs: list[JobId] = field(default_factory=list)

    @property
    def full(self) -> bool:
        return self.capacity <= 0 or (bool(self.jobs) and self.bytes_left < LEASE_BYTES_MAX)


@dataclass(slots=True)
class _Round:
    """Who is to get which jobs, best first."""

    claims: list[Claim] = field(default_factory=list)
    polls: dict[Poll, _Share] = field(default_factory=dict)
    guests: list[tuple[Guest, list[JobId]]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.claims)

    def add(self, claims: Sequence[Claim]) -> list[JobId]:
        """The jobs that are claimed."""
        self.claims += claims
        return [claim.entry.id for claim in claims]


class Dispatcher:
    def __init__(
        self,
        memory: Memory,
        claims: Claims,
        clock: Clock,
        database_clock: DatabaseClock,
        metrics: Metrics,
        peers: Peers,
        demands: Demands,
        offers: Offers,
        gates: Gates,
        *,
        me: CoordinatorId,
        trusted: Callable[[], bool],
        give_back: Callable[[Sequence[LostLease]], None],
        claims_at_once: int,
    ) -> None:
        self._memory = memory
        self._claims = claims
        self._clock = clock
        self._database_clock = database_clock
        self._metrics = metrics
        self._peers = peers
        self._demands = demands
        self._offers = offers
        self._me = me
        self._trusted = trusted
        self._give_back = give_back
        self._free = claims_at_once
        self._express_free = True
        self._served: dict[TenantId, int] = {}
        """Claims on their way for each tenant."""
        self._last_tenant: TenantId | None = None
        self._shared_at = float("-inf")
        """When two tenants were served one after the other, the last time."""
        self._forwarding = 0
        self._waiting = Parking()
        self._guests: deque[Guest] = deque()
        self._by_call: dict[tuple[str, int], Poll] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._draining = False
        memory.on_ready = self.pump
        memory.on_member_gone = self.drop
        gates.on_open = self.pump
        claims.on_rested = self.pump

    @property
    def parked(self) -> int:
        return len(self._waiting)

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
        if member.is_overtaken(poller, request_id):
            return None
        arrived, lost = member.acknowledge_batch(poller, ack_batch)
        self._prove(arrived)
        if lost:
            self._give_back(undelivered(lost))
        if self._draining or not member.active or len(self._waiting) >= PARKED_MAX:
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

    async def claim_for(self, wish: ClaimWish, wants: Wants) -> list[Grant]:
        """Claims what is ready for a session that is attached to a peer."""
        if self._draining or self._claims.resting or not self._trusted() or len(self._guests) >= GUESTS_MAX:
            raise Unavailable("this coordinator grants nothing for now; try again", retry_after_s=0.1)
        guest = Guest(wish, wants, asyncio.get_running_loop().create_future())
        self._guests.append(guest)
        self.pump()
        try:
            return await guest.answer
        except asyncio.CancelledError:
            if guest.answer.done() and not guest.answer.cancelled():
                self._give_back([not_arrived(g.tenant_id, g.job_id, g.fence) for g in guest.answer.result()])
            raise

    def pump(self) -> None:
        """Starts claims while there are jobs, somebody who waits, and a free connection."""
        if self._draining:
            return
        if self._demands and self._waiting:
            self._forward()
        if self._claims.resting:
            return
        while self._free and (self._waiting or self._guests) and self._trusted():
            round = self._match()
            if not round:
                break
            self._free -= 1
            self._start_claim(round, self._claimed)
        if not self._free and self._express_free and self._waiting and self._trusted():
            self._pump_express()
        self._offers.look()

    def _pump_express(self) -> None:
        """One claim more for tenants that no claim on its way is for, so that they do not wait for a big one's."""
        round = _Round()
        self._fill(round, CLAIM_SHARED_MAX, self._served.keys())
        if round:
            self._express_free = False
            self._start_claim(round, self._express_claimed)

    def drop(self, member: Member) -> None:
        """Answers the polls of a session that takes no more jobs."""
        for poll in [p for p in self._by_call.values() if p.member is member]:
            self._finish(poll, None)

    async def drain(self) -> None:
        """Answers every parked poll empty and waits for the claims on their way."""
        self._draining = True
        for guest in self._guests:
            _answer(guest, [])
        self._guests.clear()
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
                    self._memory.prove(flight)

    def _match(self) -> _Round:
        round = _Round()
        shared = self._clock.monotonic() - self._shared_at < SHARED_FOR_S
        most = CLAIM_SHARED_MAX if shared else limits.CLAIM_BATCH_MAX
        self._fill(round, self._seat_guests(round, most), frozenset())
        return round

    def _fill(self, round: _Round, room: int, but: Collection[TenantId]) -> None:
        """Gives turns until there is no room, nobody waits, or it is the turn of one of these tenants."""
        ready = self._memory.ready
        now = self._clock.monotonic()
        while room > 0 and self._waiting and (turn := ready.next_turn()) is not None and turn[0] not in but:
            given = self._serve(round, turn, min(room, TURN_JOBS), now)
            if not given:
                ready.pass_over(*turn)
            room -= given
        for poll in round.polls:
            self._unpark(poll)
            poll.claiming = True

    def _serve(self, round: _Round, turn: Turn, most: int, now: float) -> int:
        """Gives jobs of one queue to one poll that wants them; how many."""
        for wants in self._waiting.groups(turn):
            for poll in self._waiting.of(turn, wants):
                share = round.polls.get(poll)
                if share is None:
                    if poll.give_up_at < now - limits.LEASE_DEADLINE_MARGIN_S:
                        continue
                    share = _Share(poll.capacity, poll.bytes_max)
                elif share.full:
                    continue
                entries = self._memory.ready.take(wants, min(share.capacity, most), share.bytes_left)
                if not entries:
                    break
                share.capacity -= len(entries)
                share.bytes_left -= sum([entry.size for entry in entries])
                share.jobs += round.add(self._claims.mint(entries, poll.member.id))
                round.polls[poll] = share
                self._waiting.served(turn, wants)
                return len(entries)
        return 0

    def _seat_guests(self, round: _Round, room: int) -> int:
        """Serves claims of peers, each of which is answered at once, if with nothing; the room that is left."""
        while self._guests and room > 0:
            guest = self._guests.popleft()
            if guest.answer.done():
                continue
            wish = guest.wish
            entries = self._memory.ready.take(guest.wants, min(wish.capacity, room), wish.bytes_max)
            if entries:
                room -= len(entries)
                round.guests.append((guest, round.add(self._claims.mint(entries, wish.session_id))))
            else:
                _answer(guest, [])
        return room

    def _start_claim(self, round: _Round, done: "Callable[[asyncio.Task[None]], None]") -> None:
        tenants = {poll.member.session.tenant_id: poll.member.tenant for poll in round.polls}
        tenants |= {guest.wish.tenant_id: guest.wish.tenant for guest, _ in round.guests}
        for tenant in tenants:
            self._served[tenant] = self._served.get(tenant, 0) + 1
            if tenant != self._last_tenant:
                if self._last_tenant is not None:
                    self._shared_at = self._clock.monotonic()
                self._last_tenant = tenant
        self._start(self._claim(round, tenants), done)

    async def _claim(self, round: _Round, tenants: Mapping[TenantId, str]) -> None:
        try:
            await self._grant(round, tenants)
        finally:
            for tenant in tenants:
                self._served[tenant] -= 1
                if not self._served[tenant]:
                    del self._served[tenant]

    async def _grant(self, round: _Round, tenants: Mapping[TenantId, str]) -> None:
        grants = await self._claims.grant(round.claims, tenants)
        by_job = {grant.job_id: grant for grant in grants}
        now = self._clock.monotonic()
        for guest, wanted in round.guests:
            self._deliver_to(guest, [by_job[job] for job in wanted if job in by_job], now)
        for poll, share in round.polls.items():
            found = [by_job[job] for job in share.jobs if job in by_job]
            self._deliver(poll, found, poll.member.number_batch() if found else 0, now)
        if grants:
            self._observe(round)

    def _deliver_to(self, guest: Guest, grants: list[Grant], now: float) -> None:
        wish = guest.wish
        self._follow(grants, now, wish.poller, wish.batch, via=wish.caller)
        if not _answer(guest, grants):
            self._give_back([not_arrived(g.tenant_id, g.job_id, g.fence) for g in grants])

    def _deliver(self, poll: Poll, grants: list[Grant], batch: int, now: float) -> None:
        poll.claiming = False
        if not grants:
            self._park_again(poll)
            return
        delivery = poll.member.deliver(batch, poll.poller, poll.request_id, grants, now)
        self._follow(grants, now, poll.poller, batch)
        if poll.abandoned or poll.answer.done():
            poll.member.deliveries.remove(delivery)
            self._give_back(undelivered([delivery]))
            self._finish(poll, None)
        else:
            self._finish(poll, delivery)

    def _follow(
        self, grants: Sequence[Grant], now: float, poller: int, batch: int, via: CoordinatorId | None = None
    ) -> None:
        for grant in grants:
            self._memory.in_flight.add(
                Flight(
                    grant.tenant_id,
                    grant.job_id,
                    grant.shard,
                    grant.fence,
                    grant.session_id,
                    now + grant.run_timeout_s,
                    poller=poller,
                    batch=batch,
                    via=via,
                    asked_at=now,
                )
            )

    def _forward(self) -> None:
        """Claims at peers for the polls for which they offer something better than there is here."""
        now = self._clock.monotonic()
        for kind in self._demands.offered():
            turn = (kind.tenant_id, kind.queue)
            for wants in self._waiting.groups(turn):
                for poll in list(self._waiting.of(turn, wants)):
                    if self._forwarding >= FORWARDED_AT_ONCE:
                        return
                    if poll.give_up_at < now - limits.LEASE_DEADLINE_MARGIN_S:
                        continue
                    if not self._forward_one(poll):
                        break

    def _forward_one(self, poll: Poll) -> bool:
        """False: here is something better for it and its like."""
        found = self._demands.best(poll.kinds)
        if found is None:
            return False
        peer, order = found
        here = self._memory.ready.peek(poll.wants) if self._trusted() else None
        if here is not None and here <= order:
            return False
        kinds = self._demands.of(poll.kinds, peer)
        self._demands.use(kinds, peer, poll.capacity)
        self._unpark(poll)
        poll.claiming = True
        self._forwarding += 1
        self._start(self._claim_at(poll, peer, kinds), self._forwarded)
        return True

    async def _claim_at(self, poll: Poll, peer: CoordinatorId, kinds: tuple[int, ...]) -> None:
        member = poll.member
        batch = member.number_batch()
        wish = ClaimWish(
            self._me,
            member.session.tenant_id,
            member.tenant,
            member.id,
            poll.poller,
            batch,
            kinds,
            poll.capacity,
            poll.bytes_max,
        )
        grants: list[Grant] = []
        try:
            claimed = await self._peers.claim(peer, wish)
        except Exception as error:
            # Offers of one that does not answer are nothing; what it may have granted it looks for itself.
            expected = isinstance(error, RotaError)
            level = logging.DEBUG if expected else logging.ERROR
            log.log(level, "a claim at coordinator %s failed: %s", peer, error, exc_info=not expected)
            self._demands.forget(peer)
        else:
            grants = claimed.grants
            # Nothing, although something is left, is no reason to ask again at once.
            self._demands.hear(peer, claimed.left if grants else [Offer(id, 0) for id in kinds])
            self._metrics.add("rota.leases.forwarded", len(grants))
        self._deliver(poll, grants, batch, self._clock.monotonic())

    def _observe(self, round: _Round) -> None:
        now = self._database_clock.now()
        for claim in round.claims:
            self._metrics.observe("rota.lag.dispatch", max(now - claim.entry.due, 0.0))

    def _start(self, work: Coroutine[None, None, None], done: "Callable[[asyncio.Task[None]], None]") -> None:
        task = asyncio.create_task(work, name="claim")
        self._tasks.add(task)
        task.add_done_callback(done)

    def _claimed(self, task: "asyncio.Task[None]") -> None:
        self._free += 1
        self._ended(task)

    def _express_claimed(self, task: "asyncio.Task[None]") -> None:
        self._express_free = True
        self._ended(task)

    def _forwarded(self, task: "asyncio.Task[None]") -> None:
        self._forwarding -= 1
        self._ended(task)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a claim ended badly", exc_info=task.exception())
        self.pump()

    def _park(self, poll: Poll) -> None:
        self._by_call[poll.member.id, poll.poller] = poll
        self._waiting.add(poll)
        for queue in poll.wants.queues:
            self._memory.ready.wake(poll.wants.tenant_id, queue)
        poll.kinds = self._demands.kinds(poll.wants)
        self._demands.change(poll.kinds, poll.capacity)

    def _park_again(self, poll: Poll) -> None:
        if poll.answer.done():
            return
        if poll.abandoned or self._draining or not poll.member.active or poll.give_up_at <= self._clock.monotonic():
            self._finish(poll, None)
        else:
            self._park(poll)

    def _unpark(self, poll: Poll) -> None:
        self._waiting.remove(poll)
        self._demands.change(poll.kinds, -poll.capacity)

    def _finish(self, poll: Poll, delivery: Delivery | None) -> None:
        if poll in self._waiting:
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
        if poll in self._waiting:
            self._unpark(poll)
        elif poll.answer.done() and not poll.answer.cancelled():
            delivery = poll.answer.result()
            if delivery is not None and delivery in poll.member.deliveries:
                poll.member.deliveries.remove(delivery)
                self._give_back(undelivered([delivery]))


def undelivered(deliveries: Sequence[Delivery]) -> list[LostLease]:
    """The leases of answers that did not arrive, to be given back without counting."""
    return [
        not_arrived(grant.tenant_id, grant.job_id, grant.fence) for delivery in deliveries for grant in delivery.grants
    ]


def _answer(guest: Guest, grants: list[Grant]) -> bool:
    """False: the caller has gone."""
    if guest.answer.done():
        return False
    guest.answer.set_result(grants)
    return True
