"""Members and their deliveries: what counts as proof of receipt, what is replayed, what is given back."""

import pytest

from rota.coordinator.members import BATCH_MAX, BATCH_STEP, CALLS_KEPT, Delivery, Directive, Inventory, Member, Members
from rota.domain import limits
from rota.domain.model import DirectiveKind, SessionState

from .fakes import SESSION, grant, job_id, session

TTL_S = 5.0
FIRST = 100 * BATCH_STEP + 42


def member(**fields: object) -> Member:
    return Members().add(session(**fields), "tenant", FIRST, 0.0)


def batch(number: int) -> int:
    """The number of an answer, counted from 0."""
    return FIRST + number * BATCH_STEP


def deliver(of: Member, *numbers: int, poller: int = 0, request_id: str = "r", at: float = 0.0) -> Delivery:
    return of.deliver(of.number_batch(), poller, request_id, [grant(n) for n in numbers], at)


def test_batches_grow_from_the_first() -> None:
    one = member()
    assert [deliver(one, n, poller=n % 2).batch for n in range(3)] == [batch(n) for n in range(3)]


def test_batches_stay_this_coordinators_own_whatever_a_worker_names() -> None:
    one = member()
    # One of another coordinator's, a little ahead of ours.
    one.acknowledge_batch(0, batch(5) + 1)
    assert deliver(one, 1).batch == batch(6)
    one.take_inventory(Inventory(frozenset(), {0: batch(9) - 7}))
    assert deliver(one, 1).batch == batch(10)
    # What cannot be one is ignored.
    one.acknowledge_batch(0, BATCH_MAX)
    assert deliver(one, 1).batch == batch(11)


def test_the_same_call_is_replayed_and_gets_more_time() -> None:
    one = member()
    delivery = deliver(one, 1, request_id="r", at=0.0)
    assert one.replay(0, "r", 4.0) is delivery
    assert one.replay(1, "r", 4.0) is None
    assert one.replay(0, "s", 4.0) is None
    # Asking again is a sign that the worker is there.
    assert one.undelivered(8.0, TTL_S) == []
    assert one.undelivered(9.0, TTL_S) == [delivery]


def test_a_replay_has_an_end() -> None:
    one = member()
    deliver(one, 1, at=0.0).proven = True
    assert one.replay(0, "r", limits.LEASE_REPLAY_S) is not None
    assert one.replay(0, "r", 2 * limits.LEASE_REPLAY_S + 1) is None


@pytest.mark.parametrize(
    ("ack", "arrived", "lost"),
    [(0, [0], [1]), (1, [1], [0]), (None, [], [0, 1]), (-999, [], [0, 1])],
)
def test_the_next_call_names_the_batch_that_arrived(ack: int | None, arrived: list[int], lost: list[int]) -> None:
    one = member()
    deliver(one, 1)
    deliver(one, 2)
    other = deliver(one, 3, poller=1)
    got, missing = one.acknowledge_batch(0, 0 if ack is None else batch(ack))
    assert [d.batch for d in got] == [batch(n) for n in arrived]
    assert [d.batch for d in missing] == [batch(n) for n in lost]
    assert one.deliveries == [other]


def test_what_is_proven_is_not_lost_by_a_call_that_does_not_name_it() -> None:
    one = member()
    deliver(one, 1)
    one.take_inventory(Inventory(frozenset(), {0: batch(0)}))
    got, missing = one.acknowledge_batch(0, 0)
    assert ([d.batch for d in got], missing) == ([batch(0)], [])


@pytest.mark.parametrize(
    ("batches", "proven"),
    [({}, False), ({0: FIRST - 1}, False), ({0: FIRST}, True), ({1: FIRST + BATCH_STEP}, False)],
)
def test_an_inventory_proves_what_it_is_newer_than(batches: dict[int, int], proven: bool) -> None:
    one = member()
    delivery = deliver(one, 1)
    one.take_inventory(Inventory(frozenset(), batches))
    assert delivery.proven is proven
    assert (one.undelivered(TTL_S, TTL_S) == []) is proven


def test_deliveries_are_forgotten_once_settled() -> None:
    one = member()
    late, kept = deliver(one, 1, at=0.0), deliver(one, 2, at=0.0)
    kept.proven = True
    assert one.undelivered(4.9, TTL_S) == []
    assert one.undelivered(5.0, TTL_S) == [late]
    assert one.undelivered(100.0, TTL_S) == []
    assert one.deliveries == []


def test_a_directive_is_pushed_once_and_kept_until_acknowledged() -> None:
    one = member()
    pushed: list[Directive] = []
    one.push = pushed.append
    for _ in range(2):
        one.direct(DirectiveKind.CANCEL, job_id(1), grant(1).fence, "why")
    one.direct(DirectiveKind.LOST, job_id(1), grant(1).fence)
    one.direct(DirectiveKind.CANCEL, job_id(2), grant(2).fence)
    assert [(d.kind, d.job) for d in pushed] == [
        (DirectiveKind.CANCEL, job_id(1)),
        (DirectiveKind.LOST, job_id(1)),
        (DirectiveKind.CANCEL, job_id(2)),
    ]
    assert list(one.directives.values()) == pushed
    one.acknowledge([pushed[0].id, 777, -1])
    assert list(one.directives.values()) == pushed[1:]
    # Wished for again after it was carried out.
    one.direct(DirectiveKind.CANCEL, job_id(1), grant(1).fence)
    assert len({d.id for d in pushed}) == 4


def test_too_many_directives_become_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DIRECTIVES_MAX", 3)
    one = member()
    for n in range(4):
        one.direct(DirectiveKind.CANCEL, job_id(n), grant(n).fence)
    assert [d.kind for d in one.directives.values()] == [DirectiveKind.RESYNC]


def test_an_inventory_answers_resync_and_nothing_else() -> None:
    one = member()
    one.direct(DirectiveKind.RESYNC, reason="a")
    one.direct(DirectiveKind.CANCEL, job_id(1), grant(1).fence)
    one.take_inventory(Inventory(frozenset(), {}))
    assert [d.kind for d in one.directives.values()] == [DirectiveKind.CANCEL]


def test_an_inventory_that_a_newer_one_has_overtaken_says_nothing() -> None:
    one = member()
    delivery = deliver(one, 1)
    assert one.take_inventory(Inventory(frozenset(), {0: FIRST - 1}, 7))
    assert not one.take_inventory(Inventory(frozenset(), {0: FIRST}, 6))
    assert not delivery.proven
    # The same again is no older, and one without a beat has no number.
    assert one.take_inventory(Inventory(frozenset(), {}, 7))
    assert one.take_inventory(Inventory(frozenset(), {}))


def test_a_copy_of_a_call_is_known_once_its_poller_has_gone_on() -> None:
    one = member()
    for request in ("a", "b"):
        # The same call may come again while it is the last.
        assert [one.is_overtaken(0, request) for _ in range(2)] == [False, False]
    assert one.is_overtaken(0, "a")
    assert not one.is_overtaken(0, "b")
    # Each poller by itself.
    assert not one.is_overtaken(1, "a")
    for number in range(CALLS_KEPT):
        assert not one.is_overtaken(0, str(number))
    # Of one that is as old as this nothing is known.
    assert not one.is_overtaken(0, "b")


@pytest.mark.parametrize(
    ("state", "active"), [(SessionState.ACTIVE, True), (SessionState.DRAINING, False), (SessionState.CLOSED, False)]
)
def test_only_an_active_session_gets_jobs(state: SessionState, active: bool) -> None:
    one = member(state=state)
    assert one.active is active
    one.draining = True
    assert not one.active


def test_a_member_is_known_once() -> None:
    members = Members()
    first = members.add(session(free_slots=7), "tenant", 1, 5.0)
    assert members.add(session(), "tenant", 9, 6.0) is first
    assert (len(members), first.seen_at, first.free_slots) == (1, 5.0, 7)
    assert members.remove(SESSION) is first
    assert members.remove(SESSION) is None
    assert list(members) == []


def test_members_may_go_while_they_are_looked_at() -> None:
    members = Members()
    for n in range(3):
        members.add(session(id=job_id(n)), "tenant", 1, 0.0)  # type: ignore[arg-type]
    for each in members:
        members.remove(each.id)
    assert len(members) == 0
