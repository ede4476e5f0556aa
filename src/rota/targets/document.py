"""The payload of a target's job as a JSON object."""

import json
from typing import Any, Final

from rota.domain.errors import InvalidArgument
from rota.domain.limits import PAYLOAD_BYTES_MAX
from rota.domain.text import too_large
from rota.domain.wording import json_kind

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
        raise InvalidArgument.field(
            PAYLOAD, f"expected a JSON object, found {json_kind(found)}; send one such as {example}"
        )
    return found


class _Twice(Exception):
    """A key that came twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Twice(key)
        found[key] = value
    return found
