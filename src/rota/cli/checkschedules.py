"""Proves that no occurrence of a run was lost: the fates on record are held against the times that the rules name.

The times are reckoned here, by rota.domain.recurrence, from what the files say.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from rota.cli.devschedules import Stored, occurrences
from rota.cli.remote import Remote, at, enum_name
from rota.domain.errors import InvalidArgument
from rota.domain.limits import PAGE_SIZE_MAX

if TYPE_CHECKING:
    from rota_sdk.gen.rota.v1.schedules_pb2 import Schedule

CHECKED_MAX: Final = 20_000
"""Occurrences of one schedule that are checked; of a longer run the first."""

UNSETTLED_S: Final = 5.0
"""Of a run that was interrupted: what came due so shortly before it may have no fate yet."""


@dataclass(slots=True)
class ScheduleSummary:
    """What the schedules of a run did. `due` came due by their rules, and each met one of `fates` or is `lost`.

    `unchecked` schedules were changed meanwhile, or have times that only the server knows. Of those that fired,
    `on_time` counts the ones whose job was started soon after its due time, `p50_s` and `max_s` say how soon, and
    `failed` counts the jobs that are dead.
    """

    schedules: int
    due: int = 0
    fates: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    unchecked: int = 0
    on_time: int = 0
    failed: int = 0
    p50_s: float | None = None
    max_s: float | None = None

    @property
    def not_fired(self) -> dict[str, int]:
        return {fate: count for fate, count in sorted(self.fates.items()) if fate != "FIRED"}

    def document(self) -> dict[str, Any]:
        """The summary for scripts."""
        return {
            "count": self.schedules,
            "due": self.due,
            "fired": self.fates["FIRED"],
            "on_time": self.on_time,
            "failed": self.failed,
            "not_fired": self.not_fired,
            "lost": self.lost,
            "unchecked": self.unchecked,
            "p50_s": self.p50_s,
            "max_s": self.max_s,
        }


def check(
    rota: Remote, schedules: Sequence[Stored], current: "Mapping[str, Schedule]", until: datetime, *, complete: bool
) -> ScheduleSummary:
    """Looks for the fate of everything that came due up to `until`. `current`: the schedules as they are now, by id.

    Raises the SDK's RotaError.
    """
    summary = ScheduleSummary(len(schedules))
    settled = until if complete else until - timedelta(seconds=UNSETTLED_S)
    for stored in schedules:
        if stored.rule is None or changed(stored, current.get(stored.item.id)):
            summary.unchecked += 1
            continue
        fates = _Fates(rota, stored)
        for nominal, due in _expected(stored, until):
            fate = fates.of(nominal)
            if fate is None and due > settled:
                continue
            summary.due += 1
            if fate is None:
                summary.lost += 1
            else:
                summary.fates[fate] += 1
    return summary


def changed(stored: Stored, current: "Schedule | None") -> bool:
    """Whether somebody changed or deleted it, so that its times are not known here any more."""
    first = stored.schedule
    return current is None or (current.uid, current.version, current.state) != (first.uid, first.version, first.state)


def _expected(stored: Stored, until: datetime) -> list[tuple[datetime, datetime]]:
    """The nominal and due times of the run."""
    from rota_sdk.gen.rota.v1 import schedules_pb2

    if stored.rule is None or stored.schedule.state != schedules_pb2.SCHEDULE_STATE_ACTIVE:
        return []
    try:
        fires = stored.rule.between(stored.from_nominal, until, CHECKED_MAX)
    except InvalidArgument:
        return []
    return [(fire.nominal, fire.due) for fire in fires if stored.since < fire.due <= until]


class _Fates:
    """What is on record of a run. A row of one fate stands for all between its first and its last nominal time."""

    def __init__(self, rota: Remote, stored: Stored) -> None:
        self._exact: dict[datetime, str] = {}
        self._rows: list[tuple[datetime, datetime, str]] = []
        for occurrence in occurrences(rota, stored.item.id, None, PAGE_SIZE_MAX):
            nominal, last = at(occurrence, "nominal_time"), at(occurrence, "last_nominal_time")
            assert nominal is not None
            fate = enum_name(occurrence.DESCRIPTOR.fields_by_name["fate"].enum_type, occurrence.fate)
            if occurrence.generation == 0:
                self._exact[nominal] = fate
                if occurrence.count > 1 and last is not None:
                    self._rows.append((nominal, last, fate))
            # A row that began before the run may reach into it, so the first one that did is read too.
            if nominal < stored.from_nominal:
                break

    def of(self, nominal: datetime) -> str | None:
        """The fate of the rule's own occurrence; None when it has none."""
        found = self._exact.get(nominal)
        return found or next((fate for first, last, fate in self._rows if first <= nominal <= last), None)
