"""Calendars: named sets of dates on which schedules do not fire. A change governs what was made ahead, too."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from rota.clock import Clock
from rota.domain import limits
from rota.domain.errors import FailedPrecondition, InvalidArgument, NotFound
from rota.domain.model import Identity
from rota.domain.schedule import ID, ID_WORDS, Calendar, check_calendar
from rota.domain.text import Problems
from rota.service.changing import check_etag
from rota.service.notices import Notices
from rota.store.scheduleport import RequestKey, ScheduleStore, ScheduleTransaction


class Calendars:
    def __init__(self, store: ScheduleStore, notices: Notices, clock: Clock) -> None:
        self._store = store
        self._notices = notices
        self._clock = clock

    async def create(self, identity: Identity, calendar: Calendar, request: RequestKey) -> Calendar:
        if not ID.fullmatch(calendar.id):
            raise InvalidArgument.field("calendar_id", f"must be {ID_WORDS}, found {calendar.id[:80]!r}")
        checked(calendar, "calendar")
        fresh = replace(calendar, uid=self._clock.new_id())

        async def work(tx: ScheduleTransaction) -> None:
            if request.request_id and await tx.earlier(identity.tenant_id, request, [fresh.uid]) is not None:
                return
            await tx.create_calendar(identity.tenant_id, fresh)

        await self._store.transact(work)
        return await self.get(identity, calendar.id)

    async def get(self, identity: Identity, id: str) -> Calendar:
        found = await self._store.calendar(identity.tenant_id, id)
        if found is None:
            raise calendar_not_found(id)
        return found

    async def page(self, identity: Identity, labels: Mapping[str, str], after: str, limit: int) -> list[Calendar]:
        return await self._store.calendar_page(identity.tenant_id, labels, after, limit)

    async def update(
        self,
        identity: Identity,
        id: str,
        edit: Callable[[Calendar], Calendar],
        *,
        etag: str,
        request: RequestKey,
    ) -> Calendar:
        async def work(tx: ScheduleTransaction) -> None:
            found = await tx.lock_calendar(identity.tenant_id, id)
            if found is None:
                raise calendar_not_found(id)
            if request.request_id and await tx.earlier(identity.tenant_id, request, [found.uid]) is not None:
                return
            check_etag(f"calendars/{id}", etag, found.version, found.uid)
            await rewrite(tx, identity, found, edit(found), "calendar", await tx.now())

        await self._store.transact(work)
        self._notices.schedules_armed()
        return await self.get(identity, id)

    async def delete(self, identity: Identity, id: str, *, etag: str, allow_missing: bool) -> None:
        async def work(tx: ScheduleTransaction) -> None:
            found = await tx.lock_calendar(identity.tenant_id, id)
            if found is None:
                if allow_missing:
                    return
                raise calendar_not_found(id)
            check_etag(f"calendars/{id}", etag, found.version, found.uid)
            named = await tx.lock_naming(identity.tenant_id, id, 1)
            if named:
                (schedule, *_) = await tx.by_uid(identity.tenant_id, named)
                raise FailedPrecondition(
                    f"calendars/{id}: schedules/{schedule.id} names it; take it out of the schedules' exclusions first"
                )
            await tx.delete_calendar(identity.tenant_id, id)

        await self._store.transact(work)


async def rewrite(
    tx: ScheduleTransaction, identity: Identity, old: Calendar, new: Calendar, at: str, now: datetime
) -> None:
    """Gives a locked calendar other dates, and lets its schedules look at their rules again."""
    checked(new, at)
    if (old.dates, old.notes, dict(old.labels)) == (new.dates, new.notes, dict(new.labels)):
        return
    await tx.rewrite_calendar(identity.tenant_id, new)
    if old.dates == new.dates:
        return
    most = limits.CALENDAR_SCHEDULES_MAX
    naming = await tx.lock_naming(identity.tenant_id, new.id, most + 1)
    if len(naming) > most:
        raise FailedPrecondition(
            f"calendars/{new.id}: more than {most} schedules name it; give some of them another calendar"
        )
    if naming:
        withdrawn = await tx.withdraw(naming, now, None)
        await tx.reset(withdrawn, now)


def checked(calendar: Calendar, at: str) -> None:
    problems = Problems()
    check_calendar(problems, at, calendar)
    problems.raise_any()


def calendar_not_found(id: str) -> NotFound:
    """No such calendar in the caller's tenant."""
    return NotFound(f"calendars/{id}: not found; it may have been deleted, or the name is wrong")
