"""Schedules, and the transactions that change them."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from rota.domain.errors import AlreadyExists
from rota.domain.fairness import Entry
from rota.domain.ids import JobId, ScheduleUid, ShardNo, TenantId
from rota.domain.model import JobState, Payload
from rota.domain.schedule import (
    Backfill,
    BackfillState,
    Calendars,
    Fate,
    Occurrence,
    Origin,
    Schedule,
    ScheduleState,
    Timer,
)
from rota.store.scheduleport import (
    Held,
    Move,
    OccurrenceFilter,
    RequestKey,
    ScheduleFilter,
    ScheduleTransaction,
    Withdrawn,
)

from .fires import armed, held, move, note_fate
from .jobs import note_job
from .tables import BackfillRow, JobRow, OccurrenceRow, Port, Request, Tables, drive, entry_of, stored_retry

T = TypeVar("T")

BACKFILL_BEHIND_S = 2.0
"""A backfill that was looked at late makes up for so much."""


class FakeSchedules(Port):
    """ScheduleStore. Without calendars."""

    async def transact(self, work: Callable[[ScheduleTransaction], Awaitable[T]]) -> T:
        def inside() -> T:
            with self._db.transaction():
                begun = work(FakeScheduleTransaction(self._db))  # type: ignore[arg-type]
                assert isinstance(begun, Coroutine)
                found: T = drive(begun)
                return found

        return await self._write("transact", inside)

    async def get(self, tenant: TenantId, id: str) -> Schedule | None:
        def work() -> Schedule | None:
            uid = self._db.names.get((tenant, id))
            return None if uid is None else self._shown(self._db.schedules[uid])

        return await self._read("get_schedule", work)

    async def page(self, tenant: TenantId, where: ScheduleFilter, after: str, limit: int) -> list[Schedule]:
        def work() -> list[Schedule]:
            ids = sorted(id for owner, id in self._db.names if owner == tenant and id > after)
            found = [self._db.schedules[self._db.names[tenant, id]] for id in ids]
            return [_bare(self._shown(each)) for each in found if _matches(each, where)][:limit]

        return await self._read("page_schedules", work)

    async def uid_of(self, tenant: TenantId, id: str) -> ScheduleUid | None:
        return await self._read(
            "uid_of", lambda: self._db.names.get((tenant, id)) or self._db.deleted.get((tenant, id))
        )

    async def occurrences(
        self,
        tenant: TenantId,
        uid: ScheduleUid,
        where: OccurrenceFilter,
        before: tuple[datetime, int] | None,
        limit: int,
    ) -> list[Occurrence]:
        def work() -> list[Occurrence]:
            rows = self._db.occurrences.get(uid, {})
            keys = sorted((key for key in rows if before is None or key < before), reverse=True)
            found = [
                rows[key]
                for key in keys
                if (where.start is None or key[0] >= where.start)
                and (where.end is None or key[0] < where.end)
                and (where.fate is None or rows[key].fate is where.fate)
            ]
            return [_occurrence(row) for row in found[:limit]]

        return await self._read("occurrences", work)

    async def backfill(self, uid: ScheduleUid, id: str) -> Backfill | None:
        def work() -> Backfill | None:
            row = self._db.backfills.get(id)
            return row.backfill if row is not None and row.uid == uid else None

        return await self._read("backfill", work)

    async def backfills(self, uid: ScheduleUid, before: str | None, limit: int) -> list[Backfill]:
        def work() -> list[Backfill]:
            found = [id for id, row in self._db.backfills.items() if row.uid == uid and (not before or id < before)]
            return [self._db.backfills[id].backfill for id in sorted(found, reverse=True)[:limit]]

        return await self._read("backfills", work)

    async def calendars(self, tenant: TenantId, ids: Sequence[str]) -> Calendars:
        assert not ids, "there are no calendars here"
        return {}

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name}: there are no calendars here")

    def _shown(self, schedule: Schedule) -> Schedule:
        """What was made ahead is what people call the next one, until its time has come."""
        timer, now = schedule.timer, self._db.now
        if timer.state is not ScheduleState.ACTIVE or timer.last_nominal is None or timer.last_nominal <= now:
            return schedule
        rows = self._db.occurrences.get(schedule.uid, {})
        ahead = sorted(key for key, row in rows.items() if key[0] > now and key[1] == 0 and row.fate is Fate.FIRED)
        if not ahead:
            return schedule
        first = rows[ahead[0]]
        return replace(schedule, timer=replace(timer, next_nominal=first.nominal, next_due=first.due))


class FakeScheduleTransaction:
    """ScheduleTransaction. Nobody else does anything until its end, so it locks nothing."""

    def __init__(self, tables: Tables) -> None:
        self._db = tables

    async def earlier(self, tenant: TenantId, request: RequestKey, answer: Sequence[str]) -> tuple[str, ...] | None:
        key = tenant, request.method, request.request_id
        found = self._db.requests.get(key)
        if found is None or not self._db.intact("transact: request_id is fresh"):
            self._db.requests[key] = Request(request.digest, tuple(JobId(each) for each in answer), self._db.now_us)
            return None
        if found.digest != request.digest:
            raise AlreadyExists("request_id: stands for another request", reason="REQUEST_ID_REUSED")
        return tuple(found.jobs)

    async def lock(self, tenant: TenantId, id: str) -> tuple[Schedule, datetime] | None:
        uid = self._db.names.get((tenant, id))
        return None if uid is None else (self._db.schedules[uid], self._db.now)

    async def by_uid(self, tenant: TenantId, uids: Sequence[str]) -> list[Schedule]:
        found = [self._db.schedules.get(ScheduleUid(uid)) for uid in uids]
        return [each for each in found if each is not None and each.tenant_id == tenant]

    async def in_set(self, tenant: TenantId, apply_set: str, limit: int) -> list[str]:
        found = [s.id for s in self._db.schedules.values() if s.tenant_id == tenant and s.apply_set == apply_set]
        return sorted(found)[:limit]

    async def now(self) -> datetime:
        return self._db.now

    async def held(self, schedule: Schedule) -> Held:
        return held(self._db, armed(schedule))

    async def calendars(self, tenant: TenantId, ids: Sequence[str]) -> Calendars:
        assert not ids, "there are no calendars here"
        return {}

    async def create(self, schedules: Sequence[Schedule]) -> None:
        db = self._db
        for given in schedules:
            if (given.tenant_id, given.id) in db.names:
                raise AlreadyExists(f"schedules/{given.id}: exists already")
            timer = given.timer
            fresh = Timer(
                1,
                timer.state,
                cursor=timer.cursor,
                state_reason=timer.state_reason,
                state_author=timer.state_author,
                state_at=given.created_at,
                next_nominal=timer.next_nominal,
                next_due=timer.next_due,
                arm_at=timer.arm_at,
                paused_at=timer.paused_at,
                tzdata=timer.tzdata,
            )
            shard = ShardNo(given.shard % db.shard_count)
            schedule = replace(_stored(given), shard=shard, timer=fresh, updated_at=given.created_at)
            db.schedules[schedule.uid] = schedule
            db.names[schedule.tenant_id, schedule.id] = schedule.uid
            db.history.note(
                "scheduled",
                schedule=schedule.uid,
                id=schedule.id,
                shard=schedule.shard,
                definition=schedule.definition,
                created_at=schedule.created_at,
                version=1,
                cursor=fresh.cursor,
                state=fresh.state,
                arm=fresh.arm_at,
            )

    async def move(self, step: Move) -> list[Entry]:
        return move(self._db, [step], None)[0]

    async def rewrite(self, schedule: Schedule) -> None:
        db = self._db
        old = db.schedules[schedule.uid]
        changed = replace(old, definition=_stored(schedule).definition, apply_set=schedule.apply_set, updated_at=db.now)
        db.schedules[schedule.uid] = changed
        db.history.note("redefined", schedule=schedule.uid, definition=changed.definition)

    async def withdraw(
        self, uids: Sequence[ScheduleUid], split: datetime, fate_before: Fate | None, *, all_jobs: bool = False
    ) -> dict[ScheduleUid, Withdrawn]:
        return {uid: self._withdraw(uid, split, fate_before, all_jobs) for uid in uids}

    def _withdraw(self, uid: ScheduleUid, split: datetime, fate_before: Fate | None, all_jobs: bool) -> Withdrawn:
        db = self._db
        db.history.note("withdrawing", schedule=uid, split=split, all_jobs=all_jobs)
        counts = {True: 0, False: 0}
        rows = db.occurrences.setdefault(uid, {})
        for job in db.of_schedule(uid):
            assert job.origin is not None
            nominal, generation = job.origin.nominal_at, job.origin.generation
            later = nominal > split
            if not _withdrawable(db, job) or (generation and not all_jobs) or (fate_before is None and not later):
                continue
            del db.jobs[job.key]
            counts[later] += 1
            fate = Fate.SUPERSEDED if later else fate_before
            db.history.note("withdrawn", job=job.spec.id, schedule=uid, nominal=nominal, generation=generation)
            old = rows.get((nominal, generation))
            if old is not None and fate is not None:
                self._set_fate(uid, replace(old, fate=fate, job_id=None, recorded=db.now), old.fate)
        excluded = [
            row for row in rows.values() if not row.generation and row.fate is Fate.EXCLUDED and row.nominal > split
        ]
        for old in excluded:
            self._set_fate(uid, replace(old, fate=Fate.SUPERSEDED, recorded=db.now), old.fate)
        return Withdrawn(counts[False], counts[True], len(excluded))

    async def remake(self, schedule: Schedule, until: datetime | None) -> list[Entry]:
        db = self._db
        template = db.schedules[schedule.uid].definition.job
        entries = []
        for job in db.of_schedule(schedule.uid):
            origin = job.origin
            assert origin is not None
            waits = job.state is JobState.SCHEDULED and job.attempt == 0 and not origin.generation
            if not waits or (until is not None and origin.nominal_at > until):
                continue
            headers = dict(template.headers)
            headers |= {name: text for name, text in job.spec.headers.items() if name in _OF_MISSED}
            id = db.another_id(job) if db.intact("remake: other ids") else job.spec.id
            spec = replace(
                job.spec,
                id=id,
                type=template.type,
                queue=template.queue,
                priority=template.priority,
                payload=template.payload,
                headers=headers,
                labels=dict(template.labels),
                retry=stored_retry(template.retry),
                timeouts=template.timeouts,
                concurrency_key=template.concurrency_key,
            )
            start_by_s, total_s = template.timeouts.start_by_s, template.timeouts.total_s
            anew = replace(
                job,
                spec=spec,
                start_by_us=None if start_by_s is None else job.due_us + round(start_by_s * 1e6),
                deadline_us=None if total_s is None else job.due_us + round(total_s * 1e6),
            )
            del db.jobs[job.key]
            db.history.note("withdrawn", job=job.spec.id, schedule=schedule.uid, into=id)
            note_job(db, anew)
            rows = db.occurrences[schedule.uid]
            old = rows[origin.nominal_at, 0]
            rows[origin.nominal_at, 0] = replace(old, job_id=id, version=schedule.timer.version)
            entries.append(entry_of(anew))
        return entries

    async def end_waiting(self, uid: ScheduleUid, fate: Fate, *, rule_only: bool) -> int:
        waiting = [
            row
            for row in self._db.occurrences.get(uid, {}).values()
            if row.fate is Fate.BUFFERED and (not rule_only or row.origin in (Origin.RULE, Origin.CATCH_UP))
        ]
        for old in waiting:
            self._set_fate(uid, replace(old, fate=fate, recorded=self._db.now, reason=""), old.fate)
        return len(waiting)

    async def restore(self, uid: ScheduleUid, after: datetime) -> dict[Fate, int]:
        rows = self._db.occurrences.get(uid, {})
        counts: dict[Fate, int] = {}
        for key, row in list(rows.items()):
            if row.fate in (Fate.SUPPRESSED_PAUSED, Fate.EXCLUDED) and not row.generation and row.nominal > after:
                del rows[key]
                counts[row.fate] = counts.get(row.fate, 0) + row.count
                self._db.history.note("restored", schedule=uid, nominal=row.nominal, fate=row.fate, count=row.count)
        return counts

    async def generation(self, uid: ScheduleUid, nominal: datetime) -> int:
        known = [row.generation for row in self._db.occurrences.get(uid, {}).values() if row.nominal == nominal]
        return max([*known, 0]) + 1

    async def occurrence(self, uid: ScheduleUid, nominal: datetime, generation: int) -> Occurrence | None:
        row = self._db.occurrences.get(uid, {}).get((nominal, generation))
        return None if row is None else _occurrence(row)

    async def fired(self, uid: ScheduleUid, after: datetime, until: datetime) -> set[datetime]:
        rows = self._db.occurrences.get(uid, {}).values()
        fates = (Fate.FIRED, Fate.BUFFERED)
        return {row.nominal for row in rows if row.fate in fates and after < row.nominal <= until}

    async def running_backfills(self, uid: ScheduleUid) -> int:
        rows = self._db.backfills.values()
        return sum(row.uid == uid and row.backfill.state is BackfillState.RUNNING for row in rows)

    async def add_backfill(self, schedule: Schedule, backfill: Backfill) -> None:
        now = self._db.now
        over = backfill.state is not BackfillState.RUNNING
        stored = replace(backfill, created_at=now, finished_at=now if over else None)
        row = BackfillRow(schedule.uid, schedule.tenant_id, schedule.shard, stored, now)
        self._db.backfills[backfill.id] = row

    async def lock_backfill(self, uid: ScheduleUid, id: str) -> Backfill | None:
        row = self._db.backfills.get(id)
        return row.backfill if row is not None and row.uid == uid else None

    async def save_backfill(self, backfill: Backfill, wait_s: float) -> None:
        db = self._db
        row = db.backfills[backfill.id]
        stored = replace(
            row.backfill,
            state=backfill.state,
            cursor=backfill.cursor,
            next_nominal=backfill.next_nominal,
            done=backfill.done,
            fired=backfill.fired,
            finished_at=(row.backfill.finished_at or db.now) if backfill.state is not BackfillState.RUNNING else None,
        )
        due = max(row.next_at, db.now - timedelta(seconds=BACKFILL_BEHIND_S)) + timedelta(seconds=wait_s)
        db.backfills[backfill.id] = replace(row, backfill=stored, next_at=due)

    async def delete(self, schedule: Schedule) -> None:
        db = self._db
        for id, row in db.backfills.items():
            if row.uid == schedule.uid and row.backfill.state is BackfillState.RUNNING:
                ended = replace(row.backfill, state=BackfillState.CANCELLED, finished_at=db.now)
                db.backfills[id] = replace(row, backfill=ended)
        del db.schedules[schedule.uid]
        del db.names[schedule.tenant_id, schedule.id]
        db.deleted[schedule.tenant_id, schedule.id] = schedule.uid
        db.history.note("unscheduled", schedule=schedule.uid)

    async def reset(self, withdrawn: Mapping[ScheduleUid, Withdrawn], now: datetime) -> None:
        raise AssertionError("there are no calendars here")

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name}: there are no calendars here")

    def _set_fate(self, uid: ScheduleUid, row: OccurrenceRow, was: Fate) -> None:
        self._db.occurrences[uid][row.nominal, row.generation] = row
        note_fate(self._db, uid, row, was)


_OF_MISSED = ("rota-missed-count", "rota-first-missed-time")


def _withdrawable(db: Tables, job: JobRow) -> bool:
    return db.guard("withdraw: not started", job.state is JobState.SCHEDULED and job.attempt == 0)


def _stored(schedule: Schedule) -> Schedule:
    """As columns hold it: numbers, not the caller's objects."""
    job = schedule.definition.job
    timeouts = replace(job.timeouts, run_s=round(job.timeouts.run_s * 1000) / 1000)
    job = replace(job, retry=stored_retry(job.retry), timeouts=timeouts)
    return replace(schedule, definition=replace(schedule.definition, job=job))


def _bare(schedule: Schedule) -> Schedule:
    job = schedule.definition.job
    bare = replace(job, payload=Payload(b"", job.payload.content_type))
    return replace(schedule, definition=replace(schedule.definition, job=bare))


def _occurrence(row: OccurrenceRow) -> Occurrence:
    return Occurrence(
        nominal=row.nominal,
        generation=row.generation,
        due=row.due,
        local=row.local,
        origin=row.origin,
        fate=row.fate,
        version=row.version,
        recorded_at=row.recorded,
        reason=row.reason,
        job_id=row.job_id,
        blocking_job=row.blocking_job,
        backfill_id=row.backfill_id,
        count=row.count,
        last_nominal=row.last,
        forced=row.forced,
    )


def _matches(schedule: Schedule, where: ScheduleFilter) -> bool:
    definition = schedule.definition
    return (
        (where.state is None or schedule.timer.state is where.state)
        and where.labels.items() <= definition.labels.items()
        and (not where.type or definition.job.type == where.type)
        and (not where.queue or definition.job.queue == where.queue)
        and schedule.id.startswith(where.id_prefix)
        and (where.apply_set is None or schedule.apply_set == where.apply_set)
    )
