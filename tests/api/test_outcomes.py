"""What becomes of outcomes: accepted once, repeated, stale, in conflict, not the owner's; and what they create."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest
from rota_sdk.gen.rota.v1 import common_pb2, jobs_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2

from .running import (
    Refusal,
    Running,
    Tenant,
    Worker,
    creation,
    eventually,
    refusal,
    result,
    seconds,
    span,
    state_name,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")

NO_WAIT = common_pb2.RetryPolicy(max_attempts=3, initial_backoff=span(0), max_backoff=span(0))


async def complete_job(worker: Worker, made: worker_pb2.Result) -> Any:
    fields = {field.name: value for field, value in made.ListFields()}
    request = worker_pb2.CompleteJobRequest(session=worker.session, **fields)
    return await worker.tenant.work.CompleteJob(request)


def check_refused(found: Any, reason: str, **metadata: str) -> None:
    assert isinstance(found, Refusal), found
    assert found.case == ("ABORTED", reason), found
    assert found.domain == "rota"
    assert found.metadata == metadata
    assert found.retry_after_s is None


async def both_refused(
    worker: Worker, lease: worker_pb2.Lease, reason: str, *, by: dict[str, Any], **meta: str
) -> None:
    """The same refusal by Complete and by CompleteJob."""
    check_refused(await worker.outcome(lease, **by), reason, **meta)
    check_refused(await refusal(complete_job(worker, result(lease, **by))), reason, **meta)


# How a first attempt is over, and what its late success is told.


async def after_nothing(tenant: Tenant, worker: Worker, lease: worker_pb2.Lease) -> None:
    pass


async def after_release(tenant: Tenant, worker: Worker, lease: worker_pb2.Lease) -> None:
    await worker.done(lease, released=60)


async def after_release_and_grant(tenant: Tenant, worker: Worker, lease: worker_pb2.Lease) -> None:
    await worker.done(lease, released=0)
    await worker.one()


async def after_failure(tenant: Tenant, worker: Worker, lease: worker_pb2.Lease) -> None:
    await worker.done(lease, failed="E", retry_after=60)


async def after_death(tenant: Tenant, worker: Worker, lease: worker_pb2.Lease) -> None:
    await worker.done(lease, failed="E", retryable=False)


async def after_success(tenant: Tenant, worker: Worker, lease: worker_pb2.Lease) -> None:
    await worker.done(lease)


async def after_cancellation(tenant: Tenant, worker: Worker, lease: worker_pb2.Lease) -> None:
    await tenant.cancel(lease, "FENCE_OUT")


async def after_stopping(tenant: Tenant, worker: Worker, lease: worker_pb2.Lease) -> None:
    await tenant.cancel(lease)
    await worker.done(lease, cancelled=True)


async def after_loss(tenant: Tenant, worker: Worker, lease: worker_pb2.Lease) -> None:
    """The worker has said that it does not hold it."""
    await worker.prove()
    await worker.beat(worker_pb2.Inventory(batches=worker.batches))


Step = Callable[[Tenant, Worker, worker_pb2.Lease], Awaitable[None]]
SUCCESS: dict[str, Any] = {}
FAILURE: dict[str, Any] = {"failed": "E"}
RELEASE: dict[str, Any] = {"released": 0.0}
STOPPED: dict[str, Any] = {"cancelled": True}

REPEATED: dict[str, tuple[Step, dict[str, Any], str]] = {
    "success": (after_success, SUCCESS, "SUCCEEDED"),
    "failure": (after_failure, FAILURE, "RETRY_WAIT"),
    "death": (after_death, FAILURE, "DEAD"),
    "release": (after_release, RELEASE, "SCHEDULED"),
    "release and grant": (after_release_and_grant, RELEASE, "LEASED"),
    "stopping": (after_stopping, STOPPED, "CANCELLED"),
    "cancelled anyhow": (after_cancellation, STOPPED, "CANCELLED"),
}


@pytest.mark.parametrize("name", REPEATED)
async def test_the_same_outcome_again_is_a_duplicate(tenant: Tenant, name: str) -> None:
    step, outcome, state = REPEATED[name]
    job = await tenant.create()
    worker = await tenant.worker()
    lease = await worker.one()
    await step(tenant, worker, lease)
    before = await tenant.get(job)
    again = await worker.outcome(lease, **outcome)
    assert isinstance(again, worker_pb2.ResultStatus), again
    assert (again.duplicate, state_name(again.state)) == (True, state)
    answer = await complete_job(worker, result(lease, **outcome))
    assert (answer.duplicate, state_name(answer.state)) == (True, state)
    assert await tenant.get(job) == before


STALE: dict[str, tuple[Step, dict[str, Any], str, dict[str, str]]] = {
    "released": (after_release, SUCCESS, "STALE_FENCE", {"cause": "RELEASED"}),
    "released and granted": (after_release_and_grant, SUCCESS, "STALE_FENCE", {"cause": "RELEASED"}),
    "lost": (after_loss, SUCCESS, "STALE_FENCE", {"cause": "EXPIRED"}),
    "cancelled": (after_cancellation, SUCCESS, "STALE_FENCE", {"cause": "CANCELLED"}),
    "cancelled, failing": (after_cancellation, FAILURE, "STALE_FENCE", {"cause": "CANCELLED"}),
    "succeeded, failing": (after_success, FAILURE, "OUTCOME_CONFLICT", {"stored": "SUCCEEDED"}),
    "succeeded, releasing": (after_success, RELEASE, "OUTCOME_CONFLICT", {"stored": "SUCCEEDED"}),
    "failed, succeeding": (after_failure, SUCCESS, "OUTCOME_CONFLICT", {"stored": "FAILED"}),
    "dead, succeeding": (after_death, SUCCESS, "OUTCOME_CONFLICT", {"stored": "FAILED"}),
    "dead, stopping": (after_death, STOPPED, "OUTCOME_CONFLICT", {"stored": "FAILED"}),
}


@pytest.mark.parametrize("name", STALE)
async def test_another_outcome_is_refused_and_changes_nothing(tenant: Tenant, name: str) -> None:
    step, outcome, reason, metadata = STALE[name]
    job = await tenant.create()
    worker = await tenant.worker()
    lease = await worker.one()
    await step(tenant, worker, lease)
    before = await tenant.get(job)
    if reason == "STALE_FENCE":
        # The fence that the job has now, so that a worker can tell whether it was overtaken.
        current = (await tenant.attempts(job))[-1].fence
        metadata = metadata | {"fence": str(current)}
    await both_refused(worker, lease, reason, by=outcome, **metadata)
    assert await tenant.get(job) == before


async def test_a_forged_fence_is_stale(tenant: Tenant) -> None:
    await tenant.create()
    worker = await tenant.worker()
    lease = await worker.one()
    for fence in (1, lease.fence - 1, lease.fence + 1, 2**62):
        forged = worker_pb2.Lease(job=lease.job, fence=fence)
        metadata = {"cause": "REASSIGNED", "fence": str(lease.fence)}
        await both_refused(worker, forged, "STALE_FENCE", by=SUCCESS, **metadata)
    assert await tenant.state(lease) == "LEASED"
    await worker.done(lease)
    forged = worker_pb2.Lease(job=lease.job, fence=lease.fence + 1)
    await both_refused(worker, forged, "STALE_FENCE", by=SUCCESS, cause="COMPLETED", fence=str(lease.fence))


async def test_a_lease_is_its_sessions_own(tenant: Tenant) -> None:
    await tenant.create()
    owner, thief = await tenant.worker(), await tenant.worker()
    lease = await owner.one()
    for outcome in (SUCCESS, FAILURE, RELEASE, STOPPED):
        await both_refused(thief, lease, "NOT_LEASE_OWNER", by=outcome)
    assert await tenant.state(lease) == "LEASED"
    await owner.done(lease)
    # Over is over, whoever asks.
    check_refused(await thief.outcome(lease, failed="E"), "OUTCOME_CONFLICT", stored="SUCCEEDED")


async def test_an_attempt_of_before_can_do_nothing_to_the_one_that_the_same_session_has_now(tenant: Tenant) -> None:
    """The lease is the grant's and not the worker's: aegra/aegra#547, pikkujs/pikku#1742."""
    await tenant.create(retry_policy=NO_WAIT)
    worker = await tenant.worker()
    old = await worker.one()
    await after_loss(tenant, worker, old)
    new = await worker.one()
    assert (new.job, new.attempt) == (old.job, 2)
    before = await tenant.get(new)
    for outcome in (SUCCESS, FAILURE, RELEASE, STOPPED):
        await both_refused(worker, old, "STALE_FENCE", by=outcome, cause="REASSIGNED", fence=str(new.fence))
    stale, held = (worker_pb2.HeldLease(job=each.job, fence=each.fence) for each in (old, new))
    ack = await worker.beat(worker_pb2.Inventory(leases=[stale, held], batches=worker.batches))
    assert list(ack.lost) == [stale]
    assert await tenant.get(new) == before
    await worker.done(new)
    assert await tenant.outcomes(new) == ["LEASE_LOST", "SUCCEEDED"]


async def test_outcomes_of_one_call_stand_for_themselves(tenant: Tenant) -> None:
    await tenant.create_many(3, retry_policy=NO_WAIT)
    worker = await tenant.worker()
    a, b, c = await worker.some(3)
    statuses = await worker.settle(
        result(a, data=b"1"),
        result(b, failed="E", retryable=False),
        worker_pb2.Result(job=c.job, fence=c.fence + 1, succeeded=worker_pb2.Succeeded()),
        result(a, data=b"1"),  # the same outcome again
        result(c, released=30),
    )
    assert [s.status.code for s in statuses] == [0, 0, 10, 0, 0]
    states = [state_name(s.state) for s in statuses if not s.status.code]
    assert states == ["SUCCEEDED", "DEAD", "SUCCEEDED", "SCHEDULED"]
    # Of two equal ones either may be written first.
    assert sorted([statuses[0].duplicate, statuses[3].duplicate]) == [False, True]
    assert Refusal.of(statuses[2].status).reason == "STALE_FENCE"
    assert (await tenant.get(a)).result.data == b"1"


async def test_500_outcomes_in_one_call(tenant: Tenant) -> None:
    await tenant.create_many(500)
    worker = await tenant.worker()
    leases = await worker.some(500)
    statuses = await worker.settle(*(result(lease, data=lease.job.encode()) for lease in leases))
    assert {(s.status.code, state_name(s.state), s.duplicate) for s in statuses} == {(0, "SUCCEEDED", False)}
    found = await tenant.get(leases[321])
    assert found.result.data == leases[321].job.encode()


async def test_a_success_is_kept_with_all_that_it_said(tenant: Tenant) -> None:
    job = await tenant.create()
    worker = await tenant.worker()
    lease = await worker.one()
    receipts = [common_pb2.EffectReceipt(effect_key="k", reference="pay_1"), common_pb2.EffectReceipt(effect_key="l")]
    await worker.done(lease, data=b"\x00ok", effect_receipts=receipts, request_id="r1")
    found = await tenant.get(job)
    assert state_name(found.state) == "SUCCEEDED"
    assert found.result.data == b"\x00ok"
    assert (found.attempt, found.attempts_counted) == (1, 1)
    assert found.finish_time.ToDatetime() >= found.lease_time.ToDatetime() >= found.create_time.ToDatetime()
    assert found.session == worker.session
    (attempt,) = await tenant.attempts(job)
    assert (attempt.number, attempt.fence, attempt.session, attempt.worker) == (1, lease.fence, worker.session, "test")
    assert attempt.name == f"{job.name}/attempts/1"
    assert list(attempt.effect_receipts) == receipts
    assert attempt.outcome == jobs_pb2.ATTEMPT_OUTCOME_SUCCEEDED


async def test_a_failure_is_kept_and_retried_under_a_higher_fence(tenant: Tenant) -> None:
    job = await tenant.create(retry_policy=NO_WAIT)
    worker = await tenant.worker()
    fences = []
    for number in (1, 2, 3):
        lease = await worker.one()
        assert (lease.attempt, lease.attempts_counted, lease.max_attempts) == (number, number - 1, 3)
        fences.append(lease.fence)
        failed = worker_pb2.Failed(
            failure=common_pb2.Failure(type=f"E{number}", message="m", stack="s"),
            effect_state=common_pb2.EFFECT_STATE_UNKNOWN,
        )
        (status,) = await worker.settle(worker_pb2.Result(job=lease.job, fence=lease.fence, failed=failed))
        assert state_name(status.state) == ("DEAD" if number == 3 else "RETRY_WAIT")
    assert fences == sorted(set(fences))
    found = await tenant.get(job)
    assert (state_name(found.state), found.attempt, found.attempts_counted) == ("DEAD", 3, 3)
    assert (found.last_failure.type, found.last_failure.message, found.last_failure.stack) == ("E3", "m", "s")
    attempts = await tenant.attempts(job)
    assert [(a.number, a.fence, a.failure.type) for a in attempts] == [
        (number, fence, f"E{number}") for number, fence in zip((1, 2, 3), fences, strict=True)
    ]
    assert {a.effect_state for a in attempts} == {common_pb2.EFFECT_STATE_UNKNOWN}
    assert await worker.lease(1) == []


async def test_a_failure_that_is_final(tenant: Tenant) -> None:
    worker = await tenant.worker()
    told = await tenant.create()
    await worker.done(await worker.one(), failed="E", retryable=False)
    listed = await tenant.create(retry_policy=common_pb2.RetryPolicy(non_retryable_types=["X", "Y"]))
    await worker.done(await worker.one(), failed="Y")
    only = await tenant.create(retry_policy=common_pb2.RetryPolicy(max_attempts=1))
    await worker.done(await worker.one(), failed="E")
    for job in (told, listed, only):
        found = await tenant.get(job)
        assert (state_name(found.state), found.attempts_counted) == ("DEAD", 1)
        assert found.reason


async def test_retry_after_only_raises_the_backoff(tenant: Tenant) -> None:
    worker = await tenant.worker()
    for given, expected in ((30.0, 30.0), (7200.0, 3600.0), (-5.0, 0.0)):
        job = await tenant.create(retry_policy=NO_WAIT)
        await worker.done(await worker.one(), failed="E", retry_after=given)
        found = await tenant.get(job)
        now = (await tenant.create(delay=3600.0)).create_time.ToDatetime()
        wait_s = (found.due_time.ToDatetime() - now).total_seconds()
        assert expected - 10 < wait_s <= expected, (given, wait_s)


async def test_a_released_job_waits_as_asked_and_nothing_is_used_up(tenant: Tenant) -> None:
    job = await tenant.create()
    worker = await tenant.worker()
    released = worker_pb2.Released(reason="not\0 mine", delay=span(0.3))
    lease = await worker.one()
    (status,) = await worker.settle(worker_pb2.Result(job=lease.job, fence=lease.fence, released=released))
    assert state_name(status.state) == "SCHEDULED"
    again = await worker.one()
    assert (again.job, again.attempt, again.attempts_counted) == (job.name, 2, 0)
    first, second = await tenant.attempts(job)
    assert (second.lease_time.ToDatetime() - first.end_time.ToDatetime()).total_seconds() >= 0.3
    assert (first.failure.type, first.failure.message) == ("Released", "not mine")
    assert await tenant.outcomes(job) == ["RELEASED", "UNSPECIFIED"]


async def test_uncounted_attempts_have_a_cap_of_their_own(tenant: Tenant) -> None:
    job = await tenant.create(retry_policy=NO_WAIT)
    worker = await tenant.worker()
    counted = []
    for _ in range(22):
        lease = await worker.one()
        counted.append(lease.attempts_counted)
        await worker.done(lease, released=0)
    # Twenty are free; from then on each counts.
    assert counted == [0] * 21 + [1]
    lease = await worker.one()
    await worker.done(lease, released=0)
    found = await tenant.get(job)
    assert (state_name(found.state), found.attempt, found.attempts_counted) == ("DEAD", 23, 3)


async def test_spawned_jobs_come_with_the_outcome(tenant: Tenant) -> None:
    await tenant.create("parent")
    worker = await tenant.worker()
    lease = await worker.one()
    spawned = [creation("child", data=b"1", priority=9), creation("child", data=b"2", delay=3600.0), creation("other")]
    await worker.done(lease, spawned=spawned)
    found = (await tenant.jobs.ListJobs(jobs_pb2.ListJobsRequest(type="child"))).jobs
    assert sorted(state_name(job.state) for job in found) == ["READY", "SCHEDULED"]
    assert sorted([each.payload.data for each in await worker.some(2)]) == [b"", b"1"]


async def test_spawned_jobs_go_on_in_the_trace_of_their_handler(tenant: Tenant) -> None:
    await tenant.create_many(3, "parent")
    worker = await tenant.worker()
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    metadata = [("traceparent", traceparent.replace("b", "c"))]
    for lease, given, expected in zip(
        await worker.some(3), (traceparent, "", "x\0y"), (traceparent, "", ""), strict=True
    ):
        results = [result(lease, spawned=[creation("child")], traceparent=given)]
        request = worker_pb2.CompleteRequest(session=worker.session, results=results)
        answer = await tenant.work.Complete(request, metadata=metadata)
        assert answer.statuses[0].status.code == 0
        child = (await tenant.jobs.ListJobs(jobs_pb2.ListJobsRequest(type="child"))).jobs[0]
        assert child.traceparent == expected


async def test_a_repeated_outcome_spawns_once(tenant: Tenant) -> None:
    await tenant.create("parent")
    worker = await tenant.worker()
    lease = await worker.one()
    await worker.done(lease, spawned=[creation("child")])
    for _ in range(2):
        again = await worker.outcome(lease, spawned=[creation("child")])
        assert isinstance(again, worker_pb2.ResultStatus)
        assert again.duplicate
    assert len((await tenant.jobs.ListJobs(jobs_pb2.ListJobsRequest(type="child"))).jobs) == 1


async def test_a_stale_fence_spawns_nothing(tenant: Tenant) -> None:
    await tenant.create("parent")
    worker = await tenant.worker()
    lease = await worker.one()
    await worker.done(lease, released=60)
    for each in (lease, worker_pb2.Lease(job=lease.job, fence=lease.fence + 1)):
        check = await worker.outcome(each, spawned=[creation("child")])
        assert isinstance(check, Refusal) and check.reason == "STALE_FENCE"
    assert (await tenant.jobs.ListJobs(jobs_pb2.ListJobsRequest(type="child"))).jobs == []


async def test_an_outcome_whose_spawned_jobs_cannot_be_stored_is_not_stored(
    rota: Running, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    await tenant.create_many(2, "parent")
    worker = await tenant.worker()
    poisoned, other = await worker.some(2)
    # Nothing that passes the checks is known to fail in the database, so the table is told to refuse it.
    async with await psycopg.AsyncConnection.connect(rota.url, autocommit=True) as conn:
        await conn.execute("ALTER TABLE jobs ADD CONSTRAINT no_poison CHECK (type <> 'poison') NOT VALID")
        try:
            first, second = await worker.settle(
                result(poisoned, spawned=[creation("child"), creation("poison")]), result(other)
            )
        finally:
            await conn.execute("ALTER TABLE jobs DROP CONSTRAINT no_poison")
    refused = Refusal.of(first.status)
    assert refused.case == ("INTERNAL", "INTERNAL")
    assert "poison" not in refused.message
    assert second.status.code == 0
    assert [await tenant.state(each) for each in (poisoned, other)] == ["LEASED", "SUCCEEDED"]
    assert (await tenant.jobs.ListJobs(jobs_pb2.ListJobsRequest(type="child"))).jobs == []
    await worker.done(poisoned)


async def test_a_session_that_completes_late_but_alive_is_heard(tenant: Tenant) -> None:
    job = await tenant.create()
    worker = await tenant.worker()
    lease = await worker.one()
    await worker.close("DRAIN")
    await worker.done(lease)
    assert await tenant.state(job) == "SUCCEEDED"


async def test_the_waiting_are_told_of_an_outcome_at_once(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    # Looking again finds nothing: who waits longer than its wait was not told.
    monkeypatch.setattr("rota.api.jobs.RECHECK_S", 60.0)
    job = await tenant.create()
    worker = await tenant.worker()
    lease = await worker.one()
    waiting = asyncio.ensure_future(tenant.ended(job))
    began = asyncio.get_running_loop().time()
    waiters = tenant.coordinator.node.memory._finish_waiters
    await eventually(lambda: job.name.removeprefix("jobs/") in waiters)
    # So that it has looked, too.
    await tenant.get(job)
    await worker.done(lease)
    found = await waiting
    assert state_name(found.state) == "SUCCEEDED"
    assert asyncio.get_running_loop().time() - began < 8.0, "found at the end of the wait, not by being told"


async def test_a_lease_says_what_there_is_to_know(tenant: Tenant) -> None:
    job = await tenant.create(
        "greet",
        data=b"x",
        priority=7,
        headers={"h": "1"},
        timeouts=common_pb2.Timeouts(run=span(90), total=span(600)),
        retry_policy=common_pb2.RetryPolicy(max_attempts=7),
    )
    worker = await tenant.worker()
    lease = await worker.one()
    assert (lease.job, lease.type, lease.queue, lease.priority) == (job.name, "greet", "default", 7)
    assert (lease.attempt, lease.max_attempts, lease.attempts_counted) == (1, 7, 0)
    assert (seconds(lease.run_timeout), seconds(lease.ttl), seconds(lease.delivery_ttl)) == (90, 15, 15)
    assert 590 < seconds(lease.deadline) <= 600
    assert lease.due_time == job.due_time
    assert lease.effect_key == job.effect_key == f"{tenant.name}/{job.name.removeprefix('jobs/')}/0"
    assert lease.payload.data == b"x"
    assert dict(lease.headers) == {"h": "1"}
