"""What every call goes through: who calls, may they, and what a failure becomes.

Authorisation comes before existence and before validation. A handler that writes runs in a task that the caller's
cancellation does not reach: a cancelled call may have been carried out, but never half.
"""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from google.protobuf.descriptor import ServiceDescriptor
from grpc.aio import ServicerContext

from rota.api.errors import abort, as_refusal
from rota.domain.errors import Unimplemented
from rota.domain.model import Identity, Role
from rota.service.identity import Keys, require

Request = TypeVar("Request")
Response = TypeVar("Response")
Context = ServicerContext[Any, Any]


class HasKeys(Protocol):
    keys: Keys


async def identify(keys: Keys, context: Context, roles: tuple[Role, ...]) -> Identity:
    """The caller, if it has one of the roles."""
    authorization: str | None = None
    for key, value in context.invocation_metadata() or ():
        if key == "authorization":
            authorization = value if isinstance(value, str) else value.decode("latin-1")
    identity = await keys.authenticate(authorization)
    require(identity, *roles)
    return identity


Handler = Callable[[Any, Request, Identity, Context], Coroutine[Any, Any, Response]]


def unary(
    *roles: Role, shield: bool = True
) -> Callable[[Handler[Request, Response]], Callable[[Any, Request, Context], Awaitable[Response]]]:
    """Makes a method `(self, request, identity, context)` a unary RPC for callers with one of the roles."""

    def decorate(handler: Handler[Request, Response]) -> Callable[[Any, Request, Context], Awaitable[Response]]:
        @functools.wraps(handler)
        async def call(self: HasKeys, request: Request, context: Context) -> Response:
            try:
                identity = await identify(self.keys, context, roles)
                work = handler(self, request, identity, context)
                return await (asyncio.shield(asyncio.ensure_future(work)) if shield else work)
            except Exception as error:
                await abort(context, as_refusal(error))

        return call

    return decorate


StreamHandler = Callable[[Any, AsyncIterator[Request], Identity, Context], Coroutine[Any, Any, None]]


def stream(
    *roles: Role,
) -> Callable[[StreamHandler[Request]], Callable[[Any, AsyncIterator[Request], Context], Awaitable[None]]]:
    """The same for a bidirectional stream; the handler writes to the context itself."""

    def decorate(
        handler: StreamHandler[Request],
    ) -> Callable[[Any, AsyncIterator[Request], Context], Awaitable[None]]:
        @functools.wraps(handler)
        async def call(self: HasKeys, requests: AsyncIterator[Request], context: Context) -> None:
            try:
                identity = await identify(self.keys, context, roles)
                await handler(self, requests, identity, context)
            except Exception as error:
                await abort(context, as_refusal(error))

        return call

    return decorate


def refuse_the_rest(service: ServiceDescriptor, *roles: Role) -> Callable[[type], type]:
    """Gives a servicer class an answer for every RPC of the contract that it does not serve."""

    def decorate(servicer: type) -> type:
        for method in service.methods:
            if method.name not in vars(servicer):
                refuse = _refusal(f"{service.full_name}/{method.name}")
                streams = method.client_streaming or method.server_streaming
                setattr(servicer, method.name, stream(*roles)(refuse) if streams else unary(*roles)(refuse))
        return servicer

    return decorate


def _refusal(name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def refuse(self: Any, request: Any, identity: Identity, context: Context) -> Any:
        raise Unimplemented(f"{name} is part of the contract and not of this release; see CHANGELOG.md")

    return refuse
