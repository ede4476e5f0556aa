"""An id that is taken: the refusal of what was to be created, from the database's own word for it."""

from psycopg import errors as pg

from rota.domain.errors import AlreadyExists


def id_taken(collection: str, error: pg.UniqueViolation) -> AlreadyExists:
    """The key that was violated must be (tenant_id, id)."""
    detail = error.diag.message_detail or ""
    id = detail.partition(")=(")[2].partition(")")[0].partition(", ")[2]
    return AlreadyExists(f"{collection}/{id}: exists already; choose another id, or change the one that is there")
