"""Migrations beside a database at work: nothing is rewritten, no index of an old table is built under its lock, and
what was written before is taken up after."""

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from alembic import command
from alembic.migration import MigrationContext

from rota.domain.ids import JobId, shard_of
from rota.domain.model import JobState
from rota.store import schema

from .world import World, fresh_id

VERSIONS = sorted((Path(schema.__file__).parent / "migrations" / "versions").glob("0*.py"))
REVISIONS = [path.name[:4] for path in VERSIONS]

_FILES = """
SELECT c.relname, pg_relation_filenode(c.oid) FROM pg_class c
WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND c.relname <> 'alembic_version'
"""


def bring_to(url: str, revision: str) -> None:
    with schema._connect(url) as conn:
        config = schema._config()
        config.attributes["connection"] = conn
        command.upgrade(config, revision)
        conn.commit()
        assert MigrationContext.configure(conn).get_current_revision() == revision


def files(url: str) -> dict[str, int]:
    """Where the rows of each table are: a table that is rewritten gets another file."""
    with psycopg.connect(url, autocommit=True) as conn:
        return dict(conn.execute(_FILES).fetchall())


def rows_of_before(url: str, world: World) -> list[JobId]:
    """A waiting and a leased job, with no more than the first release wrote."""
    jobs = [JobId(fresh_id()) for _ in range(2)]
    with psycopg.connect(url, autocommit=True) as conn:
        for job, state in zip(jobs, (1, 3), strict=True):
            conn.execute(
                "INSERT INTO jobs (tenant_id, id, shard, state, priority, generation, attempt, attempts_counted, "
                "max_attempts, run_timeout_ms, fence, due_at, created_at, type, queue, content_type, payload, "
                "leased_at, session_id) "
                "VALUES (%s, %s, %s, %s, 4, 0, %s, 0, 5, 60000, %s, now(), now(), 't', 'default', '', '', now(), %s)",
                [world.tenant, job, shard_of(world.tenant, job), state, int(state == 3), 7 * (state == 3), fresh_id()],
            )
    return jobs


@pytest.mark.parametrize("revision", [REVISIONS[0], REVISIONS[3], REVISIONS[-2]])
async def test_what_is_there_is_neither_rewritten_nor_overlooked(empty_database: str, revision: str) -> None:
    """oban-bg/oban#1373: a column that rewrote the table; que-rb/que#429: old rows that no new worker took."""
    url = empty_database
    bring_to(url, revision)
    world = World(url)
    waiting, leased = rows_of_before(url, world)
    before = files(url)
    schema.migrate(url)
    after = files(url)
    assert {name: after[name] for name in before} == before
    async with world:
        spec = world.spec(id=waiting, type="t")
        due = await world.leases.read_due([(spec.shard, world.entry(spec).position._replace(due_us=0))], 2**52, 10)
        assert [row.entry.id for row in due] == [waiting]
        assert (await world.job(waiting)).state is JobState.READY
        assert await world.succeed(await world.lease(spec))
        # The session of the other is gone, and it is seen as such.
        shard = shard_of(world.tenant, leased)
        (row,) = await world.leases.read_due([(shard, world.entry(spec).position._replace(due_us=0))], 2**52, 10)
        assert (row.state, row.session_alive) == (JobState.LEASED, False)
        assert (await world.job(leased)).attempt == 1


def test_indexes_of_tables_from_before_are_built_concurrently() -> None:
    made: set[str] = set()
    for path in VERSIONS:
        text = path.read_text()
        for concurrently, table in indexes(text):
            assert concurrently or table not in made, f"{path.name} locks {table} for as long as an index takes"
        made |= set(re.findall(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)", text))
    assert {"jobs", "finished_jobs", "dead_jobs", "attempts", "occurrences"} <= made


def indexes(text: str) -> Iterator[tuple[bool, str]]:
    """Of each index that is made: whether concurrently, and its table."""
    pattern = r"CREATE (?:UNIQUE )?INDEX (CONCURRENTLY )?(?:IF NOT EXISTS )?\w+\s+ON (?:ONLY )?(\w+)"
    for found in re.finditer(pattern, text):
        yield bool(found[1]), found[2]


def test_an_index_under_a_lock_would_be_seen() -> None:
    assert list(indexes("CREATE INDEX a_idx ON jobs (b)")) == [(False, "jobs")]
    assert list(indexes("CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS a ON ONLY jobs (b)")) == [(True, "jobs")]
