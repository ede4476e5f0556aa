"""Slots that follow from a schedule's uid: spread evenly, so that ten thousand schedules of every hour do not meet."""

from collections import Counter
from datetime import UTC, datetime
from uuid import UUID

from rota.domain.ids import uuid7

from .rules import cron

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
SCHEDULES = 10_000
CRITICAL = 98.3
"""Of chi-square with 59 degrees of freedom: one in a thousand even spreads is above it."""


def test_minutes_are_spread_evenly_and_stay() -> None:
    """netresearch/go-cron#230. The uids are those of schedules that were created one after the other."""
    uids = [uuid7(1_774_000_000_000 + number, number * 7_919 << 40) for number in range(SCHEDULES)]
    slots = {uid: cron("H * * * *", uid=uid).require_next(NOON).nominal.minute for uid in uids}
    counts = Counter(slots.values())
    even = SCHEDULES / 60
    assert sum((counts[minute] - even) ** 2 / even for minute in range(60)) < CRITICAL
    # The same uid, on whatever machine and however it is written.
    for uid in uids[::1_000]:
        assert cron("H * * * *", uid=str(UUID(uid))).require_next(NOON).nominal.minute == slots[uid]
