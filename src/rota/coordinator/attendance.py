"""Who is there: opens sessions, hears their beats, and compares what workers hold with what the rows say."""

import logging
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import attrgetter

from rota.clock import Clock, DatabaseClock
from rota.coordinator.commits import Batcher
from rota.coordinator.dispatcher import Dispatcher
from rota.coordinator.inflight import ADOPTED, Flight
from rota.coordinator.members import BATCH_STEP, Directive, Inventory, Member
from rota.coordinator.memory import Memory
from rota.coordinator.news import Holding
from rota.coordinator.peers import Peers
from rota.domain import limits
from rota.domain.errors import AlreadyExists, NotFound, ResourceExhausted, RotaError, session_gone
from rota.domain.ids import Fence, JobId, SessionId, TenantId
from rota.domain.model import DirectiveKind, Identity, Outcome, Session, SessionState
from rota.domain.transition import Ending
from rota.service.completions import Completions, LostLease
from rota.service.sessions import Sessions
from rota.store.port import BeatUpdate

log = logging.getLogger(__name__)

BEAT_BATCH_MAX = 1_000
BEATS_APART_S = 0.1
"""Beats that follow others within so long are written together: a statement costs as much as fifty of them."""


@dataclass(frozen=True, slots=True)
class Beat(BeatUpdate):
    """A beat on its way to the rows."""

    tenant_id: TenantId


@dataclass(frozen=True, slots=True)
class BeatAnswer:
    """`renewed_for_s` counts from the moment the beat was sent; `lost` are leases of the inventory to drop."""

    renewed_for_s: float
    lost: tuple[tuple[JobId, Fence], ...]
    directives: tuple[Directive, ...]


class Attendance:
    def __init__(
        self,
        memory: Memory,
        dispatcher: Dispatcher,
        sessions: Sessions,
        completions: Completions,
        clock: Clock,
        database_clock: DatabaseClock,
        peers: Peers,
    ) -> None:
        self._memory = memory
        self._peers = peers
        self._dispatcher = dispatcher
        self._sessions = sessions
        self._completions = completions
        self._clock = clock
        self._database_clock = database_clock
        self._batch_mark = zlib.crc32(peers.me.encode()) % BATCH_STEP
        self.beats: Batcher[Beat, SessionState] = Batcher(
            "beats",
            self._renew,
            clock,
            batch_max=BEAT_BATCH_MAX,
            concurrency=1,
            apart_s=BEATS_APART_S,
            tenant=attrgetter("tenant_id"),
            key=attrgetter("session_id"),
        )

    @property
    def ttl_s(self) -> float:
        return self._sessions.ttl_s

    async def open(self, identity: Identity, session: Session) -> Session:
        """Opens a session, or finds the one that was opened with this id before."""
        if self._memory.members.get(session.id) is None:
            self._check_room(identity)
        opened = await self._sessions.open(session)
        if _wish(opened) != _wish(session):
            raise AlreadyExists(
                "request_id: was used for another session; make a fresh one for each session",
                reason="REQUEST_ID_REUSED",
            )
        if opened.state is not SessionState.CLOSED:
            log.info("session %s opened by worker %s", opened.id, opened.worker)
            self._remember(identity, opened)
        return opened

    async def member(self, identity: Identity, session: SessionId) -> Member:
        """A living session of the caller's tenant, from memory or from its row."""
        member = self._memory.members.get(session)
        if member is None:
            self._check_room(identity)
            member = self._remember(identity, await self._sessions.get(identity.tenant_id, session))
        elif member.session.tenant_id != identity.tenant_id:
            raise session_gone(session)
        return member

    async def beat(
        self, member: Member, inventory: Inventory | None, free_slots: int, acknowledged: Sequence[int]
    ) -> BeatAnswer:
        """Renews a session, and tells it what it must know. SESSION_GONE when it is dead."""
        if member.beats_unanswered >= limits.BEATS_UNANSWERED_MAX:
            raise ResourceExhausted(
                f"{member.beats_unanswered} beats of this session are unanswered; wait for answers, one beat renews "
                "as well as many",
                retry_after_s=1.0,
            )
        member.beats_unanswered += 1
        try:
            state = await self.beats.submit(Beat(member.id, free_slots, member.session.tenant_id))
        finally:
            member.beats_unanswered -= 1
        member.last_beat_at = self._clock.monotonic()
        member.free_slots = free_slots
        member.draining = member.draining or state is SessionState.DRAINING
        member.acknowledge(acknowledged)
        lost = () if inventory is None else await self._compare(member, inventory)
        return BeatAnswer(self._sessions.ttl_s, lost, tuple(member.next_directives()))

    async def drain(self, member: Member) -> None:
        """No new jobs for this session; its parked polls are answered."""
        member.draining = True
        self._dispatcher.drop(member)
        await self._sessions.drain(member.session.tenant_id, member.id)

    async def close(self, member: Member) -> int:
        """Ends a session; the leases that it holds still are given back, and how many they were."""
        self._memory.remove_member(member.id)
        await self._sessions.close(member.session.tenant_id, member.id)
        held = [
            LostLease(f.tenant_id, f.job_id, f.fence, Ending(Outcome.RELEASED))
            for f in self._memory.in_flight.of(member.id)
        ]
        released = await self._completions.lose(held) if held else 0
        # Others may know of more.
        self._peers.tell_sessions_ended([member.id])
        return released

    async def close_named(self, identity: Identity, session: SessionId) -> int:
        """The same by its name. One that is over already is closed: whoever did not get the answer asks again."""
        try:
            member = await self.member(identity, session)
        except NotFound:
            if await self._sessions.is_closed(identity.tenant_id, session):
                return 0
            raise
        return await self.close(member)

    def missing(self, holding: Holding) -> list[LostLease]:
        """What a session that talks to a peer does not hold of the leases of own shards, by its inventory."""
        flights = {
            (f.job_id, f.fence): f
            for f in self._memory.in_flight.of(holding.session_id)
            if f.tenant_id == holding.tenant_id and f.shard in self._memory.terms
        }
        return [_dropped(flight) for flight in self._sort_out(flights, holding.inventory) if not flight.on_its_way]

    async def settle_beats(self) -> None:
        await self.beats.drain()

    def _check_room(self, identity: Identity) -> None:
        portions = self._memory.members.portions
        if not portions.has_room(identity.tenant_id):
            raise ResourceExhausted(
                f"{portions.of(identity.tenant_id)} of your sessions talk to this coordinator, {portions.total} of all "
                "tenants; connect to another one, or run fewer workers with more slots each",
                retry_after_s=self._clock.rng.uniform(1.0, 5.0),
            )

    def _remember(self, identity: Identity, session: Session) -> Member:
        known = self._memory.members.get(session.id)
        if known is not None:
            return known
        first_batch = int(self._database_clock.now() * 1000) * BATCH_STEP + self._batch_mark
        member = self._memory.members.add(session, identity.tenant, first_batch, self._clock.monotonic())
        # It may hold leases already that this coordinator took over.
        for flight in self._memory.in_flight.of(member.id):
            if flight.adopted:
                member.direct(DirectiveKind.RESYNC, reason=ADOPTED)
            if flight.cancelling:
                member.direct(DirectiveKind.CANCEL, flight.job_id, flight.fence)
        return member

    async def _renew(self, beats: Sequence[Beat]) -> Sequence[SessionState | RotaError]:
        states = await self._sessions.beat(beats)
        gone = [beat.session_id for beat in beats if beat.session_id not in states]
        for session in gone:
            self._memory.remove_member(session)
        return [states.get(beat.session_id) or session_gone(beat.session_id) for beat in beats]

    async def _compare(self, member: Member, inventory: Inventory) -> tuple[tuple[JobId, Fence], ...]:
        if not member.take_inventory(inventory):
            return ()
        for peer in member.asked_by:
            self._peers.tell_holding(peer, Holding(member.id, member.session.tenant_id, inventory))
        member.asked_by.clear()
        flights = {(f.job_id, f.fence): f for f in self._memory.in_flight.of(member.id)}
        dropped = self._sort_out(flights, inventory)
        if dropped:
            log.info("session %s does not hold %d of its leases", member.id, len(dropped))
            await self._completions.lose([_dropped(flight) for flight in dropped])
            for flight in dropped:
                self._memory.lease_ended(flight.tenant_id, flight.job_id, flight.fence)
        # Of leases of shards that it does not own, or has not read yet, this coordinator may not know the end.
        unknown = inventory.leases - {key for key, flight in flights.items() if flight.shard in self._memory.terms}
        return tuple(sorted(unknown - await self._really_held(member, unknown)))

    def _sort_out(self, flights: dict[tuple[JobId, Fence], Flight], inventory: Inventory) -> list[Flight]:
        """Notes what arrived, and finds what did not."""
        missing = []
        for key, flight in flights.items():
            if key in inventory.leases:
                flight.seen_seq = max(flight.seen_seq, inventory.seq)
                self._memory.prove(flight)
            elif _speaks_of(inventory, flight):
                missing.append(flight)
        return missing

    async def _really_held(self, member: Member, leases: Collection[tuple[JobId, Fence]]) -> set[tuple[JobId, Fence]]:
        if not leases:
            return set()
        return await self._completions.held(member.session.tenant_id, member.id, leases)


def _wish(session: Session) -> tuple[object, ...]:
    """What a worker asked for."""
    return (
        session.worker,
        session.sdk,
        session.build_id,
        session.queues,
        session.types,
        session.slots,
        dict(session.labels),
    )


def _speaks_of(inventory: Inventory, flight: Flight) -> bool:
    """Whether the worker took this inventory after the answer with this lease could have arrived, and after any with
    which it has shown that it has it: those that come by way of peers may be overtaken."""
    overtaken = 0 < inventory.seq < flight.seen_seq
    return not overtaken and inventory.batches.get(flight.poller, 0) >= flight.batch


def _dropped(flight: Flight) -> LostLease:
    outcome = Outcome.LEASE_LOST if flight.proven else Outcome.UNDELIVERED
    return LostLease(flight.tenant_id, flight.job_id, flight.fence, Ending(outcome), gone=True)
