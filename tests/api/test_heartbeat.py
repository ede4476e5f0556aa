"""Heartbeat and SendHeartbeat: hello, beats, what is lost, directives, and what the end of a stream means: nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from rota_sdk.gen.rota.admin.v1 import admin_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2

from .running import Running, Tenant, Worker, eventually, refusal, refusal_of, seconds

pytestmark = pytest.mark.asyncio(loop_scope="session")

Start = Callable[..., Awaitable[Running]]


async def session_row(tenant: Tenant, worker: Worker) -> admin_pb2.Session:
    sessions = (await tenant.admin.ListSessions(admin_pb2.ListSessionsRequest())).sessions
    return next(session for session in sessions if session.name == worker.session)


async def test_hello_and_beats_are_answered(tenant: Tenant) -> None:
    worker = await tenant.worker()
    await tenant.create()
    lease = await worker.one()
    async with worker.stream() as stream:
        assert (stream.hello.seq, seconds(stream.hello.renewed_for)) == (0, 15)
        assert (list(stream.hello.lost), list(stream.hello.directives)) == ([], [])
        for _ in range(3):
            ack = await stream.beat(free_slots=4)
            assert (seconds(ack.renewed_for), list(ack.lost)) == (15, [])
    await worker.done(lease)


async def test_what_is_not_held_any_more_is_lost(tenant: Tenant) -> None:
    worker = await tenant.worker()
    await tenant.create_many(3)
    kept, released, done = await worker.some(3)
    stale = [worker_pb2.HeldLease(job=each.job, fence=each.fence) for each in (released, done)]
    foreign = worker_pb2.HeldLease(job="jobs/00000000-0000-7000-8000-000000000000", fence=7)
    await worker.done(released, released=3600)
    await worker.done(done)
    inventory = worker.inventory
    inventory.leases.extend([*stale, foreign])
    expected = sorted((held.job, held.fence) for held in [*stale, foreign])
    async with worker.stream(inventory) as stream:
        assert sorted((held.job, held.fence) for held in stream.hello.lost) == expected
        ack = await stream.beat(inventory=inventory)
        assert sorted((held.job, held.fence) for held in ack.lost) == expected
        # A beat without an inventory says nothing of leases, and asks nothing.
        assert list((await stream.beat()).lost) == []
    assert sorted((held.job, held.fence) for held in (await worker.beat(inventory)).lost) == expected
    assert await tenant.state(kept) == "LEASED"


async def test_an_inventory_proves_receipt(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = await start(delivery_ttl_s=60.0)
    tenant = await coordinator.tenant()
    by_hello, by_beat, by_ack = await tenant.worker(["a"]), await tenant.worker(["b"]), await tenant.worker(["c"])
    jobs = [await tenant.create(queue=queue) for queue in "abc"]
    for worker in (by_hello, by_beat, by_ack):
        await worker.one()
    async with by_hello.stream():
        await by_beat.prove()
        await by_ack.lease(1)
        # Not before all are proven, and then for several looks of the reaper.
        monkeypatch.setattr(coordinator.node.reaper, "_delivery_ttl_s", 0.3)
        sweeps = coordinator.node.reaper.last_ok or 0.0
        await eventually(lambda: (coordinator.node.reaper.last_ok or 0.0) > sweeps + 1.1)
        assert [await tenant.outcomes(job) for job in jobs] == [["UNSPECIFIED"]] * 3


async def test_the_end_of_a_stream_is_not_the_end_of_the_session(tenant: Tenant) -> None:
    worker = await tenant.worker()
    job = await tenant.create()
    await worker.one()
    for end in ("cancel", "close", "half"):
        async with worker.stream() as stream:
            if end == "half":
                await stream.call.done_writing()
                assert await stream.call.code() is grpc.StatusCode.OK
        assert (await worker.prove()).lost == []
    assert await tenant.outcomes(job) == ["UNSPECIFIED"]
    assert (await session_row(tenant, worker)).state == admin_pb2.SESSION_STATE_ACTIVE


async def test_beats_before_a_half_close_are_answered(tenant: Tenant) -> None:
    worker = await tenant.worker()
    for _ in range(10):
        async with worker.stream() as stream:
            beats = [worker.next_beat() for _ in range(5)]
            for beat in beats:
                await stream.write(worker_pb2.HeartbeatRequest(beat=beat))
            await stream.call.done_writing()
            for beat in beats:
                await stream.ack(beat.seq)
            assert await stream.call.code() is grpc.StatusCode.OK


async def test_messages_of_unknown_kinds_are_ignored(tenant: Tenant) -> None:
    worker = await tenant.worker()
    call = tenant.channel.stream_stream(
        "/rota.worker.v1.WorkerService/Heartbeat", response_deserializer=worker_pb2.HeartbeatResponse.FromString
    )(metadata=(("authorization", f"Bearer {tenant.key}"),), timeout=10)
    hello = worker_pb2.HeartbeatRequest(hello=worker_pb2.Hello(session=worker.session))
    beat = worker_pb2.HeartbeatRequest(beat=worker_pb2.Beat(seq=7)).SerializeToString()
    future_field = b"\xfa\x01\x03new"  # field 31, a text
    await call.write(hello.SerializeToString() + future_field)
    assert (await call.read()).ack.seq == 0
    for unknown in (b"", future_field, hello.SerializeToString()):
        await call.write(unknown)
    await call.write(beat + future_field)
    answer = await asyncio.wait_for(call.read(), 5)
    assert answer.ack.seq == 7
    call.cancel()


async def test_a_beat_with_nonsense_is_a_beat(tenant: Tenant) -> None:
    worker = await tenant.worker(slots=5)
    progress = [worker_pb2.Progress(job="x", fence=-1, note="n" * 5000)]
    ack = await worker.beat(free_slots=-5, progress=progress, acked_directives=[0, -1, 2**62] * 100)
    assert seconds(ack.renewed_for) == 15
    assert (await session_row(tenant, worker)).free_slots == 0
    await worker.beat(free_slots=2**31 - 1)
    assert (await session_row(tenant, worker)).free_slots == 10_000


async def test_a_session_that_is_dead_ends_its_stream(start: Start) -> None:
    coordinator = await start(session_ttl_s=1.0)
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    async with worker.stream() as stream:

        async def gone() -> bool:
            sessions = (await tenant.admin.ListSessions(admin_pb2.ListSessionsRequest())).sessions
            return not sessions

        await eventually(gone, every_s=0.1)
        await stream.write(worker_pb2.HeartbeatRequest(beat=worker.next_beat()))
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await stream.read()
        assert refusal_of(ended.value).case == ("NOT_FOUND", "SESSION_GONE")

    async def hello() -> None:
        async with worker.stream():
            pass

    for call in (hello(), worker.beat()):
        assert (await refusal(call)).case == ("NOT_FOUND", "SESSION_GONE")
    members = coordinator.node.memory.members
    await eventually(lambda: (coordinator.count("rota.sessions.expired"), len(members)) == (1, 0))


async def test_a_second_stream_takes_over_the_pushing(tenant: Tenant) -> None:
    worker = await tenant.worker()
    await tenant.create_many(2)
    a, b = await worker.some(2)
    async with worker.stream() as old, worker.stream() as new:
        await tenant.cancel(a)
        assert (await new.directive()).job == a.job
        # The older one hears of it with its next beat.
        assert [d.job for d in (await old.beat()).directives] == [a.job]
        assert old.pushed == []
        old.call.cancel()
        await tenant.cancel(b)
        assert (await new.directive()).job == b.job


async def test_slots_are_shown_as_told(tenant: Tenant) -> None:
    worker = await tenant.worker(slots=7)
    assert (await session_row(tenant, worker)).free_slots == 7
    async with worker.stream() as stream:
        # Hello says nothing of slots.
        assert (await session_row(tenant, worker)).free_slots == 7
        await stream.beat(free_slots=3)
        row = await session_row(tenant, worker)
        assert (row.slots, row.free_slots) == (7, 3)


async def test_a_new_coordinator_asks_what_a_worker_holds(start: Start) -> None:
    """It took over a lease whose answer may have been lost: only the worker knows, and beats need not say."""
    first = await start(session_ttl_s=30.0, delivery_ttl_s=30.0)
    tenant = await first.tenant()
    worker, unaware = await tenant.worker(["a"]), await tenant.worker(["b"])
    kept, lost = [await tenant.create(queue=queue) for queue in "ab"]
    held = await worker.one()
    assert (await unaware.poll(wait=5)).leases  # the answer does not arrive
    await first.node.drain()

    second = await start(first.url, session_ttl_s=30.0, delivery_ttl_s=30.0)
    await eventually(lambda: len(second.node.memory.in_flight) == 2)
    heirs = [_at(second, each) for each in (worker, unaware)]
    for heir in heirs:
        kinds = [d.kind for d in (await heir.beat()).directives]
        assert kinds == [worker_pb2.DIRECTIVE_KIND_RESYNC]
        # Asked until answered.
        (directive,) = (await heir.beat()).directives
        ack = await heir.beat(heir.inventory, acked_directives=[directive.id])
        assert (list(ack.directives), list(ack.lost)) == ([], [])
    assert await heirs[0].tenant.outcomes(kept) == ["UNSPECIFIED"]
    assert await heirs[1].tenant.outcomes(lost) == ["UNDELIVERED"]
    assert (await heirs[1].one()).job == lost.name
    await heirs[0].done(held)


async def test_a_takeover_under_a_living_session_asks_too(start: Start) -> None:
    first = await start(session_ttl_s=30.0)
    tenant = await first.tenant()
    worker = await tenant.worker()
    await tenant.create()
    await worker.one()
    second = await start(first.url, session_ttl_s=30.0)
    heir = _at(second, worker)
    async with heir.stream() as stream:
        assert list(stream.hello.lost) == []
        # The first one goes, and the second takes its shards.
        await first.node.drain()
        pushed = await stream.directive(within_s=10.0)
        assert pushed.kind == worker_pb2.DIRECTIVE_KIND_RESYNC
        assert list((await stream.beat(inventory=heir.inventory)).directives) == []


async def test_a_gap_that_nobody_could_hear_in_kills_nobody(start: Start) -> None:
    """Down for longer than the TTL: the next coordinator gives every session another term."""
    first = await start(session_ttl_s=1.0)
    tenant = await first.tenant()
    worker = await tenant.worker()
    job = await tenant.create()
    lease = await worker.one()
    await worker.prove()
    await first.node.drain()
    await first.node.stop()
    await asyncio.sleep(1.3)
    second = await start(first.url, session_ttl_s=10.0)
    heir = _at(second, worker)
    assert list((await heir.prove()).lost) == []
    await heir.done(lease)
    assert await heir.tenant.outcomes(job) == ["SUCCEEDED"]


async def test_too_many_unanswered_directives_become_one(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    from rota.domain import limits

    monkeypatch.setattr(limits, "DIRECTIVES_MAX", 3)
    worker = await tenant.worker()
    await tenant.create_many(5)
    for lease in await worker.some(5):
        await tenant.cancel(lease, "FENCE_OUT")
    directives = list((await worker.beat()).directives)
    assert worker_pb2.DIRECTIVE_KIND_RESYNC in {d.kind for d in directives}
    assert len(directives) <= 3
    # The inventory tells the same.
    assert len((await worker.prove()).lost) == 5


async def test_sessions_are_listed_as_they_are(tenant: Tenant) -> None:
    labels = {"zone": "a"}
    worker = await tenant.worker(["q", "r"], ["t"], slots=3, labels=labels, sdk="s/1", build_id="b")
    drained = await tenant.worker(["q"])
    await drained.close("DRAIN")
    closed = await tenant.worker()
    await closed.close()
    await tenant.create("t", queue="q")
    await worker.one()
    await worker.beat(free_slots=2)

    async def listed(**fields: Any) -> list[str]:
        found, token = [], ""
        while True:
            request = admin_pb2.ListSessionsRequest(page_token=token, **fields)
            answer = await tenant.admin.ListSessions(request)
            found += [session.name for session in answer.sessions]
            token = answer.next_page_token
            if not token:
                return found

    everyone = {worker.session, drained.session}
    assert set(await listed()) == everyone
    for size in (1, 2, 1000):
        names = await listed(page_size=size)
        assert (set(names), len(names)) == (everyone, 2)
    assert await listed(state=admin_pb2.SESSION_STATE_DRAINING) == [drained.session]
    assert await listed(queue="r") == [worker.session]
    assert await listed(queue="nope", page_size=1) == []
    row = await session_row(tenant, worker)
    assert (list(row.queues), list(row.types), row.slots, row.free_slots) == (["q", "r"], ["t"], 3, 2)
    assert (row.worker, row.sdk, row.build_id, dict(row.labels)) == ("test", "s/1", "b", labels)
    assert (row.state, row.leases, row.epoch) == (admin_pb2.SESSION_STATE_ACTIVE, 1, worker.opened.epoch)
    assert row.last_beat_time.ToDatetime() >= row.open_time.ToDatetime()
    assert (row.expire_time.ToDatetime() - row.last_beat_time.ToDatetime()).total_seconds() == 15


async def test_a_session_that_does_not_poll_is_stalled(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    from rota.api import admin

    assert admin.STALLED_AFTER_S == 30
    monkeypatch.setattr(admin, "STALLED_AFTER_S", 0.1)
    worker = await tenant.worker(slots=1)
    await worker.lease(1)
    await worker.beat(free_slots=1)
    await asyncio.sleep(0.2)
    assert (await session_row(tenant, worker)).state == admin_pb2.SESSION_STATE_STALLED
    # One without free slots has no reason to poll.
    await worker.beat(free_slots=0)
    assert (await session_row(tenant, worker)).state == admin_pb2.SESSION_STATE_ACTIVE


def _at(coordinator: Running, worker: Worker) -> Worker:
    """The same worker, talking to another coordinator."""
    moved = Worker(coordinator.the_same(worker.tenant), worker.opened)
    moved.held, moved.batches, moved._seq = worker.held, worker.batches, worker._seq
    return moved
