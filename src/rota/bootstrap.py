"""The composition root: builds store, services, loops and servers. The only file that knows all of them."""

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

from rota import diagnosis
from rota import telemetry as telemetry_module
from rota.api.peeraddress import reached_at
from rota.api.peerwire import PeerDial, PeerTls
from rota.api.server import PeerListener, Server, TlsFiles, check_authorities, check_files
from rota.clock import SystemClock, wait_for_event
from rota.config import OFF, Settings, http_beside
from rota.coordinator.node import Node
from rota.diagnosis import Finding
from rota.domain.errors import FailedPrecondition, InvalidArgument, RotaError, Unavailable
from rota.domain.ids import CoordinatorId
from rota.domain.model import ApiKey, Role
from rota.service.audit import audit
from rota.service.completions import Completions
from rota.service.identity import Keys
from rota.service.invariants import EXAMPLES_MAX, Checked, Invariants
from rota.service.jobs import Jobs
from rota.service.notices import Unheard
from rota.store import schema
from rota.store.changes import PgChanges
from rota.store.deadletters import PgDeadLetters
from rota.store.doctor import PgDoctor
from rota.store.effects import PgEffects
from rota.store.embedded import EmbeddedError, EmbeddedPostgres
from rota.store.engine import Database
from rota.store.fires import PgFires
from rota.store.fleet import PgFleet
from rota.store.history import PgHistory
from rota.store.identity import PgIdentity
from rota.store.invariants import PgInvariants
from rota.store.jobs import PgJobs
from rota.store.leases import PgLeases
from rota.store.outcomes import PgOutcomes
from rota.store.queues import PgQueues
from rota.store.readers import PgJobReader
from rota.store.schedules import PgSchedules
from rota.store.schema import SchemaStatus
from rota.store.sessions import PgSessions
from rota.store.shards import PgShards
from rota.telemetry import Metrics, Telemetry

if TYPE_CHECKING:
    from rota.api.http.server import Door

log = logging.getLogger(__name__)

T = TypeVar("T")

LEDGERS_CHECKED = 500
"""Schedules whose fates `rota doctor` adds up: the newest."""

HISTORY_CHECKED_S = 6 * 86_400.0
"""Whose whole history is kept, by the shortest setting."""

LOOPBACK = ("127.0.0.1", "::1", "localhost")

CONNECTIONS_MAX = 21
"""To the database, of one coordinator."""

WAIT_FIRST_S = 0.5
WAIT_MOST_S = 10.0
"""Between two looks whether the database is there."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A coordinator that answers: `address` is host:port as bound, `http` the URL of HTTP/JSON; None: not served."""

    address: str
    http: str | None = None


@contextmanager
def local_database(settings: Settings, processes: int = 1) -> Iterator[str]:
    """The configured database, or the embedded PostgreSQL in the home folder with room for so many coordinators,
    running for the length of the block."""
    if settings.database_url is not None:
        yield settings.database_url
        return
    room = {"max_connections": str(100 + CONNECTIONS_MAX * (processes - 1))}
    server = EmbeddedPostgres(settings.home / "dev" / "postgres" / "data", settings=room)
    try:
        url = server.start()
    except EmbeddedError as error:
        raise Unavailable(str(error)) from error
    try:
        yield url
    finally:
        server.stop()


def migrate(url: str) -> list[str]:
    """Brings the schema up to date; the revisions applied."""
    return schema.migrate(url)


def schema_status(url: str) -> SchemaStatus:
    return schema.status(url)


def create_key(url: str, *, tenant: str, label: str, roles: frozenset[Role], ttl_s: float | None) -> tuple[str, ApiKey]:
    """A new API key: its text, shown once, and its record. The tenant is created where it is new."""
    return _with_keys(url, lambda keys: keys.create(tenant, label, roles, ttl_s))


def list_keys(url: str, tenant: str | None = None) -> list[ApiKey]:
    return _with_keys(url, lambda keys: keys.all(tenant))


def revoke_key(url: str, key_id: str) -> bool:
    """False when there is no such living key."""
    return _with_keys(url, lambda keys: keys.revoke(key_id))


@asynccontextmanager
async def coordinator(
    settings: Settings, url: str, telemetry: Telemetry, *, process: int | None = None
) -> AsyncIterator[tuple[Server, Node, Ready]]:
    """A running coordinator; drained and stopped at the end of the block. `process`: its number among those that share
    the port."""
    tls, peer_tls = _tls(settings), _peer_tls(settings)
    clock = SystemClock()
    database = Database(url, on_error=lambda kind: telemetry.metrics.add("rota.store.errors", 1, kind))
    listener = PeerListener()
    try:
        await database.open()
        identity = PgIdentity(database)
        # Before anything is bound, so that a try that fails leaves nothing that the next one needs.
        secret = await identity.peer_secret()
        from_host = await database.writes.local_host()
        peer_host, peer_port = _peer_listen(settings)
        peer_port = listener.bind(f"{peer_host}:{peer_port}", tls)
        id = CoordinatorId(clock.new_id())
        node = _node(
            settings,
            database,
            clock,
            telemetry,
            id=id,
            address=_place(settings, clock, process),
            peer_address=settings.peer_advertise or reached_at(peer_host, peer_port, from_host),
            dial=PeerDial(id, secret, peer_tls, clock),
        )
        # A claim that was decided on long ago, as by a process that was paused, must not reach a database that was
        # promoted since, and does not know whom the shard belonged to last.
        database.claims.gate = node.ownership.trusted
        keys = Keys(identity, clock)
        server = Server(node, keys, telemetry, shared_port=process is not None)
        host, _, _ = settings.listen.rpartition(":")
        port = server.bind(settings.listen, tls)
        try:
            door, http = _door(settings, server, keys, clock, tls, port, shared_port=process is not None)
        except BaseException:
            await server.close()
            raise
        await listener.start(id, node.peers, secret)
        try:
            try:
                await node.start()
            except BaseException:
                await server.close()
                raise
            await server.start()
            await door.start()
            try:
                yield server, node, Ready(f"{host}:{port}", http)
            finally:
                await server.stop(settings.drain_timeout_s)
        finally:
            await listener.stop()
            await node.stop()
    finally:
        await database.close()


def _door(
    settings: Settings,
    server: Server,
    keys: Keys,
    clock: SystemClock,
    tls: TlsFiles | None,
    grpc_port: int,
    *,
    shared_port: bool,
) -> "tuple[Door, str | None]":
    """The HTTP door, bound and to be stopped with the server, and its URL."""
    # Commands that serve nothing are spared it.
    from rota.api.http.server import Door, contract

    origins = settings.http_cors_origins or ()
    door = Door(server.methods, contract(), keys, clock, origins=origins, shared_port=shared_port)
    server.attach(door)
    listen = settings.http_listen or http_beside(settings.listen, grpc_port)
    internal = settings.http_internal_listen
    http = None
    if listen != OFF:
        guarded = internal is None and _is_loopback(listen)
        try:
            port = door.bind("http_listen", listen, tls, guarded=guarded)
        except FailedPrecondition:
            if settings.http_listen is not None:
                raise
            listen = http_beside(settings.listen, 0)
            port = door.bind("http_listen", listen, tls, guarded=guarded)
            log.warning("the port for HTTP beside the one of gRPC is taken, so it is %d; set http_listen", port)
        http = f"{'http' if tls is None else 'https'}://{listen.rpartition(':')[0]}:{port}"
    if internal not in (None, OFF):
        assert internal is not None
        port = door.bind("http_internal_listen", internal, tls, guarded=True)
        log.info("/internal and /admin are served by HTTP at %s:%d", internal.rpartition(":")[0], port)
    return door, http


def _is_loopback(address: str) -> bool:
    return address.rpartition(":")[0].strip("[]") in LOOPBACK


def _node(
    settings: Settings,
    database: Database,
    clock: SystemClock,
    telemetry: Telemetry,
    *,
    id: CoordinatorId,
    address: str,
    peer_address: str,
    dial: PeerDial,
) -> Node:
    queues = PgQueues(database)
    return Node(
        id=id,
        address=address,
        peer_address=peer_address,
        dial=dial,
        version=version("rota"),
        jobs=PgJobs(database),
        reader=PgJobReader(database),
        leases=PgLeases(database),
        outcomes=PgOutcomes(database),
        dead_letters=PgDeadLetters(database),
        effects=PgEffects(database),
        sessions=PgSessions(database),
        shards=PgShards(database),
        history=PgHistory(database),
        schedules=PgSchedules(database),
        fires=PgFires(database),
        queues=queues,
        tenants=queues,
        fleet=PgFleet(database),
        invariants=PgInvariants(database),
        changes=PgChanges(database),
        clock=clock,
        telemetry=telemetry,
        session_ttl_s=settings.session_ttl_s,
        delivery_ttl_s=settings.delivery_ttl_s,
        term_s=settings.shard_term_s,
        history_s=settings.history_s,
    )


class Patience:
    """Waiting for a database that is not there, longer each time, and for so long in all."""

    def __init__(self, clock: SystemClock, most_s: float) -> None:
        self._clock = clock
        self._until = clock.monotonic() + most_s
        self._next_s = WAIT_FIRST_S

    def end(self) -> None:
        """It was there. What comes now is not waited for here."""
        self._until = 0.0

    async def wait(self, error: Unavailable, stop: asyncio.Event) -> None:
        """Raises the error when it is over, and ends at once when asked to stop."""
        left_s = self._until - self._clock.monotonic()
        if left_s <= 0:
            raise error
        wait_s = min(self._next_s * self._clock.rng.uniform(0.8, 1.0), left_s)
        self._next_s = min(self._next_s * 2, WAIT_MOST_S)
        log.warning("the database is waited for, %.0f s more at most: %s", left_s, error.message)
        await wait_for_event(stop, wait_s, self._clock)


def serve(
    settings: Settings,
    url: str,
    *,
    on_ready: Callable[[Ready], None] = lambda ready: None,
    process: int | None = None,
) -> int:
    """Runs a coordinator until SIGTERM or SIGINT, drains it, and answers with the exit code. `process` as for
    `coordinator`.

    A database that is not there is waited for, `database_wait_s` at most. Otherwise it refuses to start, with a clear
    RotaError: database too old, not migrated or not open to this user, port taken, plaintext off loopback.
    """
    _tls(settings)
    _peer_tls(settings)
    telemetry = telemetry_module.setup(
        endpoint=settings.otlp_endpoint,
        instance_id=f"{socket.gethostname()}:{settings.listen.rpartition(':')[2]}{_suffix(process)}",
        version=version("rota"),
        trace_ratio=settings.trace_ratio,
        log_level=settings.log_level,
        log_format=settings.log_format,
    )

    async def run() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        patience = Patience(SystemClock(), settings.database_wait_s)
        while not stop.is_set():
            try:
                await asyncio.to_thread(schema.check, url)
                async with coordinator(settings, url, telemetry, process=process) as (_, node, ready):
                    patience.end()
                    calm_collector()
                    log.info(
                        "coordinator %s listens on %s, HTTP at %s", node.id, ready.address, ready.http or "no address"
                    )
                    on_ready(ready)
                    await stop.wait()
                    log.info("draining")
            except Unavailable as error:
                await patience.wait(error, stop)
        log.info("stopped")

    try:
        _run(run())
    finally:
        telemetry.shutdown(5.0)
    return 0


def diagnose(url: str) -> list[Finding]:
    """What `rota doctor` finds in the database, without a coordinator's help."""
    try:
        status = schema.status(url)
    except RotaError as error:
        return [Finding("database", "error", error.message, "start PostgreSQL, or correct the URL")]
    findings = [Finding("database", "ok", f"PostgreSQL {status.server} answers"), diagnosis.of_schema(status)]
    if not status.up_to_date:
        return findings

    async def look() -> list[Finding]:
        database = Database(url)
        try:
            doctor = PgDoctor(database)
            found = diagnosis.of_overview(await doctor.overview(), SystemClock().utc())
            found += diagnosis.of_schedules(await doctor.schedules())
            ledgers = await doctor.ledgers(HISTORY_CHECKED_S, LEDGERS_CHECKED)
            return [*found, diagnosis.of_fates(await audit(PgFires(database), ledgers))]
        finally:
            await database.close()

    return findings + _run(look())


def check_invariants(url: str, *, repair: bool = False) -> list[Checked]:
    """Looks through all rows for what must never be, and repairs what is safe to repair if asked."""
    schema.check(url)

    async def look() -> list[Checked]:
        database = Database(url)
        try:
            return await _invariants(database).check(repair=repair, examples_max=EXAMPLES_MAX)
        finally:
            await database.close()

    return _run(look())


def _invariants(database: Database) -> Invariants:
    """Over the database alone; living coordinators find in the rows what is repaired."""
    clock, metrics, told = SystemClock(), Metrics(), Unheard()
    outcomes = PgOutcomes(database)
    return Invariants(
        PgInvariants(database),
        PgFires(database),
        Completions(outcomes, told, clock, metrics, None),
        Jobs(PgJobs(database), PgJobReader(database), outcomes, told, metrics),
        clock,
        metrics,
    )


def _tls(settings: Settings) -> TlsFiles | None:
    if settings.tls_cert is not None and settings.tls_key is not None:
        files = TlsFiles(settings.tls_cert, settings.tls_key, settings.tls_client_ca)
        check_files(files)
        return files
    if settings.tls_cert or settings.tls_key or settings.tls_client_ca:
        raise InvalidArgument.field("tls_cert", "tls_cert and tls_key belong together, and tls_client_ca needs both")
    for key in ("listen", "http_listen", "http_internal_listen", "peer_listen"):
        address = getattr(settings, key)
        if address not in (None, OFF) and not _is_loopback(address) and not settings.allow_plaintext:
            raise InvalidArgument.field(
                key,
                f"{address} is reachable from elsewhere and there is no TLS, so keys would travel readable; "
                "set tls_cert and tls_key, or allow_plaintext where a mesh encrypts",
            )
    return None


def _peer_tls(settings: Settings) -> PeerTls | None:
    """How peers are called; the same files as those that are served with."""
    if settings.tls_cert is None:
        return None
    if settings.tls_peer_ca is not None:
        check_authorities("tls_peer_ca", settings.tls_peer_ca)
    shown = settings.tls_client_ca is not None
    return PeerTls(
        ca=settings.tls_peer_ca or settings.tls_client_ca or settings.tls_cert,
        name=settings.tls_peer_name,
        cert=settings.tls_cert if shown else None,
        key=settings.tls_key if shown else None,
    )


def _peer_listen(settings: Settings) -> tuple[str, int]:
    host, _, port = (settings.peer_listen or f"{settings.listen.rpartition(':')[0]}:0").rpartition(":")
    return host, int(port)


def _place(settings: Settings, clock: SystemClock, process: int | None) -> str:
    """What a later process at the same place is known by, so that this one is gone."""
    address = settings.advertise or f"{socket.gethostname()}:{settings.listen.rpartition(':')[2]}"
    # Port 0 gives a fresh port each time, and so a place of its own.
    return f"{address}/{clock.new_id()}" if address.endswith(":0") else f"{address}{_suffix(process)}"


def _suffix(process: int | None) -> str:
    return "" if process is None else f"/{process}"


def _with_keys(url: str, work: Callable[[Keys], Coroutine[Any, Any, T]]) -> T:
    schema.check(url)

    async def run() -> T:
        database = Database(url)
        try:
            return await work(Keys(PgIdentity(database), SystemClock()))
        finally:
            await database.close()

    return _run(run())


def calm_collector() -> None:
    """What has been made so far stays: not looking through it again saves a sixth of the CPU for each job."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)
