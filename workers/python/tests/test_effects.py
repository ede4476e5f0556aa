"""Effects that happen once: headers for targets, and the guard in a real PostgreSQL."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel
from psycopg.rows import dict_row
from rota_sdk import StaleFence, effects
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import Session


@dataclass
class Grant:
    effect_key: str
    fence: int


def test_headers() -> None:
    assert effects.effect_headers(Grant("t/s/1", 7)) == {"Idempotency-Key": "t/s/1", "Rota-Fence": "7"}


@pytest.fixture
def conn(dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(dsn) as conn:
        conn.execute("truncate rota_effects")
        conn.execute("update account set balance = 100")
        conn.commit()
        yield conn


def pay(conn: psycopg.Connection, grant: Grant) -> bool:
    """The effect under test: takes 10 from the account once. Whether it was the first."""
    with effects.once(conn, grant) as effect:
        if effect.first:
            conn.execute("update account set balance = balance - 10 where id = 1")
        return effect.first


def balance(conn: psycopg.Connection) -> int:
    row = conn.execute("select balance from account").fetchone()
    conn.commit()
    assert row is not None
    return int(row[0])


def test_a_repeated_attempt_changes_nothing(conn: psycopg.Connection) -> None:
    for fence, first in ((5, True), (5, False), (6, False)):
        assert pay(conn, Grant("k", fence)) is first
        conn.commit()
    assert balance(conn) == 90
    assert pay(conn, Grant("other", 1)) is True
    conn.commit()
    assert balance(conn) == 80


def test_an_older_attempt_is_refused_once_a_newer_one_was_seen(conn: psycopg.Connection) -> None:
    pay(conn, Grant("k", 6))
    conn.commit()
    with pytest.raises(StaleFence, match="older than 6") as caught:
        pay(conn, Grant("k", 5))
    assert caught.value.details["fence"] == "6"
    conn.rollback()
    # Also one that found it applied already counts as seen.
    pay(conn, Grant("k", 9))
    conn.commit()
    with pytest.raises(StaleFence, match="older than 9"):
        pay(conn, Grant("k", 8))
    conn.rollback()
    assert balance(conn) == 90


def test_rows_as_dictionaries_are_understood(dsn: str, conn: psycopg.Connection) -> None:
    pay(conn, Grant("k", 6))
    conn.commit()
    with psycopg.connect(dsn, row_factory=dict_row) as other, pytest.raises(StaleFence, match="older than 6"):
        pay(other, Grant("k", 5))  # type: ignore[arg-type]


def test_a_rollback_takes_the_key_back(conn: psycopg.Connection) -> None:
    assert pay(conn, Grant("k", 5)) is True
    conn.rollback()
    assert pay(conn, Grant("k", 5)) is True
    conn.commit()
    assert balance(conn) == 90


def test_an_error_in_the_block_takes_the_key_back_even_when_the_caller_commits(conn: psycopg.Connection) -> None:
    with pytest.raises(ZeroDivisionError), effects.once(conn, Grant("k", 5)) as effect:
        assert effect.first
        conn.execute("update account set balance = 0")
        raise ZeroDivisionError
    conn.commit()
    assert balance(conn) == 100
    with pytest.raises(psycopg.errors.UndefinedTable), effects.once(conn, Grant("k", 5)):
        conn.execute("select * from nowhere")
    conn.commit()
    assert pay(conn, Grant("k", 5)) is True


def test_one_job_may_have_several_effects(conn: psycopg.Connection) -> None:
    with effects.once(conn, Grant("k", 5), "k/mail") as mail, effects.once(conn, Grant("k", 5), "k/pay") as paid:
        assert mail.first and paid.first
    conn.commit()
    rows = conn.execute("select effect_key, fence from rota_effects order by 1").fetchall()
    assert rows == [("k/mail", 5), ("k/pay", 5)]


def test_autocommit_without_a_transaction_is_refused(dsn: str, conn: psycopg.Connection) -> None:
    with psycopg.connect(dsn, autocommit=True) as auto:
        with pytest.raises(RuntimeError, match="transaction"):
            pay(auto, Grant("k", 5))
        with auto.transaction():
            assert pay(auto, Grant("k", 5)) is True
    assert balance(conn) == 90


@pytest.mark.parametrize("grant", [Grant("", 1), Grant("k", 0), Grant("k", -1)])
def test_an_effect_needs_a_key_and_a_fence(conn: psycopg.Connection, grant: Grant) -> None:
    with pytest.raises(ValueError, match="effect key"):
        effects.once(conn, grant)


@pytest.mark.parametrize("commits", [True, False])
def test_of_two_attempts_at_once_the_second_waits_for_the_first(
    dsn: str, conn: psycopg.Connection, commits: bool
) -> None:
    assert pay(conn, Grant("k", 5)) is True
    found: list[bool] = []

    def second() -> None:
        with psycopg.connect(dsn) as other:
            found.append(pay(other, Grant("k", 6)))

    thread = threading.Thread(target=second)
    thread.start()
    with psycopg.connect(dsn, autocommit=True) as watch:
        while not watch.execute("select 1 from pg_stat_activity where wait_event_type = 'Lock'").fetchone():
            assert thread.is_alive()
    assert found == []
    if commits:
        conn.commit()
    else:
        conn.rollback()
    thread.join(10)
    assert found == [not commits]
    assert balance(conn) == 90


def test_many_attempts_at_once_apply_it_once(dsn: str, conn: psycopg.Connection) -> None:
    start = threading.Barrier(6)
    outcomes: list[object] = []

    def attempt(fence: int) -> None:
        with psycopg.connect(dsn) as other:
            start.wait(10)
            try:
                outcomes.append(pay(other, Grant("k", fence)))
            except StaleFence as error:
                other.rollback()
                outcomes.append(type(error))

    threads = [threading.Thread(target=attempt, args=(fence,)) for fence in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(outcomes) == 6 and outcomes.count(True) == 1
    assert balance(conn) == 90


async def test_the_same_for_an_asynchronous_connection(dsn: str, conn: psycopg.Connection) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as other:
        await effects.create_table_async(other)
        for fence, first in ((5, True), (7, False)):
            async with effects.once(other, Grant("k", fence)) as effect:
                assert effect.first is first
                if effect.first:
                    await other.execute("update account set balance = balance - 10")
            await other.commit()
        with pytest.raises(StaleFence):
            async with effects.once(other, Grant("k", 6)):
                pass
        await other.rollback()
        with pytest.raises(ZeroDivisionError):
            async with effects.once(other, Grant("k2", 6)):
                raise ZeroDivisionError
        await other.commit()
        async with effects.once(other, Grant("k2", 6)) as effect:
            assert effect.first
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as auto:
        with pytest.raises(RuntimeError, match="transaction"):
            async with effects.once(auto, Grant("k3", 6)):
                pass
    assert balance(conn) == 90


def sqlalchemy_url(dsn: str, driver: str = "psycopg") -> str:
    parts = dict(part.split("=") for part in dsn.split())
    return f"postgresql+{driver}://{parts['user']}@{parts['host']}:{parts['port']}/{parts['dbname']}"


TAKE_10: Any = text("update account set balance = balance - 10 where id = 1")


@pytest.mark.parametrize("kind", [Connection, Session])
def test_the_same_for_sqlalchemy(dsn: str, conn: psycopg.Connection, kind: Any) -> None:
    engine = create_engine(sqlalchemy_url(dsn))

    def opened() -> Any:
        return engine.connect() if kind is Connection else Session(engine)

    with opened() as other:
        effects.create_table(other)
        for fence, first in ((5, True), (7, False)):
            with effects.once(other, Grant("k", fence)) as effect:
                assert effect.first is first
                if effect.first:
                    other.execute(TAKE_10)
            other.commit()
        with pytest.raises(StaleFence, match="older than 7"), effects.once(other, Grant("k", 6)):
            pass
        other.rollback()
        with pytest.raises(ZeroDivisionError), effects.once(other, Grant("k2", 6)):
            other.execute(TAKE_10)
            raise ZeroDivisionError
        other.commit()
        with effects.once(other, Grant("k2", 6)) as effect:
            assert effect.first
        other.rollback()
    with (
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as auto,
        pytest.raises(DBAPIError, match="transaction block"),
        effects.once(auto, Grant("k3", 6)),
    ):
        pass
    engine.dispose()
    assert balance(conn) == 90


@pytest.mark.parametrize("kind", [AsyncConnection, AsyncSession])
async def test_the_same_for_asynchronous_sqlalchemy(dsn: str, conn: psycopg.Connection, kind: Any) -> None:
    engine = create_async_engine(sqlalchemy_url(dsn))
    async with engine.connect() if kind is AsyncConnection else AsyncSession(engine) as other:
        await effects.create_table_async(other)
        for fence, first in ((5, True), (7, False)):
            async with effects.once(other, Grant("k", fence)) as effect:
                assert effect.first is first
                if effect.first:
                    await other.execute(TAKE_10)
            await other.commit()
        with pytest.raises(StaleFence):
            async with effects.once(other, Grant("k", 6)):
                pass
        await other.rollback()
        with pytest.raises(ZeroDivisionError):
            async with effects.once(other, Grant("k2", 6)):
                await other.execute(TAKE_10)
                raise ZeroDivisionError
        await other.commit()
    await engine.dispose()
    assert balance(conn) == 90


def test_a_connection_that_it_cannot_speak_to_is_refused_with_a_way_out() -> None:
    stranger: Any = type("Connection", (), {"__module__": "asyncpg.connection"})()
    with pytest.raises(TypeError, match="through SQLAlchemy"):
        effects.once(stranger, Grant("k", 1))


@pytest.mark.parametrize("level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
def test_in_a_strict_isolation_one_of_two_attempts_fails_and_none_is_doubled(
    dsn: str, conn: psycopg.Connection, level: IsolationLevel
) -> None:
    with psycopg.connect(dsn) as one, psycopg.connect(dsn) as two:
        for each in (one, two):
            each.isolation_level = level
            each.execute("select 1")
        assert pay(one, Grant("k", 5)) is True
        one.commit()
        with pytest.raises(psycopg.errors.SerializationFailure):
            pay(two, Grant("k", 6))
        two.rollback()
        assert pay(two, Grant("k", 6)) is False
    assert balance(conn) == 90
