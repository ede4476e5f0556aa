"""CheckInvariants, the auditor of a real coordinator, and health that means progress."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

from rota.coordinator import poller as poller_module
from rota.coordinator.auditor import Auditor
from rota.domain import invariants
from rota.service import invariants as service

from .running import Running, Tenant, eventually, refusal

pytestmark = pytest.mark.asyncio(loop_scope="session")

Start = Callable[..., Awaitable[Running]]


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "CONFIRM_S", 0.01)


async def check(operator: Tenant, *names: str, **fields: Any) -> dict[str, pb.InvariantResult]:
    answer = await operator.admin.CheckInvariants(pb.CheckInvariantsRequest(names=names, **fields))
    return {each.name: each for each in answer.results}


async def sql(url: str, statement: str) -> Any:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        cursor = await conn.execute(statement.encode())
        return await cursor.fetchall() if cursor.description else None


async def test_it_holds_where_all_goes_its_way(start: Start) -> None:
    coordinator = await start()
    operator = await coordinator.tenant("default")
    worker = await operator.worker()
    await operator.create_many(5)
    leases = await worker.some(3)
    await worker.done(leases[0])
    await worker.done(leases[1], failed="E")
    found = await check(operator)
    assert list(found) == list(invariants.NAMES)
    assert [name for name, each in found.items() if not each.holds] == []
    assert all(each.description and not each.violation_count and not each.examples for each in found.values())


async def test_what_is_wrong_is_counted_shown_and_repaired(start: Start) -> None:
    coordinator = await start(session_ttl_s=60.0, delivery_ttl_s=60.0)
    operator = await coordinator.tenant("default")
    worker = await operator.worker()
    await operator.create_many(3)
    leases = await worker.some(3)
    await sql(coordinator.url, "DELETE FROM sessions")
    await sql(coordinator.url, "UPDATE jobs SET leased_at = leased_at - interval '2 minutes'")
    name = invariants.LIVE_SESSION
    found = await check(operator, name, max_examples=2)
    assert list(found) == [name]
    assert (found[name].holds, found[name].violation_count, found[name].repaired_count) == (False, 3, 0)
    assert set(found[name].examples) < {lease.job for lease in leases} and len(found[name].examples) == 2
    assert not (await check(operator, name, max_examples=0))[name].examples
    repaired = (await check(operator, repair=True))[name]
    assert (repaired.violation_count, repaired.repaired_count) == (3, 3)
    assert (await check(operator, name))[name].holds
    again = await operator.worker()
    assert {lease.attempt for lease in await again.some(3)} == {2}


async def test_it_concerns_the_installation(tenant: Tenant) -> None:
    found = await refusal(tenant.admin.CheckInvariants(pb.CheckInvariantsRequest()))
    assert found.case == ("PERMISSION_DENIED", "PERMISSION_DENIED")


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.CheckInvariantsRequest(names=["fates_sum", "nope"]), "names"),
        (pb.CheckInvariantsRequest(max_examples=101), "max_examples"),
        (pb.CheckInvariantsRequest(max_examples=-1), "max_examples"),
    ],
)
async def test_what_it_refuses(rota: Running, request_: pb.CheckInvariantsRequest, field: str) -> None:
    operator = await rota.tenant("default")
    found = await refusal(operator.admin.CheckInvariants(request_))
    assert (found.code.name, found.fields) == ("INVALID_ARGUMENT", (field,))


async def test_one_check_of_all_rows_at_a_time(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = await start()
    operator = await coordinator.tenant("default")
    monkeypatch.setattr(service, "CONFIRM_S", 5.0)
    await sql(coordinator.url, "UPDATE schedule_timers SET arm_at = NULL")
    await sql(coordinator.url, "UPDATE coordinators SET started_at = '2020-01-01'")
    await sql(coordinator.url, "UPDATE shards SET watermark = '2020-01-01'")
    first = asyncio.ensure_future(check(operator))
    assert coordinator.node.invariants is not None
    await eventually(lambda: coordinator.node.invariants._checking)
    found = await refusal(operator.admin.CheckInvariants(pb.CheckInvariantsRequest()))
    assert found.code.name == "RESOURCE_EXHAUSTED"
    first.cancel()


async def test_the_auditor_finds_what_memory_has_forgotten(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Public story 38: a job that nobody looks for, since the mark of its shard has passed it, is found and run."""
    monkeypatch.setattr(poller_module, "WATERMARK_EVERY_S", 0.2)
    coordinator = await start()
    tenant = await coordinator.tenant()
    worker = await tenant.worker()
    job = await tenant.create(delay=3_600.0)
    id = job.name.removeprefix("jobs/")
    await eventually(lambda: sql(coordinator.url, "SELECT 1 FROM shards HAVING count(watermark) = 256"))
    await sql(coordinator.url, f"UPDATE jobs SET due_at = now() - interval '1 hour' WHERE id = '{id}'")
    assert await worker.lease(1, 1.0) == []
    (auditor,) = [loop for loop in coordinator.node._loops if isinstance(loop, Auditor)]
    for _ in range(2):
        await auditor.step()
    assert [lease.job for lease in await worker.some(1)] == [job.name]
    counted = coordinator.node._metrics.snapshot()
    assert counted["rota.invariants.repaired"][invariants.REACHABLE] == 1  # type: ignore[index]


async def test_health_is_progress_and_not_a_living_process(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Public stories 36 and 38: the loop of one duty fails, and the process looks well."""
    coordinator = await start()
    node = coordinator.node
    stub = health_pb2_grpc.HealthStub(coordinator.channel)
    watch = stub.Watch(health_pb2.HealthCheckRequest(service="rota.worker.v1.WorkerService"))
    assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING

    async def broken() -> float:
        raise RuntimeError("injected")

    monkeypatch.setattr(node.materializer, "patience_s", 0.4)
    whole = node.materializer.step
    monkeypatch.setattr(node.materializer, "step", broken)
    node.materializer.wake()
    assert (await asyncio.wait_for(watch.read(), 10)).status == health_pb2.HealthCheckResponse.NOT_SERVING
    assert node.unwell() == "no progress of: materializer"
    assert node._metrics.snapshot()["rota.loops.stalled"] == 1
    # The only one keeps its shards: half of the duties are done.
    assert len(node.memory.terms) == 256
    monkeypatch.setattr(node.materializer, "step", whole)
    monkeypatch.setattr(node.materializer, "patience_s", 60.0)
    node.materializer.wake()
    assert (await asyncio.wait_for(watch.read(), 10)).status == health_pb2.HealthCheckResponse.SERVING
    watch.cancel()


async def test_shards_go_to_those_who_do_all_duties(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = await start(shard_term_s=2.0)
    whole = await start(broken.url, shard_term_s=2.0)
    await eventually(lambda: len(broken.node.memory.terms) == len(whole.node.memory.terms) == 128)

    async def hang() -> float:
        await asyncio.sleep(3_600)
        return 0.0

    monkeypatch.setattr(broken.node.poller, "patience_s", 0.4)
    monkeypatch.setattr(broken.node.poller, "step", hang)
    broken.node.poller.wake()
    await eventually(lambda: len(whole.node.memory.terms) == 256)
    assert broken.node.memory.terms == {}
    # Workers of the one that rests are served all the same, by its peer.
    tenant = await broken.tenant()
    worker = await tenant.worker()
    job = await tenant.create()
    assert [lease.job for lease in await worker.some(1)] == [job.name]
