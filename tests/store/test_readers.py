"""Readers: a job is seen in exactly one place, in the state that it is in, by its own tenant only."""

import asyncio
from collections.abc import Iterable

import pytest

from rota.domain.ids import JobId, TenantId
from rota.domain.model import Job, JobSpec, JobState, Outcome, Payload
from rota.domain.transition import Finish, Requeue
from rota.store.port import JobFilter

from .world import World, fresh_id

EVERY_STATE = list(JobState)
ANY = JobFilter()
HISTORY = (JobState.SUCCEEDED, JobState.CANCELLED, JobState.EXPIRED)


async def bring(world: World, spec: JobSpec, state: JobState) -> JobSpec:
    """Creates a job and brings it to a state."""
    spec.delay_s = 3_600.0 if state is JobState.SCHEDULED else 0.0
    await world.create(spec)
    if state in (JobState.SCHEDULED, JobState.READY):
        return spec
    if state is JobState.EXPIRED:
        await world.apply(await world.decide(spec.id, Finish(state, False, "late"), None))
        return spec
    held = await world.lease(spec)
    if state is JobState.RETRY_WAIT:
        await world.fail(held, wait_s=3_600.0)
    elif state is JobState.CANCELLING:
        await world.cancelling(held)
    elif state is JobState.SUCCEEDED:
        await world.succeed(held, payload=Payload(b"result"))
    elif state is JobState.CANCELLED:
        await world.cancel(spec)
    elif state is JobState.DEAD:
        await world.bury(held)
    return spec


async def listed(world: World, where: JobFilter = ANY, size: int = 100) -> list[JobId]:
    """All pages in one."""
    found: list[Job] = []
    before: JobId | None = None
    while page := await world.reader.page(world.tenant, where, before, size):
        assert len(page) <= size
        assert before is None or page[0].id < before
        found += page
        before = page[-1].id
    return [job.id for job in found]


def newest_first(specs: Iterable[JobSpec]) -> list[JobId]:
    return sorted((spec.id for spec in specs), reverse=True)


@pytest.mark.parametrize("state", EVERY_STATE)
async def test_a_job_is_seen_once_in_its_state(world: World, state: JobState) -> None:
    spec = await bring(world, world.spec(labels={"a": "b"}), state)
    assert (await world.job(spec.id)).state is state
    (job,) = await world.reader.page(world.tenant, JobFilter(), None, 9)
    assert (job.id, job.state) == (spec.id, state)
    table = "dead_jobs" if state is JobState.DEAD else "finished_jobs" if state in HISTORY else "jobs"
    assert await world.where(spec.id) == [table]


async def test_lists_have_neither_payload_nor_result(world: World) -> None:
    spec = await bring(world, world.spec(), JobState.SUCCEEDED)
    (job,) = await world.reader.page(world.tenant, JobFilter(), None, 9)
    assert (job.payload, job.result) == (Payload(b"", "text/plain"), None)
    full = await world.job(spec.id)
    assert (full.payload, full.result) == (Payload(b"body", "text/plain"), Payload(b"result"))


async def test_ready_is_derived_from_the_clock(world: World) -> None:
    spec = world.spec(delay_s=60.0)
    await world.create(spec)
    assert (await world.job(spec.id)).state is JobState.SCHEDULED
    assert await listed(world, JobFilter(state=JobState.READY)) == []
    await world.pass_time(spec.id, 61.0)
    assert (await world.job(spec.id)).state is JobState.READY
    assert await listed(world, JobFilter(state=JobState.READY)) == [spec.id]
    assert await listed(world, JobFilter(state=JobState.SCHEDULED)) == []
    held = await world.lease(spec)
    assert (await world.job(spec.id)).state is JobState.LEASED
    await world.fail(held, wait_s=60.0)
    assert await listed(world, JobFilter(state=JobState.RETRY_WAIT)) == [spec.id]
    await world.pass_time(spec.id, 61.0)
    assert await listed(world, JobFilter(state=JobState.RETRY_WAIT)) == []
    assert await listed(world, JobFilter(state=JobState.READY)) == [spec.id]


async def test_every_state_is_found_by_its_filter_and_by_no_other(world: World) -> None:
    by_state = {state: await bring(world, world.spec(), state) for state in EVERY_STATE}
    for state, spec in by_state.items():
        assert await listed(world, JobFilter(state=state)) == [spec.id]
    assert await listed(world) == newest_first(by_state.values())


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
async def test_pages_run_through_all_tables_in_one_order(world: World, size: int) -> None:
    states = [JobState.SUCCEEDED, JobState.READY, JobState.DEAD, JobState.CANCELLED, JobState.LEASED] * 2
    specs = [await bring(world, world.spec(), state) for state in states]
    assert await listed(world, size=size) == newest_first(specs)


async def test_a_page_goes_on_after_a_job_that_is_gone(world: World) -> None:
    specs = [world.spec() for _ in range(4)]
    await world.create(*specs)
    first = await world.reader.page(world.tenant, JobFilter(), None, 2)
    await world.sql("DELETE FROM jobs WHERE id = %(id)s::uuid", id=first[-1].id)
    rest = await world.reader.page(world.tenant, JobFilter(), first[-1].id, 9)
    assert [job.id for job in rest] == [specs[1].id, specs[0].id]


async def test_a_job_that_moves_while_one_pages_is_neither_lost_nor_doubled(world: World) -> None:
    specs = [world.spec() for _ in range(6)]
    await world.create(*specs)
    first = await world.reader.page(world.tenant, JobFilter(), None, 3)
    for spec in specs[1:5]:
        await world.cancel(spec)
    await world.create(world.spec())
    rest = await world.reader.page(world.tenant, JobFilter(), first[-1].id, 9)
    assert [job.id for job in first + rest] == newest_first(specs)


@pytest.mark.parametrize(
    ("where", "found"),
    [
        (JobFilter(queue="q1"), [0, 1, 2]),
        (JobFilter(queue="q2"), [3]),
        (JobFilter(queue="Q1"), []),
        (JobFilter(type="t1"), [0, 3]),
        (JobFilter(queue="q1", type="t2"), [1, 2]),
        (JobFilter(labels={"a": "1"}), [0, 1, 3]),
        (JobFilter(labels={"a": "1", "b": "2"}), [1, 3]),
        (JobFilter(labels={"a": "2"}), []),
        (JobFilter(labels={"b": ""}), []),
        (JobFilter(labels={"'; --": "%"}), [2]),
        (JobFilter(queue="q1", type="t2", labels={"a": "1"}, state=JobState.DEAD), [1]),
        (JobFilter(queue="q1", state=JobState.READY), [2]),
        (JobFilter(type="t1", state=JobState.SUCCEEDED), [0]),
        (JobFilter(labels={}), [0, 1, 2, 3]),
    ],
)
async def test_filters(world: World, where: JobFilter, found: list[int]) -> None:
    specs = [
        await bring(world, world.spec(queue="q1", type="t1", labels={"a": "1"}), JobState.SUCCEEDED),
        await bring(world, world.spec(queue="q1", type="t2", labels={"a": "1", "b": "2"}), JobState.DEAD),
        await bring(world, world.spec(queue="q1", type="t2", labels={"'; --": "%"}), JobState.READY),
        await bring(world, world.spec(queue="q2", type="t1", labels={"a": "1", "b": "2", "c": "3"}), JobState.LEASED),
    ]
    assert await listed(world, where) == newest_first(specs[n] for n in found)


async def test_get_gives_what_exists(world: World) -> None:
    specs = [await bring(world, world.spec(), state) for state in (JobState.READY, JobState.SUCCEEDED, JobState.DEAD)]
    asked = [*(spec.id for spec in specs), JobId(fresh_id())]
    assert set(await world.reader.get(world.tenant, asked)) == {spec.id for spec in specs}
    assert await world.reader.get(world.tenant, []) == {}


async def test_a_reader_never_sees_a_job_nowhere_or_twice(world: World) -> None:
    """Read again and again while jobs move from table to table."""
    specs = [world.spec() for _ in range(30)]
    await world.create(*specs)
    asked = [spec.id for spec in specs]
    done = asyncio.Event()

    async def watch() -> int:
        rounds = 0
        while not done.is_set():
            assert len(await world.reader.get(world.tenant, asked)) == len(asked)
            assert [job.id for job in await world.reader.page(world.tenant, JobFilter(), None, 99)] == newest_first(
                specs
            )
            rounds += 1
        return rounds

    watcher = asyncio.create_task(watch())
    for number, spec in enumerate(specs):
        held = await world.lease(spec)
        await (world.bury(held) if number % 2 else world.succeed(held))
    done.set()
    assert await watcher > 3


async def test_attempts_are_listed_in_order_and_paged(world: World) -> None:
    spec = world.spec()
    await world.create(spec)
    for number in range(4):
        await world.lease(spec)
        counted = number % 2 == 0
        outcome = Outcome.FAILED if counted else Outcome.RELEASED
        state = JobState.RETRY_WAIT if counted else JobState.SCHEDULED
        await world.apply(await world.decide(spec.id, Requeue(state, await world.now(), counted), outcome))
    running = await world.lease(spec)
    found = await world.reader.attempts(world.tenant, spec.id, 0, 99)
    assert [a.number for a in found] == [1, 2, 3, 4, 5]
    assert [a.outcome for a in found] == [Outcome.FAILED, Outcome.RELEASED, Outcome.FAILED, Outcome.RELEASED, None]
    assert [a.fence for a in found] == sorted(a.fence for a in found)
    assert (found[-1].fence, found[-1].ended_at, found[-1].session_id) == (
        running.fence,
        None,
        running.grant.session_id,
    )
    assert all(a.job_id == spec.id and a.worker == "worker-1" for a in found)
    paged = await world.reader.attempts(world.tenant, spec.id, 0, 2)
    paged += await world.reader.attempts(world.tenant, spec.id, 2, 2)
    paged += await world.reader.attempts(world.tenant, spec.id, 4, 2)
    assert paged == found
    assert await world.reader.attempts(world.tenant, spec.id, 5, 2) == []


@pytest.mark.parametrize("end", ["succeeded", "cancelled", "dead"])
async def test_the_last_attempt_is_listed_once(world: World, end: str) -> None:
    spec = world.spec()
    await world.create(spec)
    await world.fail(await world.lease(spec))
    held = await world.lease(spec)
    if end == "succeeded":
        await world.succeed(held)
    elif end == "cancelled":
        await world.cancel(spec)
    else:
        await world.bury(held)
    found = await world.reader.attempts(world.tenant, spec.id, 0, 99)
    last = {"succeeded": Outcome.SUCCEEDED, "cancelled": Outcome.CANCELLED, "dead": Outcome.FAILED}[end]
    assert [(a.number, a.outcome) for a in found] == [(1, Outcome.FAILED), (2, last)]
    assert all(a.ended_at is not None for a in found)


async def test_the_attempts_of_a_forgotten_session_are_still_listed(world: World) -> None:
    held = await world.lease()
    await world.succeed(held)
    await world.sql("DELETE FROM sessions WHERE id = %(id)s::uuid", id=held.grant.session_id)
    (attempt,) = await world.reader.attempts(world.tenant, held.id, 0, 9)
    assert (attempt.worker, attempt.session_id) == ("", held.grant.session_id)


@pytest.mark.parametrize("state", EVERY_STATE)
async def test_another_tenant_sees_nothing(world: World, state: JobState) -> None:
    spec = await bring(world, world.spec(), state)
    other = TenantId(world.tenant + 500_000)
    assert await world.reader.get(other, [spec.id]) == {}
    assert await world.reader.page(other, JobFilter(), None, 99) == []
    assert await world.reader.page(other, JobFilter(state=state), None, 99) == []
    assert await world.reader.attempts(other, spec.id, 0, 99) == []


async def test_two_tenants_with_one_job_id_see_their_own(world: World) -> None:
    """Ids are made by coordinators and never shared; were they, nothing would leak."""
    other = TenantId(world.tenant + 500_000)
    mine, theirs = world.spec(type="mine"), world.spec(type="theirs", tenant_id=other)
    theirs.id = mine.id
    await world.create(mine)
    await world.create(theirs)
    await world.succeed(await world.lease(mine))
    assert (await world.job(mine.id)).state is JobState.SUCCEEDED
    assert (await world.reader.get(other, [mine.id]))[mine.id].type == "theirs"
    assert (await world.reader.get(other, [mine.id]))[mine.id].state is JobState.READY
