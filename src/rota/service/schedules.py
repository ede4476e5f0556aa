"""Creating, reading and steering schedules."""

import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from rota.clock import Clock, DatabaseClock
from rota.domain import zones
from rota.domain.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound
from rota.domain.ids import JobId, ScheduleUid, TenantId
from rota.domain.model import CancelMode, Identity, Payload
from rota.domain.overlap import Record
from rota.domain.rule import PreviewLine
from rota.domain.schedule import (
    Calendar,
    Definition,
    Fate,
    MissedPolicy,
    Occurrence,
    Origin,
    OverlapMode,
    Schedule,
    ScheduleState,
    Timer,
    Timing,
    compiled,
    schedule_not_found,
)
from rota.domain.step import BUFFER_RECHECK_S, Step
from rota.service.applying import Applying, Change, Compare, check_unique
from rota.service.changing import Changing, Minting, Outcome, check_etag
from rota.service.drafts import Draft, blank_schedule, check_id, new_schedule
from rota.service.jobs import Jobs
from rota.service.notices import Notices
from rota.service.tracing import begin_traces
from rota.store.scheduleport import (
    Armed,
    Held,
    Move,
    OccurrenceFilter,
    RequestKey,
    ScheduleFilter,
    ScheduleStore,
    ScheduleTransaction,
)
from rota.telemetry import Metrics, Traces

T = TypeVar("T")

COMPILE_BITE = 20
"""Rules that are read in one go, before other tasks get their turn."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """Jobs that went with a schedule: withdrawn before their start, and cancelled after it."""

    withdrawn: int
    cancelled: int


@dataclass(frozen=True, slots=True)
class Triggered:
    """`job` None: the occurrence waits."""

    occurrence: Occurrence
    job: JobId | None


@dataclass(frozen=True, slots=True)
class Preview:
    lines: list[PreviewLine]
    exhausted: bool


class Schedules:
    def __init__(
        self,
        store: ScheduleStore,
        jobs: Jobs,
        notices: Notices,
        clock: Clock,
        database_clock: DatabaseClock,
        metrics: Metrics,
        traces: Traces | None,
    ) -> None:
        self._traces = traces
        self._store = store
        self._jobs = jobs
        self._notices = notices
        self._clock = clock
        self._database_clock = database_clock
        self._metrics = metrics

    async def create(self, identity: Identity, drafts: Sequence[Draft], request: RequestKey) -> list[Schedule]:
        """Creates all or none; the schedules in order."""
        now = self._database_clock.datetime()
        made: list[Schedule] = []
        for index, draft in enumerate(drafts):
            check_id(draft)
            if index % COMPILE_BITE == COMPILE_BITE - 1:
                await self._clock.sleep(0)
            if not draft.definition.timing.calendars:
                made.append(new_schedule(self._clock, identity, draft, {}, now))
            else:
                # Its calendars are read where it is written.
                made.append(blank_schedule(self._clock, identity, draft, now))

        async def work(tx: ScheduleTransaction) -> list[Schedule]:
            if request.request_id:
                earlier = await tx.earlier(identity.tenant_id, request, [s.uid for s in made])
                if earlier is not None:
                    return await _as_created(tx, identity.tenant_id, earlier, drafts)
            ready = []
            for draft, schedule in zip(drafts, made, strict=True):
                named = draft.definition.timing.calendars
                if named:
                    calendars = await tx.calendars(identity.tenant_id, named)
                    schedule = new_schedule(self._clock, identity, draft, calendars, now, schedule.uid)
                ready.append(schedule)
            await tx.create(ready)
            return ready

        found = await self._store.transact(work)
        self._metrics.add("rota.schedules.created", len(found))
        self._wake(found)
        return found

    async def get(self, identity: Identity, id: str) -> Schedule:
        found = await self._store.get(identity.tenant_id, id)
        if found is None:
            raise schedule_not_found(id)
        return found

    async def page(self, identity: Identity, where: ScheduleFilter, after: str, limit: int) -> list[Schedule]:
        return await self._store.page(identity.tenant_id, where, after, limit)

    async def update(
        self,
        identity: Identity,
        id: str,
        edit: Callable[[Definition], Definition],
        *,
        etag: str,
        request: RequestKey,
    ) -> Schedule:
        """Changes a definition. A repetition of the request finds what it has become."""

        async def work(tx: ScheduleTransaction, change: Changing) -> Schedule:
            schedule, now = await change.locked(identity.tenant_id, id)
            if request.request_id and await tx.earlier(identity.tenant_id, request, [schedule.uid]) is not None:
                return schedule
            check_etag(f"schedules/{id}", etag, schedule.timer.version, schedule.uid)
            return await change.update(schedule, edit(schedule.definition), "schedule", now)

        await self._change(work)
        return await self.get(identity, id)

    async def apply(
        self,
        identity: Identity,
        apply_set: str,
        drafts: Sequence[Draft],
        calendars: Sequence[Calendar],
        *,
        prune: bool,
        validate_only: bool,
        request: RequestKey,
        changed: Compare,
    ) -> list[Change]:
        """Makes a declared set true, or says what that would change: all or nothing."""
        check_unique(drafts, calendars)

        async def work(tx: ScheduleTransaction, change: Changing) -> list[Change]:
            applying = Applying(self._clock, identity, apply_set, changed, validate_only=validate_only)
            return await applying.run(tx, drafts, calendars, request, change, prune=prune)

        return await self._change(work)

    async def delete(
        self, identity: Identity, id: str, *, etag: str, cancel: CancelMode | None, allow_missing: bool
    ) -> Deleted:
        async def work(tx: ScheduleTransaction, change: Changing) -> tuple[int, tuple[JobId, ...]]:
            schedule, now = await change.locked(identity.tenant_id, id, etag)
            return await change.delete(schedule, now)

        try:
            withdrawn, running = await self._change(work)
        except NotFound:
            if allow_missing:
                return Deleted(0, 0)
            raise
        cancelled = 0
        for job in running if cancel is not None else ():
            try:
                await self._jobs.cancel(
                    identity.tenant_id, job, cancel or CancelMode.COOPERATIVE, f"schedules/{id}: deleted"
                )
                cancelled += 1
            except FailedPrecondition:
                # It has started, and was to go only if it had not.
                continue
        return Deleted(withdrawn, cancelled)

    async def pause(self, identity: Identity, id: str, reason: str, *, etag: str) -> Schedule:
        async def work(tx: ScheduleTransaction, change: Changing) -> Schedule:
            schedule, now = await change.locked(identity.tenant_id, id, etag)
            return await change.pause(schedule, reason, identity.key_id, now)

        await self._change(work)
        return await self.get(identity, id)

    async def pause_failing(self, schedule: Schedule) -> None:
        """Pauses a schedule whose jobs keep dying, as its definition asks."""

        async def work(tx: ScheduleTransaction, change: Changing) -> Schedule:
            found, now = await change.locked(schedule.tenant_id, schedule.id)
            most = found.definition.pause_after_failures
            if most and found.timer.failures >= most and found.timer.state is ScheduleState.ACTIVE:
                why = f"{found.timer.failures} jobs in a row died, and pause_after_failures is {most}"
                return await change.pause(found, why, "", now)
            return found

        await self._change(work)

    async def resume(
        self, identity: Identity, id: str, reason: str, *, etag: str, catch_up: MissedPolicy | None
    ) -> Schedule:
        async def work(tx: ScheduleTransaction, change: Changing) -> Schedule:
            schedule, now = await change.locked(identity.tenant_id, id, etag)
            return await change.resume(schedule, reason, identity.key_id, catch_up, now)

        await self._change(work)
        return await self.get(identity, id)

    async def trigger(
        self,
        identity: Identity,
        id: str,
        *,
        force: bool,
        payload: Payload | None,
        reason: str,
        request: RequestKey,
    ) -> Triggered:
        """Fires now, unless the overlap policy is against it and `force` is not given."""

        async def work(tx: ScheduleTransaction, change: Changing) -> Triggered:
            schedule, now = await change.locked(identity.tenant_id, id)
            generation = await tx.generation(schedule.uid, now)
            if request.request_id:
                answer = [schedule.uid, _packed(now, generation)]
                earlier = await tx.earlier(identity.tenant_id, request, answer)
                if earlier is not None:
                    return await _as_triggered(tx, earlier)
            held = await tx.held(schedule)
            record = self._trigger_record(schedule, held, now, generation, force, reason)
            timer = _with_trigger(schedule.timer, record, now)
            before = Armed(schedule.tenant_id, schedule.uid, schedule.shard, schedule.timer)
            out.entries += await tx.move(
                Move(
                    before,
                    Step(timer, (record,)),
                    traces=begin_traces(self._traces, schedule, [record]),
                    payload=payload,
                )
            )
            found = await tx.occurrence(schedule.uid, now, generation)
            assert found is not None
            return Triggered(found, record.job_id)

        out = Outcome()
        return await self._change(work, out)

    async def preview(
        self, identity: Identity, id: str | None, timing: Timing | None, uid: str, after: datetime | None, count: int
    ) -> Preview:
        """Of a stored schedule, or of times that need not be stored."""
        at = "schedule"
        now = self._database_clock.datetime()
        if id is not None:
            schedule = await self.get(identity, id)
            timing, uid, at = schedule.definition.timing, schedule.uid, ""
        if timing is None:
            raise InvalidArgument.field("source", "expected name or schedule, found neither; give one of them")
        if timing.anchor is None:
            timing = replace(timing, anchor=(after or now).replace(microsecond=0))
        calendars = await self._store.calendars(identity.tenant_id, timing.calendars)
        rule = compiled(timing, uid, calendars, at)
        lines = rule.preview(after or now, count)
        fires = [line for line in lines if not line.removed]
        return Preview(lines, rule.exhausted(fires[-1].nominal if fires else after or now))

    async def occurrences(
        self,
        identity: Identity,
        id: str,
        where: OccurrenceFilter,
        before: tuple[datetime, int] | None,
        limit: int,
    ) -> list[Occurrence]:
        """Newest first; of a deleted schedule too, for as long as history is kept."""
        uid = await self._store.uid_of(identity.tenant_id, id)
        if uid is None:
            raise schedule_not_found(id)
        return await self._store.occurrences(identity.tenant_id, uid, where, before, limit)

    async def _change(
        self, work: Callable[[ScheduleTransaction, Changing], Awaitable[T]], out: Outcome | None = None
    ) -> T:
        out = out or Outcome()

        async def inside(tx: ScheduleTransaction) -> T:
            # A transaction that is tried again begins from nothing.
            out.entries.clear()
            return await work(tx, Changing(tx, self._clock, out, self._traces))

        found = await self._store.transact(inside)
        self._notices.jobs_waiting(out.entries)
        self._notices.schedules_armed()
        return found

    def _trigger_record(
        self, schedule: Schedule, held: Held, now: datetime, generation: int, force: bool, reason: str
    ) -> Record:
        policy = schedule.definition.overlap
        live_max = policy.limit if policy.mode is OverlapMode.ALLOW else 1
        busy = live_max is not None and len(held.running) >= live_max
        local = zones.find(schedule.definition.timing.time_zone).local(int(now.timestamp()))
        waits = busy and not force
        if waits:
            _refuse_skipped(schedule, held)
        return Record(
            nominal=now,
            generation=generation,
            due=now,
            local=local,
            origin=Origin.TRIGGER,
            fate=Fate.BUFFERED if waits else Fate.FIRED,
            reason=reason,
            job_id=None if waits else Minting(self._clock, schedule.tenant_id, schedule.shard)(),
            blocking_job=held.running[0] if busy else None,
            forced=busy and force,
        )

    def _wake(self, schedules: Sequence[Schedule]) -> None:
        soon = self._database_clock.datetime() + timedelta(seconds=1)
        if any(s.timer.arm_at is not None and s.timer.arm_at <= soon for s in schedules):
            self._notices.schedules_armed()


def _refuse_skipped(schedule: Schedule, held: Held) -> None:
    policy = schedule.definition.overlap
    full = policy.mode is OverlapMode.BUFFER_ALL and len(held.waiting) >= policy.buffer_max
    if policy.mode in (OverlapMode.ALLOW, OverlapMode.SKIP) or full:
        raise FailedPrecondition(
            f"schedules/{schedule.id}: jobs/{held.running[0]} is not terminal, and the overlap policy "
            f"{policy.mode.name} is against another one; wait for its end, or ask with force",
            metadata={"blocking_job": f"jobs/{held.running[0]}"},
        )


def _with_trigger(timer: Timer, record: Record, now: datetime) -> Timer:
    if record.fate is Fate.FIRED:
        return replace(timer, last_job=record.job_id, last_fire_at=now)
    again = now + timedelta(seconds=BUFFER_RECHECK_S)
    at = again if timer.arm_at is None else min(timer.arm_at, again)
    return replace(timer, buffered=timer.buffered + 1, arm_at=at)


async def _as_created(
    tx: ScheduleTransaction, tenant: TenantId, uids: Sequence[str], drafts: Sequence[Draft]
) -> list[Schedule]:
    found = await tx.by_uid(tenant, uids)
    if len(found) < len(uids):
        raise AlreadyExists(
            "request_id: stands for schedules of which some were deleted since; make a fresh one to create them again",
            reason="REQUEST_ID_REUSED",
        )
    return found


async def _as_triggered(tx: ScheduleTransaction, answer: Sequence[str]) -> Triggered:
    uid, packed = answer
    found = await tx.occurrence(ScheduleUid(uid), *_unpacked(packed))
    if found is None:
        raise NotFound("request_id: stands for an occurrence whose history was dropped; make a fresh one")
    return Triggered(found, found.job_id)


def _packed(nominal: datetime, generation: int) -> str:
    """The key of an occurrence in the form of a UUID, which is what an answer is made of."""
    return str(uuid.UUID(int=(nominal - _EPOCH) // timedelta(microseconds=1) << 32 | generation))


def _unpacked(text: str) -> tuple[datetime, int]:
    value = uuid.UUID(text).int
    return _EPOCH + timedelta(microseconds=value >> 32), value & 0xFFFFFFFF


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
