"""One migrated database for the store's tests, each with a tenant of its own; or a whole one where a test needs it."""

import uuid
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
import pytest_asyncio

from rota.store.embedded import EmbeddedPostgres

from ..harness import settle_in
from .world import World


@pytest.fixture(scope="session")
def shared_database(postgres: EmbeddedPostgres) -> Iterator[str]:
    name = f"store_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres.url, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name} TEMPLATE migrated STRATEGY file_copy")  # type: ignore[arg-type]
    yield settle_in(postgres.url.rsplit("/", 1)[0] + f"/{name}")
    with psycopg.connect(postgres.url, autocommit=True) as conn:
        conn.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type]


@pytest_asyncio.fixture
async def world(shared_database: str) -> AsyncIterator[World]:
    """A tenant of its own in the shared database."""
    async with World(shared_database) as world:
        yield world


@pytest_asyncio.fixture
async def lone_world(database: str) -> AsyncIterator[World]:
    """A database of its own: for what is not kept apart by tenants."""
    async with World(database) as world:
        yield world
