"""Clients that create jobs and schedules all the time, each call with one request_id until it is answered."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TypeVar

import grpc
import psycopg
from google.protobuf.duration_pb2 import Duration
from rota_sdk import Client, DeadlineExceeded, FailedPrecondition, NewJob, RetryPolicy, RotaError, codec
from rota_sdk.errors import from_rpc, transient
from rota_sdk.gen.rota.admin.v1 import admin_pb2
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb
from rota_sdk.gen.rota.worker.v1 import worker_pb2
from rota_sdk.model import CancelMode

from .plane import Plane
from .worker import JOB, Work

T = TypeVar("T")

CREATORS = 3
CALL_S = 3.0
AGAIN_S = (0.05, 0.5)
BATCH = 20

LIMITED = "limited"
LIMIT = 3

SCHEDULES = 12
SKIPPING = "skip-"
"""How the names of schedules begin of which never two jobs live at once."""

PATIENT = RetryPolicy(max_attempts=1_000, initial_backoff=0.2, max_backoff=1.0)
"""Faults must not use up what a job may try."""

HOPELESS = RetryPolicy(max_attempts=2, initial_backoff=0.2, max_backoff=1.0)


LATE_EVERY_S = 1.0
_LOST = """
SELECT job_id::text, fence, session_id::text, ended_at FROM attempts
WHERE outcome IN (5, 6, 7) AND ended_at > %s ORDER BY ended_at LIMIT 200
"""


class Kind(StrEnum):
    """What is expected of a job."""

    PLAIN = "plain"
    DOOMED = "doomed"
    CANCELLED = "cancelled"


@dataclass(slots=True)
class Answered:
    """What the clients were told. `calls` counts creations by single calls and batches that were answered."""

    jobs: dict[str, Kind] = field(default_factory=dict)
    calls: int = 0
    repeated: int = 0
    schedules: set[str] = field(default_factory=set)
    errors: Counter[str] = field(default_factory=Counter)
    """By which a call was answered that is not worth repeating: there should be none."""


class Caller:
    """A client of its own, on whichever coordinator answers."""

    def __init__(self, plane: Plane, number: int, answered: Answered, give_up: threading.Event) -> None:
        self._plane = plane
        self._turn = number
        self._answered = answered
        self._give_up = give_up
        self._client = self._connect()

    def close(self) -> None:
        self._client.close()

    def call(self, ask: Callable[[Client], T], fine: tuple[type[RotaError], ...] = ()) -> T | None:
        """Asks until there is an answer; None when it was refused for good, or when nobody waits any more."""
        while not self._give_up.is_set():
            try:
                return ask(self._client)
            except (RotaError, grpc.RpcError) as failure:
                error = failure if isinstance(failure, RotaError) else from_rpc(failure)
                if isinstance(error, fine):
                    return None
                self._answered.repeated += 1
                if not transient(error):
                    self._answered.errors[f"{error.code}: {error.message[:200]}"] += 1
                    return None
                if isinstance(error, DeadlineExceeded):
                    # It may be cut off from this one, which it would not notice for long.
                    self._client.close()
                    self._turn += 1
                    self._client = self._connect()
                self._give_up.wait(max(error.retry_after or 0.0, random.uniform(*AGAIN_S)))
        return None

    def _connect(self) -> Client:
        return Client(self._plane.client_target(self._turn), api_key=self._plane.key, timeout=CALL_S)


class Load:
    """Runs for the length of a block; `finish` ends it when all calls are answered."""

    def __init__(self, plane: Plane, seed: str, rate: float) -> None:
        self.answered = Answered()
        self._plane = plane
        self._seed = seed
        self._pause_s = CREATORS / rate
        self._stop = threading.Event()
        self._give_up = threading.Event()
        self._guard = threading.Lock()
        self._threads = [
            threading.Thread(target=self._create, args=(number,), name=f"creator {number}", daemon=True)
            for number in range(CREATORS)
        ]
        self._failed: list[BaseException] = []

    def __enter__(self) -> "Load":
        self._settle()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._give_up.set()
        for thread in self._threads:
            thread.join()

    def finish(self, within_s: float) -> bool:
        """No new calls; whether all made so far are answered."""
        self._stop.set()
        until = time.monotonic() + within_s
        for thread in self._threads:
            thread.join(max(until - time.monotonic(), 0.0))
        if self._failed:
            raise self._failed[0]
        return not any(thread.is_alive() for thread in self._threads)

    def pause_schedules(self) -> None:
        """Each of them: nothing new fires."""
        caller = Caller(self._plane, 0, self.answered, self._give_up)
        for id in sorted(self.answered.schedules):
            self._pause(caller, pb.PauseScheduleRequest(name=f"schedules/{id}", reason="the end"))
        caller.close()

    def _pause(self, caller: Caller, request: pb.PauseScheduleRequest) -> None:
        caller.call(lambda client: client.stubs.schedules.PauseSchedule(request, timeout=CALL_S))

    def _settle(self) -> None:
        """The limited queue, and the schedules."""
        rng = random.Random(f"{self._seed}/schedules")
        caller = Caller(self._plane, 0, self.answered, self._give_up)
        limited = admin_pb2.Queue(name=f"queues/{LIMITED}", max_in_flight=LIMIT)
        update = admin_pb2.UpdateQueueRequest(queue=limited)
        caller.call(lambda client: client.stubs.admin.UpdateQueue(update, timeout=CALL_S))
        for number in range(SCHEDULES):
            skips = number % 2 == 0
            id = f"{SKIPPING if skips else 'allow-'}{number}"
            schedule = pb.Schedule(interval=pb.IntervalRule(every=Duration(seconds=rng.randint(1, 5))))
            mode = pb.OVERLAP_MODE_SKIP if skips else pb.OVERLAP_MODE_ALLOW
            schedule.overlap_policy.CopyFrom(pb.OverlapPolicy(mode=mode))
            work = Work(before_s=rng.uniform(0.0, 1.5), after_s=rng.uniform(0.0, 1.5) if skips else 0.0)
            made = NewJob(JOB, work.payload, retry=PATIENT)
            _template(schedule, made)
            self._schedule(caller, pb.CreateScheduleRequest(schedule=schedule, schedule_id=id, request_id=id))
        caller.close()

    def _schedule(self, caller: Caller, request: pb.CreateScheduleRequest) -> None:
        if caller.call(lambda client: client.stubs.schedules.CreateSchedule(request, timeout=CALL_S)) is not None:
            self.answered.schedules.add(request.schedule_id)

    def _create(self, number: int) -> None:
        rng = random.Random(f"{self._seed}/creator/{number}")
        caller = Caller(self._plane, number, self.answered, self._give_up)
        made = 0
        try:
            while not self._stop.wait(rng.expovariate(1 / self._pause_s)):
                made += 1
                self._create_one(caller, rng, f"{self._seed}/{number}/{made}")
        except BaseException as error:
            self._failed.append(error)
        finally:
            caller.close()

    def _create_one(self, caller: Caller, rng: random.Random, request_id: str) -> None:
        draw = rng.random()
        kind, count, delay, queue, retry, work = Kind.PLAIN, 1, None, "", PATIENT, Work(rng.uniform(0.0, 0.05))
        if draw < 0.15:
            delay = rng.uniform(0.5, 8.0)
        elif draw < 0.30:
            work = Work(rng.uniform(0.0, 0.2), failing=rng.randint(1, 2))
        elif draw < 0.35:
            kind, retry, work = Kind.DOOMED, HOPELESS, Work(doomed=True)
        elif draw < 0.45:
            work = Work(rng.uniform(0.5, 3.0), rng.uniform(0.5, 3.0))
        elif draw < 0.55:
            kind, work = Kind.CANCELLED, Work(rng.uniform(0.0, 2.0), rng.uniform(0.0, 1.0), heeds=rng.random() < 0.5)
            delay = rng.uniform(0.5, 4.0) if rng.random() < 0.3 else None
        elif draw < 0.65:
            queue, work = LIMITED, Work(rng.uniform(0.0, 0.3))
        elif draw < 0.68:
            count = BATCH
        job = NewJob(JOB, work.payload, queue=queue, priority=rng.randint(0, 9), delay=delay, retry=retry)
        created = caller.call(lambda client: client.create_jobs([job] * count, request_id=request_id))
        if created is None:
            return
        with self._guard:
            self.answered.calls += 1
            self.answered.jobs |= {each.id: kind for each in created}
        if kind is Kind.CANCELLED:
            if rng.random() < 0.8:
                self._stop.wait(rng.uniform(0.0, 1.0))
            mode = CancelMode(rng.randint(1, 3))
            caller.call(lambda client: client.cancel_job(created[0].name, mode, "chaos"), fine=(FailedPrecondition,))


class Late:
    """Reports, again and again, that attempts have succeeded whose leases were lost: none may be believed."""

    def __init__(self, plane: Plane) -> None:
        self.refused = 0
        self.accepted: list[str] = []
        self._plane = plane
        self._after: object = datetime.fromtimestamp(0, UTC)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="late outcomes", daemon=True)

    def __enter__(self) -> "Late":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(LATE_EVERY_S):
            with suppress(psycopg.Error, RotaError, grpc.RpcError):
                with psycopg.connect(self._plane.url, connect_timeout=2) as conn:
                    rows = conn.execute(_LOST, [self._after]).fetchall()
                with Client(self._plane.client_target(random.randrange(CREATORS)), api_key=self._plane.key) as client:
                    for job, fence, session, ended_at in rows:
                        self._report(client, job, fence, session)
                        self._after = ended_at

    def _report(self, client: Client, job: str, fence: int, session: str) -> None:
        result = worker_pb2.Result(
            job=f"jobs/{job}", fence=fence, request_id=f"late-{job}-{fence}", succeeded=worker_pb2.Succeeded()
        )
        request = worker_pb2.CompleteRequest(session=f"sessions/{session}", results=[result])
        (status,) = client.stubs.worker.Complete(request, timeout=CALL_S).statuses
        if status.status.code == grpc.StatusCode.ABORTED.value[0]:
            self.refused += 1
        elif not status.status.code:
            self.accepted.append(f"{job}: an outcome of the lost fence {fence} was accepted")


def _template(schedule: pb.Schedule, job: NewJob) -> None:
    request = codec.create_request(job)
    schedule.job.type = request.job.type
    schedule.job.payload.CopyFrom(request.job.payload)
    schedule.job.retry_policy.CopyFrom(request.job.retry_policy)
