"""Two stores by one clock, PostgreSQL and the simulation's, and a machine that asks both of them everything."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from hypothesis.stateful import RuleBasedStateMachine

from rota.domain.errors import RotaError
from rota.store.codec import instant
from rota.store.engine import Database
from rota.store.fires import PgFires
from rota.store.history import PgHistory
from rota.store.jobs import PgJobs
from rota.store.leases import PgLeases
from rota.store.outcomes import PgOutcomes
from rota.store.readers import PgJobReader
from rota.store.schedules import PgSchedules
from rota.store.sessions import PgSessions
from rota.store.shards import PgShards
from tests.sim.fake_store import (
    FakeFires,
    FakeHistory,
    FakeJobReader,
    FakeJobs,
    FakeLeases,
    FakeOutcomes,
    FakeSchedules,
    FakeSessions,
    FakeShards,
    Tables,
    UniqueViolation,
)
from tests.sim.history import History

T = TypeVar("T")

START_US = 1_767_225_600_000_000

CLOCK = """
CREATE SCHEMA sim;
CREATE TABLE sim.clock AS SELECT timestamptz 'epoch' AS instant;
CREATE FUNCTION sim.now() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT instant FROM sim.clock';
CREATE FUNCTION sim.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT sim.now()';
CREATE FUNCTION sim.clock_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT sim.now()';
"""

EMPTY = """
DELETE FROM jobs; DELETE FROM finished_jobs; DELETE FROM dead_jobs; DELETE FROM attempts; DELETE FROM requests;
DELETE FROM dedupe_keys; DELETE FROM sessions; DELETE FROM coordinators; DELETE FROM schedules;
DELETE FROM schedule_timers; DELETE FROM occurrences; DELETE FROM deleted_schedules; DELETE FROM backfills;
UPDATE shards SET epoch = 0, owner = NULL, watermark = NULL WHERE epoch > 0 OR watermark IS NOT NULL;
"""


class Clock:
    """The one clock of both."""

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self._connection = connection
        self._now_us = START_US

    def now_us(self) -> int:
        return self._now_us

    def set(self, now_us: int) -> None:
        self._now_us = now_us
        self._connection.execute("UPDATE sim.clock SET instant = %s", (instant(now_us),))


@dataclass(frozen=True, slots=True)
class Stores:
    """The ports, by either."""

    jobs: Any
    reader: Any
    leases: Any
    outcomes: Any
    sessions: Any
    shards: Any
    history: Any
    schedules: Any
    fires: Any


@dataclass(frozen=True, slots=True)
class Rig:
    """What all examples share: a database, its connections, and the loop that they live in."""

    connection: "psycopg.Connection[Any]"
    loop: asyncio.AbstractEventLoop
    real: Stores


@contextmanager
def side_by_side(database: str) -> Iterator[Rig]:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(CLOCK)
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} SET search_path = sim, public, pg_catalog")  # type: ignore[arg-type]
        loop = asyncio.new_event_loop()
        db = Database(database)
        yield Rig(
            connection,
            loop,
            Stores(
                PgJobs(db),
                PgJobReader(db),
                PgLeases(db),
                PgOutcomes(db),
                PgSessions(db),
                PgShards(db),
                PgHistory(db),
                PgSchedules(db),
                PgFires(db),
            ),
        )
        loop.run_until_complete(db.close())
        loop.close()


class SideBySide(RuleBasedStateMachine):
    def __init__(self, rig: Rig) -> None:
        super().__init__()
        self._rig = rig
        rig.connection.execute(EMPTY)
        self.clock = Clock(rig.connection)
        self.clock.set(START_US)
        tables = self.tables = Tables(self.clock, History(lambda: 0.0, self.clock.now_us))
        self.fake = Stores(
            FakeJobs(tables),
            FakeJobReader(tables),
            FakeLeases(tables),
            FakeOutcomes(tables),
            FakeSessions(tables),
            FakeShards(tables),
            FakeHistory(tables),
            FakeSchedules(tables),
            FakeFires(tables),
        )

    def both(self, call: Callable[[Stores], Awaitable[T]], normal: Callable[[T], object] = lambda found: found) -> T:
        """The answer of both, which is the same; a refusal that is the same is raised."""
        expected, refusal = self._ask(call, self._rig.real)
        found, other = self._ask(call, self.fake)
        assert _kind(other) == _kind(refusal), f"PostgreSQL: {refusal!r}, the simulation: {other!r}"
        if refusal is not None:
            raise Refused from refusal
        theirs, mine = normal(expected), normal(found)
        assert mine == theirs, f"PostgreSQL: {theirs}\nthe simulation: {mine}"
        return expected  # type: ignore[return-value]

    def _ask(self, call: Callable[[Stores], Awaitable[T]], stores: Stores) -> tuple[T | None, Exception | None]:
        work = call(stores)
        assert isinstance(work, Coroutine)
        try:
            return self._rig.loop.run_until_complete(work), None
        except (RotaError, UniqueViolation, psycopg.errors.UniqueViolation) as refusal:
            return None, refusal

    def refusable(
        self, call: Callable[[Stores], Awaitable[T]], normal: Callable[[T], object] = lambda found: found
    ) -> T | None:
        try:
            return self.both(call, normal)
        except Refused:
            return None


class Refused(Exception):
    """By both, in the same words."""


def of(issued: Sequence[T], number: int) -> T:
    """One of them; small numbers, of which there are most, mean the newest."""
    return issued[-1 - number % len(issued)]


def _kind(refusal: Exception | None) -> tuple[str, str]:
    return type(refusal).__name__, getattr(refusal, "reason", "")
