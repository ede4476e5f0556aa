"""Rates: a bucket of tokens by the database's clock, one for all coordinators and through every restart."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from rota.store.engine import Database
from rota.store.leases import PgLeases

from .limited import Limited, granted


@pytest_asyncio.fixture
async def world(shared_database: str) -> AsyncIterator[Limited]:
    async with Limited(shared_database) as world:
        yield world


async def pass_time(world: Limited, seconds: float) -> None:
    """As if the buckets had last been looked at so much earlier."""
    await world.sql(
        "UPDATE meters SET refilled_at = refilled_at - %(s)s::float8 * interval '1 second' WHERE tenant_id = %(t)s",
        s=seconds,
        t=world.tenant,
    )


async def test_a_full_bucket_gives_its_burst_and_then_says_when_to_ask_again(world: Limited) -> None:
    specs = await world.made(6)
    await world.limit(rate=0.1, rate_burst=3)
    found = await world.ask(*specs)
    assert set(granted(found)) == {spec.id for spec in specs[:3]}
    assert found.closed == {world.gate(): pytest.approx(10.0, abs=0.5)}
    await pass_time(world, 25.0)
    assert len((await world.ask(*specs[3:])).grants) == 2
    await pass_time(world, 3.0)
    assert granted(await world.ask(specs[5])) == []
    await pass_time(world, 2.1)
    assert granted(await world.ask(specs[5])) == [specs[5].id]


async def test_a_bucket_holds_no_more_than_its_burst(world: Limited) -> None:
    specs = await world.made(8)
    await world.limit(rate=0.1, rate_burst=2)
    await world.ask(*specs[:2])
    await pass_time(world, 86_400.0)
    assert len((await world.ask(*specs[2:])).grants) == 2


@pytest.mark.parametrize(("rate", "burst"), [(2.5, 2), (0.01, 1)])
async def test_without_a_burst_it_is_the_rate_and_at_least_one(world: Limited, rate: float, burst: int) -> None:
    specs = await world.made(5)
    await world.limit(rate=rate)
    assert len((await world.ask(*specs)).grants) == burst


async def test_ended_leases_give_no_tokens_back(world: Limited) -> None:
    specs = await world.made(4)
    await world.limit(rate=0.01, rate_burst=2)
    for held in await world.held(*specs):
        await world.succeed(held)
    assert granted(await world.ask(*specs[2:])) == []


async def test_only_what_is_granted_takes_a_token(world: Limited) -> None:
    there, gone, other = await world.made(3)
    await world.limit(rate=0.01, rate_burst=2)
    await world.cancel(gone)
    assert granted(await world.ask(there, gone)) == [there.id]
    assert granted(await world.ask(other)) == [other.id]


async def test_a_place_that_is_full_takes_no_token(world: Limited) -> None:
    specs = await world.made(4)
    await world.limit(rate=0.01, rate_burst=2, max_in_flight=1)
    (held,) = await world.held(*specs)
    assert (await world.ask(*specs[1:])).closed == {world.gate(): None}
    await world.succeed(held)
    assert len((await world.ask(*specs[1:])).grants) == 1


async def test_many_coordinators_share_one_bucket(world: Limited) -> None:
    specs = await world.made(40)
    await world.limit(rate=0.01, rate_burst=11)
    others = [Database(world.url) for _ in range(4)]
    try:
        calls = [
            PgLeases(db).claim_limited(world.wishes(specs[part::8]), world.owner)
            for part, db in enumerate([*others, *others])
        ]
        found = await asyncio.gather(*calls)
    finally:
        for db in others:
            await db.close()
    assert sum(len(answer.grants) for answer in found) == 11


async def test_a_restart_fills_nothing(world: Limited) -> None:
    specs = await world.made(3)
    await world.limit(rate=0.01, rate_burst=2)
    await world.ask(*specs[:2])
    restarted = Database(world.url)
    try:
        found = await PgLeases(restarted).claim_limited(world.wishes(specs[2:]), world.owner)
    finally:
        await restarted.close()
    assert found.grants == []


async def test_a_clock_that_went_back_stops_nothing_for_longer_than_the_rate_says(world: Limited) -> None:
    specs = await world.made(3)
    await world.limit(rate=0.1, rate_burst=1)
    await world.ask(specs[0])
    await pass_time(world, -3_600.0)
    found = await world.ask(specs[1])
    assert (found.grants, found.closed) == ([], {world.gate(): pytest.approx(10.0, abs=0.5)})
    await pass_time(world, 10.0)
    assert granted(await world.ask(specs[1])) == [specs[1].id]


async def test_a_changed_rate_acts_at_once_and_gives_no_second_burst(world: Limited) -> None:
    specs = await world.made(6)
    await world.limit(rate=0.001, rate_burst=3)
    await world.ask(*specs[:3])
    await world.limit(rate=0.01, rate_burst=6)
    assert granted(await world.ask(specs[3])) == []
    await world.limit(rate=100.0, rate_burst=3)
    await pass_time(world, 1.0)
    assert len((await world.ask(*specs[3:])).grants) == 3
