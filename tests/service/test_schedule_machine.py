"""Whatever people, workers and crashes do to schedules, in whatever order: every occurrence has one fate, the counts
are those of the ledger and of the rule, jobs that must not overlap do not, and nothing that is due is left behind."""

import asyncio
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rota.domain.errors import RotaError
from rota.domain.ids import JobId
from rota.domain.jitter import JitterMode
from rota.domain.model import CancelMode, Grant, RetryPolicy
from rota.domain.schedule import (
    Backfill,
    Calendar,
    Fate,
    JobTemplate,
    MissedMode,
    MissedPolicy,
    OverlapMode,
    OverlapPolicy,
    Schedule,
    ScheduleState,
    Timing,
    compiled,
)

from .clockwork import NO_REQUEST, START, Clockwork, every, set_up_clock, timing

T = TypeVar("T")

EMPTY = """
DELETE FROM schedules; DELETE FROM schedule_timers; DELETE FROM occurrences; DELETE FROM deleted_schedules;
DELETE FROM calendars; DELETE FROM schedule_calendars; DELETE FROM backfills; DELETE FROM jobs;
DELETE FROM finished_jobs; DELETE FROM dead_jobs; DELETE FROM attempts; DELETE FROM requests; DELETE FROM sessions
"""

ALONE = (OverlapMode.SKIP, OverlapMode.BUFFER_ONE, OverlapMode.BUFFER_ALL, OverlapMode.REPLACE)

TIMINGS: tuple[Timing, ...] = (
    timing(),
    timing("*/5 * * * *"),
    every(7),
    every(45),
    timing(max_count=3),
    timing("*/2 * * * *", jitter_s=50.0),
    timing("*/3 * * * *", jitter_s=100.0, jitter_mode=JitterMode.RANDOM),
    timing("*/10 * * * *", calendars=("c",)),
    timing("* * * * *", dates=("2026-03-03",)),
    timing("0 * * * *", end=START + timedelta(hours=30)),
)

MISSED = tuple(MissedPolicy(mode, catch_up_max=5, catch_up_window_s=1_800.0) for mode in MissedMode)

pick = st.integers(0, 1_000)
gaps = st.sampled_from((0.4, 1.0, 5.0, 20.0, 61.0, 130.0, 700.0, 4_000.0, 100_000.0))


@dataclass
class Known:
    """What the test remembers of a schedule that it made."""

    timing_edits: int = 0
    alone: bool = False
    grants: list[Grant] = field(default_factory=list)


@pytest.fixture
def rig(database: str) -> Iterator[tuple[asyncio.AbstractEventLoop, str]]:
    set_up_clock(database)
    loop = asyncio.new_event_loop()
    yield loop, database
    loop.close()


def test_every_occurrence_has_one_fate(rig: tuple[asyncio.AbstractEventLoop, str]) -> None:
    run_state_machine_as_test(
        lambda: Machine(*rig),
        settings=settings(
            max_examples=25,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )


class Machine(RuleBasedStateMachine):
    def __init__(self, loop: asyncio.AbstractEventLoop, url: str) -> None:
        super().__init__()
        self._loop = loop
        self._url = url
        self.known: dict[str, Known] = {}
        self.settled = False
        self._made = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    def refusable(self, work: Coroutine[Any, Any, T]) -> T | None:
        try:
            return self.run(work)
        except RotaError:
            return None

    @initialize()
    def begin(self) -> None:
        async def work() -> Clockwork:
            clockwork = Clockwork(self._url)
            for statement in EMPTY.split(";"):
                await clockwork.sql(statement)
            return await clockwork.__aenter__()

        self.c = self.run(work())
        self.run(self.c.calendars.create(self.c.identity_, Calendar("c", ("2026-03-04",)), NO_REQUEST))

    def teardown(self) -> None:
        if hasattr(self, "c"):
            self.run(self.c.__aexit__())

    # What people do

    @precondition(lambda self: len(self.known) < 4)
    @rule(
        when=pick, missed=pick, mode=st.sampled_from(OverlapMode), limit=st.sampled_from((None, None, 1, 3)), die=pick
    )
    def create(self, when: int, missed: int, mode: OverlapMode, limit: int | None, die: int) -> None:
        self._made += 1
        id = f"s{self._made}"
        limit = limit if mode in (OverlapMode.ALLOW, OverlapMode.BUFFER_ALL) else None
        retry = RetryPolicy(max_attempts=1 + die % 2, initial_backoff_s=300.0)
        made = self.refusable(
            self.c.create(
                id,
                TIMINGS[when % len(TIMINGS)],
                missed=MISSED[missed % 3],
                overlap=OverlapPolicy(mode, limit),
                job=JobTemplate(type="t", retry=retry),
                pause_after_failures=(0, 2)[die % 2],
                paused=die % 7 == 6,
            )
        )
        if made is not None:
            self.known[id] = Known(alone=mode in ALONE)

    @precondition(lambda self: self.known)
    @rule(which=pick, when=pick)
    def retime(self, which: int, when: int) -> None:
        id = self._id(which)
        old = self.run(self.c.get(id)).definition.timing
        new = TIMINGS[when % len(TIMINGS)]
        if self.refusable(self.c.edit(id, timing=new)) is not None and new != old:
            self.known[id].timing_edits += 1

    @precondition(lambda self: self.known)
    @rule(which=pick, mode=st.sampled_from(OverlapMode))
    def change_overlap(self, which: int, mode: OverlapMode) -> None:
        id = self._id(which)
        if self.refusable(self.c.edit(id, overlap=OverlapPolicy(mode))) is not None:
            self.known[id].timing_edits += 1
            self.known[id].alone = False

    @precondition(lambda self: self.known)
    @rule(which=pick, type=st.sampled_from(("t", "u")))
    def change_job(self, which: int, type: str) -> None:
        id = self._id(which)
        job = self.run(self.c.get(id)).definition.job
        self.refusable(self.c.edit(id, job=replace(job, type=type)))

    @precondition(lambda self: self.known)
    @rule(which=pick, catch_up=st.sampled_from((None, None, *MISSED)))
    def pause_or_resume(self, which: int, catch_up: MissedPolicy | None) -> None:
        id = self._id(which)
        if self.run(self.c.get(id)).timer.state is ScheduleState.ACTIVE:
            self.refusable(self.c.pause(id))
        else:
            self.refusable(self.c.resume(id, catch_up))

    @precondition(lambda self: self.known)
    @rule(which=pick, force=st.sampled_from((False, False, True)))
    def trigger(self, which: int, force: bool) -> None:
        id = self._id(which)
        done = self.refusable(self.c.trigger(id, force=force))
        if done is not None and done.occurrence.forced:
            self.known[id].alone = False

    @precondition(lambda self: self.known)
    @rule(which=pick, hours=st.sampled_from((0.1, 2.0)), again=st.booleans())
    def backfill(self, which: int, hours: float, again: bool) -> None:
        now = self.c.clock.now
        wish = Backfill("", now - timedelta(hours=hours), now, include_fired=again, rate=1.0)
        start = self.c.backfills.start
        self.refusable(start(self.c.identity_, self._id(which), wish, request=NO_REQUEST, validate_only=False))

    @rule(dates=st.sampled_from(((), ("2026-03-02",), ("2026-03-04",))))
    def change_calendar(self, dates: tuple[str, ...]) -> None:
        update = self.c.calendars.update
        self.run(update(self.c.identity_, "c", lambda old: replace(old, dates=dates), etag="", request=NO_REQUEST))
        for id, known in self.known.items():
            if self.run(self.c.get(id)).definition.timing.calendars:
                known.timing_edits += 1

    @precondition(lambda self: self.known)
    @rule(which=pick, cancel=st.sampled_from((None, None, CancelMode.FENCE_OUT)))
    def delete_and_make_again(self, which: int, cancel: CancelMode | None) -> None:
        id = self._id(which)
        old = self.run(self.c.get(id))
        self.run(self.c.schedules.delete(self.c.identity_, id, etag="", cancel=cancel, allow_missing=False))
        definition = old.definition
        waiting = "SELECT count(*) FROM jobs WHERE schedule_uid = %(uid)s::uuid AND attempt = 0 AND state = 1"
        assert self.run(self.c.value(waiting, uid=old.uid)) == 0
        fields: dict[str, Any] = {"pause_after_failures": definition.pause_after_failures, "job": definition.job}
        again = self.c.create(id, definition.timing, missed=definition.missed, overlap=definition.overlap, **fields)
        del self.known[id]
        if self.refusable(again) is not None:
            self.known[id] = Known(alone=definition.overlap.mode in ALONE)

    @precondition(lambda self: self.known)
    @rule(which=pick, mode=st.sampled_from((CancelMode.IF_NOT_STARTED, CancelMode.FENCE_OUT)))
    def cancel_a_job(self, which: int, mode: CancelMode) -> None:
        live = self.run(self.c.live(self._id(which)))
        if live:
            job = JobId(live[which % len(live)][0])
            self.refusable(self.c.jobs_service.cancel(self.c.tenant, job, mode, "by hand"))

    # What workers do

    @precondition(lambda self: self.known)
    @rule(which=pick)
    def lease(self, which: int) -> None:
        id = self._id(which)
        for job, state, _, due_at in self.run(self.c.live(id)):
            if state in (1, 4) and due_at <= self.c.clock.now:
                self.known[id].grants.append(self.run(self.c.lease_job(JobId(job))))
                return

    @precondition(lambda self: any(known.grants for known in self.known.values()))
    @rule(which=pick, success=st.booleans())
    def end(self, which: int, success: bool) -> None:
        holders = [known for known in self.known.values() if known.grants]
        grant = holders[which % len(holders)].grants.pop(0)

        async def work() -> None:
            try:
                await (self.c.complete(grant) if success else self.c.fail(grant))
            except AssertionError:
                # Fenced out meanwhile.
                return

        self.run(work())

    # What time and machines do

    @rule(seconds=gaps)
    def nobody_works(self, seconds: float) -> None:
        self.run(self.c.sleep(seconds))
        self.settled = False

    @rule()
    def crash(self) -> None:
        self.c.restart()

    @rule(steps=st.integers(1, 3))
    def some_steps(self, steps: int) -> None:
        for _ in range(steps):
            self.run(self.c.materializer.step())

    @rule()
    def sweep(self) -> None:
        self.run(self.c.sweeper.step())

    @rule(seconds=st.sampled_from((1.0, 10.0, 90.0)))
    def go(self, seconds: float) -> None:
        self.run(self.c.go(seconds, tick=min(seconds, 10.0)))
        self.settled = True

    # What holds

    @invariant()
    def all_adds_up(self) -> None:
        for id, known in self.known.items():
            self.run(self._check(id, known))

    async def _check(self, id: str, known: Known) -> None:
        c = self.c
        schedule = await c.get(id)
        timer = schedule.timer
        await c.check(id)
        ledger = await c.ledger(id)
        assert timer.buffered == sum(each.fate is Fate.BUFFERED for each in ledger), (id, timer.buffered)
        live = await c.live(id)
        fired = {each.job_id for each in ledger if each.fate is Fate.FIRED}
        assert {job for job, *_ in live} <= fired
        if known.alone:
            assert len(live) <= 1, (id, live)
        stored = await c.schedules_store.transact(lambda tx: tx.lock(c.tenant, id))
        assert stored is not None
        raw = stored[0].timer
        if raw.state is ScheduleState.ACTIVE:
            assert raw.arm_at is not None
        if known.timing_edits == 0:
            # What was made ahead and cancelled keeps its fate when a pause takes the cursor back.
            ahead = [
                each.count
                for each in ledger
                if each.nominal > raw.cursor and each.generation == 0 and each.fate is not Fate.SUPERSEDED
            ]
            await self._check_by_rule(schedule, raw.cursor, sum(ahead))
        if self.settled and raw.state is ScheduleState.ACTIVE and raw.episode is None:
            await self._check_nothing_is_left(schedule, raw.cursor, c.clock.now)

    async def _check_by_rule(self, schedule: Schedule, cursor: datetime, ahead: int) -> None:
        timing = schedule.definition.timing
        calendars = await self.c.schedules_store.calendars(self.c.tenant, timing.calendars)
        rule = compiled(timing, schedule.uid, calendars)
        named = rule.between(schedule.created_at, cursor, 100_000, with_excluded=True)
        assert len(named) + ahead == sum(schedule.timer.fates), (schedule.id, len(named), ahead, schedule.timer.fates)

    async def _check_nothing_is_left(self, schedule: Schedule, cursor: datetime, now: datetime) -> None:
        timing = schedule.definition.timing
        calendars = await self.c.schedules_store.calendars(self.c.tenant, timing.calendars)
        coming = compiled(timing, schedule.uid, calendars).next_after(cursor)
        full = timing.max_count is not None and schedule.timer.fired >= timing.max_count
        assert coming is None or coming.due > now or full, (schedule.id, coming, now)

    def _id(self, number: int) -> str:
        return sorted(self.known)[number % len(self.known)]
