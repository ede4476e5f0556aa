"""Schedules as rows, and back. JSON holds only what differs from the defaults."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from functools import lru_cache
from typing import Any

from rota.domain import limits
from rota.domain.dateset import DateSet, parse_dates
from rota.domain.dst import GapPolicy
from rota.domain.dst import OverlapPolicy as DstOverlap
from rota.domain.ids import JobId, ScheduleUid, ShardNo, TenantId
from rota.domain.jitter import JitterMode
from rota.domain.model import Payload
from rota.domain.rulespec import RuleKind
from rota.domain.schedule import (
    Backfill,
    BackfillState,
    Calendar,
    Definition,
    Episode,
    Fate,
    JobTemplate,
    MissedMode,
    MissedPolicy,
    Occurrence,
    Origin,
    OverlapMode,
    OverlapPolicy,
    Schedule,
    ScheduleState,
    Timer,
    Timing,
)
from rota.store import codec
from rota.store.engine import Row

TIMER = """t.version, t.state, t.cursor_at, t.state_reason, t.state_author, t.state_at, t.next_nominal, t.next_due,
    t.arm_at, t.fired, t.buffered, t.failures, t.episode, t.paused_at, t.last_nominal, t.last_fire_at,
    t.last_job::text, t.fates, t.tzdata"""
TIMER_WIDTH = 19

SCHEDULE = """s.tenant_id, s.id, s.uid::text, s.shard, s.definition::text, s.labels, s.type, s.queue, s.priority,
    s.max_attempts, s.run_timeout_ms, s.options, s.content_type, s.headers, s.job_labels, s.concurrency_key,
    s.apply_set, s.traceparent, s.created_at, s.updated_at"""
SCHEDULE_WIDTH = 20

BACKFILL = """b.id::text, b.start_at, b.end_at, b.include_fired, b.rate, b.overlap_mode, b.overlap_limit, b.priority,
    b.reason, b.state, b.cursor_at, b.next_nominal, b.total, b.done, b.fired, b.author, b.created_at, b.finished_at"""

OCCURRENCE = """o.nominal_at, o.generation, o.due_at, o.local_time, o.origin, o.fate, o.version, o.recorded_at,
    o.reason, o.job_id::text, o.blocking_job::text, o.backfill_id::text, o.count, o.last_nominal, o.forced"""

CALENDAR = "c.id, c.notes, c.labels, c.uid::text, c.version, c.created_at, c.updated_at"

SHARED_MAX = 10_000
SHARED_CHARS_MAX = 512
"""Definitions up to this length are kept read."""

_DEFAULT_MISSED = MissedPolicy()
_ENUMS: dict[str, Any] = {
    "kind": RuleKind,
    "jitter_mode": JitterMode,
    "gap": GapPolicy,
    "overlap": DstOverlap,
}
_INSTANTS = ("anchor", "run_time", "start", "end")
_TUPLES = ("dates", "calendars")
_DEFAULT_TIMING = Timing(RuleKind.CRON)


def definition_json(definition: Definition) -> str:
    """All of a definition that has no column of its own."""
    timing: dict[str, object] = {"kind": int(definition.timing.kind)}
    for each in fields(Timing):
        value = getattr(definition.timing, each.name)
        if each.name == "kind" or value == getattr(_DEFAULT_TIMING, each.name):
            continue
        timing[each.name] = value.isoformat() if isinstance(value, datetime) else value
    found: dict[str, object] = {"timing": timing}
    if definition.missed != _DEFAULT_MISSED:
        found["missed"] = missed_json(definition.missed)
    if definition.overlap != OverlapPolicy():
        found["overlap"] = [int(definition.overlap.mode), definition.overlap.limit]
    if definition.pause_after_failures:
        found["pause_after_failures"] = definition.pause_after_failures
    if definition.notes:
        found["notes"] = definition.notes
    return json.dumps(found)


def missed_json(policy: MissedPolicy) -> list[object]:
    return [int(policy.mode), policy.late_tolerance_s, policy.catch_up_window_s, policy.catch_up_max]


def episode_json(episode: Episode | None) -> str | None:
    if episode is None:
        return None
    return json.dumps(
        {
            "until": episode.until.isoformat(),
            "policy": missed_json(episode.policy),
            "cutoff": episode.cutoff and episode.cutoff.isoformat(),
            "first": episode.first and episode.first.isoformat(),
            "count": episode.count,
            "fate": episode.fate,
        }
    )


def timer(r: Sequence[Any]) -> Timer:
    """From the columns of TIMER."""
    return Timer(
        version=r[0],
        state=_STATES[r[1]],
        cursor=r[2],
        state_reason=r[3] or "",
        state_author=r[4] or "",
        state_at=r[5],
        next_nominal=r[6],
        next_due=r[7],
        arm_at=r[8],
        fired=r[9],
        buffered=r[10],
        failures=r[11],
        episode=_episode(r[12]),
        paused_at=r[13],
        last_nominal=r[14],
        last_fire_at=r[15],
        last_job=None if r[16] is None else JobId(r[16]),
        fates=tuple(r[17]),
        tzdata=r[18],
    )


def schedule(r: Row, moving: Timer, payload: bytes) -> Schedule:
    """From the columns of SCHEDULE."""
    timing, missed, overlap, pause_after_failures, notes = _written(r[4])
    return Schedule(
        tenant_id=TenantId(r[0]),
        id=r[1],
        uid=ScheduleUid(r[2]),
        shard=ShardNo(r[3]),
        definition=Definition(
            timing=timing,
            job=JobTemplate(
                type=r[6],
                queue=r[7],
                priority=r[8],
                payload=Payload(payload, r[12]),
                headers=r[13] or {},
                labels=r[14] or {},
                retry=codec.retry_policy(r[9], r[11]),
                timeouts=codec.timeouts(r[10], r[11]),
                concurrency_key=r[15] or "",
            ),
            missed=missed,
            overlap=overlap,
            pause_after_failures=pause_after_failures,
            notes=notes,
            labels=r[5] or {},
        ),
        timer=moving,
        created_at=r[18],
        updated_at=r[19],
        apply_set=r[16] or "",
        traceparent=r[17] or "",
    )


def backfill(r: Sequence[Any]) -> Backfill:
    """From the columns of BACKFILL."""
    return Backfill(
        id=r[0],
        start=r[1],
        end=r[2],
        include_fired=r[3],
        rate=r[4],
        overlap=None if r[5] is None else OverlapPolicy(OverlapMode(r[5]), r[6]),
        priority=r[7],
        reason=r[8],
        state=BackfillState(r[9]),
        cursor=r[10],
        next_nominal=r[11],
        total=r[12],
        done=r[13],
        fired=r[14],
        author=r[15],
        created_at=r[16],
        finished_at=r[17],
    )


def occurrence(r: Sequence[Any]) -> Occurrence:
    """From the columns of OCCURRENCE."""
    return Occurrence(
        nominal=r[0],
        generation=r[1],
        due=r[2],
        local=r[3],
        origin=Origin(r[4]),
        fate=Fate(r[5]),
        version=r[6],
        recorded_at=r[7],
        reason=r[8] or "",
        job_id=None if r[9] is None else JobId(r[9]),
        blocking_job=None if r[10] is None else JobId(r[10]),
        backfill_id=r[11],
        count=r[12],
        last_nominal=r[13],
        forced=r[14],
    )


def calendar(r: Sequence[Any], dates: Sequence[str]) -> Calendar:
    """From the columns of CALENDAR."""
    return Calendar(r[0], tuple(dates), r[1], r[2] or {}, r[3], r[4], r[5], r[6])


def date_set(dates: Sequence[str]) -> DateSet:
    return parse_dates(dates, "calendar.dates", limits.CALENDAR_DATES_MAX)


_STATES = {int(state): state for state in ScheduleState}


def _written(definition: str) -> tuple[Timing, MissedPolicy, OverlapPolicy, int, str]:
    """What `definition_json` wrote. Many schedules say the same, and share it."""
    return _short(definition) if len(definition) <= SHARED_CHARS_MAX else _read(definition)


@lru_cache(maxsize=SHARED_MAX)
def _short(definition: str) -> tuple[Timing, MissedPolicy, OverlapPolicy, int, str]:
    return _read(definition)


def _read(definition: str) -> tuple[Timing, MissedPolicy, OverlapPolicy, int, str]:
    found = json.loads(definition)
    return (
        _timing(found["timing"]),
        _missed(found["missed"]) if "missed" in found else _DEFAULT_MISSED,
        OverlapPolicy(OverlapMode(found["overlap"][0]), found["overlap"][1]) if "overlap" in found else OverlapPolicy(),
        found.get("pause_after_failures", 0),
        found.get("notes", ""),
    )


def _timing(found: Mapping[str, Any]) -> Timing:
    values = dict(found)
    for name, kind in _ENUMS.items():
        if name in values:
            values[name] = kind(values[name])
    for name in _INSTANTS:
        if name in values:
            values[name] = datetime.fromisoformat(values[name])
    for name in _TUPLES:
        if name in values:
            values[name] = tuple(values[name])
    return Timing(**values)


def _missed(found: Sequence[Any]) -> MissedPolicy:
    return MissedPolicy(MissedMode(found[0]), *found[1:])


def _episode(found: Mapping[str, Any] | None) -> Episode | None:
    if found is None:
        return None
    return Episode(
        until=datetime.fromisoformat(found["until"]),
        policy=_missed(found["policy"]),
        cutoff=_instant(found["cutoff"]),
        first=_instant(found["first"]),
        count=found["count"],
        fate=None if found["fate"] is None else Fate(found["fate"]),
    )


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
