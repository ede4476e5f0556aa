"""Helpers for effects that must happen once although attempts may repeat. Execution is at least once; an effect is
exactly once when its target takes part.

E1, the target is PostgreSQL: `once` stores the effect key in the transaction of the change itself.

    with conn.transaction():
        with effects.once(conn, lease) as effect:
            if effect.first:
                conn.execute("update accounts set balance = balance - 10 where id = 7")

E2, the target honours idempotency keys: `effect_headers` are the HTTP headers to send.

E3, the target does neither: `ledger` writes down what is about to be tried, and how it ended.

Why `once` is exact: the key is unique, so of two attempts the second waits for the first one's commit and then sees
its row; a crash takes key and change away together. The fence refuses an attempt older than one already seen.
"""

import logging
from collections.abc import Generator, Mapping
from datetime import timedelta
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import grpc

from rota_sdk.errors import StaleFence
from rota_sdk.ledger import Applied, EffectInDoubt, InDoubt, Ledger, NotApplied, Probe
from rota_sdk.model import Span, seconds

if TYPE_CHECKING:
    from rota_sdk.lease import Lease

__all__ = [
    "DDL",
    "REDRIVE",
    "Applied",
    "EffectInDoubt",
    "HasEffect",
    "InDoubt",
    "Ledger",
    "NotApplied",
    "Once",
    "Probe",
    "create_table",
    "create_table_async",
    "effect_headers",
    "ledger",
    "once",
    "window_shortfall",
]

log = logging.getLogger("rota_sdk.effects")

REDRIVE: Final = timedelta(days=14)
"""How long after its deadline a dead job may be redriven, where nobody says otherwise."""

DDL: Final = """\
create table if not exists rota_effects (
    effect_key text primary key,
    fence      bigint not null,
    applied_at timestamptz not null default now()
)"""
# {} are parameters, in the driver's own spelling.
_SAVEPOINT: Final = "savepoint rota_effect"
_ROLLBACK: Final = "rollback to savepoint rota_effect"
_RELEASE: Final = "release savepoint rota_effect"
_INSERT: Final = "insert into rota_effects (effect_key, fence) values ({}, {}) on conflict (effect_key) do nothing"
# Touches the row only with a fence as new as any seen; the lock holds until the caller commits.
_RAISE: Final = "update rota_effects set fence = {} where effect_key = {} and fence <= {}"
_SEEN: Final = "select fence from rota_effects where effect_key = {}"
# psycopg's number for a session outside of any transaction.
_IDLE: Final = 0

_warned: set[tuple[str, float]] = set()


class HasEffect(Protocol):
    """What names an effect: a Lease, or anything with its key and fence."""

    @property
    def effect_key(self) -> str:
        """Equal in all attempts."""

    @property
    def fence(self) -> int:
        """Grows with every attempt."""


def ledger(
    lease: "Lease",
    effect_key: str = "",
    *,
    in_doubt: InDoubt = InDoubt.ASK,
    probe: Probe | None = None,
    refused: tuple[type[BaseException], ...] = (),
) -> Ledger:
    """Writes one effect down at the coordinator around the call to a target that cannot deduplicate.

    Use it with `with`, or in async handlers with `async with`; call the target once in the block, if `proceed`.
    `effect_key` names one of several effects of a job; default: the job's. The end of the block says APPLIED; an
    exception that leaves it says UNKNOWN, unless it is one of `refused`, by which the target says that it did nothing.

    What an earlier attempt left in doubt is decided by `probe`, which gets the key and answers Applied, NotApplied or
    None; without one, or where it cannot tell, by `in_doubt`. With ASK the block raises EffectInDoubt then, which ends
    the attempt, and the job waits for an operator.

    Raises StaleFence when the lease is another attempt's, Cancelled when the handler is asked to stop before the block.
    """
    return Ledger(lease, effect_key or lease.effect_key, in_doubt, probe, refused)


def effect_headers(lease: HasEffect, *, window: Span | None = None, redrive: Span = REDRIVE) -> dict[str, str]:
    """Headers for an HTTP target that honours idempotency keys.

    With `window`, how long the target remembers a key, it warns once for each job type that may be tried for longer,
    or be redriven up to `redrive` after its deadline.
    """
    if window is not None:
        _warn(lease, window, redrive)
    return {"Idempotency-Key": lease.effect_key, "Rota-Fence": str(lease.fence)}


def window_shortfall(window: Span, *, total: Span | None, redrive: Span = REDRIVE) -> float:
    """By how many seconds a target forgets a key too early: it is sent for the last time up to `total` (the job's
    total timeout; None: there is none, so inf) and `redrive` after the first. 0: early enough."""
    if total is None:
        return float("inf")
    return max(0.0, seconds(total) + seconds(redrive) - seconds(window))


def _warn(lease: Any, window: Span, redrive: Span) -> None:
    told = (getattr(lease, "type", ""), seconds(window))
    short = window_shortfall(window, total=getattr(lease, "deadline", None), redrive=redrive)
    if not short or told in _warned:
        return
    _warned.add(told)
    if short == float("inf"):
        log.warning(
            "job type %r has no total timeout, and its target forgets idempotency keys after %.0f s: an attempt after "
            "that is a second effect; give its jobs Timeouts(total=...)",
            *told,
        )
    else:
        log.warning(
            "job type %r: its target forgets idempotency keys after %.0f s, %.0f s before the last possible attempt, "
            "redrives included: an attempt after that is a second effect; give its jobs a shorter total timeout",
            *told,
            short,
        )


def create_table(conn: Any) -> None:
    """Creates the table of `once` where it is missing. Commits nothing by itself."""
    if _is_sqlalchemy(conn):
        conn.execute(_text(DDL))
        return
    cursor = conn.cursor()
    try:
        cursor.execute(DDL)
    finally:
        cursor.close()


async def create_table_async(conn: Any) -> None:
    """As `create_table`, for an asynchronous connection."""
    if _is_sqlalchemy(conn):
        await conn.execute(_text(DDL))
        return
    cursor = conn.cursor()
    try:
        await cursor.execute(DDL)
    finally:
        await cursor.close()


def once(conn: Any, lease: HasEffect, effect_key: str = "") -> "Once":
    """Guards one effect in the caller's open transaction; use it with `with` or `async with`.

    `conn` is a psycopg-like connection: cursor(), %s parameters, outside of autocommit or in a transaction block. Or
    it is a connection or session of SQLAlchemy, synchronous or not, over whichever driver.
    `effect_key` names one of several effects of a job; default: the job's.
    The block runs in any case: `first` says whether the change is still to be made. An exception that leaves the
    block takes the key (and what the block did) back, even when the caller catches it and commits.
    Raises StaleFence when a newer attempt was here, RuntimeError outside of a transaction.
    """
    return Once(conn, effect_key or lease.effect_key, lease.fence)


Statement = tuple[str, tuple[object, ...]]
Answer = tuple[int, Any]
"""How many rows a statement touched, and the first that it returned."""


class Once:
    """The guard of one effect. `first`: the effect is not applied yet."""

    __slots__ = ("_conn", "_cursor", "fence", "first", "key")

    def __init__(self, conn: Any, key: str, fence: int) -> None:
        if not key or fence <= 0:
            raise ValueError(f"expected an effect key and a positive fence, found {key!r} and {fence}")
        if not _is_sqlalchemy(conn) and type(conn).__module__.startswith("asyncpg"):
            raise TypeError(
                "effects.once: expected a psycopg-like connection, found one of asyncpg's own; "
                "use asyncpg through SQLAlchemy, postgresql+asyncpg://"
            )
        self._conn = conn
        self._cursor: Any = None
        self.key = key
        self.fence = fence
        self.first = False

    def __enter__(self) -> Self:
        self._open()
        try:
            steps = self._take()
            statement = next(steps)
            while True:
                try:
                    statement = steps.send(self._execute(*statement))
                except StopIteration as done:
                    self.first = done.value
                    return self
        except BaseException:
            self._close()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        try:
            if kind is None:
                self._execute(_RELEASE, ())
            else:
                try:
                    self._execute(_ROLLBACK, ())
                except Exception:
                    # The connection is lost and the server rolls back; the block's own error says more.
                    return
        finally:
            self._close()

    async def __aenter__(self) -> Self:
        self._open()
        try:
            steps = self._take()
            statement = next(steps)
            while True:
                answer = await self._execute_async(*statement)
                try:
                    statement = steps.send(answer)
                except StopIteration as done:
                    self.first = done.value
                    return self
        except BaseException:
            await self._close_async()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                await self._execute_async(_RELEASE, ())
            else:
                try:
                    await self._execute_async(_ROLLBACK, ())
                except Exception:
                    return
        finally:
            await self._close_async()

    def _take(self) -> Generator[Statement, Answer, bool]:
        """The statements that take the key; whether it was free."""
        yield _SAVEPOINT, ()
        while True:
            count, _ = yield _INSERT, (self.key, self.fence)
            if count == 1:
                return True
            count, _ = yield _RAISE, (self.fence, self.key, self.fence)
            if count == 1:
                return False
            _, seen = yield _SEEN, (self.key,)
            # No row: it was pruned between the statements, so the key is free again.
            if seen is not None:
                raise self._stale(seen)

    def _open(self) -> None:
        if _is_sqlalchemy(self._conn):
            return
        # In autocommit the key would be kept although the change then fails: the effect would be lost. With
        # SQLAlchemy's, PostgreSQL itself refuses the savepoint.
        if getattr(self._conn, "autocommit", False):
            info = getattr(self._conn, "info", None)
            if info is None or getattr(info, "transaction_status", _IDLE) == _IDLE:
                raise RuntimeError(
                    "effects.once: expected an open transaction, found a connection in autocommit; "
                    "use `with conn.transaction():` around it"
                )
        self._cursor = self._conn.cursor()

    def _execute(self, sql: str, params: tuple[object, ...]) -> Answer:
        if self._cursor is None:
            return _answer(self._conn.execute(*_spelt(sql, params)))
        self._cursor.execute(sql.format(*["%s"] * len(params)), params or None)
        return self._cursor.rowcount, self._cursor.fetchone() if sql is _SEEN else None

    async def _execute_async(self, sql: str, params: tuple[object, ...]) -> Answer:
        if self._cursor is None:
            return _answer(await self._conn.execute(*_spelt(sql, params)))
        await self._cursor.execute(sql.format(*["%s"] * len(params)), params or None)
        return self._cursor.rowcount, await self._cursor.fetchone() if sql is _SEEN else None

    def _close(self) -> None:
        if self._cursor is not None:
            self._cursor.close()

    async def _close_async(self) -> None:
        if self._cursor is not None:
            await self._cursor.close()

    def _stale(self, row: Any) -> StaleFence:
        seen = row["fence"] if isinstance(row, Mapping) else row[0]
        return StaleFence(
            "STALE_FENCE",
            f"effect {self.key!r}: fence {self.fence} is older than {seen}, which was seen for it; drop this attempt",
            {"fence": str(seen), "cause": "REASSIGNED"},
            grpc.StatusCode.ABORTED,
        )


def _is_sqlalchemy(conn: Any) -> bool:
    return any(kind.__module__.startswith("sqlalchemy.") for kind in type(conn).__mro__)


def _text(sql: str) -> Any:
    # Whoever has a connection of SQLAlchemy's has the package; nobody else needs it.
    return import_module("sqlalchemy").text(sql)


def _spelt(sql: str, params: tuple[object, ...]) -> tuple[Any, dict[str, object]]:
    """A statement and its parameters as SQLAlchemy takes them."""
    named = {f"p{number}": value for number, value in enumerate(params)}
    return _text(sql.format(*(f":{name}" for name in named))), named


def _answer(result: Any) -> Answer:
    return result.rowcount, result.fetchone() if result.returns_rows else None
