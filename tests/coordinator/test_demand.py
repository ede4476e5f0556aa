"""Demand: peers hear of parked polls when it matters, and the best of what they offer is taken."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from rota.coordinator import demand as module
from rota.coordinator.demand import SLOTS_MAX, TELL_S, Demands
from rota.coordinator.news import Claimed, ClaimWish, Demand, Kind, News, Offer
from rota.coordinator.peers import GATHER_S, Peers
from rota.domain.fairness import Wants
from rota.domain.ids import CoordinatorId, ShardNo, TenantId
from rota.store.port import Colleague

from .fakes import ME, TENANT
from .virtual import loop_clock, virtual

B, C = (CoordinatorId(f"c{n}000000-0000-7000-8000-000000000000") for n in "bc")
WANTS = Wants(TENANT, ("q",), frozenset())
SOON_S = 2 * (TELL_S + GATHER_S)


class Line:
    def __init__(self) -> None:
        self.told: list[News] = []

    def send(self, news: News) -> bool:
        self.told.append(news)
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
        self.peers = Peers(ME, clock, self._dial)
        self.peers.follow([Colleague(id, "a", 9.0) for id in peers], 8, {})
        self.demands = Demands(self.peers, clock)

    def _dial(self, peer: CoordinatorId, address: str, **_: Callable[[], None]) -> Line:
        return self.lines.setdefault(peer, Line())

    def told(self, peer: CoordinatorId = B) -> list[dict[int, int]]:
        """Free slots by id, for each time that something was told."""
        return [{id: demand.free_slots for id, demand in news.demands.items()} for news in self.lines[peer].told]


@virtual
async def test_the_first_poll_and_the_last_are_told_at_once() -> None:
    scene = Scene(B, C)
    (id,) = kinds = scene.demands.kinds(WANTS)
    scene.demands.change(kinds, 4)
    await asyncio.sleep(GATHER_S / 10)
    assert scene.told(B) == scene.told(C) == [{id: 4}]
    assert scene.lines[B].told[0].demands[id].kind == Kind(TENANT, "q", ())
    scene.demands.change(kinds, -4)
    await asyncio.sleep(SOON_S)
    assert scene.told() == [{id: 4}, {id: 0}]


@virtual
async def test_small_changes_are_not_told_and_large_ones_are() -> None:
    scene = Scene(B)
    (id,) = kinds = scene.demands.kinds(WANTS)
    told: list[dict[int, int]] = []
    for change, now in ((10, 10), (9, None), (1, 20), (-9, None), (-1, 10), (-4, None), (-1, 5), (-2, None), (-3, 0)):
        scene.demands.change(kinds, change)
        await asyncio.sleep(SOON_S)
        told += [] if now is None else [{id: now}]
        assert scene.told() == told


@virtual
async def test_a_poll_that_comes_and_goes_is_not_worth_a_word() -> None:
    scene = Scene(B)
    kinds = scene.demands.kinds(WANTS)
    scene.demands.change(kinds, 3)
    scene.demands.change(kinds, -3)
    await asyncio.sleep(SOON_S)
    assert scene.told() == []


@virtual
async def test_many_changes_are_one_message_in_a_while() -> None:
    scene = Scene(B)
    for number in range(100):
        kinds = scene.demands.kinds(Wants(TENANT, (f"q{number}",), frozenset()))
        scene.demands.change(kinds, 1)
        await asyncio.sleep(TELL_S / 20)
    await asyncio.sleep(SOON_S)
    assert len(scene.told()) <= 7
    assert len({id for told in scene.told() for id in told}) == 100


@virtual
async def test_one_that_knows_nothing_is_told_all_that_is_so_now() -> None:
    scene = Scene(B)
    (one,) = first = scene.demands.kinds(WANTS)
    (two,) = second = scene.demands.kinds(Wants(TENANT, ("r",), frozenset()))
    (three,) = third = scene.demands.kinds(Wants(TENANT, ("s",), frozenset()))
    scene.demands.change(first, 10)
    scene.demands.change(second, 10)
    scene.demands.change(third, 1)
    scene.demands.change(third, -1)
    await asyncio.sleep(SOON_S)
    scene.demands.change(first, 3)
    scene.demands.change(second, -10)
    scene.demands.tell_all(B)
    await asyncio.sleep(0)
    # What it was told before has ended, and it may not have heard so.
    assert {id: d.free_slots for id, d in scene.peers.tell(B).demands.items()} == {one: 13, two: 0}
    assert three not in scene.peers.tell(B).demands


@virtual
async def test_one_without_peers_tells_nobody_and_keeps_count() -> None:
    scene = Scene()
    (id,) = kinds = scene.demands.kinds(WANTS)
    scene.demands.change(kinds, 4)
    await asyncio.sleep(SOON_S)
    scene.peers.follow([Colleague(B, "a", 9.0)], 8, {})
    scene.demands.tell_all(B)
    await asyncio.sleep(SOON_S)
    assert scene.told() == [{id: 4}]


@virtual
async def test_more_than_anybody_has_is_not_told() -> None:
    scene = Scene(B)
    (id,) = kinds = scene.demands.kinds(WANTS)
    scene.demands.change(kinds, 10 * SLOTS_MAX)
    await asyncio.sleep(SOON_S)
    scene.demands.change(kinds, 90 * SLOTS_MAX)
    await asyncio.sleep(SOON_S)
    assert scene.told() == [{id: SLOTS_MAX}]


@virtual
async def test_a_kind_has_one_name() -> None:
    demands = Scene(B).demands
    types = ("a", "b", "c")
    (first,) = demands.kinds(Wants(TENANT, ("q",), frozenset(types)))
    assert demands.kinds(Wants(TENANT, ("q",), frozenset(reversed(types)))) == (first,)
    # A queue that is named twice is one.
    assert demands.kinds(Wants(TENANT, ("q", "r", "q"), frozenset(types)))[0] == first
    assert len(demands.kinds(Wants(TENANT, ("q", "r", "q"), frozenset(types)))) == 2
    others = (
        Wants(TENANT, ("q",), frozenset()),
        Wants(TENANT, ("q",), frozenset("a")),
        Wants(TenantId(2), ("q",), frozenset(types)),
    )
    assert first not in [id for wants in others for id in demands.kinds(wants)]


@virtual
async def test_kinds_have_a_limit() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "KINDS_MAX", 2)
        demands = Scene(B).demands
        wants = [Wants(TENANT, (queue,), frozenset()) for queue in ("a", "b", "c")]
        for each in wants[:2]:
            demands.change(demands.kinds(each), 1)
        assert [len(demands.kinds(each)) for each in wants] == [1, 1, 0]
        assert demands.kinds(Wants(TENANT, ("c", "b"), frozenset())) == demands.kinds(wants[1])


@virtual
async def test_kinds_that_nobody_waits_for_make_room() -> None:
    """A coordinator lives for months, and sees more of them than it can tell of at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "KINDS_MAX", 1)
        scene = Scene(B)
        demands = scene.demands
        ids = []
        for number in range(6):
            kinds = demands.kinds(Wants(TENANT, (f"q{number}",), frozenset()))
            assert len(kinds) == 1, f"no room for q{number}"
            ids += kinds
            demands.change(kinds, 1)
            await asyncio.sleep(module.SWEEP_S)
            demands.hear(B, [Offer(kinds[0], 1, 1.0)])
            # The next one comes before the end of this one could be told.
            demands.change(kinds, -1)
        await asyncio.sleep(SOON_S)
        assert len(set(ids)) == 6
        slots = [(id, free) for told in scene.told() for id, free in told.items()]
        assert {id for id, free in slots if free} == set(ids)
        # The peer knows the end of each: the last thing that it heard of it.
        assert set(dict(slots).values()) == {0}
        assert demands.best(ids[:-1]) is None


@virtual
async def test_the_best_offer_for_any_of_its_queues_is_taken() -> None:
    demands = Scene(B, C).demands
    one, two = demands.kinds(Wants(TENANT, ("q", "r"), frozenset()))
    assert (demands.best((one, two)), bool(demands)) == (None, False)
    assert demands.hear(B, [Offer(one, 5, 30.0), Offer(two, 1, 20.0)])
    assert demands.hear(C, [Offer(one, 5, 10.0)])
    assert demands.best((one, two)) == (C, 10.0)
    assert demands.best((two,)) == (B, 20.0)
    assert (demands.of((one, two), B), demands.of((one, two), C)) == ((one, two), (one,))
    assert sorted(kind.queue for kind in demands.offered()) == ["q", "r"]
    # An offer is heard of once, and then only changed.
    demands.hear(C, [Offer(one, 5, 40.0)])
    assert demands.best((one, two)) == (B, 20.0)


@virtual
async def test_what_is_claimed_is_offered_no_more() -> None:
    demands = Scene(B, C).demands
    (id,) = kinds = demands.kinds(WANTS)
    demands.hear(B, [Offer(id, 5, 30.0)])
    demands.use(kinds, B, 3)
    assert demands.best(kinds) == (B, 30.0)
    demands.use(kinds, B, 2)
    assert (demands.best(kinds), bool(demands)) == (None, False)
    # Whatever comes late.
    demands.use(kinds, B, 2)
    assert not demands.hear(B, [Offer(id, 0)])
    assert not demands


@virtual
async def test_who_is_gone_or_has_no_more_offers_nothing() -> None:
    demands = Scene(B, C).demands
    (id,) = kinds = demands.kinds(WANTS)
    demands.hear(B, [Offer(id, 5, 30.0)])
    demands.hear(C, [Offer(id, 5, 40.0)])
    demands.forget(B)
    assert demands.best(kinds) == (C, 40.0)
    assert not demands.hear(C, [Offer(id, 0)])
    assert not demands
    # Nor is it of use what was offered for demands of somebody else.
    assert not demands.hear(B, [Offer(99, 5, 1.0)])
    assert not demands


@virtual
async def test_a_demand_says_what_it_is_for() -> None:
    scene = Scene(B)
    kinds = scene.demands.kinds(Wants(TENANT, ("q",), frozenset(("b", "a"))))
    scene.demands.change(kinds, 1)
    await asyncio.sleep(SOON_S)
    (demand,) = scene.lines[B].told[0].demands.values()
    assert demand == Demand(kinds[0], Kind(TENANT, "q", ("a", "b")), 1)
