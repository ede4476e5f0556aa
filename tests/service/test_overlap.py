"""A job that outlasts its period, under each overlap policy, with the worker or the coordinator dying in the middle:
never two live."""

from datetime import timedelta

import pytest

from rota.domain.errors import FailedPrecondition
from rota.domain.model import RetryPolicy
from rota.domain.schedule import Fate, JobTemplate, OverlapMode, OverlapPolicy

from .clockwork import START, Clockwork, timing

ALONE = (OverlapMode.SKIP, OverlapMode.BUFFER_ONE, OverlapMode.BUFFER_ALL)
RETRIED = JobTemplate(type="t", retry=RetryPolicy(max_attempts=3, initial_backoff_s=720.0, max_backoff_s=720.0))


def policy(mode: OverlapMode, limit: int | None = None) -> OverlapPolicy:
    return OverlapPolicy(mode, limit)


@pytest.mark.parametrize("mode", ALONE)
async def test_never_two_live_while_one_runs_over_and_everything_crashes(
    clockwork: Clockwork, mode: OverlapMode
) -> None:
    """hashicorp/nomad#14505: worker and coordinator die together in the middle of a run."""
    await clockwork.create(overlap=policy(mode))
    await clockwork.go(60)
    grant = await clockwork.lease()
    for minute in range(6):
        if minute == 2:
            clockwork.restart()
        await clockwork.go(60, tick=10)
        assert len(await clockwork.live()) == 1
    fates = await clockwork.fates()
    assert fates["FIRED"] == 1
    assert {mode: fates} == {
        mode: {
            OverlapMode.SKIP: {"FIRED": 1, "SKIPPED_OVERLAP": 6},
            OverlapMode.BUFFER_ONE: {"FIRED": 1, "BUFFERED": 1, "COALESCED": 5},
            OverlapMode.BUFFER_ALL: {"FIRED": 1, "BUFFERED": 6},
        }[mode]
    }
    blocked = [each for each in await clockwork.ledger() if each.fate is Fate.SKIPPED_OVERLAP]
    assert {each.blocking_job for each in blocked} <= {grant.job_id}
    await clockwork.complete(grant)
    await clockwork.go(2)
    if mode is not OverlapMode.SKIP:
        ((_, _, nominal, _),) = await clockwork.live()
        assert nominal == START + timedelta(minutes=7 if mode is OverlapMode.BUFFER_ONE else 2)
    await clockwork.check()


async def test_buffered_runs_follow_in_order_and_the_rest_is_turned_away(clockwork: Clockwork) -> None:
    await clockwork.create(overlap=policy(OverlapMode.BUFFER_ALL, 3))
    await clockwork.go(60)
    await clockwork.lease()
    await clockwork.go(300, tick=30)
    assert await clockwork.fates() == {"FIRED": 1, "BUFFERED": 3, "SKIPPED_BUFFER_FULL": 2}
    await clockwork.check()


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_allow_with_a_limit(clockwork: Clockwork, limit: int) -> None:
    await clockwork.create(overlap=policy(OverlapMode.ALLOW, limit))
    await clockwork.go(300, tick=30)
    assert await clockwork.fates() == {"FIRED": limit, "SKIPPED_OVERLAP": 5 - limit}
    assert len(await clockwork.live()) == limit
    await clockwork.check()


async def test_a_run_that_waits_for_its_retry_counts_as_running(clockwork: Clockwork) -> None:
    """hashicorp/nomad#2460."""
    await clockwork.create(timing=timing("*/5 * * * *"), overlap=policy(OverlapMode.SKIP), job=RETRIED)
    await clockwork.go(300, tick=30)
    await clockwork.fail(await clockwork.lease())
    await clockwork.go(600, tick=60)
    ((_, state, _, _),) = await clockwork.live()
    assert state == 4
    assert await clockwork.fates() == {"FIRED": 1, "SKIPPED_OVERLAP": 2}


@pytest.mark.parametrize("mode", [OverlapMode.CANCEL_OTHER, OverlapMode.REPLACE])
async def test_a_retry_never_comes_back_after_its_successor(clockwork: Clockwork, mode: OverlapMode) -> None:
    """hatchet-dev/hatchet#4900."""
    await clockwork.create(timing=timing("*/5 * * * *"), overlap=policy(mode), job=RETRIED)
    await clockwork.go(300, tick=30)
    failed = await clockwork.lease()
    await clockwork.fail(failed)
    await clockwork.go(300, tick=30)
    ((job, _, nominal, _),) = await clockwork.live()
    assert (job != failed.job_id, nominal) == (True, START + timedelta(minutes=10))
    (old,) = (await clockwork.reader.get(clockwork.tenant, [failed.job_id])).values()
    assert old.state.name == "CANCELLED"
    await clockwork.check()


async def test_cancel_other_asks_and_waits(clockwork: Clockwork) -> None:
    await clockwork.create(overlap=policy(OverlapMode.CANCEL_OTHER))
    await clockwork.go(60)
    grant = await clockwork.lease()
    await clockwork.go(120, tick=10)
    ((job, state, _, _),) = await clockwork.live()
    assert (job, state) == (grant.job_id, 5)
    assert await clockwork.fates() == {"FIRED": 1, "COALESCED": 1, "BUFFERED": 1}
    # Its own outcome wins, and the newest starts.
    clockwork.restart()
    await clockwork.complete(grant)
    await clockwork.go(1)
    ((_, _, nominal, _),) = await clockwork.live()
    assert nominal == START + timedelta(minutes=3)
    await clockwork.check()


async def test_replace_fences_the_old_one_out_at_once(clockwork: Clockwork) -> None:
    await clockwork.create(overlap=policy(OverlapMode.REPLACE))
    await clockwork.go(60)
    grant = await clockwork.lease()
    await clockwork.go(60)
    ((job, state, nominal, _),) = await clockwork.live()
    assert (job != grant.job_id, state, nominal) == (True, 1, START + timedelta(minutes=2))
    assert await clockwork.fates() == {"FIRED": 2}
    await clockwork.check()


async def test_a_job_that_was_triggered_counts_as_running(clockwork: Clockwork) -> None:
    """hashicorp/nomad#5487."""
    await clockwork.create(timing=timing("*/10 * * * *"), overlap=policy(OverlapMode.SKIP))
    await clockwork.go(480, tick=60)
    first = await clockwork.trigger()
    assert first.job is not None
    with pytest.raises(FailedPrecondition, match=f"jobs/{first.job} is not terminal"):
        await clockwork.trigger()
    forced = await clockwork.trigger(force=True)
    assert (forced.occurrence.forced, forced.occurrence.blocking_job) == (True, first.job)
    await clockwork.go(240, tick=60)
    (skipped,) = [each for each in await clockwork.ledger() if each.generation == 0]
    assert (skipped.fate, skipped.blocking_job) == (Fate.SKIPPED_OVERLAP, first.job)
    await clockwork.check()


async def test_hundreds_of_schedules_that_must_not_overlap_are_decided_together(clockwork: Clockwork) -> None:
    for number in range(450):
        await clockwork.create(f"s{number}", overlap=policy(OverlapMode.SKIP))
    await clockwork.go(60, tick=60)
    assert await clockwork.value("SELECT count(*) FROM jobs") == 450
    await clockwork.go(60, tick=60)
    assert await clockwork.value("SELECT count(*) FROM jobs") == 450
    assert await clockwork.value("SELECT count(*) FROM occurrences WHERE fate = 6") == 450
    await clockwork.check("s0", "s449")


async def test_pausing_after_failures(clockwork: Clockwork) -> None:
    once = JobTemplate(type="t", retry=RetryPolicy(max_attempts=1))
    await clockwork.create(job=once, pause_after_failures=2)
    for outcome in (clockwork.fail, clockwork.complete, clockwork.fail, clockwork.fail):
        await clockwork.go(60, tick=20)
        await outcome(await clockwork.lease())
    await clockwork.go(1)
    found = await clockwork.get()
    assert (found.timer.state.name, found.timer.state_author) == ("PAUSED", "")
    assert found.timer.state_reason == "2 jobs in a row died, and pause_after_failures is 2"
    assert await clockwork.live() == []
    await clockwork.check()
