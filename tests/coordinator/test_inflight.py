"""InFlight: one lease for each job, the newest; and the clock of their run timeouts."""

from rota.coordinator.inflight import InFlight
from rota.domain import ids
from rota.domain.ids import SessionId, ShardNo

from .fakes import PEER, SESSION, World, job_id


def test_a_newer_fence_replaces_an_older_one_and_never_the_reverse() -> None:
    world, held = World(), InFlight()
    old = world.flight(1)
    new = world.flight(1, fence=old.fence + 1, session=SessionId("other"))
    held.add(old)
    held.add(new)
    held.add(old)
    assert (len(held), held.get(job_id(1))) == (1, new)
    assert (held.of(SESSION), held.of(SessionId("other"))) == ([], [new])


def test_a_stale_end_ends_nothing() -> None:
    world, held = World(), InFlight()
    flight = world.flight(1)
    held.add(flight)
    held.remove(job_id(1), ids.mint_fence(1, 99))
    held.remove(job_id(2), flight.fence)
    assert job_id(1) in held
    held.remove(job_id(1), flight.fence)
    assert len(held) == 0
    assert list(held.sessions()) == []


def test_overrun_names_each_lease_once_at_its_time() -> None:
    world, held = World(), InFlight()
    for number, run_s in ((1, 3.0), (2, 1.0), (3, 2.0)):
        held.add(world.flight(number, run_s))
    start = world.clock.now
    assert held.overrun(start + 0.99) == []
    assert [f.job_id for f in held.overrun(start + 2.0)] == [job_id(2), job_id(3)]
    assert held.overrun(start + 2.5) == []
    # They are in flight until they are ended.
    assert len(held) == 3
    held.remove(job_id(1), world.flight(1).fence)
    assert held.overrun(start + 10) == []


def test_a_replaced_lease_is_not_cut_by_the_old_ones_deadline() -> None:
    world, held = World(), InFlight()
    old = world.flight(1, 1.0)
    held.add(old)
    held.add(world.flight(1, 50.0, fence=old.fence + 1))
    assert held.overrun(world.clock.now + 10) == []
    assert len(held.overrun(world.clock.now + 60)) == 1


def test_those_of_whose_receipt_nobody_tells_are_named_again_and_again() -> None:
    world, held = World(), InFlight()
    start = world.clock.now
    guest = world.flight(1, via=PEER, asked_at=start)
    found = world.flight(2, poller=-1, batch=0, asked_at=start - 10)
    for flight in (guest, found, world.flight(3)):
        held.add(flight)
    assert held.unheard(start - 5, start) == [found]
    assert held.unheard(start, start) == []
    assert held.unheard(start + 1, start + 6) == [guest, found]
    guest.proven = True
    assert held.unheard(start + 7, start + 12) == [found]
    held.remove(found.job_id, found.fence)
    assert held.unheard(start + 99, start + 99) == []


def test_a_lease_that_was_replaced_is_asked_for_no_more() -> None:
    world, held = World(), InFlight()
    old = world.flight(1, via=PEER, asked_at=0.0)
    held.add(old)
    held.add(world.flight(1, fence=old.fence + 1))
    assert held.unheard(99.0, 99.0) == []


def test_deadlines_of_ended_leases_do_not_pile_up() -> None:
    world, held = World(), InFlight()
    for number in range(10_000):
        flight = world.flight(number)
        held.add(flight)
        held.remove(flight.job_id, flight.fence)
    assert len(held._deadlines) <= 2_000


def test_shards_that_are_given_up_are_forgotten() -> None:
    world, held = World(shards=2), InFlight()
    for number in range(6):
        held.add(world.flight(number))
    held.forget_shards(frozenset({ShardNo(1)}))
    assert sorted(f.job_id for f in held) == [job_id(n) for n in (0, 2, 4)]
