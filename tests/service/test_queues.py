"""Queues as operators use them, over the real store: counts that cost little, changes that meet, and purges."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from rota.clock import SystemClock
from rota.domain.errors import Aborted, InvalidArgument, NotFound, Unavailable
from rota.domain.model import Identity, JobState, Role
from rota.domain.queue import QueueCounts, QueueSettings
from rota.domain.tenant import TenantSettings
from rota.service import queues as queues_module
from rota.service import tenants as tenants_module
from rota.service.jobs import Jobs
from rota.service.queues import Purged, Queues
from rota.service.tenants import Tenants
from rota.store.queueport import QueueKey
from rota.store.queues import PgQueues

from ..store.world import World
from .conftest import Told

WAITING = frozenset({JobState.READY, JobState.RETRY_WAIT})


class Clock(SystemClock):
    """Stands still but for its sleepers."""

    now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.0)
        await super().sleep(0)


class Store:
    """The real one; counts are what a test says."""

    def __init__(self, world: World) -> None:
        self._real = PgQueues(world.db)
        self.counted: dict[QueueKey, QueueCounts] = {}
        self.times = 0
        self.fail = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def counts(self) -> dict[QueueKey, QueueCounts]:
        self.times += 1
        await asyncio.sleep(0)
        if self.fail:
            raise Unavailable("too slow")
        return dict(self.counted)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(world: World) -> Store:
    return Store(world)


@pytest.fixture
def queues(store: Store, jobs: Jobs, told: Told, clock: Clock) -> Queues:
    return Queues(store, jobs, told, clock)


@pytest.fixture
def me(world: World) -> Identity:
    return Identity(world.tenant, "t", "key-1", frozenset({Role.OPERATOR}))


def weighing(weight: int) -> Any:
    return lambda settings: replace(settings, weight=weight)


async def test_counts_are_kept_for_a_while_whoever_asks(
    queues: Queues, store: Store, clock: Clock, me: Identity
) -> None:
    store.counted = {(me.tenant_id, "a"): QueueCounts(ready=1)}
    await asyncio.gather(*[queues.get(me, "a") for _ in range(20)])
    clock.now += queues_module.COUNTS_LIFE_S - 0.1
    await queues.page(me, "", 10)
    assert store.times == 1
    store.counted = {(me.tenant_id, "a"): QueueCounts(ready=2)}
    assert (await queues.get(me, "a"))[1].ready == 1
    clock.now += 0.2
    assert (await queues.get(me, "a"))[1].ready == 2


async def test_an_unknown_queue_is_looked_for_again_and_not_more_than_once_a_second(
    queues: Queues, store: Store, clock: Clock, me: Identity
) -> None:
    await queues.page(me, "", 10)
    store.counted = {(me.tenant_id, "new"): QueueCounts(ready=1)}
    began = clock.now
    assert (await queues.get(me, "new"))[1].ready == 1
    assert (store.times, clock.now - began) == (2, queues_module.COUNTS_RETAKE_S)
    answers = await asyncio.gather(*[queues.get(me, f"none-{n}") for n in range(10)], return_exceptions=True)
    assert all(isinstance(answer, NotFound) for answer in answers)
    assert store.times <= 1 + (clock.now - began)


async def test_counting_that_fails_stands_in_nobodys_way(
    queues: Queues, store: Store, told: Told, me: Identity
) -> None:
    """Least of all in that of somebody who wants to stop a queue."""
    store.fail = True
    for call in (queues.get(me, "a"), queues.page(me, "", 10)):
        with pytest.raises(Unavailable):
            await call
    assert (await queues.pause(me, "a", "fire"))[0].pause is not None
    assert (await queues.update(me, "a", weighing(3), etag=""))[0].settings.weight == 3
    assert (await queues.resume(me, "a"))[0].pause is None
    assert await queues.purge(me, "a", WAITING, "", 10, "", dry_run=False) == Purged(0, False)
    assert told.said == [("queues changed", None)] * 3


async def test_a_change_of_what_changed_meanwhile_is_made_on_what_it_is_then(
    queues: Queues, store: Store, me: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [
        queues.update(me, "a", lambda s, n=n: replace(s, max_in_flight=(s.max_in_flight or 0) + n), etag="")
        for n in (1, 10, 100)
    ]
    await asyncio.gather(*calls)
    found = await store.get(me.tenant_id, "a")
    assert (found.settings.max_in_flight, found.version) == (111, 3)

    async def always_late(*_: Any) -> None:
        return None

    monkeypatch.setattr(store, "save", always_late, raising=False)
    with pytest.raises(Unavailable, match="changed 5 times meanwhile"):
        await queues.update(me, "a", weighing(3), etag="")


async def test_a_refused_change_changes_and_tells_nothing(
    queues: Queues, told: Told, store: Store, me: Identity
) -> None:
    with pytest.raises(Aborted):
        await queues.update(me, "a", weighing(3), etag="v1")
    with pytest.raises(InvalidArgument) as refused:
        await queues.update(me, "a", lambda s: QueueSettings(weight=0, rate_burst=1), etag="")
    assert [v.field for v in refused.value.violations] == ["queue.weight", "queue.rate_burst"]
    assert await store.get(me.tenant_id, "a") is None
    assert told.said == []


async def test_a_purge_of_many_goes_in_bites_and_tells_of_each(
    queues: Queues, store: Store, told: Told, world: World, me: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues_module, "PURGE_BITE", 3)
    store.counted = {(me.tenant_id, "q"): QueueCounts()}
    specs = [world.spec(queue="q") for _ in range(10)]
    await world.create(*specs)
    assert await queues.purge(me, "q", WAITING, "", 8, "", dry_run=True) == Purged(8, True)
    assert await queues.purge(me, "q", WAITING, "", 8, "why", dry_run=False) == Purged(8, True)
    finished = [job for what, job in told.said if what == "finished"]
    assert len(finished) == 8
    for job in finished:
        assert (await world.where(job), (await world.job(job)).reason) == (["finished_jobs"], "why")
    assert await queues.purge(me, "q", WAITING, "", 8, "", dry_run=False) == Purged(2, False)
    assert await queues.purge(me, "q", WAITING, "", 8, "", dry_run=True) == Purged(0, False)


async def test_what_is_leased_between_the_look_and_the_purge_stays(
    queues: Queues, store: Store, told: Told, world: World, me: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.counted = {(me.tenant_id, "q"): QueueCounts()}
    first, second = world.spec(queue="q"), world.spec(queue="q")
    await world.create(first, second)
    real = store._real

    async def look_and_lease(*args: Any) -> Any:
        found = await real.waiting(*args)
        # The other one may lie in another bite.
        if first.id in found:
            await world.lease(first)
        return found

    monkeypatch.setattr(store, "waiting", look_and_lease, raising=False)
    assert (await queues.purge(me, "q", WAITING, "", 100, "", dry_run=False)).count == 1
    assert await world.is_live(first.id)
    assert not await world.is_live(second.id)


async def test_tenants_change_alike(world: World, store: Store, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    tenants = Tenants(store, told)
    name = f"tenant-{world.tenant}"
    with pytest.raises(NotFound):
        await tenants.get(name)
    await world.identity.create_key(name, f"k-{world.tenant}", b"", "", frozenset(), None)
    stored = await tenants.get(name)
    assert (stored.settings, stored.etag) == (TenantSettings(), "v1")
    changed = await tenants.update(name, lambda s: replace(s, weight=7, max_in_flight=3), etag="v1")
    assert (changed.settings, changed.etag) == (TenantSettings(7, 3), "v2")
    assert told.said == [("queues changed", None)]
    with pytest.raises(Aborted):
        await tenants.update(name, weighing(1), etag="v1")
    with pytest.raises(InvalidArgument):
        await tenants.update(name, weighing(1_001), etag="")

    async def always_late(*_: Any) -> None:
        return None

    monkeypatch.setattr(store, "save_tenant", always_late, raising=False)
    with pytest.raises(Unavailable, match=f"changed {tenants_module.CHANGE_TRIES} times"):
        await tenants.update(name, weighing(1), etag="")
