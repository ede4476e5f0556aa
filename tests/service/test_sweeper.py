"""What is found without the path that fires, and put right; and what must not hold it up."""

from datetime import timedelta

import pytest

from rota.domain import zones
from rota.domain.schedule import ScheduleState
from rota.service import fires as module
from rota.store.fires import PgFires
from rota.store.scheduleport import Unwritable

from .clockwork import START, Clockwork, timing


async def test_an_overdue_schedule_is_fired_by_the_sweeper(clockwork: Clockwork) -> None:
    await clockwork.create()
    await clockwork.sleep(120)
    await clockwork.sweeper.step()
    assert len(await clockwork.live()) >= 2
    assert (await clockwork.get()).timer.arm_at > clockwork.clock.now - timedelta(seconds=30)  # type: ignore[operator]
    assert clockwork.counted("rota.schedules.repaired", "overdue") == 1
    await clockwork.check()


async def test_an_active_schedule_that_waits_for_nothing_is_armed_again(clockwork: Clockwork) -> None:
    await clockwork.create()
    await clockwork.sql("UPDATE schedule_timers SET arm_at = NULL, next_nominal = NULL, next_due = NULL")
    await clockwork.go(600, tick=60)
    assert await clockwork.live() == []
    await clockwork.sweeper.step()
    await clockwork.go(60)
    assert (await clockwork.get()).timer.next_nominal is not None
    assert (await clockwork.fates())["FIRED"] >= 3
    assert clockwork.counted("rota.schedules.repaired", "unarmed") == 1
    await clockwork.check()


async def test_other_time_zone_data_rewrites_the_next_times_that_change(
    clockwork: Clockwork, caplog: pytest.LogCaptureFixture
) -> None:
    await clockwork.create("same", timing("0 12 * * *"))
    await clockwork.create("moved", timing("0 12 * * *"))
    await clockwork.sql("UPDATE schedule_timers SET tzdata = '2020a'")
    await clockwork.sql(
        "UPDATE schedule_timers t SET next_nominal = next_nominal + interval '1 hour', arm_at = arm_at "
        "+ interval '1 hour' FROM schedules s WHERE s.uid = t.uid AND s.id = 'moved'"
    )
    with caplog.at_level("INFO", "rota"):
        await clockwork.sweeper.step()
    for id in ("same", "moved"):
        found = await clockwork.get(id)
        assert (found.timer.next_nominal, found.timer.tzdata) == (START.replace(hour=12), zones.version())
    assert [r.message for r in caplog.records if "time-zone data" in r.message and "schedules/moved" in r.message]
    assert not [r.message for r in caplog.records if "schedules/same" in r.message]
    assert clockwork.counted("rota.schedules.repaired", "tzdata") == 1


async def test_a_schedule_whose_data_cannot_be_written_holds_nobody_up(
    clockwork: Clockwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(9):
        await clockwork.create(f"s{number}")
    poisoned = (await clockwork.get("s4")).uid
    fire = PgFires.fire

    async def spoilt(self: PgFires, moves, owner):  # type: ignore[no-untyped-def]
        if any(move.armed.uid == poisoned and move.step.records for move in moves):
            raise Unwritable("a NUL somewhere")
        return await fire(self, moves, owner)

    monkeypatch.setattr(PgFires, "fire", spoilt)
    await clockwork.go(60, tick=30)
    for number in range(9):
        assert len(await clockwork.live(f"s{number}")) == (0 if number == 4 else 2)
    assert (await clockwork.get("s4")).timer.state is ScheduleState.ACTIVE
    assert clockwork.counted("rota.schedules.failed") >= 1
    # Once it is mended, what was missed is treated as missed.
    monkeypatch.undo()
    await clockwork.go(120, tick=10)
    assert len(await clockwork.live("s4")) >= 2
    await clockwork.check("s4")


async def test_a_fault_in_the_decision_holds_nobody_up(clockwork: Clockwork, monkeypatch: pytest.MonkeyPatch) -> None:
    await clockwork.create("good")
    await clockwork.create("bad", timing("*/2 * * * *"))
    decide = module.decide

    def faulty(timer, definition, *rest):  # type: ignore[no-untyped-def]
        if definition.timing.expression.startswith("*/2"):
            raise ZeroDivisionError
        return decide(timer, definition, *rest)

    monkeypatch.setattr(module, "decide", faulty)
    await clockwork.go(180, tick=20)
    assert (len(await clockwork.live("good")), len(await clockwork.live("bad"))) == (4, 0)
    monkeypatch.undo()
    await clockwork.go(180, tick=20)
    assert (await clockwork.fates("bad"))["FIRED"] >= 2
    await clockwork.check("good", "bad")


async def test_a_rule_that_cannot_be_read_any_more_goes_into_error_and_comes_back(clockwork: Clockwork) -> None:
    await clockwork.create()
    await clockwork.create("other")
    await clockwork.sql(
        "UPDATE schedules SET definition = jsonb_set(definition, '{timing,time_zone}', '\"Mars/Base\"') WHERE id = 's'"
    )
    clockwork.restart()
    await clockwork.go(120, tick=30)
    found = await clockwork.get()
    assert (found.timer.state, found.timer.arm_at) == (ScheduleState.ERROR, None)
    assert "Mars/Base" in found.timer.state_reason
    assert len(await clockwork.live("other")) == 3
    await clockwork.edit(timing=timing())
    await clockwork.go(60, tick=30)
    assert (await clockwork.get()).timer.state is ScheduleState.ACTIVE
    assert len(await clockwork.live()) >= 1


async def test_a_coordinator_that_lost_its_shards_writes_nothing(clockwork: Clockwork) -> None:
    await clockwork.create()
    await clockwork.sql("UPDATE shards SET epoch = epoch + 1")
    await clockwork.sleep(60)
    await clockwork.materializer.step()
    assert await clockwork.live() == []
    assert await clockwork.ledger() == []


async def test_two_owners_of_different_terms_fire_each_occurrence_once(clockwork: Clockwork) -> None:
    """mesos/chronos#371 and oban-bg/oban-py#32: whoever believes to be the owner."""
    await clockwork.create()
    old = clockwork.materializer
    clockwork.restart()
    for _ in range(10):
        await clockwork.sleep(60)
        await old.step()
        await clockwork.materializer.step()
    assert await clockwork.fates() == {"FIRED": 11}
    await clockwork.check()
