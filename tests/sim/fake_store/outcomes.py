"""How attempts end."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from rota.domain.ids import Fence, JobId, TenantId
from rota.domain.model import (
    Failure,
    JobState,
    LiveJob,
    Outcome,
    Result,
)
from rota.domain.schedule import ScheduleState
from rota.domain.transition import Finish, Requeue
from rota.store.codec import instant, micros
from rota.store.port import (
    CreateCall,
    Created,
    Decided,
    Ended,
)

from .jobs import insert_jobs
from .tables import HELD, AttemptRow, JobRow, Port, weight_of


class FakeOutcomes(Port):
    """OutcomeStore."""

    async def succeed(self, results: Sequence[Result]) -> dict[tuple[JobId, Fence], JobState]:
        return await self._write("succeed", lambda: self._succeed(results))

    async def succeed_and_spawn(
        self, result: Result, call: CreateCall
    ) -> tuple[dict[tuple[JobId, Fence], JobState], list[Created]]:
        def work() -> tuple[dict[tuple[JobId, Fence], JobState], list[Created]]:
            done = self._succeed([result])
            if not self._db.guard("spawn: only with the success", bool(done)):
                return done, []
            return done, list(insert_jobs(self._db, call.specs, "", parent=result.job_id).values())

        return await self._write("succeed_and_spawn", work)

    async def live(self, jobs: Sequence[tuple[TenantId, JobId]]) -> tuple[dict[JobId, LiveJob], datetime | None]:
        def work() -> tuple[dict[JobId, LiveJob], datetime | None]:
            rows = [self._db.jobs[key] for key in jobs if key in self._db.jobs]
            return {row.spec.id: self._live(row) for row in rows}, instant(self._db.now_us) if rows else None

        return await self._read("live", work)

    async def requeue(self, items: Sequence[Decided]) -> set[tuple[JobId, Fence]]:
        def work() -> set[tuple[JobId, Fence]]:
            done = set()
            for item in items:
                row = self._match("requeue", item)
                if row is None:
                    continue
                assert isinstance(item.decision, Requeue)
                self._end_attempt(row, item)
                row.state = item.decision.state
                row.due_us = micros(item.decision.due_at)
                row.session_id = row.leased_us = None
                row.attempts_counted += item.decision.counted
                row.last_failure = item.failure or row.last_failure
                done.add((item.job.id, item.job.fence))
                self._note("requeued", row, item, due_us=row.due_us)
            return done

        return await self._write("requeue", work)

    async def finish(self, items: Sequence[Decided]) -> set[tuple[JobId, Fence]]:
        def work() -> set[tuple[JobId, Fence]]:
            done = set()
            for item in items:
                row = self._match("finish", item)
                if row is None:
                    continue
                assert isinstance(item.decision, Finish)
                if item.outcome is not None:
                    self._end_attempt(row, item)
                reason = item.decision.reason or row.cancel_reason
                self._move(row, self._db.finished, item.decision, item.failure, reason)
                row.outcome = item.outcome
                row.effect_state, row.effect_receipts = item.effect_state, item.effect_receipts
                done.add((item.job.id, item.job.fence))
                self._note("finished", row, item)
            return done

        return await self._write("finish", work)

    async def bury(self, items: Sequence[Decided]) -> set[tuple[JobId, Fence]]:
        def work() -> set[tuple[JobId, Fence]]:
            done = set()
            for item in items:
                row = self._match("bury", item)
                if row is None:
                    continue
                assert isinstance(item.decision, Finish)
                if item.outcome is not None:
                    self._end_attempt(row, item)
                self._move(row, self._db.dead, item.decision, item.failure, item.decision.reason)
                self._count_failures(row, 1)
                done.add((item.job.id, item.job.fence))
                self._note("buried", row, item)
            return done

        return await self._write("bury", work)

    async def ended(self, leases: Sequence[tuple[TenantId, JobId, Fence]]) -> dict[tuple[JobId, Fence], Ended]:
        def work() -> dict[tuple[JobId, Fence], Ended]:
            found = {}
            for tenant, job, fence in leases:
                key = (tenant, job)
                live, finished, dead = (t.get(key) for t in (self._db.jobs, self._db.finished, self._db.dead))
                attempt = next((a for a in self._db.attempts.get(key, ()) if a.fence == fence), None)
                found[job, fence] = Ended(
                    live_fence=None if live is None else live.fence,
                    live_state=None if live is None else live.state,
                    attempt_outcome=None if attempt is None else attempt.outcome,
                    finished_fence=None if finished is None else finished.fence,
                    finished_state=None if finished is None else finished.state,
                    finished_outcome=None if finished is None else finished.outcome,
                    dead_fence=None if dead is None else dead.fence,
                )
            return found

        return await self._read("ended", work)

    def _succeed(self, results: Sequence[Result]) -> dict[tuple[JobId, Fence], JobState]:
        db, guard = self._db, self._db.guard
        done = {}
        for result in results:
            row = db.jobs.get((result.tenant_id, result.job_id))
            if row is None or not (
                guard("succeed: fence", row.fence == result.fence)
                and guard("succeed: session", row.session_id == result.session_id)
                and guard("succeed: state", row.state in HELD)
            ):
                continue
            row.despite_cancel = row.state is JobState.CANCELLING
            self._move(row, db.finished, Finish(JobState.SUCCEEDED, counted=True), None, None)
            self._count_failures(row, 0)
            row.outcome = Outcome.SUCCEEDED
            row.result = result.payload
            row.effect_state, row.effect_receipts = result.effect_state, result.effect_receipts
            done[row.spec.id, result.fence] = JobState.SUCCEEDED
            db.history.note(
                "succeeded",
                job=row.spec.id,
                fence=result.fence,
                session=result.session_id,
                counted=row.attempts_counted,
                attempt=row.attempt,
            )
        return done

    def _match(self, statement: str, item: Decided) -> JobRow | None:
        row = self._db.jobs.get((item.job.tenant_id, item.job.id))
        guard = self._db.guard
        if (
            row is None
            or not guard(f"{statement}: fence", row.fence == item.job.fence)
            or not guard(f"{statement}: state", row.state == item.job.state)
        ):
            return None
        return row

    def _move(
        self,
        row: JobRow,
        table: dict[tuple[TenantId, JobId], JobRow],
        decision: Finish,
        failure: Failure | None,
        reason: str | None,
    ) -> None:
        if self._db.intact("move: leaves the live table"):
            del self._db.jobs[row.key]
        else:
            row = replace(row)
        table[row.key] = row
        row.state = decision.state
        row.attempts_counted += decision.counted
        row.last_failure = failure or row.last_failure
        row.ended_us = self._db.now_us
        row.reason = reason

    def _count_failures(self, row: JobRow, dead: int) -> None:
        """Dead jobs in a row of a schedule; one that is to pause after so many is looked at."""
        db = self._db
        schedule = db.schedules.get(row.origin.schedule_uid) if row.origin is not None else None
        if schedule is None or not db.intact("bury: failures of a schedule are counted"):
            return
        timer, most = schedule.timer, schedule.definition.pause_after_failures
        failures = timer.failures + 1 if dead else 0
        arm_at = timer.arm_at
        if dead and most and failures >= most and timer.state is ScheduleState.ACTIVE:
            arm_at = db.now if arm_at is None else min(arm_at, db.now)
        if (failures, arm_at) != (timer.failures, timer.arm_at):
            db.schedules[schedule.uid] = replace(schedule, timer=replace(timer, failures=failures, arm_at=arm_at))
            db.history.note("failing", schedule=schedule.uid, failures=failures, arm=arm_at)

    def _end_attempt(self, row: JobRow, item: Decided) -> None:
        job = item.job
        assert job.leased_at is not None and item.outcome is not None
        self._db.attempts.setdefault(row.key, []).append(
            AttemptRow(
                job.attempt,
                job.fence,
                job.session_id,
                micros(job.leased_at),
                self._db.now_us,
                item.outcome,
                item.failure,
                item.effect_state,
                item.effect_receipts,
            )
        )

    def _note(self, kind: str, row: JobRow, item: Decided, **more: Any) -> None:
        self._db.history.note(
            kind,
            job=row.spec.id,
            fence=item.job.fence,
            session=item.job.session_id,
            state=row.state,
            outcome=item.outcome,
            counted=row.attempts_counted,
            attempt=row.attempt,
            by_worker=bool(item.request_id),
            **more,
        )

    def _live(self, row: JobRow) -> LiveJob:
        spec = row.spec
        return LiveJob(
            tenant_id=spec.tenant_id,
            id=spec.id,
            shard=spec.shard,
            state=row.state,
            type=spec.type,
            queue=spec.queue,
            priority=spec.priority,
            fence=row.fence,
            session_id=row.session_id,
            session_alive=self._db.alive(row.session_id),
            attempt=row.attempt,
            attempts_counted=row.attempts_counted,
            retry=spec.retry,
            due_at=instant(row.due_us),
            leased_at=None if row.leased_us is None else instant(row.leased_us),
            deadline_at=None if row.deadline_us is None else instant(row.deadline_us),
            size=weight_of(spec),
            traceparent=spec.traceparent,
            start_by=row.start_by_s,
            concurrency_key=spec.concurrency_key,
        )
