"""The ledger of effects: attempts that begin and commit them, and operators who decide what stays in doubt."""

from typing import Final

from rota.clock import Clock
from rota.domain.effect import Begun, Effect, InDoubt, effect_not_found
from rota.domain.errors import Aborted, stale_fence
from rota.domain.ids import EffectId, JobId, TenantId
from rota.domain.model import EffectState, Identity, JobState, Outcome
from rota.service.notices import Notices
from rota.store.effectport import Decision, EffectCall, EffectStore
from rota.store.port import Ended, OutcomeStore
from rota.telemetry import Metrics

_CAUSES: Final = {
    Outcome.SUCCEEDED: "COMPLETED",
    Outcome.RELEASED: "RELEASED",
    Outcome.CANCELLED: "CANCELLED",
    Outcome.LEASE_LOST: "EXPIRED",
    Outcome.TIMED_OUT: "EXPIRED",
    Outcome.UNDELIVERED: "EXPIRED",
    Outcome.FAILED: "COMPLETED",
}
"""Why a lease is no more, by how its attempt ended."""


class Effects:
    def __init__(
        self, store: EffectStore, outcomes: OutcomeStore, notices: Notices, clock: Clock, metrics: Metrics
    ) -> None:
        self._store = store
        self._outcomes = outcomes
        self._notices = notices
        self._clock = clock
        self._metrics = metrics

    async def begin(self, call: EffectCall, policy: InDoubt) -> Begun:
        """Whether an attempt goes on with an effect. Raises STALE_FENCE when it does not hold its job's lease."""
        begun = await self._store.begin(call, policy, EffectId(self._clock.new_id()))
        if begun is None:
            raise await self._stale(call)
        said = "held" if begun.hold else "begun" if begun.proceed else "known"
        self._metrics.add("rota.effects", 1, said)
        return begun

    async def commit(self, call: EffectCall, state: EffectState, reference: str) -> None:
        """Writes down how an effect ended. Repeating it is safe. Raises as `begin`."""
        if await self._store.commit(call, state, reference) is None:
            raise await self._stale(call)
        self._metrics.add("rota.effects", 1, state.name.lower())

    async def page(
        self, tenant: TenantId, after: EffectId | None, limit: int, job: JobId | None, *, holding: bool
    ) -> list[Effect]:
        return await self._store.page(tenant, after, limit, job, holding=holding)

    async def resolve(
        self, identity: Identity, id: EffectId, state: EffectState, reference: str, reason: str
    ) -> Effect:
        """Decides an effect in doubt. Where it is the job's own and was applied, the job that waits succeeds; else a
        job that is held for it goes on."""
        decision = Decision(state, reference, reason, identity.key_id)
        resolved = await self._store.resolve(identity.tenant_id, identity.tenant, id, decision)
        if resolved is None:
            raise effect_not_found(id)
        self._metrics.add("rota.effects", 1, "resolved")
        if resolved.finished:
            self._metrics.add("rota.jobs.finished", 1, JobState.SUCCEEDED.name.lower())
            self._notices.job_finished(resolved.effect.job_id)
        if resolved.waiting is not None:
            self._notices.jobs_waiting([resolved.waiting])
        return resolved.effect

    async def _stale(self, call: EffectCall) -> Aborted:
        """Why an attempt does not hold its job's lease."""
        lease = (call.tenant_id, call.job_id, call.fence)
        known = (await self._outcomes.ended([lease])).get(lease[1:])
        current, cause = _lease_end(call, known)
        self._metrics.add("rota.fences.refused", 1, cause.lower())
        return stale_fence(call.job_id, call.fence, current, cause)


def _lease_end(call: EffectCall, known: Ended | None) -> tuple[int | None, str]:
    if known is None:
        return None, "UNKNOWN_JOB"
    current = known.live_fence or known.finished_fence or known.dead_fence
    if current is None:
        return None, "UNKNOWN_JOB"
    if current != call.fence:
        return current, "REASSIGNED"
    ended = known.attempt_outcome or known.finished_outcome
    # Leased under this very fence still: then its session is over.
    return current, "EXPIRED" if ended is None else _CAUSES[ended]
