"""The SQL floor of firing: ledger, job and timer in one plain statement for each 200 schedules, and nothing else.

One psycopg connection, one transaction a batch, in a fresh database with the same schema on the same server. It looks
at no version, writes no counts of fates and knows its rows: the least that a durable fire must write.
"""

import time
from datetime import datetime, timedelta

import psycopg

from bench.cpu import Reading
from bench.errors import BenchError
from bench.floor import Floor
from bench.work import JOB
from rota.clock import SystemClock

BATCH = 200

_FILL = """
INSERT INTO schedules (
    tenant_id, id, uid, shard, definition, type, queue, priority, max_attempts, run_timeout_ms, content_type, payload,
    created_at, updated_at)
SELECT 1, 's' || n, ('01f0a000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, n %% 256,
       '{{"timing": {{"kind": 2}}}}', '{job}', 'default', 4, 20, 3600000, '', '', now(), now()
FROM generate_series(1, %(n)s) n
"""

_ARM = """
INSERT INTO schedule_timers (
    uid, tenant_id, shard, version, state, cursor_at, next_nominal, next_due, arm_at, fired, buffered, failures,
    pause_after, fates, state_at, tzdata)
SELECT uid, tenant_id, shard, 1, 1, now(), %(due)s, %(due)s, %(arm)s, 0, 0, 0, 0, array_fill(0::bigint, ARRAY[10]),
       now(), ''
FROM schedules
"""

_FIRE = f"""
WITH armed AS (
    SELECT * FROM unnest(%(uids)s::uuid[], %(jobs)s::uuid[]) AS a (uid, job_id)
), moved AS (
    UPDATE schedule_timers t
    SET cursor_at = t.next_nominal, next_nominal = t.next_nominal + interval '1 day',
        next_due = t.next_due + interval '1 day', arm_at = t.arm_at + interval '1 day', fired = t.fired + 1,
        last_nominal = t.next_nominal, last_job = a.job_id, last_fire_at = now()
    FROM armed a
    WHERE t.uid = a.uid
    RETURNING t.uid, t.tenant_id, t.shard, t.version, t.cursor_at AS nominal_at, a.job_id
), ledger AS (
    INSERT INTO occurrences (
        schedule_uid, nominal_at, generation, tenant_id, due_at, origin, fate, version, recorded_at, local_time,
        job_id, count, forced)
    SELECT uid, nominal_at, 0, tenant_id, nominal_at, 1, 1, version, now(), nominal_at::text, job_id, 1, false
    FROM moved
)
INSERT INTO jobs (
    tenant_id, id, shard, state, priority, generation, attempt, attempts_counted, max_attempts, run_timeout_ms, fence,
    due_at, created_at, type, queue, content_type, payload, schedule_uid, schedule_id, schedule_version, nominal_at,
    occurrence_generation)
SELECT tenant_id, job_id, shard, 1, 4, 0, 0, 0, 20, 3600000, 0, nominal_at, now(), '{JOB}', 'default', '', '', uid,
       '', version, nominal_at, 0
FROM moved
"""

_WRITTEN = """
SELECT (SELECT count(*) FROM occurrences), (SELECT count(*) FROM jobs),
       (SELECT count(*) FROM schedule_timers WHERE fired = 1)
"""


def fire(url: str, store_pid: int, n: int, due: datetime) -> Floor:
    """Fires `n` schedules that are all due at one instant."""
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(_FILL.format(job=JOB).encode(), {"n": n})
        conn.execute(_ARM, {"due": due, "arm": due - timedelta(seconds=60)})
        conn.execute("ANALYZE")
        conn.execute("CHECKPOINT")
        # By arm time and shard, as the coordinator reads them.
        uids = [uid for (uid,) in conn.execute("SELECT uid::text FROM schedule_timers ORDER BY arm_at, shard, uid")]
        clock = SystemClock()
        jobs = [clock.new_id() for _ in uids]
        before = Reading.take(store=store_pid)
        began = time.monotonic()
        for start in range(0, n, BATCH):
            conn.execute(
                _FIRE, {"uids": uids[start : start + BATCH], "jobs": jobs[start : start + BATCH]}, prepare=True
            )
        seconds = time.monotonic() - began
        after = Reading.take(store=store_pid)
        written = conn.execute(_WRITTEN).fetchone()
    if written != (n, n, n):
        raise BenchError(f"expected the floor to write {n} occurrences, jobs and timers, found {written}")
    return Floor(
        n / seconds,
        seconds,
        (after.own_s - before.own_s) / n * 1e6,
        (after.store_s - before.store_s) / n * 1e6,
        after.foreign_pct(before),
    )
