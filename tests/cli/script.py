"""A coordinator with scripted answers behind real gRPC, and the values that scripts are made of."""

import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2, status_pb2
from rota_sdk.gen.rota.admin.v1 import admin_pb2, admin_pb2_grpc
from rota_sdk.gen.rota.v1 import jobs_pb2, jobs_pb2_grpc

T0 = datetime(2026, 11, 30, 8, 15, tzinfo=UTC)
JOB_ID = "019ad0b2-7c1e-7aaa-8bbb-0123456789ab"


def job(number: int = 0, **values: Any) -> jobs_pb2.Job:
    """A job of a script; the given fields over usual ones."""
    made = jobs_pb2.Job(
        name=f"jobs/{JOB_ID[:-3]}{number:03x}",
        type="greet",
        queue="default",
        priority=4,
        state=jobs_pb2.JOB_STATE_READY,
        retry_policy={"max_attempts": 5},
        create_time=T0,
        due_time=T0,
    )
    made.MergeFrom(jobs_pb2.Job(**values))
    return made


def in_(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


@dataclass
class Coordinator(jobs_pb2_grpc.JobServiceServicer, admin_pb2_grpc.AdminServiceServicer):
    """Answers from scripts: `jobs` in turn, the last one for ever."""

    address: str = ""
    jobs: list[jobs_pb2.Job] = field(default_factory=list)
    attempts: list[jobs_pb2.Attempt] = field(default_factory=list)
    sessions: list[admin_pb2.Session] = field(default_factory=list)
    requests: list[Any] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    refusal: status_pb2.Status | None = None

    def refuse(self, code: grpc.StatusCode, reason: str, message: str, **more: str) -> None:
        """Makes every call fail so."""
        detail = AnyMessage()
        detail.Pack(error_details_pb2.ErrorInfo(reason=reason, domain="rota", metadata=more))
        self.refusal = status_pb2.Status(code=code.value[0], message=message, details=[detail])

    def _took(self, request: Any, context: grpc.ServicerContext) -> None:
        self.requests.append(request)
        self.metadata = {key: str(value) for key, value in context.invocation_metadata()}
        if self.refusal is not None:
            context.set_trailing_metadata((("grpc-status-details-bin", self.refusal.SerializeToString()),))
            code = next(c for c in grpc.StatusCode if c.value[0] == self.refusal.code)
            context.abort(code, self.refusal.message)

    def _next(self) -> jobs_pb2.Job:
        return self.jobs.pop(0) if len(self.jobs) > 1 else self.jobs[0]

    def CreateJob(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        return jobs_pb2.CreateJobResponse(job=self._next())

    def GetJob(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        return jobs_pb2.GetJobResponse(job=self._next())

    def WaitJob(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        return jobs_pb2.WaitJobResponse(job=self._next())

    def WatchJobs(self, request: Any, context: Any) -> Any:
        """All jobs, and then silence."""
        self._took(request, context)
        over = threading.Event()
        context.add_callback(over.set)
        yield jobs_pb2.WatchJobsResponse(resume_token="t0")
        for number, made in enumerate(self.jobs, 1):
            yield jobs_pb2.WatchJobsResponse(job=made, resume_token=f"t{number}")
        over.wait(30)

    def CancelJob(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        return jobs_pb2.CancelJobResponse(job=self._next())

    def ListJobs(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        start = int(request.page_token or 0)
        end = min(start + (request.page_size or 50), len(self.jobs))
        token = str(end) if end < len(self.jobs) else ""
        return jobs_pb2.ListJobsResponse(jobs=self.jobs[start:end], next_page_token=token)

    def ListAttempts(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        return jobs_pb2.ListAttemptsResponse(attempts=self.attempts)

    def ListSessions(self, request: Any, context: Any) -> Any:
        self._took(request, context)
        return admin_pb2.ListSessionsResponse(sessions=self.sessions)
