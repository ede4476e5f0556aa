"""Who may call what: credentials, roles and tenants, each decided before anything is said of what exists."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from rota_sdk.gen.rota.admin.v1 import admin_pb2
from rota_sdk.gen.rota.v1 import common_pb2, jobs_pb2, schedules_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2

from rota.domain.model import Role
from rota.service import identity

from .running import Caller, Refusal, Running, Tenant, Worker, creation, eventually, refusal, refusal_of, result, span

pytestmark = pytest.mark.asyncio(loop_scope="session")


def _methods(file: Any, service: str) -> set[str]:
    return {method.name for method in file.DESCRIPTOR.services_by_name[service].methods}


SERVED = {
    "JobService": _methods(jobs_pb2, "JobService"),
    "WorkerService": {
        *("OpenSession", "Lease", "Heartbeat", "SendHeartbeat", "Complete", "CompleteJob", "CloseSession"),
        *("BeginEffect", "CommitEffect"),
    },
    "AdminService": {
        *("ListDeadLetters", "GetDeadLetter", "RedriveDeadLetters", "DiscardDeadLetters"),
        *("GetRedrive", "ListRedrives", "CancelRedrive", "ListEffects", "ResolveEffect"),
        *("ListSessions", "ListQueues", "GetQueue", "UpdateQueue", "PauseQueue", "ResumeQueue", "PurgeQueue"),
        *("ListTenants", "GetTenant", "UpdateTenant", "ListCoordinators", "ListShards", "CheckInvariants"),
    },
    "ScheduleService": _methods(schedules_pb2, "ScheduleService"),
    "CalendarService": _methods(schedules_pb2, "CalendarService"),
}
OF_THE_INSTALLATION = {
    *("ListTenants", "GetTenant", "UpdateTenant", "ListCoordinators", "ListShards", "CheckInvariants"),
}
"""Not for operators of other tenants than `default`, who may read their own tenant all the same."""

ROLES = {
    "JobService": {Role.CLIENT, Role.OPERATOR},
    "ScheduleService": {Role.CLIENT, Role.OPERATOR},
    "CalendarService": {Role.CLIENT, Role.OPERATOR},
    "WorkerService": {Role.WORKER},
    "AdminService": {Role.OPERATOR},
}
METHODS = {
    method.full_name.removeprefix("rota."): method
    for file in (jobs_pb2, schedules_pb2, worker_pb2, admin_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}


async def call(caller: Caller, method: MethodDescriptor, key: str | None = None) -> Refusal:
    """What an empty request gets; OK where it is answered."""
    service = method.containing_service.full_name
    kind = ("stream" if method.client_streaming else "unary") + ("_stream" if method.server_streaming else "_unary")
    begin = getattr(caller.channel, kind)(f"/{service}/{method.name}")
    key = key if key is not None else caller.key
    metadata = () if key is None else (("authorization", f"Bearer {key}"),)
    request = GetMessageClass(method.input_type)().SerializeToString()
    if not method.client_streaming:
        pending = begin(request, metadata=metadata, timeout=10)
    else:
        pending = begin(metadata=metadata, timeout=10)
        # A refusal may come before the request has left.
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await pending.write(request)
            await pending.done_writing()
    if method.server_streaming and not method.client_streaming:
        # One that is answered goes on.
        with suppress(grpc.aio.AioRpcError):
            if await pending.read() is not grpc.aio.EOF:
                pending.cancel()
                return Refusal(grpc.StatusCode.OK, "")
    code = await pending.code()
    if code is grpc.StatusCode.OK:
        return Refusal(code, "")
    trailers = await pending.trailing_metadata()
    details = await pending.details()
    return refusal_of(grpc.aio.AioRpcError(code, await pending.initial_metadata(), trailers, details))


@pytest.mark.parametrize("name", METHODS)
async def test_every_call_needs_a_credential_and_its_role(rota: Running, tenant: Tenant, name: str) -> None:
    method = METHODS[name]
    service = method.containing_service.name

    found = await call(rota.anybody(), method)
    assert found.case == ("UNAUTHENTICATED", "UNAUTHENTICATED"), found
    assert "rota key create" in found.message

    for role in Role:
        found = await call(await tenant.caller(role), method)
        if role not in ROLES[service]:
            # The request is empty and what it names does not exist, and neither is said.
            assert found.case == ("PERMISSION_DENIED", "PERMISSION_DENIED"), found
        elif method.name in OF_THE_INSTALLATION:
            assert found.case == ("PERMISSION_DENIED", "PERMISSION_DENIED"), found
            assert "needs a key of the tenant default" in found.message
        elif method.name not in SERVED[service]:
            assert found.case == ("UNIMPLEMENTED", "NOT_IMPLEMENTED"), found
            assert found.domain == "rota"
            assert f"{method.containing_service.full_name}/{method.name} is" in found.message
        else:
            assert found.code in (grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT), found


async def unknown_key(tenant: Tenant) -> str:
    return f"rota_{'0' * 12}_{'x' * 43}"


async def wrong_secret(tenant: Tenant) -> str:
    assert tenant.key is not None
    return tenant.key[:-1] + ("x" if tenant.key[-1] != "x" else "y")


async def revoked_key(tenant: Tenant) -> str:
    key = await tenant.coordinator.key(tenant.name)
    assert await tenant.coordinator.keys.revoke(key)
    return key


async def expired_key(tenant: Tenant) -> str:
    return await tenant.coordinator.key(tenant.name, ttl_s=0.000_001)


async def malformed(tenant: Tenant) -> str:
    return "rota_" + "_" * 30


async def huge(tenant: Tenant) -> str:
    return "rota_a_" + "x" * 5000


async def empty(tenant: Tenant) -> str:
    return ""


@pytest.mark.parametrize("make", [unknown_key, wrong_secret, revoked_key, expired_key, malformed, huge, empty])
async def test_a_bad_key_is_refused(tenant: Tenant, make: Callable[[Tenant], Awaitable[str]]) -> None:
    key = await make(tenant)
    for method in ("v1.JobService.CreateJob", "worker.v1.WorkerService.Lease", "worker.v1.WorkerService.Heartbeat"):
        found = await call(tenant, METHODS[method], key)
        assert found.case == ("UNAUTHENTICATED", "UNAUTHENTICATED"), found
        assert len(key) < 20 or key not in found.message


@pytest.mark.parametrize("header", ["Basic {}", "{}", "bearer", "Bearer", "Token {}", "Bearer  {}"])
async def test_a_credential_in_another_form_is_refused(rota: Running, tenant: Tenant, header: str) -> None:
    metadata = [("authorization", header.format(tenant.key))]
    found = await refusal(rota.anybody().jobs.CreateJob(creation(), metadata=metadata))
    assert found.case == ("UNAUTHENTICATED", "UNAUTHENTICATED"), found


async def test_a_key_works_in_either_case_of_its_scheme(rota: Running, tenant: Tenant) -> None:
    metadata = [("authorization", f"bEARER {tenant.key}")]
    assert (await rota.anybody().jobs.CreateJob(creation(), metadata=metadata)).job.name


async def test_a_key_in_use_that_is_revoked_is_refused_once_the_cache_lets_go_of_it(
    rota: Running, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert identity.CACHE_LIFE_S <= 10
    monkeypatch.setattr(identity, "CACHE_LIFE_S", 0.2)
    key = await rota.key(tenant.name)
    used = rota.anybody(key)
    assert (await used.jobs.CreateJob(creation())).job.name
    await rota.keys.revoke(key)

    async def refused() -> bool:
        try:
            await used.jobs.CreateJob(creation())
        except grpc.aio.AioRpcError as error:
            return refusal_of(error).case == ("UNAUTHENTICATED", "UNAUTHENTICATED")
        return False

    await eventually(refused)


async def test_health_and_reflection_need_no_key(rota: Running) -> None:
    health = health_pb2_grpc.HealthStub(rota.channel)
    names = ["", *(m.containing_service.full_name for m in METHODS.values())]
    for name in dict.fromkeys(names):
        answer = await health.Check(health_pb2.HealthCheckRequest(service=name), timeout=5)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING, name
    assert (
        await refusal(health.Check(health_pb2.HealthCheckRequest(service="nope"), timeout=5))
    ).code is grpc.StatusCode.NOT_FOUND

    stub = reflection_pb2_grpc.ServerReflectionStub(rota.channel)
    ask = [reflection_pb2.ServerReflectionRequest(list_services="")]
    async for answer in stub.ServerReflectionInfo(iter(ask), timeout=5):
        listed = {service.name for service in answer.list_services_response.service}
        assert set(names[1:]) | {"grpc.health.v1.Health"} <= listed
    ask = [reflection_pb2.ServerReflectionRequest(file_containing_symbol="rota.worker.v1.WorkerService")]
    async for answer in stub.ServerReflectionInfo(iter(ask), timeout=5):
        assert answer.file_descriptor_response.file_descriptor_proto


MISSING = "00000000-0000-7000-8000-000000000000"

READS: dict[str, Callable[[Tenant, str], Any]] = {
    "GetJob": lambda t, job: t.jobs.GetJob(jobs_pb2.GetJobRequest(name=job)),
    "CancelJob": lambda t, job: t.jobs.CancelJob(jobs_pb2.CancelJobRequest(name=job, mode=3)),
    "ListAttempts": lambda t, job: t.jobs.ListAttempts(jobs_pb2.ListAttemptsRequest(parent=job)),
    "WaitJob": lambda t, job: t.jobs.WaitJob(jobs_pb2.WaitJobRequest(name=job, timeout=span(5))),
}


@pytest.mark.parametrize("method", READS)
@pytest.mark.parametrize("state", ["waiting", "leased", "done"])
async def test_another_tenants_job_is_no_job(rota: Running, tenant: Tenant, method: str, state: str) -> None:
    job = await tenant.create()
    if state != "waiting":
        worker = await tenant.worker()
        lease = await worker.one()
        if state == "done":
            await worker.done(lease)
    before = await tenant.get(job)
    stranger = await rota.tenant()
    theirs = await refusal(READS[method](stranger, job.name))
    assert theirs.case == ("NOT_FOUND", "RESOURCE_NOT_FOUND")
    nobodys = await refusal(READS[method](stranger, f"jobs/{MISSING}"))
    assert (theirs.code, theirs.metadata) == (nobodys.code, nobodys.metadata)
    assert theirs.message.replace(job.name, "") == nobodys.message.replace(f"jobs/{MISSING}", "")
    assert await tenant.get(job) == before


async def test_another_tenants_lease_is_no_lease(rota: Running, tenant: Tenant) -> None:
    await tenant.create()
    lease = await (await tenant.worker()).one()
    stranger = await rota.tenant()
    thief = await stranger.worker()
    missing = worker_pb2.Lease(job=f"jobs/{MISSING}", fence=lease.fence)

    theirs, nobodys = await thief.outcome(lease), await thief.outcome(missing)
    assert isinstance(theirs, Refusal) and isinstance(nobodys, Refusal)
    assert theirs.case == nobodys.case == ("ABORTED", "STALE_FENCE")
    assert theirs.metadata == nobodys.metadata == {"cause": "UNKNOWN_JOB"}
    assert theirs.message.replace(lease.job, "") == nobodys.message.replace(missing.job, "")

    for wanted in (lease, missing):
        made = result(wanted)
        found = await refusal(
            stranger.work.CompleteJob(
                worker_pb2.CompleteJobRequest(
                    session=thief.session, job=made.job, fence=made.fence, succeeded=made.succeeded
                )
            )
        )
        assert found.metadata == {"cause": "UNKNOWN_JOB"}

    held = [worker_pb2.HeldLease(job=each.job, fence=each.fence) for each in (lease, missing)]
    ack = await thief.beat(worker_pb2.Inventory(leases=held))
    assert sorted(each.job for each in ack.lost) == sorted(each.job for each in held)
    assert await tenant.state(lease) == "LEASED"


async def test_another_tenants_session_is_gone(rota: Running, tenant: Tenant) -> None:
    worker = await tenant.worker()
    await tenant.create()
    lease = await worker.one()
    stranger = await rota.tenant()

    async def outcomes(session: str) -> list[tuple[str, str]]:
        thief = Worker(stranger, worker_pb2.OpenSessionResponse(session=session))

        async def hello() -> None:
            async with thief.stream():
                pass

        calls = [thief.poll(), thief.beat(), hello(), thief.close(), thief.close("DRAIN")]
        return [(await refusal(each)).case for each in calls]

    for session in (worker.session, f"sessions/{MISSING}"):
        assert await outcomes(session) == [("NOT_FOUND", "SESSION_GONE")] * 5
    # Nothing happened to it.
    assert (await worker.prove()).lost == []
    await worker.done(lease)


async def test_lists_hold_the_callers_own_only(rota: Running, tenant: Tenant) -> None:
    stranger = await rota.tenant()
    mine = await tenant.create(queue="q", labels={"a": "1"})
    await stranger.create(queue="q", labels={"a": "1"})
    await tenant.worker(["q"])
    session = (await stranger.worker(["q"])).session
    for filter in ({}, {"queue": "q"}, {"labels": {"a": "1"}}, {"type": "t"}):
        found = (await tenant.jobs.ListJobs(jobs_pb2.ListJobsRequest(**filter))).jobs
        assert [job.name for job in found] == [mine.name]
    sessions = (await stranger.admin.ListSessions(admin_pb2.ListSessionsRequest())).sessions
    assert [each.name for each in sessions] == [session]


async def test_tenants_share_no_queue_key_or_request_id(rota: Running, tenant: Tenant) -> None:
    stranger = await rota.tenant()
    asked = creation(request_id="same", dedupe=common_pb2.Dedupe(key="same", scope=3))
    jobs = [(await each.jobs.CreateJob(asked)).job.name for each in (tenant, stranger)]
    assert len(set(jobs)) == 2
    for each, job in zip((tenant, stranger), jobs, strict=True):
        worker = await each.worker()
        assert [lease.job for lease in await worker.lease(10, 5.0)] == [job]
        assert await worker.lease(10) == []


async def test_the_table_of_methods_is_whole() -> None:
    assert {m.containing_service.name for m in METHODS.values()} == set(SERVED) == set(ROLES)
    named = set(itertools.chain.from_iterable(SERVED.values()))
    assert named <= {method.name for method in METHODS.values()}
