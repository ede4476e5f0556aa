"""Which occurrences a schedule's next step is about, and what the missed-run policy makes of those that come late.

An occurrence is late once it has been due for longer than the tolerance. The first late one begins an *episode*: all
that came due at or before one instant, treated by one policy, however many steps and restarts it takes to work them
off. What comes due while that goes on is on time.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from rota.domain import limits
from rota.domain.jitter import JitterMode
from rota.domain.rule import Fire, Rule
from rota.domain.schedule import (
    TICK,
    Definition,
    Episode,
    Fate,
    MissedMode,
    MissedPolicy,
    Origin,
    ScheduleState,
    Timer,
    Timing,
)

NEWEST_CHUNKS_MAX = 50
"""Pages that the search for the newest missed occurrences reads at most."""


@dataclass(frozen=True, slots=True)
class Slot:
    """An occurrence of the rule. `fate` None: it wants a job, and the overlap policy has the last word.

    `missed`: how many missed ones, itself included, a COALESCE job stands for, the first at `first_missed`.
    """

    nominal: datetime
    due: datetime
    local: str
    origin: Origin = Origin.RULE
    fate: Fate | None = None
    reason: str = ""
    count: int = 1
    last: datetime | None = None
    missed: int = 0
    first_missed: datetime | None = None


@dataclass(frozen=True, slots=True)
class Walk:
    """One step through the rule. `cursor` lies behind the last slot; `coming` is what fires next, where that was seen.
    `more`: there is more to do at once."""

    slots: list[Slot]
    cursor: datetime
    episode: Episode | None
    more: bool
    coming: Fire | None = None


def walk(
    timer: Timer, definition: Definition, rule: Rule, now: datetime, taken: frozenset[datetime] = frozenset()
) -> Walk:
    """What is to be decided now: late and due occurrences, and those of the lookahead where the policy allows it.

    Raises InvalidArgument (NEVER_FIRES) when the rule gives no answer within the bound of a search.
    """
    paused = timer.state is ScheduleState.PAUSED
    ahead = definition.overlap.ahead and not paused
    horizon = now + timedelta(seconds=limits.MATERIALISE_AHEAD_S) if ahead else now
    fires, coming = rule.ahead(timer.cursor, horizon, limits.WALK_MAX + 1)
    if not ahead and not paused:
        fires, coming = _due(fires, coming, now)
    more = len(fires) > limits.WALK_MAX
    step = _Step(timer, definition, rule, now, fires)
    cursor = timer.cursor
    for index, fire in enumerate(fires[: limits.WALK_MAX]):
        if step.jobs >= limits.WALK_JOBS_MAX:
            more = True
            break
        if fire.nominal not in taken:
            step.take(index, fire)
        cursor = fire.nominal
    slots = step.slots
    if paused and not more:
        cursor = max(cursor, now)
    episode = step.episode if more or (step.episode and _goes_on(step.episode, rule, cursor, definition)) else None
    return Walk(_in_ranges(slots, now), cursor, episode, more, None if more else coming)


class _Step:
    """One walk under way."""

    def __init__(self, timer: Timer, definition: Definition, rule: Rule, now: datetime, fires: Sequence[Fire]) -> None:
        self._timer = timer
        self._definition = definition
        self._rule = rule
        self._now = now
        self._fires = fires
        self._latest = now - timedelta(seconds=definition.missed.late_tolerance_s)
        self.paused = timer.state is ScheduleState.PAUSED
        self.episode = timer.episode
        self.slots: list[Slot] = []
        self.jobs = 0

    def take(self, index: int, fire: Fire) -> None:
        slot = Slot(fire.nominal, fire.due, fire.local, reason=fire.reason)
        if fire.excluded:
            self.slots.append(replace(slot, fate=Fate.EXCLUDED))
        elif self.paused:
            self.slots.append(replace(slot, fate=Fate.SUPPRESSED_PAUSED))
        else:
            came_due = _came_due(fire, self._definition.timing)
            if self.episode is not None and came_due > self.episode.until:
                self.episode = None
            if self.episode is None and came_due < self._latest:
                self.episode = self._begin(fire)
            if self.episode is None:
                self._want(slot)
            else:
                self._take_missed(index, slot, self.episode)

    def _take_missed(self, index: int, slot: Slot, episode: Episode) -> None:
        policy = episode.policy
        if episode.fate is not None:
            self.slots.append(replace(slot, fate=episode.fate))
        elif policy.mode is MissedMode.SKIP:
            self.slots.append(replace(slot, fate=Fate.SKIPPED_MISSED, reason=_late(slot, policy)))
        elif policy.mode is MissedMode.CATCH_UP:
            if episode.cutoff is not None and slot.nominal < episode.cutoff:
                why = f"missed, and beyond the newest {policy.catch_up_max} of {policy.catch_up_window_s:g} s"
                self.slots.append(replace(slot, fate=Fate.SKIPPED_WINDOW, reason=why))
            else:
                self._want(replace(slot, origin=Origin.CATCH_UP))
        else:
            count, first = episode.count + 1, episode.first or slot.nominal
            self.episode = replace(episode, count=count, first=first)
            if self._is_newest(index, episode):
                self._want(replace(slot, origin=Origin.CATCH_UP, missed=count, first_missed=first))
            else:
                self.slots.append(replace(slot, fate=Fate.COALESCED, reason="missed: the newest one runs for all"))

    def _want(self, slot: Slot) -> None:
        self.slots.append(slot)
        self.jobs += 1

    def _is_newest(self, index: int, episode: Episode) -> bool:
        """Whether no later occurrence belongs to the episode."""
        fire = next((fire for fire in self._fires[index + 1 :] if not fire.excluded), None)
        if fire is None:
            fire = self._rule.next_after(self._fires[index].nominal)
        return fire is None or _came_due(fire, self._definition.timing) > episode.until

    def _begin(self, fire: Fire) -> Episode:
        policy = self._definition.missed
        return begin_episode(policy, fire, self._rule, self._definition.timing, self._latest - TICK, self._now)


def begin_episode(
    policy: MissedPolicy, fire: Fire, rule: Rule, timing: Timing, until: datetime, now: datetime
) -> Episode:
    """The episode of all that came due by `until`, of which `fire` is the first."""
    if policy.mode is not MissedMode.CATCH_UP:
        return Episode(until, policy)
    shift = _came_due(fire, timing) - fire.nominal
    low = max(fire.nominal - TICK, now - timedelta(seconds=policy.catch_up_window_s) - shift)
    return Episode(until, policy, cutoff=_newest(rule, low, until - shift, policy.catch_up_max))


def _newest(rule: Rule, low: datetime, high: datetime, count: int) -> datetime:
    """The nominal time of the earliest among the newest `count` in (low, high]."""
    first = rule.next_after(low)
    second = rule.next_after(first.nominal) if first is not None else None
    if first is None or second is None:
        return low
    width = (second.nominal - first.nominal) * count
    while True:
        start = max(low, high - width)
        found: deque[Fire] = deque(maxlen=count)
        seen, after = 0, start
        for _ in range(NEWEST_CHUNKS_MAX):
            page = rule.between(after, high, limits.WALK_MAX)
            found.extend(page)
            seen += len(page)
            if len(page) < limits.WALK_MAX:
                break
            after = page[-1].nominal
        if seen >= count:
            return found[0].nominal
        if start <= low:
            return found[0].nominal if found else high + TICK
        width *= 4


def _goes_on(episode: Episode, rule: Rule, cursor: datetime, definition: Definition) -> bool:
    """Whether an occurrence of the episode is left."""
    fire = rule.next_after(cursor)
    return fire is not None and _came_due(fire, definition.timing) <= episode.until


def _came_due(fire: Fire, timing: Timing) -> datetime:
    """When it was time for an occurrence, in the order of nominal times: RANDOM jitter may draw a later one earlier."""
    if timing.jitter_mode is JitterMode.RANDOM and timing.jitter_s > 0:
        return fire.nominal + timedelta(seconds=timing.jitter_s)
    return fire.due


def _due(fires: Sequence[Fire], coming: Fire | None, now: datetime) -> tuple[list[Fire], Fire | None]:
    for index, fire in enumerate(fires):
        if fire.due > now and not fire.excluded:
            return list(fires[:index]), fire
    return list(fires), coming


def _late(slot: Slot, policy: MissedPolicy) -> str:
    why = f"missed: it came due longer than {policy.late_tolerance_s:g} s before it could run"
    return f"{slot.reason}; {why}" if slot.reason else why


def _in_ranges(slots: list[Slot], now: datetime) -> list[Slot]:
    """Long rows of one fate without a job become one slot each; but not what an edit may still take back."""
    found: list[Slot] = []
    run: list[Slot] = []
    for slot in slots:
        if run and (slot.fate is None or slot.fate is not run[0].fate or slot.nominal > now):
            found += _merged(run)
            run = []
        if slot.fate is None or slot.nominal > now:
            found.append(slot)
        else:
            run.append(slot)
    return found + _merged(run)


def _merged(run: list[Slot]) -> list[Slot]:
    if len(run) < limits.RANGE_MIN:
        return run
    return [replace(run[0], count=len(run), last=run[-1].nominal)]
