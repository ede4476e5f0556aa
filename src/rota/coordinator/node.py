"""One coordinator: starts, supervises and drains its loops, in order."""

import asyncio
import logging
from collections.abc import Sequence
from operator import attrgetter

from rota.clock import Clock, DatabaseClock
from rota.coordinator.attendance import Attendance
from rota.coordinator.auditor import Auditor
from rota.coordinator.claims import Claims
from rota.coordinator.commits import Batcher
from rota.coordinator.contact import Contact
from rota.coordinator.demand import Demands
from rota.coordinator.dispatcher import Dispatcher
from rota.coordinator.feeds import Feeds
from rota.coordinator.forwarding import Forwarding
from rota.coordinator.gates import Gates
from rota.coordinator.janitor import Janitor
from rota.coordinator.loop import Loop
from rota.coordinator.materializer import Materializer
from rota.coordinator.memory import Memory
from rota.coordinator.news import Dial
from rota.coordinator.offers import Offers
from rota.coordinator.ownership import Ownership
from rota.coordinator.peers import Peers
from rota.coordinator.poller import Poller
from rota.coordinator.pressure import Pressure, weight_of_call, weight_of_result
from rota.coordinator.queuebook import QueueBook
from rota.coordinator.reaper import Reaper
from rota.coordinator.redriver import Redriver
from rota.coordinator.sweeper import Sweeper
from rota.domain import limits
from rota.domain.ids import CoordinatorId
from rota.domain.model import Result, Settlement
from rota.service.backfills import Backfills
from rota.service.calendars import Calendars
from rota.service.changes import Changes
from rota.service.completions import Completions
from rota.service.deadletters import DeadLetters
from rota.service.effects import Effects
from rota.service.fires import Fires
from rota.service.invariants import Invariants
from rota.service.jobs import CreateAnswer, Jobs
from rota.service.leases import Leases
from rota.service.queues import Queues
from rota.service.repairs import Repairs
from rota.service.schedules import Schedules
from rota.service.sessions import Sessions
from rota.service.steering import Steering
from rota.service.tenants import Tenants
from rota.store.changeport import ChangeStore
from rota.store.deadport import DeadLetterStore
from rota.store.effectport import EffectStore
from rota.store.invariantport import InvariantStore
from rota.store.port import (
    CreateCall,
    HistoryStore,
    JobReader,
    JobStore,
    LeaseStore,
    OutcomeStore,
    SessionStore,
    ShardStore,
)
from rota.store.queueport import FleetStore, QueueStore, TenantStore
from rota.store.scheduleport import FireStore, ScheduleStore
from rota.telemetry import Telemetry

log = logging.getLogger(__name__)

WRITES_AT_ONCE = 2
"""Transactions of one kind at a time. More only make the batches smaller: four connections in all saturate."""

CLAIMS_AT_ONCE = 2

STOP_S = 5.0
"""A loop that is asked to stop gets this long for the step it is in."""


class Node:
    """Built of stores and values; `start` first, `drain` last."""

    def __init__(
        self,
        *,
        id: CoordinatorId,
        address: str,
        version: str,
        jobs: JobStore,
        reader: JobReader,
        leases: LeaseStore,
        outcomes: OutcomeStore,
        dead_letters: DeadLetterStore,
        effects: EffectStore,
        sessions: SessionStore,
        shards: ShardStore,
        history: HistoryStore,
        schedules: ScheduleStore,
        fires: FireStore,
        queues: QueueStore,
        tenants: TenantStore,
        fleet: FleetStore,
        clock: Clock,
        telemetry: Telemetry,
        session_ttl_s: float,
        delivery_ttl_s: float,
        term_s: float,
        history_s: float,
        dial: Dial | None = None,
        peer_address: str = "",
        invariants: InvariantStore | None = None,
        changes: ChangeStore | None = None,
    ) -> None:
        metrics = telemetry.metrics
        self.id = id
        self.address = address
        self.clock = clock
        self.database_clock = DatabaseClock(clock)
        self.delivery_ttl_s = delivery_ttl_s
        self.peers = Peers(id, clock, dial)
        self.memory = Memory(self.database_clock, metrics, self.peers)
        self.jobs = Jobs(jobs, reader, outcomes, self.memory, metrics)
        self.completions = Completions(outcomes, self.memory, clock, metrics, telemetry.traces)
        self.effects = Effects(effects, outcomes, self.memory, clock, metrics)
        self.sessions = Sessions(sessions, id, session_ttl_s, metrics)
        self._metrics = metrics
        self.reaper = Reaper(
            self.memory,
            self.completions,
            self.sessions,
            clock,
            self.database_clock,
            metrics,
            self.peers,
            delivery_ttl_s=delivery_ttl_s,
        )
        self.poller = Poller(
            self.memory,
            leases,
            shards,
            id,
            clock,
            self.database_clock,
            give_back=self.reaper.give_back,
        )
        self.ownership = Ownership(
            self.memory,
            shards,
            id,
            clock,
            self.database_clock,
            self.peers,
            address=address,
            peer_address=peer_address,
            version=version,
            term_s=term_s,
            on_acquired=self.poller.begin,
        )
        self._demands = Demands(self.peers, clock)
        self._offers = Offers(self.peers, self.memory.ready, clock)
        gates = self._gates = Gates(self.memory.ready, self.peers, clock)
        self._book = QueueBook(queues, self.memory.ready, gates)
        self.memory.on_lease_ended = gates.lease_ended
        self.memory.on_shards_gone = gates.forget_shards
        self.memory.on_queues = self._book.follow
        self.claims = Claims(
            self.memory,
            Leases(leases, id, metrics, telemetry.traces),
            clock,
            self.database_clock,
            gates,
            self._book,
            self.reaper.give_back,
        )
        self.dispatcher = Dispatcher(
            self.memory,
            self.claims,
            clock,
            self.database_clock,
            metrics,
            self.peers,
            self._demands,
            self._offers,
            gates,
            me=id,
            trusted=self.ownership.trusted,
            give_back=self.reaper.give_back,
            claims_at_once=CLAIMS_AT_ONCE,
        )
        self.attendance = Attendance(
            self.memory, self.dispatcher, self.sessions, self.completions, clock, self.database_clock, self.peers
        )
        self.peers.hearing = Forwarding(
            self.memory,
            self._demands,
            self._offers,
            self.dispatcher,
            self.attendance,
            self.ownership,
            self.reaper,
            gates,
        )
        self.creations: Batcher[CreateCall, CreateAnswer] = Batcher(
            "new jobs",
            self.jobs.create,
            clock,
            batch_max=limits.CREATE_BATCH_MAX,
            concurrency=WRITES_AT_ONCE,
            tenant=attrgetter("tenant_id"),
            priority=lambda call: max([spec.priority for spec in call.specs]),
            weight=weight_of_call,
            key=lambda call: (call.tenant_id, call.method, call.request_id) if call.request_id else None,
        )
        self.outcomes: Batcher[Result, Settlement] = Batcher(
            "outcomes",
            self.completions.settle,
            clock,
            batch_max=limits.COMPLETE_BATCH_MAX,
            concurrency=WRITES_AT_ONCE,
            tenant=attrgetter("tenant_id"),
            weight=weight_of_result,
            key=lambda result: (result.job_id, result.fence),
        )
        self.pressure = Pressure(self.creations, self.outcomes, self.attendance.beats, clock, metrics)
        self.schedules = Schedules(
            schedules, self.jobs, self.memory, clock, self.database_clock, metrics, telemetry.traces
        )
        self.calendars = Calendars(schedules, self.memory, clock)
        self.queues = Queues(queues, self.jobs, self.memory, clock)
        self.tenants = Tenants(tenants, self.memory)
        self.fleet = fleet
        self.dead_letters = DeadLetters(dead_letters, self.memory, clock, metrics)
        self.steering = Steering(jobs, self.jobs, self.dead_letters, self.memory)
        self._redriver = Redriver(self.dead_letters, clock)
        self.backfills = Backfills(schedules, fires, self.memory, clock, self.database_clock, telemetry.traces)
        firing = Fires(
            fires, self.schedules, self.jobs, id, self.memory, clock, self.database_clock, metrics, telemetry.traces
        )
        self.materializer = Materializer(self.memory, fires, firing, self.backfills, clock, self.database_clock)

        def forget_versions() -> None:
            firing.forget()
            self._book.forget()

        self.memory.on_other_database = forget_versions
        self._sweeper = Sweeper(self.memory, fires, Repairs(fires, firing, id, metrics), clock, self.database_clock)
        self.invariants = (
            None if invariants is None else Invariants(invariants, fires, self.completions, self.jobs, clock, metrics)
        )
        self.feeds = None if changes is None else Feeds(self.memory, Changes(changes, clock), clock)
        self.draining = asyncio.Event()
        self._janitor = Janitor(history, effects, clock, history_s=history_s)
        self._loops: list[Loop] = [
            self.ownership,
            self.poller,
            self.materializer,
            self._sweeper,
            self.reaper,
            self._redriver,
            self._janitor,
        ]
        if self.invariants is not None:
            self._loops.append(Auditor(self.memory, self.invariants, clock))
        if self.feeds is not None:
            self._loops.append(self.feeds)
        contact = Contact(self.memory.members, self.peers, clock, max(session_ttl_s, term_s))
        self.ownership.undone = lambda: [
            *self.stalled(vital=True),
            *contact.undone(),
            *self.claims.undone(),
        ]
        self._tasks: list[asyncio.Task[None]] = []
        self._measure()

    async def start(self) -> None:
        """Registers, acquires what is free and starts the loops."""
        alone = await self.ownership.register()
        if alone:
            self.reaper.expect_survivors()
        else:
            self.reaper.listen_first()
        # History must have room before the first outcome arrives.
        await self._janitor.step_safely()
        await self.reaper.step_safely()
        await self.ownership.step()
        self._tasks = [asyncio.create_task(loop.run(), name=loop.name) for loop in self._loops]

    def healthy(self) -> bool:
        return not self.unwell()

    def unwell(self) -> str:
        """Why this coordinator makes no progress, whether or not its process lives; empty when it does."""
        if self.draining.is_set():
            return "it is leaving"
        if not self.ownership.trusted():
            return "its term is not renewed"
        stalled = self.stalled(vital=True)
        return f"no progress of: {', '.join(stalled)}" if stalled else ""

    def stalled(self, *, vital: bool = False) -> list[str]:
        """The duties that make no progress; only those without which work stands still, if so wanted."""
        return [loop.name for loop in self._loops if loop.stalled() and (loop.vital or not vital)]

    async def drain(self) -> None:
        """Hands the shards over, answers parked polls, and writes what is on its way.

        Shards go first, so that another owner serves them while this one waits for the rest.
        """
        self.draining.set()
        if self.feeds is not None:
            self.feeds.close()
        await self._end([loop for loop in self._loops if loop is not self.reaper])
        await self.dispatcher.drain()
        try:
            await self.ownership.leave()
        except Exception as error:
            log.warning("the shards could not be handed over, their term will run out: %s", error)
        await self.creations.drain()
        await self.outcomes.drain()
        await self.attendance.settle_beats()
        await self.reaper.step_safely()

    async def stop(self) -> None:
        """Ends the loops."""
        await self._end(self._loops)
        self._demands.close()
        self._offers.close()
        self._gates.close()
        await self._book.close()
        await self.peers.close()
        self.memory.close()

    async def _end(self, loops: Sequence[Loop]) -> None:
        # Asked, not cancelled: a step in the middle of a statement is let finish.
        for loop in loops:
            loop.stop()
        tasks = [task for task in self._tasks if task.get_name() in {loop.name for loop in loops}]
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_S)
            for task in tasks:
                task.cancel()

    def _measure(self) -> None:
        memory = self.memory
        self._metrics.gauge("rota.shards.owned", lambda: len(memory.terms))
        self._metrics.gauge("rota.ready.jobs", lambda: len(memory.ready))
        self._metrics.gauge("rota.inflight.leases", lambda: len(memory.in_flight))
        self._metrics.gauge("rota.polls.parked", lambda: self.dispatcher.parked)
        self._metrics.gauge("rota.watches.open", lambda: len(self.feeds or ()))
        self._metrics.gauge("rota.peers", lambda: len(self.peers))
        self._metrics.gauge("rota.loops.stalled", lambda: len(self.stalled()))
        self._metrics.gauge("rota.clock.skew_seconds", self.database_clock.skew_s)
