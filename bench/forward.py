"""The workload `forward`: a worker at one of two coordinators that share the shards gets the jobs of both."""

import uvloop

from bench import creating, finished, sharing, starts
from bench.cpu import Reading
from bench.creating import Calls
from bench.errors import BenchError
from bench.figures import percentiles_ms
from bench.latency import WARM_UP, check_fits
from bench.stand import TENANT, Stand
from bench.workload import Figures, Options
from rota.domain import ids
from rota.domain.ids import JobId, ShardNo, TenantId


def run(stand: Stand, options: Options) -> Figures:
    """From the moment before a CreateJob call to the start of the handler, by the owner of the job's shard.

    Worker and creator know one coordinator only: its jobs are local, those of the other one remote.
    """
    rate, deadline = options.rate, options.deadline
    total = options.n + WARM_UP
    check_fits(total, rate, options)
    url = stand.create_database("forward")
    key = stand.key(url)
    near, address = stand.coordinator(url, profile=options.profiles.get("coordinator"))
    near_id = sharing.only_coordinator(stand, url)
    far, _ = stand.coordinator(url)
    if not sharing.settle(stand, url, 2):
        raise BenchError("expected two coordinators to share the shards, found that they do not")
    events = stand.folder / "events"
    worker = stand.worker(address, key, slots=options.slots, events=events, profile=options.profiles.get("worker"))
    worker.told("ready_cpu_s", deadline.left_s())
    near.begin_profile()
    owners = sharing.owners(stand, url)

    def reading() -> Reading:
        return Reading.take(store=stand.store_pid, coordinators=[near.pid, far.pid], workers=[worker.pid])

    before = reading()
    calls = uvloop.run(creating.steadily(address, key, total, rate))
    after = reading()
    finished.wait(url, total, [worker], deadline)
    moved = sum(owner != owners.get(shard) for shard, owner in sharing.owners(stand, url).items())
    for child in (worker, near, far):
        child.stop()
    found = finished.check(stand, url, total)
    started = starts.read(events, total)
    shards = _shards(stand, url, calls)
    local_s: list[float] = []
    remote_s: list[float] = []
    for number in range(WARM_UP, total):
        spans = local_s if owners[shards[number]] == near_id else remote_s
        spans.append(started[number] - calls.called[number])
    local, remote = percentiles_ms("local_", local_s), percentiles_ms("remote_", remote_s)
    return {
        "rate": rate,
        "p99_more_ms": remote["remote_p99_ms"] - local["local_p99_ms"],
        **local,
        **remote,
        "local_jobs": len(local_s),
        "remote_jobs": len(remote_s),
        "shards_moved": moved,
        "finished": found.count,
        "attempts_max": found.attempts_max,
        **after.cpu_us(before, total),
        "foreign_cpu_pct": after.foreign_pct(before),
    }


def _shards(stand: Stand, url: str, calls: Calls) -> dict[int, ShardNo]:
    """Of each job that was created, by its number."""
    tenant = TenantId(stand.ask(f"SELECT id FROM tenants WHERE name = '{TENANT}'", url)[0][0])
    return {number: ids.shard_of(tenant, JobId(name.removeprefix("jobs/"))) for number, name in calls.names.items()}
