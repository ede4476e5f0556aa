"""Names of schedules, calendars and what belongs to them."""

from datetime import datetime

from rota.domain import ids
from rota.domain.errors import InvalidArgument
from rota.domain.schedule import ID, ID_WORDS


def schedule_name(id: str) -> str:
    return f"schedules/{id}"


def calendar_name(id: str) -> str:
    return f"calendars/{id}"


def occurrence_name(schedule: str, nominal: datetime, generation: int) -> str:
    return f"schedules/{schedule}/occurrences/{ids.occurrence_id(nominal, generation)}"


def backfill_name(schedule: str, id: str) -> str:
    return f"schedules/{schedule}/backfills/{id}"


def author_name(key_id: str) -> str:
    """Who did something; empty: Rota itself."""
    return f"apiKeys/{key_id}" if key_id else ""


def schedule_id(field: str, name: str) -> str:
    """The id in schedules/{id}; a bare id is taken too."""
    return _id(field, name, "schedules")


def calendar_id(field: str, name: str) -> str:
    """The id in calendars/{id}; a bare id is taken too."""
    return _id(field, name, "calendars")


def backfill_ids(field: str, name: str) -> tuple[str, str]:
    """Schedule and id in schedules/{schedule}/backfills/{id}."""
    parts = name.split("/")
    if len(parts) == 4 and parts[0] == "schedules" and parts[2] == "backfills" and ID.fullmatch(parts[1]):
        return parts[1], ids.parse_name(field, parts[3], "backfills")
    raise InvalidArgument.field(field, f"expected schedules/{{schedule}}/backfills/{{id}}, found {name[:200]!r}")


def _id(field: str, name: str, collection: str) -> str:
    id = name.removeprefix(f"{collection}/")
    if not ID.fullmatch(id):
        raise InvalidArgument.field(
            field, f"expected {collection}/{{id}} with an id that must be {ID_WORDS}, found {name[:80]!r}"
        )
    return id
