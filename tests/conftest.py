"""Real parts for every test: a PostgreSQL of this run's own, a migrated database for each test, real coordinators.

ROTA_TEST_PG chooses the server: empty or 18 for the wheel, 15 for the distribution's.
"""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from rota import bootstrap
from rota.store.embedded import EmbeddedPostgres

from .harness import CoordinatorProcess, settle_in

DISTRIBUTION_15 = Path("/usr/lib/postgresql/15/bin")


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """One server for the session; its template database `migrated` has the schema."""
    wanted = os.environ.get("ROTA_TEST_PG", "18")
    bin_dir = DISTRIBUTION_15 if wanted == "15" else None
    folder = tmp_path_factory.mktemp("postgres")
    # A test database needs no durability against power loss; kill -9 it survives all the same.
    settings = {"fsync": "off", "full_page_writes": "off", "max_connections": "300"}
    with EmbeddedPostgres(folder / "server" / "data", bin_dir=bin_dir, settings=settings) as server:
        with psycopg.connect(server.url, autocommit=True) as conn:
            conn.execute("CREATE DATABASE migrated")
        bootstrap.migrate(_database(server.url, "migrated"))
        yield server


@pytest.fixture
def empty_database(postgres: EmbeddedPostgres) -> Iterator[str]:
    """The URL of an empty database of the test's own."""
    yield from _fresh(postgres, "template1")


@pytest.fixture
def database(postgres: EmbeddedPostgres) -> Iterator[str]:
    """The URL of a migrated database of the test's own."""
    yield from _fresh(postgres, "migrated")


@pytest.fixture
def coordinator(database: str, tmp_path: Path) -> Iterator[CoordinatorProcess]:
    """A coordinator in a process of its own, with a key for everything and a session TTL of 3 s."""
    with CoordinatorProcess(database, tmp_path) as process:
        yield process


def _fresh(server: EmbeddedPostgres, template: str) -> Iterator[str]:
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server.url, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")  # type: ignore[arg-type]
    url = _database(server.url, name)
    yield settle_in(url) if template == "migrated" else url
    with psycopg.connect(server.url, autocommit=True) as conn:
        conn.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type]


def _database(url: str, name: str) -> str:
    return url.rsplit("/", 1)[0] + f"/{name}"
