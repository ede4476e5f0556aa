"""One exchange over HTTP/1.1: a connection of its own, a request, an answer, all of it bounded.

No connection is used twice. An idle one that the target closes in the very moment of sending looks like a lost answer,
and would leave jobs in doubt that nobody has seen.
"""

import asyncio
import socket
import ssl
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final

import h11

from rota.targets.http.address import AllowList
from rota.targets.http.request import Call
from rota.targets.http.url import Url

BODY_BYTES_MAX: Final = 64 * 1024
"""Kept of an answer's body, decoded."""

READ_BYTES_MAX: Final = 1024 * 1024
"""Read of an answer, so that a target that sends a little more than is kept can finish; then the line is cut."""

HEAD_BYTES_MAX: Final = 64 * 1024
ADDRESSES_MAX: Final = 8
RESOLVERS: Final = 16
_CHUNK_BYTES: Final = 16 * 1024
_TRY_MIN_S: Final = 1.0

Found = Sequence[tuple[int, tuple[Any, ...]]]
"""Families and socket addresses."""

Resolve = Callable[[str, int], Awaitable[Found]]


class NotSent(Exception):
    """The target certainly got nothing of the request. `kind` is the failure's type.

    `final`: it will never be sent. `outage`: it may be when the target is back; else somebody has to mend something.
    `rest_s`: who else is needed for it rests for so long.
    """

    def __init__(self, kind: str, words: str, *, final: bool = False, outage: bool = True, rest_s: float = 0.0) -> None:
        super().__init__(words)
        self.kind = kind
        self.final = final
        self.outage = outage and not final
        self.rest_s = rest_s


class NoAnswer(Exception):
    """The request, or some of it, was sent, and no whole answer came: nobody knows what became of it."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(words)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Answer:
    """What a target said. Names of headers are lower case; of one that comes twice the last."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes
    truncated: bool
    """There was more of the body, or it is in a coding that is not read here."""


@dataclass(slots=True)
class Sending:
    """How far an exchange is, for whoever cancels it."""

    begun: bool = False


class Resolver:
    """The system's, in threads of its own: a name server that hangs holds up nobody else's threads."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(RESOLVERS, "rota-resolver")

    async def __call__(self, host: str, port: int) -> Found:
        """Raises OSError."""
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, _look_up, host, port)
        return [(family, address) for family, _, _, _, address in found]

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class Wire:
    """Makes exchanges. Names are resolved here, once, and what was checked is what is connected to."""

    def __init__(self, resolve: Resolve, allowed: AllowList, tls: ssl.SSLContext) -> None:
        self._resolve = resolve
        self._allowed = allowed
        self._tls = tls

    async def exchange(
        self, call: Call, *, connect_s: float, whole_s: float, trusted: bool = False, sending: Sending | None = None
    ) -> Answer:
        """Sends a request and reads the answer. `trusted`: the operator has named the host, inside or not.

        Raises NotSent or NoAnswer. Cancelled, it cuts the line; `sending` says how far it was.
        """
        sending = sending if sending is not None else Sending()
        try:
            async with asyncio.timeout(whole_s):
                reader, writer = await self._connect(call.url, min(connect_s, whole_s), trusted)
                try:
                    return await _exchange(call, reader, writer, sending)
                finally:
                    writer.transport.abort()
        except TimeoutError:
            if not sending.begun:
                raise NotSent(
                    "ConnectTimeout", f"no connection to {call.url.authority} in {round(whole_s, 1):g} s"
                ) from None
            raise NoAnswer("NoAnswer", f"no whole answer of {call.url.authority} in {round(whole_s, 1):g} s") from None

    async def _connect(
        self, url: Url, timeout_s: float, trusted: bool
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                found = (await self._resolve(url.host, url.port))[:ADDRESSES_MAX]
        except TimeoutError:
            raise NotSent("NameUnresolved", f"no address of {url.host!r} in {round(timeout_s, 1):g} s") from None
        except (OSError, UnicodeError) as error:
            words = getattr(error, "strerror", None) or "no such name"
            raise NotSent(
                "NameUnresolved",
                f"expected an address of {url.host!r}, found none: {words}",
                outage=getattr(error, "errno", None) not in (socket.EAI_NONAME, socket.EAI_NODATA),
            ) from None
        if not found:
            raise NotSent("NameUnresolved", f"expected an address of {url.host!r}, found none", outage=False)
        if not trusted:
            self._check(url, found)
        failure = NotSent("ConnectTimeout", f"no connection to {url.authority} in {round(timeout_s, 1):g} s")
        for index, (family, address) in enumerate(found):
            left_s = until - loop.time()
            # One that swallows packets is not to take the time of all others.
            share_s = max(left_s / (len(found) - index), min(left_s, _TRY_MIN_S))
            if left_s <= 0:
                break
            try:
                async with asyncio.timeout(share_s):
                    return await self._dial(url, family, address)
            except TimeoutError:
                continue
            except ssl.SSLError as error:
                words = getattr(error, "verify_message", "") or error.reason or "the handshake failed"
                bad = isinstance(error, ssl.SSLCertVerificationError)
                failure = NotSent("TlsFailed", f"no TLS with {url.authority}: {words}", outage=not bad)
            except OSError as error:
                words = error.strerror or type(error).__name__
                failure = NotSent("ConnectFailed", f"no connection to {url.authority}: {words}")
        raise failure

    def _check(self, url: Url, found: Found) -> None:
        """All addresses of a name must be good: one that is not says that somebody tries something."""
        if self._allowed.host(url.host, url.port):
            return
        for _, address in found:
            # A scope (%eth0) belongs to the network card.
            why = self._allowed.why_not(ip_address(str(address[0]).partition("%")[0]), url.port)
            if why:
                words = f"{url.authority}: {why}; the runner's operator can --allow it"
                raise NotSent("AddressRefused", words, final=True)

    async def _dial(
        self, url: Url, family: int, address: tuple[Any, ...]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            connection.setblocking(False)
            await loop.sock_connect(connection, address)
            secure: dict[str, Any] = {}
            if url.scheme == "https":
                # Name and certificate are those of the host, whatever address was chosen.
                secure = {"ssl": self._tls, "server_hostname": url.host}
            return await asyncio.open_connection(sock=connection, limit=HEAD_BYTES_MAX, **secure)
        except BaseException:
            connection.close()
            raise


async def _exchange(call: Call, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sending: Sending) -> Answer:
    protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
    headers = [("host", call.url.authority), *call.headers, ("connection", "close")]
    if call.body or call.method in ("POST", "PUT", "PATCH"):
        headers.append(("content-length", str(len(call.body))))
    try:
        data = protocol.send(
            h11.Request(
                method=call.method,
                target=call.url.target,
                headers=[(name.encode(), value.encode()) for name, value in headers],
            )
        )
    except h11.LocalProtocolError as error:
        raise NotSent("InvalidRequest", f"the request cannot be sent: {error}", final=True) from None
    data = (data or b"") + (protocol.send(h11.Data(data=call.body)) or b"" if call.body else b"")
    data += protocol.send(h11.EndOfMessage()) or b""
    sending.begun = True
    try:
        writer.write(data)
        await writer.drain()
    except OSError:
        # It may have answered before it stopped listening.
        pass
    try:
        return await _read(protocol, reader)
    except h11.RemoteProtocolError as error:
        ended = reader.at_eof()
        words = "closed the connection before a whole answer" if ended else f"answered otherwise than HTTP/1.1: {error}"
        raise NoAnswer("NoAnswer" if ended else "BadAnswer", f"{call.url.authority} {words}") from None
    except OSError as error:
        words = error.strerror or type(error).__name__
        raise NoAnswer(
            "NoAnswer", f"{call.url.authority} broke the connection before a whole answer: {words}"
        ) from None


async def _read(protocol: h11.Connection, reader: asyncio.StreamReader) -> Answer:
    head: h11.Response | None = None
    body = _Body("")
    read = 0
    while True:
        event = protocol.next_event()
        if event is h11.NEED_DATA:
            if read > READ_BYTES_MAX:
                if head is None:
                    raise h11.RemoteProtocolError("its head has no end")
                body.truncated = True
                break
            chunk = await reader.read(_CHUNK_BYTES)
            read += len(chunk)
            protocol.receive_data(chunk)
        elif isinstance(event, h11.Response):
            head = event
            body = _Body(_headers(head).get("content-encoding", ""))
        elif isinstance(event, h11.Data):
            body.add(bytes(event.data))
        elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
            break
    if head is None:
        raise h11.RemoteProtocolError("no answer")
    reason = bytes(head.reason).decode("latin-1")
    return Answer(head.status_code, reason, _headers(head), bytes(body.data), body.truncated)


def _headers(head: h11.Response) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("utf-8", "replace") for name, value in head.headers}


class _Body:
    """An answer's body, decoded as far as is kept: what a few bytes blow up to is never in memory."""

    def __init__(self, coding: str) -> None:
        self.data = bytearray()
        self.truncated = False
        self._decoder: Any = None
        coding = coding.strip().lower()
        if coding in ("gzip", "x-gzip", "deflate"):
            # Both wrappers, found by themselves.
            self._decoder = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._closed = bool(coding) and self._decoder is None and coding != "identity"

    def add(self, chunk: bytes) -> None:
        room = BODY_BYTES_MAX - len(self.data)
        if self._closed or room <= 0:
            self.truncated = self.truncated or bool(chunk)
            return
        if self._decoder is None:
            self.data += chunk[:room]
            self.truncated = len(chunk) > room
            return
        try:
            self.data += self._decoder.decompress(chunk, room)
        except zlib.error:
            self._closed = self.truncated = True
            return
        self.truncated = bool(self._decoder.unconsumed_tail)
        self._closed = self.truncated or self._decoder.eof


def _look_up(host: str, port: int) -> "list[tuple[Any, ...]]":
    return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
