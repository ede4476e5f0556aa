"""What targets are told of an attempt."""

from datetime import UTC, datetime


def instant(at: datetime | None) -> str:
    """RFC 3339 in UTC, with milliseconds; empty for None."""
    if at is None:
        return ""
    return at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
