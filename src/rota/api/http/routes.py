"""Which RPC a method and a path name: the rules of the contract, read from its descriptors once."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from google.api import annotations_pb2
from google.protobuf.message_factory import GetMessageClass

Descriptor = Any
"""Of either implementation of protobuf, which share no class."""

WHOLE_BODY: Final = "*"
_VARIABLE: Final = re.compile(r"\{([^}=]+)(?:=([^}]+))?\}")
_BROKEN_ESCAPE: Final = re.compile("%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class Route:
    """One rule. `segments` are the path's, each a text or None for any; `variables` say which of them, joined, make the
    value of which field."""

    rpc: str
    http_method: str
    template: str
    segments: tuple[str | None, ...]
    verb: str
    variables: tuple[tuple[tuple[str, ...], int, int], ...]
    body: str
    response_body: str
    streams: bool
    request: type[Any]
    descriptor: Descriptor


@dataclass(frozen=True, slots=True)
class Found:
    """A route, and the fields that its path sets."""

    route: Route
    fields: tuple[tuple[tuple[str, ...], str], ...]


class MalformedPath(ValueError):
    """A path whose escapes are no UTF-8."""


class Routes:
    def __init__(self, routes: Iterable[Route]) -> None:
        self.all = tuple(routes)
        self._by_shape: dict[tuple[int, str], list[Route]] = {}
        for route in self.all:
            self._by_shape.setdefault((len(route.segments), route.verb), []).append(route)

    def at(self, path: str) -> list[Found]:
        """What the methods of a path lead to, the path as sent; none: there is no such path."""
        if not path.startswith("/"):
            return []
        *above, last = path[1:].split("/")
        # Escaped, a colon belongs to an id.
        last, _, verb = last.partition(":")
        sent = [*above, last]
        fitting = [r for r in self._by_shape.get((len(sent), verb), ()) if _fits(r.segments, sent)]
        if not fitting:
            return []
        texts = [unescape(segment) for segment in sent]
        return [Found(r, tuple((f, "/".join(texts[a:b])) for f, a, b in r.variables)) for r in fitting]


def read(services: Iterable[Descriptor]) -> Routes:
    """The routes of these services."""
    return Routes(route for service in services for method in service.methods for route in _routes(method))


def _routes(method: Descriptor) -> Iterator[Route]:
    rule = method.GetOptions().Extensions[annotations_pb2.http]
    if not rule.WhichOneof("pattern") or method.client_streaming:
        return
    for each in (rule, *rule.additional_bindings):
        kind = each.WhichOneof("pattern")
        template = getattr(each, kind)
        segments, variables, verb = _compile(template)
        yield Route(
            rpc=f"{method.containing_service.full_name}/{method.name}",
            http_method=kind.upper(),
            template=template,
            segments=segments,
            verb=verb,
            variables=variables,
            body=each.body,
            response_body=each.response_body,
            streams=method.server_streaming,
            request=GetMessageClass(method.input_type),
            descriptor=method,
        )


def _compile(
    template: str,
) -> tuple[tuple[str | None, ...], tuple[tuple[tuple[str, ...], int, int], ...], str]:
    path, _, verb = template.partition(":")
    segments: list[str | None] = []
    variables = []
    # A variable may hold slashes, so the template is cut at variables first.
    at = 0
    for match in _VARIABLE.finditer(path):
        segments += [s for s in path[at : match.start()].split("/") if s]
        inner = (match[2] or "*").split("/")
        variables.append((tuple(match[1].split(".")), len(segments), len(segments) + len(inner)))
        segments += [None if s == "*" else s for s in inner]
        at = match.end()
    segments += [s for s in path[at:].split("/") if s]
    return tuple(segments), tuple(variables), verb


def _fits(segments: tuple[str | None, ...], sent: list[str]) -> bool:
    return all(text == wanted if wanted is not None else text for wanted, text in zip(segments, sent, strict=True))


def unescape(text: str) -> str:
    """A part of a path or query without its percent escapes. Raises MalformedPath."""
    if "%" not in text:
        return text
    if _BROKEN_ESCAPE.search(text):
        raise MalformedPath("expected two hexadecimal digits after each %")
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise MalformedPath("expected UTF-8 behind the percent escapes") from None
