"""Changes of jobs as their service knows them."""

from dataclasses import dataclass
from typing import Protocol

from rota.domain.change import Page, Position
from rota.domain.ids import TenantId


@dataclass(frozen=True, slots=True)
class Coverage:
    """A span without gaps in which changes of a tenant are written down: which one, in which database."""

    generation: int
    incarnation: str


class ChangeStore(Protocol):
    async def watch(self, tenant: TenantId, for_s: float) -> tuple[Coverage, bool]:
        """Has changes of the tenant written down, for so long from now on if not for longer; and whether all of them
        are already. If not: all of those that begin from now on."""

    async def writers(self) -> frozenset[str]:
        """The transactions that are changing jobs now."""

    async def settle(self, tenant: TenantId, coverage: Coverage) -> None:
        """All transactions are over that may have begun to change jobs before the tenant was watched."""

    async def extend(self, tenant: TenantId, coverage: Coverage, for_s: float) -> bool:
        """As `watch`; False: the coverage is over."""

    async def moment(self, tenant: TenantId, coverage: Coverage) -> Position | None:
        """Now, as a position. None: the coverage is over."""

    async def page(self, tenant: TenantId, coverage: Coverage, after: Position, limit: int) -> Page | None:
        """What comes after a position. None: not all of that is there any more."""

    async def lapse(self) -> int:
        """Ends what nobody watches any more; how many tenants."""

    async def trim(self, older_than_s: float, most: int, bite: int) -> int:
        """Deletes old changes, and those of tenants that nobody watches: a bite of each tenant. `most`: so many of all
        are kept, or a few more. The largest number deleted of a tenant."""
