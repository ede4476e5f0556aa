"""Whether the ledger of fates adds up: by the timers' counts, and by what the rules say themselves."""

from collections.abc import Sequence
from dataclasses import dataclass

from rota.domain.errors import RotaError
from rota.domain.schedule import ScheduleState, compiled
from rota.store.scheduleport import FireStore, Ledger

RULE_OCCURRENCES_MAX = 5_000
"""Schedules with more occurrences than this are compared by their counts only."""


@dataclass(frozen=True, slots=True)
class Audited:
    """`wrong` says of each schedule that does not add up what was expected and what was found."""

    schedules: int
    by_rule: int
    wrong: tuple[str, ...]


async def audit(fires: FireStore, ledgers: Sequence[Ledger]) -> Audited:
    """Compares the fates of schedules. The rule is asked where it never changed, so that it names every occurrence."""
    wrong = []
    by_rule = 0
    known = await fires.definitions([each.uid for each in ledgers]) if ledgers else {}
    for each in ledgers:
        if each.counted != each.written:
            wrong.append(f"schedules/{each.id}: its counts say {sum(each.counted)} and its rows {sum(each.written)}")
            continue
        stored = known.get(each.uid)
        unchanged = each.version == 1 and each.state is ScheduleState.ACTIVE
        if stored is None or not unchanged or sum(each.written) > RULE_OCCURRENCES_MAX:
            continue
        schedule, calendars = stored
        try:
            rule = compiled(schedule.definition.timing, schedule.uid, calendars)
            expected = rule.between(each.created_at, each.cursor, RULE_OCCURRENCES_MAX + 1, with_excluded=True)
        except RotaError:
            continue
        by_rule += 1
        if len(expected) != sum(each.written):
            wrong.append(f"schedules/{each.id}: its rule names {len(expected)} and its rows {sum(each.written)}")
    return Audited(len(ledgers), by_rule, tuple(wrong))
