"""Callers that are gone without a word: no reset, no end of stream, only silence (connectrpc/connect-py#174)."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import grpc.aio
import pytest

from rota.api import server

from ..faults.tcp import Network
from .running import Running, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

Start = Callable[..., Awaitable[Running]]


async def test_what_they_hold_is_let_go(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their polls and streams end within the time that a ping may take, long before the connection's age does it."""
    quick = {"grpc.keepalive_time_ms": 300, "grpc.http2.ping_timeout_ms": 1_000}
    assert quick.keys() <= dict(server.OPTIONS).keys()
    monkeypatch.setattr(server, "OPTIONS", tuple((dict(server.OPTIONS) | quick).items()))
    coordinator = await start(session_ttl_s=60.0, delivery_ttl_s=60.0)
    here = await coordinator.tenant()
    with Network() as network:
        link = network.link(coordinator.address)
        async with grpc.aio.insecure_channel(link.address) as channel:
            worker = await replace(coordinator, channel=channel).the_same(here).worker()
            poll = worker.poll(wait=50)
            async with worker.stream():
                await eventually(lambda: coordinator.node.dispatcher.parked == 1)
                (member,) = coordinator.node.memory.members
                assert member.streams == 1
                link.silence()
                await eventually(lambda: (coordinator.node.dispatcher.parked, member.streams) == (0, 0))
                assert member.push is None
                # A job of now goes to a living one, at once.
                job = await here.create()
                assert (await (await here.worker()).one()).job == job.name
                link.heal()
            poll.cancel()
            await asyncio.gather(poll, return_exceptions=True)
