"""Changes of jobs, for watchers: written down by triggers, for the tenants that somebody watches.

Triggers see every statement, those of other versions included, and none can be forgotten. They are of statements, not
of rows, and where nobody watches all that they do is to look at an empty table. See `store/changes.py`.
"""

from alembic import op

revision = "0009"
down_revision = "0008"

# Each may have been done by a try that failed further down: see below.
_TABLES = (
    """
    CREATE TABLE IF NOT EXISTS watched_tenants (
        tenant_id integer PRIMARY KEY,
        generation bigint GENERATED ALWAYS AS IDENTITY,
        settled boolean NOT NULL,
        watched_until timestamptz NOT NULL,
        dropped_xid bigint NOT NULL
    ) WITH (fillfactor = 50)
    """,
    """
    CREATE TABLE IF NOT EXISTS job_changes (
        tenant_id integer NOT NULL,
        xid bigint NOT NULL,
        seq bigint GENERATED ALWAYS AS IDENTITY,
        changed_at timestamptz NOT NULL,
        id uuid NOT NULL,
        state smallint NOT NULL,
        priority smallint NOT NULL,
        generation integer NOT NULL,
        attempt integer NOT NULL,
        attempts_counted integer NOT NULL,
        max_attempts integer NOT NULL,
        run_timeout_ms bigint NOT NULL,
        due_at timestamptz NOT NULL,
        created_at timestamptz NOT NULL,
        leased_at timestamptz,
        finished_at timestamptz,
        deadline_at timestamptz,
        session_id uuid,
        type text NOT NULL,
        queue text NOT NULL,
        headers jsonb,
        labels jsonb,
        options jsonb,
        effect_key text,
        concurrency_key text,
        traceparent text,
        last_failure jsonb,
        despite_cancel boolean NOT NULL,
        reason text,
        schedule_uid uuid,
        schedule_id text,
        nominal_at timestamptz,
        occurrence_generation integer,
        held_for uuid,
        PRIMARY KEY (tenant_id, xid, seq)
    ) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000)
    """,
)

_SAME = """id, priority, generation, attempt, attempts_counted, max_attempts, run_timeout_ms, due_at, created_at,
            leased_at, session_id, type, queue, headers, labels, options, effect_key, concurrency_key, traceparent,
            last_failure, schedule_uid, schedule_id, nominal_at, occurrence_generation"""


def _function(name: str, columns: str, values: str) -> str:
    """Copies the rows of watched tenants. The look at those is a statement of its own: one that sees what was committed
    up to then, and ends it where there are none."""
    return f"""
    CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NOT EXISTS (SELECT FROM watched_tenants) THEN
            RETURN NULL;
        END IF;
        INSERT INTO job_changes (tenant_id, xid, changed_at, {_SAME}, {columns})
        SELECT tenant_id, (SELECT pg_current_xact_id()::text::bigint), clock_timestamp(), {_SAME}, {values}
        FROM changed c
        WHERE EXISTS (SELECT FROM watched_tenants w WHERE w.tenant_id = c.tenant_id);
        RETURN NULL;
    END $$
    """


_FUNCTIONS = (
    _function(
        "rota_jobs_changed",
        "state, despite_cancel, reason, deadline_at, held_for",
        "state, false, cancel_reason, deadline_at, held_for",
    ),
    _function(
        "rota_jobs_finished", "state, despite_cancel, reason, finished_at", "state, despite_cancel, reason, finished_at"
    ),
    _function("rota_jobs_died", "state, despite_cancel, reason, finished_at", "9, false, reason, died_at"),
)

_TRIGGERS = (
    ("jobs_inserted", "INSERT", "jobs", "rota_jobs_changed"),
    ("jobs_updated", "UPDATE", "jobs", "rota_jobs_changed"),
    ("jobs_finished", "INSERT", "finished_jobs", "rota_jobs_finished"),
    ("jobs_died", "INSERT", "dead_jobs", "rota_jobs_died"),
)


def upgrade() -> None:
    for statement in (*_TABLES, *_FUNCTIONS):
        op.execute(statement)
    # One transaction each: whoever holds the lock of one table must not wait for another's, since statements at work
    # take them in more than one order.
    with op.get_context().autocommit_block():
        for name, event, table, function in _TRIGGERS:
            op.execute(
                f"CREATE OR REPLACE TRIGGER {name} AFTER {event} ON {table} REFERENCING NEW TABLE AS changed "
                f"FOR EACH STATEMENT EXECUTE FUNCTION {function}()"
            )


def downgrade() -> None:
    raise RuntimeError("Rota's migrations go forward only: restore a backup to go back")
