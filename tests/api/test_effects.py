"""The ledger of effects over gRPC, as a worker and an operator see it."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb
from rota_sdk.gen.rota.v1 import common_pb2, jobs_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2

from rota.domain.model import Role

from .running import Caller, Running, Tenant, Worker, eventually, name_of, refusal, result, span

pytestmark = pytest.mark.asyncio(loop_scope="session")

NO_WAIT = common_pb2.RetryPolicy(max_attempts=9, initial_backoff=span(0), max_backoff=span(0))
ASK, ASSUME_DONE, REDO = worker_pb2.InDoubtPolicy.values()[1:]
NOTHING, NOT_APPLIED, APPLIED, UNKNOWN = common_pb2.EffectState.values()


async def begin(caller: Caller, lease: worker_pb2.Lease, policy: Any = ASK, **changes: Any) -> Any:
    fields: dict[str, Any] = {"job": lease.job, "fence": lease.fence, "in_doubt": policy} | changes
    return await caller.work.BeginEffect(worker_pb2.BeginEffectRequest(**fields))


async def commit(caller: Caller, lease: worker_pb2.Lease, state: Any, reference: str = "", **changes: Any) -> Any:
    fields: dict[str, Any] = {"job": lease.job, "fence": lease.fence, "state": state} | changes
    if reference:
        fields["receipt"] = common_pb2.EffectReceipt(reference=reference)
    return await caller.work.CommitEffect(worker_pb2.CommitEffectRequest(**fields))


async def doubtful(caller: Caller, **fields: Any) -> list[pb.Effect]:
    return list((await caller.admin.ListEffects(pb.ListEffectsRequest(**fields))).effects)


async def resolve(caller: Caller, effect: pb.Effect, state: Any, **fields: Any) -> pb.Effect:
    request = pb.ResolveEffectRequest(name=effect.name, state=state, **fields)
    found: pb.Effect = (await caller.admin.ResolveEffect(request)).effect
    return found


async def next_attempt(worker: Worker, lease: worker_pb2.Lease, **outcome: Any) -> worker_pb2.Lease:
    """Ends an attempt, and the next one's lease."""
    await worker.settle(result(lease, **outcome or {"failed": "Lost"}))
    return await worker.one()


async def held(tenant: Tenant, worker: Worker, **fields: Any) -> tuple[worker_pb2.Lease, pb.Effect]:
    """A job that waits for an operator, and why."""
    job = await tenant.create(retry_policy=NO_WAIT, **fields)
    first = await worker.one()
    assert (await begin(tenant, first)).proceed
    second = await next_attempt(worker, first)
    told = await begin(tenant, second)
    assert (told.proceed, told.state) == (False, UNKNOWN)
    await worker.settle(result(second, released=0.0))
    (effect,) = await doubtful(tenant, job=job.name)
    assert effect.holding
    return second, effect


async def test_once_begun_and_committed_it_is_known_for_ever(tenant: Tenant) -> None:
    worker = await tenant.worker()
    job = await tenant.create(retry_policy=NO_WAIT)
    first = await worker.one()
    for _ in range(2):
        told = await begin(tenant, first)
        assert (told.proceed, told.state, told.HasField("receipt")) == (True, NOTHING, False)
    for _ in range(2):
        await commit(tenant, first, APPLIED, "pay-1")
    second = await next_attempt(worker, first)
    told = await begin(tenant, second)
    assert (told.proceed, told.state) == (False, APPLIED)
    assert told.receipt == common_pb2.EffectReceipt(effect_key=job.effect_key, reference="pay-1")
    assert await doubtful(tenant) == []


@pytest.mark.parametrize(
    ("policy", "proceed", "state"), [(0, False, UNKNOWN), (ASSUME_DONE, False, APPLIED), (REDO, True, UNKNOWN)]
)
async def test_what_an_attempt_in_doubt_is_told(tenant: Tenant, policy: Any, proceed: bool, state: Any) -> None:
    worker = await tenant.worker()
    await tenant.create(retry_policy=NO_WAIT)
    first = await worker.one()
    await begin(tenant, first)
    second = await next_attempt(worker, first)
    told = await begin(tenant, second, policy)
    assert (told.proceed, told.state) == (proceed, state)


async def test_a_job_that_is_held_says_so_and_nobody_gets_it(tenant: Tenant) -> None:
    worker = await tenant.worker()
    lease, effect = await held(tenant, worker)
    job = await tenant.get(lease)
    assert (await tenant.state(lease), job.HasField("due_time")) == ("RETRY_WAIT", False)
    assert job.reason == f"held until {effect.name}, which is in doubt, is decided"
    assert (effect.job, effect.state, effect.effect_key) == (lease.job, UNKNOWN, job.effect_key)
    assert await worker.lease(wait=1.0) == []
    (listed,) = (await tenant.jobs.ListJobs(jobs_pb2.ListJobsRequest())).jobs
    assert listed.reason == job.reason
    assert await tenant.outcomes(lease) == ["FAILED", "RELEASED"]


async def test_applied_it_succeeds_and_whoever_waits_learns_it(tenant: Tenant) -> None:
    lease, effect = await held(tenant, await tenant.worker())
    waiting = tenant.jobs.WaitJob(jobs_pb2.WaitJobRequest(name=lease.job))
    decided = await resolve(tenant, effect, APPLIED, reference="pay-2", reason="asked the bank")
    assert (await waiting).job.state == jobs_pb2.JOB_STATE_SUCCEEDED
    assert (decided.state, decided.receipt.reference, decided.holding) == (APPLIED, "pay-2", False)
    assert decided.resolved_by.startswith("apiKeys/")
    assert (await resolve(tenant, effect, APPLIED)).name == effect.name
    assert await doubtful(tenant) == []
    found = await refusal(resolve(tenant, effect, NOT_APPLIED))
    assert found.case == ("FAILED_PRECONDITION", "INVALID_STATE")
    assert (await tenant.get(lease)).reason == f"{effect.name} was decided to be applied"


async def test_not_applied_it_is_tried_again_at_once(tenant: Tenant) -> None:
    worker = await tenant.worker()
    lease, effect = await held(tenant, worker)
    polling = worker.poll(wait=10.0)
    await resolve(tenant, effect, NOT_APPLIED)
    (third,) = worker.take(await polling)
    assert third.job == lease.job
    told = await begin(tenant, third)
    assert (told.proceed, told.state) == (True, NOT_APPLIED)


@pytest.mark.parametrize("mode", ["IF_NOT_STARTED", "COOPERATIVE", "FENCE_OUT"])
async def test_a_job_that_is_held_can_be_cancelled(tenant: Tenant, mode: str) -> None:
    lease, effect = await held(tenant, await tenant.worker())
    await tenant.cancel(lease, mode)
    assert await tenant.state(lease) == "CANCELLED"
    (left,) = await doubtful(tenant)
    assert (left.name, left.holding) == (effect.name, False)
    assert await doubtful(tenant, holding=True) == []


async def retry(tenant: Tenant, job: str) -> None:
    await tenant.jobs.RetryJob(jobs_pb2.RetryJobRequest(name=job))


async def test_a_job_that_is_held_can_be_retried_by_hand(tenant: Tenant) -> None:
    """As after its handler was given a probe: what that cannot tell either is held again."""
    worker = await tenant.worker()
    lease, effect = await held(tenant, worker)
    await retry(tenant, lease.job)
    assert [(e.name, e.holding) for e in await doubtful(tenant)] == [(effect.name, False)]
    third = await worker.one()
    assert not (await begin(tenant, third)).proceed
    await worker.settle(result(third, failed="E"))
    assert [e.holding for e in await doubtful(tenant)] == [True]
    await retry(tenant, lease.job)
    fourth = await worker.one()
    await begin(tenant, fourth)
    await commit(tenant, fourth, APPLIED, "found it")
    await worker.settle(result(fourth))
    assert await tenant.state(lease) == "SUCCEEDED"


async def test_a_job_that_is_held_has_started_and_is_not_moved(tenant: Tenant) -> None:
    lease, _ = await held(tenant, await tenant.worker())
    request = jobs_pb2.RescheduleJobRequest(name=lease.job, run_time=Timestamp(seconds=1))
    found = await refusal(tenant.jobs.RescheduleJob(request))
    assert (found.case, "retry it" in found.message) == (("FAILED_PRECONDITION", "INVALID_STATE"), True)


async def test_the_total_timeout_ends_the_wait(tenant: Tenant) -> None:
    worker = await tenant.worker()
    lease, effect = await held(tenant, worker, timeouts=common_pb2.Timeouts(total=span(4)))
    await eventually(lambda: _is(tenant, lease, "DEAD"))
    assert [e.name for e in await doubtful(tenant)] == [effect.name]


async def _is(tenant: Tenant, job: Any, state: str) -> bool:
    return await tenant.state(job) == state


async def test_a_worker_that_dies_over_an_effect_leaves_it_in_doubt(
    start: Callable[..., Awaitable[Running]],
) -> None:
    rota = await start(session_ttl_s=60.0, delivery_ttl_s=60.0)
    tenant = await rota.tenant()
    worker = await tenant.worker()
    job = await tenant.create(retry_policy=NO_WAIT)
    lease = await worker.one()
    await worker.prove()
    await begin(tenant, lease)
    assert await doubtful(tenant) == []
    await worker.dies()
    await eventually(lambda: doubtful(tenant))
    other = await tenant.worker()
    again = await other.one()
    assert again.job == job.name
    assert (await refusal(commit(tenant, lease, APPLIED))).reason == "STALE_FENCE"
    told = await begin(tenant, again, REDO)
    assert (told.proceed, told.state) == (True, UNKNOWN)


async def test_the_lease_decides_who_may_speak(tenant: Tenant, rota: Running) -> None:
    worker = await tenant.worker()
    await tenant.create(retry_policy=NO_WAIT)
    first = await worker.one()
    await begin(tenant, first)
    second = await next_attempt(worker, first)
    for call in (begin(tenant, first, REDO), commit(tenant, first, APPLIED)):
        found = await refusal(call)
        assert found.case == ("ABORTED", "STALE_FENCE")
        assert found.metadata == {"cause": "REASSIGNED", "fence": str(second.fence)}
    stranger = await rota.tenant()
    assert (await refusal(begin(stranger, second, REDO))).metadata == {"cause": "UNKNOWN_JOB"}
    assert (await refusal(commit(tenant, second, APPLIED, effect_key="other"))).case == (
        "FAILED_PRECONDITION",
        "INVALID_STATE",
    )
    await begin(tenant, second, REDO)
    await commit(tenant, second, APPLIED)
    found = await refusal(commit(tenant, second, NOT_APPLIED))
    assert (found.case, found.metadata) == (("ABORTED", "OUTCOME_CONFLICT"), {"stored": "APPLIED"})


async def test_roles_and_tenants(tenant: Tenant, rota: Running) -> None:
    lease, effect = await held(tenant, await tenant.worker())
    client, worker, operator = [await tenant.caller(role) for role in (Role.CLIENT, Role.WORKER, Role.OPERATOR)]
    for caller in (client, operator):
        assert (await refusal(begin(caller, lease))).case[0] == "PERMISSION_DENIED"
        assert (await refusal(commit(caller, lease, APPLIED))).case[0] == "PERMISSION_DENIED"
    for caller in (client, worker):
        assert (await refusal(doubtful(caller))).case[0] == "PERMISSION_DENIED"
        assert (await refusal(resolve(caller, effect, APPLIED))).case[0] == "PERMISSION_DENIED"
    assert [e.name for e in await doubtful(operator)] == [effect.name]
    stranger = await rota.tenant()
    assert await doubtful(stranger) == []
    assert (await refusal(resolve(stranger, effect, APPLIED))).case == ("NOT_FOUND", "RESOURCE_NOT_FOUND")


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"job": "jobs/x"}, "job"),
        ({"fence": 0}, "fence"),
        ({"fence": -1}, "fence"),
        ({"effect_key": "k" * 513}, "effect_key"),
        ({"effect_key": "a\0"}, "effect_key"),
    ],
)
async def test_malformed_calls_of_workers(tenant: Tenant, fields: dict[str, Any], named: str) -> None:
    worker = await tenant.worker()
    await tenant.create()
    lease = await worker.one()
    for call in (begin(tenant, lease, **fields), commit(tenant, lease, APPLIED, **fields)):
        found = await refusal(call)
        assert (found.case, found.fields) == (("INVALID_ARGUMENT", "VALIDATION_FAILED"), (named,))


async def test_other_malformed_calls(tenant: Tenant) -> None:
    worker = await tenant.worker()
    await tenant.create()
    lease = await worker.one()
    effect = pb.Effect(name="effects/01f0a000-0000-7000-8000-000000000000")
    for call, named in (
        (begin(tenant, lease, 9), "in_doubt"),
        (commit(tenant, lease, 0), "state"),
        (commit(tenant, lease, 9), "state"),
        (commit(tenant, lease, APPLIED, "r" * 1025), "receipt.reference"),
        (resolve(tenant, effect, UNKNOWN), "state"),
        (resolve(tenant, effect, 0), "state"),
        (resolve(tenant, effect, APPLIED, reason="r" * 1025), "reason"),
        (resolve(tenant, effect, APPLIED, reference="r" * 1025), "reference"),
        (resolve(tenant, pb.Effect(name="effects/x"), APPLIED), "name"),
        (doubtful(tenant, job="jobs/x"), "job"),
        (doubtful(tenant, page_size=-1), "page_size"),
        (doubtful(tenant, page_token="x"), "page_token"),
    ):
        found = await refusal(call)
        assert (found.case[0], found.fields) == ("INVALID_ARGUMENT", (named,))


async def test_pages(tenant: Tenant) -> None:
    worker = await tenant.worker()
    names = await tenant.create_many(5, retry_policy=NO_WAIT)
    for lease in await worker.some(5):
        await begin(tenant, lease)
        await worker.settle(result(lease, failed="E", retryable=False))
    seen: list[str] = []
    token = ""
    while True:
        page = await tenant.admin.ListEffects(pb.ListEffectsRequest(page_size=2, page_token=token))
        seen += [effect.job for effect in page.effects]
        token = page.next_page_token
        if not token:
            break
    assert sorted(seen) == sorted(names) and len(seen) == 5
    first = (await tenant.admin.ListEffects(pb.ListEffectsRequest(page_size=2))).next_page_token
    found = await refusal(doubtful(tenant, page_token=first, holding=True))
    assert found.reason == "PAGE_TOKEN_INVALID"


async def test_what_is_unknown_is_shown_with_its_attempt_and_comes_again_with_its_key(tenant: Tenant) -> None:
    worker = await tenant.worker()
    job = await tenant.create(retry_policy=NO_WAIT)
    first = await worker.one()
    made = result(first, failed="Timeout")
    made.failed.effect_state = UNKNOWN
    made.effect_receipts.add(effect_key=first.effect_key, reference="maybe")
    await worker.settle(made)
    second = await worker.one()
    assert second.effect_key == first.effect_key == job.effect_key
    await worker.settle(result(second))
    one, two = await tenant.attempts(job)
    assert (one.effect_state, two.effect_state) == (UNKNOWN, NOTHING)
    assert [r.reference for r in one.effect_receipts] == ["maybe"]
    assert name_of(job) == second.job
