"""Epochs that do not come again when a standby is promoted, or a backup restored.

A database that is a copy of another one as it was a while ago takes its epochs for the newest, though the other may
have raised them since, and leases may carry them. `rota_incarnation()` names the database that answers, so that the
first new epoch there goes far beyond: see `store/shards.py`.
"""

from alembic import op

revision = "0008"
down_revision = "0007"

_STATEMENTS = (
    # The cluster; its timeline, a new one for each promotion and each recovery to a point in time; the database, a new
    # one for each restored dump. Empty where a service does not let its users ask: such a service promotes no standby
    # that lags.
    """CREATE FUNCTION rota_incarnation() RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT system_identifier FROM pg_control_system())
        || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)
        || '/' || (SELECT oid FROM pg_database WHERE datname = current_database());
EXCEPTION WHEN OTHERS THEN
    RETURN '';
END $$""",
    # The one under which the epoch was raised the last time.
    "ALTER TABLE shards ADD COLUMN incarnation text",
    "UPDATE shards SET incarnation = rota_incarnation()",
)


def upgrade() -> None:
    for statement in _STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    raise RuntimeError("Rota's migrations go forward only: restore a backup to go back")
