"""What an operator sees and does of an outbox, from a command."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from rota.outbox import install
from rota.outbox.database import Connection, Place
from rota.outbox.table import Counts, Parked, Table

T = TypeVar("T")

PAGE = 1_000


def counts(place: Place) -> Counts:
    return _with(place, lambda table: table.counts())


def parked(place: Place, limit: int) -> list[Parked]:
    """The first rows that are parked."""
    return _with(place, lambda table: table.parked(0, limit))


def retry(place: Place, rows: Sequence[int] | None) -> list[int]:
    """Lets parked rows be sent again, these or all; those that were parked."""
    return _with(place, lambda table: _decide(table, table.retry, rows))


def discard(place: Place, rows: Sequence[int] | None) -> list[int]:
    """Deletes parked rows, these or all; those that were parked."""
    return _with(place, lambda table: _decide(table, table.discard, rows))


async def _decide(
    table: Table, act: Callable[[Sequence[int]], Awaitable[list[int]]], rows: Sequence[int] | None
) -> list[int]:
    if rows is not None:
        return await act(rows)
    done: list[int] = []
    after = 0
    while page := await table.parked(after, PAGE):
        after = page[-1].seq
        done += await act([row.seq for row in page])
    return done


def _with(place: Place, work: Callable[[Table], Awaitable[T]]) -> T:
    install.check(place)

    async def run() -> T:
        connection = Connection(place)
        try:
            return await work(Table(connection))
        finally:
            await connection.close()

    return asyncio.run(run())
