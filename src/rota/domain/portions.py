"""Portions of something that is limited: a tenant alone may have all of it, and never what is kept for the others."""

from rota.domain.ids import TenantId

SPARE = 8
"""An eighth more than one tenant may have is there for the others."""


def has_room(own: int, total: int, most: int) -> bool:
    """Whether a tenant may go to `own` of what all go to `total` of, both with what it asks for.

    Alone it may have `most`. All together may have an eighth more, and a tenant's bound is so many times what is still
    free: so each newcomer finds room, and tenants that take all that they can get end with equal parts.
    """
    return own + SPARE * total <= (SPARE + 1) * most


class Portions:
    """Counts what each tenant has."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.total = 0
        self._held: dict[TenantId, int] = {}

    def of(self, tenant: TenantId) -> int:
        return self._held.get(tenant, 0)

    def has_room(self, tenant: TenantId) -> bool:
        """Whether the tenant may have one more."""
        return has_room(self._held.get(tenant, 0) + 1, self.total + 1, self.most)

    def add(self, tenant: TenantId) -> None:
        self._held[tenant] = self._held.get(tenant, 0) + 1
        self.total += 1

    def remove(self, tenant: TenantId) -> None:
        left = self._held[tenant] - 1
        self.total -= 1
        if left:
            self._held[tenant] = left
        else:
            del self._held[tenant]
