"""The ports of `rota.store.port` in memory: what PostgreSQL promises, and nothing else.

Each operation is one statement that runs at one instant, by the database's clock, and reports what it committed to the
history. How it gets there, and whether its answer comes back, is the business of the `Call` that it is sent through:
none in the differential test, which holds this store equal to PostgreSQL, and a `Link` full of faults in a world.

Every guard of a statement has a name, so that the mutants can take it away (`mutants.py`). Instants are microseconds
since 1970. Not here: keys and tenants, since the simulation enters below the api, and partitions, which are no promise
of the port. What a serial store cannot show (two sessions at once, locks) is shown on PostgreSQL itself.
"""

import itertools
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol, TypeVar

from rota.domain import limits
from rota.domain.errors import AlreadyExists
from rota.domain.fairness import Entry, LaneKey, Position
from rota.domain.ids import CoordinatorId, Fence, JobId, SessionId, ShardNo, TenantId, epoch_of
from rota.domain.limiting import LimitedGrants
from rota.domain.model import (
    Attempt,
    DedupeConflict,
    DedupeScope,
    EffectReceipt,
    EffectState,
    Failure,
    Grant,
    Job,
    JobSpec,
    JobState,
    LiveJob,
    Outcome,
    Payload,
    Result,
    RetryPolicy,
    Session,
    SessionState,
    ShardTerm,
)
from rota.domain.transition import Finish, Requeue
from rota.store.codec import instant, micros
from rota.store.port import (
    BeatUpdate,
    Claim,
    Colleague,
    CreateCall,
    Created,
    Decided,
    DueRow,
    EarlierRequest,
    Ended,
    JobFilter,
    Roster,
)

from .history import History

T = TypeVar("T")

WAITING = (JobState.SCHEDULED, JobState.RETRY_WAIT)
HELD = (JobState.LEASED, JobState.CANCELLING)
NO_FENCE = Fence(0)

DedupeKey = tuple[TenantId, DedupeScope, str, str]


class UniqueViolation(Exception):
    """As the driver's own: a key that is taken, where the port knows no better word."""


class Call(Protocol):
    """The way to the database and back for one operation; `lane` as in `rota.store.engine.Database`."""

    async def __call__(self, name: str, work: Callable[[], T], *, lane: str, write: bool) -> T: ...


class Time(Protocol):
    def now_us(self) -> int: ...


async def direct(name: str, work: Callable[[], T], *, lane: str, write: bool) -> T:
    """Nothing in between."""
    return work()


@dataclass(slots=True)
class JobRow:
    """A row of `jobs`; and, once `ended_us` is set, of `finished_jobs` or `dead_jobs`."""

    spec: JobSpec
    created_us: int
    due_us: int
    start_by_us: int | None
    deadline_us: int | None
    state: JobState = JobState.SCHEDULED
    fence: Fence = NO_FENCE
    attempt: int = 0
    attempts_counted: int = 0
    session_id: SessionId | None = None
    leased_us: int | None = None
    last_failure: Failure | None = None
    cancel_reason: str | None = None
    ended_us: int | None = None
    outcome: Outcome | None = None
    result: Payload | None = None
    effect_state: EffectState = EffectState.UNSPECIFIED
    effect_receipts: tuple[EffectReceipt, ...] = ()
    despite_cancel: bool = False
    reason: str | None = None

    @property
    def key(self) -> tuple[TenantId, JobId]:
        return self.spec.tenant_id, self.spec.id

    @property
    def run_timeout_ms(self) -> int:
        return round(self.spec.timeouts.run_s * 1000)

    @property
    def start_by_s(self) -> float | None:
        return None if self.start_by_us is None or self.attempts_counted else self.start_by_us / 1e6


@dataclass(slots=True)
class AttemptRow:
    number: int
    fence: Fence
    session_id: SessionId | None
    leased_us: int
    ended_us: int
    outcome: Outcome
    failure: Failure | None
    effect_state: EffectState
    effect_receipts: tuple[EffectReceipt, ...]


@dataclass(slots=True)
class SessionRow:
    session: Session
    ttl_us: int
    expires_us: int
    last_beat_us: int
    closed_us: int | None = None


@dataclass(slots=True)
class CoordinatorRow:
    """`until_us`: the end of its term."""

    address: str
    peer_address: str
    until_us: int
    draining: bool = False


@dataclass(slots=True)
class ShardRow:
    epoch: int = 0
    owner: CoordinatorId | None = None
    watermark_us: int | None = None


@dataclass(slots=True)
class Request:
    digest: bytes
    jobs: tuple[JobId, ...]
    created_us: int


@dataclass(slots=True)
class Hold:
    """A dedupe key that is taken; `until_us` None: while the job lives."""

    job: JobId
    until_us: int | None


@dataclass
class Tables:
    """The whole database. `removed`: the guards that are taken away."""

    time: Time
    history: History
    shard_count: int = limits.SHARD_COUNT
    removed: frozenset[str] = frozenset()
    jobs: dict[tuple[TenantId, JobId], JobRow] = field(default_factory=dict)
    finished: dict[tuple[TenantId, JobId], JobRow] = field(default_factory=dict)
    dead: dict[tuple[TenantId, JobId], JobRow] = field(default_factory=dict)
    attempts: dict[tuple[TenantId, JobId], list[AttemptRow]] = field(default_factory=dict)
    requests: dict[tuple[TenantId, int, str], Request] = field(default_factory=dict)
    holds: dict[DedupeKey, Hold] = field(default_factory=dict)
    sessions: dict[SessionId, SessionRow] = field(default_factory=dict)
    coordinators: dict[CoordinatorId, CoordinatorRow] = field(default_factory=dict)
    shards: dict[ShardNo, ShardRow] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shards = {ShardNo(number): ShardRow() for number in range(self.shard_count)}
        self.session_epochs = itertools.count(1)

    @property
    def now_us(self) -> int:
        return self.time.now_us()

    def guard(self, name: str, holds: bool) -> bool:
        """A condition that keeps a promise: true without being asked once it is taken away."""
        return holds or name in self.removed

    def intact(self, name: str) -> bool:
        """Whether a part of a statement that keeps a promise is still there."""
        return name not in self.removed

    def alive(self, session: SessionId | None) -> bool:
        """Not closed: a session whose time is over lives until somebody has closed it."""
        row = self.sessions.get(session) if session is not None else None
        return row is not None and row.closed_us is None

    def coordinator_alive(self, coordinator: CoordinatorId | None) -> bool:
        found = self.coordinators.get(coordinator) if coordinator is not None else None
        return found is not None and found.until_us > self.now_us

    def places(self, key: tuple[TenantId, JobId]) -> list[str]:
        """The tables that hold a job."""
        tables = {"jobs": self.jobs, "finished_jobs": self.finished, "dead_jobs": self.dead}
        return [name for name, table in tables.items() if key in table]


class _Port:
    def __init__(self, tables: Tables, call: Call = direct) -> None:
        self._db = tables
        self._call = call

    async def _write(self, name: str, work: Callable[[], T], lane: str = "writes") -> T:
        return await self._call(name, work, lane=lane, write=True)

    async def _read(self, name: str, work: Callable[[], T], lane: str = "writes") -> T:
        return await self._call(name, work, lane=lane, write=False)


class FakeJobs(_Port):
    """JobStore."""

    async def create(self, calls: Sequence[CreateCall]) -> dict[JobId, Created]:
        return await self._write("create", lambda: _create(self._db, calls))

    async def create_deduped(self, call: CreateCall) -> tuple[dict[JobId, Created], dict[int, JobId]] | None:
        def work() -> tuple[dict[JobId, Created], dict[int, JobId]] | None:
            db = self._db
            request = (call.tenant_id, call.method, call.request_id)
            repeated = bool(call.request_id) and request in db.requests
            holders: dict[int, JobId] = {}
            taken: dict[DedupeKey, JobId] = {}
            keyed = [(_dedupe_key(spec), index) for index, spec in enumerate(call.specs) if spec.dedupe]
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
                    db.holds[_dedupe_key(spec)] = Hold(spec.id, until_us)
            if call.request_id:
                answer = tuple(holders.get(index, spec.id) for index, spec in enumerate(call.specs))
                db.requests[request] = Request(call.digest, answer, db.now_us)
            return _insert(db, free, call.request_id), holders

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

    def _holder(self, spec: JobSpec, key: DedupeKey) -> JobId | None:
        hold = self._db.holds.get(key)
        if hold is None:
            return None
        if hold.until_us is None:
            free = self._db.guard("dedupe: holder lives", (spec.tenant_id, hold.job) not in self._db.jobs)
        else:
            free = self._db.guard("dedupe: window", hold.until_us <= self._db.now_us)
        return None if free else hold.job


class FakeJobReader(_Port):
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
        )


class FakeLeases(_Port):
    """LeaseStore."""

    async def read_due(
        self, after: Sequence[tuple[ShardNo, Position]], until_us: int, page: int, lane: LaneKey | None = None
    ) -> list[DueRow]:
        def work() -> list[DueRow]:
            by_shard: dict[ShardNo, list[JobRow]] = {}
            for row in self._db.jobs.values():
                if row.due_us <= until_us and (lane is None or lane.covers(_entry(row))):
                    by_shard.setdefault(row.spec.shard, []).append(row)
            found: list[DueRow] = []
            for shard, position in after:
                rows = [row for row in by_shard.get(shard, ()) if (row.due_us, row.spec.id) > position]
                rows.sort(key=lambda row: (row.due_us, row.spec.id))
                found += [self._due(row) for row in rows[:page]]
            return found

        return await self._read("read_due", work, "reads")

    async def claim(self, claims: Sequence[Claim], owner: CoordinatorId) -> list[Grant]:
        def work() -> list[Grant]:
            db, guard, now_us = self._db, self._db.guard, self._db.now_us
            grants = []
            for claim in claims:
                row = db.jobs.get((claim.entry.tenant_id, claim.entry.id))
                if row is None:
                    continue
                shard = db.shards[row.spec.shard]
                if not (
                    guard("claim: state", row.state in WAITING)
                    and guard("claim: due", row.due_us <= now_us)
                    and guard("claim: fence grows", row.fence < claim.fence)
                    and guard(
                        "claim: start_by", not row.start_by_us or row.start_by_s is None or row.start_by_us > now_us
                    )
                    and guard("claim: owner", shard.owner == owner)
                    and guard("claim: epoch", shard.epoch == epoch_of(claim.fence))
                ):
                    continue
                row.state = JobState.LEASED
                row.fence = claim.fence
                row.session_id = claim.session_id
                row.attempt += 1
                row.leased_us = now_us
                grants.append(self._grant(row, claim.entry))
                db.history.note(
                    "claimed",
                    job=row.spec.id,
                    fence=claim.fence,
                    session=claim.session_id,
                    owner=owner,
                    shard=row.spec.shard,
                    attempt=row.attempt,
                )
            return grants

        return await self._write("claim", work, "claims")

    async def claim_limited(self, claims: Sequence[Claim], owner: CoordinatorId) -> LimitedGrants:
        """Nothing is limited here: what limits promise is shown on PostgreSQL."""
        return LimitedGrants(await self.claim(claims, owner), {})

    def _due(self, row: JobRow) -> DueRow:
        leased_for_s = None if row.leased_us is None else (self._db.now_us - row.leased_us) / 1e6
        return DueRow(
            _entry(row),
            row.state,
            row.fence,
            row.session_id,
            leased_for_s,
            row.run_timeout_ms / 1000,
            row.state in HELD and self._db.alive(row.session_id),
        )

    def _grant(self, row: JobRow, entry: Entry) -> Grant:
        spec, deadline_us = row.spec, row.deadline_us
        assert row.session_id is not None
        return Grant(
            tenant_id=entry.tenant_id,
            job_id=entry.id,
            shard=entry.shard,
            fence=row.fence,
            session_id=row.session_id,
            attempt=row.attempt,
            attempts_counted=row.attempts_counted,
            max_attempts=spec.retry.max_attempts,
            type=entry.type,
            queue=entry.queue,
            priority=entry.priority,
            payload=spec.payload.data,
            content_type=spec.payload.content_type,
            headers=dict(spec.headers) or None,
            effect_key=spec.effect_key,
            generation=0,
            run_timeout_s=row.run_timeout_ms / 1000,
            deadline_s=None if deadline_us is None else (deadline_us - self._db.now_us) / 1e6,
            due_at=instant(row.due_us),
            traceparent=spec.traceparent,
            tracestate=spec.tracestate,
        )


class FakeOutcomes(_Port):
    """OutcomeStore."""

    async def succeed(self, results: Sequence[Result]) -> dict[tuple[JobId, Fence], JobState]:
        return await self._write("succeed", lambda: self._succeed(results))

    async def succeed_and_spawn(
        self, result: Result, call: CreateCall
    ) -> tuple[dict[tuple[JobId, Fence], JobState], list[Created]]:
        def work() -> tuple[dict[tuple[JobId, Fence], JobState], list[Created]]:
            done = self._succeed([result])
            if not self._db.guard("spawn: only with the success", bool(done)):
                return done, []
            return done, list(_insert(self._db, call.specs, "", parent=result.job_id).values())

        return await self._write("succeed_and_spawn", work)

    async def live(self, jobs: Sequence[tuple[TenantId, JobId]]) -> tuple[dict[JobId, LiveJob], datetime | None]:
        def work() -> tuple[dict[JobId, LiveJob], datetime | None]:
            rows = [self._db.jobs[key] for key in jobs if key in self._db.jobs]
            return {row.spec.id: self._live(row) for row in rows}, instant(self._db.now_us) if rows else None

        return await self._read("live", work)

    async def requeue(self, items: Sequence[Decided]) -> set[tuple[JobId, Fence]]:
        def work() -> set[tuple[JobId, Fence]]:
            done = set()
            for item in items:
                row = self._match("requeue", item)
                if row is None:
                    continue
                assert isinstance(item.decision, Requeue)
                self._end_attempt(row, item)
                row.state = item.decision.state
                row.due_us = micros(item.decision.due_at)
                row.session_id = row.leased_us = None
                row.attempts_counted += item.decision.counted
                row.last_failure = item.failure or row.last_failure
                done.add((item.job.id, item.job.fence))
                self._note("requeued", row, item, due_us=row.due_us)
            return done

        return await self._write("requeue", work)

    async def finish(self, items: Sequence[Decided]) -> set[tuple[JobId, Fence]]:
        def work() -> set[tuple[JobId, Fence]]:
            done = set()
            for item in items:
                row = self._match("finish", item)
                if row is None:
                    continue
                assert isinstance(item.decision, Finish)
                if item.outcome is not None:
                    self._end_attempt(row, item)
                reason = item.decision.reason or row.cancel_reason
                self._move(row, self._db.finished, item.decision, item.failure, reason)
                row.outcome = item.outcome
                row.effect_state, row.effect_receipts = item.effect_state, item.effect_receipts
                done.add((item.job.id, item.job.fence))
                self._note("finished", row, item)
            return done

        return await self._write("finish", work)

    async def bury(self, items: Sequence[Decided]) -> set[tuple[JobId, Fence]]:
        def work() -> set[tuple[JobId, Fence]]:
            done = set()
            for item in items:
                row = self._match("bury", item)
                if row is None:
                    continue
                assert isinstance(item.decision, Finish)
                self._end_attempt(row, item)
                self._move(row, self._db.dead, item.decision, item.failure, item.decision.reason)
                done.add((item.job.id, item.job.fence))
                self._note("buried", row, item)
            return done

        return await self._write("bury", work)

    async def ended(self, leases: Sequence[tuple[TenantId, JobId, Fence]]) -> dict[tuple[JobId, Fence], Ended]:
        def work() -> dict[tuple[JobId, Fence], Ended]:
            found = {}
            for tenant, job, fence in leases:
                key = (tenant, job)
                live, finished, dead = (t.get(key) for t in (self._db.jobs, self._db.finished, self._db.dead))
                attempt = next((a for a in self._db.attempts.get(key, ()) if a.fence == fence), None)
                found[job, fence] = Ended(
                    live_fence=None if live is None else live.fence,
                    live_state=None if live is None else live.state,
                    attempt_outcome=None if attempt is None else attempt.outcome,
                    finished_fence=None if finished is None else finished.fence,
                    finished_state=None if finished is None else finished.state,
                    finished_outcome=None if finished is None else finished.outcome,
                    dead_fence=None if dead is None else dead.fence,
                )
            return found

        return await self._read("ended", work)

    def _succeed(self, results: Sequence[Result]) -> dict[tuple[JobId, Fence], JobState]:
        db, guard = self._db, self._db.guard
        done = {}
        for result in results:
            row = db.jobs.get((result.tenant_id, result.job_id))
            if row is None or not (
                guard("succeed: fence", row.fence == result.fence)
                and guard("succeed: session", row.session_id == result.session_id)
                and guard("succeed: state", row.state in HELD)
            ):
                continue
            row.despite_cancel = row.state is JobState.CANCELLING
            self._move(row, db.finished, Finish(JobState.SUCCEEDED, counted=True), None, None)
            row.outcome = Outcome.SUCCEEDED
            row.result = result.payload
            row.effect_state, row.effect_receipts = result.effect_state, result.effect_receipts
            done[row.spec.id, result.fence] = JobState.SUCCEEDED
            db.history.note(
                "succeeded",
                job=row.spec.id,
                fence=result.fence,
                session=result.session_id,
                counted=row.attempts_counted,
                attempt=row.attempt,
            )
        return done

    def _match(self, statement: str, item: Decided) -> JobRow | None:
        row = self._db.jobs.get((item.job.tenant_id, item.job.id))
        guard = self._db.guard
        if (
            row is None
            or not guard(f"{statement}: fence", row.fence == item.job.fence)
            or not guard(f"{statement}: state", row.state == item.job.state)
        ):
            return None
        return row

    def _move(
        self,
        row: JobRow,
        table: dict[tuple[TenantId, JobId], JobRow],
        decision: Finish,
        failure: Failure | None,
        reason: str | None,
    ) -> None:
        if self._db.intact("move: leaves the live table"):
            del self._db.jobs[row.key]
        else:
            row = replace(row)
        table[row.key] = row
        row.state = decision.state
        row.attempts_counted += decision.counted
        row.last_failure = failure or row.last_failure
        row.ended_us = self._db.now_us
        row.reason = reason

    def _end_attempt(self, row: JobRow, item: Decided) -> None:
        job = item.job
        assert job.leased_at is not None and item.outcome is not None
        self._db.attempts.setdefault(row.key, []).append(
            AttemptRow(
                job.attempt,
                job.fence,
                job.session_id,
                micros(job.leased_at),
                self._db.now_us,
                item.outcome,
                item.failure,
                item.effect_state,
                item.effect_receipts,
            )
        )

    def _note(self, kind: str, row: JobRow, item: Decided, **more: Any) -> None:
        self._db.history.note(
            kind,
            job=row.spec.id,
            fence=item.job.fence,
            session=item.job.session_id,
            state=row.state,
            outcome=item.outcome,
            counted=row.attempts_counted,
            attempt=row.attempt,
            by_worker=bool(item.request_id),
            **more,
        )

    def _live(self, row: JobRow) -> LiveJob:
        spec = row.spec
        return LiveJob(
            tenant_id=spec.tenant_id,
            id=spec.id,
            shard=spec.shard,
            state=row.state,
            type=spec.type,
            queue=spec.queue,
            priority=spec.priority,
            fence=row.fence,
            session_id=row.session_id,
            session_alive=self._db.alive(row.session_id),
            attempt=row.attempt,
            attempts_counted=row.attempts_counted,
            retry=spec.retry,
            due_at=instant(row.due_us),
            leased_at=None if row.leased_us is None else instant(row.leased_us),
            deadline_at=None if row.deadline_us is None else instant(row.deadline_us),
            size=_weight(spec),
            traceparent=spec.traceparent,
            start_by=row.start_by_s,
            concurrency_key=spec.concurrency_key,
        )


class FakeSessions(_Port):
    """SessionStore."""

    async def open(self, session: Session, ttl_s: float) -> Session:
        def work() -> Session:
            db = self._db
            row = db.sessions.get(session.id)
            if row is None:
                ttl_us = round(ttl_s * 1000) * 1000
                opened = replace(
                    session,
                    epoch=next(db.session_epochs),
                    queues=tuple(dict.fromkeys(session.queues)),
                    state=SessionState.ACTIVE,
                    opened_at=instant(db.now_us),
                    free_slots=session.slots,
                )
                row = db.sessions[session.id] = SessionRow(opened, ttl_us, db.now_us + ttl_us, db.now_us)
                db.history.note("opened", session=session.id, worker=session.worker)
            if row.session.tenant_id != session.tenant_id:
                raise AlreadyExists("request_id: in use; make a fresh one for each call")
            return _session(row)

        return await self._write("open", work)

    async def get(self, session: SessionId) -> Session | None:
        def work() -> Session | None:
            row = self._db.sessions.get(session)
            return None if row is None else _session(row)

        return await self._read("get_session", work)

    async def page(self, tenant: TenantId, before: SessionId | None, limit: int) -> list[Session]:
        def work() -> list[Session]:
            rows = [
                row
                for id, row in self._db.sessions.items()
                if row.session.tenant_id == tenant and row.closed_us is None and (before is None or id < before)
            ]
            rows.sort(key=lambda row: row.session.id, reverse=True)
            return [_session(row) for row in rows[:limit]]

        return await self._read("page_sessions", work)

    async def beat(self, beats: Sequence[BeatUpdate], coordinator: CoordinatorId) -> dict[SessionId, SessionState]:
        def work() -> dict[SessionId, SessionState]:
            found = {}
            for beat in beats:
                row = self._db.sessions.get(beat.session_id)
                if row is None or not self._db.guard("beat: not closed", row.closed_us is None):
                    continue
                row.expires_us = self._db.now_us + row.ttl_us
                row.last_beat_us = self._db.now_us
                row.session = replace(row.session, free_slots=beat.free_slots, coordinator=coordinator)
                found[beat.session_id] = row.session.state
                self._db.history.note("beat", session=beat.session_id)
            return found

        return await self._write("beat", work, "terms")

    async def set_state(self, tenant: TenantId, session: SessionId, state: SessionState) -> Session | None:
        def work() -> Session | None:
            row = self._db.sessions.get(session)
            if row is None or row.session.tenant_id != tenant or row.closed_us is not None:
                return None
            row.session = replace(row.session, state=max(row.session.state, state))
            if state is SessionState.CLOSED:
                row.closed_us = self._db.now_us
                self._db.history.note("closed", session=session, why="asked")
            return _session(row)

        return await self._write("set_state", work)

    async def expire(self) -> list[SessionId]:
        def work() -> list[SessionId]:
            gone = [
                id
                for id, row in self._db.sessions.items()
                if row.closed_us is None and self._db.guard("expire: time is over", row.expires_us <= self._db.now_us)
            ]
            for id in gone:
                row = self._db.sessions[id]
                row.session = replace(row.session, state=SessionState.CLOSED)
                row.closed_us = self._db.now_us
                self._db.history.note("closed", session=id, why="expired")
            return gone

        return await self._write("expire", work, "terms")

    async def grant_amnesty(self, silent_s: float) -> int:
        def work() -> int:
            since_us = self._db.now_us - round(silent_s * 1e6)
            spared = [row for row in self._db.sessions.values() if row.closed_us is None and row.expires_us > since_us]
            for row in spared:
                row.expires_us = self._db.now_us + row.ttl_us
            if spared:
                self._db.history.note("amnesty", sessions=len(spared), silent_s=silent_s)
            return len(spared)

        return await self._write("grant_amnesty", work, "terms")


class FakeShards(_Port):
    """ShardStore."""

    async def register(
        self, coordinator: CoordinatorId, address: str, version: str, term_s: float, peer_address: str = ""
    ) -> bool:
        def work() -> bool:
            db = self._db
            if coordinator in db.coordinators:
                raise UniqueViolation(coordinator)
            for id, row in list(db.coordinators.items()):
                if row.address == address:
                    del db.coordinators[id]
            until_us = db.now_us + round(term_s * 1e6)
            db.coordinators[coordinator] = CoordinatorRow(address, peer_address, until_us)
            db.history.note("registered", coordinator=coordinator, address=address, until_us=until_us)
            return not any(db.coordinator_alive(id) for id in db.coordinators if id != coordinator)

        return await self._write("register", work, "terms")

    async def renew(self, coordinator: CoordinatorId, term_s: float) -> tuple[bool, datetime]:
        def work() -> tuple[bool, datetime]:
            db = self._db
            row = db.coordinators.get(coordinator)
            alive = row is not None and db.guard("renew: alive", db.coordinator_alive(coordinator))
            if row is not None and alive:
                row.until_us = db.now_us + round(term_s * 1e6)
                db.history.note("renewed", coordinator=coordinator, until_us=row.until_us)
            return alive, instant(db.now_us)

        return await self._write("renew", work, "terms")

    async def roster(self) -> Roster:
        def work() -> Roster:
            db = self._db
            living = tuple(
                Colleague(id, row.peer_address, (row.until_us - db.now_us) / 1e6, row.draining)
                for id, row in db.coordinators.items()
                if db.coordinator_alive(id)
            )
            return Roster(living, {number: (shard.epoch, shard.owner) for number, shard in db.shards.items()})

        return await self._read("roster", work, "terms")

    async def acquire(
        self, coordinator: CoordinatorId, limit: int, only: Sequence[ShardNo] | None = None
    ) -> list[ShardTerm]:
        def work() -> list[ShardTerm]:
            db = self._db
            if not db.guard("acquire: alive", db.coordinator_alive(coordinator)):
                return []
            terms = []
            for number, shard in db.shards.items():
                if only is not None and number not in only:
                    continue
                free = db.guard("acquire: free", not db.coordinator_alive(shard.owner))
                if not free or len(terms) == limit or shard.epoch >= limits.EPOCH_MAX:
                    continue
                shard.owner = coordinator
                shard.epoch += db.intact("acquire: epoch grows")
                terms.append(ShardTerm(number, shard.epoch, coordinator))
                db.history.note("acquired", shard=number, epoch=shard.epoch, owner=coordinator)
            return terms

        return await self._write("acquire", work, "terms")

    async def give_up(self, coordinator: CoordinatorId, shards: Sequence[ShardNo]) -> list[ShardNo]:
        def work() -> list[ShardNo]:
            owned = [n for n in shards if self._db.guard("give_up: owner", self._db.shards[n].owner == coordinator)]
            self._free(owned, coordinator, "give_up: epoch grows")
            return owned

        return await self._write("give_up", work, "terms")

    async def drain(self, coordinator: CoordinatorId) -> None:
        def work() -> None:
            row = self._db.coordinators.get(coordinator)
            if row is not None:
                row.draining = True

        await self._write("drain", work, "terms")

    async def release(self, coordinator: CoordinatorId) -> None:
        def work() -> None:
            owned = [number for number, shard in self._db.shards.items() if shard.owner == coordinator]
            self._free(owned, coordinator, "release: epoch grows")
            self._db.coordinators.pop(coordinator, None)

        await self._write("release", work, "terms")

    def _free(self, shards: Iterable[ShardNo], coordinator: CoordinatorId, guard: str) -> None:
        for number in shards:
            shard = self._db.shards[number]
            shard.owner = None
            shard.epoch += self._db.intact(guard)
            self._db.history.note("released", shard=number, epoch=shard.epoch, owner=coordinator)

    async def set_watermarks(self, marks: Mapping[ShardNo, int], coordinator: CoordinatorId) -> None:
        def work() -> None:
            for number, mark_us in marks.items():
                shard = self._db.shards[number]
                if self._db.guard("set_watermarks: owner", shard.owner == coordinator):
                    shard.watermark_us = mark_us

        await self._write("set_watermarks", work, "terms")

    async def watermarks(self, shards: Sequence[ShardNo]) -> dict[ShardNo, int]:
        def work() -> dict[ShardNo, int]:
            found = {number: self._db.shards[number].watermark_us for number in shards}
            return {number: mark_us for number, mark_us in found.items() if mark_us is not None}

        return await self._read("watermarks", work, "terms")


class FakeHistory(_Port):
    """HistoryStore, with one partition for everything."""

    async def make_partitions(self, days_ahead: int) -> list[str]:
        return await self._write("make_partitions", list)

    async def drop_partitions(self, older_than_s: float) -> list[str]:
        return await self._write("drop_partitions", list)

    async def forget_schedules(self, older_than_s: float, limit: int) -> int:
        return await self._write("forget_schedules", lambda: 0)

    async def delete_requests(self, older_than_s: float, limit: int) -> int:
        def work() -> int:
            db, since_us = self._db, self._db.now_us - round(older_than_s * 1e6)
            gone: list[Callable[[], object]] = []
            windows = [
                (h.until_us, k) for k, h in db.holds.items() if h.until_us is not None and h.until_us < db.now_us
            ]
            ended = [k for k, h in db.holds.items() if h.until_us is None and (k[0], h.job) not in db.jobs]
            closed = [k for k, s in db.sessions.items() if s.closed_us is not None and s.closed_us < since_us]
            old = [(r.created_us, k) for k, r in db.requests.items() if r.created_us < since_us]
            gone += [lambda k=k: db.requests.pop(k) for _, k in sorted(old)[:limit]]
            gone += [lambda k=k: db.holds.pop(k) for _, k in sorted(windows)[:limit]]
            gone += [lambda k=k: db.holds.pop(k) for k in ended[:limit]]
            gone += [lambda k=k: db.sessions.pop(k) for k in closed[:limit]]
            for forget in gone:
                forget()
            return len(gone)

        return await self._write("delete_requests", work)


def _create(db: Tables, calls: Collection[CreateCall]) -> dict[JobId, Created]:
    created: dict[JobId, Created] = {}
    named = [(call.tenant_id, call.method, call.request_id) for call in calls if call.request_id]
    assert len(named) == len(set(named)), "two calls of one batch share a request_id"
    for call in calls:
        if call.request_id:
            key = (call.tenant_id, call.method, call.request_id)
            if not db.guard("create: request_id is fresh", key not in db.requests):
                continue
            db.requests[key] = Request(call.digest, tuple(spec.id for spec in call.specs), db.now_us)
        created |= _insert(db, call.specs, call.request_id)
    return created


def _insert(db: Tables, specs: Iterable[JobSpec], request_id: str, parent: JobId | None = None) -> dict[JobId, Created]:
    created = {}
    now_us = db.now_us
    for spec in specs:
        wanted_us = now_us + round(spec.delay_s * 1e6) if spec.run_time is None else micros(spec.run_time)
        due_us = max(now_us, wanted_us)
        start_by_s, total_s = spec.timeouts.start_by_s, spec.timeouts.total_s
        row = JobRow(
            # The columns that hold policies keep numbers, not the caller's objects.
            replace(spec, retry=_stored(spec.retry), timeouts=replace(spec.timeouts)),
            now_us,
            due_us,
            None if start_by_s is None else due_us + round(start_by_s * 1e6),
            None if total_s is None else due_us + round(total_s * 1e6),
        )
        db.jobs[row.key] = row
        created[spec.id] = Created(spec.id, due_us, instant(now_us))
        db.history.note(
            "created",
            job=spec.id,
            shard=spec.shard,
            due_us=due_us,
            start_by_us=row.start_by_us,
            deadline_us=row.deadline_us,
            max_attempts=spec.retry.max_attempts,
            run_s=spec.timeouts.run_s,
            type=spec.type,
            request=request_id,
            parent=parent,
            dedupe=_dedupe_key(spec) if spec.dedupe else None,
            window_s=spec.dedupe.window_s if spec.dedupe else None,
        )
    return created


def _stored(retry: RetryPolicy) -> RetryPolicy:
    return replace(retry, non_retryable_types=tuple(retry.non_retryable_types))


def _entry(row: JobRow) -> Entry:
    spec = row.spec
    return Entry(
        spec.tenant_id,
        spec.id,
        spec.shard,
        spec.queue,
        spec.type,
        spec.priority,
        row.due_us,
        _weight(spec),
        row.start_by_s,
        spec.concurrency_key,
    )


def _dedupe_key(spec: JobSpec) -> DedupeKey:
    assert spec.dedupe is not None
    scope = spec.dedupe.scope
    within = {DedupeScope.TYPE: spec.type, DedupeScope.QUEUE: spec.queue, DedupeScope.TENANT: ""}[scope]
    return spec.tenant_id, scope, within, spec.dedupe.key


def _weight(spec: JobSpec) -> int:
    headers = json.dumps(dict(spec.headers), ensure_ascii=False) if spec.headers else ""
    return limits.LEASE_OVERHEAD_BYTES + len(spec.payload.data) + len(headers.encode())


def _session(row: SessionRow) -> Session:
    return replace(row.session, last_beat_at=instant(row.last_beat_us), expires_at=instant(row.expires_us))


def _matches(job: Job, where: JobFilter) -> bool:
    return (
        (not where.queue or job.queue == where.queue)
        and (not where.type or job.type == where.type)
        and (where.state is None or job.state is where.state)
        and (not where.labels or where.labels.items() <= job.labels.items())
    )
