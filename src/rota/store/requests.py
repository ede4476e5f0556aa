"""What makes a call repeatable: its request_id stands for one answer."""

from collections.abc import Sequence

from rota.domain.errors import AlreadyExists
from rota.domain.ids import TenantId
from rota.store.engine import Run, array
from rota.store.scheduleport import RequestKey

_CLAIM = """
INSERT INTO requests (tenant_id, method, request_id, digest, answer)
VALUES (%(tenant)s, %(method)s, %(request_id)s, %(digest)s, %(answer)s::uuid[])
ON CONFLICT DO NOTHING RETURNING 1
"""

_EARLIER = """
SELECT digest, answer::text[] FROM requests
WHERE tenant_id = %(tenant)s AND method = %(method)s AND request_id = %(request_id)s
"""


async def earlier(run: Run, tenant: TenantId, request: RequestKey, answer: Sequence[str]) -> tuple[str, ...] | None:
    """Claims a request_id for an answer of UUIDs; the answer that it stands for already, if it does.

    Raises AlreadyExists (REQUEST_ID_REUSED) when it stands for another request.
    """
    key: dict[str, object] = {"tenant": tenant, "method": request.method, "request_id": request.request_id}
    if await run(_CLAIM, key | {"digest": request.digest, "answer": array(answer)}):
        return None
    digest, found = (await run(_EARLIER, key))[0]
    if bytes(digest) != request.digest:
        raise AlreadyExists(
            f"request_id: {request.request_id!r} stands for another request; make a fresh one for each call",
            reason="REQUEST_ID_REUSED",
        )
    return tuple(found)
