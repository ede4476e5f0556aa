"""Creating, reading and cancelling jobs."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from rota.domain.errors import AlreadyExists
from rota.domain.fairness import Entry
from rota.domain.ids import Fence, JobId, SessionId, TenantId
from rota.domain.model import (
    Attempt,
    DedupeConflict,
    Job,
    JobOrigin,
    JobSpec,
    JobState,
    Outcome,
    Payload,
)
from rota.store.codec import instant, micros
from rota.store.port import (
    CreateCall,
    Created,
    EarlierRequest,
    JobFilter,
)

from .tables import HELD, WAITING, DedupeKey, Hold, JobRow, Port, Request, Tables, dedupe_key, entry_of, stored_retry

T = TypeVar("T")


class FakeJobs(Port):
    """JobStore."""

    async def create(self, calls: Sequence[CreateCall]) -> dict[JobId, Created]:
        return await self._write("create", lambda: create_jobs(self._db, calls))

    async def create_deduped(self, call: CreateCall) -> tuple[dict[JobId, Created], dict[int, JobId]] | None:
        def work() -> tuple[dict[JobId, Created], dict[int, JobId]] | None:
            db = self._db
            request = (call.tenant_id, call.method, call.request_id)
            repeated = bool(call.request_id) and request in db.requests
            holders: dict[int, JobId] = {}
            taken: dict[DedupeKey, JobId] = {}
            keyed = [(dedupe_key(spec), index) for index, spec in enumerate(call.specs) if spec.dedupe]
            for key, index in sorted(keyed):
                spec = call.specs[index]
                assert spec.dedupe is not None
                holder = taken.get(key) or self._holder(spec, key)
                if holder is None:
                    taken[key] = spec.id
                elif spec.dedupe.on_conflict is DedupeConflict.FAIL:
                    if repeated:
                        return None
                    raise AlreadyExists(f"dedupe.key: {spec.dedupe.key!r} is held by jobs/{holder}")
                else:
                    holders[index] = holder
            if repeated:
                return None
            free = [spec for index, spec in enumerate(call.specs) if index not in holders]
            for spec in free:
                if spec.dedupe is not None:
                    window_s = spec.dedupe.window_s
                    until_us = None if window_s is None else db.now_us + round(window_s * 1e6)
                    db.holds[dedupe_key(spec)] = Hold(spec.id, until_us)
            if call.request_id:
                answer = tuple(holders.get(index, spec.id) for index, spec in enumerate(call.specs))
                db.requests[request] = Request(call.digest, answer, db.now_us)
            return insert_jobs(db, free, call.request_id), holders

        return await self._write("create_deduped", work)

    async def earlier(self, calls: Sequence[CreateCall]) -> dict[tuple[TenantId, int, str], EarlierRequest]:
        def work() -> dict[tuple[TenantId, int, str], EarlierRequest]:
            keys = [(c.tenant_id, c.method, c.request_id) for c in calls]
            found = {key: self._db.requests[key] for key in keys if key in self._db.requests}
            return {key: EarlierRequest(request.digest, request.jobs) for key, request in found.items()}

        return await self._read("earlier", work)

    async def set_cancelling(self, tenant: TenantId, job: JobId, fence: Fence, reason: str) -> bool:
        def work() -> bool:
            row = self._db.jobs.get((tenant, job))
            guard = self._db.guard
            if (
                row is None
                or not guard("set_cancelling: fence", row.fence == fence)
                or not guard("set_cancelling: state", row.state in HELD)
            ):
                return False
            row.state = JobState.CANCELLING
            row.cancel_reason = reason or None
            self._db.history.note("cancelling", job=job, fence=fence)
            return True

        return await self._write("set_cancelling", work)

    async def retry_now(self, tenant: TenantId, job: JobId) -> Entry | None:
        def work() -> Entry | None:
            row = self._db.jobs.get((tenant, job))
            if row is None or row.state is not JobState.RETRY_WAIT or row.due_us <= self._db.now_us:
                return None
            return self._moved(row, self._db.now_us)

        return await self._write("retry_now", work)

    async def reschedule(self, tenant: TenantId, job: JobId, due: datetime) -> Entry | None:
        def work() -> Entry | None:
            row = self._db.jobs.get((tenant, job))
            if row is None or row.state is not JobState.SCHEDULED:
                return None
            timeouts = row.spec.timeouts
            due_us = max(micros(due), self._db.now_us)
            if timeouts.start_by_s is not None:
                row.start_by_us = due_us + round(timeouts.start_by_s * 1e6)
            if timeouts.total_s is not None:
                row.deadline_us = due_us + round(timeouts.total_s * 1e6)
            return self._moved(row, due_us)

        return await self._write("reschedule", work)

    def _moved(self, row: JobRow, due_us: int) -> Entry:
        row.due_us = due_us
        self._db.history.note("moved", job=row.spec.id, due_us=due_us)
        return entry_of(row)

    def _holder(self, spec: JobSpec, key: DedupeKey) -> JobId | None:
        hold = self._db.holds.get(key)
        if hold is None:
            return None
        if hold.until_us is None:
            free = self._db.guard("dedupe: holder lives", (spec.tenant_id, hold.job) not in self._db.jobs)
        else:
            free = self._db.guard("dedupe: window", hold.until_us <= self._db.now_us)
        return None if free else hold.job


class FakeJobReader(Port):
    """JobReader."""

    async def get(self, tenant: TenantId, jobs: Sequence[JobId]) -> dict[JobId, Job]:
        def work() -> dict[JobId, Job]:
            rows = (self._find(tenant, job) for job in jobs)
            return {row.spec.id: self._job(row) for row in rows if row is not None}

        return await self._read("get", work)

    async def page(self, tenant: TenantId, where: JobFilter, before: JobId | None, limit: int) -> list[Job]:
        def work() -> list[Job]:
            tables = (self._db.jobs, self._db.dead, self._db.finished)
            rows = [row for table in tables for row in table.values()]
            jobs = [
                self._job(row)
                for row in rows
                if row.spec.tenant_id == tenant and (before is None or row.spec.id < before)
            ]
            found = sorted((job for job in jobs if _matches(job, where)), key=lambda job: job.id, reverse=True)
            return [replace(job, payload=Payload(b"", job.payload.content_type), result=None) for job in found[:limit]]

        return await self._read("page", work)

    async def attempts(self, tenant: TenantId, job: JobId, after: int, limit: int) -> list[Attempt]:
        def work() -> list[Attempt]:
            db = self._db
            found = [
                Attempt(
                    job,
                    a.number,
                    a.fence,
                    a.session_id,
                    self._worker(a.session_id),
                    instant(a.leased_us),
                    instant(a.ended_us),
                    a.outcome,
                    a.failure,
                    a.effect_state,
                    a.effect_receipts,
                )
                for a in db.attempts.get((tenant, job), ())
            ]
            row = db.finished.get((tenant, job)) or db.jobs.get((tenant, job))
            if row is not None and (row.outcome is Outcome.SUCCEEDED or row.state in HELD):
                assert row.leased_us is not None
                found.append(
                    Attempt(
                        job,
                        row.attempt,
                        row.fence,
                        row.session_id,
                        self._worker(row.session_id),
                        instant(row.leased_us),
                        None if row.ended_us is None else instant(row.ended_us),
                        row.outcome,
                        None,
                        row.effect_state,
                        row.effect_receipts,
                    )
                )
            found = sorted((a for a in found if a.number > after), key=lambda a: a.number)
            return found[:limit]

        return await self._read("attempts", work)

    def _find(self, tenant: TenantId, job: JobId) -> JobRow | None:
        key = (tenant, job)
        return self._db.jobs.get(key) or self._db.dead.get(key) or self._db.finished.get(key)

    def _worker(self, session: SessionId | None) -> str:
        row = self._db.sessions.get(session) if session is not None else None
        return "" if row is None else row.session.worker

    def _job(self, row: JobRow) -> Job:
        spec = row.spec
        ready = row.ended_us is None and row.state in WAITING and row.due_us <= self._db.now_us
        return Job(
            tenant_id=spec.tenant_id,
            id=spec.id,
            state=JobState.READY if ready else row.state,
            type=spec.type,
            queue=spec.queue,
            priority=spec.priority,
            payload=spec.payload,
            headers=dict(spec.headers),
            labels=dict(spec.labels),
            retry=spec.retry,
            timeouts=replace(spec.timeouts, run_s=row.run_timeout_ms / 1000),
            effect_key=spec.effect_key,
            concurrency_key=spec.concurrency_key,
            created_at=instant(row.created_us),
            due_at=instant(row.due_us),
            leased_at=None if row.leased_us is None else instant(row.leased_us),
            finished_at=None if row.ended_us is None else instant(row.ended_us),
            attempt=row.attempt,
            attempts_counted=row.attempts_counted,
            generation=0,
            session_id=row.session_id,
            result=row.result,
            last_failure=row.last_failure,
            completed_despite_cancel=row.despite_cancel,
            reason=(row.reason if row.ended_us is not None else row.cancel_reason) or "",
            traceparent=spec.traceparent,
            origin=row.origin,
        )


def create_jobs(db: Tables, calls: Collection[CreateCall]) -> dict[JobId, Created]:
    created: dict[JobId, Created] = {}
    named = [(call.tenant_id, call.method, call.request_id) for call in calls if call.request_id]
    assert len(named) == len(set(named)), "two calls of one batch share a request_id"
    for call in calls:
        if call.request_id:
            key = (call.tenant_id, call.method, call.request_id)
            if not db.guard("create: request_id is fresh", key not in db.requests):
                continue
            db.requests[key] = Request(call.digest, tuple(spec.id for spec in call.specs), db.now_us)
        created |= insert_jobs(db, call.specs, call.request_id)
    return created


def insert_jobs(
    db: Tables, specs: Iterable[JobSpec], request_id: str, parent: JobId | None = None
) -> dict[JobId, Created]:
    created = {}
    for spec in specs:
        wanted_us = db.now_us + round(spec.delay_s * 1e6) if spec.run_time is None else micros(spec.run_time)
        row = insert_job(db, spec, wanted_us, request=request_id, parent=parent)
        created[spec.id] = Created(spec.id, row.due_us, instant(db.now_us))
    return created


def insert_job(
    db: Tables,
    spec: JobSpec,
    wanted_us: int,
    *,
    request: str = "",
    parent: JobId | None = None,
    origin: JobOrigin | None = None,
) -> JobRow:
    due_us = max(db.now_us, wanted_us)
    start_by_s, total_s = spec.timeouts.start_by_s, spec.timeouts.total_s
    row = JobRow(
        # The columns that hold policies keep numbers, not the caller's objects.
        replace(spec, retry=stored_retry(spec.retry), timeouts=replace(spec.timeouts)),
        db.now_us,
        due_us,
        None if start_by_s is None else due_us + round(start_by_s * 1e6),
        None if total_s is None else due_us + round(total_s * 1e6),
        origin=origin,
    )
    note_job(db, row, request, parent)
    return row


def note_job(db: Tables, row: JobRow, request: str = "", parent: JobId | None = None) -> None:
    """Puts a row that waits into the table of jobs."""
    spec = row.spec
    db.jobs[row.key] = row
    db.history.note(
        "created",
        job=spec.id,
        shard=spec.shard,
        due_us=row.due_us,
        start_by_us=row.start_by_us,
        deadline_us=row.deadline_us,
        max_attempts=spec.retry.max_attempts,
        run_s=spec.timeouts.run_s,
        type=spec.type,
        request=request,
        parent=parent,
        dedupe=dedupe_key(spec) if spec.dedupe else None,
        window_s=spec.dedupe.window_s if spec.dedupe else None,
        schedule=None if row.origin is None else row.origin.schedule_uid,
        nominal=None if row.origin is None else row.origin.nominal_at,
        generation=None if row.origin is None else row.origin.generation,
    )


def _matches(job: Job, where: JobFilter) -> bool:
    return (
        (not where.queue or job.queue == where.queue)
        and (not where.type or job.type == where.type)
        and (where.state is None or job.state is where.state)
        and (not where.labels or where.labels.items() <= job.labels.items())
    )
