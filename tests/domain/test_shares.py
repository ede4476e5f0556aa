"""Shares: one tenant alone may have all, newcomers find room, and the greedy end with equal parts."""

import pytest

from rota.domain.ids import TenantId
from rota.domain.shares import SPARE, Shares, has_room

MOST = 20_000


@pytest.fixture
def shares() -> Shares:
    return Shares(MOST)


def fill(shares: Shares, *tenants: int) -> None:
    """All of them take, in turns, until nobody gets any more."""
    wanting = [TenantId(tenant) for tenant in tenants]
    while wanting:
        wanting = [tenant for tenant in wanting if shares.has_room(tenant)]
        for tenant in wanting:
            if shares.has_room(tenant):
                shares.add(tenant)


def test_one_alone_may_have_all(shares: Shares) -> None:
    fill(shares, 1)
    assert (shares.of(TenantId(1)), shares.total) == (MOST, MOST)


def test_newcomers_find_room_beside_one_that_has_all(shares: Shares) -> None:
    fill(shares, 1)
    got = []
    for newcomer in range(2, 6):
        fill(shares, newcomer)
        got.append(shares.of(TenantId(newcomer)))
        # Whoever had its part gets no more of what is left.
        assert not any(shares.has_room(TenantId(tenant)) for tenant in range(1, newcomer + 1))
    assert got[0] > MOST // 10
    assert all(got)
    assert shares.total <= MOST * (SPARE + 1) // SPARE


@pytest.mark.parametrize("count", [2, 3, 10, 100])
def test_the_greedy_end_with_equal_parts(shares: Shares, count: int) -> None:
    fill(shares, *range(count))
    held = [shares.of(TenantId(tenant)) for tenant in range(count)]
    assert max(held) - min(held) <= 1
    assert sum(held) == shares.total >= MOST
    assert shares.total <= MOST * (SPARE + 1) // SPARE


def test_after_a_hog_has_given_back_parts_become_equal(shares: Shares) -> None:
    fill(shares, 1)
    for _ in range(MOST):
        shares.remove(TenantId(1))
        fill(shares, 2)
        if shares.of(TenantId(1)) <= shares.of(TenantId(2)):
            break
    assert shares.of(TenantId(1)) >= MOST // 2
    assert shares.has_room(TenantId(3))


def test_nothing_is_left_of_who_has_nothing(shares: Shares) -> None:
    for _ in range(3):
        shares.add(TenantId(1))
    for _ in range(3):
        shares.remove(TenantId(1))
    assert (shares.of(TenantId(1)), shares.total, shares._held) == (0, 0, {})


def test_a_bound_of_nothing_lets_nothing_in() -> None:
    assert not has_room(1, 1, 0)
