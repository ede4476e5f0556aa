"""Schedules over a real PostgreSQL whose clock the test moves: nine hours pass in a statement.

The database's `now()`, `statement_timestamp()` and `clock_timestamp()` are found in a schema of the test before
PostgreSQL's own.
"""

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import psycopg

from rota.clock import DatabaseClock, SystemClock
from rota.coordinator.materializer import Materializer
from rota.coordinator.memory import Memory
from rota.coordinator.peers import Peers
from rota.coordinator.sweeper import Sweeper
from rota.domain.ids import JobId, SessionId
from rota.domain.model import Failure, Grant, Identity, Outcome, Payload, Result, Role, ShardTerm
from rota.domain.rulespec import RuleKind
from rota.domain.schedule import (
    Definition,
    Fate,
    JobTemplate,
    MissedPolicy,
    Occurrence,
    OverlapPolicy,
    Schedule,
    Timing,
)
from rota.service.backfills import Backfills
from rota.service.calendars import Calendars
from rota.service.completions import Completions
from rota.service.drafts import Draft
from rota.service.fires import Fires
from rota.service.jobs import Jobs
from rota.service.repairs import Repairs
from rota.service.schedules import Schedules, Triggered
from rota.store.fires import PgFires
from rota.store.port import Claim
from rota.store.scheduleport import OccurrenceFilter, RequestKey
from rota.store.schedules import PgSchedules
from rota.telemetry import Metrics

from ..store.world import World

START = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
"""A Monday."""

CLOCK = """
CREATE SCHEMA sim;
CREATE TABLE sim.clock AS SELECT timestamptz '2026-03-02 10:00:00Z' AS instant;
CREATE FUNCTION sim.now() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT instant FROM sim.clock';
CREATE FUNCTION sim.clock_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT instant FROM sim.clock';
CREATE FUNCTION sim.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT instant FROM sim.clock';
"""

NO_REQUEST = RequestKey(1, "", b"")
MINUTELY = Timing(RuleKind.CRON, expression="* * * * *")


class MovedClock(SystemClock):
    """Counts what the test lets pass."""

    def __init__(self) -> None:
        super().__init__(random.Random(7))
        self.now = START

    def monotonic(self) -> float:
        return self.now.timestamp()

    def utc(self) -> datetime:
        return self.now

    async def sleep(self, seconds: float) -> None:
        await super().sleep(0)


def set_up_clock(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(CLOCK)
        name = conn.info.dbname
        conn.execute(f"ALTER DATABASE {name} SET search_path = sim, public, pg_catalog")  # type: ignore[arg-type]


def timing(expression: str = "* * * * *", **fields: Any) -> Timing:
    return replace(Timing(RuleKind.CRON, expression=expression), **fields)


def every(seconds: float, **fields: Any) -> Timing:
    return replace(Timing(RuleKind.INTERVAL, every_s=seconds), **fields)


class Clockwork(World):
    """A coordinator's schedules without its servers; the owner of every shard."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.clock = MovedClock()
        self.metrics = Metrics()
        self.identity_ = Identity(self.tenant, f"tenant-{self.tenant}", "key-1", frozenset({Role.CLIENT}))
        self.schedules_store = PgSchedules(self.db)
        self.fires_store = PgFires(self.db)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.restart()
        await self.set(START)
        return self

    def restart(self) -> None:
        """A new process: nothing in memory."""
        self.database_clock = DatabaseClock(self.clock)
        self.database_clock.observe(self.clock.now, self.clock.monotonic())
        self.memory = Memory(self.database_clock, self.metrics, Peers(self.owner, self.clock, None))
        self.memory.terms = {s: ShardTerm(s, epoch, self.owner) for s, epoch in self.epochs.items()}
        self.jobs_service = Jobs(self.jobs, self.reader, self.outcomes, self.memory, self.metrics)
        self.completions = Completions(self.outcomes, self.memory, self.clock, self.metrics, None)
        args = (self.clock, self.database_clock)
        self.schedules = Schedules(self.schedules_store, self.jobs_service, self.memory, *args, self.metrics, None)
        self.calendars = Calendars(self.schedules_store, self.memory, self.clock)
        self.backfills = Backfills(self.schedules_store, self.fires_store, self.memory, *args, None)
        self.fires = Fires(
            self.fires_store,
            self.schedules,
            self.jobs_service,
            self.owner,
            self.memory,
            *args,
            self.metrics,
            None,
        )
        self.materializer = Materializer(self.memory, self.fires_store, self.fires, self.backfills, *args)
        repairs = Repairs(self.fires_store, self.fires, self.owner, self.metrics)
        self.sweeper = Sweeper(self.memory, self.fires_store, repairs, *args)

    async def set(self, now: datetime) -> None:
        self.clock.now = now
        await self.sql("UPDATE sim.clock SET instant = %(now)s", now=now)
        self.database_clock.observe(now, self.clock.monotonic())

    async def sleep(self, seconds: float) -> None:
        """Time passes, and nobody does anything."""
        await self.set(self.clock.now + timedelta(seconds=seconds))

    async def settle(self, rounds_max: int = 2_000) -> None:
        """The materializer until it has nothing to do at this instant."""
        for _ in range(rounds_max):
            if await self.materializer.step() > 0:
                return
        raise AssertionError("the materializer does not come to rest")

    async def go(self, seconds: float, tick: float = 1.0) -> None:
        """Time passes while the materializer works."""
        until = self.clock.now + timedelta(seconds=seconds)
        while self.clock.now < until:
            await self.set(min(self.clock.now + timedelta(seconds=tick), until))
            await self.settle()

    async def create(
        self,
        id: str = "s",
        timing: Timing = MINUTELY,
        *,
        missed: MissedPolicy | None = None,
        overlap: OverlapPolicy | None = None,
        paused: bool = False,
        job: JobTemplate | None = None,
        **fields: Any,
    ) -> Schedule:
        definition = Definition(
            timing,
            job or JobTemplate(type="t"),
            missed=missed or MissedPolicy(),
            overlap=overlap or OverlapPolicy(),
            **fields,
        )
        draft = Draft(id, definition, paused=paused)
        return (await self.schedules.create(self.identity_, [draft], NO_REQUEST))[0]

    async def get(self, id: str = "s") -> Schedule:
        return await self.schedules.get(self.identity_, id)

    async def edit(self, id: str = "s", *, etag: str = "", **fields: Any) -> Schedule:
        return await self.schedules.update(
            self.identity_, id, lambda old: replace(old, **fields), etag=etag, request=NO_REQUEST
        )

    async def pause(self, id: str = "s", reason: str = "") -> Schedule:
        return await self.schedules.pause(self.identity_, id, reason, etag="")

    async def resume(self, id: str = "s", catch_up: MissedPolicy | None = None) -> Schedule:
        return await self.schedules.resume(self.identity_, id, "", etag="", catch_up=catch_up)

    async def trigger(
        self,
        id: str = "s",
        *,
        force: bool = False,
        payload: Payload | None = None,
        reason: str = "",
        request: RequestKey = NO_REQUEST,
    ) -> Triggered:
        return await self.schedules.trigger(
            self.identity_, id, force=force, payload=payload, reason=reason, request=request
        )

    async def ledger(self, id: str = "s", **where: Any) -> list[Occurrence]:
        """Oldest first."""
        found: list[Occurrence] = []
        before: tuple[datetime, int] | None = None
        while True:
            page = await self.schedules.occurrences(self.identity_, id, OccurrenceFilter(**where), before, 1_000)
            found += page
            if len(page) < 1_000:
                return found[::-1]
            before = page[-1].nominal, page[-1].generation

    async def fates(self, id: str = "s") -> dict[str, int]:
        """How many met each fate, by the ledger."""
        counts: dict[str, int] = {}
        for each in await self.ledger(id):
            counts[each.fate.name] = counts.get(each.fate.name, 0) + each.count
        return counts

    async def live(self, id: str = "s") -> list[Any]:
        """Live jobs of a schedule as (id, state, nominal time, due time), oldest first."""
        uid = (await self.get(id)).uid
        return await self.sql(
            "SELECT id::text, state, nominal_at, due_at FROM jobs WHERE schedule_uid = %(uid)s::uuid "
            "ORDER BY nominal_at, occurrence_generation",
            uid=uid,
        )

    async def lease(self, id: str = "s") -> Grant:
        """The oldest due job of a schedule, by a worker."""
        for job, state, _, due_at in await self.live(id):
            if state in (1, 4) and due_at <= self.clock.now:
                return await self.lease_job(JobId(job))
        raise AssertionError("no job is due")

    async def lease_job(self, job: JobId) -> Grant:
        row = (await self.reader.get(self.tenant, [job]))[job]
        shard = (await self.sql("SELECT shard FROM jobs WHERE id = %(job)s::uuid", job=job))[0][0]
        spec = self.spec(id=job, shard=shard, type=row.type, queue=row.queue)
        session = await self.sessions.open(self.session(), 60.0)
        (grant,) = await self.leases.claim([Claim(self.entry(spec), self.mint(shard), session.id)], self.owner)
        return grant

    async def complete(self, grant: Grant) -> None:
        await self._settle(grant, Outcome.SUCCEEDED, None)

    async def fail(self, grant: Grant) -> None:
        await self._settle(grant, Outcome.FAILED, Failure("Error", "boom"))

    async def _settle(self, grant: Grant, outcome: Outcome, failure: Failure | None) -> None:
        result = Result(self.tenant, SessionId(grant.session_id), grant.job_id, grant.fence, outcome, failure=failure)
        (answer,) = await self.completions.settle([result])
        assert not isinstance(answer, Exception), answer

    async def check(self, *ids: str) -> None:
        """The sum of the fates is the number of occurrences of the rule, by ledger and by counts."""
        for id in ids or ("s",):
            schedule = await self.get(id)
            ledger = [0] * len(Fate)
            for each in await self.ledger(id):
                if each.generation == 0 and each.fate is not Fate.SUPERSEDED:
                    ledger[each.fate - 1] += each.count
            assert tuple(ledger) == schedule.timer.fates, (id, ledger, schedule.timer.fates)
            jobs = [each.job_id for each in await self.ledger(id) if each.fate is Fate.FIRED]
            assert len(jobs) == len(set(jobs))

    def counted(self, metric: str, label: str = "") -> float:
        found = next(reading for spec, reading in self.metrics.readings() if spec.name == metric)
        assert isinstance(found, Mapping)
        return found.get(label, 0)

    def nominals(self, occurrences: Iterable[Occurrence]) -> list[str]:
        return [f"{each.nominal:%H:%M:%S}" for each in occurrences]
