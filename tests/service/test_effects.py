"""The ledger as its callers see it: who is refused and why, and what the coordinator is told."""

from typing import Any
from unittest.mock import AsyncMock

import pytest

from rota.clock import SystemClock
from rota.coordinator.janitor import Janitor
from rota.domain import limits
from rota.domain.effect import InDoubt
from rota.domain.errors import Aborted, NotFound
from rota.domain.ids import EffectId, Fence, JobId
from rota.domain.model import CancelMode, EffectState, Identity, JobState, Outcome, Role
from rota.domain.transition import Ending
from rota.service.completions import Completions, LostLease
from rota.service.effects import Effects
from rota.service.jobs import Jobs
from rota.store.effectport import EffectCall
from rota.telemetry import Metrics

from ..store.world import Held, World, fresh_id
from .conftest import Told

APPLIED, NOT_APPLIED, UNKNOWN = EffectState.APPLIED, EffectState.NOT_APPLIED, EffectState.UNKNOWN
TENANT = "acme"


@pytest.fixture
def effects(world: World, told: Told, metrics: Metrics) -> Effects:
    return Effects(world.effects, world.outcomes, told, SystemClock(), metrics)


def call(held: Held, **changes: Any) -> EffectCall:
    values: dict[str, Any] = {"job_id": held.id, "fence": held.fence} | changes
    return EffectCall(held.spec.tenant_id, TENANT, **values)


def operator(world: World) -> Identity:
    return Identity(world.tenant, TENANT, "key-1", frozenset({Role.OPERATOR}))


async def lose(completions: Completions, held: Held) -> None:
    lost = LostLease(held.spec.tenant_id, held.id, held.fence, Ending(Outcome.LEASE_LOST), gone=True)
    assert await completions.lose([lost]) == 1


async def held_job(world: World, effects: Effects, completions: Completions) -> tuple[Held, EffectId]:
    first = await world.lease()
    effect = (await effects.begin(call(first), InDoubt.ASK)).effect.id
    await lose(completions, first)
    second = await world.lease(first.spec)
    assert not (await effects.begin(call(second), InDoubt.ASK)).proceed
    (settled,) = await completions.settle([world.result(second, Outcome.RELEASED)])
    assert not isinstance(settled, Exception) and settled.state is JobState.RETRY_WAIT
    return second, effect


async def stale(effects: Effects, found: EffectCall) -> tuple[str, str | None]:
    """How both calls are refused: cause and current fence."""
    seen = []
    for refused in (effects.begin(found, InDoubt.REDO), effects.commit(found, APPLIED, "")):
        with pytest.raises(Aborted) as error:
            await refused
        assert error.value.reason == "STALE_FENCE"
        seen.append((error.value.metadata["cause"], error.value.metadata.get("fence")))
    assert seen[0] == seen[1]
    return seen[0]


async def test_why_an_attempt_is_refused(
    world: World, effects: Effects, completions: Completions, jobs: Jobs, metrics: Metrics
) -> None:
    first = await world.lease()
    await lose(completions, first)
    assert await stale(effects, call(first)) == ("EXPIRED", str(first.fence))
    second = await world.lease(first.spec)
    assert await stale(effects, call(first)) == ("REASSIGNED", str(second.fence))
    await completions.settle([world.result(second)])
    assert await stale(effects, call(second)) == ("COMPLETED", str(second.fence))
    released = await world.lease()
    await completions.settle([world.result(released, Outcome.RELEASED)])
    assert await stale(effects, call(released)) == ("RELEASED", str(released.fence))
    cut = await world.lease()
    await jobs.cancel(world.tenant, cut.id, CancelMode.FENCE_OUT, "")
    assert await stale(effects, call(cut)) == ("CANCELLED", str(cut.fence))
    assert await stale(effects, call(cut, job_id=JobId(fresh_id()))) == ("UNKNOWN_JOB", None)
    assert await stale(effects, call(cut, fence=Fence(1))) == ("REASSIGNED", str(cut.fence))
    assert await world.count("effects") == 0
    assert metrics.snapshot()["rota.fences.refused"]["reassigned"] == 4


async def test_a_decision_is_told_where_it_makes_a_job_go_on(
    world: World, effects: Effects, completions: Completions, told: Told, metrics: Metrics
) -> None:
    one, doubt = await held_job(world, effects, completions)
    told.said.clear()
    decided = await effects.resolve(operator(world), doubt, NOT_APPLIED, "", "looked")
    assert (decided.state, decided.resolved_by) == (NOT_APPLIED, "key-1")
    assert told.said == [("waiting", one.id)]
    third = await world.lease(one.spec)
    assert (await effects.begin(call(third), InDoubt.ASK)).proceed
    other, doubt = await held_job(world, effects, completions)
    told.said.clear()
    await effects.resolve(operator(world), doubt, APPLIED, "pay-1", "")
    assert told.said == [("finished", other.id)]
    assert (await world.job(other.id)).state is JobState.SUCCEEDED
    with pytest.raises(NotFound, match="not found"):
        await effects.resolve(operator(world), EffectId(fresh_id()), APPLIED, "", "")
    counts = metrics.snapshot()["rota.effects"]
    assert {what: counts[what] for what in ("begun", "held", "resolved")} == {"begun": 3, "held": 2, "resolved": 2}


@pytest.mark.parametrize("mode", CancelMode)
async def test_a_job_that_is_held_can_be_cancelled_in_every_mode(
    world: World, effects: Effects, completions: Completions, jobs: Jobs, mode: CancelMode
) -> None:
    held, doubt = await held_job(world, effects, completions)
    assert (await jobs.cancel(world.tenant, held.id, mode, "no more")).state is JobState.CANCELLED
    (left,) = await effects.page(world.tenant, None, 9, None, holding=False)
    assert (left.id, left.holding) == (doubt, False)
    decided = await effects.resolve(operator(world), doubt, APPLIED, "", "")
    assert decided.state is APPLIED
    assert (await world.job(held.id)).state is JobState.CANCELLED


async def test_a_job_that_is_held_past_its_total_timeout_dies(
    world: World, effects: Effects, completions: Completions
) -> None:
    held, doubt = await held_job(world, effects, completions)
    await world.sql(
        "UPDATE jobs SET deadline_at = now() - interval '1 second', due_at = now() - interval '1 second' "
        "WHERE id = %(j)s::uuid",
        j=held.id,
    )
    assert await world.claim(held.spec, await world.new_session()) is None
    assert await completions.expire([(world.tenant, held.id)]) == 1
    assert (await world.job(held.id)).state is JobState.DEAD
    assert [e.id for e in await effects.page(world.tenant, None, 9, None, holding=False)] == [doubt]


async def test_what_is_unknown_is_stored_and_asked_for_with_the_same_key(
    world: World, effects: Effects, completions: Completions
) -> None:
    first = await world.lease()
    begun = await effects.begin(call(first), InDoubt.REDO)
    await effects.commit(call(first), UNKNOWN, "")
    failed = world.result(first, Outcome.FAILED, effect_state=UNKNOWN)
    await completions.settle([failed])
    (attempt,) = await world.reader.attempts(world.tenant, first.id, 0, 9)
    assert attempt.effect_state is UNKNOWN
    await world.sql("UPDATE jobs SET due_at = now() WHERE id = %(j)s::uuid", j=first.id)
    again = await effects.begin(call(await world.lease(first.spec)), InDoubt.REDO)
    assert (again.proceed, again.state, again.effect.key) == (True, UNKNOWN, begun.effect.key)


async def test_the_janitor_forgets_what_was_settled_before_the_history_that_is_kept(
    world: World, effects: Effects, completions: Completions
) -> None:
    history = AsyncMock()
    history.make_partitions.return_value = history.drop_partitions.return_value = []
    history.delete_requests.return_value = history.forget_schedules.return_value = 0
    janitor = Janitor(history, world.effects, SystemClock(), history_s=20 * limits.DAY_S)
    for age_days in (19, 21):
        held = await world.lease()
        await effects.begin(call(held), InDoubt.ASK)
        await effects.commit(call(held), APPLIED, "")
        await completions.settle([world.result(held)])
        await world.sql(
            "UPDATE effects SET needed_at = now() - %(days)s * interval '1 day' WHERE job_id = %(j)s::uuid",
            days=age_days,
            j=held.id,
        )
    assert await world.count("effects") == 2
    await janitor.step()
    assert await world.count("effects") == 1
