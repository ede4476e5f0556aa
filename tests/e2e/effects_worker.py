"""A worker whose jobs pay in a target database, guarded as their payload says, and stop at one step of their first
attempt: there the test kills it, or opens the gate that the payload may name. A process of its own.

Each step is one line in the file named by the first argument, `step job attempt`, written with one O_APPEND write.
"""

import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
from rota_sdk import Lease, Worker, effects
from rota_sdk.effects import Applied, InDoubt, NotApplied

logging.basicConfig(level=logging.INFO)

EVENTS, TARGET = Path(sys.argv[1]), sys.argv[2]

worker = Worker(queues=["default"], slots=50)


def step(name: str, lease: Lease) -> None:
    file = os.open(EVENTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{name} {lease.id} {lease.attempt}\n".encode())
    os.close(file)
    wish = lease.json()
    while lease.attempt == 1 and wish["stop"] == name and not Path(wish.get("gate", "/never")).exists():
        time.sleep(0.02)


@worker.job("once")
def once(lease: Lease) -> None:
    """E1: the key goes with the change."""
    with psycopg.connect(TARGET) as conn:
        step("connected", lease)
        with effects.once(conn, lease) as effect:
            if effect.first:
                conn.execute("INSERT INTO paid (job) VALUES (%s)", (lease.id,))
            step("changed", lease)
        conn.commit()
        step("committed", lease)


@worker.job("ledger")
def ledger(lease: Lease) -> None:
    """E3: the target takes whatever it is told, as often as it is told."""

    def probe(key: str) -> Any:
        with psycopg.connect(TARGET) as conn:
            found = conn.execute("SELECT reference FROM paid WHERE job = %s", (lease.id,)).fetchone()
        return Applied(found[0]) if found else NotApplied()

    policy = InDoubt[lease.json()["policy"]]
    with effects.ledger(lease, in_doubt=policy, probe=probe if lease.json().get("probe") else None) as effect:
        step("begun", lease)
        if effect.proceed:
            with psycopg.connect(TARGET) as conn:
                conn.execute("INSERT INTO paid (job, reference) VALUES (%s, %s)", (lease.id, f"pay-{lease.attempt}"))
            effect.reference = f"pay-{lease.attempt}"
        step("called", lease)
    step("told", lease)


if __name__ == "__main__":
    print("worker", os.getpid(), flush=True)
    worker.run()
