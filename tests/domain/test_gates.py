"""What is closed gives nothing, holds up nobody, and goes on where it stood once it opens."""

import pytest

from rota.domain import fairness
from rota.domain.fairness import LaneKey, Position, ReadyQueue, Wants
from rota.domain.ids import ShardNo, TenantId
from rota.domain.limiting import Gate

from .build import TENANT, entry, job_id

PLENTY = 1 << 30
ALL = Wants(TENANT, ("q",), frozenset())
HOT = Gate(TENANT, "q", "hot")


def take(queue: ReadyQueue, count: int = 99, wants: Wants = ALL) -> list[str]:
    return [e.id for e in queue.take(wants, count, PLENTY)]


def jobs(*numbers: int) -> list[str]:
    return [job_id(number) for number in numbers]


@pytest.mark.parametrize("gate", [Gate(TENANT), Gate(TENANT, "q"), HOT])
@pytest.mark.parametrize("before", [True, False])
def test_a_closed_gate_gives_nothing_until_it_opens(gate: Gate, before: bool) -> None:
    queue = ReadyQueue()
    if before:
        queue.close(gate)
    for number in (1, 2, 3):
        assert queue.push(entry(number, concurrency_key="hot"))
    if not before:
        queue.close(gate)
    assert queue.closed == {gate}
    assert take(queue) == []
    assert (queue.peek(ALL), queue.count(ALL, 9), queue.queues()) == (None, 0, [])
    if gate.key:
        # Whether a key is closed shows when its job is met.
        assert queue.next_turn() == (TENANT, "q")
        queue.pass_over(TENANT, "q")
    assert queue.next_turn() is None
    assert len(queue) == 3
    queue.open(gate)
    queue.open(gate)
    assert queue.next_turn() == (TENANT, "q")
    assert (queue.peek(ALL), queue.count(ALL, 9), queue.count(ALL, 2)) == (entry(1).order, 3, 2)
    assert take(queue) == jobs(1, 2, 3)


@pytest.mark.parametrize(
    "gate", [Gate(TenantId(8)), Gate(TENANT, "p"), Gate(TENANT, "p", "hot"), Gate(TENANT, "q", "h")]
)
def test_a_gate_closes_nothing_else(gate: Gate) -> None:
    queue = ReadyQueue()
    queue.push(entry(1, concurrency_key="hot"))
    queue.close(gate)
    assert take(queue) == jobs(1)


def test_a_closed_key_does_not_hold_up_those_behind_it() -> None:
    queue = ReadyQueue()
    for number in range(10):
        queue.push(entry(number, due_us=number, concurrency_key="hot" if number < 5 else "cold"))
    assert take(queue, 2) == jobs(0, 1)
    queue.close(HOT)
    assert queue.count(ALL, 99) == 5
    assert take(queue, 2) == jobs(5, 6)
    queue.open(HOT)
    # Back in their place, those that were met and those that came meanwhile.
    queue.close(HOT)
    queue.push(entry(20, due_us=3, concurrency_key="hot"))
    queue.open(HOT)
    assert take(queue) == jobs(2, 3, 20, 4, 7, 8, 9)


def test_workers_of_some_types_and_of_several_queues_pass_over_what_is_closed() -> None:
    queue = ReadyQueue()
    queue.push(entry(1, type="a", concurrency_key="hot"))
    queue.push(entry(2, type="b", concurrency_key="hot"))
    queue.push(entry(3, type="a"))
    queue.push(entry(4, queue="p", type="a", concurrency_key="hot"))
    queue.close(HOT)
    of_a = Wants(TENANT, ("q", "p"), frozenset("a"))
    assert queue.count(of_a, 9) == 2
    assert sorted(take(queue, wants=of_a)) == jobs(3, 4)
    queue.open(HOT)
    assert take(queue, wants=of_a) == jobs(1)
    assert take(queue) == jobs(2)


def test_a_hot_key_fills_only_its_own_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fairness, "HELD_ENTRIES_MAX", 3)
    queue = ReadyQueue(lane_entries_max=8)
    queue.close(HOT)
    pushed = [queue.push(entry(number, due_us=number, shard=ShardNo(0), concurrency_key="hot")) for number in range(10)]
    assert pushed == [True] * 3 + [False] * 7
    for number in range(20, 28):
        assert queue.push(entry(number, due_us=number, concurrency_key="cold"))
    assert not queue.is_full(LaneKey(TENANT, "q", "t", "cold"))
    assert queue.is_full(LaneKey(TENANT, "q", "t", "hot"))
    assert take(queue) == jobs(*range(20, 28))
    assert queue.refillable() == []
    queue.open(HOT)
    assert take(queue) == jobs(0, 1, 2)
    ((lane, left_out),) = queue.refillable()
    assert lane == LaneKey(TENANT, "q", "t", "hot")
    assert left_out == {ShardNo(0): Position(3, job_id(3))}
    # A read of it takes that key's jobs only; a read of the lane itself takes every key.
    assert lane.covers(entry(1, concurrency_key="hot"))
    assert not lane.covers(entry(1, concurrency_key="cold"))
    assert entry(1).lane.covers(entry(1, concurrency_key="hot"))
    assert not entry(1).lane.covers(entry(1, type="other"))


def test_what_was_in_memory_before_its_key_closed_makes_room_when_it_is_met(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fairness, "HELD_ENTRIES_MAX", 3)
    queue = ReadyQueue(lane_entries_max=10)
    for number in range(9):
        queue.push(entry(number, due_us=number, shard=ShardNo(0), concurrency_key="hot"))
    queue.push(entry(9, due_us=9))
    queue.close(HOT)
    assert take(queue) == jobs(9)
    assert len(queue) == 3
    assert job_id(3) not in queue
    queue.open(HOT)
    assert take(queue) == jobs(0, 1, 2)
    assert queue.refillable() == [(LaneKey(TENANT, "q", "t", "hot"), {ShardNo(0): Position(3, job_id(3))})]


def test_a_key_that_closes_again_gives_nothing_again() -> None:
    queue = ReadyQueue()
    for number in (1, 2):
        queue.push(entry(number, concurrency_key="hot"))
    for number in (1, 2):
        queue.close(HOT)
        assert take(queue) == []
        queue.open(HOT)
        queue.close(HOT)
        assert take(queue) == []
        queue.open(HOT)
        assert take(queue, 1) == jobs(number)


def test_an_opened_key_that_was_used_up_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fairness, "HELD_ENTRIES_MAX", 3)
    queue = ReadyQueue()
    queue.close(HOT)
    for number in (1, 2, 3):
        assert queue.push(entry(number, concurrency_key="hot"))
    queue.open(HOT)
    # Until then it has no other room than its own.
    assert not queue.push(entry(4, concurrency_key="hot"))
    assert take(queue) == jobs(1, 2, 3)
    assert len(queue.refillable()) == 1
    # Its jobs are as any again.
    assert all(queue.push(entry(number, concurrency_key="hot")) for number in range(4, 9))
    assert take(queue) == jobs(4, 5, 6, 7, 8)


def test_a_closed_tenant_that_opens_has_all_its_turns() -> None:
    queue = ReadyQueue()
    queue.close(Gate(TENANT))
    queue.push(entry(1))
    queue.push(entry(2, queue="p"))
    assert queue.next_turn() is None
    queue.open(Gate(TENANT))
    turns = set()
    while (turn := queue.next_turn()) is not None:
        turns.add(turn)
        queue.pass_over(*turn)
    assert turns == {(TENANT, "q"), (TENANT, "p")}
