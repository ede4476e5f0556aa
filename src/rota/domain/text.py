"""Texts from outside: what PostgreSQL and UTF-8 can hold, and how long they may be."""

import re
from collections.abc import Mapping

from rota.domain import limits
from rota.domain.errors import FieldViolation, InvalidArgument

TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}")
QUEUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
TYPE_WORDS = "1 to 128 letters, digits or ._:/- and begin with a letter or digit"
QUEUE_WORDS = "1 to 64 letters, digits or ._- and begin with a letter or digit"


class Problems:
    """Collects everything that is wrong with a request, so that its sender learns of all of it at once."""

    def __init__(self) -> None:
        self._violations: list[FieldViolation] = []

    def add(self, field: str, description: str) -> None:
        self._violations.append(FieldViolation(field, description))

    def text(self, field: str, value: str, limit: int) -> str:
        """Checks a free text: no NUL, no lone surrogate, at most `limit` bytes of UTF-8."""
        if "\0" in value:
            self.add(field, "must not contain NUL (U+0000), which PostgreSQL cannot store; remove or escape it")
            return ""
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            self.add(field, "must be Unicode text without lone surrogates; send bytes in the payload instead")
            return ""
        if size > limit:
            self.add(field, f"must be at most {limit} bytes of UTF-8, found {size}; shorten it")
            return ""
        return value

    def pattern(self, field: str, value: str, pattern: re.Pattern[str], what: str) -> str:
        if not pattern.fullmatch(value):
            self.add(field, f"must be {what}, found {value[:80]!r}")
        return value

    def text_map(self, field: str, values: dict[str, str], count_max: int, bytes_max: int) -> dict[str, str]:
        """Checks a map of small texts by count and by bytes in all."""
        if len(values) > count_max:
            self.add(field, f"must have at most {count_max} entries, found {len(values)}")
            return {}
        for key, value in values.items():
            if not key:
                self.add(field, "must not have an empty key")
            self.text(f"{field}[{key[:40]!r}] (key)", key, limits.MAP_KEY_BYTES_MAX)
            self.text(f"{field}[{key[:40]!r}]", value, bytes_max)
        size = map_bytes(values)
        if size > bytes_max:
            self.add(field, f"must be at most {bytes_max} bytes in all, found {size}")
        return values

    def span(self, field: str, value_s: float, low_s: float, high_s: float) -> float:
        """Checks a span in seconds, both ends included."""
        if not low_s <= value_s <= high_s:
            self.add(field, f"must be from {_seconds(low_s)} to {_seconds(high_s)}, found {_seconds(value_s)}")
            return low_s
        return value_s

    def integer(self, field: str, value: int, low: int, high: int) -> int:
        if not low <= value <= high:
            self.add(field, f"must be from {low} to {high}, found {value}")
            return low
        return value

    def raise_any(self) -> None:
        """Raises what was found, if anything."""
        if self._violations:
            raise InvalidArgument(
                "; ".join(f"{v.field}: {v.description}" for v in self._violations[:5]),
                violations=tuple(self._violations[:20]),
            )


def refusal(
    field: str, found: str, expected: str, remedy: str, *, part: str = "", reason: str | None = None
) -> InvalidArgument:
    """The refusal of one text, or of a `part` of it: what was expected, what was found, and what to do."""
    where = f"{part}: " if part else ""
    return InvalidArgument.field(field, f"{where}expected {expected}, found {shown(found)}; {remedy}", reason=reason)


def shown(value: str, limit: int = 60) -> str:
    """A text of others quoted for a message: control characters and lone surrogates spelt out, the rest cut."""
    if len(value) <= limit:
        return repr(value)
    return f"{value[:limit]!r}… ({len(value)} characters)"


def clean(value: str, limit: int) -> str:
    """A worker's text made storable: no NUL, no lone surrogates, at most `limit` bytes, cut between characters.

    Unlike `Problems.text` it refuses nothing, because a bad error text must not block the outcome it explains.
    """
    return value.replace("\0", "").encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


def map_bytes(values: Mapping[str, str]) -> int:
    """What a map of texts weighs, keys included."""
    return sum(
        [len(key.encode("utf-8", "replace")) + len(value.encode("utf-8", "replace")) for key, value in values.items()]
    )


def too_large(field: str, what: str, size: int, limit: int) -> InvalidArgument:
    """The refusal of bytes over their limit."""
    return InvalidArgument.field(
        field,
        f"{what} of {size} bytes is over the limit of {limit}; store the data elsewhere and send a reference",
        reason="PAYLOAD_TOO_LARGE",
        field=field,
        limit=str(limit),
        found=str(size),
    )


def _seconds(value: float) -> str:
    return f"{value:g} s"
