"""The SQL floor: the store's own statements without gRPC, queues and loops around them.

The same server, a fresh database, the very statements that the coordinator runs, through the same dedicated lanes:
what is lost between this and a workload is lost in Rota's own code.
"""

import asyncio
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import uvloop

from bench import creating
from bench.cpu import Reading
from bench.errors import BenchError
from bench.work import JOB
from rota.clock import SystemClock
from rota.coordinator.poller import PAGE_ROWS
from rota.domain import ids, limits
from rota.domain.draft import QUEUE_DEFAULT
from rota.domain.fairness import FIRST, Entry, Position
from rota.domain.ids import CoordinatorId, JobId, SessionId, ShardNo, TenantId
from rota.domain.model import JobSpec, Outcome, Payload, Result
from rota.store.engine import Database
from rota.store.history import PgHistory
from rota.store.jobs import PgJobs
from rota.store.leases import PgLeases
from rota.store.outcomes import PgOutcomes
from rota.store.port import Claim, CreateCall
from rota.store.shards import PgShards

BATCH = 100
PIPELINES = 2
TENANT = TenantId(1)
TERM_S = 3_600.0
CREATE_BATCH = 500


@dataclass(frozen=True, slots=True)
class Floor:
    """`client_cpu_us` and `store_cpu_us` are per job."""

    jobs_per_s: float
    seconds: float
    client_cpu_us: float
    store_cpu_us: float
    foreign_cpu_pct: float


def drain(url: str, store_pid: int, n: int, cap_s: float, *, aged: bool = False) -> Floor:
    """Claims and completes `n` jobs in batches of 100 over two connections. TimeoutError after `cap_s`."""
    return uvloop.run(_drain(url, store_pid, n, cap_s, aged))


def create(url: str, store_pid: int, n: int, batch: int, cap_s: float) -> Floor:
    """Creates `n` jobs in batches over two connections. TimeoutError after `cap_s`."""
    return uvloop.run(_create(url, store_pid, n, batch, cap_s))


async def _drain(url: str, store_pid: int, n: int, cap_s: float, aged: bool) -> Floor:
    async with _database(url) as database, asyncio.timeout(cap_s):
        jobs = PgJobs(database)
        due = creating.due_after_creation(n, 0.0)
        for specs in _batches(n, CREATE_BATCH, creating.shuffled(n, due) if aged else None):
            await jobs.create([CreateCall(specs, TENANT, 2, uuid.uuid4().hex, b"")])
        if aged:
            creating.check_in_time(due, 0.0, n)
            await asyncio.sleep(due + creating.SHUFFLE_SPAN_S - time.time())
        owner = await _own_everything(database)
        await database.reads.run("CHECKPOINT", {})
        pipelines = _Pipelines(database, *owner)
        before = Reading.take(store=store_pid)
        await asyncio.gather(*(pipelines.run() for _ in range(PIPELINES)))
        after = Reading.take(store=store_pid)
        if pipelines.done != n:
            raise BenchError(f"expected the floor to finish {n} jobs, found {pipelines.done} finished")
        return _floor(n, before, after)


async def _create(url: str, store_pid: int, n: int, batch: int, cap_s: float) -> Floor:
    async with _database(url) as database, asyncio.timeout(cap_s):
        jobs = PgJobs(database)
        batches = _batches(n, batch)

        async def pipeline() -> None:
            for specs in batches:
                await jobs.create([CreateCall(specs, TENANT, 2, uuid.uuid4().hex, b"")])

        before = Reading.take(store=store_pid)
        await asyncio.gather(*(pipeline() for _ in range(PIPELINES)))
        return _floor(n, before, Reading.take(store=store_pid))


@asynccontextmanager
async def _database(url: str) -> AsyncIterator[Database]:
    database = Database(url)
    try:
        await PgHistory(database).make_partitions(1)
        yield database
    finally:
        await database.close()


async def _own_everything(database: Database) -> tuple[CoordinatorId, dict[ShardNo, int]]:
    """A coordinator's row, and the epochs of its shards, which are all."""
    shards = PgShards(database)
    owner = CoordinatorId(str(uuid.uuid4()))
    await shards.register(owner, "floor", "floor", TERM_S)
    return owner, {term.shard: term.epoch for term in await shards.acquire(owner, limits.SHARD_COUNT)}


def _batches(n: int, size: int, dues: Sequence[float] | None = None) -> Iterator[Sequence[JobSpec]]:
    clock = SystemClock()
    for first in range(0, n, size):
        jobs = [JobId(clock.new_id()) for _ in range(min(size, n - first))]
        yield [
            JobSpec(
                tenant_id=TENANT,
                id=job,
                shard=ids.shard_of(TENANT, job),
                type=JOB,
                queue=QUEUE_DEFAULT,
                priority=limits.PRIORITY_DEFAULT,
                payload=Payload(b"{}", "application/json"),
                run_time=None if dues is None else creating.instant(dues[first + index]),
            )
            for index, job in enumerate(jobs)
        ]


class _Pipelines:
    """Each takes due jobs, claims them and completes them, one statement after the other."""

    def __init__(self, database: Database, owner: CoordinatorId, epochs: dict[ShardNo, int]) -> None:
        self.done = 0
        self._leases = PgLeases(database)
        self._outcomes = PgOutcomes(database)
        self._owner = owner
        self._epochs = epochs
        self._counters = dict.fromkeys(epochs, 0)
        self._session = SessionId(str(uuid.uuid4()))
        self._due: deque[Entry] = deque()
        self._after: dict[ShardNo, Position] = dict.fromkeys(epochs, FIRST)
        self._reading = asyncio.Lock()

    async def run(self) -> None:
        while True:
            async with self._reading:
                while self._after and len(self._due) < BATCH:
                    await self._read()
            entries = [self._due.popleft() for _ in range(min(BATCH, len(self._due)))]
            if not entries:
                return
            # Pages are visited shard by shard, as the coordinator does.
            entries.sort(key=lambda entry: (entry.shard, entry.id))
            grants = await self._leases.claim([self._claim(entry) for entry in entries], self._owner)
            results = [
                Result(TENANT, self._session, g.job_id, g.fence, Outcome.SUCCEEDED, request_id=f"{g.job_id}-{g.fence}")
                for g in grants
            ]
            finished = await self._outcomes.succeed(results)
            self.done += len(finished)

    async def _read(self) -> None:
        page = max(PAGE_ROWS // len(self._after), 1)
        rows = await self._leases.read_due(list(self._after.items()), int(time.time() * 1e6), page)
        read: dict[ShardNo, int] = {}
        for row in rows:
            entry = row.entry
            self._due.append(entry)
            self._after[entry.shard] = entry.position
            read[entry.shard] = read.get(entry.shard, 0) + 1
        self._after = {s: position for s, position in self._after.items() if read.get(s, 0) >= page}

    def _claim(self, entry: Entry) -> Claim:
        self._counters[entry.shard] += 1
        return Claim(entry, ids.mint_fence(self._epochs[entry.shard], self._counters[entry.shard]), self._session)


def _floor(n: int, before: Reading, after: Reading) -> Floor:
    seconds = after.at - before.at
    return Floor(
        n / seconds,
        seconds,
        (after.own_s - before.own_s) / n * 1e6,
        (after.store_s - before.store_s) / n * 1e6,
        after.foreign_pct(before),
    )
