"""Downtime: nine hours under a minutely schedule, and what each policy makes of what was missed."""

from datetime import timedelta

import pytest

from rota.domain.schedule import Fate, MissedMode, MissedPolicy, Origin, OverlapMode, OverlapPolicy, ScheduleState

from .clockwork import START, Clockwork, every, timing

HOURS_9 = 9 * 3600
SKIP = MissedPolicy(MissedMode.SKIP)
CATCH_UP = MissedPolicy(MissedMode.CATCH_UP)

EXPECTED = {
    # One minute late is a hiccup, so of 540 occurrences the last two are on time.
    MissedMode.SKIP: {"SKIPPED_MISSED": 538, "FIRED": 3},
    MissedMode.COALESCE: {"COALESCED": 537, "FIRED": 4},
    MissedMode.CATCH_UP: {"SKIPPED_WINDOW": 438, "FIRED": 103},
}


@pytest.mark.parametrize("mode", MissedMode)
async def test_nine_hours_of_downtime(clockwork: Clockwork, mode: MissedMode) -> None:
    await clockwork.create(missed=MissedPolicy(mode))
    await clockwork.sleep(HOURS_9)
    clockwork.restart()
    await clockwork.settle()
    assert await clockwork.fates() == EXPECTED[mode]
    found = await clockwork.get()
    now = START + timedelta(seconds=HOURS_9)
    assert (found.timer.state, found.timer.next_nominal) == (ScheduleState.ACTIVE, now + timedelta(minutes=1))
    await clockwork.check()
    # The next fire is on time, and nothing of the downtime comes again.
    before = await clockwork.fates()
    await clockwork.go(600)
    assert await clockwork.fates() == before | {"FIRED": before["FIRED"] + 10}
    late = [each for each in await clockwork.live() if each[2] > now and each[3] != each[2]]
    assert late == []
    await clockwork.check()


async def test_what_is_coalesced_runs_once_and_tells_of_the_others(clockwork: Clockwork) -> None:
    await clockwork.create(timing=timing("0 * * * *"))
    await clockwork.sleep(HOURS_9 + 1800)
    await clockwork.settle()
    ((job, _, nominal, due),) = await clockwork.live()
    assert nominal == START + timedelta(hours=9)
    # It is late, but still not due before it was made.
    assert due == clockwork.clock.now
    (row,) = (await clockwork.reader.get(clockwork.tenant, [job])).values()
    assert row.headers == {"rota-missed-count": "9", "rota-first-missed-time": "2026-03-02T11:00:00Z"}
    coalesced = [each for each in await clockwork.ledger() if each.fate is Fate.COALESCED]
    assert [each.job_id for each in coalesced] == [job] * 8


async def test_one_missed_daily_run_comes_shortly_after_the_outage(clockwork: Clockwork) -> None:
    """oban-bg/oban#630: an outage over 12:30."""
    await clockwork.create(timing=timing("30 12 * * *"))
    await clockwork.go(5400, tick=600)
    await clockwork.sleep(7200)
    clockwork.restart()
    await clockwork.settle()
    (found,) = await clockwork.ledger()
    assert (found.fate, found.origin, found.due) == (Fate.FIRED, Origin.CATCH_UP, START.replace(hour=12, minute=30))


async def test_nothing_before_the_creation_is_missed(clockwork: Clockwork) -> None:
    """oban-bg/oban#630 and apache/airflow#72427."""
    await clockwork.set(START.replace(hour=15))
    await clockwork.create(timing=timing("30 12 * * *"), missed=CATCH_UP)
    await clockwork.create("from", timing("0 0 * * *", start=START.replace(hour=12)), missed=CATCH_UP)
    await clockwork.settle()
    assert await clockwork.ledger() == []
    assert (await clockwork.get()).timer.next_nominal == START.replace(day=3, hour=12, minute=30)
    assert (await clockwork.get("from")).timer.next_nominal == START.replace(day=3, hour=0)


async def test_caught_up_runs_come_oldest_first_one_by_one_through_a_second_crash(clockwork: Clockwork) -> None:
    """dagucloud/dagu#2742: cap 1,000, 1,500 missed, no overlap, another crash in the middle."""
    policy = MissedPolicy(MissedMode.CATCH_UP, catch_up_window_s=2 * 86_400.0, catch_up_max=1_000)
    await clockwork.create(missed=policy, overlap=OverlapPolicy(OverlapMode.SKIP))
    await clockwork.sleep(1_502 * 60)
    clockwork.restart()
    await clockwork.settle()
    run = []
    for number in range(60):
        (live,) = await clockwork.live()
        run.append(live[2])
        await clockwork.complete(await clockwork.lease())
        if number == 20:
            clockwork.restart()
        await clockwork.go(1.0)
    assert run == [START + timedelta(minutes=501 + n) for n in range(60)]
    fates = await clockwork.fates()
    assert fates["SKIPPED_WINDOW"] == 500
    assert fates["FIRED"] + fates["BUFFERED"] == 1_000
    await clockwork.check()


async def test_a_year_of_missed_seconds_is_bounded_and_holds_nobody_up(clockwork: Clockwork) -> None:
    """temporalio/temporal#4332."""
    await clockwork.create("flood", every(1), missed=CATCH_UP)
    await clockwork.create("other", timing("*/10 * * * *"))
    await clockwork.sleep(3 * 86_400)
    # One round: the flood's first bite, and the other one is done.
    await clockwork.materializer.step()
    assert (await clockwork.fates("other"))["FIRED"] == 2
    assert sum((await clockwork.fates("flood")).values()) <= 5_000
    await clockwork.settle()
    fates = await clockwork.fates("flood")
    assert fates["SKIPPED_WINDOW"] == 3 * 86_400 - 60 - 101
    assert fates["FIRED"] == 100 + 61 + 60
    assert len(await clockwork.ledger("flood")) < 400
    await clockwork.check("flood", "other")


@pytest.mark.parametrize("mode", MissedMode)
async def test_a_crash_after_each_step_loses_and_doubles_nothing(clockwork: Clockwork, mode: MissedMode) -> None:
    await clockwork.create(timing=every(7), missed=MissedPolicy(mode, catch_up_max=10_000))
    await clockwork.sleep(24 * 3600)
    while True:
        wait = await clockwork.materializer.step()
        clockwork.restart()
        if wait > 0:
            break
    await clockwork.check()
    assert sum((await clockwork.fates()).values()) == (24 * 3600 + 60) // 7


async def test_jitter_delays_and_never_counts_as_late(clockwork: Clockwork) -> None:
    await clockwork.create(timing=timing("*/10 * * * *", jitter_s=300.0), missed=SKIP)
    await clockwork.go(3600, tick=5)
    for _, _, nominal, due in await clockwork.live():
        assert timedelta(0) <= due - nominal < timedelta(seconds=300)
    assert await clockwork.fates() == {"FIRED": 6}
    await clockwork.check()


async def test_max_count_counts_what_fired(clockwork: Clockwork) -> None:
    await clockwork.create(timing=timing(max_count=3), missed=SKIP)
    await clockwork.sleep(3600)
    await clockwork.settle()
    await clockwork.go(600)
    found = await clockwork.get()
    assert (found.timer.state, found.timer.fired, found.timer.arm_at) == (ScheduleState.EXHAUSTED, 3, None)
    assert await clockwork.fates() == {"SKIPPED_MISSED": 58, "FIRED": 3}
    await clockwork.check()
