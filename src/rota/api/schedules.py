"""ScheduleService and CalendarService: in the contract, and refused by this release with a reason."""

from rota_sdk.gen.rota.v1 import schedules_pb2, schedules_pb2_grpc

from rota.api.rpc import refuse_the_rest
from rota.domain.model import Role
from rota.service.identity import Keys


@refuse_the_rest(schedules_pb2.DESCRIPTOR.services_by_name["ScheduleService"], Role.CLIENT)
class ScheduleServicer(schedules_pb2_grpc.ScheduleServiceServicer):
    def __init__(self, keys: Keys) -> None:
        self.keys = keys


@refuse_the_rest(schedules_pb2.DESCRIPTOR.services_by_name["CalendarService"], Role.CLIENT)
class CalendarServicer(schedules_pb2_grpc.CalendarServiceServicer):
    def __init__(self, keys: Keys) -> None:
        self.keys = keys
