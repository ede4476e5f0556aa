"""Cancellation: semantics.md's table of states and modes, the directives that it sends, and its races with outcomes."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import psycopg
import pytest
from rota_sdk.gen.rota.v1 import common_pb2, jobs_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2

from .running import Refusal, Tenant, Worker, eventually, refusal, span, state_name

pytestmark = pytest.mark.asyncio(loop_scope="session")

MODES = ("IF_NOT_STARTED", "COOPERATIVE", "FENCE_OUT", "UNSPECIFIED")
NO_WAIT = common_pb2.RetryPolicy(initial_backoff=span(0), max_backoff=span(0))


async def scheduled(tenant: Tenant, worker: Worker) -> jobs_pb2.Job:
    return await tenant.create(delay=3600.0)


async def ready(tenant: Tenant, worker: Worker) -> jobs_pb2.Job:
    return await tenant.create(queue="nobodys")


async def retry_wait(tenant: Tenant, worker: Worker) -> jobs_pb2.Job:
    job = await tenant.create()
    await worker.done(await worker.one(), failed="E", retry_after=3600)
    return job


async def leased(tenant: Tenant, worker: Worker) -> jobs_pb2.Job:
    job = await tenant.create()
    await worker.one()
    return job


async def cancelling(tenant: Tenant, worker: Worker) -> jobs_pb2.Job:
    job = await leased(tenant, worker)
    await tenant.cancel(job, reason="first")
    return job


async def succeeded(tenant: Tenant, worker: Worker) -> jobs_pb2.Job:
    job = await tenant.create()
    await worker.done(await worker.one())
    return job


async def dead(tenant: Tenant, worker: Worker) -> jobs_pb2.Job:
    job = await tenant.create()
    await worker.done(await worker.one(), failed="E", retryable=False)
    return job


async def cancelled(tenant: Tenant, worker: Worker) -> jobs_pb2.Job:
    job = await tenant.create()
    await tenant.cancel(job, reason="first")
    return job


Reach = Callable[[Tenant, Worker], Awaitable[jobs_pb2.Job]]
WAITING = dict.fromkeys(MODES, "CANCELLED")
STARTED = {"IF_NOT_STARTED": None, "COOPERATIVE": "CANCELLING", "FENCE_OUT": "CANCELLED", "UNSPECIFIED": "CANCELLING"}
TABLE: list[tuple[Reach, str, dict[str, str | None]]] = [
    (scheduled, "SCHEDULED", WAITING),
    (ready, "READY", WAITING),
    (retry_wait, "RETRY_WAIT", WAITING),
    (leased, "LEASED", STARTED),
    (cancelling, "CANCELLING", STARTED),
    (succeeded, "SUCCEEDED", dict.fromkeys(MODES, "SUCCEEDED")),
    (dead, "DEAD", dict.fromkeys(MODES, "DEAD")),
    (cancelled, "CANCELLED", dict.fromkeys(MODES, "CANCELLED")),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("reach", "state", "row"), TABLE, ids=[state for _, state, _ in TABLE])
async def test_the_table(tenant: Tenant, reach: Reach, state: str, row: dict[str, str | None], mode: str) -> None:
    worker = await tenant.worker()
    job = await reach(tenant, worker)
    before = await tenant.get(job)
    assert state_name(before.state) == state
    expected = row[mode]
    if expected is None:
        found = await refusal(tenant.cancel(job, mode))
        assert found.case == ("FAILED_PRECONDITION", "INVALID_STATE"), found
        assert found.preconditions == ("INVALID_STATE",)
        assert found.metadata == {"state": state}
        assert await tenant.get(job) == before
        return

    answer = await tenant.cancel(job, mode, "why")
    assert state_name(answer.state) == expected
    assert await tenant.get(job) == answer
    if state == expected and state != "CANCELLING":
        assert answer == before, "a terminal job changed"
    else:
        assert answer.reason == "why"
    # Again: the same answer.
    assert await tenant.cancel(job, "COOPERATIVE" if mode == "UNSPECIFIED" else mode, "why") == answer
    # And it is never leased again.
    await tenant.create("marker")
    assert (await worker.one()).type == "marker"


@pytest.mark.parametrize(
    ("outcome", "state", "stored", "despite"),
    [
        ({}, "SUCCEEDED", "SUCCEEDED", True),
        ({"failed": "E"}, "CANCELLED", "FAILED", False),
        ({"released": 0.0}, "CANCELLED", "RELEASED", False),
        ({"cancelled": True}, "CANCELLED", "CANCELLED", False),
    ],
    ids=["succeeds", "fails", "gives back", "stops"],
)
async def test_the_workers_own_outcome_wins(
    tenant: Tenant, outcome: dict[str, Any], state: str, stored: str, despite: bool
) -> None:
    worker = await tenant.worker()
    job = await tenant.create(retry_policy=NO_WAIT)
    lease = await worker.one()
    assert state_name((await tenant.cancel(job, reason="why")).state) == "CANCELLING"
    status = await worker.done(lease, **outcome)
    assert state_name(status.state) == state
    found = await tenant.get(job)
    assert (state_name(found.state), found.completed_despite_cancel) == (state, despite)
    assert await tenant.outcomes(job) == [stored]
    if state == "CANCELLED":
        assert found.reason == "why"
    assert await worker.lease(1, 0.2) == []


async def test_a_worker_that_is_fenced_out_is_told_and_refused(tenant: Tenant) -> None:
    worker = await tenant.worker()
    job = await tenant.create()
    lease = await worker.one()
    async with worker.stream() as stream:
        await tenant.cancel(job, "FENCE_OUT", "why")
        directive = await stream.directive()
        assert directive.kind == worker_pb2.DIRECTIVE_KIND_LOST
        assert (directive.job, directive.fence) == (lease.job, lease.fence)
        ack = await stream.beat(inventory=worker.inventory)
        assert [(held.job, held.fence) for held in ack.lost] == [(lease.job, lease.fence)]
    late = await worker.outcome(lease)
    assert isinstance(late, Refusal)
    assert (late.reason, late.metadata["cause"]) == ("STALE_FENCE", "CANCELLED")
    assert await tenant.outcomes(job) == ["CANCELLED"]


async def test_a_worker_is_told_to_stop_until_it_says_that_it_knows(told: Tenant) -> None:
    tenant, worker = told, await told.worker()
    job = await tenant.create()
    lease = await worker.one()
    async with worker.stream() as stream:
        await tenant.cancel(job, reason="why")
        pushed = await stream.directive()
        assert pushed.kind == worker_pb2.DIRECTIVE_KIND_CANCEL
        assert (pushed.job, pushed.fence, pushed.reason) == (lease.job, lease.fence, "why")
        # A second wish is the same wish.
        await tenant.cancel(job, reason="why")
        for _ in range(2):
            assert list((await stream.beat()).directives) == [pushed]
        assert list((await worker.beat()).directives) == [pushed]
        assert list((await worker.poll()).directives) == [pushed]
    async with worker.stream() as stream:
        assert list(stream.hello.directives) == [pushed]
        assert list((await stream.beat(acked_directives=[pushed.id + 1, -5])).directives) == [pushed]
        assert list((await stream.beat(acked_directives=[pushed.id])).directives) == []
        assert list((await stream.beat()).directives) == []
        assert stream.pushed == []
    await worker.done(lease, cancelled=True)


async def test_a_cancelled_job_in_memory_is_not_handed_out(tenant: Tenant) -> None:
    jobs = await tenant.create_many(20)
    await asyncio.gather(*(tenant.cancel(job) for job in jobs[::2]))
    worker = await tenant.worker()
    assert sorted(lease.job for lease in await worker.some(10)) == sorted(jobs[1::2])
    assert await worker.lease(20, 0.2) == []


async def test_cancel_against_success(tenant: Tenant) -> None:
    """Whoever commits first wins, and both are told what is stored."""
    worker = await tenant.worker()
    jobs = await tenant.create_many(30)
    leases = {lease.job: lease for lease in await worker.some(30)}

    async def race(job: str, mode: str) -> tuple[str, Any, str]:
        answer, report = await asyncio.gather(tenant.cancel(job, mode), worker.outcome(leases[job]))
        return state_name(answer.state), report, await tenant.state(job)

    for mode in ("FENCE_OUT", "COOPERATIVE"):
        half = jobs[:15] if mode == "FENCE_OUT" else jobs[15:]
        for told, report, stored in await asyncio.gather(*(race(job, mode) for job in half)):
            if isinstance(report, Refusal):
                assert (mode, stored, told) == ("FENCE_OUT", "CANCELLED", "CANCELLED")
                assert (report.reason, report.metadata["cause"]) == ("STALE_FENCE", "CANCELLED")
            else:
                assert (state_name(report.state), stored) == ("SUCCEEDED", "SUCCEEDED")
                assert told in (("SUCCEEDED",) if mode == "FENCE_OUT" else ("SUCCEEDED", "CANCELLING"))
    for job in jobs:
        assert len(await tenant.attempts(job)) == 1


async def test_cancel_against_claims(tenant: Tenant) -> None:
    worker = await tenant.worker()
    for mode in ("IF_NOT_STARTED", "FENCE_OUT"):
        jobs = await tenant.create_many(40)
        polls = asyncio.gather(*(worker.poll(capacity=10, wait=0.3, poller=i) for i in range(4)))
        cancels = await asyncio.gather(*(tenant.cancel(job, mode) for job in jobs), return_exceptions=True)
        leased = {lease.job for answer in await polls for lease in answer.leases}
        refused = {job for job, answer in zip(jobs, cancels, strict=True) if isinstance(answer, grpc.aio.AioRpcError)}
        for job in jobs:
            state = await tenant.state(job)
            if job in refused:
                assert mode == "IF_NOT_STARTED"
                assert (state, job in leased) == ("LEASED", True)
            else:
                assert state == "CANCELLED", (job in leased, mode)
        await worker.close()
        worker = await tenant.worker()
        for lease in await worker.lease(100, 0.2):
            await worker.done(lease)


async def test_a_cancel_directive_survives_the_coordinator(start: Any) -> None:
    """The coordinator goes before the worker was told; the next one tells it."""
    first = await start(session_ttl_s=20.0)
    tenant = await first.tenant()
    worker = await tenant.worker()
    job = await tenant.create()
    lease = await worker.one()
    await worker.prove()
    await tenant.cancel(job)
    await first.node.drain()

    second = await start(first.url, session_ttl_s=20.0)
    # It reads its rows before the worker comes.
    await eventually(lambda: len(second.node.memory.in_flight) == 1)
    heir = Worker(second.the_same(tenant), worker.opened)
    heir.held, heir.batches = worker.held, worker.batches
    async with heir.stream() as stream:
        kinds = {(d.kind, d.job, d.fence) for d in stream.hello.directives}
        assert (worker_pb2.DIRECTIVE_KIND_CANCEL, lease.job, lease.fence) in kinds
        await heir.done(lease, cancelled=True)
    assert state_name((await heir.tenant.get(job)).state) == "CANCELLED"


async def test_a_worker_is_told_within_two_seconds_wherever_it_beats_and_whoever_took_the_call(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three coordinators: the worker beats to one, another one takes the call, and the shard is of any of them."""
    first = await start(session_ttl_s=30.0)
    rest = [await start(first.url, session_ttl_s=30.0) for _ in range(2)]
    plane = [first, *rest]
    await eventually(lambda: min(len(each.node.memory.terms) for each in plane) >= 80, within_s=30.0)
    await eventually(lambda: all(_knows_all(each) for each in plane), within_s=10.0)
    tenant = await first.tenant()
    callers = [each.the_same(tenant) for each in plane]
    worker = await callers[0].worker()
    jobs = await tenant.create_many(90)
    leases = {lease.job: lease for lease in await worker.some(90)}
    await worker.prove()
    async with await psycopg.AsyncConnection.connect(first.url) as conn:
        found = await conn.execute("SELECT count(DISTINCT s.owner) FROM jobs j JOIN shards s USING (shard)")
        assert await found.fetchone() == (3,)
    # Told, and not found by looking at the rows.
    for each in plane:
        monkeypatch.setattr(each.node.poller, "_rescan_at", math.inf)
    asked: dict[str, float] = {}
    told: dict[str, float] = {}
    loop = asyncio.get_running_loop()
    async with worker.stream() as stream:

        async def listen() -> None:
            while len(told) < len(jobs):
                directive = await stream.directive(within_s=10.0)
                if directive.kind == worker_pb2.DIRECTIVE_KIND_CANCEL and directive.job not in told:
                    assert directive.fence == leases[directive.job].fence
                    told[directive.job] = loop.time()

        async def cancel(number: int, job: str) -> None:
            asked[job] = loop.time()
            await callers[number % 3].cancel(job)

        listening = asyncio.ensure_future(listen())
        for at in range(0, len(jobs), 9):
            await asyncio.gather(*(cancel(at + n, job) for n, job in enumerate(jobs[at : at + 9])))
        await listening
    waits_s = sorted(told[job] - asked[job] for job in jobs)
    # A moment in which nothing here runs holds up the nine that are asked together, and no more.
    assert waits_s[-10] <= 2.0, waits_s
    for lease in leases.values():
        await worker.done(lease, cancelled=True)
    assert {await tenant.state(job) for job in jobs} == {"CANCELLED"}


def _knows_all(coordinator: Any) -> bool:
    """Whether it has a way to each of two peers, and they to it."""
    peers = coordinator.node.peers._peers.values()
    return len(peers) == 2 and all(peer.reached and peer.link is not None for peer in peers)


async def test_a_cancellation_that_another_coordinator_wrote_is_passed_on(start: Any) -> None:
    """The row says CANCELLING and nobody here was told: the next look at the rows finds it."""
    coordinator = await start()
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    await tenant.create()
    lease = await worker.one()
    async with worker.stream() as stream:
        async with await psycopg.AsyncConnection.connect(coordinator.url, autocommit=True) as conn:
            await conn.execute("UPDATE jobs SET state = 5, cancel_reason = 'elsewhere'")
        pushed = await stream.directive(within_s=10.0)
        assert (pushed.kind, pushed.job, pushed.fence) == (
            worker_pb2.DIRECTIVE_KIND_CANCEL,
            lease.job,
            lease.fence,
        )
        await stream.beat(acked_directives=[pushed.id])
    await worker.done(lease, failed="E")
