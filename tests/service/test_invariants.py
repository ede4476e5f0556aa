"""Each invariant is broken in the rows, and found; what can be repaired is, and holds again. Nothing is wrong with a
database in use."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from rota.clock import SystemClock
from rota.domain import invariants as known
from rota.domain.errors import InvalidArgument, Unavailable
from rota.domain.ids import JobId
from rota.domain.model import Dedupe, DedupeConflict, DedupeScope, JobState, Outcome, SessionState, Timeouts
from rota.domain.queue import QueueSettings
from rota.service import invariants
from rota.service.completions import Completions
from rota.service.invariants import Checked, Invariants
from rota.service.jobs import Jobs
from rota.service.notices import Unheard
from rota.store.fires import PgFires
from rota.store.invariants import PgInvariants
from rota.telemetry import Metrics

from ..store.world import World
from .clockwork import Clockwork, timing


class Hasty(SystemClock):
    """What waits to look again does so at once, after `between`."""

    def __init__(self) -> None:
        super().__init__()
        self.between: Callable[[], Awaitable[object]] | None = None

    async def sleep(self, seconds: float) -> None:
        if self.between is not None:
            await self.between()
        await super().sleep(0)


class Place:
    def __init__(self, world: World) -> None:
        self.world = world
        self.clock = Hasty()
        self.metrics = Metrics()
        self.store = PgInvariants(world.db)
        completions = Completions(world.outcomes, Unheard(), self.clock, self.metrics, None)
        jobs = Jobs(world.jobs, world.reader, world.outcomes, Unheard(), self.metrics)
        self.invariants = Invariants(self.store, PgFires(world.db), completions, jobs, self.clock, self.metrics)

    async def check(self, *names: str, repair: bool = False) -> dict[str, Checked]:
        return {each.invariant.name: each for each in await self.invariants.check(names, repair=repair)}

    async def wrong(self) -> dict[str, list[str]]:
        """What does not hold, with the resources named."""
        found = await self.check()
        assert list(found) == list(known.NAMES)
        return {name: [each.name for each in one.examples] for name, one in found.items() if not one.holds}

    async def attended_for(self, seconds: float) -> None:
        """The coordinator has been there for so long, and its shards are looked after."""
        await self.world.sql(
            "UPDATE coordinators SET started_at = now() - %(s)s::float8 * interval '1 second', "
            "expires_at = now() + interval '1 hour'",
            s=seconds,
        )
        await self.world.sql(
            "UPDATE shards s SET watermark = least(now(), (SELECT min(j.due_at) FROM jobs j WHERE j.shard = s.shard)) "
            "- interval '1 minute'"
        )


@pytest_asyncio.fixture
async def place(database: str) -> AsyncIterator[Place]:
    """A database of its own, whose coordinator has been there for a day."""
    async with World(database) as world:
        made = Place(world)
        await made.attended_for(86_400)
        yield made


Break = Callable[[Place], Awaitable[str]]
"""Breaks an invariant; the resource that it is to be found with."""


async def no_owner(place: Place) -> str:
    await place.world.sql("UPDATE shards SET owner = NULL WHERE shard = 7")
    return "shards/7"


async def dead_owner(place: Place) -> str:
    await place.world.sql(
        "INSERT INTO coordinators (id, address, version, expires_at) "
        "VALUES ('00000000-0000-7000-8000-00000000dead', 'gone', '0', now() - interval '2 minutes')"
    )
    await place.world.sql("UPDATE shards SET owner = '00000000-0000-7000-8000-00000000dead' WHERE shard = 255")
    return "shards/255"


async def standing_still(place: Place) -> str:
    await place.world.sql("UPDATE shards SET watermark = now() - interval '6 minutes' WHERE shard = 3")
    return "shards/3"


async def behind_the_mark(place: Place) -> str:
    spec = place.world.spec()
    await place.world.create(spec)
    await place.world.pass_time(spec.id, 30)
    await place.world.sql("UPDATE shards SET watermark = now() - interval '10 s' WHERE shard = %(s)s", s=spec.shard)
    return f"jobs/{spec.id}"


async def _leased(place: Place, ago_s: float) -> JobId:
    held = await place.world.lease()
    await place.world.sql(
        "UPDATE jobs SET leased_at = now() - %(s)s::float8 * interval '1 second' WHERE id = %(id)s::uuid",
        s=ago_s,
        id=held.id,
    )
    return held.id


async def session_pruned(place: Place) -> str:
    job = await _leased(place, 90)
    await place.world.sql("DELETE FROM sessions WHERE id = (SELECT session_id FROM jobs WHERE id = %(j)s::uuid)", j=job)
    return f"jobs/{job}"


async def session_closed(place: Place) -> str:
    job = await _leased(place, 900)
    await place.world.sql(
        "UPDATE sessions SET state = 3, closed_at = now() - interval '90 s' "
        "WHERE id = (SELECT session_id FROM jobs WHERE id = %(j)s::uuid)",
        j=job,
    )
    return f"jobs/{job}"


async def session_dead(place: Place) -> str:
    session = await place.world.new_session()
    await place.world.sql(
        "UPDATE sessions SET expires_at = now() - interval '61 s' WHERE id = %(id)s::uuid", id=session
    )
    return f"sessions/{session}"


async def overrun(place: Place) -> str:
    held = await place.world.lease(timeouts=Timeouts(run_s=10.0))
    await place.world.sql("UPDATE jobs SET leased_at = now() - interval '71 s' WHERE id = %(id)s::uuid", id=held.id)
    return f"jobs/{held.id}"


async def past_start_by(place: Place) -> str:
    spec = place.world.spec(timeouts=Timeouts(start_by_s=5.0))
    await place.world.create(spec)
    await place.world.pass_time(spec.id, 66)
    await place.attended_for(86_400)
    return f"jobs/{spec.id}"


async def past_total(place: Place) -> str:
    spec = place.world.spec(timeouts=Timeouts(total_s=5.0))
    await place.world.create(spec)
    await place.world.pass_time(spec.id, 66)
    await place.attended_for(86_400)
    return f"jobs/{spec.id}"


async def uncounted_in_queue(place: Place) -> str:
    held = await place.world.lease()
    assert await place.world.queues.save(place.world.tenant, "default", QueueSettings(max_in_flight=9), 0)
    await place.world.sql("DELETE FROM lease_slots")
    return f"jobs/{held.id}"


async def _copy(place: Place, source: str, target: str, job: JobId, instant: str) -> None:
    shared = await place.world.value(
        "SELECT string_agg(a.column_name, ', ') FROM information_schema.columns a "
        "JOIN information_schema.columns b USING (column_name) WHERE a.table_name = %(a)s AND b.table_name = %(b)s",
        a=source,
        b=target,
    )
    more = ", state, despite_cancel" if target == "finished_jobs" else ""
    values = ", 6, false" if target == "finished_jobs" else ""
    if "state" in shared.split(", "):
        more, values = more.replace(", state", ""), values.replace(", 6", "")
    await place.world.sql(
        f"INSERT INTO {target} ({shared}, {instant}{more}) SELECT {shared}, now(){values} FROM {source} "
        "WHERE id = %(id)s::uuid",
        id=job,
    )


async def live_and_dead(place: Place) -> str:
    spec = place.world.spec()
    await place.world.create(spec)
    await _copy(place, "jobs", "dead_jobs", spec.id, "died_at")
    return f"jobs/{spec.id}"


async def live_and_finished(place: Place) -> str:
    spec = place.world.spec()
    await place.world.create(spec)
    await _copy(place, "jobs", "finished_jobs", spec.id, "finished_at")
    return f"jobs/{spec.id}"


async def dead_and_finished(place: Place) -> str:
    held = await place.world.lease()
    await place.world.bury(held)
    await _copy(place, "dead_jobs", "finished_jobs", held.id, "finished_at")
    return f"jobs/{held.id}"


async def without_schedule(place: Place) -> str:
    spec = place.world.spec()
    await place.world.create(spec)
    await place.world.sql(
        "UPDATE jobs SET schedule_uid = gen_random_uuid(), schedule_id = 'gone' WHERE id = %(id)s::uuid", id=spec.id
    )
    return f"jobs/{spec.id}"


async def without_job(place: Place) -> str:
    held = await place.world.lease()
    await place.world.fail(held)
    await place.world.sql("DELETE FROM jobs WHERE id = %(id)s::uuid", id=held.id)
    return f"jobs/{held.id}"


async def request_without_job(place: Place) -> str:
    spec = place.world.spec(id=JobId(place.clock.new_id()))
    await place.world.jobs.create([place.world.call(spec, request_id="r-1")])
    await place.world.sql("DELETE FROM jobs WHERE id = %(id)s::uuid", id=spec.id)
    return "requests/1/r-1"


async def old_request(place: Place) -> str:
    spec = place.world.spec()
    await place.world.jobs.create([place.world.call(spec, request_id="r-2")])
    await place.world.sql("UPDATE requests SET created_at = now() - interval '7 days 61 minutes'")
    return "requests/1/r-2"


async def held_key(place: Place) -> str:
    spec = place.world.spec(dedupe=Dedupe("k", DedupeScope.TENANT, None, DedupeConflict.FAIL))
    assert await place.world.jobs.create_deduped(place.world.call(spec))
    await place.world.sql("DELETE FROM jobs WHERE id = %(id)s::uuid", id=spec.id)
    return "dedupeKeys/" + await place.world.value("SELECT key FROM dedupe_keys")


BROKEN: list[tuple[str, Break]] = [
    (known.ONE_OWNER, no_owner),
    (known.ONE_OWNER, dead_owner),
    (known.PROGRESS, standing_still),
    (known.REACHABLE, behind_the_mark),
    (known.LIVE_SESSION, session_pruned),
    (known.LIVE_SESSION, session_closed),
    (known.SESSION_CLOSED, session_dead),
    (known.RUN_TIMEOUT, overrun),
    (known.START_BY, past_start_by),
    (known.START_BY, past_total),
    (known.COUNTED, uncounted_in_queue),
    (known.ONE_TABLE, live_and_dead),
    (known.ONE_TABLE, live_and_finished),
    (known.ONE_TABLE, dead_and_finished),
    (known.ORPHAN_JOB, without_schedule),
    (known.ORPHAN_ATTEMPT, without_job),
    (known.REQUEST_JOBS, request_without_job),
    (known.REQUEST_LIFE, old_request),
    (known.DEDUPE_HOLD, held_key),
]


@pytest.mark.parametrize(("name", "broken"), BROKEN, ids=lambda each: getattr(each, "__name__", ""))
async def test_what_is_broken_is_found_and_repaired(place: Place, name: str, broken: Break) -> None:
    assert await place.wrong() == {}
    resource = await broken(place)
    assert await place.wrong() == {name: [resource]}
    found = (await place.check(name, repair=True))[name]
    assert (found.violations, [each.name for each in found.examples]) == (1, [resource])
    assert found.examples[0].found
    repairable = bool(found.invariant.repair)
    assert found.repaired == int(repairable)
    assert name in await place.wrong() if not repairable else await place.wrong() == {}
    assert place.metrics.snapshot()["rota.invariants.violated"][name] >= 2  # type: ignore[index]


@pytest_asyncio.fixture
async def timed(clockwork: Clockwork) -> Place:
    """With schedules, over a clock that the test moves."""
    place = Place(clockwork)
    await clockwork.create("good", timing("0 3 * * *"))
    await clockwork.create("s", timing("*/5 * * * *"))
    await clockwork.go(7_200, tick=600)
    await place.attended_for(86_400)
    return place


OF_S = "WHERE uid = (SELECT uid FROM schedules WHERE id = 's')"
SCHEDULES = [
    (known.ARMED, f"UPDATE schedule_timers SET arm_at = NULL {OF_S}"),
    (known.STEPPED, f"UPDATE schedule_timers SET arm_at = now() - interval '6 minutes' {OF_S}"),
    (known.FATES, f"UPDATE schedule_timers SET fates[1] = fates[1] + 1 {OF_S}"),
]


@pytest.mark.parametrize(("name", "damage"), SCHEDULES)
async def test_what_is_broken_of_a_schedule_is_found(timed: Place, name: str, damage: str) -> None:
    assert await timed.wrong() == {}
    await timed.world.sql(damage)
    assert await timed.wrong() == {name: ["schedules/s"]}
    repaired = (await timed.check(repair=True))[name].repaired
    assert (await timed.wrong() == {}) is bool(repaired) is (name == known.ARMED)


async def test_a_job_that_has_not_started_of_a_schedule_that_is_gone_does_not_run(timed: Place) -> None:
    clockwork = timed.world
    assert isinstance(clockwork, Clockwork)
    await clockwork.go(290, tick=10)
    job = JobId((await clockwork.sql("SELECT max(id::text) FROM jobs WHERE state = 1 AND attempt = 0"))[0][0])
    await clockwork.sql("DELETE FROM schedules WHERE id = 's'")
    await timed.check(known.ORPHAN_JOB, repair=True)
    assert (await clockwork.job(job)).state is JobState.CANCELLED


async def test_what_is_over_at_the_second_look_is_no_violation(place: Place) -> None:
    await no_owner(place)

    async def taken() -> None:
        await place.world.sql("UPDATE shards SET owner = %(id)s::uuid", id=place.world.owner)

    place.clock.between = taken
    assert (await place.check())[known.ONE_OWNER].holds

    async def another() -> None:
        await taken()
        await place.world.sql("UPDATE shards SET owner = NULL WHERE shard = 8")

    await no_owner(place)
    place.clock.between = another
    assert (await place.check())[known.ONE_OWNER].holds


async def test_what_needs_a_coordinator_is_not_asked_of_a_database_without_one(place: Place) -> None:
    for broken in (no_owner, session_dead, overrun, past_start_by, old_request, held_key):
        await broken(place)
    await place.attended_for(10)
    assert await place.wrong() == {}
    await place.world.sql("UPDATE coordinators SET started_at = '2020-01-01', expires_at = now() - interval '1 s'")
    assert await place.wrong() == {}


async def test_a_database_in_use_is_as_it_should_be(place: Place) -> None:
    """Every state of a job, and of what it leaves behind."""
    world = place.world
    session = await world.new_session()
    await world.jobs.create([world.call(world.spec(id=JobId(place.clock.new_id())), request_id="r")])
    spec = world.spec(dedupe=Dedupe("k", DedupeScope.TENANT, None, DedupeConflict.FAIL))
    assert await world.jobs.create_deduped(world.call(spec))
    await world.succeed(await world.lease(session=session))
    held = await world.lease(session=session)
    await world.fail(held)
    await world.succeed(await world.lease(held.spec, session))
    await world.bury(await world.lease(session=session))
    await world.cancelling(await world.lease(session=session))
    await world.create(unwanted := world.spec())
    await world.cancel(unwanted)
    await world.lease(session=session)
    await world.sessions.set_state(world.tenant, await world.new_session(), SessionState.CLOSED)
    assert await place.wrong() == {}


async def test_all_rows_are_looked_at_slice_by_slice(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invariants, "ROWS", 3)
    jobs = {await without_schedule(place) for _ in range(11)} | {await without_job(place) for _ in range(4)}
    late = {await behind_the_mark(place) for _ in range(7)}
    await place.world.sql("UPDATE jobs SET shard = 5 WHERE schedule_uid IS NULL")
    await place.world.sql("UPDATE shards SET watermark = now() - interval '10 s'")
    requests = 10
    for number in range(requests):
        spec = place.world.spec()
        await place.world.jobs.create([place.world.call(spec, request_id=f"r{number}")])
    await place.world.sql("UPDATE requests SET created_at = now() - interval '8 days'")
    found = await place.check()
    seen = found[known.ORPHAN_JOB].examples + found[known.ORPHAN_ATTEMPT].examples
    assert found[known.ORPHAN_JOB].violations == 11
    assert found[known.ORPHAN_ATTEMPT].violations == 4
    assert {each.name for each in seen} <= jobs and len(seen) == 10 + 4
    assert found[known.REACHABLE].violations == len(late)
    assert found[known.REQUEST_LIFE].violations == requests
    repaired = await place.check(repair=True)
    assert repaired[known.ORPHAN_JOB].repaired == 11
    assert repaired[known.REQUEST_LIFE].repaired == requests
    assert (await place.check())[known.REACHABLE].holds


async def test_a_worker_whose_row_was_pruned_gives_its_job_back(place: Place) -> None:
    """Public case beh-stuck-worker-row-pruned: nobody can end the lease by its session any more."""
    resource = await session_pruned(place)
    await place.check(known.LIVE_SESSION, repair=True)
    job = JobId(resource.removeprefix("jobs/"))
    assert (await place.world.live(job)).state is JobState.RETRY_WAIT
    assert [each.outcome for each in await place.world.reader.attempts(place.world.tenant, job, 0, 9)] == [
        Outcome.LEASE_LOST
    ]


async def test_one_bad_row_does_not_keep_the_others_from_repair(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Public story 7: a recoverer that fails on one row, for ever."""
    await session_pruned(place)
    await without_schedule(place)

    async def refuse(*_: object) -> int:
        raise Unavailable("not now")

    monkeypatch.setattr(Completions, "lose", refuse)
    found = await place.check(repair=True)
    assert (found[known.LIVE_SESSION].repaired, found[known.ORPHAN_JOB].repaired) == (0, 1)


async def test_a_name_that_is_none_is_refused(place: Place) -> None:
    with pytest.raises(InvalidArgument, match=r"names: expected names of invariants \(one_owner_per_shard, .*'nope'"):
        await place.check("nope")
