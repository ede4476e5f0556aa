"""The queue in memory, against a plain list: it gives the best first, and what does not fit is never lost."""

import math
from collections.abc import Iterable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rota.domain import limits
from rota.domain.fairness import FIRST, Entry, LaneKey, Position, ReadyQueue, Wants
from rota.domain.ids import ShardNo, TenantId

from .build import TENANT, entry, job_id

ALL = Wants(TENANT, ("q",), frozenset())
PLENTY = 1 << 30


def queue_of(entries: Iterable[Entry], lane_max: int = 100) -> ReadyQueue:
    queue = ReadyQueue(lane_max)
    for item in entries:
        queue.push(item)
    return queue


def due(number: int, at_s: float, priority: int = 4, **changes: object) -> Entry:
    return entry(number, due_us=round(at_s * 1e6), priority=priority, **changes)


def check(waiting: list[Entry], order: list[int], wants: Wants = ALL, count: int = 99, room: int = PLENTY) -> None:
    """`order`: the numbers of the jobs given, first to last."""
    taken = queue_of(waiting).take(wants, count, room)
    assert [e.id for e in taken] == [job_id(number) for number in order]


def test_oldest_first_within_a_priority() -> None:
    check([due(1, 30), due(2, 10), due(3, 20)], [2, 3, 1])


def test_equal_due_times_keep_the_order_of_creation() -> None:
    check([due(3, 10), due(1, 10), due(2, 10)], [1, 2, 3])


def test_a_job_that_comes_back_keeps_its_rank() -> None:
    """janbjorge/pgqueuer#684: recovered jobs were appended behind all fresh ones."""
    fresh = [due(number, at_s=number, priority=0) for number in range(1, 100)]
    check([*fresh, due(100, at_s=99, priority=9)], [100, 1, 2], count=3)


def test_two_schedules_share_one_slot_by_due_time() -> None:
    """timescale/timescaledb#9918: one due each second whose runs take five, and one each three whose runs take a fifth:
    the second never ran."""
    queue = ReadyQueue()
    waits_s: list[float] = []
    free_at, a_lives_until, number = 0.0, 0.0, 0
    for tick in range(300 * 5):
        now = tick / 5
        if tick % 5 == 0 and now >= a_lives_until:
            # Its runs must not overlap: while one lives its slots are skipped.
            number += 1
            queue.push(due(number, now, type="a"))
            a_lives_until = math.inf
        if tick % 15 == 0:
            number += 1
            queue.push(due(number, now, type="b"))
        if now >= free_at:
            for job in queue.take(ALL, 1, PLENTY):
                if job.type == "a":
                    free_at = a_lives_until = now + 5.0
                else:
                    free_at = now + 0.2
                    waits_s.append(now - job.due)
    assert len(waits_s) >= 95
    assert max(waits_s) <= 6.0


@pytest.mark.parametrize("wants", [ALL, Wants(TENANT, ("q", "r"), frozenset())])
def test_a_job_may_come_again_with_other_facts(wants: Wants) -> None:
    """Its start_by counts no more once an attempt has; what the queue noted of it before is still about."""
    queue = queue_of([due(1, 10, start_by=99.0), due(2, 20)])
    assert [e.id for e in queue.take(wants, 1, PLENTY)] == [job_id(1)]
    queue.push(due(1, 10))
    assert [(e.id, e.start_by) for e in queue.take(wants, 9, PLENTY)] == [(job_id(1), None), (job_id(2), None)]


@pytest.mark.parametrize(
    ("low_due", "high_due", "first"),
    [
        (0, 0, "high"),
        (0, 269.999999, "high"),
        (0, 270.000001, "low"),
        (0, 1_000, "low"),
    ],
)
def test_priority_0_waits_for_priority_9_at_most_270_seconds(low_due: float, high_due: float, first: str) -> None:
    low, high = due(1, low_due, priority=0), due(2, high_due, priority=9)
    check([low, high], [1, 2] if first == "low" else [2, 1])


def test_nothing_starves_under_a_flood_of_higher_priority() -> None:
    """One worker, one job a second; every second a fresh job of priority 9."""
    queue = queue_of([due(0, 0, priority=0)])
    for second in range(1_000):
        queue.push(due(second + 1, second, priority=9))
        if queue.take(ALL, 1, PLENTY)[0].priority == 0:
            break
    assert second == 9 * limits.PRIORITY_STEP_S


def test_the_best_of_many_lanes() -> None:
    waiting = [
        due(1, 40, type="a"),
        due(2, 20, type="b"),
        due(3, 30, type="a"),
        due(4, 10, type="c", queue="other"),
        due(5, 100, type="b", priority=9),
    ]
    check(waiting, [5, 4, 2, 3, 1], Wants(TENANT, ("q", "other"), frozenset()))
    check(waiting, [5, 2, 3, 1], Wants(TENANT, ("q",), frozenset()))
    check(waiting, [4, 3, 1], Wants(TENANT, ("other", "q"), frozenset({"a", "c"})))
    check(waiting, [], Wants(TENANT, ("q",), frozenset({"c"})))
    check(waiting, [], Wants(TENANT, ("nowhere",), frozenset()))
    check(waiting, [], Wants(TENANT, (), frozenset()))


def test_tenants_are_apart() -> None:
    waiting = [due(1, 10), due(2, 5, tenant_id=TenantId(8))]
    check(waiting, [1])
    check(waiting, [2], Wants(TenantId(8), ("q",), frozenset()))
    check(waiting, [], Wants(TenantId(9), ("q",), frozenset()))


@pytest.mark.parametrize(
    ("sizes", "count", "room", "taken"),
    [
        ([10, 10, 10], 99, 30, 3),
        ([10, 10, 10], 99, 29, 2),
        ([10, 10, 10], 99, 10, 1),
        # Always one, or a big job would never run.
        ([10, 10, 10], 99, 0, 1),
        ([1_000, 1], 99, 10, 1),
        # Order is kept: nothing small overtakes what does not fit.
        ([10, 1_000, 1], 99, 20, 1),
        ([0, 0, 0], 99, 0, 3),
        ([1, 1, 1], 2, 99, 2),
        ([1, 1, 1], 0, 99, 0),
    ],
)
def test_limits_of_one_taking(sizes: list[int], count: int, room: int, taken: int) -> None:
    waiting = [due(number, number, size=size) for number, size in enumerate(sizes)]
    check(waiting, list(range(taken)), count=count, room=room)


def test_the_limits_hold_across_lanes() -> None:
    waiting = [due(number, number, size=10, type="ab"[number % 2]) for number in range(4)]
    check(waiting, [0, 1, 2], room=35)


def test_a_queue_named_twice_counts_once() -> None:
    waiting = [due(1, 10), due(2, 20)]
    check(waiting, [1, 2], Wants(TENANT, ("q", "q"), frozenset()))
    check(waiting, [1], Wants(TENANT, ("q", "q"), frozenset()), count=1)


def test_a_job_is_held_once() -> None:
    queue = queue_of([due(1, 10)])
    assert queue.push(due(1, 10)) is True
    assert len(queue) == 1
    assert job_id(1) in queue
    assert len(queue.take(ALL, 9, PLENTY)) == 1
    assert job_id(1) not in queue
    assert queue.push(due(1, 10)) is True


FULL = [(1, 10, 0), (2, 20, 0), (3, 40, 0), (4, 30, 0), (5, 50, 1), (6, 35, 1)]


def test_a_full_lane_remembers_the_first_job_left_out_of_each_shard() -> None:
    queue = ReadyQueue(2)
    pushed = [queue.push(due(number, at, shard=ShardNo(shard))) for number, at, shard in FULL]
    assert pushed == [True, True, False, False, False, False]
    assert queue.is_full(LaneKey(TENANT, "q", "t"))
    assert queue.refillable() == []
    queue.take(ALL, 1, PLENTY)
    assert queue.refillable() == [
        (
            LaneKey(TENANT, "q", "t"),
            {ShardNo(0): Position(30_000_000, job_id(4)), ShardNo(1): Position(35_000_000, job_id(6))},
        )
    ]
    # The caller reads from there now, so the marks are gone.
    assert queue.refillable() == []


def test_a_full_lane_is_not_another_lane() -> None:
    queue = ReadyQueue(1)
    assert queue.push(due(1, 10, type="a"))
    assert queue.push(due(2, 10, type="b"))
    assert not queue.push(due(3, 10, type="a"))
    assert not queue.is_full(LaneKey(TENANT, "q", "unknown"))


def test_lost_shards_are_forgotten() -> None:
    queue = queue_of([due(number, number, shard=ShardNo(number % 3)) for number in range(6)], lane_max=4)
    queue.forget_shards(frozenset({ShardNo(0), ShardNo(1)}))
    assert len(queue) == 1
    assert [e.id for e in queue.take(ALL, 9, PLENTY)] == [job_id(2)]
    # What was left out of shard 2 is still known, of shard 1 no longer.
    ((_, left_out),) = queue.refillable()
    assert left_out == {ShardNo(2): Position(5_000_000, job_id(5))}
    assert list(queue.queues()) == []


def test_jobs_past_start_by_are_taken_out() -> None:
    waiting = [due(1, 10, start_by=20.0), due(2, 10, start_by=20.5), due(3, 10), due(4, 10, type="b", start_by=19.0)]
    queue = queue_of(waiting)
    assert queue.expired(18.0) == []
    assert {e.id for e in queue.expired(20.0)} == {job_id(1), job_id(4)}
    assert queue.expired(20.0) == []
    assert len(queue) == 2
    assert [e.id for e in queue.take(ALL, 9, PLENTY)] == [job_id(2), job_id(3)]


def test_the_first_position_is_before_every_job() -> None:
    assert Position(0, job_id(0)) > FIRST
    assert Position(FIRST.due_us + 1, "0") > FIRST


def test_an_emptied_lane_leaves_nothing_behind() -> None:
    """Types come and go: a lane that is used up must not be looked at for ever."""
    queue = ReadyQueue(1)
    queue.push(due(1, 10))
    queue.push(due(2, 10))
    queue.take(ALL, 1, PLENTY)
    assert len(queue.refillable()) == 1
    assert list(queue.queues()) == []


class QueueAgainstList(RuleBasedStateMachine):
    """`rows` is the database: what waits there. `held` is what the queue should have in memory."""

    LANE_MAX = 3

    def __init__(self) -> None:
        super().__init__()
        self.queue = ReadyQueue(self.LANE_MAX)
        self.rows: dict[str, Entry] = {}
        self.held: set[str] = set()
        self.number = 0

    @rule(
        due_s=st.integers(0, 400),
        priority=st.integers(0, 9),
        shard=st.integers(0, 2),
        type=st.sampled_from("ab"),
        name=st.sampled_from(["q", "p"]),
        size=st.integers(0, 5),
        start_by=st.none() | st.integers(0, 500),
    )
    def a_job_becomes_due(
        self, due_s: int, priority: int, shard: int, type: str, name: str, size: int, start_by: int | None
    ) -> None:
        self.number += 1
        item = due(
            self.number, due_s, priority, shard=ShardNo(shard), type=type, queue=name, size=size, start_by=start_by
        )
        self.rows[item.id] = item
        self.push(item)

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def a_job_is_read_again(self, data: st.DataObject) -> None:
        self.push(self.rows[data.draw(st.sampled_from(sorted(self.rows)))])

    @rule(
        names=st.sampled_from([("q",), ("p",), ("q", "q")]),
        types=st.sampled_from([frozenset[str](), frozenset("a"), frozenset("b"), frozenset("ab")]),
        count=st.integers(0, 5),
        room=st.integers(0, 12),
    )
    def a_worker_takes(self, names: tuple[str, ...], types: frozenset[str], count: int, room: int) -> None:
        taken = self.queue.take(Wants(TENANT, names, types), count, room)
        matching = [
            e for e in map(self.rows.__getitem__, self.held) if e.queue in names and (not types or e.type in types)
        ]
        best = sorted(matching, key=lambda e: (e.due - e.priority * limits.PRIORITY_STEP_S, e.id))[:count]
        fitting = next((n for n in range(1, len(best)) if sum(e.size for e in best[: n + 1]) > room), len(best))
        assert taken == best[:fitting]
        for item in taken:
            self.held.remove(item.id)
            del self.rows[item.id]

    @rule()
    def the_poller_refills(self) -> None:
        for lane, left_out in self.queue.refillable():
            assert len(self.in_lane(lane)) <= self.LANE_MAX // 2
            for item in sorted(self.rows.values(), key=lambda e: e.position):
                if item.lane == lane and item.shard in left_out and item.position >= left_out[item.shard]:
                    self.push(item)

    @rule(shard=st.integers(0, 2))
    def a_shard_is_lost(self, shard: int) -> None:
        self.queue.forget_shards(frozenset({ShardNo(shard)}))
        lost = {id for id, e in self.rows.items() if e.shard == shard}
        self.held -= lost
        for id in lost:
            del self.rows[id]

    @rule(now=st.integers(0, 500))
    def start_by_passes(self, now: int) -> None:
        late = {id for id in self.held if (at := self.rows[id].start_by) is not None and at <= now}
        assert {e.id for e in self.queue.expired(now)} == late
        self.held -= late
        for id in late:
            del self.rows[id]

    @invariant()
    def memory_is_as_expected(self) -> None:
        assert len(self.queue) == len(self.held)
        assert all(id in self.queue for id in self.held)
        assert {(e.tenant_id, e.queue) for e in map(self.rows.__getitem__, self.held)} <= set(self.queue.queues())

    def teardown(self) -> None:
        """Taken and refilled to the end, every waiting job comes out, once."""
        for _ in range(len(self.rows) + 1):
            self.the_poller_refills()
            self.a_worker_takes(("q",), frozenset(), 99, PLENTY)
            self.a_worker_takes(("p",), frozenset(), 99, PLENTY)
        assert self.rows == {}
        assert list(self.queue.queues()) == []

    def push(self, item: Entry) -> None:
        fits = item.id in self.held or len(self.in_lane(item.lane)) < self.LANE_MAX
        assert self.queue.push(item) is fits
        if fits:
            self.held.add(item.id)
        assert self.queue.is_full(item.lane) == (len(self.in_lane(item.lane)) == self.LANE_MAX)

    def in_lane(self, lane: LaneKey) -> set[str]:
        return {id for id in self.held if self.rows[id].lane == lane}


TestQueueAgainstList = QueueAgainstList.TestCase
TestQueueAgainstList.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
