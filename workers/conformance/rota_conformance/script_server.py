"""A coordinator that follows a script: real gRPC on loopback, no scheduling behind it.

By default it behaves: it opens sessions, hands out what was offered, answers beats, accepts outcomes, and writes every
call down. A test then makes single calls go wrong, and waits for what the worker does about it.
"""

import queue
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NoReturn

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2
from rota_sdk import codec
from rota_sdk.gen.rota.worker.v1 import worker_pb2, worker_pb2_grpc

PATIENCE_S = 8.0


@dataclass
class Refusal(Exception):
    """A status to answer with, with or without Rota's details."""

    code: grpc.StatusCode
    reason: str = ""
    message: str = "scripted"
    metadata: dict[str, str] = field(default_factory=dict)
    retry_after: float | None = None
    violations: dict[str, str] = field(default_factory=dict)

    def status(self) -> status_pb2.Status:
        status = status_pb2.Status(code=self.code.value[0], message=self.message)
        details: list[Any] = []
        if self.reason:
            details.append(error_details_pb2.ErrorInfo(reason=self.reason, domain="rota", metadata=self.metadata))
        if self.retry_after is not None:
            details.append(error_details_pb2.RetryInfo(retry_delay=codec.duration(self.retry_after)))
        if self.violations:
            bad = error_details_pb2.BadRequest()
            for name, words in self.violations.items():
                bad.field_violations.add(field=name, description=words)
            details.append(bad)
        for detail in details:
            packed = AnyMessage()
            packed.Pack(detail)
            status.details.append(packed)
        return status

    def abort(self, context: grpc.ServicerContext) -> NoReturn:
        if self.reason:
            context.set_trailing_metadata((("grpc-status-details-bin", self.status().SerializeToString()),))
        context.abort(self.code, self.message)


SESSION_GONE = Refusal(grpc.StatusCode.NOT_FOUND, "SESSION_GONE", "no such session")
STALE_FENCE = Refusal(grpc.StatusCode.ABORTED, "STALE_FENCE", "a newer grant", {"fence": "9", "cause": "EXPIRED"})
UNAVAILABLE = Refusal(grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE", "the store is away", retry_after=0.01)


@dataclass
class Call:
    """One call or stream message that arrived."""

    method: str
    request: Any
    at: float
    peer: str
    metadata: dict[str, str]


# What a scripted call does: answer with a message, raise a Refusal, or return None for the usual.
Action = Callable[[Any, grpc.ServicerContext], Any] | Refusal


class ScriptServer(worker_pb2_grpc.WorkerServiceServicer):
    def __init__(
        self,
        *,
        lease_ttl: float = 15.0,
        delivery_ttl: float = 5.0,
        beat_interval: float = 5.0,
        max_wait: float = 10.0,
        credentials: grpc.ServerCredentials | None = None,
    ) -> None:
        self._credentials = credentials
        self.lease_ttl = lease_ttl
        self.delivery_ttl = delivery_ttl
        self.beat_interval = beat_interval
        self.max_wait = max_wait
        self.cond = threading.Condition()
        self.calls: list[Call] = []
        self.sessions: list[str] = []
        self.gone: set[str] = set()
        self.draining: set[str] = set()
        self.mute = False  # swallow beats
        self.refuse_streams: Refusal | None = None
        self._offered: deque[worker_pb2.Lease] = deque()
        self._scripts: dict[str, deque[Action]] = defaultdict(deque)
        self._statuses: dict[str, deque[Refusal]] = defaultdict(deque)
        self._answered: dict[str, worker_pb2.ResultStatus] = {}
        self._directives: dict[int, worker_pb2.Directive] = {}
        self._streams: list[queue.SimpleQueue[Any]] = []
        self._numbers = iter(range(1, 1_000_000))
        self._pool = ThreadPoolExecutor(64, "script-server")
        self._port = 0
        self._grpc: grpc.Server | None = None
        self.start()

    # Life

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Listens; after `stop` again at the same port."""
        self._grpc = grpc.server(
            self._pool, options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", 4 * 1024 * 1024)]
        )
        worker_pb2_grpc.add_WorkerServiceServicer_to_server(self, self._grpc)
        address = f"127.0.0.1:{self._port}"
        if self._credentials is None:
            self._port = self._grpc.add_insecure_port(address)
        else:
            self._port = self._grpc.add_secure_port(address, self._credentials)
        self._grpc.start()

    def stop(self) -> None:
        """Cuts everything off."""
        if self._grpc is not None:
            stopped = self._grpc.stop(0)
            for stream in list(self._streams):
                stream.put(None)
            with self.cond:
                self.cond.notify_all()
            stopped.wait(PATIENCE_S)
            self._grpc = None

    def close(self) -> None:
        self.stop()
        self._pool.shutdown(wait=True)

    # The script

    def offer(self, *leases: worker_pb2.Lease) -> None:
        """Hands these out to the next polls."""
        with self.cond:
            self._offered.extend(leases)
            self.cond.notify_all()

    def job(self, type: str = "work", name: str = "", fence: int = 0, **fields: Any) -> worker_pb2.Lease:
        """A lease to offer."""
        number = next(self._numbers)
        for span in ("run_timeout", "deadline"):
            if span in fields:
                fields[span] = codec.duration(fields[span])
        lease = worker_pb2.Lease(
            job=name or f"jobs/{number}",
            fence=fence or 1000 + number,
            attempt=1,
            type=type,
            queue="default",
            effect_key=f"key-{number}",
            ttl=codec.duration(self.lease_ttl),
            delivery_ttl=codec.duration(self.delivery_ttl),
            **{"run_timeout": Duration(seconds=3600), **fields},
        )
        lease.payload.data = lease.payload.data or b'{"n":%d}' % number
        lease.payload.content_type = "application/json"
        return lease

    def script(self, method: str, *actions: Action) -> None:
        """What the next calls of a method do, one action for each."""
        with self.cond:
            self._scripts[method].extend(actions)

    def answer_for(self, job: str, *statuses: Refusal) -> None:
        """What the next outcomes of a job get instead of acceptance."""
        with self.cond:
            self._statuses[job].extend(statuses)

    def direct(self, kind: int, job: str = "", fence: int = 0, reason: str = "", id: int = 0) -> int:
        """Sends a directive at once and repeats it until it is acknowledged."""
        number = id or next(self._numbers)
        directive = worker_pb2.Directive(
            id=number,
            kind=kind,  # type: ignore[arg-type]
            job=job,
            fence=fence,
            reason=reason,
        )
        with self.cond:
            self._directives[directive.id] = directive
        for stream in list(self._streams):
            stream.put(worker_pb2.HeartbeatResponse(directive=directive))
        return directive.id

    def cut_streams(self, refusal: Refusal | None = None) -> None:
        """Ends all heartbeat streams."""
        for stream in list(self._streams):
            stream.put(refusal)

    def expire(self, session: str) -> None:
        """Forgets a session, as if its TTL had passed."""
        with self.cond:
            self.gone.add(session)
            self.cond.notify_all()

    # What came

    def of(self, method: str) -> list[Any]:
        """The requests of a method so far."""
        with self.cond:
            return [call.request for call in self.calls if call.method == method]

    @property
    def results(self) -> list[worker_pb2.Result]:
        """All outcomes that arrived, repetitions included."""
        return [result for request in self.of("Complete") for result in request.results]

    def result_of(self, job: str) -> worker_pb2.Result:
        """The outcome of a job, waited for."""
        self.wait(lambda: any(r.job == job for r in self.results), f"the outcome of {job}")
        return next(r for r in self.results if r.job == job)

    @property
    def beats(self) -> list[worker_pb2.Beat]:
        """All beats, over streams or alone."""
        with self.cond:
            return [
                call.request.beat
                for call in self.calls
                if call.method == "SendHeartbeat" or (call.method == "Heartbeat" and call.request.HasField("beat"))
            ]

    @property
    def hellos(self) -> list[worker_pb2.Hello]:
        return [request.hello for request in self.of("Heartbeat") if request.HasField("hello")]

    def wait(self, condition: Callable[[], object], what: str = "the worker", timeout: float = PATIENCE_S) -> None:
        """Waits for a call to make the condition true."""
        end = time.monotonic() + timeout
        with self.cond:
            while not condition():
                left = end - time.monotonic()
                if left <= 0 or not self.cond.wait(left):
                    if condition():
                        return
                    methods = [call.method for call in self.calls[-12:]]
                    raise AssertionError(f"waited {timeout:g} s in vain for {what}; last calls: {methods}")

    # The service

    def _enter(self, method: str, request: Any, context: grpc.ServicerContext) -> Any:
        metadata = {key: str(value) for key, value in context.invocation_metadata() or ()}
        with self.cond:
            self.calls.append(Call(method, request, time.monotonic(), context.peer(), metadata))
            action = self._scripts[method].popleft() if self._scripts[method] else None
            self.cond.notify_all()
        if isinstance(action, Refusal):
            action.abort(context)
        if action is not None:
            try:
                return action(request, context)
            except Refusal as refusal:
                refusal.abort(context)
        if getattr(request, "session", "") in self.gone:
            SESSION_GONE.abort(context)
        return None

    def OpenSession(self, request: Any, context: Any) -> Any:
        scripted = self._enter("OpenSession", request, context)
        if scripted is not None:
            return scripted
        with self.cond:
            name = f"sessions/s{len(self.sessions) + 1}"
            self.sessions.append(name)
            self.cond.notify_all()
            return worker_pb2.OpenSessionResponse(
                session=name,
                epoch=len(self.sessions),
                lease_ttl=codec.duration(self.lease_ttl),
                delivery_ttl=codec.duration(self.delivery_ttl),
                beat_interval=codec.duration(self.beat_interval),
                max_wait=codec.duration(self.max_wait),
                max_results=500,
                protocol_version=1,
            )

    def Lease(self, request: Any, context: Any) -> Any:
        scripted = self._enter("Lease", request, context)
        if scripted is not None:
            return scripted
        end = time.monotonic() + min(codec.span(request, "wait") or 0.0, self.max_wait)
        with self.cond:
            while (
                not self._offered
                and context.is_active()
                and self._grpc is not None
                and request.session not in self.gone | self.draining
            ):
                left = end - time.monotonic()
                if left <= 0:
                    break
                self.cond.wait(left)
            if request.session in self.gone:
                SESSION_GONE.abort(context)
            response = worker_pb2.LeaseResponse()
            if request.session in self.draining:
                return response
            while self._offered and len(response.leases) < request.capacity and context.is_active():
                response.leases.append(self._offered.popleft())
            if response.leases:
                response.batch = next(self._numbers)
            return response

    def ack(self, seq: int) -> worker_pb2.BeatAck:
        with self.cond:
            return worker_pb2.BeatAck(
                seq=seq, renewed_for=codec.duration(self.lease_ttl), directives=self._directives.values()
            )

    def _take_beat(self, beat: worker_pb2.Beat) -> None:
        with self.cond:
            for number in beat.acked_directives:
                self._directives.pop(number, None)

    def Heartbeat(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        if self.refuse_streams is not None:
            self._enter("RefusedHeartbeat", worker_pb2.HeartbeatRequest(), context)
            self.refuse_streams.abort(context)
        out: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._streams.append(out)
        context.add_callback(lambda: out.put(None))

        def read() -> None:
            session = ""
            try:
                for request in requests:
                    metadata = {key: str(value) for key, value in context.invocation_metadata() or ()}
                    with self.cond:
                        self.calls.append(Call("Heartbeat", request, time.monotonic(), context.peer(), metadata))
                        self.cond.notify_all()
                    session = request.hello.session or session
                    self._take_beat(request.beat)
                    if session in self.gone:
                        out.put(SESSION_GONE)
                    elif not self.mute:
                        out.put(worker_pb2.HeartbeatResponse(ack=self.ack(request.beat.seq)))
            except grpc.RpcError:
                return

        reader = threading.Thread(target=read, name="script-server-reader", daemon=True)
        reader.start()
        try:
            while (item := out.get()) is not None:
                if isinstance(item, Refusal):
                    item.abort(context)
                yield item
        finally:
            self._streams.remove(out)

    def SendHeartbeat(self, request: Any, context: Any) -> Any:
        scripted = self._enter("SendHeartbeat", request, context)
        if scripted is not None:
            return scripted
        self._take_beat(request.beat)
        if self.mute:
            with self.cond:
                # Held until the client gives up.
                while self.mute and context.is_active() and self._grpc is not None:
                    self.cond.wait(0.02)
            context.abort(grpc.StatusCode.UNAVAILABLE, "muted")
        return worker_pb2.SendHeartbeatResponse(ack=self.ack(request.beat.seq))

    def Complete(self, request: Any, context: Any) -> Any:
        scripted = self._enter("Complete", request, context)
        if scripted is not None:
            return scripted
        response = worker_pb2.CompleteResponse()
        with self.cond:
            for result in request.results:
                status = response.statuses.add()
                if self._statuses[result.job]:
                    status.status.CopyFrom(self._statuses[result.job].popleft().status())
                elif result.request_id in self._answered:
                    status.duplicate = True
                else:
                    self._answered[result.request_id] = status
        return response

    def BeginEffect(self, request: Any, context: Any) -> Any:
        return self._enter("BeginEffect", request, context) or worker_pb2.BeginEffectResponse(proceed=True)

    def CommitEffect(self, request: Any, context: Any) -> Any:
        return self._enter("CommitEffect", request, context) or worker_pb2.CommitEffectResponse()

    def CloseSession(self, request: Any, context: Any) -> Any:
        scripted = self._enter("CloseSession", request, context)
        if scripted is not None:
            return scripted
        with self.cond:
            if request.mode == worker_pb2.CLOSE_MODE_DRAIN:
                self.draining.add(request.session)
            else:
                self.gone.add(request.session)
            self.cond.notify_all()
        return worker_pb2.CloseSessionResponse()
