"""Whoever creates and cancels jobs, and insists on an answer, as a program with a request_id may."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from rota.domain.errors import ResourceExhausted, RotaError, Unavailable
from rota.domain.ids import JobId
from rota.domain.model import CancelMode, Dedupe, DedupeConflict, DedupeScope, JobState, RetryPolicy, Timeouts

from .coordinator import Coordinator, Wish
from .history import History
from .loop import SimLoop
from .wire import Network, NoAnswer

CALL_S = 2.0
LAST_START_S = 16.0
KINDS = ("plain", "failing", "released", "bouncing", "long", "parent")
MIXED = (39, 30, 7, 2, 12, 10)
RACING = (5, 40, 5, 25, 20, 5)
"""How often jobs are of each type: see `worker.Worker`."""

LONG_RUN_S = 600.0
"""A run timeout that no world lives to see."""


class Client:
    def __init__(
        self,
        seed: str,
        *,
        loop: SimLoop,
        network: Network,
        history: History,
        choose: Callable[[], Coordinator],
        jobs: int,
        race: bool,
    ) -> None:
        self._rng = random.Random(f"client/{seed}")
        self._loop = loop
        self._network = network
        self._history = history
        self._choose = choose
        self._jobs = jobs
        self._race = race
        self._tasks: list[asyncio.Task[None]] = []
        self._sent_at: dict[str, float] = {}
        """When each creation was tried last."""

    @property
    def done(self) -> bool:
        return all(task.done() for task in self._tasks)

    def start(self) -> None:
        process = self._loop.process("client")
        for number in range(self._jobs):
            # A burst now and then: several jobs of one instant are one batch.
            at_s = round(self._rng.uniform(0.0, LAST_START_S) * 2) / 2
            self._tasks.append(process.spawn(self._one(number, at_s), name=f"job {number}"))

    async def _one(self, number: int, at_s: float) -> None:
        rng = self._rng
        wish = self._wish()
        cancelled = rng.random() < (0.7 if self._race else 0.25)
        cancel_after_s = rng.uniform(0.0, rng.choice((0.6, 5.0))) if cancelled else None
        mode = rng.choice(list(CancelMode))
        await asyncio.sleep(at_s)
        request_id = f"request-{number}"
        answer = await self._insist("create", wish=wish, request_id=request_id)
        if isinstance(answer, RotaError):
            self._history.note(
                "create refused",
                request=request_id,
                reason=answer.reason,
                message=answer.message,
                sent_at=self._sent_at[request_id],
            )
            return
        job, new = answer
        self._history.note("acknowledged", job=job, request=request_id, new=new)
        if cancel_after_s is not None:
            await asyncio.sleep(cancel_after_s)
            await self._cancel(job, mode)

    async def _cancel(self, job: JobId, mode: CancelMode) -> None:
        state = await self._insist("cancel", job=job, mode=mode)
        self._history.note(
            "cancel answer",
            job=job,
            mode=mode,
            state=state if isinstance(state, JobState) else None,
            refusal=state.reason if isinstance(state, RotaError) else None,
        )

    async def _insist(self, method: str, **request: Any) -> Any:
        """The answer, or a refusal that trying again does not change."""
        while True:
            self._sent_at[request.get("request_id", "")] = self._loop.time()
            try:
                return await self._network.call(self._choose(), method, CALL_S, **request)
            except (NoAnswer, Unavailable, ResourceExhausted):
                pass
            except RotaError as error:
                return error
            await asyncio.sleep(self._rng.uniform(0.05, 0.6))

    def _wish(self) -> Wish:
        rng = self._rng
        kind = rng.choices(KINDS, RACING if self._race else MIXED)[0]
        dedupe = None
        if rng.random() < 0.15:
            dedupe = Dedupe(
                rng.choice("xy"),
                DedupeScope.TENANT,
                rng.choice((None, None, 3.0)),
                rng.choice(list(DedupeConflict)),
            )
        return Wish(
            kind,
            rng.choice(("default", "default", "other")),
            rng.choice((0, 4, 4, 9)),
            rng.choice((0.0, 0.0, 0.0, rng.uniform(0.0, 8.0))),
            RetryPolicy(
                max_attempts=rng.choice((1, 3, 3, 6)),
                initial_backoff_s=0.01 if self._race else 0.2,
                max_backoff_s=2.0,
                non_retryable_types=("Simulated",) if rng.random() < 0.05 else (),
            ),
            Timeouts(
                start_by_s=rng.uniform(0.2, 4.0) if rng.random() < (0.6 if kind == "failing" else 0.2) else None,
                run_s=self._run_s(kind),
                total_s=rng.uniform(1.0, 10.0) if rng.random() < 0.1 else None,
            ),
            dedupe,
        )

    def _run_s(self, kind: str) -> float:
        if self._race and kind in ("long", "failing"):
            return self._rng.choice((0.5, 2.0))
        return 2.0 if kind == "long" else LONG_RUN_S
