"""WorkerService: decode, call, encode."""

import asyncio
import hashlib
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import UTC, datetime

from rota_sdk.gen.rota.worker.v1 import worker_pb2, worker_pb2_grpc

from rota.api import codec
from rota.api.effects import LedgerRpcs
from rota.api.errors import as_refusal, status_of
from rota.api.jobs import TraceContext
from rota.api.rpc import Context, refuse_the_rest, stream, unary
from rota.coordinator.attendance import BeatAnswer
from rota.coordinator.members import Directive, Member
from rota.coordinator.node import Node
from rota.coordinator.pressure import POLL_AFTER_MAX_S
from rota.domain import limits
from rota.domain.errors import InvalidArgument, ResourceExhausted, RotaError, leaving
from rota.domain.ids import Fence, JobId, SessionId
from rota.domain.model import DirectiveKind, Identity, JobSpec, Result, Role, Session, SessionState, Settlement
from rota.domain.text import QUEUE, TYPE, Problems
from rota.service.identity import Keys
from rota.telemetry import Telemetry

PROTOCOL_VERSION = 1
MAX_CONNECTION_AGE_S = 1_800.0
RECONNECT_AT_S = MAX_CONNECTION_AGE_S * 0.8
"""A GOAWAY does not end streams: the worker is asked to move before it comes."""
BEATS_PER_TTL = 3
BEAT_EVERY_MAX_S = 30.0
"""However long the TTL: what passes nothing for a minute is cut or forgotten on the way, and pings do not count."""
STREAM_LEAVES_S = 3.0
"""A worker that was sent away has moved by then. One that did not, because it had moved a moment before, does when its
stream ends."""
POLL_AGAIN_DRAINING_S = 1.0
ANSWERS_MAX = 1_000
"""Answers that a stream may leave unread."""
POLL_AGAIN_JITTER_S = 0.2
"""Empty answers spread the next polls over this span, so that workers that were answered together part."""


@refuse_the_rest(worker_pb2.DESCRIPTOR.services_by_name["WorkerService"], Role.WORKER)
class WorkerServicer(LedgerRpcs, worker_pb2_grpc.WorkerServiceServicer):
    def __init__(self, node: Node, keys: Keys, telemetry: Telemetry) -> None:
        self.keys = keys
        self.calls = node.pressure.calls
        self._node = node
        self._metrics = telemetry.metrics
        self._trace_context = TraceContext(telemetry)
        self._ttl = codec.duration(node.attendance.ttl_s)
        self._delivery_ttl = codec.duration(node.delivery_ttl_s)
        self._leases = codec.LeaseEncoder(node.attendance.ttl_s, node.delivery_ttl_s)
        self._leaving = False
        self._streams: set[Callable[[], None]] = set()
        """Sends the worker of an open stream away."""

    def send_away(self) -> None:
        """Asks whoever has a stream open to go to another coordinator, and ends the streams of those who stay. Not
        before connections are refused here, or those sent away might come back."""
        self._leaving = True
        for send in self._streams:
            send()

    @unary(Role.WORKER)
    async def OpenSession(
        self, request: worker_pb2.OpenSessionRequest, identity: Identity, context: Context
    ) -> worker_pb2.OpenSessionResponse:
        self._refuse_when_draining()
        _check_session(request)
        now = datetime.fromtimestamp(self._node.database_clock.now(), UTC)
        session = Session(
            id=SessionId(_session_uuid(identity, request.request_id) or self._node.clock.new_id()),
            tenant_id=identity.tenant_id,
            epoch=0,
            worker=request.worker,
            sdk=request.sdk,
            build_id=request.build_id,
            queues=tuple(dict.fromkeys(request.queues)),
            types=tuple(dict.fromkeys(request.types)),
            slots=max(request.slots, 1),
            labels=dict(request.labels),
            protocol_version=min(request.protocol_version or PROTOCOL_VERSION, PROTOCOL_VERSION),
            state=SessionState.ACTIVE,
            opened_at=now,
            last_beat_at=now,
            expires_at=now,
            free_slots=max(request.slots, 1),
            coordinator=self._node.id,
        )
        opened = await self._node.attendance.open(identity, session)
        return worker_pb2.OpenSessionResponse(
            session=codec.session_name(opened.id),
            epoch=opened.epoch,
            lease_ttl=self._ttl,
            delivery_ttl=self._delivery_ttl,
            beat_interval=codec.duration(min(self._node.attendance.ttl_s / BEATS_PER_TTL, BEAT_EVERY_MAX_S)),
            max_wait=codec.duration(limits.LEASE_WAIT_MAX_S),
            max_results=limits.COMPLETE_BATCH_MAX,
            protocol_version=session.protocol_version,
        )

    @unary(Role.WORKER, shield=False)
    async def Lease(
        self, request: worker_pb2.LeaseRequest, identity: Identity, context: Context
    ) -> worker_pb2.LeaseResponse:
        problems = Problems()
        problems.integer("poller", request.poller, 0, limits.POLLERS_MAX - 1)
        problems.integer("capacity", request.capacity, 1, limits.LEASE_BATCH_MAX)
        wait_s = codec.seconds(request.wait) if request.HasField("wait") else limits.LEASE_WAIT_DEFAULT_S
        if wait_s < 0:
            problems.add("wait", f"must not be negative, found {wait_s:g} s; 0 asks without waiting")
        if request.max_bytes < 0:
            problems.add("max_bytes", f"must not be negative, found {request.max_bytes}")
        if not request.request_id:
            problems.add("request_id", "must be set: one per logical call, kept until an answer arrives")
        problems.text("request_id", request.request_id, limits.REQUEST_ID_BYTES_MAX)
        problems.raise_any()
        member = await self._member(identity, request.session)
        self._check_held(member)
        came_late = self._node.draining.is_set()
        delivery = await self._node.dispatcher.lease(
            member,
            poller=request.poller,
            request_id=request.request_id,
            ack_batch=request.ack_batch,
            capacity=request.capacity,
            bytes_max=min(request.max_bytes or limits.LEASE_ANSWER_BYTES_MAX, limits.LEASE_ANSWER_BYTES_MAX),
            wait_s=min(wait_s, limits.LEASE_WAIT_MAX_S),
            call_left_s=context.time_remaining(),
        )
        slow_s = self._node.pressure.poll_after_s(member)
        directives = _directives(member.next_directives())
        if delivery is None:
            again_s = min(slow_s + self._node.clock.rng.uniform(0, POLL_AGAIN_JITTER_S), POLL_AFTER_MAX_S)
            if self._node.draining.is_set() and not came_late:
                # Another one serves it at once. Whoever asks here again is not to ask as fast as it is answered.
                again_s = 0.0
            elif not member.active:
                again_s = POLL_AGAIN_DRAINING_S
            return worker_pb2.LeaseResponse(next_poll_after=codec.duration(again_s), directives=directives)
        response = worker_pb2.LeaseResponse(batch=delivery.batch, directives=directives)
        if slow_s:
            response.next_poll_after.CopyFrom(codec.duration(slow_s))
        for grant in delivery.grants:
            self._leases.add(response.leases, grant)
        return response

    @stream(Role.WORKER)
    async def Heartbeat(  # type: ignore[override]
        self, requests: AsyncIterator[worker_pb2.HeartbeatRequest], identity: Identity, context: Context
    ) -> None:
        first = await anext(requests, None)
        if first is None:
            return
        if first.WhichOneof("message") != "hello":
            raise InvalidArgument.field("message", "the first message of a stream must be hello")
        member = await self._member(identity, first.hello.session)
        if member.streams >= limits.STREAMS_MAX:
            raise ResourceExhausted(
                f"{member.streams} streams of this session are open; close one, or send beats by SendHeartbeat",
                retry_after_s=1.0,
            )
        member.streams += 1
        try:
            await self._beat_over(member, first.hello, requests, context)
        finally:
            member.streams -= 1

    async def _beat_over(
        self,
        member: Member,
        hello: worker_pb2.Hello,
        requests: AsyncIterator[worker_pb2.HeartbeatRequest],
        context: Context,
    ) -> None:
        held = codec.inventory(hello.inventory)
        answers: asyncio.Queue[worker_pb2.HeartbeatResponse] = asyncio.Queue(ANSWERS_MAX)
        loop = asyncio.get_running_loop()

        def push(directive: Directive) -> None:
            if answers.full():
                # Every acknowledgement repeats it.
                return
            answers.put_nowait(worker_pb2.HeartbeatResponse(directive=codec.directive_message(directive)))

        def move_on(reason: str) -> None:
            push(Directive(0, DirectiveKind.RECONNECT, reason=reason))

        def send_away() -> None:
            move_on("this coordinator is leaving")
            stay.reschedule(loop.time() + STREAM_LEAVES_S)

        async def write() -> None:
            while True:
                await context.write(await answers.get())

        beat = await self._node.attendance.beat(member, held, member.free_slots, ())
        answers.put_nowait(worker_pb2.HeartbeatResponse(ack=_ack(0, beat)))
        member.push = push
        writer = asyncio.create_task(write(), name="heartbeat writer")
        reconnect = loop.call_later(RECONNECT_AT_S, move_on, "this connection is old")
        try:
            async with asyncio.timeout(None) as stay:
                self._streams.add(send_away)
                if self._leaving:
                    send_away()
                async for request in requests:
                    if request.WhichOneof("message") != "beat":
                        continue
                    beat = await self._beat(member, request.beat)
                    if answers.full():
                        raise ResourceExhausted(f"{ANSWERS_MAX} answers are unread; read the stream, or open a new one")
                    answers.put_nowait(worker_pb2.HeartbeatResponse(ack=_ack(request.beat.seq, beat)))
        except TimeoutError:
            if stay.expired():
                raise leaving() from None
            raise
        finally:
            # The end of a stream says nothing of the worker: only CloseSession and expiry do.
            self._streams.discard(send_away)
            reconnect.cancel()
            writer.cancel()
            if member.push is push:
                member.push = None

    @unary(Role.WORKER, counted=False)
    async def SendHeartbeat(
        self, request: worker_pb2.SendHeartbeatRequest, identity: Identity, context: Context
    ) -> worker_pb2.SendHeartbeatResponse:
        member = await self._member(identity, request.session)
        return worker_pb2.SendHeartbeatResponse(ack=_ack(request.beat.seq, await self._beat(member, request.beat)))

    @unary(Role.WORKER, shield=False)
    async def Complete(
        self, request: worker_pb2.CompleteRequest, identity: Identity, context: Context
    ) -> worker_pb2.CompleteResponse:
        count = len(request.results)
        if not 1 <= count <= limits.COMPLETE_BATCH_MAX:
            raise InvalidArgument.field("results", f"must have 1 to {limits.COMPLETE_BATCH_MAX} entries, found {count}")
        session = codec.session_id(request.session)
        self._metrics.observe("rota.complete.batch", count)
        waiting: list[asyncio.Future[Settlement] | RotaError] = []
        now = self._node.clock.monotonic()
        for message in request.results:
            try:
                waiting.append(self._node.outcomes.enqueue(self._result(message, identity, session), now))
            except RotaError as refusal:
                waiting.append(refusal)
        settled = await asyncio.gather(*(w for w in waiting if not isinstance(w, RotaError)), return_exceptions=True)
        answers = iter(settled)
        return worker_pb2.CompleteResponse(
            statuses=[_result_status(w if isinstance(w, RotaError) else next(answers)) for w in waiting]
        )

    @unary(Role.WORKER, shield=False)
    async def CompleteJob(
        self, request: worker_pb2.CompleteJobRequest, identity: Identity, context: Context
    ) -> worker_pb2.CompleteJobResponse:
        session = codec.session_id(request.session)
        settled = await self._node.outcomes.submit(self._result(request, identity, session))
        return worker_pb2.CompleteJobResponse(
            duplicate=settled.duplicate,
            state=int(settled.state),  # type: ignore[arg-type]
        )

    @unary(Role.WORKER)
    async def CloseSession(
        self, request: worker_pb2.CloseSessionRequest, identity: Identity, context: Context
    ) -> worker_pb2.CloseSessionResponse:
        codec.check_enum(worker_pb2.CloseMode.values(), "mode", request.mode)
        if request.mode == worker_pb2.CLOSE_MODE_DRAIN:
            await self._node.attendance.drain(await self._member(identity, request.session))
            return worker_pb2.CloseSessionResponse()
        released = await self._node.attendance.close_named(identity, codec.session_id(request.session))
        return worker_pb2.CloseSessionResponse(released=released)

    async def _member(self, identity: Identity, name: str) -> Member:
        return await self._node.attendance.member(identity, codec.session_id(name))

    async def _beat(self, member: Member, beat: worker_pb2.Beat) -> BeatAnswer:
        held = codec.inventory(beat.inventory, beat.seq) if beat.HasField("inventory") else None
        free_slots = min(max(beat.free_slots, 0), limits.SLOTS_MAX)
        return await self._node.attendance.beat(member, held, free_slots, beat.acked_directives)

    def _result(self, message: codec.AnyResult, identity: Identity, session: SessionId) -> Result:
        spawned: tuple[JobSpec, ...] = ()
        if message.spawned:
            spawned = self._spawned(message, identity)
        return codec.result(message, identity, session, spawned)

    def _spawned(self, message: codec.AnyResult, identity: Identity) -> tuple[JobSpec, ...]:
        problems = Problems()
        if len(message.spawned) > limits.SPAWNED_JOBS_MAX:
            raise InvalidArgument.field("spawned", f"must have at most {limits.SPAWNED_JOBS_MAX} entries")
        now = self._node.database_clock.datetime()
        specs = []
        for index, item in enumerate(message.spawned):
            at = f"spawned[{index}]."
            if item.request_id:
                problems.add(f"{at}request_id", "must be empty; the fence makes it repeatable already")
            if item.HasField("dedupe"):
                problems.add(f"{at}dedupe", "cannot be used with spawned jobs; create the job by CreateJob instead")
            specs.append(codec.new_job(problems, at, item, identity.tenant_id, self._node.clock.new_id, now))
        problems.raise_any()
        self._trace_context.give_from_handler(specs, message.traceparent, identity.tenant)
        return tuple(specs)

    def _check_held(self, member: Member) -> None:
        in_flight = self._node.memory.in_flight
        held = in_flight.count_of(member.id)
        if held >= limits.SESSION_LEASES_MAX:
            raise ResourceExhausted(
                f"this session holds {held} leases; report outcomes before you ask for more", retry_after_s=1.0
            )
        if len(in_flight) >= limits.IN_FLIGHT_MAX:
            raise ResourceExhausted(
                f"{len(in_flight)} leases wait for their outcomes at this coordinator; poll later, or at another one",
                retry_after_s=self._node.clock.rng.uniform(1.0, 2.0),
            )

    def _refuse_when_draining(self) -> None:
        if self._node.draining.is_set():
            raise leaving()


def _check_session(request: worker_pb2.OpenSessionRequest) -> None:
    problems = Problems()
    if not request.worker:
        problems.add("worker", "must name the worker for people, for example host and process id")
    for field in ("worker", "sdk", "build_id", "request_id"):
        problems.text(field, getattr(request, field), limits.NAME_BYTES_MAX)
    if not 1 <= len(request.queues) <= limits.SESSION_QUEUES_MAX:
        problems.add("queues", f"must name 1 to {limits.SESSION_QUEUES_MAX} queues, found {len(request.queues)}")
    for queue in request.queues[: limits.SESSION_QUEUES_MAX]:
        problems.pattern("queues", queue, QUEUE, "1 to 64 letters, digits or ._- and begin with a letter or digit")
    if len(request.types) > limits.SESSION_TYPES_MAX:
        problems.add("types", f"must have at most {limits.SESSION_TYPES_MAX} entries, found {len(request.types)}")
    for name in request.types[: limits.SESSION_TYPES_MAX]:
        problems.pattern("types", name, TYPE, "1 to 128 letters, digits or ._:/- and begin with a letter or digit")
    problems.integer("slots", request.slots, 0, limits.SLOTS_MAX)
    problems.text_map("labels", dict(request.labels), limits.LABELS_MAX, limits.LABELS_BYTES_MAX)
    if request.protocol_version < 0:
        problems.add("protocol_version", f"must not be negative, found {request.protocol_version}")
    problems.raise_any()


def _session_uuid(identity: Identity, request_id: str) -> str | None:
    """The id of a session that a request_id stands for: repeating the call finds the same one."""
    if not request_id:
        return None
    seed = hashlib.sha256(f"session\0{identity.tenant_id}\0{identity.key_id}\0{request_id}".encode()).digest()
    return str(uuid.UUID(bytes=seed[:16]))


def _ack(seq: int, answer: BeatAnswer) -> worker_pb2.BeatAck:
    return worker_pb2.BeatAck(
        seq=seq,
        renewed_for=codec.duration(answer.renewed_for_s),
        lost=[_held(job, fence) for job, fence in answer.lost],
        directives=_directives(answer.directives),
    )


def _held(job: JobId, fence: Fence) -> worker_pb2.HeldLease:
    return worker_pb2.HeldLease(job=codec.job_name(job), fence=fence)


def _directives(directives: Iterable[Directive]) -> list[worker_pb2.Directive]:
    return [codec.directive_message(directive) for directive in directives]


def _result_status(answer: "Settlement | BaseException") -> worker_pb2.ResultStatus:
    if isinstance(answer, Settlement):
        return worker_pb2.ResultStatus(
            duplicate=answer.duplicate,
            state=int(answer.state),  # type: ignore[arg-type]
        )
    if not isinstance(answer, Exception):
        raise answer
    return worker_pb2.ResultStatus(status=status_of(as_refusal(answer)))
