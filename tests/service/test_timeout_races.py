"""The bounds of a job's life against a claim or an outcome of the same moment: whoever commits first wins, and a wait
that is over uses no attempt."""

import pytest

from rota.domain.errors import RotaError
from rota.domain.model import Failure, Grant, JobState, Outcome, RetryPolicy, Settlement, Timeouts
from rota.domain.transition import Ending
from rota.service import completions as completions_module
from rota.service.completions import Completions, LostLease

from ..store.world import World
from .conftest import Told

BOUNDS = [(Timeouts(start_by_s=10.0), JobState.EXPIRED), (Timeouts(total_s=10.0), JobState.DEAD)]


@pytest.mark.parametrize(("timeouts", "missed"), BOUNDS, ids=["start_by", "total"])
@pytest.mark.parametrize("claimed_first", [True, False])
async def test_a_wait_that_is_over_against_a_claim(
    world: World,
    completions: Completions,
    told: Told,
    monkeypatch: pytest.MonkeyPatch,
    timeouts: Timeouts,
    missed: JobState,
    claimed_first: bool,
) -> None:
    """The bound is passed between the moments of which the two read the clock."""
    monkeypatch.setattr(completions_module, "_is_late", lambda job, now: True)
    spec = world.spec(timeouts=timeouts)
    await world.create(spec)
    claim = world.claim(spec, await world.new_session())
    expire = completions.expire([(world.tenant, spec.id)])
    if claimed_first:
        granted, ended = await world.in_order(spec.id, claim, expire)
        assert isinstance(granted, Grant)
        assert ((await world.live(spec.id)).fence, told.said) == (granted.fence, [])
    else:
        ended, granted = await world.in_order(spec.id, expire, claim)
        assert granted is None
        job = await world.job(spec.id)
        assert (job.state, job.attempt, job.attempts_counted) == (missed, 0, 0)
        assert await world.reader.attempts(world.tenant, spec.id, 0, 9) == []
        assert told.said == [("finished", spec.id)]
    assert ended == (not claimed_first)


@pytest.mark.parametrize("cut", [Outcome.TIMED_OUT, Outcome.UNDELIVERED])
@pytest.mark.parametrize("report", [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.RELEASED])
@pytest.mark.parametrize("cut_first", [True, False])
async def test_an_attempt_that_is_cut_short_against_its_outcome(
    world: World, completions: Completions, told: Told, cut: Outcome, report: Outcome, cut_first: bool
) -> None:
    held = await world.lease(retry=RetryPolicy(max_attempts=1 if report is Outcome.FAILED else 5))
    lose = completions.lose([LostLease(world.tenant, *held.key, Ending(cut, Failure("TimedOut")))])
    settle = completions.settle([world.result(held, report, failure=Failure("E"))])
    both = (lose, settle) if cut_first else (settle, lose)
    answers = await world.in_order(held.id, *both)
    ended, (answer,) = answers if cut_first else answers[::-1]  # type: ignore[misc]

    attempts = [a.outcome for a in await world.reader.attempts(world.tenant, held.id, 0, 9)]
    assert (attempts, ended) == ([cut if cut_first else report], cut_first)
    assert len(await world.where(held.id)) == 1
    assert sum(what in ("finished", "waiting") for what, _ in told.said) == 1
    if cut_first:
        assert isinstance(answer, RotaError)
        assert (answer.reason, answer.metadata["cause"]) == ("STALE_FENCE", "EXPIRED")
    else:
        assert isinstance(answer, Settlement)
        assert answer.state == (await world.job(held.id)).state or not answer.state.terminal
