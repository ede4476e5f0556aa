"""The payload of a target's job as a JSON object, and words for what is wrong with it."""

import difflib
import json
from collections.abc import Iterable
from typing import Any, Final

from rota.domain.errors import InvalidArgument
from rota.domain.limits import PAYLOAD_BYTES_MAX
from rota.domain.text import too_large

PAYLOAD: Final = "payload"


def read_object(data: bytes, what: str, example: str) -> dict[str, Any]:
    """The object that the bytes hold. Raises InvalidArgument, also on a key that comes twice."""
    if len(data) > PAYLOAD_BYTES_MAX:
        raise too_large(PAYLOAD, what, len(data), PAYLOAD_BYTES_MAX)
    if not data:
        raise InvalidArgument.field(PAYLOAD, f"expected a JSON object, found nothing; send one such as {example}")
    try:
        found = json.loads(data.decode(), object_pairs_hook=_once)
    except _Twice as error:
        raise InvalidArgument.field(
            str(error)[:80], "expected each key once, found it twice; remove one of them"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InvalidArgument.field(
            PAYLOAD, f"expected a JSON object in UTF-8, found otherwise ({error}); send one such as {example}"
        ) from None
    if not isinstance(found, dict):
        raise InvalidArgument.field(PAYLOAD, f"expected a JSON object, found {kind(found)}; send one such as {example}")
    return found


def nearest(key: str, known: Iterable[str]) -> str:
    """What may have been meant by a key that is not known."""
    names = list(known)
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}"


def kind(value: Any) -> str:
    """What JSON calls it."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


class _Twice(Exception):
    """A key that came twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Twice(key)
        found[key] = value
    return found
