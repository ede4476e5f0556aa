"""The simulation's store and PostgreSQL side by side: every operation gives the same answer, whatever came before.

So what the simulation finds out about coordinators over the one holds over the other. Both run by the same clock: the
database's `now()` and its like are what the test sets, found before PostgreSQL's own through the search path. Arguments
are drawn from what was issued (ids, fences, sessions, epochs, decisions), dead ones included, since random ones would
meet no guard. Two connections at once are not compared here: a serial store has no such thing.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rota.domain.fairness import FIRST, Entry, LaneKey, Position
from rota.domain.ids import CoordinatorId, Fence, JobId, SessionId, ShardNo, TenantId, mint_fence, uuid7
from rota.domain.model import (
    Dedupe,
    DedupeConflict,
    DedupeScope,
    EffectReceipt,
    EffectState,
    Failure,
    Grant,
    JobSpec,
    JobState,
    LiveJob,
    Outcome,
    Payload,
    Result,
    RetryPolicy,
    Session,
    SessionState,
    ShardTerm,
    Timeouts,
)
from rota.domain.transition import Finish, Requeue
from rota.store.codec import instant
from rota.store.port import BeatUpdate, Claim, CreateCall, Decided, JobFilter

from .sidebyside import START_US, Rig, SideBySide, of, side_by_side

T = TypeVar("T")

TENANTS = (TenantId(10), TenantId(11))
SHARDS = 3
COORDINATORS = tuple(CoordinatorId(uuid7(1, number)) for number in range(3))
WEEK_S = 7 * 86_400.0

pick = st.integers(0, 1_000)
few = st.lists(pick, min_size=1, max_size=3)
shards = st.lists(st.sampled_from([ShardNo(number) for number in range(SHARDS)]), unique=True)


@pytest.fixture
def rig(database: str) -> Iterator[Rig]:
    with side_by_side(database) as rig:
        yield rig


@pytest.mark.timeout(600)
def test_the_simulated_store_is_postgresql(rig: Rig) -> None:
    run_state_machine_as_test(
        lambda: Machine(rig),
        settings=settings(
            max_examples=60,
            stateful_step_count=60,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )


class Machine(SideBySide):
    def __init__(self, rig: Rig) -> None:
        super().__init__(rig)
        self._numbers = itertools.count(1)
        # What was issued, never forgotten.
        self.specs: list[JobSpec] = []
        self.sessions: list[SessionId] = []
        self.grants: list[Grant] = []
        self.terms: list[ShardTerm] = []
        self.instants: list[int] = [START_US]
        self.term_ends: dict[CoordinatorId, int] = {}
        self.session_ends: dict[SessionId, tuple[float, int]] = {}
        """TTL, and when it is over."""
        self.lives: list[LiveJob] = []
        self.positions: list[Position] = [FIRST]

    @initialize()
    def begin(self) -> None:
        """Something to work with: an owner of some shards, a session, jobs that are due."""
        self.register(0, "a", 9.0)
        self.acquire(0, SHARDS - 1)
        self.open(0, 0, 60.0)
        self.create([(2, "", 1), (2, "", 5)])
        self.claim([0, 1, 2], 0, 0, "newest", 1)

    # Time

    @rule(when=st.integers(0, 5))
    def time_reaches(self, when: int) -> None:
        """The very instant at which something is due, or too late to start."""
        self.clock.set(of(self.instants, when))

    @precondition(lambda self: self.term_ends)
    @rule(who=pick, then=st.sampled_from(("renew", "acquire", "register")))
    def a_term_ends(self, who: int, then: str) -> None:
        """The very instant of it; then this one, or another one, acts."""
        coordinator = of(list(self.term_ends), who // 2)
        self.clock.set(self.term_ends[coordinator])
        me = len(COORDINATORS) - 1 - COORDINATORS.index(coordinator)
        if then == "renew":
            self.renew(me)
        elif then == "acquire":
            self.acquire(me + who % 2, SHARDS)
        else:
            self.register(me + 1, "c", 2.0)

    @precondition(lambda self: self.session_ends)
    @rule(session=pick)
    def a_session_ends(self, session: int) -> None:
        self.clock.set(of(list(self.session_ends.values()), session)[1])
        self.expire()

    @rule(seconds=st.sampled_from((0.000_001, 0.25, 1.0, 5.0, 60.0, 600.0, -0.5, -5.0)))
    def time_passes(self, seconds: float) -> None:
        self.clock.set(self.clock.now_us() + round(seconds * 1e6))

    # Coordinators and shards

    @rule(who=pick, where=st.sampled_from("ab"), term_s=st.sampled_from((2.0, 9.0)), peer=st.sampled_from(("", "p")))
    def register(self, who: int, where: str, term_s: float, peer: str = "") -> None:
        id = of(COORDINATORS, who)
        if self.refusable(lambda s: s.shards.register(id, where, "1", term_s, peer)) is not None:
            self.term_ends[id] = self._in(term_s)

    @rule(who=pick)
    def renew(self, who: int) -> None:
        id = of(COORDINATORS, who)
        if self.both(lambda s: s.shards.renew(id, 9.0))[0]:
            self.term_ends[id] = self._in(9.0)

    @rule(who=pick, limit=st.sampled_from((1, SHARDS)), only=st.none() | shards)
    def acquire(self, who: int, limit: int, only: list[ShardNo] | None = None) -> None:
        terms = self.both(lambda s: s.shards.acquire(of(COORDINATORS, who), limit, only), _sorted)
        self.terms += terms

    @rule()
    def roster(self) -> None:
        self.both(lambda s: s.shards.roster(), lambda found: (_sorted(list(found.living)), dict(found.shards)))

    @rule(who=pick, which=shards)
    def give_up(self, who: int, which: list[ShardNo]) -> None:
        self.both(lambda s: s.shards.give_up(of(COORDINATORS, who), which), _sorted)

    @rule(who=pick)
    def drain(self, who: int) -> None:
        self.both(lambda s: s.shards.drain(of(COORDINATORS, who)))
        self.roster()

    @rule(who=pick)
    def release(self, who: int) -> None:
        self.both(lambda s: s.shards.release(of(COORDINATORS, who)))

    @rule(who=pick, shard=st.integers(0, SHARDS - 1), ago_s=st.sampled_from((0, 60)))
    def set_watermarks(self, who: int, shard: int, ago_s: int) -> None:
        marks = {ShardNo(shard): self.clock.now_us() - ago_s * 1_000_000}
        self.both(lambda s: s.shards.set_watermarks(marks, of(COORDINATORS, who)))
        self.both(lambda s: s.shards.watermarks([ShardNo(number) for number in range(SHARDS)]))

    # Creating

    @rule(calls=st.lists(st.tuples(st.integers(1, 2), st.sampled_from(("", "", "r1", "r2", "r3")), pick), max_size=3))
    def create(self, calls: list[tuple[int, str, int]]) -> None:
        made: dict[object, CreateCall] = {}
        for number, (count, request, how) in enumerate(calls):
            tenant = of(TENANTS, how // 7)
            specs = [self._spec(tenant, how + index) for index in range(count)]
            made[(tenant, request) if request else number] = CreateCall(specs, tenant, 1, request, b"%d" % (how % 2))
        if not made:
            return
        batch = list(made.values())
        created = self.both(lambda s: s.jobs.create(batch))
        self.specs += [spec for call in batch for spec in call.specs if spec.id in created]
        for job in created.values():
            self.instants += [job.due_us, job.due_us + 1_500_000]
        self.both(lambda s: s.jobs.earlier(batch))

    @rule(hows=few, request=st.sampled_from(("", "r1", "d1", "d2")), repeat=pick)
    def create_deduped(self, hows: list[int], request: str, repeat: int) -> None:
        tenant = of(TENANTS, repeat)
        specs = [
            replace(
                self._spec(tenant, how),
                dedupe=Dedupe(
                    "xy"[how % 2],
                    of(list(DedupeScope), how // 2),
                    of((None, 5.0), how // 6),
                    of(list(DedupeConflict), how // 12),
                )
                if how % 5
                else None,
            )
            for how in hows
        ]
        call = CreateCall(specs, tenant, 2, request, b"")
        answer = self.refusable(lambda s: s.jobs.create_deduped(call))
        if answer is not None:
            self.specs += [spec for spec in specs if spec.id in answer[0]]

    # Leasing

    @rule(
        after=pick,
        until_s=st.sampled_from((-1, 0, 10, 1_000)),
        page=st.sampled_from((1, 2, 50)),
        lane=st.none() | st.sampled_from((LaneKey(TENANTS[0], "a", "t"), LaneKey(TENANTS[1], "b", "t"))),
    )
    def read_due(self, after: int, until_s: int, page: int, lane: LaneKey | None) -> None:
        cursors = [(ShardNo(number), of(self.positions, after // (number + 1))) for number in range(SHARDS)]
        until_us = self.clock.now_us() + until_s * 1_000_000
        rows = self.both(lambda s: s.leases.read_due(cursors, until_us, page, lane), lambda rows: _by_shard(rows))
        self.positions += [row.entry.position for row in rows]

    @precondition(lambda self: self.specs)
    @rule(
        jobs=few,
        who=pick,
        session=pick,
        epoch=st.sampled_from(("newest", "newest", "reuse", "any")),
        counter=pick,
    )
    def claim(self, jobs: list[int], who: int, session: int, epoch: str, counter: int) -> None:
        if not self.sessions:
            self.open(0, 0, 60.0)
        claims: dict[JobId, Claim] = {}
        for job in jobs:
            spec = of(self.specs, job)
            fence = self._fence(spec, epoch, counter)
            claims[spec.id] = Claim(_entry(spec), fence, of(self.sessions, session))
        owner = of(COORDINATORS, who) if who % 4 == 3 or not self.terms else of(self.terms, who // 4).owner
        batch = list(claims.values())
        grants = self.both(lambda s: s.leases.claim(batch, owner), _by_job)
        self.grants += grants
        self._look([(claim.entry.tenant_id, claim.entry.id) for claim in batch])

    # Outcomes

    @precondition(lambda self: self.grants)
    @rule(leases=few, foreign=st.booleans(), how=pick)
    def succeed(self, leases: list[int], foreign: bool, how: int) -> None:
        results = self._results(leases, foreign, how)
        self.both(lambda s: s.outcomes.succeed(results))
        self._look([(result.tenant_id, result.job_id) for result in results])

    @precondition(lambda self: self.grants)
    @rule(lease=pick, foreign=st.booleans(), how=pick)
    def succeed_and_spawn(self, lease: int, foreign: bool, how: int) -> None:
        (result,) = self._results([lease], foreign, how)
        call = CreateCall([self._spec(result.tenant_id, how)], result.tenant_id, 3, "", b"")
        _, created = self.both(lambda s: s.outcomes.succeed_and_spawn(result, call))
        if created:
            self.specs += call.specs
        self._look([(result.tenant_id, result.job_id)])

    @precondition(lambda self: self.specs)
    @rule(jobs=few, wrong_tenant=st.booleans())
    def live(self, jobs: list[int], wrong_tenant: bool) -> None:
        specs = {spec.id: spec for spec in (of(self.specs, job) for job in jobs)}
        keys = [(TENANTS[0] if wrong_tenant else spec.tenant_id, spec.id) for spec in specs.values()]
        found, _ = self.both(lambda s: s.outcomes.live(keys))
        self.lives += found.values()

    @precondition(lambda self: self.lives)
    @rule(jobs=few, how=pick, what=st.sampled_from(("requeue", "finish", "bury")), fresh=st.booleans())
    def decide(self, jobs: list[int], how: int, what: str, fresh: bool) -> None:
        """Writes decisions, on what was read just now or long ago."""
        read = {live.id: live for live in (of(self.lives, job) for job in jobs)}
        if fresh:
            keys = [(live.tenant_id, live.id) for live in read.values()]
            read, _ = self.both(lambda s: s.outcomes.live(keys))
        held = [live for live in read.values() if live.leased_at is not None]
        waiting = [live for live in read.values() if live.leased_at is None]
        if what == "finish" and waiting:
            ends = [
                Decided(live, Finish(of((JobState.CANCELLED, JobState.EXPIRED), how), False), None) for live in waiting
            ]
            self.both(lambda s: s.outcomes.finish(ends))
        if held:
            items = [self._decided(live, what, how) for live in held]
            self.both(lambda s: getattr(s.outcomes, what)(items))
        self._look([(live.tenant_id, live.id) for live in read.values()])

    @precondition(lambda self: self.grants)
    @rule(who=pick, step=st.sampled_from((0, 1, -1)))
    def put_back_and_claim(self, who: int, step: int) -> None:
        """Again, under a fence that is the last one's, or beside it."""
        keys = list({(grant.tenant_id, grant.job_id): None for grant in self.grants})
        found, now = self.both(lambda s: s.outcomes.live(keys))
        held = [live for live in found.values() if live.leased_at is not None]
        if not held or now is None:
            return
        live = of(held, who)
        back = Decided(live, Requeue(JobState.SCHEDULED, now, False), Outcome.RELEASED)
        self.both(lambda s: s.outcomes.requeue([back]))
        spec = next(spec for spec in self.specs if spec.id == live.id)
        claim = Claim(_entry(spec), Fence(live.fence + step), of(self.sessions, who))
        owner = next((term.owner for term in reversed(self.terms) if term.shard == spec.shard), COORDINATORS[0])
        self.grants += self.both(lambda s: s.leases.claim([claim], owner), _by_job)
        self._look([(spec.tenant_id, spec.id)])

    @precondition(lambda self: self.grants)
    @rule(leases=few, beside=st.booleans())
    def ended(self, leases: list[int], beside: bool) -> None:
        grants = {(g.job_id, g.fence): g for g in (of(self.grants, lease) for lease in leases)}
        keys = [(g.tenant_id, g.job_id, Fence(g.fence + beside)) for g in grants.values()]
        self.both(lambda s: s.outcomes.ended(keys))

    @precondition(lambda self: self.grants)
    @rule(lease=pick, reason=st.sampled_from(("", "enough")), report=st.booleans())
    def set_cancelling(self, lease: int, reason: str, report: bool) -> None:
        grant = of(self.grants, lease)
        self.both(lambda s: s.jobs.set_cancelling(grant.tenant_id, grant.job_id, grant.fence, reason))
        self._look([(grant.tenant_id, grant.job_id)])
        if report:
            self.succeed([lease], False, lease)

    # Sessions

    @rule(tenant=pick, again=pick, ttl_s=st.sampled_from((3.0, 60.0)))
    def open(self, tenant: int, again: int, ttl_s: float) -> None:
        """A new session; or one with an id that was used, sometimes by the other tenant."""
        used = self.sessions and again % 4 == 3
        id = of(self.sessions, again) if used else SessionId(uuid7(2, next(self._numbers)))
        session = Session(
            id=id,
            tenant_id=of(TENANTS, tenant),
            epoch=0,
            worker=f"w{again % 3}",
            sdk="s",
            build_id="b",
            queues=("a", "b", "a"),
            types=("t",),
            slots=4,
            labels={"zone": "1"} if again % 2 else {},
            protocol_version=1,
            state=SessionState.ACTIVE,
            opened_at=datetime(1970, 1, 1, tzinfo=UTC),
            last_beat_at=datetime(1970, 1, 1, tzinfo=UTC),
            expires_at=datetime(1970, 1, 1, tzinfo=UTC),
            free_slots=4,
            coordinator=of(COORDINATORS, again),
        )
        if self.refusable(lambda s: s.sessions.open(session, ttl_s), _one_session) is not None:
            self.sessions.append(id)
            self.session_ends[id] = ttl_s, self._in(ttl_s)

    @precondition(lambda self: self.sessions)
    @rule(sessions=few, who=pick)
    def beat(self, sessions: list[int], who: int) -> None:
        ids = dict.fromkeys(of(self.sessions, session) for session in sessions)
        beats = [BeatUpdate(id, free_slots) for free_slots, id in enumerate(ids)]
        alive = self.both(lambda s: s.sessions.beat(beats, of(COORDINATORS, who)))
        for id in alive:
            ttl_s, _ = self.session_ends[id]
            self.session_ends[id] = ttl_s, self._in(ttl_s)
        self._look_at_sessions()

    @precondition(lambda self: self.sessions)
    @rule(session=pick, state=st.sampled_from(SessionState), tenant=pick)
    def set_state(self, session: int, state: SessionState, tenant: int) -> None:
        id = of(self.sessions, session)
        self.both(lambda s: s.sessions.set_state(of(TENANTS, tenant), id, state), _one_session)
        self.both(lambda s: s.sessions.get(id), _one_session)

    @rule()
    def expire(self) -> None:
        self.both(lambda s: s.sessions.expire(), _sorted)

    @rule(silent_s=st.sampled_from((0.0, 5.0, 1e8)))
    def grant_amnesty(self, silent_s: float) -> None:
        self.both(lambda s: s.sessions.grant_amnesty(silent_s))
        self._look_at_sessions()

    @rule(tenant=pick, before=pick, limit=st.sampled_from((1, 10)))
    def page_sessions(self, tenant: int, before: int, limit: int) -> None:
        last = of(self.sessions, before) if self.sessions and before % 2 else None
        self.both(
            lambda s: s.sessions.page(of(TENANTS, tenant), last, limit),
            lambda found: [_one_session(session) for session in found],
        )

    # Reading

    @precondition(lambda self: self.specs)
    @rule(jobs=few, tenant=pick)
    def get(self, jobs: list[int], tenant: int) -> None:
        ids = [of(self.specs, job).id for job in jobs]
        self.both(lambda s: s.reader.get(of(TENANTS, tenant), ids))

    @rule(
        tenant=pick,
        before=pick,
        limit=st.sampled_from((1, 3, 50)),
        state=st.none() | st.sampled_from(JobState),
        queue=st.sampled_from(("", "", "a", "b")),
        labels=st.sampled_from((None, None, {"k": "1"})),
    )
    def page(
        self, tenant: int, before: int, limit: int, state: JobState | None, queue: str, labels: dict[str, str] | None
    ) -> None:
        where = JobFilter(queue=queue, type="t" if before % 3 else "", state=state, labels=labels)
        last = of(self.specs, before).id if self.specs and before % 2 else None
        self.both(lambda s: s.reader.page(of(TENANTS, tenant), where, last, limit))

    @precondition(lambda self: self.specs)
    @rule(job=pick, after=st.sampled_from((0, 0, 1)), limit=st.sampled_from((1, 50)))
    def attempts(self, job: int, after: int, limit: int) -> None:
        spec = of(self.specs, job)
        self.both(lambda s: s.reader.attempts(spec.tenant_id, spec.id, after, limit))

    @rule()
    def delete_requests(self) -> None:
        self.both(lambda s: s.history.delete_requests(WEEK_S, 100))

    # Making arguments

    def _in(self, seconds: float) -> int:
        return self.clock.now_us() + round(seconds * 1e6)

    def _look_at_sessions(self) -> None:
        for id in self.sessions[-4:]:
            self.both(lambda s, id=id: s.sessions.get(id), _one_session)

    def _look(self, keys: Sequence[tuple[TenantId, JobId]]) -> None:
        """Everything that can be read of jobs that something was just done to."""
        found, _ = self.both(lambda s: s.outcomes.live(keys))
        self.lives += found.values()
        jobs = {job for _, job in keys}
        leases = [
            (g.tenant_id, g.job_id, Fence(g.fence + step)) for g in self.grants if g.job_id in jobs for step in (0, 1)
        ]
        if leases:
            self.both(lambda s: s.outcomes.ended(leases))
        for tenant in TENANTS:
            ids = [job for owner, job in keys if owner == tenant]
            if ids:
                self.both(lambda s, tenant=tenant, ids=ids: s.reader.get(tenant, ids))
                self.both(lambda s, tenant=tenant, ids=ids: s.reader.attempts(tenant, ids[0], 0, 50))

    def _spec(self, tenant: TenantId, how: int) -> JobSpec:
        id = JobId(uuid7(3, next(self._numbers)))
        later = how % 4 == 3
        return JobSpec(
            tenant,
            id,
            ShardNo(how % SHARDS),
            "t" if how % 5 else "t/é",
            "ab"[how // 2 % 2],
            how % 10,
            Payload(b"x" * (how % 3), "text/plain"),
            run_time=instant(self.clock.now_us() + (how - 500) * 10_000) if how % 7 == 6 else None,
            delay_s=(how % 3) * 2.5 if later else 0.0,
            headers={"h": "ü"} if how % 2 else {},
            labels={"k": str(how % 2)} if how % 3 else {},
            retry=RetryPolicy(max_attempts=how % 4 + 1, non_retryable_types=("E",) if how % 2 else ()),
            timeouts=Timeouts(
                start_by_s=1.5 if how % 6 == 5 else None,
                run_s=10.5 if how % 2 else 3_600.0,
                total_s=30.0 if how % 9 == 8 else None,
            ),
            effect_key="e" if how % 8 == 7 else "",
            concurrency_key="c" if how % 8 == 6 else "",
            traceparent="tp" if how % 8 == 5 else "",
            tracestate="ts" if how % 8 == 5 else "",
        )

    def _fence(self, spec: JobSpec, epoch: str, counter: int) -> Fence:
        mine = [0] + [term.epoch for term in self.terms if term.shard == spec.shard]
        used = [grant.fence for grant in self.grants if grant.job_id == spec.id]
        if epoch == "reuse" and used:
            return Fence(of(used, counter // 3) + (0, 1, -1)[counter % 3])
        return mint_fence(max(mine) if epoch == "newest" else of(mine, counter), counter % 20 + 1)

    def _results(self, leases: Sequence[int], foreign: bool, how: int) -> list[Result]:
        grants = {grant.job_id: grant for grant in (of(self.grants, lease) for lease in leases)}
        return [
            Result(
                grant.tenant_id,
                of(self.sessions, how) if foreign else grant.session_id,
                grant.job_id,
                grant.fence,
                Outcome.SUCCEEDED,
                request_id=f"q{how}",
                payload=Payload(b"done", "x/y") if how % 2 else None,
                effect_state=of(list(EffectState), how),
                effect_receipts=(EffectReceipt("key", "ref"),) if how % 3 == 0 else (),
            )
            for grant in grants.values()
        ]

    def _decided(self, live: LiveJob, what: str, how: int) -> Decided:
        outcome = of((Outcome.FAILED, Outcome.RELEASED, Outcome.LEASE_LOST, Outcome.TIMED_OUT), how)
        counted = outcome is not Outcome.RELEASED
        decision: Requeue | Finish
        if what == "requeue":
            due_at = instant(self.clock.now_us() + how % 3 * 1_000_000)
            decision = Requeue(JobState.RETRY_WAIT if counted else JobState.SCHEDULED, due_at, counted)
        elif what == "finish":
            decision = Finish(JobState.CANCELLED, counted, "why" if how % 2 else "")
        else:
            decision = Finish(JobState.DEAD, counted, "used up")
        return Decided(
            live,
            decision,
            outcome,
            Failure("E", "boom", "at") if how % 2 else None,
            f"q{how}" if how % 3 else "",
            of(list(EffectState), how),
            (EffectReceipt("key", "ref"),) if how % 4 == 0 else (),
        )


def _sorted(found: list[Any]) -> list[Any]:
    return sorted(found, key=str)


def _by_job(grants: list[Grant]) -> dict[JobId, Grant]:
    return {grant.job_id: grant for grant in grants}


def _by_shard(rows: list[Any]) -> dict[ShardNo, list[Any]]:
    """In due order within each shard; shards come in any order."""
    found: dict[ShardNo, list[Any]] = {}
    for row in rows:
        found.setdefault(row.entry.shard, []).append(row)
    return found


def _one_session(session: Session | None) -> Session | None:
    """Session epochs only grow; an insert that meets its id uses one up in PostgreSQL."""
    return None if session is None else replace(session, epoch=0)


def _entry(spec: JobSpec) -> Entry:
    return Entry(spec.tenant_id, spec.id, spec.shard, spec.queue, spec.type, spec.priority, 0, len(spec.payload.data))
