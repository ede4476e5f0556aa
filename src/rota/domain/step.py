"""One step of a schedule: from its timer and the clock to fates, jobs and the timer after it. Pure.

A step is taken when the timer is armed, or before a change, so that what came due under the old definition is decided
by it. Applied twice it decides nothing new, since the cursor has moved.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from rota.domain import limits
from rota.domain.errors import InvalidArgument
from rota.domain.ids import JobId
from rota.domain.missed import walk
from rota.domain.overlap import Record, Waiting, resolve
from rota.domain.rule import Fire, Rule
from rota.domain.schedule import Definition, Fate, Origin, OverlapMode, OverlapPolicy, ScheduleState, Timer
from rota.domain.text import clean

PAUSE_RECORD_S = 600.0
"""What a paused schedule suppresses is written down this often."""

BUFFER_RECHECK_S = 1.0
"""How often a waiting occurrence looks whether its turn has come."""

POSTPONE_S = 60.0
"""How long a schedule whose step failed is left alone."""

_AHEAD = timedelta(seconds=limits.MATERIALISE_AHEAD_S)

NO_TIMES_LEFT = "no time is left: the rule or end_time has come to its end"
COUNT_REACHED = "max_count occurrences have fired"


@dataclass(frozen=True, slots=True)
class Step:
    """`displaced`: jobs that are to go before those that wait can start; `fence_out`: at once. `more`: the next step
    can be taken at once."""

    timer: Timer
    records: tuple[Record, ...] = ()
    displaced: tuple[JobId, ...] = ()
    fence_out: bool = False
    more: bool = False


def needs_jobs(timer: Timer, definition: Definition) -> bool:
    """Whether a step has to know the schedule's jobs, and so to hold its lock while it looks."""
    return timer.buffered > 0 or not definition.overlap.ahead or is_turned_back(timer)


def is_turned_back(timer: Timer) -> bool:
    """Whether occurrences after the cursor may have fates: made ahead, and not withdrawn because they had ended."""
    return timer.last_nominal is not None and timer.last_nominal > timer.cursor


def decide(
    timer: Timer,
    definition: Definition,
    rule: Rule,
    running: Sequence[JobId],
    waiting: Sequence[Waiting],
    now: datetime,
    mint: Callable[[], JobId],
    tzdata: str,
    taken: frozenset[datetime] = frozenset(),
) -> Step:
    """The step of a schedule that is ACTIVE, PAUSED, or has occurrences that wait.

    `taken`: nominal times after the cursor that have their fate already. A rule that cannot be evaluated any more puts
    the schedule in ERROR.
    """
    fires = timer.state in (ScheduleState.ACTIVE, ScheduleState.PAUSED)
    try:
        found = walk(timer, definition, rule, now, taken) if fires else None
        slots = found.slots if found is not None else []
        result = resolve(definition.overlap, slots, running, waiting, _left(timer, definition, waiting), mint)
        if result.used < len(slots):
            cursor = slots[result.used - 1].last or slots[result.used - 1].nominal if result.used else timer.cursor
            more, episode = False, None
        else:
            cursor = found.cursor if found is not None else timer.cursor
            more, episode = (found.more, found.episode) if found is not None else (False, None)
        full = result.full and timer.state is ScheduleState.ACTIVE
        coming = found.coming if found is not None and result.used == len(slots) else None
        if not fires or full:
            coming = None
        elif coming is None:
            coming = rule.next_after(cursor)
    except InvalidArgument as error:
        stopped = failed(timer, error.message, now)
        # Those that wait go on all the same.
        return Step(armed(stopped, definition.overlap, None, now))
    state, version, reason, author, state_at = (
        timer.state,
        timer.version,
        timer.state_reason,
        timer.state_author,
        timer.state_at,
    )
    last_nominal, last_job, last_fire_at = timer.last_nominal, timer.last_job, timer.last_fire_at
    for record in result.records:
        if record.fate is Fate.FIRED:
            last_job, last_fire_at = record.job_id, now
            if record.origin in (Origin.RULE, Origin.CATCH_UP):
                last_nominal = record.nominal if last_nominal is None else max(last_nominal, record.nominal)
    last: datetime | None = None
    if state is ScheduleState.ACTIVE and not more and coming is None:
        if last_nominal is not None and last_nominal > now:
            # Its last occurrence is made ahead, and may still be taken back.
            last = last_nominal
        else:
            state, version = ScheduleState.EXHAUSTED, version + 1
            reason, author, state_at = COUNT_REACHED if full else NO_TIMES_LEFT, "", now
    # Counted where they are known: those whose history was dropped do not wait any more.
    buffered = (len(waiting) if timer.buffered else 0) + result.buffered
    arm_at, next_nominal, next_due = _arm(state, buffered, definition.overlap, coming, now, more=more, last=last)
    # In one go: copying a timer is a good part of the cost of a step.
    moved = replace(
        timer,
        version=version,
        state=state,
        state_reason=reason,
        state_author=author,
        state_at=state_at,
        cursor=cursor,
        episode=episode,
        fired=timer.fired + result.fired,
        buffered=buffered,
        fates=_counted(timer.fates, result.records),
        tzdata=tzdata,
        last_nominal=last_nominal,
        last_job=last_job,
        last_fire_at=last_fire_at,
        arm_at=arm_at,
        next_nominal=next_nominal,
        next_due=next_due,
    )
    revoke = definition.overlap.mode is OverlapMode.REPLACE
    return Step(moved, tuple(result.records), result.displaced, revoke, more)


def armed(timer: Timer, overlap: OverlapPolicy, coming: Fire | None, now: datetime, *, more: bool = False) -> Timer:
    """The timer set for what comes next. Where nothing comes, the end of an active one is for its next step to find."""
    arm_at, nominal, due = _arm(timer.state, timer.buffered, overlap, coming, now, more=more)
    if timer.state is ScheduleState.ACTIVE and arm_at is None:
        arm_at = now
    return replace(timer, arm_at=arm_at, next_nominal=nominal, next_due=due)


def failed(timer: Timer, why: str, now: datetime) -> Timer:
    """In ERROR: it fires no more until somebody edits or resumes it."""
    stopped = stated(timer, ScheduleState.ERROR, clean(why, limits.REASON_BYTES_MAX), "", now)
    return replace(stopped, next_nominal=None, next_due=None, arm_at=None)


def postponed(timer: Timer, now: datetime) -> Step:
    """Nothing, for a while: something is wrong that is not the schedule's own matter. What comes due meanwhile is
    missed, and treated so."""
    return Step(replace(timer, arm_at=now + timedelta(seconds=POSTPONE_S)))


def stated(timer: Timer, state: ScheduleState, reason: str, author: str, now: datetime) -> Timer:
    """In a new state, and so in a new version."""
    return replace(
        timer, version=timer.version + 1, state=state, state_reason=reason, state_author=author, state_at=now
    )


def _arm(
    state: ScheduleState,
    buffered: int,
    overlap: OverlapPolicy,
    coming: Fire | None,
    now: datetime,
    *,
    more: bool = False,
    last: datetime | None = None,
) -> tuple[datetime | None, datetime | None, datetime | None]:
    """When to look again, and the next nominal and due time to be shown. `last`: when the last one, made ahead, has
    come."""
    at = last
    if state is ScheduleState.ACTIVE and coming is not None:
        at = max(coming.nominal - _AHEAD if overlap.ahead else coming.due, now)
    elif state is ScheduleState.PAUSED and coming is not None:
        at = max(coming.due, now + timedelta(seconds=PAUSE_RECORD_S))
    if buffered > 0:
        again = now + timedelta(seconds=BUFFER_RECHECK_S)
        at = again if at is None else min(at, again)
    if more:
        at = now
    if state is not ScheduleState.ACTIVE or coming is None:
        return at, None, None
    return at, coming.nominal, coming.due


def _left(timer: Timer, definition: Definition, waiting: Sequence[Waiting]) -> int | None:
    most = definition.timing.max_count
    return None if most is None else max(most - timer.fired - sum(each.counts for each in waiting), 0)


def _counted(fates: tuple[int, ...], records: Sequence[Record]) -> tuple[int, ...]:
    """The counts of the rule's own occurrences after these records."""
    counts = list(fates)
    for record in records:
        if record.origin not in (Origin.RULE, Origin.CATCH_UP):
            continue
        counts[record.fate - 1] += record.count
        if record.was_waiting:
            counts[Fate.BUFFERED - 1] -= 1
    return tuple(counts)
