"""CalendarService: decode, call, encode."""

from rota_sdk.gen.rota.v1 import schedules_pb2 as pb
from rota_sdk.gen.rota.v1 import schedules_pb2_grpc

from rota.api import calls, masks, pages, schedulecodec
from rota.api import schedulenames as names
from rota.api.rpc import Context, unary
from rota.coordinator.node import Node
from rota.domain import limits
from rota.domain.model import Identity, Role
from rota.domain.schedule import ID, ID_WORDS
from rota.domain.text import Problems
from rota.service.identity import Keys

_CREATE = 17
_UPDATE = 18


class CalendarServicer(schedules_pb2_grpc.CalendarServiceServicer):
    def __init__(self, node: Node, keys: Keys) -> None:
        self.keys = keys
        self.calls = node.pressure.calls
        self._calendars = node.calendars

    @unary(Role.CLIENT)
    async def CreateCalendar(
        self, request: pb.CreateCalendarRequest, identity: Identity, context: Context
    ) -> pb.CreateCalendarResponse:
        problems = Problems()
        problems.pattern("calendar_id", request.calendar_id, ID, ID_WORDS)
        key = calls.request_key(problems, _CREATE, request)
        problems.raise_any()
        wish = schedulecodec.calendar(request.calendar_id, request.calendar)
        made = await self._calendars.create(identity, wish, key)
        return pb.CreateCalendarResponse(calendar=schedulecodec.calendar_message(made))

    @unary(Role.CLIENT)
    async def GetCalendar(
        self, request: pb.GetCalendarRequest, identity: Identity, context: Context
    ) -> pb.GetCalendarResponse:
        found = await self._calendars.get(identity, names.calendar_id("name", request.name))
        return pb.GetCalendarResponse(calendar=schedulecodec.calendar_message(found))

    @unary(Role.CLIENT)
    async def ListCalendars(
        self, request: pb.ListCalendarsRequest, identity: Identity, context: Context
    ) -> pb.ListCalendarsResponse:
        problems = Problems()
        labels = problems.text_map("labels", dict(request.labels), limits.LABELS_MAX, limits.LABELS_BYTES_MAX)
        problems.raise_any()
        size = pages.page_size(request.page_size)
        query = pages.query(request)
        after = pages.unseal_text(request.page_token, identity.tenant_id, query, ID)
        found = await self._calendars.page(identity, labels, after, size + 1)
        response = pb.ListCalendarsResponse(
            calendars=[schedulecodec.calendar_message(calendar, full=False) for calendar in found[:size]]
        )
        if len(found) > size:
            response.next_page_token = pages.seal(found[size - 1].id, identity.tenant_id, query)
        return response

    @unary(Role.CLIENT)
    async def UpdateCalendar(
        self, request: pb.UpdateCalendarRequest, identity: Identity, context: Context
    ) -> pb.UpdateCalendarResponse:
        problems = Problems()
        key = calls.request_key(problems, _UPDATE, request)
        problems.raise_any()
        given = request.calendar
        id = names.calendar_id("calendar.name", given.name)
        taken = masks.paths(given, request.update_mask)
        made = await self._calendars.update(
            identity,
            id,
            lambda stored: schedulecodec.edited_calendar(stored, given, taken),
            etag=given.etag,
            request=key,
        )
        return pb.UpdateCalendarResponse(calendar=schedulecodec.calendar_message(made))

    @unary(Role.CLIENT)
    async def DeleteCalendar(
        self, request: pb.DeleteCalendarRequest, identity: Identity, context: Context
    ) -> pb.DeleteCalendarResponse:
        id = names.calendar_id("name", request.name)
        await self._calendars.delete(identity, id, etag=request.etag, allow_missing=request.allow_missing)
        return pb.DeleteCalendarResponse()
