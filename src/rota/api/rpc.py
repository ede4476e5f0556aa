"""What every call goes through: who calls, may they, and what a failure becomes.

Authorisation comes before existence and before validation. A handler that writes runs in a task that the caller's
cancellation does not reach: a cancelled call may have been carried out, but never half.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import DecodeError
from grpc.aio import ServicerContext

from rota.api.errors import abort, as_refusal, undecodable
from rota.domain import limits
from rota.domain.errors import ResourceExhausted, RotaError, Unimplemented
from rota.domain.ids import TenantId
from rota.domain.model import Identity, Role
from rota.domain.portions import Portions
from rota.service.identity import Keys, require

Request = TypeVar("Request")
Response = TypeVar("Response")
Context = ServicerContext[Any, Any]


class Servicer(Protocol):
    """`calls` counts those that have statements of their own."""

    keys: Keys
    calls: Portions


async def identify(keys: Keys, context: Context, roles: tuple[Role, ...]) -> Identity:
    """The caller, if it has one of the roles."""
    authorization: str | None = None
    for key, value in context.invocation_metadata() or ():
        if key == "authorization":
            authorization = value if isinstance(value, str) else value.decode("latin-1")
    identity = await keys.authenticate(authorization)
    require(identity, *roles)
    return identity


def _check_room(calls: Portions, tenant: TenantId) -> None:
    if not calls.has_room(tenant):
        raise ResourceExhausted(
            f"{calls.of(tenant)} of your calls are on their way to the database, {calls.total} in all; "
            "wait for answers before you send more",
            retry_after_s=1.0,
        )


Handler = Callable[[Any, Request, Identity, Context], Coroutine[Any, Any, Response]]


def unary(
    *roles: Role, shield: bool = True, counted: bool = True
) -> Callable[[Handler[Request, Response]], Callable[[Any, Request, Context], Awaitable[Response]]]:
    """Makes a method `(self, request, identity, context)` a unary RPC for callers with one of the roles.

    Those that are shielded run to their end whether their callers stay or go, so they are counted and bounded, unless
    what they wait for is.
    """

    def decorate(handler: Handler[Request, Response]) -> Callable[[Any, Request, Context], Awaitable[Response]]:
        @functools.wraps(handler)
        async def call(self: Servicer, request: Request, context: Context) -> Response:
            try:
                identity = await identify(self.keys, context, roles)
                if isinstance(request, Undecodable):
                    raise request.refusal
                if not shield:
                    return await handler(self, request, identity, context)
                if counted:
                    _check_room(self.calls, identity.tenant_id)
                work = asyncio.ensure_future(handler(self, request, identity, context))
                if counted:
                    self.calls.add(identity.tenant_id)
                    work.add_done_callback(lambda _: self.calls.remove(identity.tenant_id))
                try:
                    return await asyncio.shield(work)
                except asyncio.CancelledError:
                    work.add_done_callback(_heed)
                    raise
            except grpc.aio.BaseError:
                # What gRPC says of the call's own end is no fault.
                raise
            except Exception as error:
                await abort(context, as_refusal(error))

        return call

    return decorate


def _heed(work: "asyncio.Future[Any]") -> None:
    """Looks at a failure that no caller is there to hear of: asyncio would log it as forgotten, with a traceback for
    each call while the database is away. A fault is logged as always."""
    if not work.cancelled() and isinstance(error := work.exception(), Exception):
        as_refusal(error)


StreamHandler = Callable[[Any, Any, Identity, Context], Coroutine[Any, Any, None]]


def stream(*roles: Role) -> Callable[[StreamHandler], Callable[[Any, Any, Context], Awaitable[None]]]:
    """The same for what streams, down alone (`requests` is the request) or both ways; the handler writes to the context
    itself."""

    def decorate(handler: StreamHandler) -> Callable[[Any, Any, Context], Awaitable[None]]:
        @functools.wraps(handler)
        async def call(self: Servicer, requests: Any, context: Context) -> None:
            try:
                identity = await identify(self.keys, context, roles)
                if isinstance(requests, Undecodable):
                    raise requests.refusal
                await handler(self, requests, identity, context)
            except grpc.aio.BaseError:
                # What gRPC says of the call's own end is no fault.
                raise
            except Exception as error:
                await abort(context, as_refusal(error))

        return call

    return decorate


class Undecodable:
    """Stands for a request that is no message, and says why."""

    def __init__(self, refusal: RotaError | None = None) -> None:
        self.refusal = refusal or undecodable()


class Registry:
    """Takes the handlers of generated code for a server.

    By itself gRPC answers bytes that it cannot decode with UNKNOWN, before anybody has asked who sent them, and calls
    beyond its bound without a reason or a word on when to come back.

    `methods`: the same handlers by service/method, for calls that come by HTTP; one bound for all.
    """

    def __init__(self, server: grpc.aio.Server) -> None:
        self._server = server
        self._open = 0
        self.methods: dict[str, Callable[[Any, Context], Awaitable[Any]]] = {}

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """The same handlers come by `add_registered_method_handlers`."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        checked = {name: self._checked(f"{service}/{name}", handler) for name, handler in handlers.items()}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, checked),))

    def _checked(self, name: str, handler: Any) -> Any:
        def decode(data: bytes) -> Any:
            try:
                return handler.request_deserializer(data)
            except DecodeError:
                return Undecodable()

        encode = handler.response_serializer
        if handler.unary_unary is not None:
            method = self.methods[name] = self._bounded(handler.unary_unary)
            return grpc.unary_unary_rpc_method_handler(method, decode, encode)
        if handler.unary_stream is not None:
            method = self.methods[name] = self._bounded(handler.unary_stream)
            return grpc.unary_stream_rpc_method_handler(method, decode, encode)
        # A handler that reads a stream gets the error where it reads.
        return grpc.stream_stream_rpc_method_handler(
            self._bounded(handler.stream_stream), handler.request_deserializer, encode
        )

    def _bounded(self, method: Callable[[Any, Context], Awaitable[Any]]) -> Callable[[Any, Context], Awaitable[Any]]:
        async def call(request: Any, context: Context) -> Any:
            if self._open >= limits.RPCS_MAX:
                await abort(context, _too_many(self._open))
            self._open += 1
            try:
                return await method(request, context)
            finally:
                self._open -= 1

        return call


def _too_many(open_: int) -> ResourceExhausted:
    return ResourceExhausted(
        f"{open_} calls and streams are open at this coordinator; come back later, or go to another one",
        retry_after_s=1.0,
    )


def refuse_the_rest(service: ServiceDescriptor, *roles: Role) -> Callable[[type], type]:
    """Gives a servicer class an answer for every RPC of the contract that it does not serve."""

    def decorate(servicer: type) -> type:
        generated = next(base for base in servicer.__mro__ if base.__name__ == f"{service.name}Servicer")
        for method in service.methods:
            if getattr(servicer, method.name) is getattr(generated, method.name):
                refuse = _refusal(f"{service.full_name}/{method.name}")
                streams = method.client_streaming or method.server_streaming
                setattr(servicer, method.name, stream(*roles)(refuse) if streams else unary(*roles)(refuse))
        return servicer

    return decorate


def _refusal(name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def refuse(self: Any, request: Any, identity: Identity, context: Context) -> Any:
        raise Unimplemented(f"{name} is part of the contract and not of this release; see CHANGELOG.md")

    return refuse
