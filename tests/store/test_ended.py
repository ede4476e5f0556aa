"""`ended`: all that is known of a lease that is over, wherever its job went."""

from collections.abc import Awaitable, Callable

import pytest

from rota.domain.ids import Fence, JobId, TenantId
from rota.domain.model import JobState, Outcome
from rota.domain.transition import Finish, Requeue
from rota.store.port import Ended

from .world import Held, World, fresh_id

NOTHING = Ended(None, None, None, None, None, None, None)


async def ended(world: World, job: JobId, fence: Fence, tenant: TenantId | None = None) -> Ended:
    ((key, found),) = (await world.outcomes.ended([(tenant or world.tenant, job, fence)])).items()
    assert key == (job, fence)
    return found


async def leased(world: World, held: Held) -> None:
    pass


async def cancelling(world: World, held: Held) -> None:
    await world.cancelling(held)


async def failed(world: World, held: Held) -> None:
    await world.fail(held)


async def released(world: World, held: Held) -> None:
    await world.apply(
        await world.decide(held.id, Requeue(JobState.SCHEDULED, await world.now(), False), Outcome.RELEASED)
    )


async def succeeded(world: World, held: Held) -> None:
    await world.succeed(held)


async def cut_off(world: World, held: Held) -> None:
    await world.cancel(held.spec)


async def buried(world: World, held: Held) -> None:
    await world.bury(held)


async def failed_then_cancelled(world: World, held: Held) -> None:
    await world.fail(held)
    await world.cancel(held.spec)


async def released_then_expired(world: World, held: Held) -> None:
    await released(world, held)
    await world.apply(await world.decide(held.id, Finish(JobState.EXPIRED, False), None))


F = Fence(-1)
"""Stands for the fence of the lease."""


@pytest.mark.parametrize(
    ("story", "known"),
    [
        (leased, Ended(F, JobState.LEASED, None, None, None, None, None)),
        (cancelling, Ended(F, JobState.CANCELLING, None, None, None, None, None)),
        (failed, Ended(F, JobState.RETRY_WAIT, Outcome.FAILED, None, None, None, None)),
        (released, Ended(F, JobState.SCHEDULED, Outcome.RELEASED, None, None, None, None)),
        (succeeded, Ended(None, None, None, F, JobState.SUCCEEDED, Outcome.SUCCEEDED, None)),
        (cut_off, Ended(None, None, Outcome.CANCELLED, F, JobState.CANCELLED, Outcome.CANCELLED, None)),
        (buried, Ended(None, None, Outcome.FAILED, None, None, None, F)),
        (failed_then_cancelled, Ended(None, None, Outcome.FAILED, F, JobState.CANCELLED, None, None)),
        (released_then_expired, Ended(None, None, Outcome.RELEASED, F, JobState.EXPIRED, None, None)),
    ],
)
async def test_the_last_lease(world: World, story: Callable[[World, Held], Awaitable[None]], known: Ended) -> None:
    held = await world.lease()
    await story(world, held)
    found = await ended(world, held.id, held.fence)
    at = [held.fence if value == F and type(value) is int else value for value in _values(known)]
    assert _values(found) == at


@pytest.mark.parametrize("story", [leased, failed, succeeded, cut_off, buried])
async def test_an_earlier_lease(world: World, story: Callable[[World, Held], Awaitable[None]]) -> None:
    """Of the fence asked for only its own attempt is told; of the job, where it is now."""
    old = await world.lease()
    await world.apply(
        await world.decide(old.id, Requeue(JobState.RETRY_WAIT, await world.now(), True), Outcome.LEASE_LOST)
    )
    new = await world.lease(old.spec)
    await story(world, new)
    found, latest = await ended(world, old.id, old.fence), await ended(world, old.id, new.fence)
    assert found.attempt_outcome is Outcome.LEASE_LOST
    assert _values(found)[:2] == _values(latest)[:2]
    assert _values(found)[3:] == _values(latest)[3:]
    assert {found.live_fence, found.finished_fence, found.dead_fence} == {None, new.fence}


async def test_nothing_is_known_of_a_stranger(world: World) -> None:
    held = await world.lease()
    await world.fail(held)
    assert await ended(world, JobId(fresh_id()), held.fence) == NOTHING
    assert await ended(world, held.id, held.fence, TenantId(world.tenant + 500_000)) == NOTHING
    assert (await ended(world, held.id, Fence(held.fence + 1))).attempt_outcome is None


async def test_many_at_once(world: World) -> None:
    stories = [leased, failed, succeeded, buried]
    held = [await world.lease() for _ in stories]
    for story, one in zip(stories, held, strict=True):
        await story(world, one)
    asked = [(world.tenant, h.id, h.fence) for h in held] + [(world.tenant, held[0].id, Fence(1))]
    found = await world.outcomes.ended(asked)
    assert set(found) == {(job, fence) for _, job, fence in asked}
    for one in held:
        assert found[one.key] == await ended(world, *one.key)


def _values(known: Ended) -> list[object]:
    return [
        known.live_fence,
        known.live_state,
        known.attempt_outcome,
        known.finished_fence,
        known.finished_state,
        known.finished_outcome,
        known.dead_fence,
    ]
