"""Day partitions of what is over: made ahead, dropped when old, never deleted row by row.

Rows of a day without a partition fall into a default one, so a coordinator that was away for weeks loses nothing; they
stay there, and their day gets no partition of its own.
"""

import re
from dataclasses import dataclass
from datetime import date, timedelta

from psycopg import errors as pg

from rota.store.engine import Database, Run

PARTITIONED = ("finished_jobs", "attempts", "occurrences")

_TODAY = "SELECT (now() AT TIME ZONE 'UTC')::date"

_PARTITIONS = """
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = %(parent)s::regclass
"""

_OLDEST = "SELECT ((now() - %(older_s)s::float8 * interval '1 second') AT TIME ZONE 'UTC')::date"

_IN_DEFAULT = """
SELECT EXISTS (SELECT FROM {parent}_other WHERE {column} >= '{start}' AND {column} < '{end}')
"""

_DELETE_REQUESTS = """
DELETE FROM requests WHERE (tenant_id, method, request_id) IN (
    SELECT tenant_id, method, request_id FROM requests
    WHERE created_at < now() - %(life_s)s::float8 * interval '1 second'
    ORDER BY created_at LIMIT %(limit)s)
RETURNING 1
"""

# The job is named outside of the sub-select too: a hold that a new job took over meanwhile is tested again as it is
# then, and stays.
_DELETE_WINDOWS = """
DELETE FROM dedupe_keys d USING (
    SELECT tenant_id, key, job_id FROM dedupe_keys WHERE held_until < now() ORDER BY held_until LIMIT %(limit)s) old
WHERE d.tenant_id = old.tenant_id AND d.key = old.key AND d.job_id = old.job_id
RETURNING 1
"""

_DELETE_HOLDS = """
DELETE FROM dedupe_keys d USING (
    SELECT k.tenant_id, k.key, k.job_id FROM dedupe_keys k
    WHERE k.held_until IS NULL AND NOT EXISTS (
        SELECT FROM jobs j WHERE j.tenant_id = k.tenant_id AND j.id = k.job_id)
    LIMIT %(limit)s) old
WHERE d.tenant_id = old.tenant_id AND d.key = old.key AND d.job_id = old.job_id
RETURNING 1
"""

_DELETE_SESSIONS = """
DELETE FROM sessions WHERE id IN (
    SELECT id FROM sessions WHERE closed_at < now() - %(life_s)s::float8 * interval '1 second' LIMIT %(limit)s)
RETURNING 1
"""

_FORGET_SCHEDULES = (
    """
    DELETE FROM occurrences_other WHERE (schedule_uid, nominal_at, generation) IN (
        SELECT schedule_uid, nominal_at, generation FROM occurrences_other
        WHERE recorded_at < now() - %(life_s)s::float8 * interval '1 second' AND fate <> 2 LIMIT %(limit)s)
    RETURNING 1
    """,
    """
    DELETE FROM backfills WHERE id IN (
        SELECT id FROM backfills
        WHERE state <> 1 AND finished_at < now() - %(life_s)s::float8 * interval '1 second' LIMIT %(limit)s)
    RETURNING 1
    """,
    """
    DELETE FROM deleted_schedules WHERE (tenant_id, id, uid) IN (
        SELECT tenant_id, id, uid FROM deleted_schedules
        WHERE deleted_at < now() - %(life_s)s::float8 * interval '1 second' LIMIT %(limit)s)
    RETURNING 1
    """,
)

_DAY = re.compile(r"_(\d{4})(\d{2})(\d{2})$")
_COLUMN = {"finished_jobs": "finished_at", "attempts": "ended_at", "occurrences": "nominal_at"}


@dataclass(frozen=True, slots=True)
class PgHistory:
    """HistoryStore on PostgreSQL."""

    db: Database

    async def make_partitions(self, days_ahead: int) -> list[str]:
        made = []
        today: date = (await self.db.writes.run(_TODAY, {}, write=False))[0][0]
        for parent in PARTITIONED:
            present = {row[0] for row in await self.db.writes.run(_PARTITIONS, {"parent": parent}, write=False)}
            for offset in range(days_ahead + 1):
                day = today + timedelta(days=offset)
                name = f"{parent}_{day:%Y%m%d}"
                if name not in present and await self._make(parent, name, day):
                    made.append(name)
        return made

    async def drop_partitions(self, older_than_s: float) -> list[str]:
        dropped = []
        oldest: date = (await self.db.writes.run(_OLDEST, {"older_s": older_than_s}, write=False))[0][0]
        for parent in PARTITIONED:
            for (name,) in await self.db.writes.run(_PARTITIONS, {"parent": parent}, write=False):
                found = _DAY.search(name)
                if found is None or date(int(found[1]), int(found[2]), int(found[3])) >= oldest:
                    continue
                if await self._ddl(f'DROP TABLE "{name}"', unless=(pg.UndefinedTable,)):
                    dropped.append(name)
        return dropped

    async def forget_schedules(self, older_than_s: float, limit: int) -> int:
        params = {"life_s": older_than_s, "limit": limit}
        return sum([len(await self.db.writes.run(statement, params)) for statement in _FORGET_SCHEDULES])

    async def delete_requests(self, older_than_s: float, limit: int) -> int:
        params = {"life_s": older_than_s, "limit": limit}
        deleted = 0
        for statement in (_DELETE_REQUESTS, _DELETE_WINDOWS, _DELETE_HOLDS, _DELETE_SESSIONS):
            deleted += len(await self.db.writes.run(statement, params))
        return deleted

    async def _make(self, parent: str, name: str, day: date) -> bool:
        start, end = f"{day} 00:00+00", f"{day + timedelta(days=1)} 00:00+00"
        in_default = _IN_DEFAULT.format(parent=parent, column=_COLUMN[parent], start=start, end=end)
        if (await self.db.writes.run(in_default, {}, write=False))[0][0]:
            return False
        # Between the look and the lock a row of that day may have come, or another coordinator's partition.
        return await self._ddl(
            f"CREATE TABLE {name} PARTITION OF {parent} FOR VALUES FROM ('{start}') TO ('{end}')",
            unless=(pg.CheckViolation, pg.DuplicateTable, pg.UniqueViolation),
        )

    async def _ddl(self, statement: str, *, unless: tuple[type[pg.Error], ...]) -> bool:
        """Whether it was done: not where an error says that there is nothing to do any more."""

        async def work(run: Run) -> None:
            # Readers of the parent must never queue behind a partition that waits for its lock.
            await run("SET LOCAL lock_timeout = '2s'", {})
            await run(statement, {})

        try:
            await self.db.writes.transact(work)
        except unless:
            return False
        return True
