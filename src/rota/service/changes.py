"""Watching changes of jobs: where a watcher begins, what comes next, and what is let go of."""

from dataclasses import dataclass
from typing import Final

from rota.clock import Clock
from rota.domain import limits
from rota.domain.change import Page, Position
from rota.domain.errors import FailedPrecondition, Unavailable
from rota.domain.ids import TenantId
from rota.store.changeport import ChangeStore, Coverage

PAGE: Final = 500
BITE: Final = 10_000

SETTLE_LOOK_S: Final = 0.02
SETTLE_MAX_S: Final = 20.0
"""A transaction that changes jobs for longer is somebody's who forgot it."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a watcher is: good as long as its coverage lasts."""

    coverage: Coverage
    position: Position


class Changes:
    def __init__(self, store: ChangeStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def begin(self, tenant: TenantId) -> Place:
        """A place such that each change that is committed from now on comes after it."""
        coverage, settled = await self._store.watch(tenant, limits.WATCH_LIFE_S)
        if not settled:
            await self._wait_for_writers()
            await self._store.settle(tenant, coverage)
        position = await self._store.moment(tenant, coverage)
        if position is None:
            raise Unavailable("the watch ended before it had begun; try again", retry_after_s=1.0)
        return Place(coverage, position)

    async def extend(self, tenant: TenantId, coverage: Coverage) -> None:
        """Keeps changes coming. Raises where some are missing already."""
        if not await self._store.extend(tenant, coverage, limits.WATCH_LIFE_S):
            raise too_old()

    async def after(self, tenant: TenantId, place: Place) -> Page:
        """What comes next. Raises where not all of that is there any more."""
        page = await self._store.page(tenant, place.coverage, place.position, PAGE)
        if page is None:
            raise too_old()
        return page

    async def tidy(self) -> bool:
        """Lets go of what is old, and of tenants that nobody watches; whether there may be more of it."""
        await self._store.lapse()
        return await self._store.trim(limits.CHANGES_KEPT_S, limits.CHANGES_MAX, BITE) >= BITE

    async def _wait_for_writers(self) -> None:
        """Until all are gone that may have looked before the tenant was watched."""
        until = self._clock.monotonic() + SETTLE_MAX_S
        before = await self._store.writers()
        while before:
            if self._clock.monotonic() > until:
                raise Unavailable(
                    f"watching begins once all is written that was under way, and {len(before)} transactions of "
                    f"others change jobs for more than {SETTLE_MAX_S:g} s already; end them, or try again",
                    retry_after_s=5.0,
                )
            await self._clock.sleep(SETTLE_LOOK_S)
            before &= await self._store.writers()


def too_old() -> FailedPrecondition:
    """The refusal of a place behind which changes are missing."""
    return FailedPrecondition(
        f"resume_token: changes after it are not kept any more (they are for {limits.CHANGES_KEPT_S / 3600:g} h, "
        f"{limits.WATCH_LIFE_S / 60:g} min after the last watcher has gone, not across a failover of the database); "
        "watch without a token, then list the jobs",
        metadata={"cause": "RESUME_TOKEN_TOO_OLD"},
    )
