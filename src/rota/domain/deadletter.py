"""Dead letters: jobs that failed for good, which ones a filter means, and redrives, which make them ready again."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import IntEnum
from typing import NamedTuple

from rota.domain import limits
from rota.domain.errors import NotFound
from rota.domain.ids import JobId, TenantId
from rota.domain.model import DeadCause, Job
from rota.domain.text import Problems


class RedriveState(IntEnum):
    RUNNING = 1
    SUCCEEDED = 2
    CANCELLED = 3


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead job. `redrives`: how often it was brought back, RetryJob included; `redriven_by` a key, the last time."""

    job: Job
    cause: DeadCause | None
    redrives: int = 0
    redriven_by: str = ""


class Place(NamedTuple):
    """Where a letter stands in the order of death: microseconds since 1970, then its id."""

    died_us: int
    id: str


NO_ID = "00000000-0000-0000-0000-000000000000"
FIRST = Place(-62_135_596_800_000_000, NO_ID)
LAST = Place(253_402_300_799_000_000, NO_ID)


@dataclass(frozen=True, slots=True)
class DeadFilter:
    """Letters that meet all of it; empty: any. Dead in [start, end)."""

    queue: str = ""
    type: str = ""
    schedule: str = ""
    failure_type: str = ""
    cause: DeadCause | None = None
    start: datetime | None = None
    end: datetime | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Redrive:
    """Letters being made ready again: those of `letters`, or those that meet `filter` and died before `created_at`,
    oldest death first. `cursor`: the last letter that the filter was held against."""

    tenant_id: TenantId
    letters: tuple[JobId, ...] = ()
    filter: DeadFilter | None = None
    rate: float = limits.REDRIVE_RATE_DEFAULT
    max_count: int | None = None
    new_generation: bool = False
    reason: str = ""
    id: str = ""
    state: RedriveState = RedriveState.RUNNING
    total: int = 0
    redriven: int = 0
    refused: int = 0
    author: str = ""
    created_at: datetime | None = None
    finished_at: datetime | None = None
    cursor: Place = FIRST

    @property
    def dealt_with(self) -> int:
        return self.redriven + self.refused

    def bite(self, most: int) -> int:
        """How many letters to deal with next, up to `most`."""
        return most if self.max_count is None else max(min(most, self.max_count - self.dealt_with), 0)

    def carried_on(self, looked_at: int, redriven: int, cursor: Place, *, over: bool, now: datetime) -> "Redrive":
        """After a bite: so many letters were to be redriven and so many were. `over`: there are no more."""
        after = replace(
            self,
            redriven=self.redriven + redriven,
            refused=self.refused + looked_at - redriven,
            cursor=cursor,
        )
        if not over and after.bite(1):
            return after
        # What the count at the start saw and the walk did not has gone another way meanwhile.
        refused = max(after.refused, after.total - after.redriven)
        return replace(
            after,
            refused=refused,
            total=max(after.total, after.redriven + refused),
            state=RedriveState.SUCCEEDED,
            finished_at=now,
        )

    def cancelled(self, now: datetime) -> "Redrive":
        if self.state is not RedriveState.RUNNING:
            return self
        return replace(self, state=RedriveState.CANCELLED, finished_at=now)


def check_redrive(problems: Problems, at: str, wish: Redrive) -> None:
    low, high = limits.REDRIVE_RATE_MIN, limits.REDRIVE_RATE_MAX
    if not low <= wish.rate <= high:
        problems.add(f"{at}.rate", f"must be from {low:g} to {high:g} jobs a second, found {wish.rate:g}")
    if wish.max_count is not None and wish.max_count < 1:
        problems.add(f"{at}.max_count", f"must be 1 or more, found {wish.max_count}; leave it out for no limit")
    problems.text(f"{at}.reason", wish.reason, limits.REASON_BYTES_MAX)


def letter_not_found(id: str) -> NotFound:
    return NotFound(
        f"deadLetters/{id}: not found; it was redriven or discarded, or never died; jobs/{id} says what became of it"
    )


def redrive_not_found(id: str) -> NotFound:
    return NotFound(f"redrives/{id}: not found; history may have let go of it, or the name is wrong")
