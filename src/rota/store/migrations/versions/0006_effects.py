"""The ledger of effects that targets cannot make once by themselves."""

from alembic import op

revision = "0006"
down_revision = "0005"

_STATEMENTS: tuple[str, ...] = ()


def upgrade() -> None:
    for statement in _STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    raise RuntimeError("Rota's migrations go forward only: restore a backup to go back")
