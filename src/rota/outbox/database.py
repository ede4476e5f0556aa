"""The application's database: a connection, and what its failures mean.

One statement is one transaction, and nothing is kept in the session, so a pooler in transaction mode may stand between.
"""

import asyncio
import os
import re
import socket
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
import psycopg.conninfo
from psycopg import errors as pg
from psycopg import sql

from rota.domain.errors import FailedPrecondition, InvalidArgument, RotaError, Unavailable
from rota.outbox.limits import CONNECT_TIMEOUT_S, STATEMENT_S

T = TypeVar("T")
Row = tuple[Any, ...]

HANG_UP_S = 1.0
NAME_BYTES_MAX = 63
_MISSING = (pg.UndefinedTable, pg.UndefinedFunction, pg.UndefinedColumn)


class Place:
    """Where an outbox is: a database and a schema in it. `option` is what errors call the URL."""

    def __init__(self, url: str, schema: str, option: str = "--url") -> None:
        scheme, separator, rest = url.strip().partition("://")
        try:
            # SQLAlchemy's spelling names the driver, too.
            self._parts = psycopg.conninfo.conninfo_to_dict(
                f"{scheme.partition('+')[0]}://{rest}" if separator else scheme
            )
        except psycopg.ProgrammingError:
            raise InvalidArgument.field(
                option, "expected postgresql://user:password@host:port/database, found something else"
            ) from None
        # A dollar could end the text of the functions.
        if not schema or re.search(r"[\0$]", schema) or len(schema.encode("utf-8", "replace")) > NAME_BYTES_MAX:
            raise InvalidArgument.field("--schema", f"expected the name of a schema, without $, found {schema[:80]!r}")
        self.schema = schema
        self._option = option

    def __str__(self) -> str:
        """Without a password."""
        host, port = self._parts.get("host", "localhost"), self._parts.get("port", 5432)
        return f"{host}:{port}/{self._parts.get('dbname', '')}"

    @property
    def arguments(self) -> Mapping[str, Any]:
        """What psycopg connects with; the URL's own word counts."""
        usual = {
            "connect_timeout": CONNECT_TIMEOUT_S,
            "application_name": "rota outbox",
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 20_000,
            "target_session_attrs": "read-write",
        }
        return {**usual, **self._parts, "autocommit": True, "prepare_threshold": None}

    def compose(self, text: str) -> sql.Composed:
        """A statement with the names of the tables filled in."""
        names = {name: sql.Identifier(self.schema, f"rota_{name}") for name in ("outbox", "outbox_keys")}
        return sql.SQL(text).format(**names)

    def explain(self, error: BaseException) -> RotaError:
        """What a driver's error means to a person. Unavailable: it may be otherwise later."""
        if isinstance(error, RotaError):
            return error
        words = _brief(error)
        if isinstance(error, pg.InvalidSchemaName):
            return FailedPrecondition(
                f"schema {self.schema}: expected in the database {self}, found none; create it, or correct --schema"
            )
        if isinstance(error, _MISSING):
            return FailedPrecondition(
                f"schema {self.schema}: expected Rota's outbox in the database {self}, found none ({words}); "
                "install it by rota migrate --outbox URL --schema NAME"
            )
        if isinstance(error, pg.InsufficientPrivilege):
            return FailedPrecondition(
                f"the database {self} refuses ({words}); connect as the owner of the schema, or let the owner grant it "
                "by rota migrate --outbox URL --schema NAME --grant-relay ROLE"
            )
        if isinstance(error, pg.LockNotAvailable):
            return Unavailable(f"the database {self} is busy with these tables ({words}); try again")
        if isinstance(error, psycopg.ProgrammingError):
            return FailedPrecondition(f"the database {self} refuses ({words}); correct what it names")
        if isinstance(error, psycopg.Error) and not isinstance(error, psycopg.OperationalError):
            return Unavailable(f"the database {self} refuses ({words}); try again")
        return Unavailable(
            f"the application's database cannot be reached at {self} ({words}); start it, or correct {self._option}"
        )


class Connection:
    """A connection that is opened when it is first needed, and again after it was lost. Statements take turns."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._conn: psycopg.AsyncConnection[Row] | None = None
        self._turn = asyncio.Lock()

    async def run(self, statement: sql.Composed, params: Mapping[str, object]) -> Sequence[Row]:
        """One statement in a transaction of its own. Raises RotaError; what it wrote may then be written or not."""
        async with self._turn:
            try:
                if self._conn is None or self._conn.closed:
                    self._conn = await psycopg.AsyncConnection.connect(**self.place.arguments)
                return await _within(STATEMENT_S, _execute(self._conn, statement, params), self._conn)
            except (psycopg.Error, OSError, TimeoutError) as error:
                # A server that became a standby answers, and takes nothing.
                if self._conn is not None and isinstance(error, pg.ReadOnlySqlTransaction):
                    self._conn.pgconn.finish()
                raise self.place.explain(error) from error

    async def close(self) -> None:
        if self._conn is not None:
            await self._conn.close()


async def _execute(
    conn: psycopg.AsyncConnection[Row], statement: sql.Composed, params: Mapping[str, object]
) -> Sequence[Row]:
    cursor = await conn.execute(statement, params)
    return await cursor.fetchall() if cursor.description else []


async def _within(deadline_s: float, work: Coroutine[None, None, T], conn: psycopg.AsyncConnection[Row]) -> T:
    """Awaits `work` up to a deadline that holds even where cancelling would hang: on a black-holed connection psycopg
    answers a cancellation only after ten seconds, so the connection's own socket is shut down, which ends the work."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=deadline_s)
    finally:
        late = not task.done()
        if late:
            with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(conn.pgconn.socket)) as same:
                same.shutdown(socket.SHUT_RDWR)
            await asyncio.wait({task}, timeout=HANG_UP_S)
            conn.pgconn.finish()
            task.cancel()
            task.add_done_callback(lambda t: t.cancelled() or t.exception())
    if late:
        raise TimeoutError(f"no answer within {deadline_s:g} s")
    return task.result()


def _brief(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
