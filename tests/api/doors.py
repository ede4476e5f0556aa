"""An HTTP door before handlers of the test's own, for what no real one does at will."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
from google.protobuf.message_factory import GetMessageClass

from rota.api.errors import abort
from rota.api.http.server import Door, contract
from rota.clock import SystemClock
from rota.domain.errors import RotaError, Unauthenticated

from .web import Web

Method = Callable[[Any, Any], Awaitable[Any]]
KEY = "k"


class AnyKey:
    async def authenticate(self, authorization: str | None) -> None:
        if authorization != f"Bearer {KEY}":
            raise Unauthenticated("no credential")


def refusing(error: RotaError) -> Method:
    async def refuse(request: Any, context: Any) -> Any:
        await abort(context, error)

    return refuse


def message_of(rpc: str) -> Any:
    """An empty answer of an RPC."""
    route = next(each for each in contract().all if each.rpc == rpc)
    return GetMessageClass(route.descriptor.output_type)()


@asynccontextmanager
async def door(
    methods: Mapping[str, Method], *, guarded: bool = True, tls: Any = None, **options: Any
) -> AsyncIterator[tuple[Door, Web]]:
    """A door with these handlers, and a client that may call."""
    found = Door(methods, contract(), AnyKey(), SystemClock(), **options)  # type: ignore[arg-type]
    port = found.bind("http_listen", "127.0.0.1:0", tls, guarded=guarded)
    await found.start()
    try:
        url = f"http://127.0.0.1:{port}"
        async with httpx.AsyncClient(base_url=url, timeout=20, trust_env=False) as client:
            yield found, Web(client, KEY)
    finally:
        await found.stop(0)
