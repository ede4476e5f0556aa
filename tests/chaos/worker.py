"""A worker whose jobs have effects in a target database, exactly once by `effects.once`; a process of its own.

    python -m tests.chaos.worker NAME QUEUES SLOTS TARGET STARTS

TARGET is the URL of the target database; STARTS a file that gets a line for each start of a handler, `job attempt fence
at`, written at once, so that what ran is known whatever is killed.
"""

import json
import logging
import os
import sys
import threading
import time
from dataclasses import asdict, dataclass
from typing import Any

import psycopg
from rota_sdk import Lease, StaleFence, Worker, effects

log = logging.getLogger("tests.chaos.worker")

JOB = "apply"

CONNECT_S = 3

TABLES = f"""
{effects.DDL};
CREATE TABLE IF NOT EXISTS applied (
    job text NOT NULL, fence bigint NOT NULL, attempt int NOT NULL, worker text NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS applied_job_idx ON applied (job)
"""
"""Nothing in `applied` keeps an effect from being doubled: that is what is to be found."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a job does: waits, applies its effect, waits again. Its first attempts, as many as `failing`, fail after
    their effect, and with `doomed` each fails before it. One that `heeds` asks before its effect whether to stop."""

    before_s: float = 0.0
    after_s: float = 0.0
    failing: int = 0
    doomed: bool = False
    heeds: bool = False

    @property
    def payload(self) -> dict[str, Any]:
        return asdict(self)


class Target:
    """A connection for each thread, made anew when it was lost."""

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._name = name
        self._own = threading.local()

    def apply(self, lease: Lease) -> bool:
        """The effect of a job; whether this attempt made it."""
        conn = getattr(self._own, "conn", None)
        if conn is None or conn.closed:
            conn = self._own.conn = psycopg.connect(self._url, connect_timeout=CONNECT_S, tcp_user_timeout=5_000)
        try:
            with conn.transaction(), effects.once(conn, lease) as effect:
                if effect.first:
                    conn.execute(
                        "INSERT INTO applied (job, fence, attempt, worker) VALUES (%s, %s, %s, %s)",
                        (lease.id, lease.fence, lease.attempt, self._name),
                    )
                return effect.first
        except psycopg.OperationalError:
            conn.close()
            raise


def build(name: str, queues: list[str], slots: int, target: Target, starts: int) -> Worker:
    worker = Worker(queues, slots, name=name)

    @worker.job(JOB)
    def apply(lease: Lease) -> str:
        os.write(starts, f"{lease.id} {lease.attempt} {lease.fence} {time.time():.6f}\n".encode())
        work = Work(**lease.json())
        time.sleep(work.before_s)
        if work.heeds:
            lease.raise_if_cancelled()
        if work.doomed:
            raise RuntimeError("as planned")
        try:
            target.apply(lease)
        except StaleFence as error:
            log.warning("effect refused: %s", error)
            raise
        if lease.attempts_counted < work.failing:
            raise RuntimeError("as planned, after the effect")
        time.sleep(work.after_s)
        # Tells under which grant the accepted result was made.
        return str(lease.fence)

    return worker


def main() -> None:
    name, queues, slots, url, starts = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    file = os.open(starts, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    worker = build(name, queues.split(","), int(slots), Target(url, name), file)
    print("worker", name, flush=True)
    worker.run()
    print("counts", json.dumps(worker.counts()), flush=True)


if __name__ == "__main__":
    main()
