"""History that is kept for a tenant's own span."""

from alembic import op

revision = "0007"
down_revision = "0006"

# What outlives the days that all tenants share goes to tables of the tenant's own, a month each.
_STATEMENTS = (
    # NULL everywhere: no row is rewritten.
    "ALTER TABLE tenants ADD COLUMN history_s double precision",
    """
    CREATE TABLE kept_jobs (LIKE finished_jobs, PRIMARY KEY (tenant_id, id, finished_at))
    PARTITION BY LIST (tenant_id)
    """,
    """
    CREATE TABLE kept_attempts (LIKE attempts, PRIMARY KEY (tenant_id, job_id, fence, ended_at))
    PARTITION BY LIST (tenant_id)
    """,
    """
    CREATE TABLE kept_occurrences (LIKE occurrences, PRIMARY KEY (tenant_id, schedule_uid, nominal_at, generation))
    PARTITION BY LIST (tenant_id)
    """,
)


def upgrade() -> None:
    for statement in _STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    raise RuntimeError("Rota's migrations go forward only: restore a backup to go back")
