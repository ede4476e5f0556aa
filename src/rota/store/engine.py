"""Connections to PostgreSQL, and what their failures mean.

Two ways to the database:

- `Lane`: a few dedicated connections in autocommit for the hot statements, one prepared statement a transaction, with
  results in binary. No pool: handing a pooled connection out costs more than a small statement.
- `Database.begin`: SQLAlchemy Core over a small pool for everything else.

A write has three outcomes: done, refused, unknown. Losing the connection in the middle of a write raises
`OutcomeUnknown`, never a plain failure, so that nobody takes it for one.
"""

import asyncio
import os
import select
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import errors as pg
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from rota.domain.errors import InvalidArgument, OutcomeUnknown, RotaError, Unavailable

T = TypeVar("T")
Row = tuple[Any, ...]
Params = Mapping[str, object]
Run = Callable[[str, Params], Awaitable[list[Row]]]
"""Runs one statement in a transaction that is open."""

CONNECT_TIMEOUT_S = 5
STATEMENT_TIMEOUT_S = 30
CLIENT_DEADLINE_S = 35.0
"""When a connection says nothing at all for this long it is given up; the server's own timeout comes first."""

TERMS_DEADLINE_S = 3.0

HANG_UP_S = 1.0
"""How long to wait for a statement to notice that its own socket was shut down: an instant, normally."""

RETRIES = 3
RETRY_AFTER_S = 1.0

# The hot statements have one right plan each: from a short list of keys by nested loops into an index, in the index's
# order. A planner that saw the tables empty, small or never at all would choose others, and a cached plan would keep
# them while the tables grow. Correctness never depends on these settings.
_SESSION = f"""
SET statement_timeout = '{STATEMENT_TIMEOUT_S}s';
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_sort = off;
SET jit = off;
SET max_parallel_workers_per_gather = 0
"""

# Firing joins what one statement wrote with what it is about to write: lists without an index, which nested loops would
# compare each with each.
_HASHING = f"{_SESSION}; SET enable_hashjoin = on"

_TRY_AGAIN = (pg.SerializationFailure, pg.DeadlockDetected)
_REFUSED = (
    *_TRY_AGAIN,
    pg.QueryCanceled,
    pg.LockNotAvailable,
    pg.ReadOnlySqlTransaction,
    pg.CannotConnectNow,
)
_OUT_OF_RESOURCES = "53"
"""The class of SQLSTATEs such as a full disk or too many connections, which psycopg has no common class for."""


def parse_url(url: str) -> URL:
    """Checks a database URL; the error names what is wrong and never shows the password."""
    try:
        parsed = make_url(url)
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


def conninfo(url: URL) -> str:
    """The same URL as libpq reads it."""
    return url.set(drivername="postgresql").render_as_string(hide_password=False)


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
        settings: str = _SESSION,
    ) -> None:
        self._name = name
        self._settings = settings
        self._conninfo = conninfo(url)
        self._deadline_s = deadline_s
        self._on_error = on_error
        self._idle: list[psycopg.AsyncConnection[Row] | None] = [None] * size
        self._free = asyncio.Semaphore(size)
        self.size = size

    async def run(self, sql: str, params: Params, *, write: bool = True) -> list[Row]:
        """One statement, one transaction. Call it only from tasks that no RPC can cancel."""

        async def work(conn: psycopg.AsyncConnection[Row]) -> list[Row]:
            cursor = conn.cursor(binary=True)
            await cursor.execute(sql, params, prepare=True)
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
                return await work(run)

        return await self._with_connection(inside, write=True)

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
                self._conninfo,
                autocommit=True,
                connect_timeout=CONNECT_TIMEOUT_S,
                application_name=f"rota {self._name}",
                keepalives_idle=10,
                keepalives_interval=5,
                keepalives_count=3,
                tcp_user_timeout=20_000,
            )
            await conn.execute(self._settings)
        except psycopg.Error as error:
            # Nothing was sent, so nothing can have happened.
            raise Unavailable(
                f"PostgreSQL cannot be reached ({_brief(error)}); is it running?", retry_after_s=RETRY_AFTER_S
            ) from error
        return conn


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
            max_overflow=4,
            pool_timeout=10,
            pool_pre_ping=True,
            connect_args={
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

        self.terms = Lane("terms", parsed, 2, on_error, TERMS_DEADLINE_S)
        """Renewal of shard terms and session beats: never behind bulk work, and impatient."""

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[AsyncConnection]:
        """A transaction of SQLAlchemy Core, committed at the end of the block."""
        try:
            async with self._engine.begin() as conn:
                yield conn
        except RotaError:
            raise
        except Exception as error:
            raise translate(error, write=True) from error

    async def close(self) -> None:
        for lane in (self.claims, self.writes, self.reads, self.fires, self.terms):
            await lane.close()
        await self._engine.dispose()


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
