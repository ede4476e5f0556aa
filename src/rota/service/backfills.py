"""Backfills: occurrences of a past span, fired later, at a rate of their own and after what is due now.

Each is a row with a cursor, so it goes on where it was, whatever restarts. Under any overlap policy but ALLOW it fires
one at a time, while nothing else of the schedule runs or waits: it never displaces or skips live work.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from rota.clock import Clock, DatabaseClock
from rota.domain import limits
from rota.domain.errors import InvalidArgument, NotFound, ResourceExhausted
from rota.domain.fairness import Entry
from rota.domain.ids import ShardNo
from rota.domain.model import Identity, ShardTerm
from rota.domain.overlap import Record
from rota.domain.rule import Fire, Rule
from rota.domain.schedule import (
    TICK,
    Backfill,
    BackfillState,
    Fate,
    Origin,
    OverlapMode,
    OverlapPolicy,
    Schedule,
    compiled,
    schedule_not_found,
)
from rota.domain.step import Step
from rota.domain.text import Problems
from rota.service.changing import Minting
from rota.service.notices import Notices
from rota.service.tracing import begin_traces
from rota.store.scheduleport import (
    Armed,
    DueBackfill,
    FireStore,
    Move,
    RequestKey,
    ScheduleStore,
    ScheduleTransaction,
)
from rota.telemetry import Traces

STEP_S = 0.5
"""A backfill fires what its rate allows in this time, and then waits for so long."""

BUSY_S = 1.0
"""How soon a backfill that has to wait for other jobs looks again."""

STEP_MAX = 200
"""Occurrences of one step."""

DUE_MAX = 4
"""Backfills of one shard that one round goes on with."""


_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


class Backfills:
    def __init__(
        self,
        store: ScheduleStore,
        fires: FireStore,
        notices: Notices,
        clock: Clock,
        database_clock: DatabaseClock,
        traces: Traces | None,
    ) -> None:
        self._traces = traces
        self._store = store
        self._fires = fires
        self._notices = notices
        self._clock = clock
        self._database_clock = database_clock

    async def start(
        self, identity: Identity, id: str, wish: Backfill, *, request: RequestKey, validate_only: bool
    ) -> Backfill:
        """Begins a backfill, or only counts its occurrences."""
        _check(wish, self._database_clock.datetime())
        new_id = self._clock.new_id()

        async def work(tx: ScheduleTransaction) -> Backfill:
            found = await tx.lock(identity.tenant_id, id)
            if found is None:
                raise schedule_not_found(id)
            schedule, now = found
            if request.request_id and not validate_only:
                earlier = await tx.earlier(identity.tenant_id, request, [new_id])
                if earlier is not None:
                    stored = await tx.lock_backfill(schedule.uid, earlier[0])
                    if stored is None:
                        raise _not_found(id, earlier[0])
                    return stored
            timing = schedule.definition.timing
            calendars = await tx.calendars(schedule.tenant_id, timing.calendars)
            rule = compiled(timing, schedule.uid, calendars)
            most = limits.BACKFILL_OCCURRENCES_MAX
            fires = rule.between(wish.start - TICK, wish.end - TICK, most + 1)
            if len(fires) > most:
                raise InvalidArgument.field(
                    "backfill.end_time", f"the span has more than {most} occurrences; split it into several backfills"
                )
            planned = replace(
                wish,
                total=len(fires),
                cursor=wish.start - TICK,
                next_nominal=fires[0].nominal if fires else None,
                author=identity.key_id,
                created_at=now,
            )
            if validate_only:
                return planned
            if await tx.running_backfills(schedule.uid) >= limits.BACKFILLS_MAX:
                raise ResourceExhausted(
                    f"schedules/{id}: {limits.BACKFILLS_MAX} backfills run already; wait for one, or cancel it",
                    reason="QUOTA_EXCEEDED",
                )
            if not fires:
                planned = replace(planned, state=BackfillState.SUCCEEDED, finished_at=now)
            planned = replace(planned, id=new_id)
            await tx.add_backfill(schedule, planned)
            return planned

        started = await self._store.transact(work)
        self._notices.schedules_armed()
        return started

    async def get(self, identity: Identity, id: str, backfill: str) -> Backfill:
        uid = await self._store.uid_of(identity.tenant_id, id)
        found = await self._store.backfill(uid, backfill) if uid is not None else None
        if found is None:
            raise _not_found(id, backfill)
        return found

    async def page(self, identity: Identity, id: str, before: str | None, limit: int) -> list[Backfill]:
        uid = await self._store.uid_of(identity.tenant_id, id)
        if uid is None:
            raise schedule_not_found(id)
        return await self._store.backfills(uid, before, limit)

    async def cancel(self, identity: Identity, id: str, backfill: str) -> Backfill:
        """Stops a backfill that runs; one that is over stays as it is."""

        async def work(tx: ScheduleTransaction) -> Backfill:
            found = await tx.lock(identity.tenant_id, id)
            stored = await tx.lock_backfill(found[0].uid, backfill) if found is not None else None
            if found is None or stored is None:
                raise _not_found(id, backfill)
            if stored.state is not BackfillState.RUNNING:
                return stored
            ended = replace(stored, state=BackfillState.CANCELLED, next_nominal=None, finished_at=found[1])
            await tx.save_backfill(ended, 0.0)
            return ended

        return await self._store.transact(work)

    async def run(self, terms: Mapping[ShardNo, ShardTerm]) -> bool:
        """Goes on with those whose time has come; whether there were any."""
        due = await self._fires.due_backfills(sorted(terms), DUE_MAX)
        if not due:
            return False
        known = await self._fires.definitions([each.schedule_uid for each in due])
        for each in due:
            stored = known.get(each.schedule_uid)
            if stored is not None:
                await self._step(each, stored[0].id)
        return True

    async def _step(self, due: DueBackfill, id: str) -> None:
        entries: list[Entry] = []

        async def work(tx: ScheduleTransaction) -> None:
            # A transaction that is tried again begins from nothing.
            entries.clear()
            found = await tx.lock(due.tenant_id, id)
            backfill = await tx.lock_backfill(due.schedule_uid, due.backfill.id)
            if found is None or backfill is None or backfill.state is not BackfillState.RUNNING:
                return
            schedule, now = found
            room = await self._room(tx, schedule, backfill)
            if room == 0:
                await tx.save_backfill(backfill, BUSY_S)
                return
            timing = schedule.definition.timing
            calendars = await tx.calendars(schedule.tenant_id, timing.calendars)
            try:
                rule = compiled(timing, schedule.uid, calendars)
                cursor = backfill.cursor or backfill.start - TICK
                fires = rule.between(cursor, backfill.end - TICK, room)
            except InvalidArgument:
                # The schedule is in ERROR: an edit or a resume mends it, and this goes on.
                await tx.save_backfill(backfill, BUSY_S * 10)
                return
            records = await self._records(tx, schedule, backfill, fires)
            if records:
                before = Armed(schedule.tenant_id, schedule.uid, schedule.shard, schedule.timer)
                step = Step(replace(schedule.timer, last_job=records[-1].job_id), tuple(records))
                entries.extend(
                    await tx.move(
                        Move(
                            before,
                            step,
                            traces=begin_traces(self._traces, schedule, records),
                            priority=backfill.priority,
                        )
                    )
                )
            ended = _progressed(backfill, rule, fires, len(records), now)
            await tx.save_backfill(ended, max(len(fires) / backfill.rate, 0.0))

        await self._store.transact(work)
        self._notices.jobs_waiting(entries)

    async def _room(self, tx: ScheduleTransaction, schedule: Schedule, backfill: Backfill) -> int:
        """How many occurrences may fire now."""
        policy: OverlapPolicy = backfill.overlap or schedule.definition.overlap
        share = min(max(int(backfill.rate * STEP_S), 1), STEP_MAX)
        if policy.ahead:
            return share
        held = await tx.held(schedule)
        if policy.mode is not OverlapMode.ALLOW:
            return 0 if held.running or held.waiting else 1
        return max(min(share, (policy.limit or 1) - len(held.running) - len(held.waiting)), 0)

    async def _records(
        self, tx: ScheduleTransaction, schedule: Schedule, backfill: Backfill, fires: Sequence[Fire]
    ) -> list[Record]:
        if not fires:
            return []
        done: set[datetime] = set()
        if not backfill.include_fired:
            done = await tx.fired(schedule.uid, fires[0].nominal - TICK, fires[-1].nominal)
        mint = Minting(self._clock, schedule.tenant_id, schedule.shard)
        return [
            Record(
                nominal=fire.nominal,
                generation=await tx.generation(schedule.uid, fire.nominal),
                due=fire.due,
                local=fire.local,
                origin=Origin.BACKFILL,
                fate=Fate.FIRED,
                reason=backfill.reason,
                job_id=mint(),
                backfill_id=backfill.id,
            )
            for fire in fires
            if fire.nominal not in done
        ]


def _progressed(backfill: Backfill, rule: Rule, fires: Sequence[Fire], fired: int, now: datetime) -> Backfill:
    cursor = fires[-1].nominal if fires else backfill.end - TICK
    coming = rule.between(cursor, backfill.end - TICK, 1) if fires else []
    over = not coming
    return replace(
        backfill,
        cursor=cursor,
        next_nominal=coming[0].nominal if coming else None,
        done=backfill.done + len(fires),
        fired=backfill.fired + fired,
        state=BackfillState.SUCCEEDED if over else BackfillState.RUNNING,
        finished_at=now if over else None,
    )


def _check(wish: Backfill, now: datetime) -> None:
    problems = Problems()
    if wish.start < _EARLIEST:
        problems.add("backfill.start_time", f"must be {_EARLIEST:%Y-%m-%d} or later, found {wish.start.isoformat()}")
    if wish.end <= wish.start:
        problems.add("backfill.end_time", "must lie after start_time")
    if wish.end > now:
        problems.add("backfill.end_time", "must not lie in the future; what is to come fires by the rule")
    if not limits.BACKFILL_RATE_MIN <= wish.rate <= limits.BACKFILL_RATE_MAX:
        low, high = limits.BACKFILL_RATE_MIN, limits.BACKFILL_RATE_MAX
        problems.add("backfill.rate", f"must be from {low:g} to {high:g} a second, found {wish.rate:g}")
    problems.integer("backfill.priority", wish.priority, 0, limits.PRIORITY_MAX)
    problems.text("backfill.reason", wish.reason, limits.REASON_BYTES_MAX)
    problems.raise_any()


def _not_found(id: str, backfill: str) -> NotFound:
    return NotFound(f"schedules/{id}/backfills/{backfill}: not found")
