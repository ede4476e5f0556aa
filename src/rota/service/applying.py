"""Making a declared set of schedules and calendars true, in one transaction, or only saying what that would change."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import IntEnum
from typing import Protocol, TypeVar

from rota.clock import Clock
from rota.domain import limits
from rota.domain.dateset import parse_dates
from rota.domain.errors import InvalidArgument, ResourceExhausted
from rota.domain.model import Identity
from rota.domain.rulespec import RuleKind
from rota.domain.schedule import Calendar, Calendars, Definition, Schedule, ScheduleState, check_definition, compiled
from rota.domain.text import Problems
from rota.service import calendars as calendar_service
from rota.service.changing import Changing, retimed
from rota.service.drafts import Draft, check_id, new_schedule
from rota.store.scheduleport import RequestKey, ScheduleTransaction

Compare = Callable[[Definition, Definition], tuple[str, ...]]
"""The paths of fields that differ."""


class ApplyAction(IntEnum):
    CREATE = 1
    UPDATE = 2
    DELETE = 3
    NONE = 4


@dataclass(frozen=True, slots=True)
class Change:
    """What is done to one resource. `name`: schedules/x or calendars/x."""

    name: str
    action: ApplyAction
    fields: tuple[str, ...] = ()


class Applying:
    """One call's work, in one transaction."""

    def __init__(
        self,
        clock: Clock,
        identity: Identity,
        apply_set: str,
        compare: Compare,
        *,
        validate_only: bool,
    ) -> None:
        self._clock = clock
        self._identity = identity
        self._tenant = identity.tenant_id
        self._set = apply_set
        self._compare = compare
        self._validate_only = validate_only
        self._new_dates: dict[str, Calendar] = {}

    async def run(
        self,
        tx: ScheduleTransaction,
        drafts: Sequence[Draft],
        calendars: Sequence[Calendar],
        request: RequestKey,
        changing: Changing,
        *,
        prune: bool,
    ) -> list[Change]:
        """In the order of ids, so that two calls never wait for each other; answers in the order given."""
        now = await tx.now()
        repeatable = request.request_id and not self._validate_only
        if repeatable and await tx.earlier(self._tenant, request, []) is not None:
            # What it did is done, and whatever came after it stands.
            names = [f"calendars/{c.id}" for c in calendars] + [f"schedules/{d.id}" for d in drafts]
            return [Change(name, ApplyAction.NONE) for name in names]
        changes = {c.id: await self._calendar(tx, c, now, index) for index, c in sorted_by_id(calendars)}
        found = [changes[c.id] for c in calendars]
        made: dict[str, Change] = {}
        fresh: list[Schedule] = []
        for _, draft in sorted_by_id(drafts):
            check_id(draft)
            made[draft.id] = await self._schedule(tx, changing, draft, now, fresh)
        if fresh and not self._validate_only:
            await tx.create(fresh)
        found += [made[draft.id] for draft in drafts]
        if prune:
            found += await self._prune(tx, changing, {draft.id for draft in drafts}, now)
        return found

    async def _calendar(self, tx: ScheduleTransaction, calendar: Calendar, now: datetime, index: int) -> Change:
        at = f"calendars[{index}].calendar"
        calendar_service.checked(calendar, at)
        self._new_dates[calendar.id] = calendar
        stored = await tx.lock_calendar(self._tenant, calendar.id)
        name = f"calendars/{calendar.id}"
        if stored is None:
            if not self._validate_only:
                await tx.create_calendar(self._tenant, replace(calendar, uid=self._clock.new_id()))
            return Change(name, ApplyAction.CREATE)
        fields = tuple(
            field
            for field, old, new in (
                ("dates", stored.dates, calendar.dates),
                ("notes", stored.notes, calendar.notes),
                ("labels", dict(stored.labels), dict(calendar.labels)),
            )
            if old != new
        )
        if not fields:
            return Change(name, ApplyAction.NONE)
        if not self._validate_only:
            await calendar_service.rewrite(tx, self._identity, stored, calendar, at, now)
        return Change(name, ApplyAction.UPDATE, fields)

    async def _schedule(
        self, tx: ScheduleTransaction, changing: Changing, draft: Draft, now: datetime, fresh: list[Schedule]
    ) -> Change:
        name = f"schedules/{draft.id}"
        locked = await tx.lock(self._tenant, draft.id)
        if locked is None:
            dates = await self._dates(tx, draft)
            made = new_schedule(self._clock, self._identity, draft, dates, now)
            fresh.append(replace(made, apply_set=self._set))
            return Change(name, ApplyAction.CREATE)
        schedule, now = locked
        definition = kept(draft.definition, schedule.definition)
        fields = self._compare(schedule.definition, definition)
        paused = schedule.timer.state is ScheduleState.PAUSED
        repause = paused != draft.paused and schedule.timer.state in (ScheduleState.ACTIVE, ScheduleState.PAUSED)
        if repause:
            fields += ("paused",)
        if schedule.apply_set != self._set:
            fields += ("apply_set",)
        if not fields:
            return Change(name, ApplyAction.NONE)
        if self._validate_only:
            problems = Problems()
            check_definition(problems, draft.at, definition, now)
            problems.raise_any()
            rule = compiled(definition.timing, schedule.uid, await self._dates(tx, draft), draft.at)
            if retimed(schedule.definition, definition):
                rule.require_next(now)
        else:
            schedule = await changing.update(schedule, definition, draft.at, now)
            if schedule.apply_set != self._set:
                schedule = replace(schedule, apply_set=self._set)
                await tx.rewrite(schedule)
            why = f"applied as part of {self._set}"
            if repause and draft.paused:
                await changing.pause(schedule, why, self._identity.key_id, now)
            elif repause:
                await changing.resume(schedule, why, self._identity.key_id, None, now)
        return Change(name, ApplyAction.UPDATE, fields)

    async def _dates(self, tx: ScheduleTransaction, draft: Draft) -> Calendars:
        named = draft.definition.timing.calendars
        found = dict(await tx.calendars(self._tenant, named))
        for id in named:
            if id in self._new_dates:
                dates = self._new_dates[id].dates
                found[id] = parse_dates(dates, "calendar.dates", limits.CALENDAR_DATES_MAX)
        return found

    async def _prune(self, tx: ScheduleTransaction, changing: Changing, given: set[str], now: datetime) -> list[Change]:
        most = limits.SCHEDULE_BATCH_MAX
        present = await tx.in_set(self._tenant, self._set, most * 2 + 1)
        gone = [id for id in present if id not in given]
        if len(gone) > most:
            raise ResourceExhausted(
                f"prune: {self._set} would lose more than {most} schedules; delete some of them first",
                reason="QUOTA_EXCEEDED",
            )
        for id in gone if not self._validate_only else ():
            schedule, at = await changing.locked(self._tenant, id)
            await changing.delete(schedule, at)
        return [Change(f"schedules/{id}", ApplyAction.DELETE) for id in gone]


def kept(wanted: Definition, stored: Definition) -> Definition:
    """The wanted definition with what it leaves open as it is stored: an anchor moves only when it is given."""
    timing = wanted.timing
    same = timing.kind is stored.timing.kind and timing.kind in (RuleKind.INTERVAL, RuleKind.RRULE)
    if same and timing.anchor is None:
        return replace(wanted, timing=replace(timing, anchor=stored.timing.anchor))
    return wanted


def check_unique(drafts: Sequence[Draft], calendars: Sequence[Calendar]) -> None:
    """Refuses two schedules or two calendars of one id."""
    for what, ids in (("schedules", [d.id for d in drafts]), ("calendars", [c.id for c in calendars])):
        seen: dict[str, int] = {}
        for index, id in enumerate(ids):
            if id in seen:
                one = what.removesuffix("s")
                raise InvalidArgument.field(
                    f"{what}[{index}].{one}_id", f"{id!r} is given twice, at {seen[id]} too; give each its own"
                )
            seen[id] = index


class Named(Protocol):
    @property
    def id(self) -> str: ...


N = TypeVar("N", bound=Named)


def sorted_by_id(items: Sequence[N]) -> list[tuple[int, N]]:
    """With their places in the sequence."""
    return sorted(enumerate(items), key=lambda item: item[1].id)
