"""Reading due work: each shard's rows in due order, a page at a time, without a gap and without one twice."""

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.domain import limits
from rota.domain.fairness import FIRST, LaneKey, Position
from rota.domain.ids import ShardNo, TenantId
from rota.domain.model import JobSpec, JobState, Payload, SessionState, Timeouts
from rota.store import codec
from rota.store.port import DueRow

from .world import World

EVER_US = 10**17
SHARD = ShardNo(3)


@pytest.fixture
def world(lone_world: World) -> World:
    """Shards are of the whole database."""
    return lone_world


async def read(
    world: World,
    *shards: int,
    after: Position = FIRST,
    until_us: int = EVER_US,
    page: int = 1_000,
    lane: LaneKey | None = None,
) -> list[DueRow]:
    return await world.leases.read_due([(ShardNo(s), after) for s in shards], until_us, page, lane)


async def put(world: World, count: int, shard: int = SHARD, **changes: object) -> list[JobSpec]:
    specs = [world.spec(shard=ShardNo(shard), **changes) for _ in range(count)]
    await world.create(*specs)
    return specs


def ids(rows: list[DueRow]) -> list[str]:
    return [row.entry.id for row in rows]


async def test_a_row_says_what_memory_needs(world: World) -> None:
    (spec,) = await put(
        world, 1, priority=8, queue="q", type="t", payload=Payload(b"12345"), timeouts=Timeouts(30.0, 12.5, None)
    )
    (row,) = await read(world, SHARD)
    live = await world.live(spec.id)
    entry = row.entry
    assert (entry.tenant_id, entry.id, entry.shard) == (world.tenant, spec.id, SHARD)
    assert (entry.queue, entry.type, entry.priority, entry.size) == ("q", "t", 8, limits.LEASE_OVERHEAD_BYTES + 5)
    assert (entry.due_us, entry.start_by) == (codec.micros(live.due_at), live.start_by)
    assert (row.state, row.fence, row.session_id, row.session_alive) == (JobState.SCHEDULED, 0, None, False)
    assert (row.leased_for_s, row.run_timeout_s) == (None, 12.5)


async def test_the_size_counts_the_headers_too(world: World) -> None:
    await put(world, 1, payload=Payload(b"12345"), headers={"key": "value"})
    (row,) = await read(world, SHARD)
    assert row.entry.size >= limits.LEASE_OVERHEAD_BYTES + 5 + len("keyvalue")


async def test_leased_rows_say_since_when_and_whether_anybody_lives(world: World) -> None:
    session, closed = await world.new_session(), await world.new_session()
    living, dying = await put(world, 2)
    held = await world.lease(living, session)
    await world.lease(dying, closed)
    await world.cancelling(held)
    await world.sessions.set_state(world.tenant, closed, SessionState.CLOSED)
    await world.pass_time(living.id, 100.0)
    rows = {row.entry.id: row for row in await read(world, SHARD)}
    assert (rows[living.id].state, rows[dying.id].state) == (JobState.CANCELLING, JobState.LEASED)
    assert (rows[living.id].session_alive, rows[dying.id].session_alive) == (True, False)
    assert (rows[living.id].fence, rows[living.id].session_id) == (held.fence, session)
    leased_for_s = rows[living.id].leased_for_s
    assert leased_for_s is not None
    assert 100 <= leased_for_s < 130


async def test_start_by_is_told_while_it_counts(world: World) -> None:
    (spec,) = await put(world, 1, timeouts=Timeouts(start_by_s=60.0))
    assert (await read(world, SHARD))[0].entry.start_by is not None
    await world.fail(await world.lease(spec))
    assert (await read(world, SHARD))[0].entry.start_by is None


async def test_only_the_shards_asked_for(world: World) -> None:
    here, there = await put(world, 2, shard=1), await put(world, 2, shard=2)
    await put(world, 2, shard=4)
    assert ids(await read(world, 1)) == [s.id for s in here]
    assert set(ids(await read(world, 1, 2, 255))) == {s.id for s in here + there}
    assert await read(world) == []


async def test_each_shard_has_its_own_page(world: World) -> None:
    many, few = await put(world, 9, shard=1), await put(world, 2, shard=2)
    assert sorted(ids(await read(world, 1, 2, page=3))) == sorted(s.id for s in many[:3] + few)


async def test_what_ended_is_not_there(world: World) -> None:
    done, cancelled, dead, waiting = await put(world, 4)
    await world.succeed(await world.lease(done))
    await world.cancel(cancelled)
    await world.bury(await world.lease(dead))
    assert ids(await read(world, SHARD)) == [waiting.id]


async def test_until_is_included_and_after_is_not(world: World) -> None:
    specs = await put(world, 3)
    now = await world.now()
    for number, spec in enumerate(specs):
        await world.sql(
            "UPDATE jobs SET due_at = %(at)s WHERE id = %(id)s::uuid",
            at=now + timedelta(microseconds=number),
            id=spec.id,
        )
    due = codec.micros(now)
    assert ids(await read(world, SHARD, until_us=due)) == [specs[0].id]
    assert ids(await read(world, SHARD, until_us=due + 1)) == [specs[0].id, specs[1].id]
    assert ids(await read(world, SHARD, until_us=due - 1)) == []
    assert ids(await read(world, SHARD, after=Position(due, specs[0].id))) == [specs[1].id, specs[2].id]
    assert ids(await read(world, SHARD, after=Position(due, FIRST.id))) == [s.id for s in specs]
    assert ids(await read(world, SHARD, after=Position(due + 2, specs[2].id))) == []


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    dues=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=25),
    page=st.integers(1, 7),
)
async def test_pages_run_through_each_row_once_in_order(world: World, dues: list[tuple[int, int]], page: int) -> None:
    """Many rows are due at the very same instant: then the id says where a page ended."""
    await world.sql("DELETE FROM jobs")
    specs = []
    base = await world.now() - timedelta(hours=1)
    for shard, second in dues:
        spec = world.spec(shard=ShardNo(shard))
        await world.create(spec)
        specs.append((base + timedelta(seconds=second), spec))
        await world.sql(
            "UPDATE jobs SET due_at = %(at)s WHERE id = %(id)s::uuid", at=base + timedelta(seconds=second), id=spec.id
        )
    for shard in (0, 1):
        found: list[DueRow] = []
        after = FIRST
        while rows := await read(world, shard, after=after, page=page):
            assert len(rows) <= page
            assert rows[0].entry.position > after
            found += rows
            after = rows[-1].entry.position
        assert ids(found) == [s.id for _, s in sorted(specs, key=lambda x: (x[0], x[1].id)) if s.shard == shard]


async def test_one_lane_only(world: World) -> None:
    lanes = [{"queue": "q", "type": "t"}, {"queue": "q", "type": "u"}, {"queue": "p", "type": "t"}]
    specs = [spec for _ in range(3) for lane in lanes for spec in await put(world, 1, **lane)]
    await put(world, 1, queue="q", type="t", tenant_id=TenantId(world.tenant + 1))
    wanted = [s.id for s in specs[::3]]
    lane = LaneKey(world.tenant, "q", "t")
    assert ids(await read(world, SHARD, lane=lane)) == wanted
    assert ids(await read(world, SHARD, lane=lane, page=2)) == wanted[:2]
    assert await read(world, SHARD, lane=LaneKey(world.tenant, "p", "u")) == []


async def test_far_dues_are_exact(world: World) -> None:
    spec = (await put(world, 1, delay_s=10 * 365 * 86_400.0 + 0.000001))[0]
    (row,) = await read(world, SHARD)
    assert row.entry.due_us == codec.micros((await world.live(spec.id)).due_at)
    assert await read(world, SHARD, until_us=row.entry.due_us - 1) == []
    assert await read(world, SHARD, after=row.entry.position) == []


async def test_one_key_s_lane_only(world: World) -> None:
    specs = [spec for _ in range(2) for key in ("k", "l", "") for spec in await put(world, 1, concurrency_key=key)]
    for key in ("k", "l", ""):
        rows = await read(world, SHARD, lane=LaneKey(world.tenant, specs[0].queue, specs[0].type, key))
        assert ids(rows) == [spec.id for spec in specs if key in ("", spec.concurrency_key)]
        assert [row.entry.concurrency_key for row in rows] == [
            spec.concurrency_key for spec in specs if key in ("", spec.concurrency_key)
        ]
