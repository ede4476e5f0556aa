"""Many workers in one process: sessions with beats and waiting polls, over a few connections.

A worker of the SDK's costs a process or some threads; what is measured here is what so many cost the coordinator.
"""

import argparse
import asyncio
import gc
import logging
import random
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import grpc
import uvloop
from google.protobuf.duration_pb2 import Duration
from rota_sdk.channel import Endpoint
from rota_sdk.gen.rota.worker.v1 import worker_pb2 as pb
from rota_sdk.stubs import AsyncStubs

from bench.work import JOB, SAY_EVERY, say

CHANNELS = 16
OPENED_AT_ONCE = 32
QUEUE = "default"
LEASE_TIMEOUT_S = 90.0
CALL_TIMEOUT_S = 30.0


class Holder:
    """One worker: each of its pollers takes one job at a time, does nothing with it and reports success."""

    def __init__(self, stubs: AsyncStubs, metadata: Sequence[tuple[str, str | bytes]], number: int) -> None:
        self._worker = stubs.worker
        self._metadata = metadata
        self._number = number
        self._session = ""
        self._beat_s = 0.0
        self._wait = Duration()

    async def open(self) -> None:
        request = pb.OpenSessionRequest(
            worker=f"holder-{self._number}",
            queues=[QUEUE],
            types=[JOB],
            slots=1,
            protocol_version=1,
            request_id=str(uuid.uuid4()),
        )
        answer = await self._worker.OpenSession(request, timeout=CALL_TIMEOUT_S, metadata=self._metadata)
        self._session = answer.session
        self._beat_s = answer.beat_interval.ToTimedelta().total_seconds()
        self._wait = answer.max_wait

    async def beat(self) -> None:
        """Keeps the session alive over a stream, as the SDK does."""
        stream = self._worker.Heartbeat(metadata=self._metadata)
        await stream.write(pb.HeartbeatRequest(hello=pb.Hello(session=self._session)))
        await stream.read()
        # Beats of sessions that were opened together must not stay together.
        await asyncio.sleep(random.random() * self._beat_s)
        seq = 0
        while True:
            seq += 1
            await stream.write(pb.HeartbeatRequest(beat=pb.Beat(seq=seq, free_slots=1)))
            await stream.read()
            await asyncio.sleep(self._beat_s)

    async def poll(self, poller: int, events: TextIO, started: "Started") -> None:
        batch = 0
        while True:
            request = pb.LeaseRequest(
                session=self._session,
                poller=poller,
                request_id=str(uuid.uuid4()),
                ack_batch=batch,
                capacity=1,
                wait=self._wait,
            )
            answer = await self._worker.Lease(request, timeout=LEASE_TIMEOUT_S, metadata=self._metadata)
            batch = answer.batch
            if answer.leases:
                at = time.time()
                for lease in answer.leases:
                    events.write(f"{lease.payload.data.decode()} {at:.6f}\n")
                started.add(len(answer.leases))
                await self._complete(answer.leases)
            elif answer.HasField("next_poll_after"):
                await asyncio.sleep(answer.next_poll_after.ToTimedelta().total_seconds())

    async def _complete(self, leases: Sequence[pb.Lease]) -> None:
        results = [
            pb.Result(job=lease.job, fence=lease.fence, request_id=str(uuid.uuid4()), succeeded=pb.Succeeded())
            for lease in leases
        ]
        request = pb.CompleteRequest(session=self._session, results=results)
        await self._worker.Complete(request, timeout=CALL_TIMEOUT_S, metadata=self._metadata)


class Started:
    """Says how many jobs have been started."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, count: int) -> None:
        before, self._count = self._count, self._count + count
        if self._count // SAY_EVERY > before // SAY_EVERY:
            say(started=self._count)


async def hold(sessions: int, pollers: int, events: TextIO) -> None:
    endpoint = Endpoint.resolve()
    # Each channel has a connection of its own, and no interceptor, which would cost more than the call.
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
    stubs = [AsyncStubs(grpc.aio.insecure_channel(endpoint.target, options=options)) for _ in range(CHANNELS)]
    room = asyncio.Semaphore(OPENED_AT_ONCE)
    started = Started()

    async def open(number: int, group: asyncio.TaskGroup) -> None:
        async with room:
            holder = Holder(stubs[number % CHANNELS], endpoint.metadata, number)
            await holder.open()
        group.create_task(holder.beat())
        for poller in range(pollers):
            group.create_task(holder.poll(poller, events, started))

    async with asyncio.TaskGroup() as group:
        await asyncio.gather(*(open(number, group) for number in range(sessions)))
        # Looking through what ten thousand workers hold takes this process seconds, which no worker would notice.
        gc.collect()
        gc.freeze()
        say(holding=sessions)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, required=True)
    parser.add_argument("--pollers", type=int, default=1)
    parser.add_argument("--events", type=Path, required=True)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    # Nothing is worth a goodbye: SIGTERM ends it. Each line is written at once.
    with arguments.events.open("w", buffering=1) as events:
        uvloop.run(hold(arguments.sessions, arguments.pollers, events))


if __name__ == "__main__":
    main()
