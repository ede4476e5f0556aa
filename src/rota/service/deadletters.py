"""Dead letters: looking at them, discarding them, and redrives, which make them ready again at a rate.

A redrive is a row with a cursor, so it goes on where it was, whatever restarts. Whoever finds its time come takes a
bite, with the row locked: the letters of the bite and the progress are one transaction.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from rota.clock import Clock
from rota.domain import limits
from rota.domain.deadletter import (
    FIRST,
    LAST,
    DeadFilter,
    DeadLetter,
    Place,
    Redrive,
    RedriveState,
    letter_not_found,
    redrive_not_found,
)
from rota.domain.errors import ResourceExhausted, RotaError
from rota.domain.fairness import Entry
from rota.domain.ids import JobId, TenantId
from rota.domain.model import Identity
from rota.service.notices import Notices
from rota.store.deadport import DeadLetterStore, DeadTransaction, Walk
from rota.store.scheduleport import RequestKey
from rota.telemetry import Metrics

log = logging.getLogger(__name__)

STEP_S: Final = 0.5
"""A redrive makes ready what its rate allows in this time, and then waits for so long."""

BITE_MAX: Final = 200
"""Letters of one transaction."""

EXAMPLES: Final = 10
"""Letters that a dry run shows."""

FAILED_WAIT_S: Final = 30.0
"""A bite that fails is tried again after so long, and others are not held up by it."""


@dataclass(frozen=True, slots=True)
class Discarded:
    """`more`: others meet the filter still."""

    count: int
    more: bool


class DeadLetters:
    """`on_started` is called when a redrive has begun."""

    def __init__(self, store: DeadLetterStore, notices: Notices, clock: Clock, metrics: Metrics) -> None:
        self._store = store
        self._notices = notices
        self._clock = clock
        self._metrics = metrics
        self.on_started: Callable[[], None] = lambda: None

    async def get(self, tenant: TenantId, id: JobId) -> DeadLetter:
        found = (await self._store.letters(tenant, [id], full=True)).get(id)
        if found is None:
            raise letter_not_found(id)
        return found

    async def has(self, tenant: TenantId, id: JobId) -> bool:
        return bool(await self._store.letters(tenant, [id], full=False))

    async def page(
        self, tenant: TenantId, where: DeadFilter, before: Place | None, size: int
    ) -> tuple[list[DeadLetter], Place | None]:
        """Latest death first; and where the next page begins, None at the end. A page may have less than `size`, even
        nothing, while there are more: each looks at a bounded number of letters."""
        walk = Walk(tenant, where, before or LAST, newest_first=True)
        found = await self._store.find(walk, size + 1)
        places = found.places[:size]
        letters = await self._read(tenant, places)
        return letters, places[-1] if len(found.places) > size else found.next

    async def start(
        self, identity: Identity, wish: Redrive, *, request: RequestKey, validate_only: bool
    ) -> tuple[Redrive, list[DeadLetter]]:
        """Begins a redrive, or only counts; then also the first letters that it would take."""
        tenant = identity.tenant_id
        now = await self._store.now()
        wish = replace(wish, tenant_id=tenant, author=identity.key_id, created_at=now)
        planned, examples = await (self._plan_named(wish) if wish.filter is None else self._plan_filter(wish))
        if validate_only:
            return planned, examples
        if not planned.total:
            planned = replace(planned, state=RedriveState.SUCCEEDED, finished_at=now)
        planned = replace(planned, id=self._clock.new_id())

        async def work(tx: DeadTransaction) -> Redrive:
            if request.request_id:
                earlier = await tx.earlier(tenant, request, [planned.id])
                if earlier is not None:
                    return await self._locked(tx, tenant, earlier[0])
            if not await tx.add(planned):
                raise ResourceExhausted(
                    f"redrive: {limits.REDRIVES_RUNNING_MAX} redrives run already; wait for one, or cancel it",
                    reason="QUOTA_EXCEEDED",
                )
            return planned

        started = await self._store.transact(work)
        self.on_started()
        return started, []

    async def discard_named(self, identity: Identity, ids: Sequence[JobId], reason: str, *, dry_run: bool) -> Discarded:
        if dry_run:
            return Discarded(len(await self._store.letters(identity.tenant_id, ids, full=False)), more=False)
        return Discarded(await self._discard(identity, ids, reason), more=False)

    async def discard_found(
        self, identity: Identity, where: DeadFilter, most: int, reason: str, *, dry_run: bool
    ) -> Discarded:
        """Of those that meet a filter, the oldest deaths first."""
        walk = Walk(identity.tenant_id, where, FIRST)
        if dry_run:
            count = await self._store.count(walk, most + 1)
            return Discarded(min(count, most), count > most)
        ids: list[JobId] = []
        after: Place | None = FIRST
        while after is not None and len(ids) <= most:
            found = await self._store.find(replace(walk, after=after), most + 1 - len(ids))
            ids += [JobId(place.id) for place in found.places]
            after = found.next
        return Discarded(await self._discard(identity, ids[:most], reason), len(ids) > most)

    async def get_redrive(self, tenant: TenantId, id: str) -> Redrive:
        found = await self._store.redrive(tenant, id)
        if found is None:
            raise redrive_not_found(id)
        return found

    async def redrives(self, tenant: TenantId, before: str | None, limit: int) -> list[Redrive]:
        return await self._store.redrives(tenant, before, limit)

    async def cancel(self, tenant: TenantId, id: str) -> Redrive:
        """Stops a redrive that runs; one that is over stays as it is."""

        async def work(tx: DeadTransaction) -> Redrive:
            found = await tx.lock(tenant, id)
            if found is None:
                raise redrive_not_found(id)
            stored, now = found
            ended = stored.cancelled(now)
            if ended is not stored:
                await tx.save(ended, 0.0)
            return ended

        return await self._store.transact(work)

    async def revive(self, identity: Identity, job: JobId, *, new_generation: bool) -> bool:
        """Makes one dead job ready, however often that was done before; False: it is not dead."""

        async def work(tx: DeadTransaction) -> list[Entry]:
            return await tx.revive(
                identity.tenant_id, [job], identity.key_id, new_generation=new_generation, redrives_max=None
            )

        return bool(self._revived(await self._store.transact(work)))

    async def carry_on(self) -> float | None:
        """Takes a bite of a redrive whose time has come; how long until the next one's has, None where none runs."""
        entries: list[Entry] = []
        busy_with: list[Redrive] = []

        async def work(tx: DeadTransaction) -> bool:
            # A transaction that is tried again begins from nothing.
            entries.clear()
            busy_with.clear()
            found = await tx.lock_due()
            if found is None:
                return False
            busy_with.append(found[0])
            entries.extend(await self._bite(tx, *found))
            return True

        try:
            more = await self._store.transact(work)
        except RotaError:
            raise
        except Exception:
            if not busy_with:
                raise
            # Data that the database refuses, or a fault of ours: no reason to hold up the others.
            log.exception("redrive %s failed, and goes on in %g s", busy_with[0].id, FAILED_WAIT_S)
            await self._store.postpone(busy_with[0].tenant_id, busy_with[0].id, FAILED_WAIT_S)
            more = True
        self._revived(entries)
        return 0.0 if more else await self._store.next_redrive_s()

    async def _bite(self, tx: DeadTransaction, redrive: Redrive, now: datetime) -> list[Entry]:
        share = redrive.bite(min(max(int(redrive.rate * STEP_S), 1), BITE_MAX))
        if redrive.filter is None:
            jobs = redrive.letters[redrive.dealt_with : redrive.dealt_with + share]
            cursor, over = redrive.cursor, redrive.dealt_with + len(jobs) >= len(redrive.letters)
        else:
            found = await tx.find(_walk_of(redrive), share)
            jobs = tuple(JobId(place.id) for place in found.places)
            cursor, over = found.next or redrive.cursor, found.next is None
        entries = await tx.revive(
            redrive.tenant_id,
            jobs,
            redrive.author,
            new_generation=redrive.new_generation,
            redrives_max=limits.REDRIVES_PER_LETTER_MAX,
        )
        after = redrive.carried_on(len(jobs), len(entries), cursor, over=over, now=now)
        await tx.save(after, len(entries) / redrive.rate)
        return entries

    async def _plan_filter(self, wish: Redrive) -> tuple[Redrive, list[DeadLetter]]:
        walk = _walk_of(wish)
        total = await self._store.count(walk, wish.max_count)
        places: list[Place] = []
        after: Place | None = FIRST
        while after is not None and len(places) < min(EXAMPLES, total):
            found = await self._store.find(replace(walk, after=after, redrivable=True), EXAMPLES - len(places))
            places += found.places
            after = found.next
        return replace(wish, total=total), await self._read(wish.tenant_id, places[: min(EXAMPLES, total)])

    async def _plan_named(self, wish: Redrive) -> tuple[Redrive, list[DeadLetter]]:
        """The letters of a list by age; what is gone comes last, and is refused."""
        known = await self._store.letters(wish.tenant_id, wish.letters, full=False)

        def age(id: JobId) -> tuple[bool, datetime | None, JobId]:
            return (id not in known, known[id].job.finished_at if id in known else None, id)

        letters = tuple(sorted(wish.letters, key=age))
        letters = letters if wish.max_count is None else letters[: wish.max_count]
        takeable = [known[id] for id in letters if id in known and known[id].redrives < limits.REDRIVES_PER_LETTER_MAX]
        return replace(wish, letters=letters, total=len(letters)), takeable[:EXAMPLES]

    async def _read(self, tenant: TenantId, places: Sequence[Place]) -> list[DeadLetter]:
        """Without payloads; those that are gone meanwhile are left out."""
        ids = [JobId(place.id) for place in places]
        known = await self._store.letters(tenant, ids, full=False) if ids else {}
        return [known[id] for id in ids if id in known]

    async def _locked(self, tx: DeadTransaction, tenant: TenantId, id: str) -> Redrive:
        found = await tx.lock(tenant, id)
        if found is None:
            raise redrive_not_found(id)
        return found[0]

    async def _discard(self, identity: Identity, ids: Sequence[JobId], reason: str) -> int:
        """In bites, so that a part of them is discarded where it is cut short."""
        count = 0
        for start in range(0, len(ids), BITE_MAX):
            gone = await self._store.discard(identity.tenant_id, ids[start : start + BITE_MAX], reason)
            self._metrics.add("rota.deadletters.discarded", len(gone))
            count += len(gone)
        if count:
            log.info("key %s discarded %d dead letters", identity.key_id, count)
        return count

    def _revived(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        if entries:
            self._metrics.add("rota.deadletters.redriven", len(entries))
            self._notices.jobs_waiting(entries)
        return entries


def _walk_of(redrive: Redrive) -> Walk:
    """From where it is. What died since its call is not meant."""
    where, until = redrive.filter or DeadFilter(), redrive.created_at
    if until is not None and (where.end is None or until < where.end):
        where = replace(where, end=until)
    return Walk(redrive.tenant_id, where, redrive.cursor)
