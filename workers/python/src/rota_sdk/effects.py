"""Helpers for effects that must happen once although attempts may repeat.

E1, the target is PostgreSQL: `once` stores the effect key in the transaction of the change itself.

    with conn.transaction():
        with effects.once(conn, lease) as effect:
            if effect.first:
                conn.execute("update accounts set balance = balance - 10 where id = 7")

E2, the target honours idempotency keys: `effect_headers` are the HTTP headers to send.

Why `once` is exact: the key is unique, so of two attempts the second waits for the first one's commit and then sees
its row; a crash takes key and change away together. The fence refuses an attempt older than one already seen.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Protocol, Self

import grpc

from rota_sdk.errors import StaleFence

DDL: Final = """\
create table if not exists rota_effects (
    effect_key text primary key,
    fence      bigint not null,
    applied_at timestamptz not null default now()
)"""
_SAVEPOINT: Final = "savepoint rota_effect"
_ROLLBACK: Final = "rollback to savepoint rota_effect"
_RELEASE: Final = "release savepoint rota_effect"
_INSERT: Final = "insert into rota_effects (effect_key, fence) values (%s, %s) on conflict (effect_key) do nothing"
# Touches the row only with a fence as new as any seen; the lock holds until the caller commits.
_RAISE: Final = "update rota_effects set fence = %s where effect_key = %s and fence <= %s"
_SEEN: Final = "select fence from rota_effects where effect_key = %s"
# psycopg's number for a session outside of any transaction.
_IDLE: Final = 0


class HasEffect(Protocol):
    """What names an effect: a Lease, or anything with its key and fence."""

    @property
    def effect_key(self) -> str:
        """Equal in all attempts."""

    @property
    def fence(self) -> int:
        """Grows with every attempt."""


def effect_headers(lease: "HasEffect") -> dict[str, str]:
    """Headers for an HTTP target that honours idempotency keys."""
    return {"Idempotency-Key": lease.effect_key, "Rota-Fence": str(lease.fence)}


def create_table(conn: Any) -> None:
    """Creates the table of `once` where it is missing. Commits nothing by itself."""
    cursor = conn.cursor()
    try:
        cursor.execute(DDL)
    finally:
        cursor.close()


async def create_table_async(conn: Any) -> None:
    """As `create_table`, for an asynchronous connection."""
    cursor = conn.cursor()
    try:
        await cursor.execute(DDL)
    finally:
        await cursor.close()


def once(conn: Any, lease: HasEffect, effect_key: str = "") -> "Once":
    """Guards one effect in the caller's open transaction; use it with `with` or `async with`.

    `conn` is a psycopg-like connection: cursor(), %s parameters, outside of autocommit or in a transaction block.
    `effect_key` names one of several effects of a job; default: the job's.
    The block runs in any case: `first` says whether the change is still to be made. An exception that leaves the
    block takes the key (and what the block did) back, even when the caller catches it and commits.
    Raises StaleFence when a newer attempt was here, RuntimeError outside of a transaction.
    """
    return Once(conn, effect_key or lease.effect_key, lease.fence)


class Once:
    """The guard of one effect. `first`: the effect is not applied yet."""

    __slots__ = ("_conn", "_cursor", "fence", "first", "key")

    def __init__(self, conn: Any, key: str, fence: int) -> None:
        if not key or fence <= 0:
            raise ValueError(f"expected an effect key and a positive fence, found {key!r} and {fence}")
        self._conn = conn
        self._cursor: Any = None
        self.key = key
        self.fence = fence
        self.first = False

    def __enter__(self) -> Self:
        self._check_transaction()
        cursor = self._cursor = self._conn.cursor()
        try:
            cursor.execute(_SAVEPOINT)
            while True:
                cursor.execute(_INSERT, (self.key, self.fence))
                if cursor.rowcount == 1:
                    self.first = True
                    return self
                cursor.execute(_RAISE, (self.fence, self.key, self.fence))
                if cursor.rowcount == 1:
                    return self
                cursor.execute(_SEEN, (self.key,))
                seen = cursor.fetchone()
                # No row: it was pruned between the statements, so the key is free again.
                if seen is not None:
                    raise self._stale(seen)
        except BaseException:
            cursor.close()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        try:
            if kind is None:
                self._cursor.execute(_RELEASE)
            else:
                try:
                    self._cursor.execute(_ROLLBACK)
                except Exception:
                    # The connection is lost and the server rolls back; the block's own error says more.
                    return
        finally:
            self._cursor.close()

    async def __aenter__(self) -> Self:
        self._check_transaction()
        cursor = self._cursor = self._conn.cursor()
        try:
            await cursor.execute(_SAVEPOINT)
            while True:
                await cursor.execute(_INSERT, (self.key, self.fence))
                if cursor.rowcount == 1:
                    self.first = True
                    return self
                await cursor.execute(_RAISE, (self.fence, self.key, self.fence))
                if cursor.rowcount == 1:
                    return self
                await cursor.execute(_SEEN, (self.key,))
                seen = await cursor.fetchone()
                if seen is not None:
                    raise self._stale(seen)
        except BaseException:
            await cursor.close()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                await self._cursor.execute(_RELEASE)
            else:
                try:
                    await self._cursor.execute(_ROLLBACK)
                except Exception:
                    return
        finally:
            await self._cursor.close()

    def _check_transaction(self) -> None:
        """In autocommit the key would be kept although the change then fails: the effect would be lost."""
        if not getattr(self._conn, "autocommit", False):
            return
        info = getattr(self._conn, "info", None)
        if info is None or getattr(info, "transaction_status", _IDLE) == _IDLE:
            raise RuntimeError(
                "effects.once: expected an open transaction, found a connection in autocommit; "
                "use `with conn.transaction():` around it"
            )

    def _stale(self, row: Any) -> StaleFence:
        seen = row["fence"] if isinstance(row, Mapping) else row[0]
        return StaleFence(
            "STALE_FENCE",
            f"effect {self.key!r}: fence {self.fence} is older than {seen}, which was seen for it; drop this attempt",
            {"fence": str(seen), "cause": "REASSIGNED"},
            grpc.StatusCode.ABORTED,
        )
