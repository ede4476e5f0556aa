"""Coordinators that come, go, come back, and have clocks of their own, around the moments at which schedules fire: each
occurrence once."""

import random
from datetime import datetime, timedelta

import pytest

from rota.coordinator.materializer import Materializer
from rota.domain.schedule import Fate, Origin, OverlapMode, OverlapPolicy

from .clockwork import START, Clockwork, MovedClock, every, timing

AT_ITS_TIME = OverlapPolicy(OverlapMode.ALLOW, 1_000)
"""With a limit nothing is made ahead: what fires early shows."""


class Machine(MovedClock):
    """A machine whose wall clock is wrong, and whose monotonic clock began some time; time passes as for all."""

    def __init__(self, true: MovedClock, ahead_s: float) -> None:
        self._true = true
        super().__init__()
        self.ahead_s = ahead_s

    @property
    def now(self) -> datetime:
        return self._true.now

    @now.setter
    def now(self, now: datetime) -> None:
        pass

    def monotonic(self) -> float:
        return (self._true.now - START).total_seconds() + 5.0

    def utc(self) -> datetime:
        return self._true.now + timedelta(seconds=self.ahead_s)


def coordinator(clockwork: Clockwork, ahead_s: float = 0.0) -> Materializer:
    """Another one, which believes to have the present terms."""
    true = clockwork.clock
    try:
        clockwork.clock = Machine(true, ahead_s)
        clockwork.restart()
        return clockwork.materializer
    finally:
        clockwork.clock = true


async def new_terms(clockwork: Clockwork) -> None:
    """The shards change hands: what is written under an epoch from before is refused."""
    rows = await clockwork.sql("UPDATE shards SET epoch = epoch + 1 RETURNING shard, epoch")
    clockwork.epochs = dict(rows)


@pytest.mark.parametrize("overlap", [OverlapMode.ALLOW, OverlapMode.SKIP])
async def test_a_slot_in_the_middle_of_a_hand_over_fires_once_and_in_time(
    clockwork: Clockwork, overlap: OverlapMode
) -> None:
    """sidekiq/sidekiq#6804: the new owner looked forward only."""
    await clockwork.create(timing=timing("0 11 * * *"), overlap=OverlapPolicy(overlap))
    await clockwork.go(3_500, tick=100)
    await clockwork.set(START + timedelta(seconds=3_597.4))
    leaving = coordinator(clockwork)
    await new_terms(clockwork)
    for _ in range(6):
        await clockwork.sleep(0.5)
        await leaving.step()
    await clockwork.set(START + timedelta(seconds=3_600.7))
    coordinator(clockwork)
    await clockwork.settle()
    ((_, _, nominal, due),) = await clockwork.live()
    assert nominal == START + timedelta(hours=1)
    assert due <= clockwork.clock.now
    await leaving.step()
    await clockwork.go(60)
    (found,) = await clockwork.ledger()
    assert (found.fate, found.origin, found.due) == (Fate.FIRED, Origin.RULE, nominal)
    await clockwork.check()


async def test_an_owner_that_comes_back_forgets_what_it_knew(clockwork: Clockwork) -> None:
    """mesos/chronos#371: it loaded everything again beside the queue of its first term."""
    await clockwork.create(timing=every(10), overlap=AT_ITS_TIME)
    first = coordinator(clockwork)
    await clockwork.go(20)
    await new_terms(clockwork)
    second = coordinator(clockwork)
    for _ in range(3):
        await clockwork.sleep(10)
        await first.step()
        await second.step()
    await new_terms(clockwork)
    # The first one again, in the same process, under a new term; the second has not noticed.
    first._memory.terms = coordinator(clockwork)._memory.terms
    for _ in range(5):
        await clockwork.sleep(10)
        await second.step()
        await first.step()
    assert await clockwork.fates() == {"FIRED": 10}
    await clockwork.check()


async def test_a_full_night_with_a_change_of_owner_at_its_beginning(clockwork: Clockwork) -> None:
    """dkron-io/dkron#541: 59 schedules between midnight and two, and each ran twice."""
    ids = [f"s{number}" for number in range(59)]
    for number, id in enumerate(ids):
        await clockwork.create(id, timing(f"{number % 60} {number % 2} * * *"))
    await clockwork.set(START.replace(hour=23, minute=59))
    await clockwork.settle()
    old = coordinator(clockwork)
    await clockwork.set(START.replace(hour=23, minute=59, second=59))
    await new_terms(clockwork)
    new = coordinator(clockwork)
    # Its clock is slewed: for a moment it believes to be two seconds ahead.
    new._database_clock.observe(clockwork.clock.now + timedelta(seconds=2), new.clock.monotonic())
    for _ in range(122):
        await old.step()
        while await new.step() == 0:
            pass
        await clockwork.sleep(60)
    assert await clockwork.value("SELECT count(*) FROM jobs") == 59
    assert await clockwork.value("SELECT count(*) FROM occurrences WHERE fate = 1") == 59
    await clockwork.check(*ids)


async def test_wall_clocks_of_machines_have_no_say(clockwork: Clockwork) -> None:
    """quartz-scheduler/quartz#548: three nodes, 90 seconds apart; objectstack-ai/objectstack#14619: the later one fired
    again; robfig/cron#480: one is put forward by two hours, and back after a minute."""
    await clockwork.create(overlap=AT_ITS_TIME)
    await clockwork.create("ahead")
    nodes = [coordinator(clockwork, ahead_s) for ahead_s in (-90.0, 0.0, 90.0)]
    rng = random.Random(3)
    for minute in range(1, 31):
        jumping = nodes[0].clock
        assert isinstance(jumping, Machine)
        jumping.ahead_s = 7_200.0 if minute in (10, 11) else -90.0
        await clockwork.sleep(55)
        for node in rng.sample(nodes, 3):
            await node.step()
        # Nothing early, and what is made ahead is so by a minute.
        assert (await clockwork.fates()).get("FIRED", 0) == minute - 1
        assert await clockwork.fates("ahead") == {"FIRED": minute}
        await clockwork.sleep(5)
        for node in rng.sample(nodes, 3):
            await node.step()
        # Nothing twice, and nothing late.
        assert await clockwork.fates() == {"FIRED": minute}
    await clockwork.check("s", "ahead")
