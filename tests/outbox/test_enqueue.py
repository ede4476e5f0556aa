"""rota_enqueue: a row exactly if the transaction commits, and a clear error in the transaction that is wrong."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from rota.outbox import install

from .world import App, enqueue

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_row_is_there_when_the_transaction_commits(app: App) -> None:
    with app.connect() as conn:
        id = enqueue(conn, payload=Jsonb({"order": 17}))
        assert app.rows() == []
        conn.commit()
    assert app.rows("id::text, type, queue, convert_from(payload, 'UTF8'), content_type, alone") == [
        (id, "greet", "default", '{"order": 17}', "application/json", False)
    ]


def test_nothing_is_left_of_a_transaction_that_is_rolled_back(app: App) -> None:
    with app.connect() as conn:
        enqueue(conn)
        with pytest.raises(ZeroDivisionError), conn.transaction():
            enqueue(conn, ordering_key="k")
            raise ZeroDivisionError
        conn.rollback()
    assert app.rows() == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"type": None},
            "type: expected 1 to 128 letters, digits or ._:/- that begin with a letter or digit, found null",
        ),
        ({"type": "no spaces"}, "found 'no spaces'"),
        ({"type": "greet\n"}, "type: expected"),
        ({"type": "x" * 129}, "type: expected"),
        ({"queue": "a/b"}, "queue: expected 1 to 64"),
        ({"payload": Jsonb(1), "payload_bytes": b"1"}, "payload_bytes: expected payload or payload_bytes, found both"),
        ({"payload": Jsonb("x" * 262_143)}, "payload: expected at most 262144 bytes"),
        ({"payload_bytes": b"x" * 262_145}, "payload_bytes: expected at most 262144 bytes"),
        ({"content_type": "x" * 129}, "content_type: expected 1 to 128 bytes of UTF-8, found 129"),
        ({"delay": timedelta(1), "run_time": datetime.now(UTC)}, "delay: expected run_time or delay, found both"),
        ({"delay": timedelta(seconds=-1)}, "delay: expected 0 s to"),
        ({"run_time": datetime.now(UTC) + timedelta(days=3_654)}, "run_time: expected an instant within ten years"),
        ({"priority": 10}, "priority: expected 0 to 9, found 10"),
        ({"priority": -1}, "priority: expected 0 to 9, found -1"),
        ({"max_attempts": 0}, "max_attempts: expected 1 to 1000, found 0"),
        ({"run_timeout": timedelta(days=8)}, "run_timeout: expected 1 s to 604800 s, found 691200 s"),
        ({"start_by": timedelta(0)}, "start_by: expected 1 s"),
        ({"total_timeout": timedelta(0)}, "total_timeout: expected 1 s"),
        ({"headers": Jsonb(["a"])}, "headers: expected a JSON object of texts, found array"),
        ({"headers": Jsonb({"a": 1})}, "headers.a: expected a text, found 1"),
        ({"headers": Jsonb({"Rota-x": "1"})}, "headers: expected names that do not begin with rota-, found Rota-x"),
        ({"headers": Jsonb({str(n): "" for n in range(33)})}, "headers: expected at most 32 entries, found 33"),
        ({"headers": Jsonb({"a": "x" * 8_192})}, "headers: expected at most 8192 bytes in all, found 8193"),
        ({"labels": Jsonb({"": "x"})}, "labels (key): expected 1 to 128 bytes"),
        ({"labels": Jsonb({"a": "ö" * 2_048})}, "labels: expected at most 4096 bytes in all, found 4097"),
        ({"effect_key": "x" * 513}, "effect_key: expected 1 to 512"),
        ({"concurrency_key": "x" * 129}, "concurrency_key: expected 1 to 128"),
        ({"ordering_key": "x" * 257}, "ordering_key: expected 1 to 256"),
        ({"ordering_key": ""}, "ordering_key: expected 1 to 256 bytes of UTF-8, found 0"),
        ({"request_id": "x" * 129}, "request_id: expected 1 to 128"),
        ({"dedupe_key": "x" * 257}, "dedupe_key: expected 1 to 256"),
        ({"dedupe_window": timedelta(1)}, "dedupe_key: expected together with dedupe_window"),
        ({"dedupe_key": "k", "dedupe_scope": "world"}, "dedupe_scope: expected type, queue or tenant, found 'world'"),
        ({"dedupe_key": "k", "on_conflict": "ignore"}, "on_conflict: expected return_existing or fail"),
        ({"dedupe_key": "k", "dedupe_window": timedelta(days=31)}, "dedupe_window: expected 1 s to 2592000 s"),
    ],
)
def test_what_rota_would_refuse_fails_the_transaction(app: App, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue) as refusal:
        app.enqueue(**arguments)
    assert refusal.value.diag.message_primary is not None
    assert refusal.value.diag.message_primary.startswith("rota_enqueue: ")
    assert words in refusal.value.diag.message_primary
    assert app.rows() == []


def test_the_largest_of_everything_is_taken(app: App) -> None:
    app.enqueue(
        "x" * 128,
        queue="q" * 64,
        payload_bytes=b"x" * 262_144,
        headers=Jsonb({"a": "x" * 8_191}),
        labels=Jsonb({"ö": "x" * 4_094}),
        delay=timedelta(days=3_652),
        priority=9,
        max_attempts=1_000,
        effect_key="x" * 512,
        ordering_key="ö" * 128,
    )
    assert app.count == 1


def test_an_instant_that_has_passed_means_now(app: App) -> None:
    app.run("select rota_enqueue('greet', run_time => '-infinity')")
    app.enqueue(run_time=datetime(2020, 1, 1, tzinfo=UTC))
    app.enqueue(delay=timedelta(0))
    app.enqueue(delay=timedelta(hours=1))
    assert app.rows("run_time is null, run_time - enqueued_at") == [
        (True, None),
        (True, None),
        (True, None),
        (False, timedelta(hours=1)),
    ]


def test_a_trace_is_kept_and_a_broken_one_fails_nothing(app: App) -> None:
    app.enqueue(traceparent=TRACE)
    app.enqueue(traceparent="00-broken")
    assert app.rows("options ->> 'traceparent', alone") == [(TRACE, True), (None, False)]


def test_transactions_of_one_ordering_key_come_one_after_another(app: App) -> None:
    """Else the second could be committed, and published, while the first is not to be seen yet."""
    with app.connect() as first, app.connect() as second:
        enqueue(first, ordering_key="order-1")
        second.execute("set lock_timeout = '150ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable), second.transaction():
            enqueue(second, ordering_key="order-1")
        enqueue(second, ordering_key="order-2")
        enqueue(second)
        second.commit()

        second.execute("set lock_timeout = 0")
        second.commit()
        waiting = threading.Thread(target=lambda: enqueue(second, ordering_key="order-1"))
        waiting.start()
        waiting.join(0.1)
        assert waiting.is_alive()
        first.commit()
        waiting.join(10)
        second.commit()
    assert [key for (key,) in app.rows("ordering_key")] == ["order-1", "order-2", None, "order-1"]


def test_thousands_of_keys_in_one_transaction(app: App) -> None:
    app.many(20_000, "ordering_key => 'key-' || n")
    assert app.count == 20_000


@pytest.fixture
def roles(app: App) -> Any:
    names = ("outbox_app", "outbox_relay")
    for name in names:
        app.run(f"drop role if exists {name}")
        app.run(f"create role {name}")
    yield names
    for name in names:
        app.run(f"drop owned by {name}")
        app.run(f"drop role {name}")


def test_who_may_enqueue_may_do_nothing_else(app: App, roles: tuple[str, str]) -> None:
    install.install(app.place, install.Grants(enqueue=[roles[0]], relay=[roles[1]]))
    with app.connect() as conn:
        conn.execute(f"set role {roles[0]}".encode())
        enqueue(conn, ordering_key="k", headers=Jsonb({"a": "b"}), delay=timedelta(1))
        conn.commit()
        for statement in (
            "select * from app.rota_outbox",
            "insert into app.rota_outbox_keys values ('k')",
            "delete from app.rota_outbox",
            "select app.rota_outbox_text('a', 'b', 3)",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), conn.transaction():
                conn.execute(statement.encode())
        conn.execute(f"set role {roles[1]}".encode())
        assert conn.execute("select count(*) from app.rota_outbox").fetchone() == (1,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege), conn.transaction():
            enqueue(conn)
    assert app.count == 1


def test_the_caller_cannot_put_functions_of_his_own_in_the_way(app: App, roles: tuple[str, str]) -> None:
    """It runs with its owner's rights, so it must not look anything up where the caller says."""
    install.install(app.place, install.Grants(enqueue=[roles[0]]))
    app.run(f"create schema trap; grant all on schema trap to {roles[0]}")
    with app.connect() as conn:
        conn.execute(f"set role {roles[0]}".encode())
        conn.execute(
            "create function trap.octet_length(bytea) returns integer language plpgsql as "
            "$$ begin raise exception 'trapped as %', current_user; end $$"
        )
        conn.execute("set search_path = trap, app, pg_catalog")
        enqueue(conn, payload=Jsonb(1), ordering_key="k")
        conn.rollback()
