"""The Python SDK's worker of the mixed fleet and of the benchmark: see workers/conformance/README.md."""

import argparse
import json
import logging
import os
import random
import threading
import time

import psycopg
from rota_sdk import Lease, Worker, effects

SAY_EVERY = 100
_here = threading.local()
_lock = threading.Lock()
_started = 0


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


def starting() -> None:
    global _started
    with _lock:
        _started += 1
        if _started % SAY_EVERY == 0:
            say(started=_started)


async def noop(lease: Lease) -> None:
    starting()


def pay(lease: Lease) -> None:
    """One row for each job, in the transaction of its effect key; goes wrong at random before or after it."""
    starting()
    wish = lease.json()
    if lease.wait_cancelled(wish["slow_ms"] / 1e3):
        lease.raise_if_cancelled()
    if random.random() < wish["fails"]:
        raise OSError("the target is away")
    conn = getattr(_here, "conn", None)
    if conn is None:
        conn = _here.conn = psycopg.connect(os.environ["FLEET_TARGET"])
    with conn.transaction(), effects.once(conn, lease) as effect:
        if effect.first:
            conn.execute("insert into payments (job, fence, sdk) values (%s, %s, 'python')", [lease.job, lease.fence])
    if random.random() < wish["fails"]:
        raise OSError("failed after its commit")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--slots", type=int, default=20)
    worker = Worker(slots=parser.parse_args().slots)
    worker.add("noop", noop)
    worker.add("pay", pay)

    def leash() -> None:
        # Not by sys.stdin, which is closed under its reader when the interpreter ends.
        os.read(0, 1)
        os._exit(1)

    threading.Thread(target=leash, daemon=True).start()
    logging.basicConfig(level=logging.WARNING)
    say(ready_cpu_s=time.process_time())
    worker.run()


if __name__ == "__main__":
    main()
