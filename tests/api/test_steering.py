"""RetryJob and RescheduleJob: a job moved earlier starts at once, one moved later not before. And poison work ends."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from rota_sdk.gen.rota.v1 import common_pb2, jobs_pb2

from rota.domain.model import Role

from .running import Refusal, Running, Tenant, Worker, eventually, refusal, span, state_name
from .test_validation import check_invalid

pytestmark = pytest.mark.asyncio(loop_scope="session")

SOON_S = 5.0


async def retry(tenant: Tenant, job: Any, *, new_generation: bool = False) -> jobs_pb2.Job:
    name = job if isinstance(job, str) else job.name
    request = jobs_pb2.RetryJobRequest(name=name, new_generation=new_generation)
    return (await tenant.jobs.RetryJob(request)).job


async def move(tenant: Tenant, job: jobs_pb2.Job, after_s: float) -> jobs_pb2.Job:
    """To an instant so long from now."""
    at = Timestamp()
    at.FromDatetime(datetime.now(UTC) + timedelta(seconds=after_s))
    return (await tenant.jobs.RescheduleJob(jobs_pb2.RescheduleJobRequest(name=job.name, run_time=at))).job


def policy(max_attempts: int, backoff_s: float = 0.0) -> common_pb2.RetryPolicy:
    return common_pb2.RetryPolicy(max_attempts=max_attempts, initial_backoff=span(backoff_s))


async def waits_for_retry(tenant: Tenant, worker: Worker, after_s: float) -> jobs_pb2.Job:
    job = await tenant.create(retry_policy=policy(3))
    await worker.done(await worker.one(), failed="Boom", retry_after=after_s)
    return job


def refused(found: Refusal, *words: str) -> None:
    assert found.case == ("FAILED_PRECONDITION", "INVALID_STATE"), found
    for word in words:
        assert word in found.message


@pytest.mark.parametrize("after_s", [9.0, 600.0])
async def test_a_job_that_waits_for_its_retry_starts_at_once(told: Tenant, after_s: float) -> None:
    """Whether memory has a timer for it already or not."""
    tenant, worker = told, await told.worker()
    job = await waits_for_retry(tenant, worker, after_s)
    assert await tenant.state(job) == "RETRY_WAIT"
    poll = asyncio.create_task(worker.lease(1, SOON_S))
    await worker.waiting()
    found = await retry(tenant, job)
    assert state_name(found.state) in ("READY", "LEASED")
    assert found.attempts_counted == 1
    (lease,) = await poll
    assert (lease.job, lease.attempt, lease.attempts_counted) == (job.name, 2, 1)


async def test_a_retry_repeated_changes_nothing(tenant: Tenant) -> None:
    worker = await tenant.worker()
    job = await waits_for_retry(tenant, worker, 600.0)
    first = await retry(tenant, job)
    assert await retry(tenant, job) == first


async def test_a_dead_job_starts_at_once_with_a_fresh_budget(told: Tenant) -> None:
    tenant, worker = told, await told.worker()
    job = await tenant.create(retry_policy=policy(1), data=b"body")
    await worker.done(await worker.one(), failed="Boom")
    client = await tenant.caller(Role.CLIENT)
    poll = asyncio.create_task(worker.lease(1, SOON_S))
    await worker.waiting()
    found = (await client.jobs.RetryJob(jobs_pb2.RetryJobRequest(name=job.name))).job
    assert state_name(found.state) in ("READY", "LEASED")
    assert found.attempts_counted == 0
    (lease,) = await poll
    assert (lease.payload.data, lease.effect_key, lease.attempts_counted) == (b"body", job.effect_key, 0)
    await worker.done(lease)
    assert await tenant.outcomes(job) == ["FAILED", "SUCCEEDED"]
    refused(await refusal(retry(tenant, job)), "SUCCEEDED")


async def test_a_dead_job_can_be_given_a_new_effect_key(tenant: Tenant) -> None:
    worker = await tenant.worker()
    job = await tenant.create(retry_policy=policy(1), effect_key="chosen")
    await worker.done(await worker.one(), failed="Boom")
    assert (await retry(tenant, job, new_generation=True)).effect_key == "chosen/1"
    assert (await worker.one()).effect_key == "chosen/1"


async def test_what_cannot_be_retried(tenant: Tenant, rota: Running) -> None:
    worker = await tenant.worker()
    waiting = await waits_for_retry(tenant, worker, 600.0)
    refused(await refusal(retry(tenant, waiting, new_generation=True)), "RETRY_WAIT", "new generation")
    assert await tenant.state(waiting) == "RETRY_WAIT"
    fresh = await tenant.create()
    refused(await refusal(retry(tenant, fresh)), "READY", "not been tried")
    lease = await worker.one()
    refused(await refusal(retry(tenant, fresh)), "LEASED")
    await worker.done(lease)
    later = await tenant.create(delay=60)
    refused(await refusal(retry(tenant, later)), "SCHEDULED", "reschedule")
    await tenant.cancel(later)
    refused(await refusal(retry(tenant, later)), "CANCELLED")
    stranger = await rota.tenant()
    assert (await refusal(retry(stranger, waiting))).case == ("NOT_FOUND", "RESOURCE_NOT_FOUND")
    check_invalid(await refusal(retry(tenant, "jobs/x")), "name")


@pytest.mark.parametrize("delay", [9.0, 3600.0])
async def test_a_job_moved_earlier_starts_at_once(told: Tenant, delay: float) -> None:
    tenant, worker = told, await told.worker()
    job = await tenant.create(delay=delay)
    poll = asyncio.create_task(worker.lease(1, SOON_S))
    await worker.waiting()
    found = await move(tenant, job, -86_400)
    assert state_name(found.state) in ("READY", "LEASED")
    (lease,) = await poll
    assert lease.job == job.name
    assert abs(lease.due_time.ToDatetime(UTC) - datetime.now(UTC)) < timedelta(seconds=20)


@pytest.mark.parametrize("delay", [0.0, 0.3])
async def test_a_job_moved_later_does_not_start_before(tenant: Tenant, delay: float) -> None:
    """Whether it is ready in memory or timed."""
    worker = await tenant.worker()
    job = await tenant.create(delay=delay)
    if not delay:
        await tenant.ready([job])
    found = await move(tenant, job, 2.0)
    assert state_name(found.state) == "SCHEDULED"
    (lease,) = await worker.lease(1, 5.0)
    assert lease.due_time == found.due_time
    assert datetime.now(UTC) >= found.due_time.ToDatetime(UTC) - timedelta(milliseconds=5)


async def test_what_is_counted_from_the_due_time_moves_with_it(tenant: Tenant) -> None:
    """Moved by an hour, a job with two seconds for its start is not too late in a minute."""
    timeouts = common_pb2.Timeouts(start_by=span(2), total=span(3))
    worker = await tenant.worker()
    job = await tenant.create(delay=0.2, timeouts=timeouts)
    await move(tenant, job, 3600)
    await asyncio.sleep(2.6)
    assert await tenant.state(job) == "SCHEDULED"
    await move(tenant, job, 0)
    assert (await worker.one()).job == job.name
    late = await tenant.create(delay=3600, timeouts=timeouts)
    await move(tenant, late, -2)
    assert state_name((await tenant.ended(late)).state) == "EXPIRED"


async def test_what_cannot_be_moved(tenant: Tenant, rota: Running) -> None:
    worker = await tenant.worker()
    waiting = await waits_for_retry(tenant, worker, 600.0)
    refused(await refusal(move(tenant, waiting, 60)), "RETRY_WAIT", "retry it")
    job = await tenant.create()
    lease = await worker.one()
    refused(await refusal(move(tenant, job, 60)), "LEASED", "not started")
    await worker.done(lease)
    refused(await refusal(move(tenant, job, 60)), "SUCCEEDED")
    later = await tenant.create(delay=60)
    stranger = await rota.tenant()
    assert (await refusal(move(stranger, later, 1))).case == ("NOT_FOUND", "RESOURCE_NOT_FOUND")
    check_invalid(await refusal(move(tenant, later, 3_700 * 86_400)), "run_time")
    nothing = jobs_pb2.RescheduleJobRequest(name=later.name)
    check_invalid(await refusal(tenant.jobs.RescheduleJob(nothing)), "run_time")
    far = jobs_pb2.RescheduleJobRequest(name=later.name, run_time=Timestamp(seconds=1 << 60))
    check_invalid(await refusal(tenant.jobs.RescheduleJob(far)), "run_time")


async def test_a_claim_and_a_move_at_once_have_one_winner(tenant: Tenant) -> None:
    """Either the job was moved, and nobody has it, or it was leased, and the move is refused."""
    worker = await tenant.worker()
    for _ in range(20):
        job = await tenant.create()
        leases, moved = await asyncio.gather(worker.lease(1, 0.3), move(tenant, job, 3600), return_exceptions=True)
        state = await tenant.state(job)
        if isinstance(moved, BaseException):
            assert state == "LEASED"
        else:
            assert (state, leases) == ("SCHEDULED", [])
            await tenant.cancel(job)


# Poison: work that kills whoever takes it, or never arrives, is bounded.


async def test_a_job_that_kills_its_worker_each_time_is_dead_after_its_attempts(tenant: Tenant) -> None:
    job = await tenant.create(retry_policy=policy(3))
    for _ in range(3):
        worker = await tenant.worker()
        await worker.one()
        await worker.dies()
        await eventually(lambda: _not_leased(tenant, job))
    assert await tenant.state(job) == "DEAD"
    assert await tenant.outcomes(job) == ["LEASE_LOST"] * 3


async def _not_leased(tenant: Tenant, job: jobs_pb2.Job) -> bool:
    return await tenant.state(job) != "LEASED"


async def test_a_job_that_is_always_given_back_is_dead_in_the_end(tenant: Tenant) -> None:
    """Twenty times without counting; and after a redrive twenty times again."""
    worker = await tenant.worker()
    job = await tenant.create(retry_policy=policy(1))
    for life in (1, 2):
        for _ in range(20):
            await worker.done(await worker.one(), released=0.0)
        found = await tenant.get(job)
        assert (state_name(found.state), found.attempts_counted, found.attempt) == ("READY", 0, 20 + 21 * (life - 1))
        await worker.done(await worker.one(), released=0.0)
        assert await tenant.state(job) == "DEAD"
        await retry(tenant, job)
    assert await tenant.outcomes(job) == ["RELEASED"] * 42


async def test_a_job_whose_answer_never_arrives_is_dead_in_the_end(tenant: Tenant) -> None:
    worker = await tenant.worker()
    job = await tenant.create(retry_policy=policy(1))
    for _ in range(21):
        # The worker has not received the answer before: it acknowledges none.
        answer = await worker.poll(wait=5.0, ack_batch=0)
        assert len(answer.leases) == 1
    await worker.poll(ack_batch=0)
    assert state_name((await tenant.ended(job)).state) == "DEAD"
    assert await tenant.outcomes(job) == ["UNDELIVERED"] * 21
