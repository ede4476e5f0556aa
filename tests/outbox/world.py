"""An application with an outbox, and a Rota that a test scripts."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import sql

from rota.clock import Clock, SystemClock
from rota.outbox import operate
from rota.outbox.database import Connection, Place
from rota.outbox.relay import Relay
from rota.outbox.sender import Answer, Fate
from rota.outbox.table import Parked, Table
from rota.outbox.wish import Parcel

T = TypeVar("T")

SCHEMA = "app"
POLL_S = 0.05


class App:
    """The application's database; its outbox is in schema app."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.place = Place(url, SCHEMA)

    def connect(self, **arguments: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url, **arguments)

    def run(self, statement: str, **params: Any) -> list[Any]:
        """One statement in a transaction of its own, with the outbox's schema on the path."""
        with self.connect(autocommit=True) as conn:
            conn.execute(f"set search_path = {SCHEMA}")
            cursor = conn.execute(statement.encode(), params or None)
            return cursor.fetchall() if cursor.description else []

    def enqueue(self, type: str = "greet", **arguments: Any) -> str:
        """In a transaction of its own."""
        with self.connect() as conn:
            return enqueue(conn, type, **arguments)

    def many(self, count: int, arguments: str = "") -> None:
        """Rows with the payloads 1 to `count`, in one transaction. `arguments` may name n."""
        more = f", {arguments}" if arguments else ""
        self.run(f"select rota_enqueue('greet', to_jsonb(n){more}) from generate_series(1, {count}) n")

    def rows(self, columns: str = "seq") -> list[Any]:
        return self.run(f"select {columns} from rota_outbox order by seq")

    @property
    def count(self) -> int:
        return int(self.run("select count(*) from rota_outbox")[0][0])

    def parked(self) -> list[Parked]:
        return outside_of_the_loop(operate.parked, self.place, 100)

    def retry(self, *rows: int) -> list[int]:
        return outside_of_the_loop(operate.retry, self.place, rows or None)

    def discard(self, *rows: int) -> list[int]:
        return outside_of_the_loop(operate.discard, self.place, rows or None)

    def expire_claims(self) -> None:
        """As if the relays that hold them had died half a minute ago."""
        self.run("update rota_outbox set claimed_until = now() where claimed_until is not null")


def outside_of_the_loop(call: Callable[..., T], *arguments: Any) -> T:
    """What a command does, which has a loop of its own."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call, *arguments).result()


def enqueue(conn: psycopg.Connection[Any], type: str = "greet", **arguments: Any) -> str:
    """In the connection's transaction; arguments as rota_enqueue names them."""
    given = {"type": type, **arguments}
    named = sql.SQL(", ").join(sql.SQL("{} => {}").format(sql.Identifier(n), sql.Placeholder(n)) for n in given)
    row = conn.execute(sql.SQL("select app.rota_enqueue({})").format(named), given).fetchone()
    assert row is not None
    return str(row[0])


class ScriptedRota:
    """Keeps what it was asked to create as Rota does: once for each request id. `before` may hold a call up or answer
    it instead, and so may `after`, when the jobs are there."""

    def __init__(self) -> None:
        self.created: list[Any] = []
        self.sent: list[Parcel] = []
        self.before: Callable[[Parcel], Awaitable[Answer | None]] | None = None
        self.after: Callable[[Parcel], Awaitable[Answer | None]] | None = None
        self._known: set[tuple[bool, str]] = set()

    async def send(self, parcel: Parcel) -> Answer:
        self.sent.append(parcel)
        if self.before is not None and (answer := await self.before(parcel)) is not None:
            return answer
        request = (parcel.batch, parcel.request_id)
        if request not in self._known:
            self._known.add(request)
            self.created += [wish.job().payload.text() for wish in parcel.wishes]
        if self.after is not None and (answer := await self.after(parcel)) is not None:
            return answer
        return Answer(Fate.CREATED)

    def check_each_once(self, count: int) -> None:
        """Jobs with the payloads 1 to `count`."""
        assert Counter(self.created) == Counter(str(n) for n in range(1, count + 1))


@asynccontextmanager
async def relaying(
    app: App, rota: ScriptedRota, clock: Clock | None = None, poll_s: float = POLL_S
) -> AsyncIterator[Relay]:
    """A relay that runs during the block. What it raises the block raises."""
    connection = Connection(app.place)
    relay = Relay(Table(connection), rota, clock or SystemClock(), poll_s=poll_s)
    running = asyncio.create_task(relay.run())
    try:
        yield relay
    finally:
        relay.stop()
        await running
        await connection.close()


async def die(app: App, rota: ScriptedRota, when: Callable[[], bool]) -> None:
    """A relay that is gone at some moment without a word, as by kill -9."""
    connection = Connection(app.place)
    running = asyncio.create_task(Relay(Table(connection), rota, SystemClock(), poll_s=POLL_S).run())
    await until(when)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await connection.close()


async def until(check: Callable[[], object], within_s: float = 20.0) -> None:
    """Waits for what has no event to wait for."""
    async with asyncio.timeout(within_s):
        while not check():
            await asyncio.sleep(0.01)
