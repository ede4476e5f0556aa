"""A coordinator that never doubts: it acts for its shards whatever the time is, and is slow to look whether they are
its own still. What it asks of the database as their owner it tells, one line each: `what asked done`."""

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


async def late_step(self: Ownership) -> float:
    now = self.clock.monotonic()
    if stepped_at and now - stepped_at[-1] > GAP_S:
        print("woke 0 0", flush=True)
        await self.clock.sleep(LATE_S)
        print("looks 0 0", flush=True)
    stepped_at.append(self.clock.monotonic())
    return await step(self)


async def told_claim(self: PgLeases, claims: Sequence[Claim], owner: CoordinatorId) -> list[Grant]:
    grants = await claim(self, claims, owner)
    print(f"claim {len(claims)} {len(grants)}", flush=True)
    return grants


async def told_fire(self: PgFires, moves: Any, owner: CoordinatorId) -> Any:
    entries, moved = await fire(self, moves, owner)
    print(f"fire {len(moves)} {len(moved)}", flush=True)
    return entries, moved


async def told_fire_held(self: PgFires, uids: Any, owner: CoordinatorId, decide: Any) -> Any:
    entries, moved = await fire_held(self, uids, owner, decide)
    print(f"fire {len(uids)} {len(moved)}", flush=True)
    return entries, moved


Ownership.trusted = lambda self: True  # type: ignore[method-assign]
Ownership._step = late_step  # type: ignore[method-assign]
PgLeases.claim = told_claim  # type: ignore[method-assign]
PgFires.fire = told_fire  # type: ignore[method-assign]
PgFires.fire_held = told_fire_held  # type: ignore[method-assign]

from tests import serve_main  # noqa: E402, F401
