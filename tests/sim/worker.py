"""A simulated worker: what contract.md section 5 asks of every SDK, as messages.

A *stubborn* one never stops by itself: it counts no TTL, ignores LOST and CANCEL, and sends every result it has.
Nothing that Rota promises may depend on a worker's good behaviour.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rota.coordinator.attendance import BeatAnswer
from rota.coordinator.members import Directive, Inventory
from rota.domain.errors import ResourceExhausted, RotaError, Unavailable
from rota.domain.ids import Fence, JobId, SessionId, uuid7
from rota.domain.model import DirectiveKind, EffectState, Failure, Grant, Outcome, Settlement, Timeouts

from .coordinator import BEATS_PER_TTL, DELIVERY_TTL_S, Coordinator, LeaseAnswer, Report, Wish
from .faults import Faults
from .history import History
from .loop import Process, SimLoop
from .target import REFUSED, Target
from .wire import Network, NoAnswer, pause_here

WAIT_S = 3.0
ANSWER_GRACE_S = 1.5
CALL_S = 1.5
LINGER_S = 0.005
EFFECT_S = 1.0
AFRESH = 0.15
"""Chance that a poll without an answer is followed by another one instead of being repeated."""

LATE_TRIES = 30
"""How often a stubborn worker sends a result after its session has ended."""

POLLERS = 1
TOO_LONG_S = 2.5
"""How long a handler of type `long` runs; its run timeout is shorter."""


@dataclass(slots=True, eq=False)
class Held:
    """A lease from receipt to the answered outcome."""

    grant: Grant
    task: "asyncio.Task[None] | None" = None
    lost: bool = False
    cancel: bool = False
    ended: bool = False
    """The handler is done; its outcome waits for an answer."""

    @property
    def key(self) -> tuple[JobId, Fence]:
        return self.grant.job_id, self.grant.fence


@dataclass(slots=True, eq=False)
class Life:
    """One session of the worker."""

    id: SessionId
    alive_until: float
    ttl_s: float
    held: dict[tuple[JobId, Fence], Held] = field(default_factory=dict)
    batches: dict[int, int] = field(default_factory=dict)
    acknowledge: dict[int, None] = field(default_factory=dict)
    outbox: list[Report] = field(default_factory=list)
    renewed_at: float = 0.0
    beats: int = 0
    prove_at: float | None = None
    inventory_wanted: bool = True
    draining: bool = False
    over: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Something happened that a loop may wait for."""
    tasks: list["asyncio.Task[Any]"] = field(default_factory=list)

    def note_change(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class Worker:
    def __init__(
        self,
        name: str,
        seed: str,
        *,
        loop: SimLoop,
        network: Network,
        faults: Faults,
        history: History,
        target: Target,
        choose: Callable[["Worker"], Coordinator],
        slots: int,
        stubborn: bool,
    ) -> None:
        self.name = name
        self.stubborn = stubborn
        self.process: Process | None = None
        self.coordinator: Coordinator | None = None
        self._rng = random.Random(f"{name}/{seed}")
        self._loop = loop
        self._network = network
        self._faults = faults
        self._history = history
        self._target = target
        self._choose = choose
        self._slots = slots
        self._starts = 0
        self._life: Life | None = None
        self._leaving = False

    def start(self) -> None:
        self._starts += 1
        self._life = None
        self._leaving = False
        self.process = self._loop.process(f"{self.name}.{self._starts}")
        self.process.spawn(self._run(), name="main")

    @property
    def up(self) -> bool:
        return self.process is not None

    def kill(self) -> Process | None:
        """kill -9. The process that died, if one ran."""
        victim, self.process = self.process, None
        if victim is not None:
            self._history.note("killed", process=victim, session=self._life.id if self._life else None)
            victim.kill()
        return victim

    def pause(self, seconds: float) -> None:
        if self.process is not None:
            self._history.note("paused", process=self.process, seconds=seconds)
            self.process.pause(seconds)

    @property
    def leaving(self) -> bool:
        return self.process is not None and self._leaving

    def leave(self) -> None:
        """SIGTERM: takes no more, finishes or gives back what it has, and is gone."""
        life = self._life
        if self.process is not None and life is not None and not life.over and not self._leaving:
            self._leaving = True
            self.process.spawn(self._leave(life), name="leave")

    def move(self) -> None:
        """From now on it talks to another coordinator, if there is one; calls under way go on."""
        self.coordinator = self._choose(self)
        if self._life is not None:
            self._life.inventory_wanted = True
            self._life.note_change()

    # Life and death of sessions

    async def _run(self) -> None:
        while not self._leaving:
            life = await self._open()
            self._life = life
            assert self.process is not None
            life.tasks = [
                self.process.spawn(work, name=name)
                for name, work in (
                    ("beats", self._beats(life)),
                    ("completions", self._completions(life)),
                    ("life", self._watch(life)),
                    *((f"poller {number}", self._poll(life, number)) for number in range(POLLERS)),
                )
            ]
            while not life.over:
                await life.changed.wait()
            for task in life.tasks:
                task.cancel()

    async def _open(self) -> Life:
        self.coordinator = self._choose(self)
        id = SessionId(uuid7(int(self._loop.time() * 1000), self._rng.getrandbits(80)))
        while True:
            sent_at = self._loop.time()
            try:
                ttl_s = await self._call("open", CALL_S, session=id, worker=self.name, slots=self._slots)
            except (RotaError, NoAnswer):
                self.coordinator = self._choose(self)
                await asyncio.sleep(self._rng.uniform(0.1, 0.5))
                continue
            return Life(id, sent_at + ttl_s, ttl_s, renewed_at=sent_at)

    def _end(self, life: Life, why: str) -> None:
        """The session is no more, and its leases neither."""
        if life.over:
            return
        self._history.note("session over", session=life.id, worker=self.name, why=why)
        life.over = True
        for held in list(life.held.values()):
            self._drop(life, held, why)
        life.note_change()

    async def _leave(self, life: Life) -> None:
        self._history.note("leaving", session=life.id, worker=self.name)
        life.draining = True
        life.note_change()
        await self._tell(life, drain=True)
        while life.held and not life.over:
            await life.changed.wait()
        if not life.over:
            await self._tell(life, drain=False)
        # Its last words are spoken; whatever is on its way arrives without it.
        self._end(life, "left")
        process, self.process = self.process, None
        assert process is not None
        process.kill()

    async def _tell(self, life: Life, *, drain: bool) -> None:
        for _ in range(3):
            try:
                await self._call("close", CALL_S, session=life.id, drain=drain)
                return
            except NoAnswer:
                continue
            except RotaError:
                return

    async def _watch(self, life: Life) -> None:
        """A worker that obeys ends its session when no beat was answered for the TTL, counted from sending."""
        while not life.over:
            left_s = life.alive_until - self._loop.time()
            if left_s <= 0 and not self.stubborn:
                self._end(life, "no beat was answered")
                return
            await asyncio.sleep(max(left_s, 0.5))

    # Polling

    async def _poll(self, life: Life, poller: int) -> None:
        number = ack = misses = 0
        while not life.over:
            free = self._slots - len(life.held)
            if free <= 0 or life.draining:
                await life.changed.wait()
                continue
            number += 1
            request_id = f"{life.id}-{poller}-{number}"
            answer: LeaseAnswer | None = None
            while answer is None and not life.over:
                try:
                    answer = await self._call(
                        "lease",
                        WAIT_S + ANSWER_GRACE_S,
                        patience_s=self._faults.patience_s(WAIT_S),
                        session=life.id,
                        poller=poller,
                        request_id=request_id,
                        ack_batch=ack,
                        capacity=free,
                        wait_s=WAIT_S,
                    )
                    misses = 0
                except (RotaError, NoAnswer) as error:
                    if _gone(error):
                        self._end(life, "gone")
                        return
                    misses += 1
                    await self._after_failure(misses)
                    if self._rng.random() < AFRESH:
                        break
            if answer is None or life.over:
                continue
            if answer.grants:
                ack = answer.batch
                self._receive(life, poller, answer)
            self._follow(life, answer.directives)
            if answer.next_poll_after_s:
                await asyncio.sleep(answer.next_poll_after_s)

    def _receive(self, life: Life, poller: int, answer: LeaseAnswer) -> None:
        assert self.process is not None
        life.batches[poller] = answer.batch
        life.prove_at = self._loop.time() + DELIVERY_TTL_S / 5
        for grant in answer.grants:
            held = Held(grant)
            if held.key in life.held:
                continue
            life.held[held.key] = held
            self._history.note("received", job=grant.job_id, fence=grant.fence, session=life.id, worker=self.name)
            held.task = self.process.spawn(self._work(life, held), name=f"handler {grant.job_id}")
        life.note_change()

    async def _after_failure(self, misses: int) -> None:
        if misses % 2 == 0:
            self.move()
        await asyncio.sleep(self._rng.uniform(0.05, 0.4))

    # Beats

    async def _beats(self, life: Life) -> None:
        interval_s = life.ttl_s / BEATS_PER_TTL
        last_at = -interval_s
        while not life.over:
            now = self._loop.time()
            urgent = life.prove_at is not None and now >= life.prove_at
            if now >= last_at + interval_s or urgent or life.acknowledge or (life.inventory_wanted and now > last_at):
                last_at = now
                assert self.process is not None
                # Never behind one that is slow.
                life.tasks.append(self.process.spawn(self._beat(life), name="beat"))
                await asyncio.sleep(0.05)
                continue
            wait_s = last_at + interval_s - now
            if life.prove_at is not None:
                wait_s = min(wait_s, life.prove_at - now)
            waiter = asyncio.ensure_future(life.changed.wait())
            await asyncio.wait({waiter}, timeout=max(wait_s, 0.001))
            waiter.cancel()

    async def _beat(self, life: Life) -> None:
        full = life.inventory_wanted or life.prove_at is not None or self._rng.random() < 0.5
        proof, life.prove_at = life.prove_at, None
        life.inventory_wanted = False
        life.beats += 1
        inventory = Inventory(frozenset(life.held), dict(life.batches), life.beats) if full else None
        acknowledged = tuple(life.acknowledge)
        life.acknowledge.clear()
        sent_at = self._loop.time()
        await self._pause_here("beat")
        try:
            answer: BeatAnswer = await self._call(
                "beat",
                CALL_S,
                session=life.id,
                inventory=inventory,
                free_slots=max(self._slots - len(life.held), 0),
                acknowledged=acknowledged,
            )
        except (RotaError, NoAnswer) as error:
            life.acknowledge.update(dict.fromkeys(acknowledged))
            life.inventory_wanted |= full
            life.prove_at = proof
            if _gone(error):
                self._end(life, "gone")
            elif not life.over:
                await self._after_failure(self._rng.randint(1, 4))
                life.note_change()
            return
        if life.over:
            return
        if sent_at >= life.renewed_at:
            life.renewed_at, life.alive_until = sent_at, sent_at + answer.renewed_for_s
        for key in answer.lost:
            self._lose(life, key, "told so")
        self._follow(life, answer.directives)

    def _follow(self, life: Life, directives: tuple[Directive, ...]) -> None:
        for directive in directives:
            if directive.id:
                life.acknowledge[directive.id] = None
            key = (directive.job, directive.fence)
            if directive.kind is DirectiveKind.RESYNC:
                life.inventory_wanted = True
            elif directive.kind is DirectiveKind.LOST:
                self._lose(life, key, "directive")
            elif directive.kind is DirectiveKind.CANCEL and key in life.held:
                life.held[key].cancel = True  # type: ignore[index]
        life.note_change()

    def _lose(self, life: Life, key: tuple[Any, Any], why: str) -> None:
        held = life.held.get(key)
        if held is not None and not self.stubborn:
            self._drop(life, held, why)
            life.note_change()

    def _drop(self, life: Life, held: Held, why: str) -> None:
        life.held.pop(held.key, None)
        held.lost = True
        self._history.note("dropped", job=held.grant.job_id, fence=held.grant.fence, session=life.id, why=why)
        if held.task is not None and not self.stubborn:
            held.task.cancel()

    # Work

    async def _work(self, life: Life, held: Held) -> None:
        """A handler: some time, the effect, some time, and an outcome, by the job's type and by chance."""
        grant, rng = held.grant, self._rng
        kind = grant.type
        run_s = rng.uniform(0.02, 0.8) if rng.random() < 0.8 else rng.uniform(1.0, 4.0)
        if kind == "long":
            run_s = TOO_LONG_S * rng.uniform(0.4, 1.6)
        elif kind == "bouncing":
            run_s = 0.02
        before_s = run_s * rng.random()
        await asyncio.sleep(before_s)
        if kind == "bouncing" or (kind == "released" and rng.random() < 0.5):
            self._report(
                life, held, Outcome.RELEASED, retry_after_s=0.0 if kind == "bouncing" else rng.choice((0.0, 0.5))
            )
            return
        if kind == "failing" and rng.random() < 0.3:
            self._fail(life, held, retryable=rng.random() < 0.75)
            return
        verdict = None
        if held.cancel and not self.stubborn and rng.random() < 0.7:
            self._report(life, held, Outcome.CANCELLED)
            return
        # The check, and then the act.
        if self.stubborn or not held.lost:
            await self._pause_here("effect")
            verdict = await self._effect(held)
        await asyncio.sleep(run_s - before_s)
        if verdict is None or (kind == "failing" and rng.random() < 0.3):
            self._fail(life, held, effect_state=EffectState.UNKNOWN if verdict is None else EffectState.APPLIED)
        elif verdict == REFUSED:
            self._fail(life, held, effect_state=EffectState.NOT_APPLIED)
        else:
            child = Wish("plain", delay_s=rng.choice((0.0, 0.3)), timeouts=Timeouts(run_s=grant.run_timeout_s))
            spawned = (child, child) if kind == "parent" else ()
            await self._pause_here("outcome")
            self._report(life, held, Outcome.SUCCEEDED, spawned=spawned)

    async def _effect(self, held: Held) -> str | None:
        """What the target said; None: nothing, so that the effect may or may not have happened."""
        grant = held.grant
        try:
            verdict: str = await self._network.call(
                self._target, "apply", EFFECT_S, key=grant.effect_key, fence=grant.fence, job=grant.job_id
            )
        except NoAnswer:
            return None
        return verdict

    def _fail(
        self,
        life: Life,
        held: Held,
        retryable: bool = True,
        effect_state: EffectState = EffectState.NOT_APPLIED,
    ) -> None:
        self._report(
            life,
            held,
            Outcome.FAILED,
            failure=Failure("Simulated", "by chance"),
            retryable=retryable,
            effect_state=effect_state,
        )

    def _report(self, life: Life, held: Held, outcome: Outcome, **more: Any) -> None:
        if held.lost and not self.stubborn:
            return
        held.ended = True
        request_id = f"{life.id}-{held.grant.job_id}-{held.grant.fence}"
        life.outbox.append(Report(held.grant.job_id, held.grant.fence, outcome, request_id, **more))
        life.note_change()
        if life.over:
            # A stubborn worker's handler outlived its session: it sends the result all the same.
            assert self.process is not None
            self.process.spawn(self._send(life, life.outbox.pop()), name="late result")

    async def _completions(self, life: Life) -> None:
        while True:
            while not life.outbox:
                await life.changed.wait()
            await asyncio.sleep(LINGER_S)
            batch, life.outbox = life.outbox, []
            await self._send(life, *batch)

    async def _send(self, life: Life, *batch: Report) -> None:
        """Reports until each is answered, or the session is over."""
        left = list(batch)
        tries = 0
        while left and (not life.over or (self.stubborn and tries < LATE_TRIES)):
            tries += 1
            sent_at = self._loop.time()
            try:
                answers: list[Settlement | RotaError] = await self._call(
                    "complete", CALL_S, session=life.id, reports=tuple(left)
                )
            except (RotaError, NoAnswer):
                await self._after_failure(tries)
                continue
            again = []
            for report, answer in zip(left, answers, strict=True):
                if isinstance(answer, Unavailable | ResourceExhausted):
                    again.append(report)
                else:
                    self._settled(life, report, answer, sent_at)
            left = again
            if left:
                await asyncio.sleep(self._rng.uniform(0.1, 0.5))

    def _settled(self, life: Life, report: Report, answer: Settlement | RotaError, sent_at: float) -> None:
        refused = isinstance(answer, RotaError)
        self._history.note(
            "settled",
            job=report.job,
            fence=report.fence,
            session=life.id,
            outcome=report.outcome,
            sent_at=sent_at,
            answer=answer.reason if isinstance(answer, RotaError) else ("duplicate" if answer.duplicate else "taken"),
            state=None if isinstance(answer, RotaError) else answer.state,
            cause=answer.metadata.get("cause") if isinstance(answer, RotaError) else None,
        )
        held = life.held.pop((report.job, report.fence), None)
        if held is not None and refused:
            held.lost = True
        life.note_change()

    async def _pause_here(self, before: str) -> None:
        if self.process is not None:
            await pause_here(self.process, self._faults, self._history, before)

    async def _call(self, method: str, timeout_s: float, **request: Any) -> Any:
        assert self.coordinator is not None
        return await self._network.call(self.coordinator, method, timeout_s, **request)


def _gone(error: Exception) -> bool:
    return isinstance(error, RotaError) and error.reason == "SESSION_GONE"
