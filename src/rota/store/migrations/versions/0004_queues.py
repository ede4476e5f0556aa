"""Queues and tenants with settings, what exact limits are counted by, and what coordinators know of each other."""

from alembic import op

revision = "0004"
down_revision = "0003"

_STATEMENTS = (
    # Constant defaults: no row is rewritten.
    """
    ALTER TABLE tenants
        ADD COLUMN weight integer NOT NULL DEFAULT 100,
        ADD COLUMN max_in_flight integer,
        ADD COLUMN version bigint NOT NULL DEFAULT 1,
        ADD COLUMN updated_at timestamptz NOT NULL DEFAULT now()
    """,
    "ALTER TABLE coordinators ADD COLUMN peer_address text, ADD COLUMN draining boolean NOT NULL DEFAULT false",
    """
    CREATE TABLE queues (
        tenant_id integer NOT NULL,
        id text NOT NULL,
        weight integer NOT NULL,
        rate double precision,
        rate_burst integer,
        max_in_flight integer,
        max_in_flight_per_key integer,
        version bigint NOT NULL,
        paused_at timestamptz,
        pause_reason text,
        pause_author text,
        created_at timestamptz NOT NULL,
        updated_at timestamptz NOT NULL,
        PRIMARY KEY (tenant_id, id)
    )
    """,
    """
    CREATE TABLE meters (
        tenant_id integer NOT NULL,
        queue text NOT NULL,
        uncounted boolean NOT NULL,
        tokens double precision,
        refilled_at timestamptz,
        swept_queue text NOT NULL,
        swept_key text NOT NULL,
        swept_job uuid NOT NULL,
        PRIMARY KEY (tenant_id, queue)
    ) WITH (fillfactor = 50)
    """,
    "CREATE INDEX meters_uncounted_idx ON meters (tenant_id, queue) WHERE uncounted",
    """
    CREATE TABLE lease_slots (
        tenant_id integer NOT NULL,
        queue text NOT NULL,
        key text NOT NULL,
        job_id uuid NOT NULL,
        fence bigint NOT NULL,
        PRIMARY KEY (tenant_id, queue, key, job_id)
    ) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000)
    """,
    """
    CREATE TABLE installation (
        id boolean PRIMARY KEY DEFAULT true CONSTRAINT installation_one_row CHECK (id),
        peer_secret bytea NOT NULL,
        settings_version bigint NOT NULL
    )
    """,
    # 366 random bits in three UUIDs, made 256 by a hash.
    """
    INSERT INTO installation (peer_secret, settings_version)
    SELECT sha256(convert_to(string_agg(gen_random_uuid()::text, ''), 'UTF8')), 1 FROM generate_series(1, 3)
    """,
)


def upgrade() -> None:
    for statement in _STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    raise RuntimeError("Rota's migrations go forward only: restore a backup to go back")
