"""Offers: jobs that nobody here takes are offered to as many peers as it takes, in turn, and the end of it is told."""

import asyncio
import math
from collections.abc import Callable, Sequence

import pytest

from rota.coordinator import offers as module
from rota.coordinator.news import Claimed, ClaimWish, Demand, Kind, News, Offer
from rota.coordinator.offers import AGAIN_S, COUNT_MAX, KINDS_A_LOOK, LOOK_S, Offers
from rota.coordinator.peers import GATHER_S, Peers
from rota.domain.fairness import Entry, ReadyQueue, Wants
from rota.domain.ids import CoordinatorId, ShardNo, TenantId
from rota.store.port import Colleague

from .fakes import ME, TENANT, job_id
from .virtual import loop_clock, virtual

CROWD = tuple(CoordinatorId(f"c{n}000000-0000-7000-8000-000000000000") for n in "123456789")
B, C = CROWD[:2]
ANY = Kind(TENANT, "q", ())
ALL = Wants(TENANT, ("q",), frozenset())
SOON_S = LOOK_S + 2 * GATHER_S


class Line:
    def __init__(self) -> None:
        self.offers: list[Offer] = []

    def send(self, news: News) -> bool:
        self.offers += news.offers.values()
        return True

    async def claim(self, wish: ClaimWish) -> Claimed:
        return Claimed([])

    async def hand_over(self, shards: Sequence[ShardNo]) -> list[ShardNo]:
        return []

    async def close(self) -> None:
        return None


class Scene:
    def __init__(self, *peers: CoordinatorId) -> None:
        clock = loop_clock(asyncio.get_running_loop())  # type: ignore[arg-type]
        self.lines: dict[CoordinatorId, Line] = {}
        peering = Peers(ME, clock, self._dial)
        peering.follow([Colleague(id, "a", 9.0) for id in peers], 8, {})
        self.ready = ReadyQueue()
        self.offers = Offers(peering, self.ready, clock)

    def _dial(self, peer: CoordinatorId, address: str, **_: Callable[[], None]) -> Line:
        return self.lines.setdefault(peer, Line())

    def demand(self, peer: CoordinatorId, slots: int, kind: Kind = ANY, id: int = 1) -> None:
        self.offers.hear(peer, [Demand(id, kind, slots)])

    def push(self, *numbers: int, **fields: object) -> None:
        for number in numbers:
            usual = {"queue": "q", "type": "t", "priority": 4, "due_us": number * 1_000_000, "size": 1}
            self.ready.push(Entry(TENANT, job_id(number), ShardNo(0), **usual | fields))  # type: ignore[arg-type]
        self.offers.look()

    def offered(self) -> list[CoordinatorId]:
        """Who was offered something."""
        return [peer for peer, line in self.lines.items() if any(offer.count for offer in line.offers)]

    def told(self, peer: CoordinatorId = B) -> list[int]:
        """The counts that a peer was told, since it was asked last."""
        counts = [offer.count for offer in self.lines[peer].offers]
        self.lines[peer].offers.clear()
        return counts


@virtual
async def test_what_is_ready_is_offered_to_who_demands_it() -> None:
    scene = Scene(B, C)
    scene.push(3, 1, 2)
    await asyncio.sleep(SOON_S)
    assert scene.offered() == []
    scene.demand(B, 9, id=7)
    await asyncio.sleep(SOON_S)
    assert scene.lines[B].offers == [Offer(7, 3, 1.0 - 4 * 30.0)]
    assert scene.lines[C].offers == []


@virtual
async def test_one_job_is_not_offered_to_a_crowd() -> None:
    scene = Scene(*CROWD)
    for peer in CROWD:
        scene.demand(peer, 10)
    scene.push(1)
    await asyncio.sleep(AGAIN_S / 2)
    assert len(scene.offered()) == 1
    # And to another one when that one does not come for it.
    first = scene.offered()
    await asyncio.sleep(AGAIN_S)
    assert len(scene.offered()) == 2
    await asyncio.sleep(AGAIN_S * 9)
    assert len(scene.offered()) > 5
    assert first[0] in scene.offered()


@virtual
async def test_many_jobs_are_offered_to_as_many_as_it_takes() -> None:
    scene = Scene(*CROWD)
    for peer in CROWD:
        scene.demand(peer, 4)
    scene.push(*range(10))
    await asyncio.sleep(AGAIN_S / 2)
    assert len(scene.offered()) == 3


@virtual
async def test_it_is_not_always_the_same_ones_turn() -> None:
    scene = Scene(*CROWD)
    for peer in CROWD:
        scene.demand(peer, 1)
    first: set[CoordinatorId] = set()
    for number in range(60):
        scene.push(number)
        await asyncio.sleep(SOON_S)
        first.update(scene.offered())
        scene.ready.take(ALL, 1, 99)
        scene.offers.look()
        await asyncio.sleep(SOON_S)
        for line in scene.lines.values():
            line.offers.clear()
    assert first == set(CROWD)


@virtual
async def test_the_end_is_told_once_to_who_was_offered_something() -> None:
    scene = Scene(B, C)
    scene.demand(B, 5)
    scene.demand(C, 5)
    scene.push(1)
    await asyncio.sleep(SOON_S)
    (offered,) = scene.offered()
    (other,) = {B, C} - {offered}
    assert scene.told(offered) == [1]
    scene.ready.take(ALL, 1, 99)
    for _ in range(3):
        scene.offers.look()
        await asyncio.sleep(SOON_S)
    assert (scene.told(offered), scene.told(other)) == ([0], [])


@virtual
async def test_while_there_is_something_it_is_offered_again_and_then_all_is_quiet() -> None:
    scene = Scene(B)
    scene.demand(B, 5)
    scene.push(1)
    await asyncio.sleep(10 * AGAIN_S)
    assert 8 <= len(scene.told()) <= 11
    scene.ready.take(ALL, 1, 99)
    scene.offers.look()
    await asyncio.sleep(10 * AGAIN_S)
    assert scene.told() == [0]


@virtual
async def test_who_wants_no_more_is_offered_no_more() -> None:
    scene = Scene(B, C)
    scene.demand(B, 5)
    scene.demand(C, 5)
    scene.demand(B, 0)
    scene.offers.forget(C)
    assert not scene.offers
    scene.push(1)
    await asyncio.sleep(10 * AGAIN_S)
    assert scene.offered() == []
    # What is not known any more is of no concern.
    scene.demand(B, 0)
    scene.offers.forget(C)


@virtual
async def test_looks_that_follow_each_other_are_one() -> None:
    scene = Scene(B)
    scene.demand(B, 1_000_000)
    counted = 0

    def count(wants: Wants, most: int) -> int:
        nonlocal counted
        counted += 1
        return 0

    scene.ready.count = count  # type: ignore[method-assign]
    for number in range(100):
        scene.push(number)
        await asyncio.sleep(LOOK_S / 100)
    assert counted <= 3


@virtual
async def test_offers_are_of_the_kind_that_is_demanded() -> None:
    scene = Scene(B, C)
    scene.demand(B, 5, Kind(TENANT, "q", ("t", "u")))
    scene.demand(C, 5, Kind(TENANT, "q", ("v",)))
    scene.demand(C, 5, Kind(TENANT, "r", ()), id=2)
    scene.demand(C, 5, Kind(TenantId(2), "q", ()), id=3)
    scene.push(1, 2, type="t")
    scene.push(3, type="w")
    await asyncio.sleep(SOON_S)
    assert (scene.told(B), scene.told(C)) == ([2], [])
    scene.push(4, queue="r")
    await asyncio.sleep(SOON_S)
    assert [(offer.demand_id, offer.count) for offer in scene.lines[C].offers] == [(2, 1)]


@virtual
async def test_an_offer_is_no_larger_than_it_need_be() -> None:
    scene = Scene(B)
    scene.demand(B, 5)
    scene.push(*range(COUNT_MAX + 50))
    await asyncio.sleep(SOON_S)
    assert scene.told() == [COUNT_MAX]


@virtual
async def test_a_claim_is_told_what_is_left() -> None:
    scene = Scene(B, C)
    scene.demand(B, 1)
    scene.demand(C, 1)
    scene.push(1, 2, 3)
    scene.ready.take(ALL, 1, 99)
    assert scene.offers.left(B, [1, 99]) == (Offer(1, 2, 2.0 - 120.0),)
    await asyncio.sleep(SOON_S)
    # It has been told so just now: the other one is next.
    assert (scene.told(B), scene.told(C)) == ([], [2])
    scene.ready.take(ALL, 9, 99)
    assert [offer.count for offer in scene.offers.left(B, [1])] == [0]
    scene.offers.look()
    await asyncio.sleep(SOON_S)
    assert (scene.told(B), scene.told(C)) == ([], [0])
    assert scene.offers.left(CROWD[5], [1]) == ()


@virtual
async def test_a_claim_takes_what_its_demands_are_of() -> None:
    scene = Scene(B)
    scene.demand(B, 1, Kind(TENANT, "q", ("t",)), id=1)
    scene.demand(B, 1, Kind(TENANT, "r", ("t",)), id=2)
    assert scene.offers.wants(B, [2, 1, 99]) == Wants(TENANT, ("r", "q"), frozenset("t"))
    assert scene.offers.wants(B, [99]) is scene.offers.wants(C, [1]) is None
    scene.offers.forget(B)
    assert scene.offers.wants(B, [1]) is None


@virtual
async def test_a_claim_that_comes_after_the_demand_has_ended_still_says_of_what_it_is() -> None:
    scene = Scene(B)
    scene.demand(B, 1)
    scene.demand(B, 0)
    assert scene.offers.wants(B, [1]) == ALL


@virtual
async def test_demands_of_one_peer_have_a_limit() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "DEMANDS_MAX", 2)
        scene = Scene(B, C)
        for id in (1, 2, 3):
            scene.demand(B, 1, Kind(TENANT, f"q{id}", ()), id=id)
        scene.demand(C, 1, Kind(TENANT, "q3", ()), id=3)
        scene.push(1, queue="q3")
        await asyncio.sleep(10 * AGAIN_S)
        assert scene.offered() == [C]


@virtual
async def test_demands_that_have_ended_make_room() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "DEMANDS_MAX", 2)
        scene = Scene(B)
        for id in range(1, 6):
            scene.demand(B, 1, Kind(TENANT, f"q{id}", ()), id=id)
            scene.push(id, queue=f"q{id}")
            await asyncio.sleep(module.SWEEP_S)
            assert scene.offers.wants(B, [id]) == Wants(TENANT, (f"q{id}",), frozenset())
            scene.demand(B, 0, Kind(TENANT, f"q{id}", ()), id=id)


@virtual
async def test_thousands_of_kinds_have_their_turn_a_part_at_a_time() -> None:
    scene = Scene(B)
    kinds = 3 * KINDS_A_LOOK + 7
    for id in range(kinds):
        scene.demand(B, 1, Kind(TENANT, f"q{id}", ()), id=id)
    for id in range(kinds):
        scene.push(id, queue=f"q{id}")
    await asyncio.sleep(LOOK_S + GATHER_S / 2)
    assert 0 < len(scene.lines[B].offers) <= 2 * KINDS_A_LOOK
    await asyncio.sleep(math.ceil(kinds / KINDS_A_LOOK) * LOOK_S + 2 * GATHER_S)
    assert {offer.demand_id for offer in scene.lines[B].offers} == set(range(kinds))
    # And when nothing is left nobody looks any more.
    for id in range(kinds):
        scene.ready.take(Wants(TENANT, (f"q{id}",), frozenset()), 9, 99)
    await asyncio.sleep(1.0)
    looks = scene.offers._turn
    await asyncio.sleep(10.0)
    assert scene.offers._turn == looks
