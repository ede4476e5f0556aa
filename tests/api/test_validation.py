"""Malformed requests: for each the code, the reason and the path of the field, as contract.md's table has them."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from rota_sdk.gen.rota.admin.v1 import admin_pb2
from rota_sdk.gen.rota.v1 import common_pb2, jobs_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2

from rota.domain import limits

from .running import Refusal, Running, Tenant, creation, refusal, refusal_of, span

pytestmark = pytest.mark.asyncio(loop_scope="session")

MISSING = "jobs/00000000-0000-7000-8000-000000000000"
NO_SESSION = "sessions/00000000-0000-7000-8000-000000000000"
NUL = "a\0b"
DAY = 86_400.0


def check_invalid(found: Refusal, *fields: str, reason: str = "VALIDATION_FAILED") -> None:
    """The refusal of exactly these fields."""
    assert found.case == ("INVALID_ARGUMENT", reason), found
    assert found.domain == "rota"
    assert found.fields == fields
    assert all(field in found.message for field in fields[:5])
    assert found.retry_after_s is None


def text_map(count: int, value: str = "v") -> dict[str, str]:
    return {f"key{i}": value for i in range(count)}


def retry(**fields: Any) -> dict[str, Any]:
    return {"retry_policy": common_pb2.RetryPolicy(**fields)}


def timeouts(**spans_s: float) -> dict[str, Any]:
    return {"timeouts": common_pb2.Timeouts(**{name: span(value) for name, value in spans_s.items()})}


def dedupe(**fields: Any) -> dict[str, Any]:
    return {"dedupe": common_pb2.Dedupe(**{"key": "k"} | fields)}


JOBS: dict[str, tuple[dict[str, Any], str]] = {
    "no type": ({"type": ""}, "job.type"),
    "type with a space": ({"type": "a b"}, "job.type"),
    "type with a newline": ({"type": "a\n"}, "job.type"),
    "type too long": ({"type": "t" * 129}, "job.type"),
    "queue begins with a dash": ({"queue": "-q"}, "job.queue"),
    "queue with a slash": ({"queue": "a/b"}, "job.queue"),
    "queue too long": ({"queue": "q" * 65}, "job.queue"),
    "priority below": ({"priority": -1}, "job.priority"),
    "priority above": ({"priority": 10}, "job.priority"),
    "content type too long": (
        {"payload": common_pb2.Payload(content_type="x" * 129)},
        "job.payload.content_type",
    ),
    "too many headers": ({"headers": text_map(33)}, "job.headers"),
    "header without a name": ({"headers": {"": "v"}}, "job.headers"),
    "reserved header": ({"headers": {"rota-fence": "1"}}, "job.headers"),
    "reserved header in capitals": ({"headers": {"Rota-Fence": "1"}}, "job.headers"),
    "too many labels": ({"labels": text_map(33)}, "job.labels"),
    "labels too large": ({"labels": text_map(2, "v" * 2050)}, "job.labels"),
    "no attempts": (retry(max_attempts=0), "job.retry_policy.max_attempts"),
    "too many attempts": (retry(max_attempts=1001), "job.retry_policy.max_attempts"),
    "negative backoff": (retry(initial_backoff=span(-1)), "job.retry_policy.initial_backoff"),
    "backoff of two days": (retry(max_backoff=span(2 * DAY)), "job.retry_policy.max_backoff"),
    "shrinking backoff": (retry(multiplier=0.5), "job.retry_policy.multiplier"),
    "steep backoff": (retry(multiplier=10.5), "job.retry_policy.multiplier"),
    "backoff by NaN": (retry(multiplier=float("nan")), "job.retry_policy.multiplier"),
    "33 final errors": (retry(non_retryable_types=["E"] * 33), "job.retry_policy.non_retryable_types"),
    "name of a final error too long": (retry(non_retryable_types=["E" * 257]), "job.retry_policy.non_retryable_types"),
    "run for no time": (timeouts(run=0), "job.timeouts.run"),
    "run for eight days": (timeouts(run=8 * DAY), "job.timeouts.run"),
    "start by now": (timeouts(start_by=0.5), "job.timeouts.start_by"),
    "start by next year": (timeouts(start_by=367 * DAY), "job.timeouts.start_by"),
    "negative total": (timeouts(total=-1), "job.timeouts.total"),
    "total of two years": (timeouts(total=700 * DAY), "job.timeouts.total"),
    "effect key too long": ({"effect_key": "k" * 513}, "job.effect_key"),
    "concurrency key too long": ({"concurrency_key": "k" * 129}, "job.concurrency_key"),
    "in eleven years": ({"run_time": Timestamp(seconds=4_900_000_000)}, "job.run_time"),
    "run time out of all bounds": ({"run_time": Timestamp(seconds=2**60)}, "job.run_time"),
    "negative delay": ({"delay": -0.001}, "delay"),
    "delay of eleven years": ({"delay": 4_000 * DAY}, "delay"),
    "delay and run time": ({"delay": 1, "run_time": Timestamp(seconds=1_900_000_000)}, "delay"),
    "request_id too long": ({"request_id": "r" * 129}, "request_id"),
    "no dedupe key": (dedupe(key=""), "dedupe.key"),
    "dedupe key too long": (dedupe(key="é" * 129), "dedupe.key"),
    "dedupe for half a second": (dedupe(window=span(0.5)), "dedupe.window"),
    "dedupe for a quarter": (dedupe(window=span(90 * DAY)), "dedupe.window"),
    "unknown dedupe scope": (dedupe(scope=77), "dedupe.scope"),
    "unknown dedupe conflict": (dedupe(on_conflict=77), "dedupe.on_conflict"),
}


@pytest.mark.parametrize("name", JOBS)
async def test_a_malformed_job_is_refused(tenant: Tenant, name: str) -> None:
    fields, path = JOBS[name]
    request = creation(**{"type": "t"} | fields)
    check_invalid(await refusal(tenant.jobs.CreateJob(request)), path)

    if not request.request_id:
        batch = jobs_pb2.BatchCreateJobsRequest(requests=[creation(), request])
        check_invalid(await refusal(tenant.jobs.BatchCreateJobs(batch)), f"requests[1].{path}")
    assert (await tenant.jobs.ListJobs(jobs_pb2.ListJobsRequest())).jobs == []


async def test_all_that_is_wrong_is_told_at_once(tenant: Tenant) -> None:
    request = creation("", queue="-", priority=11, delay=-1.0, request_id=NUL)
    check_invalid(
        await refusal(tenant.jobs.CreateJob(request)), "delay", "job.type", "job.queue", "job.priority", "request_id"
    )


@pytest.mark.parametrize("text", ["x" * 5000, "é" * 2500, "😀" * 1250], ids=["ascii", "latin", "emoji"])
async def test_a_long_refusal_still_fits_into_the_trailers_that_clients_take(tenant: Tenant, text: str) -> None:
    # Clients refuse trailers over 8 KiB, which would hide the reason.
    bad = creation(text, headers={text: ""}, labels={text: ""})
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await tenant.jobs.BatchCreateJobs(jobs_pb2.BatchCreateJobsRequest(requests=[bad] * 30))
    trailers = sum(len(key) + len(value) * 4 / 3 + 32 for key, value in raised.value.trailing_metadata() or ())
    assert trailers + len(quote(raised.value.details() or "")) < 8192
    found = refusal_of(raised.value)
    assert found.case == ("INVALID_ARGUMENT", "VALIDATION_FAILED"), found
    assert found.fields[0] == "requests[0].job.type"


@pytest.mark.parametrize(("bytes_over", "accepted"), [(-1, True), (0, True), (1, False)])
async def test_payloads_are_counted_in_bytes(tenant: Tenant, bytes_over: int, accepted: bool) -> None:
    size = limits.PAYLOAD_BYTES_MAX + bytes_over
    data = ("é" * (size // 2)).encode() + b"x" * (size % 2)
    request = creation(data=data)
    if accepted:
        assert (await tenant.jobs.CreateJob(request)).job.payload.data == data
        return
    for call, path in (
        (tenant.jobs.CreateJob(request), "job.payload.data"),
        (
            tenant.jobs.BatchCreateJobs(jobs_pb2.BatchCreateJobsRequest(requests=[creation(), request])),
            "requests[1].job.payload.data",
        ),
    ):
        found = await refusal(call)
        check_invalid(found, path, reason="PAYLOAD_TOO_LARGE")
        assert found.metadata["limit"] == str(limits.PAYLOAD_BYTES_MAX)
        assert found.metadata["found"] == str(size)
    assert (await tenant.jobs.ListJobs(jobs_pb2.ListJobsRequest())).jobs == []


@pytest.mark.parametrize(("value", "accepted"), [("v" * 2726, True), ("é" * 1363, True), ("é" * 1364, False)])
async def test_headers_are_counted_in_bytes(tenant: Tenant, value: str, accepted: bool) -> None:
    headers = text_map(3, value)
    request = creation(headers=headers)
    if accepted:
        assert dict((await tenant.jobs.CreateJob(request)).job.headers) == headers
        return
    batch = jobs_pb2.BatchCreateJobsRequest(requests=[creation(), request])
    for call, path in (
        (tenant.jobs.CreateJob(request), "job.headers"),
        (tenant.jobs.BatchCreateJobs(batch), "requests[1].job.headers"),
    ):
        found = await refusal(call)
        check_invalid(found, path, reason="PAYLOAD_TOO_LARGE")
        assert found.metadata == {"field": path, "limit": str(limits.HEADERS_BYTES_MAX), "found": "8196"}
    assert (await tenant.jobs.ListJobs(jobs_pb2.ListJobsRequest())).jobs == []


def page_token(token: str) -> jobs_pb2.ListJobsRequest:
    return jobs_pb2.ListJobsRequest(page_token=token)


LABELS = text_map(33)
CALLS: dict[str, tuple[Callable[[Tenant], Any], str]] = {
    "no jobs in a batch": (lambda t: t.jobs.BatchCreateJobs(jobs_pb2.BatchCreateJobsRequest()), "requests"),
    "1,001 jobs in a batch": (
        lambda t: t.jobs.BatchCreateJobs(jobs_pb2.BatchCreateJobsRequest(requests=[creation()] * 1001)),
        "requests",
    ),
    "request_id of one job of a batch": (
        lambda t: t.jobs.BatchCreateJobs(jobs_pb2.BatchCreateJobsRequest(requests=[creation(request_id="r")])),
        "requests[0].request_id",
    ),
    "request_id of a batch too long": (
        lambda t: t.jobs.BatchCreateJobs(jobs_pb2.BatchCreateJobsRequest(requests=[creation()], request_id="r" * 129)),
        "request_id",
    ),
    "get no job": (lambda t: t.jobs.GetJob(jobs_pb2.GetJobRequest()), "name"),
    "get another collection": (
        lambda t: t.jobs.GetJob(jobs_pb2.GetJobRequest(name=MISSING.replace("jobs", "sessions"))),
        "name",
    ),
    "get by SQL": (lambda t: t.jobs.GetJob(jobs_pb2.GetJobRequest(name="jobs/'; DROP TABLE jobs")), "name"),
    "negative page of jobs": (lambda t: t.jobs.ListJobs(jobs_pb2.ListJobsRequest(page_size=-1)), "page_size"),
    "unknown state of jobs": (lambda t: t.jobs.ListJobs(jobs_pb2.ListJobsRequest(state=77)), "state"),
    "too many labels in a filter": (lambda t: t.jobs.ListJobs(jobs_pb2.ListJobsRequest(labels=LABELS)), "labels"),
    "attempts of no job": (lambda t: t.jobs.ListAttempts(jobs_pb2.ListAttemptsRequest(parent="jobs/1")), "parent"),
    "negative page of attempts": (
        lambda t: t.jobs.ListAttempts(jobs_pb2.ListAttemptsRequest(parent=MISSING, page_size=-5)),
        "page_size",
    ),
    "cancel no job": (lambda t: t.jobs.CancelJob(jobs_pb2.CancelJobRequest(name="x")), "name"),
    "cancel in an unknown mode": (lambda t: t.jobs.CancelJob(jobs_pb2.CancelJobRequest(name=MISSING, mode=77)), "mode"),
    "cancel for a long reason": (
        lambda t: t.jobs.CancelJob(jobs_pb2.CancelJobRequest(name=MISSING, reason="r" * 1025)),
        "reason",
    ),
    "wait for no job": (lambda t: t.jobs.WaitJob(jobs_pb2.WaitJobRequest(name="x")), "name"),
    "wait backwards": (lambda t: t.jobs.WaitJob(jobs_pb2.WaitJobRequest(name=MISSING, timeout=span(-1))), "timeout"),
    "wait too long": (lambda t: t.jobs.WaitJob(jobs_pb2.WaitJobRequest(name=MISSING, timeout=span(11))), "timeout"),
    "negative page of sessions": (
        lambda t: t.admin.ListSessions(admin_pb2.ListSessionsRequest(page_size=-1)),
        "page_size",
    ),
    "sessions that ended": (
        lambda t: t.admin.ListSessions(admin_pb2.ListSessionsRequest(show_ended=True)),
        "show_ended",
    ),
    "sessions in an unknown state": (lambda t: t.admin.ListSessions(admin_pb2.ListSessionsRequest(state=77)), "state"),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_malformed_request_is_refused(tenant: Tenant, name: str) -> None:
    call, path = CALLS[name]
    check_invalid(await refusal(call(tenant)), path)


def opening(**fields: Any) -> worker_pb2.OpenSessionRequest:
    return worker_pb2.OpenSessionRequest(**{"worker": "w", "queues": ["q"]} | fields)


def leasing(**fields: Any) -> worker_pb2.LeaseRequest:
    return worker_pb2.LeaseRequest(
        **{"session": NO_SESSION, "request_id": "r", "capacity": 1, "wait": span(0)} | fields
    )


WORKERS: dict[str, tuple[str, Any, str]] = {
    "no worker": ("OpenSession", opening(worker=""), "worker"),
    "worker too long": ("OpenSession", opening(worker="w" * 129), "worker"),
    "sdk too long": ("OpenSession", opening(sdk="w" * 129), "sdk"),
    "build too long": ("OpenSession", opening(build_id="w" * 129), "build_id"),
    "no queues": ("OpenSession", opening(queues=[]), "queues"),
    "65 queues": ("OpenSession", opening(queues=[f"q{i}" for i in range(65)]), "queues"),
    "malformed queue": ("OpenSession", opening(queues=["q", "a b"]), "queues"),
    "513 types": ("OpenSession", opening(types=[f"t{i}" for i in range(513)]), "types"),
    "malformed session type": ("OpenSession", opening(types=["a b"]), "types"),
    "negative slots": ("OpenSession", opening(slots=-1), "slots"),
    "10,001 slots": ("OpenSession", opening(slots=10_001), "slots"),
    "33 session labels": ("OpenSession", opening(labels=LABELS), "labels"),
    "session request_id too long": ("OpenSession", opening(request_id="r" * 129), "request_id"),
    "negative protocol": ("OpenSession", opening(protocol_version=-1), "protocol_version"),
    "no capacity": ("Lease", leasing(capacity=0), "capacity"),
    "negative capacity": ("Lease", leasing(capacity=-1), "capacity"),
    "capacity over 1,000": ("Lease", leasing(capacity=1001), "capacity"),
    "negative poller": ("Lease", leasing(poller=-1), "poller"),
    "65th poller": ("Lease", leasing(poller=64), "poller"),
    "negative wait": ("Lease", leasing(wait=span(-0.001)), "wait"),
    "negative max_bytes": ("Lease", leasing(max_bytes=-1), "max_bytes"),
    "no request_id": ("Lease", leasing(request_id=""), "request_id"),
    "lease request_id too long": ("Lease", leasing(request_id="r" * 129), "request_id"),
    "lease for no session": ("Lease", leasing(session="sessions/x"), "session"),
    "beat of no session": ("SendHeartbeat", worker_pb2.SendHeartbeatRequest(session="x"), "session"),
    "complete nothing": ("Complete", worker_pb2.CompleteRequest(session=NO_SESSION), "results"),
    "complete 501": (
        "Complete",
        worker_pb2.CompleteRequest(session=NO_SESSION, results=[worker_pb2.Result(job=MISSING, fence=1)] * 501),
        "results",
    ),
    "complete for no session": (
        "Complete",
        worker_pb2.CompleteRequest(session="", results=[worker_pb2.Result(job=MISSING, fence=1)]),
        "session",
    ),
    "close no session": ("CloseSession", worker_pb2.CloseSessionRequest(session=""), "session"),
    "close in an unknown mode": ("CloseSession", worker_pb2.CloseSessionRequest(session=NO_SESSION, mode=77), "mode"),
}


@pytest.mark.parametrize("name", WORKERS)
async def test_a_malformed_request_of_a_worker_is_refused(tenant: Tenant, name: str) -> None:
    method, request, path = WORKERS[name]
    check_invalid(await refusal(getattr(tenant.work, method)(request)), path)


async def test_a_malformed_inventory_is_refused(tenant: Tenant) -> None:
    worker = await tenant.worker()
    inventory = worker_pb2.Inventory(leases=[worker_pb2.HeldLease(job="jobs/x", fence=1)])
    check_invalid(await refusal(worker.beat(inventory)), "inventory.leases.job")


async def test_a_stream_begins_with_hello(tenant: Tenant) -> None:
    call = tenant.work.Heartbeat(None)
    await call.write(worker_pb2.HeartbeatRequest(beat=worker_pb2.Beat(seq=1)))
    check_invalid(await refusal(_read(call)), "message")


async def _read(call: Any) -> Any:
    answer = await call.read()
    if answer is grpc.aio.EOF:
        raise grpc.aio.AioRpcError(
            await call.code(), await call.initial_metadata(), await call.trailing_metadata(), await call.details()
        )
    return answer


SUCCEEDED = worker_pb2.Succeeded()
FAILED = worker_pb2.Failed()
RECEIPTS = [common_pb2.EffectReceipt(effect_key="k")] * 17
RESULTS: dict[str, tuple[dict[str, Any], str]] = {
    "no fence": ({"fence": 0, "succeeded": SUCCEEDED}, "fence"),
    "negative fence": ({"fence": -1, "succeeded": SUCCEEDED}, "fence"),
    "no job": ({"job": "", "succeeded": SUCCEEDED}, "job"),
    "no outcome": ({}, "outcome"),
    "request_id of an outcome too long": ({"request_id": "r" * 129, "succeeded": SUCCEEDED}, "request_id"),
    "content type of a result too long": (
        {"succeeded": worker_pb2.Succeeded(result=common_pb2.Payload(content_type="x" * 129))},
        "succeeded.result.content_type",
    ),
    "17 receipts": ({"succeeded": SUCCEEDED, "effect_receipts": RECEIPTS}, "effect_receipts"),
    "receipt for a long key": (
        {"succeeded": SUCCEEDED, "effect_receipts": [common_pb2.EffectReceipt(effect_key="k" * 513)]},
        "effect_receipts.effect_key",
    ),
    "long receipt": (
        {"succeeded": SUCCEEDED, "effect_receipts": [common_pb2.EffectReceipt(effect_key="k", reference="r" * 1025)]},
        "effect_receipts.reference",
    ),
    "spawned by a failure": ({"failed": FAILED, "spawned": [creation()]}, "spawned"),
    "101 spawned": ({"succeeded": SUCCEEDED, "spawned": [creation()] * 101}, "spawned"),
    "malformed spawned job": ({"succeeded": SUCCEEDED, "spawned": [creation("a b")]}, "spawned[0].job.type"),
    "spawned with a dedupe key": ({"succeeded": SUCCEEDED, "spawned": [creation(**dedupe())]}, "spawned[0].dedupe"),
    "spawned with a request_id": (
        {"succeeded": SUCCEEDED, "spawned": [creation(request_id="r")]},
        "spawned[0].request_id",
    ),
    "negative release": ({"released": worker_pb2.Released(delay=span(-1))}, "released.delay"),
    "release for hours": ({"released": worker_pb2.Released(delay=span(7200))}, "released.delay"),
    "unknown effect state": ({"failed": worker_pb2.Failed(effect_state=77)}, "failed.effect_state"),
}


@pytest.mark.parametrize("name", RESULTS)
async def test_a_malformed_outcome_is_refused_by_itself(tenant: Tenant, name: str) -> None:
    fields, path = RESULTS[name]
    worker = await tenant.worker()
    await tenant.create_many(2)
    bad, good = await worker.some(2)
    fields = {"job": bad.job, "fence": bad.fence} | fields
    found = await refusal(tenant.work.CompleteJob(worker_pb2.CompleteJobRequest(session=worker.session, **fields)))
    check_invalid(found, path)

    first, second = await worker.settle(
        worker_pb2.Result(**fields), worker_pb2.Result(job=good.job, fence=good.fence, succeeded=SUCCEEDED)
    )
    check_invalid(Refusal.of(first.status), path)
    assert second.status.code == 0
    assert [await tenant.state(bad), await tenant.state(good)] == ["LEASED", "SUCCEEDED"]


@pytest.mark.parametrize(("bytes_over", "accepted"), [(0, True), (1, False)])
async def test_results_have_a_limit(tenant: Tenant, bytes_over: int, accepted: bool) -> None:
    size = limits.RESULT_BYTES_MAX + bytes_over
    worker = await tenant.worker()
    await tenant.create()
    lease = await worker.one()
    request = worker_pb2.CompleteJobRequest(
        session=worker.session,
        job=lease.job,
        fence=lease.fence,
        succeeded=worker_pb2.Succeeded(result=common_pb2.Payload(data=b"r" * size)),
    )
    if accepted:
        await tenant.work.CompleteJob(request)
        assert len((await tenant.get(lease)).result.data) == size
        return
    found = await refusal(tenant.work.CompleteJob(request))
    check_invalid(found, "succeeded.result.data", reason="PAYLOAD_TOO_LARGE")
    assert (found.metadata["limit"], found.metadata["found"]) == (str(limits.RESULT_BYTES_MAX), str(size))
    # The job is not stuck: its worker can say that it failed.
    await worker.done(lease, failed="ResultTooLarge", retryable=False)
    assert (await tenant.get(lease)).last_failure.type == "ResultTooLarge"


async def test_what_grpc_itself_refuses_leaves_nothing_behind(tenant: Tenant) -> None:
    big = jobs_pb2.BatchCreateJobsRequest(requests=[creation(data=b"x" * 250_000)] * 20)
    assert (await refusal(tenant.jobs.BatchCreateJobs(big))).code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (await tenant.jobs.ListJobs(jobs_pb2.ListJobsRequest())).jobs == []
    assert await tenant.create_many(10, data=b"x" * 250_000)


@pytest.mark.parametrize(
    "token",
    ["x", "€", "AAAA", "A" * 5000, "=" * 4, "Zm9vYmFyYmF6cXV4Zm9vYmFy", "jobs/1", " ", "-_" * 20],
)
async def test_a_forged_page_token_is_refused(tenant: Tenant, token: str) -> None:
    job = await tenant.create()
    for call in (
        tenant.jobs.ListJobs(jobs_pb2.ListJobsRequest(page_token=token)),
        tenant.jobs.ListAttempts(jobs_pb2.ListAttemptsRequest(parent=job.name, page_token=token)),
        tenant.admin.ListSessions(admin_pb2.ListSessionsRequest(page_token=token)),
    ):
        check_invalid(await refusal(call), "page_token", reason="PAGE_TOKEN_INVALID")


async def test_a_page_token_is_good_for_its_own_list_only(rota: Running, tenant: Tenant) -> None:
    await tenant.create_many(3, queue="q", labels={"a": "1"})
    other = await rota.tenant()
    query = {"page_size": 1, "queue": "q", "labels": {"a": "1"}}
    token = (await tenant.jobs.ListJobs(jobs_pb2.ListJobsRequest(**query))).next_page_token
    assert token
    following = jobs_pb2.ListJobsRequest(**query | {"page_token": token, "page_size": 50})
    assert len((await tenant.jobs.ListJobs(following)).jobs) == 2

    def changed(**fields: Any) -> jobs_pb2.ListJobsRequest:
        return jobs_pb2.ListJobsRequest(**query | {"page_token": token} | fields)

    flipped = token[:-1] + ("A" if token[-1] != "A" else "B")
    for call in (
        tenant.jobs.ListJobs(changed(queue="r")),
        tenant.jobs.ListJobs(changed(type="t")),
        tenant.jobs.ListJobs(changed(state=jobs_pb2.JOB_STATE_READY)),
        tenant.jobs.ListJobs(changed(labels={})),
        tenant.jobs.ListJobs(changed(page_token=flipped)),
        other.jobs.ListJobs(following),
        tenant.admin.ListSessions(admin_pb2.ListSessionsRequest(page_token=token)),
    ):
        check_invalid(await refusal(call), "page_token", reason="PAGE_TOKEN_INVALID")


async def test_a_token_with_a_seal_that_holds_no_position_is_refused(rota: Running, tenant: Tenant) -> None:
    from rota.api import pages
    from rota.domain.ids import TenantId

    # The seal is no secret: whoever computes one must still not get through.
    job = await tenant.create()
    (key,) = await rota.keys.all(tenant.name)
    number = TenantId(key.tenant_id)
    for position in ("x", "-1", "9" * 400, "1.5"):
        token = pages.seal(position, number, job.name.removeprefix("jobs/").encode())
        found = await refusal(tenant.jobs.ListAttempts(jobs_pb2.ListAttemptsRequest(parent=job.name, page_token=token)))
        check_invalid(found, "page_token", reason="PAGE_TOKEN_INVALID")


@pytest.mark.parametrize("broken", [b"\xed\xa0\x80", b"\xff", b"\xc3\x28"], ids=["surrogate", "byte", "cut"])
async def test_text_that_is_not_unicode_is_the_callers_fault(tenant: Tenant, broken: bytes) -> None:
    field = b"\x0a" + bytes([len(broken)]) + broken  # GetJobRequest.name
    call = tenant.channel.unary_unary("/rota.v1.JobService/GetJob")
    found = await refusal(call(field, metadata=(("authorization", f"Bearer {tenant.key}"),), timeout=5))
    assert found.case == ("INVALID_ARGUMENT", "VALIDATION_FAILED"), found
    assert (await refusal(call(field, timeout=5))).case == ("UNAUTHENTICATED", "UNAUTHENTICATED")

    stream = tenant.channel.stream_stream("/rota.worker.v1.WorkerService/Heartbeat")(
        metadata=(("authorization", f"Bearer {tenant.key}"),), timeout=5
    )
    await stream.write(b"\x0a" + bytes([len(field)]) + field)  # HeartbeatRequest.hello.session
    assert (await refusal(_read(stream))).case == ("INVALID_ARGUMENT", "VALIDATION_FAILED")


async def test_a_run_time_in_the_past_means_now(tenant: Tenant) -> None:
    past = Timestamp()
    past.FromJsonString("0001-01-01T00:00:00.999999999Z")
    job = await tenant.create(run_time=past)
    assert job.due_time == job.create_time
