"""The store as those know it who steer the whole: queues, tenants, and the coordinators with their shards. As in
`port`, each operation is one transaction with three outcomes, and the clock of all of them is the database's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from rota.domain.ids import CoordinatorId, JobId, ShardNo, TenantId
from rota.domain.model import JobState, Tenant
from rota.domain.queue import Queue, QueueCounts, QueueSettings
from rota.domain.tenant import TenantSettings

QueueKey = tuple[TenantId, str]


@dataclass(frozen=True, slots=True)
class Configs:
    """Every queue and tenant whose settings are not the default ones, or that is paused. `version` grows with each
    change of any of them."""

    version: int
    queues: Sequence[Queue]
    tenants: Mapping[TenantId, TenantSettings]


@dataclass(frozen=True, slots=True)
class QueueFilter:
    """Waiting jobs of one queue. `states`: of SCHEDULED, READY and RETRY_WAIT, where READY is told apart by the
    database's now; `type` empty: any."""

    tenant_id: TenantId
    queue: str
    states: frozenset[JobState]
    type: str = ""


@dataclass(frozen=True, slots=True)
class Coordinator:
    """A process of the control plane. `address`: where its peers reach it, else where clients do."""

    id: CoordinatorId
    address: str
    version: str
    started_at: datetime
    expires_at: datetime
    draining: bool
    shards: int
    sessions: int


@dataclass(frozen=True, slots=True)
class Shard:
    """`owner` and `expires_at` None: nobody who lives has it."""

    number: ShardNo
    epoch: int
    owner: CoordinatorId | None
    expires_at: datetime | None
    watermark: datetime | None


class QueueStore(Protocol):
    async def get(self, tenant: TenantId, id: str) -> Queue | None:
        """What is stored of a queue; None: nothing, which says nothing about its jobs."""

    async def page(self, tenant: TenantId, after: str, limit: int) -> list[Queue]:
        """Those stored, by the bytes of their ids, behind `after`."""

    async def save(self, tenant: TenantId, id: str, settings: QueueSettings, version: int) -> Queue | None:
        """Changes settings where the stored version is this one (0: none is stored yet); None: it is another. Whatever
        is granted after the answer keeps within them."""

    async def pause(self, tenant: TenantId, id: str, reason: str, author: str) -> Queue:
        """Nothing is granted after the answer. One that is paused already stays as it is."""

    async def resume(self, tenant: TenantId, id: str) -> Queue | None:
        """None: nothing is stored of it, so it is not paused."""

    async def configs(self, known: int | None = None) -> Configs | None:
        """All settings; None where this version of them is current still."""

    async def counts(self) -> dict[QueueKey, QueueCounts]:
        """Of every queue in use. The cost is bounded, so large numbers are estimates."""

    async def waiting(self, where: QueueFilter, shards: Sequence[ShardNo], limit: int) -> list[JobId]:
        """Jobs of these shards that wait."""

    async def count_waiting(self, where: QueueFilter, shards: Sequence[ShardNo], limit: int) -> int:
        """How many there are, up to `limit`."""


class TenantStore(Protocol):
    async def tenant(self, name: str) -> Tenant | None: ...

    async def tenant_page(self, after: str, limit: int) -> list[Tenant]:
        """By the bytes of their names, behind `after`."""

    async def save_tenant(self, tenant: TenantId, settings: TenantSettings, version: int) -> Tenant | None:
        """Changes settings where the stored version is this one; None: it is another. Whatever is granted after the
        answer keeps within them."""


class FleetStore(Protocol):
    async def coordinators(self, after: CoordinatorId | None, limit: int) -> list[Coordinator]:
        """Those that live, by id."""

    async def shards(self, after: int, limit: int, owner: CoordinatorId | None) -> list[Shard]:
        """By number, behind `after`."""
