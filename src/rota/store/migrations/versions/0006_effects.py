"""The ledger of effects that targets cannot make once by themselves."""

from alembic import op

revision = "0006"
down_revision = "0005"

_STATEMENTS = (
    # NULL everywhere: no row is rewritten.
    "ALTER TABLE jobs ADD COLUMN held_for uuid",
    """
    CREATE TABLE effects (
        tenant_id integer NOT NULL,
        effect_key text NOT NULL,
        id uuid NOT NULL,
        job_id uuid NOT NULL,
        fence bigint NOT NULL,
        state smallint NOT NULL,
        earlier smallint NOT NULL,
        policy smallint NOT NULL,
        begun_at timestamptz NOT NULL,
        needed_at timestamptz NOT NULL,
        reference text,
        resolved_by text,
        reason text,
        PRIMARY KEY (tenant_id, effect_key),
        CONSTRAINT effects_id_key UNIQUE (tenant_id, id)
    ) WITH (fillfactor = 70)
    """,
    "CREATE INDEX effects_doubt_idx ON effects (tenant_id, id) WHERE state IN (0, 3)",
    "CREATE INDEX effects_job_idx ON effects (tenant_id, job_id, id) WHERE state IN (0, 3)",
    "CREATE INDEX effects_needed_idx ON effects (needed_at) WHERE state IN (1, 2)",
)


def upgrade() -> None:
    for statement in _STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    raise RuntimeError("Rota's migrations go forward only: restore a backup to go back")
