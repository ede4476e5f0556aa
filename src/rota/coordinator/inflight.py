"""The leases of owned shards, as this coordinator knows them, and those of others' that it handed out."""

import heapq
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from rota.domain.ids import CoordinatorId, Fence, JobId, SessionId, ShardNo, TenantId

ADOPTED = "this coordinator took over a lease; whether it arrived is known to the worker alone"
"""Why a worker is asked for its inventory."""


@dataclass(slots=True)
class Flight:
    """One lease. `run_deadline` is on the monotonic clock; `proven`: the worker has said that it holds it;
    `cancelling`: its worker is, or is to be, told to stop.

    `poller` and `batch` name the answer it travelled in; -1 and 0 where another coordinator gave it. `via`: the peer
    that asked for it on behalf of a session of its own, and hears of its receipt; `asked_at`, monotonic: when it was
    granted by way of another coordinator, or its worker was asked last whether it has it; `on_its_way`: a peer may be
    about to give it to the worker, so that it is missing in an inventory that the peer was given says nothing;
    `seen_seq`: the newest beat with an inventory that had it.
    """

    tenant_id: TenantId
    job_id: JobId
    shard: ShardNo
    fence: Fence
    session_id: SessionId
    run_deadline: float
    proven: bool = False
    poller: int = -1
    batch: int = 0
    cancelling: bool = False
    via: CoordinatorId | None = None
    asked_at: float = 0.0
    on_its_way: bool = False
    seen_seq: int = 0

    @property
    def adopted(self) -> bool:
        """Found in the rows: only its worker knows whether its answer arrived."""
        return self.batch == 0


class InFlight:
    def __init__(self) -> None:
        self._by_job: dict[JobId, Flight] = {}
        self._by_session: dict[SessionId, dict[JobId, Flight]] = {}
        self._deadlines: list[tuple[float, JobId, Fence]] = []
        self._unheard: list[tuple[float, JobId, Fence]] = []
        """A heap of those of whose receipt others have to tell, by `asked_at`."""

    def __len__(self) -> int:
        return len(self._by_job)

    def __contains__(self, job: JobId) -> bool:
        return job in self._by_job

    def __iter__(self) -> Iterator[Flight]:
        return iter(self._by_job.values())

    def get(self, job: JobId) -> Flight | None:
        return self._by_job.get(job)

    def add(self, flight: Flight) -> None:
        """Takes a lease; a newer fence of the same job replaces an older one."""
        known = self._by_job.get(flight.job_id)
        if known is not None:
            if known.fence >= flight.fence:
                return
            self.remove(known.job_id, known.fence)
        self._by_job[flight.job_id] = flight
        self._by_session.setdefault(flight.session_id, {})[flight.job_id] = flight
        heapq.heappush(self._deadlines, (flight.run_deadline, flight.job_id, flight.fence))
        if flight.via is not None or (flight.adopted and not flight.proven):
            heapq.heappush(self._unheard, (flight.asked_at, flight.job_id, flight.fence))

    def remove(self, job: JobId, fence: Fence) -> None:
        flight = self._by_job.get(job)
        if flight is None or flight.fence != fence:
            return
        del self._by_job[job]
        held = self._by_session[flight.session_id]
        del held[job]
        if not held:
            del self._by_session[flight.session_id]
        if len(self._deadlines) > 1_000 and len(self._deadlines) > 2 * len(self._by_job):
            self._deadlines = [(f.run_deadline, f.job_id, f.fence) for f in self._by_job.values()]
            heapq.heapify(self._deadlines)

    def count_of(self, session: SessionId) -> int:
        return len(self._by_session.get(session, ()))

    def of(self, session: SessionId) -> list[Flight]:
        return list(self._by_session.get(session, {}).values())

    def sessions(self) -> Iterable[SessionId]:
        return self._by_session.keys()

    def overrun(self, now: float) -> list[Flight]:
        """Takes the leases whose run timeout has passed off the clock; they stay in flight until they are ended."""
        found = []
        while self._deadlines and self._deadlines[0][0] <= now:
            _, job, fence = heapq.heappop(self._deadlines)
            flight = self._by_job.get(job)
            if flight is not None and flight.fence == fence:
                found.append(flight)
        return found

    def unheard(self, asked_before: float, now: float) -> list[Flight]:
        """The leases of whose receipt nobody has told for so long. They count as asked for now, and come again: what
        is asked and what is answered may be lost."""
        found = []
        while self._unheard and self._unheard[0][0] < asked_before:
            _, job, fence = heapq.heappop(self._unheard)
            flight = self._by_job.get(job)
            if flight is not None and flight.fence == fence and not flight.proven:
                flight.asked_at = now
                found.append(flight)
        for flight in found:
            heapq.heappush(self._unheard, (now, flight.job_id, flight.fence))
        return found

    def forget_shards(self, shards: frozenset[ShardNo], sessions: Container[SessionId] = ()) -> None:
        """Drops the leases of these shards, but for those of sessions whose answers are given here."""
        for flight in [f for f in self._by_job.values() if f.shard in shards and f.session_id not in sessions]:
            self.remove(flight.job_id, flight.fence)
