"""JobService: decode, call, encode."""

from collections.abc import Sequence

from rota_sdk.gen.rota.v1 import jobs_pb2, jobs_pb2_grpc

from rota.api import codec, pages, resume
from rota.api.rpc import Context, refuse_the_rest, stream, unary
from rota.clock import wait_for_event
from rota.coordinator.feeds import STILL_S
from rota.coordinator.node import Node
from rota.domain import draft, ids, limits
from rota.domain.change import Position
from rota.domain.errors import InvalidArgument, ResourceExhausted, leaving
from rota.domain.ids import JobId
from rota.domain.model import CancelMode, Identity, JobSpec, JobState, Role
from rota.domain.text import Problems
from rota.service.identity import Keys
from rota.service.jobs import CreateAnswer
from rota.store.port import CreateCall, JobFilter
from rota.telemetry import Telemetry

_CREATE = 1
_BATCH_CREATE = 2

RECHECK_S = 1.0
"""WaitJob looks at the row at least this often, for jobs that end at another coordinator."""
TRACEPARENT_CHARS_MAX = 128


class TraceContext:
    """Gives new jobs their trace context: a span of ours, or the caller's own context."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._traces = telemetry.traces

    def give(self, specs: Sequence[JobSpec], context: Context, tenant: str) -> None:
        """The creator is who calls."""
        parent = state = ""
        for key, value in context.invocation_metadata() or ():
            if key == "traceparent" and isinstance(value, str):
                parent = value[:TRACEPARENT_CHARS_MAX]
            elif key == "tracestate" and isinstance(value, str):
                state = value[: limits.TRACESTATE_BYTES_MAX]
        self._give(specs, parent, state, tenant)

    def give_from_handler(self, specs: Sequence[JobSpec], traceparent: str, tenant: str) -> None:
        """The creator is a handler, in its own span: one call brings the outcomes of many."""
        storable = len(traceparent) <= TRACEPARENT_CHARS_MAX and traceparent.isascii() and traceparent.isprintable()
        self._give(specs, traceparent if storable else "", "", tenant)

    def _give(self, specs: Sequence[JobSpec], parent: str, state: str, tenant: str) -> None:
        for spec in specs:
            spec.traceparent, spec.tracestate = parent, state
            if self._traces is not None:
                spec.traceparent, spec.tracestate = self._traces.create(
                    parent=parent, state=state, job_id=spec.id, type=spec.type, queue=spec.queue, tenant=tenant
                )


@refuse_the_rest(jobs_pb2.DESCRIPTOR.services_by_name["JobService"], Role.CLIENT)
class JobServicer(jobs_pb2_grpc.JobServiceServicer):
    def __init__(self, node: Node, keys: Keys, telemetry: Telemetry) -> None:
        self.keys = keys
        self.calls = node.pressure.calls
        self._node = node
        self._metrics = telemetry.metrics
        self._trace_context = TraceContext(telemetry)

    @unary(Role.CLIENT, shield=False)
    async def CreateJob(
        self, request: jobs_pb2.CreateJobRequest, identity: Identity, context: Context
    ) -> jobs_pb2.CreateJobResponse:
        self._admit([request], identity)
        problems = Problems()
        spec = codec.new_job(
            problems, "", request, identity.tenant_id, self._node.clock.new_id, self._node.database_clock.datetime()
        )
        call = self._call(problems, [spec], identity, _CREATE, request.request_id, request)
        self._trace_context.give([spec], context, identity.tenant)
        ((job, created),) = (await self._create(call)).jobs
        if created is not None:
            message = codec.created_job(spec, identity.tenant, created.due_us, created.created_at)
            return jobs_pb2.CreateJobResponse(job=message)
        (message,) = await self._existing(identity, [job])
        return jobs_pb2.CreateJobResponse(job=message, existing=True)

    @unary(Role.CLIENT, shield=False)
    async def BatchCreateJobs(
        self, request: jobs_pb2.BatchCreateJobsRequest, identity: Identity, context: Context
    ) -> jobs_pb2.BatchCreateJobsResponse:
        problems = Problems()
        count = len(request.requests)
        if not 1 <= count <= limits.CREATE_BATCH_MAX:
            raise InvalidArgument.field(
                "requests", f"must have 1 to {limits.CREATE_BATCH_MAX} entries, found {count}; split it into calls"
            )
        self._admit(request.requests, identity)
        now = self._node.database_clock.datetime()
        specs = []
        for index, item in enumerate(request.requests):
            at = f"requests[{index}]."
            if item.request_id:
                problems.add(f"{at}request_id", "must be empty; set the batch's own request_id")
            specs.append(codec.new_job(problems, at, item, identity.tenant_id, self._node.clock.new_id, now))
        call = self._call(problems, specs, identity, _BATCH_CREATE, request.request_id, request)
        self._trace_context.give(specs, context, identity.tenant)
        answer = await self._create(call)
        if request.names_only:
            named = [jobs_pb2.Job(name=codec.job_name(job)) for job, _ in answer.jobs]
            return jobs_pb2.BatchCreateJobsResponse(jobs=named)
        old = [job for job, created in answer.jobs if created is None]
        existing = dict(zip(old, await self._existing(identity, old), strict=True)) if old else {}
        return jobs_pb2.BatchCreateJobsResponse(
            jobs=[
                existing[job]
                if created is None
                else codec.created_job(spec, identity.tenant, created.due_us, created.created_at)
                for spec, (job, created) in zip(specs, answer.jobs, strict=True)
            ]
        )

    @unary(Role.CLIENT)
    async def GetJob(
        self, request: jobs_pb2.GetJobRequest, identity: Identity, context: Context
    ) -> jobs_pb2.GetJobResponse:
        job = await self._node.jobs.get(identity.tenant_id, codec.job_id("name", request.name))
        return jobs_pb2.GetJobResponse(job=codec.job_message(job, identity.tenant))

    @unary(Role.CLIENT)
    async def ListJobs(
        self, request: jobs_pb2.ListJobsRequest, identity: Identity, context: Context
    ) -> jobs_pb2.ListJobsResponse:
        problems = Problems()
        problems.text("queue", request.queue, limits.NAME_BYTES_MAX)
        problems.text("type", request.type, limits.NAME_BYTES_MAX)
        problems.text_map("labels", dict(request.labels), limits.LABELS_MAX, limits.LABELS_BYTES_MAX)
        state = codec.enum(JobState, "state", request.state, None)
        problems.raise_any()
        size = pages.page_size(request.page_size)
        where = JobFilter(request.queue, request.type, state, dict(request.labels))
        query = repr((where.queue, where.type, where.state, sorted(request.labels.items()))).encode()
        before = pages.unseal_id(request.page_token, identity.tenant_id, query)
        found = await self._node.jobs.page(identity.tenant_id, where, JobId(before) if before else None, size + 1)
        response = jobs_pb2.ListJobsResponse(
            jobs=[codec.job_message(job, identity.tenant, full=False) for job in found[:size]]
        )
        if len(found) > size:
            response.next_page_token = pages.seal(found[size - 1].id, identity.tenant_id, query)
        return response

    @unary(Role.CLIENT)
    async def CancelJob(
        self, request: jobs_pb2.CancelJobRequest, identity: Identity, context: Context
    ) -> jobs_pb2.CancelJobResponse:
        problems = Problems()
        problems.text("reason", request.reason, limits.REASON_BYTES_MAX)
        problems.raise_any()
        mode = codec.enum(CancelMode, "mode", request.mode, CancelMode.COOPERATIVE)
        id = codec.job_id("name", request.name)
        job = await self._node.jobs.cancel(identity.tenant_id, id, mode, request.reason)
        return jobs_pb2.CancelJobResponse(job=codec.job_message(job, identity.tenant))

    @unary(Role.CLIENT)
    async def RetryJob(
        self, request: jobs_pb2.RetryJobRequest, identity: Identity, context: Context
    ) -> jobs_pb2.RetryJobResponse:
        id = codec.job_id("name", request.name)
        job = await self._node.steering.retry(identity, id, new_generation=request.new_generation)
        return jobs_pb2.RetryJobResponse(job=codec.job_message(job, identity.tenant))

    @unary(Role.CLIENT)
    async def RescheduleJob(
        self, request: jobs_pb2.RescheduleJobRequest, identity: Identity, context: Context
    ) -> jobs_pb2.RescheduleJobResponse:
        problems = Problems()
        id = codec.job_id("name", request.name)
        due = codec.instant(problems, "run_time", request.run_time)
        if not request.HasField("run_time"):
            problems.add("run_time", "must be set to the new due time; an instant in the past means now")
        elif due is not None:
            draft.check_run_time(problems, "run_time", due, self._node.database_clock.datetime())
        problems.raise_any()
        assert due is not None
        job = await self._node.steering.reschedule(identity.tenant_id, id, due)
        return jobs_pb2.RescheduleJobResponse(job=codec.job_message(job, identity.tenant))

    @unary(Role.CLIENT)
    async def ListAttempts(
        self, request: jobs_pb2.ListAttemptsRequest, identity: Identity, context: Context
    ) -> jobs_pb2.ListAttemptsResponse:
        job = codec.job_id("parent", request.parent)
        size = pages.page_size(request.page_size)
        query = job.encode()
        after = pages.unseal_number(request.page_token, identity.tenant_id, query)
        found = await self._node.jobs.attempts(identity.tenant_id, job, after, size + 1)
        response = jobs_pb2.ListAttemptsResponse(attempts=[codec.attempt_message(a) for a in found[:size]])
        if len(found) > size:
            response.next_page_token = pages.seal(str(found[size - 1].number), identity.tenant_id, query)
        return response

    @unary(Role.CLIENT, shield=False)
    async def WaitJob(
        self, request: jobs_pb2.WaitJobRequest, identity: Identity, context: Context
    ) -> jobs_pb2.WaitJobResponse:
        id = codec.job_id("name", request.name)
        timeout_s = codec.seconds(request.timeout) if request.HasField("timeout") else limits.JOB_WAIT_MAX_S
        problems = Problems()
        problems.span("timeout", timeout_s, 0.0, limits.JOB_WAIT_MAX_S)
        problems.raise_any()
        clock, memory, waits = self._node.clock, self._node.memory, self._node.pressure.waits
        if not waits.has_room(identity.tenant_id):
            raise ResourceExhausted(
                f"{waits.of(identity.tenant_id)} of your WaitJob calls wait here already, {waits.total} in all; "
                "wait for fewer jobs at a time, or look at many by ListJobs",
                retry_after_s=clock.rng.uniform(0.5, 1.5),
            )
        until = clock.monotonic() + timeout_s
        finished = memory.finish_waiter(id)
        waits.add(identity.tenant_id)
        try:
            while True:
                finished.clear()
                job = await self._node.jobs.get(identity.tenant_id, id)
                left_s = until - clock.monotonic()
                if job.state.terminal or left_s <= 0 or self._node.draining.is_set():
                    return jobs_pb2.WaitJobResponse(job=codec.job_message(job, identity.tenant))
                await wait_for_event(finished, min(left_s, RECHECK_S), clock)
        finally:
            waits.remove(identity.tenant_id)
            memory.drop_finish_waiter(id, finished)

    @stream(Role.CLIENT)
    async def WatchJobs(  # type: ignore[override]
        self, request: jobs_pb2.WatchJobsRequest, identity: Identity, context: Context
    ) -> None:
        problems = Problems()
        problems.text("queue", request.queue, limits.NAME_BYTES_MAX)
        problems.text("type", request.type, limits.NAME_BYTES_MAX)
        problems.raise_any()
        tenant, clock = identity.tenant_id, self._node.clock
        query = repr(("WatchJobs", request.queue, request.type)).encode()
        place = resume.unseal(request.resume_token, tenant, query)
        feeds = self._node.feeds
        assert feeds is not None
        async with feeds.watch(tenant, place) as watcher:

            async def tell(position: Position, job: jobs_pb2.Job | None = None) -> None:
                token = resume.seal(watcher.coverage, position, tenant, query)
                await context.write(jobs_pb2.WatchJobsResponse(job=job, resume_token=token))

            # A watcher that breaks off before the first change is to miss nothing either.
            await tell(watcher.position)
            told_at = clock.monotonic()
            while True:
                for change, position in await watcher.next():
                    if request.queue in ("", change.queue) and request.type in ("", change.type):
                        watcher.check()
                        await tell(position, codec.job_message(change.job, identity.tenant, full=False))
                        told_at = clock.monotonic()
                if clock.monotonic() - told_at >= STILL_S:
                    await tell(watcher.position)
                    told_at = clock.monotonic()

    def _admit(self, requests: Sequence[jobs_pb2.CreateJobRequest], identity: Identity) -> None:
        """Before anything is decoded: a refusal is to cost less than what it refuses."""
        priorities = (r.job.priority if r.job.HasField("priority") else limits.PRIORITY_DEFAULT for r in requests)
        self._node.pressure.admit(identity.tenant_id, priorities)

    def _call(
        self,
        problems: Problems,
        specs: Sequence[JobSpec],
        identity: Identity,
        method: int,
        request_id: str,
        request: jobs_pb2.CreateJobRequest | jobs_pb2.BatchCreateJobsRequest,
    ) -> CreateCall:
        problems.text("request_id", request_id, limits.REQUEST_ID_BYTES_MAX)
        problems.raise_any()
        if self._node.draining.is_set():
            raise leaving()
        body = ids.digest(request.SerializeToString(deterministic=True)) if request_id else b""
        return CreateCall(specs, identity.tenant_id, method, request_id, body)

    async def _create(self, call: CreateCall) -> CreateAnswer:
        began = self._node.clock.monotonic()
        answer = await self._node.creations.submit(call)
        self._metrics.observe("rota.create.seconds", self._node.clock.monotonic() - began)
        return answer

    async def _existing(self, identity: Identity, jobs: Sequence[JobId]) -> list[jobs_pb2.Job]:
        """Jobs of an earlier answer as they are now; a name alone where history has let go of one."""
        found = await self._node.jobs.get_many(identity.tenant_id, jobs)
        return [
            codec.job_message(found[job], identity.tenant) if job in found else jobs_pb2.Job(name=codec.job_name(job))
            for job in jobs
        ]
