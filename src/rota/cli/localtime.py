"""Times of a zone on the command line: read, and shown beside UTC. The zone data are those that ship with Rota."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rota.cli.output import span
from rota.domain.errors import InvalidArgument
from rota.domain.text import refusal

if TYPE_CHECKING:
    from rota.domain.zones import Zone


def utc(at: datetime) -> str:
    """2026-03-08T07:00:00Z, with a fraction only where there is one."""
    return at.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def read(name: str, text: str | None, zone: "Callable[[], Zone]") -> datetime | None:
    """An instant, or a date or time on the zone's clock, in UTC; `zone` is asked for only then."""
    if text is None:
        return None
    expected = "a time such as 2026-03-07, 2026-03-07T12:00 or 2026-03-07T12:00:00Z"
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise _unread(name, text, expected) from None
    if found.tzinfo is None:
        clock = zone()
        try:
            found = _on(clock, found)
        except (ValueError, OverflowError):
            raise _unread(name, text, expected) from None
    try:
        return found.astimezone(UTC)
    except OverflowError:
        raise _unread(name, text, expected) from None


def wall(text: str, abbreviation: str) -> tuple[str, str]:
    """2026-03-08T03:00:00-04:00 and EDT as a time of day and a zone for people."""
    local = datetime.fromisoformat(text)
    shown = f"{local:%a} {local.replace(tzinfo=None).isoformat(' ')}"
    return shown, f"{abbreviation} {text[-6:]}" if abbreviation.isalpha() else text[-6:]


def shown(at: datetime | None, zone: str, now: datetime) -> str:
    """`Sun 2026-03-08 03:00:00 EDT -04:00 = 2026-03-08T07:00:00Z, in 3 h`; empty for None."""
    if at is None:
        return ""
    about = f"{utc(at)}, {relative(at, now)}"
    found = known(zone)
    if found is None or found.utc:
        return about
    second = int(at.timestamp())
    return f"{' '.join(wall(found.local(second), found.abbreviation(second)))} = {about}"


def known(name: str) -> "Zone | None":
    """The zone; None for a name that a newer server knows and these data do not."""
    from rota.domain import zones

    try:
        return zones.find(name or "UTC")
    except InvalidArgument:
        return None


def relative(at: datetime, now: datetime) -> str:
    """`in 5 min`, `3 d ago`."""
    away_s = (at - now).total_seconds()
    if abs(away_s) < 1:
        return "now"
    return f"in {span(away_s)}" if away_s > 0 else f"{span(-away_s)} ago"


def _on(zone: "Zone", found: datetime) -> datetime:
    from rota.domain import civil

    return datetime.fromtimestamp(zone.instant(civil.wall_of(found)), UTC).replace(microsecond=found.microsecond)


def _unread(name: str, text: str, expected: str) -> InvalidArgument:
    return refusal(name, text, expected, "a time without an offset is one of the zone")
