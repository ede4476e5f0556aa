"""A worker as a process of its own, for the tests of signals: address and drain timeout are arguments. What blocks its
event loop ends with a line on standard input."""

import logging
import sys
import time

from rota_sdk import Lease, Worker

logging.basicConfig(stream=sys.stderr, level=logging.INFO)
worker = Worker(["default"], 8, address=sys.argv[1], api_key="k", drain_timeout=float(sys.argv[2]))


@worker.job("finish")
def finish(lease: Lease) -> str:
    while not lease.wait_cancelled(0.02):
        if time.monotonic() - started >= float(lease.text()):
            return "finished"
    lease.raise_if_cancelled()
    return "never"


@worker.job("deaf")
def deaf(lease: Lease) -> None:
    time.sleep(60)


@worker.job("block")
async def block(lease: Lease) -> str:
    sys.stdin.readline()
    return "the loop was blocked"


started = time.monotonic()
worker.run()
print("left in order", flush=True)
