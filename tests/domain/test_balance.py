"""Balance: shares that differ by one at most, and gifts that bring everybody there without a leader."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from rota.domain.balance import gifts, shares
from rota.domain.ids import CoordinatorId

IDS = [CoordinatorId(f"c{number}") for number in range(12)]
TOTAL = 40

crowds = st.lists(st.sampled_from(IDS), min_size=1, unique=True)


Counts = dict[CoordinatorId, int]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Counts, Counts]:
    """What each living one owns, and what it is due; some are leaving and due nothing. All shards are owned."""
    living = draw(crowds)
    staying = draw(st.lists(st.sampled_from(living), min_size=1, unique=True))
    owners = draw(st.lists(st.sampled_from(living), min_size=TOTAL, max_size=TOTAL))
    owned = dict.fromkeys(living, 0) | dict(Counter(owners))
    return owned, shares(staying, TOTAL)


@given(living=crowds, total=st.integers(0, 300))
def test_shares_differ_by_one_at_most_and_are_all_there_is(living: list[CoordinatorId], total: int) -> None:
    found = shares(living, total)
    assert found.keys() == set(living)
    assert sum(found.values()) == total
    assert max(found.values()) - min(found.values()) <= 1


@given(
    orders=crowds.flatmap(lambda living: st.tuples(st.just(living), st.permutations(living))), total=st.integers(0, 300)
)
def test_everybody_computes_the_same_shares(
    orders: tuple[list[CoordinatorId], list[CoordinatorId]], total: int
) -> None:
    one, another = orders
    assert shares(one, total) == shares(another, total)


def test_nobody_shares_nothing() -> None:
    assert shares([], TOTAL) == {}


@given(worlds())
def test_once_all_have_given_each_has_its_share(
    world: tuple[Counts, Counts],
) -> None:
    owned, due = world
    after = dict(owned)
    for giver in owned:
        for taker, count in gifts(owned, due, giver).items():
            after[giver] -= count
            after[taker] += count
    assert after == {id: due.get(id, 0) for id in owned}


@given(worlds(), st.sampled_from(IDS))
def test_nobody_gives_more_than_its_surplus_nor_to_who_has_enough(
    world: tuple[Counts, Counts], giver: CoordinatorId
) -> None:
    owned, due = world
    given = gifts(owned, due, giver)
    assert sum(given.values()) <= max(owned.get(giver, 0) - due.get(giver, 0), 0)
    for taker, count in given.items():
        assert 0 < count <= due.get(taker, 0) - owned.get(taker, 0)
        assert taker != giver


@given(worlds(), st.integers(0, TOTAL))
def test_where_shards_are_free_only_what_others_lack_is_given(world: tuple[Counts, Counts], free: int) -> None:
    """Free shards are taken by themselves, so that gifts and free ones together never give anybody too much."""
    owned, due = world
    fewer = dict(owned)
    for id in sorted(owned):
        gone = min(fewer[id], free)
        fewer[id] -= gone
        free -= gone
    got = dict.fromkeys(owned, 0)
    for giver in fewer:
        for taker, count in gifts(fewer, due, giver).items():
            got[taker] += count
    assert all(fewer[id] + got[id] <= max(due.get(id, 0), fewer[id]) for id in owned)


def test_one_who_leaves_gives_all_it_has() -> None:
    a, b, c = IDS[:3]
    due = shares([b, c], TOTAL)
    assert gifts({a: 14, b: 13, c: 13}, due, a) == {b: 7, c: 7}
    assert gifts({a: 14, b: 13, c: 13}, due, b) == {}
