"""What claims keep to, whoever else is at the table: a batch stays whole, and nobody decides over another's head."""

from collections.abc import AsyncIterator

import pytest_asyncio

from rota.outbox.database import Connection
from rota.outbox.seeker import Room
from rota.outbox.table import Item, Kind, Table, batches

from .world import App


@pytest_asyncio.fixture
async def table(app: App) -> AsyncIterator[Table]:
    connection = Connection(app.place)
    yield Table(connection)
    await connection.close()


async def test_a_lost_batch_is_taken_as_a_whole_or_not_at_all(app: App, table: Table) -> None:
    app.many(5)
    (first,) = await table.claim_batch([1, 2, 3])
    assert await table.claim_again(1, 3, 3) == []
    app.expire_claims()
    with app.connect() as other:
        other.execute("select from app.rota_outbox where seq = 2 for update")
        assert await table.claim_again(1, 3, 3) == []
    (again,) = await table.claim_again(1, 3, 3)
    assert (again.seqs, again.request_id, again.repeated) == (first.seqs, first.request_id, True)
    assert not first.repeated


async def test_a_row_in_a_batch_gets_into_no_other(app: App, table: Table) -> None:
    app.many(5)
    await table.claim_batch([1, 2, 3])
    app.expire_claims()
    assert [parcel.seqs for parcel in await table.claim_batch([2, 3, 4])] == [[4]]
    assert await table.claim_alone([1, 2, 5]) == []
    found = await table.look_behind(0, 5)
    assert found.items == [
        Item(Kind.LOST, 1, found.items[0].bytes, 3, 3),
        Item(Kind.PLAIN, 5, found.items[1].bytes),
    ]


async def test_a_batch_that_another_relay_has_claimed_since_is_not_dissolved(app: App, table: Table) -> None:
    """Its call may be taken where ours was refused, by a coordinator of another version."""
    app.many(3)
    await table.claim_batch([1, 2, 3])
    app.expire_claims()
    await table.claim_again(1, 3, 3)
    await table.dissolve([1, 2, 3])
    assert app.rows("alone, batch_size") == [(False, 3)] * 3


async def test_rows_that_another_locks_are_passed_over(app: App, table: Table) -> None:
    app.many(3)
    app.many(1, "ordering_key => 'k'")
    with app.connect() as other:
        other.execute("select from app.rota_outbox where seq in (2, 4) for update")
        assert [parcel.seqs for parcel in await table.claim_batch([1, 2, 3])] == [[1, 3]]
        assert await table.claim_alone([4]) == []


async def test_looks_read_on_page_by_page(app: App, table: Table) -> None:
    app.many(5)
    app.many(5, "ordering_key => 'k-' || n")
    found = await table.look_new(0, limit=4)
    assert ([item.seq for item in found.items], found.last, found.all_read) == ([1, 2, 3, 4], 4, False)
    found = await table.look_new(8, limit=4)
    assert ([item.seq for item in found.items], found.last, found.all_read) == ([9, 10], 10, True)
    found = await table.look_keys("k-2", 9, limit=2)
    assert ([item.seq for item in found.items], found.last_key, found.all_read) == ([8, 9], "k-4", False)
    # Only up to the last row that looks at new ones have seen.
    found = await table.look_keys("k-4", 9, limit=2)
    assert (list(found.items), found.last_key, found.all_read) == ([], "k-5", True)


def test_room_takes_what_fits_and_one_in_any_case() -> None:
    items = [Item(Kind.PLAIN, n, 1_000) for n in range(5)]
    assert len(Room(3, 100_000).take(items)) == 3
    assert len(Room(9, 3_100).take(items)) == 2
    assert len(Room(9, 10).take(items)) == 1
    assert len(Room(1, 10).take([Item(Kind.LOST, 1, 1_000_000, 250, 250), *items])) == 1
    assert Room(0, 100_000).take(items) == []


def test_batches_are_cut_by_rows_and_by_bytes() -> None:
    assert [len(b) for b in batches(Item(Kind.PLAIN, n, 10) for n in range(600))] == [250, 250, 100]
    assert [len(b) for b in batches(Item(Kind.PLAIN, n, 262_144) for n in range(20))] == [7, 7, 6]
