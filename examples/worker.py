"""A worker with one handler for each thing that can happen to a job.

    python examples/worker.py

It finds the coordinator and the key of `rota dev` by itself; ROTA_ADDRESS and ROTA_API_KEY name others.
"""

import asyncio
import time

from rota_sdk import Fatal, Lease, Worker

worker = Worker(queues=["default", "reports"], slots=20)


@worker.job("greet")
async def greet(lease: Lease) -> str:
    """The plainest: gets JSON, returns text."""
    return f"Hello, {lease.json()['name']}!"


@worker.job("report")
async def report(lease: Lease) -> dict[str, int]:
    """Takes its time, says how far it is, and stops when the job is cancelled."""
    pages = lease.json()["pages"]
    for page in range(1, pages + 1):
        await asyncio.sleep(0.3)
        lease.progress(f"page {page} of {pages}")
    return {"pages": pages}


@worker.job("flaky")
async def flaky(lease: Lease) -> str:
    """Fails twice. What it raises ends the attempt; the retry policy says when the next one comes."""
    if lease.attempts_counted < 2:
        raise ConnectionError(f"the other side hung up on attempt {lease.attempt}")
    return f"worked on attempt {lease.attempt}"


@worker.job("remind")
async def remind(lease: Lease) -> str:
    """Created with a delay, so due later than it was made."""
    return f"Do not forget: {lease.text()}"


@worker.job("alarm")
def alarm(lease: Lease) -> str:
    """Priority 9 overtakes what waits. A plain function runs in a thread, and may block."""
    time.sleep(0.02)
    return "awake"


@worker.job("broken")
async def broken(lease: Lease) -> None:
    """Never works: after max_attempts it is DEAD, kept with all its attempts."""
    raise ValueError("this order has no customer")


@worker.job("hopeless")
async def hopeless(lease: Lease) -> None:
    """Says itself that trying again is no use: DEAD at once."""
    raise Fatal("the account was closed")


@worker.job("index")
async def index(lease: Lease) -> dict[str, object]:
    """Created in batches with a dedupe key: while a document's key is held, it gets no second job."""
    await asyncio.sleep(0.01)
    return {"document": lease.json()["document"], "words": 1200}


if __name__ == "__main__":
    worker.run()
