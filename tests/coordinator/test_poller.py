"""Poller: two cursors over the due range find every row, and what they find is followed and nothing else."""

from typing import Any

import pytest

from rota.coordinator import memory as memory_module
from rota.coordinator import poller as module
from rota.coordinator.poller import RESCAN_S, Poller
from rota.domain import ids, limits
from rota.domain.errors import Unavailable
from rota.domain.fairness import Entry, ReadyQueue, Wants
from rota.domain.ids import ShardNo
from rota.domain.model import DirectiveKind, JobState, Outcome
from rota.service.completions import LostLease

from .fakes import ME, SESSION, TENANT, FakeRows, World, grant, job_id, row, session

EVERYTHING = Wants(TENANT, ("q", "r"), frozenset())
OTHER_EPOCH = 7


class Scene(World):
    def __init__(self, shards: int = 2) -> None:
        super().__init__(shards)
        self.table = FakeRows()
        self.lost: list[LostLease] = []
        self.late: list[Entry] = []
        self.memory.on_late = self.late.extend
        self.poller = Poller(
            self.memory,
            self.table,  # type: ignore[arg-type]
            self.table,  # type: ignore[arg-type]
            ME,
            self.clock,
            self.database_clock,
            give_back=self.lost.extend,
        )

    async def begin(self) -> None:
        await self.poller.begin(sorted(self.memory.terms))

    async def steps(self, count: int = 1, wait_s: float = RESCAN_S) -> None:
        for _ in range(count):
            await self.poller.step()
            self.clock.now += wait_s
            self.memory.release_due()

    async def caught_up(self, most: int = 200) -> int:
        """Steps until none is full; how many."""
        for count in range(1, most):
            if await self.poller.step() > 0:
                return count
        raise AssertionError(f"still full after {most} steps")

    def take(self, count: int = 10_000) -> list[str]:
        """Leaves the queue as jobs that are leased, and out of the table."""
        taken = self.memory.ready.take(EVERYTHING, count, 2**40)
        for entry in taken:
            self.table.rows.pop(entry.id, None)
        return [entry.id for entry in taken]

    def put(self, *entries: Entry) -> list[str]:
        self.table.put(*(row(entry) for entry in entries))
        return [entry.id for entry in entries]

    def leased(self, number: int, *, epoch: int = OTHER_EPOCH, alive: bool = True, **fields: Any) -> Any:
        usual: dict[str, Any] = {
            "state": JobState.LEASED,
            "fence": ids.mint_fence(epoch, number + 1),
            "session_id": SESSION,
            "session_alive": alive,
            "leased_for_s": 10.0,
            "run_timeout_s": 60.0,
        }
        found = row(self.entry(number, -10.0), **usual | fields)
        self.table.put(found)
        return found


@pytest.fixture
async def scene() -> Scene:
    scene = Scene()
    await scene.begin()
    return scene


async def test_a_backlog_is_read_in_pages_as_fast_as_they_are_full(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE_ROWS", 20)
    names = scene.put(*(scene.entry(n, -n - 1.0) for n in range(200)))
    assert await scene.caught_up() >= 10
    assert sorted(scene.take()) == sorted(names)
    assert max(scene.table.reads) <= 20


async def test_many_rows_of_one_instant_are_all_read(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE_ROWS", 8)
    names = scene.put(*(scene.entry(n, -5.0) for n in range(60)))
    await scene.caught_up()
    assert sorted(scene.take()) == sorted(names)


async def test_rows_come_into_memory_within_the_lookahead(scene: Scene) -> None:
    (soon,) = scene.put(scene.entry(1, limits.LOOKAHEAD_S - 1))
    (far,) = scene.put(scene.entry(2, limits.LOOKAHEAD_S + 3))
    await scene.steps(1)
    assert scene.memory.timers == 1
    await scene.steps(4)
    assert scene.take() == [soon]
    await scene.steps(2)
    assert scene.take() == [far]


async def test_a_row_inserted_behind_the_ahead_cursor_is_found(scene: Scene) -> None:
    await scene.steps(2)
    (name,) = scene.put(scene.entry(1, -30.0))
    await scene.steps(2)
    assert scene.take() == [name]


async def test_rows_inserted_behind_the_cursor_are_found_under_a_large_backlog(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE_ROWS", 20)
    backlog = scene.put(*(scene.entry(n, -100.0 - n) for n in range(100)))
    await scene.caught_up()
    assert len(scene.memory.ready) == 100
    (name,) = scene.put(scene.entry(500, -150.5))
    # Once round: a page of ten rows of each shard in each rescan.
    await scene.steps(8)
    assert sorted(scene.take()) == sorted([*backlog, name])


async def test_a_rewind_reads_again_from_there(scene: Scene) -> None:
    names = scene.put(scene.entry(0, -5.0), scene.entry(2, -3.0))
    await scene.poller.step()
    assert sorted(scene.take(1)) == [names[0]]
    scene.put(scene.entry(0, -5.0))
    scene.poller.rewind(ShardNo(0), scene.entry(0, -5.0).position)
    scene.poller._rescan_at = scene.clock.now + 1_000
    await scene.poller.step()
    assert sorted(scene.take()) == sorted(names)
    # A rewind to what lies ahead is none.
    ahead = scene.poller._ahead[ShardNo(0)]
    scene.poller.rewind(ShardNo(0), scene.entry(9, 100.0).position)
    assert scene.poller._ahead[ShardNo(0)] == ahead


async def test_what_has_no_room_in_memory_is_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE_ROWS", 16)
    scene = Scene()
    scene.memory.ready = ReadyQueue(lane_entries_max=10)
    await scene.begin()
    names = scene.put(*(scene.entry(n, -200.0 + n) for n in range(100)))
    await scene.caught_up()
    assert len(scene.memory.ready) == 10
    scene.poller._rescan_at = scene.clock.now + 1_000_000
    found: list[str] = []
    for _ in range(60):
        found += scene.take(3)
        await scene.poller.step()
    assert len(found) == len(set(found)) == 100
    assert sorted(found) == sorted(names)
    assert scene.table.lane_reads > 0


async def test_a_failing_read_back_leaves_no_lane_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store fails in the middle of reading lanes back: each is read later, and none waits for a rescan."""
    scene = Scene()
    scene.memory.ready = ReadyQueue(lane_entries_max=4)
    await scene.begin()
    names = scene.put(*(scene.entry(n, -200.0 + n, queue="qr"[n % 2], shard=ShardNo(0)) for n in range(24)))
    await scene.caught_up()
    scene.poller._rescan_at = scene.clock.now + 1_000_000
    found = scene.take(8)
    scene.table.fail = lambda lane: None if lane is None else Unavailable("down")
    for _ in range(3):
        with pytest.raises(Unavailable):
            await scene.poller.step()
    scene.table.fail = lambda lane: None
    for _ in range(20):
        await scene.poller.step()
        found += scene.take(4)
    assert sorted(found) == sorted(names)


async def test_full_timers_do_not_make_the_reader_spin(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE_ROWS", 20)
    monkeypatch.setattr(memory_module, "TIMERS_MAX", 30)
    names = scene.put(*(scene.entry(n, 1.0 + n / 100) for n in range(100)))
    # Full of what is due soon: reading the same page again at once would find no more room.
    assert await scene.caught_up() < 20
    assert scene.memory.timers == 30
    found: list[str] = []
    for _ in range(12):
        scene.clock.now += 0.5
        scene.memory.release_due()
        found += scene.take()
        await scene.caught_up()
    assert sorted(found) == sorted(names)


async def test_leases_of_dead_sessions_are_given_back(scene: Scene) -> None:
    dead = scene.leased(1, alive=False)
    nobodys = scene.leased(2, session_id=None)
    alive = scene.leased(3)
    await scene.poller.step()
    assert {(x.job_id, x.fence, x.ending.outcome, x.gone) for x in scene.lost} == {
        (r.entry.id, r.fence, Outcome.LEASE_LOST, False) for r in (dead, nobodys)
    }
    assert [f.job_id for f in scene.memory.in_flight] == [alive.entry.id]


async def test_a_lease_of_an_earlier_owner_is_followed(scene: Scene) -> None:
    member = scene.memory.members.add(session(), "tenant", 1, 0.0)
    lease = scene.leased(1)
    await scene.poller.step()
    (flight,) = scene.memory.in_flight
    assert (flight.job_id, flight.fence, flight.session_id) == (lease.entry.id, lease.fence, SESSION)
    # What it has run already counts.
    assert flight.run_deadline == pytest.approx(scene.clock.now + 50.0)
    assert flight.adopted and not flight.proven
    # Its answer may be on its way by a peer, for as long as answers are.
    assert (flight.on_its_way, flight.asked_at) == (True, scene.clock.now - 10.0)
    assert [d.kind for d in member.directives.values()] == [DirectiveKind.RESYNC]
    await scene.steps(5)
    assert len(member.directives) == 1


async def test_a_lease_that_was_granted_here_before_is_followed_by_its_answer(scene: Scene) -> None:
    """The shard was lost and found again meanwhile."""
    member = scene.memory.members.add(session(), "tenant", 1, 0.0)
    lease = scene.leased(1)
    delivery = member.deliver(member.number_batch(), 3, "r", [grant(1, fence=lease.fence)], scene.clock.now)
    await scene.poller.step()
    (flight,) = scene.memory.in_flight
    assert (flight.poller, flight.batch, flight.on_its_way) == (3, delivery.batch, False)
    assert member.directives == {}


async def test_a_lease_that_has_run_too_long_already_is_overdue_at_once(scene: Scene) -> None:
    scene.leased(1, leased_for_s=100.0)
    await scene.poller.step()
    assert len(scene.memory.in_flight.overrun(scene.clock.now)) == 1


@pytest.mark.parametrize("here", [True, False], ids=["member here", "member elsewhere"])
async def test_a_cancellation_found_in_the_rows_is_passed_on_once(scene: Scene, here: bool) -> None:
    member = scene.memory.members.add(session(), "tenant", 1, 0.0) if here else None
    lease = scene.leased(1)
    await scene.steps(1)
    scene.leased(1, state=JobState.CANCELLING)
    await scene.steps(2)
    (flight,) = scene.memory.in_flight
    assert flight.cancelling
    if member is None:
        return
    cancels = [d for d in member.directives.values() if d.kind is DirectiveKind.CANCEL]
    assert [(d.job, d.fence) for d in cancels] == [(lease.entry.id, lease.fence)]
    member.acknowledge([d.id for d in member.directives.values()])
    await scene.steps(4)
    assert member.directives == {}


async def test_a_lease_that_ended_while_its_row_travelled_is_not_brought_back(scene: Scene) -> None:
    """Granted here, read as leased, completed before the answer arrived: a phantom would hold its place for an hour."""
    member = scene.memory.members.add(session(), "tenant", 1, 0.0)
    lease = scene.leased(1, epoch=1)
    flight = scene.flight(1, fence=lease.fence)
    scene.memory.in_flight.add(flight)

    def complete() -> None:
        scene.table.rows.pop(lease.entry.id, None)
        scene.memory.lease_ended(flight.tenant_id, flight.job_id, flight.fence)

    scene.table.between = complete
    await scene.steps(3)
    assert len(scene.memory.in_flight) == 0
    assert member.directives == {}


async def test_a_lease_granted_here_and_forgotten_is_found_again(scene: Scene) -> None:
    """Memory is derived: whatever lost the lease, its run timeout must hold."""
    scene.leased(1, epoch=1)
    await scene.steps(6)
    assert [f.job_id for f in scene.memory.in_flight] == [job_id(1)]


async def test_a_job_whose_claim_is_on_its_way_is_left_alone(scene: Scene) -> None:
    waiting, leased = scene.entry(1), scene.leased(2)
    scene.put(waiting)
    scene.memory.claiming |= {waiting.id, leased.entry.id}
    await scene.steps(2)
    assert (len(scene.memory.ready), len(scene.memory.in_flight), scene.lost) == (0, 0, [])


async def test_a_job_too_late_to_start_is_told_once_read(scene: Scene) -> None:
    entry = scene.entry(1, -10.0, start_by=scene.database_clock.now() - 1)
    scene.put(entry)
    await scene.poller.step()
    assert [e.id for e in scene.late][:1] == [entry.id]
    assert len(scene.memory.ready) == 0


async def test_an_owner_of_nothing_reads_nothing(scene: Scene) -> None:
    scene.memory.forget_shards(frozenset(scene.memory.terms))
    scene.put(scene.entry(1))
    assert await scene.poller.step() > 0
    assert scene.table.reads == []


async def test_shards_acquired_later_begin_at_their_watermark(scene: Scene) -> None:
    old = scene.entry(1, -1_000.0, shard=ShardNo(9))
    (new,) = scene.put(scene.entry(3, -100.0, shard=ShardNo(9)))
    scene.put(old)
    scene.table.marks[ShardNo(9)] = scene.now_us - 500_000_000
    scene.own([9])
    await scene.poller.begin([ShardNo(9)])
    await scene.steps(1)
    assert scene.take() == [new]


async def test_shards_acquired_again_begin_where_the_database_says(scene: Scene) -> None:
    """It may be another one by now, in which work waits that was done: behind all that is known here."""
    for _ in range(3):
        await scene.steps(1, wait_s=300.0)
    assert scene.table.stored_marks
    scene.table.marks.clear()
    names = scene.put(scene.entry(0, -900.0), scene.entry(1, -900.0))
    await scene.begin()
    await scene.steps(1)
    assert scene.take() == names
    scene.table.stored_marks.clear()
    for _ in range(3):
        await scene.steps(1, wait_s=300.0)
    assert set(scene.table.stored_marks) == {0, 1}


async def test_the_watermark_follows_the_oldest_row_and_never_the_present(scene: Scene) -> None:
    oldest = scene.entry(0, -300.0)
    scene.put(oldest, scene.entry(2, -200.0))
    for _ in range(40):
        await scene.steps(1)
    marks = scene.table.stored_marks
    assert marks[ShardNo(0)] < oldest.due_us
    assert marks[ShardNo(1)] < scene.now_us - 59_000_000
    scene.table.rows.clear()
    for _ in range(40):
        await scene.steps(1)
    assert oldest.due_us < scene.table.stored_marks[ShardNo(0)] < scene.now_us - 59_000_000


async def test_a_row_that_appears_at_any_moment_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inserts, by others and at any point of either cursor, while work goes on."""
    monkeypatch.setattr(module, "PAGE_ROWS", 12)
    scene = Scene()
    scene.memory.ready = ReadyQueue(lane_entries_max=15)
    await scene.begin()
    rng = scene.clock.rng
    names: list[str] = []
    found: list[str] = []

    def insert() -> None:
        for _ in range(rng.randrange(3)):
            if len(names) < 150:
                names.extend(scene.put(scene.entry(len(names), rng.uniform(-50.0, 12.0))))

    scene.table.between = insert
    for _ in range(400):
        await scene.poller.step()
        scene.clock.now += 0.5
        scene.memory.release_due()
        found += scene.take(rng.randrange(4))
    assert len(names) == 150
    assert sorted(found) == sorted(names)
