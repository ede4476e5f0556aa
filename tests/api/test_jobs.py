"""Creating and reading jobs: defaults echoed, idempotency, dedupe keys, batches, pages, waiting."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from rota_sdk.gen.rota.v1 import common_pb2, jobs_pb2

from .running import Running, Tenant, creation, eventually, refusal, seconds, span, state_name

pytestmark = pytest.mark.asyncio(loop_scope="session")


def batch(*requests: jobs_pb2.CreateJobRequest, **fields: Any) -> jobs_pb2.BatchCreateJobsRequest:
    return jobs_pb2.BatchCreateJobsRequest(requests=requests, **fields)


def after(job: jobs_pb2.Job, delay_s: float) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(job.create_time.ToDatetime() + timedelta(seconds=delay_s))
    return stamp


async def test_defaults_are_echoed(tenant: Tenant) -> None:
    answer = await tenant.jobs.CreateJob(creation("t"))
    job = answer.job
    assert not answer.existing
    assert job.name.startswith("jobs/")
    assert (job.type, job.queue, job.priority) == ("t", "default", 4)
    policy = job.retry_policy
    assert (policy.max_attempts, policy.multiplier) == (5, 2)
    assert (seconds(policy.initial_backoff), seconds(policy.max_backoff)) == (1, 3600)
    assert seconds(job.timeouts.run) == 3600
    assert not job.timeouts.HasField("start_by") and not job.timeouts.HasField("total")
    assert state_name(job.state) == "READY"
    assert job.due_time == job.create_time
    assert job.effect_key == f"{tenant.name}/{job.name.removeprefix('jobs/')}/0"
    assert (job.attempt, job.attempts_counted, job.generation) == (0, 0, 0)
    assert not job.HasField("lease_time") and not job.HasField("finish_time") and job.session == ""
    assert await tenant.get(job) == job


async def test_what_is_given_is_kept(tenant: Tenant) -> None:
    wish = {
        "queue": "mail.eu",
        "priority": 0,
        "headers": {"h": "1"},
        "labels": {"a": "1", "b": ""},
        "retry_policy": common_pb2.RetryPolicy(
            max_attempts=1000,
            initial_backoff=span(0.25),
            max_backoff=span(86_400),
            multiplier=1.5,
            non_retryable_types=["A", "B"],
        ),
        "timeouts": common_pb2.Timeouts(run=span(1.5), start_by=span(60), total=span(3600.5)),
        "effect_key": "e",
        "concurrency_key": "c",
        "payload": common_pb2.Payload(data=b"\x00\xff", content_type="a/b"),
    }
    job = await tenant.create("a.b:c/d-e_f", delay=120.0, **wish)
    found = await tenant.get(job)
    assert found == job
    for name, value in wish.items():
        assert getattr(found, name) == value, name
    assert state_name(found.state) == "SCHEDULED"
    assert found.due_time == after(job, 120)
    (listed,) = (await tenant.jobs.ListJobs(jobs_pb2.ListJobsRequest())).jobs
    job.ClearField("payload")
    assert listed == job


async def test_output_fields_of_a_wish_are_ignored(tenant: Tenant) -> None:
    job = await tenant.create(
        name="jobs/00000000-0000-7000-8000-000000000000",
        state=jobs_pb2.JOB_STATE_DEAD,
        attempt=7,
        generation=3,
        reason="r",
        traceparent="x",
        session="sessions/x",
        completed_despite_cancel=True,
        result=common_pb2.Payload(data=b"r"),
        last_failure=common_pb2.Failure(type="E"),
    )
    found = await tenant.get(job)
    assert "00000000-0000-7000" not in found.name
    assert (state_name(found.state), found.attempt, found.generation, found.reason) == ("READY", 0, 0, "")
    assert (found.traceparent, found.session, found.completed_despite_cancel) == ("", "", False)
    assert not found.HasField("result") and not found.HasField("last_failure")


@pytest.mark.parametrize("how", ["delay", "run_time"])
async def test_a_job_is_leased_when_it_is_due_and_never_before(told: Tenant, how: str) -> None:
    worker, probe = await told.worker(), await told.create(queue="other")
    # Asks for it from before it is there.
    poll = asyncio.ensure_future(worker.one(wait=15.0))
    await worker.waiting()
    if how == "delay":
        job = await told.create(delay=1.0)
    else:
        job = await told.create(run_time=after(probe, 1.5))
        assert job.run_time == job.due_time
    assert state_name(job.state) == "SCHEDULED"
    assert (await poll).job == job.name
    leased = await told.get(job)
    late_s = (leased.lease_time.ToDatetime() - job.due_time.ToDatetime()).total_seconds()
    assert 0 <= late_s < 5.0, late_s


async def test_ready_is_derived_from_the_clock(tenant: Tenant) -> None:
    job = await tenant.create(delay=1.0)

    async def states() -> tuple[str, list[str]]:
        listed = (await tenant.jobs.ListJobs(jobs_pb2.ListJobsRequest(state=jobs_pb2.JOB_STATE_READY))).jobs
        return await tenant.state(job), [each.name for each in listed]

    assert await states() == ("SCHEDULED", [])

    async def ready() -> bool:
        return await states() == ("READY", [job.name])

    await eventually(ready)


async def test_priority_orders_what_waits(tenant: Tenant) -> None:
    low, usual, high = [(await tenant.create(priority=p)).name for p in (0, 4, 9)]
    second_high = (await tenant.create(priority=9)).name
    worker = await tenant.worker()
    await tenant.ready([low, usual, high, second_high])
    assert [lease.job for lease in await worker.some(4)] == [high, second_high, usual, low]


async def test_the_same_request_again_gets_the_same_job(tenant: Tenant) -> None:
    request = creation("t", request_id="r", data=b"x", labels={"a": "1", "b": "2"}, headers={"x": "1", "y": "2"})
    first = await tenant.jobs.CreateJob(request)
    assert not first.existing
    again = await tenant.jobs.CreateJob(request)
    assert again.existing
    assert again.job == first.job

    worker = await tenant.worker()
    await worker.done(await worker.one(), data=b"done")
    later = await tenant.jobs.CreateJob(request)
    assert (later.existing, later.job.name, state_name(later.job.state)) == (True, first.job.name, "SUCCEEDED")
    assert await worker.lease(1) == []


async def test_the_order_of_a_map_makes_no_other_request(tenant: Tenant) -> None:
    labels = {f"k{i}": "v" for i in range(20)}
    first = await tenant.jobs.CreateJob(creation("t", request_id="r", labels=labels))
    again = await tenant.jobs.CreateJob(creation("t", request_id="r", labels=dict(reversed(labels.items()))))
    assert (again.existing, again.job.name) == (True, first.job.name)


@pytest.mark.parametrize(
    "other",
    [
        creation("u", request_id="r"),
        creation("t", request_id="r", data=b"y"),
        creation("t", request_id="r", delay=0.0),
        creation("t", request_id="r", priority=4),
    ],
    ids=["type", "payload", "delay", "priority"],
)
async def test_another_request_with_the_same_id_is_refused(tenant: Tenant, other: jobs_pb2.CreateJobRequest) -> None:
    first = await tenant.jobs.CreateJob(creation("t", request_id="r"))
    found = await refusal(tenant.jobs.CreateJob(other))
    assert found.case == ("ALREADY_EXISTS", "REQUEST_ID_REUSED"), found
    assert found.domain == "rota"
    jobs = (await tenant.jobs.ListJobs(jobs_pb2.ListJobsRequest())).jobs
    assert [job.name for job in jobs] == [first.job.name]


async def test_request_ids_are_for_one_method(tenant: Tenant) -> None:
    one = await tenant.jobs.CreateJob(creation("t", request_id="r"))
    many = await tenant.jobs.BatchCreateJobs(batch(creation("t"), request_id="r"))
    assert many.jobs[0].name != one.job.name


async def test_fifty_equal_requests_at_once_make_one_job(tenant: Tenant) -> None:
    request = creation("t", request_id="r")
    answers = await asyncio.gather(*(tenant.jobs.CreateJob(request) for _ in range(50)))
    assert len({answer.job.name for answer in answers}) == 1
    assert sum(not answer.existing for answer in answers) == 1
    assert len((await tenant.jobs.ListJobs(jobs_pb2.ListJobsRequest())).jobs) == 1


async def test_a_race_of_two_bodies_has_one_winner(tenant: Tenant) -> None:
    calls = [tenant.jobs.CreateJob(creation(type, request_id="r")) for type in ("t", "u") * 10]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    made = {answer.job.type for answer in answers if not isinstance(answer, BaseException)}
    assert len(made) == 1
    refused = [answer for answer in answers if isinstance(answer, BaseException)]
    assert len(refused) == 10
    assert len((await tenant.jobs.ListJobs(jobs_pb2.ListJobsRequest())).jobs) == 1


async def test_a_refused_request_leaves_its_id_free(tenant: Tenant) -> None:
    await refusal(tenant.jobs.CreateJob(creation("", request_id="r")))
    assert not (await tenant.jobs.CreateJob(creation("t", request_id="r"))).existing


async def test_a_batch_is_repeated_as_a_whole(tenant: Tenant) -> None:
    request = batch(*(creation("t", data=bytes([i])) for i in range(5)), request_id="r")
    first = await tenant.jobs.BatchCreateJobs(request)
    again = await tenant.jobs.BatchCreateJobs(request)
    assert again.jobs == first.jobs
    assert [job.payload.data for job in again.jobs] == [bytes([i]) for i in range(5)]
    found = await refusal(tenant.jobs.BatchCreateJobs(batch(creation("t"), request_id="r")))
    assert found.case == ("ALREADY_EXISTS", "REQUEST_ID_REUSED")


async def test_a_thousand_jobs_in_one_call(tenant: Tenant) -> None:
    requests = [creation("t", data=str(i).encode(), priority=i % 10) for i in range(1000)]
    answer = await tenant.jobs.BatchCreateJobs(batch(*requests))
    assert [job.payload.data for job in answer.jobs] == [str(i).encode() for i in range(1000)]
    assert len({job.name for job in answer.jobs}) == 1000
    found = await tenant.get(answer.jobs[777])
    assert (found.payload.data, found.priority) == (b"777", 7)


async def test_names_only(tenant: Tenant) -> None:
    answer = await tenant.jobs.BatchCreateJobs(batch(creation("t", data=b"x"), creation("u"), names_only=True))
    assert list(answer.jobs) == [jobs_pb2.Job(name=job.name) for job in answer.jobs]
    assert [(await tenant.get(job)).type for job in answer.jobs] == ["t", "u"]


async def test_a_batch_is_all_or_none(tenant: Tenant) -> None:
    await tenant.create(dedupe=common_pb2.Dedupe(key="k"))
    holding = creation("t", dedupe=common_pb2.Dedupe(key="k", on_conflict=2))
    found = await refusal(tenant.jobs.BatchCreateJobs(batch(creation("u"), holding, creation("v"))))
    assert found.case == ("ALREADY_EXISTS", "RESOURCE_EXISTS"), found
    assert len((await tenant.jobs.ListJobs(jobs_pb2.ListJobsRequest())).jobs) == 1


async def test_one_job_for_a_key_as_long_as_it_lives(tenant: Tenant) -> None:
    request = creation("t", dedupe=common_pb2.Dedupe(key="k"))
    first = await tenant.jobs.CreateJob(request)
    again = await tenant.jobs.CreateJob(creation("t", data=b"other", dedupe=common_pb2.Dedupe(key="k")))
    assert (again.existing, again.job) == (True, first.job)

    failing = creation("t", dedupe=common_pb2.Dedupe(key="k", on_conflict=2))
    found = await refusal(tenant.jobs.CreateJob(failing))
    assert found.case == ("ALREADY_EXISTS", "RESOURCE_EXISTS"), found
    assert found.resource == found.metadata["holder"] == first.job.name

    worker = await tenant.worker()
    await worker.done(await worker.one())
    after_it = await tenant.jobs.CreateJob(request)
    assert (after_it.existing, after_it.job.name == first.job.name) == (False, False)


async def test_a_window_outlives_the_job_and_ends(tenant: Tenant) -> None:
    request = creation("t", dedupe=common_pb2.Dedupe(key="k", window=span(2.0)))
    first = await tenant.jobs.CreateJob(request)
    worker = await tenant.worker()
    await worker.done(await worker.one())
    assert (await tenant.jobs.CreateJob(request)).job.name == first.job.name

    async def free() -> bool:
        return not (await tenant.jobs.CreateJob(request)).existing

    await eventually(free)


SCOPES = [
    (common_pb2.DEDUPE_SCOPE_UNSPECIFIED, {"queue": "other"}, {"type": "u"}),
    (common_pb2.DEDUPE_SCOPE_TYPE, {"queue": "other"}, {"type": "u"}),
    (common_pb2.DEDUPE_SCOPE_QUEUE, {"type": "u"}, {"queue": "other"}),
    (common_pb2.DEDUPE_SCOPE_TENANT, {"type": "u", "queue": "other"}, None),
]


@pytest.mark.parametrize(("scope", "same", "apart"), SCOPES)
async def test_a_key_has_a_scope(
    tenant: Tenant, scope: common_pb2.DedupeScope, same: dict[str, str], apart: dict[str, str] | None
) -> None:
    dedupe = common_pb2.Dedupe(key="k", scope=scope)
    first = (await tenant.jobs.CreateJob(creation(dedupe=dedupe))).job.name
    assert (await tenant.jobs.CreateJob(creation(**{"type": "t"} | same, dedupe=dedupe))).job.name == first
    if apart is not None:
        assert (await tenant.jobs.CreateJob(creation(**{"type": "t"} | apart, dedupe=dedupe))).job.name != first


async def test_keys_within_one_batch_and_mixed_with_plain_jobs(tenant: Tenant) -> None:
    keyed = creation("t", dedupe=common_pb2.Dedupe(key="k"))
    answer = await tenant.jobs.BatchCreateJobs(batch(keyed, creation("t"), keyed, request_id="r"))
    a, b, c = (job.name for job in answer.jobs)
    assert a == c != b
    again = await tenant.jobs.BatchCreateJobs(batch(keyed, creation("t"), keyed, request_id="r"))
    assert [job.name for job in again.jobs] == [a, b, a]
    assert len((await tenant.jobs.ListJobs(jobs_pb2.ListJobsRequest())).jobs) == 2


async def test_many_at_once_with_one_key_make_one_job(tenant: Tenant) -> None:
    request = creation("t", dedupe=common_pb2.Dedupe(key="k"))
    answers = await asyncio.gather(*(tenant.jobs.CreateJob(request) for _ in range(20)))
    assert len({answer.job.name for answer in answers}) == 1


async def test_a_bare_id_and_capitals_name_a_job_too(tenant: Tenant) -> None:
    job = await tenant.create()
    for name in (job.name.removeprefix("jobs/"), job.name.removeprefix("jobs/").upper()):
        assert await tenant.get(name) == job


async def test_pages_hold_every_job_once_newest_first(tenant: Tenant) -> None:
    names = [(await tenant.create("t" if i % 2 else "u", queue=f"q{i % 3}")).name for i in range(7)]
    worker = await tenant.worker(["q0"])
    await worker.done(await worker.one())
    await worker.done(await worker.one(), failed="E", retryable=False)

    async def pages(size: int, **filter: Any) -> list[list[str]]:
        found, token = [], ""
        while True:
            request = jobs_pb2.ListJobsRequest(page_size=size, page_token=token, **filter)
            answer = await tenant.jobs.ListJobs(request)
            found.append([job.name for job in answer.jobs])
            token = answer.next_page_token
            if not token:
                return found

    newest = sorted(names, reverse=True)
    assert newest == names[::-1]
    assert await pages(0) == await pages(50) == await pages(5000) == await pages(7) == [newest]
    assert await pages(3) == [newest[:3], newest[3:6], newest[6:]]
    assert await pages(2, type="t") == [newest[1:4:2], newest[5:6]]
    assert await pages(1, queue="q0", state=jobs_pb2.JOB_STATE_DEAD) != [[]]
    done = [*await pages(9, state=jobs_pb2.JOB_STATE_SUCCEEDED), *await pages(9, state=jobs_pb2.JOB_STATE_DEAD)]
    assert len({name for page in done for name in page}) == 2
    assert await pages(9, state=jobs_pb2.JOB_STATE_LEASED) == [[]]


async def test_a_page_goes_on_after_its_position_whatever_happened_to_the_row(tenant: Tenant) -> None:
    names = await tenant.create_many(4)
    newest = sorted(names, reverse=True)
    first = await tenant.jobs.ListJobs(jobs_pb2.ListJobsRequest(page_size=2))
    assert [job.name for job in first.jobs] == newest[:2]
    # The job at the position moves to another table, and newer ones come.
    await tenant.cancel(newest[1])
    await tenant.create()
    following = await tenant.jobs.ListJobs(jobs_pb2.ListJobsRequest(page_token=first.next_page_token))
    assert [job.name for job in following.jobs] == newest[2:]


async def test_pages_of_attempts(tenant: Tenant) -> None:
    job = await tenant.create()
    assert await tenant.attempts(job) == []
    worker = await tenant.worker()
    for _ in range(5):
        await worker.done(await worker.one(), released=0)
    await worker.one()
    numbers, token = [], ""
    while True:
        request = jobs_pb2.ListAttemptsRequest(parent=job.name, page_size=2, page_token=token)
        answer = await tenant.jobs.ListAttempts(request)
        numbers.append([attempt.number for attempt in answer.attempts])
        token = answer.next_page_token
        if not token:
            break
    assert numbers == [[1, 2], [3, 4], [5, 6]]
    other = await tenant.create()
    request.parent = other.name
    assert (await refusal(tenant.jobs.ListAttempts(request))).reason == "PAGE_TOKEN_INVALID"


async def test_waiting_is_bounded(tenant: Tenant) -> None:
    job = await tenant.create()
    loop = asyncio.get_running_loop()
    for timeout in (0.0, 0.3):
        began = loop.time()
        answer = await tenant.jobs.WaitJob(jobs_pb2.WaitJobRequest(name=job.name, timeout=span(timeout)))
        assert state_name(answer.job.state) == "READY"
        assert timeout <= loop.time() - began + 0.01 < 5.0


async def test_whoever_stops_waiting_leaves_nothing_behind(rota: Running, tenant: Tenant) -> None:
    job = await tenant.create()
    calls = [tenant.jobs.WaitJob(jobs_pb2.WaitJobRequest(name=job.name)) for _ in range(20)]
    waiters = rota.node.memory._finish_waiters
    id = job.name.removeprefix("jobs/")
    await eventually(lambda: len(waiters.get(id, ())) == 20)
    for call in calls:
        call.cancel()
    await eventually(lambda: id not in waiters)


async def test_a_job_that_ended_is_not_waited_for(tenant: Tenant) -> None:
    job = await tenant.create()
    await tenant.cancel(job)
    assert state_name((await tenant.ended(job)).state) == "CANCELLED"


async def test_a_job_keeps_the_trace_context_of_its_creator(tenant: Tenant) -> None:
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    metadata = [("traceparent", traceparent), ("tracestate", "a=1")]
    job = (await tenant.jobs.CreateJob(creation(), metadata=metadata)).job
    batch_request = jobs_pb2.BatchCreateJobsRequest(requests=[creation()])
    second = (await tenant.jobs.BatchCreateJobs(batch_request, metadata=metadata)).jobs[0]
    assert job.traceparent == second.traceparent == (await tenant.get(job)).traceparent == traceparent
    for lease in await (await tenant.worker()).some(2):
        assert (lease.traceparent, lease.tracestate) == (traceparent, "a=1")
    long = (await tenant.jobs.CreateJob(creation(), metadata=[("traceparent", "x" * 3000)])).job
    assert len((await tenant.get(long)).traceparent) <= 128
