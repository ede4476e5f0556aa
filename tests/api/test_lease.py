"""Lease: parked polls, what an answer holds, and every way in which an answer that was lost comes back."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import grpc
import pytest
from rota_sdk.gen.rota.v1 import common_pb2, jobs_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2

from rota.domain import limits
from rota.domain.errors import OutcomeUnknown

from .running import Refusal, Running, Tenant, Worker, creation, eventually, refusal, seconds, span, state_name

pytestmark = pytest.mark.asyncio(loop_scope="session")

Start = Callable[..., Awaitable[Running]]
KIB = 1024
MIB = 1024 * KIB
NO_WAIT = common_pb2.RetryPolicy(initial_backoff=span(0), max_backoff=span(0))


def now() -> float:
    return asyncio.get_running_loop().time()


async def parked(coordinator: Running, count: int) -> None:
    await eventually(lambda: coordinator.node.dispatcher.parked == count)


# Waiting.


async def test_a_parked_poll_is_woken_by_new_work(start: Start) -> None:
    coordinator = await start()
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    delays = []
    for _ in range(10):
        poll = asyncio.ensure_future(worker.poll(wait=10))
        await parked(coordinator, 1)
        began = now()
        await tenant.create()
        answer = await poll
        delays.append(now() - began)
        assert len(worker.take(answer)) == 1
    # Creation, claim and answer together; looking at the rows again would take a second.
    assert sorted(delays)[5] < 0.1, delays


async def test_a_parked_poll_is_woken_by_time(tenant: Tenant) -> None:
    worker = await tenant.worker()
    job = await tenant.create(delay=0.5)
    began = now()
    await worker.one()
    assert 0.3 < now() - began < 1.5
    leased = await tenant.get(job)
    assert 0 <= (leased.lease_time.ToDatetime() - job.due_time.ToDatetime()).total_seconds() < 0.3


async def test_a_parked_poll_is_woken_by_a_retry_and_a_release(tenant: Tenant) -> None:
    job = await tenant.create(retry_policy=NO_WAIT)
    first, second = await tenant.worker(), await tenant.worker()
    lease = await first.one()
    for outcome in ({"failed": "E"}, {"released": 0.0}):
        poll = asyncio.ensure_future(second.one(wait=10))
        began = now()
        await first.done(lease, **outcome)
        lease = await poll
        assert now() - began < 1.0
        assert lease.job == job.name
        first, second = second, first


@pytest.mark.parametrize(("wait", "low_s", "high_s"), [(0.0, 0.0, 0.3), (1.0, 0.99, 1.4), (0.25, 0.24, 0.6)])
async def test_a_wait_is_kept(tenant: Tenant, wait: float, low_s: float, high_s: float) -> None:
    worker = await tenant.worker()
    began = now()
    answer = await worker.poll(wait=wait)
    assert low_s <= now() - began < high_s
    assert (len(answer.leases), answer.batch) == (0, 0)
    # Workers that were answered together come back apart.
    assert 0 <= seconds(answer.next_poll_after) <= 0.2


async def test_long_waits_are_cut_and_the_default_is_ten_seconds(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (limits.LEASE_WAIT_MAX_S, limits.LEASE_WAIT_DEFAULT_S) == (50, 10)
    monkeypatch.setattr(limits, "LEASE_WAIT_MAX_S", 0.4)
    monkeypatch.setattr(limits, "LEASE_WAIT_DEFAULT_S", 0.2)
    worker = await tenant.worker()
    for wait, expected_s in ((3600.0, 0.4), (None, 0.2)):
        began = now()
        await worker.poll(wait=wait)
        assert expected_s - 0.01 <= now() - began < expected_s + 0.3


async def test_a_poll_leaves_its_caller_a_second(tenant: Tenant) -> None:
    worker = await tenant.worker()
    began = now()
    request = worker.request(wait=30)
    assert not (await tenant.work.Lease(request, timeout=1.5)).leases
    assert 0.3 < now() - began < 1.0
    # With less than that nothing is claimed: the caller may be gone before a claim has committed.
    job = await tenant.create()
    await tenant.ready([job])
    assert not (await tenant.work.Lease(worker.request(wait=0), timeout=0.9)).leases
    assert not (await tenant.work.Lease(worker.request(wait=5), timeout=0.9)).leases
    assert (await tenant.get(job)).attempt == 0
    assert await worker.one(wait=5)
    # No deadline at all is none.
    await tenant.create()
    assert (await tenant.work.Lease(worker.request(wait=5), timeout=None)).leases


async def test_a_poll_that_waits_sends_no_early_metadata(tenant: Tenant) -> None:
    # Metadata that comes early disables gRPC's own retries.
    worker = await tenant.worker()
    call = worker.poll(wait=1.0)
    metadata = asyncio.ensure_future(call.initial_metadata())
    await asyncio.wait({metadata}, timeout=0.5)
    assert not metadata.done()
    await call
    await metadata


# What an answer holds.


async def test_capacity_is_kept(tenant: Tenant) -> None:
    await tenant.ready(await tenant.create_many(10))
    worker = await tenant.worker()
    assert [len(await worker.lease(n, 5.0)) for n in (3, 5, 100)] == [3, 5, 2]


async def test_more_than_one_claim_holds(tenant: Tenant) -> None:
    await tenant.create_many(700)
    worker = await tenant.worker()
    assert len({lease.job for lease in await worker.some(700)}) == 700


@pytest.mark.parametrize(
    ("max_bytes", "sizes", "expected"),
    [
        (100 * KIB, [64 * KIB] * 3, [1, 1, 1]),
        (200 * KIB, [64 * KIB] * 4, [3, 1]),
        (1, [10, 10], [1, 1]),  # always one, or a large job would wait for ever
        (64 * KIB, [256 * KIB, 0], [1, 1]),
    ],
)
async def test_an_answer_is_cut_by_bytes(tenant: Tenant, max_bytes: int, sizes: list[int], expected: list[int]) -> None:
    await tenant.ready([await tenant.create(data=b"x" * size) for size in sizes])
    worker = await tenant.worker()
    assert [len(await worker.lease(100, 5.0, max_bytes=max_bytes)) for _ in expected] == expected


@pytest.mark.parametrize("max_bytes", [0, 3_670_016, 2**31 - 1])
async def test_a_flood_of_bytes_arrives_over_a_few_calls(tenant: Tenant, max_bytes: int) -> None:
    """128 jobs of 64 KiB for a client that takes 4 MiB: none is lost, none is granted twice."""
    names: list[str] = []
    for _ in range(4):
        names += await tenant.create_many(32, data=b"x" * 64 * KIB)
    worker = await tenant.worker()
    found: list[str] = []
    calls = 0
    while len(found) < 128:
        request = worker.request(capacity=200, wait=5, max_bytes=max_bytes)
        answer = await tenant.work.Lease(request)
        assert answer.ByteSize() < 4 * MIB
        found += [lease.job for lease in worker.take(answer)]
        calls += 1
    assert sorted(found) == sorted(names)
    assert 3 <= calls <= 6
    assert {lease.attempt for lease in worker.held.values()} == {1}


async def test_headers_count_as_bytes_too(tenant: Tenant) -> None:
    """An answer over what clients take, 4 MiB, would fail there after the claim was committed."""
    headers = {f"k{i}": "v" * 255 for i in range(31)}
    wish = creation(data=b"x" * 7 * KIB, headers=headers)
    assert sum(len(k) + len(v) for k, v in headers.items()) <= 8 * KIB
    for _ in range(2):
        answer = await tenant.jobs.BatchCreateJobs(jobs_pb2.BatchCreateJobsRequest(requests=[wish] * 250))
        await tenant.ready(answer.jobs)
    worker = await tenant.worker()
    answer = await tenant.work.Lease(worker.request(capacity=1000, wait=5))
    assert answer.ByteSize() < 4 * MIB


async def test_only_wanted_types_and_queues(tenant: Tenant) -> None:
    wanted = [(await tenant.create(type, queue=queue)).name for type in "ab" for queue in ("q", "r")]
    for type, queue in (("c", "q"), ("a", "s"), ("A", "q")):
        await tenant.create(type, queue=queue)
    worker = await tenant.worker(["q", "r"], ["a", "b"])
    assert sorted(lease.job for lease in await worker.some(4)) == sorted(wanted)
    assert await worker.lease(10, 0.2) == []
    rest = await tenant.worker(["q", "s"])
    assert len(await rest.some(3)) == 3


async def test_two_pollers_share_the_work(tenant: Tenant) -> None:
    names = await tenant.create_many(20)
    worker = await tenant.worker()
    await tenant.ready(names)
    answers = await asyncio.gather(*(worker.lease(10, 5.0, poller) for poller in (0, 1)))
    assert sorted(lease.job for answer in answers for lease in answer) == sorted(names)
    assert worker.batches.keys() == {0, 1}
    assert (await worker.prove()).lost == []


async def test_workers_at_once_get_each_job_once(tenant: Tenant) -> None:
    names = await tenant.create_many(300)
    workers = [await tenant.worker() for _ in range(10)]

    async def drain(worker: Worker) -> list[str]:
        found = []
        while leases := await worker.lease(7, 0.3):
            found += [lease.job for lease in leases]
            for lease in leases:
                await worker.done(lease)
        return found

    found = [job for drained in await asyncio.gather(*map(drain, workers)) for job in drained]
    assert sorted(found) == sorted(names)


# One poller asks again.


async def test_a_poll_that_is_superseded_is_answered(start: Start) -> None:
    coordinator = await start()
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    earlier = asyncio.ensure_future(worker.poll(wait=30))
    await parked(coordinator, 1)
    later = asyncio.ensure_future(worker.poll(wait=30))
    answer = await asyncio.wait_for(earlier, 2)
    assert not answer.leases
    assert coordinator.node.dispatcher.parked == 1
    other = asyncio.ensure_future(worker.poll(wait=30, poller=1))
    await parked(coordinator, 2)
    assert not later.done()
    await tenant.create_many(2)
    assert [len((await each).leases) for each in (later, other)] == [1, 1]


async def test_a_poll_that_is_superseded_while_it_claims_is_answered_too(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = await start()
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    gate, claiming = asyncio.Event(), asyncio.Event()
    store = coordinator.node.dispatcher._leases._store
    claim = type(store).claim

    async def slow(self: Any, *arguments: Any) -> Any:
        claiming.set()
        await gate.wait()
        return await claim(self, *arguments)

    monkeypatch.setattr(type(store), "claim", slow)
    job = await tenant.create()
    earlier = asyncio.ensure_future(worker.poll(wait=30))
    await claiming.wait()
    later = asyncio.ensure_future(worker.poll(wait=30))
    await parked(coordinator, 1)
    gate.set()
    answers = await asyncio.wait_for(asyncio.gather(earlier, later), 5)
    assert [len(answer.leases) for answer in answers] == [0, 1]
    # Its grant was given back, and no attempt used.
    assert await tenant.outcomes(job) == ["UNDELIVERED", "UNSPECIFIED"]
    assert answers[1].leases[0].attempts_counted == 0


# The answer was lost.


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
    assert now() - began < 1.0
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


async def test_a_lease_is_given_back_when_nobody_proves_its_receipt(start: Start) -> None:
    coordinator = await start(delivery_ttl_s=0.3)
    tenant = await coordinator.tenant()
    proven, silent = await tenant.worker(), await tenant.worker()
    kept = await tenant.create()
    await proven.one()
    await proven.prove()
    job = await tenant.create(retry_policy=NO_WAIT)
    request = silent.request(wait=5)
    assert (await tenant.work.Lease(request)).leases
    poll = asyncio.ensure_future(proven.one(wait=5, poller=1))
    again = await poll
    assert (again.job, again.attempt, again.attempts_counted) == (job.name, 2, 0)
    assert await tenant.outcomes(job) == ["UNDELIVERED", "UNSPECIFIED"]
    assert await tenant.outcomes(kept) == ["UNSPECIFIED"]
    late = await silent.outcome(worker_pb2.Lease(job=job.name, fence=(await tenant.attempts(job))[0].fence))
    assert isinstance(late, Refusal) and late.reason == "STALE_FENCE"
    assert coordinator.count("rota.leases.released_undelivered") == 1


async def test_a_worker_is_asked_about_an_answer_of_which_it_says_nothing(start: Start) -> None:
    coordinator = await start(delivery_ttl_s=2.0)
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    async with worker.stream() as stream:
        await tenant.create()
        request = worker.request(wait=5)
        lost = await tenant.work.Lease(request)
        answered_at = now()
        pushed = await stream.directive()
    assert pushed.kind == worker_pb2.DIRECTIVE_KIND_RESYNC
    assert 0.5 < now() - answered_at < 2.0
    # What the SDK does about it.
    again = await tenant.work.Lease(request)
    assert list(again.leases) == list(lost.leases)
    worker.take(again)
    await worker.prove()


async def test_asking_again_keeps_an_unproven_lease(start: Start) -> None:
    coordinator = await start(delivery_ttl_s=0.5)
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    job = await tenant.create()
    request = worker.request(wait=5)
    first = await tenant.work.Lease(request)
    until = now() + 1.2
    while now() < until:
        again = await tenant.work.Lease(request)
        assert list(again.leases) == list(first.leases)
        await asyncio.sleep(0.1)
    assert await tenant.outcomes(job) == ["UNSPECIFIED"]


# Callers that go away.


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
    store = coordinator.node.dispatcher._leases._store
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

    await eventually(given_back, within_s=2.0)
    again = await worker.one()
    assert (again.job, again.attempts_counted) == (job.name, 0)


async def test_a_claim_whose_outcome_is_unknown_loses_nothing(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = await start(delivery_ttl_s=60.0, session_ttl_s=60.0)
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    store = coordinator.node.dispatcher._leases._store
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
    coordinator = await start(delivery_ttl_s=0.5)
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
    await asyncio.wait_for(asyncio.gather(flight, steady(worker)), 30)
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


# Sessions that end.


async def test_a_dead_session_loses_its_leases_and_they_are_retried_at_once(start: Start) -> None:
    coordinator = await start(session_ttl_s=1.0)
    tenant = await coordinator.tenant()
    dead, heir = await tenant.worker(), await tenant.worker()
    long = common_pb2.RetryPolicy(initial_backoff=span(3600), max_backoff=span(3600))
    job = await tenant.create(retry_policy=long)
    lease = await dead.one()
    await dead.prove()
    parked_poll = asyncio.ensure_future(dead.poll(wait=20))
    began = now()

    async def beat() -> bool:
        await heir.beat()
        return bool(heir.held)

    poll = asyncio.ensure_future(heir.one(wait=10))
    await eventually(beat, every_s=0.2)
    again = await poll
    assert 0.8 < now() - began < 4.0
    assert (again.job, again.attempt, again.attempts_counted) == (job.name, 2, 1)
    assert await tenant.outcomes(job) == ["LEASE_LOST", "UNSPECIFIED"]
    # Its poll is answered, and all else of it is refused, but that it leaves.
    assert not (await asyncio.wait_for(parked_poll, 1)).leases
    assert await dead.close() == 0
    for call in (dead.poll(), dead.beat()):
        assert (await refusal(call)).case == ("NOT_FOUND", "SESSION_GONE")
    late = await dead.outcome(lease)
    assert isinstance(late, Refusal)
    assert (late.reason, late.metadata["cause"]) == ("STALE_FENCE", "REASSIGNED")
    assert late.metadata["fence"] == str(again.fence)
    await heir.done(again)


async def test_beats_alone_keep_a_session_and_its_leases(start: Start) -> None:
    coordinator = await start(session_ttl_s=1.0)
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    job = await tenant.create()
    await worker.one()
    until = now() + 2.2
    while now() < until:
        ack = await worker.beat(worker.inventory)
        assert (ack.lost, seconds(ack.renewed_for)) == ([], 1.0)
        await asyncio.sleep(0.3)
    assert await tenant.outcomes(job) == ["UNSPECIFIED"]


async def test_closing_gives_back_what_is_held(tenant: Tenant) -> None:
    jobs = await tenant.create_many(3)
    worker, heir = await tenant.worker(), await tenant.worker()
    leases = await worker.some(2)
    poll = asyncio.ensure_future(worker.poll(wait=30, poller=1, capacity=1))
    lease = (await poll).leases[0]
    parked_poll = asyncio.ensure_future(worker.poll(wait=30, poller=2))
    await asyncio.sleep(0.05)
    began = now()
    assert await worker.close() == 3
    assert not (await parked_poll).leases
    found = await heir.some(3)
    assert now() - began < 1.0
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
    await asyncio.sleep(0.05)
    assert await worker.close("DRAIN") == 0
    answer = await asyncio.wait_for(parked_poll, 1)
    assert not answer.leases
    job = await tenant.create()
    began = now()
    answer = await worker.poll(wait=5)
    assert now() - began < 0.5
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
    assert [seconds(each) for each in times] == [6, 6, 2, 50]
    assert (opened.max_results, opened.protocol_version) == (500, 1)


async def test_beats_are_no_rarer_than_what_the_way_bears(start: Start) -> None:
    """However long a session may be silent, proxies forget what passes nothing for a minute."""
    tenant = await (await start(session_ttl_s=600.0)).tenant()
    opened = (await tenant.worker()).opened
    assert (seconds(opened.lease_ttl), seconds(opened.beat_interval)) == (600, 30)


async def test_polls_of_many_empty_queues_cost_the_store_nothing(start: Start) -> None:
    coordinator = await start()
    tenant = await coordinator.tenant()
    worker = await tenant.worker([f"q{i}" for i in range(64)])
    calls = [asyncio.ensure_future(worker.poll(wait=0.5, poller=i)) for i in range(64)]
    await parked(coordinator, 64)
    before = coordinator.count("rota.leases.granted") + coordinator.count("rota.claims.missed")
    answers = await asyncio.gather(*calls)
    assert all(not answer.leases for answer in answers)
    after = coordinator.count("rota.leases.granted") + coordinator.count("rota.claims.missed")
    assert before == after == 0
    assert len({seconds(answer.next_poll_after) for answer in answers}) > 32
