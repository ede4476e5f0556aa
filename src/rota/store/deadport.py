"""The store of dead letters and redrives, as services and loops know it. As in `port`, each operation is one
transaction with three outcomes, and the clock of all of them is the database's.

A job leaves the dead letters in the statement that puts it elsewhere, so it is always in exactly one place, and whoever
commits first has it.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from rota.domain.deadletter import DeadFilter, DeadLetter, Place, Redrive
from rota.domain.fairness import Entry
from rota.domain.ids import JobId, TenantId
from rota.store.scheduleport import RequestKey

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Found:
    """Letters that meet a filter, in order. A walk looks at a bounded number: `next` is where it goes on, None at the
    end."""

    places: tuple[Place, ...]
    next: Place | None


@dataclass(frozen=True, slots=True)
class Walk:
    """Which letters, from where on. `newest_first` False: oldest death first. `redrivable`: only those that have not
    been redriven as often as is allowed."""

    tenant_id: TenantId
    where: DeadFilter
    after: Place
    newest_first: bool = False
    redrivable: bool = False


class DeadTransaction(Protocol):
    """One transaction about redrives. Whatever raises leaves nothing behind."""

    async def earlier(self, tenant: TenantId, request: RequestKey, answer: Sequence[str]) -> tuple[str, ...] | None:
        """Claims a request_id for an answer of UUIDs; the answer that it stands for already, if it does.

        Raises AlreadyExists (REQUEST_ID_REUSED) when it stands for another request."""

    async def add(self, redrive: Redrive) -> bool:
        """False: as many run as may."""

    async def lock(self, tenant: TenantId, id: str) -> tuple[Redrive, datetime] | None:
        """A redrive, locked until the end, and the database's now."""

    async def lock_due(self) -> tuple[Redrive, datetime] | None:
        """A running one whose time has come, and that nobody else is busy with."""

    async def find(self, walk: Walk, limit: int) -> Found: ...

    async def revive(
        self, tenant: TenantId, jobs: Sequence[JobId], author: str, *, new_generation: bool, redrives_max: int | None
    ) -> list[Entry]:
        """Makes dead jobs live and due again, each with a fresh budget of attempts; those that were dead and had been
        redriven less than `redrives_max` times."""

    async def save(self, redrive: Redrive, wait_s: float) -> None:
        """Writes the progress and state of a locked redrive, to be looked at again after `wait_s`."""


class DeadLetterStore(Protocol):
    async def transact(self, work: Callable[[DeadTransaction], Awaitable[T]]) -> T:
        """Runs `work` in one transaction; again from the start when the database asks for it."""

    async def now(self) -> datetime: ...

    async def letters(self, tenant: TenantId, jobs: Sequence[JobId], *, full: bool) -> dict[JobId, DeadLetter]:
        """Letters of one tenant; those that do not exist are missing. `full` False: without payloads."""

    async def find(self, walk: Walk, limit: int) -> Found: ...

    async def count(self, walk: Walk, most: int | None) -> int:
        """How many there are, up to `most`; in bounded bites."""

    async def discard(self, tenant: TenantId, jobs: Sequence[JobId], reason: str) -> list[JobId]:
        """Moves letters to history, as DEAD; those that were there."""

    async def redrive(self, tenant: TenantId, id: str) -> Redrive | None: ...

    async def redrives(self, tenant: TenantId, before: str | None, limit: int) -> list[Redrive]:
        """Newest first."""

    async def next_redrive_s(self) -> float | None:
        """Seconds until a running redrive goes on, 0 or less: now. None: none runs."""

    async def postpone(self, tenant: TenantId, id: str, wait_s: float) -> None:
        """Lets a running redrive wait, so that others are not held up by it."""
