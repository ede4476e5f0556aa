"""The worker of a run, and the records that it leaves: one line of 40 bytes for each start, and for each end.

"s 0000000007 1700000000.123456 00012345\\n"     kind, the job's number, the moment, the process
"""

import asyncio
import os
import time
from pathlib import Path

from rota_sdk import Lease, Worker

from bench.work import JOB


class Records:
    """Each is one write to the end of the file, so that a kill loses none."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._pid = os.getpid()

    def start(self, number: int) -> None:
        self._write(b"s", number)

    def end(self, number: int) -> None:
        self._write(b"e", number)

    def _write(self, kind: bytes, number: int) -> None:
        os.write(self._file, b"%s %010d %017.6f %08d\n" % (kind, number, time.time(), self._pid))


def run(address: str, key: str, slots: int, handler_s: float, events: Path) -> None:
    """Runs jobs until SIGTERM. A handler does nothing, or sleeps."""
    records = Records(events)
    worker = Worker(slots=slots, address=address, api_key=key)

    async def noop(lease: Lease) -> None:
        records.start(int(lease.text()))

    async def sleep(lease: Lease) -> None:
        number = int(lease.text())
        records.start(number)
        await asyncio.sleep(handler_s)
        records.end(number)

    worker.add(JOB, sleep if handler_s else noop)
    worker.run()
