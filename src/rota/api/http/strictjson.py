"""JSON into messages, strictly: what json_format passes over in silence is refused here, with the path of the field.

It takes the last of two spellings of one field, drops bytes that are no base64, and reads a list as an empty message.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from google.api.field_behavior_pb2 import OUTPUT_ONLY, field_behavior
from google.protobuf import duration_pb2, json_format, timestamp_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from rota.api import masks
from rota.domain.errors import InvalidArgument
from rota.domain.text import Problems, shown
from rota.domain.wording import json_kind, suggestion

Descriptor = Any
"""Of either implementation of protobuf, which share no class."""

PROBLEMS_MAX: Final = 20
_RANGES: Final = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
}
_INTEGER: Final = re.compile("-?[0-9]{1,20}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][-+]?[0-9]{1,3})?")
_BASE64: Final = re.compile("[A-Za-z0-9+/]*={0,2}|[A-Za-z0-9_-]*={0,2}")
_NUMBERS: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_ATOM_CLASSES: Final[dict[str, type[Any]]] = {
    "google.protobuf.Timestamp": timestamp_pb2.Timestamp,
    "google.protobuf.Duration": duration_pb2.Duration,
}
_SPANS: Final = {
    "google.protobuf.Timestamp": "an RFC 3339 instant such as 2026-12-24T18:00:00Z",
    "google.protobuf.Duration": "a span in seconds such as 90s or 0.5s",
}


def load(body: bytes) -> dict[str, Any]:
    """The object that a body is. Raises InvalidArgument."""
    try:
        value = json.loads(body.decode(), object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"body: expected UTF-8, found otherwise at byte {error.start}") from None
    except RecursionError:
        raise InvalidArgument("body: expected JSON of a sensible depth, found it nested too deeply") from None
    except ValueError as error:
        raise InvalidArgument(f"body: expected JSON, found otherwise ({str(error)[:200]})") from None
    if not isinstance(value, dict):
        raise InvalidArgument(f"body: expected a JSON object, found {json_kind(value)}")
    return value


def dump(message: Message, field: str = "") -> bytes:
    """A message, or one field of it, as JSON; 64-bit integers are texts, and what is not set but has a default is
    shown."""
    if field:
        message = getattr(message, field)
    return encode(json_format.MessageToDict(message, always_print_fields_with_no_presence=True))


def encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def parse(kind: type[Any], value: dict[str, Any]) -> Any:
    """A message of this kind. Raises InvalidArgument, which tells of every field that is wrong, up to a bound."""
    problems = _Found()
    _check_message(problems, kind.DESCRIPTOR, value, "")
    problems.raise_any()
    try:
        return json_format.ParseDict(value, kind())
    except json_format.ParseError as error:
        # What is left: a oneof with two of its fields.
        raise InvalidArgument(
            f"body: expected a {kind.DESCRIPTOR.name}, found otherwise ({str(error)[:300]})"
        ) from None


def paths(descriptor: Descriptor, value: dict[str, Any]) -> list[str]:
    """The field mask that an object means: the fields that it names, as deep as it goes, whether they are null or not.
    What only Rota sets is passed over, so that an answer may come back changed."""
    return list(_paths(descriptor, value, ""))


def field_of(descriptor: Descriptor, name: str) -> Any:
    """The field with this name, in camelCase or as in the contract; None: there is none."""
    return descriptor.fields_by_camelcase_name.get(name) or descriptor.fields_by_name.get(name)


class _Found(Problems):
    """Ends the search at a bound."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def add(self, field: str, description: str) -> None:
        super().add(field, description)
        self._count += 1
        if self._count >= PROBLEMS_MAX:
            self.raise_any()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {shown(twice)} is there twice in one object")
    return found


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def _check_message(problems: Problems, descriptor: Descriptor, value: Any, at: str) -> None:
    if not isinstance(value, dict):
        problems.add(at.rstrip("."), f"must be an object, found {json_kind(value)}")
        return
    given: dict[str, str] = {}
    for key, item in value.items():
        field = field_of(descriptor, key)
        if field is None:
            problems.add(f"{at}{_readable(key)}", f"is no field of {descriptor.name}; {_known(descriptor, key)}")
        elif field.name in given:
            problems.add(f"{at}{field.name}", f"must be given once, found it as {given[field.name]} and as {key}")
        else:
            given[field.name] = key
            if item is not None:
                _check_field(problems, field, item, f"{at}{field.name}")


def _check_field(problems: Problems, field: Any, value: Any, at: str) -> None:
    if not field.is_repeated:
        _check_value(problems, field, value, at)
    elif field.message_type is not None and field.message_type.GetOptions().map_entry:
        _check_map(problems, field.message_type, value, at)
    elif not isinstance(value, list):
        problems.add(at, f"must be a list, found {json_kind(value)}")
    else:
        for index, item in enumerate(value):
            _check_value(problems, field, item, f"{at}[{index}]")


def _check_map(problems: Problems, entry: Descriptor, value: Any, at: str) -> None:
    if not isinstance(value, dict):
        problems.add(at, f"must be an object, found {json_kind(value)}")
        return
    for key, item in value.items():
        place = f"{at}[{_readable(key)!r}]"
        _check_value(problems, entry.fields_by_name["key"], key, f"{place} (key)")
        _check_value(problems, entry.fields_by_name["value"], item, place)


def _check_value(problems: Problems, field: Any, value: Any, at: str) -> None:
    if field.message_type is not None and field.message_type.full_name not in masks.ATOMS:
        _check_message(problems, field.message_type, value, f"{at}.")
        return
    if field.message_type is not None:
        wrong = _instant_or_span(field.message_type, value)
    elif field.enum_type is not None:
        wrong = _enum(field.enum_type, value)
    else:
        wrong = _CHECKS[field.type](field, value)
    if wrong:
        problems.add(at, wrong)


def _instant_or_span(kind: Descriptor, value: Any) -> str:
    expected = f"must be {_SPANS[kind.full_name]}"
    if not isinstance(value, str):
        return f"{expected}, found {json_kind(value)}"
    try:
        _ATOM_CLASSES[kind.full_name]().FromJsonString(value)
    except (ValueError, OverflowError):
        return f"{expected}, found {shown(value)}"
    return ""


def _enum(kind: Descriptor, value: Any) -> str:
    if isinstance(value, str) and value in kind.values_by_name:
        return ""
    if isinstance(value, int) and not isinstance(value, bool) and -(2**31) <= value < 2**31:
        # Whether it means something is said by the call, as in gRPC.
        return ""
    names = ", ".join(kind.values_by_name)
    found = f"{shown(value)}" if isinstance(value, str) else json_kind(value)
    return f"must be one of {names}, found {found}"


def _integer(field: Any, value: Any) -> str:
    low, high = _RANGES[field.type]
    number = value
    if (isinstance(value, float) and value.is_integer()) or (isinstance(value, str) and _INTEGER.fullmatch(value)):
        number = int(value)
    if isinstance(number, bool) or not isinstance(number, int):
        return f"must be an integer, found {shown(value)}" if isinstance(value, str) else _not("an integer", value)
    return "" if low <= number <= high else f"must be from {low} to {high}, found {str(number)[:40]}"


def _number(field: Any, value: Any) -> str:
    if isinstance(value, str):
        return "" if value in _NUMBERS or _NUMBER.fullmatch(value) else f"must be a number, found {shown(value)}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _not("a number", value)
    return "" if abs(value) < 1e308 else "must be a number that a double can hold"


def _flag(field: Any, value: Any) -> str:
    return "" if isinstance(value, bool) else _not("true or false", value)


def _text(field: Any, value: Any) -> str:
    if not isinstance(value, str):
        return _not("a text", value)
    try:
        value.encode()
    except UnicodeEncodeError:
        return "must be Unicode text without lone surrogates; send bytes in the payload instead"
    return ""


def _bytes(field: Any, value: Any) -> str:
    if not isinstance(value, str):
        return _not("base64 in a text", value)
    if not _BASE64.fullmatch(value) or len(value.rstrip("=")) % 4 == 1:
        return "must be base64, in its usual or its URL alphabet, found other characters or half a byte"
    return "" if not value.endswith("=") or len(value) % 4 == 0 else "must be base64 with whole padding or none"


_CHECKS: Final[dict[int, Callable[[Any, Any], str]]] = {
    **dict.fromkeys(_RANGES, _integer),
    FieldDescriptor.TYPE_DOUBLE: _number,
    FieldDescriptor.TYPE_FLOAT: _number,
    FieldDescriptor.TYPE_BOOL: _flag,
    FieldDescriptor.TYPE_STRING: _text,
    FieldDescriptor.TYPE_BYTES: _bytes,
}


def _paths(descriptor: Descriptor, value: dict[str, Any], at: str) -> Iterator[str]:
    for key, item in value.items():
        field = field_of(descriptor, key)
        if field is None or OUTPUT_ONLY in field.GetOptions().Extensions[field_behavior]:
            continue
        whole = field.is_repeated or field.message_type is None or field.message_type.full_name in masks.VALUES
        if whole or not isinstance(item, dict) or not item:
            yield at + field.name
        else:
            yield from _paths(field.message_type, item, f"{at}{field.name}.")


def _not(expected: str, value: Any) -> str:
    return f"must be {expected}, found {json_kind(value)}"


def _known(descriptor: Descriptor, key: str) -> str:
    names = descriptor.fields_by_camelcase_name
    return suggestion(key[:80], names) if names else "it has none"


def _readable(text: str) -> str:
    """The beginning of a text that may hold anything."""
    return text[:80].encode(errors="replace").decode()
