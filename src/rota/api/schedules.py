"""ScheduleService: decode, call, encode."""

from collections.abc import Sequence

from rota_sdk.gen.rota.v1 import jobs_pb2, schedules_pb2_grpc
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

from rota.api import calls, codec, masks, pages, schedulecodec
from rota.api import schedulenames as names
from rota.api.rpc import Context, unary
from rota.coordinator.node import Node
from rota.domain import limits
from rota.domain.errors import InvalidArgument
from rota.domain.ids import JobId
from rota.domain.model import CancelMode, Identity, Role
from rota.domain.schedule import ID, ID_WORDS, Calendar, Fate, ScheduleState
from rota.domain.text import Problems
from rota.service.drafts import Draft
from rota.service.identity import Keys
from rota.store.scheduleport import OccurrenceFilter, ScheduleFilter

_CREATE = 11
_BATCH_CREATE = 12
_APPLY = 13
_UPDATE = 14
_TRIGGER = 15
_BACKFILL = 16


class ScheduleServicer(schedules_pb2_grpc.ScheduleServiceServicer):
    def __init__(self, node: Node, keys: Keys) -> None:
        self.keys = keys
        self.calls = node.pressure.calls
        self._node = node
        self._schedules = node.schedules
        self._backfills = node.backfills

    @unary(Role.CLIENT)
    async def CreateSchedule(
        self, request: pb.CreateScheduleRequest, identity: Identity, context: Context
    ) -> pb.CreateScheduleResponse:
        self._admit(identity)
        problems = Problems()
        draft = self._draft(problems, "", request, calls.traceparent(context))
        key = calls.request_key(problems, _CREATE, request)
        problems.raise_any()
        (made,) = await self._schedules.create(identity, [draft], key)
        return pb.CreateScheduleResponse(schedule=schedulecodec.schedule_message(made))

    @unary(Role.CLIENT)
    async def BatchCreateSchedules(
        self, request: pb.BatchCreateSchedulesRequest, identity: Identity, context: Context
    ) -> pb.BatchCreateSchedulesResponse:
        count = len(request.requests)
        if not 1 <= count <= limits.SCHEDULE_BATCH_MAX:
            most = limits.SCHEDULE_BATCH_MAX
            raise InvalidArgument.field(
                "requests", f"must have 1 to {most} entries, found {count}; split it into calls"
            )
        self._admit(identity)
        problems = Problems()
        drafts = self._drafts(problems, "requests", request.requests, context)
        key = calls.request_key(problems, _BATCH_CREATE, request)
        problems.raise_any()
        made = await self._schedules.create(identity, drafts, key)
        if request.names_only:
            named = [pb.Schedule(name=names.schedule_name(schedule.id)) for schedule in made]
            return pb.BatchCreateSchedulesResponse(schedules=named)
        return pb.BatchCreateSchedulesResponse(schedules=map(schedulecodec.schedule_message, made))

    @unary(Role.CLIENT)
    async def ApplySchedules(
        self, request: pb.ApplySchedulesRequest, identity: Identity, context: Context
    ) -> pb.ApplySchedulesResponse:
        problems = Problems()
        if not request.apply_set:
            problems.add("apply_set", "must be set: the name of what is managed together, for example of a file")
        problems.text("apply_set", request.apply_set, limits.APPLY_SET_BYTES_MAX)
        calls.check_count(problems, "schedules", request.schedules, limits.SCHEDULE_BATCH_MAX)
        calls.check_count(problems, "calendars", request.calendars, limits.APPLY_CALENDARS_MAX)
        problems.raise_any()
        if not request.validate_only:
            self._admit(identity)
        drafts = self._drafts(problems, "schedules", request.schedules, context, named=True)
        calendars = _calendars(problems, request.calendars)
        key = calls.request_key(problems, _APPLY, request, changes=not request.validate_only)
        problems.raise_any()
        changes = await self._schedules.apply(
            identity,
            request.apply_set,
            drafts,
            calendars,
            prune=request.prune,
            validate_only=request.validate_only,
            request=key,
            changed=schedulecodec.changed,
        )
        return pb.ApplySchedulesResponse(changes=map(schedulecodec.change_message, changes))

    @unary(Role.CLIENT)
    async def GetSchedule(
        self, request: pb.GetScheduleRequest, identity: Identity, context: Context
    ) -> pb.GetScheduleResponse:
        found = await self._schedules.get(identity, names.schedule_id("name", request.name))
        return pb.GetScheduleResponse(schedule=schedulecodec.schedule_message(found))

    @unary(Role.CLIENT)
    async def ListSchedules(
        self, request: pb.ListSchedulesRequest, identity: Identity, context: Context
    ) -> pb.ListSchedulesResponse:
        problems = Problems()
        for field in ("type", "queue", "id_prefix"):
            problems.text(field, getattr(request, field), limits.NAME_BYTES_MAX)
        problems.text("apply_set", request.apply_set, limits.APPLY_SET_BYTES_MAX)
        problems.text_map("labels", dict(request.labels), limits.LABELS_MAX, limits.LABELS_BYTES_MAX)
        state = codec.enum(ScheduleState, "state", request.state, None)
        problems.raise_any()
        size = pages.page_size(request.page_size)
        query = pages.query(request)
        after = pages.unseal_text(request.page_token, identity.tenant_id, query, ID)
        where = ScheduleFilter(
            state=state,
            labels=dict(request.labels),
            type=request.type,
            queue=request.queue,
            id_prefix=request.id_prefix,
            apply_set=request.apply_set or None,
        )
        found = await self._schedules.page(identity, where, after, size + 1)
        response = pb.ListSchedulesResponse(
            schedules=[schedulecodec.schedule_message(schedule, full=False) for schedule in found[:size]]
        )
        if len(found) > size:
            response.next_page_token = pages.seal(found[size - 1].id, identity.tenant_id, query)
        return response

    @unary(Role.CLIENT)
    async def UpdateSchedule(
        self, request: pb.UpdateScheduleRequest, identity: Identity, context: Context
    ) -> pb.UpdateScheduleResponse:
        problems = Problems()
        key = calls.request_key(problems, _UPDATE, request)
        problems.raise_any()
        given = request.schedule
        id = names.schedule_id("schedule.name", given.name)
        taken = masks.paths(given, request.update_mask)
        made = await self._schedules.update(
            identity,
            id,
            lambda stored: schedulecodec.edited(stored, given, taken, "schedule"),
            etag=given.etag,
            request=key,
        )
        return pb.UpdateScheduleResponse(schedule=schedulecodec.schedule_message(made))

    @unary(Role.CLIENT)
    async def DeleteSchedule(
        self, request: pb.DeleteScheduleRequest, identity: Identity, context: Context
    ) -> pb.DeleteScheduleResponse:
        id = names.schedule_id("name", request.name)
        cancel = codec.enum(CancelMode, "cancel_mode", request.cancel_mode, CancelMode.COOPERATIVE)
        if request.cancel_mode and not request.cancel_jobs:
            raise InvalidArgument.field("cancel_mode", "belongs to cancel_jobs; set that too, or leave this out")
        deleted = await self._schedules.delete(
            identity,
            id,
            etag=request.etag,
            cancel=cancel if request.cancel_jobs else None,
            allow_missing=request.allow_missing,
        )
        return pb.DeleteScheduleResponse(withdrawn_jobs=deleted.withdrawn, cancelled_jobs=deleted.cancelled)

    @unary(Role.CLIENT)
    async def PauseSchedule(
        self, request: pb.PauseScheduleRequest, identity: Identity, context: Context
    ) -> pb.PauseScheduleResponse:
        problems = Problems()
        id = names.schedule_id("name", request.name)
        problems.text("reason", request.reason, limits.REASON_BYTES_MAX)
        problems.raise_any()
        found = await self._schedules.pause(identity, id, request.reason, etag=request.etag)
        return pb.PauseScheduleResponse(schedule=schedulecodec.schedule_message(found))

    @unary(Role.CLIENT)
    async def ResumeSchedule(
        self, request: pb.ResumeScheduleRequest, identity: Identity, context: Context
    ) -> pb.ResumeScheduleResponse:
        problems = Problems()
        id = names.schedule_id("name", request.name)
        problems.text("reason", request.reason, limits.REASON_BYTES_MAX)
        catch_up = None
        if request.HasField("catch_up"):
            catch_up = schedulecodec.missed_policy("catch_up", request.catch_up)
            calls.check_missed(problems, "catch_up", catch_up)
        problems.raise_any()
        found = await self._schedules.resume(identity, id, request.reason, etag=request.etag, catch_up=catch_up)
        return pb.ResumeScheduleResponse(schedule=schedulecodec.schedule_message(found))

    @unary(Role.CLIENT)
    async def TriggerSchedule(
        self, request: pb.TriggerScheduleRequest, identity: Identity, context: Context
    ) -> pb.TriggerScheduleResponse:
        problems = Problems()
        id = names.schedule_id("name", request.name)
        problems.text("reason", request.reason, limits.REASON_BYTES_MAX)
        payload = None
        if request.HasField("payload"):
            payload = schedulecodec.payload(problems, "payload", request.payload)
        key = calls.request_key(problems, _TRIGGER, request)
        problems.raise_any()
        self._admit(identity)
        fired = await self._schedules.trigger(
            identity, id, force=request.force, payload=payload, reason=request.reason, request=key
        )
        response = pb.TriggerScheduleResponse(occurrence=schedulecodec.occurrence_message(id, fired.occurrence))
        if fired.job is not None:
            response.job.CopyFrom(await self._job(identity, fired.job))
        return response

    @unary(Role.CLIENT)
    async def BackfillSchedule(
        self, request: pb.BackfillScheduleRequest, identity: Identity, context: Context
    ) -> pb.BackfillScheduleResponse:
        problems = Problems()
        id = names.schedule_id("name", request.name)
        key = calls.request_key(problems, _BACKFILL, request, changes=not request.validate_only)
        wish = schedulecodec.backfill(problems, "backfill", request.backfill)
        if wish.overlap is not None:
            calls.check_overlap(problems, "backfill", wish.overlap)
        problems.raise_any()
        if not request.validate_only:
            # Jobs of the past can wait.
            self._admit(identity, 0)
        made = await self._backfills.start(identity, id, wish, request=key, validate_only=request.validate_only)
        message = schedulecodec.backfill_message(id, made, stored=not request.validate_only)
        return pb.BackfillScheduleResponse(backfill=message)

    @unary(Role.CLIENT)
    async def GetBackfill(
        self, request: pb.GetBackfillRequest, identity: Identity, context: Context
    ) -> pb.GetBackfillResponse:
        schedule, id = names.backfill_ids("name", request.name)
        found = await self._backfills.get(identity, schedule, id)
        return pb.GetBackfillResponse(backfill=schedulecodec.backfill_message(schedule, found))

    @unary(Role.CLIENT)
    async def ListBackfills(
        self, request: pb.ListBackfillsRequest, identity: Identity, context: Context
    ) -> pb.ListBackfillsResponse:
        schedule = names.schedule_id("parent", request.parent)
        size = pages.page_size(request.page_size)
        query = pages.query(request)
        before = pages.unseal_id(request.page_token, identity.tenant_id, query)
        found = await self._backfills.page(identity, schedule, before, size + 1)
        response = pb.ListBackfillsResponse(
            backfills=[schedulecodec.backfill_message(schedule, backfill) for backfill in found[:size]]
        )
        if len(found) > size:
            response.next_page_token = pages.seal(found[size - 1].id, identity.tenant_id, query)
        return response

    @unary(Role.CLIENT)
    async def CancelBackfill(
        self, request: pb.CancelBackfillRequest, identity: Identity, context: Context
    ) -> pb.CancelBackfillResponse:
        schedule, id = names.backfill_ids("name", request.name)
        found = await self._backfills.cancel(identity, schedule, id)
        return pb.CancelBackfillResponse(backfill=schedulecodec.backfill_message(schedule, found))

    @unary(Role.CLIENT)
    async def PreviewSchedule(
        self, request: pb.PreviewScheduleRequest, identity: Identity, context: Context
    ) -> pb.PreviewScheduleResponse:
        problems = Problems()
        source = request.WhichOneof("source")
        timing = None
        if source is None:
            problems.add("source", "must be the name of a schedule, or a schedule")
        elif source == "schedule":
            timing = schedulecodec.timing(problems, "schedule", request.schedule)
            problems.text("schedule.uid", request.schedule.uid, limits.NAME_BYTES_MAX)
        after = schedulecodec.instant(problems, "start_time", request, "start_time")
        count = request.count or limits.PREVIEW_COUNT_DEFAULT
        problems.integer("count", count, 1, limits.PREVIEW_COUNT_MAX)
        problems.raise_any()
        id = names.schedule_id("name", request.name) if source == "name" else None
        found = await self._schedules.preview(identity, id, timing, request.schedule.uid, after, count)
        return schedulecodec.preview_message(found.lines, exhausted=found.exhausted)

    @unary(Role.CLIENT)
    async def ListOccurrences(
        self, request: pb.ListOccurrencesRequest, identity: Identity, context: Context
    ) -> pb.ListOccurrencesResponse:
        problems = Problems()
        schedule = names.schedule_id("parent", request.parent)
        where = OccurrenceFilter(
            fate=codec.enum(Fate, "fate", request.fate, None),
            start=schedulecodec.instant(problems, "start_time", request, "start_time"),
            end=schedulecodec.instant(problems, "end_time", request, "end_time"),
        )
        problems.raise_any()
        size = pages.page_size(request.page_size)
        query = pages.query(request)
        before = pages.unseal_moment(request.page_token, identity.tenant_id, query)
        found = await self._schedules.occurrences(identity, schedule, where, before, size + 1)
        response = pb.ListOccurrencesResponse(
            occurrences=[schedulecodec.occurrence_message(schedule, occurrence) for occurrence in found[:size]]
        )
        if len(found) > size:
            last = found[size - 1]
            position = pages.moment(last.nominal, last.generation)
            response.next_page_token = pages.seal(position, identity.tenant_id, query)
        return response

    def _admit(self, identity: Identity, priority: int = limits.PRIORITY_DEFAULT) -> None:
        self._node.pressure.admit(identity.tenant_id, (priority,))

    def _drafts(
        self,
        problems: Problems,
        field: str,
        requests: Sequence[pb.CreateScheduleRequest],
        context: Context,
        *,
        named: bool = False,
    ) -> list[Draft]:
        parent = calls.traceparent(context)
        drafts = [
            self._draft(problems, f"{field}[{index}].", request, parent, named=named, alone=False)
            for index, request in enumerate(requests)
        ]
        calls.check_unique(problems, field, "schedule_id", [request.schedule_id for request in requests])
        return drafts

    def _draft(
        self,
        problems: Problems,
        at: str,
        request: pb.CreateScheduleRequest,
        parent: str,
        *,
        named: bool = False,
        alone: bool = True,
    ) -> Draft:
        """`at` is the path of the request. `named`: it must bring its id; `alone`: it may bring a request_id."""
        id = request.schedule_id
        if id or named:
            problems.pattern(f"{at}schedule_id", id, ID, ID_WORDS)
        if request.request_id and not alone:
            problems.add(f"{at}request_id", "must be empty; set that of the whole call")
        found = schedulecodec.definition(problems, f"{at}schedule", request.schedule)
        return Draft(id or self._node.clock.new_id(), found, request.paused, parent, f"{at}schedule")

    async def _job(self, identity: Identity, id: JobId) -> jobs_pb2.Job:
        """A job as it is now; its name alone where history has let go of it."""
        found = await self._node.jobs.get_many(identity.tenant_id, [id])
        if id not in found:
            return jobs_pb2.Job(name=codec.job_name(id))
        return codec.job_message(found[id], identity.tenant)


def _calendars(problems: Problems, requests: Sequence[pb.CreateCalendarRequest]) -> list[Calendar]:
    for index, request in enumerate(requests):
        problems.pattern(f"calendars[{index}].calendar_id", request.calendar_id, ID, ID_WORDS)
        if request.request_id:
            problems.add(f"calendars[{index}].request_id", "must be empty; set that of the whole call")
    calls.check_unique(problems, "calendars", "calendar_id", [request.calendar_id for request in requests])
    return [schedulecodec.calendar(request.calendar_id, request.calendar) for request in requests]
