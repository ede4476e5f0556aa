"""CloseSession: what it does once, and again."""

import pytest
from rota_sdk.gen.rota.worker.v1 import worker_pb2

from .running import Tenant, refusal

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_close_whose_answer_was_lost_is_repeated(tenant: Tenant) -> None:
    worker = await tenant.worker()
    await tenant.create()
    await worker.one()
    assert await worker.close() == 1
    assert await worker.close() == 0
    # A stranger's, or one that never was, is gone as ever, and the other tenant's lives on.
    other = await (await tenant.coordinator.tenant()).worker()
    for session in (other.opened.session, "sessions/0199b8c1-0000-7000-8000-000000000000"):
        stranger = tenant.work.CloseSession(worker_pb2.CloseSessionRequest(session=session))
        assert (await refusal(stranger)).case == ("NOT_FOUND", "SESSION_GONE")
    await other.beat()
