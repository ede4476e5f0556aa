"""Whoever writes schedules and steers them, and insists on an answer.

Every schedule has a story of its own: it is made, edited, paused and resumed, triggered and backfilled, while workers
run its jobs; and some time after the last fault it is ended, so that a world comes to rest.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from rota.domain.errors import ResourceExhausted, RotaError, Unavailable
from rota.domain.jitter import JitterMode
from rota.domain.model import CancelMode, RetryPolicy, Timeouts
from rota.domain.rulespec import RuleKind
from rota.domain.schedule import (
    Backfill,
    Definition,
    JobTemplate,
    MissedMode,
    MissedPolicy,
    OverlapMode,
    OverlapPolicy,
    Timing,
)

from .client import LONG_RUN_S
from .clock import DatabaseTime
from .coordinator import Coordinator
from .fake_store import UNWRITABLE
from .faults import Plan
from .history import History
from .loop import SimLoop
from .wire import Network, NoAnswer

CALL_S = 3.0
FIRST_S = 8.0
"""Schedules are made by then."""

LAST_CHANGE_S = 22.0
KINDS = ("plain", "failing", "long", "parent", "released")
CHANGES = ("time", "overlap", "job", "pause", "resume", "trigger", "backfill", "cancel", "again")


class Author:
    def __init__(
        self,
        seed: str,
        *,
        plan: Plan,
        loop: SimLoop,
        network: Network,
        history: History,
        time: DatabaseTime,
        choose: Callable[[], Coordinator],
    ) -> None:
        self._rng = random.Random(f"author/{seed}")
        self._plan = plan
        self._loop = loop
        self._network = network
        self._history = history
        self._time = time
        self._choose = choose
        self._requests = 0
        self._tasks: list[asyncio.Task[None]] = []
        self.ending = asyncio.Event()
        """From now on every schedule is to come to its end."""
        self._stirred = asyncio.Event()

    def stir(self) -> None:
        """The clock went back: the best moment for an edit that forgets what was decided."""
        self._stirred.set()
        self._stirred = asyncio.Event()

    @property
    def done(self) -> bool:
        return all(task.done() for task in self._tasks)

    def start(self) -> None:
        process = self._loop.process("author")
        for number in range(self._plan.schedules):
            story = self._story(f"s{number}", poisoned=number < self._plan.poisoned)
            self._tasks.append(process.spawn(story, name=f"schedule {number}"))

    async def _story(self, id: str, *, poisoned: bool) -> None:
        rng = self._rng
        definition = self._definition(poisoned)
        # Whatever comes after a poisoned one is to be made in spite of it.
        at_s = rng.uniform(0.0, 1.0 if poisoned else FIRST_S)
        # Where the clock is stepped, changes are to meet that.
        changes = 0 if poisoned else rng.choice((4, 8, 12) if self._plan.clock_steps else (0, 1, 2, 4, 8))
        times = sorted(rng.uniform(at_s + 0.5, LAST_CHANGE_S) for _ in range(changes))
        await self._until(at_s)
        await self._insist(
            "create_schedule", id=id, definition=definition, paused=rng.random() < 0.06, request_id=self._request()
        )
        for time_s in times:
            while await self._stirred_before(time_s):
                if rng.random() < 0.6:
                    await asyncio.sleep(rng.uniform(0.0, 1.0))
                    definition = await self._change(id, definition, rng.choice(("time", "overlap")))
            definition = await self._change(id, definition, rng.choice(CHANGES))
        await self.ending.wait()
        await asyncio.sleep(rng.uniform(0.0, 1.0))
        if rng.random() < 0.5:
            cancel = rng.choice((None, None, CancelMode.FENCE_OUT, CancelMode.COOPERATIVE))
            await self._insist("delete_schedule", id=id, cancel=cancel)
        else:
            await self._insist("pause_schedule", id=id)

    async def _change(self, id: str, old: Definition, what: str) -> Definition:
        rng = self._rng
        if what == "pause":
            await self._insist("pause_schedule", id=id)
        elif what == "resume":
            catch_up = rng.choice((None, None, self._missed()))
            await self._insist("resume_schedule", id=id, catch_up=catch_up)
        elif what == "trigger":
            await self._insist("trigger", id=id, force=rng.random() < 0.3, request_id=self._request())
        elif what == "backfill":
            now = datetime.fromtimestamp(self._time.now_us() / 1e6, UTC) - timedelta(seconds=8)
            wish = Backfill(
                "", now - timedelta(seconds=rng.choice((3, 12))), now, include_fired=rng.random() < 0.5, rate=4.0
            )
            await self._insist("backfill", id=id, wish=wish, request_id=self._request())
        elif what == "cancel":
            await self._insist("cancel_newest", id=id)
            if rng.random() < 0.6:
                # The cursor goes back over what has its fate.
                await self._insist("pause_schedule", id=id)
                await self._insist("resume_schedule", id=id, catch_up=None)
        elif what == "again":
            # Under the same name, with another uid.
            await self._insist("delete_schedule", id=id, cancel=rng.choice((None, CancelMode.FENCE_OUT)))
            await self._insist("create_schedule", id=id, definition=old, paused=False, request_id=self._request())
        else:
            new = old
            if what == "time":
                new = replace(old, timing=self._timing(old.overlap))
            elif what == "overlap":
                overlap = self._overlap()
                new = replace(old, overlap=overlap, timing=self._timing(overlap) if overlap.ahead else old.timing)
            elif old.job.type != UNWRITABLE:
                kind = rng.choice(KINDS)
                run_s = 2.0 if kind == "long" else LONG_RUN_S
                timeouts = replace(old.job.timeouts, run_s=run_s)
                new = replace(old, job=replace(old.job, type=kind, priority=rng.choice((1, 4, 8)), timeouts=timeouts))
            answer = await self._insist("edit_schedule", id=id, definition=new, request_id=self._request())
            return old if isinstance(answer, RotaError) else new
        return old

    async def _stirred_before(self, time_s: float) -> bool:
        try:
            async with asyncio.timeout(max(time_s - self._loop.time(), 0.0)):
                await self._stirred.wait()
        except TimeoutError:
            return False
        return True

    async def _until(self, time_s: float) -> None:
        await asyncio.sleep(max(time_s - self._loop.time(), 0.0))

    async def _insist(self, method: str, **request: Any) -> Any:
        """The answer, or a refusal that trying again does not change."""
        sent_at = self._loop.time()
        while True:
            try:
                answer = await self._network.call(self._choose(), method, CALL_S, **request)
                break
            except (NoAnswer, Unavailable, ResourceExhausted):
                await asyncio.sleep(self._rng.uniform(0.05, 0.6))
            except RotaError as error:
                answer = error
                break
        refusal = answer.reason if isinstance(answer, RotaError) else None
        self._history.note("steered", method=method, id=request["id"], refusal=refusal, sent_at=sent_at)
        return answer

    def _request(self) -> str:
        self._requests += 1
        return f"author-{self._requests}"

    def _definition(self, poisoned: bool) -> Definition:
        rng = self._rng
        ahead = self._plan.poisoned > 0 and rng.random() < 0.7
        overlap = OverlapPolicy() if ahead else self._overlap()
        kind = UNWRITABLE if poisoned else rng.choices(KINDS, (40, 20, 20, 8, 8))[0]
        pause_after = rng.choice((1, 2)) if kind == "failing" and rng.random() < 0.6 else rng.choice((0, 0, 2))
        return Definition(
            self._timing(overlap),
            JobTemplate(
                kind,
                queue=rng.choice(("default", "other")),
                priority=rng.choice((0, 4, 9)),
                retry=RetryPolicy(max_attempts=rng.choice((1, 1, 3)), initial_backoff_s=0.2, max_backoff_s=1.0),
                timeouts=Timeouts(
                    start_by_s=rng.choice((None, None, None, 3.0)), run_s=2.0 if kind == "long" else LONG_RUN_S
                ),
            ),
            missed=self._missed(),
            overlap=overlap,
            pause_after_failures=pause_after,
        )

    def _timing(self, overlap: OverlapPolicy) -> Timing:
        rng = self._rng
        # A minute of jobs is made ahead where that may be: fewer of those.
        every_s = rng.choice((4.0, 7.0, 20.0) if overlap.ahead else (1.0, 1.0, 2.0, 3.0, 5.0))
        drawn = rng.random()
        if drawn < 0.5:
            timing = Timing(RuleKind.INTERVAL, every_s=every_s)
        elif drawn < 0.8:
            timing = Timing(RuleKind.CRON, expression=f"*/{every_s:g} * * * * *")
        elif drawn < 0.9:
            timing = Timing(RuleKind.CRON, expression="* * * * *")
        else:
            timing = Timing(RuleKind.RRULE, expression=f"FREQ=SECONDLY;INTERVAL={every_s:g};COUNT=20")
        now = datetime.fromtimestamp(self._time.now_us() / 1e6, UTC)
        if rng.random() < 0.2:
            timing = replace(timing, max_count=rng.choice((2, 5)))
        if rng.random() < 0.15:
            timing = replace(timing, end=now.replace(microsecond=0) + timedelta(seconds=rng.choice((6, 20))))
        if rng.random() < 0.2:
            mode = rng.choice(list(JitterMode))
            timing = replace(timing, jitter_s=rng.choice((0.7, 3.0)), jitter_mode=mode)
        if rng.random() < 0.1:
            timing = replace(timing, dates=("2026-01-01",)) if timing.kind is RuleKind.CRON else timing
        return timing

    def _overlap(self) -> OverlapPolicy:
        rng = self._rng
        mode = rng.choices(list(OverlapMode), (30, 20, 15, 20, 10, 20))[0]
        limited = mode is OverlapMode.BUFFER_ALL or (mode is OverlapMode.ALLOW and rng.random() < 0.4)
        return OverlapPolicy(mode, rng.choice((1, 2, 5)) if limited else None)

    def _missed(self) -> MissedPolicy:
        rng = self._rng
        return MissedPolicy(
            rng.choice(list(MissedMode)),
            late_tolerance_s=rng.choice((0.5, 2.0, 60.0)),
            catch_up_window_s=rng.choice((3.0, 30.0)),
            catch_up_max=rng.choice((2, 5, 100)),
        )
