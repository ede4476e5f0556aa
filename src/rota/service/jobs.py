"""Creating, reading and cancelling jobs."""

from collections.abc import Sequence
from dataclasses import dataclass

from rota.domain import limits, transition
from rota.domain.errors import AlreadyExists, RotaError, Unavailable, job_not_found
from rota.domain.fairness import Entry
from rota.domain.ids import JobId, TenantId
from rota.domain.model import Attempt, CancelMode, Job, JobSpec, JobState, LiveJob, Outcome
from rota.domain.transition import Finish
from rota.service.notices import Notices
from rota.store.port import CreateCall, Created, Decided, JobFilter, JobReader, JobStore, OutcomeStore
from rota.telemetry import Metrics

CANCEL_TRIES = 5
"""Each failed try means that the job moved on in between; five in a row mean that something is wrong."""


@dataclass(frozen=True, slots=True)
class CreateAnswer:
    """The jobs of one call in order; `created` None where the job existed before."""

    jobs: tuple[tuple[JobId, Created | None], ...]


class Jobs:
    def __init__(
        self, store: JobStore, reader: JobReader, outcomes: OutcomeStore, notices: Notices, metrics: Metrics
    ) -> None:
        self._store = store
        self._reader = reader
        self._outcomes = outcomes
        self._notices = notices
        self._metrics = metrics

    async def create(self, calls: Sequence[CreateCall]) -> list[CreateAnswer | RotaError]:
        """Creates the jobs of many calls: one answer or refusal for each, and one transaction for all plain ones."""
        plain = [call for call in calls if not _deduped(call)]
        answers: dict[int, CreateAnswer | RotaError] = {}
        if plain:
            created = await self._store.create(plain)
            repeated = []
            for call in plain:
                if call.specs[0].id in created:
                    answers[id(call)] = self._accept(call, created, {})
                else:
                    repeated.append(call)
            answers |= await self._repeat(repeated)
        for call in calls:
            if id(call) not in answers:
                answers[id(call)] = await self._create_deduped(call)
        return [answers[id(call)] for call in calls]

    async def get(self, tenant: TenantId, job: JobId) -> Job:
        found = await self._reader.get(tenant, [job])
        if job not in found:
            raise job_not_found(job)
        return found[job]

    async def get_many(self, tenant: TenantId, jobs: Sequence[JobId]) -> dict[JobId, Job]:
        return await self._reader.get(tenant, jobs)

    async def page(self, tenant: TenantId, where: JobFilter, before: JobId | None, limit: int) -> list[Job]:
        return await self._reader.page(tenant, where, before, limit)

    async def attempts(self, tenant: TenantId, job: JobId, after: int, limit: int) -> list[Attempt]:
        found = await self._reader.attempts(tenant, job, after, limit)
        if not found:
            await self.get(tenant, job)
        return found

    async def cancel(self, tenant: TenantId, job: JobId, mode: CancelMode, reason: str) -> Job:
        """Cancels, and answers with the job as it is then. Whoever commits first wins: a job that became terminal
        in between is returned as it is."""
        for _ in range(CANCEL_TRIES):
            live = (await self._outcomes.live([(tenant, job)]))[0].get(job)
            if live is None:
                return await self.get(tenant, job)
            if await self._cancel_live(live, transition.cancel(live, mode), reason):
                return await self.get(tenant, job)
        raise Unavailable(f"jobs/{job}: its state changed {CANCEL_TRIES} times meanwhile; try again", retry_after_s=1.0)

    async def cancel_waiting(self, tenant: TenantId, jobs: Sequence[JobId], reason: str) -> int:
        """Cancels those of these jobs that wait still; how many. What is leased meanwhile stays."""
        live, _ = await self._outcomes.live([(tenant, job) for job in jobs])
        waiting = [job for job in live.values() if job.state in (JobState.SCHEDULED, JobState.RETRY_WAIT)]
        if not waiting:
            return 0
        gone = Finish(JobState.CANCELLED, counted=False, reason=reason)
        done = await self._outcomes.finish([Decided(job, gone, None) for job in waiting])
        self._metrics.add("rota.jobs.finished", len(done), JobState.CANCELLED.name.lower())
        for job in waiting:
            if (job.id, job.fence) in done:
                self._notices.job_finished(job.id)
        return len(done)

    async def _cancel_live(self, live: LiveJob, target: JobState, reason: str) -> bool:
        leased = live.state in (JobState.LEASED, JobState.CANCELLING)
        if target is JobState.CANCELLING:
            done = await self._store.set_cancelling(live.tenant_id, live.id, live.fence, reason)
            if done and live.session_id is not None:
                self._notices.cancel_requested(live.session_id, live.id, live.fence, reason)
            return done
        outcome = Outcome.CANCELLED if leased else None
        decided = Decided(live, Finish(JobState.CANCELLED, counted=leased, reason=reason), outcome)
        if not await self._outcomes.finish([decided]):
            return False
        self._metrics.add("rota.jobs.finished", label=JobState.CANCELLED.name.lower())
        if leased and live.session_id is not None:
            self._notices.lease_revoked(live.session_id, live.id, live.fence)
        self._notices.lease_ended(live.tenant_id, live.id, live.fence)
        self._notices.job_finished(live.id)
        return True

    async def _create_deduped(self, call: CreateCall) -> CreateAnswer | RotaError:
        try:
            answer = await self._store.create_deduped(call)
        except AlreadyExists as refusal:
            return refusal
        if answer is None:
            return (await self._repeat([call]))[id(call)]
        return self._accept(call, *answer)

    async def _repeat(self, calls: Sequence[CreateCall]) -> dict[int, CreateAnswer | RotaError]:
        if not calls:
            return {}
        earlier = await self._store.earlier(calls)
        answers: dict[int, CreateAnswer | RotaError] = {}
        for call in calls:
            found = earlier.get((call.tenant_id, call.method, call.request_id))
            if found is None:
                answers[id(call)] = Unavailable("request_id: its first use is being forgotten; try again")
            elif found.digest != call.digest:
                answers[id(call)] = AlreadyExists(
                    f"request_id: {call.request_id!r} was used for another request; make a fresh one for each call",
                    reason="REQUEST_ID_REUSED",
                )
            else:
                answers[id(call)] = CreateAnswer(tuple((job, None) for job in found.jobs))
        return answers

    def _accept(self, call: CreateCall, created: dict[JobId, Created], holders: dict[int, JobId]) -> CreateAnswer:
        entries = [entry_of(spec, created[spec.id].due_us) for spec in call.specs if spec.id in created]
        self._metrics.add("rota.jobs.created", len(entries))
        self._notices.jobs_waiting(entries)
        return CreateAnswer(
            tuple(
                (holders[index], None) if index in holders else (spec.id, created[spec.id])
                for index, spec in enumerate(call.specs)
            )
        )


def entry_of(spec: JobSpec, due_us: int) -> Entry:
    """A new job as the queue in memory knows it."""
    start_by_s, total_s = spec.timeouts.start_by_s, spec.timeouts.total_s
    if total_s is not None and (start_by_s is None or total_s < start_by_s):
        start_by_s = total_s
    return Entry(
        spec.tenant_id,
        spec.id,
        spec.shard,
        spec.queue,
        spec.type,
        spec.priority,
        due_us,
        _lease_bytes(spec),
        None if start_by_s is None else due_us / 1e6 + start_by_s,
        spec.concurrency_key,
    )


def _lease_bytes(spec: JobSpec) -> int:
    size = limits.LEASE_OVERHEAD_BYTES + len(spec.payload.data)
    if spec.headers:
        size += sum(len(key.encode()) + len(value.encode()) for key, value in spec.headers.items())
    return size


def _deduped(call: CreateCall) -> bool:
    return any(spec.dedupe is not None for spec in call.specs)
