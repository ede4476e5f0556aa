"""Applying a declared set of schedules and calendars."""

from collections.abc import Sequence
from typing import Any

import pytest
from rota_sdk.gen.rota.v1 import common_pb2
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

from .running import Running, Tenant, refusal, span
from .scheduling import create, cron, day, get, pause, state, wish
from .test_validation import check_invalid

pytestmark = pytest.mark.asyncio(loop_scope="session")

Changes = list[tuple[str, str, list[str]]]


async def apply(
    tenant: Tenant,
    *schedules: pb.CreateScheduleRequest,
    calendars: Sequence[pb.CreateCalendarRequest] = (),
    apply_set: str = "set",
    **fields: Any,
) -> Changes:
    """Name, action and changed fields of each change."""
    request = pb.ApplySchedulesRequest(apply_set=apply_set, schedules=schedules, calendars=calendars, **fields)
    return [
        (
            change.name,
            pb.ApplyAction.Name(change.action).removeprefix("APPLY_ACTION_"),
            list(change.changed_fields.paths),
        )
        for change in (await tenant.schedules.ApplySchedules(request)).changes
    ]


async def names(tenant: Tenant, **fields: Any) -> list[str]:
    answer = await tenant.schedules.ListSchedules(pb.ListSchedulesRequest(**fields))
    return [schedule.name for schedule in answer.schedules]


async def test_what_is_declared_becomes_true(tenant: Tenant) -> None:
    bank = day("bank", "2026-12-25")
    a = wish("a", notes="1", exclusions=pb.Exclusions(calendars=["bank"]))
    b = wish("b", interval=pb.IntervalRule(every=span(86_400)))
    assert await apply(tenant, b, a, calendars=[bank]) == [
        ("calendars/bank", "CREATE", []),
        ("schedules/b", "CREATE", []),
        ("schedules/a", "CREATE", []),
    ]
    made = await get(tenant, "a")
    assert (made.notes, made.apply_set, made.version) == ("1", "set", 1)
    assert await apply(tenant, b, a, calendars=[bank]) == [
        ("calendars/bank", "NONE", []),
        ("schedules/b", "NONE", []),
        ("schedules/a", "NONE", []),
    ]
    assert await get(tenant, "a") == made, "nothing was touched"


async def test_what_differs_is_named_and_changed(tenant: Tenant) -> None:
    job = pb.JobTemplate(type="t", queue="q", payload=common_pb2.Payload(data=b"1"))
    await apply(tenant, wish("a", notes="1", job=job), calendars=[day("c", "2026-12-25", notes="n")])
    job.payload.data = b"2"
    changed = wish("a", cron=cron("0 0 2 1 *"), job=job, labels={"x": "y"})
    assert await apply(tenant, changed, calendars=[day("c", "2026-12-26", notes="n")]) == [
        ("calendars/c", "UPDATE", ["dates"]),
        ("schedules/a", "UPDATE", ["cron.expression", "job.payload", "notes", "labels"]),
    ]
    found = await get(tenant, "a")
    assert (found.cron.expression, found.job.payload.data, found.notes) == ("0 0 2 1 *", b"2", "")
    assert found.version == 2


async def test_defaults_spelt_out_are_no_difference(tenant: Tenant) -> None:
    await apply(tenant, wish("a", overlap_policy=pb.OverlapPolicy(mode=pb.OVERLAP_MODE_BUFFER_ALL)))
    spelt = await get(tenant, "a")
    request = pb.CreateScheduleRequest(schedule=spelt, schedule_id="a")
    assert await apply(tenant, request) == [("schedules/a", "NONE", [])]


async def test_a_schedule_of_elsewhere_comes_into_the_set(tenant: Tenant) -> None:
    made = await create(tenant, "a")
    assert (await get(tenant, "a")).apply_set == ""
    await apply(tenant, wish("a"))
    found = await get(tenant, "a")
    assert (found.apply_set, found.uid) == ("set", made.uid)
    await apply(tenant, wish("a"), apply_set="other")
    assert (await get(tenant, "a")).apply_set == "other"
    assert await names(tenant, apply_set="set") == []


async def test_only_what_is_of_the_set_is_pruned(tenant: Tenant) -> None:
    await create(tenant, "mine")
    await apply(tenant, wish("other"), apply_set="other")
    await apply(tenant, wish("a"), wish("b"), wish("c"), calendars=[day("cal")])
    assert await apply(tenant, wish("b")) == [("schedules/b", "NONE", [])]
    assert await apply(tenant, wish("b"), prune=True) == [
        ("schedules/b", "NONE", []),
        ("schedules/a", "DELETE", []),
        ("schedules/c", "DELETE", []),
    ]
    assert await names(tenant) == ["schedules/b", "schedules/mine", "schedules/other"]
    assert len((await tenant.calendars.ListCalendars(pb.ListCalendarsRequest())).calendars) == 1
    assert await apply(tenant, prune=True) == [("schedules/b", "DELETE", [])]


async def test_a_plan_changes_nothing(tenant: Tenant) -> None:
    await apply(tenant, wish("a"), wish("b"))
    before = [await get(tenant, "a"), await get(tenant, "b")]
    plan = {"calendars": [day("c")], "prune": True, "validate_only": True}
    assert await apply(tenant, wish("a", notes="n"), wish("d"), **plan) == [
        ("calendars/c", "CREATE", []),
        ("schedules/a", "UPDATE", ["notes"]),
        ("schedules/d", "CREATE", []),
        ("schedules/b", "DELETE", []),
    ]
    assert [await get(tenant, "a"), await get(tenant, "b")] == before
    assert await names(tenant) == ["schedules/a", "schedules/b"]
    assert not (await tenant.calendars.ListCalendars(pb.ListCalendarsRequest())).calendars


async def test_a_plan_may_name_calendars_of_its_own(tenant: Tenant) -> None:
    dated = wish("a", exclusions=pb.Exclusions(calendars=["c"]))
    for validate_only in (True, False):
        changes = await apply(tenant, dated, calendars=[day("c", "2026-12-25")], validate_only=validate_only)
        assert [change[1] for change in changes] == ["CREATE", "CREATE"]


async def test_paused_holds_for_new_and_existing_ones(tenant: Tenant) -> None:
    await apply(tenant, wish("a", paused=True), wish("b"))
    assert (state(await get(tenant, "a")), state(await get(tenant, "b"))) == ("PAUSED", "ACTIVE")
    assert await apply(tenant, wish("a", paused=True)) == [("schedules/a", "NONE", [])]
    ((_, action, _),) = await apply(tenant, wish("b", paused=True))
    assert (action, state(await get(tenant, "b"))) == ("UPDATE", "PAUSED")
    await apply(tenant, wish("a"), wish("b"))
    assert (state(await get(tenant, "a")), state(await get(tenant, "b"))) == ("ACTIVE", "ACTIVE")
    await pause(tenant, "b")
    await apply(tenant, wish("b"))
    assert state(await get(tenant, "b")) == "ACTIVE"


async def test_a_repeated_call_finds_it_done(tenant: Tenant) -> None:
    plan = await apply(tenant, wish("a"), request_id="r", validate_only=True)
    assert await apply(tenant, wish("a"), request_id="r") == plan == [("schedules/a", "CREATE", [])]
    assert await apply(tenant, wish("a"), request_id="r") == [("schedules/a", "NONE", [])]
    found = await refusal(apply(tenant, wish("b"), request_id="r"))
    assert found.case == ("ALREADY_EXISTS", "REQUEST_ID_REUSED")


async def test_it_is_all_or_nothing(tenant: Tenant) -> None:
    wrong = wish("b", cron=cron("x"))
    found = await refusal(apply(tenant, wish("a"), wrong, calendars=[day("c")]))
    check_invalid(found, "schedules[1].schedule.cron.expression")
    check_invalid(await refusal(apply(tenant, wish("a"), wrong, validate_only=True)), found.fields[0])
    dates = await refusal(apply(tenant, wish("a"), calendars=[day("c"), day("d", "x")]))
    check_invalid(dates, "calendars[1].calendar.dates")
    gone = wish("a", exclusions=pb.Exclusions(calendars=["c"]))
    check_invalid(await refusal(apply(tenant, gone)), "schedules[0].schedule.exclusions.calendars")
    assert await names(tenant) == []
    assert not (await tenant.calendars.ListCalendars(pb.ListCalendarsRequest())).calendars


async def test_calls_that_are_refused(tenant: Tenant) -> None:
    check_invalid(await refusal(apply(tenant, wish("a"), apply_set="")), "apply_set")
    check_invalid(await refusal(apply(tenant, wish("a"), apply_set="s" * 129)), "apply_set")
    check_invalid(await refusal(apply(tenant, wish())), "schedules[0].schedule_id")
    check_invalid(await refusal(apply(tenant, wish("a", request_id="r"))), "schedules[0].request_id")
    check_invalid(await refusal(apply(tenant, wish("a"), wish("b"), wish("a"))), "schedules[2].schedule_id")
    unnamed = [day(""), day("c", request_id="r"), day("c")]
    check_invalid(
        await refusal(apply(tenant, calendars=unnamed)),
        "calendars[0].calendar_id",
        "calendars[1].request_id",
        "calendars[2].calendar_id",
    )
    many = [pb.CreateScheduleRequest()] * 1001
    check_invalid(await refusal(apply(tenant, *many, calendars=[day("c")] * 101)), "schedules", "calendars")
    check_invalid(await refusal(apply(tenant, wish("a"), request_id="r" * 129)), "request_id")
    assert await names(tenant) == []


async def test_a_schedule_and_a_calendar_may_have_one_id(tenant: Tenant) -> None:
    assert [change[1] for change in await apply(tenant, wish("x"), calendars=[day("x")])] == ["CREATE", "CREATE"]


async def test_sets_are_of_their_tenant(tenant: Tenant, rota: Running) -> None:
    stranger = await rota.tenant()
    await apply(stranger, wish("a"))
    assert await apply(tenant, wish("b"), prune=True) == [("schedules/b", "CREATE", [])]
    assert await names(stranger) == ["schedules/a"]


async def test_a_thousand_at_once(tenant: Tenant) -> None:
    many = [wish(f"s{index:04d}") for index in range(1000)]
    assert {change[1] for change in await apply(tenant, *many)} == {"CREATE"}
    assert {change[1] for change in await apply(tenant, *many)} == {"NONE"}
    changed = await apply(tenant, *many[:-1], wish("s0999", notes="n"), prune=True)
    assert [change for change in changed if change[1] != "NONE"] == [("schedules/s0999", "UPDATE", ["notes"])]
