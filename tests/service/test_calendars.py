"""Calendars, and how schedules that name them follow their changes."""

from dataclasses import replace

import pytest

from rota.domain.errors import Aborted, AlreadyExists, FailedPrecondition, InvalidArgument, NotFound
from rota.domain.schedule import Calendar, etag
from rota.store.scheduleport import RequestKey

from .clockwork import NO_REQUEST, START, Clockwork, timing

HOLIDAYS = Calendar("holidays", ("2026-03-03", "--12-25"))


async def create(clockwork: Clockwork, calendar: Calendar = HOLIDAYS) -> Calendar:
    return await clockwork.calendars.create(clockwork.identity_, calendar, NO_REQUEST)


async def change(clockwork: Clockwork, *dates: str, wanted: str = "") -> Calendar:
    return await clockwork.calendars.update(
        clockwork.identity_, "holidays", lambda old: replace(old, dates=dates), etag=wanted, request=NO_REQUEST
    )


async def test_its_dates_are_left_out_by_all_schedules_that_name_it(clockwork: Clockwork) -> None:
    await create(clockwork)
    for id in ("a", "b"):
        await clockwork.create(id, timing("0 12 * * *", calendars=("holidays",)))
    await clockwork.go(3 * 86_400, tick=3600)
    for id in ("a", "b"):
        assert await clockwork.fates(id) == {"FIRED": 2, "EXCLUDED": 1}
    await clockwork.check("a", "b")


async def test_a_change_governs_what_was_made_ahead_and_the_next_times(clockwork: Clockwork) -> None:
    await create(clockwork)
    await clockwork.create(timing=timing(calendars=("holidays",)))
    await clockwork.go(30)
    assert len(await clockwork.live()) == 1
    before = await clockwork.get()
    await change(clockwork, "2026-03-02")
    assert await clockwork.live() == []
    await clockwork.settle()
    found = await clockwork.get()
    assert found.timer.next_nominal == START.replace(day=3, hour=0)
    assert found.timer.version == before.timer.version + 1
    await clockwork.go(3600, tick=600)
    await change(clockwork)
    await clockwork.go(60)
    # What was excluded while it was, stays so.
    assert await clockwork.fates() == {"EXCLUDED": 60, "FIRED": 2}
    await clockwork.check()


async def test_a_rule_that_loses_all_its_dates_is_told_of(clockwork: Clockwork) -> None:
    await create(clockwork)
    with pytest.raises(InvalidArgument, match=r"exclu"):
        await clockwork.create(timing=timing("0 12 25 12 *", calendars=("holidays",)))
    await clockwork.create(timing=timing("0 12 24 12 *", calendars=("holidays",)))
    await change(clockwork, "--12-24")
    await clockwork.settle()
    found = await clockwork.get()
    assert found.timer.state.name in ("ERROR", "EXHAUSTED")
    assert found.timer.state_reason


async def test_ids_versions_and_use_are_checked(clockwork: Clockwork) -> None:
    created = await create(clockwork)
    with pytest.raises(AlreadyExists, match="calendars/holidays: exists already"):
        await create(clockwork)
    with pytest.raises(InvalidArgument, match="calendar_id"):
        await create(clockwork, replace(HOLIDAYS, id="no spaces"))
    with pytest.raises(InvalidArgument, match=r"calendar.dates"):
        await create(clockwork, Calendar("x", ("2026-02-30",)))
    with pytest.raises(Aborted):
        await change(clockwork, "2026-03-04", wanted=etag(created.version + 1, created.uid))
    await clockwork.create(timing=timing(calendars=("holidays",)))
    with pytest.raises(FailedPrecondition, match="schedules/s names it"):
        await clockwork.calendars.delete(clockwork.identity_, "holidays", etag="", allow_missing=False)
    await clockwork.edit(timing=timing())
    await clockwork.calendars.delete(clockwork.identity_, "holidays", etag="", allow_missing=False)
    with pytest.raises(NotFound):
        await clockwork.calendars.get(clockwork.identity_, "holidays")
    await clockwork.calendars.delete(clockwork.identity_, "holidays", etag="", allow_missing=True)


async def test_the_same_call_again_changes_nothing(clockwork: Clockwork) -> None:
    request = RequestKey(17, "r", b"d")
    first = await clockwork.calendars.create(clockwork.identity_, HOLIDAYS, request)
    assert await clockwork.calendars.create(clockwork.identity_, HOLIDAYS, request) == first
