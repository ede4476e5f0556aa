"""Finds the live jobs of a schedule. In a revision of its own: what is built concurrently cannot be rolled back."""

from alembic import op

revision = "0003"
down_revision = "0002"

_INVALID = """
SELECT FROM pg_index WHERE indexrelid = to_regclass('jobs_schedule_idx') AND NOT indisvalid
"""

# Its columns never change, so that claims stay HOT updates. Empty when it is built, yet built by a scan of the whole
# table: without a lock that writers would wait for.
_CONCURRENTLY = """
CREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_schedule_idx ON jobs (schedule_uid, nominal_at)
WHERE schedule_uid IS NOT NULL
"""


def upgrade() -> None:
    with op.get_context().autocommit_block():
        if op.get_bind().exec_driver_sql(_INVALID).first() is not None:
            # A build that failed half-way leaves this behind.
            op.execute("DROP INDEX CONCURRENTLY jobs_schedule_idx")
        op.execute(_CONCURRENTLY)


def downgrade() -> None:
    raise RuntimeError("Rota's migrations go forward only: restore a backup to go back")
