"""What services tell the coordinator after a commit, so that memory follows the rows.

Losing a notice costs time, never work: the loops find the same facts in the rows.
"""

from collections.abc import Sequence
from typing import Protocol

from rota.domain.fairness import Entry
from rota.domain.ids import Fence, JobId, SessionId, TenantId


class Notices(Protocol):
    def jobs_waiting(self, entries: Sequence[Entry]) -> None:
        """These jobs wait for their due time, or for a worker."""

    def lease_ended(self, tenant: TenantId, job: JobId, fence: Fence) -> None:
        """Nobody holds this lease any more."""

    def cancel_requested(self, session: SessionId, job: JobId, fence: Fence, reason: str) -> None:
        """The session's worker is to stop this job."""

    def lease_revoked(self, session: SessionId, job: JobId, fence: Fence) -> None:
        """The session's worker is to drop this job: its outcome would be refused."""

    def schedules_armed(self) -> None:
        """Somebody is to look at schedules at once."""

    def queues_changed(self) -> None:
        """Somebody is to look at the settings of queues and tenants at once."""

    def job_finished(self, job: JobId) -> None:
        """Terminal: whoever waits for it can look."""


class Unheard:
    """Notices where no coordinator runs: others find all of it in the rows."""

    def jobs_waiting(self, entries: Sequence[Entry]) -> None: ...

    def lease_ended(self, tenant: TenantId, job: JobId, fence: Fence) -> None: ...

    def cancel_requested(self, session: SessionId, job: JobId, fence: Fence, reason: str) -> None: ...

    def lease_revoked(self, session: SessionId, job: JobId, fence: Fence) -> None: ...

    def schedules_armed(self) -> None: ...

    def queues_changed(self) -> None: ...

    def job_finished(self, job: JobId) -> None: ...
