"""The ledger of effects as its service and the janitor know it."""

from dataclasses import dataclass
from typing import Protocol

from rota.domain.effect import Begun, Effect, InDoubt
from rota.domain.fairness import Entry
from rota.domain.ids import EffectId, Fence, JobId, TenantId
from rota.domain.model import EffectState


@dataclass(frozen=True, slots=True)
class EffectCall:
    """Which effect, by whose lease. `key` empty: the job's own."""

    tenant_id: TenantId
    tenant: str
    job_id: JobId
    fence: Fence
    key: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """An operator's word on an effect in doubt."""

    state: EffectState
    reference: str
    reason: str
    author: str


@dataclass(frozen=True, slots=True)
class Resolved:
    """The effect after a decision, and what that made of its job: `finished`, or waiting for its turn again."""

    effect: Effect
    finished: bool = False
    waiting: Entry | None = None


class EffectStore(Protocol):
    async def begin(self, call: EffectCall, policy: InDoubt, id: EffectId) -> Begun | None:
        """Begins an effect, with this id where it is new, in the transaction that looks whether the job is leased under
        the fence by a living session. None: it is not, and nothing is written. A job that is to be held is marked."""

    async def commit(self, call: EffectCall, state: EffectState, reference: str) -> Effect | None:
        """Writes down how an effect ended, if the job is leased under the fence; else None. A job that was to be held
        for it is not any more."""

    async def resolve(self, tenant: TenantId, tenant_name: str, id: EffectId, decision: Decision) -> Resolved | None:
        """Decides an effect in doubt, and with it the job that waits for that. None: there is no such effect."""

    async def page(
        self, tenant: TenantId, after: EffectId | None, limit: int, job: JobId | None, *, holding: bool
    ) -> list[Effect]:
        """Effects in doubt, oldest first, younger than `after`; of one job, or only those that hold a job."""

    async def forget(self, older_than_s: float, limit: int) -> int:
        """Looks in a bounded bite through effects settled longer ago, and forgets those whose job is over for good: no
        retry and no redrive can ask for them any more. How many were looked at."""
