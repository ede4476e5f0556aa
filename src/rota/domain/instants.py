"""Instants as rules count them: whole seconds since 1970-01-01T00:00:00Z."""

from datetime import UTC, datetime, timedelta
from typing import Final

from rota.domain import civil
from rota.domain.civil import DAY
from rota.domain.text import refusal

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SECOND: Final = timedelta(seconds=1)
FIRST: Final = civil.FIRST_DAY * DAY
LAST_DAY: Final = civil.day_number(civil.LAST_YEAR, 12, 31)
LAST: Final = LAST_DAY * DAY
"""Rules are searched in [FIRST, LAST); as wall times the same."""


def of(at: datetime, field: str) -> int:
    """The second of an instant, fractions cut. Refuses, for `field`, what leaves no room for offsets at the ends of the
    calendar.
    """
    seconds = (at - EPOCH) // SECOND
    if not FIRST <= seconds < LAST:
        raise refusal(field, text(at), f"an instant from year 2 to {civil.LAST_YEAR}", "correct it")
    return seconds


def ceil(at: datetime, micros: int) -> int:
    """The first second at or after an instant, for nominal times with that fraction."""
    return -(-(at - timedelta(microseconds=micros) - EPOCH) // SECOND)


def text(at: datetime) -> str:
    """2026-03-08T07:30:00Z"""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
