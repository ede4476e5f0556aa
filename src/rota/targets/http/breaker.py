"""A circuit breaker: lets a target rest that does not answer.

    closed ── OPENS_AFTER failures in a row ──▶ open ── the rest is over ──▶ half-open: one call goes as a probe
      ▲                                          ▲ └───────────────────────────┤
      └──────────────── the probe is answered ───┴── it fails: a longer rest ──┘

A failure is a call without an answer, or one by a gateway or a server that is down (502, 503, 504). What a call that
began before the last change has to say is not heard: ten calls that fail together open it once.
"""

from dataclasses import dataclass
from typing import Final

OPENS_AFTER: Final = 3
REST_FIRST_S: Final = 5.0
REST_MOST_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Permit:
    """The right to one call."""

    era: int
    probe: bool = False


class Breaker:
    """One target's. Who has a permit tells what became of it: answered, failed, or neither (dropped)."""

    def __init__(self) -> None:
        self._era = 0
        self._failures = 0
        self._open_until: float | None = None
        self._rest_s = REST_FIRST_S
        self._probing = False

    @property
    def idle(self) -> bool:
        """Nothing is remembered."""
        return self._open_until is None and self._failures == 0

    def rest_s(self, now: float) -> float:
        """How long no call should be made; 0: one may. While a probe is out, as long as one more rest."""
        if self._open_until is None:
            return 0.0
        if self._probing:
            return self._rest_s
        return max(0.0, self._open_until - now)

    @property
    def open(self) -> bool:
        return self._open_until is not None

    def admit(self, now: float) -> Permit | None:
        """The right to call; None: not now."""
        if self._open_until is None:
            return Permit(self._era)
        if self._probing or now < self._open_until:
            return None
        self._probing = True
        return Permit(self._era, probe=True)

    def answered(self, permit: Permit) -> None:
        """The target is there, whatever it said."""
        if permit.era != self._era:
            return
        if self._open_until is not None:
            self._era += 1
        self._failures, self._open_until, self._rest_s, self._probing = 0, None, REST_FIRST_S, False

    def failed(self, permit: Permit, now: float) -> None:
        """The target was not reached, or did not answer."""
        if permit.era != self._era:
            return
        self._failures += 1
        if permit.probe:
            self._rest_s = min(2 * self._rest_s, REST_MOST_S)
        elif self._failures < OPENS_AFTER:
            return
        self._era += 1
        self._probing = False
        self._open_until = now + self._rest_s

    def dropped(self, permit: Permit) -> None:
        """The call was not made, or not to its end: the next one may be the probe."""
        if permit.era == self._era and permit.probe:
            self._probing = False
