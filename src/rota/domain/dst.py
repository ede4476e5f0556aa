"""From wall time to real time: what becomes of a rule's wall times where a zone changes its clock.

| rule | wall time does not exist (gap) | wall time comes twice (overlap) |
|---|---|---|
| cron, fixed time | RUN_AFTER: once, at the first instant after the gap, however many lie in it | FIRST |
| cron, wildcard minute or hour | SKIP: real time is followed, nothing made up | BOTH |
| rrule | SKIP: the instance is ignored and not counted (RFC 5545 3.3.10) | FIRST |
| once | SHIFT: later by the length of the gap | FIRST |

A change of three hours or more (Samoa's missing day) is a correction of the zone: what falls into such a gap is not
replayed, and what it repeats runs in the first pass, whatever the options say; a wildcard rule goes on in real time.

The search goes span by span (see `zones`): inside a span wall time and real time run alike, so that the rule is asked
for its next wall time once, and all that is special lies at the edges of the span. It skips the spans in which the
rule has nothing to say.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple, assert_never

from rota.domain import limits
from rota.domain.civil import DAY, Budget, Matcher, text_of
from rota.domain.zones import END, Span, Zone

_COUNTED_IN_GAP: Final = 100


class GapPolicy(IntEnum):
    """What happens to a wall time that does not exist. The numbers are those of rota.v1.DstGap."""

    RUN_AFTER = 1
    SHIFT = 2
    SKIP = 3


class OverlapPolicy(IntEnum):
    """What happens at a wall time that comes twice. The numbers are those of rota.v1.DstOverlap."""

    FIRST = 1
    SECOND = 2
    BOTH = 3


class Cause(IntEnum):
    """What moved or removed an occurrence. The numbers are those of rota.v1.PreviewCause."""

    DST_GAP = 1
    DST_OVERLAP = 2
    ZONE_CORRECTION = 3
    EXCLUDED_DATE = 4
    EXCLUDED_CALENDAR = 5
    JITTER = 6


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an occurrence is where it is, or is not."""

    cause: Cause
    text: str


class Hit(NamedTuple):
    """An instant that a rule names, with the offset of its zone; `reason` where a change of the clock had a say."""

    at: int
    offset: int
    reason: Reason | None = None


class Dropped(NamedTuple):
    """Wall times that fell into a gap and are not made up for: the first of them, and how many more (100: or more).

    `at` is when the first would have been, had the clock not changed.
    """

    at: int
    offset: int
    wall: int
    more: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class WallTimes:
    """The instants of a rule on the wall clock of a zone."""

    matcher: Matcher
    zone: Zone
    gap: GapPolicy
    overlap: OverlapPolicy
    wildcard: bool = False
    """It follows real time, through corrections of the zone too."""

    def next(self, after: int, budget: Budget) -> Hit | None:
        """The first one after an instant; None: there is none. Raises OutOfSteps where the search was given up."""
        low = after + 1
        while True:
            budget.spend()
            span = self.zone.span(low)
            start, end, offset, before, later = span
            # The wall times of this span that count, from `first` up to but not including `last`.
            first, last = low + offset, end + offset
            if before > offset and first < start + before and self._passes(before - offset) is OverlapPolicy.FIRST:
                first = start + before
            if later < offset and self._passes(offset - later) is OverlapPolicy.SECOND:
                last = end + later
            wall = self.matcher.next(first, budget)
            hit = self._plain(span, wall) if wall is not None and wall < last else None
            if before < offset and low + before < start + offset:
                moved = self._moved(span, low, budget)
                if moved is not None and (hit is None or moved.at <= hit.at):
                    return moved
            if hit is not None:
                return hit
            if end == END:
                return None
            low = end
            if first <= end + later:
                # Whatever comes in later spans is at or after `wall`; what the next clock repeats has been looked at.
                if wall is None:
                    return None
                low = max(end, wall - 2 * DAY)

    def dropped(self, after: int, until: int, budget: Budget) -> list[Dropped]:
        """What falls into gaps at (after, until] and does not run, one entry for a gap."""
        found = []
        span = self.zone.span(after)
        while span.end <= until:
            span = self.zone.span(span.end)
            if span.before >= span.offset or self._gap(span.offset - span.before) is not GapPolicy.SKIP:
                continue
            lost = self._in_gap(span, budget)
            if lost:
                found.append(self._dropped(span, lost))
        return found

    def _plain(self, span: Span, wall: int) -> Hit:
        start, end, offset, before, later = span
        if later < offset and wall >= end + later:
            return Hit(wall - offset, offset, _twice(wall, "first", self._passes(offset - later)))
        if before > offset and wall < start + before:
            return Hit(wall - offset, offset, _twice(wall, "second", self._passes(before - offset)))
        return Hit(wall - offset, offset)

    def _moved(self, span: Span, low: int, budget: Budget) -> Hit | None:
        """What runs in place of the wall times missing at the beginning of a span."""
        start, _, offset, before, _ = span
        policy = self._gap(offset - before)
        if policy is GapPolicy.SKIP or (policy is GapPolicy.RUN_AFTER and low > start):
            return None
        wall = self.matcher.next(max(start, low) + before, budget)
        if wall is None or wall >= start + offset:
            return None
        at = wall - before if policy is GapPolicy.SHIFT else start
        day, _, clock = text_of(wall).partition("T")
        to_day, _, to_clock = text_of(at + offset).partition("T")
        to = to_clock if to_day == day else f"{to_clock} on {to_day}"
        return Hit(
            at, offset, Reason(Cause.DST_GAP, f"gap: {_short(clock)} does not exist on {day}, runs at {_short(to)}")
        )

    def _in_gap(self, span: Span, budget: Budget) -> list[int]:
        """The wall times missing at the beginning of a span, up to so many."""
        walls: list[int] = []
        low = span.start + span.before
        while len(walls) <= _COUNTED_IN_GAP:
            wall = self.matcher.next(low, budget)
            if wall is None or wall >= span.start + span.offset:
                break
            walls.append(wall)
            low = wall + 1
        return walls

    def _dropped(self, span: Span, walls: list[int]) -> Dropped:
        gap = span.offset - span.before
        day, _, clock = text_of(walls[0]).partition("T")
        more = len(walls) - 1
        also = f" (and {more}{' or more' * (more == _COUNTED_IN_GAP)} later ones)" if more else ""
        if gap >= limits.DST_CORRECTION_S:
            cause, text = Cause.ZONE_CORRECTION, "correction: the zone skipped"
        else:
            cause, text = Cause.DST_GAP, "gap: the clock skipped"
        reason = Reason(cause, f"{text} {_short(clock)} on {day}{also}")
        return Dropped(walls[0] - span.before, span.before, walls[0], more, reason)

    def _gap(self, size: int) -> GapPolicy:
        return GapPolicy.SKIP if size >= limits.DST_CORRECTION_S else self.gap

    def _passes(self, size: int) -> OverlapPolicy:
        if size >= limits.DST_CORRECTION_S and not self.wildcard:
            return OverlapPolicy.FIRST
        return self.overlap


def _twice(wall: int, this: str, policy: OverlapPolicy) -> Reason:
    day, _, clock = text_of(wall).partition("T")
    match policy:
        case OverlapPolicy.BOTH:
            text = f"this is the {this} pass, both run"
        case OverlapPolicy.FIRST | OverlapPolicy.SECOND:
            text = f"only the {this} pass runs"
        case _:
            assert_never(policy)
    return Reason(Cause.DST_OVERLAP, f"overlap: {_short(clock)} comes twice on {day}, {text}")


def _short(clock: str) -> str:
    """02:30 for 02:30:00; what follows the clock stays."""
    return clock[:5] + clock[8:] if clock[5:8] == ":00" else clock
