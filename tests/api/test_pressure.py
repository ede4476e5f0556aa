"""Back-pressure over the wire: what is refused while the store lags, what never is, and what workers are told."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import psycopg
import pytest
from rota_sdk import Lease, Worker
from rota_sdk import limits as sdk_limits
from rota_sdk.gen.rota.v1 import jobs_pb2, schedules_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2

from rota.coordinator import pressure
from rota.domain import limits

from .running import Running, Tenant, creation, eventually, refusal, refusal_of, result, seconds

pytestmark = pytest.mark.asyncio(loop_scope="session")

Start = Callable[..., Awaitable[Running]]

NEVER_S = 1_000.0
JOBS = 400


@asynccontextmanager
async def held(url: str, table: str) -> AsyncIterator[None]:
    """Whoever writes to this table waits until the end of the block."""
    async with await psycopg.AsyncConnection.connect(url) as conn:
        await conn.execute(f"LOCK TABLE {table} IN SHARE MODE")  # type: ignore[arg-type]
        yield


def thresholds(monkeypatch: pytest.MonkeyPatch, slow_s: float, low_s: float, default_s: float, all_s: float) -> None:
    for name, value in (
        ("SLOW_S", slow_s),
        ("REFUSE_LOW_S", low_s),
        ("REFUSE_DEFAULT_S", default_s),
        ("REFUSE_ALL_S", all_s),
    ):
        monkeypatch.setattr(pressure, name, value)


async def is_refused(tenant: Tenant, priority: int) -> bool:
    """Whether a creation of this priority is refused now; one that is not is left to wait."""
    call = asyncio.ensure_future(tenant.create(priority=priority))
    await asyncio.wait({call}, timeout=0.2)
    if not call.done():
        call.cancel()
        return False
    return call.exception() is not None


async def test_nothing_is_refused_when_all_is_well(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    # Four times the real ones: a machine that is shared is well all the same.
    thresholds(monkeypatch, 2.0, 4.0, 8.0, 16.0)
    coordinator = await start()
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    await asyncio.gather(*(tenant.create(priority=number % 10) for number in range(100)))
    for _ in range(5):
        await worker.settle(*map(result, await worker.some(20)))
    answer = await worker.poll()
    assert (list(answer.directives), seconds(answer.next_poll_after) <= 0.2) == ([], True)
    snapshot: Any = coordinator.telemetry.metrics.snapshot()
    assert sum(snapshot["rota.admission.refused"].values()) == 0
    assert snapshot["rota.admission.level"] == 0


async def test_a_store_that_lags_refuses_what_can_wait_and_takes_what_cannot(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    thresholds(monkeypatch, 0.05, 0.1, NEVER_S, NEVER_S)
    coordinator = await start()
    tenant, other = await coordinator.tenant(), await coordinator.tenant()
    async with held(coordinator.url, "jobs"):
        first = asyncio.ensure_future(tenant.create())
        await eventually(lambda: is_refused(tenant, 3))
        batch = jobs_pb2.BatchCreateJobsRequest(requests=[creation(priority=p) for p in (0, 1)])
        for call in (
            tenant.jobs.CreateJob(creation(priority=3)),
            tenant.jobs.BatchCreateJobs(batch),
            other.jobs.CreateJob(creation(priority=0)),
            tenant.schedules.BackfillSchedule(
                schedules_pb2.BackfillScheduleRequest(
                    name="schedules/s",
                    backfill=schedules_pb2.Backfill(
                        start_time={"seconds": 1_700_000_000},  # type: ignore[arg-type]
                        end_time={"seconds": 1_700_000_060},  # type: ignore[arg-type]
                    ),
                )
            ),
        ):
            found = await refusal(call)
            assert found.case == ("RESOURCE_EXHAUSTED", "RATE_LIMITED"), found
            assert found.retry_after_s is not None
            assert found.retry_after_s >= 0.1
        # The urgent one of a batch takes the others along.
        mixed = jobs_pb2.BatchCreateJobsRequest(requests=[creation(priority=p) for p in (0, 9)])
        taken = [
            asyncio.ensure_future(call)
            for call in (tenant.create(), tenant.create(priority=9), tenant.jobs.BatchCreateJobs(mixed))
        ]
        await asyncio.sleep(0.1)
        assert not any(call.done() for call in taken)
    await asyncio.gather(first, *taken)
    snapshot: Any = coordinator.telemetry.metrics.snapshot()
    assert snapshot["rota.admission.refused"]["low"] >= 4
    assert snapshot["rota.admission.refused"]["default"] == 0

    async def taken_again() -> bool:
        return not await is_refused(tenant, 0)

    await eventually(taken_again)


async def test_everything_new_is_refused_in_the_end_and_outcomes_and_beats_never_are(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = await start()
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    await tenant.create_many(2)
    leases = await worker.some(2)
    thresholds(monkeypatch, 0.05, 0.05, 0.1, 0.15)
    async with held(coordinator.url, "jobs"):
        reports = [asyncio.ensure_future(worker.done(lease)) for lease in leases[:1]]
        await eventually(lambda: is_refused(tenant, 9))
        for priority in range(10):
            found = await refusal(tenant.jobs.CreateJob(creation(priority=priority)))
            assert found.case == ("RESOURCE_EXHAUSTED", "RATE_LIMITED")
        trigger = schedules_pb2.TriggerScheduleRequest(name="schedules/s")
        assert (await refusal(tenant.schedules.TriggerSchedule(trigger))).case[0] == "RESOURCE_EXHAUSTED"
        reports.append(asyncio.ensure_future(worker.done(leases[1])))
        for _ in range(3):
            assert seconds((await worker.beat()).renewed_for) == 15
        # Reading is not refused either.
        assert await tenant.state(leases[0]) == "LEASED"
        assert not any(report.done() for report in reports)
    await asyncio.gather(*reports)
    assert await tenant.outcomes(leases[0]) == ["SUCCEEDED"]


async def test_workers_are_told_to_slow_down_while_outcomes_lag(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    thresholds(monkeypatch, 0.1, NEVER_S, NEVER_S, NEVER_S)
    coordinator = await start()
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    await tenant.ready(await tenant.create_many(5))
    (lease,) = await worker.some(1)
    node = coordinator.node
    async with worker.stream() as stream:
        async with held(coordinator.url, "finished_jobs"):
            report = asyncio.ensure_future(worker.done(lease))
            await eventually(lambda: node.pressure._store_lag_s(node.clock.monotonic()) >= 0.3)
            with_jobs = await worker.poll()
            worker.take(with_jobs)
            assert len(with_jobs.leases) == 1
            assert seconds(with_jobs.next_poll_after) > 0
            assert [d.kind for d in with_jobs.directives] == [worker_pb2.DIRECTIVE_KIND_SLOW_DOWN]
            # Over the stream too, once, and until it is acknowledged.
            pushed = await stream.directive()
            assert pushed == with_jobs.directives[0]
            assert list((await stream.beat()).directives) == [pushed]
            assert list((await stream.beat(acked_directives=[pushed.id])).directives) == []
            empty = await worker.poll(poller=1, capacity=1000)
            worker.take(empty, 1)
            empty = await worker.poll(poller=1)
            assert (list(empty.leases), list(empty.directives)) == ([], [])
            assert 0.15 <= seconds(empty.next_poll_after) <= pressure.POLL_AFTER_MAX_S
            assert stream.pushed == []
        await report
        await worker.settle(*map(result, list(worker.held.values())))
        answer = await eventually(lambda: _calm(worker))
        assert list(answer.directives) == []


async def _calm(worker: Any) -> Any:
    answer = await worker.poll()
    return answer if seconds(answer.next_poll_after) <= 0.2 else None


async def test_the_sdk_slows_down_and_loses_nothing(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    thresholds(monkeypatch, 0.1, NEVER_S, NEVER_S, NEVER_S)
    # Hints of their own would hide what the directive does.
    monkeypatch.setattr(pressure, "POLL_AFTER_MAX_S", 0.001)
    monkeypatch.setattr(sdk_limits, "SLOW_DOWN_S", 0.4)
    coordinator = await start()
    tenant = await coordinator.tenant()
    await tenant.create_many(JOBS)
    polled_at: list[float] = []
    lease = coordinator.node.dispatcher.lease

    async def watched(*args: Any, **more: Any) -> Any:
        polled_at.append(asyncio.get_running_loop().time())
        return await lease(*args, **more)

    monkeypatch.setattr(coordinator.node.dispatcher, "lease", watched)
    worker = Worker(["default"], 1, address=coordinator.address, api_key=tenant.key)

    def work(lease: Lease) -> None:
        return None

    worker.add("t", work)
    members = coordinator.node.memory.members
    running = asyncio.ensure_future(asyncio.to_thread(worker.run))
    try:
        async with held(coordinator.url, "finished_jobs"):
            await eventually(lambda: any(member.slow_down_at for member in members))
            # Acknowledged, so carried out.
            await eventually(lambda: not any(member.directives for member in members))
            told = len(polled_at)
            await eventually(lambda: len(polled_at) >= told + 4)
        pauses = [later - earlier for earlier, later in itertools.pairwise(polled_at[told:])]
        assert min(pauses[:3]) >= 0.3
        monkeypatch.undo()
        await eventually(lambda: worker.counts()["succeeded"] == JOBS, within_s=30.0)
    finally:
        worker.stop()
        await running


async def test_sessions_have_a_bound(start: Start) -> None:
    coordinator = await start()
    tenant, other = await coordinator.tenant(), await coordinator.tenant()
    coordinator.node.memory.members.portions.most = 16
    workers = [await tenant.worker() for _ in range(16)]
    found = await refusal(tenant.worker())
    assert found.case == ("RESOURCE_EXHAUSTED", "RATE_LIMITED")
    assert found.retry_after_s
    # Another tenant finds room, and who is there is served.
    await other.worker()
    for worker in workers[:2]:
        await worker.beat()
        await worker.close()
    await tenant.worker()


async def test_streams_and_beats_of_a_session_have_bounds(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STREAMS_MAX", 2)
    monkeypatch.setattr(limits, "BEATS_UNANSWERED_MAX", 2)
    coordinator = await start()
    tenant = await coordinator.tenant()
    worker, other = await tenant.worker(), await tenant.worker()

    async def stream() -> None:
        async with worker.stream():
            pass

    async with worker.stream(), worker.stream():
        assert (await refusal(stream())).case == ("RESOURCE_EXHAUSTED", "RATE_LIMITED")
        await worker.beat()
        async with other.stream():
            pass
    await eventually(lambda: coordinator.node.memory.members.get(worker.session.removeprefix("sessions/")).streams == 0)  # type: ignore[arg-type, union-attr]
    await stream()
    async with held(coordinator.url, "sessions"):
        beats = [asyncio.ensure_future(worker.beat()) for _ in range(2)]
        (member,) = [each for each in coordinator.node.memory.members if worker.session.endswith(each.id)]
        await eventually(lambda: member.beats_unanswered == 2)
        assert (await refusal(worker.beat())).case == ("RESOURCE_EXHAUSTED", "RATE_LIMITED")
        beats.append(asyncio.ensure_future(other.beat()))
        await asyncio.sleep(0.1)
        assert not any(beat.done() for beat in beats)
    await asyncio.gather(*beats)
    await worker.beat()


async def test_leases_have_a_bound_until_outcomes_come(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = await start()
    tenant = await coordinator.tenant()
    worker, other = await tenant.worker(), await tenant.worker()
    await tenant.create_many(10)
    monkeypatch.setattr(limits, "SESSION_LEASES_MAX", 3)
    leases = await worker.some(3)
    assert (await refusal(worker.poll())).case == ("RESOURCE_EXHAUSTED", "RATE_LIMITED")
    await other.one()
    monkeypatch.setattr(limits, "IN_FLIGHT_MAX", 4)
    assert (await refusal(other.poll())).case == ("RESOURCE_EXHAUSTED", "RATE_LIMITED")
    for lease in leases:
        await worker.done(lease)
    await worker.one()
    await other.one()


async def test_calls_and_waits_have_bounds_of_their_own(start: Start) -> None:
    coordinator = await start()
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    job = await tenant.create()
    held_back = coordinator.node.pressure
    held_back.waits.most = 1
    waiting = asyncio.ensure_future(tenant.jobs.WaitJob(jobs_pb2.WaitJobRequest(name=job.name)))
    await eventually(lambda: held_back.waits.total == 1)
    found = await refusal(tenant.jobs.WaitJob(jobs_pb2.WaitJobRequest(name=job.name)))
    assert found.case == ("RESOURCE_EXHAUSTED", "RATE_LIMITED")
    held_back.calls.most = 1
    async with held(coordinator.url, "sessions"):
        closing = asyncio.ensure_future(worker.close("DRAIN"))
        await eventually(lambda: held_back.calls.total == 1)
        # One that goes leaves its statement behind, and that counts.
        closing.cancel()
        await asyncio.sleep(0.1)
        found = await refusal(tenant.get(job))
        assert found.case == ("RESOURCE_EXHAUSTED", "RATE_LIMITED")
        assert found.retry_after_s
        # What goes in batches is not counted.
        await tenant.create()
    await eventually(lambda: held_back.calls.total == 0)
    await tenant.get(job)
    (lease,) = await (await tenant.worker()).lease(1, 5.0)
    await eventually(lambda: held_back.waits.total == 1)
    waiting.cancel()
    await eventually(lambda: held_back.waits.total == 0)
    assert lease.job == job.name


async def test_calls_of_all_kinds_have_a_bound(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RPCS_MAX", 3)
    coordinator = await start()
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    polls = [worker.poll(wait=20, poller=number) for number in range(3)]
    await eventually(lambda: coordinator.node.dispatcher.parked == 3)
    for _ in range(5):
        found = await refusal(tenant.create())
        assert (*found.case, found.domain) == ("RESOURCE_EXHAUSTED", "RATE_LIMITED", "rota")
        assert found.retry_after_s
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        async with worker.stream():
            pass
    assert refusal_of(raised.value).case == ("RESOURCE_EXHAUSTED", "RATE_LIMITED")
    for poll in polls:
        poll.cancel()
    await eventually(lambda: _is_taken(tenant))
    # All places are free again.
    polls = [worker.poll(wait=20, poller=number, capacity=1, request_id=f"r{number}") for number in range(3)]
    await eventually(lambda: coordinator.node.dispatcher.parked == 2)


async def _is_taken(tenant: Tenant) -> bool:
    try:
        await tenant.create()
    except grpc.aio.AioRpcError:
        return False
    return True


async def test_directives_come_in_portions(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DIRECTIVES_PER_ANSWER_MAX", 2)
    worker = await tenant.worker()
    await tenant.create_many(5)
    leases = await worker.some(5)
    for lease in leases:
        await tenant.cancel(lease)
    told: list[str] = []
    acked: list[int] = []
    while directives := list((await worker.beat(acked_directives=acked)).directives):
        assert len(directives) <= 2
        told += [directive.job for directive in directives]
        acked = [directive.id for directive in directives]
    assert told == [lease.job for lease in leases]
