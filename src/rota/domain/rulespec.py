"""What a schedule says of its times, as it was given. `rota.domain.recurrence` reads it."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum

from rota.domain.dateset import Calendar, DateSet
from rota.domain.dst import GapPolicy, OverlapPolicy
from rota.domain.jitter import JitterMode


class RuleKind(IntEnum):
    """How a schedule says when it fires."""

    ONCE = 1
    CRON = 2
    INTERVAL = 3
    RRULE = 4


@dataclass(frozen=True, slots=True)
class RuleSpec:
    """What a schedule says of its times. Instants are aware; texts are kept as given.

    `gap` and `overlap` None: as the kind of rule has it (the table in `dst`). They say nothing to a rule that counts
    elapsed time: an interval, a `once` at an instant, an RRULE below a day.
    """

    kind: RuleKind
    expression: str = ""
    """The cron expression, the RRULE text, or an interval in ISO 8601 such as PT90S."""
    time_zone: str = "UTC"
    anchor: datetime | None = None
    """INTERVAL: where counting starts. RRULE: the creation, in place of a DTSTART that the text does not have."""
    every_s: float | None = None
    """INTERVAL: the seconds, in place of `expression`."""
    local_start: str = ""
    """ONCE: the local time. RRULE: DTSTART, if the text has none. As 2026-03-08T02:30:00."""
    rdates: tuple[str, ...] = ()
    exdates: tuple[str, ...] = ()
    """RRULE: dates beside those of the text, as 2026-03-08T02:30:00, or with Z in UTC."""
    start: datetime | None = None
    """Nothing before it."""
    end: datetime | None = None
    """Nothing at or after it."""
    gap: GapPolicy | None = None
    overlap: OverlapPolicy | None = None
    excluded_dates: DateSet = field(default_factory=DateSet)
    calendars: tuple[Calendar, ...] = ()
    jitter_s: float = 0.0
    jitter_mode: JitterMode = JitterMode.HASH
    run_time: datetime | None = None
    """ONCE: the instant, in place of `local_start`."""
    cron_fields: int | None = None
    """CRON: 5 or 6 where the writer says which; a line of a crontab must not be taken for six fields."""
