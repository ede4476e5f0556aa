"""Lease: parked polls, and what an answer holds."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from rota_sdk.gen.rota.v1 import common_pb2, jobs_pb2

from rota.domain import limits

from .running import Running, Tenant, Worker, creation, now, parked, seconds, span

pytestmark = pytest.mark.asyncio(loop_scope="session")

Start = Callable[..., Awaitable[Running]]
KIB = 1024
MIB = 1024 * KIB
NO_WAIT = common_pb2.RetryPolicy(initial_backoff=span(0), max_backoff=span(0))


async def test_a_parked_poll_is_woken_by_new_work(told: Tenant) -> None:
    tenant, worker = told, await told.worker()
    delays = []
    for _ in range(10):
        poll = asyncio.ensure_future(worker.poll(wait=10))
        await worker.waiting()
        began = now()
        await tenant.create()
        answer = await poll
        delays.append(now() - began)
        assert len(worker.take(answer)) == 1
    # Creation, claim and answer together.
    assert sorted(delays)[5] < 0.5, delays


async def test_a_parked_poll_is_woken_by_time(told: Tenant) -> None:
    worker = await told.worker()
    late_s = []
    for _ in range(3):
        job = await told.create(delay=0.2)
        await worker.one()
        leased = await told.get(job)
        late_s.append((leased.lease_time.ToDatetime() - job.due_time.ToDatetime()).total_seconds())
    assert min(late_s) >= 0
    assert sorted(late_s)[1] < 0.3, late_s


async def test_a_parked_poll_is_woken_by_a_retry_and_a_release(told: Tenant) -> None:
    job = await told.create(retry_policy=NO_WAIT)
    first, second = await told.worker(), await told.worker()
    lease = await first.one()
    for outcome in ({"failed": "E"}, {"released": 0.0}):
        poll = asyncio.ensure_future(second.one(wait=10))
        await second.waiting()
        await first.done(lease, **outcome)
        lease = await poll
        assert lease.job == job.name
        first, second = second, first


@pytest.mark.parametrize("wait", [0.0, 0.1, 0.5])
async def test_a_wait_is_kept(tenant: Tenant, wait: float) -> None:
    worker = await tenant.worker()
    spans_s = []
    for _ in range(3):
        began = now()
        answer = await worker.poll(wait=wait)
        spans_s.append(now() - began)
        assert (len(answer.leases), answer.batch) == (0, 0)
        # Workers that were answered together come back apart.
        assert 0 <= seconds(answer.next_poll_after) <= 0.2
    assert wait - 0.01 <= min(spans_s) < wait + 0.3


async def test_long_waits_are_cut_and_the_default_is_ten_seconds(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (limits.LEASE_WAIT_MAX_S, limits.LEASE_WAIT_DEFAULT_S) == (50, 10)
    worker = await tenant.worker()
    for limit, wait, expected_s in (("LEASE_WAIT_MAX_S", 3600.0, 0.4), ("LEASE_WAIT_DEFAULT_S", None, 0.2)):
        with monkeypatch.context() as patched:
            patched.setattr(limits, limit, expected_s)
            began = now()
            await worker.poll(wait=wait)
            # Far less than either limit is by itself.
            assert expected_s - 0.01 <= now() - began < 5.0


async def test_a_poll_leaves_its_caller_a_second(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits.LEASE_DEADLINE_MARGIN_S == 1
    # More here, or a call that is held up on its way fails.
    monkeypatch.setattr(limits, "LEASE_DEADLINE_MARGIN_S", 4.0)
    worker = await tenant.worker()
    began = now()
    request = worker.request(wait=30)
    assert not (await tenant.work.Lease(request, timeout=4.5)).leases
    assert now() - began > 0.3
    # With less than that nothing is claimed: the caller may be gone before a claim has committed.
    job = await tenant.create()
    await tenant.ready([job])
    assert not (await tenant.work.Lease(worker.request(wait=0), timeout=3.9)).leases
    assert not (await tenant.work.Lease(worker.request(wait=5), timeout=3.9)).leases
    assert (await tenant.get(job)).attempt == 0
    assert await worker.one(wait=5)
    # No deadline at all is none.
    await tenant.create()
    assert (await tenant.work.Lease(worker.request(wait=5), timeout=None)).leases


async def test_a_poll_that_waits_sends_no_early_metadata(tenant: Tenant) -> None:
    # Metadata that comes early disables gRPC's own retries.
    worker = await tenant.worker()
    call = worker.poll(wait=10)
    metadata = asyncio.ensure_future(call.initial_metadata())
    await worker.waiting()
    await asyncio.wait({metadata}, timeout=0.3)
    assert not metadata.done()
    await tenant.create()
    assert (await call).leases
    await metadata


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


async def test_a_poll_that_is_superseded_is_answered(start: Start) -> None:
    coordinator = await start()
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    earlier = asyncio.ensure_future(worker.poll(wait=30))
    await parked(coordinator, 1)
    later = asyncio.ensure_future(worker.poll(wait=30))
    answer = await asyncio.wait_for(earlier, 10)
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
    store = coordinator.node.dispatcher._claims._leases._store
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
    answers = await asyncio.wait_for(asyncio.gather(earlier, later), 10)
    assert [len(answer.leases) for answer in answers] == [0, 1]
    # Its grant was given back, and no attempt used.
    assert await tenant.outcomes(job) == ["UNDELIVERED", "UNSPECIFIED"]
    assert answers[1].leases[0].attempts_counted == 0


async def test_polls_of_many_empty_queues_cost_the_store_nothing(start: Start) -> None:
    coordinator = await start()
    tenant = await coordinator.tenant()
    worker = await tenant.worker([f"q{i}" for i in range(64)])
    answers = await asyncio.gather(*(worker.poll(wait=0.5, poller=i) for i in range(64)))
    assert all(not answer.leases for answer in answers)
    assert coordinator.count("rota.leases.granted") + coordinator.count("rota.claims.missed") == 0
    assert len({seconds(answer.next_poll_after) for answer in answers}) > 32
