"""Timers that are armed, and the statement that turns steps into fates, jobs and the timers after them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from rota.domain import limits
from rota.domain.fairness import Entry
from rota.domain.ids import CoordinatorId, ScheduleUid, ShardNo
from rota.domain.model import JobOrigin, JobSpec, Payload
from rota.domain.overlap import Record, Waiting
from rota.domain.schedule import BackfillState, Calendars, Fate, Schedule, ScheduleState, Timer
from rota.domain.step import is_turned_back
from rota.store.codec import micros
from rota.store.scheduleport import Armed, DueBackfill, Held, Move, Unwritable

from .jobs import insert_job
from .tables import OccurrenceRow, Port, Tables, entry_of

UNWRITABLE = "unwritable"
"""Steps that fire a job of this type are refused, as PostgreSQL refuses what its columns cannot hold."""

FATES_THAT_CHANGE = (Fate.BUFFERED, Fate.SUPERSEDED)


class FakeFires(Port):
    """FireStore."""

    async def read_armed(
        self, shards: Sequence[ShardNo], until: datetime, page: int
    ) -> tuple[list[Armed], datetime | None]:
        def work() -> tuple[list[Armed], datetime | None]:
            db = self._db
            found: list[Armed] = []
            for shard in shards:
                due = [
                    (s.timer.arm_at, s.uid)
                    for s in db.schedules.values()
                    if s.shard == shard and s.timer.arm_at is not None and s.timer.arm_at <= until
                ]
                found += [armed(db.schedules[uid]) for _, uid in sorted(due)[:page]]
            return found, db.now if found else None

        return await self._read("read_armed", work)

    async def definitions(self, uids: Sequence[ScheduleUid]) -> dict[ScheduleUid, tuple[Schedule, Calendars]]:
        def work() -> dict[ScheduleUid, tuple[Schedule, Calendars]]:
            found = [self._db.schedules[uid] for uid in uids if uid in self._db.schedules]
            return {s.uid: (_of_definition(s), {}) for s in found}

        return await self._read("definitions", work)

    async def fire(self, moves: Sequence[Move], owner: CoordinatorId) -> tuple[list[Entry], set[ScheduleUid]]:
        return await self._write("fire", lambda: _all_or_none(self._db, moves, owner))

    async def fire_held(
        self,
        uids: Sequence[ScheduleUid],
        owner: CoordinatorId,
        decide: Callable[[Sequence[Held]], Sequence[Move]],
    ) -> tuple[list[Entry], set[ScheduleUid]]:
        if "fire_held: decided under the locks" in self._db.removed:
            look = await self._read("fire_held", lambda: self._locked(uids))
            moves = decide(look) if look else []
            return await self._write("fire_held", lambda: _all_or_none(self._db, moves, owner))

        def work() -> tuple[list[Entry], set[ScheduleUid]]:
            locked = self._locked(uids)
            moves = decide(locked) if locked else []
            return _all_or_none(self._db, moves, owner)

        return await self._write("fire_held", work)

    def _locked(self, uids: Sequence[ScheduleUid]) -> list[Held]:
        return [held(self._db, armed(self._db.schedules[uid])) for uid in sorted(uids) if uid in self._db.schedules]

    async def read_unfit(
        self, after: ScheduleUid | None, page: int, tzdata: str
    ) -> tuple[list[Armed], ScheduleUid | None]:
        def work() -> tuple[list[Armed], ScheduleUid | None]:
            uids = sorted(uid for uid in self._db.schedules if after is None or uid > after)[:page]
            found = [
                armed(s)
                for s in map(self._db.schedules.__getitem__, uids)
                if s.timer.state in (ScheduleState.ACTIVE, ScheduleState.PAUSED)
                and (s.timer.tzdata != tzdata or (s.timer.state is ScheduleState.ACTIVE and s.timer.arm_at is None))
            ]
            return found, uids[-1] if len(uids) == page else None

        return await self._read("read_unfit", work)

    async def due_backfills(self, shards: Sequence[ShardNo], limit: int) -> list[DueBackfill]:
        def work() -> list[DueBackfill]:
            db = self._db
            found: list[DueBackfill] = []
            for shard in shards:
                due = [
                    (row.next_at, id)
                    for id, row in db.backfills.items()
                    if row.backfill.state is BackfillState.RUNNING and row.next_at <= db.now and row.shard == shard
                ]
                rows = [db.backfills[id] for _, id in sorted(due)[:limit]]
                found += [DueBackfill(r.uid, r.tenant_id, shard, r.backfill) for r in rows]
            return found

        return await self._read("due_backfills", work)


def armed(schedule: Schedule) -> Armed:
    return Armed(schedule.tenant_id, schedule.uid, schedule.shard, schedule.timer)


def held(db: Tables, each: Armed) -> Held:
    """The jobs and waiting occurrences of a locked schedule."""
    running = [row.spec.id for row in db.of_schedule(each.uid)[: limits.OVERLAP_LIMIT_MAX + 1]]
    rows = db.occurrences.get(each.uid, {})
    waiting = sorted(key for key, row in rows.items() if row.fate is Fate.BUFFERED) if each.timer.buffered > 0 else []
    taken: set[datetime] = set()
    if is_turned_back(each.timer) and db.intact("held: fates that are there already"):
        taken = {
            row.nominal
            for row in rows.values()
            if row.generation == 0 and row.fate not in FATES_THAT_CHANGE and row.nominal > each.timer.cursor
        }
    return Held(
        each,
        tuple(running) if db.intact("held: jobs that run") else (),
        tuple(_waiting(rows[key]) for key in waiting),
        db.now,
        frozenset(taken),
    )


def move(db: Tables, moves: Sequence[Move], owner: CoordinatorId | None) -> tuple[list[Entry], set[ScheduleUid]]:
    """`owner` None: under the schedule's lock, by whomever."""
    entries: list[Entry] = []
    moved: set[ScheduleUid] = set()
    for each in moves:
        if not _matches(db, each, owner):
            continue
        moved.add(each.armed.uid)
        payload = each.payload if len(moves) == 1 else None
        for record in each.step.records:
            row = _record(db, each, record, payload)
            if row is not None and row.fate is Fate.FIRED:
                entries.append(_make_job(db, each, row))
        _set_timer(db, each, owner)
    return entries, moved


def _all_or_none(db: Tables, moves: Sequence[Move], owner: CoordinatorId) -> tuple[list[Entry], set[ScheduleUid]]:
    for each in moves:
        schedule = db.schedules.get(each.armed.uid)
        fires = any(record.fate is Fate.FIRED for record in each.step.records)
        if schedule is not None and fires and schedule.definition.job.type == UNWRITABLE:
            raise Unwritable("a value does not fit its column")
    with db.transaction():
        return move(db, moves, owner)


def _matches(db: Tables, each: Move, owner: CoordinatorId | None) -> bool:
    schedule = db.schedules.get(each.armed.uid)
    if schedule is None:
        return False
    timer, before, shard = schedule.timer, each.armed.timer, db.shards[schedule.shard]
    return (
        db.guard("fire: version", timer.version == before.version)
        and db.guard("fire: cursor", timer.cursor == before.cursor)
        and (
            owner is None
            or (db.guard("fire: owner", shard.owner == owner) and db.guard("fire: epoch", shard.epoch == each.epoch))
        )
    )


def _record(db: Tables, each: Move, record: Record, payload: Payload | None) -> OccurrenceRow | None:
    """The row of the ledger after it; None: it has its fate already, and keeps it."""
    rows = db.occurrences.setdefault(each.armed.uid, {})
    key = record.nominal, record.generation
    old = rows.get(key)
    if old is not None and not db.guard("ledger: a fate is written once", old.fate in FATES_THAT_CHANGE):
        return None
    row = rows[key] = OccurrenceRow(
        tenant_id=each.armed.tenant_id,
        nominal=record.nominal,
        generation=record.generation,
        due=record.due,
        local=record.local,
        origin=record.origin,
        fate=record.fate,
        version=each.armed.timer.version,
        recorded=db.now,
        reason=record.reason,
        job_id=record.job_id,
        blocking_job=record.blocking_job,
        backfill_id=record.backfill_id if old is None else old.backfill_id,
        count=record.count,
        last=record.last,
        missed=record.missed,
        first_missed=record.first_missed,
        forced=record.forced if old is None else old.forced,
        payload=payload if old is None else old.payload,
    )
    note_fate(db, each.armed.uid, row, None if old is None else old.fate)
    return row


def note_fate(db: Tables, uid: ScheduleUid, row: OccurrenceRow, was: Fate | None) -> None:
    db.history.note(
        "fate",
        schedule=uid,
        nominal=row.nominal,
        generation=row.generation,
        due=row.due,
        origin=row.origin,
        fate=row.fate,
        was=was,
        makes=row.job_id,
        count=row.count,
        last=row.last,
        forced=row.forced,
    )


def _make_job(db: Tables, each: Move, row: OccurrenceRow) -> Entry:
    schedule = db.schedules[each.armed.uid]
    template = schedule.definition.job
    assert row.job_id is not None
    if (schedule.tenant_id, row.job_id) in db.jobs:
        raise Unwritable("two jobs of one id")
    headers = dict(template.headers)
    if row.missed:
        assert row.first_missed is not None
        headers["rota-missed-count"] = str(row.missed)
        headers["rota-first-missed-time"] = f"{row.first_missed:%Y-%m-%dT%H:%M:%SZ}"
    spec = JobSpec(
        schedule.tenant_id,
        row.job_id,
        schedule.shard,
        template.type,
        template.queue,
        template.priority if each.priority is None else each.priority,
        row.payload if row.payload is not None else template.payload,
        headers=headers,
        labels=dict(template.labels),
        retry=template.retry,
        timeouts=template.timeouts,
        concurrency_key=template.concurrency_key,
        traceparent=each.traces.get(row.job_id, ""),
    )
    origin = JobOrigin(schedule.uid, schedule.id, row.nominal, row.generation)
    return entry_of(insert_job(db, spec, micros(row.due), origin=origin))


def _set_timer(db: Tables, each: Move, owner: CoordinatorId | None) -> None:
    schedule = db.schedules[each.armed.uid]
    old, before, after = schedule.timer, each.armed.timer, each.step.timer
    buffered = old.buffered + after.buffered - before.buffered
    arm_at = after.arm_at
    if buffered > 0 and db.intact("fire: looks again at what waits"):
        again = db.now + timedelta(seconds=1)
        arm_at = again if arm_at is None else min(arm_at, again)
    fired_job = after.last_job if after.last_job != before.last_job else None
    last_nominal = after.last_nominal if after.last_nominal != before.last_nominal else None
    same = (old.state, old.version) == (after.state, after.version)
    timer = replace(
        after,
        arm_at=arm_at,
        fired=old.fired + after.fired - before.fired,
        buffered=buffered,
        fates=tuple(a + new - was for a, new, was in zip(old.fates, after.fates, before.fates, strict=True)),
        failures=after.failures if after.failures != before.failures else old.failures,
        last_nominal=last_nominal or old.last_nominal,
        last_job=fired_job or old.last_job,
        last_fire_at=db.now if fired_job else old.last_fire_at,
        state_reason=old.state_reason if same else after.state_reason,
        state_author=old.state_author if same else after.state_author,
        state_at=old.state_at if old.state is after.state else db.now,
    )
    db.schedules[schedule.uid] = replace(schedule, timer=timer)
    db.history.note(
        "moved",
        schedule=schedule.uid,
        shard=schedule.shard,
        owner=owner,
        epoch=each.epoch,
        decided_on=(before.version, before.cursor),
        version=timer.version,
        cursor=timer.cursor,
        state=timer.state,
        arm=timer.arm_at,
        due=timer.next_due,
        buffered=timer.buffered,
        fates=timer.fates,
    )


def _of_definition(schedule: Schedule) -> Schedule:
    job = schedule.definition.job
    definition = replace(schedule.definition, job=replace(job, payload=Payload(b"", job.payload.content_type)))
    bare = Timer(schedule.timer.version, ScheduleState.ACTIVE, cursor=schedule.created_at)
    return replace(schedule, definition=definition, timer=bare)


def _waiting(row: OccurrenceRow) -> Waiting:
    return Waiting(
        nominal=row.nominal,
        generation=row.generation,
        due=row.due,
        local=row.local,
        origin=row.origin,
        reason=row.reason,
        forced=row.forced,
        backfill_id=row.backfill_id,
        missed=row.missed,
        first_missed=row.first_missed,
    )
