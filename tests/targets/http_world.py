"""HTTP calls without a coordinator: a lease that a test hands out, a server that answers as a test says, a clock."""

import asyncio
import json
import random
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self

import pytest
from rota_sdk import Stop
from rota_sdk.effects import effect_headers

from rota.targets.http.address import AllowList
from rota.targets.http.credentials import Credential
from rota.targets.http.runner import Calls
from rota.targets.http.wire import Wire

NOW = datetime(2026, 11, 30, 8, 15, tzinfo=UTC)
JOB = "019ad0b2-7c1e-7aaa-8bbb-0123456789ab"
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class StillClock:
    """Stands still until it is put forward. Sleeping puts it forward."""

    def __init__(self) -> None:
        self.at = 1_000.0
        self.rng = random.Random(7)
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.at

    def utc(self) -> datetime:
        return NOW + timedelta(seconds=self.at - 1_000.0)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds

    def new_id(self) -> str:
        return JOB


class Lease:
    """What the handler asks of a lease."""

    job = f"jobs/{JOB}"
    id = JOB
    fence = 4294967298
    queue = "http"
    effect_key = "default/019ad0b2/0"
    traceparent = TRACEPARENT
    due_time = NOW

    def __init__(self, url: str = "", **document: Any) -> None:
        self.data = json.dumps(({"url": url} if url else {}) | document).encode()
        self.attempt = 1
        self.attempts_counted = 0
        self.schedule = ""
        self.nominal_time: datetime | None = None
        self.remaining_s = 60.0
        self.stop_reason: Stop | None = None

    def remaining(self) -> float:
        return self.remaining_s

    def effect_headers(self, *, window: float | None = None) -> dict[str, str]:
        assert window is None
        return effect_headers(self)


@dataclass
class Seen:
    """A request as the server got it."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    names: list[str] = field(default_factory=list)


Handler = Callable[["Peer"], Awaitable[None]]


@dataclass
class Peer:
    """One connection, after its request was read."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    seen: Seen

    async def send(self, data: bytes | str) -> None:
        self.writer.write(data.encode() if isinstance(data, str) else data)
        await self.writer.drain()

    async def answer(self, status: int = 200, body: bytes | str = "ok", **headers: str) -> None:
        data = body.encode() if isinstance(body, str) else body
        lines = [f"HTTP/1.1 {status} Reason", f"Content-Length: {len(data)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.send("\r\n".join([*lines, "", ""]).encode() + data)

    def reset(self) -> None:
        """Ends the connection by RST."""
        connection = self.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.writer.transport.abort()


@dataclass
class Server:
    """Answers each request as the next of `script` says, the last one for all that follow."""

    script: list[Handler] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0
    tls: ssl.SSLContext | None = None
    port: int = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._server.close()

    @property
    def last(self) -> Seen:
        return self.seen[-1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                first, *lines = head.rstrip("\r\n").split("\r\n")
                method, target, _ = first.split(" ", 2)
                pairs = [line.partition(":") for line in lines]
                headers = {name.lower(): value.strip() for name, _, value in pairs}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                peer = Peer(reader, writer, Seen(method, target, headers, body, [name.lower() for name, _, _ in pairs]))
                self.seen.append(peer.seen)
                handler = self.script[min(len(self.seen), len(self.script)) - 1] if self.script else Peer.answer
                await handler(peer)
            finally:
                writer.close()


def answers(status: int = 200, body: bytes | str = "ok", **headers: str) -> Handler:
    """A handler that answers so."""

    async def handler(peer: Peer) -> None:
        await peer.answer(status, body, **headers)

    return handler


class Names:
    """A resolver of which a test says what it finds: name to addresses, for each look-up the next list."""

    def __init__(self, **known: list[list[str]]) -> None:
        self.known = {name.replace("_", "."): answers for name, answers in known.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[tuple[int, tuple[Any, ...]]]:
        self.asked.append(host)
        if host not in self.known:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
            return [(family, address) for family, _, _, _, address in found]
        lists = self.known[host]
        addresses = lists[min(self.asked.count(host), len(lists)) - 1]
        return [
            (socket.AF_INET6, (address, port, 0, 0)) if ":" in address else (socket.AF_INET, (address, port))
            for address in addresses
        ]


class Bench:
    """A runner of calls."""

    def __init__(
        self,
        *,
        allow: tuple[str, ...] = ("127.0.0.1",),
        names: Names | None = None,
        credentials: dict[str, Credential] | None = None,
        calls_per_host: int = 10,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.clock = StillClock()
        self.names = names or Names()
        self.wire = Wire(self.names, AllowList.parse(allow), tls or ssl.create_default_context())
        self.calls = Calls(self.wire, credentials or {}, self.clock, calls_per_host=calls_per_host)

    def begin(self, lease: Lease) -> "asyncio.Task[Any]":
        return asyncio.create_task(self.calls.handle(lease))  # type: ignore[arg-type]

    async def result(self, url: str, **document: Any) -> dict[str, Any]:
        """The result of a call that succeeds."""
        return dict((await self.begin(Lease(url, **document))).json())

    async def failure(self, error: type[BaseException], url: str, **document: Any) -> Any:
        """What a call that does not succeed ends with."""
        with pytest.raises(error) as caught:
            await self.begin(Lease(url, **document))
        return caught.value


def closed_port() -> int:
    """A port of this machine at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
