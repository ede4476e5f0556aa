"""The plans of the hot statements, as they really ran: through the stores, over the connections that serve.

A plan depends on what the planner believed when it was made. So each statement runs on a table that was never
analysed, on one that was analysed while it was empty and is full of leases now, with the plan of that time, and on one
of a million rows; with the generic plan of a connection's prepared statement, and with one made for its very
parameters. What a plan must be is: the right index, and no more rows read than asked for.
"""

import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from rota.domain import limits
from rota.domain.fairness import FIRST, LaneKey, Position
from rota.domain.ids import ShardNo, TenantId
from rota.domain.model import Failure, JobState, Outcome, Payload
from rota.domain.transition import Finish, Requeue
from rota.store.embedded import EmbeddedPostgres
from rota.store.engine import Lane
from rota.store.port import BeatUpdate, Claim, Decided

from .world import Held, World, fresh_id

MILLION = 1_000_000
PAGE = 16

_BULK = """
INSERT INTO jobs (
    tenant_id, id, priority, generation, attempt, attempts_counted, max_attempts, run_timeout_ms, fence, due_at,
    created_at, type, queue, content_type, payload, shard, state, leased_at, session_id)
SELECT 1 + n % 3, ('01f0a000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 4, 0, 0, 0, 5, 3600000, 0,
       now() - interval '1 hour' + (n / 5000) * interval '1 second', now(), 't' || n % 5, 'bulk', '', '', n % 256,
       {state}, CASE WHEN {state} = 3 THEN now() END, CASE WHEN {state} = 3 THEN gen_random_uuid() END
FROM generate_series(1, {count}) n
"""

_OTHERS = """
INSERT INTO sessions (
    id, tenant_id, state, worker, sdk, build_id, queues, types, slots, free_slots, protocol_version, ttl_ms, opened_at,
    last_beat_at, expires_at)
SELECT gen_random_uuid(), n % 1000, 1, '', '', '', '{}', '{}', 1, 1, 1, 60000, now(), now(), now() + interval '1 hour'
FROM generate_series(1, 5000) n;
INSERT INTO requests (tenant_id, method, request_id, digest, answer)
SELECT 1, 1, 'bulk-' || gen_random_uuid(), '', '{}' FROM generate_series(1, 20000) n;
INSERT INTO attempts (tenant_id, job_id, fence, ended_at, number, leased_at, outcome)
SELECT 1 + n % 3, id, 1, now(), 1, now(), 2
FROM (SELECT row_number() OVER () AS n, id FROM jobs LIMIT 20000) j;
INSERT INTO dead_jobs (
    tenant_id, id, priority, generation, attempt, attempts_counted, max_attempts, run_timeout_ms, fence, due_at,
    created_at, type, queue, content_type, payload, died_at)
SELECT tenant_id, gen_random_uuid(), 4, 0, 1, 1, 1, 1000, 1, now(), now(), 't', 'bulk', '', '', now()
FROM jobs LIMIT 20000;
INSERT INTO finished_jobs (
    tenant_id, id, priority, generation, attempt, attempts_counted, max_attempts, run_timeout_ms, fence, due_at,
    created_at, type, queue, content_type, payload, state, finished_at, despite_cancel)
SELECT tenant_id, gen_random_uuid(), 4, 0, 1, 1, 1, 1000, 1, now(), now(), 't', 'bulk', '', '', 6, now(), false
FROM jobs LIMIT 20000
"""

# The jobs of a test lie before these in their tenant's part of the primary key, so that a look-up that does not end at
# its row reads on through all of them.
BULK_TENANT = TenantId(1)

# Every statement's plan, as executed, comes back to the client that ran it.
_EXPLAIN = {
    "session_preload_libraries": "'auto_explain'",
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_buffers": "on",
    "auto_explain.log_timing": "off",
    "auto_explain.log_format": "json",
    "auto_explain.log_level": "notice",
}


_TABLES = ("jobs", "sessions", "shards", "requests", "dead_jobs", "finished_jobs_other", "attempts_other")


def fill(url: str, count: int, state: JobState = JobState.SCHEDULED) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(_BULK.format(count=count, state=int(state)).encode())


def burst(url: str) -> None:
    """50,000 leased jobs, with sessions, requests and history to match."""
    fill(url, 50_000, JobState.LEASED)
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(_OTHERS)


class Plan:
    """One executed statement: `scans` are (kind, relation, index), each of a table or index that was read."""

    def __init__(self, text: str) -> None:
        found = json.loads(text[text.index("{") :])
        self.sql: str = found["Query Text"]
        self.nodes = list(_walk(found["Plan"]))

    @property
    def scans(self) -> set[tuple[str, str, str]]:
        return {
            (n["Node Type"], n.get("Relation Name", ""), n.get("Index Name", ""))
            for n in self.nodes
            if "Scan" in n["Node Type"] and ("Relation Name" in n or "Index Name" in n)
        }

    def rows_read(self, relation: str) -> float:
        """Rows that the scans of a table touched, those thrown away included."""
        return sum(
            (n["Actual Rows"] + n.get("Rows Removed by Filter", 0) + n.get("Rows Removed by Index Recheck", 0))
            * n["Actual Loops"]
            for n in self.nodes
            if n.get("Relation Name") == relation and "Scan" in n["Node Type"]
        )

    @property
    def most_rows(self) -> float:
        """The largest number of rows that any step made."""
        return max(n["Actual Rows"] * n["Actual Loops"] for n in self.nodes)

    @property
    def pages(self) -> int:
        return int(self.nodes[0]["Shared Hit Blocks"] + self.nodes[0]["Shared Read Blocks"])


def _walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _walk(child)


class Stand:
    """A world whose statements are explained as they run."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.tenant = world.tenant
        self._plans: list[Plan] = []

    async def listen(self, mode: str) -> None:
        for lane in (self.world.db.claims, self.world.db.writes, self.world.db.reads, self.world.db.terms):
            await lane.run(f"SET plan_cache_mode = {mode}", {})
            _connection(lane).add_notice_handler(self._take)

    def _take(self, notice: psycopg.errors.Diagnostic) -> None:
        if "Query Text" in (notice.message_primary or ""):
            self._plans.append(Plan(notice.message_primary or ""))

    async def explain(self, work: Coroutine[Any, Any, object]) -> Plan:
        """The plan of the one statement that `work` runs."""
        self._plans.clear()
        await work
        (plan,) = self._plans
        return plan

    async def claims(self, count: int) -> list[Claim]:
        """Wishes for new jobs of this world's tenant."""
        specs = [self.world.spec() for _ in range(count)]
        await self.world.create(*specs)
        session = await self.world.new_session()
        return [Claim(self.world.entry(s), self.world.mint(s.shard), session) for s in specs]

    async def leased(self, count: int) -> list[Held]:
        claims = await self.claims(count)
        grants = {g.job_id: g for g in await self.world.leases.claim(claims, self.world.owner)}
        return [Held(self.world.spec(id=c.entry.id), grants[c.entry.id]) for c in claims]


def _connection(lane: Lane) -> "psycopg.AsyncConnection[Any]":
    """The connection that a lane of idle ones will use next."""
    conn = lane._idle[-1]
    assert conn is not None
    return conn


@asynccontextmanager
async def stand(url: str, mode: str = "force_generic_plan") -> AsyncIterator[Stand]:
    async with World(url) as world:
        world.tenant = BULK_TENANT
        found = Stand(world)
        await found.listen(mode)
        yield found


@dataclass(frozen=True)
class Case:
    """A hot statement: how to run it, by which indexes it must find its rows, and how many of `jobs` it may read."""

    run: Callable[[Stand, int], Coroutine[Any, Any, Plan]]
    indexes: frozenset[str]
    rows_a_key: float


async def read_due(stand: Stand, count: int) -> Plan:
    after = [(ShardNo(n % 256), FIRST) for n in range(min(count, 256))]
    until_us = int((await stand.world.now()).timestamp() * 1e6)
    return await stand.explain(stand.world.leases.read_due(after, until_us, PAGE))


async def read_due_from_a_position(stand: Stand, count: int) -> Plan:
    """From the middle of many rows that are due at one instant."""
    rows = await stand.world.leases.read_due([(ShardNo(n), FIRST) for n in range(min(count, 256))], 10**17, 3)
    after = [(row.entry.shard, row.entry.position) for row in rows][::3] or [(ShardNo(0), Position(0, FIRST.id))]
    return await stand.explain(stand.world.leases.read_due(after, 10**17, PAGE))


async def read_lane(stand: Stand, count: int) -> Plan:
    after = [(ShardNo(n % 256), FIRST) for n in range(min(count, 256))]
    lane = LaneKey(BULK_TENANT, "bulk", "t1")
    return await stand.explain(stand.world.leases.read_due(after, 10**17, PAGE, lane))


async def claim(stand: Stand, count: int) -> Plan:
    claims = await stand.claims(count)
    return await stand.explain(stand.world.leases.claim(claims, stand.world.owner))


async def succeed(stand: Stand, count: int) -> Plan:
    results = [stand.world.result(h, payload=Payload(b"r")) for h in await stand.leased(count)]
    return await stand.explain(stand.world.outcomes.succeed(results))


async def live(stand: Stand, count: int) -> Plan:
    asked = [(stand.tenant, h.id) for h in await stand.leased(count)]
    return await stand.explain(stand.world.outcomes.live(asked))


async def _decided(stand: Stand, count: int, kind: str) -> list[Decided]:
    held = await stand.leased(count)
    known, now = await stand.world.outcomes.live([(stand.tenant, h.id) for h in held])
    assert now is not None
    decision = {
        "requeue": Requeue(JobState.RETRY_WAIT, now + timedelta(hours=1), True),
        "finish": Finish(JobState.CANCELLED, True),
        "bury": Finish(JobState.DEAD, True, "r"),
    }[kind]
    return [Decided(job, decision, Outcome.FAILED, Failure("E")) for job in known.values()]


async def requeue(stand: Stand, count: int) -> Plan:
    return await stand.explain(stand.world.outcomes.requeue(await _decided(stand, count, "requeue")))


async def finish(stand: Stand, count: int) -> Plan:
    return await stand.explain(stand.world.outcomes.finish(await _decided(stand, count, "finish")))


async def bury(stand: Stand, count: int) -> Plan:
    return await stand.explain(stand.world.outcomes.bury(await _decided(stand, count, "bury")))


async def ended(stand: Stand, count: int) -> Plan:
    held = await stand.leased(count)
    await stand.world.outcomes.succeed([stand.world.result(h) for h in held[::2]])
    return await stand.explain(stand.world.outcomes.ended([(stand.tenant, h.id, h.fence) for h in held]))


async def beat(stand: Stand, count: int) -> Plan:
    sessions = [await stand.world.new_session() for _ in range(min(count, 20))]
    return await stand.explain(stand.world.sessions.beat([BeatUpdate(s, 1) for s in sessions], stand.world.owner))


async def create(stand: Stand, count: int) -> Plan:
    """Each call with a request_id, half of them repeated."""
    names = [f"{fresh_id()}" for _ in range(count)]
    await stand.world.jobs.create([stand.world.call(stand.world.spec(), request_id=name) for name in names[::2]])
    calls = [stand.world.call(stand.world.spec(), request_id=name) for name in names]
    return await stand.explain(stand.world.jobs.create(calls))


async def earlier(stand: Stand, count: int) -> Plan:
    calls = [stand.world.call(stand.world.spec(), request_id=fresh_id()) for _ in range(count)]
    await stand.world.jobs.create(calls)
    return await stand.explain(stand.world.jobs.earlier(calls))


def case(run: Callable[[Stand, int], Coroutine[Any, Any, Plan]], *indexes: str, rows_a_key: float = 1) -> Case:
    return Case(run, frozenset(indexes), rows_a_key)


HOT = {
    c.run.__name__: c
    for c in (
        case(read_due, "jobs_due_idx", "sessions_pkey", rows_a_key=PAGE),
        case(read_due_from_a_position, "jobs_due_idx", "sessions_pkey", rows_a_key=PAGE),
        # Other lanes' rows are passed over: one in fifteen is of this one.
        case(read_lane, "jobs_due_idx", "sessions_pkey", rows_a_key=PAGE * 15 * 3),
        case(claim, "jobs_pkey", "shards_pkey", "queues_pkey", "tenants_pkey"),
        case(succeed, "jobs_pkey", "schedule_timers_pkey"),
        case(live, "jobs_pkey", "sessions_pkey"),
        case(requeue, "jobs_pkey"),
        case(finish, "jobs_pkey"),
        case(bury, "jobs_pkey", "schedule_timers_pkey", "attempts_other_pkey", "sessions_pkey"),
        case(ended, "jobs_pkey", "dead_jobs_pkey", "attempts_other_pkey", "finished_jobs_other_pkey"),
        case(beat, "sessions_pkey", rows_a_key=0),
        case(create, rows_a_key=0),
        case(earlier, "requests_pkey", rows_a_key=0),
    )
}

MODES = ["force_generic_plan", "force_custom_plan"]


async def check(stand: Stand, name: str, count: int) -> None:
    plan = await HOT[name].run(stand, count)
    told = "\n".join(map(str, sorted(plan.scans)))
    assert not [scan for scan in plan.scans if "Seq" in scan[0] or "Bitmap" in scan[0]], told
    assert {index for _, _, index in plan.scans} - {""} <= HOT[name].indexes, told
    assert HOT[name].indexes - {"sessions_pkey"} <= {index for _, _, index in plan.scans}, told
    # The attempts of each job that dies are put in order, and nothing else.
    assert name == "bury" or "Sort" not in {node["Node Type"] for node in plan.nodes}
    keys = min(count, 256) if name.startswith("read") else count
    assert plan.rows_read("jobs") <= HOT[name].rows_a_key * keys
    # Neither does a join pair everything with everything, nor an index hold what was thrown away.
    assert plan.most_rows <= max(HOT[name].rows_a_key, 1) * max(keys, count)
    assert plan.pages <= 80 + 20 * max(HOT[name].rows_a_key, 1) * max(keys, count)


@pytest.fixture(scope="module")
def new_database(postgres: EmbeddedPostgres) -> Iterator[Callable[[], str]]:
    """Makes databases whose statements are explained, and which nothing analyses behind a test's back."""
    made: list[str] = []

    def make() -> str:
        name = f"plans_{len(made)}"
        with psycopg.connect(postgres.url, autocommit=True) as conn:
            conn.execute(f"CREATE DATABASE {name} TEMPLATE migrated STRATEGY file_copy".encode())
            for key, value in _EXPLAIN.items():
                conn.execute(f"ALTER DATABASE {name} SET {key} = {value}".encode())
        made.append(name)
        url = postgres.url.rsplit("/", 1)[0] + f"/{name}"
        with psycopg.connect(url, autocommit=True) as conn:
            for table in (
                "jobs",
                "sessions",
                "shards",
                "requests",
                "dead_jobs",
                "finished_jobs_other",
                "attempts_other",
            ):
                conn.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())
        return url

    yield make
    with psycopg.connect(postgres.url, autocommit=True) as conn:
        for name in made:
            conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture(scope="module")
def never_analysed(new_database: Callable[[], str]) -> str:
    url = new_database()
    fill(url, 20_000)
    return url


@pytest.fixture(scope="module")
def million(new_database: Callable[[], str]) -> str:
    url = new_database()
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("SET maintenance_work_mem = '256MB'")
        conn.execute("ALTER TABLE jobs DROP CONSTRAINT jobs_pkey; DROP INDEX jobs_due_idx")
        conn.execute(_BULK.format(count=MILLION, state=1).encode())
        conn.execute("ALTER TABLE jobs ADD CONSTRAINT jobs_pkey PRIMARY KEY (tenant_id, id)")
        conn.execute("CREATE INDEX jobs_due_idx ON jobs (shard, due_at, id) WHERE shard >= 0")
        conn.execute("ANALYZE")
    return url


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", HOT)
async def test_on_a_table_that_was_never_analysed(never_analysed: str, name: str, mode: str) -> None:
    async with stand(never_analysed, mode) as ready:
        for count in (1, 100, 500):
            await check(ready, name, count)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", HOT)
async def test_on_a_million_rows(million: str, name: str, mode: str) -> None:
    async with stand(million, mode) as ready:
        for count in (1, 500):
            await check(ready, name, count)


async def test_with_statements_prepared_in_an_idle_time(
    new_database: Callable[[], str],
) -> None:
    """Prepared and analysed while nothing was there, then a burst, and never analysed again."""
    url = new_database()
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("ANALYZE")
    async with stand(url) as ready:
        for name in HOT:
            await HOT[name].run(ready, 1)
        burst(url)
        for name in HOT:
            for count in (1, 100):
                await check(ready, name, count)


async def test_with_statistics_of_an_idle_time(new_database: Callable[[], str]) -> None:
    url = new_database()
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("ANALYZE")
    burst(url)
    for mode in MODES:
        async with stand(url, mode) as ready:
            for name in HOT:
                await check(ready, name, 100)


async def test_with_statistics_of_a_drained_table(
    new_database: Callable[[], str],
) -> None:
    """After a burst was worked off the files are as large as before and, by the statistics, empty."""
    url = new_database()
    burst(url)
    with psycopg.connect(url, autocommit=True) as conn:
        for table in _TABLES:
            conn.execute(f"DELETE FROM {table} WHERE {'shard < 0' if table == 'shards' else 'true'}".encode())
            conn.execute(f"VACUUM (TRUNCATE off, ANALYZE) {table}".encode())
    async with stand(url) as ready:
        for name in HOT:
            await HOT[name].run(ready, 1)
        burst(url)
        for name in HOT:
            for count in (1, 500):
                await check(ready, name, count)


async def test_a_page_of_a_burst_reads_a_page(million: str) -> None:
    """Everything of a shard due at one instant: a page costs a page, wherever in the burst it begins."""
    with psycopg.connect(million, autocommit=True) as conn:
        conn.execute("CREATE TEMP TABLE moved AS SELECT tenant_id, id FROM jobs WHERE shard = 7")
        conn.execute(
            "UPDATE jobs j SET due_at = timestamptz '2026-03-29 12:00Z' FROM moved m "
            "WHERE (j.tenant_id, j.id) = (m.tenant_id, m.id)"
        )
    async with stand(million) as ready:
        after, seen = (ShardNo(7), FIRST), 0
        for _ in range(3):
            plan = await ready.explain(ready.world.leases.read_due([after], 10**17, 1_000))
            assert plan.rows_read("jobs") == 1_000
            rows = await ready.world.leases.read_due([after], 10**17, 1_000)
            after, seen = (ShardNo(7), rows[-1].entry.position), seen + len({row.entry.id for row in rows})
        assert seen == 3_000


async def test_a_read_of_all_shards_stays_within_its_page(million: str) -> None:
    async with stand(million) as ready:
        after = [(ShardNo(n), FIRST) for n in range(limits.SHARD_COUNT)]
        plan = await ready.explain(ready.world.leases.read_due(after, 10**17, 16))
        assert plan.rows_read("jobs") == limits.SHARD_COUNT * 16
        assert plan.pages < limits.SHARD_COUNT * (16 + 10)


async def test_a_read_with_nothing_due_reads_nothing(million: str) -> None:
    async with stand(million) as ready:
        after = [(ShardNo(n), FIRST) for n in range(limits.SHARD_COUNT)]
        plan = await ready.explain(ready.world.leases.read_due(after, 0, 16))
        assert plan.rows_read("jobs") == 0
        assert plan.pages < limits.SHARD_COUNT * 8


def test_a_bad_plan_is_seen(never_analysed: str) -> None:
    """The check is worth something: the statement that was there first reads and sorts the whole backlog."""
    found: list[Plan] = []
    with psycopg.connect(never_analysed, autocommit=True) as conn:
        conn.add_notice_handler(lambda notice: found.append(Plan(notice.message_primary or "")))
        conn.execute("SELECT id FROM jobs WHERE shard = ANY ('{1,2,3,4,5,6,7,8}') ORDER BY due_at LIMIT 10")
    assert found[0].rows_read("jobs") > 500
