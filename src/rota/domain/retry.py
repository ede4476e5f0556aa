"""How long to wait before the next attempt."""

import math
import random

from rota.domain import limits
from rota.domain.model import RetryPolicy


def backoff_bound_s(policy: RetryPolicy, counted: int) -> float:
    """The most that the delay after the `counted`-th counted attempt (from 1) can be, in seconds.

    The cap is applied to the exponent before the power, so that attempt 2^31 costs no more than attempt 2.
    """
    if policy.initial_backoff_s <= 0 or policy.max_backoff_s <= 0:
        return 0.0
    growth = max(counted - 1, 0) * math.log(policy.multiplier)
    room = math.log(policy.max_backoff_s) - math.log(policy.initial_backoff_s)
    if growth >= room:
        return policy.max_backoff_s
    # One exponent for both factors: e^growth alone overflows where the first delay is tiny enough.
    return min(policy.max_backoff_s, math.exp(math.log(policy.initial_backoff_s) + growth))


def delay_s(policy: RetryPolicy, counted: int, retry_after_s: float, rng: random.Random) -> float:
    """The delay, drawn once with full jitter. A worker's `retry_after_s` only raises it, up to an hour."""
    drawn = rng.uniform(0.0, backoff_bound_s(policy, counted))
    return max(drawn, min(max(retry_after_s, 0.0), limits.RETRY_AFTER_MAX_S))
