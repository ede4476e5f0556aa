"""A session: how long it lives, what it is told, and what becomes of its leases when it ends."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from rota_sdk.gen.rota.v1 import common_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2

from .running import Refusal, Running, Tenant, now, refusal, seconds, span

pytestmark = pytest.mark.asyncio(loop_scope="session")

Start = Callable[..., Awaitable[Running]]


async def test_a_dead_session_loses_its_leases_and_they_are_retried_at_once(start: Start) -> None:
    coordinator = await start(session_ttl_s=1.5)
    tenant = await coordinator.tenant()
    dead = await tenant.worker()
    long = common_pb2.RetryPolicy(initial_backoff=span(3600), max_backoff=span(3600))
    job = await tenant.create(retry_policy=long)
    lease = await dead.one()
    began = now()
    await dead.prove()
    parked_poll = asyncio.ensure_future(dead.poll(wait=30))
    heir = await tenant.worker()
    async with heir.alive():
        again = await heir.one(wait=10)
        assert now() - began > 1.4
        assert (again.job, again.attempt, again.attempts_counted) == (job.name, 2, 1)
        assert await tenant.outcomes(job) == ["LEASE_LOST", "UNSPECIFIED"]
        # Its poll is answered, and all else of it is refused, but that it leaves.
        assert not (await asyncio.wait_for(parked_poll, 5)).leases
        assert await dead.close() == 0
        for call in (dead.poll(), dead.beat()):
            assert (await refusal(call)).case == ("NOT_FOUND", "SESSION_GONE")
        late = await dead.outcome(lease)
        assert isinstance(late, Refusal)
        assert (late.reason, late.metadata["cause"]) == ("STALE_FENCE", "REASSIGNED")
        assert late.metadata["fence"] == str(again.fence)
        await heir.done(again)


async def test_beats_alone_keep_a_session_and_its_leases(start: Start) -> None:
    coordinator = await start(session_ttl_s=1.5)
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    job = await tenant.create()
    await worker.one()
    until = now() + 2.5
    while now() < until:
        ack = await worker.beat(worker.inventory)
        assert (ack.lost, seconds(ack.renewed_for)) == ([], 1.5)
        await asyncio.sleep(0.2)
    assert await tenant.outcomes(job) == ["UNSPECIFIED"]


async def test_closing_gives_back_what_is_held(tenant: Tenant) -> None:
    jobs = await tenant.create_many(3)
    worker, heir = await tenant.worker(), await tenant.worker()
    leases = await worker.some(2)
    poll = asyncio.ensure_future(worker.poll(wait=30, poller=1, capacity=1))
    lease = (await poll).leases[0]
    parked_poll = asyncio.ensure_future(worker.poll(wait=30, poller=2))
    await worker.waiting(poller=2)
    began = now()
    assert await worker.close() == 3
    assert not (await parked_poll).leases
    found = await heir.some(3)
    # No TTL has passed.
    assert now() - began < 10.0
    assert sorted(each.job for each in found) == sorted(jobs)
    for each in (*leases, lease):
        assert await tenant.outcomes(each) == ["RELEASED", "UNSPECIFIED"]
        assert (await tenant.get(each)).attempts_counted == 0
        late = await worker.outcome(each)
        assert isinstance(late, Refusal)
        assert (late.reason, late.metadata["cause"]) == ("STALE_FENCE", "RELEASED")
    drain = worker_pb2.CloseSessionRequest(session=worker.opened.session, mode=worker_pb2.CLOSE_MODE_DRAIN)
    for call in (worker.poll(), worker.beat(), tenant.work.CloseSession(drain)):
        assert (await refusal(call)).case == ("NOT_FOUND", "SESSION_GONE")


async def test_a_draining_session_gets_no_new_jobs_and_keeps_its_own(tenant: Tenant) -> None:
    await tenant.create()
    worker, other = await tenant.worker(), await tenant.worker()
    lease = await worker.one()
    parked_poll = asyncio.ensure_future(worker.poll(wait=30))
    await worker.waiting()
    assert await worker.close("DRAIN") == 0
    answer = await asyncio.wait_for(parked_poll, 10)
    assert not answer.leases
    job = await tenant.create()
    began = now()
    answer = await worker.poll(wait=10)
    assert now() - began < 5.0
    # It need not come back soon.
    assert (len(answer.leases), seconds(answer.next_poll_after)) == (0, 1.0)
    assert (await other.one()).job == job.name
    assert (await worker.prove()).lost == []
    await worker.done(lease)
    assert await worker.close("DRAIN") == 0
    assert await worker.close() == 0


async def test_a_session_is_what_its_request_id_says(tenant: Tenant) -> None:
    request = worker_pb2.OpenSessionRequest(worker="w", queues=["q"], types=["t"], slots=3, request_id="r")
    first = await tenant.work.OpenSession(request)
    again = await tenant.work.OpenSession(request)
    assert again == first
    other = await tenant.work.OpenSession(worker_pb2.OpenSessionRequest(worker="w", queues=["q"], request_id="s"))
    assert other.session != first.session
    assert other.epoch > first.epoch
    changed = worker_pb2.OpenSessionRequest(worker="w", queues=["q", "r"], types=["t"], slots=3, request_id="r")
    found = await refusal(tenant.work.OpenSession(changed))
    assert found.case == ("ALREADY_EXISTS", "REQUEST_ID_REUSED"), found


async def test_a_session_is_told_its_timing(tenant: Tenant) -> None:
    opened = (await tenant.worker(protocol_version=7)).opened
    assert opened.session.startswith("sessions/")
    assert opened.epoch > 0
    times = [opened.lease_ttl, opened.delivery_ttl, opened.beat_interval, opened.max_wait]
    assert [seconds(each) for each in times] == [15, 15, 5, 50]
    assert (opened.max_results, opened.protocol_version) == (500, 1)


async def test_beats_are_no_rarer_than_what_the_way_bears(start: Start) -> None:
    """However long a session may be silent, proxies forget what passes nothing for a minute."""
    tenant = await (await start(session_ttl_s=600.0)).tenant()
    opened = (await tenant.worker()).opened
    assert (seconds(opened.lease_ttl), seconds(opened.beat_interval)) == (600, 30)
