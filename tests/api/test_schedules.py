"""Creating, reading and listing schedules."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from rota_sdk.gen.rota.v1 import common_pb2
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

from rota.domain.errors import InvalidArgument
from rota.domain.model import Role
from rota.domain.rulespec import RuleKind
from rota.domain.schedule import Timing, compiled

from .running import Running, Tenant, refusal, refusal_of, span
from .scheduling import RARELY, create, cron, get, preview, state, wish
from .test_validation import NUL, check_invalid, text_map

pytestmark = pytest.mark.asyncio(loop_scope="session")

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def stamp(at: datetime) -> Timestamp:
    found = Timestamp()
    found.FromDatetime(at)
    return found


def batch(*requests: pb.CreateScheduleRequest, **fields: Any) -> pb.BatchCreateSchedulesRequest:
    return pb.BatchCreateSchedulesRequest(requests=requests, **fields)


async def names(tenant: Tenant, **fields: Any) -> list[str]:
    answer = await tenant.schedules.ListSchedules(pb.ListSchedulesRequest(**fields))
    return [schedule.name.removeprefix("schedules/") for schedule in answer.schedules]


async def test_defaults_are_echoed(tenant: Tenant) -> None:
    made = await create(tenant)
    assert re.fullmatch(r"schedules/[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{21}", made.name)
    assert (made.cron.expression, made.time_zone) == (RARELY, "UTC")
    assert (made.job.type, made.job.queue, made.job.priority) == ("t", "default", 4)
    assert made.job.timeouts.run == span(3600)
    assert made.missed_run_policy == pb.MissedRunPolicy(
        mode=pb.MISSED_RUN_MODE_COALESCE, late_tolerance=span(60), catch_up_window=span(86_400), catch_up_max=100
    )
    assert made.overlap_policy == pb.OverlapPolicy(mode=pb.OVERLAP_MODE_ALLOW)
    assert (state(made), made.version) == ("ACTIVE", 1)
    assert made.uid and made.etag and made.tzdata_version
    assert made.create_time == made.update_time
    following = datetime(made.create_time.ToDatetime().year + 1, 1, 1)
    assert made.next_nominal_time == made.next_due_time == stamp(following)
    assert made.last_job == "" and not made.HasField("last_fire_time") and not made.fate_counts
    assert await get(tenant, made.name) == made


async def test_what_is_given_is_kept(tenant: Tenant) -> None:
    await tenant.calendars.CreateCalendar(
        pb.CreateCalendarRequest(calendar=pb.Calendar(dates=["2027-01-01"]), calendar_id="bank")
    )
    given: dict[str, Any] = {
        "interval": pb.IntervalRule(every=span(7 * 86_400), anchor_time=stamp(datetime(2026, 1, 1))),
        "time_zone": "Europe/Berlin",
        "start_time": stamp(datetime(2090, 1, 1)),
        "end_time": stamp(datetime(2091, 1, 1)),
        "max_count": 3,
        "jitter": pb.Jitter(mode=pb.JITTER_MODE_RANDOM, span=span(90)),
        "exclusions": pb.Exclusions(dates=["--12-25", "2090-02-01"], calendars=["calendars/bank"]),
        "dst_gap": pb.DST_GAP_SHIFT,
        "dst_overlap": pb.DST_OVERLAP_SECOND,
        "missed_run_policy": pb.MissedRunPolicy(
            mode=pb.MISSED_RUN_MODE_CATCH_UP, late_tolerance=span(0), catch_up_window=span(3600), catch_up_max=7
        ),
        "overlap_policy": pb.OverlapPolicy(mode=pb.OVERLAP_MODE_BUFFER_ALL, limit=3),
        "pause_after_failures": 5,
        "job": pb.JobTemplate(
            type="mail.send",
            queue="mail",
            priority=0,
            payload=common_pb2.Payload(data=b"\x00\xff", content_type="a/b"),
            headers={"h": "1"},
            labels={"a": ""},
            retry_policy=common_pb2.RetryPolicy(
                max_attempts=9,
                initial_backoff=span(0.25),
                max_backoff=span(60),
                multiplier=1.5,
                non_retryable_types=["A"],
            ),
            timeouts=common_pb2.Timeouts(run=span(1.5), start_by=span(60), total=span(3600.5)),
            concurrency_key="k",
        ),
        "notes": "Für Leute",
        "labels": {"team": "ops", "x": ""},
    }
    made = await create(tenant, "whole.One_1-a", **given)
    assert made.name == "schedules/whole.One_1-a"
    for name, value in given.items():
        assert getattr(made, name) == value, name
    assert await get(tenant, made.name) == made
    (listed,) = (await tenant.schedules.ListSchedules(pb.ListSchedulesRequest())).schedules
    made.job.ClearField("payload")
    made.ClearField("fate_counts")
    assert listed == made


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ({"once": pb.OnceRule(local_time="2030-03-31T02:30:00")}, "once"),
        ({"once": pb.OnceRule(run_time=Timestamp(seconds=1_900_000_000, nanos=5_000))}, "once"),
        ({"rrule": pb.RecurrenceRule(text="RRULE:FREQ=YEARLY;BYDAY=-1FR;BYMONTH=12")}, "rrule"),
        ({"cron": cron("@yearly")}, "cron"),
        ({"interval": pb.IntervalRule(every=span(86_400))}, "interval"),
    ],
)
async def test_every_kind_of_rule_says_when_it_fires(tenant: Tenant, rule: dict[str, Any], kind: str) -> None:
    made = await create(tenant, time_zone="Europe/Berlin", **rule)
    assert made.WhichOneof("rule") == kind
    if kind == "interval":
        assert made.interval.anchor_time.seconds == made.create_time.seconds
        assert made.interval.anchor_time.nanos == 0
    else:
        assert getattr(made, kind) == rule[kind]
    shown = await preview(tenant, name=made.name, count=1)
    assert shown.occurrences[0].nominal_time == made.next_nominal_time
    assert made.next_nominal_time.seconds > made.create_time.seconds


async def test_output_fields_of_a_wish_are_ignored(tenant: Tenant) -> None:
    made = await create(tenant, "mine", name="schedules/other", uid="u", version=9, state=pb.SCHEDULE_STATE_ERROR)
    assert (made.name, made.version, state(made)) == ("schedules/mine", 1, "ACTIVE")
    assert made.uid != "u"


async def test_a_schedule_may_begin_paused(tenant: Tenant) -> None:
    made = await create(tenant, paused=True)
    assert state(made) == "PAUSED"
    assert not made.HasField("next_nominal_time") and not made.HasField("next_due_time")
    assert state(await get(tenant, made.name)) == "PAUSED"


async def test_an_id_is_taken_once(tenant: Tenant, rota: Running) -> None:
    made = await create(tenant, "one")
    found = await refusal(tenant.schedules.CreateSchedule(wish("one")))
    assert found.case == ("ALREADY_EXISTS", "RESOURCE_EXISTS")
    assert await get(tenant, "schedules/one") == made
    other = await create(await rota.tenant(), "one")
    assert other.uid != made.uid


async def test_a_repeated_call_gets_the_first_answer(tenant: Tenant) -> None:
    request = wish(request_id="r")
    first = (await tenant.schedules.CreateSchedule(request)).schedule
    assert (await tenant.schedules.CreateSchedule(request)).schedule == first
    assert await names(tenant) == [first.name.removeprefix("schedules/")]
    found = await refusal(tenant.schedules.CreateSchedule(wish(request_id="r", notes="other")))
    assert found.case == ("ALREADY_EXISTS", "REQUEST_ID_REUSED")


async def test_fifty_equal_calls_at_once_make_one_schedule(tenant: Tenant) -> None:
    """tiana-code/fincore-engine#44."""
    request = wish(request_id="r")
    answers = await asyncio.gather(*(tenant.schedules.CreateSchedule(request) for _ in range(50)))
    (made,) = {answer.schedule.uid for answer in answers}
    assert [(await get(tenant, name)).uid for name in await names(tenant)] == [made]


async def test_of_two_wishes_with_one_request_id_one_is_refused_at_whatever_moment(tenant: Tenant) -> None:
    """idempot-dev/idempot-js#191: the same refusal while the first is on its way and once it is done."""
    wishes = [wish(request_id="r", notes=notes) for notes in ("a", "b")]
    calls = [tenant.schedules.CreateSchedule(wishes[number % 2]) for number in range(20)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    (kept,) = {answer.schedule.notes for answer in answers if not isinstance(answer, BaseException)}
    refused = [refusal_of(answer) for answer in answers if isinstance(answer, grpc.aio.AioRpcError)]
    assert len(refused) == 10
    late = await refusal(tenant.schedules.CreateSchedule(wishes[kept == "a"]))
    assert {each.case for each in (*refused, late)} == {("ALREADY_EXISTS", "REQUEST_ID_REUSED")}
    assert len(await names(tenant)) == 1


async def test_the_trace_context_of_the_caller_is_kept(tenant: Tenant) -> None:
    answer = await tenant.schedules.CreateSchedule(wish(), metadata=(("traceparent", TRACE),))
    assert answer.schedule.traceparent == TRACE
    assert (await create(tenant)).traceparent == ""


async def test_schedules_are_of_their_tenant_and_need_a_role(tenant: Tenant, rota: Running) -> None:
    made = await create(tenant, "mine")
    stranger = await rota.tenant()
    found = await refusal(stranger.schedules.GetSchedule(pb.GetScheduleRequest(name=made.name)))
    assert found.case == ("NOT_FOUND", "RESOURCE_NOT_FOUND")
    assert await names(stranger) == []
    worker = await tenant.caller(Role.WORKER)
    for call in (
        worker.schedules.GetSchedule(pb.GetScheduleRequest(name="no name at all/")),
        worker.schedules.CreateSchedule(pb.CreateScheduleRequest()),
        worker.calendars.ListCalendars(pb.ListCalendarsRequest()),
    ):
        assert (await refusal(call)).case == ("PERMISSION_DENIED", "PERMISSION_DENIED")
    operator = await tenant.caller(Role.OPERATOR)
    assert (await operator.schedules.GetSchedule(pb.GetScheduleRequest(name="mine"))).schedule == made


def job(**fields: Any) -> dict[str, Any]:
    return {"job": pb.JobTemplate(**{"type": "t"} | fields)}


INVALID: dict[str, tuple[dict[str, Any], str]] = {
    "no such field of cron": ({"cron": cron("61 * * * *")}, "schedule.cron.expression"),
    "an empty cron": ({"cron": cron("")}, "schedule.cron.expression"),
    "an empty rrule": ({"rrule": pb.RecurrenceRule()}, "schedule.rrule.text"),
    "an rrule of nonsense": ({"rrule": pb.RecurrenceRule(text="FREQ=SOMETIMES")}, "schedule.rrule.text"),
    "an interval of a fraction": ({"interval": pb.IntervalRule(every=span(1.5))}, "schedule.interval.every"),
    "an interval without a length": ({"interval": pb.IntervalRule()}, "schedule.interval.every"),
    "a local time with a zone": ({"once": pb.OnceRule(local_time="2030-01-01T00:00Z")}, "schedule.once.local_time"),
    "once in eleven years": (
        {"once": pb.OnceRule(run_time=stamp(datetime.now(UTC) + timedelta(days=4000)))},
        "schedule.once.run_time",
    ),
    "a zone by abbreviation": ({"time_zone": "PST"}, "schedule.time_zone"),
    "an end before the start": (
        {"start_time": Timestamp(seconds=4_000_000_001), "end_time": Timestamp(seconds=4_000_000_000)},
        "schedule.end_time",
    ),
    "no occurrence at all": ({"max_count": 0}, "schedule.max_count"),
    "jitter of two days": ({"jitter": pb.Jitter(span=span(172_800))}, "schedule.jitter.span"),
    "a date that is none": ({"exclusions": pb.Exclusions(dates=["2026-13-01"])}, "schedule.exclusions.dates"),
    "a calendar that is none": (
        {"exclusions": pb.Exclusions(calendars=["calendars/nowhere"])},
        "schedule.exclusions.calendars",
    ),
    "much tolerance": (
        {"missed_run_policy": pb.MissedRunPolicy(late_tolerance=span(3601))},
        "schedule.missed_run_policy.late_tolerance",
    ),
    "catching up with nothing": (
        {"missed_run_policy": pb.MissedRunPolicy(catch_up_max=0)},
        "schedule.missed_run_policy.catch_up_max",
    ),
    "a limit of a mode without": (
        {"overlap_policy": pb.OverlapPolicy(mode=pb.OVERLAP_MODE_SKIP, limit=1)},
        "schedule.overlap_policy.limit",
    ),
    "failures below none": ({"pause_after_failures": -1}, "schedule.pause_after_failures"),
    "a job without a type": (job(type=""), "schedule.job.type"),
    "a queue with a slash": (job(queue="a/b"), "schedule.job.queue"),
    "priority ten": (job(priority=10), "schedule.job.priority"),
    "a reserved header": (job(headers={"rota-x": "1"}), "schedule.job.headers"),
    "no attempts": (job(retry_policy=common_pb2.RetryPolicy(max_attempts=0)), "schedule.job.retry_policy.max_attempts"),
    "no time to run": (job(timeouts=common_pb2.Timeouts(run=span(0.5))), "schedule.job.timeouts.run"),
    "long notes": ({"notes": "n" * 4097}, "schedule.notes"),
    "notes with NUL": ({"notes": NUL}, "schedule.notes"),
    "too many labels": ({"labels": text_map(33)}, "schedule.labels"),
}


@pytest.mark.parametrize(("fields", "path"), INVALID.values(), ids=INVALID)
async def test_a_wish_that_is_refused(tenant: Tenant, fields: dict[str, Any], path: str) -> None:
    check_invalid(await refusal(tenant.schedules.CreateSchedule(wish(**fields))), path)
    found = await refusal(tenant.schedules.BatchCreateSchedules(batch(wish(), wish(**fields))))
    check_invalid(found, f"requests[1].{path}")
    assert await names(tenant) == []


async def test_what_is_wrong_is_told_at_once(tenant: Tenant) -> None:
    request = wish("-a", labels=text_map(33), request_id="r" * 129)
    request.schedule.ClearField("cron")
    request.schedule.ClearField("job")
    check_invalid(
        await refusal(tenant.schedules.CreateSchedule(request)),
        "schedule_id",
        "schedule.job",
        "schedule.rule",
        "request_id",
    )
    several = wish(notes="n" * 4097, pause_after_failures=1001, max_count=0)
    found = await refusal(tenant.schedules.CreateSchedule(several))
    assert set(found.fields) == {"schedule.notes", "schedule.pause_after_failures", "schedule.max_count"}


async def test_a_rule_that_never_fires_is_refused_in_the_domain_s_words(tenant: Tenant) -> None:
    found = await refusal(tenant.schedules.CreateSchedule(wish(cron=cron("0 0 31 2 *"))))
    check_invalid(found, "schedule.cron.expression", reason="NEVER_FIRES")
    with pytest.raises(InvalidArgument) as caught:
        compiled(Timing(RuleKind.CRON, "0 0 31 2 *"), "", {}, "schedule")
    assert found.message == caught.value.message
    past = wish(once=pb.OnceRule(run_time=Timestamp(seconds=1_000_000_000)))
    check_invalid(await refusal(tenant.schedules.CreateSchedule(past)), "schedule.once.run_time", reason="NEVER_FIRES")


async def test_a_payload_has_a_limit(tenant: Tenant) -> None:
    large = job(payload=common_pb2.Payload(data=b"x" * (256 * 1024 + 1)))
    found = await refusal(tenant.schedules.CreateSchedule(wish(**large)))
    check_invalid(found, "schedule.job.payload.data", reason="PAYLOAD_TOO_LARGE")
    await create(tenant, **job(payload=common_pb2.Payload(data=b"x" * 256 * 1024)))


@pytest.mark.parametrize(
    "name", ["", "schedules/", "jobs/a", "schedules/a/b", "schedules/-a", "schedules/" + "a" * 129]
)
async def test_names_that_are_none(tenant: Tenant, name: str) -> None:
    check_invalid(await refusal(tenant.schedules.GetSchedule(pb.GetScheduleRequest(name=name))), "name")
    check_invalid(await refusal(tenant.schedules.ListOccurrences(pb.ListOccurrencesRequest(parent=name))), "parent")


async def test_a_batch_is_answered_in_order(tenant: Tenant) -> None:
    requests = [wish(f"b{9 - index}", notes=str(index)) for index in range(5)] + [wish()]
    made = (await tenant.schedules.BatchCreateSchedules(batch(*requests))).schedules
    assert [schedule.notes for schedule in made] == ["0", "1", "2", "3", "4", ""]
    assert [schedule.name for schedule in made[:5]] == [f"schedules/b{9 - index}" for index in range(5)]
    for schedule in made:
        assert await get(tenant, schedule.name) == schedule


async def test_a_batch_may_answer_with_names_only_and_be_repeated(tenant: Tenant) -> None:
    request = batch(*[wish() for _ in range(1000)], names_only=True, request_id="r")
    made = (await tenant.schedules.BatchCreateSchedules(request)).schedules
    assert len({schedule.name for schedule in made}) == 1000
    assert all(schedule == pb.Schedule(name=schedule.name) for schedule in made)
    assert (await tenant.schedules.BatchCreateSchedules(request)).schedules == made
    assert len(await names(tenant, page_size=1000)) == 1000


async def test_a_batch_is_made_whole_or_not(tenant: Tenant) -> None:
    await create(tenant, "there")
    found = await refusal(tenant.schedules.BatchCreateSchedules(batch(wish("a"), wish("there"))))
    assert found.case == ("ALREADY_EXISTS", "RESOURCE_EXISTS")
    twice = await refusal(tenant.schedules.BatchCreateSchedules(batch(wish("a"), wish("b"), wish("a"))))
    check_invalid(twice, "requests[2].schedule_id")
    alone = await refusal(tenant.schedules.BatchCreateSchedules(batch(wish("a", request_id="r"))))
    check_invalid(alone, "requests[0].request_id")
    for count in (0, 1001):
        request = batch(*[pb.CreateScheduleRequest()] * count)
        check_invalid(await refusal(tenant.schedules.BatchCreateSchedules(request)), "requests")
    assert await names(tenant) == ["there"]


async def test_lists_are_filtered(tenant: Tenant) -> None:
    await create(tenant, "a1", labels={"x": "1", "y": "2"}, **job(type="u"))
    await create(tenant, "a2", labels={"x": "1"}, **job(queue="mail"))
    await create(tenant, "b1", paused=True)
    await tenant.schedules.ApplySchedules(pb.ApplySchedulesRequest(apply_set="set", schedules=[wish("c1")]))
    assert await names(tenant) == ["a1", "a2", "b1", "c1"]
    assert await names(tenant, state=pb.SCHEDULE_STATE_PAUSED) == ["b1"]
    assert await names(tenant, state=pb.SCHEDULE_STATE_ERROR) == []
    assert await names(tenant, labels={"x": "1"}) == ["a1", "a2"]
    assert await names(tenant, labels={"x": "1", "y": "2"}) == ["a1"]
    assert await names(tenant, type="u") == ["a1"]
    assert await names(tenant, queue="mail") == ["a2"]
    assert await names(tenant, id_prefix="a", type="t") == ["a2"]
    assert await names(tenant, id_prefix="%") == await names(tenant, id_prefix="_") == []
    assert await names(tenant, apply_set="set") == ["c1"]


async def test_lists_come_in_pages(tenant: Tenant) -> None:
    ids = sorted(f"{prefix}{index}" for prefix in ("A", "a", "b-", "b.") for index in range(3))
    await tenant.schedules.BatchCreateSchedules(batch(*map(wish, ids)))
    found: list[str] = []
    token = ""
    while True:
        request = pb.ListSchedulesRequest(page_size=5, page_token=token, type="t")
        answer = await tenant.schedules.ListSchedules(request)
        found += [schedule.name.removeprefix("schedules/") for schedule in answer.schedules]
        token = answer.next_page_token
        if not token:
            break
        other = pb.ListSchedulesRequest(page_size=5, page_token=token)
        check_invalid(await refusal(tenant.schedules.ListSchedules(other)), "page_token", reason="PAGE_TOKEN_INVALID")
    assert found == ids


async def test_filters_that_are_refused(tenant: Tenant) -> None:
    request = pb.ListSchedulesRequest(type="t" * 129, id_prefix=NUL, labels=text_map(33))
    check_invalid(await refusal(tenant.schedules.ListSchedules(request)), "type", "id_prefix", "labels")
    unknown = pb.ListSchedulesRequest(state=9)  # type: ignore[arg-type]
    check_invalid(await refusal(tenant.schedules.ListSchedules(unknown)), "state")
    check_invalid(await refusal(tenant.schedules.ListSchedules(pb.ListSchedulesRequest(page_size=-1))), "page_size")
