"""Auditor: slice by slice, its own shards always, and what is not told apart by shard where it owns the first."""

from typing import Any

from rota.coordinator.auditor import EVERY_S, Auditor
from rota.domain.ids import ShardNo
from rota.domain.invariants import Walk

from .fakes import World


class Looks:
    """Each walk takes two slices."""

    def __init__(self) -> None:
        self.seen: list[tuple[Walk, Any, Any]] = []

    async def look(self, walk: Walk, at: Any, shards: Any, rows: int) -> Any:
        self.seen.append((walk, at, shards))
        return None if at or walk is Walk.SHARDS else (1,)


async def rounds(world: World, looks: Looks, count: int) -> None:
    auditor = Auditor(world.memory, looks, world.clock)  # type: ignore[arg-type]
    assert await auditor.step() == EVERY_S
    # What an outage has left is for the loops that mend it always.
    assert looks.seen == []
    for _ in range(count):
        assert await auditor.step() == EVERY_S


async def test_every_walk_is_gone_to_its_end_in_turn() -> None:
    world, looks = World(), Looks()
    alone = [walk for walk in Walk if walk not in (Walk.DUE, Walk.SHARDS)]
    await rounds(world, looks, 2 * len(alone) + 1)
    mine = [ShardNo(n) for n in range(4)]
    assert [each for each in looks.seen if each[0] is Walk.DUE][:3] == [
        (Walk.DUE, None, mine),
        (Walk.DUE, (1,), mine),
        (Walk.DUE, None, mine),
    ]
    others = [(walk, at) for walk, at, _ in looks.seen if walk in alone]
    assert others == [(walk, at) for walk in alone for at in (None, (1,))] + [(alone[0], None)]
    assert sum(walk is Walk.SHARDS for walk, _, _ in looks.seen) == 2 * len(alone) + 1


async def test_the_others_leave_what_is_common_to_the_owner_of_the_first_shard() -> None:
    world, looks = World(), Looks()
    del world.memory.terms[ShardNo(0)]
    await rounds(world, looks, 5)
    assert {walk for walk, _, _ in looks.seen} == {Walk.DUE}


async def test_without_shards_nothing_is_looked_at() -> None:
    world, looks = World(), Looks()
    world.memory.terms = {}
    await rounds(world, looks, 3)
    assert looks.seen == []
