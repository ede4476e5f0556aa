"""Both clients, by the same cases: the asynchronous one runs on a loop of its own behind a blocking face."""

import asyncio
import inspect
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from rota_conformance.script_server import Refusal
from rota_sdk import (
    AlreadyExists,
    AsyncClient,
    AttemptOutcome,
    CancelMode,
    Client,
    ConnectionFailed,
    DeadlineExceeded,
    InvalidArgument,
    JobState,
    NewJob,
    NotFound,
    NotImplementedByServer,
)
from rota_sdk.gen.rota.admin.v1 import admin_pb2
from rota_sdk.gen.rota.v1 import jobs_pb2, schedules_pb2
from script_jobs import ScriptJobs

C = grpc.StatusCode
Job = jobs_pb2.Job


class Blocking:
    """An AsyncClient whose methods block."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._runner = asyncio.Runner()

        async def make() -> AsyncClient:
            return AsyncClient(*args, **kwargs)

        self._client = self._runner.run(make())

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._client, name)
        if inspect.isasyncgenfunction(attribute):

            async def collect(*args: Any, **kwargs: Any) -> list[Any]:
                return [item async for item in attribute(*args, **kwargs)]

            return lambda *args, **kwargs: iter(self._runner.run(collect(*args, **kwargs)))
        if inspect.iscoroutinefunction(attribute):
            return lambda *args, **kwargs: self._runner.run(attribute(*args, **kwargs))
        return attribute

    def stub_call(self, service: str, method: str, request: Any) -> Any:
        async def call() -> Any:
            return await getattr(getattr(self._client.stubs, service), method)(request)

        return self._runner.run(call())

    def close(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()


class Plain(Client):
    def stub_call(self, service: str, method: str, request: Any) -> Any:
        return getattr(getattr(self.stubs, service), method)(request)


@pytest.fixture
def jobs(no_thread_stays: None) -> Iterator[ScriptJobs]:
    server = ScriptJobs()
    yield server
    server.close()


@pytest.fixture(params=[Plain, Blocking], ids=["sync", "async"])
def client(request: pytest.FixtureRequest, jobs: ScriptJobs) -> Iterator[Any]:
    client = request.param(jobs.address, api_key="secret", timeout=5)
    yield client
    client.close()


def test_a_job_is_created_and_read_back(client: Any, jobs: ScriptJobs) -> None:
    jobs.answer("CreateJob", jobs_pb2.CreateJobResponse(job=Job(name="jobs/1", state=1), existing=True))
    job = client.create_job("greet", {"name": "Ada"}, queue="mail", delay=timedelta(seconds=5), labels={"a": "b"})
    assert (job.name, job.state, job.existing) == ("jobs/1", JobState.SCHEDULED, True)
    request = jobs.of("CreateJob")[0]
    assert (request.job.type, request.job.payload.data, request.delay.seconds) == ("greet", b'{"name":"Ada"}', 5)
    assert jobs.calls[0][2]["authorization"] == "Bearer secret"
    assert jobs.calls[0][2]["user-agent"].startswith("rota-python/")


def test_request_ids_are_made_once_per_call_and_survive_grpcs_own_retries(client: Any, jobs: ScriptJobs) -> None:
    answer = jobs_pb2.CreateJobResponse(job=Job(name="jobs/1"))
    jobs.answer("CreateJob", Refusal(C.UNAVAILABLE, "DRAINING"), Refusal(C.UNAVAILABLE, "DRAINING"), answer)
    client.create_job("greet")
    first = {request.request_id for request in jobs.of("CreateJob")}
    assert len(jobs.of("CreateJob")) == 3 and len(first) == 1 and first != {""}
    client.create_job("greet")
    client.create_job("greet", request_id="mine")
    ids = [request.request_id for request in jobs.of("CreateJob")][-2:]
    assert ids[0] not in first and ids[1] == "mine"


def test_nothing_but_unavailable_is_retried(client: Any, jobs: ScriptJobs) -> None:
    for number, code in enumerate((C.INTERNAL, C.UNKNOWN, C.ABORTED, C.RESOURCE_EXHAUSTED), 1):
        jobs._answers["GetJob"].clear()
        jobs.answer("GetJob", Refusal(code))
        with pytest.raises(Exception, match="scripted"):
            client.get_job("1")
        assert len(jobs.of("GetJob")) == number


def test_a_batch_goes_in_one_call_and_is_never_split(client: Any, jobs: ScriptJobs) -> None:
    jobs.answer("BatchCreateJobs", jobs_pb2.BatchCreateJobsResponse(jobs=[Job(name="jobs/1"), Job(name="jobs/2")]))
    made = client.create_jobs([NewJob("a"), NewJob("b", priority=9)], names_only=True)
    assert [job.id for job in made] == ["1", "2"]
    request = jobs.of("BatchCreateJobs")[0]
    assert [item.job.type for item in request.requests] == ["a", "b"] and request.names_only and request.request_id
    assert not any(item.request_id for item in request.requests)
    for count in (0, 1001):
        with pytest.raises(ValueError, match=str(count)):
            client.create_jobs([NewJob("a")] * count)
    assert len(jobs.calls) == 1


def test_lists_go_page_by_page(client: Any, jobs: ScriptJobs) -> None:
    jobs.answer(
        "ListJobs",
        jobs_pb2.ListJobsResponse(jobs=[Job(name="jobs/1"), Job(name="jobs/2")], next_page_token="t"),
        jobs_pb2.ListJobsResponse(jobs=[Job(name="jobs/3")]),
    )
    found = list(client.iter_jobs(queue="q", type="t", state=JobState.DEAD, labels={"a": "b"}, page_size=2))
    assert [job.id for job in found] == ["1", "2", "3"]
    first, second = jobs.of("ListJobs")
    assert (first.queue, first.type, first.state, dict(first.labels), first.page_size) == ("q", "t", 9, {"a": "b"}, 2)
    assert (first.page_token, second.page_token) == ("", "t")
    page = client.list_jobs()
    assert page.next_page_token == "" and len(page.jobs) == 1
    with pytest.raises(ValueError, match="page_size"):
        client.list_jobs(page_size=1001)


def test_attempts_are_listed_whole(client: Any, jobs: ScriptJobs) -> None:
    jobs.answer(
        "ListAttempts",
        jobs_pb2.ListAttemptsResponse(
            attempts=[jobs_pb2.Attempt(number=1, outcome=jobs_pb2.ATTEMPT_OUTCOME_LEASE_LOST)], next_page_token="t"
        ),
        jobs_pb2.ListAttemptsResponse(attempts=[jobs_pb2.Attempt(number=2, fence=9)]),
    )
    attempts = client.list_attempts("7")
    assert [(a.number, a.outcome, a.fence) for a in attempts] == [
        (1, AttemptOutcome.LEASE_LOST, 0),
        (2, AttemptOutcome.UNSPECIFIED, 9),
    ]
    assert [request.parent for request in jobs.of("ListAttempts")] == ["jobs/7", "jobs/7"]


def test_jobs_are_steered(client: Any, jobs: ScriptJobs) -> None:
    jobs.answer("CancelJob", jobs_pb2.CancelJobResponse(job=Job(state=jobs_pb2.JOB_STATE_CANCELLING)))
    jobs.answer("RetryJob", jobs_pb2.RetryJobResponse(job=Job(state=jobs_pb2.JOB_STATE_READY)))
    jobs.answer("RescheduleJob", jobs_pb2.RescheduleJobResponse(job=Job(state=jobs_pb2.JOB_STATE_SCHEDULED)))
    assert client.cancel_job("1", reason="why").state is JobState.CANCELLING
    assert client.cancel_job("jobs/1", CancelMode.FENCE_OUT).state is JobState.CANCELLING
    assert client.retry_job("1", new_generation=True).state is JobState.READY
    later = datetime(2030, 1, 1, tzinfo=UTC)
    assert client.reschedule_job("1", later).state is JobState.SCHEDULED
    first, second = jobs.of("CancelJob")
    assert (first.name, first.mode, first.reason) == ("jobs/1", jobs_pb2.CANCEL_MODE_COOPERATIVE, "why")
    assert (second.name, second.mode) == ("jobs/1", jobs_pb2.CANCEL_MODE_FENCE_OUT)
    assert jobs.of("RescheduleJob")[0].run_time.ToDatetime(tzinfo=UTC) == later


def test_waiting_ends_with_a_terminal_state(client: Any, jobs: ScriptJobs) -> None:
    jobs.answer(
        "WaitJob",
        jobs_pb2.WaitJobResponse(job=Job(state=jobs_pb2.JOB_STATE_LEASED)),
        jobs_pb2.WaitJobResponse(job=Job(state=jobs_pb2.JOB_STATE_SUCCEEDED)),
    )
    assert client.wait_job("1").state is JobState.SUCCEEDED
    # Shorter than the call's own timeout of 5 s.
    assert [request.timeout.ToTimedelta().total_seconds() for request in jobs.of("WaitJob")] == [2.5, 2.5]


def test_waiting_gives_up_after_its_timeout(client: Any, jobs: ScriptJobs) -> None:
    jobs.answer("WaitJob", jobs_pb2.WaitJobResponse(job=Job(state=jobs_pb2.JOB_STATE_READY)))
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="READY"):
        client.wait_job("1", timeout=0.1)
    assert time.monotonic() - began < 1


def test_waiting_polls_a_server_that_cannot_wait(client: Any, jobs: ScriptJobs) -> None:
    live = jobs_pb2.GetJobResponse(job=Job(state=jobs_pb2.JOB_STATE_LEASED))
    done = jobs_pb2.GetJobResponse(job=Job(state=jobs_pb2.JOB_STATE_DEAD))
    jobs.answer("GetJob", live, live, done)
    assert client.wait_job("1", timeout=timedelta(seconds=5)).state is JobState.DEAD
    assert (len(jobs.of("WaitJob")), len(jobs.of("GetJob"))) == (1, 3)
    jobs._answers["GetJob"].clear()
    jobs.answer("GetJob", live)
    with pytest.raises(TimeoutError):
        client.wait_job("1", timeout=0.12)


def test_sessions_and_queues_come_as_the_admin_api_has_them(client: Any, jobs: ScriptJobs) -> None:
    jobs.answer(
        "ListSessions",
        admin_pb2.ListSessionsResponse(sessions=[admin_pb2.Session(name="sessions/1")], next_page_token="t"),
        admin_pb2.ListSessionsResponse(sessions=[admin_pb2.Session(name="sessions/2")]),
    )
    jobs.answer("ListQueues", admin_pb2.ListQueuesResponse(queues=[admin_pb2.Queue(name="queues/q")]))
    assert [session.name for session in client.list_sessions()] == ["sessions/1", "sessions/2"]
    assert [queue.name for queue in client.list_queues()] == ["queues/q"]


def test_stubs_carry_the_credential(client: Any, jobs: ScriptJobs) -> None:
    jobs.answer("ListSchedules", schedules_pb2.ListSchedulesResponse())
    jobs.answer("ListQueues", admin_pb2.ListQueuesResponse())
    client.stub_call("schedules", "ListSchedules", schedules_pb2.ListSchedulesRequest())
    client.stub_call("admin", "ListQueues", admin_pb2.ListQueuesRequest())
    assert [call[2]["authorization"] for call in jobs.calls] == ["Bearer secret"] * 2


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (Refusal(C.NOT_FOUND, "RESOURCE_NOT_FOUND"), NotFound),
        (Refusal(C.ALREADY_EXISTS, "REQUEST_ID_REUSED"), AlreadyExists),
        (Refusal(C.INVALID_ARGUMENT, "VALIDATION_FAILED", violations={"name": "x"}), InvalidArgument),
        (Refusal(C.UNIMPLEMENTED, "NOT_IMPLEMENTED"), NotImplementedByServer),
    ],
    ids=lambda value: getattr(value, "reason", ""),
)
def test_refusals_are_rota_errors(client: Any, jobs: ScriptJobs, refusal: Refusal, kind: type) -> None:
    jobs.answer("GetJob", refusal)
    with pytest.raises(kind) as caught:
        client.get_job("1")
    assert caught.value.reason == refusal.reason
    with pytest.raises(ValueError, match="empty"):
        client.get_job("")


@pytest.mark.parametrize("kind", [Plain, Blocking], ids=["sync", "async"])
def test_nobody_at_the_address(kind: Any) -> None:
    client = kind("127.0.0.1:1", api_key="k", timeout=5)
    try:
        with pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1:1"):
            client.get_job("1")
    finally:
        client.close()


def test_calls_end_at_their_timeout(jobs: ScriptJobs) -> None:
    given_up = threading.Event()

    def never(request: Any, context: grpc.ServicerContext) -> Refusal:
        given_up.wait(5)
        return Refusal(C.INTERNAL)

    jobs.answer("GetJob", never)
    with Client(jobs.address, api_key="k", timeout=0.1) as slow, pytest.raises(DeadlineExceeded):
        slow.get_job("1")
    given_up.set()


def test_both_clients_have_the_same_face() -> None:
    def face(kind: type) -> dict[str, list[str]]:
        found = {}
        for name, member in inspect.getmembers(kind, callable):
            if not name.startswith("_"):
                found[name] = [
                    str(p.replace(annotation=p.empty)) for p in inspect.signature(member).parameters.values()
                ]
        return found

    assert face(Client) == face(AsyncClient)


async def test_an_async_client_is_a_context_manager(jobs: ScriptJobs) -> None:
    jobs.answer("GetJob", jobs_pb2.GetJobResponse(job=Job(name="jobs/1")))
    async with AsyncClient(jobs.address, api_key="k") as client:
        found = await asyncio.gather(*(client.get_job("1") for _ in range(20)))
    assert len(found) == 20
    with Client(jobs.address) as plain:
        assert plain.get_job("1").id == "1" and plain.address == jobs.address
