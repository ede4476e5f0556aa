"""Two coordinators over one store in memory, connected by cables that a test may cut, in virtual time.

Nothing runs by itself but what they tell each other: no poller rescans, so what is lost stays lost until somebody asks.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from copy import copy
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from rota.coordinator.attendance import BeatAnswer
from rota.coordinator.members import Delivery, Inventory, Member
from rota.coordinator.news import Claimed, ClaimWish, News
from rota.coordinator.node import Node
from rota.domain import ids, limits
from rota.domain.errors import OutcomeUnknown, Unavailable
from rota.domain.fairness import Wants
from rota.domain.ids import CoordinatorId, Fence, JobId, SessionId, ShardNo, TenantId
from rota.domain.model import (
    DirectiveKind,
    Grant,
    Identity,
    JobSpec,
    Outcome,
    Payload,
    Result,
    Role,
    Session,
    SessionState,
    Settlement,
)
from rota.store.port import CreateCall
from rota.telemetry import Telemetry

from ..sim.clock import DatabaseTime, SimClock
from ..sim.fake_store import (
    FakeFires,
    FakeHistory,
    FakeJobReader,
    FakeJobs,
    FakeLeases,
    FakeOutcomes,
    FakeSchedules,
    FakeSessions,
    FakeShards,
    JobRow,
    Tables,
)
from ..sim.history import History
from ..sim.loop import SimLoop
from ..sim.no_dead_letters import NoDeadLetters
from ..sim.no_effects import NoEffects
from ..sim.no_queues import NoQueues
from .virtual import loop_clock

T = TypeVar("T")

WANTS = Wants(TenantId(1), ("q",), frozenset())

TENANT = TenantId(1)
IDENTITY = Identity(TENANT, "tenant", "key", frozenset(Role))
SHARDS = 8
SESSION_TTL_S = 20.0
DELIVERY_TTL_S = 2.0
CLAIM_TIMEOUT_S = 1.0
WAY_S = 0.001
SOON_S = 0.1
"""Plenty for some messages to and fro."""

EVER_S = 10_000.0


class Cable:
    """The way from one coordinator to the other. What is sent on a cut one is lost."""

    def __init__(
        self,
        pair: "Pair",
        sender: CoordinatorId,
        peer: CoordinatorId,
        address: str,
        *,
        on_open: Callable[[], None],
        on_room: Callable[[], None],
    ) -> None:
        self.cut = False
        self.loses_answers = False
        """Claims are carried out, and their answers do not arrive."""
        self.claims: list[ClaimWish] = []
        self.fault: Exception | None = None
        """What claims fail by, instead of being carried out."""
        self.answer: Claimed | None = None
        """What claims are answered with, instead of being carried out."""
        self._sender = sender
        self._node = pair.nodes[peer]
        self._on_open = on_open
        self._on_its_way: deque[News] = deque()
        self._token: object = None
        pair.cables[sender, peer] = self
        asyncio.get_running_loop().call_later(WAY_S, self._open)

    def send(self, news: News) -> bool:
        if not self.cut:
            self._on_its_way.append(news)
            asyncio.get_running_loop().call_later(WAY_S, self._arrive)
        return True

    async def claim(self, wish: ClaimWish) -> Claimed:
        self.claims.append(wish)
        if self.cut:
            await asyncio.sleep(CLAIM_TIMEOUT_S)
            raise OutcomeUnknown("no answer")
        await asyncio.sleep(WAY_S)
        if self.fault is not None:
            raise self.fault
        claimed = self.answer or await self._node.peers.claim_for(wish)
        if self.loses_answers:
            await asyncio.sleep(CLAIM_TIMEOUT_S)
            raise OutcomeUnknown("no answer")
        await asyncio.sleep(WAY_S)
        return Claimed([copy(grant) for grant in claimed.grants], claimed.left)

    async def hand_over(self, shards: Sequence[ShardNo]) -> list[ShardNo]:
        if self.cut:
            raise Unavailable("no answer")
        return await self._node.peers.take_over(self._sender, shards)

    async def close(self) -> None:
        self.end()

    def end(self) -> None:
        """The link ends, and the peer notices."""
        self._node.peers.deaf(self._sender, self._token)

    def _open(self) -> None:
        self._token = self._node.peers.listening(self._sender)
        self._on_open()

    def _arrive(self) -> None:
        self._node.peers.hear(self._sender, self._on_its_way.popleft())


class Worker:
    """A session that talks to one coordinator at a time."""

    def __init__(self, pair: "Pair", node: Node, member: Member) -> None:
        self.node = node
        self.id = member.id
        self._pair = pair
        self._calls = 0
        self.seq = 0

    def poll(self, *, ack: int = 0, capacity: int = 1, wait_s: float = 5.0) -> "asyncio.Task[Delivery | None]":
        self._calls += 1
        return asyncio.create_task(self.call(f"r{self._calls}", ack=ack, capacity=capacity, wait_s=wait_s))

    async def got(self, *, ack: int = 0, capacity: int = 1, wait_s: float = 5.0) -> list[Grant]:
        delivery = await self.poll(ack=ack, capacity=capacity, wait_s=wait_s)
        return [] if delivery is None else delivery.grants

    async def beat(self, *held: Grant, batch: int = 0) -> BeatAnswer:
        """With an inventory. `batch`: the last that the poller received."""
        self.seq += 1
        member = await self.node.attendance.member(IDENTITY, self.id)
        leases = frozenset((grant.job_id, grant.fence) for grant in held)
        return await self.node.attendance.beat(member, Inventory(leases, {0: batch} if batch else {}, self.seq), 1, ())

    async def asked(self) -> list[DirectiveKind]:
        """What it is asked for, in answer to a beat without an inventory."""
        member = await self.node.attendance.member(IDENTITY, self.id)
        return [each.kind for each in (await self.node.attendance.beat(member, None, 1, ())).directives]

    async def complete(self, grant: Grant, outcome: Outcome = Outcome.SUCCEEDED) -> Settlement:
        result = Result(TENANT, self.id, grant.job_id, grant.fence, outcome, f"{grant.job_id}-{grant.fence}")
        return await self.node.outcomes.submit(result)

    async def call(self, request_id: str, *, ack: int = 0, capacity: int = 1, wait_s: float = 5.0) -> Delivery | None:
        """One Lease call, or a copy of it."""
        member = await self.node.attendance.member(IDENTITY, self.id)
        return await self.node.dispatcher.lease(
            member,
            poller=0,
            request_id=request_id,
            ack_batch=ack,
            capacity=capacity,
            bytes_max=limits.LEASE_ANSWER_BYTES_MAX,
            wait_s=wait_s,
            call_left_s=None,
        )


class Pair:
    """Coordinators `a` and `b`, each with half of the shards."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        self.claim_takes_s = 0.0
        """From the sending of a claim to the database to its answer; committed half-way."""
        self._time = DatabaseTime(loop)
        self.tables = Tables(self._time, History(loop.time, self._time.now_us), SHARDS)
        self.clock: SimClock = loop_clock(loop)
        self.nodes: dict[CoordinatorId, Node] = {}
        self.cables: dict[tuple[CoordinatorId, CoordinatorId], Cable] = {}
        self.a, self.b = self._node("a"), self._node("b")

    async def start(self) -> "Pair":
        for node in self.nodes.values():
            await node.ownership.register()
        for node in (self.a, self.b, self.a):
            await node.ownership.step()
        await asyncio.sleep(SOON_S)
        assert [len(node.memory.terms) for node in self.nodes.values()] == [SHARDS // 2] * 2
        return self

    def _node(self, name: str) -> Node:
        tables = self.tables
        id = CoordinatorId(f"c{name}000000-0000-7000-8000-000000000000")
        node = self.nodes[id] = Node(
            id=id,
            address=name,
            peer_address=name,
            dial=partial(Cable, self, id),
            version="0",
            jobs=FakeJobs(tables),
            reader=FakeJobReader(tables),
            leases=FakeLeases(tables, self._lease),
            outcomes=FakeOutcomes(tables),
            dead_letters=NoDeadLetters(tables),
            effects=NoEffects(tables),
            sessions=FakeSessions(tables),
            shards=FakeShards(tables),
            history=FakeHistory(tables),
            schedules=FakeSchedules(tables),
            fires=FakeFires(tables),
            queues=(none := NoQueues(tables)),
            tenants=none,
            fleet=none,
            clock=self.clock,
            telemetry=Telemetry.off(),
            session_ttl_s=SESSION_TTL_S,
            delivery_ttl_s=DELIVERY_TTL_S,
            term_s=EVER_S,
            history_s=EVER_S,
        )
        return node

    async def _lease(self, name: str, work: Callable[[], T], *, lane: str, write: bool) -> T:
        await asyncio.sleep(self.claim_takes_s / 2)
        found = work()
        await asyncio.sleep(self.claim_takes_s / 2)
        return found

    def cable(self, sender: Node, peer: Node) -> Cable:
        return self.cables[sender.id, peer.id]

    async def worker(self, node: Node, **fields: Any) -> Worker:
        now = datetime.fromtimestamp(node.database_clock.now(), UTC)
        usual: dict[str, Any] = {
            "id": SessionId(self.clock.new_id()),
            "tenant_id": TENANT,
            "epoch": 0,
            "worker": "w",
            "sdk": "",
            "build_id": "",
            "queues": ("q",),
            "types": (),
            "slots": 10,
            "labels": {},
            "protocol_version": 1,
            "state": SessionState.ACTIVE,
            "opened_at": now,
            "last_beat_at": now,
            "expires_at": now,
            "free_slots": 10,
            "coordinator": node.id,
        }
        session = await node.attendance.open(IDENTITY, Session(**usual | fields))
        return Worker(self, node, await node.attendance.member(IDENTITY, session.id))

    async def create(self, owner: Node, *, at: Node | None = None, **fields: Any) -> JobId:
        """A job in a shard of `owner`'s, created through `at`."""
        while True:
            id = JobId(self.clock.new_id())
            shard = ShardNo(ids.shard_of(TENANT, id) % SHARDS)
            if self.tables.shards[shard].owner == owner.id:
                break
        usual: dict[str, Any] = {"type": "t", "queue": "q", "priority": 4, "payload": Payload(b"")}
        call = CreateCall([JobSpec(TENANT, id, shard, **usual | fields)], TENANT, 1, "", b"")
        await (at or owner).creations.submit(call)
        return id

    async def go(self, seconds: float) -> None:
        """Time passes, and the reapers do their rounds."""
        until = self.clock.monotonic() + seconds
        while (left_s := until - self.clock.monotonic()) > 1e-9:
            await asyncio.sleep(min(left_s, 0.25))
            for node in self.nodes.values():
                await node.reaper.step()

    def row(self, job: JobId) -> JobRow:
        return self.tables.jobs[TENANT, job]

    def outcomes(self, job: JobId) -> list[Outcome]:
        """How the attempts of a job have ended, so far."""
        return [attempt.outcome for attempt in self.tables.attempts.get((TENANT, job), ())]


async def a_pair() -> Pair:
    return await Pair().start()


def knows(node: Node, job: JobId, fence: Fence | None = None) -> bool:
    """Whether a coordinator has a lease of the job in memory."""
    flight = node.memory.in_flight.get(job)
    return flight is not None and fence in (None, flight.fence)


async def move(pair: Pair, shard: ShardNo, *, to_b: bool = False) -> None:
    """Hands one shard over, as ownership does."""
    giver, taker = (pair.a, pair.b) if to_b else (pair.b, pair.a)
    giver.memory.forget_shards(frozenset([shard]))
    await FakeShards(pair.tables).give_up(giver.id, [shard])
    assert await giver.peers.hand_over(taker.id, [shard]) == [shard]


async def told_demand(pair: Pair, worker: Worker) -> None:
    """A poll of the worker has been demanded for, and has ended."""
    assert await worker.poll(wait_s=SOON_S) is None
    await asyncio.sleep(SOON_S)


def kind_of(pair: Pair) -> int:
    """What A calls the demand of a worker that takes all of queue q."""
    (kind,) = pair.a._demands.kinds(WANTS)
    return kind


def wish_for(pair: Pair, worker: Worker) -> ClaimWish:
    return ClaimWish(pair.a.id, TENANT, "tenant", worker.id, 0, 1, (kind_of(pair),), 1, limits.LEASE_ANSWER_BYTES_MAX)
