"""Drives the examples: submits the planned jobs, follows each to its end, and proves that none was lost.

Latency is due_time (of a job due at once: its creation) to lease_time of the last attempt, both by the database's
clock: how long a job that could run waited for its handler to be started.
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rota.cli.plan import Entry
from rota.clock import Clock

if TYPE_CHECKING:
    from rota_sdk import Client, Job

PAGE: Final = 200
"""Jobs of one look at the newest."""

READS_MAX: Final = 50
"""Older unfinished jobs read one by one in one look."""

NEWEST: Final = 12
LATENCIES_MAX: Final = 100_000
VERIFIED_MAX: Final = 20_000
"""Names kept to be read again at the end; of a longer run the newest."""

VERIFIERS: Final = 4
RATE_SPAN_S: Final = 5.0


@dataclass(slots=True)
class Seen:
    """A job as it was last seen."""

    name: str
    type: str
    state: str
    attempt: int
    latency_s: float | None
    ended: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How things stand. `rate` is finished jobs a second, lately."""

    created: int
    states: Counter[str]
    newest: tuple[Seen, ...]
    rate: float
    p50_ms: float | None
    p99_ms: float | None


@dataclass(slots=True)
class Summary:
    """What `rota dev --examples` did."""

    created: int
    succeeded: int
    failed_attempts: int
    dead: int
    lost: int
    p50_ms: float | None
    p99_ms: float | None
    unfinished: int = field(default=0)

    def document(self) -> dict[str, Any]:
        """The summary for scripts."""
        return {
            "created": self.created,
            "succeeded": self.succeeded,
            "failed_attempts": self.failed_attempts,
            "dead": self.dead,
            "lost": self.lost,
            "p50_ms": self.p50_ms,
            "p99_ms": self.p99_ms,
        }


class Drive:
    """One run. Not for use from several threads."""

    def __init__(self, rota: "Client", entries: Sequence[Entry], clock: Clock) -> None:
        self._rota = rota
        self._clock = clock
        self._entries = entries
        now = clock.monotonic()
        # The kinds begin one after the other, so that each can be seen.
        self._due = [now + 0.2 * index for index in range(len(entries))]
        self._rounds = [0] * len(entries)
        self._alive: dict[str, Seen] = {}
        self._newest: deque[Seen] = deque(maxlen=NEWEST)
        self._names: deque[str] = deque(maxlen=VERIFIED_MAX)
        self._known: set[str] = set()
        self._ended: Counter[str] = Counter()
        self._created = 0
        self._failed_attempts = 0
        self._latencies_s: deque[float] = deque(maxlen=LATENCIES_MAX)
        self._finishes: deque[float] = deque()

    @property
    def alive(self) -> int:
        """Jobs not seen to end yet."""
        return len(self._alive)

    def submit(self) -> None:
        """Creates what is due. Raises rota_sdk.RotaError."""
        now = self._clock.monotonic()
        for index, entry in enumerate(self._entries):
            if self._due[index] > now:
                continue
            self._due[index] = max(self._due[index] + entry.every, now)
            self._rounds[index] += 1
            jobs = entry.jobs(self._rounds[index])
            if entry.batch:
                self._add(self._rota.create_jobs(jobs))
            else:
                for job in jobs:
                    self._add([self._rota.create_job(**_arguments(job))])

    def look(self) -> None:
        """Follows the jobs that have not ended: with one list of the newest, and a read of each older one."""
        if not self._alive:
            return
        found = {job.name: job for job in self._rota.list_jobs(page_size=PAGE).jobs}
        older = [name for name in self._alive if name not in found][:READS_MAX]
        for name in older:
            job = self._read(name)
            if job is not None:
                found[name] = job
        for name in list(self._alive):
            if name in found:
                self._update(self._alive[name], found[name])

    def snapshot(self) -> Snapshot:
        """How things stand by the last look."""
        now = self._clock.monotonic()
        while self._finishes and self._finishes[0] < now - RATE_SPAN_S:
            self._finishes.popleft()
        states = self._ended + Counter(seen.state for seen in self._alive.values())
        latencies = sorted(self._latencies_s)
        return Snapshot(
            self._created,
            states,
            tuple(reversed(self._newest)),
            len(self._finishes) / RATE_SPAN_S,
            _percentile_ms(latencies, 0.50),
            _percentile_ms(latencies, 0.99),
        )

    def verify(self, *, complete: bool) -> Summary:
        """Reads every job again. Lost is what is not there or, in a `complete` run, has not ended."""
        self.look()
        with ThreadPoolExecutor(VERIFIERS) as readers:
            read = list(readers.map(self._read, self._names))
        missing = sum(job is None for job in read)
        unfinished = sum(job is not None and not job.state.terminal for job in read)
        latencies = sorted(self._latencies_s)
        return Summary(
            created=self._created,
            succeeded=self._ended["SUCCEEDED"],
            failed_attempts=self._failed_attempts,
            dead=self._ended["DEAD"],
            lost=missing + (unfinished if complete else 0),
            p50_ms=_percentile_ms(latencies, 0.50),
            p99_ms=_percentile_ms(latencies, 0.99),
            unfinished=unfinished,
        )

    def _add(self, jobs: "Iterable[Job]") -> None:
        for job in jobs:
            # A dedupe key may lead to a job of a round before.
            if job.name in self._known:
                continue
            if len(self._names) == VERIFIED_MAX:
                self._known.discard(self._names[0])
            self._known.add(job.name)
            self._names.append(job.name)
            self._created += 1
            seen = Seen(job.name, job.type, job.state.name, 0, None, False)
            self._alive[job.name] = seen
            self._newest.append(seen)
            self._update(seen, job)

    def _update(self, seen: Seen, job: "Job") -> None:
        seen.state, seen.attempt, seen.ended = job.state.name, job.attempt, job.state.terminal
        due_time = job.due_time or job.create_time
        if job.lease_time is not None and due_time is not None and job.lease_time >= due_time:
            seen.latency_s = (job.lease_time - due_time).total_seconds()
        if not seen.ended:
            return
        del self._alive[seen.name]
        self._ended[seen.state] += 1
        self._failed_attempts += job.attempts_counted - (seen.state == "SUCCEEDED")
        self._finishes.append(self._clock.monotonic())
        if seen.latency_s is not None:
            self._latencies_s.append(seen.latency_s)

    def _read(self, name: str) -> "Job | None":
        from rota_sdk import NotFound

        try:
            return self._rota.get_job(name)
        except NotFound:
            return None


def _arguments(job: Any) -> dict[str, Any]:
    return {name: getattr(job, name) for name in type(job).__dataclass_fields__}


def _percentile_ms(ordered_s: Sequence[float], share: float) -> float | None:
    """The smallest value that is not exceeded by `share` of all, in ms."""
    if not ordered_s:
        return None
    rank = min(len(ordered_s) - 1, max(0, -int(-share * len(ordered_s) // 1) - 1))
    return round(ordered_s[rank] * 1000, 1)
