"""Connections to PostgreSQL, and what their failures mean.

Two ways to the database:

- `Lane`: a few dedicated connections in autocommit for the hot statements, one prepared statement a transaction, with
  results in binary. No pool: handing a pooled connection out costs more than a small statement.
- `Database.begin`: SQLAlchemy Core over a small pool for everything else.

Both want a server that takes writes: of several hosts in the URL the primary is found, and a standby is as good as
none. Between Rota and the server a pooler may hand a client's transactions to any connection, so nothing may be kept
there from one to the next. A `Lane` finds out by itself and then does without.

A write has three outcomes: done, refused, unknown. Losing the connection in the middle of a write raises
`OutcomeUnknown`, never a plain failure, so that nobody takes it for one.
"""

import asyncio
import logging
import os
import re
import select
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import psycopg
import psycopg.conninfo
from psycopg import errors as pg
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from rota.domain.errors import InvalidArgument, OutcomeUnknown, RotaError, Unavailable

log = logging.getLogger(__name__)

T = TypeVar("T")
Row = tuple[Any, ...]
Params = Mapping[str, object]
Run = Callable[[str, Params], Awaitable[list[Row]]]
"""Runs one statement in a transaction that is open."""

CONNECT_TIMEOUT_S = 5
STATEMENT_TIMEOUT_S = 30
CLIENT_DEADLINE_S = 35.0
"""When a connection says nothing at all for this long it is given up; the server's own timeout comes first."""

IDLE_IN_TRANSACTION_S = 10
"""So long the server waits for the next statement of a transaction, unless it is told otherwise for the database. One
of a coordinator that stands still would keep its rows from whoever takes over, for as long as its machine is there."""

TERMS_DEADLINE_S = 3.0
UPKEEP_DEADLINE_S = 3_600.0

HANG_UP_S = 1.0
"""How long to wait for a statement to notice that its own socket was shut down: an instant, normally."""

RETRIES = 3
RETRY_AFTER_S = 1.0

# The hot statements have one right plan each: from a short list of keys by nested loops into an index, in the index's
# order. A planner that saw the tables empty, small or never at all would choose others, and a cached plan would keep
# them while the tables grow. Correctness never depends on these settings.
_SESSION: Mapping[str, str] = {
    "statement_timeout": f"{STATEMENT_TIMEOUT_S}s",
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_sort": "off",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
}

# Firing joins what one statement wrote with what it is about to write: lists without an index, which nested loops would
# compare each with each.
_HASHING = {**_SESSION, "enable_hashjoin": "on"}

_UPKEEP: Mapping[str, str] = {"statement_timeout": "0", "jit": "off"}

_IDLE = "idle_in_transaction_session_timeout"

_SEVERAL_HOSTS = re.compile(r"(\w+)://(?:([^@/]*)@)?([^/?@]*,[^/?@]*)(/[^?]*)?(?:\?(.*))?", re.DOTALL)
"""What libpq takes and SQLAlchemy does not: `//user:password@one:5432,two:5432/database`."""

_TRY_AGAIN = (pg.SerializationFailure, pg.DeadlockDetected)
_REFUSED = (
    *_TRY_AGAIN,
    pg.QueryCanceled,
    pg.LockNotAvailable,
    pg.ReadOnlySqlTransaction,
    pg.CannotConnectNow,
    # Nothing of the transaction has happened.
    pg.IdleInTransactionSessionTimeout,
)
_OUT_OF_RESOURCES = "53"
"""The class of SQLSTATEs such as a full disk or too many connections, which psycopg has no common class for."""


def parse_url(url: str) -> URL:
    """Checks a database URL; the error names what is wrong and never shows the password."""
    try:
        parsed = make_url(_with_hosts_as_query(url))
    except (ArgumentError, ValueError):
        raise InvalidArgument.field(
            "database_url", "expected postgresql://user:password@host:port/database, found something else"
        ) from None
    if parsed.get_backend_name() not in ("postgresql", "postgres"):
        raise InvalidArgument.field(
            "database_url",
            f"expected the scheme postgresql://, found {parsed.drivername}://; Rota keeps everything in PostgreSQL",
        )
    return parsed.set(drivername="postgresql+psycopg")


def _with_hosts_as_query(url: str) -> str:
    """A URL that names several hosts, as SQLAlchemy reads it."""
    found = _SEVERAL_HOSTS.fullmatch(url)
    if found is None:
        return url
    scheme, who, places, path, query = found.groups()
    hosts, ports = [], []
    for place in places.split(","):
        host, _, port = place.rpartition(":") if re.search(r":\d*$", place) else (place, "", "")
        hosts.append(host.strip("[]"))
        ports.append(port or "5432")
    named = f"host={','.join(hosts)}&port={','.join(ports)}" + (f"&{query}" if query else "")
    return f"{scheme}://{who + '@' if who is not None else ''}{path or '/'}?{named}"


def conninfo(url: URL) -> str:
    """The same URL as libpq reads it."""
    _, found = url.get_dialect()().create_connect_args(url)
    return psycopg.conninfo.make_conninfo("", **{name: value for name, value in found.items() if name != "context"})


def writable(url: URL) -> dict[str, Any]:
    """What a connection asks for besides, unless the URL does: a server that takes writes."""
    return {} if "target_session_attrs" in url.query else {"target_session_attrs": "read-write"}


def translate(error: BaseException, *, write: bool) -> BaseException:
    """What a driver's error means to callers: Unavailable, OutcomeUnknown, or the error itself."""
    if isinstance(error, DBAPIError) and error.orig is not None:
        error = error.orig
    state = (error.sqlstate or "") if isinstance(error, psycopg.Error) else ""
    if isinstance(error, _REFUSED) or state.startswith(_OUT_OF_RESOURCES):
        return Unavailable(f"PostgreSQL refused for now ({_brief(error)}); try again", retry_after_s=RETRY_AFTER_S)
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | TimeoutError | PoolTimeout | OSError):
        kind = OutcomeUnknown if write else Unavailable
        return kind(
            f"the connection to PostgreSQL was lost ({_brief(error)}); repeat the call with the same request_id",
            retry_after_s=RETRY_AFTER_S,
        )
    return error


class Lane:
    """`size` dedicated connections that take turns. Each is opened when first needed, and again after it was lost."""

    def __init__(
        self,
        name: str,
        url: URL,
        size: int,
        on_error: Callable[[str], None],
        deadline_s: float = CLIENT_DEADLINE_S,
        settings: Mapping[str, str] = _SESSION,
    ) -> None:
        self._name = name
        self._set_for_session, self._set_for_transaction = (_set(settings, local) for local in ("false", "true"))
        self._connect_args = {"conninfo": conninfo(url), **writable(url)}
        self._pooled = False
        self._deadline_s = deadline_s
        self._on_error = on_error
        self._idle: list[psycopg.AsyncConnection[Row] | None] = [None] * size
        self._free = asyncio.Semaphore(size)
        self.size = size
        self.gate: Callable[[], bool] = lambda: True
        """Asked right before a statement is sent, however long it has waited for a connection."""

    async def run(self, sql: str, params: Params, *, write: bool = True) -> list[Row]:
        """One statement, one transaction. Call it only from tasks that no RPC can cancel."""

        async def work(conn: psycopg.AsyncConnection[Row]) -> list[Row]:
            if self._pooled:
                async with conn.transaction():
                    await conn.execute(self._set_for_transaction)
                    return await execute(conn, False)
            return await execute(conn, True)

        async def execute(conn: psycopg.AsyncConnection[Row], prepare: bool) -> list[Row]:
            cursor = conn.cursor(binary=True)
            await cursor.execute(sql, params, prepare=prepare)
            return await cursor.fetchall() if cursor.description else []

        return await self._with_connection(work, write=write)

    async def transact(self, work: Callable[[Run], Awaitable[T]]) -> T:
        """Several statements in one transaction: `work` gets a function that runs one."""

        async def inside(conn: psycopg.AsyncConnection[Row]) -> T:
            async def run(sql: str, params: Params) -> list[Row]:
                cursor = conn.cursor(binary=True)
                await cursor.execute(sql, params)
                return await cursor.fetchall() if cursor.description else []

            async with conn.transaction():
                if self._pooled:
                    await conn.execute(self._set_for_transaction)
                return await work(run)

        return await self._with_connection(inside, write=True)

    async def open(self) -> None:
        """Opens all of its connections."""
        for place, conn in enumerate(self._idle):
            if conn is None:
                self._idle[place] = await self._connect()

    async def local_host(self) -> str | None:
        """The address of this machine that the database is reached from. None: by a Unix socket."""

        async def look(conn: psycopg.AsyncConnection[Row]) -> str | None:
            with socket.socket(fileno=os.dup(conn.pgconn.socket)) as same:
                if same.family not in (socket.AF_INET, socket.AF_INET6):
                    return None
                return str(same.getsockname()[0])

        return await self._with_connection(look, write=False)

    async def close(self) -> None:
        for conn in self._idle:
            if conn is not None:
                await conn.close()
        self._idle = [None] * len(self._idle)

    async def _with_connection(
        self, work: Callable[[psycopg.AsyncConnection[Row]], Coroutine[None, None, T]], *, write: bool
    ) -> T:
        async with self._free:
            conn = self._idle.pop()
            try:
                for attempt in range(RETRIES):
                    if conn is None or conn.closed or _said_goodbye(conn):
                        conn = await self._connect()
                    if not self.gate():
                        raise Unavailable(f"too late for a statement of the {self._name}", retry_after_s=RETRY_AFTER_S)
                    try:
                        return await _within(self._deadline_s, work(conn), conn)
                    except _TRY_AGAIN:
                        if attempt == RETRIES - 1:
                            raise
                raise AssertionError("unreachable")
            except RotaError:
                raise
            except Exception as error:
                if conn is not None and (conn.broken or isinstance(error, pg.ReadOnlySqlTransaction)):
                    with suppress(Exception):
                        conn.pgconn.finish()
                    conn = None
                translated = translate(error, write=write)
                self._on_error(_kind(translated))
                raise translated from error
            finally:
                self._idle.append(conn)

    async def _connect(self) -> psycopg.AsyncConnection[Row]:
        try:
            conn = await psycopg.AsyncConnection.connect(
                **self._connect_args,
                autocommit=True,
                connect_timeout=CONNECT_TIMEOUT_S,
                application_name=f"rota {self._name}",
                keepalives_idle=10,
                keepalives_interval=5,
                keepalives_count=3,
                tcp_user_timeout=20_000,
            )
            await self._set_up(conn)
        except psycopg.Error as error:
            # Nothing was sent, so nothing can have happened.
            raise Unavailable(
                f"PostgreSQL cannot be reached ({_brief(error)}); is it running?", retry_after_s=RETRY_AFTER_S
            ) from error
        return conn

    async def _set_up(self, conn: psycopg.AsyncConnection[Row]) -> None:
        cursor = await conn.execute("SELECT pg_backend_pid()")
        # A pooler tells its clients another process than the one that serves them now, and later perhaps another one.
        if await cursor.fetchone() != (conn.info.backend_pid,):
            if not self._pooled:
                log.info("a pooler is before the database: %s prepare nothing and keep no settings", self._name)
            self._pooled = True
            conn.prepare_threshold = None
        else:
            await conn.execute(self._set_for_session)


class Database:
    """All connections of one process."""

    def __init__(
        self,
        url: str,
        *,
        claims: int = 3,
        writes: int = 4,
        on_error: Callable[[str], None] = lambda kind: None,
    ) -> None:
        parsed = parse_url(url)
        self._engine: AsyncEngine = create_async_engine(
            parsed,
            pool_size=4,
            max_overflow=3,
            pool_timeout=10,
            pool_pre_ping=True,
            connect_args={
                **writable(parsed),
                "connect_timeout": CONNECT_TIMEOUT_S,
                "application_name": "rota",
                "tcp_user_timeout": 20_000,
                "prepare_threshold": None,
            },
        )
        self.claims = Lane("claims", parsed, claims, on_error)
        self.writes = Lane("writes", parsed, writes, on_error)
        self.reads = Lane("reads", parsed, 1, on_error)
        self.fires = Lane("fires", parsed, 2, on_error, settings=_HASHING)
        """Firing, and every change of schedules."""

        self.upkeep = Lane("upkeep", parsed, 1, on_error, UPKEEP_DEADLINE_S, _UPKEEP)
        """Moving old rows, whole days at a time."""

        self.terms = Lane("terms", parsed, 2, on_error, TERMS_DEADLINE_S)
        """Renewal of shard terms and session beats: never behind bulk work, and impatient."""

        self._lanes = (self.claims, self.writes, self.reads, self.fires, self.upkeep, self.terms)

    async def open(self) -> None:
        """Opens the dedicated connections: whoever cannot have them all could do some duties and not the others."""
        for lane in self._lanes:
            await lane.open()

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[AsyncConnection]:
        """A transaction of SQLAlchemy Core, committed at the end of the block."""
        try:
            async with self._engine.begin() as conn:
                try:
                    yield conn
                except DBAPIError as error:
                    if isinstance(error.orig, pg.ReadOnlySqlTransaction):
                        await conn.invalidate()
                    raise
        except RotaError:
            raise
        except Exception as error:
            raise translate(error, write=True) from error

    async def close(self) -> None:
        for lane in self._lanes:
            await lane.close()
        await self._engine.dispose()


def _set(settings: Mapping[str, str], local: str) -> str:
    values = {key: f"'{value}'" for key, value in settings.items()}
    values[_IDLE] = f"coalesce(nullif(current_setting('{_IDLE}'), '0'), '{IDLE_IN_TRANSACTION_S}s')"
    return "SELECT " + ", ".join(f"set_config('{key}', {value}, {local})" for key, value in values.items())


def by_key(row: str, key: str, columns: Sequence[str] = ("tenant_id", "id")) -> str:
    """SQL: `row` has the primary key that `key` names, as one look-up per key in that key's index.

    Said as plain equations, a planner that takes the table for nearly empty begins with the table, reads all of it in
    the index's order and looks for each row among the keys; a cached plan goes on so when the table has grown. Where
    the index's first column is compared with an array, which is a condition for an index but no join, its order is of
    no use, and the plan can but begin with the keys. (A row comparison would do the same, but before PostgreSQL 18 its
    scan does not end with the key: it reads on to the tenant's last row.)
    """
    first, *others = columns
    return " AND ".join(
        [f"{row}.{first} = ANY (ARRAY[{key}.{first}])", *(f"{row}.{column} = {key}.{column}" for column in others)]
    )


def array(values: Sequence[object]) -> str:
    """A PostgreSQL array literal of values that need no quoting: ids and numbers. None becomes NULL.

    psycopg quotes a list element by element, at five times the cost.
    """
    return "{" + ",".join(["NULL" if v is None else str(v) for v in values]) + "}"


def text_array(values: Sequence[str | None]) -> str:
    """The same of any texts, quoted."""
    return "{" + ",".join(["NULL" if v is None else _quoted(v) for v in values]) + "}"


async def _within(deadline_s: float, work: Coroutine[None, None, T], conn: psycopg.AsyncConnection[Row]) -> T:
    """Awaits `work` up to a deadline that holds even where cancelling would hang.

    On a black-holed connection psycopg answers a cancellation only after ten seconds. So at the deadline the
    connection's own socket is shut down, which no network can delay, and the work ends by that error.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=deadline_s)
    finally:
        late = not task.done()
        if late:
            _hang_up(conn)
            await asyncio.wait({task}, timeout=HANG_UP_S)
            conn.pgconn.finish()
            task.cancel()
            task.add_done_callback(lambda t: t.cancelled() or t.exception())
    if late or task.cancelled():
        raise TimeoutError(f"no answer within {deadline_s:g} s")
    return task.result()


def _said_goodbye(conn: psycopg.AsyncConnection[Row]) -> bool:
    """Whether an idle connection has something to read: the server ended it, while nothing was on its way. Found before
    a statement is sent, that costs a new connection; found after, it would leave the outcome of a write in doubt."""
    watch = select.poll()
    watch.register(conn.pgconn.socket, select.POLLIN)
    if not watch.poll(0):
        return False
    conn.pgconn.finish()
    return True


def _hang_up(conn: psycopg.AsyncConnection[Row]) -> None:
    """Ends a connection while somebody waits on its socket. The descriptor stays taken until they have let go of it:
    closed at once, its number would be the next connection's, and their clean-up would take that one's place in the
    event loop."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(conn.pgconn.socket)) as same:
        same.shutdown(socket.SHUT_RDWR)


def _quoted(text: str) -> str:
    if '"' in text or "\\" in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _kind(error: BaseException) -> str:
    if isinstance(error, OutcomeUnknown):
        return "outcome_unknown"
    return "unavailable" if isinstance(error, Unavailable) else "refused"


def _brief(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
