"""Hand-over: coordinators share the shards among them as they come, leave and die, and none moves without need."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import pytest

from rota.coordinator.memory import Memory
from rota.coordinator.news import Claimed, ClaimWish, News
from rota.coordinator.ownership import Ownership
from rota.coordinator.peers import REACH_S, Peers
from rota.domain.errors import OutcomeUnknown, Unavailable
from rota.domain.ids import CoordinatorId, ShardNo

from .fakes import FakeClock, World, turns
from .shardtable import ALL, ShardTable

TERM_S = 9.0
A, B, C = (CoordinatorId(f"c{n}000000-0000-7000-8000-000000000000") for n in "abc")


class Way:
    """A Wire that carries shards on offer, and nothing else. It opens by itself, where `crowd.opens` says so."""

    def __init__(
        self,
        crowd: "Crowd",
        sender: CoordinatorId,
        peer: CoordinatorId,
        address: str,
        *,
        on_open: Callable[[], None],
        on_room: Callable[[], None],
    ) -> None:
        self._crowd = crowd
        self._sender = sender
        self._peer = peer
        self.on_open = on_open
        if crowd.opens:
            on_open()
        crowd.ways[sender, peer] = self

    def send(self, news: News) -> bool:
        return False

    async def claim(self, wish: ClaimWish) -> Claimed:
        raise Unavailable("no claims here")

    async def hand_over(self, shards: Sequence[ShardNo]) -> list[ShardNo]:
        self._crowd.offers.append((self._sender, self._peer, len(shards)))
        if self._peer not in self._crowd.owners:
            raise OutcomeUnknown("no answer")
        return await self._crowd.owners[self._peer].peers.take_over(self._sender, shards)

    async def close(self) -> None:
        return None


class Owner(World):
    """One coordinator: what it owns, and what it has begun to read."""

    def __init__(self, crowd: "Crowd", id: CoordinatorId) -> None:
        super().__init__(0, crowd.clock)
        self.id = id
        self.peers = Peers(id, crowd.clock, partial(Way, crowd, id))
        self.memory = Memory(self.database_clock, self.metrics, self.peers)
        self.begun: list[ShardNo] = []
        self.ownership = Ownership(
            self.memory,
            crowd.table,  # type: ignore[arg-type]
            id,
            self.clock,
            self.database_clock,
            self.peers,
            address=id,
            peer_address=f"{id}:peer",
            version="0",
            term_s=TERM_S,
            on_acquired=self._begin,
        )
        self.peers.hearing = Ear(self.ownership)  # type: ignore[assignment]

    async def _begin(self, shards: Sequence[ShardNo]) -> None:
        await asyncio.sleep(0)
        self.begun += shards


class Ear:
    def __init__(self, ownership: Ownership) -> None:
        self.take_over: Callable[[Sequence[ShardNo]], Awaitable[list[ShardNo]]] = ownership.take_over

    def tell_all(self, peer: CoordinatorId) -> None:
        return None

    def gone(self, peer: CoordinatorId) -> None:
        return None

    def met(self) -> None:
        return None


class Crowd:
    """Coordinators over one table. Who is not in `owners` is dead."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.table = ShardTable(self.clock)
        self.owners: dict[CoordinatorId, Owner] = {}
        self.offers: list[tuple[CoordinatorId, CoordinatorId, int]] = []
        self.ways: dict[tuple[CoordinatorId, CoordinatorId], Way] = {}
        self.opens = True

    async def join(self, *ids: CoordinatorId) -> None:
        for id in ids:
            owner = self.owners[id] = Owner(self, id)
            await owner.ownership.register()
            await owner.ownership.step()

    async def step(self, *ids: CoordinatorId) -> float:
        """Each of these, or of all, in turn; until when the first of them waits."""
        waits = [await self.owners[id].ownership.step_safely() for id in ids or self.owners]
        for owner in self.owners.values():
            owner.memory.release_due()
        return min(waits)

    @property
    def counts(self) -> list[int]:
        return [len(owner.memory.terms) for owner in self.owners.values()]

    def moved(self, before: dict[ShardNo, int]) -> int:
        """Shards whose owner has changed since, once or more."""
        return sum(self.table.epochs[shard] > before[shard] for shard in ALL)

    def check(self) -> None:
        """Each knows what the table says, under its epochs, and reads it."""
        for id, owner in self.owners.items():
            mine = self.table.owned(id)
            assert {s: t.epoch for s, t in owner.memory.terms.items()} == {s: self.table.epochs[s] for s in mine}
            assert set(mine) <= set(owner.begun)


@pytest.fixture
def crowd() -> Crowd:
    return Crowd()


async def test_who_comes_is_given_a_share_at_once_and_then_all_is_quiet(crowd: Crowd) -> None:
    await crowd.join(A, B)
    assert crowd.counts == [256, 0]
    await crowd.step(A)
    # B has them without having looked by itself.
    assert (crowd.counts, crowd.offers) == ([128, 128], [(A, B, 128)])
    crowd.check()
    await crowd.join(C)
    before = dict(crowd.table.epochs)
    await crowd.step(A, B)
    assert sorted(crowd.counts) == [85, 85, 86]
    crowd.check()
    # No more moved than had to, and no shard twice.
    assert crowd.moved(before) == 85
    after = dict(crowd.table.epochs)
    for _ in range(5):
        await crowd.step()
    assert crowd.table.epochs == after


async def test_many_who_come_at_once_do_not_tear_at_the_shards(crowd: Crowd) -> None:
    ids = [CoordinatorId(f"d{n}000000-0000-7000-8000-000000000000") for n in range(8)]
    await crowd.join(A)
    await crowd.join(*ids)
    before = dict(crowd.table.epochs)
    await crowd.step()
    assert sorted(crowd.counts) == [28] * 5 + [29] * 4
    # Given up and taken: two epochs.
    assert {crowd.table.epochs[shard] - before[shard] for shard in ALL} == {0, 2}
    crowd.check()


async def test_who_leaves_hands_all_over_before_it_is_gone(crowd: Crowd) -> None:
    await crowd.join(A, B, C)
    await crowd.step()
    before = dict(crowd.table.epochs)
    await crowd.owners.pop(B).ownership.leave()
    assert sorted(crowd.counts) == [128, 128]
    crowd.check()
    # Only its own have moved.
    assert crowd.moved(before) == 85
    await crowd.step()
    assert crowd.counts == [128, 128]


async def test_the_last_one_to_leave_frees_all(crowd: Crowd) -> None:
    await crowd.join(A)
    await crowd.owners.pop(A).ownership.leave()
    assert (crowd.table.owned(A), crowd.offers) == ([], [])
    await crowd.join(B)
    assert crowd.counts == [256]


async def test_the_shards_of_a_dead_one_are_shared_as_soon_as_its_term_is_over(crowd: Crowd) -> None:
    await crowd.join(A, B, C)
    await crowd.step()
    del crowd.owners[C]
    dies_at = crowd.table.expires[C]
    before = dict(crowd.table.epochs)
    wait_s = 0.3
    while sum(crowd.counts) < 256:
        crowd.clock.now += wait_s
        wait_s = await crowd.step()
    assert 0 <= crowd.clock.now - dies_at < 0.1
    assert crowd.counts == [128, 128]
    assert crowd.moved(before) == 85
    crowd.check()


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_taker_that_does_not_answer_finds_its_shards_by_itself(crowd: Crowd, leaves: bool) -> None:
    await crowd.join(A, B)
    silent = crowd.owners.pop(B)
    if leaves:
        await crowd.owners.pop(A).ownership.leave()
    else:
        await crowd.step(A)
        assert crowd.counts == [128]
        assert crowd.offers == [(A, B, 128)]
    crowd.owners[B] = silent
    await crowd.step(B)
    assert crowd.counts == ([256] if leaves else [128, 128])
    crowd.check()


@pytest.mark.parametrize("call", ["give_up", "roster", "acquire", "renew"])
async def test_answers_that_are_lost_cost_time_and_no_shard(crowd: Crowd, call: str) -> None:
    await crowd.join(A, B)
    crowd.table.lose = [call]
    for _ in range(4):
        await crowd.step()
        crowd.clock.now += 0.5
    assert crowd.counts == [128, 128]
    crowd.check()


async def test_nobody_takes_what_is_not_free_whoever_offers_it(crowd: Crowd) -> None:
    await crowd.join(A, B)
    await crowd.step(A)
    owned = crowd.table.owned(A)
    assert await crowd.owners[B].peers.take_over(A, owned[:5]) == []
    assert await crowd.owners[B].peers.take_over(A, []) == []
    crowd.check()


async def test_one_whose_term_is_in_doubt_or_that_is_leaving_takes_nothing(crowd: Crowd) -> None:
    await crowd.join(A, B)
    crowd.table.owners |= dict.fromkeys(ALL[:9], None)
    crowd.clock.now += TERM_S * 2 / 3
    assert await crowd.owners[B].ownership.take_over(ALL[:9]) == []
    await crowd.step(B)
    crowd.table.owners |= dict.fromkeys(ALL[:9], None)
    leaver = crowd.owners.pop(B)
    await leaver.ownership.leave()
    assert await leaver.ownership.take_over(ALL[:9]) == []
    assert crowd.table.owned(B) == []


async def test_what_is_taken_over_during_a_step_is_not_lost_by_what_the_step_had_read(crowd: Crowd) -> None:
    await crowd.join(A, B)
    await crowd.step(A)
    held = crowd.table.held["roster"] = asyncio.Event()
    step = asyncio.create_task(crowd.owners[B].ownership.step())
    await turns()
    # The answer that is on its way says of the ten what was true before.
    given = crowd.table.owned(A)[:10]
    await crowd.table.give_up(A, given)
    taking = asyncio.create_task(crowd.owners[B].ownership.take_over(given))
    await turns()
    held.set()
    await asyncio.gather(step, taking)
    assert set(given) <= crowd.owners[B].memory.terms.keys()
    assert crowd.table.owned(B) == sorted(crowd.owners[B].memory.terms)
    # Nothing was dropped and begun anew in between.
    assert len(crowd.owners[B].begun) == len(set(crowd.owners[B].begun))


async def test_two_who_give_to_each_other_do_not_wait_for_each_other(crowd: Crowd) -> None:
    """B has read that A is to have half, when A decides to leave and to give all it has to B."""
    await crowd.join(B, A)
    some = ALL[:10]
    await crowd.table.give_up(B, some)
    await crowd.table.acquire(A, 10, some)
    await crowd.owners[A].ownership.step()
    held = crowd.table.held["give_up"] = asyncio.Event()
    step = asyncio.create_task(crowd.owners[B].ownership.step())
    await turns()
    leaver = crowd.owners[A]
    leave = asyncio.create_task(leaver.ownership.leave())
    await turns()
    held.set()
    await asyncio.wait_for(asyncio.gather(step, leave), 5.0)
    assert {(sender, peer) for sender, peer, _ in crowd.offers} == {(A, B), (B, A)}
    del crowd.owners[A]
    await crowd.step(B)
    assert crowd.counts == [256]


async def test_nothing_is_freed_for_one_that_is_reached_in_a_moment(crowd: Crowd) -> None:
    crowd.opens = False
    await crowd.join(A, B)
    await crowd.step(A)
    assert (len(crowd.table.owned(A)), crowd.offers) == (256, [])
    crowd.ways[A, B].on_open()
    await crowd.step(A)
    assert (crowd.counts, crowd.offers) == ([128, 128], [(A, B, 128)])


async def test_one_that_is_never_reached_finds_its_share_by_itself(crowd: Crowd) -> None:
    crowd.opens = False
    await crowd.join(A, B)
    await crowd.step(A)
    crowd.clock.now += REACH_S
    await crowd.step(A)
    assert crowd.counts[0] == 128
    await crowd.step(B)
    assert crowd.counts == [128, 128]


async def test_one_who_is_not_known_by_an_address_for_peers_finds_its_share_by_itself(crowd: Crowd) -> None:
    await crowd.join(A, B)
    crowd.table.addresses[B] = ""
    await crowd.step(A)
    assert (crowd.counts, crowd.offers) == ([128, 0], [])
    await crowd.step(B)
    assert crowd.counts == [128, 128]
