"""A worker whose jobs have an effect: a row in a target database, a process of its own.

What happened is one line each in the file named by the first argument, `what job attempt fence`, written with one
O_APPEND write, so that it is known whatever is killed. A payload may name files that a job waits for: `before` its
effect, and `after` that.
"""

import json
import logging
import os
import sys
import threading
import time
from pathlib import Path

import psycopg
from rota_sdk import Lease, StaleFence, Worker, effects

logging.basicConfig(level=logging.INFO)

EVENTS, SLOTS, TARGET, QUEUES = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4].split(",")
LOOK_EVERY_S = 0.02

worker = Worker(queues=QUEUES, slots=SLOTS)
local = threading.local()


def note(what: str, lease: Lease) -> None:
    file = os.open(EVENTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{what} {lease.id} {lease.attempt} {lease.fence}\n".encode())
    os.close(file)


def wait_for(path: str | None) -> None:
    while path and not Path(path).exists():
        time.sleep(LOOK_EVERY_S)


def target() -> psycopg.Connection[tuple[object, ...]]:
    conn: psycopg.Connection[tuple[object, ...]] | None = getattr(local, "conn", None)
    if conn is None or conn.closed:
        conn = local.conn = psycopg.connect(TARGET, autocommit=True)
    return conn


@worker.job("pay")
def pay(lease: Lease) -> str:
    gates = json.loads(lease.text() or "{}")
    note("started", lease)
    wait_for(gates.get("before"))
    conn = target()
    try:
        with conn.transaction(), effects.once(conn, lease) as effect:
            if effect.first:
                conn.execute("INSERT INTO paid (job, fence) VALUES (%s, %s)", (lease.id, lease.fence))
    except StaleFence:
        note("stale", lease)
        raise
    note("paid", lease)
    wait_for(gates.get("after"))
    return f"attempt {lease.attempt}"


@worker.job("stumble")
def stumble(lease: Lease) -> str:
    """Fails in its first attempt, after its effect."""
    done = pay(lease)
    if lease.attempt == 1:
        raise RuntimeError("the first attempt fails")
    return done


if __name__ == "__main__":
    print("worker", os.getpid(), flush=True)
    worker.run()
    print("counts", json.dumps(worker.counts()), flush=True)
