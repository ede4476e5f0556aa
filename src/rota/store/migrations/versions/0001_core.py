"""Tenants, keys, coordinators, shards, sessions, jobs and their histories."""

from alembic import op

revision = "0001"
down_revision = None

_JOB_COLUMNS = """
    tenant_id integer NOT NULL,
    id uuid NOT NULL,
    priority smallint NOT NULL,
    generation integer NOT NULL,
    attempt integer NOT NULL,
    attempts_counted integer NOT NULL,
    max_attempts integer NOT NULL,
    run_timeout_ms bigint NOT NULL,
    fence bigint NOT NULL,
    due_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    type text NOT NULL,
    queue text NOT NULL,
    content_type text NOT NULL,
    payload bytea NOT NULL,
    headers jsonb,
    labels jsonb,
    options jsonb,
    effect_key text,
    concurrency_key text,
    traceparent text,
    last_failure jsonb,
"""

_STATEMENTS = (
    """
    CREATE TABLE tenants (
        id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name text NOT NULL CONSTRAINT tenants_name_key UNIQUE,
        created_at timestamptz NOT NULL DEFAULT now()
    )
    """,
    """
    CREATE TABLE api_keys (
        id text PRIMARY KEY,
        tenant_id integer NOT NULL CONSTRAINT api_keys_tenant_id_fkey REFERENCES tenants (id),
        secret_sha256 bytea NOT NULL,
        label text NOT NULL,
        roles text[] NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        expires_at timestamptz,
        revoked_at timestamptz
    )
    """,
    """
    CREATE TABLE coordinators (
        id uuid PRIMARY KEY,
        address text NOT NULL,
        version text NOT NULL,
        started_at timestamptz NOT NULL DEFAULT now(),
        expires_at timestamptz NOT NULL
    )
    """,
    """
    CREATE TABLE shards (
        shard smallint PRIMARY KEY,
        epoch bigint NOT NULL DEFAULT 0,
        owner uuid,
        watermark timestamptz
    )
    """,
    "INSERT INTO shards (shard) SELECT generate_series(0, 255)",
    """
    CREATE TABLE sessions (
        id uuid PRIMARY KEY,
        tenant_id integer NOT NULL,
        epoch bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
        state smallint NOT NULL,
        worker text NOT NULL,
        sdk text NOT NULL,
        build_id text NOT NULL,
        queues text[] NOT NULL,
        types text[] NOT NULL,
        slots integer NOT NULL,
        free_slots integer NOT NULL,
        labels jsonb,
        protocol_version integer NOT NULL,
        ttl_ms integer NOT NULL,
        coordinator uuid,
        opened_at timestamptz NOT NULL,
        last_beat_at timestamptz NOT NULL,
        expires_at timestamptz NOT NULL,
        closed_at timestamptz
    ) WITH (fillfactor = 50)
    """,
    "CREATE INDEX sessions_open_idx ON sessions (tenant_id, id) WHERE closed_at IS NULL",
    f"""
    CREATE TABLE jobs (
        {_JOB_COLUMNS}
        shard smallint NOT NULL,
        state smallint NOT NULL,
        leased_at timestamptz,
        session_id uuid,
        start_by timestamptz,
        deadline_at timestamptz,
        tracestate text,
        cancel_reason text,
        PRIMARY KEY (tenant_id, id)
    ) WITH (
        fillfactor = 70,
        autovacuum_vacuum_scale_factor = 0.02,
        autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0.1
    )
    """,
    "CREATE INDEX jobs_due_idx ON jobs (shard, due_at, id) WHERE shard >= 0",
    f"""
    CREATE TABLE finished_jobs (
        {_JOB_COLUMNS}
        state smallint NOT NULL,
        leased_at timestamptz,
        finished_at timestamptz NOT NULL,
        session_id uuid,
        outcome smallint,
        request_id text,
        result bytea,
        result_content_type text,
        effect_state smallint,
        effect_receipts jsonb,
        despite_cancel boolean NOT NULL,
        reason text,
        PRIMARY KEY (tenant_id, id, finished_at)
    ) PARTITION BY RANGE (finished_at)
    """,
    "CREATE TABLE finished_jobs_other PARTITION OF finished_jobs DEFAULT",
    """
    CREATE TABLE attempts (
        tenant_id integer NOT NULL,
        job_id uuid NOT NULL,
        fence bigint NOT NULL,
        ended_at timestamptz NOT NULL,
        number integer NOT NULL,
        session_id uuid,
        leased_at timestamptz NOT NULL,
        outcome smallint NOT NULL,
        request_id text,
        failure jsonb,
        effect_state smallint,
        effect_receipts jsonb,
        PRIMARY KEY (tenant_id, job_id, fence, ended_at)
    ) PARTITION BY RANGE (ended_at)
    """,
    "CREATE TABLE attempts_other PARTITION OF attempts DEFAULT",
    f"""
    CREATE TABLE dead_jobs (
        {_JOB_COLUMNS}
        leased_at timestamptz,
        died_at timestamptz NOT NULL,
        session_id uuid,
        reason text,
        PRIMARY KEY (tenant_id, id)
    )
    """,
    """
    CREATE TABLE requests (
        tenant_id integer NOT NULL,
        method smallint NOT NULL,
        request_id text NOT NULL,
        digest bytea NOT NULL,
        answer uuid[] NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, method, request_id)
    )
    """,
    "CREATE INDEX requests_created_at_idx ON requests (created_at)",
    """
    CREATE TABLE dedupe_keys (
        tenant_id integer NOT NULL,
        key text NOT NULL,
        job_id uuid NOT NULL,
        held_until timestamptz,
        PRIMARY KEY (tenant_id, key)
    )
    """,
    "CREATE INDEX dedupe_keys_held_until_idx ON dedupe_keys (held_until)",
)


def upgrade() -> None:
    for statement in _STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    raise RuntimeError("Rota's migrations go forward only: restore a backup to go back")
