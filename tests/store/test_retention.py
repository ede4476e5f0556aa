"""History of a tenant's own span: shorter or longer than the others', by dropping tables, without losing a row that is
to stay, and readable all the time."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from rota.domain import limits
from rota.domain.errors import ResourceExhausted, Unavailable
from rota.domain.ids import JobId, ScheduleUid, TenantId
from rota.domain.model import JobState, Outcome, Role
from rota.domain.tenant import TenantSettings
from rota.store import readers
from rota.store.engine import Run
from rota.store.history import PARTITIONED
from rota.store.port import JobFilter
from rota.store.scheduleport import OccurrenceFilter
from rota.store.schedules import PgSchedules

from .world import Held, World, fresh_id

DAY_S = 86_400.0
DEFAULT_S = 14 * DAY_S
ALL = OccurrenceFilter()


class Installation(World):
    """A database of its own, with tenants of other spans beside the one of the world's."""

    async def tenant_with(self, history_s: float | None) -> TenantId:
        name = f"t-{fresh_id()[-8:]}"
        key = await self.identity.create_key(name, fresh_id(), b"", "", frozenset({Role.CLIENT}), None)
        if history_s is not None:
            await self.keep(key.tenant_id, history_s)
        return key.tenant_id

    async def keep(self, tenant: TenantId, history_s: float | None) -> None:
        ((version,),) = await self.sql("SELECT version FROM tenants WHERE id = %(id)s", id=tenant)
        assert await self.queues.save_tenant(tenant, TenantSettings(history_s=history_s), version)

    async def today(self) -> date:
        found: date = await self.value("SELECT (now() AT TIME ZONE 'UTC')::date")
        return found

    async def day(self, ago: int) -> datetime:
        """Noon of a day before today."""
        day = await self.today() - timedelta(days=ago)
        return datetime(day.year, day.month, day.day, 12, tzinfo=UTC)

    async def made(self, ago: int, *apart: TenantId) -> None:
        """The partitions of a day, as a janitor made them ahead of it."""
        day = (await self.day(ago)).date()
        for parent in PARTITIONED:
            await self.history._make(parent, f"{parent}_{day:%Y%m%d}", day, apart)

    async def finished(self, tenant: TenantId, ago: int, *, failures: int = 1) -> Held:
        """A job that failed, and succeeded, so many days ago."""
        at = await self.day(ago)
        session = await self.new_session(tenant_id=tenant)
        spec = self.spec(tenant_id=tenant)
        await self.create(spec)
        held = await self.lease(spec, session)
        self.tenant, own = tenant, self.tenant
        for _ in range(failures):
            await self.fail(held)
            held = await self.lease(spec, session)
        await self.succeed(held)
        self.tenant = own
        await self.sql("UPDATE finished_jobs SET finished_at = %(at)s WHERE id = %(id)s::uuid", at=at, id=held.id)
        await self.sql("UPDATE attempts SET ended_at = %(at)s WHERE job_id = %(id)s::uuid", at=at, id=held.id)
        return held

    async def occurrence(self, tenant: TenantId, uid: str, ago: int, fate: int = 1) -> None:
        await self.sql(
            """INSERT INTO occurrences (schedule_uid, nominal_at, generation, tenant_id, due_at, origin, fate, version,
                   recorded_at, local_time, count, forced)
               VALUES (%(uid)s::uuid, %(at)s, 0, %(tenant)s, %(at)s, 1, %(fate)s, 1, %(at)s, '', 1, false)""",
            uid=uid,
            at=await self.day(ago),
            tenant=tenant,
            fate=fate,
        )

    async def seen(self, tenant: TenantId, job: JobId) -> tuple[bool, bool, int]:
        """Whether a job is read by its id, and listed, and how many attempts it has."""
        got = job in await self.reader.get(tenant, [job])
        listed = job in {each.id for each in await self.reader.page(tenant, JobFilter(), None, 1_000)}
        ended = job in {
            each.id for each in await self.reader.page(tenant, JobFilter(state=JobState.SUCCEEDED), None, 1_000)
        }
        assert listed is ended
        return got, listed, len(await self.reader.attempts(tenant, job, 0, 99))

    async def nominals(self, tenant: TenantId, uid: str) -> list[datetime]:
        found = await PgSchedules(self.db).occurrences(tenant, ScheduleUid(uid), ALL, None, 99)
        return [each.nominal for each in found]

    async def tables(self, like: str) -> list[str]:
        rows = await self.sql(
            "SELECT relname::text FROM pg_class WHERE relkind IN ('r', 'p') AND relname LIKE %(like)s ORDER BY 1",
            like=like,
        )
        return [name for (name,) in rows]


@pytest_asyncio.fixture
async def world(database: str) -> AsyncIterator[Installation]:
    async with Installation(database) as world:
        yield world


HERE = (True, True, 2)
GONE = (False, False, 0)


async def test_what_is_over_is_forgotten_at_the_end_of_its_tenants_own_span(world: Installation) -> None:
    short = await world.tenant_with(8 * DAY_S)
    usual = await world.tenant_with(None)
    long = await world.tenant_with(30 * DAY_S)
    tenants = (short, usual, long)
    jobs: dict[tuple[TenantId, int], JobId] = {}
    uids = {tenant: fresh_id() for tenant in tenants}
    for ago in (1, 7, 9, 13, 15, 29, 31):
        await world.made(ago, short)
        for tenant in tenants:
            jobs[tenant, ago] = (await world.finished(tenant, ago)).id
            await world.occurrence(tenant, uids[tenant], ago)
    await world.history.drop_partitions(DEFAULT_S)
    for tenant, span in ((short, 8), (usual, 14), (long, 30)):
        for ago in (1, 7, 9, 13, 15, 29, 31):
            assert await world.seen(tenant, jobs[tenant, ago]) == (HERE if ago <= span else GONE), (span, ago)
        # Those of all tenants stay as long as the installation's span at least.
        kept = [await world.day(ago) for ago in (1, 7, 9, 13, 15, 29) if ago <= max(span, 14)]
        assert await world.nominals(tenant, uids[tenant]) == kept
    # Nothing was deleted row by row, and of what is gone no table is left.
    assert await world.history.drop_partitions(DEFAULT_S) == []
    assert len(await world.tables("finished\\_jobs\\_%\\_t%")) == 2
    assert all(name.startswith(f"kept_jobs_t{long}") for name in await world.tables("kept\\_jobs\\_%"))


async def test_a_late_repetition_finds_its_answer_whatever_the_tenants_span(world: Installation) -> None:
    """A request_id lives for seven days, and so does what it stands for."""
    shortest = await world.tenant_with(limits.HISTORY_MIN_S)
    await world.made(6, shortest)
    held = await world.finished(shortest, 6)
    await world.history.drop_partitions(limits.REQUEST_LIFE_S)
    assert await world.seen(shortest, held.id) == HERE
    ended = (await world.outcomes.ended([(shortest, held.id, held.fence)]))[held.key]
    assert ended.finished_outcome is Outcome.SUCCEEDED


async def test_what_a_tenant_keeps_for_months_comes_into_months_which_are_dropped(world: Installation) -> None:
    long = await world.tenant_with(400 * DAY_S)
    jobs = {}
    for ago in (20, 60, 61, 200, 399):
        await world.made(ago)
        jobs[ago] = (await world.finished(long, ago)).id
    await world.history.drop_partitions(DEFAULT_S)
    assert [await world.seen(long, job) for job in jobs.values()] == [HERE] * 5
    months = {f"kept_jobs_t{long}_{await world.day(ago):%Y%m}" for ago in jobs}
    assert set(await world.tables("kept\\_jobs\\_t%\\_%")) == months
    # A day more of one of these months comes later.
    await world.made(58)
    late = (await world.finished(long, 58)).id
    await world.history.drop_partitions(DEFAULT_S)
    assert await world.seen(long, late) == HERE
    await world.keep(long, 100 * DAY_S)
    await world.history.drop_partitions(DEFAULT_S)
    assert [(await world.seen(long, job)) == HERE for job in jobs.values()] == [True, True, True, False, False]
    # Without a span of its own nothing stays of it that is older than the others' history, but the rest of a month.
    await world.keep(long, None)
    await world.history.drop_partitions(DEFAULT_S)
    months = {f"{await world.day(14):%Y%m}", f"{await world.day(20):%Y%m}"}
    left = await world.tables("kept\\_jobs\\_t%\\_%")
    assert {name[-6:] for name in left} <= months
    assert [await world.seen(long, jobs[ago]) for ago in (60, 61, 200)] == [GONE] * 3


async def test_a_shorter_span_acts_on_days_to_come_that_are_there_already(world: Installation) -> None:
    await world.history.make_partitions(3, DEFAULT_S)
    short = await world.tenant_with(8 * DAY_S)
    long = await world.tenant_with(30 * DAY_S)
    today = await world.today()
    tomorrow = [today + timedelta(days=n) for n in (1, 2, 3)]
    divided = ("finished_jobs", "attempts")
    expected = [f"{parent}_{day:%Y%m%d}_t{short}" for parent in divided for day in tomorrow]
    # Rows that came in meanwhile stay where they are.
    await world.sql(
        "INSERT INTO attempts (tenant_id, job_id, fence, ended_at, number, leased_at, outcome) "
        "VALUES (%(t)s, gen_random_uuid(), 1, %(at)s, 1, now(), 2)",
        t=short,
        at=await world.day(-2),
    )
    expected.remove(f"attempts_{tomorrow[1]:%Y%m%d}_t{short}")
    assert await world.history.make_partitions(3, DEFAULT_S) == expected
    assert await world.history.make_partitions(3, DEFAULT_S) == []
    assert await world.count("attempts") == 0 and await world.value("SELECT count(*) FROM attempts") == 1
    # Another one joins those days.
    other = await world.tenant_with(9 * DAY_S)
    made = await world.history.make_partitions(3, DEFAULT_S)
    assert made == [name.replace(f"_t{short}", f"_t{other}") for name in expected]
    assert await world.tables(f"%\\_t{long}") == []
    # A day that is made anew has them from the beginning.
    made = await world.history.make_partitions(4, DEFAULT_S)
    day = today + timedelta(days=4)
    assert made == [f"{parent}_{day:%Y%m%d}" for parent in PARTITIONED]
    assert await world.tables(f"attempts\\_{day:%Y%m%d}\\_%") == sorted(
        [f"attempts_{day:%Y%m%d}_rest", f"attempts_{day:%Y%m%d}_t{short}", f"attempts_{day:%Y%m%d}_t{other}"]
    )


async def test_the_version_before_goes_on_with_divided_days(world: Installation) -> None:
    """It knows days by their names, and nothing of their parts."""
    short = await world.tenant_with(8 * DAY_S)
    await world.history.make_partitions(2, DEFAULT_S)
    held = await world.finished(short, 0)
    assert (
        await world.value("SELECT tableoid::regclass::text FROM finished_jobs WHERE id = %(id)s::uuid", id=held.id)
        == f"finished_jobs_{await world.today():%Y%m%d}_t{short}"
    )
    name = f"finished_jobs_{await world.today():%Y%m%d}"
    present = await world.sql(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
        "WHERE i.inhparent = 'finished_jobs'::regclass"
    )
    assert (name,) in present
    await world.sql(f'DROP TABLE "{name}"')
    assert await world.seen(short, held.id) == (False, False, 1)


async def test_an_occurrence_that_waits_outlives_its_day(world: Installation) -> None:
    """Buffered behind a job that takes weeks: its turn comes, and its fate is counted."""
    long = await world.tenant_with(60 * DAY_S)
    usual = await world.tenant_with(None)
    uids = {tenant: fresh_id() for tenant in (long, usual)}
    for ago in (9, 16):
        await world.made(ago)
        for tenant, uid in uids.items():
            await world.occurrence(tenant, uid, ago, fate=2)
    await world.history.drop_partitions(DEFAULT_S)
    await world.history.forget_schedules(DEFAULT_S, 100)
    for tenant, uid in uids.items():
        assert await world.nominals(tenant, uid) == [await world.day(9), await world.day(16)]
        waiting = await world.value(
            "SELECT count(*) FROM occurrences WHERE schedule_uid = %(uid)s::uuid AND fate = 2", uid=uid
        )
        assert waiting == 2
    assert await world.value("SELECT count(*) FROM occurrences_other") == 2
    await world.sql("UPDATE occurrences SET fate = 1")
    assert await world.history.forget_schedules(DEFAULT_S, 100) == 1
    assert len(await world.nominals(long, uids[long])) == 2


async def test_nothing_is_lost_or_seen_twice_while_a_day_is_dropped(world: Installation) -> None:
    long = await world.tenant_with(60 * DAY_S)
    await world.made(20)
    jobs = {(await world.finished(long, 20)).id for _ in range(5)}
    done = asyncio.Event()
    pages: list[list[JobId]] = []

    async def read() -> None:
        while not done.is_set():
            pages.append([each.id for each in await world.reader.page(long, JobFilter(), None, 99)])

    reading = [asyncio.create_task(read()) for _ in range(3)]
    await asyncio.sleep(0.1)
    await world.history.drop_partitions(DEFAULT_S)
    await asyncio.sleep(0.1)
    done.set()
    await asyncio.gather(*reading)
    assert len(pages) > 5
    assert all(len(page) == len(jobs) and set(page) == jobs for page in pages)


async def test_a_day_that_cannot_be_locked_stays_whole(world: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was copied out of it is taken back with the rest of the transaction."""
    long = await world.tenant_with(60 * DAY_S)
    await world.made(20)
    job = (await world.finished(long, 20)).id
    async with await psycopg.AsyncConnection.connect(world.url) as conn:
        await conn.execute("SELECT count(*) FROM attempts")
        with pytest.raises(Unavailable):
            await world.history.drop_partitions(DEFAULT_S)
    assert await world.value("SELECT count(*) FROM kept_attempts") == 0
    assert await world.seen(long, job) == HERE
    await world.history.drop_partitions(DEFAULT_S)
    assert await world.value("SELECT count(*) FROM kept_attempts") == 1
    assert await world.seen(long, job) == HERE


async def test_two_janitors_drop_a_day_at_once(world: Installation) -> None:
    long = await world.tenant_with(60 * DAY_S)
    await world.made(20)
    job = (await world.finished(long, 20)).id
    late: list[asyncio.Task[Any]] = []

    async def drop_and_wait(run: Run) -> None:
        # The other one has copied what is to stay, and has not committed yet.
        await run(f"CREATE TABLE kept_jobs_t{long} PARTITION OF kept_jobs FOR VALUES IN ({long})", {})
        await run("INSERT INTO kept_jobs SELECT * FROM finished_jobs WHERE id = %(id)s::uuid", {"id": job})
        late.append(asyncio.create_task(world.history.drop_partitions(DEFAULT_S)))
        await world.until_blocked()
        await run(f"DROP TABLE finished_jobs_{await world.day(20):%Y%m%d}", {})

    await world.db.fires.transact(drop_and_wait)
    await late[0]
    assert await world.seen(long, job) == HERE


async def test_readers_look_into_no_other_tenants_months(world: Installation) -> None:
    usual = await world.tenant_with(None)
    for _ in range(2):
        long = await world.tenant_with(60 * DAY_S)
        await world.made(20)
        await world.finished(long, 20)
        await world.history.drop_partitions(DEFAULT_S)
    plan = await world.sql(
        "EXPLAIN SELECT * FROM kept_jobs WHERE tenant_id = %(t)s AND id = gen_random_uuid()", t=usual
    )
    assert "kept_jobs_t" not in "".join(line for (line,) in plan)
    assert len(readers.HISTORY) == 2


async def test_so_many_tenants_have_a_span_of_their_own(world: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HISTORIES_MAX", 2)
    first = await world.tenant_with(8 * DAY_S)
    await world.tenant_with(30 * DAY_S)
    third = await world.tenant_with(None)
    with pytest.raises(ResourceExhausted, match=r"tenant.history_retention: 2 tenants have a span of their own"):
        await world.keep(third, 30 * DAY_S)
    await world.keep(first, 9 * DAY_S)
    await world.keep(first, None)
    await world.keep(third, 30 * DAY_S)
