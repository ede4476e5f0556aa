"""Memory: what is due and what is timed, never early, whatever the clock does."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from rota.clock import DatabaseClock, SystemClock
from rota.coordinator import memory as module
from rota.coordinator.members import Directive
from rota.coordinator.memory import Memory
from rota.coordinator.peers import Peers
from rota.domain import limits
from rota.domain.fairness import Entry, Position
from rota.domain.ids import SessionId, ShardNo
from rota.domain.model import DirectiveKind, ShardTerm
from rota.telemetry import Metrics

from .fakes import ME, SESSION, World, grant, job_id, session


@pytest.fixture
def world() -> World:
    return World()


async def test_due_jobs_are_ready_and_later_ones_timed(world: World) -> None:
    woken: list[int] = []
    world.memory.on_ready = lambda: woken.append(len(world.memory.ready))
    due, soon, far = world.entry(1, 0.0), world.entry(2, 5.0), world.entry(3, limits.LOOKAHEAD_S + 5)
    assert world.memory.accept([due, soon, far]) == 2
    assert (due.id in world.memory.ready, world.memory.timers, woken) == (True, 1, [1])
    # Known is known.
    assert world.memory.accept([due, soon]) == 0
    assert woken == [1]


async def test_a_timer_is_never_early(world: World) -> None:
    entry = world.entry(1, 5.0)
    world.memory.accept([entry])
    world.clock.now += 4.999_998
    assert world.memory.release_due() == 0
    world.clock.now += 0.000_003
    assert world.memory.release_due() == 1
    assert entry.id in world.memory.ready


async def test_a_clock_set_back_holds_timers_and_one_set_forward_releases_them(world: World) -> None:
    entry = world.entry(1, 5.0)
    world.memory.accept([entry])
    world.database_clock.observe(world.clock.utc() - timedelta(seconds=30), world.clock.monotonic())
    world.clock.now += 6
    assert world.memory.release_due() == 0
    world.database_clock.observe(world.clock.utc(), world.clock.monotonic())
    assert world.memory.release_due() == 1


async def test_timers_ring_by_themselves_in_order() -> None:
    clock = SystemClock()
    database_clock = DatabaseClock(clock)
    database_clock.observe(clock.utc(), clock.monotonic())
    memory = Memory(database_clock, Metrics(), Peers(ME, clock, None))
    memory.terms = {ShardNo(0): ShardTerm(ShardNo(0), 1, ME)}
    released: list[tuple[float, int]] = []
    done = asyncio.Event()

    def ready() -> None:
        released.append((database_clock.now(), len(memory.ready)))
        if len(memory.ready) == 3:
            done.set()

    memory.on_ready = ready
    now_us = int(database_clock.now() * 1e6)
    dues = [now_us + round(s * 1e6) for s in (0.12, 0.04, 0.08)]
    for number, due_us in enumerate(dues):
        memory.accept([Entry(1, job_id(number), ShardNo(0), "q", "t", 4, due_us, 1)])  # type: ignore[arg-type]
    await asyncio.wait_for(done.wait(), 2)
    memory.close()
    for (at, count), due_us in zip(released, sorted(dues), strict=True):
        assert at * 1e6 >= due_us, "early"
        assert at * 1e6 - due_us < 500_000
        assert count == released.index((at, count)) + 1


async def test_a_far_alarm_follows_a_corrected_clock(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The alarm rings each tick, so a jump of the database's clock is seen within one."""
    monkeypatch.setattr(module, "TICK_S", 0.02)
    rung = asyncio.Event()
    world.memory.on_ready = rung.set
    world.memory.accept([world.entry(1, 9.0)])
    world.database_clock.observe(world.clock.utc() + timedelta(seconds=10), world.clock.monotonic())
    await asyncio.wait_for(rung.wait(), 2)
    world.memory.close()


@pytest.mark.parametrize("way", ["earlier", "now", "later", "there and back"])
async def test_a_timed_job_that_is_moved_has_the_new_time_only(world: World, way: str) -> None:
    entry = world.entry(1, 5.0)
    world.memory.accept([entry])

    def move(seconds: float) -> None:
        world.memory.jobs_waiting([replace(entry, due_us=entry.due_us + int(seconds * 1e6))])

    due_s = {"earlier": 2.0, "now": 0.0, "later": 8.0, "there and back": 5.0}[way]
    if way == "there and back":
        move(-3.0)
    move(due_s - 5.0)
    if due_s:
        world.clock.now += due_s - 0.01
        assert world.memory.release_due() == 0
        assert entry.id not in world.memory.ready
        world.clock.now += 0.02
        assert world.memory.release_due() == 1
    assert entry.id in world.memory.ready
    world.clock.now += 20.0
    assert world.memory.release_due() == 0


async def test_a_timed_job_that_is_moved_beyond_the_lookahead_is_let_go(world: World) -> None:
    entry = world.entry(1, 5.0)
    world.memory.accept([entry])
    world.memory.jobs_waiting([replace(entry, due_us=entry.due_us + 3_600_000_000)])
    world.clock.now += 20.0
    assert world.memory.release_due() == 0
    assert entry.id not in world.memory.ready


async def test_what_is_not_owned_or_being_claimed_is_left_alone(world: World) -> None:
    claimed = world.entry(1)
    world.memory.claiming.add(claimed.id)
    stranger = world.entry(2, shard=ShardNo(99))
    assert world.memory.accept([claimed, stranger]) == 0
    assert len(world.memory.ready) == 0


async def test_too_late_to_start_is_told(world: World) -> None:
    late: list[str] = []
    world.memory.on_late = lambda entries: late.extend(e.id for e in entries)
    entry = world.entry(1, -5.0, start_by=world.database_clock.now() - 1)
    assert world.memory.accept([entry]) == 0
    assert late == [entry.id]


async def test_timers_have_a_limit_and_the_reader_is_sent_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMERS_MAX", 2)
    rewound: list[tuple[ShardNo, Position]] = []
    world.memory.on_rewind = lambda shard, position: rewound.append((shard, position))
    entries = [world.entry(n, 1.0 + n) for n in range(3)]
    assert world.memory.accept(entries) == 2
    assert rewound == [(entries[2].shard, entries[2].position)]
    world.clock.now += 2.5
    world.memory.release_due()
    assert world.memory.accept([entries[2]]) == 1


async def test_shards_that_are_given_up_are_forgotten(world: World) -> None:
    world.memory.accept([world.entry(n, 0.0 if n < 4 else 5.0) for n in range(8)])
    for n in range(8, 12):
        world.memory.in_flight.add(world.flight(n))
    world.memory.forget_shards(frozenset({ShardNo(0), ShardNo(1)}))
    assert (len(world.memory.ready), world.memory.timers, len(world.memory.in_flight)) == (2, 2, 2)
    world.clock.now += 10
    assert world.memory.release_due() == 2
    # And can come again.
    world.own([0, 1], epoch=2)
    assert world.memory.accept([world.entry(0)]) == 1


async def test_leases_stay_with_who_gives_their_answers(world: World) -> None:
    """The shard has another owner now, who hears of their end and of their receipt by who talks to the worker."""
    world.memory.members.add(session(), "tenant", 1, 0.0)
    here, elsewhere = world.flight(0), world.flight(4, session=SessionId("other"))
    for flight in (here, elsewhere):
        world.memory.in_flight.add(flight)
    world.memory.forget_shards(frozenset({ShardNo(0)}))
    assert list(world.memory.in_flight) == [here]


async def test_of_one_that_is_absent_only_the_leases_of_others_are_forgotten(world: World) -> None:
    world.memory.members.add(session(), "tenant", 1, 0.0)
    mine, others = world.flight(1), world.flight(2, shard=ShardNo(77))
    for flight in (mine, others):
        world.memory.in_flight.add(flight)
    world.memory.forget_absent(SESSION)
    assert (list(world.memory.in_flight), SESSION in world.memory.members) == ([mine], False)


async def test_owners_are_told_of_jobs_that_are_due_within_the_lookahead(world: World) -> None:
    told = world.meet(77)
    soon, far = (world.entry(n, s, shard=ShardNo(77)) for n, s in ((1, 0.0), (2, limits.LOOKAHEAD_S + 1)))
    world.memory.jobs_waiting([soon, far, world.entry(3)])
    assert told.waiting == [soon]
    assert len(world.memory.ready) == 1


async def test_a_receipt_is_told_to_its_owner_once(world: World) -> None:
    told = world.meet(77)
    flight = world.flight(1, shard=ShardNo(77))
    for _ in range(2):
        world.memory.prove(flight)
        world.memory.prove(world.flight(2))
    assert [(lease.job_id, lease.fence) for lease in told.proven] == [(flight.job_id, flight.fence)]


@pytest.mark.parametrize("where", ["stream", "no stream", "elsewhere"])
async def test_a_directive_goes_where_the_worker_may_be(world: World, where: str) -> None:
    told = world.meet()
    pushed: list[Directive] = []
    if where != "elsewhere":
        member = world.memory.members.add(session(), "tenant", 1, 0.0)
        member.push = pushed.append if where == "stream" else None
    world.memory.direct(SESSION, DirectiveKind.CANCEL, job_id(1), grant(1).fence, "why")
    assert [(o.session_id, o.kind, o.job_id, o.reason) for o in told.orders] == (
        [] if where == "stream" else [(SESSION, DirectiveKind.CANCEL, job_id(1), "why")]
    )
    assert len(pushed) == (where == "stream")


async def test_a_lease_is_adopted_for_owned_shards_only(world: World) -> None:
    world.memory.adopt(world.flight(1))
    world.memory.adopt(world.flight(2, shard=ShardNo(77)))
    assert [f.job_id for f in world.memory.in_flight] == [job_id(1)]


async def test_waiters_are_told_and_let_go(world: World) -> None:
    first, second = world.memory.finish_waiter(job_id(1)), world.memory.finish_waiter(job_id(1))
    other = world.memory.finish_waiter(job_id(2))
    world.memory.job_finished(job_id(1))
    assert (first.is_set(), second.is_set(), other.is_set()) == (True, True, False)
    world.memory.drop_finish_waiter(job_id(1), first)
    world.memory.drop_finish_waiter(job_id(1), first)
    world.memory.drop_finish_waiter(job_id(1), second)
    world.memory.job_finished(job_id(1))
    assert list(world.memory._finish_waiters) == [job_id(2)]


async def test_a_cancellation_is_noted_with_the_lease_it_is_for(world: World) -> None:
    flight = world.flight(1)
    world.memory.in_flight.add(flight)
    world.memory.cancel_requested(SESSION, flight.job_id, flight.fence + 1, "")  # type: ignore[arg-type]
    assert not flight.cancelling
    # Its worker is not here; the note waits for it.
    world.memory.cancel_requested(SESSION, flight.job_id, flight.fence, "why")
    assert flight.cancelling
    member = world.memory.members.add(session(), "tenant", 1, 0.0)
    world.memory.cancel_requested(SESSION, flight.job_id, flight.fence, "why")
    world.memory.lease_revoked(SessionId("nobody"), flight.job_id, flight.fence)
    assert [(d.kind, d.reason) for d in member.directives.values()] == [(DirectiveKind.CANCEL, "why")]


async def test_a_member_that_is_removed_is_told_of_once(world: World) -> None:
    gone: list[SessionId] = []
    world.memory.on_member_gone = lambda member: gone.append(member.id)
    member = world.memory.members.add(session(), "tenant", 1, 0.0)
    for _ in range(2):
        world.memory.remove_member(SESSION)
    assert (gone, member.active) == ([SESSION], False)
