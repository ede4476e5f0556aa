"""The workload `recovery`: a worker dies, or sleeps, with jobs that run; how long until all run elsewhere."""

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rota_sdk import Client, NewJob
from rota_sdk.gen.rota.worker.v1 import worker_pb2

from bench import creating
from bench.errors import BenchError
from bench.stand import Child, Stand
from bench.work import JOB
from bench.workload import Deadline, Figures, Options

DEFAULT: Mapping[str, str] = {}
SHORT = {"ROTA_SESSION_TTL": "3s", "ROTA_DELIVERY_TTL": "1s"}

HANDLER_S = 40.0
"""Of a first attempt: it is running still when its worker dies, or wakes."""

LOOK_EVERY_S = 0.02
UNWIND_S = 2.0
"""A worker that wakes does what it still would do within this time."""

PEERS_AGAIN_S = {"graphile-worker": 14_400, "pg-boss": 900, "procrastinate": None, "pgqueuer": 31.5, "dbos": 2.7}
"""Of others by default, measured on such a machine with 50 jobs; None: never by itself."""

PEERS_LATE_ACCEPTED = {"graphile-worker": 50, "procrastinate": 50, "pgqueuer": 50}
"""Of 50."""


def run(stand: Stand, options: Options) -> Figures:
    """From `kill -9` of a worker with `n` running jobs until all are started by another, with the settings that users
    get and with short ones; then a worker that is paused instead, and wakes when its jobs have ended elsewhere."""
    figures: Figures = {}
    for name, settings in (("default", DEFAULT), ("short", SHORT)):
        with _scene(stand, name, settings, options) as scene:
            began = time.time()
            os.kill(scene.first.pid, signal.SIGKILL)
            again = [at - began for at in scene.started_again(options)]
            figures |= {f"{name}_first_s": min(again), f"{name}_all_s": max(again)}
    with _scene(stand, "late", SHORT, options) as scene:
        os.kill(scene.first.pid, signal.SIGSTOP)
        scene.started_again(options)
        _wait_finished(stand, scene.url, options)
        os.kill(scene.first.pid, signal.SIGCONT)
        time.sleep(UNWIND_S)
        refused = _refused(stand, scene)
        accepted = stand.ask("SELECT count(*) FROM finished_jobs WHERE attempt = 1", scene.url)[0][0]
    return {
        **figures,
        "late_accepted": accepted,
        "late_refused": refused,
        "peers_again_s": PEERS_AGAIN_S,
        "peers_late_accepted": PEERS_LATE_ACCEPTED,
    }


@dataclass(frozen=True, slots=True)
class _Scene:
    """Two workers: `first` runs all jobs, the second one waits."""

    url: str
    address: str
    key: str
    first: Child
    second: Path
    """Its starts."""

    def started_again(self, options: Options) -> list[float]:
        """The moments, in seconds since 1970."""
        lines = _wait_lines(self.second, options.n, options.deadline)
        return [float(line.split()[1]) for line in lines]


@contextmanager
def _scene(stand: Stand, name: str, settings: Mapping[str, str], options: Options) -> Iterator[_Scene]:
    url = stand.create_database(f"recovery_{name}")
    key = stand.key(url)
    coordinator, address = stand.coordinator(url, settings=settings)
    events = [stand.folder / f"{name}-{number}" for number in range(2)]
    workers = [stand.worker(address, key, slots=options.n, events=events[0], first_s=HANDLER_S)]
    try:
        creating.in_batches(address, key, (NewJob(JOB, payload=str(number)) for number in range(options.n)))
        _wait_lines(events[0], options.n, options.deadline)
        workers.append(stand.worker(address, key, slots=options.n, events=events[1], first_s=HANDLER_S))
        while stand.ask("SELECT count(*) FROM sessions WHERE closed_at IS NULL", url)[0][0] < len(workers):
            options.deadline.check("the second worker's session", "none")
            time.sleep(LOOK_EVERY_S)
        yield _Scene(url, address, key, workers[0], events[1])
        _wait_finished(stand, url, options)
    finally:
        for worker in workers:
            worker.stop()
        coordinator.stop()


def _wait_lines(file: Path, count: int, deadline: Deadline) -> list[str]:
    while True:
        lines = file.read_text().splitlines() if file.exists() else []
        if len(lines) >= count:
            return lines
        deadline.check(f"{count} started jobs", len(lines))
        time.sleep(LOOK_EVERY_S)


def _wait_finished(stand: Stand, url: str, options: Options) -> None:
    """BenchError unless each job succeeds, once, by its second attempt."""
    while (rows := _finished(stand, url)) and sum(rows.values()) < options.n:
        options.deadline.check(f"{options.n} finished jobs", sum(rows.values()))
        time.sleep(LOOK_EVERY_S)
    if rows != {(6, 2): options.n}:
        raise BenchError(
            f"expected {options.n} jobs to succeed by their second attempt, found {rows} by state, attempt"
        )


def _finished(stand: Stand, url: str) -> dict[tuple[int, int], int]:
    rows = stand.ask("SELECT state, attempt, count(*) FROM finished_jobs GROUP BY 1, 2", url)
    return {(state, attempt): count for state, attempt, count in rows} or {(6, 2): 0}


def _refused(stand: Stand, scene: _Scene) -> int:
    """The outcomes of the lost attempts, sent as by a worker that does not notice: how many are refused."""
    rows = stand.ask("SELECT job_id::text, fence, session_id::text FROM attempts WHERE outcome = 5", scene.url)
    with Client(scene.address, api_key=scene.key) as client:
        request = worker_pb2.CompleteRequest(
            session=f"sessions/{rows[0][2]}", results=[_success(job, fence) for job, fence, _ in rows]
        )
        statuses: Sequence[worker_pb2.ResultStatus] = client.stubs.worker.Complete(request, timeout=10).statuses
    return sum(status.status.code != 0 for status in statuses)


def _success(job: str, fence: int) -> worker_pb2.Result:
    return worker_pb2.Result(job=f"jobs/{job}", fence=fence, request_id=f"late-{job}", succeeded=worker_pb2.Succeeded())
