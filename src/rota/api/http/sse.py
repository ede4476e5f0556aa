"""Server streams as server-sent events: one event for each message, its id the token from which to go on.

    id: <resume_token>
    data: <the message as JSON, on one line>

A comment now and then keeps what lies between awake. A refusal before the first event is an ordinary answer; a later
one is an event `error` with the same body, after which the stream ends. A client that reconnects names the last id that
it saw in Last-Event-ID.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from google.rpc import status_pb2
from starlette.types import Send

from rota.api.errors import as_refusal, status_of
from rota.api.http import errors, strictjson
from rota.api.http.binding import RESUME_TOKEN
from rota.api.http.context import Refused
from rota.domain.errors import leaving

KEEP_ALIVE_S: Final = 15.0
OPEN_S: Final = 1.0
"""A stream on which nothing has come by then is answered, so that its client knows that it is there."""
WRITE_S_MAX: Final = 60.0
"""A client that takes nothing for this long is gone."""
RECONNECT_MS: Final = 1_000


_HEADERS: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


class Events:
    """A stream, from its first message or silence on. `begin` must have been awaited."""

    def __init__(self) -> None:
        self._messages: asyncio.Queue[Any] = asyncio.Queue(1)
        self._work: asyncio.Task[status_pb2.Status | None] | None = None
        self._next: asyncio.Task[Any] | None = None

    async def write(self, message: Any) -> None:
        """Returns once there is room for the next."""
        await self._messages.put(message)

    async def begin(self, call: Callable[[], Awaitable[Any]], gone: "asyncio.Task[None]") -> status_pb2.Status | None:
        """Starts the call; the status with which it ended at once, or None: the stream is open."""
        self._work = asyncio.create_task(_carry_out(call), name="event stream")
        self._next = asyncio.create_task(self._messages.get())
        await asyncio.wait({self._work, self._next, gone}, timeout=OPEN_S, return_when=asyncio.FIRST_COMPLETED)
        if self._work.done() and not self._next.done() and self._messages.empty():
            self._next.cancel()
            return self._work.result()
        return None

    async def relay(self, send: Send, gone: "asyncio.Task[None]", until_s: float) -> None:
        """Sends what comes, until the call ends, the client is gone, or the stream is old."""
        assert self._work is not None
        assert self._next is not None
        loop = asyncio.get_running_loop()
        until = loop.time() + until_s
        await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
        await _send(send, f"retry: {RECONNECT_MS}\n\n".encode())
        while loop.time() < until:
            await asyncio.wait(
                {self._work, self._next, gone}, timeout=KEEP_ALIVE_S, return_when=asyncio.FIRST_COMPLETED
            )
            if gone.done():
                return
            if self._next.done():
                await _send(send, _event(self._next.result()))
                self._next = asyncio.create_task(self._messages.get())
            elif not self._work.done():
                await _send(send, b": still here\n\n")
            elif self._messages.empty():
                # A put has come about before its caller ends, so nothing is left.
                if (status := self._work.result()) is not None:
                    await _send(send, _failure(status))
                break
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def end(self) -> None:
        """Ends the call, if it has not ended."""
        for task in (self._work, self._next):
            if task is not None and not task.done():
                task.cancel()
        await asyncio.gather(*(t for t in (self._work, self._next) if t is not None), return_exceptions=True)

    def cut(self) -> None:
        """Ends it as of a coordinator that leaves."""
        if self._work is not None:
            self._work.cancel()


async def _carry_out(call: Callable[[], Awaitable[Any]]) -> status_pb2.Status | None:
    """The status of a call that failed; None: it ended well."""
    try:
        await call()
    except Refused as refused:
        return refused.status
    except asyncio.CancelledError:
        return status_of(leaving())
    except Exception as error:
        return status_of(as_refusal(error))
    return None


async def _send(send: Send, data: bytes) -> None:
    async with asyncio.timeout(WRITE_S_MAX):
        await send({"type": "http.response.body", "body": data, "more_body": True})


def _event(message: Any) -> bytes:
    token = getattr(message, RESUME_TOKEN, "")
    head = f"id: {token}\n".encode() if token else b""
    return head + b"data: " + strictjson.dump(message) + b"\n\n"


def _failure(status: status_pb2.Status) -> bytes:
    return b"event: error\ndata: " + errors.body(status, errors.http_code(status)) + b"\n\n"
