"""The requests of both clients, made from plain arguments."""

import uuid
from collections.abc import Mapping, Sequence

from rota_sdk import codec, limits
from rota_sdk.gen.rota.v1 import jobs_pb2
from rota_sdk.model import CancelMode, JobState, NewJob, Span, check_batch, job_name, seconds


def create(job: NewJob, request_id: str | None) -> jobs_pb2.CreateJobRequest:
    """One job; with a request_id in any case, since gRPC itself may repeat the call."""
    return codec.create_request(job, request_id or uuid.uuid4().hex)


def create_batch(jobs: Sequence[NewJob], request_id: str | None, names_only: bool) -> jobs_pb2.BatchCreateJobsRequest:
    """Several jobs. Raises ValueError beyond 1,000."""
    check_batch(len(jobs))
    return jobs_pb2.BatchCreateJobsRequest(
        requests=[codec.create_request(job) for job in jobs],
        request_id=request_id or uuid.uuid4().hex,
        names_only=names_only,
    )


def listing(
    queue: str, type: str, state: JobState, labels: Mapping[str, str] | None, page_size: int, page_token: str
) -> jobs_pb2.ListJobsRequest:
    """A page of jobs. Raises ValueError on a page size beyond 1,000."""
    if not 0 <= page_size <= limits.PAGE_JOBS:
        raise ValueError(f"page_size: expected 1 to {limits.PAGE_JOBS}, or 0 for the default, found {page_size}")
    return jobs_pb2.ListJobsRequest(
        queue=queue,
        type=type,
        state=int(state),  # type: ignore[arg-type]
        labels=labels or {},
        page_size=page_size,
        page_token=page_token,
    )


def attempts(name: str, page_token: str) -> jobs_pb2.ListAttemptsRequest:
    """A page of attempts, as large as can be."""
    return jobs_pb2.ListAttemptsRequest(parent=job_name(name), page_size=limits.PAGE_JOBS, page_token=page_token)


def cancel(name: str, mode: CancelMode, reason: str) -> jobs_pb2.CancelJobRequest:
    """A cancellation."""
    return jobs_pb2.CancelJobRequest(
        name=job_name(name),
        mode=int(mode),  # type: ignore[arg-type]
        reason=reason,
    )


def wait(name: str, left: float) -> jobs_pb2.WaitJobRequest:
    """A long poll of at most 10 s."""
    return jobs_pb2.WaitJobRequest(name=job_name(name), timeout=codec.duration(min(max(0.0, left), limits.WAIT_JOB_S)))


def wait_span(timeout: Span | None) -> float:
    """How long to wait in all, in seconds."""
    return float("inf") if timeout is None else seconds(timeout)


def next_pause(pause: float) -> float:
    """The pause after this one while polling for a job's end: 50 ms growing to 1 s."""
    return min(pause * 1.5, limits.WAIT_POLL_MOST_S)


def waited_out(name: str, timeout: Span | None, state: JobState) -> TimeoutError:
    """The error of a wait that came to nothing."""
    return TimeoutError(
        f"{job_name(name)}: expected a terminal state within {wait_span(timeout):g} s, found {state.name}; "
        "wait longer, or look whether a worker takes its queue"
    )
