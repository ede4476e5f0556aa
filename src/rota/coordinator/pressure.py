"""Back-pressure: who has to wait when writing lags.

Two lags are told apart. How long the store takes for a transaction is everybody's: all are asked to hold back, low
priorities first. How long a tenant's items wait for their turn is its own doing, since tenants take turns: it alone is
asked. Without load both are nothing, and nobody is.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Final

from rota.clock import Clock
from rota.coordinator.commits import Batcher
from rota.coordinator.members import Member
from rota.domain import limits
from rota.domain.errors import ResourceExhausted
from rota.domain.ids import TenantId
from rota.domain.model import DirectiveKind, Result, Settlement
from rota.domain.portions import Portions
from rota.service.jobs import CreateAnswer
from rota.store.port import CreateCall
from rota.telemetry import Metrics

SLOW_S: Final = 0.5
"""Half of what may pass at most, by our promise, until a due job can be leased: from here on workers poll less, so that
what they have done already is written before they take more."""

REFUSE_LOW_S: Final = 1.0
"""The promise is broken. Creations below the default priority are refused: they can wait, by their own word."""

REFUSE_DEFAULT_S: Final = 2.0
"""That was not enough: a queue grows that takes longer to write than callers like to wait."""

REFUSE_ALL_S: Final = 4.0
"""A creation of now would be answered when many a caller has given up, and repeats it on top."""

RETRY_AFTER_MAX_S: Final = 10.0

POLL_AFTER_MAX_S: Final = 2.0
"""The longest that a worker is asked to wait before it polls again: it must not sleep through the recovery."""

SLOW_DOWN_EVERY_S: Final = 5.0
"""A session is asked again to slow down after so long. The SDKs keep to it as long as that."""

WEIGHT_BYTES: Final = 4_096
"""So many bytes weigh as much as an item: what waits is bounded in memory, and a transaction in size."""


class Level(IntEnum):
    OK = 0
    SLOW = 1
    """Workers poll less."""
    REFUSING = 2
    """Creations of low priority are refused, or more."""


class Pressure:
    """`admit` before each creation, `poll_after_s` before each answer to a poll. `calls` and `waits` count what is on
    its way of calls that have statements of their own, and of WaitJob."""

    def __init__(
        self,
        creations: Batcher[CreateCall, CreateAnswer],
        outcomes: Batcher[Result, Settlement],
        beats: Batcher[Any, Any],
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._creations = creations
        self._outcomes = outcomes
        self._paces = [creations.pace, outcomes.pace, beats.pace]
        self.calls = Portions(limits.CALLS_MAX)
        self.waits = Portions(limits.WAITS_MAX)
        self._clock = clock
        self._metrics = metrics
        metrics.gauge("rota.admission.level", self._worst)

    def admit(self, tenant: TenantId, priorities: Iterable[int]) -> None:
        """Refuses a creation while it would make things worse. The highest of its priorities counts."""
        now = self._clock.monotonic()
        lag_s = max(self._store_lag_s(now), self._outcomes.waited_s(tenant, now))
        if lag_s < REFUSE_LOW_S and self._creations.waited_s(tenant, now) < REFUSE_LOW_S:
            return
        priority = max(priorities)
        # What waits of a lower priority does not hold this one up.
        lag_s = max(lag_s, self._creations.waited_s(tenant, now, priority))
        band, refuse_s = _band(priority)
        if lag_s < refuse_s:
            return
        self._metrics.add("rota.admission.refused", label=band)
        # Spread out, so that they do not come back together.
        retry_after_s = min(lag_s, RETRY_AFTER_MAX_S) * self._clock.rng.uniform(1.0, 2.0)
        raise ResourceExhausted(
            f"writes lag by {lag_s:.1f} s, so new jobs of priority {priority} have to wait; come back in "
            f"{retry_after_s:.1f} s" + ("" if band == "high" else ", or give what is urgent a higher priority"),
            retry_after_s=retry_after_s,
        )

    def poll_after_s(self, member: Member) -> float:
        """How long a worker is to wait before its next poll: 0 unless outcomes lag. Then it is asked to slow down too,
        once in a while."""
        now = self._clock.monotonic()
        lag_s = max(self._store_lag_s(now), self._outcomes.waited_s(member.session.tenant_id, now))
        if lag_s < SLOW_S:
            if member.slow_down_at is not None:
                member.slow_down_at = None
                member.withdraw(DirectiveKind.SLOW_DOWN)
            return 0.0
        if member.slow_down_at is None or now - member.slow_down_at >= SLOW_DOWN_EVERY_S:
            member.slow_down_at = now
            member.direct(DirectiveKind.SLOW_DOWN, reason=f"outcomes are written with a lag of {lag_s:.1f} s")
        return min(lag_s, POLL_AFTER_MAX_S) * self._clock.rng.uniform(0.5, 1.0)

    def _store_lag_s(self, now: float) -> float:
        return max([pace.lag_s(now) for pace in self._paces])

    def _worst(self) -> Level:
        """The level that some tenant feels."""
        now = self._clock.monotonic()
        lag_s = max(max(pace.lag_s(now), pace.queued_s(now)) for pace in self._paces)
        if lag_s < SLOW_S:
            return Level.OK
        return Level.SLOW if lag_s < REFUSE_LOW_S else Level.REFUSING


def weight_of_call(call: CreateCall) -> int:
    return sum([1 + len(spec.payload.data) // WEIGHT_BYTES for spec in call.specs])


def weight_of_result(result: Result) -> int:
    held = 0
    if result.payload is not None:
        held = len(result.payload.data)
    if result.failure is not None:
        held += len(result.failure.message) + len(result.failure.stack)
    if result.spawned:
        return 1 + held // WEIGHT_BYTES + sum([1 + len(spec.payload.data) // WEIGHT_BYTES for spec in result.spawned])
    return 1 + held // WEIGHT_BYTES


def _band(priority: int) -> tuple[str, float]:
    if priority < limits.PRIORITY_DEFAULT:
        return "low", REFUSE_LOW_S
    return ("default", REFUSE_DEFAULT_S) if priority == limits.PRIORITY_DEFAULT else ("high", REFUSE_ALL_S)
