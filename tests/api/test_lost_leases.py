"""Every way in which an answer to Lease that was lost comes back."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import grpc
import pytest
from rota_sdk.gen.rota.v1 import common_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2

from rota.coordinator import reaper
from rota.domain.errors import OutcomeUnknown

from .running import Refusal, Running, Tenant, Worker, eventually, now, parked, span, state_name

pytestmark = pytest.mark.asyncio(loop_scope="session")

Start = Callable[..., Awaitable[Running]]
NO_WAIT = common_pb2.RetryPolicy(initial_backoff=span(0), max_backoff=span(0))


async def test_the_same_request_id_gets_the_same_leases(tenant: Tenant) -> None:
    names = await tenant.create_many(3)
    worker = await tenant.worker()
    await tenant.ready(names)
    request = worker.request(capacity=3)
    first = await tenant.work.Lease(request)
    again = await tenant.work.Lease(request)
    assert sorted(lease.job for lease in first.leases) == sorted(names)
    assert (again.batch, list(again.leases)) == (first.batch, list(first.leases))
    for name in names:
        assert (await tenant.get(name)).attempt == 1
    # What is not held any more does not come again.
    done, *held = worker.take(first)
    await worker.done(done)
    more = await tenant.work.Lease(request)
    assert [lease.job for lease in more.leases] == [lease.job for lease in held]
    # And once the poller has gone on, it is a fresh wish.
    assert await worker.lease(1) == []
    assert (await tenant.work.Lease(request)).leases == []


async def test_request_ids_are_one_pollers_own(tenant: Tenant) -> None:
    await tenant.create_many(2)
    worker = await tenant.worker()
    a = await worker.lease(1, 5.0, 0, request_id="same")
    b = await worker.lease(1, 5.0, 1, request_id="same")
    assert a[0].job != b[0].job


async def test_a_call_lost_before_its_answer_is_repeated(start: Start) -> None:
    """The client gives up at a deadline of its own while the poll is parked, and asks again with the same id."""
    coordinator = await start()
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    request = worker.request(wait=20)
    call = tenant.work.Lease(request)
    await parked(coordinator, 1)
    call.cancel()
    await parked(coordinator, 0)
    job = await tenant.create()
    answer = await tenant.work.Lease(request)
    assert [(lease.job, lease.attempt) for lease in answer.leases] == [(job.name, 1)]


async def test_the_next_call_gives_an_unacknowledged_batch_back_at_once(tenant: Tenant) -> None:
    names = await tenant.create_many(2)
    worker = await tenant.worker()
    await tenant.ready(names)
    lost = (await worker.poll(capacity=2, wait=5)).leases
    began = now()
    found = await worker.some(2)
    assert now() - began < 5.0
    assert sorted(each.job for each in lost) == sorted(each.job for each in found) == sorted(names)
    for lease in lost:
        assert await tenant.outcomes(lease) == ["UNDELIVERED", "UNSPECIFIED"]
        assert (await tenant.get(lease)).attempts_counted == 0
    # The acknowledged one stays.
    assert await worker.lease(1) == []
    assert (await worker.prove()).lost == []


async def test_a_batch_of_another_poller_is_not_touched(tenant: Tenant) -> None:
    await tenant.create()
    worker = await tenant.worker()
    (lease,) = (await worker.poll(wait=5, poller=1)).leases
    assert await worker.lease(1, 0.2, 0) == []
    assert await tenant.state(lease) == "LEASED"


async def test_an_inventory_without_the_lease_gives_it_back(tenant: Tenant) -> None:
    job = await tenant.create()
    worker = await tenant.worker()
    await worker.poll(wait=5)
    # Taken before the answer came: says nothing of it.
    ack = await worker.beat(worker_pb2.Inventory())
    assert ack.lost == []
    assert await tenant.state(job) == "LEASED"
    # Batches are numbered, so this one says that the batch arrived and that its lease is not there.
    assert (await worker.beat(worker_pb2.Inventory(batches={0: 2**62}))).lost == []
    assert await tenant.outcomes(job) == ["UNDELIVERED"]
    again = await worker.one()
    assert (again.job, again.attempt, again.attempts_counted) == (job.name, 2, 0)


async def test_a_lease_that_was_held_and_is_no_longer_counts(tenant: Tenant) -> None:
    job = await tenant.create(retry_policy=NO_WAIT)
    worker = await tenant.worker()
    await worker.one()
    await worker.prove()
    await worker.beat(worker_pb2.Inventory(batches=worker.batches))
    assert await tenant.outcomes(job) == ["LEASE_LOST"]
    again = await worker.one()
    assert (again.attempt, again.attempts_counted) == (2, 1)


async def test_an_inventory_of_what_was_never_granted_is_lost(tenant: Tenant) -> None:
    await tenant.create()
    worker, other = await tenant.worker(), await tenant.worker()
    lease = await worker.one()
    forged = worker_pb2.HeldLease(job=lease.job, fence=lease.fence + 1)
    theirs = worker_pb2.HeldLease(job=lease.job, fence=lease.fence)
    ack = await other.beat(worker_pb2.Inventory(leases=[theirs, forged]))
    assert list(ack.lost) == [theirs, forged]
    assert (await worker.prove()).lost == []


async def test_a_lease_is_given_back_when_nobody_proves_its_receipt(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = await start(delivery_ttl_s=60.0)
    tenant = await coordinator.tenant()
    proven, silent = await tenant.worker(), await tenant.worker()
    kept = await tenant.create()
    await proven.one()
    await proven.prove()
    job = await tenant.create(retry_policy=NO_WAIT)
    request = silent.request(wait=5)
    assert (await tenant.work.Lease(request)).leases

    async def given_back() -> bool:
        return await tenant.outcomes(job) == ["UNDELIVERED"]

    with monkeypatch.context() as patched:
        # Not before the other's receipt is proven, and no longer than this one's wait: the next lease has time again.
        patched.setattr(coordinator.node.reaper, "_delivery_ttl_s", 0.3)
        await eventually(given_back)
    again = await proven.one(wait=5, poller=1)
    assert (again.job, again.attempt, again.attempts_counted) == (job.name, 2, 0)
    assert await tenant.outcomes(job) == ["UNDELIVERED", "UNSPECIFIED"]
    assert await tenant.outcomes(kept) == ["UNSPECIFIED"]
    late = await silent.outcome(worker_pb2.Lease(job=job.name, fence=(await tenant.attempts(job))[0].fence))
    assert isinstance(late, Refusal) and late.reason == "STALE_FENCE"
    assert coordinator.count("rota.leases.released_undelivered") == 1


async def test_a_worker_is_asked_about_an_answer_of_which_it_says_nothing(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reaper.ASK_SHARE == 0.3
    monkeypatch.setattr(reaper, "ASK_SHARE", 0.03)
    coordinator = await start(delivery_ttl_s=20.0)
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    async with worker.stream() as stream:
        await tenant.create()
        request = worker.request(wait=5)
        began = now()
        lost = await tenant.work.Lease(request)
        pushed = await stream.directive(within_s=10.0)
    assert pushed.kind == worker_pb2.DIRECTIVE_KIND_RESYNC
    assert now() - began > 0.5
    # What the SDK does about it.
    again = await tenant.work.Lease(request)
    assert list(again.leases) == list(lost.leases)
    worker.take(again)
    await worker.prove()


async def test_asking_again_keeps_an_unproven_lease(start: Start) -> None:
    coordinator = await start(delivery_ttl_s=10.0)
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    job = await tenant.create()
    request = worker.request(wait=5)
    first = await tenant.work.Lease(request)
    (member,) = coordinator.node.memory.members
    loop = coordinator.node.reaper
    for _ in range(3):
        # More than half of its time passes.
        member.deliveries[0].sent_at -= 6.0
        again = await tenant.work.Lease(request)
        assert list(again.leases) == list(first.leases)
        looked_at = loop.last_ok
        loop.wake()
        await eventually(lambda before=looked_at: loop.last_ok != before)
    assert await tenant.outcomes(job) == ["UNSPECIFIED"]


async def test_a_poll_that_is_cancelled_leaves_nothing(start: Start) -> None:
    coordinator = await start()
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    calls = [worker.poll(wait=30, poller=i) for i in range(20)]
    await parked(coordinator, 20)
    for call in calls:
        call.cancel()
    await parked(coordinator, 0)
    assert coordinator.node.dispatcher._by_call == {}
    assert coordinator.node.dispatcher._waiting._groups == {}
    job = await tenant.create()
    await asyncio.sleep(0.1)
    assert (await tenant.get(job)).attempt == 0


async def test_a_caller_that_goes_while_its_claim_is_on_its_way(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim is shielded: it commits, and what nobody will hear of is given back at once."""
    coordinator = await start(delivery_ttl_s=60.0, session_ttl_s=60.0)
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    committed, gate = asyncio.Event(), asyncio.Event()
    store = coordinator.node.dispatcher._claims._leases._store
    claim = type(store).claim

    async def slow(self: Any, *arguments: Any) -> Any:
        grants = await claim(self, *arguments)
        committed.set()
        await gate.wait()
        return grants

    monkeypatch.setattr(type(store), "claim", slow)
    job = await tenant.create()
    call = worker.poll(wait=30)
    ended = asyncio.ensure_future(_swallow(call))
    await committed.wait()
    assert await tenant.state(job) == "LEASED"
    call.cancel()
    await eventually(lambda: not coordinator.node.dispatcher._by_call)
    gate.set()
    await ended

    async def given_back() -> bool:
        return await tenant.outcomes(job) == ["UNDELIVERED"]

    await eventually(given_back)
    again = await worker.one()
    assert (again.job, again.attempts_counted) == (job.name, 0)


async def test_a_claim_whose_outcome_is_unknown_loses_nothing(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = await start(delivery_ttl_s=60.0, session_ttl_s=60.0)
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    store = coordinator.node.dispatcher._claims._leases._store
    claim = type(store).claim
    failures = iter(["after", "before", "after"])

    async def fails(self: Any, *arguments: Any) -> Any:
        kind = next(failures, None)
        if kind != "before":
            grants = await claim(self, *arguments)
        if kind is not None:
            raise OutcomeUnknown("the answer was lost")
        return grants

    monkeypatch.setattr(type(store), "claim", fails)
    job = await tenant.create()
    lease = await worker.one(wait=10)
    assert (lease.job, lease.attempts_counted) == (job.name, 0)
    assert await tenant.outcomes(job) == ["UNDELIVERED", "UNDELIVERED", "UNSPECIFIED"]
    await worker.done(lease)


async def test_a_hundred_random_cancellations_under_load(start: Start) -> None:
    coordinator = await start(delivery_ttl_s=2.0, session_ttl_s=60.0)
    tenant = await coordinator.tenant()
    rng = random.Random(7)
    names: list[str] = []
    done: list[str] = []

    async def create() -> None:
        for _ in range(20):
            names.extend(await tenant.create_many(20, retry_policy=NO_WAIT))
            await asyncio.sleep(rng.uniform(0, 0.05))

    async def flighty(worker: Worker, poller: int) -> None:
        """Cancels its calls at any moment, and never looks at an answer."""
        for _ in range(25):
            call = worker.poll(capacity=5, wait=1.0, poller=poller)
            await asyncio.wait({asyncio.ensure_future(_swallow(call))}, timeout=rng.uniform(0, 0.03))
            call.cancel()

    async def steady(worker: Worker) -> None:
        while len(done) < 400:
            if leases := await worker.lease(20, 0.3):
                await worker.prove()
            for lease in leases:
                await worker.done(lease)
                done.append(lease.job)

    worker = await tenant.worker()
    flighties = [await tenant.worker() for _ in range(4)]
    flight = asyncio.gather(create(), *(flighty(each, i) for i, each in enumerate(flighties)))
    await asyncio.wait_for(asyncio.gather(flight, steady(worker)), 60)
    assert sorted(done) == sorted(names)
    await parked(coordinator, 0)
    node = coordinator.node
    await eventually(lambda: not node.memory.in_flight and not node.memory.ready)
    assert (len(node.memory.claiming), node.dispatcher._by_call, node.dispatcher._waiting._groups) == (0, {}, {})
    for name in rng.sample(names, 30):
        found = await tenant.get(name)
        assert (state_name(found.state), found.attempts_counted) == ("SUCCEEDED", 1)


async def _swallow(call: Any) -> None:
    with suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
        await call
