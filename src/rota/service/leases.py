"""Granting due jobs to sessions."""

from collections.abc import Mapping, Sequence

from rota.domain.ids import CoordinatorId, TenantId
from rota.domain.limiting import LimitedGrants
from rota.domain.model import Grant, effect_key
from rota.store.port import Claim, LeaseStore
from rota.telemetry import Metrics, Traces


class Leases:
    def __init__(self, store: LeaseStore, owner: CoordinatorId, metrics: Metrics, traces: Traces | None) -> None:
        self._store = store
        self._owner = owner
        self._metrics = metrics
        self._traces = traces

    async def claim(self, claims: Sequence[Claim], tenants: Mapping[TenantId, str], now: float) -> list[Grant]:
        """Claims in one statement; what could not be granted is missing. `now`: the database's, for spans."""
        # Pages are visited shard by shard, which leaves room on each for the new row versions.
        grants = await self._store.claim(sorted(claims, key=lambda c: (c.entry.shard, c.entry.id)), self._owner)
        if len(grants) < len(claims):
            self._metrics.add("rota.claims.missed", len(claims) - len(grants))
        self._dress(grants, tenants, now)
        return grants

    async def claim_limited(
        self, claims: Sequence[Claim], tenants: Mapping[TenantId, str], now: float
    ) -> LimitedGrants:
        """The same within the limits of queues and tenants: the first of `claims` get the places."""
        found = await self._store.claim_limited(claims, self._owner)
        self._dress(found.grants, tenants, now)
        return found

    def _dress(self, grants: Sequence[Grant], tenants: Mapping[TenantId, str], now: float) -> None:
        """Gives grants what their workers need beside the row."""
        self._metrics.add("rota.leases.granted", len(grants))
        for grant in grants:
            if not grant.effect_key:
                grant.effect_key = effect_key(tenants[grant.tenant_id], grant.job_id, grant.generation, grant.origin)
            if self._traces is not None and grant.traceparent:
                grant.traceparent = self._traces.lease(
                    parent=grant.traceparent,
                    state=grant.tracestate,
                    job_id=grant.job_id,
                    type=grant.type,
                    queue=grant.queue,
                    attempt=grant.attempt,
                    fence=grant.fence,
                    session_id=grant.session_id,
                    due=grant.due_at.timestamp(),
                    leased=now,
                )
