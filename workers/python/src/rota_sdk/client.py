"""Creates, reads and steers jobs, from threads."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import grpc

from rota_sdk import codec, limits, requests, telemetry
from rota_sdk.channel import Endpoint, Tls
from rota_sdk.errors import NotImplementedByServer, from_rpc
from rota_sdk.gen.rota.v1 import jobs_pb2
from rota_sdk.model import (
    Attempt,
    CancelMode,
    Dedupe,
    Job,
    JobPage,
    JobState,
    NewJob,
    RetryPolicy,
    Span,
    Timeouts,
    job_name,
)
from rota_sdk.stubs import Stubs
from rota_sdk.watch import JobWatch

if TYPE_CHECKING:
    from rota_sdk.gen.rota.admin.v1 import admin_pb2

T = TypeVar("T")


class Client:
    """A connection to Rota. Safe to use from many threads; connects at the first call.

    `timeout` is in seconds and for each call. UNAVAILABLE is retried by gRPC, up to four attempts; creations carry a
    request_id, so that a repetition creates nothing twice. Every method raises RotaError.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        api_key: str | None = None,
        tls: Tls | bool | None = None,
        timeout: float = limits.CALL_TIMEOUT_S,
    ) -> None:
        self._endpoint = Endpoint.resolve(address, api_key, tls)
        self._timeout = timeout
        self._channel = self._endpoint.open_authorized()
        self.stubs = Stubs(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Cancels calls under way and closes the connection."""
        self._channel.close()

    @property
    def address(self) -> str:
        """Where it connects to, as given."""
        return self._endpoint.address

    def create_job(
        self,
        type: str,
        payload: Any = None,
        *,
        queue: str = "",
        priority: int | None = None,
        delay: Span | None = None,
        run_time: datetime | None = None,
        retry: RetryPolicy | None = None,
        timeouts: Timeouts | None = None,
        headers: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        effect_key: str = "",
        concurrency_key: str = "",
        dedupe: Dedupe | None = None,
        request_id: str | None = None,
    ) -> Job:
        """Creates a job, durable when this returns.

        A payload of bytes goes as it is, str as UTF-8 text, a Payload with its own media type, anything else as JSON.
        Pass a `request_id` of your own to repeat a call safely after its outcome was unknown.
        """
        job = NewJob(
            type=type,
            payload=payload,
            queue=queue,
            priority=priority,
            run_time=run_time,
            delay=delay,
            retry=retry,
            timeouts=timeouts,
            headers=headers or {},
            labels=labels or {},
            effect_key=effect_key,
            concurrency_key=concurrency_key,
            dedupe=dedupe,
        )
        request = requests.create(job, request_id)
        with telemetry.creating(type, 1) as metadata:
            response = self._call(self.stubs.jobs.CreateJob, request, metadata)
        return codec.job(response.job, existing=response.existing)

    def create_jobs(
        self, jobs: Iterable[NewJob], *, request_id: str | None = None, names_only: bool = False
    ) -> list[Job]:
        """Creates up to 1,000 jobs in one transaction, all or none; answers in their order.

        `names_only` saves time in bulk: the jobs returned have nothing but their names.
        Raises ValueError beyond 1,000: nothing is split silently.
        """
        batch = list(jobs)
        request = requests.create_batch(batch, request_id, names_only)
        with telemetry.creating(batch[0].type, len(batch)) as metadata:
            response = self._call(self.stubs.jobs.BatchCreateJobs, request, metadata)
        return [codec.job(job) for job in response.jobs]

    def get_job(self, name_or_id: str) -> Job:
        """Reads a job, live or finished."""
        request = jobs_pb2.GetJobRequest(name=job_name(name_or_id))
        return codec.job(self._call(self.stubs.jobs.GetJob, request).job)

    def list_jobs(
        self,
        *,
        queue: str = "",
        type: str = "",
        state: JobState = JobState.UNSPECIFIED,
        labels: Mapping[str, str] | None = None,
        page_size: int = 0,
        page_token: str = "",
    ) -> JobPage:
        """A page of jobs, newest first, without payloads and results."""
        request = requests.listing(queue, type, state, labels, page_size, page_token)
        response = self._call(self.stubs.jobs.ListJobs, request)
        return JobPage(tuple(codec.job(job) for job in response.jobs), response.next_page_token)

    def iter_jobs(
        self,
        *,
        queue: str = "",
        type: str = "",
        state: JobState = JobState.UNSPECIFIED,
        labels: Mapping[str, str] | None = None,
        page_size: int = 0,
    ) -> Iterator[Job]:
        """All jobs, page by page."""
        token = ""
        while True:
            page = self.list_jobs(
                queue=queue, type=type, state=state, labels=labels, page_size=page_size, page_token=token
            )
            yield from page.jobs
            token = page.next_page_token
            if not token:
                return

    def list_attempts(self, name_or_id: str) -> list[Attempt]:
        """All attempts of a job, oldest first, the running one included."""
        found: list[Attempt] = []
        token = ""
        while True:
            response = self._call(self.stubs.jobs.ListAttempts, requests.attempts(name_or_id, token))
            found += map(codec.attempt, response.attempts)
            token = response.next_page_token
            if not token:
                return found

    def cancel_job(self, name_or_id: str, mode: CancelMode = CancelMode.COOPERATIVE, reason: str = "") -> Job:
        """Cancels a job; repeating it is safe, a terminal job stays as it is."""
        return codec.job(self._call(self.stubs.jobs.CancelJob, requests.cancel(name_or_id, mode, reason)).job)

    def retry_job(self, name_or_id: str, *, new_generation: bool = False) -> Job:
        """Makes a job that waits for a retry, or a dead one, ready now."""
        request = jobs_pb2.RetryJobRequest(name=job_name(name_or_id), new_generation=new_generation)
        return codec.job(self._call(self.stubs.jobs.RetryJob, request).job)

    def reschedule_job(self, name_or_id: str, run_time: datetime) -> Job:
        """Moves the due time of a job that has not started."""
        request = jobs_pb2.RescheduleJobRequest(name=job_name(name_or_id), run_time=codec.timestamp(run_time))
        return codec.job(self._call(self.stubs.jobs.RescheduleJob, request).job)

    def wait_job(self, name_or_id: str, timeout: Span | None = None) -> Job:
        """Waits until a job is terminal. Raises TimeoutError after `timeout`; None: waits for ever."""
        until = time.monotonic() + requests.wait_span(timeout)
        pause = limits.WAIT_POLL_FIRST_S
        polling = False
        while True:
            left = until - time.monotonic()
            if polling:
                job = self.get_job(name_or_id)
            else:
                try:
                    response = self._call(
                        self.stubs.jobs.WaitJob, requests.wait(name_or_id, min(left, self._timeout / 2))
                    )
                except NotImplementedByServer:
                    polling = True
                    continue
                job = codec.job(response.job)
            if job.state.terminal:
                return job
            if time.monotonic() >= until:
                raise requests.waited_out(name_or_id, timeout, job.state)
            if polling:
                time.sleep(min(pause, max(0.0, until - time.monotonic())))
                pause = requests.next_pause(pause)

    def watch_jobs(self, *, queue: str = "", type: str = "", resume_token: str = "") -> JobWatch:
        """Changes of jobs from now on, or from the `resume_token` of a change on; reconnects by itself.

        Each change that is committed comes at least once, from whichever coordinator. Raises FailedPrecondition when
        changes behind the token are not kept any more (after an hour): watch without one, then list the jobs.
        """
        return JobWatch(self.stubs.jobs.WatchJobs, self._endpoint.address, queue, type, resume_token)

    def list_sessions(self) -> "list[admin_pb2.Session]":
        """All worker sessions, as the admin API has them. Needs the role operator."""
        from rota_sdk.gen.rota.admin.v1 import admin_pb2

        found: list[admin_pb2.Session] = []
        request = admin_pb2.ListSessionsRequest(page_size=limits.PAGE_JOBS)
        while True:
            response = self._call(self.stubs.admin.ListSessions, request)
            found += response.sessions
            request.page_token = response.next_page_token
            if not request.page_token:
                return found

    def list_queues(self) -> "list[admin_pb2.Queue]":
        """All queues, as the admin API has them. Needs the role operator."""
        from rota_sdk.gen.rota.admin.v1 import admin_pb2

        found: list[admin_pb2.Queue] = []
        request = admin_pb2.ListQueuesRequest(page_size=limits.PAGE_JOBS)
        while True:
            response = self._call(self.stubs.admin.ListQueues, request)
            found += response.queues
            request.page_token = response.next_page_token
            if not request.page_token:
                return found

    def _call(self, method: Callable[..., T], request: object, metadata: tuple[tuple[str, str], ...] = ()) -> T:
        try:
            return method(request, timeout=self._timeout, metadata=metadata)
        except grpc.RpcError as error:
            raise from_rpc(error, self._endpoint.address) from None
