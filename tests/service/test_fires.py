"""Firing: what is due becomes jobs, once, and everything else its fate."""

from datetime import timedelta

from rota.domain.schedule import Fate

from .clockwork import START, Clockwork, every, timing


async def test_occurrences_become_jobs_a_minute_ahead(clockwork: Clockwork) -> None:
    await clockwork.create(timing=timing("*/5 * * * *"))
    await clockwork.settle()
    assert await clockwork.live() == []
    await clockwork.go(240)
    ((_, state, nominal, due),) = await clockwork.live()
    assert (state, nominal, due) == (1, START + timedelta(minutes=5), START + timedelta(minutes=5))
    await clockwork.go(600)
    found = await clockwork.get()
    assert clockwork.nominals(await clockwork.ledger()) == ["10:05:00", "10:10:00", "10:15:00"]
    assert found.timer.next_nominal == START + timedelta(minutes=15)
    await clockwork.check()


async def test_a_fire_costs_one_row_each_whoever_repeats_it(clockwork: Clockwork) -> None:
    for number in range(300):
        await clockwork.create(f"s{number}", every(60))
    await clockwork.settle()
    first = clockwork.materializer
    clockwork.restart()
    for _ in range(5):
        await clockwork.sleep(60)
        await first.step()
        await clockwork.settle()
        await first.step()
    assert len(await clockwork.ledger("s7")) == 6
    assert await clockwork.value("SELECT count(*) FROM jobs") == 1_800
    await clockwork.check(*(f"s{n}" for n in range(0, 300, 50)))


async def test_sub_minute_schedules_fire_at_each_of_their_times(clockwork: Clockwork) -> None:
    await clockwork.create(timing=every(1))
    await clockwork.go(10)
    await clockwork.go(3600, tick=30)
    assert (await clockwork.fates()) == {"FIRED": 3670}
    await clockwork.check()


async def test_excluded_dates_get_their_fate(clockwork: Clockwork) -> None:
    await clockwork.create(timing=timing("0 * * * *", dates=("2026-03-03",)))
    await clockwork.go(3 * 86_400, tick=600)
    assert await clockwork.fates() == {"FIRED": 48, "EXCLUDED": 24}
    await clockwork.check()
    excluded = [each for each in await clockwork.ledger() if each.fate is Fate.EXCLUDED]
    assert excluded[0].count == 24
