"""Backfills: every occurrence of a past span once, at a rate, through restarts, and never in the way of live work."""

from datetime import timedelta
from typing import Any

import pytest

from rota.domain.errors import InvalidArgument, NotFound, ResourceExhausted
from rota.domain.schedule import (
    Backfill,
    BackfillState,
    Fate,
    MissedMode,
    MissedPolicy,
    Origin,
    OverlapMode,
    OverlapPolicy,
)
from rota.store.scheduleport import RequestKey

from .clockwork import NO_REQUEST, START, Clockwork, timing

HOURLY = timing("0 * * * *")


async def start(
    clockwork: Clockwork,
    hours: float = 24,
    *,
    request: RequestKey = NO_REQUEST,
    validate_only: bool = False,
    **fields: Any,
) -> Backfill:
    wish = Backfill("", START - timedelta(hours=hours), START, **fields)
    return await clockwork.backfills.start(clockwork.identity_, "s", wish, request=request, validate_only=validate_only)


async def finish(clockwork: Clockwork, id: str, seconds: float = 600, tick: float = 1.0) -> Backfill:
    for _ in range(int(seconds / tick)):
        found = await clockwork.backfills.get(clockwork.identity_, "s", id)
        if found.state is not BackfillState.RUNNING:
            return found
        await clockwork.go(tick)
    raise AssertionError(f"not done: {found}")


async def test_a_span_is_fired_in_order_at_its_rate_through_restarts(clockwork: Clockwork) -> None:
    await clockwork.create(timing=HOURLY)
    started = await start(clockwork, rate=2.0, reason="again", priority=1)
    assert (started.total, started.state, started.next_nominal) == (
        24,
        BackfillState.RUNNING,
        START - timedelta(hours=24),
    )
    await clockwork.go(3)
    midway = await clockwork.backfills.get(clockwork.identity_, "s", started.id)
    assert 3 <= midway.done <= 7
    clockwork.restart()
    done = await finish(clockwork, started.id, 20)
    assert (done.state, done.done, done.fired, done.next_nominal) == (BackfillState.SUCCEEDED, 24, 24, None)
    assert done.finished_at is not None
    assert done.finished_at - START >= timedelta(seconds=10)
    made = [each for each in await clockwork.ledger() if each.origin is Origin.BACKFILL]
    assert [each.nominal for each in made] == [START - timedelta(hours=24 - n) for n in range(24)]
    assert {(each.generation, each.reason, each.backfill_id) for each in made} == {(1, "again", started.id)}
    (job,) = (await clockwork.reader.get(clockwork.tenant, [made[0].job_id])).values()  # type: ignore[list-item]
    assert (job.priority, job.origin and job.origin.generation) == (1, 1)
    # The rule's own counts are not touched.
    assert sum((await clockwork.get()).timer.fates) == 0


async def test_what_has_fired_is_left_out_unless_asked_for(clockwork: Clockwork) -> None:
    await clockwork.set(START - timedelta(hours=6))
    await clockwork.create(timing=HOURLY, missed=MissedPolicy(MissedMode.SKIP))
    await clockwork.go(2 * 3600, tick=60)
    await clockwork.sleep(4 * 3600)
    await clockwork.settle()
    assert await clockwork.fates() == {"FIRED": 3, "SKIPPED_MISSED": 3}
    first = await start(clockwork, 6, rate=100.0)
    done = await finish(clockwork, first.id)
    # From 04:00 to 09:00: two had fired.
    assert (done.total, done.done, done.fired) == (6, 6, 4)
    again = await start(clockwork, 6, rate=100.0, include_fired=True)
    assert (await finish(clockwork, again.id)).fired == 6
    generations = sorted(
        each.generation for each in await clockwork.ledger() if each.nominal == START - timedelta(hours=5)
    )
    assert generations == [0, 1]
    await clockwork.check()


@pytest.mark.parametrize("mode", [OverlapMode.SKIP, OverlapMode.REPLACE])
async def test_one_at_a_time_where_jobs_must_not_overlap(clockwork: Clockwork, mode: OverlapMode) -> None:
    await clockwork.create(timing=HOURLY, overlap=OverlapPolicy(mode))
    started = await start(clockwork, 3, rate=100.0)
    for number in range(3):
        await clockwork.go(2)
        ((_, _, nominal, _),) = await clockwork.live()
        assert nominal == START - timedelta(hours=3 - number)
        await clockwork.complete(await clockwork.lease())
    assert (await finish(clockwork, started.id)).fired == 3


async def test_a_policy_of_its_own(clockwork: Clockwork) -> None:
    await clockwork.create(timing=HOURLY, overlap=OverlapPolicy(OverlapMode.SKIP))
    started = await start(clockwork, 5, rate=100.0, overlap=OverlapPolicy(OverlapMode.ALLOW, 2))
    await clockwork.go(3)
    assert len(await clockwork.live()) == 2
    await clockwork.backfills.cancel(clockwork.identity_, "s", started.id)
    await clockwork.complete(await clockwork.lease())
    await clockwork.go(10)
    assert len(await clockwork.live()) == 1


async def test_live_fires_are_not_held_up_by_it(clockwork: Clockwork) -> None:
    await clockwork.create()
    await clockwork.create("live", timing())
    await start(clockwork, 100, rate=1_000.0)
    await clockwork.go(90)
    fired = [each.nominal for each in await clockwork.ledger("live") if each.fate is Fate.FIRED]
    assert fired == [START + timedelta(minutes=1), START + timedelta(minutes=2)]


async def test_cancelling_is_final_and_can_be_repeated(clockwork: Clockwork) -> None:
    await clockwork.create(timing=HOURLY)
    started = await start(clockwork, rate=1.0)
    await clockwork.go(2)
    ended = await clockwork.backfills.cancel(clockwork.identity_, "s", started.id)
    await clockwork.go(10)
    again = await clockwork.backfills.cancel(clockwork.identity_, "s", started.id)
    assert (again.state, again.fired, again.finished_at) == (BackfillState.CANCELLED, ended.fired, ended.finished_at)
    with pytest.raises(NotFound):
        await clockwork.backfills.cancel(clockwork.identity_, "s", clockwork.clock.new_id())


async def test_the_same_call_again_and_a_dry_one(clockwork: Clockwork) -> None:
    await clockwork.create(timing=HOURLY)
    counted = await start(clockwork, validate_only=True)
    assert (counted.id, counted.total) == ("", 24)
    request = RequestKey(16, "r", b"d")
    first = await start(clockwork, request=request)
    assert (await start(clockwork, request=request)).id == first.id
    assert len(await clockwork.backfills.page(clockwork.identity_, "s", None, 10)) == 1


async def test_bounds(clockwork: Clockwork) -> None:
    await clockwork.create()
    with pytest.raises(InvalidArgument, match=r"backfill.end_time: the span has more than 10000 occurrences"):
        await start(clockwork, 24 * 30)
    with pytest.raises(InvalidArgument, match=r"backfill.rate"):
        await start(clockwork, rate=0.0)
    with pytest.raises(InvalidArgument, match=r"backfill.end_time: must lie after start_time"):
        await start(clockwork, -1)
    for _ in range(4):
        await start(clockwork, 1)
    with pytest.raises(ResourceExhausted, match="4 backfills run already"):
        await start(clockwork, 1)


async def test_a_deleted_schedules_backfills_end(clockwork: Clockwork) -> None:
    await clockwork.create(timing=HOURLY)
    started = await start(clockwork)
    await clockwork.schedules.delete(clockwork.identity_, "s", etag="", cancel=None, allow_missing=False)
    await clockwork.go(5)
    found = await clockwork.backfills.get(clockwork.identity_, "s", started.id)
    assert (found.state, found.fired) == (BackfillState.CANCELLED, 0)
