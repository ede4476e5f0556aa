"""What a change of a schedule does to what was decided before it: jobs that have not started, occurrences that wait or
were not to fire, and the cursor. In a transaction whose statements `run` runs; `ScheduleTransaction` says what each of
the functions does.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from rota.domain.fairness import Entry
from rota.domain.ids import ScheduleUid
from rota.domain.schedule import Fate, Schedule
from rota.store import codec
from rota.store.changes import told_withdrawn
from rota.store.engine import Run, array
from rota.store.fires import ENTRY, entry
from rota.store.scheduleport import Withdrawn

# Rows are named by arrays of one, as in `engine.by_key`, so that no plan reads a whole table to find some schedules'.
#
# A job has not started while it was never leased. One whose claim commits first is seen as leased, and stays.
_WITHDRAW = f"""
WITH gone AS (
    DELETE FROM jobs j USING unnest(%(uids)t::uuid[]) AS u (uid)
    WHERE j.schedule_uid = ANY (ARRAY[u.uid]) AND j.schedule_uid IS NOT NULL AND j.state = 1 AND j.attempt = 0
      AND (%(all)t::boolean OR j.occurrence_generation = 0)
      AND (%(before)t::smallint IS NOT NULL
           OR j.nominal_at > timestamptz 'epoch' + %(split)t * interval '1 microsecond')
    RETURNING j.*, j.nominal_at > timestamptz 'epoch' + %(split)t * interval '1 microsecond' AS later
), told AS ({told_withdrawn("gone")}), fates AS (
    UPDATE occurrences o
    SET fate = CASE WHEN g.later THEN 10 ELSE %(before)t::smallint END, job_id = NULL, recorded_at = now()
    FROM gone g
    WHERE o.schedule_uid = ANY (ARRAY[g.schedule_uid]) AND o.nominal_at = g.nominal_at
      AND o.generation = g.occurrence_generation
)
SELECT schedule_uid::text, count(*) FILTER (WHERE NOT later), count(*) FILTER (WHERE later) FROM gone GROUP BY 1
"""

_UNEXCLUDE = """
UPDATE occurrences o SET fate = 10, recorded_at = now()
FROM unnest(%(uids)t::uuid[]) AS u (uid)
WHERE o.schedule_uid = ANY (ARRAY[u.uid]) AND o.generation = 0 AND o.fate = 9
  AND o.nominal_at > timestamptz 'epoch' + %(split)s::bigint * interval '1 microsecond'
RETURNING u.uid::text
"""

# Jobs that the coordinator's memory knows by queue, type and priority get another id, so that what it knows is of no
# use any more. The id's last two digits hold its shard, its first the time.
_REMAKE = f"""
WITH old AS MATERIALIZED (
    SELECT j.* FROM jobs j
    WHERE j.schedule_uid = %(uid)s::uuid AND j.schedule_uid IS NOT NULL AND j.state = 1 AND j.attempt = 0
      AND j.occurrence_generation = 0 AND EXISTS (SELECT FROM watched_tenants w WHERE w.tenant_id = j.tenant_id)
), anew AS (
    UPDATE jobs j
    SET id = (left(j.id::text, 24) || left(md5(random()::text || j.id::text), 10) || right(j.id::text, 2))::uuid,
        priority = d.priority, max_attempts = d.max_attempts, run_timeout_ms = d.run_timeout_ms,
        start_by = j.due_at + d.start_by_s * interval '1 second',
        deadline_at = j.due_at + d.total_s * interval '1 second', type = d.type, queue = d.queue,
        content_type = d.content_type, payload = d.payload,
        headers = CASE WHEN j.headers ? 'rota-missed-count'
                       THEN coalesce(d.headers, '{{}}'::jsonb) || jsonb_build_object(
                           'rota-missed-count', j.headers -> 'rota-missed-count',
                           'rota-first-missed-time', j.headers -> 'rota-first-missed-time')
                       ELSE d.headers END,
        labels = d.job_labels, options = d.options, concurrency_key = d.concurrency_key, schedule_version = %(version)s
    FROM schedules d
    WHERE d.uid = %(uid)s::uuid AND j.schedule_uid = %(uid)s::uuid AND j.schedule_uid IS NOT NULL
      AND j.state = 1 AND j.attempt = 0 AND j.occurrence_generation = 0
      AND (%(until)t::bigint IS NULL
           OR j.nominal_at <= timestamptz 'epoch' + %(until)t::bigint * interval '1 microsecond')
    RETURNING j.*
), told AS ({
    told_withdrawn("(SELECT o.* FROM old o WHERE EXISTS (SELECT FROM anew a WHERE a.nominal_at = o.nominal_at))")
}), ledger AS (
    UPDATE occurrences o SET job_id = a.id, version = a.schedule_version
    FROM anew a
    WHERE o.schedule_uid = ANY (ARRAY[a.schedule_uid]) AND o.nominal_at = a.nominal_at AND o.generation = 0
)
SELECT {ENTRY} FROM anew
"""

_END_WAITING = """
UPDATE occurrences o SET fate = %(fate)s, recorded_at = now(), reason = NULL
WHERE o.schedule_uid = %(uid)s::uuid AND o.fate = 2 AND (NOT %(rule_only)s OR o.origin IN (1, 2))
RETURNING 1
"""

_RESTORE = """
DELETE FROM occurrences o
WHERE o.schedule_uid = %(uid)s::uuid AND o.generation = 0 AND o.fate IN (8, 9)
  AND o.nominal_at > timestamptz 'epoch' + %(after)s::bigint * interval '1 microsecond'
RETURNING o.fate, o.count
"""

# Where nothing is overdue, all since the cursor was excluded by the calendar as it was.
_RESET = """
UPDATE schedule_timers t
SET version = t.version + 1, cursor_at = least(t.cursor_at, r.now), arm_at = now(), next_nominal = NULL,
    next_due = NULL,
    episode = CASE WHEN t.next_nominal > r.now AND t.state = 1 THEN jsonb_build_object(
        'until', to_char(r.now AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"'),
        'policy', '[2, 60, 86400, 100]'::jsonb, 'cutoff', NULL, 'first', NULL, 'count', 0, 'fate', 9)
        ELSE t.episode END,
    fired = t.fired - r.fired, fates[1] = t.fates[1] - r.fired, fates[9] = t.fates[9] - r.excluded
FROM (SELECT r.*, timestamptz 'epoch' + %(now)s::bigint * interval '1 microsecond' AS now
      FROM unnest(%(uids)t::uuid[], %(fired)t::bigint[], %(excluded)t::bigint[]) AS r (uid, fired, excluded)) r
WHERE t.uid = ANY (ARRAY[r.uid]) AND t.state IN (1, 2)
"""


async def withdraw(
    run: Run, uids: Sequence[ScheduleUid], split: datetime, fate_before: Fate | None, *, all_jobs: bool = False
) -> dict[ScheduleUid, Withdrawn]:
    params = {
        "uids": array(uids),
        "split": codec.micros(split),
        "before": None if fate_before is None else int(fate_before),
        "all": all_jobs,
    }
    gone = {uid: (before, after) for uid, before, after in await run(_WITHDRAW, params)}
    excluded = Counter(r[0] for r in await run(_UNEXCLUDE, {"uids": array(uids), "split": codec.micros(split)}))
    found: dict[ScheduleUid, Withdrawn] = {}
    for uid in uids:
        before, after = gone.get(uid, (0, 0))
        found[uid] = Withdrawn(before, after, excluded[uid])
    return found


async def remake(run: Run, schedule: Schedule, until: datetime | None) -> list[Entry]:
    params = {
        "uid": schedule.uid,
        "version": schedule.timer.version,
        "until": None if until is None else codec.micros(until),
    }
    return [entry(r) for r in await run(_REMAKE, params)]


async def end_waiting(run: Run, uid: ScheduleUid, fate: Fate, *, rule_only: bool) -> int:
    return len(await run(_END_WAITING, {"uid": uid, "fate": int(fate), "rule_only": rule_only}))


async def restore(run: Run, uid: ScheduleUid, after: datetime) -> dict[Fate, int]:
    counts: Counter[Fate] = Counter()
    for fate, count in await run(_RESTORE, {"uid": uid, "after": codec.micros(after)}):
        counts[Fate(fate)] += count
    return counts


async def reset(run: Run, withdrawn: Mapping[ScheduleUid, Withdrawn], now: datetime) -> None:
    uids = sorted(withdrawn)
    await run(
        _RESET,
        {
            "uids": array(uids),
            "fired": array([withdrawn[uid].after for uid in uids]),
            "excluded": array([withdrawn[uid].excluded for uid in uids]),
            "now": codec.micros(now),
        },
    )
