"""The overview of `rota doctor`, out of the rows alone."""

from rota.store.doctor import PgDoctor

from .world import World


async def test_an_idle_database(lone_world: World) -> None:
    found = await PgDoctor(lone_world.db).overview()
    assert (found.coordinators, found.shards, found.shards_owned) == (1, 256, 256)
    assert (found.oldest_due_s, found.orphaned_leases) == (None, 0)


async def test_what_waits_and_what_is_orphaned(lone_world: World) -> None:
    world = lone_world
    oldest, younger, later = world.spec(), world.spec(), world.spec(delay_s=3_600.0)
    await world.create(oldest, younger, later)
    await world.pass_time(oldest.id, 100.0)
    await world.pass_time(younger.id, 50.0)
    dead, living = await world.new_session(), await world.new_session()
    orphan, held = await world.lease(session=dead), await world.lease(session=living)
    await world.pass_time(orphan.id, 500.0)
    await world.pass_time(held.id, 500.0)
    await world.sql("UPDATE sessions SET state = 3, closed_at = now() WHERE id = %(id)s::uuid", id=dead)
    await world.sql("UPDATE coordinators SET expires_at = now()")
    found = await PgDoctor(world.db).overview()
    assert found.oldest_due_s is not None
    assert 100 <= found.oldest_due_s < 130
    assert (found.orphaned_leases, found.coordinators, found.shards_owned) == (1, 0, 0)
