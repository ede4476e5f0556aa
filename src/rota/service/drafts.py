"""Schedules that are wished for: what they must be to be taken, and as what they are stored first."""

from dataclasses import dataclass, replace
from datetime import datetime

from rota.clock import Clock
from rota.domain import ids, zones
from rota.domain.errors import InvalidArgument
from rota.domain.ids import JobId, ScheduleUid
from rota.domain.model import Identity
from rota.domain.schedule import (
    ID,
    ID_WORDS,
    Calendars,
    Definition,
    Schedule,
    ScheduleState,
    Timer,
    check_definition,
    compiled,
)
from rota.domain.step import armed, stated
from rota.domain.text import Problems


@dataclass(frozen=True, slots=True)
class Draft:
    """A schedule to create or apply. `at` is its path in the request, for refusals."""

    id: str
    definition: Definition
    paused: bool = False
    traceparent: str = ""
    at: str = "schedule"


def check_id(draft: Draft) -> None:
    if not ID.fullmatch(draft.id):
        at = draft.at.rpartition("schedule")[0] + "schedule_id"
        raise InvalidArgument.field(at, f"must be {ID_WORDS}, found {draft.id[:80]!r}")


def new_schedule(
    clock: Clock, identity: Identity, draft: Draft, calendars: Calendars, now: datetime, uid: ScheduleUid | None = None
) -> Schedule:
    """A schedule as it is stored first. Refuses what cannot be meant, and what would never fire."""
    problems = Problems()
    check_definition(problems, draft.at, draft.definition, now)
    problems.raise_any()
    blank = blank_schedule(clock, identity, draft, now, uid)
    definition = replace(draft.definition, timing=draft.definition.timing.settled(now))
    rule = compiled(definition.timing, blank.uid, calendars, draft.at)
    coming = rule.require_next(now)
    timer = blank.timer
    if draft.paused:
        timer = replace(
            stated(timer, ScheduleState.PAUSED, "created paused", identity.key_id, now), version=1, paused_at=now
        )
    return replace(blank, definition=definition, timer=armed(timer, definition.overlap, coming, now))


def blank_schedule(
    clock: Clock, identity: Identity, draft: Draft, now: datetime, uid: ScheduleUid | None = None
) -> Schedule:
    """A schedule whose rule has not been read."""
    uid = uid or ScheduleUid(clock.new_id())
    timer = Timer(1, ScheduleState.ACTIVE, cursor=now, state_at=now, tzdata=zones.version())
    shard = ids.shard_of(identity.tenant_id, JobId(uid))
    return Schedule(
        identity.tenant_id, draft.id, uid, shard, draft.definition, timer, now, now, traceparent=draft.traceparent
    )
