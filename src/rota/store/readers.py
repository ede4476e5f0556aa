"""Reading jobs from wherever they are: live, dead or finished."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    DateTime,
    LargeBinary,
    Select,
    SmallInteger,
    Text,
    and_,
    case,
    cast,
    func,
    literal,
    null,
    select,
    union_all,
)
from sqlalchemy.dialects.postgresql import JSONB, UUID

from rota.domain.ids import Fence, JobId, SessionId, TenantId
from rota.domain.model import Attempt, EffectState, Job, JobState, Outcome, Payload
from rota.store import codec
from rota.store.engine import Database
from rota.store.port import JobFilter
from rota.store.tables import attempts, dead_jobs, finished_jobs, jobs, sessions

_SHARED = (
    "tenant_id",
    "id",
    "type",
    "queue",
    "priority",
    "content_type",
    "headers",
    "labels",
    "options",
    "effect_key",
    "concurrency_key",
    "created_at",
    "due_at",
    "leased_at",
    "attempt",
    "attempts_counted",
    "max_attempts",
    "run_timeout_ms",
    "generation",
    "session_id",
    "last_failure",
    "traceparent",
    "schedule_uid",
    "schedule_id",
    "nominal_at",
    "occurrence_generation",
)


def _none(kind: Any, name: str) -> ColumnElement[Any]:
    """A NULL that a UNION takes for the column it stands in for."""
    return cast(null(), kind).label(name)


def _waiting_as_ready() -> ColumnElement[int]:
    """READY is derived: waiting, and due by the database's clock."""
    ready = and_(jobs.c.state.in_((JobState.SCHEDULED, JobState.RETRY_WAIT)), jobs.c.due_at <= func.now())
    return case((ready, int(JobState.READY)), else_=jobs.c.state)


def _live(*extra: ColumnElement[Any]) -> Select[Any]:
    return select(
        *(jobs.c[name] for name in _SHARED),
        _waiting_as_ready().label("state"),
        _none(DateTime(timezone=True), "finished_at"),
        literal(False).label("despite_cancel"),
        jobs.c.cancel_reason.label("reason"),
        *extra,
    )


def _dead(*extra: ColumnElement[Any]) -> Select[Any]:
    return select(
        *(dead_jobs.c[name] for name in _SHARED),
        literal(int(JobState.DEAD)).label("state"),
        dead_jobs.c.died_at.label("finished_at"),
        literal(False).label("despite_cancel"),
        dead_jobs.c.reason.label("reason"),
        *extra,
    )


def _finished(*extra: ColumnElement[Any]) -> Select[Any]:
    return select(
        *(finished_jobs.c[name] for name in _SHARED),
        finished_jobs.c.state.label("state"),
        finished_jobs.c.finished_at.label("finished_at"),
        finished_jobs.c.despite_cancel.label("despite_cancel"),
        finished_jobs.c.reason.label("reason"),
        *extra,
    )


@dataclass(frozen=True, slots=True)
class PgJobReader:
    """JobReader on PostgreSQL."""

    db: Database

    async def get(self, tenant: TenantId, wanted: Sequence[JobId]) -> dict[JobId, Job]:
        # A job moves from live to finished in one transaction, so one statement always sees it in exactly one place.
        no_result = (_none(LargeBinary, "result"), _none(Text, "result_content_type"))
        parts = [
            _live(jobs.c.payload, *no_result).where(jobs.c.tenant_id == tenant, jobs.c.id.in_(wanted)),
            _dead(dead_jobs.c.payload, *no_result).where(dead_jobs.c.tenant_id == tenant, dead_jobs.c.id.in_(wanted)),
            _finished(finished_jobs.c.payload, finished_jobs.c.result, finished_jobs.c.result_content_type).where(
                finished_jobs.c.tenant_id == tenant, finished_jobs.c.id.in_(wanted)
            ),
        ]
        async with self.db.begin() as conn:
            rows = (await conn.execute(union_all(*parts))).mappings().all()
        return {JobId(row["id"]): _job(row) for row in rows}

    async def page(self, tenant: TenantId, where: JobFilter, before: JobId | None, limit: int) -> list[Job]:
        parts = []
        for source, part in ((jobs, _live()), (dead_jobs, _dead()), (finished_jobs, _finished())):
            if where.state is not None and not _may_hold(source.name, where.state):
                continue
            query = part.where(source.c.tenant_id == tenant)
            if before is not None:
                query = query.where(source.c.id < cast(before, UUID(as_uuid=False)))
            if where.queue:
                query = query.where(source.c.queue == where.queue)
            if where.type:
                query = query.where(source.c.type == where.type)
            if where.labels:
                query = query.where(source.c.labels.op("@>")(cast(dict(where.labels), JSONB)))
            if where.state is not None and source is not dead_jobs:
                query = query.where(
                    (_waiting_as_ready() if source is jobs else finished_jobs.c.state) == int(where.state)
                )
            parts.append(query.order_by(source.c.id.desc()).limit(limit).subquery())
        merged = union_all(*(select(part) for part in parts)).subquery()
        async with self.db.begin() as conn:
            rows = (await conn.execute(select(merged).order_by(merged.c.id.desc()).limit(limit))).mappings().all()
        return [_job(row) for row in rows]

    async def attempts(self, tenant: TenantId, job: JobId, after: int, limit: int) -> list[Attempt]:
        columns = (
            "number",
            "fence",
            "session_id",
            "leased_at",
            "ended_at",
            "outcome",
            "failure",
            "effect_state",
        )
        ended = select(*(attempts.c[name] for name in columns), attempts.c.effect_receipts.label("receipts")).where(
            attempts.c.tenant_id == tenant, attempts.c.job_id == job, attempts.c.number > after
        )
        # A success is in the job's own record, since it is written in the hottest statement.
        succeeded = select(
            finished_jobs.c.attempt.label("number"),
            finished_jobs.c.fence,
            finished_jobs.c.session_id,
            finished_jobs.c.leased_at,
            finished_jobs.c.finished_at.label("ended_at"),
            finished_jobs.c.outcome,
            _none(JSONB, "failure"),
            finished_jobs.c.effect_state,
            finished_jobs.c.effect_receipts.label("receipts"),
        ).where(
            finished_jobs.c.tenant_id == tenant,
            finished_jobs.c.id == job,
            finished_jobs.c.outcome == int(Outcome.SUCCEEDED),
            finished_jobs.c.attempt > after,
        )
        running = select(
            jobs.c.attempt.label("number"),
            jobs.c.fence,
            jobs.c.session_id,
            jobs.c.leased_at,
            _none(DateTime(timezone=True), "ended_at"),
            _none(SmallInteger, "outcome"),
            _none(JSONB, "failure"),
            _none(SmallInteger, "effect_state"),
            _none(JSONB, "receipts"),
        ).where(
            jobs.c.tenant_id == tenant,
            jobs.c.id == job,
            jobs.c.state.in_((JobState.LEASED, JobState.CANCELLING)),
            jobs.c.attempt > after,
        )
        found = union_all(ended, succeeded, running).subquery()
        query = (
            select(found, sessions.c.worker)
            .join_from(found, sessions, sessions.c.id == found.c.session_id, isouter=True)
            .order_by(found.c.number)
            .limit(limit)
        )
        async with self.db.begin() as conn:
            rows = (await conn.execute(query)).mappings().all()
        return [
            Attempt(
                job_id=job,
                number=row["number"],
                fence=Fence(row["fence"]),
                session_id=None if row["session_id"] is None else SessionId(row["session_id"]),
                worker=row["worker"] or "",
                leased_at=row["leased_at"],
                ended_at=row["ended_at"],
                outcome=None if row["outcome"] is None else Outcome(row["outcome"]),
                failure=codec.failure(row["failure"]),
                effect_state=EffectState(row["effect_state"] or 0),
                effect_receipts=codec.receipts(row["receipts"]),
            )
            for row in rows
        ]


def _may_hold(table: str, state: JobState) -> bool:
    if state is JobState.DEAD:
        return table == "dead_jobs"
    return table == ("finished_jobs" if state.terminal else "jobs")


def _job(row: Any) -> Job:
    payload = row.get("payload")
    result = row.get("result")
    return Job(
        tenant_id=TenantId(row["tenant_id"]),
        id=JobId(row["id"]),
        state=JobState(row["state"]),
        type=row["type"],
        queue=row["queue"],
        priority=row["priority"],
        payload=Payload(payload or b"", row["content_type"]),
        headers=row["headers"] or {},
        labels=row["labels"] or {},
        retry=codec.retry_policy(row["max_attempts"], row["options"]),
        timeouts=codec.timeouts(row["run_timeout_ms"], row["options"]),
        effect_key=row["effect_key"] or "",
        concurrency_key=row["concurrency_key"] or "",
        created_at=row["created_at"],
        due_at=row["due_at"],
        leased_at=row["leased_at"],
        finished_at=row["finished_at"],
        attempt=row["attempt"],
        attempts_counted=row["attempts_counted"],
        generation=row["generation"],
        session_id=None if row["session_id"] is None else SessionId(row["session_id"]),
        result=None if result is None else Payload(result, row["result_content_type"] or ""),
        last_failure=codec.failure(row["last_failure"]),
        completed_despite_cancel=row["despite_cancel"],
        reason=row["reason"] or "",
        traceparent=row["traceparent"] or "",
        origin=codec.origin(row["schedule_uid"], row["schedule_id"], row["nominal_at"], row["occurrence_generation"]),
    )
