"""Ending attempts: what workers report, and what the coordinator finds out by itself.

Successes go in one set-based statement. Everything else is read, decided by the state machine, and written under the
fence and state that the decision was made on; what moved meanwhile is decided again.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from rota.clock import Clock
from rota.domain import transition
from rota.domain.errors import RotaError, Unavailable, not_lease_owner, outcome_conflict, stale_fence
from rota.domain.fairness import Entry
from rota.domain.ids import Fence, JobId, SessionId, TenantId
from rota.domain.model import Failure, JobState, LiveJob, Outcome, Result, Settlement
from rota.domain.transition import Ending, Finish, Requeue
from rota.service.jobs import entry_of
from rota.service.notices import Notices
from rota.store.port import CreateCall, Decided, Ended, OutcomeStore
from rota.telemetry import Metrics, Traces

DECIDE_TRIES = 4

_SPAWN = 3
"""The method number under which spawned jobs would keep a request_id; the fence makes them repeatable already."""


@dataclass(frozen=True, slots=True)
class LostLease:
    """A lease that the coordinator ends by itself. LEASE_LOST only where its session is dead, unless `gone`: the
    living session has said that it does not hold it."""

    tenant_id: TenantId
    job_id: JobId
    fence: Fence
    ending: Ending
    gone: bool = False


@dataclass(slots=True)
class _Item:
    tenant_id: TenantId
    job_id: JobId
    fence: Fence
    session_id: SessionId | None
    ending: Ending
    result: Result | None = None
    needs_dead_session: bool = False


class Completions:
    def __init__(
        self, store: OutcomeStore, notices: Notices, clock: Clock, metrics: Metrics, traces: Traces | None
    ) -> None:
        self._store = store
        self._notices = notices
        self._clock = clock
        self._metrics = metrics
        self._traces = traces

    async def settle(self, results: Sequence[Result]) -> list[Settlement | RotaError]:
        """Takes workers' outcomes: for each what became of it. No two of one call share (job, fence)."""
        answers: dict[tuple[JobId, Fence], Settlement | RotaError] = {}
        plain = [r for r in results if r.outcome is Outcome.SUCCEEDED and not r.spawned]
        accepted = await self._store.succeed(plain) if plain else {}
        for result in results:
            if result.spawned and result.outcome is Outcome.SUCCEEDED:
                call = CreateCall(result.spawned, result.tenant_id, _SPAWN, "", b"")
                done, created = await self._store.succeed_and_spawn(result, call)
                accepted |= done
                due = {job.id: job.due_us for job in created}
                self._metrics.add("rota.jobs.created", len(due))
                self._notices.jobs_waiting([entry_of(s, due[s.id]) for s in result.spawned if s.id in due])
        for result in results:
            key = (result.job_id, result.fence)
            state = accepted.get(key)
            if state is not None:
                answers[key] = Settlement(state)
                self._notices.lease_ended(result.tenant_id, *key)
                self._notices.job_finished(result.job_id)
        if accepted:
            self._metrics.add("rota.attempts.ended", len(accepted), Outcome.SUCCEEDED.name.lower())
            self._metrics.add("rota.jobs.finished", len(accepted), JobState.SUCCEEDED.name.lower())
        rest = [_item(r) for r in results if (r.job_id, r.fence) not in accepted]
        if rest:
            answers |= await self._decide(rest)
        self._trace_results(results, answers)
        return [answers[r.job_id, r.fence] for r in results]

    async def lose(self, leases: Sequence[LostLease]) -> int:
        """Ends leases that nobody will report on; how many were ended."""
        items = [
            _Item(
                lease.tenant_id,
                lease.job_id,
                lease.fence,
                None,
                lease.ending,
                needs_dead_session=lease.ending.outcome is Outcome.LEASE_LOST and not lease.gone,
            )
            for lease in leases
        ]
        answers = await self._decide(items)
        return sum(isinstance(answer, Settlement) and not answer.duplicate for answer in answers.values())

    async def expire(self, jobs: Sequence[tuple[TenantId, JobId]]) -> int:
        """Ends waiting jobs that were not leased before their start_by or total timeout; how many."""
        live, now = await self._store.live(jobs)
        decided = [
            Decided(job, transition.expire(job), None)
            for job in live.values()
            if job.state in (JobState.SCHEDULED, JobState.RETRY_WAIT) and _is_late(job, now)
        ]
        done = await self._apply(decided)
        for each in decided:
            if (each.job.id, each.job.fence) in done:
                self._notices.job_finished(each.job.id)
                self._metrics.add("rota.jobs.finished", 1, each.decision.state.name.lower())
        return len(done)

    async def waiting(self, jobs: Sequence[tuple[TenantId, JobId]]) -> tuple[list[Entry], datetime | None]:
        """Which of these jobs wait still, for claims that came back empty; and the database's now."""
        live, now = await self._store.live(jobs)
        waiting = (JobState.SCHEDULED, JobState.RETRY_WAIT)
        return [_entry(job, job.due_at, job.start_by) for job in live.values() if job.state in waiting], now

    async def held(
        self, tenant: TenantId, session: SessionId, leases: Collection[tuple[JobId, Fence]]
    ) -> set[tuple[JobId, Fence]]:
        """Which of these leases are the session's by the rows."""
        live, _ = await self._store.live([(tenant, job) for job, _ in leases])
        leased = (JobState.LEASED, JobState.CANCELLING)
        return {
            (job, fence)
            for job, fence in leases
            if (found := live.get(job))
            and (found.fence, found.session_id) == (fence, session)
            and found.state in leased
        }

    async def _decide(self, items: Sequence[_Item]) -> dict[tuple[JobId, Fence], Settlement | RotaError]:
        answers: dict[tuple[JobId, Fence], Settlement | RotaError] = {}
        pending = {(i.job_id, i.fence): i for i in items}
        for _ in range(DECIDE_TRIES):
            live, now = await self._store.live([(i.tenant_id, i.job_id) for i in pending.values()])
            decided: dict[tuple[JobId, Fence], Decided] = {}
            strangers: list[_Item] = []
            for key, item in pending.items():
                job = live.get(item.job_id)
                if job is None or now is None or not _holds(job, item):
                    strangers.append(item)
                elif item.session_id is not None and job.session_id != item.session_id:
                    answers[key] = not_lease_owner(item.job_id, item.fence)
                    self._metrics.add("rota.fences.refused", 1, "not_lease_owner")
                elif item.needs_dead_session and job.session_alive:
                    answers[key] = Settlement(job.state, duplicate=True)
                else:
                    decided[key] = _decided(job, item, now, self._clock)
            if strangers:
                answers |= await self._explain(strangers)
            applied = await self._apply(list(decided.values()))
            # In the order of the batch, not of a set.
            for key in decided:
                if key not in applied:
                    continue
                answers[key] = self._applied(decided[key])
                if pending[key].result is None:
                    self._trace_loss(decided[key])
            pending = {key: pending[key] for key in decided if key not in applied}
            if not pending:
                return answers
        for key in pending:
            answers[key] = Unavailable(f"jobs/{key[0]}: its state keeps changing; try again", retry_after_s=1.0)
        return answers

    async def _apply(self, decided: Sequence[Decided]) -> set[tuple[JobId, Fence]]:
        done: set[tuple[JobId, Fence]] = set()
        requeued = [d for d in decided if isinstance(d.decision, Requeue)]
        dead = [d for d in decided if d.decision.state is JobState.DEAD]
        finished = [d for d in decided if isinstance(d.decision, Finish) and d.decision.state is not JobState.DEAD]
        if requeued:
            done |= await self._store.requeue(requeued)
        if finished:
            done |= await self._store.finish(finished)
        if dead:
            done |= await self._store.bury(dead)
        return done

    def _applied(self, decided: Decided) -> Settlement:
        job, decision = decided.job, decided.decision
        self._notices.lease_ended(job.tenant_id, job.id, job.fence)
        if decided.outcome is not None:
            self._metrics.add("rota.attempts.ended", 1, decided.outcome.name.lower())
        if isinstance(decision, Requeue):
            # An attempt that counted was the start that start_by asks for.
            start_by = None if decision.counted else job.start_by
            self._notices.jobs_waiting([_entry(job, decision.due_at, start_by)])
            return Settlement(decision.state, requeued_at=decision.due_at)
        self._metrics.add("rota.jobs.finished", 1, decision.state.name.lower())
        self._notices.job_finished(job.id)
        return Settlement(decision.state)

    async def _explain(self, items: Sequence[_Item]) -> dict[tuple[JobId, Fence], Settlement | RotaError]:
        known = await self._store.ended([(i.tenant_id, i.job_id, i.fence) for i in items])
        answers: dict[tuple[JobId, Fence], Settlement | RotaError] = {}
        for item in items:
            key = (item.job_id, item.fence)
            answer = answers[key] = _explanation(item, known.get(key))
            if isinstance(answer, RotaError) and item.result is not None:
                self._metrics.add("rota.fences.refused", 1, answer.metadata.get("cause", answer.reason).lower())
        return answers

    def _trace_results(
        self, results: Sequence[Result], answers: dict[tuple[JobId, Fence], Settlement | RotaError]
    ) -> None:
        """The end of attempts as the worker's spans see it; a worker that traces nothing has none."""
        if self._traces is None:
            return
        for result in results:
            if not result.traceparent:
                continue
            answer = answers[result.job_id, result.fence]
            self._traces.complete(
                parent=result.traceparent,
                job_id=result.job_id,
                type="",
                attempt=None,
                fence=result.fence,
                outcome=result.outcome.name,
                state=answer.reason if isinstance(answer, RotaError) else answer.state.name,
                error_type=answer.reason if isinstance(answer, RotaError) else _failure_type(result.failure),
                duplicate=isinstance(answer, Settlement) and answer.duplicate,
            )

    def _trace_loss(self, decided: Decided) -> None:
        """The end of an attempt that no worker reported, under the job's own span."""
        job = decided.job
        if self._traces is None or not job.traceparent or decided.outcome is None:
            return
        self._traces.complete(
            parent=job.traceparent,
            job_id=job.id,
            type=job.type,
            attempt=job.attempt,
            fence=job.fence,
            outcome=decided.outcome.name,
            state=decided.decision.state.name,
            error_type=_failure_type(decided.failure),
        )


def _item(result: Result) -> _Item:
    ending = Ending(
        result.outcome,
        result.failure,
        result.retryable,
        result.retry_after_s,
        result.effect_state,
    )
    return _Item(result.tenant_id, result.job_id, result.fence, result.session_id, ending, result)


def _holds(job: LiveJob, item: _Item) -> bool:
    # The tenant too: jobs are looked up for many callers at once.
    return (job.tenant_id, job.fence) == (item.tenant_id, item.fence) and job.state in (
        JobState.LEASED,
        JobState.CANCELLING,
    )


def _decided(job: LiveJob, item: _Item, now: datetime, clock: Clock) -> Decided:
    result = item.result
    return Decided(
        job,
        transition.end_attempt(job, item.ending, now, clock.rng),
        item.ending.outcome,
        item.ending.failure,
        result.request_id if result else "",
        item.ending.effect_state,
        result.effect_receipts if result else (),
    )


def _is_late(job: LiveJob, now: datetime | None) -> bool:
    """By the database's clock: the coordinator's estimate runs ahead where that clock was set back."""
    latest = _start_by(job, job.start_by)
    return now is not None and latest is not None and latest <= now.timestamp()


def _start_by(job: LiveJob, start_by: float | None) -> float | None:
    """When it is handed out no more."""
    if job.deadline_at is None:
        return start_by
    deadline = job.deadline_at.timestamp()
    return deadline if start_by is None else min(start_by, deadline)


def _entry(job: LiveJob, due_at: datetime, start_by: float | None) -> Entry:
    due_us = round(due_at.timestamp() * 1e6)
    return Entry(
        job.tenant_id,
        job.id,
        job.shard,
        job.queue,
        job.type,
        job.priority,
        due_us,
        job.size,
        _start_by(job, start_by),
        job.concurrency_key,
    )


def _explanation(item: _Item, known: Ended | None) -> Settlement | RotaError:
    """Why an outcome was not taken: a repetition of what is stored, or stale, or in conflict with it."""
    if known is None:
        return stale_fence(item.job_id, item.fence, None, "UNKNOWN_JOB")
    # Only a success has no row of its own among the attempts: it is in the job's record.
    stored = known.attempt_outcome or (known.finished_outcome if known.finished_fence == item.fence else None)
    if stored is not None:
        return _ended_attempt(item, known, stored)
    if known.live_fence is not None:
        return stale_fence(item.job_id, item.fence, known.live_fence, "REASSIGNED")
    current = known.finished_fence if known.finished_fence is not None else known.dead_fence
    return stale_fence(item.job_id, item.fence, current, "UNKNOWN_JOB" if current is None else "COMPLETED")


def _ended_attempt(item: _Item, known: Ended, stored: Outcome) -> Settlement | RotaError:
    current = known.live_fence or known.finished_fence or known.dead_fence
    if stored is item.ending.outcome:
        state = known.live_state or known.finished_state or JobState.DEAD
        return Settlement(state, duplicate=True)
    if stored in (Outcome.LEASE_LOST, Outcome.TIMED_OUT, Outcome.UNDELIVERED):
        reassigned = current is not None and current != item.fence
        return stale_fence(item.job_id, item.fence, current, "REASSIGNED" if reassigned else "EXPIRED")
    if stored in (Outcome.RELEASED, Outcome.CANCELLED):
        return stale_fence(item.job_id, item.fence, current, stored.name)
    return outcome_conflict(item.job_id, item.fence, stored.name)


def _failure_type(failure: Failure | None) -> str:
    return failure.type if failure else ""
