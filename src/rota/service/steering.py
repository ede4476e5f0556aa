"""Moving jobs in time: a retry now instead of later or never, and another due time for what has not started."""

from datetime import datetime
from typing import Final

from rota.domain.errors import FailedPrecondition, Unavailable
from rota.domain.fairness import Entry
from rota.domain.ids import JobId, TenantId
from rota.domain.model import Identity, Job, JobState
from rota.service.deadletters import DeadLetters
from rota.service.jobs import Jobs
from rota.service.notices import Notices
from rota.store.port import JobStore

TRIES: Final = 5
"""Each failed try means that the job moved on in between; five in a row mean that something is wrong."""


class Steering:
    def __init__(self, store: JobStore, jobs: Jobs, dead_letters: DeadLetters, notices: Notices) -> None:
        self._store = store
        self._jobs = jobs
        self._dead_letters = dead_letters
        self._notices = notices

    async def retry(self, identity: Identity, job: JobId, *, new_generation: bool) -> Job:
        """Makes a job ready now that waits for its retry, or is dead."""
        tenant = identity.tenant_id
        for _ in range(TRIES):
            if not new_generation and self._moved(await self._store.retry_now(tenant, job)):
                return await self._jobs.get(tenant, job)
            if await self._dead_letters.revive(identity, job, new_generation=new_generation):
                return await self._jobs.get(tenant, job)
            found = await self._jobs.get(tenant, job)
            if found.state is JobState.RETRY_WAIT and not new_generation:
                continue
            if found.state is JobState.READY and found.attempt and not new_generation:
                # As after a call whose answer was lost.
                return found
            if found.state is JobState.DEAD and await self._dead_letters.has(tenant, job):
                continue
            raise _not_retryable(found, new_generation)
        raise _restless(job)

    async def reschedule(self, tenant: TenantId, job: JobId, due: datetime) -> Job:
        """Moves the due time of a job that has not started; an instant in the past is now."""
        for _ in range(TRIES):
            if self._moved(await self._store.reschedule(tenant, job, due)):
                return await self._jobs.get(tenant, job)
            found = await self._jobs.get(tenant, job)
            waiting = found.state is JobState.SCHEDULED or (
                found.state is JobState.READY and not found.attempts_counted
            )
            if not waiting:
                raise _started(found)
        raise _restless(job)

    def _moved(self, entry: Entry | None) -> bool:
        if entry is not None:
            self._notices.jobs_waiting([entry])
        return entry is not None


def _not_retryable(job: Job, new_generation: bool) -> FailedPrecondition:
    name, state = f"jobs/{job.id}", job.state
    if state is JobState.DEAD:
        what = "its dead letter was discarded; create the job anew"
    elif new_generation and not state.terminal:
        what = f"it is {state.name}, and only a dead job can be given a new generation; retry it without"
    elif state.terminal:
        what = f"it ended as {state.name}, and only what waits for a retry or is dead can be retried; create it anew"
    elif state in (JobState.LEASED, JobState.CANCELLING):
        what = f"it is {state.name}; wait for the end of its attempt"
    else:
        what = f"it is {state.name} and has not been tried yet; to start it earlier, reschedule it"
    return FailedPrecondition(f"{name}: {what}", metadata={"state": state.name})


def _started(job: Job) -> FailedPrecondition:
    name, state = f"jobs/{job.id}", job.state
    what = f"it is {state.name}, and only a job that has not started can be moved"
    if state is JobState.RETRY_WAIT:
        what += "; to try it again at once, retry it"
    return FailedPrecondition(f"{name}: {what}", metadata={"state": state.name})


def _restless(job: JobId) -> Unavailable:
    return Unavailable(f"jobs/{job}: its state changed {TRIES} times meanwhile; try again", retry_after_s=1.0)
