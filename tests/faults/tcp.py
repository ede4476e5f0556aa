"""A network that breaks when told to: links of TCP, each with a listener of its own.

What a link does with bytes is decided anew for each piece, so it can be changed while connections are open. Silence
holds bytes back, as a partition does whose packets are sent again and again: once it is over they arrive, in order.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Self

PIECE_BYTES = 64 * 1024
CALL_S = 10.0
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of zero seconds: closing sends a reset."""

UP = "up"
"""From who connects to who listens."""

DOWN = "down"
BOTH = (UP, DOWN)


class Network:
    """A thread with the event loop of all links made by it; gone, connections included, at the end of its block."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="faulty network", daemon=True)
        self._links: list[Link] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._end)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def link(self, upstream: str) -> "Link":
        """A new way to `upstream`, host:port; nothing is wrong with it yet."""
        link = Link(self, upstream)
        self._links.append(link)
        return link

    def run(self, work: Callable[[], object]) -> None:
        """Something to do in the loop's thread, waited for. May be a coroutine function."""

        async def do() -> None:
            done = work()
            if asyncio.iscoroutine(done):
                await done

        future: Future[None] = asyncio.run_coroutine_threadsafe(do(), self._loop)
        future.result(CALL_S)

    async def _end(self) -> None:
        for link in self._links:
            link._stop_listening()
        mine = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not mine]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Link:
    """One way to an address. Its methods may be called from any thread and hold from the next piece on."""

    def __init__(self, network: Network, upstream: str) -> None:
        self.upstream = upstream
        self.forwarded = {UP: 0, DOWN: 0}
        """Bytes."""

        self.accepted = 0
        """Connections, over all time."""

        self.delay_s = 0.0
        self.idle_s: float | None = None
        self.silent: frozenset[str] = frozenset()
        self.heard = asyncio.Event()
        self._network = network
        self._open: set[_Connection] = set()
        self._server: asyncio.Server | None = None
        self._port = 0
        network.run(self._listen)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def silence(self, *directions: str) -> None:
        """Accepts everything and passes nothing on, in these directions or both."""
        self._network.run(lambda: self._set_silent(frozenset(directions or BOTH)))

    def delay(self, delay_s: float) -> None:
        """Each piece, in each direction, takes so much longer."""
        self.delay_s = delay_s

    def drop_idle(self, idle_s: float) -> None:
        """A connection that has passed nothing for so long is forgotten without a word, as by firewalls: whoever
        writes to it hears nothing."""
        self.idle_s = idle_s

    def cut_after(self, count: int) -> None:
        """Every open connection is reset once so many bytes more have gone down it."""

        def cut() -> None:
            for connection in self._open:
                connection.left_bytes = count

        self._network.run(cut)

    def reset(self) -> None:
        """Resets every open connection; new ones are welcome."""
        self._network.run(self._reset)

    def refuse(self) -> None:
        """Resets every open connection and refuses new ones."""

        def refuse() -> None:
            self._stop_listening()
            self._reset()

        self._network.run(refuse)

    def heal(self) -> None:
        """Nothing is wrong any more. What was held back arrives."""

        async def heal() -> None:
            self.delay_s = 0.0
            self.idle_s = None
            for connection in self._open:
                connection.left_bytes = None
            self._set_silent(frozenset())
            await self._listen()

        self._network.run(heal)

    def _set_silent(self, directions: frozenset[str]) -> None:
        self.silent = directions
        self.heard.set()
        self.heard = asyncio.Event()

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
            self._port = self._server.sockets[0].getsockname()[1]

    def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _reset(self) -> None:
        for connection in list(self._open):
            connection.reset()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        connection = _Connection(self, reader, writer)
        self._open.add(connection)
        try:
            await connection.run()
        finally:
            self._open.discard(connection)


class _Connection:
    def __init__(self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.left_bytes: int | None = None
        self._link = link
        self._client = (reader, writer)
        self._upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._pumps: list[asyncio.Task[None]] = []
        self._passed_at = asyncio.get_running_loop().time()
        self._forgotten = False

    async def run(self) -> None:
        host, _, port = self._link.upstream.rpartition(":")
        try:
            await self._allowed(UP)
            self._upstream = await asyncio.open_connection(host, int(port))
            pairs = ((UP, self._client[0], self._upstream[1]), (DOWN, self._upstream[0], self._client[1]))
            self._pumps = [asyncio.ensure_future(self._pump(*pair)) for pair in pairs]
            await asyncio.gather(*self._pumps)
        except (OSError, asyncio.CancelledError):
            self.reset()
        else:
            for writer in (self._client[1], self._upstream[1]):
                writer.close()

    def reset(self) -> None:
        for pair in (self._client, self._upstream):
            if pair is not None:
                _reset(pair[1])
        for pump in self._pumps:
            pump.cancel()

    async def _pump(self, direction: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(PIECE_BYTES):
            if self._link.delay_s:
                await asyncio.sleep(self._link.delay_s)
            await self._allowed(direction)
            if direction == DOWN and self.left_bytes is not None:
                piece = piece[: self.left_bytes]
                self.left_bytes -= len(piece)
            self._link.forwarded[direction] += len(piece)
            writer.write(piece)
            await writer.drain()
            if self.left_bytes is not None and self.left_bytes <= 0:
                raise ConnectionResetError
        await self._allowed(direction)
        if writer.can_write_eof():
            writer.write_eof()

    async def _allowed(self, direction: str) -> None:
        now = asyncio.get_running_loop().time()
        if self._link.idle_s is not None and now - self._passed_at > self._link.idle_s:
            self._forgotten = True
        self._passed_at = now
        while self._forgotten or direction in self._link.silent:
            await self._link.heard.wait()


def _reset(writer: asyncio.StreamWriter) -> None:
    raw = writer.get_extra_info("socket")
    if raw is not None and raw.fileno() >= 0:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


def free_port() -> int:
    """A port that nobody uses at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
