"""Progress: a coordinator that lives and does not do its duties says so, and leaves its shards to others."""

import asyncio

import pytest

from rota.coordinator.loop import Loop
from rota.coordinator.ownership import AGAIN_S, REST_FIRST_S, REST_MAX_S
from rota.domain.errors import Unavailable
from rota.domain.ids import CoordinatorId

from .fakes import FakeClock, turns
from .shardtable import ALL
from .test_ownership import OTHER, TERM_S, Scene


class Duty(Loop):
    name = "duty"
    patience_s = 10.0

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.fails = False
        self.hangs = False

    async def step(self) -> float:
        if self.fails:
            raise Unavailable("down")
        if self.hangs:
            await asyncio.Event().wait()
        return 1.0


@pytest.mark.parametrize("fault", ["fails", "hangs"])
async def test_a_loop_without_success_for_longer_than_its_patience_is_stalled(fault: str) -> None:
    clock = FakeClock()
    duty = Duty(clock)
    assert not duty.stalled()
    task = asyncio.create_task(duty.run())
    await turns()
    for _ in range(30):
        await clock.advance(1.0)
    assert not duty.stalled()
    setattr(duty, fault, True)
    for _ in range(9):
        await clock.advance(1.0)
    assert not duty.stalled()
    for _ in range(2):
        await clock.advance(1.0)
    assert duty.stalled()
    if fault == "fails":
        duty.fails = False
        await clock.advance(10.0)
        assert not duty.stalled()
    duty.stop()
    assert not duty.stalled()
    task.cancel()


async def test_one_that_never_succeeded_is_stalled_too() -> None:
    clock = FakeClock()
    duty = Duty(clock)
    duty.fails = True
    task = asyncio.create_task(duty.run())
    await turns()
    for _ in range(11):
        await clock.advance(1.0)
    assert duty.stalled()
    task.cancel()


async def steps(scene: Scene, seconds: float) -> None:
    """Renewals, the other's included."""
    until = scene.clock.now + seconds
    while scene.clock.now < until:
        scene.clock.now += TERM_S / 4
        if scene.table.alive(OTHER):
            scene.table.expires[OTHER] = scene.clock.now + TERM_S
        await scene.ownership.step()


async def two(undone: list[str]) -> Scene:
    """This coordinator with half of the shards, and another one with the other."""
    scene = Scene()
    scene.ownership.undone = lambda: undone
    scene.table.join(OTHER, TERM_S, ALL[:128])
    await scene.ownership.register()
    await scene.ownership.step()
    assert len(scene.memory.terms) == 128
    return scene


async def test_who_cannot_do_all_duties_leaves_its_shards_to_others(caplog: pytest.LogCaptureFixture) -> None:
    undone: list[str] = []
    scene = await two(undone)
    await steps(scene, 300)
    assert len(scene.memory.terms) == 128
    undone.append("materializer")
    await steps(scene, 3)
    assert scene.memory.terms == {} and scene.table.owned() == []
    assert "no progress of: materializer; giving all 128 shards up" in caplog.text
    # The others count it no more, so that they take all; it takes none, not even from a peer that is too kind.
    assert scene.table.draining == {scene.ownership._coordinator}
    assert await scene.ownership.take_over(ALL[:3]) == []
    assert scene.ownership.trusted()
    await steps(scene, 10 * REST_FIRST_S)
    assert scene.memory.terms == {}


async def test_it_comes_back_when_it_can_and_rests_longer_each_time() -> None:
    undone: list[str] = []
    scene = await two(undone)
    rests = []
    for _ in range(8):
        undone[:] = ["poller"]
        await steps(scene, 3)
        assert scene.memory.terms == {}
        began = scene.clock.now
        undone.clear()
        while not scene.memory.terms:
            await steps(scene, 1)
        assert scene.table.draining == set()
        scene.check_served()
        rests.append(scene.clock.now - began)
    for n, rest_s in enumerate(rests):
        assert rest_s == pytest.approx(min(REST_FIRST_S * 2**n, REST_MAX_S), abs=TERM_S), n
    # What went well for an hour begins anew.
    await steps(scene, REST_MAX_S + 60)
    undone[:] = ["poller"]
    await steps(scene, 3)
    undone.clear()
    began = scene.clock.now
    while not scene.memory.terms:
        await steps(scene, 1)
    assert scene.clock.now - began < REST_FIRST_S + TERM_S


async def test_the_last_one_stays_and_one_that_rests_comes_back_for_it() -> None:
    undone: list[str] = []
    scene = await two(undone)
    undone.append("poller")
    scene.table.expires[OTHER] = scene.clock.now + TERM_S
    await steps(scene, 3)
    assert scene.memory.terms == {}
    # A shard without an owner is worse than one whose owner has lost a duty.
    scene.table.expires[OTHER] = scene.clock.now
    await steps(scene, 3)
    assert sorted(scene.memory.terms) == ALL
    await steps(scene, 300)
    assert sorted(scene.memory.terms) == ALL
    scene.table.join(CoordinatorId("c2000000-0000-7000-8000-000000000000"), 1e9)
    await steps(scene, 3)
    assert scene.memory.terms == {}


async def test_whose_term_runs_out_while_it_rests_is_not_counted_on_again() -> None:
    undone: list[str] = []
    scene = await two(undone)
    undone.append("poller")
    await steps(scene, 3)
    assert scene.memory.terms == {}
    scene.clock.now += TERM_S + 1.0
    scene.table.expires[OTHER] = scene.clock.now + TERM_S
    await steps(scene, 3)
    assert scene.memory.terms == {}
    # Or the others would leave a share of the shards to one that takes none.
    assert scene.table.draining == {scene.ownership._coordinator}


async def test_duties_that_an_outage_kept_from_all_have_time_to_be_done_again() -> None:
    """Whoever finds the database there again as the first of its loops finds the others as the outage left them."""
    undone: list[str] = []
    scene = await two(undone)
    scene.clock.now += 70.0
    scene.table.expires[OTHER] = scene.clock.now + TERM_S
    undone.append("poller")
    await scene.ownership.step()
    assert scene.table.draining == set()
    assert len(scene.memory.terms) == 128
    undone.clear()
    await steps(scene, 300)
    assert len(scene.memory.terms) == 128
    # No longer than that, though.
    scene.clock.now += 70.0
    scene.table.expires[OTHER] = scene.clock.now + TERM_S
    undone.append("poller")
    await scene.ownership.step()
    await steps(scene, AGAIN_S)
    assert scene.memory.terms == {}
