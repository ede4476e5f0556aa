"""The scripted coordinator of the cases: the usual behaviour of `ScriptServer`, answers that are lost on the way, and a
record of when each call was answered and how."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.timestamp_pb2 import Timestamp
from rota_sdk import codec
from rota_sdk.gen.rota.worker.v1 import worker_pb2

from rota_conformance.script_server import Refusal, ScriptServer

API_KEY = "rk_conformance"
GOAWAY_GRACE_S = 1.0
SPANS = ("run_timeout", "deadline", "delivery_ttl", "ttl")


@dataclass
class Answered:
    """One Lease call: when it came, when it ended, and with what; `response` None: the client got none."""

    request: worker_pb2.LeaseRequest
    peer: str
    began: float
    ended: float = float("inf")
    response: worker_pb2.LeaseResponse | None = None
    refused: str = ""


class Coordinator(ScriptServer):
    def __init__(self, **spans: Any) -> None:
        self.leases: dict[str, worker_pb2.Lease] = {}
        self.polls: list[Answered] = []
        self._granted: dict[str, worker_pb2.LeaseResponse] = {}
        super().__init__(**spans)

    def new_lease(self, given: Mapping[str, Any]) -> worker_pb2.Lease:
        """A lease by the words of a case: `id` is its name there, `payload` a text, `payload_bytes` a size."""
        fields = {key: value for key, value in given.items() if key not in ("id", "payload", "payload_bytes")}
        for span in SPANS[2:]:
            if span in fields:
                fields[span] = codec.duration(fields[span])
        lease = self.job(**fields)
        if "payload" in given:
            lease.payload.data = str(given["payload"]).encode()
            lease.payload.content_type = "text/plain"
        if "payload_bytes" in given:
            lease.payload.data = b"x" * int(given["payload_bytes"])
        self.leases[given["id"]] = lease
        return lease

    def grant(self, names: Sequence[str], batch: int = 0) -> worker_pb2.LeaseResponse:
        return worker_pb2.LeaseResponse(
            batch=batch or next(self._numbers), leases=[self.leases[name] for name in names]
        )

    def scripted(self, given: Any) -> Any:
        """An action for one call, by the words of a case."""
        if given == "usual":
            return lambda request, context: None
        if "lose" in given:
            granted = self.grant(given["lose"], given.get("batch", 0))

            def lose(request: Any, context: Any) -> Any:
                self._granted[request.request_id] = granted
                raise refusal(given)

            return lose
        if "silence" in given:

            def keep_silent(request: Any, context: Any) -> Any:
                until = time.monotonic() + float(given["silence"])
                with self.cond:
                    while context.is_active() and (left := until - time.monotonic()) > 0:
                        self.cond.wait(min(left, 0.05))
                raise refusal({"status": "UNAVAILABLE"})

            return keep_silent
        if "accept_then" in given:
            # Taken, and the answer lost.
            def accept(request: Any, context: Any) -> Any:
                with self.cond:
                    for result in request.results:
                        self._answered[result.request_id] = worker_pb2.ResultStatus()
                raise refusal({"status": given["accept_then"]})

            return accept
        if "leases" in given or "next_poll_after" in given or "directives" in given:
            response = (
                self.grant(given["leases"], given.get("batch", 0))
                if given.get("leases")
                else worker_pb2.LeaseResponse()
            )
            if "next_poll_after" in given:
                response.next_poll_after.CopyFrom(codec.duration(given["next_poll_after"]))
            for directive in given.get("directives", ()):
                response.directives.append(self.directive(directive))
            if given.get("unknown_fields"):
                # Field 999, a text: what a later version might send.
                response.MergeFromString(b"\xba\x3e\x05later")
                for lease in response.leases:
                    lease.MergeFromString(b"\xba\x3e\x05later")
            return lambda request, context: response
        if "status" in given:
            return refusal(given)
        raise AssertionError(f"no such answer: {given}")

    def directive(self, given: Mapping[str, Any]) -> worker_pb2.Directive:
        lease = self.leases.get(given.get("job", ""))
        kind = given["kind"]
        number = kind if isinstance(kind, int) else worker_pb2.DirectiveKind.Value(f"DIRECTIVE_KIND_{kind}")
        return worker_pb2.Directive(
            id=given.get("id", 0),
            kind=number,  # type: ignore[arg-type]
            job=lease.job if lease else "",
            fence=int(given.get("fence", lease.fence if lease else 0)),
            reason=given.get("reason", ""),
        )

    def goaway(self) -> None:
        """Sends GOAWAY, lets calls go on for a moment, and listens anew at the same port."""
        assert self._grpc is not None
        self._grpc.stop(GOAWAY_GRACE_S)
        self.start()

    def Lease(self, request: Any, context: Any) -> Any:
        poll = Answered(request, context.peer(), time.monotonic())
        with self.cond:
            self.polls.append(poll)
        replay = self._granted.get(request.request_id)
        try:
            if replay is not None and not self._scripts["Lease"]:
                self._enter("Lease", request, context)
                answer = replay
            else:
                answer = super().Lease(request, context)
                if answer.leases:
                    self._granted[request.request_id] = answer
            if context.is_active():
                poll.response = answer
            return answer
        except BaseException:
            poll.refused = str(context.code() or grpc.StatusCode.UNKNOWN)
            raise
        finally:
            with self.cond:
                poll.ended = time.monotonic()
                self.cond.notify_all()


def refusal(given: Mapping[str, Any]) -> Refusal:
    code = grpc.StatusCode[given.get("status", "UNAVAILABLE")]
    return Refusal(
        code,
        given.get("reason", ""),
        given.get("message", "scripted"),
        {str(k): str(v) for k, v in given.get("metadata", {}).items()},
        given.get("retry_after"),
    )


def shifted(seconds: float) -> Timestamp:
    """Now by the coordinator's clock when the worker's is off by so much."""
    stamp = Timestamp()
    stamp.FromNanoseconds(time.time_ns() + int(seconds * 1e9))
    return stamp
