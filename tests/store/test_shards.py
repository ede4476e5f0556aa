"""Shards: one owner at a time, and a higher epoch at each change."""

import asyncio

import pytest

from rota.domain import limits
from rota.domain.ids import CoordinatorId, ShardNo, mint_fence
from rota.store import shards as shards_module
from rota.store.engine import Run

from .world import World, fresh_id

ALL = limits.SHARD_COUNT


async def join(world: World, address: str = "", term_s: float = 3_600.0) -> CoordinatorId:
    coordinator = CoordinatorId(fresh_id())
    await world.shards.register(coordinator, address or f"test/{coordinator}", "1", term_s)
    return coordinator


async def end_term(world: World, coordinator: CoordinatorId) -> None:
    await world.sql(
        "UPDATE coordinators SET expires_at = now() - interval '1 ms' WHERE id = %(id)s::uuid", id=coordinator
    )


async def epochs(world: World) -> dict[ShardNo, int]:
    return {ShardNo(shard): epoch for shard, epoch in await world.sql("SELECT shard, epoch FROM shards")}


async def owned(world: World, coordinator: CoordinatorId) -> set[ShardNo]:
    return {shard for shard, (_, owner) in (await world.shards.roster()).shards.items() if owner == coordinator}


@pytest.fixture
def world(lone_world: World) -> World:
    """Ownership is of the whole database."""
    return lone_world


async def test_a_world_owns_every_shard(world: World) -> None:
    assert await owned(world, world.owner) == set(range(ALL))
    assert await epochs(world) == world.epochs == dict.fromkeys(range(ALL), 1)


async def test_register_says_whether_one_is_alone(world: World) -> None:
    await world.shards.release(world.owner)
    first, second = CoordinatorId(fresh_id()), CoordinatorId(fresh_id())
    assert await world.shards.register(first, "a:1", "1", 60.0) is True
    assert await world.shards.register(second, "a:2", "1", 60.0) is False
    await end_term(world, first)
    await end_term(world, second)
    assert await world.shards.register(CoordinatorId(fresh_id()), "a:3", "1", 60.0) is True


async def test_register_retires_whoever_had_the_address(world: World) -> None:
    await world.shards.release(world.owner)
    old, elsewhere = await join(world, "a:1"), await join(world, "b:1")
    await world.shards.acquire(old, ALL)
    new = await join(world, "a:1")
    assert (await world.shards.renew(old, 60.0))[0] is False
    assert (await world.shards.renew(elsewhere, 60.0))[0] is True
    # The retired one's shards are free at once.
    assert len(await world.shards.acquire(new, ALL)) == ALL
    assert await owned(world, old) == set()


async def test_renew_extends_a_living_term(world: World) -> None:
    before = await world.now()
    alive, now = await world.shards.renew(world.owner, 60.0)
    assert alive
    assert before <= now <= await world.now()
    left = await world.value(
        "SELECT extract(epoch FROM expires_at - now())::float8 FROM coordinators WHERE id = %(id)s::uuid",
        id=world.owner,
    )
    assert 55 < left <= 60


async def test_a_term_that_ran_out_is_not_renewed(world: World) -> None:
    await end_term(world, world.owner)
    for _ in range(2):
        alive, now = await world.shards.renew(world.owner, 60.0)
        assert not alive
        assert now.tzinfo is not None
    assert (await world.shards.renew(CoordinatorId(fresh_id()), 60.0))[0] is False


async def test_only_free_shards_and_those_of_the_dead_are_acquired(world: World) -> None:
    rival = await join(world)
    assert await world.shards.acquire(rival, ALL) == []
    await world.sql("UPDATE shards SET owner = NULL WHERE shard < 3")
    assert {t.shard for t in await world.shards.acquire(rival, ALL)} == {0, 1, 2}
    await end_term(world, world.owner)
    assert {t.shard for t in await world.shards.acquire(rival, ALL)} == set(range(3, ALL))


async def test_each_change_of_owner_raises_the_epoch(world: World) -> None:
    before = await epochs(world)
    rival = await join(world)
    await end_term(world, world.owner)
    terms = await world.shards.acquire(rival, ALL)
    assert {t.shard: t.epoch for t in terms} == {shard: epoch + 1 for shard, epoch in before.items()}
    assert {t.owner for t in terms} == {rival}
    assert (await world.shards.roster()).shards == {term.shard: (term.epoch, rival) for term in terms}


async def test_acquire_takes_no_more_than_asked(world: World) -> None:
    rival = await join(world)
    await end_term(world, world.owner)
    assert [len(await world.shards.acquire(rival, limit)) for limit in (10, 5, 1_000, 1)] == [10, 5, ALL - 15, 0]


async def test_acquire_takes_only_what_was_named(world: World) -> None:
    rival = await join(world)
    await world.sql("UPDATE shards SET owner = NULL WHERE shard < 10")
    named = [ShardNo(number) for number in (3, 7, 200, 999)]
    # What is owned or does not exist is not to be had, whoever offers it.
    assert {t.shard for t in await world.shards.acquire(rival, ALL, named)} == {3, 7}
    assert await world.shards.acquire(rival, ALL, []) == []
    assert [t.shard for t in await world.shards.acquire(rival, 1, [ShardNo(5), ShardNo(6)])] == [5]
    assert await owned(world, rival) == {3, 5, 7}


async def test_the_roster_names_the_living_and_who_owns_what(world: World) -> None:
    dead = await join(world)
    await world.sql("UPDATE shards SET owner = NULL WHERE shard < 2")
    await world.shards.acquire(dead, 1)
    await end_term(world, dead)
    other = CoordinatorId(fresh_id())
    await world.shards.register(other, "b:1", "1", 60.0, "b:2")
    await world.shards.drain(other)
    await world.shards.drain(CoordinatorId(fresh_id()))
    roster = await world.shards.roster()
    living = {each.id: each for each in roster.living}
    assert living.keys() == {world.owner, other}
    assert (living[other].peer_address, living[other].draining) == ("b:2", True)
    # Who takes no calls of others has no address for them.
    assert (living[world.owner].peer_address, living[world.owner].draining) == ("", False)
    assert 55 < living[other].expires_in_s <= 60
    # The dead one's shards are still called its own.
    assert len(roster.shards) == ALL
    assert (roster.shards[ShardNo(0)], roster.shards[ShardNo(1)]) == ((2, dead), (1, None))
    assert {owner for shard, (_, owner) in roster.shards.items() if shard > 1} == {world.owner}


async def test_giving_up_raises_the_epoch_of_ones_own_shards_only(world: World) -> None:
    rival = await join(world)
    await world.sql("UPDATE shards SET owner = %(id)s::uuid WHERE shard = 2", id=rival)
    before = await epochs(world)
    given = await world.shards.give_up(world.owner, [ShardNo(number) for number in (1, 2, 3, 999)])
    assert sorted(given) == [1, 3]
    assert await epochs(world) == {s: e + (s in (1, 3)) for s, e in before.items()}
    assert await owned(world, rival) == {2}
    # They are free at once, and what is given up once is not given up again.
    assert await world.shards.give_up(world.owner, [ShardNo(1)]) == []
    assert await world.shards.give_up(world.owner, []) == []
    assert {t.shard: t.epoch for t in await world.shards.acquire(rival, ALL)} == {1: 3, 3: 3}
    assert (await world.shards.renew(world.owner, 60.0))[0]


async def test_claims_under_what_was_given_up_are_refused(world: World) -> None:
    """The epoch alone decides, even where the same one gets the shard back."""
    spec = world.spec()
    await world.create(spec)
    session = await world.new_session()
    stale = world.mint(spec.shard)
    await world.shards.give_up(world.owner, [spec.shard])
    assert await world.claim(spec, session, stale) is None
    (term,) = await world.shards.acquire(world.owner, 1, [spec.shard])
    assert await world.claim(spec, session, stale) is None
    assert await world.claim(spec, session, mint_fence(term.epoch, 1)) is not None


async def test_a_dead_or_unknown_coordinator_acquires_nothing(world: World) -> None:
    await world.shards.release(world.owner)
    dead = await join(world)
    await end_term(world, dead)
    assert await world.shards.acquire(dead, ALL) == []
    assert await world.shards.acquire(CoordinatorId(fresh_id()), ALL) == []


async def test_release_frees_all_and_raises_the_epochs(world: World) -> None:
    before = await epochs(world)
    other = await join(world)
    await world.sql("UPDATE shards SET owner = %(o)s::uuid WHERE shard = 5", o=other)
    await world.shards.release(world.owner)
    assert await owned(world, world.owner) == set()
    assert await owned(world, other) == {5}
    assert await epochs(world) == {s: e + (s != 5) for s, e in before.items()}
    assert (await world.shards.renew(world.owner, 60.0))[0] is False
    # One may come back under the same id, as after a lost term.
    await world.shards.register(world.owner, "again", "1", 60.0)
    assert len(await world.shards.acquire(world.owner, ALL)) == ALL - 1


async def test_the_last_epoch_is_never_passed(world: World) -> None:
    await world.shards.release(world.owner)
    await world.sql("UPDATE shards SET epoch = %(e)s WHERE shard = 7", e=limits.EPOCH_MAX)
    await world.sql("UPDATE shards SET epoch = %(e)s WHERE shard = 8", e=limits.EPOCH_MAX - 1)
    terms = {t.shard: t.epoch for t in await world.shards.acquire(await join(world), ALL)}
    assert 7 not in terms
    assert terms[ShardNo(8)] == limits.EPOCH_MAX


async def test_a_term_is_shortened_and_never_prolonged(world: World) -> None:
    me, other = await join(world), await join(world)
    await world.shards.renew(me, 3_600.0)
    await world.shards.renew(other, 5.0)
    await world.shards.shorten(9.0)
    left = {each.id: each.expires_in_s for each in (await world.shards.roster()).living}
    assert 5.0 < left[me] <= 9.0
    assert 0.0 < left[other] <= 5.0


async def test_a_copy_of_a_database_gives_no_epoch_that_the_other_may_have_given(world: World) -> None:
    """A standby that lagged when it was promoted, or a backup: what the rows say of epochs is too little."""
    await world.shards.release(world.owner)
    (first,) = await world.shards.acquire(me := await join(world), 1, [ShardNo(3)])
    await world.shards.give_up(me, [ShardNo(3)])
    await world.sql("UPDATE shards SET incarnation = 'another' WHERE shard = 3")
    (after,) = await world.shards.acquire(me, 1, [ShardNo(3)])
    assert after.epoch == first.epoch + 1 + limits.EPOCH_STEP
    await world.shards.give_up(me, [ShardNo(3)])
    (usual,) = await world.shards.acquire(me, 1, [ShardNo(3)])
    assert usual.epoch == after.epoch + 2
    found = await world.shards.roster()
    assert found.incarnation == await world.value("SELECT incarnation FROM shards WHERE shard = 3") != ""


async def test_the_incarnation_names_cluster_timeline_and_database(world: World) -> None:
    cluster, timeline, database = (await world.shards.roster()).incarnation.split("/")
    assert (cluster.isdigit(), timeline) == (True, "00000001")
    assert int(database) == await world.value("SELECT oid FROM pg_database WHERE datname = current_database()")


async def test_many_at_once_never_share_a_shard(world: World) -> None:
    await world.shards.release(world.owner)
    rivals = [await join(world) for _ in range(6)]
    for _ in range(3):
        found = await asyncio.gather(*(world.shards.acquire(rival, 100) for rival in rivals))
        taken = [term.shard for terms in found for term in terms]
        assert len(taken) == len(set(taken))
        for rival in rivals:
            await world.sql("UPDATE shards SET owner = NULL WHERE owner = %(id)s::uuid AND shard %% 2 = 0", id=rival)
    held = [await owned(world, rival) for rival in rivals]
    assert sum(map(len, held)) == len(set().union(*held))


async def test_whoever_comes_second_passes_over_what_is_being_taken(world: World) -> None:
    """It does not wait for the first one's commit, and gets what is left."""
    await world.shards.release(world.owner)
    first, second = await join(world), await join(world)

    async def acquire_and_wait(run: Run) -> None:
        params = {"id": first, "limit": 200, "epoch_max": limits.EPOCH_MAX, "step": 9, "only": None}
        rows = await run(shards_module._ACQUIRE, params)
        assert len(rows) == 200
        assert len(await world.shards.acquire(second, ALL)) == ALL - 200

    await world.db.writes.transact(acquire_and_wait)
    assert len(await owned(world, first)) == 200


async def test_a_renewal_and_a_takeover_at_once(world: World) -> None:
    """A term that ran out is not renewed once a rival could have taken its shards."""
    rival = await join(world)
    await end_term(world, world.owner)
    (alive, _), terms = await asyncio.gather(world.shards.renew(world.owner, 60.0), world.shards.acquire(rival, ALL))
    assert (alive, len(terms)) == (False, ALL)


async def test_watermarks(world: World) -> None:
    assert await world.shards.watermarks([ShardNo(1), ShardNo(2)]) == {}
    marks = {ShardNo(1): 1_774_000_000_000_001, ShardNo(2): -62_135_596_800_000_000, ShardNo(3): 0}
    await world.shards.set_watermarks(marks, world.owner)
    assert await world.shards.watermarks([ShardNo(n) for n in range(1, 5)]) == marks
    # Only the owner's word counts.
    await world.shards.set_watermarks({ShardNo(1): 5}, CoordinatorId(fresh_id()))
    assert await world.shards.watermarks([ShardNo(1)]) == {1: 1_774_000_000_000_001}
    rival = await join(world)
    await end_term(world, world.owner)
    await world.shards.acquire(rival, ALL)
    assert await world.shards.watermarks([ShardNo(3)]) == {3: 0}
