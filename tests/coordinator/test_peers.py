"""Peers: news travel together to whom they concern, stay bounded where nobody reads, and go on after whatever broke."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from rota.coordinator import peers as module
from rota.coordinator.members import Inventory
from rota.coordinator.news import Claimed, ClaimWish, Demand, Holding, Kind, Lease, News, Order
from rota.coordinator.peers import ARM_EVERY_S, GATHER_S, Peers
from rota.domain import ids
from rota.domain.errors import Unavailable
from rota.domain.fairness import Entry
from rota.domain.ids import CoordinatorId, Fence, JobId, SessionId, ShardNo, TenantId
from rota.domain.model import DirectiveKind
from rota.store.port import Colleague

from .fakes import ME, SESSION, TENANT, job_id
from .virtual import loop_clock, virtual

B, C = (CoordinatorId(f"c{n}000000-0000-7000-8000-000000000000") for n in "bc")
SHARDS = 8
TURN_S = 1e-4
"""Longer than what runs at once, shorter than any wait."""


class Line:
    """A Wire that notes what is told, and when."""

    def __init__(
        self, peer: CoordinatorId, address: str, on_open: Callable[[], None], on_room: Callable[[], None]
    ) -> None:
        self.peer = peer
        self.address = address
        self.on_open = on_open
        self.on_room = on_room
        self.room = True
        self.closed = False
        self.told: list[tuple[float, News]] = []
        self.answers: asyncio.Event | None = None

    def send(self, news: News) -> bool:
        if self.room:
            self.told.append((asyncio.get_running_loop().time(), news))
        return self.room

    async def claim(self, wish: ClaimWish) -> Claimed:
        return Claimed([])

    async def hand_over(self, shards: Sequence[ShardNo]) -> list[ShardNo]:
        if self.answers is not None:
            await self.answers.wait()
        return list(shards)

    async def close(self) -> None:
        self.closed = True


class Ear:
    """Hearing, as a list of what was heard."""

    def __init__(self) -> None:
        self.said: list[tuple[str, object]] = []
        self.all_told: Callable[[CoordinatorId], None] = lambda peer: None

    def heard(self, peer: CoordinatorId, news: News) -> None:
        self.said.append(("heard", (peer, news)))

    def tell_all(self, peer: CoordinatorId) -> None:
        self.said.append(("tell all", peer))
        self.all_told(peer)

    def gone(self, peer: CoordinatorId) -> None:
        self.said.append(("gone", peer))

    async def claim_for(self, wish: ClaimWish) -> Claimed:
        return Claimed([])

    async def take_over(self, shards: Sequence[ShardNo]) -> list[ShardNo]:
        return list(shards)

    def met(self) -> None:
        self.said.append(("met", None))


class Scene:
    """One coordinator with peers B and C; B owns the odd shards, C those that four divides."""

    def __init__(self, *, dial: bool = True) -> None:
        self.clock = loop_clock(asyncio.get_running_loop())  # type: ignore[arg-type]
        self.lines: dict[CoordinatorId, Line] = {}
        self.peers = Peers(ME, self.clock, self._dial if dial else None)
        self.ear = self.peers.hearing = Ear()
        self.follow(B, C)

    def _dial(
        self, peer: CoordinatorId, address: str, *, on_open: Callable[[], None], on_room: Callable[[], None]
    ) -> Line:
        self.lines[peer] = Line(peer, address, on_open, on_room)
        return self.lines[peer]

    def follow(self, *living: CoordinatorId) -> None:
        colleagues = [Colleague(id, f"{id}:peer", 9.0) for id in (ME, *living)]
        owners = {ShardNo(n): B if n % 2 else C if n % 4 == 0 else ME for n in range(SHARDS)}
        self.peers.follow(colleagues, SHARDS, owners)

    def told(self, peer: CoordinatorId) -> list[News]:
        return [news for _, news in self.lines[peer].told]

    def job_in(self, *shards: int) -> JobId:
        """A job of one of these shards."""
        return next(j for j in map(job_id, range(1_000)) if ids.shard_of(TENANT, j) % SHARDS in shards)


def entry(number: int, shard: int) -> Entry:
    return Entry(TENANT, job_id(number), ShardNo(shard), "q", "t", 4, 0, 100)


@virtual
async def test_news_that_follow_others_travel_together() -> None:
    scene = Scene()
    start = scene.clock.monotonic()
    scene.peers.tell_queues()
    await asyncio.sleep(TURN_S)
    # The first go at once.
    assert [news.queues_changed for news in scene.told(B)] == [True]
    for number in range(3):
        scene.peers.tell_proven(ShardNo(1), job_id(number), Fence(number))
        await asyncio.sleep(GATHER_S / 10)
    assert len(scene.told(B)) == 1
    await asyncio.sleep(GATHER_S)
    assert [len(news.proven) for news in scene.told(B)] == [0, 3]
    assert scene.lines[B].told[1][0] - scene.lines[B].told[0][0] == pytest.approx(GATHER_S, abs=TURN_S)
    assert scene.clock.monotonic() - start < 2 * GATHER_S
    assert len(scene.told(C)) == 1


@virtual
async def test_each_hears_of_what_is_its_own() -> None:
    scene = Scene()
    of_b, of_c, mine = scene.job_in(1, 3, 5, 7), scene.job_in(0, 4), scene.job_in(2, 6)
    for job in (of_b, of_c, mine):
        scene.peers.tell_settled(TENANT, job, Fence(1))
    scene.peers.tell_proven(ShardNo(2), mine, Fence(2))
    scene.peers.tell_proven(ShardNo(4), of_c, Fence(2))
    scene.peers.tell_waiting(entry(n, n) for n in range(SHARDS))
    await asyncio.sleep(TURN_S)
    (to_b,), (to_c,) = scene.told(B), scene.told(C)
    assert (to_b.settled, to_c.settled) == ([Lease(of_b, Fence(1))], [Lease(of_c, Fence(1))])
    assert (to_b.proven, to_c.proven) == ([], [Lease(of_c, Fence(2))])
    assert [e.shard for e in to_b.waiting] == [1, 3, 5, 7]
    assert [e.shard for e in to_c.waiting] == [0, 4]


@virtual
async def test_all_hear_of_sessions_and_orders_and_one_of_what_it_asked_for() -> None:
    scene = Scene()
    order = Order(SESSION, DirectiveKind.RESYNC)
    holding = Holding(SESSION, TENANT, Inventory(frozenset(), {}))
    scene.peers.tell_order(order)
    scene.peers.tell_sessions_ended([SESSION])
    scene.peers.tell_holding(C, holding)
    scene.peers.tell_holding(CoordinatorId("nobody"), holding)
    await asyncio.sleep(TURN_S)
    for peer in (B, C):
        (news,) = scene.told(peer)
        assert (news.orders, news.sessions_ended) == ([order], [SESSION])
        assert news.holdings == ([holding] if peer == C else [])


@virtual
async def test_a_job_is_not_told_back_to_who_told_of_it() -> None:
    scene = Scene()
    scene.peers.tell_waiting([entry(1, 1), entry(2, 4)], teller=B)
    await asyncio.sleep(TURN_S)
    assert (scene.told(B), [len(news.waiting) for news in scene.told(C)]) == ([], [1])


@virtual
async def test_what_is_on_offer_is_the_takers_even_before_it_has_answered() -> None:
    scene = Scene()
    scene.lines[C].answers = asyncio.Event()
    offer = asyncio.create_task(scene.peers.hand_over(C, [ShardNo(2)]))
    await asyncio.sleep(TURN_S)
    scene.peers.tell_waiting([entry(1, 2), entry(2, 6)])
    await asyncio.sleep(TURN_S)
    assert (scene.told(B), [[e.shard for e in news.waiting] for news in scene.told(C)]) == ([], [[2]])
    scene.lines[C].answers.set()
    assert await offer == [2]


@virtual
async def test_a_shard_that_is_nobodys_now_is_asked_for_at_its_owner_before() -> None:
    scene = Scene()
    scene.peers.follow([Colleague(id, f"{id}:peer", 9.0) for id in (ME, B, C)], SHARDS, {ShardNo(1): C})
    scene.peers.tell_waiting([entry(1, 1), entry(3, 3)])
    await asyncio.sleep(TURN_S)
    assert [[e.shard for e in news.waiting] for peer in (B, C) for news in scene.told(peer)] == [[3], [1]]


@virtual
async def test_what_a_peer_does_not_read_stays_bounded() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ITEMS_MAX", 5)
        scene = Scene()
        scene.lines[B].room = False
        job = scene.job_in(1)
        for number in range(20):
            scene.peers.tell_waiting([entry(number, 1), entry(100 + number, 1)])
            scene.peers.tell_settled(TENANT, job, Fence(number))
            scene.peers.tell_proven(ShardNo(1), job, Fence(number))
            scene.peers.tell_order(Order(SESSION, DirectiveKind.CANCEL, job, Fence(number)))
            scene.peers.tell_sessions_ended([SessionId(str(number)), SessionId(f"{number}b")])
            scene.peers.tell_holding(B, Holding(SESSION, TENANT, Inventory(frozenset(), {})))
            await asyncio.sleep(GATHER_S)
        assert scene.told(B) == []
        left = scene.peers.tell(B)
        assert [
            len(items)
            for items in (left.waiting, left.settled, left.proven, left.orders, left.sessions_ended, left.holdings)
        ] == [5] * 6
        assert len(scene.told(C)) > 5


@virtual
async def test_what_found_no_room_goes_when_there_is_some() -> None:
    scene = Scene()
    scene.lines[B].room = False
    demand = Demand(1, Kind(TENANT, "q", ()), 3)
    scene.peers.tell(B).demands[1] = demand
    await asyncio.sleep(GATHER_S)
    scene.peers.tell(B).demands[1] = Demand(1, demand.kind, 0)
    await asyncio.sleep(GATHER_S)
    scene.lines[B].room = True
    scene.lines[B].on_room()
    # Once, and as it is now.
    assert [news.demands[1].free_slots for news in scene.told(B)] == [0]
    scene.lines[B].on_room()
    await asyncio.sleep(1.0)
    assert len(scene.told(B)) == 1


@virtual
async def test_whoever_lives_is_dialled_and_who_does_not_is_forgotten() -> None:
    scene = Scene()
    assert {line.address for line in scene.lines.values()} == {f"{B}:peer", f"{C}:peer"}
    assert (len(scene.peers), bool(scene.peers), set(scene.peers)) == (2, True, {B, C})
    line = scene.lines[B]
    scene.ear.said.clear()
    scene.follow(B)
    await asyncio.sleep(TURN_S)
    # One that is there is told again what it may have missed, and not dialled again.
    assert scene.ear.said == [("gone", C), ("tell all", B)]
    assert (scene.lines[B] is line, line.closed, scene.lines[C].closed) == (True, False, True)
    scene.follow()
    assert not scene.peers
    scene.peers.tell_queues()
    scene.peers.tell_settled(TENANT, scene.job_in(1), Fence(1))
    scene.follow(B)
    assert scene.lines[B] is not line


@virtual
async def test_one_without_an_address_for_peers_is_no_peer() -> None:
    scene = Scene()
    scene.peers.follow([Colleague(B, "", 9.0)], SHARDS, {})
    assert not scene.peers
    # Nor is anybody, for one that does not dial.
    assert not Scene(dial=False).peers


@virtual
async def test_a_way_that_opens_is_told_everything() -> None:
    scene = Scene()
    scene.ear.said.clear()
    scene.lines[B].room = False
    scene.peers.tell_proven(ShardNo(1), job_id(1), Fence(1))
    await asyncio.sleep(GATHER_S)
    scene.lines[B].room = True
    scene.ear.all_told = lambda peer: scene.peers.tell(peer).demands.update({7: Demand(7, Kind(TENANT, "q", ()), 1)})
    scene.lines[B].on_open()
    await asyncio.sleep(GATHER_S)
    assert scene.ear.said == [("met", None), ("tell all", B)]
    (news,) = scene.told(B)
    assert (list(news.demands), len(news.proven)) == ([7], 1)
    # Who opens again is nobody new.
    scene.ear.said.clear()
    scene.lines[B].on_open()
    assert scene.ear.said == [("tell all", B)]
    # One that is gone meanwhile is not told.
    scene.follow(C)
    scene.ear.said.clear()
    scene.lines[B].on_open()
    scene.lines[B].on_room()
    assert scene.ear.said == []


@virtual
async def test_the_newest_link_counts() -> None:
    scene = Scene()
    scene.ear.said.clear()
    older = scene.peers.listening(B)
    newer = scene.peers.listening(B)
    # What it said on the older one does not hold.
    assert scene.ear.said == [("gone", B)]
    scene.peers.deaf(B, older)
    assert scene.ear.said == [("gone", B)]
    scene.peers.deaf(B, newer)
    scene.peers.deaf(B, newer)
    assert scene.ear.said == [("gone", B)] * 2


@virtual
async def test_who_calls_before_the_database_names_it_is_heard() -> None:
    scene = Scene()
    scene.follow(C)
    scene.ear.said.clear()
    scene.peers.hear(B, News(armed=True))
    link = scene.peers.listening(B)
    scene.peers.hear(B, News(armed=True))
    assert [what for what, _ in scene.ear.said] == ["met", "heard"]
    # It cannot be told anything yet; what it misses it finds in the database.
    scene.peers.tell_queues()
    await asyncio.sleep(GATHER_S)
    assert not scene.peers.tell(B).queues_changed
    with pytest.raises(Unavailable):
        await scene.peers.hand_over(B, [ShardNo(1)])
    scene.follow(B, C)
    scene.peers.tell_queues()
    await asyncio.sleep(GATHER_S)
    assert [news.queues_changed for news in scene.told(B)] == [True]
    scene.peers.deaf(B, link)
    assert scene.ear.said[-1] == ("gone", B)


@virtual
@pytest.mark.parametrize("ends", ["ends", "is opened anew"])
async def test_one_that_comes_back_goes_on_by_its_link_and_what_it_said_ends_with_that(ends: str) -> None:
    scene = Scene()
    link = scene.peers.listening(B)
    # Its row was gone for a moment, and its link was not.
    scene.follow(C)
    scene.follow(B, C)
    assert scene.peers.hears_any()
    scene.peers.hear(B, News(armed=True))
    scene.ear.said.clear()
    if ends == "ends":
        scene.peers.deaf(B, link)
        assert not scene.peers.hears_any()
    else:
        scene.peers.listening(B)
        scene.peers.deaf(B, link)
    assert scene.ear.said == [("gone", B)]


@virtual
async def test_a_link_that_ends_while_its_peer_is_away_is_not_heard_again() -> None:
    scene = Scene()
    link = scene.peers.listening(B)
    scene.follow(C)
    scene.peers.deaf(B, link)
    scene.follow(B, C)
    assert not scene.peers.hears_any()


@virtual
async def test_nobody_is_claimed_at_who_is_not_there() -> None:
    scene = Scene()
    wish = ClaimWish(ME, TenantId(1), "t", SESSION, 0, 1, (1,), 1, 1)
    with pytest.raises(Unavailable):
        await scene.peers.claim(CoordinatorId("nobody"), wish)
    assert await scene.peers.claim(B, wish) == Claimed([])


@virtual
async def test_schedules_are_told_of_now_and_then_only() -> None:
    scene = Scene()
    for _ in range(40):
        scene.peers.tell_armed()
        await asyncio.sleep(ARM_EVERY_S / 20)
    assert 2 <= len(scene.told(B)) <= 3


@virtual
async def test_the_last_words_are_said_before_hanging_up() -> None:
    scene = Scene()
    scene.peers.tell_queues()
    await asyncio.sleep(TURN_S)
    scene.peers.tell_sessions_ended([SESSION])
    await scene.peers.close()
    assert [news.sessions_ended for news in scene.told(B)] == [[], [SESSION]]
    assert all(line.closed for line in scene.lines.values())
    assert not scene.peers
