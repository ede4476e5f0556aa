"""One world: coordinators, workers, a client and a target over one database, under the faults of its seed.

Two phases. First chaos, in which nothing may go wrong that must not (safety); then all faults end, everybody is up,
and everything must finish (liveness). What happened is in `history`; the checks read that and nothing else.
"""

import asyncio
import gc
import hashlib
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rota.coordinator.node import Node
from rota.domain.ids import JobId, TenantId
from rota.domain.model import Identity, Role
from rota.domain.schedule import ScheduleState

from . import faults as faults_module
from .author import Author
from .client import Client
from .clock import DRIFT_MAX, DatabaseTime
from .coordinator import Coordinator, LeaseAnswer
from .fake_store import UNWRITABLE, JobRow, Tables
from .faults import Faults, Kind, Plan
from .history import History
from .loop import SimError, SimLoop
from .peering import Peering
from .target import Target
from .wire import Network
from .worker import Worker

SHARDS = 8
TENANT = TenantId(1)
IDENTITY = Identity(TENANT, "sim", "key", frozenset(Role))
SKEW_MAX_S = 300.0
LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a seed came to: its plan and history, the database at the end, and a digest of the whole run."""

    seed: int
    plan: Plan
    history: History
    tables: Tables
    digest: str
    turns: int
    virtual_s: float
    finished: bool
    """Everything was terminal before the liveness phase ran out."""


def run(
    seed: int,
    *,
    removed: frozenset[str] = frozenset(),
    on_node: Callable[[Node], None] = lambda node: None,
) -> Outcome:
    """Runs the world of a seed. `removed` names guards of the store and the target that are taken away; `on_node`
    meddles with each node before it starts. Both serve the mutants."""
    root = logging.getLogger("rota")
    level, root.level = root.level, logging.CRITICAL + 1
    logging.Logger.manager._clear_cache()  # type: ignore[attr-defined]
    gc.disable()
    try:
        return World(seed, removed, on_node).run()
    finally:
        gc.enable()
        root.level = level
        logging.Logger.manager._clear_cache()  # type: ignore[attr-defined]


class World:
    def __init__(self, seed: int, removed: frozenset[str], on_node: Callable[[Node], None]) -> None:
        self.seed = seed
        name = str(seed)
        self.loop = SimLoop(name)
        self.rng = random.Random(f"world/{name}")
        self.plan = Plan.draw(random.Random(f"plan/{name}"))
        self.time = DatabaseTime(self.loop, 1.0 + self.rng.uniform(-DRIFT_MAX, DRIFT_MAX))
        self.history = History(self.loop.time, self.time.now_us)
        self.tables = Tables(self.time, self.history, SHARDS, removed)
        self.tables.another_id = self._another_id
        self._ids = random.Random(f"ids/{name}")
        self.faults = Faults(self.plan, name)
        self.network = Network(self.loop, self.faults, self.history)
        self.network.describe = _describe
        self.peering = Peering(name, self.loop, self.network, self.faults, self.history)
        self.target = Target(self.loop, self.faults, self.history, removed)
        self.coordinators = [
            Coordinator(f"c{number}", name, self.loop, self.tables, self.faults, self.history, IDENTITY, self.peering)
            for number in range(self.plan.coordinators)
        ]
        self.peering.coordinators = self.coordinators
        self.workers = [
            Worker(
                f"w{number}",
                name,
                loop=self.loop,
                network=self.network,
                faults=self.faults,
                history=self.history,
                target=self.target,
                choose=self._for_worker,
                slots=self.rng.randint(1, 4),
                stubborn=self.rng.random() < self.plan.stubborn,
            )
            for number in range(self.plan.workers)
        ]
        self.client = Client(
            name,
            loop=self.loop,
            network=self.network,
            history=self.history,
            choose=lambda: self.rng.choice(self.coordinators),
            jobs=self.plan.jobs,
            race=self.plan.kind is Kind.RACE,
        )
        self.author = Author(
            name,
            plan=self.plan,
            loop=self.loop,
            network=self.network,
            history=self.history,
            time=self.time,
            choose=lambda: self.rng.choice(self.coordinators),
        )
        for coordinator in self.coordinators:
            coordinator.on_start = on_node
            coordinator.skew_s = self.rng.uniform(-SKEW_MAX_S, SKEW_MAX_S)

    def run(self) -> Outcome:
        finished = False
        try:
            finished = self.loop.run(self._main())
        except SimError as error:
            self.history.closed = False
            self.history.note("bug", method="loop", error=str(error))
        self.history.closed = False
        for error in self.loop.errors:
            self.history.note("bug", method="callback", error=f"{type(error).__name__}: {error}")
        trace = hashlib.sha256("\n".join(map(str, self.history.events)).encode())
        trace.update(f"{self.loop.turns} {self.loop.time():.9f}".encode())
        return Outcome(
            self.seed,
            self.plan,
            self.history,
            self.tables,
            trace.hexdigest(),
            self.loop.turns,
            self.loop.time(),
            finished,
        )

    async def _main(self) -> bool:
        for coordinator in self.coordinators:
            coordinator.start()
        for worker in self.workers:
            worker.start()
        self.client.start()
        self.author.start()
        trouble = [self.loop.create_task(work) for work in self._trouble()]
        await asyncio.sleep(faults_module.CHAOS_S)
        for task in trouble:
            task.cancel()
        await self._calm()
        finished = await self._finish()
        self.history.closed = True
        return finished

    async def _calm(self) -> None:
        """The end of all faults: whoever is paused goes on, whoever is gone comes back."""
        self.history.note("calm")
        self.faults.calm()
        for process in self.loop.processes:
            if process.paused:
                process.resume()
        for coordinator in self.coordinators:
            # One that leaves is let go first.
            while coordinator.leaving:
                await asyncio.sleep(0.1)
            if not coordinator.up:
                coordinator.start()
        for worker in self.workers:
            while worker.leaving:
                await asyncio.sleep(0.1)
            if worker.process is None:
                worker.start()
        if self.plan.gathered:
            self._gathered = self.rng.choice(self.coordinators)
            for worker in self.workers:
                worker.move()

    _gathered: Coordinator | None = None

    async def _finish(self) -> bool:
        until = self.loop.time() + faults_module.LIVENESS_S
        if self.plan.schedules:
            await asyncio.sleep(faults_module.WATCHED_S)
            self.history.note("ending")
            self.author.ending.set()
        while self.loop.time() < until:
            waiting = any(
                schedule.timer.buffered and schedule.definition.job.type != UNWRITABLE
                for schedule in self.tables.schedules.values()
            )
            if self.client.done and self.author.done and not self.tables.jobs and not waiting:
                return True
            await asyncio.sleep(LOOK_S)
        return False

    def _for_worker(self, worker: Worker) -> Coordinator:
        if self._gathered is not None:
            return self._gathered
        others = [c for c in self.coordinators if c is not worker.coordinator]
        return self.rng.choice(others or self.coordinators)

    def _trouble(self) -> list[Any]:
        plan = self.plan
        work = [self._crash() for _ in range(plan.crashes)]
        work += [self._crash_worker() for _ in range(plan.worker_crashes)]
        work += [self._drain() for _ in range(plan.drains)]
        work += [self._leave() for _ in range(plan.worker_leaves)]
        work += [self._move() for _ in range(plan.moves)]
        work += [self._outage() for _ in range(plan.outages)]
        work += [self._step_clock() for _ in range(plan.clock_steps)]
        work += [self._slip() for _ in range(plan.slips)]
        work += [self._fail_over() for _ in range(plan.failovers)]
        work += [self._swizzle() for _ in range(plan.swizzles)]
        work += [self._chase() for _ in range(plan.chases)]
        work += [self._part() for _ in range(plan.partitions)]
        if plan.pause:
            work += [self._pause() for _ in range(self.rng.randint(0, 2))]
        return work

    async def _crash(self) -> None:
        victim = self.rng.choice(self.coordinators)
        await self._some_time()
        await self._kill(victim, self.rng.uniform(0.1, 6.0))

    async def _kill(self, victim: Coordinator, back_s: float) -> None:
        process = victim.kill()
        if process is None:
            return
        told = self.rng.random() < 0.7
        self.network.break_connections(process, told)
        self.peering.end(process, told)
        await asyncio.sleep(back_s)
        if not victim.up:
            victim.start()

    async def _drain(self) -> None:
        victim = self.rng.choice(self.coordinators)
        await self._some_time()
        victim.drain()
        while victim.leaving:
            await asyncio.sleep(0.1)
        await asyncio.sleep(self.rng.uniform(0.05, 3.0))
        if not victim.up:
            victim.start()

    async def _crash_worker(self) -> None:
        victim = self.rng.choice(self.workers)
        await self._some_time()
        victim.kill()
        await asyncio.sleep(self.rng.uniform(0.2, 4.0))
        if victim.process is None:
            victim.start()

    async def _leave(self) -> None:
        victim = self.rng.choice(self.workers)
        await self._some_time()
        victim.leave()
        while victim.leaving:
            await asyncio.sleep(0.1)
        await asyncio.sleep(self.rng.uniform(0.2, 2.0))
        if victim.process is None:
            victim.start()

    async def _move(self) -> None:
        await self._some_time()
        self.rng.choice(self.workers).move()

    async def _pause(self) -> None:
        await self._some_time()
        self.rng.choice([*self.coordinators, *self.workers]).pause(self.rng.uniform(0.5, self.plan.pause_max_s))

    async def _outage(self) -> None:
        """The database, every coordinator's process, or every coordinator's machine is away."""
        most_s = self.plan.outage_max_s
        await asyncio.sleep(self.rng.uniform(3.0, faults_module.CHAOS_S - most_s - 1.0))
        seconds = self.rng.uniform(most_s / 3, most_s)
        what = self.rng.choice(("database", "paused", "killed", "killed"))
        self.history.note("outage", what=what, seconds=seconds)
        if what == "database":
            self.faults.database_down = True
            await asyncio.sleep(seconds)
            self.faults.database_down = False
        elif what == "paused":
            for coordinator in self.coordinators:
                coordinator.pause(seconds)
        else:
            await asyncio.gather(*(self._kill(coordinator, seconds) for coordinator in self.coordinators))

    async def _step_clock(self) -> None:
        await self._some_time()
        seconds = self.rng.uniform(-1.0, 1.0) * self.plan.clock_step_max_s
        self.history.note("clock step", seconds=seconds)
        self.time.step(seconds)
        if seconds < 0:
            self.author.stir()

    async def _slip(self) -> None:
        """A hand in the database: a schedule that is to fire waits for nothing; or older time-zone data."""
        await self._some_time()
        tables = self.tables
        active = [s for s in tables.schedules.values() if s.timer.state is ScheduleState.ACTIVE]
        if active:
            schedule = self.rng.choice(active)
            unarmed = self.rng.random() < 0.5
            timer = replace(schedule.timer, arm_at=None) if unarmed else replace(schedule.timer, tzdata="1970a")
            tables.schedules[schedule.uid] = replace(schedule, timer=timer)
            self.history.note("slip", schedule=schedule.uid)

    async def _fail_over(self) -> None:
        """A standby takes over: what was on its way is lost, for a moment nobody answers, and its clock is another."""
        await self._some_time()
        seconds = self.rng.uniform(-1.0, 1.0) * self.plan.clock_step_max_s
        self.faults.database_down = True
        await asyncio.sleep(self.rng.uniform(0.2, 4.0))
        self.history.note("failover", seconds=seconds)
        self.time.step(seconds)
        self.tables.incarnation += 1
        self.faults.database_down = False

    async def _swizzle(self) -> None:
        await self._some_time()
        parties: list[Coordinator | Worker] = [*self.coordinators, *self.workers]
        chosen = self.rng.sample(parties, self.rng.randint(2, len(parties)))
        for party in chosen:
            process = party.kill()
            if process is not None:
                self.network.break_connections(process, told=True)
                self.peering.end(process)
            await asyncio.sleep(self.rng.uniform(0.0, 0.5))
        self.rng.shuffle(chosen)
        for party in chosen:
            if not party.up:
                party.start()
            await asyncio.sleep(self.rng.uniform(0.0, 0.5))

    async def _chase(self) -> None:
        if len(self.coordinators) < 2:
            return
        leaver, taker = self.rng.sample(self.coordinators, 2)
        await self._some_time()
        leaver.drain()
        await asyncio.sleep(self.rng.uniform(0.0, 0.1))
        await self._kill(taker, self.rng.uniform(0.5, 3.0))
        while leaver.leaving:
            await asyncio.sleep(0.1)
        if not leaver.up:
            leaver.start()

    async def _part(self) -> None:
        victim = self.rng.choice(self.coordinators)
        await self._some_time()
        if victim.process is None:
            return
        from_all = self.rng.random() < 0.5
        cut, name = (
            (self.faults.unreachable, victim.name) if from_all else (self.faults.without_database, victim.process.name)
        )
        self.history.note("parted", process=victim.process, database=not from_all)
        cut.add(name)
        await asyncio.sleep(self.rng.uniform(0.5, 8.0))
        cut.discard(name)

    def _another_id(self, row: JobRow) -> JobId:
        id = row.spec.id
        return JobId(f"{id[:24]}{self._ids.getrandbits(40):010x}{id[-2:]}")

    async def _some_time(self) -> None:
        await asyncio.sleep(self.rng.uniform(1.0, faults_module.CHAOS_S - 1.0))


def _describe(method: str, request: dict[str, Any], result: Any) -> dict[str, Any] | None:
    """What is told of an answer: which leases it carries."""
    if method != "lease" or not isinstance(result, LeaseAnswer) or not result.grants:
        return None
    return {
        "session": request["session"],
        "poller": request["poller"],
        "request": request["request_id"],
        "batch": result.batch,
        "node": result.node,
        "leases": tuple((grant.job_id, grant.fence) for grant in result.grants),
    }
