"""The leases that a session holds, from receipt to the answered outcome."""

import threading
from collections.abc import Iterable

from rota_sdk.gen.rota.worker.v1 import worker_pb2
from rota_sdk.lease import Lease


class Holdings:
    """Leases by job and fence, and for each poller the last batch received.

    A batch and its leases become visible together, so that an inventory never claims a batch without them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leases: dict[tuple[str, int], Lease] = {}
        self._batches: dict[int, int] = {}
        # No run timeout ends before this monotonic instant. It may be too early, never too late.
        self.next_deadline = float("inf")

    def __len__(self) -> int:
        return len(self._leases)

    def add(self, poller: int, batch: int, leases: Iterable[Lease]) -> list[Lease]:
        """Takes a batch in; returns the leases that were not held before (an answer may come twice)."""
        fresh = []
        held = self._leases
        with self._lock:
            if batch:
                self._batches[poller] = batch
            earliest = self.next_deadline
            for lease in leases:
                key = (lease.job, lease.fence)
                if key not in held:
                    held[key] = lease
                    fresh.append(lease)
                    if lease._run_until < earliest:
                        earliest = lease._run_until
            self.next_deadline = earliest
        return fresh

    def remove(self, leases: Iterable[Lease]) -> None:
        """Their outcomes are answered."""
        with self._lock:
            for lease in leases:
                self._leases.pop((lease.job, lease.fence), None)

    def find(self, job: str, fence: int) -> Lease | None:
        """The lease, if it is held."""
        return self._leases.get((job, fence))

    def take(self, job: str, fence: int) -> Lease | None:
        """The lease, which is held no more; None when it was not."""
        with self._lock:
            return self._leases.pop((job, fence), None)

    def take_all(self) -> list[Lease]:
        """Everything, which is held no more."""
        with self._lock:
            leases = list(self._leases.values())
            self._leases.clear()
            return leases

    def snapshot(self) -> list[Lease]:
        """Everything held."""
        with self._lock:
            return list(self._leases.values())

    def overdue(self, now: float) -> list[Lease]:
        """Leases whose run timeout has ended."""
        if now < self.next_deadline:
            return []
        with self._lock:
            late = [lease for lease in self._leases.values() if lease._run_until <= now]
            rest = (lease._run_until for lease in self._leases.values() if lease._run_until > now)
            self.next_deadline = min(rest, default=float("inf"))
        return late

    def set_deadline(self, lease: Lease, until: float) -> None:
        """Looks at the lease again at `until`."""
        with self._lock:
            lease._run_until = until
            self.next_deadline = min(self.next_deadline, until)

    def inventory(self) -> worker_pb2.Inventory:
        """What is held, for the coordinator."""
        with self._lock:
            inventory = worker_pb2.Inventory(batches=self._batches)
            add = inventory.leases.add
            for job, fence in self._leases:
                add(job=job, fence=fence)
        return inventory
