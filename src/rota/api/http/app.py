"""A call by HTTP: which RPC it means, who may ask for it here, and what its answer looks like."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import resources
from typing import Any, Final

from google.rpc import code_pb2, status_pb2
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rota.api.errors import as_refusal, status_of
from rota.api.http import body, errors, strictjson
from rota.api.http.binding import ETAG, Bound, Headers, bind, etag_of
from rota.api.http.context import HttpContext, Refused
from rota.api.http.errors import JSON, HttpRefusal
from rota.api.http.routes import Found, MalformedPath, Routes
from rota.api.http.sse import Events
from rota.api.rpc import Undecodable
from rota.clock import Clock
from rota.domain.duration import parse_duration
from rota.domain.errors import InvalidArgument, ResourceExhausted, RotaError, leaving
from rota.service.identity import Keys

CALL_S_MAX: Final = 60.0
"""The longest call, and the usual one: longer than a worker waits for jobs."""

STREAM_S_MAX: Final = 1_800.0
"""Streams are opened anew after this long, perhaps at another coordinator."""

STREAMS_MAX: Final = 2_000
PATH_BYTES_MAX: Final = 8 * 1024
INLINE_BYTES_MAX: Final = 32 * 1024
"""JSON of more is read and written beside the event loop, which it would hold for milliseconds."""

GUARDED: Final = ("/internal/", "/admin/")
OPENAPI_PATH: Final = "/openapi.json"

_ONCE: Final = frozenset(
    {"authorization", "content-type", "content-encoding", "idempotency-key", "if-match", "last-event-id"}
    | {"request-timeout"}
)
_PASSED: Final = ("authorization", "traceparent", "tracestate", "user-agent")
"""Headers that servicers may look at."""

Method = Callable[[Any, Any], Awaitable[Any]]


class Calls:
    """What all listeners of a coordinator share: the RPCs, and what is under way."""

    def __init__(self, methods: Mapping[str, Method], keys: Keys, routes: Routes, clock: Clock) -> None:
        self.methods = methods
        self.keys = keys
        self.routes = routes
        self.clock = clock
        self.stopping = False
        self.under_way: set[asyncio.Task[Any]] = set()
        self.streams: set[Events] = set()


class App:
    """The ASGI application of one listener. `guarded`: it serves /internal and /admin too."""

    def __init__(self, calls: Calls, *, guarded: bool, document: bytes) -> None:
        self._calls = calls
        self._guarded = guarded
        self._document = document if guarded else _public(document)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        gone: asyncio.Task[None] | None = None
        try:
            found = await self._find(request)
            if isinstance(found, Response):
                await found(scope, receive, send)
                return
            sent = await self._request_of(found, request)
            gone = asyncio.create_task(_until_gone(receive))
            if found.route.streams:
                await self._stream(found, sent, request, gone, send)
            elif (answer := await self._unary(found, sent, request, gone)) is not None:
                await answer(scope, receive, send)
        except ClientDisconnect:
            return
        except HttpRefusal as refusal:
            await errors.refusal_answer(refusal)(scope, receive, send)
        except RotaError as error:
            await errors.answer(status_of(error))(scope, receive, send)
        except Exception as error:
            await errors.answer(status_of(as_refusal(error)))(scope, receive, send)
        finally:
            if gone is not None:
                gone.cancel()

    async def _find(self, request: Request) -> Found | Response:
        """What a request asks for, or the answer where that needs no call."""
        for name in _ONCE:
            if len(request.headers.getlist(name)) > 1:
                raise errors.malformed(400, f"expected the header {name} once, found it twice")
        path = _path(request)
        if len(path) > PATH_BYTES_MAX:
            raise errors.malformed(414, f"expected a path of at most {PATH_BYTES_MAX} bytes, found {len(path)}")
        if path == OPENAPI_PATH:
            return self._answer_document(request)
        if path.startswith(GUARDED) and not self._guarded:
            raise errors.no_such_path(
                f"{path[:80]}: /internal and /admin are not served here, since others can reach this listener; call "
                "the one of http_internal_listen, or set that"
            )
        try:
            found = self._calls.routes.at(path)
        except MalformedPath as error:
            raise errors.malformed(400, f"path: {error}") from None
        if not found:
            raise errors.no_such_path(f"{path[:80]!r}: there is no such path; see {OPENAPI_PATH}")
        method = "GET" if request.method == "HEAD" else request.method
        allowed = {each.route.http_method for each in found}
        if any(each.route.http_method == "GET" and not each.route.streams for each in found):
            allowed.add("HEAD")
        for each in found:
            if each.route.http_method == method and not (request.method == "HEAD" and each.route.streams):
                return each
        return _other_method(request, allowed)

    async def _request_of(self, found: Found, request: Request) -> Bound | HttpRefusal:
        """The message of a call. A refusal is for the call to say, once it knows that its caller may hear of it."""
        # Strangers have nothing read from them.
        await self._calls.keys.authenticate(request.headers.get("authorization"))
        try:
            headers = Headers(
                idempotency_key=request.headers.get("idempotency-key"),
                if_match=request.headers.get("if-match"),
                last_event_id=request.headers.get("last-event-id"),
            )
            if found.route.body:
                content = await body.read(request)
            else:
                body.refuse_any(request)
                content = b""
            query = request.scope["query_string"].decode("latin-1")
            if len(content) <= INLINE_BYTES_MAX:
                return bind(found, query, content, headers)
            return await asyncio.to_thread(bind, found, query, content, headers)
        except InvalidArgument as error:
            return HttpRefusal(errors.http_code(status_of(error)), error)
        except HttpRefusal as refusal:
            return refusal

    async def _unary(
        self, found: Found, sent: Bound | HttpRefusal, request: Request, gone: "asyncio.Task[None]"
    ) -> Response | None:
        """None: there is nobody to answer."""
        calls = self._calls
        if calls.stopping:
            raise leaving()
        span_s = _span_s(request)
        until = calls.clock.monotonic() + span_s
        context = HttpContext(_metadata(request), until, calls.clock)
        method = calls.methods[found.route.rpc]
        work: asyncio.Task[Any] = asyncio.ensure_future(method(_message(sent), context))
        calls.under_way.add(work)
        work.add_done_callback(calls.under_way.discard)
        try:
            await asyncio.wait({work, gone}, timeout=span_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Cancelled as gRPC does it: what must not be cut in half is shielded where it is done.
            ended = work.done()
            if not ended:
                work.cancel()
                await asyncio.wait({work})
        if not ended:
            if gone.done():
                return None
            return _too_late(span_s)
        if work.cancelled():
            raise leaving()
        try:
            response = work.result()
        except Refused as refused:
            return _refusal_answer(refused, sent)
        return await _answer(found, response)

    async def _stream(
        self,
        found: Found,
        sent: Bound | HttpRefusal,
        request: Request,
        gone: "asyncio.Task[None]",
        send: Send,
    ) -> None:
        calls = self._calls
        if calls.stopping:
            raise leaving()
        if len(calls.streams) >= STREAMS_MAX:
            raise ResourceExhausted(
                f"{len(calls.streams)} streams are open at this coordinator; come back later, or go to another one",
                retry_after_s=5.0,
            )
        events = Events()
        until = calls.clock.monotonic() + STREAM_S_MAX
        context = HttpContext(_metadata(request), until, calls.clock, events.write)
        method = calls.methods[found.route.rpc]
        calls.streams.add(events)
        try:
            status = await events.begin(lambda: method(_message(sent), context), gone)
            if status is not None:
                await _refusal_answer(Refused(status), sent)(request.scope, request.receive, send)
            elif not gone.done():
                await events.relay(send, gone, STREAM_S_MAX)
        except TimeoutError:
            # Whoever takes nothing is cut off by the end of this call.
            return
        finally:
            calls.streams.discard(events)
            await events.end()

    def _answer_document(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return _other_method(request, {"GET", "HEAD"})
        return Response(self._document, media_type=JSON)


def openapi() -> bytes:
    """The document that `make gen` writes."""
    return resources.files("rota.api.http").joinpath("openapi.json").read_bytes()


def _public(document: bytes) -> bytes:
    """Without what this listener does not serve."""
    found = json.loads(document)
    found["paths"] = {path: item for path, item in found["paths"].items() if not path.startswith(GUARDED)}
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()


def _path(request: Request) -> str:
    """As sent; of an absolute URL the part that is one."""
    path: str = request.scope["raw_path"].decode("latin-1")
    if path.startswith(("http://", "https://")):
        path = "/" + path.split("/", 3)[3] if path.count("/") >= 3 else "/"
    return path


def _other_method(request: Request, allowed: set[str]) -> Response:
    headers = {"Allow": ", ".join(sorted(allowed | {"OPTIONS"}))}
    if request.method == "OPTIONS":
        return Response(status_code=204, headers=headers)
    raise errors.malformed(
        405, f"expected one of {headers['Allow']} for this path, found {request.method[:20]}", **headers
    )


def _message(sent: Bound | HttpRefusal) -> Any:
    return sent.message if isinstance(sent, Bound) else Undecodable(sent.error)


def _refusal_answer(refused: Refused, sent: Bound | HttpRefusal) -> Response:
    if isinstance(sent, HttpRefusal):
        if refused.status == status_of(sent.error):
            return errors.refusal_answer(sent)
        return errors.answer(refused.status)
    return errors.answer(refused.status, errors.http_code(refused.status, by_if_match=sent.by_if_match))


async def _answer(found: Found, response: Any) -> Response:
    field = found.route.response_body
    if response.ByteSize() <= INLINE_BYTES_MAX:
        content = strictjson.dump(response, field)
    else:
        content = await asyncio.to_thread(strictjson.dump, response, field)
    resource = getattr(response, field) if field else response
    tag = etag_of(resource)
    return Response(content, headers={ETAG: f'"{tag}"'} if tag else {}, media_type=JSON)


def _metadata(request: Request) -> Sequence[tuple[str, str]]:
    return [(name, request.headers[name]) for name in _PASSED if name in request.headers]


def _span_s(request: Request) -> float:
    given = request.headers.get("request-timeout")
    if given is None:
        return CALL_S_MAX
    try:
        span_s = parse_duration(given)
    except ValueError as error:
        raise errors.malformed(400, f"Request-Timeout: {error}") from None
    if span_s <= 0:
        raise errors.malformed(400, f"Request-Timeout: expected more than 0 s, found {given[:40]!r}")
    return min(span_s, CALL_S_MAX)


def _too_late(span_s: float) -> Response:
    message = (
        f"the call did not end within {span_s:g} s; it may have been carried out: repeat it with the same "
        "Idempotency-Key, or look"
    )
    return errors.answer(status_pb2.Status(code=code_pb2.DEADLINE_EXCEEDED, message=message))


async def _until_gone(receive: Receive) -> None:
    """Returns when the client is not there any more."""
    while (await receive())["type"] != "http.disconnect":
        pass
