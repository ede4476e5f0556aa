"""Schedules of tests: requests in few words, and what became of them."""

from typing import Any

from google.protobuf.field_mask_pb2 import FieldMask
from rota_sdk.gen.rota.v1 import jobs_pb2
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

from .running import Tenant

RARELY = "0 0 1 1 *"
"""A rule that fires in no test that is over before the year is."""

RULES = {"once", "cron", "interval", "rrule"}


def wish(
    id: str = "", *, request_id: str = "", paused: bool = False, job: pb.JobTemplate | None = None, **fields: Any
) -> pb.CreateScheduleRequest:
    """A schedule to create, from the fields of Schedule; with a rule and a job unless they are given."""
    if not RULES & fields.keys():
        fields["cron"] = pb.CronRule(expression=RARELY)
    schedule = pb.Schedule(job=job or pb.JobTemplate(type="t"), **fields)
    return pb.CreateScheduleRequest(schedule=schedule, schedule_id=id, request_id=request_id, paused=paused)


def cron(expression: str) -> pb.CronRule:
    return pb.CronRule(expression=expression)


def day(id: str, *dates: str, **fields: Any) -> pb.CreateCalendarRequest:
    """A calendar to create."""
    request_id = fields.pop("request_id", "")
    return pb.CreateCalendarRequest(calendar=pb.Calendar(dates=dates, **fields), calendar_id=id, request_id=request_id)


async def create(tenant: Tenant, id: str = "", **fields: Any) -> pb.Schedule:
    return (await tenant.schedules.CreateSchedule(wish(id, **fields))).schedule


async def get(tenant: Tenant, name: str) -> pb.Schedule:
    return (await tenant.schedules.GetSchedule(pb.GetScheduleRequest(name=name))).schedule


async def update(tenant: Tenant, name: str, *paths: str, request_id: str = "", **fields: Any) -> pb.Schedule:
    request = pb.UpdateScheduleRequest(
        schedule=pb.Schedule(name=name, **fields), update_mask=FieldMask(paths=paths), request_id=request_id
    )
    return (await tenant.schedules.UpdateSchedule(request)).schedule


async def pause(tenant: Tenant, name: str, **fields: Any) -> pb.Schedule:
    return (await tenant.schedules.PauseSchedule(pb.PauseScheduleRequest(name=name, **fields))).schedule


async def resume(tenant: Tenant, name: str, **fields: Any) -> pb.Schedule:
    return (await tenant.schedules.ResumeSchedule(pb.ResumeScheduleRequest(name=name, **fields))).schedule


async def delete(tenant: Tenant, name: str, **fields: Any) -> pb.DeleteScheduleResponse:
    found: pb.DeleteScheduleResponse = await tenant.schedules.DeleteSchedule(
        pb.DeleteScheduleRequest(name=name, **fields)
    )
    return found


async def trigger(tenant: Tenant, name: str, **fields: Any) -> pb.TriggerScheduleResponse:
    found: pb.TriggerScheduleResponse = await tenant.schedules.TriggerSchedule(
        pb.TriggerScheduleRequest(name=name, **fields)
    )
    return found


async def occurrences(tenant: Tenant, name: str, **fields: Any) -> list[pb.Occurrence]:
    request = pb.ListOccurrencesRequest(parent=name, **fields)
    return list((await tenant.schedules.ListOccurrences(request)).occurrences)


async def preview(tenant: Tenant, **fields: Any) -> pb.PreviewScheduleResponse:
    found: pb.PreviewScheduleResponse = await tenant.schedules.PreviewSchedule(pb.PreviewScheduleRequest(**fields))
    return found


async def jobs_of(tenant: Tenant, schedule: str) -> list[jobs_pb2.Job]:
    """The jobs of a schedule, newest first."""
    listed = (await tenant.jobs.ListJobs(jobs_pb2.ListJobsRequest(page_size=1000))).jobs
    return [job for job in listed if job.schedule == schedule]


def lasting(schedule: pb.Schedule) -> pb.Schedule:
    """Without the instants of its changes, which an answer and the row may take at different ends of a transaction."""
    found = pb.Schedule()
    found.CopyFrom(schedule)
    found.ClearField("update_time")
    found.ClearField("state_time")
    return found


def state(schedule: pb.Schedule) -> str:
    return pb.ScheduleState.Name(schedule.state).removeprefix("SCHEDULE_STATE_")


def fate(occurrence: pb.Occurrence) -> str:
    return pb.OccurrenceFate.Name(occurrence.fate).removeprefix("OCCURRENCE_FATE_")
