"""Ends what nobody will end: leases of dead sessions, of answers that never arrived, of handlers that run too long,
and waiting jobs past their start_by.

A reaper that could not run cannot tell a dead worker from one that it did not hear. So after every gap it first grants
an amnesty: sessions that ran out meanwhile get another TTL. So do all when the database's clock was put elsewhere.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from rota.clock import Clock, DatabaseClock
from rota.coordinator.dispatcher import undelivered
from rota.coordinator.inflight import ADOPTED, Flight
from rota.coordinator.loop import Loop
from rota.coordinator.memory import Memory
from rota.coordinator.peers import Peers
from rota.domain import limits
from rota.domain.errors import Unavailable
from rota.domain.fairness import Entry
from rota.domain.ids import JobId, SessionId, TenantId
from rota.domain.model import DirectiveKind, Failure, Outcome
from rota.domain.transition import Ending
from rota.service.completions import Completions, LostLease
from rota.service.sessions import Sessions
from rota.telemetry import Metrics

log = logging.getLogger(__name__)

T = TypeVar("T")

TICK_S = 1.0
SWEEP_S = 2.0
SWEEPS_PER_TTL = 8
"""At least so many sweeps a TTL, so that the usual pause between two is never a gap."""
GAP_SHARE = 3
"""A TTL's share without a sweep that is a gap: a worker beats several times a TTL, so less cannot make it look dead."""
BATCH = 500
ENDED_MAX = 200_000
"""Leases that wait to be ended; the poller finds again what is over."""

ASK_SHARE = 0.3
"""After this share of the delivery TTL a worker is asked whether an answer arrived: it repeats a call that has none,
and gets the same leases, long before they would be given to another. One that has them has said so by then."""

LOOKS_PER_DELIVERY_TTL = 20
"""While answers are on their way."""

NOT_PROVEN = "an answer with leases may be lost; make the call again that waits for one"
"""Why a worker is asked for its inventory."""

UNHEARD_S = 1.0
"""So long after the delivery TTL the peer that asked for a lease would have told of its receipt."""
ABSENT_TTLS = 3
"""A session that has not been heard of here for so many TTLs talks to another coordinator, or is dead."""

ABSENT_EVERY_S = 10.0

_EVER_S = 10 * 365 * 86_400.0


class Reaper(Loop):
    name = "reaper"

    def __init__(
        self,
        memory: Memory,
        completions: Completions,
        sessions: Sessions,
        clock: Clock,
        database_clock: DatabaseClock,
        metrics: Metrics,
        peers: Peers,
        *,
        delivery_ttl_s: float,
    ) -> None:
        super().__init__(clock)
        self._memory = memory
        self._peers = peers
        self._completions = completions
        self._sessions = sessions
        self._database_clock = database_clock
        self._metrics = metrics
        self._delivery_ttl_s = delivery_ttl_s
        self._silent_since: float | None = None
        self._stepped_s = 0.0
        self._sweep_at = 0.0
        self._absent_at = 0.0
        self._listen_until = 0.0
        self._lost: dict[tuple[JobId, int], LostLease] = {}
        self._late: dict[JobId, TenantId] = {}
        memory.on_late = self.expire
        database_clock.on_step.append(self.clock_stepped)

    def expect_survivors(self) -> None:
        """No coordinator was there before this one, so nobody can have heard any beat."""
        self._silent_since = -_EVER_S

    def listen_first(self) -> None:
        """Others are there, but for all that is known here they have come just now as well, after nobody could hear
        a beat. So no session is expired before each could have been heard by this one."""
        self._listen_until = self.clock.monotonic() + self._sessions.ttl_s

    def clock_stepped(self, step_s: float) -> None:
        """The database's clock was put elsewhere: forward, and all sessions look dead; back, and none would ever die.
        So each gets another term by the clock as it is."""
        log.warning("the database's clock was put %+.1f s: sessions get another term", step_s)
        self._stepped_s = max(self._stepped_s, abs(step_s))
        self._sweep_at = 0.0
        self.wake()

    def give_back(self, leases: Sequence[LostLease]) -> None:
        """Takes leases to be ended, at once."""
        if leases and len(self._lost) < ENDED_MAX:
            self._lost |= {(lease.job_id, lease.fence): lease for lease in leases}
            self.wake()

    def expire(self, entries: Sequence[Entry]) -> None:
        """Takes waiting jobs past their start_by."""
        if entries:
            self._late |= {entry.id: entry.tenant_id for entry in entries}
            self.wake()

    def sessions_ended(self, sessions: Sequence[SessionId]) -> None:
        """Sessions are over, by the word of the rows: nobody will report on their leases."""
        for session in sessions:
            self._memory.remove_member(session)
            self.give_back([_lost(flight) for flight in self._memory.in_flight.of(session)])

    async def step(self) -> float:
        now = self.clock.monotonic()
        sweep_s = min(SWEEP_S, self._sessions.ttl_s / SWEEPS_PER_TTL)
        tick_s = min(TICK_S, sweep_s)
        if now >= self._sweep_at:
            await self._sweep_sessions(now)
            self._sweep_at = now + sweep_s - tick_s / 10
        delivering = self._memory.members.delivering()
        for member in delivering:
            late = member.undelivered(now, self._delivery_ttl_s)
            if late:
                self.give_back(undelivered(late))
            if member.must_ask(now, self._delivery_ttl_s * ASK_SHARE):
                self._memory.direct(member.id, DirectiveKind.RESYNC, reason=NOT_PROVEN)
        unheard = self._memory.in_flight.unheard(now - self._delivery_ttl_s - UNHEARD_S, now)
        for flight in unheard:
            flight.poller, flight.batch, flight.via, flight.on_its_way = -1, 0, None, False
        for session in dict.fromkeys(flight.session_id for flight in unheard):
            self._memory.direct(session, DirectiveKind.RESYNC, reason=ADOPTED)
        overrun = self._memory.in_flight.overrun(now)
        self.give_back([self._timed_out(flight) for flight in overrun])
        self.expire(self._memory.ready.expired(self._database_clock.now()))
        await self._end_leases()
        await self._end_late()
        if delivering:
            tick_s = min(tick_s, self._delivery_ttl_s / LOOKS_PER_DELIVERY_TTL)
        return 0.0 if self._lost or self._late else tick_s

    async def _sweep_sessions(self, now: float) -> None:
        silent_s = 0.0 if self._silent_since is None else now - self._silent_since
        stepped_s = self._stepped_s
        if stepped_s or silent_s > self._sessions.ttl_s / GAP_SHARE:
            spared = await self._sessions.grant_amnesty(silent_s + stepped_s + self._sessions.ttl_s)
            if self._stepped_s == stepped_s:
                self._stepped_s = 0.0
            if spared:
                log.info("%d sessions that nobody could hear for a while get another term", spared)
        if now >= self._listen_until:
            await self._expire_sessions()
        if now >= self._absent_at:
            self._absent_at = now + ABSENT_EVERY_S
            self._forget_absent(now)
        self._silent_since = now

    def _forget_absent(self, now: float) -> None:
        absent_s = max(ABSENT_TTLS * self._sessions.ttl_s, limits.LEASE_WAIT_MAX_S + self._sessions.ttl_s)
        for member in self._memory.members:
            if now - max(member.seen_at, member.last_poll_at, member.last_beat_at) > absent_s:
                self._memory.forget_absent(member.id)

    async def _expire_sessions(self) -> None:
        dead = await self._sessions.expire(self._database_clock.datetime())
        for session in dead:
            log.info("session %s is dead: no beat for its TTL", session)
        self.sessions_ended(dead)
        self._peers.tell_sessions_ended(dead)

    async def _end_leases(self) -> None:
        batch = list(self._lost.values())[:BATCH]
        if not batch:
            return
        ended = await _apart(self._completions.lose, batch)
        for lease in batch:
            self._lost.pop((lease.job_id, lease.fence), None)
            self._memory.lease_ended(lease.tenant_id, lease.job_id, lease.fence)
            if lease.ending.outcome is Outcome.UNDELIVERED:
                self._metrics.add("rota.leases.released_undelivered")
        # Claims that came back empty are among them; a job that waits still goes back to the queue. It may not be due
        # by the database's clock, whatever the estimate said.
        sent_at = self.clock.monotonic()
        waiting, now = await self._completions.waiting([(lease.tenant_id, lease.job_id) for lease in batch])
        if now is not None:
            self._database_clock.observe(now, sent_at)
        self._memory.accept(waiting)
        if ended:
            log.info("ended %d leases that nobody holds", ended)

    async def _end_late(self) -> None:
        batch = list(self._late.items())[:BATCH]
        if batch:
            await _apart(self._completions.expire, [(tenant, job) for job, tenant in batch])
            for job, _ in batch:
                self._late.pop(job, None)

    def _timed_out(self, flight: Flight) -> LostLease:
        reason = "the run timeout has passed"
        self._memory.direct(flight.session_id, DirectiveKind.LOST, flight.job_id, flight.fence, reason)
        failure = Failure("TimedOut", "the attempt ran longer than timeouts.run")
        return LostLease(flight.tenant_id, flight.job_id, flight.fence, Ending(Outcome.TIMED_OUT, failure))


async def _apart(write: Callable[[Sequence[T]], Awaitable[int]], items: Sequence[T]) -> int:
    """Writes items together; where some cannot be written at all, the others without them. Those are found again by
    whoever reads the rows."""
    try:
        return await write(items)
    except Unavailable:
        raise
    except Exception:
        if len(items) == 1:
            log.exception("cannot be ended: %s", items[0])
            return 0
    middle = len(items) // 2
    return await _apart(write, items[:middle]) + await _apart(write, items[middle:])


def _lost(flight: Flight) -> LostLease:
    return LostLease(flight.tenant_id, flight.job_id, flight.fence, Ending(Outcome.LEASE_LOST))
