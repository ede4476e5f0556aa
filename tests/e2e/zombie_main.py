"""A coordinator that never doubts: it acts for its shards whatever the time is, and is slow to look whether they are
its own still. What it asks of the database as their owner it tells, one line each: `what asked done`.

What was asked before a sleep is not told when its answer is read after it: it was the owner's own then."""

from collections.abc import Sequence
from typing import Any

from rota.coordinator.ownership import Ownership
from rota.domain.ids import CoordinatorId
from rota.domain.model import Grant
from rota.store.fires import PgFires
from rota.store.leases import PgLeases
from rota.store.port import Claim

GAP_S = 2.0
LATE_S = 2.0

step, claim, fire, fire_held = Ownership._step, PgLeases.claim, PgFires.fire, PgFires.fire_held
stepped_at: list[float] = []


class Sleeps:
    """How often the process was found to have slept; asks know whether it did since they began."""

    count = 0

    def tell(self, since: int, what: str, asked: int, done: int) -> None:
        if since == self.count:
            print(f"{what} {asked} {done}", flush=True)


sleeps = Sleeps()


async def late_step(self: Ownership) -> float:
    now = self.clock.monotonic()
    if stepped_at and now - stepped_at[-1] > GAP_S:
        sleeps.count += 1
        print("woke 0 0", flush=True)
        await self.clock.sleep(LATE_S)
        print("looks 0 0", flush=True)
    stepped_at.append(self.clock.monotonic())
    wait_s = await step(self)
    print("rests 0 0", flush=True)
    return wait_s


async def told_claim(self: PgLeases, claims: Sequence[Claim], owner: CoordinatorId) -> list[Grant]:
    since = sleeps.count
    grants = await claim(self, claims, owner)
    sleeps.tell(since, "claim", len(claims), len(grants))
    return grants


async def told_fire(self: PgFires, moves: Any, owner: CoordinatorId) -> Any:
    since = sleeps.count
    entries, moved = await fire(self, moves, owner)
    sleeps.tell(since, "fire", len(moves), len(moved))
    return entries, moved


async def told_fire_held(self: PgFires, uids: Any, owner: CoordinatorId, decide: Any) -> Any:
    since = sleeps.count
    entries, moved = await fire_held(self, uids, owner, decide)
    sleeps.tell(since, "fire", len(uids), len(moved))
    return entries, moved


Ownership.trusted = lambda self: True  # type: ignore[method-assign]
Ownership._step = late_step  # type: ignore[method-assign]
PgLeases.claim = told_claim  # type: ignore[method-assign]
PgFires.fire = told_fire  # type: ignore[method-assign]
PgFires.fire_held = told_fire_held  # type: ignore[method-assign]

from tests import serve_main  # noqa: E402, F401
