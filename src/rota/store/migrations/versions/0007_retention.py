"""History that is kept for a tenant's own span."""

from alembic import op

revision = "0007"
down_revision = "0006"

_STATEMENTS: tuple[str, ...] = ()


def upgrade() -> None:
    for statement in _STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    raise RuntimeError("Rota's migrations go forward only: restore a backup to go back")
