"""What a change of a schedule does, within a transaction that has locked it: decide, then write.

What came due under the old definition is settled by it first. Then the change governs what was made ahead: jobs that
have not started are withdrawn, and the cursor goes back, or they are made anew from the changed template.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from rota.clock import Clock
from rota.domain import ids, zones
from rota.domain.errors import Aborted, InvalidArgument
from rota.domain.fairness import Entry
from rota.domain.ids import JobId, ShardNo, TenantId
from rota.domain.missed import begin_episode
from rota.domain.rule import Rule
from rota.domain.schedule import (
    Calendars,
    Definition,
    Episode,
    Fate,
    MissedPolicy,
    Schedule,
    ScheduleState,
    Timer,
    check_definition,
    compiled,
    etag,
    schedule_not_found,
    wrong_state,
)
from rota.domain.step import Step, armed, decide, needs_jobs, stated
from rota.domain.text import Problems
from rota.service.tracing import begin_traces
from rota.store.scheduleport import Armed, Move, ScheduleTransaction
from rota.telemetry import Traces

SETTLE_STEPS_MAX = 20
"""Steps that settle what is overdue before a change; what is left is decided after it."""


@dataclass(slots=True)
class Outcome:
    """What a transaction leaves to be told after its commit."""

    entries: list[Entry] = field(default_factory=list)


class Changing:
    """One transaction's changes."""

    def __init__(self, tx: ScheduleTransaction, clock: Clock, out: Outcome, traces: Traces | None) -> None:
        self._traces = traces
        self._tx = tx
        self._clock = clock
        self._out = out

    async def locked(self, tenant: TenantId, id: str, wanted: str = "") -> tuple[Schedule, datetime]:
        """The schedule, locked. Refuses an etag that is not the current one; empty: any will do."""
        found = await self._tx.lock(tenant, id)
        if found is None:
            raise schedule_not_found(id)
        check_etag(f"schedules/{id}", wanted, found[0].timer.version, found[0].uid)
        return found

    async def update(self, schedule: Schedule, definition: Definition, at: str, now: datetime) -> Schedule:
        """Gives a locked schedule another definition."""
        problems = Problems()
        check_definition(problems, at, definition, now)
        problems.raise_any()
        definition = replace(definition, timing=definition.timing.settled(schedule.created_at))
        old = schedule.definition
        if definition == old:
            return schedule
        calendars = await self._tx.calendars(schedule.tenant_id, definition.timing.calendars)
        rule = compiled(definition.timing, schedule.uid, calendars, at)
        moved = retimed(old, definition)
        schedule = await self._settled(schedule, now, with_excluded=moved)
        before = schedule.timer
        timer = replace(before, version=before.version + 1)
        if moved:
            # Nothing that the new rule names before this instant was ever promised.
            split = _decided_until(schedule, now)
            timer = replace(await self._back_to(schedule, timer, split), cursor=split, episode=None)
            if timer.state is ScheduleState.PAUSED:
                timer = replace(timer, paused_at=split)
            rule.require_next(split)
            if timer.state in (ScheduleState.EXHAUSTED, ScheduleState.ERROR):
                timer = _stated(timer, ScheduleState.ACTIVE, "", "", now)
        elif timer.state is ScheduleState.ERROR:
            timer = _stated(timer, ScheduleState.ACTIVE, "", "", now)
        changed = replace(schedule, definition=definition, timer=timer, updated_at=now)
        await self._tx.rewrite(changed)
        if old.job != definition.job:
            self._out.entries += await self._tx.remake(changed, timer.cursor if moved else None)
        return await self._moved(changed, before, rule, now)

    async def pause(self, schedule: Schedule, reason: str, author: str, now: datetime) -> Schedule:
        """Stops a locked schedule, and withdraws what has not started."""
        if schedule.timer.state is ScheduleState.PAUSED:
            return schedule
        if schedule.timer.state is ScheduleState.EXHAUSTED:
            raise wrong_state(schedule.id, schedule.timer.state, "there is nothing left to pause")
        schedule = await self._settled(schedule, now)
        before = schedule.timer
        split = _decided_until(schedule, now)
        timer = await self._back_to(schedule, before, split, Fate.SUPPRESSED_PAUSED)
        ended = await self._tx.end_waiting(schedule.uid, Fate.SUPPRESSED_PAUSED, rule_only=True)
        timer = replace(
            stated(timer, ScheduleState.PAUSED, reason, author, now),
            buffered=timer.buffered - ended,
            fates=shifted(timer.fates, {Fate.BUFFERED: -ended, Fate.SUPPRESSED_PAUSED: ended}),
            episode=None,
            paused_at=timer.cursor,
            failures=0,
        )
        return await self._moved(replace(schedule, timer=timer), before, await self._rule(schedule), now)

    async def resume(
        self, schedule: Schedule, reason: str, author: str, catch_up: MissedPolicy | None, now: datetime
    ) -> Schedule:
        """Lets a locked schedule go on. What fell into its pause stays suppressed, or is caught up as asked."""
        before = schedule.timer
        if before.state is ScheduleState.ACTIVE:
            return schedule
        if before.state is ScheduleState.EXHAUSTED:
            raise wrong_state(schedule.id, before.state, "change its rule, end_time or max_count instead")
        calendars = await self._tx.calendars(schedule.tenant_id, schedule.definition.timing.calendars)
        rule = compiled(schedule.definition.timing, schedule.uid, calendars, "schedule")
        timer = replace(stated(before, ScheduleState.ACTIVE, reason, author, now), failures=0, paused_at=None)
        if before.state is ScheduleState.PAUSED:
            if catch_up is None:
                timer = replace(timer, episode=Episode(now, schedule.definition.missed, fate=Fate.SUPPRESSED_PAUSED))
            else:
                timer = await self._caught_up(schedule, timer, rule, catch_up, now)
        # What lies before now is not to come any more, unless it is caught up.
        after = max(timer.cursor, now) if catch_up is None else timer.cursor
        timer = armed(timer, schedule.definition.overlap, rule.next_after(after), now, more=True)
        return await self._written(replace(schedule, timer=timer), before)

    async def delete(self, schedule: Schedule, now: datetime) -> tuple[int, tuple[JobId, ...]]:
        """Deletes a locked schedule with its jobs that have not started: how many, and the jobs that have."""
        withdrawn = (await self._tx.withdraw([schedule.uid], now, Fate.SUPERSEDED, all_jobs=True))[schedule.uid]
        await self._tx.end_waiting(schedule.uid, Fate.SUPERSEDED, rule_only=False)
        running = (await self._tx.held(schedule)).running
        await self._tx.delete(schedule)
        return withdrawn.before + withdrawn.after, running

    async def _caught_up(
        self, schedule: Schedule, timer: Timer, rule: Rule, policy: MissedPolicy, now: datetime
    ) -> Timer:
        start = timer.cursor if schedule.timer.paused_at is None else schedule.timer.paused_at
        restored = await self._tx.restore(schedule.uid, start)
        taken_back = {fate: -count for fate, count in restored.items()}
        timer = replace(timer, cursor=start, fates=shifted(timer.fates, taken_back))
        first = rule.next_after(start)
        if first is None or first.nominal > now:
            return timer
        timing = schedule.definition.timing
        return replace(timer, episode=begin_episode(policy, first, rule, timing, now, now))

    async def _back_to(
        self, schedule: Schedule, timer: Timer, split: datetime, fate_before: Fate | None = None
    ) -> Timer:
        """Takes back what was made ahead of an instant, so that the next step decides about it again."""
        withdrawn = (await self._tx.withdraw([schedule.uid], split, fate_before))[schedule.uid]
        gone = withdrawn.before + withdrawn.after
        shift = {Fate.FIRED: -gone, Fate.EXCLUDED: -withdrawn.excluded}
        if fate_before is not None:
            shift[fate_before] = withdrawn.before
        return replace(
            timer,
            cursor=min(timer.cursor, split),
            fired=timer.fired - gone,
            fates=shifted(timer.fates, shift),
        )

    async def _settled(self, schedule: Schedule, now: datetime, *, with_excluded: bool = False) -> Schedule:
        """Decides what came due before a change; what the old rule excluded, too."""
        for _ in range(SETTLE_STEPS_MAX):
            timer = schedule.timer
            if timer.state not in (ScheduleState.ACTIVE, ScheduleState.PAUSED):
                break
            # One that is not armed, though it should be, may have been due for long.
            due = timer.state is ScheduleState.PAUSED or timer.arm_at is None
            due |= (timer.next_nominal or timer.arm_at or now) <= now
            due |= timer.episode is not None
            timing = schedule.definition.timing
            if not due and not (with_excluded and (timing.dates or timing.calendars)):
                break
            rule = await self._rule(schedule)
            if rule is None:
                break
            held = await self._tx.held(schedule) if needs_jobs(timer, schedule.definition) else None
            step = decide(
                timer,
                schedule.definition,
                rule,
                held.running if held else (),
                held.waiting if held else (),
                now,
                Minting(self._clock, schedule.tenant_id, schedule.shard),
                zones.version(),
                held.taken if held else frozenset(),
            )
            schedule = await self._written(replace(schedule, timer=step.timer), timer, step)
            if not step.more:
                break
        return schedule

    async def _rule(self, schedule: Schedule) -> Rule | None:
        """As the schedule has it now; None when it cannot be read any more."""
        timing = schedule.definition.timing
        calendars: Calendars = await self._tx.calendars(schedule.tenant_id, timing.calendars)
        try:
            return compiled(timing, schedule.uid, calendars)
        except InvalidArgument:
            return None

    async def _moved(self, schedule: Schedule, before: Timer, rule: Rule | None, now: datetime) -> Schedule:
        """Writes the timer of a changed schedule, set for what comes next."""
        coming = rule.next_after(schedule.timer.cursor) if rule is not None else None
        timer = schedule.timer
        if timer.state is ScheduleState.EXHAUSTED:
            coming = None
        timer = armed(timer, schedule.definition.overlap, coming, now)
        return await self._written(replace(schedule, timer=timer), before)

    async def _written(self, schedule: Schedule, before: Timer, step: Step | None = None) -> Schedule:
        timer = replace(schedule.timer, tzdata=zones.version())
        step = Step(timer) if step is None else replace(step, timer=timer)
        armed_before = Armed(schedule.tenant_id, schedule.uid, schedule.shard, before)
        traces = begin_traces(self._traces, schedule, step.records)
        self._out.entries += await self._tx.move(Move(armed_before, step, traces=traces))
        return replace(schedule, timer=timer)


def _decided_until(schedule: Schedule, now: datetime) -> datetime:
    """Where a settled schedule is divided by a change: what was decided up to here stays so. Beyond now there is only
    what was made ahead, unless the clock has gone back since."""
    made_ahead = schedule.definition.overlap.ahead and schedule.timer.state is not ScheduleState.PAUSED
    return now if made_ahead else max(now, schedule.timer.cursor)


def retimed(old: Definition, new: Definition) -> bool:
    """Whether a change can move or remove what was made ahead."""
    return (old.timing, old.overlap) != (new.timing, new.overlap)


def check_etag(name: str, wanted: str, version: int, uid: str) -> None:
    """Refuses a change of a version that is not the current one."""
    check_current(name, wanted, etag(version, uid))


def check_current(name: str, wanted: str, current: str) -> None:
    """The same of an etag that is given as such."""
    if wanted and wanted != current:
        raise Aborted(
            f"{name}: was changed meanwhile; read it again, and repeat the change on what it is now",
            reason="ETAG_MISMATCH",
            metadata={"current": current},
        )


@dataclass(frozen=True, slots=True)
class Minting:
    """Makes ids of jobs that live in their schedule's shard."""

    clock: Clock
    tenant: TenantId
    shard: ShardNo

    def __call__(self) -> JobId:
        return ids.id_in_shard(self.clock.new_id(), self.tenant, self.shard)


def shifted(fates: Sequence[int], by: dict[Fate, int]) -> tuple[int, ...]:
    counts = list(fates)
    for fate, count in by.items():
        # What is superseded is no occurrence of the rule any more.
        if fate is not Fate.SUPERSEDED:
            counts[fate - 1] += count
    return tuple(counts)


def _stated(timer: Timer, state: ScheduleState, reason: str, author: str, now: datetime) -> Timer:
    """In another state within a change that has its own version already."""
    return replace(timer, state=state, state_reason=reason, state_author=author, state_at=now)
