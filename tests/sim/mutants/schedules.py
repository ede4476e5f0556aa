"""What is broken of schedules: the store's guards, the materializer and sweeper, and what a change does."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import patch

from rota.coordinator.materializer import Materializer
from rota.coordinator.memory import Memory
from rota.domain import missed, overlap, step
from rota.domain.ids import JobId, ShardNo
from rota.domain.model import ShardTerm
from rota.domain.overlap import Resolution, Waiting
from rota.domain.schedule import Fate, Schedule, ScheduleState, Timer
from rota.domain.step import Step
from rota.service import changing, fires
from rota.service.changing import Changing
from rota.service.fires import Fires, Known
from rota.service.repairs import Repairs
from rota.store.scheduleport import Armed, Move, Unwritable

from .base import Mutant, broken, store


def _nothing(*_: object, **__: object) -> None:
    return None


async def _nothing_async(*_: object, **__: object) -> bool:
    return False


async def _whole_batches(self: Fires, moves: Sequence[Move]) -> None:
    """One that spoils a batch spoils it for all."""
    try:
        entries, _ = await self._store.fire(moves, self._owner)
    except Unwritable as error:
        self._complain(moves[0].armed, error)
        return
    self._notices.jobs_waiting(entries)


async def _whole_locked_batches(
    self: Fires, armed: Sequence[Armed], known: Mapping[str, Known], terms: Mapping[ShardNo, ShardTerm]
) -> bool:
    try:
        with patch.object(Fires, "_fire_held", _no_smaller):
            return await _fire_held(self, armed, known, terms)  # type: ignore[arg-type]
    except _Spoilt:
        return False


class _Spoilt(Exception):
    """A batch that is not written."""


async def _no_smaller(*_: object, **__: object) -> bool:
    raise _Spoilt


_fire_held = Fires._fire_held


def _any_version(self: Fires, armed: Armed) -> Known | None:
    kept = self._known.get(armed.uid)
    return kept[1] if kept is not None else None


def _current(self: Fires, uid: Any, known: Mapping[Any, Known]) -> int:
    """What was read is taken for what is locked."""
    return _Always()


class _Always(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


def _stale_definitions() -> AbstractContextManager[Any]:
    stack = ExitStack()
    stack.enter_context(patch.object(Fires, "_kept", _any_version))
    stack.enter_context(patch.object(Fires, "_known_version", _current))
    return stack


async def _not_withdrawn(
    self: Changing, schedule: Schedule, timer: Timer, split: datetime, fate_before: Fate | None = None
) -> Timer:
    return replace(timer, cursor=min(timer.cursor, split))


async def _unsettled(self: Changing, schedule: Schedule, now: datetime, *, with_excluded: bool = False) -> Schedule:
    return schedule


async def _the_same_version(self: Changing, schedule: Schedule, before: Timer, rule: Any, now: datetime) -> Schedule:
    timer = replace(schedule.timer, version=before.version)
    return await _moved(self, replace(schedule, timer=timer), before, rule, now)


_moved = Changing._moved


def _where_the_clock_is(schedule: Schedule, now: datetime) -> datetime:
    return now


def _taken_again(timer: Timer, *args: Any, **more: Any) -> Any:
    return _walk(timer, *args[:3])


_walk = missed.walk


def _decided_early(
    self: Fires, armed: Armed, known: Known, running: Any, waiting: Any, now: datetime, *rest: Any
) -> Any:
    return _decided(self, armed, known, running, waiting, now + timedelta(seconds=2), *rest)


_decided = Fires._decided


def _cursor_stands(*args: Any, **more: Any) -> Step:
    decided = _decide(*args, **more)
    return replace(decided, timer=replace(decided.timer, cursor=args[0].cursor))


def _never_armed(*args: Any, **more: Any) -> Step:
    decided = _decide(*args, **more)
    timer = decided.timer
    arm_at = None if timer.state is ScheduleState.ACTIVE and not decided.more else timer.arm_at
    return replace(decided, timer=replace(timer, arm_at=arm_at))


_decide = step.decide


def _released_at_once(
    policy: Any,
    slots: Any,
    running: Sequence[JobId],
    waiting: Sequence[Waiting],
    left: int | None,
    mint: Callable[..., Any],
) -> Resolution:
    return _resolve(policy, slots, () if waiting else running, waiting, left, mint)


_resolve = overlap.resolve


async def _slept_through(self: Materializer) -> float:
    return 1.0


def _old_epoch(self: Fires, *args: Any) -> Move:
    move = _decided(self, *args)
    return replace(move, epoch=max(move.epoch - 1, 0))


STORE = (
    store("fire: version"),
    store("fire: cursor"),
    store("fire: version", "fire: cursor"),
    store("fire: owner", "fire: epoch"),
    store(
        "fire: looks again at what waits",
        equivalent="a step that knows of what waits says so itself; only one that is put off for a minute does not",
    ),
    store(
        "ledger: a fate is written once",
        equivalent="a repeated step is refused by its timer's version and cursor, and others pass over what they know",
    ),
    store("ledger: a fate is written once", "held: fates that are there already"),
    store("held: jobs that run"),
    store("held: fates that are there already"),
    store("fire_held: decided under the locks"),
    store("withdraw: not started"),
    store("remake: other ids"),
    store("transact: request_id is fresh"),
    store("bury: failures of a schedule are counted"),
)

COORDINATOR = (
    broken("materializer: runs", Materializer, "step", _slept_through),
    broken(
        "materializer: is told of what was armed",
        Memory,
        "schedules_armed",
        _nothing,
        equivalent="it looks each second",
    ),
    broken("fires: one that cannot be written is written apart", Fires, "_write", _whole_batches),
    broken("fires: the same under the locks", Fires, "_fire_held", _whole_locked_batches),
    broken("fires: those in the way are sent away", Fires, "_displace", _nothing_async),
    Mutant("fires: definitions are of the timer's version", patch=_stale_definitions),
    broken("fires: nothing before its time", Fires, "_decided", _decided_early),
    broken("fires: failing schedules pause", fires, "_failing", lambda *_: False),
    broken("step: the cursor moves on", fires, "decide", _cursor_stands),
    broken("step: what has its fate is passed over", step, "walk", _taken_again),
    broken("step: what waits waits for its turn", step, "resolve", _released_at_once),
    Mutant(
        "sweeper: arms what is active",
        patch=lambda: patch.object(Repairs, "rearm", _nothing_async),
    ),
    broken(
        "sweeper: takes what is overdue",
        Repairs,
        "fire_overdue",
        _nothing_async,
        equivalent="the materializer takes it at its next look; the sweeper is for a materializer that does not look",
    ),
    broken("change: takes back what was made ahead", Changing, "_back_to", _not_withdrawn),
    broken("change: settles what came due", Changing, "_settled", _unsettled),
    broken("change: makes a new version", Changing, "_moved", _the_same_version),
    broken(
        "change: what is decided stays so when the clock goes back", changing, "_decided_until", _where_the_clock_is
    ),
)
