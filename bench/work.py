"""The worker of a run: a user's program with a handler that does nothing."""

import argparse
import asyncio
import json
import logging
import time
from pathlib import Path
from typing import Any, TextIO

from rota_sdk import Lease, Worker

from bench.profiler import Profiler

JOB = "noop"

SAY_EVERY = 100
"""Starts between two words about them."""


def build(slots: int, events: TextIO | None, first_s: float) -> Worker:
    """Says how many handlers have been started; with `events`, writes down the payload and the moment of each start.
    A job's first attempt takes `first_s`."""
    worker = Worker(slots=slots)
    started = 0

    async def noop(lease: Lease) -> None:
        nonlocal started
        started += 1
        if events is not None:
            events.write(f"{lease.text()} {time.time():.6f}\n")
        if started % SAY_EVERY == 0:
            say(started=started)
        if first_s and lease.attempt == 1:
            await asyncio.sleep(first_s)

    worker.add(JOB, noop)
    return worker


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--slots", type=int, required=True)
    parser.add_argument("--events", type=Path)
    parser.add_argument("--first-s", type=float, default=0.0)
    parser.add_argument("--profile", type=Path)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    # What is to be killed writes each line at once.
    events = arguments.events.open("w", buffering=1 if arguments.first_s else -1) if arguments.events else None
    worker = build(arguments.slots, events, arguments.first_s)
    say(ready_cpu_s=time.process_time())
    profiler = Profiler(arguments.profile)
    profiler.start()
    worker.run()
    profiler.stop()
    if events is not None:
        events.close()
    say(counts=worker.counts())


if __name__ == "__main__":
    main()
