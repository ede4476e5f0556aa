"""Cancellation against everything that may happen to a job at the same time: whoever commits first wins, both sides are
told the stored truth, and a job ends once.

Both sides are whole service calls, which a lock on the job's row lets write one after the other.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from rota.domain.errors import FailedPrecondition, RotaError
from rota.domain.ids import JobId
from rota.domain.model import (
    CancelMode,
    Failure,
    Grant,
    Job,
    JobSpec,
    JobState,
    Outcome,
    RetryPolicy,
    SessionState,
    Settlement,
    Timeouts,
)
from rota.domain.transition import Ending
from rota.service.completions import Completions, LostLease
from rota.service.jobs import Jobs

from ..store.test_readers import bring
from ..store.world import Held, World
from .conftest import Told

NOT_STARTED, ASK, CUT = CancelMode.IF_NOT_STARTED, CancelMode.COOPERATIVE, CancelMode.FENCE_OUT
SCHEDULED, RETRY_WAIT, LEASED, CANCELLING = (
    JobState.SCHEDULED,
    JobState.RETRY_WAIT,
    JobState.LEASED,
    JobState.CANCELLING,
)
SUCCEEDED, CANCELLED, EXPIRED, DEAD = JobState.SUCCEEDED, JobState.CANCELLED, JobState.EXPIRED, JobState.DEAD
CANCELS_FIRST, CANCELS_SECOND = True, False


@dataclass(frozen=True)
class Scene:
    world: World
    completions: Completions
    held: Held

    async def report(self, outcome: Outcome, failure: Failure | None = None) -> Settlement | RotaError:
        (answer,) = await self.completions.settle([self.world.result(self.held, outcome, failure=failure)])
        return answer

    async def lose(self, outcome: Outcome) -> int:
        ending = Ending(outcome, Failure("TimedOut") if outcome is Outcome.TIMED_OUT else None)
        return await self.completions.lose([LostLease(self.world.tenant, *self.held.key, ending)])


Rival = Callable[[Scene], Awaitable[object]]


async def succeeds(scene: Scene) -> object:
    return await scene.report(Outcome.SUCCEEDED)


async def fails(scene: Scene) -> object:
    return await scene.report(Outcome.FAILED, Failure("E", "boom"))


async def fails_for_good(scene: Scene) -> object:
    return await scene.report(Outcome.FAILED, Failure("Fatal", "boom"))


async def stops(scene: Scene) -> object:
    return await scene.report(Outcome.CANCELLED)


async def gives_back(scene: Scene) -> object:
    return await scene.report(Outcome.RELEASED)


async def expires(scene: Scene) -> object:
    """The session is dead, and the reaper ends its lease."""
    return await scene.lose(Outcome.LEASE_LOST)


async def runs_too_long(scene: Scene) -> object:
    return await scene.lose(Outcome.TIMED_OUT)


async def never_arrives(scene: Scene) -> object:
    return await scene.lose(Outcome.UNDELIVERED)


async def race(
    world: World, job: JobId, cancel: Awaitable[object], rival: Awaitable[object], cancels_first: bool
) -> list[object]:
    """What became of the cancellation and of its rival."""
    if cancels_first:
        return await world.in_order(job, cancel, rival)
    return (await world.in_order(job, rival, cancel))[::-1]


def told_as(answer: object) -> object:
    """An answer as the tables below have it: the state told, or the reason and cause of a refusal."""
    if isinstance(answer, Job | Settlement):
        return answer.state
    if isinstance(answer, RotaError):
        return answer.reason, answer.metadata.get("cause", "")
    if isinstance(answer, Exception):
        raise answer
    return answer


STALE = ("STALE_FENCE", "CANCELLED")
ENDED, NOT_ENDED = 1, 0
"""What the coordinator is told of a lease that it ends by itself."""


@pytest.mark.parametrize(
    ("mode", "rival", "cancels_first", "stored", "outcome", "rival_told"),
    [
        # The worker's report came first. Where that left the job waiting, it is cancelled there.
        (ASK, succeeds, CANCELS_SECOND, SUCCEEDED, Outcome.SUCCEEDED, SUCCEEDED),
        (CUT, succeeds, CANCELS_SECOND, SUCCEEDED, Outcome.SUCCEEDED, SUCCEEDED),
        (ASK, fails, CANCELS_SECOND, CANCELLED, Outcome.FAILED, RETRY_WAIT),
        (CUT, fails, CANCELS_SECOND, CANCELLED, Outcome.FAILED, RETRY_WAIT),
        (ASK, fails_for_good, CANCELS_SECOND, DEAD, Outcome.FAILED, DEAD),
        (CUT, fails_for_good, CANCELS_SECOND, DEAD, Outcome.FAILED, DEAD),
        (ASK, stops, CANCELS_SECOND, CANCELLED, Outcome.CANCELLED, RETRY_WAIT),
        (CUT, stops, CANCELS_SECOND, CANCELLED, Outcome.CANCELLED, RETRY_WAIT),
        (ASK, gives_back, CANCELS_SECOND, CANCELLED, Outcome.RELEASED, SCHEDULED),
        (CUT, gives_back, CANCELS_SECOND, CANCELLED, Outcome.RELEASED, SCHEDULED),
        (ASK, expires, CANCELS_SECOND, CANCELLED, Outcome.LEASE_LOST, ENDED),
        (CUT, expires, CANCELS_SECOND, CANCELLED, Outcome.LEASE_LOST, ENDED),
        (ASK, runs_too_long, CANCELS_SECOND, CANCELLED, Outcome.TIMED_OUT, ENDED),
        (CUT, runs_too_long, CANCELS_SECOND, CANCELLED, Outcome.TIMED_OUT, ENDED),
        (ASK, never_arrives, CANCELS_SECOND, CANCELLED, Outcome.UNDELIVERED, ENDED),
        (CUT, never_arrives, CANCELS_SECOND, CANCELLED, Outcome.UNDELIVERED, ENDED),
        # Asked to stop first: the worker's own success wins, and whatever else it says is no retry.
        (ASK, succeeds, CANCELS_FIRST, SUCCEEDED, Outcome.SUCCEEDED, SUCCEEDED),
        (ASK, fails, CANCELS_FIRST, CANCELLED, Outcome.FAILED, CANCELLED),
        (ASK, fails_for_good, CANCELS_FIRST, CANCELLED, Outcome.FAILED, CANCELLED),
        (ASK, stops, CANCELS_FIRST, CANCELLED, Outcome.CANCELLED, CANCELLED),
        (ASK, gives_back, CANCELS_FIRST, CANCELLED, Outcome.RELEASED, CANCELLED),
        (ASK, expires, CANCELS_FIRST, CANCELLED, Outcome.LEASE_LOST, ENDED),
        (ASK, runs_too_long, CANCELS_FIRST, CANCELLED, Outcome.TIMED_OUT, ENDED),
        (ASK, never_arrives, CANCELS_FIRST, CANCELLED, Outcome.UNDELIVERED, ENDED),
        # Cut off first: nothing that comes later counts.
        (CUT, succeeds, CANCELS_FIRST, CANCELLED, Outcome.CANCELLED, STALE),
        (CUT, fails, CANCELS_FIRST, CANCELLED, Outcome.CANCELLED, STALE),
        (CUT, fails_for_good, CANCELS_FIRST, CANCELLED, Outcome.CANCELLED, STALE),
        (CUT, stops, CANCELS_FIRST, CANCELLED, Outcome.CANCELLED, CANCELLED),
        (CUT, gives_back, CANCELS_FIRST, CANCELLED, Outcome.CANCELLED, STALE),
        (CUT, expires, CANCELS_FIRST, CANCELLED, Outcome.CANCELLED, NOT_ENDED),
        (CUT, runs_too_long, CANCELS_FIRST, CANCELLED, Outcome.CANCELLED, NOT_ENDED),
        (CUT, never_arrives, CANCELS_FIRST, CANCELLED, Outcome.CANCELLED, NOT_ENDED),
    ],
)
async def test_a_running_job(
    world: World,
    jobs: Jobs,
    completions: Completions,
    told: Told,
    mode: CancelMode,
    rival: Rival,
    cancels_first: bool,
    stored: JobState,
    outcome: Outcome,
    rival_told: object,
) -> None:
    held = await world.lease(retry=RetryPolicy(non_retryable_types=("Fatal",)))
    scene = Scene(world, completions, held)
    if rival is expires:
        await world.sessions.set_state(world.tenant, held.grant.session_id, SessionState.CLOSED)
    cancel_answer, rival_answer = await race(
        world, held.id, jobs.cancel(world.tenant, held.id, mode, "why"), rival(scene), cancels_first
    )

    job = await world.job(held.id)
    assert (job.state, told_as(rival_answer)) == (stored, rival_told)
    # The one who asked reads the job after that: still being cancelled, or as it ended.
    asked = cancels_first and mode is ASK
    assert told_as(cancel_answer) in ({CANCELLING, stored} if asked else {stored})
    assert job.completed_despite_cancel == (asked and stored is SUCCEEDED)
    assert job.reason == ("why" if stored is CANCELLED else job.reason)
    await ended_once(world, told, held.spec, [outcome])


@pytest.mark.parametrize(
    ("first", "second", "stored"),
    [
        (ASK, ASK, CANCELLING),
        (ASK, CUT, CANCELLED),
        (CUT, ASK, CANCELLED),
        (CUT, CUT, CANCELLED),
    ],
)
async def test_two_who_cancel_a_running_job(
    world: World, jobs: Jobs, told: Told, first: CancelMode, second: CancelMode, stored: JobState
) -> None:
    held = await world.lease()
    answers = await world.in_order(
        held.id,
        jobs.cancel(world.tenant, held.id, first, "first"),
        jobs.cancel(world.tenant, held.id, second, "second"),
    )
    assert (await world.job(held.id)).state is stored
    assert told_as(answers[1]) is stored
    assert told_as(answers[0]) in {stored, CANCELLING}
    if stored is CANCELLED:
        assert (await world.job(held.id)).reason == ("first" if first is CUT else "second")
        await ended_once(world, told, held.spec, [Outcome.CANCELLED])
    else:
        assert ("finished", held.id) not in told.said


async def test_what_has_started_is_left_alone_until_it_waits_again(world: World, jobs: Jobs) -> None:
    held = await world.lease()
    before = await world.job(held.id)
    with pytest.raises(FailedPrecondition):
        await jobs.cancel(world.tenant, held.id, NOT_STARTED, "")
    assert await world.job(held.id) == before
    await world.fail(held)
    assert (await jobs.cancel(world.tenant, held.id, NOT_STARTED, "")).state is CANCELLED


REFUSED = ("INVALID_STATE", "")


@pytest.mark.parametrize(
    ("mode", "cancels_first", "stored", "cancel_told"),
    [
        (NOT_STARTED, CANCELS_FIRST, CANCELLED, CANCELLED),
        (ASK, CANCELS_FIRST, CANCELLED, CANCELLED),
        (CUT, CANCELS_FIRST, CANCELLED, CANCELLED),
        (NOT_STARTED, CANCELS_SECOND, LEASED, REFUSED),
        (ASK, CANCELS_SECOND, CANCELLING, CANCELLING),
        (CUT, CANCELS_SECOND, CANCELLED, CANCELLED),
    ],
)
@pytest.mark.parametrize("waiting", [SCHEDULED, RETRY_WAIT])
async def test_a_waiting_job_against_its_claim(
    world: World,
    jobs: Jobs,
    completions: Completions,
    told: Told,
    waiting: JobState,
    mode: CancelMode,
    cancels_first: bool,
    stored: JobState,
    cancel_told: object,
) -> None:
    spec = await bring(world, world.spec(), waiting)
    await world.pass_time(spec.id, 3_600.0)
    cancel_answer, granted = await race(
        world,
        spec.id,
        jobs.cancel(world.tenant, spec.id, mode, "why"),
        world.claim(spec, await world.new_session()),
        cancels_first,
    )
    assert isinstance(granted, Grant) != cancels_first
    assert ((await world.job(spec.id)).state, told_as(cancel_answer)) == (stored, cancel_told)
    if stored is CANCELLED:
        before = [Outcome.FAILED] if waiting is RETRY_WAIT else []
        await ended_once(world, told, spec, before + ([] if cancels_first else [Outcome.CANCELLED]))
    else:
        assert ("finished", spec.id) not in told.said
    if isinstance(granted, Grant):
        # What was handed out is heard, unless it was cut off; it is never run again.
        (answer,) = await completions.settle([world.result(Held(spec, granted))])
        assert told_as(answer) == (STALE if stored is CANCELLED else SUCCEEDED)


@pytest.mark.parametrize("mode", CancelMode)
@pytest.mark.parametrize("cancels_first", [CANCELS_FIRST, CANCELS_SECOND])
@pytest.mark.parametrize(
    ("timeouts", "missed"),
    [(Timeouts(start_by_s=10.0), EXPIRED), (Timeouts(total_s=10.0), DEAD)],
    ids=["start_by", "total"],
)
async def test_a_waiting_job_against_the_end_of_its_time(
    world: World,
    jobs: Jobs,
    completions: Completions,
    told: Told,
    timeouts: Timeouts,
    missed: JobState,
    mode: CancelMode,
    cancels_first: bool,
) -> None:
    spec = world.spec(timeouts=timeouts)
    await world.create(spec)
    await world.pass_time(spec.id, 11.0)
    cancel_answer, ended = await race(
        world,
        spec.id,
        jobs.cancel(world.tenant, spec.id, mode, "why"),
        completions.expire([(world.tenant, spec.id)]),
        cancels_first,
    )
    stored = CANCELLED if cancels_first else missed
    assert ((await world.job(spec.id)).state, told_as(cancel_answer), ended) == (stored, stored, not cancels_first)
    await ended_once(world, told, spec, [])


@pytest.mark.parametrize("first", CancelMode)
@pytest.mark.parametrize("second", CancelMode)
@pytest.mark.parametrize("waiting", [SCHEDULED, RETRY_WAIT])
async def test_two_who_cancel_a_waiting_job(
    world: World, jobs: Jobs, told: Told, waiting: JobState, first: CancelMode, second: CancelMode
) -> None:
    spec = await bring(world, world.spec(), waiting)
    answers = await world.in_order(
        spec.id,
        jobs.cancel(world.tenant, spec.id, first, "first"),
        jobs.cancel(world.tenant, spec.id, second, "second"),
    )
    assert [told_as(answer) for answer in answers] == [CANCELLED, CANCELLED]
    assert (await world.job(spec.id)).reason == "first"
    await ended_once(world, told, spec, [Outcome.FAILED] if waiting is RETRY_WAIT else [])


async def ended_once(world: World, told: Told, spec: JobSpec, outcomes: list[Outcome]) -> None:
    """One terminal event, one place, the attempts as they were, and nobody gets the job again."""
    assert told.said.count(("finished", spec.id)) == 1
    assert len(await world.where(spec.id)) == 1
    assert not await world.is_live(spec.id)
    assert [a.outcome for a in await world.reader.attempts(world.tenant, spec.id, 0, 9)] == outcomes
    assert await world.claim(spec, await world.new_session()) is None
