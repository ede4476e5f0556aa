"""A coordinator in this process behind real gRPC, with tenants, their keys, and workers that go step by step.

Everything is keyed by tenant, so tests that need no settings of their own share one coordinator, each with a tenant
of its own.
"""

import asyncio
import itertools
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
import psycopg
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2
from rota_sdk.gen.rota.admin.v1 import admin_pb2_grpc
from rota_sdk.gen.rota.v1 import common_pb2, jobs_pb2, jobs_pb2_grpc, schedules_pb2_grpc
from rota_sdk.gen.rota.worker.v1 import worker_pb2, worker_pb2_grpc

from rota import bootstrap
from rota.api.server import Server
from rota.clock import SystemClock
from rota.config import Settings
from rota.coordinator.node import Node
from rota.domain.model import Role
from rota.service.identity import Keys
from rota.store.embedded import EmbeddedPostgres
from rota.store.engine import Database
from rota.store.identity import PgIdentity
from rota.telemetry import Telemetry

from ..harness import settle_in

ALL_ROLES = frozenset(Role)
CALL_S = 20.0
"""A call without a deadline of its own gets this long, so that nothing hangs."""

SETTINGS: dict[str, Any] = {
    "listen": "127.0.0.1:0",
    "session_ttl_s": 15.0,
    "delivery_ttl_s": 15.0,
    "shard_term_s": 6.0,
    "drain_timeout_s": 2.0,
}

JobState = jobs_pb2.JobState
Outcome = jobs_pb2.AttemptOutcome


@contextmanager
def fresh_database(server: EmbeddedPostgres) -> Iterator[str]:
    """The URL of a migrated database, dropped at the end of the block."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server.url, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name} TEMPLATE migrated")  # type: ignore[arg-type]
    yield settle_in(server.url.rsplit("/", 1)[0] + f"/{name}")
    with psycopg.connect(server.url, autocommit=True) as conn:
        conn.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type]


def span(seconds: float) -> Duration:
    nanos = round(seconds * 1e9)
    whole = int(nanos / 1_000_000_000)
    return Duration(seconds=whole, nanos=nanos - whole * 1_000_000_000)


def seconds(value: Duration) -> float:
    return value.seconds + value.nanos / 1e9


def now() -> float:
    """By the loop's clock, in seconds."""
    return asyncio.get_running_loop().time()


async def eventually(check: Callable[[], Any], *, within_s: float = 10.0, every_s: float = 0.02) -> Any:
    """Waits for a check, async or not, to become true, for what has no event to wait for."""
    loop = asyncio.get_running_loop()
    until = loop.time() + within_s
    while True:
        found = check()
        if isinstance(found, Awaitable):
            found = await found
        if found:
            return found
        if loop.time() > until:
            raise AssertionError(f"not true within {within_s:g} s, last: {found!r}")
        await asyncio.sleep(every_s)


@dataclass(frozen=True)
class Refusal:
    """A status with its details unpacked."""

    code: grpc.StatusCode
    message: str
    reason: str = ""
    domain: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    fields: tuple[str, ...] = ()
    retry_after_s: float | None = None
    preconditions: tuple[str, ...] = ()
    resource: str = ""

    @classmethod
    def of(cls, status: status_pb2.Status) -> "Refusal":
        code = next(c for c in grpc.StatusCode if c.value[0] == status.code)
        found: dict[str, Any] = {}
        for packed in status.details:
            for kind in _DETAILS:
                detail = kind()
                if packed.Unpack(detail):
                    found |= _DETAILS[kind](detail)
        return cls(code, status.message, **found)

    @property
    def case(self) -> tuple[str, str]:
        return self.code.name, self.reason


_DETAILS: dict[Any, Callable[[Any], dict[str, Any]]] = {
    error_details_pb2.ErrorInfo: lambda d: {"reason": d.reason, "domain": d.domain, "metadata": dict(d.metadata)},
    error_details_pb2.BadRequest: lambda d: {"fields": tuple(v.field for v in d.field_violations)},
    error_details_pb2.RetryInfo: lambda d: {"retry_after_s": seconds(d.retry_delay)},
    error_details_pb2.PreconditionFailure: lambda d: {"preconditions": tuple(v.type for v in d.violations)},
    error_details_pb2.ResourceInfo: lambda d: {"resource": d.resource_name},
}


def refusal_of(error: grpc.aio.AioRpcError) -> Refusal:
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            status = status_pb2.Status.FromString(value)
            assert status.code == error.code().value[0], "details of another status"
            return Refusal.of(status)
    return Refusal(error.code(), error.details() or "")


async def refusal(call: Awaitable[Any]) -> Refusal:
    """What a call is refused with; that it is."""
    try:
        answer = await call
    except grpc.aio.AioRpcError as error:
        return refusal_of(error)
    raise AssertionError(f"expected a refusal, found an answer: {answer}")


class Service:
    """The methods of a stub with a credential and a deadline on each call."""

    def __init__(self, stub: Any, key: str | None) -> None:
        self._stub = stub
        self._metadata = () if key is None else (("authorization", f"Bearer {key}"),)

    def __getattr__(self, method: str) -> Callable[..., Any]:
        call = getattr(self._stub, method)

        def begin(
            request: Any, *, timeout: float | None = CALL_S, metadata: Sequence[tuple[str, str]] = (), **more: Any
        ) -> Any:
            return call(request, timeout=timeout, metadata=(*self._metadata, *metadata), **more)

        return begin


class Caller:
    """One credential, and all services through it."""

    def __init__(self, channel: grpc.aio.Channel, key: str | None) -> None:
        self.key = key
        self.channel = channel
        self.jobs = Service(jobs_pb2_grpc.JobServiceStub(channel), key)
        self.schedules = Service(schedules_pb2_grpc.ScheduleServiceStub(channel), key)
        self.calendars = Service(schedules_pb2_grpc.CalendarServiceStub(channel), key)
        self.work = Service(worker_pb2_grpc.WorkerServiceStub(channel), key)
        self.admin = Service(admin_pb2_grpc.AdminServiceStub(channel), key)


class Tenant(Caller):
    """A tenant, with a key for everything."""

    def __init__(self, coordinator: "Running", name: str, key: str) -> None:
        super().__init__(coordinator.channel, key)
        self.coordinator = coordinator
        self.name = name

    async def caller(self, *roles: Role, ttl_s: float | None = None) -> Caller:
        """A further key of this tenant, with these roles only."""
        return Caller(self.channel, await self.coordinator.key(self.name, frozenset(roles), ttl_s))

    async def create(self, type: str = "t", **fields: Any) -> jobs_pb2.Job:
        """A job, from the fields of CreateJobRequest.job; delay, dedupe and request_id are the request's."""
        return (await self.jobs.CreateJob(creation(type, **fields))).job

    async def create_many(self, count: int, type: str = "t", **fields: Any) -> list[str]:
        """Names of so many equal jobs."""
        request = jobs_pb2.BatchCreateJobsRequest(requests=[creation(type, **fields)] * count, names_only=True)
        return [job.name for job in (await self.jobs.BatchCreateJobs(request)).jobs]

    async def ready(self, jobs: "Iterable[str | jobs_pb2.Job]") -> None:
        """Returns once the coordinator's memory has all of these as due."""
        ids = [name_of(job).removeprefix("jobs/") for job in jobs]
        await eventually(lambda: all(id in self.coordinator.node.memory.ready for id in ids))

    async def get(self, job: "str | jobs_pb2.Job | worker_pb2.Lease") -> jobs_pb2.Job:
        return (await self.jobs.GetJob(jobs_pb2.GetJobRequest(name=name_of(job)))).job

    async def state(self, job: "str | jobs_pb2.Job | worker_pb2.Lease") -> str:
        return state_name((await self.get(job)).state)

    async def attempts(self, job: "str | jobs_pb2.Job | worker_pb2.Lease") -> list[jobs_pb2.Attempt]:
        request = jobs_pb2.ListAttemptsRequest(parent=name_of(job), page_size=1000)
        return list((await self.jobs.ListAttempts(request)).attempts)

    async def outcomes(self, job: "str | jobs_pb2.Job | worker_pb2.Lease") -> list[str]:
        """How the attempts ended, oldest first; UNSPECIFIED for the running one."""
        return [Outcome.Name(a.outcome).removeprefix("ATTEMPT_OUTCOME_") for a in await self.attempts(job)]

    async def cancel(
        self, job: "str | jobs_pb2.Job | worker_pb2.Lease", mode: str = "UNSPECIFIED", reason: str = ""
    ) -> jobs_pb2.Job:
        request = jobs_pb2.CancelJobRequest(
            name=name_of(job), mode=jobs_pb2.CancelMode.Value(f"CANCEL_MODE_{mode}"), reason=reason
        )
        return (await self.jobs.CancelJob(request)).job

    async def ended(self, job: "str | jobs_pb2.Job | worker_pb2.Lease", within_s: float = 10.0) -> jobs_pb2.Job:
        """The job once it is terminal."""
        request = jobs_pb2.WaitJobRequest(name=name_of(job), timeout=span(within_s))
        found = (await self.jobs.WaitJob(request)).job
        assert found.state >= JobState.JOB_STATE_SUCCEEDED, f"not terminal within {within_s:g} s: {found}"
        return found

    async def worker(self, queues: Iterable[str] = ("default",), types: Iterable[str] = (), **fields: Any) -> "Worker":
        """A worker with a session of its own."""
        request = worker_pb2.OpenSessionRequest(worker="test", queues=queues, types=types, **fields)
        return Worker(self, await self.work.OpenSession(request))


class Worker:
    """A session that speaks the protocol step by step: each call's ack_batch and inventory follow what it received."""

    def __init__(self, tenant: Tenant, opened: worker_pb2.OpenSessionResponse) -> None:
        self.tenant = tenant
        self.opened = opened
        self.session = opened.session
        self.held: dict[tuple[str, int], worker_pb2.Lease] = {}
        self.batches: dict[int, int] = {}
        self._ids = itertools.count(1)
        self._seq = itertools.count(1)

    def request(
        self,
        *,
        capacity: int = 1,
        wait: float | None = 0.0,
        poller: int = 0,
        request_id: str = "",
        ack_batch: int | None = None,
        max_bytes: int = 0,
    ) -> worker_pb2.LeaseRequest:
        return worker_pb2.LeaseRequest(
            session=self.session,
            poller=poller,
            request_id=request_id or f"{self.session}/{next(self._ids)}",
            ack_batch=self.batches.get(poller, 0) if ack_batch is None else ack_batch,
            capacity=capacity,
            max_bytes=max_bytes,
            wait=None if wait is None else span(wait),
        )

    def poll(self, **fields: Any) -> Any:
        """A Lease call on its way."""
        return self.tenant.work.Lease(self.request(**fields))

    def take(self, answer: worker_pb2.LeaseResponse, poller: int = 0) -> list[worker_pb2.Lease]:
        """Notes an answer as received."""
        if answer.batch:
            self.batches[poller] = answer.batch
        for lease in answer.leases:
            self.held[lease.job, lease.fence] = lease
        return list(answer.leases)

    async def lease(
        self, capacity: int = 1, wait: float = 0.0, poller: int = 0, **fields: Any
    ) -> list[worker_pb2.Lease]:
        """Leases what there is."""
        return self.take(await self.poll(capacity=capacity, wait=wait, poller=poller, **fields), poller)

    async def one(self, wait: float = 5.0, **fields: Any) -> worker_pb2.Lease:
        """The next job; that there is one."""
        (lease,) = await self.lease(1, wait, **fields)
        return lease

    async def some(self, count: int, poller: int = 0) -> list[worker_pb2.Lease]:
        """So many jobs, over as many calls as it takes: new jobs are not all leasable in the same instant."""
        found: list[worker_pb2.Lease] = []
        while len(found) < count:
            more = await self.lease(count - len(found), 5.0, poller)
            assert more, f"expected {count} jobs, found {len(found)}"
            found += more
        return found

    @property
    def inventory(self) -> worker_pb2.Inventory:
        held = [worker_pb2.HeldLease(job=job, fence=fence) for job, fence in self.held]
        return worker_pb2.Inventory(leases=held, batches=self.batches)

    def next_beat(self, *, inventory: worker_pb2.Inventory | None = None, **fields: Any) -> worker_pb2.Beat:
        return worker_pb2.Beat(seq=next(self._seq), inventory=inventory, **fields)

    async def beat(self, inventory: worker_pb2.Inventory | None = None, **fields: Any) -> worker_pb2.BeatAck:
        """One beat without a stream."""
        beat = self.next_beat(inventory=inventory, **fields)
        request = worker_pb2.SendHeartbeatRequest(session=self.session, beat=beat)
        ack = (await self.tenant.work.SendHeartbeat(request)).ack
        assert ack.seq == beat.seq
        return ack

    async def prove(self) -> worker_pb2.BeatAck:
        """Tells all that it holds, which proves receipt."""
        return await self.beat(self.inventory)

    async def settle(self, *results: worker_pb2.Result) -> list[worker_pb2.ResultStatus]:
        """Reports outcomes by Complete."""
        request = worker_pb2.CompleteRequest(session=self.session, results=results)
        statuses = (await self.tenant.work.Complete(request)).statuses
        for result in results:
            self.held.pop((result.job, result.fence), None)
        return list(statuses)

    async def done(self, lease: worker_pb2.Lease, **fields: Any) -> worker_pb2.ResultStatus:
        """Reports one outcome, success unless another is given; that it is accepted."""
        (status,) = await self.settle(result(lease, **fields))
        assert status.status.code == 0, status
        return status

    async def waiting(self, poller: int = 0) -> None:
        """Returns once a poll of this poller waits at the coordinator."""
        id = self.session.removeprefix("sessions/")
        await eventually(lambda: (id, poller) in self.tenant.coordinator.node.dispatcher._by_call)

    @asynccontextmanager
    async def alive(self, every_s: float = 0.2) -> AsyncIterator[None]:
        """Beats all the while."""

        async def beat() -> None:
            while True:
                await self.beat()
                await asyncio.sleep(every_s)

        beating = asyncio.ensure_future(beat())
        try:
            yield
        finally:
            beating.cancel()
            with suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
                await beating

    async def dies(self) -> None:
        """Its session is as after a TTL without a beat, and the coordinator looks for such."""
        id, coordinator = self.session.removeprefix("sessions/"), self.tenant.coordinator
        async with await psycopg.AsyncConnection.connect(coordinator.url, autocommit=True) as conn:
            await conn.execute("UPDATE sessions SET expires_at = now() - interval '1 second' WHERE id = %s", [id])
        coordinator.node.reaper._sweep_at = 0.0
        coordinator.node.reaper.wake()

    async def close(self, mode: str = "NOW") -> int:
        request = worker_pb2.CloseSessionRequest(
            session=self.session, mode=worker_pb2.CloseMode.Value(f"CLOSE_MODE_{mode}")
        )
        return (await self.tenant.work.CloseSession(request)).released

    @asynccontextmanager
    async def stream(self, inventory: worker_pb2.Inventory | None = None) -> "AsyncIterator[Stream]":
        """A Heartbeat stream whose hello has been answered."""
        call = self.tenant.work.Heartbeat(None, timeout=60.0)
        stream = Stream(self, call)
        hello = worker_pb2.Hello(session=self.session, inventory=inventory or self.inventory)
        await stream.write(worker_pb2.HeartbeatRequest(hello=hello))
        stream.hello = await stream.ack()
        try:
            yield stream
        finally:
            stream.call.cancel()
            with suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
                await stream.call.code()

    async def outcome(self, lease: worker_pb2.Lease, **fields: Any) -> Refusal | worker_pb2.ResultStatus:
        """What a report gets: a refusal, or its status."""
        (status,) = await self.settle(result(lease, **fields))
        return Refusal.of(status.status) if status.status.code else status


class Stream:
    """A Heartbeat stream, one message at a time."""

    def __init__(self, worker: Worker, call: Any) -> None:
        self.worker = worker
        self.call = call
        self.hello = worker_pb2.BeatAck()
        self.pushed: list[worker_pb2.Directive] = []

    async def write(self, request: worker_pb2.HeartbeatRequest) -> None:
        await self.call.write(request)

    async def read(self, within_s: float = 5.0) -> worker_pb2.HeartbeatResponse:
        """The next message; a stream that the coordinator ended raises its status."""
        answer = await asyncio.wait_for(self.call.read(), within_s)
        if answer is grpc.aio.EOF:
            raise grpc.aio.AioRpcError(
                await self.call.code(),
                await self.call.initial_metadata(),
                await self.call.trailing_metadata(),
                await self.call.details(),
            )
        assert isinstance(answer, worker_pb2.HeartbeatResponse)
        return answer

    async def ack(self, seq: int = 0, within_s: float = 5.0) -> worker_pb2.BeatAck:
        """The answer to a beat; directives pushed before it are kept in `pushed`."""
        while True:
            answer = await self.read(within_s)
            if answer.WhichOneof("message") == "directive":
                self.pushed.append(answer.directive)
            elif answer.ack.seq == seq:
                return answer.ack

    async def directive(self, within_s: float = 5.0) -> worker_pb2.Directive:
        """The next directive that is pushed."""
        if self.pushed:
            return self.pushed.pop(0)
        while True:
            answer = await self.read(within_s)
            if answer.WhichOneof("message") == "directive":
                return answer.directive

    async def beat(self, **fields: Any) -> worker_pb2.BeatAck:
        beat = self.worker.next_beat(**fields)
        await self.write(worker_pb2.HeartbeatRequest(beat=beat))
        return await self.ack(beat.seq)


@dataclass
class Running:
    """A coordinator that answers."""

    url: str
    server: Server
    node: Node
    telemetry: Telemetry
    address: str
    channel: grpc.aio.Channel
    keys: Keys
    http: str

    async def key(self, tenant: str, roles: frozenset[Role] = ALL_ROLES, ttl_s: float | None = None) -> str:
        """The text of a new key."""
        return (await self.keys.create(tenant, "test", roles, ttl_s))[0]

    async def tenant(self, name: str | None = None) -> Tenant:
        name = name or f"t{uuid.uuid4().hex[:12]}"
        return Tenant(self, name, await self.key(name))

    def the_same(self, tenant: Tenant) -> Tenant:
        """A tenant of another coordinator on the same database, at this one."""
        assert tenant.key is not None
        return Tenant(self, tenant.name, tenant.key)

    def anybody(self, key: str | None = None) -> Caller:
        """A caller with this credential, or none."""
        return Caller(self.channel, key)

    def count(self, metric: str, label: str = "") -> float:
        """A counter of the coordinator's."""
        found: Any = self.telemetry.metrics.snapshot()[metric]
        return float(found.get(label, 0) if isinstance(found, dict) else found)


@asynccontextmanager
async def running(url: str, **settings: Any) -> AsyncIterator[Running]:
    """Starts a coordinator; drained and stopped at the end of the block."""
    telemetry = Telemetry.off()
    database = Database(url)
    try:
        async with (
            bootstrap.coordinator(Settings(**SETTINGS | settings), url, telemetry) as (server, node, ready),
            grpc.aio.insecure_channel(ready.address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel,
        ):
            keys = Keys(PgIdentity(database), SystemClock())
            yield Running(url, server, node, telemetry, ready.address, channel, keys, ready.http or "")
    finally:
        await database.close()


def creation(
    type: str = "t",
    *,
    request_id: str = "",
    delay: float | None = None,
    dedupe: common_pb2.Dedupe | None = None,
    data: bytes | None = None,
    **fields: Any,
) -> jobs_pb2.CreateJobRequest:
    if data is not None:
        fields["payload"] = common_pb2.Payload(data=data)
    return jobs_pb2.CreateJobRequest(
        job=jobs_pb2.Job(type=type, **fields),
        request_id=request_id,
        delay=None if delay is None else span(delay),
        dedupe=dedupe,
    )


def result(
    lease: worker_pb2.Lease,
    *,
    data: bytes | None = None,
    failed: str | None = None,
    released: float | None = None,
    cancelled: bool = False,
    retryable: bool | None = None,
    retry_after: float | None = None,
    **fields: Any,
) -> worker_pb2.Result:
    """An outcome: success, unless `failed` (its type), `released` (its delay) or `cancelled` say otherwise."""
    made = worker_pb2.Result(job=lease.job, fence=lease.fence, **fields)
    if failed is not None:
        failure = common_pb2.Failure(type=failed, message="as told")
        after = None if retry_after is None else span(retry_after)
        made.failed.CopyFrom(worker_pb2.Failed(failure=failure, retryable=retryable, retry_after=after))
    elif released is not None:
        made.released.CopyFrom(worker_pb2.Released(delay=span(released)))
    elif cancelled:
        made.cancelled.CopyFrom(worker_pb2.Cancelled(reason="as asked"))
    elif data is not None:
        made.succeeded.CopyFrom(worker_pb2.Succeeded(result=common_pb2.Payload(data=data)))
    else:
        made.succeeded.CopyFrom(worker_pb2.Succeeded())
    return made


def name_of(job: str | jobs_pb2.Job | worker_pb2.Lease) -> str:
    if isinstance(job, str):
        return job
    return job.job if isinstance(job, worker_pb2.Lease) else job.name


def state_name(state: Any) -> str:
    return JobState.Name(state).removeprefix("JOB_STATE_")


async def parked(coordinator: Running, count: int) -> None:
    """Returns once so many polls wait."""
    await eventually(lambda: coordinator.node.dispatcher.parked == count)
