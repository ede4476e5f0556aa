"""A worker for the end-to-end tests, a process of its own.

Every start of a handler is one line in the file named by the first argument: `job attempt fence pid`, written with one
O_APPEND write, so that what ran is known whatever is killed.
"""

import asyncio
import json
import logging
import os
import sys
import time
from pathlib import Path

from rota_sdk import Lease, Worker

logging.basicConfig(level=logging.INFO)

EVENTS = Path(sys.argv[1])
SLOTS = int(sys.argv[2]) if len(sys.argv) > 2 else 10

worker = Worker(queues=["default"], slots=SLOTS)


def note(lease: Lease) -> None:
    line = f"{lease.id} {lease.attempt} {lease.fence} {os.getpid()}\n".encode()
    file = os.open(EVENTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line)
    os.close(file)


@worker.job("quick")
async def quick(lease: Lease) -> bytes:
    note(lease)
    return lease.data


@worker.job("sleep")
async def sleep(lease: Lease) -> str:
    """Sleeps for as many seconds as its payload says."""
    note(lease)
    await asyncio.sleep(float(lease.text()))
    return "slept"


@worker.job("hold")
def hold(lease: Lease) -> str:
    """Runs until the file named in its payload exists."""
    note(lease)
    while not Path(lease.text()).exists():
        time.sleep(0.02)
    return f"held by {os.getpid()}"


@worker.job("effect")
async def effect(lease: Lease) -> None:
    """Fails on the first attempt of every third job."""
    note(lease)
    if lease.attempt == 1 and int(lease.text()) % 3 == 0:
        raise RuntimeError("the first attempt fails")


if __name__ == "__main__":
    print("worker", os.getpid(), flush=True)
    worker.run()
    print("counts", json.dumps(worker.counts()), flush=True)
