"""A request message from path, query, headers and body."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from rota.api import masks
from rota.api.http import strictjson
from rota.api.http.routes import WHOLE_BODY, Found, MalformedPath, unescape
from rota.domain.errors import InvalidArgument
from rota.domain.text import shown

Descriptor = Any
"""Of either implementation of protobuf, which share no class."""

PARAMETERS_MAX: Final = 200
MASK: Final = "update_mask"
ETAG: Final = "etag"
REQUEST_ID: Final = "request_id"
RESUME_TOKEN: Final = "resume_token"

_MAP_PARAMETER: Final = re.compile(r"([A-Za-z_0-9.]+)\[(.*)\]", re.DOTALL)
_HUMP: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")
_ENTITY_TAG: Final = re.compile(r'"?([\x21\x23-\x7e]+)"?')
_PLAIN: Final = re.compile(r'"?([\x20\x21\x23-\x7e]+)"?')


@dataclass(frozen=True, slots=True)
class Headers:
    """Those that mean a field of the request; None: not given."""

    idempotency_key: str | None = None
    if_match: str | None = None
    last_event_id: str | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """`by_if_match`: the etag came by that header, and by it only."""

    message: Any
    by_if_match: bool = False


def bind(found: Found, query: str, body: bytes, headers: Headers) -> Bound:
    """The request of a call. Raises InvalidArgument."""
    route = found.route
    descriptor = route.request.DESCRIPTOR
    given = strictjson.load(body) if body else {}
    mask: list[str] = []
    if route.body == WHOLE_BODY:
        value = given
    elif route.body:
        field = descriptor.fields_by_name[route.body]
        value = {field.json_name: given}
        if MASK in descriptor.fields_by_name:
            mask = strictjson.paths(field.message_type, given)
    else:
        value = {}
    asked = _parameters(query)
    if asked and route.body == WHOLE_BODY:
        raise _refused(asked[0][0], "is no parameter: all fields of this call go into the body")
    fixed = {path for path, _ in found.fields}
    if (named := _mask(asked)) is not None:
        if MASK not in descriptor.fields_by_name:
            raise _refused("updateMask", "is no parameter of this call")
        mask = named
    _bind_query(descriptor, value, asked, fixed, route.body)
    for path, text in found.fields:
        _put(descriptor, value, path, text, "the path")
    by_if_match = _bind_headers(descriptor, value, headers, route.body)
    message = strictjson.parse(route.request, value)
    if mask:
        message.update_mask.paths.extend(mask)
    return Bound(message, by_if_match)


def etag_of(message: Any) -> str:
    """The etag of a resource, where it has one."""
    return str(getattr(message, ETAG, ""))


def takes_etag(descriptor: Descriptor, body: str) -> tuple[str, ...] | None:
    """Where a request has the etag of what it changes; None: nowhere."""
    if ETAG in descriptor.fields_by_name:
        return (ETAG,)
    if body not in ("", WHOLE_BODY) and ETAG in descriptor.fields_by_name[body].message_type.fields_by_name:
        return (body, ETAG)
    return None


def _parameters(query: str) -> list[tuple[str, str]]:
    if not query:
        return []
    parts = query.split("&")
    if len(parts) > PARAMETERS_MAX:
        raise InvalidArgument(f"query: expected at most {PARAMETERS_MAX} parameters, found {len(parts)}")
    found = []
    for part in parts:
        name, _, text = part.replace("+", " ").partition("=")
        try:
            found.append((unescape(name), unescape(text)))
        except MalformedPath as error:
            raise InvalidArgument(f"query: {error}") from None
    return found


def _mask(asked: list[tuple[str, str]]) -> list[str] | None:
    """Takes the mask out of the parameters; paths as in the contract, whichever way they are spelled."""
    texts = [text for name, text in asked if name in ("updateMask", MASK)]
    if not texts:
        return None
    if len(texts) > 1:
        raise _refused("updateMask", "must be given once; separate its paths by commas")
    asked[:] = [each for each in asked if each[0] not in ("updateMask", MASK)]
    return [_HUMP.sub(r"_\1", path).lower() for path in texts[0].split(",") if path]


def _bind_query(
    descriptor: Descriptor,
    value: dict[str, Any],
    asked: Iterable[tuple[str, str]],
    fixed: set[tuple[str, ...]],
    body: str,
) -> None:
    for name, text in asked:
        entry = _MAP_PARAMETER.fullmatch(name)
        names = (entry[1] if entry else name).split(".")
        fields = _walk(descriptor, names)
        if fields is None:
            raise _refused(name, f"is no parameter of this call; known are {', '.join(known(descriptor, fixed, body))}")
        path = tuple(field.name for field in fields)
        last = fields[-1]
        if path in fixed:
            raise _refused(name, "is no parameter: the path says it")
        if body and path[0] == body:
            raise _refused(name, "is no parameter: it goes into the body")
        at = value
        for field in fields[:-1]:
            at = at.setdefault(field.json_name, {})
        is_map = last.message_type is not None and last.message_type.GetOptions().map_entry
        if bool(entry) != is_map:
            expected = f"{name}[key]=value" if is_map else f"{names[-1]}=value"
            raise _refused(name, f"must be given as {expected}")
        if entry:
            entries = at.setdefault(last.json_name, {})
            if entry[2] in entries:
                raise _refused(name, "must be given once")
            entries[entry[2]] = text
        elif last.message_type is not None and last.message_type.full_name not in masks.ATOMS:
            raise _refused(name, f"must name a field of {last.message_type.name}, as {name}.field=value")
        elif last.is_repeated:
            at.setdefault(last.json_name, []).append(_plain(last, text))
        elif last.json_name in at:
            raise _refused(name, "must be given once")
        else:
            at[last.json_name] = _plain(last, text)


def _plain(field: Any, text: str) -> Any:
    """A text as JSON would have it."""
    if field.type == FieldDescriptor.TYPE_BOOL and text in ("true", "false"):
        return text == "true"
    if field.enum_type is not None and text.isascii() and text.isdecimal() and len(text) < 10:
        return int(text)
    return text


def known(descriptor: Descriptor, fixed: Iterable[tuple[str, ...]], body: str) -> list[str]:
    """The query parameters of a call, without what lies below them."""
    taken = {path[0] for path in fixed} | {body}
    return [field.json_name for field in descriptor.fields if field.name not in taken] or ["none"]


def _walk(descriptor: Descriptor, names: Sequence[str]) -> list[Any] | None:
    """The fields that a dotted name leads to."""
    fields = []
    for name in names:
        field = None if descriptor is None else strictjson.field_of(descriptor, name)
        if field is None:
            return None
        fields.append(field)
        descriptor = None if field.is_repeated else field.message_type
    return fields


def _put(descriptor: Descriptor, value: dict[str, Any], path: Sequence[str], text: str, source: str) -> None:
    """Sets a field that something else than the body says; the body may say the same."""
    fields = _walk(descriptor, path)
    assert fields is not None
    at = value
    for field in fields[:-1]:
        at = at.setdefault(_key(at, field), {})
        if not isinstance(at, dict):
            # Said by the check of the body.
            return
    key = _key(at, fields[-1])
    if at.get(key) not in (None, "", text):
        raise _refused(".".join(path), f"must be as {source} has it, {shown(text)}, or left out")
    at[key] = text


def _key(value: dict[str, Any], field: Any) -> str:
    """How the field is spelled there, if it is."""
    return str(field.name if field.name in value else field.json_name)


def _bind_headers(descriptor: Descriptor, value: dict[str, Any], headers: Headers, body: str) -> bool:
    if headers.idempotency_key is not None:
        if REQUEST_ID not in descriptor.fields_by_name:
            raise _refused(
                "Idempotency-Key", f"cannot be used: {descriptor.name} has no request_id, repeating the call is safe"
            )
        key = _PLAIN.fullmatch(headers.idempotency_key)
        if key is None:
            raise _refused("Idempotency-Key", "must be 1 to 128 printable characters of ASCII")
        _put(descriptor, value, (REQUEST_ID,), key[1], "the header Idempotency-Key")
    if headers.last_event_id and RESUME_TOKEN in descriptor.fields_by_name:
        # A client that reconnects repeats the URL, and its token is older.
        value.pop(RESUME_TOKEN, None)
        value[descriptor.fields_by_name[RESUME_TOKEN].json_name] = headers.last_event_id
    if headers.if_match is None:
        return False
    path = takes_etag(descriptor, body)
    if path is None:
        raise _refused("If-Match", f"cannot be used: {descriptor.name} has no etag")
    if headers.if_match.strip() == "*":
        return False
    tag = _ENTITY_TAG.fullmatch(headers.if_match.strip())
    if tag is None:
        raise _refused("If-Match", 'must be one strong etag such as "v3-0123456789ab", or *')
    _put(descriptor, value, path, tag[1], "the header If-Match")
    return True


def _refused(name: str, description: str) -> InvalidArgument:
    return InvalidArgument.field(name[:80].encode(errors="replace").decode(), description)
