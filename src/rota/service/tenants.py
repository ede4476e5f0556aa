"""Tenants: their shares and limits."""

from collections.abc import Callable
from typing import Final

from rota.domain.errors import Unavailable
from rota.domain.model import Tenant
from rota.domain.tenant import TenantSettings, check_tenant_settings, tenant_not_found
from rota.domain.text import Problems
from rota.service.changing import check_current
from rota.service.notices import Notices
from rota.store.queueport import TenantStore

CHANGE_TRIES: Final = 5


class Tenants:
    def __init__(self, store: TenantStore, notices: Notices) -> None:
        self._store = store
        self._notices = notices

    async def get(self, name: str) -> Tenant:
        found = await self._store.tenant(name)
        if found is None:
            raise tenant_not_found(name)
        return found

    async def page(self, after: str, limit: int) -> list[Tenant]:
        """By the bytes of their names."""
        return await self._store.tenant_page(after, limit)

    async def update(self, name: str, edit: Callable[[TenantSettings], TenantSettings], *, etag: str) -> Tenant:
        """Changes what is set, at once for what waits already."""
        for _ in range(CHANGE_TRIES):
            stored = await self.get(name)
            check_current(f"tenants/{name}", etag, stored.etag)
            settings = edit(stored.settings)
            problems = Problems()
            check_tenant_settings(problems, "tenant", settings)
            problems.raise_any()
            saved = await self._store.save_tenant(stored.id, settings, stored.version)
            if saved is not None:
                self._notices.queues_changed()
                return saved
        raise Unavailable(
            f"tenants/{name}: it was changed {CHANGE_TRIES} times meanwhile; try again", retry_after_s=1.0
        )
