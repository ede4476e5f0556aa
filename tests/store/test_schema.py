"""The schema: declared once, built by migrations, and checked before anything runs on it."""

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine

from rota.domain.errors import FailedPrecondition, InvalidArgument, Unavailable
from rota.store import schema
from rota.store.engine import parse_url
from rota.store.tables import metadata

REVISIONS = [f"{number:04}" for number in range(1, 10)]
HEAD = REVISIONS[-1]


@contextmanager
def connected(url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(url, autocommit=True) as conn:
        yield conn


def set_revision(url: str, revision: str) -> None:
    with connected(url) as conn:
        conn.execute("UPDATE alembic_version SET version_num = %s", [revision])


def test_the_migrations_build_what_the_tables_declare(database: str) -> None:
    engine = create_engine(parse_url(database))
    with engine.connect() as conn:
        context = MigrationContext.configure(
            conn,
            opts={
                "compare_type": True,
                "compare_server_default": True,
                # Partitions are made by the coordinator, and the version table is alembic's.
                "include_name": lambda name, kind, _: kind != "table" or name in metadata.tables,
            },
        )
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_storage_settings_are_as_declared(database: str) -> None:
    """compare_metadata does not look at these."""
    with connected(database) as conn:
        rows = conn.execute("SELECT relname, reloptions FROM pg_class WHERE reloptions IS NOT NULL AND relkind = 'r'")
        found = {str(name): set(options) for name, options in rows}  # type: ignore[call-overload]
        kinds = dict(conn.execute("SELECT relname, relkind FROM pg_class WHERE relkind IN ('r', 'p')").fetchall())
        defaults = conn.execute(
            "SELECT inhparent::regclass::text, inhrelid::regclass::text FROM pg_inherits i "
            "JOIN pg_class c ON c.oid = i.inhrelid WHERE c.relkind = 'r'"
        ).fetchall()
    declared = {
        table.name: {f"{key}={value}" for key, value in table.dialect_options["postgresql"]["with"].items()}
        for table in metadata.tables.values()
        if table.dialect_options["postgresql"]["with"]
    }
    assert found == declared
    partitioned = {t.name for t in metadata.tables.values() if t.dialect_options["postgresql"]["partition_by"]}
    assert {name for name, kind in kinds.items() if kind == "p"} == partitioned
    # Partitions of days are made when a coordinator starts, and of tenants when they need them.
    assert set(defaults) == {(name, f"{name}_other") for name in partitioned if not name.startswith("kept_")}


def test_every_shard_has_its_row(database: str) -> None:
    with connected(database) as conn:
        assert conn.execute("SELECT count(*), min(shard), max(shard) FROM shards").fetchone() == (256, 0, 255)


def test_migrating_twice_changes_nothing(empty_database: str) -> None:
    assert schema.migrate(empty_database) == REVISIONS
    assert schema.migrate(empty_database) == []
    assert schema.status(empty_database).up_to_date


def test_many_migrate_at_once(empty_database: str) -> None:
    """As when ten coordinators start together: one does it, the others find it done."""
    gate = threading.Barrier(6)

    def migrate() -> list[str]:
        gate.wait()
        return schema.migrate(empty_database)

    with ThreadPoolExecutor(6) as pool:
        applied = [future.result() for future in [pool.submit(migrate) for _ in range(6)]]
    assert sorted(applied) == [[]] * 5 + [REVISIONS]
    assert schema.check(empty_database).current == HEAD


def test_an_empty_database(empty_database: str) -> None:
    found = schema.status(empty_database)
    assert (found.current, found.head, found.known, found.up_to_date) == (None, HEAD, True, False)
    assert re.match(r"\d+", found.server)
    with pytest.raises(FailedPrecondition, match=rf"is empty and .* needs revision {HEAD}; run: rota migrate"):
        schema.check(empty_database)


def test_an_older_revision_is_refused_with_the_remedy(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema.ScriptDirectory, "get_current_head", lambda self: "0999")
    with pytest.raises(
        FailedPrecondition, match=rf"is at revision {HEAD} and .* needs revision 0999; run: rota migrate"
    ) as e:
        schema.check(database)
    assert e.value.metadata == {"current": HEAD, "head": "0999"}


def test_a_newer_rotas_database_is_run_on_and_left_alone(database: str) -> None:
    """Revisions only add, so the version before goes on running while the next one rolls out."""
    set_revision(database, "9999")
    found = schema.check(database)
    assert (found.current, found.known, found.up_to_date) == ("9999", False, True)
    assert schema.migrate(database) == []
    assert schema.status(database).current == "9999"


@pytest.mark.parametrize("call", [schema.status, schema.check, schema.migrate])
def test_a_server_that_is_too_old(empty_database: str, monkeypatch: pytest.MonkeyPatch, call: object) -> None:
    monkeypatch.setattr(schema, "SERVER_MAJOR_MIN", 99)
    with pytest.raises(FailedPrecondition, match=r"PostgreSQL \d+.* is too old: Rota needs 99 or newer"):
        call(empty_database)  # type: ignore[operator]
    monkeypatch.undo()
    assert schema.status(empty_database).current is None


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "LOCK_TIMEOUT_S", 0.1)
    monkeypatch.setattr(schema, "TRY_AGAIN_S", 0.05)


def test_a_migration_that_cannot_get_its_lock_gives_up_and_leaves_nothing(
    empty_database: str, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "TRIES", 2)
    with psycopg.connect(empty_database) as conn:
        conn.execute("CREATE TABLE sessions (a int)")
        with pytest.raises(Unavailable, match=r"the migration failed: .*lock timeout"):
            schema.migrate(empty_database)
        conn.rollback()
    assert schema.status(empty_database).current is None
    with connected(empty_database) as conn:
        assert conn.execute("SELECT to_regclass('tenants')").fetchone() == (None,)
    assert schema.migrate(empty_database) == REVISIONS


def test_a_migration_waits_for_its_lock_try_by_try(empty_database: str, impatient: None) -> None:
    with psycopg.connect(empty_database) as conn, ThreadPoolExecutor(1) as pool:
        conn.execute("CREATE TABLE sessions (a int)")
        migrating = pool.submit(schema.migrate, empty_database)
        failed_once = "SELECT 1 FROM pg_stat_database WHERE datname = current_database() AND xact_rollback > 0"
        with connected(empty_database) as other:
            for _ in range(200):
                if other.execute(failed_once).fetchone():
                    break
                threading.Event().wait(0.02)
        assert not migrating.done()
        conn.rollback()
        assert migrating.result(20) == REVISIONS


def test_a_locked_version_table_is_not_waited_for_for_ever(
    database: str, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "TRIES", 1)
    with psycopg.connect(database) as conn:
        conn.execute("LOCK TABLE alembic_version IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(Unavailable, match="lock timeout"):
            schema.migrate(database)


def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    with pytest.raises(Unavailable) as refused:
        schema.status("postgresql://rota:s3cret@127.0.0.1:1/rota")
    assert "cannot be reached at postgresql+psycopg://rota:***@127.0.0.1:1/rota" in refused.value.message
    assert "s3cret" not in refused.value.message


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("", "expected postgresql://"),
        ("nonsense", "expected postgresql://"),
        ("mysql://u:s3cret@h/d", "found mysql://"),
        ("postgresql://u:s3cret@h:port/d", "expected postgresql://"),
        ("http://u:s3cret@h/d", "found http://"),
    ],
)
def test_a_url_that_is_none(url: str, complaint: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        schema.status(url)
    assert [v.field for v in refused.value.violations] == ["database_url"]
    assert complaint in refused.value.message
    assert "s3cret" not in refused.value.message


def test_downgrading_is_refused() -> None:
    """Every revision says so; a test that somebody did not forget it in a new one."""
    for path in (Path(schema.__file__).parent / "migrations" / "versions").glob("0*.py"):
        assert re.search(r"def downgrade\(\) -> None:\n    raise RuntimeError\(", path.read_text()), path.name
