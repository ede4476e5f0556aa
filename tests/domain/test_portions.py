"""Portions: one tenant alone may have all, newcomers find room, and the greedy end with equal parts."""

import pytest

from rota.domain.ids import TenantId
from rota.domain.portions import SPARE, Portions, has_room

MOST = 20_000


@pytest.fixture
def portions() -> Portions:
    return Portions(MOST)


def fill(portions: Portions, *tenants: int) -> None:
    """All of them take, in turns, until nobody gets any more."""
    wanting = [TenantId(tenant) for tenant in tenants]
    while wanting:
        wanting = [tenant for tenant in wanting if portions.has_room(tenant)]
        for tenant in wanting:
            if portions.has_room(tenant):
                portions.add(tenant)


def test_one_alone_may_have_all(portions: Portions) -> None:
    fill(portions, 1)
    assert (portions.of(TenantId(1)), portions.total) == (MOST, MOST)


def test_newcomers_find_room_beside_one_that_has_all(portions: Portions) -> None:
    fill(portions, 1)
    got = []
    for newcomer in range(2, 6):
        fill(portions, newcomer)
        got.append(portions.of(TenantId(newcomer)))
        # Whoever had its part gets no more of what is left.
        assert not any(portions.has_room(TenantId(tenant)) for tenant in range(1, newcomer + 1))
    assert got[0] > MOST // 10
    assert all(got)
    assert portions.total <= MOST * (SPARE + 1) // SPARE


@pytest.mark.parametrize("count", [2, 3, 10, 100])
def test_the_greedy_end_with_equal_parts(portions: Portions, count: int) -> None:
    fill(portions, *range(count))
    held = [portions.of(TenantId(tenant)) for tenant in range(count)]
    assert max(held) - min(held) <= 1
    assert sum(held) == portions.total >= MOST
    assert portions.total <= MOST * (SPARE + 1) // SPARE


def test_after_a_hog_has_given_back_parts_become_equal(portions: Portions) -> None:
    fill(portions, 1)
    for _ in range(MOST):
        portions.remove(TenantId(1))
        fill(portions, 2)
        if portions.of(TenantId(1)) <= portions.of(TenantId(2)):
            break
    assert portions.of(TenantId(1)) >= MOST // 2
    assert portions.has_room(TenantId(3))


def test_nothing_is_left_of_who_has_nothing(portions: Portions) -> None:
    for _ in range(3):
        portions.add(TenantId(1))
    for _ in range(3):
        portions.remove(TenantId(1))
    assert (portions.of(TenantId(1)), portions.total, portions._held) == (0, 0, {})


def test_a_bound_of_nothing_lets_nothing_in() -> None:
    assert not has_room(1, 1, 0)
