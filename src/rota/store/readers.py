"""Reading jobs from wherever they are: live, dead or finished."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    DateTime,
    Integer,
    LargeBinary,
    Select,
    SmallInteger,
    Table,
    Text,
    and_,
    case,
    cast,
    column,
    func,
    literal,
    null,
    select,
    true,
    union_all,
)
from sqlalchemy.dialects.postgresql import JSONB, UUID

from rota.domain.effect import HELD_UNTIL
from rota.domain.ids import EffectId, Fence, JobId, SessionId, TenantId
from rota.domain.model import Attempt, EffectState, Job, JobState, Outcome, Payload
from rota.store import codec
from rota.store.engine import Database
from rota.store.port import JobFilter
from rota.store.tables import attempts, dead_jobs, finished_jobs, jobs, kept_attempts, kept_jobs, sessions

HISTORY = (finished_jobs, kept_jobs)
"""Where a job is once it has ended: in the days that all tenants share, then in the tenant's own months."""

_HISTORY_NAMES = [table.name for table in HISTORY]

# A page follows the order of ids and ends when it is full. A planner that expects few matches would read and sort all
# jobs of a tenant for each.
_IN_ORDER = select(func.set_config("enable_bitmapscan", "off", True), func.set_config("enable_sort", "off", True))

SHARED: Final = (
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


def _held_for() -> ColumnElement[Any]:
    """The effect that a job waits for, without a time of its own: until its total timeout, if it has one."""
    until = func.coalesce(jobs.c.deadline_at, HELD_UNTIL)
    return case((and_(jobs.c.state == JobState.RETRY_WAIT, jobs.c.due_at >= until), jobs.c.held_for), else_=None)


def _live(*extra: ColumnElement[Any]) -> Select[Any]:
    return select(
        *(jobs.c[name] for name in SHARED),
        _waiting_as_ready().label("state"),
        _none(DateTime(timezone=True), "finished_at"),
        literal(False).label("despite_cancel"),
        jobs.c.cancel_reason.label("reason"),
        _held_for().label("held_for"),
        *extra,
    )


def dead_part(*extra: ColumnElement[Any]) -> Select[Any]:
    """Dead letters as jobs, for `job_of`."""
    return select(
        *(dead_jobs.c[name] for name in SHARED),
        literal(int(JobState.DEAD)).label("state"),
        dead_jobs.c.died_at.label("finished_at"),
        literal(False).label("despite_cancel"),
        dead_jobs.c.reason.label("reason"),
        _none(UUID(as_uuid=False), "held_for"),
        *extra,
    )


def _finished(source: Table, *extra: ColumnElement[Any]) -> Select[Any]:
    return select(
        *(source.c[name] for name in SHARED),
        source.c.state.label("state"),
        source.c.finished_at.label("finished_at"),
        source.c.despite_cancel.label("despite_cancel"),
        source.c.reason.label("reason"),
        _none(UUID(as_uuid=False), "held_for"),
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
            dead_part(dead_jobs.c.payload, *no_result).where(
                dead_jobs.c.tenant_id == tenant, dead_jobs.c.id.in_(wanted)
            ),
            *(
                _finished(source, source.c.payload, source.c.result, source.c.result_content_type).where(
                    source.c.tenant_id == tenant, source.c.id.in_(wanted)
                )
                for source in HISTORY
            ),
        ]
        async with self.db.begin() as conn:
            rows = (await conn.execute(union_all(*parts))).mappings().all()
        return {JobId(row["id"]): job_of(row) for row in rows}

    async def page(self, tenant: TenantId, where: JobFilter, before: JobId | None, limit: int) -> list[Job]:
        parts = []
        places = [(jobs, _live()), (dead_jobs, dead_part()), *((source, _finished(source)) for source in HISTORY)]
        for source, part in places:
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
                query = query.where((_waiting_as_ready() if source is jobs else source.c.state) == int(where.state))
            parts.append(query.order_by(source.c.id.desc()).limit(limit).subquery())
        merged = union_all(*(select(part) for part in parts)).subquery()
        async with self.db.begin() as conn:
            await conn.execute(_IN_ORDER)
            rows = (await conn.execute(select(merged).order_by(merged.c.id.desc()).limit(limit))).mappings().all()
        return [job_of(row) for row in rows]

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
        ended = [
            select(
                *(source.c[name] for name in columns), source.c.effect_receipts.label("receipts"), _none(Text, "worker")
            ).where(source.c.tenant_id == tenant, source.c.job_id == job, source.c.number > after)
            for source in (attempts, kept_attempts)
        ]
        # A success is in the job's own record, since it is written in the hottest statement.
        succeeded = [
            select(
                source.c.attempt.label("number"),
                source.c.fence,
                source.c.session_id,
                source.c.leased_at,
                source.c.finished_at.label("ended_at"),
                source.c.outcome,
                _none(JSONB, "failure"),
                source.c.effect_state,
                source.c.effect_receipts.label("receipts"),
                _none(Text, "worker"),
            ).where(
                source.c.tenant_id == tenant,
                source.c.id == job,
                source.c.outcome == int(Outcome.SUCCEEDED),
                source.c.attempt > after,
            )
            for source in HISTORY
        ]
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
            _none(Text, "worker"),
        ).where(
            jobs.c.tenant_id == tenant,
            jobs.c.id == job,
            jobs.c.state.in_((JobState.LEASED, JobState.CANCELLING)),
            jobs.c.attempt > after,
        )
        past = [_past(source, tenant, job, after) for source in (jobs, dead_jobs, *HISTORY)]
        found = union_all(*ended, *succeeded, running, *past).subquery()
        # One that is in history and with the dead letter comes twice: what the letter has of its failure may be cut,
        # and history may have forgotten its session.
        query = (
            select(found, func.coalesce(sessions.c.worker, found.c.worker).label("worker_name"))
            .join_from(found, sessions, sessions.c.id == found.c.session_id, isouter=True)
            .order_by(found.c.number, func.length(cast(found.c.failure, Text)).desc())
            .limit(2 * limit)
        )
        async with self.db.begin() as conn:
            rows = (await conn.execute(query)).mappings().all()
        numbered = {row["number"]: row for row in reversed(rows)}
        workers = {row["number"]: row["worker_name"] for row in rows if row["worker_name"]}
        return [
            Attempt(
                job_id=job,
                number=row["number"],
                fence=Fence(row["fence"]),
                session_id=None if row["session_id"] is None else SessionId(row["session_id"]),
                worker=workers.get(row["number"], ""),
                leased_at=row["leased_at"],
                ended_at=row["ended_at"],
                outcome=None if row["outcome"] is None else Outcome(row["outcome"]),
                failure=codec.failure(row["failure"]),
                effect_state=EffectState(row["effect_state"] or 0),
                effect_receipts=codec.receipts(row["receipts"]),
            )
            for row in [numbered[number] for number in sorted(numbered)[:limit]]
        ]


def _past(source: Table, tenant: TenantId, job: JobId, after: int) -> Select[Any]:
    """The attempts that a job brought from lives before, or took with it when it died."""
    past = (
        func.jsonb_to_recordset(source.c.past)
        .table_valued(
            column("number", Integer),
            column("fence", BigInteger),
            column("session_id", UUID(as_uuid=False)),
            column("leased_at", DateTime(timezone=True)),
            column("ended_at", DateTime(timezone=True)),
            column("outcome", SmallInteger),
            column("failure", JSONB),
            column("effect_state", SmallInteger),
            column("effect_receipts", JSONB),
            column("worker", Text),
        )
        .render_derived(name="past", with_types=True)
    )
    return (
        select(*past.c)
        .join_from(source, past, true())
        .where(source.c.tenant_id == tenant, source.c.id == job, past.c.number > after)
    )


def _may_hold(table: str, state: JobState) -> bool:
    if state is JobState.DEAD:
        # Letters that were discarded are in history.
        return table != "jobs"
    return (table in _HISTORY_NAMES) if state.terminal else table == "jobs"


def job_of(row: Any) -> Job:
    """A job from a row of these parts."""
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
        held_for=None if row["held_for"] is None else EffectId(row["held_for"]),
    )
