"""Page tokens: a position sealed to tenant, filter and order, so that none is used where it was not made."""

import base64
import binascii
import re
from datetime import UTC, datetime, timedelta

from google.protobuf.message import Message

from rota.domain import ids, limits
from rota.domain.errors import InvalidArgument
from rota.domain.ids import TenantId, digest

_SEAL_BYTES = 12
_TOKEN_BYTES_MAX = 512
_RESUME_BYTES_MAX = 16_384
"""Names the transactions that ran at a moment, as many as the database has connections."""
_NUMBER = re.compile("[0-9]{1,9}")
_MOMENT = re.compile("(-?[0-9]{1,18}) ([0-9]{1,9})")
_PLACE = re.compile("(-?[0-9]{1,18}) ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def page_size(wanted: int) -> int:
    """The size of a page: the default for 0, at most the maximum; a negative one is refused."""
    if wanted < 0:
        raise InvalidArgument.field("page_size", f"must not be negative, found {wanted}")
    return min(wanted or limits.PAGE_SIZE_DEFAULT, limits.PAGE_SIZE_MAX)


def query(request: Message) -> bytes:
    """What a list depends on beside the tenant: its request without the page."""
    found = type(request)()
    found.CopyFrom(request)
    found.ClearField("page_token")
    found.ClearField("page_size")
    return found.DESCRIPTOR.full_name.encode() + b" " + found.SerializeToString(deterministic=True)


def seal(position: str, tenant: TenantId, query: bytes) -> str:
    """A token for the page after `position`. `query`: what the list depends on beside the tenant."""
    return base64.urlsafe_b64encode(_seal(position, tenant, query) + position.encode()).decode().rstrip("=")


def unseal_id(token: str, tenant: TenantId, query: bytes) -> str | None:
    """The id after which the page begins; None for the first page. Refuses a token made for anything else."""
    if not token:
        return None
    try:
        return ids.parse_name("page_token", _unseal(token, tenant, query), "")
    except InvalidArgument:
        raise _invalid() from None


def unseal_number(token: str, tenant: TenantId, query: bytes) -> int:
    """The same for lists in the order of a number; 0 for the first page."""
    if not token:
        return 0
    position = _unseal(token, tenant, query)
    # The seal is no secret, so a position is checked like any other input.
    if not _NUMBER.fullmatch(position):
        raise _invalid()
    return int(position)


def unseal_text(token: str, tenant: TenantId, query: bytes, pattern: re.Pattern[str]) -> str:
    """The same for lists in the order of ids of a pattern; empty for the first page."""
    if not token:
        return ""
    position = _unseal(token, tenant, query)
    if not pattern.fullmatch(position):
        raise _invalid()
    return position


def moment(at: datetime, number: int) -> str:
    """A position in lists in the order of an instant and a number."""
    return f"{(at - _EPOCH) // timedelta(microseconds=1)} {number}"


def unseal_moment(token: str, tenant: TenantId, query: bytes) -> tuple[datetime, int] | None:
    """The instant and number before which the page begins; None for the first page."""
    if not token:
        return None
    found = _MOMENT.fullmatch(_unseal(token, tenant, query))
    if not found:
        raise _invalid()
    try:
        return _EPOCH + timedelta(microseconds=int(found[1])), int(found[2])
    except OverflowError:
        raise _invalid() from None


def place(us: int, id: str) -> str:
    """A position in lists in the order of an instant, in microseconds since 1970, and an id."""
    return f"{us} {id}"


def unseal_place(token: str, tenant: TenantId, query: bytes) -> tuple[int, str] | None:
    """The instant and id behind which the page begins; None for the first page."""
    if not token:
        return None
    found = _PLACE.fullmatch(_unseal(token, tenant, query))
    if not found:
        raise _invalid()
    return int(found[1]), found[2]


def unseal_resume(token: str, tenant: TenantId, query: bytes, pattern: re.Pattern[str]) -> str:
    """What a resume token of a stream holds; empty without one."""
    if not token:
        return ""
    try:
        position = _unseal(token, tenant, query, _RESUME_BYTES_MAX)
    except InvalidArgument:
        position = ""
    if not pattern.fullmatch(position):
        raise InvalidArgument.field(
            "resume_token",
            "damaged, or made for another watch; give one as it was received, with the same filter, or none",
            reason="PAGE_TOKEN_INVALID",
        )
    return position


def _unseal(token: str, tenant: TenantId, query: bytes, bytes_max: int = _TOKEN_BYTES_MAX) -> str:
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        position = raw[_SEAL_BYTES:].decode()
    except (binascii.Error, UnicodeError, ValueError):
        raw, position = b"", ""
    if len(token) > bytes_max or not position or raw[:_SEAL_BYTES] != _seal(position, tenant, query):
        raise _invalid()
    return position


def _invalid() -> InvalidArgument:
    return InvalidArgument.field(
        "page_token",
        "damaged, or made for another list; repeat the list from its first page with the same filter",
        reason="PAGE_TOKEN_INVALID",
    )


def _seal(position: str, tenant: TenantId, query: bytes) -> bytes:
    return digest(b"rota page", str(tenant).encode(), query, position.encode())[:_SEAL_BYTES]
