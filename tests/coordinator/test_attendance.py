"""Attendance: what a worker is told when it comes, and what its inventory changes here."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import pytest

from rota.coordinator.attendance import Attendance
from rota.coordinator.members import Inventory
from rota.coordinator.news import Holding
from rota.domain.errors import AlreadyExists, NotFound, session_gone
from rota.domain.ids import Fence, JobId, SessionId, ShardNo, TenantId
from rota.domain.model import DirectiveKind, Identity, Outcome, Role, Session, SessionState
from rota.service.completions import LostLease
from rota.store.port import BeatUpdate

from .fakes import PEER, SESSION, TENANT, World, job_id, session

IDENTITY = Identity(TENANT, "tenant", "key", frozenset(Role))
STRANGER = Identity(TenantId(2), "other", "key", frozenset(Role))


class FakeSessions:
    ttl_s = 12.0

    def __init__(self) -> None:
        self.rows: dict[SessionId, Session] = {}

    async def open(self, wanted: Session) -> Session:
        return self.rows.setdefault(wanted.id, wanted)

    async def get(self, tenant: TenantId, id: SessionId) -> Session:
        found = self.rows.get(id)
        if found is None or found.tenant_id != tenant or found.state is SessionState.CLOSED:
            raise session_gone(id)
        return found

    async def beat(self, beats: Sequence[BeatUpdate]) -> dict[SessionId, SessionState]:
        return {
            b.session_id: self.rows[b.session_id].state
            for b in beats
            if b.session_id in self.rows and self.rows[b.session_id].state is not SessionState.CLOSED
        }

    async def close(self, tenant: TenantId, id: SessionId) -> None:
        self.rows[id] = replace(self.rows[id], state=SessionState.CLOSED)


class FakeCompletions:
    """Ends nothing by itself, like a store in which all of it is over already."""

    def __init__(self) -> None:
        self.ended: list[LostLease] = []
        self.rows: set[tuple[JobId, Fence]] = set()

    async def lose(self, leases: Sequence[LostLease]) -> int:
        self.ended += leases
        return 0

    async def held(
        self, tenant: TenantId, session: SessionId, leases: Collection[tuple[JobId, Fence]]
    ) -> set[tuple[JobId, Fence]]:
        return self.rows & set(leases)


class FakeDispatcher:
    def __init__(self) -> None:
        self.dropped: list[SessionId] = []

    def drop(self, member: object) -> None:
        self.dropped.append(member.id)  # type: ignore[attr-defined]


class Scene(World):
    def __init__(self) -> None:
        super().__init__()
        self.sessions = FakeSessions()
        self.completions = FakeCompletions()
        self.attendance = Attendance(
            self.memory,
            FakeDispatcher(),  # type: ignore[arg-type]
            self.sessions,  # type: ignore[arg-type]
            self.completions,  # type: ignore[arg-type]
            self.clock,
            self.database_clock,
            self.peers,
        )


@pytest.fixture
async def scene() -> Scene:
    return Scene()


def inventory(*leases: tuple[JobId, Fence], batches: dict[int, int] | None = None) -> Inventory:
    return Inventory(frozenset(leases), batches or {})


async def test_the_same_wish_finds_the_same_session(scene: Scene) -> None:
    first = await scene.attendance.open(IDENTITY, session())
    again = await scene.attendance.open(IDENTITY, session())
    assert first == again
    assert len(scene.memory.members) == 1
    for changed in (
        {"worker": "x"},
        {"queues": ("q", "r")},
        {"types": ("t",)},
        {"slots": 9},
        {"labels": {"a": "1"}},
        {"build_id": "b"},
    ):
        with pytest.raises(AlreadyExists) as refused:
            await scene.attendance.open(IDENTITY, session(**changed))
        assert refused.value.reason == "REQUEST_ID_REUSED"


async def test_a_session_that_has_ended_is_not_brought_back(scene: Scene) -> None:
    scene.sessions.rows[SESSION] = session(state=SessionState.CLOSED)
    await scene.attendance.open(IDENTITY, session())
    assert len(scene.memory.members) == 0
    with pytest.raises(NotFound):
        await scene.attendance.member(IDENTITY, SESSION)


async def test_batches_of_a_session_grow_from_one_coordinator_to_the_next(scene: Scene) -> None:
    await scene.attendance.open(IDENTITY, session())
    first = await scene.attendance.member(IDENTITY, SESSION)
    before = [first.number_batch() for _ in range(3)]
    scene.clock.now += 1.0
    scene.memory.remove_member(SESSION)
    second = await scene.attendance.member(IDENTITY, SESSION)
    assert second.number_batch() > max(before)


async def test_a_member_is_its_tenants_own(scene: Scene) -> None:
    await scene.attendance.open(IDENTITY, session())
    for _ in range(2):
        with pytest.raises(NotFound) as gone:
            await scene.attendance.member(STRANGER, SESSION)
        assert gone.value.reason == "SESSION_GONE"
        scene.memory.remove_member(SESSION)


async def test_who_comes_after_a_takeover_is_asked_and_told(scene: Scene) -> None:
    scene.sessions.rows[SESSION] = session()
    scene.memory.in_flight.add(scene.flight(1, poller=-1, batch=0))
    scene.memory.in_flight.add(scene.flight(2, poller=-1, batch=0, cancelling=True))
    member = await scene.attendance.member(IDENTITY, SESSION)
    assert [(d.kind, d.job) for d in member.directives.values()] == [
        (DirectiveKind.RESYNC, None),
        (DirectiveKind.CANCEL, job_id(2)),
    ]
    # Known already: not again.
    member.directives.clear()
    assert (await scene.attendance.member(IDENTITY, SESSION)).directives == {}


async def test_who_comes_with_nothing_open_is_told_nothing(scene: Scene) -> None:
    scene.sessions.rows[SESSION] = session()
    scene.memory.in_flight.add(scene.flight(1))
    assert (await scene.attendance.member(IDENTITY, SESSION)).directives == {}


async def test_an_inventory_proves_drops_and_asks(scene: Scene) -> None:
    await scene.attendance.open(IDENTITY, session())
    member = await scene.attendance.member(IDENTITY, SESSION)
    held, missing, newer = (scene.flight(n, batch=b) for n, b in ((1, 5), (2, 5), (3, 6)))
    proven = scene.flight(4, batch=4, proven=True)
    for flight in (held, missing, newer, proven):
        scene.memory.in_flight.add(flight)
    elsewhere, nobodys = (job_id(7), Fence(70)), (job_id(8), Fence(80))
    scene.completions.rows.add(elsewhere)
    answer = await scene.attendance.beat(
        member, inventory((held.job_id, held.fence), elsewhere, nobodys, batches={0: 5}), 3, ()
    )
    assert held.proven and not newer.proven
    assert {(x.job_id, x.ending.outcome, x.gone) for x in scene.completions.ended} == {
        (missing.job_id, Outcome.UNDELIVERED, True),
        (proven.job_id, Outcome.LEASE_LOST, True),
    }
    # Dropped here too, even where the rows knew it already.
    assert sorted(f.job_id for f in scene.memory.in_flight) == [held.job_id, newer.job_id]
    assert answer.lost == (nobodys,)
    assert answer.renewed_for_s == 12.0


async def test_a_lease_taken_over_is_settled_by_any_inventory(scene: Scene) -> None:
    await scene.attendance.open(IDENTITY, session())
    member = await scene.attendance.member(IDENTITY, SESSION)
    scene.memory.in_flight.add(scene.flight(1, poller=-1, batch=0))
    await scene.attendance.beat(member, None, 1, ())
    assert len(scene.memory.in_flight) == 1
    await scene.attendance.beat(member, inventory(), 1, ())
    assert len(scene.memory.in_flight) == 0


async def test_a_peer_is_answered_about_its_own_leases_only(scene: Scene) -> None:
    mine, proven, foreign = scene.flight(1), scene.flight(2, proven=True), scene.flight(3, shard=ShardNo(77))
    held = scene.flight(4)
    for flight in (mine, proven, foreign, held):
        flight.poller, flight.batch = -1, 0
        scene.memory.in_flight.add(flight)
    holding = Holding(SESSION, TENANT, inventory((held.job_id, held.fence)))
    assert scene.attendance.missing(replace(holding, tenant_id=TenantId(2))) == []
    assert scene.attendance.missing(replace(holding, session_id=SessionId("other"))) == []
    assert not held.proven
    lost = scene.attendance.missing(holding)
    assert {(x.job_id, x.ending.outcome, x.gone) for x in lost} == {
        (mine.job_id, Outcome.UNDELIVERED, True),
        (proven.job_id, Outcome.LEASE_LOST, True),
    }
    assert held.proven


async def test_who_has_asked_is_told_the_next_inventory_and_no_more(scene: Scene) -> None:
    told = scene.meet()
    await scene.attendance.open(IDENTITY, session())
    member = await scene.attendance.member(IDENTITY, SESSION)
    member.asked_by[PEER] = None
    await scene.attendance.beat(member, None, 1, ())
    for _ in range(2):
        await scene.attendance.beat(member, inventory(batches={0: 5}), 1, ())
    assert told.holdings == [Holding(SESSION, TENANT, inventory(batches={0: 5}))]


async def test_leases_of_shards_of_others_are_looked_up_though_they_are_known(scene: Scene) -> None:
    """Whoever ended one need not have told."""
    await scene.attendance.open(IDENTITY, session())
    member = await scene.attendance.member(IDENTITY, SESSION)
    ended, mine = scene.flight(1, shard=ShardNo(77)), scene.flight(2)
    for flight in (ended, mine):
        scene.memory.in_flight.add(flight)
    keys = [(flight.job_id, flight.fence) for flight in (ended, mine)]
    answer = await scene.attendance.beat(member, inventory(*keys), 1, ())
    assert answer.lost == (keys[0],)


async def test_a_beat_of_the_dead_removes_them(scene: Scene) -> None:
    gone: list[SessionId] = []
    scene.memory.on_member_gone = lambda member: gone.append(member.id)
    await scene.attendance.open(IDENTITY, session())
    member = await scene.attendance.member(IDENTITY, SESSION)
    scene.sessions.rows[SESSION] = session(state=SessionState.CLOSED)
    with pytest.raises(NotFound) as refused:
        await scene.attendance.beat(member, None, 1, ())
    assert refused.value.reason == "SESSION_GONE"
    assert gone == [SESSION]


async def test_draining_elsewhere_is_heard_with_a_beat(scene: Scene) -> None:
    await scene.attendance.open(IDENTITY, session())
    member = await scene.attendance.member(IDENTITY, SESSION)
    scene.sessions.rows[SESSION] = session(state=SessionState.DRAINING)
    assert member.active
    await scene.attendance.beat(member, None, 1, ())
    assert not member.active


async def test_closing_gives_back_what_is_in_flight(scene: Scene) -> None:
    await scene.attendance.open(IDENTITY, session())
    member = await scene.attendance.member(IDENTITY, SESSION)
    scene.memory.in_flight.add(scene.flight(1))
    scene.memory.in_flight.add(scene.flight(2, session=SessionId("other")))
    await scene.attendance.close(member)
    assert [(x.job_id, x.ending.outcome) for x in scene.completions.ended] == [(job_id(1), Outcome.RELEASED)]
    assert not member.active
    assert len(scene.memory.members) == 0
