"""Intervals: the grammar of ISO 8601 durations, and the instants that lie so far apart."""

import re
from dataclasses import dataclass
from typing import Final

from rota.domain import instants, limits
from rota.domain.civil import DAY, Budget
from rota.domain.dst import Hit
from rota.domain.text import refusal
from rota.domain.zones import Zone

_ISO_DURATION: Final = re.compile(
    r"P(?:(?P<w>[0-9]{1,9})W)?(?:(?P<d>[0-9]{1,9})D)?(?:T(?:(?P<h>[0-9]{1,9})H)?(?:(?P<m>[0-9]{1,9})M)?(?:(?P<s>[0-9]{1,9})S)?)?"
)
_ISO_SECONDS: Final = {"w": 7 * DAY, "d": DAY, "h": 3600, "m": 60, "s": 1}


@dataclass(frozen=True, slots=True)
class Grid:
    """anchor + k · every, from the anchor on."""

    anchor: int
    every: int
    zone: Zone

    def next(self, after: int, budget: Budget) -> Hit | None:
        budget.spend()
        at = self.anchor + max(0, (after - self.anchor) // self.every + 1) * self.every
        return Hit(at, self.zone.span(at).offset) if at < instants.LAST else None


def iso_duration_s(text: str, field: str) -> int:
    """The seconds of an ISO 8601 duration of weeks, days, hours, minutes and seconds. Raises InvalidArgument."""
    found = _ISO_DURATION.fullmatch(text)
    if found and text[-1] in "WDHMS":
        return sum(int(found[unit] or 0) * size for unit, size in _ISO_SECONDS.items())
    remedy = "write whole numbers with W, D, or after T with H, M, S"
    if text.startswith("-"):
        remedy = "an interval is positive"
    elif re.fullmatch(r"P[0-9YMWD]*[0-9][YM].*", text):
        remedy = "years and months are no elapsed time: make it an rrule with FREQ=MONTHLY or YEARLY"
    elif short := re.fullmatch(r"([0-9]{1,9})([dhms])", text):
        remedy = f"write P{'T' * (short[2] != 'd')}{short[1]}{short[2].upper()}"
    elif "." in text or "," in text:
        remedy = f"fractions of a second are not offered; the shortest is {limits.INTERVAL_MIN_S} s"
    raise refusal(field, text, "an ISO 8601 duration such as PT90S, PT4H or P1D", remedy)
