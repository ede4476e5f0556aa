"""Letters and jobs of the version before go on: the revision that brought redrives keeps what there was, and may be
tried again where it failed half-way."""

import psycopg
import pytest
from alembic import command
from sqlalchemy import create_engine

from rota.store import schema
from rota.store.engine import parse_url

_LETTER = """
INSERT INTO dead_jobs (
    tenant_id, id, priority, generation, attempt, attempts_counted, max_attempts, run_timeout_ms, fence, due_at,
    created_at, type, queue, content_type, payload, died_at, reason)
VALUES (1, %s, 4, 0, 2, 2, 2, 1000, 7, now(), now(), 't', 'q', '', 'body', now(), 'all 2 attempts are used up')
"""

_ATTEMPT = """
INSERT INTO attempts (tenant_id, job_id, fence, ended_at, number, leased_at, outcome, failure)
VALUES (1, %s, %s, now(), %s, now(), 2, '{"type": "Boom", "message": "m", "stack": ""}')
"""

LETTER = "01a22a4e-cd91-70bc-b5eb-70ab53f956d0"


def upgrade(url: str, revision: str) -> None:
    engine = create_engine(parse_url(url))
    with engine.connect() as conn:
        config = schema._config()
        config.attributes["connection"] = conn
        command.upgrade(config, revision)
        conn.commit()
    engine.dispose()


@pytest.fixture
def before(empty_database: str) -> str:
    """A database of the version before, with a letter and its attempts."""
    upgrade(empty_database, "0004")
    with psycopg.connect(empty_database) as conn:
        conn.execute(_LETTER, [LETTER])
        for number in (1, 2):
            conn.execute(_ATTEMPT, [LETTER, number, number])
    return empty_database


def kept(url: str) -> list[tuple[int, str]]:
    with psycopg.connect(url) as conn:
        (past,) = conn.execute("SELECT past FROM dead_jobs").fetchone() or ((),)
    return [(each["number"], each["failure"]["type"]) for each in past]


def test_letters_keep_what_history_has_of_their_attempts(before: str) -> None:
    upgrade(before, "0005")
    assert kept(before) == [(1, "Boom"), (2, "Boom")]


def test_a_revision_that_failed_half_way_is_done_when_it_is_tried_again(before: str) -> None:
    upgrade(before, "0005")
    with psycopg.connect(before, autocommit=True) as conn:
        # As it is when only the last steps are missing, and a build was broken off.
        conn.execute("UPDATE alembic_version SET version_num = '0004'")
        conn.execute("UPDATE dead_jobs SET past = NULL")
        conn.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'dead_jobs_died_idx'::regclass")
    schema.migrate(before)
    assert kept(before) == [(1, "Boom"), (2, "Boom")]
    with psycopg.connect(before) as conn:
        row = conn.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = 'dead_jobs_died_idx'::regclass")
        assert row.fetchone() == (True,)
