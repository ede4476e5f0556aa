"""Batcher between tenants: turns, room for each, and priorities that waiting raises."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.coordinator import commits
from rota.coordinator.commits import PRIORITY_STEP_S, Batcher
from rota.domain.errors import ResourceExhausted
from rota.domain.ids import TenantId
from rota.domain.portions import SPARE

from .fakes import FakeClock, turns

BATCH_MAX = 100
WEIGHT_MAX = 150


@dataclass(eq=False)
class Item:
    tenant: TenantId
    number: int
    priority: int = 4
    weight: int = 1
    key: int | None = None
    since: float = 0.0

    @property
    def rank(self) -> float:
        return self.since - self.priority * PRIORITY_STEP_S


@dataclass
class Scene:
    """A batcher whose batches are written one by one, when the test says so."""

    priorities: bool = True
    clock: FakeClock = field(default_factory=FakeClock)
    batches: list[list[Item]] = field(default_factory=list)
    waiting: list[Item] = field(default_factory=list)
    left_behind: list[list[Item]] = field(default_factory=list)
    """After each batch: what waited on."""

    def __post_init__(self) -> None:
        self.gates: list[asyncio.Future[None]] = []
        self.submitted: list[Item] = []
        self.futures: list[asyncio.Future[int]] = []
        self.batcher: Batcher[Item, int] = Batcher(
            "things",
            self.write,
            self.clock,
            batch_max=BATCH_MAX,
            concurrency=1,
            tenant=attrgetter("tenant"),
            priority=attrgetter("priority") if self.priorities else None,
            weight=attrgetter("weight"),
            key=attrgetter("key"),
        )

    async def write(self, items: Sequence[Item]) -> list[int]:
        self.batches.append(list(items))
        for item in items:
            self.waiting.remove(item)
        self.left_behind.append(list(self.waiting))
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.gates.append(gate)
        await gate
        return [item.number for item in items]

    def submit(self, tenant: int, **fields: int | None) -> Item:
        item = Item(TenantId(tenant), len(self.submitted), since=self.clock.now, **fields)  # type: ignore[arg-type]
        self.futures.append(self.batcher.enqueue(item))
        self.submitted.append(item)
        self.waiting.append(item)
        return item

    async def next_batch(self) -> list[Item]:
        """Lets the batch on its way end; the next one."""
        count = len(self.batches)
        await turns(4)
        if len(self.batches) == count and self.gates and not self.gates[-1].done():
            self.gates[-1].set_result(None)
            await turns(4)
        return self.batches[-1] if len(self.batches) > count else []

    async def finish(self) -> None:
        while await self.next_batch():
            pass
        assert self.waiting == []


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    await scene.finish()


async def test_a_small_tenant_goes_with_the_next_batch_beside_a_neighbour_with_a_thousand_times_its_load(
    scene: Scene,
) -> None:
    for _ in range(19_000):
        scene.submit(1)
    await turns()
    for _ in range(20):
        small = [scene.submit(2) for _ in range(2)]
        batch = await scene.next_batch()
        assert set(small) <= set(batch)
        # Nothing is wasted by that.
        assert len(batch) == BATCH_MAX


async def test_heavy_items_of_a_neighbour_hold_up_one_batch_at_most(scene: Scene) -> None:
    for _ in range(100):
        scene.submit(1, weight=BATCH_MAX)
    await turns()
    for _ in range(10):
        small = scene.submit(2)
        first, second = await scene.next_batch(), await scene.next_batch()
        assert small in [*first, *second]


async def test_tenants_that_want_all_they_can_get_are_given_the_same(scene: Scene) -> None:
    loads = {1: (4_000, 1), 2: (1_000, 4), 3: (100, 40)}
    for tenant, (count, weight) in loads.items():
        for _ in range(count):
            scene.submit(tenant, weight=weight)
    await turns()
    given_out: dict[int, int] = defaultdict(int)
    for _ in range(60):
        for item in await scene.next_batch():
            given_out[item.tenant] += item.weight
    assert max(given_out.values()) - min(given_out.values()) <= 2 * 40
    assert sum(given_out.values()) >= 60 * BATCH_MAX * 0.6


TENANTS = range(1, 5)
PRIORITIES = (0, 4, 9)
WISHES = st.tuples(
    st.sampled_from(TENANTS),
    st.sampled_from(PRIORITIES),
    st.one_of(st.just(1), st.integers(1, WEIGHT_MAX)),
    st.integers(0, 5),
)
ROUNDS = st.lists(st.tuples(st.lists(WISHES, max_size=12), st.sampled_from((0.0, 0.1, 1.0))), max_size=20)


@settings(max_examples=60, deadline=None)
@given(keyed=st.booleans(), rounds=ROUNDS)
async def test_any_load_is_written_once_in_order_and_in_turns(
    keyed: bool, rounds: list[tuple[list[tuple[int, int, int, int]], float]]
) -> None:
    scene = Scene()
    for wishes, pause_s in rounds:
        for tenant, priority, weight, key in wishes:
            scene.submit(tenant, priority=priority, weight=weight, key=key if keyed else None)
        scene.clock.now += pause_s
        await scene.next_batch()
    await scene.finish()

    written = [item for batch in scene.batches for item in batch]
    assert sorted(item.number for item in written) == list(range(len(scene.submitted)))
    assert [future.result() for future in scene.futures] == list(range(len(scene.submitted)))
    for batch, left in zip(scene.batches, scene.left_behind, strict=True):
        assert len(batch) == 1 or sum(item.weight for item in batch) <= BATCH_MAX
        keys = [item.key for item in batch if item.key is not None]
        assert len(keys) == len(set(keys))
        for item in batch:
            # Only priority overtakes, and waiting outdoes it.
            assert all(item.rank <= other.rank for other in left if other.tenant == item.tenant)
    order = {item: at for at, item in enumerate(written)}
    for tenant in TENANTS:
        for priority in PRIORITIES:
            own = [order[i] for i in scene.submitted if (i.tenant, i.priority) == (tenant, priority)]
            assert own == sorted(own)
    if not keyed:
        check_turns(scene)


def check_turns(scene: Scene) -> None:
    """Whoever has something waiting is never behind another by more than a turn and two of the heaviest items."""
    ahead: dict[tuple[int, int], int] = defaultdict(int)
    for batch, left in zip(scene.batches, scene.left_behind, strict=True):
        weights: dict[int, int] = defaultdict(int)
        for item in batch:
            weights[item.tenant] += item.weight
        waits = {item.tenant for item in left}
        for one in TENANTS:
            for other in TENANTS:
                if other in waits:
                    ahead[one, other] = max(ahead[one, other] + weights[one] - weights[other], 0)
                else:
                    ahead[one, other] = 0
                assert ahead[one, other] <= 2 * WEIGHT_MAX + 2, (one, other)


async def test_low_priority_waits_for_high_but_not_for_ever(scene: Scene) -> None:
    for _ in range(BATCH_MAX):
        scene.submit(1, priority=9)
    await turns()
    low = scene.submit(1, priority=0)
    began = scene.clock.now
    # More of high priority comes than can be written.
    while low in scene.waiting:
        for _ in range(BATCH_MAX + 10):
            scene.submit(1, priority=9)
        scene.clock.now += 0.1
        await scene.next_batch()
    assert 9 * PRIORITY_STEP_S <= scene.clock.now - began <= 9 * PRIORITY_STEP_S + 1.0


async def test_priorities_of_one_tenant_say_nothing_to_another(scene: Scene) -> None:
    for _ in range(5 * BATCH_MAX):
        scene.submit(1, priority=9)
    await turns()
    low = scene.submit(2, priority=0)
    assert low in await scene.next_batch()


async def test_without_priorities_the_first_goes_first() -> None:
    scene = Scene(priorities=False)
    for number in range(3 * BATCH_MAX):
        scene.submit(1, priority=number % 10)
    await scene.finish()
    assert [item for batch in scene.batches for item in batch] == scene.submitted


async def test_a_flood_of_one_key_holds_up_its_tenant_alone(scene: Scene) -> None:
    for _ in range(50):
        scene.submit(1, key=7)
    behind = scene.submit(1)
    await turns()
    other = [scene.submit(2) for _ in range(3)]
    batch = await scene.next_batch()
    assert [item.key for item in batch if item.tenant == 1] == [7]
    assert set(other) <= set(batch)
    assert behind not in batch
    # It has its turn first, however much the other has to write.
    for _ in range(3 * BATCH_MAX):
        scene.submit(2)
    for _ in range(3):
        batch = await scene.next_batch()
        assert batch[0].key == 7
        assert len(batch) == BATCH_MAX


async def test_what_was_written_leaves_room(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "WAITING_MAX", 4 * BATCH_MAX)
    for number in range(4 * BATCH_MAX + 20):
        scene.submit(1 + number % 2)
    for _ in range(10):
        await scene.next_batch()
        for number in range(BATCH_MAX):
            scene.submit(1 + number % 2)
    # Full for either, and not for others.
    for tenant in (1, 2):
        with pytest.raises(ResourceExhausted):
            for _ in range(BATCH_MAX):
                scene.submit(tenant)
    scene.submit(3)


async def test_one_alone_may_use_the_whole_queue_and_others_find_room(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "WAITING_MAX", 800)

    def fill(tenant: int) -> int:
        count = 0
        while True:
            try:
                scene.submit(tenant)
            except ResourceExhausted as refusal:
                assert refusal.reason == "RATE_LIMITED"
                assert refusal.retry_after_s
                assert f"{count} of your things" in refusal.message
                return count
            count += 1

    assert fill(1) == 800
    first = fill(2)
    assert first >= 80
    assert fill(3) > 0
    assert len(scene.waiting) <= 800 * (SPARE + 1) // SPARE
    await scene.finish()
    assert scene.batcher._lines == {}
    assert scene.batcher._waiting_weight == 0
    assert fill(1) == 800


async def test_how_long_a_tenant_waits_is_its_own_matter(scene: Scene) -> None:
    clock, batcher = scene.clock, scene.batcher
    for _ in range(3 * BATCH_MAX):
        scene.submit(1, priority=0)
    await turns()
    clock.now += 3.0
    scene.submit(1, priority=9)
    scene.submit(2)
    clock.now += 0.5

    def waited_s(tenant: int, priority: int = 0) -> float:
        return batcher.waited_s(TenantId(tenant), clock.now, priority)

    # What waits of lower priority holds nothing up.
    assert [waited_s(1), waited_s(1, 1), waited_s(1, 9)] == [3.5, 0.5, 0.5]
    assert [waited_s(2), waited_s(2, 4), waited_s(2, 5), waited_s(3)] == [0.5, 0.5, 0.0, 0.0]
    await scene.finish()
    assert waited_s(1) == 0.0
