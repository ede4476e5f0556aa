"""Jobs whose effect is a payment in a database of their own, and what must hold of them whatever broke."""

import json
import threading
import uuid
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Self

import psycopg
from rota_sdk import Client, Job, NewJob, effects
from rota_sdk.errors import RotaError

from rota import bootstrap

from ..harness import CoordinatorProcess, Process

WORKER = Path(__file__).parent / "paying.py"

_ENDED = "SELECT id::text, state FROM finished_jobs"
_ELSEWHERE = """
SELECT id::text FROM jobs WHERE id = ANY (%(jobs)s::uuid[])
UNION ALL SELECT id::text FROM dead_jobs WHERE id = ANY (%(jobs)s::uuid[])
"""
_FENCES = """
SELECT job_id::text, fence FROM attempts
UNION ALL SELECT id::text, fence FROM finished_jobs WHERE outcome IS NOT NULL
"""
_PROVEN = """
SELECT bool_and(s.last_beat_at > j.leased_at + interval '1.2 s') FROM jobs j
JOIN sessions s ON s.id = j.session_id WHERE j.state = 3
"""
SUCCEEDED = 6


class Payments:
    """`target` is the URL of the database in which the effects are."""

    def __init__(self, target: str, folder: Path) -> None:
        self.target = target
        self.file = folder / "payments.txt"
        with psycopg.connect(target) as conn:
            effects.create_table(conn)
            conn.execute("CREATE TABLE IF NOT EXISTS paid (job uuid NOT NULL, fence bigint NOT NULL)")

    def worker(
        self, coordinator: CoordinatorProcess, slots: int = 10, address: str = "", queue: str = "default"
    ) -> Process:
        return coordinator.worker(WORKER, str(self.file), str(slots), self.target, queue, address=address)

    def events(self, what: str = "") -> list[tuple[str, str, int, int]]:
        """(what, job, attempt, fence), in the order in which they happened."""
        if not self.file.exists():
            return []
        rows = [line.split() for line in self.file.read_text().splitlines()]
        return [(row[0], row[1], int(row[2]), int(row[3])) for row in rows if not what or row[0] == what]

    def count(self, what: str, job: str = "") -> int:
        return sum(not job or event[1] == job for event in self.events(what))

    def rows(self) -> Counter[str]:
        """How often each job has been paid for."""
        with psycopg.connect(self.target) as conn:
            return Counter(str(job) for (job,) in conn.execute("SELECT job FROM paid").fetchall())

    def check(self, database: str, jobs: set[str]) -> None:
        """Each has ended once, as succeeded, and is nowhere else; it has been paid for once; no fence was given twice
        or was lower than one before; and the doctor has nothing to say."""
        with psycopg.connect(database, autocommit=True) as conn:
            ended = [(job, state) for job, state in conn.execute(_ENDED).fetchall() if job in jobs]
            elsewhere = conn.execute(_ELSEWHERE, {"jobs": list(jobs)}).fetchall()
            fences = [(job, fence) for job, fence in conn.execute(_FENCES).fetchall() if job in jobs]
        assert sorted(ended) == sorted((job, SUCCEEDED) for job in jobs)
        assert elsewhere == []
        assert len(fences) == len(set(fences)), "a fence was granted twice"
        paid = self.rows()
        assert {job: paid[job] for job in jobs} == dict.fromkeys(jobs, 1)
        self.check_fences()
        check_doctor(database)

    def check_fences(self) -> None:
        """As the targets saw them: those of a job only grow, from one attempt to the next."""
        seen: defaultdict[str, int] = defaultdict(int)
        for _, job, _, fence in self.events("started"):
            assert fence > seen[job], f"the fence of {job} went from {seen[job]} to {fence}"
            seen[job] = fence
        assert self.events("stale") == []


def check_doctor(database: str) -> None:
    found = bootstrap.diagnose(database)
    assert [each for each in found if each.level == "error"] == []


class Orders:
    """Creates jobs all the time, one batch after the other, each repeated under its request_id until it is answered."""

    def __init__(self, address: str, key: str, *, batch: int = 10, every_s: float = 0.1, kind: str = "stumble") -> None:
        self.acknowledged: set[str] = set()
        self._address, self._key = address, key
        self._batch, self._every_s, self._kind = batch, every_s, kind
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with Client(self._address, api_key=self._key, timeout=5.0) as client:
            while not self._stop.wait(self._every_s):
                request_id = str(uuid.uuid4())
                while True:
                    with suppress(RotaError):
                        jobs = [NewJob(self._kind, "{}") for _ in range(self._batch)]
                        created = client.create_jobs(jobs, request_id=request_id)
                        self.acknowledged |= {job.id for job in created}
                        break
                    if self._stop.wait(self._every_s):
                        return


def proven(database: str) -> bool:
    """Whether it is known of all leases that their workers have them: those have beaten since, which they do with their
    inventory well within the delivery TTL."""
    with psycopg.connect(database, autocommit=True) as conn:
        row = conn.execute(_PROVEN).fetchone()
    return bool(row and row[0])


def order(
    client: Client, *, before: Path | None = None, after: Path | None = None, kind: str = "pay", queue: str = "default"
) -> Job:
    """One job, which waits for these files."""
    gates = {name: str(path) for name, path in (("before", before), ("after", after)) if path is not None}
    return client.create_job(kind, json.dumps(gates), queue=queue)


def finished(database: str, jobs: set[str] | None = None) -> int:
    """How many have succeeded."""
    with psycopg.connect(database, autocommit=True) as conn:
        rows = conn.execute(_ENDED).fetchall()
    return sum(state == SUCCEEDED and (jobs is None or job in jobs) for job, state in rows)
