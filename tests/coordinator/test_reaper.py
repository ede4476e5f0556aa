"""Reaper: what it ends, when, and that a gap in its own hearing kills nobody."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from rota.coordinator import reaper as module
from rota.coordinator.reaper import Reaper
from rota.domain.errors import Unavailable
from rota.domain.fairness import Entry
from rota.domain.ids import JobId, SessionId, TenantId
from rota.domain.model import DirectiveKind, Outcome
from rota.domain.transition import Ending
from rota.service.completions import LostLease

from .fakes import PEER, SESSION, TENANT, World, grant, job_id, session

TTL_S = 12.0


class FakeSessions:
    """The rows of sessions: when each expires, by the database's clock."""

    def __init__(self, world: World) -> None:
        self.ttl_s = TTL_S
        self._world = world
        self.expires: dict[SessionId, float] = {}
        self.amnesties: list[float] = []
        self.down = False
        self.stepped_s = 0.0

    def now(self) -> datetime:
        """By the database's clock."""
        return self._world.clock.utc() + timedelta(seconds=self.stepped_s)

    def beat(self, session: SessionId) -> None:
        self.expires[session] = self.now().timestamp() + self.ttl_s

    async def expire(self, latest: datetime) -> list[SessionId]:
        if self.down:
            raise Unavailable("down")
        now = min(self.now(), latest).timestamp()
        gone = [id for id, at in self.expires.items() if at <= now]
        for id in gone:
            del self.expires[id]
        return gone

    async def grant_amnesty(self, silent_s: float) -> int:
        if self.down:
            raise Unavailable("down")
        self.amnesties.append(silent_s)
        now = self.now().timestamp()
        spared = [id for id, at in self.expires.items() if at > now - silent_s]
        for id in spared:
            self.beat(id)
        return len(spared)


class FakeCompletions:
    def __init__(self) -> None:
        self.ended: list[LostLease] = []
        self.expired: list[JobId] = []
        self.still_waiting: list[Entry] = []
        self.now: datetime | None = None
        self.down = False

    async def lose(self, leases: Sequence[LostLease]) -> int:
        if self.down:
            raise Unavailable("down")
        self.ended += leases
        return len(leases)

    async def waiting(self, jobs: Sequence[tuple[TenantId, JobId]]) -> tuple[list[Entry], datetime | None]:
        return [entry for entry in self.still_waiting if (entry.tenant_id, entry.id) in jobs], self.now

    async def expire(self, jobs: Sequence[tuple[TenantId, JobId]]) -> int:
        if self.down:
            raise Unavailable("down")
        self.expired += [job for _, job in jobs]
        return len(jobs)


class Scene(World):
    def __init__(self) -> None:
        super().__init__()
        self.sessions = FakeSessions(self)
        self.completions = FakeCompletions()
        self.reaper = Reaper(
            self.memory,
            self.completions,  # type: ignore[arg-type]
            self.sessions,  # type: ignore[arg-type]
            self.clock,
            self.database_clock,
            self.metrics,
            self.peers,
            delivery_ttl_s=5.0,
        )

    async def run(self, seconds: float, *, tick_s: float = 1.0) -> None:
        """Steps each tick, as the loop does."""
        until = self.clock.now + seconds
        while self.clock.now < until - 1e-9:
            self.clock.now += tick_s
            await self.reaper.step_safely()

    def outcomes(self) -> list[tuple[JobId, Outcome]]:
        return [(lease.job_id, lease.ending.outcome) for lease in self.completions.ended]


@pytest.fixture
async def scene() -> Scene:
    scene = Scene()
    await scene.reaper.step()
    return scene


async def test_a_session_without_a_beat_dies_and_loses_its_leases(scene: Scene) -> None:
    gone: list[SessionId] = []
    scene.memory.on_member_gone = lambda member: gone.append(member.id)
    scene.memory.members.add(session(), "tenant", 1, scene.clock.now)
    other = SessionId("other")
    for each in (SESSION, other):
        scene.sessions.beat(each)
    for number, owner in ((1, SESSION), (2, SESSION), (3, other)):
        scene.memory.in_flight.add(scene.flight(number, session=owner, run_s=1_000.0))
    await scene.run(TTL_S - 1)
    scene.sessions.beat(other)
    assert (scene.outcomes(), gone) == ([], [])
    await scene.run(2)
    assert sorted(scene.outcomes()) == [(job_id(n), Outcome.LEASE_LOST) for n in (1, 2)]
    assert gone == [SESSION]
    assert [f.job_id for f in scene.memory.in_flight] == [job_id(3)]


@pytest.mark.parametrize("gap", ["paused", "store down"])
async def test_a_gap_in_which_nobody_could_be_heard_kills_nobody(scene: Scene, gap: str) -> None:
    scene.sessions.beat(SESSION)
    await scene.run(2)
    if gap == "paused":
        scene.clock.now += 60.0
    else:
        scene.sessions.down = True
        await scene.run(60.0)
        scene.sessions.down = False
    await scene.reaper.step_safely()
    assert len(scene.sessions.amnesties) == 1
    assert SESSION in scene.sessions.expires
    # From then on it has a full term, and no more.
    await scene.run(TTL_S - 2)
    assert SESSION in scene.sessions.expires
    await scene.run(3)
    assert SESSION not in scene.sessions.expires
    assert len(scene.sessions.amnesties) == 1


async def test_the_usual_tick_is_no_gap(scene: Scene) -> None:
    scene.sessions.beat(SESSION)
    await scene.run(TTL_S + 2)
    assert scene.sessions.amnesties == []
    assert SESSION not in scene.sessions.expires


@pytest.mark.parametrize("ttl_s", [1.0, 2.0, 7.0])
async def test_short_terms_are_swept_more_often(ttl_s: float) -> None:
    """So that the pause between two sweeps is no gap, and grants no amnesty for ever."""
    scene = Scene()
    scene.sessions.ttl_s = ttl_s
    tick_s = await scene.reaper.step()
    scene.sessions.beat(SESSION)
    await scene.run(ttl_s + 2 * tick_s, tick_s=tick_s)
    assert (scene.sessions.amnesties, SESSION in scene.sessions.expires) == ([], False)


@pytest.mark.parametrize("ttl_s", [1.0, 2.0, 7.0, 60.0])
async def test_a_gap_as_long_as_the_term_kills_nobody_however_short_it_is(ttl_s: float) -> None:
    scene = Scene()
    scene.sessions.ttl_s = ttl_s
    await scene.reaper.step()
    scene.sessions.beat(SESSION)
    scene.clock.now += ttl_s + 0.1
    await scene.reaper.step_safely()
    assert SESSION in scene.sessions.expires


async def test_those_who_died_before_the_gap_stay_dead() -> None:
    scene = Scene()
    await scene.reaper.step()
    scene.sessions.beat(SESSION)
    scene.sessions.expires[SESSION] -= 1_000.0
    scene.clock.now += 20.0
    await scene.reaper.step_safely()
    assert SESSION not in scene.sessions.expires


async def test_the_first_coordinator_after_a_downtime_spares_everybody() -> None:
    scene = Scene()
    scene.sessions.beat(SESSION)
    scene.clock.now += 100_000.0
    scene.reaper.expect_survivors()
    await scene.reaper.step()
    assert SESSION in scene.sessions.expires
    # Another one was there all the time: it has heard who lives.
    second = Scene()
    second.sessions.beat(SESSION)
    second.clock.now += 100_000.0
    await second.reaper.step()
    assert SESSION not in second.sessions.expires


async def test_unproven_answers_are_given_back_after_the_delivery_ttl(scene: Scene) -> None:
    member = scene.memory.members.add(session(), "tenant", 1, scene.clock.now)
    scene.sessions.beat(SESSION)
    member.deliver(member.number_batch(), 0, "r", [grant(1), grant(2)], scene.clock.now)
    proven = member.deliver(member.number_batch(), 1, "r", [grant(3)], scene.clock.now)
    proven.proven = True
    await scene.run(4)
    assert scene.outcomes() == []
    await scene.run(2)
    assert scene.outcomes() == [(job_id(1), Outcome.UNDELIVERED), (job_id(2), Outcome.UNDELIVERED)]
    assert scene.metrics.snapshot()["rota.leases.released_undelivered"] == 2


async def test_an_attempt_over_its_time_is_ended_and_its_worker_told(scene: Scene) -> None:
    member = scene.memory.members.add(session(), "tenant", 1, scene.clock.now)
    scene.sessions.beat(SESSION)
    scene.memory.in_flight.add(scene.flight(1, run_s=3.0))
    await scene.run(2)
    assert scene.outcomes() == []
    await scene.run(2)
    assert scene.outcomes() == [(job_id(1), Outcome.TIMED_OUT)]
    assert [(d.kind, d.job) for d in member.directives.values()] == [(DirectiveKind.LOST, job_id(1))]
    assert len(scene.memory.in_flight) == 0


async def test_what_cannot_be_written_now_is_ended_later(scene: Scene) -> None:
    scene.memory.in_flight.add(scene.flight(1, run_s=1.0))
    scene.memory.ready.push(scene.entry(5, -5.0, start_by=scene.database_clock.now() + 0.5))
    scene.completions.down = True
    await scene.run(5)
    assert (scene.outcomes(), scene.completions.expired) == ([], [])
    scene.completions.down = False
    await scene.run(2)
    assert scene.outcomes() == [(job_id(1), Outcome.TIMED_OUT)]
    assert scene.completions.expired == [job_id(5)]


async def test_large_numbers_go_in_bounded_bites_without_pause(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 10)
    scene.reaper.give_back([_undelivered(n) for n in range(25)])
    scene.reaper.expire([scene.entry(n) for n in range(100, 125)])
    waits = [await scene.reaper.step() for _ in range(3)]
    assert waits == [0.0, 0.0, module.TICK_S]
    assert len(scene.completions.ended) == len(scene.completions.expired) == 25


async def test_giving_back_is_bounded(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENDED_MAX", 5)
    for n in range(10):
        scene.reaper.give_back([_undelivered(n)])
    await scene.reaper.step()
    assert len(scene.completions.ended) == 5


async def test_a_claim_that_came_back_empty_puts_its_job_back(scene: Scene) -> None:
    entry = scene.entry(1, -1.0)
    scene.completions.still_waiting = [entry]
    scene.reaper.give_back([_undelivered(1)])
    await scene.reaper.step()
    assert entry.id in scene.memory.ready


async def test_the_estimate_of_the_clock_is_corrected_by_what_a_claim_was_refused_for(scene: Scene) -> None:
    """Due by the estimate and not by the database: offered again at once it would be refused again."""
    entry = scene.entry(1, -0.01)
    scene.completions.still_waiting = [entry]
    scene.completions.now = scene.database_clock.datetime() - timedelta(seconds=2)
    scene.reaper.give_back([_undelivered(1)])
    await scene.reaper.step()
    assert entry.id not in scene.memory.ready
    assert scene.memory.timers == 1
    scene.memory.close()


async def test_waiting_jobs_past_their_start_are_expired(scene: Scene) -> None:
    now = scene.database_clock.now()
    late, kept = scene.entry(1, -5.0, start_by=now + 2.5), scene.entry(2, -5.0, start_by=now + 60)
    for entry in (late, kept):
        scene.memory.ready.push(entry)
    await scene.run(2)
    assert scene.completions.expired == []
    await scene.run(1)
    assert scene.completions.expired == [late.id]
    assert (late.id in scene.memory.ready, kept.id in scene.memory.ready) == (False, True)


async def test_who_is_not_heard_of_for_long_is_forgotten(scene: Scene) -> None:
    """It lives and talks to a peer, where its beats go."""
    members = scene.memory.members
    members.add(session(), "tenant", 1, scene.clock.now)
    polling = members.add(session(id=SessionId("polling")), "tenant", 1, scene.clock.now)
    beating = members.add(session(id=SessionId("beating")), "tenant", 1, scene.clock.now)
    for _ in range(int(2 * module.ABSENT_TTLS + module.ABSENT_EVERY_S / (TTL_S - 1)) + 1):
        for each in (SESSION, polling.id, beating.id):
            scene.sessions.beat(each)
        polling.last_poll_at = beating.last_beat_at = scene.clock.now
        await scene.run(TTL_S - 1)
    assert SESSION not in members
    assert polling.id in members and beating.id in members


async def test_peers_are_told_of_sessions_that_have_run_out() -> None:
    scene = Scene()
    told = scene.meet()
    await scene.reaper.step()
    scene.sessions.beat(SESSION)
    await scene.run(TTL_S + 2)
    assert told.sessions_ended == [SESSION]


async def test_of_many_leases_that_nobody_tells_of_a_worker_is_asked_once() -> None:
    scene = Scene()
    told = scene.meet()
    other = SessionId("other")
    for number in range(6):
        whose = SESSION if number % 2 else other
        scene.memory.in_flight.add(scene.flight(number, session=whose, via=PEER, asked_at=scene.clock.now, run_s=99.0))
    await scene.run(5.0 + module.UNHEARD_S)
    assert told.orders == []
    await scene.run(2.0)
    assert sorted((o.session_id, o.kind) for o in told.orders) == [
        (SESSION, DirectiveKind.RESYNC),
        (other, DirectiveKind.RESYNC),
    ]
    # From here on any inventory tells.
    assert all((f.poller, f.batch, f.via) == (-1, 0, None) for f in scene.memory.in_flight)


async def test_it_is_woken_by_work_and_not_by_nothing(scene: Scene) -> None:
    scene.reaper._wake.clear()
    scene.reaper.give_back([])
    scene.reaper.expire([])
    assert not scene.reaper._wake.is_set()
    scene.reaper.give_back([_undelivered(1)])
    assert scene.reaper._wake.is_set()


@pytest.mark.parametrize("step_s", [3_600.0, -3_600.0])
async def test_a_step_of_the_databases_clock_kills_nobody_and_keeps_nobody_alive(scene: Scene, step_s: float) -> None:
    """As a failover to a machine whose clock is another one. The living beat on, the dead one does not."""
    dead = SessionId("50000000-0000-7000-8000-00000000dead")
    scene.sessions.beat(dead)

    async def pass_by(seconds: float) -> None:
        for _ in range(int(seconds)):
            scene.sessions.beat(SESSION)
            await scene.run(1.0)

    scene.sessions.beat(SESSION)
    await scene.reaper.step()
    scene.sessions.stepped_s = step_s
    # Not known here yet.
    await scene.reaper.step()
    assert set(scene.sessions.expires) == {SESSION, dead}
    scene.database_clock.observe(scene.sessions.now(), scene.clock.monotonic())
    await scene.run(1.0)
    assert len(scene.sessions.amnesties) == 1
    await pass_by(TTL_S - 3)
    assert set(scene.sessions.expires) == {SESSION, dead}
    await pass_by(5)
    assert set(scene.sessions.expires) == {SESSION}
    assert len(scene.sessions.amnesties) == 1


def _undelivered(number: int) -> LostLease:
    lease = grant(number)
    return LostLease(TENANT, lease.job_id, lease.fence, Ending(Outcome.UNDELIVERED))


async def test_a_worker_is_asked_about_an_answer_long_before_it_is_given_up(scene: Scene) -> None:
    member = scene.memory.members.add(session(), "tenant", 1, scene.clock.now)
    scene.sessions.beat(SESSION)
    delivery = member.deliver(1, 0, "call", [grant(1)], scene.clock.now)

    async def asked_after(seconds: float) -> list[DirectiveKind]:
        member.directives.clear()
        await scene.run(seconds, tick_s=0.25)
        return [directive.kind for directive in member.directives.values()]

    assert await asked_after(1.25) == []
    assert await asked_after(0.25) == [DirectiveKind.RESYNC]
    assert await asked_after(1.5) == []
    # It makes the call again, and the answer is lost again.
    assert member.replay(0, "call", scene.clock.now) is delivery
    assert await asked_after(1.5) == [DirectiveKind.RESYNC]
    assert scene.outcomes() == []
    assert member.replay(0, "call", scene.clock.now) is delivery
    delivery.proven = True
    assert await asked_after(6.0) == []
    assert scene.outcomes() == []


async def test_it_looks_often_while_answers_are_on_their_way(scene: Scene) -> None:
    assert await scene.reaper.step() == 1.0
    scene.memory.members.add(session(), "tenant", 1, 0.0).deliver(1, 0, "call", [grant(1)], scene.clock.now)
    assert await scene.reaper.step() == 0.25
