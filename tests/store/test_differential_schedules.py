"""The simulation's store of schedules and PostgreSQL side by side, as `test_differential` does it for jobs.

Timers, steps and definitions that were read once are kept and used again when they are long over: what is compared and
set must find out. Changes are made by the service itself, whose statements meet each other in every order.
"""

import itertools
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from rota.clock import SystemClock
from rota.domain import zones
from rota.domain.errors import InvalidArgument
from rota.domain.fairness import FIRST, Entry
from rota.domain.ids import CoordinatorId, JobId, ScheduleUid, SessionId, ShardNo, TenantId, mint_fence, uuid7
from rota.domain.model import (
    Failure,
    Grant,
    Identity,
    JobState,
    Outcome,
    Payload,
    Result,
    RetryPolicy,
    Role,
    Session,
    SessionState,
    Timeouts,
)
from rota.domain.overlap import Record
from rota.domain.rulespec import RuleKind
from rota.domain.schedule import (
    Backfill,
    BackfillState,
    Definition,
    Fate,
    JobTemplate,
    MissedMode,
    MissedPolicy,
    Origin,
    OverlapMode,
    OverlapPolicy,
    Schedule,
    Timing,
    compiled,
)
from rota.domain.step import Step, decide
from rota.domain.transition import Finish
from rota.service import changing
from rota.service.changing import Changing
from rota.service.drafts import Draft, new_schedule
from rota.store.codec import instant
from rota.store.port import Claim, Decided
from rota.store.scheduleport import (
    Armed,
    Held,
    Move,
    OccurrenceFilter,
    RequestKey,
    ScheduleFilter,
    ScheduleTransaction,
    Unwritable,
)
from tests.sim.fake_store import JobRow

from .sidebyside import Rig, SideBySide, of, side_by_side

T = TypeVar("T")

TENANT = TenantId(10)
SHARDS = [ShardNo(0), ShardNo(1)]
OWNERS = (CoordinatorId(uuid7(1, 1)), CoordinatorId(uuid7(1, 2)))
ME = Identity(TENANT, "t", "key", frozenset({Role.CLIENT}))
SESSION = SessionId(uuid7(2, 1))
TZDATA = zones.version()

TIMINGS = (
    Timing(RuleKind.INTERVAL, every_s=7.0),
    Timing(RuleKind.INTERVAL, every_s=20.0, max_count=3),
    Timing(RuleKind.CRON, expression="*/10 * * * * *"),
    Timing(RuleKind.CRON, expression="* * * * *", jitter_s=20.0),
    Timing(RuleKind.CRON, expression="*/15 * * * * *", dates=("2026-01-01",)),
)

pick = st.integers(0, 1_000)
few = st.lists(pick, min_size=1, max_size=3)


class Steady(SystemClock):
    """Ids that are the same for both stores: those of one question begin anew with each that is asked."""

    def __init__(self, question: int) -> None:
        super().__init__()
        # The last eight bits are the shard's.
        self._ids = (uuid7(3, question << 24 | number << 8) for number in itertools.count(1))

    def new_id(self) -> str:
        return next(self._ids)


@dataclass(frozen=True, slots=True)
class Read:
    """A timer as it was read once, with what the definition was then."""

    armed: Armed
    definition: Definition


@pytest.fixture
def rig(database: str) -> Iterator[Rig]:
    with side_by_side(database) as rig:
        yield rig


@pytest.mark.timeout(600)
def test_the_simulated_store_of_schedules_is_postgresql(rig: Rig) -> None:
    run_state_machine_as_test(
        lambda: Machine(rig),
        settings=settings(
            max_examples=12,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )


class Machine(SideBySide):
    def __init__(self, rig: Rig) -> None:
        super().__init__(rig)
        self.tables.another_id = self._drawn_id
        self._questions = itertools.count(1)
        self._counter = itertools.count(1)
        # What was issued, never forgotten.
        self.schedules: list[Schedule] = []
        self.reads: list[Read] = []
        self.moves: list[tuple[list[Move], CoordinatorId]] = []
        self.grants: list[Grant] = []
        self.terms: list[tuple[CoordinatorId, dict[ShardNo, int]]] = []
        self.instants: list[datetime] = [self.now]
        self.backfills: list[tuple[ScheduleUid, str]] = []
        self.jobs: list[JobId] = []

    @property
    def now(self) -> datetime:
        return instant(self.clock.now_us())

    @initialize()
    def begin(self) -> None:
        self.change_owner(0)
        session = Session(
            SESSION,
            TENANT,
            0,
            "w",
            "s",
            "b",
            ("q",),
            (),
            9,
            {},
            1,
            SessionState.ACTIVE,
            self.now,
            self.now,
            self.now,
            9,
            OWNERS[0],
        )
        self.both(lambda s: s.sessions.open(session, 1e6), lambda found: found.id)
        self.create(0, 1, None, False)
        self.create(2, 2, None, False)

    # Time and coordinators

    @rule(when=st.integers(0, 5), beside=st.sampled_from((0, 0, 1, -1)))
    def time_reaches(self, when: int, beside: int) -> None:
        """The very instant at which somebody is to look at a schedule, or beside it."""
        self._set(of(self.instants, when) + timedelta(microseconds=beside))

    @rule(seconds=st.sampled_from((0.5, 5.0, 20.0, 61.0, 300.0, -3.0, -30.0)))
    def time_passes(self, seconds: float) -> None:
        self._set(self.now + timedelta(seconds=seconds))

    @rule(who=pick)
    def change_owner(self, who: int) -> None:
        mine, other = OWNERS[who % 2], OWNERS[(who + 1) % 2]
        self.both(lambda s: s.shards.release(other))
        self.both(lambda s: s.shards.release(mine))
        self.both(lambda s: s.shards.register(mine, f"a{who % 2}", "1", 1e7))
        terms = self.both(lambda s: s.shards.acquire(mine, len(SHARDS), SHARDS), lambda found: sorted(map(str, found)))
        self.terms.append((mine, {term.shard: term.epoch for term in terms}))

    # Schedules as people write them

    @rule(
        when=pick,
        mode=pick,
        limit=st.sampled_from((None, None, 1, 2)),
        paused=st.booleans(),
    )
    def create(self, when: int, mode: int, limit: int | None, paused: bool) -> None:
        clock = Steady(next(self._questions))
        draft = Draft(f"s{len(self.schedules) if when % 9 else 0}", self._definition(when, mode, limit), paused=paused)
        try:
            schedule = new_schedule(clock, ME, draft, {}, self.now)
        except InvalidArgument:
            return
        schedule = replace(schedule, shard=of(SHARDS, when), apply_set="ab"[when % 2])

        async def work(tx: ScheduleTransaction) -> bool:
            await tx.create([schedule])
            return True

        if self.refusable(lambda s: s.schedules.transact(work)):
            self.schedules.append(schedule)
            self._look(schedule)

    @precondition(lambda self: self.schedules)
    @rule(which=pick, what=st.sampled_from(("edit", "edit", "job", "pause", "resume", "delete")), how=pick)
    def change(self, which: int, what: str, how: int) -> None:
        """By the service, in one transaction."""
        schedule, question = of(self.schedules, which), next(self._questions)
        policy = None if how % 2 else MissedPolicy(of(list(MissedMode), how), 1.0, 100.0, 5)

        async def work(tx: ScheduleTransaction) -> object:
            out = changing.Outcome()
            change = Changing(tx, Steady(question), out, None)
            found, now = await change.locked(TENANT, schedule.id)
            if what == "edit":
                await change.update(found, self._definition(how, how // 5, None), "schedule", now)
            elif what == "job":
                job = replace(found.definition.job, type=f"t{how % 5}", priority=how % 10)
                await change.update(found, replace(found.definition, job=job), "schedule", now)
            elif what == "pause":
                await change.pause(found, "because", "me", now)
            elif what == "resume":
                await change.resume(found, "", "me", policy, now)
            else:
                return await change.delete(found, now)
            return _sorted(out.entries)

        self.refusable(lambda s: s.schedules.transact(work))
        self._look(schedule)

    @precondition(lambda self: self.schedules)
    @rule(which=pick, how=pick, fails=st.booleans(), request=st.sampled_from(("", "r1", "r2")))
    def trigger(self, which: int, how: int, fails: bool, request: str) -> None:
        """An occurrence beside the rule's, with a payload of its own; sometimes taken back in the end."""
        schedule, question = of(self.schedules, which), next(self._questions)
        waits = how % 3 == 0

        async def work(tx: ScheduleTransaction) -> object:
            found = await tx.lock(TENANT, schedule.id)
            if found is None:
                return None
            stored, now = found
            if request:
                earlier = await tx.earlier(TENANT, RequestKey(1, request, b"%d" % (how % 2)), [schedule.uid])
                if earlier is not None:
                    return earlier
            generation = await tx.generation(stored.uid, now)
            job = None if waits else JobId(Steady(question).new_id())
            fate = Fate.BUFFERED if waits else Fate.FIRED
            record = Record(now, generation, now, "local", Origin.TRIGGER, fate, "why", job_id=job, forced=how % 2 == 0)
            timer = (
                replace(stored.timer, last_job=job)
                if job
                else replace(stored.timer, buffered=stored.timer.buffered + 1)
            )
            armed = Armed(TENANT, stored.uid, stored.shard, stored.timer)
            traces = {job: "trace"} if job and how % 5 == 0 else {}
            payload = Payload(b"own", "x/y") if how % 2 else None
            entries = await tx.move(Move(armed, Step(timer, (record,)), traces=traces, payload=payload))
            if fails:
                raise InvalidArgument("not after all")
            return _sorted(entries), await tx.occurrence(stored.uid, now, generation)

        self.refusable(lambda s: s.schedules.transact(work))
        self._look(schedule)

    @precondition(lambda self: self.schedules)
    @rule(which=pick, split=st.sampled_from((-20.0, 0.0, 15.0)), how=pick)
    def take_back(self, which: int, split: float, how: int) -> None:
        """What changes are made of, each by itself and in any order."""
        schedule = of(self.schedules, which)
        at = self.now + timedelta(seconds=split)
        before = of((None, Fate.SUPPRESSED_PAUSED, Fate.SUPERSEDED), how)

        async def work(tx: ScheduleTransaction) -> object:
            found = await tx.lock(TENANT, schedule.id)
            if found is None:
                return None
            if how % 5 == 0:
                return await tx.withdraw([schedule.uid], at, before, all_jobs=how % 2 == 0)
            if how % 5 == 1:
                return await tx.end_waiting(schedule.uid, Fate.SUPPRESSED_PAUSED, rule_only=how % 2 == 0)
            if how % 5 == 2:
                return await tx.restore(schedule.uid, at)
            if how % 5 == 3:
                return _remade(await tx.remake(found[0], at if how % 2 else None))
            return await tx.fired(schedule.uid, at - timedelta(seconds=60), at), await tx.now()

        self.both(lambda s: s.schedules.transact(work))
        self._look(schedule)

    # Firing

    @rule(ahead_s=st.sampled_from((0.0, 1.0, 60.0)), page=st.sampled_from((1, 10)))
    def read_armed(self, ahead_s: float, page: int) -> None:
        until = self.now + timedelta(seconds=ahead_s)
        armed, _ = self.both(
            lambda s: s.fires.read_armed(SHARDS, until, page), lambda found: (_by_uid(found[0]), found[1])
        )
        found = self.both(lambda s: s.fires.definitions([each.uid for each in armed]))
        self.reads += [Read(each, found[each.uid][0].definition) for each in armed if each.uid in found]

    @precondition(lambda self: self.reads)
    @rule(which=few, term=st.sampled_from((0, 0, 0, 1)), how=pick)
    def fire(self, which: list[int], term: int, how: int) -> None:
        """Steps of timers that were read just now or long ago, by the owner of now or of then."""
        owner, epochs = of(self.terms, term)
        question = next(self._questions)
        clock = Steady(question)
        moves = []
        for read in {of(self.reads, each).armed.uid: of(self.reads, each) for each in which}.values():
            step = self._decided(read, Held(read.armed, (), (), self.now), clock)
            epoch = epochs.get(read.armed.shard, 0)
            traces = {r.job_id: "trace" for r in step.records if r.job_id is not None and how % 4 == 0}
            moves.append(Move(read.armed, step, epoch, traces, priority=7 if how % 6 == 0 else None))
        self._write(moves, owner)

    @precondition(lambda self: self.moves)
    @rule(which=pick)
    def fire_again(self, which: int) -> None:
        moves, owner = of(self.moves, which)
        self._write(moves, owner)

    @precondition(lambda self: self.reads)
    @rule(which=few, term=st.sampled_from((0, 0, 0, 1)), stale=st.booleans())
    def fire_held(self, which: list[int], term: int, stale: bool) -> None:
        owner, epochs = of(self.terms, term)
        question = next(self._questions)
        reads = {of(self.reads, each).armed.uid: of(self.reads, each) for each in which}

        def decided(found: Sequence[Held]) -> list[Move]:
            clock = Steady(question)
            moves = []
            for held in found:
                held = replace(held, running=tuple(sorted(held.running)))
                read = reads[held.armed.uid]
                armed = read.armed if stale else held.armed
                step = self._decided(replace(read, armed=armed), held, clock)
                moves.append(Move(armed, step, epochs.get(armed.shard, 0)))
            return moves

        self.both(lambda s: s.fires.fire_held(list(reads), owner, decided), _fired)
        for uid in reads:
            self._look(self._schedule(uid))

    @precondition(lambda self: self.schedules)
    @rule(which=pick, what=st.sampled_from((0, 1, 5, 8)))
    def fire_claim_and_take_back(self, which: int, what: int) -> None:
        """What comes next of a schedule is fired at its time and claimed; then it is too late to take it back."""
        uid = of(self.schedules, which).uid
        stored = self.tables.schedules.get(uid)
        if stored is None or stored.timer.arm_at is None:
            return
        self._set(max(stored.timer.arm_at, self.now))
        self.reads.append(Read(Armed(TENANT, uid, stored.shard, stored.timer), stored.definition))
        self.fire_held([0], 0, False)
        self.claim(2)
        self.take_back(which, -20.0, what)

    @rule(after=pick, page=st.sampled_from((1, 2, 10)), tzdata=st.sampled_from((TZDATA, "other")))
    def read_unfit(self, after: int, page: int, tzdata: str) -> None:
        last = of(self.schedules, after).uid if self.schedules and after % 2 else None
        self.both(lambda s: s.fires.read_unfit(last, page, tzdata), lambda found: (_by_uid(found[0]), found[1]))

    @precondition(lambda self: self.schedules)
    @rule(which=pick)
    def slip(self, which: int) -> None:
        uid = of(self.schedules, which).uid
        self._rig.connection.execute("UPDATE schedule_timers SET arm_at = NULL WHERE uid = %s", (uid,))
        if uid in self.tables.schedules:
            schedule = self.tables.schedules[uid]
            self.tables.schedules[uid] = replace(schedule, timer=replace(schedule.timer, arm_at=None))
        self.read_unfit(0, 10, TZDATA)

    # Their jobs

    @rule(how=pick)
    def claim(self, how: int) -> None:
        """The oldest jobs that are due."""
        owner, epochs = of(self.terms, 0)
        until_us = self.clock.now_us()
        after = [(shard, FIRST) for shard in SHARDS]
        due = self.both(lambda s: s.leases.read_due(after, until_us, 3), lambda rows: sorted(map(str, rows)))
        claims = [
            Claim(row.entry, mint_fence(epochs[row.entry.shard], next(self._counter)), SESSION)
            for row in sorted(due, key=lambda row: row.entry.id)
            if row.state in (JobState.SCHEDULED, JobState.RETRY_WAIT)
        ][: how % 3 + 1]
        if claims:
            self.grants += self.both(lambda s: s.leases.claim(claims, owner), lambda found: sorted(map(str, found)))

    @precondition(lambda self: self.grants)
    @rule(which=pick, dies=st.booleans())
    def end(self, which: int, dies: bool) -> None:
        grant = of(self.grants, which)
        if dies:
            found, _ = self.both(lambda s: s.outcomes.live([(TENANT, grant.job_id)]))
            held = [live for live in found.values() if live.leased_at is not None]
            decision = Finish(JobState.DEAD, True, "used up")
            items = [Decided(live, decision, Outcome.FAILED, Failure("E")) for live in held]
            if items:
                self.both(lambda s: s.outcomes.bury(items))
        else:
            result = Result(TENANT, SESSION, grant.job_id, grant.fence, Outcome.SUCCEEDED)
            self.both(lambda s: s.outcomes.succeed([result]))
        if grant.origin is not None:
            self._look(self._schedule(grant.origin.schedule_uid))

    # Backfills

    @precondition(lambda self: self.schedules)
    @rule(which=pick, how=pick)
    def backfill(self, which: int, how: int) -> None:
        schedule = of(self.schedules, which)
        if how % 3 == 0 or not self.backfills:
            id = Steady(next(self._questions)).new_id()
            state = BackfillState.RUNNING if how % 4 else BackfillState.SUCCEEDED
            start = self.now - timedelta(hours=1)
            wish = Backfill(id, start, self.now, rate=2.0, state=state, cursor=start, total=9, author="me")
            self.backfills.append((schedule.uid, id))

            async def add(tx: ScheduleTransaction) -> object:
                found = await tx.lock(TENANT, schedule.id)
                if found is None or found[0].uid != schedule.uid:
                    return None
                await tx.add_backfill(found[0], wish)
                return await tx.running_backfills(schedule.uid)

            self.both(lambda s: s.schedules.transact(add))
            return
        uid, id = of(self.backfills, how)

        async def save(tx: ScheduleTransaction) -> object:
            found = await tx.lock_backfill(uid, id)
            if found is None:
                return None
            state = BackfillState.RUNNING if how % 2 else BackfillState.CANCELLED
            await tx.save_backfill(replace(found, done=found.done + 1, cursor=found.start, state=state), float(how % 3))
            return found

        self.both(lambda s: s.schedules.transact(save))
        self.both(lambda s: s.schedules.backfill(uid, id))
        self.both(lambda s: s.schedules.backfills(uid, None, 10))
        self.both(lambda s: s.fires.due_backfills(SHARDS, 3), lambda found: sorted(map(str, found)))

    # Reading

    @rule(
        how=pick,
        after=st.sampled_from(("", "s0", "s1")),
        limit=st.sampled_from((1, 10)),
        prefix=st.sampled_from(("", "s", "s1", "x")),
    )
    def page(self, how: int, after: str, limit: int, prefix: str) -> None:
        where = ScheduleFilter(
            type="t1" if how % 5 == 0 else "",
            labels={"k": "1"} if how % 3 == 0 else {},
            id_prefix=prefix,
            apply_set="a" if how % 4 == 0 else None,
        )
        self.both(lambda s: s.schedules.page(TENANT, where, after, limit))
        self.both(lambda s: s.schedules.transact(lambda tx: tx.in_set(TENANT, "a", limit)))

    @precondition(lambda self: self.schedules)
    @rule(which=pick, fate=st.none() | st.sampled_from(Fate), back_s=st.sampled_from((0.0, 20.0)), limit=pick)
    def occurrences(self, which: int, fate: Fate | None, back_s: float, limit: int) -> None:
        schedule = of(self.schedules, which)
        where = OccurrenceFilter(fate, self.now - timedelta(seconds=60), self.now + timedelta(seconds=back_s))
        before = (self.now, 1) if limit % 2 else None
        self.both(lambda s: s.schedules.occurrences(TENANT, schedule.uid, where, before, limit % 5 + 1))
        self.both(lambda s: s.schedules.uid_of(TENANT, schedule.id))

    # Making arguments

    def _set(self, now: datetime) -> None:
        self.clock.set(round(now.timestamp() * 1e6))

    def _definition(self, when: int, mode: int, limit: int | None) -> Definition:
        overlap = of(list(OverlapMode), mode)
        limited = overlap in (OverlapMode.ALLOW, OverlapMode.BUFFER_ALL)
        return Definition(
            of(TIMINGS, when),
            JobTemplate(
                f"t{when % 3}",
                queue="q",
                priority=when % 10,
                payload=Payload(b"p" * (when % 3), "text/plain"),
                headers={"h": "ü"} if when % 2 else {},
                labels={"k": "1"} if when % 3 else {},
                retry=RetryPolicy(max_attempts=when % 3 + 1),
                timeouts=Timeouts(5.0 if when % 4 == 0 else None, 10.5, 60.0 if when % 5 == 0 else None),
                concurrency_key="c" if when % 7 == 0 else "",
            ),
            missed=MissedPolicy(of(list(MissedMode), mode // 6), 2.0, 60.0, 3),
            overlap=OverlapPolicy(overlap, limit if limited else None),
            pause_after_failures=when % 3,
            labels={"k": str(when % 2)},
        )

    def _decided(self, read: Read, held: Held, clock: Steady) -> Step:
        uid = read.armed.uid
        rule = compiled(read.definition.timing.settled(self._schedule(uid).created_at), uid, {})
        mint = changing.Minting(clock, TENANT, read.armed.shard)
        return decide(
            read.armed.timer, read.definition, rule, held.running, held.waiting, held.now, mint, TZDATA, held.taken
        )

    def _write(self, moves: list[Move], owner: CoordinatorId) -> None:
        self.moves.append((moves, owner))
        self.both(lambda s: _or_unwritable(s.fires.fire(moves, owner)), _fired)
        for move in moves:
            self._look(self._schedule(move.armed.uid))

    def _schedule(self, uid: ScheduleUid) -> Schedule:
        return next(schedule for schedule in self.schedules if schedule.uid == uid)

    def _look(self, schedule: Schedule) -> None:
        """Everything that can be read of a schedule that something was just done to."""

        async def work(tx: ScheduleTransaction) -> object:
            found = await tx.lock(TENANT, schedule.id)
            if found is None:
                return None
            held = await tx.held(found[0])
            return found[0], replace(held, running=tuple(sorted(held.running))), await tx.by_uid(TENANT, [schedule.uid])

        found: Any = self.both(lambda s: s.schedules.transact(work))
        if found is not None:
            stored: Schedule = found[0]
            self.reads.append(Read(Armed(TENANT, stored.uid, stored.shard, stored.timer), stored.definition))
            self.instants += [at for at in (stored.timer.arm_at, stored.timer.next_due) if at is not None]
        self.both(lambda s: s.schedules.get(TENANT, schedule.id))
        rows = self.both(lambda s: s.schedules.occurrences(TENANT, schedule.uid, OccurrenceFilter(), None, 1_000))
        self.jobs = list({*self.jobs, *(row.job_id for row in rows if row.job_id is not None)})
        self.both(lambda s: s.reader.get(TENANT, self.jobs))

    def _drawn_id(self, row: JobRow) -> JobId:
        """What PostgreSQL called it, which was asked first."""
        assert row.origin is not None
        found = self._rig.connection.execute(
            "SELECT id::text FROM jobs WHERE schedule_uid = %s AND nominal_at = %s AND occurrence_generation = 0",
            (row.origin.schedule_uid, row.origin.nominal_at),
        ).fetchone()
        return JobId(found[0]) if found is not None else row.spec.id


async def _or_unwritable(work: Awaitable[T]) -> T | None:
    try:
        return await work
    except Unwritable:
        return None


def _fired(found: tuple[list[Entry], set[ScheduleUid]] | None) -> object:
    return None if found is None else (_sorted(found[0]), sorted(found[1]))


def _sorted(entries: Sequence[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: entry.id)


def _remade(entries: Sequence[Entry]) -> list[Entry]:
    """By the part of the id that is the same."""
    return sorted((replace(entry, id=JobId(entry.id[:24])) for entry in entries), key=lambda entry: entry.id)


def _by_uid(found: Sequence[Armed]) -> list[Armed]:
    return sorted(found, key=lambda armed: armed.uid)
