"""The database's clock is put elsewhere, as by a failover to another machine: nothing fires twice and nothing is left
out."""

from datetime import timedelta

import pytest

from rota.domain.schedule import MissedMode, MissedPolicy, OverlapMode, OverlapPolicy

from .clockwork import START, Clockwork


@pytest.mark.parametrize("mode", [OverlapMode.ALLOW, OverlapMode.SKIP, OverlapMode.BUFFER_ALL])
@pytest.mark.parametrize("restart", [False, True])
async def test_firing_holds_until_a_clock_that_went_back_has_passed_the_last_tick(
    clockwork: Clockwork, mode: OverlapMode, restart: bool
) -> None:
    await clockwork.create(overlap=OverlapPolicy(mode, limit=100 if mode is OverlapMode.ALLOW else None))
    await clockwork.go(300)
    before = await clockwork.fates()
    assert sum(before.values()) >= 5
    await clockwork.set(clockwork.clock.now - timedelta(seconds=200))
    if restart:
        clockwork.restart()
    await clockwork.settle()
    await clockwork.go(200)
    assert await clockwork.fates() == before
    await clockwork.check()
    await clockwork.go(120)
    assert sum((await clockwork.fates()).values()) == sum(before.values()) + 2
    await clockwork.check()


@pytest.mark.parametrize("mode", MissedMode)
async def test_a_clock_that_went_forward_leaves_a_downtime_behind(clockwork: Clockwork, mode: MissedMode) -> None:
    await clockwork.create(missed=MissedPolicy(mode))
    await clockwork.go(300)
    await clockwork.set(clockwork.clock.now + timedelta(hours=3))
    await clockwork.settle()
    await clockwork.go(60)
    found = await clockwork.ledger()
    last = START + timedelta(seconds=300 + 3 * 3600 + 60)
    assert sum(each.count for each in found) == sum((await clockwork.fates()).values())
    assert max(each.nominal for each in found) >= last
    await clockwork.check()
