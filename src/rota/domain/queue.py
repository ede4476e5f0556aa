"""A queue: what operators set for it, whether it is paused, and what is in it."""

from dataclasses import dataclass
from datetime import datetime

from rota.domain import limits
from rota.domain.errors import NotFound
from rota.domain.ids import TenantId
from rota.domain.text import Problems


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """`rate` is leases a second. None: no limit."""

    weight: int = limits.WEIGHT_DEFAULT
    rate: float | None = None
    rate_burst: int | None = None
    max_in_flight: int | None = None
    max_in_flight_per_key: int | None = None

    @property
    def burst(self) -> float:
        """Leases that may come at once within the rate."""
        return float(self.rate_burst) if self.rate_burst is not None else max(self.rate or 0.0, 1.0)

    @property
    def counted(self) -> bool:
        """Whether its leases must be counted."""
        return self.max_in_flight is not None or self.max_in_flight_per_key is not None

    @property
    def limited(self) -> bool:
        return self.counted or self.rate is not None


@dataclass(frozen=True, slots=True)
class Pause:
    since: datetime
    reason: str = ""
    author: str = ""
    """Id of the key that asked for it."""


@dataclass(frozen=True, slots=True)
class Queue:
    """`version` 0: nothing is stored about it, so all is as by default."""

    tenant_id: TenantId
    id: str
    settings: QueueSettings = QueueSettings()
    version: int = 0
    pause: Pause | None = None

    @property
    def limited(self) -> bool:
        """Whether its jobs are leased by exact limits only."""
        return self.settings.limited or self.pause is not None

    @property
    def etag(self) -> str:
        return f"v{self.version}"


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """The jobs and sessions of a queue, as they were a moment ago. Not `exact`: estimated from a sample."""

    scheduled: int = 0
    ready: int = 0
    leased: int = 0
    retry_wait: int = 0
    dead: int = 0
    sessions: int = 0
    oldest_ready_age_s: float | None = None
    exact: bool = True

    def __add__(self, other: "QueueCounts") -> "QueueCounts":
        ages = [age for age in (self.oldest_ready_age_s, other.oldest_ready_age_s) if age is not None]
        return QueueCounts(
            self.scheduled + other.scheduled,
            self.ready + other.ready,
            self.leased + other.leased,
            self.retry_wait + other.retry_wait,
            self.dead + other.dead,
            self.sessions + other.sessions,
            max(ages, default=None),
            self.exact and other.exact,
        )


def check_queue_settings(problems: Problems, at: str, settings: QueueSettings) -> None:
    """Checks every setting. `at` is the path of the queue in its request."""
    problems.integer(f"{at}.weight", settings.weight, limits.WEIGHT_MIN, limits.WEIGHT_MAX)
    if settings.rate is not None and not limits.QUEUE_RATE_MIN <= settings.rate <= limits.QUEUE_RATE_MAX:
        span = f"from {limits.QUEUE_RATE_MIN:g} to {limits.QUEUE_RATE_MAX:g} leases a second"
        problems.add(f"{at}.rate", f"must be {span}, found {settings.rate:g}; pause the queue to stop it")
    if settings.rate_burst is not None:
        problems.integer(f"{at}.rate_burst", settings.rate_burst, 1, limits.QUEUE_BURST_MAX)
        if settings.rate is None:
            problems.add(f"{at}.rate_burst", "belongs to a rate, found none; set rate too, or unset rate_burst")
    for name, most in (
        ("max_in_flight", settings.max_in_flight),
        ("max_in_flight_per_key", settings.max_in_flight_per_key),
    ):
        _check_in_flight(problems, f"{at}.{name}", most)


def queue_not_found(id: str) -> NotFound:
    """No job, session or setting of the caller's tenant names this queue."""
    return NotFound(
        f"queues/{id}: not found; no job, session or setting names it, so it is misspelt, or an update is to create it"
    )


def _check_in_flight(problems: Problems, field: str, most: int | None) -> None:
    if most is not None and most < 1:
        problems.add(field, f"must be 1 or more, found {most}; unset it for no limit")
