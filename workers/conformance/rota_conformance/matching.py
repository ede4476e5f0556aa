"""Whether what came is what a case expects: patterns over messages and events."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

OUTCOMES = ("succeeded", "failed", "released", "cancelled")


def plain(message: Any) -> dict[str, Any]:
    """A message as a mapping: snake_case fields, absent numbers as 0, bytes as text where they are text."""
    if not isinstance(message, Message):
        return dict(message)
    found: dict[str, Any] = MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    for outcome in OUTCOMES:
        if message.DESCRIPTOR.name == "Result" and message.HasField(outcome):
            found["outcome"] = outcome
    return found


def look_up(found: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path; None where there is none."""
    value: Any = found
    for part in path.split("."):
        if isinstance(value, list) and part.isdigit():
            value = value[int(part)] if int(part) < len(value) else None
        elif isinstance(value, Mapping):
            value = value.get(part)
        else:
            return None
    return value


def differences(found: Mapping[str, Any], has: Mapping[str, Any], resolve: Callable[[Any], Any]) -> list[str]:
    """What is not as the pattern says; empty: all is."""
    told = []
    for path, wanted in has.items():
        value = look_up(found, path)
        if not _fits(value, wanted, resolve):
            told.append(f"{path}: expected {resolve(wanted)!r}, found {_short(value)}")
    return told


def _fits(value: Any, wanted: Any, resolve: Callable[[Any], Any]) -> bool:
    if isinstance(wanted, Mapping):
        return all(_OPERATORS[name](value, resolve(operand)) for name, operand in wanted.items())
    wanted = resolve(wanted)
    if isinstance(wanted, bool) or isinstance(value, bool):
        return value is wanted
    if wanted is None:
        return value in (None, "", 0, "0", [], {})
    # 64-bit numbers are texts in JSON.
    return str(value) == str(wanted)


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "bytes_at_most": lambda value, most: len(str(value or "").encode()) <= most,
    "matches": lambda value, pattern: re.search(pattern, str(value or "")) is not None,
    "contains": lambda value, part: part in str(value or ""),
    "lacks": lambda value, part: part not in str(value or ""),
    "one_of": lambda value, values: value in values,
    "at_least": lambda value, least: float(str(value or 0).rstrip("s")) >= least,
    "at_most": lambda value, most: float(str(value or 0).rstrip("s")) <= most,
    "present": lambda value, wanted: (value not in (None, "", [], {})) is wanted,
    "length": lambda value, length: len(value or ()) == length,
}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 200 else f"{text[:200]}… ({len(text)} characters)"
