import asyncio, time, pytest
from tests.api.test_peers import *
async def test_x():
    ears, calls = Ears(), Calls()
    async with listening(ears) as port, black_hole(port) as hole, dialled(hole.port, calls) as wire:
        await eventually(lambda: calls.opened)
        assert wire.send(settled(1))
        await eventually(lambda: ears.heard)
        t=time.monotonic()
        hole.swallow = True
        a=b=None
        while time.monotonic()-t<9 and not (a and b):
            await asyncio.sleep(0.05)
            if not wire.is_open and a is None: a=time.monotonic()-t; print("client", a)
            if ears.ended and b is None: b=time.monotonic()-t; print("server", b)
