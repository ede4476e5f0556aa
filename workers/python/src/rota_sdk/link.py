"""The worker's connection to whichever coordinator answers."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf.message import Message

from rota_sdk import limits
from rota_sdk.channel import Endpoint
from rota_sdk.errors import ConnectionFailed, from_rpc
from rota_sdk.gen.rota.worker.v1 import worker_pb2_grpc

log = logging.getLogger("rota_sdk.link")

# A call under way: grpc.Future and grpc.Call in one.
Pending = Any


class Link:
    """One channel, replaceable while calls run on it.

    Replacing it cancels its calls. Every call of a worker may be repeated with the same request_id, so no work is
    lost by that, and a connection that swallows everything is left at once.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._lock = threading.Lock()
        self._closed = False
        self._closers: list[threading.Thread] = []
        self._renewed_at = float("-inf")
        self._channel = endpoint.open()
        self._stub = worker_pb2_grpc.WorkerServiceStub(self._channel)
        self._metadata = endpoint.metadata

    def call(self, method: str, request: Message, timeout: float) -> Any:
        """Blocks until the answer. Raises RotaError."""
        try:
            return self._invoke(lambda stub: getattr(stub, method)(request, timeout, self._metadata))
        except grpc.RpcError as error:
            raise from_rpc(error, self.endpoint.address) from None

    def begin(self, method: str, request: Message, timeout: float, done: Callable[[Pending], None]) -> Pending:
        """Starts a call; `done` gets it when it ends, in a thread of gRPC's. Raises ConnectionFailed once closed."""
        pending = self._invoke(lambda stub: getattr(stub, method).future(request, timeout, self._metadata))
        pending.add_done_callback(done)
        return pending

    def stream(self, requests: Any) -> Pending:
        """Opens a Heartbeat stream. Raises ConnectionFailed once closed."""
        return self._invoke(lambda stub: stub.Heartbeat(requests, None, self._metadata))

    def answer(self, pending: Pending) -> Any:
        """The answer of a call that is done. Raises RotaError."""
        # result() raises another tree of errors for calls that were cancelled here.
        if pending.code() is grpc.StatusCode.OK:
            return pending.result()
        raise from_rpc(pending, self.endpoint.address)

    def renew(self, why: str) -> bool:
        """Goes over to a new connection; False when that was done a moment ago or the link is closed."""
        with self._lock:
            now = time.monotonic()
            if self._closed or now - self._renewed_at < limits.RENEW_INTERVAL_S:
                return False
            self._renewed_at = now
            old, self._channel = self._channel, self.endpoint.open()
            self._stub = worker_pb2_grpc.WorkerServiceStub(self._channel)
            # Not here: closing waits for callbacks of the channel's calls, and this may run in one of them.
            closer = threading.Thread(target=old.close, name="rota-link-closer", daemon=True)
            self._closers = [c for c in self._closers if c.is_alive()] + [closer]
            closer.start()
        log.info("new connection to %s: %s", self.endpoint.address, why)
        return True

    def close(self) -> None:
        """Cancels all calls and closes the connection. Not from a call's callback."""
        with self._lock:
            self._closed = True
        self._channel.close()
        for closer in self._closers:
            closer.join(limits.CLOSE_TIMEOUT_S)

    def _invoke(self, start: Callable[[worker_pb2_grpc.WorkerServiceStub], Any]) -> Any:
        while True:
            stub = self._stub
            try:
                return start(stub)
            except ValueError as error:
                # The channel was closed under the call: by renew, or for good.
                with self._lock:
                    if self._closed or stub is self._stub:
                        raise ConnectionFailed(
                            "", "the worker's connection is closed", code=grpc.StatusCode.UNAVAILABLE
                        ) from error
