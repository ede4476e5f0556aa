"""A database that goes away and comes back, too many callers, and callers that go away by the thousand."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import grpc
import psycopg
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from rota_sdk.gen.rota.v1 import jobs_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2

from rota.coordinator import commits

from .running import Running, creation, eventually, refusal, result, state_name

pytestmark = pytest.mark.asyncio(loop_scope="session")

Start = Callable[..., Awaitable[Running]]


@asynccontextmanager
async def outage(url: str) -> AsyncIterator[None]:
    """Cuts every connection to the database, and lets none in until the end of the block."""
    server, name = url.rsplit("/", 1)
    async with await psycopg.AsyncConnection.connect(f"{server}/postgres", autocommit=True) as conn:
        await conn.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")  # type: ignore[arg-type]
        await conn.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        try:
            yield
        finally:
            await conn.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")  # type: ignore[arg-type]


async def test_an_outage_is_told_and_nothing_is_lost(start: Start) -> None:
    coordinator = await start(session_ttl_s=2.0, shard_term_s=1.5)
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    kept, waiting = await tenant.create(), await tenant.create(queue="later")
    lease = await worker.one()
    await worker.prove()
    health = health_pb2_grpc.HealthStub(coordinator.channel)
    # Longer than all of this takes.
    poll = asyncio.ensure_future(tenant.work.Lease(worker.request(wait=50, poller=1), timeout=60.0))

    async with outage(coordinator.url):
        request = creation(request_id="r")
        completing = worker_pb2.CompleteJobRequest(
            session=worker.session, job=lease.job, fence=lease.fence, succeeded=worker_pb2.Succeeded()
        )
        for call in (
            tenant.jobs.CreateJob(request),
            tenant.jobs.GetJob(jobs_pb2.GetJobRequest(name=kept.name)),
            tenant.jobs.ListJobs(jobs_pb2.ListJobsRequest()),
            tenant.cancel(waiting),
            tenant.work.CompleteJob(completing),
            worker.beat(),
        ):
            found = await refusal(call)
            assert found.case == ("UNAVAILABLE", "STORE_UNAVAILABLE"), found
            assert found.retry_after_s is not None
            assert 0 < found.retry_after_s <= 5
            assert "password" not in found.message
        (status,) = await worker.settle(result(lease))
        assert status.status.code == grpc.StatusCode.UNAVAILABLE.value[0]

        async def unhealthy() -> bool:
            answer = await health.Check(health_pb2.HealthCheckRequest())
            return bool(answer.status == health_pb2.HealthCheckResponse.NOT_SERVING)

        await eventually(unhealthy)
        # Longer than the session's life, which nobody could have prolonged.
        await asyncio.sleep(1.5)

    async def healthy() -> bool:
        # A worker beats whatever is; here its session's life is short.
        with suppress(grpc.aio.AioRpcError):
            await worker.beat()
        return not await unhealthy()

    await eventually(healthy, within_s=15.0, every_s=0.1)
    async with worker.alive():
        # The call in doubt is repeated as it was.
        job = (await tenant.jobs.CreateJob(request)).job
        assert (await tenant.jobs.CreateJob(request)).job.name == job.name
        assert [each.job for each in (await asyncio.wait_for(poll, 15)).leases] == [job.name]
        ended = await worker.outcome(lease)
        assert isinstance(ended, worker_pb2.ResultStatus), ended
    assert await tenant.outcomes(kept) == ["SUCCEEDED"]
    assert state_name((await tenant.get(waiting)).state) == "READY"


async def test_too_many_writes_are_told_to_slow_down(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = await start()
    tenant = await coordinator.tenant()
    await tenant.create()
    worker = await tenant.worker()
    lease = await worker.one()
    monkeypatch.setattr(commits, "WAITING_MAX", 0)
    for found in (await refusal(tenant.jobs.CreateJob(creation())), await worker.outcome(lease)):
        assert not isinstance(found, worker_pb2.ResultStatus)
        assert found.case == ("RESOURCE_EXHAUSTED", "RATE_LIMITED"), found
        assert found.retry_after_s == 1.0
    monkeypatch.undo()
    worker.held[lease.job, lease.fence] = lease
    await worker.done(lease)


async def test_callers_that_go_leave_nothing_behind(start: Start) -> None:
    coordinator = await start(session_ttl_s=110.0)
    tenant = await coordinator.tenant()
    workers = [await tenant.worker() for _ in range(4)]
    dispatcher = coordinator.node.dispatcher
    rng = coordinator.node.clock.rng

    async def polls(count: int) -> None:
        for number in range(count):
            calls = [worker.poll(wait=30, poller=number % 64) for worker in workers for _ in range(2)]
            if rng.random() < 0.5:
                await asyncio.sleep(rng.uniform(0, 0.004))
            for call in calls:
                call.cancel()

    async def streams(count: int) -> None:
        for number in range(count):
            call = tenant.work.Heartbeat(None)
            with suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
                hello = worker_pb2.Hello(session=workers[number % 4].session)
                await call.write(worker_pb2.HeartbeatRequest(hello=hello))
                if rng.random() < 0.7:
                    await call.read()
            call.cancel()

    def handlers() -> int:
        return sum(not task.done() for task in asyncio.all_tasks())

    async def settled() -> None:
        await eventually(lambda: (dispatcher.parked, dispatcher._by_call, dispatcher._waiting._groups) == (0, {}, {}))
        await eventually(lambda: all(member.push is None for member in coordinator.node.memory.members))

    await polls(20)
    await streams(20)
    await settled()
    gc.collect()
    before = handlers()
    await polls(150)
    await streams(150)
    await settled()
    gc.collect()
    await eventually(lambda: handlers() <= before)
    # And all of them are served still.
    await tenant.create_many(4)
    for worker in workers:
        assert await worker.one()
