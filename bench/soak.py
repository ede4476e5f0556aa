"""The workload `soak`: jobs by the hundred thousand through a table that stays small, and what becomes of its size."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from rota_sdk import Client, NewJob

from bench import creating, finished
from bench.cpu import Reading
from bench.errors import BenchError
from bench.figures import ratio
from bench.stand import Stand
from bench.work import JOB, SAY_EVERY
from bench.workload import Figures, Options

SAMPLE_S = 0.5
WATCH_S = 0.05
TENTHS = (0.1, 0.2, 0.8, 0.9)
"""The rates at the beginning and at the end are those of the second tenth and of the ninth."""

MB = 2**20

_SIZE = """
SELECT pg_table_size('jobs'), pg_indexes_size('jobs'), coalesce(s.n_dead_tup, 0), coalesce(s.autovacuum_count, 0),
       coalesce(s.n_tup_hot_upd::float8 / nullif(s.n_tup_upd, 0), 1)
FROM pg_stat_user_tables s WHERE s.relname = 'jobs'
"""


@dataclass(frozen=True, slots=True)
class Size:
    """Of the table of live jobs, in bytes; `hot`: the share of updates that touched no index."""

    heap: int
    indexes: int
    dead: int
    vacuums: int
    hot: float

    @property
    def total(self) -> int:
        return self.heap + self.indexes


def run(stand: Stand, options: Options) -> Figures:
    """So many jobs wait before the worker starts, and no more than that at any time; `n` are run in all.

    The table with those that wait, before anything was leased, is what it has to be; what it is at its largest, to
    that, is its bloat, and how much larger it becomes in the second half than in the first one its growth.
    """
    n, backlog = options.n, max(min(options.backlog, options.n // 4), 1)
    url = stand.create_database("soak")
    key = stand.key(url)
    coordinator, address = stand.coordinator(url, profile=options.profiles.get("coordinator"))
    creating.in_batches(address, key, (NewJob(JOB, payload={}) for _ in range(backlog)))
    stand.ask("CHECKPOINT")
    live = _size(url)
    coordinator.begin_profile()
    before = Reading.take(store=stand.store_pid, coordinators=[coordinator.pid])
    began = time.monotonic()
    worker = stand.worker(address, key, slots=options.slots, profile=options.profiles.get("worker"))
    marks: dict[float, float] = {}
    with _sampled(url) as sizes, _created(address, key, n - backlog) as creator:
        while (started := worker.latest("started")) < n - SAY_EVERY:
            creator.allow(started)
            marks |= {tenth: time.monotonic() for tenth in TENTHS if started >= tenth * n and tenth not in marks}
            options.deadline.check(f"{n} started jobs", started)
            worker.check()
            time.sleep(WATCH_S)
        finished.wait(url, n, [worker], options.deadline)
        ended = time.monotonic()
        after = Reading.take(store=stand.store_pid, coordinators=[coordinator.pid], workers=[worker.pid])
    worker.stop()
    coordinator.stop()
    end = _size(url)
    found = finished.check(stand, url, n)
    stand.ask("VACUUM jobs", url)
    vacuumed = _size(url)
    peak = max([*sizes, live, end], key=lambda size: size.total)
    half = len(sizes) // 2
    early, late = (max((size.total for size in part), default=0) for part in (sizes[:half], sizes[half:]))
    first, last = (n / 10 / (marks[b] - marks[a]) if b in marks else 0.0 for a, b in (TENTHS[:2], TENTHS[2:]))
    cpu_us = after.cpu_us(before, n)
    return {
        "jobs_per_s": n / (ended - began),
        "first_jobs_per_s": first,
        "last_jobs_per_s": last,
        "rate_ratio": ratio(last, first),
        "growth_ratio": ratio(late, early),
        "bloat_ratio": ratio(peak.total, live.total),
        "live_mb": live.total / MB,
        "peak_mb": peak.total / MB,
        "peak_heap_mb": max(size.heap for size in [*sizes, live]) / MB,
        "peak_indexes_mb": max(size.indexes for size in [*sizes, live]) / MB,
        "end_mb": end.total / MB,
        "vacuumed_mb": vacuumed.total / MB,
        "dead_tuples_max": max(size.dead for size in [*sizes, end]),
        "autovacuums": end.vacuums,
        "hot_share": end.hot,
        "backlog": backlog,
        "seconds": ended - began,
        "finished": found.count,
        "attempts_max": found.attempts_max,
        **cpu_us,
        "foreign_cpu_pct": after.foreign_pct(before),
    }


class _Creator:
    """Creates jobs in batches, as far as it is allowed to."""

    def __init__(self, address: str, key: str, count: int) -> None:
        self._address, self._key, self._left = address, key, count
        self._allowed = threading.Condition()
        self._until = 0
        self._ended = False
        self.failure: BaseException | None = None

    def allow(self, until: int) -> None:
        """So many may have been created by now."""
        if self.failure is not None:
            raise BenchError(f"the creation ended: {self.failure}")
        with self._allowed:
            self._until = until
            self._allowed.notify()

    def end(self) -> None:
        with self._allowed:
            self._ended = True
            self._allowed.notify()

    def run(self) -> None:
        made = 0
        try:
            with Client(self._address, api_key=self._key) as client:
                while self._left > 0:
                    count = self._wait(made)
                    if not count:
                        return
                    client.create_jobs([NewJob(JOB, payload={}) for _ in range(count)], names_only=True)
                    made += count
                    self._left -= count
        except Exception as error:
            self.failure = error

    def _wait(self, made: int) -> int:
        """How many are to be created next; 0: it is over."""
        with self._allowed:
            self._allowed.wait_for(lambda: self._ended or self._until > made)
            return 0 if self._ended else min(self._until - made, self._left, creating.BATCH)


@contextmanager
def _created(address: str, key: str, count: int) -> Iterator[_Creator]:
    creator = _Creator(address, key, count)
    thread = threading.Thread(target=creator.run, name="creator")
    thread.start()
    try:
        yield creator
    finally:
        creator.end()
        thread.join()


@contextmanager
def _sampled(url: str) -> Iterator[Sequence[Size]]:
    """Sizes while the block runs."""
    sizes: list[Size] = []
    over = threading.Event()

    def sample() -> None:
        with psycopg.connect(url, autocommit=True) as conn:
            while not over.wait(SAMPLE_S):
                sizes.append(_read(conn))

    thread = threading.Thread(target=sample, name="sizes")
    thread.start()
    try:
        yield sizes
    finally:
        over.set()
        thread.join()


def _size(url: str) -> Size:
    with psycopg.connect(url, autocommit=True) as conn:
        return _read(conn)


def _read(conn: "psycopg.Connection[tuple[int, ...]]") -> Size:
    row = conn.execute(_SIZE).fetchone()
    assert row is not None
    return Size(*row)
