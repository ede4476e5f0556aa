"""A coordinator that never doubts: it acts for its shards whatever the time is, and looks whether they are its own when
it is let. What it asks of the database as their owner it tells, one line each: `what asked done`.

While the file named by ZOMBIE exists it stops itself, between two looks: in the middle of one it would find out as it
wakes, from an answer that was on its way. Woken, it does not look until the file is gone.

What was asked before the sleep is not told when its answer is read after it: it was the owner's own then."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rota.coordinator.ownership import Ownership
from rota.domain.ids import CoordinatorId
from rota.domain.model import Grant
from rota.store.fires import PgFires
from rota.store.leases import PgLeases
from rota.store.port import Claim

SLEEPS_WHILE = Path(os.environ["ZOMBIE"])
LOOK_EVERY_S = 0.02

step, claim, fire, fire_held = Ownership._step, PgLeases.claim, PgFires.fire, PgFires.fire_held


class Sleeps:
    """How often the process has slept; asks know whether it did since they began."""

    count = 0

    def tell(self, since: int, what: str, asked: int, done: int) -> None:
        if since == self.count:
            print(f"{what} {asked} {done}", flush=True)


sleeps = Sleeps()


async def late_step(self: Ownership) -> float:
    if SLEEPS_WHILE.exists():
        os.kill(os.getpid(), signal.SIGSTOP)
        sleeps.count += 1
        print("woke 0 0", flush=True)
        while SLEEPS_WHILE.exists():
            await self.clock.sleep(LOOK_EVERY_S)
        print("looks 0 0", flush=True)
    return await step(self)


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
