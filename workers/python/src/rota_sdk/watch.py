"""Changes of jobs as they happen: one stream after the other, each going on where the last one ended."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

import grpc

from rota_sdk import codec, limits
from rota_sdk.backoff import Backoff
from rota_sdk.errors import RotaError, from_rpc, transient
from rota_sdk.gen.rota.v1 import jobs_pb2
from rota_sdk.model import JobChange

_FIRST_S: Final = 0.1


class _Watch:
    """What both kinds have in common: where the watch is, and what the end of a stream means."""

    def __init__(self, method: Any, address: str, queue: str, type: str, resume_token: str) -> None:
        self._method = method
        self._address = address
        self._request = jobs_pb2.WatchJobsRequest(queue=queue, type=type, resume_token=resume_token)
        self._backoff = Backoff(_FIRST_S, limits.BACKOFF_MOST_S)
        self._call: Any = None
        self._connected = False

    @property
    def resume_token(self) -> str:
        """Where another watch with the same filters goes on: behind the last change that was given out, or further."""
        return self._request.resume_token

    def _take(self, response: jobs_pb2.WatchJobsResponse) -> JobChange | None:
        """The change that a message is about, if it is about one."""
        self._connected = True
        self._backoff.reset()
        self._request.resume_token = response.resume_token
        return JobChange(codec.job(response.job), response.resume_token) if response.HasField("job") else None

    def _pause(self, error: Any) -> float:
        """How long to wait before the next stream. Raises what no other stream would mend, and whatever the first one
        ends with before it has begun."""
        self._call = None
        failure: RotaError | None = None if error is None else from_rpc(error, self._address)
        if failure is not None and not (self._connected and transient(failure)):
            raise failure from None
        return self._backoff.next(failure.retry_after if failure is not None else None)


class JobWatch(_Watch, Iterator[JobChange]):
    """Changes, one by one, without an end: close it, from any thread, to end the iteration."""

    def __init__(self, method: Any, address: str, queue: str, type: str, resume_token: str) -> None:
        super().__init__(method, address, queue, type, resume_token)
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> JobChange:
        while not self._closed.is_set():
            error: grpc.RpcError | None = None
            try:
                if self._call is None:
                    self._call = self._method(self._request)
                    if self._closed.is_set():
                        break
                change = self._take(next(self._call))
                if change is not None:
                    return change
                continue
            except StopIteration:
                pass
            except grpc.RpcError as raised:
                error = raised
            if not self._closed.is_set():
                self._closed.wait(self._pause(error))
        self._end()
        raise StopIteration

    def close(self) -> None:
        """Ends the iteration."""
        self._closed.set()
        self._end()

    def _end(self) -> None:
        call = self._call
        if call is not None:
            call.cancel()


class AsyncJobWatch(_Watch, AsyncIterator[JobChange]):
    """The same for an event loop."""

    def __init__(self, method: Any, address: str, queue: str, type: str, resume_token: str) -> None:
        super().__init__(method, address, queue, type, resume_token)
        self._closed = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> JobChange:
        while not self._closed.is_set():
            error: grpc.aio.AioRpcError | None = None
            try:
                if self._call is None:
                    self._call = self._method(self._request)
                response = await self._call.read()
                if response is not grpc.aio.EOF:
                    change = self._take(response)
                    if change is not None:
                        return change
                    continue
            except grpc.aio.AioRpcError as raised:
                error = raised
            except asyncio.CancelledError:
                if not self._closed.is_set():
                    raise
                break
            if not self._closed.is_set():
                pause = self._pause(error)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._closed.wait(), pause)
        raise StopAsyncIteration

    def close(self) -> None:
        """Ends the iteration."""
        self._closed.set()
        if self._call is not None:
            self._call.cancel()
