"""A coordinator that applies sets to a dict, behind real gRPC."""

from collections.abc import Iterator
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb
from rota_sdk.gen.rota.v1 import schedules_pb2_grpc

from tests.cli.script import Coordinator


@dataclass
class Applier(Coordinator, schedules_pb2_grpc.ScheduleServiceServicer):
    """Keeps what was applied, with its set. `refused_ids` are refused for their cron expression."""

    schedules: dict[str, tuple[str, pb.CreateScheduleRequest]] = field(default_factory=dict)
    calendars: dict[str, pb.CreateCalendarRequest] = field(default_factory=dict)
    refused_ids: set[str] = field(default_factory=set)
    refuse_writes_of: str = ""
    """A set whose plan is accepted, and whose application is refused."""

    @property
    def applied(self) -> list[pb.ApplySchedulesRequest]:
        """The requests that were to change something."""
        return [request for request in self.requests if not request.validate_only]

    def ApplySchedules(self, request: Any, context: Any) -> Any:
        for index, wish in enumerate(request.schedules):
            if wish.schedule_id in self.refused_ids:
                self._refuse_field(f"schedules[{index}].schedule.cron.expression", "expected better; improve it")
        if request.apply_set == self.refuse_writes_of and not request.validate_only:
            self._refuse_field("apply_set", "expected nothing in between; try again")
        self._took(request, context)
        changes, schedules, calendars = [], dict(self.schedules), dict(self.calendars)
        for calendar in request.calendars:
            changes.append(_change(f"calendars/{calendar.calendar_id}", calendars.get(calendar.calendar_id), calendar))
            calendars[calendar.calendar_id] = calendar
        for wish in request.schedules:
            _, before = schedules.get(wish.schedule_id, ("", None))
            changes.append(_change(f"schedules/{wish.schedule_id}", before, wish))
            schedules[wish.schedule_id] = (request.apply_set, wish)
        given = {wish.schedule_id for wish in request.schedules}
        for id in [id for id, (apply_set, _) in schedules.items() if apply_set == request.apply_set]:
            if request.prune and id not in given:
                changes.append(pb.ApplyChange(name=f"schedules/{id}", action=pb.APPLY_ACTION_DELETE))
                del schedules[id]
        if not request.validate_only:
            self.schedules, self.calendars = schedules, calendars
        return pb.ApplySchedulesResponse(changes=changes)

    def _refuse_field(self, name: str, why: str) -> None:
        self.refuse(grpc.StatusCode.INVALID_ARGUMENT, "VALIDATION_FAILED", f"{name}: {why}")
        assert self.refusal is not None
        self.refusal.details.add().Pack(
            error_details_pb2.BadRequest(field_violations=[{"field": name, "description": why}])
        )


def _change(name: str, before: Any, after: Any) -> pb.ApplyChange:
    if before is None:
        return pb.ApplyChange(name=name, action=pb.APPLY_ACTION_CREATE)
    if before == after:
        return pb.ApplyChange(name=name, action=pb.APPLY_ACTION_NONE)
    return pb.ApplyChange(name=name, action=pb.APPLY_ACTION_UPDATE, changed_fields={"paths": ["time_zone", "notes"]})


def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Applier]:
    """One on loopback, at which ROTA_ADDRESS points."""
    applier = Applier()
    server = grpc.server(futures.ThreadPoolExecutor(2))
    schedules_pb2_grpc.add_ScheduleServiceServicer_to_server(applier, server)
    applier.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    monkeypatch.setenv("ROTA_ADDRESS", applier.address)
    yield applier
    server.stop(None).wait()
