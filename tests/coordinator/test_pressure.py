"""Pressure: who is asked to wait at which lag, whose matter a lag is, and that it ends by itself."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from operator import attrgetter
from typing import Any

import pytest

from rota.coordinator.attendance import Beat
from rota.coordinator.commits import RECENT_S, Batcher
from rota.coordinator.members import Directive, Member, Members
from rota.coordinator.pressure import (
    POLL_AFTER_MAX_S,
    RETRY_AFTER_MAX_S,
    SLOW_DOWN_EVERY_S,
    WEIGHT_BYTES,
    Level,
    Pressure,
    weight_of_call,
    weight_of_result,
)
from rota.domain.errors import ResourceExhausted
from rota.domain.ids import Fence, SessionId, ShardNo, TenantId
from rota.domain.model import DirectiveKind, Failure, JobSpec, Outcome, Payload, Result
from rota.store.port import CreateCall
from rota.telemetry import Metrics

from .fakes import SESSION, FakeClock, job_id, session, turns

HOG, OTHER = TenantId(1), TenantId(2)
BATCH_MAX = 10


class Scene:
    """Batchers over a store that takes as long as the test says."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.metrics = Metrics()
        self.flush_s = 0.01
        self.creations: Batcher[Any, Any] = self.batcher(priority=lambda call: call.specs[0].priority)
        self.outcomes: Batcher[Any, Any] = self.batcher()
        self.beats: Batcher[Any, Any] = self.batcher()
        self.pressure = Pressure(self.creations, self.outcomes, self.beats, self.clock, self.metrics)
        self.futures: list[asyncio.Future[Any]] = []

    def batcher(self, **more: Any) -> Batcher[Any, Any]:
        return Batcher(
            "things",
            self.flush,
            self.clock,
            batch_max=BATCH_MAX,
            concurrency=1,
            tenant=attrgetter("tenant_id"),
            **more,
        )

    async def flush(self, items: Sequence[Any]) -> Sequence[Any]:
        await self.clock.sleep(self.flush_s)
        return items

    def create(self, tenant: TenantId = HOG, priority: int = 4, count: int = 1) -> None:
        self.futures += [self.creations.enqueue(call(priority, tenant=tenant)) for _ in range(count)]

    def complete(self, tenant: TenantId = HOG, count: int = 1) -> None:
        self.futures += [self.outcomes.enqueue(result(tenant=tenant)) for _ in range(count)]

    def beat(self) -> None:
        self.futures.append(self.beats.enqueue(Beat(SESSION, 1, HOG)))

    async def advance(self, seconds: float) -> None:
        """In small steps, as a load makes them."""
        for _ in range(round(seconds / 0.1)):
            await self.clock.advance(0.1)

    async def write_for(self, seconds: float, what: str = "complete") -> None:
        """One item after another, as long as that."""
        until = self.clock.now + seconds
        while self.clock.now < until:
            if all(future.done() for future in self.futures):
                getattr(self, what)()
            await self.clock.advance(0.05)

    def refused(self, tenant: TenantId = HOG) -> list[int]:
        """The priorities that are refused."""
        found = []
        for priority in range(10):
            try:
                self.pressure.admit(tenant, [0, priority])
            except ResourceExhausted:
                found.append(priority)
        return found

    def hint_s(self, tenant: TenantId = HOG) -> float:
        return self.pressure.poll_after_s(member(tenant))

    @property
    def level(self) -> Any:
        return self.metrics.snapshot()["rota.admission.level"]


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    while not all(future.done() for future in scene.futures):
        await scene.advance(10.0)


def member(tenant: TenantId = HOG, id: SessionId = SESSION) -> Member:
    return Members().add(session(id, tenant_id=tenant), "tenant", 1, 0.0)


def spec(priority: int = 4, data: bytes = b"") -> JobSpec:
    return JobSpec(HOG, job_id(1), ShardNo(0), "t", "q", priority, Payload(data))


def call(*priorities: int, tenant: TenantId = HOG, data: bytes = b"") -> CreateCall:
    return CreateCall([spec(priority, data) for priority in priorities], tenant, 1, "", b"")


def result(tenant: TenantId = HOG, **fields: Any) -> Result:
    return Result(tenant, SESSION, job_id(1), Fence(1), Outcome.SUCCEEDED, **fields)


async def test_nobody_waits_when_all_is_well(scene: Scene) -> None:
    assert (scene.refused(), scene.hint_s(), scene.level) == ([], 0.0, Level.OK)
    scene.create(count=3 * BATCH_MAX)
    scene.complete(count=3 * BATCH_MAX)
    await turns()
    assert (scene.refused(), scene.hint_s(), scene.level) == ([], 0.0, Level.OK)
    await scene.write_for(2.0)
    assert (scene.refused(), scene.hint_s(), scene.level) == ([], 0.0, Level.OK)
    assert sum(scene.metrics.snapshot()["rota.admission.refused"].values()) == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("flush_s", "level", "refused"),
    [
        (0.4, Level.OK, []),
        (0.7, Level.SLOW, []),
        (1.3, Level.REFUSING, [0, 1, 2, 3]),
        (2.6, Level.REFUSING, [0, 1, 2, 3, 4]),
        (5.5, Level.REFUSING, list(range(10))),
    ],
)
@pytest.mark.parametrize("what", ["create", "complete", "beat"])
async def test_a_slow_store_is_everybodys_matter(
    scene: Scene, what: str, flush_s: float, level: Level, refused: list[int]
) -> None:
    scene.flush_s = flush_s
    await scene.write_for(12 * flush_s, what)
    assert scene.level == level
    for tenant in (HOG, OTHER):
        assert scene.refused(tenant) == refused
        assert (scene.hint_s(tenant) > 0) is (level > Level.OK)
    # It recovers with the store.
    scene.flush_s = 0.01
    await scene.write_for(flush_s + 2.0, what)
    assert (scene.refused(), scene.hint_s(), scene.level) == ([], 0.0, Level.OK)


async def test_a_store_that_stands_still_is_seen_at_once(scene: Scene) -> None:
    await scene.write_for(1.0)
    scene.flush_s = 100.0
    scene.complete()
    seen = []
    for seconds in (0.4, 0.3, 0.5, 1.0, 2.0):
        await scene.advance(seconds)
        seen.append((scene.level, len(scene.refused())))
    assert seen == [(0, 0), (1, 0), (2, 4), (2, 5), (2, 10)]


async def test_one_slow_transaction_says_little(scene: Scene) -> None:
    await scene.write_for(1.0)
    scene.flush_s = 1.5
    scene.complete()
    await turns()
    scene.flush_s = 0.01
    await scene.advance(1.6)
    assert (scene.refused(), scene.level) == ([], Level.OK)


async def test_what_was_slow_is_tried_again_after_a_while(scene: Scene) -> None:
    """Where all are refused nothing is written, so nothing could show that the store has recovered."""
    scene.flush_s = 5.0
    await scene.write_for(60.0, "create")
    assert len(scene.refused()) == 10
    while not scene.futures[-1].done():
        await scene.advance(0.1)
    assert len(scene.refused()) > 0
    await scene.advance(RECENT_S + 0.1)
    assert (scene.refused(), scene.hint_s(), scene.level) == ([], 0.0, Level.OK)
    scene.flush_s = 0.01
    scene.create()
    await scene.advance(0.2)
    assert (scene.refused(), scene.level) == ([], Level.OK)


async def test_a_backlog_is_the_matter_of_the_tenant_that_made_it(scene: Scene) -> None:
    scene.flush_s = 0.2
    scene.create(count=30 * BATCH_MAX)
    await scene.advance(2.5)
    scene.create(OTHER)
    assert (scene.refused(HOG), scene.refused(OTHER)) == ([0, 1, 2, 3, 4], [])
    assert scene.level == Level.REFUSING
    # Workers wait for outcomes, not for creations.
    assert (scene.hint_s(HOG), scene.hint_s(OTHER)) == (0.0, 0.0)
    scene.complete(count=30 * BATCH_MAX)
    await scene.advance(1.2)
    scene.complete(OTHER)
    assert scene.hint_s(HOG) > 0
    assert scene.hint_s(OTHER) == 0.0


async def test_who_cannot_have_its_outcomes_written_makes_no_more_work(scene: Scene) -> None:
    scene.flush_s = 0.2
    scene.complete(count=30 * BATCH_MAX)
    await scene.advance(1.5)
    assert (scene.refused(HOG), scene.refused(OTHER)) == ([0, 1, 2, 3], [])


async def test_what_waits_of_low_priority_holds_up_no_other(scene: Scene) -> None:
    scene.flush_s = 0.2
    scene.create(priority=0, count=30 * BATCH_MAX)
    await scene.advance(2.5)
    assert scene.refused() == [0]
    scene.pressure.admit(HOG, [9])


async def test_a_refusal_says_when_to_come_back(scene: Scene) -> None:
    scene.flush_s = 100.0
    scene.create()
    for lag_s in (3.0, 27.0):
        await scene.advance(lag_s - 3.0 * (lag_s > 3.0))
        waits = []
        for _ in range(20):
            with pytest.raises(ResourceExhausted) as refused:
                scene.pressure.admit(HOG, [4])
            assert refused.value.reason == "RATE_LIMITED"
            assert refused.value.retry_after_s is not None
            waits.append(refused.value.retry_after_s)
        least_s = min(lag_s, RETRY_AFTER_MAX_S)
        assert least_s - 0.2 <= min(waits) < max(waits) <= 2 * least_s + 0.2
        assert max(waits) - min(waits) > 0.5 * least_s


async def test_refusals_are_counted_by_priority(scene: Scene) -> None:
    scene.flush_s = 100.0
    scene.create()
    await scene.advance(5.0)
    assert scene.refused() == list(range(10))
    assert scene.metrics.snapshot()["rota.admission.refused"] == {"low": 4, "default": 1, "high": 5, "other": 0}


async def test_workers_wait_for_as_long_as_outcomes_lag_but_not_for_long(scene: Scene) -> None:
    scene.flush_s = 100.0
    scene.complete()
    for lag_s in (0.6, 1.6, 10.0):
        while scene.clock.now < 1_000.0 + lag_s:
            await scene.advance(0.1)
        hints = [scene.hint_s() for _ in range(50)]
        assert min(lag_s, POLL_AFTER_MAX_S) / 2 - 0.1 <= min(hints) < max(hints) <= min(lag_s + 0.1, POLL_AFTER_MAX_S)


async def test_a_session_is_asked_once_in_a_while_to_slow_down(scene: Scene) -> None:
    told: list[Directive] = []
    one = member()
    one.push = told.append
    scene.flush_s = 100.0
    scene.complete()
    await scene.advance(1.0)
    for _ in range(10):
        scene.pressure.poll_after_s(one)
    assert [d.kind for d in told] == [DirectiveKind.SLOW_DOWN]
    assert "lag" in told[0].reason
    # Kept until it is acknowledged, and not asked twice.
    await scene.advance(SLOW_DOWN_EVERY_S)
    scene.pressure.poll_after_s(one)
    assert list(one.directives.values()) == told
    one.acknowledge([told[0].id])
    scene.pressure.poll_after_s(one)
    assert one.directives == {}
    await scene.advance(SLOW_DOWN_EVERY_S)
    scene.pressure.poll_after_s(one)
    assert [d.kind for d in told] == [DirectiveKind.SLOW_DOWN] * 2
    assert told[0].id != told[1].id


async def test_who_has_not_slowed_down_yet_need_not_once_all_is_well(scene: Scene) -> None:
    one = member()
    one.direct(DirectiveKind.RESYNC)
    scene.flush_s = 1.0
    scene.complete()
    await scene.advance(0.8)
    scene.pressure.poll_after_s(one)
    assert len(one.directives) == 2
    await scene.advance(0.5)
    assert scene.pressure.poll_after_s(one) == 0.0
    assert [d.kind for d in one.directives.values()] == [DirectiveKind.RESYNC]


def test_large_items_weigh_more() -> None:
    large = b"x" * (3 * WEIGHT_BYTES)
    assert [weight_of_call(call(4)), weight_of_call(call(4, 4, data=large))] == [1, 8]
    weights = [
        weight_of_result(result()),
        weight_of_result(result(payload=Payload(large))),
        weight_of_result(result(failure=Failure("E", "m" * WEIGHT_BYTES, "s" * WEIGHT_BYTES))),
        weight_of_result(result(spawned=(spec(), spec(data=large)))),
    ]
    assert weights == [1, 4, 3, 6]
