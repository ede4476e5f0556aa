"""The generated stubs on one channel, for what the clients do not wrap. Errors are grpc's own."""

from functools import cached_property
from typing import TYPE_CHECKING

import grpc

from rota_sdk.gen.rota.v1.jobs_pb2_grpc import JobServiceStub

if TYPE_CHECKING:
    from rota_sdk.gen.rota.admin.v1.admin_pb2_grpc import AdminServiceAsyncStub, AdminServiceStub
    from rota_sdk.gen.rota.v1.jobs_pb2_grpc import JobServiceAsyncStub
    from rota_sdk.gen.rota.v1.schedules_pb2_grpc import (
        CalendarServiceAsyncStub,
        CalendarServiceStub,
        ScheduleServiceAsyncStub,
        ScheduleServiceStub,
    )
    from rota_sdk.gen.rota.worker.v1.worker_pb2_grpc import WorkerServiceAsyncStub, WorkerServiceStub


class Stubs:
    """Stubs whose calls block. Each is made, and its module read, when it is first asked for."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel

    @cached_property
    def jobs(self) -> JobServiceStub:
        """rota.v1.JobService"""
        return JobServiceStub(self._channel)

    @cached_property
    def schedules(self) -> "ScheduleServiceStub":
        """rota.v1.ScheduleService"""
        from rota_sdk.gen.rota.v1.schedules_pb2_grpc import ScheduleServiceStub

        return ScheduleServiceStub(self._channel)

    @cached_property
    def calendars(self) -> "CalendarServiceStub":
        """rota.v1.CalendarService"""
        from rota_sdk.gen.rota.v1.schedules_pb2_grpc import CalendarServiceStub

        return CalendarServiceStub(self._channel)

    @cached_property
    def worker(self) -> "WorkerServiceStub":
        """rota.worker.v1.WorkerService"""
        from rota_sdk.gen.rota.worker.v1.worker_pb2_grpc import WorkerServiceStub

        return WorkerServiceStub(self._channel)

    @cached_property
    def admin(self) -> "AdminServiceStub":
        """rota.admin.v1.AdminService"""
        from rota_sdk.gen.rota.admin.v1.admin_pb2_grpc import AdminServiceStub

        return AdminServiceStub(self._channel)


class AsyncStubs:
    """Stubs whose calls are awaited."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    @cached_property
    def jobs(self) -> "JobServiceAsyncStub":
        """rota.v1.JobService"""
        return JobServiceStub(self._channel)

    @cached_property
    def schedules(self) -> "ScheduleServiceAsyncStub":
        """rota.v1.ScheduleService"""
        from rota_sdk.gen.rota.v1.schedules_pb2_grpc import ScheduleServiceStub

        return ScheduleServiceStub(self._channel)

    @cached_property
    def calendars(self) -> "CalendarServiceAsyncStub":
        """rota.v1.CalendarService"""
        from rota_sdk.gen.rota.v1.schedules_pb2_grpc import CalendarServiceStub

        return CalendarServiceStub(self._channel)

    @cached_property
    def worker(self) -> "WorkerServiceAsyncStub":
        """rota.worker.v1.WorkerService"""
        from rota_sdk.gen.rota.worker.v1.worker_pb2_grpc import WorkerServiceStub

        return WorkerServiceStub(self._channel)

    @cached_property
    def admin(self) -> "AdminServiceAsyncStub":
        """rota.admin.v1.AdminService"""
        from rota_sdk.gen.rota.admin.v1.admin_pb2_grpc import AdminServiceStub

        return AdminServiceStub(self._channel)
