"""What a servicer sees of a call: the part of gRPC's context that Rota's servicers use, for calls that came by HTTP."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NoReturn

import grpc
from google.rpc import status_pb2

from rota.api.errors import DETAILS_KEY
from rota.clock import Clock

Metadata = Sequence[tuple[str, str | bytes]]


class Refused(grpc.aio.AbortError):
    """The call was ended with this status. Of gRPC's kind, so that it is passed on as such."""

    def __init__(self, status: status_pb2.Status) -> None:
        super().__init__(status.message)
        self.status = status


class HttpContext:
    """`until`: when the call is over at the latest, by the monotonic clock."""

    def __init__(
        self,
        metadata: Metadata,
        until: float,
        clock: Clock,
        write: Callable[[Any], Awaitable[None]] | None = None,
    ) -> None:
        self._metadata = metadata
        self._until = until
        self._clock = clock
        self._write = write

    def invocation_metadata(self) -> Metadata:
        return self._metadata

    def time_remaining(self) -> float:
        return max(self._until - self._clock.monotonic(), 0.0)

    async def write(self, message: Any) -> None:
        """Of a stream; returns once there is room for the next."""
        assert self._write is not None, "only streams are written to"
        await self._write(message)

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Metadata = ()) -> NoReturn:
        for key, value in trailing_metadata:
            if key == DETAILS_KEY and isinstance(value, bytes):
                raise Refused(status_pb2.Status.FromString(value))
        raise Refused(status_pb2.Status(code=code.value[0], message=details))
