"""The store's parts over one database, and short ways to bring a job to any point of its life.

A world has a tenant of its own, so that many tests share one database. It owns every shard: opening a world takes them
from the world before.
"""

import asyncio
import itertools
import random
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import psycopg

from rota.domain import limits
from rota.domain.fairness import Entry
from rota.domain.ids import (
    CoordinatorId,
    Fence,
    JobId,
    SessionId,
    ShardNo,
    TenantId,
    mint_fence,
    shard_of,
    uuid7,
)
from rota.domain.model import (
    DeadCause,
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
    Session,
    SessionState,
)
from rota.domain.transition import Decision, Finish, Requeue
from rota.store.deadletters import PgDeadLetters
from rota.store.deadport import DeadTransaction
from rota.store.effects import PgEffects
from rota.store.engine import Database, Row
from rota.store.history import PgHistory
from rota.store.identity import PgIdentity
from rota.store.jobs import PgJobs
from rota.store.leases import PgLeases
from rota.store.outcomes import PgOutcomes
from rota.store.port import Claim, CreateCall, Decided
from rota.store.queues import PgQueues
from rota.store.readers import PgJobReader
from rota.store.sessions import PgSessions
from rota.store.shards import PgShards

METHOD = 1
NO_DIGEST = b""

_tenants = itertools.count(1_000)
_numbers = itertools.count(1)


_TAKE_ALL = """
WITH me AS (
    INSERT INTO coordinators (id, address, version, expires_at)
    VALUES (%(id)s::uuid, %(address)s, '0', now() + interval '1 hour') RETURNING id
)
UPDATE shards s SET owner = me.id, epoch = s.epoch + 1 FROM me RETURNING s.shard, s.epoch
"""

_BLOCKED = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0
"""


def fresh_id() -> str:
    """Ids in the order in which they were made."""
    number = next(_numbers)
    return uuid7(1_774_000_000_000 + number, number)


@dataclass(frozen=True, slots=True)
class Held:
    """A leased job."""

    spec: JobSpec
    grant: Grant

    @property
    def id(self) -> JobId:
        return self.spec.id

    @property
    def fence(self) -> Fence:
        return self.grant.fence

    @property
    def key(self) -> tuple[JobId, Fence]:
        return self.spec.id, self.grant.fence


class World:
    rng = random.Random(7)

    def __init__(self, url: str) -> None:
        self.url = url
        self.db = Database(url)
        self.jobs = PgJobs(self.db)
        self.reader = PgJobReader(self.db)
        self.leases = PgLeases(self.db)
        self.outcomes = PgOutcomes(self.db)
        self.effects = PgEffects(self.db)
        self.sessions = PgSessions(self.db)
        self.shards = PgShards(self.db)
        self.identity = PgIdentity(self.db)
        self.history = PgHistory(self.db)
        self.dead = PgDeadLetters(self.db)
        self.queues = PgQueues(self.db)
        self.tenant = TenantId(next(_tenants))
        self.owner = CoordinatorId(fresh_id())
        self.epochs: dict[ShardNo, int] = {}
        self._counters = itertools.count(1)

    async def __aenter__(self) -> Self:
        rows = await self.sql(_TAKE_ALL, id=self.owner, address=f"test/{self.owner}")
        self.epochs = {ShardNo(shard): epoch for shard, epoch in rows}
        assert len(self.epochs) == limits.SHARD_COUNT
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.db.close()

    async def sql(self, statement: str, **params: object) -> list[Row]:
        return await self.db.writes.run(statement, params)

    async def value(self, statement: str, **params: object) -> Any:
        return (await self.sql(statement, **params))[0][0]

    async def count(self, table: str, job: JobId | None = None) -> int:
        """Rows of the tenant in a table, or of one job."""
        column = "job_id" if table in ("attempts", "dedupe_keys") else "id"
        where = "" if job is None else f" AND {column} = %(job)s::uuid"
        found: int = await self.value(
            f"SELECT count(*) FROM {table} WHERE tenant_id = %(tenant)s{where}", tenant=self.tenant, job=job
        )
        return found

    async def now(self) -> datetime:
        found: datetime = await self.value("SELECT now()")
        return found

    async def pass_time(self, job: JobId, seconds: float) -> None:
        """Moves a live job's instants into the past, as if it had waited."""
        await self.sql(
            """UPDATE jobs SET due_at = due_at - s, leased_at = leased_at - s, start_by = start_by - s,
               deadline_at = deadline_at - s
               FROM (SELECT %(seconds)s::float8 * interval '1 second' AS s) x WHERE id = %(job)s::uuid""",
            seconds=seconds,
            job=job,
        )

    async def until_blocked(self, statements: int = 1) -> None:
        """Waits until so many statements of this database wait for a lock."""
        for _ in range(1_000):
            if (await self.db.reads.run(_BLOCKED, {}, write=False))[0][0] >= statements:
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"expected {statements} statements that wait for a lock")

    async def in_order(self, job: JobId, first: Awaitable[object], second: Awaitable[object]) -> list[object]:
        """What became of two that want to write one job: its row is held until the first waits for it, and then the
        second. PostgreSQL lets them through as they came."""
        async with await psycopg.AsyncConnection.connect(self.url) as conn:
            await conn.execute("SELECT FROM jobs WHERE id = %s FOR UPDATE", [job])
            one = asyncio.ensure_future(first)
            await self.until_blocked(1)
            two = asyncio.ensure_future(second)
            await self.until_blocked(2)
        return await asyncio.gather(one, two, return_exceptions=True)

    def spec(self, **changes: Any) -> JobSpec:
        tenant = changes.pop("tenant_id", self.tenant)
        id = changes.pop("id", None) or JobId(fresh_id())
        plain = JobSpec(tenant, id, shard_of(tenant, id), "mail.send", "default", 4, Payload(b"body", "text/plain"))
        return replace(plain, **changes)

    def call(
        self, *specs: JobSpec, request_id: str = "", digest: bytes = NO_DIGEST, method: int = METHOD
    ) -> CreateCall:
        return CreateCall(specs, specs[0].tenant_id, method, request_id, digest)

    def entry(self, spec: JobSpec) -> Entry:
        return Entry(
            spec.tenant_id,
            spec.id,
            spec.shard,
            spec.queue,
            spec.type,
            spec.priority,
            0,
            len(spec.payload.data),
            concurrency_key=spec.concurrency_key,
        )

    def mint(self, shard: ShardNo) -> Fence:
        return mint_fence(self.epochs[shard], next(self._counters))

    def session(self, **changes: Any) -> Session:
        instant = datetime(1970, 1, 1, tzinfo=UTC)
        plain = Session(
            id=SessionId(fresh_id()),
            tenant_id=self.tenant,
            epoch=0,
            worker="worker-1",
            sdk="python/1",
            build_id="b7",
            queues=("default",),
            types=(),
            slots=10,
            labels={},
            protocol_version=1,
            state=SessionState.ACTIVE,
            opened_at=instant,
            last_beat_at=instant,
            expires_at=instant,
            free_slots=10,
            coordinator=self.owner,
        )
        return replace(plain, **changes)

    async def create(self, *specs: JobSpec) -> None:
        created = await self.jobs.create([self.call(*specs)])
        assert set(created) == {spec.id for spec in specs}

    async def new_session(self, ttl_s: float = 60.0, **changes: Any) -> SessionId:
        return (await self.sessions.open(self.session(**changes), ttl_s)).id

    async def claim(self, spec: JobSpec, session: SessionId, fence: Fence | None = None) -> Grant | None:
        claim = Claim(self.entry(spec), fence or self.mint(spec.shard), session)
        granted = await self.leases.claim([claim], self.owner)
        return granted[0] if granted else None

    async def lease(self, spec: JobSpec | None = None, session: SessionId | None = None, **changes: Any) -> Held:
        """A job, created where it is new, and leased."""
        if spec is None:
            spec = self.spec(**changes)
            await self.create(spec)
        grant = await self.claim(spec, session or await self.new_session())
        assert grant is not None, "the job could not be leased"
        return Held(spec, grant)

    def result(self, held: Held, outcome: Outcome = Outcome.SUCCEEDED, **changes: Any) -> Result:
        plain = Result(held.spec.tenant_id, held.grant.session_id, held.id, held.fence, outcome)
        return replace(plain, **changes)

    async def live(self, job: JobId, tenant: TenantId | None = None) -> LiveJob:
        found, _ = await self.outcomes.live([(tenant or self.tenant, job)])
        return found[job]

    async def is_live(self, job: JobId) -> bool:
        return job in (await self.outcomes.live([(self.tenant, job)]))[0]

    async def decide(
        self,
        job: JobId,
        decision: Decision,
        outcome: Outcome | None,
        failure: Failure | None = None,
        effect_state: EffectState = EffectState.UNSPECIFIED,
    ) -> Decided:
        return Decided(await self.live(job), decision, outcome, failure, "r-1", effect_state)

    async def apply(self, decided: Decided) -> bool:
        """Writes a decision; whether it was applied."""
        if isinstance(decided.decision, Requeue):
            done = await self.outcomes.requeue([decided])
        elif decided.decision.state is JobState.DEAD:
            done = await self.outcomes.bury([decided])
        else:
            done = await self.outcomes.finish([decided])
        assert done <= {(decided.job.id, decided.job.fence)}
        return bool(done)

    async def fail(self, held: Held, wait_s: float = 0.0, failure: Failure | None = None) -> None:
        """One counted failed attempt, and the job waits again."""
        due_at = await self.now() + timedelta(seconds=wait_s)
        decision = Requeue(JobState.RETRY_WAIT, due_at, counted=True)
        assert await self.apply(await self.decide(held.id, decision, Outcome.FAILED, failure or Failure("E", "boom")))

    async def bury(
        self, held: Held, failure: Failure | None = None, cause: DeadCause = DeadCause.ATTEMPTS_EXHAUSTED
    ) -> None:
        decision = Finish(JobState.DEAD, counted=True, reason="all used up", cause=cause)
        assert await self.apply(await self.decide(held.id, decision, Outcome.FAILED, failure or Failure("E", "last")))

    async def letter(self, **changes: Any) -> JobId:
        """A dead job after one attempt. `failure` and `cause` are its death's, the rest its spec's."""
        death = {name: changes.pop(name) for name in ("failure", "cause") if name in changes}
        held = await self.lease(**changes)
        await self.bury(held, **death)
        return held.id

    async def revive(self, *jobs: JobId, new_generation: bool = False, redrives_max: int | None = None) -> list[Entry]:
        async def work(tx: DeadTransaction) -> list[Entry]:
            return await tx.revive(self.tenant, jobs, "key-1", new_generation=new_generation, redrives_max=redrives_max)

        return await self.dead.transact(work)

    async def succeed(self, held: Held, **changes: Any) -> bool:
        return held.key in await self.outcomes.succeed([self.result(held, **changes)])

    async def cancelling(self, held: Held, reason: str = "enough") -> None:
        assert await self.jobs.set_cancelling(held.spec.tenant_id, held.id, held.fence, reason)

    async def cancel(self, spec: JobSpec) -> None:
        """Cuts a job off, whatever it does."""
        live = await self.live(spec.id)
        leased = live.state in (JobState.LEASED, JobState.CANCELLING)
        decision = Finish(JobState.CANCELLED, counted=leased, reason="not wanted")
        assert await self.apply(await self.decide(spec.id, decision, Outcome.CANCELLED if leased else None))

    async def job(self, job: JobId) -> Job:
        return (await self.reader.get(self.tenant, [job]))[job]

    async def where(self, job: JobId) -> list[str]:
        """The tables that hold a job."""
        return [table for table in ("jobs", "dead_jobs", "finished_jobs") if await self.count(table, job)]


def ids(specs: Sequence[JobSpec]) -> set[JobId]:
    return {spec.id for spec in specs}
