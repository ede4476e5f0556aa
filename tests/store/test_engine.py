"""Connections: what their failures mean, and that a write has three outcomes and not two."""

import asyncio

import psycopg
import pytest
from psycopg import errors as pg
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from rota.domain.errors import InvalidArgument, OutcomeUnknown, Unavailable
from rota.store import engine
from rota.store.engine import Database, Lane, Run, array, conninfo, parse_url, translate

from .world import World

KILL = "SELECT pg_terminate_backend(pg_backend_pid())"


@pytest.mark.parametrize(
    ("error", "write", "means"),
    [
        (pg.QueryCanceled("statement timeout"), True, Unavailable),
        (pg.LockNotAvailable(), True, Unavailable),
        (pg.TooManyConnections(), True, Unavailable),
        (pg.DiskFull(), True, Unavailable),
        (pg.ReadOnlySqlTransaction(), True, Unavailable),
        (pg.CannotConnectNow(), True, Unavailable),
        (pg.IdleInTransactionSessionTimeout(), True, Unavailable),
        (psycopg.OperationalError("lost"), True, OutcomeUnknown),
        (psycopg.OperationalError("lost"), False, Unavailable),
        (pg.AdminShutdown(), True, OutcomeUnknown),
        (pg.CrashShutdown(), True, OutcomeUnknown),
        (psycopg.InterfaceError("closed"), True, OutcomeUnknown),
        (TimeoutError(), True, OutcomeUnknown),
        (TimeoutError(), False, Unavailable),
        (PoolTimeout("full"), False, Unavailable),
        (ConnectionResetError(), True, OutcomeUnknown),
        (DBAPIError("sql", {}, pg.AdminShutdown()), True, OutcomeUnknown),  # type: ignore[arg-type]
        (DBAPIError("sql", {}, pg.UniqueViolation()), True, pg.UniqueViolation),  # type: ignore[arg-type]
        (pg.UniqueViolation(), True, pg.UniqueViolation),
        (pg.CharacterNotInRepertoire(), True, pg.CharacterNotInRepertoire),
        (ValueError("ours"), True, ValueError),
    ],
)
def test_what_a_failure_means(error: Exception, write: bool, means: type[Exception]) -> None:
    found = translate(error, write=write)
    assert type(found) is means
    if isinstance(found, Unavailable):
        assert (found.reason, found.retry_after_s) == ("STORE_UNAVAILABLE", 1.0)


@pytest.mark.parametrize(
    ("url", "info"),
    [
        ("postgresql://u:p@h:5433/d", "postgresql://u:p@h:5433/d"),
        ("postgres://u@h/d", "postgresql://u@h/d"),
        ("postgresql+psycopg://u:p@h/d", "postgresql://u:p@h/d"),
        ("postgresql://u:p%40ss@h/d?sslmode=require", "postgresql://u:p%40ss@h/d?sslmode=require"),
        ("postgresql:///d?host=/run/pg", "postgresql:///d?host=/run/pg"),
        ("postgresql://u:p%40ss@a:1,b:2/d?connect_timeout=3", "postgresql://u:p%40ss@a:1,b:2/d?connect_timeout=3"),
        ("postgresql://u@a,[::1]:2/d", "postgresql://u@a:5432,[::1]:2/d"),
        ("postgres://a,b", "postgres://a:5432,b:5432"),
    ],
)
def test_urls(url: str, info: str) -> None:
    parsed = parse_url(url)
    assert parsed.drivername == "postgresql+psycopg"
    assert psycopg.conninfo.conninfo_to_dict(conninfo(parsed)) == psycopg.conninfo.conninfo_to_dict(info)


@pytest.mark.parametrize("url", ["", "x", "sqlite:///secret.db", "postgresql://u:secret@h:99x/d", "://secret"])
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse_url(url)
    assert refused.value.violations[0].field == "database_url"
    assert "secret" not in refused.value.message


@pytest.mark.parametrize(
    ("values", "literal"), [([], "{}"), ([1, None, -3], "{1,NULL,-3}"), (["a-b", 2.5], "{a-b,2.5}")]
)
def test_array_literals(values: list[object], literal: str) -> None:
    assert array(values) == literal


async def test_a_connection_that_dies_in_a_write_leaves_the_outcome_unknown(world: World) -> None:
    with pytest.raises(OutcomeUnknown, match="with the same request_id"):
        await world.db.writes.run(KILL, {})
    with pytest.raises(Unavailable) as lost:
        await world.db.writes.run(KILL, {}, write=False)
    assert not isinstance(lost.value, OutcomeUnknown)
    assert await world.value("SELECT 1") == 1


async def test_a_connection_that_dies_in_a_transaction_leaves_nothing(world: World) -> None:
    spec = world.spec()

    async def work(run: Run) -> None:
        await run("INSERT INTO tenants (name) VALUES (%(name)s)", {"name": spec.id})
        await run(KILL, {})

    with pytest.raises(OutcomeUnknown):
        await world.db.writes.transact(work)
    assert await world.value("SELECT count(*) FROM tenants WHERE name = %(name)s", name=spec.id) == 0


async def test_the_same_through_the_pool(world: World) -> None:
    with pytest.raises(OutcomeUnknown):
        async with world.db.begin() as conn:
            await conn.execute(text(KILL))
    async with world.db.begin() as conn:
        assert (await conn.execute(text("SELECT 1"))).scalar_one() == 1


async def test_a_refused_statement_is_itself_and_the_connection_lives_on(world: World) -> None:
    kinds: list[str] = []
    lane = Lane("test", parse_url(world.url), 1, kinds.append)
    try:
        (pid,) = (await lane.run("SELECT pg_backend_pid()", {}))[0]
        with pytest.raises(pg.DivisionByZero):
            await lane.run("SELECT 1 / 0", {})
        assert (await lane.run("SELECT pg_backend_pid()", {}))[0] == (pid,)
        assert kinds == ["refused"]
        with pytest.raises(OutcomeUnknown):
            await lane.run(KILL, {})
        assert (await lane.run("SELECT pg_backend_pid()", {}))[0] != (pid,)
        assert kinds == ["refused", "outcome_unknown"]
    finally:
        await lane.close()


async def test_connections_that_were_ended_while_idle_leave_no_doubt(world: World) -> None:
    """A server that restarts ends all of them: the first write on each would not know what became of it."""
    lane = Lane("test", parse_url(world.url), 3, lambda kind: None)
    try:
        pids = await asyncio.gather(*(lane.run("SELECT pg_backend_pid(), pg_sleep(0.05)", {}) for _ in range(3)))
        for ((pid, _),) in pids:
            await world.db.writes.run("SELECT pg_terminate_backend(%(pid)s, 5000)", {"pid": pid})
        fresh = await asyncio.gather(*(lane.run("SELECT pg_backend_pid(), pg_sleep(0.05)", {}) for _ in range(3)))
        assert not {rows[0][0] for rows in fresh} & {rows[0][0] for rows in pids}
    finally:
        await lane.close()


async def test_a_database_that_is_not_there_cannot_have_done_anything() -> None:
    database = Database("postgresql://u:p@127.0.0.1:1/d")
    for lane in (database.writes, database.terms):
        with pytest.raises(Unavailable, match="cannot be reached") as refused:
            await lane.run("SELECT 1", {})
        assert not isinstance(refused.value, OutcomeUnknown)
    await database.close()


async def test_silence_is_given_up_at_the_deadline(world: World) -> None:
    """The server would go on for its statement timeout; the caller is told, and the next statement is not held up."""
    lane = Lane("test", parse_url(world.url), 1, lambda kind: None, deadline_s=0.2)
    try:
        for _ in range(3):
            with pytest.raises(OutcomeUnknown, match=r"no answer within 0\.2 s"):
                await lane.run("SELECT pg_sleep(10)", {})
            assert await lane.run("SELECT 1", {}) == [(1,)]
    finally:
        await lane.close()


async def test_a_cancelled_caller_leaves_no_busy_connection_behind(world: World) -> None:
    lane = Lane("test", parse_url(world.url), 1, lambda kind: None)
    try:
        await lane.run("SELECT 1", {})
        for _ in range(3):
            caller = asyncio.create_task(lane.run("SELECT pg_sleep(10)", {}))
            await asyncio.wait({caller}, timeout=0.05)
            caller.cancel()
            with pytest.raises(asyncio.CancelledError):
                await caller
            assert await lane.run("SELECT 1", {}) == [(1,)]
    finally:
        await lane.close()


async def test_a_statement_that_lasts_too_long_is_refused_by_the_server(
    world: World,
) -> None:
    lane = Lane("test", parse_url(world.url), 1, lambda kind: None, settings={"statement_timeout": "100ms"})
    try:
        with pytest.raises(Unavailable, match="refused for now"):
            await lane.run("SELECT pg_sleep(10)", {})
    finally:
        await lane.close()


async def test_a_transaction_that_stands_still_lets_its_rows_go(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is on every lane: whoever takes over finds nothing locked by a process that does not run."""
    monkeypatch.setattr(engine, "IDLE_IN_TRANSACTION_S", 0.1)
    database = Database(world.url)
    lanes = (database.claims, database.writes, database.reads, database.fires, database.upkeep, database.terms)
    lock = "SELECT FROM shards WHERE shard = 0 FOR UPDATE"

    def take_over() -> None:
        with psycopg.connect(world.url, options="-c statement_timeout=30s") as other:
            other.execute(lock)

    async def stand_still(run: Run) -> None:
        await run(lock, {})
        await asyncio.to_thread(take_over)
        await run("SELECT 1", {})

    try:
        for lane in lanes:
            with pytest.raises(Unavailable):
                await lane.transact(stand_still)
            assert await lane.run("SELECT 1", {}) == [(1,)]
    finally:
        await database.close()


async def test_what_is_set_for_the_database_says_how_long_a_transaction_may_stand_still(world: World) -> None:
    lane = Lane("test", parse_url(world.url), 1, lambda kind: None)
    setting = "SELECT current_setting('idle_in_transaction_session_timeout')"
    name = world.url.rpartition("/")[2]
    try:
        assert await lane.run(setting, {}) == [("10s",)]
        await lane.close()
        with psycopg.connect(world.url, autocommit=True) as admin:
            admin.execute(f"ALTER DATABASE {name} SET idle_in_transaction_session_timeout = '2s'".encode())
            try:
                assert await lane.run(setting, {}) == [("2s",)]
            finally:
                admin.execute(f"ALTER DATABASE {name} RESET idle_in_transaction_session_timeout".encode())
    finally:
        await lane.close()


async def test_a_statement_that_has_waited_too_long_for_a_connection_is_not_sent(world: World) -> None:
    """What it was decided on may be over, and the database another one."""
    lane = Lane("test", parse_url(world.url), 1, lambda kind: None)
    name = world.owner
    insert = "INSERT INTO tenants (name) VALUES (%(name)s)"
    try:
        first = asyncio.create_task(lane.run("SELECT pg_sleep(0.2)", {}))
        await asyncio.sleep(0)
        late = asyncio.create_task(lane.run(insert, {"name": name}))
        lane.gate = lambda: not first.done()
        with pytest.raises(Unavailable, match="too late") as refused:
            await late
        assert not isinstance(refused.value, OutcomeUnknown)
        lane.gate = lambda: True
        assert await lane.run("SELECT count(*) FROM tenants WHERE name = %(name)s", {"name": name}) == [(0,)]
    finally:
        await lane.close()


@pytest.mark.parametrize("tries", [engine.RETRIES, engine.RETRIES - 1])
async def test_a_deadlock_is_tried_again_a_few_times(world: World, tries: int) -> None:
    runs = 0

    async def work(run: Run) -> str:
        nonlocal runs
        runs += 1
        await run("INSERT INTO tenants (name) VALUES (%(name)s)", {"name": world.owner})
        if runs <= tries:
            raise pg.DeadlockDetected
        return "done"

    if tries == engine.RETRIES:
        with pytest.raises(Unavailable, match="refused for now"):
            await world.db.writes.transact(work)
    else:
        assert await world.db.writes.transact(work) == "done"
    kept = await world.value("SELECT count(*) FROM tenants WHERE name = %(name)s", name=world.owner)
    assert (runs, kept) == ((engine.RETRIES, 0) if tries == engine.RETRIES else (tries + 1, 1))


async def test_a_lane_runs_no_more_at_once_than_it_has_connections(world: World) -> None:
    lane = Lane("test", parse_url(world.url), 2, lambda kind: None)
    try:
        pids = await asyncio.gather(*(lane.run("SELECT pg_backend_pid(), pg_sleep(0.01)", {}) for _ in range(10)))
        assert len({rows[0][0] for rows in pids}) == 2
    finally:
        await lane.close()
