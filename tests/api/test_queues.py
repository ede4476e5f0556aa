"""Queues: what operators set, pause and purge, and that workers feel it at once."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import pytest_asyncio
from google.protobuf.field_mask_pb2 import FieldMask
from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb
from rota_sdk.gen.rota.v1 import jobs_pb2

from rota.domain import limits
from rota.domain.model import Role

from .running import Running, Tenant, refusal, seconds, span, state_name
from .test_validation import check_invalid

pytestmark = pytest.mark.asyncio(loop_scope="session")

SOON_S = 5.0


async def update(tenant: Tenant, name: str, *paths: str, etag: str = "", **fields: Any) -> pb.Queue:
    request = pb.UpdateQueueRequest(queue=pb.Queue(name=name, etag=etag, **fields), update_mask=FieldMask(paths=paths))
    return (await tenant.admin.UpdateQueue(request)).queue


async def get(tenant: Tenant, name: str) -> pb.Queue:
    return (await tenant.admin.GetQueue(pb.GetQueueRequest(name=name))).queue


async def pause(tenant: Tenant, name: str, reason: str = "") -> pb.Queue:
    return (await tenant.admin.PauseQueue(pb.PauseQueueRequest(name=name, reason=reason))).queue


async def resume(tenant: Tenant, name: str) -> pb.Queue:
    return (await tenant.admin.ResumeQueue(pb.ResumeQueueRequest(name=name))).queue


async def purge(tenant: Tenant, name: str, *states: str, **fields: Any) -> pb.PurgeQueueResponse:
    numbers = [jobs_pb2.JobState.Value(f"JOB_STATE_{state}") for state in states]
    return await tenant.admin.PurgeQueue(pb.PurgeQueueRequest(name=name, states=numbers, **fields))


async def names(tenant: Tenant, **fields: Any) -> list[str]:
    return [queue.name for queue in (await tenant.admin.ListQueues(pb.ListQueuesRequest(**fields))).queues]


@pytest_asyncio.fixture(loop_scope="session")
async def uncached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts are taken for each call."""
    from rota.service import queues

    monkeypatch.setattr(queues, "COUNTS_LIFE_S", 0.0)


async def test_a_queue_exists_from_the_first_that_names_it(tenant: Tenant, uncached: None) -> None:
    missing = await refusal(get(tenant, "queues/a"))
    assert missing.case == ("NOT_FOUND", "RESOURCE_NOT_FOUND")
    for change in (pause, resume, purge):
        assert (await refusal(change(tenant, "queues/a"))).case == ("NOT_FOUND", "RESOURCE_NOT_FOUND")
    assert await names(tenant) == []
    await tenant.create(queue="by-job")
    await tenant.worker(queues=["by-session"])
    made = await update(tenant, "queues/by-update", weight=7)
    assert await names(tenant) == ["queues/by-job", "queues/by-session", "queues/by-update"]
    assert await get(tenant, "by-update") == made
    found = await get(tenant, "queues/by-job")
    assert (found.weight, found.HasField("rate"), found.ready_count, found.paused) == (100, False, 1, False)
    assert (await get(tenant, "queues/by-session")).session_count == 1


async def test_a_queue_whose_first_job_is_new_is_found(tenant: Tenant) -> None:
    """Though counts are kept for a while."""
    await names(tenant)
    await tenant.create(queue="fresh")
    assert (await get(tenant, "queues/fresh")).ready_count == 1


async def test_what_is_in_a_queue(tenant: Tenant, uncached: None) -> None:
    await tenant.create_many(3, queue="q", delay=3_600.0)
    await tenant.create_many(4, queue="q")
    worker = await tenant.worker(queues=["q", "q"])
    leases = await worker.some(3)
    await worker.done(leases[0], failed="E", retryable=False)
    await worker.done(leases[1], failed="E")
    found = await get(tenant, "queues/q")
    assert (found.scheduled_count, found.ready_count, found.leased_count) == (3, 1, 1)
    assert (found.retry_wait_count, found.dead_count, found.session_count) == (1, 1, 1)
    assert found.HasField("oldest_ready_age")
    assert not (await get(tenant, "queues/q")).paused


async def test_counts_are_taken_once_for_many_calls(rota: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks, and however many at once."""
    tenants = [await rota.tenant() for _ in range(3)]
    for each in tenants:
        await update(each, "queues/a", weight=1)
    taken: list[float] = []
    store = rota.node.queues._store
    count = store.counts

    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def counts(self) -> Any:
            taken.append(1)
            return await count()

    monkeypatch.setattr(rota.node.queues, "_store", Counting())
    monkeypatch.setattr(rota.node.queues, "_counted_at", None)
    await asyncio.gather(*[get(each, "queues/a") for each in tenants for _ in range(10)])
    assert len(taken) == 1


async def test_an_update_takes_the_fields_of_its_mask(tenant: Tenant) -> None:
    made = await update(tenant, "queues/a", weight=7, rate=2.5, rate_burst=4, max_in_flight=9, max_in_flight_per_key=2)
    assert (made.weight, made.rate, made.rate_burst) == (7, 2.5, 4)
    assert (made.max_in_flight, made.max_in_flight_per_key) == (9, 2)
    found = await update(tenant, "queues/a", "max_in_flight", "weight", max_in_flight=3, rate=1.0)
    assert (found.weight, found.rate, found.max_in_flight) == (100, 2.5, 3)
    found = await update(tenant, "queues/a", "rate")
    assert not found.HasField("rate") and not found.HasField("rate_burst")
    assert found.max_in_flight_per_key == 2
    found = await update(tenant, "queues/a", "*", weight=3)
    assert (found.weight, found.HasField("max_in_flight"), found.HasField("max_in_flight_per_key")) == (3, False, False)
    assert await get(tenant, "queues/a") == found


async def test_only_the_version_of_the_etag_is_changed(tenant: Tenant) -> None:
    made = await update(tenant, "queues/a", weight=1, etag="v0")
    found = await update(tenant, "queues/a", weight=2, etag=made.etag)
    for stale in (made.etag, "v0", "*"):
        assert (await refusal(update(tenant, "queues/a", weight=3, etag=stale))).case == ("ABORTED", "ETAG_MISMATCH")
    paused = await pause(tenant, "queues/a")
    assert (await refusal(update(tenant, "queues/a", weight=3, etag=found.etag))).case[1] == "ETAG_MISMATCH"
    assert (await update(tenant, "queues/a", weight=3, etag=paused.etag)).paused


async def test_changes_at_once_are_all_made(tenant: Tenant) -> None:
    await asyncio.gather(
        update(tenant, "queues/a", weight=5),
        update(tenant, "queues/a", max_in_flight=6),
        update(tenant, "queues/a", max_in_flight_per_key=7),
    )
    found = await get(tenant, "queues/a")
    assert (found.weight, found.max_in_flight, found.max_in_flight_per_key) == (5, 6, 7)


REFUSED: dict[str, tuple[Callable[[Tenant], Any], tuple[str, ...]]] = {
    "a name of something else": (lambda t: get(t, "jobs/a"), ("name",)),
    "no name": (lambda t: update(t, ""), ("queue.name",)),
    "weight 0": (lambda t: update(t, "a", weight=0), ("queue.weight",)),
    "weight over": (lambda t: update(t, "a", weight=1_001), ("queue.weight",)),
    "rate 0": (lambda t: update(t, "a", rate=0.0), ("queue.rate",)),
    "rate over": (lambda t: update(t, "a", rate=100_001.0), ("queue.rate",)),
    "rate that is no number": (lambda t: update(t, "a", rate=float("nan")), ("queue.rate",)),
    "burst without rate": (lambda t: update(t, "a", rate_burst=3), ("queue.rate_burst",)),
    "burst 0": (lambda t: update(t, "a", rate=1.0, rate_burst=0), ("queue.rate_burst",)),
    "burst over": (lambda t: update(t, "a", rate=1.0, rate_burst=100_001), ("queue.rate_burst",)),
    "in flight 0": (lambda t: update(t, "a", max_in_flight=0), ("queue.max_in_flight",)),
    "per key 0": (lambda t: update(t, "a", max_in_flight_per_key=0), ("queue.max_in_flight_per_key",)),
    "several": (lambda t: update(t, "a", weight=0, max_in_flight=-1), ("queue.weight", "queue.max_in_flight")),
    "a field of Rota's own": (lambda t: update(t, "a", "paused", paused=True), ("update_mask",)),
    "an unknown field": (lambda t: update(t, "a", "wait"), ("update_mask",)),
    "a long reason": (lambda t: pause(t, "a", "r" * 1_025), ("reason",)),
    "purging what is leased": (lambda t: purge(t, "a", "READY", "LEASED"), ("states[1]",)),
    "purging no state": (lambda t: purge(t, "a", "UNSPECIFIED"), ("states[0]",)),
    "purging too many": (lambda t: purge(t, "a", max_count=10_001), ("max_count",)),
    "purging a negative number": (lambda t: purge(t, "a", max_count=-1), ("max_count",)),
    "purging a type that is none": (lambda t: purge(t, "a", type="a b"), ("type",)),
    "purging for a long reason": (lambda t: purge(t, "a", reason="r" * 1_025), ("reason",)),
    "a negative page": (lambda t: names(t, page_size=-1), ("page_size",)),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_what_is_refused(tenant: Tenant, case: str) -> None:
    call, fields = REFUSED[case]
    check_invalid(await refusal(call(tenant)), *fields)


async def test_lists_come_in_pages_and_tenants_see_their_own(rota: Running, tenant: Tenant, uncached: None) -> None:
    for id in ("b", "A", "a-1", "c"):
        await update(tenant, id, weight=1)
    await tenant.create(queue="a")
    await tenant.create(queue="b")
    expected = [f"queues/{id}" for id in ("A", "a", "a-1", "b", "c")]
    assert await names(tenant) == expected
    found: list[str] = []
    token = ""
    while True:
        answer = await tenant.admin.ListQueues(pb.ListQueuesRequest(page_size=2, page_token=token))
        found += [queue.name for queue in answer.queues]
        token = answer.next_page_token
        if not token:
            break
    assert found == expected
    check_invalid(await refusal(names(tenant, page_token="x")), "page_token", reason="PAGE_TOKEN_INVALID")
    stranger = await rota.tenant()
    assert await names(stranger) == []
    assert (await refusal(get(stranger, "queues/a"))).case == ("NOT_FOUND", "RESOURCE_NOT_FOUND")


async def test_a_paused_queue_gives_nothing_and_goes_on_at_once(tenant: Tenant) -> None:
    await update(tenant, "queues/q", weight=100)
    paused = await pause(tenant, "queues/q", "maintenance")
    assert (paused.paused, paused.pause_reason) == (True, "maintenance")
    assert tenant.key is not None
    assert paused.pause_author == f"apiKeys/{tenant.key.split('_')[1]}"
    assert paused.HasField("pause_time")
    assert await pause(tenant, "queues/q", "again") == paused
    job = await tenant.create(queue="q")
    other = await tenant.create(queue="other")
    worker = await tenant.worker(queues=["q", "other"])
    assert (await worker.one()).job == other.name
    assert await worker.lease(wait=0.5) == []
    poll = asyncio.ensure_future(worker.lease(wait=10.0))
    await asyncio.sleep(0.1)
    resumed = await resume(tenant, "queues/q")
    assert not resumed.paused
    assert [lease.job for lease in await asyncio.wait_for(poll, SOON_S)] == [job.name]
    assert not (await resume(tenant, "queues/q")).paused


async def test_so_many_run_at_a_time_and_the_next_starts_when_one_ends(tenant: Tenant) -> None:
    await update(tenant, "queues/q", max_in_flight=2)
    await tenant.create_many(5, queue="q")
    worker = await tenant.worker(queues=["q"])
    first = await worker.some(2)
    assert await worker.lease(10, wait=0.3) == []
    await worker.done(first[0])
    (third,) = await asyncio.wait_for(worker.lease(10, wait=10.0), SOON_S)
    await update(tenant, "queues/q", max_in_flight=4)
    assert len(await asyncio.wait_for(worker.some(2), SOON_S)) == 2
    assert third.job not in {lease.job for lease in first}


async def test_one_job_of_a_key_runs_at_a_time(tenant: Tenant) -> None:
    await update(tenant, "queues/q", max_in_flight_per_key=1)
    first = await tenant.create(queue="q", concurrency_key="order-1")
    second = await tenant.create(queue="q", concurrency_key="order-1")
    third = await tenant.create(queue="q", concurrency_key="order-2")
    worker = await tenant.worker(queues=["q"])
    leases = {lease.job: lease for lease in await worker.some(2)}
    assert len(leases.keys() & {first.name, second.name}) == 1
    assert third.name in leases
    (running,) = leases.keys() & {first.name, second.name}
    await worker.done(leases[running])
    (waited,) = await asyncio.wait_for(worker.lease(wait=10.0), SOON_S)
    assert {running, waited.job} == {first.name, second.name}


async def test_a_rate_lets_its_burst_through_and_then_its_rate(tenant: Tenant) -> None:
    await update(tenant, "queues/q", rate=5.0, rate_burst=2)
    await tenant.create_many(5, queue="q")
    worker = await tenant.worker(queues=["q"])
    started = asyncio.get_running_loop().time()
    await worker.some(4)
    assert asyncio.get_running_loop().time() - started >= 0.35
    await update(tenant, "queues/q", "rate")
    await asyncio.wait_for(worker.some(1), SOON_S)


async def test_a_purge_cancels_what_waits_and_says_so_in_its_history(tenant: Tenant) -> None:
    ready = await tenant.create_many(4, queue="q")
    later = await tenant.create(queue="q", delay=3_600.0)
    other = await tenant.create(queue="r")
    worker = await tenant.worker(queues=["q"])
    lease = await worker.one()
    counted = await purge(tenant, "queues/q", validate_only=True)
    assert (counted.purged_count, counted.more) == (3, False)
    found = await purge(tenant, "queues/q", reason="spring cleaning")
    assert (found.purged_count, found.more) == (3, False)
    for job in [job for job in ready if job != lease.job]:
        gone = await tenant.get(job)
        assert (state_name(gone.state), gone.reason) == ("CANCELLED", "spring cleaning")
    assert await tenant.state(lease) == "LEASED"
    assert await tenant.state(later) == "SCHEDULED"
    assert await tenant.state(other) == "READY"
    await worker.done(lease)
    assert (await purge(tenant, "queues/q", "SCHEDULED")).purged_count == 1
    assert await tenant.state(later) == "CANCELLED"
    assert (await purge(tenant, "queues/q", "SCHEDULED", "READY", "RETRY_WAIT")).purged_count == 0


async def test_a_purge_of_a_type_and_of_so_many(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    from rota.service import queues

    monkeypatch.setattr(queues, "PURGE_BITE", 2)
    await tenant.create_many(7, "a", queue="q")
    await tenant.create_many(2, "b", queue="q")
    counted = await purge(tenant, "queues/q", type="a", max_count=5, validate_only=True)
    assert (counted.purged_count, counted.more) == (5, True)
    found = await purge(tenant, "queues/q", type="a", max_count=5)
    assert (found.purged_count, found.more) == (5, True)
    found = await purge(tenant, "queues/q", type="a", max_count=5)
    assert (found.purged_count, found.more) == (2, False)
    assert (await purge(tenant, "queues/q")).purged_count == 2


async def test_a_retry_that_waits_is_purged(tenant: Tenant) -> None:
    job = await tenant.create(queue="q")
    worker = await tenant.worker(queues=["q"])
    await worker.done(await worker.one(), failed="E", retry_after=600.0)
    assert await tenant.state(job) == "RETRY_WAIT"
    assert (await purge(tenant, "queues/q", "READY")).purged_count == 0
    assert (await purge(tenant, "queues/q")).purged_count == 1
    assert await tenant.state(job) == "CANCELLED"
    assert await tenant.outcomes(job) == ["FAILED"]


@pytest.fixture
def defaults(rota: Running) -> Any:
    return lambda: rota.tenant("default")


async def test_tenants_are_for_operators_of_the_installation(rota: Running, tenant: Tenant, defaults: Any) -> None:
    own = (await tenant.admin.GetTenant(pb.GetTenantRequest(name=f"tenants/{tenant.name}"))).tenant
    assert (own.name, own.weight, own.state) == (f"tenants/{tenant.name}", 100, pb.TENANT_STATE_ACTIVE)
    assert not own.quota.HasField("max_in_flight") and own.HasField("create_time")
    for asked in ("tenants/default", "tenants/none", ""):
        found = await refusal(tenant.admin.GetTenant(pb.GetTenantRequest(name=asked)))
        assert found.case == ("PERMISSION_DENIED", "PERMISSION_DENIED")
    change = pb.UpdateTenantRequest(tenant=own)
    assert (await refusal(tenant.admin.UpdateTenant(change))).case[0] == "PERMISSION_DENIED"
    operator = await (await defaults()).caller(Role.OPERATOR)
    assert (await operator.admin.GetTenant(pb.GetTenantRequest(name=tenant.name))).tenant == own
    missing = await refusal(operator.admin.GetTenant(pb.GetTenantRequest(name="tenants/none")))
    assert missing.case == ("NOT_FOUND", "RESOURCE_NOT_FOUND")
    listed: list[str] = []
    token = ""
    while True:
        answer = await operator.admin.ListTenants(pb.ListTenantsRequest(page_size=3, page_token=token))
        listed += [each.name for each in answer.tenants]
        token = answer.next_page_token
        if not token:
            break
    assert listed == sorted(listed) and len(listed) == len(set(listed))
    assert {"tenants/default", own.name} <= set(listed)
    suspended = pb.ListTenantsRequest(state=pb.TENANT_STATE_SUSPENDED)
    assert not (await operator.admin.ListTenants(suspended)).tenants
    check_invalid(await refusal(operator.admin.ListTenants(pb.ListTenantsRequest(state=9))), "state")  # type: ignore[arg-type]


async def test_a_tenants_limit_holds_over_its_queues(tenant: Tenant, defaults: Any) -> None:
    operator = await defaults()
    name = f"tenants/{tenant.name}"
    request = pb.UpdateTenantRequest(tenant=pb.Tenant(name=name, weight=250, quota=pb.Quota(max_in_flight=2)))
    made = (await operator.admin.UpdateTenant(request)).tenant
    assert (made.weight, made.quota.max_in_flight) == (250, 2)
    for queue in ("a", "b", "a", "b"):
        await tenant.create(queue=queue)
    worker = await tenant.worker(queues=["a", "b"])
    await worker.some(2)
    assert await worker.lease(10, wait=0.3) == []
    request = pb.UpdateTenantRequest(
        tenant=pb.Tenant(name=name, etag=made.etag), update_mask=FieldMask(paths=["quota.max_in_flight"])
    )
    found = (await operator.admin.UpdateTenant(request)).tenant
    assert (found.weight, found.quota.HasField("max_in_flight")) == (250, False)
    assert len(await asyncio.wait_for(worker.some(2), SOON_S)) == 2
    assert (await refusal(operator.admin.UpdateTenant(request))).case == ("ABORTED", "ETAG_MISMATCH")


async def test_how_long_a_tenants_history_is_kept(tenant: Tenant, defaults: Any) -> None:
    operator = await defaults()
    name = f"tenants/{tenant.name}"

    async def change(*paths: str, **fields: Any) -> Any:
        request = pb.UpdateTenantRequest(tenant=pb.Tenant(name=name, **fields), update_mask=FieldMask(paths=paths))
        return (await operator.admin.UpdateTenant(request)).tenant

    made = await change(history_retention=span(90 * 86_400))
    assert seconds(made.history_retention) == 90 * 86_400
    # What else is changed leaves it alone, and the other way round.
    assert (await change("weight", weight=7)).history_retention == made.history_retention
    assert (await change("history_retention", history_retention=span(86_400))).weight == 7
    assert not (await change("history_retention")).HasField("history_retention")
    for wrong in (86_399.0, 3_660 * 86_400 + 1.0, 0.0):
        check_invalid(await refusal(change(history_retention=span(wrong))), "tenant.history_retention")


async def test_what_is_not_part_of_this_release_is_refused_by_name(tenant: Tenant, defaults: Any) -> None:
    operator = await defaults()
    name = f"tenants/{tenant.name}"

    async def change(*paths: str, **fields: Any) -> Any:
        request = pb.UpdateTenantRequest(tenant=pb.Tenant(name=name, **fields), update_mask=FieldMask(paths=paths))
        return await operator.admin.UpdateTenant(request)

    for path in ("quota.max_schedules", "quota.create_burst"):
        field = path.partition(".")[2]
        found = await refusal(change(quota=pb.Quota(**{field: 1})))
        check_invalid(found, f"tenant.{path}")
        assert "not part of this release" in found.message
    check_invalid(await refusal(change(display_name="Ada")), "tenant.display_name")
    check_invalid(await refusal(change("state", state=1)), "update_mask")
    check_invalid(await refusal(change(weight=0)), "tenant.weight")
    check_invalid(await refusal(change(quota=pb.Quota(max_in_flight=0))), "tenant.quota.max_in_flight")
    assert (await change("quota.max_schedules", "display_name")).tenant.weight == 100


async def test_coordinators_and_shards(rota: Running, defaults: Any) -> None:
    operator = await defaults()
    (found,) = (await operator.admin.ListCoordinators(pb.ListCoordinatorsRequest())).coordinators
    assert found.name == f"coordinators/{rota.node.id}"
    assert (found.shard_count, found.draining) == (limits.SHARD_COUNT, False)
    assert found.address and found.version and found.start_time.seconds < found.expire_time.seconds
    first = await operator.admin.ListShards(pb.ListShardsRequest(page_size=200))
    rest = await operator.admin.ListShards(pb.ListShardsRequest(page_size=200, page_token=first.next_page_token))
    shards = [*first.shards, *rest.shards]
    assert [shard.name for shard in shards] == [f"shards/{number}" for number in range(limits.SHARD_COUNT)]
    assert all(shard.coordinator == found.name and shard.epoch > 0 for shard in shards)
    assert not rest.next_page_token
    owned = await operator.admin.ListShards(pb.ListShardsRequest(coordinator=found.name, page_size=3))
    assert len(owned.shards) == 3 and owned.next_page_token
    none = pb.ListShardsRequest(coordinator="coordinators/00000000-0000-7000-8000-000000000000")
    assert not (await operator.admin.ListShards(none)).shards
    check_invalid(await refusal(operator.admin.ListShards(pb.ListShardsRequest(coordinator="x"))), "coordinator")
