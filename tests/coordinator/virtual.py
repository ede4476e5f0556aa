"""Tests in virtual time, on the simulation's loop: waiting takes none, and what is ready together runs in any order."""

import functools
import inspect
import random
from collections.abc import Awaitable, Callable
from typing import ParamSpec

from ..sim.clock import SimClock
from ..sim.loop import SimLoop

P = ParamSpec("P")


def virtual(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        loop = SimLoop(test.__name__)

        async def main() -> None:
            await test(*args, **kwargs)

        loop.run(main())
        if loop.errors:
            raise loop.errors[0]

    # Pytest is to know its parameters, and not to take it for the coroutine function that it wraps.
    run.__signature__ = inspect.signature(test)  # type: ignore[attr-defined]
    del run.__wrapped__  # type: ignore[attr-defined]
    return run


def loop_clock(loop: SimLoop) -> SimClock:
    clock = SimClock(loop, random.Random(7), 0.0)
    # As fast as the loop's, which is asked for the waits of a process in which there is nothing but this.
    clock._rate = 1.0
    return clock
