"""Day partitions of what is over: made ahead, dropped when old, never deleted row by row.

Rows of a day without a partition fall into a default one, so a coordinator that was away for weeks loses nothing; they
stay there, and their day gets no partition of its own.

A tenant may have a span of its own. One that is shorter than the others' has a part of each day to itself
(`finished_jobs_20261130_t7` beside `…_rest`), which is dropped earlier; not of occurrences, whose key has no tenant:
they stay as long as the others'. One that is longer keeps its rows when a day is dropped: in the same transaction they
are copied into a month of its own (`kept_jobs_t7_202611`), dropped in its turn. So there are not as many tables as days
in ten years, and no statement of the other tenants looks into them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from psycopg import errors as pg

from rota.domain import limits
from rota.domain.ids import TenantId
from rota.store.engine import Database, Run
from rota.store.tables import metadata

PARTITIONED = ("finished_jobs", "attempts", "occurrences")

DIVIDED: Final = frozenset({"finished_jobs", "attempts"})

DROPPED: Final = ("attempts", "finished_jobs", "occurrences")
"""In this order: no attempt outlives its job's record."""

_TODAY = "SELECT (now() AT TIME ZONE 'UTC')::date"

# With the parts of those that are divided; NULL for the others.
_PARTITIONS = """
SELECT c.relname,
       CASE WHEN c.relkind = 'p' THEN ARRAY(
           SELECT k.relname::text FROM pg_inherits p JOIN pg_class k ON k.oid = p.inhrelid
           WHERE p.inhparent = c.oid ORDER BY 1) END
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = %(parent)s::regclass
ORDER BY 1
"""

_SPANS = "SELECT id, history_s FROM tenants WHERE history_s IS NOT NULL ORDER BY id"

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


def _older(column: str) -> str:
    """SQL: older than the shortest life, and than the tenant's own or the installation's."""
    return (
        f"{column} < now() - interval '{limits.REQUEST_LIFE_S:g} s' AND {column} < now() - interval '1 second' * "
        "coalesce((SELECT t.history_s FROM tenants t WHERE t.id = h.tenant_id), %(life_s)s::float8)"
    )


_FORGET_SCHEDULES = (
    f"""
    DELETE FROM occurrences_other WHERE (schedule_uid, nominal_at, generation) IN (
        SELECT schedule_uid, nominal_at, generation FROM occurrences_other h
        WHERE {_older("h.recorded_at")} AND h.fate <> 2 LIMIT %(limit)s)
    RETURNING 1
    """,
    f"""
    DELETE FROM backfills WHERE id IN (
        SELECT id FROM backfills h WHERE h.state <> 1 AND {_older("h.finished_at")} LIMIT %(limit)s)
    RETURNING 1
    """,
    f"""
    DELETE FROM redrives WHERE (tenant_id, id) IN (
        SELECT tenant_id, id FROM redrives h WHERE h.state <> 1 AND {_older("h.finished_at")} LIMIT %(limit)s)
    RETURNING 1
    """,
    f"""
    DELETE FROM deleted_schedules WHERE (tenant_id, id, uid) IN (
        SELECT tenant_id, id, uid FROM deleted_schedules h WHERE {_older("h.deleted_at")} LIMIT %(limit)s)
    RETURNING 1
    """,
)

_DAY = re.compile(r"_(\d{4})(\d{2})(\d{2})$")
_MONTH = re.compile(r"_t(\d+)_(\d{4})(\d{2})$")
_TENANT = re.compile(r"_t(\d+)$")
_COLUMN = {"finished_jobs": "finished_at", "attempts": "ended_at", "occurrences": "nominal_at"}
_KEPT: Final = {"finished_jobs": "kept_jobs", "attempts": "kept_attempts", "occurrences": "kept_occurrences"}

_LOCK_TIMEOUT = "SET LOCAL lock_timeout = '2s'"
"""Readers of the parent must never queue behind a partition that waits for its lock."""


@dataclass(frozen=True, slots=True)
class PgHistory:
    """HistoryStore on PostgreSQL."""

    db: Database

    async def make_partitions(self, days_ahead: int, history_s: float | None = None) -> list[str]:
        made = []
        today: date = (await self.db.writes.run(_TODAY, {}, write=False))[0][0]
        spans = await self._spans()
        apart = [tenant for tenant, span_s in spans.items() if history_s is not None and span_s < history_s]
        for parent in PARTITIONED:
            rows = await self.db.writes.run(_PARTITIONS, {"parent": parent}, write=False)
            present: dict[str, list[str] | None] = dict(rows)
            for offset in range(days_ahead + 1):
                day = today + timedelta(days=offset)
                name = f"{parent}_{day:%Y%m%d}"
                if name not in present:
                    if await self._make(parent, name, day, apart):
                        made.append(name)
                elif offset and parent in DIVIDED:
                    # Nobody has written into tomorrow.
                    made += await self._divide(parent, name, day, present[name], apart)
        return made

    async def drop_partitions(self, older_than_s: float) -> list[str]:
        dropped = []
        oldest = await self._oldest(older_than_s)
        spans = await self._spans()
        first = {tenant: await self._oldest(span_s) for tenant, span_s in spans.items()}
        for parent in DROPPED:
            for name, parts in await self.db.writes.run(_PARTITIONS, {"parent": parent}, write=False):
                found = _DAY.search(name)
                if found is None:
                    continue
                day = date(int(found[1]), int(found[2]), int(found[3]))
                if day < oldest:
                    longer = [tenant for tenant, first_day in first.items() if first_day <= day]
                    if await self._drop_day(parent, name, day, longer):
                        dropped.append(name)
                    continue
                for part in parts or ():
                    of = _TENANT.search(part)
                    over = of is not None and day < first.get(TenantId(int(of[1])), oldest)
                    if over and await self._ddl(f'DROP TABLE "{part}"', unless=(pg.UndefinedTable,)):
                        dropped.append(part)
            dropped += await self._drop_kept(_KEPT[parent], first, oldest)
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

    async def _spans(self) -> dict[TenantId, float]:
        """Of tenants with a span of their own."""
        rows = await self.db.writes.run(_SPANS, {}, write=False)
        return {TenantId(tenant): max(span_s, limits.REQUEST_LIFE_S) for tenant, span_s in rows}

    async def _oldest(self, span_s: float) -> date:
        """The oldest day of which something is younger than the span."""
        found: date = (await self.db.writes.run(_OLDEST, {"older_s": span_s}, write=False))[0][0]
        return found

    async def _make(self, parent: str, name: str, day: date, apart: Sequence[TenantId] = ()) -> bool:
        start, end = _bounds(day, day + timedelta(days=1))
        in_default = _IN_DEFAULT.format(parent=parent, column=_COLUMN[parent], start=start, end=end)
        if (await self.db.writes.run(in_default, {}, write=False))[0][0]:
            return False
        # Between the look and the lock a row of that day may have come, or another coordinator's partition.
        return await self._ddl(
            *_day_statements(parent, name, day, apart),
            unless=(pg.CheckViolation, pg.DuplicateTable, pg.UniqueViolation, pg.InvalidObjectDefinition),
        )

    async def _divide(
        self, parent: str, name: str, day: date, parts: Sequence[str] | None, apart: Sequence[TenantId]
    ) -> list[str]:
        """Gives tenants parts of a day to come that is there already; the names of what was made."""
        wanted = [tenant for tenant in apart if f"{name}_t{tenant}" not in (parts or ())]
        if not wanted:
            return []
        if parts is not None:
            statements = [_part_statement(name, tenant) for tenant in wanted]
        else:
            # The parent first, in the order of those who write.
            statements = [
                f"LOCK TABLE ONLY {parent} IN ACCESS EXCLUSIVE MODE",
                f"DO $$ BEGIN IF EXISTS (SELECT FROM {name}) THEN RAISE unique_violation; END IF; END $$",
                f"DROP TABLE {name}",
                *_day_statements(parent, name, day, wanted),
            ]
        # Whatever fell into it already stays where it is, and the day is not divided.
        unless = (pg.CheckViolation, pg.DuplicateTable, pg.UniqueViolation, pg.UndefinedTable)
        done = await self._ddl(*statements, unless=unless)
        return [f"{name}_t{tenant}" for tenant in wanted] if done else []

    async def _drop_day(self, parent: str, name: str, day: date, longer: Sequence[TenantId]) -> bool:
        """Drops a day, after copying out of it what some tenants keep, and occurrences that wait still."""
        kept, column = _KEPT[parent], _COLUMN[parent]
        for tenant in longer:
            for statement in _month_statements(kept, column, tenant, day):
                await self._ddl(statement, unless=(pg.DuplicateTable, pg.UniqueViolation, pg.InvalidObjectDefinition))
        columns = ", ".join(metadata.tables[parent].columns.keys())
        tenants = ", ".join(map(str, longer))
        settled = " AND fate <> 2" if parent == "occurrences" else ""
        copy = f"INSERT INTO {kept} ({columns}) SELECT {columns} FROM {name} WHERE tenant_id IN ({tenants}){settled}"

        async def work(run: Run) -> None:
            await run(_LOCK_TIMEOUT, {})
            if longer:
                await run(copy, {})
            if parent == "occurrences":
                await run(f"LOCK TABLE ONLY {parent} IN ACCESS EXCLUSIVE MODE", {})
                if longer:
                    # What got its fate while the others were copied.
                    await run(f"{copy} AND recorded_at > now() - interval '1 minute' ON CONFLICT DO NOTHING", {})
                await run(f"CREATE TEMP TABLE waiting ON COMMIT DROP AS SELECT * FROM {name} WHERE fate = 2", {})
            await run(f"DROP TABLE {name}", {})
            if parent == "occurrences":
                # They have no day any more, and so go to the default partition until they have a fate.
                await run(f"INSERT INTO {parent} ({columns}) SELECT {columns} FROM waiting", {})

        try:
            await self.db.upkeep.transact(work)
        except (pg.UndefinedTable, pg.UniqueViolation):
            # Another janitor did it meanwhile.
            return False
        return True

    async def _drop_kept(self, kept: str, first: Mapping[TenantId, date], oldest: date) -> list[str]:
        """Drops the months that are over for their tenants, and tables without a month."""
        dropped = []
        for name, months in await self.db.writes.run(_PARTITIONS, {"parent": kept}, write=False):
            left = list(months or ())
            for month in months or ():
                found = _MONTH.search(month)
                if found is None:
                    continue
                end = _next_month(date(int(found[2]), int(found[3]), 1))
                if end <= first.get(TenantId(int(found[1])), oldest):
                    left.remove(month)
                    if await self._ddl(f'DROP TABLE "{month}"', unless=(pg.UndefinedTable,)):
                        dropped.append(month)
            if not left and months is not None and await self._ddl(f'DROP TABLE "{name}"', unless=(pg.UndefinedTable,)):
                dropped.append(name)
        return dropped

    async def _ddl(self, *statements: str, unless: tuple[type[pg.Error], ...]) -> bool:
        """Whether it was done: not where an error says that there is nothing to do any more."""

        async def work(run: Run) -> None:
            await run(_LOCK_TIMEOUT, {})
            for statement in statements:
                await run(statement, {})

        try:
            await self.db.writes.transact(work)
        except unless:
            return False
        return True


def _bounds(start: date, end: date) -> tuple[str, str]:
    return f"{start} 00:00+00", f"{end} 00:00+00"


def _next_month(day: date) -> date:
    return (day.replace(day=1) + timedelta(days=32)).replace(day=1)


def _day_statements(parent: str, name: str, day: date, apart: Sequence[TenantId]) -> list[str]:
    start, end = _bounds(day, day + timedelta(days=1))
    made = f"CREATE TABLE {name} PARTITION OF {parent} FOR VALUES FROM ('{start}') TO ('{end}')"
    if not apart or parent not in DIVIDED:
        return [made]
    return [
        f"{made} PARTITION BY LIST (tenant_id)",
        f"CREATE TABLE {name}_rest PARTITION OF {name} DEFAULT",
        *(_part_statement(name, tenant) for tenant in apart),
    ]


def _part_statement(name: str, tenant: TenantId) -> str:
    return f"CREATE TABLE {name}_t{tenant} PARTITION OF {name} FOR VALUES IN ({tenant})"


def _month_statements(kept: str, column: str, tenant: TenantId, day: date) -> list[str]:
    own = f"{kept}_t{tenant}"
    start, end = _bounds(day.replace(day=1), _next_month(day))
    return [
        f"CREATE TABLE IF NOT EXISTS {own} PARTITION OF {kept} FOR VALUES IN ({tenant}) PARTITION BY RANGE ({column})",
        f"CREATE TABLE IF NOT EXISTS {own}_{day:%Y%m} PARTITION OF {own} FOR VALUES FROM ('{start}') TO ('{end}')",
    ]
