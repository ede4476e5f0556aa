"""What the store says of the jobs that have been run."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from bench.errors import BenchError
from bench.stand import Child, Stand
from bench.work import SAY_EVERY
from bench.workload import Deadline

LOOK_EVERY_S = 0.01

SOON = "interval '1 day'"
"""What is due within it belongs to the run; resident timers are due later."""

_FINISHED = """
SELECT count(*), count(DISTINCT (tenant_id, id)), count(*) FILTER (WHERE state = 6), coalesce(max(attempt), 0),
       extract(epoch FROM min(leased_at))::float8, count(DISTINCT leased_at), count(DISTINCT finished_at)
FROM finished_jobs
"""

_LEFT = f"""
SELECT (SELECT count(*) FROM jobs WHERE due_at < now() + {SOON}), (SELECT count(*) FROM dead_jobs)
"""


_DISPATCH = """
SELECT extract(epoch FROM j.leased_at - j.due_at)::float8
FROM finished_jobs j JOIN tenants t ON t.id = j.tenant_id
WHERE t.name = '{tenant}' AND extract(epoch FROM j.created_at) BETWEEN {since} AND {until}
"""


@dataclass(frozen=True, slots=True)
class Finished:
    """`first_at` is the first lease granted, in seconds since 1970; `claims` and `commits` are distinct instants."""

    count: int
    attempts_max: int
    first_at: float
    claims: int
    commits: int


def wait(url: str, n: int, workers: Sequence[Child], deadline: Deadline) -> float:
    """Until the store counts `n` finished jobs; the moment, in seconds since 1970.

    The store is not asked before the workers have started nearly all, since that costs it.
    """
    # What each has started since its last word is unknown.
    nearly = n - SAY_EVERY * len(workers)
    while (started := sum(worker.latest("started") for worker in workers)) < nearly:
        deadline.check(f"{n} started jobs", started)
        _check(workers)
        time.sleep(LOOK_EVERY_S)
    with psycopg.connect(url, autocommit=True) as conn:
        while True:
            row = conn.execute("SELECT count(*) FROM finished_jobs", prepare=True).fetchone()
            assert row is not None
            if row[0] >= n:
                return time.time()
            deadline.check(f"{n} finished jobs", row[0])
            _check(workers)
            time.sleep(LOOK_EVERY_S)


def check(stand: Stand, url: str, n: int) -> Finished:
    """BenchError unless exactly `n` jobs have succeeded, each once, and none is left."""
    count, distinct, succeeded, attempts_max, first_at, claims, commits = stand.ask(_FINISHED, url)[0]
    left, dead = stand.ask(_LEFT, url)[0]
    if not count == distinct == succeeded == n or left or dead:
        raise BenchError(
            f"expected {n} jobs to succeed, each once; found {count} finished, {distinct} of them different, "
            f"{succeeded} succeeded, {dead} dead, {left} not finished"
        )
    return Finished(count, attempts_max, first_at, claims, commits)


def dispatch_s(stand: Stand, url: str, tenant: str, since: float, until: float) -> list[float]:
    """From due to leased, of each of a tenant's jobs that were created in this time, in seconds since 1970."""
    return [lag for (lag,) in stand.ask(_DISPATCH.format(tenant=tenant, since=since, until=until), url)]


def forget(stand: Stand, url: str) -> None:
    """Before the next round on the same database."""
    stand.ask("TRUNCATE finished_jobs", url)


def _check(workers: Sequence[Child]) -> None:
    for worker in workers:
        worker.check()
