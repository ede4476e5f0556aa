"""Ready jobs become leases: each is claimed under a fence of its own, and what is not granted is looked up again.

A claim whose outcome is unknown is ended like a lost answer, by its fence. While the store cannot answer there are no
claims, for longer each time.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from rota.clock import Clock, DatabaseClock
from rota.coordinator.gates import Gates
from rota.coordinator.memory import Memory
from rota.coordinator.queuebook import QueueBook
from rota.domain import ids, limiting
from rota.domain.errors import RotaError, Unavailable
from rota.domain.fairness import Entry
from rota.domain.ids import Fence, JobId, SessionId, ShardNo, TenantId
from rota.domain.model import Grant, Outcome
from rota.domain.transition import Ending
from rota.service.completions import LostLease
from rota.service.leases import Leases
from rota.store.port import Claim

log = logging.getLogger(__name__)

REST_FIRST_S = 0.1
REST_MAX_S = 2.0
"""No claims for so long after one that the store could not answer, longer each time."""

UNDONE_S = 20.0
"""Claims that have failed for so long without a success are a duty that is not done."""

LATELY_S = 5.0
"""The last of them is no longer ago than this: otherwise nobody knows whether one would fail."""


class Claims:
    def __init__(
        self,
        memory: Memory,
        leases: Leases,
        clock: Clock,
        database_clock: DatabaseClock,
        gates: Gates,
        book: QueueBook,
        give_back: Callable[[Sequence[LostLease]], None],
    ) -> None:
        self._memory = memory
        self._leases = leases
        self._clock = clock
        self._database_clock = database_clock
        self._gates = gates
        self._book = book
        self._give_back = give_back
        self._counters: dict[ShardNo, tuple[int, int]] = {}
        self._failures = 0
        self._failing_since = 0.0
        self._failed_at = 0.0
        self.resting = False
        """The store could not answer a moment ago."""
        self.on_rested: Callable[[], None] = lambda: None

    def mint(self, entries: Sequence[Entry], session: SessionId) -> list[Claim]:
        """Claims of these for a session, each with the next fence of its shard. One whose shard is gone is left out."""
        minted = []
        for entry in entries:
            term = self._memory.terms.get(entry.shard)
            if term is None:
                continue
            epoch, counter = self._counters.get(entry.shard, (term.epoch, 0))
            counter = counter + 1 if epoch == term.epoch else 1
            self._counters[entry.shard] = (term.epoch, counter)
            self._memory.claiming.add(entry.id)
            minted.append(Claim(entry, ids.mint_fence(term.epoch, counter), session))
        return minted

    async def grant(self, claims: Sequence[Claim], tenants: Mapping[TenantId, str]) -> list[Grant]:
        """What of them was granted; those under exact limits are counted and taken in a transaction of their own.
        `tenants`: names by id."""
        limited = [claim for claim in claims if self._book.limits(claim.entry)]
        if not limited:
            return await self._grant_plain(claims, tenants)
        plain = [claim for claim in claims if not self._book.limits(claim.entry)]
        grants = await self._grant_plain(plain, tenants) if plain else []
        return grants + await self._grant_limited(limited, tenants)

    def undone(self) -> list[str]:
        """Names what this does where it has failed for long, and lately."""
        now = self._clock.monotonic()
        failing = self._failures and now - self._failing_since > UNDONE_S and now - self._failed_at < LATELY_S
        return ["claims"] if failing else []

    async def _grant_plain(self, claims: Sequence[Claim], tenants: Mapping[TenantId, str]) -> list[Grant]:
        try:
            grants = await self._leases.claim(claims, tenants, self._database_clock.now())
        except Exception as error:
            self._failed(claims, error)
            return []
        self._answered()
        self._settle(claims, grants)
        return grants

    async def _grant_limited(self, claims: Sequence[Claim], tenants: Mapping[TenantId, str]) -> list[Grant]:
        try:
            found = await self._leases.claim_limited(claims, tenants, self._database_clock.now())
        except Exception as error:
            self._failed(claims, error)
            return []
        self._answered()
        self._gates.refused(found.closed)
        granted = {grant.job_id for grant in found.grants}
        passed = []
        refused = []
        for claim in claims:
            entry = claim.entry
            if entry.id in granted:
                self._gates.granted(entry)
            elif not found.closed.keys().isdisjoint(
                limiting.gates(entry.tenant_id, entry.queue, entry.concurrency_key)
            ):
                refused.append(entry)
                continue
            passed.append(claim)
        self._settle(passed, found.grants)
        for entry in refused:
            self._memory.claimed(entry.id)
        self._memory.accept(refused)
        return found.grants

    def _settle(self, claims: Sequence[Claim], grants: Sequence[Grant]) -> None:
        for claim in claims:
            self._memory.claimed(claim.entry.id)
        if len(grants) < len(claims):
            granted = {grant.job_id for grant in grants}
            missed = [claim for claim in claims if claim.entry.id not in granted]
            self._give_back([_doubt(claim) for claim in missed])
            # A limit that was not known here may be the reason.
            self._book.follow()

    def _answered(self) -> None:
        if self._failures:
            log.info("claims work again after %d failures", self._failures)
            self._failures = 0

    def _failed(self, claims: Sequence[Claim], error: Exception) -> None:
        if isinstance(error, Unavailable):
            self._rest()
            if self._failures == 1:
                log.warning("a claim of %d jobs failed, trying again: %s", len(claims), error)
        else:
            log.error("a claim of %d jobs failed: %s", len(claims), error, exc_info=not isinstance(error, RotaError))
        for claim in claims:
            self._memory.claimed(claim.entry.id)
        self._give_back([_doubt(claim) for claim in claims])

    def _rest(self) -> None:
        """What cannot be claimed now is looked up again and would be claimed again, as fast as the store refuses."""
        self._failed_at = self._clock.monotonic()
        if not self._failures:
            self._failing_since = self._failed_at
        self._failures += 1
        if not self.resting:
            self.resting = True
            wait_s = min(REST_FIRST_S * 2.0 ** min(self._failures - 1, 10), REST_MAX_S)
            asyncio.get_running_loop().call_later(wait_s * self._clock.rng.uniform(0.5, 1.0), self._rested)

    def _rested(self) -> None:
        self.resting = False
        self.on_rested()


def not_arrived(tenant: TenantId, job: JobId, fence: Fence) -> LostLease:
    """A lease that its worker does not know of, to be given back without counting."""
    return LostLease(tenant, job, fence, Ending(Outcome.UNDELIVERED))


def _doubt(claim: Claim) -> LostLease:
    return not_arrived(claim.entry.tenant_id, claim.entry.id, claim.fence)
