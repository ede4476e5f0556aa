"""One Heartbeat stream."""

import contextlib
import logging
import queue
import threading
from collections.abc import Callable

import grpc

from rota_sdk.errors import RotaError, from_rpc
from rota_sdk.gen.rota.worker.v1 import worker_pb2
from rota_sdk.link import Link, Pending

log = logging.getLogger("rota_sdk.beats")


class BeatStream:
    """Sends beats and hands on what comes back, until either side ends it.

    `on_message` and `on_end` are called from the stream's own thread; `on_end` exactly once. Its error is None when
    the coordinator ended the stream in peace.
    """

    def __init__(
        self,
        link: Link,
        hello: worker_pb2.Hello,
        on_message: Callable[["BeatStream", worker_pb2.HeartbeatResponse], None],
        on_end: Callable[["BeatStream", RotaError | None], None],
    ) -> None:
        self._on_message = on_message
        self._on_end = on_end
        self._link = link
        self._requests: queue.SimpleQueue[worker_pb2.HeartbeatRequest | None] = queue.SimpleQueue()
        self._requests.put(worker_pb2.HeartbeatRequest(hello=hello))
        # The hello was answered: the stream carries.
        self.live = False
        self._call: Pending = None
        self._reader = threading.Thread(target=self._read, name="rota-beat-reader", daemon=True)

    def start(self) -> None:
        """Opens the stream. Raises ConnectionFailed once the link is closed."""
        # gRPC takes the requests in a thread of its own, which the None lets go.
        self._call = self._link.stream(iter(self._requests.get, None))
        self._reader.start()

    def send(self, beat: worker_pb2.Beat) -> None:
        """Queues a beat; never blocks."""
        self._requests.put(worker_pb2.HeartbeatRequest(beat=beat))

    def close(self) -> None:
        """Ends the stream from this side; never blocks."""
        self._requests.put(None)
        if self._call is not None:
            self._call.cancel()

    def join(self, timeout: float) -> bool:
        """Waits for the reader's end; whether it came."""
        if self._reader.ident is not None:
            self._reader.join(timeout)
        return not self._reader.is_alive()

    def _read(self) -> None:
        error: RotaError | None = None
        try:
            for message in self._call:
                try:
                    self._on_message(self, message)
                except Exception:
                    log.exception("a message of the coordinator could not be handled")
        except grpc.RpcError as failure:
            error = from_rpc(failure, self._link.endpoint.address)
        finally:
            self._requests.put(None)
            with contextlib.suppress(Exception):
                self._call.cancel()
            self._on_end(self, error)
