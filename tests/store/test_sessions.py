"""Sessions: alive until they are closed, and renewed by nobody after that."""

import asyncio
from datetime import timedelta

import pytest

from rota.domain.errors import AlreadyExists
from rota.domain.ids import CoordinatorId, SessionId, TenantId
from rota.domain.model import SessionState
from rota.store.port import BeatUpdate

from .world import World, fresh_id

ACTIVE, DRAINING, CLOSED = SessionState.ACTIVE, SessionState.DRAINING, SessionState.CLOSED


async def set_expiry(world: World, session: SessionId, from_now_s: float) -> None:
    await world.sql(
        "UPDATE sessions SET expires_at = now() + %(s)s::float8 * interval '1 second' WHERE id = %(id)s::uuid",
        s=from_now_s,
        id=session,
    )


async def left_s(world: World, session: SessionId) -> float:
    """Seconds until a session's time is over."""
    found: float = await world.value(
        "SELECT extract(epoch FROM expires_at - clock_timestamp())::float8 FROM sessions WHERE id = %(id)s::uuid",
        id=session,
    )
    return found


async def beat(world: World, *sessions: SessionId, free_slots: int = 3) -> dict[SessionId, SessionState]:
    return await world.sessions.beat([BeatUpdate(session, free_slots) for session in sessions], world.owner)


async def test_a_session_is_stored_as_it_was_given(world: World) -> None:
    given = world.session(
        worker="wörker", sdk="go/2", build_id="", queues=("b", "a"), types=("t",), slots=7, labels={"zone": "😀"}
    )
    before = await world.now()
    opened = await world.sessions.open(given, 30.5)
    assert opened == await world.sessions.get(given.id)
    for field in ("id", "tenant_id", "worker", "sdk", "build_id", "queues", "types", "slots", "labels", "coordinator"):
        assert getattr(opened, field) == getattr(given, field), field
    assert (opened.state, opened.free_slots, opened.protocol_version) == (ACTIVE, 7, 1)
    assert before <= opened.opened_at == opened.last_beat_at
    assert opened.expires_at - opened.opened_at == timedelta(seconds=30.5)


async def test_a_queue_or_type_named_twice_is_kept_once(world: World) -> None:
    opened = await world.sessions.open(world.session(queues=("b", "a", "b"), types=("t", "u", "t")), 30.0)
    assert (opened.queues, opened.types) == (("b", "a"), ("t", "u"))


@pytest.mark.parametrize("ttl_s", [4.1, 2.3, 0.001, 3_600.0])
async def test_a_ttl_keeps_its_milliseconds(world: World, ttl_s: float) -> None:
    opened = await world.sessions.open(world.session(), ttl_s)
    assert opened.expires_at - opened.opened_at == timedelta(milliseconds=round(ttl_s * 1_000))


async def test_the_same_id_again_is_the_same_session(world: World) -> None:
    given = world.session()
    first = await world.sessions.open(given, 30.0)
    again = await asyncio.gather(*(world.sessions.open(world.session(id=given.id, slots=99), 60.0) for _ in range(8)))
    assert again == [first] * 8
    other = await world.sessions.open(world.session(), 30.0)
    assert other.epoch > first.epoch


async def test_an_id_of_another_tenant_is_refused(world: World) -> None:
    given = world.session()
    await world.sessions.open(given, 30.0)
    with pytest.raises(AlreadyExists, match="request_id"):
        await world.sessions.open(world.session(id=given.id, tenant_id=TenantId(1)), 30.0)


async def test_a_beat_renews(world: World) -> None:
    session = await world.new_session(ttl_s=60.0)
    await set_expiry(world, session, 1.0)
    other = CoordinatorId(fresh_id())
    assert await world.sessions.beat([BeatUpdate(session, 4)], other) == {session: ACTIVE}
    found = await world.sessions.get(session)
    assert found is not None
    assert 50 < await left_s(world, session) <= 60
    assert (found.free_slots, found.coordinator, found.last_beat_at > found.opened_at) == (4, other, True)


async def test_a_session_whose_time_is_over_lives_until_a_reaper_closes_it(world: World) -> None:
    session = await world.new_session(ttl_s=60.0)
    await set_expiry(world, session, -5.0)
    assert await beat(world, session) == {session: ACTIVE}
    assert await left_s(world, session) > 50


@pytest.mark.parametrize("end", ["expired", "closed", "never opened"])
async def test_no_beat_wakes_the_dead(world: World, end: str) -> None:
    session = SessionId(fresh_id()) if end == "never opened" else await world.new_session()
    if end == "expired":
        await set_expiry(world, session, -0.001)
        assert session in await world.sessions.expire()
    elif end == "closed":
        await world.sessions.set_state(world.tenant, session, CLOSED)
    living = await world.new_session()
    assert await beat(world, session, living) == {living: ACTIVE}
    found = await world.sessions.get(session)
    assert found is None or found.state is CLOSED


async def test_beats_of_many_in_one_statement(world: World) -> None:
    sessions = [await world.new_session() for _ in range(5)]
    await world.sessions.set_state(world.tenant, sessions[1], DRAINING)
    await world.sessions.set_state(world.tenant, sessions[2], CLOSED)
    updates = [BeatUpdate(session, number) for number, session in enumerate(sessions)]
    assert await world.sessions.beat(updates, world.owner) == {
        session: DRAINING if number == 1 else ACTIVE for number, session in enumerate(sessions) if number != 2
    }
    slots = [(await world.sessions.get(s)).free_slots for s in sessions]  # type: ignore[union-attr]
    assert slots == [0, 1, 10, 3, 4]


async def test_expire_closes_those_whose_time_is_over_and_once(lone_world: World) -> None:
    world = lone_world
    living, late, closed = [await world.new_session() for _ in range(3)]
    await set_expiry(world, late, -0.001)
    await set_expiry(world, closed, -0.001)
    await world.sessions.set_state(world.tenant, closed, CLOSED)
    assert await world.sessions.expire() == [late]
    assert await world.sessions.expire() == []
    assert await beat(world, living, late) == {living: ACTIVE}


async def test_a_beat_and_an_expiry_at_once_agree(lone_world: World) -> None:
    """Whoever comes first wins: a session is either renewed or told dead, never both."""
    world = lone_world
    sessions = [await world.new_session(ttl_s=3_600.0) for _ in range(20)]
    for session in sessions:
        await set_expiry(world, session, -0.001)
    answers = await asyncio.gather(
        *(beat(world, s) for s in sessions[:10]), world.sessions.expire(), beat(world, *sessions[10:])
    )
    expired = set(answers[10])
    renewed = {s for answer in (*answers[:10], answers[11]) for s in answer}
    assert expired | renewed == set(sessions)
    assert not expired & renewed


@pytest.mark.parametrize(
    ("over_for_s", "silent_s", "spared"),
    [
        (1.0, 10.0, True),
        (9.0, 10.0, True),
        (11.0, 10.0, False),
        (3_600.0, 10 * 365 * 86_400.0, True),
        (1.0, 0.5, False),
    ],
)
async def test_amnesty_spares_those_that_nobody_could_hear(
    lone_world: World, over_for_s: float, silent_s: float, spared: bool
) -> None:
    world = lone_world
    session = await world.new_session(ttl_s=60.0)
    await set_expiry(world, session, -over_for_s)
    assert await world.sessions.grant_amnesty(silent_s) == int(spared)
    assert await world.sessions.expire() == ([] if spared else [session])
    if spared:
        assert 50 < await left_s(world, session) <= 60


async def test_amnesty_does_not_open_what_is_closed(lone_world: World) -> None:
    world = lone_world
    closed = await world.new_session()
    await world.sessions.set_state(world.tenant, closed, CLOSED)
    assert await world.sessions.grant_amnesty(3_600.0) == 0
    assert await beat(world, closed) == {}


@pytest.mark.parametrize(
    ("steps", "state"),
    [
        ([DRAINING], DRAINING),
        ([DRAINING, DRAINING], DRAINING),
        ([CLOSED], CLOSED),
        ([DRAINING, CLOSED], CLOSED),
        # A drained session does not become active again.
        ([DRAINING, ACTIVE], DRAINING),
    ],
)
async def test_states(world: World, steps: list[SessionState], state: SessionState) -> None:
    session = await world.new_session()
    for step in steps:
        found = await world.sessions.set_state(world.tenant, session, step)
    assert found == await world.sessions.get(session)
    assert found is not None
    assert found.state is state
    closed_at = await world.value("SELECT closed_at FROM sessions WHERE id = %(id)s::uuid", id=session)
    assert (closed_at is not None) == (state is CLOSED)


@pytest.mark.parametrize("state", [DRAINING, CLOSED])
async def test_nothing_happens_to_a_closed_unknown_or_foreign_session(world: World, state: SessionState) -> None:
    closed, foreign = await world.new_session(), await world.new_session()
    await world.sessions.set_state(world.tenant, closed, CLOSED)
    assert await world.sessions.set_state(world.tenant, closed, state) is None
    assert await world.sessions.set_state(world.tenant, SessionId(fresh_id()), state) is None
    assert await world.sessions.set_state(TenantId(world.tenant + 500_000), foreign, state) is None
    assert await beat(world, foreign) == {foreign: ACTIVE}


async def test_the_list_has_the_living_newest_first(world: World) -> None:
    sessions = [await world.new_session() for _ in range(5)]
    await world.sessions.set_state(world.tenant, sessions[1], CLOSED)
    await world.sessions.set_state(world.tenant, sessions[2], DRAINING)
    living = [s for n, s in enumerate(sessions) if n != 1][::-1]
    first = await world.sessions.page(world.tenant, None, 3)
    rest = await world.sessions.page(world.tenant, first[-1].id, 3)
    assert [session.id for session in first + rest] == living
    assert await world.sessions.page(TenantId(world.tenant + 500_000), None, 9) == []


async def test_get_of_a_stranger(world: World) -> None:
    assert await world.sessions.get(SessionId(fresh_id())) is None
