"""The listeners for HTTP, and their stop in order. uvicorn reads and writes HTTP/1.1; bounds on who may keep a
connection are added here."""

import asyncio
import logging
import socket
import ssl
import sys
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from typing import Any, Final

import h11
import uvicorn
from rota_sdk.gen.rota.admin.v1 import admin_pb2
from rota_sdk.gen.rota.v1 import jobs_pb2, schedules_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from rota.api.http import errors
from rota.api.http.app import App, Calls, Method, openapi
from rota.api.http.routes import Routes, read
from rota.api.server import TlsFiles
from rota.clock import Clock
from rota.config import cannot_listen
from rota.service.identity import Keys

log = logging.getLogger(__name__)

HEAD_BYTES_MAX: Final = 32 * 1024
HEAD_S_MAX: Final = 30.0
"""A connection without a whole request head for this long is closed."""

IDLE_S_MAX: Final = 75
CONNECTIONS_MAX: Final = 10_000
GZIP_BYTES_MIN: Final = 1_024
GZIP_LEVEL: Final = 5
GONE_MS: Final = 20_000
ASK_AFTER_S: Final = 30
"""Whoever acknowledges nothing for this long is gone; one who says nothing is asked."""

PREFLIGHT_S: Final = 600
FLUSH_S: Final = 0.5
_METHODS: Final = ("GET", "HEAD", "POST", "PATCH", "DELETE")
_ASKED: Final = (
    *("Authorization", "Content-Type", "Content-Encoding", "Idempotency-Key", "If-Match", "Last-Event-ID"),
    *("Request-Timeout", "traceparent", "tracestate"),
)
_TOLD: Final = ("ETag", "Retry-After")


class Door:
    """`origins`: web sites whose pages may call. `shared_port`: as for gRPC."""

    def __init__(
        self,
        methods: Mapping[str, Method],
        routes: Routes,
        keys: Keys,
        clock: Clock,
        *,
        origins: Sequence[str] = (),
        shared_port: bool = False,
    ) -> None:
        self._calls = Calls(methods, keys, routes, clock)
        self._origins = origins
        self._shared_port = shared_port
        self._document = openapi()
        self._listeners: list[_Listener] = []

    def bind(self, setting: str, address: str, tls: TlsFiles | None, *, guarded: bool) -> int:
        """Takes an address; the port, which is fresh where it asks for port 0. `guarded`: /internal and /admin are
        served there too."""
        held = _bound(setting, address, shared=self._shared_port)
        app: Any = App(self._calls, guarded=guarded, document=self._document)
        app = GZipMiddleware(app, minimum_size=GZIP_BYTES_MIN, compresslevel=GZIP_LEVEL)
        if self._origins:
            app = CORSMiddleware(
                app,
                allow_origins=self._origins,
                allow_methods=_METHODS,
                allow_headers=_ASKED,
                expose_headers=_TOLD,
                max_age=PREFLIGHT_S,
            )
        self._listeners.append(_Listener(app, held, None if tls is None else _Certificates(tls)))
        port: int = held.getsockname()[1]
        return port

    async def start(self) -> None:
        for listener in self._listeners:
            await listener.start()

    async def stop(self, grace_s: float) -> None:
        """Takes no more calls, and lets those under way end, at most for so long."""
        self._calls.stopping = True
        for listener in self._listeners:
            listener.close()
        for stream in self._calls.streams:
            stream.cut()
        if self._calls.under_way:
            await asyncio.wait(set(self._calls.under_way), timeout=grace_s)
        for work in self._calls.under_way:
            work.cancel()
        for listener in self._listeners:
            await listener.end()


def contract() -> Routes:
    """The routes of all that is served to the outside."""
    files = (jobs_pb2, schedules_pb2, worker_pb2, admin_pb2)
    return read(service for file in files for service in file.DESCRIPTOR.services_by_name.values())


class _Listener:
    def __init__(self, app: Any, held: socket.socket, certificates: "_Certificates | None") -> None:
        self._held = held
        self._certificates = certificates
        self._state = ServerState()
        self._config = uvicorn.Config(
            app,
            http=_Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            # Of what strangers send it would tell line by line.
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=IDLE_S_MAX,
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        )
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._config.load()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Connection(self._config, self._state, {}, loop),
            sock=self._held,
            ssl=None if self._certificates is None else self._certificates.context,
            backlog=2_048,
        )

    def close(self) -> None:
        """Takes no more connections, and lets go of those that are idle."""
        if self._server is None:
            self._held.close()
        else:
            self._server.close()
        for connection in list(self._state.connections):
            connection.shutdown()

    async def end(self) -> None:
        if self._state.tasks:
            await asyncio.wait(set(self._state.tasks), timeout=FLUSH_S)
        for connection in list(self._state.connections):
            connection.transport.close()


class _Connection(H11Protocol):
    """Of one client. A head must come within a span; what is no HTTP gets an answer of the same shape as any other."""

    _head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_MAX:
            transport.close()
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        # Read by uvicorn for each answer, so that it needs nobody who looks at the clock all the time.
        self.server_state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_expecting()
        elif self._head is None:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_expecting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        error = sys.exc_info()[1]
        code = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        what = f"expected HTTP/1.1, found otherwise ({error or msg})"
        if code == 431:
            what = f"expected a request head of at most {HEAD_BYTES_MAX} bytes, found more"
        elif code not in (400, 413, 414, 501):
            code = 400
        answer = errors.refusal_answer(errors.malformed(code, what))
        headers = [*answer.raw_headers, (b"connection", b"close")]
        try:
            sent = [
                self.conn.send(h11.Response(status_code=code, headers=headers)),
                self.conn.send(h11.Data(data=bytes(answer.body))),
                self.conn.send(h11.EndOfMessage()),
            ]
            self.transport.write(b"".join(part for part in sent if part))
        except h11.LocalProtocolError:
            # In the middle of an answer there is no room for another.
            log.debug("a connection spoke no HTTP during an answer")
        self.transport.close()

    def _expect_head(self) -> None:
        self._head = self.loop.call_later(HEAD_S_MAX, self.transport.close)

    def _stop_expecting(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None


class _Certificates:
    """A context for TLS that follows its files: renewed certificates need no restart, as with gRPC."""

    def __init__(self, tls: TlsFiles) -> None:
        self._tls = tls
        self._seen = self._stamp()
        self.context = self._fresh()
        self._current = self.context
        # Called at the beginning of each handshake, whether the client names a server or not.
        self.context.sni_callback = self._renew

    def _renew(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        try:
            if (stamp := self._stamp()) != self._seen:
                self._current = self._fresh()
                self._seen = stamp
        except (OSError, ssl.SSLError) as error:
            # Half written perhaps; the next handshake looks again.
            log.warning("the certificate cannot be read again (%s); the one before stays in use", error)
        connection.context = self._current

    def _fresh(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._tls.cert, self._tls.key, password="")
        context.set_alpn_protocols(["http/1.1"])
        if self._tls.client_ca is not None:
            context.load_verify_locations(self._tls.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _stamp(self) -> tuple[tuple[int, int], ...]:
        files = (self._tls.cert, self._tls.key, self._tls.client_ca)
        stats = [file.stat() for file in files if file is not None]
        return tuple((stat.st_mtime_ns, stat.st_ino) for stat in stats)


def _bound(setting: str, address: str, *, shared: bool) -> socket.socket:
    host, _, port = address.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, number, _, place = found[0]
        held = socket.socket(family, kind, number)
    except OSError:
        raise cannot_listen(setting, address) from None
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if shared:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        for option, value in (("TCP_USER_TIMEOUT", GONE_MS), ("TCP_KEEPIDLE", ASK_AFTER_S), ("TCP_KEEPINTVL", 10)):
            if hasattr(socket, option):
                # Connections inherit it.
                held.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        held.setblocking(False)
        held.bind(place)
        # So that a second one is refused now.
        held.listen(2_048)
    except OSError:
        held.close()
        raise cannot_listen(setting, address) from None
    return held
