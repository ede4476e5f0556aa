"""Firing armed schedules: what is due becomes jobs, and everything else its fate.

Steps whose policy needs no look at other jobs are decided from what was read and written in one statement for hundreds
of schedules. The others are decided under the schedules' locks, hundreds at a time too. A schedule whose step fails is
moved aside for a minute and never holds up the others; one whose rule gives no answer goes into ERROR.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from rota.clock import Clock, DatabaseClock
from rota.domain import zones
from rota.domain.errors import NotFound, RotaError
from rota.domain.ids import CoordinatorId, JobId, ScheduleUid, ShardNo
from rota.domain.model import CancelMode, ShardTerm
from rota.domain.overlap import Waiting
from rota.domain.rule import Rule
from rota.domain.schedule import Calendars, Fate, Schedule, ScheduleState, compiled
from rota.domain.step import POSTPONE_S, Step, decide, failed, needs_jobs, postponed
from rota.service.changing import Minting
from rota.service.jobs import Jobs
from rota.service.notices import Notices
from rota.service.schedules import Schedules
from rota.service.tracing import begin_traces
from rota.store.scheduleport import Armed, FireStore, Held, Move, Unwritable
from rota.telemetry import Metrics, Traces

log = logging.getLogger(__name__)

RULES_MAX = 20_000
"""Compiled rules kept, a few KiB each; the longest unused goes first."""

RECORDS_MAX = 1_000
"""Occurrences of one transaction, but for a schedule that has more by itself."""

BITE = 500
"""Schedules that are decided in one go."""

HELD_MAX = 200
"""Schedules of one transaction that holds their locks."""


@dataclass(frozen=True, slots=True)
class Known:
    """A schedule as it was when its rule was compiled."""

    schedule: Schedule
    rule: Rule


Stored = Mapping[ScheduleUid, tuple[Schedule, Calendars]]


class Fires:
    def __init__(
        self,
        store: FireStore,
        schedules: Schedules,
        jobs: Jobs,
        owner: CoordinatorId,
        notices: Notices,
        clock: Clock,
        database_clock: DatabaseClock,
        metrics: Metrics,
        traces: Traces | None,
    ) -> None:
        self._store = store
        self._schedules = schedules
        self._jobs = jobs
        self._owner = owner
        self._notices = notices
        self._clock = clock
        self._database_clock = database_clock
        self._metrics = metrics
        self._traces = traces
        self._known: OrderedDict[ScheduleUid, tuple[int, Known]] = OrderedDict()

    async def run(self, terms: Mapping[ShardNo, ShardTerm], armed: Sequence[Armed], now: datetime) -> bool:
        """Takes a step of each; whether some of them have more to do at once."""
        more = False
        held: list[Armed] = []
        known: dict[ScheduleUid, Known] = {}
        writing: asyncio.Task[None] | None = None
        bites = list(_bites(armed, BITE))
        # The database reads the next bite and writes the one before while one is decided.
        reading = [asyncio.create_task(self._read(bite), name="definitions") for bite in bites[:1]]
        try:
            for index, bite in enumerate(bites):
                stored = await reading.pop()
                reading = [asyncio.create_task(self._read(next), name="definitions") for next in bites[index + 1 :][:1]]
                known |= await self._compile(bite, stored, now, terms)
                moves: list[Move] = []
                for each in bite:
                    found = known.get(each.uid)
                    if found is None or each.shard not in terms:
                        continue
                    if _failing(each, found.schedule):
                        with suppress(NotFound):
                            await self._schedules.pause_failing(found.schedule)
                    elif needs_jobs(each.timer, found.schedule.definition):
                        held.append(each)
                    else:
                        moves.append(self._decided(each, found, (), (), now, terms))
                more |= any(move.step.more for move in moves)
                if writing is not None:
                    await writing
                writing = asyncio.create_task(self._write_all(moves), name="fires")
        finally:
            for task in reading:
                task.cancel()
            if writing is not None:
                await writing
        for start in range(0, len(held), HELD_MAX):
            more |= await self._fire_held(held[start : start + HELD_MAX], known, terms)
        return more

    async def _write_all(self, moves: Sequence[Move]) -> None:
        """In transactions of bounded size."""
        batch: list[Move] = []
        records = 0
        for move in moves:
            if batch and records + len(move.step.records) > RECORDS_MAX:
                await self._write(batch)
                batch, records = [], 0
            batch.append(move)
            records += len(move.step.records)
        if batch:
            await self._write(batch)

    async def _write(self, moves: Sequence[Move]) -> None:
        """Writes steps; where one of them spoils the batch, all but that one."""
        try:
            entries, moved = await self._store.fire(moves, self._owner)
        except Unwritable as error:
            if len(moves) > 1:
                middle = len(moves) // 2
                await self._write(moves[:middle])
                await self._write(moves[middle:])
                return
            await self._set_aside(moves[0], error)
            return
        self._notices.jobs_waiting(entries)
        self._count([move for move in moves if move.armed.uid in moved])

    async def _fire_held(
        self, armed: Sequence[Armed], known: Mapping[ScheduleUid, Known], terms: Mapping[ShardNo, ShardTerm]
    ) -> bool:
        taken: list[Move] = []

        def decided(found: Sequence[Held]) -> list[Move]:
            taken.clear()
            # One that changed since it was read is left for the next round, which sees it as it is.
            taken.extend(
                self._decided(
                    each.armed, known[each.armed.uid], each.running, each.waiting, each.now, terms, each.taken
                )
                for each in found
                if each.armed.timer.version == self._known_version(each.armed.uid, known)
            )
            return taken

        try:
            entries, moved = await self._store.fire_held([each.uid for each in armed], self._owner, decided)
        except Unwritable as error:
            if len(armed) > 1:
                middle = len(armed) // 2
                more = await self._fire_held(armed[:middle], known, terms)
                return await self._fire_held(armed[middle:], known, terms) or more
            if taken:
                await self._set_aside(taken[0], error)
            return False
        self._notices.jobs_waiting(entries)
        done = [move for move in taken if move.armed.uid in moved]
        self._count(done)
        # Once those that were in the way are gone, the others need not wait for their next look.
        free = [move.armed for move in done if await self._displace(move)]
        again = await self._fire_held(free, known, terms) if free else False
        return again or any(move.step.more for move in done)

    async def _displace(self, move: Move) -> bool:
        """Sends away the jobs that those that wait are to replace; whether all of them are terminal now.

        Between the commit and this a crash costs nothing: what waits looks again, and says so again.
        """
        mode = CancelMode.FENCE_OUT if move.step.fence_out else CancelMode.COOPERATIVE
        gone = bool(move.step.displaced)
        for job in move.step.displaced:
            try:
                found = await self._jobs.cancel(
                    move.armed.tenant_id, job, mode, "a newer occurrence of its schedule takes its place"
                )
                gone &= found.state.terminal
            except RotaError as error:
                log.info("jobs/%s could not be cancelled for its successor yet: %s", job, error)
                gone = False
        return gone

    def _decided(
        self,
        armed: Armed,
        known: Known,
        running: Sequence[JobId],
        waiting: Sequence[Waiting],
        now: datetime,
        terms: Mapping[ShardNo, ShardTerm],
        taken: frozenset[datetime] = frozenset(),
    ) -> Move:
        schedule = known.schedule
        term = terms.get(armed.shard)
        mint = Minting(self._clock, armed.tenant_id, armed.shard)
        try:
            step = decide(
                armed.timer,
                schedule.definition,
                known.rule,
                running,
                waiting,
                now,
                mint,
                zones.version(),
                taken,
            )
        except Exception as error:
            self._complain(armed, error)
            step = postponed(armed.timer, now)
        if step.timer.state is ScheduleState.ERROR:
            log.warning("schedules/%s of tenant %d stopped: %s", schedule.id, armed.tenant_id, step.timer.state_reason)
        return Move(
            armed, step, term.epoch if term is not None else 0, begin_traces(self._traces, schedule, step.records)
        )

    async def _set_aside(self, move: Move, error: Exception) -> None:
        self._complain(move.armed, error)
        await self._store.fire(
            [replace(move, step=postponed(move.armed.timer, self._database_clock.datetime()))], self._owner
        )

    def _complain(self, armed: Armed, error: Exception) -> None:
        log.error("a step of schedule %s failed, trying again in %g s", armed.uid, POSTPONE_S, exc_info=error)
        self._metrics.add("rota.schedules.failed")

    def forget(self) -> None:
        """Reads all definitions anew: a version may stand for another one by now."""
        self._known.clear()

    async def learn(
        self, armed: Sequence[Armed], now: datetime, terms: Mapping[ShardNo, ShardTerm]
    ) -> dict[ScheduleUid, Known]:
        """Definitions and rules of these schedules; one whose rule cannot be read any more goes into ERROR."""
        return await self._compile(armed, await self._read(armed), now, terms)

    async def _read(self, armed: Sequence[Armed]) -> Stored:
        """The definitions of those that are not known as they are."""
        missing = [each.uid for each in armed if self._kept(each) is None]
        return await self._store.definitions(missing) if missing else {}

    async def _compile(
        self, armed: Sequence[Armed], stored: Stored, now: datetime, terms: Mapping[ShardNo, ShardTerm]
    ) -> dict[ScheduleUid, Known]:
        known: dict[ScheduleUid, Known] = {}
        for index, each in enumerate(armed):
            found = self._kept(each)
            if found is None and each.uid in stored:
                schedule, calendars = stored[each.uid]
                # Read later than the timer, so a definition may be newer: its version is then no longer the timer's.
                if schedule.timer.version == each.timer.version:
                    found = await self._compiled(each, schedule, calendars, now, terms)
            if found is not None:
                known[each.uid] = found
            if index % 50 == 49:
                await self._clock.sleep(0)
        return known

    def _kept(self, armed: Armed) -> Known | None:
        kept = self._known.get(armed.uid)
        if kept is None or kept[0] != armed.timer.version:
            return None
        self._known.move_to_end(armed.uid)
        return kept[1]

    async def _compiled(
        self, each: Armed, schedule: Schedule, calendars: Calendars, now: datetime, terms: Mapping[ShardNo, ShardTerm]
    ) -> Known | None:
        try:
            rule = compiled(schedule.definition.timing, schedule.uid, calendars)
        except RotaError as error:
            log.warning("schedules/%s of tenant %d stopped: %s", schedule.id, each.tenant_id, error.message)
            term = terms.get(each.shard)
            if term is not None:
                step = Step(failed(each.timer, error.message, now))
                await self._store.fire([Move(each, step, term.epoch)], self._owner)
            return None
        found = Known(schedule, rule)
        self._known[each.uid] = (each.timer.version, found)
        while len(self._known) > RULES_MAX:
            self._known.popitem(last=False)
        return found

    def _known_version(self, uid: ScheduleUid, known: Mapping[ScheduleUid, Known]) -> int:
        found = known.get(uid)
        return found.schedule.timer.version if found is not None else -1

    def _count(self, moves: Sequence[Move]) -> None:
        now = self._database_clock.datetime()
        for move in moves:
            for record in move.step.records:
                self._metrics.add("rota.occurrences", record.count, record.fate.name.lower())
                if record.fate is Fate.FIRED:
                    self._metrics.observe("rota.lag.fire", (now - record.due).total_seconds())


def _failing(armed: Armed, schedule: Schedule) -> bool:
    """Whether its definition asks for a pause by now."""
    most = schedule.definition.pause_after_failures
    return bool(most) and armed.timer.failures >= most and armed.timer.state is ScheduleState.ACTIVE


def _bites(items: Sequence[Armed], size: int) -> Iterator[Sequence[Armed]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
