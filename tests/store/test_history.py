"""History: a partition for each day, made ahead and dropped when old, without a gap and without losing a row."""

import asyncio
from datetime import UTC, date, datetime, timedelta

import pytest

from rota.domain.model import JobState
from rota.store import outcomes
from rota.store.engine import Database, Run
from rota.store.history import PARTITIONED, PgHistory
from rota.store.port import JobFilter

from .world import World

DAY_S = 86_400.0


@pytest.fixture
def world(lone_world: World) -> World:
    """Partitions are of the whole database."""
    return lone_world


async def today(world: World) -> date:
    found: date = await world.value("SELECT (now() AT TIME ZONE 'UTC')::date")
    return found


def name(parent: str, day: date) -> str:
    return f"{parent}_{day:%Y%m%d}"


async def partitions(world: World, parent: str) -> list[str]:
    rows = await world.sql(
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %(p)s::regclass ORDER BY 1", p=parent
    )
    return [row[0] for row in rows]


async def finish_at(world: World, at: datetime) -> str:
    """A job that finished at an instant; the partition that it lies in."""
    held = await world.lease()
    await world.succeed(held)
    await world.sql("UPDATE finished_jobs SET finished_at = %(at)s WHERE id = %(id)s::uuid", at=at, id=held.id)
    found: str = await world.value(
        "SELECT tableoid::regclass::text FROM finished_jobs WHERE id = %(id)s::uuid", id=held.id
    )
    return found


def midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


async def test_partitions_are_made_ahead_once(world: World) -> None:
    start = await today(world)
    made = await world.history.make_partitions(3)
    assert made == [name(parent, start + timedelta(days=n)) for parent in PARTITIONED for n in range(4)]
    assert await world.history.make_partitions(3) == []
    assert await world.history.make_partitions(4) == [name(p, start + timedelta(days=4)) for p in PARTITIONED]
    for parent in PARTITIONED:
        assert await partitions(world, parent) == sorted(
            [name(parent, start + timedelta(days=n)) for n in range(5)] + [f"{parent}_other"]
        )


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland", "America/Los_Angeles"])
async def test_days_are_utc_whatever_the_servers_zone(database: str, zone: str) -> None:
    """Midnight has no gap and no overlap: the last instant of a day and the first of the next lie side by side."""
    async with World(database) as world:
        await world.sql(f"ALTER DATABASE {database.rsplit('/', 1)[1]} SET timezone = '{zone}'")
    async with World(database) as world:
        assert await world.value("SHOW timezone") == zone
        start = await today(world)
        # Rows of local days that are not the UTC day keep their place in the default partition.
        early = await finish_at(world, midnight(start) - timedelta(microseconds=1))
        late = await finish_at(world, midnight(start + timedelta(days=4)))
        assert (early, late) == ("finished_jobs_other", "finished_jobs_other")
        await world.history.make_partitions(3)
        for day in range(4):
            first = midnight(start + timedelta(days=day))
            expected = name("finished_jobs", start + timedelta(days=day))
            for at in (first, first + timedelta(hours=12), first + timedelta(days=1, microseconds=-1)):
                assert await finish_at(world, at) == expected


async def test_what_is_in_the_default_partition_stays_there_and_is_seen(world: World) -> None:
    start = await today(world)
    tomorrow = midnight(start + timedelta(days=1))
    assert await finish_at(world, tomorrow + timedelta(hours=3)) == "finished_jobs_other"
    made = await world.history.make_partitions(2)
    assert name("finished_jobs", start + timedelta(days=1)) not in made
    assert name("attempts", start + timedelta(days=1)) in made
    assert name("finished_jobs", start + timedelta(days=2)) in made
    assert await finish_at(world, tomorrow + timedelta(hours=4)) == "finished_jobs_other"
    assert len(await world.reader.page(world.tenant, JobFilter(state=JobState.SUCCEEDED), None, 9)) == 2
    assert await world.history.drop_partitions(0.0) == []
    assert await world.count("finished_jobs") == 2


async def test_jobs_end_while_there_is_no_partition(world: World) -> None:
    held = await world.lease()
    await world.fail(held)
    held = await world.lease(held.spec)
    await world.succeed(held)
    assert len(await world.reader.attempts(world.tenant, held.id, 0, 9)) == 2


async def test_old_partitions_are_dropped_with_their_rows(world: World) -> None:
    start = await today(world)
    days = [start - timedelta(days=n) for n in range(6)]
    for parent in PARTITIONED:
        for day in days:
            await world.history._make(parent, name(parent, day), day)
    for day in days:
        assert await finish_at(world, midnight(day)) == name("finished_jobs", day)
    dropped = await world.history.drop_partitions(3 * DAY_S)
    assert sorted(dropped) == sorted(name(parent, day) for parent in PARTITIONED for day in days[4:])
    assert await world.count("finished_jobs") == 4
    assert await world.history.drop_partitions(3 * DAY_S) == []


@pytest.mark.parametrize(("margin_s", "kept"), [(60.0, True), (-60.0, False)])
async def test_no_row_is_dropped_before_its_time(world: World, margin_s: float, kept: bool) -> None:
    """The history kept need not be whole days, and the day now is some hours old."""
    start = await today(world)
    day = start - timedelta(days=2)
    await world.history._make("attempts", name("attempts", day), day)
    youngest_row_s = (await world.now() - midnight(day + timedelta(days=1))).total_seconds()
    dropped = await world.history.drop_partitions(youngest_row_s + margin_s)
    assert dropped == ([] if kept else [name("attempts", day)])


async def test_two_janitors_at_once(world: World) -> None:
    other = Database(world.url)
    try:
        found = await asyncio.gather(world.history.make_partitions(4), PgHistory(other).make_partitions(4))
        assert len(await partitions(world, "finished_jobs")) == 6
        assert await world.history.make_partitions(4) == []
        assert len(set(found[0] + found[1])) == 5 * len(PARTITIONED)
        await asyncio.gather(world.history.drop_partitions(0.0), PgHistory(other).drop_partitions(0.0))
    finally:
        await other.close()


async def test_a_partition_that_another_janitor_makes_meanwhile(world: World) -> None:
    start = await today(world)
    partition = name("finished_jobs", start)
    late: list[asyncio.Task[list[str]]] = []

    async def make_and_wait(run: Run) -> None:
        await run(
            f"CREATE TABLE {partition} PARTITION OF finished_jobs "
            f"FOR VALUES FROM ('{start} 00:00+00') TO ('{start + timedelta(days=1)} 00:00+00')",
            {},
        )
        late.append(asyncio.create_task(world.history.make_partitions(0)))
        await world.until_blocked()

    await world.db.writes.transact(make_and_wait)
    assert await late[0] == [name("attempts", start), name("occurrences", start)]
    assert partition in await partitions(world, "finished_jobs")


async def test_a_row_that_falls_into_the_default_partition_meanwhile(world: World) -> None:
    """Its day gets no partition then, and the other days still do."""
    start = await today(world)
    late: list[asyncio.Task[list[str]]] = []
    held = await world.lease()

    async def finish_and_wait(run: Run) -> None:
        await run(outcomes._SUCCEED, outcomes._succeed_params([world.result(held)]))
        late.append(asyncio.create_task(world.history.make_partitions(1)))
        await world.until_blocked()

    await world.db.writes.transact(finish_and_wait)
    tomorrow = start + timedelta(days=1)
    others = [name(parent, day) for parent in ("attempts", "occurrences") for day in (start, tomorrow)]
    assert await late[0] == [name("finished_jobs", tomorrow), *others]
    assert await world.count("finished_jobs") == 1


async def test_a_partition_that_another_janitor_dropped_meanwhile(world: World) -> None:
    day = await today(world) - timedelta(days=9)
    partition = name("attempts", day)
    await world.history._make("attempts", partition, day)
    late: list[asyncio.Task[list[str]]] = []

    async def drop_and_wait(run: Run) -> None:
        await run(f"DROP TABLE {partition}", {})
        late.append(asyncio.create_task(world.history.drop_partitions(DAY_S)))
        await world.until_blocked()

    await world.db.writes.transact(drop_and_wait)
    assert await late[0] in ([], [partition])
    assert partition not in await partitions(world, "attempts")


async def test_requests_are_forgotten_after_their_life(world: World) -> None:
    calls = [world.call(world.spec(), request_id=f"r{n}") for n in range(4)]
    await world.jobs.create(calls)
    for n, age_s in enumerate([0.0, 3_599.0, 3_601.0, 99_999.0]):
        await world.sql(
            "UPDATE requests SET created_at = now() - %(age)s * interval '1 second' WHERE request_id = %(id)s",
            age=age_s,
            id=f"r{n}",
        )
    assert await world.history.delete_requests(3_600.0, 100) == 2
    assert {key[2] for key in await world.jobs.earlier(calls)} == {"r0", "r1"}
    # A forgotten request_id is a new request; the job that it made stays.
    again = world.call(world.spec(), request_id="r3")
    assert len(await world.jobs.create([again])) == 1
    assert await world.count("jobs") == 5


async def test_forgetting_takes_bounded_bites_oldest_first(world: World) -> None:
    await world.jobs.create([world.call(world.spec(), request_id=f"r{n}") for n in range(10)])
    await world.sql("UPDATE requests SET created_at = now() - (100 + substr(request_id, 2)::int) * interval '1 second'")
    assert [await world.history.delete_requests(60.0, 4) for _ in range(4)] == [4, 4, 2, 0]


async def test_closed_sessions_are_forgotten_and_living_ones_are_not(world: World) -> None:
    old, young, living = [await world.new_session() for _ in range(3)]
    for session, age_s in ((old, 3_601), (young, 3_599)):
        await world.sql(
            "UPDATE sessions SET closed_at = now() - %(age)s * interval '1 second' WHERE id = %(id)s::uuid",
            age=age_s,
            id=session,
        )
    assert await world.history.delete_requests(3_600.0, 100) == 1
    assert [await world.sessions.get(s) is None for s in (old, young, living)] == [True, False, False]
