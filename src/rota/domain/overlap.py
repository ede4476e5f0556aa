"""What the overlap policy makes of occurrences that want a job, given the jobs that are not terminal and those that
wait: who fires, who waits, who is skipped, and which jobs are to go.

Caught-up occurrences are to run each: under ALLOW with a limit, SKIP and BUFFER_ALL they wait in order, outside of any
limit. Under the other modes only the newest waits, as the policy says. CANCEL_OTHER and REPLACE let the newest wait
too, for an instant: it fires once those that it displaces are terminal, so two never live at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from rota.domain.ids import JobId
from rota.domain.missed import Slot
from rota.domain.schedule import Fate, Origin, OverlapMode, OverlapPolicy


@dataclass(frozen=True, slots=True)
class Waiting:
    """A BUFFERED occurrence."""

    nominal: datetime
    generation: int
    due: datetime
    local: str
    origin: Origin
    reason: str = ""
    forced: bool = False
    backfill_id: str | None = None
    missed: int = 0
    first_missed: datetime | None = None

    @property
    def counts(self) -> bool:
        """Whether it counts towards max_count, and among the fates of the rule."""
        return self.origin in (Origin.RULE, Origin.CATCH_UP)


@dataclass(frozen=True, slots=True)
class Record:
    """A fate to be written down, with the job that it makes when FIRED. `was_waiting`: it had been BUFFERED."""

    nominal: datetime
    generation: int
    due: datetime
    local: str
    origin: Origin
    fate: Fate
    reason: str = ""
    count: int = 1
    last: datetime | None = None
    job_id: JobId | None = None
    blocking_job: JobId | None = None
    missed: int = 0
    first_missed: datetime | None = None
    forced: bool = False
    backfill_id: str | None = None
    was_waiting: bool = False


@dataclass(slots=True)
class Resolution:
    """`used`: slots that were decided; fewer than given when max_count was reached. `displaced`: jobs to be cancelled,
    or fenced out."""

    records: list[Record] = field(default_factory=list)
    used: int = 0
    full: bool = False
    displaced: tuple[JobId, ...] = ()
    fired: int = 0
    """By the rule, since before: what max_count counts."""
    buffered: int = 0
    """The change in how many wait."""


def resolve(
    policy: OverlapPolicy,
    slots: Sequence[Slot],
    running: Sequence[JobId],
    waiting: Sequence[Waiting],
    left: int | None,
    mint: Callable[[], JobId],
) -> Resolution:
    """Decides about slots in order. `left`: how many may still fire by max_count, those waiting not counted."""
    return _Resolver(policy, running, waiting, left, mint).run(slots)


class _Resolver:
    def __init__(
        self,
        policy: OverlapPolicy,
        running: Sequence[JobId],
        waiting: Sequence[Waiting],
        left: int | None,
        mint: Callable[[], JobId],
    ) -> None:
        self._mode = policy.mode
        self._live_max = (policy.limit or _UNLIMITED) if policy.mode is OverlapMode.ALLOW else 1
        self._buffer_max = policy.buffer_max
        self._live = list(running)
        self._displaceable = list(running)
        self._waiting = list(waiting)
        self._left = left
        self._mint = mint
        self._out = Resolution()

    def run(self, slots: Sequence[Slot]) -> Resolution:
        self._release()
        for slot in slots:
            if slot.fate is not None:
                self._out.records.append(_final(slot, slot.fate, slot.reason))
            elif self._left is not None and self._left <= 0:
                self._out.full = True
                break
            else:
                self._decide(slot)
            self._out.used += 1
        if self._left is not None and self._left <= 0:
            self._out.full = True
        if self._mode in (OverlapMode.CANCEL_OTHER, OverlapMode.REPLACE) and self._waiting:
            self._out.displaced = tuple(self._displaceable)
        self._name_stand_ins()
        return self._out

    @property
    def _busy(self) -> bool:
        return len(self._live) >= self._live_max

    def _release(self) -> None:
        while self._waiting and not self._busy:
            first = self._waiting.pop(0)
            job = self._mint()
            self._live.append(job)
            self._out.records.append(_of_waiting(first, Fate.FIRED, job_id=job))
            self._out.fired += first.counts
            self._out.buffered -= 1

    def _decide(self, slot: Slot) -> None:
        if not self._busy and not self._waiting:
            self._fire(slot)
            return
        blocking = self._live[0] if self._live else None
        caught_up = slot.origin is Origin.CATCH_UP
        if self._mode in (OverlapMode.ALLOW, OverlapMode.SKIP):
            if caught_up:
                self._wait(slot, blocking)
            else:
                why = (
                    "an earlier job is not terminal" if self._mode is OverlapMode.SKIP else "as many jobs as may run do"
                )
                self._record(slot, Fate.SKIPPED_OVERLAP, why, blocking)
        elif self._mode is OverlapMode.BUFFER_ALL:
            if caught_up or len(self._waiting) < self._buffer_max:
                self._wait(slot, blocking)
            else:
                why = f"{len(self._waiting)} wait already"
                self._record(slot, Fate.SKIPPED_BUFFER_FULL, why, blocking)
        else:
            self._replace_waiting()
            self._wait(slot, blocking)

    def _fire(self, slot: Slot) -> None:
        job = self._mint()
        self._live.append(job)
        self._record(slot, Fate.FIRED, "", None, job)
        self._out.fired += 1
        self._take_one()

    def _wait(self, slot: Slot, blocking: JobId | None) -> None:
        self._record(slot, Fate.BUFFERED, "waits for an earlier job", blocking)
        self._waiting.append(_waiting(slot))
        self._out.buffered += 1
        self._take_one()

    def _replace_waiting(self) -> None:
        """The newest wins: those of the rule that wait are passed over."""
        for old in [each for each in self._waiting if each.counts]:
            self._waiting.remove(old)
            self._out.buffered -= 1
            if self._left is not None:
                self._left += 1
            self._supersede(old)

    def _supersede(self, old: Waiting) -> None:
        for index, record in enumerate(self._out.records):
            if (record.nominal, record.generation) == (old.nominal, old.generation):
                # It began to wait in this very step.
                self._out.records[index] = replace(record, fate=Fate.COALESCED, reason=_NEWER)
                return
        self._out.records.append(_of_waiting(old, Fate.COALESCED, reason=_NEWER))

    def _take_one(self) -> None:
        if self._left is not None:
            self._left -= 1

    def _record(self, slot: Slot, fate: Fate, reason: str, blocking: JobId | None, job: JobId | None = None) -> None:
        why = f"{slot.reason}; {reason}" if slot.reason and reason else slot.reason or reason
        self._out.records.append(_final(slot, fate, why, blocking, job))

    def _name_stand_ins(self) -> None:
        """A missed occurrence that was coalesced names the job that runs in its place, where there is one."""
        stand_in: JobId | None = None
        for index in range(len(self._out.records) - 1, -1, -1):
            record = self._out.records[index]
            if record.missed:
                stand_in = record.job_id
            elif record.fate is Fate.COALESCED and not record.was_waiting and record.job_id is None:
                self._out.records[index] = replace(record, job_id=stand_in)


_UNLIMITED = 1 << 62
_NEWER = "a newer one runs in its place"


def _final(slot: Slot, fate: Fate, reason: str, blocking: JobId | None = None, job: JobId | None = None) -> Record:
    return Record(
        slot.nominal,
        0,
        slot.due,
        slot.local,
        slot.origin,
        fate,
        reason,
        slot.count,
        slot.last,
        job,
        blocking,
        missed=slot.missed,
        first_missed=slot.first_missed,
    )


def _waiting(slot: Slot) -> Waiting:
    return Waiting(
        slot.nominal,
        0,
        slot.due,
        slot.local,
        slot.origin,
        slot.reason,
        missed=slot.missed,
        first_missed=slot.first_missed,
    )


def _of_waiting(old: Waiting, fate: Fate, *, reason: str = "", job_id: JobId | None = None) -> Record:
    return Record(
        old.nominal,
        old.generation,
        old.due,
        old.local,
        old.origin,
        fate,
        reason or old.reason,
        job_id=job_id,
        missed=old.missed,
        first_missed=old.first_missed,
        forced=old.forced,
        backfill_id=old.backfill_id,
        was_waiting=True,
    )
