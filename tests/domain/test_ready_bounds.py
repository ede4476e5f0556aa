"""Memory is bounded, over all lanes too, and nobody is shut out by who came first."""

import pytest

from rota.domain import fairness
from rota.domain.backlog import VIEWS_MAX, Backlog
from rota.domain.fairness import Entry, LaneKey, ReadyQueue, Wants
from rota.domain.ids import ShardNo, TenantId
from rota.domain.limiting import Gate

from .build import TENANT, entry, job_id

PLENTY = 1 << 30
BIG, SMALL, OTHER = TenantId(1), TenantId(2), TenantId(3)


def wants(tenant: TenantId) -> Wants:
    return Wants(tenant, ("q",), frozenset())


def fill(queue: ReadyQueue, tenant: TenantId, numbers: range, **changes: object) -> int:
    return sum(queue.push(of(number, tenant, **changes)) for number in numbers)


def of(number: int, tenant: TenantId, **changes: object) -> Entry:
    return entry(number, tenant_id=tenant, due_us=number, shard=ShardNo(0), **changes)


@pytest.fixture
def small_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fairness, "LANE_ENTRIES_MIN", 4)
    monkeypatch.setattr(fairness, "READY_RESERVE", 6)


@pytest.mark.usefixtures("small_lanes")
def test_a_full_memory_keeps_a_little_room_for_every_lane() -> None:
    queue = ReadyQueue(lane_entries_max=100, entries_max=50)
    assert fill(queue, BIG, range(80)) == 50
    assert queue.is_full(LaneKey(BIG, "q", "t"))
    assert fill(queue, SMALL, range(100, 110)) == 4
    assert queue.is_full(LaneKey(SMALL, "q", "t"))
    # The reserve is bounded as well: then an empty lane has room for one.
    assert fill(queue, OTHER, range(200, 210)) == 2
    assert fill(queue, TenantId(4), range(300, 310)) == 1
    assert [e.id for e in queue.take(wants(SMALL), 9, PLENTY)] == [job_id(n) for n in range(100, 104)]
    # What was left out comes back, first for who has the least.
    lanes = queue.refillable()
    assert lanes[0][0].tenant_id == SMALL
    assert BIG not in [lane.tenant_id for lane, _ in lanes]


@pytest.mark.usefixtures("small_lanes")
def test_lanes_come_back_in_turns_of_tenants_by_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = ReadyQueue(lane_entries_max=4, entries_max=1_000)
    queue.set_weights({OTHER: 1_000}, {})
    for tenant, types in ((BIG, "abc"), (SMALL, "a"), (OTHER, "ab")):
        for number, type in enumerate(types):
            fill(queue, tenant, range(tenant * 100 + number * 10, tenant * 100 + number * 10 + 6), type=type)
        queue.take(wants(tenant), 4 * len(types), PLENTY)
    monkeypatch.setattr(fairness, "REFILL_LANES_MAX", 5)
    order = [(lane.tenant_id, lane.type) for lane, _ in queue.refillable()]
    assert order == [(BIG, "a"), (SMALL, "a"), (OTHER, "a"), (OTHER, "b"), (BIG, "b")]
    # The rest the next time.
    assert [(lane.tenant_id, lane.type) for lane, _ in queue.refillable()] == [(BIG, "c")]


@pytest.mark.usefixtures("small_lanes")
@pytest.mark.parametrize("why", ["closed", "no workers"])
def test_a_lane_that_gives_nothing_makes_room_for_those_that_do(why: str) -> None:
    queue = ReadyQueue(lane_entries_max=32, entries_max=32)
    fill(queue, BIG, range(32))
    fill(queue, SMALL, range(100, 140))
    if why == "closed":
        queue.close(Gate(BIG, "q"))
    else:
        queue.take(wants(SMALL), 4, PLENTY)
        fill(queue, SMALL, range(100, 104))
        queue.take(wants(SMALL), 4, PLENTY)
    lanes = dict(queue.refillable())
    # The first jobs stay, and those taken back are left out like any.
    assert len(queue) == 4 + (4 if why == "closed" else 0)
    assert LaneKey(BIG, "q", "t") not in lanes
    queue.open(Gate(BIG, "q"))
    assert [e.id for e in queue.take(wants(BIG), 99, PLENTY)] == [job_id(n) for n in range(4)]
    assert dict(queue.refillable())[LaneKey(BIG, "q", "t")] == {ShardNo(0): of(4, BIG).position}


def test_a_better_job_does_not_wait_behind_what_is_left_out() -> None:
    """A high priority that comes when its lane is full of old work of a low one."""
    queue = ReadyQueue(lane_entries_max=8)
    assert fill(queue, TENANT, range(10), priority=0) == 8
    assert queue.push(of(20, TENANT, priority=9))
    assert not queue.push(of(21, TENANT, priority=0))
    assert queue.push(of(22, TENANT, priority=9))
    # That has a bound too.
    assert not queue.push(of(23, TENANT, priority=9))
    assert [e.id for e in queue.take(wants(TENANT), 3, PLENTY)] == [job_id(n) for n in (20, 22, 0)]
    queue.take(wants(TENANT), 5, PLENTY)
    assert (len(queue), len(queue.refillable())) == (2, 1)
    # All that was left out is being read: there is nothing to be better than, until something is left out again.
    assert fill(queue, TENANT, range(10, 20), priority=9) == 6


def test_a_lane_that_gives_is_refilled_from_half_on_and_one_that_does_not_waits() -> None:
    queue = ReadyQueue(lane_entries_max=400)
    fill(queue, TENANT, range(401))
    queue.take(wants(TENANT), 199, PLENTY)
    assert queue.refillable() == []
    queue.take(wants(TENANT), 1, PLENTY)
    assert len(queue.refillable()) == 1
    # Read, and left out again for want of room in memory: it has enough for a worker to begin with.
    queue.leave_out(LaneKey(TENANT, "q", "t"), ShardNo(0), of(400, TENANT).position)
    assert queue.refillable() == []
    queue.take(wants(TENANT), 1, PLENTY)
    assert len(queue.refillable()) == 1


def test_the_number_of_lanes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fairness, "LANES_MAX", 3)
    queue = ReadyQueue()
    pushed = [queue.push(of(number, TENANT, type=f"t{number}")) for number in range(5)]
    assert pushed == [True, True, True, False, False]
    queue.leave_out(LaneKey(TENANT, "q", "another"), ShardNo(0), of(9, TENANT).position)
    assert queue.refillable() == []
    queue.close(Gate(TENANT, "q", "hot"))
    assert not queue.push(of(10, TENANT, concurrency_key="hot"))
    assert len(queue.take(wants(TENANT), 9, PLENTY)) == 3
    assert queue.push(of(3, TENANT, type="t3"))


def test_many_sets_of_types_give_the_same_jobs() -> None:
    """More than are kept, each with the types of others in it."""
    queue = ReadyQueue()
    names = [f"t{number}" for number in range(VIEWS_MAX + 8)]
    for round in range(3):
        fill(queue, TENANT, range(round * 100, round * 100 + len(names)), type="t0")
        for number, name in enumerate(names):
            kinds = Wants(TENANT, ("q",), frozenset({"t0", name}))
            assert [e.id for e in queue.take(kinds, 1, PLENTY)] == [job_id(round * 100 + number)]
    assert len(queue) == 0


def test_a_view_that_nobody_takes_by_does_not_grow() -> None:
    backlog = Backlog(TENANT, "q", 100, False, frozenset())
    lane = backlog.add_lane("a", "", 10_000, 0)
    unused, used = backlog.view(frozenset()), backlog.view(frozenset("a"))
    for number in range(2_000):
        lane.push(of(5_000 - number, TENANT))
        backlog.show(lane)
        if number % 2:
            assert used.first() is lane
            lane.pop()
    assert len(unused.heap) < 100
    assert unused.first() is used.first() is lane
