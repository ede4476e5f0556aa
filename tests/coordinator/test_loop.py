"""Loop: it waits as told, backs off when it fails, recovers, and stops."""

import asyncio
import logging
from collections.abc import Iterator

import pytest

from rota.coordinator.loop import BACKOFF_FIRST_S, BACKOFF_MAX_S, Loop
from rota.domain.errors import Unavailable

from .fakes import FakeClock, turns

OK: Exception | None = None


class Scripted(Loop):
    """Fails or waits as its script says, then for ever as the last entry."""

    name = "scripted"

    def __init__(self, clock: FakeClock, script: list[Exception | float]) -> None:
        super().__init__(clock)
        self._script: Iterator[Exception | float] = iter(script)
        self._last: Exception | float = 1.0
        self.steps = 0

    async def step(self) -> float:
        self.steps += 1
        self._last = next(self._script, self._last)
        if isinstance(self._last, Exception):
            raise self._last
        return self._last


async def started(loop: Loop) -> asyncio.Task[None]:
    task = asyncio.create_task(loop.run())
    await turns()
    return task


async def ended(loop: Loop, task: asyncio.Task[None]) -> None:
    loop.stop()
    await asyncio.wait_for(task, 1)


async def test_it_waits_as_long_as_each_step_says() -> None:
    clock = FakeClock()
    loop = Scripted(clock, [5.0, 2.0])
    task = await started(loop)
    for seconds, steps in ((4.9, 1), (0.1, 2), (1.9, 2), (0.1, 3), (2.0, 4)):
        await clock.advance(seconds)
        assert loop.steps == steps
    assert loop.last_ok == clock.now
    await ended(loop, task)


async def test_waking_ends_a_wait_and_is_not_lost_during_a_step() -> None:
    clock = FakeClock()

    class Waking(Scripted):
        async def step(self) -> float:
            if self.steps == 1:
                self.wake()
            return await super().step()

    loop = Waking(clock, [100.0])
    task = await started(loop)
    assert loop.steps == 1
    loop.wake()
    await turns()
    # Woken, and woken again while it ran.
    assert loop.steps == 3
    await turns(100)
    assert loop.steps == 3
    await ended(loop, task)


@pytest.mark.parametrize("wait_s", [0.0, -7.0])
async def test_no_wait_lets_others_run(wait_s: float) -> None:
    """Neither does a time that has passed meanwhile: kelektiv/node-cron#514."""
    clock = FakeClock()
    loop = Scripted(clock, [wait_s])
    task = await started(loop)
    await turns(50)
    assert loop.steps > 3
    await ended(loop, task)


async def test_failures_back_off_with_jitter_up_to_a_limit_and_a_success_resets() -> None:
    clock = FakeClock()
    errors: list[Exception | float] = [Unavailable("down")] * 9
    loop = Scripted(clock, [*errors, 3.0, Unavailable("down")])
    task = await started(loop)
    waits = []
    for _ in errors:
        waits.append(clock.next_wake_s)
        assert loop.last_ok is None
        await clock.advance(clock.next_wake_s)
    for n, wait_s in enumerate(waits):
        most_s = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2**n)
        assert most_s / 2 <= wait_s <= most_s, (n, wait_s)
    assert clock.next_wake_s == pytest.approx(3.0)
    assert loop.last_ok == clock.now
    await clock.advance(3.0)
    assert clock.next_wake_s <= BACKOFF_FIRST_S
    await ended(loop, task)


async def test_a_series_of_failures_is_logged_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rota.coordinator.loop")
    loop = Scripted(FakeClock(), [Unavailable("down"), Unavailable("down"), 1.0, ValueError("a bug"), 1.0])
    for _ in range(5):
        await loop.step_safely()
    assert [(r.levelname, bool(r.exc_info)) for r in caplog.records] == [
        ("WARNING", False),
        ("INFO", False),
        ("ERROR", True),
        ("INFO", False),
    ]


async def test_it_stops_after_the_step_it_is_in() -> None:
    gate = asyncio.Event()

    class Slow(Scripted):
        async def step(self) -> float:
            await gate.wait()
            return await super().step()

    loop = Slow(FakeClock(), [100.0])
    task = await started(loop)
    loop.stop()
    await turns()
    assert not task.done()
    gate.set()
    await asyncio.wait_for(task, 1)
    assert loop.steps == 1
    # And before it began.
    never = Scripted(FakeClock(), [1.0])
    never.stop()
    await asyncio.wait_for(never.run(), 1)
    assert never.steps == 0
