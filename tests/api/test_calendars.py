"""Calendars: created, read, changed, and followed by their schedules."""

from typing import Any

import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

from .running import Running, Tenant, refusal
from .scheduling import create, cron, day, get, preview, update
from .test_validation import check_invalid, text_map

pytestmark = pytest.mark.asyncio(loop_scope="session")

LATER = Timestamp(seconds=3_784_233_600)
"""1 December 2089."""


async def make(tenant: Tenant, id: str, *dates: str, **fields: Any) -> pb.Calendar:
    found: pb.Calendar = (await tenant.calendars.CreateCalendar(day(id, *dates, **fields))).calendar
    return found


async def read(tenant: Tenant, name: str) -> pb.Calendar:
    found: pb.Calendar = (await tenant.calendars.GetCalendar(pb.GetCalendarRequest(name=name))).calendar
    return found


async def edit(tenant: Tenant, name: str, *paths: str, request_id: str = "", **fields: Any) -> pb.Calendar:
    request = pb.UpdateCalendarRequest(
        calendar=pb.Calendar(name=name, **fields), update_mask=FieldMask(paths=paths), request_id=request_id
    )
    found: pb.Calendar = (await tenant.calendars.UpdateCalendar(request)).calendar
    return found


async def remove(tenant: Tenant, name: str, **fields: Any) -> pb.DeleteCalendarResponse:
    found: pb.DeleteCalendarResponse = await tenant.calendars.DeleteCalendar(
        pb.DeleteCalendarRequest(name=name, **fields)
    )
    return found


async def names(tenant: Tenant, **fields: Any) -> list[str]:
    answer = await tenant.calendars.ListCalendars(pb.ListCalendarsRequest(**fields))
    return [calendar.name for calendar in answer.calendars]


async def test_a_calendar_is_kept_as_given(tenant: Tenant) -> None:
    made = await make(tenant, "bank", "2026-12-25", "--01-01", notes="for people", labels={"a": "1"})
    assert (made.name, list(made.dates)) == ("calendars/bank", ["2026-12-25", "--01-01"])
    assert (made.notes, dict(made.labels)) == ("for people", {"a": "1"})
    assert made.uid and made.etag and made.create_time == made.update_time
    assert await read(tenant, made.name) == await read(tenant, "bank") == made


async def test_an_id_is_taken_once_and_a_repetition_gets_the_first_answer(tenant: Tenant, rota: Running) -> None:
    made = await make(tenant, "bank", request_id="r")
    assert await make(tenant, "bank", request_id="r") == made
    assert (await refusal(make(tenant, "bank"))).case == ("ALREADY_EXISTS", "RESOURCE_EXISTS")
    reused = await refusal(make(tenant, "bank", "2026-12-25", request_id="r"))
    assert reused.case == ("ALREADY_EXISTS", "REQUEST_ID_REUSED")
    stranger = await rota.tenant()
    assert (await refusal(read(stranger, "bank"))).case == ("NOT_FOUND", "RESOURCE_NOT_FOUND")


async def test_calendars_that_are_refused(tenant: Tenant) -> None:
    check_invalid(await refusal(make(tenant, "")), "calendar_id")
    check_invalid(await refusal(make(tenant, "-a", request_id="r" * 129)), "calendar_id", "request_id")
    check_invalid(await refusal(make(tenant, "a", "2026-02-30")), "calendar.dates")
    check_invalid(await refusal(make(tenant, "a", *["2026-12-25"] * 5001)), "calendar.dates")
    both = await refusal(make(tenant, "a", notes="n" * 4097, labels=text_map(33)))
    check_invalid(both, "calendar.notes", "calendar.labels")
    check_invalid(await refusal(read(tenant, "schedules/a")), "name")
    assert await names(tenant) == []


async def test_lists_leave_the_dates_out_and_come_in_pages(tenant: Tenant) -> None:
    for index in range(5):
        await make(tenant, f"c{index}", "2026-12-25", labels={"half": str(index % 2)})
    assert await names(tenant) == [f"calendars/c{index}" for index in range(5)]
    assert await names(tenant, labels={"half": "1"}) == ["calendars/c1", "calendars/c3"]
    first = await tenant.calendars.ListCalendars(pb.ListCalendarsRequest(page_size=3))
    assert all(not calendar.dates and calendar.etag for calendar in first.calendars)
    assert await names(tenant, page_size=3, page_token=first.next_page_token) == ["calendars/c3", "calendars/c4"]
    other = pb.ListCalendarsRequest(page_token=first.next_page_token, labels={"half": "1"})
    check_invalid(await refusal(tenant.calendars.ListCalendars(other)), "page_token", reason="PAGE_TOKEN_INVALID")


async def test_an_edit_takes_the_fields_of_its_mask(tenant: Tenant) -> None:
    made = await make(tenant, "c", "2026-12-25", notes="old", labels={"a": "1"})
    found = await edit(tenant, made.name, "dates", dates=["--01-01"], notes="ignored")
    assert (list(found.dates), found.notes) == (["--01-01"], "old")
    assert found.etag != made.etag and found.uid == made.uid
    found = await edit(tenant, made.name, notes="new")
    assert (list(found.dates), found.notes) == (["--01-01"], "new")
    found = await edit(tenant, made.name, "labels", "dates")
    assert not found.dates and not found.labels
    assert await read(tenant, made.name) == found
    check_invalid(await refusal(edit(tenant, made.name, "uid", uid="u")), "update_mask")
    check_invalid(await refusal(edit(tenant, made.name, "date")), "update_mask")
    check_invalid(await refusal(edit(tenant, made.name, dates=["x"])), "calendar.dates")
    assert (await refusal(edit(tenant, "calendars/none", notes="n"))).case == ("NOT_FOUND", "RESOURCE_NOT_FOUND")


async def test_only_the_version_of_the_etag_is_changed(tenant: Tenant) -> None:
    made = await make(tenant, "c")
    found = await edit(tenant, made.name, notes="1", etag=made.etag, request_id="r")
    assert await edit(tenant, made.name, notes="1", etag=made.etag, request_id="r") == found
    for stale in (made.etag, "v2", "*"):
        assert (await refusal(edit(tenant, made.name, notes="2", etag=stale))).case == ("ABORTED", "ETAG_MISMATCH")
        assert (await refusal(remove(tenant, made.name, etag=stale))).case == ("ABORTED", "ETAG_MISMATCH")
    await remove(tenant, made.name, etag=found.etag)
    assert (await refusal(remove(tenant, made.name))).case == ("NOT_FOUND", "RESOURCE_NOT_FOUND")
    await remove(tenant, made.name, allow_missing=True)
    await make(tenant, "c")
    assert (await refusal(remove(tenant, made.name, etag=made.etag))).case == ("ABORTED", "ETAG_MISMATCH")


async def test_schedules_follow_a_change_of_their_calendar(tenant: Tenant) -> None:
    await make(tenant, "c", "--01-01")
    exclusions = pb.Exclusions(calendars=["calendars/c"])
    made = await create(tenant, cron=cron("0 0 1 1,7 *"), exclusions=exclusions, start_time=LATER)
    assert made.next_nominal_time.ToDatetime().month == 7
    shown = await preview(tenant, name=made.name, count=1)
    assert [line.removed for line in shown.occurrences] == [True, False]
    assert shown.occurrences[0].reasons[0].cause == pb.PREVIEW_CAUSE_EXCLUDED_CALENDAR
    await edit(tenant, "c", "dates", dates=["--07-01"])
    after = await get(tenant, made.name)
    assert after.next_nominal_time.ToDatetime().month == 1


async def test_a_calendar_in_use_stays(tenant: Tenant) -> None:
    await make(tenant, "c")
    made = await create(tenant, exclusions=pb.Exclusions(calendars=["c"]))
    assert list(made.exclusions.calendars) == ["calendars/c"]
    found = await refusal(remove(tenant, "c"))
    assert found.case == ("FAILED_PRECONDITION", "INVALID_STATE")
    await update(tenant, made.name, "exclusions")
    await remove(tenant, "c")
    assert await names(tenant) == []
