"""Bounds of a job's life: run, start_by, total; and what cuts an attempt short."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from rota_sdk.gen.rota.admin.v1 import admin_pb2
from rota_sdk.gen.rota.v1 import common_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2

from .running import Refusal, Running, Tenant, eventually, now, span, state_name

pytestmark = pytest.mark.asyncio(loop_scope="session")

Start = Callable[..., Awaitable[Running]]
NO_WAIT = common_pb2.RetryPolicy(max_attempts=2, initial_backoff=span(0), max_backoff=span(0))


def timeouts(**spans_s: float) -> common_pb2.Timeouts:
    return common_pb2.Timeouts(**{name: span(value) for name, value in spans_s.items()})


async def test_an_attempt_that_runs_too_long_is_cut(tenant: Tenant) -> None:
    job = await tenant.create(timeouts=timeouts(run=1.5), retry_policy=NO_WAIT)
    worker, heir = await tenant.worker(), await tenant.worker()
    began = now()
    lease = await worker.one()
    async with worker.stream() as stream:
        again = await heir.one(wait=10)
        # As long as the second runs.
        assert await tenant.outcomes(job) == ["TIMED_OUT", "UNSPECIFIED"]
        late = await worker.outcome(lease)
        assert now() - began > 1.4
        assert (again.job, again.attempt, again.attempts_counted) == (job.name, 2, 1)
        directive = await stream.directive()
        assert (directive.kind, directive.job, directive.fence) == (
            worker_pb2.DIRECTIVE_KIND_LOST,
            lease.job,
            lease.fence,
        )
        # Repeated until acknowledged, as any other.
        assert list((await stream.beat()).directives) == [directive]
        held = worker_pb2.HeldLease(job=lease.job, fence=lease.fence)
        inventory = worker_pb2.Inventory(leases=[held], batches=worker.batches)
        ack = await stream.beat(acked_directives=[directive.id], inventory=inventory)
        assert list(ack.directives) == []
        assert list(ack.lost) == [held]
    assert isinstance(late, Refusal)
    assert (late.reason, late.metadata) == ("STALE_FENCE", {"cause": "REASSIGNED", "fence": str(again.fence)})
    first = (await tenant.attempts(job))[0]
    assert first.failure.type == "TimedOut"
    ran_s = (first.end_time.ToDatetime() - first.lease_time.ToDatetime()).total_seconds()
    assert 1.5 <= ran_s < 6.0

    # The second is cut too, and was the last.
    found = await tenant.ended(job)
    assert (state_name(found.state), found.attempts_counted) == ("DEAD", 2)
    assert found.last_failure.type == "TimedOut"


async def test_an_attempt_that_ends_in_time_is_not_cut(tenant: Tenant) -> None:
    job = await tenant.create(timeouts=timeouts(run=2.0))
    worker = await tenant.worker()
    await worker.done(await worker.one())
    again = await tenant.create(timeouts=timeouts(run=2.0), retry_policy=NO_WAIT)
    await worker.done(await worker.one(), failed="E")
    second = await worker.one()
    reaper = tenant.coordinator.node.reaper
    until = (reaper.last_ok or 0.0) + 1.2
    await eventually(lambda: (reaper.last_ok or 0.0) > until)
    # The second attempt has two seconds of its own.
    assert await tenant.outcomes(job) == ["SUCCEEDED"]
    assert (await tenant.outcomes(again))[0] == "FAILED"
    assert second.attempt == 2


async def test_a_run_timeout_outlives_its_coordinator(start: Start) -> None:
    first = await start(session_ttl_s=30.0)
    tenant = await first.tenant()
    worker = await tenant.worker()
    job = await tenant.create(timeouts=timeouts(run=1.0), retry_policy=NO_WAIT)
    await worker.one()
    await worker.prove()
    await first.node.drain()
    second = await start(first.url, session_ttl_s=30.0)
    heir = second.the_same(tenant)

    async def cut() -> bool:
        return (await heir.outcomes(job))[0] == "TIMED_OUT"

    await eventually(cut, every_s=0.1)


async def test_a_job_that_nobody_starts_in_time_expires(tenant: Tenant) -> None:
    job = await tenant.create(timeouts=timeouts(start_by=1.0), queue="nobodys")
    later = await tenant.create(timeouts=timeouts(start_by=1.0), delay=3600.0)
    found = await tenant.ended(job)
    assert (state_name(found.state), found.attempt) == ("EXPIRED", 0)
    assert "start_by" in found.reason
    late_s = (found.finish_time.ToDatetime() - found.due_time.ToDatetime()).total_seconds()
    assert 1.0 <= late_s < 6.0
    assert await tenant.attempts(job) == []
    worker = await tenant.worker(["nobodys"])
    assert await worker.lease(1) == []
    assert await tenant.state(later) == "SCHEDULED"


@pytest.mark.parametrize("bound", ["start_by", "total"])
async def test_what_a_paused_queue_holds_back_ends_in_time(tenant: Tenant, bound: str) -> None:
    worker = await tenant.worker(["q"])
    await tenant.admin.PauseQueue(admin_pb2.PauseQueueRequest(name="queues/q"))
    job = await tenant.create(queue="q", timeouts=timeouts(**{bound: 1.0}))
    poll = asyncio.ensure_future(worker.lease(wait=20.0))
    found = await tenant.ended(job)
    assert (state_name(found.state), found.attempt) == ("EXPIRED" if bound == "start_by" else "DEAD", 0)
    await tenant.admin.ResumeQueue(admin_pb2.ResumeQueueRequest(name="queues/q"))
    other = await tenant.create(queue="q")
    assert [lease.job for lease in await poll] == [other.name]


async def test_start_by_holds_through_attempts_that_do_not_count(tenant: Tenant) -> None:
    """A job that was given back is still not started; a parked poll does not start it late, nor spin on it."""
    worker = await tenant.worker()
    job = await tenant.create(timeouts=timeouts(start_by=2.0))
    missed = tenant.coordinator.count("rota.claims.missed")
    lease = await worker.one()
    await worker.done(lease, released=2.1)
    assert await worker.lease(1, 3.0) == []
    found = await tenant.ended(job)
    assert (state_name(found.state), found.attempt, found.attempts_counted) == ("EXPIRED", 1, 0)
    assert tenant.coordinator.count("rota.claims.missed") - missed < 10


async def test_start_by_is_over_once_an_attempt_counted(tenant: Tenant) -> None:
    worker = await tenant.worker()
    job = await tenant.create(timeouts=timeouts(start_by=1.5), retry_policy=NO_WAIT)
    await worker.done(await worker.one(), failed="E", retry_after=2.0)
    again = await worker.one(wait=5)
    assert (again.job, again.attempt) == (job.name, 2)


async def test_many_expire_together(tenant: Tenant) -> None:
    names = await tenant.create_many(600, timeouts=timeouts(start_by=1.0), queue="nobodys")
    await asyncio.gather(*(tenant.ended(name) for name in (names[0], names[-1], names[300])))
    await eventually(lambda: tenant.coordinator.count("rota.jobs.finished", "expired") >= 600)


async def test_no_retry_is_planned_past_the_total(tenant: Tenant) -> None:
    worker = await tenant.worker()
    job = await tenant.create(timeouts=timeouts(total=30), retry_policy=NO_WAIT)
    await worker.done(await worker.one(), failed="E", retry_after=20)
    assert await tenant.state(job) == "RETRY_WAIT"
    late = await tenant.create(timeouts=timeouts(total=30), retry_policy=NO_WAIT)
    await worker.done(await worker.one(), failed="E", retry_after=40)
    found = await tenant.get(late)
    assert (state_name(found.state), found.attempts_counted) == ("DEAD", 1)
    assert "total" in found.reason


async def test_no_attempt_begins_past_the_total(tenant: Tenant) -> None:
    """Neither the first nor another one: what nobody took until then is dead, and used no attempt by that."""
    worker = await tenant.worker(["default", "nobodys"])
    retried = await tenant.create(timeouts=timeouts(total=2.0), retry_policy=NO_WAIT)
    await worker.done(await worker.one(), failed="E", retry_after=0.3)
    waiting = await tenant.create(timeouts=timeouts(total=1.0), queue="nobodys")
    for job, used in ((retried, ["FAILED"]), (waiting, [])):
        found = await tenant.ended(job)
        assert (state_name(found.state), found.attempts_counted) == ("DEAD", len(used))
        assert "total" in found.reason
        assert await tenant.outcomes(job) == used
    assert await worker.lease(10, 0.2) == []


async def test_a_lost_worker_past_the_total_is_the_end(start: Start) -> None:
    coordinator = await start(session_ttl_s=2.0)
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    job = await tenant.create(timeouts=timeouts(total=1.9), retry_policy=NO_WAIT)
    lease = await worker.one()
    assert lease.HasField("deadline")
    await worker.prove()
    found = await tenant.ended(job)
    assert state_name(found.state) == "DEAD"
    assert await tenant.outcomes(job) == ["LEASE_LOST"]


async def test_backoff_is_drawn_once_and_grows(tenant: Tenant) -> None:
    policy = common_pb2.RetryPolicy(max_attempts=5, initial_backoff=span(100), max_backoff=span(300), multiplier=2)
    worker = await tenant.worker()
    names = await tenant.create_many(30, retry_policy=policy)
    for lease in await worker.some(30):
        await worker.done(lease, failed="E")
    waits = []
    probe = await tenant.create(delay=3600.0)
    for name in names:
        job = await tenant.get(name)
        assert await tenant.get(name) == job
        waits.append((job.due_time.ToDatetime() - probe.create_time.ToDatetime()).total_seconds())
    assert -20 < min(waits) < 40 < 60 < max(waits) <= 100
