"""A coordinator that keeps schedules and calendars in dicts, behind real gRPC."""

from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb
from rota_sdk.gen.rota.v1 import schedules_pb2_grpc

from rota.cli.errors import Exit
from tests.cli.script import Coordinator, in_, job


def schedule(id: str = "nightly", **values: Any) -> pb.Schedule:
    """A stored schedule; the given fields over usual ones."""
    made = pb.Schedule(
        name=f"schedules/{id}",
        time_zone="Europe/Berlin",
        job={"type": "greet", "queue": "default", "priority": 4},
        etag="e1",
        uid="6f0c",
        version=1,
        state=pb.SCHEDULE_STATE_ACTIVE,
        state_time=in_(0),
        create_time=in_(0),
        update_time=in_(0),
        next_nominal_time=in_(3600),
        next_due_time=in_(3600),
    )
    if not {"cron", "interval", "rrule", "once"} & values.keys():
        made.cron.expression = "30 2 * * *"
    made.MergeFrom(pb.Schedule(**values))
    return made


def fields(ran: Any) -> dict[str, str]:
    """What stands beside each name, lines of one field joined by |."""
    assert ran.code == Exit.OK, ran.err
    lines = ran.out.splitlines()
    column = max(len(line) - len(line[len(line.split("  ")[0]) :].lstrip()) for line in lines[:1])
    found: dict[str, str] = {}
    last = ""
    for line in lines:
        name = line[:column].strip()
        if name:
            found[last := name] = line[column:]
        else:
            found[last] += "|" + line[column:]
    return found


@dataclass
class Scheduler(Coordinator, schedules_pb2_grpc.ScheduleServiceServicer, schedules_pb2_grpc.CalendarServiceServicer):
    """Keeps what it is sent; `backfills` and `occurrences` are scripts, of which the first backfill answers next."""

    schedules: dict[str, pb.Schedule] = field(default_factory=dict)
    calendars: dict[str, pb.Calendar] = field(default_factory=dict)
    backfills: list[pb.Backfill] = field(default_factory=list)
    occurrences: list[pb.Occurrence] = field(default_factory=list)
    triggered: pb.TriggerScheduleResponse | None = None
    previews: bool = True

    def put(self, *given: pb.Schedule) -> None:
        self.schedules |= {one.name: one for one in given}

    @property
    def sent(self) -> Any:
        """The one request that changes something; reads and previews beside it are passed over."""
        reads = (pb.GetScheduleRequest, pb.GetCalendarRequest, pb.PreviewScheduleRequest)
        found = [request for request in self.requests if not isinstance(request, reads)]
        assert len(found) == 1, found
        return found[0]

    def refuse_fields(self, **violations: str) -> None:
        """Makes every call fail for these fields; `__` stands for a dot."""
        told = {name.replace("__", "."): why for name, why in violations.items()}
        message = "; ".join(f"{name}: {why}" for name, why in told.items())
        self.refuse(grpc.StatusCode.INVALID_ARGUMENT, "VALIDATION_FAILED", message)
        assert self.refusal is not None
        fields = [{"field": name, "description": why} for name, why in told.items()]
        self.refusal.details.add().Pack(error_details_pb2.BadRequest(field_violations=fields))

    def _stored(self, kept: dict[str, Any], name: str, context: grpc.ServicerContext) -> Any:
        if name not in kept:
            self.refuse(grpc.StatusCode.NOT_FOUND, "RESOURCE_NOT_FOUND", f"there is no {name}")
            self._took(None, context)
        return kept[name]

    def CreateSchedule(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        made = schedule(request.schedule_id)
        made.ClearField("cron")
        made.MergeFrom(request.schedule)
        if request.paused:
            made.state = pb.SCHEDULE_STATE_PAUSED
        self.put(made)
        return pb.CreateScheduleResponse(schedule=made)

    def GetSchedule(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        return pb.GetScheduleResponse(schedule=self._stored(self.schedules, request.name, context))

    def ListSchedules(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        found, token = _page(request, list(self.schedules.values()))
        return pb.ListSchedulesResponse(schedules=found, next_page_token=token)

    def UpdateSchedule(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        stored = self._stored(self.schedules, request.schedule.name, context)
        for path in request.update_mask.paths:
            _take(path.split("."), request.schedule, stored)
        stored.version += 1
        return pb.UpdateScheduleResponse(schedule=stored)

    def DeleteSchedule(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        if not request.allow_missing:
            self._stored(self.schedules, request.name, context)
        self.schedules.pop(request.name, None)
        return pb.DeleteScheduleResponse(withdrawn_jobs=2, cancelled_jobs=int(request.cancel_jobs))

    def PauseSchedule(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        stored = self._stored(self.schedules, request.name, context)
        stored.MergeFrom(pb.Schedule(state=pb.SCHEDULE_STATE_PAUSED, state_reason=request.reason, version=2))
        return pb.PauseScheduleResponse(schedule=stored)

    def ResumeSchedule(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        stored = self._stored(self.schedules, request.name, context)
        stored.MergeFrom(pb.Schedule(state=pb.SCHEDULE_STATE_ACTIVE, state_reason=request.reason, version=3))
        return pb.ResumeScheduleResponse(schedule=stored)

    def TriggerSchedule(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        fired = {"fate": pb.OCCURRENCE_FATE_FIRED, "forced": request.force}
        return self.triggered or pb.TriggerScheduleResponse(job=job(schedule=request.name), occurrence=fired)

    def BackfillSchedule(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        made = pb.Backfill(total_count=30)
        made.MergeFrom(request.backfill)
        if not request.validate_only:
            made.name, made.state = f"{request.name}/backfills/b1", pb.BACKFILL_STATE_RUNNING
        return pb.BackfillScheduleResponse(backfill=made)

    def GetBackfill(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        return pb.GetBackfillResponse(backfill=self.backfills.pop(0))

    def ListBackfills(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        found, token = _page(request, self.backfills)
        return pb.ListBackfillsResponse(backfills=found, next_page_token=token)

    def CancelBackfill(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        return pb.CancelBackfillResponse(backfill={"name": request.name, "state": pb.BACKFILL_STATE_CANCELLED})

    def PreviewSchedule(self, request: Any, context: Any) -> Any:
        """Hours after T0, the second of them removed."""
        self._took(request, context)
        if not self.previews:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "not yet")
        times = [
            pb.PreviewedOccurrence(nominal_time=in_(3600 * n), removed=n == 2) for n in range(1, request.count + 2)
        ]
        return pb.PreviewScheduleResponse(occurrences=times)

    def ListOccurrences(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        found, token = _page(request, self.occurrences)
        return pb.ListOccurrencesResponse(occurrences=found, next_page_token=token)

    def CreateCalendar(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        made = pb.Calendar(etag="c1", uid="77aa", create_time=in_(0))
        made.MergeFrom(request.calendar)
        made.name = f"calendars/{request.calendar_id}"
        self.calendars[made.name] = made
        return pb.CreateCalendarResponse(calendar=made)

    def GetCalendar(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        return pb.GetCalendarResponse(calendar=self._stored(self.calendars, request.name, context))

    def ListCalendars(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        found, token = _page(request, list(self.calendars.values()))
        return pb.ListCalendarsResponse(calendars=found, next_page_token=token)

    def UpdateCalendar(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        stored = self._stored(self.calendars, request.calendar.name, context)
        for path in request.update_mask.paths:
            _take([path], request.calendar, stored)
        return pb.UpdateCalendarResponse(calendar=stored)

    def DeleteCalendar(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        if not request.allow_missing:
            self._stored(self.calendars, request.name, context)
        self.calendars.pop(request.name, None)
        return pb.DeleteCalendarResponse()


def _page(request: Any, found: list[Any]) -> tuple[list[Any], str]:
    start = int(request.page_token or 0)
    end = min(start + (request.page_size or 50), len(found))
    return found[start:end], str(end) if end < len(found) else ""


def _take(path: list[str], source: Message, target: Message) -> None:
    """Makes one field of the target as it is in the source, unset ones too."""
    name, *rest = path
    if rest:
        _take(rest, getattr(source, name), getattr(target, name))
        return
    one = type(source)()
    one.CopyFrom(source)
    for other, _ in source.ListFields():
        if other.name != name:
            one.ClearField(other.name)
    target.ClearField(name)
    target.MergeFrom(one)
