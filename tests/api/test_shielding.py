"""What becomes of a call whose caller has gone: it runs to its end, and a failure of it is heeded."""

import asyncio
import gc
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from rota.api.rpc import unary
from rota.domain.errors import Unavailable
from rota.domain.model import Role
from rota.domain.portions import Portions

ANYBODY = SimpleNamespace(roles=frozenset(Role), tenant_id=1, tenant="default", key_id="k")


class Servicer:
    """A call that waits for a gate, and fails then."""

    def __init__(self, error: Exception) -> None:
        self.keys = SimpleNamespace(authenticate=self._authenticate)
        self.calls = Portions(10)
        self.gate = asyncio.Event()
        self.ended = asyncio.Event()
        self._error = error

    async def _authenticate(self, authorization: str | None) -> Any:
        return ANYBODY

    @unary(Role.WORKER)
    async def Call(self, request: Any, identity: Any, context: Any) -> None:
        await self.gate.wait()
        self.ended.set()
        raise self._error


@pytest.mark.parametrize(("error", "logged"), [(Unavailable("away"), False), (ZeroDivisionError("a fault"), True)])
async def test_a_failure_that_nobody_hears_is_logged_only_if_it_is_a_fault(
    error: Exception, logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    servicer = Servicer(error)
    forgotten: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: forgotten.append(context))
    context = SimpleNamespace(invocation_metadata=lambda: ())
    call = asyncio.create_task(servicer.Call("request", context))  # type: ignore[arg-type]
    while servicer.calls.total == 0:
        await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    servicer.gate.set()
    await servicer.ended.wait()
    while servicer.calls.total:
        await asyncio.sleep(0)
    gc.collect()
    assert forgotten == []
    assert [record.levelno for record in caplog.records if record.levelno >= logging.ERROR] == [logging.ERROR] * logged
