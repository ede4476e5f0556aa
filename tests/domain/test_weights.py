"""Shares of queues and tenants: by weight, over the backlog as it stands."""

from collections import Counter
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from rota.domain.fairness import TURN_JOBS, Entry, ReadyQueue, Wants
from rota.domain.ids import TenantId

from .build import TENANT, entry

PLENTY = 1 << 30
BOTH = Wants(TENANT, ("q", "p"), frozenset())


class Filling:
    """A queue in memory that has as many jobs as one asks for."""

    def __init__(self) -> None:
        self.ready = ReadyQueue()
        self.number = 0

    def fill(self, count: int, queue: str = "q", tenant: TenantId = TENANT, **changes: object) -> None:
        for _ in range(count):
            self.number += 1
            assert self.ready.push(entry(self.number, queue=queue, tenant_id=tenant, **changes))

    def take(self, count: int, wants: Wants = BOTH) -> Counter[str]:
        return Counter(e.queue for e in self.ready.take(wants, count, PLENTY))

    def round(self, room: int, turn_jobs: int = TURN_JOBS) -> list[Entry]:
        """As the dispatcher does with workers everywhere."""
        given: list[Entry] = []
        while len(given) < room and (turn := self.ready.next_turn()) is not None:
            wants = Wants(turn[0], (turn[1],), frozenset())
            taken = self.ready.take(wants, min(turn_jobs, room - len(given)), PLENTY)
            if not taken:
                self.ready.pass_over(*turn)
            given += taken
        return given

    def shares(self, room: int) -> Counter[TenantId]:
        return Counter(e.tenant_id for e in self.round(room))


def test_queues_share_a_worker_by_weight() -> None:
    filling = Filling()
    filling.ready.set_weights({}, {(TENANT, "q"): 300})
    filling.fill(1_000, "q")
    filling.fill(1_000, "p")
    assert filling.take(400) == {"q": 300, "p": 100}
    # One by one as in hundreds.
    assert sum((filling.take(1) for _ in range(400)), Counter[str]()) == {"q": 300, "p": 100}


def test_a_queue_with_nothing_leaves_its_share_to_the_others_and_earns_nothing() -> None:
    filling = Filling()
    filling.fill(1_000, "q")
    assert filling.take(500) == {"q": 500}
    filling.fill(1_000, "p")
    assert abs(filling.take(100)["p"] - 50) <= 1


def test_a_queue_that_gets_one_job_at_a_time_gets_its_share_only() -> None:
    filling = Filling()
    filling.ready.set_weights({}, {(TENANT, "q"): 1_000, (TENANT, "p"): 1})
    filling.fill(5_005, "q")
    filling.fill(1, "p")
    given = Counter[str]()
    for _ in range(5_005):
        taken = filling.take(1)
        given += taken
        filling.fill(taken["p"], "p")
    assert given["p"] <= 6


def test_a_changed_weight_acts_at_once() -> None:
    filling = Filling()
    filling.ready.set_weights({}, {(TENANT, "q"): 1, (TENANT, "p"): 1_000})
    filling.fill(1_000, "q")
    filling.fill(4_000, "p")
    # q was given one and is to wait for 1,000 of p.
    assert filling.take(2) == {"q": 1, "p": 1}
    filling.ready.set_weights({}, {(TENANT, "q"): 1_000, (TENANT, "p"): 1})
    assert filling.take(500)["q"] >= 498
    # Whoever is not named has the default again.
    filling.ready.set_weights({}, {})
    assert abs(filling.take(100)["q"] - 50) <= 1


def test_workers_of_one_queue_do_not_distort_the_share_of_those_of_two() -> None:
    filling = Filling()
    filling.fill(5_000, "q")
    filling.fill(1_000, "p")
    only_q = Wants(TENANT, ("q",), frozenset())
    for _ in range(20):
        assert filling.take(100, only_q) == {"q": 100}
        assert filling.take(20) == {"q": 10, "p": 10}


def test_within_a_queue_the_order_stays() -> None:
    filling = Filling()
    for number, queue in enumerate("qpqpqp"):
        filling.fill(1, queue, due_us=10_000_000 - number)
    taken = filling.ready.take(BOTH, 6, PLENTY)
    for queue in "qp":
        orders = [e.order for e in taken if e.queue == queue]
        assert len(orders) == 3
        assert orders == sorted(orders)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 1_000), min_size=2),
    st.lists(st.integers(1, 40), min_size=1, max_size=30),
)
def test_shares_within_one_job_of_the_weights(weights: dict[str, int], takes: list[int]) -> None:
    """Over any span of takes in which all have a backlog."""
    filling = Filling()
    filling.ready.set_weights({}, {(TENANT, queue): weight for queue, weight in weights.items()})
    for queue in weights:
        filling.fill(sum(takes), queue)
    wants = Wants(TENANT, tuple(weights), frozenset())
    given = Counter[str]()
    history = [Counter[str]()]
    for count in takes:
        given += filling.take(count, wants)
        history.append(Counter(given))
    for a in weights:
        for b in weights:
            lags = [Fraction(at[a], weights[a]) - Fraction(at[b], weights[b]) for at in history]
            assert max(lags) - min(lags) <= Fraction(1, weights[a]) + Fraction(1, weights[b]) + Fraction(1, 10_000)


SMALL, BIG = TenantId(1), TenantId(2)


def test_a_tenant_with_a_thousand_times_the_backlog_does_not_fill_a_round() -> None:
    filling = Filling()
    filling.fill(10_000, tenant=BIG)
    filling.fill(10, tenant=SMALL)
    first = filling.round(500)
    assert len(first) == 500
    assert sum(e.tenant_id == SMALL for e in first[: TURN_JOBS + 10]) == 10


def test_tenants_share_by_weight() -> None:
    filling = Filling()
    filling.ready.set_weights({BIG: 300}, {})
    filling.fill(9_000, tenant=BIG)
    filling.fill(9_000, tenant=SMALL)
    shares = filling.shares(4_000)
    assert abs(shares[SMALL] - 1_000) <= TURN_JOBS
    filling.ready.set_weights({SMALL: 300}, {})
    shares = filling.shares(4_000)
    assert abs(shares[BIG] - 1_000) <= 2 * TURN_JOBS


def test_the_queues_of_a_tenant_share_its_turns_by_weight() -> None:
    filling = Filling()
    filling.ready.set_weights({}, {(BIG, "q"): 400})
    filling.fill(2_000, tenant=BIG, queue="q")
    filling.fill(2_000, tenant=BIG, queue="p")
    filling.fill(2_000, tenant=SMALL)
    shares = Counter((e.tenant_id, e.queue) for e in filling.round(2_000))
    assert abs(shares[SMALL, "q"] - 1_000) <= 2 * TURN_JOBS
    assert abs(shares[BIG, "p"] - 200) <= 2 * TURN_JOBS


def test_workers_of_two_queues_leave_turns_to_those_of_one() -> None:
    filling = Filling()
    filling.fill(1_000, "q")
    filling.fill(1_000, "p")
    given = Counter[str]()
    for _ in range(10):
        turn = filling.ready.next_turn()
        assert turn is not None
        given += filling.take(10, Wants(TENANT, ("q", "other") if turn[1] == "q" else ("p",), frozenset()))
    assert given == {"q": 50, "p": 50}


def test_a_tenant_that_idled_earned_nothing() -> None:
    filling = Filling()
    filling.fill(9_000, tenant=BIG)
    filling.round(3_000)
    filling.fill(3_000, tenant=SMALL)
    shares = filling.shares(1_000)
    assert abs(shares[SMALL] - 500) <= TURN_JOBS


def test_a_turn_without_a_worker_sleeps_until_something_changes() -> None:
    filling = Filling()
    filling.fill(10)
    assert filling.ready.next_turn() == (TENANT, "q")
    filling.ready.pass_over(TENANT, "q")
    assert filling.ready.next_turn() is None
    filling.ready.wake(TENANT, "q")
    assert filling.ready.next_turn() == (TENANT, "q")
    filling.ready.pass_over(TENANT, "q")
    filling.fill(1)
    assert filling.ready.next_turn() == (TENANT, "q")
    # A queue that has nothing is not woken.
    filling.ready.wake(TENANT, "p")
    filling.ready.wake(TenantId(99), "p")
    assert len(filling.round(99)) == 11
    assert filling.ready.next_turn() is None
    filling.ready.wake(TENANT, "q")
    assert filling.ready.next_turn() is None


def test_many_tenants_each_get_their_turn_in_as_many_jobs() -> None:
    filling = Filling()
    for tenant in range(100):
        filling.fill(100, tenant=TenantId(tenant))
    first = filling.round(100 * TURN_JOBS)
    assert set(Counter(e.tenant_id for e in first).values()) == {TURN_JOBS}
