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
from typing import Any, Literal, TypeVar

from rota import telemetry as telemetry_module
from rota.api.peeraddress import reached_at
from rota.api.peerwire import PeerDial, PeerTls
from rota.api.server import PeerListener, Server, TlsFiles, check_authorities
from rota.clock import SystemClock
from rota.config import Settings
from rota.coordinator.node import Node
from rota.domain.errors import InvalidArgument, RotaError, Unavailable
from rota.domain.ids import CoordinatorId
from rota.domain.model import ApiKey, Role
from rota.service.audit import Audited, audit
from rota.service.identity import Keys
from rota.store import schema
from rota.store.doctor import Overview, PgDoctor, SchedulesOverview
from rota.store.embedded import EmbeddedError, EmbeddedPostgres
from rota.store.engine import Database
from rota.store.fires import PgFires
from rota.store.fleet import PgFleet
from rota.store.history import PgHistory
from rota.store.identity import PgIdentity
from rota.store.jobs import PgJobs
from rota.store.leases import PgLeases
from rota.store.outcomes import PgOutcomes
from rota.store.queues import PgQueues
from rota.store.readers import PgJobReader
from rota.store.schedules import PgSchedules
from rota.store.schema import SchemaStatus
from rota.store.sessions import PgSessions
from rota.store.shards import PgShards
from rota.telemetry import Telemetry

log = logging.getLogger(__name__)

T = TypeVar("T")

LEDGERS_CHECKED = 500
"""Schedules whose fates `rota doctor` adds up: the newest."""

HISTORY_CHECKED_S = 6 * 86_400.0
"""Whose whole history is kept, by the shortest setting."""

LOOPBACK = ("127.0.0.1", "::1", "localhost")

CONNECTIONS_MAX = 20
"""To the database, of one coordinator."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A coordinator that answers: `address` is host:port as bound."""

    address: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that `rota doctor` looked at."""

    name: str
    level: Literal["ok", "warning", "error"]
    text: str
    remedy: str = ""


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
        peer_host, peer_port = _peer_listen(settings)
        peer_port = listener.bind(f"{peer_host}:{peer_port}", tls)
        identity = PgIdentity(database)
        secret = await identity.peer_secret()
        id = CoordinatorId(clock.new_id())
        node = _node(
            settings,
            database,
            clock,
            telemetry,
            id=id,
            address=_place(settings, clock, process),
            peer_address=settings.peer_advertise
            or reached_at(peer_host, peer_port, await database.writes.local_host()),
            dial=PeerDial(id, secret, peer_tls, clock),
        )
        server = Server(node, Keys(identity, clock), telemetry, shared_port=process is not None)
        host, _, _ = settings.listen.rpartition(":")
        port = server.bind(settings.listen, tls)
        await listener.start(id, node.peers, secret)
        try:
            await node.start()
            await server.start()
            try:
                yield server, node, Ready(f"{host}:{port}")
            finally:
                await server.stop(settings.drain_timeout_s)
        finally:
            await listener.stop()
            await node.stop()
    finally:
        await database.close()


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
        sessions=PgSessions(database),
        shards=PgShards(database),
        history=PgHistory(database),
        schedules=PgSchedules(database),
        fires=PgFires(database),
        queues=queues,
        tenants=queues,
        fleet=PgFleet(database),
        clock=clock,
        telemetry=telemetry,
        session_ttl_s=settings.session_ttl_s,
        delivery_ttl_s=settings.delivery_ttl_s,
        term_s=settings.shard_term_s,
        history_s=settings.history_s,
    )


def serve(
    settings: Settings,
    url: str,
    *,
    on_ready: Callable[[Ready], None] = lambda ready: None,
    process: int | None = None,
) -> int:
    """Runs a coordinator until SIGTERM or SIGINT, drains it, and answers with the exit code. `process` as for
    `coordinator`.

    Refuses to start with a clear RotaError: database down, too old or not migrated, port taken, plaintext off loopback.
    """
    _tls(settings)
    _peer_tls(settings)
    schema.check(url)
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
        async with coordinator(settings, url, telemetry, process=process) as (_, node, ready):
            calm_collector()
            log.info("coordinator %s listens on %s", node.id, ready.address)
            on_ready(ready)
            await stop.wait()
            log.info("draining")
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
    findings = [Finding("database", "ok", f"PostgreSQL {status.server} answers")]
    if not status.up_to_date:
        found = status.current or "nothing"
        text = f"the schema is at {found}, this version needs {status.head}"
        return [*findings, Finding("schema", "error", text, "run: rota migrate")]
    findings.append(Finding("schema", "ok", f"at revision {status.current}"))

    async def look() -> list[Finding]:
        database = Database(url)
        try:
            doctor = PgDoctor(database)
            found = _judge(await doctor.overview())
            found += _judge_schedules(await doctor.schedules())
            ledgers = await doctor.ledgers(HISTORY_CHECKED_S, LEDGERS_CHECKED)
            return [*found, _judge_fates(await audit(PgFires(database), ledgers))]
        finally:
            await database.close()

    return findings + _run(look())


def _judge(found: Overview) -> list[Finding]:
    skew_s = SystemClock().utc().timestamp() - found.now.timestamp()
    findings = [
        Finding(
            "clock",
            "ok" if abs(skew_s) < 1 else "warning",
            f"this machine is {skew_s:+.3f} s apart from the database, whose clock decides",
            "" if abs(skew_s) < 1 else "synchronise both clocks; nothing fires wrongly, but logs disagree",
        ),
        Finding(
            "coordinators",
            "ok" if found.coordinators else "error",
            f"{found.coordinators} alive",
            "" if found.coordinators else "start one with: rota serve",
        ),
        Finding(
            "shards",
            "ok" if found.shards_owned == found.shards else "error",
            f"{found.shards_owned} of {found.shards} have a living owner",
            ""
            if found.shards_owned == found.shards
            else "jobs of the others wait; a coordinator takes them in seconds",
        ),
    ]
    late_s = found.oldest_due_s or 0.0
    findings.append(
        Finding(
            "due jobs",
            "ok" if late_s < 60 else "warning",
            "none waits" if found.oldest_due_s is None else f"the oldest has waited for {late_s:.0f} s",
            "" if late_s < 60 else "are workers for its queue and type running? see: rota worker list",
        )
    )
    findings.append(
        Finding(
            "leases",
            "ok" if not found.orphaned_leases else "warning",
            f"{found.orphaned_leases} are held by dead sessions",
            "" if not found.orphaned_leases else "a living coordinator ends them within seconds",
        )
    )
    return findings


def _judge_schedules(found: SchedulesOverview) -> list[Finding]:
    late_s = found.latest_s or 0.0
    firing = Finding(
        "schedules",
        "error" if found.unarmed or found.late else "ok",
        f"{found.active} active, {found.unarmed} of them wait for nothing, {found.late} are a minute late or more"
        + (f", the latest {late_s:.0f} s" if found.late else ""),
        "" if not (found.unarmed or found.late) else "a living coordinator repairs them within seconds; see its log",
    )
    failing = Finding(
        "schedules in error",
        "warning" if found.failed else "ok",
        f"{found.failed} stopped by an error",
        "" if not found.failed else "see why: rota schedule list --state error",
    )
    return [firing, failing]


def _judge_fates(found: Audited) -> Finding:
    shown = "; ".join(found.wrong[:3])
    return Finding(
        "fates",
        "error" if found.wrong else "ok",
        f"{found.schedules - len(found.wrong)} of {found.schedules} schedules add up, {found.by_rule} by their rule too"
        + (f": {shown}" if shown else ""),
        "" if not found.wrong else "please report this with the output of: rota schedule history ID --json",
    )


def _tls(settings: Settings) -> TlsFiles | None:
    if settings.tls_cert is not None and settings.tls_key is not None:
        return TlsFiles(settings.tls_cert, settings.tls_key, settings.tls_client_ca)
    if settings.tls_cert or settings.tls_key or settings.tls_client_ca:
        raise InvalidArgument.field("tls_cert", "tls_cert and tls_key belong together, and tls_client_ca needs both")
    for key, address in (("listen", settings.listen), ("peer_listen", settings.peer_listen)):
        host = "" if address is None else address.rpartition(":")[0].strip("[]")
        if host and host not in LOOPBACK and not settings.allow_plaintext:
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
