"""The gRPC servers: services, health, reflection, TLS, and a stop in order; beside them the listener for peers."""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health_aio
from grpc_reflection.v1alpha import reflection
from rota_sdk.gen.rota.admin.v1 import admin_pb2, admin_pb2_grpc
from rota_sdk.gen.rota.peer.v1 import peer_pb2_grpc
from rota_sdk.gen.rota.v1 import jobs_pb2, jobs_pb2_grpc, schedules_pb2, schedules_pb2_grpc
from rota_sdk.gen.rota.worker.v1 import worker_pb2, worker_pb2_grpc

from rota.api.admin import AdminServicer
from rota.api.calendars import CalendarServicer
from rota.api.jobs import JobServicer
from rota.api.peer import Neighbours, PeerServicer
from rota.api.peerwire import MESSAGE_BYTES_MAX, PING_EVERY_S, PING_TIMEOUT_S
from rota.api.rpc import Registry
from rota.api.schedules import ScheduleServicer
from rota.api.worker import MAX_CONNECTION_AGE_S, WorkerServicer
from rota.config import cannot_listen
from rota.coordinator.node import Node
from rota.domain import limits
from rota.domain.errors import InvalidArgument
from rota.domain.ids import CoordinatorId
from rota.service.identity import Keys
from rota.telemetry import Telemetry

log = logging.getLogger(__name__)

HEALTH_EVERY_S = 1.0

PING_CALLERS_S = 60.0

REFUSALS_MAX = 10_000
"""Calls beyond the bound that are told so in our words; gRPC turns away those beyond them, and says nothing."""

PEERS_STOP_S = 0.2
"""What peers have asked for last gets this long."""

OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", 4 * 1024 * 1024),
    ("grpc.max_send_message_length", 16 * 1024 * 1024),
    ("grpc.max_connection_age_ms", int(MAX_CONNECTION_AGE_S * 1000)),
    ("grpc.max_connection_age_grace_ms", 60_000),
    # Clients ping every 30 s; a server that allows less answers with ENHANCE_YOUR_CALM.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # Who is gone without a word keeps its stream and its polls no longer than this.
    ("grpc.keepalive_time_ms", int(PING_CALLERS_S * 1000)),
    ("grpc.http2.ping_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
    # gRPC drops calls that are not yet picked up beyond a thousand, which is what a reconnect storm looks like.
    ("grpc.server.max_pending_requests", 100_000),
    ("grpc.server.max_pending_requests_hard_limit", 200_000),
)

PEER_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    # A peer that is gone without a word is not heard any more, so what it said does not hold.
    ("grpc.keepalive_time_ms", int(PING_EVERY_S * 1000)),
    ("grpc.http2.ping_timeout_ms", int(PING_TIMEOUT_S * 1000)),
    ("grpc.http2.max_pings_without_data", 0),
    # It pings us as often as we do it.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", int(PING_EVERY_S * 250)),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.so_reuseport", 0),
)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files. With `client_ca` every client must show a certificate of that authority."""

    cert: Path
    key: Path
    client_ca: Path | None = None


class AnotherDoor(Protocol):
    async def stop(self, grace_s: float) -> None:
        """Takes no more calls, and lets those under way end, at most for so long."""


class Server:
    """`methods`: the handlers by service/method.

    `shared_port`: other processes of this machine may serve at the same port; each gets a part of the connections.
    Otherwise a second coordinator there is refused: each would get half of the calls by chance."""

    def __init__(self, node: Node, keys: Keys, telemetry: Telemetry, *, shared_port: bool = False) -> None:
        self._node = node
        options = (*OPTIONS, ("grpc.so_reuseport", int(shared_port)))
        self._server = grpc.aio.server(options=options, maximum_concurrent_rpcs=limits.RPCS_MAX + REFUSALS_MAX)
        self._health = health_aio.HealthServicer()
        registry: Any = Registry(self._server)
        jobs_pb2_grpc.add_JobServiceServicer_to_server(JobServicer(node, keys, telemetry), registry)
        schedules_pb2_grpc.add_ScheduleServiceServicer_to_server(ScheduleServicer(node, keys), registry)
        schedules_pb2_grpc.add_CalendarServiceServicer_to_server(CalendarServicer(node, keys), registry)
        self._workers = WorkerServicer(node, keys, telemetry)
        worker_pb2_grpc.add_WorkerServiceServicer_to_server(self._workers, registry)
        admin_pb2_grpc.add_AdminServiceServicer_to_server(AdminServicer(node, keys), registry)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._services = tuple(
            service.full_name
            for file in (jobs_pb2, schedules_pb2, worker_pb2, admin_pb2)
            for service in file.DESCRIPTOR.services_by_name.values()
        )
        names = (*self._services, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name)
        reflection.enable_server_reflection((*names, reflection.SERVICE_NAME), self._server)
        self.methods: Mapping[str, Callable[[Any, Any], Awaitable[Any]]] = registry.methods
        self._doors: list[AnotherDoor] = []
        self._serving: bool | None = None
        self._watch: asyncio.Task[None] | None = None

    def attach(self, door: "AnotherDoor") -> None:
        """Stops another way to the same handlers at the same moment as this one."""
        self._doors.append(door)

    def bind(self, address: str, tls: TlsFiles | None) -> int:
        """Takes the address; the port, which is fresh where the address asks for port 0."""
        return _bind(self._server, "listen", address, tls)

    async def start(self) -> None:
        await self._report(self._node.healthy())
        await self._server.start()
        self._watch = asyncio.create_task(self._watch_health(), name="health")

    async def stop(self, grace_s: float) -> None:
        """Not ready first, then the node's own drain, then the calls on their way, at most `grace_s` in all.

        Workers are sent away only when nobody can connect any more: they dial the same addresses again."""
        until = self._node.clock.monotonic() + grace_s
        if self._watch is not None:
            self._watch.cancel()
        await self._health.enter_graceful_shutdown()
        drain = asyncio.create_task(self._node.drain(), name="drain")
        done, _ = await asyncio.wait({drain}, timeout=grace_s)
        if not done:
            log.warning("the drain did not end within %g s; what is left is found again by others", grace_s)
        left_s = max(until - self._node.clock.monotonic(), 0.0)
        ends = asyncio.gather(self._server.stop(left_s), *(door.stop(left_s) for door in self._doors))
        self._workers.send_away()
        await ends

    async def close(self) -> None:
        """Lets go of the address without having served."""
        # One that was not started would keep it: to such a server a stop means nothing.
        await self._server.start()
        await self._server.stop(0)
        for door in self._doors:
            await door.stop(0)

    async def _watch_health(self) -> None:
        while True:
            await self._report(self._node.healthy())
            await self._node.clock.sleep(HEALTH_EVERY_S)

    async def _report(self, serving: bool) -> None:
        if serving is self._serving:
            return
        self._serving = serving
        if not serving:
            log.warning("not serving: %s", self._node.unwell())
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for service in ("", *self._services):
            await self._health.set(service, status)


class PeerListener:
    """Where other coordinators reach this one: an address of its own, so that PeerService is never served to the
    public."""

    def __init__(self) -> None:
        self._server = grpc.aio.server(options=PEER_OPTIONS)

    def bind(self, address: str, tls: TlsFiles | None) -> int:
        """Takes the address; the port, which is fresh where the address asks for port 0."""
        return _bind(self._server, "peer_listen", address, tls)

    async def start(self, me: CoordinatorId, peers: Neighbours, secret: bytes) -> None:
        peer_pb2_grpc.add_PeerServiceServicer_to_server(PeerServicer(me, peers, secret), self._server)
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(PEERS_STOP_S)


def _bind(server: grpc.aio.Server, setting: str, address: str, tls: TlsFiles | None) -> int:
    secret = None if tls is None else _credentials(tls)
    try:
        port = server.add_insecure_port(address) if secret is None else server.add_secure_port(address, secret)
    except RuntimeError:
        port = 0
    if port == 0:
        raise cannot_listen(setting, address)
    return port


def check_authorities(field: str, path: Path) -> None:
    """Refuses a file without certificates of authorities."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except (OSError, ValueError) as error:
        raise InvalidArgument.field(
            field, f"expected certificates of authorities in {path}, PEM, found none ({error})"
        ) from None


def check_files(tls: TlsFiles) -> None:
    """Refuses files that gRPC could not use, of which it would only say that the port cannot be had."""
    for path in (tls.cert, tls.key, tls.client_ca):
        if path is not None and not path.is_file():
            raise InvalidArgument.field("tls", f"no file at {path}; give PEM files that this process can read")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Without a password an encrypted key is an error too, and no question at the terminal.
        context.load_cert_chain(tls.cert, tls.key, password="")
    except (OSError, ValueError) as error:
        raise InvalidArgument.field(
            "tls_cert",
            f"expected a certificate in {tls.cert} and its unencrypted private key in {tls.key}, both PEM, "
            f"found otherwise ({error})",
        ) from None
    if tls.client_ca is not None:
        check_authorities("tls_client_ca", tls.client_ca)


def _credentials(tls: TlsFiles) -> grpc.ServerCredentials:
    def fetch() -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration(
            [(tls.key.read_bytes(), tls.cert.read_bytes())],
            root_certificates=None if tls.client_ca is None else tls.client_ca.read_bytes(),
        )

    check_files(tls)
    # Read again at each handshake, so that renewed certificates need no restart.
    return grpc.dynamic_ssl_server_credentials(
        fetch(), lambda: fetch(), require_client_authentication=tls.client_ca is not None
    )
