"""What became of something imported: each part taken or not, with the reason, and the schedules as a manifest."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import yaml

from rota.domain import limits
from rota.domain.errors import InvalidArgument
from rota.manifest import document
from rota.manifest.document import Document
from rota.manifest.problems import Refused

WIDTH: Final = 1_000_000
"""Commands stay on one line."""

NOT_REPEATED: Final = {"max_attempts": 1}
RUN_MOST: Final = f"{limits.RUN_TIMEOUT_MAX_S / limits.DAY_S:.0f}d"
"""Where nothing bounded a run before, it gets the longest bound that there is."""


class Status(StrEnum):
    """What became of a part."""

    TAKEN = "taken"
    REFUSED = "refused"
    NOTED = "noted"
    """It asks for nothing to be made, and has something to say."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a crontab, or a manifest."""

    line: int
    status: Status
    what: str
    """As it stands there, for people."""
    id: str = ""
    notes: tuple[str, ...] = ()
    """Of one refused: the reason. Otherwise what differs from before."""


@dataclass(slots=True)
class Imported:
    """The schedules by id, in the terms of a manifest, and a report of every part."""

    source: str
    schedules: dict[str, dict[str, Any]] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    @property
    def refused(self) -> list[Row]:
        return [row for row in self.rows if row.status is Status.REFUSED]

    def add(self, line: int, what: str, id: str, schedule: dict[str, Any], notes: list[str], now: datetime) -> None:
        """Takes a schedule, or reports why the rules of a manifest refuse it."""
        try:
            document.read(text({id: schedule}, "import"), self.source, "", now)
        except Refused as error:
            self.refuse(line, what, _words(error, id), id)
            return
        self.schedules[id] = schedule
        self.rows.append(Row(line, Status.TAKEN, what, id, tuple(notes)))

    def refuse(self, line: int, what: str, reason: str, id: str = "") -> None:
        self.rows.append(Row(line, Status.REFUSED, what, id, (reason,)))

    def note(self, line: int, what: str, *notes: str) -> None:
        self.rows.append(Row(line, Status.NOTED, what, "", notes))

    def document(self, apply_set: str, now: datetime) -> Document:
        """What was taken, ready to be applied. Raises Refused."""
        return document.read(text(self.schedules, apply_set), self.source, apply_set, now)


def text(schedules: dict[str, dict[str, Any]], apply_set: str, heading: str = "") -> str:
    """A manifest in YAML."""
    lines = "".join(f"# {line}\n" for line in heading.splitlines())
    content = {"set": apply_set, "schedules": schedules}
    return lines + yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH)


def unique(wanted: str, taken: dict[str, Any]) -> str:
    """An id that is free: the wanted one, or with -2, -3 and so on."""
    return next(id for id in _numbered(wanted) if id not in taken)


def _numbered(wanted: str) -> Iterator[str]:
    yield wanted
    for number in range(2, limits.SCHEDULE_BATCH_MAX * 10):
        yield f"{wanted[:120]}-{number}"


def _words(error: InvalidArgument, id: str) -> str:
    """The refusals of one schedule, with the names of its fields and without its place."""
    found = []
    for violation in error.violations:
        name = violation.field.rpartition(f"schedules.{id}")[2].lstrip(".")
        found.append(f"{name}: {violation.description}" if name else violation.description)
    return "; ".join(found)


class _Dumper(yaml.SafeDumper):
    """Texts of several lines stand as blocks; nothing is an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _as_block(dumper: yaml.SafeDumper, data: str) -> yaml.ScalarNode:
    style = "|" if "\n" in data else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(str, _as_block)
