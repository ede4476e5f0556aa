"""Alembic's entry: runs the revisions on the connection that `rota.store.schema` hands over."""

from alembic import context

from rota.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # Each revision commits by itself, so that one that builds an index concurrently can leave its transaction.
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
