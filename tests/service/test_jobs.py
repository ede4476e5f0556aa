"""Creating many callers' jobs at once, and cancelling against everything that may happen meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from rota.domain.errors import AlreadyExists, FailedPrecondition, NotFound, RotaError
from rota.domain.ids import JobId, TenantId
from rota.domain.model import CancelMode, Dedupe, DedupeConflict, DedupeScope, JobSpec, JobState, Outcome, Timeouts
from rota.service.completions import Completions
from rota.service.jobs import CreateAnswer, Jobs, entry_of
from rota.store import leases as leases_module
from rota.store import outcomes as outcomes_module
from rota.store.engine import Run, array

from ..store.test_readers import bring
from ..store.world import Held, World, fresh_id
from .conftest import Told

IF_NOT_STARTED, COOPERATIVE, FENCE_OUT = CancelMode.IF_NOT_STARTED, CancelMode.COOPERATIVE, CancelMode.FENCE_OUT


def keyed(world: World, key: str, on_conflict: DedupeConflict = DedupeConflict.RETURN_EXISTING) -> JobSpec:
    return world.spec(dedupe=Dedupe(key, DedupeScope.TYPE, None, on_conflict))


def outcome(answer: CreateAnswer | RotaError) -> list[tuple[JobId, bool]] | str:
    """The jobs of an answer and whether each is new; or the reason of a refusal."""
    if isinstance(answer, RotaError):
        return answer.reason
    return [(job, created is not None) for job, created in answer.jobs]


async def test_calls_of_every_kind_in_one_batch(world: World, jobs: Jobs, told: Told) -> None:
    held, old = keyed(world, "held"), world.spec()
    await jobs.create([world.call(held), world.call(old, request_id="old", digest=b"d")])
    told.said.clear()

    plain, first, second = world.spec(), world.spec(), world.spec()
    free, behind, mixed = keyed(world, "free"), keyed(world, "held"), world.spec()
    calls = [
        world.call(plain),
        world.call(first, second, request_id="new", digest=b"d"),
        world.call(world.spec(), request_id="old", digest=b"d"),
        world.call(world.spec(), request_id="old", digest=b"other", method=1),
        world.call(free),
        world.call(behind, mixed),
        world.call(keyed(world, "held", DedupeConflict.FAIL), world.spec()),
        world.call(keyed(world, "unused"), request_id="old", digest=b"d"),
    ]
    # One batch never has a request_id twice.
    answers = [
        *await jobs.create([*calls[:3], *calls[4:7]]),
        *await jobs.create([calls[3]]),
        *await jobs.create([calls[7]]),
    ]
    assert [outcome(answer) for answer in answers] == [
        [(plain.id, True)],
        [(first.id, True), (second.id, True)],
        [(old.id, False)],
        [(free.id, True)],
        [(held.id, False), (mixed.id, True)],
        "RESOURCE_EXISTS",
        "REQUEST_ID_REUSED",
        [(old.id, False)],
    ]
    assert await world.count("jobs") == 2 + 5
    assert sorted(told.said) == sorted(("waiting", spec.id) for spec in (plain, first, second, free, mixed))


async def test_the_same_request_at_once_has_one_answer(world: World, jobs: Jobs) -> None:
    calls = [world.call(world.spec(), world.spec(), request_id="r", digest=b"d") for _ in range(8)]
    found = [(await jobs.create([call]))[0] for call in calls[:1]]
    found += [answer for (answer,) in await asyncio.gather(*(jobs.create([call]) for call in calls[1:]))]
    assert {tuple(job for job, _ in answer.jobs) for answer in found if isinstance(answer, CreateAnswer)} == {
        tuple(spec.id for spec in calls[0].specs)
    }


async def test_an_entry_is_what_the_poller_would_read(world: World, jobs: Jobs) -> None:
    spec = world.spec(priority=8, headers={"k": "v"}, timeouts=Timeouts(start_by_s=30.0))
    (answer,) = await jobs.create([world.call(spec)])
    assert isinstance(answer, CreateAnswer)
    created = answer.jobs[0][1]
    assert created is not None
    told = entry_of(spec, created.due_us)
    after = (spec.shard, told.position._replace(due_us=told.due_us - 1))
    (row,) = [r for r in await world.leases.read_due([after], told.due_us, 1_000) if r.entry.id == spec.id]
    assert told.size <= row.entry.size <= told.size + 16
    assert told.start_by == pytest.approx(row.entry.start_by, abs=1e-5)
    for field in ("tenant_id", "id", "shard", "queue", "type", "priority", "due_us"):
        assert getattr(told, field) == getattr(row.entry, field)


REFUSED = "refused"


@pytest.mark.parametrize(
    ("state", "if_not_started", "cooperative", "fence_out"),
    [
        (JobState.SCHEDULED, JobState.CANCELLED, JobState.CANCELLED, JobState.CANCELLED),
        (JobState.READY, JobState.CANCELLED, JobState.CANCELLED, JobState.CANCELLED),
        (JobState.RETRY_WAIT, JobState.CANCELLED, JobState.CANCELLED, JobState.CANCELLED),
        (JobState.LEASED, REFUSED, JobState.CANCELLING, JobState.CANCELLED),
        (JobState.CANCELLING, REFUSED, JobState.CANCELLING, JobState.CANCELLED),
        (JobState.SUCCEEDED, JobState.SUCCEEDED, JobState.SUCCEEDED, JobState.SUCCEEDED),
        (JobState.CANCELLED, JobState.CANCELLED, JobState.CANCELLED, JobState.CANCELLED),
        (JobState.EXPIRED, JobState.EXPIRED, JobState.EXPIRED, JobState.EXPIRED),
        (JobState.DEAD, JobState.DEAD, JobState.DEAD, JobState.DEAD),
    ],
)
async def test_cancellation(
    world: World,
    jobs: Jobs,
    told: Told,
    state: JobState,
    if_not_started: JobState | str,
    cooperative: JobState,
    fence_out: JobState,
) -> None:
    table = {IF_NOT_STARTED: if_not_started, COOPERATIVE: cooperative, FENCE_OUT: fence_out}
    for mode, then in table.items():
        spec = await bring(world, world.spec(), state)
        before, told.said = await world.job(spec.id), []
        if then == REFUSED:
            with pytest.raises(FailedPrecondition):
                await jobs.cancel(world.tenant, spec.id, mode, "why")
            assert await world.job(spec.id) == before
            continue
        job = await jobs.cancel(world.tenant, spec.id, mode, "why")
        assert (job.state, job) == (then, await world.job(spec.id))
        if state.terminal:
            assert (job, told.said) == (before, [])
            continue
        assert job.reason == "why"
        lease = (before.session_id, spec.id, (await world.live(spec.id)).fence) if then is JobState.CANCELLING else None
        if lease:
            assert told.said == [("cancel requested", (*lease, "why"))]
        else:
            assert [what for what, _ in told.said if what != "lease ended"] == (
                ["lease revoked", "finished"] if before.session_id else ["finished"]
            )


async def test_a_cancelled_retry_never_runs_again(world: World, jobs: Jobs) -> None:
    spec = await bring(world, world.spec(), JobState.RETRY_WAIT)
    await jobs.cancel(world.tenant, spec.id, COOPERATIVE, "")
    assert await world.claim(spec, await world.new_session()) is None
    assert [a.outcome for a in await world.reader.attempts(world.tenant, spec.id, 0, 9)] == [Outcome.FAILED]


@pytest.mark.parametrize("whose", ["unknown", "another tenant's"])
async def test_no_such_job(world: World, jobs: Jobs, whose: str) -> None:
    spec = world.spec()
    await world.create(spec)
    tenant = world.tenant if whose == "unknown" else TenantId(world.tenant + 500_000)
    job = JobId(fresh_id()) if whose == "unknown" else spec.id
    for ask in (
        jobs.get(tenant, job),
        jobs.cancel(tenant, job, FENCE_OUT, ""),
        jobs.attempts(tenant, job, 0, 9),
    ):
        with pytest.raises(NotFound, match=f"jobs/{job}: not found") as refused:
            await ask
        assert refused.value.reason == "RESOURCE_NOT_FOUND"
    assert await world.where(spec.id) == ["jobs"]


async def test_a_job_without_attempts_has_an_empty_list(world: World, jobs: Jobs) -> None:
    spec = world.spec()
    await world.create(spec)
    assert await jobs.attempts(world.tenant, spec.id, 0, 9) == []


async def race(world: World, first: Callable[[Run], Awaitable[object]], second: Awaitable[object]) -> object:
    """Runs `first` in a transaction that commits once `second` waits for it; what became of `second`."""
    later: list[asyncio.Future[object]] = []

    async def work(run: Run) -> None:
        assert await first(run)
        later.append(asyncio.ensure_future(second))
        await world.until_blocked()

    await world.db.claims.transact(work)
    return (await asyncio.gather(later[0], return_exceptions=True))[0]


def _success(world: World, held: Held) -> Callable[[Run], Awaitable[object]]:
    return lambda run: run(outcomes_module._SUCCEED, outcomes_module._succeed_params([world.result(held)]))


@pytest.mark.parametrize("mode", [COOPERATIVE, FENCE_OUT])
async def test_a_cancellation_that_comes_after_a_success_is_told_of_it(
    world: World, jobs: Jobs, told: Told, mode: CancelMode
) -> None:
    held = await world.lease()
    job = await race(world, _success(world, held), jobs.cancel(world.tenant, held.id, mode, "late"))
    assert job == await world.job(held.id)
    assert (await world.job(held.id)).state is JobState.SUCCEEDED
    assert told.said == []


async def test_a_start_that_comes_first_wins_over_if_not_started(world: World, jobs: Jobs) -> None:
    spec, session = world.spec(), await world.new_session()
    await world.create(spec)

    async def claim(run: Run) -> object:
        params = {"tenants": array([world.tenant]), "ids": array([spec.id]), "sessions": array([session])}
        return await run(
            leases_module._CLAIM, params | {"fences": array([world.mint(spec.shard)]), "owner": world.owner}
        )

    refused = await race(world, claim, jobs.cancel(world.tenant, spec.id, IF_NOT_STARTED, ""))
    assert isinstance(refused, FailedPrecondition)
    assert (await world.live(spec.id)).state is JobState.LEASED


@pytest.mark.parametrize(
    ("mode", "reason", "cause"), [(FENCE_OUT, "STALE_FENCE", "CANCELLED"), (COOPERATIVE, None, None)]
)
async def test_a_success_that_comes_after_a_cancellation(
    world: World, jobs: Jobs, completions: Completions, mode: CancelMode, reason: str | None, cause: str | None
) -> None:
    """Cut off it is refused; asked to stop it still counts, and says so."""
    held = await world.lease()
    await jobs.cancel(world.tenant, held.id, mode, "")
    (answer,) = await completions.settle([world.result(held)])
    job = await world.job(held.id)
    if isinstance(answer, RotaError):
        assert (answer.reason, answer.metadata["cause"]) == (reason, cause)
        assert job.state is JobState.CANCELLED
    else:
        assert reason is None
        assert (answer.state, job.completed_despite_cancel) == (JobState.SUCCEEDED, True)


@pytest.mark.parametrize("mode", [COOPERATIVE, FENCE_OUT])
async def test_both_at_once_agree(world: World, jobs: Jobs, completions: Completions, mode: CancelMode) -> None:
    """Without a sequencer, again and again: whatever was first, both sides hear the same."""
    for _ in range(10):
        held = await world.lease()
        (answer,), job = await asyncio.gather(
            completions.settle([world.result(held)]), jobs.cancel(world.tenant, held.id, mode, "")
        )
        final = await world.job(held.id)
        assert len(await world.where(held.id)) == 1
        if isinstance(answer, RotaError):
            assert (answer.reason, final.state) == ("STALE_FENCE", JobState.CANCELLED)
        else:
            assert final.state is JobState.SUCCEEDED
        assert job.state in (final.state, JobState.CANCELLING)
        assert len(await world.reader.attempts(world.tenant, held.id, 0, 9)) == 1


async def test_a_refusal_of_one_is_a_value_and_not_an_error_of_all(world: World, jobs: Jobs) -> None:
    await jobs.create([world.call(keyed(world, "k"))])
    refused, created = await jobs.create([world.call(keyed(world, "k", DedupeConflict.FAIL)), world.call(world.spec())])
    assert isinstance(refused, AlreadyExists)
    assert isinstance(created, CreateAnswer)
