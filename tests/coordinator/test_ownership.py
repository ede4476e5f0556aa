"""Ownership: terms are renewed, lost and taken anew; no shard is ever held without being served."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from rota.coordinator.ownership import RENEW_SHARE, Ownership
from rota.domain.errors import Unavailable
from rota.domain.ids import CoordinatorId, ShardNo

from .fakes import ME, World
from .shardtable import ALL, ShardTable

OTHER = CoordinatorId("c1000000-0000-7000-8000-000000000000")
TERM_S = 9.0


class Scene(World):
    def __init__(self) -> None:
        super().__init__()
        self.memory.terms = {}
        self.table = ShardTable(self.clock)
        self.begun: list[ShardNo] = []
        self.begin_fails = 0
        self.pumped = 0
        self.ownership = Ownership(
            self.memory,
            self.table,  # type: ignore[arg-type]
            ME,
            self.clock,
            self.database_clock,
            self.peers,
            address="here:1",
            peer_address="",
            version="0",
            term_s=TERM_S,
            on_acquired=self.begin,
        )
        self.memory.on_ready = self.pump

    def pump(self) -> None:
        self.pumped += 1

    async def begin(self, shards: Sequence[ShardNo]) -> None:
        if self.begin_fails:
            self.begin_fails -= 1
            raise Unavailable("down")
        self.begun += shards

    async def started(self) -> "Scene":
        assert await self.ownership.register()
        await self.ownership.step()
        return self

    def check_served(self) -> None:
        """Each shard that the table says is mine is mine, under the table's epoch, and the poller reads it."""
        mine = self.table.owned()
        assert {shard: term.epoch for shard, term in self.memory.terms.items()} == {
            shard: self.table.epochs[shard] for shard in mine
        }
        assert set(mine) <= set(self.begun)


async def test_it_takes_what_is_free() -> None:
    scene = await Scene().started()
    assert sorted(scene.memory.terms) == ALL
    scene.check_served()
    assert scene.ownership.trusted()
    assert scene.pumped == 1


async def test_it_takes_its_share_of_what_is_free_and_all_of_a_dead_one() -> None:
    scene = Scene()
    scene.table.join(OTHER, TERM_S, ALL[:100])
    assert not await scene.ownership.register()
    await scene.ownership.step()
    assert sorted(scene.memory.terms) == ALL[100:228]
    scene.clock.now += TERM_S - 1.0
    # It looks again as soon as the other one's term is over.
    wait_s = await scene.ownership.step()
    assert 1.0 < wait_s < 1.1 < TERM_S / RENEW_SHARE
    assert len(scene.memory.terms) == 128
    scene.clock.now += wait_s
    await scene.ownership.step()
    assert sorted(scene.memory.terms) == ALL
    scene.check_served()


async def test_renewals_keep_the_term_and_trust() -> None:
    scene = await Scene().started()
    terms = dict(scene.memory.terms)
    for _ in range(20):
        scene.clock.now += await scene.ownership.step()
        assert scene.ownership.trusted()
    assert scene.memory.terms == terms


async def test_trust_ends_before_the_term_and_counts_from_before_the_renewal_was_sent() -> None:
    scene = await Scene().started()
    scene.table.latency_s = 2.0
    began = scene.clock.now
    await scene.ownership.step()
    scene.table.latency_s = 0.0
    scene.clock.now = began + TERM_S * 2 / 3 - 0.01
    assert scene.ownership.trusted()
    scene.clock.now += 0.02
    assert not scene.ownership.trusted()
    # The shards are not given up: nobody else may have them yet.
    assert sorted(scene.memory.terms) == ALL


async def test_a_term_that_ran_out_starts_over_with_new_epochs() -> None:
    scene = await Scene().started()
    scene.memory.accept([scene.entry(1)])
    scene.memory.in_flight.add(scene.flight(2))
    scene.clock.now += TERM_S + 1
    assert not scene.ownership.trusted()
    await scene.ownership.step()
    scene.check_served()
    assert {term.epoch for term in scene.memory.terms.values()} == {3}
    # Memory is read anew.
    assert (len(scene.memory.ready), len(scene.memory.in_flight)) == (0, 0)
    assert scene.ownership.trusted()


async def test_a_sleeper_whose_shards_were_taken_leaves_them() -> None:
    scene = await Scene().started()
    scene.clock.now += TERM_S + 1
    scene.table.expires[OTHER] = scene.clock.now + TERM_S
    for shard in ALL:
        scene.table.owners[shard] = OTHER
        scene.table.epochs[shard] += 1
    await scene.ownership.step()
    assert scene.memory.terms == {}
    assert scene.table.owned(OTHER) == ALL


@pytest.mark.parametrize("call", ["acquire", "renew", "register", "release"])
@pytest.mark.parametrize("when", ["start", "term ran out"])
async def test_an_answer_that_was_lost_leaves_no_shard_unserved(call: str, when: str) -> None:
    scene = Scene()
    if when == "start":
        await scene.ownership.register()
    else:
        await scene.started()
        scene.clock.now += TERM_S + 1
    scene.table.lose = [call]
    for _ in range(4):
        await scene.ownership.step_safely()
        scene.clock.now += 0.5
    scene.check_served()
    assert sorted(scene.memory.terms) == ALL
    assert scene.ownership.trusted()


@pytest.mark.parametrize("when", ["start", "term ran out"])
async def test_shards_that_could_not_be_begun_on_are_begun_on_later(when: str) -> None:
    scene = Scene()
    if when == "start":
        await scene.ownership.register()
    else:
        await scene.started()
        scene.clock.now += TERM_S + 1
        scene.begun.clear()
    scene.begin_fails = 2
    for _ in range(4):
        await scene.ownership.step_safely()
        scene.clock.now += 0.5
    scene.check_served()
    assert sorted(scene.memory.terms) == ALL


async def test_an_outage_shorter_than_the_term_costs_nothing() -> None:
    scene = await Scene().started()
    terms = dict(scene.memory.terms)
    scene.table.down = True
    for _ in range(3):
        await scene.ownership.step_safely()
        scene.clock.now += 2.0
    assert not scene.ownership.trusted()
    scene.table.down = False
    await scene.ownership.step_safely()
    assert scene.memory.terms == terms
    assert scene.ownership.trusted()


@pytest.mark.parametrize("lost", ["", "roster", "release", "register", "acquire"])
async def test_another_database_is_started_over_with(lost: str) -> None:
    """A standby was promoted, within the term. It may have forgotten epochs, a hand-over, or that work was done."""
    scene = await Scene().started()
    before = {shard: term.epoch for shard, term in scene.memory.terms.items()}
    scene.memory.accept([scene.entry(1)])
    forgotten: list[bool] = []
    scene.memory.on_other_database = lambda: forgotten.append(scene.ownership.trusted())
    scene.clock.now += 1.0
    scene.begun.clear()
    scene.table.incarnation = "here/2"
    scene.table.lose = [lost] if lost else []
    for _ in range(3):
        await scene.ownership.step_safely()
        scene.clock.now += 0.5
    assert forgotten
    assert sorted(scene.begun) == ALL
    scene.check_served()
    assert all(term.epoch > before[shard] for shard, term in scene.memory.terms.items())
    assert len(scene.memory.ready) == 0
    assert scene.ownership.trusted()
    done, epochs = len(forgotten), dict(scene.table.epochs)
    for incarnation in ("here/2", "", "here/2"):
        scene.table.incarnation = incarnation
        await scene.ownership.step()
    assert (len(forgotten), scene.table.epochs) == (done, epochs)


@pytest.mark.parametrize("lost", ["", "shorten"])
async def test_a_clock_that_went_back_keeps_no_dead_coordinator_alive(lost: str) -> None:
    scene = await Scene().started()
    # As one that died before the step: its term ends when the clock is where it was.
    scene.table.join(OTHER, 3_600.0, ALL[:2])
    await scene.ownership.step()
    scene.table.lose = [lost] if lost else []
    scene.database_clock.observe(scene.clock.utc() - timedelta(hours=1), scene.clock.monotonic())
    for _ in range(4):
        await scene.ownership.step_safely()
        scene.clock.now += 1.0
    assert scene.table.calls.count("shorten") == (2 if lost else 1)
    for _ in range(4):
        scene.clock.now += TERM_S / RENEW_SHARE
        await scene.ownership.step_safely()
    assert sorted(scene.memory.terms) == ALL
    scene.check_served()


async def test_it_leaves_all_it_has() -> None:
    scene = await Scene().started()
    scene.memory.accept([scene.entry(1)])
    await scene.ownership.leave()
    assert (scene.table.owned(), scene.table.expires, scene.memory.terms) == ([], {}, {})
    assert not scene.ownership.trusted()
    assert len(scene.memory.ready) == 0


async def test_each_step_reads_the_clock_and_releases_what_is_due_by_it() -> None:
    scene = await Scene().started()
    scene.database_clock.observe(scene.clock.utc() - timedelta(seconds=20), scene.clock.monotonic())
    due = scene.entry(1, 5.0)
    scene.memory.accept([due])
    assert due.id not in scene.memory.ready
    await scene.ownership.step()
    assert due.id in scene.memory.ready
    scene.memory.close()
