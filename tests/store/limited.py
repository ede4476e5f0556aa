"""A world with limits, and claims that keep within them."""

from collections.abc import Sequence
from typing import Any, Self

from rota.domain.limiting import Gate, LimitedGrants
from rota.domain.model import JobSpec, Role
from rota.domain.queue import QueueSettings
from rota.domain.tenant import TenantSettings
from rota.store.port import Claim

from .world import Held, World, fresh_id

QUEUE = "default"


class Limited(World):
    """A tenant with a row of its own, and claims under its limits."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        name = f"t-{self.tenant}-{fresh_id()[-8:]}"
        key = await self.identity.create_key(name, fresh_id(), b"", "", frozenset({Role.WORKER}), None)
        self.tenant = key.tenant_id
        self.session_id = await self.new_session()
        return self

    async def limit(self, queue: str = QUEUE, **settings: Any) -> None:
        stored = await self.queues.get(self.tenant, queue)
        version = stored.version if stored else 0
        saved = await self.queues.save(self.tenant, queue, QueueSettings(**settings), version)
        assert saved is not None

    async def limit_tenant(self, max_in_flight: int | None) -> None:
        ((version,),) = await self.sql("SELECT version FROM tenants WHERE id = %(id)s", id=self.tenant)
        assert await self.queues.save_tenant(self.tenant, TenantSettings(max_in_flight=max_in_flight), version)

    async def made(self, count: int, **fields: Any) -> list[JobSpec]:
        specs = [self.spec(**fields) for _ in range(count)]
        await self.create(*specs)
        return specs

    def wishes(self, specs: Sequence[JobSpec]) -> list[Claim]:
        return [Claim(self.entry(s), self.mint(s.shard), self.session_id) for s in specs]

    async def ask(self, *specs: JobSpec) -> LimitedGrants:
        return await self.leases.claim_limited(self.wishes(specs), self.owner)

    async def held(self, *specs: JobSpec) -> list[Held]:
        """Those granted of these, in their order."""
        grants = {grant.job_id: grant for grant in (await self.ask(*specs)).grants}
        return [Held(spec, grants[spec.id]) for spec in specs if spec.id in grants]

    async def leased(self, queue: str = QUEUE) -> int:
        found: int = await self.value(
            "SELECT count(*) FROM jobs WHERE tenant_id = %(t)s AND queue = %(q)s AND state IN (3, 5)",
            t=self.tenant,
            q=queue,
        )
        return found

    async def slots(self) -> int:
        found: int = await self.value("SELECT count(*) FROM lease_slots WHERE tenant_id = %(t)s", t=self.tenant)
        return found

    def gate(self, queue: str = QUEUE, key: str = "") -> Gate:
        return Gate(self.tenant, queue, key)


def granted(found: LimitedGrants) -> list[str]:
    return [grant.job_id for grant in found.grants]
