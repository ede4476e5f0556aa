"""The plans of the statements that fire and read schedules, as they really ran.

Each runs on tables that were never analysed, on ones that were analysed while they were empty, with the plan of that
time, and on large ones. What a plan must be is: the right index, no more rows read than asked for, nothing sorted, and
no list compared with another one pair by pair.
"""

import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from rota.domain.fairness import Entry
from rota.domain.ids import JobId, ScheduleUid, ShardNo
from rota.domain.model import Failure, JobState, Outcome
from rota.domain.overlap import Record
from rota.domain.schedule import Fate, Origin
from rota.domain.step import Step
from rota.domain.transition import Finish
from rota.store.embedded import EmbeddedPostgres
from rota.store.engine import array
from rota.store.fires import PgFires
from rota.store.port import Claim, Decided
from rota.store.scheduleport import Armed, Held, Move, OccurrenceFilter, ScheduleFilter
from rota.store.schedules import PgSchedules

from .test_claim import UPDATES
from .test_plans import _EXPLAIN, BULK_TENANT, MODES, Plan, Stand, _connection
from .world import Held as Leased
from .world import World, fresh_id

LARGE = 200_000
SHARDS = 256
PAGE = 7
DEEP = "01f0a000-0000-7000-8000-000000000300"
"""A schedule with thousands of occurrences and jobs, hundreds of which wait."""

DEEP_ROWS = 3_000
DEEP_WAITING = 300
FUTURE = datetime(2100, 1, 1, tzinfo=UTC)

_UID = "('01f0a000-0000-7000-8000-' || lpad(to_hex({}), 12, '0'))::uuid"

_SCHEDULES = f"""
INSERT INTO schedules (
    tenant_id, id, uid, shard, definition, type, queue, priority, max_attempts, run_timeout_ms, content_type, payload,
    created_at, updated_at)
SELECT 1 + n % 3, 's' || lpad(n::text, 9, '0'), {_UID.format("n")}, n % 256,
       '{{"timing": {{"kind": 2, "expression": "0 0 * * *"}}}}', 't' || n % 5, 'bulk', 4, 5, 3600000, '', '', now(),
       now()
FROM generate_series(1, {{count}}) n;
INSERT INTO schedule_timers (
    uid, tenant_id, shard, version, state, cursor_at, next_nominal, next_due, arm_at, fired, buffered, failures,
    pause_after, fates, state_at, tzdata)
SELECT {_UID.format("n")}, 1 + n % 3, n % 256, 1, 1, now() - interval '2 hours', now(), now(),
       now() - interval '1 hour' + (n / 5000) * interval '1 second', 0, 0, 0, 0, array_fill(0::bigint, ARRAY[10]),
       now(), '2026b'
FROM generate_series(1, {{count}}) n
"""

_LEDGER = f"""
INSERT INTO occurrences (
    schedule_uid, nominal_at, generation, tenant_id, due_at, origin, fate, version, recorded_at, local_time, job_id,
    count, forced)
SELECT {_UID.format("n")}, now() - n % 5 * interval '1 day', 0, 1 + n % 3, now(), 1, 1, 1, now(), '', gen_random_uuid(),
       1, false
FROM generate_series(1, {{count}}) n;
INSERT INTO occurrences (
    schedule_uid, nominal_at, generation, tenant_id, due_at, origin, fate, version, recorded_at, local_time, job_id,
    count, forced)
SELECT '{DEEP}', now() - n * interval '2 minutes' - interval '1 second', 0, 1, now(), 1,
       CASE WHEN n <= {DEEP_WAITING} THEN 2 ELSE 1 END, 1, now(), '', gen_random_uuid(), 1, false
FROM generate_series(1, {DEEP_ROWS}) n;
INSERT INTO jobs (
    tenant_id, id, priority, generation, attempt, attempts_counted, max_attempts, run_timeout_ms, fence, due_at,
    created_at, type, queue, content_type, payload, shard, state, schedule_uid, schedule_id, schedule_version,
    nominal_at, occurrence_generation)
SELECT 1 + n % 3, {_UID.format("n")}, 4, 0, 0, 0, 5, 3600000, 0, now(), now(), 't', 'bulk', '', '', n % 256, 1,
       CASE WHEN n % 2 = 0 THEN CASE WHEN n <= {DEEP_ROWS} THEN '{DEEP}' ELSE {_UID.format("n")} END END, 's', 1,
       now() - n * interval '1 second', 0
FROM generate_series(1, {{count}}) n;
INSERT INTO backfills (
    id, schedule_uid, tenant_id, shard, start_at, end_at, include_fired, rate, priority, reason, state, cursor_at,
    next_nominal, next_at, total, done, fired, author, created_at)
SELECT gen_random_uuid(), {_UID.format("n")}, 1, n % 256, now(), now(), false, 10, 0, '', 1 + (n % 20 > 0)::int, now(),
       now(), now() - n % 60 * interval '1 minute', 1, 0, 0, '', now()
FROM generate_series(1, {{count}}) n
"""

_MADE_AHEAD = """
WITH ahead AS (
    UPDATE schedule_timers t SET last_nominal = now() + interval '1 minute'
    FROM schedules s
    WHERE s.uid = t.uid AND s.id BETWEEN 's000100000' AND 's000101000' RETURNING t.uid, t.tenant_id, t.last_nominal
)
INSERT INTO occurrences (
    schedule_uid, nominal_at, generation, tenant_id, due_at, origin, fate, version, recorded_at, local_time, job_id,
    count, forced)
SELECT uid, last_nominal, 0, tenant_id, last_nominal, 1, 1, 1, now(), '', gen_random_uuid(), 1, false FROM ahead
"""

_DAYS = """
DO $$
DECLARE day date;
BEGIN
    FOR day IN SELECT d::date FROM generate_series(now() - interval '3 days', now() + interval '1 day', '1 day') d LOOP
        EXECUTE format(
            'CREATE TABLE occurrences_%s PARTITION OF occurrences FOR VALUES FROM (%L) TO (%L)',
            to_char(day, 'YYYYMMDD'), day || ' 00:00+00', day + 1 || ' 00:00+00');
    END LOOP;
END $$
"""

_FILLED = ("jobs", "schedules", "schedule_timers", "backfills", "occurrences")
_SEEN = ("jobs", "schedules", "schedule_timers", "backfills", "shards", "occurrences_other")
_EAGER = ("min_parallel_index_scan_size", "min_parallel_table_scan_size", "parallel_setup_cost", "parallel_tuple_cost")
_PARTITION = re.compile(r"^(occurrences|finished_jobs|attempts)_(\d{8}|other)")


class ScheduleStand(Stand):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.fires = PgFires(world.db)
        self.schedules = PgSchedules(world.db)

    async def listen(self, mode: str) -> None:
        await super().listen(mode)
        lane = self.world.db.fires
        await lane.run(f"SET plan_cache_mode = {mode}", {})
        _connection(lane).add_notice_handler(self._take)

    async def explain_all(self, work: Coroutine[Any, Any, object]) -> list[Plan]:
        self._plans.clear()
        await work
        return list(self._plans)

    async def armed(self, count: int) -> list[Armed]:
        page = max(count // SHARDS + 1, 1)
        found, _ = await self.fires.read_armed([ShardNo(n) for n in range(SHARDS)], FUTURE, page)
        return found[:count]

    def move(self, armed: Armed) -> Move:
        """One occurrence fires, and the timer goes on by a second."""
        timer = armed.timer
        nominal = timer.cursor + timedelta(seconds=1)
        job = JobId(fresh_id())
        record = Record(nominal, 0, nominal, "", Origin.RULE, Fate.FIRED, job_id=job)
        after = replace(timer, cursor=nominal, fired=timer.fired + 1, last_job=job, last_nominal=nominal)
        return Move(armed, Step(after, (record,)), self.world.epochs[armed.shard])

    async def leases_of_schedules(self, count: int) -> list[Leased]:
        entries = await self.jobs_of_schedules(count)
        session = await self.world.new_session()
        claims = [Claim(entry, self.world.mint(entry.shard), session) for entry in entries]
        granted = await self.world.leases.claim(claims, self.world.owner)
        assert len(granted) == count
        return [Leased(self.world.spec(id=grant.job_id, shard=grant.shard), grant) for grant in granted]

    async def jobs_of_schedules(self, count: int) -> list[Entry]:
        """Due jobs, each made by another schedule of this tenant."""
        armed = [each for each in await self.armed(4 * count) if each.tenant_id == BULK_TENANT][:count]
        entries, moved = await self.fires.fire([self.move(each) for each in armed], self.world.owner)
        assert len(entries) == len(moved) == count
        return entries


@asynccontextmanager
async def stand(url: str, mode: str = "force_generic_plan") -> AsyncIterator[ScheduleStand]:
    async with World(url) as world:
        world.tenant = BULK_TENANT
        found = ScheduleStand(world)
        await found.listen(mode)
        yield found


@dataclass(frozen=True)
class Case:
    """How to run a statement for so many keys or rows, by which indexes it must and which it may find them, and how
    many rows it may read of a table for each, and make on the way."""

    run: Callable[[ScheduleStand, int], Coroutine[Any, Any, Plan]]
    indexes: frozenset[str]
    maybe: frozenset[str] = frozenset()
    rows_each: float = 1
    made_each: float = 1


async def read_armed(stand: ScheduleStand, count: int) -> Plan:
    shards = [ShardNo(n) for n in range(min(count, SHARDS))]
    return await stand.explain(stand.fires.read_armed(shards, FUTURE, PAGE))


async def definitions(stand: ScheduleStand, count: int) -> Plan:
    return await stand.explain(stand.fires.definitions([each.uid for each in await stand.armed(count)]))


async def fire(stand: ScheduleStand, count: int) -> Plan:
    moves = [stand.move(each) for each in await stand.armed(count)]
    return await stand.explain(stand.fires.fire(moves, stand.world.owner))


async def due_backfills(stand: ScheduleStand, count: int) -> Plan:
    shards = [ShardNo(n) for n in range(min(count, SHARDS))]
    return await stand.explain(stand.fires.due_backfills(shards, PAGE))


async def page(stand: ScheduleStand, count: int) -> Plan:
    return await stand.explain(stand.schedules.page(BULK_TENANT, ScheduleFilter(), "", count))


async def page_from_the_middle(stand: ScheduleStand, count: int) -> Plan:
    return await stand.explain(stand.schedules.page(BULK_TENANT, ScheduleFilter(), "s000010000", count))


async def occurrences(stand: ScheduleStand, count: int) -> Plan:
    return await ledger(stand, None, count)


async def occurrences_from_the_middle(stand: ScheduleStand, count: int) -> Plan:
    return await ledger(stand, (datetime.now(UTC) - timedelta(days=1), 0), count)


async def ledger(stand: ScheduleStand, before: tuple[datetime, int] | None, count: int) -> Plan:
    read = stand.schedules.occurrences(BULK_TENANT, ScheduleUid(DEEP), OccurrenceFilter(), before, count)
    found, kept = await stand.explain_all(read)
    # No tenant has a span of its own.
    assert not kept.scans
    return found


async def get(stand: ScheduleStand, count: int) -> Plan:
    return await stand.explain(stand.schedules.get(BULK_TENANT, "s000000300"))


def case(run: Callable[[ScheduleStand, int], Coroutine[Any, Any, Plan]], *indexes: str, **fields: Any) -> Case:
    return Case(run, frozenset(indexes), **fields)


_AHEAD = frozenset({"occurrences_pkey"})
"""What was made ahead of its time is looked up in the ledger."""

CASES = {
    c.run.__name__: c
    for c in (
        case(read_armed, "schedule_timers_arm_idx", rows_each=PAGE),
        case(definitions, "schedules_uid_key", "schedule_timers_pkey"),
        # The counts of each fate are added one by one.
        case(fire, "schedule_timers_pkey", "schedules_uid_key", "shards_pkey", made_each=len(Fate)),
        case(due_backfills, "backfills_next_idx", rows_each=PAGE),
        case(page, "schedules_pkey", "schedule_timers_pkey", maybe=_AHEAD),
        case(page_from_the_middle, "schedules_pkey", "schedule_timers_pkey", maybe=_AHEAD),
        case(occurrences, "occurrences_pkey"),
        case(occurrences_from_the_middle, "occurrences_pkey"),
        case(get, "schedules_pkey", "schedule_timers_pkey", maybe=_AHEAD),
    )
}


def indexes_of(plan: Plan) -> set[str]:
    """Those of partitions by the name of their parent's."""
    return {_PARTITION.sub(r"\1", index) for _, _, index in plan.scans} - {""}


def tables_of(plan: Plan) -> set[str]:
    return {relation for _, relation, _ in plan.scans} - {""}


def removed_by_joins(plan: Plan) -> float:
    return float(sum(node.get("Rows Removed by Join Filter", 0) for node in plan.nodes))


def check(plan: Plan, found: Case, count: int) -> None:
    told = "\n".join(map(str, sorted(plan.scans)))
    assert not [scan for scan in plan.scans if "Seq" in scan[0] or "Bitmap" in scan[0]], told
    assert found.indexes <= indexes_of(plan) <= found.indexes | found.maybe, told
    assert not [kind for node in plan.nodes if "Sort" in (kind := node["Node Type"]) or "Gather" in kind]
    most = found.rows_each * count
    for table in tables_of(plan):
        assert plan.rows_read(table) <= most, (table, told)
    # Neither is a list compared with another pair by pair.
    assert plan.most_rows <= max(most, found.made_each * count)
    assert removed_by_joins(plan) <= most
    assert plan.pages <= 200 + 40 * most


def keys(name: str, count: int) -> int:
    """How many rows or look-ups a case has at most."""
    if name in ("read_armed", "due_backfills"):
        return min(count, SHARDS)
    return 1 if name == "get" else count


@pytest.fixture(scope="module")
def new_database(postgres: EmbeddedPostgres) -> Iterator[Callable[[], str]]:
    """Makes databases whose statements are explained, and which nothing analyses behind a test's back."""
    made: list[str] = []

    def make() -> str:
        name = f"schedule_plans_{len(made)}"
        with psycopg.connect(postgres.url, autocommit=True) as conn:
            conn.execute(f"CREATE DATABASE {name} TEMPLATE migrated STRATEGY file_copy".encode())
            for key, value in _EXPLAIN.items():
                conn.execute(f"ALTER DATABASE {name} SET {key} = {value}".encode())
        made.append(name)
        url = postgres.url.rsplit("/", 1)[0] + f"/{name}"
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute(_DAYS)
            for table in _SEEN:
                conn.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())
        return url

    yield make
    with psycopg.connect(postgres.url, autocommit=True) as conn:
        for name in made:
            conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def fill(url: str, count: int) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(_SCHEDULES.replace("{count}", str(count)).encode())
        conn.execute(_LEDGER.replace("{count}", str(count)).encode())


@pytest.fixture(scope="module")
def never_analysed(new_database: Callable[[], str]) -> str:
    url = new_database()
    fill(url, 20_000)
    return url


@pytest.fixture(scope="module")
def large(new_database: Callable[[], str]) -> str:
    url = new_database()
    fill(url, LARGE)
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("ANALYZE")
    return url


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
async def test_on_tables_that_were_never_analysed(never_analysed: str, name: str, mode: str) -> None:
    async with stand(never_analysed, mode) as ready:
        for count in (1, 100, 1_000):
            check(await CASES[name].run(ready, count), CASES[name], keys(name, count))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
async def test_on_large_tables(large: str, name: str, mode: str) -> None:
    async with stand(large, mode) as ready:
        for count in (1, 1_000):
            check(await CASES[name].run(ready, count), CASES[name], keys(name, count))


@pytest.mark.parametrize("mode", MODES)
async def test_with_statements_prepared_in_an_idle_time(new_database: Callable[[], str], mode: str) -> None:
    """Prepared and analysed while next to nothing was there; then schedules come by the thousand, never analysed."""
    url = new_database()
    fill(url, 1_000)
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("ANALYZE")
    async with stand(url, mode) as ready:
        for name in CASES:
            await CASES[name].run(ready, 1)
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute(f"TRUNCATE {', '.join(_FILLED)}".encode())
        fill(url, 20_000)
        for name in CASES:
            for count in (1, 1_000):
                check(await CASES[name].run(ready, count), CASES[name], keys(name, count))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", ["never_analysed", "large"])
async def test_what_a_locked_step_reads(request: pytest.FixtureRequest, size: str, mode: str) -> None:
    """Locks, jobs and waiting occurrences of two hundred schedules, and of them no others."""
    async with stand(request.getfixturevalue(size), mode) as ready:
        uids = [ScheduleUid(DEEP), *(each.uid for each in await ready.armed(200) if each.uid != DEEP)]
        await ready.world.sql(
            "UPDATE schedule_timers SET buffered = 300 WHERE uid = ANY (%(u)s::uuid[])", u=array(uids)
        )
        seen: list[Held] = []

        def decide(held: Sequence[Held]) -> list[Move]:
            seen.extend(held)
            return []

        plans = await ready.explain_all(ready.fires.fire_held(uids, ready.world.owner, decide))
        locked, jobs, waiting = (
            next(p for p in plans if text in p.sql) for text in ("FOR UPDATE", "jobs j", "fate = 2")
        )
        deep = next(each for each in seen if each.armed.uid == DEEP)
        assert len(seen) == len(uids)
        assert len(deep.running) >= DEEP_ROWS // 2
        assert len(deep.waiting) == DEEP_WAITING
        assert indexes_of(locked) == {"schedule_timers_pkey"}
        assert indexes_of(jobs) == {"jobs_schedule_idx"}
        assert indexes_of(waiting) == {"occurrences_schedule_uid_nominal_at_generation_idx"}
        assert locked.rows_read("schedule_timers") == len(uids)
        # A plan tells of averages over its loops, which before PostgreSQL 18 are rounded to whole rows.
        assert jobs.rows_read("jobs") == pytest.approx(sum(len(each.running) for each in seen), abs=len(uids) / 2 + 1)
        # What waits lies in the days that it is of, and each is a table with averages of its own.
        days = tables_of(waiting)
        of_days = sum(waiting.rows_read(day) for day in days)
        rounded = len(days) * (len(uids) / 2 + 1)
        assert of_days == pytest.approx(sum(len(each.waiting) for each in seen), abs=rounded)
        assert not [n["Node Type"] for p in (locked, jobs, waiting) for n in p.nodes if n["Node Type"] == "Sort"]


async def test_a_page_costs_a_page_wherever_it_begins(large: str) -> None:
    async with stand(large) as ready:
        costs = []
        for after in ("", "s000100000", "s000190000"):
            plan = await ready.explain(ready.schedules.page(BULK_TENANT, ScheduleFilter(), after, 51))
            assert plan.rows_read("schedules") == plan.rows_read("schedule_timers") == 51
            costs.append(plan.pages)
        assert max(costs) <= 51 * 8


async def test_no_page_starts_helpers(large: str) -> None:
    """Starting parallel workers costs more than a page. A planner that hopes for next to no match finds them worth it
    from some hundred thousand schedules on; here they are worth it at once."""
    with psycopg.connect(large, autocommit=True) as conn:
        (database,) = conn.execute("SELECT current_database()").fetchone() or ("",)
        for name in _EAGER:
            conn.execute(f"ALTER DATABASE {database} SET {name} = 0".encode())
    try:
        async with stand(large) as ready:
            plans = [await CASES[name].run(ready, 51) for name in ("page", "page_from_the_middle", "occurrences")]
    finally:
        with psycopg.connect(large, autocommit=True) as conn:
            for name in _EAGER:
                conn.execute(f"ALTER DATABASE {database} RESET {name}".encode())
    assert not [node["Node Type"] for plan in plans for node in plan.nodes if "Gather" in node["Node Type"]]


async def test_what_was_made_ahead_costs_a_look_up_each(large: str) -> None:
    """A page of schedules that have all fired ahead of their time reads one occurrence of each, and not their past."""
    with psycopg.connect(large, autocommit=True) as conn:
        conn.execute(_MADE_AHEAD)
    async with stand(large) as ready:
        found = await ready.schedules.page(BULK_TENANT, ScheduleFilter(), "s000100000", 51)
        assert all(each.timer.next_nominal == each.timer.last_nominal for each in found)
        plan = await ready.explain(ready.schedules.page(BULK_TENANT, ScheduleFilter(), "s000100000", 51))
        assert sum(plan.rows_read(table) for table in tables_of(plan) if table.startswith("occurrences")) <= 52
        assert plan.pages <= 51 * 30


async def test_a_look_with_nothing_armed_reads_nothing(large: str) -> None:
    async with stand(large) as ready:
        shards = [ShardNo(n) for n in range(SHARDS)]
        plan = await ready.explain(ready.fires.read_armed(shards, datetime(2000, 1, 1, tzinfo=UTC), PAGE))
        assert plan.rows_read("schedule_timers") == 0
        assert plan.pages < SHARDS * 8


@pytest.mark.parametrize("mode", MODES)
async def test_the_end_of_a_plain_job_touches_no_schedule(never_analysed: str, mode: str) -> None:
    async with stand(never_analysed, mode) as ready:
        for count in (1, 500):
            leased = await ready.leased(count)
            ended = await ready.explain(ready.world.outcomes.succeed([ready.world.result(held) for held in leased]))
            assert looks_at_timers(ended) == 0
            buried = await ready.explain(ready.world.outcomes.bury(await decided(ready, await ready.leased(count))))
            assert looks_at_timers(buried) == 0


@pytest.mark.parametrize("mode", MODES)
async def test_the_end_of_a_job_of_a_schedule_looks_at_its_timer(never_analysed: str, mode: str) -> None:
    """By the key, once each; what is in order stays as it is."""
    async with stand(never_analysed, mode) as ready:
        for count in (1, 500):
            leased = await ready.leases_of_schedules(count)
            ended = await ready.explain(ready.world.outcomes.succeed([ready.world.result(held) for held in leased]))
            assert looks_at_timers(ended) == count
            assert indexes_of(ended) == {"jobs_pkey", "schedule_timers_pkey"}
            assert written(ended, "schedule_timers") == 0
            leased = await ready.leases_of_schedules(count)
            buried = await ready.explain(ready.world.outcomes.bury(await decided(ready, leased)))
            assert looks_at_timers(buried) == count
            # Its attempts go with it, each with the name of its worker.
            history = {"attempts_pkey", "sessions_pkey"}
            assert indexes_of(buried) == {"jobs_pkey", "schedule_timers_pkey"} | history
            assert written(buried, "schedule_timers") == count
            healthy = await ready.leases_of_schedules(count)
            healed = await ready.explain(ready.world.outcomes.succeed([ready.world.result(held) for held in healthy]))
            assert written(healed, "schedule_timers") == count


async def test_a_claim_of_jobs_of_schedules_is_a_hot_update(database: str) -> None:
    """The index by schedule has no column that a claim changes."""
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute(_SCHEDULES.replace("{count}", "60").encode())
    async with World(database) as world:
        world.tenant = BULK_TENANT
        entries = await ScheduleStand(world).jobs_of_schedules(20)
        session = await world.new_session()
        granted = await world.leases.claim([Claim(e, world.mint(e.shard), session) for e in entries], world.owner)
        assert {grant.job_id for grant in granted} == {entry.id for entry in entries}
        for _ in range(200):
            # The claiming connection reports its numbers when it is next idle for a moment.
            await world.db.claims.run("SELECT pg_stat_force_next_flush()", {})
            updated, hot = (await world.sql(UPDATES))[0]
            if updated:
                break
        assert (updated, hot) == (20, 20)


def test_a_bad_plan_is_seen(never_analysed: str) -> None:
    """The check is worth something: a join that lists have no index for compares each with each."""
    found: list[Plan] = []
    with psycopg.connect(never_analysed, autocommit=True) as conn:
        conn.add_notice_handler(lambda notice: found.append(Plan(notice.message_primary or "")))
        conn.execute("SET enable_hashjoin = off; SET enable_mergejoin = off")
        found.clear()
        conn.execute("SELECT FROM generate_series(1, 1000) a JOIN generate_series(1, 1000) b ON a = b")
    assert found[0].most_rows > 100_000
    assert removed_by_joins(found[0]) > 100_000


def looks_at_timers(plan: Plan) -> float:
    """How many times a scan of schedule_timers was begun."""
    nodes = [n for n in plan.nodes if n.get("Relation Name") == "schedule_timers" and "Scan" in n["Node Type"]]
    assert nodes
    return float(sum(node["Actual Loops"] for node in nodes))


def written(plan: Plan, table: str) -> float:
    """Rows that the parts which write a table came upon."""
    writers = [node for node in plan.nodes if node["Node Type"] == "ModifyTable" and node["Relation Name"] == table]
    assert writers
    sources = [child for node in writers for child in node["Plans"] if child["Parent Relationship"] == "Outer"]
    return float(sum(child["Actual Rows"] * child["Actual Loops"] for child in sources))


async def decided(stand: Stand, leased: Sequence[Leased]) -> list[Decided]:
    known, _ = await stand.world.outcomes.live([(stand.tenant, held.id) for held in leased])
    dead = Finish(JobState.DEAD, True, "r")
    return [Decided(job, dead, Outcome.FAILED, Failure("E")) for job in known.values()]
