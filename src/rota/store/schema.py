"""Bringing the schema up to date, and refusing to run on one that is not.

Revisions run one transaction each under a short lock timeout, so that a migration waits for nobody's long transaction
and nobody waits behind it. They only add: the version before runs on the new schema.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from rota.domain.errors import FailedPrecondition, Unavailable
from rota.store.engine import CONNECT_TIMEOUT_S, parse_url, writable

SERVER_MAJOR_MIN = 15
LOCK_TIMEOUT_S = 3
TRIES = 20
TRY_AGAIN_S = 1.0

TURN_S = 0.1
"""How often a migration asks whether it is its turn."""

_ONE_MIGRATION_AT_A_TIME = 0x526F7461

# libpq tells no SQLSTATE of a connection that failed. What a server says in another language is waited for.
_NOT_BY_WAITING = re.compile(
    r"authentication failed|no password supplied|\w+ \S+ does not exist|no such (?:database|user)|no pg_hba.conf entry"
    r"|not permitted to log in|permission denied|does not support SSL|certificate verify failed"
)


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """`current` None: an empty database. `known` False: a newer Rota made it."""

    server: str
    current: str | None
    head: str
    known: bool

    @property
    def up_to_date(self) -> bool:
        return self.current == self.head or (self.current is not None and not self.known)


def status(url: str) -> SchemaStatus:
    """Where a database stands. Refuses a server that is too old or not there."""
    with _connect(url) as conn:
        server = _server(conn)
        current = MigrationContext.configure(conn).get_current_revision()
    script = ScriptDirectory.from_config(_config())
    head = script.get_current_head() or ""
    known = current is None or current in {revision.revision for revision in script.walk_revisions()}
    return SchemaStatus(server, current, head, known)


def check(url: str) -> SchemaStatus:
    """`status`, refusing a database that this version cannot run on."""
    found = status(url)
    if not found.up_to_date:
        state = "is empty" if found.current is None else f"is at revision {found.current}"
        raise FailedPrecondition(
            f"the database {state} and this version of Rota needs revision {found.head}; run: rota migrate",
            metadata={"current": found.current or "", "head": found.head},
        )
    return found


def migrate(url: str) -> list[str]:
    """Applies what is missing; the ids of the revisions applied. Safe to run from many places at once."""
    applied: list[str] = []
    for attempt in range(TRIES):
        try:
            with _connect(url) as conn, _one_at_a_time(url):
                _server(conn)
                conn.execute(text(f"SET lock_timeout = '{LOCK_TIMEOUT_S}s'"))
                conn.commit()
                before = MigrationContext.configure(conn).get_current_revision()
                conn.rollback()
                config = _config()
                script = ScriptDirectory.from_config(config)
                known = {revision.revision for revision in script.walk_revisions()}
                if before is not None and before not in known:
                    return applied
                config.attributes["connection"] = conn
                command.upgrade(config, "head")
                conn.commit()
                after = MigrationContext.configure(conn).get_current_revision()
                if after != before:
                    applied += [r.revision for r in reversed(list(script.iterate_revisions(after, before)))]
                return applied
        except DBAPIError as error:
            if not isinstance(error.orig, psycopg.errors.LockNotAvailable) or attempt == TRIES - 1:
                raise Unavailable(f"the migration failed: {str(error.orig).strip()}") from error
            threading.Event().wait(TRY_AGAIN_S)
    raise AssertionError("unreachable")


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config


@contextmanager
def _connect(database_url: str) -> Iterator[Connection]:
    url = parse_url(database_url)
    engine = create_engine(
        url,
        poolclass=NullPool,
        connect_args={
            **writable(url),
            "connect_timeout": CONNECT_TIMEOUT_S,
            "application_name": "rota migrate",
            "prepare_threshold": None,
        },
    )
    try:
        conn = engine.connect()
    except DBAPIError as error:
        text = str(error.orig).strip()
        reason = text.splitlines()[0] if text else "no answer"
        place = engine.url.render_as_string(hide_password=True)
        if found := _NOT_BY_WAITING.search(text):
            reason = next(line for line in text.splitlines() if found[0] in line)
            raise FailedPrecondition(
                f"PostgreSQL at {place} refuses ({reason.strip()}); correct ROTA_DATABASE_URL"
            ) from error
        raise Unavailable(
            f"PostgreSQL cannot be reached at {place} ({reason}); start it, or correct ROTA_DATABASE_URL"
        ) from error
    with conn:
        yield conn
    engine.dispose()


@contextmanager
def _one_at_a_time(url: str) -> Iterator[None]:
    # A lock of a transaction, not of a connection, so that it holds through a pooler too. Asked for again and again:
    # whoever waits inside of a statement has a snapshot, and an index built concurrently waits for those to end.
    with _connect(url) as conn:
        while not conn.execute(
            text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": _ONE_MIGRATION_AT_A_TIME}
        ).scalar():
            conn.rollback()
            threading.Event().wait(TURN_S)
        # Lets go of that statement's snapshot.
        conn.execute(text("SET LOCAL lock_timeout = 0"))
        yield


def _server(conn: Connection) -> str:
    number = int(conn.execute(text("SHOW server_version_num")).scalar_one())
    version: str = conn.execute(text("SHOW server_version")).scalar_one()
    conn.rollback()
    if number // 10_000 < SERVER_MAJOR_MIN:
        raise FailedPrecondition(
            f"PostgreSQL {version} is too old: Rota needs {SERVER_MAJOR_MIN} or newer; upgrade the server"
        )
    return version
