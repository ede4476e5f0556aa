"""Changing schedules: edits, versions, pause and resume, deletion, triggers."""

import asyncio
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from rota_sdk.gen.rota.v1 import common_pb2, jobs_pb2
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

from rota.domain.model import Role

from .running import Tenant, refusal, span, state_name
from .scheduling import (
    RARELY,
    create,
    cron,
    delete,
    fate,
    get,
    jobs_of,
    lasting,
    occurrences,
    pause,
    resume,
    state,
    trigger,
    update,
    wish,
)
from .test_validation import NUL, check_invalid

pytestmark = pytest.mark.asyncio(loop_scope="session")

MISSING = "schedules/missing"


def check_stale(found: Any) -> None:
    assert found.case == ("ABORTED", "ETAG_MISMATCH"), found


async def test_an_edit_takes_the_fields_of_its_mask(tenant: Tenant) -> None:
    made = await create(tenant, notes="old", labels={"a": "1"}, time_zone="Europe/Berlin")
    found = await update(tenant, made.name, "labels", "job.queue", labels={"b": "2"}, notes="ignored")
    assert (found.notes, dict(found.labels), found.job.queue) == ("old", {"b": "2"}, "default")
    assert found.version == 2 and found.etag != made.etag
    assert (found.uid, found.create_time) == (made.uid, made.create_time)
    assert found.update_time.ToNanoseconds() > made.update_time.ToNanoseconds()
    found = await update(tenant, made.name, notes="new", job=pb.JobTemplate(payload=common_pb2.Payload(data=b"x")))
    assert (found.notes, found.job.type, found.job.payload.data) == ("new", "t", b"x")
    assert found.time_zone == "Europe/Berlin" and found.version == 3
    assert lasting(await get(tenant, made.name)) == lasting(found)


async def test_an_edit_may_bring_another_kind_of_rule(tenant: Tenant) -> None:
    made = await create(tenant)
    found = await update(tenant, made.name, "interval.every", interval=pb.IntervalRule(every=span(86_400)))
    assert found.WhichOneof("rule") == "interval"
    assert found.interval.anchor_time.seconds == made.create_time.seconds
    assert found.next_nominal_time.seconds == made.create_time.seconds + 86_400
    longer = await update(tenant, made.name, interval=pb.IntervalRule(every=span(172_800)))
    assert longer.interval.anchor_time == found.interval.anchor_time, "an edit of every never moves the anchor"
    assert longer.next_nominal_time.seconds == made.create_time.seconds + 172_800
    moved = await update(
        tenant,
        made.name,
        "interval.anchor_time",
        interval=pb.IntervalRule(anchor_time=Timestamp(seconds=3_000_000_000)),
    )
    assert (moved.interval.every.seconds, moved.interval.anchor_time.seconds) == (172_800, 3_000_000_000)
    reset = await update(tenant, made.name, "interval.anchor_time")
    assert reset.interval.anchor_time == found.interval.anchor_time


async def test_what_was_read_may_be_changed_and_sent_back(tenant: Tenant) -> None:
    made = await create(tenant, overlap_policy=pb.OverlapPolicy(mode=pb.OVERLAP_MODE_BUFFER_ALL))
    assert made.overlap_policy.limit == 100
    made.notes = "changed"
    answer = await tenant.schedules.UpdateSchedule(pb.UpdateScheduleRequest(schedule=made))
    assert (answer.schedule.notes, answer.schedule.version) == ("changed", 2)
    stale = await refusal(tenant.schedules.UpdateSchedule(pb.UpdateScheduleRequest(schedule=made)))
    check_stale(stale)
    star = pb.UpdateScheduleRequest(schedule=answer.schedule)
    star.update_mask.paths.append("*")
    star.schedule.ClearField("notes")
    found = (await tenant.schedules.UpdateSchedule(star)).schedule
    assert (found.notes, found.cron.expression, found.job.type) == ("", RARELY, "t")


async def test_edits_that_are_refused(tenant: Tenant) -> None:
    made = await create(tenant)

    async def refused(*paths: str, **fields: Any) -> tuple[str, ...]:
        found = await refusal(update(tenant, made.name, *paths, **fields))
        assert found.case == ("INVALID_ARGUMENT", "VALIDATION_FAILED"), found
        return found.fields

    assert await refused("nots") == ("update_mask",)
    assert await refused("state", state=pb.SCHEDULE_STATE_PAUSED) == ("update_mask",)
    assert await refused("labels.team") == ("update_mask",)
    assert await refused("cron") == ("schedule.rule",)
    assert await refused("interval.anchor_time") == ("schedule.interval.every",)
    assert await refused("job.type") == ("schedule.job.type",)
    assert await refused(cron=cron("x")) == ("schedule.cron.expression",)
    assert await refused(time_zone="CEST") == ("schedule.time_zone",)
    assert await refused("exclusions", exclusions=pb.Exclusions(calendars=["c"])) == ("schedule.exclusions.calendars",)
    assert await refused(request_id="r" * 129) == ("request_id",)
    assert (await refusal(update(tenant, "", notes="n"))).fields == ("schedule.name",)
    assert (await refusal(update(tenant, MISSING, notes="n"))).case == ("NOT_FOUND", "RESOURCE_NOT_FOUND")
    assert await get(tenant, made.name) == made, "nothing of it was done"


async def test_a_repeated_edit_is_made_once(tenant: Tenant) -> None:
    made = await create(tenant)
    first = await update(tenant, made.name, notes="a", etag=made.etag, request_id="r")
    again = await update(tenant, made.name, notes="a", etag=made.etag, request_id="r")
    assert lasting(again) == lasting(first)
    found = await refusal(update(tenant, made.name, notes="b", request_id="r"))
    assert found.case == ("ALREADY_EXISTS", "REQUEST_ID_REUSED")


async def test_only_the_version_of_the_etag_is_changed(tenant: Tenant) -> None:
    made = await create(tenant, "e")
    found = await update(tenant, made.name, notes="1", etag=made.etag)
    for stale in (made.etag, "v1", "nonsense", "*"):
        check_stale(await refusal(update(tenant, made.name, notes="2", etag=stale)))
        check_stale(await refusal(pause(tenant, made.name, etag=stale)))
        check_stale(await refusal(resume(tenant, made.name, etag=stale)))
        check_stale(await refusal(delete(tenant, made.name, etag=stale)))
    paused = await pause(tenant, made.name, etag=found.etag)
    resumed = await resume(tenant, made.name, etag=paused.etag)
    await delete(tenant, made.name, etag=resumed.etag)
    assert (await refusal(update(tenant, made.name, notes="3", etag=resumed.etag))).code.name == "NOT_FOUND"
    again = await create(tenant, "e")
    assert again.version == made.version
    check_stale(await refusal(update(tenant, made.name, notes="2", etag=made.etag)))
    check_stale(await refusal(delete(tenant, made.name, etag=made.etag, allow_missing=True)))


async def test_of_edits_with_one_etag_one_is_made(tenant: Tenant) -> None:
    made = await create(tenant)
    answers = await asyncio.gather(
        *(update(tenant, made.name, notes=str(index), etag=made.etag) for index in range(8)), return_exceptions=True
    )
    assert sum(isinstance(answer, pb.Schedule) for answer in answers) == 1
    assert (await get(tenant, made.name)).version == 2


async def test_pause_and_resume(tenant: Tenant) -> None:
    made = await create(tenant)
    paused = await pause(tenant, made.name, reason="a release")
    assert (state(paused), paused.state_reason, paused.version) == ("PAUSED", "a release", 2)
    assert paused.state_author.startswith("apiKeys/") and paused.HasField("state_time")
    assert not paused.HasField("next_nominal_time")
    again = await pause(tenant, made.name)
    assert state(again) == "PAUSED"
    resumed = await resume(tenant, made.name, reason="released")
    assert (state(resumed), resumed.next_nominal_time) == ("ACTIVE", made.next_nominal_time)
    assert resumed.version > paused.version
    assert lasting(await resume(tenant, made.name)) == lasting(resumed), "an active one stays as it is"
    assert lasting(await get(tenant, made.name)) == lasting(resumed)


async def test_pauses_that_are_refused(tenant: Tenant) -> None:
    made = await create(tenant)
    for call in (pause, resume):
        check_invalid(await refusal(call(tenant, made.name, reason="r" * 1025)), "reason")
        check_invalid(await refusal(call(tenant, made.name, reason=NUL)), "reason")
        assert (await refusal(call(tenant, MISSING))).case == ("NOT_FOUND", "RESOURCE_NOT_FOUND")
    await pause(tenant, made.name)
    wrong = pb.MissedRunPolicy(mode=9)  # type: ignore[arg-type]
    check_invalid(await refusal(resume(tenant, made.name, catch_up=wrong)), "catch_up.mode")
    many = pb.MissedRunPolicy(mode=pb.MISSED_RUN_MODE_CATCH_UP, catch_up_max=10_001)
    check_invalid(await refusal(resume(tenant, made.name, catch_up=many)), "catch_up.catch_up_max")
    assert state(await get(tenant, made.name)) == "PAUSED"


async def test_deleted_is_gone_and_its_name_is_free(tenant: Tenant) -> None:
    made = await create(tenant, "d")
    assert await delete(tenant, made.name) == pb.DeleteScheduleResponse()
    assert (await refusal(get(tenant, made.name))).case == ("NOT_FOUND", "RESOURCE_NOT_FOUND")
    assert (await refusal(delete(tenant, made.name))).case == ("NOT_FOUND", "RESOURCE_NOT_FOUND")
    assert await delete(tenant, made.name, allow_missing=True) == pb.DeleteScheduleResponse()
    assert await delete(tenant, made.name, allow_missing=True, etag=made.etag) == pb.DeleteScheduleResponse()
    again = await create(tenant, "d")
    assert again.uid != made.uid and again.version == 1


async def test_deletion_goes_with_the_jobs_that_have_not_started(tenant: Tenant) -> None:
    made = await create(tenant, job=pb.JobTemplate(type="t", queue="del"))
    started = (await trigger(tenant, made.name)).job
    lease = await (await tenant.worker(["del"])).one()
    assert lease.job == started.name
    waiting = (await trigger(tenant, made.name)).job
    mode = jobs_pb2.CANCEL_MODE_FENCE_OUT
    check_invalid(await refusal(delete(tenant, made.name, cancel_mode=mode)), "cancel_mode")
    gone = await delete(tenant, made.name, cancel_jobs=True, cancel_mode=mode)
    assert (gone.withdrawn_jobs, gone.cancelled_jobs) == (1, 1)
    assert await tenant.state(started) == "CANCELLED"
    assert (await refusal(tenant.get(waiting))).case == ("NOT_FOUND", "RESOURCE_NOT_FOUND")


async def test_a_trigger_makes_a_job_at_once(tenant: Tenant) -> None:
    template = pb.JobTemplate(type="t", queue="trig", priority=7, labels={"a": "1"}, headers={"h": "2"})
    made = await create(tenant, "now", job=template)
    answer = await trigger(tenant, made.name, reason="to see", payload=common_pb2.Payload(data=b"{}"))
    occurrence, job = answer.occurrence, answer.job
    assert (fate(occurrence), occurrence.reason) == ("FIRED", "to see")
    assert occurrence.origin == pb.OCCURRENCE_ORIGIN_TRIGGER
    assert occurrence.name.startswith("schedules/now/occurrences/2")
    assert (occurrence.job, occurrence.schedule_version) == (job.name, 1)
    assert (job.type, job.queue, job.priority, job.payload.data) == ("t", "trig", 7, b"{}")
    assert dict(job.labels) == {"a": "1"} and job.headers["h"] == "2"
    assert (job.schedule, job.nominal_time) == (made.name, occurrence.nominal_time)
    assert state_name(job.state) == "READY"
    assert await occurrences(tenant, made.name) == [occurrence]
    lease = await (await tenant.worker(["trig"])).one()
    assert (lease.job, lease.nominal_time) == (job.name, occurrence.nominal_time)
    after = await get(tenant, made.name)
    assert after.last_job == job.name
    assert (after.version, after.next_nominal_time) == (1, made.next_nominal_time)
    assert not after.fate_counts, "a trigger is none of the rule's"


async def test_a_trigger_needs_no_active_schedule(tenant: Tenant) -> None:
    made = await create(tenant, paused=True)
    assert fate((await trigger(tenant, made.name)).occurrence) == "FIRED"
    assert state(await get(tenant, made.name)) == "PAUSED"


async def test_a_repeated_trigger_fires_once(tenant: Tenant) -> None:
    made = await create(tenant)
    first = await trigger(tenant, made.name, request_id="r")
    again = await trigger(tenant, made.name, request_id="r")
    assert (again.occurrence, again.job.name) == (first.occurrence, first.job.name)
    assert len(await jobs_of(tenant, made.name)) == 1
    found = await refusal(trigger(tenant, made.name, request_id="r", reason="other"))
    assert found.case == ("ALREADY_EXISTS", "REQUEST_ID_REUSED")
    another = await trigger(tenant, made.name)
    assert another.occurrence.name != first.occurrence.name


async def test_a_trigger_keeps_to_the_overlap_policy_unless_forced(tenant: Tenant) -> None:
    made = await create(tenant, overlap_policy=pb.OverlapPolicy(mode=pb.OVERLAP_MODE_SKIP))
    first = await trigger(tenant, made.name)
    found = await refusal(trigger(tenant, made.name))
    assert found.case == ("FAILED_PRECONDITION", "INVALID_STATE")
    forced = await trigger(tenant, made.name, force=True)
    assert forced.job.name != first.job.name and forced.occurrence.forced
    assert not first.occurrence.forced


async def test_a_trigger_may_have_to_wait(tenant: Tenant) -> None:
    made = await create(tenant, overlap_policy=pb.OverlapPolicy(mode=pb.OVERLAP_MODE_BUFFER_ALL))
    await trigger(tenant, made.name)
    answer = await trigger(tenant, made.name)
    assert fate(answer.occurrence) == "BUFFERED" and not answer.HasField("job")
    assert answer.occurrence.job == ""


async def test_triggers_that_are_refused(tenant: Tenant) -> None:
    made = await create(tenant)
    long = {"reason": "r" * 1025, "request_id": "r" * 129}
    check_invalid(await refusal(trigger(tenant, made.name, **long)), "reason", "request_id")
    large = common_pb2.Payload(data=b"x" * (256 * 1024 + 1))
    check_invalid(await refusal(trigger(tenant, made.name, payload=large)), "payload.data", reason="PAYLOAD_TOO_LARGE")
    typed = common_pb2.Payload(content_type="x" * 129)
    check_invalid(await refusal(trigger(tenant, made.name, payload=typed)), "payload.content_type")
    check_invalid(await refusal(trigger(tenant, "")), "name")
    assert (await refusal(trigger(tenant, MISSING))).case == ("NOT_FOUND", "RESOURCE_NOT_FOUND")
    worker = await tenant.caller(Role.WORKER)
    call = worker.schedules.TriggerSchedule(pb.TriggerScheduleRequest(name=made.name))
    assert (await refusal(call)).code.name == "PERMISSION_DENIED"
    assert await occurrences(tenant, made.name) == []


async def test_an_edit_acts_from_the_next_job_on(tenant: Tenant) -> None:
    made = await create(tenant, job=pb.JobTemplate(type="t", queue="before"))
    first = (await trigger(tenant, made.name)).job
    await update(tenant, made.name, job=pb.JobTemplate(queue="after"))
    second = await trigger(tenant, made.name)
    assert (first.queue, second.job.queue, second.occurrence.schedule_version) == ("before", "after", 2)


async def test_a_repeated_creation_of_what_was_deleted_is_no_new_one(tenant: Tenant) -> None:
    request = wish("x", request_id="r")
    await tenant.schedules.CreateSchedule(request)
    await delete(tenant, "schedules/x")
    again = await refusal(tenant.schedules.CreateSchedule(request))
    assert again.case == ("ALREADY_EXISTS", "REQUEST_ID_REUSED") and "deleted since" in again.message
