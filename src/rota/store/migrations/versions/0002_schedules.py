"""Schedules, their timers, the ledger of occurrences, calendars and backfills; and where a job comes from."""

from alembic import op

revision = "0002"
down_revision = "0001"

_FROM_SCHEDULE = """
    ADD COLUMN schedule_uid uuid,
    ADD COLUMN schedule_id text,
    ADD COLUMN schedule_version bigint,
    ADD COLUMN nominal_at timestamptz,
    ADD COLUMN occurrence_generation integer
"""

_STATEMENTS = (
    *(f"ALTER TABLE {table} {_FROM_SCHEDULE}" for table in ("jobs", "finished_jobs", "dead_jobs")),
    """
    CREATE TABLE schedules (
        tenant_id integer NOT NULL,
        id text NOT NULL,
        uid uuid NOT NULL CONSTRAINT schedules_uid_key UNIQUE,
        shard smallint NOT NULL,
        definition jsonb NOT NULL,
        labels jsonb,
        type text NOT NULL,
        queue text NOT NULL,
        priority smallint NOT NULL,
        max_attempts integer NOT NULL,
        run_timeout_ms bigint NOT NULL,
        start_by_s double precision,
        total_s double precision,
        content_type text NOT NULL,
        payload bytea NOT NULL,
        headers jsonb,
        job_labels jsonb,
        options jsonb,
        concurrency_key text,
        apply_set text,
        traceparent text,
        created_at timestamptz NOT NULL,
        updated_at timestamptz NOT NULL,
        PRIMARY KEY (tenant_id, id)
    )
    """,
    "CREATE INDEX schedules_apply_set_idx ON schedules (tenant_id, apply_set, id) WHERE apply_set IS NOT NULL",
    """
    CREATE TABLE schedule_timers (
        uid uuid PRIMARY KEY,
        tenant_id integer NOT NULL,
        shard smallint NOT NULL,
        version bigint NOT NULL,
        state smallint NOT NULL,
        cursor_at timestamptz NOT NULL,
        next_nominal timestamptz,
        next_due timestamptz,
        arm_at timestamptz,
        fired bigint NOT NULL,
        buffered integer NOT NULL,
        failures integer NOT NULL,
        pause_after integer NOT NULL,
        fates bigint[] NOT NULL,
        episode jsonb,
        paused_at timestamptz,
        last_nominal timestamptz,
        last_fire_at timestamptz,
        last_job uuid,
        state_reason text,
        state_author text,
        state_at timestamptz NOT NULL,
        tzdata text NOT NULL
    ) WITH (
        fillfactor = 80,
        autovacuum_vacuum_scale_factor = 0.05,
        autovacuum_vacuum_threshold = 2000
    )
    """,
    "CREATE INDEX schedule_timers_arm_idx ON schedule_timers (shard, arm_at, uid) WHERE arm_at IS NOT NULL",
    """
    CREATE TABLE occurrences (
        schedule_uid uuid NOT NULL,
        nominal_at timestamptz NOT NULL,
        generation integer NOT NULL,
        tenant_id integer NOT NULL,
        due_at timestamptz NOT NULL,
        origin smallint NOT NULL,
        fate smallint NOT NULL,
        version bigint NOT NULL,
        recorded_at timestamptz NOT NULL,
        local_time text NOT NULL,
        reason text,
        job_id uuid,
        blocking_job uuid,
        backfill_id uuid,
        count bigint NOT NULL,
        last_nominal timestamptz,
        missed bigint,
        first_missed timestamptz,
        forced boolean NOT NULL,
        payload bytea,
        content_type text,
        PRIMARY KEY (schedule_uid, nominal_at, generation)
    ) PARTITION BY RANGE (nominal_at)
    """,
    "CREATE INDEX occurrences_waiting_idx ON occurrences (schedule_uid, nominal_at, generation) WHERE fate = 2",
    "CREATE TABLE occurrences_other PARTITION OF occurrences DEFAULT",
    """
    CREATE TABLE deleted_schedules (
        tenant_id integer NOT NULL,
        id text NOT NULL,
        uid uuid NOT NULL,
        deleted_at timestamptz NOT NULL,
        PRIMARY KEY (tenant_id, id, uid)
    )
    """,
    """
    CREATE TABLE calendars (
        tenant_id integer NOT NULL,
        id text NOT NULL,
        uid uuid NOT NULL,
        version bigint NOT NULL,
        dates text[] NOT NULL,
        notes text NOT NULL,
        labels jsonb,
        created_at timestamptz NOT NULL,
        updated_at timestamptz NOT NULL,
        PRIMARY KEY (tenant_id, id)
    )
    """,
    """
    CREATE TABLE schedule_calendars (
        tenant_id integer NOT NULL,
        calendar_id text NOT NULL,
        schedule_uid uuid NOT NULL,
        PRIMARY KEY (tenant_id, calendar_id, schedule_uid)
    )
    """,
    "CREATE INDEX schedule_calendars_schedule_uid_idx ON schedule_calendars (schedule_uid)",
    """
    CREATE TABLE backfills (
        id uuid PRIMARY KEY,
        schedule_uid uuid NOT NULL,
        tenant_id integer NOT NULL,
        shard smallint NOT NULL,
        start_at timestamptz NOT NULL,
        end_at timestamptz NOT NULL,
        include_fired boolean NOT NULL,
        rate double precision NOT NULL,
        overlap_mode smallint,
        overlap_limit integer,
        priority smallint NOT NULL,
        reason text NOT NULL,
        state smallint NOT NULL,
        cursor_at timestamptz NOT NULL,
        next_nominal timestamptz,
        next_at timestamptz NOT NULL,
        total bigint NOT NULL,
        done bigint NOT NULL,
        fired bigint NOT NULL,
        author text NOT NULL,
        created_at timestamptz NOT NULL,
        finished_at timestamptz
    )
    """,
    "CREATE INDEX backfills_schedule_uid_id_idx ON backfills (schedule_uid, id)",
    "CREATE INDEX backfills_next_idx ON backfills (shard, next_at, id) WHERE state = 1",
)


def upgrade() -> None:
    for statement in _STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    raise RuntimeError("Rota's migrations go forward only: restore a backup to go back")
