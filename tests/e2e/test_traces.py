"""One trace for each job: created, leased, run and completed, retries included, whoever made the spans."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from rota_sdk import JobState, RetryPolicy
from rota_sdk.gen.rota.v1 import common_pb2, jobs_pb2, jobs_pb2_grpc

from ..harness import CoordinatorProcess, eventually
from ..otlp import OtlpReceiver, Span

TRACED_WORKER = Path(__file__).parent / "traced_worker.py"
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNSAMPLED = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


@pytest.fixture
def traced(database: str, tmp_path: Path, receiver: OtlpReceiver) -> Iterator[CoordinatorProcess]:
    # Long enough for each attempt to be the only one, whoever stands still for a moment.
    long = {"ROTA_SESSION_TTL": "6s", "ROTA_DELIVERY_TTL": "4s"}
    with CoordinatorProcess(database, tmp_path, ROTA_OTLP_ENDPOINT=receiver.endpoint, **long) as process:
        yield process


def spans_of(receiver: OtlpReceiver, job: str) -> list[Span]:
    """The spans of the trace that a job is in, by start."""
    own = [s for s in receiver.spans if s.attributes.get("messaging.message.id") == job]
    traces = {s.trace_id for s in own}
    assert len(traces) <= 1, "a job in two traces"
    return sorted((s for s in receiver.spans if s.trace_id in traces), key=lambda s: s.start)


def check_two_attempts(receiver: OtlpReceiver, job: str) -> Span:
    """The shape of a job that failed once and succeeded then; its create span."""

    def whole() -> bool:
        return [s.name for s in spans_of(receiver, job)].count("rota.job.complete") == 2

    eventually(whole)
    spans = spans_of(receiver, job)
    (created,) = [s for s in spans if s.name == "rota.job.create"]
    leases = [s for s in spans if s.name == "rota.job.lease"]
    runs = [s for s in spans if s.name == "rota.run flaky"]
    completed = [s for s in spans if s.name == "rota.job.complete"]
    inside = [s for s in spans if s.name == "inside"]
    assert [len(found) for found in (leases, runs, completed, inside)] == [2, 2, 2, 2]
    assert [s.parent_id for s in leases] == [created.span_id] * 2
    assert [s.parent_id for s in runs] == [s.span_id for s in leases]
    assert [s.parent_id for s in completed] == [s.span_id for s in runs]
    assert [s.parent_id for s in inside] == [s.span_id for s in runs]
    assert [s.attributes["rota.attempt"] for s in leases] == [1, 2]
    assert [[(x.trace_id, x.span_id) for x in s.links] for s in leases] == [[], [(created.trace_id, created.span_id)]]
    assert [(s.attributes["rota.outcome"], s.error) for s in completed] == [("failed", True), ("succeeded", False)]
    assert [s.error for s in runs] == [True, False]
    assert created.kind == "PRODUCER"
    assert [s.kind for s in runs] == ["CONSUMER"] * 2
    return created


def test_a_job_and_its_attempts_are_one_trace(traced: CoordinatorProcess, receiver: OtlpReceiver) -> None:
    worker = traced.worker(TRACED_WORKER, receiver.endpoint)
    retry = RetryPolicy(initial_backoff=0.1)
    try:
        with traced.client() as client:
            jobs = [client.create_job("flaky", retry=retry) for _ in range(3)]
            for job in jobs:
                assert client.wait_job(job.name, timeout=60).state is JobState.SUCCEEDED
        created = [check_two_attempts(receiver, job.id) for job in jobs]
        assert [span.parent_id for span in created] == ["", "", ""]
        assert len({span.trace_id for span in created}) == 3
        assert all(span.is_at(job.traceparent) for span, job in zip(created, jobs, strict=True))
    finally:
        worker.kill()


@pytest.mark.parametrize(("caller", "traced_on"), [(CALLER, True), (UNSAMPLED, False)])
def test_the_callers_trace_goes_on(
    traced: CoordinatorProcess, receiver: OtlpReceiver, caller: str, traced_on: bool
) -> None:
    worker = traced.worker(TRACED_WORKER, receiver.endpoint)
    request = jobs_pb2.CreateJobRequest(
        job=jobs_pb2.Job(type="flaky", retry_policy=common_pb2.RetryPolicy(max_attempts=3))
    )
    request.job.retry_policy.initial_backoff.FromMilliseconds(100)
    metadata = (("authorization", f"Bearer {traced.key}"), ("traceparent", caller))
    try:
        with grpc.insecure_channel(traced.address) as channel:
            job = jobs_pb2_grpc.JobServiceStub(channel).CreateJob(request, metadata=metadata).job
        with traced.client() as client:
            assert client.wait_job(job.name, timeout=60).state is JobState.SUCCEEDED
        if traced_on:
            created = check_two_attempts(receiver, job.name.removeprefix("jobs/"))
            assert f"{created.trace_id}-{created.parent_id}" == caller[3:52]
        else:
            # Whoever decided against a trace is followed by coordinator and worker alike.
            assert job.traceparent == caller
            traced.terminate()
            assert receiver.spans == []
    finally:
        worker.kill()


def test_a_lost_attempt_ends_in_the_trace(traced: CoordinatorProcess, receiver: OtlpReceiver, tmp_path: Path) -> None:
    handlers = Path(__file__).parent / "handlers.py"
    events = tmp_path / "events"
    worker = traced.worker(handlers, str(events))
    try:
        with traced.client() as client:
            job = client.create_job("sleep", "60")
            leased_at = eventually(lambda: client.get_job(job.name).lease_time)
            assert leased_at is not None
            worker.kill()
            eventually(lambda: len(client.list_attempts(job.name)) == 1 and client.get_job(job.name).session == "")
    finally:
        worker.kill()
    traced.terminate()
    (created,) = receiver.named("rota.job.create")
    (ended,) = receiver.named("rota.job.complete")
    assert (ended.parent_id, ended.error) == (created.span_id, ended.attributes["rota.outcome"] == "lease_lost")
    assert ended.attributes["rota.outcome"] in ("lease_lost", "undelivered")
