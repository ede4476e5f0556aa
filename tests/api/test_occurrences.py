"""What became of occurrences: lists, previews, backfills."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

from .running import Tenant, eventually, refusal, span
from .scheduling import RARELY, create, cron, delete, fate, occurrences, preview, trigger, update
from .test_validation import NUL, check_invalid

pytestmark = pytest.mark.asyncio(loop_scope="session")

MISSING = "schedules/missing"
NOW = datetime.now(UTC).replace(microsecond=0)


def stamp(*at: int) -> Timestamp:
    found = Timestamp()
    found.FromDatetime(datetime(*at))  # type: ignore[arg-type]
    return found


def ago(seconds: float) -> Timestamp:
    """An instant so long before NOW."""
    found = Timestamp()
    found.FromDatetime(NOW - timedelta(seconds=seconds))
    return found


async def backfill(
    tenant: Tenant, name: str, *, request_id: str = "", validate_only: bool = False, **fields: Any
) -> Any:
    request = pb.BackfillScheduleRequest(
        name=name, backfill=pb.Backfill(**fields), request_id=request_id, validate_only=validate_only
    )
    return (await tenant.schedules.BackfillSchedule(request)).backfill


async def get_backfill(tenant: Tenant, name: str) -> pb.Backfill:
    found: pb.Backfill = (await tenant.schedules.GetBackfill(pb.GetBackfillRequest(name=name))).backfill
    return found


async def test_occurrences_come_newest_first_and_in_pages(tenant: Tenant) -> None:
    made = await create(tenant)
    fired = [(await trigger(tenant, made.name)).occurrence for _ in range(7)]
    newest_first = [occurrence.name for occurrence in reversed(fired)]
    assert [occurrence.name for occurrence in await occurrences(tenant, made.name)] == newest_first
    found: list[str] = []
    token = ""
    while True:
        request = pb.ListOccurrencesRequest(parent=made.name, page_size=3, page_token=token)
        answer = await tenant.schedules.ListOccurrences(request)
        found += [occurrence.name for occurrence in answer.occurrences]
        token = answer.next_page_token
        if not token:
            break
        other = pb.ListOccurrencesRequest(
            parent=made.name, page_size=3, page_token=token, fate=pb.OCCURRENCE_FATE_FIRED
        )
        check_invalid(await refusal(tenant.schedules.ListOccurrences(other)), "page_token", reason="PAGE_TOKEN_INVALID")
    assert found == newest_first


async def test_occurrences_are_filtered(tenant: Tenant) -> None:
    made = await create(tenant, overlap_policy=pb.OverlapPolicy(mode=pb.OVERLAP_MODE_BUFFER_ALL))
    first, second = [(await trigger(tenant, made.name)).occurrence for _ in range(2)]

    async def names(**fields: Any) -> list[str]:
        return [occurrence.name for occurrence in await occurrences(tenant, made.name, **fields)]

    assert await names(fate=pb.OCCURRENCE_FATE_FIRED) == [first.name]
    assert await names(fate=pb.OCCURRENCE_FATE_BUFFERED) == [second.name]
    assert await names(fate=pb.OCCURRENCE_FATE_EXCLUDED) == []
    assert await names(start_time=second.nominal_time) == [second.name]
    assert await names(end_time=second.nominal_time) == [first.name]
    assert await names(start_time=first.nominal_time, end_time=first.nominal_time) == []


async def test_lists_that_are_refused(tenant: Tenant) -> None:
    made = await create(tenant)
    assert await occurrences(tenant, made.name) == []
    found = await refusal(occurrences(tenant, made.name, fate=11))
    check_invalid(found, "fate")
    wrong = Timestamp(seconds=1 << 50)
    check_invalid(
        await refusal(occurrences(tenant, made.name, start_time=wrong, end_time=wrong)), "start_time", "end_time"
    )
    assert (await refusal(occurrences(tenant, MISSING))).case == ("NOT_FOUND", "RESOURCE_NOT_FOUND")


async def test_the_history_of_a_deleted_schedule_is_not_another_s(tenant: Tenant) -> None:
    made = await create(tenant, "d")
    await trigger(tenant, made.name)
    await delete(tenant, made.name)
    again = await create(tenant, "d")
    assert await occurrences(tenant, again.name) == []


async def test_the_rule_fires_on_time(tenant: Tenant) -> None:
    made = await create(tenant, interval=pb.IntervalRule(every=span(1)), max_count=2)
    found = await eventually(lambda: _ended(tenant, made.name))
    assert [fate(occurrence) for occurrence in found] == ["FIRED", "FIRED"]
    assert all(occurrence.origin == pb.OCCURRENCE_ORIGIN_RULE for occurrence in found)
    assert found[0].nominal_time.seconds == found[1].nominal_time.seconds + 1
    assert found[0].name == f"{made.name}/occurrences/{found[0].nominal_time.ToDatetime():%Y%m%dT%H%M%SZ}"
    job = await tenant.get(found[0].job)
    assert (job.schedule, job.nominal_time) == (made.name, found[0].nominal_time)
    assert job.effect_key == f"{tenant.name}/{made.uid}/{job.nominal_time.ToDatetime().isoformat()}Z/0"


async def _ended(tenant: Tenant, name: str) -> list[pb.Occurrence] | None:
    found = await occurrences(tenant, name, fate=pb.OCCURRENCE_FATE_FIRED)
    schedule = (await tenant.schedules.GetSchedule(pb.GetScheduleRequest(name=name))).schedule
    return found if schedule.state == pb.SCHEDULE_STATE_EXHAUSTED and len(found) == 2 else None


async def test_a_preview_tells_what_moves_an_occurrence(tenant: Tenant) -> None:
    shown = await preview(
        tenant,
        schedule=pb.Schedule(
            cron=cron("30 2 * * *"),
            time_zone="America/New_York",
            exclusions=pb.Exclusions(dates=["2026-03-09"]),
        ),
        start_time=stamp(2026, 3, 7, 12),
        count=2,
    )
    gap, excluded, plain = shown.occurrences
    assert (gap.nominal_time, gap.local_time) == (stamp(2026, 3, 8, 7), "2026-03-08T03:00:00-04:00")
    assert gap.reasons[0].cause == pb.PREVIEW_CAUSE_DST_GAP and gap.zone_abbreviation == "EDT"
    assert excluded.removed and not excluded.HasField("due_time")
    assert excluded.reasons[0].cause == pb.PREVIEW_CAUSE_EXCLUDED_DATE
    assert not plain.removed and not plain.reasons and plain.due_time == plain.nominal_time
    assert not shown.exhausted and shown.tzdata_version


async def test_a_preview_of_a_stored_schedule_follows_it(tenant: Tenant) -> None:
    made = await create(tenant, cron=cron("H H 1 * *"), jitter=pb.Jitter(span=span(600)))
    shown = await preview(tenant, name=made.name)
    assert len(shown.occurrences) == 10
    first = shown.occurrences[0]
    assert (first.nominal_time, first.due_time) == (made.next_nominal_time, made.next_due_time)
    again = await preview(tenant, schedule=made)
    assert again.occurrences == shown.occurrences, "by the uid, H and jitter are the same"
    await update(tenant, made.name, cron=cron(RARELY))
    assert (await preview(tenant, name=made.name)).occurrences != shown.occurrences


async def test_a_preview_comes_to_the_end_of_a_rule(tenant: Tenant) -> None:
    rule = pb.Schedule(interval=pb.IntervalRule(every=span(60), anchor_time=stamp(2026, 1, 1)))
    rule.end_time.CopyFrom(stamp(2026, 1, 1, 0, 2))
    shown = await preview(tenant, schedule=rule, start_time=stamp(2025, 1, 1), count=1000)
    assert [line.nominal_time for line in shown.occurrences] == [stamp(2026, 1, 1), stamp(2026, 1, 1, 0, 1)]
    assert shown.exhausted
    assert (await preview(tenant, schedule=rule, start_time=stamp(2026, 2, 1))).exhausted


async def test_previews_that_are_refused(tenant: Tenant) -> None:
    rule = pb.Schedule(cron=cron(RARELY))
    check_invalid(await refusal(preview(tenant)), "source")
    check_invalid(await refusal(preview(tenant, schedule=pb.Schedule())), "schedule.rule")
    check_invalid(
        await refusal(preview(tenant, schedule=pb.Schedule(cron=cron("@reboot")))), "schedule.cron.expression"
    )
    for count in (-1, 1001):
        check_invalid(await refusal(preview(tenant, schedule=rule, count=count)), "count")
    check_invalid(await refusal(preview(tenant, schedule=rule, start_time=Timestamp(nanos=-1))), "start_time")
    check_invalid(await refusal(preview(tenant, schedule=pb.Schedule(cron=cron(RARELY), uid=NUL))), "schedule.uid")
    assert (await refusal(preview(tenant, name=MISSING))).case == ("NOT_FOUND", "RESOURCE_NOT_FOUND")


async def test_a_backfill_fires_a_past_span(tenant: Tenant) -> None:
    made = await create(tenant, interval=pb.IntervalRule(every=span(3600), anchor_time=ago(86_400)))
    begun = await backfill(
        tenant, made.name, start_time=ago(4 * 3600), end_time=ago(3600), reason="late data", rate=1000.0
    )
    assert begun.name.startswith(f"{made.name}/backfills/")
    assert (begun.total_count, begun.reason, begun.rate, begun.priority) == (3, "late data", 1000.0, 0)
    assert begun.author.startswith("apiKeys/") and begun.HasField("create_time")

    async def ended() -> pb.Backfill | None:
        found = await get_backfill(tenant, begun.name)
        return found if found.state == pb.BACKFILL_STATE_SUCCEEDED else None

    done = await eventually(ended)
    assert (done.done_count, done.fired_count) == (3, 3)
    assert done.HasField("finish_time") and not done.HasField("next_nominal_time")
    found = await occurrences(tenant, made.name)
    assert [occurrence.backfill for occurrence in found] == [begun.name] * 3
    assert {occurrence.origin for occurrence in found} == {pb.OCCURRENCE_ORIGIN_BACKFILL}
    job = await tenant.get(found[0].job)
    assert (job.schedule, job.nominal_time, job.priority) == (made.name, found[0].nominal_time, 0)


async def test_a_backfill_may_only_be_counted(tenant: Tenant) -> None:
    made = await create(tenant, interval=pb.IntervalRule(every=span(3600), anchor_time=ago(86_400)))
    span_of = {"start_time": ago(4 * 3600), "end_time": ago(3600)}
    found = await backfill(tenant, made.name, validate_only=True, **span_of)
    assert (found.name, found.state, found.total_count) == ("", pb.BACKFILL_STATE_UNSPECIFIED, 3)
    assert await backfills(tenant, made.name) == []
    assert await occurrences(tenant, made.name) == []


async def backfills(tenant: Tenant, name: str, **fields: Any) -> list[str]:
    answer = await tenant.schedules.ListBackfills(pb.ListBackfillsRequest(parent=name, **fields))
    return [backfill.name for backfill in answer.backfills]


async def test_backfills_are_listed_cancelled_and_repeated(tenant: Tenant) -> None:
    made = await create(tenant, interval=pb.IntervalRule(every=span(60), anchor_time=ago(86_400)))
    slow = {"start_time": ago(7200), "end_time": ago(60), "rate": 0.001}
    names = [(await backfill(tenant, made.name, request_id=str(index), **slow)).name for index in range(4)]
    again = await backfill(tenant, made.name, request_id="0", **slow)
    assert again.name == names[0]
    assert await backfills(tenant, made.name) == names[::-1]
    first = await tenant.schedules.ListBackfills(pb.ListBackfillsRequest(parent=made.name, page_size=3))
    rest = await backfills(tenant, made.name, page_size=3, page_token=first.next_page_token)
    assert [found.name for found in first.backfills] + rest == names[::-1]
    fifth = await refusal(backfill(tenant, made.name, **slow))
    assert fifth.case == ("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED")
    request = pb.CancelBackfillRequest(name=names[1])
    cancelled = (await tenant.schedules.CancelBackfill(request)).backfill
    assert cancelled.state == pb.BACKFILL_STATE_CANCELLED and cancelled.HasField("finish_time")
    again = (await tenant.schedules.CancelBackfill(request)).backfill
    assert again == await get_backfill(tenant, names[1])
    assert again.state == pb.BACKFILL_STATE_CANCELLED
    for name in (names[0], names[2], names[3]):
        await tenant.schedules.CancelBackfill(pb.CancelBackfillRequest(name=name))


async def test_backfills_that_are_refused(tenant: Tenant) -> None:
    made = await create(tenant)
    bounds = {"start_time": ago(7200), "end_time": ago(60)}

    async def refused(**fields: Any) -> tuple[str, ...]:
        found = await refusal(backfill(tenant, made.name, **bounds | fields))
        assert found.code.name == "INVALID_ARGUMENT", found
        return found.fields

    assert await refused(start_time=None) == ("backfill.start_time",)
    assert await refused(start_time=bounds["end_time"], end_time=bounds["start_time"]) == ("backfill.end_time",)
    assert await refused(end_time=ago(-86_400)) == ("backfill.end_time",)
    assert await refused(rate=0.0) == ("backfill.rate",)
    assert await refused(rate=float("nan")) == ("backfill.rate",)
    assert await refused(priority=10) == ("backfill.priority",)
    assert await refused(reason="r" * 1025) == ("backfill.reason",)
    assert await refused(overlap_policy=pb.OverlapPolicy(mode=pb.OVERLAP_MODE_SKIP, limit=3)) == (
        "backfill.overlap_policy.limit",
    )
    assert (await refusal(backfill(tenant, MISSING, **bounds))).case == ("NOT_FOUND", "RESOURCE_NOT_FOUND")
    name = f"{made.name}/backfills/00000000-0000-7000-8000-000000000000"
    assert (await refusal(get_backfill(tenant, name))).case == ("NOT_FOUND", "RESOURCE_NOT_FOUND")
    check_invalid(await refusal(get_backfill(tenant, made.name)), "name")
