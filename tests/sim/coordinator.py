"""A coordinator of a world: the real `Node` over the fake store, in a process that can be paused, killed and replaced.

`serve` stands where the servicers of `rota.api` stand and calls what they call, with the same shielding: the simulation
enters one floor below protobuf and gRPC.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rota.coordinator.attendance import BeatAnswer
from rota.coordinator.members import Directive, Inventory
from rota.coordinator.news import Claimed, ClaimWish
from rota.coordinator.node import Node
from rota.domain import ids, limits
from rota.domain.errors import RotaError, Unavailable
from rota.domain.ids import CoordinatorId, Fence, JobId, SessionId, ShardNo
from rota.domain.model import (
    CancelMode,
    Dedupe,
    EffectState,
    Failure,
    Grant,
    Identity,
    JobSpec,
    JobState,
    Outcome,
    Payload,
    Result,
    RetryPolicy,
    Session,
    SessionState,
    Settlement,
    Timeouts,
)
from rota.store.port import CreateCall
from rota.telemetry import Telemetry

from .clock import SimClock
from .fake_store import (
    FakeFires,
    FakeHistory,
    FakeJobReader,
    FakeJobs,
    FakeLeases,
    FakeOutcomes,
    FakeSchedules,
    FakeSessions,
    FakeShards,
    Tables,
)
from .faults import Faults
from .history import History
from .loop import Process, SimLoop
from .no_dead_letters import NoDeadLetters
from .no_effects import NoEffects
from .no_queues import NoQueues
from .peering import Peering
from .schedulecalls import ScheduleCalls, shielded
from .wire import Link

SESSION_TTL_S = 6.0
DELIVERY_TTL_S = 2.0
TERM_S = 4.0
BEATS_PER_TTL = 3
CREATE = 1
START_AGAIN_S = 1.0
DRAIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Wish:
    """What a client asks for in CreateJob."""

    type: str
    queue: str = "default"
    priority: int = limits.PRIORITY_DEFAULT
    delay_s: float = 0.0
    retry: RetryPolicy = RetryPolicy()
    timeouts: Timeouts = Timeouts()
    dedupe: Dedupe | None = None


@dataclass(frozen=True, slots=True)
class LeaseAnswer:
    node: CoordinatorId
    batch: int
    grants: tuple[Grant, ...]
    next_poll_after_s: float | None
    directives: tuple[Directive, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """One entry of Complete, before the coordinator makes a `Result` of it."""

    job: JobId
    fence: Fence
    outcome: Outcome
    request_id: str
    failure: Failure | None = None
    retryable: bool = True
    retry_after_s: float = 0.0
    effect_state: EffectState = EffectState.UNSPECIFIED
    spawned: tuple[Wish, ...] = ()


class Coordinator(ScheduleCalls):
    """One address. Each start is a new process with a new id, as a supervisor makes it."""

    def __init__(
        self,
        name: str,
        seed: str,
        loop: SimLoop,
        tables: Tables,
        faults: Faults,
        history: History,
        identity: Identity,
        peering: Peering,
    ) -> None:
        self.name = name
        self.process: Process | None = None
        self.node: Node | None = None
        self.skew_s = 0.0
        self._rng = random.Random(f"{name}/{seed}")
        self._loop = loop
        self._tables = tables
        self._faults = faults
        self._history = history
        self._identity = identity
        self._peering = peering
        self._starts = 0
        self._calls = 0
        self._idle = asyncio.Event()
        self.on_start: Callable[[Node], None] = lambda node: None

    def start(self) -> None:
        """Brings a process up; it answers once its node has started, and is started again until that succeeds."""
        self._starts += 1
        process = self._loop.process(f"{self.name}.{self._starts}")
        process.spawn(self._run(process), name="main")
        self._starting = process

    @property
    def up(self) -> bool:
        """Running, or about to."""
        return self.node is not None or self._starting is not None

    @property
    def leaving(self) -> bool:
        return self._leaving is not None

    def kill(self) -> Process | None:
        """kill -9. The process that died, if one ran."""
        victim = self.process or self._starting or self._leaving
        if victim is not None:
            victim.kill()
            self._history.note("killed", process=victim)
        self.process = self.node = self._starting = self._leaving = None
        return victim

    def pause(self, seconds: float) -> None:
        if self.process is not None:
            self._history.note("paused", process=self.process, seconds=seconds)
            self.process.pause(seconds)

    def drain(self) -> None:
        """SIGTERM: drains in order and is gone."""
        node, process = self.node, self.process
        if node is not None and process is not None and self._leaving is None:
            self._leaving = process
            self._history.note("draining", process=process, coordinator=node.id)
            process.spawn(self._leave(node, process), name="drain")

    _starting: Process | None = None
    _leaving: Process | None = None

    async def _run(self, process: Process) -> None:
        clock = SimClock(self._loop, self._rng, self.skew_s)
        while True:
            node = self._build(process, clock)
            try:
                await node.start()
                break
            except RotaError as error:
                self._history.note("no start", process=process, error=str(error))
                await node.stop()
                await clock.sleep(START_AGAIN_S)
        self._starting = None
        self._calls = 0
        self.process, self.node = process, node
        self._history.note("started", process=process, coordinator=node.id)

    def _build(self, process: Process, clock: SimClock) -> Node:
        tables = self._tables
        link = Link(self._loop, process, self._faults, self._history)
        id = CoordinatorId(clock.new_id())
        node = Node(
            id=id,
            address=self.name,
            peer_address=self.name,
            dial=self._peering.dial(process, id),
            version="sim",
            jobs=FakeJobs(tables, link),
            reader=FakeJobReader(tables, link),
            leases=FakeLeases(tables, link),
            outcomes=FakeOutcomes(tables, link),
            dead_letters=NoDeadLetters(tables, link),
            effects=NoEffects(tables, link),
            sessions=FakeSessions(tables, link),
            shards=FakeShards(tables, link),
            history=FakeHistory(tables, link),
            schedules=FakeSchedules(tables, link),
            fires=FakeFires(tables, link),
            queues=(none := NoQueues(tables, link)),
            tenants=none,
            fleet=none,
            clock=clock,
            telemetry=Telemetry.off(),
            session_ttl_s=SESSION_TTL_S,
            delivery_ttl_s=DELIVERY_TTL_S,
            term_s=TERM_S,
            history_s=limits.REQUEST_LIFE_S,
        )
        self.on_start(node)
        return node

    async def _leave(self, node: Node, process: Process) -> None:
        drain = asyncio.create_task(node.drain(), name="node drain")
        await asyncio.wait({drain}, timeout=DRAIN_S)
        if self.process is process:
            # As grpc.aio.Server.stop: new calls are refused from here, and those on their way get their time.
            self.process = None
        if self._calls:
            self._idle.clear()
            waiter = asyncio.ensure_future(self._idle.wait())
            await asyncio.wait({waiter}, timeout=DRAIN_S)
        await node.stop()
        self.node = self._leaving = None
        self._history.note("stopped", process=process, coordinator=node.id)
        process.kill()
        self._peering.end(process)

    async def serve(self, method: str, request: dict[str, Any], left_s: float) -> Any:
        node = self.node
        if node is None:
            raise Unavailable(f"{self.name} is not there")
        self._calls += 1
        try:
            return await getattr(self, f"_{method}")(node, left_s=left_s, **request)
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    # WorkerService

    async def _open(self, node: Node, *, session: SessionId, worker: str, slots: int, left_s: float) -> float:
        if node.draining.is_set():
            raise Unavailable("this coordinator is leaving", reason="DRAINING")
        now = datetime.fromtimestamp(node.database_clock.now(), UTC)
        opening = Session(
            id=session,
            tenant_id=self._identity.tenant_id,
            epoch=0,
            worker=worker,
            sdk="sim",
            build_id="",
            queues=("default", "other"),
            types=(),
            slots=slots,
            labels={},
            protocol_version=1,
            state=SessionState.ACTIVE,
            opened_at=now,
            last_beat_at=now,
            expires_at=now,
            free_slots=slots,
            coordinator=node.id,
        )
        await shielded(node.attendance.open(self._identity, opening))
        return node.attendance.ttl_s

    async def _lease(
        self,
        node: Node,
        *,
        session: SessionId,
        poller: int,
        request_id: str,
        ack_batch: int,
        capacity: int,
        wait_s: float,
        left_s: float,
    ) -> LeaseAnswer:
        member = await node.attendance.member(self._identity, session)
        asking = {"session": session, "poller": poller, "request": request_id, "node": node.id}
        self._history.note("asking", ack=ack_batch, **asking)
        try:
            delivery = await node.dispatcher.lease(
                member,
                poller=poller,
                request_id=request_id,
                ack_batch=ack_batch,
                capacity=capacity,
                bytes_max=limits.LEASE_ANSWER_BYTES_MAX,
                wait_s=wait_s,
                call_left_s=left_s,
            )
        finally:
            self._history.note("asked", **asking)
        directives = tuple(member.directives.values())
        if delivery is None:
            again_s = node.clock.rng.uniform(0.0, 0.2)
            if node.draining.is_set():
                again_s = 0.0
            elif not member.active:
                again_s = 1.0
            return LeaseAnswer(node.id, 0, (), again_s, directives)
        return LeaseAnswer(node.id, delivery.batch, tuple(delivery.grants), None, directives)

    async def _beat(
        self,
        node: Node,
        *,
        session: SessionId,
        inventory: Inventory | None,
        free_slots: int,
        acknowledged: Sequence[int],
        left_s: float,
    ) -> BeatAnswer:
        if inventory is not None:
            self._history.note(
                "inventory",
                session=session,
                leases=tuple(sorted(inventory.leases)),
                batches=dict(inventory.batches),
                node=node.id,
            )

        async def work() -> BeatAnswer:
            member = await node.attendance.member(self._identity, session)
            return await node.attendance.beat(member, inventory, free_slots, acknowledged)

        return await shielded(work())

    async def _complete(
        self, node: Node, *, session: SessionId, reports: Sequence[Report], left_s: float
    ) -> list[Settlement | RotaError]:
        waiting: list[asyncio.Future[Settlement] | RotaError] = []
        for report in reports:
            try:
                waiting.append(node.outcomes.enqueue(self._result(node, session, report)))
            except RotaError as refusal:
                waiting.append(refusal)
        settled = await asyncio.gather(*(w for w in waiting if not isinstance(w, RotaError)), return_exceptions=True)
        answers = iter(settled)
        found = [w if isinstance(w, RotaError) else next(answers) for w in waiting]
        for answer in found:
            if not isinstance(answer, Settlement | RotaError):
                raise answer
        return found  # type: ignore[return-value]

    async def _close(self, node: Node, *, session: SessionId, drain: bool, left_s: float) -> None:
        async def work() -> None:
            member = await node.attendance.member(self._identity, session)
            await (node.attendance.drain(member) if drain else node.attendance.close(member))

        await shielded(work())

    # PeerService

    async def _claim_for(self, node: Node, *, callee: CoordinatorId, wish: ClaimWish, left_s: float) -> Claimed:
        self._check_callee(node, callee)
        claimed = await node.peers.claim_for(wish)
        for grant in claimed.grants:
            self._history.note("forwarded", job=grant.job_id, fence=grant.fence, session=grant.session_id)
        return claimed

    async def _take_over(
        self, node: Node, *, callee: CoordinatorId, caller: CoordinatorId, shards: Sequence[ShardNo], left_s: float
    ) -> list[ShardNo]:
        self._check_callee(node, callee)
        taken: list[ShardNo] = await shielded(node.peers.take_over(caller, shards))
        return taken

    def _check_callee(self, node: Node, callee: CoordinatorId) -> None:
        if node.id != callee:
            raise Unavailable(f"{callee} is not here any more")

    # JobService

    async def _create(self, node: Node, *, wish: Wish, request_id: str, left_s: float) -> tuple[JobId, bool]:
        """The job, and whether it is new."""
        call = CreateCall([self._spec(node, wish)], self._identity.tenant_id, CREATE, request_id, b"same")
        ((job, created),) = (await node.creations.submit(call)).jobs
        return job, created is not None

    async def _cancel(self, node: Node, *, job: JobId, mode: CancelMode, left_s: float) -> JobState:
        return (await shielded(node.jobs.cancel(self._identity.tenant_id, job, mode, "not wanted"))).state

    async def _get(self, node: Node, *, job: JobId, left_s: float) -> JobState:
        return (await node.jobs.get(self._identity.tenant_id, job)).state

    def _spec(self, node: Node, wish: Wish) -> JobSpec:
        tenant = self._identity.tenant_id
        id = JobId(node.clock.new_id())
        return JobSpec(
            tenant,
            id,
            ShardNo(ids.shard_of(tenant, id) % self._tables.shard_count),
            wish.type,
            wish.queue,
            wish.priority,
            Payload(b"work"),
            delay_s=wish.delay_s,
            retry=wish.retry,
            timeouts=wish.timeouts,
            dedupe=wish.dedupe,
        )

    def _result(self, node: Node, session: SessionId, report: Report) -> Result:
        return Result(
            self._identity.tenant_id,
            session,
            report.job,
            report.fence,
            report.outcome,
            report.request_id,
            Payload(b"done") if report.outcome is Outcome.SUCCEEDED else None,
            report.failure,
            report.retryable,
            report.retry_after_s,
            report.effect_state,
            spawned=tuple(self._spec(node, wish) for wish in report.spawned),
        )
