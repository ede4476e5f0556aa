"""All that a coordinator keeps in memory about due work: derived from rows, and thrown away without loss.

It hears of every commit through `Notices`, and of everything else through the poller, which reads the rows again
and again. Timers hold what is due within the lookahead; at its time a job moves to the ready queue and wakes the
dispatcher.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterable, Sequence

from rota.clock import DatabaseClock
from rota.coordinator.inflight import Flight, InFlight
from rota.coordinator.members import Member, Members
from rota.coordinator.news import Order
from rota.coordinator.peers import Peers
from rota.domain import limits
from rota.domain.fairness import Entry, Position, ReadyQueue
from rota.domain.ids import CoordinatorId, Fence, JobId, SessionId, ShardNo, TenantId
from rota.domain.model import DirectiveKind, ShardTerm
from rota.telemetry import Metrics

TIMERS_MAX = 200_000
RELEASED_AT_ONCE = 100
"""Timers that become ready in one turn of the event loop: of ten thousand of one second the first are claimed at once,
and not when the last has been moved."""
TICK_S = 1.0
"""The timer looks at the clock at least this often, so that a corrected clock is followed."""


class Memory:
    """Implements `service.notices.Notices`."""

    def __init__(self, database_clock: DatabaseClock, metrics: Metrics, peers: Peers) -> None:
        self._metrics = metrics
        self._peers = peers
        self._database_clock = database_clock
        self.terms: dict[ShardNo, ShardTerm] = {}
        self.ready = ReadyQueue()
        self.in_flight = InFlight()
        self.members = Members()
        self.claiming: set[JobId] = set()
        """Jobs whose claim is on its way."""
        self.moved: set[JobId] = set()
        """Jobs heard of since the poller began its present read: what that read says of them is old."""
        self.on_ready: Callable[[], None] = lambda: None
        self.on_armed: Callable[[], None] = lambda: None
        self.on_late: Callable[[Sequence[Entry]], None] = lambda entries: None
        self.on_member_gone: Callable[[Member], None] = lambda member: None
        self.on_queues: Callable[[], None] = lambda: None
        self.on_other_database: Callable[[], None] = lambda: None
        """The database is not the one that it was: what is known by a version may be something else there."""
        self.on_lease_ended: Callable[[JobId], None] = lambda job: None
        self.on_shards_gone: Callable[[frozenset[ShardNo]], None] = lambda shards: None
        self.on_rewind: Callable[[ShardNo, Position], None] = lambda shard, position: None
        self._timers: list[tuple[int, str, Entry]] = []
        self._timed: dict[str, int] = {}
        """When each is due: a timer that says otherwise is of a job that was moved."""
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0
        self._finish_waiters: dict[JobId, dict[asyncio.Event, None]] = {}

    @property
    def timers(self) -> int:
        return len(self._timers)

    def accept(self, entries: Iterable[Entry]) -> int:
        """Takes waiting jobs of owned shards; what lies beyond the lookahead is left to the poller. How many were
        new."""
        now_us = int(self._database_clock.now() * 1e6)
        horizon_us = now_us + int((limits.LOOKAHEAD_S + 1.0) * 1e6)
        new = 0
        ready = False
        for entry in entries:
            if entry.shard not in self.terms or entry.id in self.claiming:
                continue
            if entry.id in self.ready or self._timed.get(entry.id) == entry.due_us:
                continue
            # It may have been moved: the timer that it has counts no more.
            self._timed.pop(entry.id, None)
            if entry.due_us > horizon_us:
                continue
            if entry.start_by is not None and entry.start_by * 1e6 <= now_us:
                self.on_late([entry])
            elif entry.due_us <= now_us:
                ready |= self.ready.push(entry)
                new += 1
            elif len(self._timers) < TIMERS_MAX:
                heapq.heappush(self._timers, (entry.due_us, entry.id, entry))
                self._timed[entry.id] = entry.due_us
                new += 1
            else:
                self.on_rewind(entry.shard, entry.position)
        self._arm()
        if ready:
            self.on_ready()
        return new

    def remove_member(self, session: SessionId) -> None:
        """Forgets a session that is dead, and answers its polls."""
        member = self.members.remove(session)
        if member is not None:
            member.draining = True
            self.on_member_gone(member)

    def forget_absent(self, session: SessionId) -> None:
        """Forgets a session that talks to another coordinator by now, if it lives."""
        self.members.remove(session)
        for flight in self.in_flight.of(session):
            if flight.shard not in self.terms:
                self.in_flight.remove(flight.job_id, flight.fence)

    def adopt(self, flight: Flight) -> None:
        """Takes a lease that was found in the rows."""
        if flight.shard in self.terms:
            self.in_flight.add(flight)

    def prove(self, flight: Flight) -> None:
        """The worker holds this lease, by its own word."""
        if not flight.proven:
            flight.proven = True
            if self._peers and flight.shard not in self.terms:
                self._peers.tell_proven(flight.shard, flight.job_id, flight.fence)

    def release_due(self) -> int:
        """Moves timers that are due to the ready queue, as many as the event loop can do in one go; how many."""
        now_us = int(self._database_clock.now() * 1e6)
        moved = 0
        while self._timers and self._timers[0][0] <= now_us and moved < RELEASED_AT_ONCE:
            due_us, id, entry = heapq.heappop(self._timers)
            if self._timed.get(id) != due_us:
                continue
            del self._timed[id]
            if entry.shard in self.terms:
                self._metrics.observe("rota.lag.eligible", (now_us - entry.due_us) / 1e6)
                self.ready.push(entry)
                moved += 1
        return moved

    def forget_shards(self, shards: frozenset[ShardNo]) -> None:
        """Drops everything about shards that are no longer owned."""
        for shard in shards:
            self.terms.pop(shard, None)
        self.ready.forget_shards(shards)
        self.in_flight.forget_shards(shards, self.members)
        self._timers = [item for item in self._timers if item[2].shard not in shards]
        heapq.heapify(self._timers)
        self._timed = {id: due_us for due_us, id, _ in self._timers if self._timed.get(id) == due_us}
        self.on_shards_gone(shards)

    def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()

    def finish_waiter(self, job: JobId) -> asyncio.Event:
        """An event that is set when the job becomes terminal through this coordinator."""
        event = asyncio.Event()
        self._finish_waiters.setdefault(job, {})[event] = None
        return event

    def drop_finish_waiter(self, job: JobId, event: asyncio.Event) -> None:
        waiters = self._finish_waiters.get(job)
        if waiters is not None:
            waiters.pop(event, None)
            if not waiters:
                del self._finish_waiters[job]

    def claimed(self, job: JobId) -> None:
        """A claim has come back, with the job or without it."""
        self.claiming.discard(job)
        self.moved.add(job)

    def jobs_waiting(self, entries: Sequence[Entry]) -> None:
        self.take_waiting(entries, None)

    def take_waiting(self, entries: Sequence[Entry], teller: CoordinatorId | None) -> None:
        """The same, heard of a peer, which may not know yet who owns a shard now."""
        self.moved.update(entry.id for entry in entries)
        self.accept(entries)
        if self._peers:
            horizon_us = int((self._database_clock.now() + limits.LOOKAHEAD_S) * 1e6)
            strange = (e for e in entries if e.shard not in self.terms and e.due_us <= horizon_us)
            self._peers.tell_waiting(strange, teller)

    def lease_ended(self, tenant: TenantId, job: JobId, fence: Fence) -> None:
        if self._peers:
            self._peers.tell_settled(tenant, job, fence)
        self.forget_lease(job, fence)

    def forget_lease(self, job: JobId, fence: Fence) -> None:
        """The same, heard of a peer."""
        self.moved.add(job)
        self.in_flight.remove(job, fence)
        self.on_lease_ended(job)

    def cancel_requested(self, session: SessionId, job: JobId, fence: Fence, reason: str) -> None:
        # Noted with the lease too, for a worker that is not here yet.
        flight = self.in_flight.get(job)
        if flight is not None and flight.fence == fence:
            flight.cancelling = True
        self.direct(session, DirectiveKind.CANCEL, job, fence, reason)

    def lease_revoked(self, session: SessionId, job: JobId, fence: Fence) -> None:
        self.direct(session, DirectiveKind.LOST, job, fence, "")

    def schedules_armed(self) -> None:
        self.on_armed()
        if self._peers:
            self._peers.tell_armed()

    def queues_changed(self) -> None:
        self.on_queues()
        if self._peers:
            self._peers.tell_queues()

    def job_finished(self, job: JobId) -> None:
        for event in self._finish_waiters.get(job, ()):
            event.set()

    def direct(
        self,
        session: SessionId,
        kind: DirectiveKind,
        job: JobId | None = None,
        fence: Fence | None = None,
        reason: str = "",
    ) -> None:
        """Asks a worker for something, through the peers where it talks to one of them."""
        member = self.members.get(session)
        if member is not None:
            member.direct(kind, job, fence, reason)
        if self._peers and (member is None or member.push is None):
            # Without a stream it may have moved to a peer, and not be missed here yet.
            self._peers.tell_order(Order(session, kind, job, fence, reason))

    def _arm(self) -> None:
        if not self._timers:
            return
        due = self._timers[0][0] / 1e6
        if self._alarm is not None and self._alarm_at <= due and not self._alarm.cancelled():
            return
        if self._alarm is not None:
            self._alarm.cancel()
        wait_s = min(max(due - self._database_clock.now(), 0.0), TICK_S)
        self._alarm_at = due
        self._alarm = asyncio.get_running_loop().call_later(wait_s, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        if self.release_due():
            self.on_ready()
        self._arm()
