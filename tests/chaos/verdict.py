"""What the rows say when all is over, and what a look at them meanwhile must never say."""

import itertools
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from rota import bootstrap
from rota.domain.model import JobState, Outcome

from .faults import Happened
from .load import LIMIT, LIMITED, SKIPPING, Answered, Kind, Late
from .plane import Plane

LOOK_EVERY_S = 0.2
SHOWN = 5

_LIMITED = "SELECT count(*) FROM jobs WHERE queue = %s AND state IN (3, 5)"
_SKIPPING = """
SELECT schedule_id, count(*) FROM jobs WHERE schedule_id LIKE %s GROUP BY schedule_id HAVING count(*) > 1
"""

_JOBS = """
SELECT id::text, state, 'jobs', NULL::bytea, fence, schedule_id, attempt FROM jobs UNION ALL
SELECT id::text, state, 'finished_jobs', result, fence, schedule_id, attempt FROM finished_jobs UNION ALL
SELECT id::text, 9, 'dead_jobs', NULL, fence, schedule_id, attempt FROM dead_jobs
"""

_FENCES = """
SELECT job_id::text, fence, count(*) FROM (
    SELECT job_id, fence FROM attempts UNION ALL SELECT id, fence FROM finished_jobs WHERE state = 6
) f GROUP BY 1, 2 HAVING count(*) > 1
"""

# A job of a schedule is leased after it was made, and made after the one before has ended: by one clock.
_OVERLAPS = """
SELECT j.schedule_id, count(*) FROM (
    SELECT f.schedule_id, least(f.leased_at, (SELECT min(a.leased_at) FROM attempts a
                                              WHERE a.tenant_id = f.tenant_id AND a.job_id = f.id)) AS began,
           max(f.finished_at) OVER (PARTITION BY f.schedule_id ORDER BY f.nominal_at
                                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS ended_before
    FROM finished_jobs f WHERE f.schedule_id LIKE %s AND f.leased_at IS NOT NULL
) j WHERE j.began < j.ended_before GROUP BY 1
"""

_DOUBLED = """
SELECT schedule_uid::text, nominal_at, occurrence_generation, count(*) FROM (
    SELECT schedule_uid, nominal_at, occurrence_generation FROM jobs UNION ALL
    SELECT schedule_uid, nominal_at, occurrence_generation FROM finished_jobs UNION ALL
    SELECT schedule_uid, nominal_at, occurrence_generation FROM dead_jobs) j
WHERE schedule_uid IS NOT NULL GROUP BY 1, 2, 3 HAVING count(*) > 1
"""

_REFUSED = re.compile(rb"outcome \w+ refused")
_STALE_EFFECT = re.compile(rb"effect refused")


class Watch:
    """Looks at the rows while all goes on: what must hold in every snapshot."""

    def __init__(self, plane: Plane) -> None:
        self.wrong: list[str] = []
        self.looks = 0
        self._url = plane.url
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            with suppress(psycopg.Error), psycopg.connect(self._url, connect_timeout=2, autocommit=True) as conn:
                while not self._stop.wait(LOOK_EVERY_S):
                    self._look(conn)

    def _look(self, conn: psycopg.Connection[tuple[object, ...]]) -> None:
        (row,) = conn.execute(_LIMITED, [LIMITED]).fetchall()
        if int(str(row[0])) > LIMIT:
            self.wrong.append(f"{row[0]} jobs of the queue {LIMITED} were leased at once, its limit is {LIMIT}")
        for schedule, count in conn.execute(_SKIPPING, [SKIPPING + "%"]).fetchall():
            self.wrong.append(f"{count} jobs of schedules/{schedule}, which skips, lived at once")
        self.looks += 1


@dataclass(frozen=True, slots=True)
class Row:
    state: int
    table: str
    result: bytes | None
    fence: int
    schedule: str | None


@dataclass(slots=True)
class Findings:
    """`lost` and `doubled` effects and jobs, what else is wrong, and what there is to tell."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def clean(self) -> bool:
        return not (self.lost or self.doubled or self.wrong)


def live(url: str) -> int:
    with psycopg.connect(url, connect_timeout=5) as conn:
        row = conn.execute("SELECT count(*) FROM jobs").fetchone()
        assert row is not None
        return int(row[0])


def wait_until_terminal(url: str, within_s: float) -> int:
    """How many jobs still live at the end of this time."""
    until = time.monotonic() + within_s
    while True:
        with suppress(psycopg.Error):
            left = live(url)
            if not left or time.monotonic() > until:
                return left
        time.sleep(0.3)


def fates(url: str) -> list[str]:
    """What `rota doctor` finds wrong with the fates of schedules, while they are active still."""
    return [
        f"{finding.name}: {finding.text}"
        for finding in bootstrap.diagnose(url)
        if finding.name in ("fates", "schedules") and finding.level == "error"
    ]


def judge(plane: Plane, answered: Answered, late: Late, happened: Sequence[Happened]) -> Findings:
    found = Findings()
    with psycopg.connect(plane.url) as conn:
        rows: dict[str, list[Row]] = defaultdict(list)
        attempts = 0
        for id, state, table, result, fence, schedule, attempt in conn.execute(_JOBS).fetchall():
            rows[id].append(Row(state, table, result, fence, schedule))
            attempts += attempt
        outcomes: Counter[int] = Counter(
            dict(conn.execute("SELECT outcome, count(*) FROM attempts GROUP BY 1").fetchall())
        )
        granted_twice = conn.execute(_FENCES).fetchall()
        overlaps = conn.execute(_OVERLAPS, [SKIPPING + "%"]).fetchall()
        fired_twice = conn.execute(_DOUBLED).fetchall()
        fired = conn.execute("SELECT count(*), count(DISTINCT schedule_uid) FROM occurrences").fetchone()
        lost_attempts = conn.execute(
            "SELECT job_id::text, fence FROM attempts WHERE outcome = %s", [int(Outcome.LEASE_LOST)]
        ).fetchall()
    with psycopg.connect(plane.target.url) as conn:
        applied: Counter[str] = Counter(dict(conn.execute("SELECT job, count(*) FROM applied GROUP BY 1").fetchall()))
    _judge_jobs(found, rows, applied, answered)
    found.doubled += [f"{job}: fence {fence} was granted {count} times" for job, fence, count in granted_twice]
    found.doubled += [f"schedule {each[0]} fired {each[3]} times for {each[1]}" for each in fired_twice]
    found.wrong += [f"schedules/{id}: {count} jobs began before the one before had ended" for id, count in overlaps]
    found.wrong += [f"a call was refused: {words} ({count} times)" for words, count in answered.errors.items()]
    found.doubled += late.accepted
    found.wrong += [f"{life.name} ended by itself with {life.code}" for life in plane.unwanted()]
    starts = _starts(plane.folder)
    recovered = _recoveries_s({(job, fence) for job, fence in lost_attempts}, starts, happened)
    assert fired is not None
    found.figures = {
        "jobs": len(rows),
        "succeeded": sum(each[0].state == JobState.SUCCEEDED for each in rows.values()),
        "dead": sum(each[0].table == "dead_jobs" for each in rows.values()),
        "cancelled": sum(each[0].state == JobState.CANCELLED for each in rows.values()),
        "effects": sum(applied.values()),
        "calls": answered.calls,
        "calls_repeated": answered.repeated,
        "attempts": attempts,
        "attempts_recovered": outcomes[Outcome.LEASE_LOST],
        "attempts_undelivered": outcomes[Outcome.UNDELIVERED],
        "stale_refusals": _count(plane.folder, _REFUSED) + late.refused,
        "stale_effects": _count(plane.folder, _STALE_EFFECT),
        "schedules": fired[1],
        "occurrences": fired[0],
        "recoveries_after_kill": len(recovered),
        "recovery_p50_s": _percentile(recovered, 0.5),
        "recovery_p99_s": _percentile(recovered, 0.99),
    }
    return found


def _judge_jobs(
    found: Findings, rows: Mapping[str, Sequence[Row]], applied: Mapping[str, int], answered: Answered
) -> None:
    created = answered.jobs
    found.lost += [f"{id}: was answered to a client and is in no table" for id in created.keys() - rows.keys()]
    unasked = [id for id, each in rows.items() if each[0].schedule is None and id not in created]
    found.doubled += [f"{id}: nobody was told of this job" for id in unasked]
    for id, each in rows.items():
        if len(each) > 1:
            found.doubled.append(f"{id}: is in {' and '.join(row.table for row in each)}")
        row, kind, effects = each[0], created.get(id, Kind.PLAIN), applied.get(id, 0)
        if row.table == "jobs":
            found.lost.append(f"{id}: is not terminal, but in state {row.state}")
            continue
        if effects > 1:
            found.doubled.append(f"{id}: its effect was applied {effects} times")
        if row.state == JobState.SUCCEEDED:
            if not effects:
                found.lost.append(f"{id}: succeeded without its effect")
            if row.result != str(row.fence).encode():
                found.wrong.append(f"{id}: its result {row.result!r} was not made under its fence {row.fence}")
            if kind is Kind.DOOMED:
                found.wrong.append(f"{id}: succeeded, and should not have")
        elif kind is Kind.DOOMED and effects:
            found.wrong.append(f"{id}: had an effect, and should not have")
        elif kind is Kind.PLAIN:
            found.lost.append(f"{id}: expected to succeed, is {row.table} in state {row.state}")
    found.doubled += [f"{id}: has an effect and is no job" for id in applied.keys() - rows.keys()]


@dataclass(frozen=True, slots=True)
class Start:
    at: float
    job: str
    fence: int
    life: str


def _starts(folder: Path) -> dict[str, list[Start]]:
    """By job, in their order."""
    found: dict[str, list[Start]] = defaultdict(list)
    for file in folder.glob("starts-*"):
        life = file.name.removeprefix("starts-")
        for line in file.read_text().splitlines():
            job, _, fence, at = line.split()
            found[job].append(Start(float(at), job, int(fence), life))
    for starts in found.values():
        starts.sort(key=lambda start: start.at)
    return found


def _recoveries_s(
    lost: set[tuple[str, int]], starts: Mapping[str, Sequence[Start]], happened: Iterable[Happened]
) -> list[float]:
    """From the kill of a worker to the next start of each job that it was running, the least first."""
    killed = {each.whom: each.began for each in happened if (each.what, each.kind) == ("killed", "worker")}
    found = []
    for job in starts.values():
        for start, following in itertools.pairwise(job):
            at = killed.get(start.life)
            if at is not None and (start.job, start.fence) in lost and start.at <= at < following.at:
                found.append(following.at - at)
    return sorted(found)


def _percentile(ordered: Sequence[float], share: float) -> float:
    return round(ordered[min(int(len(ordered) * share), len(ordered) - 1)], 2) if ordered else 0.0


def _count(folder: Path, words: re.Pattern[bytes]) -> int:
    return sum(len(words.findall(log.read_bytes())) for log in folder.glob("w*.log"))


def shown(words: Sequence[str]) -> list[str]:
    more = len(words) - SHOWN
    return [*words[:SHOWN], *([f"and {more} more"] if more > 0 else [])]
