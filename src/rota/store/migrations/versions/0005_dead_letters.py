"""Dead letters: what filters need, their attempts, and redrives."""

from alembic import op

revision = "0005"
down_revision = "0004"

# Each may have been done by a try that failed further down: what is built concurrently cannot be rolled back, and what
# came before it is committed by then.
_STATEMENTS = (
    # `past`: the attempts of lives before. All of them NULL at first, so no row is rewritten.
    """
    ALTER TABLE jobs
        ADD COLUMN IF NOT EXISTS past jsonb,
        ADD COLUMN IF NOT EXISTS redrives integer,
        ADD COLUMN IF NOT EXISTS redriven_by text,
        ADD COLUMN IF NOT EXISTS attempts_before integer
    """,
    "ALTER TABLE finished_jobs ADD COLUMN IF NOT EXISTS past jsonb",
    """
    ALTER TABLE dead_jobs
        ADD COLUMN IF NOT EXISTS past jsonb,
        ADD COLUMN IF NOT EXISTS redrives integer,
        ADD COLUMN IF NOT EXISTS redriven_by text,
        ADD COLUMN IF NOT EXISTS cause smallint,
        ADD COLUMN IF NOT EXISTS tracestate text
    """,
    """
    CREATE TABLE IF NOT EXISTS redrives (
        tenant_id integer NOT NULL,
        id uuid NOT NULL,
        slot smallint NOT NULL,
        letters uuid[],
        filter jsonb,
        rate double precision NOT NULL,
        max_count bigint,
        new_generation boolean NOT NULL,
        reason text NOT NULL,
        state smallint NOT NULL,
        cursor_at timestamptz,
        cursor_id uuid,
        next_at timestamptz NOT NULL,
        total bigint NOT NULL,
        redriven bigint NOT NULL,
        refused bigint NOT NULL,
        author text NOT NULL,
        created_at timestamptz NOT NULL,
        finished_at timestamptz,
        PRIMARY KEY (tenant_id, id)
    ) WITH (fillfactor = 50)
    """,
    "CREATE UNIQUE INDEX IF NOT EXISTS redrives_slot_key ON redrives (tenant_id, slot) WHERE state = 1",
    "CREATE INDEX IF NOT EXISTS redrives_next_idx ON redrives (next_at, id) WHERE state = 1",
)

_INVALID = """
SELECT FROM pg_index WHERE indexrelid = to_regclass('dead_jobs_died_idx') AND NOT indisvalid
"""

# Of all rows, but only for statements that say `attempt >= 0`: no look-up of an id is to go by an index in which ids
# come last.
_CONCURRENTLY = """
CREATE INDEX CONCURRENTLY IF NOT EXISTS dead_jobs_died_idx ON dead_jobs (tenant_id, died_at, id) WHERE attempt >= 0
"""

# Letters from before keep what history still has of their attempts. A letter that is redriven meanwhile has them
# already.
_KEEP = """
UPDATE dead_jobs d
SET past = a.past
FROM (
    SELECT d.tenant_id, d.id, jsonb_agg(jsonb_build_object(
        'number', a.number, 'fence', a.fence, 'session_id', a.session_id, 'worker', s.worker,
        'leased_at', a.leased_at, 'ended_at', a.ended_at, 'outcome', a.outcome, 'failure', a.failure,
        'effect_state', a.effect_state, 'effect_receipts', a.effect_receipts) ORDER BY a.number) AS past
    FROM dead_jobs d
    JOIN attempts a ON a.tenant_id = d.tenant_id AND a.job_id = d.id
    LEFT JOIN sessions s ON s.id = a.session_id
    WHERE d.past IS NULL
    GROUP BY d.tenant_id, d.id
) a
WHERE d.tenant_id = a.tenant_id AND d.id = a.id AND d.past IS NULL
"""


def upgrade() -> None:
    for statement in _STATEMENTS:
        op.execute(statement)
    with op.get_context().autocommit_block():
        if op.get_bind().exec_driver_sql(_INVALID).first() is not None:
            # A build that failed half-way leaves this behind.
            op.execute("DROP INDEX CONCURRENTLY dead_jobs_died_idx")
        op.execute(_CONCURRENTLY)
        op.execute(_KEEP)


def downgrade() -> None:
    raise RuntimeError("Rota's migrations go forward only: restore a backup to go back")
