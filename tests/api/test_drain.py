"""A coordinator that leaves: polls answered, streams asked to move, outcomes taken to the last, shards handed over."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import grpc
import psycopg
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from rota_sdk.gen.rota.v1 import jobs_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2

from .running import Running, creation, eventually, refusal, seconds, span, state_name

pytestmark = pytest.mark.asyncio(loop_scope="session")

Start = Callable[..., Awaitable[Running]]


async def shards(url: str) -> tuple[int, int]:
    """How many shards have an owner, and how many coordinators there are."""
    async with await psycopg.AsyncConnection.connect(url) as conn:
        cursor = await conn.execute(
            "SELECT (SELECT count(*) FROM shards WHERE owner IS NOT NULL), (SELECT count(*) FROM coordinators)"
        )
        row = await cursor.fetchone()
    assert row is not None
    return row[0], row[1]


async def test_parked_polls_are_answered_and_outcomes_taken(start: Start) -> None:
    coordinator = await start()
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    await tenant.create_many(3)
    leases = await worker.some(3)
    async with worker.stream() as stream:
        polls = [asyncio.ensure_future(worker.poll(wait=30, poller=i)) for i in (1, 2)]
        await eventually(lambda: coordinator.node.dispatcher.parked == 2)
        await coordinator.node.drain()
        for poll in polls:
            answer = await asyncio.wait_for(poll, 10)
            assert (list(answer.leases), answer.batch, seconds(answer.next_poll_after)) == ([], 0, 0)
            assert answer.HasField("next_poll_after")

        # Whoever asks again is not to go round and round here.
        late = await asyncio.wait_for(worker.poll(wait=30), 5)
        assert not late.leases and seconds(late.next_poll_after) > 0

        # Who is here still is served to the end.
        assert list((await stream.beat(inventory=worker.inventory)).lost) == []
        await worker.done(leases[0])
        await worker.done(leases[1], failed="E")
        assert await tenant.state(leases[0]) == "SUCCEEDED"
        await tenant.cancel(leases[2])
        assert await worker.lease(1, 5.0) == []

    # New work is for others.
    batch = jobs_pb2.BatchCreateJobsRequest(requests=[creation()])
    session = worker_pb2.OpenSessionRequest(worker="w", queues=["q"])
    for call in (
        tenant.jobs.CreateJob(creation()),
        tenant.jobs.BatchCreateJobs(batch),
        tenant.work.OpenSession(session),
    ):
        found = await refusal(call)
        assert found.case == ("UNAVAILABLE", "DRAINING"), found
        assert found.retry_after_s is not None
        assert 0 < found.retry_after_s < 5
    assert not coordinator.node.healthy()


async def test_the_shards_are_handed_over_and_not_taken_back(start: Start) -> None:
    coordinator = await start(shard_term_s=0.8)
    tenant = await coordinator.tenant()
    worker = await tenant.worker()

    async def all_held() -> bool:
        return await shards(coordinator.url) == (256, 1)

    await eventually(all_held)
    async with worker.stream():
        await coordinator.node.drain()
        assert await shards(coordinator.url) == (0, 0)
        # Longer than several renewals, while a stream keeps the server from ending.
        await asyncio.sleep(1.0)
        assert await shards(coordinator.url) == (0, 0)


async def test_another_coordinator_goes_on_at_once(start: Start) -> None:
    leaving = await start(shard_term_s=12.0)
    tenant = await leaving.tenant()
    staying = await start(leaving.url, shard_term_s=12.0)
    heir = staying.the_same(tenant)
    worker = await heir.worker()
    names = [job.name for job in [await tenant.create() for _ in range(20)]]
    poll = asyncio.ensure_future(worker.some(20))
    began = asyncio.get_running_loop().time()
    await leaving.node.drain()
    found = await poll
    assert asyncio.get_running_loop().time() - began < 10.0
    assert sorted(lease.job for lease in found) == sorted(names)
    assert {lease.attempt for lease in found} == {1}


async def test_health_says_so_first(start: Start) -> None:
    coordinator = await start(drain_timeout_s=3.0)
    stub = health_pb2_grpc.HealthStub(coordinator.channel)
    watch = stub.Watch(health_pb2.HealthCheckRequest(service="rota.worker.v1.WorkerService"))
    assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    poll = asyncio.ensure_future(worker.poll(wait=30))
    await eventually(lambda: coordinator.node.dispatcher.parked == 1)
    stopping = asyncio.ensure_future(coordinator.server.stop(10.0))
    assert (await asyncio.wait_for(watch.read(), 8)).status == health_pb2.HealthCheckResponse.NOT_SERVING
    assert not (await poll).leases
    watch.cancel()
    await stopping
    found = await refusal(stub.Check(health_pb2.HealthCheckRequest(), timeout=5))
    assert found.code is grpc.StatusCode.UNAVAILABLE


async def test_a_stop_is_bounded_in_all(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A drain that hangs and a stream that stays share the one grace period."""
    coordinator = await start()
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    hang = asyncio.Event()
    drain = coordinator.node.drain

    async def slow() -> None:
        await drain()
        await hang.wait()

    monkeypatch.setattr(coordinator.node, "drain", slow)
    async with worker.stream():
        began = time.monotonic()
        await coordinator.server.stop(2.0)
        assert 1.9 < time.monotonic() - began < 3.8
    hang.set()


async def test_streams_move_when_nobody_can_come_back(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is sent away dials again, here as well if it could; one that stays does not hold up the end."""
    # Long enough for a beat meanwhile.
    monkeypatch.setattr("rota.api.worker.STREAM_LEAVES_S", 1.5)
    coordinator = await start()
    tenant = await coordinator.tenant()
    moves, stays = await tenant.worker(), await tenant.worker()
    written = asyncio.Event()
    drain = coordinator.node.drain

    async def slow() -> None:
        await drain()
        await written.wait()

    monkeypatch.setattr(coordinator.node, "drain", slow)
    async with moves.stream() as moving, stays.stream() as staying:
        stopping = asyncio.ensure_future(coordinator.server.stop(30.0))
        await eventually(coordinator.node.draining.is_set)
        assert list((await moving.beat(inventory=moves.inventory)).directives) == []
        async with moves.stream() as again:
            assert list((await again.beat(inventory=moves.inventory)).directives) == []
        written.set()
        for stream in (moving, staying):
            assert (await stream.directive()).kind == worker_pb2.DIRECTIVE_KIND_RECONNECT
        # It is served until it is ended, and told why.
        await staying.beat(inventory=stays.inventory)
        found = await refusal(staying.read())
        assert found.case == ("UNAVAILABLE", "DRAINING")
        await asyncio.wait_for(stopping, 15)


async def test_calls_on_their_way_are_let_end(start: Start) -> None:
    coordinator = await start()
    tenant = await coordinator.tenant()
    job = await tenant.create()
    waiting = asyncio.ensure_future(tenant.jobs.WaitJob(jobs_pb2.WaitJobRequest(name=job.name, timeout=span(10))))
    await eventually(lambda: coordinator.node.memory._finish_waiters)
    creating = [asyncio.ensure_future(tenant.jobs.CreateJob(creation())) for _ in range(50)]
    await asyncio.sleep(0.005)
    stopping = asyncio.ensure_future(coordinator.server.stop(5.0))
    began = time.monotonic()
    # It is answered as it is, well before its time.
    assert state_name((await waiting).job.state) == "READY"
    assert time.monotonic() - began < 5.0
    answers = await asyncio.gather(*creating, return_exceptions=True)
    created = [answer.job.name for answer in answers if not isinstance(answer, BaseException)]
    refused = [answer for answer in answers if isinstance(answer, grpc.aio.AioRpcError)]
    assert len(created) + len(refused) == 50
    # gRPC itself cancels calls that nobody had picked up yet.
    assert {error.code() for error in refused} <= {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
    await stopping
    async with await psycopg.AsyncConnection.connect(coordinator.url) as conn:
        row = await (await conn.execute("SELECT count(*) FROM jobs")).fetchone()
    assert row == (len(created) + 1,), "an answer was given for what is not stored, or none for what is"
