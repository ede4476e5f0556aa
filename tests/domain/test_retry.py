"""Backoff: never negative, never an error, never over its cap, whatever the numbers."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domain import limits
from rota.domain.model import RetryPolicy
from rota.domain.retry import backoff_bound_s, delay_s

from .build import Highest

HOUR = 3_600.0


def check(policy: RetryPolicy, bounds: dict[int, float]) -> None:
    found = {counted: backoff_bound_s(policy, counted) for counted in bounds}
    assert found == pytest.approx(bounds, rel=1e-9, abs=0)


@pytest.mark.parametrize(
    ("policy", "bounds"),
    [
        (
            RetryPolicy(initial_backoff_s=1, multiplier=2, max_backoff_s=HOUR),
            {
                0: 1, 1: 1, 2: 2, 3: 4, 10: 512, 12: 2048, 13: HOUR, 40: HOUR, 55: HOUR, 63: HOUR, 64: HOUR,
                1_075: HOUR, 100_000: HOUR, 2**31: HOUR,
            },
        ),
        (RetryPolicy(initial_backoff_s=0.1), {1: 0.1, 2: 0.2, 5: 1.6}),
        # Without a cap given, the default one holds.
        (RetryPolicy(), {40: limits.BACKOFF_MAX_DEFAULT_S}),
        (RetryPolicy(multiplier=1), {1: 1, 1_000: 1, 2**31: 1}),
        (RetryPolicy(multiplier=10, max_backoff_s=limits.BACKOFF_MAX_S), {5: 10_000, 6: limits.BACKOFF_MAX_S}),
        (RetryPolicy(initial_backoff_s=10, max_backoff_s=3), {1: 3, 2: 3}),
        (RetryPolicy(initial_backoff_s=5, max_backoff_s=5), {1: 5, 2: 5}),
        (RetryPolicy(initial_backoff_s=0), {1: 0, 50: 0}),
        (RetryPolicy(max_backoff_s=0), {1: 0, 50: 0}),
        # The smallest spans that a float can hold, to the largest power.
        (RetryPolicy(initial_backoff_s=5e-324, multiplier=10), {330: HOUR, 2**31: HOUR}),
    ],
)  # fmt: skip
def test_bounds(policy: RetryPolicy, bounds: dict[int, float]) -> None:
    check(policy, bounds)


policies = st.builds(
    RetryPolicy,
    initial_backoff_s=st.floats(0, limits.BACKOFF_MAX_S),
    max_backoff_s=st.floats(0, limits.BACKOFF_MAX_S),
    multiplier=st.floats(1, limits.BACKOFF_MULTIPLIER_MAX),
)


@given(policies, st.integers(1, 2**31), st.integers(0, 2**31))
def test_bounds_grow_up_to_the_cap(policy: RetryPolicy, counted: int, more: int) -> None:
    first, later = backoff_bound_s(policy, counted), backoff_bound_s(policy, counted + more)
    assert 0 <= first <= policy.max_backoff_s
    assert first <= later <= policy.max_backoff_s


@given(policies, st.integers(1, 2**31), st.integers())
def test_full_jitter_stays_within_its_bound(policy: RetryPolicy, counted: int, seed: int) -> None:
    assert 0 <= delay_s(policy, counted, 0.0, random.Random(seed)) <= backoff_bound_s(policy, counted)


def test_full_jitter_uses_its_whole_band() -> None:
    rng = random.Random(4)
    drawn = sorted(delay_s(RetryPolicy(initial_backoff_s=8), 1, 0.0, rng) for _ in range(400))
    assert drawn[40] < 1.5
    assert 3 < drawn[200] < 5
    assert drawn[360] > 6.5


@pytest.mark.parametrize(
    ("retry_after_s", "delay"),
    [
        (-5.0, 4.0),
        (0.0, 4.0),
        (3.9, 4.0),
        (4.1, 4.1),
        (HOUR, HOUR),
        (HOUR + 1, HOUR),
        (float("inf"), HOUR),
        (float("nan"), 4.0),
    ],
)
def test_retry_after_only_raises_and_up_to_an_hour(retry_after_s: float, delay: float) -> None:
    assert delay_s(RetryPolicy(), 3, retry_after_s, Highest()) == pytest.approx(delay)
